//! A transaction of one declared key whose entry lies at home. It is the most common kind, and takes a third of the steps of a general one.
//!
//! ```text
//!   declare ---> lock home, find entry ---> SingleKeyTxn ---> find, write, remove ---> note the entry's words, commit (`shm::staged_journal`)
//!                  | no such entry at home,  |
//!                  | a lock in the way       | another key, a second write, listeners, no room: escalate
//!                  v                         v
//!                hold: Held, Shadow, place, journal as ever
//! ```
//!
//! A [`SingleKeyTxn`] holds the same as one [`Held`] and one shadow would: a locked bucket (the journal's first item) and the key's entry. So it can
//! be turned into these at any time before the commit. Every other key comes through `Txn::hold`, which does so first.

use polder_shm::Locked;

use crate::access::locate::{BucketProbe, Location, probe_bucket};
use crate::access::lookup::{KeyTest, Live};
use crate::access::update;
use crate::api::{Counter, Db, Found, New, Replaces, SYSTEM, Stop, bit_of};
use crate::layout::bucket::{self, LINE_WORDS};
use crate::layout::directory;
use crate::layout::entry::{Image, is_cold};
use crate::txn::Txn;
use crate::txn::held::{Held, Pending, Plan, SingleKeyTxn, Spot};

impl<'t> Txn<'t> {
    /// Declares the prefetched key as the only one, in the short form. Returns false, having done nothing, if that is not possible.
    #[inline]
    pub(crate) fn declare_single(&self, db: Db, key: &[u8]) -> Result<bool, Stop> {
        let Some(location) = self.foreseen_location(db, key) else { return Ok(false) };
        let segment = self.segment();
        // T3: as in `update.rs`, the pin reaches to the bucket before it is locked.
        // A commit that rides is checked against the role by the general transaction only (A3).
        let may = !self.tells()
            && !self.seat.rides()
            && self.is_first_attempt()
            && self.seat.journal_len() == 0
            && self.buffers.is_untouched();
        if !may || !self.seat.covers_now() || !location.is_current(segment) {
            return Ok(false);
        }
        if !matches!(self.seat.lock_now(location.bucket.line)?, Locked::Ours(_)) {
            // The slow path meets the same lock and counts it.
            self.seat.forget_collision();
            return Ok(false);
        }
        self.attempt.dirty.set(true);
        match self.look_alone(location, key) {
            Ok(Some(unit)) => {
                self.single.set(SingleKeyTxn { active: true, unit, ..SingleKeyTxn::default() });
                Ok(true)
            }
            outcome => {
                self.seat.rollback();
                self.attempt.dirty.set(false);
                outcome.map(|_| false)
            }
        }
    }

    /// Finds the key's entry in its home, which is locked; `None` if the short form cannot handle it.
    #[inline]
    fn look_alone(&self, location: &Location, key: &[u8]) -> Result<Option<Option<u8>>, Stop> {
        let live = Live { segment: self.segment(), bucket: location.bucket };
        if !location.is_current(live.segment) {
            return Ok(None);
        }
        let unit = match probe_bucket(&live, &location.hash, key) {
            BucketProbe::Here(unit) | BucketProbe::Record(unit) => unit,
            BucketProbe::Miss(0, 0) => return Ok(Some(None)),
            BucketProbe::Miss(..) => return Ok(None),
        };
        let image = &mut *self.buffers.single.before.borrow_mut();
        *image = Image::EMPTY;
        bucket::read_image(&live, unit, image);
        if is_cold(image) {
            // The slow path says whose it is.
            return Ok(None);
        }
        if image.is_reference() {
            // The lock keeps the entry from changing, but the pin must reach to its record's birth.
            while !self.seat.covers_now() {}
            if !(self, key).is_key_of(image.record()?)? {
                return Ok(None);
            }
        }
        let expired = self.gone(image)?;
        Ok((image.kind()?.is_some() && expired.is_none()).then_some(Some(unit as u8)))
    }

