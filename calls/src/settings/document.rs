//! What people read of the settings, rendered from the table: docs/settings.md, the commented sample file, and the list for `serve --help`.
use std::fmt::Write;

use polder_base::words::quote;

use super::value;
use super::{Change, GROUPS, Scope, Setting, Shape};

const OPENING: &str = "# Settings

Generated from the table in `calls/src/settings/`; do not edit.

Settings are read from a redis.conf-style file, then from flags (`--name value`), and changed while running by
`CONFIG SET`. A value kept *in the segment* holds in every process that shares it and wins over a file's; a flag wins
over both and is written to the segment. `CONFIG REWRITE` writes the values of now into the file.

Names are Redis's own where the meaning is the same. Those *without meaning here* are kept so that clients and files
work unmodified. A value that would promise what is not there is refused with the reason.
";

/// The whole page.
pub fn markdown() -> String {
    let mut page = String::from(OPENING);
    for (heading, rows) in GROUPS {
        let _ = write!(
            page,
            "\n## {heading}\n\n| name | values | first | where | when | |\n|---|---|---|---|---|---|\n"
        );
        for row in rows.iter().filter(|row| row.scope != Scope::Inert) {
            page.push_str(&line(row));
        }
        let inert: Vec<String> =
            rows.iter().filter(|row| row.scope == Scope::Inert && !row.hidden).map(inert).collect();
        if !inert.is_empty() {
            let _ = write!(page, "\nWithout meaning here:\n\n{}", inert.concat());
        }
    }
    page
}

const SAMPLE_OPENING: &str = "\
# The configuration of `polder serve FILE`: every setting with its first value, made from the table of settings.
#
# A line that begins with '#' is a comment; take the '#' away and change the value. Files of Redis are read as they are.
# Flags win over this file: `polder serve FILE --port 7000`. CONFIG SET changes what is not marked 'at start' while the
# server runs, and CONFIG REWRITE writes the values of that moment into this file. A value marked 'in the segment' holds
# in every process that shares the memory; once it has been set there, a line in this file does not change it.
#
# More lines that a file may have:
#
#   include /etc/polder/other.conf
#   user alice on >password ~cached:* +@read        (ACL; or a file of users: aclfile)
#   rename-command FLUSHALL \"\"                     (takes the command away; ACL rules are the finer tool)
";

/// A file with every setting that means something here, commented out.
pub fn sample() -> String {
    let mut page = String::from(SAMPLE_OPENING);
    for (heading, rows) in GROUPS {
        let rows: Vec<&Setting> = rows.iter().filter(|row| is_offered(row)).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(page, "\n# ---- {heading} {}\n", "-".repeat(100 - heading.len()));
        for row in rows {
            page.push('\n');
            let marks = match (row.scope, row.change) {
                (Scope::Segment, Change::AtStart | Change::AtStartHere) => " (in the segment, at start)",
                (Scope::Segment, _) => " (in the segment)",
                (_, Change::AtStart | Change::AtStartHere) => " (at start)",
                _ => "",
            };
            let text = format!("{}{marks} Values: {}.", row.about, shape(row.shape)).replace('`', "");
            wrapped(&text, 108).iter().for_each(|line| _ = writeln!(page, "# {line}"));
            let _ = writeln!(page, "#{} {}", row.name, sample_value(row));
        }
    }
    page
}

/// Whether a setting has a meaning and may be set to more than one value.
fn is_offered(row: &Setting) -> bool {
    row.scope != Scope::Inert && row.refusal.is_empty() && !row.hidden
}

/// The first value as a line of a file has it.
fn sample_value(row: &Setting) -> String {
    let parsed = value::start(row);
    match row.shape {
        Shape::Memory { .. } => value::format_bytes(parsed.number),
        _ if row.takes_words() && !parsed.text.is_empty() => {
            String::from_utf8_lossy(&parsed.text).into_owned()
        }
        _ => quote(&parsed.text),
    }
}

