//! Server-Sent Events over real sockets.
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::http::Web;

/// A client that hears events.
struct Listener {
    stream: TcpStream,
    text: String,
}

impl Listener {
    fn open(web: &Web, target: &str, fields: &str) -> Listener {
        let mut stream = web.connect();
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes())
            .expect("written");
        Listener { stream, text: String::new() }
    }

    /// Reads until the text ends with `end`.
    fn read_to(&mut self, end: &str) -> &str {
        let mut bytes = [0; 4096];
        while !self.text.ends_with(end) {
            let count = self.stream.read(&mut bytes).expect("events");
            assert!(count > 0, "{:?} ended without {end:?}", self.text);
            self.text.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
        }
        &self.text
    }
}

#[test]
fn messages_of_channels_and_patterns_come_as_events() {
    let web = Web::open("");
    let mut one = Listener::open(&web, "/sub?subject=a%20b&subject=c&pattern=n*", "");
    let opened = one.read_to("data: {\"subjects\":[\"a b\",\"c\"],\"patterns\":[\"n*\"]}\n\n").to_owned();
    assert!(
        opened.starts_with("HTTP/1.1 200") && opened.contains("Content-Type: text/event-stream\r\n"),
        "{opened}"
    );
    assert!(opened.contains("Cache-Control: no-store\r\n") && !opened.contains("Content-Length"), "{opened}");
    let mut client = web.door.client();
    assert!(client.ask("CLIENT LIST").contains("protocol=sse"));
    assert_eq!(web.ask("POST /pub?subject=a+b", "", "hello"), (200, "1\n".into()));
    one.read_to("\n\ndata: {\"subject\":\"a b\",\"data\":\"hello\"}\n\n");
    assert_eq!(client.ask("PUBLISH news 1"), ":1");
    one.read_to("\n\ndata: {\"subject\":\"news\",\"pattern\":\"n*\",\"data\":\"1\"}\n\n");
    // A request behind it is not answered.
    one.stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("written");
    assert_eq!(client.ask("PUBLISH c 2"), ":1");
    one.read_to("}\n\ndata: {\"subject\":\"c\",\"data\":\"2\"}\n\n");
    assert_eq!(client.ask("PUBLISH d 2"), ":0");
}

#[test]
fn many_clients_of_several_forms_hear_the_same() {
    let web = Web::open("");
    let mut listeners: Vec<Listener> =
        (0..20).map(|_| Listener::open(&web, "/sub?subject=all", "")).collect();
    for listener in &mut listeners {
        listener.read_to("\"patterns\":[]}\n\n");
    }
    let mut subscribers: Vec<_> = (0..20).map(|_| web.door.client()).collect();
    subscribers.iter_mut().for_each(|client| drop(client.ask("SUBSCRIBE all")));
    let mut client = web.door.client();
    assert_eq!(client.ask("PUBLISH all x"), ":40");
    for listener in &mut listeners {
        listener.read_to("data: {\"subject\":\"all\",\"data\":\"x\"}\n\n");
    }
}

#[test]
fn a_client_that_was_away_is_told_that_messages_are_lost() {
    let web = Web::open("");
    let mut back = Listener::open(&web, "/sub?subject=a", "Last-Event-ID: 17\r\n");
    back.read_to("event: gap\ndata: {\"last\":\"17\"}\n\n");
}

#[test]
fn what_is_no_subscription_is_refused() {
    let web = Web::open("");
    let mut client = web.door.client();
    client.ask("ACL SETUSER half on >pw +subscribe &open");
    let half = "Authorization: Basic aGFsZjpwdw==\r\n";
    let cases = [
        ("GET /sub", "", 400),
        ("GET /sub?subject=%zz", "", 400),
        ("GET /sub?channel=a", "", 400),
        ("POST /sub?subject=a", "", 405),
        ("GET /sub?subject=closed", half, 403),
        ("GET /sub?subject=open&pattern=o*", half, 403),
        ("GET /sub?subject=a", "Authorization: Basic aGFsZjp4\r\n", 401),
        ("GET /sub?subject=a", "Origin: https://evil.example\r\n", 403),
    ];
    for (line, fields, status) in cases {
        assert_eq!(web.ask(line, fields, "").0, status, "{line} {fields}");
    }
    let mut may = Listener::open(&web, "/sub?subject=open", half);
    may.read_to("\"patterns\":[]}\n\n");
    let id = client.ask("CLIENT LIST").lines().find(|line| line.contains("protocol=sse")).map(|line| {
        line.split("id=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an id").to_owned()
    });
    assert_eq!(client.ask(&format!("CLIENT KILL ID {}", id.expect("it is listed"))), ":1");
    assert_eq!(may.stream.read(&mut [0; 16]).expect("the end"), 0);
}
