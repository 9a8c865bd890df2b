//! Small collections on their way out: held back until it is known that they are small, then written in one string.
use super::cursor::Piece;
use super::found::piece;
use super::packed::{Form, Listpack, Walk, integer_of};

/// Up to which sizes collections are written packed: Redis's settings of these names.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    pub hash_entries: u64,
    pub hash_value: u64,
    pub set_integers: u64,
    pub set_entries: u64,
    pub set_value: u64,
    pub scores_entries: u64,
    pub scores_value: u64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            hash_entries: 512,
            hash_value: 64,
            set_integers: 512,
            set_entries: 128,
            set_value: 64,
            scores_entries: 128,
            scores_value: 64,
        }
    }
}

/// No packed string grows past this, whatever the settings say: readers take it as one.
const PACK_MAX: usize = 64 << 20;

/// Elements held back.
#[derive(Default)]
pub(super) struct Held {
    /// Integers alone, which may become an intset.
    pub integers: Vec<i64>,
    pub pack: Listpack,
    /// The scores of a sorted set, of which the listpack holds texts.
    pub scores: Vec<f64>,
    /// The longest element that may stand in the listpack.
    pub value_max: u64,
}

impl Held {
    pub fn clear(&mut self, value_max: u64) {
        self.integers.clear();
        self.pack.clear();
        self.scores.clear();
        self.value_max = value_max;
    }

    /// Takes these elements, unless one of them is too long.
    pub fn take(&mut self, elements: &[&[u8]]) -> bool {
        let fits = elements.iter().all(|element| element.len() as u64 <= self.value_max)
            && self.pack.entries.len() < PACK_MAX;
        if fits {
            elements.iter().for_each(|element| self.pack.push(element));
        }
        fits
    }

    /// Takes a member with its score, unless the member is too long; the score's text may be of any length.
    pub fn take_scored(&mut self, member: &[u8], score: f64, text: &[u8]) -> bool {
        let fits = self.take(&[member]);
        if fits {
            self.pack.push(text);
            self.scores.push(score);
        }
        fits
    }

    /// Takes a member if it is an integer.
    pub fn take_integer(&mut self, member: &[u8]) -> bool {
        let number = integer_of(member);
        self.integers.extend(number);
        number.is_some()
    }

    /// The integers, as an intset.
    pub fn intset(&mut self, out: &mut Vec<u8>) {
        self.integers.sort_unstable();
        self.integers.dedup();
        let fits =
            |bits: u32| self.integers.iter().all(|number| number << (64 - bits) >> (64 - bits) == *number);
        let width: usize = if fits(16) {
            2
        } else if fits(32) {
            4
        } else {
            8
        };
        out.clear();
        out.extend_from_slice(&(width as u32).to_le_bytes());
        out.extend_from_slice(&(self.integers.len() as u32).to_le_bytes());
        for number in &self.integers {
            out.extend_from_slice(&number.to_le_bytes()[..width]);
        }
    }

    /// Shows every element held back, in the order in which they came; nothing is held afterwards.
    pub fn release(&mut self, show: &mut dyn FnMut(&[u8])) {
        let mut text = itoa::Buffer::new();
        self.integers.iter().for_each(|number| show(text.format(*number).as_bytes()));
        let mut blob = Vec::new();
        self.pack.finish(None, &mut blob);
        let (mut walk, mut text) =
            (Walk::new(Form::Listpack, &blob).expect("a listpack of our own"), Vec::new());
        while let Some(entry) = walk.next(&blob).expect("a listpack of our own") {
            match piece(entry, &mut text, 0) {
                Piece::Blob(range) => show(&blob[range]),
                _ => show(&text),
            }
        }
        self.clear(0);
    }
}
