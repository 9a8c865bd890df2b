//! Help while typing: completion with TAB, the rest of the grammar in grey, and `help`.
//!
//! All of it comes from the command table (`polder_admin::assist`); there is no second list of commands here.
use std::borrow::Cow;

use polder_admin::assist::{self, Typed, hint};
use polder_runtime::lookup::groups;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

const GREY: &str = "\x1b[90m";
const PLAIN: &str = "\x1b[0m";

/// Words that the command line itself understands, beside the commands.
const OWN_WORDS: [&str; 7] = ["help", "connect", "clear", "quit", "exit", ":set hints", ":set nohints"];

/// What rustyline asks while a line is typed.
pub struct Assist {
    /// Whether hints are shown (`:set hints`, `:set nohints`).
    pub hints: bool,
}

/// A hint: shown, never typed for the user, since placeholders are no values.
pub struct Shown(String);

impl Hint for Shown {
    fn display(&self) -> &str {
        &self.0
    }
    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Helper for Assist {}
impl Validator for Assist {}

impl Highlighter for Assist {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("{GREY}{hint}{PLAIN}"))
    }
}

impl Hinter for Assist {
    type Hint = Shown;

    fn hint(&self, line: &str, at: usize, _context: &Context<'_>) -> Option<Shown> {
        if !self.hints || at < line.len() {
            return None;
        }
        let rest = hint(line)?;
        let gap = if line.ends_with(' ') { "" } else { " " };
        Some(Shown(format!("{gap}{rest}")))
    }
}

impl Completer for Assist {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = Typed::of(&line[..at]);
        let pairs = typed
            .candidates(&OWN_WORDS)
            .into_iter()
            .map(|word| Pair { display: word.clone(), replacement: word });
        Ok((typed.start, pairs.collect()))
    }
}

/// The text for `help` and the words behind it.
pub fn help(topic: &[String]) -> String {
    assist::help(topic, general)
}

fn general() -> String {
    let groups: Vec<String> = groups().into_iter().map(|group| format!("@{group}")).collect();
    format!(
        "polder cli {}\n\
         To get help about commands:\n      \
         \"help <command>\" for help on <command>\n      \
         \"help @<group>\" for the commands of a group: {}\n      \
         TAB completes commands, subcommands and options\n      \
         \"quit\" to leave\n\n\
         To set preferences:\n      \
         \":set hints\" shows what may follow while you type\n      \
         \":set nohints\" does not\n\n\
         \"connect HOST PORT\" goes to another server; a number before a command runs it so many times.\n\
         What you type is kept in ~/.polder_history (POLDER_HISTFILE names another file), secrets left out.\n",
        env!("CARGO_PKG_VERSION"),
        groups.join(" ")
    )
}
