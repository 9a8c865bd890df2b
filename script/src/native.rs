//! The functions that the prelude builds on.
use std::rc::Rc;

use bstr::BStr;
use mlua::{BorrowedBytes, Either, IntoLua, Lua, MultiValue, Table, Value};
use polder_base::Protocol;
use sha1::{Digest, Sha1};

use crate::complaint::Complaint;
use crate::drand::Drand;
use crate::interpreter::{Desk, gate, gate_of_many, goes_on, may};
use crate::{bits, json, msgpack, number, pack, pattern};

/// Forty hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A string, or a number as its text.
pub fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        // Lua has but one kind of numbers.
        Value::Integer(value) => Some(number::text(*value as f64).into_bytes()),
        Value::Number(value) => Some(number::text(*value).into_bytes()),
        _ => None,
    }
}

/// Bytes on their way into Lua; most are text, which mlua puts on the stack at once.
pub fn pushable(bytes: &[u8]) -> Either<&str, &BStr> {
    std::str::from_utf8(bytes).map_or_else(|_| Either::Right(BStr::new(bytes)), Either::Left)
}

/// The text of an error as `redis.error_reply` makes it: a code and a message.
fn error_text(given: &[u8]) -> Vec<u8> {
    // As in C, a zero ends it.
    let given = given.split(|byte| *byte == 0).next().unwrap_or_default();
    let given = given.strip_prefix(b"-").unwrap_or(given);
    let (code, message) = match given.iter().position(|byte| *byte == b' ') {
        Some(at) => (&given[..at], &given[at + 1..]),
        None => (&b"ERR"[..], given),
    };
    let newline = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let begin = message.iter().position(|byte| !newline(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !newline(byte)).map_or(begin, |at| at + 1);
    [code, b" ", &message[begin..end]].concat()
}

/// Where the function stands that is at fault for an error: the first one that is not ours, or its caller if that is C.
pub fn whereabouts(lua: &Lua, first: usize) -> Option<(String, i64)> {
    let mut seen_c = false;
    for level in first.. {
        let frame = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let name = source.source.map(|name| name.into_owned()).unwrap_or_default();
            (source.what == "C", name, frame.current_line().map_or(-1, |line| line as i64))
        });
        let (is_c, source, line) = frame?;
        if source == "=polder" || (is_c && !std::mem::replace(&mut seen_c, true)) {
            seen_c |= source == "=polder";
            continue;
        }
        return Some((source, line));
    }
    None
}

/// What a native raises: see the prelude's `translate`.
#[derive(Debug)]
pub struct Thrown {
    pub text: String,
    /// A table with the text as `err` (and whether it has been counted), or the text itself.
    pub table: Option<bool>,
}

impl std::fmt::Display for Thrown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Thrown {}

/// An error as commands give it: a table.
pub fn raise<T>(text: impl Into<std::borrow::Cow<'static, str>>, counted: bool) -> mlua::Result<T> {
    Err(mlua::Error::external(Thrown { text: text.into().into_owned(), table: Some(counted) }))
}

/// What is wrong with a call of a native, with where the call stands.
fn complain<T>(lua: &Lua, complaint: Complaint) -> mlua::Result<T> {
    // What the prelude calls for a script is the script's own call.
    let place = (1..).find_map(|level| {
        let place = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let line = frame.current_line().map(|line| format!("{}:{line}: ", source.short_src.unwrap_or_default()));
            (source.source.as_deref() != Some("=polder")).then(|| line.unwrap_or_default())
        });
        place.unwrap_or_else(|| Some(String::new()))
    });
    let text = place.unwrap_or_default() + &complaint.0;
    Err(mlua::Error::external(Thrown { text, table: None }))
}

fn thrown(error: &mlua::Error) -> Option<&Thrown> {
    match error {
        mlua::Error::CallbackError { cause, .. } => thrown(cause),
        mlua::Error::ExternalError(inner) => inner.downcast_ref(),
        _ => None,
    }
}

/// What a script is to see of an error of ours.
fn translate(lua: &Lua, value: Value, unwind: &Table) -> mlua::Result<Value> {
    let Value::Error(error) = &value else { return Ok(value) };
    match thrown(error) {
        Some(Thrown { text, table: None }) => Ok(Value::String(lua.create_string(text)?)),
        Some(Thrown { text, .. }) if text.is_empty() => Ok(Value::Table(unwind.clone())),
        Some(Thrown { text, table: Some(counted) }) => {
            let table = lua.create_table_with_capacity(0, 4)?;
            table.raw_set("err", text.as_str())?;
            if *counted {
                table.raw_set("ignore_error_stats_update", true)?;
            }
            Ok(Value::Table(table))
        }
        None => Ok(Value::String(lua.create_string(crate::interpreter::message(error))?)),
    }
}

