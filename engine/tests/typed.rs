//! The typed calls: what a program without a server sees.

use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_engine::{Caller, Counter, Database, Expiry, Limits, Memory, Options, Policy, SetOptions, Stop};

/// A memory of its own, removed at the end.
struct Scratch(Memory, String);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let segment = format!("shm:polder-typed-{name}-{}", std::process::id());
        let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
        Scratch(Memory::attach(&options).expect("a segment"), segment)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.1);
    }
}

fn set_until(db: &Database<'_>, key: &[u8], value: &[u8], expiry_ms: u64) -> Result<(), Stop> {
    db.set_with(key, value, &SetOptions::new().expiry(Expiry::at_ms(expiry_ms))).map(drop)
}

#[test]
fn strings_of_every_size_come_back() {
    let scratch = Scratch::new("sizes");
    let cache = scratch.0.database(0);
    for size in [0usize, 1, 30, 31, 60, 1_000, 8_192, 8_193, 100_000, 3_000_000] {
        let value: Vec<u8> = (0..size).map(|at| at as u8).collect();
        cache.set(b"key", &value).expect("room");
        assert_eq!(cache.get(b"key").expect("readable"), Some(value), "{size} bytes");
    }
    assert_eq!(cache.del(&[b"key"]), Ok(1));
    assert_eq!(cache.get(b"key").expect("readable"), None);
    assert_eq!(cache.del(&[b"key"]), Ok(0));
}

#[test]
fn numbers_add_up_and_keep_their_expiry() {
    let scratch = Scratch::new("numbers");
    let cache = scratch.0.database(3);
    assert_eq!(cache.incrby(b"n", 5).expect("a number"), 5);
    assert_eq!(cache.incrby(b"n", -7).expect("a number"), -2);
    cache.set(b"text", b"words").expect("room");
    assert!(matches!(cache.incrby(b"text", 1), Err(Stop::Refused(_))));
    let soon = polder_base::time::now_ms() + 400;
    set_until(&cache, b"brief", b"1", soon).expect("room");
    assert_eq!(cache.incrby(b"brief", 1).expect("a number"), 2);
    std::thread::sleep(std::time::Duration::from_millis(420));
    assert_eq!(cache.get(b"brief").expect("readable"), None);
}

#[test]
fn a_refused_transaction_leaves_nothing_behind() {
    let scratch = Scratch::new("refused");
    let cache = scratch.0.database(0);
    cache.set(b"a", b"1").expect("room");
    let outcome = cache.transaction(&[b"a", b"b"], |keys| {
        keys.set(b"a", b"2")?;
        keys.set(b"b", [7; 500])?;
        assert_eq!(keys.get(b"a")?, Some(b"2".to_vec()));
        Err::<(), Stop>("ERR changed my mind".into())
    });
    assert!(outcome.is_err());
    assert_eq!(cache.get(b"a").expect("readable"), Some(b"1".to_vec()));
    assert_eq!(cache.get(b"b").expect("readable"), None);
}

#[test]
fn batches_show_what_single_calls_show() {
    let scratch = Scratch::new("batches");
    let cache = scratch.0.database(0);
    let keys: Vec<Vec<u8>> = (0..1_000u32).map(|number| format!("key:{number}").into_bytes()).collect();
    let values: Vec<Vec<u8>> = (0..1_000usize).map(|number| vec![number as u8; number % 200]).collect();
    let pairs: Vec<(&[u8], &[u8])> =
        keys.iter().zip(&values).map(|(key, value)| (&key[..], &value[..])).collect();
    cache.set_batch(&pairs).expect("room");
    let mut wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    wanted.push(b"absent");
    let mut seen = 0;
    cache
        .read_batch(&wanted, |at, value| {
            assert_eq!(value, values.get(at).map(|value| &value[..]));
            seen += 1;
        })
        .expect("readable");
    assert_eq!(seen, 1_001);
}

#[test]
fn the_memory_limit_binds_typed_calls_but_taking_away_is_never_refused() {
    let scratch = Scratch::new("limit");
    let cache = scratch.0.database(0);
    cache.set(b"key", b"1").expect("room");
    let table = scratch.0.table();
    table.set_limits(polder_engine::Limits { memory_max: 1, ..table.limits() });
    for refused in [
        cache.set(b"key", b"2"),
        set_until(&cache, b"key", b"2", u64::MAX),
        cache.incrby(b"key", 1).map(drop),
    ] {
        assert!(matches!(refused, Err(Stop::Refused(text)) if text.starts_with("OOM ")));
    }
    assert_eq!(cache.get(b"key").expect("readable"), Some(b"1".to_vec()));
    assert_eq!(cache.del(&[b"key"]), Ok(1));
}

