//! Fields that expire: HEXPIRE and its kin, and the commands that get or set fields together with their expiry.
//!
//! Redis keeps two bits of a field's expiry for itself, so that no field expires after the year 4199; neither does one here.
use polder_base::number;
use polder_table::Stop;
use polder_values::hash::Expiry;

use super::{Edit, Names, open, reply_value};
use polder_calls::call::wrong_arity;
use polder_calls::call::{Call, Outcome, integer, is};

/// The latest expiry of a field, in milliseconds since the Unix epoch.
const LATEST_MS: i64 = (1 << 46) - 1;

const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const WRONG_COUNT: &str = "ERR The `numfields` parameter must match the number of arguments";
const NO_COUNT: &str = "ERR Number of fields must be a positive integer";

/// What is answered for a field that there is not, for one without an expiry, ...
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
/// ... and by HEXPIRE for one that was left as it is, was changed, and was taken away because its time has come already.
const UNMET: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

/// In which unit a command speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// The moment that `text` names, so long after `base_ms`.
///
/// # Errors
/// Redis's texts for what is no number, negative or too far away.
fn moment(call: &Call<'_>, text: &[u8], unit: Unit, base_ms: u64) -> Result<u64, Stop> {
    let number = integer(text)?;
    if number < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let span_ms = if unit == Unit::Seconds { number.checked_mul(1000) } else { Some(number) };
    match span_ms.filter(|span_ms| *span_ms <= LATEST_MS - base_ms as i64) {
        Some(span_ms) => Ok(span_ms as u64 + base_ms),
        None => Err(format!("ERR invalid expire time in '{}' command", call.command.label()).into()),
    }
}

/// Whether a field that gets this expiry is removed at once. While data is imported it stays, as keys do.
fn is_past(call: &Call<'_>, expiry_ms: u64) -> bool {
    expiry_ms <= call.txn.now_ms() && !call.table.imports()
}

/// The fields behind `FIELDS numfields`; `no_count` is said where `numfields` is no number above 0.
fn fields<'r, 'c>(args: &'r [&'c [u8]], no_count: &'static str) -> Result<&'r [&'c [u8]], Stop> {
    let [word, count, fields @ ..] = args else { return Err(NO_FIELDS.into()) };
    if !is(word, "FIELDS") {
        return Err(NO_FIELDS.into());
    }
    let count = number::integer(count).filter(|count| *count > 0).ok_or(no_count)?;
    if count as u64 == fields.len() as u64 { Ok(fields) } else { Err(WRONG_COUNT.into()) }
}

/// What the new expiry of a field must be compared with the old one.
#[derive(Clone, Copy)]
enum Condition {
    Always,
    Absent,
    Present,
    Later,
    Earlier,
}

impl Condition {
    /// The condition that stands before FIELDS, if any does, and what follows.
    fn read<'r, 'c>(args: &'r [&'c [u8]]) -> (Condition, &'r [&'c [u8]]) {
        const WORDS: [(&str, Condition); 4] = [
            ("NX", Condition::Absent),
            ("XX", Condition::Present),
            ("GT", Condition::Later),
            ("LT", Condition::Earlier),
        ];
        let said = WORDS.iter().find(|(word, _)| args.first().is_some_and(|arg| is(arg, word)));
        said.map_or((Condition::Always, args), |(_, condition)| (*condition, &args[1..]))
    }

    /// A field without expiry counts as one that lives for ever.
    fn holds(self, old: Option<u64>, new_ms: u64) -> bool {
        match self {
            Condition::Always => true,
            Condition::Absent => old.is_none(),
            Condition::Present => old.is_some(),
            Condition::Later => old.is_some_and(|old_ms| new_ms > old_ms),
            Condition::Earlier => old.is_none_or(|old_ms| new_ms < old_ms),
        }
    }
}

pub(super) fn hexpire(call: &mut Call<'_>) -> Outcome {
    expire(call, Unit::Seconds, call.txn.now_ms())
}

pub(super) fn hpexpire(call: &mut Call<'_>) -> Outcome {
    expire(call, Unit::Milliseconds, call.txn.now_ms())
}

pub(super) fn hexpireat(call: &mut Call<'_>) -> Outcome {
    expire(call, Unit::Seconds, 0)
}

