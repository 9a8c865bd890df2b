//! The ways into a memory that a transcript is run through.
use std::collections::BTreeMap;

use polder_base::Protocol;

use crate::answer::Answer;
use crate::caller::Caller;
use crate::resp::Connection;
use crate::scratch::Scratch;
use crate::transcript::Place;

/// One way into a memory.
pub trait Door {
    /// What failures call it.
    fn name(&self) -> String;
    /// Which of the expected replies hold.
    fn protocol(&self) -> Protocol;
    fn place(&self) -> Place;
    /// Whether this is the real redis-server, from which a few replies differ on purpose.
    fn is_redis(&self) -> bool {
        false
    }
    /// An empty memory and no clients.
    ///
    /// # Errors
    /// A text when the memory or the server is not there.
    fn reset(&mut self) -> Result<(), String>;
    /// Runs one command of a client, which exists from its first command on.
    ///
    /// # Errors
    /// A text when there is no reply or not exactly one.
    fn call(&mut self, client: &str, args: &[Vec<u8>]) -> Result<Answer, String>;
}

/// The engine in this process.
pub struct InProcess {
    protocol: Protocol,
    scratch: Scratch,
    callers: BTreeMap<String, Caller>,
}

impl InProcess {
    /// A door whose clients speak `protocol`.
    pub fn new(protocol: Protocol) -> InProcess {
        InProcess { protocol, scratch: Scratch::new(), callers: BTreeMap::new() }
    }
}

impl Door for InProcess {
    fn name(&self) -> String {
        format!("in-process, {}", protocol_name(self.protocol))
    }
    fn protocol(&self) -> Protocol {
        self.protocol
    }
    fn place(&self) -> Place {
        Place::InProcess
    }
    fn reset(&mut self) -> Result<(), String> {
        self.callers.clear();
        self.scratch = Scratch::new();
        Ok(())
    }
    fn call(&mut self, client: &str, args: &[Vec<u8>]) -> Result<Answer, String> {
        let next_id = self.callers.len() as u64 + 1;
        let caller = self.callers.entry(client.into()).or_insert_with(|| Caller::new(next_id, self.protocol));
        caller.call(&self.scratch.embedder, args)
    }
}

/// A server on a socket.
pub struct Socket {
    address: String,
    protocol: Protocol,
    is_redis: bool,
    clients: BTreeMap<String, Connection>,
}

impl Socket {
    /// A door to the server at `address` (`host:port`).
    pub fn new(address: &str, protocol: Protocol, is_redis: bool) -> Socket {
        Socket { address: address.into(), protocol, is_redis, clients: BTreeMap::new() }
    }

    fn connect(&self) -> Result<Connection, String> {
        let mut connection =
            Connection::open(&self.address).map_err(|error| format!("{}: {error}", self.address))?;
        if self.protocol == Protocol::Resp3 {
            connection.call(&["HELLO", "3"]).map_err(|error| error.to_string())?;
        }
        Ok(connection)
    }
}

impl Door for Socket {
    fn name(&self) -> String {
        format!("{}, {}", self.address, protocol_name(self.protocol))
    }
    fn protocol(&self) -> Protocol {
        self.protocol
    }
    fn place(&self) -> Place {
        Place::Socket
    }
    fn is_redis(&self) -> bool {
        self.is_redis
    }
    fn reset(&mut self) -> Result<(), String> {
        self.clients.clear();
        match self.connect()?.call(&["FLUSHALL"]).map_err(|error| error.to_string())? {
            Answer::Status(ok) if ok == "OK" => Ok(()),
            other => Err(format!("FLUSHALL: {}", other.shown())),
        }
    }
    fn call(&mut self, client: &str, args: &[Vec<u8>]) -> Result<Answer, String> {
        if !self.clients.contains_key(client) {
            let connection = self.connect()?;
            self.clients.insert(client.into(), connection);
        }
        let Some(connection) = self.clients.get_mut(client) else {
            return Err(format!("no client {client}"));
        };
        connection.call(args).map_err(|error| error.to_string())
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Resp2 => "RESP2",
        Protocol::Resp3 => "RESP3",
    }
}
