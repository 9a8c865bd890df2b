//! Items of memcached and arrays, of which stock servers do not know all: they load the log and pass over flags and arrays, and a memory that
//! reads it has flags, CAS, type, marks and arrays as they were.
use std::path::PathBuf;

use polder_testkit::answer::Answer;
use polder_testkit::logs::{World, ask, log_and_base_hold, memcached, rewrite, synced, until};
use polder_testkit::process::{free_port, more_peers, on_path};
use polder_testkit::replicas::catch_up;
use polder_testkit::resp::Connection;

/// Keys of any bytes.
const KEYS: [&[u8]; 4] = [b"plain", b"with blanks  5 x", b"lines\r\n\0\xff", b"polder:item 1 - - 0  k"];

/// A call that succeeds.
fn call(connection: &mut Connection, words: &[&[u8]]) -> Answer {
    let answer = connection.call(words).expect("a reply");
    assert!(!matches!(answer, Answer::Error(_)), "{}", answer.shown());
    answer
}

fn of(key: &[u8], name: &str) -> Vec<u8> {
    [key, b":", name.as_bytes()].concat()
}

/// Items with everything that one may have, made in every way.
fn store(connection: &mut Connection, key: &[u8]) {
    let (value, of) = (b"value\r\n\0\xff", |name: &str| of(key, name));
    let mut call = |words: &[&[u8]]| drop(call(connection, words));
    call(&[b"ITEM.SET", &of("plain"), value]);
    call(&[b"ITEM.SET", &of("flags"), value, b"FLAGS", b"4294967295"]);
    call(&[b"ITEM.CAT", &of("flags"), b"more", b"PREPEND"]);
    call(&[b"APPEND", &of("flags"), b"more"]);
    call(&[b"ITEM.SET", &of("lives"), value, b"FLAGS", b"5", b"EX", b"1000"]);
    let all = [&b"ITEM.SET"[..], &of("all"), value, b"FLAGS", b"5", b"NEWCAS", b"18446744073709551615"];
    call(&[&all[..], &[b"TYPE", b"text/html; a=b", b"EX", b"1000"]].concat());
    call(&[b"ITEM.SET", &of("stale"), value, b"NEWCAS", b"7"]);
    call(&[b"ITEM.DEL", &of("stale"), b"STALE", b"NEWCAS", b"8"]);
    call(&[b"ITEM.SET", &of("won"), value, b"FLAGS", b"5", b"EX", b"1000"]);
    call(&[b"ITEM.GAT", &of("won"), b"RECACHE", b"3000"]);
    call(&[b"ITEM.SET", &of("touched"), value, b"FLAGS", b"5", b"EX", b"10"]);
    call(&[b"ITEM.GAT", &of("touched"), b"EX", b"2000"]);
    call(&[b"ITEM.SET", &of("kept"), value, b"FLAGS", b"5", b"EX", b"10"]);
    call(&[b"ITEM.EXP", &of("kept"), b"PERSIST"]);
    call(&[b"ITEM.GAT", &of("vivid"), b"VIVIFY", b"2000"]);
    call(&[b"ITEM.SET", &of("number"), b"1", b"FLAGS", b"6"]);
    call(&[b"ITEM.INC", &of("number"), b"41"]);
    call(&[b"INCRBYFLOAT", &of("number"), b"0.5"]);
    call(&[b"ITEM.SET", &of("bare"), value, b"FLAGS", b"5", b"NEWCAS", b"7", b"TYPE", b"a/b"]);
    call(&[b"SET", &of("bare"), value]);
    call(&[b"MULTI"]);
    call(&[b"ITEM.SET", &of("inside"), value, b"FLAGS", b"5"]);
    call(&[b"ITEM.SET", &of("inside"), value, b"FLAGS", b"6", b"NEWCAS", b"9"]);
    call(&[b"EXEC"]);
    call(&[b"EVAL", b"return redis.call('ITEM.SET', KEYS[1], 'v', 'FLAGS', '8')", b"1", &of("script")]);
    call(&[b"RPUSH", &of("list"), b"a"]);
    call(&[b"ITEM.EXP", &of("list"), b"EX", b"1000"]);
    // Calls that share a commit.
    for flags in ["1", "2", "3"] {
        connection.send(&[b"ITEM.SET", &of("joined")[..], b"v", b"FLAGS", flags.as_bytes()]).expect("sent");
    }
    (0..3).for_each(|_| drop(connection.receive().expect("a reply")));
}

/// All keys, with value and expiry, as any server shows them.
fn values(connection: &mut Connection) -> Vec<String> {
    let Answer::Array(keys) = call(connection, &[b"KEYS", b"*"]) else { panic!("KEYS replies an array") };
    let mut found = Vec::new();
    for key in keys {
        let Answer::Bulk(key) = key else { panic!("a key is a string") };
        let value = match call(connection, &[b"TYPE", &key]) {
            Answer::Status(kind) if kind == "string" => call(connection, &[b"GET", &key]),
            _ => call(connection, &[b"LRANGE", &key, b"0", b"-1"]),
        };
        let expires = call(connection, &[b"PEXPIRETIME", &key]);
        found.push(format!("{} {} {}", key.escape_ascii(), value.shown().trim(), expires.shown().trim()));
    }
    found.sort();
    found
}