#[test]
fn every_way_to_write_a_string_is_a_change_and_leaves_what_was_set() {
    let scratch = Scratch::new("ways");
    let (cache, table) = (scratch.0.database(0), scratch.0.table());
    for key_len in [0usize, 1, 2, 3, 4, 5, 12, 16, 30] {
        let key = vec![b'k'; key_len];
        // New, of the same size, longer and shorter within the same entry, too large for it, and inline again.
        for size in [3usize, 3, 4, 1, 9, 2, 20, 21, 19, 200, 5, 0, 1] {
            let (value, before) = (vec![b'0' + size as u8 % 10; size], table.changes());
            cache.set(&key, &value).expect("room");
            assert_eq!(table.changes(), before + 1, "a key of {key_len}, a value of {size} bytes");
            assert_eq!(cache.get(&key).expect("readable"), Some(value), "a key of {key_len}");
        }
    }
}

#[test]
fn typed_calls_wait_for_the_end_of_a_pause() {
    let scratch = Arc::new(Scratch::new("paused"));
    let memory = Arc::new(
        Memory::attach(&Options { segment: scratch.1.clone(), ..Options::default() }).expect("attached"),
    );
    let mut caller = Caller::new(&memory);
    scratch.0.database(0).set(b"k", b"v").expect("room");
    for (mode, reads) in [("WRITE", true), ("ALL", false)] {
        caller.run(&["CLIENT", "PAUSE", "60000", mode]).expect("paused");
        let impatient = scratch.0.database(0).impatient(Duration::ZERO);
        assert_eq!(impatient.get(b"k").is_ok(), reads);
        let refused =
            [impatient.set(b"k", b"w").err(), impatient.incrby(b"n", 1).err(), impatient.del(&[b"k"]).err()];
        assert_eq!(refused, [const { Some(Stop::Busy) }; 3]);
        let (said, heard) = std::sync::mpsc::channel();
        let (other, begun) = (scratch.clone(), Instant::now());
        let waiter = std::thread::spawn(move || {
            said.send(other.0.database(0).set(b"k", b"v")).expect("the test waits")
        });
        assert!(heard.recv_timeout(Duration::from_millis(100)).is_err());
        // No waiting thread could end the pause.
        polder_hub::query::unpause(memory.table());
        assert_eq!(heard.recv_timeout(Duration::from_secs(20)), Ok(Ok(())));
        assert!(begun.elapsed() < Duration::from_secs(20));
        waiter.join().expect("an end");
    }
}

#[test]
fn typed_calls_alone_run_maintenance() {
    let scratch = Scratch::new("maintenance");
    let cache = scratch.0.database(0);
    let soon = polder_base::time::now_ms() + 20;
    (0..2_000u32).for_each(|number| set_until(&cache, &number.to_le_bytes(), b"brief", soon).expect("room"));
    cache.set(b"lasting", b"v").expect("room");
    let begun = Instant::now();
    // No call touches these keys.
    while scratch.0.table().counter(Counter::Expired) < 2_000 {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{} are gone",
            scratch.0.table().counter(Counter::Expired)
        );
        assert!(cache.read(b"lasting", |value| value.is_some()).expect("readable"));
    }
}

