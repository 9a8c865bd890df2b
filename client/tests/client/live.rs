//! The client against a real server: redis-server, or the program that `POLDER_CLIENT_SERVER` names.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use polder_client::{
    Client, Committed, Condition, Error, Event, Expiry, Policy, Script, SetOptions, Stage, Value, ZaddOptions,
};

/// A server of the test's own, which ends with it.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Option<Server> {
        Server::start_with(&[])
    }

    /// `None` where no server is installed: the test then says so and passes.
    fn start_with(more: &[&str]) -> Option<Server> {
        let port = polder_testbase::free_port().ok()?;
        Server::start_at(port, more)
    }

    fn start_at(port: u16, more: &[&str]) -> Option<Server> {
        let program = std::env::var("POLDER_CLIENT_SERVER").unwrap_or_else(|_| "redis-server".into());
        let mut words = program.split(' ');
        let spawned = Command::new(words.next()?)
            .args(words)
            .args(["--port", &port.to_string(), "--save", "", "--databases", "32"])
            .args(more)
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = spawned else {
            eprintln!("{program} is not installed: not tested");
            return None;
        };
        let server = Server { child, port };
        let until = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[tokio::test]
async fn calls_run_in_the_database_that_they_name() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let mut calls = Vec::new();
    for n in 0..5000 {
        calls.push(client.db(n % 5).call::<i64>(("INCR", "n")));
    }
    for call in calls {
        call.await.expect("counts");
    }
    for db in 0..5 {
        assert_eq!(client.db(db).call::<i64>(("GET", "n")).await.expect("reads"), 1000, "database {db}");
    }
}

#[tokio::test]
async fn a_script_that_selects_moves_no_later_call() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(1);
    let script = db.call::<Value>(("EVAL", "redis.call('SELECT', 9)", 0));
    let set = db.call::<()>(("SET", "k", "one"));
    let (script, set) = (script.await, set.await);
    script.expect("runs");
    set.expect("sets");
    assert_eq!(client.db(1).call::<Option<String>>(("GET", "k")).await.expect("reads"), Some("one".into()));
    assert_eq!(client.db(9).call::<Option<String>>(("GET", "k")).await.expect("reads"), None);
}

#[tokio::test]
async fn a_database_that_the_server_refuses_refuses_its_calls_only() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let bad = client.db(99).call::<()>(("SET", "k", "v"));
    let good = client.db(3).call::<()>(("SET", "k", "v"));
    let error = bad.await.unwrap_err();
    assert!(matches!(&error, Error::Refused(text) if text.contains("SELECT 99")), "{error}");
    good.await.expect("sets");
    assert_eq!(client.db(0).call::<bool>(("EXISTS", "k")).await.ok(), Some(false));
}

#[tokio::test]
async fn what_is_fired_is_done_and_a_dropped_call_is_taken_back() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(0);
    // Nothing has been written yet: the runtime has not run the driver since.
    drop(db.call::<i64>(("INCR", "dropped")));
    for _ in 0..1000 {
        db.fire().call(("INCR", "fired"));
    }
    assert_eq!(db.call::<i64>(("GET", "fired")).await.expect("reads"), 1000);
    assert_eq!(db.call::<Option<i64>>(("GET", "dropped")).await.expect("reads"), None);
}

#[tokio::test]
async fn a_jump_overtakes_what_is_not_written() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(0);
    let later = db.call::<i64>(("RPUSH", "l", "normal"));
    let first = db.jump().call::<i64>(("RPUSH", "l", "jumped"));
    later.await.expect("pushes");
    first.await.expect("pushes");
    assert_eq!(db.call::<Vec<String>>(("LRANGE", "l", 0, -1)).await.expect("reads"), ["jumped", "normal"]);
}

#[tokio::test]
async fn a_transaction_is_one_call() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(2);
    let (set, count): (bool, i64) =
        db.transaction().call(("SET", "a", 1)).call(("INCRBY", "a", 4)).send().await.expect("runs");
    assert_eq!((set, count), (true, 5));
    let error = db.transaction().call(("SET", "a")).call(("INCR", "a")).send::<Value>().await.unwrap_err();
    assert!(error.to_string().contains("wrong number of arguments"), "{error}");
    let values: Vec<Value> =
        db.pipeline().call(("GET", "a")).call(("LPUSH", "a", "x")).send().await.expect("runs");
    assert!(matches!(&values[..], [Value::Bulk(five), Value::Error(_)] if five == b"5"), "{values:?}");
}

