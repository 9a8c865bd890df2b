//! How a typed call runs its words.
use polder_base::options::Words;
use polder_calls::Command;
use polder_table::Stop;
use smallvec::SmallVec;

use crate::database::{Database, Scope};
use crate::reply::{self, FromItem, FromScalar};

/// With its name, a call of this many words takes no memory.
const WORDS: usize = 13;

/// Runs a call with words behind its command's name; a subcommand's own name is the first of them.
#[inline]
fn run<R>(words: &Words<'_>, command: &'static Command, run: impl FnOnce(&[&[u8]]) -> R) -> R {
    let mut args: SmallVec<[&[u8]; WORDS]> = SmallVec::new();
    args.push(command.name.as_bytes());
    args.extend(words.iter());
    run(&args)
}

impl<S: Scope> Database<'_, S> {
    /// Runs a call whose reply is one thing.
    #[inline]
    pub(crate) fn one<T: FromScalar>(&self, command: &'static Command, words: &Words<'_>) -> Result<T, Stop> {
        run(words, command, |args| reply::one(&mut |reply| self.run_row(command, args, reply)))
    }

    /// Runs a call whose reply is several things.
    #[inline]
    pub(crate) fn several<T: FromItem>(
        &self,
        command: &'static Command,
        words: &Words<'_>,
    ) -> Result<T, Stop> {
        run(words, command, |args| reply::several(&mut |reply| self.run_row(command, args, reply)))
    }
}
