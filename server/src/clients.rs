//! Everyone who is connected to this process, as CLIENT LIST, KILL and INFO see them.
//!
//! A connection belongs to one thread, which alone reads and changes its session. What others may know of it is its
//! [`Face`]: the owner renews it after each turn in which the client did something, under a lock that is held for some
//! nanoseconds. Who wants a client gone sets its mark and wakes the owner.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polder_commands::session::Client;
use polder_commands::{Command, Session};

/// What a client did last and what it holds; renewed with every turn.
#[derive(Clone, Copy, Default)]
pub struct Pulse {
    pub active_ms: u64,
    pub db: u16,
    pub last: Option<&'static Command>,
    pub query_bytes: usize,
    pub query_room: usize,
    pub reply_bytes: usize,
    pub reply_room: usize,
    /// It waits for the end of a pause, or for a lock.
    pub waiting: bool,
    /// It takes no more for now.
    pub blocked: bool,
}

/// What others may know of a client.
#[derive(Default)]
struct Face {
    /// Name, user, library and flags: renewed only when a command on the session may have changed them.
    session: Client,
    pulse: Pulse,
    /// The keys that its call waits for, and the bytes that they take.
    awaits: Vec<Awaited>,
    awaits_bytes: usize,
}

impl Face {
    fn await_keys(&mut self, keys: Vec<Awaited>) {
        self.awaits_bytes = keys.iter().map(|(_, key, _)| AWAITED_BYTES + AWAITED_TIMES * key.len()).sum();
        self.awaits = keys;
    }
}

/// A key that somebody waits for: its database, its name, and whether its end ends the wait as well.
pub type Awaited = (u16, Vec<u8>, bool);

/// Whether a client's call waits for a key, as other threads see it.
mod wait {
    pub const NONE: u8 = 0;
    pub const WAITING: u8 = 1;
    /// Its thread runs the call again: it may go on waiting afterwards.
    pub const CLAIMED: u8 = 2;
    /// A pause has held a call back, and its thread has not run it since: it may begin to wait.
    pub const POSTPONED: u8 = 3;
}

/// One connected client.
pub struct Record {
    pub id: u64,
    /// Which of the process's threads serves it.
    pub thread: usize,
    address: String,
    local_address: String,
    descriptor: i32,
    by_unix: bool,
    created_ms: u64,
    doomed: AtomicBool,
    /// Whether a call of it waits for a key: one of [`wait`].
    wait: AtomicU8,
    /// What it takes, in bytes, as far as that counts for `maxmemory-clients`; and whether it is spared (CLIENT NO-EVICT).
    weight: AtomicUsize,
    is_spared: AtomicBool,
    face: Mutex<Face>,
}

/// Where a client comes from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub address: String,
    pub local_address: String,
    pub descriptor: i32,
    pub by_unix: bool,
}

/// The clients of a process.
#[derive(Default)]
pub struct Clients {
    /// Accepted and not yet gone, whether their thread knows them already or not.
    connected: AtomicUsize,
    list: Mutex<BTreeMap<u64, Arc<Record>>>,
    /// The sum of their weights.
    weight: AtomicUsize,
}

/// What a key of a call that waits takes beside its name: it stands in the call, twice in its session, twice in the thread's list, in what others
/// see, and in the segment.
const AWAITED_BYTES: usize = 400;
const AWAITED_TIMES: usize = 7;

