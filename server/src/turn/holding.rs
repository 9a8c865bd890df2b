//! Back-pressure: connections that publish faster than a subscriber's thread reads are held back for a while.
//!
//! ```text
//!   a call has filled an inbox to more than half (Seat::take_pressed)
//!        |
//!      free ----> held: parked behind that call, its reply is sent, the rest of its input waits
//!        ^          |  looked at every millisecond
//!        |          |--- the inbox is half empty, or its owner has died ------------------------------> free
//!        |          '--- HOLD_MS have passed: free, and if the owner has read nothing in that time,
//!        |               it is noted as *stuck at this place*: no connection of this thread is held
//!        |               for it until it has read on
//! ```
//!
//! Without it a thread that serves a subscriber loses messages, and must close that subscriber, although both read all the
//! time: two threads that publish are faster than one that writes each message to a socket. With it the subscriber's own
//! limit decides (`client-output-buffer-limit pubsub`).
//!
//! Invariants (the hub's H3 allows them):
//! - **B1** Only a connection waits, never a thread, and only between two calls: no lock is held and no transaction is open.
//! - **B2** One hold lasts HOLD_MS and a turn at most.
//! - **B3** A subscriber whose process is stopped delays this thread's publishers once: the first hold that ends by the clock
//!   with the owner's place unchanged sets all others free. A subscriber whose process is dead delays them a turn at most.
//! - **B4** A thread is never held by its own inbox: it reads its messages before the next call.
use hashbrown::HashMap;

/// How long a connection is held at most, and how often the inbox is looked at.
const HOLD_MS: u64 = 100;
const LOOK_MS: u64 = 1;

/// A connection that waits for a subscriber.
struct Held {
    slot: usize,
    seat: u64,
    life: u64,
    /// The place up to which the subscriber had read.
    place: u64,
    until_ms: u64,
}

/// The connections of a thread that wait for subscribers.
#[derive(Default)]
pub struct Holding {
    held: Vec<Held>,
    /// Subscribers for which no connection is held, by seat: their life, and the place at which they stopped reading.
    stuck: HashMap<u64, (u64, u64)>,
}

impl Holding {
    /// When they are looked at again.
    #[inline]
    pub fn due_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.held.is_empty()).then_some(now_ms + LOOK_MS)
    }

    /// Whether no connection is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Forgets a connection.
    pub fn forget(&mut self, slot: usize) {
        self.held.retain(|held| held.slot != slot);
    }

    /// Whether a subscriber has read nothing since a hold ended by the clock (B3).
    pub fn is_stuck(&self, seat: u64, life: u64, place: u64) -> bool {
        self.stuck.get(&seat) == Some(&(life, place))
    }

    /// Adds a connection that waits for the subscriber with this seat.
    pub fn hold(&mut self, slot: usize, (seat, life, place): (u64, u64, u64), now_ms: u64) {
        self.held.push(Held { slot, seat, life, place, until_ms: now_ms + HOLD_MS });
    }

    /// Takes out the connections that go on. `place_of` is how far the owner of a seat has read, and `None` once its inbox is
    /// half empty or the owner is gone.
    pub fn take_free(
        &mut self,
        now_ms: u64,
        is_stopping: bool,
        place_of: impl Fn(u64, u64) -> Option<u64>,
    ) -> Vec<usize> {
        let Holding { held, stuck } = self;
        for late in held.iter().filter(|held| now_ms >= held.until_ms) {
            if place_of(late.seat, late.life) == Some(late.place) {
                stuck.insert(late.seat, (late.life, late.place));
            }
        }
        let goes_on = |held: &mut Held| {
            let place = place_of(held.seat, held.life);
            let is_stuck = place.is_some_and(|place| stuck.get(&held.seat) == Some(&(held.life, place)));
            place.is_none() || is_stuck || is_stopping || now_ms >= held.until_ms
        };
        held.extract_if(.., goes_on).map(|held| held.slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_subscriber_delays_its_publishers_once() {
        let mut holding = Holding::default();
        holding.hold(1, (5, 1, 40), 0);
        holding.hold(2, (5, 1, 40), HOLD_MS - 1);
        assert!(holding.take_free(HOLD_MS - 1, false, |_, _| Some(40)).is_empty());
        assert_eq!(holding.take_free(HOLD_MS, false, |_, _| Some(40)), [1, 2]);
        assert!(holding.is_stuck(5, 1, 40) && !holding.is_stuck(5, 1, 41) && !holding.is_stuck(5, 2, 40));
    }

    #[test]
    fn a_subscriber_that_has_read_on_frees_its_publishers() {
        let mut holding = Holding::default();
        holding.hold(1, (5, 1, 40), 0);
        assert_eq!(holding.take_free(1, false, |_, _| None), [1]);
        assert_eq!(holding.due_ms(1), None);
    }
}
