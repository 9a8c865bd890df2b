//! The rules of plain English that a tool can check, in the comments of Rust files and in the documents.
//!
//! A program, thread, process or function is a thing, so words for persons do not stand for it. A function returns, a command replies and
//! a call fails. The phrases below have plainer words, which stand beside them. Files that still break a rule are listed in
//! `xtask/english.txt` with the number of places, which may only fall.
use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;

use crate::ratchet::Ratchet;
use crate::tidy::tracked;

const FILE: &str = "xtask/english.txt";
const HEAD: &str = "# Places that break a rule of plain English yet: PATH COUNT. Counts only fall (see xtask/src/english.rs; `cargo x english` shows them).";

/// What is looked for, and what to write instead. Spelled so that this file does not find itself: strings are not looked at.
const RULES: [(&str, &str); 4] = [
    (
        r"\b(he|his|him|himself|whoever|somebody|anybody|nobody|everybody)\b",
        "name the thing: a thread, writer, reader, process, client",
    ),
    (r"\b(thread|process|writer|reader|server|transaction|seat)s? who\b", "which or that"),
    (
        r"\b(comes to its end|in vain|at hand|all the same|so many|the midst|finds? no memory|rings? the bell)\b",
        "plain words",
    ),
    (r"\b(the (long|short|shortest|quick) way|answers)\b", "slow path, fast path; returns, replies, fails"),
];

/// Each place of a file that breaks a rule: its line, what was found, and what to write instead.
type Places = Vec<(usize, String, &'static str)>;

/// The files that have more such places than their entry says, and the entries that are too high by now.
///
/// # Errors
/// When a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let counts = places(root)?.into_iter().map(|(path, places)| (path, (places.len(), 0))).collect();
    Ok(Ratchet::read(root, FILE, "places that `cargo x english` shows")?.findings(&counts))
}

/// Every place, as findings.
///
/// # Errors
/// When a file cannot be read.
pub fn list(root: &Path) -> Result<Vec<String>, String> {
    let places = places(root)?;
    let lines = places.iter().flat_map(|(path, places)| {
        places.iter().map(move |(line, found, instead)| format!("{path}:{line}: \"{found}\": {instead}"))
    });
    Ok(lines.collect())
}

/// Writes the list of today.
///
/// # Errors
/// When a file cannot be read or written.
pub fn write(root: &Path) -> Result<Vec<String>, String> {
    let mut text = format!("{HEAD}\n");
    for (path, places) in places(root)?.iter().filter(|(_, places)| !places.is_empty()) {
        text += &format!("{path} {}\n", places.len());
    }
    std::fs::write(root.join(FILE), text).map_err(|error| format!("{FILE}: {error}"))?;
    Ok(Vec::new())
}

fn places(root: &Path) -> Result<BTreeMap<String, Places>, String> {
    let mut rules = Vec::new();
    for (pattern, instead) in RULES {
        rules.push((Regex::new(&format!("(?i){pattern}")).map_err(|error| error.to_string())?, instead));
    }
    let mut found = BTreeMap::new();
    for path in [tracked(root, "*.rs")?, tracked(root, "*.md")?].concat() {
        let text = std::fs::read_to_string(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        found.insert(path.clone(), places_of(&rules, &text, path.ends_with(".rs")));
    }
    Ok(found)
}

fn places_of(rules: &[(Regex, &'static str)], text: &str, is_code: bool) -> Places {
    let mut places = Places::new();
    for (at, line) in text.lines().enumerate() {
        let Some(prose) = (if is_code { comment(line) } else { Some(line) }) else { continue };
        for (rule, instead) in rules {
            places.extend(rule.find_iter(prose).map(|found| (at + 1, found.as_str().to_string(), *instead)));
        }
    }
    places
}

/// What a line of Rust says in a comment. Two slashes behind an odd number of quotation marks, or behind a colon, are no comment.
fn comment(line: &str) -> Option<&str> {
    let at = line.find("//")?;
    let before = &line[..at];
    (before.matches('"').count().is_multiple_of(2) && !before.ends_with(':')).then(|| &line[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prose_is_looked_at() {
        let rules: Vec<_> =
            RULES.iter().map(|(pattern, instead)| (Regex::new(pattern).unwrap(), *instead)).collect();
        let found = |text, is_code| places_of(&rules, text, is_code).len();
        assert_eq!(found("/// A process who dies tells nobody.", true), 2);
        assert_eq!(found("let nobody = 1;", true), 0);
        assert_eq!(found("let url = \"redis://somebody\";", true), 0);
        assert_eq!(found("It answers all the same.", false), 2);
        assert_eq!(found("A user who asks is told; the process that dies is recovered.", false), 0);
    }
}