#[tokio::test]
async fn a_call_that_waits_in_the_server_holds_up_no_other() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?timeout_ms=300", server.url())).expect("connects");
    let db = client.db(7);
    let waiting: Vec<_> =
        (0..3).map(|n| db.call::<Option<(String, String)>>(("BLPOP", format!("l{n}"), 0))).collect();
    // Longer than the client's deadline, which calls that wait do not have.
    tokio::time::sleep(Duration::from_millis(400)).await;
    for n in 0..3 {
        db.call::<i64>(("RPUSH", format!("l{n}"), n)).await.expect("pushes");
    }
    for (n, call) in waiting.into_iter().enumerate() {
        assert_eq!(call.await.expect("pops"), Some((format!("l{n}"), n.to_string())));
    }
    // A deadline of its own, and a future that is dropped: neither takes an element later.
    let late = db.within(Duration::from_millis(50)).call::<Value>(("BLPOP", "l", 0)).await.unwrap_err();
    assert!(matches!(late, Error::TimedOut(_)), "{late}");
    let dropped = db.call::<Value>(("BLPOP", "l", 0));
    assert!(tokio::time::timeout(Duration::from_millis(50), dropped).await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(db.call::<i64>(("RPUSH", "l", "x")).await.expect("pushes"), 1);
    assert_eq!(db.call::<i64>(("LLEN", "l")).await.expect("counts"), 1);
}

#[tokio::test]
async fn a_subscription_survives_its_server_and_says_what_it_missed() {
    let Some(server) = Server::start() else { return };
    let port = server.port;
    let client = Client::connect(&server.url()).expect("connects");
    let mut news = client.subscribe(["news", "weather"]).expect("subscribes");
    let mut all = client.subscribe_patterns(["n*"]).expect("subscribes");
    assert_eq!((news.recv().await, all.recv().await), (Event::Ready, Event::Ready));
    assert_eq!(client.call::<i64>(("PUBLISH", "news", "one")).await.expect("publishes"), 2);
    let message = |pattern: Option<&str>, payload: &str| Event::Message {
        channel: "news".into(),
        pattern: pattern.map(Into::into),
        payload: payload.into(),
    };
    assert_eq!((news.recv().await, all.recv().await), (message(None, "one"), message(Some("n*"), "one")));
    drop(server);
    let Some(_server) = Server::start_at(port, &[]) else { return };
    assert_eq!((news.recv().await, all.recv().await), (Event::Missed, Event::Missed));
    assert_eq!((news.recv().await, all.recv().await), (Event::Ready, Event::Ready));
    client.call::<i64>(("PUBLISH", "news", "two")).await.expect("publishes");
    assert_eq!((news.recv().await, all.recv().await), (message(None, "two"), message(Some("n*"), "two")));
    drop(all);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(client.call::<i64>(("PUBLISH", "news", "three")).await.expect("publishes"), 1);
}

#[tokio::test]
async fn a_transaction_runs_only_if_its_conditions_hold() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(6);
    let is_free = Condition::KeyAbsent("lock".into());
    let take = |owner: &'static str| {
        db.transaction_if([is_free.clone()]).call(("SET", "lock", owner)).call(("INCR", "taken"))
    };
    assert_eq!(take("a").send::<(bool, i64)>().await.expect("runs"), Committed::Yes((true, 1)));
    assert_eq!(take("b").send::<(bool, i64)>().await.expect("runs"), Committed::Unmet(vec![is_free]));
    // Many tasks add one to a number that they have read: no addition is lost.
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    loop {
                        let have: Option<i64> = db.call(("GET", "n")).await.expect("reads");
                        let condition = match have {
                            Some(n) => Condition::ValueEquals("n".into(), n.to_string().into()),
                            None => Condition::KeyAbsent("n".into()),
                        };
                        let added = db
                            .transaction_if([condition])
                            .call(("SET", "n", have.unwrap_or(0) + 1))
                            .send::<Value>()
                            .await;
                        if matches!(added.expect("runs"), Committed::Yes(_)) {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("ends");
    }
    assert_eq!(db.call::<i64>(("GET", "n")).await.expect("reads"), 80);
}

