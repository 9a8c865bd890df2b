//! A model of the list of shapes and of its word, restated as small as it goes; it mirrors the hub's
//! `shapes.rs`: change both. Variants are broken on purpose, in the way that a careless edit would break
//! them.
//!
//! Two seats enter a shape, each a pattern of its own, and leave it again. A publisher that begins after the
//! OK of a subscription must find its pattern. A transaction is what is done under the lock; between two
//! steps others may run.

use std::sync::Arc;

use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

use crate::common::schedules::{explore, find};

const SEATS: usize = 2;
const ROUNDS: u32 = 2;
const ANY: u64 = 1;
const STEP: u64 = 2;

/// Flaws of a careless edit.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// The word moves before the commit (SH2).
    MovesEarly,
    /// A publisher keeps the list under the value that the word has after the look (SH2).
    ReadsLate,
    /// The bit is cleared whatever has happened since the list was looked at (SH3).
    ClearsBlindly,
    /// The exchange begins at a value from after the commit (SH3).
    SeesLate,
    /// The word is 0 again when the list is empty, so it comes by the same values twice.
    BeginsAnew,
}

/// State that the threads share.
struct World {
    word: AtomicU64,
    /// Which seats have a record at the shape.
    list: Mutex<[bool; SEATS]>,
    flaw: Flaw,
}

/// The list as a publisher has read it, and the word under which it did.
type Known = Option<(u64, [bool; SEATS])>;

impl World {
    fn moved(&self) {
        let moved = |word: u64| Some(word.wrapping_add(STEP) | ANY);
        let _ = self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
    }

    /// Enters the shape; it returns when the client has its OK.
    fn enter(&self, seat: usize) {
        if self.flaw == Flaw::MovesEarly {
            self.moved();
        }
        self.list.lock().unwrap()[seat] = true;
        if self.flaw != Flaw::MovesEarly {
            self.moved();
        }
    }

    fn leave(&self, seat: usize) {
        let mut seen = self.word.load(Ordering::SeqCst);
        let is_empty = {
            let mut list = self.list.lock().unwrap();
            list[seat] = false;
            *list == [false; SEATS]
        };
        if self.flaw == Flaw::SeesLate {
            seen = self.word.load(Ordering::SeqCst);
        }
        match self.flaw {
            _ if !is_empty => {}
            Flaw::ClearsBlindly => _ = self.word.fetch_and(!ANY, Ordering::SeqCst),
            Flaw::BeginsAnew => {
                _ = self.word.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::SeqCst);
            }
            _ => {
                let next = seen.wrapping_add(STEP) & !ANY;
                _ = self.word.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
    }

    /// Publishes: which seats hear it.
    fn publish(&self, known: &mut Known) -> [bool; SEATS] {
        let word = self.word.load(Ordering::SeqCst);
        if word & ANY == 0 {
            return [false; SEATS];
        }
        if let Some((under, list)) = *known
            && under == word
        {
            return list;
        }
        let list = *self.list.lock().unwrap();
        let under = if self.flaw == Flaw::ReadsLate { self.word.load(Ordering::SeqCst) } else { word };
        *known = Some((under, list));
        list
    }
}

fn coming_and_going(flaw: Flaw) {
    let world = Arc::new(World { word: AtomicU64::new(0), list: Mutex::new([false; SEATS]), flaw });
    // A publisher that all seats have between them: what it has read stays from one message to the next.
    let known = Arc::new(Mutex::new(None::<(u64, [bool; SEATS])>));
    let stranger = {
        let (world, known) = (world.clone(), known.clone());
        thread::spawn(move || (0..ROUNDS).for_each(|_| _ = world.publish(&mut known.lock().unwrap())))
    };
    let seats: Vec<_> = (0..SEATS)
        .map(|seat| {
            let (world, known) = (world.clone(), known.clone());
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    world.enter(seat);
                    assert!(world.publish(&mut known.lock().unwrap())[seat], "a listener is not found");
                    world.leave(seat);
                }
            })
        })
        .collect();
    seats.into_iter().chain([stranger]).for_each(|thread| thread.join().unwrap());
    assert_eq!(*world.list.lock().unwrap(), [false; SEATS]);
}

#[test]
fn a_publisher_that_begins_after_the_ok_finds_the_pattern() {
    explore(|| coming_and_going(Flaw::None));
}

#[test]
#[should_panic(expected = "a listener is not found")]
fn the_model_catches_a_word_that_moves_before_the_commit() {
    find(|| coming_and_going(Flaw::MovesEarly));
}

#[test]
#[should_panic(expected = "a listener is not found")]
fn the_model_catches_a_publisher_that_reads_the_word_after_the_list() {
    find(|| coming_and_going(Flaw::ReadsLate));
}

#[test]
#[should_panic(expected = "a listener is not found")]
fn the_model_catches_a_bit_that_is_cleared_whatever_has_happened() {
    find(|| coming_and_going(Flaw::ClearsBlindly));
}

#[test]
#[should_panic(expected = "a listener is not found")]
fn the_model_catches_an_exchange_from_a_value_that_was_read_after_the_commit() {
    find(|| coming_and_going(Flaw::SeesLate));
}

#[test]
#[should_panic(expected = "a listener is not found")]
fn the_model_catches_a_word_that_begins_anew() {
    find(|| coming_and_going(Flaw::BeginsAnew));
}