pub(super) fn hpexpireat(call: &mut Call<'_>) -> Outcome {
    expire(call, Unit::Milliseconds, 0)
}

fn expire(call: &mut Call<'_>, unit: Unit, base_ms: u64) -> Outcome {
    let (txn, mut edit) = (call.txn, Edit::open(call)?);
    let expiry_ms = moment(call, call.args[2], unit, base_ms)?;
    let (condition, rest) = Condition::read(&call.args[3..]);
    let fields = fields(rest, "ERR Parameter `numFields` should be greater than 0")?;
    call.reply.array(fields.len());
    let (mut updated, mut deleted) = (Vec::new(), Vec::new());
    for &field in fields {
        let spot = edit.draft.find(txn, field, || txn.field_clock_ms())?;
        call.reply.integer(if !spot.lives {
            NO_FIELD
        } else if !condition.holds(spot.expiry_ms(), expiry_ms) {
            UNMET
        } else if is_past(call, expiry_ms) {
            edit.draft.remove(txn, &spot, field)?;
            deleted.push(field);
            DELETED
        } else {
            edit.draft.expire(txn, &spot, Some(expiry_ms))?;
            updated.push(field);
            DONE
        });
    }
    tell_expiry(call, Expiry::At(expiry_ms), &updated, &deleted);
    match (updated.is_empty(), deleted.is_empty()) {
        (true, true) => Ok(()),
        (_, true) => edit.publish(call, &[("hexpire", Names::Each(&updated))]),
        _ => edit.publish(call, &[("hdel", Names::Each(&deleted))]),
    }
}

pub(super) fn hpersist(call: &mut Call<'_>) -> Outcome {
    let (txn, mut edit) = (call.txn, Edit::open(call)?);
    let fields = fields(&call.args[2..], NO_COUNT)?;
    call.reply.array(fields.len());
    let mut changed = Vec::new();
    for &field in fields {
        let spot = edit.draft.find(txn, field, || txn.field_clock_ms())?;
        call.reply.integer(if !spot.lives {
            NO_FIELD
        } else if spot.expiry_ms().is_none() {
            NO_EXPIRY
        } else {
            edit.draft.expire(txn, &spot, None)?;
            changed.push(field);
            DONE
        });
    }
    tell_expiry(call, Expiry::None, &changed, &[]);
    if changed.is_empty() { Ok(()) } else { edit.publish(call, &[("hpersist", Names::Each(&changed))]) }
}

pub(super) fn httl(call: &mut Call<'_>) -> Outcome {
    answer_times(call, Unit::Seconds, call.txn.now_ms())
}

pub(super) fn hpttl(call: &mut Call<'_>) -> Outcome {
    answer_times(call, Unit::Milliseconds, call.txn.now_ms())
}

pub(super) fn hexpiretime(call: &mut Call<'_>) -> Outcome {
    answer_times(call, Unit::Seconds, 0)
}

pub(super) fn hpexpiretime(call: &mut Call<'_>) -> Outcome {
    answer_times(call, Unit::Milliseconds, 0)
}

/// Replies when each field expires, counted from `base_ms`; seconds are rounded up.
fn answer_times(call: &mut Call<'_>, unit: Unit, base_ms: u64) -> Outcome {
    let (txn, hash) = (call.txn, open(call)?);
    let fields = fields(&call.args[2..], NO_COUNT)?;
    call.reply.array(fields.len());
    for name in fields {
        let field = match &hash {
            Some(hash) => hash.get(txn, name, || txn.field_clock_ms())?,
            None => None,
        };
        call.reply.integer(match field.map(|field| field.expiry_ms()) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(expiry_ms)) if unit == Unit::Seconds => {
                expiry_ms.saturating_sub(base_ms).div_ceil(1000) as i64
            }
            Some(Some(expiry_ms)) => expiry_ms.saturating_sub(base_ms) as i64,
        });
    }
    Ok(())
}

pub(super) fn hgetdel(call: &mut Call<'_>) -> Outcome {
    let (txn, mut edit) = (call.txn, Edit::open(call)?);
    let fields = fields(&call.args[2..], NO_COUNT)?;
    call.reply.array(fields.len());
    let mut deleted = Vec::new();
    for &name in fields {
        let (spot, field) = edit.draft.look(txn, name, || txn.field_clock_ms())?;
        reply_value(call, field)?;
        if spot.lives {
            edit.draft.remove(txn, &spot, name)?;
            deleted.push(name);
        }
    }
    tell_expiry(call, Expiry::Keep, &[], &deleted);
    if deleted.is_empty() { Ok(()) } else { edit.publish(call, &[("hdel", Names::Each(&deleted))]) }
}

