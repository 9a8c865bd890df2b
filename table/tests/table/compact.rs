//! Compaction: memory that one size of node has taken and left nearly empty serves other sizes, and no reader sees anything move.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::{Draw, Place};
use polder_base::Fault;
use polder_shm::layout::{header, interest, seat as at};
use polder_shm::ref_to;
use polder_table::interest::take_interest;
use polder_table::{Change, ChangeSink, CommitView, Counter, Found, Mode, New, Replaces, Stop};
use polder_values::{Kind, Value, hash, string};

const SECOND_MS: u64 = 1_000;

/// Sets a string as the engine would: where there is no room it waits for some.
fn try_to_set(place: &Place, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> Result<(), Stop> {
    let txn = place.table.begin(Mode::Write)?;
    loop {
        let set = string::make(&txn, value).map_err(Stop::from).and_then(|value| {
            let new = New { expiry_ms, ..New::of(Kind::String, value) };
            txn.write(0, key, &new, Replaces::Whole)
        });
        match set.and_then(|()| txn.commit()) {
            Err(Stop::Retry) => txn.abort(),
            Err(stop) => {
                txn.abort();
                txn.await_room(stop)?;
            }
            Ok(()) => return Ok(()),
        }
    }
}

/// Sets strings of this many bytes until there is no more room; returns how many.
fn fill(place: &Place, name: &str, bytes: usize) -> usize {
    let mut count = 0;
    loop {
        let key = format!("{name}:{count}");
        match try_to_set(place, key.as_bytes(), &content(&key, bytes), None) {
            Ok(()) => count += 1,
            Err(Stop::Fault(Fault::Full(_))) => return count,
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

/// Bytes that tell of which key they are.
fn content(key: &str, bytes: usize) -> Vec<u8> {
    key.bytes().cycle().take(bytes).collect()
}

/// Removes all but one in `keep` of `count` strings, at random places; returns those that stay.
fn thin_out(place: &Place, name: &str, count: usize, keep: u64) -> Vec<String> {
    let mut draw = Draw(7);
    let keys = (0..count).map(|number| format!("{name}:{number}"));
    keys.filter(|key| draw.below(keep) == 0 || !place.remove(0, key.as_bytes())).collect()
}

fn moved(place: &Place) -> u64 {
    place.table.counter(Counter::Moved)
}

fn entry_of(place: &Place, key: &str) -> (u64, Option<u64>, u32) {
    place.run(|txn| {
        let Found { version, expiry_ms, clock, .. } = txn.peek(0, key.as_bytes())?.expect("it is there");
        Ok((version, expiry_ms, clock))
    })
}

#[test]
fn other_sizes_find_room_where_strings_have_left_gaps() {
    let place = &Place::with_ceiling(24 << 20);
    let count = fill(place, "old", 1_000);
    assert!(count > 15_000, "{count}");
    let left = thin_out(place, "old", count, 8);
    let later = polder_base::time::now_ms() + 1_000 * SECOND_MS;
    for key in left.iter().step_by(10) {
        try_to_set(place, key.as_bytes(), &content(key, 1_000), Some(later)).expect("room");
    }
    let before: Vec<_> = left.iter().map(|key| entry_of(place, key)).collect();
    let changes = place.table.changes();
    let stored = fill(place, "new", 5_000);
    assert!(stored * 5_000 > 14 << 20, "{stored} strings");
    assert_eq!(place.table.changes() - changes, stored as u64, "what moves is no change");
    assert!(moved(place) > 500, "{} moved", moved(place));
    for (key, before) in left.iter().zip(before) {
        assert_eq!(entry_of(place, key), before, "{key}");
        assert_eq!(place.get(0, key.as_bytes()), Some(content(key, 1_000)), "{key}");
    }
}

/// Adds ten fields to a hash; `None` where there is no more room.
fn add_fields(place: &Place, key: &[u8], round: u32) -> Option<()> {
    let txn = place.table.begin(Mode::Write).expect("a seat");
    let names: Vec<[u8; 4]> = (round * 10..round * 10 + 10).map(u32::to_le_bytes).collect();
    let add = || {
        let found = txn.find(0, key)?;
        let mut draft = found.map_or_else(
            || hash::Draft::empty(hash::Thresholds::NONE),
            |found| hash::Draft::of(&found.value, hash::Thresholds::NONE),
        );
        for name in &names {
            let spot = draft.find(&txn, name, || 0)?;
            draft.put(&txn, &spot, name, &content("value", 60), hash::Expiry::None)?;
        }
        let (value, inner_expiry_ms) = draft.finish(&txn)?;
        txn.write(0, key, &New { inner_expiry_ms, ..New::of(Kind::Hash, value) }, Replaces::Edited)
    };
    loop {
        match add().and_then(|()| txn.commit()) {
            Ok(()) => return Some(()),
            Err(Stop::Retry) => txn.abort(),
            Err(stop) => {
                txn.abort();
                txn.await_room(stop).ok()?;
            }
        }
    }
}

/// How many fields a hash has, each with the value that it was given.
fn fields_of(place: &Place, key: &[u8]) -> u64 {
    place.run(|txn| {
        let found = txn.find(0, key)?.expect("it is there");
        let hash = hash::Hash::of(&found.value);
        for field in hash.iter(txn, 0) {
            assert_eq!(field?.value().bytes(txn)?, content("value", 60));
        }
        Ok(hash.count()?)
    })
}

#[test]
fn nodes_of_large_values_move_too() {
    const HASHES: u32 = 16;
    let place = &Place::with_ceiling(24 << 20);
    // In turns, so that the nodes of each lie in all slabs.
    let names: Vec<String> = (0..HASHES).map(|number| format!("hash:{number}")).collect();
    let rounds = (0..)
        .take_while(|round| names.iter().all(|name| add_fields(place, name.as_bytes(), *round).is_some()))
        .count() as u64;
    let before: Vec<u64> = names.iter().map(|name| fields_of(place, name.as_bytes())).collect();
    assert!(rounds > 500 && before.iter().all(|count| *count >= rounds * 10), "{rounds} rounds");
    names.iter().skip(2).for_each(|name| assert!(place.remove(0, name.as_bytes())));
    let stored = fill(place, "new", 5_000);
    assert!(stored * 5_000 > 16 << 20, "{stored} strings, {} nodes moved", moved(place));
    assert!(moved(place) > 500, "{} nodes moved", moved(place));
    for (name, before) in names.iter().zip(before).take(2) {
        assert_eq!(fields_of(place, name.as_bytes()), before);
    }
}

#[test]
fn a_pass_ends_though_several_values_of_one_extent_are_large() {
    let place = &Place::with_ceiling(96 << 20);
    let names: Vec<String> = (0..6).map(|number| format!("hash:{number}")).collect();
    (0..)
        .take_while(|round| names.iter().all(|name| add_fields(place, name.as_bytes(), *round).is_some()))
        .count();
    let before: Vec<u64> = names.iter().map(|name| fields_of(place, name.as_bytes())).collect();
    names.iter().skip(3).for_each(|name| assert!(place.remove(0, name.as_bytes())));
    while place.table.reclaim() {}
    // In steps that are shorter than it takes to go through one of the values.
    try_to_set(place, b"large", &content("large", 8 << 20), None).expect("room");
    let begun = Instant::now();
    while place.table.segment().load(header::MARKS) != 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not end");
        place.table.run_maintenance(200);
    }
    assert!(moved(place) > 5_000, "{} nodes moved", moved(place));
    for (name, before) in names.iter().zip(before).take(3) {
        assert_eq!(fields_of(place, name.as_bytes()), before);
    }
}

#[test]
fn compaction_changes_nothing_for_readers_and_writers() {
    let place = &Place::with_ceiling(24 << 20);
    let count = fill(place, "old", 1_000);
    let left = &thin_out(place, "old", count, 6);
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                scope.spawn(move || {
                    let mut draw = Draw(reader + 1);
                    let mut rounds = 0;
                    while !over.load(Ordering::Relaxed) || rounds < 1_000 {
                        let key = &left[draw.below(left.len() as u64) as usize];
                        assert_eq!(place.get(0, key.as_bytes()), Some(content(key, 1_000)), "{key}");
                        // What is written is of the same size, and takes what has just come free.
                        if reader == 1 && rounds % 4 == 0 {
                            try_to_set(place, key.as_bytes(), &content(key, 1_000), None).expect("room");
                        }
                        rounds += 1;
                    }
                })
            })
            .collect();
        let stored = fill(place, "new", 5_000);
        over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
        assert!(stored * 5_000 > 8 << 20 && moved(place) > 500, "{stored} strings, {} moved", moved(place));
    });
}

