//! Many processes do everything that a table can, on few keys, and die all the time: at a random store or by a random
//! SIGKILL. While they work, verify finds nothing wrong; afterwards, what is left is whole and exactly accounted for.
//!
//! `cargo test -p polder-table --test torture [SEED [SECONDS]]`. One thread only: it forks.

mod common;

use std::time::{Duration, Instant};

use common::{Draw, Place, run, try_run_as, untold};
use polder_shm::crash::{self, Child, End};
use polder_table::{Limits, Location, Mode, New, Policy, Replaces, Stop, Table, Txn};
use polder_values::string::{self, Draft};
use polder_values::{Kind, Value};

/// Processes at work.
const ACTORS: usize = 5;
/// Keys of each database: few, so that all threads meet.
const KEYS: u64 = 600;
/// Locations that an actor keeps, until others have put them out of date.
const LOCATIONS: usize = 16;
/// How long an actor may live, in stores.
const STORES_MAX: u64 = 60_000;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let mut number = |default: u64| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (seed, seconds) = (number(20_260_711), number(6));
    println!("seed {seed}, {seconds} s");
    let place = Place::with_ceiling(48 << 20);
    place.table.set_limits(Limits {
        memory_max: 30 << 20,
        policy: Policy::AllkeysRandom,
        ..Limits::default()
    });
    let mut draw = Draw(seed | 1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut actors: Vec<Child> = (0..ACTORS).map(|_| actor(&place.table, draw.below(u64::MAX))).collect();
    let (mut deaths, mut next_check) = (0, Instant::now());
    while Instant::now() < end {
        std::thread::sleep(Duration::from_micros(200 + draw.below(4_000)));
        let victim = draw.below(ACTORS as u64) as usize;
        if draw.below(3) == 0 {
            actors[victim].kill();
        }
        for child in &mut actors {
            if let Some(end) = child.ended() {
                assert_eq!(end, End::Killed, "actors have no other end");
                deaths += 1;
                *child = actor(&place.table, draw.below(u64::MAX));
            }
        }
        if Instant::now() > next_check {
            let report = place.table.verify().expect("a seat");
            assert!(report.is_clean(), "beside living writers: {report}");
            next_check = Instant::now() + Duration::from_millis(300);
        }
    }
    for child in actors {
        child.kill();
        child.wait();
    }
    place.table.run_maintenance(1_000_000);
    let report = place.table.verify().expect("a seat");
    assert!(report.exact && report.is_clean(), "{report}");
    place.table.set_limits(Limits::default());
    run(&place.table, |txn| txn.flush(None));
    (0..200).for_each(|_| assert!(place.table.run_maintenance(1_000_000) > 0));
    println!("{deaths} deaths, and {} keys in {} nodes left whole", report.keys, report.nodes);
}

/// Starts a process that works until it is killed.
fn actor(table: &Table, seed: u64) -> Child {
    Child::of(|| {
        let mut draw = Draw(seed | 1);
        crash::arm(1 + draw.below(STORES_MAX));
        let mut locations = [const { None }; LOCATIONS];
        loop {
            step(table, &mut draw, &mut locations);
        }
    })
}

