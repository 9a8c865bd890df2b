//! WebSocket (RFC 6455) with permessage-deflate (RFC 7692), as a server speaks it.
//!
//! ```text
//!   byte 0           1              2 .. 9                 4 bytes        payload
//!   FIN R1 R2 R3 op  MASK length7   length16 or length64   mask           masked by a client, never by a server
//!
//!   message = frame(text or binary) frame(continuation)* with FIN on the last; control frames may stand between them
//! ```
//!
//! | part | duty |
//! |---|---|
//! | [`Handshake`] | which request opens a WebSocket, and what is agreed on |
//! | [`Reader`] | frames of a client to the bytes of its messages |
//! | [`header`], [`close`] | frames of the server |
//! | [`Deflater`] | long messages of the server, compressed |
//!
//! Invariants:
//! - **W1** The bytes of a message are handed out as they come. A reader keeps a partial header and a control frame only, so
//!   a length that a peer announces takes no memory.
//! - **W2** No message becomes longer than the reader's limit. A compressed one may not exceed [`INFLATED_BYTES_MAX`] either: a
//!   few bytes could stand for a thousand times as many.
//! - **W3** Neither side keeps a compression window between messages, so an idle connection has no memory for one.
//! - **W4** Bytes of a text that are not UTF-8 are not handed out: one of them is [`END`], and half a message would be executed.
mod deflate;
mod handshake;
mod reader;

pub use deflate::Deflater;
pub use handshake::Handshake;
pub use reader::{Control, Reader};

/// Stands behind each message of [`Shape::Messages`]. It is no byte of UTF-8.
pub const END: u8 = 0xff;

/// The most bytes of a message that came compressed.
pub const INFLATED_BYTES_MAX: usize = 16 << 20;

/// The most bytes in a control frame.
const CONTROL_BYTES_MAX: usize = 125;

/// What messages are to the protocol above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Pieces of a stream of bytes, wherever they are cut.
    Stream,
    /// Texts of their own, each with [`END`] behind it.
    Messages,
}

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// Why a connection is closed: the code of RFC 6455, section 7.4, and a text for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Failure {
    pub code: u16,
    pub text: &'static str,
}

/// The client or the server is done.
pub const NORMAL: u16 = 1000;
/// The server stops.
pub const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const UNSUPPORTED: u16 = 1003;
const INVALID_TEXT: u16 = 1007;
const TOO_BIG: u16 = 1009;

const fn failed<T>(code: u16, text: &'static str) -> Result<T, Failure> {
    Err(Failure { code, text })
}

/// The header of a frame of the server with `length` bytes.
pub fn header(kind: Kind, is_last: bool, is_deflated: bool, length: usize) -> smallvec::SmallVec<[u8; 10]> {
    let flag = |set, bit| if set { bit } else { 0 };
    let mut bytes = smallvec::smallvec![kind as u8 | flag(is_last, 0x80) | flag(is_deflated, 0x40)];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..126), _) => bytes.push(short),
        (_, Ok(middle)) => {
            bytes.push(126);
            bytes.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes
}

/// The frame that closes a connection with this code.
pub fn close(code: u16, text: &str) -> Vec<u8> {
    // A code and an ASCII text; longer ones are none of ours.
    let text = &text.as_bytes()[..text.len().min(CONTROL_BYTES_MAX - 2)];
    let mut frame = header(Kind::Close, true, false, text.len() + 2).to_vec();
    frame.extend_from_slice(&code.to_be_bytes());
    frame.extend_from_slice(text);
    frame
}

#[cfg(test)]
mod tests;
