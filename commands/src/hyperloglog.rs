//! HyperLogLog: counting distinct things in 12 KiB. Such a value is a string; its form is `values::hyperloglog`'s business.
//!
//! PFCOUNT of one key keeps the count with the value, so it runs as a write although Redis calls it a reading command.
use std::borrow::Cow;

use polder_table::{Found, Mode, New, Stop};
use polder_values::hyperloglog::{self, BYTES_MAX, Corrupt, HEADER, Sketch, Union};
use polder_values::{Kind, string};

use crate::string::{edit_draft, find};
use polder_calls::call::{Call, Outcome, is};
use polder_calls::command::{ADMIN, Command, FAST, GROWS, MAY_WRITE, READONLY, neutral, write};
use polder_calls::facts::Tells::Verbatim;
use polder_calls::settings::id;

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("PFADD", "key [element ...]", pfadd).tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .since("2.8.9")
        .costs("O(1) to add every element.")
        .about("Adds elements to a HyperLogLog key. Creates the key if it doesn't exist."),
    neutral("PFCOUNT", "key [key ...]", Mode::Write, pfcount).tells(Verbatim)
        .with(READONLY | MAY_WRITE)
        .touches(&["RW access"])
        .since("2.8.9")
        .costs("O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, and much bigger constant times, when called with multiple keys.")
        .about("Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s)."),
    write("PFDEBUG", "subcommand key", pfdebug).tells(Verbatim)
        .with(GROWS | ADMIN)
        .touches(&["RW access"])
        .since("2.8.9")
        .costs("N/A")
        .internal().about("Internal commands for debugging HyperLogLog values."),
    write("PFMERGE", "destkey [sourcekey ...]", pfmerge).tells(Verbatim)
        .with(GROWS)
        .touches(&["RW access insert", "RO access"])
        .since("2.8.9")
        .costs("O(N) to merge N HyperLogLogs, but with high constant times.")
        .about("Merges one or more HyperLogLog values into a single key."),
    neutral("PFSELFTEST", "", Mode::Read, pfselftest)
        .with(ADMIN)
        .since("2.8.9")
        .costs("N/A")
        .internal().about("An internal command for testing HyperLogLog values."),
];

const NOT_ONE: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
const CORRUPT: &str = "INVALIDOBJ Corrupted HLL object detected";

pub(crate) fn corrupt(_: Corrupt) -> Stop {
    CORRUPT.into()
}

/// What a key holds, and the bytes of it.
type Looked<'c> = (Found<'c>, Cow<'c, [u8]>);

/// The HyperLogLog that a key holds, if it is there.
///
/// # Errors
/// Redis's texts where it holds something else.
fn look<'c>(call: &Call<'c>, key: &[u8]) -> Result<Option<Looked<'c>>, Stop> {
    let Some(found) = find(call, key)? else { return Ok(None) };
    if string::len(&found.value) > BYTES_MAX as u64 {
        // Only the head is looked at: no sparse form that says all registers is so long.
        let head = string::gather(call.txn, &found.value, 0, HEADER as u64)?;
        return Err(if hyperloglog::is_one(&head) && hyperloglog::is_sparse(&head) {
            CORRUPT
        } else {
            NOT_ONE
        }
        .into());
    }
    let bytes = string::contiguous(call.txn, &found.value)?;
    if hyperloglog::is_one(&bytes) { Ok(Some((found, bytes))) } else { Err(NOT_ONE.into()) }
}

/// As [`look`], for a change: an absent key is an empty HyperLogLog.
fn look_or_new<'c>(call: &Call<'c>, key: &[u8]) -> Result<(Option<Found<'c>>, Sketch), Stop> {
    Ok(match look(call, key)? {
        Some((found, bytes)) => (Some(found), Sketch::of(bytes.into_owned())),
        None => (None, Sketch::default()),
    })
}

/// Gives a key a changed HyperLogLog; its expiry stays.
fn publish(call: &Call<'_>, key: &[u8], found: Option<Found<'_>>, sketch: &Sketch) -> Outcome {
    let value = string::make(call.txn, sketch.bytes())?;
    let extras = found.as_ref().map_or_else(Vec::new, |found| crate::string::kept_extras(found.extras));
    let old = found.map_or(New::of(Kind::String, value), New::from);
    call.put(key, &New { value, raw: true, text: false, extras: &extras, ..old })
}

fn sparse_max(call: &Call<'_>) -> usize {
    call.settings.number(const { id("hll-sparse-max-bytes") }) as usize
}

fn pfadd(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let (found, mut sketch) = look_or_new(call, key)?;
    let (mut changed, sparse_max) = (found.is_none(), sparse_max(call));
    for element in &call.args[2..] {
        changed |= sketch.add(element, sparse_max).map_err(corrupt)?;
    }
    if changed {
        sketch.forget_count();
        publish(call, key, found, &sketch)?;
        call.notify('$', "pfadd", key);
    }
    call.reply.integer(changed.into());
    Ok(())
}

