//! Retries after OOM: a write for which there is no memory, while some is about to come free, helps to free it and tries again.
//!
//! FLUSHALL leaves its keys to the sweep, and what goes out of use is free only when no pin can see it any more. So memory may be full for a
//! moment. A write that meets that moment sweeps a step and frees what its own seat has retired. It tries again as long as it frees
//! something; for [`WINDOW_MS`] after the last step of a sweep by any thread; and while readers hold what its seat has retired. If there is
//! enough memory, but for nodes of other sizes, it moves these together (`compact.rs`). If nothing of this helps, the write fails with OOM.
//!
//! While a [`Window`] is open, memory is likely to come free soon, so a write tries again instead of failing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use polder_base::Fault;
use polder_shm::layout::seat as at;
use polder_shm::sync;

use crate::api::Stop;
use crate::table::Table;
use crate::table::compact_pass;
use crate::txn::Txn;
use crate::upkeep::maintenance::Swept;

/// The most reclamations in a row.
const RECLAIMS_MAX: usize = 16;
/// The pause before a write tries again.
const REST: Duration = Duration::from_millis(1);

/// A change of the retired bytes counts if it is more than the ceiling divided by this.
const PART: u64 = 64;

impl Table {
    /// Whether this process has swept recently. What its threads have retired by that is freed as soon as the pins of other threads allow it.
    pub fn is_relieving(&self) -> bool {
        self.oom_retry.is_worthwhile()
    }

    /// Opens the window if other threads have swept since the last look, or the bytes that wait to be freed have become many more or fewer.
    fn watch_others(&self) {
        let (oom_retry, segment) = (&self.oom_retry, self.segment());
        let garbage =
            self.garbage().fold(0u64, |sum, (cell, node)| sum.wrapping_mul(31).wrapping_add(cell ^ node));
        let retired = segment.sum_over_seats(at::RETIRED_BYTES);
        let (old_garbage, old) =
            (oom_retry.garbage.swap(garbage, Ordering::Relaxed), oom_retry.retired.load(Ordering::Relaxed));
        let differs = retired.abs_diff(old) > segment.geometry().ceiling / PART;
        if differs {
            oom_retry.retired.store(retired, Ordering::Relaxed);
        }
        if garbage != old_garbage || differs && self.garbage().next().is_some() {
            oom_retry.note_sweep();
        } else if differs {
            oom_retry.note_others();
        }
    }
}

impl Txn<'_> {
    /// To be called by an aborted transaction whose work has ended with `stop`. Returns `Ok` if the transaction is to run again, since there
    /// may be memory now.
    ///
    /// # Errors
    /// [`Stop::Busy`] if there may be memory soon but the transaction does not wait for it; otherwise `stop`.
    #[cold]
    pub fn await_room(&self, stop: Stop) -> Result<(), Stop> {
        if !matches!(stop, Stop::Fault(Fault::Full(_))) {
            return Err(stop);
        }
        let freed = self.seat.freed();
        self.sweep_for_room();
        self.table.watch_others();
        // Nothing that was found is used any more (T3), so the pin may end. A pin of the server's turn goes on; what it holds back comes free
        // when the turn ends.
        self.seat.unpin();
        let mut before = self.seat.freed();
        for _ in 0..RECLAIMS_MAX {
            let more = self.seat.reclaim_until(sync::now() + REST);
            if self.seat.freed() == std::mem::replace(&mut before, self.seat.freed()) && !more {
                break;
            }
        }
        self.seat.pin();
        if self.seat.freed() != freed {
            self.table.oom_retry.own.close();
            // The cached nodes may be all that keeps slabs from serving another size.
            self.seat.return_caches();
            return Ok(());
        }
        if self.seat.retired_bytes() > 0 {
            self.table.oom_retry.own.open_for_a_while();
        }
        // Slabs of another size may be half empty.
        self.table.compact(self, compact_pass::SHARE, sync::now() + REST);
        if self.seat.freed() != freed {
            return Ok(());
        }
        if !self.table.oom_retry.is_worthwhile() {
            return Err(stop);
        }
        if self.is_impatient() {
            return Err(Stop::Busy);
        }
        self.seat.unpin();
        sync::sleep(REST);
        self.seat.pin();
        Ok(())
    }

    /// Sweeps a step.
    fn sweep_for_room(&self) {
        let mut steps = self.table.garbage().map(|(cell, node)| self.sweep_step(cell, node));
        steps.any(|step| matches!(step, Ok(Swept::Some | Swept::All)));
    }
}
