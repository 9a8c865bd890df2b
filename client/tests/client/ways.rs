//! One suite of tests through four ways: redis-server, a newer server (Valkey or Redis 8), `polder serve`, and shared memory.
//!
//! The assertions are the same for all. The one difference that a program can see is in [`Way::has_queue`]; docs/client.md
//! lists it. A way whose server is not installed or not built is left out, and says so.
#![cfg(feature = "shm")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::servers::Server;
use polder_client::{
    Client, Committed, Condition, Error, Event, Expiry, ScanCommand, Script, SetOptions, Stage, Subscription,
    Value,
};

/// A segment that is removed with the test.
struct Segment(String);

impl Segment {
    fn new(name: &str) -> Segment {
        Segment(format!("shm:polder-ways-{}-{name}", std::process::id()))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _removed = polder_engine::Memory::remove(&self.0);
    }
}

/// How the client reaches its data.
struct Way {
    url: String,
    /// Calls wait to be written, so that a jump overtakes, and a call that is taken back does not run.
    has_queue: bool,
    client: Client,
}

impl Way {
    fn new(url: String, has_queue: bool) -> Way {
        let client = Client::connect(&url).expect("connects");
        Way { url, has_queue, client }
    }
}

type Case = for<'w> fn(&'w Way) -> Pin<Box<dyn Future<Output = ()> + 'w>>;

/// The suite. Each case begins with empty databases.
const CASES: &[(&str, Case)] = &[
    ("strings", |way| Box::pin(strings(way))),
    ("collections", |way| Box::pin(collections(way))),
    ("replies are read as what is asked for", |way| Box::pin(replies_are_read_as_what_is_asked_for(way))),
    ("calls run in the database that they name", |way| {
        Box::pin(calls_run_in_the_database_that_they_name(way))
    }),
    ("refusals have their codes", |way| Box::pin(refusals_have_their_codes(way))),
    ("calls are sent in order", |way| Box::pin(calls_are_sent_in_order(way))),
    ("transactions", |way| Box::pin(transactions(way))),
    ("conditions", |way| Box::pin(conditions(way))),
    ("scripts", |way| Box::pin(scripts(way))),
    ("scans", |way| Box::pin(scans(way))),
    ("calls that wait", |way| Box::pin(calls_that_wait(way))),
    ("consumers", |way| Box::pin(consumers(way))),
    ("channels", |way| Box::pin(channels(way))),
    ("kept replies are fresh", |way| Box::pin(kept_replies_are_fresh(way))),
    ("callbacks", |way| Box::pin(callbacks(way))),
    ("many tasks", |way| Box::pin(many_tasks(way))),
];

async fn run(way: &Way) {
    for (name, case) in CASES {
        eprintln!("{}: {name}", way.url);
        way.client.call::<()>("FLUSHALL").await.expect("empties");
        tokio::time::timeout(Duration::from_secs(60), case(way))
            .await
            .unwrap_or_else(|_| panic!("{name} hangs over {}", way.url));
    }
}

async fn run_beside(server: Option<Server>) {
    let Some(server) = server else { return };
    run(&Way::new(format!("{}?cache_bytes_max=1000000", server.url()), true)).await;
}

/// The folder of what cargo builds, from the place of this test: `target/debug/deps`.
fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a program has a path");
    own.ancestors().nth(3).expect("it lies in target/PROFILE/deps").to_path_buf()
}

#[tokio::test]
async fn the_suite_holds_with_redis_server() {
    run_beside(Server::start(Path::new("redis-server"), &["--save", "", "--databases", "32"])).await;
}

#[tokio::test]
async fn the_suite_holds_with_a_newer_server() {
    let peers = target().join("peers");
    let known = ["valkey81", "redis8", "valkey/usr/bin/valkey-server"].map(|name| peers.join(name));
    match known.iter().find(|path| path.exists()) {
        Some(program) => run_beside(Server::start(program, &["--save", "", "--databases", "32"])).await,
        None => eprintln!("there is no newer server: run `xtask/needs.sh newer`; not tested"),
    }
}

