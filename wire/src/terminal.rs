//! A line editor for a terminal at the other end of a connection: bytes in, bytes out and finished lines.
//!
//! ```text
//!   keys of the terminal -> Keys -> Editor -> Event: a line, Tab, the end
//!                                     |
//!                                     '----> bytes for the screen: echo, or the line drawn anew
//! ```
//!
//! The line takes one row of the screen; a longer one is scrolled sideways. The terminal is asked for its width with each
//! prompt (the cursor goes far to the right, and the terminal is asked where it stands); until the reply there are
//! [`COLUMNS`].
//!
//! Invariants:
//! - **TE1** A line has at most [`LINE_BYTES_MAX`] bytes, the history [`HISTORY_LINES_MAX`] lines and
//!   [`HISTORY_BYTES_MAX`] bytes.
//! - **TE2** What the screen gets for some keys is in proportion to their number or to the width of the screen, not to the
//!   length of the line: it is drawn once for all keys that have come together.
//! - **TE3** Text of others reaches the screen through [`harmless`], without controls.
mod history;
mod keys;
mod line;

use self::history::History;
use self::keys::{Key, Keys};
use self::line::{Line, width};

pub use self::history::{BYTES_MAX as HISTORY_BYTES_MAX, LINES_MAX as HISTORY_LINES_MAX};
pub use self::line::LINE_BYTES_MAX;

/// The columns of a terminal that has not said how many it has, and the fewest that are believed.
pub const COLUMNS: usize = 80;
const COLUMNS_MIN: usize = 20;

/// The most words that are listed for Tab.
const LISTED_MAX: usize = 100;

/// Clears the row of the screen in which the cursor stands.
pub const CLEAR_ROW: &[u8] = b"\r\x1b[K";
/// Asks where the cursor stands after it has gone to the last column.
const ASK_COLUMNS: &[u8] = b"\r\x1b[999C\x1b[6n";
const CLEAR_SCREEN: &[u8] = b"\x1b[H\x1b[2J";
const BELL: &[u8] = b"\x07";

/// The result of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A whole line. The prompt is gone until [`Editor::prompt`].
    Line(String),
    /// The word before the cursor is to be completed: [`Editor::text`], [`Editor::complete`].
    Complete,
    /// Ctrl-D on an empty line.
    End,
}

/// The editor of one terminal.
#[derive(Debug)]
pub struct Editor {
    keys: Keys,
    line: Line,
    history: History,
    prompt: String,
    /// The prompt and the line stand on the screen.
    is_shown: bool,
    columns: usize,
    /// The terminal has been asked for its columns, and has not replied.
    asks: bool,
}

impl Default for Editor {
    fn default() -> Editor {
        Editor {
            keys: Keys::default(),
            line: Line::default(),
            history: History::default(),
            prompt: String::new(),
            is_shown: false,
            columns: COLUMNS,
            asks: false,
        }
    }
}

impl Editor {
    /// Says how many columns the terminal has.
    pub fn set_columns(&mut self, columns: usize) {
        self.columns = columns.max(COLUMNS_MIN);
    }

    /// Shows the prompt, of one column a character, with an empty line.
    pub fn prompt(&mut self, prompt: &str, screen: &mut Vec<u8>) {
        self.prompt = prompt.into();
        self.is_shown = true;
        // A terminal that does not reply is asked once only.
        if !std::mem::replace(&mut self.asks, true) {
            screen.extend_from_slice(ASK_COLUMNS);
        }
        self.redraw(screen);
    }

    /// The prompt stands on the screen.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Returns the text before the cursor.
    pub fn text(&self) -> &str {
        &self.line.text()[..self.line.cursor()]
    }

    /// Keeps a line for the arrow keys.
    pub fn remember(&mut self, line: &str) {
        self.history.add(line);
    }

    /// Notes the end of a message of the terminal.
    pub fn end_message(&mut self) {
        self.keys.end_message();
    }

    /// Takes keys from the front of `bytes`, until one leads to an event.
    pub fn feed(&mut self, bytes: &mut &[u8], screen: &mut Vec<u8>) -> Option<Event> {
        let (mut is_stale, mut event) = (false, None);
        while event.is_none()
            && let Some(key) = self.keys.next(bytes)
        {
            if let Key::Text(text) = &key
                && !is_stale
                && self.echoes(text)
            {
                is_stale = !self.line.insert(text);
                screen.extend_from_slice(if is_stale { BELL } else { text.as_bytes() });
                continue;
            }
            event = self.event_of(&key, &mut is_stale, screen);
            if event.is_none() {
                is_stale |= self.press(&key, screen);
            }
        }
        if is_stale && self.is_shown {
            self.redraw(screen);
        }
        event
    }

    /// Returns true if a text at the end of the line only has to be shown.
    fn echoes(&self, text: &str) -> bool {
        self.line.is_at_end()
            && self.line.end() + text.len() <= LINE_BYTES_MAX
            && self.line.end() < self.columns
            && text.len() < self.columns
            && width(self.line.text()) + width(text) < self.room()
    }

