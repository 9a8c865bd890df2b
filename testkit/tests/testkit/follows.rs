//! A memory as a replica: of stock servers and of another memory, whatever process dies; and as a primary again.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use polder_commands::flush;
use polder_table::Mode;
use polder_testkit::logs::{World, ask, log_and_base_hold, same, settle, signal, state, until, work};
use polder_testkit::process::{Server, free_port, on_path, stock_servers};
use polder_testkit::random::Random;
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

/// A stock server that sends copies at once.
fn primary(program: &Path) -> (Server, Connection) {
    let flags = ["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"];
    let more = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];
    // A PING of a primary that has lost its role is a byte too many for a continuation.
    let quiet = ["--repl-ping-replica-period", "3600"];
    let flags: Vec<&str> = flags.into_iter().chain(more).chain(quiet).collect();
    let server = Server::start(program, &flags).expect("a server");
    let connection = Connection::open(&server.address()).expect("a connection");
    (server, connection)
}

fn replicate(replica: &mut Connection, primary: &Server) {
    assert_eq!(ask(replica, &format!("REPLICAOF 127.0.0.1 {}", primary.port())), "OK");
}

fn of(connection: &mut Connection) -> impl Fn(&mut Connection) + use<> {
    let there = state(|words| connection.call(words).expect("a reply"));
    move |other| same(&state(|words| other.call(words).expect("a reply")), &there)
}

#[test]
fn a_memory_follows_stock_servers_whatever_server_of_it_dies() {
    for (name, program) in stock_servers() {
        let world = World::new(&format!("follows-{name}"));
        let (server, mut stock) = primary(&program);
        let mut random = Random::new(17);
        work(&mut stock, &mut random, 800);
        ask(&mut stock, "SELECT 0");
        for line in ["XADD x 1-1 a 1", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >"] {
            assert!(!ask(&mut stock, line).starts_with("(error)"), "{line}");
        }
        let (mut one, mut first) = world.serve(&[]);
        let (_other, mut second) = world.serve(&[]);
        assert_eq!(ask(&mut first, "SET own 1"), "OK");
        replicate(&mut first, &server);
        work(&mut stock, &mut random, 800);
        settle(&mut stock);
        catch_up(&mut second, &mut stock);
        of(&mut stock)(&mut second);
        assert_eq!(ask(&mut second, "GET own"), "(nil)", "the copy has taken its place");
        assert_eq!(ask(&mut second, "XPENDING x g"), ask(&mut stock, "XPENDING x g"), "{name}");
        for _ in 0..4 {
            // The server that has the link, if it is the first one; else one that stands by.
            one.kill();
            work(&mut stock, &mut random, 200);
            (one, first) = world.serve(&[]);
        }
        settle(&mut stock);
        catch_up(&mut first, &mut stock);
        of(&mut stock)(&mut first);
        assert_eq!(figure(&mut stock, "stats", "sync_full"), "1", "{name}");
        assert_eq!(figure(&mut first, "replication", "link_refused"), "0");
        assert!(ask(&mut first, "ROLE").contains("connected"));
    }
}

/// Words of CLIENT LIST that tell of the primary.
fn of_primary(replica: &mut Connection) -> Vec<String> {
    let names = ["addr=", "flags=", "db=", "sub=", "multi=", "events=", "cmd=", "user=", "redir=", "resp="];
    let list = replica.call(&["CLIENT", "LIST", "TYPE", "master"]).expect("a reply").shown();
    let words = list.split([' ', '"', '\\']).filter(|word| names.iter().any(|name| word.starts_with(name)));
    words.map(str::to_owned).collect()
}

