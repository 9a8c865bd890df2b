//! Sequences of memcached's commands for Polder and for a real memcached: their replies must be equal.
//!
//! ```text
//!   seed, number --> generate --> steps --> render (names, CAS told) --> connections of each side --> parse --> compare
//!                                                 ^                                                    |
//!                                                 +------ what this side told: CAS by key, in order <--+
//! ```
//! A step names a CAS by its place among those that were told of a key, and each side fills in its own number. The
//! numbers of a reply are compared by these places: where memcached repeats a CAS, Polder repeats it, and where
//! memcached draws a new one, so does Polder.
//!
//! Sequences run in groups, in lockstep: a round sends the next step of each sequence. Each sequence has keys of its
//! own, so the order within a round means nothing.
//!
//! Differences on purpose stand with their reasons in `memcached/differences.md`, whose names [`rules::Rule`] knows.
pub mod compare;
pub mod connections;
pub mod generate;
pub mod parse;
pub mod rules;
pub mod run;

use std::time::{SystemTime, UNIX_EPOCH};

/// The keys of a sequence. The last is base64 wherever a command allows that.
pub const KEYS: usize = 3;
pub const BASE64_KEY: usize = KEYS - 1;

/// The numbers that clients choose as a CAS. No server draws so large a number in a test.
pub const CHOSEN: [u64; 3] = [1 << 50, (1 << 50) + 1, (1 << 60) + 77];

/// A wrong CAS, where none has been told yet.
const NEVER_TOLD: u64 = (1 << 62) + 3;

/// The connection of a side that a step uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The first or second connection with the text protocol.
    Text(usize),
    Binary,
    Udp,
}

/// A CAS in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cas {
    /// The CAS that was told of this key last, or the one `back` places before it.
    Told {
        key: usize,
        back: usize,
    },
    Number(u64),
}

/// A part of a request of the text protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    Bytes(Vec<u8>),
    Key(usize),
    /// The key as base64.
    Base64(usize),
    Cas(Cas),
    /// A Unix time, in seconds from now.
    Time(i64),
}

/// The request of one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    Text(Vec<Piece>),
    Binary {
        opcode: u8,
        key: usize,
        extras: Vec<u8>,
        value: Vec<u8>,
        cas: Cas,
    },
    /// Time passes, until what was to expire in a second has expired.
    Wait,
    /// `flush_all`, for all sequences of a group.
    Flush,
}

/// Facts of a key after a step, by which replies are compared less strictly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loose {
    /// A number may have become shorter, which memcached pads with blanks.
    pub padded: bool,
    /// A counter may have lost its marks.
    pub counted: bool,
    /// memcached may have lost an expiry.
    pub expiry: bool,
}

/// One step of a sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub way: Way,
    pub key: usize,
    pub request: Request,
    pub loose: [Loose; KEYS],
}

/// The CAS numbers that one side has told in one sequence.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Each CAS of a key, in the order in which they were seen first.
    numbers: [Vec<u64>; KEYS],
}

impl Told {
    /// The place of a CAS among those of its key.
    pub fn place(&mut self, key: usize, cas: u64) -> usize {
        let numbers = &mut self.numbers[key];
        numbers.iter().position(|known| *known == cas).unwrap_or_else(|| {
            numbers.push(cas);
            numbers.len() - 1
        })
    }

    fn number(&self, cas: Cas) -> u64 {
        match cas {
            Cas::Number(number) => number,
            Cas::Told { key, back } => {
                self.numbers[key].iter().rev().nth(back).copied().unwrap_or(NEVER_TOLD)
            }
        }
    }
}

/// The name of a key, which begins with the name of its sequence.
pub fn name(sequence: &str, key: usize) -> String {
    format!("{sequence}{}", ["a", "b", "c"][key])
}

/// The bytes of a request as one side gets it, without what marks its end.
pub fn render(step: &Step, sequence: &str, told: &Told) -> Vec<u8> {
    match &step.request {
        Request::Text(pieces) => {
            pieces.iter().flat_map(|piece| render_piece(piece, sequence, told)).collect()
        }
        Request::Binary { opcode, key, extras, value, cas } => {
            let key = name(sequence, *key);
            packet(*opcode, key.as_bytes(), extras, value, told.number(*cas))
        }
        Request::Flush => b"flush_all\r\n".to_vec(),
        Request::Wait => Vec::new(),
    }
}

fn render_piece(piece: &Piece, sequence: &str, told: &Told) -> Vec<u8> {
    match piece {
        Piece::Bytes(bytes) => bytes.clone(),
        Piece::Key(key) => name(sequence, *key).into_bytes(),
        Piece::Base64(key) => base64(name(sequence, *key).as_bytes()).into_bytes(),
        Piece::Cas(cas) => told.number(*cas).to_string().into_bytes(),
        Piece::Time(seconds) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
            (now + seconds).to_string().into_bytes()
        }
    }
}

/// A request of the binary protocol.
pub fn packet(opcode: u8, key: &[u8], extras: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    bytes.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(b"opaq");
    bytes.extend_from_slice(&cas.to_be_bytes());
    [&bytes, extras, key, value].concat()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let sum =
            group.iter().enumerate().fold(0u32, |sum, (at, byte)| sum | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..4 {
            let is_padding = digit > group.len();
            let place = (sum >> (18 - 6 * digit) & 63) as usize;
            text.push(if is_padding { '=' } else { DIGITS[place].into() });
        }
    }
    text
}

/// A step as a person reads it; `@0` is the CAS that was told last, `@1` the one before it.
pub fn shown(step: &Step) -> String {
    let cas_shown = |cas: &Cas| match cas {
        Cas::Told { key, back } => format!("@{back} of {}", name("", *key)),
        Cas::Number(number) => number.to_string(),
    };
    let request = match &step.request {
        Request::Text(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Bytes(bytes) => short(bytes),
                Piece::Key(key) => name("", *key),
                Piece::Base64(key) => format!("base64({})", name("", *key)),
                Piece::Cas(cas) => format!("({})", cas_shown(cas)),
                Piece::Time(seconds) => format!("(now + {seconds})"),
            })
            .collect(),
        Request::Binary { opcode, key, extras, value, cas } => {
            let (key, cas) = (name("", *key), cas_shown(cas));
            format!("opcode {opcode:#04x} {key} extras {extras:02x?} cas {cas} value {}", short(value))
        }
        Request::Wait => "wait".into(),
        Request::Flush => "flush_all".into(),
    };
    format!("{:?}: {request}", step.way)
}

/// Bytes as text, a long run of them as its length.
pub fn short(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    if text.len() <= 200 { text } else { format!("{}... ({} bytes)", &text[..60], bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_padding() {
        assert_eq!(
            ["a", "ab", "abc", "abcd"].map(|text| base64(text.as_bytes())),
            ["YQ==", "YWI=", "YWJj", "YWJjZA=="]
        );
    }

    #[test]
    fn a_side_gets_the_cas_that_it_has_told() {
        let mut told = Told::default();
        assert_eq!((told.place(0, 70), told.place(0, 71), told.place(0, 70)), (0, 1, 0));
        let step = Step {
            way: Way::Text(0),
            key: 0,
            request: Request::Text(vec![
                Piece::Bytes(b"md ".to_vec()),
                Piece::Key(0),
                Piece::Bytes(b" C".to_vec()),
                Piece::Cas(Cas::Told { key: 0, back: 1 }),
            ]),
            loose: Default::default(),
        };
        assert_eq!(render(&step, "s1", &told), b"md s1a C70");
    }
}
