//! What the threads of a segment listen to: a word of each seat, and the header's word that has the bits of all of them.

use polder_shm::layout::{header, interest, seat as at};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Seat, Segment};

/// Redis's letters for classes of events, in the order of their bits in the header's EVENTS word; `A` is those up to `d`, and `a`.
pub const EVENT_CLASSES: &[u8] = b"g$lshzxetdKEmnaSTIVoc";

/// The bits of the letters S, T, I and V: events tell the fields of a hash.
pub const PARTS: u64 = 0b1111 << 15;

/// The bits of the letters o and c: events tell that a value was replaced, and that its type is another one.
pub const REPLACED: u64 = 0b11 << 19;

/// What any thread of a segment listens to: see [`Table::interest`](crate::Table::interest).
#[inline(always)]
pub fn interest_of(segment: &Segment) -> u64 {
    heard(all_interest(segment))
}

/// The same with keyspace events that nothing hears.
#[inline(always)]
pub(crate) fn all_interest(segment: &Segment) -> u64 {
    if cfg!(not(target_arch = "x86_64")) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
    segment.load(header::INTEREST) & interest::ALL
}

/// Whether anything listens to one of these.
#[inline(always)]
pub(crate) fn is_told(segment: &Segment, what: u64) -> bool {
    let bits = all_interest(segment);
    bits & what != 0 && is_heard(bits, what)
}

#[cold]
fn is_heard(bits: u64, what: u64) -> bool {
    heard(bits) & what != 0
}

/// Interests without keyspace events that nothing hears: these events are messages to subscribers, so they are left out while no seat has a
/// subscriber. A transaction that has left some out looks again before it commits (`Txn::tell_listeners`). Otherwise a subscriber could
/// come meanwhile, read the old keys, and never hear of a change whose client gets its OK. A fast path asks under the key's lock, right
/// before it commits.
#[inline(always)]
pub(crate) const fn heard(bits: u64) -> u64 {
    const EVENTS: u64 = interest::EVENTS | interest::MISSES;
    if bits & EVENTS != 0 && bits & interest::SUBSCRIBERS == 0 { bits & !EVENTS } else { bits }
}

/// What seat `index` has said that it listens to, and in which of its lives.
pub fn interest_at(segment: &Segment, index: u64) -> (u64, u64) {
    let word = segment.observe(segment.seat_at(index) + at::INTEREST);
    (word & interest::ALL, word >> 8)
}

/// Stores that the calling thread's seat listens to changes of some kind. It must be called before the thread reads any key whose later
/// changes it must not miss.
pub fn take_interest(seat: &Seat, bits: u64) {
    use std::sync::atomic::{Ordering, fence};
    let segment = seat.segment();
    let life = seat.life();
    let (mine, of) = interest_at(segment, seat.index());
    let mine = if of == life { mine } else { 0 };
    if mine & bits != bits {
        seat.set(at::INTEREST, life << 8 | mine | bits);
        // SYNC: interest. The count of changes is raised even if the bits are set already. So a thread that has looked at the seats before
        // this and is about to clear the bits finds the word changed.
        let word = segment.word(header::INTEREST);
        if sync::has(Flaw::CountsNoInterest) && word.load(Ordering::SeqCst) & bits == bits {
            return;
        }
        let set = |now: u64| Some((now | bits).wrapping_add(interest::CHANGE));
        let _ = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, set);
    }
    fence(Ordering::SeqCst);
}

/// As [`take_interest`] and [`lose_interest`], for bits that are looked up seat by seat and never in the header's word. It is called often
/// and is cheap.
pub fn show_interest(seat: &Seat, bits: u64, cares: bool) {
    let (mine, of) = interest_at(seat.segment(), seat.index());
    let mine = if of == seat.life() { mine } else { 0 };
    let bits = if cares { mine | bits } else { mine & !bits };
    if bits != mine {
        seat.set(at::INTEREST, seat.life() << 8 | bits);
    }
}

/// Stores that the calling thread's seat no longer listens to changes of some kind.
pub fn lose_interest(seat: &Seat, bits: u64) {
    let (mine, of) = interest_at(seat.segment(), seat.index());
    if of == seat.life() && mine & bits != 0 {
        seat.set(at::INTEREST, of << 8 | mine & !bits);
        settle_interest(seat.segment());
    }
}

/// Seats without an owner whose last owner listened to something. Their records are swept, and then [`forget_deaf`] clears their words.
pub fn deaf(segment: &Segment) -> Vec<(u64, u64)> {
    let words = (0..segment.seats_high())
        .map(|index| (index, segment.observe(segment.seat_at(index) + at::INTEREST)));
    words.filter(|(index, word)| word & interest::ALL != 0 && !segment.lives(*index, word >> 8)).collect()
}

/// Clears the interest of one of the seats that [`deaf`] returns.
pub fn forget_deaf(segment: &Segment, (index, word): (u64, u64)) {
    // S2: a designated word. If a new owner of the seat has stored an interest by now, the word names another life, and this does nothing.
    let _ = segment.exchange(segment.seat_at(index) + at::INTEREST, word, 0);
}

/// Clears the bits that no living seat has, except those that settings set.
pub fn settle_interest(segment: &Segment) {
    let now = segment.observe(header::INTEREST);
    let mut wanted = now & (interest::EVENTS | interest::MISSES);
    for index in 0..segment.seats_high() {
        let (bits, life) = interest_at(segment, index);
        if bits != 0 && segment.lives(index, life) {
            wanted |= bits;
        }
    }
    if now & interest::ALL & !wanted != 0 {
        // If a thread has set a bit meanwhile, it has changed the word, and this does nothing; a later call tries again.
        let _ = segment.exchange(header::INTEREST, now, now & !(interest::ALL & !wanted));
    }
}

/// Sets which classes of keyspace events are published (bits by [`EVENT_CLASSES`]), for all processes.
pub fn set_events(segment: &Segment, mask: u64, misses: bool) {
    use std::sync::atomic::Ordering;
    segment.publish(header::EVENTS, mask);
    let mine = interest::EVENTS | interest::MISSES;
    let bits = if mask != 0 { interest::EVENTS } else { 0 } | if misses { interest::MISSES } else { 0 };
    if segment.load(header::INTEREST) & mine != bits {
        let set = |now: u64| Some(((now & !mine) | bits).wrapping_add(interest::CHANGE));
        let _ = segment.word(header::INTEREST).fetch_update(Ordering::SeqCst, Ordering::SeqCst, set);
    }
}
