//! A small terminal, which shows what a program has written to it.
use unicode_width::UnicodeWidthChar;

/// The rows that are kept; older ones scroll away.
const ROWS: usize = 500;

/// The cells of a screen: as much of a terminal of the VT100 family as a line editor uses.
pub struct Screen {
    columns: usize,
    /// Each cell is a character with its marks; the second cell of a wide one is empty.
    rows: Vec<Vec<String>>,
    cursor: (usize, usize),
    saved: (usize, usize),
    /// The beginning of a sequence or of a character.
    held: Vec<u8>,
    /// The number of questions for the cursor's place.
    pub asked: usize,
}

impl Screen {
    pub fn new(columns: usize) -> Screen {
        Screen { columns, rows: vec![Vec::new()], cursor: (0, 0), saved: (0, 0), held: Vec::new(), asked: 0 }
    }

    /// Takes what a program writes.
    ///
    /// # Panics
    /// On a sequence that it does not know.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.held.push(*byte);
            let held = std::mem::take(&mut self.held);
            if held[0] == 0x1b {
                let is_whole = match held.get(1) {
                    None => false,
                    Some(b'[') => held.len() > 2 && matches!(byte, 0x40..=0x7e),
                    Some(_) => true,
                };
                if is_whole {
                    self.sequence(&held[1..])
                } else {
                    self.held = held
                }
                continue;
            }
            match std::str::from_utf8(&held) {
                Ok(text) => text.chars().for_each(|letter| self.letter(letter)),
                Err(error) if error.error_len().is_none() => self.held = held,
                Err(_) => panic!("not UTF-8: {held:?}"),
            }
        }
    }

    fn letter(&mut self, letter: char) {
        let (row, column) = self.cursor;
        match letter {
            '\r' => self.cursor.1 = 0,
            '\n' => self.go_down(),
            '\u{8}' => self.cursor.1 = column.saturating_sub(1),
            '\u{7}' => {}
            '\t' => self.cursor.1 = (column / 8 + 1) * 8,
            _ if letter.is_control() => panic!("a control was written: {letter:?}"),
            _ => match letter.width().unwrap_or(0) {
                // A mark belongs to the character before it.
                0 => {
                    let before = self.rows[row].iter_mut().take(column).rev();
                    if let Some(cell) = before.into_iter().find(|cell| !cell.is_empty()) {
                        cell.push(letter);
                    }
                }
                width => self.put(letter, width),
            },
        }
    }

    fn put(&mut self, letter: char, width: usize) {
        if self.cursor.1 + width > self.columns {
            self.cursor.1 = 0;
            self.go_down();
        }
        let (row, column) = self.cursor;
        let cells = &mut self.rows[row];
        while cells.len() < column + width {
            cells.push(" ".into());
        }
        cells[column] = letter.into();
        cells[column + 1..column + width].iter_mut().for_each(String::clear);
        self.cursor.1 += width;
    }

    fn go_down(&mut self) {
        self.cursor.0 += 1;
        if self.cursor.0 == self.rows.len() {
            self.rows.push(Vec::new());
        }
        if self.rows.len() > ROWS {
            self.rows.remove(0);
            self.cursor.0 -= 1;
            self.saved.0 = self.saved.0.saturating_sub(1);
        }
    }

    fn sequence(&mut self, sequence: &[u8]) {
        let (last, inner) = sequence.split_last().expect("a sequence has a last byte");
        let number =
            std::str::from_utf8(inner.get(1..).unwrap_or_default()).ok().and_then(|text| text.parse().ok());
        match (inner.first(), last) {
            (None, b'7') => self.saved = self.cursor,
            (None, b'8') => self.cursor = self.saved,
            (Some(b'['), b'C') => {
                self.cursor.1 = (self.cursor.1 + number.unwrap_or(1)).min(self.columns.saturating_sub(1));
            }
            (Some(b'['), b'K') if number.is_none() => {
                let (row, column) = self.cursor;
                self.rows[row].truncate(column);
            }
            (Some(b'['), b'H') => self.cursor = (0, 0),
            (Some(b'['), b'J') => {
                self.rows = vec![Vec::new()];
                self.cursor.0 = 0;
            }
            (Some(b'['), b'n') => self.asked += 1,
            (Some(b'['), b'm') => {}
            _ => panic!("an unknown sequence was written: {:?}", String::from_utf8_lossy(sequence)),
        }
    }

    /// The row of the cursor, before it and behind it.
    pub fn here(&self) -> (String, String) {
        let (row, column) = self.cursor;
        let cells = &self.rows[row];
        let column = column.min(cells.len());
        (cells[..column].concat(), cells[column..].concat())
    }

    /// All rows, without blanks at their ends. `|` marks the cursor.
    pub fn text(&self) -> String {
        let rows = self.rows.iter().enumerate().map(|(number, cells)| {
            if number != self.cursor.0 {
                return cells.concat().trim_end().to_string();
            }
            let (before, behind) = self.here();
            let blanks = " ".repeat(self.cursor.1.saturating_sub(cells.len()));
            format!("{before}{blanks}|{}", behind.trim_end())
        });
        rows.collect::<Vec<_>>().join("\n")
    }
}
