//! The lines of a connection.
use std::collections::VecDeque;

use super::line::Line;

/// The most lines that are kept, and their bytes.
pub const LINES_MAX: usize = 200;
pub const BYTES_MAX: usize = 64 << 10;

/// Lines from the oldest to the latest, and which of them is shown.
#[derive(Debug, Default)]
pub struct History {
    lines: VecDeque<String>,
    bytes: usize,
    /// The number of lines between the shown one and the end; 0 for the line that is being typed.
    back: usize,
    /// The line that was being typed when an older one was called up.
    draft: String,
}

impl History {
    /// Keeps a line. The oldest lines go where there are too many.
    pub fn add(&mut self, line: &str) {
        self.leave();
        if self.lines.back().is_some_and(|last| last == line) || line.len() > BYTES_MAX {
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line.into());
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            self.bytes -= self.lines.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Goes back to the line that is being typed, without showing it.
    pub fn leave(&mut self) {
        self.back = 0;
        self.draft.clear();
    }

    /// Shows the line before; returns whether there is one.
    pub fn go_back(&mut self, line: &mut Line) -> bool {
        let Some(at) = self.lines.len().checked_sub(self.back + 1) else { return false };
        if self.back == 0 {
            self.draft = line.text().into();
        }
        self.back += 1;
        line.set(&self.lines[at]);
        true
    }

    /// Shows the line behind, and at last the one that was being typed.
    pub fn go_on(&mut self, line: &mut Line) -> bool {
        let Some(back) = self.back.checked_sub(1) else { return false };
        self.back = back;
        match self.lines.len().checked_sub(back) {
            Some(at) if back > 0 => line.set(&self.lines[at]),
            _ => line.set(&std::mem::take(&mut self.draft)),
        }
        true
    }
}
