//! Clients of NATS: the table of replies beside a real nats-server, messages between all doors and processes, and what a death leaves.
use std::collections::BTreeSet;
use std::path::Path;

use polder_testbase::until;
use polder_testkit::nats::{Connection, Event, Message, OPTIONS, nats_server};
use polder_testkit::process::{Server, free_port, polder};
use polder_testkit::resp;
use polder_testkit::scratch::fresh_name;

const QUIET: &str = r#"{"verbose":false,"pedantic":false}"#;
const HEADERS: &str = OPTIONS;
const PEDANTIC: &str = r#"{"verbose":false,"pedantic":true}"#;
const NO_ECHO: &str =
    r#"{"verbose":false,"pedantic":false,"echo":false,"headers":true,"no_responders":true}"#;

/// Inputs and replies, as nats-server 2.15 gives them: a name, the options of CONNECT, the bytes behind it, and the reply. Where no
/// PONG ends the reply, the connection has ended.
const REPLIES: &[(&str, &str, &str, &str)] = &[
    (
        "no connect, verbose",
        "",
        "PING\r\nSUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n",
        "PONG\r\n+OK\r\n+OK\r\nMSG a 1 2\r\nhi\r\nPONG\r\n",
    ),
    (
        "fields missing",
        "",
        "CONNECT {}\r\nPUB a..b 0\r\n\r\nPING\r\n",
        "+OK\r\n-ERR 'Invalid Publish Subject'\r\n+OK\r\nPONG\r\n",
    ),
    (
        "lowercase, tabs, bare LF",
        "",
        "connect {\"verbose\":false}\nsub\ta\t1\npub\ta\t2\nhi\r\nping\nPING\r\n",
        "MSG a 1 2\r\nhi\r\nPONG\r\nPONG\r\n",
    ),
    ("payload then bare LF", QUIET, "PUB a 2\r\nhi\nPING\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
    ("HPUB 0", HEADERS, "SUB s 1\r\nHPUB s r 0 5\r\nhello\r\nPING\r\n", "MSG s 1 r 5\r\nhello\r\nPONG\r\n"),
    (
        "HPUB",
        HEADERS,
        "SUB s 1\r\nHPUB s 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPING\r\n",
        "HMSG s 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPONG\r\n",
    ),
    ("HPUB without headers", QUIET, "HPUB s 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPING\r\n", ""),
    (
        "sid in use",
        QUIET,
        "SUB a 1\r\nSUB b 1\r\nPUB a 1\r\nx\r\nPUB b 1\r\ny\r\nPING\r\n",
        "MSG a 1 1\r\nx\r\nPONG\r\n",
    ),
    (
        "bad SUB",
        QUIET,
        "SUB a..b 1\r\nSUB a.>.b 2\r\nPING\r\n",
        "-ERR 'Invalid Subject'\r\n-ERR 'Invalid Subject'\r\nPONG\r\n",
    ),
    ("bad SUB verbose", "", "SUB a..b 1\r\nPING\r\n", "-ERR 'Invalid Subject'\r\nPONG\r\n"),
    ("bad PUB not pedantic", QUIET, "PUB a..b 1\r\nx\r\nPUB a.* 1\r\ny\r\nPING\r\n", "PONG\r\n"),
    (
        "bad PUB pedantic",
        PEDANTIC,
        "PUB a..b 1\r\nx\r\nPUB a.* 1\r\ny\r\nPING\r\n",
        "-ERR 'Invalid Publish Subject'\r\n-ERR 'Invalid Publish Subject'\r\nPONG\r\n",
    ),
    ("unknown verb", QUIET, "FOO\r\nPING\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
    (
        "unknown verb after ping",
        QUIET,
        "PING\r\nFOO\r\nPING\r\n",
        "PONG\r\n-ERR 'Unknown Protocol Operation'\r\n",
    ),
    ("empty line", QUIET, "\r\nPING\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
    ("PUB without args", QUIET, "PUB\r\nPING\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
    ("PUB one arg", QUIET, "PUB a\r\nPING\r\n", ""),
    ("PUB bad size", QUIET, "PUB a x\r\nPING\r\n", ""),
    ("PUB neg size", QUIET, "PUB a -1\r\nPING\r\n", ""),
    ("SUB one arg", QUIET, "SUB a\r\nPING\r\n", ""),
    ("SUB 4 args", QUIET, "SUB a b c d\r\nPING\r\n", ""),
    ("UNSUB none", QUIET, "UNSUB\r\nPING\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
    ("UNSUB unknown", "", "UNSUB 7\r\nPING\r\n", "+OK\r\nPONG\r\n"),
    ("UNSUB bad max", QUIET, "SUB a 1\r\nUNSUB 1 x\r\nPUB a 1\r\nx\r\nPING\r\n", "PONG\r\n"),
    ("HPUB bad lengths", HEADERS, "HPUB a 4 3\r\nabc\r\nPING\r\n", ""),
    ("connect no json", "", "CONNECT x\r\nPING\r\n", ""),
    ("connect empty", "", "CONNECT\r\nPING\r\n", ""),
    (
        "no responders without headers",
        "",
        "CONNECT {\"verbose\":false,\"no_responders\":true}\r\nPING\r\n",
        "-ERR 'no responders requires headers support'\r\n",
    ),
    (
        "503",
        HEADERS,
        "SUB _INBOX.x.* 9\r\nPUB none _INBOX.x.1 2\r\nhi\r\nPING\r\n",
        "HMSG _INBOX.x.1 9 36 36\r\nNATS/1.0 503\r\nNats-Subject: none\r\n\r\n\r\nPONG\r\n",
    ),
    ("503 without a sub", HEADERS, "PUB none _INBOX.x.1 2\r\nhi\r\nPING\r\n", "PONG\r\n"),
    (
        "503 own under echo false",
        NO_ECHO,
        "SUB _INBOX.x.* 9\r\nSUB svc 1\r\nPUB svc _INBOX.x.1 2\r\nhi\r\nPING\r\n",
        "HMSG _INBOX.x.1 9 35 35\r\nNATS/1.0 503\r\nNats-Subject: svc\r\n\r\n\r\nPONG\r\n",
    ),
    (
        "own under echo",
        HEADERS,
        "SUB _INBOX.x.* 9\r\nSUB svc 1\r\nPUB svc _INBOX.x.1 2\r\nhi\r\nPING\r\n",
        "MSG svc 1 _INBOX.x.1 2\r\nhi\r\nPONG\r\n",
    ),
    ("echo false", NO_ECHO, "SUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n", "PONG\r\n"),
    (
        "overlapping",
        QUIET,
        "SUB > 1\r\nSUB a.* 2\r\nSUB a.b 3\r\nSUB a.b 4\r\nPING\r\nPUB a.b 1\r\nx\r\nPUB a.b.c 1\r\ny\r\nPUB a 1\r\nz\r\nPING\r\n",
        "PONG\r\nMSG a.b 1 1\r\nx\r\nMSG a.b 3 1\r\nx\r\nMSG a.b 4 1\r\nx\r\nMSG a.b 2 1\r\nx\r\nMSG a.b.c 1 1\r\ny\r\nMSG a 1 1\r\nz\r\nPONG\r\n",
    ),
    (
        "wildcards",
        QUIET,
        "SUB a.*.c 1\r\nSUB *.b.> 2\r\nPING\r\nPUB a.b.c 1\r\nx\r\nPUB a.b 1\r\nx\r\nPUB x.b.q.r 1\r\nx\r\nPING\r\n",
        "PONG\r\nMSG a.b.c 2 1\r\nx\r\nMSG a.b.c 1 1\r\nx\r\nMSG x.b.q.r 2 1\r\nx\r\nPONG\r\n",
    ),
    (
        "unsub max",
        QUIET,
        "SUB a 1\r\nUNSUB 1 2\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nPUB a 1\r\n3\r\nPING\r\n",
        "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nPONG\r\n",
    ),
    (
        "unsub max after delivery",
        QUIET,
        "SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nUNSUB 1 3\r\nPUB a 1\r\n3\r\nPUB a 1\r\n4\r\nPING\r\n",
        "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nMSG a 1 1\r\n3\r\nPONG\r\n",
    ),
    (
        "unsub max already",
        QUIET,
        "SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nUNSUB 1 2\r\nPUB a 1\r\n3\r\nPING\r\n",
        "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nPONG\r\n",
    ),
    (
        "sid again after max",
        QUIET,
        "SUB a 1\r\nUNSUB 1 1\r\nPUB a 1\r\n1\r\nSUB a 1\r\nPUB a 1\r\n2\r\nPING\r\n",
        "MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nPONG\r\n",
    ),
    ("drain", QUIET, "SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\nPING\r\n", "MSG a 1 1\r\nx\r\nPONG\r\n"),
    (
        "queue of one",
        QUIET,
        "SUB a q 1\r\nSUB a.* q 2\r\nSUB > q 3\r\nPING\r\nPUB a.b 1\r\nx\r\nPING\r\n",
        "PONG\r\nMSG a.b 2 1\r\nx\r\nPONG\r\n",
    ),
    (
        "queue and plain",
        QUIET,
        "SUB a q 1\r\nSUB a 2\r\nPING\r\nPUB a 1\r\nx\r\nPING\r\n",
        "PONG\r\nMSG a 2 1\r\nx\r\nMSG a 1 1\r\nx\r\nPONG\r\n",
    ),
    (
        "two queues",
        QUIET,
        "SUB a q 1\r\nSUB a r 2\r\nPING\r\nPUB a 1\r\nx\r\nPING\r\n",
        "PONG\r\nMSG a 2 1\r\nx\r\nMSG a 1 1\r\nx\r\nPONG\r\n",
    ),
    ("reply is passed", QUIET, "SUB a 1\r\nPUB a r.x 1\r\nx\r\nPING\r\n", "MSG a 1 r.x 1\r\nx\r\nPONG\r\n"),
    ("pong", QUIET, "PONG\r\nPING\r\n", "PONG\r\n"),
    ("+OK from a client", QUIET, "+OK\r\nPING\r\n", "PONG\r\n"),
    ("-ERR from a client", QUIET, "-ERR x\r\nPING\r\n", ""),
    ("INFO from a client", QUIET, "INFO {}\r\nPING\r\n", "PONG\r\n"),
    ("PINGX", QUIET, "PINGX\r\nPING\r\n", "PONG\r\nPONG\r\n"),
    ("empty payload", QUIET, "SUB a 1\r\nPUB a 0\r\n\r\nPING\r\n", "MSG a 1 0\r\n\r\nPONG\r\n"),
    ("two connects", QUIET, "CONNECT {\"verbose\":true}\r\nPING\r\n", "+OK\r\nPONG\r\n"),
    ("http", "", "GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
];

/// A server on a port for NATS, on a segment of its own or one that others use, too.
struct Polder {
    server: Server,
    port: u16,
}

impl Polder {
    fn start(segment: &str, more: &[&str]) -> Polder {
        let port = free_port().expect("a free port");
        let text = port.to_string();
        let flags = [&["--threads", "2", "--nats-port", &text][..], more].concat();
        Polder { server: Server::start_polder(&polder(), segment, &flags).expect("a server"), port }
    }

    fn nats(&self) -> Connection {
        Connection::open(self.port, OPTIONS).expect("a connection")
    }

    fn resp(&self) -> resp::Connection {
        resp::Connection::open(&self.server.address()).expect("a connection")
    }
}

/// A segment that goes with its test.
struct Segment(String);

impl Segment {
    fn new() -> Segment {
        Segment(fresh_name())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = polder_engine::Memory::remove(&self.0);
    }
}

/// Sends one row of the table, and shows the reply as it is written there. Between two PONGs the order of messages means nothing.
fn reply(port: u16, options: &str, input: &str) -> Vec<String> {
    let mut connection = Connection::bare(port).expect("a connection");
    let connect = if options.is_empty() { String::new() } else { format!("CONNECT {options}\r\n") };
    connection.send(&format!("{connect}{input}")).expect("sent");
    shown(connection.all(input.to_uppercase().matches("PING").count()).expect("events"))
}

/// Each event as a text; between two PONGs in the order of the texts.
fn shown(events: Vec<Event>) -> Vec<String> {
    let text = |event| match event {
        Event::Message(Message { subject, sid, reply, headers, payload }) => {
            Some(format!("{subject} {sid} {reply} {headers:?} {payload:?}"))
        }
        Event::Line(line) => Some(line),
        Event::End => None,
    };
    let mut shown: Vec<String> = events.into_iter().filter_map(text).collect();
    shown.split_mut(|event| event == "PONG" || event.starts_with('+')).for_each(<[String]>::sort);
    shown
}

/// The reply of the table, read by the same client from a peer that says just this.
fn expected(text: &str) -> Vec<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let text = format!("INFO {{}}\r\n{text}");
    let speaker = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        std::io::Write::write_all(&mut socket, text.as_bytes()).expect("sent");
    });
    let mut connection = Connection::bare(port).expect("a connection");
    speaker.join().expect("said");
    shown(connection.all(usize::MAX).expect("events"))
}

#[test]
fn replies_are_those_of_nats_server() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &[]);
    let peer = nats_server().map(|program| {
        let server =
            Server::start(Path::new(&program), &["-a", "127.0.0.1", "-p", "{port}"]).expect("nats-server");
        (server.port(), server)
    });
    if peer.is_none() {
        println!(
            "no nats-server on the path or in POLDER_NATS_SERVER: only the recorded replies are compared"
        );
    }
    for (name, options, input, recorded) in REPLIES {
        let recorded = expected(recorded);
        let is_drawn = name.contains("queue");
        if let Some((port, _)) = &peer {
            let said = reply(*port, options, input);
            assert!(is_drawn || said == recorded, "nats-server itself: {name}: {said:?} for {recorded:?}");
        }
        let said = reply(polder.port, options, input);
        if is_drawn {
            assert_eq!(said.len(), recorded.len(), "{name}: {said:?}");
        } else {
            assert_eq!(said, recorded, "{name}");
        }
    }
}

#[test]
fn limits_end_a_connection_with_the_words_of_nats_server() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &["--nats-max-payload", "2048"]);
    assert!(Connection::bare(polder.port).expect("a connection").info.contains("\"max_payload\":2048"));
    for (input, error) in [
        (format!("SUB {} 1\r\n", "x".repeat(5000)), "maximum control line exceeded"),
        (format!("PUB {}", "x".repeat(5000)), "maximum control line exceeded"),
        ("PUB a 2049\r\n".to_owned(), "Maximum Payload Violation"),
        ("HPUB a 12 999999999\r\n".to_owned(), "Maximum Payload Violation"),
    ] {
        let mut connection = polder.nats();
        connection.send(&input).expect("sent");
        assert_eq!(connection.event().expect("an error"), Event::Line(format!("-ERR '{error}'")));
        assert_eq!(connection.event().expect("the end"), Event::End);
    }
    let mut connection = polder.nats();
    connection.send(&format!("SUB a 1\r\nPUB a 2048\r\n{}\r\n", "x".repeat(2048))).expect("sent");
    assert_eq!(connection.settle().expect("messages")[0].payload.len(), 2048);
}

