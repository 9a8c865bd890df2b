//! Whole databases: counting, emptying, swapping.
//!
//! A database is found through two words of the map; emptying one swings them (to nothing, or to a new directory that already
//! holds what the same transaction wrote after the FLUSH), swapping two exchanges them. The old directory goes to the garbage
//! cells, from where a sweeper frees it (`chores.rs`); nobody waits for the keys to be visited. A writer that had locked a
//! bucket of the old directory before the swing commits into it: its transaction came before the FLUSH. Whoever swaps waits for the writers that
//! are about to commit, and who empties for those that write into several databases; those who come later find their keys anew (`polder_shm`'s
//! `closing.rs`).
//!
//! Inside EXEC, a FLUSH empties what the transaction itself has written so far, DBSIZE and KEYS see the transaction's own
//! writes, and SWAPDB renames the databases for the commands after it.

use std::time::{Duration, Instant};

use polder_shm::journal::{CHANGED, Tag};
use polder_shm::{Changes, Locked, lock, ref_to};

use crate::api::{DATABASES, Db, SYSTEM, Stop};
use crate::directory::{self, GARBAGE_AT, GARBAGE_SLOTS, MAP_LOCK, map_at};
use crate::entry::Image;
use crate::hash::Hash;
use crate::place::{has_expiry, has_inner_expiry, is_key};
use crate::txn::{Held, Pending, Txn};
use polder_base::Fault;

/// How long who swaps waits for those who close, before others may go on and he begins anew; twice as long each time, so often.
const CLOSING_PATIENCE: Duration = Duration::from_micros(100);
const DOUBLINGS: u32 = 7;
/// How often he looks, then, whether that one has gone on.
const LOOK_AGAIN: Duration = Duration::from_micros(500);
/// It is looked for the dead at one of so many looks.
const LOOKS_FOR_THE_DEAD: u32 = 32;

/// What says that a database is written, swapped or emptied: a bit that others may have, too. The system's own is never swapped nor emptied.
#[inline(always)]
pub(crate) fn bit_of(db: Db) -> u64 {
    if db == SYSTEM { 0 } else { 1 << (db % 32) }
}

