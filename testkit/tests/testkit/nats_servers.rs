//! Servers as tools and clients of NATS see them: the monitoring pages, and the neighbours on the same
//! memory.
use std::io::{Read, Write};
use std::net::TcpStream;

use polder_testbase::until;
use polder_testkit::nats::{Connection, Event};
use polder_testkit::process::{Server, free_port, polder};
use polder_testkit::scratch::fresh_name;
use serde_json::Value;

/// A client that takes INFO at any time.
const NEWS: &str = r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1,"name":"a client","lang":"test","version":"1"}"#;

struct Segment(String);

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = polder_engine::Memory::remove(&self.0);
    }
}

struct Polder {
    server: Server,
    nats: u16,
    web: u16,
}

impl Polder {
    fn start(segment: &Segment) -> Polder {
        let (nats, web) = (free_port().expect("a free port"), free_port().expect("a free port"));
        let (nats_text, web_text) = (nats.to_string(), web.to_string());
        let flags = [
            "--threads",
            "2",
            "--nats-bind",
            "127.0.0.1",
            "--nats-port",
            &nats_text,
            "--http-port",
            &web_text,
        ];
        Polder { server: Server::start_polder(&polder(), &segment.0, &flags).expect("a server"), nats, web }
    }

    fn url(&self) -> String {
        format!("127.0.0.1:{}", self.nats)
    }

    /// The status and the body of a page.
    fn page(&self, path: &str) -> (String, String) {
        let mut socket = TcpStream::connect(("127.0.0.1", self.web)).expect("a connection");
        socket.set_read_timeout(Some(polder_testbase::PATIENCE)).expect("set");
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("a response");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.page(path);
        assert_eq!(status, "200", "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error} in {body}"))
    }
}

/// The servers that a line of INFO names, and whether its server ends.
fn servers(info: &str) -> (Vec<String>, bool) {
    let info: Value = serde_json::from_str(info.strip_prefix("INFO ").expect("INFO")).expect("JSON");
    let urls = info["connect_urls"].as_array().cloned().unwrap_or_default();
    let urls = urls.iter().map(|url| url.as_str().expect("a text").to_owned()).collect();
    (urls, info["ldm"] == Value::Bool(true))
}

fn next_servers(client: &mut Connection) -> (Vec<String>, bool) {
    loop {
        match client.event().expect("an event") {
            Event::Line(line) if line.starts_with("INFO ") => return servers(&line),
            Event::End => panic!("the connection has ended"),
            _ => {}
        }
    }
}

#[test]
fn monitoring_pages_show_what_clients_have_published_and_heard() {
    let segment = Segment(fresh_name());
    let polder = Polder::start(&segment);
    let mut client = Connection::open(polder.nats, NEWS).expect("a connection");
    client.send("SUB a.* 1\r\nSUB a.b 2\r\nSUB jobs q 3\r\nPUB a.b 5\r\nhello\r\nHPUB a.c 12 15\r\nNATS/1.0\r\n\r\nxyz\r\n").expect("sent");
    let heard = (0..3).map(|_| client.message().expect("a message")).count();
    assert_eq!(heard, 3);
    until("the figures are there", || polder.json("/varz")["out_msgs"] == 3);
    let varz = polder.json("/varz");
    let figures = [
        ("in_msgs", 2),
        ("in_bytes", 5 + 15),
        ("out_msgs", 3),
        ("out_bytes", 5 + 5 + 15),
        ("connections", 1),
        ("subscriptions", 3),
        ("slow_consumers", 0),
        ("port", polder.nats.into()),
        ("max_payload", 1 << 20),
    ];
    for (name, value) in figures {
        assert_eq!(varz[name], value, "{name} in {varz}");
    }
    assert!(varz["mem"].as_u64() > Some(1 << 20) && varz["cpu"].is_number() && varz["uptime"].is_string());
    assert!(client.info.contains(varz["server_id"].as_str().expect("a text")));
    let connz = polder.json("/connz?limit=10&sort=msgs_to");
    assert_eq!(connz["num_connections"], 1);
    assert_eq!(connz["total"], 1);
    let connection = &connz["connections"][0];
    for (name, value) in [
        ("in_msgs", 2),
        ("out_msgs", 3),
        ("in_bytes", 20),
        ("out_bytes", 25),
        ("subscriptions", 3),
        ("pending_bytes", 0),
    ] {
        assert_eq!(connection[name], value, "{name} in {connection}");
    }
    for (name, value) in
        [("name", "a_client"), ("lang", "test"), ("version", "1"), ("ip", "127.0.0.1"), ("type", "nats")]
    {
        assert_eq!(connection[name], value, "{name} in {connection}");
    }
    assert_eq!(polder.json("/subsz")["num_subscriptions"], 3);
    assert_eq!(polder.json("/healthz")["status"], "ok");
    assert_eq!(polder.page("/connz?sort=colour").0, "400");
    assert_eq!(polder.page("/connz?subs=1").0, "400");
    drop(client);
    until("the client is gone", || polder.json("/connz")["total"] == 0);
    assert_eq!(polder.json("/varz")["out_msgs"], 3, "what a client has heard counts on");
}

