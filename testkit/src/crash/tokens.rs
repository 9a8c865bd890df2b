//! Tokens that wander: pushed once, popped once, wherever they have been between.
//!
//! ```text
//! + 3.77.1     is going to push this token      A            has pushed it
//! -            is going to pop                  = 3.77.1     has popped this one;  `=` found nothing
//! ```
//! After a death between the two lines it is not known how it came out: a push that perhaps
//! happened, or one token that is perhaps gone.
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The file of one actor and its successors, open for writing.
pub struct Tokens {
    file: File,
}

impl Tokens {
    /// Goes on behind what is there.
    ///
    /// # Errors
    /// Those of the file.
    pub fn open(path: &Path) -> io::Result<Tokens> {
        Ok(Tokens { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    /// Notes a line.
    ///
    /// # Errors
    /// Those of the file.
    pub fn note(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// What all files say together.
#[derive(Default, Debug)]
pub struct Account {
    pushed: BTreeSet<String>,
    perhaps_pushed: BTreeSet<String>,
    /// How often each was popped.
    popped: BTreeMap<String, u32>,
    /// Pops of which it is not known whether they took something.
    perhaps_popped: usize,
}

impl Account {
    /// Adds what one file says.
    pub fn add(&mut self, text: &str) {
        let (mut pushing, mut popping) = (None::<String>, false);
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            match (line.as_bytes().first(), line.get(2..)) {
                (Some(b'A'), _) => self.pushed.extend(pushing.take()),
                (Some(b'='), token) => {
                    popping = false;
                    token.into_iter().for_each(|token| *self.popped.entry(token.into()).or_default() += 1);
                }
                (Some(b'+' | b'-'), token) => {
                    self.perhaps_pushed.extend(pushing.take());
                    self.perhaps_popped += usize::from(std::mem::take(&mut popping));
                    match token {
                        Some(token) if line.starts_with('+') => pushing = Some(token.into()),
                        _ => popping = true,
                    }
                }
                _ => {}
            }
        }
        self.perhaps_pushed.extend(pushing);
        self.perhaps_popped += usize::from(popping);
    }

    /// How many were popped.
    pub fn popped(&self) -> usize {
        self.popped.len()
    }

    /// Compares with what is left in the queues; what is wrong, if anything.
    pub fn settle(mut self, left: impl IntoIterator<Item = String>) -> Option<String> {
        left.into_iter().for_each(|token| *self.popped.entry(token).or_default() += 1);
        let twice: Vec<&String> =
            self.popped.iter().filter(|(_, times)| **times > 1).map(|(token, _)| token).collect();
        let unknown: Vec<&String> = self
            .popped
            .keys()
            .filter(|token| !self.pushed.contains(*token) && !self.perhaps_pushed.contains(*token))
            .collect();
        let lost: Vec<&String> =
            self.pushed.iter().filter(|token| !self.popped.contains_key(*token)).collect();
        match () {
            () if !twice.is_empty() => Some(format!("tokens came twice: {twice:?}")),
            () if !unknown.is_empty() => Some(format!("nobody has pushed these tokens: {unknown:?}")),
            () if lost.len() > self.perhaps_popped => Some(format!(
                "{} tokens are lost and only {} pops were cut short: {lost:?}",
                lost.len(),
                self.perhaps_popped
            )),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(text: &str) -> Account {
        let mut account = Account::default();
        account.add(text);
        account
    }

    #[test]
    fn every_token_is_accounted_for() {
        let text = "+ a\nA\n+ b\nA\n+ c\n+ d\nA\n-\n= a\n-\n=\n-\n";
        let settle = |left: &[&str]| account(text).settle(left.iter().map(|token| (*token).to_string()));
        assert_eq!(settle(&["b", "d"]), None);
        assert_eq!(settle(&["b", "c", "d"]), None);
        // One pop was cut short: one token may be gone, not two.
        assert_eq!(settle(&["d"]), None);
        assert!(settle(&[]).is_some_and(|wrong| wrong.contains("lost")));
        assert!(settle(&["a", "b", "d"]).is_some_and(|wrong| wrong.contains("twice")));
        assert!(settle(&["b", "d", "e"]).is_some_and(|wrong| wrong.contains("nobody has pushed")));
    }
}
