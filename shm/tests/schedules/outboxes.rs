//! The order of the change log: writers of two keys, each of which may die, beside threads that merge. Each record says which state of its
//! key it made. So the log must hold the states of each key in their order, without a gap, whenever it is looked at (L3 of `outbox.rs`).

use polder_base::Fault;
use polder_shm::change_log::{Format, Merged};
use polder_shm::item::CHANGED;
use polder_shm::scenario::{BROKEN, explore, fate, find};
use polder_shm::schedules::{Sleeps, draw, quietly};
use polder_shm::sync::Flaw;
use polder_shm::{Locked, Seat, Tag};
use shuttle::thread;

use crate::{Memory, word};

const WRITERS: usize = 2;
const WRITES: u32 = 2;
const LOCKS: [u64; 2] = [word(0), word(1)];
const STATES: [u64; 2] = [word(0) + 8, word(1) + 8];
/// Stores of a writer, about.
const STORES: u32 = 160;

/// Writes records as they are.
pub struct Plain;

impl Format for Plain {
    fn begin(&mut self, _state: u64) {}

    fn record(&mut self, says: &[u8], out: &mut Vec<u8>) -> Result<bool, Fault> {
        out.extend_from_slice(says);
        Ok(true)
    }

    fn state(&self) -> u64 {
        0
    }
}

/// Changes a key, and tells so.
pub fn change(seat: &Seat, key: usize) {
    let segment = seat.segment();
    seat.pin();
    seat.open_outbox().expect("room");
    assert!(matches!(seat.lock(LOCKS[key], None), Ok(Locked::Ours(_))), "a lock");
    seat.amend(0, CHANGED);
    let state = segment.load(STATES[key]) + 1;
    seat.note(Tag::Cover, LOCKS[key], 0).expect("room");
    seat.note(Tag::Word, STATES[key], state).expect("room");
    let csn = seat.draw_csn();
    let told =
        seat.append_outbox(csn, segment.recording(), &[key as u8, state as u8]).expect("a sound outbox");
    assert!(told.is_ok(), "room");
    seat.commit(0).expect("room");
    seat.unpin();
}

fn whole_log(seat: &Seat) -> Vec<u8> {
    let mut log = Vec::new();
    seat.read_log(seat.segment().log_range().0, &mut log, usize::MAX)
        .expect("a sound log")
        .expect("nothing is trimmed");
    log
}

/// Merges one batch, and looks at the whole log.
fn merge(seat: &Seat) -> Merged {
    let merged = seat.merge_outboxes(&mut Plain).expect("sound outboxes");
    let log = whole_log(seat);
    let mut states = [0; 2];
    for record in log.chunks_exact(2) {
        let state = &mut states[usize::from(record[0])];
        assert_eq!(record[1], *state + 1, "{BROKEN}out of order: {log:?}");
        *state += 1;
    }
    merged
}

fn following() {
    let memory = Memory::renewed();
    let segment = &memory.segment;
    quietly(|| segment.live(None, |seat| seat.turn_log_on(&mut || true).expect("room")));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let segment = segment.clone();
            thread::spawn(move || {
                segment.live(fate(3, STORES), |seat| {
                    for _ in 0..WRITES {
                        change(seat, draw(2) as usize);
                        if draw(4) == 0 {
                            merge(seat);
                        }
                    }
                })
            })
        })
        .collect();
    segment.live(None, |seat| (0..2).for_each(|_| _ = merge(seat)));
    writers.into_iter().for_each(|writer| _ = writer.join().expect("no panic"));
    segment.recover_dead();
    segment.live(None, |seat| {
        while merge(seat) != Merged::Nothing {}
        let log = whole_log(seat);
        for (key, state) in STATES.iter().enumerate() {
            let told = log.chunks_exact(2).filter(|record| usize::from(record[0]) == key).count() as u64;
            assert_eq!(told, segment.load(*state), "{BROKEN}a change of key {key} is not in the log");
        }
    });
    memory.check(&[]);
}

#[test]
fn the_log_holds_each_state_of_a_key_in_order_at_any_death() {
    explore(Sleeps::ByThemselves, following);
}

#[test]
fn a_merger_that_reads_the_counter_last_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::CounterLast), following);
}
