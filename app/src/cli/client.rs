//! One user's conversation: connecting, running a command and printing what comes back.
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polder_wire::resp::Value;
use polder_wire::resp::text::{self, Form, Format};

use super::arguments::Arguments;
use crate::link::{Link, Login, Place};
use crate::text::reason;

/// How often a stream of messages looks whether the user has had enough.
const GLANCE: Duration = Duration::from_millis(100);

/// How a command ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ran {
    Answered,
    /// The memory answered an error, which has been printed.
    Refused(Vec<u8>),
    /// There is no connection, and why.
    Lost(String),
}

/// A user's conversation.
pub struct Client {
    pub place: Place,
    pub login: Login,
    pub format: Format,
    link: Option<Link>,
    show_pushes: bool,
    /// Errors go to standard error, without decoration (`-e`).
    plain_errors: bool,
    /// Whether MULTI is open.
    pub multi: bool,
    /// Set by Ctrl-C while a reply or messages are awaited; only at a prompt.
    pub interrupted: Arc<AtomicBool>,
    /// Ctrl-C ends what is awaited and not the process.
    pub interruptible: bool,
}

impl Client {
    /// A client that is not connected yet.
    ///
    /// # Errors
    /// A line that says what is wrong with the arguments.
    pub fn new(arguments: &Arguments) -> Result<Client, String> {
        let (place, login) = arguments.target()?;
        let show_pushes = arguments
            .show_pushes
            .as_ref()
            .map_or_else(|| io::stdout().is_terminal(), |answer| answer == "yes");
        Ok(Client {
            place,
            login,
            format: arguments.format(),
            link: None,
            show_pushes,
            plain_errors: arguments.error_status,
            multi: false,
            interrupted: Arc::default(),
            interruptible: false,
        })
    }