#[test]
fn a_full_memory_stays_full_and_says_so_soon() {
    let place = &Place::with_ceiling(8 << 20);
    fill(place, "full", 1_000);
    let begun = Instant::now();
    // Several threads at once, none of which may take another one for a thread that frees memory.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in 0..50 {
                    let key = format!("more:{thread}:{number}");
                    assert!(matches!(
                        try_to_set(place, key.as_bytes(), &[1; 5_000], None),
                        Err(Stop::Fault(Fault::Full(_)))
                    ));
                }
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_write_waits_for_a_reader_that_holds_retired_nodes_but_not_for_ever() {
    let place = &Place::with_ceiling(8 << 20);
    let count = fill(place, "full", 1_000);
    assert!((count - 4..count).all(|number| place.remove(0, format!("full:{number}").as_bytes())));
    let overwrite = |number: usize| {
        let key = format!("full:{number}");
        try_to_set(place, key.as_bytes(), &content(&key, 1_000), None)
    };
    let begins = &Barrier::new(2);
    let read_for = |time: Duration| {
        let txn = place.table.begin(Mode::Read).expect("a reader");
        assert!(txn.find(0, b"full:0").expect("no trouble").is_some());
        begins.wait();
        std::thread::sleep(time);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| read_for(Duration::from_millis(200)));
        begins.wait();
        (0..200).for_each(|number| overwrite(number).expect("room, as soon as the reader has ended"));
    });
    // Far longer than any reader reads.
    std::thread::scope(|scope| {
        scope.spawn(|| read_for(Duration::from_secs(6)));
        begins.wait();
        let begun = Instant::now();
        let refused = (0..200).find(|number| overwrite(*number).is_err());
        assert!(
            refused.is_some() && begun.elapsed() < Duration::from_secs(4),
            "{refused:?} after {:?}",
            begun.elapsed()
        );
    });
    (0..200).for_each(|number| overwrite(number).expect("room again"));
}

