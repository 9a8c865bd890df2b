//! What listens: a thread that serves clients, and what it is told for them.

use polder_table::{Cold, Db};

/// A seat in one of its lives: a thread.
pub type Thread = (u64, u64);

/// The thread that asked, and which of its questions it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    pub thread: Thread,
    pub number: u64,
}

/// One thing that a thread asks of the tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub cold: Cold,
    /// It is to stay for longer than others: it has come and left again too often.
    pub stays: bool,
}

/// What is delivered to clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery<'d> {
    Message {
        channel: &'d [u8],
        payload: &'d [u8],
    },
    PatternMessage {
        pattern: &'d [u8],
        channel: &'d [u8],
        payload: &'d [u8],
    },
    ShardMessage {
        channel: &'d [u8],
        payload: &'d [u8],
    },
    /// A message on a subject that the clients hear under this number of theirs (SUBJ.SUB, NATS). Reply and headers are empty where there
    /// are none.
    Post {
        sid: &'d [u8],
        subject: &'d [u8],
        reply: &'d [u8],
        headers: &'d [u8],
        payload: &'d [u8],
    },
    /// Keys that the clients have read have changed (none: all keys). `redirected`: another client
    /// has read them and has its notices sent here.
    Invalidation {
        keys: Option<&'d [&'d [u8]]>,
        redirected: bool,
    },
    /// The client that received these clients' invalidations is gone.
    RedirectionBroken {
        client: u64,
    },
    /// A line for MONITOR.
    Call {
        line: &'d [u8],
    },
}

/// What holds the clients: a server's loop, or a caller in this process.
pub trait MessageSink {
    /// Writes something to each of these clients.
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>);

    /// Runs the waiting call of a client again.
    fn retry(&mut self, client: u64);

    /// Whether there is such a client in this process.
    fn knows(&self, client: u64) -> bool;

    /// Messages that were meant for these clients may have been lost, so they must not assume that
    /// they have received all.
    fn missed(&mut self, clients: &[u64]);

    /// A client's subscription with this sid has had all the messages that it was to have, and has ended.
    fn ended(&mut self, _client: u64, _sid: &[u8]) {}

    /// Replies to what another process asks about the clients of this one ([`crate::query::answer`]). Only
    /// for threads that [`crate::query::serve`].
    fn asked(&mut self, _asker: Asker, _words: &[&[u8]]) {}

    /// Brings values back that another thread wants. Only for threads of the tier.
    fn wanted(&mut self, _asker: Thread, _hears: bool, _wanted: Vec<Request>) {}

    /// Has the value of a key leave for the tier. Only for its threads.
    fn to_evict(&mut self, _db: Db, _key: &[u8]) {}

    /// Looks at what the segment says to all threads that serve clients, before this thread sleeps
    /// again.
    fn look(&mut self) {}
}
