//! CLIENT across real processes: every server shows all clients of a segment.
use std::process::Command;
use std::time::{Duration, Instant};

use polder_testbase::{until, until_quick};
use polder_testkit::process::Server;
use polder_testkit::resp::Connection;

use crate::stage::{Segment, connect};

fn ask(client: &mut Connection, line: &str) -> String {
    client.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply").shown()
}

fn send(client: &mut Connection, line: &str) {
    client.send(&line.split(' ').collect::<Vec<_>>()).expect("sent");
}

fn hear(client: &mut Connection) -> String {
    client.receive().expect("a message").shown()
}

fn id(client: &mut Connection) -> u64 {
    ask(client, "CLIENT ID").strip_prefix("(integer) ").expect("a number").parse().expect("a number")
}

/// The numbers in a CLIENT LIST, in its order.
fn listed(client: &mut Connection, line: &str) -> Vec<u64> {
    let shown = ask(client, line);
    shown.split("id=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect()
}

fn signal(server: &Server, name: &str) {
    assert!(
        Command::new("kill").args([name, &server.pid().to_string()]).status().expect("kill runs").success()
    );
}

#[test]
fn the_clients_of_all_processes_are_listed_whichever_is_asked() {
    let segment = Segment::new();
    let (one, other) = (segment.serve(&["--threads", "2"]), segment.serve(&["--threads", "2"]));
    let mut here: Vec<Connection> = (0..3).map(|_| connect(&one)).collect();
    let mut there: Vec<Connection> = (0..3).map(|_| connect(&other)).collect();
    let mut ids: Vec<u64> = here.iter_mut().chain(&mut there).map(id).collect();
    let wanted = format!("CLIENT LIST ID {} {} {}", ids[5], ids[0], ids[3]);
    let in_order = vec![ids[5], ids[0], ids[3]];
    ask(&mut there[1], "CLIENT SETNAME far");
    ask(&mut there[2], "SUBSCRIBE news");
    let listener = ids[5];
    ids.sort_unstable();
    assert_eq!(ids.windows(2).filter(|pair| pair[0] == pair[1]).count(), 0);
    for asker in [&mut here[0], &mut there[0]] {
        assert_eq!(listed(asker, "CLIENT LIST"), ids);
        assert_eq!(listed(asker, "CLIENT LIST TYPE pubsub"), [listener]);
        assert_eq!(listed(asker, &wanted), in_order);
        assert!(ask(asker, "CLIENT LIST").contains("name=far "));
        // In a transaction that runs again for each question.
        ask(asker, "MULTI");
        ["INCR runs", "CLIENT LIST", "CLIENT LIST TYPE pubsub"]
            .iter()
            .for_each(|line| drop(ask(asker, line)));
        let shown = ask(asker, "EXEC");
        assert_eq!(shown.matches("id=").count(), ids.len() + 1, "{shown}");
    }
    assert_eq!(ask(&mut here[0], "GET runs"), "\"2\"");
}

#[test]
fn clients_of_another_process_are_killed_and_counted() {
    let segment = Segment::new();
    let (one, other) = (segment.serve(&[]), segment.serve(&["--threads", "2"]));
    let mut actor = connect(&one);
    let mut victims: Vec<Connection> = [&one, &other, &other, &other, &other].map(connect).into();
    let ids: Vec<u64> = victims.iter_mut().map(id).collect();
    ask(&mut actor, "ACL SETUSER eve on nopass ~* &* +@all");
    until("eve is known everywhere", || ask(&mut victims[1], "AUTH eve x") == "OK");
    assert_eq!(ask(&mut actor, "CLIENT KILL USER eve"), "(integer) 1");
    assert_eq!(ask(&mut actor, &format!("CLIENT KILL ID {}", ids[2])), "(integer) 1");
    assert_eq!(ask(&mut actor, &format!("CLIENT KILL ID {}", ids[2])), "(integer) 0");
    let line = ask(&mut victims[3], "CLIENT INFO");
    let address =
        line.split(" addr=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address").to_owned();
    assert_eq!(ask(&mut actor, &format!("CLIENT KILL {address}")), "OK");
    assert_eq!(ask(&mut actor, &format!("CLIENT KILL {address}")), "(error) ERR No such client");
    // Two are left besides the caller: one in each process.
    assert_eq!(ask(&mut actor, "CLIENT KILL TYPE normal SKIPME yes"), "(integer) 2");
    until("only the caller is left", || listed(&mut actor, "CLIENT LIST").len() == 1);
    for victim in &mut victims {
        assert!(victim.call(&["PING"]).is_err());
    }
}

#[test]
fn a_client_that_waits_in_another_process_is_unblocked() {
    let segment = Segment::new();
    let (one, other) = (segment.serve(&[]), segment.serve(&[]));
    let (mut actor, mut waiter) = (connect(&one), connect(&other));
    let number = id(&mut waiter);
    assert_eq!(ask(&mut actor, &format!("CLIENT UNBLOCK {number}")), "(integer) 0");
    for (reason, answer) in [
        ("", "(nil)"),
        (" TIMEOUT", "(nil)"),
        (" ERROR", "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ] {
        send(&mut waiter, "BLPOP list 0");
        until("it is unblocked", || {
            ask(&mut actor, &format!("CLIENT UNBLOCK {number}{reason}")) == "(integer) 1"
        });
        assert_eq!(hear(&mut waiter).replace("(nil array)", "(nil)"), answer);
    }
}

#[test]
fn a_pause_holds_in_all_processes_until_it_is_ended_in_any() {
    let segment = Segment::new();
    let (one, other) = (segment.serve(&[]), segment.serve(&["--threads", "2"]));
    let mut actor = connect(&one);
    let mut writers: Vec<Connection> = [&one, &other, &other].map(connect).into();
    let mut reader = connect(&other);
    assert_eq!(ask(&mut actor, "CLIENT PAUSE 100000 WRITE"), "OK");
    writers.iter_mut().for_each(|writer| send(writer, "INCR count"));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(ask(&mut reader, "GET count"), "(nil)");
    assert_eq!(ask(&mut reader, "CLIENT UNPAUSE"), "OK");
    writers.iter_mut().for_each(|writer| assert!(hear(writer).starts_with("(integer)")));
    assert_eq!(ask(&mut reader, "GET count"), "\"3\"");
    // No longer than the servers.
    assert_eq!(ask(&mut actor, "CLIENT PAUSE 100000"), "OK");
    drop((one, other));
    assert_eq!(ask(&mut connect(&segment.serve(&[])), "PING"), "PONG");
}

#[test]
fn a_stopped_process_is_left_out_after_a_while_and_a_killed_one_at_once() {
    let segment = Segment::new();
    let (one, mut other) = (segment.serve(&[]), segment.serve(&[]));
    let (mut asker, mut neighbour) = (connect(&one), connect(&one));
    let far: Vec<Connection> = (0..3).map(|_| connect(&other)).collect();
    until("all are there", || listed(&mut asker, "CLIENT LIST").len() == 5);
    signal(&other, "-STOP");
    let state = format!("/proc/{}/stat", other.pid());
    until("it stands still", || std::fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") T ")));
    // Others of its thread do not wait with it.
    until("a reply beside a CLIENT LIST that waits", || {
        send(&mut asker, "CLIENT LIST");
        let begun = Instant::now();
        assert_eq!(ask(&mut neighbour, "PING"), "PONG");
        let was_quick = begun.elapsed() < Duration::from_millis(400);
        assert_eq!(hear(&mut asker).matches("id=").count(), 2);
        was_quick
    });
    signal(&other, "-CONT");
    until("it answers again", || listed(&mut asker, "CLIENT LIST").len() == 5);
    // Killed while others ask for its clients all the time: each list is whole or without them.
    let end = Instant::now() + Duration::from_millis(300);
    let mut killed = false;
    while Instant::now() < end {
        let count = listed(&mut asker, "CLIENT LIST").len();
        assert!(count == 2 || count == 5, "{count}");
        if !killed && end - Instant::now() < Duration::from_millis(150) {
            send(&mut asker, "CLIENT LIST");
            other.kill();
            hear(&mut asker);
            killed = true;
        }
    }
    until_quick("a list without the dead", Duration::from_millis(400), || {
        assert_eq!(listed(&mut asker, "CLIENT LIST").len(), 2);
    });
    drop(far);
    segment.verify();
}

