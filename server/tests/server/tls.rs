//! TLS at the server's ports: handshakes, certificates, reloading, tickets, and clients that break off.
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use polder_persist::persistence::load::Loaded;
use polder_server::Server;
use polder_testkit::process::free_port;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use crate::door::{Client, Door, PATIENCE, Place, settings};

/// A folder with a root, the certificates of a server and of a client that it signed, and another root.
pub struct Certificates(PathBuf);

impl Certificates {
    pub fn new() -> Certificates {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = std::env::temp_dir().join(format!(
            "polder-tls-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").expect("a file");
        let certificates = Certificates(folder);
        certificates.root("ca");
        certificates.root("other");
        certificates.sign("server", "ca", "localhost");
        certificates.sign("client", "ca", "alice");
        certificates.sign("stranger", "other", "alice");
        certificates
    }

    fn root(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem -days 2 -subj /CN=polder-test-{name}"
        ));
    }

    /// Makes a certificate in `name`.pem with a key of its own.
    fn sign(&self, name: &str, root: &str, subject: &str) {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr -subj /O=Polder/CN={subject}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {root}.pem -CAkey {root}.key -CAcreateserial -out {name}.pem -days 2 -extfile names"
        ));
    }

    fn openssl(&self, words: &str) {
        let made = Command::new("openssl")
            .args(words.split(' '))
            .current_dir(&self.0)
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// The server's flags; `port` is the one with TLS.
    pub fn flags(&self, port: u16, more: &str) -> String {
        let file = |name| self.path(name);
        format!(
            "--tls-port {port} --tls-cert-file {} --tls-key-file {} --tls-ca-cert-file {} {more}",
            file("server.pem"),
            file("server.key"),
            file("ca.pem")
        )
    }

    /// A client that trusts a root, and may show a certificate.
    pub fn config(&self, root: &str, certificate: Option<&str>) -> Arc<ClientConfig> {
        let read = |name: &str| {
            CertificateDer::pem_file_iter(self.path(name))
                .expect("a file")
                .map(|found| found.expect("a certificate"))
        };
        let mut roots = RootCertStore::empty();
        read(root).for_each(|root| roots.add(root).expect("a root"));
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).expect("a key");
                builder
                    .with_client_auth_cert(read(&format!("{name}.pem")).collect(), key)
                    .expect("a certificate")
            }
        };
        Arc::new(config)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A connection whose end is the end of the stream, however it comes.
pub struct Secure(StreamOwned<ClientConnection, TcpStream>);

impl Read for Secure {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.0.read(room) {
            Err(error)
                if [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidData].contains(&error.kind()) =>
            {
                Ok(0)
            }
            read => read,
        }
    }
}

