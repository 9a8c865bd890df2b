//! The client against redis-server in cluster mode: three masters on loopback, and slots that move while calls are made.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder_client::{Client, Committed, Condition, Error, Event, Value};
use polder_testbase::until;

/// Processes and files of the test's own.
struct Cluster {
    children: Vec<Child>,
    folder: PathBuf,
    ports: Vec<u16>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

/// A port whose number plus 10,000 is free, too: the nodes talk to each other there.
fn free_port() -> u16 {
    loop {
        let port = polder_testbase::free_port().expect("a port");
        if TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

impl Cluster {
    /// `None` where redis-server is not installed. With `replicas`, each master has one.
    fn start(name: &str, replicas: bool) -> Option<Cluster> {
        let folder =
            std::env::temp_dir().join(format!("polder-client-cluster-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let ports: Vec<u16> = (0..if replicas { 6 } else { 3 }).map(|_| free_port()).collect();
        let mut cluster = Cluster { children: Vec::new(), folder, ports };
        for port in cluster.ports.clone() {
            let spawned = Command::new("redis-server")
                .args([
                    "--port",
                    &port.to_string(),
                    "--cluster-enabled",
                    "yes",
                    "--cluster-config-file",
                    &format!("nodes-{port}"),
                ])
                .args([
                    "--save",
                    "",
                    "--cluster-node-timeout",
                    "1000",
                    "--dbfilename",
                    &format!("{port}.rdb"),
                    "--repl-diskless-sync-delay",
                    "0",
                ])
                .current_dir(&cluster.folder)
                .stdout(Stdio::null())
                .spawn();
            let Ok(child) = spawned else {
                eprintln!("redis-server is not installed: not tested");
                return None;
            };
            cluster.children.push(child);
        }
        for port in &cluster.ports {
            until("a node listens", || std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok());
        }
        let places: Vec<String> = cluster.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&places)
            .args(["--cluster-replicas", if replicas { "1" } else { "0" }, "--cluster-yes"])
            .output()
            .ok()?;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        for port in &cluster.ports {
            until("the cluster is up", || ask(*port, &["CLUSTER", "INFO"]).contains("cluster_state:ok"));
            let has_data = || {
                let replication = ask(*port, &["INFO", "replication"]);
                replication.contains("role:master") || replication.contains("master_link_status:up")
            };
            until("the replicas have their masters' data", has_data);
        }
        Some(cluster)
    }

    fn url(&self) -> String {
        // One node is enough.
        format!("redis-cluster://127.0.0.1:{}", self.ports[1])
    }

    /// Moves a slot and its keys from its node to another one, as redis-cli --cluster reshard does.
    fn move_slot(&self, slot: usize, from: u16, to: u16) {
        let id = |port| ask(port, &["CLUSTER", "MYID"]).trim().to_owned();
        let slot = slot.to_string();
        ask(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        ask(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
        loop {
            let keys = ask(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "10"]);
            let keys: Vec<&str> = keys.lines().filter(|line| !line.is_empty()).collect();
            if keys.is_empty() {
                break;
            }
            let port = to.to_string();
            ask(from, &[&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"], &keys[..]].concat());
        }
        for port in [to, from] {
            assert_eq!(ask(port, &["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]).trim(), "OK");
        }
    }

    fn owner(&self, slot: usize) -> u16 {
        let owns = |port: &&u16| {
            let nodes = ask(**port, &["CLUSTER", "NODES"]);
            let line = nodes.lines().find(|line| line.contains("myself")).unwrap_or_default();
            line.split(' ').skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.parse::<usize>().ok();
                matches!((number(first), number(last)), (Some(first), Some(last)) if (first..=last).contains(&slot))
            })
        };
        *self.ports.iter().find(owns).expect("a node has the slot")
    }
}

fn ask(port: u16, words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn slot_of(port: u16, key: &str) -> usize {
    ask(port, &["CLUSTER", "KEYSLOT", key]).trim().parse().expect("a slot")
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_cluster_go_where_their_keys_are() {
    let Some(cluster) = Cluster::start("calls", false) else { return };
    for client in [
        Client::connect(&cluster.url()).expect("connects"),
        Client::connect_in_thread(&cluster.url()).expect("starts"),
    ] {
        client.db(0).call::<()>(("DEL", "{list}0")).await.expect("removes");
        // Many are made before the nodes are known.
        let calls: Vec<_> = (0..1000).map(|n| client.db(0).set::<()>(format!("key:{n}"), n, ())).collect();
        for call in calls {
            call.await.expect("sets");
        }
        let mut pipeline = client.db(0).pipeline();
        for n in 0..100 {
            pipeline = pipeline.get(format!("key:{n}"));
        }
        assert_eq!(
            pipeline.lpush("key:0", "x").get("key:7").send::<Vec<Value>>().await.expect("runs")[7],
            Value::Bulk("7".into())
        );
        for n in 0..100 {
            client.db(0).fire().incr(format!("key:{n}"));
        }
        assert_eq!(client.db(0).get::<i64>("key:7").await.expect("reads"), 8);
        let (set, count): (bool, i64) =
            client.db(0).transaction().set("{t}a", 1, ()).incr("{t}a").send().await.expect("runs");
        assert_eq!((set, count), (true, 2));
        let error = client.db(0).transaction().incr("a").incr("b").send::<Value>().await.unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains("hash tag")), "{error}");
        let error = client.db(0).mget::<Value>(["a", "b"]).await.unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains("different slots")), "{error}");
        assert_eq!(client.db(0).mget::<Vec<i64>>(["{t}a", "{t}a"]).await.expect("reads"), [2, 2]);
        let free = [Condition::KeyAbsent("{t}lock".into())];
        let taken = client
            .db(0)
            .transaction_if(free.clone())
            .call(("SET", "{t}lock", "me"))
            .send::<(bool,)>()
            .await
            .expect("runs");
        assert_eq!(taken, Committed::Yes((true,)));
        let popped = client.db(0).call::<Option<(String, i64)>>(("BLPOP", "{list}0", 0));
        tokio::time::sleep(Duration::from_millis(50)).await;
        client.db(0).rpush::<i64>("{list}0", 5).await.expect("pushes");
        assert_eq!(popped.await.expect("pops"), Some(("{list}0".into(), 5)));
        let (mut scan, mut found) =
            (client.db(0).scan().matching("key:*"), std::collections::BTreeSet::new());
        while let Some(keys) = scan.step().await.expect("scans") {
            found.extend(keys);
        }
        assert_eq!(found.len(), 1000);
        let nodes = client.nodes().await.expect("asks");
        assert_eq!(nodes.len(), 3);
        let mut sizes = Vec::new();
        for (_, node) in nodes {
            sizes.push(node.call::<usize>(("DBSIZE",)).await.expect("counts"));
            node.call::<()>(("FLUSHALL",)).await.expect("empties");
        }
        assert!(sizes.iter().sum::<usize>() == 1002 && sizes.iter().all(|size| *size > 0), "{sizes:?}");
        let mut news = client.subscribe(["news"]).expect("subscribes");
        assert_eq!(news.recv().await, Event::Ready);
        assert!(client.call::<i64>(("PUBLISH", "news", "x")).await.is_ok());
        assert!(matches!(news.recv().await, Event::Message { .. }));
        let mut shard = client.subscribe_shards(["{t}news"]).expect("subscribes");
        assert_eq!(shard.recv().await, Event::Ready);
        client.call::<i64>(("SPUBLISH", "{t}news", "x")).await.expect("publishes");
        assert!(matches!(shard.recv().await, Event::Message { .. }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_lost_while_slots_move() {
    let Some(cluster) = Cluster::start("moves", false) else { return };
    let client = Client::connect(&format!("{}?timeout_ms=30000", cluster.url())).expect("connects");
    const KEYS: usize = 20;
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..KEYS)
        .map(|number| {
            let (db, stop) = (client.db(0), Arc::clone(&stop));
            tokio::spawn(async move {
                // Two keys of one slot, so that calls with several keys find one half moved (TRYAGAIN).
                let (one, two) = (format!("{{{number}}}a"), format!("{{{number}}}b"));
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    assert_eq!(db.incr::<i64>(&one).await.expect("counts"), count);
                    let (first, second): (i64, bool) =
                        db.transaction().get(&one).set(&two, count, ()).send().await.expect("runs");
                    assert_eq!((first, second), (count, true));
                    assert_eq!(db.mget::<Vec<i64>>([&one, &two]).await.expect("reads"), [count, count]);
                    if count % 8 == 0 {
                        let holds = [Condition::ValueEquals(one.clone().into(), count.to_string().into())];
                        match db.transaction_if(holds).call(("GET", &two)).send::<(i64,)>().await {
                            Ok(committed) => assert_eq!(committed, Committed::Yes((count,))),
                            // The slot moves at this moment: the keys are in two nodes, and nothing ran.
                            Err(error) => assert!(
                                matches!(error.code(), Some("ASK" | "TRYAGAIN" | "EXECABORT")),
                                "{error}"
                            ),
                        }
                    }
                }
                count
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let moved = tokio::task::spawn_blocking(move || {
        for round in 0..2 {
            for number in 0..KEYS {
                let slot = slot_of(cluster.ports[0], &format!("{{{number}}}"));
                let from = cluster.owner(slot);
                let to = cluster
                    .ports
                    .iter()
                    .copied()
                    .filter(|port| *port != from)
                    .nth((round + number) % 2)
                    .expect("another node");
                cluster.move_slot(slot, from, to);
            }
        }
        cluster
    });
    let _cluster = moved.await.expect("moves");
    stop.store(true, Ordering::Relaxed);
    for (number, task) in tasks.into_iter().enumerate() {
        let count = task.await.expect("ends");
        assert_eq!(client.db(0).get::<i64>(format!("{{{number}}}a")).await.expect("reads"), count);
        assert!(count > 10, "{count}");
    }
}

/// Waits until a replica has acknowledged all that a node has written.
fn await_replica(port: u16) {
    until("a replica has the write", || {
        let text = ask(port, &["INFO", "replication"]);
        let after = |name: &str| {
            let digits = text.split(name).nth(1)?.split(|end: char| !end.is_ascii_digit()).next()?;
            digits.parse::<u64>().ok()
        };
        let (acknowledged, written) = (after(",offset="), after("master_repl_offset:"));
        acknowledged.is_some() && acknowledged >= written
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_and_calls_find_it() {
    let Some(mut cluster) = Cluster::start("failover", true) else { return };
    let client = Client::connect(&format!("{}?timeout_ms=30000", cluster.url())).expect("connects");
    client.db(0).set::<()>("foo", 1, ()).await.expect("sets");
    let mut shard = client.subscribe_shards(["foo"]).expect("subscribes");
    assert_eq!(shard.recv().await, Event::Ready);
    let owner = cluster.owner(slot_of(cluster.ports[0], "foo"));
    await_replica(owner);
    let at = cluster.ports.iter().position(|port| *port == owner).expect("is a node");
    cluster.children[at].kill().expect("ends");
    // A call that is written before the break is noticed has an outcome that is not known; every other one waits for the replica.
    let until = Instant::now() + Duration::from_secs(30);
    let mut unknown = 0;
    let count = loop {
        match client.db(0).incr::<i64>("foo").await {
            Ok(count) => break count,
            Err(Error::OutcomeUnknown(_)) if unknown < 3 => unknown += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < until, "no replica takes over");
    };
    // The refused attempts that were written to the dead master ran nowhere.
    assert_eq!(count, 2);
    assert_eq!((shard.recv().await, shard.recv().await), (Event::Missed, Event::Ready));
    client.call::<i64>(("SPUBLISH", "foo", "x")).await.expect("publishes");
    assert!(matches!(shard.recv().await, Event::Message { .. }));
}

/// How often the nodes of these ports ran a command.
fn calls_of(name: &str, ports: &[u16]) -> usize {
    let calls = |port: &u16| {
        let stats = ask(*port, &["INFO", "commandstats"]);
        let found = stats.lines().find_map(|line| {
            line.strip_prefix(&format!("cmdstat_{name}:calls="))?.split(',').next()?.parse().ok()
        });
        found.unwrap_or(0usize)
    };
    ports.iter().map(calls).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_go_to_replicas_if_the_program_says_so() {
    const KEYS: usize = 60;
    let Some(mut cluster) = Cluster::start("replicas", true) else { return };
    let is_master = |port: &u16| ask(*port, &["ROLE"]).starts_with("master");
    let (masters, replicas): (Vec<u16>, Vec<u16>) = cluster.ports.iter().copied().partition(is_master);
    let url = format!("{}?timeout_ms=30000", cluster.url());
    for client in [Client::connect(&url).expect("connects"), Client::connect_in_thread(&url).expect("starts")]
    {
        let db = client.db(0);
        for n in 0..KEYS {
            db.set::<()>(format!("key:{n}"), n, ()).await.expect("sets");
        }
        let size = |port: &u16| ask(*port, &["DBSIZE"]).trim().parse::<usize>().unwrap_or(0);
        until("the replicas have what was written", || replicas.iter().map(size).sum::<usize>() == KEYS);
        let (reads, until) = (db.from_replica(), Instant::now() + Duration::from_secs(30));
        // Nodes tell of their replicas some time after these have their data.
        loop {
            cluster.ports.iter().for_each(|port| drop(ask(*port, &["CONFIG", "RESETSTAT"])));
            for n in 0..KEYS {
                assert_eq!(reads.get::<usize>(format!("key:{n}")).await.expect("reads"), n);
            }
            let calls = (calls_of("get", &masters), calls_of("get", &replicas));
            if calls == (0, KEYS) {
                break;
            }
            assert!(Instant::now() < until, "at masters and replicas: {calls:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // What writes, what is sent together, and what has no key goes to masters.
        reads.append::<i64>("key:0", "").await.expect("appends");
        reads.pipeline().strlen("key:0").send::<(i64,)>().await.expect("runs");
        reads.dbsize::<i64>().await.expect("counts");
        for name in ["append", "strlen", "dbsize"] {
            assert!(calls_of(name, &masters) > 0, "{name}");
        }
        assert_eq!(calls_of("strlen", &replicas), 0);
    }
    // A slot that moves: its old master's replica sends the reads on.
    let client = Client::connect(&url).expect("connects");
    let reads = client.db(0).from_replica();
    assert_eq!(reads.get::<usize>("key:7").await.expect("reads"), 7);
    let slot = slot_of(masters[0], "key:7");
    let from = cluster.owner(slot);
    cluster.move_slot(slot, from, *masters.iter().find(|port| **port != from).expect("another"));
    for _ in 0..20 {
        assert_eq!(reads.get::<usize>("key:7").await.expect("reads"), 7);
    }
    // Replicas that end: the masters are read, and no call waits until the failure is known everywhere.
    for port in &replicas {
        let at = cluster.ports.iter().position(|known| known == port).expect("is a node");
        cluster.children[at].kill().expect("ends");
    }
    let begun = Instant::now();
    for n in 0..KEYS {
        assert_eq!(reads.get::<usize>(format!("key:{n}")).await.expect("reads"), n);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
