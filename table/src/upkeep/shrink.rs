//! Shrinking: extents that hold much less than they have room for give pieces back. After many keys have been deleted, have expired or were
//! evicted, nothing else would free the memory of their entries.
//!
//! Each round of maintenance looks at the next few extents. A hint in the header says where the last round ended, in whichever process that
//! was. If two threads look at the same extent, the second look finds nothing to do. A round that has shrunk an extent makes the next round
//! come sooner.

use std::time::{Duration, Instant};

use polder_shm::layout::header;
use polder_shm::sync;

use crate::api::{DATABASES, Db, Mode};
use crate::layout::directory::map_at;
use crate::table::Table;

/// Where the next look begins: the database, and the position.
const DATABASE: u64 = header::MAINTAINED + 8;
const POSITION: u64 = header::MAINTAINED + 16;
/// Extents that one round looks at, at most: some 100 us, and a table of a million keys in a quarter of a minute.
const EXTENTS_PER_ROUND: usize = 32;
/// How long it waits for a lock, as other maintenance does: the holder may be stopped.
const PATIENCE: Duration = Duration::from_micros(100);

impl Table {
    /// Looks at the next extents; returns whether one has become smaller.
    pub(crate) fn shrink_extents(&self, end: Instant) -> bool {
        let segment = self.segment();
        let (mut db, mut position) =
            (segment.load(DATABASE).min(DATABASES as u64) as Db, segment.load(POSITION));
        let mut found = false;
        for _ in 0..EXTENTS_PER_ROUND {
            while (db as usize) < DATABASES && segment.observe(map_at(db) + 8) == 0 {
                (db, position) = (db + 1, 0);
            }
            if db as usize >= DATABASES {
                break;
            }
            let Ok(txn) = self.begin(Mode::Write) else { break };
            txn.limit_patience(PATIENCE);
            let (shrunk, next) = txn.shrink_if_spare(db, position);
            found |= shrunk;
            (db, position) = next.map_or((db + 1, 0), |next| (db, next));
            if sync::now() >= end {
                break;
            }
        }
        if db as usize >= DATABASES {
            (db, position) = (0, 0);
        }
        // Two threads that write at once may leave a mixture of both: then some extents wait for the next pass over the table.
        for (word, value) in [(DATABASE, db.into()), (POSITION, position)] {
            if segment.load(word) != value {
                segment.publish(word, value);
            }
        }
        found
    }
}