#[test]
fn a_client_of_another_process_is_told_of_changed_keys_and_its_end_is_noticed() {
    let segment = Segment::new();
    let (one, mut other) = (segment.serve(&["--threads", "2"]), segment.serve(&["--threads", "2"]));
    let (mut reader, mut writer) = (connect(&one), connect(&one));
    assert!(ask(&mut reader, "HELLO 3").contains("proto"));
    assert_eq!(
        ask(&mut reader, "CLIENT TRACKING on REDIRECT 99999"),
        "(error) ERR The client ID you want redirect to does not exist"
    );
    for by_kill in [false, true] {
        let mut told = connect(&other);
        let number = id(&mut told);
        ask(&mut told, "SUBSCRIBE __redis__:invalidate");
        assert_eq!(ask(&mut reader, &format!("CLIENT TRACKING on REDIRECT {number}")), "OK");
        ask(&mut reader, "GET key");
        ask(&mut writer, "SET key value");
        assert_eq!(hear(&mut told), "1) \"message\"\n2) \"__redis__:invalidate\"\n3) 1) \"key\"");
        if by_kill {
            other.kill();
        } else {
            assert_eq!(ask(&mut writer, &format!("CLIENT KILL ID {number}")), "(integer) 1");
            until("it is gone", || listed(&mut writer, &format!("CLIENT LIST ID {number}")).is_empty());
        }
        ask(&mut reader, "GET key");
        ask(&mut writer, "SET key value");
        let broken = hear(&mut reader);
        assert!(broken.contains("tracking-redir-broken") && broken.contains(&number.to_string()), "{broken}");
        ask(&mut reader, "CLIENT TRACKING off");
    }
    segment.verify();
}

