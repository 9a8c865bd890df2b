//! Whole databases: counting, emptying, swapping.
//!
//! A database is found through two words of the map. FLUSH changes them: to nothing, or to a new directory that already holds what the same
//! transaction wrote after the FLUSH. SWAPDB exchanges the words of two databases. The old directory of a flushed database goes to the
//! garbage cells, from which maintenance frees it (`maintenance.rs`); no call waits for a visit of its keys. A writer that had locked a bucket of
//! the old directory before the change commits into it: its transaction comes before the FLUSH.
//!
//! A swap waits for the writers that are about to commit, and a FLUSH for those that write into several databases. Writers that come later
//! find the map changed, and begin again (`polder_shm`'s `swap_barrier.rs`). While the change log is on, a FLUSH waits as a swap does.
//!
//! Inside EXEC, a FLUSH empties what the transaction itself has written so far, DBSIZE and KEYS see the transaction's own
//! writes, and SWAPDB renames the databases for the commands after it.

use std::collections::BTreeMap;
use std::time::Duration;

use polder_shm::item::{CHANGED, Tag};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Changes, Locked, lock, ref_to};

use crate::api::{DATABASES, Db, SYSTEM, Stop, bit_of};
use crate::layout::directory::{self, GARBAGE_AT, GARBAGE_SLOTS, MAP_LOCK, map_at};
use crate::layout::entry::{Image, has_expiry, has_inner_expiry, is_cold, is_key};
use crate::layout::hash::Hash;
use crate::txn::Txn;
use crate::txn::buffers::SlowWriter;
use crate::txn::held::{Held, Pending};
use polder_base::Fault;

/// How long a swap waits for writers in their commit before it lets its locks go and begins again. The time doubles with each attempt, this often at
/// most.
const CLOSING_PATIENCE: Duration = Duration::from_micros(100);
const DOUBLINGS: u32 = 7;
/// The pause between two looks at the writer for which a swap has given up.
const LOOK_AGAIN: Duration = Duration::from_micros(500);
/// One of this many looks also searches for dead seats.
const LOOKS_FOR_THE_DEAD: u32 = 32;

