//! BITFIELD: integers of any width at any bit of a string.
//!
//! A field is at most 64 bits wide and may begin anywhere, so it lies within nine bytes: these are read, changed and written
//! back. All arguments are read before anything is done.
use polder_base::number;
use polder_table::Stop;
use polder_values::string::{self, Draft};
use polder_values::{Nodes, Value};

use super::OFFSET;
use crate::string::{edit_draft, find, len_max, value_or_empty};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::command::READONLY;

/// The width and signedness of a field.
#[derive(Clone, Copy)]
struct Encoding {
    signed: bool,
    bits: u32,
}

impl Encoding {
    fn parse(text: &[u8]) -> Result<Encoding, Stop> {
        const WRONG: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        let (signed, digits) = match text {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(WRONG.into()),
        };
        // Replies are signed: 64 bits without a sign could not be answered.
        let bits_max = if signed { 64 } else { 63 };
        match number::integer(digits) {
            Some(bits) if (1..=bits_max).contains(&bits) => Ok(Encoding { signed, bits: bits as u32 }),
            _ => Err(WRONG.into()),
        }
    }

    /// A bit's number; `#n` means the n-th field of this width.
    fn offset(self, call: &Call<'_>, text: &[u8]) -> Result<u64, Stop> {
        let offset = match text {
            [b'#', digits @ ..] => {
                number::integer(digits).and_then(|index| index.checked_mul(i64::from(self.bits)))
            }
            digits => number::integer(digits),
        };
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        offset.filter(|offset| offset / 8 < len_max(call)).ok_or_else(|| OFFSET.into())
    }

