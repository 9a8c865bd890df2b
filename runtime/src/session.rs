//! What a client is, whatever protocol it speaks, and what the process around it offers.
//!
//! A [`Session`] is owned by the code that reads the client's bytes; commands change it, and only
//! theirs. What concerns other clients or the process (the connected clients, shutting down, the
//! configuration file) is asked of the [`Host`]: the server implements it, an embedder is [`EmbeddedHost`].
use std::any::Any;
use std::sync::Arc;

use polder_base::Protocol;
use polder_hub::query::Thread;
use polder_table::{Db, Table, Watch};

use crate::configuration::Configuration;
use crate::recorder::Recorder;
use crate::saves::Saves;
use crate::scripts::{Memo, Running, Scripting};
use crate::statistics::Statistics;
use crate::users::Rights;
use polder_calls::call::{Caller, Outcome};
use polder_calls::command::Command;
use polder_calls::settings::value::Parsed;
use polder_calls::settings::{Id, id};

pub mod parts;
pub mod retry_ledger;
pub mod subscriptions;
pub mod tracked;

pub use parts::{CallTally, Clock, Identity, Listening, Replica, SyncRequest};
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
    pub(crate) fn rename(&mut self, name: &[u8]) -> Outcome {
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
        fresh.clock = Clock { clocked_ms: 0, ..self.clock };
        fresh.tally.calls = self.tally.calls;
        fresh.tally.last = self.tally.last;
        fresh.caller = Caller { parks: self.caller.parks, atomic: self.caller.atomic, ..Caller::default() };
        fresh.interrupt = self.interrupt;
        *self = fresh;
    }
}

/// What CLIENT LIST tells of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub id: u64,
    /// The peer's address, `127.0.0.1:50000` or the socket's path with `:0`.
    pub address: String,
    pub local_address: String,
    pub descriptor: i32,
    pub name: Arc<[u8]>,
    pub age_seconds: u64,
    pub idle_seconds: u64,
    /// Redis's letters (`N` for none); `S` first for a replica; `x` in MULTI, `e` and `T` for NO-EVICT and NO-TOUCH, `I` for IMPORT-SOURCE, `b` blocked, `U` by Unix socket.
    pub flags: String,
    pub db: Db,
    pub channels: usize,
    pub patterns: usize,
    pub shard_channels: usize,
    /// The client that is told of changed keys in its place; 0 for none, -1 if it tracks none.
    pub redirect: i64,
    /// Commands queued since MULTI, or -1.
    pub queued: i64,
    pub watches: usize,
    /// Bytes of queries that wait, and room for more of them.
    pub query_bytes: usize,
    pub query_room: usize,
    /// Bytes kept for EXEC, and all that are kept beside the buffers.
    pub queued_bytes: usize,
    pub held_bytes: usize,
    /// Bytes that replies take, and those of them that wait now.
    pub reply_room: usize,
    pub reply_bytes: usize,
    pub memory: usize,
    /// What the event loop waits for: `r`, `w` or both.
    pub events: String,
    pub command: String,
    pub user: Vec<u8>,
    pub resp: u8,
    pub library: Arc<[u8]>,
    pub library_version: Arc<[u8]>,
    /// What the client speaks; `direct` for a caller in this process.
    pub protocol: &'static str,
}

impl Client {
    /// What a session knows of its client; the host adds the connection's facts.
    pub fn of(session: &Session, now_ms: u64) -> Client {
        let [channels, patterns, shard_channels] =
            session.listening.subscriptions.as_ref().map_or([0; 3], |subscriptions| subscriptions.counts());
        let marks = [
            (session.listening.monitors, 'O'),
            (session.listens(), 'P'),
            (session.multi.is_some(), 'x'),
            (session.no_evict, 'e'),
            (session.caller.no_touch, 'T'),
            (session.imports, 'I'),
        ];
        let tracking = session.listening.tracking.as_deref();
        let marks = marks.into_iter().chain([
            (tracking.is_some(), 't'),
            (tracking.is_some_and(|tracking| tracking.broken), 'R'),
            (tracking.is_some_and(Tracking::broadcasts), 'B'),
        ]);
        let mut flags: String = marks.filter(|(set, _)| *set).map(|(_, mark)| mark).collect();
        if flags.is_empty() {
            flags.push('N');
        }
        Client {
            id: session.identity.id,
            name: session.identity.name.clone(),
            age_seconds: now_ms.saturating_sub(session.clock.created_ms) / 1000,
            idle_seconds: now_ms.saturating_sub(session.clock.active_ms) / 1000,
            flags,
            db: session.caller.db,
            channels,
            patterns,
            shard_channels,
            redirect: tracking.map_or(-1, |tracking| tracking.redirect() as i64),
            queued: session.multi.as_ref().map_or(-1, |multi| multi.queue.len() as i64),
            watches: session.watches.len(),
            queued_bytes: session.queued_bytes(),
            held_bytes: session.held_bytes(),
            events: "r".into(),
            command: session.tally.last.map_or("NULL".into(), |command| command.label()),
            user: session.identity.user.to_vec(),
            resp: if session.protocol == Protocol::Resp3 { 3 } else { 2 },
            library: session.identity.library.clone(),
            library_version: session.identity.library_version.clone(),
            protocol: "direct",
            ..Client::default()
        }
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

    /// The saves of this process.
    fn saves(&self) -> &Saves;

    /// The figures that INFO has from the host.
    fn statistics(&self) -> Statistics {
        Statistics::default()
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

/// A process without clients or listeners, such as an embedder: one for each segment that it has attached.
#[derive(Default)]
pub struct EmbeddedHost {
    settings: Configuration,
    recorder: Recorder,
    saves: Saves,
    scripting: Option<Scripting>,
}

impl EmbeddedHost {
    /// A process with settings of its own.
    pub fn with(settings: Configuration) -> EmbeddedHost {
        EmbeddedHost { settings, ..EmbeddedHost::default() }
    }

    /// The same, with something that runs scripts.
    pub fn scripted(self, scripting: Scripting) -> EmbeddedHost {
        EmbeddedHost { scripting: Some(scripting), ..self }
    }
}

impl Host for EmbeddedHost {
    fn settings(&self) -> &Configuration {
        &self.settings
    }
    fn recorder(&self) -> &Recorder {
        &self.recorder
    }
    fn saves(&self) -> &Saves {
        &self.saves
    }
    fn scripting(&self) -> Option<&Scripting> {
        self.scripting.as_ref()
    }
}
