//! memcached's binary protocol: a header of 24 bytes, then extras, key and value.
//!
//! ```text
//!   0 magic (0x80 request, 0x81 reply) | 1 opcode | 2 key length (2) | 4 extras length | 5 data type
//!   6 reserved (2), in a reply the status | 8 body length (4) | 12 opaque (4) | 16 CAS (8) | 24 extras, key, value
//! ```
//!
//! All numbers are big-endian. The source is memcached's `protocol-binary.txt`, and `protocol_binary.h` of 1.6.

/// The first byte of a request, and of a connection that speaks this protocol.
pub const REQUEST: u8 = 0x80;
const REPLY: u8 = 0x81;
/// The length of a header, in bytes.
pub const HEADER_BYTES: usize = 24;

/// The opcodes that memcached implements.
pub mod op {
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCREMENT: u8 = 0x05;
    pub const DECREMENT: u8 = 0x06;
    pub const QUIT: u8 = 0x07;
    pub const FLUSH: u8 = 0x08;
    pub const GETQ: u8 = 0x09;
    pub const NOOP: u8 = 0x0a;
    pub const VERSION: u8 = 0x0b;
    pub const GETK: u8 = 0x0c;
    pub const GETKQ: u8 = 0x0d;
    pub const APPEND: u8 = 0x0e;
    pub const PREPEND: u8 = 0x0f;
    pub const STAT: u8 = 0x10;
    pub const SETQ: u8 = 0x11;
    pub const PREPENDQ: u8 = 0x1a;
    pub const TOUCH: u8 = 0x1c;
    pub const GAT: u8 = 0x1d;
    pub const GATQ: u8 = 0x1e;
    pub const SASL_LIST: u8 = 0x20;
    pub const SASL_AUTH: u8 = 0x21;
    pub const SASL_STEP: u8 = 0x22;
    pub const GATK: u8 = 0x23;
    pub const GATKQ: u8 = 0x24;
}

/// How a request came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Status {
    Done = 0,
    NotFound = 1,
    Exists = 2,
    TooLarge = 3,
    Invalid = 4,
    NotStored = 5,
    NotANumber = 6,
    NotLoggedIn = 0x20,
    UnknownCommand = 0x81,
    NoMemory = 0x82,
    Unsupported = 0x83,
    Internal = 0x84,
}

impl Status {
    /// The text that memcached sends with it.
    pub const fn text(self) -> &'static str {
        match self {
            Status::Done => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotANumber => "Non-numeric server-side value for incr or decr",
            Status::NotLoggedIn => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::NoMemory => "Out of memory",
            Status::Unsupported => "Not supported",
            Status::Internal => "Internal error",
        }
    }
}

/// The header of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    pub opcode: u8,
    pub key_bytes: usize,
    pub extras_bytes: usize,
    pub body_bytes: usize,
    /// As it came: the client gets it back.
    pub opaque: [u8; 4],
    pub cas: u64,
}

/// The beginning of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    Whole(Header),
    Incomplete,
    /// These bytes begin no request: the connection ends.
    Malformed,
}

impl Header {
    /// Reads the header at the front of `bytes`.
    pub fn read(bytes: &[u8]) -> Begin {
        match bytes.first() {
            Some(&REQUEST) => {}
            Some(_) => return Begin::Malformed,
            None => return Begin::Incomplete,
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Begin::Incomplete };
        let [_, opcode, k0, k1, extras, _, _, _, b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = *header;
        Begin::Whole(Header {
            opcode,
            key_bytes: u16::from_be_bytes([k0, k1]).into(),
            extras_bytes: extras.into(),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            opaque: [o0, o1, o2, o3],
            cas: u64::from_be_bytes(cas),
        })
    }

    /// Whether the parts fit into the body.
    pub fn is_sound(&self) -> bool {
        self.key_bytes + self.extras_bytes <= self.body_bytes
    }

    /// Extras, key and value of a body.
    pub fn parts<'b>(&self, body: &'b [u8]) -> (&'b [u8], &'b [u8], &'b [u8]) {
        let (extras, rest) = body.split_at(self.extras_bytes);
        let (key, value) = rest.split_at(self.key_bytes);
        (extras, key, value)
    }
}

/// The header of a reply.
pub fn reply(
    opcode: u8,
    status: Status,
    opaque: [u8; 4],
    cas: u64,
    (extras, key, value): (usize, usize, u64),
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = REPLY;
    header[1] = opcode;
    header[2..4].copy_from_slice(&(key as u16).to_be_bytes());
    header[4] = extras as u8;
    header[6..8].copy_from_slice(&(status as u16).to_be_bytes());
    header[8..12].copy_from_slice(&((extras + key) as u32 + value as u32).to_be_bytes());
    header[12..16].copy_from_slice(&opaque);
    header[16..].copy_from_slice(&cas.to_be_bytes());
    header
}

/// The opcode that a quiet one is the quiet form of, and whether it is one.
pub fn loud(opcode: u8) -> (u8, bool) {
    match opcode {
        op::GETQ => (op::GET, true),
        op::GETKQ => (op::GETK, true),
        op::GATQ => (op::GAT, true),
        op::GATKQ => (op::GATK, true),
        // SETQ, ADDQ, REPLACEQ, DELETEQ, INCREMENTQ, DECREMENTQ, QUITQ, FLUSHQ
        op::SETQ..=0x18 => (opcode - op::SETQ + op::SET, true),
        0x19 | op::PREPENDQ => (opcode - 0x19 + op::APPEND, true),
        _ => (opcode, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_opcodes_have_loud_ones() {
        for (quiet, is) in [
            (0x09, 0x00),
            (0x0d, 0x0c),
            (0x11, 0x01),
            (0x12, 0x02),
            (0x13, 0x03),
            (0x14, 0x04),
            (0x15, 0x05),
            (0x16, 0x06),
        ] {
            assert_eq!(loud(quiet), (is, true));
        }
        assert_eq!(
            (loud(0x17), loud(0x18), loud(0x19), loud(0x1a)),
            ((7, true), (8, true), (0x0e, true), (0x0f, true))
        );
        assert_eq!(
            (loud(0x0a), loud(0x1b), loud(0x1e), loud(0x24)),
            ((0x0a, false), (0x1b, false), (0x1d, true), (0x23, true))
        );
    }

    #[test]
    fn a_header_is_read_only_when_it_is_whole() {
        let mut bytes = [0; HEADER_BYTES];
        (bytes[0], bytes[1], bytes[3], bytes[4], bytes[11], bytes[23]) = (REQUEST, op::SET, 3, 8, 20, 9);
        for cut in 0..HEADER_BYTES {
            assert_eq!(Header::read(&bytes[..cut]), Begin::Incomplete);
        }
        let header =
            Header { opcode: op::SET, key_bytes: 3, extras_bytes: 8, body_bytes: 20, opaque: [0; 4], cas: 9 };
        assert_eq!(Header::read(&bytes), Begin::Whole(header));
        assert!(header.is_sound() && !Header { body_bytes: 10, ..header }.is_sound());
        assert_eq!(Header::read(b"get"), Begin::Malformed);
    }
}
