//! A process is killed before the n-th store of one operation, for every n: the key has its old or its new value.
//!
//! For each path the driver brings the keys into their old state, lets a child attach, arm the crash point and run the
//! operation, and looks at what is there. When the child comes through alive, n was past the last store. All deaths of
//! a path happen in one segment, one after the other, so what recovery forgets to give back adds up and is seen.
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use polder_base::Protocol;
use polder_engine::{Identity, Session};

use super::STALL_MAX;
use crate::answer::Answer;
use crate::arguments;
use crate::caller::{Caller, Embedder, Quiet};
use crate::crash::followed::Follower;
use crate::crash::listening::Client;
use crate::scratch::{self, Scratch};
use polder_shm::crash::Delays;

/// One write path: what was there before, and the operation (a line for each call) that is not survived.
pub struct Route {
    pub name: &'static str,
    before: &'static [&'static str],
    operation: &'static str,
    beside: Beside,
    /// What it takes away is drawn: the keys are compared by how much is in them.
    drawn: bool,
    /// Every how many stores the process dies: 1 but for operations with thousands.
    step: u64,
    /// The calls come in one pipeline and share one transaction.
    pipelined: bool,
}

/// What a client of the survivor does meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    /// It has subscribed, too: no message reaches the dead one as well.
    Counts,
    /// It has subscribed to two channels: it hears what belongs to the new state, once, and nothing otherwise.
    Hears(&'static str),
    /// It waits for `k1` before: it is served if there is something, and else goes on waiting.
    Waits,
    /// It waits for `k1` afterwards, behind the dead one, and is served what comes then.
    Rivals,
}

