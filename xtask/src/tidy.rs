//! The rules of style that a tool can check in the text of the sources.
//!
//! Limits that are not kept yet stand in `xtask/ratchet.txt` with the value of the day (`PATH LINES` for a file,
//! `PATH::FUNCTION LINES` for a function). They may only shrink: a value above the truth is a finding too.
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use crate::ratchet::Ratchet;

const FILE_LINES_MAX: usize = 1000;
const FUNCTION_LINES_MAX: usize = 70;

/// Crates whose roots may lack `forbid(unsafe_code)`: the unsafe floor, the table with its one raw module, the C door.
const UNSAFE_CRATES: [&str; 4] = ["shm/", "table/", "tier/", "capi/"];

/// Words that say "not done". Spelled in halves so that this file does not find itself.
const UNFINISHED: [&str; 5] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
];

/// Everything that is not as it should be.
///
/// # Errors
/// When the files cannot be listed or read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let ratchet = Ratchet::read(root, "xtask/ratchet.txt", "lines")?;
    let mut findings = Vec::new();
    let mut sizes = BTreeMap::new();
    // A generated file is as its generator writes it.
    let written = tracked(root, "*.rs")?.into_iter().filter(|path| !path.ends_with("/generated.rs"));
    for path in written {
        let text = std::fs::read_to_string(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        let lines: Vec<&str> = text.lines().collect();
        sizes.insert(path.clone(), (lines.len(), FILE_LINES_MAX));
        for (name, length) in functions(&lines) {
            // Two functions of one name in a file share an entry: the longer one counts.
            let entry = sizes.entry(format!("{path}::{name}")).or_insert((0, FUNCTION_LINES_MAX));
            entry.0 = entry.0.max(length);
        }
        findings.extend(header(&path, &lines));
        findings.extend(words(&path, &lines)?);
    }
    findings.extend(ratchet.findings(&sizes));
    Ok(findings)
}

/// The files of this pattern that git tracks or would track.
///
/// # Errors
/// When git cannot be run.
pub fn tracked(root: &Path, pattern: &str) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", pattern])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(listed.lines().filter(|path| root.join(path).exists()).map(String::from).collect())
}

fn header(path: &str, lines: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    if lines.len() <= 1 {
        // A crate that a later day fills has nothing to teach yet.
        return findings;
    }
    let teaches =
        lines.iter().find(|line| !line.starts_with("#!")).is_some_and(|line| line.starts_with("//!"));
    if !teaches {
        findings.push(format!("{path}:1: a file opens by saying what it is (//!)"));
    }
    let is_root = ["src/lib.rs", "src/main.rs"].iter().any(|root| path.ends_with(root));
    let may_lack = UNSAFE_CRATES.iter().any(|folder| path.starts_with(folder));
    if is_root && !may_lack && !lines.contains(&"#![forbid(unsafe_code)]") {
        findings.push(format!("{path}:1: a crate's root forbids unsafe code"));
    }
    findings
}

/// What single lines give away.
fn words(path: &str, lines: &[&str]) -> Result<Vec<String>, String> {
    let keyword = Regex::new(concat!(r"\bun", r"safe\b[^_]")).map_err(|error| error.to_string())?;
    let dead = Regex::new(r"^\s*//\s(let\s.*;|.*\);|\}|use\s.*;|(pub )?fn\s.*\{)$")
        .map_err(|error| error.to_string())?;
    let may_be_unsafe = path.starts_with("shm/")
        || path.starts_with("table/src/layout/raw")
        || path.starts_with("tier/src/rocks")
        || path.starts_with("capi/");
    let mut findings = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let mut find = |what: &str| findings.push(format!("{path}:{}: {what}", at + 1));
        if let Some(word) = UNFINISHED.iter().find(|word| line.contains(**word)) {
            find(&format!("{word} says that something is not done"));
        }
        if dead.is_match(line) {
            find("code that is commented out is deleted");
        }
        let code = line.split("//").next().unwrap_or_default();
        if !may_be_unsafe && keyword.is_match(&format!("{code} ")) && !code.contains('"') {
            find("this keyword lives in shm, table/src/layout/raw*.rs and capi only");
        }
    }
    Ok(findings)
}

/// Every function with the number of its lines. Relies on rustfmt: a body ends with a brace in its `fn`'s column.
fn functions(lines: &[&str]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((indent, name)) = function_name(line) else {
            continue;
        };
        let end_of_head = lines[at..]
            .iter()
            .position(|line| line.ends_with('{') || line.ends_with(';') || line.ends_with('}'));
        let Some(head) = end_of_head.filter(|&head| lines[at + head].ends_with('{')) else {
            continue;
        };
        let closing = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[at + head..].iter().position(|line| *line == closing) {
            found.push((name, head + length + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<(usize, String)> {
    let trimmed = line.trim_start();
    let (before, after) = trimmed.split_once("fn ")?;
    let qualifiers = |word: &str| {
        matches!(word, "pub" | "const" | "async" | "extern" | "\"C\"")
            || word.starts_with("pub(")
            || word == concat!("un", "safe")
    };
    before.split_whitespace().all(qualifiers).then(|| {
        let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        (line.len() - trimmed.len(), name.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_head_to_closing_brace() {
        let text = "impl A {\n    pub(crate) fn one(\n        a: u8,\n    ) -> u8 {\n        a\n    }\n    fn short() {}\n}\nfn two() {\n}\ntrait T {\n    fn none();\n}";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(functions(&lines), [("one".to_string(), 5), ("two".to_string(), 2)]);
    }

    #[test]
    fn telltale_lines_are_found() {
        let lines = [
            "let a = 1; // let it be",
            "    // let a = 1;",
            concat!("    dbg", "!(a);"),
            concat!("un", "safe { a }"),
            "/// let a = 1;",
        ];
        assert_eq!(words("values/src/x.rs", &lines).unwrap().len(), 3);
        assert_eq!(words("shm/src/x.rs", &lines).unwrap().len(), 2);
    }
}
