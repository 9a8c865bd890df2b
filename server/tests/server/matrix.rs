//! Each door against each other one: what is written through one is read through all, and what an administrator does to
//! clients concerns the clients of all doors.
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_testkit::process::free_port;
use rustls::ClientConfig;

use crate::door::{Client, Door, PATIENCE};
use crate::tls::{Certificates, Secure, secure, socket};

/// How a protocol says the same things. A new door gets a row.
struct Words {
    protocol: &'static str,
    set: fn(&str, &str) -> String,
    /// A reply as [`Words::essence`] leaves it.
    stored: &'static str,
    get: fn(&str) -> String,
    got: fn(&str, &str) -> String,
    /// What counts of a whole reply; nothing while it has not come whole.
    essence: fn(&str) -> Option<String>,
    /// How a refusal by ACL begins.
    refused: &'static str,
    /// The settings of the ports, without and with TLS.
    ports: [&'static str; 2],
    /// The setting of the UDP port.
    udp_port: Option<&'static str>,
}

/// The header of a request over UDP, and of a reply that is one datagram.
const HEADER: [u8; 8] = [0, 7, 0, 0, 0, 1, 0, 0];

/// Of an HTTP response, the status and the body.
fn status_and_body(reply: &str) -> Option<String> {
    let (head, body) = reply.split_once("\r\n\r\n")?;
    let field = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let length = field.map_or(0, |length| length.trim().parse().expect("a length"));
    // A new key and a replaced one are both stored.
    let status = head.split(' ').nth(1).map(|status| if status == "201" { "204" } else { status });
    (body.len() >= length).then(|| format!("{} {body}", status.expect("a status")))
}

fn all(reply: &str) -> Option<String> {
    reply.ends_with("\r\n").then(|| reply.to_owned())
}

const WORDS: [Words; 3] = [
    Words {
        protocol: "resp",
        set: |key, value| format!("SET {key} {value}\r\n"),
        stored: "+OK\r\n",
        get: |key| format!("GET {key}\r\n"),
        got: |_, value| format!("${}\r\n{value}\r\n", value.len()),
        essence: all,
        refused: "-NOPERM",
        ports: ["port", "tls-port"],
        udp_port: None,
    },
    Words {
        protocol: "memcached",
        set: |key, value| format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()),
        stored: "STORED\r\n",
        get: |key| format!("get {key}\r\n"),
        got: |key, value| format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()),
        essence: all,
        refused: "SERVER_ERROR",
        ports: ["memcache-port", "memcache-tls-port"],
        udp_port: Some("memcache-udp-port"),
    },
    Words {
        protocol: "http",
        set: |key, value| {
            format!(
                "PUT /k/{key} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{value}",
                value.len()
            )
        },
        stored: "204 ",
        get: |key| format!("GET /k/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        got: |_, value| format!("200 {value}"),
        essence: status_and_body,
        refused: "HTTP/1.1 403",
        ports: ["http-port", "https-port"],
        udp_port: None,
    },
];

enum Stream {
    Plain(TcpStream),
    Secure(Box<Secure>),
    Datagrams(UdpSocket),
}

/// What a port takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Plain,
    Tls,
    Datagrams,
}

/// A client at one of the ports.
struct Way {
    words: &'static Words,
    port: u16,
    stream: Stream,
}

impl Way {
    fn open(words: &'static Words, port: u16, takes: Takes, config: &Arc<ClientConfig>) -> Way {
        let stream = match takes {
            Takes::Plain => Stream::Plain(socket(port)),
            Takes::Tls => Stream::Secure(Box::new(secure("localhost", port, config))),
            Takes::Datagrams => {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                socket.connect(("127.0.0.1", port)).expect("an address");
                Stream::Datagrams(socket)
            }
        };
        let way = Way { words, port, stream };
        way.wait_for(PATIENCE);
        way
    }

    fn name(&self) -> String {
        let kind = match self.stream {
            Stream::Plain(_) => "",
            Stream::Secure(_) => "_tls",
            Stream::Datagrams(_) => "_udp",
        };
        format!("{}{kind}", self.words.protocol)
    }

    /// The field of CLIENT LIST that only the line of this client has: its own address. All that send datagrams to a port are one client.
    fn field(&self) -> String {
        let address = |stream: &TcpStream| format!(" addr={} ", stream.local_addr().expect("an address"));
        match &self.stream {
            Stream::Plain(stream) => address(stream),
            Stream::Secure(stream) => address(stream.socket()),
            Stream::Datagrams(_) => format!(" laddr=127.0.0.1:{} ", self.port),
        }
    }

