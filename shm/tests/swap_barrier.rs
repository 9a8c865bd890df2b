//! A model of the swap barrier: a thread that swaps or empties databases, and writers that enter their commit. As in models.rs, the protocol is
//! restated here. It mirrors `swap_barrier.rs`, and the table's `database.rs` (`enter_commit`, `await_commits`, `note_databases`): change both.
//!
//! Each database has one key. In the first case two databases exchange two directories, and writers write to database 0 only. So what
//! database 1 holds changes by a swap alone. In the second case database 0 is emptied and gets another directory. One of the writers
//! writes in the same transaction into a further database, which is not emptied: both of its writes become visible, or neither. A
//! writer may die at any step, and other threads complete or undo its transaction.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::{rand::Rng, thread};

mod common;
use common::schedules::{explore, find, words};

const WRITERS: usize = 2;
/// How often the map is changed.
const CHANGES: u64 = 2;
const DIRECTORIES: usize = 3;
/// The place of the database that is never swapped nor emptied, and the writer that writes there.
const OTHER: usize = DIRECTORIES;
const WRITES_OTHER: usize = 0;
/// What a writer stores when it enters its commit.
const ALONE: u64 = 1;
const SEVERAL: u64 = 2;

/// What a careless edit would do.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// The writer looks at the map before it stores that it enters its commit.
    LooksTooEarly,
    /// The writer looks at the root before it looks at which thread has locked the map.
    LooksAtRootsFirst,
    /// The writer stores that it has finished before it has written all.
    ReopensTooEarly,
    /// The thread that changes the map waits for no writer,
    Hurries,
    /// or first waits and then locks the map.
    LocksTooLate,
}

struct World {
    /// The directory that is database 0's; where databases are swapped, the other one of two is database 1's.
    root: AtomicU64,
    map_lock: AtomicU64,
    /// The lock and the value of the key in each directory, and of the other database.
    lock: [AtomicU64; DIRECTORIES + 1],
    value: [AtomicU64; DIRECTORIES + 1],
    closing: [AtomicU64; WRITERS],
    /// Which writer has died, and what it had committed: directory and value, plus 1; or 0.
    dead: [AtomicU64; WRITERS],
    journal: [AtomicU64; WRITERS],
    /// What is done to databases: they are emptied, or else swapped.
    empties: bool,
    flaw: Flaw,
}

/// A writer has died.
struct Death;

impl World {
    fn new(empties: bool, flaw: Flaw) -> World {
        World {
            root: AtomicU64::new(0),
            map_lock: AtomicU64::new(0),
            lock: words([0; DIRECTORIES + 1]),
            value: words([0; DIRECTORIES + 1]),
            closing: words([0; WRITERS]),
            dead: words([0; WRITERS]),
            journal: words([0; WRITERS]),
            empties,
            flaw,
        }
    }

    fn lock(&self, word: &AtomicU64, owner: u64) {
        while word.compare_exchange(0, owner, SeqCst, SeqCst).is_err() {
            (0..WRITERS).for_each(|writer| self.recover(writer));
            thread::yield_now();
        }
    }

    /// Completes or undoes the transaction of a dead writer and releases its locks. Only one thread at a time does this; in the segment
    /// the liveness lock of the dead writer's seat ensures that.
    fn recover(&self, writer: usize) {
        if self.dead[writer].compare_exchange(1, 2, SeqCst, SeqCst).is_ok() {
            self.write_out(writer);
            let ours = |word: &&AtomicU64| word.load(SeqCst) == writer as u64 + 1;
            self.lock.iter().chain([&self.map_lock]).filter(ours).for_each(|word| word.store(0, SeqCst));
            self.closing[writer].store(0, SeqCst);
        }
    }

    fn write_out(&self, writer: usize) {
        let committed = self.journal[writer].load(SeqCst);
        if committed != 0 {
            let (directory, value) =
                ((committed - 1) as usize % DIRECTORIES, (committed - 1) / DIRECTORIES as u64);
            self.value[directory].store(value, SeqCst);
            if self.writes_other(writer) {
                self.value[OTHER].store(value, SeqCst);
            }
            self.journal[writer].store(0, SeqCst);
        }
    }

