//! More strings than memory: values leave for RocksDB and come back, whichever server has the tier.
use std::collections::BTreeSet;

use std::time::Duration;

use polder_engine::Stop;
use polder_testbase::until;
use polder_testkit::answer::Answer;
use polder_testkit::logs::{World, ask};
use polder_testkit::replicas::figure;
use polder_testkit::resp::Connection;

const KEYS: usize = 40_000;
const MAXMEMORY: u64 = 24 << 20;
const FLAGS: [&str; 6] = ["--swap-mode", "disk", "--maxmemory", "24mb", "--swap-threads", "2"];

/// Looks for RocksDB's library; without it the test says so and passes.
pub fn has_rocksdb() -> bool {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let has = |folder: &std::path::Path| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("librocksdb.so."))
    };
    let found = folders.into_iter().any(|folder| has(&folder.path()));
    if !found {
        println!("RocksDB's library is missing (xtask/needs.sh build): left out");
    }
    found
}

fn value(number: usize) -> String {
    format!("{number}-").repeat(1024 / (number.to_string().len() + 1))
}

/// A number of a line of INFO, or the one behind `name=` in it.
fn told(connection: &mut Connection, (section, line): (&str, &str), name: &str) -> u64 {
    let text = figure(connection, section, line);
    let found = match name {
        "" => Some(&*text),
        _ => text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')),
    };
    found.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{line}: {text}"))
}

/// Writes the keys, and returns the most memory that was seen.
fn fill(connection: &mut Connection) -> u64 {
    let mut most = 0;
    for number in 0..KEYS {
        let set = connection.call(&["SET", &format!("k:{number}"), &value(number)]);
        assert_eq!(set.expect("a reply"), Answer::Status("OK".into()));
        if number % 2_000 == 0 {
            most = most.max(told(connection, ("memory", "used_memory"), ""));
        }
    }
    most
}

fn read_back(connection: &mut Connection, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let got = connection.call(&["GET", &format!("k:{number}")]).expect("a reply");
        assert_eq!(got, Answer::Bulk(value(number).into_bytes()), "k:{number}");
    }
}

#[test]
fn strings_beyond_maxmemory_lie_in_rocksdb_and_outlive_the_process_that_has_it() {
    if !has_rocksdb() {
        return;
    }
    let world = World::new("tier");
    let (mut server, mut connection) = world.serve(&FLAGS);
    let most = fill(&mut connection);
    assert!(most <= MAXMEMORY / 100 * 105, "{most} bytes");
    assert_eq!(ask(&mut connection, "DBSIZE"), format!("(integer) {KEYS}"));
    assert!(told(&mut connection, ("keyspace", "db0"), "evicts") > KEYS as u64 / 4);
    read_back(&mut connection, (0..KEYS).step_by(7));
    // A value that is written over, deleted or appended to is as ever.
    assert_eq!(ask(&mut connection, "SET k:1 new"), "OK");
    assert_eq!(ask(&mut connection, "DEL k:2 k:3"), "(integer) 2");
    assert_eq!(ask(&mut connection, "APPEND k:4 x"), format!("(integer) {}", value(4).len() + 1));
    // Another server on the memory serves the same keys, and goes on when the first has died.
    let (_second, mut other) = world.serve(&FLAGS);
    read_back(&mut other, (5..KEYS).step_by(11));
    // Typed calls of a program wait for values, too.
    let memory = std::sync::Arc::new(world.attach().expect("the memory"));
    for number in (8..KEYS).step_by(997) {
        let got = memory.database(0).get(format!("k:{number}")).expect("it comes");
        assert_eq!(got.as_deref(), Some(value(number).as_bytes()), "k:{number}");
    }
    // Those that do not wait find them when they are made again.
    let hurried = memory.database(0).impatient(Duration::from_micros(100));
    for number in (9..KEYS).step_by(1_997) {
        until("the value has come", || match hurried.strlen(format!("k:{number}")) {
            Err(Stop::Busy) => false,
            length => length.expect("it comes") == value(number).len() as u64,
        });
    }
    server.kill();
    read_back(&mut other, (6..KEYS).step_by(13));
    assert_eq!(ask(&mut other, "GET k:1"), "\"new\"");
    assert_eq!(ask(&mut other, "EXISTS k:2 k:3"), "(integer) 0");
}

/// Writes `keys` values by calls of 50.
fn fill_quickly(connection: &mut Connection, keys: usize) {
    for first in (0..keys).step_by(50) {
        let words = (first..first + 50).flat_map(|number| [format!("k:{number}"), value(number)]);
        let call: Vec<String> = std::iter::once("MSET".into()).chain(words).collect();
        assert_eq!(connection.call(&call).expect("a reply"), Answer::Status("OK".into()));
    }
}