#[test]
fn nothing_expires_or_is_evicted_during_a_pause() {
    let scratch = Scratch::new("still");
    let (cache, table) = (scratch.0.database(0), scratch.0.table());
    (500..4_000u32).for_each(|number| cache.set(number.to_le_bytes(), [1; 1000]).expect("room"));
    let soon = polder_base::time::now_ms() + 100;
    (0..500u32).for_each(|number| set_until(&cache, &number.to_le_bytes(), b"brief", soon).expect("room"));
    polder_hub::query::pause(table, soon + 600_000, true);
    // None, unless the machine is so slow.
    let expired = table.counter(Counter::Expired);
    table.set_limits(Limits { memory_max: 1 << 20, policy: Policy::AllkeysRandom, ..table.limits() });
    let paused = Instant::now();
    while paused.elapsed() < Duration::from_millis(400) {
        // An expired key is absent for readers, whether or not it was collected.
        let now = polder_base::time::now_ms();
        let brief = cache.read(7u32.to_le_bytes(), |value| value.is_some()).expect("readable");
        assert!(!brief || now <= soon + 20);
        table.run_maintenance(1_000);
    }
    assert_eq!((table.counter(Counter::Expired), table.counter(Counter::Evicted)), (expired, 0));
    polder_hub::query::unpause(table);
    while table.counter(Counter::Expired) < 500 || table.counter(Counter::Evicted) == 0 {
        assert!(paused.elapsed() < Duration::from_secs(20), "{}", table.counter(Counter::Expired));
        table.run_maintenance(1_000);
    }
}

/// Sees to it that every way to write a key that holds 1 is refused with a text that begins like this, and none to read it.
fn assert_refused(memory: &Memory, caller: &mut Caller, refusal: &str) {
    let cache = memory.database(0);
    let check = |way: &str, refused: Result<(), Stop>| {
        assert!(
            matches!(&refused, Err(Stop::Refused(text)) if text.starts_with(refusal)),
            "{way}: {refused:?}"
        );
    };
    assert!(caller.run(&["SET", "key", "2"]).unwrap_err().to_string().starts_with(refusal));
    check("set", cache.set(b"key", b"2"));
    check("set_with", set_until(&cache, b"key", b"2", u64::MAX >> 1));
    check("incrby", cache.incrby(b"key", 1).map(drop));
    check("del", cache.del(&[b"key"]).map(drop));
    check("set_batch", cache.set_batch(&[(b"key", b"2")]));
    assert!(!caller.set_quickly(b"key", b"2") && !caller.set_quickly(b"key", b"2"));
    check("set in a transaction", cache.transaction(&[b"key"], |keys| keys.set(b"key", b"2")));
    check("del in a transaction", cache.transaction(&[b"key"], |keys| keys.del(&[b"key"])).map(drop));
    assert_eq!(cache.transaction(&[b"key"], |keys| keys.get(b"key")), Ok(Some(b"1".to_vec())));
    assert_eq!(cache.get(b"key"), Ok(Some(b"1".to_vec())));
}

#[test]
fn short_calls_are_refused_their_writes_as_the_commands_are() {
    let scratch = Scratch::new("replicas");
    let memory = Arc::new(
        Memory::attach(&Options { segment: scratch.1.clone(), ..Options::default() }).expect("it is there"),
    );
    let cache = memory.database(0);
    let mut caller = Caller::new(&memory);
    cache.set(b"key", b"1").expect("room");
    caller.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]).expect("set");
    assert_refused(&memory, &mut caller, "NOREPLICAS Not enough good replicas to write.");
    caller.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]).expect("set");
    assert_eq!(cache.set(b"key", b"2"), Ok(()));
}

#[test]
fn short_calls_are_refused_their_writes_after_a_save_that_failed() {
    let scratch = Scratch::new("unsaved");
    // A directory stands where the file would be. No other test here uses files.
    let folder = std::env::temp_dir().join(format!("polder-unsaved-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("dump.rdb")).expect("a folder");
    std::env::set_current_dir(&folder).expect("it is there");
    let memory = Arc::new(
        Memory::attach(&Options { segment: scratch.1.clone(), ..Options::default() }).expect("it is there"),
    );
    let cache = memory.database(0);
    let mut caller = Caller::new(&memory);
    caller.run(&["CONFIG", "SET", "save", "1000000 1"]).expect("set");
    cache.set(b"key", b"1").expect("room");
    caller.run(&["SAVE"]).expect_err("it cannot be written");
    assert_refused(&memory, &mut caller, "MISCONF Redis is configured to save RDB snapshots");
    caller.run(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]).expect("set");
    assert_eq!(cache.set(b"key", b"1"), Ok(()));
    caller.run(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"]).expect("set");
    assert_refused(&memory, &mut caller, "MISCONF");
    // Once it is saved, all is well.
    std::fs::remove_dir(folder.join("dump.rdb")).expect("it is there");
    caller.run(&["SAVE"]).expect("saved");
    assert_eq!(cache.set(b"key", b"2"), Ok(()));
    std::fs::remove_dir_all(&folder).expect("it is there");
}
