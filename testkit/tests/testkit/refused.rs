//! Writes while the memory refuses them: each fails in the same words, whatever way it came, and nothing is changed, leaked or left locked.
use std::io::IoSlice;

use polder_base::Protocol;
use polder_engine::{Identity, Session, Stop};
use polder_testkit::answer::Answer;
use polder_testkit::caller::{Caller, Embedder};
use polder_testkit::logs::{World, ask, memcached};
use polder_testkit::process::free_port;
use polder_testkit::scratch::Scratch;
use polder_wire::Output;

const REFUSED: &str = "READONLY You can't write against a read only replica.";

/// Keys of all types.
const BEFORE: [&str; 9] = [
    "SET s 1",
    "SET expires 1 PX 100000",
    "SET long value-that-does-not-lie-inline-but-in-a-record-of-its-own-since-it-is-long",
    "RPUSH l a b",
    "HSET h f 1",
    "SADD t a",
    "ZADD z 1 a",
    "XADD x 1-1 f v",
    "ITEM.SET i v FLAGS 5 NEWCAS 7",
];

/// Writes by every way that a single call may take.
const WRITES: [&str; 38] = [
    "SET s 2",
    "SET new 1",
    "SET s 2 EX 100",
    "SETEX s 100 2",
    "MSET s 2 new 1",
    "MSETNX new 1 newer 1",
    "INCR s",
    "INCR new",
    "INCRBYFLOAT s 0.5",
    "APPEND s x",
    "SETRANGE s 3 x",
    "SETBIT s 6 1",
    "GETSET s 2",
    "GETDEL s",
    "GETEX s EX 100",
    "DEL s",
    "DEL s l h",
    "UNLINK s l",
    "EXPIRE s 100",
    "PERSIST expires",
    "APPEND long x",
    "LPUSH l x",
    "LPOP l",
    "LMOVE l l LEFT RIGHT",
    "HSET h f 2",
    "HINCRBY h f 1",
    "SADD t b",
    "SPOP t",
    "SUNIONSTORE u t",
    "ZADD z 2 a",
    "ZINCRBY z 1 a",
    "XADD x * f v",
    "RENAME s r",
    "COPY s r",
    "ITEM.SET i w",
    "ITEM.GAT i EX 100",
    "FLUSHALL",
    "SWAPDB 0 1",
];

fn embedded(scratch: &Scratch, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    Caller::new(7, Protocol::Resp2)
        .call(&scratch.embedder, &words)
        .expect("a reply")
        .shown()
        .trim_end()
        .to_owned()
}

fn digest(scratch: &Scratch) -> String {
    embedded(scratch, "DEBUG DIGEST")
}

/// A memory that refuses writes; with a change log or a snapshot beside it, or without.
fn refusing(is_logged: bool) -> Scratch {
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    if is_logged {
        table.log().turn_on().expect("a log");
    }
    for line in BEFORE {
        let said = embedded(&scratch, line);
        assert!(!said.contains("(error)"), "{line}: {said}");
    }
    table.refuse_writes(true);
    scratch
}

/// Nothing is left of what was refused, and writes go on.
fn check(scratch: &Scratch, before: &str) {
    let table = scratch.embedder.memory.table();
    assert_eq!(digest(scratch), before);
    table.run_maintenance(10_000);
    let report = table.verify().expect("readable");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    table.refuse_writes(false);
    for line in WRITES {
        let said = embedded(scratch, line);
        assert!(!said.contains("READONLY") && !said.contains("BUSY"), "{line}: {said}");
    }
}

#[test]
fn every_single_call_that_writes_is_refused() {
    for is_logged in [false, true] {
        let scratch = refusing(is_logged);
        let before = digest(&scratch);
        for line in WRITES {
            assert_eq!(embedded(&scratch, line), format!("(error) {REFUSED}"), "{line}");
        }
        for (line, reply) in [
            ("GET s", "\"1\""),
            ("LRANGE l 0 0", "1) \"a\""),
            ("DEL none", "(integer) 0"),
            ("EXISTS new", "(integer) 0"),
        ] {
            assert_eq!(embedded(&scratch, line), reply, "{line}");
        }
        check(&scratch, &before);
    }
}

#[test]
fn transactions_scripts_and_pipelines_are_refused_as_a_whole() {
    for is_logged in [false, true] {
        let scratch = refusing(is_logged);
        let before = digest(&scratch);
        let mut caller = Caller::new(1, Protocol::Resp2);
        let mut call = |words: &[&str]| caller.call(&scratch.embedder, words).expect("a reply");
        call(&["MULTI"]);
        ["GET s", "SET s 2", "LPUSH l x", "SET new 1"].iter().for_each(|line| {
            call(&line.split(' ').collect::<Vec<_>>());
        });
        assert_eq!(call(&["EXEC"]), Answer::Error(REFUSED.into()));
        call(&["MULTI"]);
        call(&["GET", "s"]);
        assert_eq!(call(&["EXEC"]).shown().trim_end(), "1) \"1\"");
        let script = "redis.call('SET', KEYS[1], 2) redis.pcall('LPUSH', KEYS[2], 'x') return redis.call('GET', KEYS[1])";
        assert_eq!(call(&["EVAL", script, "2", "s", "l"]), Answer::Error(REFUSED.into()));
        assert_eq!(
            call(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "s"]),
            Answer::Bulk(b"1".to_vec())
        );
        // Interest and what is kept about clients are no data.
        assert_eq!(call(&["WATCH", "s"]), Answer::Status("OK".into()));
        assert_eq!(call(&["ACL", "SETUSER", "somebody", "on"]), Answer::Status("OK".into()));
        assert_eq!(call(&["CONFIG", "SET", "maxmemory-samples", "6"]), Answer::Status("OK".into()));
        for lines in [
            &["RPUSH l x", "RPUSH l y", "RPUSH l z"][..],
            &["INCR s", "INCR s"],
            &["SET s 2", "SET s 3"],
            &["HSET h f 2", "HGET h f", "HSET h f 3"],
            &["MULTI", "INCR s", "EXEC", "MULTI", "INCR s", "EXEC"],
            &["EVAL return{redis.call('INCR',KEYS[1])} 1 s", "EVAL return{redis.call('INCR',KEYS[1])} 1 s"],
        ] {
            let replies = together(&scratch.embedder, lines);
            let writes = lines.iter().filter(|line| !["MULTI", "HGET h f"].contains(line)).count();
            // Those inside of MULTI are refused by EXEC.
            let queued = replies.matches("QUEUED").count();
            assert_eq!(replies.matches(REFUSED).count(), writes - queued, "{lines:?}: {replies}");
        }
        check(&scratch, &before);
    }
}

