//! The groups of facts of which a [`Session`](super::Session) is made.
use std::borrow::Cow;
use std::sync::Arc;

use polder_calls::call::Outcome;
use polder_calls::command::Command;
use polder_table::Table;

use super::{Read, RetryLedger, Subscriptions, Tracking};
use crate::users::Rights;

/// How a client is known, and what it may do.
#[derive(Clone)]
pub struct Identity {
    /// Never used twice while a process lives; 0 for an embedder that does not care.
    pub id: u64,
    /// CLIENT SETNAME. A client may have a long one, and a copy of its session is made with each EXEC.
    pub name: Arc<[u8]>,
    /// CLIENT SETINFO LIB-NAME and LIB-VER.
    pub library: Arc<[u8]>,
    pub library_version: Arc<[u8]>,
    /// CLIENT CAPA REDIRECT: it would follow a server that sends it elsewhere.
    pub takes_redirects: bool,
    pub user: Cow<'static, [u8]>,
    pub authenticated: bool,
    /// What the client may do. A session that was not [`connected`](super::Session::connected) and never
    /// authenticated is not limited.
    pub rights: Rights,
    /// The running call has changed users, perhaps this session's own.
    pub changed_users: bool,
}

impl Default for Identity {
    /// A trusted caller without a name.
    fn default() -> Identity {
        Identity {
            id: 0,
            name: Arc::default(),
            library: Arc::default(),
            library_version: Arc::default(),
            takes_redirects: false,
            user: Cow::Borrowed(b"default"),
            authenticated: true,
            rights: Rights::default(),
            changed_users: false,
        }
    }
}

/// What time a client's calls go by, and how long they may wait.
#[derive(Clone, Copy, Default)]
pub struct Clock {
    /// Milliseconds since the Unix epoch; 0 where this is not kept.
    pub created_ms: u64,
    /// When the last command came in; set by the caller, as `created_ms`.
    pub active_ms: u64,
    /// The clock of the turn, read once for all its calls; 0 lets every transaction read its own.
    pub turn_ms: u64,
    /// How long a call may wait for locks before it is given up as [`crate::Progress::Busy`], in microseconds; 0: as long as it takes.
    pub patience_us: u64,
    /// When its last call was made, if that read the clock: for the code that runs right behind it,
    /// which takes the value.
    pub clocked_ms: u64,
}

impl Clock {
    /// Of a client that connects at `now_ms`.
    pub fn since(now_ms: u64) -> Clock {
        Clock { created_ms: now_ms, active_ms: now_ms, ..Clock::default() }
    }

    /// A call begins in the turn of this time.
    #[inline]
    pub fn begin_call(&mut self, turn_ms: u64, patience_us: u64) {
        *self = Clock { turn_ms, patience_us, active_ms: turn_ms, ..*self };
    }
}

/// What a client is told of without asking.
#[derive(Clone, Default)]
pub struct Listening {
    /// What it has subscribed to, if anything.
    pub subscriptions: Option<Arc<Subscriptions>>,
    /// How it tracks keys, if it does.
    pub tracking: Option<Arc<Tracking>>,
    /// Keys that it has read and that could not be noted: it is told at once that they have changed.
    pub unsure: Vec<Vec<u8>>,
    /// Keys that the running transaction has read, for a client that tracks.
    pub reads: Vec<Read>,
    /// It sees every call.
    pub monitors: bool,
}

/// What is counted of a client's calls.
#[derive(Clone, Default)]
pub struct CallTally {
    pub last: Option<&'static Command>,
    pub calls: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Questions to other processes ([`polder_hub::ask`]) that its transactions have had answered.
    pub questions: usize,
    /// What has been counted of its next calls, and of what the EXECs among them will run.
    pub counted: RetryLedger,
    pub counted_queued: usize,
}

/// A replica's own words by REPLCONF, and its request; or the role that a client gives this memory.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// Its own port and host, as it tells them; 0 if it has told none.
    pub port: u16,
    pub address: Option<String>,
    /// It understands a new identity behind `+CONTINUE`.
    pub knows_identities: bool,
    /// The version of RDB files that it is known to read; `None`: it has not said what it is.
    pub rdb_version: Option<u32>,
    /// It is a memory of this host that can read this one by itself.
    pub attaches: bool,
    pub order: Option<SyncRequest>,
    /// The change that EXEC leaves for its end.
    pub new_role: Option<NewRole>,
}

/// A role that the memory is to have.
#[derive(Clone, Debug)]
pub struct NewRole {
    /// The primary that it is to follow; none: it is to be a primary.
    pub primary: Option<(String, u16)>,
    pub give: fn(&Table, Option<&(String, u16)>) -> Outcome,
}

impl NewRole {
    /// Gives the memory the role.
    ///
    /// # Errors
    /// Why that cannot be now.
    pub fn give(&self, table: &Table) -> Outcome {
        (self.give)(table, self.primary.as_ref())
    }
}

/// The request of PSYNC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncRequest {
    /// The stream and the first byte of it that the replica wants; `None`: all of the data.
    pub from: Option<(String, u64)>,
    /// By SYNC: no line is replied before the data.
    pub is_sync: bool,
}