#[tokio::test]
async fn a_script_is_loaded_where_it_is_not_known() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let script = Script::new("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}");
    for n in 1..=2 {
        let reply: (String, String, i64) = script.run(&client.db(1), "k", "a").await.expect("runs");
        assert_eq!(reply, ("k".into(), "a".into(), n));
    }
    assert_eq!(client.call::<Vec<i64>>(("SCRIPT", "EXISTS", script.sha())).await.expect("asks"), [1]);
}

#[tokio::test]
async fn a_scan_finds_all_keys() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(2);
    for n in 0..500 {
        db.fire().call(("SET", format!("key:{n}"), n));
    }
    db.call::<()>(("SET", "other", 1)).await.expect("sets");
    let (mut scan, mut found) = (db.scan().matching("key:*").count(50), std::collections::BTreeSet::new());
    while let Some(keys) = scan.step().await.expect("scans") {
        found.extend(keys);
    }
    assert_eq!(found.len(), 500);
}

/// Whether a call has timed out since the machine did not run its driver: by more than 20 ms too late.
fn is_of_a_stall(error: &Error) -> bool {
    let is_late = |lag: Duration| lag > Duration::from_millis(20);
    matches!(error, Error::TimedOut(cause) if cause.stage == Stage::Runtime && is_late(cause.driver_lag))
}

/// Whether a call has timed out before it was written.
fn is_of_the_queue(error: &Error) -> bool {
    matches!(error, Error::TimedOut(cause) if cause.stage == Stage::Queue) || is_of_a_stall(error)
}

#[tokio::test]
async fn a_stopped_server_is_named_as_the_stage() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(0).within(Duration::from_millis(100));
    db.call::<()>(("SET", "k", "v")).await.expect("sets");
    server.signal("-STOP");
    // A server stops some time after its signal; and a stall of the machine makes the driver late, which is another stage.
    let (cause, took) = loop {
        let begun = Instant::now();
        match db.call::<Value>(("GET", "k")).await {
            Ok(_) => {}
            Err(error) if is_of_a_stall(&error) => {}
            Err(Error::TimedOut(cause)) => break (cause, begun.elapsed()),
            Err(error) => panic!("{error}"),
        }
    };
    server.signal("-CONT");
    assert_eq!(cause.stage, Stage::Server, "{cause}");
    let punctual = took - cause.driver_lag;
    assert!(took >= Duration::from_millis(100) && punctual < Duration::from_millis(200), "{took:?}, {cause}");
    // The late reply belongs to the call that gave up, not to the next one.
    assert_eq!(client.db(0).call::<i64>(("INCR", "n")).await.expect("counts"), 1);
}

#[tokio::test]
async fn a_client_outlives_its_server() {
    let Some(server) = Server::start() else { return };
    let port = server.port;
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(4);
    db.call::<()>(("SET", "k", "v")).await.expect("sets");
    drop(server);
    let waiting = db.call::<Option<String>>(("GET", "k"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let error = db.policy(Policy::FailFast).call::<Value>(("GET", "k")).await.unwrap_err();
    assert!(matches!(error, Error::NotSent(_)), "{error}");
    let Some(_server) = Server::start_at(port, &[]) else { return };
    assert_eq!(waiting.await.expect("reads, the key is gone with its server"), None);
    db.call::<()>(("SET", "k", "again")).await.expect("sets");
}

#[tokio::test]
async fn a_refused_login_ends_the_calls_at_once() {
    let Some(server) = Server::start_with(&["--requirepass", "secret"]) else { return };
    let client =
        Client::connect(&format!("redis://:wrong@127.0.0.1:{}", server.port)).expect("reads the URL");
    let error = client.call::<Value>(("GET", "k")).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(text) if text.starts_with("WRONGPASS")), "{error}");
    let client = Client::connect(&format!("redis://:secret@127.0.0.1:{}", server.port)).expect("connects");
    client.call::<()>(("SET", "k", "v")).await.expect("sets");
}

