//! The line that is being typed.
use unicode_width::UnicodeWidthChar;

/// The most bytes of a line.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// A line, the cursor in it, and the part of it that is shown.
///
/// ```text
///   text:   SET greeting "a very long ..."
///                ^ from        ^ cursor       bytes, at the borders of characters
///                |- as many columns as there are -|
/// ```
#[derive(Debug, Default)]
pub struct Line {
    text: String,
    cursor: usize,
    from: usize,
}

/// The columns that a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

/// The place in a text from which on it takes `room` columns at most.
fn back(text: &str, room: usize) -> usize {
    let (mut place, mut left) = (text.len(), room);
    for (at, letter) in text.char_indices().rev() {
        match left.checked_sub(columns(letter)) {
            Some(rest) => left = rest,
            None => break,
        }
        place = at;
    }
    place
}

impl Line {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn is_at_end(&self) -> bool {
        self.cursor == self.text.len()
    }

    /// Removes the whole text, and returns it.
    pub fn take(&mut self) -> String {
        (self.cursor, self.from) = (0, 0);
        std::mem::take(&mut self.text)
    }

    /// Replaces the whole text, with the cursor behind it.
    pub fn set(&mut self, text: &str) {
        self.take();
        self.insert(text);
    }

    /// Inserts a text at the cursor; returns whether there was room for all of it.
    pub fn insert(&mut self, text: &str) -> bool {
        let room = LINE_BYTES_MAX.saturating_sub(self.text.len()).min(text.len());
        let fits = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let fitting = &text[..fits];
        // The text behind the cursor moves, and what is shown may have begun there.
        self.from = self.from.min(self.cursor);
        self.text.insert_str(self.cursor, fitting);
        self.cursor += fitting.len();
        fitting.len() == text.len()
    }

    /// Replaces what stands between `start` and the cursor.
    pub fn replace(&mut self, start: usize, text: &str) -> bool {
        self.remove(start);
        self.insert(text)
    }

    /// Removes what stands between the cursor and `other`.
    pub fn remove(&mut self, other: usize) {
        let (start, end) = (self.cursor.min(other), self.cursor.max(other));
        self.text.replace_range(start..end, "");
        self.cursor = start;
        self.from = self.from.min(start);
    }

    pub fn go(&mut self, place: usize) {
        self.cursor = place;
    }

    pub fn end(&self) -> usize {
        self.text.len()
    }

    /// The place one character before the cursor; marks without a width belong to the character before them.
    pub fn left(&self) -> usize {
        let before = self.text[..self.cursor].char_indices().rev();
        before.filter(|(_, letter)| columns(*letter) > 0).map(|(at, _)| at).next().unwrap_or(0)
    }

    /// The place one character behind the cursor.
    pub fn right(&self) -> usize {
        let behind = self.text[self.cursor..].char_indices().skip(1);
        behind
            .filter(|(_, letter)| columns(*letter) > 0)
            .map(|(at, _)| self.cursor + at)
            .next()
            .unwrap_or(self.text.len())
    }

    /// The beginning of the word before the cursor.
    pub fn word_left(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before
            .char_indices()
            .rev()
            .find(|(_, letter)| letter.is_whitespace())
            .map_or(0, |(at, letter)| at + letter.len_utf8())
    }

    /// The end of the word behind the cursor.
    pub fn word_right(&self) -> usize {
        let behind = &self.text[self.cursor..];
        let blanks = behind.len() - behind.trim_start().len();
        let word = behind[blanks..].find(char::is_whitespace).unwrap_or(behind.len() - blanks);
        self.cursor + blanks + word
    }

    /// The part that is shown in `room` columns, before the cursor and behind it. One column stays free, for a cursor at the end.
    pub fn shown(&mut self, room: usize) -> (&str, &str) {
        let room = room.saturating_sub(1);
        // At the left edge some of what stands before the cursor is shown.
        if self.cursor <= self.from {
            self.from = back(&self.text[..self.cursor], room / 4);
        }
        // Where the cursor has left the part to the right, the part follows it.
        let mut taken = width(&self.text[self.from..self.cursor]);
        for letter in self.text[self.from..self.cursor].chars() {
            if taken <= room && columns(letter) > 0 {
                break;
            }
            taken -= columns(letter);
            self.from += letter.len_utf8();
        }
        let mut left = room - taken;
        let mut to = self.cursor;
        for letter in self.text[self.cursor..].chars() {
            match left.checked_sub(columns(letter)) {
                Some(rest) => left = rest,
                None => break,
            }
            to += letter.len_utf8();
        }
        // Where all of the rest is shown, room that is left shows more of the beginning.
        if to == self.text.len() {
            self.from = back(&self.text[..self.from], left);
        }
        (&self.text[self.from..self.cursor], &self.text[self.cursor..to])
    }
}
