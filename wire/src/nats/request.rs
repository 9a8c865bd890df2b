//! Operations of a client.
use smallvec::SmallVec;

use super::LINE_BYTES_MAX;

/// One operation; its parts are slices of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation<'b> {
    /// The options, in JSON.
    Connect(&'b [u8]),
    Publish(Publish<'b>),
    /// The queue is empty where none is named.
    Subscribe {
        subject: &'b [u8],
        queue: &'b [u8],
        sid: &'b [u8],
    },
    /// After `max` messages (digits), or at once where that is empty.
    Unsubscribe {
        sid: &'b [u8],
        max: &'b [u8],
    },
    Ping,
    Pong,
    /// A word of the server's side, which means nothing from a client: `+OK`, `INFO`.
    Nothing,
}

/// PUB or HPUB. Reply and headers are empty where there are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Publish<'b> {
    pub subject: &'b [u8],
    pub reply: &'b [u8],
    pub headers: &'b [u8],
    pub payload: &'b [u8],
}

/// An offence against the protocol, which ends the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// No operation.
    Operation,
    /// An operation with wrong arguments.
    Arguments,
    /// A line without an end.
    Line,
    /// A payload that is longer than the server takes.
    Payload,
}

impl Violation {
    /// The words of nats-server, which closes some connections without a word.
    pub fn text(self) -> Option<&'static str> {
        match self {
            Violation::Operation => Some("Unknown Protocol Operation"),
            Violation::Arguments => None,
            Violation::Line => Some("maximum control line exceeded"),
            Violation::Payload => Some("Maximum Payload Violation"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Connect,
    Pub,
    HPub,
    Sub,
    Unsub,
    Ping,
    Pong,
    /// A word of the server's side, without a meaning here.
    Foreign,
    /// An error of the server's side.
    Error,
}

impl Verb {
    /// Returns true if the rest of the line is ignored.
    fn takes_more(self) -> bool {
        matches!(self, Verb::Ping | Verb::Pong | Verb::Foreign)
    }
}

const VERBS: [(&[u8], Verb); 10] = [
    (b"PUB", Verb::Pub),
    (b"SUB", Verb::Sub),
    (b"HPUB", Verb::HPub),
    (b"UNSUB", Verb::Unsub),
    (b"PING", Verb::Ping),
    (b"PONG", Verb::Pong),
    (b"CONNECT", Verb::Connect),
    (b"+OK", Verb::Foreign),
    (b"INFO", Verb::Foreign),
    (b"-ERR", Verb::Error),
];

/// The longest line with its verb, in bytes without its end.
const WHOLE_LINE_BYTES_MAX: usize = LINE_BYTES_MAX + b"CONNECT".len();

type Words<'b> = SmallVec<[&'b [u8]; 6]>;

/// The reader of one connection: what it remembers of an operation that has not come whole.
#[derive(Default)]
pub struct Requests {
    /// This many bytes of the next operation have no end of a line.
    searched: usize,
    /// The length of the next operation, if its line has come.
    announced: usize,
}

impl Requests {
    /// The operation at the front of `input` and its length; `None` while it has not come whole.
    ///
    /// # Errors
    /// An offence, after which nothing can be read.
    pub fn read<'b>(
        &mut self,
        input: &'b [u8],
        payload_bytes_max: usize,
    ) -> Result<Option<(Operation<'b>, usize)>, Violation> {
        if input.len() < self.announced {
            return Ok(None);
        }
        let searched = self.searched.min(input.len());
        let Some(end) = memchr::memchr(b'\n', &input[searched..]).map(|found| found + searched) else {
            self.searched = input.len();
            return self.judge_part(input);
        };
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        let (verb, rest) = verb_of(line).ok_or(Violation::Operation)?;
        if line.len() > WHOLE_LINE_BYTES_MAX || rest.len() > LINE_BYTES_MAX {
            return Err(Violation::Line);
        }
        if let Verb::Pub | Verb::HPub = verb {
            let Some((publish, length)) =
                self.read_publish(verb, rest, input, (end + 1, payload_bytes_max))?
            else {
                return Ok(None);
            };
            *self = Requests::default();
            return Ok(Some((Operation::Publish(publish), length)));
        }
        self.searched = 0;
        let words: Words<'b> = words_of(rest);
        let operation = match (verb, &words[..]) {
            // Nothing stands behind the verb, not even a blank.
            (Verb::Sub | Verb::Unsub, _) if rest.is_empty() => return Err(Violation::Operation),
            (Verb::Connect, _) => Operation::Connect(rest.trim_ascii()),
            (Verb::Sub, [subject, sid]) => Operation::Subscribe { subject, queue: b"", sid },
            (Verb::Sub, [subject, queue, sid]) => Operation::Subscribe { subject, queue, sid },
            (Verb::Unsub, [sid]) => Operation::Unsubscribe { sid, max: b"" },
            // A number that cannot be read, or none above 0, is no limit.
            (Verb::Unsub, [sid, max]) => {
                Operation::Unsubscribe { sid, max: number(max).filter(|max| *max > 0).map_or(b"", |_| max) }
            }
            (Verb::Ping, _) => Operation::Ping,
            (Verb::Pong, _) => Operation::Pong,
            (Verb::Foreign, _) => Operation::Nothing,
            _ => return Err(Violation::Arguments),
        };
        Ok(Some((operation, end + 1)))
    }

