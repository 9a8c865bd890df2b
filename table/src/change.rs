//! Changes: what every commit says of what happened to which key, once, in one place; and the messages that leave with a commit.
//!
//! A command (or a chore) notes a change while its transaction runs; when that is about to commit, the one [`ChangeSink`] of the process
//! is shown all of them and answers with messages to inboxes (`shm::inbox`), which become true together with the keys: nobody hears
//! of what has not happened, and what has happened is heard of, whoever dies when. A retry notes and posts everything again.
//!
//! Where nobody listens a change costs one load: see [`Table::interest`].

use polder_shm::layout::{header, interest, seat as at};
use polder_shm::{Locked, Seat, Segment};

use crate::api::{Db, Found, Mode, SYSTEM, Stop};
use crate::lookup::{self, Marks};
use crate::table::Table;
use crate::txn::Txn;

/// Redis's letters for classes of events, in the order of their bits in the header's EVENTS word; `A` is those up to `t`.
pub const EVENT_CLASSES: &[u8] = b"g$lshzxetdKEmn";

/// What happened to a key, or to a whole database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'c> {
    /// Redis's letter for the class of the event: `g`, `$`, `l` ...
    pub class: char,
    pub event: &'static str,
    pub db: Db,
    /// None: all keys of the database.
    pub key: Option<&'c [u8]>,
}

/// Who is told of changes, right before they are committed: with the keys' locks held, so that nobody sees them earlier.
pub trait ChangeSink: Send + Sync {
    /// Posts what is to be told; [`Txn::glimpse`] and [`Txn::post`] are what it may use of the transaction.
    ///
    /// # Errors
    /// A fault: the transaction does not commit then.
    fn tell(&self, txn: &Txn<'_>, changes: &[Change<'_>]) -> Result<(), Stop>;
}

/// A change, with its key among the scratch's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Noted {
    class: char,
    event: &'static str,
    db: Db,
    key: Option<(usize, usize)>,
}

/// A message, with its bytes among the scratch's.
#[derive(Clone, Copy)]
pub(crate) struct Post {
    to: u64,
    life: u64,
    bytes: (usize, usize),
}

impl Table {
    /// Who listens to what in this segment: bits of `shm::layout::interest`.
    ///
    /// SYNC: interest. Asked after a key's lock has been taken: who said that he listens and then read the key before we locked it is seen.
    #[inline(always)]
    pub fn interest(&self) -> u64 {
        interest_of(self.segment())
    }

    /// Names the process's sink of changes; the first stays.
    pub fn listen(&self, sink: &'static dyn ChangeSink) {
        let _ = self.sink.set(sink);
    }
}

#[inline(always)]
pub(crate) fn interest_of(segment: &Segment) -> u64 {
    heard(all_interest(segment))
}

/// The same with keyspace events that nothing hears.
#[inline(always)]
fn all_interest(segment: &Segment) -> u64 {
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

/// Interests without keyspace events that nothing hears: these are messages to subscribers, and where no seat has any, a change is not worth telling.
/// A transaction that has left some untold looks again before it commits (`Txn::tell_listeners`): its client must not be told OK, and a subscriber that came
/// meanwhile and read the keys as they were hear nothing. A fast path asks under the key's lock, right before it commits.
#[inline(always)]
const fn heard(bits: u64) -> u64 {
    const EVENTS: u64 = interest::EVENTS | interest::MISSES;
    if bits & EVENTS != 0 && bits & interest::SUBSCRIBERS == 0 { bits & !EVENTS } else { bits }
}

/// What seat `index` has said that it listens to, and in which of its lives.
pub fn interest_at(segment: &Segment, index: u64) -> (u64, u64) {
    let word = segment.observe(segment.seat_at(index) + at::INTEREST);
    (word & interest::ALL, word >> 8)
}

/// Says, for the calling thread's seat, that changes of some kind are worth telling: before anything is read that must not be missed.
pub fn take_interest(seat: &Seat, bits: u64) {
    use std::sync::atomic::{Ordering, fence};
    let segment = seat.segment();
    let life = seat.life();
    let (mine, of) = interest_at(segment, seat.index());
    let mine = if of == life { mine } else { 0 };
    if mine & bits != bits {
        seat.set(at::INTEREST, life << 8 | mine | bits);
        // SYNC: interest. The count of changes goes on although the bits may be set already, so that who has looked at the seats before
        // this and is about to clear them finds out. Restated in shm's tests/models.rs (`interest`): change both.
        let word = segment.word(header::INTEREST);
        let set = |now: u64| Some((now | bits).wrapping_add(interest::CHANGE));
        let _ = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, set);
    }
    fence(Ordering::SeqCst);
}

