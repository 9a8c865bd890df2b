//! Conditions of a request on one key: entity tags and ranges (RFC 9110, sections 13 and 14).
//!
//! The tag of a string is its CAS, which changes with each change of the key. A value of another type has no tag.
use std::ops::Range;

use polder_wire::http::Fields;

use super::answer::Answer;
use super::note::Verb;

/// What a request wants to be true, and which part of the value it wants.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
    range: Option<Part>,
    if_range: Option<Tags>,
}

/// Entity tags.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tags {
    Any,
    Listed(Vec<u64>),
}

/// A part of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    From(u64),
    Between(u64, u64),
    Last(u64),
}

/// What becomes of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown {
    Whole,
    Part(Range<u64>),
    /// No part of the range is there.
    Outside,
}

impl Conditions {
    /// Those of plain requests.
    pub const NONE: Conditions =
        Conditions { if_match: None, if_none_match: None, range: None, if_range: None };

    /// What the fields of a request say.
    pub fn of(fields: &Fields<'_>, verb: Verb) -> Result<Conditions, Answer> {
        let conditions = Conditions {
            if_match: fields.if_match.map(|text| tags(text, false)),
            if_none_match: fields.if_none_match.map(|text| tags(text, true)),
            range: fields.range.filter(|_| verb == Verb::Read).and_then(part),
            if_range: fields.if_range.map(|text| tags(text, false)),
        };
        if verb == Verb::Read {
            return Ok(conditions);
        }
        let is_clear = match (&conditions.if_match, &conditions.if_none_match) {
            (None, None) => true,
            (Some(Tags::Any), None) => true,
            (Some(Tags::Listed(tags)), None) => tags.len() <= 1,
            (None, Some(Tags::Any)) => verb == Verb::Store,
            _ => false,
        };
        match is_clear {
            true => Ok(conditions),
            false => {
                Err(Answer::error(400, "a change takes If-Match with one tag or *, or If-None-Match: *"))
            }
        }
    }

    pub fn is_none(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// The call that stores or removes under these conditions.
    pub fn words(&self, verb: Verb, key: &[u8], body: &[u8], options: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = match verb {
            Verb::Remove => vec![b"ITEM.DEL".to_vec(), key.to_vec()],
            _ => vec![b"ITEM.SET".to_vec(), key.to_vec(), body.to_vec()],
        };
        match (&self.if_match, &self.if_none_match) {
            (Some(Tags::Listed(tags)), _) => {
                // No version is 0, so a tag that was never ours fails.
                let tag = tags.first().copied().unwrap_or(0);
                words.extend([b"CAS".to_vec(), tag.to_string().into_bytes()]);
            }
            (Some(Tags::Any), _) if verb == Verb::Store => words.push(b"REPLACE".to_vec()),
            (None, Some(_)) => words.push(b"ADD".to_vec()),
            _ => {}
        }
        words.extend_from_slice(options);
        words
    }

    /// The status of a read that a tag ends, if one does.
    pub fn ends_read(&self, tag: u64) -> Option<u16> {
        if self.if_match.as_ref().is_some_and(|tags| !tags.have(tag)) {
            return Some(412);
        }
        self.if_none_match.as_ref().is_some_and(|tags| tags.have(tag)).then_some(304)
    }

    /// Which part of a value of this length is shown.
    pub fn shown(&self, length: u64, tag: Option<u64>) -> Shown {
        let Some(part) = self
            .range
            .filter(|_| self.if_range.as_ref().is_none_or(|tags| tag.is_some_and(|tag| tags.have(tag))))
        else {
            return Shown::Whole;
        };
        let range = match part {
            Part::From(begin) => begin..length,
            Part::Between(begin, last) => begin..length.min(last.saturating_add(1)),
            Part::Last(count) => length.saturating_sub(count)..length,
        };
        if range.is_empty() { Shown::Outside } else { Shown::Part(range) }
    }
}

impl Tags {
    fn have(&self, tag: u64) -> bool {
        match self {
            Tags::Any => true,
            Tags::Listed(tags) => tags.contains(&tag),
        }
    }
}

/// The tags of a list. A weak tag counts only where two values need not be the same byte by byte.
fn tags(text: &[u8], takes_weak: bool) -> Tags {
    if text.trim_ascii() == b"*" {
        return Tags::Any;
    }
    let tag = |word: &[u8]| {
        let word = word.trim_ascii();
        let word = word.strip_prefix(b"W/").filter(|_| takes_weak).unwrap_or(word);
        std::str::from_utf8(word.strip_prefix(b"\"")?.strip_suffix(b"\"")?).ok()?.parse().ok()
    };
    Tags::Listed(text.split(|byte| *byte == b',').filter_map(tag).collect())
}

/// The part that `Range` asks for. A list of parts, another unit, and what is no range are ignored, as RFC 9110 allows.
fn part(text: &[u8]) -> Option<Part> {
    let text = std::str::from_utf8(text).ok()?;
    let (begin, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten()
    };
    match (begin, last) {
        ("", last) if !last.is_empty() => Some(Part::Last(number(last)?)),
        (_, "") if begin.is_empty() => None,
        (begin, "") => Some(Part::From(number(begin)?)),
        (begin, last) => Some((number(begin)?, number(last)?))
            .filter(|(begin, last)| begin <= last)
            .map(|(begin, last)| Part::Between(begin, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_value() {
        let shown = |text: &str, length| {
            Conditions { range: part(text.as_bytes()), ..Conditions::NONE }.shown(length, None)
        };
        assert_eq!(shown("bytes=0-3", 10), Shown::Part(0..4));
        assert_eq!(shown("bytes=5-", 10), Shown::Part(5..10));
        assert_eq!(shown("bytes=-3", 10), Shown::Part(7..10));
        assert_eq!(shown("bytes=-30", 10), Shown::Part(0..10));
        assert_eq!(shown("bytes=5-18446744073709551615", 10), Shown::Part(5..10));
        for outside in ["bytes=10-", "bytes=10-20", "bytes=-0"] {
            assert_eq!(shown(outside, 10), Shown::Outside, "{outside}");
        }
        for ignored in
            ["bytes=3-2", "bytes=0-1,3-4", "lines=0-1", "bytes=a-b", "bytes=+1-2", "bytes", "bytes=-"]
        {
            assert_eq!(shown(ignored, 10), Shown::Whole, "{ignored}");
        }
    }

    #[test]
    fn a_weak_tag_is_enough_to_save_a_transfer_only() {
        assert!(tags(b"\"1\", W/\"7\"", true).have(7) && !tags(b"\"1\", W/\"7\"", false).have(7));
        assert!(tags(b" * ", false).have(9) && !tags(b"7", true).have(7) && !tags(b"\"x\"", true).have(7));
    }
}