    fn takes_datagrams(&self) -> bool {
        matches!(self.stream, Stream::Datagrams(_))
    }

    fn send(&mut self, request: &str) {
        let sent = match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(request.as_bytes()),
            Stream::Secure(stream) => stream.write_all(request.as_bytes()),
            Stream::Datagrams(socket) => socket.send(&[&HEADER[..], request.as_bytes()].concat()).map(drop),
        };
        sent.expect("the server takes bytes");
    }

    fn some(&mut self) -> std::io::Result<String> {
        some(&mut self.stream)
    }

    fn expect(&mut self, reply: &str) {
        let mut got = String::new();
        let essence = |got: &str| (self.words.essence)(got).filter(|essence| essence.len() >= reply.len());
        let essence = loop {
            match essence(&got) {
                Some(essence) => break essence,
                None => {
                    let some = some(&mut self.stream).expect("a reply");
                    assert!(
                        !some.is_empty(),
                        "{} ended after {got:?}, and not with {reply:?}",
                        self.words.protocol
                    );
                    got += &some;
                }
            }
        };
        assert_eq!(essence, reply, "{}", self.name());
    }

    /// Waits at most this long for some bytes.
    fn wait_for(&self, patience: Duration) {
        let set = match &self.stream {
            Stream::Plain(stream) => stream.set_read_timeout(Some(patience)),
            Stream::Secure(stream) => stream.socket().set_read_timeout(Some(patience)),
            Stream::Datagrams(socket) => socket.set_read_timeout(Some(patience)),
        };
        set.expect("a timeout");
    }

    fn is_silent(&mut self) -> bool {
        self.wait_for(Duration::from_millis(60));
        let silent = self
            .some()
            .is_err_and(|error| [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()));
        self.wait_for(PATIENCE);
        silent
    }

    /// Waits until the server has closed the port, or the connection.
    fn ends(&mut self) {
        if !self.takes_datagrams() {
            let end = self.some();
            assert!(end.as_ref().is_ok_and(|some| some.is_empty()), "{}: {end:?}", self.name());
            return;
        }
        let until = Instant::now() + PATIENCE;
        let Stream::Datagrams(socket) = &self.stream else { return };
        while socket.send(&HEADER).is_ok() {
            assert!(Instant::now() < until, "{} is still open", self.name());
            std::thread::yield_now();
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        self.send(&(self.words.set)(key, value));
        self.expect(self.words.stored);
    }

    fn has(&mut self, key: &str, value: &str) {
        self.send(&(self.words.get)(key));
        self.expect(&(self.words.got)(key, value));
    }
}

/// Some bytes; none at the end of the connection.
fn some(stream: &mut Stream) -> std::io::Result<String> {
    let mut room = [0; 4096];
    let count = match stream {
        Stream::Plain(stream) => stream.read(&mut room),
        Stream::Secure(stream) => stream.read(&mut room),
        Stream::Datagrams(socket) => {
            let count = socket.recv(&mut room)?;
            assert_eq!(room[..count].first_chunk(), Some(&HEADER));
            return Ok(String::from_utf8_lossy(&room[HEADER.len()..count]).into_owned());
        }
    };
    Ok(String::from_utf8_lossy(&room[..count?]).into_owned())
}

/// A server with all ports open, a client at each, and an administrator.
struct House {
    door: Door,
    admin: Client<TcpStream>,
    ways: Vec<Way>,
    /// Opens the ways again.
    config: Arc<ClientConfig>,
    _certificates: Certificates,
}

impl House {
    fn open() -> House {
        let certificates = Certificates::new();
        let mut ports = Vec::new();
        let (mut flags, mut secure_port) = (String::new(), 0);
        for words in &WORDS {
            let names = words.ports.into_iter().chain(words.udp_port);
            for (name, takes) in names.zip([Takes::Plain, Takes::Tls, Takes::Datagrams]) {
                let port = free_port().expect("a free port");
                ports.push((words, port, takes));
                match name {
                    "port" => {}
                    "tls-port" => secure_port = port,
                    name => flags += &format!(" --{name} {port}"),
                }
            }
        }
        let door = Door::open(
            &certificates.flags(secure_port, &format!("--tls-auth-clients no --threads 2{flags}")),
        );
        let config = certificates.config("ca.pem", None);
        ports[0].1 = door.address.port();
        let ways =
            ports.into_iter().map(|(words, port, takes)| Way::open(words, port, takes, &config)).collect();
        let admin = door.client();
        House { door, admin, ways, config, _certificates: certificates }
    }

