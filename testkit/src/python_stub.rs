//! `python/polder/commands.pyi`, from the command table: a typed method for each command.
//!
//! As in C (`c_header`): the arguments that every call has come first, with the types that the grammar names; what is optional, repeated or a choice
//! follows as further words.
use polder_calls::command::{CONTAINER, Command};
use polder_calls::grammar::{Argument, arguments};
use polder_engine::FAMILIES;

use crate::c_header::{Kind, distinct, kind};

const PREFACE: &str = r#"# A method for each command of Polder. Made from the command table by `cargo x docs`; do not edit.
#
# Arguments that every call has come first; what is optional, repeated or a choice follows as further words, in the order in which the
# command wants it. Replies are what the protocol says: bytes (str with `decode`), int, float, bool, None, list, dict.
from typing import Any, Union

from polder._polder import Memory

Word = Union[bytes, str, int, float]

class Commands:
    def __init__(self, memory: Memory, *, db: int = 0, protocol: int = 3, decode: bool = False) -> None: ...
    def run(self, *words: Word) -> Any: ...
"#;

/// The whole stub.
pub fn commands() -> String {
    let mut text = String::from(PREFACE);
    for family in FAMILIES {
        text += &format!("\n    # ---- {} ----\n\n", family.name.group);
        family
            .commands()
            .filter(|command| !command.has(CONTAINER))
            .for_each(|command| text += &method(command));
    }
    text
}

fn method(command: &Command) -> String {
    let all = arguments(command.grammar);
    let plain = |argument: &&Argument| {
        let single =
            matches!(argument.kind, "key" | "string" | "pattern" | "integer" | "double" | "unix-time");
        single && !argument.optional && !argument.multiple && argument.token.is_none()
    };
    let named: Vec<&Argument> = all.iter().take_while(plain).collect();
    let mut parameters = String::new();
    for (argument, name) in named.iter().zip(distinct(&named, &TAKEN)) {
        let python = match kind(command, argument) {
            Kind::Text => "Word",
            Kind::Integer => "int",
            Kind::Double => "float",
        };
        parameters += &format!(", {name}: {python}");
    }
    // Keys of commands that take many may be called by name nowhere: redis-py's way is to unpack.
    if !named.is_empty() {
        parameters += ", /";
    }
    if named.len() < all.len() {
        parameters += ", *more: Word";
    }
    let (name, shown) = (name(command.name), command.name.replace('|', " "));
    let typed = format!("{shown} {}", command.grammar);
    let about = command.about.trim_end_matches('.');
    format!(
        "    def {name}(self{parameters}) -> Any:\n        \"\"\"{}: {about}.\"\"\"\n",
        typed.trim().replace('\\', "\\\\")
    )
}

/// The method's name: one that Python keeps for itself gets a line behind it.
fn name(command: &str) -> String {
    let name = command.to_ascii_lowercase().replace(['|', '-', '.'], "_");
    if name == "del" { "del_".into() } else { name }
}

/// Words of Python, and names that the methods have already.
const TAKEN: [&str; 7] = ["from", "in", "is", "lambda", "self", "more", "global"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_has_what_every_call_has_and_the_rest_as_words() {
        let shown = |name: &str| method(polder_engine::COMMANDS.find(name.as_bytes()).expect("a command"));
        assert!(
            shown("HINCRBY")
                .starts_with("    def hincrby(self, key: Word, field: Word, increment: int, /) -> Any:\n")
        );
        assert!(
            shown("SET").starts_with("    def set(self, key: Word, value: Word, /, *more: Word) -> Any:\n")
        );
        assert!(shown("DEL").starts_with("    def del_(self, *more: Word) -> Any:\n"));
        assert!(shown("DBSIZE").starts_with("    def dbsize(self) -> Any:\n"));
    }
}
