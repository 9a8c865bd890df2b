//! What a client is, whatever protocol it speaks, and what the process around it offers.
//!
//! A [`Session`] is owned by the code that reads the client's bytes; commands change it, and only
//! theirs. What concerns other clients or the process (the connected clients, shutting down, the
//! configuration file) is asked of the [`Host`]: the server implements it, an embedder is the engine's `EmbeddedHost`.
use std::any::Any;
use std::sync::Arc;

use polder_base::Protocol;
use polder_hub::query::Thread;
use polder_table::{Db, Table, Watch};

use crate::configuration::Configuration;
use crate::recorder::Recorder;
use crate::saves::{SaveControl, SaveSignals};
use crate::scripts::{Memo, Running, Scripting};
use crate::statistics::Statistics;
use crate::users::Rights;
use polder_calls::call::{Caller, Outcome};
use polder_calls::command::Command;
use polder_calls::fieldsets::Fieldsets;
use polder_calls::settings::value::Parsed;
use polder_calls::settings::{Id, id};

pub mod client;
pub mod parts;
pub mod retry_ledger;
pub mod subscriptions;
pub mod tracked;

pub use client::{Client, Servers, Traffic};
pub use parts::{CallTally, Clock, Identity, Listening, NewRole, Replica, SyncRequest};
pub use retry_ledger::RetryLedger;
pub use subscriptions::Subscriptions;
pub use tracked::{Read, Tracking};

/// Whether a client hears the replies to its commands (`CLIENT REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replies {
    #[default]
    On,
    Off,
    /// The next command has no reply.
    SkipNext,
    /// This command has no reply.
    Skip,
}

/// Calls that wait for EXEC; the bytes of all arguments lie one behind the other.
#[derive(Clone, Default)]
pub struct Queue {
    /// The rows, each with the number of its last argument plus one.
    calls: Vec<(&'static Command, usize)>,
    /// Where each argument ends.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Queue {
    /// Puts off one more call.
    pub fn push(&mut self, command: &'static Command, args: &[&[u8]]) {
        // Room for a few small calls at once.
        if self.calls.is_empty() {
            self.calls.reserve(16);
            self.ends.reserve(48);
            self.bytes.reserve(512);
        }
        for arg in args {
            self.bytes.extend_from_slice(arg);
            self.ends.push(self.bytes.len());
        }
        self.calls.push((command, self.ends.len()));
    }

    /// How many calls wait.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Bytes of all arguments.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that the queue takes, with its room for more.
    pub fn room(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.calls.capacity() * size_of::<(&Command, usize)>()
    }

    /// The rows of the calls.
    pub fn commands(&self) -> impl Iterator<Item = &'static Command> {
        self.calls.iter().map(|(command, _)| *command)
    }

    /// The arguments of all calls, for [`Queue::calls`].
    pub fn words(&self) -> Vec<&[u8]> {
        let mut begin = 0;
        self.ends.iter().map(|end| &self.bytes[std::mem::replace(&mut begin, *end)..*end]).collect()
    }

    /// The calls, with their [`Queue::words`].
    pub fn calls<'w, 'b>(
        &self,
        words: &'w [&'b [u8]],
    ) -> impl Iterator<Item = (&'static Command, &'w [&'b [u8]])> {
        let mut begin = 0;
        self.calls
            .iter()
            .map(move |(command, end)| (*command, &words[std::mem::replace(&mut begin, *end)..*end]))
    }
}

/// The keys that a client watches.
#[derive(Clone, Default)]
pub struct Watches {
    all: Vec<Watch>,
    bytes: usize,
}

