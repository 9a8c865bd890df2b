//! `maxmemory-clients`: which clients are closed when CONFIG SET lowers it, and that they are when it replies.
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};

use polder_testbase::until;
use polder_testkit::process::{Server, on_path};
use polder_testkit::random::Random;

use crate::door::{Client, Door, PATIENCE};
use crate::http::Web;
use crate::limits::{figure, request};

pub type Conn = Client<TcpStream>;

pub fn connect(address: SocketAddr) -> Conn {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    Client::new(stream)
}

/// The memory of each client with a name, as CLIENT LIST shows it.
fn sizes(asker: &mut Conn) -> BTreeMap<String, usize> {
    let list = asker.ask("CLIENT LIST");
    let field = |line: &str, name: &str| {
        line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    list.lines()
        .filter_map(|line| Some((field(line, "name")?, field(line, "tot-mem")?.parse().ok()?)))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// A client of this name.
fn named(address: SocketAddr, name: &str) -> Conn {
    let mut client = connect(address);
    client.ask(&format!("CLIENT SETNAME {name}"));
    client
}

/// A client of this name whose unfinished request takes this many bytes.
fn unfinished(address: SocketAddr, name: &str, bytes: usize) -> Conn {
    let mut client = named(address, name);
    begin(&mut client, bytes);
    client
}

/// Sends a part of a request.
fn begin(client: &mut Conn, bytes: usize) {
    client.write(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 2 * bytes).as_bytes());
    client.write(&vec![b'x'; bytes]);
}

/// Opens `count` of them, of one megabyte each.
fn crowd(door: &Door, asker: &mut Conn, count: usize) -> Vec<Conn> {
    let clients = (0..count).map(|number| unfinished(door.address, &format!("c{number}"), 1 << 20)).collect();
    until("their bytes", || {
        let sizes = sizes(asker);
        sizes.len() == count && sizes.values().all(|bytes| *bytes >= 1 << 20)
    });
    clients
}

/// The clients of a crowd that are left when a limit of 5 MB holds: the others and the asker take less.
const LEFT: std::ops::RangeInclusive<usize> = 2..=4;

#[test]
fn a_lowered_limit_holds_when_its_setter_has_the_reply() {
    for sets in [
        &["CONFIG SET maxmemory-clients 5mb"][..],
        &["CONFIG SET maxmemory 500mb maxmemory-clients 1%"],
        &["CONFIG SET maxmemory-clients 1%", "CONFIG SET maxmemory 500mb"],
        &["MULTI", "CONFIG SET maxmemory-clients 5mb", "EXEC"],
    ] {
        let door = Door::open("--threads 3");
        let mut asker = door.client();
        let _crowd = crowd(&door, &mut asker, 10);
        for set in sets {
            let reply = asker.ask(set);
            assert!(!reply.contains('-'), "{set}: {reply}");
        }
        let left = sizes(&mut asker).len();
        assert!(LEFT.contains(&left), "{sets:?}: {left} are left");
        assert_eq!(figure(&door, "evicted_clients"), 10 - left as u64, "{sets:?}");
        assert_eq!(
            asker.ask("EVAL return(redis.call('config','set','maxmemory-clients','1mb')) 0").get(..1),
            Some("-")
        );
        assert_eq!(sizes(&mut asker).len(), left, "a script sets nothing");
    }
}

#[test]
fn a_limit_set_through_http_holds_when_its_setter_has_the_reply() {
    let web = Web::open("--threads 3");
    let mut asker = web.door.client();
    let _crowd = crowd(&web.door, &mut asker, 10);
    assert_eq!(web.ask("POST /js?CONFIG+SET+maxmemory-clients+5mb", "", "").0, 200);
    let left = sizes(&mut asker).len();
    assert!(LEFT.contains(&left), "{left} are left");
}

#[test]
fn a_client_that_evicts_itself_gets_the_reply_and_no_more() {
    let door = Door::open("");
    let mut asker = door.client();
    asker.ask("MULTI");
    let value = "x".repeat(1 << 20);
    asker.ask_words(&["SET", "key", &value]);
    asker.ask_words(&["CONFIG", "SET", "maxmemory-clients", "500kb"]);
    // EXEC has taken the queue: the limit holds for what is left.
    assert_eq!(asker.ask("EXEC"), "*[+OK +OK]");
    let mut watcher = door.client();
    assert_eq!(watcher.ask("CONFIG SET maxmemory-clients 0"), "+OK");
    let names: Vec<String> = (0..20_000).map(|number| format!("k{number:0100}")).collect();
    watcher.ask_words(&[&["WATCH"], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    let before = figure(&door, "evicted_clients");
    watcher.write(
        &[request(&["CONFIG", "SET", "maxmemory-clients", "500kb"]), request(&["SET", "later", "1"])]
            .concat(),
    );
    assert_eq!(watcher.reply(), "+OK");
    assert!(watcher.is_closed());
    assert_eq!(figure(&door, "evicted_clients"), before + 1);
    assert_eq!(door.client().ask("EXISTS later"), ":0");
}

#[test]
fn a_queue_that_has_run_is_no_longer_shown_behind_a_plain_call() {
    let door = Door::open("");
    let (mut asker, mut client) = (door.client(), named(door.address, "queue"));
    let value = "x".repeat(1 << 20);
    client.ask("MULTI");
    client.ask_words(&["SET", "key", &value]);
    assert!(sizes(&mut asker)["queue"] > 1 << 20);
    client.write(&[request(&["EXEC"]), request(&["SET", "key", "1"])].concat());
    assert_eq!([client.reply(), client.reply()], ["*[+OK]", "+OK"]);
    let list = asker.ask("CLIENT LIST");
    let shown = list.lines().find(|line| line.contains(" name=queue ")).expect("the client");
    assert!(shown.contains(" multi=-1 "), "{shown}");
    until("its buffers are small again", || sizes(&mut asker)["queue"] < 1 << 20);
}

#[test]
fn a_closed_client_takes_no_element_of_a_list() {
    let door = Door::open("--threads 2");
    let (mut asker, mut other) = (door.client(), door.client());
    let mut waiting = door.client();
    waiting.ask("CLIENT SETNAME waiting");
    let names: Vec<String> = (0..10_000).map(|number| format!("k{number:0100}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    waiting.write(&request(&[&["BLPOP", "list"], &names[..], &["0"]].concat()));
    until("it waits", || sizes(&mut asker).get("waiting").is_some_and(|bytes| *bytes > 1 << 20));
    other.write(&request(&["BLPOP", "list", "0"]));
    until("both wait", || figure(&door, "blocked_clients") == 2);
    asker.write(
        &[request(&["CONFIG", "SET", "maxmemory-clients", "500kb"]), request(&["RPUSH", "list", "one"])]
            .concat(),
    );
    assert_eq!(asker.reply(), "+OK");
    assert_eq!(asker.reply(), ":1");
    assert_eq!(other.reply(), "*[$list $one]");
}

#[test]
fn the_smallest_limit_leaves_clients_that_can_lift_it() {
    let door = Door::open("");
    let mut asker = door.client();
    assert_eq!(asker.ask("CONFIG SET maxmemory-clients 1"), "+OK");
    assert_eq!(asker.ask("CONFIG SET maxmemory-clients 0"), "+OK");
}

/// The memory of all clients together, as INFO shows it.
fn sum_of(asker: &mut Conn) -> usize {
    let info = asker.ask("INFO memory");
    let line = info.lines().find_map(|line| line.strip_prefix("mem_clients_normal:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("a sum")
}

/// The kind of memory that makes a client large.
#[derive(Clone, Copy, Debug)]
enum Holds {
    Query,
    Output,
    Queue,
    Channels,
    Prefixes,
    Messages,
    Monitor,
}

const ALL: [Holds; 7] = [
    Holds::Query,
    Holds::Output,
    Holds::Queue,
    Holds::Channels,
    Holds::Prefixes,
    Holds::Messages,
    Holds::Monitor,
];

/// Makes a client of `bytes` at least, and less than twice as many.
fn make(address: SocketAddr, asker: &mut Conn, holds: Holds, is_spared: bool, bytes: usize) -> Conn {
    let name = &format!("{holds:?}");
    let mut client = named(address, name);
    if is_spared {
        assert_eq!(client.ask("CLIENT NO-EVICT ON"), "+OK");
    }
    if let Holds::Query = holds {
        begin(&mut client, bytes + bytes / 8);
    }
    let chunk = "x".repeat(16 << 10);
    match holds {
        Holds::Queue => _ = client.ask("MULTI"),
        Holds::Messages => _ = client.ask(&format!("SUBSCRIBE to:{name}")),
        Holds::Monitor => _ = client.ask("MONITOR"),
        Holds::Output => _ = asker.ask_words(&["SET", "chunk", &chunk]),
        _ => {}
    }
    let mut number = 0;
    let mut more = |client: &mut Conn, asker: &mut Conn| {
        number += 1;
        match holds {
            Holds::Queue => _ = client.ask_words(&["SET", "key", &chunk]),
            Holds::Output => client.write(&request(&["GET", "chunk"])),
            Holds::Messages => _ = asker.ask_words(&["PUBLISH", &format!("to:{name}"), &chunk]),
            Holds::Monitor => _ = asker.ask_words(&["ECHO", &chunk]),
            Holds::Channels | Holds::Prefixes => {
                let words: Vec<String> = (0..50).map(|at| format!("{at:02}{name}{number:06}")).collect();
                if let Holds::Channels = holds {
                    client.ask_words(&[&["SUBSCRIBE".to_owned()], &words[..]].concat());
                    (1..50).for_each(|_| _ = client.reply());
                } else {
                    let prefixes = words.into_iter().flat_map(|word| ["PREFIX".to_owned(), word]);
                    let words = ["CLIENT", "TRACKING", "ON", "BCAST"].map(str::to_owned);
                    client.ask_words(&words.into_iter().chain(prefixes).collect::<Vec<_>>());
                }
            }
            Holds::Query => {}
        }
    };
    until(name, || {
        more(&mut client, asker);
        sizes(asker).get(name).is_some_and(|size| *size >= bytes)
    });
    client
}

/// Draws a kind for each size from 64 KiB to 2 MiB.
fn drawn(random: &mut Random) -> Vec<(Holds, usize)> {
    let mut ladder: Vec<usize> = (0..6).map(|step| (64 << 10) << step).collect();
    let mut kinds = ALL.to_vec();
    let mut order = Vec::new();
    while !ladder.is_empty() {
        let bytes = ladder.remove(random.below(ladder.len()));
        // What the memory of many small things is differs between servers, so only small clients are made of them.
        let fits: Vec<usize> = (0..kinds.len())
            .filter(|at| bytes <= 128 << 10 || !matches!(kinds[*at], Holds::Channels | Holds::Prefixes))
            .collect();
        let holds = kinds.remove(*random.pick(&fits));
        order.push((holds, bytes));
    }
    // A monitor hears all that the others are made of.
    order.sort_by_key(|(holds, _)| matches!(holds, Holds::Monitor));
    order
}

/// Lowers the limit in steps on a server with clients of every kind, and returns which clients each step has
/// closed: the largest, but never the one that is spared.
fn walk(address: SocketAddr, seed: u64, is_redis: bool) -> Vec<Vec<String>> {
    let mut random = Random::new(seed);
    let mut asker = connect(address);
    let mut clients = Vec::new();
    let spared = random.below(6);
    let order = drawn(&mut random);
    for (place, (holds, bytes)) in order.iter().enumerate() {
        clients.push(make(address, &mut asker, *holds, place == spared, *bytes));
    }
    let spared = format!("{:?}", order[spared].0);
    asker.ask("CLIENT SETNAME asker");
    // The buffers of the asker itself come and go.
    let total = |sizes: &BTreeMap<String, usize>| {
        sizes.iter().filter(|(name, _)| *name != "asker").map(|(_, bytes)| bytes).sum::<usize>()
    };
    let mut steps = Vec::new();
    loop {
        // Redis counts clients anew once a second: until then it closes by what they took before.
        let mut before = BTreeMap::new();
        until("a sum that is that of the sizes", || {
            before = sizes(&mut asker);
            let (sum, total) = (sum_of(&mut asker), total(&before));
            (total..total + before["asker"] + (64 << 10)).contains(&sum)
        });
        let mut heaviest: Vec<(&String, &usize)> =
            before.iter().filter(|(name, _)| *name != "asker" && **name != spared).collect();
        heaviest.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
        let ranking: Vec<&String> = heaviest.iter().map(|(name, _)| *name).collect();
        heaviest.truncate(1 + random.below(2));
        let Some((_, last)) = heaviest.last() else { return steps };
        let limit = total(&before) + **last / 2 - heaviest.iter().map(|(_, bytes)| **bytes).sum::<usize>();
        if **last < 128 << 10 || limit < 192 << 10 {
            return steps;
        }
        assert_eq!(asker.ask("CONFIG SET maxmemory-clients 0"), "+OK");
        assert_eq!(asker.ask(&format!("CONFIG SET maxmemory-clients {limit}")), "+OK");
        let after = sizes(&mut asker);
        let gone: Vec<&String> = before.keys().filter(|name| !after.contains_key(*name)).collect();
        let mut expected: Vec<&String> = heaviest.iter().map(|(name, _)| *name).collect();
        expected.sort();
        // Redis knows sizes by their power of two only.
        let power = |name: &&String| before[*name].ilog2();
        let left =
            before.keys().filter(|name| after.contains_key(*name) && *name != "asker" && **name != spared);
        let is_tie = || left.map(|name| power(&name)).max() >= gone.iter().map(power).min();
        // Redis may also close the next in size by what a client took before it sent its replies: it counts that anew later.
        let mut one_more = ranking[..ranking.len().min(expected.len() + 1)].to_vec();
        one_more.sort();
        if is_redis && gone != expected && (gone == one_more || is_tie()) {
            return steps;
        }
        assert_eq!(
            gone, expected,
            "seed {seed}, redis {is_redis}: {order:?}, {before:?}, {after:?}, limit {limit}"
        );
        steps.push(gone.into_iter().cloned().collect());
    }
}

/// Closes clients here and in Redis. Returns how many steps were compared; `None`: they are not the same clients.
fn walk_beside(redis: Option<&Server>, seed: u64) -> Option<usize> {
    let door = Door::open("--threads 3");
    let own = walk(door.address, seed, false);
    assert!(own.len() >= 2, "seed {seed}: {own:?}");
    let Some(redis) = redis else { return Some(0) };
    let address = SocketAddr::from(([127, 0, 0, 1], redis.port()));
    let theirs = walk(address, seed, true);
    connect(address).ask("CONFIG SET maxmemory-clients 0");
    // The last clients are about as small as the limit may be.
    let both = own.len().min(theirs.len());
    // A monitor hears more from a server that is asked more often, so its place in the order differs.
    let has_monitor = own.iter().chain(&theirs).flatten().any(|name| name == "Monitor");
    if has_monitor || own[..both] == theirs[..both] {
        return Some(both);
    }
    println!("seed {seed}: {own:?}, {theirs:?}");
    None
}

#[test]
fn clients_of_every_kind_are_closed_as_by_redis() {
    let redis = on_path("redis-server").map(|program| Server::start_redis(&program).expect("a server"));
    if redis.is_none() {
        println!("not compared: there is no redis-server on the PATH");
    }
    let mut compared = 0;
    for seed in 1..=8 {
        // Redis measures its clients by its own clock, so that on a busy machine the order of two of about one size is chance.
        let both = (0..3).find_map(|_| walk_beside(redis.as_ref(), seed));
        compared += both.unwrap_or_else(|| panic!("seed {seed}: three times other clients than Redis"));
    }
    assert!(redis.is_none() || compared >= 8, "{compared} steps were compared");
}
