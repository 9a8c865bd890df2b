//! Each `polder ...` line of a document is one that this program understands: the parser of the program itself reads it.
//!
//! A line is one of a block of code, up to a comment, a pipe, a redirection, `&` or `;`, or a whole span in backticks. A
//! span that only names a subcommand (`polder segment remove`) is a name, not a line.
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use polder_base::words;

use crate::{Arguments, Command, serve};

/// Fewer lines mean that the documents are no longer found, or no longer read rightly.
const LINES_MIN: usize = 60;

/// The documents for users and contributors, wherever they lie.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !["target", "decisions"].contains(&name.as_str()) {
            documents(&path, found);
        } else if name.ends_with(".md") || name == "Containerfile" || name.ends_with(".service") {
            found.push(path);
        }
    }
}

/// The part of a shell line that is one command, from `polder` on.
fn command(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
    let word = line.strip_prefix("polder ")?;
    if !word.starts_with(|letter: char| letter.is_ascii_lowercase() || letter == '-') {
        return None;
    }
    let (mut quote, mut end) = (None, line.len());
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '#' | '|' | '&' | ';' | '>' | '\\') => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    Some(line[..end].trim().to_owned())
}

/// The command lines of a document.
fn lines(text: &str) -> Vec<String> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            found.extend(command(line));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter_map(command).filter(|span| !is_name(span)));
        }
    }
    found
}

/// Tells a span that names a subcommand and says no more.
fn is_name(span: &str) -> bool {
    let program = Arguments::command();
    let mut at = &program;
    for word in span.split_whitespace().skip(1) {
        match at.find_subcommand(word) {
            Some(next) => at = next,
            None => return false,
        }
    }
    true
}

/// Reads a line as the program does. Returns what the program would say against it.
fn refusal(line: &str) -> Option<String> {
    // The output of another command is one word.
    let line = line.split("$(").enumerate().map(|(number, part)| match number {
        0 => part,
        _ => part.split_once(')').map_or("", |(_, rest)| rest),
    });
    let Some(words) = words::split(line.collect::<Vec<_>>().join("TEXT").as_bytes()) else {
        return Some("a quote is not closed".into());
    };
    match Arguments::try_parse_from(words.into_iter().map(|word| String::from_utf8(word).unwrap())) {
        Err(error) if error.exit_code() == 0 => None,
        Err(error) => Some(error.to_string()),
        Ok(Arguments { command: Command::Serve(arguments) }) => serve::settings(arguments.flags()).err(),
        Ok(_) => None,
    }
}

#[test]
fn the_command_lines_of_documents_are_understood() {
    polder_engine::register();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths = Vec::new();
    documents(root, &mut paths);
    let (mut read, mut wrong) = (0, Vec::new());
    for path in paths {
        for line in lines(&std::fs::read_to_string(&path).unwrap()) {
            read += 1;
            if let Some(why) = refusal(&line) {
                wrong.push(format!("{}: {line}\n{why}", path.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read >= LINES_MIN, "only {read} lines were found");
}

#[test]
fn lines_that_the_program_does_not_know_are_found() {
    let text = "`polder inspect KEY --segment NAME` and `polder top`\n```sh\n$ polder serve --port x # why\npolder verify a b | wc\n```\n";
    let found = lines(text);
    assert_eq!(found, ["polder inspect KEY --segment NAME", "polder serve --port x", "polder verify a b"]);
    assert!(found.iter().all(|line| refusal(line).is_some()));
}
