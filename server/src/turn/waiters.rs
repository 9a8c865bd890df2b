//! Which connections of a thread wait, what each of them waits for, and when it is tried again.
//!
//! | list | waits for | tried again |
//! |---|---|---|
//! | `paused` | the end of a pause (CLIENT PAUSE), in front of a request | when no pause holds |
//! | `postponed` | the end of a pause, to run a blocked call again | when no pause holds |
//! | `locked` | a lock that stays taken, whose holder may be stopped or slow | every millisecond, in turn |
//! | `holding` | a subscriber's thread that is behind | see `holding.rs` |
//! | `cold` | values of the tier | see `cold.rs` |
//! | `deadlines` | a key, at most until its time | by a message, or when its time has come |
//! | `answered` | the end of this turn, after its wait for a key has ended | at the end of the turn |
//!
//! The lists hold slots and client ids only. Nothing here touches a connection, so that the rules can be tested alone.
use std::collections::{BTreeSet, VecDeque};

use crate::host::Pause;

use super::cold_waits::ColdWaits;
use super::holding::Holding;

/// How long a call may wait for locks, and how long after another call of the same turn has waited without success.
const LOCK_PATIENCE_US: u64 = 100;
const SPENT_PATIENCE_US: u64 = 1;
/// How long after the last attempt connections that wait for locks are tried again, and how many of them at once.
const LOCK_RETRY_US: u64 = 1000;
const LOCK_RETRIES_MAX: usize = 64;

/// The connections of a thread that wait.
pub struct Waiters {
    /// The pause that holds now.
    pub pause: Option<Pause>,
    /// How long the calls of this turn may wait for a lock.
    pub patience_us: u64,
    pub holding: Holding,
    pub cold: ColdWaits,
    paused: Vec<usize>,
    postponed: Vec<u64>,
    locked: VecDeque<usize>,
    lock_retry_due_us: u64,
    /// When a wait for a key ends, and the client that waits.
    deadlines: BTreeSet<(u64, u64)>,
    answered: Vec<usize>,
}

impl Default for Waiters {
    fn default() -> Waiters {
        Waiters {
            pause: None,
            patience_us: LOCK_PATIENCE_US,
            holding: Holding::default(),
            cold: ColdWaits::default(),
            paused: Vec::new(),
            postponed: Vec::new(),
            locked: VecDeque::new(),
            lock_retry_due_us: 0,
            deadlines: BTreeSet::new(),
            answered: Vec::new(),
        }
    }
}

impl Waiters {
    /// Adds a connection that a pause holds back.
    pub fn wait_for_pause(&mut self, slot: usize) {
        self.paused.push(slot);
    }

    /// Adds a client whose blocked call a pause keeps from running again.
    pub fn postpone(&mut self, client: u64) {
        if !self.postponed.contains(&client) {
            self.postponed.push(client);
        }
    }

    /// Whether the end of a pause would set anything free.
    pub fn awaits_pause(&self) -> bool {
        !self.paused.is_empty() || !self.postponed.is_empty()
    }

    /// The connections that a pause has held back, once no pause holds.
    #[inline]
    pub fn take_paused(&mut self) -> Vec<usize> {
        if self.pause.is_some() { Vec::new() } else { std::mem::take(&mut self.paused) }
    }

    /// The clients whose calls a pause has held back, once no pause holds.
    #[inline]
    pub fn take_postponed(&mut self) -> Vec<u64> {
        if self.pause.is_some() { Vec::new() } else { std::mem::take(&mut self.postponed) }
    }

    /// Adds a connection whose call has met a lock. The other calls of this turn get little time to wait, so that turns stay short.
    pub fn wait_for_lock(&mut self, slot: usize) {
        self.patience_us = SPENT_PATIENCE_US;
        self.locked.push_back(slot);
    }

    /// As [`Waiters::wait_for_lock`] for a blocked call, which may be run again while its connection is in the list.
    pub fn wait_for_lock_again(&mut self, slot: usize) {
        self.patience_us = SPENT_PATIENCE_US;
        if !self.locked.contains(&slot) {
            self.locked.push_back(slot);
        }
    }

    /// The connections that try their locks again now. Each time another one is the first and has the most patience.
    #[inline]
    pub fn take_locked(&mut self, now_us: u64) -> Vec<usize> {
        if self.locked.is_empty() || now_us < self.lock_retry_due_us {
            return Vec::new();
        }
        self.locked.rotate_left(1);
        let count = self.locked.len().min(LOCK_RETRIES_MAX);
        self.locked.drain(..count).collect()
    }

