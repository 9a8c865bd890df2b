//! A server in this process on a port of its own, and a client that shows replies as short text.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use polder_calls::settings::file;
use polder_engine::{Memory, Options};
use polder_persist::persistence::load::Loaded;
use polder_runtime::configuration::Configuration;
use polder_server::Server;
use polder_testkit::process::free_port;
use polder_testkit::scratch::fresh_name;
use polder_wire::resp::{Replies, Value, command};

/// How long a reply may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
pub struct Door {
    pub server: Option<Server>,
    pub address: SocketAddr,
    /// Kept until the server has stopped: see [`Place`].
    pub place: Arc<Place>,
}

/// A memory of this test alone, which is removed at its end.
pub struct Place {
    pub memory: Arc<Memory>,
    pub segment: String,
}

impl Place {
    pub fn new() -> Arc<Place> {
        Place::of(1 << 30)
    }

    /// A memory with this ceiling, in bytes.
    pub fn of(ceiling: u64) -> Arc<Place> {
        let segment = fresh_name();
        let options = Options { segment: segment.clone(), ceiling, ..Options::default() };
        Arc::new(Place { memory: Arc::new(Memory::attach(&options).expect("a memory")), segment })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        Memory::remove(&self.segment).expect("the segment is still there");
    }
}

/// The settings that these flags give: `--threads 2`.
pub fn settings(flags: &str) -> Arc<Configuration> {
    let words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    let (_, assignments) = file::flags(&words).expect("flags");
    Arc::new(Configuration::begin(None, &[], &assignments).expect("settings"))
}

impl Door {
    /// Starts a server on 127.0.0.1 with these flags.
    pub fn open(flags: &str) -> Door {
        let port = free_port().expect("a free port");
        Door::on(Place::new(), port, flags)
    }

    /// Starts a server on `port`.
    pub fn on(place: Arc<Place>, port: u16, flags: &str) -> Door {
        let settings = settings(&format!("--bind 127.0.0.1 --port {port} {flags}"));
        settings.join(place.memory.table()).expect("the settings of the segment");
        let server = Server::start(place.memory.clone(), settings, Loaded::default()).expect("a server");
        Door { server: Some(server), address: SocketAddr::from(([127, 0, 0, 1], port)), place }
    }

    /// A new client.
    pub fn client(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Client::new(stream)
    }

    /// Stops the server and waits for it.
    pub fn close(&mut self) {
        let server = self.server.take().expect("an open door");
        server.stopper()();
        assert!(server.wait());
    }
}

/// A client over any stream.
pub struct Client<S> {
    pub stream: S,
    replies: Replies,
    held: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Client<S> {
        Client { stream, replies: Replies::default(), held: Vec::new() }
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes bytes");
    }

    /// Sends a request of words and waits for the reply, as short text.
    pub fn ask(&mut self, line: &str) -> String {
        self.try_ask(line).expect("a reply before the end of the connection")
    }

    /// As [`Client::ask`]; none when the connection ends first.
    pub fn try_ask(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut bytes = Vec::new();
        command(&words, &mut bytes);
        self.stream.write_all(&bytes).ok()?;
        self.value().map(|value| shown(&value))
    }

    /// As [`Client::ask`], for words with blanks in them.
    pub fn ask_words(&mut self, words: &[impl AsRef<[u8]>]) -> String {
        let mut bytes = Vec::new();
        command(words, &mut bytes);
        self.write(&bytes);
        self.reply()
    }

    /// The next reply as short text.
    pub fn reply(&mut self) -> String {
        shown(&self.value().expect("a reply before the end of the connection"))
    }

    /// The next reply; none when the connection has ended.
    pub fn value(&mut self) -> Option<Value> {
        let mut part = vec![0; 64 << 10];
        loop {
            let mut input = self.held.as_slice();
            let value = self.replies.read(&mut input).expect("RESP");
            let taken = self.held.len() - input.len();
            self.held.drain(..taken);
            if value.is_some() {
                return value;
            }
            match self.stream.read(&mut part) {
                Ok(0) => return None,
                Ok(count) => self.held.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        self.value().is_none()
    }
}

/// A reply as text: `+OK`, `:1`, `$text`, `_`, `*[...]`.
pub fn shown(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let list = |items: &[Value]| items.iter().map(shown).collect::<Vec<_>>().join(" ");
    match value {
        Value::Status(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) => format!("-{}", text(bytes)),
        Value::Integer(number) => format!(":{number}"),
        Value::Bulk(bytes) => format!("${}", text(bytes)),
        Value::Null => "_".into(),
        Value::Array(items) => format!("*[{}]", list(items)),
        Value::Set(items) => format!("~[{}]", list(items)),
        Value::Push(items) => format!(">[{}]", list(items)),
        Value::Map(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{}={}", shown(key), shown(value))).collect();
            format!("%[{}]", pairs.join(" "))
        }
        other => format!("{other:?}"),
    }
}