#[test]
fn a_program_without_a_runtime_waits_for_its_calls() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect_in_thread(&server.url()).expect("connects");
    std::thread::scope(|scope| {
        for db in 0..4 {
            let client = &client;
            scope.spawn(move || {
                for n in 1..=500 {
                    assert_eq!(client.db(db).call::<i64>(("INCR", "n")).wait().expect("counts"), n);
                }
            });
        }
    });
}

#[test]
fn a_full_queue_refuses_or_waits_as_the_policy_says() {
    let Some(server) = Server::start() else { return };
    server.signal("-STOP");
    let client =
        Client::connect_in_thread(&format!("{}?queue_calls_max=10", server.url())).expect("connects");
    let db = client.db(0);
    let calls: Vec<_> = (0..10).map(|_| db.call::<i64>(("INCR", "n"))).collect();
    let error = db.call::<i64>(("INCR", "n")).wait().unwrap_err();
    assert!(matches!(&error, Error::NotSent(text) if text.contains("queue_calls_max")), "{error}");
    let late = db
        .policy(Policy::Block)
        .within(Duration::from_millis(50))
        .call::<i64>(("INCR", "n"))
        .wait()
        .unwrap_err();
    assert!(is_of_the_queue(&late), "{late}");
    let blocked = db.policy(Policy::Block).call::<i64>(("INCR", "n"));
    server.signal("-CONT");
    assert_eq!(blocked.wait().expect("counts"), 11);
    assert_eq!(calls.into_iter().map(|call| call.wait().expect("counts")).max(), Some(10));
}

#[tokio::test]
async fn a_cached_read_is_made_once_until_its_key_changes() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?cache_bytes_max=1000000", server.url())).expect("connects");
    let other = Client::connect(&server.url()).expect("connects");
    let db = client.db(2).cached();
    other.db(2).call::<()>(("SET", "k", "one")).await.expect("sets");
    // The first call may go out before the connection tracks.
    client.call::<()>("PING").await.expect("is up");
    for _ in 0..10 {
        assert_eq!(db.call::<String>(("GET", "k")).await.expect("reads"), "one");
    }
    let stats = client.cache_stats();
    assert_eq!((stats.hits, stats.misses, stats.entries), (9, 1, 1), "{stats:?}");
    other.db(2).call::<()>(("SET", "k", "two")).await.expect("sets");
    let until = Instant::now() + Duration::from_secs(5);
    while db.call::<String>(("GET", "k")).await.expect("reads") != "two" {
        assert!(Instant::now() < until, "the change is never seen");
        tokio::task::yield_now().await;
    }
    // Own writes are seen at once, whenever the server tells of them.
    for n in 0..100 {
        db.call::<()>(("SET", "k", n)).await.expect("sets");
        assert_eq!(db.call::<i64>(("GET", "k")).await.expect("reads"), n);
    }
    let flood: Vec<_> = (0..100).map(|_| db.call::<Option<String>>(("GET", "absent"))).collect();
    for call in flood {
        assert_eq!(call.await.expect("reads"), None);
    }
    let calls = other.call::<String>(("INFO", "commandstats")).await.expect("asks");
    let gets = calls
        .lines()
        .find(|line| line.starts_with("cmdstat_get:"))
        .and_then(|line| line.split(['=', ',']).nth(1))
        .unwrap_or_default();
    assert!(gets.parse::<u32>().is_ok_and(|gets| gets < 120), "{gets} GETs reached the server");
}

#[test]
fn a_runtime_that_ends_leaves_no_call_waiting() {
    let Some(server) = Server::start() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let client = runtime.block_on(async { Client::connect(&server.url()).expect("connects") });
    client.call::<()>("PING").wait().expect("is up");
    server.signal("-STOP");
    let outstanding = client.call::<Value>(("GET", "k"));
    let waiter = std::thread::spawn(move || outstanding.wait());
    std::thread::sleep(Duration::from_millis(50));
    runtime.shutdown_timeout(Duration::from_secs(1));
    assert!(waiter.join().expect("ends").is_err());
    let error = client.call::<Value>(("GET", "k")).wait().unwrap_err();
    assert!(matches!(&error, Error::NotSent(text) if text.contains("driver")), "{error}");
    server.signal("-CONT");
}