/// The words that say when something expires, with their unit and whether they count from now.
const WORDS: [(&str, Unit, bool); 4] = [
    ("EX", Unit::Seconds, true),
    ("PX", Unit::Milliseconds, true),
    ("EXAT", Unit::Seconds, false),
    ("PXAT", Unit::Milliseconds, false),
];

/// The unit that a word names, and the time from which it counts.
fn unit_of(call: &Call<'_>, word: &[u8]) -> Option<(Unit, u64)> {
    let (_, unit, relative) = WORDS.iter().find(|(name, ..)| is(word, name))?;
    Some((*unit, if *relative { call.txn.now_ms() } else { 0 }))
}

/// Says in the change log which fields have got an expiry, or none any more, and which have gone.
fn tell_expiry(call: &Call<'_>, expiry: Expiry, updated: &[&[u8]], deleted: &[&[u8]]) {
    if !call.tells_itself() {
        return;
    }
    let key = call.args[1];
    match expiry {
        Expiry::At(expiry_ms) => {
            call.tell_fields(&[b"HPEXPIREAT", key, expiry_ms.to_string().as_bytes()], updated)
        }
        Expiry::None => call.tell_fields(&[b"HPERSIST", key], updated),
        Expiry::Keep => {}
    }
    call.tell_many(&[b"HDEL", key], deleted);
}

pub(super) fn hgetex(call: &mut Call<'_>) -> Outcome {
    let (txn, mut edit) = (call.txn, Edit::open(call)?);
    let mut rest = &call.args[2..];
    let mut wanted = Expiry::Keep;
    if let Some((unit, base_ms)) = unit_of(call, rest[0]) {
        wanted = Expiry::At(moment(call, rest[1], unit, base_ms)?);
        rest = &rest[2..];
    } else if is(rest[0], "PERSIST") {
        wanted = Expiry::None;
        rest = &rest[1..];
    }
    let fields = fields(rest, NO_COUNT)?;
    call.reply.array(fields.len());
    let (mut updated, mut deleted) = (Vec::new(), Vec::new());
    for &name in fields {
        let (spot, field) = edit.draft.look(txn, name, || txn.field_clock_ms())?;
        reply_value(call, field)?;
        match wanted {
            Expiry::At(expiry_ms) if spot.lives && is_past(call, expiry_ms) => {
                edit.draft.remove(txn, &spot, name)?;
                deleted.push(name);
            }
            Expiry::At(expiry_ms) if spot.lives => {
                edit.draft.expire(txn, &spot, Some(expiry_ms))?;
                updated.push(name);
            }
            Expiry::None if spot.expiry_ms().is_some() => {
                edit.draft.expire(txn, &spot, None)?;
                updated.push(name);
            }
            _ => {}
        }
    }
    tell_expiry(call, wanted, &updated, &deleted);
    match (!updated.is_empty(), !deleted.is_empty()) {
        (true, _) => {
            let event = if wanted == Expiry::None { "hpersist" } else { "hexpire" };
            edit.publish(call, &[(event, Names::Each(&updated))])
        }
        (_, true) => edit.publish(call, &[("hdel", Names::Each(&deleted))]),
        _ => Ok(()),
    }
}

/// What HSETEX is to do.
struct Setting<'c> {
    /// NX and XX (Valkey's): whether the key must be there.
    key: Option<bool>,
    /// FNX and FXX: whether all of the fields must be there, or none.
    fields: Option<bool>,
    /// Nothing said takes an old expiry away.
    expiry: Option<Expiry>,
    pairs: &'c [[&'c [u8]; 2]],
}

