//! How long keys live: EXPIRE and TTL in their four units each, PERSIST.
//!
//! The table keeps the absolute millisecond; everything else is arithmetic here.
use polder_base::{Reply, number};
use polder_table::{Effect, Mutation, New, Stop};

use polder_calls::call::{Call, Outcome, integer, is};
use polder_calls::command::{Command, FAST, FastCall, read, write};
use polder_calls::facts::Tells::{Own, Verbatim};

const UPDATES: &[&str] = &["RW update"];
const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("EXPIRE", "key seconds [NX|XX|GT|LT]", expire)
        .quick(expire_quickly)
        .shares_key()
        .tells(Own("`PEXPIREAT key ms`; `DEL key` where the time has passed"))
        .with(FAST)
        .touches(UPDATES)
        .changed(&[("7.0.0", "Takes `NX`, `XX`, `GT` and `LT`.")])
        .about("Sets the expiration time of a key in seconds."),
    write("EXPIREAT", "key unix-time-seconds [NX|XX|GT|LT]", expire_at)
        .quick(expire_at_quickly)
        .shares_key()
        .tells(Own("`PEXPIREAT key ms`; `DEL key` where the time has passed"))
        .with(FAST)
        .touches(UPDATES)
        .since("1.2.0")
        .changed(&[("7.0.0", "Takes `NX`, `XX`, `GT` and `LT`.")])
        .about("Sets the expiration time of a key to a Unix timestamp."),
    read("EXPIRETIME", "key", expire_time)
        .with(FAST)
        .since("7.0.0")
        .about("Returns the expiration time of a key as a Unix timestamp."),
    write("PERSIST", "key", persist)
        .quick(persist_quickly)
        .shares_key()
        .tells(Verbatim)
        .with(FAST)
        .touches(UPDATES)
        .since("2.2.0")
        .about("Removes the expiration time of a key."),
    write("PEXPIRE", "key milliseconds [NX|XX|GT|LT]", expire_ms)
        .quick(expire_ms_quickly)
        .shares_key()
        .tells(Own("`PEXPIREAT key ms`; `DEL key` where the time has passed"))
        .with(FAST)
        .touches(UPDATES)
        .since("2.6.0")
        .changed(&[("7.0.0", "Takes `NX`, `XX`, `GT` and `LT`.")])
        .about("Sets the expiration time of a key in milliseconds."),
    write("PEXPIREAT", "key unix-time-milliseconds [NX|XX|GT|LT]", expire_at_ms)
        .quick(expire_at_ms_quickly)
        .shares_key()
        .tells(Own("`PEXPIREAT key ms`; `DEL key` where the time has passed"))
        .with(FAST)
        .touches(UPDATES)
        .since("2.6.0")
        .changed(&[("7.0.0", "Takes `NX`, `XX`, `GT` and `LT`.")])
        .about("Sets the expiration time of a key to a Unix milliseconds timestamp."),
    read("PEXPIRETIME", "key", expire_time_ms)
        .with(FAST)
        .since("7.0.0")
        .about("Returns the expiration time of a key as a Unix milliseconds timestamp."),
    read("PTTL", "key", time_left_ms)
        .with(FAST)
        .tips(NONDETERMINISTIC)
        .since("2.6.0")
        .changed(&[("2.8.0", "Replies -2 for a key that there is not.")])
        .about("Returns the expiration time in milliseconds of a key."),
    read("TTL", "key", time_left)
        .with(FAST)
        .tips(NONDETERMINISTIC)
        .changed(&[("2.8.0", "Replies -2 for a key that there is not.")])
        .about("Returns the expiration time in seconds of a key."),
];

/// In which unit a command speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// What a new expiry must be compared with the old one.
#[derive(Clone, Copy, Default)]
struct Condition {
    absent: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn read(options: &[&[u8]]) -> Result<Condition, Stop> {
        let mut wanted = Condition::default();
        for option in options {
            match option {
                word if is(word, "NX") => wanted.absent = true,
                word if is(word, "XX") => wanted.present = true,
                word if is(word, "GT") => wanted.later = true,
                word if is(word, "LT") => wanted.earlier = true,
                word => {
                    // Redis prints the option as a C string: up to its first zero byte.
                    let shown = word.split(|byte| *byte == 0).next().unwrap_or_default();
                    return Err(format!("ERR Unsupported option {}", String::from_utf8_lossy(shown)).into());
                }
            }
        }
        if wanted.absent && (wanted.present || wanted.later || wanted.earlier) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if wanted.later && wanted.earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(wanted)
    }

    /// A key without expiry counts as one that lives for ever.
    fn holds(self, old: Option<u64>, new_ms: i64) -> bool {
        let old = old.map(|old_ms| i64::try_from(old_ms).unwrap_or(i64::MAX));
        !(self.absent && old.is_some()
            || self.present && old.is_none()
            || self.later && old.is_none_or(|old_ms| new_ms <= old_ms)
            || self.earlier && old.is_some_and(|old_ms| new_ms >= old_ms))
    }
}

fn expire(call: &mut Call<'_>) -> Outcome {
    expire_in(call, Unit::Seconds, call.txn.now_ms())
}

fn expire_ms(call: &mut Call<'_>) -> Outcome {
    expire_in(call, Unit::Milliseconds, call.txn.now_ms())
}