/// What items have beside value and expiry: all of it, but a CAS only where one was chosen.
fn marks(connection: &mut Connection) -> Vec<String> {
    let mut found = Vec::new();
    for key in KEYS {
        for (name, is_chosen) in [
            ("plain", false),
            ("flags", false),
            ("lives", false),
            ("all", true),
            ("stale", true),
            ("won", false),
            ("touched", false),
            ("kept", false),
            ("vivid", false),
            ("number", false),
            ("bare", false),
            ("inside", true),
            ("script", false),
            ("joined", false),
        ] {
            let Answer::Array(mut shown) = call(connection, &[b"ITEM.GET", &of(key, name), b"HEAD"]) else {
                panic!("{name} of {} is no item", key.escape_ascii())
            };
            // The expiry is compared elsewhere, to the millisecond.
            shown.drain(4..6);
            if !is_chosen {
                shown.drain(2..4);
            }
            found.push(format!("{} {name} {}", key.escape_ascii(), Answer::Array(shown).shown()));
        }
    }
    found
}

/// The servers of others that are here.
fn others() -> Vec<(String, PathBuf)> {
    let stock = on_path("redis-server").map(|program| ("redis-server".to_owned(), program));
    let is_server = |(name, _): &(String, PathBuf)| name.starts_with("redis") || name.starts_with("valkey");
    stock.into_iter().chain(more_peers().into_iter().filter(is_server)).collect()
}

/// Has a server of others load the log: it must have these values.
fn load_elsewhere(world: &World, (name, program): &(String, PathBuf), expected: &[String]) {
    let (_server, mut connection) = world.place.start(program, &["--appendfsync", "no"]);
    until("it has loaded the log", || {
        !matches!(connection.call(&["DBSIZE"]).expect("a reply"), Answer::Error(_))
    });
    assert_eq!(values(&mut connection), expected, "{name}");
}

#[test]
fn stock_servers_load_a_log_with_items_which_are_whole_when_it_is_read_again() {
    let world = World::new("items");
    let port = free_port().expect("a port").to_string();
    let flags = ["--appendonly", "yes", "--memcache-port", &port, "--memcache-bind", "127.0.0.1"];
    let (mut server, mut connection) = world.serve(&flags);
    // What follows stands behind the base, in one file.
    rewrite(&mut connection);
    KEYS.iter().for_each(|key| store(&mut connection, key));
    let lines = "set m 5 1000 1\r\nv\r\nmg q N30 v\r\nflush_all 100000\r\n";
    assert_eq!(memcached(&port, lines, 4), "STORED\r\nVA 0 W\r\n\r\nOK\r\n");
    let (expected, items) = (values(&mut connection), marks(&mut connection));
    let taken = || memcached(&port, "mg plain:won\r\nmg plain:vivid\r\nmg plain:plain\r\nmg q\r\n", 4);
    assert_eq!(taken(), "HD Z\r\nHD Z\r\nHD\r\nHD Z\r\n");
    synced(&mut connection);
    server.kill();
    let log = std::fs::read(log_file(&world)).expect("the log");
    let has = |text: &[u8]| log.windows(text.len()).any(|bytes| bytes == text);
    assert!(has(b"polder:item 5 - - 0  m") && has(b"polder:flush ") && !has(b"ITEM."));
    // They append to the log.
    others().iter().for_each(|other| load_elsewhere(&world, other, &expected));
    std::fs::write(log_file(&world), log).expect("as it was");
    world.lose_segment();
    (server, connection) = world.serve(&flags);
    assert_eq!(taken(), "HD Z\r\nHD Z\r\nHD\r\nHD Z\r\n");
    assert_eq!(marks(&mut connection), items);
    assert_eq!(values(&mut connection), expected);
    // The base, an RDB file, has them, too.
    rewrite(&mut connection);
    synced(&mut connection);
    server.kill();
    world.lose_segment();
    let (_server, mut connection) = world.serve(&flags);
    assert_eq!((marks(&mut connection), values(&mut connection)), (items, expected));
}

/// The incremental file that is written last.
fn log_file(world: &World) -> PathBuf {
    let folder = world.place.folder();
    let manifest = folder.load().expect("readable").expect("a manifest");
    folder.path_of(manifest.increments.last().expect("an incremental file"))
}