/// As [`take_interest`] and [`lose_interest`], of what is looked up seat by seat and never in the header's word: as cheap as it is often said.
pub fn show_interest(seat: &Seat, bits: u64, cares: bool) {
    let (mine, of) = interest_at(seat.segment(), seat.index());
    let mine = if of == seat.life() { mine } else { 0 };
    let bits = if cares { mine | bits } else { mine & !bits };
    if bits != mine {
        seat.set(at::INTEREST, seat.life() << 8 | bits);
    }
}

/// Says that the calling thread's seat does not care any more for changes of some kind.
pub fn lose_interest(seat: &Seat, bits: u64) {
    let (mine, of) = interest_at(seat.segment(), seat.index());
    if of == seat.life() && mine & bits != 0 {
        seat.set(at::INTEREST, of << 8 | mine & !bits);
        settle_interest(seat.segment());
    }
}

/// Seats that have gone and have listened to something: what they have left is to be swept, and then they are forgotten.
pub fn deaf(segment: &Segment) -> Vec<(u64, u64)> {
    let words = (0..segment.seats_high()).map(|index| (index, segment.observe(segment.seat_at(index) + at::INTEREST)));
    words.filter(|(index, word)| word & interest::ALL != 0 && !segment.lives(*index, word >> 8)).collect()
}

/// Forgets what one of [`deaf`] has listened to.
pub fn forget_deaf(segment: &Segment, (index, word): (u64, u64)) {
    // S2: a designated word. A new owner who has said something by now has another life, and with it another word.
    let _ = segment.exchange(segment.seat_at(index) + at::INTEREST, word, 0);
}

/// Clears the bits that no living seat has, but for those that settings set.
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
        // Whoever sets a bit meanwhile has changed the word: another time.
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

/// Whether `whole` is these parts in a row.
fn is_made_of(mut whole: &[u8], parts: &[&[u8]]) -> bool {
    parts.iter().all(|part| whole.strip_prefix(*part).map(|rest| whole = rest).is_some()) && whole.is_empty()
}

