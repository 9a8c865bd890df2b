//! INCREX: a number in a key grows within bounds, and its expiry is set by the same call.
//!
//! A sum beyond a bound, or beyond what the numbers can hold, changes nothing: the reply is the number as it is and an increment of 0. With
//! SATURATE the number becomes the bound instead.
use polder_base::number::Number;
use polder_table::{Found, Stop};
use polder_values::Value;

use super::count::{NOT_A_FLOAT, NOT_FINITE, integer_in, is_item, number_mode, put_number_until};
use super::find;
use super::set::{Expiry, moment};
use crate::item_effect::tell_item;
use polder_base::number;
use polder_calls::call::{Call, Outcome, SYNTAX, is};

/// The number that is added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Increment<'a> {
    Integer(&'a [u8]),
    Float(&'a [u8]),
}

/// One call, read. Each option may be said once.
#[derive(Default)]
struct Request<'a> {
    increment: Option<Increment<'a>>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    expiry: Expiry<'a>,
    /// An expiry that the key has stays.
    only_first: bool,
}

impl<'a> Request<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Request<'a>, Stop> {
        let mut request = Request::default();
        let mut rest = args;
        while let [word, later @ ..] = rest {
            rest = match (word, later) {
                (word, [value, later @ ..]) if is(word, "BYINT") => {
                    once(&mut request.increment, Increment::Integer(value))?;
                    later
                }
                (word, [value, later @ ..]) if is(word, "BYFLOAT") => {
                    once(&mut request.increment, Increment::Float(value))?;
                    later
                }
                (word, [value, later @ ..]) if is(word, "LBOUND") => {
                    once(&mut request.lower, *value)?;
                    later
                }
                (word, [value, later @ ..]) if is(word, "UBOUND") => {
                    once(&mut request.upper, *value)?;
                    later
                }
                (word, later) if is(word, "SATURATE") && !request.saturates => {
                    request.saturates = true;
                    later
                }
                (word, later) if is(word, "ENX") && !request.only_first => {
                    request.only_first = true;
                    later
                }
                (_, _) if request.expiry != Expiry::Unsaid => return Err(SYNTAX.into()),
                (word, later) if is(word, "PERSIST") => {
                    request.expiry = Expiry::Persist;
                    later
                }
                (word, later) => request.expiry.parse(word, later)?,
            };
        }
        match request.expiry {
            Expiry::Persist if request.only_first => Err(SYNTAX.into()),
            Expiry::Unsaid if request.only_first => Err("ERR ENX flag requires an expiration".into()),
            _ => Ok(request),
        }
    }

    /// The bounds that were given, each read by `read`.
    fn bounds<T>(
        &self,
        read: impl Fn(&[u8], &'static str) -> Result<T, Stop>,
    ) -> Result<[Option<T>; 2], Stop> {
        let lower = self.lower.map(|text| read(text, "LBOUND")).transpose()?;
        Ok([lower, self.upper.map(|text| read(text, "UBOUND")).transpose()?])
    }
}

fn once<T>(option: &mut Option<T>, value: T) -> Outcome {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(SYNTAX.into()),
    }
}

const CROSSED: &str = "ERR LBOUND can't be greater than UBOUND";

pub(super) fn increx(call: &mut Call<'_>) -> Outcome {
    let request = Request::parse(&call.args[2..])?;
    let until = match request.expiry {
        Expiry::At(unit, text) => Some(moment(call, unit, text)?),
        _ => None,
    };
    match request.increment {
        Some(Increment::Float(by)) => add_float(call, &request, by, until),
        Some(Increment::Integer(by)) => add_integer(call, &request, by, until),
        None => add_integer(call, &request, b"1", until),
    }
}

fn add_integer(call: &mut Call<'_>, request: &Request<'_>, by: &[u8], until: Option<u64>) -> Outcome {
    let read = |text: &[u8], what: &'static str| {
        number::integer(text)
            .ok_or_else(|| Stop::from(format!("ERR {what} is not an integer or out of range")))
    };
    let by = read(by, "Increment")?;
    let [lower, upper] = request.bounds(read)?;
    let (lower, upper) = (lower.unwrap_or(i64::MIN), upper.unwrap_or(i64::MAX));
    if lower > upper {
        return Err(CROSSED.into());
    }
    let found = find(call, call.args[1])?;
    let old = integer_in(&found)?;
    let sum = i128::from(old) + i128::from(by);
    let new = sum.clamp(lower.into(), upper.into());
    if new != sum && !request.saturates {
        call.reply.array(2);
        call.reply.integer(old);
        call.reply.integer(0);
        return Ok(());
    }
    let (new, grown) = (new as i64, new - i128::from(old));
    let grown = i64::try_from(grown).map_err(|_| Stop::from("ERR applied increment would overflow"))?;
    let text = itoa::Buffer::new().format(new).to_owned();
    finish(call, request, found, Sum { text: &text, event: "incrby", until })?;
    call.reply.array(2);
    call.reply.integer(new);
    call.reply.integer(grown);
    Ok(())
}

