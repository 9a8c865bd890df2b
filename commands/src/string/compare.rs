//! Strings compared with a text or with a digest: the conditions of SET and DELEX, DELIFEQ, DIGEST.
//!
//! A digest is the XXH3 hash (64 bits, no seed) of the whole string, written as 16 hexadecimal digits.
use polder_table::{Found, Stop};
use polder_values::{Kind, Value, string};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::find;
use polder_calls::call::{Call, Outcome, is, wrong_arity};

const DIGITS: usize = 16;

/// What a string is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operand<'a> {
    Text(&'a [u8]),
    Digest(&'a [u8]),
}

/// A condition on the string that a key holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Comparison<'a> {
    operand: Operand<'a>,
    /// Whether both are to be equal.
    equal: bool,
}

impl<'a> Comparison<'a> {
    /// The condition that a word names, with what stands behind the word.
    pub(super) fn parse(word: &[u8], operand: &'a [u8]) -> Option<Comparison<'a>> {
        let (operand, equal) = match word {
            word if is(word, "IFEQ") => (Operand::Text(operand), true),
            word if is(word, "IFNE") => (Operand::Text(operand), false),
            word if is(word, "IFDEQ") => (Operand::Digest(operand), true),
            word if is(word, "IFDNE") => (Operand::Digest(operand), false),
            _ => return None,
        };
        Some(Comparison { operand, equal })
    }

    /// Whether a string meets the condition. A string that is not there is equal to nothing.
    ///
    /// # Errors
    /// A digest that has not 16 digits, if there is a string to compare it with.
    pub(super) fn is_met_by(self, call: &Call<'_>, found: Option<&Found<'_>>) -> Result<bool, Stop> {
        let Some(found) = found else { return Ok(!self.equal) };
        let is_equal = match self.operand {
            Operand::Text(text) => is_text(call, found.value, text)?,
            // Any other text of this length is the digest of no string.
            Operand::Digest(digits) if digits.len() == DIGITS => {
                digits.eq_ignore_ascii_case(&shown(digest_of(call, found.value)?))
            }
            Operand::Digest(_) => return Err("ERR must be exactly 16 hexadecimal characters".into()),
        };
        Ok(is_equal == self.equal)
    }
}

/// Whether a string is `text`.
fn is_text(call: &Call<'_>, value: Value<'_>, text: &[u8]) -> Result<bool, Stop> {
    if let Value::Packed(bytes) = value {
        return Ok(bytes == text);
    }
    if string::len(&value) != text.len() as u64 {
        return Ok(false);
    }
    let mut rest = text;
    for piece in string::pieces(call.txn, value, 0, u64::MAX) {
        let piece = piece?;
        let (now, later) = rest.split_at(piece.len());
        if now != piece.bytes() {
            return Ok(false);
        }
        rest = later;
    }
    Ok(true)
}

fn digest_of(call: &Call<'_>, value: Value<'_>) -> Result<u64, Stop> {
    if let Value::Packed(bytes) = value {
        return Ok(xxh3_64(bytes));
    }
    let mut hash = Xxh3::new();
    for piece in string::pieces(call.txn, value, 0, u64::MAX) {
        hash.update(piece?.bytes());
    }
    Ok(hash.digest())
}

fn shown(digest: u64) -> [u8; DIGITS] {
    std::array::from_fn(|at| b"0123456789abcdef"[(digest >> (4 * (DIGITS - 1 - at)) & 15) as usize])
}

pub(super) fn digest(call: &mut Call<'_>) -> Outcome {
    match find(call, call.args[1])? {
        Some(found) => call.reply.bulk(&shown(digest_of(call, found.value)?)),
        None => call.reply.null(),
    }
    Ok(())
}

/// What DELEX does with its key: only a condition reads it.
pub(super) fn touches(args: &[&[u8]]) -> &'static str {
    if args.len() > 2 { "RW delete" } else { "RM delete" }
}

pub(super) fn delex(call: &mut Call<'_>) -> Outcome {
    let (word, operand) = match call.args[2..] {
        [] => {
            let is_there = call.find(call.args[1])?.is_some();
            return delete_where(call, is_there);
        }
        [word, operand] => (word, operand),
        _ => return Err(wrong_arity(call.command)),
    };
    let Some(found) = call.find(call.args[1])? else { return delete_where(call, false) };
    if found.kind != Kind::String {
        return Err("ERR Key should be of string type if conditions are specified".into());
    }
    let comparison =
        Comparison::parse(word, operand).ok_or("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")?;
    let is_met = comparison.is_met_by(call, Some(&found))?;
    delete_where(call, is_met)
}

pub(super) fn delifeq(call: &mut Call<'_>) -> Outcome {
    let found = find(call, call.args[1])?;
    let wanted = Comparison { operand: Operand::Text(call.args[2]), equal: true };
    let is_met = wanted.is_met_by(call, found.as_ref())?;
    delete_where(call, is_met)
}

/// Deletes the call's key, or leaves it as it is, and replies with how many keys went.
fn delete_where(call: &mut Call<'_>, is_met: bool) -> Outcome {
    if is_met {
        let key = call.args[1];
        call.remove(key)?;
        call.tell(&[b"DEL", key]);
        call.notify('g', "del", key);
    }
    call.reply.integer(i64::from(is_met));
    Ok(())
}