#[test]
fn messages_cross_all_doors_and_processes() {
    let segment = Segment::new();
    let (one, other) = (Polder::start(&segment.0, &[]), Polder::start(&segment.0, &[]));
    let mut listener = other.nats();
    listener.send("SUB orders.*.new 1\r\nSUB orders.> workers 2\r\n").expect("sent");
    assert!(listener.settle().expect("no message").is_empty());
    let mut redis = one.resp();
    redis.call(&["SUBSCRIBE", "orders.eu.new"]).expect("subscribed");
    let mut subject = one.resp();
    subject.call(&["SUBJ.SUB", "*.eu.*", "SID", "mine"]).expect("subscribed");
    let mut caller = one.resp();
    assert_eq!(
        caller.call(&["PUBLISH", "orders.eu.new", "from redis"]).expect("a reply").shown().trim(),
        "(integer) 4"
    );
    let mut publisher = one.nats();
    publisher.send("PUB orders.eu.new replies.1 9\r\nfrom nats\r\nHPUB orders.eu.new 18 22\r\nNATS/1.0\r\nA: b\r\n\r\nhead\r\n").expect("sent");
    publisher.settle().expect("sent");
    for (payload, reply, headers) in
        [("from redis", "", ""), ("from nats", "replies.1", ""), ("head", "", "NATS/1.0\r\nA: b\r\n\r\n")]
    {
        let mut sids = BTreeSet::new();
        for _ in 0..2 {
            let message = listener.message().expect("a message");
            assert_eq!(
                (&message.payload[..], &message.reply[..], &message.headers[..]),
                (payload, reply, headers)
            );
            sids.insert(message.sid);
        }
        assert_eq!(sids, BTreeSet::from(["1".to_owned(), "2".to_owned()]), "once for each subscription");
        let shown = redis.receive().expect("a message").shown();
        assert!(shown.contains("orders.eu.new") && shown.contains(payload), "{shown}");
        let shown = subject.receive().expect("a message").shown();
        assert!(
            shown.contains("subj.message") && shown.contains("mine") && shown.contains(payload),
            "{shown}"
        );
    }
}

