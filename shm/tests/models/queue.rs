//! A model of the queue of calls that wait for a key. The protocol is restated here, step by step and as small as it goes, and shuttle runs
//! it through thousands of schedules. It mirrors the hub's `queue.rs`: change both. Variants are broken on purpose, in the way that a
//! careless edit would break them: the model must catch that, or it proves nothing.
//!
//! Clients are served in the order in which they began to wait. A client that does not come when it is its turn is marked
//! and passed over, and gets its place back when it comes.
//!
//! A transaction is what is done under one lock here, since all its writes become visible at once. Between two transactions other
//! threads may run. Only a push looks at the records first and commits later, and holds the key's lock in between: other threads that
//! ask what the key holds lock it, too. Each thread has one client. Looks at the queue that no message asks for (ticks) are few, so that
//! a missing message shows as a client that is not served. As in the hub, a thread that could not send a message goes on trying.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::{rand::Rng, thread};

use crate::common::schedules::{explore, find};

const WAITERS: usize = 3;
const TICKS: u32 = 3;
const LATE: u64 = 1 << 63;

/// What a careless edit would leave out.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// A client that leaves does not wake the next one.
    LeavesQuietly,
    /// A client that is marked is not told.
    TellsNobody,
    /// A client that could not be told is not told later.
    ForgetsTheUntold,
    /// A client that begins to wait takes an element that is meant for others.
    ComesFirst,
    /// A thread that changes the records asks what the key holds without the key's lock.
    Glimpses,
}

#[derive(Clone, Copy, PartialEq)]
struct Record {
    seat: usize,
    number: u64,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    elements: u32,
    tickets: u64,
    records: Vec<Record>,
    inboxes: [u32; WAITERS],
    /// A stopped thread holds the inbox.
    held: [bool; WAITERS],
    /// A thread pushes.
    is_locked: bool,
    /// Not part of the protocol, for the checks: which clients wait with which tickets, were marked, sleep, have ended, and were served.
    waiting: [Option<u64>; WAITERS],
    marked: BTreeSet<usize>,
    asleep: [bool; WAITERS],
    served: [u32; WAITERS],
}

impl Shared {
    fn first(&self) -> Option<Record> {
        self.records.iter().min_by_key(|record| record.number).copied()
    }

    /// The client whose turn it is, if there is an element for it.
    fn turn(&self) -> Option<Record> {
        self.first().filter(|_| self.elements > 0)
    }

    fn own(&mut self, seat: usize) -> Option<&mut Record> {
        self.records.iter_mut().find(|record| record.seat == seat)
    }

    /// Takes an element, if there is one that is not for clients with earlier tickets.
    fn pop(&mut self, seat: usize, ticket: u64, flaw: Flaw) -> bool {
        let is_for_others = |record: &Record| record.seat != seat && record.number < ticket.min(LATE);
        if self.elements == 0 || flaw != Flaw::ComesFirst && self.records.iter().any(is_for_others) {
            return false;
        }
        self.elements -= 1;
        self.served[seat] += 1;
        let passes_over = |(other, waits): (usize, &Option<u64>)| {
            other != seat
                && waits.is_some_and(|other| other < ticket)
                && self.served[other] == 0
                && !self.marked.contains(&other)
        };
        assert!(!self.waiting.iter().enumerate().any(passes_over), "another one came before");
        true
    }
}

struct World {
    shared: Mutex<Shared>,
    changed: Condvar,
    flaw: Flaw,
}

/// Another thread holds an inbox.
struct Busy;

impl World {
    /// Sends letters with a transaction: all of them, or nothing is done.
    fn post(&self, shared: &mut Shared, to: &[usize]) -> Result<(), Busy> {
        if to.iter().any(|seat| shared.held[*seat]) {
            return Err(Busy);
        }
        to.iter().for_each(|seat| shared.inboxes[*seat] += 1);
        self.changed.notify_all();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    fn wait<'s>(&self, shared: MutexGuard<'s, Shared>) -> MutexGuard<'s, Shared> {
        self.changed.wait(shared).unwrap()
    }

    /// The same, and with the key's lock.
    fn lock_key(&self) -> MutexGuard<'_, Shared> {
        let mut shared = self.lock();
        while shared.is_locked {
            shared = self.wait(shared);
        }
        shared
    }

    /// LPUSH: it waits as long as another thread holds the inbox.
    fn push(&self) {
        loop {
            let mut shared = self.lock_key();
            shared.is_locked = true;
            let first: Vec<usize> = shared.first().iter().map(|record| record.seat).collect();
            drop(shared);
            thread::yield_now();
            let mut shared = self.lock();
            shared.is_locked = false;
            self.changed.notify_all();
            if self.post(&mut shared, &first).is_ok() {
                shared.elements += 1;
                let knows = |record: Record| shared.inboxes[record.seat] > 0 || !shared.asleep[record.seat];
                assert!(shared.turn().is_none_or(knows), "another one has been woken");
                return;
            }
            drop(self.wait(shared));
        }
    }

    /// Whether what the key holds cannot be asked for at once.
    fn is_busy(&self, shared: &Shared) -> bool {
        shared.is_locked && self.flaw != Flaw::Glimpses
    }

    fn hold(&self, seat: usize, held: bool) {
        self.lock().held[seat] = held;
        self.changed.notify_all();
    }

    /// Waits until no thread has anything left to do, and checks the final state.
    fn rest(&self) {
        let mut shared = self.lock();
        while !(0..WAITERS)
            .all(|seat| shared.asleep[seat] && (shared.inboxes[seat] == 0 || shared.waiting[seat].is_none()))
        {
            shared = self.wait(shared);
        }
        assert!(shared.elements == 0 || shared.records.is_empty(), "nobody comes for what lies there");
        let mut tickets: Vec<(u64, usize)> =
            (0..WAITERS).filter_map(|seat| Some((shared.waiting[seat]?, seat))).collect();
        let mut records: Vec<(u64, usize)> =
            shared.records.iter().map(|record| (record.number, record.seat)).collect();
        tickets.sort_unstable();
        records.sort_unstable();
        assert_eq!(records, tickets, "somebody has lost his place");
        // A client that has its place again is passed over only if it is marked again.
        shared.marked.clear();
    }
}