#[test]
fn the_primary_is_a_client_of_its_replica_as_in_redis() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let (server, mut stock) = primary(&program);
    let world = World::new("follows-client");
    let (_one, mut first) = world.serve(&[]);
    let (_other, mut second) = world.serve(&[]);
    assert_eq!(of_primary(&mut first), [""; 0]);
    replicate(&mut first, &server);
    let (_theirs, mut theirs) = follow(&program, server.port(), &[]);
    for replica in [&mut first, &mut theirs] {
        catch_up(replica, &mut stock);
    }
    for line in ["SELECT 3", "SET k v"] {
        assert_eq!(ask(&mut stock, line), "OK");
    }
    until("both are there", || {
        let (mine, theirs) = (of_primary(&mut second), of_primary(&mut theirs));
        mine == theirs && mine.iter().any(|word| word == "db=3")
    });
    let before = figure(&mut stock, "stats", "sync_partial_ok").parse::<u64>().expect("a number");
    for (number, replica) in [&mut second, &mut theirs].into_iter().enumerate() {
        assert_eq!(ask(replica, "CLIENT KILL TYPE master"), "(integer) 1");
        let count = (before + number as u64 + 1).to_string();
        until("it goes on", || figure(&mut stock, "stats", "sync_partial_ok") == count);
        catch_up(replica, &mut stock);
        assert!(of_primary(replica).contains(&format!("addr={}", server.address())));
        // Sentinel kills these at each failover.
        ask(replica, "CLIENT KILL TYPE normal");
        assert!(of_primary(replica).iter().any(|word| word == "flags=M"));
    }
    assert_eq!(figure(&mut stock, "stats", "sync_full"), "2");
    assert_eq!(ask(&mut second, "REPLICAOF NO ONE"), "OK");
    until("it is gone", || of_primary(&mut second).is_empty());
}

#[test]
fn what_a_redis_8_6_knows_of_producers_comes_with_the_copy_and_with_the_stream() {
    let Some((_, program)) = stock_servers().into_iter().find(|(name, _)| name == "redis-8.6") else {
        return println!("no Redis 8.6: left out");
    };
    let world = World::new("follows-producers");
    let (server, mut stock) = primary(&program);
    let work = |stock: &mut Connection, lines: &[&str]| {
        lines.iter().for_each(|line| assert!(!ask(stock, line).starts_with("(error)"), "{line}"));
    };
    work(&mut stock, &["XADD x IDMP one a * f 1", "XADD x IDMP two a * f 1", "XADD x IDMP one a * f 1"]);
    work(&mut stock, &["XADD y 1-1 f 1", "XCFGSET y IDMP-DURATION 500 IDMP-MAXSIZE 7"]);
    let (_replica_server, mut replica) = world.serve(&[]);
    replicate(&mut replica, &server);
    catch_up(&mut replica, &mut stock);
    let is_alike = |replica: &mut Connection, stock: &mut Connection| {
        for line in ["XINFO STREAM x", "XINFO STREAM y", "XRANGE x - +"] {
            assert_eq!(ask(replica, line), ask(stock, line), "{line}");
        }
    };
    is_alike(&mut replica, &mut stock);
    work(&mut stock, &["XADD x IDMP one b * f 1", "XADD x IDMP two a * f 1", "XADD y IDMP one a * f 1"]);
    work(&mut stock, &["XADD y IDMPAUTO one * f 1", "XCFGSET x IDMP-MAXSIZE 100"]);
    catch_up(&mut replica, &mut stock);
    is_alike(&mut replica, &mut stock);
    // A producer that sends again to the new primary adds nothing.
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    let again = "XADD x IDMP one b * f 1";
    assert_eq!(ask(&mut replica, again), ask(&mut stock, again));
    assert_eq!(ask(&mut replica, "XLEN x"), "(integer) 3");
}

/// Streams with producers, and with entries that were given back.
const PRODUCED: [&str; 9] = [
    "XADD x IDMP one a * f 1",
    "XADD x IDMP one a * f 1",
    "XADD x IDMPAUTO two * f 1",
    "XADD y 1-1 f 1",
    "XADD y 2-1 f 1",
    "XADD y 3-1 f 1",
    "XGROUP CREATE y g 0",
    "XREADGROUP GROUP g c STREAMS y >",
    "XNACK y g FATAL IDS 2 3-1 1-1",
];