#[test]
fn a_request_has_its_reply_or_is_told_that_none_comes() {
    let segment = Segment::new();
    let (one, other) = (Polder::start(&segment.0, &[]), Polder::start(&segment.0, &[]));
    let (mut service, mut client) = (other.nats(), one.nats());
    client.send("SUB _INBOX.me.* 1\r\nPUB svc _INBOX.me.1 2\r\nhi\r\n").expect("sent");
    let message = client.message().expect("a status");
    assert_eq!(message.headers, "NATS/1.0 503\r\nNats-Subject: svc\r\n\r\n");
    service.send("SUB svc q 1\r\n").expect("sent");
    service.settle().expect("subscribed");
    for number in 2..100 {
        client.send(&format!("PUB svc _INBOX.me.{number} 2\r\nhi\r\n")).expect("sent");
        let request = service.message().expect("a request");
        service.send(&format!("PUB {} 5\r\nthere\r\n", request.reply)).expect("sent");
        let reply = client.message().expect("a reply");
        assert_eq!((reply.subject, &reply.payload[..]), (format!("_INBOX.me.{number}"), "there"));
    }
}

#[test]
fn each_message_reaches_one_member_of_a_queue_whichever_process_serves_it() {
    const MESSAGES: usize = 2000;
    let segment = Segment::new();
    let servers = [Polder::start(&segment.0, &[]), Polder::start(&segment.0, &[])];
    let mut members: Vec<Connection> = (0..6).map(|number| servers[number % 2].nats()).collect();
    for (number, member) in members.iter_mut().enumerate() {
        member
            .send(&format!("SUB {} q {number}\r\n", ["work.*", "work.a", "work.>"][number % 3]))
            .expect("sent");
        member.settle().expect("subscribed");
    }
    let mut publisher = servers[0].nats();
    for number in 0..MESSAGES {
        let text = number.to_string();
        publisher.send(&format!("PUB work.a {}\r\n{text}\r\n", text.len())).expect("sent");
    }
    publisher.settle().expect("sent");
    let mut heard = Vec::new();
    for member in &mut members {
        let own: Vec<usize> = member
            .settle()
            .expect("messages")
            .into_iter()
            .map(|message| message.payload.parse().expect("a number"))
            .collect();
        assert!(own.is_sorted(), "S1: in the order of their commits");
        assert!(own.len() > MESSAGES / 12, "each member has its share: {}", own.len());
        heard.extend(own);
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..MESSAGES).collect::<Vec<_>>());
}

