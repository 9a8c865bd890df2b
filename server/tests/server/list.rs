//! Lists over sockets: who waits for an element, within a server and across servers.
use crate::door::{Door, Place};
use crate::waiting::{send, until_waiting};

#[test]
fn elements_go_to_waiting_clients_in_the_order_of_their_arrival_across_servers() {
    let place = Place::new();
    let port = || polder_testkit::process::free_port().expect("a free port");
    let (one, other) = (Door::on(place.clone(), port(), ""), Door::on(place, port(), ""));
    let (mut first, mut second, mut third, mut fourth) =
        (one.client(), other.client(), one.client(), other.client());
    let (mut here, mut there) = (one.client(), other.client());
    send(&mut first, "BLPOP absent l 0");
    until_waiting(&mut here, 1);
    send(&mut second, "BRPOP l 0");
    until_waiting(&mut there, 1);
    send(&mut third, "BLMPOP 0 2 l absent LEFT COUNT 2");
    until_waiting(&mut here, 2);
    send(&mut fourth, "BLMOVE l m RIGHT LEFT 0");
    until_waiting(&mut there, 2);
    assert_eq!(there.ask("RPUSH l a b c d e f"), ":6");
    assert_eq!(first.reply(), "*[$l $a]");
    assert_eq!(second.reply(), "*[$l $f]");
    assert_eq!(third.reply(), "*[$l *[$b $c]]");
    assert_eq!(fourth.reply(), "$e");
    assert_eq!(here.ask("LRANGE l 0 -1"), "*[$d]");
    assert_eq!(here.ask("LRANGE m 0 -1"), "*[$e]");
}

#[test]
fn an_element_wanders_along_a_chain_of_waiting_moves() {
    let door = Door::open("");
    let mut pusher = door.client();
    let mut movers: Vec<_> = (0..5).map(|_| door.client()).collect();
    for (number, mover) in movers.iter_mut().enumerate() {
        send(mover, &format!("BLMOVE l{number} l{} LEFT RIGHT 0", number + 1));
        until_waiting(&mut pusher, number + 1);
    }
    let mut last = door.client();
    send(&mut last, "BRPOPLPUSH l5 l0 0");
    until_waiting(&mut pusher, 6);
    assert_eq!(pusher.ask("LPUSH l0 x"), ":1");
    movers.iter_mut().for_each(|mover| assert_eq!(mover.reply(), "$x"));
    assert_eq!(last.reply(), "$x");
    assert_eq!(pusher.ask("LRANGE l0 0 -1"), "*[$x]");
    assert_eq!(pusher.ask("EXISTS l1 l2 l3 l4 l5"), ":0");
}

#[test]
fn whatever_makes_a_list_ends_the_waiting_and_what_takes_it_away_again_does_not() {
    let door = Door::open("");
    let (mut waiter, mut maker) = (door.client(), door.client());
    for line in [
        "LPUSH l x",
        "LMOVE source l LEFT LEFT",
        "RPOPLPUSH source l",
        "RENAME source l",
        "COPY source l",
        "SORT source STORE l",
    ] {
        maker.ask("DEL source");
        maker.ask("RPUSH source x");
        send(&mut waiter, "BLPOP l 30");
        until_waiting(&mut maker, 1);
        maker.ask(if line.starts_with("SORT") { "SORT source ALPHA STORE l" } else { line });
        assert_eq!(waiter.reply(), "*[$l $x]", "{line}");
    }
    send(&mut waiter, "BLPOP l 0.3");
    until_waiting(&mut maker, 1);
    for line in ["MULTI", "RPUSH l a", "LPOP l", "EXEC", "SET l text", "DEL l"] {
        maker.ask(line);
    }
    assert_eq!(waiter.reply(), "_");
    for (line, expected) in [
        ("MULTI", "+OK"),
        ("BLPOP l 0", "+QUEUED"),
        ("BLMOVE l m LEFT LEFT 0", "+QUEUED"),
        ("EXEC", "*[_ _]"),
    ] {
        assert_eq!(maker.ask(line), expected);
    }
}

#[test]
fn a_move_that_cannot_be_made_answers_when_it_is_tried() {
    let door = Door::open("");
    let (mut waiter, mut next, mut pusher) = (door.client(), door.client(), door.client());
    pusher.ask("SET text x");
    send(&mut waiter, "BLMOVE l text LEFT LEFT 0");
    until_waiting(&mut pusher, 1);
    send(&mut next, "BLPOP l 0");
    until_waiting(&mut pusher, 2);
    assert_eq!(pusher.ask("RPUSH l a"), ":1");
    assert_eq!(waiter.reply(), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(next.reply(), "*[$l $a]");
    // One that waits with the readers of streams does so, too.
    send(&mut waiter, "BLMOVEM l text LEFT LEFT 0 EXACTLY 2 BULK");
    until_waiting(&mut pusher, 1);
    assert_eq!(pusher.ask("RPUSH l a b"), ":2");
    assert_eq!(waiter.reply(), "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn a_move_of_an_exact_number_waits_until_the_list_is_long_enough() {
    let place = Place::new();
    let port = || polder_testkit::process::free_port().expect("a free port");
    let (one, other) = (Door::on(place.clone(), port(), ""), Door::on(place, port(), ""));
    let (mut waiter, mut popper, mut pusher) = (one.client(), other.client(), other.client());
    for (grows, moved) in [
        ("RPUSH l 3", "*[$1 $2 $3]"),
        ("LINSERT l BEFORE 1 0", "*[$0 $1 $2]"),
        ("LMOVE feed l LEFT RIGHT", "*[$1 $2 $9]"),
        ("SORT more STORE l", "*[$1 $2 $3]"),
    ] {
        pusher.ask("DEL l m feed more");
        pusher.ask("RPUSH feed 9");
        pusher.ask("RPUSH more 3 1 2");
        send(&mut waiter, "BLMOVEM l m LEFT RIGHT 0 EXACTLY 3 BULK");
        until_waiting(&mut one.client(), 1);
        assert_eq!(pusher.ask("RPUSH l 1 2"), ":2");
        pusher.ask(grows);
        assert_eq!(waiter.reply(), moved, "{grows}");
        assert_eq!(pusher.ask("LRANGE m 0 -1"), moved);
    }
    // Others get the rest meanwhile.
    pusher.ask("DEL l m");
    send(&mut waiter, "BLMOVEM l m RIGHT LEFT 0 EXACTLY 3 OBO");
    until_waiting(&mut one.client(), 1);
    assert_eq!(pusher.ask("RPUSH l a b"), ":2");
    assert_eq!(popper.ask("BLPOP l 0"), "*[$l $a]");
    send(&mut popper, "BLMOVEM none m LEFT RIGHT 0 COUNT 2 BULK");
    until_waiting(&mut pusher, 1);
    assert_eq!(pusher.ask("RPUSH l c d"), ":3");
    assert_eq!(waiter.reply(), "*[$b $c $d]");
    assert_eq!(pusher.ask("RPUSH none x y z"), ":3");
    assert_eq!(popper.reply(), "*[$x $y]");
    assert_eq!(pusher.ask("LRANGE m 0 -1"), "*[$b $c $d $x $y]");
}
