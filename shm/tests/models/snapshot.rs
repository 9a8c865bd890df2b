//! A model of the snapshot: writers that change two keys together, and a reader that reads both, one after the other, as they were at one
//! instant. As in queue.rs, the protocol is restated here; it mirrors `snapshot_log.rs` and the table's `snapshot.rs`: change both.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;

use crate::common::schedules::{explore, find, words};

const KEYS: usize = 2;
const SEATS: usize = 2;
const ROUNDS: usize = 2;
const SUM: u64 = 200;
/// Versions that a seat draws at once.
const BLOCK: u64 = 2;

/// What a careless edit would leave out.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// The reader does not wait for writers that may have looked before the snapshot was announced.
    WaitsForNobody,
    /// A writer looks for each key.
    LooksForEachKey,
    /// A writer saves after its commit.
    SavesLate,
    /// The reader takes all records that it meets, also those that came while it read the chains.
    ReadsWithoutEnd,
}

struct World {
    locks: [AtomicU64; KEYS],
    /// version << 32 | value
    entries: [AtomicU64; KEYS],
    /// Whether a seat is in a transaction, and how many it has ended.
    journals: [AtomicU64; SEATS],
    ended: [AtomicU64; SEATS],
    announced: AtomicU64,
    watermark: AtomicU64,
    versions: AtomicU64,
    serial: AtomicU64,
    /// The seats' chains: the serial and what was saved, for each key, and how many of them count.
    saved: [[[[AtomicU64; 2]; ROUNDS]; KEYS]; SEATS],
    counts: [[AtomicU64; KEYS]; SEATS],
}

impl World {
    fn save(&self, seat: usize, key: usize, before: u64, version: u64) {
        let watermark = self.watermark.load(SeqCst);
        let says_all = |version: u64| version > watermark;
        if says_all(before >> 32) && says_all(version) {
            return;
        }
        let count = self.counts[seat][key].load(SeqCst);
        let [serial, state] = &self.saved[seat][key][count as usize];
        serial.store(self.serial.fetch_add(1, SeqCst), SeqCst);
        state.store(before, SeqCst);
        self.counts[seat][key].store(count + 1, SeqCst);
    }

    /// What the first record of a key says.
    fn first_saved(&self, key: usize, flaw: Flaw) -> Option<u64> {
        let serial_end = if flaw == Flaw::ReadsWithoutEnd { u64::MAX } else { self.serial.load(SeqCst) };
        let mut first = None;
        for seat in 0..SEATS {
            let count = self.counts[seat][key].load(SeqCst) as usize;
            let records = self.saved[seat][key][..count]
                .iter()
                .map(|record| (record[0].load(SeqCst), record[1].load(SeqCst)));
            first = records.filter(|(serial, _)| *serial < serial_end).chain(first).min();
        }
        first.map(|(_, state)| state)
    }

    fn write(&self, seat: usize, flaw: Flaw) {
        let (mut next, mut end) = (0, 0);
        for _ in 0..ROUNDS {
            self.journals[seat].store(1, SeqCst);
            for lock in &self.locks {
                while lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
                    thread::yield_now();
                }
            }
            if next == end {
                next = self.versions.fetch_add(BLOCK, SeqCst) + 1;
                end = next + BLOCK;
            }
            let version = next;
            next += 1;
            let before: Vec<u64> = self.entries.iter().map(|entry| entry.load(SeqCst)).collect();
            let value =
                |key: usize| (before[key] & 0xffff_ffff).wrapping_add(if key == 0 { 1 } else { u64::MAX });
            let looked = self.announced.load(SeqCst);
            let save = |key: usize| {
                let on = if flaw == Flaw::LooksForEachKey { self.announced.load(SeqCst) } else { looked };
                if on != 0 {
                    self.save(seat, key, before[key], version);
                }
            };
            if flaw != Flaw::SavesLate {
                (0..KEYS).for_each(save);
            }
            (0..KEYS).for_each(|key| self.entries[key].store(version << 32 | value(key), SeqCst));
            if flaw == Flaw::SavesLate {
                (0..KEYS).for_each(save);
            }
            self.locks.iter().for_each(|lock| lock.store(0, SeqCst));
            self.journals[seat].store(0, SeqCst);
            self.ended[seat].fetch_add(1, SeqCst);
        }
    }

    fn read(&self, flaw: Flaw) {
        self.announced.store(1, SeqCst);
        for seat in (0..SEATS).filter(|_| flaw != Flaw::WaitsForNobody) {
            let ended = self.ended[seat].load(SeqCst);
            while self.journals[seat].load(SeqCst) != 0 && self.ended[seat].load(SeqCst) == ended {
                thread::yield_now();
            }
        }
        let watermark = self.versions.load(SeqCst);
        self.watermark.store(watermark, SeqCst);
        let mut sum = 0;
        for key in 0..KEYS {
            let live = self.entries[key].load(SeqCst);
            let state = self.first_saved(key, flaw).unwrap_or(live);
            assert!(state >> 32 <= watermark, "a state of later");
            sum += state & 0xffff_ffff;
        }
        assert_eq!(sum, SUM, "not of one instant");
    }
}

fn instant(flaw: Flaw) {
    let world = Arc::new(World {
        locks: words([0; KEYS]),
        entries: words([SUM / 2; KEYS]),
        journals: words([0; SEATS]),
        ended: words([0; SEATS]),
        announced: AtomicU64::new(0),
        watermark: AtomicU64::new(u64::MAX),
        versions: AtomicU64::new(0),
        serial: AtomicU64::new(0),
        saved: [(); SEATS].map(|()| [(); KEYS].map(|()| [(); ROUNDS].map(|()| words([0; 2])))),
        counts: [(); SEATS].map(|()| words([0; KEYS])),
    });
    let writers: Vec<_> = (0..SEATS)
        .map(|seat| {
            let world = world.clone();
            thread::spawn(move || world.write(seat, flaw))
        })
        .collect();
    world.read(flaw);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn a_snapshot_is_of_one_instant_beside_writers_of_two_keys() {
    explore(|| instant(Flaw::None));
}

#[test]
#[should_panic(expected = "not of one instant")]
fn the_model_catches_a_snapshot_that_waits_for_no_writer() {
    find(|| instant(Flaw::WaitsForNobody));
}

#[test]
#[should_panic(expected = "not of one instant")]
fn the_model_catches_a_writer_that_looks_for_each_key() {
    find(|| instant(Flaw::LooksForEachKey));
}

#[test]
#[should_panic(expected = "a state of later")]
fn the_model_catches_a_writer_that_saves_after_its_commit() {
    find(|| instant(Flaw::SavesLate));
}

#[test]
#[should_panic(expected = "a state of later")]
fn the_model_catches_a_reader_that_takes_records_of_later() {
    find(|| instant(Flaw::ReadsWithoutEnd));
}