/// A thread with one client.
struct Waiter<'w> {
    world: &'w World,
    seat: usize,
    /// The client's number in the queue, as its thread knows it; none when it does not wait.
    number: Option<u64>,
    ticket: u64,
    /// How often it still looks by itself.
    ticks: u32,
    /// The record does not say yet what it should; whether a call is there again.
    owes: Option<bool>,
    untold: VecDeque<usize>,
    suspect: Option<Record>,
}

impl Waiter<'_> {
    /// Begins to wait, unless there is something.
    fn begin(&mut self) -> bool {
        loop {
            let mut shared = self.world.lock_key();
            if shared.pop(self.seat, u64::MAX, self.world.flaw) {
                return true;
            }
            shared.tickets += 1;
            let ticket = shared.tickets;
            drop(shared);
            let mut shared = self.world.lock_key();
            let is_first = shared.records.iter().all(|record| record.number >= ticket);
            if is_first && shared.elements > 0 {
                // The clients that it was left to have gone, or it has just come.
                continue;
            }
            shared.records.push(Record { seat: self.seat, number: ticket });
            shared.waiting[self.seat] = Some(ticket);
            drop(shared);
            (self.ticket, self.number) = (ticket, Some(ticket));
            return false;
        }
    }

    /// The call is run again.
    fn retry(&mut self) {
        if self.number.is_none() {
            return;
        }
        if self.world.lock_key().pop(self.seat, self.ticket, self.world.flaw) {
            self.number = None;
            self.settle(false);
        } else if self.number == Some(self.ticket | LATE) {
            self.settle(true);
        }
    }

    /// Corrects the record, and wakes the client whose turn it is; a mark stays, unless the call `came`.
    fn settle(&mut self, came: bool) {
        let mut shared = self.world.lock();
        let was = shared.own(self.seat).map(|record| record.number);
        if was == Some(self.ticket | LATE) && !came {
            self.number = self.number.map(|_| self.ticket | LATE);
        }
        if came {
            self.number = self.number.map(|_| self.ticket);
        }
        let mut after: Vec<Record> =
            shared.records.iter().filter(|record| record.seat != self.seat).copied().collect();
        after.extend(self.number.map(|number| Record { seat: self.seat, number }));
        let before = std::mem::replace(&mut shared.records, after);
        let is_busy = shared.first().is_some() && self.world.is_busy(&shared);
        let next = shared.turn().filter(|_| self.world.flaw != Flaw::LeavesQuietly);
        let next: Vec<usize> = next.iter().map(|record| record.seat).collect();
        if is_busy || self.world.post(&mut shared, &next).is_err() {
            shared.records = before;
            self.owes = Some(came || self.owes == Some(true));
            return;
        }
        shared.waiting[self.seat] = self.number.map(|_| self.ticket);
        self.world.changed.notify_all();
    }

    /// Looks at the own record. Returns whether it was wrong or marked.
    fn put_right(&mut self, own: Option<Record>) -> bool {
        let number = own.map(|own| own.number);
        if number == Some(self.ticket | LATE) && self.number.is_some() {
            self.number = number;
        }
        if self.number == Some(self.ticket | LATE) {
            self.retry();
        }
        let is_right = number == self.number;
        if !is_right {
            self.settle(false);
        }
        !is_right || number.is_some_and(|number| number & LATE != 0)
    }

    fn look(&self) -> (Option<Record>, Option<Record>) {
        let mut shared = self.world.lock();
        (shared.turn(), shared.own(self.seat).copied())
    }

    /// A letter has come.
    fn woken(&mut self) {
        let (turn, own) = self.look();
        if self.put_right(own) {
            return;
        }
        let Some(turn) = turn else { return };
        match self.number {
            Some(number) if number <= turn.number => self.retry(),
            _ => self.settle(false),
        }
    }

    /// Checks whether the same client is to be served first as at the last look.
    fn tick(&mut self) {
        self.tell_late();
        let (turn, own) = self.look();
        let before = std::mem::replace(&mut self.suspect, turn);
        if self.put_right(own) {
            return;
        }
        let Some(late) = turn.filter(|_| before == turn) else { return };
        match self.number {
            Some(number) if number <= late.number => self.retry(),
            Some(_) => self.pass_over(late),
            None => {}
        }
    }

    fn pass_over(&mut self, late: Record) {
        let (world, mut shared) = (self.world, self.world.lock());
        if world.is_busy(&shared) {
            // Next time.
            return;
        }
        let Some(record) = shared.records.iter_mut().find(|record| **record == late) else { return };
        record.number |= LATE;
        shared.marked.insert(late.seat);
        let next: Vec<usize> = shared.turn().iter().map(|record| record.seat).collect();
        let all: Vec<usize> = std::iter::once(late.seat)
            .filter(|_| world.flaw != Flaw::TellsNobody)
            .chain(next.iter().copied())
            .collect();
        let untold = match (world.post(&mut shared, &all), world.flaw) {
            (Ok(()), _) => Vec::new(),
            (Err(Busy), _) if world.post(&mut shared, &next).is_ok() => vec![late.seat],
            (Err(Busy), _) => all,
        };
        if world.flaw != Flaw::ForgetsTheUntold {
            self.untold.extend(untold);
        }
    }

    fn tell_late(&mut self) {
        let world = self.world;
        self.untold.retain(|seat| world.post(&mut world.lock(), &[*seat]).is_err());
    }

    /// Waits for a message, or until it is time to look; returns whether a message has come.
    fn sleep(&mut self) -> bool {
        let mut shared = self.world.lock();
        while shared.inboxes[self.seat] == 0 {
            if self.ticks > 0 && shuttle::rand::thread_rng().gen_bool(0.5) {
                self.ticks -= 1;
                break;
            }
            if !std::mem::replace(&mut shared.asleep[self.seat], true) {
                self.world.changed.notify_all();
            }
            shared = self.world.wait(shared);
        }
        shared.asleep[self.seat] = false;
        let has_messages = shared.inboxes[self.seat] > 0;
        shared.inboxes[self.seat] -= u32::from(has_messages);
        has_messages
    }

    fn live(&mut self) {
        let mut waits = !self.begin();
        while waits {
            if let Some(came) = self.owes.take() {
                self.settle(came);
            }
            self.tell_late();
            let is_rid = self.owes.is_none() && self.untold.is_empty();
            waits = self.number.is_some() || !is_rid;
            if !is_rid {
                thread::yield_now();
            } else if waits && self.sleep() {
                self.woken();
            } else if waits {
                self.tick();
            }
        }
        self.world.lock().asleep[self.seat] = true;
        self.world.changed.notify_all();
    }
}

