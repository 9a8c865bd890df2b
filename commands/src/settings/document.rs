//! docs/settings.md, rendered from the table.
use std::fmt::Write;

use super::value;
use super::{Change, GROUPS, Scope, Setting, Shape};

const OPENING: &str = "# Settings

Generated from the table in `commands/src/settings/`; do not edit.

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
        let _ = write!(page, "\n## {heading}\n\n| name | values | first | where | when | |\n|---|---|---|---|---|---|\n");
        for row in rows.iter().filter(|row| row.scope != Scope::Inert) {
            page.push_str(&line(row));
        }
        let inert: Vec<String> = rows.iter().filter(|row| row.scope == Scope::Inert && !row.hidden).map(inert).collect();
        if !inert.is_empty() {
            let _ = write!(page, "\nWithout meaning here:\n\n{}", inert.concat());
        }
    }
    page
}

fn line(row: &Setting) -> String {
    let place = if row.scope == Scope::Segment { "segment" } else { "process" };
    let time = match row.change {
        Change::Anytime => "any time",
        Change::AtStart | Change::AtStartHere => "at start",
        Change::Protected => "protected",
    };
    let about = if row.refusal.is_empty() { row.about.to_owned() } else { format!("Other values are refused: {}.", row.refusal) };
    format!("| {} | {} | {} | {place} | {time} | {} |\n", names(row), shape(row.shape), first(row), about.replace('|', "\\|"))
}

fn inert(row: &Setting) -> String {
    let about = if row.refusal.is_empty() { row.about.to_owned() } else { format!("Other values are refused: {}.", row.refusal) };
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
    let range = |min: i64, max: i64, end: i64| if max == end { format!("from {min}") } else { format!("{min} to {max}") };
    match shape {
        Shape::Switch => "`yes`, `no`".into(),
        Shape::Integer { min, max } => range(min, max, i64::MAX),
        Shape::Memory { min, max } => format!("bytes, {}", range(min, max, i64::MAX)),
        Shape::MemoryOrPercent => "bytes or `N%`".into(),
        Shape::Octal { max } => format!("octal, 0 to {max:o}"),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Flags(words) => format!("any of {}", words.join(" ")),
        Shape::Text => "text".into(),
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
    use super::super::TABLE;
    use super::*;

    #[test]
    fn the_page_names_every_setting_that_is_shown() {
        let page = markdown();
        for row in TABLE.iter().filter(|row| !row.hidden) {
            assert!(page.contains(&format!("`{}`", row.name)), "{}", row.name);
        }
    }
}