fn log(args: &MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return raise("ERR redis.log() requires two arguments or more.", false);
    }
    let Some(level) = as_number(&args[0]) else { return raise("ERR First argument must be a number (log level).", false) };
    let line = args.iter().skip(1).map(|word| text(word).unwrap_or_default()).collect::<Vec<_>>().join(&b' ');
    let line = String::from_utf8_lossy(&line);
    match number::whole(level) {
        0 => tracing::trace!(target: "script", "{line}"),
        1 => tracing::debug!(target: "script", "{line}"),
        2 => tracing::info!(target: "script", "{line}"),
        3 => tracing::warn!(target: "script", "{line}"),
        _ => return raise("ERR Invalid debug level.", false),
    }
    Ok(())
}

/// A number, or a string that is one.
pub fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => number::parse(&text.as_bytes()),
        _ => None,
    }
}

/// A table of one field: the reply that a script asks to have made.
fn reply(lua: &Lua, args: &MultiValue, field: &str, make: fn(&[u8]) -> Vec<u8>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    match (args.len(), args.front()) {
        (1, Some(Value::String(given))) => table.raw_set(field, lua.create_string(make(&given.as_bytes()))?)?,
        _ => table.raw_set("err", "ERR wrong number or type of arguments")?,
    }
    Ok(table)
}

/// What scripts find in `redis`, but for what concerns the world.
fn redis(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("log", lua.create_function(|_, args: MultiValue| log(&args))?)?;
    table.set("error_reply", lua.create_function(|lua, args: MultiValue| reply(lua, &args, "err", error_text))?)?;
    table.set("status_reply", lua.create_function(|lua, args: MultiValue| reply(lua, &args, "ok", <[u8]>::to_vec))?)?;
    let sha = |_: &Lua, args: MultiValue| match args.len() {
        1 => Ok(hex(&Sha1::digest(text(&args[0]).unwrap_or_default()))),
        _ => raise("ERR wrong number of arguments", false),
    };
    table.set("sha1hex", lua.create_function(sha)?)?;
    let set_repl = |_: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return raise("ERR redis.set_repl() requires two arguments.", false);
        }
        match as_number(&args[0]).map_or(0, number::whole) {
            0..=3 => Ok(()),
            _ => raise("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.", false),
        }
    };
    table.set("set_repl", lua.create_function(set_repl)?)?;
    let clerk = desk.clone();
    let setresp = move |_: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return raise("ERR redis.setresp() requires one argument.", false);
        }
        let wanted = as_number(&args[0]).map_or(0, number::whole);
        clerk.protocol.set(match wanted {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return raise("ERR RESP version must be 2 or 3.", false),
        });
        Ok(())
    };
    table.set("setresp", lua.create_function(setresp)?)?;
    Ok(table)
}

fn random(desk: &Desk, args: &Args) -> Result<f64, Complaint> {
    let mut drand = desk.random.get().unwrap_or(Drand::seeded(0));
    let drawn = drand.draw();
    desk.random.set(Some(drand));
    let (low, high) = match args.count() {
        0 => return Ok(drawn),
        1 => (1, args.whole(1, "random")? as i32),
        2 => (args.whole(1, "random")? as i32, args.whole(2, "random")? as i32),
        _ => return Err("wrong number of arguments".into()),
    };
    if low > high {
        return Err(args.bad(args.count(), "random", "interval is empty"));
    }
    Ok((drawn * f64::from(high.wrapping_sub(low).wrapping_add(1))).floor() + f64::from(low))
}

