//! Entries that producers send again: XADD with IDMP or IDMPAUTO, XCFGSET, XIDMPRECORD.
//!
//! A producer gives each entry an id of its own (IDMP), or has one made of its fields and values (IDMPAUTO). For as long as the stream
//! knows that id, an XADD with it adds nothing and replies with the id of the entry that was added.
//!
//! **Invariant:** whether an id is still known depends on the clock, on the entry's id and on the stream's own settings, not on when
//! something was last tidied up: what is over is passed over by readers, and goes when its producer adds the next entry, or in turn with
//! the other producers.
use polder_base::aside::frame;
use polder_table::{Aside, Stop};
use polder_values::stream::{Draft, Id, Production, Stream};
use xxhash_rust::xxh3::xxh3_128;

use super::{find_draft, id, publish};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::settings::id as setting;

const SECONDS_MAX: i64 = 86_400;
const IDS_MAX: i64 = 10_000;

/// The producer that an XADD names, and its id for the entry; none: of fields and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin<'c> {
    pub producer: &'c [u8],
    pub iid: Option<&'c [u8]>,
}

impl<'c> Origin<'c> {
    /// Reads what stands behind IDMP or IDMPAUTO.
    pub fn parse(words: &[&'c [u8]]) -> Result<Option<(Origin<'c>, usize)>, Stop> {
        let (name, origin, used) = match words {
            [word, producer, iid, ..] if is(word, "IDMP") => ("IDMP", Origin { producer, iid: Some(iid) }, 3),
            [word, producer, ..] if is(word, "IDMPAUTO") => ("IDMPAUTO", Origin { producer, iid: None }, 2),
            _ => return Ok(None),
        };
        match origin {
            Origin { producer: b"", .. } => {
                Err(format!("ERR syntax error, {name} requires a non-empty producer ID").into())
            }
            Origin { iid: Some(b""), .. } => {
                Err("ERR syntax error, IDMP requires a non-empty idempotent ID".into())
            }
            _ => Ok(Some((origin, used))),
        }
    }

    /// The producer's id for an entry of these fields and values. One that is made of them does not depend on their order.
    pub fn iid(&self, pairs: &[&[u8]]) -> Vec<u8> {
        if let Some(iid) = self.iid {
            return iid.to_vec();
        }
        let mut sum = 0u128;
        for pair in pairs.chunks(2) {
            let mut bytes = (pair[0].len() as u64).to_le_bytes().to_vec();
            pair.iter().for_each(|word| bytes.extend_from_slice(word));
            sum = sum.wrapping_add(xxh3_128(&bytes));
        }
        sum.to_be_bytes().to_vec()
    }
}

/// The treatment of a producer by a stream that has had none yet.
pub(super) fn default_production(call: &Call<'_>) -> Production {
    let number = |id| call.settings.number(id) as u32;
    Production::new(
        number(const { setting("stream-idmp-duration") }),
        number(const { setting("stream-idmp-maxsize") }),
    )
}

/// The least id of an entry that is still known by its producer's id.
fn first_known(call: &Call<'_>, production: &Production) -> Id {
    let over_ms = call.txn.now_ms().checked_sub(u64::from(production.duration_s) * 1000);
    over_ms.map_or(Id::MIN, |ms| Id { ms: ms + 1, seq: 0 })
}

/// The number of producers whose entries are still known, and of such entries.
pub(super) fn known(call: &Call<'_>, stream: &Stream<'_>) -> Result<(u64, u64), Stop> {
    let Some(production) = stream.production() else { return Ok((0, 0)) };
    let (from, mut counts) = (first_known(call, &production), (0, 0));
    for producer in stream.producers() {
        let known = stream.produced_len(producer?.number, from)?;
        counts = (counts.0 + u64::from(known > 0), counts.1 + known);
    }
    Ok(counts)
}

/// The entry that a producer has added already by this id.
pub(super) fn find(
    call: &Call<'_>,
    draft: &Draft<'_>,
    producer: &[u8],
    iid: &[u8],
) -> Result<Option<Id>, Stop> {
    let stream = draft.view(call.txn);
    let Some(production) = stream.production() else { return Ok(None) };
    let Some(number) = stream.producer(producer)? else { return Ok(None) };
    let from = first_known(call, &production);
    Ok(stream.find_produced(number, iid)?.filter(|id| *id >= from))
}

/// Counts an entry that was not added since it is there.
pub(super) fn note_duplicate(call: &Call<'_>, key: &[u8], draft: &mut Draft<'_>) {
    let Some(production) = draft.view(call.txn).production() else { return };
    let duplicates = production.duplicates.wrapping_add(1);
    draft.set_produced(production.added, duplicates);
    if call.tells_itself() {
        tell(call, &[b"XCFGSET", key, b"IDMP-DUPLICATES", duplicates.to_string().as_bytes()]);
    }
}

/// Notes the id by which a producer knows an entry.
pub(super) fn note(
    call: &Call<'_>,
    key: &[u8],
    draft: &mut Draft<'_>,
    (producer, iid): (&[u8], &[u8]),
    id: Id,
) -> Outcome {
    let production = match draft.view(call.txn).production() {
        Some(production) => production,
        None => {
            let production = default_production(call);
            draft.set_production(call.txn, production.duration_s, production.ids_max)?;
            production
        }
    };
    let from = first_known(call, &production);
    make_room(call, draft, producer, from, Some(production.ids_max.into()))?;
    // One of the others in turn.
    let count = draft.view(call.txn).producers_len();
    if let Some(rank) = production.added.checked_rem(count) {
        let other = draft.view(call.txn).producer_at(rank)?.name.into_owned();
        if other != producer {
            make_room(call, draft, &other, from, None)?;
        }
    }
    draft.note_produced(call.txn, producer, iid, id)?;
    draft.set_produced(production.added.wrapping_add(1), production.duplicates);
    if call.tells_itself() {
        tell(call, &[b"XIDMPRECORD", key, producer, iid, id.to_string().as_bytes()]);
    }
    Ok(())
}

/// Forgets what a producer knows of entries before `from`, and more if there would be more than `most` with the next one.
fn make_room(
    call: &Call<'_>,
    draft: &mut Draft<'_>,
    producer: &[u8],
    from: Id,
    most: Option<u64>,
) -> Outcome {
    let stream = draft.view(call.txn);
    let Some(number) = stream.producer(producer)? else { return Ok(()) };
    let (all, known) = (stream.produced_len(number, Id::MIN)?, stream.produced_len(number, from)?);
    let surplus = most.map_or(0, |most| (all + 1).saturating_sub(most));
    let gone = (all - known).max(surplus);
    if gone > 0 {
        draft.forget_produced(call.txn, producer, gone)?;
    }
    Ok(())
}

/// Says in the change log what stock servers do not know, and pass over.
pub(super) fn tell(call: &Call<'_>, words: &[&[u8]]) {
    call.txn.tell_aside(call.db(), &Aside::Call { words: &frame(words) });
}

/// The settings that XCFGSET is told. The counts come from a change log only.
#[derive(Default)]
struct Wanted {
    seconds: Option<i64>,
    ids_max: Option<i64>,
    added: Option<i64>,
    duplicates: Option<i64>,
}

fn wanted(call: &Call<'_>) -> Result<Wanted, Stop> {
    let mut wanted = Wanted::default();
    let (mut rest, imports) = (&call.args[2..], call.table.imports());
    while let [word, number, more @ ..] = rest {
        let (name, place, most, unit) = match () {
            () if is(word, "IDMP-DURATION") => ("IDMP-DURATION", &mut wanted.seconds, SECONDS_MAX, "seconds"),
            () if is(word, "IDMP-MAXSIZE") => ("IDMP-MAXSIZE", &mut wanted.ids_max, IDS_MAX, "entries"),
            () if imports && is(word, "IDMP-ADDED") => ("IDMP-ADDED", &mut wanted.added, i64::MAX, ""),
            () if imports && is(word, "IDMP-DUPLICATES") => {
                ("IDMP-DUPLICATES", &mut wanted.duplicates, i64::MAX, "")
            }
            () => return Err(SYNTAX.into()),
        };
        if place.is_some() {
            return Err(format!("ERR {name} specified multiple times").into());
        }
        let number = integer(number)?;
        if !unit.is_empty() && !(1..=most).contains(&number) {
            return Err(format!("ERR {name} must be between 1 and {most} {unit}").into());
        }
        (*place, rest) = (Some(number), more);
    }
    if rest.is_empty() { Ok(wanted) } else { Err(SYNTAX.into()) }
}

pub(super) fn xcfgset(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let (found, mut draft) = find_draft(call, key)?.ok_or("ERR no such key")?;
    if call.args.len() == 2 {
        return Err("ERR At least one parameter must be specified".into());
    }
    let wanted = wanted(call)?;
    let before = draft.view(call.txn).production();
    let old = before.unwrap_or_else(|| default_production(call));
    let number = |wanted: Option<i64>, old: u32| wanted.map_or(old, |number| number as u32);
    let (seconds, ids_max) = (number(wanted.seconds, old.duration_s), number(wanted.ids_max, old.ids_max));
    let (added, duplicates) = (
        wanted.added.map_or(old.added, |count| count as u64),
        wanted.duplicates.map_or(old.duplicates, |count| count as u64),
    );
    if (seconds, ids_max, added, duplicates) != (old.duration_s, old.ids_max, old.added, old.duplicates) {
        draft.set_production(call.txn, seconds, ids_max)?;
        draft.set_produced(added, duplicates);
        if call.tells_itself() {
            let [seconds, ids_max] = [seconds, ids_max].map(|number| number.to_string());
            let (seconds, ids_max) = (seconds.as_bytes(), ids_max.as_bytes());
            tell(call, &[b"XCFGSET", key, b"IDMP-DURATION", seconds, b"IDMP-MAXSIZE", ids_max]);
        }
        publish(call, key, Some(found), &mut draft)?;
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn xidmprecord(call: &mut Call<'_>) -> Outcome {
    let [_, key, producer, iid, text] = *call.args else { return Err(SYNTAX.into()) };
    let id = id::exact(text)?;
    if producer.is_empty() {
        return Err("ERR producer ID must be non-empty".into());
    }
    if iid.is_empty() {
        return Err("ERR idempotent ID must be non-empty".into());
    }
    let (found, mut draft) = find_draft(call, key)?.ok_or("ERR no such key")?;
    // A log tells of entries that have gone since.
    if !call.table.imports() && !draft.view(call.txn).get(id, &mut |_| {})? {
        return Err("ERR No such message in stream".into());
    }
    let known = match draft.view(call.txn).producer(producer)? {
        Some(number) => draft.view(call.txn).find_produced(number, iid)?,
        None => None,
    };
    if known != Some(id) {
        if known.is_some() && !call.table.imports() {
            return Err("ERR IID already exists for this producer with a different stream ID".into());
        }
        note(call, key, &mut draft, (producer, iid), id)?;
        publish(call, key, Some(found), &mut draft)?;
    }
    call.reply.ok();
    Ok(())
}
