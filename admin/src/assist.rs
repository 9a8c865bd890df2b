//! Help while a line is typed: completion, the rest of the grammar, `help`, and which lines hold secrets.
//!
//! All of it comes from the command table; there is no second list of commands here. The command line (`polder cli`) and
//! the terminal of a WebSocket use it.
use polder_base::words::split;
use polder_calls::Command;

use crate::hints;
use polder_runtime::lookup::{all, find, find_subcommand, groups, subcommands};

const GREY: &str = "\x1b[90m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// The last word of a line that is being typed.
pub struct Typed<'l> {
    /// The words in front of it.
    pub before: Vec<String>,
    /// The byte at which it begins.
    pub start: usize,
    /// The word as it stands there, with its quotes.
    pub word: &'l str,
}

impl<'l> Typed<'l> {
    /// The last word of `line`, which is empty behind a blank.
    pub fn of(line: &'l str) -> Typed<'l> {
        let (mut start, mut quote, mut is_escaped) = (0, None, false);
        for (at, letter) in line.char_indices() {
            if std::mem::take(&mut is_escaped) {
                continue;
            }
            match (quote, letter) {
                (Some(_), '\\') => is_escaped = true,
                (Some(open), _) if open == letter => quote = None,
                (None, '"' | '\'') => quote = Some(letter),
                (None, ' ') => start = at + 1,
                _ => {}
            }
        }
        Typed { before: words(&line[..start]), start, word: &line[start..] }
    }

    /// The word without its quotes; the last one may be missing.
    pub fn plain(&self) -> Vec<u8> {
        closed(self.word).and_then(|mut words| words.pop()).unwrap_or_default()
    }

    /// Commands, subcommands and options that the word may become, and those of `own` that begin as it does. They are in
    /// lower case if the line is.
    pub fn candidates(&self, own: &[&str]) -> Vec<String> {
        let has_lower = |text: &str| text.chars().any(char::is_lowercase);
        let folds =
            has_lower(self.word) || self.word.is_empty() && self.before.iter().any(|word| has_lower(word));
        let found = candidates(&self.before, self.word, own);
        found.into_iter().map(|word| if folds { word.to_lowercase() } else { word }).collect()
    }

    /// The word stands where the command takes a key.
    pub fn is_key(&self) -> bool {
        let Some((command, count)) = named(&self.before) else { return false };
        let name = [command.name.as_bytes()];
        let args: Vec<&[u8]> = self.before[count..].iter().map(String::as_bytes).collect();
        // A subcommand's row counts its arguments behind both names.
        let call: Vec<&[u8]> =
            name.into_iter().chain((count == 2).then_some(&b""[..])).chain(args).chain([&b""[..]]).collect();
        let mut is_key = false;
        command.each_key(&call, |at, _| is_key |= at + 1 == call.len());
        is_key
    }
}

/// The words of a text whose last quote may be open.
fn closed(text: &str) -> Option<Vec<Vec<u8>>> {
    [text.to_string(), format!("{text}\""), format!("{text}'")].iter().find_map(|text| split(text.as_bytes()))
}

/// The words of a line that may not be finished.
fn words(line: &str) -> Vec<String> {
    closed(line).into_iter().flatten().map(|word| String::from_utf8_lossy(&word).into_owned()).collect()
}

/// The row that the first words name, and how many they are.
fn named(words: &[String]) -> Option<(&'static Command, usize)> {
    let command = find(words.first()?.as_bytes())?;
    match words.get(1).and_then(|second| find_subcommand(command, second.as_bytes())) {
        Some(subcommand) => Some((subcommand, 2)),
        None => Some((command, 1)),
    }
}

/// Returns the part of the grammar that may follow `line`.
pub fn hint(line: &str) -> Option<String> {
    let words = words(line);
    let (command, count) = named(&words)?;
    if words.len() == count && !line.ends_with(' ') && command.grammar.is_empty() {
        return None;
    }
    let args: Vec<&str> = words[count..].iter().map(String::as_str).collect();
    let rest = hints::rest(command.grammar, &args)?.pieces.join(" ");
    (!rest.is_empty()).then_some(rest)
}

/// The words that may stand behind `before` and begin with `typed`; `own` are no commands.
fn candidates(before: &[String], typed: &str, own: &[&str]) -> Vec<String> {
    let topic = before.first().is_some_and(|first| first.eq_ignore_ascii_case("help"));
    let before = &before[usize::from(topic)..];
    let mut found: Vec<String> = if before.is_empty() {
        let names = all().map(|(_, command)| command).filter(|command| command.subcommand().is_none());
        let own = own.iter().filter(|_| !topic).map(|word| word.to_string());
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
    match hints::rest(command.grammar, &args) {
        Some(rest) => rest.literals,
        None => hints::literals(command.grammar),
    }
}

/// The text for `help COMMAND [SUBCOMMAND]` and `help @GROUP`, with ANSI colours; `general` is that for `help` alone.
pub fn help(topic: &[String], general: impl FnOnce() -> String) -> String {
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

/// Returns true if a line holds a secret, which the history must not keep.
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
        polder_engine::register();
        assert!(candidates(&[], "ge", &[]).contains(&"GET".to_string()));
        assert!(candidates(&owned(&["help"]), "@str", &[]).contains(&"@string".to_string()));
        assert!(candidates(&[], "no such command", &[]).is_empty());
    }

    #[test]
    fn the_last_word_may_be_a_key() {
        polder_engine::register();
        let cases: [(&str, usize, &[u8], bool); 9] = [
            ("get ", 4, b"", true),
            ("get us", 4, b"us", true),
            ("get \"a b", 4, b"a b", true),
            ("get 'it\\'s x", 4, b"it's x", true),
            ("get a b", 6, b"b", false),
            ("mget a b", 7, b"b", true),
            ("object encoding k", 16, b"k", true),
            ("ge", 0, b"ge", false),
            ("nonsense a", 9, b"a", false),
        ];
        for (line, start, plain, is_key) in cases {
            let typed = Typed::of(line);
            assert_eq!((typed.start, &typed.plain()[..], typed.is_key()), (start, plain, is_key), "{line}");
        }
    }

    #[test]
    fn hints_end_where_the_grammar_ends() {
        polder_engine::register();
        assert_eq!(hint("get").as_deref(), Some("key"));
        assert_eq!(hint("get a"), None);
        assert_eq!(hint("nonsense a"), None);
        assert_eq!(hint("get \"open quo"), None);
    }

    #[test]
    fn secrets_stay_out_of_the_history() {
        polder_engine::register();
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