#[test]
fn an_idle_client_holds_no_buffer_and_half_a_request_does() {
    let segment = Segment::new();
    let server = segment.serve(&[]);
    let (mut asker, mut idle) = (connect(&server), connect(&server));
    ask(&mut idle, "CLIENT SETNAME quiet");
    ask(&mut idle, "SET key value");
    let figure = |asker: &mut Connection, name: &str| -> u64 {
        let shown = ask(asker, "CLIENT LIST");
        let line = shown.split("id=").find(|line| line.contains("name=quiet")).expect("a line").to_owned();
        let field = line.split(' ').find_map(|field| field.strip_prefix(name)).expect("a field");
        field.parse().expect("a number")
    };
    assert_eq!(["qbuf=", "qbuf-free=", "rbs=", "obl="].map(|name| figure(&mut asker, name)), [0; 4]);
    let alone = figure(&mut asker, "tot-mem=");
    idle.send_framed(b"*2\r\n$3\r\nGET\r\n$3\r\nk").expect("sent");
    until("half a request is shown", || figure(&mut asker, "qbuf=") == 18);
    assert!(figure(&mut asker, "qbuf-free=") > 0 && figure(&mut asker, "tot-mem=") >= alone + (16 << 10));
    idle.send_framed(b"ey\r\n").expect("sent");
    assert_eq!(hear(&mut idle), "\"value\"");
    until("it is idle again", || figure(&mut asker, "tot-mem=") == alone);
}

#[test]
fn a_server_whose_maintenance_rests_sleeps() {
    let segment = Segment::new();
    let server = segment.serve(&["--enable-debug-command", "yes"]);
    let mut client = connect(&server);
    let cpu_ms = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("its state");
        let (_, fields) = stat.rsplit_once(") ").expect("a state");
        // Fields 14 and 15 of proc(5), in hundredths of a second.
        fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks") * 10).sum()
    };
    assert_eq!(ask(&mut client, "DEBUG PAUSE-CRON 1"), "OK");
    let before = cpu_ms();
    std::thread::sleep(Duration::from_millis(1000));
    let used = cpu_ms() - before;
    assert!(used < 300, "{used} ms of CPU in a second of rest");
    assert_eq!(ask(&mut client, "DEBUG PAUSE-CRON 0"), "OK");
    assert_eq!(ask(&mut client, "SET key value PX 1"), "OK");
    until("maintenance runs again", || {
        ask(&mut client, "INFO keyspace").lines().all(|line| !line.contains("db0"))
    });
}
