//! Bitmaps: strings seen as bits, the highest bit of the first byte being number 0.
//!
//! Nothing here puts a large value together: bits are counted, sought and combined chunk by chunk, and holes are skipped. So
//! a bit at offset 2^32-1 of an absent key costs one chunk, and counting it hardly more. BITFIELD has a file of its own.
use polder_base::number;
use polder_table::{New, Stop};
use polder_values::string::{self, Builder, CHUNK, Draft, Piece};
use polder_values::{Kind, PACKED_MAX, Value};

use crate::string::{edit_draft, find, len_max, range, value_or_empty};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::command::{Command, FAST, GROWS, read, write};
use polder_calls::facts::Tells::Verbatim;

mod field;

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    read("BITCOUNT", "key [start [end [BYTE|BIT]]]", bitcount)
        .since("2.6.0")
        .costs("O(N)")
        .changed(&[("7.0.0", "Takes `BYTE` and `BIT`.")])
        .about("Counts the number of set bits (population counting) in a string."),
    write(
        "BITFIELD",
        "key [GET encoding offset|[OVERFLOW <WRAP|SAT|FAIL>] <SET encoding offset value|INCRBY encoding offset increment> ...]",
        field::bitfield,
    )
    .tells(Verbatim)
    .with(GROWS)
    .touches(&["RW access update variable_flags"])
    .varies(field::touches)
    .since("3.2.0")
    .costs("O(1) for each subcommand specified")
    .about("Performs arbitrary bitfield integer operations on strings."),
    read("BITFIELD_RO", "key [GET encoding offset [GET encoding offset ...]]", field::bitfield_ro)
        .with(FAST)
        .since("6.0.0")
        .costs("O(1) for each subcommand specified")
        .about("Performs arbitrary read-only bitfield integer operations on strings."),
    write("BITOP", "<AND|OR|XOR|NOT> destkey key [key ...]", bitop)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["OW update", "RO access"])
        .since("2.6.0")
        .costs("O(N)")
        .about("Performs bitwise operations on multiple strings, and stores the result."),
    read("BITPOS", "key bit [start [end [BYTE|BIT]]]", bitpos)
        .since("2.8.7")
        .costs("O(N)")
        .changed(&[("7.0.0", "Takes `BYTE` and `BIT`.")])
        .about("Finds the first set (1) or clear (0) bit in a string."),
    read("GETBIT", "key offset", getbit).with(FAST).since("2.2.0").about("Returns a bit value by offset."),
    write("SETBIT", "key offset value", setbit)
        .tells(Verbatim)
        .with(GROWS)
        .since("2.2.0")
        .costs("O(1); past 8 KiB one chunk of the old value and its path are copied.")
        .about("Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist."),
];

const OFFSET: &str = "ERR bit offset is not an integer or out of range";
const BIT: &str = "ERR bit is not an integer or out of range";

/// A bit's number: not negative, in a string of the allowed length.
fn offset(call: &Call<'_>, text: &[u8]) -> Result<u64, Stop> {
    let offset = number::integer(text).and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < len_max(call)).ok_or_else(|| OFFSET.into())
}

fn bit_at(call: &Call<'_>, value: &Value<'_>, offset: u64) -> Result<bool, Stop> {
    let mut byte = [0];
    string::read_at(call.txn, value, offset / 8, &mut byte)?;
    Ok(byte[0] << (offset % 8) & 0x80 != 0)
}

fn getbit(call: &mut Call<'_>) -> Outcome {
    let offset = offset(call, call.args[2])?;
    let value = value_or_empty(&find(call, call.args[1])?);
    let bit = bit_at(call, &value, offset)?;
    call.reply.integer(i64::from(bit));
    Ok(())
}

fn setbit(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let offset = offset(call, call.args[2])?;
    let on = match call.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(BIT.into()),
    };
    let found = find(call, key)?;
    let value = value_or_empty(&found);
    let was = bit_at(call, &value, offset)?;
    if was != on || offset / 8 >= string::len(&value) {
        let mut byte = [0];
        string::read_at(call.txn, &value, offset / 8, &mut byte)?;
        let mask = 0x80 >> (offset % 8);
        byte[0] = if on { byte[0] | mask } else { byte[0] & !mask };
        let mut draft = Draft::of(&value);
        draft.write(call.txn, offset / 8, &byte)?;
        edit_draft(call, key, found, &draft)?;
        call.notify('$', "setbit", key);
    }
    call.reply.integer(i64::from(was));
    Ok(())
}

