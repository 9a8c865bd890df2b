//! What clients make the server keep for them: counted, limited, and gone when they are.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::door::{Client, Door, Place};
use polder_testbase::{free_port, until};
use polder_wire::resp::command;

pub fn figure(door: &Door, name: &str) -> u64 {
    let info = door.client().ask("INFO everything");
    let line = info.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}")).parse().expect("a number")
}

/// A field of the line that CLIENT LIST has of the client with this name.
fn of_client(door: &Door, name: &str, field: &str) -> Option<u64> {
    let list = door.client().ask("CLIENT LIST");
    let line = list.lines().find(|line| line.contains(&format!(" name={name} ")))?;
    line.split(' ')
        .find_map(|word| word.strip_prefix(field)?.strip_prefix('='))
        .and_then(|number| number.parse().ok())
}

/// Bytes of a request.
pub fn request(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    command(words, &mut bytes);
    bytes
}

/// Asks until the server closes the connection; returns how many requests it took.
fn until_closed(client: &mut Client<TcpStream>, bytes: &[u8], most: usize) -> usize {
    (0..most).find(|_| client.stream.write_all(bytes).is_err() || client.value().is_none()).unwrap_or(most)
}

#[test]
fn calls_that_wait_for_exec_count_for_the_query_limit() {
    let door = Door::open("--client-query-buffer-limit 1mb");
    let mut client = door.client();
    client.ask("CLIENT SETNAME queueing");
    assert_eq!(client.ask("MULTI"), "+OK");
    let set = request(&["SET", "key", &"x".repeat(10_000)]);
    for _ in 0..50 {
        client.write(&set);
        assert_eq!(client.reply(), "+QUEUED");
    }
    let (queued, all) = (of_client(&door, "queueing", "multi-mem"), of_client(&door, "queueing", "tot-mem"));
    assert!(queued > Some(500_000) && all > queued, "{queued:?} {all:?}");
    let taken = until_closed(&mut client, &set, 1000);
    assert!((45..60).contains(&taken), "{taken} more calls of 10,000 bytes were queued");
    assert_eq!(figure(&door, "client_query_buffer_limit_disconnections"), 1);
    assert_eq!(door.client().ask("EXISTS key"), ":0");
}

#[test]
fn what_a_client_watches_listens_to_tracks_and_waits_for_is_counted() {
    let door = Door::open("");
    let names: Vec<String> = (0..1_000).map(|number| format!("name:{number:0100}")).collect();
    let prefixes: Vec<&str> = names.iter().flat_map(|name| ["PREFIX", name]).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    for call in [
        [&["WATCH"], &all[..]].concat(),
        [&["SUBSCRIBE"], &all[..]].concat(),
        [&["PSUBSCRIBE"], &all[..]].concat(),
        [&["SSUBSCRIBE"], &all[..]].concat(),
        [&["CLIENT", "TRACKING", "ON", "BCAST"], &prefixes[..]].concat(),
        [&["BLPOP"], &all[..], &["0"]].concat(),
    ] {
        let mut client = door.client();
        client.ask("CLIENT SETNAME holding");
        let before = of_client(&door, "holding", "tot-mem").expect("its line");
        client.write(&request(&call));
        until(call[0], || of_client(&door, "holding", "tot-mem") > Some(before + 100_000));
        drop(client);
        until(call[0], || of_client(&door, "holding", "tot-mem").is_none());
    }
}

#[test]
fn the_clients_that_take_the_most_are_closed_when_all_together_take_too_much() {
    let door = Door::open("--threads 2 --maxmemory-clients 4mb");
    let mut modest: Vec<_> = (0..4).map(|_| door.client()).collect();
    let mut spared = door.client();
    assert_eq!(spared.ask("CLIENT NO-EVICT ON"), "+OK");
    let set = request(&["SET", "key", &"x".repeat(100_000)]);
    // The one that may keep much, and one that may not.
    spared.ask("MULTI");
    for _ in 0..15 {
        spared.write(&set);
        assert_eq!(spared.reply(), "+QUEUED");
    }
    let mut greedy = door.client();
    greedy.ask("MULTI");
    let taken = until_closed(&mut greedy, &set, 200);
    assert!((8..40).contains(&taken), "{taken} calls of 100,000 bytes were queued");
    assert_eq!(figure(&door, "evicted_clients"), 1);
    modest.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "+PONG"));
    assert_eq!(spared.ask("DISCARD"), "+OK");
    // Replies that are not read are counted, too, and a limit that comes later finds who is there.
    assert_eq!(modest[0].ask("CONFIG SET maxmemory-clients 0"), "+OK");
    modest[0].write(&set);
    modest[0].reply();
    let mut deaf = door.client();
    let gets = request(&["GET", "key"]).repeat(300);
    deaf.write(&gets);
    until("replies", || figure(&door, "mem_clients_normal") > 8 << 20);
    assert_eq!(modest[0].ask("CONFIG SET maxmemory-clients 1%"), "+OK");
    assert_eq!(modest[0].ask("CONFIG SET maxmemory 200mb"), "+OK");
    until("eviction", || figure(&door, "evicted_clients") == 2);
    until("the memory", || figure(&door, "mem_clients_normal") < 2 << 20);
    modest.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "+PONG"));
}