#[test]
fn wherever_a_log_ends_an_item_is_whole_or_not_there() {
    let world = World::new("items-torn");
    let (mut server, mut connection) = world.with_log();
    // What follows stands behind the base, in one file.
    rewrite(&mut connection);
    connection.send(&["ITEM.SET", "a", "v", "FLAGS", "5"]).expect("sent");
    connection.send(&["ITEM.SET", "a", "w", "FLAGS", "6", "EX", "1000"]).expect("sent");
    (0..2).for_each(|_| drop(connection.receive().expect("a reply")));
    synced(&mut connection);
    server.kill();
    let folder = world.place.folder().path;
    let files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.clone(), std::fs::read(path).expect("a file")))
        .collect();
    let (path, whole) = (log_file(&world), std::fs::read(log_file(&world)).expect("the log"));
    let begin = whole.windows(5).position(|bytes| bytes == b"MULTI").expect("a transaction");
    let mut seen = [false; 3];
    for end in (begin..=whole.len()).step_by(7).chain([whole.len()]) {
        // The server before has begun another file.
        std::fs::remove_dir_all(&folder).expect("removed");
        std::fs::create_dir(&folder).expect("a folder");
        files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).expect("as it was"));
        std::fs::write(&path, &whole[..end]).expect("cut");
        world.lose_segment();
        let (mut server, mut connection) = world.with_log();
        let (value, item) = (ask(&mut connection, "GET a"), ask(&mut connection, "ITEM.GET a HEAD"));
        let state = match &value[..] {
            "(nil)" => 0,
            "\"v\"" if item.contains("(integer) 5\n") => 1,
            "\"w\"" if item.contains("(integer) 6\n") => 2,
            _ => panic!("cut at byte {end}: {value}, {item}"),
        };
        seen[state] = true;
        server.kill();
    }
    assert_eq!(seen, [true; 3]);
}

#[test]
fn logs_of_the_time_before_items_were_told_by_echo_are_read() {
    let world = World::new("items-old");
    std::fs::create_dir_all(world.place.folder().path).expect("a folder");
    let text = "ITEM.SET a v FLAGS 5 NEWCAS 7 TYPE a/b PXAT 4102444800000\nITEM.DEL a STALE NEWCAS 8\nITEM.FLUSH PXAT 4102444800000";
    world
        .place
        .write(&[("appendonly.aof.1.base.aof", 'b', "SET b 1"), ("appendonly.aof.1.incr.aof", 'i', text)]);
    let (_server, mut connection) = world.with_log();
    let item = ask(&mut connection, "ITEM.GET a HEAD");
    for part in
        ["\"flags\"\n 2) (integer) 5", "\"cas\"\n 4) (integer) 8", "\"stale\"\n10) (integer) 1", "\"a/b\""]
    {
        assert!(item.contains(part), "{item}");
    }
}

/// Arrays with holes, a cursor behind the last value and one before it, and a ring that has gone round.
const ARRAYS: [&str; 9] = [
    "ARSET a 7 one two three",
    "ARMSET a 18446744073709551614 last 9 again",
    "ARDEL a 8",
    "ARINSERT log 1 2 3 4 5",
    "ARRING ring 3 a b c d e",
    "ARINSERT sought x y z",
    "ARSEEK sought 1000",
    "ARSET gone 1 x",
    "ARDELRANGE gone 9 0",
];

fn of_arrays(connection: &mut Connection) -> Vec<String> {
    let keys = ["a", "log", "ring", "sought"];
    let each = keys.iter().flat_map(|key| {
        ["ARSCAN {} 0 18446744073709551614", "ARNEXT {}", "DEBUG DIGEST-VALUE {}"]
            .map(|line| line.replace("{}", key))
    });
    each.chain(["EXISTS gone".into()]).map(|line| ask(connection, &line)).collect()
}

#[test]
fn arrays_reach_another_memory_and_come_back_from_logs_and_files() {
    let (world, other) = (World::new("follows-arrays"), World::new("follows-arrays-copy"));
    let (server, mut first) = world.serve(&["--enable-debug-command", "yes"]);
    let (_other_server, mut replica) = other.serve(&["--enable-debug-command", "yes"]);
    let make = |connection: &mut Connection| {
        ARRAYS.iter().for_each(|line| assert!(!ask(connection, line).starts_with("(error)"), "{line}"));
    };
    make(&mut first);
    assert_eq!(ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {}", server.port())), "OK");
    catch_up(&mut replica, &mut first);
    assert_eq!(of_arrays(&mut replica), of_arrays(&mut first), "by the copy");
    make(&mut first);
    for line in
        ["ARINSERT sought again", "ARRING ring 5 f", "COPY log other", "RENAME other renamed", "ARDEL log 2"]
    {
        assert!(!ask(&mut first, line).starts_with("(error)"), "{line}");
    }
    catch_up(&mut replica, &mut first);
    assert_eq!(of_arrays(&mut replica), of_arrays(&mut first), "by the stream");
    let there = of_arrays(&mut first);
    assert_eq!(ask(&mut first, "DEBUG RELOAD"), "OK");
    assert_eq!(of_arrays(&mut first), there, "by a file");
    ask(&mut first, "CONFIG SET rdb-version 12");
    assert!(ask(&mut first, "DUMP a").contains("cannot hold arrays"));
    let report = other.attach().expect("the memory").table().verify().expect("readable");
    assert!(report.findings.is_empty(), "{report}");
    log_and_base_hold("follows-arrays", &["--enable-debug-command", "yes"], make, of_arrays);
}