impl Clients {
    /// Counts a client that comes in, unless there are `most` already.
    pub fn admit(&self, most: usize) -> bool {
        let admitted = self.connected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < most).then_some(count + 1));
        admitted.is_ok()
    }

    /// Lists an admitted client.
    pub fn enter(&self, id: u64, thread: usize, origin: Origin, created_ms: u64) -> Arc<Record> {
        let record = Arc::new(Record {
            id,
            thread,
            address: origin.address,
            local_address: origin.local_address,
            descriptor: origin.descriptor,
            by_unix: origin.by_unix,
            created_ms,
            doomed: AtomicBool::new(false),
            wait: AtomicU8::new(wait::NONE),
            weight: AtomicUsize::new(0),
            is_spared: AtomicBool::new(false),
            face: Mutex::default(),
        });
        self.list().insert(id, record.clone());
        tracing::debug!(client = id, address = record.address, "a client has connected");
        record
    }

    /// Forgets a client.
    pub fn leave(&self, record: &Record) {
        self.list().remove(&record.id);
        tracing::debug!(client = record.id, address = record.address, "a client has gone");
        self.weigh(record, 0);
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes what a client takes now.
    pub fn weigh(&self, record: &Record, bytes: usize) {
        let before = record.weight.swap(bytes, Ordering::Relaxed);
        if bytes >= before {
            self.weight.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.weight.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }

    /// What all clients take together.
    pub fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// The clients that may be closed because all take too much, those that take the most first.
    pub fn heaviest(&self) -> Vec<Arc<Record>> {
        let mut all = self.all();
        all.retain(|record| record.weight() > 0 && !record.is_spared.load(Ordering::Relaxed));
        all.sort_by_cached_key(|record| std::cmp::Reverse(record.weight()));
        all
    }

    /// Takes back [`Clients::admit`] for a client that was never listed.
    pub fn turn_away(&self) {
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// The record of a client.
    pub fn find(&self, id: u64) -> Option<Arc<Record>> {
        self.list().get(&id).cloned()
    }

    /// Everyone, in the order in which they came.
    pub fn all(&self) -> Vec<Arc<Record>> {
        self.list().values().cloned().collect()
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Record>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// Renews what changes with every call.
    pub fn beat(&self, pulse: Pulse) {
        self.face().pulse = pulse;
    }

    /// Renews what changes with commands on the session.
    pub fn show(&self, session: &Session) {
        self.is_spared.store(session.no_evict, Ordering::Relaxed);
        self.face().session = Client::of(session, session.active_ms);
    }

    /// What it takes, in bytes, as far as that is counted.
    pub fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// Asks the owner to close the connection; answers whether it was asked for the first time.
    pub fn doom(&self) -> bool {
        !self.doomed.swap(true, Ordering::Relaxed)
    }

    /// Where the client is: address and port, or the path of the socket.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Says that a call waits for keys.
    pub fn begin_wait(&self, keys: Vec<Awaited>) {
        self.face().await_keys(keys);
        self.wait.store(wait::WAITING, Ordering::Relaxed);
    }

    /// Says that it waits no longer.
    pub fn end_wait(&self) {
        self.wait.store(wait::NONE, Ordering::Relaxed);
        self.face().await_keys(Vec::new());
    }

    /// Ends its wait for CLIENT UNBLOCK; returns whether it waited. `None`: its thread is about to decide that.
    pub fn unblock(&self, is_paused: impl FnOnce() -> bool) -> Option<bool> {
        match self.wait.compare_exchange(wait::WAITING, wait::NONE, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                self.face().await_keys(Vec::new());
                Some(true)
            }
            Err(wait::CLAIMED) => None,
            Err(wait::POSTPONED) if !is_paused() => None,
            Err(_) => Some(false),
        }
    }

    /// Says that a pause holds a call of it back.
    pub fn postpone(&self) {
        self.wait.store(wait::POSTPONED, Ordering::Relaxed);
    }

    /// Says that the call which a pause had held back has been run. If it has begun to wait, it goes on with that.
    #[inline]
    pub fn end_postponement(&self) {
        if self.wait.load(Ordering::Relaxed) == wait::POSTPONED {
            self.wait.store(wait::NONE, Ordering::Relaxed);
        }
    }

    /// Keeps others from ending its wait; answers false when somebody has ended it, who will say so to its thread.
    pub fn claim_wait(&self) -> bool {
        self.wait.compare_exchange(wait::WAITING, wait::CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The end of what [`Record::claim_wait`] began: it goes on waiting.
    pub fn go_on_waiting(&self) {
        self.wait.store(wait::WAITING, Ordering::Relaxed);
    }

    /// The keys that a call waits for.
    pub fn awaits(&self) -> Vec<Awaited> {
        self.face().awaits.clone()
    }

    /// Whether the connection is to be closed.
    pub fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Relaxed)
    }

    /// The client as others see it.
    pub fn client(&self, now_ms: u64) -> Client {
        let face = self.face();
        let mut client = face.session.clone();
        let pulse = face.pulse;
        drop(face);
        client.idle_seconds = now_ms.saturating_sub(pulse.active_ms) / 1000;
        client.age_seconds = now_ms.saturating_sub(self.created_ms) / 1000;
        client.db = pulse.db;
        client.command = pulse.last.map_or("NULL".into(), Command::label);
        self.complete(&mut client, &pulse);
        client
    }

    /// The client as its own call sees it.
    pub fn caller(&self, session: &Session) -> Client {
        let mut client = Client::of(session, session.active_ms);
        let pulse = self.face().pulse;
        self.complete(&mut client, &pulse);
        client
    }

    /// What the client did last and holds.
    pub fn pulse(&self) -> Pulse {
        self.face().pulse
    }

    /// How many keys the client watches.
    pub fn watches(&self) -> usize {
        self.face().session.watches
    }

    /// Whether the client has subscribed to something, and whether it tracks keys.
    pub fn hears(&self) -> (bool, bool) {
        let session = &self.face().session;
        (session.channels + session.patterns + session.shard_channels > 0, session.redirect >= 0)
    }

    /// Bytes that the client takes.
    pub fn memory(&self) -> usize {
        let face = self.face();
        face.session.held_bytes + face.awaits_bytes + buffers(&face.pulse)
    }

    /// Adds what the connection knows.
    fn complete(&self, client: &mut Client, pulse: &Pulse) {
        client.id = self.id;
        client.address = self.address.clone();
        client.local_address = self.local_address.clone();
        client.descriptor = self.descriptor;
        client.query_bytes = pulse.query_bytes;
        client.query_room = pulse.query_room;
        client.reply_bytes = pulse.reply_bytes;
        client.reply_room = pulse.reply_room;
        client.memory = buffers(pulse) + client.held_bytes + self.face().awaits_bytes;
        for (set, mark) in [(pulse.waiting, "b"), (self.by_unix, "U")] {
            if set {
                client.flags = client.flags.replace('N', "") + mark;
            }
        }
        if pulse.blocked {
            client.events = "rw".into();
        }
    }

    fn face(&self) -> MutexGuard<'_, Face> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a connection takes, with its buffers.
fn buffers(pulse: &Pulse) -> usize {
    pulse.query_bytes + pulse.query_room + pulse.reply_room + size_of::<Record>()
}
