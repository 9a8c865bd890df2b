//! An overview of the seats, read from outside, without a seat, a lock or a store.
//!
//! Words change while they are read, so what is shown together need not have been true together. It is for people and
//! monitoring only: no decision may rely on it.

use crate::item::{Tag, item_of};
use crate::layout::{header, seat as at};
use crate::liveness::Life;
use crate::segment::Segment;

/// What a seat is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    Nothing,
    /// It looks at nodes that must stay.
    Reading,
    /// It holds this many locks, or is about to take the last of them.
    Writing {
        locks: u64,
    },
    /// Its transaction is committed, and its locks are being released.
    Publishing,
}

/// A seat that a living thread owns, or whose owner died.
#[derive(Clone, Debug)]
pub struct Seated {
    pub index: u64,
    /// As its own PID namespace numbers them.
    pub process: u32,
    pub thread: u32,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// Dead and not recovered yet.
    pub dead: bool,
    pub doing: Doing,
    /// Epochs since its reader began: what was retired since then waits for it.
    pub pinned_epochs: u64,
    pub retired_bytes: u64,
    /// What this seat's owners have counted, from the first on.
    pub counters: [u64; COUNTERS],
}

/// How many counters a seat keeps.
pub const COUNTERS: usize = ((at::TALLIES - at::COUNTERS) / 8) as usize;

impl Segment {
    /// The seats that are taken.
    pub fn seated(&self) -> Vec<Seated> {
        (0..self.seats_high()).filter_map(|index| self.seated_at(index)).collect()
    }

    fn seated_at(&self, index: u64) -> Option<Seated> {
        let base = self.seat_at(index);
        let owner = self.observe(base + at::OWNER);
        if owner == 0 {
            return None;
        }
        let lower = self.load(base + at::PIN_LOWER);
        let counter = |number: usize| self.load(base + at::COUNTERS + 8 * number as u64);
        Some(Seated {
            index,
            process: owner as u32,
            thread: (owner >> 32) as u32,
            since_ms: self.load(base + at::SINCE_MS),
            dead: self.liveness(index).life() == Life::Dead,
            doing: self.doing(base),
            pinned_epochs: if lower == at::NO_PIN {
                0
            } else {
                self.load(header::EPOCH).saturating_sub(lower)
            },
            retired_bytes: self.load(base + at::RETIRED_BYTES),
            counters: std::array::from_fn(counter),
        })
    }

    fn doing(&self, base: u64) -> Doing {
        if self.load(base + at::STATUS) & 3 == at::COMMITTED {
            return Doing::Publishing;
        }
        let items = self.load(base + at::JOURNAL_LEN).min(at::JOURNAL_PAIRS);
        let is_lock =
            |item: &u64| matches!(item_of(self.load(base + at::JOURNAL + 16 * item)), Some((Tag::Lock, _)));
        match (0..items).filter(is_lock).count() as u64 {
            0 if self.load(base + at::PIN_LOWER) == at::NO_PIN => Doing::Nothing,
            0 => Doing::Reading,
            locks => Doing::Writing { locks },
        }
    }

    /// When the segment was made, in milliseconds since the Unix epoch.
    pub fn created_ms(&self) -> u64 {
        self.load(header::CREATED_MS)
    }

    /// What tells the memory from every other: hexadecimal digits. A `file:` segment that was in use when the machine went down is another memory
    /// from then on ([`Segment::was_memory`]).
    pub fn memory_id(&self) -> String {
        match self.load(header::INCARNATION) {
            0 => self.first_id(),
            incarnation => format!("{}.{incarnation:016x}", self.first_id()),
        }
    }

    /// Whether an id is that of this memory before the machine went down while it was in use.
    pub fn was_memory(&self, id: &str) -> bool {
        id != self.memory_id() && id.split('.').next() == Some(&self.first_id())
    }

    fn first_id(&self) -> String {
        match [self.load(header::MEMORY_ID), self.load(header::MEMORY_ID + 8)] {
            // Of a program that did not draw one: what its log names it by.
            [0, 0] => format!("{:x}", self.created_ms()),
            [high, low] => format!("{high:016x}{low:016x}"),
        }
    }

    /// Says that data is about to be read into the memory, or that it is there.
    pub fn set_reading(&self, is_reading: bool) {
        self.publish(header::READING, is_reading.into());
    }

    /// Whether data may be about to be read into the memory.
    pub fn may_be_reading(&self) -> bool {
        self.observe(header::READING) != 0
    }

    /// The layout's number.
    pub fn layout(&self) -> u32 {
        self.load(header::LAYOUT) as u32
    }
}