#[test]
fn pages_have_the_names_and_types_of_nats_server() {
    let Some(program) = polder_testkit::nats::nats_server() else {
        println!("no nats-server on the path or in POLDER_NATS_SERVER: nothing is compared");
        return;
    };
    let segment = Segment(fresh_name());
    let polder = Polder::start(&segment);
    let web = free_port().expect("a free port");
    let text = web.to_string();
    let peer =
        Server::start(&program, &["-a", "127.0.0.1", "-p", "{port}", "-m", &text]).expect("nats-server");
    let both = [Connection::open(polder.nats, NEWS), Connection::open(peer.port(), NEWS)];
    let _clients = both.map(|client| {
        let mut client = client.expect("a connection");
        client.settle().expect("connected");
        client
    });
    let real = Polder { server: peer, nats: 0, web };
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    for path in ["/varz", "/connz", "/subsz", "/healthz"] {
        let (own, real) = (polder.json(path), real.json(path));
        let first = |page: &Value| page["connections"][0].clone();
        let pairs = [(own.clone(), real.clone()), (first(&own), first(&real))];
        for (own, real) in pairs {
            for (name, value) in own.as_object().into_iter().flatten() {
                assert_eq!(kind(value), kind(&real[name]), "{name} of {path}, in nats-server {}", real[name]);
            }
        }
    }
}

#[test]
fn clients_are_told_of_the_neighbours_on_the_same_memory() {
    let segment = Segment(fresh_name());
    let one = Polder::start(&segment);
    let mut client = Connection::open(one.nats, NEWS).expect("a connection");
    client
        .settle()
        .map(drop)
        .or_else(|error| if error.to_string().starts_with("INFO") { Ok(()) } else { Err(error) })
        .expect("connected");
    let other = Polder::start(&segment);
    let mut both = [one.url(), other.url()];
    both.sort_unstable();
    while next_servers(&mut client) != (both.to_vec(), false) {}
    // A client that comes later is told at once, and one that takes no news hears none.
    assert_eq!(servers(&Connection::bare(one.nats).expect("a connection").info), (both.to_vec(), false));
    let mut at_other = Connection::open(other.nats, NEWS).expect("a connection");
    let left = one.url();
    let last = other.url();
    signal(one.server.pid(), "TERM");
    let (urls, is_leaving) = next_servers(&mut client);
    assert_eq!((urls, is_leaving), (vec![last.clone()], true), "the server ends, and names another");
    while client.event().expect("an event") != Event::End {}
    loop {
        let (urls, _) = next_servers(&mut at_other);
        if !urls.contains(&left) {
            assert_eq!(urls, [last]);
            break;
        }
    }
    drop(one);
}

fn signal(id: u32, name: &str) {
    let done = std::process::Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status();
    assert!(done.expect("kill").success());
}