#[test]
fn a_listener_hears_all_that_is_published_after_its_pong_whichever_server_dies() {
    let segment = Segment::new();
    let one = Polder::start(&segment.0, &[]);
    for round in 0..10 {
        let mut doomed = Polder::start(&segment.0, &[]);
        let (mut listener, mut lost) = (one.nats(), doomed.nats());
        lost.send("SUB a.* 1\r\nSUB b.> q 2\r\n").expect("sent");
        lost.settle().expect("subscribed");
        listener.send("SUB a.* 1\r\nSUB a.x 2\r\nSUB b.> q 3\r\n").expect("sent");
        listener.settle().expect("subscribed");
        let mut publisher = doomed.nats();
        for number in 0..200 {
            if publisher.send(&format!("PUB a.x 3\r\n{number:03}\r\n")).is_err() {
                break;
            }
            if number == round * 20 {
                doomed.server.kill();
            }
        }
        // A publish that begins after the death: each message of a queue goes to a living member.
        let mut survivor = one.nats();
        survivor.send("PUB a.x 3\r\nend\r\n").expect("sent");
        (0..20).for_each(|_| survivor.send("PUB b.c 1\r\nq\r\n").expect("sent"));
        survivor.settle().expect("sent");
        let heard = listener.settle().expect("messages");
        for sid in ["1", "2"] {
            let own: Vec<&str> = heard
                .iter()
                .filter(|message| message.sid == sid)
                .map(|message| &message.payload[..])
                .collect();
            assert_eq!(own.last(), Some(&"end"), "S3");
            let numbers: Vec<usize> =
                own[..own.len() - 1].iter().map(|text| text.parse().expect("a number")).collect();
            assert_eq!(
                numbers,
                (0..numbers.len()).collect::<Vec<_>>(),
                "S1 and S2: in order, none twice, none missing"
            );
        }
        assert_eq!(
            heard.iter().filter(|message| message.sid == "3").count(),
            20,
            "the queue's living member"
        );
    }
    let mut caller = one.resp();
    until("the dead are swept", || caller.call(&["SUBJ.LIST"]).expect("a reply").shown().contains("empty"));
}