fn of_producers(connection: &mut Connection) -> Vec<String> {
    let lines = [
        "XINFO STREAM x",
        "XINFO STREAM y",
        "XPENDING y g",
        "XPENDING y g 3-1 3-1 1",
        "XPENDING y g 1-1 1-1 1",
    ];
    let mut known: Vec<String> = lines.iter().map(|line| ask(connection, line)).collect();
    // Two servers do not tell the age of a delivery at one moment.
    for pending in &mut known[3..] {
        *pending =
            pending.lines().filter(|line| !line.starts_with("   3)") || line.ends_with("-1")).collect();
    }
    let consumers = ask(connection, "XINFO CONSUMERS y g");
    known.push(consumers.lines().take(4).collect());
    known
}

#[test]
fn what_is_known_of_producers_and_what_was_given_back_reach_another_memory() {
    let (world, other) = (World::new("follows-given-back"), World::new("follows-given-back-copy"));
    let (server, mut first) = world.serve(&[]);
    let (_other_server, mut replica) = other.serve(&[]);
    PRODUCED.iter().for_each(|line| assert!(!ask(&mut first, line).starts_with("(error)"), "{line}"));
    replicate(&mut replica, &server);
    catch_up(&mut replica, &mut first);
    assert_eq!(of_producers(&mut replica), of_producers(&mut first));
    assert_eq!(figure(&mut first, "stats", "sync_full"), "1");
    for line in PRODUCED.iter().filter(|line| !line.starts_with("XADD y") && !line.starts_with("XGROUP")) {
        assert!(!ask(&mut first, line).starts_with("(error)"), "{line}");
    }
    for line in [
        "XADD x IDMP one b * f 1",
        "XREADGROUP GROUP g d CLAIM 0 COUNT 1 STREAMS y >",
        "XNACK y g SILENT IDS 1 2-1",
    ] {
        assert!(!ask(&mut first, line).starts_with("(error)"), "{line}");
    }
    catch_up(&mut replica, &mut first);
    assert_eq!(of_producers(&mut replica), of_producers(&mut first));
    let report = other.attach().expect("the memory").table().verify().expect("readable");
    assert!(report.findings.is_empty(), "{report}");
}

#[test]
fn logs_and_their_bases_hold_what_is_known_of_producers_and_what_was_given_back() {
    let make = |connection: &mut Connection| {
        PRODUCED.iter().for_each(|line| assert!(!ask(connection, line).starts_with("(error)"), "{line}"));
    };
    log_and_base_hold("follows-given-back", &[], make, of_producers);
}

#[test]
fn the_only_server_is_killed_again_and_again_and_nothing_is_done_twice() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("follows-killed");
    let (server, mut stock) = primary(&program);
    let (mut replica_server, mut replica) = world.serve(&[]);
    replicate(&mut replica, &server);
    catch_up(&mut replica, &mut stock);
    // A command that is done twice or not at all shows: in numbers, lists, and transactions of both.
    for round in 0..12 {
        for number in 0..60 {
            let lines = [
                "MULTI".to_owned(),
                "INCR n".to_owned(),
                format!("RPUSH l {round}:{number}"),
                format!("APPEND s {}", number % 10),
                "EXEC".to_owned(),
                "INCR n".to_owned(),
            ];
            lines.iter().for_each(|line| stock.send(&line.split(' ').collect::<Vec<_>>()).expect("sent"));
            if number == round * 5 {
                replica_server.kill();
            }
        }
        (0..60 * 6).for_each(|_| drop(stock.receive().expect("a reply")));
        (replica_server, replica) = world.serve(&[]);
    }
    catch_up(&mut replica, &mut stock);
    for line in ["GET n", "LRANGE l 0 -1", "GET s"] {
        assert_eq!(ask(&mut replica, line), ask(&mut stock, line), "{line}");
    }
    assert_eq!(figure(&mut stock, "stats", "sync_full"), "1");
    drop(replica_server);
    let report = world.attach().expect("the memory").table().verify().expect("readable");
    assert!(report.findings.is_empty(), "{report}");
}

