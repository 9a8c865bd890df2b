//! Attaches a segment and runs commands: the API boundary. No sockets.
#![forbid(unsafe_code)]

pub use polder_base::{Fault, Protocol, Ref, Reply};
pub use polder_commands::{Host, Session, session::Bare};
pub use polder_table::{Counter, Limits, Policy, Table, Usage};

/// An attached segment. Cheap to share between threads; every thread that calls gets a seat of its own.
pub struct Memory {
    table: Table,
}

/// How to attach: which segment, and what it is made with when it is not there yet.
#[derive(Clone, Debug)]
pub struct Options {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`; a bare name means `shm:`.
    pub segment: String,
    /// The most bytes the segment may grow to; it counts only when the segment is made.
    pub ceiling: u64,
    /// Whether to make the segment if there is none.
    pub create: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment: "shm:polder".into(), ceiling: 0, create: true }
    }
}

impl Memory {
    /// Attaches the segment that `options` names.
    ///
    /// # Errors
    /// [`Fault::System`] with what to do.
    pub fn attach(_options: &Options) -> Result<Memory, Fault> {
        Ok(Memory { table: Table::stub() })
    }

    /// The table, for floors that work below commands (verify, inspect, chores).
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Brings what the calls will touch into the cache, all at once; whoever has many calls to make says so first.
    pub fn prefetch<'c>(&self, _calls: impl Iterator<Item = (polder_commands::Db, &'c [&'c [u8]])>) {}

    /// Runs one call and writes exactly one reply.
    pub fn execute(&self, session: &mut Session, host: &dyn Host, args: &[&[u8]], reply: &mut dyn Reply) {
        polder_commands::execute(&self.table, session, host, args, reply);
    }
}
