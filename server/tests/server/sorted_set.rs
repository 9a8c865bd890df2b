//! Sorted sets over sockets: who waits for a member, and what ends the waiting.
use std::time::Duration;

use crate::door::{Client, Door, Place};

/// Sends a call that waits, and gives it the time to take its place in the queue.
fn send(client: &mut Client<std::net::TcpStream>, words: &[&str]) {
    let line: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    client.write(format!("*{}\r\n{line}", words.len()).as_bytes());
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn members_go_to_waiting_clients_in_the_order_of_their_arrival_across_servers() {
    let place = Place::new();
    let port = || polder_testkit::process::free_port().expect("a free port");
    let (one, other) = (Door::on(place.clone(), port(), ""), Door::on(place, port(), ""));
    let (mut first, mut second, mut third, mut adder) =
        (one.client(), other.client(), one.client(), other.client());
    send(&mut first, &["BZPOPMIN", "absent", "z", "0"]);
    send(&mut second, &["BZPOPMAX", "z", "30"]);
    send(&mut third, &["BZMPOP", "0", "2", "z", "absent", "MAX", "COUNT", "2"]);
    assert_eq!(adder.ask("ZADD z 1 a 2 b 3 c 4 d 5 e"), ":5");
    assert_eq!(first.reply(), "*[$z $a $1]");
    assert_eq!(second.reply(), "*[$z $e $5]");
    assert_eq!(third.reply(), "*[$z *[*[$d $4] *[$c $3]]]");
    assert_eq!(adder.ask("ZRANGE z 0 -1"), "*[$b]");
}

#[test]
fn whatever_makes_a_sorted_set_ends_the_waiting_and_other_kinds_do_not() {
    let door = Door::open("");
    let (mut waiter, mut maker) = (door.client(), door.client());
    let makers = [
        "GEOADD z 1 1 m",
        "ZINCRBY z 1 m",
        "ZUNIONSTORE z 1 source",
        "ZRANGESTORE z source 0 -1",
        "GEOSEARCHSTORE z source FROMLONLAT 1 1 BYRADIUS 1 km",
        "RENAME source z",
        "COPY source z",
    ];
    for line in makers {
        assert_eq!(
            maker.ask("GEOADD source 1 1 m"),
            if line.starts_with("GEOADD") || line == "COPY source z" { ":1" } else { ":0" }
        );
        send(&mut waiter, &["BZPOPMIN", "z", "30"]);
        maker.ask(line);
        let reply = waiter.reply();
        assert!(reply.starts_with("*[$z $m $"), "{line}: {reply}");
    }
    send(&mut waiter, &["BZPOPMIN", "z", "0.2"]);
    assert_eq!(maker.ask("SET z text"), "+OK");
    assert_eq!(waiter.reply(), "_");
    assert_eq!(
        maker.ask("BZPOPMIN z 1"),
        "-WRONGTYPE Operation against a key holding the wrong kind of value"
    );
}