/// Who has kept a change of the map waiting: a seat, and the number of its transaction.
#[derive(Clone, Copy)]
pub(crate) struct Straggler {
    seat: u64,
    number: u64,
}

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
        if let Err(stop) = self.unfold() {
            self.trouble(stop);
        }
        let db = self.physical(db);
        let fresh = self.scratch.flushes.borrow().contains(&db);
        let shared = if fresh { 0 } else { self.table.tally_of(db, word) };
        let held = self.scratch.held.borrow();
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

    /// Empties one database or all that users see; nobody waits for the keys to be visited.
    ///
    /// # Errors
    /// As [`Txn::commit`], where it becomes true.
    pub fn flush(&self, db: Option<Db>) -> Result<(), Stop> {
        self.unfold()?;
        self.dirty.set(true);
        self.leave_map_untold();
        match db {
            Some(db) => self.note_change_of_all("flushdb", db),
            None => self.note_change_of_all("flushall", 0),
        }
        // Also those that are empty now: whoever swaps or writes may fill them before the map is locked.
        match db {
            Some(db) => self.empty(&[self.physical(db)]),
            None => self.empty(&Vec::from_iter((0..DATABASES as Db).filter(|db| *db != SYSTEM))),
        }
    }

    /// Empties databases, which are named in order.
    fn empty(&self, databases: &[Db]) -> Result<(), Stop> {
        let is_emptied = |held: &&mut Held| databases.binary_search(&held.db).is_ok() && !held.passed;
        let mut records = Vec::new();
        for held in self.scratch.held.borrow_mut().iter_mut().filter(is_emptied) {
            if !held.fresh {
                // Its trees may be half the old value's: it is written there, to be swept with everything.
                held.passed = true;
            } else if let Some(Pending::Write(image)) = held.pending.take() {
                records.push(image);
            }
        }
        self.scratch.forget_index();
        records.iter().try_for_each(|image| self.spend_record(image, true))?;
        self.scratch.used.set(true);
        let mut flushes = self.scratch.flushes.borrow_mut();
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
            self.unfold()?;
            self.dirty.set(true);
            self.leave_map_untold();
            self.note_change_of_all("swapdb", a);
            self.note_change_of_all("swapdb", b);
            self.scratch.used.set(true);
            self.scratch.swaps.borrow_mut().push((a, b));
        }
        Ok(())
    }

    /// The database that a number means within this transaction, after its swaps.
    pub(crate) fn physical(&self, db: Db) -> Db {
        self.scratch.swaps.borrow().iter().rev().fold(db, |db, (a, b)| match db {
            db if db == *a => *b,
            db if db == *b => *a,
            db => db,
        })
    }

    /// Holds a key of a database that this transaction empties: it needs no lock, nobody else can see it.
    pub(crate) fn hold_fresh(&self, db: Db, key: &[u8], hash: Hash) -> usize {
        let key = self.scratch.keep_key(key);
        let mut held = self.scratch.held.borrow_mut();
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
        });
        held.len() - 1
    }

    /// To be called by who has said that he listens and relies on what he reads: whoever changes the map of databases and may not have
    /// seen that is waited for, and then what was read is not so any more. After all buckets (T2).
    ///
    /// # Errors
    /// [`Stop::Busy`]; a fault.
    pub fn await_map(&self) -> Result<(), Stop> {
        if lock::owner(self.segment().observe(MAP_LOCK)).is_some_and(|owner| owner != self.seat.index()) {
            self.dirty.set(true);
            self.lock_patiently(MAP_LOCK)?;
        }
        Ok(())
    }

    /// From now on the transaction waits for nobody ([`Seat::close`](polder_shm::Seat::close)): all keys that it has locked are those of their databases, and
    /// stay so until it has committed.
    ///
    /// # Errors
    /// [`Stop::Retry`] where a database has been swapped or emptied meanwhile, or is about to be swapped.
    pub(crate) fn close(&self) -> Result<(), Stop> {
        let held = self.scratch.held.borrow();
        let shared = || held.iter().filter(|held| !held.fresh);
        let Some(first) = shared().next() else { return Ok(()) };
        let databases = shared().fold(0, |databases, held| databases | bit_of(held.db));
        let several = shared().any(|held| held.db != first.db);
        self.seat.close(databases, several);
        // First who changes the map, then the roots: who is done with it has written them. What is all of one database comes before a FLUSH; of two, the one
        // half would be gone before the other is there.
        let owner = lock::owner(self.segment().observe(MAP_LOCK)).filter(|owner| *owner != self.seat.index());
        if owner.is_some_and(|owner| self.seat.is_overtaken_by(owner)) {
            self.scratch.overtaken.set(true);
            return Err(Stop::Retry);
        }
        if shared().all(|held| self.is_root(held.db, held.extent.root)) { Ok(()) } else { Err(Stop::Retry) }
    }

    /// To be called between two attempts, with nothing in hand: waits until who swaps is done, or until he goes on for whom our swap waits, with no
    /// lock of the map, which would hold up others.
    pub(crate) fn await_swaps(&self) {
        if let Some(changes) = self.scratch.crowded.take() {
            let mut looks = 0u32;
            while self.straggles(changes) && !self.is_out_of_time() {
                looks += 1;
                if looks.is_multiple_of(LOOKS_FOR_THE_DEAD) {
                    self.seat.segment().recover_dead();
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        if !self.scratch.overtaken.take() {
            return;
        }
        match self.lock_patiently(MAP_LOCK) {
            Ok(_) => self.seat.rollback(),
            Err(stop) => self.trouble(stop),
        }
    }

    /// Whether he still closes who has kept a change of the map waiting, of this transaction or of one before, and writes what is to be changed.
    fn straggles(&self, changes: Changes) -> bool {
        let Some(Straggler { seat, number }) = self.scratch.straggler.get() else { return false };
        self.segment().closing_beside(seat, changes) == Some(number)
    }

    fn is_out_of_time(&self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Why a change of the map has to wait, with nothing in hand.
    fn give_way(&self, changes: Changes) -> Stop {
        if self.is_out_of_time() {
            return Stop::Busy;
        }
        self.scratch.crowded.set(Some(changes));
        Stop::Retry
    }

    /// With the map's lock: waits until all have come to their end who are about to write what is to be changed by the map as it is. Not for long: one may
    /// stand still. Longer the next time: where there are more threads than cores, all of them need their turn.
    fn await_closing(&self, changes: Changes) -> Result<(), Stop> {
        let given_up = self.scratch.given_up.get();
        let end = Instant::now() + CLOSING_PATIENCE * 2u32.pow(given_up.min(DOUBLINGS));
        let segment = self.seat.segment();
        let Err(seat) = segment.await_closing(self.seat.index(), changes, &mut || Instant::now() < end) else {
            self.scratch.given_up.set(0);
            return Ok(());
        };
        self.scratch.given_up.set(given_up + 1);
        self.scratch.straggler.set(segment.closing_beside(seat, changes).map(|number| Straggler { seat, number }));
        Err(self.give_way(changes))
    }

    /// Notes what becomes of the map of databases.
    pub(crate) fn note_databases(&self) -> Result<(), Stop> {
        let (flushes, swaps) = (self.scratch.flushes.borrow(), self.scratch.swaps.borrow());
        if flushes.is_empty() && swaps.is_empty() {
            return Ok(());
        }
        let emptied = flushes.iter().fold(0, |databases, db| databases | bit_of(*db));
        let swapped = swaps.iter().fold(0, |databases, (a, b)| databases | bit_of(*a) | bit_of(*b));
        // A writer of one key that commits after a FLUSH that has overtaken it comes before that, and by the number of its commit behind it. So with
        // a log who empties keeps apart from all writers, as who swaps does (L3).
        let changes = Changes { swapped: if self.tells() { swapped | emptied } else { swapped }, emptied };
        if self.straggles(changes) {
            self.seat.segment().recover_dead();
            if self.straggles(changes) {
                return Err(self.give_way(changes));
            }
        }
        self.seat.announce_changes(changes);
        // After all buckets in the order of locks (T2): whoever holds the map's lock waits for no bucket.
        let Locked::Ours(_) = self.lock_patiently(MAP_LOCK)? else { return Err(Fault::Damaged { what: "the map's lock" }.into()) };
        self.seat.amend(self.seat.journal_len() - 1, CHANGED);
        self.await_closing(changes)?;
        let segment = self.segment();
        let mut words: Vec<(u64, u64)> =
            (0..DATABASES as Db).map(|db| (segment.observe(map_at(db)), segment.observe(map_at(db) + 8))).collect();
        let mut garbage = Vec::new();
        let filled = self.scratch.held.borrow().iter().filter(|held| held.fresh).fold(0, |databases, held| databases | bit_of(held.db));
        for db in flushes.iter() {
            garbage.push(words[*db as usize].0);
            words[*db as usize] = if *db == SYSTEM || filled & bit_of(*db) != 0 { self.refilled(*db)? } else { (0, 0) };
        }
        self.seat.note(Tag::Cover, MAP_LOCK, 0)?;
        let mut cells = (0..GARBAGE_SLOTS).map(|cell| GARBAGE_AT + cell * 8).filter(|cell| segment.observe(*cell) == 0);
        for node in garbage.into_iter().filter(|node| *node != 0) {
            let Some(cell) = cells.next() else {
                // Who flushes faster than the sweeper sweeps does some of it.
                self.scratch.littered.set(true);
                return Err(Stop::Retry);
            };
            self.seat.note(Tag::Word, cell, node)?;
        }
        for db in 0..DATABASES as Db {
            let (node, root) = words[self.physical(db) as usize];
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
        let held = self.scratch.held.borrow();
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
        // Room for twice as much as there is; an unlucky hash is given more.
        let mut doublings = (writes.len() / 700).next_power_of_two().trailing_zeros();
        loop {
            let (node, root, mut buildings) = self.new_database(directory::PIECES_MAX, doublings)?;
            let fits = writes.iter().all(|(held, image)| {
                let number = if doublings == 0 { 0 } else { held.hash.position >> (64 - doublings) };
                let place = buildings[number as usize].settle(self.segment(), held.hash.position, held.hash.tag, image.units);
                let Some(at) = place else { return false };
                image.words().iter().zip(0..).for_each(|(word, number)| self.segment().store(at + number * 8, *word));
                true
            });
            if fits {
                buildings.iter().for_each(|building| building.finish(self.segment()));
                let tally = directory::tally_of(root);
                for (_, image) in &writes {
                    self.scratch.tally(tally, [is_key, has_expiry, has_inner_expiry].map(|test| test(image) as i64));
                    if let Some(expiry_ms) = self.bound_of(image)? {
                        self.segment().lower(node + directory::database::EXPIRY_MIN, expiry_ms);
                        buildings.iter().for_each(|building| building.lower(self.segment(), expiry_ms));
                    }
                }
                return Ok((node, root));
            }
            // What was built is NEW and unused: it goes out of use with the commit.
            for building in &buildings {
                building.nodes().try_for_each(|offset| self.retire(ref_to(offset), false))?;
            }
            self.retire(ref_to(node), false)?;
            let olds = self.retire_directory(directory::directory_of(root), 0)?;
            self.scratch.olds.set(self.scratch.olds.get() + olds);
            doublings += 1;
        }
    }
}
