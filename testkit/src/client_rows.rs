//! What the client has of the command table: `client/src/rows/table.rs`, what it must know of a command to send it on a
//! connection that many tasks share, and `client/src/commands/GROUP.rs`, a typed method for each command.

use polder_calls::command::{BLOCKING, CONTAINER, Command, NO_AUTH, PUBSUB, READONLY, SCRIPTS};
use polder_calls::grammar::{Argument, Begin, Find, KeySpec, arguments};
use polder_engine::FAMILIES;
use polder_runtime::Family;
use polder_runtime::lookup::{groups, rows_of};

use crate::c_header::{Kind, distinct, kind};

/// Commands that change or ask for the state of their connection beside those of the pub/sub group and those that are
/// allowed before log-in.
const OF_THE_CONNECTION: [&str; 23] = [
    "HIMPORT|DISCARD",
    "HIMPORT|DISCARDALL",
    "HIMPORT|PREPARE",
    "HIMPORT|SET",
    "SUBJ.SUB",
    "SUBJ.UNSUB",
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
    let mut rows: Vec<(String, String)> = FAMILIES
        .iter()
        .flat_map(Family::commands)
        .filter(|command| !command.has(CONTAINER))
        .map(row)
        .collect();
    rows.sort();
    let mut text = String::from(
        "//! Names of commands, sorted, the facts that hold for them, and where their keys stand. Made from the command table by `cargo x docs`; do not\n//! edit.\n\nuse super::Begin::{At, Behind};\nuse super::Find::{Counted, Range};\nuse super::{BLOCKS, CACHES, KEYED, MOVES, OWNS, Place, READS};\n\npub(super) const FACTS: &[(&str, u8)] = &[\n",
    );
    for (name, facts) in rows {
        text += &format!("    (\"{name}\", {facts}),\n");
    }
    text += "];\n\n/// Those whose keys are not just their first argument.\n#[rustfmt::skip]\npub(super) const KEYS: &[(&str, &[Place])] = &[\n";
    let mut places: Vec<String> = FAMILIES
        .iter()
        .flat_map(Family::commands)
        .filter(|command| !command.has_one_key())
        .filter_map(places)
        .collect();
    places.sort();
    text + &places.concat() + "];\n"
}

/// The row of a command's places of keys; `None` if it has no keys.
fn places(command: &Command) -> Option<String> {
    let places: Vec<String> = command.shape.specs().iter().map(place).collect();
    (!places.is_empty()).then(|| format!("    (\"{}\", &[{}]),\n", command.name, places.join(", ")))
}

fn place(spec: &KeySpec) -> String {
    let begin = match spec.begin {
        Begin::Index(index) => format!("At({index})"),
        Begin::Keyword(word, from) => format!("Behind(\"{word}\", {from})"),
    };
    let find = match spec.find {
        Find::Range { last, step, limit } => {
            format!("Range {{ last: {last}, step: {step}, limit: {limit} }}")
        }
        Find::Numkeys { step } => format!("Counted {{ step: {step} }}"),
    };
    format!("Place {{ begin: {begin}, find: {find} }}")
}

fn row(command: &Command) -> (String, String) {
    let of_the_connection = is_of_the_connection(command);
    let facts: Vec<&str> = [
        (of_the_connection, "OWNS"),
        (command.has(BLOCKING), "BLOCKS"),
        (command.has(SCRIPTS) && !command.name.contains('|'), "MOVES"),
        (command.has(READONLY), "READS"),
        (command.reads_one_key() && !command.tips.contains(&"nondeterministic_output"), "CACHES"),
        (command.has_one_key(), "KEYED"),
    ]
    .into_iter()
    .filter_map(|(holds, name)| holds.then_some(name))
    .collect();
    let facts = if facts.is_empty() { "0".to_owned() } else { facts.join(" | ") };
    (command.name.to_owned(), facts)
}

/// Whether a command cannot go over a connection that many tasks share.
fn is_of_the_connection(command: &Command) -> bool {
    OF_THE_CONNECTION.contains(&command.name)
        || command.has(NO_AUTH) && !matches!(command.name, "PING" | "ECHO")
        || command.has(PUBSUB) && command.name.ends_with("SUBSCRIBE")
}

