//! WebSocket over real sockets: the handshake, each sub-protocol, and what a hostile client or page may try.
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use polder_wire::web_socket::{Kind, header};

use crate::http::{Web, parts, read_all};
use crate::tls::{Certificates, secure};
use polder_testkit::process::free_port;

const USUAL: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The client's end of a WebSocket.
pub struct Peer<S = TcpStream> {
    pub stream: S,
    held: Vec<u8>,
}

/// A frame of a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [7u8, 0xf1, 0, 0x80];
    let mut bytes = header(Kind::Continuation, false, false, payload.len()).to_vec();
    (bytes[0], bytes[1]) = (first, bytes[1] | 0x80);
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    bytes
}

impl Peer {
    pub fn open(web: &Web, protocol: &str) -> Peer {
        Peer::with(web, "/ws", &format!("Sec-WebSocket-Protocol: {protocol}\r\n"))
    }

    pub fn with(web: &Web, target: &str, fields: &str) -> Peer {
        Peer::over(web.connect(), target, fields)
    }
}

impl<S: Read + Write> Peer<S> {
    fn over(mut stream: S, target: &str, fields: &str) -> Peer<S> {
        stream.write_all(request(target, fields).as_bytes()).expect("written");
        let mut peer = Peer { stream, held: Vec::new() };
        // Frames may come in one piece with the response.
        let end = loop {
            match peer.held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => assert!(peer.fill(), "{}", String::from_utf8_lossy(&peer.held)),
            }
        };
        let response = String::from_utf8(peer.held.drain(..end).collect()).expect("text");
        assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
        assert!(response.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{response}");
        peer
    }

    fn fill(&mut self) -> bool {
        let mut part = [0; 4096];
        match self.stream.read(&mut part) {
            Ok(count) => {
                self.held.extend_from_slice(&part[..count]);
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no frame: {error}"),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes bytes");
    }

    pub fn say(&mut self, text: &str) {
        self.write(&frame(0x81, text.as_bytes()));
    }

    /// Sends a text, and returns the next message.
    pub fn ask(&mut self, text: &str) -> String {
        self.say(text);
        self.hear()
    }

    /// The next message, which is a text.
    pub fn hear(&mut self) -> String {
        let (first, payload) = self.frame().expect("a message");
        assert_eq!(first, 0x81);
        String::from_utf8(payload).expect("text")
    }

    /// The next frame; none when the connection has ended.
    pub fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let short = self.held.get(1).map_or(0, |byte| usize::from(*byte));
            let (from, length) = match short {
                126 => (
                    4,
                    self.held.get(2..4).map_or(0, |bytes| usize::from(bytes[0]) << 8 | usize::from(bytes[1])),
                ),
                127 => (
                    10,
                    self.held
                        .get(2..10)
                        .map_or(0, |bytes| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))),
                ),
                _ => (2, short),
            };
            if self.held.len() >= from.max(2) && self.held.len() >= from + length {
                let frame = (self.held[0], self.held[from..from + length].to_vec());
                self.held.drain(..from + length);
                return Some(frame);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// The code of the frame that closes the connection, after which the connection ends.
    pub fn close_code(&mut self) -> Option<u16> {
        loop {
            let (first, payload) = self.frame()?;
            if first == 0x88 {
                assert!(!self.fill() && self.held.is_empty(), "something follows");
                return Some(u16::from_be_bytes([payload[0], payload[1]]));
            }
        }
    }
}

fn request(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{USUAL}{fields}\r\n")
}

#[test]
fn what_opens_no_web_socket_is_refused() {
    let web = Web::open("");
    let protocol = "Sec-WebSocket-Protocol: json\r\n";
    let usual = request("/ws", protocol);
    let cases = [
        (usual.replace("websocket\r", "h2c\r"), 426),
        (usual.replace("Connection: Upgrade\r\n", ""), 426),
        (usual.replace("Version: 13", "Version: 12"), 426),
        (usual.replace("GET", "POST"), 400),
        (usual.replace("/1.1", "/1.0"), 400),
        (usual.replace(protocol, ""), 400),
        (usual.replace("json", "chat"), 400),
        (usual.replace("dGhl", "dG!l"), 400),
        (usual.replace("/ws", "/ws?x=1"), 400),
        (usual.replace("/ws", "/ws?db=999"), 400),
        (request("/ws", &format!("{protocol}Origin: https://evil.example\r\n")), 403),
        (request("/ws", &format!("{protocol}Origin: null\r\n")), 403),
        (request("/ws", &format!("{protocol}Sec-Fetch-Site: cross-site\r\n")), 403),
        (usual.replace("Host: localhost", "Host: evil.example"), 403),
        (request("/ws", &format!("{protocol}Authorization: Basic YTpi\r\n")), 401),
        // A client that does not wait for the response.
        (usual + "x", 400),
    ];
    for (request, status) in cases {
        assert_eq!(parts(&web.raw(request.as_bytes())).0, status, "{request}");
    }
    let other = Web::open("--http-cors https://app.example");
    Peer::with(&other, "/ws", &format!("{protocol}Origin: https://app.example\r\n"));
    Peer::with(&other, "/ws", &format!("{protocol}Origin: http://localhost\r\n"));
}

