//! Snapshots: one instant, whatever is done meanwhile; little memory; no writer waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Draw, Place, run, try_run_as, untold};
use polder_base::Fault;
use polder_shm::layout::seat as at;
use polder_table::{Db, Limits, Mode, New, Policy, Replaces, Snapshot, Stop, Table, Txn};
use polder_values::{Kind, string};

/// Accounts, and what all of them hold together.
const ACCOUNTS: u64 = 60;
const TOTAL: i64 = 60_000;

/// Everything that a snapshot holds, read with a pause after each step.
fn everything(snapshot: &Snapshot<'_>, pause: Duration) -> HashMap<(Db, Vec<u8>), Vec<u8>> {
    let mut all = HashMap::new();
    let mut kept = Vec::new();
    while let Some((number, items)) = snapshot.advance().expect("whole") {
        kept.push((snapshot.databases()[number].db, items));
        std::thread::sleep(pause);
    }
    // Read at the end, when most has been overwritten.
    for (db, items) in &kept {
        for item in items {
            let Some(found) = snapshot.found(item).expect("whole") else { continue };
            let bytes = string::contiguous(&snapshot.view(), &found.value).expect("whole").into_owned();
            let twice = all.insert((*db, item.key.clone()), bytes);
            assert!(twice.is_none(), "{db}:{} comes twice", item.key.escape_ascii());
        }
    }
    all
}

fn take(table: &Table) -> Snapshot<'_> {
    let end = Instant::now() + Duration::from_secs(20);
    table.snapshot(&mut || Instant::now() < end).expect("a snapshot")
}

/// A number as a value of some length: inline, in a record, a tree.
fn number(value: i64, draw: &mut Draw) -> Vec<u8> {
    let width = [4, 12, 30, 45, 100, 700, 9_000, 70_000][draw.below(8) as usize];
    let mut text = vec![b' '; width];
    text.extend(value.to_string().bytes());
    text
}

fn value_of(bytes: &[u8]) -> i64 {
    String::from_utf8_lossy(bytes).trim().parse().expect("a number")
}

fn read(txn: &Txn<'_>, db: Db, key: &[u8]) -> Result<Option<i64>, Stop> {
    let Some(found) = txn.find(db, key)? else { return Ok(None) };
    Ok(Some(value_of(&string::contiguous(txn, &found.value)?)))
}

fn write(txn: &Txn<'_>, db: Db, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    txn.write(db, key, &New::of(Kind::String, string::make(txn, value)?), Replaces::Whole)
}

fn account(draw: &mut Draw) -> (Db, Vec<u8>) {
    let number = draw.below(ACCOUNTS);
    // A few with keys that are trees.
    let name =
        if number < 4 { vec![b'a' + number as u8; 5_000] } else { format!("account:{number}").into_bytes() };
    (draw.below(3) as Db, name)
}

/// Moves an amount; an account that has nothing left goes, and one that gets something comes.
fn transfer(table: &Table, draw: &mut Draw) {
    let (from, to) = (account(draw), account(draw));
    let amount = 1 + draw.below(40) as i64;
    let texts = (draw.below(u64::MAX), draw.below(u64::MAX));
    run(table, |txn| {
        txn.declare(&[(from.0, &from.1), (to.0, &to.1)])?;
        if from == to {
            return Ok(());
        }
        let Some(has) = read(txn, from.0, &from.1)? else { return Ok(()) };
        let gets = read(txn, to.0, &to.1)?.unwrap_or(0);
        let amount = amount.min(has);
        if has == amount {
            txn.remove(from.0, &from.1, Replaces::Whole)?;
        } else {
            write(txn, from.0, &from.1, &number(has - amount, &mut Draw(texts.0 | 1)))?;
        }
        write(txn, to.0, &to.1, &number(gets + amount, &mut Draw(texts.1 | 1)))
    });
}

fn rename(table: &Table, draw: &mut Draw) {
    let (from, to) = (account(draw), account(draw));
    run(table, |txn| {
        txn.declare(&[(from.0, &from.1), (to.0, &to.1)])?;
        if txn.peek(to.0, &to.1)?.is_some() {
            return Ok(());
        }
        let Some(found) = txn.find(from.0, &from.1)? else { return Ok(()) };
        let new = New::from(found);
        txn.remove(from.0, &from.1, Replaces::Edited)?;
        txn.write(to.0, &to.1, &new, Replaces::Whole)
    });
}

/// Empties a database, and says in another one how often that has been done.
fn flush(table: &Table) {
    run(table, |txn| {
        txn.declare(&[(5, b"flushes"), (3, b"flushed")])?;
        let times = read(txn, 5, b"flushes")?.unwrap_or(0) + 1;
        txn.flush(Some(3))?;
        write(txn, 3, b"flushed", times.to_string().as_bytes())?;
        write(txn, 5, b"flushes", times.to_string().as_bytes())
    });
}

