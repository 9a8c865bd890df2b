//! More strings than memory: values leave for RocksDB and come back, whichever server has the tier.
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
    server.kill();
    read_back(&mut other, (6..KEYS).step_by(13));
    assert_eq!(ask(&mut other, "GET k:1"), "\"new\"");
    assert_eq!(ask(&mut other, "EXISTS k:2 k:3"), "(integer) 0");
}
