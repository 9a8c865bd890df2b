//! A stand-in with the table's API over a map, until the shared table takes its place.
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bumpalo::Bump;
use polder_base::{Fault, Ref};
use polder_values::{Nodes, Value};

use crate::api::*;

#[derive(Clone)]
struct Stored {
    kind: polder_values::Kind,
    packed: Option<Vec<u8>>,
    root: polder_values::Root,
    expiry_ms: Option<u64>,
    flags: u32,
    raw: bool,
    version: u64,
}

#[derive(Default)]
struct State {
    dbs: BTreeMap<Db, BTreeMap<Vec<u8>, Stored>>,
    version: u64,
    counters: [u64; COUNTERS],
    limits: Limits,
    nodes: Vec<(&'static [Ref], &'static [u8])>,
}

/// The table of a segment.
pub struct Table {
    state: &'static Mutex<State>,
}

impl Table {
    pub fn stub() -> Table {
        Table { state: Box::leak(Box::default()) }
    }
    /// Begins a transaction of the calling thread.
    pub fn begin(&self, mode: Mode) -> Txn<'_> {
        let state: &'static Mutex<State> = self.state;
        let guard = state.lock().unwrap_or_else(|e| e.into_inner());
        let backup = (mode == Mode::Write).then(|| guard.dbs.clone());
        Txn {
            state: RefCell::new(guard),
            backup,
            arena: Bump::new(),
            now: Cell::new(0),
            done: Cell::new(false),
            table: std::marker::PhantomData,
        }
    }
    pub fn counter(&self, counter: Counter) -> u64 {
        self.state.lock().unwrap().counters[counter as usize]
    }
    pub fn count(&self, counter: Counter, by: u64) {
        self.state.lock().unwrap().counters[counter as usize] += by;
    }
    pub fn limits(&self) -> Limits {
        self.state.lock().unwrap().limits
    }
    pub fn set_limits(&self, limits: Limits) {
        self.state.lock().unwrap().limits = limits;
    }
    pub fn usage(&self) -> Usage {
        Usage::default()
    }
    /// One round of the chores, at most about `budget_us`; answers in how many milliseconds the next is due.
    pub fn chores(&self, _budget_us: u64) -> u64 {
        100
    }
    /// Resets the counters that `CONFIG RESETSTAT` resets.
    pub fn reset_counters(&self) {
        self.state.lock().unwrap().counters = [0; COUNTERS];
    }
}

/// One transaction.
pub struct Txn<'t> {
    state: RefCell<MutexGuard<'static, State>>,
    backup: Option<BTreeMap<Db, BTreeMap<Vec<u8>, Stored>>>,
    arena: Bump,
    now: Cell<u64>,
    done: Cell<bool>,
    table: std::marker::PhantomData<&'t Table>,
}