fn expire_at(call: &mut Call<'_>) -> Outcome {
    expire_in(call, Unit::Seconds, 0)
}

fn expire_at_ms(call: &mut Call<'_>) -> Outcome {
    expire_in(call, Unit::Milliseconds, 0)
}

/// Lets a key expire the given units after `base_ms`. A time in the past removes the key, and that
/// counts as done.
fn expire_in(call: &mut Call<'_>, unit: Unit, base_ms: u64) -> Outcome {
    let condition = Condition::read(&call.args[3..])?;
    let expiry_ms = absolute_ms(integer(call.args[2])?, unit, base_ms)
        .ok_or_else(|| format!("ERR invalid expire time in '{}' command", call.command.label()))?;
    let key = call.args[1];
    let done = match call.find(key)? {
        Some(found) if condition.holds(found.expiry_ms, expiry_ms) => {
            let expiry_ms = expiry_ms.max(0) as u64;
            // While data is imported, what has expired stays.
            if expiry_ms > call.txn.now_ms() || call.table.imports() {
                call.edit(key, &New { expiry_ms: Some(expiry_ms), ..New::from(found) })?;
                if call.tells_itself() {
                    call.tell(&[b"PEXPIREAT", key, expiry_ms.to_string().as_bytes()]);
                }
                call.notify('g', "expire", key);
            } else {
                call.remove(key)?;
                call.tell(&[b"DEL", key]);
                call.notify('g', "del", key);
            }
            true
        }
        _ => false,
    };
    call.reply.integer(done.into());
    Ok(())
}

fn expire_quickly(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    expire_in_quickly(call, Unit::Seconds, call.exact_ms(), reply)
}

fn expire_ms_quickly(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    expire_in_quickly(call, Unit::Milliseconds, call.exact_ms(), reply)
}

fn expire_at_quickly(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    expire_in_quickly(call, Unit::Seconds, 0, reply)
}

fn expire_at_ms_quickly(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    expire_in_quickly(call, Unit::Milliseconds, 0, reply)
}

/// As [`expire_in`], of a packed value (`table::update`), if the time is not in the past.
fn expire_in_quickly(call: &FastCall<'_>, unit: Unit, base_ms: u64, reply: &mut dyn Reply) -> bool {
    let Ok(condition) = Condition::read(&call.args[3..]) else { return false };
    let expiry_ms = number::integer(call.args[2]).and_then(|number| absolute_ms(number, unit, base_ms));
    let Some(expiry_ms) = expiry_ms.filter(|expiry_ms| *expiry_ms > call.exact_ms() as i64) else {
        return false;
    };
    let change = |expiry: Option<Option<u64>>| match expiry {
        Some(old_ms) if condition.holds(old_ms, expiry_ms) => {
            (Mutation::Expiring(Some(expiry_ms as u64)), true)
        }
        _ => (Mutation::Same, false),
    };
    let tell = |_: &bool, effect: &mut Effect<'_>| {
        effect.call("PEXPIREAT", &[call.args[1], itoa::Buffer::new().format(expiry_ms).as_bytes()]);
    };
    let done = call.update_telling(None, |old| Some(change(old.map(|old| old.expiry_ms))), tell);
    done.map(|done| reply.integer(done.into())).is_some()
}

fn persist_quickly(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let done = call.update(None, |old| match old {
        Some(old) if old.expiry_ms.is_some() => Some((Mutation::Expiring(None), true)),
        _ => Some((Mutation::Same, false)),
    });
    done.map(|done| reply.integer(done.into())).is_some()
}

/// The absolute time in milliseconds, unless it overflows.
fn absolute_ms(number: i64, unit: Unit, base_ms: u64) -> Option<i64> {
    let ms = if unit == Unit::Seconds { number.checked_mul(1000)? } else { number };
    ms.checked_add(base_ms as i64)
}

fn persist(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let done = match call.find(key)? {
        Some(found) if found.expiry_ms.is_some() => {
            call.edit(key, &New { expiry_ms: None, ..New::from(found) })?;
            call.notify('g', "persist", key);
            true
        }
        _ => false,
    };
    call.reply.integer(done.into());
    Ok(())
}

/// Replies -2 without the key, -1 without expiry, else what `shown` makes of the expiry.
fn answer_time(call: &mut Call<'_>, unit: Unit, shown: impl Fn(u64) -> u64) -> Outcome {
    let found = call.peek(call.args[1])?;
    call.reply.integer(match found.map(|found| found.expiry_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry_ms)) => match unit {
            Unit::Seconds => (shown(expiry_ms).saturating_add(500) / 1000) as i64,
            Unit::Milliseconds => shown(expiry_ms) as i64,
        },
    });
    Ok(())
}

fn time_left(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.txn.now_ms();
    answer_time(call, Unit::Seconds, |expiry_ms| expiry_ms.saturating_sub(now_ms))
}

fn time_left_ms(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.txn.now_ms();
    answer_time(call, Unit::Milliseconds, |expiry_ms| expiry_ms.saturating_sub(now_ms))
}

fn expire_time(call: &mut Call<'_>) -> Outcome {
    answer_time(call, Unit::Seconds, |expiry_ms| expiry_ms)
}

fn expire_time_ms(call: &mut Call<'_>) -> Outcome {
    answer_time(call, Unit::Milliseconds, |expiry_ms| expiry_ms)
}
