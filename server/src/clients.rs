//! The clients of this process, as CLIENT LIST, KILL and INFO see them.
//!
//! A connection belongs to one thread, which alone reads and changes its session. Other threads see its
//! [`ClientSnapshot`]: the owner renews it after each turn in which the client did something, under a lock that is held
//! for some nanoseconds. A thread that wants to close a client sets the mark of its record and wakes the owner.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polder_calls::Command;
use polder_runtime::Session;
use polder_runtime::session::{Client, Traffic};

use polder_protocols::doors::{DOORS, Door};

/// What a client did last and what it holds; renewed in each turn in which it did something.
#[derive(Clone, Copy, Default)]
pub struct Activity {
    pub active_ms: u64,
    pub db: u16,
    pub last: Option<&'static Command>,
    pub query_bytes: usize,
    pub query_room: usize,
    pub reply_bytes: usize,
    pub reply_room: usize,
    /// It waits for the end of a pause, for a lock, or for a subscriber.
    pub waiting: bool,
    /// Its socket takes no more bytes for now.
    pub blocked: bool,
}

/// What other threads see of a client.
#[derive(Default)]
struct ClientSnapshot {
    /// Name, user, library and flags: renewed only when a command on the session may have changed them.
    session: Client,
    activity: Activity,
    /// The keys that its call waits for, and the memory that they take, in bytes.
    awaits: Vec<Awaited>,
    awaits_bytes: usize,
    /// What it speaks, if that is not what its door speaks.
    speaks: Option<&'static str>,
    /// Messages of a client of NATS, renewed once a second.
    traffic: Traffic,
}

impl ClientSnapshot {
    fn await_keys(&mut self, keys: Vec<Awaited>) {
        self.awaits_bytes = keys.iter().map(|(_, key, _)| AWAITED_BYTES + AWAITED_TIMES * key.len()).sum();
        self.awaits = keys;
    }
}

/// A key that a call waits for: its database, its name, and whether the deletion of the key ends the wait as well.
pub type Awaited = (u16, Vec<u8>, bool);

/// Whether a client's call waits for a key, as other threads see it.
mod wait {
    pub const NONE: u8 = 0;
    pub const WAITING: u8 = 1;
    /// Its thread runs the call again: it may go on waiting afterwards.
    pub const CLAIMED: u8 = 2;
    /// A pause has held a call back, and its thread has not run the call since. The call may begin to wait.
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
    door: &'static Door,
    created_ms: u64,
    doomed: AtomicBool,
    /// Whether a call of it waits for a key: one of [`wait`].
    wait: AtomicU8,
    /// The memory that it takes, in bytes, as far as that counts for `maxmemory-clients`; and whether it is spared (CLIENT NO-EVICT).
    weight: AtomicUsize,
    is_spared: AtomicBool,
    snapshot: Mutex<ClientSnapshot>,
}

/// Where a client comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    pub door: &'static Door,
    pub address: String,
    pub local_address: String,
    pub descriptor: i32,
    /// It came in at the door's encrypted port.
    pub tls: bool,
}

/// The clients of a process.
#[derive(Default)]
pub struct Clients {
    /// Accepted and not yet gone, whether their thread knows them already or not: all, and those of each door.
    connected: AtomicUsize,
    connected_by_door: [AtomicUsize; DOORS.len()],
    list: Mutex<BTreeMap<u64, Arc<Record>>>,
    /// The sum of their weights.
    weight: AtomicUsize,
    /// The count of those that were closed because all together took too much. A thread that closes some holds the lock.
    evicted: Mutex<u64>,
}

/// The memory of a key that a call waits for, beside its name, in bytes. The key stands in the call, twice in the session,
/// twice in the list of the thread, in the snapshot, and in the segment.
const AWAITED_BYTES: usize = 400;
const AWAITED_TIMES: usize = 7;

