//! What the families of collections share: replies straight from the nodes, fair picks by rank, and walks by cursor.
use polder_base::{Reply, glob};
use polder_table::{Stop, Table};
use polder_values::part::Part;
use polder_values::sequence::{Element, Sequence};
use polder_values::{Nodes, string as strings};
use smallvec::SmallVec;

use crate::string::reply_range;
use polder_calls::call::{Outcome, SYNTAX, integer, is};

/// How many elements a walk looks at when COUNT does not say.
const SCAN_COUNT: u64 = 10;

/// Bits of an element's word that are not in a cursor: cursors stay exact in languages whose only numbers are doubles.
const CURSOR_SHIFT: u32 = 11;

/// Replies with a part of what a node holds.
///
/// # Errors
/// A fault of the memory: the reply is then cut off and must be taken back.
pub(crate) fn reply_part(reply: &mut dyn Reply, nodes: &dyn Nodes, part: &Part<'_>) -> Outcome {
    reply_range(reply, nodes, part.value, part.start, part.end)
}

/// Replies with all of an element.
///
/// # Errors
/// As [`reply_part`].
pub(crate) fn reply_element(reply: &mut dyn Reply, nodes: &dyn Nodes, element: &Element<'_>) -> Outcome {
    let value = element.value();
    reply_range(reply, nodes, value, 0, strings::len(&value))
}

/// What each of many calls names behind its key: one field or member.
pub(crate) fn named<'a>(calls: &[&[&'a [u8]]]) -> SmallVec<[&'a [u8]; 128]> {
    calls.iter().map(|args| args[2]).collect()
}

/// Replies with up to `count` elements from `rank` on.
///
/// # Errors
/// As [`reply_part`].
pub(crate) fn reply_elements<'a>(
    reply: &mut dyn Reply,
    nodes: &'a dyn Nodes,
    elements: &Sequence<'a>,
    rank: u64,
    count: u64,
) -> Outcome {
    let mut ends = SmallVec::new();
    for stretch in elements.stretches(nodes, rank, count) {
        let stretch = stretch?;
        match stretch.bytes(&mut ends) {
            Some(bytes) => reply.bulks(bytes, &ends),
            None => stretch.elements().try_for_each(|element| reply_element(reply, nodes, &element?))?,
        }
    }
    Ok(())
}

/// `count` different numbers below `of`, in order; each choice of them is as likely as the others.
pub(crate) fn draw_ranks(table: &Table, count: u64, of: u64) -> Vec<u64> {
    /// If at least one number in `DENSE` is wanted, each number is decided in turn.
    const DENSE: u64 = 4;
    if count >= of {
        return (0..of).collect();
    }
    if count.saturating_mul(DENSE) >= of {
        let mut left = count;
        return (0..of)
            .filter(|number| {
                let taken = table.draw_below(of - number) < left;
                left -= u64::from(taken);
                taken
            })
            .collect();
    }
    // Floyd's: where a number is taken already, the greatest of those drawn from is not.
    let mut ranks = std::collections::BTreeSet::new();
    for last in of - count..of {
        if !ranks.insert(table.draw_below(last + 1)) {
            ranks.insert(last);
        }
    }
    ranks.into_iter().collect()
}

/// The options of HSCAN and its kin.
pub(crate) struct Scan<'a> {
    cursor: u64,
    pattern: Option<&'a [u8]>,
    count: u64,
    /// NOVALUES: only the fields of a hash.
    pub names_only: bool,
}

impl<'a> Scan<'a> {
    /// Reads what stands behind the cursor. `is_hash`: NOVALUES means something.
    ///
    /// # Errors
    /// Redis's texts.
    pub fn read(cursor: u64, options: &[&'a [u8]], is_hash: bool) -> Result<Scan<'a>, Stop> {
        let mut scan = Scan { cursor, pattern: None, count: SCAN_COUNT, names_only: false };
        let mut rest = options;
        while let [word, later @ ..] = rest {
            rest = match later {
                [value, later @ ..] if is(word, "COUNT") => {
                    scan.count =
                        u64::try_from(integer(value)?).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
                    later
                }
                [pattern, later @ ..] if is(word, "MATCH") => {
                    scan.pattern = Some(pattern);
                    later
                }
                later if is(word, "NOVALUES") => {
                    if !is_hash {
                        return Err("ERR NOVALUES option can only be used in HSCAN".into());
                    }
                    scan.names_only = true;
                    later
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        Ok(scan)
    }

    /// Whether a member or field is to be shown.
    pub fn shows(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::selects(pattern, name))
    }

    /// The least word that this step looks at.
    pub fn first_word(&self) -> u64 {
        self.cursor
            .checked_shl(CURSOR_SHIFT)
            .filter(|word| word >> CURSOR_SHIFT == self.cursor)
            .unwrap_or(u64::MAX)
    }

    /// Whether the walk stops before an element with `word`, having looked at `seen`, the last of
    /// which had the word `last`. Returns the next cursor then. Elements whose words do not differ
    /// above the cut are looked at in one step.
    pub fn stops_at(&self, seen: u64, last: u64, word: u64) -> Option<u64> {
        (seen >= self.count && word >> CURSOR_SHIFT != last >> CURSOR_SHIFT).then_some(word >> CURSOR_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_words_lead_back_to_them() {
        let scan = |cursor| Scan::read(cursor, &[], false).unwrap_or_else(|_| panic!("no options"));
        assert_eq!(scan(0).first_word(), 0);
        assert_eq!(scan(u64::MAX >> CURSOR_SHIFT).first_word(), u64::MAX << CURSOR_SHIFT);
        assert_eq!(scan(u64::MAX).first_word(), u64::MAX, "past the end");
        assert_eq!(scan(0).stops_at(10, 1, 2), None, "of one cursor");
        assert_eq!(scan(0).stops_at(10, 1, 5 << CURSOR_SHIFT), Some(5));
        assert_eq!(scan(0).stops_at(9, 1, 5 << CURSOR_SHIFT), None, "not enough yet");
    }
}