    /// Does what a key does with the line; returns whether the line must be drawn.
    fn press(&mut self, key: &Key, screen: &mut Vec<u8>) -> bool {
        let line = &mut self.line;
        match key {
            Key::Text(text) => {
                if !line.insert(text) {
                    screen.extend_from_slice(BELL);
                }
            }
            Key::Left => line.go(line.left()),
            Key::Right => line.go(line.right()),
            Key::WordLeft => line.go(line.word_left()),
            Key::WordRight => line.go(line.word_right()),
            Key::Home => line.go(0),
            Key::End => line.go(line.end()),
            Key::Backspace => line.remove(line.left()),
            Key::Delete | Key::EndOfInput => line.remove(line.right()),
            Key::CutToStart => line.remove(0),
            Key::CutToEnd => line.remove(line.end()),
            Key::CutWordLeft => line.remove(line.word_left()),
            Key::CutWordRight => line.remove(line.word_right()),
            Key::Up => return self.history.go_back(line),
            Key::Down => return self.history.go_on(line),
            Key::ClearScreen => screen.extend_from_slice(CLEAR_SCREEN),
            Key::Column(column) => return self.learn(*column),
            Key::Enter | Key::Tab | Key::Interrupt => return false,
        }
        true
    }

    /// Learns the width of the terminal from its reply; returns whether it is another one than before.
    fn learn(&mut self, column: usize) -> bool {
        if !std::mem::take(&mut self.asks) || column < COLUMNS_MIN {
            return false;
        }
        std::mem::replace(&mut self.columns, column) != column
    }

    /// Carries out a key that is no part of the line.
    fn event_of(&mut self, key: &Key, is_stale: &mut bool, screen: &mut Vec<u8>) -> Option<Event> {
        match key {
            Key::Enter => {
                // All of the line is shown before it is left.
                self.settle(is_stale, screen);
                screen.extend_from_slice(b"\r\n");
                self.is_shown = false;
                self.history.leave();
                Some(Event::Line(self.line.take()))
            }
            Key::Tab => Some(Event::Complete),
            Key::Interrupt => {
                self.line.go(self.line.end());
                self.redraw(screen);
                screen.extend_from_slice(b"^C\r\n");
                self.line.take();
                self.history.leave();
                *is_stale = true;
                None
            }
            Key::EndOfInput if self.line.end() == 0 => {
                screen.extend_from_slice(b"\r\n");
                self.is_shown = false;
                Some(Event::End)
            }
            _ => None,
        }
    }

    fn settle(&mut self, is_stale: &mut bool, screen: &mut Vec<u8>) {
        if std::mem::take(is_stale) {
            self.redraw(screen);
        }
    }

    /// The columns behind the prompt.
    fn room(&self) -> usize {
        self.columns - self.shown_prompt().len()
    }

    /// The prompt, where it leaves room for a line.
    fn shown_prompt(&self) -> &str {
        if self.prompt.len() * 2 <= self.columns { &self.prompt } else { "> " }
    }

    /// Draws the row anew: prompt, line and cursor. The cursor's place is kept by the terminal itself, which may count the
    /// columns of a character otherwise.
    pub fn redraw(&mut self, screen: &mut Vec<u8>) {
        let room = self.room();
        screen.push(b'\r');
        screen.extend_from_slice(self.shown_prompt().as_bytes());
        let (before, behind) = self.line.shown(room);
        screen.extend_from_slice(before.as_bytes());
        screen.extend_from_slice(b"\x1b7");
        screen.extend_from_slice(behind.as_bytes());
        screen.extend_from_slice(b"\x1b[K\x1b8");
    }

    /// Completes the word that begins at the byte `start` and ends at the cursor. One candidate stands for it; of several, what
    /// they have in common, or else they are listed beneath.
    pub fn complete(&mut self, start: usize, candidates: &[String], screen: &mut Vec<u8>) {
        let typed = self.line.cursor().saturating_sub(start);
        let Some(first) = candidates.first() else { return screen.extend_from_slice(BELL) };
        let common = candidates.iter().fold(first.as_str(), |common, candidate| shared(common, candidate));
        let fits = match candidates {
            [only] => self.line.replace(start, &format!("{only} ")),
            _ if common.len() > typed => self.line.replace(start, common),
            _ => {
                self.list(candidates, screen);
                true
            }
        };
        if !fits {
            screen.extend_from_slice(BELL);
        }
        self.redraw(screen);
    }

    /// Lists words in columns below the line.
    fn list(&self, words: &[String], screen: &mut Vec<u8>) {
        let shown = &words[..words.len().min(LISTED_MAX)];
        let column = shown.iter().map(|word| width(word)).max().unwrap_or(0) + 2;
        let in_row = ((self.columns - 1) / column).max(1);
        for row in shown.chunks(in_row) {
            screen.extend_from_slice(b"\r\n");
            for word in row {
                screen.extend_from_slice(word.as_bytes());
                screen.extend(std::iter::repeat_n(b' ', column - width(word)));
            }
        }
        if words.len() > shown.len() {
            screen.extend_from_slice(format!("\r\n... and {} more", words.len() - shown.len()).as_bytes());
        }
        screen.extend_from_slice(b"\r\n");
    }
}

/// Returns the common beginning of two words.
fn shared<'w>(one: &'w str, other: &str) -> &'w str {
    let differs = one.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
    let length = differs.map_or(one.len().min(other.len()), |((at, _), _)| at);
    &one[..length]
}

/// Appends a text with line ends as a terminal needs them.
pub fn append_lines(text: &[u8], screen: &mut Vec<u8>) {
    for (at, byte) in text.iter().enumerate() {
        if *byte == b'\n' && (at == 0 || text[at - 1] != b'\r') {
            screen.push(b'\r');
        }
        screen.push(*byte);
    }
}

/// Appends a text in which a control, other than line ends and tabs, is spelt out (TE3).
pub fn harmless(text: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(text);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_line_end = letter == '\r' && letters.peek() == Some(&'\n');
        if letter.is_control() && !matches!(letter, '\n' | '\t') && !is_line_end {
            out.extend_from_slice(format!("\\x{:02x}", u32::from(letter)).as_bytes());
        } else {
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