/// The files of typed methods, each with its path.
pub fn methods() -> Vec<(String, String)> {
    groups()
        .into_iter()
        .filter_map(|group| {
            Some((format!("client/src/commands/{}.rs", group.replace('-', "_")), file(group)?))
        })
        .collect()
}

/// The methods of one group; `None` if it has none.
fn file(group: &str) -> Option<String> {
    // SCAN has its own way: `Db::scan`.
    let is_method = |command: &&Command| {
        !command.has(CONTAINER) && !is_of_the_connection(command) && command.name != "SCAN"
    };
    let rows: Vec<String> = rows_of(group).into_iter().filter(is_method).map(method).collect();
    let text = format!(
        "//! Methods of the group `{group}`. Made from the command table by `cargo x docs`; do not edit.\n\nsuper::methods! {{\n{}}}\n",
        rows.join("\n")
    );
    (!rows.is_empty()).then_some(text)
}

/// A row of the macro that makes the methods: documentation, name, words, parameters.
fn method(command: &Command) -> String {
    let all = arguments(command.grammar);
    let named: Vec<&Argument> = all.iter().take_while(|argument| has_own_parameter(argument)).collect();
    let mut parameters = String::new();
    for (argument, name) in named.iter().zip(distinct(&named, &TAKEN)) {
        // `key [key ...]` is one parameter: one value, or a slice or tuple of several.
        parameters += &match (argument.kind, argument.multiple) {
            ("block", _) => ", pairs: impl Args".to_owned(),
            (_, true) => format!(", {name}s: impl Args"),
            _ => match kind(command, argument) {
                // A fraction, or a decimal text that no double has.
                Kind::Integer if command.name.ends_with("FLOAT") => format!(", {name}: impl Args"),
                Kind::Text => format!(", {name}: impl Args"),
                Kind::Integer => format!(", {name}: i64"),
                Kind::Double => format!(", {name}: f64"),
            },
        };
    }
    if named.len() < all.len() {
        parameters += ", more: impl Args";
    }
    let words: Vec<String> = command.name.split('|').map(|word| format!("\"{word}\"")).collect();
    let typed = format!("{} {}", command.name.replace('|', " "), command.grammar);
    let about = command.about.trim_end_matches('.').replace('[', "\\[").replace('<', "\\<");
    format!(
        "    /// `{}`: {about}.\n    {}({}{parameters});\n",
        typed.trim(),
        name(command.name),
        words.join(" ")
    )
}

/// Whether an argument is part of every call, and of one kind.
fn has_own_parameter(argument: &Argument) -> bool {
    let single = matches!(argument.kind, "key" | "string" | "pattern" | "integer" | "double" | "unix-time");
    let pairs = argument.kind == "block" && argument.multiple && argument.inner.len() == 2;
    (single || pairs) && !argument.optional && argument.token.is_none()
}

/// The method's name: words of Rust get one more.
fn name(command: &str) -> String {
    match command {
        "TYPE" => "type_of".into(),
        "MOVE" => "move_to".into(),
        name => name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
            .collect(),
    }
}

/// Words of Rust, and names that the methods have already.
const TAKEN: [&str; 8] = ["self", "more", "type", "match", "where", "in", "ref", "for"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_has_what_every_call_has_and_the_rest_as_one_parameter() {
        let shown = |name: &str| method(polder_engine::COMMANDS.find(name.as_bytes()).expect("a command"));
        assert!(
            shown("HINCRBY")
                .ends_with("    hincrby(\"HINCRBY\", key: impl Args, field: impl Args, increment: i64);\n")
        );
        assert!(
            shown("SET").ends_with("    set(\"SET\", key: impl Args, value: impl Args, more: impl Args);\n")
        );
        assert!(shown("DEL").ends_with("    del(\"DEL\", keys: impl Args);\n"));
        assert!(shown("HSET").ends_with("    hset(\"HSET\", key: impl Args, pairs: impl Args);\n"));
        assert!(shown("BLPOP").ends_with("    blpop(\"BLPOP\", keys: impl Args, timeout: f64);\n"));
        assert!(
            shown("INCRBYFLOAT")
                .ends_with("    incrbyfloat(\"INCRBYFLOAT\", key: impl Args, increment: impl Args);\n")
        );
        assert!(
            shown("OBJECT|ENCODING")
                .ends_with("    object_encoding(\"OBJECT\" \"ENCODING\", key: impl Args);\n")
        );
    }
}