#[test]
fn a_login_is_asked_where_users_have_passwords() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &["--requirepass", "secret"]);
    let refused = |options: &str, input: &str| {
        let mut connection = Connection::bare(polder.port).expect("a connection");
        assert!(connection.info.contains("\"auth_required\":true"), "{}", connection.info);
        connection.send(&format!("{options}{input}")).expect("sent");
        assert_eq!(
            connection.all(1).expect("events"),
            [Event::Line("-ERR 'Authorization Violation'".into()), Event::End]
        );
    };
    refused("", "PING\r\n");
    refused("CONNECT {\"verbose\":false}\r\n", "PING\r\n");
    refused("CONNECT {\"verbose\":false,\"user\":\"default\",\"pass\":\"wrong\"}\r\n", "PING\r\n");
    refused("CONNECT {\"verbose\":false,\"auth_token\":\"wrong\"}\r\n", "PING\r\n");
    let options = |words: &str| format!("{{\"verbose\":false,\"pedantic\":false,{words}}}");
    let mut token =
        Connection::open(polder.port, &options("\"auth_token\":\"secret\"")).expect("a connection");
    token.settle().expect("logged in");
    let mut redis = polder.resp();
    redis.call(&["AUTH", "secret"]).expect("logged in");
    redis
        .call(&["ACL", "SETUSER", "bob", "on", ">p\"w", "+@all", "resetchannels", "&orders.*"])
        .expect("a user");
    let bob = options("\"user\":\"bob\",\"pass\":\"p\\\"w\"");
    let mut connection = Connection::open(polder.port, &bob).expect("a connection");
    connection
        .send("SUB orders.> 1\r\nSUB other 2\r\nPUB other 1\r\nx\r\nPUB orders.a 1\r\ny\r\nPING\r\n")
        .expect("sent");
    let said = connection.all(1).expect("events");
    let line = |text: &str| Event::Line(text.into());
    assert_eq!(said[0], line("-ERR 'Permissions Violation for Subscription to \"other\"'"));
    assert_eq!(said[1], line("-ERR 'Permissions Violation for Publish to \"other\"'"));
    assert!(matches!(&said[2], Event::Message(message) if message.payload == "y"), "{said:?}");
    // A client that says nothing.
    let mut silent = Connection::bare(polder.port).expect("a connection");
    assert_eq!(silent.all(1).expect("events"), [line("-ERR 'Authentication Timeout'"), Event::End]);
}