/// The settings by group, a line each, for `polder serve --help`.
pub fn overview() -> String {
    let mut page = String::new();
    for (heading, rows) in GROUPS {
        let rows: Vec<&Setting> = rows.iter().filter(|row| is_offered(row)).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(page, "{heading}:");
        for row in rows {
            let flag = format!("--{} {}", row.name, sample_value(row));
            let mut lines = wrapped(&row.about.replace('`', ""), 78).into_iter();
            let _ = writeln!(page, "  {flag:<39} {}", lines.next().unwrap_or_default());
            lines.for_each(|line| _ = writeln!(page, "  {:<39} {line}", ""));
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page
}

/// A text in lines of at most `width` letters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn line(row: &Setting) -> String {
    let place = if row.scope == Scope::Segment { "segment" } else { "process" };
    let time = match row.change {
        Change::Anytime => "any time",
        Change::AtStart | Change::AtStartHere => "at start",
        Change::Protected => "protected",
    };
    let about = if row.refusal.is_empty() {
        row.about.to_owned()
    } else {
        format!("Other values are refused: {}.", row.refusal)
    };
    format!(
        "| {} | {} | {} | {place} | {time} | {} |\n",
        names(row),
        shape(row.shape),
        first(row),
        about.replace('|', "\\|")
    )
}

fn inert(row: &Setting) -> String {
    let about = if row.refusal.is_empty() {
        row.about.to_owned()
    } else {
        format!("Other values are refused: {}.", row.refusal)
    };
    format!("- {} ({}){}{about}\n", names(row), first(row), if about.is_empty() { "" } else { ": " })
}

fn names(row: &Setting) -> String {
    row.names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn first(row: &Setting) -> String {
    match (row.shape, value::start(row)) {
        (Shape::Memory { .. }, parsed) => format!("`{}`", value::format_bytes(parsed.number)),
        (_, parsed) if parsed.text.is_empty() => "empty".to_owned(),
        (_, parsed) => format!("`{}`", String::from_utf8_lossy(&parsed.text)),
    }
}

fn shape(shape: Shape) -> String {
    let range = |min: i64, max: i64, end: i64| {
        if max == end { format!("from {min}") } else { format!("{min} to {max}") }
    };
    match shape {
        Shape::Switch => "`yes`, `no`".into(),
        Shape::Integer { min, max } => range(min, max, i64::MAX),
        Shape::Memory { min, max } => format!("bytes, {}", range(min, max, i64::MAX)),
        Shape::MemoryOrPercent => "bytes or `N%`".into(),
        Shape::Octal { max } => format!("octal, 0 to {max:o}"),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Flags(words) => format!("any of {}", words.join(" ")),
        Shape::Text => "text".into(),
        Shape::BaseName => "a name without a path".into(),
        Shape::Words => "words".into(),
        Shape::Save => "pairs of seconds and changes".into(),
        Shape::OutputLimits => "class, hard, soft, seconds".into(),
        Shape::EventClasses => "letters of `Ag$lshzxeKEtmdn`".into(),
        Shape::OomScores => "three numbers".into(),
        Shape::Percentiles => "percentiles".into(),
        Shape::Primary => "host and port".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::{Line, read_line};
    use super::super::{Settings, TABLE};
    use super::*;

    #[test]
    fn every_line_of_the_sample_is_a_setting_with_its_first_value() {
        let page = sample();
        let is_commented = |line: &&str| {
            line.strip_prefix('#')
                .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
        };
        let lines: Vec<&str> = page.lines().filter(is_commented).collect();
        assert_eq!(lines.len(), TABLE.iter().filter(|row| is_offered(row)).count());
        for line in lines {
            let Ok(Line::Assignment(id, words)) = read_line(&line.as_bytes()[1..]) else { panic!("{line}") };
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let parsed = value::parse(id.row(), &words, &Settings::default().text(id));
            assert_eq!(parsed, Ok(value::start(id.row())), "{line}");
        }
        assert!(page.lines().all(|line| line.len() <= 120), "lines are at most 120 letters long");
    }

    #[test]
    fn the_page_names_every_setting_that_is_shown() {
        let page = markdown();
        for row in TABLE.iter().filter(|row| !row.hidden) {
            assert!(page.contains(&format!("`{}`", row.name)), "{}", row.name);
        }
    }
}
