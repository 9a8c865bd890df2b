//! A client of NATS that sends what it is told and shows what comes, for any server that speaks the protocol.
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use polder_testbase::PATIENCE;

use crate::process::on_path;

/// A piece of what a server sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A line: `PONG`, `+OK`, `-ERR '...'`, `INFO {...}`.
    Line(String),
    Message(Message),
    /// The end of the connection.
    End,
}

/// MSG or HMSG.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Message {
    pub subject: String,
    pub sid: String,
    pub reply: String,
    pub headers: String,
    pub payload: String,
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    held: Vec<u8>,
    /// The line of INFO.
    pub info: String,
}

/// The usual options of a client.
pub const OPTIONS: &str = r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;

impl Connection {
    /// A connection that has read INFO, and has sent nothing.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn bare(port: u16) -> io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut connection = Connection { stream, held: Vec::new(), info: String::new() };
        match connection.event()? {
            Event::Line(line) if line.starts_with("INFO ") => connection.info = line,
            other => return Err(io::Error::other(format!("{other:?} in the place of INFO"))),
        }
        Ok(connection)
    }

    /// A connection that has sent its options.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn open(port: u16, options: &str) -> io::Result<Connection> {
        let mut connection = Connection::bare(port)?;
        connection.send(&format!("CONNECT {options}\r\n"))?;
        Ok(connection)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }

    /// The next thing that comes.
    ///
    /// # Errors
    /// Those of the socket, but for its end.
    pub fn event(&mut self) -> io::Result<Event> {
        let Some(line) = self.line()? else { return Ok(Event::End) };
        let words: Vec<&str> = line.split(' ').collect();
        let has_headers = words[0] == "HMSG";
        if words[0] != "MSG" && !has_headers {
            return Ok(Event::Line(line));
        }
        let number = |word: &str| word.parse().map_err(|_| io::Error::other(format!("no length in {line}")));
        let (reply, lengths) = match (&words[3..], has_headers) {
            ([all], false) => ("", (0, number(all)?)),
            ([reply, all], false) => (*reply, (0, number(all)?)),
            ([head, all], true) => ("", (number(head)?, number(all)?)),
            ([reply, head, all], true) => (*reply, (number(head)?, number(all)?)),
            _ => return Err(io::Error::other(line)),
        };
        let (head, all): (usize, usize) = lengths;
        let body = self.bytes(all + 2)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Event::Message(Message {
            subject: words[1].into(),
            sid: words[2].into(),
            reply: reply.into(),
            headers: text(&body[..head]),
            payload: text(&body[head..all]),
        }))
    }

    /// The next message; lines before it are passed by.
    ///
    /// # Errors
    /// Those of the socket, and its end.
    pub fn message(&mut self) -> io::Result<Message> {
        loop {
            match self.event()? {
                Event::Message(message) => return Ok(message),
                Event::Line(_) => {}
                Event::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// The messages up to the reply to a PING: the server has executed all before it.
    ///
    /// # Errors
    /// Those of the socket, and its end.
    pub fn settle(&mut self) -> io::Result<Vec<Message>> {
        self.send("PING\r\n")?;
        let mut messages = Vec::new();
        loop {
            match self.event()? {
                Event::Message(message) => messages.push(message),
                Event::Line(line) if line == "PONG" => return Ok(messages),
                Event::Line(line) if line == "PING" => self.send("PONG\r\n")?,
                Event::Line(line) => return Err(io::Error::other(line)),
                Event::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// All that comes up to the reply to the last of `pongs` PINGs or to the end, as it came.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn all(&mut self, mut pongs: usize) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let event = self.event()?;
            pongs -= usize::from(event == Event::Line("PONG".into()));
            let is_last = pongs == 0 || event == Event::End;
            events.push(event);
            if is_last {
                return Ok(events);
            }
        }
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.held, b"\r\n") {
                let line = String::from_utf8_lossy(&self.held[..end]).into_owned();
                self.held.drain(..end + 2);
                return Ok(Some(line));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.held.len() < count {
            if !self.more()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.held.drain(..count).collect())
    }

    fn more(&mut self) -> io::Result<bool> {
        let mut room = [0; 64 << 10];
        match self.stream.read(&mut room) {
            Ok(count) => {
                self.held.extend_from_slice(&room[..count]);
                Ok(count > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A real nats-server: the one that POLDER_NATS_SERVER names, or the one on the path.
pub fn nats_server() -> Option<PathBuf> {
    std::env::var_os("POLDER_NATS_SERVER").map(PathBuf::from).or_else(|| on_path("nats-server"))
}