#[tokio::test]
async fn short_deadlines_of_some_calls_do_not_end_the_connection_of_others() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    client.call::<()>("PING").await.expect("is up");
    server.signal("-STOP");
    let patient = client.call::<i64>(("INCR", "n"));
    for _ in 0..10 {
        let short = client.db(0).within(Duration::from_millis(5)).call::<Value>(("GET", "n"));
        assert!(matches!(short.await.unwrap_err(), Error::TimedOut(_)));
    }
    server.signal("-CONT");
    assert_eq!(patient.await.expect("counts"), 1);
}

#[tokio::test]
async fn a_refused_subscription_says_so_and_leaves_the_others() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    client.call::<()>(("ACL", "SETUSER", "default", "resetchannels", "&allowed*")).await.expect("sets");
    let mut allowed = client.subscribe(["allowed"]).expect("subscribes");
    assert_eq!(allowed.recv().await, Event::Ready);
    let mut refused = client.subscribe(["secret"]).expect("is asked for");
    assert!(matches!(refused.recv().await, Event::Refused(text) if text.starts_with("NOPERM")));
    client.call::<i64>(("PUBLISH", "allowed", "x")).await.expect("publishes");
    assert!(matches!(allowed.recv().await, Event::Message { .. }));
}

#[tokio::test]
async fn calls_that_were_fired_are_sent_after_their_client_was_dropped() {
    let port = polder_testbase::free_port().expect("a port");
    let url = format!("redis://127.0.0.1:{port}");
    let by_task = Client::connect(&url).expect("reads the URL");
    let by_thread = Client::connect_in_thread(&url).expect("starts");
    for (client, db) in [(by_task, 1), (by_thread, 2)] {
        for _ in 0..100 {
            client.db(db).fire().call(("INCR", "n"));
        }
    }
    // Both clients are gone, and nothing listens yet.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let Some(server) = Server::start_at(port, &[]) else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let until = Instant::now() + Duration::from_secs(5);
    for db in 1..=2 {
        while client.db(db).call::<Option<i64>>(("GET", "n")).await.expect("reads") != Some(100) {
            assert!(Instant::now() < until, "calls of database {db} were lost");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_dead_link_is_found_behind_calls_without_a_deadline() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?ping_interval_ms=300", server.url())).expect("connects");
    let db = client.db(0).without_deadline();
    db.call::<()>(("SET", "k", "v")).await.expect("sets");
    server.signal("-STOP");
    let begun = Instant::now();
    let error = tokio::time::timeout(Duration::from_secs(60), db.call::<i64>(("INCR", "n")))
        .await
        .expect("ends")
        .unwrap_err();
    server.signal("-CONT");
    assert!(matches!(&error, Error::OutcomeUnknown(text) if text.contains("PING")), "{error}");
    assert!(
        begun.elapsed() >= Duration::from_millis(900),
        "a server may be busy for as long: {:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_call_that_waits_in_the_server_is_not_ended_by_pings() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?ping_interval_ms=300", server.url())).expect("connects");
    let popped = client.call::<Option<(String, String)>>(("BLPOP", "l", 0));
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.call::<i64>(("RPUSH", "l", "x")).await.expect("pushes");
    assert_eq!(popped.await.expect("pops"), Some(("l".into(), "x".into())));
}

#[tokio::test]
async fn a_program_reads_what_its_side_connections_wrote() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?cache_bytes_max=1000000", server.url())).expect("connects");
    let (db, cached) = (client.db(0), client.db(0).cached());
    for n in 0..200 {
        db.call::<i64>(("RPUSH", "l", n)).await.expect("pushes");
        assert_eq!(cached.call::<i64>(("LLEN", "l")).await.expect("reads"), 1);
        db.call::<Value>(("BLPOP", "l", 0)).await.expect("pops");
        assert_eq!(cached.call::<i64>(("LLEN", "l")).await.expect("reads"), 0, "round {n}");
        assert_eq!(cached.call::<Option<i64>>(("GET", "n")).await.expect("reads"), (n > 0).then_some(n));
        let set = db.transaction_if([Condition::KeyAbsent("none".into())]).call(("SET", "n", n + 1));
        assert_eq!(set.send::<(bool,)>().await.expect("runs"), Committed::Yes((true,)));
        assert_eq!(cached.call::<Option<i64>>(("GET", "n")).await.expect("reads"), Some(n + 1), "round {n}");
    }
}

