//! The words of the replicas: how far each one is, as any thread of any process can see, and which calls wait for that.
//!
//! ```text
//!   waiting call   commit -> barrier -> n := CSN      CSN of enough lines >= n?  no: WANTED := max(n), own bit in WAITING, look again, sleep
//!   a feed         WANTED > ASKED_CSN?  draw b -> merge -> append GETACK and set ASKED_CSN := b, ASKED_PLACE := where it begins: one commit
//!   each feed      its replica acknowledges p:  p >= ASKED_PLACE?  CSN of its line := ASKED_CSN, take WAITING, wake each seat in it
//! ```
//!
//! - **R1** A line has one writer, the thread that OWNER marks. OWNER changes as that of the storage process (W1 of `owner_word.rs`): from 0 or the mark of a
//!   dead thread, and back to 0 by its thread. All other words of the line are cleared after it is taken and before ONLINE says that it counts.
//! - **R2** A line counts only while ONLINE equals OWNER and that thread lives. No mark recurs, so what a dead feed has left counts for no replica, also in
//!   the moment in which another feed has taken the line. Nothing has to be recovered. USED only says where to look: the bit of a dead feed costs a look.
//! - **R3** All commits with numbers below ASKED_CSN lie below ASKED_PLACE in the log: the number is drawn before a merge, as in W3 and W4 of `storage.rs`, and
//!   the place is the end of the log after it. ASKED_END and ASKED_PLACE are written before ASKED_CSN, and a reader reads them in the other order: it sees
//!   the place of its number, or a later one.
//! - **R4** A call that has read n from CSN after its commit, and finds a line with CSN >= n, knows that the replica has that commit (R3, W3).
//!   Without a question it takes the end of the log (`settled_end`), if no seat is COMMITTED, and *then* no outbox has something, and *then* MERGE_LOCK is free:
//!   a commit counts from COMMITTED on, also while its thread is stopped before it moves the tail of its outbox.
//! - **F1** A feed that has nothing to send sets its bit in FEEDING, sets FEEDER, passes a full barrier, and looks whether another seat has a journal and
//!   *then* whether an outbox has something. If neither, it sleeps. A writer reads FEEDER when it has drawn its number. If it is set, it clears it and wakes
//!   all feeds, before its commit: they find its journal, and look again soon. A writer whose journal the feed did not see draws later, and sees
//!   FEEDER; one whose journal was over by then has its record in an outbox. A writer that dies in between costs a sleep, which has a limit.
//! - **R5** Wake-ups are not lost, as in W5. The death of a feed wakes no thread, so every sleep has a time limit.
use std::sync::atomic::{Ordering, fence};

use crate::layout::{features, header, log, replicas as at};
use crate::owner_word::{Claim, mark};
use crate::sync::{self, Flaw};
use crate::{Segment, lock, seat::Seat};

/// The words of the replicas of a segment.
#[derive(Clone, Copy)]
pub struct ReplicaWords<'s> {
    segment: &'s Segment,
}

/// Acknowledgement of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    pub place: u64,
    /// When, in milliseconds since the epoch; 0: it has not yet.
    pub heard_ms: u64,
}

/// The longest sleep of a feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// There is something to send, or a transaction is under way or stopped: how long that takes is not known.
    Short,
    /// A writer wakes it.
    Long,
}

impl Segment {
    /// The words of the replicas.
    pub fn replicas(&self) -> ReplicaWords<'_> {
        ReplicaWords { segment: self }
    }
}

