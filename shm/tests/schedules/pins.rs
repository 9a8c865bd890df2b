//! A reader that follows a reference beside writers that replace and free what it names, and that may die.

use polder_shm::item::CHANGED;
use polder_shm::node::NodeKind;
use polder_shm::scenario::{BROKEN, explore, fate, find};
use polder_shm::schedules::{Sleeps, draw, quietly};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Locked, Seat, Segment, Tag, offset_of, ref_to};
use shuttle::thread;

use crate::{Memory, word};

const LOCK: u64 = word(0);
/// Which node is current, and above its offset what it says.
const CURRENT: u64 = LOCK + 8;
const OFFSET_BITS: u32 = 40;
const BYTES: usize = 64;
const WRITERS: u64 = 2;
const WRITES: u64 = 5;
const READS: u32 = 2;
/// Looks of a reader that waits for changes.
const LOOKS: u32 = 300;
/// Stores of a writer, about.
const STORES: u32 = 220;

fn node_of(current: u64) -> u64 {
    current & ((1 << OFFSET_BITS) - 1)
}

/// Replaces the node by one that says `says`, and frees what can be freed.
fn replace(seat: &Seat, says: u64) {
    let segment = seat.segment();
    seat.pin();
    assert!(matches!(seat.lock(LOCK, None), Ok(Locked::Ours(_))), "a lock");
    seat.amend(0, CHANGED);
    let node = offset_of(seat.make(NodeKind::Data, BYTES).expect("memory"));
    (1..=2).for_each(|at| segment.store(node + at * 8, says));
    let old = node_of(segment.load(CURRENT));
    seat.note(Tag::Cover, LOCK, 0).expect("room");
    seat.note(Tag::Word, CURRENT, says << OFFSET_BITS | node).expect("room");
    let olds = u64::from(old != 0);
    (old != 0).then(|| seat.note_old(ref_to(old), false).expect("room"));
    seat.commit(olds).expect("room");
    seat.unpin();
    seat.reclaim_until(sync::now());
}

/// Waits until another node has become the current one, a few times, if that comes about soon.
fn linger(segment: &Segment) {
    let (mut seen, mut left) = (segment.observe(CURRENT), draw(4));
    for _ in 0..LOOKS {
        if left == 0 {
            return;
        }
        sync::yield_now();
        let now = segment.observe(CURRENT);
        left -= u32::from(now != seen);
        seen = now;
    }
}

/// Reads what the current node says, as a reader of the table does: without a lock, under a pin.
fn read(segment: &Segment, seat: &Seat) {
    seat.pin();
    linger(segment);
    let current = loop {
        let current = segment.observe(CURRENT);
        if seat.covers_now() {
            break current;
        }
    };
    linger(segment);
    for at in [1, 2] {
        assert_eq!(
            segment.load(node_of(current) + at * 8),
            current >> OFFSET_BITS,
            "{BROKEN}read a freed node"
        );
    }
    seat.unpin();
}

fn replacing() {
    let memory = Memory::renewed();
    let segment = &memory.segment;
    quietly(|| segment.live(None, |seat| replace(seat, 1))).expect("nothing dies yet");
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let segment = segment.clone();
            thread::spawn(move || {
                segment.live(fate(3, STORES), |seat| {
                    (0..WRITES).for_each(|number| replace(seat, 2 + writer * WRITES + number))
                })
            })
        })
        .collect();
    segment.live(None, |seat| (0..READS).for_each(|_| read(segment, seat))).expect("the reader lives");
    writers.into_iter().for_each(|writer| _ = writer.join().expect("no panic"));
    segment.recover_dead();
    memory.check(&[node_of(segment.load(CURRENT))]);
}

#[test]
fn a_pinned_reader_never_sees_a_freed_node() {
    explore(Sleeps::ByThemselves, replacing);
}

#[test]
fn a_reader_that_does_not_widen_its_pin_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::WidensNoPin), replacing);
}