    /// Where the only key belongs, if this is it.
    #[inline]
    fn single_location(&self, db: Db, key: &[u8]) -> Option<&'t Location> {
        let (seen, location) = self.foreseen.filter(|_| self.single.get().active)?;
        (location.db() == db && (std::ptr::eq(seen, key) || seen == key)).then_some(location)
    }

    /// As [`Txn::find`], of the only key; `None`: it is another one, or there is none.
    #[inline]
    pub(crate) fn find_single(
        &self,
        db: Db,
        key: &[u8],
        access: bool,
    ) -> Result<Option<Option<Found<'_>>>, Stop> {
        let (single, Some(location)) = (self.single.get(), self.single_location(db, key)) else {
            return Ok(None);
        };
        let image = match (single.pending, single.unit) {
            (Plan::Write, _) => self.buffers.single.after.borrow(),
            (Plan::Same, Some(_)) => self.buffers.single.before.borrow(),
            _ => return Ok(Some(None)),
        };
        let Some(found) = self.found(&image)? else { return Ok(Some(None)) };
        let Some(found) = self.if_it_exists(db, key, found, true) else { return Ok(Some(None)) };
        if let (true, Plan::Same, Some(unit)) = (access, single.pending, single.unit) {
            self.note_access(location.bucket.word_at(LINE_WORDS + unit as usize * 2), image.words[0]);
        }
        Ok(Some(Some(found)))
    }

    /// As [`Txn::write`], for the first write to the only key. Returns false, having done nothing, in other cases.
    #[inline]
    pub(crate) fn write_single(
        &self,
        db: Db,
        key: &[u8],
        new: &New<'_>,
        replaces: Replaces,
    ) -> Result<bool, Stop> {
        let (single @ SingleKeyTxn { pending: Plan::Same, .. }, Some(location)) =
            (self.single.get(), self.single_location(db, key))
        else {
            return Ok(false);
        };
        if single.unit.is_none() {
            self.note_change('n', "new", db, key);
        }
        let before = self.buffers.single.before.borrow();
        let clock = self.new_clock(single.unit.map(|_| &*before));
        *self.buffers.single.after.borrow_mut() = self.image(key, &location.hash, new, clock)?;
        self.single.set(SingleKeyTxn { pending: Plan::Write, whole: replaces == Replaces::Whole, ..single });
        Ok(true)
    }

    /// As [`Txn::remove`], for the only key if nothing was written to it; `None` in other cases.
    #[inline]
    pub(crate) fn remove_single(&self, db: Db, key: &[u8], replaces: Replaces) -> Option<bool> {
        let (single @ SingleKeyTxn { pending: Plan::Same, .. }, Some(_)) =
            (self.single.get(), self.single_location(db, key))
        else {
            return None;
        };
        if single.unit.is_none() {
            return Some(false);
        }
        self.single.set(SingleKeyTxn { pending: Plan::Remove, whole: replaces == Replaces::Whole, ..single });
        Some(true)
    }

    /// Forgets the only key, with the attempt.
    pub(crate) fn forget_single(&self) {
        self.single.set(SingleKeyTxn::default());
    }

    /// Turns the short form into a general transaction.
    #[inline]
    pub(crate) fn escalate(&self) -> Result<(), Stop> {
        if self.single.get().active { self.escalate_now() } else { Ok(()) }
    }

    #[cold]
    fn escalate_now(&self) -> Result<(), Stop> {
        let (single, Some((key, location))) = (self.single.get(), self.foreseen) else { return Ok(()) };
        // An extent of which a bucket is locked stays; but its database may be another one by now, or none.
        let extent =
            directory::walk(self.segment(), location.root, location.hash.position).ok_or(Stop::Retry)?;
        let home = self.buffers.push_shadow(location.bucket, 0);
        self.buffers.highest.set(extent.order(location.home));
        let image = *self.buffers.single.before.borrow();
        let spot =
            single.unit.map(|unit| Spot { shadow: home, unit: unit.into(), image, hop: 0, expired: None });
        let pending = match single.pending {
            Plan::Same => None,
            Plan::Write => Some(Pending::Write(*self.buffers.single.after.borrow())),
            Plan::Remove => Some(Pending::Remove),
        };
        let (db, hash, retires) = (location.db(), location.hash, pending.is_some().then_some(single.whole));
        let key = self.buffers.keep_key(key);
        // While the log is on there is no only key: nothing of it is to be told.
        let held = Held {
            db,
            key,
            hash,
            extent,
            home,
            spot,
            pending,
            retires,
            fresh: false,
            passed: false,
            untold: 0,
            counts: pending.is_some(),
            keeps_expired: false,
        };
        self.buffers.held.borrow_mut().push(held);
        self.forget_single();
        Ok(())
    }

    /// As [`Txn::commit`], if the only key is all that the transaction touches. Returns false if the slow path must commit.
    #[inline]
    pub(crate) fn commit_single(&self) -> Result<bool, Stop> {
        let (single, Some((key, location))) = (self.single.get(), self.foreseen) else { return Ok(false) };
        if !single.active {
            return Ok(false);
        }
        let done = match single.pending {
            _ if self.changes_noted() > 0
                || self.has_posts()
                || self.has_news()
                || self.has_new_hearers() =>
            {
                false
            }
            Plan::Same if self.buffers.nodes.olds.get() == 0 => {
                self.seat.rollback();
                true
            }
            Plan::Same => false,
            Plan::Write | Plan::Remove => self.publish_single(single, key, location)?,
        };
        if done {
            self.attempt.dirty.set(false);
        } else {
            self.escalate()?;
        }
        Ok(done)
    }

    /// Notes the entry's new words and commits. Returns false, having done nothing, if more than the entry would have to change.
    #[inline]
    fn publish_single(&self, single: SingleKeyTxn, key: &[u8], location: &Location) -> Result<bool, Stop> {
        let live = Live { segment: self.segment(), bucket: location.bucket };
        let (before, after) = (self.buffers.single.before.borrow(), self.buffers.single.after.borrow());
        let before = single.unit.map(|unit| (usize::from(unit), &*before));
        let after = if single.pending == Plan::Write { Some(&*after) } else { None };
        if !self.seat.has_staging_room() || !update::fits(&live, before, after) {
            return Ok(false);
        }
        let bound_ms = after.map_or(Ok(None), |image| self.bound_of(image))?;
        if !bound_ms.is_none_or(|bound_ms| update::lower_bounds(live.segment, location, bound_ms)) {
            return Ok(false);
        }
        self.seat.enter_commit(bit_of(location.db()), false);
        if !location.is_current(live.segment) {
            self.seat.leave_commit();
            return Ok(false);
        }
        if let Some((_, image)) = before {
            self.retire_record(image, single.whole, key.len())?;
        }
        if !update::publish(&self.seat, location, key, (before, after), self.buffers.nodes.olds.get())? {
            // The log was turned on meanwhile.
            return Err(Stop::Retry);
        }
        self.seat.leave_commit();
        if location.db() != SYSTEM {
            self.count(Counter::Changes, 1);
        }
        Ok(true)
    }
}
