//! Strings.
use polder_table::New;
use polder_values::{Kind, Value};

use crate::call::{Call, Outcome};
use crate::command::{Command, read, write};

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    read("GET", "key", get).about("Returns the string value of a key."),
    write("SET", "key value", set).about("Sets the string value of a key."),
];

fn get(call: &mut Call<'_>) -> Outcome {
    match call.find_kind(call.args[1], Kind::String)? {
        Some(found) => match found.value {
            Value::Packed(bytes) => call.reply.bulk(bytes),
            Value::Tree(_) => call.reply.null(),
        },
        None => call.reply.null(),
    }
    Ok(())
}

fn set(call: &mut Call<'_>) -> Outcome {
    call.put(call.args[1], &New::of(Kind::String, Value::Packed(call.args[2])))?;
    call.reply.ok();
    Ok(())
}
