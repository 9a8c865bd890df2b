//! Reads `differences.md` beside this file: which replies may differ from memcached's, and why.
use std::path::Path;

/// A difference that the comparison tolerates, or that the generator avoids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    Fetched,
    Base64Key,
    Memory,
    Padding,
    CountedMarks,
    GrownExpiry,
    PastExpiry,
    ExpirySign,
    QuietCounter,
    ChosenOrder,
    Emptied,
    ErrorTexts,
    EncodedDebug,
}

/// The names under which the page lists them.
const NAMES: [(&str, Rule); 13] = [
    ("fetched", Rule::Fetched),
    ("base64 key", Rule::Base64Key),
    ("memory", Rule::Memory),
    ("padding", Rule::Padding),
    ("counted marks", Rule::CountedMarks),
    ("grown expiry", Rule::GrownExpiry),
    ("past expiry", Rule::PastExpiry),
    ("expiry sign", Rule::ExpirySign),
    ("quiet counter", Rule::QuietCounter),
    ("chosen order", Rule::ChosenOrder),
    ("emptied", Rule::Emptied),
    ("error texts", Rule::ErrorTexts),
    ("encoded debug", Rule::EncodedDebug),
];

/// The differences that are tolerated.
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads the page.
    ///
    /// # Errors
    /// A text that names the line that is wrong.
    pub fn read() -> Result<Rules, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/peers/memcached/differences.md");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Rules::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<Rules, String> {
        let mut rules = Vec::new();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, _, reason] = cells[..] else {
                return Err(format!("{line}: three columns: name, what differs, reason"));
            };
            let name = name.trim_matches('`');
            let (_, rule) = NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .ok_or(format!("no difference is named {name}"))?;
            if reason.is_empty() {
                return Err(format!("{name}: a difference needs a reason"));
            }
            rules.push(*rule);
        }
        Ok(Rules(rules))
    }

    /// Returns true if the page lists this difference.
    pub fn tolerate(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_difference_that_the_comparison_knows() {
        let rules = Rules::read().expect("the page is right");
        for (name, rule) in NAMES {
            assert!(rules.tolerate(rule), "{name}");
        }
    }

    #[test]
    fn a_difference_without_a_reason_is_an_error() {
        assert!(Rules::parse("| `fetched` | h | |").is_err());
        assert!(Rules::parse("| `nonsense` | h | why |").is_err());
    }
}
