//! Help while typing: completion with TAB, the rest of the grammar in grey, and `help`.
//!
//! All of it comes from the command table; there is no second list of commands here.
use std::borrow::Cow;

use polder_base::words::split;
use polder_calls::Command;
use polder_runtime::lookup::{groups, subcommands};
use polder_runtime::{all, find, find_subcommand};
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::grammar;

const GREY: &str = "\x1b[90m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
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
        let line = &line[..at];
        let start = line.rfind(' ').map_or(0, |blank| blank + 1);
        let typed = &line[start..];
        let fold = typed.chars().any(|letter| letter.is_lowercase())
            || typed.is_empty() && line.chars().any(|letter| letter.is_lowercase());
        let pairs = candidates(&words(&line[..start]), typed).into_iter().map(|word| {
            let word = if fold { word.to_lowercase() } else { word };
            Pair { display: word.clone(), replacement: word }
        });
        Ok((start, pairs.collect()))
    }
}

/// The words of a line that may not be finished.
fn words(line: &str) -> Vec<String> {
    let closed = [line.to_string(), format!("{line}\""), format!("{line}'")];
    let split_any = closed.iter().find_map(|line| split(line.as_bytes()));
    split_any.into_iter().flatten().map(|word| String::from_utf8_lossy(&word).into_owned()).collect()
}

/// The row that the first words name, and how many they are.
fn named(words: &[String]) -> Option<(&'static Command, usize)> {
    let command = find(words.first()?.as_bytes())?;
    match words.get(1).and_then(|second| find_subcommand(command, second.as_bytes())) {
        Some(subcommand) => Some((subcommand, 2)),
        None => Some((command, 1)),
    }
}

/// What may still be typed after `line`.
fn hint(line: &str) -> Option<String> {
    let words = words(line);
    let (command, count) = named(&words)?;
    if words.len() == count && !line.ends_with(' ') && command.grammar.is_empty() {
        return None;
    }
    let args: Vec<&str> = words[count..].iter().map(String::as_str).collect();
    let rest = grammar::rest(command.grammar, &args)?.pieces.join(" ");
    (!rest.is_empty()).then_some(rest)
}

/// The words that may stand behind `before` and begin with `typed`.
fn candidates(before: &[String], typed: &str) -> Vec<String> {
    let topic = before.first().is_some_and(|first| first.eq_ignore_ascii_case("help"));
    let before = &before[usize::from(topic)..];
    let mut found: Vec<String> = if before.is_empty() {
        let names = all().map(|(_, command)| command).filter(|command| command.subcommand().is_none());
        let own = OWN_WORDS.iter().filter(|_| !topic).map(|word| word.to_string());
        let groups = groups().into_iter().filter(|_| topic).map(|group| format!("@{group}"));
        names.map(|command| command.name.to_string()).chain(own).chain(groups).collect()
    } else {
        behind(before).into_iter().map(String::from).collect()
    };
    found.retain(|word| {
        word.len() >= typed.len()
            && word.is_char_boundary(typed.len())
            && word[..typed.len()].eq_ignore_ascii_case(typed)
    });
    found.sort();
    found.dedup();
    found
}

/// Subcommands, or literals of the grammar.
fn behind(before: &[String]) -> Vec<&'static str> {
    let Some((command, count)) = named(before) else { return Vec::new() };
    let args: Vec<&str> = before[count..].iter().map(String::as_str).collect();
    let subcommands: Vec<_> = subcommands(command).filter_map(|command| command.subcommand()).collect();
    if args.is_empty() && command.subcommand().is_none() && !subcommands.is_empty() {
        return subcommands;
    }
    match grammar::rest(command.grammar, &args) {
        Some(rest) => rest.literals,
        None => grammar::literals(command.grammar),
    }
}

/// The text for `help`, `help COMMAND [SUBCOMMAND]` and `help @GROUP`.
pub fn help(topic: &[String]) -> String {
    let Some(first) = topic.first() else { return general() };
    let rows: Vec<(&str, &Command)> = if let Some(group) = first.strip_prefix('@') {
        all()
            .filter(|(family, _)| family.group.eq_ignore_ascii_case(group))
            .map(|(family, row)| (family.group, row))
            .collect()
    } else {
        let wanted = topic.join("|");
        let mut rows: Vec<_> = all().filter(|(_, row)| row.name.eq_ignore_ascii_case(&wanted)).collect();
        if rows.is_empty() {
            rows = all().filter(|(_, row)| starts_with(row.name, &wanted)).collect();
        }
        rows.into_iter().map(|(family, row)| (family.group, row)).collect()
    };
    if rows.is_empty() {
        return format!(
            "There is no command or @group '{}'. Try TAB, or help without a name.\n",
            topic.join(" ")
        );
    }
    rows.into_iter().map(|(group, row)| described(group, row)).collect()
}

fn starts_with(name: &str, wanted: &str) -> bool {
    name.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted))
}

fn described(group: &str, row: &Command) -> String {
    let name = row.name.replace('|', " ");
    format!(
        "\n  {BOLD}{name}{PLAIN} {GREY}{}{PLAIN}\n  {YELLOW}summary:{PLAIN} {}\n  {YELLOW}since:{PLAIN} {}\n  {YELLOW}costs:{PLAIN} {}\n  {YELLOW}group:{PLAIN} {group}\n",
        row.grammar, row.about, row.since, row.costs
    )
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

/// Whether a line holds a secret, which the history must not keep.
pub fn is_secret(words: &[String]) -> bool {
    let word = |at: usize| words.get(at).map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    let anywhere = |wanted: &[&str]| (1..words.len()).any(|at| wanted.contains(&word(at).as_str()));
    match word(0).as_str() {
        "auth" => true,
        "acl" => word(1) == "setuser",
        "config" => word(1) == "set" && anywhere(&["requirepass", "masterauth", "masteruser", "primaryauth"]),
        "hello" => anywhere(&["auth"]),
        "migrate" => anywhere(&["auth", "auth2"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn names_are_completed_from_the_command_table() {
        assert!(candidates(&[], "ge").contains(&"GET".to_string()));
        assert!(candidates(&owned(&["help"]), "@str").contains(&"@string".to_string()));
        assert!(candidates(&[], "no such command").is_empty());
    }

    #[test]
    fn hints_end_where_the_grammar_ends() {
        assert_eq!(hint("get").as_deref(), Some("key"));
        assert_eq!(hint("get a"), None);
        assert_eq!(hint("nonsense a"), None);
        assert_eq!(hint("get \"open quo"), None);
    }

    #[test]
    fn secrets_stay_out_of_the_history() {
        for secret in
            [&["AUTH", "x"][..], &["config", "set", "requirepass", "x"], &["hello", "3", "AUTH", "u", "p"]]
        {
            assert!(is_secret(&owned(secret)), "{secret:?}");
        }
        for open in [&["get", "auth"][..], &["config", "get", "requirepass"], &[]] {
            assert!(!is_secret(&owned(open)), "{open:?}");
        }
    }
}