impl Txn<'_> {
    /// The table it is a transaction of.
    pub fn table(&self) -> &Table {
        self.table
    }

    /// Whether it may write.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// The calling thread's seat.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// The client for whom this transaction is made (0: nobody), for those who do not want to hear of their own changes.
    pub fn origin(&self) -> u64 {
        self.origin.get()
    }

    /// Sets what [`Txn::origin`] answers.
    pub fn set_origin(&self, client: u64) {
        self.origin.set(client);
    }

    /// Who listens to what.
    #[inline]
    pub fn interest(&self) -> u64 {
        interest_of(self.segment())
    }

    /// Says what happens to a key by this transaction. Free where nobody listens.
    #[inline]
    pub fn note_change(&self, class: char, event: &'static str, db: Db, key: &[u8]) {
        if db == SYSTEM {
            return;
        }
        let all = all_interest(self.segment());
        if heard(all) & (interest::CHANGES | interest::MISSES) != 0 {
            self.keep_change(class, event, db, Some(key));
        } else if all & (interest::EVENTS | interest::MISSES) != 0 {
            self.scratch.unheard.set(true);
        }
    }

    /// Whether events were left untold that are heard by now.
    pub(crate) fn has_new_hearers(&self) -> bool {
        self.scratch.unheard.get() && all_interest(self.segment()) & interest::SUBSCRIBERS != 0
    }

    /// How many changes have been noted so far.
    pub fn changes_noted(&self) -> usize {
        self.scratch.changes.borrow().len()
    }

    /// Whether a change of a key has been noted after so many others; only where somebody listens.
    pub fn has_changed_since(&self, noted: usize, db: Db, key: &[u8]) -> bool {
        let changes = self.scratch.changes.borrow();
        let later = changes.iter().skip(noted).filter(|change| change.db == db && !matches!(change.class, 'm' | 'n'));
        later.into_iter().any(|change| change.key.is_none_or(|at| self.scratch.key_of(at) == key))
    }

    /// As [`Txn::note_change`], of all keys of a database at once. Whether somebody listens is asked with the map's lock: see [`Txn::await_map`].
    pub(crate) fn note_change_of_all(&self, event: &'static str, db: Db) {
        if db != SYSTEM {
            self.keep_change('\0', event, db, None);
        }
    }

    #[cold]
    fn keep_change(&self, class: char, event: &'static str, db: Db, key: Option<&[u8]>) {
        self.scratch.used.set(true);
        let key = key.map(|key| self.scratch.keep_key(key));
        self.scratch.changes.borrow_mut().push(Noted { class, event, db, key });
    }

    /// Looks at a key without locking or relying on it: what is found was true a moment ago.
    ///
    /// # Errors
    /// A fault.
    pub fn glimpse(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop> {
        let mut marks = Marks::new();
        match lookup::lookup(&self.seat, db, &self.hash_of(key), &(self, key), &mut marks)? {
            Some(hit) => Ok(self.found(&hit.image)?),
            None => Ok(None),
        }
    }

    /// Whether this transaction has locked a key, to write it or to read it as long as it may write.
    pub fn holds(&self, db: Db, key: &[u8]) -> bool {
        self.scratch.held_index(self.physical(db), key, || self.hash_of(key)).is_some()
    }

    /// Sends a message to a seat, in one of its lives, when this transaction commits.
    pub fn post(&self, to: u64, life: u64, parts: &[&[u8]]) {
        let (mut mail, mut posts) = (self.scratch.mail.borrow_mut(), self.scratch.posts.borrow_mut());
        // What goes to many is kept once.
        let bytes = match posts.last().map(|last| last.bytes) {
            Some((begin, end)) if is_made_of(&mail[begin..end], parts) => (begin, end),
            _ => {
                let begin = mail.len();
                parts.iter().for_each(|part| mail.extend_from_slice(part));
                (begin, mail.len())
            }
        };
        posts.push(Post { to, life, bytes });
    }

    /// Shows the sink what has been noted. Asks for another attempt, which notes all, where events were left untold and are heard by now.
    pub(crate) fn tell_listeners(&self) -> Result<(), Stop> {
        if self.has_new_hearers() {
            return Err(Stop::Retry);
        }
        if self.scratch.changes.borrow().is_empty() {
            return Ok(());
        }
        let noted = std::mem::take(&mut *self.scratch.changes.borrow_mut());
        let Some(sink) = self.table.sink.get() else { return Ok(()) };
        let keys: Vec<Option<Vec<u8>>> = noted.iter().map(|noted| noted.key.map(|key| self.scratch.key_of(key))).collect();
        let changes: Vec<Change<'_>> = noted
            .iter()
            .zip(&keys)
            .map(|(noted, key)| Change { class: noted.class, event: noted.event, db: noted.db, key: key.as_deref() })
            .collect();
        sink.tell(self, &changes)
    }

    /// Whether messages leave with this transaction.
    pub(crate) fn has_posts(&self) -> bool {
        !self.scratch.posts.borrow().is_empty()
    }

    /// Locks the inboxes that get something, by the numbers of their seats (T2: after everything else), and notes what becomes of them.
    pub(crate) fn note_posts(&self) -> Result<(), Stop> {
        if !self.has_posts() {
            return Ok(());
        }
        let mut posts = self.scratch.posts.borrow_mut();
        let mail = self.scratch.mail.borrow();
        posts.sort_by_key(|post| post.to);
        for group in posts.chunk_by(|one, other| one.to == other.to) {
            let Some(first) = group.iter().find(|post| self.segment().lives(post.to, post.life)) else { continue };
            let Locked::Ours(_) = self.lock_patiently(self.segment().inbox_lock(first.to))? else { continue };
            let item = self.seat.journal_len() - 1;
            let Some(mut posting) = self.seat.posting(first.to, first.life, item) else { continue };
            for post in group.iter().filter(|post| post.life == first.life) {
                posting.append(&[&mail[post.bytes.0..post.bytes.1]])?;
            }
            let olds = posting.end()?;
            self.scratch.olds.set(self.scratch.olds.get() + olds);
        }
        Ok(())
    }

    /// Locks the inboxes to which a transaction that has read only has something to tell.
    pub(crate) fn lock_posts(&self) -> Result<(), Stop> {
        self.tell_listeners()?;
        if self.has_posts() {
            self.dirty.set(true);
            self.note_posts()?;
        }
        Ok(())
    }

    /// The commit of such a transaction.
    pub(crate) fn commit_posts(&self) -> Result<(), Stop> {
        if !self.has_posts() {
            return Ok(());
        }
        self.seat.commit(self.scratch.olds.get())?;
        self.dirty.set(false);
        Ok(())
    }
}
