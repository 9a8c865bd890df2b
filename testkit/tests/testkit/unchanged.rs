//! Calls that change nothing commit nothing: they do not count as changes (`rdb_changes_since_last_save`), as in redis-server, and are not told to the change
//! log. Each case was compared with redis-server 7.0 when it was written, and is again where there is one.
use polder_base::Protocol;
use polder_testkit::answer::Answer;
use polder_testkit::caller::Caller;
use polder_testkit::process::{Server, on_path};
use polder_testkit::resp::Connection;
use polder_testkit::scratch::Scratch;

/// What is there before each call.
const BEFORE: &[&str] = &[
    "SET s 10",
    "SET e 10 PX 10000000",
    "RPUSH l a b c",
    "HSET h f 1 g 2",
    "SADD t 1 2 3",
    "SADD t2 a b",
    "ZADD z 1 a 2 b",
    "XADD x 1-1 f v",
    "XADD x 2-1 f v",
    "XGROUP CREATE x g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS x >",
    "PFADD p a b c",
    "GEOADD geo 1 1 a",
];

/// Calls that change nothing.
const UNCHANGED: &[&str] = &[
    "SET s 1 NX",
    "SET none 1 XX",
    "SETNX s 1",
    "MSETNX new 1 s 2",
    "GETEX e",
    "GETEX none EX 10",
    "GETDEL none",
    "SETRANGE none 0 ''",
    "SETRANGE s 1 ''",
    "DEL none",
    "UNLINK none",
    "PERSIST s",
    "PERSIST none",
    "EXPIRE none 10",
    "EXPIRE e 10 GT",
    "EXPIRE e 100000000 LT",
    "EXPIRE s 10 XX",
    "EXPIRE e 10 NX",
    "PEXPIREAT s 99999999999999 GT",
    "RENAMENX s e",
    "COPY s e",
    "COPY none new",
    "MOVE none 1",
    "LTRIM none 0 1",
    "LPUSHX none a",
    "RPUSHX none a",
    "LPOP none",
    "LPOP l 0",
    "RPOP none 2",
    "LREM l 0 none",
    "LINSERT l BEFORE none x",
    "LINSERT none BEFORE a x",
    "LMOVE none l LEFT RIGHT",
    "LMPOP 1 none LEFT",
    "RPOPLPUSH none l",
    "HSETNX h f 2",
    "HDEL h none",
    "HDEL none f",
    "SADD t 1 2",
    "SREM t 9",
    "SREM none 1",
    "SMOVE t t2 9",
    "SMOVE t t 1",
    "SPOP none",
    "SPOP none 2",
    "SPOP t 0",
    "SINTERSTORE new t t2",
    "SUNIONSTORE new none",
    "SDIFFSTORE new none t",
    "ZADD z 1 a",
    "ZADD z NX 5 a",
    "ZADD z XX 5 none",
    "ZADD z GT 0 a",
    "ZADD z LT 5 a",
    "ZADD z NX INCR 5 a",
    "ZREM z none",
    "ZREM none a",
    "ZREMRANGEBYRANK z 5 9",
    "ZREMRANGEBYSCORE z 50 90",
    "ZREMRANGEBYLEX z [y [z",
    "ZPOPMIN none",
    "ZPOPMAX z 0",
    "ZMPOP 1 none MIN",
    "ZUNIONSTORE new 1 none",
    "ZINTERSTORE new 2 z none",
    "ZDIFFSTORE new 1 none",
    "ZRANGESTORE new z 5 9",
    "ZRANGESTORE new none 0 -1",
    "GEOADD geo NX 2 2 a",
    "GEOADD geo 1 1 a",
    "GEOSEARCHSTORE new geo FROMLONLAT 50 50 BYRADIUS 1 m",
    "PFADD p a",
    "BITOP AND new none",
    "SORT none STORE new",
    "XADD none NOMKSTREAM * f v",
    "XDEL x 9-9",
    "XDEL none 1-1",
    "XTRIM x MAXLEN 10",
    "XTRIM none MAXLEN 1",
    "XACK x g 9-9",
    "XACK none g 1-1",
    "XGROUP CREATECONSUMER x g c",
    "XGROUP DELCONSUMER x g none",
    "XGROUP DESTROY x none",
    "XREADGROUP GROUP g c STREAMS x 0",
    "XREADGROUP GROUP g c COUNT 5 STREAMS x 1-1",
    "XCLAIM x g c 100000 1-1",
    "XCLAIM x g c 0 9-9",
    "XAUTOCLAIM x g c 100000 0",
    "SWAPDB 3 3",
    "PUBLISH nobody hears",
    "WATCH s",
    "SETBIT s 1 0",
    "RENAME s s",
    "RENAMENX s s",
    "LTRIM l 0 -1",
    "ZINCRBY z 0 a",
    "ZADD z INCR 0 a",
];