    /// A line without an end: not yet, or never.
    fn judge_part(&self, input: &[u8]) -> Result<Option<(Operation<'static>, usize)>, Violation> {
        if input.len() > WHOLE_LINE_BYTES_MAX + 1 {
            return Err(Violation::Line);
        }
        let word =
            &input[..input.iter().position(|byte| is_blank(*byte) || *byte == b'\r').unwrap_or(input.len())];
        let may_be = |(verb, kind): &(&[u8], Verb)| {
            let common = word.len().min(verb.len());
            (word.len() <= verb.len() || kind.takes_more())
                && verb[..common].eq_ignore_ascii_case(&word[..common])
        };
        if !VERBS.iter().any(may_be) {
            return Err(Violation::Operation);
        }
        if input.len() - word.len() > LINE_BYTES_MAX + 1 { Err(Violation::Line) } else { Ok(None) }
    }

    fn read_publish<'b>(
        &mut self,
        verb: Verb,
        rest: &'b [u8],
        input: &'b [u8],
        (begin, payload_bytes_max): (usize, usize),
    ) -> Result<Option<(Publish<'b>, usize)>, Violation> {
        if rest.is_empty() {
            return Err(Violation::Operation);
        }
        let words: Words<'b> = words_of(rest);
        let (subject, reply, head, all): (&[u8], &[u8], &[u8], &[u8]) = match (verb, &words[..]) {
            (Verb::Pub, [subject, all]) => (subject, b"", b"0", all),
            (Verb::Pub, [subject, reply, all]) => (subject, reply, b"0", all),
            (Verb::HPub, [subject, head, all]) => (subject, b"", head, all),
            (Verb::HPub, [subject, reply, head, all]) => (subject, reply, head, all),
            _ => return Err(Violation::Arguments),
        };
        let (Some(head), Some(all)) = (number(head), number(all)) else { return Err(Violation::Arguments) };
        if head > all {
            return Err(Violation::Arguments);
        }
        if all > payload_bytes_max {
            return Err(Violation::Payload);
        }
        let length = begin + all + 2;
        let Some(whole) = input.get(begin..length) else {
            self.announced = length;
            // The end of the line has been found, and is found again at once.
            self.searched = begin - 1;
            return Ok(None);
        };
        let (body, end) = whole.split_at(all);
        if end != b"\r\n" {
            return Err(Violation::Operation);
        }
        let (headers, payload) = body.split_at(head);
        Ok(Some((Publish { subject, reply, headers, payload }, length)))
    }

    /// The bytes of a long operation that are still to come, if that is known; `have` bytes of it are there.
    pub fn missing(&self, have: usize) -> usize {
        self.announced.saturating_sub(have)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The verb of a line, and what follows it.
fn verb_of(line: &[u8]) -> Option<(Verb, &[u8])> {
    let end = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    let is_it = |(verb, kind): &&(&[u8], Verb)| {
        let shown = if kind.takes_more() { &word[..verb.len().min(word.len())] } else { word };
        verb.eq_ignore_ascii_case(shown)
    };
    let (_, verb) = VERBS.iter().find(is_it)?;
    Some((*verb, rest))
}

fn words_of(rest: &[u8]) -> Words<'_> {
    rest.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty()).take(6).collect()
}