#[test]
fn an_announced_length_takes_no_memory() {
    let door = Door::open("");
    let mut clients: Vec<_> = (0..20).map(|_| door.client()).collect();
    for client in &mut clients {
        client.write(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$536870912\r\nbegin");
    }
    until("the bytes", || figure(&door, "total_net_input_bytes") > 20 * 40);
    std::thread::sleep(Duration::from_millis(50));
    assert!(figure(&door, "mem_clients_normal") < 20 << 20, "{}", figure(&door, "mem_clients_normal"));
    // What comes is kept, and little more.
    let mut client = door.client();
    let value = vec![b'v'; 40 << 20];
    let bytes = request(&[&b"SET"[..], b"long", &value]);
    client.write(&bytes[..bytes.len() / 2]);
    until("half of it", || figure(&door, "total_net_input_bytes") > 19 << 20);
    assert!(figure(&door, "mem_clients_normal") < 120 << 20, "{}", figure(&door, "mem_clients_normal"));
    client.write(&bytes[bytes.len() / 2..]);
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.ask("STRLEN long"), format!(":{}", value.len()));
    assert_eq!(client.ask("GETRANGE long 41943038 -1"), "$vv");
}

/// Publishes as fast as the server takes it, until told to stop; counts what has been acknowledged.
fn flood(
    door: &Door,
    over: &Arc<AtomicBool>,
    count: &Arc<AtomicU64>,
    payload: usize,
) -> std::thread::JoinHandle<()> {
    let (mut client, over, count) = (door.client(), over.clone(), count.clone());
    let calls = request(&["PUBLISH", "news", &"x".repeat(payload)]).repeat(100);
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            client.write(&calls);
            (0..100).for_each(|_| _ = client.reply());
            count.fetch_add(100, Ordering::Relaxed);
        }
    })
}

/// The longest pause of a subscriber that "reads all the time". A busy machine may make longer ones.
const READ_PAUSE: Duration = Duration::from_millis(20);

#[test]
fn a_subscriber_that_reads_all_the_time_is_not_closed_by_a_flood() {
    for payload in [16, 1000] {
        let door = Door::on(Place::of(256 << 20), free_port().expect("a free port"), "--threads 3");
        // How much waits in front of its socket is another limit's affair.
        assert_eq!(
            door.client().ask_words(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 2gb 0 0"]),
            "+OK"
        );
        let mut subscriber = door.client();
        assert_eq!(subscriber.ask("SUBSCRIBE news"), "*[$subscribe $news :1]");
        let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let floods: Vec<_> = (0..2).map(|_| flood(&door, &over, &count, payload)).collect();
        let (begun, each) =
            (Instant::now(), request(&["message", "news", &"x".repeat(payload)]).len() as u64);
        let (mut part, mut heard_bytes) = (vec![0; 1 << 20], 0);
        let (mut looked, mut longest) = (begun, Duration::ZERO);
        // All that was acknowledged arrives.
        while begun.elapsed() < Duration::from_secs(4) || heard_bytes < each * count.load(Ordering::Relaxed) {
            over.store(begun.elapsed() >= Duration::from_secs(4), Ordering::Relaxed);
            longest = longest.max(looked.elapsed());
            let heard = subscriber.stream.read(&mut part).expect("messages");
            looked = Instant::now();
            if heard == 0 && longest > READ_PAUSE {
                println!("not judged: the subscriber did not read for {longest:?}");
                break;
            }
            assert!(heard > 0, "closed after {:?} and {} messages", begun.elapsed(), heard_bytes / each);
            heard_bytes += heard as u64;
        }
        over.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().expect("a publisher"));
        println!("payload {payload}: {} messages were heard", heard_bytes / each);
    }
}

#[test]
fn holding_publishers_is_a_setting() {
    let door = Door::open("--hold-publishers no");
    assert_eq!(door.client().ask("CONFIG GET hold-publishers"), "*[$hold-publishers $no]");
    assert_eq!(door.client().ask("CONFIG SET hold-publishers yes"), "+OK");
}
