//! What an actor meant to do and what was acknowledged: a text file that only grows and outlives its writer.
//!
//! ```text
//! I S 12 345     intends: set owned key 12 with sequence 345
//! I D 12 346     intends: delete owned key 12
//! I M 3 347      intends: write owned group 3
//! I C 1 348      intends: increment counter 1
//! I L 1 348      intends: write ledger 1
//! I X 2 349      intends: write shared group 2 (checked by its readers alone)
//! A              the last intent was acknowledged
//! H 349 1200     a successor's summary begins: sequence number and acknowledged deeds so far
//! N 1 400 2      counter 1 so far: acknowledged increments, and those that were only intended
//! ```
//! A successor replaces the file by a summary of it, in one rename, so that thousands of deaths do not make it long.
//! One `write` per line: SIGKILL cannot take back what the kernel has. A last line without its end was never written.
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// What an intent is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Deed {
    Set,
    Delete,
    Group,
    Count,
    Shared,
    Ledger,
}

const DEEDS: [(Deed, &str); 6] = [
    (Deed::Set, "S"),
    (Deed::Delete, "D"),
    (Deed::Group, "M"),
    (Deed::Count, "C"),
    (Deed::Shared, "X"),
    (Deed::Ledger, "L"),
];

/// One intent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intent {
    pub deed: Deed,
    pub target: u32,
    pub sequence: u64,
}

impl Intent {
    fn line(self) -> String {
        let letter = DEEDS.iter().find(|(deed, _)| *deed == self.deed).map_or("", |(_, letter)| letter);
        format!("I {letter} {} {}\n", self.target, self.sequence)
    }
}

/// The journal of one actor, open for writing.
pub struct Journal {
    file: File,
}

impl Journal {
    /// Begins a journal with what is known from the predecessor's, in whose place it is put.
    ///
    /// # Errors
    /// Those of the file.
    pub fn succeed(path: &Path, history: &History) -> io::Result<Journal> {
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, history.summary())?;
        std::fs::rename(&fresh, path)?;
        Ok(Journal { file: OpenOptions::new().append(true).open(path)? })
    }

    /// Notes what is going to be done.
    ///
    /// # Errors
    /// Those of the file.
    pub fn intend(&mut self, intent: Intent) -> io::Result<()> {
        self.file.write_all(intent.line().as_bytes())
    }

    /// Notes that the last intent was acknowledged.
    ///
    /// # Errors
    /// Those of the file.
    pub fn acknowledge(&mut self) -> io::Result<()> {
        self.file.write_all(b"A\n")
    }
}

/// What the memory may hold of one owned key or group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    /// The last acknowledged sequence number; `None` when it is absent.
    pub acknowledged: Option<u64>,
    /// What was intended after that and never acknowledged, by one writer after the other: each may have happened.
    pub intended: Vec<Option<u64>>,
}

impl Expected {
    /// Whether the memory may hold this.
    pub fn allows(&self, found: Option<u64>) -> bool {
        found == self.acknowledged || self.intended.contains(&found)
    }
}

/// What follows from a journal.
#[derive(Default, Debug)]
pub struct History {
    pub keys: BTreeMap<u32, Expected>,
    pub groups: BTreeMap<u32, Expected>,
    pub ledgers: BTreeMap<u32, Expected>,
    /// Acknowledged increments by counter.
    pub counted: BTreeMap<u32, u64>,
    /// Increments that were intended and never acknowledged, by counter.
    pub perhaps_counted: BTreeMap<u32, u64>,
    pub sequence: u64,
    pub acknowledged: u64,
}

