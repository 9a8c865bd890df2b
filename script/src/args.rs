//! The arguments of natives, and what they return.
use bstr::BStr;
use mlua::{BorrowedBytes, Either, IntoLua, Lua, MultiValue, Table, Value};

use crate::complaint::Complaint;
use crate::number;
use crate::thrown::complain;

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

/// A number, or a string that is one.
pub fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => number::parse(&text.as_bytes()),
        _ => None,
    }
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
        text(self.get(at))
            .ok_or_else(|| self.bad(at, function, &format!("string expected, got {}", self.kind(at))))
    }

    /// As [`Args::string`], where it lies.
    pub fn text(&self, at: usize, function: &str) -> Result<Text<'_>, Complaint> {
        match self.get(at) {
            Value::String(text) => Ok(Text::Bytes(text.as_bytes())),
            _ => self
                .string(at, function)
                .map(|text| Text::Number(String::from_utf8_lossy(&text).into_owned())),
        }
    }

    /// A number argument, or a string that is one.
    pub fn number(&self, at: usize, function: &str) -> Result<f64, Complaint> {
        as_number(self.get(at))
            .ok_or_else(|| self.bad(at, function, &format!("number expected, got {}", self.kind(at))))
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
pub fn function(
    lua: &Lua,
    native: impl Fn(&Args, &mut Results) -> Result<(), Complaint> + 'static,
) -> mlua::Result<mlua::Function> {
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
