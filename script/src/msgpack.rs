//! `cmsgpack`: MessagePack, as Redis's library writes and reads it.
use mlua::{Table, Value};

use crate::args::{Args, Results, Variadic};
use crate::buffer::Buffer;
use crate::complaint::Complaint;
use crate::number;

pub const FUNCTIONS: &[(&str, Variadic)] =
    &[("pack", pack), ("unpack", unpack), ("unpack_one", unpack_one), ("unpack_limit", unpack_limit)];

/// Tables deeper than this are packed as nil.
const NESTING_MAX: usize = 16;
/// Tables deeper than this are not unpacked.
const DEPTH_MAX: usize = 1000;

fn pack(args: &Args, results: &mut Results) -> Result<(), Complaint> {
    if args.count() == 0 {
        return Err(args.bad(0, "pack", "MessagePack pack needs input."));
    }
    let mut out = Buffer::new(results.lua);
    for at in 1..=args.count() {
        put(&mut out, args.get(at), 0)?;
    }
    let packed = out.finish()?;
    results.add(packed)
}

fn put(out: &mut Buffer<'_>, value: &Value, level: usize) -> Result<(), Complaint> {
    out.room(0)?;
    match value {
        Value::String(text) => put_string(out, &text.as_bytes())?,
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(value) => put_integer(out, *value),
        Value::Number(value) if is_integer(*value) => put_integer(out, *value as i64),
        Value::Number(value) => put_double(out, *value),
        Value::Table(table) if level < NESTING_MAX => put_table(out, table, level)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn is_integer(value: f64) -> bool {
    (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value) && value as i64 as f64 == value
}

/// A head of one byte with a length of `bytes` bytes behind it.
fn put_head(out: &mut Vec<u8>, head: u8, bytes: usize, len: u64) {
    out.push(head);
    out.extend_from_slice(&len.to_be_bytes()[8 - bytes..]);
}

fn put_string(out: &mut Buffer<'_>, text: &[u8]) -> Result<(), Complaint> {
    out.room(text.len())?;
    let len = text.len() as u64;
    match len {
        0..32 => out.push(0xa0 | len as u8),
        32..=0xff => put_head(out, 0xd9, 1, len),
        0x100..=0xffff => put_head(out, 0xda, 2, len),
        _ => put_head(out, 0xdb, 4, len),
    }
    out.extend_from_slice(text);
    Ok(())
}

fn put_integer(out: &mut Vec<u8>, value: i64) {
    let bits = value as u64;
    match value {
        0..=0x7f => out.push(value as u8),
        0x80..=0xff => put_head(out, 0xcc, 1, bits),
        0x100..=0xffff => put_head(out, 0xcd, 2, bits),
        0x1_0000..=0xffff_ffff => put_head(out, 0xce, 4, bits),
        0x1_0000_0000.. => put_head(out, 0xcf, 8, bits),
        -32..0 => out.push(value as u8),
        -128..-32 => put_head(out, 0xd0, 1, bits),
        -32768..-128 => put_head(out, 0xd1, 2, bits),
        -2_147_483_648..-32768 => put_head(out, 0xd2, 4, bits),
        _ => put_head(out, 0xd3, 8, bits),
    }
}

fn put_double(out: &mut Vec<u8>, value: f64) {
    if f64::from(value as f32) == value {
        put_head(out, 0xca, 4, u64::from((value as f32).to_bits()));
    } else {
        put_head(out, 0xcb, 8, value.to_bits());
    }
}

fn put_table(out: &mut Buffer<'_>, table: &Table, level: usize) -> Result<(), Complaint> {
    let (mut count, mut is_array, mut last) = (0u64, true, 0.0f64);
    for pair in table.pairs::<Value, Value>() {
        let key = match pair?.0 {
            Value::Integer(key) => Some(key as f64),
            Value::Number(key) => Some(key),
            Value::String(key) => number::parse(&key.as_bytes()),
            _ => None,
        };
        match key {
            Some(key) if key > 0.0 && key.fract() == 0.0 && key <= f64::from(i32::MAX) => {
                last = last.max(key)
            }
            _ => is_array = false,
        }
        count += 1;
    }
    if is_array && last == count as f64 {
        let len = table.raw_len() as u64;
        match len {
            0..16 => out.push(0x90 | len as u8),
            16..=0xffff => put_head(out, 0xdc, 2, len),
            _ => put_head(out, 0xdd, 4, len),
        }
        return (1..=len).try_for_each(|at| put(out, &table.raw_get::<Value>(at)?, level + 1));
    }
    match count {
        0..16 => out.push(0x80 | count as u8),
        16..=0xffff => put_head(out, 0xde, 2, count),
        _ => put_head(out, 0xdf, 4, count),
    }
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        put(out, &key, level + 1)?;
        put(out, &value, level + 1)?;
    }
    Ok(())
}

fn unpack(args: &Args, results: &mut Results) -> Result<(), Complaint> {
    let text = args.string(1, "unpack")?;
    read_all(&text, 0, 0, results)
}

/// An optional whole number.
fn option(args: &Args, at: usize, function: &str) -> Result<i64, Complaint> {
    if args.get(at).is_nil() { Ok(0) } else { args.whole(at, function) }
}

fn unpack_one(args: &Args, results: &mut Results) -> Result<(), Complaint> {
    let offset = option(args, 2, "unpack_one")?;
    let text = args.string(1, "unpack_one")?;
    read_all(&text, 1, offset, results)
}

fn unpack_limit(args: &Args, results: &mut Results) -> Result<(), Complaint> {
    let limit = args.whole(2, "unpack_limit")?;
    let offset = option(args, 3, "unpack_limit")?;
    let text = args.string(1, "unpack_limit")?;
    read_all(&text, limit, offset, results)
}

/// Reads values until the end, or as many as `limit` says; then the place of the next one comes first.
fn read_all(text: &[u8], limit: i64, offset: i64, results: &mut Results) -> Result<(), Complaint> {
    let all = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        return Err(format!(
            "Invalid request to unpack with offset of {} and limit of {}.",
            offset as i32,
            text.len()
        )
        .into());
    }
    if offset > text.len() as i64 {
        return Err(
            format!("Start offset {} greater than input length {}.", offset as i32, text.len()).into()
        );
    }
    let mut rest = &text[offset as usize..];
    if !all {
        results.add(0)?;
    }
    let mut count = 0;
    while !rest.is_empty() && (all || count < limit) {
        let value = read(&mut rest, results, 0)?;
        results.add(value)?;
        count += 1;
    }
    if !all {
        let next = if rest.is_empty() { -1 } else { (text.len() - rest.len()) as i64 };
        results.values[0] = Value::Number(next as f64);
    }
    Ok(())
}

