//! `client/src/rows/table.rs`, from the command table: what a client must know of a command to send it on a connection
//! that many tasks share.

use polder_commands::FAMILIES;
use polder_commands::command::{BLOCKING, CONTAINER, Command, NO_AUTH, PUBSUB, READONLY, SCRIPTS};

/// Commands that change or ask for the state of their connection beside those of the pub/sub group and those that are
/// allowed before log-in.
const OF_THE_CONNECTION: [&str; 17] = [
    "SELECT",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "UNWATCH",
    "MONITOR",
    "SYNC",
    "PSYNC",
    "REPLCONF",
    "ASKING",
    "READONLY",
    "READWRITE",
    "CLIENT|REPLY",
    "CLIENT|TRACKING",
    "CLIENT|CACHING",
    "CLIENT|SETNAME",
];

/// The whole file.
pub fn table() -> String {
    let mut rows: Vec<(String, String)> =
        FAMILIES.iter().flat_map(|family| family.commands).filter(|command| !command.has(CONTAINER)).map(row).collect();
    rows.sort();
    let mut text = String::from(
        "//! Names of commands, sorted, and the facts that hold for them. Made from the command table by `cargo x docs`; do not edit.\n\nuse super::{BLOCKS, CACHES, MOVES, OWNS, READS};\n\npub(super) const FACTS: &[(&str, u8)] = &[\n",
    );
    for (name, facts) in rows {
        text += &format!("    (\"{name}\", {facts}),\n");
    }
    text + "];\n"
}

fn row(command: &Command) -> (String, String) {
    let of_the_connection = OF_THE_CONNECTION.contains(&command.name)
        || command.has(NO_AUTH) && !matches!(command.name, "PING" | "ECHO")
        || command.has(PUBSUB) && command.name.ends_with("SUBSCRIBE");
    let facts: Vec<&str> = [
        (of_the_connection, "OWNS"),
        (command.has(BLOCKING), "BLOCKS"),
        (command.has(SCRIPTS) && !command.name.contains('|'), "MOVES"),
        (command.has(READONLY), "READS"),
        (command.reads_one_key() && !command.tips.contains(&"nondeterministic_output"), "CACHES"),
    ]
    .into_iter()
    .filter_map(|(holds, name)| holds.then_some(name))
    .collect();
    let facts = if facts.is_empty() { "0".to_owned() } else { facts.join(" | ") };
    (command.name.to_owned(), facts)
}
