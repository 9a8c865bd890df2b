//! Figures of a table: its memory, its keys and the shape of its databases.

use std::sync::atomic::Ordering;

use polder_shm::layout::{header, seat as at};

use crate::access::lookup;
use crate::api::*;
use crate::layout::bucket::{self, UNITS};
use crate::layout::directory::{self, Slot, database, map_at};
use crate::table::Table;

impl Table {
    /// Returns the figures of the memory.
    pub fn usage(&self) -> Usage {
        let segment = self.segment();
        let used = segment.used_bytes();
        let peak = segment.word(header::USED_PEAK).fetch_max(used, Ordering::Relaxed).max(used);
        Usage {
            ceiling: segment.geometry().ceiling
                - polder_shm::layout::SEATS_AT
                - polder_shm::layout::SEATS_MAX * at::BYTES,
            committed: segment.committed_bytes(),
            used,
            used_peak: peak,
            fixed: segment.fixed_bytes(),
            claimed: self.claimed(),
            table: self.table_bytes(),
            retired: segment.sum_over_seats(at::RETIRED_BYTES),
            page_bytes: segment.mapping().pages().page_bytes as u64,
            seats_used: (0..segment.seats_high())
                .filter(|seat| segment.load(segment.seat_at(*seat) + at::OWNER) != 0)
                .count() as u32,
            seats_max: polder_shm::layout::SEATS_MAX as u32,
        }
    }

    /// Keys of a database and those of them with an expiry, seen from outside of any transaction.
    pub fn keys(&self, db: Db) -> (u64, u64) {
        (self.tally_of(db, 0), self.tally_of(db, 1))
    }

    /// Keys of a database with fields that expire, as [`Table::keys`].
    pub fn keys_with_field_expiry(&self, db: Db) -> u64 {
        self.tally_of(db, 2)
    }

    /// Keys of a database whose values lie in a tier, as [`Table::keys`].
    pub fn cold_keys(&self, db: Db) -> u64 {
        self.tally_of(db, 3)
    }

    /// Returns the parts of the table of a database.
    pub fn shape(&self, db: Db) -> TableShape {
        let mut shape = TableShape::default();
        self.each_extent(db, &mut |extent| {
            shape.extents += 1;
            shape.buckets += extent.buckets();
            shape.places += extent.buckets() * UNITS as u64;
            shape.bytes += extent.pieces * bucket::PIECE_BYTES + directory::extent::PAYLOAD as u64;
        });
        shape
    }

    /// Bytes of buckets and directories.
    fn table_bytes(&self) -> u64 {
        let mut bytes = 0;
        for db in 0..DATABASES as Db {
            self.each_extent(db, &mut |extent| {
                bytes += extent.pieces * bucket::PIECE_BYTES + directory::extent::PAYLOAD as u64;
            });
        }
        bytes
    }

    /// Visits every extent of a database; returns false when it gave up, since the directory kept changing.
    pub(crate) fn each_extent(&self, db: Db, visit: &mut dyn FnMut(&directory::Extent)) -> bool {
        const ATTEMPTS_MAX: u32 = 1000;
        let Ok(seat) = self.seat() else { return false };
        seat.pin();
        let (mut position, mut attempts) = (Some(0), 0);
        while let Some(at) = position
            && attempts < ATTEMPTS_MAX
        {
            let root = self.segment().observe(map_at(db) + 8);
            if root == 0 {
                position = None;
                continue;
            }
            match directory::walk(self.segment(), root, at) {
                Some(extent) if seat.covers_now() && extent.covers(at) => {
                    visit(&extent);
                    position = extent.end();
                }
                _ => attempts += 1,
            }
        }
        seat.unpin();
        position.is_none()
    }

    /// Keys in a database (`word` 0), keys with an expiry (1) or with fields that have one (2), and stubs (3), from the tallies of all seats.
    pub(crate) fn tally_of(&self, db: Db, word: u64) -> u64 {
        const ATTEMPTS_MAX: u32 = 1_000;
        let Ok(seat) = self.seat() else { return 0 };
        let segment = self.segment();
        let mut keys = 0;
        // A database that is emptied or swapped meanwhile is counted anew. If that happens each time, the count of some moment is returned.
        for _ in 0..ATTEMPTS_MAX {
            let (node, root) = lookup::map_words(&seat, db);
            if root == 0 {
                return 0;
            }
            let tally = directory::tally_of(root);
            // A node that names another tally is damaged, or is used for something else by now (S5).
            let known = segment.check(node, 64) && segment.load(node + database::TALLY) == tally;
            let base = if known { segment.load(node + database::KEYS_BASE + word * 8) } else { 0 };
            keys =
                segment.sum_over_seats(at::TALLIES + tally * at::TALLY_BYTES + word * 8).wrapping_sub(base);
            if lookup::map_words(&seat, db) == (node, root) {
                break;
            }
        }
        // Seats are read one after the other: a key that came by one and went by another meanwhile may count as less than none.
        if (keys as i64) < 0 { 0 } else { keys }
    }

    /// Returns the name in the directory's slot at a position, for `inspect` and `verify`.
    pub fn slot(&self, word: u64) -> Slot {
        directory::slot_of(self.segment(), word)
    }
}
