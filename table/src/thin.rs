//! Extents that hold much less than they were made for give pieces back: after many keys have been deleted or have expired, and where those that
//! were evicted lay inline, nothing else would.
//!
//! Each round of the chores looks at the next few extents, wherever those of the round before ended, in whichever process that was.
//! A hint says where; two that look at the same extent only do so for nothing. What is found makes the next round come sooner.

use std::time::{Duration, Instant};

use polder_shm::layout::header;

use crate::api::{DATABASES, Db, Mode};
use crate::directory::map_at;
use crate::table::Table;

/// Where the next look begins: the database, and the position.
const DATABASE: u64 = header::WARDEN + 8;
const POSITION: u64 = header::WARDEN + 16;
/// Extents that one round looks at, at most: some 100 us, and a table of a million keys in a quarter of a minute.
const EXTENTS_PER_ROUND: usize = 32;
/// As of other chores: who holds a lock may be stopped.
const PATIENCE: Duration = Duration::from_micros(100);

impl Table {
    /// Looks at the next extents; answers whether one has become smaller.
    pub(crate) fn thin(&self, end: Instant) -> bool {
        let segment = self.segment();
        let (mut db, mut position) = (segment.load(DATABASE).min(DATABASES as u64) as Db, segment.load(POSITION));
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
            let (shrunk, next) = txn.thin(db, position);
            found |= shrunk;
            (db, position) = next.map_or((db + 1, 0), |next| (db, next));
            if Instant::now() >= end {
                break;
            }
        }
        if db as usize >= DATABASES {
            (db, position) = (0, 0);
        }
        // Two who write at once may mix these up: then an extent waits for the next time round.
        for (word, value) in [(DATABASE, db.into()), (POSITION, position)] {
            if segment.load(word) != value {
                segment.publish(word, value);
            }
        }
        found
    }
}