    /// Connects anew and logs in; what the server refuses is said on standard error.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect(&mut self) -> Result<&mut Link, String> {
        self.finish();
        self.link = None;
        self.multi = false;
        let mut link = Link::open(&self.place).map_err(|error| self.unreachable(&error))?;
        if let Some(refused) =
            link.login(&self.login).map_err(|error| format!("Error: {}", reason(&error)))?
        {
            eprintln!("{refused}");
            if refused.starts_with("SELECT") {
                self.login.db = 0;
            }
        }
        Ok(self.link.insert(link))
    }

    /// The connection, made now if there is none.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connected(&mut self) -> Result<&mut Link, String> {
        if self.link.is_none() {
            self.connect()?;
        }
        self.link.as_mut().ok_or_else(|| "not connected".into())
    }

    /// Whether there is a connection, as far as we know.
    pub fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    fn unreachable(&self, error: &io::Error) -> String {
        match &self.place {
            Place::Segment(name, _) => format!("Could not attach the segment {name}: {}", reason(error)),
            place => format!("Could not connect to Redis at {place}: {}", reason(error)),
        }
    }

    /// Whether Ctrl-C ends only what these words do: the wait for a server's reply, or a stream of messages. A command on a segment runs in
    /// this process and ends with it; the segment is safe from that.
    pub fn outlives_interrupt(&self, args: &[Vec<u8>]) -> bool {
        !matches!(self.place, Place::Segment(..)) || Stream::of(args).is_some()
    }

    /// The next reply; `Interrupted` when the user has had enough of waiting for it.
    fn reply(&mut self) -> io::Result<Value> {
        let Some(link) = self.link.as_mut() else { return Err(ErrorKind::NotConnected.into()) };
        if !self.interruptible {
            return link.receive();
        }
        link.set_patience(Some(GLANCE))?;
        loop {
            let received = link.receive();
            if self.interrupted.load(Ordering::Relaxed) && received.is_err() {
                return Err(ErrorKind::Interrupted.into());
            }
            match received {
                Err(error) if is_pause(&error) => {}
                received => {
                    link.set_patience(None)?;
                    return received;
                }
            }
        }
    }

    /// Sends one command and waits for its reply.
    fn ask(&mut self, args: &[Vec<u8>]) -> io::Result<Value> {
        self.link.as_mut().ok_or(ErrorKind::NotConnected)?.send(args)?;
        self.reply()
    }

    /// Ends a wait for a reply: the server forgets what was asked for with the connection, and the next command finds a fresh one.
    fn give_up(&mut self) -> Ran {
        let was_multi = self.multi;
        match self.connect() {
            Ok(_) if was_multi => {
                eprintln!("Interrupted: the connection was made anew, and the transaction is gone")
            }
            Ok(_) => eprintln!("Interrupted: the connection was made anew"),
            Err(text) => return Ran::Lost(text),
        }
        Ran::Answered
    }

    /// Runs one command and prints what comes back; a connection that has died meanwhile is made anew once.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn run(&mut self, args: &[Vec<u8>], out: &mut dyn Write) -> io::Result<Ran> {
        let used = self.link.is_some();
        self.interrupted.store(false, Ordering::Relaxed);
        if let Err(text) = self.connected() {
            return Ok(self.lost(text));
        }
        let mut answer = self.ask(args);
        if used && answer.as_ref().is_err_and(|error| error.kind() != ErrorKind::Interrupted) {
            answer = match self.connect() {
                Ok(_) => self.ask(args),
                Err(text) => return Ok(self.lost(text)),
            };
        }
        let mut value = match answer {
            Ok(value) => value,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(self.give_up()),
            Err(error) => return Ok(self.lost(reason(&error))),
        };
        let stream = Stream::of(args);
        if stream == Some(Stream::Messages)
            && !matches!(value, Value::Error(_))
            && self.format.form != Form::Raw
        {
            writeln!(out, "Reading messages... (press Ctrl-C to quit)")?;
        }
        while let (Value::Push(_), None) = (&value, stream) {
            self.print_push(&value, out)?;
            match self.reply() {
                Ok(next) => value = next,
                Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(self.give_up()),
                Err(error) => return Ok(self.lost(reason(&error))),
            }
        }
        self.note(args, &value);
        if let Value::Error(text) = value {
            self.print_error(&text, out)?;
            return Ok(Ran::Refused(text));
        }
        out.write_all(&self.format.text(&value, text::is_report(args)))?;
        out.flush()?;
        if stream.is_some() { self.stream(out) } else { Ok(Ran::Answered) }
    }

    /// Waits for a save that goes on in this process, at the end of a conversation. Returns whether it went well.
    pub fn finish(&mut self) -> bool {
        match self.link.as_mut().map_or(Ok(None), Link::finish) {
            Ok(said) => {
                said.iter().for_each(|text| eprintln!("{text}"));
                true
            }
            Err(text) => {
                eprintln!("{text}");
                false
            }
        }
    }

    fn lost(&mut self, text: String) -> Ran {
        self.link = None;
        self.multi = false;
        Ran::Lost(if text.starts_with("Could not") { text } else { format!("Error: {text}") })
    }

    fn print_error(&self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        if self.plain_errors {
            eprintln!("{}", String::from_utf8_lossy(text));
            return Ok(());
        }
        out.write_all(&self.format.text(&Value::Error(text.to_vec()), false))?;
        out.flush()
    }

    fn print_push(&self, value: &Value, out: &mut dyn Write) -> io::Result<()> {
        if self.show_pushes { out.write_all(&self.format.text(value, false)) } else { Ok(()) }
    }

    /// Prints whatever comes, until the connection ends or the user has had enough.
    fn stream(&mut self, out: &mut dyn Write) -> io::Result<Ran> {
        let format = self.format.clone();
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                // The subscription ends with its connection; the next command finds a fresh one.
                return Ok(self.connect().err().map_or(Ran::Answered, Ran::Lost));
            }
            let Some(link) = self.link.as_mut() else { return Ok(Ran::Answered) };
            link.set_patience(Some(GLANCE))?;
            match link.receive() {
                Ok(value) => {
                    out.write_all(&format.text(&value, false))?;
                    out.flush()?;
                }
                Err(error) if is_pause(&error) => {}
                Err(error) => return Ok(self.lost(reason(&error))),
            }
        }
    }

    /// Keeps up with what commands do to the connection, for the prompt and for connecting anew.
    fn note(&mut self, args: &[Vec<u8>], value: &Value) {
        let failed = matches!(value, Value::Error(_));
        let name = args[0].to_ascii_lowercase();
        match name.as_slice() {
            b"multi" if !failed => self.multi = true,
            b"exec" | b"discard" => self.multi = false,
            b"select" if !failed && !self.multi => {
                let number = args.get(1).and_then(|arg| std::str::from_utf8(arg).ok()?.parse().ok());
                self.login.db = number.unwrap_or(self.login.db);
            }
            b"reset" if !failed => {
                self.multi = false;
                self.login.db = 0;
            }
            b"hello" if !failed => self.login.resp3 = args.get(1).map_or(self.login.resp3, |arg| arg == b"3"),
            _ => {}
        }
    }
}

/// Whether nothing has come yet, and no connection has ended.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Commands after which messages come without asking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Monitor,
    Messages,
}

impl Stream {
    fn of(args: &[Vec<u8>]) -> Option<Stream> {
        match args.first()?.to_ascii_lowercase().as_slice() {
            b"monitor" => Some(Stream::Monitor),
            b"subscribe" | b"psubscribe" | b"ssubscribe" | b"subj.sub" => Some(Stream::Messages),
            _ => None,
        }
    }
}
