//! WebSocket frames between the transport of a connection and its buffers.
//!
//! ```text
//!   transport --frames--> [Reader] --messages--> input
//!   transport <--frames-- framed <---messages--- output
//! ```
//!
//! - **F4** `framed` is filled only while it is empty, with one piece of the output at a time. All others stay in the output,
//!   where the limits for slow readers count them.
//! - **F5** The frame that closes the connection is the last one, behind the replies to everything that has come before.
use std::cell::RefCell;
use std::io::IoSlice;

use polder_base::time::coarse_ms;
use polder_wire::Output;
use polder_wire::web_socket::{Control, Deflater, END, Kind, NORMAL, Reader, Shape, close, header};

/// How much of an output is framed at a time.
const PIECE_BYTES: usize = 64 << 10;
const PIECES_MAX: usize = 64;
/// Shorter messages are not compressed: that would cost more than it saves.
const DEFLATED_BYTES_MIN: usize = 1 << 10;
/// How long a peer may be silent before it is asked for a sign of life, and before it is given up.
const SILENCE_MS: u64 = 30_000;
const SILENCES_MAX: u64 = 3;

thread_local! {
    /// Between messages it keeps nothing, so a thread has one.
    static DEFLATER: RefCell<Deflater> = RefCell::new(Deflater::default());
}

/// The state of a WebSocket on one connection.
pub struct Framed {
    reader: Reader,
    shape: Shape,
    deflates: bool,
    /// Frames that wait to be sent.
    pub frames: Output,
    /// Bytes at the front of the output that belong to HTTP.
    raw_bytes: usize,
    /// Parts of a message have been framed, and not its end.
    in_message: bool,
    /// The peer sends nothing more.
    ended: bool,
    closing: Closing,
    heard_ms: u64,
    pinged_ms: u64,
}

/// Whether the connection is closed by a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// The frame comes behind what is in the output.
    Due(u16, &'static str),
    Framed,
}

impl Framed {
    /// A WebSocket whose handshake is in the first `raw_bytes` of the output.
    pub fn new(shape: Shape, deflates: bool, raw_bytes: usize) -> Framed {
        let now_ms = coarse_ms();
        Framed {
            reader: Reader::new(shape, deflates),
            shape,
            deflates,
            frames: Output::default(),
            raw_bytes,
            in_message: false,
            ended: false,
            closing: Closing::No,
            heard_ms: now_ms,
            pinged_ms: now_ms,
        }
    }

    /// Whether the peer sends nothing more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns true if what waits in the output is made of whole messages, none of which was framed in part.
    pub fn may_replace(&self) -> bool {
        self.raw_bytes == 0 && !self.in_message && self.closing == Closing::No
    }

    /// Notes that the transport has ended.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Takes frames in, and appends their messages to the input. No message may have more than `most` bytes.
    pub fn take(&mut self, bytes: &[u8], input: &mut Vec<u8>, most: usize) {
        if self.ended || bytes.is_empty() {
            return;
        }
        self.heard_ms = coarse_ms();
        let mut controls = Vec::new();
        let read = self.reader.read(bytes, input, &mut controls, most);
        for control in controls {
            match control {
                // A peer that only sends pings gets no more replies than it reads.
                Control::Ping(payload) if self.frames.waiting() < PIECE_BYTES => {
                    self.frame(Kind::Pong, true, false, &payload)
                }
                Control::Ping(_) | Control::Pong => {}
                Control::Close(code) => self.close(code.unwrap_or(NORMAL), ""),
            }
        }
        if let Err(failure) = read {
            tracing::debug!(%failure, "a WebSocket is closed");
            self.close(failure.code, failure.text);
        }
    }

    /// Nothing more is read, and a frame with this code ends the connection (F5).
    fn close(&mut self, code: u16, text: &'static str) {
        self.ended = true;
        if self.closing == Closing::No {
            self.closing = Closing::Due(code, text);
        }
    }

    /// Frames what is left to say at once, with this code.
    pub fn finish(&mut self, code: u16) {
        if self.closing == Closing::No {
            self.closing = Closing::Due(code, "");
        }
        self.frame_close();
    }

    /// Whether there is something to send.
    pub fn has_output(&self, output: &Output) -> bool {
        !self.frames.is_empty() || matches!(self.closing, Closing::Due(..)) || !output.is_empty()
    }

    /// Frames the next piece of the output, if all frames have been sent (F4).
    pub fn fill(&mut self, output: &mut Output) {
        if self.closing == Closing::Framed {
            output.consume(output.waiting());
        }
        if !self.frames.is_empty() {
            return;
        }
        if output.is_empty() {
            return self.frame_close();
        }
        let mut piece = Vec::new();
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let count = output.slices(&mut pieces);
        for slice in &pieces[..count] {
            let room = PIECE_BYTES - piece.len();
            piece.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        output.consume(piece.len());
        let raw = piece.len().min(self.raw_bytes);
        self.frames.raw(&piece[..raw]);
        self.raw_bytes -= raw;
        if raw < piece.len() {
            self.frame_piece(&piece[raw..]);
        }
    }

    fn frame_piece(&mut self, piece: &[u8]) {
        if self.shape == Shape::Stream {
            return self.frame_message(Kind::Binary, piece);
        }
        let mut rest = piece;
        while let Some(at) = memchr::memchr(END, rest) {
            self.frame_message(Kind::Text, &rest[..at]);
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            let kind = if self.in_message { Kind::Continuation } else { Kind::Text };
            self.frame(kind, false, false, rest);
            self.in_message = true;
        }
    }

    /// Frames a message, or its end.
    fn frame_message(&mut self, kind: Kind, message: &[u8]) {
        if std::mem::take(&mut self.in_message) {
            return self.frame(Kind::Continuation, true, false, message);
        }
        let short = (self.deflates && message.len() >= DEFLATED_BYTES_MIN)
            .then(|| DEFLATER.with_borrow_mut(|deflater| deflater.deflate(message)))
            .flatten();
        match short {
            Some(short) => self.frame(kind, true, true, &short),
            None => self.frame(kind, true, false, message),
        }
    }

    fn frame(&mut self, kind: Kind, is_last: bool, is_deflated: bool, payload: &[u8]) {
        self.frames.raw(&header(kind, is_last, is_deflated, payload.len()));
        self.frames.raw(payload);
    }

    fn frame_close(&mut self) {
        if let Closing::Due(code, text) = self.closing {
            self.frames.raw(&close(code, text));
            self.closing = Closing::Framed;
        }
    }

    /// Asks a silent peer for a sign of life; asked once a second. Returns whether that was done, and `None` if the peer is
    /// given up.
    pub fn tick(&mut self, now_ms: u64) -> Option<bool> {
        let silent_ms = now_ms.saturating_sub(self.heard_ms);
        if silent_ms > SILENCE_MS * SILENCES_MAX {
            return None;
        }
        let is_due = silent_ms >= SILENCE_MS
            && now_ms.saturating_sub(self.pinged_ms) >= SILENCE_MS
            && self.closing == Closing::No;
        if is_due {
            self.pinged_ms = now_ms;
            self.frame(Kind::Ping, true, false, b"");
        }
        Some(is_due)
    }
}