impl Write for Secure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub fn socket(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn connect(port: u16, config: &Arc<ClientConfig>) -> Client<Secure> {
    connect_to("localhost", port, config)
}

fn connect_to(name: &str, port: u16, config: &Arc<ClientConfig>) -> Client<Secure> {
    Client::new(secure(name, port, config))
}

/// A stream with TLS, whose handshake begins with the first bytes.
pub fn secure(name: &str, port: u16, config: &Arc<ClientConfig>) -> Secure {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(config.clone(), name).expect("a connection");
    Secure(StreamOwned::new(connection, socket(port)))
}

impl Secure {
    pub fn socket(&self) -> &TcpStream {
        &self.0.sock
    }
}

/// A server with a port for TLS and one without.
fn open(certificates: &Certificates, more: &str) -> (Door, u16) {
    let port = free_port().expect("a free port");
    (Door::open(&certificates.flags(port, more)), port)
}

/// Waits until the server has this many clients.
fn await_clients(client: &mut Client<TcpStream>, count: usize) {
    let until = Instant::now() + PATIENCE;
    while client.ask("CLIENT LIST").lines().filter(|line| line.contains("addr=")).count() != count {
        assert!(Instant::now() < until, "{}", client.ask("CLIENT LIST"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn clients_with_and_without_tls_see_the_same_keys() {
    let certificates = Certificates::new();
    let (door, port) = open(&certificates, "--tls-auth-clients no --threads 2");
    let config = certificates.config("ca.pem", None);
    let mut plain = door.client();
    let large = "x".repeat(3 << 20);
    for number in 0..4 {
        let mut secure = connect(port, &config);
        assert_eq!(secure.ask("PING"), "+PONG");
        assert_eq!(secure.ask(&format!("SET large {number}{large}")), "+OK");
        assert_eq!(plain.ask("GET large"), format!("${number}{large}"));
        assert_eq!(secure.ask("GET large"), format!("${number}{large}"));
        assert!(secure.ask("CLIENT INFO").trim_end().ends_with(" protocol=resp"));
        // A pipeline, and a message that another client sends.
        secure.write("INCR n\r\n".repeat(500).as_bytes());
        (1..=500).for_each(|count| assert_eq!(secure.reply(), format!(":{}", number * 500 + count)));
        assert_eq!(secure.ask("SUBSCRIBE c"), "*[$subscribe $c :1]");
        assert_eq!(plain.ask("PUBLISH c hello"), ":1");
        assert_eq!(secure.reply(), "*[$message $c $hello]");
        // It listens until the server has read its end.
        drop(secure);
        await_clients(&mut plain, 1);
    }
}

#[test]
fn the_tools_of_others_connect() {
    let certificates = Certificates::new();
    let https = free_port().expect("a free port");
    let (door, port) = open(&certificates, &format!("--https-port {https}"));
    let run = |program: &str, words: &str, input: &str| {
        let words = words.replace("HTTPS", &https.to_string()).replace("PORT", &port.to_string());
        let child = Command::new(program)
            .args(words.split(' '))
            .current_dir(&certificates.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("{program} is not installed: not tested");
            return None;
        };
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("an input");
        let output = child.wait_with_output().expect("an end");
        Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    if let Some(output) = run(
        "redis-cli",
        "--tls --cacert ca.pem --cert client.pem --key client.key -h localhost -p PORT PING",
        "",
    ) {
        assert_eq!(output, "PONG\n");
    }
    let words = "-s --cacert ca.pem --cert client.pem --key client.key https://localhost:HTTPS/k/page";
    if let Some(output) = run("curl", &format!("{words} -T -"), "by https") {
        assert_eq!(output, "");
        assert_eq!(run("curl", words, "").as_deref(), Some("by https"));
    }
    for version in ["-tls1_2", "-tls1_3"] {
        let words = format!(
            "s_client -connect 127.0.0.1:PORT -CAfile ca.pem -cert client.pem -key client.key -quiet {version}"
        );
        let output = run("openssl", &words, "PING\r\nQUIT\r\n").expect("openssl is installed");
        assert!(output.contains("+PONG"), "{version}: {output}");
    }
    let output = run("openssl", "s_client -connect 127.0.0.1:PORT -CAfile ca.pem -tls1_1", "")
        .expect("openssl is installed");
    assert!(!output.contains("Verify return code: 0 (ok)") || output.contains("alert"), "{output}");
    await_clients(&mut door.client(), 1);
}

#[test]
fn certificates_of_clients_are_checked_and_may_log_in() {
    let certificates = Certificates::new();
    let (door, port) = open(&certificates, "--tls-auth-clients-user cn");
    let mut admin = door.client();
    let own = |name| certificates.config("ca.pem", Some(name));
    // Without one, and with one of another root.
    assert_eq!(connect(port, &certificates.config("ca.pem", None)).try_ask("PING"), None);
    assert_eq!(connect(port, &own("stranger")).try_ask("PING"), None);
    // There is no such user yet, then it is off, then it is on.
    assert_eq!(connect(port, &own("client")).ask("ACL WHOAMI"), "$default");
    assert_eq!(admin.ask("ACL SETUSER alice ~a* +@all"), "+OK");
    assert_eq!(connect(port, &own("client")).ask("ACL WHOAMI"), "$default");
    assert_eq!(admin.ask("ACL SETUSER alice on"), "+OK");
    let mut alice = connect(port, &own("client"));
    assert_eq!(alice.ask("ACL WHOAMI"), "$alice");
    assert!(alice.ask("GET b").starts_with("-NOPERM"));
    assert!(admin.ask("CLIENT LIST").contains("user=alice"));
    // Also where a password is needed, and a client without a certificate may come in.
    assert_eq!(admin.ask("CONFIG SET requirepass secret tls-auth-clients optional"), "+OK");
    assert_eq!(connect(port, &own("client")).ask("ACL WHOAMI"), "$alice");
    assert!(connect(port, &certificates.config("ca.pem", None)).ask("PING").starts_with("-NOAUTH"));
    assert_eq!(connect(port, &own("stranger")).try_ask("PING"), None);
    // A user that is deleted is closed.
    assert_eq!(admin.ask("ACL DELUSER alice"), ":1");
    assert!(alice.is_closed());
    assert_eq!(admin.ask("CONFIG SET tls-auth-clients-user off tls-auth-clients no"), "+OK");
    assert!(connect(port, &own("client")).ask("PING").starts_with("-NOAUTH"));
}

#[test]
fn a_client_that_expects_another_host_is_not_served() {
    let certificates = Certificates::new();
    let (door, port) = open(&certificates, "--tls-auth-clients no");
    let config = certificates.config("ca.pem", None);
    let mut client = connect_to("example.org", port, &config);
    client.stream.0.conn.complete_io(&mut client.stream.0.sock).expect_err("a certificate of another host");
    assert_eq!(connect_to("127.0.0.1", port, &config).ask("PING"), "+PONG");
    assert_eq!(connect(port, &certificates.config("other.pem", None)).try_ask("PING"), None);
    drop(client);
    await_clients(&mut door.client(), 1);
}

#[test]
fn broken_and_half_open_handshakes_end() {
    let certificates = Certificates::new();
    let (door, port) = open(&certificates, "--tls-auth-clients no --tls-handshake-timeout 1 --threads 2");
    let mut admin = door.client();
    // Plain bytes get an alert and the end.
    for bytes in [&b"PING\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3], &[0; 5000]]
    {
        let mut stream = socket(port);
        stream.write_all(bytes).expect("it takes bytes");
        let mut reply = Vec::new();
        // A reset is an end, too.
        let _ = stream.read_to_end(&mut reply);
        assert!(reply.len() < 16, "{reply:?}");
    }
    // A hello in pieces, which breaks off at each of them.
    let mut hello = Vec::new();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut connection =
        ClientConnection::new(certificates.config("ca.pem", None), name).expect("a connection");
    connection.write_tls(&mut hello).expect("a hello");
    for length in (0..=hello.len()).step_by(7) {
        socket(port).write_all(&hello[..length]).expect("it takes bytes");
    }
    await_clients(&mut admin, 1);
    // Those that stay, silent or slow, are closed.
    let began = Instant::now();
    let silent = socket(port);
    let mut half = socket(port);
    half.write_all(&hello[..hello.len() / 2]).expect("it takes bytes");
    let mut whole = socket(port);
    whole.write_all(&hello).expect("it takes bytes");
    for mut stream in [silent, half, whole] {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(
        began.elapsed() >= Duration::from_millis(900) && began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    await_clients(&mut admin, 1);
    assert_eq!(connect(port, &certificates.config("ca.pem", None)).ask("PING"), "+PONG");
}

#[test]
fn certificates_are_renewed_under_load() {
    let certificates = Certificates::new();
    let (door, port) =
        open(&certificates, "--tls-auth-clients no --threads 2 --max-new-tls-connections-per-cycle 2");
    let (mut admin, config) = (door.client(), certificates.config("ca.pem", None));
    let mut old = connect(port, &config);
    assert_eq!(old.ask("PING"), "+PONG");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    let mut client = connect(port, &config);
                    assert_eq!((client.ask("PING"), client.ask("PING")), ("+PONG".into(), "+PONG".into()));
                }
            });
        }
        let file = certificates.path("server.pem");
        for _ in 0..5 {
            certificates.sign("next", "ca", "localhost");
            let (key, pem) = (certificates.path("next.key"), certificates.path("next.pem"));
            assert_eq!(admin.ask(&format!("CONFIG SET tls-cert-file {pem} tls-key-file {key}")), "+OK");
            // A key of another certificate, and a file that is not there, change nothing.
            let refused = admin.ask(&format!("CONFIG SET timeout 9 tls-cert-file {file}"));
            let why = "possibly related to argument 'tls-cert-file') - Unable to update TLS configuration. Check server logs.";
            assert_eq!(refused, format!("-ERR CONFIG SET failed ({why}"));
            assert!(admin.ask("CONFIG SET tls-key-file /none").starts_with("-ERR CONFIG SET failed"));
            assert_eq!(
                admin.ask("CONFIG GET tls-cert-file timeout"),
                format!("*[$tls-cert-file ${pem} $timeout $0]")
            );
            // The same name with other content is read again.
            certificates.sign("next", "ca", "localhost");
            assert_eq!(admin.ask(&format!("CONFIG SET tls-key-file {key} tls-cert-file {pem}")), "+OK");
        }
        ended.store(true, Ordering::Release);
    });
    let shown = connect(port, &config);
    let mut shown = shown.stream.0;
    shown.conn.complete_io(&mut shown.sock).expect("a handshake");
    let chain = shown.conn.peer_certificates().expect("a chain");
    assert_eq!(
        chain[0],
        CertificateDer::from_pem_file(certificates.path("next.pem")).expect("a certificate")
    );
    assert_eq!(old.ask("PING"), "+PONG", "those that were there stay");
}

#[test]
fn a_client_goes_on_with_another_server_of_the_segment() {
    let certificates = Certificates::new();
    let place = Place::new();
    let doors: Vec<(Door, u16)> = (0..2)
        .map(|_| {
            let port = free_port().expect("a free port");
            (
                Door::on(
                    place.clone(),
                    free_port().expect("a free port"),
                    &certificates.flags(port, "--tls-auth-clients optional"),
                ),
                port,
            )
        })
        .collect();
    let config = certificates.config("ca.pem", Some("client"));
    let kind = |port: u16| {
        let mut client = connect(port, &config);
        assert_eq!(client.ask("PING"), "+PONG");
        client.stream.0.conn.handshake_kind().expect("a handshake")
    };
    // The second server may have seen the keys of the first one only after a second.
    let until = Instant::now() + PATIENCE;
    assert_eq!(kind(doors[0].1), HandshakeKind::Full);
    while kind(doors[1].1) != HandshakeKind::Resumed {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(kind(doors[0].1), HandshakeKind::Resumed);
    // Under other rules for clients, they are checked again.
    assert_eq!(doors[0].0.client().ask("CONFIG SET tls-auth-clients yes"), "+OK");
    assert_eq!(kind(doors[0].1), HandshakeKind::Full);
    assert_eq!(kind(doors[0].1), HandshakeKind::Resumed);
    assert_eq!(doors[0].0.client().ask("CONFIG SET tls-session-caching no"), "+OK");
    assert_eq!(kind(doors[0].1), HandshakeKind::Full);
    assert_eq!(kind(doors[0].1), HandshakeKind::Full);
}

#[test]
fn a_client_with_tls_that_does_not_read_is_closed_and_others_are_not() {
    let certificates = Certificates::new();
    let flags = ["--client-output-buffer-limit", "normal 4mb 0 0 slave 0 0 0 pubsub 0 0 0"];
    let (door, port) = open(&certificates, "--tls-auth-clients no");
    let mut admin = door.client();
    assert_eq!(admin.ask_words(&["CONFIG", "SET", &flags[0][2..], flags[1]]), "+OK");
    let config = certificates.config("ca.pem", None);
    assert_eq!(admin.ask(&format!("SET large {}", "x".repeat(1 << 20))), "+OK");
    // One that reads slowly gets all of it.
    let mut slow = connect(port, &config);
    for _ in 0..10 {
        slow.write(b"GET large\r\nGET large\r\n");
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!((slow.reply().len(), slow.reply().len()), (1 + (1 << 20), 1 + (1 << 20)));
    }
    let mut deaf = connect(port, &config);
    deaf.write("GET large\r\n".repeat(64).as_bytes());
    await_clients(&mut admin, 2);
}

#[test]
fn a_port_with_tls_moves_and_closes() {
    let certificates = Certificates::new();
    let (door, port) = open(&certificates, "--tls-auth-clients no");
    let (mut admin, config) = (door.client(), certificates.config("ca.pem", None));
    let mut old = connect(port, &config);
    assert_eq!(old.ask("PING"), "+PONG");
    let new = free_port().expect("a free port");
    assert_eq!(old.ask(&format!("CONFIG SET tls-port {new}")), "+OK");
    assert_eq!(connect(new, &config).ask("PING"), "+PONG");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    // One port cannot be both, and the plain one stays as it was.
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to listen on this port. Check server logs.";
    assert_eq!(admin.ask(&format!("CONFIG SET tls-port {}", door.address.port())), refused);
    assert_eq!(door.client().ask("PING"), "+PONG");
    assert_eq!(admin.ask("CONFIG SET tls-port 0"), "+OK");
    assert!(TcpStream::connect(("127.0.0.1", new)).is_err());
    assert_eq!(old.ask("PING"), "+PONG");
}

#[test]
fn a_server_that_ends_says_so() {
    let certificates = Certificates::new();
    let (mut door, port) = open(&certificates, "--tls-auth-clients no");
    let mut client = connect(port, &certificates.config("ca.pem", None));
    assert_eq!(client.ask("PING"), "+PONG");
    door.close();
    // A clean end, which no attacker on the way can make.
    assert_eq!(client.stream.0.read(&mut [0; 8]).expect("a clean end"), 0);
}

#[test]
fn what_is_wrong_with_files_is_said_with_their_names() {
    let certificates = Certificates::new();
    let place = Place::new();
    let failure = |flags: String| {
        let settings = settings(&format!("--port 0 --bind 127.0.0.1 {flags}"));
        settings.join(place.memory.table()).expect("the settings of the segment");
        let started = Server::start(place.memory.clone(), settings, Loaded::default());
        started.err().expect("it cannot start").to_string()
    };
    let (port, file) = (free_port().expect("a free port"), |name: &str| certificates.path(name));
    fs::write(file("empty.pem"), "nothing").expect("a file");
    let locked = "pkey -in server.key -aes256 -passout pass:secret -out locked.key";
    certificates.openssl(locked);
    let cases = [
        (format!("--tls-port {port}"), "needs tls-cert-file".to_owned()),
        (
            certificates.flags(port, "--tls-cert-file /none.pem"),
            "tls-cert-file /none.pem cannot be used: No such file".into(),
        ),
        (
            certificates.flags(port, &format!("--tls-cert-file {}", file("empty.pem"))),
            "has nothing of this kind in PEM form".into(),
        ),
        (
            certificates.flags(port, &format!("--tls-key-file {}", file("client.key"))),
            format!("{} cannot be used together", file("client.key")),
        ),
        (
            certificates.flags(port, &format!("--tls-key-file {}", file("locked.key"))),
            "it has a password".into(),
        ),
        (certificates.flags(port, "--tls-ca-cert-file /none.pem"), "tls-ca-cert-file /none.pem".into()),
        (certificates.flags(port, "--tls-ca-cert-dir /none"), "tls-ca-cert-dir /none cannot be used".into()),
        (
            certificates.flags(port, "--tls-protocols TLSv1.1"),
            "tls-protocols: 'TLSv1.1' is not spoken here".into(),
        ),
        (certificates.flags(port, "--tls-ciphers RC4"), "tls-ciphers: 'RC4'".into()),
    ];
    for (flags, part) in cases {
        let failure = failure(flags);
        assert!(failure.contains(&part) && !failure.contains('\n'), "{failure}\n{part}");
    }
    let pair = format!("--tls-cert-file {} --tls-key-file {}", file("server.pem"), file("server.key"));
    assert!(
        failure(format!("--tls-port {port} {pair}"))
            .contains("set tls-ca-cert-file or tls-ca-cert-dir, or tls-auth-clients no")
    );
    assert!(Path::new(&file("server.pem")).exists());
}