#[test]
fn deadlines_pass_while_a_thread_connects() {
    // A listener whose queue is full: the operating system drops what asks to connect.
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    listener.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("binds");
    listener.listen(0).expect("listens");
    let address = listener.local_addr().ok().and_then(|address| address.as_socket()).expect("an address");
    let filling: Vec<_> =
        (0..4).map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50))).collect();
    let client =
        Client::connect_in_thread(&format!("redis://{address}?connect_timeout_ms=60000")).expect("starts");
    let begun = Instant::now();
    let error =
        client.db(0).within(Duration::from_millis(100)).call::<Value>(("GET", "k")).wait().unwrap_err();
    assert!(is_of_the_queue(&error), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(filling);
}

#[test]
fn a_blocking_call_needs_no_room_in_the_queue() {
    let Some(server) = Server::start() else { return };
    server.signal("-STOP");
    let client = Client::connect_in_thread(&format!("{}?queue_calls_max=1", server.url())).expect("connects");
    let db = client.db(0).policy(Policy::Block);
    let first = db.call::<i64>(("INCR", "n"));
    let popped = [Policy::Block, Policy::Queue]
        .map(|policy| db.policy(policy).call::<Option<(String, i64)>>(("BLPOP", "l", 0)));
    let refused = db.policy(Policy::Queue).call::<i64>(("INCR", "n"));
    server.signal("-CONT");
    assert!(matches!(refused.wait(), Err(Error::NotSent(_))));
    assert_eq!(first.wait().expect("counts"), 1);
    // Nothing is queued now: the connection is up, and a call that fails at once is not refused for it.
    let fails_fast = db.policy(Policy::FailFast).call::<Option<(String, i64)>>(("BLPOP", "l", 0));
    db.call::<i64>(("RPUSH", "l", 7, 7, 7)).wait().expect("pushes");
    for call in popped.into_iter().chain([fails_fast]) {
        assert_eq!(call.wait().expect("pops"), Some(("l".into(), 7)));
    }
}

#[tokio::test]
async fn a_call_that_waited_for_room_drops_what_was_kept_meanwhile() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?cache_bytes_max=1000000&queue_calls_max=1", server.url()))
        .expect("connects");
    let (db, cached) = (client.db(0).policy(Policy::Block), client.db(0).cached());
    for n in 0..100 {
        // The driver has not run: the first call fills the queue, the second waits for room.
        db.fire().call("PING");
        let set = db.call::<()>(("SET", "k", n));
        while cached
            .call::<Option<i64>>(("GET", "k"))
            .await
            .map_or(true, |found| found != (n > 0).then(|| n - 1))
        {
            tokio::task::yield_now().await;
        }
        set.await.expect("sets");
        let read = loop {
            match cached.call::<i64>(("GET", "k")).await {
                Err(Error::NotSent(_)) => tokio::task::yield_now().await,
                read => break read.expect("reads"),
            }
        };
        assert_eq!(read, n);
    }
}