impl ReplicaWords<'_> {
    fn line(&self, slot: u64) -> u64 {
        at::LINES + slot % log::HOLD_SLOTS * at::LINE_BYTES
    }

    /// Takes the line of a slot for the thread that owns `seat`. Returns false while another living thread has it (R1).
    pub fn claim(&self, slot: u64, seat: &Seat) -> bool {
        self.segment.word(header::LAYOUT).fetch_or(features::REPLICATION, Ordering::SeqCst);
        let line = self.line(slot);
        match self.segment.claim_word(line + at::OWNER, seat.index(), seat.life()) {
            Claim::Held => return true,
            Claim::Refused => return false,
            Claim::Taken => {}
        }
        for word in [at::ONLINE, at::PLACE, at::HEARD_MS, at::CSN, at::FILE_CSN] {
            self.segment.publish(line + word, 0);
        }
        self.segment.word(at::USED).fetch_or(1 << (slot % 64), Ordering::SeqCst);
        true
    }

    /// Gives the line of a slot back, if the thread has it.
    pub fn release(&self, slot: u64, seat: &Seat) {
        let (line, own) = (self.line(slot), mark(seat.index(), seat.life()));
        if self.segment.observe(line + at::OWNER) != own {
            return;
        }
        self.segment.publish(line + at::ONLINE, 0);
        // Before OWNER: the next owner sets the bit again.
        self.segment.word(at::USED).fetch_and(!(1 << (slot % 64)), Ordering::SeqCst);
        self.segment.release_word(line + at::OWNER, seat.index(), seat.life());
    }

    /// Gives lines back whose threads have died.
    pub fn sweep(&self, seat: &Seat) {
        for slot in self.used() {
            let owner = self.segment.observe(self.line(slot) + at::OWNER);
            if !self.segment.is_marked_alive(owner) && self.claim(slot, seat) {
                self.release(slot, seat);
            }
        }
    }

    /// The replica reads the stream from here on, and counts (R2). Only for the owner of the line.
    pub fn go_online(&self, slot: u64, seat: &Seat) {
        self.segment.publish(self.line(slot) + at::ONLINE, mark(seat.index(), seat.life()));
    }

    /// Notes what the replica has acknowledged: the place in the log, and the place that its own append-only file has on its disk. Wakes calls that wait.
    /// Only for the owner of the line.
    pub fn acknowledge(&self, slot: u64, place: u64, file_place: Option<u64>, now_ms: u64) {
        let line = self.line(slot);
        self.segment.publish(line + at::PLACE, place);
        self.segment.publish(line + at::HEARD_MS, now_ms);
        // R3: in this order.
        let csn = self.segment.observe(at::ASKED_CSN);
        let asked = self.segment.observe(at::ASKED_PLACE);
        let mut moved = false;
        for (word, place) in [(at::CSN, Some(place)), (at::FILE_CSN, file_place)] {
            if place.is_some_and(|place| place >= asked) && self.segment.load(line + word) < csn {
                self.segment.publish(line + word, csn);
                moved = true;
            }
        }
        if moved {
            // SYNC: replica-acknowledged.
            fence(Ordering::SeqCst);
            self.segment.wake_all_in(at::WAITING);
        }
    }

    /// The slots whose lines may be in use.
    fn used(&self) -> impl Iterator<Item = u64> {
        let mut bits = self.segment.observe(at::USED);
        std::iter::from_fn(move || {
            let slot = (bits != 0).then(|| u64::from(bits.trailing_zeros()))?;
            bits &= bits - 1;
            Some(slot)
        })
    }

    /// Returns true if a replica may be connected: one load.
    #[inline]
    pub fn are_any(&self) -> bool {
        self.segment.observe(at::USED) != 0
    }

    /// The lines of replicas that read the stream (R2).
    fn online(&self) -> impl Iterator<Item = u64> {
        self.used().map(|slot| self.line(slot)).filter(|line| {
            let owner = self.segment.observe(line + at::OWNER);
            self.segment.observe(line + at::ONLINE) == owner && self.segment.is_marked_alive(owner)
        })
    }

    /// The acknowledgements of the replicas that read the stream.
    pub fn all(&self) -> Vec<Acknowledged> {
        self.online().map(|line| self.read(line)).collect()
    }

    fn read(&self, line: u64) -> Acknowledged {
        Acknowledged {
            place: self.segment.observe(line + at::PLACE),
            heard_ms: self.segment.observe(line + at::HEARD_MS),
        }
    }

    /// Returns what the replica of a slot has acknowledged, if the thread that owns this seat in this life feeds it.
    pub fn acknowledged(&self, slot: u64, seat: u64, life: u64) -> Option<Acknowledged> {
        let line = self.line(slot);
        let read = self.read(line);
        (self.segment.observe(line + at::OWNER) == mark(seat, life)).then_some(read)
    }

    /// Returns how many replicas have all commits below a number (R4): in their memory, or `in_file` on their disk.
    pub fn count(&self, csn: u64, in_file: bool) -> u64 {
        self.count_beside(csn, in_file, if in_file { None } else { self.settled_end() })
    }

    /// Like [`ReplicaWords::count`], with what [`ReplicaWords::settled_end`] has returned after the calls that wait were made.
    pub fn count_beside(&self, csn: u64, in_file: bool, end: Option<u64>) -> u64 {
        if !self.segment.logs() {
            // Commits reach no replica now.
            return 0;
        }
        let word = if in_file { at::FILE_CSN } else { at::CSN };
        let end = end.filter(|_| !in_file);
        let has = |line: &u64| {
            self.segment.observe(line + word) >= csn
                || end.is_some_and(|end| self.segment.observe(line + at::PLACE) >= end)
        };
        self.online().filter(has).count() as u64
    }

    /// Returns a number for calls and replies that wait until replicas have all that the calling thread has committed or seen up to now (R4). While commits
    /// draw no numbers, since the log is off, it is drawn here: only replicas that come later reach it.
    pub fn seen(&self) -> u64 {
        let words = self.segment.storage();
        if self.segment.logs() { words.seen() } else { words.draw() + 1 }
    }

    /// Returns the number below which at least this many replicas have all commits (R4). `end` is what [`ReplicaWords::settled_end`] has returned: replicas that
    /// are there have all that was committed before that call, so the number is `u64::MAX`, which is for numbers that were read before it only.
    pub fn acknowledged_by(&self, replicas: u64, end: Option<u64>) -> u64 {
        if !self.segment.logs() {
            return 0;
        }
        let number = |line: u64| {
            let is_there = end.is_some_and(|end| self.segment.observe(line + at::PLACE) >= end);
            if is_there { u64::MAX } else { self.segment.observe(line + at::CSN) }
        };
        let mut numbers: Vec<u64> = self.online().map(number).collect();
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        let last = usize::try_from(replicas).ok().and_then(|count| count.checked_sub(1));
        last.map_or(u64::MAX, |last| numbers.get(last).copied().unwrap_or(0))
    }

    /// Returns a place in the log below which every commit before this call lies, whatever thread has made it, if none waits to be merged or to be written
    /// out. Reads three words of each seat.
    pub fn settled_end(&self) -> Option<u64> {
        let segment = self.segment;
        // SYNC: storage-barrier.
        fence(Ordering::SeqCst);
        if !self.are_any()
            || !segment.are_outboxes_settled()
            || lock::owner(segment.observe(log::MERGE_LOCK)).is_some()
        {
            return None;
        }
        // A commit that had no room for its record is in no outbox: replicas get it with another stream only.
        if segment.observe(log::BROKEN) != segment.observe(log::BROKEN_SEEN) {
            return None;
        }
        // Outboxes that were found empty were written out with TAIL, since the lock is free.
        let end = segment.log_end().0;
        // A question to the replicas that stands at the end says nothing.
        let is_question = segment.observe(at::ASKED_END) == end;
        Some(if is_question { segment.observe(at::ASKED_PLACE) } else { end })
    }

    /// Returns how many replicas have acknowledged something within this many seconds.
    pub fn count_within(&self, seconds: u64, now_ms: u64) -> u64 {
        let is_good =
            |line: &u64| now_ms.saturating_sub(self.segment.observe(line + at::HEARD_MS)) / 1000 <= seconds;
        self.online().filter(is_good).count() as u64
    }

    /// Asks for everything up to this number to be acknowledged, and wakes the feeds.
    pub fn want(&self, csn: u64) {
        self.segment.word(at::WANTED).fetch_max(csn, Ordering::SeqCst);
        // SYNC: feeder. Either this thread sees FEEDER, or the feed sees what is wanted.
        fence(Ordering::SeqCst);
        if self.segment.load(header::FEEDER) != 0 {
            self.wake_feeds();
        }
    }

    /// Wakes the feeds that sleep.
    #[cold]
    pub fn wake_feeds(&self) {
        if self.segment.exchange(header::FEEDER, 1, 0).is_ok() {
            self.segment.wake_all_in(at::FEEDING);
        }
    }

    /// Says that the thread of a feed is about to sleep until there is something to send behind `place` (F1). It has noted in its seat that it sleeps.
    pub fn await_writer(&self, seat: &Seat, place: u64) -> Rest {
        self.segment
            .word(at::FEEDING + seat.index() / 64 * 8)
            .fetch_or(1 << (seat.index() % 64), Ordering::SeqCst);
        let asks_late = sync::has(Flaw::AsksLate);
        if !asks_late {
            self.segment.word(header::FEEDER).swap(1, Ordering::SeqCst);
        }
        // SYNC: feeder.
        fence(Ordering::SeqCst);
        let is_empty = || self.segment.outbox_bytes() == 0;
        let was_empty = sync::has(Flaw::OutboxesFirst).then(is_empty);
        // Journals first: a writer whose journal is over has its record in an outbox.
        let is_quiet = self.segment.storage().is_quiet(seat.index());
        let is_empty = was_empty.unwrap_or_else(is_empty);
        if asks_late {
            self.segment.word(header::FEEDER).swap(1, Ordering::SeqCst);
        }
        // Another thread that takes records out of the outboxes holds the lock until they are in the log.
        let merges = lock::owner(self.segment.observe(log::MERGE_LOCK)).is_some();
        match self.segment.log_end().0 == place && is_empty && self.unasked().is_none() {
            true if is_quiet && !merges => Rest::Long,
            _ => Rest::Short,
        }
    }

    /// The highest number that is wanted, if replicas have not been asked for it.
    pub fn unasked(&self) -> Option<u64> {
        let wanted = self.segment.observe(at::WANTED);
        (wanted > self.segment.observe(at::ASKED_CSN)).then_some(wanted)
    }

    /// Says that the thread of a seat is about to sleep until replicas have more. It must look once more before it sleeps (R5).
    pub fn await_more(&self, seat: u64) {
        self.segment.word(at::WAITING + seat / 64 * 8).fetch_or(1 << (seat % 64), Ordering::SeqCst);
        // SYNC: replica-acknowledged.
        fence(Ordering::SeqCst);
    }
}
