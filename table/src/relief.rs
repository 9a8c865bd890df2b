//! Relief: who writes and finds no memory, while some is on its way back, helps it along and tries again.
//!
//! FLUSHALL leaves its keys to the sweep, and what goes out of use is free when no pin can see it any more. So memory may seem full for a
//! moment. Who meets that moment sweeps a step and frees what its own seat has retired; it tries again as long as it frees something, and for
//! [`HOPE_MS`] after the last step of a sweep, whoever made it, or while readers hold what it has retired itself. Where there is memory
//! enough, but for nodes of other sizes, it moves these together (`compact.rs`). Then memory is full.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_shm::layout::seat as at;

use crate::api::Stop;
use crate::chores::Swept;
use crate::compact;
use crate::table::Table;
use crate::txn::Txn;

/// How long after the last step of a sweep something may be expected to come free: when the turns end that hold pins, and who swept comes
/// by again.
const HOPE_MS: u64 = 300;
/// How long there is hope at most because others free something, and then none until this has passed again: or who wants more than there ever is
/// would hope for as long as others do anything.
const HOPE_MS_MAX: u64 = 2000;
/// A pass of compaction gives hope for [`HOPE_MS_MAX`] of CPU time, and for so many times as long by the clock: its thread may be stopped.
const PASS_WAIT: u64 = 10;
/// How often it is looked for what has come free, one time after the other, at most.
const RECLAIMS_MAX: usize = 16;
/// How long who waits for that rests.
const REST: Duration = Duration::from_millis(1);

/// Milliseconds of this process alone, by a clock that nobody sets: a wall clock that is set back would give hope, or none, for as long.
fn ticks_ms() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    // As if all that counts from 0 were long ago.
    2 * HOPE_MS_MAX + BEGUN.elapsed().as_millis() as u64
}

/// Since when there is hope for a reason, and until when there is any.
#[derive(Default)]
struct Hope {
    since_ms: AtomicU64,
    until_ms: AtomicU64,
}

impl Hope {
    /// For [`HOPE_MS`] from now on.
    fn renew(&self) {
        self.until_ms.store(ticks_ms() + HOPE_MS, Ordering::Relaxed);
    }

    /// The same, but not for longer than [`HOPE_MS_MAX`] unless it is fulfilled meanwhile.
    fn renew_a_while(&self) {
        let (now_ms, since_ms) = (ticks_ms(), self.since_ms.load(Ordering::Relaxed));
        if now_ms >= since_ms + 2 * HOPE_MS_MAX {
            self.since_ms.store(now_ms, Ordering::Relaxed);
            self.renew();
        } else if now_ms < since_ms + HOPE_MS_MAX {
            self.renew();
        }
    }

    /// What was hoped for has come.
    fn fulfil(&self) {
        self.since_ms.store(0, Ordering::Relaxed);
        self.until_ms.store(0, Ordering::Relaxed);
    }

    fn is_any(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && ticks_ms() < until_ms
    }
}

/// What this process has seen of it.
#[derive(Default)]
pub(crate) struct Relief {
    /// The flushed databases, and the bytes that wait for readers, at the last look.
    litter: AtomicU64,
    retired: AtomicU64,
    /// Because of others, and because of what one has retired oneself, which readers do not hold for long unless they are stopped.
    others: Hope,
    own: Hope,
}

impl Relief {
    /// Says that a step of a sweep has been made.
    pub fn hope(&self) {
        self.others.renew();
    }

    /// Says that a pass of compaction goes on, which moves what another size of node needs and ends by itself. Unlike a clock's time, the work
    /// that a pass has done does not depend on what else the machine does: beside it [`HOPE_MS_MAX`] may end before a pass has moved anything.
    pub fn hope_for_pass(&self, worked: Duration, lasts: Duration) {
        if worked.as_millis() < HOPE_MS_MAX.into() && lasts.as_millis() < (PASS_WAIT * HOPE_MS_MAX).into() {
            self.others.renew();
        } else {
            self.others.renew_a_while();
        }
    }

    /// Says that others have freed something.
    pub fn hope_a_while(&self) {
        self.others.renew_a_while();
    }

    /// Whether what steps have freed, or one has retired, may still be on its way.
    pub fn is_hopeful(&self) -> bool {
        self.others.is_any() || self.own.is_any()
    }
}

/// A part of the segment that makes a difference.
const PART: u64 = 64;

impl Table {
    /// Whether this process has swept of late: what its threads have retired by that goes as soon as the pins of others allow it.
    pub fn is_relieving(&self) -> bool {
        self.relief.is_hopeful()
    }

    /// Hopes if others have swept since the last look, or what is on its way back has become much more or less.
    fn watch_others(&self) {
        let (relief, segment) = (&self.relief, self.segment());
        let litter = self.litter().fold(0u64, |sum, (cell, node)| sum.wrapping_mul(31).wrapping_add(cell ^ node));
        let retired = segment.sum_over_seats(at::RETIRED_BYTES);
        let (old_litter, old) = (relief.litter.swap(litter, Ordering::Relaxed), relief.retired.load(Ordering::Relaxed));
        let differs = retired.abs_diff(old) > segment.geometry().ceiling / PART;
        if differs {
            relief.retired.store(retired, Ordering::Relaxed);
        }
        if litter != old_litter || differs && self.litter().next().is_some() {
            relief.hope();
        } else if differs {
            relief.hope_a_while();
        }
    }
}

impl Txn<'_> {
    /// To be asked by an aborted transaction whose work has stopped with this: whether it is to be run again, since there may be memory now.
    ///
    /// # Errors
    /// [`Stop::Busy`] where there may be some soon and the transaction does not wait for that; `stop`.
    #[cold]
    pub fn await_room(&self, stop: Stop) -> Result<(), Stop> {
        if !matches!(stop, Stop::Fault(Fault::Full(_))) {
            return Err(stop);
        }
        let freed = self.seat.freed();
        self.sweep_for_room();
        self.table.watch_others();
        // Nothing that was found is used any more (T3). What its thread's own pin holds back comes free with the end of a server's turn.
        self.seat.unpin();
        let mut before = self.seat.freed();
        for _ in 0..RECLAIMS_MAX {
            let more = self.seat.reclaim_until(Instant::now() + REST);
            if self.seat.freed() == std::mem::replace(&mut before, self.seat.freed()) && !more {
                break;
            }
        }
        self.seat.pin();
        if self.seat.freed() != freed {
            self.table.relief.own.fulfil();
            // Nodes at hand may be all that keeps slabs from another size.
            self.seat.return_caches();
            return Ok(());
        }
        if self.seat.retired_bytes() > 0 {
            self.table.relief.own.renew_a_while();
        }
        // What one size has may do for another.
        self.table.compact(self, compact::SHARE, Instant::now() + REST);
        if self.seat.freed() != freed {
            return Ok(());
        }
        if !self.table.relief.is_hopeful() {
            return Err(stop);
        }
        if self.is_impatient() {
            return Err(Stop::Busy);
        }
        self.seat.unpin();
        std::thread::sleep(REST);
        self.seat.pin();
        Ok(())
    }

    /// Sweeps a step.
    fn sweep_for_room(&self) {
        let mut steps = self.table.litter().map(|(cell, node)| self.sweep_step(cell, node));
        steps.any(|step| matches!(step, Ok(Swept::Some | Swept::All)));
    }
}