#[test]
fn replicas_of_a_replica_go_on_with_it_when_it_is_promoted() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let (world, last) = (World::new("follows-chain"), World::new("follows-last"));
    let (server, mut stock) = primary(&program);
    let (middle_server, mut middle) = world.serve(&[]);
    let (_last_server, mut end) = last.serve(&[]);
    replicate(&mut middle, &server);
    catch_up(&mut middle, &mut stock);
    replicate(&mut end, &middle_server);
    let (_stock_end_server, mut stock_end) = follow(&program, middle_server.port(), &[]);
    work(&mut stock, &mut Random::new(18), 400);
    settle(&mut stock);
    // Down the chain: the mark, then the same offset everywhere.
    for replica in [&mut middle, &mut end, &mut stock_end] {
        catch_up(replica, &mut stock);
        of(&mut stock)(replica);
        assert_eq!(
            figure(replica, "replication", "master_replid"),
            figure(&mut stock, "replication", "master_replid")
        );
    }
    let full = figure(&mut middle, "stats", "sync_full");
    assert_eq!(ask(&mut middle, "REPLICAOF NO ONE"), "OK");
    assert_eq!(figure(&mut middle, "replication", "role"), "master");
    assert_eq!(ask(&mut middle, "SET promoted 1"), "OK");
    catch_up(&mut end, &mut middle);
    catch_up(&mut stock_end, &mut middle);
    // The old primary comes back under the new one, with no copy either.
    assert_eq!(ask(&mut stock, &format!("REPLICAOF 127.0.0.1 {}", middle_server.port())), "OK");
    catch_up(&mut stock, &mut middle);
    for replica in [&mut end, &mut stock_end, &mut stock] {
        of(&mut middle)(replica);
    }
    assert_eq!(figure(&mut middle, "stats", "sync_full"), full, "no one needed a copy");
    assert_eq!(
        figure(&mut middle, "replication", "master_replid2"),
        figure(&mut stock, "replication", "master_replid2")
    );
}