    fn writes_other(&self, writer: usize) -> bool {
        self.empties && writer == WRITES_OTHER
    }

    /// Whether a writer that stores this must keep apart from the thread that changes the map.
    fn concerns(&self, closing: u64) -> bool {
        closing == SEVERAL || closing == ALONE && !self.empties
    }

    /// Whether the writer's directory is database 0's, and stays so until the writer leaves its commit; or it has been taken out of the map and
    /// concerns only the thread that empties it.
    fn may_commit(&self, directory: u64, closing: u64) -> bool {
        let is_free = || self.map_lock.load(SeqCst) == 0 || !self.concerns(closing);
        if self.flaw == Flaw::LooksAtRootsFirst {
            return self.root.load(SeqCst) == directory && is_free();
        }
        is_free() && self.root.load(SeqCst) == directory
    }

    fn dies(&self, writer: usize, mortal: bool) -> Result<(), Death> {
        if mortal && is_hit() {
            self.dead[writer].store(1, SeqCst);
            return Err(Death);
        }
        Ok(())
    }

    fn write(&self, writer: usize, value: u64, mortal: bool) -> Result<(), Death> {
        loop {
            let directory = self.root.load(SeqCst);
            let several = self.writes_other(writer);
            let closing = if several { SEVERAL } else { ALONE };
            let locks = [&self.lock[directory as usize], &self.lock[OTHER]];
            let locks = &locks[..closing as usize];
            locks.iter().for_each(|lock| self.lock(lock, writer as u64 + 1));
            self.dies(writer, mortal)?;
            let early = self.flaw == Flaw::LooksTooEarly && self.may_commit(directory, closing);
            self.closing[writer].store(closing, SeqCst);
            self.dies(writer, mortal)?;
            let may =
                if self.flaw == Flaw::LooksTooEarly { early } else { self.may_commit(directory, closing) };
            if may {
                self.journal[writer].store(value * DIRECTORIES as u64 + directory + 1, SeqCst);
                if self.flaw == Flaw::ReopensTooEarly {
                    self.closing[writer].store(0, SeqCst);
                }
                self.dies(writer, mortal)?;
                self.write_out(writer);
                self.dies(writer, mortal)?;
            }
            locks.iter().for_each(|lock| lock.store(0, SeqCst));
            self.closing[writer].store(0, SeqCst);
            if may {
                return Ok(());
            }
            // Until the thread that changes the map is done; this writer holds no lock meanwhile.
            self.lock(&self.map_lock, writer as u64 + 1);
            self.map_lock.store(0, SeqCst);
        }
    }

    fn await_commits(&self) {
        for (writer, closing) in self.closing.iter().enumerate() {
            while self.concerns(closing.load(SeqCst)) {
                self.recover(writer);
                thread::yield_now();
            }
        }
    }

    fn change(&self) {
        if self.flaw == Flaw::LocksTooLate {
            self.await_commits();
        }
        self.lock(&self.map_lock, WRITERS as u64 + 1);
        if !matches!(self.flaw, Flaw::Hurries | Flaw::LocksTooLate) {
            self.await_commits();
        }
        if self.empties {
            self.root.fetch_add(1, SeqCst);
        } else {
            self.root.fetch_xor(1, SeqCst);
        }
        self.map_lock.store(0, SeqCst);
    }

    /// What a reader sees of database 1. The value in a dead writer's journal counts as soon as it is committed.
    fn read_other(&self) -> u64 {
        (0..WRITERS).for_each(|writer| self.recover(writer));
        let directory = 1 - self.root.load(SeqCst);
        self.value[directory as usize].load(SeqCst)
    }

    /// What a reader without locks sees of the other database: what its writer has committed, or else what is there.
    fn glance_at_other(&self) -> u64 {
        match self.journal[WRITES_OTHER].load(SeqCst) {
            0 => self.value[OTHER].load(SeqCst),
            committed => (committed - 1) / DIRECTORIES as u64,
        }
    }

