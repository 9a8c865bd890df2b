//! Values on their way out: what lies in nodes, told to an RDB writer.
use polder_table::{Stop, Txn};
use polder_values::{Kind, Value, string};
use polder_wire::rdb::Writer;

use crate::call::Outcome;

/// A string longer than this, in bytes, is written in pieces and not compressed.
const WHOLE_MAX: u64 = 16 << 20;

/// Tells the writer a value, whose key it knows already. `drain` is called between elements, for whoever empties the writer's buffer.
///
/// # Errors
/// What the memory or `drain` says; a refusal where expiries of fields would be lost and `drops_expiries` does not allow it.
pub(crate) fn encode(
    writer: &mut Writer,
    txn: &Txn<'_>,
    kind: Kind,
    value: &Value<'_>,
    drops_expiries: bool,
    drain: &mut dyn FnMut(&mut Writer) -> Outcome,
) -> Outcome {
    match kind {
        Kind::String => encode_string(writer, txn, value, drain)?,
        _ => return Err(Stop::from("ERR values of this type have no payload yet")),
    }
    let _ = drops_expiries;
    writer.end();
    drain(writer)
}

fn encode_string(writer: &mut Writer, txn: &Txn<'_>, value: &Value<'_>, drain: &mut dyn FnMut(&mut Writer) -> Outcome) -> Outcome {
    let len = string::len(value);
    if len <= WHOLE_MAX {
        writer.text(&string::contiguous(txn, value)?);
        return Ok(());
    }
    writer.begin_text(len);
    for piece in string::pieces(txn, *value, 0, len) {
        writer.piece(piece?.bytes());
        drain(writer)?;
    }
    Ok(())
}