const fn route(name: &'static str, before: &'static [&'static str], operation: &'static str) -> Route {
    Route { name, before, operation, beside: Beside::Nothing, drawn: false, step: 1, pipelined: false }
}

/// An operation with many stores.
const fn long(name: &'static str, before: &'static [&'static str], operation: &'static str) -> Route {
    Route { step: 7, ..route(name, before, operation) }
}

/// Calls that share a transaction.
const fn pipeline(name: &'static str, before: &'static [&'static str], operation: &'static str) -> Route {
    Route { pipelined: true, ..long(name, before, operation) }
}

const fn with(beside: Beside, route: Route) -> Route {
    Route { beside, ..route }
}

const fn drawn(route: Route) -> Route {
    Route { drawn: true, ..route }
}

const BIG_LIST: &str = "EVAL \"for i=1,1500 do redis.call('RPUSH',KEYS[1],'element-'..i) end\" 1 k1";
const BIG_HASH: &str = "EVAL \"for i=1,1500 do redis.call('HSET',KEYS[1],'field-'..i,i) end\" 1 k1";
const BIG_SET: &str = "EVAL \"for i=1,1500 do redis.call('SADD',KEYS[1],'member-'..i) end\" 1 k1";
const BIG_ZSET: &str = "EVAL \"for i=1,1500 do redis.call('ZADD',KEYS[1],i%97,'member-'..i) end\" 1 k1";
const BIG_STREAM: &str =
    "EVAL \"for i=1,1500 do redis.call('XADD',KEYS[1],i..'-1','field','value-'..i) end\" 1 k1";
const BIG_ARRAY: &str = "EVAL \"for i=1,1500 do redis.call('ARINSERT',KEYS[1],'value-'..i) end\" 1 k1";
const GROUP: &str = "XGROUP CREATE k1 group 0 MKSTREAM";
const READ: &str = "XREADGROUP GROUP group me COUNT 2 STREAMS k1 >";

/// Merges what the outboxes hold into the change log, in place of a call.
const MERGE: &str = "!merge";

/// Has writes refused from here on, in place of a call: the calls behind it fail, and the state stays the old one.
const REFUSE: &str = "!refuse";

/// Paths that there are with a change log only.
pub const FOLLOWED: &[Route] = &[
    route("merge", &["SET k1 old", "RPUSH k2 a b", "MSET k1 1 k3 repeat:300:x"], MERGE),
    long(
        "merge-blocks",
        &["SET k1 repeat:9000:a", "SET k2 repeat:9000:b", "SET k3 repeat:40000:c", "DEL k2"],
        MERGE,
    ),
];

/// Every write path.
pub const ROUTES: &[Route] = &[
    route("set-new", &[], "SET k1 value"),
    route("set-over", &["SET k1 old"], "SET k1 new"),
    route("set-longer", &["SET k1 old"], "SET k1 repeat:500:n"),
    route("set-shorter", &["SET k1 repeat:500:o"], "SET k1 new"),
    route("set-tree", &["SET k1 old"], "SET k1 repeat:100000:n EX 1000"),
    route("set-over-tree", &["SET k1 repeat:100000:o"], "SET k1 new"),
    route("delete", &["SET k1 old"], "DEL k1"),
    route("delete-tree", &["SET k1 repeat:100000:o"], "DEL k1"),
    route("increment", &["SET k1 41"], "INCR k1"),
    route("append-tree", &["SET k1 repeat:100000:o"], "APPEND k1 repeat:5000:n"),
    route("setrange-tree", &["SET k1 repeat:100000:o"], "SETRANGE k1 30000 repeat:20000:n"),
    route("setbit-hole", &[], "SETBIT k1 1000000 1"),
    route("expire", &["SET k1 old"], "EXPIRE k1 1000"),
    route("persist", &["SET k1 old EX 1000"], "PERSIST k1"),
    route("rename", &["SET k1 repeat:100000:o", "SET k2 repeat:20000:p"], "RENAME k1 k2"),
    route("copy-tree", &["SET k1 repeat:100000:o", "SET k2 p"], "COPY k1 k2 REPLACE"),
    route("move", &["SET k1 repeat:300:o"], "MOVE k1 1"),
    route(
        "mset",
        &["SET k1 old", "SET k3 repeat:9000:o"],
        "MSET k1 new k2 repeat:300:n k3 new k4 repeat:70000:n k5 5 k6 6",
    ),
    route("delete-many", &["MSET k1 1 k2 2 k3 repeat:70000:o k4 repeat:300:o"], "DEL k1 k2 k3 k4 k5"),
    route("bitop", &["SET k1 repeat:9000:o", "SET k2 abc"], "BITOP XOR k3 k1 k2"),
    route("flushdb", &["MSET k1 1 k2 repeat:300:o k3 repeat:70000:o"], "FLUSHDB"),
    route("item-flush", &["MSET k1 1 k2 repeat:300:o", "ITEM.FLUSH EX 100"], "ITEM.FLUSH"),
    route("item-flush-later", &["MSET k1 1 k2 2", "ITEM.FLUSH EX 100"], "ITEM.FLUSH EX 200"),
    route("swapdb", &["MSET k1 1 k2 2", "COPY k1 k3 DB 1"], "SWAPDB 0 1"),
    route("list-new", &[], "RPUSH k1 a b c"),
    route("list-push", &["RPUSH k1 a b c"], "LPUSH k1 d"),
    route("list-pop", &["RPUSH k1 a b c"], "LPOP k1"),
    route("list-pop-last", &["RPUSH k1 a"], "RPOP k1"),
    route("list-long-element", &["RPUSH k1 a"], "RPUSH k1 repeat:3000:x"),
    route("list-move", &["RPUSH k1 a b", "RPUSH k2 c"], "LMOVE k1 k2 LEFT RIGHT"),
    long("list-tree-push", &[BIG_LIST], "RPUSH k1 x y z"),
    long("list-tree-pop", &[BIG_LIST], "LPOP k1 3"),
    long("list-tree-insert", &[BIG_LIST], "LINSERT k1 BEFORE element-700 new"),
    long("list-tree-trim", &[BIG_LIST], "LTRIM k1 10 20"),
    route("hash-set", &["HSET k1 a 1 b 2"], "HSET k1 b 3 c 4"),
    route("hash-delete-last", &["HSET k1 a 1"], "HDEL k1 a"),
    route("hash-expire", &["HSET k1 a 1 b 2"], "HEXPIREAT k1 4000000000 FIELDS 1 a"),
    long("hash-tree-set", &[BIG_HASH], "HSET k1 field-7 new another repeat:700:v"),
    long("hash-tree-delete", &[BIG_HASH], "HDEL k1 field-1 field-700 field-1500"),
    long("hash-tree-increment", &[BIG_HASH], "HINCRBY k1 field-9 5"),
    route("set-add", &["SADD k1 a b"], "SADD k1 c d"),
    route("set-of-integers-add", &["SADD k1 1 2 3"], "SADD k1 x"),
    drawn(route("set-pop", &["SADD k1 a b c"], "SPOP k1")),
    route("set-pop-all", &["SADD k1 a b c"], "SPOP k1 5"),
    route("set-move", &["SADD k1 a b", "SADD k2 c"], "SMOVE k1 k2 a"),
    long("set-tree-add", &[BIG_SET], "SADD k1 x y z"),
    long("set-tree-remove", &[BIG_SET], "SREM k1 member-1 member-900"),
    drawn(long("set-tree-pop", &[BIG_SET], "SPOP k1 2")),
    long("set-store", &[BIG_SET, "SADD k2 member-1 member-2 x"], "SUNIONSTORE k3 k1 k2"),
    route("zset-add", &["ZADD k1 1 a 2 b"], "ZADD k1 3 a 1.5 c"),
    route("zset-increment", &["ZADD k1 1.10 a 2 b"], "ZINCRBY k1 2.2 a"),
    route("zset-pop", &["ZADD k1 1 a 2 b"], "ZPOPMIN k1"),
    route("zset-pop-last", &["ZADD k1 1 a"], "ZPOPMAX k1"),
    long("zset-tree-add", &[BIG_ZSET], "ZADD k1 50 member-1 60 new"),
    pipeline(
        "zset-tree-pipeline",
        &[BIG_ZSET],
        "ZADD k1 50 member-1\nZADD k1 3 member-1400\nZADD k1 17.5 new\nZADD k1 96 member-2\nZADD k1 12 member-96\nZADD k1 1 member-500",
    ),
    pipeline(
        "hash-tree-pipeline",
        &[BIG_HASH],
        "HSET k1 field-7 new\nHSET k1 another repeat:700:v\nHSET k1 field-1400 x",
    ),
    long("zset-tree-increment", &[BIG_ZSET], "ZINCRBY k1 40 member-700"),
    long("zset-tree-pop", &[BIG_ZSET], "ZPOPMIN k1 3"),
    route("stream-new", &[], "XADD k1 1-1 field value"),
    route("stream-add", &["XADD k1 1-1 f v"], "XADD k1 MAXLEN 1 2-1 f w"),
    route("stream-read", &[GROUP, "XADD k1 1-1 f v", "XADD k1 2-1 f w"], READ),
    route(
        "stream-acknowledge",
        &[GROUP, "XADD k1 1-1 f v", "XADD k1 2-1 f w", READ],
        "XACK k1 group 1-1 2-1",
    ),
    route("stream-delete", &["XADD k1 1-1 f v", "XADD k1 2-1 f w"], "XDEL k1 1-1"),
    route(
        "stream-delete-references",
        &[GROUP, "XADD k1 1-1 f v", "XADD k1 2-1 f w", READ],
        "XDELEX k1 DELREF IDS 2 1-1 2-1",
    ),
    route(
        "stream-read-claim",
        &[GROUP, "XADD k1 1-1 f v", "XADD k1 2-1 f w", READ, "XADD k1 3-1 f x"],
        "XREADGROUP GROUP group other CLAIM 0 STREAMS k1 >",
    ),
    route("stream-producer-new", &["XADD k1 1-1 f v"], "XIDMPRECORD k1 producer own-1 1-1"),
    route(
        "stream-producer-full",
        &[
            "XADD k1 99999999999999-1 f v",
            "XCFGSET k1 IDMP-MAXSIZE 1",
            "XIDMPRECORD k1 producer own-1 99999999999999-1",
        ],
        "XIDMPRECORD k1 producer own-2 99999999999999-1",
    ),
    route(
        "stream-producer-settings",
        &["XADD k1 99999999999999-1 f v", "XIDMPRECORD k1 producer own-1 99999999999999-1"],
        "XCFGSET k1 IDMP-DURATION 500",
    ),
    route(
        "stream-give-back",
        &[GROUP, "XADD k1 1-1 f v", "XADD k1 2-1 f w", READ],
        "XNACK k1 group FAIL IDS 2 1-1 2-1",
    ),
    route(
        "stream-acknowledge-delete",
        &[GROUP, "XADD k1 1-1 f v", "XADD k1 2-1 f w", READ],
        "XACKDEL k1 group ACKED IDS 1 1-1",
    ),
    route(
        "stream-trim-acknowledged",
        &[GROUP, "XADD k1 1-1 f v", "XADD k1 2-1 f w", READ, "XACK k1 group 2-1"],
        "XTRIM k1 MAXLEN 0 ACKED",
    ),
    long("stream-tree-add", &[BIG_STREAM], "XADD k1 1501-1 field value"),
    long("stream-tree-read", &[BIG_STREAM, GROUP], "XREADGROUP GROUP group me COUNT 50 STREAMS k1 >"),
    long(
        "stream-tree-acknowledge",
        &[BIG_STREAM, GROUP, "XREADGROUP GROUP group me COUNT 50 STREAMS k1 >"],
        "XACK k1 group 3-1 17-1 49-1",
    ),
    long("stream-tree-trim", &[BIG_STREAM], "XTRIM k1 MAXLEN 700"),
    route("array-new", &[], "ARSET k1 7 a b c"),
    route("array-set", &["ARSET k1 7 a b c"], "ARMSET k1 8 x 99 repeat:3000:y"),
    route("array-delete-last", &["ARINSERT k1 a"], "ARDEL k1 0"),
    route("array-insert", &["ARINSERT k1 a b"], "ARINSERT k1 c repeat:700:d"),
    route("array-seek", &["ARINSERT k1 a b"], "ARSEEK k1 1000"),
    route("array-ring", &["ARRING k1 3 a b c d"], "ARRING k1 3 e f"),
    long("array-tree-set", &[BIG_ARRAY], "ARMSET k1 7 new 900 repeat:700:v 5000 x"),
    long("array-tree-insert", &[BIG_ARRAY], "ARINSERT k1 x y z"),
    long("array-tree-delete", &[BIG_ARRAY], "ARDELRANGE k1 10 20 1200 700"),
    long("array-tree-shrinks", &[BIG_ARRAY], "ARRING k1 500 x"),
    long("array-copy", &[BIG_ARRAY, "ARSET k2 0 old"], "COPY k1 k2 REPLACE"),
    route("hyperloglog", &["PFADD k1 a b c"], "PFADD k1 d e f"),
    route("geo", &["GEOADD k1 13.3 38.1 a"], "GEOADD k1 15.0 37.5 b"),
    long(
        "multi",
        &["RPUSH k1 old", "SADD k3 old"],
        "MULTI\nRPUSH k1 a\nHSET k2 f v\nSADD k3 m\nZADD k4 1 m\nXADD k5 1-1 f v\nSET k6 repeat:9000:x\nEXEC",
    ),
    long(
        "script",
        &["RPUSH k1 old"],
        "EVAL \"redis.call('RPUSH',KEYS[1],'a') redis.call('ZADD',KEYS[2],1,'m') redis.call('HSET','k3','f','v') return 1\" 2 k1 k2",
    ),
    with(
        Beside::Hears("hello"),
        route("publish", &["SET k1 old"], "MULTI\nSET k1 new\nPUBLISH news hello\nEXEC"),
    ),
    with(
        Beside::Hears("hello"),
        route(
            "publish-in-script",
            &[],
            "EVAL \"redis.call('SET',KEYS[1],'new') return redis.call('PUBLISH','news','hello')\" 1 k1",
        ),
    ),
    with(
        Beside::Hears("hello"),
        route("post", &["SET k1 old"], "MULTI\nSET k1 new\nSUBJ.PUB news.a hello REPLY r.1 HEADERS h\nEXEC"),
    ),
    with(
        Beside::Hears("hello"),
        route("post-to-a-queue", &["SET k1 old"], "MULTI\nSET k1 new\nSUBJ.PUB work.a.b hello\nEXEC"),
    ),
    with(Beside::Hears("k1"), route("event", &["CONFIG SET notify-keyspace-events E$"], "SET k1 new")),
    with(Beside::Waits, route("push-for-a-waiter", &[], "RPUSH k1 a b")),
    with(Beside::Rivals, route("wait", &[], "BLPOP k1 0")),
    with(Beside::Rivals, route("wait-and-pop", &[], "BLPOP k1 0\nRPUSH k1 x")),
    with(
        Beside::Rivals,
        route("wait-for-several", &[], "BLPOP k2 k1 k3 0\nMULTI\nRPUSH k3 x\nRPUSH k1 y\nEXEC"),
    ),
    route("refused-set", &["SET k1 old"], "!refuse\nSET k1 new\nAPPEND k1 more\nDEL k1"),
    long(
        "refused-several",
        &["SET k1 old", "RPUSH k2 a"],
        "!refuse\nMSET k1 new k3 new\nMULTI\nLPOP k2\nSET k1 new\nEXEC",
    ),
    long(
        "refused-script",
        &["SET k1 old"],
        "!refuse\nEVAL \"redis.call('SET',KEYS[1],'new') redis.call('RPUSH',KEYS[2],'x')\" 2 k1 k2",
    ),
    route("refused-flush", &["SET k1 old"], "!refuse\nFLUSHALL"),
    with(Beside::Counts, route("subscribe", &[], "SUBSCRIBE news\nSUBSCRIBE other\nUNSUBSCRIBE other")),
    with(
        Beside::Counts,
        route(
            "subscribe-to-subjects",
            &[],
            "SUBJ.SUB *\nSUBJ.SUB news SID 1\nSUBJ.SUB > QUEUE q SID 2\nSUBJ.SUB *.a.> SID 3\nSUBJ.UNSUB 2\nSUBJ.UNSUB 1",
        ),
    ),
];

/// What a route came to.
#[derive(Default)]
pub struct Report {
    pub deaths: u64,
    pub failures: Vec<String>,
}

/// The subscriptions of the client beside a route.
const LISTENS: [&str; 4] =
    ["SUBSCRIBE news", "SUBSCRIBE __keyevent@0__:set", "SUBJ.SUB news.*", "SUBJ.SUB work.> QUEUE q"];

/// Dies at every store of a route; `follows`: with the change log on, whose stream is followed.
///
/// # Errors
/// When the test itself cannot go on.
pub fn run(route: &Route, program: &Path, follows: bool) -> Result<Report, String> {
    let scratch = Scratch::new();
    let mut follower = if follows { Some(Follower::new(&scratch.embedder)?) } else { None };
    let mut caller = Caller::new(1, Protocol::Resp2);
    let (old, new) = states(route)?;
    let mut report = Report::default();
    let mut client = Client::default();
    let delays = Delays::open().map_err(|error| error.to_string())?;
    if let Beside::Hears(_) | Beside::Counts = route.beside {
        for line in LISTENS {
            client.call(&scratch.embedder, line)?;
        }
    }
    let mut used_early = 0;
    for n in (1..).step_by(route.step as usize) {
        prepare(route, &scratch.embedder, &mut caller)?;
        if route.beside == Beside::Waits {
            client.call(&scratch.embedder, "BLPOP k1 0")?;
        }
        client.hear(&scratch.embedder);
        client.heard.clear();
        let survived = play(route, program, &scratch.options.segment, n)?;
        scratch.embedder.memory.table().refuse_writes(false);
        let (started, waited) = (Instant::now(), delays.waited());
        let first = values(route, &scratch.embedder, &mut caller)?;
        let stalled = started.elapsed().saturating_sub(delays.waited() - waited);
        let found = location(route, &scratch.embedder, &mut caller)?;
        let told = tell(route, &scratch.embedder, &mut caller, &mut client, found == new);
        if let Err(complaint) = judge(route, &first, &found, &old, &new).and(told) {
            report.failures.push(format!("{}: dead at store {n}, {complaint}", route.name));
            break;
        }
        if stalled > STALL_MAX {
            report.failures.push(format!(
                "{}: dead at store {n}, the keys were unusable for {} ms",
                route.name,
                stalled.as_millis()
            ));
        }
        if survived {
            break;
        }
        report.deaths += 1;
        report.failures.extend(
            verify(&scratch.embedder)
                .map(|complaint| format!("{}: dead at store {n}: {complaint}", route.name)),
        );
        if let Some(follower) = &mut follower {
            let complaint = follower.check(&scratch.embedder)?;
            report
                .failures
                .extend(complaint.map(|complaint| format!("{}: dead at store {n}: {complaint}", route.name)));
        }
        if !report.failures.is_empty() {
            break;
        }
        if n == 3 {
            used_early = settled(&scratch.embedder, &mut caller)?;
        }
    }
    let used_late = settled(&scratch.embedder, &mut caller)?;
    if report.deaths > 3 && used_late > used_early + LEAK_BYTES_MAX {
        let (more, deaths) = (used_late - used_early, report.deaths);
        let found = in_use(&scratch.embedder)?;
        report
            .failures
            .push(format!("{}: {more} bytes more in use after {deaths} deaths; {found}", route.name));
    }
    Ok(report)
}

/// What the memory is used for.
fn in_use(embedder: &Embedder) -> Result<String, String> {
    let found = embedder.memory.table().verify().map_err(|fault| fault.to_string())?;
    Ok(format!(
        "{} nodes of {} bytes in use, {} cached, {} retired",
        found.nodes, found.node_bytes, found.cached, found.retired
    ))
}

/// Whether the client beside has heard what it should, once; afterwards it has nothing to do with all this any more.
fn tell(
    route: &Route,
    embedder: &Embedder,
    caller: &mut Caller,
    client: &mut Client,
    is_new: bool,
) -> Result<(), String> {
    if route.beside == Beside::Nothing {
        return Ok(());
    }
    if route.beside == Beside::Rivals {
        typed(embedder, caller, "DEL k1")?;
        if client.call(embedder, "BLPOP k1 0")?.is_some() {
            return Err("there is something in a key that is not there".into());
        }
        typed(embedder, caller, "RPUSH k1 later")?;
    }
    if route.beside == Beside::Counts && typed(embedder, caller, "PUBLISH news hello")? != Answer::Integer(1)
    {
        return Err("a message reaches the dead".into());
    }
    client.listen(embedder);
    let heard: Vec<String> =
        client.heard.iter().cloned().chain(client.answers.iter().map(Answer::shown)).collect();
    let waits = client.waits();
    client.rest(embedder);
    let expected = match route.beside {
        Beside::Hears(payload) if is_new => vec![payload.to_owned()],
        Beside::Counts => vec!["hello".to_owned()],
        Beside::Waits if is_new => vec![popped("a")],
        Beside::Rivals => vec![popped("later")],
        _ => Vec::new(),
    };
    let settled = route.beside != Beside::Waits || waits != is_new;
    if heard == expected && settled {
        Ok(())
    } else {
        Err(format!("a client heard {heard:?}, not {expected:?}; it waits: {waits}"))
    }
}

/// What BLPOP replies.
fn popped(element: &str) -> String {
    Answer::Array(vec![Answer::Bulk(b"k1".to_vec()), Answer::Bulk(element.into())]).shown()
}

/// Whether this is the old or the new state, at once and for good.
fn judge(route: &Route, first: &str, found: &Location, old: &Location, new: &Location) -> Result<(), String> {
    if route.beside == Beside::Rivals {
        // There are states in between; what matters is what becomes of calls that come later.
        return Ok(());
    }
    let shown = |what: &str, values: &str, counts: &str| format!("{what}\n{values}{counts}");
    let whole = (found == old && first == old.values)
        || (found == new && (first == old.values || first == new.values));
    if whole {
        return Ok(());
    }
    Err(shown("first there is", first, "")
        + &shown("after the recovery", &found.values, &found.counts)
        + &shown("the old state was", &old.values, &old.counts)
        + &shown("the new one is", &new.values, &new.counts))
}

/// How long a round of maintenance may take.
const MAINTENANCE_US: u64 = 10_000;

/// What the seats' caches may keep: a hundredth of the segment. Whether each node is accounted for is `verify`'s question.
const LEAK_BYTES_MAX: u64 = scratch::CEILING / 100;

/// What `verify` has to complain about, if anything.
pub fn verify(embedder: &Embedder) -> Option<String> {
    match embedder.memory.table().verify() {
        Ok(report) if report.is_clean() => None,
        Ok(report) => {
            Some(format!("verify says {}", report.findings[..report.findings.len().min(5)].join("; ")))
        }
        Err(fault) => Some(format!("verify failed: {fault}")),
    }
}

/// The child's part: attaches, arms, runs the operation.
///
/// # Errors
/// When there is no such route or the operation is refused.
pub fn child(segment: &str, name: &str, n: u64) -> Result<(), String> {
    let route = ROUTES
        .iter()
        .chain(FOLLOWED)
        .find(|route| route.name == name)
        .ok_or_else(|| format!("no route {name}"))?;
    let options = polder_engine::Options { segment: segment.into(), create: false, ..Default::default() };
    let embedder = Embedder::attach(&options).map_err(|fault| fault.to_string())?;
    arm(n)?;
    operate(route, &embedder)?;
    arm(0)
}

/// Runs the operation; a call that waits is served by what the next one does.
fn operate(route: &Route, embedder: &Embedder) -> Result<(), String> {
    if route.pipelined {
        return run_pipeline(route, embedder);
    }
    let (mut client, mut caller) = (Client::default(), Caller::new(2, Protocol::Resp2));
    for line in route.operation.lines() {
        if line == MERGE {
            embedder.memory.table().log().merge().map_err(|fault| fault.to_string())?;
            continue;
        }
        if line == REFUSE {
            embedder.memory.table().refuse_writes(true);
            continue;
        }
        if route.operation.starts_with(REFUSE) {
            typed(embedder, &mut caller, line)
                .or_else(|error| if error.contains("READONLY ") { Ok(Answer::Nil) } else { Err(error) })?;
        } else if route.beside == Beside::Rivals && line.starts_with("BLPOP")
            || line.contains("SUBSCRIBE")
            || line.contains("SUBJ.SUB")
            || line.contains("SUBJ.UNSUB")
        {
            client.call(embedder, line)?;
        } else {
            typed(embedder, &mut caller, line)?;
        }
        client.hear(embedder);
    }
    Ok(())
}

fn run_pipeline(route: &Route, embedder: &Embedder) -> Result<(), String> {
    let calls = route.operation.lines().map(arguments::split).collect::<Result<Vec<_>, _>>()?;
    let calls: Vec<Vec<&[u8]>> = calls.iter().map(|call| call.iter().map(AsRef::as_ref).collect()).collect();
    let slices: Vec<&[&[u8]]> = calls.iter().map(Vec::as_slice).collect();
    let mut session = Session { identity: Identity { id: 2, ..Identity::default() }, ..Session::default() };
    match embedder.memory.execute_together(&mut session, &embedder.host, &slices, &mut Quiet::default()).0 {
        done if done == calls.len() => Ok(()),
        done => Err(format!("{done} of {} calls went together", calls.len())),
    }
}

/// Says which store is not made; release builds have no such points.
#[cfg(debug_assertions)]
fn arm(n: u64) -> Result<(), String> {
    polder_shm::crash::arm(n);
    Ok(())
}

#[cfg(not(debug_assertions))]
fn arm(_n: u64) -> Result<(), String> {
    Err("a release build has no crash points".into())
}

/// Runs the child. Returns whether it came through.
fn play(route: &Route, program: &Path, segment: &str, n: u64) -> Result<bool, String> {
    use std::os::unix::process::ExitStatusExt;
    let output = Command::new(program)
        .args(["point", segment, route.name, &n.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    match (output.status.success(), output.status.signal()) {
        (true, _) => Ok(true),
        (false, Some(9)) => Ok(false),
        _ => Err(format!(
            "{} at store {n}: {}{}",
            route.name,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// What the keys look like before and after the operation, found out in a run without a death.
fn states(route: &Route) -> Result<(Location, Location), String> {
    let scratch = Scratch::new();
    let mut caller = Caller::new(1, Protocol::Resp2);
    prepare(route, &scratch.embedder, &mut caller)?;
    let old = location(route, &scratch.embedder, &mut caller)?;
    operate(route, &scratch.embedder)?;
    scratch.embedder.memory.table().refuse_writes(false);
    Ok((old, location(route, &scratch.embedder, &mut caller)?))
}

fn prepare(route: &Route, embedder: &Embedder, caller: &mut Caller) -> Result<(), String> {
    flush(embedder, caller)?;
    route.before.iter().try_for_each(|line| typed(embedder, caller, line).map(drop))
}

/// Empties the memory; sweeping behind earlier flushes is maintenance that may have to be done first.
fn flush(embedder: &Embedder, caller: &mut Caller) -> Result<(), String> {
    for _ in 0..1000 {
        match caller.call(embedder, &["FLUSHALL"])? {
            Answer::Error(busy) if busy.starts_with("BUSY") => {
                embedder.memory.table().run_maintenance(MAINTENANCE_US)
            }
            Answer::Error(error) => return Err(format!("FLUSHALL: {error}")),
            _ => return Ok(()),
        };
    }
    Err("FLUSHALL is busy for ever".into())
}

/// What the routes' keys hold, before and after the dead were recovered.
#[derive(PartialEq)]
struct Location {
    values: String,
    counts: String,
}

/// Everything that the routes' keys hold, in databases 0 and 1.
fn values(route: &Route, embedder: &Embedder, caller: &mut Caller) -> Result<String, String> {
    let mut text = String::new();
    for db in ["0", "1"] {
        typed(embedder, caller, &format!("SELECT {db}"))?;
        for key in ["k1", "k2", "k3", "k4", "k5", "k6"] {
            let Some(value) = value(route, embedder, caller, key)? else { continue };
            let expires = matches!(typed(embedder, caller, &format!("TTL {key}"))?, Answer::Integer(1..));
            text += &format!("  {db} {key} {value}{}\n", if expires { ", expires" } else { "" });
        }
    }
    typed(embedder, caller, "SELECT 0")?;
    Ok(text)
}

/// What one key holds.
fn value(
    route: &Route,
    embedder: &Embedder,
    caller: &mut Caller,
    key: &str,
) -> Result<Option<String>, String> {
    let Answer::Status(kind) = typed(embedder, caller, &format!("TYPE {key}"))? else {
        return Err("TYPE answers no status".into());
    };
    let lines = match kind.as_str() {
        "none" => return Ok(None),
        "set" if route.drawn => vec![format!("SCARD {key}")],
        "string" => vec![format!("GET {key}")],
        // Its payload tells when consumers were seen.
        "stream" => {
            let groups = matches!(typed(embedder, caller, &format!("XINFO GROUPS {key}"))?, Answer::Array(groups) if !groups.is_empty());
            let group = groups.then(|| format!("XPENDING {key} group"));
            [format!("XRANGE {key} - +"), format!("XINFO GROUPS {key}")].into_iter().chain(group).collect()
        }
        _ => vec![format!("DUMP {key}")],
    };
    let mut text = kind;
    for line in lines {
        let shown = match typed(embedder, caller, &line)? {
            Answer::Bulk(bytes) if bytes.len() > 100 || line.starts_with("DUMP") => {
                format!("{} bytes, sum {:x}", bytes.len(), super::value::checksum(&bytes))
            }
            other => other.shown(),
        };
        let long = shown.len() > 200;
        let shown = if long {
            format!("{} characters, sum {:x}", shown.len(), super::value::checksum(shown.as_bytes()))
        } else {
            shown
        };
        text += &format!(" {shown}");
    }
    Ok(Some(text))
}

/// Values and counts once the dead have been recovered.
fn location(route: &Route, embedder: &Embedder, caller: &mut Caller) -> Result<Location, String> {
    embedder.memory.table().run_maintenance(MAINTENANCE_US);
    let values = values(route, embedder, caller)?;
    let mut counts = String::new();
    for db in ["1", "0"] {
        typed(embedder, caller, &format!("SELECT {db}"))?;
        counts += &format!("  {db} has {}\n", typed(embedder, caller, "DBSIZE")?.shown());
    }
    Ok(Location { values, counts })
}

/// Bytes in use when the memory is empty and maintenance is done.
pub(super) fn settled(embedder: &Embedder, caller: &mut Caller) -> Result<u64, String> {
    flush(embedder, caller)?;
    let used = || embedder.memory.table().usage().used;
    let (mut least, mut unchanged) = (used(), 0);
    while unchanged < 50 {
        embedder.memory.table().run_maintenance(MAINTENANCE_US);
        typed(embedder, caller, "SET k1 1")?;
        typed(embedder, caller, "DEL k1")?;
        unchanged = if used() < least { 0 } else { unchanged + 1 };
        least = least.min(used());
    }
    Ok(least)
}

fn typed(embedder: &Embedder, caller: &mut Caller, line: &str) -> Result<Answer, String> {
    match caller.call(embedder, &arguments::split(line)?)? {
        Answer::Error(error) => Err(format!("{line}: {error}")),
        answer => Ok(answer),
    }
}
