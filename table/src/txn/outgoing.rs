//! What leaves with a transaction's commit: the changes that it has noted, and messages to inboxes.
//!
//! If no thread listens, a change costs one load: see [`Table::interest`].

use polder_shm::layout::{header, interest};
use polder_shm::{Locked, Seat, Segment};

use crate::access::lookup::{self, ReadSet};
use crate::api::{Db, Found, Mode, SYSTEM, Stop};
use crate::change::{Change, ChangeSink, CommitView, parts_text};
use crate::layout::extras::announce_feature;
use crate::layout::interest::{PARTS, REPLACED, all_interest, heard, interest_of};
use crate::table::Table;
use crate::txn::Txn;
use crate::txn::buffers::{Noted, Post};

impl Table {
    /// What any thread of this segment listens to: bits of `shm::layout::interest`.
    ///
    /// SYNC: interest. To be called after the key's lock was taken. A listener stores its interest first and reads the key second
    /// ([`crate::layout::interest::take_interest`]). So if it has read the key before this thread locked it, its interest is seen here.
    #[inline(always)]
    pub fn interest(&self) -> u64 {
        interest_of(self.segment())
    }

    /// Says in the segment's header that something of a form may be stored, before it is: one of `shm::layout::features`.
    pub fn announce(&self, feature: u64) {
        announce_feature(self.segment(), feature);
    }

    /// Names the process's sink of changes; the first stays.
    pub fn listen(&self, sink: &'static dyn ChangeSink) {
        let _ = self.sink.set(sink);
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

    /// Sets what [`CommitView::origin`] returns.
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
        if db >= SYSTEM {
            return;
        }
        let all = all_interest(self.segment());
        if heard(all) & (interest::CHANGES | interest::MISSES) != 0 {
            self.keep_change(class, event, db, Some(key), None);
        } else if all & (interest::EVENTS | interest::MISSES) != 0 {
            self.buffers.outgoing.unheard.set(true);
        }
    }

    /// Returns true if listeners have asked for events of values that are replaced.
    #[inline]
    pub fn tells_replaced(&self) -> bool {
        self.segment().load(header::EVENTS) & REPLACED != 0
    }