fn pfcount(call: &mut Call<'_>) -> Outcome {
    let [key] = call.args[1..] else { return count_many(call) };
    let Some((found, bytes)) = look(call, key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let count = match hyperloglog::kept_count(&bytes) {
        Some(count) => count,
        None => {
            let count = hyperloglog::count(&bytes).map_err(corrupt)?;
            if !call.txn.accepts_changes() {
                call.reply.integer(count as i64);
                return Ok(());
            }
            let mut draft = string::Draft::of(&found.value);
            draft.write(call.txn, hyperloglog::COUNT_AT, &count.to_le_bytes())?;
            edit_draft(call, key, Some(found), &draft)?;
            count
        }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// PFCOUNT of what is in any of several keys: nothing is kept.
fn count_many(call: &mut Call<'_>) -> Outcome {
    let mut union = Union::default();
    for key in &call.args[1..] {
        if let Some((_, bytes)) = look(call, key)? {
            union.take(&bytes).map_err(corrupt)?;
        }
    }
    call.reply.integer(union.count() as i64);
    Ok(())
}

fn pfmerge(call: &mut Call<'_>) -> Outcome {
    let (mut union, mut dense) = (Union::default(), false);
    for key in &call.args[1..] {
        if let Some((_, bytes)) = look(call, key)? {
            union.take(&bytes).map_err(corrupt)?;
            dense |= !hyperloglog::is_sparse(&bytes);
        }
    }
    let key = call.args[1];
    let (found, mut sketch) = look_or_new(call, key)?;
    if dense {
        sketch.make_dense().map_err(corrupt)?;
    }
    let sparse_max = sparse_max(call);
    for (index, value) in union.registers().iter().enumerate().filter(|(_, value)| **value != 0) {
        sketch.raise(index, *value, sparse_max).map_err(corrupt)?;
    }
    sketch.forget_count();
    publish(call, key, found, &sketch)?;
    call.notify('$', "pfadd", key);
    call.reply.ok();
    Ok(())
}

fn pfdebug(call: &mut Call<'_>) -> Outcome {
    let (subcommand, key) = (call.args[1], call.args[2]);
    if is(subcommand, "SIMD") {
        if !is(key, "ON") && !is(key, "OFF") {
            return Err("ERR Argument must be ON or OFF".into());
        }
        // As Redis 8 replies where it was built without such code: the compiler chooses here.
        call.reply.status("disabled");
        return Ok(());
    }
    let Some((found, bytes)) = look(call, key)? else {
        return Err("ERR The specified key does not exist".into());
    };
    if is(subcommand, "ENCODING") {
        call.reply.status(if hyperloglog::is_sparse(&bytes) { "sparse" } else { "dense" });
    } else if is(subcommand, "DECODE") {
        let text = hyperloglog::decoded(&bytes).ok_or("ERR HLL encoding is not sparse")?;
        call.reply.bulk(text.as_bytes());
    } else if is(subcommand, "TODENSE") {
        let changed = make_dense(call, found, bytes)?;
        call.reply.integer(changed.into());
    } else if is(subcommand, "GETREG") {
        let mut union = Union::default();
        union.take(&bytes).map_err(corrupt)?;
        make_dense(call, found, bytes)?;
        call.reply.array(hyperloglog::REGISTERS);
        union.registers().iter().for_each(|register| call.reply.integer((*register).into()));
    } else {
        return Err(
            format!("ERR Unknown PFDEBUG subcommand '{}'", String::from_utf8_lossy(subcommand)).into()
        );
    }
    Ok(())
}

/// Makes the value of the key that PFDEBUG names dense. Returns whether it was sparse.
fn make_dense(call: &Call<'_>, found: Found<'_>, bytes: Cow<'_, [u8]>) -> Result<bool, Stop> {
    let mut sketch = Sketch::of(bytes.into_owned());
    let changed = sketch.make_dense().map_err(corrupt)?;
    if changed {
        publish(call, call.args[2], Some(found), &sketch)?;
    }
    Ok(changed)
}

/// Adds numbers to a sparse, a dense and a mixed one: the registers must agree, and the counts be near the truth.
fn pfselftest(call: &mut Call<'_>) -> Outcome {
    const ELEMENTS: u64 = 100_000;
    /// Four standard errors of 1.04 / sqrt(16384).
    const ERROR_MAX: f64 = 4.0 * 0.008_125;
    let (mut mixed, mut dense, mut checkpoint) = (Sketch::default(), Sketch::default(), 1);
    dense.make_dense().map_err(corrupt)?;
    for element in 1..=ELEMENTS {
        let bytes = element.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let both = (mixed.add(&bytes, 3000).map_err(corrupt)?, dense.add(&bytes, 3000).map_err(corrupt)?);
        if element == checkpoint {
            let counts = [&mixed, &dense].map(|sketch| hyperloglog::count(sketch.bytes()));
            let count = counts[0].map_err(corrupt)?;
            let off = count.abs_diff(element) as f64 / element as f64;
            if both.0 != both.1 || counts[0] != counts[1] || off > ERROR_MAX && count.abs_diff(element) > 1 {
                return Err(format!("ERR TESTFAILED {element} elements were counted as {count}").into());
            }
            checkpoint *= 10;
        }
    }
    call.reply.ok();
    Ok(())
}