/// Adds a key that says how often the database has been emptied.
fn refill(table: &Table, draw: &mut Draw) {
    let key = format!("since:{}", draw.below(3_000)).into_bytes();
    run(table, |txn| {
        txn.declare(&[(5, b"flushes"), (3, &key)])?;
        let times = read(txn, 5, b"flushes")?.unwrap_or(0);
        write(txn, 3, &key, times.to_string().as_bytes())
    });
}

/// Adds a new key, and counts it.
fn grow(table: &Table, draw: &mut Draw) {
    let key = draw.below(u64::MAX).to_le_bytes();
    run(table, |txn| {
        txn.declare(&[(4, &key), (5, b"grown")])?;
        if txn.peek(4, &key)?.is_none() {
            let grown = read(txn, 5, b"grown")?.unwrap_or(0);
            write(txn, 4, &key, b"1")?;
            write(txn, 5, b"grown", (grown + 1).to_string().as_bytes())?;
        }
        Ok(())
    });
}

/// Counts up two counters, of which the first is never behind the second and at most one ahead, by the fast path if possible.
fn count_up(table: &Table, seed: u64) {
    for which in ["first", "second"] {
        let key = format!("{which}:{seed}").into_bytes();
        let mut text = String::new();
        let quick = table.location(6, &key).and_then(|location| {
            table.quick_edit(
                &location,
                &key,
                (polder_base::time::now_ms(), 1),
                |old| {
                    text = (old.map_or(0, value_of) + 1).to_string();
                    // Outlives the call: the bytes are copied into the entry before it ends.
                    (Some(Box::leak(text.clone().into_bytes().into_boxed_slice()) as &[u8]), ())
                },
                untold,
            )
        });
        if quick.is_none() {
            run(table, |txn| {
                let next = read(txn, 6, &key)?.unwrap_or(0) + 1;
                write(txn, 6, &key, next.to_string().as_bytes())
            });
        }
    }
}

/// Keys that expire, or are evicted, at any time.
fn pass_by(table: &Table, draw: &mut Draw) {
    let key = format!("passing:{}", draw.below(500)).into_bytes();
    let value = number(7, draw);
    let expiry_ms = polder_base::time::now_ms() + draw.below(30);
    let done = try_run_as(table, Mode::Write, |txn| {
        let new = New { expiry_ms: Some(expiry_ms), ..New::of(Kind::String, string::make(txn, &value)?) };
        txn.write(7, &key, &new, Replaces::Whole)
    });
    assert!(matches!(done, Ok(()) | Err(Stop::Fault(Fault::Full(_)))), "{done:?}");
    if draw.below(20) == 0 {
        table.make_room();
    }
}

fn step(table: &Table, draw: &mut Draw, seed: u64) {
    match draw.below(100) {
        0..=39 => transfer(table, draw),
        40..=49 => rename(table, draw),
        50..=64 => refill(table, draw),
        65..=79 => grow(table, draw),
        80..=89 => count_up(table, seed),
        90..=95 => pass_by(table, draw),
        96 => run(table, |txn| txn.swap((seed % 3) as Db, ((seed + 1) % 3) as Db)),
        97 => flush(table),
        _ => {
            table.run_maintenance(2_000);
        }
    }
}

/// What must be true at every instant.
fn judge(all: &HashMap<(Db, Vec<u8>), Vec<u8>>) {
    let value = |db: Db, key: &[u8]| all.get(&(db, key.to_vec())).map(|bytes| value_of(bytes));
    let in_db = |wanted: Db| all.iter().filter(move |((db, _), _)| *db == wanted);
    let accounts = all.iter().filter(|((db, _), _)| *db < 3);
    assert_eq!(accounts.map(|(_, bytes)| value_of(bytes)).sum::<i64>(), TOTAL, "amounts");
    let flushes = value(5, b"flushes").unwrap_or(0);
    for ((_, key), bytes) in in_db(3) {
        assert_eq!(value_of(bytes), flushes, "{} is of another time", key.escape_ascii());
    }
    assert_eq!(in_db(4).count() as i64, value(5, b"grown").unwrap_or(0), "keys that were counted");
    for seed in 0..8 {
        let [first, second] =
            ["first", "second"].map(|which| value(6, format!("{which}:{seed}").as_bytes()).unwrap_or(0));
        assert!((0..=1).contains(&(first - second)), "counters {first} and {second}");
    }
}

