//! Frames of a client to the bytes of its messages.
use super::deflate::Inflater;
use super::{
    CONTROL_BYTES_MAX, END, Failure, INFLATED_BYTES_MAX, INVALID_TEXT, PROTOCOL_ERROR, Shape, TOO_BIG,
    UNSUPPORTED, failed,
};

/// A control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    Ping(Vec<u8>),
    Pong,
    /// The code that it gives; the client sends nothing more.
    Close(Option<u16>),
}

/// Reads what a client sends, however it is cut.
pub struct Reader {
    shape: Shape,
    deflates: bool,
    /// The part of a header that has come.
    header: [u8; 14],
    header_bytes: usize,
    frame: Option<Frame>,
    message: Option<Message>,
    /// The payload of a control frame.
    control: Vec<u8>,
}

/// The frame whose payload is under way.
#[derive(Clone, Copy)]
struct Frame {
    opcode: u8,
    is_last: bool,
    /// Bytes of it that have not come.
    left: u64,
    mask: [u8; 4],
    /// Bytes of it that have come, modulo 4.
    phase: usize,
}

/// The message under way.
struct Message {
    is_text: bool,
    /// How many bytes of it were handed out.
    bytes: usize,
    text: Utf8,
    inflater: Option<Box<Inflater>>,
}

impl Reader {
    /// A reader after the handshake.
    pub fn new(shape: Shape, deflates: bool) -> Reader {
        Reader {
            shape,
            deflates,
            header: [0; 14],
            header_bytes: 0,
            frame: None,
            message: None,
            control: Vec::new(),
        }
    }

