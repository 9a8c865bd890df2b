//! The client against redis-server with Sentinel: a master that ends, and the replica that takes its place.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use polder_client::{Client, Error};

/// Processes and files of the test's own.
struct Group {
    children: Vec<Child>,
    folder: PathBuf,
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

impl Group {
    /// Returns false where redis-server is not installed.
    fn start(&mut self, words: &[&str]) -> bool {
        let spawned =
            Command::new("redis-server").args(words).current_dir(&self.folder).stdout(Stdio::null()).spawn();
        spawned.map(|child| self.children.push(child)).is_ok()
    }
}

fn ask(port: u16, words: &[&str]) -> String {
    ask_as("", port, words)
}

fn ask_as(password: &str, port: u16, words: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .env("REDISCLI_AUTH", password)
        .args(["-p", &port.to_string()])
        .args(words)
        .output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The ports of a master, its replica, and the sentinel that watches them.
struct Ports {
    master: u16,
    replica: u16,
    sentinel: u16,
}

/// Starts them. With passwords, `sentinel` and `server` are those of the sentinel and of the two servers. `None` where redis-server
/// is not installed.
fn watched(name: &str, sentinel_password: &str, server_password: &str) -> Option<(Group, Ports)> {
    let folder = std::env::temp_dir().join(format!("polder-client-sentinel-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut group = Group { children: Vec::new(), folder };
    let ports = Ports {
        master: polder_testbase::free_port().expect("a port"),
        replica: polder_testbase::free_port().expect("a port"),
        sentinel: polder_testbase::free_port().expect("a port"),
    };
    let Ports { master, replica, sentinel } = ports;
    let mut text = format!(
        "port {sentinel}\nsentinel monitor main 127.0.0.1 {master} 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
    );
    if !sentinel_password.is_empty() {
        text.push_str(&format!(
            "requirepass {sentinel_password}\nsentinel auth-pass main {server_password}\n"
        ));
    }
    std::fs::write(group.folder.join("sentinel.conf"), text).expect("a file");
    let passwords = ["--requirepass", server_password, "--masterauth", server_password];
    if !group.start(&[&["--port", &master.to_string(), "--save", ""], &passwords[..]].concat()) {
        eprintln!("redis-server is not installed: not tested");
        return None;
    }
    let follows =
        ["--port", &replica.to_string(), "--save", "", "--replicaof", "127.0.0.1", &master.to_string()];
    group.start(&[&follows, &passwords[..]].concat());
    let has_data =
        || ask_as(server_password, replica, &["INFO", "replication"]).contains("master_link_status:up");
    wait_until("the replica has its master's data", has_data);
    group.start(&["sentinel.conf", "--sentinel"]);
    let knows = || {
        ask_as(sentinel_password, sentinel, &["SENTINEL", "REPLICAS", "main"])
            .contains("master-link-status\nok")
    };
    wait_until("the sentinel knows the replica", knows);
    Some((group, ports))
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_servers_have_passwords_of_their_own() {
    let Some((_group, ports)) = watched("passwords", "watch", "serve") else { return };
    let Ports { master, replica, sentinel } = ports;
    let place = format!("redis-sentinel://:serve@127.0.0.1:{sentinel}/main");
    let url = format!("{place}?sentinel_password=watch");
    let user = format!("{place}?sentinel_user=default&sentinel_password=watch");
    let port_of = |info: String| {
        info.lines().find_map(|line| line.strip_prefix("tcp_port:")?.trim().parse::<u16>().ok())
    };
    for client in [
        Client::connect(&url).expect("connects"),
        Client::connect_in_thread(&url).expect("starts"),
        Client::connect(&user).expect("connects"),
    ] {
        assert_eq!(port_of(client.db(0).info("server").await.expect("asks")), Some(master));
        client.db(0).set::<()>("k", "v", ()).await.expect("sets");
        wait_until("the replica has what was written", || {
            ask_as("serve", replica, &["GET", "k"]).trim() == "v"
        });
        assert_eq!(client.db(0).from_replica().get::<String>("k").await.expect("reads"), "v");
    }
    assert!(
        ask_as("serve", replica, &["INFO", "commandstats"]).contains("cmdstat_get:calls"),
        "the replica was read"
    );
    // Without the password, or with a wrong one, the error comes at once and says where to look.
    for wrong in [place.clone(), format!("{place}?sentinel_password=wrong")] {
        let error =
            Client::connect(&wrong).expect("starts").db(0).get::<Option<String>>("k").await.unwrap_err();
        assert!(matches!(&error, Error::NotSent(text) if text.contains("sentinel_password")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_follows_the_master_that_sentinel_names() {
    let Some((mut group, ports)) = watched("failover", "", "") else { return };
    let Ports { master: first, replica: second, sentinel } = ports;

    // The first sentinel does not exist: the second one is asked.
    let url = format!(
        "redis-sentinel://127.0.0.1:{},127.0.0.1:{sentinel}/main?timeout_ms=30000",
        polder_testbase::free_port().expect("a port")
    );
    let (by_task, by_thread) =
        (Client::connect(&url).expect("connects"), Client::connect_in_thread(&url).expect("starts"));
    for client in [&by_task, &by_thread] {
        client.db(0).incr::<i64>("n").await.expect("counts");
        assert!(
            client.db(0).info::<String>("server").await.expect("asks").contains(&format!("tcp_port:{first}"))
        );
    }
    wait_until("the replica has what was written", || ask(second, &["GET", "n"]).trim() == "2");
    // Reads go to the replica if the program says so, and nothing else does.
    let calls =
        |port, name: &str| ask(port, &["INFO", "commandstats"]).matches(&format!("cmdstat_{name}:")).count();
    for client in [&by_task, &by_thread] {
        let db = client.db(0).from_replica();
        assert_eq!(db.strlen::<i64>("n").await.expect("reads"), 1);
        assert!(db.set::<bool>("k", "v", ()).await.expect("sets"));
    }
    assert_eq!((calls(first, "strlen"), calls(second, "strlen"), calls(first, "set")), (0, 1, 1));
    let mut master = group.children.remove(0);
    master.kill().expect("ends");
    master.wait().expect("ends");
    // A call that is written before the client has noticed may have been executed, and is not sent again.
    wait_until("both have noticed", || [&by_task, &by_thread].iter().all(|client| !client.stats().is_up));
    for (client, n) in [(&by_task, 3), (&by_thread, 4)] {
        // Waits in the queue until there is a master again.
        assert_eq!(client.db(0).incr::<i64>("n").await.expect("counts"), n);
        assert!(
            client
                .db(0)
                .info::<String>("server")
                .await
                .expect("asks")
                .contains(&format!("tcp_port:{second}"))
        );
        // There is no replica any more: the master is read.
        assert_eq!(client.db(0).from_replica().get::<i64>("n").await.expect("reads"), n);
    }
}