#[test]
fn marks_of_a_process_that_has_ended_keep_no_memory() {
    let place = &Place::with_ceiling(8 << 20);
    let count = fill(place, "old", 1_000);
    thin_out(place, "old", count, 8);
    while place.table.reclaim() {}
    let (seat, segment) = (place.table.seat().expect("a seat"), place.table.segment());
    assert!(seat.mark_slabs(1).0 > 10, "there is much to spare");
    // No thread goes on with the pass. Writes of the same size still find its nodes.
    for number in 0..count * 3 / 4 {
        let key = format!("again:{number}");
        try_to_set(place, key.as_bytes(), &content(&key, 1_000), None).expect("room");
    }
    segment.publish(header::MARKS, polder_base::time::now_ms() - 3_600 * SECOND_MS);
    assert!(segment.has_old_marks());
    place.table.run_maintenance(100_000);
    assert!(!segment.has_old_marks() && seat.unmark_slabs() == 0);
}

/// Fills the memory with strings and removes most of them, so that many slabs can be spared; returns the keys that are left.
fn sparse(place: &Place) -> Vec<String> {
    let count = fill(place, "old", 1_000);
    let left = thin_out(place, "old", count, 8);
    while place.table.reclaim() {}
    left
}

fn is_on(place: &Place) -> bool {
    place.table.segment().load(header::MARKS) != 0
}

/// Goes on with a pass in the smallest steps until something is so.
fn step_until(place: &Place, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come");
        place.table.run_maintenance(1);
    }
}

/// Those of some keys whose record lies in a slab that is to be emptied.
fn leaving<'k>(place: &Place, keys: &'k [String]) -> Vec<&'k String> {
    let segment = place.table.segment();
    let is_leaving = |key: &&String| {
        place.run(|txn| match txn.peek(0, key.as_bytes())? {
            Some(Found { value: Value::Packed(bytes), .. }) => {
                let offset = bytes.as_ptr().addr() - segment.address(0).addr();
                Ok(segment.is_leaving(ref_to(offset as u64)))
            }
            _ => panic!("{key} is there, and in one piece"),
        })
    };
    keys.iter().filter(is_leaving).collect()
}