/// A number of at most nine digits, as many as nats-server takes.
fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All operations of an input that comes in two pieces, or the offence.
    fn read(input: &[u8], split: usize) -> Result<Vec<String>, Violation> {
        let mut requests = Requests::default();
        let (mut at, mut found) = (0, Vec::new());
        for end in [split, input.len()] {
            while let Some((operation, length)) = requests.read(&input[at..end], 100)? {
                found.push(shown(operation));
                at += length;
            }
        }
        assert_eq!(at, input.len(), "all of it is read");
        Ok(found)
    }

    fn shown(operation: Operation<'_>) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match operation {
            Operation::Connect(options) => format!("connect {}", text(options)),
            Operation::Publish(Publish { subject, reply, headers, payload }) => {
                format!("pub {}|{}|{}|{}", text(subject), text(reply), text(headers), text(payload))
            }
            Operation::Subscribe { subject, queue, sid } => {
                format!("sub {}|{}|{}", text(subject), text(queue), text(sid))
            }
            Operation::Unsubscribe { sid, max } => format!("unsub {}|{}", text(sid), text(max)),
            other => format!("{other:?}"),
        }
    }

    const ALL: &[u8] = b"CONNECT {\"verbose\":false}\r\nPING\r\nsub a.*  1\nSUB\ta q 2\r\nPUB a 5\r\nhello\r\nPub a r 0\r\n\r\n\
        HPUB a 12 15\r\nNATS/1.0\r\n\r\nabc\r\nhpub a r 0 3\r\nabc\r\nUNSUB 1\r\nUNSUB 2 5\r\nUNSUB 3 x\r\nPONG\r\n+OK\r\nINFO {}\r\nPINGX\r\n";

    #[test]
    fn operations_are_read_wherever_the_input_is_cut() {
        let expected = [
            "connect {\"verbose\":false}",
            "Ping",
            "sub a.*||1",
            "sub a|q|2",
            "pub a|||hello",
            "pub a|r||",
            "pub a||NATS/1.0\r\n\r\n|abc",
            "pub a|r||abc",
            "unsub 1|",
            "unsub 2|5",
            "unsub 3|",
            "Pong",
            "Nothing",
            "Nothing",
            "Ping",
        ];
        for split in 0..=ALL.len() {
            assert_eq!(read(ALL, split).as_deref(), Ok(&expected.map(String::from)[..]), "cut at {split}");
        }
    }

    #[test]
    fn offences_are_found_wherever_the_input_is_cut() {
        let long = [b"SUB ", "x".repeat(LINE_BYTES_MAX + 1).as_bytes(), b" 1\r\n"].concat();
        let cases: [(&[u8], Violation); 13] = [
            (b"GET / HTTP/1.1\r\n", Violation::Operation),
            (b"\r\n", Violation::Operation),
            (b"PUB\r\n", Violation::Operation),
            (b"PUB a\r\n", Violation::Arguments),
            (b"PUB a b c 1\r\n", Violation::Arguments),
            (b"PUB a -1\r\n", Violation::Arguments),
            (b"PUB a 3\r\nhello\r\n", Violation::Operation),
            (b"HPUB a 4 3\r\nabc\r\n", Violation::Arguments),
            (b"SUB a\r\n", Violation::Arguments),
            (b"-ERR 'x'\r\n", Violation::Arguments),
            (b"UNSUB\r\n", Violation::Operation),
            (b"PUB a 101\r\n", Violation::Payload),
            (&long, Violation::Line),
        ];
        for (input, violation) in cases {
            for split in 0..=input.len() {
                assert_eq!(
                    read(input, split),
                    Err(violation),
                    "{:?} cut at {split}",
                    String::from_utf8_lossy(input)
                );
            }
        }
    }

    #[test]
    fn strange_bytes_are_refused_before_their_line_ends() {
        for (input, violation) in
            [(&b"\x16\x03\x01"[..], Violation::Operation), (b"PUX", Violation::Operation)]
        {
            assert_eq!(Requests::default().read(input, 100), Err(violation));
        }
        let endless = [b"PUB ".to_vec(), vec![b'a'; LINE_BYTES_MAX + 10]].concat();
        assert_eq!(Requests::default().read(&endless, 100), Err(Violation::Line));
        assert_eq!(Requests::default().read(b"PU", 100), Ok(None));
    }
}