#[test]
fn a_client_that_does_not_read_is_closed_without_a_word() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &["--nats-max-pending", "1mb"]);
    let (mut slow, mut other, mut publisher) = (polder.nats(), polder.nats(), polder.nats());
    for listener in [&mut slow, &mut other] {
        listener.send("SUB a 1\r\n").expect("sent");
        listener.settle().expect("subscribed");
    }
    let payload = "x".repeat(60_000);
    let mut heard = 0;
    for _ in 0..400 {
        publisher.send(&format!("PUB a 60000\r\n{payload}\r\n")).expect("sent");
        publisher.settle().expect("sent");
        heard += other.settle().expect("messages").len();
    }
    assert_eq!(heard, 400, "a client that reads hears all");
    let mut read = 0;
    loop {
        match slow.event() {
            Ok(Event::Message(_)) => read += 1,
            // The end may come inside a message.
            Ok(Event::End) => break,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Ok(Event::Line(line)) => panic!("{line}"),
            Err(error) => panic!("{error} after {read} messages"),
        }
    }
    assert!(read < 400, "it was not closed");
}

#[test]
fn channels_that_are_no_subjects_reach_no_client_of_nats() {
    let segment = Segment::new();
    let port = free_port().expect("a free port");
    let text = port.to_string();
    let server = Server::start_polder(&polder(), &segment.0, &["--threads", "1", "--nats-port", &text])
        .expect("a server");
    let mut client = Connection::open(port, OPTIONS).expect("a connection");
    client.send("SUB > 1\r\nSUB *.x 2\r\nSUB *.b 3\r\n").expect("sent");
    client.settle().expect("subscribed");
    let (mut listener, mut caller) = (
        resp::Connection::open(&server.address()).expect("a connection"),
        resp::Connection::open(&server.address()).expect("a connection"),
    );
    listener.call(&["PSUBSCRIBE", "*"]).expect("subscribed");
    let long = format!("{}.b", "a".repeat(65535));
    for channel in ["x 1 0\r\n\r\nMSG y", "a..b", "a.*", "a.>", "\t", &long] {
        assert_eq!(caller.call(&["PUBLISH", channel, "no"]).expect("a reply").shown().trim(), "(integer) 1");
        listener.receive().expect("a message");
    }
    caller.call(&["PUBLISH", "a.b", "yes"]).expect("a reply");
    let heard: BTreeSet<(String, String)> = client
        .settle()
        .expect("messages")
        .into_iter()
        .map(|message| (message.sid, message.payload))
        .collect();
    assert_eq!(heard, BTreeSet::from([("1".into(), "yes".into()), ("3".into(), "yes".into())]));
}

