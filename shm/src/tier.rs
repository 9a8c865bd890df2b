//! The words of the tier: which thread of which process has it, and which of its threads are asked for values.
//!
//! - **W1** OWNER changes by compare-and-swap only, as that of the storage process does (`storage.rs`): a mark names a seat and one life of it. A thread
//!   that dies leaves its mark, and the next candidate replaces it.
//! - **W2** The owner's process alone writes the other words. A seat that is named there counts as long as its thread lives and the owner does.
use crate::Segment;
use crate::layout::tier as at;
use crate::storage::{mark, unmark};

/// The words of the tier of a segment.
#[derive(Clone, Copy)]
pub struct TierWords<'s> {
    segment: &'s Segment,
}

impl Segment {
    /// The words of the tier.
    pub fn tier(&self) -> TierWords<'_> {
        TierWords { segment: self }
    }
}

impl TierWords<'_> {
    /// Takes the words for the calling thread's seat. Returns false while another living thread has them (W1).
    pub fn claim(&self, seat: u64, life: u64) -> bool {
        let before = self.segment.observe(at::OWNER);
        if before == mark(seat, life) {
            return true;
        }
        if before != 0 && self.segment.is_marked_alive(before)
            || self.segment.exchange(at::OWNER, before, mark(seat, life)).is_err()
        {
            return false;
        }
        self.segment.publish(at::THREADS, 0);
        self.segment.publish(at::PID, std::process::id().into());
        true
    }

    /// Gives the words back.
    pub fn release(&self, seat: u64, life: u64) {
        if self.segment.observe(at::OWNER) == mark(seat, life) {
            self.segment.publish(at::THREADS, 0);
        }
        // The thread has them, or has not; W1.
        let _ = self.segment.exchange(at::OWNER, mark(seat, life), 0);
    }

    /// The process that has the tier, if it lives.
    pub fn process(&self) -> Option<u32> {
        let mark = self.segment.observe(at::OWNER);
        (mark != 0 && self.segment.is_marked_alive(mark)).then(|| self.segment.observe(at::PID) as u32)
    }

    /// Says that a thread of the owner's process serves part `number` (W2).
    pub fn join(&self, number: u64, (seat, life): (u64, u64)) {
        self.segment.publish(at::SEATS + number % at::THREADS_MAX * 8, mark(seat, life));
    }

    /// Says how many threads there are, once all of them have joined.
    pub fn open(&self, threads: u64) {
        self.segment.publish(at::THREADS, threads.min(at::THREADS_MAX));
    }

    /// The number of threads that serve requests; none without a living owner.
    pub fn threads(&self) -> u64 {
        self.process().map_or(0, |_| self.segment.observe(at::THREADS).min(at::THREADS_MAX))
    }

    /// The seat of the thread that serves part `number`, and its life; `None`: it does not live.
    pub fn thread(&self, number: u64) -> Option<(u64, u64)> {
        let mark = self.segment.observe(at::SEATS + number % at::THREADS_MAX * 8);
        self.segment.is_marked_alive(mark).then(|| unmark(mark))
    }

    /// A figure that the owner's process tells.
    pub fn figure(&self, number: u64) -> u64 {
        self.segment.observe(at::FIGURES + number % at::FIGURES_MAX * 8)
    }

    /// Tells a figure (W2).
    pub fn tell(&self, number: u64, value: u64) {
        self.segment.publish(at::FIGURES + number % at::FIGURES_MAX * 8, value);
    }

    /// Adds to a figure.
    pub fn add(&self, number: u64, value: u64) {
        let figure = self.segment.word(at::FIGURES + number % at::FIGURES_MAX * 8);
        figure.fetch_add(value, std::sync::atomic::Ordering::Relaxed);
    }
}