#[test]
fn a_snapshot_is_of_one_instant_whatever_is_done_meanwhile() {
    let place = &Place::new();
    let limits = Limits { memory_max: 200 << 20, policy: Policy::VolatileRandom, ..Limits::default() };
    place.table.set_limits(limits);
    (0..ACCOUNTS).for_each(|number| {
        place.set((number % 3) as Db, format!("account:{number}").as_bytes(), b"1000", None)
    });
    let (ends, taken) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let seconds: u64 = std::env::var("SNAPSHOT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    std::thread::scope(|scope| {
        for seed in 0..4u64 {
            scope.spawn(move || {
                let mut draw = Draw(seed * 77 + 5);
                while !ends.load(Ordering::Relaxed) {
                    step(&place.table, &mut draw, seed);
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        // Two who want one at the same time: one after the other.
        let readers = [0u64, 2].map(|pause| {
            scope.spawn(move || {
                while Instant::now() < end {
                    let snapshot = take(&place.table);
                    let all = everything(&snapshot, Duration::from_millis(pause));
                    drop(snapshot);
                    judge(&all);
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let outcomes = readers.map(|reader| reader.join());
        ends.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.expect("each is of one instant"));
        println!("{} snapshots", taken.load(Ordering::Relaxed));
    });
    place.table.run_maintenance(100_000);
}

#[test]
fn what_is_overwritten_again_and_again_is_saved_once() {
    let place = Place::new();
    let keys: Vec<Vec<u8>> = (0..50).map(|number| format!("key:{number}").into_bytes()).collect();
    keys.iter().for_each(|key| place.set(0, key, b"old", None));
    let snapshot = take(&place.table);
    let segment = place.table.segment();
    let saved = || segment.sum_over_seats(at::SNAPSHOT_LOG_BYTES);
    for round in 0..3_000u32 {
        keys.iter().for_each(|key| place.set(0, key, &round.to_le_bytes(), None));
        place.set(0, format!("fresh:{round}").as_bytes(), b"1", None);
    }
    assert!(saved() <= 32 * 16 * 1024, "{} bytes saved for 50 keys", saved());
    drop(snapshot);
    // What it has saved goes with the next reclamation.
    (0..3).for_each(|_| assert!(place.table.run_maintenance(100_000) > 0));
    assert_eq!(saved(), 0);
}

#[test]
fn one_key_is_found_as_it_was() {
    let place = Place::new();
    place.set(0, b"kept", b"1", None);
    place.set(0, b"changed", b"2", None);
    place.set(0, b"removed", &[b'3'; 100], None);
    let snapshot = take(&place.table);
    place.set(0, b"changed", b"other", None);
    place.remove(0, b"removed");
    place.set(0, b"added", b"4", None);
    place.run(|txn| txn.flush(None));
    place.set(0, b"kept", b"another", None);
    (0..20).for_each(|_| assert!(place.table.run_maintenance(10_000) > 0));
    let value = |key: &[u8]| {
        let item = snapshot.find(0, key).expect("whole")?;
        let found = snapshot.found(&item).expect("whole")?;
        Some(string::contiguous(&snapshot.view(), &found.value).expect("whole").into_owned())
    };
    assert_eq!(value(b"kept").as_deref(), Some(&b"1"[..]));
    assert_eq!(value(b"changed").as_deref(), Some(&b"2"[..]));
    assert_eq!(value(b"removed").as_deref(), Some(&[b'3'; 100][..]));
    assert_eq!(value(b"added"), None);
    assert_eq!(everything(&snapshot, Duration::ZERO).len(), 3);
}

#[test]
fn a_stopped_holder_of_a_lock_is_named() {
    let place = &Place::new();
    place.set(0, b"key", b"1", None);
    let (held, is_held) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let txn = place.table.begin(Mode::Write).expect("a seat");
            txn.declare(&[(0, b"key")]).expect("nobody is in the way");
            held.send(()).expect("the test waits");
            let _ = is_done.recv();
        });
        is_held.recv().expect("held");
        let mut looks = 0;
        let refused = place.table.snapshot(&mut || {
            looks += 1;
            looks < 20
        });
        let text = refused.err().expect("it is in the midst of a transaction").to_string();
        assert!(text.contains("is in the midst of a transaction"), "{text}");
        drop(done);
    });
    assert_eq!(everything(&take(&place.table), Duration::ZERO).len(), 1);
}

#[test]
fn without_memory_to_save_in_the_snapshot_breaks_and_the_writer_goes_on() {
    let place = Place::with_ceiling(24 << 20);
    (0..20_000u32).for_each(|number| {
        place.set(0, &number.to_le_bytes(), b"0123456789012345678901234567890123456789", None)
    });
    let snapshot = take(&place.table);
    // All memory that is left is filled with other values.
    let mut number = 0u32;
    while try_run_as(&place.table, Mode::Write, |txn| write(txn, 1, &number.to_be_bytes(), &[1; 9_000]))
        .is_ok()
    {
        number += 1;
    }
    for number in 0..20_000u32 {
        let written = try_run_as(&place.table, Mode::Write, |txn| {
            write(txn, 0, &number.to_le_bytes(), b"9876543210012345678901234567890123456789")
        });
        written.expect("an entry in place of another of its size needs no memory");
    }
    let failed = loop {
        match snapshot.advance() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it cannot be whole"),
            Err(stop) => break stop,
        }
    };
    assert!(matches!(&failed, Stop::Fault(Fault::Full(text)) if text.contains("not whole")), "{failed}");
}
