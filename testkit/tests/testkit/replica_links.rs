//! Connections of replicas: what others see of them, what ends them, what they share, and how they are encrypted.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use polder_testkit::logs::{World, ask, same, settle, state, until, work};
use polder_testkit::process::{Server, free_port, on_path, stock_servers};
use polder_testkit::random::Random;
use polder_testkit::replicas::{catch_up, figure, follow, line_of, psync};
use polder_testkit::resp::Connection;

#[test]
fn a_replica_is_a_client_of_a_kind_of_its_own() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("links-list");
    let (_server, mut first) = world.serve(&[]);
    let (other, mut second) = world.serve(&[]);
    let (replica_server, mut replica) = follow(&program, other.port(), &[]);
    catch_up(&mut replica, &mut second);
    assert_eq!(ask(&mut second, "WAIT 1 0"), "(integer) 1");
    // The memory of the copy is given back.
    let files = format!("/proc/{}/fd", other.pid());
    let is_copy = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = entry.and_then(|entry| std::fs::read_link(entry.path()));
        target.is_ok_and(|target| target.to_string_lossy().contains("polder-copy"))
    };
    until("the copy is gone", || !std::fs::read_dir(&files).expect("its files").any(is_copy));
    let line = ask(&mut first, "CLIENT LIST TYPE replica");
    let has = |word: &str| line.split(' ').any(|field| field == word);
    assert!(has("flags=S") && has("cmd=replconf") && has("user=default"), "{line}");
    assert!(!ask(&mut first, "CLIENT LIST TYPE normal").contains("flags=S"));
    let port = replica_server.port();
    until("all is acknowledged", || {
        let offset = figure(&mut first, "replication", "master_repl_offset");
        let named = format!("ip=127.0.0.1,port={port},state=online,offset={offset},lag=");
        figure(&mut first, "replication", "slave0").starts_with(&named)
            && ask(&mut first, "ROLE").contains(&format!("3) \"{offset}\""))
    });
    // A replica of another server is killed, too.
    assert_eq!(ask(&mut first, "CLIENT KILL TYPE replica"), "(integer) 1");
    until("it has gone on", || figure(&mut second, "stats", "sync_partial_ok") == "1");
    catch_up(&mut replica, &mut first);
    assert_eq!(figure(&mut second, "stats", "sync_full"), "1");
}

#[test]
fn a_replica_that_is_too_far_behind_is_closed() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("links-limit");
    let (server, mut primary) = world.serve(&[]);
    let (replica_server, mut replica) = follow(&program, server.port(), &[]);
    catch_up(&mut replica, &mut primary);
    assert_eq!(ask(&mut primary, "WAIT 1 0"), "(integer) 1");
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "replica 1mb 0 0"];
    assert_eq!(primary.call(&limit).expect("a reply").shown().trim_end(), "OK");
    // A value beyond the limit, which it takes.
    let large = "x".repeat(8 << 20);
    primary.call(&["SET", "large", &large]).expect("a reply");
    assert_eq!(ask(&mut primary, "WAIT 1 0"), "(integer) 1");
    let closed =
        |primary: &mut Connection| figure(primary, "stats", "client_output_buffer_limit_disconnections");
    assert_eq!(closed(&mut primary), "0");
    replica_server.stop();
    // Beyond what sockets take.
    (0..3).for_each(|_| drop(primary.call(&["SET", "large", &large]).expect("a reply")));
    until("it is closed", || closed(&mut primary) == "1");
    until("it is gone", || figure(&mut primary, "replication", "connected_slaves") == "0");
    replica_server.go_on();
    catch_up(&mut replica, &mut primary);
}

/// The first nine bytes of the copy that a peer is sent that has told nothing of itself.
fn version_of_copy(address: &str) -> String {
    let mut stream = psync(address);
    assert!(line_of(&mut stream).starts_with("+FULLRESYNC "));
    assert!(line_of(&mut stream).starts_with('$'));
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a file");
    String::from_utf8_lossy(&head).into_owned()
}

