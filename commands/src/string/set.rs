//! SET and its relatives: what is set on which condition, and when it expires.
use polder_base::number;
use polder_table::{Found, New, Stop};
use polder_values::{Kind, string};

use super::compare::Comparison;
use super::{find, reply_found};
use polder_calls::call::{Call, Outcome, SYNTAX, WRONG_TYPE, integer, is};

/// When SET sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition<'a> {
    Always,
    Absent,
    Present,
    /// When the string that the key holds fits.
    Fits(Comparison<'a>),
}

/// What is to become of the expiry.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Expiry<'a> {
    /// Nothing was said.
    #[default]
    Unsaid,
    Keep,
    Persist,
    At(Unit, &'a [u8]),
}

/// How an expiry is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    milliseconds: u64,
    absolute: bool,
}

impl Unit {
    /// The unit of a span from now on that a word names.
    pub(super) fn relative(word: &[u8]) -> Option<Unit> {
        match word {
            [b'e' | b'E', b'x' | b'X'] => Some(SECONDS),
            [b'p' | b'P', b'x' | b'X'] => Some(MILLISECONDS),
            _ => None,
        }
    }

    /// The moment that `text` names, in milliseconds since the Unix epoch; `None` for what [`moment`] refuses.
    pub(super) fn until(self, text: &[u8], now_ms: u64) -> Option<u64> {
        self.moment(number::integer(text)?, now_ms)
    }

    fn moment(self, count: i64, now_ms: u64) -> Option<u64> {
        let base = if self.absolute { 0 } else { now_ms as i64 };
        let moment = count.checked_mul(self.milliseconds as i64)?.checked_add(base)?;
        (count > 0).then_some(moment as u64)
    }
}

pub(super) const SECONDS: Unit = Unit { milliseconds: 1000, absolute: false };
pub(super) const MILLISECONDS: Unit = Unit { milliseconds: 1, absolute: false };
const UNITS: [(&str, Unit); 4] = [
    ("EX", SECONDS),
    ("PX", MILLISECONDS),
    ("EXAT", Unit { milliseconds: 1000, absolute: true }),
    ("PXAT", Unit { milliseconds: 1, absolute: true }),
];

/// The options of SET.
struct Options<'a> {
    condition: Condition<'a>,
    /// Reply with the old value.
    get: bool,
    expiry: Expiry<'a>,
}