/// Whether the unit of a range is the bit.
fn is_bits(word: Option<&&[u8]>) -> Result<bool, Stop> {
    match word {
        None => Ok(false),
        Some(word) if is(word, "BIT") => Ok(true),
        Some(word) if is(word, "BYTE") => Ok(false),
        Some(_) => Err(SYNTAX.into()),
    }
}

/// Shows the bits from `start` up to `end` to `visit`, until that says to stop: the number of the first bit shown, a stretch
/// of bytes, and how many bits to skip at both ends of it.
fn visit_bits(
    call: &Call<'_>,
    value: Value<'_>,
    (start, end): (u64, u64),
    visit: &mut dyn FnMut(u64, Piece<'_>, u32, u32) -> bool,
) -> Outcome {
    let (first, last) = (start / 8, end.div_ceil(8));
    let mut at = first;
    for piece in string::pieces(call.txn, value, first, last) {
        let piece = piece?;
        let next = at + piece.len() as u64;
        let skipped = if at == first { (start % 8) as u32 } else { 0 };
        let spare = if next == last { (next * 8 - end) as u32 } else { 0 };
        if !visit(at * 8, piece, skipped, spare) {
            break;
        }
        at = next;
    }
    Ok(())
}

fn bitcount(call: &mut Call<'_>) -> Outcome {
    let (bounds, bits) = match &call.args[2..] {
        [] => ((0, -1), false),
        [start] => ((integer(start)?, -1), false),
        [start, end, unit @ ..] if unit.len() <= 1 => {
            ((integer(start)?, integer(end)?), is_bits(unit.first())?)
        }
        _ => return Err(SYNTAX.into()),
    };
    let value = value_or_empty(&find(call, call.args[1])?);
    let unit = if bits { 1 } else { 8 };
    let mut count = 0;
    if let Some((start, end)) = range(bounds.0, bounds.1, string::len(&value) * 8 / unit) {
        visit_bits(call, value, (start * unit, end * unit), &mut |_, piece, skipped, spare| {
            if let Piece::Bytes(bytes) = piece {
                count += ones(bytes);
                count -= u64::from((bytes[0] & !(0xff >> skipped)).count_ones());
                count -= u64::from((bytes[bytes.len() - 1] & !(0xffu8 << spare)).count_ones());
            }
            true
        })?;
    }
    call.reply.integer(count as i64);
    Ok(())
}

/// How many bits are set.
fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

fn bitpos(call: &mut Call<'_>) -> Outcome {
    let wanted = match integer(call.args[2])? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let (start, end, bits) = match &call.args[3..] {
        [] => (0, None, false),
        [start, rest @ ..] if rest.len() <= 2 => {
            let start = integer(start)?;
            let bits = is_bits(rest.get(1))?;
            (start, rest.first().map(|end| integer(end)).transpose()?, bits)
        }
        _ => return Err(SYNTAX.into()),
    };
    let Some(found) = find(call, call.args[1])? else {
        // Nothing at all is zeros without end.
        call.reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let unit = if bits { 1 } else { 8 };
    let len = string::len(&found.value) * 8;
    let mut position = None;
    if let Some((start, end_bit)) = position_range(start, end, len / unit) {
        visit_bits(call, found.value, (start * unit, end_bit * unit), &mut |at, piece, skipped, spare| {
            position = sought(piece, wanted, skipped, spare).map(|bit| at + bit);
            position.is_none()
        })?;
        // Without an end the string counts as followed by zeros.
        if position.is_none() && !wanted && end.is_none() {
            position = Some(len);
        }
    }
    call.reply.integer(position.map_or(-1, |bit| bit as i64));
    Ok(())
}

/// The range of BITPOS, whose negative bounds are never compared before they are resolved.
fn position_range(start: i64, end: Option<i64>, total: u64) -> Option<(u64, u64)> {
    let place = |at: i64| if at < 0 { (total as i64 + at).max(0) } else { at };
    range(place(start), end.map_or(total as i64 - 1, place), total)
}

/// The number of the first bit of a stretch that is `wanted`, the first `skipped` and last `spare` ones left out.
fn sought(piece: Piece<'_>, wanted: bool, skipped: u32, spare: u32) -> Option<u64> {
    let Piece::Bytes(bytes) = piece else {
        let bits = piece.len() as u64 * 8 - u64::from(spare);
        return (!wanted && u64::from(skipped) < bits).then_some(u64::from(skipped));
    };
    let flip = if wanted { 0 } else { 0xff };
    let hit = |at: usize| {
        let mut byte = bytes[at] ^ flip;
        if at == 0 {
            byte &= 0xff >> skipped;
        }
        if at == bytes.len() - 1 {
            byte &= 0xff << spare;
        }
        (byte != 0).then(|| at as u64 * 8 + u64::from(byte.leading_zeros()))
    };
    // The ends are looked at bit by bit; what lies between them is first passed over in whole words.
    let dull = [flip; 8];
    let inner = bytes.get(1..).unwrap_or_default();
    let passed = inner.as_chunks::<8>().0.iter().take_while(|word| **word == dull).count() * 8;
    hit(0).or_else(|| (1 + passed..bytes.len()).find_map(hit))
}

/// What BITOP does with each bit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    Or,
    Xor,
    Not,
}

const OPERATORS: [(&str, Operator); 4] =
    [("AND", Operator::And), ("OR", Operator::Or), ("XOR", Operator::Xor), ("NOT", Operator::Not)];

impl Operator {
    /// Combines stretches of the same place into `target`; what a source is shorter by counts as zeros.
    fn combine(self, sources: &[&[u8]], target: &mut [u8]) {
        let (first, others) =
            sources.split_first().map_or((&[][..], &[][..]), |(first, others)| (*first, others));
        target[..first.len()].copy_from_slice(first);
        target[first.len()..].fill(0);
        for source in others {
            let (both, alone) = target.split_at_mut(source.len());
            let pairs = both.iter_mut().zip(*source);
            match self {
                Operator::And => {
                    pairs.for_each(|(target, source)| *target &= source);
                    alone.fill(0);
                }
                Operator::Or => pairs.for_each(|(target, source)| *target |= source),
                Operator::Xor => pairs.for_each(|(target, source)| *target ^= source),
                Operator::Not => {}
            }
        }
        if self == Operator::Not {
            target.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Whether sources of which `empty` of `count` are holes make a hole.
    fn makes_hole(self, empty: usize, count: usize) -> bool {
        match self {
            Operator::And => empty > 0,
            Operator::Or | Operator::Xor => empty == count,
            Operator::Not => false,
        }
    }
}

fn bitop(call: &mut Call<'_>) -> Outcome {
    let operator = OPERATORS.iter().find(|(name, _)| is(call.args[1], name)).map(|(_, operator)| *operator);
    let operator = operator.ok_or(Stop::from(SYNTAX))?;
    let (target, keys) = (call.args[2], &call.args[3..]);
    if operator == Operator::Not && keys.len() != 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let sources: Vec<Value<'_>> =
        keys.iter().map(|key| Ok(value_or_empty(&find(call, key)?))).collect::<Result<_, Stop>>()?;
    let len = sources.iter().map(string::len).max().unwrap_or(0);
    if len == 0 {
        if call.remove(target)? {
            call.notify('g', "del", target);
        }
    } else {
        let mut packed = [0; PACKED_MAX];
        let value = combined(call, operator, &sources, len, &mut packed)?;
        call.replace(target, &New { raw: true, ..New::of(Kind::String, value) })?;
        call.notify('$', "set", target);
    }
    call.reply.integer(len as i64);
    Ok(())
}

/// The value of `len` bytes that BITOP makes of its sources, in `packed` when it is short.
fn combined<'p>(
    call: &Call<'_>,
    operator: Operator,
    sources: &[Value<'_>],
    len: u64,
    packed: &'p mut [u8; PACKED_MAX],
) -> Result<Value<'p>, Stop> {
    let chunks = |index| {
        sources.iter().map(|source| string::chunk(call.txn, source, index)).collect::<Result<Vec<_>, _>>()
    };
    if len <= PACKED_MAX as u64 {
        let target = &mut packed[..len as usize];
        operator.combine(&chunks(0)?, target);
        return Ok(Value::Packed(target));
    }
    let mut builder = Builder::new();
    let mut buffer = vec![0; CHUNK];
    for index in 0..len.div_ceil(CHUNK as u64) {
        let held = chunks(index)?;
        let target = &mut buffer[..(len - index * CHUNK as u64).min(CHUNK as u64) as usize];
        if operator.makes_hole(held.iter().filter(|bytes| bytes.is_empty()).count(), held.len()) {
            builder.push_hole(target.len());
        } else {
            operator.combine(&held, target);
            builder.push(call.txn, target)?;
        }
    }
    Ok(Value::Tree(builder.finish(call.txn)?))
}
