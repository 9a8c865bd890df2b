//! The sizes of the values of each database: INFO keysizes.
//!
//! No write counts anything for it. A call looks at [`KEYS_MAX`] keys at most, from where the last call of this process has stopped, so its cost
//! is bounded whatever the memory holds. When all databases have been gone through the pass is *whole*; its counts are shown until the next one is.
//! Up to [`KEYS_MAX`] keys, each call is a whole pass: what is shown is as of now. Before the first whole pass, what it has found so far is shown.
//!
//! ```text
//!   size     0   1   2..3   4..7   ...   1024..2047
//!   bin      0   1   2      3            11
//!   shown    0   1   2      4            1K            a bin's least size, in powers of 1024 where it is one
//! ```
use std::collections::BTreeMap;

use polder_table::{CommitView, Db, Stop, Txn};
use polder_values::{Kind, size};

/// Keys that one call looks at, about, if it names the section.
pub const KEYS_MAX: usize = 20_000;
/// Keys that one INFO ALL looks at: monitoring systems call it often.
pub const KEYS_MAX_UNNAMED: usize = 2_000;
/// Keys that are looked at before their counts are added.
const STEP: usize = 500;
const BINS: usize = 65;

/// The kinds that are shown, with the names of their lines, in the order of the lines.
const SHOWN: [(Kind, &str); 6] = [
    (Kind::String, "strings_sizes"),
    (Kind::List, "lists_items"),
    (Kind::Set, "sets_items"),
    (Kind::SortedSet, "zsets_items"),
    (Kind::Hash, "hashes_items"),
    (Kind::Array, "arrays_items"),
];

/// Counts of one database: values by kind and bin.
type Counts = [[u64; BINS]; SHOWN.len()];

/// See the head of this file.
#[derive(Default)]
pub struct KeySizes {
    whole: Option<BTreeMap<Db, Counts>>,
    begun: BTreeMap<Db, Counts>,
    /// The place where the pass goes on: a database, and the cursor in it.
    at: (Db, u64),
}

impl KeySizes {
    /// Goes on with the pass, or begins one. `databases` are those that hold keys, in order.
    ///
    /// # Errors
    /// A fault. What has been counted stays.
    pub fn go_on(&mut self, txn: &Txn<'_>, databases: &[Db], keys_max: usize) -> Result<(), Stop> {
        let mut left = keys_max;
        for db in databases.iter().copied().filter(|db| *db >= self.at.0).collect::<Vec<_>>() {
            if db != self.at.0 {
                self.at = (db, 0);
            }
            loop {
                let (cursor, seen) = self.step(txn, db)?;
                left = left.saturating_sub(seen.max(1));
                if cursor == 0 {
                    self.at = (db.saturating_add(1), 0);
                    break;
                }
                self.at.1 = cursor;
                if left == 0 {
                    return Ok(());
                }
            }
        }
        self.whole = Some(std::mem::take(&mut self.begun));
        self.at = (0, 0);
        Ok(())
    }

    /// Counts some values of a database. Returns the next cursor, and how many keys were looked at.
    fn step(&mut self, txn: &Txn<'_>, db: Db) -> Result<(u64, usize), Stop> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let cursor = txn.scan_hot(db, self.at.1, STEP, &mut |scanned| keys.push(scanned.key.to_vec()))?;
        let mut sizes = Vec::with_capacity(keys.len());
        for key in &keys {
            let found = match txn.glimpse(db, key) {
                Ok(Some(found)) => found,
                // An entry that cannot be read is passed over, and so is one whose value has left for a tier meanwhile.
                Ok(None) | Err(Stop::Fault(_) | Stop::Cold) => continue,
                Err(stop) => return Err(stop),
            };
            let Some(row) = SHOWN.iter().position(|(kind, _)| *kind == found.kind) else { continue };
            // A value that cannot be read has no size; `polder verify` names it.
            sizes.extend(size(found.kind, txn, &found.value).ok().map(|size| (row, size)));
        }
        let counts = self.begun.entry(db).or_insert([[0; BINS]; SHOWN.len()]);
        sizes.iter().for_each(|(row, size)| counts[*row][bin(*size)] += 1);
        Ok((cursor, keys.len()))
    }

    /// The lines of INFO.
    pub fn lines(&self) -> Vec<String> {
        let counts = self.whole.as_ref().unwrap_or(&self.begun);
        let mut lines = Vec::new();
        for (db, counts) in counts {
            for ((_, name), bins) in SHOWN.iter().zip(counts) {
                let shown: Vec<String> = bins
                    .iter()
                    .enumerate()
                    .filter(|(_, count)| **count > 0)
                    .map(|(bin, count)| format!("{}={count}", label(bin)))
                    .collect();
                if !shown.is_empty() {
                    lines.push(format!("db{db}_distrib_{name}:{}", shown.join(",")));
                }
            }
        }
        lines
    }
}

fn bin(size: u64) -> usize {
    (u64::BITS - size.leading_zeros()) as usize
}

fn label(bin: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bin.checked_sub(1) {
        None => "0".to_owned(),
        Some(power) => format!("{}{}", 1u64 << (power % 10), UNITS[power / 10]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_by_the_least_of_their_bin() {
        let names = [
            (0, "0"),
            (1, "1"),
            (3, "2"),
            (4, "4"),
            (1023, "512"),
            (1024, "1K"),
            (100_000, "64K"),
            (1 << 20, "1M"),
            (u64::MAX, "8E"),
        ];
        for (size, name) in names {
            assert_eq!(label(bin(size)), name, "{size}");
        }
    }
}
