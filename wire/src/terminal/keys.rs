//! Bytes of a terminal to keys.
//!
//! ```text
//!   0x20 ..            text, UTF-8            ESC [ 3 ~      a sequence (CSI): a key, or the terminal's reply to a question
//!   0x00 .. 0x1f 0x7f  a control key          ESC O A        a key in another mode (SS3)
//!                                             ESC ] ... BEL  a string (OSC, DCS): skipped
//! ```
//!
//! **Invariant TK1:** keys are the same wherever the bytes are cut. What is kept between two pieces has a fixed length.

/// A key, or what a terminal says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    /// Characters that are neither controls nor parts of a sequence.
    Text(String),
    Enter,
    Tab,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    WordLeft,
    WordRight,
    /// Removes what stands before the cursor, or at it.
    Backspace,
    Delete,
    /// Removes the rest of the line, its beginning, or a word.
    CutToEnd,
    CutToStart,
    CutWordLeft,
    CutWordRight,
    ClearScreen,
    /// Ctrl-C and Ctrl-D.
    Interrupt,
    EndOfInput,
    /// The cursor stands in this column, counted from 1.
    Column(usize),
}

/// The most bytes of a sequence that are kept; a longer one is skipped.
const SEQUENCE_BYTES_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Text,
    Escape,
    /// Behind `ESC [`.
    Sequence,
    /// Behind `ESC O`.
    Single,
    /// Inside of a string, which ends with BEL or `ESC \`.
    String,
}

/// The reader of keys.
#[derive(Debug, Default)]
pub struct Keys {
    state: State,
    /// The beginning of a character, or the parameters of a sequence.
    held: Vec<u8>,
    /// The text is pasted: its controls are no keys.
    pastes: bool,
    /// The last key was a carriage return; a line feed behind it is the same line end.
    after_return: bool,
}

impl Keys {
    /// Takes the next key from the front of `bytes`.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Key> {
        while let Some((byte, rest)) = bytes.split_first() {
            let byte = *byte;
            let key = match self.state {
                State::Text if is_text(byte) => self.text(bytes),
                // A character whose rest has not come.
                State::Text if !self.held.is_empty() => {
                    self.held.clear();
                    Some(Key::Text('\u{fffd}'.into()))
                }
                State::Text => {
                    *bytes = rest;
                    self.control(byte)
                }
                // A control key ends any sequence.
                _ if byte < 0x20 && !(self.state == State::String && matches!(byte, 0x07 | 0x1b)) => {
                    self.leave();
                    continue;
                }
                _ => {
                    *bytes = rest;
                    self.sequence(byte)
                }
            };
            if key.is_some() {
                return key;
            }
        }
        None
    }

    /// Notes the end of a message. A message that ends with ESC was the key Escape, which does nothing.
    pub fn end_message(&mut self) {
        if self.state == State::Escape {
            self.leave();
        }
        self.after_return = false;
    }

    fn leave(&mut self) {
        self.state = State::Text;
        self.held.clear();
    }

    /// A run of characters. The beginning of one that has not come whole is held.
    fn text(&mut self, bytes: &mut &[u8]) -> Option<Key> {
        self.after_return = false;
        let length = bytes.iter().position(|byte| !is_text(*byte)).unwrap_or(bytes.len());
        let (run, rest) = bytes.split_at(length);
        *bytes = rest;
        let mut run = [&std::mem::take(&mut self.held), run].concat();
        self.held = run.split_off(run.len() - unfinished(&run));
        let text: String =
            String::from_utf8_lossy(&run).chars().filter(|letter| !letter.is_control()).collect();
        (!text.is_empty()).then_some(Key::Text(text))
    }

    fn control(&mut self, byte: u8) -> Option<Key> {
        let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
        match byte {
            b'\n' if after_return => None,
            b'\r' | b'\n' => Some(Key::Enter),
            0x1b => {
                self.state = State::Escape;
                None
            }
            b'\t' if self.pastes => Some(Key::Text(" ".into())),
            _ if self.pastes => None,
            0x01 => Some(Key::Home),
            0x02 => Some(Key::Left),
            0x03 => Some(Key::Interrupt),
            0x04 => Some(Key::EndOfInput),
            0x05 => Some(Key::End),
            0x06 => Some(Key::Right),
            0x08 | 0x7f => Some(Key::Backspace),
            b'\t' => Some(Key::Tab),
            0x0b => Some(Key::CutToEnd),
            0x0c => Some(Key::ClearScreen),
            0x0e => Some(Key::Down),
            0x10 => Some(Key::Up),
            0x15 => Some(Key::CutToStart),
            0x17 => Some(Key::CutWordLeft),
            _ => None,
        }
    }

    /// A byte behind ESC.
    fn sequence(&mut self, byte: u8) -> Option<Key> {
        match (self.state, byte) {
            (State::String, 0x07) => self.leave(),
            (State::String, 0x1b) | (State::Escape, 0x1b) => self.state = State::Escape,
            (State::String, _) => {}
            (State::Escape, b'[') => self.state = State::Sequence,
            (State::Escape, b'O') => self.state = State::Single,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => self.state = State::String,
            (State::Sequence, 0x20..=0x3f) => {
                if self.held.len() < SEQUENCE_BYTES_MAX {
                    self.held.push(byte);
                }
            }
            (state, _) => {
                let held = std::mem::take(&mut self.held);
                self.leave();
                return match state {
                    State::Escape => of_meta(byte),
                    _ if held.len() < SEQUENCE_BYTES_MAX => self.of_sequence(&held, byte),
                    _ => None,
                };
            }
        }
        None
    }

    fn of_sequence(&mut self, held: &[u8], last: u8) -> Option<Key> {
        let mut numbers = held.split(|byte| *byte == b';').map(number);
        let (first, second) = (numbers.next().flatten(), numbers.next().flatten());
        // 3 is Alt, 5 is Ctrl.
        let by_word = matches!(second, Some(3 | 5));
        match (last, first) {
            (b'A', _) => Some(Key::Up),
            (b'B', _) => Some(Key::Down),
            (b'C', _) => Some(if by_word { Key::WordRight } else { Key::Right }),
            (b'D', _) => Some(if by_word { Key::WordLeft } else { Key::Left }),
            (b'H', _) | (b'~', Some(1 | 7)) => Some(Key::Home),
            (b'F', _) | (b'~', Some(4 | 8)) => Some(Key::End),
            (b'~', Some(3)) => Some(Key::Delete),
            (b'~', Some(begins @ (200 | 201))) => {
                self.pastes = begins == 200;
                None
            }
            (b'R', Some(_)) => second.map(Key::Column),
            _ => None,
        }
    }
}

fn is_text(byte: u8) -> bool {
    byte >= 0x20 && byte != 0x7f
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse::<u16>().ok().map(usize::from)
}

/// A key with Alt.
fn of_meta(byte: u8) -> Option<Key> {
    match byte {
        b'b' => Some(Key::WordLeft),
        b'f' => Some(Key::WordRight),
        b'd' => Some(Key::CutWordRight),
        0x7f => Some(Key::CutWordLeft),
        _ => None,
    }
}

/// Returns the number of bytes at the end that begin a character.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    (0..tail.len())
        .find(|at| {
            matches!(std::str::from_utf8(&tail[*at..]), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .map_or(0, |at| tail.len() - at)
}
