//! HTTP over real sockets: keys as resources, and what a hostile client or page may try.
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use polder_testkit::process::free_port;

use super::door::{Door, PATIENCE};

/// A server that speaks HTTP, too.
pub struct Web {
    pub door: Door,
    pub address: SocketAddr,
}

impl Web {
    pub fn open(flags: &str) -> Web {
        let port = free_port().expect("a free port");
        let door = Door::open(&format!("--http-port {port} --http-bind 127.0.0.1 {flags}"));
        Web { door, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        stream
    }

    /// Sends bytes, and returns all that comes until the end of the connection.
    pub fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // A server that refuses the beginning may close before the end.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        read_all(stream)
    }

    /// Sends one request with these fields, and returns the status and the body of its response.
    pub fn ask(&self, line: &str, fields: &str, body: &str) -> (u16, String) {
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        parts(
            &self.raw(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n{body}").as_bytes()),
        )
    }
}

pub fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // The end may be a reset, if the server has not read everything.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The status and the body of a response.
pub fn parts(response: &str) -> (u16, String) {
    let status = response.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, response.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

/// The statuses of all responses, in their order.
pub fn statuses(responses: &str) -> Vec<u16> {
    responses
        .match_indices("HTTP/1.1 ")
        .filter_map(|(at, _)| responses.get(at + 9..at + 12)?.parse().ok())
        .collect()
}

#[test]
fn a_key_is_written_read_and_removed_by_its_path() {
    let web = Web::open("");
    for path in ["/k/foo", "/foo", "/k/a%2Fb%20%00", "/k/", "/k/js", "/k/x/y/z"] {
        assert_eq!(web.ask(&format!("GET {path}"), "", "").0, 404, "{path}");
        assert_eq!(web.ask(&format!("PUT {path}"), "", "bar"), (201, String::new()), "{path}");
        assert_eq!(web.ask(&format!("GET {path}"), "", ""), (200, "bar".into()), "{path}");
        assert_eq!(web.ask(&format!("POST {path}"), "", "bar2").0, 204, "{path}");
        let head = web.raw(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert_eq!(web.ask(&format!("DELETE {path}"), "", "").0, 204, "{path}");
        assert_eq!(web.ask(&format!("DELETE {path}"), "", "").0, 404, "{path}");
    }
    let mut client = web.door.client();
    client.ask("SET /k/foo x");
    assert_eq!(web.ask("PUT /k/%2Fk%2Ffoo", "", "y").0, 204);
    assert_eq!(client.ask("GET /k/foo"), "$y");
}

#[test]
fn requests_in_a_row_are_answered_in_their_order() {
    let web = Web::open("");
    let one = "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1GET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let chunked = "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n34\r\n1;x=y\r\n5\r\n0\r\nA: b\r\n\r\n";
    let last = "GET /k/a?db=0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\nGET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let all = format!("{}{chunked}{last}", one.repeat(100));
    let responses = web.raw(all.as_bytes());
    let statuses = statuses(&responses);
    assert_eq!(statuses.len(), 202);
    assert_eq!(statuses[..2], [201, 200]);
    assert!(statuses[2..200].chunks(2).all(|pair| pair == [204, 200]));
    assert_eq!(statuses[200..], [204, 200]);
    assert!(responses.ends_with("345"), "{}", &responses[responses.len() - 200..]);
}

#[test]
fn a_request_may_be_split_anywhere() {
    let web = Web::open("");
    let request = "PUT /k/split?db=1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n\
                   GET /k/split?db=1 HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /k/none HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for at in 1..request.len() {
        let mut stream = web.connect();
        stream.write_all(&request.as_bytes()[..at]).expect("written");
        std::thread::sleep(Duration::from_millis(1));
        stream.write_all(&request.as_bytes()[at..]).expect("written");
        stream.shutdown(Shutdown::Write).expect("shut down");
        let responses = read_all(stream);
        assert_eq!(
            statuses(&responses),
            [if at == 1 { 201 } else { 204 }, 200, 404],
            "split at {at}: {responses}"
        );
        assert!(responses.contains("\r\n\r\nabcde"), "split at {at}: {responses}");
    }
    let mut stream = web.connect();
    for byte in request.bytes() {
        stream.write_all(&[byte]).expect("written");
    }
    stream.shutdown(Shutdown::Write).expect("shut down");
    assert_eq!(statuses(&read_all(stream)), [204, 200, 404]);
}

/// Requests that end the connection, and the status of the response. Each one is followed by a request for a secret.
const REFUSED: &[(&str, u16)] = &[
    // The end of the body would depend on the reader.
    (
        "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        400,
    ),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 1\r\n\r\nx", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\nx", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x1\r\n\r\nx", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1 1\r\n\r\nx", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999999\r\n\r\n", 413),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    (
        "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    // Chunks.
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\nx\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n 1\r\nx\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", 413),
    (
        "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;a\rb\r\nx\r\n0\r\n\r\n",
        400,
    ),
    // Lines and fields.
    ("GET /k/a HTTP/1.1\nHost: localhost\n\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length : 1\r\n\r\nx", 400),
    ("GET /k/a HTTP/1.1\r\n Host: localhost\r\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\nA: b\rc\r\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\nA\x00: b\r\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\nA: \x00\r\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\nnocolon\r\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n", 400),
    // The request line and the host.
    ("GET /k/a HTTP/1.1\r\n\r\n", 400),
    ("GET /k/a HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    ("GET /k/a HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
    ("GET /k/a\r\nHost: localhost\r\n\r\n", 400),
    ("GET  /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET /k/a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 505),
    ("GET /k/a#b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET k/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET http://127.0.0.1/k/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("GET ftp://localhost/k/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("get /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("*1\r\n$4\r\nPING\r\n", 400),
    ("\x16\x03\x01\x02\x00\x01", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx", 417),
];

#[test]
fn what_two_readers_might_understand_differently_ends_the_connection() {
    let web = Web::open("");
    web.ask("PUT /k/secret", "", "mine");
    for (request, status) in REFUSED {
        let responses =
            web.raw(format!("{request}GET /k/secret HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert_eq!(statuses(&responses), [*status], "{request:?}: {responses}");
        assert!(responses.contains("Connection: close\r\n"), "{request:?}: {responses}");
    }
    assert_eq!(web.ask("GET /k/a", "", "").0, 404, "nothing was written");
}

#[test]
fn heads_have_a_limit() {
    let web = Web::open("");
    let long = "x".repeat(33 << 10);
    assert_eq!(web.ask(&format!("GET /k/{long}"), "", "").0, 431);
    assert_eq!(web.ask("GET /k/a", &format!("A: {long}\r\n"), "").0, 431);
    assert_eq!(web.ask("GET /k/a", &"A: b\r\n".repeat(101), "").0, 431);
    assert_eq!(web.ask("GET /k/a", &"A: b\r\n".repeat(90), "").0, 404);
    assert_eq!(web.ask(&format!("GET /k/{}", &long[..30_000]), "", "").0, 404);
}

#[test]
fn requests_for_other_names_and_from_other_sites_are_refused() {
    let web = Web::open("--http-hosts cache.example --http-cors https://app.example");
    let get = |host: &str| parts(&web.raw(format!("GET /k/a HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())).0;
    assert_eq!([get("evil.example"), get("evil.example:8080"), get("localhost.evil.example")], [403; 3]);
    assert_eq!([get("localhost"), get("127.0.0.1:1"), get("[::1]"), get("cache.example:8080")], [404; 4]);
    assert_eq!(parts(&web.raw(b"GET http://evil.example/k/a HTTP/1.1\r\nHost: evil.example\r\n\r\n")).0, 403);
    assert_eq!(parts(&web.raw(b"GET http://localhost/k/a HTTP/1.1\r\nHost: localhost\r\n\r\n")).0, 404);
    assert_eq!(parts(&web.raw(b"GET /k/a HTTP/1.0\r\n\r\n")).0, 404);
    for fields in [
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Origin: http://localhost:1\r\n",
    ] {
        assert_eq!(web.ask("PUT /k/a", fields, "x").0, 403, "{fields}");
        assert_eq!(web.ask("DELETE /k/a", fields, "").0, 403, "{fields}");
    }
    assert_eq!(web.ask("GET /k/a", "", "").0, 404, "nothing was written");
    assert_eq!(
        web.ask("PUT /k/a", "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n", "x").0,
        201
    );
    let guest = web.raw(b"GET /k/a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\r\n");
    assert!(
        guest.starts_with("HTTP/1.1 200")
            && guest.contains("Access-Control-Allow-Origin: https://app.example\r\n"),
        "{guest}"
    );
    let asked = "Access-Control-Request-Method: PUT\r\n";
    let allowed = web.raw(
        format!("OPTIONS /k/a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n{asked}\r\n")
            .as_bytes(),
    );
    assert!(
        allowed.starts_with("HTTP/1.1 204") && allowed.contains("Access-Control-Allow-Methods"),
        "{allowed}"
    );
    assert_eq!(web.ask("OPTIONS /k/a", &format!("Origin: https://evil.example\r\n{asked}"), "").0, 403);
}

#[test]
fn each_request_logs_in_for_itself() {
    let web = Web::open("--requirepass geheim");
    let mut client = web.door.client();
    client.ask("AUTH geheim");
    client.ask("ACL SETUSER reader on >pass ~* +item.view");
    let basic = |words: &str| format!("Authorization: Basic {words}\r\n");
    let (default, reader) = (basic("ZGVmYXVsdDpnZWhlaW0="), basic("cmVhZGVyOnBhc3M="));
    let missing = web.raw(b"GET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(missing.starts_with("HTTP/1.1 401") && missing.contains("WWW-Authenticate: Basic"), "{missing}");
    assert_eq!(web.ask("PUT /k/a", &default, "x").0, 201);
    assert_eq!(web.ask("PUT /k/a", "Authorization: Bearer geheim\r\n", "y").0, 204);
    assert_eq!(web.ask("GET /k/a", &reader, ""), (200, "y".into()));
    assert_eq!(web.ask("PUT /k/a", &reader, "z").0, 403);
    for wrong in [
        basic("cmVhZGVyOndyb25n"),
        basic("!"),
        basic("eA=="),
        "Authorization: Bearer x\r\n".into(),
        "Authorization: Digest x\r\n".into(),
    ] {
        assert_eq!(web.ask("GET /k/a", &wrong, "").0, 401, "{wrong}");
    }
    // The next request of the same connection is not logged in.
    let two = format!(
        "GET /k/a HTTP/1.1\r\nHost: localhost\r\n{default}\r\nGET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
    );
    assert_eq!(statuses(&web.raw(two.as_bytes())), [200, 401]);
    // A long body is taken from a known client only.
    let body = "x".repeat(1 << 20);
    assert_eq!(web.ask("PUT /k/long", &default, &body).0, 201);
    assert!(!matches!(web.ask("PUT /k/long", "", &body).0, 201 | 204));
}

#[test]
fn a_transaction_that_may_not_begin_makes_none_of_its_calls() {
    let web = Web::open("--requirepass geheim");
    let mut client = web.door.client();
    client.ask("AUTH geheim");
    client.ask("ACL SETUSER reader on >pass ~* +@all -multi");
    let reader = "Authorization: Basic cmVhZGVyOnBhc3M=\r\n";
    let (status, reply) = web.ask("POST /js?atomic", reader, r#"[["SET","a","1"],["SET","b","2"]]"#);
    assert_eq!(status, 403, "{reply}");
    assert!(reply.contains("multi"), "{reply}");
    assert_eq!(client.ask("EXISTS a b"), ":0");
    let (status, reply) = web.ask("POST /js", reader, r#"[["SET","a","1"]]"#);
    assert_eq!(status, 200, "{reply}");
}

#[test]
fn a_client_that_expects_it_is_asked_for_the_body() {
    let web = Web::open("");
    let mut stream = web.connect();
    let head = "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("written");
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").expect("written");
    stream.shutdown(Shutdown::Write).expect("shut down");
    assert_eq!(statuses(&read_all(stream)), [201]);
    assert_eq!(web.ask("GET /k/a", "", ""), (200, "abc".into()));
    // A request that is refused is not asked for its body.
    let refused = web.raw(head.replace("localhost", "evil.example").as_bytes());
    assert_eq!(statuses(&refused), [403], "{refused}");
}

#[test]
fn a_client_beyond_the_limit_is_told_so() {
    let web = Web::open("--maxclients 1");
    let mut kept = web.connect();
    kept.write_all(b"GET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("written");
    assert!(kept.read(&mut [0; 9]).is_ok_and(|count| count == 9));
    let (status, body) = parts(&read_all(web.connect()));
    assert_eq!((status, body.as_str()), (503, "{\"error\":\"ERR max number of clients reached\"}\n"));
}

#[test]
fn a_request_that_comes_byte_by_byte_is_given_up() {
    let web = Web::open("--http-request-timeout 1 --http-idle-timeout 2");
    for beginning in [
        "G",
        "GET /k/a HTTP/1.1\r\nHost: loc",
        "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
    ] {
        let mut stream = web.connect();
        stream.write_all(beginning.as_bytes()).expect("written");
        assert_eq!(statuses(&read_all(stream)), [408], "{beginning:?}");
    }
    // Without a request it is closed without a word.
    assert_eq!(read_all(web.connect()), "");
    let mut stream = web.connect();
    stream.write_all(b"GET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("written");
    assert_eq!(statuses(&read_all(stream)), [404]);
}

#[test]
fn a_value_of_another_type_is_json() {
    let web = Web::open("");
    let mut client = web.door.client();
    for command in ["HSET h a 1", "RPUSH l x y", "SADD s m", "ZADD z 1.5 m", "XADD x 1-1 f v"] {
        client.ask(command);
    }
    client.ask_words(&[b"RPUSH".as_slice(), b"b", b"\xff", b"\"\n"]);
    let shown = [
        ("h", r#"{"a":"1"}"#),
        ("l", r#"["x","y"]"#),
        ("s", r#"["m"]"#),
        ("z", r#"[["m",1.5]]"#),
        ("x", r#"[["1-1",["f","v"]]]"#),
    ];
    for (key, json) in shown.into_iter().chain([("b", r#"[{"base64":"/w=="},"\"\n"]"#)]) {
        assert_eq!(web.ask(&format!("GET /k/{key}"), "", ""), (200, json.into()), "{key}");
    }
}

#[test]
fn tags_save_transfers_and_guard_changes() {
    let web = Web::open("");
    let tag = |response: &str| {
        response.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").to_owned()
    };
    assert_eq!(web.ask("PUT /k/a", "If-Match: *\r\n", "0").0, 412);
    assert_eq!(web.ask("PUT /k/a", "If-None-Match: *\r\n", "1").0, 201);
    assert_eq!(web.ask("PUT /k/a", "If-None-Match: *\r\n", "2").0, 412);
    let get = b"GET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let first = tag(&web.raw(get));
    let same = format!("If-None-Match: \"1\", W/{first}\r\n");
    assert_eq!(web.ask("GET /k/a", &same, ""), (304, String::new()));
    assert_eq!(web.ask("PUT /k/a", &format!("If-Match: {first}\r\n"), "2").0, 204);
    assert_eq!(web.ask("PUT /k/a", &format!("If-Match: {first}\r\n"), "3").0, 412);
    assert_eq!(web.ask("PUT /k/a", &format!("If-Match: W/{first}\r\n"), "3").0, 412);
    assert_eq!(web.ask("GET /k/a", &same, ""), (200, "2".into()));
    assert_eq!(web.ask("GET /k/a", &format!("If-Match: {first}\r\n"), "").0, 412);
    assert_eq!(web.ask("DELETE /k/a", &format!("If-Match: {first}\r\n"), "").0, 412);
    let second = tag(&web.raw(get));
    assert_eq!(web.ask("DELETE /k/a", &format!("If-Match: {second}\r\n"), "").0, 204);
    assert_eq!(web.ask("PUT /k/t?ttl=100", "", "x").0, 201);
    assert!(matches!(web.door.client().ask("TTL t").as_str(), ":100" | ":99"));
    assert_eq!(web.ask("PUT /k/t?ttl=x", "", "x").0, 400);
    assert_eq!(web.ask("PUT /k/t?tll=1", "", "x").0, 400);
    assert_eq!(web.ask("GET /k/t?db=99", "", "").0, 400);
}

#[test]
fn a_range_is_a_part_of_the_value() {
    let web = Web::open("");
    web.ask("PUT /k/a.txt", "", "0123456789");
    let part = web.raw(b"GET /k/a.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes=2-4\r\n\r\n");
    assert!(
        part.starts_with("HTTP/1.1 206")
            && part.contains("Content-Range: bytes 2-4/10\r\n")
            && part.ends_with("\r\n\r\n234"),
        "{part}"
    );
    assert!(part.contains("Content-Type: text/plain"), "{part}");
    assert_eq!(web.ask("GET /k/a.txt", "Range: bytes=-2\r\n", ""), (206, "89".into()));
    assert_eq!(web.ask("GET /k/a.txt", "Range: bytes=10-\r\n", "").0, 416);
    assert_eq!(
        web.ask("GET /k/a.txt", "Range: bytes=0-1\r\nIf-Range: \"1\"\r\n", ""),
        (200, "0123456789".into())
    );
    let long = "abc".repeat(200_000);
    web.ask("PUT /k/long", "", &long);
    assert_eq!(web.ask("GET /k/long", "Range: bytes=300000-300005\r\n", ""), (206, "abcabc".into()));
    assert_eq!(web.ask("GET /k/long", "", "").1, long);
}

#[test]
fn a_command_replies_resp_at_the_root_and_json_below_js() {
    let web = Web::open("");
    assert_eq!(web.ask("POST /?rpush+list+one+two+three", "", ""), (200, ":3\r\n".into()));
    let list = "*3\r\n$3\r\none\r\n$3\r\ntwo\r\n$5\r\nthree\r\n";
    for path in ["/?lrange+list+0+-1", "/resp?lrange+list+0+-1", "/?lrange+list+0+-1&db=0"] {
        assert_eq!(web.ask(&format!("GET {path}"), "", ""), (200, list.into()), "{path}");
    }
    assert_eq!(web.ask("GET /js?lrange+list+0+-1", "", ""), (200, "[\"one\",\"two\",\"three\"]\n".into()));
    assert_eq!(web.ask("GET /list", "", ""), (200, "[\"one\",\"two\",\"three\"]".into()));
    assert_eq!(web.ask("GET /?get+none", "", ""), (200, "$-1\r\n".into()));
    assert_eq!(web.ask("GET /?get+none&protocol=3", "", ""), (200, "_\r\n".into()));
    assert_eq!(web.ask("GET /?get+none&protocol=4", "", "").0, 400);
    let (status, error) = web.ask("GET /?get+list", "", "");
    assert!(status == 200 && error.starts_with("-WRONGTYPE "), "{status} {error}");
    assert_eq!(web.ask("GET /?del+list", "", "").0, 405);
    assert_eq!(web.ask("POST /", "", "PING\r\nGET none\r\n"), (200, "+PONG\r\n$-1\r\n".into()));
}

#[test]
fn a_store_that_makes_a_key_is_created() {
    let web = Web::open("");
    let mut client = web.door.client();
    let long = "x".repeat(100_000);
    for (number, body) in
        ["short", "a value that takes a record of its own, not a place in a bucket", &long].iter().enumerate()
    {
        for (method, query) in [("PUT", ""), ("POST", ""), ("PUT", "?ttl=100"), ("PUT", "?db=0")] {
            let path = format!("/k/{method}{number}.txt{query}");
            client.ask(&format!("DEL {method}{number}.txt"));
            let line = format!("{method} {path}");
            assert_eq!(web.ask(&line, "", body), (201, String::new()), "{line}");
            assert_eq!(web.ask(&line, "", body), (204, String::new()), "{line}");
            let typed = "Content-Type: text/html\r\n";
            assert_eq!(web.ask(&line, typed, body).0, 204, "{line}");
        }
    }
    // The slow path: a value of another type is replaced, and a client that tracks all keys listens to changes.
    client.ask("RPUSH other a");
    assert_eq!(web.ask("PUT /k/other", "", "x").0, 204);
    client.ask("HELLO 3");
    client.ask("CLIENT TRACKING ON BCAST");
    assert_eq!(web.ask("PUT /k/watched", "", "x").0, 201);
    assert_eq!(web.ask("PUT /k/watched", "", "y").0, 204);
    let created = web.raw(b"PUT /page.html HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n<p>");
    assert!(created.starts_with("HTTP/1.1 201 Created\r\n"), "{created}");
    assert!(created.contains("Content-Length: 0\r\n"), "{created}");
    let page = web.raw(b"GET /page.html HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(page.contains("Content-Type: text/html") && page.ends_with("\r\n\r\n<p>"), "{page}");
}

#[test]
fn the_root_shows_the_index_or_says_where_to_go_on() {
    let web = Web::open("");
    let get = |fields: &str| web.raw(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
    let line = get("");
    assert!(line.starts_with("HTTP/1.1 404 ") && line.contains("Content-Type: text/plain"), "{line}");
    assert!(line.contains("/console") && line.contains("index.html"), "{line}");
    let page = get("Accept: text/html,application/xhtml+xml\r\n");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("Vary: Accept\r\n"), "{page}");
    assert!(page.contains("Content-Security-Policy: default-src 'none'"), "{page}");
    assert!(page.contains("href=\"/console\"") && page.contains("docs/http.md"), "{page}");
    let head = web.raw(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(web.ask("PUT /index.html", "", "<h1>mine</h1>").0, 201);
    for accept in ["", "Accept: text/html\r\n"] {
        let mine = get(accept);
        assert!(mine.starts_with("HTTP/1.1 200 ") && mine.ends_with("<h1>mine</h1>"), "{mine}");
        assert!(mine.contains("Content-Type: text/html") && mine.contains("sandbox"), "{mine}");
    }
    let tag = get("").split("ETag: ").nth(1).and_then(|rest| rest.lines().next()).expect("a tag").to_owned();
    assert!(get(&format!("If-None-Match: {tag}\r\n")).starts_with("HTTP/1.1 304 "));
    assert!(get("Range: bytes=0-3\r\n").ends_with("\r\n\r\n<h1>"));
}

#[test]
fn get_runs_commands_that_only_read() {
    let web = Web::open("");
    assert_eq!(web.ask("POST /js?SET+a%2Fb+some%20value", "", ""), (200, "\"OK\"\n".into()));
    assert_eq!(web.ask("POST /js?set+e+x=y", "", "").0, 200);
    assert_eq!(web.ask("GET /js?get+a%2Fb", "", ""), (200, "\"some value\"\n".into()));
    assert_eq!(web.ask("GET /js?get+a%2Fb&db=1", "", ""), (200, "null\n".into()));
    for command in [
        "set+a+b",
        "del+a",
        "flushall",
        "getdel+a",
        "eval+return+0",
        "config+set+port+1",
        "publish+a+b",
        "shutdown",
    ] {
        assert_eq!(web.ask(&format!("GET /js?{command}"), "", "").0, 405, "{command}");
    }
    for command in [
        "auth+x",
        "select+1",
        "multi",
        "watch+a",
        "subscribe+a",
        "monitor",
        "hello+3",
        "client+reply+off",
        "client+tracking+on",
        "quit",
        "reset",
    ] {
        assert_eq!(web.ask(&format!("POST /js?{command}"), "", "").0, 400, "{command}");
    }
    assert_eq!(web.ask("GET /js?nonsense", "", "").0, 400);
    assert_eq!(web.ask("GET /js?lrange+a%2Fb+0+1", "", "").0, 409);
    assert_eq!(web.ask("GET /js?get+%2", "", "").0, 400);
    assert_eq!(web.ask("PUT /js?get+a", "", "").0, 405);
    assert_eq!(web.ask("GET /resp", "", "").0, 400);
    assert_eq!(web.ask("GET /console/x", "", "").0, 404);
    let page = web.raw(b"GET /console HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(
        page.contains("Content-Security-Policy: default-src 'none'; script-src 'self';")
            && page.ends_with("</html>\n"),
        "{page}"
    );
    assert_eq!(web.ask("GET /console/main.js", "", "").0, 200);
    assert_eq!(web.ask("POST /console", "", "x").0, 405);
}

#[test]
fn a_body_has_one_command_or_many() {
    let web = Web::open("");
    assert_eq!(web.ask("POST /js", "", r#"["SET","a",{"base64":"/w=="}]"#), (200, "\"OK\"\n".into()));
    let many = r#"[["GET","a"],["INCR","n"],["INCR","a"],["NONSENSE"]]"#;
    let (status, replies) = web.ask("POST /js", "", many);
    assert_eq!(status, 200);
    assert!(
        replies
            .starts_with(r#"[{"base64":"/w=="},1,{"error":"ERR value is not an integer or out of range"},{"error":"ERR unknown command"#),
        "{replies}"
    );
    assert_eq!(web.ask("POST /js?atomic", "", r#"[["INCR","n"],["INCR","n"]]"#), (200, "[2,3]\n".into()));
    assert_eq!(web.ask("POST /js?atomic", "", r#"["INCR","n"]"#), (200, "4\n".into()));
    assert_eq!(web.ask("POST /js?atomic", "", r#"[["INCR","n"],["NONSENSE"]]"#).0, 400);
    assert_eq!(web.ask("POST /js", "", "[]").0, 400);
    assert_eq!(web.ask("POST /js", "", "[[]]").0, 400);
    assert_eq!(web.ask("POST /js", "", "{}").0, 400);
    assert_eq!(web.ask("POST /js", "", r#"[["GET","n"],["MULTI"]]"#).0, 400);
    assert_eq!(web.ask("GET /k/n", "", "").1, "4");
    assert_eq!(
        web.ask("POST /resp", "", "*2\r\n$3\r\nGET\r\n$1\r\nn\r\nPING\r\n"),
        (200, "$1\r\n4\r\n+PONG\r\n".into())
    );
    assert_eq!(web.ask("POST /resp?protocol=3", "", "GET none\r\n"), (200, "_\r\n".into()));
    assert_eq!(web.ask("POST /resp", "", "*1\r\n$9").0, 400);
    assert_eq!(web.ask("POST /resp", "", &"a\n".repeat(600_000)).0, 413);
    // A hundred commands are more than one batch.
    let hundred = format!("[{}]", vec![r#"["INCR","n"]"#; 100].join(","));
    assert!(web.ask("POST /js", "", &hundred).1.ends_with(",103,104]\n"));
    // A script runs as it does for clients of RESP, and scripts in a transaction, too.
    assert_eq!(
        web.ask("POST /js", "", r#"["EVAL","return redis.call('GET', KEYS[1])",1,"n"]"#).1,
        "\"104\"\n"
    );
    assert_eq!(web.ask("POST /js?atomic", "", r#"[["EVAL","return 1",0],["PING"]]"#).1, "[1,\"PONG\"]\n");
}

#[test]
fn a_blocking_call_is_a_long_poll() {
    let web = Web::open("");
    let mut client = web.door.client();
    let mut waiting = web.connect();
    waiting
        .write_all(
            b"POST /js?BLPOP+q+10 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\nGET /k/n HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )
        .expect("written");
    std::thread::sleep(Duration::from_millis(50));
    client.ask("RPUSH q x");
    waiting.shutdown(Shutdown::Write).expect("shut down");
    let responses = read_all(waiting);
    assert_eq!(statuses(&responses), [200, 404]);
    assert!(responses.contains("[\"q\",\"x\"]"), "{responses}");
}

#[test]
fn a_message_is_published_by_post() {
    let web = Web::open("");
    let mut client = web.door.client();
    client.ask("SUBSCRIBE news");
    assert_eq!(web.ask("POST /pub?subject=news", "", "hello"), (200, "1\n".into()));
    assert_eq!(client.reply(), "*[$message $news $hello]");
    assert_eq!(web.ask("POST /pub", "", "hello").0, 400);
    assert_eq!(web.ask("GET /pub?subject=news", "", "").0, 405);
}

#[test]
fn metrics_and_health_are_there() {
    let web = Web::open("");
    web.ask("PUT /k/a", "", "x");
    let plain = web.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(plain.contains("Content-Type: text/plain; version=0.0.4"), "{plain}");
    let count = format!("polder_commands_total{{process=\"{}\",command=\"set\"}} 1\n", std::process::id());
    assert!(plain.contains("# TYPE polder_commands_total counter\n") && plain.contains(&count), "{plain}");
    assert!(
        plain.contains("polder_keys{segment=") && plain.contains("polder_command_duration_seconds_bucket"),
        "{plain}"
    );
    let open = web.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n");
    assert!(open.contains("# TYPE polder_commands counter\n") && open.ends_with("# EOF\n"), "{open}");
    assert_eq!(web.ask("GET /healthz", "", ""), (200, "ok\n".into()));
    assert_eq!(web.ask("GET /readyz", "", ""), (200, "ok\n".into()));
    assert_eq!(web.ask("POST /metrics", "Origin: https://evil.example\r\n", "").0, 403);
    let locked = Web::open("--requirepass geheim");
    assert_eq!(locked.ask("GET /metrics", "", "").0, 401);
    assert_eq!(locked.ask("GET /healthz", "", "").0, 200);
}

#[test]
fn the_dashboard_and_the_alerts_name_only_metrics_that_exist() {
    let web = Web::open("");
    web.ask("GET /js?nonsense", "", "");
    web.ask("PUT /k/a", "", "x");
    let (_, metrics) = web.ask("GET /metrics", "", "");
    let there: Vec<&str> = metrics.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let texts = [
        include_str!("../../../contrib/grafana-dashboard.json"),
        include_str!("../../../contrib/prometheus-alerts.yml"),
    ];
    for text in texts {
        let names = text
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .filter(|word| word.starts_with("polder_"));
        let mut count = 0;
        for name in names {
            assert!(there.contains(&name), "no metric is called {name}");
            count += 1;
        }
        assert!(count > 5, "{count}");
    }
}

#[test]
fn a_content_type_is_kept_with_its_value() {
    let web = Web::open("");
    let kind = |path: &str| {
        let response = web.raw(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n").as_bytes(),
        );
        let field = |name: &str| {
            response.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
        };
        (field("Content-Type: "), response.contains("sandbox"), field("Content-Encoding: "))
    };
    let put = |path: &str, kind: &str| {
        let (status, body) = web.ask(&format!("PUT {path}"), &format!("Content-Type: {kind}\r\n"), "value");
        assert!(matches!(status, 201 | 204), "{status} {body}");
    };
    let mut client = web.door.client();
    put("/k/a", "text/css");
    assert_eq!(kind("/k/a"), ("text/css".into(), false, String::new()));
    assert!(client.ask("ITEM.GET a").contains("$type $text/css"));
    put("/k/page", "text/html; charset=latin1");
    assert_eq!(kind("/k/page"), ("text/html; charset=latin1".into(), true, String::new()));
    put("/k/b.json?ttl=100", "application/ld+json");
    assert_eq!(kind("/k/b.json"), ("application/ld+json".into(), true, String::new()));
    assert_eq!((client.ask("TTL b.json"), client.ask("RENAME b.json c")), (":100".into(), "+OK".into()));
    assert_eq!(kind("/k/c").0, "application/ld+json");
    // What says nothing is not stored.
    for (path, kind) in [("/k/d.json", "application/json"), ("/k/d", "application/x-www-form-urlencoded")] {
        put(path, kind);
        assert!(!client.ask(&format!("ITEM.GET {}", &path[3..])).contains("$type"), "{path}");
    }
    assert_eq!(kind("/k/d.json").0, "application/json");
    // A new value without a type has none.
    assert_eq!((web.ask("PUT /k/a", "", "x").0, kind("/k/a").0), (204, "application/octet-stream".into()));
    put("/k/page.html.gz", "text/plain");
    assert_eq!(kind("/k/page.html.gz"), ("text/plain".into(), false, "gzip".into()));
    // A text that is no content type is not sent.
    assert!(
        client
            .ask_words(&["ITEM.SET", "evil", "v", "TYPE", "text/css\r\nSet-Cookie: a=b"])
            .starts_with("*[+STORED")
    );
    assert_eq!(kind("/k/evil").0, "application/octet-stream");
    let long = format!("Content-Type: text/{}\r\n", "x".repeat(300));
    assert_eq!(web.ask("PUT /k/a", &long, "x").0, 400);
}

#[test]
fn very_many_calls_of_one_body_are_made_once_each() {
    let web = Web::open("");
    let calls =
        (0..5000).map(|number| format!(r#"["INCRBY","sum","{number}"]"#)).collect::<Vec<_>>().join(",");
    let (status, body) = web.ask("POST /js", "", &format!("[{calls}]"));
    assert_eq!(status, 200);
    let sums = (0..5000u64)
        .scan(0, |sum, number| {
            Some({
                *sum += number;
                sum.to_string()
            })
        })
        .collect::<Vec<_>>();
    assert_eq!(body, format!("[{}]\n", sums.join(",")));
    // A request behind it on the same connection, and a body that comes in chunks.
    let list = r#"[["GET","sum"],["SET","x","1"],["GET","x"]]"#;
    let chunked = format!(
        "POST /js HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{list}\r\n0\r\n\r\n",
        list.len()
    );
    let next = "GET /k/x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let said = web.raw(format!("{chunked}{next}").as_bytes());
    assert_eq!(statuses(&said), [200, 200], "{said}");
    assert!(said.contains(r#"["12497500","OK","1"]"#), "{said}");
}

#[test]
fn the_replies_of_a_list_have_the_limit_of_a_client() {
    let web = Web::open("");
    let mut client = web.door.client();
    assert_eq!(client.ask(&format!("SET big {}", "x".repeat(30_000))), "+OK");
    assert_eq!(
        client.ask_words(&["CONFIG", "SET", "client-output-buffer-limit", "normal 200000 0 0"]),
        "+OK"
    );
    let list = |count: usize| format!("[{}]", vec![r#"["GET","big"]"#; count].join(","));
    assert_eq!(web.ask("POST /js", "", &list(5)).0, 200);
    let (status, body) = web.ask("POST /js", "", &list(300));
    assert_eq!(status, 507, "{body}");
    assert!(body.contains("of the calls have been made"), "{body}");
    let (status, body) = web.ask("POST /js?atomic", "", &list(10));
    assert_eq!(status, 507, "{body}");
    assert!(body.contains("all calls have been made"), "{body}");
}
