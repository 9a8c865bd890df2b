//! Calls of a pipeline that share a transaction: replies and memory are those of the same calls one by one.
use std::io::IoSlice;

use polder_base::Protocol;
use polder_engine::{Identity, Memory, Options, Session};
use polder_testkit::caller::Embedder;
use polder_testkit::random::Random;
use polder_testkit::scratch;
use polder_wire::Output;

type Words = Vec<Vec<u8>>;

/// A client of a memory of its own, with all that it was answered.
struct Client {
    embedder: Embedder,
    segment: String,
    session: Session,
    output: Output,
}

impl Client {
    fn new() -> Client {
        let segment = scratch::fresh_name();
        let options = Options { segment: segment.clone(), ceiling: 256 << 20, ..Options::default() };
        let embedder = Embedder::attach(&options).expect("a segment");
        Client {
            embedder,
            segment,
            session: Session { identity: Identity { id: 1, ..Identity::default() }, ..Session::default() },
            output: Output::new(Protocol::Resp2),
        }
    }

    /// Makes the calls, as many together as may be, or one by one.
    fn call(&mut self, calls: &[Words], together: bool) -> Vec<u8> {
        let words: Vec<Vec<&[u8]>> =
            calls.iter().map(|call| call.iter().map(Vec::as_slice).collect()).collect();
        let mut rest: Vec<&[&[u8]]> = words.iter().map(Vec::as_slice).collect();
        let Client { embedder, session, output, .. } = self;
        while !rest.is_empty() {
            let done = if together {
                embedder.memory.execute_together(session, &embedder.host, &rest, output).0
            } else {
                embedder.memory.execute(session, &embedder.host, rest[0], output);
                1
            };
            rest.drain(..done);
        }
        let mut slices = [IoSlice::new(&[]); 256];
        let count = output.slices(&mut slices);
        let bytes = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        output.consume(output.waiting());
        bytes
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        Memory::remove(&self.segment).expect("it is there");
    }
}

