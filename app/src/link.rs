//! The way to the memory: a connection to a server, or the segment itself in this process.
//!
//! ```text
//!   args -> RESP request -> socket  -> server -> RESP reply -> Value      TCP, with or without TLS, or Unix socket
//!   args -> Caller::write --------------------> RESP reply -> Value      segment, no server
//!           Caller::hear  --------------------> message    -> Value      what was subscribed to, and MONITOR's lines
//! ```
//!
//! Both ends speak RESP, so everything above (formats, pipes, scans) is the same code, and a reply read from the segment
//! has been through the same writer as one that came over a network.
mod tls;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use polder_engine::{Caller, Host, Item, Owner, Protocol};
use polder_persist::persistence::save;
use polder_runtime::saves::SaveControl;
use polder_wire::Output;
use polder_wire::resp::{Limits, Replies, Request, Requests, Value, command};
use tls::Secure;
pub use tls::TlsArguments;

use crate::text;

/// Where the memory is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16, arguments: Box<TlsArguments> },
    Unix(String),
    Segment(String, Owner),
}

impl Place {
    /// A server, with TLS if the arguments ask for it.
    pub fn server(host: String, port: u16, arguments: &TlsArguments) -> Place {
        if arguments.tls {
            Place::Tls { host, port, arguments: Box::new(arguments.clone()) }
        } else {
            Place::Tcp { host, port }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Tcp { host, port } | Place::Tls { host, port, .. } if host.contains(':') => {
                write!(out, "[{host}]:{port}")
            }
            Place::Tcp { host, port } | Place::Tls { host, port, .. } => write!(out, "{host}:{port}"),
            Place::Unix(path) => write!(out, "{path}"),
            Place::Segment(name, _) => write!(out, "{name}"),
        }
    }
}

/// The user, and what a fresh connection is set to.
#[derive(Clone, Debug, Default)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
    pub db: u32,
    pub resp3: bool,
}

/// A connection's socket.
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What carries the bytes.
enum Channel {
    Tcp(TcpStream),
    Tls(Box<Secure>),
    Unix(UnixStream),
    Segment(Box<Direct>),
}

/// How long one look for messages takes where no patience is set.
const LOOK: Duration = Duration::from_millis(500);
/// How often a save in the background is looked at.
const SAVE_GLANCE: Duration = Duration::from_millis(5);

/// The segment as a peer: commands run in this process.
struct Direct {
    caller: Caller,
    requests: Requests,
    /// Bytes of a request that is not whole yet.
    partial: Vec<u8>,
    /// Replies that have not been read yet.
    output: Output,
    /// Messages that have not been read yet.
    heard: VecDeque<Value>,
    /// How long [`Direct::listen`] waits at most; `None` for ever.
    patience: Option<Duration>,
    /// Saves that had ended well when this began.
    saves: u64,
}

/// An open way to the memory.
pub struct Link {
    channel: Channel,
    replies: Replies,
    /// Bytes received and not yet taken.
    input: Vec<u8>,
    taken: usize,
}