#[tokio::test]
async fn the_suite_holds_with_polder_serve() {
    let segment = Segment::new("server");
    run_beside(polder(&segment)).await;
}

fn polder(segment: &Segment) -> Option<Server> {
    let program = target().join("debug/polder");
    if !program.exists() {
        eprintln!("there is no {}: run `cargo build -p polder`; not tested", program.display());
        return None;
    }
    Server::start(&program, &["serve", "--segment", &segment.0, "--threads", "1"])
}

#[tokio::test]
async fn the_suite_holds_with_shared_memory() {
    let segment = Segment::new("memory");
    run(&Way::new(format!("polder://{}?create=yes", segment.0), false)).await;
}

#[tokio::test]
async fn the_suite_holds_with_the_memory_behind_a_server() {
    let segment = Segment::new("behind");
    let Some(server) = polder(&segment) else { return };
    run(&Way::new(format!("{}?transport=auto", server.url()), false)).await;
}

#[tokio::test]
async fn a_server_without_a_memory_is_used_over_its_socket() {
    let Some(server) = Server::start(Path::new("redis-server"), &["--save", ""]) else { return };
    let client = Client::connect(&format!("{}?transport=auto", server.url())).expect("connects");
    client.db(3).set::<()>("k", "v", ()).await.expect("sets");
    assert!(client.stats().traffic.bytes_sent > 0, "{:?}", client.stats());
}

