//! memcached over UDP, and over a Unix socket: what these two ways in have of their own.
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use polder_persist::persistence::load::Loaded;
use polder_server::Server;
use polder_table::Counter;
use polder_testkit::process::free_port;

use crate::door::{Door, PATIENCE, Place, settings};

/// A server with a UDP port.
struct House {
    door: Door,
    port: u16,
}

impl House {
    fn open(flags: &str) -> House {
        let port = free_port().expect("a free port");
        House {
            door: Door::open(&format!(
                "--threads 2 --memcache-udp-port {port} --memcache-bind 127.0.0.1 {flags}"
            )),
            port,
        }
    }

    fn guest(&self) -> Guest {
        Guest::of(self.port)
    }
}

/// A client that sends datagrams.
struct Guest {
    socket: UdpSocket,
    port: u16,
    id: u16,
}

impl Guest {
    fn of(port: u16) -> Guest {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Guest { socket, port, id: 0x0203 }
    }

    /// Sends a request in one datagram.
    fn send(&mut self, request: &[u8]) {
        self.id = self.id.wrapping_add(1);
        let [high, low] = self.id.to_be_bytes();
        let datagram = [&[high, low, 0, 0, 0, 1, 0, 0][..], request].concat();
        self.socket.send_to(&datagram, ("127.0.0.1", self.port)).expect("the datagram goes");
    }

    /// The whole reply to the last request, whose datagrams may come in any order.
    fn reply(&self) -> Vec<u8> {
        let mut pieces: Vec<Option<Vec<u8>>> = Vec::new();
        loop {
            let mut room = [0; 2048];
            let count = self.socket.recv(&mut room).expect("a reply");
            let word = |at: usize| u16::from_be_bytes([room[at], room[at + 1]]);
            assert!((9..=1400).contains(&count) && word(6) == 0);
            assert_eq!(word(0), self.id, "of another request");
            pieces.resize(usize::from(word(4)), None);
            pieces[usize::from(word(2))] = Some(room[8..count].to_vec());
            if pieces.iter().all(Option::is_some) {
                return pieces.into_iter().flatten().flatten().collect();
            }
        }
    }

    fn ask(&mut self, request: &str) -> String {
        self.send(request.as_bytes());
        String::from_utf8(self.reply()).expect("text")
    }

    /// Waits until the port takes no more: the thread that serves it may see that a little later.
    fn ends(&mut self) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.send(b"mn\r\n");
            if self.is_silent() {
                return;
            }
            assert!(Instant::now() < until, "the port is still served");
        }
    }

    /// Nothing has come, and nothing comes.
    fn is_silent(&self) -> bool {
        self.socket.set_read_timeout(Some(Duration::from_millis(80))).expect("a timeout");
        let silent = self
            .socket
            .recv(&mut [0; 16])
            .is_err_and(|error| [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()));
        self.socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        silent
    }
}

#[test]
fn a_datagram_is_a_request_and_has_its_own_reply() {
    let house = House::open("");
    let (mut one, mut other) = (house.guest(), house.guest());
    assert_eq!(one.ask("set a 5 0 3\r\nabc\r\n"), "STORED\r\n");
    assert_eq!(other.ask("get a b\r\n"), "VALUE a 5 3\r\nabc\r\nEND\r\n");
    assert_eq!(house.door.client().ask("GET a"), "$abc");
    // Several requests in one datagram are replied to together, and a quiet one not at all.
    assert_eq!(one.ask("incr none 1\r\ndelete a noreply\r\nmg a v\r\nmn\r\n"), "NOT_FOUND\r\nEN\r\nMN\r\n");
    one.send(b"set q 0 0 1 noreply\r\n1\r\n");
    assert!(one.is_silent());
    assert_eq!(one.ask("get q\r\n"), "VALUE q 0 1\r\n1\r\nEND\r\n");
    assert!(one.ask("version\r\n").starts_with("VERSION 1.6"));
    let binary = b"\x80\x0c\0\x01\0\0\0\0\0\0\0\x01opaq\0\0\0\0\0\0\0\0q";
    one.send(binary);
    let reply = one.reply();
    assert_eq!(
        (&reply[..4], &reply[12..16], &reply[28..]),
        (&b"\x81\x0c\0\x01"[..], &b"opaq"[..], &b"q1"[..])
    );
    // The next one speaks text again.
    assert_eq!(one.ask("mn\r\n"), "MN\r\n");
}