impl Link {
    /// Opens the way, without logging in.
    ///
    /// # Errors
    /// Those of the socket; a segment's own error text.
    pub fn open(place: &Place) -> io::Result<Link> {
        let channel = match place {
            Place::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Channel::Tcp(stream)
            }
            Place::Tls { host, port, arguments } => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Channel::Tls(Box::new(Secure::connect(stream, host, arguments)?))
            }
            Place::Unix(path) => Channel::Unix(UnixStream::connect(path)?),
            Place::Segment(name, owner) => Channel::Segment(Box::new(Direct::attach(name, *owner)?)),
        };
        Ok(Link { channel, replies: Replies::default(), input: Vec::new(), taken: 0 })
    }

    /// Authenticates, chooses the database and the protocol. Returns the server's refusal, which
    /// leaves the rest undone.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn login(&mut self, login: &Login) -> io::Result<Option<String>> {
        let db = login.db.to_string();
        let mut steps: Vec<(String, Vec<&str>)> = Vec::new();
        match (&login.user, &login.password) {
            (Some(user), Some(password)) => steps.push(("AUTH".into(), vec!["AUTH", user, password])),
            (None, Some(password)) => steps.push(("AUTH".into(), vec!["AUTH", password])),
            _ => {}
        }
        if login.db != 0 {
            steps.push((format!("SELECT {db}"), vec!["SELECT", &db]));
        }
        if login.resp3 {
            steps.push(("HELLO 3".into(), vec!["HELLO", "3"]));
        }
        for (what, args) in steps {
            if let Value::Error(text) = self.call(&args)? {
                return Ok(Some(format!("{what} failed: {}", String::from_utf8_lossy(&text))));
            }
        }
        Ok(None)
    }

    /// Sends one command and waits for its reply; pushes that come first are dropped.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn call(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        self.send(args)?;
        loop {
            match self.receive()? {
                Value::Push(_) => continue,
                value => return Ok(value),
            }
        }
    }

    /// Sends one command.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn send(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<()> {
        match &mut self.channel {
            Channel::Segment(direct) => direct.execute(&args.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
            _ => {
                let mut bytes = Vec::new();
                command(args, &mut bytes);
                self.write(&bytes)
            }
        }
    }

    /// Sends bytes that are requests already.
    ///
    /// # Errors
    /// Those of the connection; on a segment `InvalidData` for what is no request.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.channel {
            Channel::Tcp(stream) => stream.write_all(bytes),
            Channel::Tls(stream) => stream.write_all(bytes),
            Channel::Unix(stream) => stream.write_all(bytes),
            Channel::Segment(direct) => direct.take(bytes),
        }
    }

    /// The next reply, waiting for it.
    ///
    /// # Errors
    /// Those of the connection: `UnexpectedEof` when it was closed, `WouldBlock` when a timeout is set and has passed.
    pub fn receive(&mut self) -> io::Result<Value> {
        loop {
            if let Some(value) = self.buffered()? {
                return Ok(value);
            }
            if let Channel::Segment(direct) = &mut self.channel
                && direct.output.waiting() == 0
            {
                return direct.listen();
            }
            self.fill()?;
        }
    }

    /// A reply that has been received already.
    fn buffered(&mut self) -> io::Result<Option<Value>> {
        let mut rest = &self.input[self.taken..];
        let value = self
            .replies
            .read(&mut rest)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
        self.taken = self.input.len() - rest.len();
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
        }
        Ok(value)
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.taken > 0 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        let mut chunk = [0; 16 << 10];
        let count = match &mut self.channel {
            Channel::Tcp(stream) => stream.read(&mut chunk)?,
            Channel::Tls(stream) => stream.read(&mut chunk)?,
            Channel::Unix(stream) => stream.read(&mut chunk)?,
            Channel::Segment(direct) => return direct.drain(&mut self.input),
        };
        if count == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "Server closed the connection"));
        }
        self.input.extend_from_slice(&chunk[..count]);
        Ok(())
    }

    /// Whether a request has begun and not ended. Only a segment knows: a server is waiting for the rest.
    pub fn is_waiting_for_more(&self) -> bool {
        matches!(&self.channel, Channel::Segment(direct) if !direct.partial.is_empty())
    }

    /// How long [`Link::receive`] waits at most; `None` for ever. On a segment this is about messages: a command runs to its end.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn set_patience(&mut self, patience: Option<Duration>) -> io::Result<()> {
        match &mut self.channel {
            Channel::Tcp(stream) => stream.set_read_timeout(patience),
            Channel::Tls(stream) => stream.socket().set_read_timeout(patience),
            Channel::Unix(stream) => stream.set_read_timeout(patience),
            Channel::Segment(direct) => {
                direct.patience = patience;
                Ok(())
            }
        }
    }

    /// Waits for what goes on in this process and would end with it: a save in the background on a segment. Returns what there is to say of it.
    ///
    /// # Errors
    /// The save has failed.
    pub fn finish(&mut self) -> Result<Option<String>, String> {
        match &mut self.channel {
            Channel::Segment(direct) => direct.finish(),
            Channel::Tcp(_) | Channel::Tls(_) | Channel::Unix(_) => Ok(None),
        }
    }

    /// The same connection for a second thread, which reads while this one writes; `None` on a segment.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn reader(&self) -> io::Result<Option<Link>> {
        let channel = match &self.channel {
            Channel::Tcp(stream) => Channel::Tcp(stream.try_clone()?),
            Channel::Tls(stream) => Channel::Tls(Box::new(stream.share()?)),
            Channel::Unix(stream) => Channel::Unix(stream.try_clone()?),
            Channel::Segment(_) => return Ok(None),
        };
        Ok(Some(Link { channel, replies: Replies::default(), input: Vec::new(), taken: 0 }))
    }

    /// The socket alone, for threads that read and write by themselves; `None` on a segment and with TLS.
    pub fn into_socket(self) -> Option<Socket> {
        match self.channel {
            Channel::Tcp(stream) => Some(Socket::Tcp(stream)),
            Channel::Unix(stream) => Some(Socket::Unix(stream)),
            Channel::Segment(_) | Channel::Tls(_) => None,
        }
    }

    /// Ends the connection for every thread that shares it; a thread that waits for a reply wakes
    /// up.
    pub fn close(&self) {
        // An error here means that the peer was faster: the connection is gone either way.
        let _ = match &self.channel {
            Channel::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Channel::Tls(stream) => stream.socket().shutdown(Shutdown::Both),
            Channel::Unix(stream) => stream.shutdown(Shutdown::Both),
            Channel::Segment(_) => Ok(()),
        };
    }
}

