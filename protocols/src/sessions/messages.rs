//! The sub-protocols of a WebSocket in which each message is a text: JSON, and whole lines as they are typed at a prompt. A
//! terminal that sends its keys is served by [`terminal`](super::terminal).
//!
//! | | `json` | `term` |
//! |---|---|---|
//! | a message of the client | `["SET","key","value"]` | `SET key "a value"`, or several lines |
//! | a reply | `{"reply":"OK"}` | `OK`, as `polder cli` prints it |
//! | an error | `{"error":"ERR ..."}` | `(error) ERR ...` |
//! | what comes unasked | `{"push":["message","news","hello"]}` | `1) "message"` ... |
//!
//! The sub-protocol `resp` is no protocol of its own: it is [`Resp`](super::resp::Resp) over another transport.
//!
//! **Invariant MS1:** each message in input and output has [`END`] behind it (`filter/framed`).
use polder_base::words::split;
use polder_base::{Protocol as RespVersion, Reply};
use polder_hub::Delivery;
use polder_runtime::{Session, pubsub};
use polder_wire::Output;
use polder_wire::http::{json, words};
use polder_wire::resp::{Replies, text};
use polder_wire::web_socket::END;

use super::form::Form;
use crate::batch::{Batch, Left, Odd};

/// The note of a frame whose reply is a text for people.
pub const REPORT: u32 = 1;

const SEVERAL: &str = "ERR a message is one command, an array of words; send one message for each command";
pub const QUOTES: &str = "ERR unbalanced quotes: a word ends with the quote that it began with";
const RESET: &str = "ERR RESET means nothing here: open another WebSocket for a fresh session";
const HELLO: &str = "ERR HELLO means nothing here: the sub-protocol of the WebSocket says how replies are written; AUTH logs in";

/// How messages are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    Json,
    Term,
}

/// Texts on one connection.
pub struct Messages {
    style: Style,
    /// Bytes of the next request that have been looked through and have no end in them.
    scanned: usize,
}

impl Messages {
    pub fn new(style: Style) -> Messages {
        Messages { style, scanned: 0 }
    }

    /// Like [`Protocol::read`](super::Protocol::read). If `stops_at_keys`, it ends in front of a message that [`is_key`].
    pub fn read<'b>(
        &mut self,
        session: &Session,
        input: &'b [u8],
        (at, place): (&mut usize, u32),
        batch: &mut Batch<'b>,
        stops_at_keys: bool,
    ) -> Left {
        while !batch.is_full() {
            let rest = &input[*at..];
            if stops_at_keys && is_key(rest) {
                return Left::Perhaps;
            }
            let new = &rest[self.scanned.min(rest.len())..];
            let end = match self.style {
                Style::Json => memchr::memchr(END, new),
                Style::Term => memchr::memchr2(END, b'\n', new),
            };
            let Some(end) = end.map(|end| end + rest.len() - new.len()) else {
                self.scanned = rest.len();
                return Left::Nothing;
            };
            self.scanned = 0;
            *at += end + 1;
            let (note, odd) = match self.style {
                Style::Json => (0, of_json(&rest[..end])),
                Style::Term => of_line(&rest[..end]),
            };
            batch.push_noted(place, note, odd, *at);
            // P2
            if !session.identity.authenticated {
                return Left::Perhaps;
            }
        }
        Left::Perhaps
    }

    /// As [`Protocol::reply`](super::Protocol::reply).
    pub fn reply<R>(&mut self, output: &mut Output, note: u32, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        let mut said = Output::new(self.version());
        let result = run(&mut said);
        if !said.is_empty() {
            self.append(output, &said.bytes(), note == REPORT);
        }
        result
    }

    fn version(&self) -> RespVersion {
        match self.style {
            Style::Json => RespVersion::Resp3,
            Style::Term => RespVersion::Resp2,
        }
    }

    /// Appends messages for some replies in RESP.
    fn append(&self, output: &mut Output, replies: &[u8], is_report: bool) {
        match self.style {
            Style::Json => append_json(output, replies),
            Style::Term => append_text(output, replies, is_report),
        }
    }

    pub fn form(&self) -> Form {
        match self.style {
            Style::Json => Form::Json,
            Style::Term => Form::Term,
        }
    }

    #[inline]
    pub fn forget_progress(&mut self) {
        self.scanned = 0;
    }
}

/// Returns true if a message can only be a key of a terminal: one character, or a text that begins with a control other than a line end.
pub fn is_key(input: &[u8]) -> bool {
    let Some(end) = memchr::memchr(END, input) else { return false };
    let Ok(message) = std::str::from_utf8(&input[..end]) else { return false };
    let mut letters = message.chars();
    match (letters.next(), letters.next()) {
        (Some(only), None) => only != '\n',
        (Some(first), Some(_)) => first.is_control() && !matches!(first, '\n' | '\r' | '\t'),
        (None, _) => false,
    }
}