/// A server that names a segment of this machine, as one in a container may that has a segment of the same name.
#[tokio::test]
async fn a_memory_of_the_same_name_that_is_not_the_servers_is_left_alone() {
    let segment = Segment::new("other");
    let own = Client::connect(&format!("polder://{}?create=yes", segment.0)).expect("attaches");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let info = format!("# Server\r\nrun_id:0123456789abcdef\r\n# Polder\r\nsegment:{}\r\n", segment.0);
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let reply = format!("${}\r\n{info}\r\n", info.len());
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                while let Ok(count @ 1..) = std::io::Read::read(&mut socket, &mut room) {
                    let asked = String::from_utf8_lossy(&room[..count]).into_owned();
                    let reply = match () {
                        () if asked.contains("INFO") => reply.as_str(),
                        () if asked.contains("NUMSUB") => "*2\r\n$1\r\nc\r\n:0\r\n",
                        () => "+OK\r\n",
                    };
                    if std::io::Write::write_all(&mut socket, reply.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    let client = Client::connect(&format!("redis://127.0.0.1:{port}?transport=auto")).expect("connects");
    client.db(0).set::<()>("k", "v", ()).await.expect("sets, at the server");
    assert_eq!(own.db(0).get::<Option<String>>("k").await.expect("reads"), None);
}

async fn strings(way: &Way) {
    let db = way.client.db(1);
    db.set::<()>("k", "v", ("EX", 60)).await.expect("sets");
    assert!((59_000..=60_000).contains(&db.pttl::<i64>("k").await.expect("reads")));
    let once = SetOptions::new().if_absent().expiry(Expiry::In(Duration::from_secs(30)));
    assert!(!db.set::<bool>("k", "w", once).await.expect("is refused"));
    assert!(db.set::<bool>("lock", "me", once).await.expect("sets"));
    assert_eq!(db.append::<i64>("k", "al").await.expect("appends"), 3);
    assert_eq!(db.get::<String>("k").await.expect("reads"), "val");
    assert_eq!(db.get::<Option<String>>("none").await.expect("reads"), None);
    let bytes: Vec<u8> = (0..=255).cycle().take(2_000_000).collect();
    db.set::<()>("large", &bytes, ()).await.expect("sets");
    assert_eq!(db.get::<Vec<u8>>("large").await.expect("reads"), bytes);
    db.call::<()>(("MSET", "a", 1, "b", "")).await.expect("sets");
    assert_eq!(
        db.call::<Vec<Option<String>>>(("MGET", "a", "b", "c")).await.expect("reads"),
        [Some("1".into()), Some("".into()), None]
    );
    assert_eq!(db.incrby::<i64>("a", -3).await.expect("adds"), -2);
    assert_eq!(db.call::<f64>(("INCRBYFLOAT", "f", 0.25)).await.expect("adds"), 0.25);
    assert_eq!(db.del::<i64>(["a", "b", "c"]).await.expect("deletes"), 2);
    assert_eq!(db.type_of::<String>("k").await.expect("reads"), "string");
}

async fn collections(way: &Way) {
    let db = way.client.db(2);
    assert_eq!(db.hset::<i64>("h", [("f", 1.5), ("g", 2.0)]).await.expect("sets"), 2);
    let map: BTreeMap<String, f64> = db.hgetall("h").await.expect("reads");
    assert_eq!(map, BTreeMap::from([("f".into(), 1.5), ("g".into(), 2.0)]));
    assert_eq!(db.rpush::<i64>("l", ["a", "b", "c"]).await.expect("pushes"), 3);
    assert_eq!(db.lrange::<Vec<String>>("l", 0, -1).await.expect("reads"), ["a", "b", "c"]);
    assert_eq!(db.sadd::<i64>("s", ["x", "y", "x"]).await.expect("adds"), 2);
    let members: Vec<String> = db.smembers("s").await.expect("reads");
    assert_eq!(members.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["x".into(), "y".into()]));
    assert!(db.sismember::<bool>("s", "x").await.expect("reads"));
    assert_eq!(db.zadd::<i64>("z", [(1.5, "a"), (2.5, "b")]).await.expect("adds"), 2);
    let scores: BTreeMap<String, f64> = db.call(("ZRANGE", "z", 0, -1, "WITHSCORES")).await.expect("reads");
    assert_eq!(scores, BTreeMap::from([("a".into(), 1.5), ("b".into(), 2.5)]));
    assert_eq!(db.zscore::<Option<f64>>("z", "b").await.expect("reads"), Some(2.5));
    assert_eq!(db.call::<Option<f64>>(("ZSCORE", "z", "none")).await.expect("reads"), None);
    let popped: Vec<(String, f64)> = db.call(("ZPOPMIN", "z", 1)).await.expect("pops");
    assert_eq!(popped, [("a".into(), 1.5)]);
    assert_eq!(db.call::<i64>(("PFADD", "p", "a", "b")).await.expect("adds"), 1);
    assert_eq!(db.call::<i64>(("BITCOUNT", "none")).await.expect("counts"), 0);
    assert_eq!(db.call::<i64>("DBSIZE").await.expect("counts"), 5);
}

async fn replies_are_read_as_what_is_asked_for(way: &Way) {
    let db = way.client.db(3);
    db.call::<()>(("HSET", "h", "a", 1, "b", 2)).await.expect("sets");
    let (map, flat): (HashMap<String, u32>, Vec<String>) =
        (db.hgetall("h").await.expect("reads"), db.hgetall("h").await.expect("reads"));
    assert_eq!((map["a"], map["b"], flat.len()), (1, 2, 4));
    let script = "return {1, 'two', false, {3, {}}}";
    let (one, two, none, nested): (i64, String, Option<i64>, Value) =
        db.call(("EVAL", script, 0)).await.expect("runs");
    assert_eq!((one, &two[..], none), (1, "two", None));
    assert!(matches!(&nested, Value::Array(items) if items.len() == 2), "{nested:?}");
    let error = db.hgetall::<i64>("h").await.unwrap_err();
    assert!(matches!(error, Error::Unexpected { .. }), "{error}");
    assert!(matches!(db.call::<Value>(("PING", "x")).await, Ok(Value::Bulk(text)) if text == b"x"));
    assert!(matches!(db.call::<Value>("PING").await, Ok(Value::Status(text)) if text == b"PONG"));
    db.call::<()>(("SET", "words", "not a number")).await.expect("sets");
    assert!(matches!(db.get::<i64>("words").await, Err(Error::Unexpected { .. })));
}

async fn calls_run_in_the_database_that_they_name(way: &Way) {
    let client = &way.client;
    let calls: Vec<_> = (0..5000).map(|n| client.db(n % 5).incr::<i64>("n")).collect();
    for call in calls {
        call.await.expect("counts");
    }
    for db in 0..5 {
        assert_eq!(client.db(db).get::<i64>("n").await.expect("reads"), 1000, "database {db}");
    }
    // A script that selects moves no later call.
    let db = client.db(1);
    let script = db.call::<Value>(("EVAL", "redis.call('SELECT', 9)", 0));
    let set = db.set::<()>("k", "one", ());
    script.await.expect("runs");
    set.await.expect("sets");
    assert_eq!(client.db(1).get::<Option<String>>("k").await.expect("reads"), Some("one".into()));
    assert_eq!(client.db(9).get::<Option<String>>("k").await.expect("reads"), None);
    // One that the server refuses refuses its own calls only.
    let (bad, good) = (client.db(70_000).set::<()>("k", "v", ()), client.db(3).set::<()>("k", "v", ()));
    let error = bad.await.unwrap_err();
    assert!(matches!(&error, Error::Refused(text) if text.contains("SELECT 70000")), "{error}");
    good.await.expect("sets");
    assert!(matches!(client.call::<()>(("SELECT", 1)).await, Err(Error::Usage(_))));
    client.db(3).call::<i64>(("COPY", "k", "k", "DB", 4)).await.expect("copies");
    assert_eq!(client.db(4).get::<String>("k").await.expect("reads"), "v");
}

async fn refusals_have_their_codes(way: &Way) {
    let db = way.client.db(0);
    db.set::<()>("k", "v", ()).await.expect("sets");
    assert_eq!(db.lpush::<i64>("k", "x").await.unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(db.incr::<i64>("k").await.unwrap_err().code(), Some("ERR"));
    let error = db.call::<()>(("GET", "a", "b")).await.unwrap_err();
    assert!(error.to_string().contains("wrong number of arguments"), "{error}");
    let error = db.call::<()>("NOSUCH").await.unwrap_err();
    assert!(error.to_string().contains("unknown command") && !error.may_retry(), "{error}");
    let error = db.call::<()>(("EVAL", "return redis.error_reply('MINE no')", 0)).await.unwrap_err();
    assert_eq!(error.code(), Some("MINE"));
    let values: Vec<Value> = db.pipeline().get("k").lpush("k", "x").get("k").send().await.expect("runs");
    assert!(
        matches!(&values[..], [Value::Bulk(_), Value::Error(text), Value::Bulk(_)] if text.starts_with(b"WRONGTYPE")),
        "{values:?}"
    );
    assert!(matches!(db.pipeline().send::<Value>().await, Err(Error::Usage(_))));
}

async fn calls_are_sent_in_order(way: &Way) {
    let db = way.client.db(0);
    for n in 0..1000 {
        db.fire().call(("RPUSH", "fired", n));
    }
    assert_eq!(db.lrange::<Vec<u32>>("fired", 0, -1).await.expect("reads"), (0..1000).collect::<Vec<_>>());
    let later = db.rpush::<i64>("l", "normal");
    let first = db.jump().rpush::<i64>("l", "jumped");
    later.await.expect("pushes");
    first.await.expect("pushes");
    let expected = if way.has_queue { ["jumped", "normal"] } else { ["normal", "jumped"] };
    assert_eq!(db.lrange::<Vec<String>>("l", 0, -1).await.expect("reads"), expected);
    // Nothing is written before the runtime has run the driver.
    drop(db.incr::<i64>("dropped"));
    let ran = db.get::<Option<i64>>("dropped").await.expect("reads");
    assert_eq!(ran, (!way.has_queue).then_some(1));
    // A future is no task: a call is made when it is written down, not when it is awaited.
    let (one, two) = (db.incr::<i64>("n"), db.incr::<i64>("n"));
    assert_eq!((two.await.expect("counts"), one.await.expect("counts")), (2, 1));
}

async fn transactions(way: &Way) {
    let db = way.client.db(2);
    let (set, count): (bool, i64) =
        db.transaction().set("a", 1, ()).incrby("a", 4).send().await.expect("runs");
    assert_eq!((set, count), (true, 5));
    let error = db.transaction().call(("SET", "a")).incr("a").send::<Value>().await.unwrap_err();
    assert!(error.to_string().contains("wrong number of arguments"), "{error}");
    assert_eq!(db.get::<i64>("a").await.expect("reads"), 5);
    let values: Vec<Value> = db.transaction().incr("a").lpush("a", "x").incr("a").send().await.expect("runs");
    assert!(matches!(&values[..], [Value::Integer(6), Value::Error(_), Value::Integer(7)]), "{values:?}");
    let popped: Vec<Value> =
        db.transaction().call(("BLPOP", "none", 0)).incr("a").send().await.expect("does not wait");
    assert!(matches!(&popped[..], [Value::Null, Value::Integer(8)]), "{popped:?}");
}

async fn conditions(way: &Way) {
    let db = way.client.db(6);
    let is_free = Condition::KeyAbsent("lock".into());
    let take =
        |owner: &'static str| db.transaction_if([is_free.clone()]).set("lock", owner, ()).incr("taken");
    assert_eq!(take("a").send::<(bool, i64)>().await.expect("runs"), Committed::Yes((true, 1)));
    assert_eq!(take("b").send::<(bool, i64)>().await.expect("runs"), Committed::Unmet(vec![is_free]));
    let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(add_by_conditions(db.clone()))).collect();
    for task in tasks {
        task.await.expect("ends");
    }
    assert_eq!(db.get::<i64>("n").await.expect("reads"), 40);
}

/// Adds ten, each one to the number that it has read.
async fn add_by_conditions(db: polder_client::Db) {
    let mut added = 0;
    while added < 10 {
        let have: Option<i64> = db.get("n").await.expect("reads");
        let condition = match have {
            Some(n) => Condition::ValueEquals("n".into(), n.to_string().into()),
            None => Condition::KeyAbsent("n".into()),
        };
        let done = db
            .transaction_if([condition])
            .set("n", have.unwrap_or(0) + 1, ())
            .send::<Value>()
            .await
            .expect("runs");
        added += i32::from(matches!(done, Committed::Yes(_)));
    }
}

async fn scripts(way: &Way) {
    let script = Script::new("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}");
    for n in 1..=2 {
        let reply: (String, String, i64) = script.run(&way.client.db(1), "k", "a").await.expect("runs");
        assert_eq!(reply, ("k".into(), "a".into(), n));
    }
    assert_eq!(way.client.call::<Vec<i64>>(("SCRIPT", "EXISTS", script.sha())).await.expect("asks"), [1]);
    way.client.call::<()>(("SCRIPT", "FLUSH")).await.expect("empties");
    assert_eq!(
        script.run::<(String, String, i64)>(&way.client.db(1), "k", "a").await.expect("is loaded again").2,
        3
    );
    let error = way.client.db(1).call::<()>(("EVALSHA", "0".repeat(40), 0)).await.unwrap_err();
    assert_eq!(error.code(), Some("NOSCRIPT"));
}

async fn scans(way: &Way) {
    let db = way.client.db(2);
    for n in 0..500 {
        db.fire().set(format!("key:{n}"), n, ());
        db.fire().sadd("set", n);
    }
    let (mut scan, mut found) = (db.scan().matching("key:*").count(50), BTreeSet::new());
    while let Some(keys) = scan.step().await.expect("scans") {
        found.extend(keys);
    }
    assert_eq!(found.len(), 500);
    let (mut scan, mut found) = (db.scan_in(ScanCommand::Sscan, "set"), BTreeSet::new());
    while let Some(members) = scan.step().await.expect("scans") {
        found.extend(members);
    }
    assert_eq!(found.len(), 500);
}

async fn calls_that_wait(way: &Way) {
    let db = way.client.db(7);
    let waiting: Vec<_> =
        (0..3).map(|n| db.blpop::<Option<(String, String)>>(format!("l{n}"), 0.0)).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for n in 0..3 {
        db.rpush::<i64>(format!("l{n}"), n).await.expect("pushes");
    }
    for (n, call) in waiting.into_iter().enumerate() {
        assert_eq!(call.await.expect("pops"), Some((format!("l{n}"), n.to_string())));
    }
    assert_eq!(db.blpop::<Option<(String, String)>>("none", 0.02).await.expect("waits"), None);
    // A deadline of its own, and a future that is dropped: neither takes an element later.
    let begun = Instant::now();
    let late = db.within(Duration::from_millis(50)).blpop::<Value>("l", 0.0).await.unwrap_err();
    assert!(
        matches!(&late, Error::TimedOut(cause) if matches!(cause.stage, Stage::Server | Stage::Runtime)),
        "{late}"
    );
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(tokio::time::timeout(Duration::from_millis(50), db.blpop::<Value>("l", 0.0)).await.is_err());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(db.rpush::<i64>("l", "x").await.expect("pushes"), 1);
    assert_eq!(db.llen::<i64>("l").await.expect("counts"), 1);
    let moved = db.call::<Option<String>>(("BLMOVE", "from", "to", "LEFT", "RIGHT", 0));
    tokio::time::sleep(Duration::from_millis(20)).await;
    db.fire().rpush("from", "y");
    assert_eq!(moved.await.expect("moves"), Some("y".into()));
    assert_eq!(db.lrange::<Vec<String>>("to", 0, -1).await.expect("reads"), ["y"]);
}

async fn consumers(way: &Way) {
    let db = way.client.db(5);
    let mut consumer = db.consumer("jobs", "workers", "a").count(2);
    consumer.create_group("0").await.expect("makes the group");
    consumer.create_group("0").await.expect("it is there");
    for n in 1..=3 {
        db.call::<String>(("XADD", "jobs", format!("{n}-0"), "n", n)).await.expect("adds");
    }
    let first = consumer.next().await.expect("reads");
    assert_eq!(first.iter().map(|entry| &entry.id[..]).collect::<Vec<_>>(), ["1-0", "2-0"]);
    assert_eq!(first[0].fields, [(b"n".to_vec(), b"1".to_vec())]);
    assert_eq!(consumer.acknowledge(&first[0].id).await.expect("acknowledges"), 1);
    // The program begins anew: first what was not acknowledged.
    let mut again = db.consumer("jobs", "workers", "a");
    assert_eq!(again.next().await.expect("reads")[0].id, "2-0");
    assert_eq!(again.next().await.expect("reads")[0].id, "3-0");
    // A future that is dropped loses nothing.
    assert!(tokio::time::timeout(Duration::from_millis(50), again.next()).await.is_err());
    let waiting = tokio::spawn(async move { again.next().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    db.call::<String>(("XADD", "jobs", "4-0", "n", 4)).await.expect("adds");
    assert_eq!(waiting.await.expect("ends").expect("reads")[0].id, "4-0");
}

/// The next message's payload.
async fn payload(subscription: &mut Subscription) -> String {
    match subscription.recv().await {
        Event::Message { payload, .. } => String::from_utf8(payload).expect("UTF-8"),
        other => panic!("{other:?} in place of a message"),
    }
}

async fn channels(way: &Way) {
    let client = &way.client;
    let mut news = client.subscribe(["news", "weather"]).expect("subscribes");
    let mut all = client.subscribe_patterns(["n*"]).expect("subscribes");
    let mut shard = client.subscribe_shards(["s"]).expect("subscribes");
    for subscription in [&mut news, &mut all, &mut shard] {
        assert_eq!(subscription.recv().await, Event::Ready);
    }
    assert_eq!(client.call::<i64>(("PUBLISH", "news", "one")).await.expect("publishes"), 2);
    let heard = Event::Message { channel: "news".into(), pattern: Some("n*".into()), payload: "one".into() };
    assert_eq!((payload(&mut news).await, all.recv().await), ("one".into(), heard));
    assert_eq!(client.call::<i64>(("SPUBLISH", "s", "two")).await.expect("publishes"), 1);
    assert_eq!(payload(&mut shard).await, "two");
    for n in 0..1000 {
        client.db(0).fire().call(("PUBLISH", "weather", n));
    }
    for n in 0..1000 {
        assert_eq!(payload(&mut news).await, n.to_string());
    }
    drop(all);
    let until = Instant::now() + Duration::from_secs(20);
    while client.call::<i64>(("PUBLISH", "news", "three")).await.expect("publishes") != 1 {
        assert!(Instant::now() < until, "a subscription that was dropped still hears");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(client.subscribe::<&str>([]), Err(Error::Usage(_))));
}

async fn kept_replies_are_fresh(way: &Way) {
    let other = Client::connect(&way.url).expect("connects");
    let db = way.client.db(2).cached();
    for n in 0..100 {
        db.set::<()>("k", n, ()).await.expect("sets");
        assert_eq!(db.get::<i64>("k").await.expect("reads"), n);
        assert_eq!(db.get::<i64>("k").await.expect("reads"), n);
    }
    other.db(2).set::<()>("k", "two", ()).await.expect("sets");
    let until = Instant::now() + Duration::from_secs(20);
    while db.get::<String>("k").await.expect("reads") != "two" {
        assert!(Instant::now() < until, "the change is never seen");
        tokio::task::yield_now().await;
    }
}

async fn callbacks(way: &Way) {
    let db = way.client.db(1);
    let (tell, told) = std::sync::mpsc::channel::<Result<i64, Error>>();
    let mut ends = Vec::new();
    for _ in 0..100 {
        let tell = tell.clone();
        db.incr::<i64>("n").callback(move |count| tell.send(count).expect("the test listens"));
    }
    // One that panics ends by itself, one may make calls, and a refusal is told as well.
    db.incr::<i64>("n").callback(|_| panic!("a callback of the test panics: this line belongs to it"));
    let (inner, again) = (db.clone(), tell.clone());
    db.set::<()>("text", "x", ()).callback(move |set| {
        set.expect("sets");
        inner.incr::<i64>("text").callback(move |refusal| again.send(refusal).expect("the test listens"));
    });
    let gather = move || {
        ends.extend(
            (0..101).map(|_| told.recv_timeout(Duration::from_secs(20)).expect("each callback runs")),
        );
        (ends, told)
    };
    let (ends, told) = tokio::task::spawn_blocking(gather).await.expect("gathers");
    let counts: Vec<i64> = ends.iter().filter_map(|end| end.as_ref().ok().copied()).collect();
    assert_eq!(counts, (1..=100).collect::<Vec<_>>(), "in the order of the calls");
    assert_eq!(ends.iter().find_map(|end| end.as_ref().err()).map(|error| error.code()), Some(Some("ERR")));
    // The last handle on the client may be the callback's own.
    let last = Client::connect(&way.url).expect("connects");
    last.db(1).incr::<i64>("n").callback(move |count| drop(tell.send(count)));
    drop(last);
    let (count, told) =
        tokio::task::spawn_blocking(move || (told.recv_timeout(Duration::from_secs(20)), told))
            .await
            .expect("listens");
    assert_eq!(count.expect("it runs").expect("counts"), 102);
    assert!(told.recv().is_err(), "each callback runs once");
}

async fn many_tasks(way: &Way) {
    let tasks: Vec<_> = (0..64u32)
        .map(|task| {
            let db = way.client.db(task % 16);
            tokio::spawn(async move {
                for n in 0..50 {
                    let words = format!("{task}:{n}");
                    assert_eq!(db.call::<String>(("ECHO", &words)).await.expect("replies"), words);
                    db.incr::<i64>("n").await.expect("counts");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("ends");
    }
    for db in 0..16 {
        assert_eq!(way.client.db(db).get::<i64>("n").await.expect("reads"), 200);
    }
}
