//! Strings as numbers: INCR and its relatives.
use polder_base::number::{self, Number, NumberMode};
use polder_table::{Found, New, Stop};
use polder_values::{Kind, Value};

use super::find;
use crate::item_effect::tell_item;
use polder_calls::call::{Call, NOT_AN_INTEGER, Outcome, integer};
use polder_calls::settings::{Settings, id};

const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(super) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";

pub(super) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Outcome {
    add(call, integer(call.args[2])?)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Outcome {
    let decrement = integer(call.args[2])?;
    add(call, decrement.checked_neg().ok_or(Stop::from("ERR decrement would overflow"))?)
}

/// The integer that a string is, or that an absent key counts as.
pub(super) fn integer_in(found: &Option<Found<'_>>) -> Result<i64, Stop> {
    match found {
        None => Ok(0),
        Some(Found { value: Value::Packed(text), .. }) => integer(text),
        Some(_) => Err(NOT_AN_INTEGER.into()),
    }
}

/// Returns true if a string has attributes of an item, which SET would not keep.
pub(super) fn is_item(found: &Option<Found<'_>>) -> bool {
    found.as_ref().is_some_and(|found| found.flags != 0 || !found.extras.is_empty())
}

/// Adds to the integer in the key; one that is absent counts as 0.
fn add(call: &mut Call<'_>, by: i64) -> Outcome {
    let key = call.args[1];
    let found = find(call, key)?;
    let old = integer_in(&found)?;
    let new = old.checked_add(by).ok_or(Stop::from(OVERFLOW))?;
    put_number(call, key, found, itoa::Buffer::new().format(new).as_bytes(), false)?;
    call.notify('$', "incrby", key);
    call.reply.integer(new);
    Ok(())
}

pub(super) fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let (key, mode) = (call.args[1], number_mode(call.settings));
    let found = find(call, key)?;
    let old = match found {
        None => Some(Number::zero(mode)),
        Some(Found { value: Value::Packed(text), .. }) => Number::parse(mode, text),
        Some(_) => None,
    };
    let (Some(old), Some(by)) = (old, Number::parse(mode, call.args[2])) else {
        return Err(NOT_A_FLOAT.into());
    };
    let sum = old.sum_text(by).ok_or(Stop::from(NOT_FINITE))?;
    let is_item = is_item(&found);
    put_number(call, key, found, sum.as_bytes(), number::integer(sum.as_bytes()).is_some())?;
    // What SET would not keep is told with the rest.
    if is_item {
        tell_item(call, key)?;
    } else {
        call.tell(&[b"SET", key, sum.as_bytes(), b"KEEPTTL"]);
    }
    call.notify('$', "incrbyfloat", key);
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

/// How this memory adds numbers that are not whole.
pub(crate) fn number_mode(settings: &Settings) -> NumberMode {
    match settings.number(const { id("number-mode") }) {
        0 => NumberMode::Decimal,
        _ => NumberMode::Redis,
    }
}

/// Gives the key a number; expiry and flags stay as they were. `text`: it is an integer that Redis would keep as text.
fn put_number(call: &Call<'_>, key: &[u8], found: Option<Found<'_>>, number: &[u8], text: bool) -> Outcome {
    put_number_until(call, key, found, number, text, found.and_then(|found| found.expiry_ms))
}

/// Like [`put_number`], with an expiry of its own.
pub(super) fn put_number_until(
    call: &Call<'_>,
    key: &[u8],
    found: Option<Found<'_>>,
    number: &[u8],
    text: bool,
    expiry_ms: Option<u64>,
) -> Outcome {
    let value = Value::Packed(number);
    let old = found.map_or(New::of(Kind::String, value), New::from);
    let kept = super::kept_extras(old.extras);
    call.put(key, &New { value, raw: false, text, extras: &kept, expiry_ms, ..old })
}
