//! Back-pressure: connections that publish faster than a subscriber's thread reads are held back for a while.
//!
//! ```text
//!   a call has filled an inbox to more than half (Seat::take_pressed)
//!        |
//!      free ----> held: parked behind that call, its reply is sent, the rest of its input waits
//!        ^          |  looked at every millisecond
//!        |          |--- the inbox is half empty, or its owner has died ------------------------------> free
//!        |          '--- HOLD_MS have passed: free, and if the owner has read nothing in that time,
//!        |               it is noted as *deaf at this place*: no connection of this thread is held
//!        |               for it until it has read on
//! ```
//!
//! Without it a thread that serves a subscriber loses messages, and has to close that subscriber, although both read all the time: two threads that
//! publish are faster than one that writes each message to a socket. With it the subscriber's own limit decides
//! (`client-output-buffer-limit pubsub`).
//!
//! Invariants (they are what H3 of the hub allows):
//! - **B1** Only a connection waits, never a thread, and only between two calls: no lock is held and no transaction is open.
//! - **B2** One hold lasts HOLD_MS and a turn at most.
//! - **B3** A listener whose process is stopped holds up this thread's publishers once: the first hold that ends by the clock with the owner's place unchanged
//!   sets all others free. A listener whose process is dead holds up none of them longer than a turn.
//! - **B4** A thread is never held up by its own inbox: it reads its letters before the next call.
use super::*;

/// How long a connection is held at most, and how often the inbox is looked at.
const HOLD_MS: u64 = 100;
const LOOK_MS: u64 = 1;

/// A connection that waits for a listener.
struct Held {
    slot: usize,
    seat: u64,
    life: u64,
    /// How far the listener had read.
    place: u64,
    until_ms: u64,
}

/// The connections of a thread that wait for listeners.
#[derive(Default)]
pub(super) struct Holding {
    held: Vec<Held>,
    /// Listeners for which none is held, by seat: in which life, and where they stopped reading.
    deaf: HashMap<u64, (u64, u64)>,
}

impl Holding {
    /// When they are to be looked at again.
    pub(super) fn due_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.held.is_empty()).then_some(now_ms + LOOK_MS)
    }

    /// Forgets a connection.
    pub(super) fn forget(&mut self, slot: usize) {
        self.held.retain(|held| held.slot != slot);
    }
}

impl Loop {
    /// Holds a connection back whose call has filled an inbox.
    #[cold]
    pub(super) fn hold(&mut self, slot: usize, pressed: Pressed) {
        let table = self.process.memory.table();
        let Pressed { seat, life, .. } = pressed;
        if !self.limits.holds_publishers || table.seat().is_ok_and(|own| own.index() == seat) {
            return;
        }
        let Some(place) = table.segment().read_under_pressure(seat, life) else { return };
        if self.holding.deaf.get(&seat) == Some(&(life, place)) {
            return;
        }
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else { return };
        connection.park();
        self.holding.held.push(Held { slot, seat, life, place, until_ms: now_ms() + HOLD_MS });
    }

    /// Lets those go on whose time is over, or whose listener has read on.
    pub(super) fn let_go(&mut self) {
        if self.holding.held.is_empty() {
            return;
        }
        let process = self.process.clone();
        let segment = process.memory.table().segment();
        let stops = process.is_stopping();
        let now_ms = now_ms();
        let Holding { held, deaf } = &mut self.holding;
        for late in held.iter().filter(|held| now_ms >= held.until_ms) {
            if segment.read_under_pressure(late.seat, late.life) == Some(late.place) {
                deaf.insert(late.seat, (late.life, late.place));
            }
        }
        let goes = |held: &mut Held| {
            let place = segment.read_under_pressure(held.seat, held.life);
            let is_deaf = place.is_some_and(|place| deaf.get(&held.seat) == Some(&(held.life, place)));
            place.is_none() || is_deaf || stops || now_ms >= held.until_ms
        };
        let free: Vec<usize> = held.extract_if(.., goes).map(|held| held.slot).collect();
        free.into_iter().for_each(|slot| self.set_free(slot));
    }
}
