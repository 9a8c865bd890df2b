//! Very many subscriptions of one client: what they cost others, and how long they take.
use std::time::{Duration, Instant};

use crate::door::{Door, Place};
use polder_testbase::{free_port, until};
use polder_wire::resp::command;

/// A server with little memory, of which others use a part.
fn crowded() -> Door {
    let door =
        Door::on(Place::of(96 << 20), free_port().expect("a free port"), "--maxmemory-policy allkeys-lru");
    let mut other = door.client();
    for number in 0..KEYS {
        let (key, value) = (format!("key:{number}"), "x".repeat(1000));
        let mut bytes = Vec::new();
        command(&["SET", &key, &value], &mut bytes);
        other.write(&bytes);
    }
    (0..KEYS).for_each(|_| assert_eq!(other.reply(), "+OK"));
    door
}

const KEYS: usize = 20_000;

fn patterns(many: usize) -> Vec<String> {
    (0..many).map(|number| format!("*pattern:{number}:*")).collect()
}

fn figure(door: &Door, name: &str) -> u64 {
    let info = door.client().ask("INFO everything");
    let line = info.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}: {info}")).parse().expect("a number")
}

/// Subscribes by calls of this many patterns each, and ends when another client counts them all.
fn subscribe(
    door: &Door,
    command_name: &str,
    names: &[String],
    each: usize,
) -> (crate::door::Client<std::net::TcpStream>, Duration) {
    let mut client = door.client();
    let begun = Instant::now();
    for some in names.chunks(each) {
        let words: Vec<&str> = std::iter::once(command_name).chain(some.iter().map(String::as_str)).collect();
        let mut bytes = Vec::new();
        command(&words, &mut bytes);
        client.write(&bytes);
        some.iter().for_each(|_| _ = client.reply());
    }
    (client, begun.elapsed())
}

#[test]
fn thousands_of_patterns_in_one_call_evict_nothing_and_leave_nothing() {
    let door = crowded();
    let before = figure(&door, "used_memory");
    for many in [5_000, 50_000] {
        let (client, took) = subscribe(&door, "PSUBSCRIBE", &patterns(many), many);
        println!("{many} patterns in one call: {took:?}");
        assert_eq!(figure(&door, "pubsub_patterns"), many as u64);
        assert_eq!((figure(&door, "evicted_keys"), door.client().ask("DBSIZE")), (0, format!(":{KEYS}")));
        assert_eq!(door.client().ask("PUBLISH a:pattern:77:b x"), ":1");
        drop(client);
        until("patterns and memory are free again", || figure(&door, "pubsub_patterns") == 0);
        until("patterns and memory are free again", || figure(&door, "used_memory") < before + (1 << 20));
    }
    assert_eq!(figure(&door, "evicted_keys"), 0);
}

#[test]
fn patterns_one_by_one_take_no_longer_the_more_there_are() {
    let door = crowded();
    let (mut client, first) = subscribe(&door, "PSUBSCRIBE", &patterns(5_000), 1);
    let more: Vec<String> = patterns(50_000).split_off(5_000);
    let begun = Instant::now();
    for some in more.chunks(500) {
        let mut bytes = Vec::new();
        some.iter().for_each(|name| command(&["PSUBSCRIBE", name], &mut bytes));
        client.write(&bytes);
        some.iter().for_each(|_| _ = client.reply());
    }
    println!("5,000 patterns one by one: {first:?}, 45,000 more in a pipeline: {:?}", begun.elapsed());
    assert_eq!(figure(&door, "pubsub_patterns"), 50_000);
    assert!(begun.elapsed() < Duration::from_secs(30));
    let begun = Instant::now();
    for some in more[..5_000].chunks(500) {
        let mut bytes = Vec::new();
        some.iter().for_each(|name| command(&["PUNSUBSCRIBE", name], &mut bytes));
        client.write(&bytes);
        some.iter().for_each(|_| _ = client.reply());
    }
    println!("5,000 of them ended one by one: {:?}", begun.elapsed());
    assert_eq!(figure(&door, "pubsub_patterns"), 45_000);
    assert_eq!(door.client().ask("PUBLISH a:pattern:5000:b x"), ":0");
    assert_eq!(door.client().ask("PUBLISH a:pattern:4999:b x"), ":1");
    let begun = Instant::now();
    drop(client);
    until("patterns and memory are free again", || figure(&door, "pubsub_patterns") == 0);
    println!("the end of the client: {:?}", begun.elapsed());
    assert_eq!(figure(&door, "evicted_keys"), 0);
}

#[test]
fn patterns_that_many_clients_share_are_counted_and_end_with_the_last_of_them() {
    let door = Door::open("--threads 2");
    let names = patterns(1_000);
    let mut clients: Vec<_> = (0..4).map(|_| subscribe(&door, "PSUBSCRIBE", &names, 10).0).collect();
    let mut publisher = door.client();
    assert_eq!(publisher.ask("PUBSUB NUMPAT"), ":1000");
    assert_eq!(publisher.ask("PUBLISH a:pattern:7:b x"), ":4");
    for left in (0..4).rev() {
        let mut client = clients.pop().expect("a client");
        let words: Vec<&str> =
            std::iter::once("PUNSUBSCRIBE").chain(names.iter().map(String::as_str)).collect();
        let mut bytes = Vec::new();
        command(&words, &mut bytes);
        client.write(&bytes);
        while !client.reply().starts_with("*[$punsubscribe $*pattern:999:*") {}
        assert_eq!(publisher.ask("PUBLISH a:pattern:7:b x"), format!(":{left}"));
        assert_eq!(publisher.ask("PUBSUB NUMPAT"), if left > 0 { ":1000" } else { ":0" });
    }
}

#[test]
fn channels_of_a_client_that_is_gone_are_nobodys() {
    let door = crowded();
    let before = figure(&door, "used_memory");
    let channels: Vec<String> = (0..10_000).map(|number| format!("channel:{number}")).collect();
    for name in ["SUBSCRIBE", "SSUBSCRIBE"] {
        let (client, took) = subscribe(&door, name, &channels, 10_000);
        println!("10,000 channels by one {name}: {took:?}");
        let begun = Instant::now();
        drop(client);
        until("patterns and memory are free again", || {
            figure(&door, "pubsub_channels") + figure(&door, "pubsubshard_channels") == 0
        });
        println!("their end: {:?}", begun.elapsed());
        until("patterns and memory are free again", || figure(&door, "used_memory") < before + (4 << 20));
    }
    assert_eq!(figure(&door, "evicted_keys"), 0);
}
