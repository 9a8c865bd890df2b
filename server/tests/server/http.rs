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
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        parts(&self.raw(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n{body}").as_bytes()))
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
    responses.match_indices("HTTP/1.1 ").filter_map(|(at, _)| responses.get(at + 9..at + 12)?.parse().ok()).collect()
}

#[test]
fn a_key_is_written_read_and_removed_by_its_path() {
    let web = Web::open("");
    for path in ["/k/foo", "/foo", "/k/a%2Fb%20%00", "/k/", "/k/js", "/k/x/y/z"] {
        assert_eq!(web.ask(&format!("GET {path}"), "", "").0, 404, "{path}");
        assert_eq!(web.ask(&format!("PUT {path}"), "", "bar"), (204, String::new()), "{path}");
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
    assert!(statuses[..200].chunks(2).all(|pair| pair == [204, 200]));
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
        assert_eq!(statuses(&responses), [204, 200, 404], "split at {at}: {responses}");
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
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400),
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
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
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
    ("PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;a\rb\r\nx\r\n0\r\n\r\n", 400),
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
        let responses = web.raw(format!("{request}GET /k/secret HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
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
    for fields in
        ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n", "Origin: http://localhost:1\r\n"]
    {
        assert_eq!(web.ask("PUT /k/a", fields, "x").0, 403, "{fields}");
        assert_eq!(web.ask("DELETE /k/a", fields, "").0, 403, "{fields}");
    }
    assert_eq!(web.ask("GET /k/a", "", "").0, 404, "nothing was written");
    assert_eq!(web.ask("PUT /k/a", "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n", "x").0, 204);
    let guest = web.raw(b"GET /k/a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\r\n");
    assert!(guest.starts_with("HTTP/1.1 200") && guest.contains("Access-Control-Allow-Origin: https://app.example\r\n"), "{guest}");
    let asked = "Access-Control-Request-Method: PUT\r\n";
    let allowed = web.raw(format!("OPTIONS /k/a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n{asked}\r\n").as_bytes());
    assert!(allowed.starts_with("HTTP/1.1 204") && allowed.contains("Access-Control-Allow-Methods"), "{allowed}");
    assert_eq!(web.ask("OPTIONS /k/a", &format!("Origin: https://evil.example\r\n{asked}"), "").0, 403);
}

#[test]
fn each_request_logs_in_for_itself() {
    let web = Web::open("--requirepass geheim");
    let mut client = web.door.client();
    client.ask("AUTH geheim");
    client.ask("ACL SETUSER reader on >pass ~* +get");
    let basic = |words: &str| format!("Authorization: Basic {words}\r\n");
    let (default, reader) = (basic("ZGVmYXVsdDpnZWhlaW0="), basic("cmVhZGVyOnBhc3M="));
    let missing = web.raw(b"GET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(missing.starts_with("HTTP/1.1 401") && missing.contains("WWW-Authenticate: Basic"), "{missing}");
    assert_eq!(web.ask("PUT /k/a", &default, "x").0, 204);
    assert_eq!(web.ask("PUT /k/a", "Authorization: Bearer geheim\r\n", "y").0, 204);
    assert_eq!(web.ask("GET /k/a", &reader, ""), (200, "y".into()));
    assert_eq!(web.ask("PUT /k/a", &reader, "z").0, 403);
    for wrong in
        [basic("cmVhZGVyOndyb25n"), basic("!"), basic("eA=="), "Authorization: Bearer x\r\n".into(), "Authorization: Digest x\r\n".into()]
    {
        assert_eq!(web.ask("GET /k/a", &wrong, "").0, 401, "{wrong}");
    }
    // The next request of the same connection is nobody's again.
    let two = format!("GET /k/a HTTP/1.1\r\nHost: localhost\r\n{default}\r\nGET /k/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(statuses(&web.raw(two.as_bytes())), [200, 401]);
    // A long body is taken from a known client only.
    let body = "x".repeat(1 << 20);
    assert_eq!(web.ask("PUT /k/long", &default, &body).0, 204);
    assert_ne!(web.ask("PUT /k/long", "", &body).0, 204);
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
    assert_eq!(statuses(&read_all(stream)), [204]);
    assert_eq!(web.ask("GET /k/a", "", ""), (200, "abc".into()));
    // It is not asked for a body that nobody will take.
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