fn try_run(table: &Table, call: impl Fn(&Txn<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
    try_run_as(table, Mode::Write, call)
}

fn key(draw: &mut Draw) -> Vec<u8> {
    match draw.below(KEYS) {
        // A few that are trees by themselves.
        number @ 0..3 => vec![b'k'; 5_000 + number as usize],
        number => format!("key:{number}").into_bytes(),
    }
}

fn length(draw: &mut Draw) -> usize {
    [0, 10, 30, 45, 100, 700, 3_000, 9_000, 60_000][draw.below(9) as usize]
}

/// A location of a key.
type Kept = Option<(Location, Vec<u8>)>;

/// Gives the key of a location that may be out of date another value.
fn edit_by_old_location(table: &Table, kept: &Kept, value: &[u8]) {
    if let Some((location, name)) = kept {
        table.edit_plain(location, name, (polder_base::time::now_ms(), 0), |_| Some((value, ())), |_| ());
    }
}

/// Writes and reads two keys by what takes no transaction.
fn write_on_fast_paths(table: &Table, db: u16, (name, other): (&[u8], &[u8]), value: &[u8]) {
    let now_ms = polder_base::time::now_ms();
    if let (Some(location), Some(look)) = (table.location(db, name), table.location(db, other)) {
        table.quick_edit(&location, name, (now_ms, 0), |_| (Some(value), ()), untold);
        table.quick_get(&look, other, now_ms, |_| ());
        table.write_plain(db, table.hash(other), other, value);
        table.read_plain(db, table.hash(name), name, |_| ());
    }
}

/// One operation on the memory. What it cannot get for lack of room it does without.
fn step(table: &Table, draw: &mut Draw, locations: &mut [Kept; LOCATIONS]) {
    let db = draw.below(3) as u16;
    let (name, other) = (key(draw), key(draw));
    let value = vec![draw.below(256) as u8; length(draw)];
    let short = &value[..value.len().min(30)];
    let done = match draw.below(1000) {
        0..=49 => {
            let kept = &mut locations[draw.below(LOCATIONS as u64) as usize];
            edit_by_old_location(table, kept, short);
            if draw.below(4) == 0 {
                *kept = table.location(db, &name).map(|location| (location, name));
            }
            Ok(())
        }
        50..=149 => {
            write_on_fast_paths(table, db, (&name, &other), short);
            Ok(())
        }
        150..=449 => try_run(table, |txn| set(txn, db, &name, &value, None)),
        450..=549 => try_run(table, |txn| txn.remove(db, &name, Replaces::Whole).map(drop)),
        550..=649 => {
            look(table, db, &name);
            Ok(())
        }
        650..=729 => {
            let offset = draw.below(70_000);
            try_run(table, |txn| edit(txn, db, &name, offset, &value[..value.len().min(20_000)]))
        }
        730..=789 => {
            let expiry_ms = polder_base::time::now_ms() + draw.below(60);
            try_run(table, |txn| set(txn, db, &name, &value, Some(expiry_ms)))
        }
        790..=849 => {
            let names: Vec<Vec<u8>> = (0..1 + draw.below(40)).map(|_| key(draw)).collect();
            try_run(table, |txn| {
                names
                    .iter()
                    .enumerate()
                    .try_for_each(|(at, name)| set(txn, (db + at as u16) % 3, name, &value, None))
            })
        }
        850..=909 => try_run(table, |txn| rename(txn, db, &name, &other)),
        910..=939 => try_run(table, |txn| txn.watch(db, &name).map(drop)),
        940..=969 => {
            table.run_maintenance(2_000);
            Ok(())
        }
        970..=984 => {
            table.make_room();
            Ok(())
        }
        985..=991 => try_run(table, |txn| txn.swap(db, (db + 1) % 3)),
        992..=995 => try_run(table, |txn| txn.flush(Some(db))),
        996..=998 => try_run(table, |txn| {
            edit(txn, db, &name, 100, &value[..value.len().min(9_000)])?;
            txn.flush(Some(db))?;
            set(txn, db, &other, &value, None)
        }),
        999 if draw.below(2) == 0 => try_run(table, |txn| txn.flush(None)),
        _ => take_snapshot(table, draw),
    };
    match done {
        Ok(()) => {}
        Err(Stop::Fault(polder_base::Fault::Full(_))) => drop(table.make_room()),
        // Many flushes at once: the sweeper has to catch up.
        Err(Stop::Refused(text)) if text.starts_with("BUSY") => drop(table.run_maintenance(5_000)),
        Err(stop) => panic!("{stop:?}"),
    }
}

/// Takes a snapshot and reads all of it, unless another thread has one, or there is no memory for it.
fn take_snapshot(table: &Table, draw: &mut Draw) -> Result<(), Stop> {
    let mut patience = draw.below(20);
    let begun = table.snapshot(&mut || {
        patience = patience.saturating_sub(1);
        patience > 0
    });
    let Ok(snapshot) = begun else { return Ok(()) };
    while let Some((_, items)) = snapshot.advance()? {
        for item in &items {
            if let Some(found) = snapshot.found(item)? {
                string::contiguous(&snapshot.view(), &found.value)?;
            }
        }
    }
    Ok(())
}

fn set(txn: &Txn<'_>, db: u16, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> Result<(), Stop> {
    txn.write(
        db,
        key,
        &New { expiry_ms, ..New::of(Kind::String, string::make(txn, value)?) },
        Replaces::Whole,
    )
}

fn edit(txn: &Txn<'_>, db: u16, key: &[u8], offset: u64, bytes: &[u8]) -> Result<(), Stop> {
    let Some(found) = txn.find(db, key)? else { return Ok(()) };
    let mut draft = Draft::of(&found.value);
    draft.write(txn, offset, bytes)?;
    txn.write(db, key, &New { value: draft.value(), ..New::from(found) }, Replaces::Edited)
}

fn rename(txn: &Txn<'_>, db: u16, key: &[u8], other: &[u8]) -> Result<(), Stop> {
    let Some(found) = txn.find(db, key)? else { return Ok(()) };
    if key == other {
        return Ok(());
    }
    let new = New::from(found);
    txn.remove(db, key, Replaces::Edited)?;
    txn.write(db, other, &new, Replaces::Whole)
}

/// Reads a key and all its bytes.
fn look(table: &Table, db: u16, key: &[u8]) {
    let txn = table.begin(Mode::Read).expect("a seat");
    match txn.find(db, key) {
        Ok(Some(found)) => {
            let bytes = string::contiguous(&txn, &found.value).expect("readable");
            assert!(matches!(found.value, Value::Tree(_)) || bytes.len() <= polder_values::PACKED_MAX);
        }
        Ok(None) | Err(Stop::Retry) => {}
        Err(stop) => panic!("{stop:?}"),
    }
}