    /// Takes bytes in: appends those of messages to `plain`, and control frames to `controls`. No message may have more
    /// than `most` bytes. Nothing more is read after [`Control::Close`].
    ///
    /// # Errors
    /// Frames that RFC 6455 does not allow, or that ask for too much. The connection is to be closed with the code.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        plain: &mut Vec<u8>,
        controls: &mut Vec<Control>,
        most: usize,
    ) -> Result<(), Failure> {
        loop {
            let Some(mut frame) = self.frame else {
                let (Some(frame), rest) = self.read_header(bytes, most)? else { return Ok(()) };
                (self.frame, bytes) = (Some(frame), rest);
                continue;
            };
            let count = frame.left.min(bytes.len() as u64) as usize;
            let (payload, rest) = bytes.split_at(count);
            if frame.opcode < 8 {
                self.take_data(frame, payload, plain, most)?;
            } else {
                let start = self.control.len();
                self.control.extend_from_slice(payload);
                unmask(&mut self.control[start..], frame.mask, frame.phase);
            }
            frame.left -= count as u64;
            frame.phase = (frame.phase + count) % 4;
            bytes = rest;
            if frame.left > 0 {
                self.frame = Some(frame);
                return Ok(());
            }
            self.frame = None;
            if frame.opcode >= 8 {
                let control = self.end_control(frame.opcode)?;
                let closes = matches!(control, Control::Close(_));
                controls.push(control);
                if closes {
                    return Ok(());
                }
            } else if frame.is_last {
                self.end_message(plain, most)?;
            }
        }
    }

    /// The next header, once it is whole, and what follows it.
    fn read_header<'b>(
        &mut self,
        mut bytes: &'b [u8],
        most: usize,
    ) -> Result<(Option<Frame>, &'b [u8]), Failure> {
        loop {
            let wanted = match self.header_bytes {
                0 | 1 => 2,
                _ => {
                    6 + match self.header[1] & 0x7f {
                        126 => 2,
                        127 => 8,
                        _ => 0,
                    }
                }
            };
            if self.header_bytes == 2 {
                self.check_start()?;
            }
            if self.header_bytes >= 2 && self.header_bytes == wanted {
                self.header_bytes = 0;
                return Ok((Some(self.begin_frame(wanted, most)?), bytes));
            }
            let Some((first, rest)) = bytes.split_first() else { return Ok((None, bytes)) };
            self.header[self.header_bytes] = *first;
            self.header_bytes += 1;
            bytes = rest;
        }
    }

    /// Whether the first two bytes of a header may stand here.
    fn check_start(&self) -> Result<(), Failure> {
        let [first, second, ..] = self.header;
        let (opcode, is_last, is_deflated) = (first & 0xf, first & 0x80 != 0, first & 0x40 != 0);
        if first & 0x30 != 0 || is_deflated && !(self.deflates && matches!(opcode, 1 | 2)) {
            return failed(PROTOCOL_ERROR, "a frame has a reserved bit");
        }
        if second & 0x80 == 0 {
            return failed(PROTOCOL_ERROR, "a frame of a client is not masked");
        }
        match (opcode, &self.message) {
            (0, None) => failed(PROTOCOL_ERROR, "a frame continues no message"),
            (1 | 2, Some(_)) => failed(PROTOCOL_ERROR, "a message begins inside another one"),
            (2, _) if self.shape == Shape::Messages => {
                failed(UNSUPPORTED, "this sub-protocol takes texts only")
            }
            (0..=2, _) => Ok(()),
            (8..=10, _) if !is_last || second & 0x7f > 125 => {
                failed(PROTOCOL_ERROR, "a control frame is too long, or in parts")
            }
            (8..=10, _) => Ok(()),
            _ => failed(PROTOCOL_ERROR, "a frame has an unknown opcode"),
        }
    }

    /// The frame of the header, which has `length` bytes.
    fn begin_frame(&mut self, length: usize, most: usize) -> Result<Frame, Failure> {
        let header = &self.header[..length];
        let (numbers, mask) = header[2..].split_at(length - 6);
        let left = match numbers.len() {
            0 => u64::from(header[1] & 0x7f),
            _ => numbers.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        };
        let is_long_form = left > if numbers.len() == 8 { u64::from(u16::MAX) } else { 125 };
        if left >> 63 != 0 || !numbers.is_empty() && !is_long_form {
            return failed(PROTOCOL_ERROR, "a frame has a length in the wrong form");
        }
        let frame = Frame {
            opcode: header[0] & 0xf,
            is_last: header[0] & 0x80 != 0,
            left,
            mask: [mask[0], mask[1], mask[2], mask[3]],
            phase: 0,
        };
        if frame.opcode < 8 {
            let is_deflated = header[0] & 0x40 != 0;
            let message = self.message.get_or_insert_with(|| Message {
                is_text: frame.opcode == 1,
                bytes: 0,
                text: Utf8::default(),
                inflater: is_deflated.then(|| Box::new(Inflater::new())),
            });
            // The end of a message that is too long need not be waited for.
            if left.saturating_add(message.bytes as u64) > most as u64 {
                return failed(TOO_BIG, "a message is too long");
            }
        } else {
            self.control.clear();
            self.control.reserve(CONTROL_BYTES_MAX.min(left as usize));
        }
        Ok(frame)
    }

    /// Hands out the next bytes of a message (W1, W2).
    fn take_data(
        &mut self,
        frame: Frame,
        payload: &[u8],
        plain: &mut Vec<u8>,
        most: usize,
    ) -> Result<(), Failure> {
        let Some(message) = &mut self.message else { return Ok(()) };
        let start = plain.len();
        let taken = match &mut message.inflater {
            None => {
                plain.extend_from_slice(payload);
                unmask(&mut plain[start..], frame.mask, frame.phase);
                Ok(())
            }
            Some(inflater) => {
                let mut payload = payload.to_vec();
                unmask(&mut payload, frame.mask, frame.phase);
                inflater.inflate(&payload, plain, most.min(INFLATED_BYTES_MAX).saturating_sub(message.bytes))
            }
        };
        // W4
        taken.and_then(|()| message.note(&plain[start..])).inspect_err(|_| plain.truncate(start))
    }

    fn end_message(&mut self, plain: &mut Vec<u8>, most: usize) -> Result<(), Failure> {
        let Some(mut message) = self.message.take() else { return Ok(()) };
        if let Some(mut inflater) = message.inflater.take() {
            let start = plain.len();
            let most = most.min(INFLATED_BYTES_MAX).saturating_sub(message.bytes);
            inflater
                .finish(plain, most)
                .and_then(|()| message.note(&plain[start..]))
                .inspect_err(|_| plain.truncate(start))?;
        }
        if message.is_text && !message.text.is_whole() {
            return failed(INVALID_TEXT, "a text is not UTF-8");
        }
        if self.shape == Shape::Messages {
            plain.push(END);
        }
        Ok(())
    }

    fn end_control(&mut self, opcode: u8) -> Result<Control, Failure> {
        let payload = std::mem::take(&mut self.control);
        match opcode {
            9 => return Ok(Control::Ping(payload)),
            10 => return Ok(Control::Pong),
            _ => {}
        }
        let [high, low, text @ ..] = &payload[..] else {
            return if payload.is_empty() {
                Ok(Control::Close(None))
            } else {
                failed(PROTOCOL_ERROR, "a close frame has half a code")
            };
        };
        let code = u16::from_be_bytes([*high, *low]);
        if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
            return failed(PROTOCOL_ERROR, "a close frame has a code that is not sent");
        }
        if std::str::from_utf8(text).is_err() {
            return failed(INVALID_TEXT, "the text of a close frame is not UTF-8");
        }
        Ok(Control::Close(Some(code)))
    }
}

impl Message {
    /// Notes bytes that were handed out.
    fn note(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len();
        if self.is_text && !self.text.takes(bytes) {
            failed(INVALID_TEXT, "a text is not UTF-8")
        } else {
            Ok(())
        }
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4], phase: usize) {
    let mask: [u8; 4] = std::array::from_fn(|at| mask[(at + phase) % 4]);
    let word = u32::from_ne_bytes(mask);
    let mut words = bytes.chunks_exact_mut(4);
    for chunk in &mut words {
        let masked = u32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]) ^ word;
        chunk.copy_from_slice(&masked.to_ne_bytes());
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Whether a text that comes in pieces is UTF-8.
#[derive(Default)]
struct Utf8 {
    /// The beginning of a character.
    part: [u8; 4],
    have: usize,
}

impl Utf8 {
    fn takes(&mut self, mut bytes: &[u8]) -> bool {
        while self.have > 0
            && let Some((first, rest)) = bytes.split_first()
        {
            self.part[self.have] = *first;
            self.have += 1;
            bytes = rest;
            match std::str::from_utf8(&self.part[..self.have]) {
                Ok(_) => self.have = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let rest = &bytes[error.valid_up_to()..];
                self.part[..rest.len()].copy_from_slice(rest);
                self.have = rest.len();
                true
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.have == 0
    }
}