#[test]
fn replicas_that_ask_at_once_share_a_copy() {
    let world = World::new("links-share");
    let (server, mut primary) = world.serve(&["--rdb-key-save-delay", "2000"]);
    ask(&mut primary, "DEBUG POPULATE 1000 key 10");
    let mut one = psync(&server.address());
    until("it is fed", || figure(&mut primary, "replication", "connected_slaves") == "1");
    ask(&mut primary, "SET k between");
    let mut two = psync(&server.address());
    until("both are fed", || figure(&mut primary, "replication", "connected_slaves") == "2");
    // One that goes does not end the copy for the other.
    drop(psync(&server.address()));
    let (first, second) = (line_of(&mut one), line_of(&mut two));
    assert!(first.starts_with("+FULLRESYNC "), "{first}");
    assert_eq!(first, second);
    assert_eq!(line_of(&mut one), line_of(&mut two), "they are as long");
}

#[test]
fn a_copy_is_of_the_lowest_version_that_can_hold_it() {
    let world = World::new("links-version");
    let (server, mut primary) = world.serve(&[]);
    ask(&mut primary, "HSET h f v");
    assert_eq!(version_of_copy(&server.address()), "REDIS0010");
    assert_eq!(ask(&mut primary, "HPEXPIRE h 1000000 FIELDS 1 f"), "1) (integer) 1");
    assert_eq!(version_of_copy(&server.address()), "REDIS0012");
}

#[test]
fn http_has_no_replicas() {
    let world = World::new("links-http");
    let port = free_port().expect("a port");
    let (_server, mut primary) = world.serve(&["--http-port", &port.to_string()]);
    for (path, body) in [
        ("/js", r#"["PSYNC","?","-1"]"#),
        ("/js", r#"["REPLCONF","capa","eof"]"#),
        ("/resp", "*1\r\n$4\r\nSYNC\r\n"),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}"
        );
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("each HTTP request"), "{body}: {reply}");
    }
    assert_eq!(figure(&mut primary, "replication", "connected_slaves"), "0");
    assert_eq!(figure(&mut primary, "replication", "repl_backlog_active"), "0");
}

fn openssl(folder: &str, words: &str) {
    let made = Command::new("openssl").args(words.split(' ')).current_dir(folder).output().expect("openssl");
    assert!(made.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&made.stderr));
}

/// A certificate for a host, its key, and the root that has signed it: paths of files that are made in a folder.
fn certificates(folder: &str, host: &str) -> [String; 3] {
    openssl(
        folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=polder-test-ca",
    );
    openssl(
        folder,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout own.key -out own.csr -subj /CN=localhost",
    );
    std::fs::write(format!("{folder}/names"), format!("subjectAltName=DNS:{host}")).expect("a file");
    openssl(
        folder,
        "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -days 2 -extfile names",
    );
    ["own.pem", "own.key", "ca.pem"].map(|name| format!("{folder}/{name}"))
}

#[test]
fn replicas_follow_by_tls_with_a_user_of_their_own() {
    let world = World::new("links-tls");
    let [own, key, root] = certificates(world.dir(), "localhost");
    let files = ["--tls-cert-file", &own, "--tls-key-file", &key, "--tls-ca-cert-file", &root];
    let port = free_port().expect("a port");
    let shown = port.to_string();
    let (_server, mut primary) = world.serve(&[&["--tls-port", &shown], &files[..]].concat());
    work(&mut primary, &mut Random::new(9), 300);
    ask(&mut primary, "SELECT 0");
    assert_eq!(ask(&mut primary, "ACL SETUSER replica on >secret +psync +replconf +ping"), "OK");
    assert_eq!(ask(&mut primary, "ACL SETUSER default off"), "OK");
    for (name, program) in stock_servers() {
        let user = ["--tls-replication", "yes", "--masteruser", "replica", "--masterauth", "secret"];
        let (_replica, mut replica) = follow(&program, port, &[&user[..], &files].concat());
        catch_up(&mut replica, &mut primary);
        // More than a socket or a layer of TLS takes at once.
        let large = "x".repeat(8 << 20);
        primary.call(&["SET", "large", &large]).expect("a reply");
        assert_eq!(ask(&mut primary, "WAIT 1 0"), "(integer) 1", "{name}");
        work(&mut primary, &mut Random::new(10), 300);
        settle(&mut primary);
        catch_up(&mut replica, &mut primary);
        let of = |connection: &mut Connection| state(|words| connection.call(words).expect("a reply"));
        same(&of(&mut replica), &of(&mut primary));
        assert!(ask(&mut primary, "CLIENT LIST TYPE replica").contains("user=replica"), "{name}");
        assert_eq!(ask(&mut primary, "CLIENT KILL TYPE replica"), "(integer) 1");
        catch_up(&mut replica, &mut primary);
    }
}