/// Appends what comes unasked.
pub fn deliver(form: Form, output: &mut Output, delivery: &Delivery<'_>) {
    let messages = Messages::new(if form == Form::Term { Style::Term } else { Style::Json });
    let mut said = Output::new(messages.version());
    if let (Form::Json, Delivery::Call { line }) = (form, delivery) {
        said.push(2);
        said.bulk(b"monitor");
        said.bulk(line);
    } else {
        pubsub::write(&mut said, delivery);
    }
    messages.append(output, &said.bytes(), false);
}

/// A command in JSON.
fn of_json(message: &[u8]) -> Odd {
    match words::read(message) {
        Ok(words::Commands::One(words)) => of_words(words),
        Ok(words::Commands::List(_)) => Odd::Wrong(SEVERAL.into()),
        Err(why) => Odd::Wrong(format!("ERR {why}").into()),
    }
}

/// A command as it is typed.
fn of_line(line: &[u8]) -> (u32, Odd) {
    match split(line) {
        None => (0, Odd::Wrong(QUOTES.into())),
        Some(words) if words.is_empty() => (0, Odd::Nothing),
        Some(words) => (if text::is_report(&words) { REPORT } else { 0 }, of_words(words)),
    }
}

/// The frame of a command's words.
pub fn of_words(words: Vec<Vec<u8>>) -> Odd {
    match words.first() {
        None => Odd::Wrong("ERR a command has at least one word".into()),
        Some(name) if name.eq_ignore_ascii_case(b"hello") => Odd::Wrong(HELLO.into()),
        // It would change the form of replies, too.
        Some(name) if name.eq_ignore_ascii_case(b"reset") => Odd::Wrong(RESET.into()),
        Some(_) => Odd::Words(words),
    }
}

fn append_json(output: &mut Output, mut replies: &[u8]) {
    let mut message = Vec::new();
    while let Some(mark) = replies.first() {
        message.clear();
        let (before, after): (&[u8], &[u8]) = match mark {
            b'-' => (b"", b""),
            b'>' => (b"{\"push\":", b"}"),
            _ => (b"{\"reply\":", b"}"),
        };
        message.extend_from_slice(before);
        let length = json::append_resp(&mut message, replies);
        message.extend_from_slice(after);
        message.push(END);
        output.raw(&message);
        replies = &replies[length.min(replies.len())..];
    }
}

fn append_text(output: &mut Output, mut replies: &[u8], is_report: bool) {
    let mut reader = Replies::default();
    while let Ok(Some(value)) = reader.read(&mut replies) {
        let written = text::standard(&value, is_report);
        // A status or an error may have any bytes.
        output.raw(String::from_utf8_lossy(&written).as_bytes());
        output.raw(&[END]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(style: Style, replies: &[u8]) -> String {
        let mut output = Output::default();
        Messages::new(style).append(&mut output, replies, false);
        let bytes: Vec<u8> =
            output.bytes().iter().map(|byte| if *byte == END { b'|' } else { *byte }).collect();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn replies_errors_and_pushes_are_told_apart() {
        let replies =
            b"+OK\r\n-ERR no\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n\xff|\r\n%1\r\n$5\r\nerror\r\n_\r\n";
        assert_eq!(
            written(Style::Json, replies),
            r#"{"reply":"OK"}|{"error":"ERR no"}|{"push":["message","a",{"base64":"/3w="}]}|{"reply":{"error":null}}|"#
        );
        assert_eq!(
            written(Style::Term, b"+OK\r\n-ERR no\r\n*2\r\n$1\r\na\r\n$1\r\n\xff\r\n+\xff\r\n"),
            "OK\n|(error) ERR no\n|1) \"a\"\n2) \"\\xff\"\n|\u{fffd}\n|"
        );
    }

    #[test]
    fn what_is_no_command_gets_an_error() {
        let wrong = |odd| matches!(odd, Odd::Wrong(_));
        for message in [
            "",
            "[",
            "[]",
            "{}",
            "\"GET\"",
            "[[\"GET\",\"a\"]]",
            "[null]",
            "[\"hello\",3]",
            "[\"GET\",\"a\"] x",
        ] {
            assert!(wrong(of_json(message.as_bytes())), "{message}");
        }
        for (message, expected) in [
            ("s", true),
            (" ", true),
            ("\r", true),
            ("\t", true),
            ("\x7f", true),
            ("\u{e9}", true),
            ("\x1b[A", true),
            ("\x1b[200~GET a\x1b[201~", true),
            ("", false),
            ("\n", false),
            ("\r\n", false),
            ("\tGET a", false),
            ("GET a", false),
            ("GET a\r", false),
        ] {
            let whole = [message.as_bytes(), &[END]].concat();
            assert_eq!(is_key(&whole), expected, "{message:?}");
            assert!(!is_key(message.as_bytes()), "{message:?} has not come whole");
        }
        for line in ["GET \"a", "hello 3", "RESET", "GET 'a'b"] {
            assert!(wrong(of_line(line.as_bytes()).1), "{line}");
        }
        assert!(
            matches!(of_line(b"  ").1, Odd::Nothing)
                && of_line(b"INFO").0 == REPORT
                && of_line(b"GET a").0 == 0
        );
    }
}
