//! Words that were overwritten give errors, or are put right: never a crash, never a wait without end (S5). What the fuzzer
//! `cargo x fuzz damaged-segment` has found, one test for each kind.

use crate::common::Place;
use polder_base::Fault;
use polder_shm::class::{CLASSES, SIZES, per_slab};
use polder_shm::layout::{ROOTS_AT, header, seat};
use polder_shm::node::{NodeHeader, NodeKind};
use polder_shm::{Segment, lock, ref_to};
use polder_table::{Mode, New, Replaces, Stop};
use polder_values::{Kind, Value};

/// Where the words of database 0 lie in the map: its node, and its directory with its tally.
const ROOT_AT: u64 = ROOTS_AT + 1024 + 8;

fn with_a_key() -> Place {
    let place = Place::with_ceiling(48 << 20);
    place.set(0, b"key", b"value", None);
    place
}

fn segment(place: &Place) -> &Segment {
    place.table.segment()
}

/// Tries once to set a key; returns how that ended.
fn try_to_set(place: &Place, key: &[u8]) -> Result<(), Stop> {
    let txn = place.table.begin(Mode::Write).expect("a seat");
    txn.declare(&[(0, key)])?;
    txn.write(0, key, &New::of(Kind::String, Value::Packed(b"other")), Replaces::Whole)?;
    txn.commit()
}

fn is_damage<T>(outcome: Result<T, Stop>) -> bool {
    matches!(outcome, Err(Stop::Fault(Fault::Damaged { .. })))
}

/// The lock words of a small database's buckets.
fn bucket_locks(place: &Place) -> Vec<u64> {
    let extent = place.table.inspect(0, b"key").expect("readable").expect("there").extent;
    let piece = segment(place).load(extent + 40) << 3;
    (0..7).map(|number| piece + 6_080 + number * 64).collect()
}

#[test]
fn a_lock_whose_owner_has_no_item_for_it_is_given_back() {
    for seat in [0, 1, 900, 4_094] {
        let place = with_a_key();
        for word in bucket_locks(&place) {
            segment(&place).store(word, seat + 1);
        }
        let outcome = try_to_set(&place, b"key");
        // A lock that names this thread's own seat cannot be given back.
        let own = seat % 1_024 == place.table.seat().expect("a seat").index();
        assert!(if own { is_damage(outcome) } else { outcome.is_ok() }, "seat {seat}");
        place.abandon();
    }
}

#[test]
fn a_dead_bucket_that_is_still_in_its_place_is_damage() {
    let place = with_a_key();
    for word in bucket_locks(&place) {
        segment(&place).store(word, lock::DEAD);
    }
    assert!(is_damage(try_to_set(&place, b"key")));
    let txn = place.table.begin(Mode::Read).expect("a seat");
    assert!(is_damage(txn.find(0, b"key").map(drop)));
    assert!(is_damage(txn.scan(0, 0, 10, &mut |_| {})));
    drop(txn);
    place.abandon();
}

#[test]
fn a_map_whose_lock_is_dead_gives_an_error() {
    let place = with_a_key();
    segment(&place).store(ROOTS_AT, lock::DEAD);
    let txn = place.table.begin(Mode::Write).expect("a seat");
    txn.flush(None).expect("noted");
    assert!(is_damage(txn.commit()));
    drop(txn);
    place.abandon();
}

#[test]
fn a_database_whose_two_words_disagree_gives_an_error() {
    let place = with_a_key();
    // Its node's word for its directory.
    segment(&place).store(segment(&place).load(ROOT_AT - 8) + 56, 0);
    let txn = place.table.begin(Mode::Write).expect("a seat");
    let expiring = New { expiry_ms: Some(u64::MAX >> 20), ..New::of(Kind::String, Value::Packed(b"other")) };
    txn.write(0, b"key", &expiring, Replaces::Whole).expect("noted");
    assert!(is_damage(txn.commit()));
    drop(txn);
    place.abandon();
}

#[test]
fn a_slab_that_tells_of_more_nodes_than_it_has_is_asked_once() {
    let place = with_a_key();
    place.set(0, b"record", &[1; 100], None);
    let segment = segment(&place);
    for slab in 0..segment.observe(header::SLABS_READY) {
        let state = segment.load(segment.slab_state_at(slab));
        if state != 0 {
            segment.store(segment.slab_state_at(slab), state | 0xffff << 8);
        }
    }
    for number in 0..2_000u32 {
        place.set(0, &number.to_le_bytes(), &[number as u8; 100], None);
    }
    assert_eq!(place.get(0, &77u32.to_le_bytes()), Some(vec![77; 100]));
    place.abandon();
}