    /// The line of a way in CLIENT LIST.
    fn line(&mut self, way: usize) -> String {
        let list = self.admin.ask("CLIENT LIST");
        let field = self.ways[way].field();
        list.lines().find(|line| line.contains(&field)).unwrap_or_default().to_owned()
    }
}

#[test]
fn what_is_written_through_each_door_is_read_through_all() {
    let mut house = House::open();
    for writer in 0..house.ways.len() {
        let key = format!("k-{}", house.ways[writer].name());
        house.ways[writer].set(&key, "value");
        assert_eq!(house.admin.ask(&format!("GET {key}")), "$value");
        house.ways.iter_mut().for_each(|reader| reader.has(&key, "value"));
    }
}

#[test]
fn clients_of_each_door_are_listed_watched_and_killed() {
    let mut house = House::open();
    let mut monitor = house.door.client();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    assert_eq!(house.admin.ask("CONFIG SET slowlog-log-slower-than 0"), "+OK");
    for number in 0..house.ways.len() {
        let way = &mut house.ways[number];
        let (protocol, key) = (way.words.protocol, format!("k-{}", way.name()));
        way.set(&key, "value");
        let line = house.line(number);
        assert!(line.ends_with(&format!(" protocol={protocol}")), "{line}");
        assert_eq!(line.contains(" resp=0 "), protocol != "resp", "{line}");
        while !monitor.reply().contains(&format!("\"{key}\"")) {}
        assert!(house.admin.ask("SLOWLOG GET 10").contains(&key));
        let id = |line: &str| line.split([' ', '=']).nth(1).expect("an id").to_owned();
        assert_eq!(house.admin.ask(&format!("CLIENT KILL ID {}", id(&line))), ":1", "{line}");
        let way = &mut house.ways[number];
        if way.takes_datagrams() {
            // Another client takes its place.
            way.has(&key, "value");
            assert_ne!(id(&house.line(number)), id(&line));
        } else {
            way.ends();
        }
    }
}

#[test]
fn a_pause_holds_the_clients_of_each_door_back() {
    let mut house = House::open();
    house.ways.iter_mut().for_each(|way| way.set("before", "v"));
    assert_eq!(house.admin.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    for way in &mut house.ways {
        way.has("before", "v");
        way.send(&(way.words.set)("during", "v"));
        assert!(way.is_silent(), "{}", way.name());
    }
    assert_eq!(house.admin.ask("EXISTS during"), ":0");
    assert_eq!(house.admin.ask("CLIENT UNPAUSE"), "+OK");
    for way in &mut house.ways {
        way.expect(way.words.stored);
    }
}

#[test]
fn rules_refuse_the_clients_of_each_door() {
    let mut house = House::open();
    assert_eq!(house.admin.ask("ACL SETUSER admin on nopass ~* &* +@all"), "+OK");
    assert_eq!(house.admin.ask("AUTH admin any"), "+OK");
    house.ways.iter_mut().for_each(|way| way.set("a1", "v"));
    assert_eq!(house.admin.ask("ACL SETUSER default resetkeys ~a*"), "+OK");
    for way in &mut house.ways {
        way.set("a2", "v");
        way.send(&(way.words.set)("b", "v"));
        let reply = way.some().expect("a reply");
        assert!(reply.starts_with(way.words.refused), "{}: {reply}", way.name());
    }
    assert_eq!(house.admin.ask("EXISTS b"), ":0");
}

#[test]
fn a_server_that_ends_replies_to_the_clients_of_each_door() {
    let mut house = House::open();
    for way in &mut house.ways {
        way.set("k", "v");
        // A datagram that no thread has read yet goes with its socket.
        if !way.takes_datagrams() {
            way.send(&(way.words.get)("k"));
        }
    }
    house.door.close();
    for way in &mut house.ways {
        if !way.takes_datagrams() {
            way.expect(&(way.words.got)("k", "v"));
        }
        way.ends();
        let (words, port) = (way.words, way.port);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{}", words.protocol);
    }
    drop(house.config);
}