#[test]
fn a_replica_refuses_writes_and_hides_what_has_expired() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("follows-refuses");
    let (server, mut stock) = primary(&program);
    ask(&mut stock, "SET k v");
    ask(&mut stock, "SADD s x");
    let (_replica_server, mut replica) = world.serve(&[]);
    // A moment of the data that goes.
    assert_eq!(ask(&mut replica, "ITEM.FLUSH EX 1000"), "OK");
    replicate(&mut replica, &server);
    catch_up(&mut replica, &mut stock);
    let memory = world.attach().expect("the memory");
    let txn = memory.table().begin(Mode::Read).expect("a seat");
    assert_eq!(flush::next(&txn), Ok(None), "the new data is not emptied at that moment");
    drop(txn);
    drop(memory);
    let writes =
        ["SET k 2", "DEL k", "FLUSHALL", "EVAL return(redis.call('set','k','2')) 0", "FUNCTION FLUSH"];
    // They would change nothing.
    let idle = ["DEL absent", "SADD s x", "LPOP absent", "LPUSH k x"];
    for line in writes.into_iter().chain(idle) {
        assert!(ask(&mut replica, line).contains("READONLY"), "{line}: {}", ask(&mut replica, line));
    }
    assert_eq!(ask(&mut replica, "MULTI"), "OK");
    assert!(ask(&mut replica, "SET k 2").contains("READONLY"));
    assert!(ask(&mut replica, "EXEC").contains("EXECABORT"));
    let memory = std::sync::Arc::new(world.attach().expect("the memory"));
    let mut caller = polder_engine::Caller::new(&memory);
    assert!(caller.run(&["SET", "k", "2"]).is_err_and(|error| error.to_string().contains("READONLY")));
    assert_eq!(ask(&mut replica, "GET k"), "\"v\"");
    assert!(ask(&mut replica, "WAIT 1 1").contains("cannot be used with replica instances"));
    // A count that was not kept is counted, and not kept here either.
    assert_eq!(ask(&mut stock, "PFADD h a b c"), "(integer) 1");
    catch_up(&mut replica, &mut stock);
    assert_eq!(
        (ask(&mut replica, "PFCOUNT h"), ask(&mut stock, "DEL h")),
        ("(integer) 3".into(), "(integer) 1".into())
    );
    // A key that has expired here is there until the primary says so.
    assert_eq!(ask(&mut stock, "DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
    assert_eq!(ask(&mut stock, "SET e 1 PX 20"), "OK");
    catch_up(&mut replica, &mut stock);
    until("it has expired", || ask(&mut replica, "GET e") == "(nil)");
    assert_eq!(ask(&mut replica, "DBSIZE"), "(integer) 4", "k, s, mark, and e, which the primary has still");
    // Redis has a key for one millisecond longer.
    until("it has expired at the primary", || ask(&mut stock, "GET e") == "(nil)");
    catch_up(&mut replica, &mut stock);
    assert_eq!(ask(&mut replica, "DBSIZE"), "(integer) 3", "k, s and mark");
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    assert_eq!(ask(&mut replica, "SET k 2"), "OK");
}

#[test]
fn a_replica_that_has_lost_its_primary_may_refuse_what_is_stale() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let (world, http) = (World::new("follows-stale"), free_port().expect("a port").to_string());
    let (mut server, mut stock) = primary(&program);
    let (replica_server, mut replica) =
        world.serve(&["--replica-serve-stale-data", "no", "--http-port", &http]);
    let (_stock_replica, mut peer) = follow(&program, server.port(), &["--replica-serve-stale-data", "no"]);
    replicate(&mut replica, &server);
    ask(&mut stock, "SET k v");
    for connection in [&mut replica, &mut peer] {
        catch_up(connection, &mut stock);
        assert_eq!(ask(connection, "GET k"), "\"v\"");
    }
    server.kill();
    for connection in [&mut replica, &mut peer] {
        until("the link is down", || figure(connection, "replication", "master_link_status") == "down");
    }
    let lines = [
        "GET k",
        "PING",
        "SET k 2",
        "MULTI",
        "GET k",
        "EXEC",
        "DBSIZE",
        "SELECT 1",
        "ECHO x",
        "EVAL return(redis.call('get','k')) 0",
        "REPLICAOF NO",
        "SUBSCRIBE c",
    ];
    for line in lines {
        assert_eq!(ask(&mut replica, line), ask(&mut peer, line), "{line}");
    }
    let mut page = TcpStream::connect(format!("127.0.0.1:{http}")).expect("a connection");
    page.write_all(b"GET /GET/k HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    page.read_to_string(&mut text).expect("a reply");
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("MASTERDOWN"), "{text}");
    let mut replica = Connection::open(&replica_server.address()).expect("a connection");
    assert_eq!(ask(&mut replica, "CONFIG SET replica-serve-stale-data yes"), "OK");
    assert_eq!(ask(&mut replica, "GET k"), "\"v\"");
}