#[test]
fn counters_at_their_end_do_not_overflow() {
    let place = with_a_key();
    for word in [header::SLABS_READY, header::EPOCH, header::VERSIONS, header::SEATS_HIGH] {
        segment(&place).store(word, u64::MAX);
    }
    for number in 0..3_000u32 {
        let key = format!("key:{number}");
        if try_to_set(&place, key.as_bytes()).is_ok() {
            assert_eq!(place.get(0, key.as_bytes()).as_deref(), Some(&b"other"[..]));
        }
    }
    assert!(place.table.usage().committed > 0);
    place.abandon();
}

#[test]
fn a_tally_that_there_is_not_is_not_counted_in() {
    let place = with_a_key();
    let segment = segment(&place);
    segment.store(ROOT_AT, segment.load(ROOT_AT) | 0xffff);
    let beyond = segment.seat_at(place.table.seat().expect("a seat").index())
        + seat::TALLIES
        + 0xffff * seat::TALLY_BYTES;
    let before = segment.load(beyond);
    assert!(try_to_set(&place, b"another").is_ok());
    assert_eq!(segment.load(beyond), before, "what is no tally is not written");
    // Its node says another one: the number means nothing, but it comes.
    place.keys(0);
    place.abandon();
}

#[test]
fn an_extent_of_another_depth_is_damage_and_a_scan_of_it_ends() {
    for depth in [10, 63, 64, u32::MAX as u64] {
        let place = with_a_key();
        let extent = place.table.inspect(0, b"key").expect("readable").expect("there").extent;
        let shape = segment(&place).load(extent + 8) & 0xffff_ffff;
        segment(&place).store(extent + 8, shape | depth << 32);
        let txn = place.table.begin(Mode::Read).expect("a seat");
        assert!(is_damage(txn.find(0, b"key").map(drop)), "depth {depth}");
        assert!(is_damage(txn.scan(0, 0, 10, &mut |_| {})), "depth {depth}");
        drop(txn);
        place.abandon();
    }
}

/// The nodes of a kind that are in use or have been.
fn nodes_of(segment: &Segment, kind: NodeKind) -> Vec<u64> {
    let states = (0..segment.observe(header::SLABS_READY))
        .map(|slab| (slab, segment.load(segment.slab_state_at(slab)) & 0xff));
    let filled = states.filter(|(_, class)| (1..=CLASSES as u64).contains(class));
    let nodes = filled.flat_map(|(slab, class)| {
        let (bytes, count) = (SIZES[class as usize - 1] as u64, per_slab(class as usize - 1) as u64);
        (0..count).map(move |number| segment.slab_at(slab) + number * bytes)
    });
    nodes.filter(|node| NodeHeader(segment.load(*node)).kind() == Some(kind)).collect()
}

#[test]
fn a_retired_tree_that_names_itself_comes_to_an_end() {
    let place = with_a_key();
    place.set_string(0, b"tree", &vec![1; 20 << 20]);
    let segment = segment(&place);
    let inner = nodes_of(segment, NodeKind::DataRefs);
    assert!(!inner.is_empty(), "no tree, no test");
    for node in inner {
        // Its first two references: to itself.
        segment.store(node + 16, ref_to(node).0);
        segment.store(node + 24, ref_to(node).0);
    }
    assert!(place.remove(0, b"tree"));
    let mut rounds = 0;
    while place.table.usage().retired > 0 {
        place.table.run_maintenance(100_000);
        rounds += 1;
        assert!(rounds < 1_000, "{} bytes are still retired", place.table.usage().retired);
    }
    assert!(try_to_set(&place, b"another").is_ok());
    place.abandon();
}

#[test]
fn a_damaged_owner_of_the_snapshot_does_not_prevent_snapshots() {
    let place = with_a_key();
    let left = std::thread::scope(|scope| scope.spawn(|| place.table.seat().expect("a seat").index()).join())
        .expect("no panic");
    for word in [u64::MAX, 1 << 40, 1_025, 700, left + 1, left + 1] {
        segment(&place).store(header::SNAPSHOT_OWNER, word);
        let snapshot =
            place.table.snapshot(&mut || false).unwrap_or_else(|fault| panic!("{word:#x}: {fault}"));
        assert!(snapshot.advance().expect("whole").is_some());
        drop(snapshot);
        assert_eq!(segment(&place).load(header::SNAPSHOT_OWNER), 0);
    }
}
