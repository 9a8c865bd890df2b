//! Changes: what each commit reports about the keys that it changes, and the messages that leave with the commit.
//!
//! A command (or maintenance) notes a change while its transaction runs. Right before the commit, the one [`ChangeSink`] of the process
//! sees all of them and posts messages to inboxes (`shm::inbox`). The store that commits the keys also commits the messages. So no
//! receiver hears of a change that was not committed, and each committed change is heard of, also if a thread dies at any step. If the
//! transaction runs again, it notes and posts everything again.
//!
//! If no thread listens, a change costs one load: see [`Table::interest`].

use polder_shm::layout::{header, interest, seat as at};
use polder_shm::{Locked, Seat, Segment};

use crate::api::{Db, Found, Mode, SYSTEM, Stop};
use crate::lookup::{self, ReadSet};
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

/// The receiver of changes. It is called right before they are committed, while the keys are locked, so no reader sees them earlier.
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
    /// What any thread of this segment listens to: bits of `shm::layout::interest`.
    ///
    /// SYNC: interest. To be called after the key's lock was taken. A listener stores its interest first and reads the key second
    /// ([`take_interest`]). So if it has read the key before this thread locked it, its interest is seen here.
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

/// Interests without keyspace events that nothing hears: these events are messages to subscribers, so they are left out while no seat has a
/// subscriber. A transaction that has left some out looks again before it commits (`Txn::tell_listeners`). Otherwise a subscriber could
/// come meanwhile, read the old keys, and never hear of a change whose client gets its OK. A fast path asks under the key's lock, right
/// before it commits.
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
        // this and is about to clear the bits finds the word changed. Restated in shm's tests/models.rs (`interest`): change both.
        let word = segment.word(header::INTEREST);
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
    let words = (0..segment.seats_high()).map(|index| (index, segment.observe(segment.seat_at(index) + at::INTEREST)));
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

    /// The client for which this transaction runs (0: none). Some clients do not want to hear of their own changes.
    pub fn origin(&self) -> u64 {
        self.origin.get()
    }

    /// Sets what [`Txn::origin`] returns.
    pub fn set_origin(&self, client: u64) {
        self.origin.set(client);
    }

    /// As [`Table::interest`].
    #[inline]
    pub fn interest(&self) -> u64 {
        interest_of(self.segment())
    }

    /// Notes what this transaction does to a key. It costs one load if no thread listens.
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

    /// Whether events were left untold although there is a subscriber by now.
    pub(crate) fn has_new_hearers(&self) -> bool {
        self.scratch.unheard.get() && all_interest(self.segment()) & interest::SUBSCRIBERS != 0
    }

    /// How many changes have been noted so far.
    pub fn changes_noted(&self) -> usize {
        self.scratch.changes.borrow().len()
    }

    /// Whether a change of a key was noted after the first `noted` ones. Changes are noted only if a thread listens.
    pub fn has_changed_since(&self, noted: usize, db: Db, key: &[u8]) -> bool {
        let changes = self.scratch.changes.borrow();
        let later = changes.iter().skip(noted).filter(|change| change.db == db && !matches!(change.class, 'm' | 'n'));
        later.into_iter().any(|change| change.key.is_none_or(|at| self.scratch.key_of(at) == key))
    }

    /// As [`Txn::note_change`], of all keys of a database at once. It is noted in any case; whether a thread listens is asked later, under
    /// the map's lock: see [`Txn::await_map`].
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

    /// Looks at a key without locking it or adding it to the read set: what is found was true a moment ago.
    ///
    /// # Errors
    /// A fault.
    pub fn glimpse(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop> {
        let mut marks = ReadSet::new();
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
        // A message to many receivers is kept once.
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

    /// Shows the sink what has been noted. If events were left untold and a subscriber has come meanwhile, it fails with [`Stop::Retry`]:
    /// the next attempt notes them.
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

    /// Locks the inboxes that get messages, in the order of their seats' numbers (T2: after everything else), and notes their new words in
    /// the journal.
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

    /// For a transaction that has only read: locks the inboxes to which it posts.
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