fn words(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A name of one of `most`, of any length.
fn name(random: &mut Random, most: usize) -> String {
    let number = random.below(most);
    let length = if number.is_multiple_of(97) { 700 } else { number % 40 };
    format!("{number}{}", "x".repeat(length))
}

/// The first kind of calls that read.
const READS: usize = 17;

/// One call of a kind; a few are of an unusual form.
fn one(random: &mut Random, kind: usize) -> Words {
    let odd = random.below(40) == 0;
    let (name, other, score) = (name(random, 3000), name(random, 3000), random.below(500) as f64 / 4.0);
    let group = random.below(2);
    let text = match (kind, odd) {
        (0, false) => format!("RPUSH l {name}"),
        (0, true) => format!("RPUSH l {name} {other} {name}"),
        (1, false) => format!("LPUSH l {name}"),
        (1, true) => format!("LPUSH l {name} {other} {name}"),
        (2, false) => "LPOP l".into(),
        (2, true) => "LPOP l 3".into(),
        (3, false) => "RPOP l".into(),
        (3, true) => "RPOP l -1".into(),
        (4 | 5, false) => format!("HSET h {name} {other}"),
        (4, true) => format!("HSET h {name} {other} {other} {name} {name} 1"),
        (5, true) => format!("HSET h {name}"),
        (6, false) => format!("SADD s {name}"),
        (6, true) => format!("SADD s {name} {other} {name}"),
        (7 | 8, false) => format!("ZADD z {score} {name}"),
        (7, true) => format!("ZADD z NX {score} {name} 1.50 {other}"),
        (8, true) => format!("ZADD z {score} {name} x {other}"),
        (9, false) => "ZPOPMIN z".into(),
        (9, true) => "ZPOPMIN z 2".into(),
        (10, false) => "ZPOPMAX z".into(),
        (10, true) => "SADD z wrong".into(),
        (11, _) => format!("SREM s {name}"),
        (12 | 13, false) => format!("XADD x 1-* field {name}"),
        (12, true) => format!("XADD x 1-* {name} {other} field {name}"),
        (13, true) => {
            ["XADD x 1-1 a b", "XADD x MAXLEN ~ 900 1-* a b", "XADD x MAXLEN 800 1-* a b", "XADD x 1-* a"]
                [random.below(4)]
            .into()
        }
        (14, false) => format!("XREADGROUP GROUP g{group} c COUNT {} STREAMS x >", random.below(3)),
        (14, true) => match random.below(4) {
            0 => format!("XREADGROUP GROUP g{group} {other} NOACK COUNT 3 STREAMS x >"),
            1 => format!("XREADGROUP GROUP g{group} c COUNT 2 STREAMS x 0"),
            2 => format!("XGROUP SETID x g{group} 1-{}", random.below(900)),
            _ => format!("XREADGROUP GROUP none c STREAMS x {other}"),
        },
        (15, _) => {
            format!("XACK x g{group} 1-{} 1-{} 1-{}", random.below(900), random.below(900), random.below(900))
        }
        (16, _) => format!("HDEL h {name}"),
        _ => return read(random, &name, &other),
    };
    words(&text)
}

/// A call that reads, or that writes among those that do.
fn read(random: &mut Random, name: &str, other: &str) -> Words {
    words(&match random.below(40) {
        0..8 => format!("HGET h {name}"),
        8..12 => format!("SISMEMBER s {name}"),
        12..16 => format!("ZSCORE z {name}"),
        16..20 => format!("ZRANK z {name}"),
        20..22 => format!("ZREVRANK z {name}"),
        22 => format!("ZRANK z {name} WITHSCORE"),
        23 => format!("HMGET h {name} {other} {name}"),
        24 => format!("SMISMEMBER s {name} {other}"),
        25 => format!("ZMSCORE z {name} {other}"),
        26 => format!("LINDEX l {}", random.below(2000)),
        27 => format!("ZRANGE z {} 7", random.below(2000)),
        28 => format!("HGET s {name}"),
        29 => "HGET h".into(),
        30 => format!("HGET none {name}"),
        31 => "HLEN h".into(),
        32 => "PTTL h".into(),
        33 => "HRANDFIELD none".into(),
        34 => format!("HSET h {name} {other}"),
        35 => format!("HDEL h {name}"),
        36 => "GET text".into(),
        37 => format!("HSTRLEN h {name}"),
        38 => format!("HEXISTS h {name}"),
        _ => "OBJECT ENCODING s".into(),
    })
}

/// Calls of a pipeline that are all of one kind, as a rule.
fn several(random: &mut Random, kind: usize, many: usize) -> Vec<Words> {
    if kind < READS || random.below(2) == 0 {
        return (0..many).map(|_| one(random, kind)).collect();
    }
    let first = one(random, kind);
    let names = |random: &mut Random| {
        if first.len() == 3 { name(random, 3000).into_bytes() } else { first[first.len() - 1].clone() }
    };
    (0..many).map(|_| [&first[..first.len() - 1], &[names(random)]].concat()).collect()
}

#[test]
fn pipelined_calls_are_answered_as_if_made_one_by_one() {
    let looks = [
        "XRANGE x - +",
        "XINFO GROUPS x",
        "XPENDING x g0",
        "XPENDING x g1",
        "LRANGE l 0 -1",
        "HGETALL h",
        "SMEMBERS s",
        "ZRANGE z 0 -1 WITHSCORES",
        "OBJECT ENCODING l",
        "OBJECT ENCODING z",
    ];
    for seed in 0..6 {
        let (mut together, mut alone, mut random) = (Client::new(), Client::new(), Random::new(seed));
        for group in ["XGROUP CREATE x g0 0 MKSTREAM", "XGROUP CREATE x g1 0"] {
            assert_eq!(together.call(&[words(group)], true), alone.call(&[words(group)], false));
        }
        // At first everything grows; later it shrinks as well.
        for round in 0..400 {
            let kinds = if round < 200 {
                [0, 1, 4, 6, 7, 8, 12, 14, READS][random.below(9)]
            } else {
                random.below(READS + 6)
            };
            let many = [1, 3, 20, 128][random.below(4)];
            let calls = several(&mut random, kinds, many);
            let shown = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(
                shown(together.call(&calls, true)),
                shown(alone.call(&calls, false)),
                "seed {seed}, round {round}: {kinds}"
            );
            if round % 20 == 0 {
                for look in looks {
                    let look = [words(look)];
                    assert_eq!(
                        together.call(&look, false),
                        alone.call(&look, false),
                        "seed {seed}, round {round}"
                    );
                }
                together.embedder.memory.table().verify().expect("a sound memory");
            }
        }
    }
}

/// What scripts and queues of EXEC do: to two keys, one of which may be a list.
fn small(random: &mut Random) -> String {
    let key = ["a", "b"][random.below(2)];
    match random.below(12) {
        0..3 => format!("SET {key} {}", random.below(100)),
        3..6 => format!("GET {key}"),
        6 => format!("INCR {key}"),
        7 => format!("APPEND {key} x"),
        8 => format!("LPUSH {key} {}", random.below(9)),
        9 => format!("DEL {key}"),
        10 => format!("MSET a {} b 2", random.below(100)),
        _ => format!("LRANGE {key} 0 -1"),
    }
}

/// Runs of one script, MULTIs and EXECs behind each other, and what disturbs them.
fn programs(random: &mut Random) -> Vec<Words> {
    const BODIES: [&str; 10] = [
        "return redis.call('GET',KEYS[1])",
        "return redis.call('SET',KEYS[1],ARGV[1])",
        "return redis.call('INCR',KEYS[1])",
        "return {redis.pcall('INCRBY',KEYS[1],ARGV[1]),redis.call('GET',KEYS[1]),#KEYS,#ARGV}",
        "redis.call('APPEND',KEYS[1],ARGV[1]) return redis.call('LPUSH',KEYS[1],1)",
        "KEYS[2],ARGV[3]=KEYS[1],'left' return redis.call('GET','a')",
        "return {KEYS[1] or 'none',KEYS[2] or 'none',ARGV[1] or 'none',ARGV[3] or 'none'}",
        "if redis.call('EXISTS',KEYS[1])==1 then return redis.call('SET','b',ARGV[1]) end return redis.status_reply('OK')",
        "return {err='MINE of the script'}",
        "return redis.call('NONE')",
    ];
    let many = [1, 2, 20, 128][random.below(4)];
    if random.below(2) == 0 {
        let body = BODIES[random.below(BODIES.len())];
        let (name, keys) = ([&b"EVAL"[..], b"eval"][random.below(2)], random.below(20));
        let run = |random: &mut Random| {
            let text = if keys == 0 { "0 x" } else { ["1 a", "1 a", "1 a", "1 b"][random.below(4)] };
            let tail = words(&format!("{text} {}", random.below(9)));
            [&[name.to_vec(), body.as_bytes().to_vec()], &tail[..]].concat()
        };
        return (0..many).map(|_| run(random)).collect();
    }
    let mut calls = Vec::new();
    while calls.len() < many {
        calls.push(words("MULTI"));
        (0..random.below(6)).for_each(|_| calls.push(words(&small(random))));
        match random.below(40) {
            0 => calls.push(words("WATCH a")),
            1 => calls.push(words("GET")),
            2 => calls.push(words("DISCARD")),
            3 => calls.push(words("SELECT 0")),
            4 => calls.push(words("EXEC x")),
            5 => calls.push(words("EVAL return{} 0")),
            _ => {}
        }
        calls.push(words("EXEC"));
        if random.below(20) == 0 {
            calls.push(words(["WATCH b", "GET a", "UNWATCH", "PING"][random.below(4)]));
        }
    }
    calls
}

#[test]
fn pipelined_scripts_and_transactions_are_answered_as_if_made_one_by_one() {
    let statistics = ["GET a", "GET b", "INFO commandstats", "INFO errorstats"].map(words);
    for seed in 0..4 {
        let (mut together, mut alone, mut random) = (Client::new(), Client::new(), Random::new(seed));
        let statistics = statistics.clone();
        for round in 0..300 {
            let calls = programs(&mut random);
            let shown = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(
                shown(together.call(&calls, true)),
                shown(alone.call(&calls, false)),
                "seed {seed}, round {round}"
            );
        }
        for look in statistics {
            // Times differ, counts do not.
            let counts = |bytes: Vec<u8>| {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let without_times = |field: &&str| !field.starts_with("usec") && !field.starts_with("$");
                text.split([',', '\r', '\n']).filter(without_times).collect::<Vec<_>>().join(" ")
            };
            let look = [look];
            assert_eq!(counts(together.call(&look, false)), counts(alone.call(&look, false)), "seed {seed}");
        }
        together.embedder.memory.table().verify().expect("a sound memory");
    }
}

#[test]
fn a_member_that_gets_its_old_score_back_in_the_same_pipeline_has_it() {
    let mut client = Client::new();
    let many: String = (0..2000).map(|number| format!(" {number} member{number}")).collect();
    client.call(&[words(&format!("ZADD z{many}"))], false);
    client.call(&["ZADD z 7000 member5", "ZADD z 5 member5"].map(words), true);
    assert_eq!(client.call(&[words("ZSCORE z member5")], false), b"$1\r\n5\r\n");
    assert_eq!(client.call(&[words("ZRANK z member5")], false), b":5\r\n");
}
