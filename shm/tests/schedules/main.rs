//! The real lock, journal, recovery, pins, inboxes, wakeups and change log under shuttle, which chooses the order of their steps.
//!
//! Each scenario is a small segment and two or three threads with seats of their own. Each access to a word of the segment is a step
//! (`src/sync.rs`), and a thread may die before any of its stores (`src/schedules.rs`). What must hold is asserted at the end of each
//! schedule, the audit of all nodes included. Each scenario also runs with flaws that the code has on purpose (`Flaw`): the test must find
//! them, or it proves nothing.
//!
//! What is proven here is the order of steps, not the choice of barriers (tests/orderings.rs).

mod commits;
mod feeds;
mod inboxes;
mod outboxes;
mod pins;

use std::sync::Arc;

use polder_shm::Segment;
use polder_shm::audit::Audit;
use polder_shm::layout::{ROOTS_AT, seat as at};
use polder_shm::node::NodeKind;
use polder_shm::scenario::{BROKEN, Prepared};
use polder_shm::schedules;

thread_local! {
    // A node is made and freed, so that there is a slab of its class.
    static PREPARED: Prepared = Prepared::new(|segment| {
        _ = segment.seat().expect("a seat").make(NodeKind::Data, 64).expect("memory");
    });
}

/// The segment of one schedule.
pub struct Memory {
    pub segment: Arc<Segment>,
}

impl Memory {
    pub fn renewed() -> Memory {
        Memory { segment: PREPARED.with(Prepared::renewed) }
    }

    /// Recovers what the dead have left, and checks that no seat holds anything and that each node is in one place. `reachable`: those that
    /// the scenario's own words name.
    pub fn check(&self, reachable: &[u64]) {
        let segment = &self.segment;
        segment.recover_dead();
        schedules::quietly(|| {
            for seat in (0..segment.seats_high()).map(|index| segment.seat_at(index)) {
                let left = [at::JOURNAL_LEN, at::MEMORY_STATUS, at::PENDING, at::CLOSING]
                    .map(|word| segment.load(seat + word));
                assert_eq!(left, [0; 4], "{BROKEN}a seat is left in a transaction");
            }
            let mut audit = Audit::new(segment);
            for node in reachable {
                audit.claim(*node, &"the scenario");
            }
            audit.seats();
            audit.change_log();
            audit.slabs();
            assert!(audit.findings.is_empty(), "{BROKEN}the audit found {:?}", audit.findings);
        });
    }
}

/// A word of the roots for scenarios, in a cache line of its own.
pub const fn word(number: u64) -> u64 {
    ROOTS_AT + number * 64
}
