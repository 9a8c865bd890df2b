//! Calls that wait for a key, over sockets: within a server and across servers on one memory.
use std::net::TcpStream;
use std::time::{Duration, Instant};

use polder_wire::resp::command;

use crate::door::{Client, Door, Place};

pub type Caller = Client<TcpStream>;

pub fn send(client: &mut Caller, line: &str) {
    let mut bytes = Vec::new();
    command(&line.split(' ').collect::<Vec<_>>(), &mut bytes);
    client.write(&bytes);
}

/// Waits until this many clients of the server wait for a key.
pub fn until_waiting(asker: &mut Caller, count: usize) {
    let server = asker.ask("INFO server");
    let run = server.split("\nrun_id:").nth(1).and_then(|rest| rest.split('\r').next()).expect("a run");
    let begun = Instant::now();
    loop {
        // The section Clients counts those of all servers.
        let info = asker.ask("INFO processes");
        let line = info.lines().find(|line| line.contains(run)).expect("its line");
        if line.contains(&format!(",blocked_clients={count},")) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{info}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_silent(client: &Caller) -> bool {
    client.stream.set_nonblocking(true).expect("a socket");
    let silent = client.stream.peek(&mut [0]).is_err();
    client.stream.set_nonblocking(false).expect("a socket");
    silent
}

#[test]
fn a_client_that_goes_on_has_the_rights_of_that_moment() {
    let door = Door::open("");
    let (mut one, mut actor) = (door.client(), door.client());
    send(&mut one, "BLPOP q 0");
    until_waiting(&mut actor, 1);
    // The push is allowed; by the time at which the other client could pop, no client may write.
    ["MULTI", "RPUSH q a", "CONFIG SET min-replicas-to-write 1"]
        .iter()
        .for_each(|line| drop(actor.ask(line)));
    assert_eq!(actor.ask("EXEC"), "*[:1 +OK]");
    assert_eq!(one.reply(), "-NOREPLICAS Not enough good replicas to write.");
    assert_eq!(actor.ask("LRANGE q 0 -1"), "*[$a]");
}

#[test]
fn waiting_clients_are_served_at_once_in_order_before_the_next_call() {
    let door = Door::open("");
    let (mut one, mut two, mut actor) = (door.client(), door.client(), door.client());
    send(&mut one, "BZPOPMIN z 0");
    until_waiting(&mut actor, 1);
    send(&mut two, "BZPOPMIN other z 0");
    until_waiting(&mut actor, 2);
    let mut bytes = Vec::new();
    for call in
        [&["ZADD", "z", "1", "a"][..], &["ZCARD", "z"], &["ZADD", "z", "2", "b", "3", "c"], &["ZCARD", "z"]]
    {
        command(call, &mut bytes);
    }
    actor.write(&bytes);
    assert_eq!([actor.reply(), actor.reply(), actor.reply(), actor.reply()], [":1", ":0", ":2", ":1"]);
    assert_eq!(one.reply(), "*[$z $a $1]");
    assert_eq!(two.reply(), "*[$z $b $2]");
    assert_eq!(actor.ask("ZRANGE z 0 -1"), "*[$c]");
    until_waiting(&mut actor, 0);
    // What the client had sent behind it is answered behind it.
    send(&mut one, "BZPOPMIN z 0");
    assert_eq!(one.reply(), "*[$z $c $3]");
    let mut bytes = Vec::new();
    for call in [&["BZPOPMAX", "z", "0"][..], &["PING"], &["BZPOPMAX", "z", "0"], &["ECHO", "x"]] {
        command(call, &mut bytes);
    }
    one.write(&bytes);
    until_waiting(&mut actor, 1);
    assert!(is_silent(&one));
    assert_eq!(actor.ask("ZADD z 1 a 2 b 3 c"), ":3");
    assert_eq!(
        [one.reply(), one.reply(), one.reply(), one.reply()],
        ["*[$z $c $3]", "+PONG", "*[$z $b $2]", "$x"]
    );
}

#[test]
fn waits_end_by_timeout_by_unblock_by_kill_and_with_the_client() {
    let door = Door::open("--threads 2");
    let (mut one, mut two, mut three, mut actor) =
        (door.client(), door.client(), door.client(), door.client());
    let begun = Instant::now();
    assert_eq!(one.ask("BZPOPMIN z 0.05"), "_");
    // Clocks are read in whole milliseconds.
    assert!((49..5000).contains(&begun.elapsed().as_millis()));
    let ids = [&mut one, &mut two, &mut three]
        .map(|client| client.ask("CLIENT ID").trim_start_matches(':').to_owned());
    send(&mut one, "BZPOPMIN z 0");
    send(&mut two, "BZMPOP 0 2 z y MIN");
    send(&mut three, "BZPOPMIN z 0");
    until_waiting(&mut actor, 3);
    assert!(actor.ask("CLIENT LIST").contains(" flags=b "));
    assert_eq!(actor.ask(&format!("CLIENT UNBLOCK {}", ids[0])), ":1");
    assert_eq!(one.reply(), "_");
    assert_eq!(actor.ask(&format!("CLIENT UNBLOCK {} ERROR", ids[1])), ":1");
    assert_eq!(two.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    assert_eq!(actor.ask(&format!("CLIENT UNBLOCK {}", ids[0])), ":0");
    assert_eq!(actor.ask(&format!("CLIENT KILL ID {}", ids[2])), ":1");
    assert!(three.is_closed());
    send(&mut one, "BZPOPMIN z 0");
    until_waiting(&mut actor, 1);
    drop(one);
    until_waiting(&mut actor, 0);
    assert_eq!(actor.ask("ZADD z 1 a"), ":1");
    assert_eq!(two.ask("BZPOPMIN z 0"), "*[$z $a $1]");
    // In a transaction a call does not wait.
    assert_eq!(two.ask("MULTI"), "+OK");
    assert_eq!(two.ask("BZPOPMIN z 0"), "+QUEUED");
    assert_eq!(two.ask("EXEC"), "*[_]");
    send(&mut two, "BZPOPMIN z 0");
    until_waiting(&mut actor, 1);
    assert_eq!(
        [actor.ask("MULTI"), actor.ask("ZADD z 1 a"), actor.ask("ZADD z 2 b"), actor.ask("ZREM z a")]
            .concat(),
        "+OK+QUEUED+QUEUED+QUEUED"
    );
    assert_eq!(actor.ask("EXEC"), "*[:1 :1 :1]");
    assert_eq!(two.reply(), "*[$z $b $2]");
}

#[test]
fn waiters_of_two_servers_are_served_in_the_order_of_arrival() {
    let place = Place::new();
    let port = || polder_testkit::process::free_port().expect("a free port");
    let doors =
        [Door::on(place.clone(), port(), "--threads 2"), Door::on(place.clone(), port(), "--threads 2")];
    let mut actors = [doors[0].client(), doors[1].client()];
    for round in 0..20 {
        let mut waiters: Vec<Caller> = Vec::new();
        for number in 0..8 {
            let mut waiter = doors[number % 2].client();
            send(&mut waiter, "BZPOPMIN z 0");
            waiters.push(waiter);
            until_waiting(&mut actors[number % 2], number / 2 + 1);
        }
        // One by one, and several at once.
        let actor = &mut actors[round % 2];
        if round % 4 < 2 {
            for (number, waiter) in waiters.iter_mut().enumerate() {
                assert_eq!(actor.ask(&format!("ZADD z {number} m{number}")), ":1");
                assert_eq!(waiter.reply(), format!("*[$z $m{number} ${number}]"));
            }
        } else {
            assert_eq!(actor.ask("ZADD z 0 m0 1 m1 2 m2 3 m3 4 m4 5 m5 6 m6 7 m7"), ":8");
            for (number, waiter) in waiters.iter_mut().enumerate() {
                assert_eq!(waiter.reply(), format!("*[$z $m{number} ${number}]"));
            }
        }
        assert_eq!(actor.ask("EXISTS z"), ":0");
    }
    let findings = place.memory.table().verify().expect("a walk").findings;
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn readers_of_streams_are_all_woken_and_the_dollar_means_the_time_of_the_call() {
    let place = Place::new();
    let port = || polder_testkit::process::free_port().expect("a free port");
    let doors = [Door::on(place.clone(), port(), ""), Door::on(place.clone(), port(), "")];
    let (mut near, mut far, mut actor) = (doors[0].client(), doors[1].client(), doors[0].client());
    assert_eq!(actor.ask("XADD s 1-1 f 1"), "$1-1");
    send(&mut near, "XREAD BLOCK 0 STREAMS s $");
    until_waiting(&mut actor, 1);
    send(&mut far, "XREAD BLOCK 0 STREAMS s $");
    let mut asker = doors[1].client();
    until_waiting(&mut asker, 1);
    assert_eq!(actor.ask("XADD s 1-2 f 2"), "$1-2");
    for reader in [&mut near, &mut far] {
        assert_eq!(reader.reply(), "*[*[$s *[*[$1-2 *[$f $2]]]]]");
    }
    assert_eq!(actor.ask("XGROUP CREATE s g $"), "+OK");
    send(&mut far, "XREADGROUP GROUP g me BLOCK 0 STREAMS s >");
    until_waiting(&mut asker, 1);
    assert_eq!(actor.ask("XADD s 1-3 f 3"), "$1-3");
    assert_eq!(far.reply(), "*[*[$s *[*[$1-3 *[$f $3]]]]]");
    send(&mut far, "XREADGROUP GROUP g me BLOCK 0 STREAMS s >");
    until_waiting(&mut asker, 1);
    assert_eq!(actor.ask("DEL s"), ":1");
    assert!(far.reply().starts_with("-NOGROUP"));
}

#[test]
fn a_reader_that_claims_is_served_once_an_entry_has_been_pending_for_long_enough() {
    let door = Door::open("");
    let (mut reader, mut actor) = (door.client(), door.client());
    assert_eq!(actor.ask("XADD s 1-1 f 1"), "$1-1");
    assert_eq!(actor.ask("XGROUP CREATE s g 0"), "+OK");
    assert!(actor.ask("XREADGROUP GROUP g other STREAMS s >").contains("1-1"));
    send(&mut reader, "XREADGROUP GROUP g me CLAIM 200 BLOCK 0 STREAMS s >");
    let reply = reader.reply();
    assert!(reply.starts_with("*[*[$s *[*[$1-1 *[$f $1]"), "{reply}");
    // A new entry comes first, and the moment at which the old one is claimed moves with its deliveries.
    send(&mut reader, "XREADGROUP GROUP g me CLAIM 3600000 BLOCK 0 STREAMS s >");
    until_waiting(&mut actor, 1);
    assert_eq!(actor.ask("XADD s 1-2 f 2"), "$1-2");
    assert_eq!(reader.reply(), "*[*[$s *[*[$1-2 *[$f $2] :0 :0]]]]");
    send(&mut reader, "XREADGROUP GROUP g me CLAIM 3600000 BLOCK 0 STREAMS s >");
    until_waiting(&mut actor, 1);
    assert_eq!(actor.ask("XCLAIM s g other 0 1-2 TIME 1 JUSTID"), "*[$1-2]");
    assert!(reader.reply().contains("$1-2"));
    send(&mut reader, "XREADGROUP GROUP g me CLAIM 3600000 BLOCK 20 STREAMS s >");
    assert_eq!(reader.reply(), "_");
}

#[test]
fn a_pause_keeps_waiters_waiting() {
    let door = Door::open("");
    let (mut waiter, mut actor) = (door.client(), door.client());
    send(&mut waiter, "XREAD BLOCK 0 STREAMS s 0");
    until_waiting(&mut actor, 1);
    assert_eq!(actor.ask("CLIENT PAUSE 300 WRITE"), "+OK");
    let begun = Instant::now();
    assert_eq!(actor.ask("XADD s 1-1 f 1"), "$1-1");
    assert!(begun.elapsed() > Duration::from_millis(200));
    assert_eq!(waiter.reply(), "*[*[$s *[*[$1-1 *[$f $1]]]]]");
}

#[test]
fn clients_that_unblock_themselves_and_each_other_after_a_pause_do_not_wait_for_each_other() {
    for threads in ["--threads 1", "--threads 3"] {
        let door = Door::open(threads);
        let mut clients: Vec<Caller> = (0..3).map(|_| door.client()).collect();
        let numbers: Vec<String> =
            clients.iter_mut().map(|client| client.ask("CLIENT ID").replace(':', "")).collect();
        for round in 0..10 {
            assert_eq!(clients[0].ask("CLIENT PAUSE 20 ALL"), "+OK");
            for (number, client) in clients.iter_mut().enumerate() {
                send(client, &format!("CLIENT UNBLOCK {}", numbers[(number + round) % numbers.len()]));
            }
            for client in &mut clients {
                assert_eq!(client.reply(), ":0");
            }
        }
    }
}

#[test]
fn a_call_that_a_pause_has_held_back_can_be_unblocked_as_soon_as_the_pause_has_ended() {
    for threads in ["--threads 1", "--threads 3"] {
        let door = Door::open(threads);
        let mut actor = door.client();
        let mut waiters: Vec<Caller> = (0..3).map(|_| door.client()).collect();
        let numbers: Vec<String> =
            waiters.iter_mut().map(|waiter| waiter.ask("CLIENT ID").replace(':', "")).collect();
        for _ in 0..50 {
            actor.ask("CLIENT PAUSE 60000 WRITE");
            waiters.iter_mut().for_each(|waiter| send(waiter, "BLPOP q 0"));
            while actor.ask("CLIENT LIST").matches(" flags=b ").count() < waiters.len() {}
            assert_eq!(
                actor.ask(&format!("CLIENT UNBLOCK {}", numbers[0])),
                ":0",
                "the pause holds it, and no key"
            );
            actor.ask("CLIENT UNPAUSE");
            for number in &numbers {
                assert_eq!(actor.ask(&format!("CLIENT UNBLOCK {number} TIMEOUT")), ":1");
            }
            for waiter in &mut waiters {
                assert_eq!(waiter.reply(), "_");
            }
        }
    }
}