#[test]
fn each_sub_protocol_speaks_its_own_way() {
    let web = Web::open("");
    let mut json = Peer::open(&web, "json");
    for (asked, reply) in [
        (r#"["SET","a b",7]"#, r#"{"reply":"OK"}"#),
        (r#"["GET","a b"]"#, r#"{"reply":"7"}"#),
        (r#"["INCR","a b"]"#, r#"{"reply":8}"#),
        (r#"["SET","raw",{"base64":"/wA="}]"#, r#"{"reply":"OK"}"#),
        (r#"["GET","raw"]"#, r#"{"reply":{"base64":"/wA="}}"#),
        (r#"["HSET","h","f","é"]"#, r#"{"reply":1}"#),
        (r#"["HGETALL","h"]"#, r#"{"reply":{"f":"é"}}"#),
        (r#"["NOPE"]"#, r#"{"error":"ERR unknown command 'NOPE', with args beginning with: "}"#),
        (r#"["MULTI"]"#, r#"{"reply":"OK"}"#),
        (r#"["GET","a b"]"#, r#"{"reply":"QUEUED"}"#),
        (r#"["LPUSH","a b","x"]"#, r#"{"reply":"QUEUED"}"#),
    ] {
        assert_eq!(json.ask(asked), reply, "{asked}");
    }
    let exec = json.ask(r#"["EXEC"]"#);
    assert!(exec.starts_with(r#"{"reply":["8",{"error":"WRONGTYPE "#), "{exec}");
    for wrong in ["", "{", "[]", r#"[["GET","a"]]"#, r#"["HELLO","3"]"#, r#"["reset"]"#] {
        assert!(json.ask(wrong).starts_with(r#"{"error":"ERR "#), "{wrong}");
    }
    let mut term = Peer::open(&web, "term");
    for (asked, reply) in [
        ("SET \"a b\" 'x y'", "OK\n"),
        ("GET 'a b'", "\"x y\"\n"),
        ("get none", "(nil)\n"),
        ("HGETALL h", "1) \"f\"\n2) \"\\xc3\\xa9\"\n"),
        ("nope", "(error) ERR unknown command 'nope', with args beginning with: \n"),
        ("GET 'a", "(error) ERR unbalanced quotes: a word ends with the quote that it began with\n"),
        ("STRLEN raw", "(integer) 2\n"),
    ] {
        assert_eq!(term.ask(asked), reply, "{asked}");
    }
    assert!(term.ask("INFO server").starts_with("# Server\r\n"));
    term.say("INCR n\n\nINCR n\n");
    assert_eq!([term.hear(), term.hear()], ["(integer) 1\n", "(integer) 2\n"]);
    let mut resp = Peer::open(&web, "resp");
    resp.write(&[frame(0x02, b"*2\r\n$3\r\nGE"), frame(0x80, b"T\r\n$1\r\nn\r\n")].concat());
    assert_eq!(resp.frame(), Some((0x82, b"$1\r\n2\r\n".to_vec())));
    resp.say("HELLO 3\r\n");
    assert!(resp.frame().expect("a reply").1.starts_with(b"%"));
}

#[test]
fn messages_are_pushed_between_replies() {
    let web = Web::open("");
    let (mut json, mut term, mut resp) =
        (Peer::open(&web, "json"), Peer::open(&web, "term"), Peer::open(&web, "resp"));
    assert_eq!(json.ask(r#"["SUBSCRIBE","news"]"#), r#"{"push":["subscribe","news",1]}"#);
    assert_eq!(term.ask("PSUBSCRIBE n*"), "1) \"psubscribe\"\n2) \"n*\"\n3) (integer) 1\n");
    resp.say("SUBSCRIBE news\r\n");
    assert!(resp.frame().is_some());
    let mut client = web.door.client();
    assert_eq!(client.ask("PUBLISH news hi"), ":3");
    assert_eq!(json.hear(), r#"{"push":["message","news","hi"]}"#);
    assert_eq!(term.hear(), "1) \"pmessage\"\n2) \"n*\"\n3) \"news\"\n4) \"hi\"\n");
    assert_eq!(
        resp.frame().map(|frame| frame.1),
        Some(b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n".to_vec())
    );
    // As with RESP3, a subscriber may go on with other commands.
    assert_eq!(json.ask(r#"["PING"]"#), r#"{"reply":"PONG"}"#);
    assert_eq!(json.ask(r#"["UNSUBSCRIBE","news"]"#), r#"{"push":["unsubscribe","news",0]}"#);
    assert_eq!(json.ask(r#"["CLIENT","TRACKING","ON"]"#), r#"{"reply":"OK"}"#);
    assert_eq!(json.ask(r#"["GET","seen"]"#), r#"{"reply":null}"#);
    client.ask("SET seen 1");
    assert_eq!(json.hear(), r#"{"push":["invalidate",["seen"]]}"#);
    let many = "x".repeat(200_000);
    json.ask(r#"["SUBSCRIBE","long"]"#);
    client.ask(&format!("PUBLISH long {many}"));
    let mut heard = String::new();
    loop {
        let (first, payload) = json.frame().expect("a part");
        heard.push_str(std::str::from_utf8(&payload).expect("text"));
        if first & 0x80 != 0 {
            break;
        }
    }
    assert_eq!(heard, format!(r#"{{"push":["message","long","{many}"]}}"#));
}

#[test]
fn pings_are_answered_and_a_close_is_answered_with_its_code() {
    let web = Web::open("");
    let mut peer = Peer::open(&web, "json");
    peer.write(&frame(0x89, b"are you there"));
    assert_eq!(peer.frame(), Some((0x8a, b"are you there".to_vec())));
    // Also while a call waits, and inside a message.
    peer.say(r#"["BLPOP","queue",0]"#);
    peer.write(&[frame(0x01, b"[\"PI"), frame(0x89, b"1")].concat());
    assert_eq!(peer.frame(), Some((0x8a, b"1".to_vec())));
    assert_eq!(web.door.client().ask("RPUSH queue x"), ":1");
    assert_eq!(peer.hear(), r#"{"reply":["queue","x"]}"#);
    peer.write(&frame(0x80, b"NG\"]"));
    assert_eq!(peer.hear(), r#"{"reply":"PONG"}"#);
    // The replies to what came before stand before the frame that closes.
    peer.say(r#"["PING"]"#);
    peer.write(&[frame(0x88, b"\x0f\xa0bye"), frame(0x81, b"[\"SET\",\"late\",1]")].concat());
    assert_eq!(peer.hear(), r#"{"reply":"PONG"}"#);
    assert_eq!(peer.close_code(), Some(4000));
    assert_eq!(web.door.client().ask("GET late"), "_");
    let mut waits = Peer::open(&web, "json");
    waits.say(r#"["BLPOP","queue",0]"#);
    waits.write(&frame(0x88, b""));
    assert_eq!(waits.close_code(), Some(1000));
    // No client waits for the key any more.
    assert_eq!(web.door.client().ask("RPUSH queue x"), ":1");
    assert_eq!(web.door.client().ask("LLEN queue"), ":1");
    let mut subscriber = Peer::open(&web, "json");
    subscriber.ask(r#"["SUBSCRIBE","a"]"#);
    subscriber.write(&frame(0x88, b""));
    assert_eq!(subscriber.close_code(), Some(1000));
    let mut quits = Peer::open(&web, "term");
    assert_eq!(quits.ask("QUIT"), "OK\n");
    assert_eq!(quits.close_code(), Some(1000));
}

#[test]
fn users_have_their_rights_and_clients_are_listed_and_killed() {
    let web = Web::open("");
    let mut client = web.door.client();
    client.ask("ACL SETUSER half on >pw ~own:* +get +set +acl|whoami");
    let protocol = "Sec-WebSocket-Protocol: json\r\n";
    let mut half = Peer::with(&web, "/ws?db=3", &format!("{protocol}Authorization: Basic aGFsZjpwdw==\r\n"));
    assert_eq!(half.ask(r#"["ACL","WHOAMI"]"#), r#"{"reply":"half"}"#);
    assert_eq!(half.ask(r#"["SET","own:a",1]"#), r#"{"reply":"OK"}"#);
    assert!(half.ask(r#"["GET","other"]"#).starts_with(r#"{"error":"NOPERM "#));
    let list = client.ask("CLIENT LIST");
    let line = list.lines().find(|line| line.contains("protocol=ws-json")).expect("it is listed");
    assert!(line.contains("user=half") && line.contains("db=3"), "{line}");
    let id = line.split("id=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an id");
    assert_eq!(client.ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert_eq!(half.frame(), None);
    for name in ["term", "resp"] {
        let _peer = Peer::open(&web, name);
        assert!(client.ask("CLIENT LIST").contains(&format!("protocol=ws-{name}")));
    }
    client.ask("CONFIG SET requirepass secret");
    let mut stranger = Peer::open(&web, "json");
    assert_eq!(stranger.ask(r#"["GET","a"]"#), r#"{"error":"NOAUTH Authentication required."}"#);
    assert_eq!(stranger.ask(r#"["AUTH","secret"]"#), r#"{"reply":"OK"}"#);
    assert_eq!(stranger.ask(r#"["GET","a"]"#), r#"{"reply":null}"#);
    // A client that has not logged in may not make the server hold much.
    let mut stranger = Peer::open(&web, "json");
    stranger.write(&frame(0x81, &vec![b' '; 1 << 20])[..2000]);
    assert_eq!(stranger.close_code(), Some(1009));
}

#[test]
fn frames_that_are_forbidden_close_the_connection_with_a_code() {
    let web = Web::open("");
    let cases: [(&str, Vec<u8>, u16); 10] = [
        ("json", header(Kind::Text, true, false, 4).to_vec(), 1002),
        ("json", frame(0xc1, b"x"), 1002),
        ("json", frame(0x83, b""), 1002),
        ("json", frame(0x80, b""), 1002),
        ("json", frame(0x09, b""), 1002),
        ("json", frame(0x89, &[0; 126]), 1002),
        ("term", frame(0x81, b"SET a 1\xff"), 1007),
        ("term", frame(0x82, b"PING"), 1003),
        ("resp", frame(0x88, b"\x03\xed"), 1002),
        ("json", [&[0x81, 0xff][..], &(1u64 << 40).to_be_bytes(), b"abcd"].concat(), 1009),
    ];
    for (protocol, bytes, code) in &cases {
        let mut peer = Peer::open(&web, protocol);
        peer.write(bytes);
        assert_eq!(peer.close_code(), Some(*code), "{protocol} {bytes:?}");
    }
    assert_eq!(web.door.client().ask("GET a"), "_");
    // A protocol error of RESP is told in RESP.
    let mut resp = Peer::open(&web, "resp");
    resp.say("*1\r\n+x\r\n");
    assert!(resp.frame().expect("an error").1.starts_with(b"-ERR Protocol error"));
    assert_eq!(resp.close_code(), Some(1000));
}

#[test]
fn messages_are_the_same_wherever_the_bytes_are_cut() {
    let web = Web::open("");
    let bytes = [
        frame(0x01, b"[\"ECHO\",\"\xe2"),
        frame(0x89, b"p"),
        frame(0x80, b"\x82\xac\"]"),
        frame(0x81, b"[\"PING\"]"),
    ]
    .concat();
    for at in 1..bytes.len() {
        let mut peer = Peer::open(&web, "json");
        peer.write(&bytes[..at]);
        // The server has read the first part once it replies to another client.
        assert_eq!(web.door.client().ask("PING"), "+PONG");
        peer.write(&bytes[at..]);
        let frames: Vec<_> = (0..3).map(|_| peer.frame().expect("a frame")).collect();
        assert!(frames.contains(&(0x8a, b"p".to_vec())), "{at}");
        let texts: Vec<_> = frames
            .iter()
            .filter(|frame| frame.0 == 0x81)
            .map(|frame| String::from_utf8_lossy(&frame.1))
            .collect();
        assert_eq!(texts, [r#"{"reply":"€"}"#, r#"{"reply":"PONG"}"#], "{at}");
    }
}

#[test]
fn long_messages_are_compressed_if_the_client_takes_that() {
    let web = Web::open("");
    let fields = "Sec-WebSocket-Protocol: json\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let mut peer = Peer::with(&web, "/ws", fields);
    web.door.client().ask(&format!("SET long {}", "x".repeat(50_000)));
    peer.say(r#"["GET","long"]"#);
    let (first, payload) = peer.frame().expect("a message");
    assert!(first == 0xc1 && payload.len() < 1000, "{first:x} {}", payload.len());
    assert_eq!(peer.ask(r#"["PING"]"#), r#"{"reply":"PONG"}"#);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let web = Web::open("");
    let mut client = web.door.client();
    assert_eq!(client.ask_words(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 1mb 0"]), "+OK");
    let mut slow = Peer::open(&web, "json");
    slow.ask(r#"["SUBSCRIBE","a"]"#);
    let message = "x".repeat(100_000);
    let heard = (0..2000).filter(|_| client.ask(&format!("PUBLISH a {message}")) == ":1").count();
    assert!(heard < 2000, "it is held for ever");
    // Pings whose replies are not read take no more memory, either.
    let mut pings = Peer::open(&web, "json");
    pings.stream.set_nonblocking(true).expect("an option");
    let many = frame(0x89, &[0; 125]).repeat(500);
    let _ = (0..200).try_for_each(|_| pings.stream.write(&many).map(drop));
    assert_eq!(client.ask("PING"), "+PONG");
}

#[test]
fn a_server_that_stops_says_that_it_goes_away() {
    let mut web = Web::open("");
    let mut peer = Peer::open(&web, "json");
    assert_eq!(peer.ask(r#"["PING"]"#), r#"{"reply":"PONG"}"#);
    web.door.close();
    assert_eq!(peer.close_code(), Some(1001));
}

#[test]
fn a_refused_page_learns_nothing() {
    let web = Web::open("");
    let mut stream = web.connect();
    let fields = "Sec-WebSocket-Protocol: json\r\nOrigin: https://evil.example\r\nConnection: close\r\n";
    stream.write_all(request("/ws", fields).as_bytes()).expect("written");
    let said = read_all(stream);
    assert!(!said.contains("Access-Control") && !said.contains("Sec-WebSocket-Accept"), "{said}");
}

#[test]
fn frames_go_through_tls() {
    let certificates = Certificates::new();
    let (tls_port, port) = (free_port().expect("a free port"), free_port().expect("a free port"));
    let web = Web::open(&certificates.flags(tls_port, &format!("--tls-auth-clients no --https-port {port}")));
    let config = certificates.config("ca.pem", None);
    let open = |protocol: &str| {
        let fields = format!("Sec-WebSocket-Protocol: {protocol}\r\nOrigin: https://localhost\r\n");
        Peer::over(secure("localhost", port, &config), "/ws", &fields)
    };
    let (mut json, mut resp) = (open("json"), open("resp"));
    assert_eq!(json.ask(r#"["SET","k","v"]"#), r#"{"reply":"OK"}"#);
    let long = "x".repeat(10_000);
    assert_eq!(json.ask(&format!(r#"["ECHO","{long}"]"#)), format!(r#"{{"reply":"{long}"}}"#));
    resp.write(&frame(0x82, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
    assert_eq!(resp.frame(), Some((0x82, b"$1\r\nv\r\n".to_vec())));
    json.write(&frame(0x89, b"there"));
    assert_eq!(json.frame(), Some((0x8a, b"there".to_vec())));
    assert_eq!(json.ask(r#"["SUBSCRIBE","news"]"#), r#"{"push":["subscribe","news",1]}"#);
    assert_eq!(web.door.client().ask("PUBLISH news hi"), ":1");
    assert_eq!(json.hear(), r#"{"push":["message","news","hi"]}"#);
    let list = web.door.client().ask("CLIENT LIST");
    assert!(list.contains("protocol=ws-json") && list.contains("protocol=ws-resp"), "{list}");
    json.write(&frame(0x88, &1000u16.to_be_bytes()));
    assert_eq!(json.close_code(), Some(1000));
}

#[test]
fn a_silent_peer_is_asked_for_a_sign_of_life() {
    let web = Web::open("");
    let mut peer = Peer::open(&web, "json");
    peer.stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let began = Instant::now();
    assert_eq!(peer.frame(), Some((0x89, Vec::new())));
    assert!(began.elapsed() >= Duration::from_secs(29), "{:?}", began.elapsed());
    peer.write(&frame(0x8a, b""));
    assert_eq!(peer.ask(r#"["PING"]"#), r#"{"reply":"PONG"}"#);
}
