//! Entries that this program cannot read: there is no such kind, which a test writes into the segment; or their values lie in a tier that no process has.
//! Every command on such a key fails with an error that says so, changes nothing, and leaves the other keys alone.

use std::sync::Arc;
use std::time::Duration;

use polder_engine::{Caller, Memory, Options, Stop};
use polder_table::Snapshot;
use polder_table::bucket::{BUCKET_BYTES, UNITS_AT};
use polder_table::entry::{COLD, KIND, UNIT_BYTES};

/// A memory of its own, removed at the end.
struct Scratch(Arc<Memory>, String);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.1);
    }
}

/// The keys: one whose value lies inline, one with a record, one with a tree.
const KEYS: [&str; 3] = ["inline", "record", "tree"];

/// A kind that there is not, not even of a stub.
const UNKNOWN: u8 = COLD;

/// What they hold.
fn value(key: &str) -> String {
    match key {
        "inline" => "value".into(),
        "record" => "v".repeat(100),
        _ => "v".repeat(100_000),
    }
}

impl Scratch {
    fn new(name: &str) -> (Scratch, Caller) {
        let segment = format!("shm:polder-unreadable-{name}-{}", std::process::id());
        let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
        let scratch = Scratch(Arc::new(Memory::attach(&options).expect("a segment")), segment);
        let mut caller = Caller::new(&scratch.0);
        for key in KEYS {
            caller.run(&["SET", key, &value(key)]).expect("room");
        }
        caller.run(&["SET", "other", "1"]).expect("room");
        (scratch, caller)
    }

    /// Where the second word of a key's entry lies, which begins with its kind.
    fn kind_at(&self, key: &str) -> u64 {
        let (table, segment) = (self.0.table(), self.0.table().segment());
        let found = table.inspect(0, key.as_bytes()).expect("readable").expect("there");
        let piece = segment.load(found.extent + 40) << 3;
        piece + UNITS_AT + found.bucket * BUCKET_BYTES + (found.unit * UNIT_BYTES) as u64 + 8
    }

    /// Gives a key's entry another kind; returns what puts it right.
    fn plant(&self, key: &str, kind: u8) -> impl Fn() {
        let (memory, at) = (Arc::clone(&self.0), self.kind_at(key));
        let word = memory.table().segment().load(at);
        memory.table().segment().store(at, word & !u64::from(KIND) | u64::from(kind));
        move || memory.table().segment().store(at, word)
    }
}

/// What reads, writes or removes a key `K`, or only asks whether it is there; and what shows all keys.
const COMMANDS: &str = "GET K, STRLEN K, EXISTS K, TYPE K, TTL K, DUMP K, GETRANGE K 0 1, OBJECT ENCODING K, \
    MGET other K, TOUCH K, LLEN K, SCARD K, SET K x, SET K x EX 100, SET K x NX, SETNX K x, \
    GETSET K x, APPEND K x, INCR K, INCRBYFLOAT K 1, SETRANGE K 1 x, SETBIT K 1 1, \
    MSET other 2 K x, DEL K, UNLINK K, DEL other K, GETDEL K, GETEX K PERSIST, EXPIRE K 100, \
    PERSIST K, RENAME K to, RENAME other K, COPY K to, COPY other K REPLACE, MOVE K 1, LPUSH K x, \
    HSET K f x, SADD K x, ZADD K 1 x, XADD K * f x, SORT K, BLPOP K 1, PFADD K x, WATCH K, \
    SCAN 0 COUNT 1000, KEYS *";

/// These commands, of a key; also from a script.
fn commands(key: &str) -> impl Iterator<Item = Vec<&str>> {
    let script = vec!["EVAL", "return redis.call('GET', KEYS[1])", "1", key];
    let words =
        move |text: &'static str| text.split(' ').map(|word| if word == "K" { key } else { word }).collect();
    COMMANDS.split(", ").map(words).chain([script])
}