    /// Notes a change of some fields of a hash ([`Txn::note_change`]), with their names where listeners have asked for them.
    #[inline]
    pub fn note_parts<'p>(
        &self,
        class: char,
        event: &'static str,
        db: Db,
        key: &[u8],
        parts: impl Iterator<Item = &'p [u8]>,
    ) {
        if self.segment().load(header::EVENTS) & PARTS == 0 {
            return self.note_change(class, event, db, key);
        }
        if db < SYSTEM {
            let text = parts_text(parts);
            if heard(all_interest(self.segment())) & interest::CHANGES != 0 {
                self.keep_change(class, event, db, Some(key), Some(&text));
            } else {
                self.note_change(class, event, db, key);
            }
        }
    }

    /// Whether events were left untold although there is a subscriber by now.
    pub(crate) fn has_new_hearers(&self) -> bool {
        self.buffers.outgoing.unheard.get() && all_interest(self.segment()) & interest::SUBSCRIBERS != 0
    }

    /// How many changes have been noted so far.
    pub fn changes_noted(&self) -> usize {
        self.buffers.outgoing.changes.borrow().len()
    }

    /// Whether a change of a key was noted after the first `noted` ones. Changes are noted only if a thread listens.
    pub fn has_changed_since(&self, noted: usize, db: Db, key: &[u8]) -> bool {
        let changes = self.buffers.outgoing.changes.borrow();
        let later =
            changes.iter().skip(noted).filter(|change| change.db == db && !matches!(change.class, 'm' | 'n'));
        later.into_iter().any(|change| change.key.is_none_or(|at| self.buffers.key_of(at) == key))
    }

    /// As [`Txn::note_change`], of all keys of a database at once. It is noted in any case; whether a thread listens is asked later, under
    /// the map's lock: see [`Txn::await_map`].
    pub(crate) fn note_change_of_all(&self, event: &'static str, db: Db) {
        if db < SYSTEM {
            self.keep_change('\0', event, db, None, None);
        }
    }

    #[cold]
    fn keep_change(
        &self,
        class: char,
        event: &'static str,
        db: Db,
        key: Option<&[u8]>,
        parts: Option<&[u8]>,
    ) {
        self.buffers.used.set(true);
        let [key, parts] = [key, parts].map(|bytes| bytes.map(|bytes| self.buffers.keep_key(bytes)));
        self.buffers.outgoing.changes.borrow_mut().push(Noted { class, event, db, key, parts });
    }

    /// Whether this transaction has locked a key, to write it or to read it as long as it may write.
    pub fn holds(&self, db: Db, key: &[u8]) -> bool {
        self.buffers.held_index(self.physical(db), key, || self.hash_of(key)).is_some()
    }

    /// Shows the sink what has been noted. If events were left untold and a subscriber has come meanwhile, it fails with [`Stop::Retry`]:
    /// the next attempt notes them.
    pub(crate) fn tell_listeners(&self) -> Result<(), Stop> {
        if self.has_new_hearers() {
            return Err(Stop::Retry);
        }
        if self.buffers.outgoing.changes.borrow().is_empty() {
            return Ok(());
        }
        let noted = std::mem::take(&mut *self.buffers.outgoing.changes.borrow_mut());
        let Some(sink) = self.table.sink.get() else { return Ok(()) };
        let bytes = |place: Option<(usize, usize)>| place.map(|place| self.buffers.key_of(place));
        let words: Vec<[Option<Vec<u8>>; 2]> =
            noted.iter().map(|noted| [noted.key, noted.parts].map(bytes)).collect();
        let changes: Vec<Change<'_>> = noted
            .iter()
            .zip(&words)
            .map(|(noted, [key, parts])| Change {
                class: noted.class,
                event: noted.event,
                db: noted.db,
                key: key.as_deref(),
                parts: parts.as_deref().unwrap_or_default(),
            })
            .collect();
        sink.tell(self, &changes)
    }

    /// Whether messages leave with this transaction.
    pub(crate) fn has_posts(&self) -> bool {
        !self.buffers.outgoing.posts.borrow().is_empty()
    }

    /// Locks the inboxes that get messages, in the order of their seats' numbers (T2: after everything else), and notes their new words in
    /// the journal.
    pub(crate) fn note_posts(&self) -> Result<(), Stop> {
        if !self.has_posts() {
            return Ok(());
        }
        let mut posts = self.buffers.outgoing.posts.borrow_mut();
        let mail = self.buffers.outgoing.mail.borrow();
        posts.sort_by_key(|post| post.to);
        for group in posts.chunk_by(|one, other| one.to == other.to) {
            let Some(first) = group.iter().find(|post| self.segment().lives(post.to, post.life)) else {
                continue;
            };
            let Locked::Ours(_) = self.lock_patiently(self.segment().inbox_lock(first.to))? else { continue };
            let item = self.seat.journal_len() - 1;
            let Some(mut posting) = self.seat.posting(first.to, first.life, item) else { continue };
            for post in group.iter().filter(|post| post.life == first.life) {
                posting.append(&[&mail[post.bytes.0..post.bytes.1]])?;
            }
            let olds = posting.end()?;
            self.buffers.nodes.olds.set(self.buffers.nodes.olds.get() + olds);
        }
        Ok(())
    }

    /// For a transaction that has only read: locks the inboxes to which it posts.
    pub(crate) fn lock_posts(&self) -> Result<(), Stop> {
        self.tell_listeners()?;
        if self.has_posts() {
            self.attempt.dirty.set(true);
            self.note_posts()?;
        }
        Ok(())
    }

    /// The commit of such a transaction.
    pub(crate) fn commit_posts(&self) -> Result<(), Stop> {
        if !self.has_posts() && !self.has_news() {
            return Ok(());
        }
        let mut olds = self.buffers.nodes.olds.get();
        if self.has_news() {
            self.attempt.dirty.set(true);
            self.begin_news()?;
            olds += self.before_commit()?;
        }
        self.seat.commit(olds)?;
        self.attempt.dirty.set(false);
        Ok(())
    }
}

impl CommitView for Txn<'_> {
    fn segment(&self) -> &Segment {
        self.seat.segment()
    }

    fn origin(&self) -> u64 {
        self.origin.get()
    }

    fn glimpse(&self, db: Db, key: &[u8]) -> Result<Option<Found<'_>>, Stop> {
        let mut marks = ReadSet::new();
        let looked = lookup::lookup(&self.seat, db, &self.hash_of(key), &(self, key), &mut marks);
        match looked.map_err(|stop| self.met_in(db, stop))? {
            Some(hit) => Ok(self.found(&hit.image)?),
            None => Ok(None),
        }
    }

    fn draw_below(&self, end: u64) -> u64 {
        self.table.draw_below(end)
    }

    fn post(&self, to: u64, life: u64, parts: &[&[u8]]) {
        let (mut mail, mut posts) =
            (self.buffers.outgoing.mail.borrow_mut(), self.buffers.outgoing.posts.borrow_mut());
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
}