/// Calls beside them that change something.
const CHANGED: &[&str] = &[
    "SET s 10",
    "GETSET s 10",
    "APPEND s ''",
    "APPEND new ''",
    "SETRANGE s 0 1",
    "GETEX s EX 1000",
    "GETEX e PERSIST",
    "EXPIRE e 1000",
    "PERSIST e",
    "EXPIRE s -1",
    "INCRBY s 0",
    "INCRBYFLOAT s 0",
    "COPY s e REPLACE",
    "RENAME s e",
    "LSET l 0 a",
    "LMOVE l l LEFT LEFT",
    "RPOPLPUSH l l",
    "HSET h f 1",
    "HINCRBY h f 0",
    "HINCRBYFLOAT h f 0",
    "SINTERSTORE t t t",
    "SUNIONSTORE t none",
    "ZUNIONSTORE z 1 none",
    "PFADD p d",
    "PFADD new",
    "PFMERGE p p",
    "BITOP NOT s none",
    "SORT l ALPHA STORE l",
    "SORT none STORE l",
    "XACK x g 1-1",
    "XGROUP CREATECONSUMER x g d",
    "XGROUP SETID x g 0",
    "XSETID x 2-1",
    "XREADGROUP GROUP g d STREAMS x 0",
    "XREADGROUP GROUP g c STREAMS x >",
    "XREADGROUP GROUP g c NOACK STREAMS x >",
    "XCLAIM x g d 100000 1-1",
    "XCLAIM x g d 0 1-1",
    "XAUTOCLAIM x g d 100000 0",
    "XAUTOCLAIM x g c 0 0",
    "XGROUP DELCONSUMER x g c",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB 0 1",
];

/// What redis-server 7.0 counts otherwise: it counts reads of a consumer's own history and SWAPDB of one database, and no consumer that a claim makes.
const UNLIKE_REDIS: &[&str] = &[
    "XREADGROUP GROUP g c STREAMS x 0",
    "XREADGROUP GROUP g c COUNT 5 STREAMS x 1-1",
    "SWAPDB 3 3",
    "XCLAIM x g d 100000 1-1",
    "XAUTOCLAIM x g d 100000 0",
];

/// A client, and the counter of changes.
trait Client {
    fn call(&mut self, words: &[&str]) -> Answer;

    fn line(&mut self, line: &str) -> Answer {
        let words: Vec<&str> = line.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        self.call(&words)
    }

    fn changes(&mut self) -> u64 {
        let info = self.call(&["INFO", "persistence"]).shown();
        let rest = info.split_once("rdb_changes_since_last_save:").expect("the counter").1;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
    }

    /// Makes what is there before each call.
    fn prepare(&mut self) {
        self.line("FLUSHALL");
        for before in BEFORE {
            let reply = self.line(before);
            assert!(!matches!(reply, Answer::Error(_)), "{before}: {}", reply.shown());
        }
    }
}

impl Client for Connection {
    fn call(&mut self, words: &[&str]) -> Answer {
        Connection::call(self, words).expect("a reply")
    }
}

struct Embedded {
    scratch: Scratch,
    caller: Caller,
}

impl Client for Embedded {
    fn call(&mut self, words: &[&str]) -> Answer {
        self.caller.call(&self.scratch.embedder, words).expect("a reply")
    }
}

impl Embedded {
    /// Where the log ends.
    fn told(&self) -> u64 {
        let log = self.scratch.embedder.memory.table().log();
        while log.merge().expect("room") {}
        log.end().0
    }
}

#[test]
fn what_changes_nothing_is_no_change_and_is_not_told() {
    let mut redis = on_path("redis-server").map(|program| {
        let server = Server::start_redis(&program).expect("a redis-server");
        (Connection::open(&server.address()).expect("a connection"), server)
    });
    let mut ours = Embedded { scratch: Scratch::new(), caller: Caller::new(1, Protocol::Resp2) };
    let log = ours.scratch.embedder.memory.table().log();
    log.keep(64 << 20, 0);
    let mut wrong = Vec::new();
    for (lines, changes) in [(UNCHANGED, false), (CHANGED, true)] {
        for line in lines {
            if let Some((connection, _)) = &mut redis {
                connection.prepare();
                let before = connection.changes();
                connection.line(line);
                let theirs = connection.changes() - before;
                if (theirs > 0) != (changes != UNLIKE_REDIS.contains(line)) {
                    wrong.push(format!("redis-server: {line} counts {theirs}"));
                }
            }
            // Where it is off, fast paths run that are left out where it is on.
            for logs in [false, true] {
                let log = ours.scratch.embedder.memory.table().log();
                if logs {
                    log.turn_on().expect("a log")
                } else {
                    log.turn_off().expect("no log")
                }
                ours.prepare();
                let before = (ours.changes(), ours.told());
                ours.line(line);
                let (counted, told) = (ours.changes() - before.0, ours.told() - before.1);
                if (counted > 0) != changes || logs && (told > 0) != changes {
                    wrong.push(format!(
                        "{line} counts {counted}, and {told} bytes are told; the log is on: {logs}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
