//! ITEM.VIEW: the whole value of a key, whatever its type is, in one call.
//!
//! A client that does not know the type of a key would have to ask for it first, and the key could change meanwhile.
use polder_values::Kind;

use polder_calls::call::{Call, Outcome};
use polder_calls::command::{Command, KEYSPACE, Run, read};

use crate::{array, hash, item, list, set, sorted_set, stream, types};

/// The family's rows.
pub const COMMANDS: &[Command] = &[read("ITEM.VIEW", "key", view)
    .quick(item::quick_get)
    .with(KEYSPACE)
    .costs("O(N) where N is the size of the value.")
    .about("Returns a string as ITEM.GET does, and a value of another type as the command that returns all of it.")];

/// The families that have a command for all of a value, in the order of the types.
const FAMILIES: [&[Command]; 7] = [
    item::COMMANDS,
    list::COMMANDS,
    hash::COMMANDS,
    set::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    array::COMMANDS,
];

fn view(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let kind = call.peek(key)?.map_or(Kind::String, |found| found.kind);
    let (name, rest) = types::of(kind).whole;
    let args = &[&[name.as_bytes(), key], rest].concat()[..];
    let mut rows = FAMILIES[kind as usize - 1].iter();
    let row = rows.find(|row| row.name == name).map(|row| (row, row.run));
    let Some((command, Run::Table(_, run))) = row else {
        return Err("ERR a row is missing: please report this".into());
    };
    run(&mut Call {
        command,
        args,
        table: call.table,
        txn: call.txn,
        reply: &mut *call.reply,
        caller: &mut *call.caller,
        settings: call.settings,
    })
}