/// There are as many clients as elements, and the last element comes when all is quiet. A thread that holds two inboxes is stopped for a while.
fn queue(flaw: Flaw) {
    let world = Arc::new(World { shared: Mutex::default(), changed: Condvar::new(), flaw });
    let waiters = (0..WAITERS).map(|seat| {
        let world = world.clone();
        thread::spawn(move || {
            let (untold, owes, suspect) = (VecDeque::new(), None, None);
            Waiter { world: &world, seat, number: None, ticket: 0, ticks: TICKS, owes, untold, suspect }
                .live();
        })
    });
    let mut threads: Vec<_> = waiters.collect();
    let holder = world.clone();
    threads.push(thread::spawn(move || {
        (0..2).for_each(|seat| holder.hold(seat, true));
        (0..shuttle::rand::thread_rng().gen_range(0..30)).for_each(|_| thread::yield_now());
        (0..2).for_each(|seat| holder.hold(seat, false));
    }));
    (1..WAITERS).for_each(|_| world.push());
    world.rest();
    world.push();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(world.lock().served, [1; WAITERS]);
}

#[test]
fn all_waiting_clients_are_served_once_and_in_order_although_some_are_late() {
    explore(|| queue(Flaw::None));
}

#[test]
#[should_panic(expected = "nobody comes for what lies there")]
fn the_model_catches_a_client_that_leaves_and_does_not_wake_the_next() {
    find(|| queue(Flaw::LeavesQuietly));
}

#[test]
#[should_panic(expected = "somebody has lost his place")]
fn the_model_catches_a_mark_of_which_its_client_is_not_told() {
    find(|| queue(Flaw::TellsNobody));
}

#[test]
#[should_panic(expected = "somebody has lost his place")]
fn the_model_catches_a_marked_client_that_is_not_told_later() {
    find(|| queue(Flaw::ForgetsTheUntold));
}

#[test]
#[should_panic(expected = "another one has been woken")]
fn the_model_catches_a_look_at_a_key_during_a_push() {
    find(|| queue(Flaw::Glimpses));
}

#[test]
#[should_panic(expected = "another one came before")]
fn the_model_catches_a_newcomer_that_takes_an_element_of_others() {
    find(|| queue(Flaw::ComesFirst));
}