impl Direct {
    fn attach(segment: &str, owner: Owner) -> io::Result<Direct> {
        let memory =
            text::attach(segment, &text::Whose { owner }).map_err(|failed| io::Error::other(failed.text))?;
        let saves = memory.host().saves().report(memory.table()).saves;
        Ok(Direct {
            caller: Caller::speaking(&Arc::new(memory), Protocol::Resp2),
            requests: Requests::default(),
            partial: Vec::new(),
            output: Output::new(Protocol::Resp2),
            heard: VecDeque::new(),
            patience: None,
            saves,
        })
    }

    fn execute(&mut self, args: &[&[u8]]) -> io::Result<()> {
        self.caller.write(args, &mut self.output).map_err(|error| io::Error::other(error.to_string()))
    }

    /// The next message of those that were subscribed to.
    fn listen(&mut self) -> io::Result<Value> {
        loop {
            if let Some(value) = self.heard.pop_front() {
                return Ok(value);
            }
            if !self.caller.is_listening() {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "no reply is pending, and nothing is subscribed to",
                ));
            }
            let heard = &mut self.heard;
            let count = self.caller.hear(self.patience.unwrap_or(LOOK), |item| heard.push_back(value(item)));
            if count.map_err(|error| io::Error::other(error.to_string()))? == 0 && self.patience.is_some() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }

    /// See [`Link::finish`].
    fn finish(&mut self) -> Result<Option<String>, String> {
        let memory = self.caller.memory();
        let (host, table) = (memory.host(), memory.table());
        host.saves().begin_scheduled(table, host.settings());
        while host.saves().is_saving() {
            std::thread::sleep(SAVE_GLANCE);
        }
        let report = host.saves().report(table);
        let path = save::path(host.settings());
        let path = std::path::absolute(&path).unwrap_or(path);
        if report.failures_in_row > 0 {
            return Err(format!(
                "The save to {} failed: see that the folder is there and has room, then save again",
                path.display()
            ));
        }
        let saved = report.saves > std::mem::replace(&mut self.saves, report.saves);
        Ok(saved.then(|| format!("Saved to {}", path.display())))
    }

    /// Executes every whole request in `bytes`; what is left of them waits for the rest.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.partial);
        held.extend_from_slice(bytes);
        let mut rest = held.as_slice();
        let mut args = Vec::new();
        loop {
            args.clear();
            let request = self.requests.read(&mut rest, &Limits::default(), &mut args);
            match request.map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))? {
                Some(Request::Bulks(_)) => self.execute(&args)?,
                Some(Request::Inline(words)) => {
                    self.execute(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())?
                }
                None => break,
            }
        }
        let taken = held.len() - rest.len();
        held.drain(..taken);
        self.partial = held;
        Ok(())
    }

    /// Moves the replies written so far to `input`.
    fn drain(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        let waiting = self.output.waiting();
        let before = input.len();
        while self.output.waiting() > 0 {
            let mut slices = [io::IoSlice::new(&[]); 16];
            let count = self.output.slices(&mut slices);
            let moved: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            slices[..count].iter().for_each(|slice| input.extend_from_slice(slice));
            self.output.consume(moved);
        }
        debug_assert_eq!(input.len() - before, waiting);
        Ok(())
    }
}

impl Drop for Direct {
    /// A save that was begun here ends here, however the conversation ends.
    fn drop(&mut self) {
        // What is to be said of it, `finish` has said where there was a reader.
        let _ = self.finish();
    }
}

/// A message as a server would have sent it.
fn value(item: Item<'_>) -> Value {
    let all = |items: polder_engine::Items<'_>| items.map(value).collect::<Vec<_>>();
    match item {
        Item::Null => Value::Null,
        Item::Status(text) => Value::Status(text.to_vec()),
        Item::Error(text) => Value::Error(text.to_vec()),
        Item::Integer(number) => Value::Integer(number),
        Item::Double(number) => Value::Double(number.to_string().into_bytes()),
        Item::Boolean(truth) => Value::Boolean(truth),
        Item::Bulk(text) => Value::Bulk(text.to_vec()),
        Item::BigNumber(text) => Value::BigNumber(text.to_vec()),
        Item::Verbatim(format, text) => {
            Value::Verbatim { format: format.try_into().unwrap_or(*b"txt"), text: text.to_vec() }
        }
        Item::Array(items) => Value::Array(all(items)),
        Item::Map(items) => {
            let mut items = all(items).into_iter();
            Value::Map(std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect())
        }
        Item::Set(items) => Value::Set(all(items)),
        Item::Push(items) => Value::Push(all(items)),
    }
}