/// All of them, by name.
pub fn table(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    let unwind = lua.create_table()?;
    natives.set("unwind", &unwind)?;
    natives.set("null", Value::NULL)?;
    natives.set("where", lua.create_function(|lua, ()| Ok(whereabouts(lua, 2).unzip()))?)?;
    natives.set("translate", lua.create_function(move |lua, value: Value| translate(lua, value, &unwind))?)?;
    natives.set("redis", redis(lua, desk)?)?;
    let clerk = desk.clone();
    natives
        .set("random", lua.create_function(move |lua, args: MultiValue| random(&clerk, &Args(args)).or_else(|why| complain(lua, why)))?)?;
    let clerk = desk.clone();
    let seed = move |lua: &Lua, args: MultiValue| match Args(args).whole(1, "randomseed") {
        Ok(seed) => {
            clerk.random.set(Some(Drand::seeded(seed as u32)));
            Ok(())
        }
        Err(why) => complain(lua, why),
    };
    natives.set("randomseed", lua.create_function(seed)?)?;
    let clerk = desk.clone();
    let register = move |_: &Lua, args: MultiValue| {
        let mut registering = clerk.registering.borrow_mut();
        let Some(register) = registering.as_mut() else {
            return raise("ERR redis.register_function can only be called on FUNCTION LOAD command", false);
        };
        register.add(&args).or_else(|text| raise(text, false))
    };
    natives.set("register", lua.create_function(register)?)?;
    natives.set("call", gate(lua, desk)?)?;
    natives.set("call_many", gate_of_many(lua, desk)?)?;
    natives.set("may", lua.create_function(may)?)?;
    natives.set("cjson", json::library(lua, &desk.json)?)?;
    natives.set("new_cjson", lua.create_function(|lua, ()| json::library(lua, &Rc::default()))?)?;
    natives.set("bit", bits::library(lua)?)?;
    natives.set("cmsgpack", functions(lua, msgpack::FUNCTIONS)?)?;
    natives.set("struct", functions(lua, pack::FUNCTIONS)?)?;
    let patterns = lua.create_table()?;
    for (name, native) in pattern::FUNCTIONS {
        let clerk = desk.clone();
        let watch = move |lua: &Lua| goes_on(lua, &clerk).unwrap_or(false);
        patterns.set(*name, function(lua, move |args, results| native(args, results, &watch))?)?;
    }
    natives.set("pattern", patterns)?;
    Ok(natives)
}

/// More values than these cannot be answered at once, since Lua bounds how many of them can be held.
const RESULTS_MAX: usize = 7000;

/// What a native returns.
pub struct Results<'l> {
    pub lua: &'l Lua,
    pub values: Vec<Value>,
}

impl Results<'_> {
    /// One more value.
    pub fn add(&mut self, value: impl IntoLua) -> Result<(), Complaint> {
        if self.values.len() >= RESULTS_MAX {
            return Err("stack overflow (too many results)".into());
        }
        self.values.push(value.into_lua(self.lua)?);
        Ok(())
    }
}

/// A string, or a number's text.
pub enum Text<'v> {
    Bytes(BorrowedBytes<'v>),
    Number(String),
}

impl std::ops::Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Bytes(bytes) => bytes,
            Text::Number(text) => text.as_bytes(),
        }
    }
}

/// The arguments of a native.
pub struct Args(pub MultiValue);

impl Args {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Argument `at`, from 1 on.
    pub fn get(&self, at: usize) -> &Value {
        at.checked_sub(1).and_then(|at| self.0.get(at)).unwrap_or(&Value::Nil)
    }

    /// A string argument, or a number as its text.
    pub fn string(&self, at: usize, function: &str) -> Result<Vec<u8>, Complaint> {
        text(self.get(at)).ok_or_else(|| self.bad(at, function, &format!("string expected, got {}", self.kind(at))))
    }

    /// As [`Args::string`], where it lies.
    pub fn text(&self, at: usize, function: &str) -> Result<Text<'_>, Complaint> {
        match self.get(at) {
            Value::String(text) => Ok(Text::Bytes(text.as_bytes())),
            _ => self.string(at, function).map(|text| Text::Number(String::from_utf8_lossy(&text).into_owned())),
        }
    }

    /// A number argument, or a string that is one.
    pub fn number(&self, at: usize, function: &str) -> Result<f64, Complaint> {
        as_number(self.get(at)).ok_or_else(|| self.bad(at, function, &format!("number expected, got {}", self.kind(at))))
    }

    /// A number argument without its fraction.
    pub fn whole(&self, at: usize, function: &str) -> Result<i64, Complaint> {
        self.number(at, function).map(number::whole)
    }

    fn kind(&self, at: usize) -> &'static str {
        if at > self.count() { "no value" } else { kind(self.get(at)) }
    }

    /// What Lua says of an argument that does not do.
    pub fn bad(&self, at: usize, function: &str, why: &str) -> Complaint {
        Complaint(format!("bad argument #{at} to '{function}' ({why})"))
    }
}

/// Lua's name of a value's type.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// A native that returns any number of values or a complaint.
pub type Variadic = fn(&Args, &mut Results) -> Result<(), Complaint>;

/// A function that scripts can call.
pub fn function(lua: &Lua, native: impl Fn(&Args, &mut Results) -> Result<(), Complaint> + 'static) -> mlua::Result<mlua::Function> {
    lua.create_function(move |lua, args: MultiValue| {
        let mut results = Results { lua, values: Vec::new() };
        match native(&Args(args), &mut results) {
            Ok(()) => Ok(MultiValue::from_vec(results.values)),
            Err(complaint) => complain(lua, complaint),
        }
    })
}

/// A table of such functions, under their names.
pub fn functions(lua: &Lua, rows: &[(&str, Variadic)]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, native) in rows {
        table.set(*name, function(lua, *native)?)?;
    }
    Ok(table)
}
