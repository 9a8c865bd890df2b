//! The client on shared memory, without a server.
#![cfg(feature = "shm")]

use std::time::{Duration, Instant};

use polder_client::{Client, Committed, Condition, Error, Event, Value};

/// A segment of the test's own, which is removed with it.
struct Segment(String);

impl Segment {
    fn new(name: &str) -> Segment {
        Segment(format!("shm:polder-client-{}-{name}", std::process::id()))
    }

    fn client(&self) -> Client {
        Client::connect(&format!("polder://{}?create=yes", self.0)).expect("attaches")
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _removed = polder_engine::Memory::remove(&self.0);
    }
}

#[tokio::test]
async fn calls_are_ready_at_once_in_the_database_that_they_name() {
    let segment = Segment::new("calls");
    let client = segment.client();
    for n in 0..5000 {
        client.db(n % 5).fire().incr("n");
    }
    for db in 0..5 {
        assert_eq!(client.db(db).get::<i64>("n").await.expect("reads"), 1000);
    }
    let db = client.db(3);
    db.set::<()>("k", "v", ("EX", 60)).await.expect("sets");
    assert_eq!(db.get::<Option<String>>("none").await.expect("reads"), None);
    assert_eq!(db.lpush::<i64>("k", "x").await.unwrap_err().code(), Some("WRONGTYPE"));
    let (set, count): (bool, i64) =
        db.transaction().call(("SET", "a", 1)).incr("a").send().await.expect("runs");
    assert_eq!((set, count), (true, 2));
    let values: Vec<Value> = db.pipeline().get("a").lpush("a", "x").send().await.expect("runs");
    assert!(matches!(&values[..], [Value::Bulk(two), Value::Error(_)] if two == b"2"), "{values:?}");
    let error = db.transaction().call(("SET", "a")).incr("a").send::<Value>().await.unwrap_err();
    assert!(error.to_string().contains("wrong number"), "{error}");
    assert_eq!(db.incr::<i64>("a").await.expect("is outside of the transaction"), 3);
    let free = Condition::KeyAbsent("lock".into());
    let take = || db.transaction_if([free.clone()]).set("lock", "me", ()).send::<(bool,)>();
    assert_eq!(take().await.expect("runs"), Committed::Yes((true,)));
    assert_eq!(take().await.expect("runs"), Committed::Unmet(vec![free.clone()]));
    db.hset::<i64>("h", [("f", 1.5)]).await.expect("sets");
    let map: std::collections::BTreeMap<String, f64> = db.hgetall("h").await.expect("reads");
    assert_eq!(map["f"], 1.5);
    let error = client.db(70_000).get::<Value>("k").await.unwrap_err();
    assert!(error.to_string().contains("SELECT 70000"), "{error}");
    // A script that selects moves no later call.
    db.call::<Value>(("EVAL", "redis.call('SELECT', 9)", 0)).await.expect("runs");
    assert_eq!(db.get::<i64>("a").await.expect("reads"), 3);
}

#[test]
fn many_threads_share_a_memory() {
    let segment = Segment::new("threads");
    let client = segment.client();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| assert!(client.db(1).incr::<i64>("n").wait().is_ok())));
        }
    });
    assert_eq!(client.db(1).get::<i64>("n").wait().expect("reads"), 4000);
}

#[tokio::test]
async fn blocking_calls_wait_in_a_thread_of_their_own() {
    let segment = Segment::new("blocking");
    let client = segment.client();
    let db = client.db(2);
    let popped = db.blpop::<Option<(String, i64)>>("l", 0.0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    db.rpush::<i64>("l", 7).await.expect("pushes");
    assert_eq!(popped.await.expect("pops"), Some(("l".into(), 7)));
    let begun = Instant::now();
    let late = db.within(Duration::from_millis(50)).blpop::<Value>("l", 0.0).await.unwrap_err();
    assert!(matches!(late, Error::TimedOut(_)) && begun.elapsed() < Duration::from_secs(2), "{late}");
    // A future that is dropped takes no element later.
    for _ in 0..20 {
        let dropped = db.blpop::<Value>("l", 0.0);
        assert!(tokio::time::timeout(Duration::from_millis(5), dropped).await.is_err());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(db.rpush::<i64>("l", "x").await.expect("pushes"), 1);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(db.llen::<i64>("l").await.expect("counts"), 1);
}

#[tokio::test]
async fn subscriptions_hear_over_shared_memory() {
    let segment = Segment::new("subscriptions");
    let client = segment.client();
    let mut news = client.subscribe(["news"]).expect("subscribes");
    let mut all = client.subscribe_patterns(["n*"]).expect("subscribes");
    assert_eq!((news.recv().await, all.recv().await), (Event::Ready, Event::Ready));
    assert_eq!(client.call::<i64>(("PUBLISH", "news", "one")).await.expect("publishes"), 2);
    assert!(matches!(news.recv().await, Event::Message { payload, .. } if payload == b"one"));
    assert!(matches!(all.recv().await, Event::Message { pattern: Some(_), .. }));
    drop(all);
    let until = Instant::now() + Duration::from_secs(5);
    while client.call::<i64>(("PUBLISH", "news", "two")).await.expect("publishes") != 1 {
        assert!(Instant::now() < until, "a subscription that was dropped still hears");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_memory_that_is_not_there_is_not_made_unless_asked_for() {
    let segment = Segment::new("absent");
    let error = Client::connect(&format!("polder://{}", segment.0)).err().expect("there is none");
    assert!(error.to_string().contains("there is no segment"), "{error}");
}

/// Prints how long an awaited GET takes.
#[tokio::test]
async fn a_get_of_shared_memory_is_quick() {
    let segment = Segment::new("speed");
    let db = segment.client().db(0);
    db.set::<()>("k", "value", ()).await.expect("sets");
    const CALLS: u32 = 200_000;
    let begun = Instant::now();
    for _ in 0..CALLS {
        let value: Vec<u8> = db.get("k").await.expect("reads");
        assert_eq!(value.len(), 5);
    }
    let each = begun.elapsed() / CALLS;
    eprintln!("GET awaited over shared memory: {each:?}");
    // The goal is 1 us; machines that run tests are busy.
    assert!(each < Duration::from_micros(20), "{each:?}");
}
