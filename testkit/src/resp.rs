//! A plain blocking RESP client, written apart from `wire` so that the one can be checked with the other.
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::answer::Answer;

/// How long a reply may take before the test fails: far above anything a healthy server needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// One connection to a server that speaks RESP.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to `address` (`host:port`).
    ///
    /// # Errors
    /// Those of the socket.
    pub fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { reader: BufReader::new(stream) })
    }

    /// Sends one command and waits for its reply; pushes that come first are dropped.
    ///
    /// # Errors
    /// Those of the socket; `InvalidData` when the peer does not speak RESP.
    pub fn call(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<Answer> {
        self.send(args)?;
        loop {
            match self.receive()? {
                Answer::Push(items) if !is_reply(&items) => continue,
                answer => return Ok(answer),
            }
        }
    }

    /// Sends one command without waiting.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.reader.get_mut().write_all(&framed(args))
    }

    /// Sends commands that are framed already.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send_framed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// The next frame.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn receive(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let (mark, text) = line.split_at_checked(1).ok_or_else(|| malformed("an empty line"))?;
        match mark {
            "+" => Ok(Answer::Status(text.into())),
            "-" => Ok(Answer::Error(text.into())),
            ":" => Ok(Answer::Integer(number(text)?)),
            "_" => Ok(Answer::Nil),
            "#" => Ok(Answer::Boolean(text == "t")),
            "," => Ok(Answer::Double(text.into())),
            "(" => Ok(Answer::BigNumber(text.into())),
            "$" => Ok(self.block(text)?.map_or(Answer::Nil, Answer::Bulk)),
            "!" => Ok(Answer::Error(
                String::from_utf8_lossy(&self.block(text)?.unwrap_or_default()).into_owned(),
            )),
            "=" => self.verbatim(text),
            "*" if text == "-1" => Ok(Answer::Nil),
            "*" => Ok(Answer::Array(self.many(text)?)),
            "~" => Ok(Answer::Set(self.many(text)?)),
            ">" => Ok(Answer::Push(self.many(text)?)),
            "%" => Ok(Answer::Map(self.pairs(text)?)),
            "|" => {
                self.pairs(text)?;
                self.receive()
            }
            _ => Err(malformed(&line)),
        }
    }

    /// Returns true if nothing comes in this time, nor the end.
    pub fn is_silent(&mut self, time: Duration) -> bool {
        let is_set = |stream: &TcpStream, time| stream.set_read_timeout(Some(time)).is_ok();
        let silent = is_set(self.reader.get_ref(), time)
            && self.reader.fill_buf().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        silent && is_set(self.reader.get_ref(), PATIENCE)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        let text = line
            .strip_suffix(b"\r\n")
            .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"))?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn block(&mut self, length: &str) -> io::Result<Option<Vec<u8>>> {
        let Ok(length) = usize::try_from(number(length)?) else {
            return Ok(None);
        };
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes)?;
        if !bytes.ends_with(b"\r\n") {
            return Err(malformed("a block without its end"));
        }
        bytes.truncate(length);
        Ok(Some(bytes))
    }

    fn verbatim(&mut self, length: &str) -> io::Result<Answer> {
        let bytes = self.block(length)?.unwrap_or_default();
        let (format, text) =
            bytes.split_at_checked(4).ok_or_else(|| malformed("verbatim text without a format"))?;
        Ok(Answer::Verbatim {
            format: String::from_utf8_lossy(&format[..3]).into_owned(),
            text: text.to_vec(),
        })
    }

    fn many(&mut self, count: &str) -> io::Result<Vec<Answer>> {
        (0..number(count)?).map(|_| self.receive()).collect()
    }

    fn pairs(&mut self, count: &str) -> io::Result<Vec<(Answer, Answer)>> {
        (0..number(count)?).map(|_| Ok((self.receive()?, self.receive()?))).collect()
    }
}

/// One command as RESP frames it.
pub fn framed(args: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Whether a push is the reply of a command (as of SUBSCRIBE) instead of coming on its own.
fn is_reply(items: &[Answer]) -> bool {
    let tells =
        |word: &[u8]| word.ends_with(b"subscribe") || [&b"subj.sub"[..], b"subj.unsub"].contains(&word);
    matches!(items.first(), Some(Answer::Bulk(word)) if tells(word))
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP: {what}"))
}
