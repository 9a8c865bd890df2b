//! Reading files into a table: nothing expires and nothing is evicted meanwhile, in any process, whatever the limits are or become.
//!
//! ```text
//!   LOADING   0: no thread reads; else life << 12 | seat + 1 of the thread that does
//! ```
//!
//! - **R1** What a log of commands met when they were made must be there when they are made again. So a reader does not set limits, which are settings that
//!   any process may set again at any time: it has a word of its own, which no setting touches.
//! - **R2** A word whose thread has died is cleared by the next round of maintenance of any process, or taken over by the next reader.

use polder_base::Fault;
use polder_shm::Segment;
use polder_shm::layout::header;

use crate::table::Table;

/// Behind the limits.
const LOADING: u64 = header::LIMITS + 56;
const SEAT_BITS: u32 = 12;

/// Files are read into a table, until this is dropped.
pub struct Loading<'t> {
    table: &'t Table,
    mark: u64,
}

impl Table {
    /// Says that the calling thread reads files into the table.
    ///
    /// # Errors
    /// [`Fault::System`] where another living thread does.
    pub fn begin_loading(&self) -> Result<Loading<'_>, Fault> {
        let (segment, seat) = (self.segment(), self.seat()?);
        let (before, mark) = (segment.observe(LOADING), seat.life() << SEAT_BITS | (seat.index() + 1));
        if before != 0 && lives(segment, before) || segment.exchange(LOADING, before, mark).is_err() {
            return Err(Fault::System(
                "another thread reads files into this memory: try again when that has ended".into(),
            ));
        }
        Ok(Loading { table: self, mark })
    }

    /// Whether files are read into the table.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.segment().load(LOADING) != 0
    }

    /// R2.
    pub(crate) fn end_loading_of_dead(&self) {
        let segment = self.segment();
        let mark = segment.observe(LOADING);
        if mark != 0 && !lives(segment, mark) {
            // Another one has done the same, or reads by now.
            let _ = segment.exchange(LOADING, mark, 0);
        }
    }
}

impl<'t> Loading<'t> {
    /// What is read into.
    pub fn table(&self) -> &'t Table {
        self.table
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        // Its own, unless the thread has given up its seat meanwhile.
        let _ = self.table.segment().exchange(LOADING, self.mark, 0);
    }
}

fn lives(segment: &Segment, mark: u64) -> bool {
    segment.lives((mark & ((1 << SEAT_BITS) - 1)).wrapping_sub(1), mark >> SEAT_BITS)
}