#[test]
fn a_memory_follows_by_tls_a_primary_that_it_can_trust() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let (world, other) = (World::new("follows-tls"), World::new("follows-tls-other"));
    let [own, key, root] = certificates(world.dir(), "localhost");
    let files = ["--tls-cert-file", &own, "--tls-key-file", &key, "--tls-ca-cert-file", &root];
    let [stock_port, port, stranger_port] = [(); 3].map(|()| free_port().expect("a port").to_string());
    let flags = [
        "--port",
        "{port}",
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--enable-debug-command",
        "yes",
        "--tls-port",
        &stock_port,
    ];
    // It wants the certificates of its replicas, too.
    let stock_server = Server::start(&program, &[&flags[..], &files].concat()).expect("a server");
    let mut stock = Connection::open(&stock_server.address()).expect("a connection");
    let (server, mut replica) =
        world.serve(&[&files[..], &["--tls-port", &port, "--tls-replication", "yes"]].concat());
    work(&mut stock, &mut Random::new(11), 300);
    assert_eq!(ask(&mut replica, &format!("REPLICAOF localhost {stock_port}")), "OK");
    catch_up(&mut replica, &mut stock);
    let large = "x".repeat(8 << 20);
    stock.call(&["SET", "large", &large]).expect("a reply");
    // A memory that follows this one, by an address that is in no certificate.
    let ca = ["--tls-ca-cert-file", &root, "--tls-replication", "yes", "--tls-client-cert-file", &own];
    let (_other_server, mut last) = other.serve(&[&ca[..], &["--tls-client-key-file", &key]].concat());
    assert_eq!(ask(&mut last, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    work(&mut stock, &mut Random::new(12), 300);
    settle(&mut stock);
    for memory in [&mut replica, &mut last] {
        catch_up(memory, &mut stock);
        let of = |connection: &mut Connection| state(|words| connection.call(words).expect("a reply"));
        same(&of(memory), &of(&mut stock));
    }
    // A primary that shows another name, one whose root is not known, and one that speaks no TLS.
    let trouble = |memory: &mut Connection, part: &str| {
        until("the reason is told", || ask(memory, "INFO replication").contains(part));
    };
    let elsewhere = World::new("follows-tls-elsewhere");
    let [own, key, stranger] = certificates(elsewhere.dir(), "elsewhere");
    let (_stranger_server, mut primary) = elsewhere.serve(&[
        "--tls-cert-file",
        &own,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
        "--tls-port",
        &stranger_port,
    ]);
    assert_eq!(ask(&mut primary, "SET k v"), "OK");
    assert_eq!(ask(&mut last, &format!("REPLICAOF localhost {stranger_port}")), "OK");
    trouble(&mut last, "invalid peer certificate");
    assert_eq!(ask(&mut last, &format!("CONFIG SET tls-ca-cert-file {stranger}")), "OK");
    trouble(&mut last, "not valid for name");
    assert_eq!(ask(&mut last, &format!("REPLICAOF 127.0.0.1 {}", server.port())), "OK");
    trouble(&mut last, "corrupt message");
    last.call(&["CONFIG", "SET", "tls-ca-cert-file", ""]).expect("a reply");
    assert_eq!(ask(&mut last, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    trouble(&mut last, "set tls-ca-cert-file or tls-ca-cert-dir");
}

#[test]
fn a_replica_that_is_killed_while_its_connection_leaves_its_loop_is_closed() {
    let world = World::new("links-leaving");
    let (server, mut primary) = world.serve(&["--threads", "2", "--repl-timeout", "3600"]);
    ask(&mut primary, "SET k v");
    for round in 0..300 {
        let mut peer = TcpStream::connect(server.address()).expect("a connection");
        peer.write_all(b"CLIENT ID\r\n").expect("sent");
        let id = line_of(&mut peer).replace(':', "");
        peer.write_all(b"PSYNC ? -1\r\n").expect("sent");
        // At another point of its way each time.
        (0..round % 100 * 50).for_each(|_| std::hint::spin_loop());
        let killed = primary.call(&["CLIENT", "KILL", "ID", &id]).expect("a reply").shown();
        assert_eq!(killed.trim_end(), "(integer) 1", "round {round}");
        peer.set_read_timeout(Some(std::time::Duration::from_secs(8))).expect("a socket");
        let end = peer.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        let is_closed = end.is_ok() || end == Err(std::io::ErrorKind::ConnectionReset);
        assert!(is_closed, "round {round}: it is fed after all: {end:?}");
    }
}
