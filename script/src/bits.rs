//! `bit`: whole numbers of 32 bits.
use mlua::{Lua, Table};

use crate::args::{Args, Results, function};
use crate::complaint::Complaint;

/// The last 32 bits of a number: adding this leaves them in the low half of the double.
const MAGIC: f64 = 6_755_399_441_055_744.0;

fn arg(args: &Args, at: usize, name: &str) -> Result<i32, Complaint> {
    Ok((args.number(at, name)? + MAGIC).to_bits() as i32)
}

type Fold = fn(i32, i32) -> i32;
type Shift = fn(i32, u32) -> i32;

const FOLDS: &[(&str, Fold)] = &[("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];

const SHIFTS: &[(&str, Shift)] = &[
    ("lshift", |a, n| ((a as u32) << n) as i32),
    ("rshift", |a, n| ((a as u32) >> n) as i32),
    ("arshift", |a, n| a >> n),
    ("rol", |a, n| (a as u32).rotate_left(n) as i32),
    ("ror", |a, n| (a as u32).rotate_right(n) as i32),
];

/// A function of one number, by its name.
type One = (&'static str, fn(i32) -> i32);
const ONES: &[One] = &[("tobit", |a| a), ("bnot", |a| !a), ("bswap", i32::swap_bytes)];

/// The number as `digits` hexadecimal digits, upper case if `digits` is negative.
fn to_hex(value: i32, digits: i32) -> String {
    let count = digits.unsigned_abs().min(8) as usize;
    let text = format!("{value:08x}");
    let text = &text[8 - count..];
    if digits < 0 { text.to_ascii_uppercase() } else { text.into() }
}

/// The natives.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for &(name, fold) in FOLDS {
        let run = move |args: &Args, results: &mut Results| {
            let mut sum = arg(args, 1, name)?;
            // The last one first: it is the one that an error names.
            for at in (2..=args.count()).rev() {
                sum = fold(sum, arg(args, at, name)?);
            }
            results.add(sum)
        };
        table.set(name, function(lua, run)?)?;
    }
    for &(name, shift) in SHIFTS {
        let run = move |args: &Args, results: &mut Results| {
            results.add(shift(arg(args, 1, name)?, arg(args, 2, name)? as u32 & 31))
        };
        table.set(name, function(lua, run)?)?;
    }
    for &(name, change) in ONES {
        table.set(name, function(lua, move |args, results| results.add(change(arg(args, 1, name)?)))?)?;
    }
    let hex = |args: &Args, results: &mut Results| {
        let digits = if args.count() < 2 { 8 } else { arg(args, 2, "tohex")? };
        results.add(to_hex(arg(args, 1, "tohex")?, digits))
    };
    table.set("tohex", function(lua, hex)?)?;
    Ok(table)
}
