//! The end of memory: what is refused there, and what never is.

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{Place, try_run_as};
use polder_base::Fault;
use polder_shm::layout::header;
use polder_table::{Mode, New, Replaces, Stop};
use polder_values::{Kind, Value};

/// A memory with as many keys as it holds: how many those are.
fn full(place: &Place, value: &[u8]) -> u32 {
    for number in 0..u32::MAX {
        match try_to_set(place, &number.to_le_bytes(), value) {
            Ok(()) => {}
            Err(Stop::Fault(Fault::Full(_))) => return number,
            Err(stop) => panic!("{stop:?}"),
        }
    }
    unreachable!("no memory is so large")
}

fn try_to_set(place: &Place, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    try_run_as(&place.table, Mode::Write, |txn| txn.write(0, key, &New::of(Kind::String, Value::Packed(value)), Replaces::Whole))
}

#[test]
fn a_full_memory_waits_for_slabs_that_others_hold_locked() {
    let place = &Place::with_ceiling(4 << 20);
    let count = full(place, &[1; 2_000]);
    (0..count / 2).for_each(|number| assert!(place.remove(0, &number.to_le_bytes())));
    (0..10).for_each(|_| assert!(place.table.chores(100_000) > 0));
    place.table.seat().expect("a seat").empty_caches();
    let segment = place.table.segment();
    let locks: Vec<u64> = (0..segment.observe(header::SLABS_READY)).map(|slab| segment.slab_lock_at(slab)).collect();
    let (held, is_held) = mpsc::channel();
    std::thread::scope(|scope| {
        let locks = &locks;
        scope.spawn(move || {
            let owner = place.table.seat().expect("a seat").index() + 1;
            locks.iter().for_each(|lock| segment.store(*lock, owner));
            held.send(()).expect("the test waits");
            std::thread::sleep(Duration::from_millis(3));
            locks.iter().for_each(|lock| segment.store(*lock, segment.load(*lock) & !0xfff));
        });
        is_held.recv().expect("held");
        assert_eq!(try_to_set(place, b"key", &[1; 2_000]), Ok(()));
    });
}
