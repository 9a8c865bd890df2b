//! XNACK: a consumer gives back what it cannot process, and any other may claim it at once.
//!
//! An entry that was given back stays pending, belongs to no consumer, and stands before all that is claimed because it was idle for long.
//!
//! **Invariant:** what older servers are told is an XCLAIM for the consumer that had the entry, as if it was delivered at the moment 0: any
//! other may claim it. A text of ECHO, which they pass over, says that no consumer owns it.
use polder_base::number;
use polder_table::Stop;
use polder_values::stream::{Group, NO_CONSUMER, Pending};

use super::{find_group, id, no_group, producers, publish, refs};
use polder_calls::call::{Call, Outcome, SYNTAX, is};

/// The change of the number of deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// SILENT: the last delivery does not count.
    Silent,
    /// FAIL: it counts.
    Fail,
    /// FATAL: the greatest number is set, so that no consumer takes it for worth another try.
    Fatal,
}

const DELIVERIES_MAX: u64 = i64::MAX as u64;

/// The arguments of XNACK.
struct Options<'c> {
    mode: Mode,
    ids: &'c [&'c [u8]],
    deliveries: Option<u64>,
    force: bool,
}

fn options<'c>(args: &'c [&'c [u8]]) -> Result<Options<'c>, Stop> {
    let [mode, word, count, rest @ ..] = args else { return Err(SYNTAX.into()) };
    let mode = match () {
        () if is(mode, "SILENT") => Mode::Silent,
        () if is(mode, "FAIL") => Mode::Fail,
        () if is(mode, "FATAL") => Mode::Fatal,
        () => return Err(SYNTAX.into()),
    };
    if !is(word, "IDS") {
        return Err(SYNTAX.into());
    }
    let (ids, mut rest) = refs::numbered(count, rest)?;
    let mut options = Options { mode, ids, deliveries: None, force: false };
    loop {
        rest = match rest {
            [] => return Ok(options),
            [word, rest @ ..] if is(word, "FORCE") => {
                options.force = true;
                rest
            }
            [word, count, rest @ ..] if is(word, "RETRYCOUNT") => {
                let count = number::integer(count).and_then(|count| u64::try_from(count).ok());
                options.deliveries = Some(count.ok_or("ERR Invalid RETRYCOUNT option argument for XNACK")?);
                rest
            }
            _ => return Err(SYNTAX.into()),
        }
    }
}

impl Options<'_> {
    /// The number of deliveries of an entry that is given back.
    fn deliveries(&self, before: Option<u64>) -> u64 {
        match (self.deliveries, self.mode, before) {
            (Some(deliveries), ..) => deliveries,
            (None, Mode::Fatal, _) => DELIVERIES_MAX,
            (None, Mode::Silent, Some(before)) => before.saturating_sub(1),
            (None, Mode::Fail, Some(before)) => before,
            (None, _, None) => 0,
        }
    }
}

pub(super) fn xnack(call: &mut Call<'_>) -> Outcome {
    let (key, name) = (call.args[1], call.args[2]);
    let options = options(&call.args[3..])?;
    let ids = options.ids.iter().map(|text| id::exact(text)).collect::<Result<Vec<_>, _>>()?;
    let (found, mut draft, group) = find_group(call, key, name)?.ok_or_else(|| no_group(key, name))?;
    let mut released = 0;
    for id in ids {
        let stream = draft.view(call.txn);
        let old = stream.find_pending(group.number, id)?;
        // A log tells what was pending also where the entry has gone since.
        if old.is_none() && !(options.force && (call.table.imports() || stream.get(id, &mut |_| {})?)) {
            continue;
        }
        let pending = Pending {
            id,
            consumer: NO_CONSUMER,
            delivered_ms: call.txn.now_ms(),
            deliveries: options.deliveries(old.map(|old| old.deliveries)),
        };
        let owner = old.map_or(NO_CONSUMER, |old| old.consumer);
        if call.tells_itself() {
            tell_released(call, key, &group, &stream.consumer_name(group.number, owner)?, &pending);
        }
        draft.put_pending(call.txn, group.number, &pending)?;
        released += 1;
    }
    if released > 0 {
        // A client that waits to claim something may claim this.
        call.notify('t', "xnack", key);
        publish(call, key, Some(found), &mut draft)?;
    }
    call.reply.integer(released);
    Ok(())
}

/// Says in the change log that a consumer, if it had one, has given an entry back.
fn tell_released(call: &Call<'_>, key: &[u8], group: &Group<'_>, owner: &[u8], pending: &Pending) {
    let [id, last] = [pending.id, group.last].map(|id| id.to_string());
    let count = pending.deliveries.to_string();
    let (id, last, count) = (id.as_bytes(), last.as_bytes(), count.as_bytes());
    let name = &*group.name;
    if !owner.is_empty() {
        let options: [&[u8]; 8] = [b"TIME", b"0", b"RETRYCOUNT", count, b"FORCE", b"JUSTID", b"LASTID", last];
        call.tell(&[&[b"XCLAIM", key, name, owner, b"0", id], &options[..]].concat());
    }
    producers::tell(call, &[b"XNACK", key, name, b"FAIL", b"IDS", b"1", id, b"RETRYCOUNT", count, b"FORCE"]);
}