#[test]
fn shapes_of_patterns_are_limited_and_those_without_a_pattern_are_forgotten() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &[]);
    let mut client = polder.nats();
    // Eight tokens, each literal or a wildcard, the last a wildcard: 128 shapes.
    let pattern = |number: usize| {
        let tokens: Vec<&str> = (0..7).map(|bit| if number >> bit & 1 == 0 { "a" } else { "*" }).collect();
        format!("{}.*", tokens.join("."))
    };
    for number in 0..128 {
        client.send(&format!("SUB {} {number}\r\n", pattern(number))).expect("sent");
    }
    client.settle().expect("subscribed");
    client.send("SUB *.x.y 200\r\nPING\r\n").expect("sent");
    assert_eq!(
        client.all(1).expect("events"),
        [Event::Line("-ERR 'maximum subscriptions exceeded'".into()), Event::Line("PONG".into())]
    );
    client.send("SUB a.b.c.d.e.f.g.h 300\r\nPUB a.a.a.a.a.a.a.a 1\r\nx\r\n").expect("sent");
    assert_eq!(client.settle().expect("messages").len(), 128, "a pattern of each shape matches");
    (0..100).for_each(|number| client.send(&format!("UNSUB {number}\r\n")).expect("sent"));
    client.send("SUB *.x.y 200\r\nPUB z.x.y 1\r\nx\r\nPUB a.a.a.a.a.a.a.a 1\r\nx\r\n").expect("sent");
    let messages = client.settle().expect("messages");
    assert_eq!(messages[0].sid, "200");
    assert_eq!(messages.len(), 1 + 28);
}

#[test]
fn subscriptions_of_one_client_are_limited_where_that_is_set() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &["--nats-max-subscriptions", "2"]);
    let mut client = polder.nats();
    client
        .send("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1\r\nSUB c 4\r\nPUB c 1\r\nx\r\nPING\r\n")
        .expect("sent");
    let said = client.all(1).expect("events");
    assert_eq!(said[0], Event::Line("-ERR 'maximum subscriptions exceeded'".into()));
    assert!(matches!(&said[1], Event::Message(message) if message.sid == "4"), "{said:?}");
}

#[test]
fn subscriptions_for_one_message_leave_nothing_behind() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &[]);
    let (mut client, mut caller) = (polder.nats(), polder.resp());
    for sid in 1..2000 {
        client
            .send(&format!("SUB _INBOX.{sid} {sid}\r\nUNSUB {sid} 1\r\nPUB _INBOX.{sid} 1\r\nx\r\n"))
            .expect("sent");
        assert_eq!(client.message().expect("a message").sid, sid.to_string());
    }
    client.settle().expect("no error");
    assert!(caller.call(&["SUBJ.LIST"]).expect("a reply").shown().contains("empty"));
    let shown = caller.call(&["CLIENT", "LIST"]).expect("a reply").shown();
    let line = shown.lines().find(|line| line.contains("protocol=nats")).expect("the client").to_owned();
    let held = line.split("tot-mem=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a figure");
    assert!(held.parse::<u64>().expect("a number") < 200_000, "{line}");
}