fn take<'r>(rest: &mut &'r [u8], count: usize) -> Result<&'r [u8], Complaint> {
    let (taken, left) = rest.split_at_checked(count).ok_or("Missing bytes in input.")?;
    *rest = left;
    Ok(taken)
}

/// A big-endian number of `bytes` bytes.
fn bits(rest: &mut &[u8], bytes: usize) -> Result<u64, Complaint> {
    Ok(take(rest, bytes)?.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

fn read(rest: &mut &[u8], results: &Results, depth: usize) -> Result<Value, Complaint> {
    if depth > DEPTH_MAX {
        return Err("Found too many nested data structures".into());
    }
    let head = take(rest, 1)?[0];
    let whole = |bits: u64| Ok(Value::Number(bits as f64));
    let signed = |value: i64| Ok(Value::Number(value as f64));
    match head {
        0x00..=0x7f => whole(u64::from(head)),
        0xe0..=0xff => signed(i64::from(head as i8)),
        0xc0 => Ok(Value::Nil),
        0xc2 | 0xc3 => Ok(Value::Boolean(head == 0xc3)),
        0xcc => whole(bits(rest, 1)?),
        0xcd => whole(bits(rest, 2)?),
        0xce => whole(bits(rest, 4)?),
        0xd0 => signed(i64::from(bits(rest, 1)? as i8)),
        0xd1 => signed(i64::from(bits(rest, 2)? as i16)),
        0xd2 => signed(i64::from(bits(rest, 4)? as i32)),
        // Redis takes unsigned ones for signed.
        0xcf | 0xd3 => signed(bits(rest, 8)? as i64),
        0xca => Ok(Value::Number(f64::from(f32::from_bits(bits(rest, 4)? as u32)))),
        0xcb => Ok(Value::Number(f64::from_bits(bits(rest, 8)?))),
        0xa0..=0xbf => read_string(rest, usize::from(head & 31), results),
        0xd9..=0xdb => {
            let len = bits(rest, 1 << (head - 0xd9))? as usize;
            read_string(rest, len, results)
        }
        0x90..=0x9f => read_array(rest, u64::from(head & 15), results, depth),
        0xdc | 0xdd => {
            let len = bits(rest, if head == 0xdc { 2 } else { 4 })?;
            read_array(rest, len, results, depth)
        }
        0x80..=0x8f => read_map(rest, u64::from(head & 15), results, depth),
        0xde | 0xdf => {
            let len = bits(rest, if head == 0xde { 2 } else { 4 })?;
            read_map(rest, len, results, depth)
        }
        _ => Err("Bad data format in input.".into()),
    }
}

fn read_string(rest: &mut &[u8], len: usize, results: &Results) -> Result<Value, Complaint> {
    Ok(Value::String(results.lua.create_string(take(rest, len)?)?))
}

fn read_array(rest: &mut &[u8], len: u64, results: &Results, depth: usize) -> Result<Value, Complaint> {
    let table = results.lua.create_table()?;
    for at in 1..=len {
        table.raw_set(at, read(rest, results, depth + 1)?)?;
    }
    Ok(Value::Table(table))
}

fn read_map(rest: &mut &[u8], len: u64, results: &Results, depth: usize) -> Result<Value, Complaint> {
    let table = results.lua.create_table()?;
    for _ in 0..len {
        let key = read(rest, results, depth + 1)?;
        let value = read(rest, results, depth + 1)?;
        match key {
            Value::Nil => return Err("table index is nil".into()),
            Value::Number(key) if key.is_nan() => return Err("table index is NaN".into()),
            key => table.raw_set(key, value)?,
        }
    }
    Ok(Value::Table(table))
}