impl Watches {
    /// Adds keys that are not watched yet.
    pub fn add(&mut self, mut fresh: Vec<Watch>) {
        self.bytes += fresh.iter().map(|watch| size_of::<Watch>() + watch.key.len()).sum::<usize>();
        self.all.append(&mut fresh);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Watches::default();
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl std::ops::Deref for Watches {
    type Target = [Watch];

    fn deref(&self) -> &[Watch] {
        &self.all
    }
}

/// What a client has queued since MULTI.
#[derive(Clone, Default)]
pub struct Multi {
    pub queue: Queue,
    /// A command was refused while queueing: EXEC will abort.
    pub broken: bool,
    /// What has been counted of the queue, by attempts of EXEC that came to nothing: it runs again, and counts once.
    pub counted: RetryLedger,
}

/// One client's state.
#[derive(Clone, Default)]
pub struct Session {
    /// What its calls see of it.
    pub caller: Caller,
    pub protocol: Protocol,
    pub identity: Identity,
    pub clock: Clock,
    pub listening: Listening,
    pub tally: CallTally,
    pub replies: Replies,
    pub no_evict: bool,
    /// It imports data (CLIENT IMPORT-SOURCE): while the server does as well, it sees keys that have expired.
    pub imports: bool,
    /// Set by QUIT and by CLIENT KILL of oneself: the connection is closed once the reply is out.
    pub closing: bool,
    pub multi: Option<Box<Multi>>,
    pub watches: Watches,
    /// What its scripts ask now and then whether the program that runs them wants them to end.
    pub interrupt: Option<fn() -> bool>,
    /// What its MIGRATE has sent off, while it waits for the other server.
    pub migration: Option<Arc<dyn Any + Send + Sync>>,
    /// Of the script that runs, or ran last.
    pub script: Memo,
    /// Its own words as a replica.
    pub replica: Option<Box<Replica>>,
}

impl Session {
    /// Gives the client a name (CLIENT SETNAME).
    ///
    /// # Errors
    /// Redis's text for a name with blanks or control characters.
    pub fn rename(&mut self, name: &[u8]) -> Outcome {
        if !name.iter().all(u8::is_ascii_graphic) {
            return Err("ERR Client names cannot contain spaces, newlines or special characters.".into());
        }
        self.identity.name = name.into();
        Ok(())
    }

    /// A client that has just connected: the user `default`, authenticated if that needs no
    /// password.
    pub fn connected(id: u64, host: &dyn Host, now_ms: u64) -> Session {
        let users = host.settings().users();
        let (version, now) = (users.version(), users.now());
        let (authenticated, rights) = (now.is_open(), Rights::of(now.default_user(), version));
        Session {
            identity: Identity { id, authenticated, rights, ..Identity::default() },
            clock: Clock::since(now_ms),
            ..Session::default()
        }
    }

    /// After a call that is to be counted: counts the error of a script that has failed, and returns whether one has.
    pub(crate) fn settle_script(&mut self, host: &dyn Host) -> bool {
        let Some((text, counted)) = self.script.failure.take() else { return false };
        if !counted {
            host.recorder().count_error(&text);
        }
        true
    }

    /// Whether the client's identity need not be checked before a call. A session without a clock
    /// of its own checks with each call whether users have changed, others once a turn.
    #[inline]
    pub(crate) fn is_free(&self, host: &dyn Host) -> bool {
        self.identity.rights.is_trusted() && self.identity.authenticated
            || self.clock.turn_ms != 0
                && self.identity.authenticated
                && self.identity.rights.is_free(host.settings().users())
    }

    /// Bytes that the server keeps for EXEC: the calls that are queued, and the keys that are watched.
    pub fn queued_bytes(&self) -> usize {
        self.multi.as_deref().map_or(0, |multi| multi.queue.room()) + self.watches.bytes()
    }

    /// Bytes that the server keeps for the client beside its buffers and what its call waits for. What the segment and the thread note of a
    /// subscription, a prefix or a watched key is estimated.
    pub fn held_bytes(&self) -> usize {
        let names = self.identity.name.len()
            + self.identity.library.len()
            + self.identity.library_version.len()
            + self.identity.user.len();
        let listening = self.listening.subscriptions.as_deref().map_or(0, Subscriptions::bytes);
        names
            + self.caller.fieldsets.as_deref().map_or(0, Fieldsets::bytes)
            + self.queued_bytes()
            + listening
            + self.listening.tracking.as_deref().map_or(0, Tracking::bytes)
    }

    /// The time for access clocks: that of the turn, or the kernel's coarse one.
    #[inline]
    pub fn clock_ms(&self) -> u64 {
        if self.clock.turn_ms != 0 { self.clock.turn_ms } else { polder_base::time::coarse_ms() }
    }

    /// RESET: as if just connected, but for what belongs to the connection itself.
    pub fn reset(&mut self, host: &dyn Host) {
        let mut fresh = Session::connected(self.identity.id, host, self.clock.created_ms);
        fresh.identity.library = std::mem::take(&mut self.identity.library);
        fresh.identity.library_version = std::mem::take(&mut self.identity.library_version);
        fresh.identity.takes_redirects = self.identity.takes_redirects;
        fresh.clock = Clock { clocked_ms: 0, ..self.clock };
        fresh.tally.calls = self.tally.calls;
        fresh.tally.refused = self.tally.refused;
        fresh.tally.last = self.tally.last;
        fresh.caller = Caller { parks: self.caller.parks, atomic: self.caller.atomic, ..Caller::default() };
        fresh.interrupt = self.interrupt;
        *self = fresh;
    }
}

/// How the process is to end (`SHUTDOWN`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shutdown {
    /// SAVE or NOSAVE; nothing said leaves it to the configuration.
    pub save: Option<bool>,
    pub now: bool,
    pub force: bool,
    pub abort: bool,
}

/// A setting with a new value.
pub type NewSetting = (Id, Parsed);

/// What a command may ask of the process that runs it; in-process callers have few of these things.
///
/// Every method has a default: that of a process without clients, listeners and files.
pub trait Host: Send + Sync {
    /// The settings as this process sees them.
    fn settings(&self) -> &Configuration;

