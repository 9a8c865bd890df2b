//! What the table's tests share: a segment of its own for each, verified and removed at its end.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod tier;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use polder_shm::{Segment, SegmentName, SegmentOptions};
use polder_table::{Effect, Found, Mode, New, Replaces, Stop, Table, Txn};
use polder_values::{Kind, Value, string};

/// What a change tells that is made without a change log.
pub fn untold<R>(_: &R, _: &mut Effect<'_>) {}

/// Numbers that a seed, which is not 0, decides.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// A segment for one test.
pub struct Place {
    pub name: SegmentName,
    pub table: Table,
    sound: bool,
}

impl Place {
    /// Makes an empty one.
    pub fn new() -> Place {
        Place::with_ceiling(1 << 30)
    }

    /// Makes an empty one in which keys lie in the same places in each run.
    pub fn with_known_secret() -> Place {
        let secret = std::array::from_fn(|byte| (byte as u8).wrapping_mul(97).wrapping_add(7));
        Place::made(|name| Segment::create_with_secret(name, &SegmentOptions::default(), &secret))
    }

    /// Makes an empty one that grows to at most this many bytes.
    pub fn with_ceiling(ceiling: u64) -> Place {
        let options = SegmentOptions { ceiling, ..SegmentOptions::default() };
        Place::made(|name| Segment::create(name, &options))
    }

    fn made<E: std::fmt::Debug>(make: impl Fn(&SegmentName) -> Result<Arc<Segment>, E>) -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let text =
            format!("shm:polder-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let name: SegmentName = text.parse().expect("a name");
        let table = Table::over(make(&name).expect("a segment"));
        Place { name, table, sound: true }
    }

    /// Runs a transaction until it is done.
    pub fn run<R>(&self, call: impl Fn(&Txn<'_>) -> Result<R, Stop>) -> R {
        run(&self.table, call)
    }

    /// Sets a packed string.
    pub fn set(&self, db: u16, key: &[u8], value: &[u8], expiry_ms: Option<u64>) {
        self.run(|txn| {
            let mut new = New::of(Kind::String, Value::Packed(value));
            new.expiry_ms = expiry_ms;
            txn.declare(&[(db, key)])?;
            txn.write(db, key, &new, Replaces::Whole)
        });
    }

    /// Sets a string of any length.
    pub fn set_string(&self, db: u16, key: &[u8], value: &[u8]) {
        self.run(|txn| {
            txn.write(db, key, &New::of(Kind::String, string::make(txn, value)?), Replaces::Whole)
        });
    }

    /// The string of a key.
    pub fn get(&self, db: u16, key: &[u8]) -> Option<Vec<u8>> {
        get(&self.table, db, key)
    }

    /// Removes a key.
    pub fn remove(&self, db: u16, key: &[u8]) -> bool {
        self.run(|txn| txn.remove(db, key, Replaces::Whole))
    }

    /// Keys of a database.
    pub fn keys(&self, db: u16) -> u64 {
        self.table.begin(Mode::Read).expect("a seat").keys(db)
    }
}

/// Tells the other threads to end when its own does, also by a panic: a failed test must not run for ever.
pub struct Ends<'e>(pub &'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Place {
    /// Removes it unverified: it was damaged on purpose.
    pub fn abandon(mut self) {
        self.sound = false;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.sound && !std::thread::panicking() {
            let report = self.table.verify().expect("a seat");
            assert!(report.is_clean(), "{report}");
        }
        let _ = Segment::remove(&self.name);
    }
}

/// Runs a writing transaction until it is done.
pub fn run<R>(table: &Table, call: impl Fn(&Txn<'_>) -> Result<R, Stop>) -> R {
    run_as(table, Mode::Write, call)
}

/// Runs a writing transaction of one key, which it foresees, until it is done.
pub fn run_alone<R>(table: &Table, db: u16, key: &[u8], call: impl Fn(&Txn<'_>) -> Result<R, Stop>) -> R {
    let location = table.location(db, key);
    let mut txn = table.begin(Mode::Write).expect("a seat");
    if let Some(location) = &location {
        txn.foresee(key, location);
    }
    loop {
        let outcome = txn.declare(&[(db, key)]).and_then(|()| call(&txn));
        match outcome.and_then(|outcome| txn.commit().map(|()| outcome)) {
            Ok(outcome) => return outcome,
            Err(Stop::Retry) => txn.abort(),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

/// Runs a transaction until it is done.
pub fn run_as<R>(table: &Table, mode: Mode, call: impl Fn(&Txn<'_>) -> Result<R, Stop>) -> R {
    try_run_as(table, mode, call).unwrap_or_else(|stop| panic!("{stop:?}"))
}

/// Runs a transaction until it is done or refused.
pub fn try_run_as<R>(
    table: &Table,
    mode: Mode,
    call: impl Fn(&Txn<'_>) -> Result<R, Stop>,
) -> Result<R, Stop> {
    let mut txn = table.begin(mode)?;
    loop {
        match call(&txn).and_then(|outcome| txn.commit().map(|()| outcome)) {
            Err(Stop::Retry) => txn.abort(),
            Err(Stop::Cold) => txn = fetch(table, txn, mode),
            done => return done,
        }
    }
}

/// Brings back the values that a transaction wants, and begins another one.
fn fetch<'t>(table: &'t Table, txn: Txn<'t>, mode: Mode) -> Txn<'t> {
    txn.abort();
    let wanted = txn.take_cold();
    drop(txn);
    tier::fetch(table, &wanted);
    table.begin(mode).expect("a seat")
}

/// The string of a key.
pub fn get(table: &Table, db: u16, key: &[u8]) -> Option<Vec<u8>> {
    let mut txn = table.begin(Mode::Read).expect("a seat");
    loop {
        let outcome = txn.find(db, key).and_then(|found| match found {
            Some(Found { value, .. }) => Ok(Some(string::contiguous(&txn, &value)?.into_owned())),
            None => Ok(None),
        });
        match outcome.and_then(|value| txn.commit().map(|()| value)) {
            Ok(value) => return value,
            Err(Stop::Retry) => txn.abort(),
            Err(Stop::Cold) => txn = fetch(table, txn, Mode::Read),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}
