//! memcached over TCP: emptying at a later moment, and requests that concern very many keys.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_testbase::{free_port, until};

use crate::door::{Door, PATIENCE, Place};
use crate::tls::socket;

/// A client of memcached.
struct Line(TcpStream);

impl Line {
    fn ask(&mut self, request: &str, end: &str) -> String {
        self.0.write_all(request.as_bytes()).expect("the server takes bytes");
        let mut said = Vec::new();
        let mut room = [0; 64 << 10];
        while !said.ends_with(end.as_bytes()) {
            let count = self.0.read(&mut room).expect("a reply");
            assert!(count > 0, "the end after {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&room[..count]);
        }
        String::from_utf8(said).expect("text")
    }

    fn stores(&mut self, key: &str) {
        assert_eq!(self.ask(&format!("set {key} 0 0 1\r\n1\r\n"), "\r\n"), "STORED\r\n");
    }

    fn has(&mut self, key: &str) -> bool {
        self.ask(&format!("get {key}\r\n"), "END\r\n") != "END\r\n"
    }

    /// Asks until the key has gone.
    fn loses(&mut self, key: &str) {
        let until = Instant::now() + PATIENCE;
        while self.has(key) {
            assert!(Instant::now() < until, "{key} is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn open(place: &Arc<Place>) -> (Door, Line) {
    let port = free_port().expect("a free port");
    let flags = format!("--threads 2 --memcache-port {port} --memcache-bind 127.0.0.1 --hz 100");
    (Door::on(place.clone(), free_port().expect("a free port"), &flags), Line(socket(port)))
}

/// The CAS that a reply shows behind this mark.
fn cas_in(reply: &str, mark: &str) -> String {
    let (_, rest) = reply.split_once(mark).unwrap_or_else(|| panic!("no CAS in {reply}"));
    rest.chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn the_cas_that_a_reply_tells_is_the_one_that_a_store_needs() {
    let (_door, mut line) = open(&Place::new());
    for value in ["mu".to_owned(), "m".repeat(5000)] {
        let stored = format!("ms w {} T120 c\r\n{value}\r\n", value.len());
        for marks in [
            "mg w c N30 R130\r\n",
            "md w I T30\r\nmg w c\r\n",
            "mg w c T100\r\ntouch w 100\r\n",
            "mg w s R130\r\nmg w c R130\r\ngat 70 w\r\n",
            "md w I\r\nms w 1 MA c\r\nx\r\nmg w R130\r\n",
        ] {
            line.ask(&stored, "\r\n");
            let told = cas_in(&line.ask(&format!("{marks}mn\r\n"), "MN\r\n"), " c");
            assert_eq!(line.ask(&format!("ms w 1 C{told} T300\r\n4\r\n"), "\r\n"), "HD\r\n", "{marks}");
        }
        line.ask(&stored, "\r\n");
        let told = cas_in(&line.ask("gats 50 w\r\n", "END\r\n"), &format!("w 0 {} ", value.len()));
        assert_eq!(line.ask("touch w 70\r\n", "\r\n"), "TOUCHED\r\n");
        assert_eq!(line.ask(&format!("cas w 0 0 1 {told}\r\n5\r\n"), "\r\n"), "STORED\r\n");
        assert_eq!(line.ask(&format!("cas w 0 0 1 {told}\r\n6\r\n"), "\r\n"), "EXISTS\r\n");
    }
    // A stale item loses the CAS that it had, so that a client which read it before cannot store.
    let old = cas_in(&line.ask("ms w 1 c\r\n1\r\n", "\r\n"), " c");
    assert_eq!(line.ask("md w I\r\n", "\r\n"), "HD\r\n");
    assert!(line.ask(&format!("ms w 1 C{old} c\r\n2\r\n"), "\r\n").starts_with("EX"));
}

#[test]
fn replies_to_meta_commands_are_those_of_memcached() {
    let (_door, mut line) = open(&Place::new());
    for (request, reply) in [
        // Behind a value that is not there, whatever the CAS.
        ("ms none 1 MA C5 c k s\r\nx\r\n", "NS c0 knone s1\r\n"),
        ("ms none 1 MP C0\r\nx\r\n", "NS\r\n"),
        ("ms none 1 MR C5\r\nx\r\n", "NF\r\n"),
        ("ms none 1 MA N-1\r\nx\r\n", "HD\r\n"),
        ("mg none v\r\n", "EN\r\n"),
        // The size is that of the whole value.
        ("ms a 2 s F5\r\nab\r\n", "HD s2\r\n"),
        ("ms a 3 MA s\r\ncde\r\n", "HD s5\r\n"),
        ("ms a 1 ME s c O7\r\nx\r\n", "NS s1 c0 O7\r\n"),
        // 0 is a CAS that nothing has, but for counting and writing behind a value.
        ("ms a 1 C0 I\r\nx\r\n", "EX\r\n"),
        ("md a C0 k\r\n", "EX ka\r\n"),
        ("ms a 1 MA C0 s\r\nf\r\n", "HD s6\r\n"),
        // Flags of other commands.
        ("md a v c t f\r\n", "HD\r\n"),
        ("ms n 1 t f v h\r\n7\r\n", "HD\r\n"),
        ("ma n s f C0 c0 N0 J3 v\r\n", "VA 1 c"),
        ("md n I\r\n", "HD\r\n"),
        // A stale item is told by mg alone, and touch and gat leave it to another client to renew it.
        ("ma n v\r\n", "VA 1\r\n9\r\n"),
        ("touch n 0\r\n", "TOUCHED\r\n"),
        ("gat 0 n\r\n", "VALUE n 0 1\r\n9\r\nEND\r\n"),
        ("mg n\r\n", "HD X W\r\n"),
        ("mg n\r\n", "HD Z X\r\n"),
        // Flags have an effect one after the other.
        ("mg new1 t N100\r\n", "HD t-1 W\r\n"),
        ("mg new2 N100 t T900\r\n", "HD t100 W\r\n"),
        ("mg new2 T0 t\r\n", "HD t-1 Z\r\n"),
        ("mg new3 N-1\r\n", "HD W\r\n"),
        ("mg new3\r\n", "EN\r\n"),
        // An empty item is no number, also with another CAS; another item is not looked at.
        ("ms e 0\r\n\r\n", "HD\r\n"),
        ("ma e C5\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("ms e 1\r\nx\r\n", "HD\r\n"),
        ("ma e C5\r\n", "EX\r\n"),
    ] {
        let said = line.ask(&format!("{request}mn\r\n"), "MN\r\n");
        assert!(said.starts_with(reply), "{request}: {said}");
    }
    // A stale store keeps the expiry of the item, and one that expires at once is told a CAS.
    let old = cas_in(&line.ask("ms s 1 c T100\r\n1\r\n", "\r\n"), " c");
    line.ask("ms s 1 T100\r\n2\r\n", "\r\n");
    assert_eq!(line.ask(&format!("ms s 1 I C{old} T-1\r\n3\r\n"), "\r\n"), "HD\r\n");
    assert_eq!(line.ask("mg s v\r\n", "3\r\n"), "VA 1 X W\r\n3\r\n");
    assert_ne!(cas_in(&line.ask("ms s 1 c T-1\r\n4\r\n", "\r\n"), " c"), "0");
    assert_eq!(line.ask("mg s v\r\n", "\r\n"), "EN\r\n");
}

/// A request of the binary protocol.
fn packet(opcode: u8, key: &str, (extras, value): (&[u8], &[u8]), cas: u64) -> Vec<u8> {
    let mut header = [0; 24];
    (header[0], header[1], header[3], header[4]) = (0x80, opcode, key.len() as u8, extras.len() as u8);
    header[8..12].copy_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    header[16..].copy_from_slice(&cas.to_be_bytes());
    [&header, extras, key.as_bytes(), value].concat()
}

/// The status and the CAS of the reply to a binary request.
fn ask_binary(stream: &mut TcpStream, request: &[u8]) -> (u16, u64) {
    stream.write_all(request).expect("the server takes bytes");
    let mut header = [0; 24];
    stream.read_exact(&mut header).expect("a reply");
    let mut body = vec![0; u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize];
    stream.read_exact(&mut body).expect("its body");
    let cas = header.last_chunk().map_or(0, |cas| u64::from_be_bytes(*cas));
    (u16::from_be_bytes([header[6], header[7]]), cas)
}

#[test]
fn binary_replies_tell_the_status_and_the_cas_that_memcached_tells() {
    const NOT_FOUND: u16 = 1;
    const EXISTS: u16 = 2;
    const NOT_STORED: u16 = 5;
    let (_door, line) = open(&Place::new());
    let mut binary = socket(line.0.peer_addr().expect("an address").port());
    let nothing = (&[][..], &[][..]);
    let value = (&[0; 8][..], &b"v"[..]);
    for (request, status) in [
        (packet(0x0e, "none", (&[], b"x"), 5), NOT_STORED),
        (packet(0x02, "none", value, 5), NOT_FOUND),
        (packet(0x10, "detail", nothing, 0), NOT_FOUND),
        (packet(0x10, "detail of", nothing, 0), NOT_FOUND),
        (packet(0x02, "k", value, 0), 0),
        (packet(0x02, "k", value, 5), EXISTS),
    ] {
        assert_eq!(ask_binary(&mut binary, &request).0, status, "{request:?}");
    }
    // What touch and gat tell is the CAS that a store needs next, of a short value and of a long one.
    for value in [&b"v"[..], &[b'v'; 5000]] {
        ask_binary(&mut binary, &packet(0x01, "k", (&[0; 8], value), 0));
        let (_, first) = ask_binary(&mut binary, &packet(0x00, "k", nothing, 0));
        let (_, touched) = ask_binary(&mut binary, &packet(0x1c, "k", (&100u32.to_be_bytes(), &[]), 0));
        let (_, gotten) = ask_binary(&mut binary, &packet(0x1d, "k", (&90u32.to_be_bytes(), &[]), 0));
        assert_eq!((touched, gotten), (first, first));
        assert_eq!(ask_binary(&mut binary, &packet(0x01, "k", (&[0; 8], value), first)).0, 0);
        assert_eq!(ask_binary(&mut binary, &packet(0x01, "k", (&[0; 8], value), first)).0, EXISTS);
    }
}

#[test]
fn a_database_is_emptied_at_the_moment_that_was_named() {
    let place = Place::new();
    let (door, mut line) = open(&place);
    // A second server, which was not asked.
    let (_other, mut elsewhere) = open(&place);
    assert_eq!(door.client().ask("SELECT 1"), "+OK");
    let mut second = door.client();
    assert_eq!((second.ask("SELECT 1"), second.ask("SET stays 1")), ("+OK".into(), "+OK".into()));
    // A round in which a busy machine looks after the moment is not judged.
    until("a look before the moment", || {
        line.stores("old");
        let began = Instant::now();
        assert_eq!(line.ask("flush_all 1\r\n", "\r\n"), "OK\r\n");
        line.stores("before");
        let are_there = line.has("old") && elsewhere.has("before");
        let is_early = began.elapsed() < Duration::from_millis(950);
        assert!(are_there || !is_early);
        elsewhere.loses("old");
        assert!(began.elapsed() >= Duration::from_millis(990), "{:?}", began.elapsed());
        is_early
    });
    assert!(!line.has("before") && !elsewhere.has("before"));
    assert_eq!(second.ask("GET stays"), "$1");
    // What is stored after the moment stays: it is emptied once.
    elsewhere.stores("after");
    std::thread::sleep(Duration::from_millis(300));
    assert!(line.has("after"));
}

#[test]
fn a_later_word_replaces_the_moment() {
    let (door, mut line) = open(&Place::new());
    line.stores("a");
    assert_eq!(line.ask("flush_all 1\r\nflush_all 100 noreply\r\nmn\r\n", "MN\r\n"), "OK\r\nMN\r\n");
    std::thread::sleep(Duration::from_millis(1200));
    assert!(line.has("a"));
    // One without a moment forgets the one to come.
    assert_eq!(line.ask("flush_all 1\r\nflush_all\r\n", "OK\r\nOK\r\n"), "OK\r\nOK\r\n");
    assert!(!line.has("a"));
    line.stores("a");
    std::thread::sleep(Duration::from_millis(1200));
    assert!(line.has("a"));
    // The binary protocol, and times that have passed.
    let mut binary = Line(socket(line.0.peer_addr().expect("an address").port()));
    binary
        .0
        .write_all(b"\x80\x08\0\0\x04\0\0\0\0\0\0\x04opaq\0\0\0\0\0\0\0\0\0\0\0\x01")
        .expect("the server takes bytes");
    let mut reply = [0; 24];
    binary.0.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply[..8], b"\x81\x08\0\0\0\0\0\0");
    assert!(line.has("a"));
    line.loses("a");
    line.stores("a");
    assert_eq!(line.ask("flush_all 2600000\r\n", "\r\n"), "OK\r\n");
    assert!(!line.has("a"), "a time that is no span has passed long ago");
    assert_eq!(door.client().ask("ITEM.FLUSH EX x"), "-ERR the expiry is not a number or out of range");
}

/// The moment this many milliseconds from now, as ITEM.FLUSH takes it.
fn in_ms(ms: u64) -> u64 {
    polder_base::time::now_ms() + ms
}

#[test]
fn a_moment_belongs_to_the_number_of_its_database() {
    let place = Place::new();
    let (door, mut line) = open(&place);
    line.stores("swapped-away");
    let mut client = door.client();
    assert_eq!((client.ask("SELECT 1"), client.ask("SET swapped-in 1")), ("+OK".into(), "+OK".into()));
    assert_eq!(client.ask("SELECT 0"), "+OK");
    assert_eq!(client.ask(&format!("ITEM.FLUSH PXAT {}", in_ms(500))), "+OK");
    assert_eq!(client.ask("SWAPDB 0 1"), "+OK");
    line.loses("swapped-in");
    assert_eq!(
        (client.ask("DBSIZE"), client.ask("SELECT 1"), client.ask("GET swapped-away")),
        (":0".into(), "+OK".into(), "$1".into())
    );
}

#[test]
fn emptying_a_database_forgets_its_moment() {
    for (empties, kept) in [("FLUSHDB", &["0"][..]), ("ITEM.FLUSH", &["0"]), ("FLUSHALL", &["0", "1"])] {
        let (door, mut line) = open(&Place::new());
        let mut client = door.client();
        let moment = in_ms(500);
        // One transaction empties all three: once the last one is empty, the others would be.
        for db in ["1", "0"] {
            assert_eq!(
                (client.ask(&format!("SELECT {db}")), client.ask(&format!("ITEM.FLUSH PXAT {moment}"))),
                ("+OK".into(), "+OK".into())
            );
        }
        assert_eq!(client.ask(empties), "+OK");
        for db in ["1", "0", "2"] {
            assert_eq!(
                (client.ask(&format!("SELECT {db}")), client.ask("SET key 1")),
                ("+OK".into(), "+OK".into())
            );
        }
        assert_eq!(client.ask(&format!("ITEM.FLUSH PXAT {moment}")), "+OK");
        let until = Instant::now() + PATIENCE;
        while client.ask("DBSIZE") != ":0" {
            assert!(Instant::now() < until, "the moment does not come");
            std::thread::sleep(Duration::from_millis(10));
        }
        for db in ["0", "1"] {
            assert_eq!(client.ask(&format!("SELECT {db}")), "+OK");
            let expected = if kept.contains(&db) { ":1" } else { ":0" };
            assert_eq!(client.ask("DBSIZE"), expected, "{empties}, database {db}");
        }
        assert!(line.has("key"));
    }
}

#[test]
fn a_moment_outlives_its_server() {
    let place = Place::new();
    let (mut door, mut line) = open(&place);
    line.stores("a");
    assert_eq!(line.ask("flush_all 1\r\n", "\r\n"), "OK\r\n");
    door.close();
    // It comes while no server is there.
    std::thread::sleep(Duration::from_millis(1100));
    let (_next, mut line) = open(&place);
    assert!(!line.has("a"));
    line.stores("a");
    std::thread::sleep(Duration::from_millis(100));
    assert!(line.has("a"));
}

#[test]
fn a_get_of_very_many_keys_reads_its_line_once() {
    let (door, mut line) = open(&Place::new());
    let mut client = door.client();
    (0..1000).for_each(|number| assert_eq!(client.ask(&format!("SET k{number} {number}")), "+OK"));
    // As in memcached, only a get or gets may be longer than 2,048 bytes.
    for (verb, count) in [("get", 100_000), ("gets", 100_000), ("gat 100", 300)] {
        let keys: Vec<String> = (0..count).map(|number| format!("k{number}")).collect();
        let began = Instant::now();
        let said = line.ask(&format!("{verb}  {} \r\n", keys.join(" ")), "END\r\n");
        // Reading the line again for each 64 keys took a hundred times as long.
        assert!(began.elapsed() < Duration::from_secs(8), "{verb}: {:?}", began.elapsed());
        assert_eq!(said.matches("VALUE k").count(), count.min(1000), "{verb}");
        assert_eq!(
            said.lines().next().map(|line| line.split(' ').count()),
            Some(if verb == "gets" { 5 } else { 4 })
        );
    }
    assert_eq!(client.ask("TTL k299"), ":100");
    assert_eq!(line.ask("mn\r\n", "MN\r\n"), "MN\r\n");
}

#[test]
fn other_clients_go_on_while_all_keys_are_listed() {
    let (door, mut line) = open(&Place::new());
    let mut client = door.client();
    for number in 0..20_000 {
        client.write(format!("SET key:{number} 1\r\n").as_bytes());
    }
    (0..20_000).for_each(|_| assert_eq!(client.reply(), "+OK"));
    assert_eq!(line.ask("lru_crawler metadump all\r\n", "END\r\n").matches("key=key%3A").count(), 20_000);
    assert_eq!(line.ask("lru_crawler mgdump all\r\nmn\r\n", "MN\r\n").matches("mg key:").count(), 20_000);
    let cached = line.ask("stats cachedump 1 0\r\n", "END\r\n");
    assert_eq!(cached.matches("ITEM key:").count(), 20_000);
    assert!(cached.contains("ITEM key:7 [1 b; 0 s]\r\n"));
    assert_eq!(line.ask("stats cachedump 1 1500\r\n", "END\r\n").matches("ITEM key:").count(), 1_500);
    assert_eq!(line.ask("stats cachedump 2 0\r\n", "END\r\n"), "END\r\n");
    assert_eq!(line.ask("stats cachedump 1\r\n", "\r\n"), "CLIENT_ERROR bad command line\r\n");
    // A client that reads nothing is given a part, and holds no other client up.
    line.0.write_all("lru_crawler metadump all\r\n".repeat(20).as_bytes()).expect("the server takes bytes");
    let began = Instant::now();
    assert_eq!(client.ask("PING"), "+PONG");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    std::thread::sleep(Duration::from_millis(300));
    let list = client.ask("CLIENT LIST");
    let waiting = list
        .lines()
        .find(|line| line.contains("protocol=memcached"))
        .and_then(|line| line.split("omem=").nth(1));
    let waiting: usize = waiting.and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
    assert!(waiting < 3 << 20, "{waiting} bytes wait");
    let mut ends = 0;
    while ends < 20 {
        ends += line.ask("", "END\r\n").matches("END\r\n").count();
    }
}

/// The CAS that a reply tells behind this mark.
fn told(reply: &str, mark: &str) -> String {
    let word = reply.split_ascii_whitespace().find_map(|word| word.strip_prefix(mark));
    word.unwrap_or_else(|| panic!("a CAS in {reply:?}")).into()
}

#[test]
fn the_client_that_is_to_renew_an_item_can_store_it() {
    let place = Place::new();
    let (_door, mut line) = open(&place);
    let (_second, mut elsewhere) = open(&place);
    let long = "v".repeat(300);
    for (value, marks) in [("mu", "mg w s t c v N30 R130"), (&long, "mg w c v R130")] {
        // A little time is left, so the first client is to renew the item, and the others are told so.
        let set = line.ask(&format!("ms w {} T120 c\r\n{value}\r\n", value.len()), "\r\n");
        let won = line.ask(&format!("{marks}\r\n"), &format!("{value}\r\n"));
        assert!(won.contains(" W\r\n"), "{won}");
        assert_eq!(told(&won, "c"), told(&set, "c"));
        let taken = elsewhere.ask("mg w c\r\n", "\r\n");
        assert!(taken.ends_with(" Z\r\n"), "{taken}");
        let cas = told(&won, "c");
        assert_eq!(told(&taken, "c"), cas);
        assert_eq!(line.ask(&format!("ms w 4 C{cas} T300\r\nnew1\r\n"), "\r\n"), "HD\r\n");
        assert_eq!(elsewhere.ask(&format!("ms w 4 C{cas}\r\nnew2\r\n"), "\r\n"), "EX\r\n");
        // A stale item is renewed, too. The mark of staleness is a change.
        assert_eq!(line.ask("md w q I T30\r\nmn\r\n", "MN\r\n"), "MN\r\n");
        let won = elsewhere.ask("mg w c\r\n", "\r\n");
        assert!(won.ends_with(" X W\r\n"), "{won}");
        let cas = told(&won, "c");
        assert_eq!(told(&line.ask("mg w c\r\n", "\r\n"), "c"), cas);
        assert_eq!(elsewhere.ask(&format!("ms w 4 C{cas} T300\r\nnew3\r\n"), "\r\n"), "HD\r\n");
    }
    // An item that is made for its winner.
    let won = line.ask("mg made c N30\r\n", "\r\n");
    let cas = told(&won, "c");
    assert_eq!(told(&elsewhere.ask("mg made c T50\r\n", "\r\n"), "c"), cas);
    assert_eq!(line.ask(&format!("cas made 0 0 1 {cas}\r\n1\r\n"), "\r\n"), "STORED\r\n");
}

#[test]
fn a_new_expiry_keeps_the_cas() {
    let (door, mut line) = open(&Place::new());
    let set = line.ask("ms k 1 c\r\n1\r\n", "\r\n");
    let cas = told(&set, "c");
    let got = line.ask("gats 100 k\r\n", "END\r\n");
    assert_eq!(got, format!("VALUE k 0 1 {cas}\r\n1\r\nEND\r\n"));
    assert_eq!(line.ask("touch k 200\r\n", "\r\n"), "TOUCHED\r\n");
    assert_eq!(line.ask("mg k c T300\r\n", "\r\n"), format!("HD c{cas}\r\n"));
    assert_eq!(line.ask("gets k\r\n", "END\r\n"), got);
    assert_eq!(line.ask(&format!("cas k 0 0 1 {cas}\r\n2\r\n"), "\r\n"), "STORED\r\n");
    // A kept CAS belongs to the value: another value has another CAS.
    let renewed = line.ask("gats 100 k\r\n", "END\r\n");
    assert_ne!(renewed, got);
    let mut client = door.client();
    assert_eq!(client.ask("APPEND k 5"), ":2");
    assert_eq!(line.ask(&format!("ms k 1 C{cas}\r\n1\r\n"), "\r\n"), "EX\r\n");
    let cas = renewed.split(['\r', ' ']).nth(4).expect("a CAS").to_string();
    assert_eq!(line.ask(&format!("cas k 0 0 1 {cas}\r\n3\r\n"), "\r\n"), "EXISTS\r\n");
    // Each change of a number gives it another CAS.
    let counted = line.ask("ma k c T100\r\n", "\r\n");
    let cas = told(&counted, "c");
    assert_eq!(line.ask("touch k 100\r\n", "\r\n"), "TOUCHED\r\n");
    assert_eq!(line.ask(&format!("ma k C{cas} v\r\n"), "27\r\n"), "VA 2\r\n27\r\n");
    // Keys of other types have no CAS to keep.
    assert_eq!(client.ask("RPUSH list a"), ":1");
    assert_eq!(line.ask("touch list 100\r\n", "\r\n"), "TOUCHED\r\n");
    assert_eq!((client.ask("TTL list"), client.ask("LLEN list")), (":100".into(), ":1".into()));
}

#[test]
fn lines_of_http_end_a_connection_at_every_door_of_lines() {
    let (door, line) = open(&Place::new());
    let memcached = line.0.peer_addr().expect("an address").port();
    for port in [memcached, door.address.port()] {
        for request in
            ["GET / HTTP/1.1", "PUT /k HTTP/1.1", "DELETE /k HTTP/1.0", "POST / HTTP/1.1", "Host: x"]
        {
            let mut stream = socket(port);
            stream.write_all(format!("{request}\r\nset k 0 0 1\r\n1\r\n").as_bytes()).expect("it is taken");
            let mut said = Vec::new();
            // Bytes that the server has not read may reset the connection instead of ending it.
            let _ = stream.read_to_end(&mut said);
            assert!(said.is_empty(), "{request}: {}", String::from_utf8_lossy(&said));
        }
    }
    assert_eq!(door.client().ask("EXISTS k"), ":0");
}

#[test]
fn replies_to_meta_and_tuning_commands_are_those_of_memcached() {
    let (door, mut line) = open(&Place::new());
    for (request, reply) in [
        ("mg", "ERROR"),
        ("ms", "ERROR"),
        ("me", "CLIENT_ERROR bad command line format"),
        ("ms q 1 C5 c k Oab\r\n5", "NF c0 kq Oab"),
        ("ms q 1\r\n5", "HD"),
        ("ms q 1 C5 c k Oab s\r\n5", "EX c0 kq Oab s1"),
        ("ms q 1 ME c0\r\n5", "NS c0"),
        ("md q C5 k Oab", "EX kq Oab"),
        ("slabs automove x", "CLIENT_ERROR bad command line format"),
        ("slabs automove 1", "OK"),
        ("cache_memlimit 1", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
        ("cache_memlimit 100", "OK"),
    ] {
        assert_eq!(line.ask(&format!("{request}\r\n"), "\r\n"), format!("{reply}\r\n"), "{request}");
    }
    let mut client = door.client();
    assert!(client.ask("INFO memory").contains("maxmemory:104857600"));
    assert_eq!(client.ask("ACL SETUSER default -config"), "+OK");
    let refused = line.ask("cache_memlimit 200\r\n", "\r\n");
    assert!(refused.starts_with("SERVER_ERROR NOPERM"), "{refused}");
}