impl<'c> Setting<'c> {
    fn read(call: &Call<'c>) -> Result<Setting<'c>, Stop> {
        let mut setting = Setting { key: None, fields: None, expiry: None, pairs: &[] };
        let mut rest = &call.args[2..];
        while let [word, later @ ..] = rest {
            rest = later;
            if is(word, "FIELDS") {
                setting.pairs = pairs(call, later)?;
                return Ok(setting);
            }
            if is(word, "FXX") || is(word, "FNX") {
                if setting.fields.replace(is(word, "FXX")).is_some() {
                    return Err("ERR Only one of FXX or FNX arguments can be specified".into());
                }
            } else if is(word, "XX") || is(word, "NX") {
                if setting.key.replace(is(word, "XX")).is_some() {
                    return Err("ERR Only one of XX or NX arguments can be specified".into());
                }
            } else {
                let unit = unit_of(call, word);
                if unit.is_none() && !is(word, "KEEPTTL") {
                    return Err(format!("ERR unknown argument: {}", String::from_utf8_lossy(word)).into());
                }
                if setting.expiry.is_some() {
                    return Err(
                        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified".into()
                    );
                }
                setting.expiry = Some(match unit {
                    None => Expiry::Keep,
                    Some((unit, base_ms)) => {
                        let [text, later @ ..] = rest else { return Err("ERR missing expire time".into()) };
                        rest = later;
                        Expiry::At(moment(call, text, unit, base_ms)?)
                    }
                });
            }
        }
        Err(NO_FIELDS.into())
    }
}

/// The pairs behind the word FIELDS.
fn pairs<'c>(call: &Call<'c>, args: &'c [&'c [u8]]) -> Result<&'c [[&'c [u8]; 2]], Stop> {
    let [count, rest @ ..] = args else { return Err(wrong_arity(call.command)) };
    if rest.len() < 2 {
        return Err(wrong_arity(call.command));
    }
    let count = number::integer(count).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or("ERR invalid number of fields")?;
    match rest.as_chunks() {
        (pairs, []) if pairs.len() as i64 == count => Ok(pairs),
        _ => Err(wrong_arity(call.command)),
    }
}

/// Says in the change log what HSETEX has set.
fn tell_set(call: &Call<'_>, expiry: Expiry, gone: bool, pairs: &[[&[u8]; 2]]) {
    if !call.tells_itself() {
        return;
    }
    let (key, fields) = (call.args[1], Vec::from_iter(pairs.iter().map(|[field, _]| *field)));
    match expiry {
        Expiry::At(_) if gone => call.tell_many(&[b"HDEL", key], &fields),
        Expiry::Keep => {
            let count = pairs.len().to_string();
            call.tell(
                &[&[b"HSETEX", key, b"KEEPTTL", b"FIELDS", count.as_bytes()], pairs.as_flattened()].concat(),
            );
        }
        _ => {
            // This takes an old expiry away.
            call.tell_many(&[b"HSET", key], pairs.as_flattened());
            if expiry != Expiry::None {
                tell_expiry(call, expiry, &fields, &[]);
            }
        }
    }
}

pub(super) fn hsetex(call: &mut Call<'_>) -> Outcome {
    let setting = Setting::read(call)?;
    let (txn, mut edit) = (call.txn, Edit::open(call)?);
    let mut meets = setting.key.is_none_or(|present| present == edit.found.is_some());
    if let Some(present) = setting.fields {
        for [field, _] in setting.pairs {
            meets = meets && edit.draft.find(txn, field, || txn.field_clock_ms())?.lives == present;
        }
    }
    call.reply.integer(meets.into());
    if !meets {
        return Ok(());
    }
    let expiry = setting.expiry.unwrap_or(Expiry::None);
    let is_gone = matches!(expiry, Expiry::At(expiry_ms) if is_past(call, expiry_ms));
    edit.draft.expect(setting.pairs.len() as u64);
    for [field, value] in setting.pairs {
        let spot = edit.spot(call, field)?;
        if is_gone {
            edit.draft.remove(txn, &spot, field)?;
        } else {
            edit.draft.put(txn, &spot, field, value, expiry)?;
        }
    }
    tell_set(call, expiry, is_gone, setting.pairs);
    let names = Names::OfPairs(setting.pairs);
    let [set, gone, expires] = ["hset", "hdel", "hexpire"].map(|event| (event, names));
    match expiry {
        Expiry::At(_) if is_gone => edit.publish(call, &[set, gone]),
        Expiry::At(_) => edit.publish(call, &[set, expires]),
        _ => edit.publish(call, &[set]),
    }
}