impl History {
    /// Reads a journal; one that is not there is empty.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read(path: &Path) -> io::Result<History> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(History::of(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(History::default()),
            Err(error) => Err(error),
        }
    }

    /// Follows the lines of a journal.
    ///
    /// An intent that was never acknowledged stays possible until a later write of the same target
    /// is acknowledged. The successor must have seen one of the two states, but the journal cannot
    /// know which.
    pub fn of(text: &str) -> History {
        let mut history = History::default();
        let mut open: Option<Intent> = None;
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            match line {
                "" => {}
                "A" => open.take().into_iter().for_each(|intent| history.acknowledge(intent)),
                _ => {
                    open.take().into_iter().for_each(|intent| history.leave(intent));
                    open = parse(line);
                    match open {
                        Some(intent) => history.intend(intent),
                        None => history.recall(line),
                    }
                }
            }
        }
        open.into_iter().for_each(|intent| history.leave(intent));
        history
    }

    /// Takes in a line of a summary.
    fn recall(&mut self, line: &str) {
        let numbers: Vec<u64> = line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
        match (line.as_bytes()[0], &numbers[..]) {
            (b'H', &[sequence, acknowledged]) => {
                (self.sequence, self.acknowledged) = (sequence, acknowledged)
            }
            (b'N', &[counter, counted, perhaps]) => {
                self.counted.insert(counter as u32, counted);
                self.perhaps_counted.insert(counter as u32, perhaps);
            }
            _ => {}
        }
    }

    /// A journal that says the same.
    fn summary(&self) -> String {
        let mut text = String::new();
        for (owned, write) in
            [(&self.keys, Deed::Set), (&self.groups, Deed::Group), (&self.ledgers, Deed::Ledger)]
        {
            for (&target, expected) in owned {
                let line = |found: Option<u64>| match found {
                    Some(sequence) => Intent { deed: write, target, sequence }.line(),
                    None => Intent { deed: Deed::Delete, target, sequence: 0 }.line(),
                };
                text += &expected.acknowledged.map_or(String::new(), |sequence| line(Some(sequence)) + "A\n");
                text.extend(expected.intended.iter().map(|&found| line(found)));
            }
        }
        let counters: std::collections::BTreeSet<&u32> =
            self.counted.keys().chain(self.perhaps_counted.keys()).collect();
        for counter in counters {
            let of = |counts: &BTreeMap<u32, u64>| counts.get(counter).copied().unwrap_or(0);
            text += &format!("N {counter} {} {}\n", of(&self.counted), of(&self.perhaps_counted));
        }
        // Last, since the lines above count as deeds while they are read.
        text + &format!("H {} {}\n", self.sequence, self.acknowledged)
    }

    fn target(&mut self, intent: Intent) -> Option<&mut Expected> {
        match intent.deed {
            Deed::Set | Deed::Delete => Some(self.keys.entry(intent.target).or_default()),
            Deed::Group => Some(self.groups.entry(intent.target).or_default()),
            Deed::Ledger => Some(self.ledgers.entry(intent.target).or_default()),
            Deed::Count | Deed::Shared => None,
        }
    }

    fn intend(&mut self, intent: Intent) {
        self.sequence = self.sequence.max(intent.sequence);
        if let Some(expected) = self.target(intent) {
            expected.intended.push((intent.deed != Deed::Delete).then_some(intent.sequence));
        }
    }

    fn acknowledge(&mut self, intent: Intent) {
        self.acknowledged += 1;
        if let Some(expected) = self.target(intent) {
            *expected = Expected {
                acknowledged: (intent.deed != Deed::Delete).then_some(intent.sequence),
                intended: vec![],
            };
        }
        if intent.deed == Deed::Count {
            *self.counted.entry(intent.target).or_default() += 1;
        }
    }

    fn leave(&mut self, intent: Intent) {
        if intent.deed == Deed::Count {
            *self.perhaps_counted.entry(intent.target).or_default() += 1;
        }
    }
}

fn parse(line: &str) -> Option<Intent> {
    let mut words = line.split(' ');
    if words.next() != Some("I") {
        return None;
    }
    let letter = words.next()?;
    let deed = DEEDS.iter().find(|(_, known)| *known == letter)?.0;
    Some(Intent { deed, target: words.next()?.parse().ok()?, sequence: words.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_acknowledged_write_or_the_one_intended_after_it_is_expected() {
        let history =
            History::of("I S 1 5\nA\nI S 1 6\nA\nI S 1 7\n\nI D 2 8\nA\nI M 3 9\nA\nI C 0 10\nA\nI C 0 11\n");
        assert_eq!(history.keys[&1], Expected { acknowledged: Some(6), intended: vec![Some(7)] });
        assert!(
            history.keys[&1].allows(Some(7))
                && !history.keys[&1].allows(Some(5))
                && !history.keys[&1].allows(None)
        );
        assert_eq!(history.keys[&2], Expected::default());
        assert_eq!(history.groups[&3].acknowledged, Some(9));
        assert_eq!((history.counted[&0], history.perhaps_counted[&0], history.sequence), (1, 1, 11));
    }

    #[test]
    fn a_summary_says_what_the_journal_said() {
        let history = History::of(
            "I S 1 5\nA\nI S 1 6\nI D 1 7\nI S 2 8\nA\nI D 2 9\nA\nI M 3 9\nA\nI C 0 10\nA\nI C 0 11\nI X 1 12\nA\nI S 4 13\nI L 0 14\nA\nI L 0 15\n",
        );
        assert_eq!(history.keys[&1].intended, [Some(6), None]);
        let again = History::of(&history.summary());
        assert_eq!((&again.groups, &again.ledgers), (&history.groups, &history.ledgers));
        assert_eq!((&again.counted, &again.perhaps_counted), (&history.counted, &history.perhaps_counted));
        assert_eq!((again.sequence, again.acknowledged), (history.sequence, history.acknowledged));
        for key in [1, 2, 4] {
            assert_eq!(again.keys.get(&key).cloned().unwrap_or_default(), history.keys[&key], "key {key}");
        }
    }

    #[test]
    fn a_line_without_its_end_was_never_written() {
        let history = History::of("I S 1 5\nA\nI S 1 6");
        assert_eq!(history.keys[&1], Expected { acknowledged: Some(5), intended: vec![] });
    }
}