fn add_float(call: &mut Call<'_>, request: &Request<'_>, by: &[u8], until: Option<u64>) -> Outcome {
    let mode = number_mode(call.settings);
    let read = |text: &[u8], what: &'static str| match Number::parse(mode, text) {
        None => Err(Stop::from(format!("ERR {what} is not a valid float"))),
        Some(number) if number.is_infinite() => {
            let what = if what == "Increment" { "BYFLOAT increment" } else { what };
            Err(format!("ERR {what} cannot be Infinity").into())
        }
        Some(number) => Ok(number),
    };
    let by = read(by, "Increment")?;
    let [lower, upper] = request.bounds(read)?;
    let lower = lower.unwrap_or_else(|| Number::most(mode, true));
    let upper = upper.unwrap_or_else(|| Number::most(mode, false));
    if lower.exceeds(upper) {
        return Err(CROSSED.into());
    }
    let found = find(call, call.args[1])?;
    let old = match found {
        None => Some(Number::zero(mode)),
        Some(Found { value: Value::Packed(text), .. }) => Number::parse(mode, text),
        Some(_) => None,
    };
    let old = old.ok_or(NOT_A_FLOAT)?;
    if old.is_infinite() {
        return Err("ERR value cannot be Infinity".into());
    }
    let bound = match old.sum(by) {
        Some(sum) if sum.exceeds(upper) => Err(upper),
        Some(sum) if lower.exceeds(sum) => Err(lower),
        Some(sum) => Ok(sum),
        None if by.is_negative() => Err(lower),
        None => Err(upper),
    };
    let (new, grown) = match bound {
        Ok(sum) => (sum, by),
        Err(_) if !request.saturates => {
            call.reply.array(2);
            call.reply.double_text(&old.text());
            call.reply.double_text("0");
            return Ok(());
        }
        Err(bound) => (bound, bound.sum(old.negated()).ok_or(NOT_FINITE)?),
    };
    let text = new.text();
    finish(call, request, found, Sum { text: &text, event: "incrbyfloat", until })?;
    call.reply.array(2);
    call.reply.double_text(&text);
    call.reply.double_text(&grown.text());
    Ok(())
}

/// The value that a call puts into its key.
struct Sum<'a> {
    text: &'a str,
    event: &'static str,
    until: Option<u64>,
}

/// Puts the sum into the key, and sets its expiry.
fn finish(call: &Call<'_>, request: &Request<'_>, found: Option<Found<'_>>, sum: Sum<'_>) -> Outcome {
    let key = call.args[1];
    let before = found.and_then(|found| found.expiry_ms);
    let until = sum.until.filter(|_| !(request.only_first && before.is_some()));
    if until.is_some_and(|until| until <= call.txn.now_ms()) && !call.table.imports() {
        if call.remove(key)? {
            call.tell(&[b"DEL", key]);
            call.notify('g', "del", key);
        }
        return Ok(());
    }
    let expiry_ms = if request.expiry == Expiry::Persist { None } else { until.or(before) };
    let is_item = is_item(&found);
    let text = sum.text.as_bytes();
    let is_text = sum.event == "incrbyfloat" && number::integer(text).is_some();
    put_number_until(call, key, found, text, is_text, expiry_ms)?;
    // Attributes that SET would not keep are told with the rest.
    match until {
        _ if is_item => tell_item(call, key)?,
        Some(until) => call.tell(&[b"SET", key, text, b"PXAT", itoa::Buffer::new().format(until).as_bytes()]),
        None if expiry_ms == before => call.tell(&[b"SET", key, text, b"KEEPTTL"]),
        None => call.tell(&[b"SET", key, text]),
    }
    call.notify('$', sum.event, key);
    if until.is_some() {
        call.notify('g', "expire", key);
    } else if expiry_ms != before {
        call.notify('g', "persist", key);
    }
    Ok(())
}