#[tokio::test]
async fn every_command_has_a_method_of_what_sends_calls() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&server.url()).expect("connects");
    let db = client.db(3);
    db.set::<()>("k", "v", ("EX", 60)).await.expect("sets");
    assert_eq!(db.get::<Option<String>>("k").await.expect("reads"), Some("v".into()));
    let once = SetOptions::new().if_absent().expiry(Expiry::In(Duration::from_secs(60)));
    assert_eq!(db.set::<Value>("o", "one", once).await.expect("sets"), Value::Status("OK".into()));
    assert_eq!(
        db.set::<Value>("o", "two", ("GET", Expiry::Keep)).await.expect("sets"),
        Value::Bulk("one".into())
    );
    assert!(db.pttl::<i64>("o").await.expect("reads") > 50_000, "the expiry was kept");
    assert_eq!(db.set::<Value>("o", "three", once).await.expect("is there"), Value::Null);
    assert_eq!(
        db.zadd::<i64>("z", (ZaddOptions::new().count_changed(), [(1.5, "a"), (2.0, "b")]))
            .await
            .expect("adds"),
        2
    );
    assert_eq!(db.incrbyfloat::<f64>("f", 1.5).await.expect("adds"), 1.5);
    assert_eq!(db.hset::<i64>("h", [("a", 1), ("b", 2)]).await.expect("sets"), 2);
    assert_eq!(db.hincrby::<i64>("h", "a", 4).await.expect("adds"), 5);
    assert_eq!(db.del::<i64>(["k", "none"]).await.expect("removes"), 1);
    db.fire().rpush("l", ("x", "y"));
    let (length, kind): (i64, String) = db.pipeline().llen("l").type_of("l").send().await.expect("runs");
    assert_eq!((length, kind.as_str()), (2, "list"));
    let locked = db.transaction_if([Condition::KeyAbsent("lock".into())]).set("lock", "me", ()).incr("taken");
    assert_eq!(locked.send::<(bool, i64)>().await.expect("runs"), Committed::Yes((true, 1)));
    assert_eq!(db.object_encoding::<String>("taken").await.expect("asks"), "int");
    assert_eq!(
        db.blpop::<Option<(String, String)>>("l", 0.5).await.expect("pops"),
        Some(("l".into(), "x".into()))
    );
}

#[tokio::test]
async fn a_client_counts_what_became_of_its_calls() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?queue_calls_max=5", server.url())).expect("connects");
    client.call::<()>(("PING",)).await.expect("replies");
    for _ in 0..8 {
        client.db(0).fire().incr("n");
    }
    let stats = client.stats();
    assert_eq!(
        (stats.is_up, stats.connects, stats.calls, stats.calls_refused, stats.queued_calls),
        (true, 1, 6, 3, 5),
        "{stats:?}"
    );
    assert_eq!(client.db(0).policy(Policy::Block).get::<i64>("n").await.expect("reads"), 5);
    server.signal("-STOP");
    let late = client.db(0).within(Duration::from_millis(50)).get::<i64>("n").await;
    server.signal("-CONT");
    let traffic = client.stats().traffic;
    assert!(traffic.round_trips.iter().sum::<u64>() >= 7 && traffic.quantile(0.5).is_some(), "{traffic:?}");
    assert!(traffic.bytes_sent > 100 && traffic.bytes_received > 30, "{traffic:?}");
    assert!(late.is_err() && client.stats().calls_timed_out == 1, "{:?}", client.stats());
}

#[tokio::test]
async fn an_entry_that_was_given_to_a_call_that_was_given_up_is_returned() {
    let Some(server) = Server::start() else { return };
    let client = Client::connect(&format!("{}?timeout_ms=20000", server.url())).expect("connects");
    let db = client.db(5);
    let mut consumer = db.consumer("jobs", "workers", "a");
    consumer.create_group("0").await.expect("makes the group");
    db.call::<String>(("XADD", "jobs", "1-0", "n", 1)).await.expect("adds");
    assert_eq!(consumer.next().await.expect("reads")[0].id, "1-0");
    // As a call that was given up: it still waits in the server, before all others, and its reply goes nowhere.
    assert!(tokio::time::timeout(Duration::from_millis(50), consumer.next()).await.is_err());
    let given_up = db.clone();
    let given_up = tokio::spawn(async move {
        let waits = ("XREADGROUP", "GROUP", "workers", "a", "BLOCK", 4000);
        given_up.call::<polder_client::Value>((waits, "STREAMS", "jobs", ">")).await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waiting = tokio::spawn(async move { consumer.next().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    db.call::<String>(("XADD", "jobs", "2-0", "n", 2)).await.expect("adds");
    given_up.await.expect("ends").expect("is given the entry");
    assert_eq!(waiting.await.expect("ends").expect("reads")[0].id, "2-0");
}
