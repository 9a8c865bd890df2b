//! Ranges and ends of sorted sets.
use std::ops::{Bound, RangeBounds};

use polder_base::number;
use polder_base::options::{Fill, Words};
use smallvec::SmallVec;

/// An end of a range as its command reads it: `(1.5`, `[a`, `-inf`.
type EndText = SmallVec<[u8; 32]>;

fn end_text(sign: &[u8], bytes: &[u8]) -> EndText {
    let mut text = EndText::from_slice(sign);
    text.extend_from_slice(bytes);
    text
}

/// The two ends of a range of scores.
pub(crate) fn score_ends(range: &impl RangeBounds<f64>) -> [EndText; 2] {
    let end = |bound: Bound<&f64>, unbounded: &[u8]| match bound {
        Bound::Included(score) => end_text(b"", number::double_text(*score).as_bytes()),
        Bound::Excluded(score) => end_text(b"(", number::double_text(*score).as_bytes()),
        Bound::Unbounded => end_text(b"", unbounded),
    };
    [end(range.start_bound(), b"-inf"), end(range.end_bound(), b"+inf")]
}

/// The two ends of a range of members.
pub(crate) fn lex_ends<T: AsRef<[u8]>>(range: &impl RangeBounds<T>) -> [EndText; 2] {
    let end = |bound: Bound<&T>, unbounded: &[u8]| match bound {
        Bound::Included(member) => end_text(b"[", member.as_ref()),
        Bound::Excluded(member) => end_text(b"(", member.as_ref()),
        Bound::Unbounded => end_text(b"", unbounded),
    };
    [end(range.start_bound(), b"-"), end(range.end_bound(), b"+")]
}

/// Which members of a sorted set, and in which order: for [`Database::zrange`](crate::Database::zrange) and its like.
///
/// ```
/// # use polder_engine::Zrange;
/// let top_ten = Zrange::by_index(0, 9).rev();
/// let passed = Zrange::by_score(50.0..).limit(0, 100);
/// let names_in_a = Zrange::by_lex("a".."b");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zrange {
    by: Option<&'static str>,
    ends: [EndText; 2],
    descends: bool,
    limit: Option<(u64, i64)>,
}

impl Zrange {
    fn of(by: Option<&'static str>, ends: [EndText; 2]) -> Zrange {
        Zrange { by, ends, descends: false, limit: None }
    }

    /// From one index to another, both included; negative ones count from the end, which is -1.
    #[must_use]
    pub fn by_index(start: i64, stop: i64) -> Zrange {
        Zrange::of(None, [start, stop].map(|index| end_text(b"", number::integer_text(index).as_bytes())))
    }

    /// `BYSCORE`: of these scores (`1.0..=5.0`, `2.5..`, `..`).
    #[must_use]
    pub fn by_score(range: impl RangeBounds<f64>) -> Zrange {
        Zrange::of(Some("BYSCORE"), score_ends(&range))
    }

    /// `BYLEX`: from one member to another (`"a".."c"`, `""..`), where all members have the same score.
    #[must_use]
    pub fn by_lex<T: AsRef<[u8]>>(range: impl RangeBounds<T>) -> Zrange {
        Zrange::of(Some("BYLEX"), lex_ends(&range))
    }

    /// `REV`: from the highest score down; indexes count from there, too. The range is given from low to high nevertheless.
    #[must_use]
    pub fn rev(self) -> Zrange {
        Zrange { descends: true, ..self }
    }

    /// `LIMIT`: skips `offset` of them and shows up to `count`; a negative count means all. Not for a range by index.
    #[must_use]
    pub fn limit(self, offset: u64, count: i64) -> Zrange {
        Zrange { limit: Some((offset, count)), ..self }
    }
}

impl Fill for Zrange {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        let [low, high] = &self.ends;
        // The commands want the range from high to low if they go down it.
        let (first, last) = if self.descends && self.by.is_some() { (high, low) } else { (low, high) };
        words.bytes(first).bytes(last);
        if let Some(by) = self.by {
            words.bytes(by);
        }
        words.flag(self.descends, "REV");
        if let Some((offset, count)) = self.limit {
            words.bytes("LIMIT").count(offset).integer(count);
        }
    }
}

/// An end of a sorted set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extreme {
    /// The lowest scores.
    Min,
    /// The highest scores.
    Max,
}

impl Extreme {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Extreme::Min => "MIN",
            Extreme::Max => "MAX",
        }
    }
}