#[test]
fn every_command_on_such_a_key_fails_and_changes_nothing() {
    let (scratch, mut caller) = Scratch::new("commands");
    for key in KEYS {
        // With a reference the kinds beside COLD are stubs, which say of another key where it belongs.
        let kinds = if key == "inline" { &[1 | COLD, 7 | COLD, UNKNOWN][..] } else { &[UNKNOWN] };
        for &kind in kinds {
            let says = "damaged";
            let put_right = scratch.plant(key, kind);
            for command in commands(key) {
                let outcome = caller.run(&command).map(|answer| format!("{:?}", answer.item()));
                let error = outcome.expect_err(&format!("kind {kind} of {key}: {}", command[0])).to_string();
                assert!(error.contains(says), "kind {kind} of {key}, {}: {error}", command[0]);
            }
            caller.run(&["MULTI"]).expect("none is open");
            caller.run(&["SET", "other", "2"]).expect("queued");
            caller.run(&["SET", key, "x"]).expect("queued");
            let executed = caller.run(&["EXEC"]).map(|answer| format!("{:?}", answer.item()));
            assert!(format!("{executed:?}").contains(says), "{executed:?}");
            let (db, name) = (scratch.0.database(0), key.as_bytes());
            let typed = [db.get(name).map(drop), db.set(name, b"x"), db.incrby(name, 1).map(drop)];
            for outcome in typed {
                assert!(outcome.expect_err("unreadable").to_string().contains(says), "kind {kind} of {key}");
            }
            put_right();
            assert_eq!(
                caller.run(&["GET", key]).expect("readable").item().bytes(),
                Some(value(key).as_bytes())
            );
            assert_eq!(caller.run(&["GET", "other"]).expect("readable").item().bytes(), Some(&b"1"[..]));
            assert_eq!(caller.run(&["DBSIZE"]).expect("counted").item().integer(), Some(4));
        }
    }
    let report = scratch.0.table().verify().expect("a seat");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn every_command_on_a_key_of_a_tier_without_a_process_says_so_and_changes_nothing() {
    let (scratch, mut caller) = Scratch::new("stub");
    let table = scratch.0.table();
    let victim = table.victim_of(0, b"record").expect("readable").expect("it has a record");
    assert!(table.spill(&victim).expect("free"));
    for command in commands("record") {
        let outcome = caller.run(&command).map(|answer| format!("{:?}", answer.item()));
        let error = outcome.expect_err(command[0]).to_string();
        assert!(error.contains("the tier of this memory"), "{}: {error}", command[0]);
    }
    let (db, name) = (scratch.0.database(0), b"record");
    for outcome in [db.get(name).map(drop), db.set(name, b"x"), db.incrby(name, 1).map(drop)] {
        assert!(outcome.expect_err("cold").to_string().contains("the tier of this memory"));
    }
    assert!(caller.run(&["INFO", "everything"]).is_ok());
    assert_eq!(caller.run(&["DBSIZE"]).expect("counted").item().integer(), Some(4));
    assert_eq!(caller.run(&["GET", "other"]).expect("readable").item().bytes(), Some(&b"1"[..]));
    assert!(
        table.install(0, victim.name, victim.parcel.as_deref().expect("it was not clean")).expect("free")
    );
    let back = caller.run(&["GET", "record"]).expect("readable");
    assert_eq!(back.item().bytes(), Some(value("record").as_bytes()));
    let report = table.verify().expect("a seat");
    assert!(report.is_clean(), "{report}");
}

/// Reads all that a snapshot shows.
fn walk(snapshot: &Snapshot<'_>) -> Result<(), Stop> {
    while let Some((_, items)) = snapshot.advance()? {
        items.iter().try_for_each(|item| snapshot.found(item).map(drop))?;
    }
    Ok(())
}

#[test]
fn the_tools_name_such_an_entry() {
    let (scratch, _) = Scratch::new("tools");
    let table = scratch.0.table();
    for key in KEYS {
        let put_right = scratch.plant(key, UNKNOWN);
        let report = table.verify().expect("a seat").to_string();
        assert!(report.contains("is of kind 8, which this program does not know"), "{report}");
        let inspected = table.inspect(0, key.as_bytes()).expect_err("unreadable").to_string();
        assert!(inspected.contains("damaged"), "{inspected}");
        let snapshot = table.snapshot(&mut || false).expect("no other");
        let failed = walk(&snapshot).expect_err("unreadable");
        assert!(failed.to_string().contains("damaged"), "{failed}");
        drop(snapshot);
        put_right();
    }
}

#[test]
fn keys_beside_such_an_entry_are_served_and_it_outlives_what_moves_entries() {
    let (scratch, mut caller) = Scratch::new("beside");
    let put_right = scratch.plant("record", UNKNOWN);
    for number in 0..20 {
        let key = format!("beside:{number}");
        caller.run(&["SET", &key, &key]).expect("room");
        assert_eq!(caller.run(&["GET", &key]).expect("readable").item().bytes(), Some(key.as_bytes()));
    }
    scratch.0.table().run_maintenance(10_000);
    put_right();
    assert_eq!(
        caller.run(&["GET", "record"]).expect("readable").item().bytes(),
        Some(value("record").as_bytes())
    );
}

/// Such an entry that has expired keeps no other from being removed, and has nothing tried over and over.
#[test]
fn what_expires_beside_such_an_entry_goes() {
    for kind in [UNKNOWN, 1 | COLD] {
        let (scratch, mut caller) = Scratch::new("expiring");
        let soon = ["inline", "record", "other", "tree"];
        for key in soon {
            caller.run(&["PEXPIRE", key, "1000"]).expect("set");
        }
        let put_right = ["inline", "record"].map(|key| scratch.plant(key, kind));
        std::thread::sleep(Duration::from_millis(1050));
        let table = scratch.0.table();
        let rests: Vec<u64> = (0..10).map(|_| table.run_maintenance(10_000)).collect();
        assert_eq!(table.keys(0).0, 2, "kind {kind}: {rests:?}");
        assert!(rests[9] > 1, "kind {kind}: {rests:?}");
        put_right.iter().for_each(|put_right| put_right());
    }
}
