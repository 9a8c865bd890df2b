//! Reads testkit/src/peers/differences.md: which replies differ from which peer, how far, and why.
use std::path::Path;

use regex::Regex;

use super::Line;

/// What is tolerated.
#[derive(Clone, PartialEq, Debug)]
pub enum Rule {
    /// The command is not generated at all.
    Skip,
    /// The order of the elements means nothing.
    Sorted,
    /// Integers may differ by so much.
    Near(i64),
    /// Only the type of the reply and the texts of errors are compared.
    Shape,
    /// Both refuse, in other words.
    Errors,
    /// We refuse what the peer lets pass.
    Refused,
    /// Numbers in text are equal to within 14 digits.
    Numbers,
}

/// The differences that hold for one peer.
pub struct Differences {
    rows: Vec<Row>,
}

struct Row {
    /// Matches the whole command line: name in upper case, arguments after it.
    line: Regex,
    rule: Rule,
}

impl Differences {
    /// Reads the table for the peer of this name.
    ///
    /// # Errors
    /// A text that names the line.
    pub fn read(path: &Path, peer: &str) -> Result<Differences, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Differences::parse(&text, peer)
    }

    /// Reads the table from its text.
    ///
    /// # Errors
    /// A text that names the line.
    pub fn parse(text: &str, peer: &str) -> Result<Differences, String> {
        let mut rows = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("| `")) {
            let cells = cells(line);
            let [commands, peers, rule, reason] = &cells[..] else {
                return Err(format!(
                    "testkit/src/peers/differences.md:{}: four columns: commands, peers, rule, reason",
                    at + 1
                ));
            };
            if reason.is_empty() {
                return Err(format!(
                    "testkit/src/peers/differences.md:{}: a difference needs a reason",
                    at + 1
                ));
            }
            if peers != "all" && !peers.split(", ").any(|name| name == peer) {
                continue;
            }
            let line = Regex::new(&format!("(?s)^(?:{})$", commands.trim_matches('`')))
                .map_err(|error| error.to_string())?;
            rows.push(Row {
                line,
                rule: rule_of(rule)
                    .ok_or_else(|| format!("testkit/src/peers/differences.md:{}: no rule {rule}", at + 1))?,
            });
        }
        Ok(Differences { rows })
    }

    /// The first rule that fits a command.
    pub fn rule(&self, line: &Line) -> Option<Rule> {
        let mut words = line.iter().map(|word| String::from_utf8_lossy(word).into_owned());
        let name = words.next().unwrap_or_default().to_uppercase();
        let text = words.fold(name, |text, word| text + " " + &word);
        self.rows.iter().find(|row| row.line.is_match(&text)).map(|row| row.rule.clone())
    }
}

/// The cells of a row; `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{0}");
    inner.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

fn rule_of(text: &str) -> Option<Rule> {
    match text.split_once(' ') {
        Some(("near", most)) => most.parse().ok().map(Rule::Near),
        _ => Some(match text {
            "skip" => Rule::Skip,
            "sorted" => Rule::Sorted,
            "shape" => Rule::Shape,
            "errors" => Rule::Errors,
            "refused" => Rule::Refused,
            "numbers" => Rule::Numbers,
            _ => return None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_first_rule_for_the_peer_counts() {
        let text = "# Title\n| commands | peers | rule | reason |\n|---|---|---|---|\n| `P?TTL .*` | all | near 5 | time passes |\n| `(SET\\|GET) .*` | redis | skip | why |\n";
        let redis = Differences::parse(text, "redis").unwrap();
        assert_eq!(redis.rule(&line("pttl k")), Some(Rule::Near(5)));
        assert_eq!(redis.rule(&line("SET k v")), Some(Rule::Skip));
        assert_eq!(Differences::parse(text, "valkey").unwrap().rule(&line("SET k v")), None);
    }

    #[test]
    fn a_difference_without_a_reason_is_an_error() {
        assert!(Differences::parse("| `GET` | all | skip |  |", "redis").is_err());
        assert!(Differences::parse("| `GET` | all | guess | why |", "redis").is_err());
    }
}