fn together(embedder: &Embedder, lines: &[&str]) -> String {
    let words: Vec<Vec<&[u8]>> =
        lines.iter().map(|line| line.split(' ').map(str::as_bytes).collect()).collect();
    let mut rest: Vec<&[&[u8]]> = words.iter().map(Vec::as_slice).collect();
    let mut session = Session { identity: Identity { id: 9, ..Identity::default() }, ..Session::default() };
    let mut output = Output::new(Protocol::Resp2);
    while !rest.is_empty() {
        let done = embedder.memory.execute_together(&mut session, &embedder.host, &rest, &mut output).0;
        rest.drain(..done);
    }
    let mut slices = [IoSlice::new(&[]); 256];
    let count = output.slices(&mut slices);
    slices[..count].iter().map(|slice| String::from_utf8_lossy(slice).into_owned()).collect()
}

#[test]
fn typed_calls_are_refused() {
    for is_logged in [false, true] {
        let scratch = refusing(is_logged);
        let before = digest(&scratch);
        let database = scratch.embedder.memory.database(0);
        let is_refused = |outcome: Result<(), Stop>| assert_eq!(outcome, Err(Stop::from(REFUSED)));
        is_refused(database.set("s", "2"));
        is_refused(database.set("new", "2"));
        is_refused(database.set("s", vec![b'x'; 100_000]));
        is_refused(database.set_batch(&[("s", "2"), ("new", "1")]));
        is_refused(database.transaction(&["s", "l"], |keys| keys.set("s", "2")));
        assert_eq!(database.transaction(&["s"], |keys| keys.get("s")), Ok(Some(b"1".to_vec())));
        check(&scratch, &before);
    }
}

#[test]
fn what_expires_meanwhile_stays_hidden_and_goes_afterwards() {
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    for line in ["SET gone 1 PX 20", "HSET h f 1 g 1", "HPEXPIRE h 20 FIELDS 1 f"] {
        embedded(&scratch, line);
    }
    table.refuse_writes(true);
    let soon = polder_base::time::now_ms() + 30;
    while polder_base::time::now_ms() <= soon {
        std::thread::yield_now();
    }
    table.run_maintenance(10_000);
    assert_eq!(
        (embedded(&scratch, "GET gone"), embedded(&scratch, "HMGET h f g")),
        (
            "(nil)".into(),
            "1) (nil)
2) \"1\""
                .into()
        )
    );
    assert_eq!(embedded(&scratch, "DBSIZE"), "(integer) 2", "nothing is removed");
    assert_eq!(embedded(&scratch, "SET gone 2"), format!("(error) {REFUSED}"));
    table.refuse_writes(false);
    while table.keys(0).0 > 1 {
        table.run_maintenance(10_000);
    }
}

#[test]
fn clients_of_servers_are_told_in_their_protocol() {
    let world = World::new("refused");
    let port = free_port().expect("a port").to_string();
    let (_server, mut connection) = world.serve(&["--memcache-port", &port, "--memcache-bind", "127.0.0.1"]);
    assert_eq!(ask(&mut connection, "SET s 1"), "OK");
    let memory = world.attach().expect("the segment");
    memory.table().follow().expect("no process is stopped");
    assert_eq!(ask(&mut connection, "SET s 2"), format!("(error) {REFUSED}"));
    let lines = "set s 0 0 1\r\n2\r\nms s 1\r\n2\r\ndelete s\r\nincr s 1\r\nflush_all\r\nget s\r\n";
    let refused = format!("SERVER_ERROR {REFUSED}\r\n").repeat(5);
    assert_eq!(memcached(&port, lines, 8), format!("{refused}VALUE s 0 1\r\n1\r\nEND\r\n"));
    memory.table().promote().expect("no process is stopped");
    assert_eq!(ask(&mut connection, "SET s 2"), "OK");
}

#[test]
fn a_transaction_that_selects_no_database_does_no_harm() {
    let world = World::new("refused-select");
    let (_server, mut connection) = world.serve(&[]);
    for number in [16, 256, 300, 387, 400, 65_535, 70_000] {
        for line in ["MULTI".to_owned(), format!("SELECT {number}"), "SET a 1".into(), "GET a".into()] {
            assert!(!ask(&mut connection, &line).contains("error"), "{line}");
        }
        let replies = ask(&mut connection, "EXEC");
        assert!(replies.contains("DB index is out of range") && replies.contains("\"1\""), "{replies}");
        assert_eq!(
            ask(&mut connection, "DBSIZE"),
            "(integer) 1",
            "what follows is made where the client was"
        );
    }
    let report = world.attach().expect("the memory").table().verify().expect("readable");
    assert!(report.findings.is_empty(), "{report}");
}
