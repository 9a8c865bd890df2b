//! The words of the tier: which thread of which process has it, and which of its threads are asked for values.
//!
//! - **W1** OWNER changes as `owner_word.rs` says.
//! - **W2** The owner's process alone writes the other words. A seat that is named there counts as long as its thread lives and the owner does.
use crate::Segment;
use crate::layout::tier as at;
use crate::owner_word::{Claim, mark, unmark};

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
        match self.segment.claim_word(at::OWNER, seat, life) {
            Claim::Held => return true,
            Claim::Refused => return false,
            Claim::Taken => {}
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
        self.segment.release_word(at::OWNER, seat, life);
    }

    /// The process that has the tier, if it lives.
    pub fn process(&self) -> Option<u32> {
        self.segment.owner_in(at::OWNER, at::PID).filter(|owner| owner.lives).map(|owner| owner.process)
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

    /// The number of compactions of the store that were asked for.
    pub fn compactions_asked(&self) -> u64 {
        self.segment.observe(at::COMPACTIONS)
    }

    /// Asks for a compaction of the store. Any thread may.
    pub fn ask_compaction(&self) {
        self.segment.word(at::COMPACTIONS).fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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
