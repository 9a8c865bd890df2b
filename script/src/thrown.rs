//! Errors on their way through Lua: what natives raise, and what a script sees of it.
use mlua::{Lua, Table, Value};

use crate::complaint::Complaint;

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
pub fn complain<T>(lua: &Lua, complaint: Complaint) -> mlua::Result<T> {
    // What the prelude calls for a script is the script's own call.
    let place = (1..).find_map(|level| {
        let place = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let line =
                frame.current_line().map(|line| format!("{}:{line}: ", source.short_src.unwrap_or_default()));
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
pub fn translate(lua: &Lua, value: Value, unwind: &Table) -> mlua::Result<Value> {
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
        None => Ok(Value::String(lua.create_string(message(error))?)),
    }
}

/// An error of Lua itself, in one line.
pub fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::MemoryError(_) => "not enough memory".into(),
        mlua::Error::CallbackError { cause, .. } => message(cause),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}