#[test]
fn a_client_of_resp2_whose_last_subscription_has_ended_may_make_any_call() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &[]);
    let (mut client, mut caller) = (polder.resp(), polder.resp());
    client.call(&["CLIENT", "SETNAME", "ended"]).expect("named");
    client.call(&["SUBJ.SUB", "a.*", "SID", "1"]).expect("subscribed");
    let refused = client.call(&["GET", "key"]).expect("a reply").shown();
    assert!(refused.contains("only (P|S)SUBSCRIBE"), "{refused}");
    client.call(&["SUBJ.UNSUB", "1", "MAX", "1"]).expect("limited");
    let flags = |caller: &mut resp::Connection| {
        let shown = caller.call(&["CLIENT", "LIST"]).expect("a reply").shown();
        let line = shown
            .split("\\n")
            .flat_map(str::lines)
            .find(|line| line.contains("name=ended"))
            .map(str::to_owned);
        line.expect("the client").split("flags=").nth(1).expect("flags").split(' ').next().map(str::to_owned)
    };
    assert_eq!(flags(&mut caller).as_deref(), Some("P"));
    caller.call(&["PUBLISH", "a.b", "x"]).expect("published");
    client.receive().expect("the message");
    assert_eq!(flags(&mut caller).as_deref(), Some("N"), "it is no subscriber any more");
    let reply = client.call(&["GET", "key"]).expect("a reply").shown();
    assert!(!reply.contains("error"), "{reply}");
}

#[test]
fn a_client_of_nats_by_web_socket_has_the_limits_of_nats() {
    use std::io::{Read, Write};
    let segment = Segment::new();
    let web = free_port().expect("a free port");
    let text = web.to_string();
    let polder =
        Polder::start(&segment.0, &["--http-port", &text, "--client-output-buffer-limit", "pubsub 1kb 0 0"]);
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", web)).expect("a connection");
    socket.set_read_timeout(Some(polder_testbase::PATIENCE)).expect("set");
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        .expect("sent");
    let (mut heard, mut room) = (Vec::new(), vec![0; 1 << 16]);
    let mut read_to = |socket: &mut std::net::TcpStream, end: &[u8]| {
        while memchr::memmem::find(&heard, end).is_none() {
            let count = socket.read(&mut room).expect("bytes");
            assert!(count > 0, "{}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&room[..count]);
        }
    };
    read_to(&mut socket, b"INFO {");
    let operations = b"CONNECT {\"verbose\":false}\r\nSUB a 1\r\nPING\r\n";
    // One masked frame; its mask is 0.
    let frame = [&[0x82, 0x80 | operations.len() as u8, 0, 0, 0, 0][..], operations].concat();
    socket.write_all(&frame).expect("sent");
    read_to(&mut socket, b"PONG\r\n");
    // Far more than the limit of subscribers of Redis and the buffers of sockets take, and less than that of
    // NATS.
    const MESSAGES: usize = 20;
    let payload = "x".repeat(1 << 20);
    let mut publisher = polder.nats();
    for _ in 0..MESSAGES {
        publisher.send(&format!("PUB a {}\r\n{payload}\r\n", payload.len())).expect("sent");
        publisher.settle().expect("published");
    }
    let mut count = 0;
    while count < MESSAGES << 20 {
        let bytes = socket.read(&mut room).expect("bytes");
        assert!(bytes > 0, "closed after {count} bytes");
        count += room[..bytes].iter().filter(|byte| **byte == b'x').count();
    }
}

#[test]
fn a_client_that_has_subscribed_hears_all_that_it_publishes_in_one_piece() {
    let segment = Segment::new();
    let polder = Polder::start(&segment.0, &[]);
    let mut client = polder.nats();
    let publishes: String = (0..500).map(|number| format!("PUB a.b 3\r\n{number:03}\r\n")).collect();
    client.send(&format!("SUB a.* 1\r\nSUB a.> q 2\r\nUNSUB 2 100\r\n{publishes}")).expect("sent");
    let messages = client.settle().expect("messages");
    for (sid, count) in [("1", 500), ("2", 100)] {
        let own: Vec<usize> = messages
            .iter()
            .filter(|message| message.sid == sid)
            .map(|message| message.payload.parse().expect("a number"))
            .collect();
        assert_eq!(own, (0..count).collect::<Vec<_>>(), "{sid}");
    }
}