    /// What database 0 and the other one hold at one moment, as read by the only thread that changes the map.
    fn read_both(&self) -> [u64; 2] {
        let places = [self.root.load(SeqCst) as usize, OTHER];
        places.iter().for_each(|place| self.lock(&self.lock[*place], WRITERS as u64 + 1));
        let seen = places.map(|place| self.value[place].load(SeqCst));
        places.iter().for_each(|place| self.lock[*place].store(0, SeqCst));
        seen
    }
}

fn is_hit() -> bool {
    shuttle::rand::thread_rng().gen_range(0..8) == 0
}

/// Writers, each of which writes twice, beside `changes`; at the end no lock or mark of any is left.
fn beside_writers(world: World, mortal: bool, changes: impl FnOnce(&World)) {
    let world = Arc::new(world);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let world = world.clone();
            thread::spawn(move || {
                (0..2)
                    .try_for_each(|number| {
                        world.write(writer, (number * WRITERS + writer + 1) as u64, mortal)
                    })
                    .is_ok()
            })
        })
        .collect();
    changes(&world);
    for (writer, done) in writers.into_iter().enumerate() {
        assert!(done.join().unwrap() || mortal);
        world.recover(writer);
    }
    assert!(
        world.closing.iter().chain(&world.lock).chain([&world.map_lock]).all(|word| word.load(SeqCst) == 0),
        "something is left"
    );
}

fn swapping(flaw: Flaw, mortal: bool) {
    beside_writers(World::new(false, flaw), mortal, |world| {
        for _ in 0..CHANGES {
            world.change();
            let seen = world.read_other();
            thread::yield_now();
            assert_eq!(world.read_other(), seen, "written under another number");
        }
    });
}

fn emptying(flaw: Flaw, mortal: bool) {
    beside_writers(World::new(true, flaw), mortal, |world| {
        for _ in 0..CHANGES {
            world.change();
            let before = world.glance_at_other();
            thread::yield_now();
            let [emptied, other] = world.read_both();
            assert!(other == before || emptied != 0, "half of it was emptied");
        }
    });
}

#[test]
fn no_write_reaches_a_database_that_was_swapped_away_at_any_death() {
    explore(|| swapping(Flaw::None, false));
    explore(|| swapping(Flaw::None, true));
}

#[test]
#[should_panic(expected = "written under another number")]
fn the_model_catches_a_look_at_the_map_before_the_commit_is_entered() {
    find(|| swapping(Flaw::LooksTooEarly, false));
}

#[test]
#[should_panic(expected = "written under another number")]
fn the_model_catches_a_look_at_the_roots_before_the_maps_lock() {
    find(|| swapping(Flaw::LooksAtRootsFirst, false));
}

#[test]
#[should_panic(expected = "written under another number")]
fn the_model_catches_a_writer_that_leaves_its_commit_too_early() {
    find(|| swapping(Flaw::ReopensTooEarly, false));
}

#[test]
#[should_panic(expected = "written under another number")]
fn the_model_catches_a_swap_that_waits_for_no_writer() {
    find(|| swapping(Flaw::Hurries, false));
}

#[test]
#[should_panic(expected = "written under another number")]
fn the_model_catches_a_swap_that_waits_before_it_has_locked_the_map() {
    find(|| swapping(Flaw::LocksTooLate, false));
}

#[test]
fn what_is_written_into_several_databases_is_emptied_before_or_after_as_a_whole() {
    explore(|| emptying(Flaw::None, false));
    explore(|| emptying(Flaw::None, true));
}

#[test]
#[should_panic(expected = "half of it was emptied")]
fn the_model_catches_a_flush_that_waits_for_no_writer() {
    find(|| emptying(Flaw::Hurries, false));
}

#[test]
#[should_panic(expected = "half of it was emptied")]
fn the_model_catches_a_flush_that_waits_before_it_has_locked_the_map() {
    find(|| emptying(Flaw::LocksTooLate, false));
}

#[test]
#[should_panic(expected = "half of it was emptied")]
fn the_model_catches_a_writer_into_several_that_looks_before_it_enters_its_commit() {
    find(|| emptying(Flaw::LooksTooEarly, false));
}