#[test]
fn calls_that_wait_end_when_the_memory_becomes_a_replica() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("follows-waits");
    let (server, _stock) = primary(&program);
    let (replica_server, mut replica) = world.serve(&[]);
    let mut waits = Connection::open(&replica_server.address()).expect("a connection");
    waits.send(&["BLPOP", "list", "0"]).expect("sent");
    until("it waits", || figure(&mut replica, "clients", "blocked_clients") == "1");
    replicate(&mut replica, &server);
    let reply = waits.receive().expect("a reply").shown();
    assert!(reply.contains("UNBLOCKED force unblock from blocking operation"), "{reply}");
    // Sentinel gives a role in a transaction.
    for line in ["MULTI", "REPLICAOF NO ONE", "CLIENT KILL TYPE pubsub"] {
        assert!(!ask(&mut replica, line).contains("error"), "{line}");
    }
    assert_eq!(ask(&mut replica, "EXEC"), "1) OK\n2) (integer) 0");
    assert_eq!(ask(&mut replica, "SET k v"), "OK");
}

#[test]
fn an_empty_primary_takes_no_data_with_it() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("follows-empty");
    let (server, mut stock) = primary(&program);
    let (_replica_server, mut replica) = world.serve(&[]);
    assert_eq!(ask(&mut replica, "SET k v"), "OK");
    replicate(&mut replica, &server);
    until("it is refused", || {
        ask(&mut replica, "INFO replication").contains("master_link_error:the primary is empty")
    });
    assert_eq!(ask(&mut replica, "GET k"), "\"v\"");
    // Told again, it is meant.
    replicate(&mut replica, &server);
    until("the link is up", || figure(&mut replica, "replication", "master_link_status") == "up");
    assert_eq!(ask(&mut replica, "DBSIZE"), "(integer) 0");
    // That was meant once.
    assert_eq!(ask(&mut stock, "SET k v"), "OK");
    catch_up(&mut replica, &mut stock);
    let port = server.port();
    drop((server, stock));
    let flags = ["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0"];
    let _again = Server::start_at(&program, &flags, port).expect("a server");
    until("it is refused", || {
        ask(&mut replica, "INFO replication").contains("master_link_error:the primary is empty")
    });
    assert_eq!(ask(&mut replica, "DBSIZE"), "(integer) 2");
}

/// A peer that says this to whatever it is asked by PSYNC, and closes the connection.
fn peer(says: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut heard = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                heard.extend_from_slice(&piece[..count]);
                let reply: &[u8] =
                    if heard.windows(5).any(|word| word == b"PSYNC") { says } else { b"+OK\r\n" };
                if stream.write_all(reply).is_err() || reply == says {
                    break;
                }
            }
        }
    });
    port
}