#[test]
fn no_client_can_log_in_over_udp() {
    let house = House::open("");
    let (mut one, mut other, mut admin) = (house.guest(), house.guest(), house.door.client());
    assert_eq!(admin.ask("ACL SETUSER alice on >pw ~* +@all"), "+OK");
    assert_eq!(admin.ask("ACL SETUSER default resetkeys ~a*"), "+OK");
    // SASL_AUTH, PLAIN, as alice.
    one.send(b"\x80\x21\0\x05\0\0\0\0\0\0\0\x0eopaq\0\0\0\0\0\0\0\0PLAIN\0alice\0pw");
    assert_eq!(one.reply()[6..8], [0, 0x81], "an unknown command");
    assert_eq!(other.ask("set a1 0 0 1\r\n1\r\n"), "STORED\r\n");
    assert!(other.ask("set b1 0 0 1\r\n1\r\n").contains("NOPERM"), "the right of the default user");
    assert!(admin.ask("CLIENT LIST").contains("user=default"));
}

#[test]
fn a_long_reply_comes_in_several_datagrams() {
    let house = House::open("");
    let (mut guest, mut client) = (house.guest(), house.door.client());
    let value = "0123456789".repeat(2000);
    assert_eq!(client.ask(&format!("SET long {value}")), "+OK");
    assert_eq!(guest.ask("get long\r\n"), format!("VALUE long 0 20000\r\n{value}\r\nEND\r\n"));
    // The limit is for the whole reply; of a long request, the rest is not executed then.
    let request = format!("{}set after 0 0 1\r\n1\r\n", "get long\r\n".repeat(200));
    assert_eq!(guest.ask(&request), "SERVER_ERROR too long for UDP\r\n");
    assert_eq!(guest.ask("get after\r\n"), "END\r\n");
    assert_eq!(client.ask("CONFIG SET memcache-udp-reply-max 1024"), "+OK");
    assert_eq!(guest.ask("get long\r\n"), "SERVER_ERROR too long for UDP\r\n");
}

#[test]
fn a_list_of_all_keys_leaves_the_port_to_others() {
    let house = House::open("");
    let mut client = house.door.client();
    for thousand in 0..30 {
        let keys: Vec<String> = (0..1000).map(|key| format!("key:{thousand}:{key} v")).collect();
        assert_eq!(client.ask(&format!("MSET {}", keys.join(" "))), "+OK");
    }
    // Longer than what may wait to be sent by a connection; over UDP all of it waits for the end.
    assert_eq!(client.ask("CONFIG SET memcache-udp-reply-max 4mb"), "+OK");
    house.guest().send(b"lru_crawler metadump all\r\n");
    assert_eq!(house.guest().ask("mn\r\n"), "MN\r\n");
}

#[test]
fn what_is_no_whole_request_is_dropped() {
    let house = House::open("");
    let mut guest = house.guest();
    for datagram in
        [&b""[..], b"\0\x01\0\0\0\x01\0", b"\0\x01\0\0\0\x01\0\0", b"\0\x01\0\0\0\x02\0\0get a\r\n"]
    {
        guest.socket.send_to(datagram, ("127.0.0.1", house.port)).expect("the datagram goes");
    }
    guest.send(b"set cut 0 0 10\r\nabc");
    guest.send(b"defghij\r\n");
    assert_eq!(guest.reply(), b"ERROR\r\n", "the end of a value that began in another datagram is no end");
    guest.send(b"get cut");
    guest.send(b"\x80\x01\0\x03");
    assert!(guest.is_silent());
    // A value that is too long, and what would end a connection, concern their own datagram.
    let long = format!("set cut 0 0 2000000\r\n{}", "x".repeat(3000));
    assert_eq!(guest.ask(&long), "SERVER_ERROR object too large for cache\r\n");
    guest.send(b"mn\r\nquit\r\nmn\r\n");
    assert_eq!(guest.reply(), b"MN\r\n");
    assert_eq!(guest.ask("get cut\r\n"), "END\r\n");
}

