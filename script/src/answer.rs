//! What a script returns, as a reply.
use mlua::{Table, Value};
use polder_base::{Protocol, Reply};

use crate::number::whole;

/// How deep tables may lie in each other.
const DEPTH_MAX: usize = 1000;

/// The text of a string, for replies that are lines.
fn line(text: &mlua::String) -> String {
    String::from_utf8_lossy(&text.as_bytes()).into_owned()
}

/// The text of an error, which is one line in every protocol, as Redis makes it one.
fn error_line(text: String) -> String {
    if !text.contains(['\r', '\n']) {
        return text;
    }
    text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ")
}

fn field(table: &Table, name: &str) -> Value {
    table.raw_get(name).unwrap_or(Value::Nil)
}

/// The error that a returned table stands for, and whether it has been counted.
pub fn error_of(value: &Value) -> Option<(String, bool)> {
    let Value::Table(table) = value else { return None };
    let Value::String(text) = field(table, "err") else { return None };
    Some((error_line(line(&text)), field(table, "ignore_error_stats_update").as_boolean() == Some(true)))
}

/// Writes a value that is no error. `spoken`: what the script has chosen by `redis.setresp`, which matters for truth values.
pub fn write(value: &Value, spoken: Protocol, reply: &mut dyn Reply) {
    match value {
        Value::Table(table) => write_harmless(table, spoken, reply, 0),
        other => write_inner(other, spoken, reply, 0),
    }
}

fn write_inner(value: &Value, spoken: Protocol, reply: &mut dyn Reply, depth: usize) {
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(value) => reply.integer(*value),
        Value::Number(value) => reply.integer(whole(*value)),
        Value::Boolean(value) if spoken == Protocol::Resp3 => reply.boolean(*value),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(_) if depth >= DEPTH_MAX => reply.error("ERR reached lua stack limit"),
        Value::Table(table) => write_table(table, spoken, reply, depth),
        _ => reply.null(),
    }
}

fn write_table(table: &Table, spoken: Protocol, reply: &mut dyn Reply, depth: usize) {
    match field(table, "err") {
        Value::String(text) => reply.error(&error_line(line(&text))),
        _ => write_harmless(table, spoken, reply, depth),
    }
}

/// Writes a table that is no error.
fn write_harmless(table: &Table, spoken: Protocol, reply: &mut dyn Reply, depth: usize) {
    if let Value::String(text) = field(table, "ok") {
        return match text.to_str() {
            Ok(text) if !text.contains(['\r', '\n']) => reply.status(&text),
            _ => reply.status(&line(&text).replace(['\r', '\n'], " ")),
        };
    }
    match field(table, "double") {
        Value::Number(value) => return reply.double(value),
        Value::Integer(value) => return reply.double(value as f64),
        _ => {}
    }
    if let Value::Table(map) = field(table, "map") {
        reply.map(map.pairs::<Value, Value>().count());
        for pair in map.pairs::<Value, Value>().flatten() {
            write_inner(&pair.0, spoken, reply, depth + 1);
            write_inner(&pair.1, spoken, reply, depth + 1);
        }
        return;
    }
    if let Value::Table(set) = field(table, "set") {
        reply.set(set.pairs::<Value, Value>().count());
        for pair in set.pairs::<Value, Value>().flatten() {
            write_inner(&pair.0, spoken, reply, depth + 1);
        }
        return;
    }
    if let Value::String(text) = field(table, "big_number") {
        return reply.big_number(&line(&text).replace(['\r', '\n'], " "));
    }
    if let Value::Table(verbatim) = field(table, "verbatim_string")
        && let (Value::String(text), Value::String(format)) =
            (field(&verbatim, "string"), field(&verbatim, "format"))
    {
        return reply.verbatim(&line(&format), &text.as_bytes());
    }
    let mut len = 0;
    while !matches!(table.raw_get(len + 1), Ok(Value::Nil) | Err(_)) {
        len += 1;
    }
    reply.array(len);
    for at in 1..=len {
        write_inner(&table.raw_get(at).unwrap_or(Value::Nil), spoken, reply, depth + 1);
    }
}

/// The text of an error that a script has thrown, with where it came about.
pub fn thrown(value: &Value, name: &str) -> (String, bool) {
    let Value::Table(table) = value else {
        let shown: String =
            value.to_string().unwrap_or_else(|_| "execution failure".into()).chars().take(100).collect();
        return (format!("ERR Error running script {name}, {shown}"), false);
    };
    let message = match field(table, "err") {
        Value::String(text) => line(&text),
        Value::Number(value) => crate::number::text(value),
        Value::Integer(value) => value.to_string(),
        _ => "ERR unknown error".into(),
    };
    let counted = field(table, "ignore_error_stats_update").as_boolean() == Some(true);
    match (field(table, "source"), field(table, "line")) {
        (Value::String(source), line_number) if !line_number.is_nil() => {
            let at = line_number.as_i64().unwrap_or(-1);
            (error_line(placed(&message, name, &line(&source), at)), counted)
        }
        _ => (error_line(message), counted),
    }
}

/// The text of an error with where it came about.
pub fn placed(message: &str, name: &str, source: &str, line: i64) -> String {
    format!("{message} script: {name}, on {source}:{line}.")
}
