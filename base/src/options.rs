//! What is optional in commands, by methods in place of words. Typed calls in-process and over a connection share these builders, so
//! that each word of a command stands in one place.
//!
//! ```
//! use polder_base::options::{Expiry, SetOptions, Words};
//! use std::time::Duration;
//!
//! let lock = SetOptions::new().if_absent().expiry(Expiry::In(Duration::from_secs(30)));
//! let mut words = Words::new();
//! words.bytes("SET").bytes("lock").bytes("me").options(&lock);
//! assert_eq!(words.iter().collect::<Vec<_>>(), [&b"SET"[..], b"lock", b"me", b"NX", b"PX", b"30000"]);
//! ```
//! Words that change what kind of reply comes (GET of SET, INCR of ZADD) are no options: the call that reads the reply adds them.
use smallvec::SmallVec;

use crate::number::{self, NumberText};

mod expiry;
mod hash;
mod list;
mod scan;
mod sorted_set;
mod stream;
mod string;

pub use expiry::{ExpireIf, Expiry, at_ms, in_ms};
pub use hash::HsetexOptions;
pub use list::LposOptions;
pub use scan::ScanOptions;
pub use sorted_set::{Aggregate, ZaddOptions, ZcombineOptions};
pub use stream::{Trim, XaddOptions};
pub use string::SetOptions;

/// This many words take no memory.
const WORDS: usize = 12;

/// A word of a call.
enum Word<'w> {
    Bytes(&'w [u8]),
    /// A number that has become text.
    Number(NumberText),
}

/// The words of a call, or some of them.
#[derive(Default)]
pub struct Words<'w>(SmallVec<[Word<'w>; WORDS]>);

/// What adds words of its own: the options of a command.
pub trait Fill {
    /// Adds the words in their order.
    fn fill<'w>(&'w self, words: &mut Words<'w>);
}

impl<'w> Words<'w> {
    /// No words yet.
    #[inline]
    pub fn new() -> Words<'w> {
        Words(SmallVec::new())
    }

    /// Text or bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &'w (impl AsRef<[u8]> + ?Sized)) -> &mut Words<'w> {
        self.0.push(Word::Bytes(bytes.as_ref()));
        self
    }

    /// A whole number in decimal.
    #[inline]
    pub fn integer(&mut self, value: i64) -> &mut Words<'w> {
        self.0.push(Word::Number(number::integer_text(value)));
        self
    }

    /// A number that is not negative.
    #[inline]
    pub fn count(&mut self, value: u64) -> &mut Words<'w> {
        // What is larger than any number of Redis is out of range for every command.
        self.integer(value.try_into().unwrap_or(i64::MAX))
    }

    /// The shortest text that reads back as the same double.
    #[inline]
    pub fn double(&mut self, value: f64) -> &mut Words<'w> {
        self.0.push(Word::Number(number::double_text(value)));
        self
    }

    /// Several words.
    pub fn all(&mut self, words: &'w [impl AsRef<[u8]>]) -> &mut Words<'w> {
        self.0.extend(words.iter().map(|word| Word::Bytes(word.as_ref())));
        self
    }

    /// The number of words, and the words.
    pub fn counted(&mut self, words: &'w [impl AsRef<[u8]>]) -> &mut Words<'w> {
        self.count(words.len() as u64).all(words)
    }

    /// Words in pairs, such as fields with their values.
    pub fn pairs(&mut self, pairs: &'w [(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> &mut Words<'w> {
        for (first, second) in pairs {
            self.bytes(first).bytes(second);
        }
        self
    }

    /// Scores, each before its member.
    pub fn scored(&mut self, pairs: &'w [(f64, impl AsRef<[u8]>)]) -> &mut Words<'w> {
        for (score, member) in pairs {
            self.double(*score).bytes(member);
        }
        self
    }

    /// A word, if something holds.
    pub fn flag(&mut self, holds: bool, word: &'static str) -> &mut Words<'w> {
        if holds { self.bytes(word) } else { self }
    }

    /// The words of a command's options.
    pub fn options(&mut self, options: &'w impl Fill) -> &mut Words<'w> {
        options.fill(self);
        self
    }

    /// How many words there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words in their order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|word| match word {
            Word::Bytes(bytes) => *bytes,
            Word::Number(text) => text.as_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(options: &impl Fill) -> String {
        let mut words = Words::new();
        words.options(options);
        let shown: Vec<_> = words.iter().map(String::from_utf8_lossy).collect();
        assert_eq!(shown.len(), words.len());
        shown.join(" ")
    }

    #[test]
    fn options_are_the_words_of_the_command() {
        let half = Expiry::In(Duration::from_micros(4_500));
        assert_eq!(text(&SetOptions::new()), "");
        assert_eq!(text(&SetOptions::new().if_absent().expiry(half)), "NX PX 5");
        assert_eq!(text(&SetOptions::new().if_present().expiry(Expiry::Keep)), "XX KEEPTTL");
        assert_eq!(text(&SetOptions::new().if_equal("old").expiry(Expiry::at_ms(8))), "IFEQ old PXAT 8");
        assert_eq!(text(&HsetexOptions::new().if_present().expiry(half)), "FXX PX 5");
        assert_eq!(text(&ExpireIf::Later), "GT");
        assert_eq!(text(&LposOptions::new().rank(-1)), "RANK -1 COUNT 0 MAXLEN 0");
        assert_eq!(text(&ScanOptions::new().matching("a*").count(5)), "MATCH a* COUNT 5");
        assert_eq!(text(&ZaddOptions::new().if_present().if_greater().count_changed()), "XX GT CH");
        assert_eq!(text(&ZaddOptions::new().if_absent().if_less()), "NX LT");
        assert_eq!(
            text(&ZcombineOptions::new().weights(&[2.0, 0.5]).aggregate(Aggregate::Max)),
            "WEIGHTS 2 0.5 AGGREGATE MAX"
        );
        assert_eq!(text(&Trim::maxlen(10)), "MAXLEN = 10");
        assert_eq!(text(&Trim::minid("5-0").roughly().limit(100)), "MINID ~ 5-0 LIMIT 100");
        assert_eq!(text(&XaddOptions::new()), "*");
        assert_eq!(
            text(&XaddOptions::new().if_present().trim(Trim::maxlen(3)).id("7-1")),
            "NOMKSTREAM MAXLEN = 3 7-1"
        );
    }

    /// A command that removes an expiry unless told otherwise has no word for that, and one that keeps it has none for keeping.
    #[test]
    fn an_expiry_is_written_as_its_command_reads_it() {
        assert_eq!(text(&SetOptions::new().expiry(Expiry::Never)), "");
        let mut words = Words::new();
        Expiry::Keep.fill_get(&mut words);
        assert!(words.is_empty());
        Expiry::Never.fill_get(&mut words);
        assert_eq!(words.iter().collect::<Vec<_>>(), [b"PERSIST"]);
    }
}