/// A datagram whose sender claims to be another server's UDP port: the reply goes there.
#[test]
fn two_servers_do_not_reply_to_each_other() {
    let house = House::open("");
    let mut admin = house.door.client();
    assert_eq!(admin.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    let mut sender = house.guest();
    sender.send(b"set a 0 0 1\r\n1\r\n");
    // The other server opens its port where the request came from, which has not been replied to yet.
    let port = sender.socket.local_addr().expect("an address").port();
    drop(sender);
    let place = Place::new();
    let other = Door::on(
        place.clone(),
        free_port().expect("a free port"),
        &format!("--memcache-bind 127.0.0.1 --memcache-udp-port {port}"),
    );
    let table = other.place.memory.table();
    assert_eq!(admin.ask("CLIENT UNPAUSE"), "+OK");
    let counts = |counter, bytes, what| {
        let until = Instant::now() + PATIENCE;
        while table.counter(counter) < bytes {
            assert!(Instant::now() < until, "{what}");
            std::thread::yield_now();
        }
    };
    counts(Counter::BytesIn, 1, "the reply to the request goes to the other server");
    // Datagrams of one port are replied to in the order in which they came.
    assert_eq!(Guest::of(port).ask("mn\r\n"), "MN\r\n");
    let header_bytes = 8;
    // They are counted when they have been sent, in the order of the replies.
    counts(Counter::BytesOut, 1, "the reply is counted");
    assert_eq!(table.counter(Counter::BytesOut), header_bytes + 4, "only the last one has had a reply");
}

#[test]
fn many_datagrams_at_once_get_all_their_replies() {
    let house = House::open("");
    let mut client = house.door.client();
    (0..300).for_each(|number| assert_eq!(client.ask(&format!("SET k{number} v{number}")), "+OK"));
    let guest = house.guest();
    for number in 0..100u16 {
        let [high, low] = number.to_be_bytes();
        let keys: Vec<String> = (0..3).map(|third| format!("k{}", number * 3 + third)).collect();
        let request = format!("get {}\r\n", keys.join(" "));
        let datagram = [&[high, low, 0, 0, 0, 1, 0, 0][..], request.as_bytes()].concat();
        guest.socket.send_to(&datagram, ("127.0.0.1", house.port)).expect("the datagram goes");
    }
    for _ in 0..100 {
        let mut room = [0; 2048];
        let count = guest.socket.recv(&mut room).expect("a reply");
        let number = u16::from_be_bytes([room[0], room[1]]);
        let values: Vec<String> = (number * 3..number * 3 + 3)
            .map(|key| format!("VALUE k{key} 0 {}\r\nv{key}\r\n", format!("v{key}").len()))
            .collect();
        assert_eq!(String::from_utf8_lossy(&room[8..count]), format!("{}END\r\n", values.concat()));
    }
}

#[test]
fn one_client_stands_for_all_senders() {
    let house = House::open("");
    let (mut guest, mut admin) = (house.guest(), house.door.client());
    let listed = |admin: &mut crate::door::Client<_>| {
        let list = admin.ask("CLIENT LIST");
        let line = list
            .lines()
            .find(|line| line.contains(&format!(" addr=udp:{} ", house.port)))
            .expect("a line")
            .to_owned();
        line.split_once("id=")
            .and_then(|(_, rest)| rest.split_once(' '))
            .map(|(id, rest)| (id.to_owned(), rest.to_owned()))
            .expect("an id")
    };
    assert_eq!(guest.ask("set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    let (id, line) = listed(&mut admin);
    assert!(
        line.contains(&format!(" laddr=127.0.0.1:{} ", house.port)) && line.ends_with(" protocol=memcached"),
        "{line}"
    );
    // Killed, it makes room for the next one.
    assert_eq!(admin.ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert_eq!(guest.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    assert_ne!(listed(&mut admin).0, id);
    // A pause holds it back.
    assert_eq!(admin.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    guest.send(b"get a\r\nset a 0 0 1\r\n2\r\nget a\r\n");
    assert!(guest.is_silent());
    assert_eq!(admin.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!(guest.reply(), b"VALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n2\r\nEND\r\n");
    // Rules refuse it.
    assert_eq!(admin.ask("ACL SETUSER admin on nopass ~* &* +@all"), "+OK");
    assert_eq!(admin.ask("AUTH admin any"), "+OK");
    assert_eq!(admin.ask("ACL SETUSER default resetkeys ~a*"), "+OK");
    assert!(guest.ask("get b\r\n").starts_with("SERVER_ERROR"));
    assert_eq!(guest.ask("mn\r\n"), "MN\r\n");
}

#[test]
fn no_client_is_served_while_there_is_a_password() {
    let house = House::open("");
    let (mut guest, mut admin) = (house.guest(), house.door.client());
    assert_eq!(guest.ask("mn\r\n"), "MN\r\n");
    assert_eq!(admin.ask("CONFIG SET requirepass secret"), "+OK");
    guest.send(b"set a 0 0 14\r\ndefault secret\r\n");
    guest.send(b"get a\r\n");
    assert!(guest.is_silent());
    assert_eq!(admin.ask("CLIENT KILL TYPE normal SKIPME yes"), ":1");
    guest.send(b"get a\r\n");
    assert!(guest.is_silent());
    assert_eq!(admin.ask("CONFIG SET requirepass "), "+OK");
    assert_eq!(guest.ask("get a\r\n"), "END\r\n");
}

/// Why a server with these flags does not start.
fn refusal(flags: &str) -> String {
    let place = Place::new();
    let settings =
        settings(&format!("--bind 127.0.0.1 --port {} {flags}", free_port().expect("a free port")));
    settings.join(place.memory.table()).expect("the settings of the segment");
    Server::start(place.memory.clone(), settings, Loaded::default()).err().expect("no server").to_string()
}

#[test]
fn a_port_for_strangers_is_not_opened() {
    let port = free_port().expect("a free port");
    let why = refusal(&format!("--memcache-udp-port {port} --requirepass secret"));
    assert!(why.contains("UDP has no log-in") && why.contains("--memcache-udp-port"), "{why}");
    let why = refusal(&format!("--memcache-udp-port {port} --memcache-bind 0.0.0.0"));
    assert!(why.contains("protected-mode is on") && why.contains("--memcache-bind"), "{why}");
    let why = refusal("--memcache-database 16");
    assert!(why.contains("there are 16 databases"), "{why}");
    let door = Door::open("--protected-mode no");
    let mut admin = door.client();
    assert_eq!(admin.ask("CONFIG SET requirepass secret"), "+OK");
    assert_eq!(admin.ask("AUTH secret"), "+OK");
    let refused = admin.ask(&format!("CONFIG SET memcache-udp-port {port}"));
    assert!(refused.contains("Unable to listen on this port"), "{refused}");
}

/// The address of this machine for others, if it has one.
fn foreign_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn other_hosts_get_no_more_than_they_send() {
    let Some(address) = foreign_address() else {
        return println!("this machine has no address for others: left out");
    };
    let house = House::open("--protected-mode no --memcache-bind 0.0.0.0");
    let mut admin = house.door.client();
    assert_eq!(admin.ask(&format!("SET long {}", "x".repeat(300))), "+OK");
    let mut guest = house.guest();
    guest.socket = UdpSocket::bind((address, 0)).expect("a socket");
    guest.socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(guest.ask("get long\r\n"), "SERVER_ERROR too long for UDP\r\n");
    // Blanks make a request as long as its reply.
    let filled = format!("get long{}\r\n", " ".repeat(120));
    assert!(guest.ask(&filled).starts_with("VALUE long 0 300\r\n"));
    assert_eq!(admin.ask("CONFIG SET memcache-udp-amplification 0"), "+OK");
    assert!(guest.ask("get long\r\n").starts_with("VALUE long 0 300\r\n"));
    assert_eq!(admin.ask("CONFIG SET protected-mode yes"), "+OK");
    guest.send(b"get long\r\n");
    assert!(guest.is_silent());
}

#[test]
fn the_port_moves_and_closes() {
    let house = House::open("");
    let mut admin = house.door.client();
    let port = free_port().expect("a free port");
    assert_eq!(admin.ask(&format!("CONFIG SET memcache-udp-port {port}")), "+OK");
    let (mut guest, mut old) = (Guest::of(port), house.guest());
    assert_eq!(guest.ask("set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    // TCP and UDP ports are two things.
    assert_eq!(admin.ask(&format!("CONFIG SET memcache-port {port}")), "+OK");
    assert_eq!(guest.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    old.ends();
    assert_eq!(admin.ask("CONFIG SET memcache-udp-port 0"), "+OK");
    guest.ends();
    let list = admin.ask("CLIENT LIST");
    assert!(!list.contains("addr=udp:"), "{list}");
}

#[test]
fn a_unix_socket_serves_memcached() {
    let path = std::env::temp_dir().join(format!("polder-memcached-{}.sock", std::process::id()));
    let flags = format!(
        "--memcache-unixsocket {} --memcache-unixsocketperm 700 --memcache-database 3",
        path.display()
    );
    let mut door = Door::open(&flags);
    assert_eq!(std::fs::metadata(&path).expect("a socket").permissions().mode() & 0o777, 0o700);
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"set a 0 0 1\r\n1\r\nget a\r\nquit\r\n").expect("the server takes bytes");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("replies");
    assert_eq!(said, "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    let mut admin = door.client();
    assert_eq!(
        (admin.ask("EXISTS a"), admin.ask("SELECT 3"), admin.ask("GET a")),
        (":0".into(), "+OK".into(), "$1".into())
    );
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.write_all(b"flush_all\r\n").expect("the server takes bytes");
    let mut room = [0; 4];
    stream.read_exact(&mut room).expect("a reply");
    let list = admin.ask("CLIENT LIST");
    let line =
        list.lines().find(|line| line.contains(&format!(" addr={}:0 ", path.display()))).expect("a line");
    assert!(
        line.contains(" flags=U ") && line.contains(" db=3 ") && line.ends_with(" protocol=memcached"),
        "{line}"
    );
    assert_eq!((&room, admin.ask("DBSIZE")), (b"OK\r\n", ":0".into()));
    door.close();
    assert!(!path.exists());
}
