//! The words of a typed call ([`Words`]), and how it is run.
use polder_base::number::{self, NumberText};
use polder_calls::Command;
use polder_table::Stop;
use smallvec::SmallVec;

use crate::database::{Database, Scope};
use crate::reply::{self, FromItem, FromScalar};

/// This many words take no memory.
const WORDS: usize = 12;

/// A word of a call.
enum Word<'w> {
    Bytes(&'w [u8]),
    /// A number that has become text.
    Number(NumberText),
}

/// The words of a call behind its command's name; a subcommand's own name is the first of them.
pub(crate) struct Words<'w>(SmallVec<[Word<'w>; WORDS]>);

/// What adds words of its own: the options of a command.
pub(crate) trait Fill {
    fn fill<'w>(&'w self, words: &mut Words<'w>);
}

impl<'w> Words<'w> {
    #[inline]
    pub fn new() -> Words<'w> {
        Words(SmallVec::new())
    }

    #[inline]
    pub fn bytes(&mut self, bytes: &'w (impl AsRef<[u8]> + ?Sized)) -> &mut Words<'w> {
        self.0.push(Word::Bytes(bytes.as_ref()));
        self
    }

    pub fn integer(&mut self, value: i64) -> &mut Words<'w> {
        self.0.push(Word::Number(number::integer_text(value)));
        self
    }

    /// A number that is not negative.
    pub fn count(&mut self, value: u64) -> &mut Words<'w> {
        // What is larger than any number of Redis is out of range for every command.
        self.integer(value.try_into().unwrap_or(i64::MAX))
    }

    pub fn double(&mut self, value: f64) -> &mut Words<'w> {
        self.0.push(Word::Number(number::double_text(value)));
        self
    }

    pub fn all(&mut self, words: &'w [impl AsRef<[u8]>]) -> &mut Words<'w> {
        self.0.extend(words.iter().map(|word| Word::Bytes(word.as_ref())));
        self
    }

    /// The number of words, and the words.
    pub fn counted(&mut self, words: &'w [impl AsRef<[u8]>]) -> &mut Words<'w> {
        self.count(words.len() as u64).all(words)
    }

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

    pub fn options(&mut self, options: &'w impl Fill) -> &mut Words<'w> {
        options.fill(self);
        self
    }

    /// Runs a call with these words.
    #[inline]
    fn run<R>(&self, command: &'static Command, run: impl FnOnce(&[&[u8]]) -> R) -> R {
        let mut args: SmallVec<[&[u8]; WORDS + 1]> = SmallVec::new();
        args.push(command.name.as_bytes());
        args.extend(self.0.iter().map(|word| match word {
            Word::Bytes(bytes) => *bytes,
            Word::Number(text) => text.as_bytes(),
        }));
        run(&args)
    }
}

impl<S: Scope> Database<'_, S> {
    /// Runs a call whose reply is one thing.
    #[inline]
    pub(crate) fn one<T: FromScalar>(&self, command: &'static Command, words: &Words<'_>) -> Result<T, Stop> {
        words.run(command, |args| reply::one(&mut |reply| self.run_row(command, args, reply)))
    }

    /// Runs a call whose reply is several things.
    #[inline]
    pub(crate) fn several<T: FromItem>(&self, command: &'static Command, words: &Words<'_>) -> Result<T, Stop> {
        words.run(command, |args| reply::several(&mut |reply| self.run_row(command, args, reply)))
    }
}