#[test]
fn what_lies_in_an_extent_that_is_replaced_meanwhile_moves_too() {
    let place = &Place::with_ceiling(24 << 20);
    let short = |number: u32| format!("short:{number}").into_bytes();
    (0..15_000).for_each(|number| place.set(0, &short(number), &[1; 20], None));
    let left = sparse(place);
    step_until(place, || is_on(place));
    let before = leaving(place, &left);
    assert!(before.len() > 500, "{}", before.len());
    // The pass stops inside an extent, which shrinks before the next steps.
    for _ in 0..40 {
        place.table.run_maintenance(1);
    }
    (0..15_000).for_each(|number| assert!(place.remove(0, &short(number))));
    let already = moved(place);
    let goal = already + leaving(place, &left).len() as u64;
    assert!(goal > already + 400, "{already} of {goal} had been moved already");
    step_until(place, || !is_on(place));
    assert!(moved(place) >= goal, "{} of {goal} have moved", moved(place));
}

#[test]
fn a_pass_waits_for_what_another_thread_has_moved() {
    let place = &Place::with_ceiling(24 << 20);
    let left = &sparse(place);
    step_until(place, || is_on(place));
    let nearly_all = moved(place) + leaving(place, left).len() as u64 - 20;
    let retired = || place.table.segment().sum_over_seats(at::RETIRED_BYTES);
    // This reader may see the old nodes, so they are not free before it ends.
    let reader = place.table.begin(Mode::Read).expect("a seat");
    assert_eq!(reader.find(0, b"nothing").map(|found| found.is_none()), Ok(true));
    let ((tell, told), (go_on, goes_on)) = (channel(), channel());
    // With all that the other thread waits for, so that it ends also when this one fails.
    std::thread::scope(move |scope| {
        scope.spawn(move || {
            step_until(place, || moved(place) >= nearly_all);
            tell.send(()).expect("somebody listens");
            goes_on.recv().expect("somebody tells");
            while place.table.reclaim() {}
            tell.send(()).expect("somebody listens");
        });
        told.recv().expect("the other thread works");
        drop(reader);
        assert!(is_on(place) && retired() > 1 << 20);
        place.table.run_maintenance(2_000_000);
        assert!(leaving(place, left).is_empty() && is_on(place), "all has moved, and is not free yet");
        go_on.send(()).expect("the other thread waits");
        told.recv().expect("the other thread works");
        step_until(place, || !is_on(place));
        assert_eq!(retired(), 0);
    });
}

/// Counts the changes that it is told of.
struct Counting;

static CHANGES: AtomicU64 = AtomicU64::new(0);

impl ChangeSink for Counting {
    fn tell(&self, _: &dyn CommitView, changes: &[Change<'_>]) -> Result<(), Stop> {
        CHANGES.fetch_add(changes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn what_moves_is_no_change_for_watches_listeners_and_the_log() {
    let place = &Place::with_ceiling(24 << 20);
    place.table.listen(&Counting);
    let left = &sparse(place);
    take_interest(&place.table.seat().expect("a seat"), interest::ALL);
    let log = place.table.log();
    log.turn_on().expect("a log");
    let watches: Vec<_> = left.iter().map(|key| place.run(|txn| txn.watch(0, key.as_bytes()))).collect();
    let before: Vec<_> = left.iter().map(|key| entry_of(place, key)).collect();
    let counted = || {
        while log.merge().expect("room") {}
        let table = &place.table;
        let notes = (table.counter(Counter::Whole), CHANGES.load(Ordering::Relaxed));
        (table.changes(), table.keys(0), log.end(), log.csn(), notes)
    };
    let at_rest = counted();
    step_until(place, || is_on(place));
    step_until(place, || !is_on(place));
    assert!(moved(place) > 500, "{} moved", moved(place));
    assert_eq!(counted(), at_rest);
    for mode in [Mode::Write, Mode::Read] {
        let untouched = |watch| crate::common::run_as(&place.table, mode, |txn| txn.unchanged(watch));
        assert!(watches.iter().all(untouched), "an EXEC in mode {mode:?} aborts");
    }
    for (key, before) in left.iter().zip(before) {
        assert_eq!(entry_of(place, key), before, "{key}");
    }
    // All of these notice a change that is one.
    let last = &left[left.len() - 1];
    place.run(|txn| {
        txn.note_change('$', "set", 0, last.as_bytes());
        txn.tell(0, &[b"DEL", last.as_bytes()]);
        txn.remove(0, last.as_bytes(), Replaces::Whole)
    });
    assert!(CHANGES.load(Ordering::Relaxed) > at_rest.4.1 && counted().2 != at_rest.2);
    assert!(!place.run(|txn| txn.unchanged(&watches[left.len() - 1])));
}