#[test]
fn peers_that_are_no_primaries_do_no_harm() {
    let world = World::new("follows-peers");
    let (_server, mut replica) = world.serve(&[]);
    assert_eq!(ask(&mut replica, "SET k v"), "OK");
    let id = "0123456789012345678901234567890123456789";
    let with = |rest: &str| -> &'static [u8] { format!("+FULLRESYNC {id} 100\r\n{rest}").leak().as_bytes() };
    for (says, trouble) in [
        (&b"-ERR no\r\n"[..], "replies to PSYNC: -ERR no"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "replies to PSYNC: HTTP/1.1"),
        (b"+FULLRESYNC short 1\r\n", "names its stream"),
        (with("$5\r\nREDIS"), "cannot be loaded"),
        (with("$20\r\nREDIS0010\x7f\x7fgarbage...."), "cannot be loaded"),
        (with("-ERR no copy\r\n"), "sends no copy"),
        (with("$EOF:short\r\n"), "mark"),
        (with("$EOF:0123456789012345678901234567890123456789\r\nREDIS00"), "closed the connection"),
        (with("$18446744073709551615\r\nREDIS00"), "closed the connection"),
    ] {
        let port = peer(says);
        assert_eq!(ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
        until(trouble, || ask(&mut replica, "INFO replication").contains(trouble));
        assert_eq!(
            (ask(&mut replica, "GET k"), ask(&mut replica, "DBSIZE")),
            ("\"v\"".into(), "(integer) 1".into())
        );
    }
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    assert_eq!(ask(&mut replica, "SET k 2"), "OK");
    let report = world.attach().expect("the memory").table().verify().expect("readable");
    assert!(report.findings.is_empty(), "{report}");
}

#[test]
fn a_stream_that_cannot_be_made_here_ends_the_link_and_changes_nothing() {
    let world = World::new("follows-stream");
    let (_server, mut replica) = world.serve(&[]);
    let id = "0123456789012345678901234567890123456789";
    // An empty RDB file of version 10 without a checksum.
    let copy = "REDIS0010\u{0}".replace('\u{0}', "");
    let mut rdb = copy.into_bytes();
    rdb.push(0xff);
    rdb.extend_from_slice(&[0; 8]);
    for (stream, trouble) in [
        ("*1\r\n$7\r\nUNKNOWN\r\n", "unknown command"),
        ("*2\r\n$3\r\nSET\r\n$1\r\nk\r\n", "wrong number of arguments"),
        ("*2\r\n$6\r\nSELECT\r\n$3\r\n300\r\n", "selects database 300"),
        ("*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n$3\r\n387\r\n", "selects database 387"),
        ("GET / HTTP/1.1\r\n", "not in Redis's protocol"),
        ("*1\r\n$-5\r\n", "not in Redis's protocol"),
    ] {
        let mut says = format!("+FULLRESYNC {id} 100\r\n${}\r\n", rdb.len()).into_bytes();
        says.extend_from_slice(&rdb);
        says.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$6\r\nbefore\r\n$1\r\n1\r\n");
        says.extend_from_slice(stream.as_bytes());
        let port = peer(says.leak());
        assert_eq!(ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
        until(trouble, || ask(&mut replica, "INFO replication").contains(trouble));
        assert_eq!(ask(&mut replica, "GET before"), "\"1\"");
        assert_eq!(ask(&mut replica, "DBSIZE"), "(integer) 1");
    }
}

#[test]
fn a_server_begins_as_a_replica() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("follows-begins");
    let (server, mut stock) = primary(&program);
    assert_eq!(ask(&mut stock, "CONFIG SET requirepass secret"), "OK");
    assert_eq!(ask(&mut stock, "AUTH secret"), "OK");
    let address = format!("127.0.0.1 {}", server.port());
    let (first, mut replica) = world.serve(&["--replicaof", &address]);
    until("it is told", || ask(&mut replica, "INFO replication").contains("set masterauth"));
    assert_eq!(ask(&mut replica, "CONFIG SET masterauth secret"), "OK");
    catch_up(&mut replica, &mut stock);
    // A later role is the memory's own: the flag does not take it back.
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    drop(first);
    let (_second, mut replica) = world.serve(&["--replicaof", &address]);
    assert_eq!(ask(&mut replica, "SET k v"), "OK");
    assert_eq!(figure(&mut replica, "replication", "role"), "master");
}

#[test]
fn the_log_of_a_replica_holds_what_it_has() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("follows-log");
    let (server, mut stock) = primary(&program);
    let mut random = Random::new(19);
    work(&mut stock, &mut random, 300);
    let (replica_server, mut replica) = world.serve(&["--appendonly", "yes"]);
    assert_eq!(ask(&mut replica, "SET own 1"), "OK");
    replicate(&mut replica, &server);
    work(&mut stock, &mut random, 300);
    settle(&mut stock);
    catch_up(&mut replica, &mut stock);
    // Another base, since the copy is another history.
    until("the log is written", || {
        let text = ask(&mut replica, "INFO persistence");
        text.contains("aof_last_bgrewrite_status:ok") && text.contains("aof_rewrite_in_progress:0")
    });
    let there = of(&mut replica);
    // A server that ends in order has written all.
    signal("-TERM", replica_server.pid());
    until("it has ended", || replica_server.fate() != "it runs");
    world.lose_segment();
    let (_again, mut read) = world.serve(&["--appendonly", "yes"]);
    there(&mut read);
}