    /// Ends a turn: the next one has its own patience, and the next attempt at locks has its time. A turn in which no attempt
    /// was due does not move that time, or new arrivals would put it off again and again.
    #[inline]
    pub fn end_turn(&mut self, began_us: u64, ended_us: u64) {
        self.patience_us = LOCK_PATIENCE_US;
        if !self.locked.is_empty() && self.lock_retry_due_us <= began_us {
            self.lock_retry_due_us = ended_us + LOCK_RETRY_US;
        }
    }

    /// Adds a client that waits for a key until then; `u64::MAX` is for ever.
    pub fn wait_for_key(&mut self, client: u64, until_ms: u64) {
        if until_ms != u64::MAX {
            self.deadlines.insert((until_ms, client));
        }
    }

    /// Ends a wait for a key; the connection goes on at the end of the turn.
    pub fn end_wait(&mut self, slot: usize, client: u64, until_ms: u64) {
        self.forget_deadline(client, until_ms);
        self.locked.retain(|locked| *locked != slot);
        self.answered.push(slot);
    }

    /// Forgets when the wait of a client ends.
    pub fn forget_deadline(&mut self, client: u64, until_ms: u64) {
        self.deadlines.remove(&(until_ms, client));
    }

    /// Changes when a client that goes on waiting is due.
    pub fn move_deadline(&mut self, client: u64, due_ms: u64, next_ms: u64) {
        if due_ms != next_ms {
            self.forget_deadline(client, due_ms);
            self.wait_for_key(client, next_ms);
        }
    }

    /// Takes out a client whose time to wait for a key is over.
    #[inline]
    pub fn take_expired(&mut self, now_ms: u64) -> Option<u64> {
        let (until_ms, client) = *self.deadlines.first()?;
        (until_ms <= now_ms).then(|| {
            self.deadlines.pop_first();
            client
        })
    }

    /// The connections whose waits for keys have ended in this turn.
    #[inline]
    pub fn take_answered(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.answered)
    }

    /// Forgets a connection that is closed.
    pub fn forget(&mut self, slot: usize, parked: bool) {
        self.answered.retain(|answered| *answered != slot);
        if parked {
            self.paused.retain(|paused| *paused != slot);
            self.locked.retain(|locked| *locked != slot);
            self.holding.forget(slot);
            self.cold.forget(slot);
        }
    }

    /// When the first of them, other than those of a pause, is tried again.
    pub fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let locked = (!self.locked.is_empty()).then(|| self.lock_retry_due_us.div_ceil(1000));
        let awaited = self.deadlines.first().map(|(until_ms, _)| *until_ms);
        [locked, awaited, self.holding.due_ms(now_ms), self.cold.due_ms()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_is_the_first_to_try_its_lock_in_turn() {
        let mut waiters = Waiters::default();
        [1, 2, 3, 2].into_iter().for_each(|slot| waiters.wait_for_lock_again(slot));
        let first = waiters.take_locked(0);
        assert_eq!(first, [2, 3, 1]);
        first.into_iter().for_each(|slot| waiters.wait_for_lock(slot));
        assert_eq!(waiters.take_locked(0), [3, 1, 2]);
    }

    #[test]
    fn new_connections_do_not_put_off_the_next_attempt() {
        let mut waiters = Waiters::default();
        waiters.wait_for_lock(1);
        waiters.end_turn(10, 20);
        waiters.wait_for_lock(2);
        waiters.end_turn(500, 510);
        assert!(waiters.take_locked(20 + LOCK_RETRY_US - 1).is_empty());
        assert_eq!(waiters.take_locked(20 + LOCK_RETRY_US), [2, 1]);
    }

    #[test]
    fn a_closed_connection_stands_in_no_list() {
        let mut waiters = Waiters::default();
        waiters.wait_for_pause(7);
        waiters.wait_for_lock(7);
        waiters.end_wait(7, 70, 5);
        waiters.wait_for_lock(7);
        waiters.forget(7, true);
        assert!(
            waiters.take_paused().is_empty()
                && waiters.take_locked(u64::MAX).is_empty()
                && waiters.take_answered().is_empty()
        );
        assert_eq!(waiters.due_ms(0), None);
    }

    #[test]
    fn the_first_deadline_is_due_first() {
        let mut waiters = Waiters::default();
        [(1, 30), (2, 10), (3, u64::MAX)]
            .into_iter()
            .for_each(|(client, until_ms)| waiters.wait_for_key(client, until_ms));
        assert_eq!(waiters.due_ms(0), Some(10));
        assert_eq!(
            (waiters.take_expired(9), waiters.take_expired(10), waiters.take_expired(10)),
            (None, Some(2), None)
        );
    }
}