impl Clients {
    /// Counts a client that comes in by a door, unless that door has its share of `clients_max` clients already.
    pub fn admit(&self, door: &Door, clients_max: usize) -> bool {
        let add = |count: &AtomicUsize, most: usize| {
            count
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                    (count < most).then_some(count + 1)
                })
                .is_ok()
        };
        let by_door = &self.connected_by_door[door.number];
        if !add(by_door, door.clients_max(clients_max)) {
            return false;
        }
        let admitted = add(&self.connected, clients_max);
        if !admitted {
            by_door.fetch_sub(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Counts a client that needs no admission.
    pub fn count(&self, door: &Door) {
        self.connected.fetch_add(1, Ordering::Relaxed);
        self.connected_by_door[door.number].fetch_add(1, Ordering::Relaxed);
    }

    /// Lists an admitted client.
    pub fn enter(&self, id: u64, thread: usize, origin: Origin, created_ms: u64) -> Arc<Record> {
        let record = Arc::new(Record {
            id,
            thread,
            address: origin.address,
            local_address: origin.local_address,
            descriptor: origin.descriptor,
            door: origin.door,
            created_ms,
            doomed: AtomicBool::new(false),
            wait: AtomicU8::new(wait::NONE),
            weight: AtomicUsize::new(0),
            is_spared: AtomicBool::new(false),
            snapshot: Mutex::default(),
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
        self.dismiss(record.door);
    }

    /// Notes how much memory a client takes now. A client that is to be closed counts no more.
    pub fn weigh(&self, record: &Record, bytes: usize) {
        // A thread that evicts must not see the weight of a client that it has just marked.
        let _evicted = self.evicted.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_weight(record, if record.is_doomed() { 0 } else { bytes });
    }

    fn set_weight(&self, record: &Record, bytes: usize) {
        let before = record.weight.swap(bytes, Ordering::AcqRel);
        if bytes >= before {
            self.weight.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.weight.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }

    /// Marks clients until the others together take less than this, those that take the most first, and calls `close` for
    /// each.
    pub fn evict(&self, bytes_max: usize, mut close: impl FnMut(&Record)) {
        // Two threads that evict at the same time would both look for the same bytes.
        let mut evicted = self.evicted.lock().unwrap_or_else(PoisonError::into_inner);
        for record in self.heaviest() {
            if self.weight() < bytes_max {
                break;
            }
            let bytes = record.weight();
            if record.doom() {
                tracing::warn!(
                    client = record.id,
                    bytes,
                    "closed: all clients together reached maxmemory-clients, and it took the most"
                );
                self.set_weight(&record, 0);
                *evicted += 1;
                close(&record);
            }
        }
    }

    /// Returns the count of clients that [`Clients::evict`] has marked.
    pub fn evicted(&self) -> u64 {
        *self.evicted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory that all clients take together, in bytes.
    pub fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// The clients that may be closed when all together take too much; those that take the most come first.
    fn heaviest(&self) -> Vec<Arc<Record>> {
        let mut all = self.all();
        all.retain(|record| record.weight() > 0 && !record.is_spared.load(Ordering::Relaxed));
        // Other threads may change the weights meanwhile.
        all.sort_by_cached_key(|record| std::cmp::Reverse(record.weight()));
        all
    }

    /// Takes back [`Clients::admit`].
    pub fn dismiss(&self, door: &Door) {
        self.connected.fetch_sub(1, Ordering::Relaxed);
        self.connected_by_door[door.number].fetch_sub(1, Ordering::Relaxed);
    }

    /// The record of a client.
    pub fn find(&self, id: u64) -> Option<Arc<Record>> {
        self.list().get(&id).cloned()
    }

    /// All clients, in the order in which they came; without those that are to be closed.
    pub fn all(&self) -> Vec<Arc<Record>> {
        self.list().values().filter(|record| !record.is_doomed()).cloned().collect()
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Record>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// Renews what changes with each call.
    pub fn beat(&self, activity: Activity) {
        self.snapshot().activity = activity;
    }

    /// Renews what a client of NATS has published and heard; returns what has been added.
    pub fn carry(&self, traffic: Traffic) -> Traffic {
        let before = std::mem::replace(&mut self.snapshot().traffic, traffic);
        traffic.since(&before)
    }

    /// Renews what only commands on the session change.
    pub fn show(&self, session: &Session) {
        self.is_spared.store(session.no_evict, Ordering::Relaxed);
        self.snapshot().session = Client::of(session, session.clock.active_ms);
    }

    /// Notes that the client speaks something else than its door does at first.
    pub fn rename(&self, protocol: &'static str) {
        self.snapshot().speaks = Some(protocol);
    }

    /// The memory that it takes, in bytes, as far as that is counted.
    pub fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// Asks the owner to close the connection; returns whether this is the first request to do so.
    pub fn doom(&self) -> bool {
        !self.doomed.swap(true, Ordering::AcqRel)
    }

    /// The address and port of the client, or the path of the socket.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it came in.
    pub fn local_address(&self) -> &str {
        &self.local_address
    }

    /// Notes that a call waits for keys.
    pub fn begin_wait(&self, keys: Vec<Awaited>) {
        self.snapshot().await_keys(keys);
        self.wait.store(wait::WAITING, Ordering::Relaxed);
    }

    /// Notes that no call waits any more.
    pub fn end_wait(&self) {
        self.wait.store(wait::NONE, Ordering::Relaxed);
        self.snapshot().await_keys(Vec::new());
    }

    /// Ends its wait for CLIENT UNBLOCK; returns whether it waited. `None`: its thread is deciding that now.
    pub fn unblock(&self, is_paused: impl FnOnce() -> bool) -> Option<bool> {
        match self.wait.compare_exchange(wait::WAITING, wait::NONE, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                self.snapshot().await_keys(Vec::new());
                Some(true)
            }
            Err(wait::CLAIMED) => None,
            Err(wait::POSTPONED) if !is_paused() => None,
            Err(_) => Some(false),
        }
    }

    /// Notes that a pause holds a call of it back.
    pub fn postpone(&self) {
        self.wait.store(wait::POSTPONED, Ordering::Relaxed);
    }

    /// Notes that the call which a pause had held back has been run. If that call waits now, its wait goes on.
    #[inline]
    pub fn end_postponement(&self) {
        if self.wait.load(Ordering::Relaxed) == wait::POSTPONED {
            self.wait.store(wait::NONE, Ordering::Relaxed);
        }
    }

    /// Keeps other threads from ending its wait. Returns false if another thread has ended it; that thread sends a message.
    pub fn claim_wait(&self) -> bool {
        self.wait.compare_exchange(wait::WAITING, wait::CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Takes back [`Record::claim_wait`]: the call goes on waiting.
    pub fn go_on_waiting(&self) {
        self.wait.store(wait::WAITING, Ordering::Relaxed);
    }

    /// The keys that a call waits for.
    pub fn awaits(&self) -> Vec<Awaited> {
        self.snapshot().awaits.clone()
    }

    /// Whether the connection is to be closed.
    pub fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Relaxed)
    }

    /// The client as other threads see it.
    pub fn client(&self, now_ms: u64) -> Client {
        let snapshot = self.snapshot();
        let mut client = snapshot.session.clone();
        client.traffic = snapshot.traffic;
        let activity = snapshot.activity;
        drop(snapshot);
        client.idle_seconds = now_ms.saturating_sub(activity.active_ms) / 1000;
        client.age_seconds = now_ms.saturating_sub(self.created_ms) / 1000;
        client.db = activity.db;
        client.command = activity.last.map_or("NULL".into(), |command| command.label());
        self.complete(&mut client, &activity);
        client
    }

    /// The client as its own call sees it.
    pub fn caller(&self, session: &Session) -> Client {
        let mut client = Client::of(session, session.clock.active_ms);
        let activity = self.snapshot().activity;
        self.complete(&mut client, &activity);
        client
    }

    /// What the client did last, and what it holds.
    pub fn activity(&self) -> Activity {
        self.snapshot().activity
    }

    /// How many keys the client watches.
    pub fn watches(&self) -> usize {
        self.snapshot().session.watches
    }

    /// Whether the client has a subscription, and whether it tracks keys.
    pub fn hears(&self) -> (bool, bool) {
        let session = &self.snapshot().session;
        (session.channels + session.patterns + session.shard_channels > 0, session.redirect >= 0)
    }

    /// The memory that the client takes, in bytes.
    pub fn memory(&self) -> usize {
        let snapshot = self.snapshot();
        snapshot.session.held_bytes + snapshot.awaits_bytes + buffers(&snapshot.activity)
    }

    /// Adds what the connection knows of the client.
    fn complete(&self, client: &mut Client, activity: &Activity) {
        client.id = self.id;
        client.address = self.address.clone();
        client.local_address = self.local_address.clone();
        client.descriptor = self.descriptor;
        client.protocol = self.snapshot().speaks.unwrap_or(self.door.protocol.name());
        if !client.protocol.ends_with("resp") {
            client.resp = 0;
        }
        client.query_bytes = activity.query_bytes;
        client.query_room = activity.query_room;
        client.reply_bytes = activity.reply_bytes;
        client.reply_room = activity.reply_room;
        client.memory = buffers(activity) + client.held_bytes + self.snapshot().awaits_bytes;
        for (set, mark) in [(activity.waiting, "b"), (self.door.is_local(), "U")] {
            if set {
                client.flags = client.flags.replace('N', "") + mark;
            }
        }
        if activity.blocked {
            client.events = "rw".into();
        }
    }

    fn snapshot(&self) -> MutexGuard<'_, ClientSnapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of a connection with its buffers, in bytes.
fn buffers(activity: &Activity) -> usize {
    activity.query_bytes + activity.query_room + activity.reply_room + size_of::<Record>()
}