    fn min(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn max(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The number whose lowest bits are those of `raw`.
    fn wrapped(self, raw: i128) -> i128 {
        let low = raw & ((1 << self.bits) - 1);
        if self.signed && low > self.max() { low - (1 << self.bits) } else { low }
    }
}

/// What becomes of a number that does not fit its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(text: &[u8]) -> Result<Overflow, Stop> {
        let rules = [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
        let rule = rules.iter().find(|(name, _)| is(text, name)).map(|(_, rule)| *rule);
        rule.ok_or_else(|| "ERR Invalid OVERFLOW type specified".into())
    }

    /// The number that fits, if the rule knows one.
    fn fit(self, encoding: Encoding, value: i128) -> Option<i128> {
        if (encoding.min()..=encoding.max()).contains(&value) {
            return Some(value);
        }
        match self {
            Overflow::Wrap => Some(encoding.wrapped(value)),
            Overflow::Saturate => Some(value.clamp(encoding.min(), encoding.max())),
            Overflow::Fail => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

/// One thing to be done with one field.
#[derive(Clone, Copy)]
struct Step {
    action: Action,
    encoding: Encoding,
    /// In bits.
    offset: u64,
    overflow: Overflow,
}

impl Step {
    /// Bytes that a string needs to hold the field.
    fn reach(&self) -> u64 {
        (self.offset + u64::from(self.encoding.bits)).div_ceil(8)
    }

    /// The field's nine bytes as one number, and how far the field stands from its low end.
    fn window(&self, nodes: &dyn Nodes, value: &Value<'_>) -> Result<(u128, u32), Stop> {
        let mut bytes = [0; 16];
        string::read_at(nodes, value, self.offset / 8, &mut bytes[7..])?;
        Ok((u128::from_be_bytes(bytes), 72 - (self.offset % 8) as u32 - self.encoding.bits))
    }

    fn read(&self, nodes: &dyn Nodes, value: &Value<'_>) -> Result<i128, Stop> {
        let (window, shift) = self.window(nodes, value)?;
        Ok(self.encoding.wrapped((window >> shift) as i128))
    }

    fn write(&self, nodes: &dyn Nodes, draft: &mut Draft, value: i128) -> Outcome {
        let (window, shift) = self.window(nodes, &draft.value())?;
        let mask = ((1 << self.encoding.bits) - 1) << shift;
        let bytes = (window & !mask | (value as u128) << shift & mask).to_be_bytes();
        let first = self.offset / 8;
        draft.write(nodes, first, &bytes[7..7 + (self.reach() - first) as usize])?;
        Ok(())
    }
}

fn parse(call: &Call<'_>) -> Result<Vec<Step>, Stop> {
    let (mut steps, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut rest = &call.args[2..];
    while let [word, later @ ..] = rest {
        if let [rule, behind @ ..] = later
            && is(word, "OVERFLOW")
        {
            (overflow, rest) = (Overflow::parse(rule)?, behind);
            continue;
        }
        let [encoding, offset, behind @ ..] = later else { return Err(SYNTAX.into()) };
        let has_value = is(word, "SET") || is(word, "INCRBY");
        if !is(word, "GET") && (!has_value || behind.is_empty()) {
            return Err(SYNTAX.into());
        }
        let encoding = Encoding::parse(encoding)?;
        let offset = encoding.offset(call, offset)?;
        let action = match has_value {
            false => Action::Get,
            true if is(word, "SET") => Action::Set(integer(behind[0])?),
            true => Action::Increment(integer(behind[0])?),
        };
        steps.push(Step { action, encoding, offset, overflow });
        rest = &behind[usize::from(has_value)..];
    }
    Ok(steps)
}

/// What BITFIELD does with its key.
pub(super) fn touches(args: &[&[u8]]) -> &'static str {
    let mut rest = args.get(2..).unwrap_or_default();
    while let [word, later @ ..] = rest {
        let values = match () {
            () if is(word, "GET") => 2,
            () if is(word, "OVERFLOW") => 1,
            () => return "RW access update",
        };
        rest = later.get(values..).unwrap_or_default();
    }
    "RO access"
}

pub(super) fn bitfield(call: &mut Call<'_>) -> Outcome {
    let steps = parse(call)?;
    let reach = steps.iter().filter(|step| !matches!(step.action, Action::Get)).map(Step::reach).max();
    match reach {
        Some(reach) => change(call, &steps, reach),
        None => show(call, &steps),
    }
}

pub(super) fn bitfield_ro(call: &mut Call<'_>) -> Outcome {
    let steps = parse(call)?;
    if steps.iter().any(|step| !matches!(step.action, Action::Get)) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    show(call, &steps)
}

fn show(call: &mut Call<'_>, steps: &[Step]) -> Outcome {
    let found = find(call, call.args[1])?;
    if !call.command.has(READONLY) {
        call.count_look(call.args[1], found.is_some());
    }
    let value = value_or_empty(&found);
    call.reply.array(steps.len());
    for step in steps {
        let number = step.read(call.txn, &value)?;
        call.reply.integer(number as i64);
    }
    Ok(())
}

/// Does the steps on a string of at least `reach` bytes. As in Redis it grows even when every step fails in the end, but
/// listeners hear only of a field that got another number, or of a string that grew under one that was set.
fn change(call: &mut Call<'_>, steps: &[Step], reach: u64) -> Outcome {
    let key = call.args[1];
    let found = find(call, key)?;
    let value = value_or_empty(&found);
    let grows = string::len(&value) < reach;
    let mut draft = Draft::of(&value);
    draft.reach(call.txn, reach)?;
    let mut changed = false;
    call.reply.array(steps.len());
    for step in steps {
        let old = step.read(call.txn, &draft.value())?;
        let (wanted, answer_old) = match step.action {
            Action::Get => {
                call.reply.integer(old as i64);
                continue;
            }
            Action::Set(value) if step.encoding.signed => (i128::from(value), true),
            Action::Set(value) => (i128::from(value as u64), true),
            Action::Increment(by) => (old + i128::from(by), false),
        };
        let Some(new) = step.overflow.fit(step.encoding, wanted) else {
            call.reply.null();
            continue;
        };
        call.reply.integer(if answer_old { old } else { new } as i64);
        if new != old {
            step.write(call.txn, &mut draft, new)?;
        }
        changed |= grows || new != old;
    }
    if changed || grows {
        edit_draft(call, key, found, &draft)?;
    }
    if changed {
        call.notify('$', "setbit", key);
    }
    Ok(())
}