impl<'a> Options<'a> {
    /// An option may be said twice but not contradicted; the last value said counts.
    fn parse(args: &[&'a [u8]]) -> Result<Options<'a>, Stop> {
        let mut options = Options { condition: Condition::Always, get: false, expiry: Expiry::Unsaid };
        let mut rest = args;
        while let [word, later @ ..] = rest {
            rest = later;
            let condition = options.condition;
            if is(word, "NX") && matches!(condition, Condition::Always | Condition::Absent) {
                options.condition = Condition::Absent;
            } else if is(word, "XX") && matches!(condition, Condition::Always | Condition::Present) {
                options.condition = Condition::Present;
            } else if let [operand, later @ ..] = rest
                && condition == Condition::Always
                && let Some(comparison) = Comparison::parse(word, operand)
            {
                options.condition = Condition::Fits(comparison);
                rest = later;
            } else if is(word, "GET") {
                options.get = true;
            } else if is(word, "KEEPTTL") && matches!(options.expiry, Expiry::Unsaid | Expiry::Keep) {
                options.expiry = Expiry::Keep;
            } else {
                rest = options.expiry.parse(word, rest)?;
            }
        }
        Ok(options)
    }
}

impl<'a> Expiry<'a> {
    /// Reads `EX seconds` and the like, `word` being the first of it. Returns what follows.
    pub(super) fn parse<'r>(&mut self, word: &[u8], rest: &'r [&'a [u8]]) -> Result<&'r [&'a [u8]], Stop> {
        let unit = UNITS.iter().find(|(name, _)| is(word, name)).map(|(_, unit)| *unit);
        let (Some(unit), [text, later @ ..]) = (unit, rest) else { return Err(SYNTAX.into()) };
        match *self {
            Expiry::Unsaid => {}
            Expiry::At(before, _) if before == unit => {}
            _ => return Err(SYNTAX.into()),
        }
        *self = Expiry::At(unit, text);
        Ok(later)
    }
}

/// The moment that `text` names, in milliseconds since the Unix epoch.
///
/// # Errors
/// Redis's texts for what is no number, not positive, or beyond 64 bits of milliseconds.
pub(super) fn moment(call: &Call<'_>, unit: Unit, text: &[u8]) -> Result<u64, Stop> {
    let invalid = || format!("ERR invalid expire time in '{}' command", call.command.label()).into();
    unit.moment(integer(text)?, call.txn.now_ms()).ok_or_else(invalid)
}

/// Gives the key the string `bytes`, and tells about it.
fn put(call: &Call<'_>, key: &[u8], bytes: &[u8], expiry_ms: Option<u64>) -> Outcome {
    let value = string::make(call.txn, bytes)?;
    call.replace(key, &New { expiry_ms, ..New::of(Kind::String, value) })?;
    match expiry_ms {
        None => call.tell(&[b"SET", key, bytes]),
        Some(expiry_ms) => {
            call.tell(&[b"SET", key, bytes, b"PXAT", itoa::Buffer::new().format(expiry_ms).as_bytes()])
        }
    }
    call.notify('$', "set", key);
    Ok(())
}

/// As [`put`], with an expiry that was asked for.
fn put_until(call: &Call<'_>, key: &[u8], bytes: &[u8], expiry_ms: u64) -> Outcome {
    put(call, key, bytes, Some(expiry_ms))?;
    call.notify('g', "expire", key);
    Ok(())
}

/// What SET does with its key: some options read it, too.
pub(super) fn touches(args: &[&[u8]]) -> &'static str {
    let says = |word| args.iter().skip(3).any(|arg| is(arg, word));
    match () {
        () if says("GET") => "RW access update",
        () if ["IFEQ", "IFNE", "IFDEQ", "IFDNE"].into_iter().any(says) => "RW update",
        () => "OW update",
    }
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (key, bytes) = (call.args[1], call.args[2]);
    if call.args.len() > 3 {
        return set_with(call, key, bytes);
    }
    let is_new = call.reply.hears_of_new_keys() && call.peek(key)?.is_none();
    put(call, key, bytes, None)?;
    if is_new {
        call.reply.new_key();
    }
    call.reply.ok();
    Ok(())
}

fn set_with(call: &mut Call<'_>, key: &[u8], bytes: &[u8]) -> Outcome {
    let options = Options::parse(&call.args[3..])?;
    let until = match options.expiry {
        Expiry::At(unit, text) => Some(moment(call, unit, text)?),
        _ => None,
    };
    let blind = options.condition == Condition::Always && options.expiry != Expiry::Keep;
    let old = match options.get {
        true => {
            let old = call.find(key)?;
            call.count_look(key, old.is_some());
            if old.is_some_and(|old| old.kind != Kind::String) {
                return Err(WRONG_TYPE.into());
            }
            old
        }
        false if blind => None,
        false => call.find(key)?,
    };
    let meets = match options.condition {
        Condition::Always => true,
        Condition::Absent => old.is_none(),
        Condition::Present => old.is_some(),
        Condition::Fits(comparison) => comparison.is_met_by(call, find(call, key)?.as_ref())?,
    };
    // The old value is replied before its nodes are given up.
    if options.get {
        reply_found(call, &old)?;
    } else if meets {
        call.reply.ok();
    } else {
        call.reply.null();
    }
    match until {
        _ if !meets => Ok(()),
        Some(until) => put_until(call, key, bytes, until),
        None if options.expiry == Expiry::Keep => put(call, key, bytes, old.and_then(|old| old.expiry_ms)),
        None => put(call, key, bytes, None),
    }
}

pub(super) fn setnx(call: &mut Call<'_>) -> Outcome {
    let (key, bytes) = (call.args[1], call.args[2]);
    let absent = call.find(key)?.is_none();
    if absent {
        put(call, key, bytes, None)?;
    }
    call.reply.integer(i64::from(absent));
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> Outcome {
    set_for(call, SECONDS)
}

pub(super) fn psetex(call: &mut Call<'_>) -> Outcome {
    set_for(call, MILLISECONDS)
}

fn set_for(call: &mut Call<'_>, unit: Unit) -> Outcome {
    let until = moment(call, unit, call.args[2])?;
    put_until(call, call.args[1], call.args[3], until)?;
    call.reply.ok();
    Ok(())
}

/// The options of MSETEX, which stand behind its pairs.
fn parse_shared<'a>(args: &[&'a [u8]]) -> Result<(Condition<'a>, Expiry<'a>), Stop> {
    let Options { condition, get, expiry } = Options::parse(args)?;
    let is_known = matches!(condition, Condition::Always | Condition::Absent | Condition::Present);
    if is_known && !get { Ok((condition, expiry)) } else { Err(SYNTAX.into()) }
}

/// Sets all keys or none, with one expiry for all.
pub(super) fn msetex(call: &mut Call<'_>) -> Outcome {
    let count = number::integer(call.args[1]).and_then(|count| i32::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or("ERR invalid numkeys value")? as usize;
    let Some((pairs, options)) = call.args[2..].split_at_checked(2 * count) else {
        return Err("ERR wrong number of key-value pairs".into());
    };
    let (pairs, _) = pairs.as_chunks::<2>();
    let (condition, expiry) = parse_shared(options)?;
    let until = match expiry {
        Expiry::At(unit, text) => Some(moment(call, unit, text)?),
        _ => None,
    };
    if condition != Condition::Always {
        for [key, _] in pairs {
            if call.find(key)?.is_some() != (condition == Condition::Present) {
                call.reply.integer(0);
                return Ok(());
            }
        }
    }
    for [key, bytes] in pairs {
        let expiry_ms = match expiry {
            Expiry::Keep => call.find(key)?.and_then(|old| old.expiry_ms),
            _ => until,
        };
        if until.is_some() {
            call.notify('g', "expire", key);
        }
        put(call, key, bytes, expiry_ms)?;
    }
    call.reply.integer(1);
    Ok(())
}

pub(super) fn getset(call: &mut Call<'_>) -> Outcome {
    let (key, bytes) = (call.args[1], call.args[2]);
    let old = find(call, key)?;
    reply_found(call, &old)?;
    put(call, key, bytes, None)
}

pub(super) fn getex(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let mut expiry = Expiry::Unsaid;
    let mut rest = &call.args[2..];
    while let [word, later @ ..] = rest {
        if is(word, "PERSIST") && matches!(expiry, Expiry::Unsaid | Expiry::Persist) {
            (expiry, rest) = (Expiry::Persist, later);
        } else {
            rest = expiry.parse(word, later)?;
        }
    }
    let found = find(call, key)?;
    // Redis looks at the time only when there is a key that it could be meant for.
    let (Some(old), Expiry::At(unit, text)) = (found, expiry) else {
        reply_found(call, &found)?;
        let persists = found.filter(|old| expiry == Expiry::Persist && old.expiry_ms.is_some());
        return persists.map_or(Ok(()), |old| change_expiry(call, key, old, None, "persist"));
    };
    let until = moment(call, unit, text)?;
    reply_found(call, &found)?;
    if unit.absolute && until <= call.txn.now_ms() && !call.table.imports() {
        call.remove(key)?;
        call.tell(&[b"DEL", key]);
        call.notify('g', "del", key);
        return Ok(());
    }
    change_expiry(call, key, old, Some(until), "expire")
}

fn change_expiry(
    call: &Call<'_>,
    key: &[u8],
    old: Found<'_>,
    expiry_ms: Option<u64>,
    event: &'static str,
) -> Outcome {
    call.edit(key, &New { expiry_ms, ..New::from(old) })?;
    match expiry_ms {
        None => call.tell(&[b"PERSIST", key]),
        Some(expiry_ms) => call.tell(&[b"PEXPIREAT", key, itoa::Buffer::new().format(expiry_ms).as_bytes()]),
    }
    call.notify('g', event, key);
    Ok(())
}
