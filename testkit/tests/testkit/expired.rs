//! A hash whose last field has expired is an absent key for every command, whichever command meets it first.
use std::time::Duration;

use polder_base::Protocol;
use polder_testkit::answer::Answer;
use polder_testkit::arguments::split;
use polder_testkit::door::{Door, InProcess};

/// Calls that ask or decide whether the key `h` exists. `t` is a string.
const CALLS: &[&str] = &[
    "EXISTS h h",
    "TYPE h",
    "HLEN h",
    "HGETALL h",
    "GET h",
    "LLEN h",
    "OBJECT ENCODING h",
    "OBJECT FREQ h",
    "MEMORY USAGE h",
    "DUMP h",
    "DEBUG DIGEST-VALUE h",
    "KEYS *",
    "SCAN 0",
    "SCAN 0 TYPE hash",
    "RANDOMKEY",
    "TTL h",
    "PEXPIRETIME h",
    "TOUCH h",
    "SORT h",
    "BITCOUNT h",
    "EXPIRE h 100",
    "PEXPIREAT h 1",
    "PERSIST h",
    "DEL h",
    "DEL h h",
    "UNLINK h",
    "GETDEL h",
    "MOVE h 1",
    "COPY h g",
    "COPY t h",
    "RENAME h g",
    "RENAME t h",
    "RENAMENX h g",
    "RENAMENX t h",
    "SET h v NX",
    "SET h v XX",
    "SET h v GET",
    "SETNX h v",
    "MSETNX h v g v",
    "APPEND h v",
    "INCR h",
    "LPUSH h v",
    "LPUSHX h v",
    "SADD h v",
    "ZADD h XX 1 v",
    "XADD h NOMKSTREAM 1-1 a b",
    "HSET h b 2",
    "HSETNX h a 2",
    "HINCRBY h a 2",
    "HDEL h a",
    "HSETEX h FNX FIELDS 1 a 1",
    "HSETEX h FXX FIELDS 1 a 1",
    "HGETEX h EX 100 FIELDS 1 a",
    "HPERSIST h FIELDS 1 a",
    "SDIFFSTORE h h",
    "PFADD h a",
    "SETBIT h 3 1",
    "EVAL \"return {redis.call('EXISTS', KEYS[1]), redis.call('TYPE', KEYS[1]), redis.call('SET', KEYS[1], 'v', 'NX')}\" 1 h",
];

/// What a call, alone or in a transaction, replies about `h`, and what is there afterwards.
fn replies(memory: &mut InProcess, line: &str, expired: bool, together: bool) -> Vec<Answer> {
    let mut call = |line: &str| memory.call("a", &split(line).expect("a command")).expect("an answer");
    call("FLUSHALL");
    call("SET t v");
    if expired {
        call("HSET h a 1 c 3");
        call("HPEXPIRE h 1 FIELDS 2 a c");
        std::thread::sleep(Duration::from_millis(3));
    }
    if line.starts_with("KEYS") || line.starts_with("SCAN") || line == "RANDOMKEY" {
        call("DEL t");
    }
    let mut seen = if together {
        call("MULTI");
        call(line);
        call("EXISTS h");
        call("TYPE h");
        vec![call("EXEC")]
    } else {
        vec![call(line)]
    };
    seen.extend(["EXISTS h", "TYPE h", "HGETALL h", "DEBUG DIGEST", "DBSIZE"].map(&mut call));
    seen
}

#[test]
fn a_hash_whose_last_field_has_expired_is_an_absent_key_for_every_command() {
    let mut memory = InProcess::new(Protocol::Resp3);
    memory.reset().expect("an empty memory");
    memory.call("a", &split("DEBUG SET-ACTIVE-EXPIRE 0").expect("a command")).expect("an answer");
    for line in CALLS {
        for together in [false, true] {
            let shown = |expired, memory: &mut InProcess| -> Vec<String> {
                replies(memory, line, expired, together).iter().map(Answer::shown).collect()
            };
            assert_eq!(shown(true, &mut memory), shown(false, &mut memory), "{line} (in MULTI: {together})");
        }
    }
}

#[test]
fn a_watched_hash_whose_last_field_expires_stops_the_transaction() {
    let mut memory = InProcess::new(Protocol::Resp2);
    memory.reset().expect("an empty memory");
    let mut call = |line: &str| memory.call("a", &split(line).expect("a command")).expect("an answer");
    for line in ["HSET h a 1", "HPEXPIRE h 20 FIELDS 1 a", "WATCH h", "MULTI", "PING"] {
        call(line);
    }
    std::thread::sleep(Duration::from_millis(25));
    assert_eq!(call("EXEC").shown(), "(nil)");
    // Watched when it was gone already, it stays gone.
    for line in ["HSET h a 1", "HPEXPIRE h 1 FIELDS 1 a"] {
        call(line);
    }
    std::thread::sleep(Duration::from_millis(3));
    for line in ["WATCH h", "MULTI", "PING"] {
        call(line);
    }
    assert_eq!(call("EXEC").shown(), "1) PONG");
}