impl Txn<'_> {
    /// Keys in a database, those that have expired but are not collected yet included.
    pub fn keys(&self, db: Db) -> u64 {
        self.tallied(db, 0, is_key)
    }

    /// Keys with an expiry in a database.
    pub fn keys_with_expiry(&self, db: Db) -> u64 {
        self.tallied(db, 1, has_expiry)
    }

    fn tallied(&self, db: Db, word: u64, test: fn(&Image) -> bool) -> u64 {
        if let Err(stop) = self.escalate() {
            self.trouble(stop);
        }
        let db = self.physical(db);
        let fresh = self.buffers.map.flushes.borrow().contains(&db);
        let shared = if fresh { 0 } else { self.table.tally_of(db, word) };
        let held = self.buffers.held.borrow();
        held.iter().filter(|held| held.db == db && !held.passed).fold(shared, |sum, held| {
            let before = !held.fresh && held.spot.is_some_and(|spot| test(&spot.image));
            let after = match held.pending {
                Some(Pending::Write(image)) => test(&image),
                Some(Pending::Remove) => false,
                None => before,
            };
            sum.wrapping_add_signed(after as i64 - before as i64)
        })
    }

    /// Empties one database or all that users see, without a visit of their keys.
    ///
    /// # Errors
    /// As [`Txn::commit`], where it becomes true.
    pub fn flush(&self, db: Option<Db>) -> Result<(), Stop> {
        self.escalate()?;
        self.attempt.dirty.set(true);
        self.leave_map_untold();
        match db {
            Some(db) => self.note_change_of_all("flushdb", db),
            None => self.note_change_of_all("flushall", 0),
        }
        // Also databases that are empty now: other threads may fill them by a write or a swap before the map is locked.
        match db {
            Some(db) => self.empty(&[self.physical(db)]),
            None => self.empty(&Vec::from_iter((0..DATABASES as Db).filter(|db| *db != SYSTEM))),
        }
    }

    /// Empties databases, which are named in order.
    fn empty(&self, databases: &[Db]) -> Result<(), Stop> {
        let is_emptied = |held: &&mut Held| databases.binary_search(&held.db).is_ok() && !held.passed;
        let mut records = Vec::new();
        for held in self.buffers.held.borrow_mut().iter_mut().filter(is_emptied) {
            if !held.fresh {
                // The new value may share nodes with the old one. It is written into the old directory, and swept with all of it.
                held.passed = true;
            } else if let Some(Pending::Write(image)) = held.pending.take() {
                records.push(image);
            }
        }
        self.buffers.forget_index();
        records.iter().try_for_each(|image| self.spend_record(image, true))?;
        self.buffers.used.set(true);
        let mut flushes = self.buffers.map.flushes.borrow_mut();
        flushes.extend(databases);
        flushes.sort_unstable();
        flushes.dedup();
        Ok(())
    }

    /// Swaps two databases.
    ///
    /// # Errors
    /// As [`Txn::commit`], where it becomes true.
    pub fn swap(&self, a: Db, b: Db) -> Result<(), Stop> {
        if a != b {
            self.escalate()?;
            self.attempt.dirty.set(true);
            self.leave_map_untold();
            self.note_change_of_all("swapdb", a);
            self.note_change_of_all("swapdb", b);
            self.buffers.used.set(true);
            self.buffers.map.swaps.borrow_mut().push((a, b));
        }
        Ok(())
    }

    /// The database that a number means within this transaction, after its swaps.
    pub(crate) fn physical(&self, db: Db) -> Db {
        self.buffers.map.swaps.borrow().iter().rev().fold(db, |db, (a, b)| match db {
            db if db == *a => *b,
            db if db == *b => *a,
            db => db,
        })
    }

    /// Holds a key of a database that this transaction empties. It needs no lock, since no other thread can see the new directory.
    pub(crate) fn hold_fresh(&self, db: Db, key: &[u8], hash: Hash) -> usize {
        let key = self.buffers.keep_key(key);
        let mut held = self.buffers.held.borrow_mut();
        held.push(Held {
            db,
            key,
            hash,
            extent: Default::default(),
            home: 0,
            spot: None,
            pending: None,
            retires: None,
            fresh: true,
            passed: false,
            untold: 0,
            counts: false,
            keeps_expired: false,
        });
        held.len() - 1
    }

    /// To be called by a transaction that has stored an interest and relies on what it reads afterwards. A thread that is changing the map
    /// may have looked at the interests before. This waits for that thread; validation then finds what was read changed. It comes after all
    /// buckets in the order of locks (T2).
    ///
    /// # Errors
    /// [`Stop::Busy`]; a fault.
    pub fn await_map(&self) -> Result<(), Stop> {
        if lock::owner(self.segment().observe(MAP_LOCK)).is_some_and(|owner| owner != self.seat.index()) {
            self.attempt.dirty.set(true);
            // T2: a key in the short form takes its place in the order before the map does.
            self.escalate()?;
            self.lock_patiently(MAP_LOCK)?;
            // T2: whatever bucket the commit needs beside those that are locked, it comes before the map, and is only tried.
            self.buffers.highest.set((u64::MAX, u64::MAX, u64::MAX));
        }
        Ok(())
    }

    /// Enters the commit ([`Seat::enter_commit`](polder_shm::Seat::enter_commit)): from now on the transaction waits for no lock of the map or a bucket. It
    /// checks that all keys that it has locked still belong to their databases, and they stay so until it has committed.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a database has been swapped or emptied meanwhile, or is about to be swapped.
    pub(crate) fn enter_commit(&self) -> Result<(), Stop> {
        let held = self.buffers.held.borrow();
        let shared = || held.iter().filter(|held| !held.fresh);
        let Some(first) = shared().next() else { return Ok(()) };
        let databases = shared().fold(0, |databases, held| databases | bit_of(held.db));
        let several = shared().any(|held| held.db != first.db);
        let are_roots = || shared().all(|held| self.is_root(held.db, held.extent.root));
        let enter = || self.seat.enter_commit(databases, several);
        let enters_late = sync::has(Flaw::EntersLate);
        if !enters_late {
            enter();
        }
        let were_roots = sync::has(Flaw::LooksAtRootsFirst).then(are_roots);
        // The owner of the map's lock is read first and the roots second: if a changer has finished by the first look, its roots are there at
        // the second. A transaction that writes to one database only may come before a FLUSH. One that writes to two may not: one half of it
        // would be gone before the other half is visible.
        let owner = lock::owner(self.segment().observe(MAP_LOCK)).filter(|owner| *owner != self.seat.index());
        if owner.is_some_and(|owner| self.seat.is_overtaken_by(owner)) {
            self.buffers.retry.overtaken.set(true);
            return Err(Stop::Retry);
        }
        if !were_roots.unwrap_or_else(are_roots) {
            return Err(Stop::Retry);
        }
        if enters_late {
            enter();
        }
        Ok(())
    }

    /// To be called between two attempts, while no lock is held. A writer waits here for the end of the swap that has overtaken it. A swap
    /// waits here for the writer for which it has given up, without the map's lock, which would hold up other threads.
    pub(crate) fn await_swaps(&self) {
        if let Some(changes) = self.buffers.retry.crowded.take() {
            let mut looks = 0u32;
            while self.still_commits(changes) && !self.is_out_of_time() {
                looks += 1;
                if looks.is_multiple_of(LOOKS_FOR_THE_DEAD) {
                    self.seat.segment().recover_dead();
                }
                sync::sleep(LOOK_AGAIN);
            }
        }
        if !self.buffers.retry.overtaken.take() {
            return;
        }
        match self.lock_patiently(MAP_LOCK) {
            Ok(_) => self.seat.rollback(),
            Err(stop) => self.trouble(stop),
        }
    }

    /// Whether the writer for which this transaction, or one of this thread before it, has given up is still in the same commit, and
    /// writes databases that are to be changed.
    fn still_commits(&self, changes: Changes) -> bool {
        let Some(SlowWriter { seat, number }) = self.buffers.slow.writer.get() else { return false };
        self.segment().committing_beside(seat, changes) == Some(number)
    }

    fn is_out_of_time(&self) -> bool {
        self.deadline().is_some_and(|deadline| sync::now() >= deadline)
    }

    /// The reason for which a change of the map gives up: it is to drop its locks and begin again, or it has run out of time.
    fn give_way(&self, changes: Changes) -> Stop {
        if self.is_out_of_time() {
            return Stop::Busy;
        }
        self.buffers.retry.crowded.set(Some(changes));
        Stop::Retry
    }

    /// With the map's lock: waits for the end of all writers that have validated the present map and are about to commit to databases that are
    /// to be changed. It does not wait for long, since one of them may be stopped. The next attempt waits longer: if there are more threads
    /// than cores, each needs its turn to run.
    fn await_commits(&self, changes: Changes) -> Result<(), Stop> {
        let given_up = self.buffers.slow.given_up.get();
        let end = sync::now() + CLOSING_PATIENCE * 2u32.pow(given_up.min(DOUBLINGS));
        let segment = self.seat.segment();
        let Err(seat) = segment.await_commits(self.seat.index(), changes, &mut || sync::now() < end) else {
            self.buffers.slow.given_up.set(0);
            return Ok(());
        };
        self.buffers.slow.given_up.set(given_up + 1);
        self.buffers
            .slow
            .writer
            .set(segment.committing_beside(seat, changes).map(|number| SlowWriter { seat, number }));
        Err(self.give_way(changes))
    }

    /// Notes the map's new words in the journal.
    pub(crate) fn note_databases(&self) -> Result<(), Stop> {
        let (flushes, swaps) = (self.buffers.map.flushes.borrow(), self.buffers.map.swaps.borrow());
        if flushes.is_empty() && swaps.is_empty() {
            return Ok(());
        }
        let emptied = flushes.iter().fold(0, |databases, db| databases | bit_of(*db));
        let swapped = swaps.iter().fold(0, |databases, (a, b)| databases | bit_of(*a) | bit_of(*b));
        // A writer to the old directory may commit after a FLUSH that came meanwhile. In the segment it counts as before the FLUSH, but by the
        // number of its commit it would come behind it. So while the log is on, a FLUSH waits for all writers, as a swap does (L3).
        let changes = Changes { swapped: if self.tells() { swapped | emptied } else { swapped }, emptied };
        if self.still_commits(changes) {
            self.seat.segment().recover_dead();
            if self.still_commits(changes) {
                return Err(self.give_way(changes));
            }
        }
        self.seat.announce_changes(changes);
        let awaits_early = sync::has(Flaw::AwaitsBeforeLocking);
        if awaits_early {
            self.await_commits(changes)?;
        }
        // After all buckets in the order of locks (T2): a thread that holds the map's lock waits for no bucket.
        let Locked::Ours(_) = self.lock_patiently(MAP_LOCK)? else {
            return Err(Fault::Damaged { what: "the map's lock" }.into());
        };
        self.seat.amend(self.seat.journal_len() - 1, CHANGED);
        if !awaits_early {
            self.await_commits(changes)?;
        }
        let segment = self.segment();
        let words_of = |db: Db| (segment.observe(map_at(db)), segment.observe(map_at(db) + 8));
        let mut words: BTreeMap<Db, (u64, u64)> =
            directory::all_databases().map(|db| (db, words_of(db))).collect();
        let mut garbage = Vec::new();
        let filled = self
            .buffers
            .held
            .borrow()
            .iter()
            .filter(|held| held.fresh)
            .fold(0, |databases, held| databases | bit_of(held.db));
        for db in flushes.iter() {
            garbage.push(words[db].0);
            let refilled =
                if *db == SYSTEM || filled & bit_of(*db) != 0 { self.refilled(*db)? } else { (0, 0) };
            words.insert(*db, refilled);
        }
        self.seat.note(Tag::Cover, MAP_LOCK, 0)?;
        let mut cells =
            (0..GARBAGE_SLOTS).map(|cell| GARBAGE_AT + cell * 8).filter(|cell| segment.observe(*cell) == 0);
        for node in garbage.into_iter().filter(|node| *node != 0) {
            let Some(cell) = cells.next() else {
                // This thread flushes faster than the sweep frees, so it sweeps a database itself before it tries again.
                self.buffers.retry.is_garbage_full.set(true);
                return Err(Stop::Retry);
            };
            self.seat.note(Tag::Word, cell, node)?;
        }
        for db in directory::all_databases() {
            let (node, root) = words[&self.physical(db)];
            for (place, word) in [(map_at(db), node), (map_at(db) + 8, root)] {
                if segment.observe(place) != word {
                    self.seat.note(Tag::Word, place, word)?;
                }
            }
        }
        Ok(())
    }

    /// The map words of an emptied database: none, or a new directory with what was written after the FLUSH.
    fn refilled(&self, db: Db) -> Result<(u64, u64), Stop> {
        let held = self.buffers.held.borrow();
        let writes: Vec<(&Held, Image)> = held
            .iter()
            .filter(|held| held.fresh && held.db == db)
            .filter_map(|held| match held.pending {
                Some(Pending::Write(image)) => Some((held, image)),
                _ => None,
            })
            .collect();
        if writes.is_empty() {
            return Ok((0, 0));
        }
        // Room for twice as much as there is. If the keys are spread so unevenly that they do not fit, more is given.
        let mut doublings = (writes.len() / 700).next_power_of_two().trailing_zeros();
        loop {
            let (node, root, mut buildings) = self.new_database(directory::PIECES_MAX, doublings)?;
            let fits = writes.iter().all(|(held, image)| {
                let number = if doublings == 0 { 0 } else { held.hash.position >> (64 - doublings) };
                let place = buildings[number as usize].settle(
                    self.segment(),
                    held.hash.position,
                    held.hash.tag,
                    image.units,
                );
                let Some(at) = place else { return false };
                image
                    .words()
                    .iter()
                    .zip(0..)
                    .for_each(|(word, number)| self.segment().store(at + number * 8, *word));
                true
            });
            if fits {
                buildings.iter().for_each(|building| building.finish(self.segment()));
                let tally = directory::tally_of(root);
                for (_, image) in &writes {
                    self.buffers.tally(
                        tally,
                        [is_key, has_expiry, has_inner_expiry, is_cold].map(|test| test(image) as i64),
                    );
                    if let Some(expiry_ms) = self.bound_of(image)? {
                        self.segment().lower(node + directory::database::EXPIRY_MIN, expiry_ms);
                        buildings.iter().for_each(|building| building.lower(self.segment(), expiry_ms));
                    }
                }
                return Ok((node, root));
            }
            // The nodes that were built are NEW and unused: they go out of use with the commit.
            for building in &buildings {
                building.nodes().try_for_each(|offset| self.retire(ref_to(offset), false))?;
            }
            self.retire(ref_to(node), false)?;
            let olds = self.retire_directory(directory::directory_of(root), 0)?;
            self.buffers.nodes.olds.set(self.buffers.nodes.olds.get() + olds);
            doublings += 1;
        }
    }
}