fn names(answer: Answer) -> BTreeSet<String> {
    let Answer::Array(items) = answer else { panic!("{answer:?}") };
    let name = |item: Answer| match item {
        Answer::Bulk(name) => String::from_utf8(name).expect("ASCII"),
        other => panic!("{other:?}"),
    };
    items.into_iter().map(name).collect()
}

#[test]
fn calls_that_show_keys_leave_values_in_rocksdb() {
    if !has_rocksdb() {
        return;
    }
    const KEYS: usize = 20_000;
    let world = World::new("tier-names");
    let (_server, mut connection) =
        world.serve(&["--swap-mode", "disk", "--maxmemory", "12mb", "--swap-threads", "2"]);
    fill_quickly(&mut connection, KEYS);
    let all: BTreeSet<String> = (0..KEYS).map(|number| format!("k:{number}")).collect();
    let fetches = |connection: &mut Connection| told(connection, ("swap", "tier_fetches"), "");
    let before = fetches(&mut connection);
    assert!(told(&mut connection, ("keyspace", "db0"), "evicts") > KEYS as u64 / 2);
    assert_eq!(names(connection.call(&["KEYS", "*"]).expect("a reply")), all);
    assert_eq!(
        connection.call(&["EVAL", "return #redis.call('KEYS', 'k:1*')", "0"]).expect("a reply"),
        Answer::Integer(11_111)
    );
    let (mut cursor, mut scanned) = ("0".to_string(), BTreeSet::new());
    loop {
        let step = connection.call(&["SCAN", &cursor, "COUNT", "300", "TYPE", "string"]).expect("a reply");
        let Answer::Array(mut parts) = step else { panic!("{step:?}") };
        scanned.extend(names(parts.pop().expect("keys")));
        let Some(Answer::Bulk(next)) = parts.pop() else { panic!("a cursor") };
        cursor = String::from_utf8(next).expect("a number");
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(scanned, all);
    assert_eq!(ask(&mut connection, "MULTI"), "OK");
    (0..100).for_each(|_| assert_eq!(ask(&mut connection, "RANDOMKEY"), "QUEUED"));
    let drawn = names(connection.call(&["EXEC"]).expect("a reply"));
    assert!(drawn.len() > 50 && drawn.is_subset(&all), "{drawn:?}");
    assert_eq!(fetches(&mut connection), before);
    // A program in another process is told names, too.
    let memory = std::sync::Arc::new(world.attach().expect("the memory"));
    let mut caller = polder_engine::Caller::new(&memory);
    let answer = caller.run(&["KEYS", "*"]).expect("it ends");
    let Some(polder_engine::Item::Array(keys)) = answer.items().next() else { panic!("an array") };
    assert_eq!(keys.count(), KEYS);
}

#[test]
fn calls_of_a_pipeline_and_keys_of_one_call_ask_for_their_values_together() {
    if !has_rocksdb() {
        return;
    }
    const KEYS: usize = 20_000;
    let world = World::new("tier-together");
    let (_server, mut connection) =
        world.serve(&["--swap-mode", "disk", "--maxmemory", "12mb", "--swap-threads", "2"]);
    fill_quickly(&mut connection, KEYS);
    let asks = |connection: &mut Connection| told(connection, ("swap", "tier_asks"), "");
    let (begun, fetched) = (asks(&mut connection), told(&mut connection, ("swap", "tier_fetches"), ""));
    for first in (0..KEYS / 2).step_by(64) {
        (first..first + 64)
            .for_each(|number| connection.send(&["GET", &format!("k:{number}")]).expect("sent"));
        for number in first..first + 64 {
            assert_eq!(
                connection.receive().expect("a reply"),
                Answer::Bulk(value(number).into_bytes()),
                "{number}"
            );
        }
    }
    for (first, how) in (KEYS / 2..KEYS).step_by(100).zip(["MGET", "EXEC", "EVAL"].into_iter().cycle()) {
        let keys: Vec<String> = (first..first + 100).map(|number| format!("k:{number}")).collect();
        let values: Vec<Answer> =
            (first..first + 100).map(|number| Answer::Bulk(value(number).into_bytes())).collect();
        let reply = match how {
            "MGET" => connection.call(&[&["MGET".to_string()], &keys[..]].concat()),
            "EVAL" => {
                let head = ["EVAL", "return redis.call('MGET', unpack(KEYS))", "100"].map(str::to_string);
                connection.call(&[&head[..], &keys[..]].concat())
            }
            _ => {
                assert_eq!(ask(&mut connection, "MULTI"), "OK");
                keys.iter().for_each(|key| assert_eq!(ask(&mut connection, &format!("GET {key}")), "QUEUED"));
                connection.call(&["EXEC"])
            }
        };
        assert_eq!(reply.expect("a reply"), Answer::Array(values), "{how}");
    }
    let (asks, fetched) =
        (asks(&mut connection) - begun, told(&mut connection, ("swap", "tier_fetches"), "") - fetched);
    assert!(fetched > 2_000 && asks * 8 < fetched, "{fetched} values by {asks} messages");
}
