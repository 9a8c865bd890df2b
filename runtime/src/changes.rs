//! What the runtime adds to the change log: dumps of values that no call has told of.
use polder_commands::dump::{Source, encode};
use polder_table::{Found, Stop};
use polder_values::Nodes;
use polder_wire::rdb::{Form, Thresholds, Writer};

/// Redis's own limits of packed forms: a dump for the change log depends on no setting.
const THRESHOLDS: Thresholds = Thresholds {
    hash_entries: 128,
    hash_value: 64,
    set_integers: 512,
    set_entries: 128,
    set_value: 64,
    scores_entries: 128,
    scores_value: 64,
};

/// Appends the dump of a value to `into`, as DUMP replies it ([`polder_table::Dump`]).
///
/// # Errors
/// A damaged value.
pub fn dump_whole(nodes: &dyn Nodes, found: &Found<'_>, into: &mut Vec<u8>) -> Result<(), Stop> {
    let mut writer = Writer::new(Form::Lowest, false, THRESHOLDS);
    let source = Source { nodes, now_ms: 0, drops_expiries: false };
    encode(&mut writer, &source, found.kind, &found.value, &mut |_| Ok(()))?;
    into.extend_from_slice(&writer.seal());
    Ok(())
}