impl<'t> Txn<'t> {
    /// Names the keys that the call will touch: write mode locks their buckets, read mode fetches them into the cache.
    pub fn declare(&self, _keys: &[(Db, &[u8])]) -> Result<(), Stop> {
        Ok(())
    }
    /// Milliseconds since the Unix epoch, the same during the whole transaction and its retries.
    pub fn now_ms(&self) -> u64 {
        if self.now.get() == 0 {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_millis() as u64);
            self.now.set(now);
        }
        self.now.get()
    }
    /// Fixes the clock of this transaction (a server's turn reads it once for all its calls).
    pub fn set_now_ms(&self, now_ms: u64) {
        self.now.set(now_ms);
    }
    /// The key's state, unless it is absent or expired.
    pub fn find(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop> {
        let now = self.now_ms();
        let state = self.state.borrow();
        let Some(stored) = state.dbs.get(&db).and_then(|m| m.get(key)) else {
            return Ok(None);
        };
        if stored.expiry_ms.is_some_and(|at| at <= now) {
            return Ok(None);
        }
        let value = match &stored.packed {
            Some(bytes) => Value::Packed(self.arena.alloc_slice_copy(bytes)),
            None => Value::Tree(stored.root),
        };
        Ok(Some(Found {
            kind: stored.kind,
            value,
            expiry_ms: stored.expiry_ms,
            flags: stored.flags,
            raw: stored.raw,
            version: stored.version,
            clock: crate::clock::lru(now),
        }))
    }
    /// As [`Txn::find`], without counting as an access of the key (TTL, TYPE, OBJECT and the like).
    pub fn peek(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop> {
        self.find(db, key)
    }
    /// Gives the key a value.
    pub fn write(&self, db: Db, key: &[u8], new: &New<'_>, _replaces: Replaces) -> Result<(), Stop> {
        let mut state = self.state.borrow_mut();
        state.version += 1;
        let version = state.version;
        let (packed, root) = match new.value {
            Value::Packed(b) => (Some(b.to_vec()), Default::default()),
            Value::Tree(r) => (None, r),
        };
        state.dbs.entry(db).or_default().insert(
            key.to_vec(),
            Stored { kind: new.kind, packed, root, expiry_ms: new.expiry_ms, flags: new.flags, raw: new.raw, version },
        );
        Ok(())
    }
    /// Takes the key away; answers whether it was there. `Replaces::Edited` keeps its trees (RENAME, MOVE: they live on under another name).
    pub fn remove(&self, db: Db, key: &[u8], _replaces: Replaces) -> Result<bool, Stop> {
        let there = self.find(db, key)?.is_some();
        if let Some(m) = self.state.borrow_mut().dbs.get_mut(&db) {
            m.remove(key);
        }
        Ok(there)
    }
    /// Sets the access clock of a key (RESTORE's IDLETIME and FREQ).
    pub fn set_clock(&self, _db: Db, _key: &[u8], _clock: u32) -> Result<(), Stop> {
        Ok(())
    }
    /// Remembers the key's state for [`Txn::unchanged`].
    pub fn watch(&self, db: Db, key: &[u8]) -> Result<Watch, Stop> {
        let version = self.find(db, key)?.map_or(0, |f| f.version);
        Ok(Watch { db, key: key.to_vec(), version, expired: false })
    }
    /// Whether nothing has happened to the watched key since.
    pub fn unchanged(&self, watch: &Watch) -> Result<bool, Stop> {
        Ok(self.find(watch.db, &watch.key)?.map_or(0, |f| f.version) == watch.version)
    }
    /// Keys in a database, those that have expired but are not collected yet included.
    pub fn keys(&self, db: Db) -> u64 {
        self.state.borrow().dbs.get(&db).map_or(0, |m| m.len() as u64)
    }
    /// Keys with an expiry in a database.
    pub fn keys_with_expiry(&self, db: Db) -> u64 {
        self.state.borrow().dbs.get(&db).map_or(0, |m| m.values().filter(|s| s.expiry_ms.is_some()).count() as u64)
    }
    /// Empties one database or all; nobody waits for the keys to be visited.
    pub fn flush(&self, db: Option<Db>) -> Result<(), Stop> {
        let mut state = self.state.borrow_mut();
        match db {
            Some(db) => drop(state.dbs.remove(&db)),
            None => state.dbs.retain(|db, _| *db == SYSTEM),
        }
        Ok(())
    }
    /// Swaps two databases.
    pub fn swap(&self, a: Db, b: Db) -> Result<(), Stop> {
        let mut state = self.state.borrow_mut();
        let (one, two) = (state.dbs.remove(&a).unwrap_or_default(), state.dbs.remove(&b).unwrap_or_default());
        state.dbs.insert(a, two);
        state.dbs.insert(b, one);
        Ok(())
    }
    /// Shows the keys from `cursor` on, buckets at a time until about `count` were seen; answers the next cursor, 0 at the end.
    /// A key that is there during the whole scan is shown at least once.
    pub fn scan(&self, db: Db, _cursor: u64, _count: usize, visit: &mut dyn FnMut(Scanned<'_>)) -> Result<u64, Stop> {
        let now = self.now_ms();
        let state = self.state.borrow();
        for (key, stored) in state.dbs.get(&db).into_iter().flatten() {
            if stored.expiry_ms.is_none_or(|at| at > now) {
                visit(Scanned { key, kind: stored.kind, expiry_ms: stored.expiry_ms });
            }
        }
        Ok(0)
    }
    /// A key drawn with equal chances, if there is one.
    pub fn random_key(&self, db: Db) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.state.borrow().dbs.get(&db).and_then(|m| m.keys().next().cloned()))
    }
    /// Publishes everything at once.
    ///
    /// # Errors
    /// [`Stop::Retry`] when something that was read has changed, or room must be made first.
    pub fn commit(&self) -> Result<(), Stop> {
        self.done.set(true);
        Ok(())
    }
    /// Forgets everything, as if the transaction had not been; it can then be used again for a retry.
    pub fn abort(&self) {
        if let Some(backup) = &self.backup {
            self.state.borrow_mut().dbs = backup.clone();
        }
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        if !self.done.get() {
            self.abort();
        }
    }
}

impl Nodes for Txn<'_> {
    fn data(&self, node: Ref) -> Result<&[u8], Fault> {
        self.state.borrow().nodes.get(node.0 as usize - 1).map(|n| n.1).ok_or(Fault::Damaged { what: "node" })
    }
    fn refs(&self, node: Ref) -> Result<&[Ref], Fault> {
        self.state.borrow().nodes.get(node.0 as usize - 1).map(|n| n.0).ok_or(Fault::Damaged { what: "node" })
    }
    fn make(&self, refs: &[Ref], parts: &[&[u8]]) -> Result<Ref, Fault> {
        let mut state = self.state.borrow_mut();
        state.nodes.push((Box::leak(refs.to_vec().into_boxed_slice()), Box::leak(parts.concat().into_boxed_slice())));
        Ok(Ref(state.nodes.len() as u64))
    }
    fn edit(&self, _node: Ref, _change: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> bool {
        false
    }
    fn release(&self, _node: Ref) {}
    fn release_tree(&self, _node: Ref) {}
}