    /// What this process counts about its calls.
    fn recorder(&self) -> &Recorder;

    /// Signals of the saves of this process.
    fn save_signals(&self) -> &SaveSignals;

    /// The saves of this process.
    fn saves(&self) -> &dyn SaveControl;

    /// The figures that INFO has from the host.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    /// Addresses at which clients of NATS find this process and its neighbours.
    fn nats_servers(&self) -> Servers {
        Servers::default()
    }

    /// Messages of all clients of NATS that this process has served, and how many of them were closed since
    /// they did not read.
    fn nats_traffic(&self) -> (Traffic, u64) {
        Default::default()
    }

    /// All clients that are connected to this process, the caller included (whose own state
    /// `caller` is the freshest there is).
    fn clients(&self, caller: &Session) -> Vec<Client> {
        vec![self.client(caller)]
    }

    /// The caller alone.
    fn client(&self, caller: &Session) -> Client {
        Client::of(caller, caller.clock.active_ms)
    }

    /// The thread of this process that serves the client with this number.
    fn home(&self, _id: u64) -> Option<Thread> {
        None
    }

    /// The threads of this process that serve clients.
    fn threads(&self) -> Vec<Thread> {
        Vec::new()
    }

    /// The caller's address.
    fn address(&self, caller: &Session) -> String {
        self.client(caller).address
    }

    /// Closes the connection of another client of this process. Returns whether there was one.
    fn kill(&self, _id: u64) -> bool {
        false
    }

    /// Ends the wait of a blocked client of this process, as by its timeout or with an error; returns whether it was blocked.
    /// `None`: the client's thread is running the call (again) at this moment, so that only a later look can say.
    fn unblock(&self, _id: u64, _with_error: bool) -> Option<bool> {
        Some(false)
    }

    /// Notes that a call of this client, which a pause may have held back, is running and will not block.
    fn end_postponement(&self, _caller: &Session) {}

    /// Makes the limits hold that settings of this process have just changed: clients that take too much are closed. If `caller` is one of
    /// them, it is closed after its reply.
    fn hold_limits(&self, _caller: &mut Session) {}

    /// Wakes the threads that serve clients, since something that concerns them has changed in the segment.
    fn rouse(&self) {}

    /// How many databases clients can select.
    fn databases(&self) -> Db {
        self.settings().databases()
    }

    /// The version that clients are told, since they gate features by it.
    fn version(&self) -> String {
        self.settings().string(const { id("redis-version") })
    }

    /// What runs scripts here, and what is known of them.
    fn scripting(&self) -> Option<&Scripting> {
        None
    }

    /// The calling thread has been at this script for long: its other clients may be told so now.
    fn while_busy(&self, _running: &Running) {}

    /// Whether the process is about to end, so that what takes long should be dropped.
    fn is_ending(&self) -> bool {
        false
    }

    /// Reads the append-only log back into the memory (DEBUG LOADAOF).
    ///
    /// # Errors
    /// Why that is not possible, in words.
    fn load_log(&self, _table: &Table) -> Result<(), String> {
        Err("this program reads no logs: ask a server".into())
    }

    /// Returns true if clients may become replicas, which get the data and all changes over their connections.
    fn feeds_replicas(&self) -> bool {
        false
    }

    /// Whether the data is being read, so that calls that need it are refused.
    fn is_loading(&self) -> bool {
        false
    }

    /// Acts on new values of settings that have something to act on ([`Setting::unable`](polder_calls::settings::Setting)): listeners move,
    /// certificates are read. Then calls `settle`, which changes the settings, before another client can have others applied. A process
    /// that is no server has nothing to act with, so it takes only the values that hold already.
    ///
    /// # Errors
    /// The setting whose new value cannot be acted on. Then nothing has changed.
    fn apply(&self, changes: &[NewSetting], settle: &mut dyn FnMut()) -> Result<(), Id> {
        let is_other = |(id, parsed): &&NewSetting| {
            !id.row().unable.is_empty() && *self.settings().text(*id) != *parsed.text
        };
        if let Some((id, _)) = changes.iter().find(is_other) {
            return Err(*id);
        }
        settle();
        Ok(())
    }

    /// Ends the process.
    ///
    /// # Errors
    /// A whole error text, when it does not end.
    fn shutdown(&self, _how: Shutdown) -> Result<(), String> {
        Err("ERR this process is not a server: it ends by itself".into())
    }
}
