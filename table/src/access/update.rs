//! A change of one key, without a transaction: the key's value is packed, and no other thread has its entry locked.
//!
//! Every command that changes one small value comes here with a closure. The closure is shown the old value where it lies and returns a
//! [`Mutation`], from which the new entry or record is made. A transaction takes three times the instructions. In all other cases (a value
//! that is a tree, a key that has expired or is about to, a seat that listens or waits, no room unless the extent grows) the update returns
//! `None`: nothing has happened then, and the caller takes the slow path.
//!
//! ```text
//!  pin, word of home's line -> entry -> slot and root, word again -> its record -> lock by a CAS of that word (as in `plain.rs`)
//!     an entry that does not lie at home: the lock of its bucket, too, in the same way
//!  -> slot and root -> the mutation -> NEW record -> bounds of expiry -> OLD record, words -> look at RECORDING -> commit (`shm::staged_journal`)
//! ```
//!
//! Why it is safe:
//! - The lock is taken by a CAS that expects the word that was read before the entry. So no change of the bucket was published since, and
//!   what was read without the lock still holds under it (a reader may have moved the access clock, which is written anew). A displaced
//!   entry is changed under the locks of its home and of its bucket (T1), and both are taken in this way.
//! - No lock is waited for, so the order of locks (T2) does not matter.
//! - The seat enters its commit before it locks ([`PinGuard`], `shm/swap_barrier.rs`), and slot and root are checked under the lock. So the database is not
//!   swapped before the commit. A FLUSH that comes in between counts as later.
//! - If anything fails before the commit, the [`PinGuard`] rolls the journal back: no word outside the journal and its NEW nodes has been
//!   written, except the bounds of expiry.
//!
//! **Invariant:** the bounds of extent and database are lowered before the commit, as in `Txn::place_all`. A death in between leaves bounds
//! that are too low, which costs one search. The other order could leave an expiring key below a bound that is too high, so that no search
//! for expired keys would find it.

mod several;
mod told;

use polder_base::{Fault, Ref};
use polder_shm::item::Tag;
use polder_shm::layout::{interest, seat as at};
use polder_shm::node::NodeKind;
use polder_shm::staged_journal::{Covered, StagedJournal};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Locked, Seat, Segment, offset_of};
use polder_values::{Kind, PACKED_MAX, Value};

use crate::access::locate::{BucketProbe, Displaced, Location, Reading, probe_bucket};
use crate::access::lookup::Live;
use crate::access::mutation::{Form, Mutation, Old};
use crate::access::plain::BUSY;
use crate::access::put::{PinGuard, has_room, note_words, put, tags_of};
use crate::access::read::expires_soon;
use crate::api::{Attributes, Counter, New};
use crate::layout::bucket::{self, LINE_WORDS, Words};
use crate::layout::clock;
use crate::layout::directory::{self, Bucket, database};
use crate::layout::entry::{self, Image, Inline, UNIT_BYTES, has_expiry, has_inner_expiry, is_key};
use crate::layout::hash::FREE;
use crate::layout::interest::is_told;
use crate::layout::raw;
use crate::layout::record::{self, Key, Record};
use crate::log::recording::{self, Changed, Effect, Tell};
use crate::table::Table;

impl Table {
    /// Gives a key a string, as [`Table::quick_edit`] does, one that may take a record, too. `calls` is added to the count of calls.
    /// Returns whether the key is a new one.
    #[inline(always)]
    pub fn quick_set(
        &self,
        location: &Location,
        key: &[u8],
        value: &[u8],
        now_ms: u64,
        calls: u64,
    ) -> Option<bool> {
        let is_short = entry::inline_bytes(key.len(), value.len(), false, false) <= entry::INLINE_MAX;
        let edited = if is_short {
            self.edit_plain(
                location,
                key,
                (now_ms, calls),
                |_| Some((value, false)),
                |effect| effect.call("SET", &[key, value]),
            )
        } else {
            None
        };
        edited.or_else(|| self.quick_set_with(location, key, value, Attributes::NONE, (now_ms, calls)))
    }

    /// The same with attributes, whose expiry lies in the future; `calls` comes with the time.
    #[inline(never)]
    pub fn quick_set_with(
        &self,
        location: &Location,
        key: &[u8],
        value: &[u8],
        Attributes { expiry_ms, flags }: Attributes,
        (now_ms, calls): (u64, u64),
    ) -> Option<bool> {
        // This is checked again under the lock; here it only saves a lock that would be useless.
        if value.len() > PACKED_MAX || is_told(self.segment(), listeners(Some(Kind::String))) {
            return None;
        }
        // As it will be stored: the bounds of extent and database are lowered to this.
        let attributes =
            Attributes { expiry_ms: expiry_ms.map(|expiry_ms| expiry_ms.min(entry::EXPIRY_MAX_MS)), flags };
        let tell = move |_: &bool, effect: &mut Effect<'_>| effect.set(key, value, attributes);
        let kind = Some(Kind::String);
        self.update_counted(
            location,
            key,
            kind,
            (now_ms, calls),
            move |old| Some((Mutation::String(value, attributes), old.is_none())),
            tell,
        )
    }

    /// Changes a packed value of `kind`, or of any kind: `change` gets the old state (nothing if there is no such key) and returns the mutation and a
    /// result for the caller. While the change log is on, `tell` gets that result and says the effect; where it says nothing, the slow path makes
    /// the change. `None`: take the slow path; `change` may have been called.
    #[inline]
    pub fn update<'n, R>(
        &self,
        location: &Location,
        key: &[u8],
        kind: impl Into<Option<Kind>>,
        now_ms: u64,
        change: impl for<'v> FnOnce(Option<Old<'v>>) -> Option<(Mutation<'v, 'n>, R)>,
        tell: impl Fn(&R, &mut Effect<'_>),
    ) -> Option<R> {
        self.update_counted(location, key, kind.into(), (now_ms, 1), change, tell)
    }

    /// Gives a key a short string, made by `edit` from the one it has (nothing if there is no such key), which keeps expiry and flags. `edit` returns the
    /// new bytes or, to leave the key alone, `None`, and a result for the caller. `calls` is added to the count of calls. As [`Table::update`] else.
    #[inline]
    pub fn quick_edit<'n, R>(
        &self,
        location: &Location,
        key: &[u8],
        times: (u64, u64),
        edit: impl FnOnce(Option<&[u8]>) -> (Option<&'n [u8]>, R),
        tell: impl Fn(&R, &mut Effect<'_>),
    ) -> Option<R> {
        self.update_counted(
            location,
            key,
            Some(Kind::String),
            times,
            |old| {
                let (value, answer) = edit(old.map(|old| old.value));
                let text = |added| Mutation::Text { kept: &[], added, form: Form::Plain };
                Some((value.map_or(Mutation::Same, text), answer))
            },
            tell,
        )
    }

    #[inline]
    fn update_counted<'n, R>(
        &self,
        location: &Location,
        key: &[u8],
        kind: Option<Kind>,
        (now_ms, calls): (u64, u64),
        change: impl for<'v> FnOnce(Option<Old<'v>>) -> Option<(Mutation<'v, 'n>, R)>,
        tell: impl Fn(&R, &mut Effect<'_>),
    ) -> Option<R> {
        if self.seems_logged() {
            return self.update_logged(location, key, kind, (now_ms, calls), change, tell);
        }
        let work = |seat: &Seat| {
            let guard = PinGuard::begin(seat, location.db)?;
            KeyUpdate { table: self, seat: guard.seat, location, key, kind, calls, now_ms }.run(change, None)
        };
        self.segment().with_seat(work).ok()?
    }
}

/// The interests that are told of a change of such a value, by the slow path. No client waits for a string.
#[inline(always)]
fn listeners(kind: Option<Kind>) -> u64 {
    let all = interest::CHANGES | interest::MISSES;
    if kind == Some(Kind::String) { all & !interest::WAITERS } else { all }
}

/// What was seen without a lock: the word of the home before that, and where the entry begins, if there is one.
struct Seen {
    word: u64,
    unit: Option<usize>,
    displaced: Option<Displaced>,
}

impl Seen {
    /// The LOCK item of the journal that covers the entry: the home's is the first.
    #[inline(always)]
    fn item(&self) -> u64 {
        self.displaced.is_some().into()
    }
}

/// A change of one key, with the seat pinned.
struct KeyUpdate<'e> {
    table: &'e Table,
    seat: &'e Seat,
    location: &'e Location,
    key: &'e [u8],
    /// The kind that the value must have, if that matters.
    kind: Option<Kind>,
    /// What is added to the count of calls.
    calls: u64,
    now_ms: u64,
}

impl<'e> KeyUpdate<'e> {
    /// With `tell`, where the change log may be on.
    #[inline]
    fn run<'n, R>(
        &self,
        change: impl for<'v> FnOnce(Option<Old<'v>>) -> Option<(Mutation<'v, 'n>, R)>,
        tell: Option<Tell<'_>>,
    ) -> Option<R> {
        let (seat, location, now_ms) = (self.seat, self.location, self.now_ms);
        let segment = &**seat.segment();
        let mut before = Image::EMPTY;
        let seen = self.look(&mut before)?;
        let (unit, bucket) =
            (seen.unit, seen.displaced.map_or(location.bucket, |displaced| displaced.reading.bucket));
        let mut extras = Extras::default();
        let old = if unit.is_some() { Some(self.value_of(&before, now_ms, &mut extras)?) } else { None };
        if before.is_reference() {
            // Before the lock: it may reclaim.
            seat.reserve_retired(1).ok()?;
        }
        self.lock(&seen).then_some(())?;
        // Under the lock: see `Table::interest`.
        if !location.is_current(segment) || self.is_awaited(segment) {
            return None;
        }
        let (mutation, answer) = change(old)?;
        let clock = match unit {
            Some(_) => self.table.next_clock(before.clock(), clock::lru(now_ms)),
            None => self.table.first_clock(now_ms),
        };
        let (mut after, mut expiry_ms) = (Image::EMPTY, None);
        let after = match mutation {
            Mutation::Same => {
                if let Some(unit) = unit {
                    let first_at = bucket.word_at(LINE_WORDS + unit * 2);
                    self.table.note_access(first_at, before.words[0], clock::lru(now_ms));
                }
                seat.rollback();
                seat.add(at::COUNTERS + 8 * Counter::Calls as u64, self.calls);
                return Some(answer);
            }
            Mutation::Gone => None,
            changed => {
                expiry_ms = self.make_changed(changed, (&before, old), &extras, clock, &mut after)?;
                Some(&after)
            }
        };
        let before = unit.map(|unit| (unit, &before));
        if expiry_ms.is_some_and(|expiry_ms| !lower_bounds(segment, location, expiry_ms)) {
            return None;
        }
        if let (Some((unit, old)), Some(new)) = (before, after)
            && old.units == new.units
            && (old.words[1] ^ new.words[1]) as u8 & entry::EXPIRY == 0
        {
            self.replace(
                Covered { item: seen.item(), line: bucket.line, at: bucket.word_at(LINE_WORDS + unit * 2) },
                (old, new),
                tell,
            )?;
            self.count();
            return Some(answer);
        }
        if !fits(&Live { segment, bucket }, before, after) {
            let (None, Some(image)) = (before, after) else { return None };
            self.insert_displaced(image, tell)?;
            self.count();
            return Some(answer);
        }
        self.publish_over(seen.displaced, (before, after), tell)?;
        self.count();
        Some(answer)
    }

    /// Whether a thread listens to changes of such a value.
    #[inline(always)]
    fn is_awaited(&self, segment: &Segment) -> bool {
        !sync::has(Flaw::TellsNoneUnderLock) && is_told(segment, listeners(self.kind))
    }

    /// Publishes an entry in the place of another one, in its bucket, and retires the record of that one.
    #[inline(always)]
    fn publish_over(
        &self,
        displaced: Option<Displaced>,
        (before, after): Turn<'_>,
        tell: Option<Tell<'_>>,
    ) -> Option<()> {
        let mut olds = 0;
        if let Some((_, image)) = before.filter(|(_, image)| image.is_reference()) {
            self.seat.note_old(entry::record_of(image.words[1]), false).ok()?;
            olds = 1;
        }
        match (displaced, tell) {
            (None, None) => {
                publish(self.seat, self.location, self.key, (before, after), olds).ok()?.then_some(())
            }
            (None, Some(tell)) => self.publish_told((before, after), olds, tell),
            (Some(displaced), tell) => self.publish_displaced(displaced, (before, after), olds, tell),
        }
    }

    /// Makes the new entry; returns its expiry. `None`: the slow path does that.
    #[inline(always)]
    fn make_changed(
        &self,
        mutation: Mutation<'_, '_>,
        (before, old): (&Image, Option<Old<'_>>),
        extras: &Extras,
        clock: u32,
        after: &mut Image,
    ) -> Option<Option<u64>> {
        let kind = old.map_or(self.kind, |old| Some(old.kind))?;
        match mutation {
            Mutation::Edited(edit) if extras.are_none() => {
                self.make(kind, edit.bytes(), |place| edit.write(place), clock, after)?;
                Some(None)
            }
            Mutation::Edited(edit) => {
                self.make_with(kind, extras, edit.bytes(), &|place| edit.write(place), clock, after)
            }
            Mutation::String(bytes, Attributes { expiry_ms, flags }) => self.make_whole(
                kind,
                &Extras { expiry_ms, flags, ..Extras::default() },
                before,
                bytes,
                clock,
                after,
            ),
            Mutation::Text { kept, added, form } => {
                let (extras, bytes) = (
                    Extras { raw: form == Form::Raw, text: form == Form::Text, ..*extras },
                    kept.len() + added.len(),
                );
                if kept.is_empty() && bytes <= PACKED_MAX {
                    return self.make_whole(kind, &extras, before, added, clock, after);
                }
                let write = |place: &mut [u8]| {
                    let (head, tail) = place.split_at_mut(kept.len());
                    head.copy_from_slice(kept);
                    tail.copy_from_slice(added);
                };
                if bytes > PACKED_MAX {
                    None
                } else {
                    self.make_with(kind, &extras, bytes, &write, clock, after)
                }
            }
            Mutation::Expiring(until) => {
                let (value, expiry_ms) = (old?.value, until.map(|until| until.min(entry::EXPIRY_MAX_MS)));
                self.make_whole(kind, &Extras { expiry_ms, ..*extras }, before, value, clock, after)
            }
            Mutation::Same | Mutation::Gone => None,
        }
    }

    /// Looks for the key's entry without a lock.
    #[inline(always)]
    fn look(&self, before: &mut Image) -> Option<Seen> {
        let (seat, location) = (self.seat, self.location);
        let segment = &**seat.segment();
        segment.prefetch_to_write(location.bucket.line);
        let word = segment.observe(location.bucket.line);
        if word & BUSY != 0 {
            return None;
        }
        let mut seen = Seen { word, unit: None, displaced: None };
        let mut live = Live { segment, bucket: location.bucket };
        match probe_bucket(&live, &location.hash, self.key) {
            BucketProbe::Here(unit) | BucketProbe::Record(unit) => seen.unit = Some(unit),
            BucketProbe::Miss(0, 0) => {}
            BucketProbe::Miss(next, stash) => {
                if let Some((unit, displaced)) = self.find_displaced(next, stash)? {
                    (seen.unit, seen.displaced, live.bucket) =
                        (Some(unit), Some(displaced), displaced.reading.bucket);
                }
            }
        }
        if let Some(unit) = seen.unit {
            bucket::read_image(&live, unit, before);
        }
        // T3: the pin reaches to the bucket before it is locked, and to the record.
        segment.acquire_fence();
        let is_whole = seen.displaced.is_none_or(|displaced| displaced.reading.holds(segment));
        if !seat.covers_now()
            || segment.load(location.bucket.line) != word
            || !is_whole
            || !location.is_current(segment)
        {
            return None;
        }
        Some(seen)
    }

    /// Looks for an entry that does not lie at home. A function of its own with few arguments: more would keep registers from [`KeyUpdate::run`].
    #[cold]
    #[inline(never)]
    fn find_displaced(&self, next: u8, stash: u8) -> Option<Option<(usize, Displaced)>> {
        let found = self.location.search_displaced(self.seat.segment(), self.key, (next, stash), None)?;
        // A lock for which another thread waits is left to it, as at home.
        let is_busy = found.is_some_and(|(_, displaced)| displaced.reading.word & BUSY != 0);
        (!is_busy).then_some(found)
    }

    /// Locks what was seen, if nothing has been published there since, as in `plain.rs`.
    #[inline(always)]
    fn lock(&self, seen: &Seen) -> bool {
        let seat = self.seat;
        let displaced =
            |Displaced { reading, .. }: Displaced| seat.lock_as_seen(1, reading.bucket.line, reading.word);
        let locked = seat.lock_as_seen(0, self.location.bucket.line, seen.word)
            && seen.displaced.is_none_or(displaced);
        if !locked {
            // The slow path meets the same lock, and counts it.
            seat.forget_collision();
        }
        locked
    }

    /// As [`publish`], of an entry that lies in another bucket than its home: that one is covered by the second lock.
    #[cold]
    #[inline(never)]
    fn publish_displaced(
        &self,
        Displaced { reading: Reading { bucket, .. }, in_stash, .. }: Displaced,
        turn: Turn<'_>,
        olds: u64,
        tell: Option<Tell<'_>>,
    ) -> Option<()> {
        let (seat, location) = (self.seat, self.location);
        let live = Live { segment: seat.segment(), bucket };
        let (before, after) = (turn.0.map(|(_, image)| image), turn.1);
        let mut notes = seat.stage();
        notes.cover(1, bucket.line);
        note_turn(&mut notes, &live, location.hash.tag, turn).ok()?;
        if after.is_none() {
            let home = Live { segment: seat.segment(), bucket: location.bucket };
            notes.cover(0, home.bucket.line);
            notes.word(home.bucket.word_at(7), bucket::with_displaced(home.word(7), in_stash, -1));
        }
        self.publish_notes(notes, (before, after), olds, tell)
    }

    /// Notes a new entry next door or in the stash, since its home is full, and commits. `None` when the extent would have to grow.
    #[cold]
    #[inline(never)]
    fn insert_displaced(&self, image: &Image, tell: Option<Tell<'_>>) -> Option<()> {
        let (seat, location) = (self.seat, self.location);
        let ((bucket, item), in_stash) = self.find_room(image.units)?;
        let home = Live { segment: seat.segment(), bucket: location.bucket };
        let mut notes = seat.stage();
        notes.cover(0, home.bucket.line);
        notes.word(home.bucket.word_at(7), bucket::with_displaced(home.word(7), in_stash, 1));
        notes.cover(item, bucket.line);
        put(&mut notes, &Live { segment: seat.segment(), bucket }, location.hash.tag, image, &[0; 7])?;
        self.publish_notes(notes, (None, Some(image)), 0, tell)
    }

    fn publish_notes(
        &self,
        mut notes: StagedJournal<'_>,
        (before, after): (Option<&Image>, Option<&Image>),
        olds: u64,
        tell: Option<Tell<'_>>,
    ) -> Option<()> {
        note_tallies(&mut notes, self.seat, self.location, before, after);
        self.is_recorded(&mut notes, before, after, tell).then_some(())?;
        notes.commit_with(olds).ok()
    }

    /// Records what the commit has to; `false`: the slow path makes the change.
    #[inline(always)]
    fn is_recorded(
        &self,
        notes: &mut StagedJournal<'_>,
        before: Option<&Image>,
        after: Option<&Image>,
        tell: Option<Tell<'_>>,
    ) -> bool {
        let location = self.location;
        let change = || Changed { root: location.root, hash: &location.hash, key: self.key, before, after };
        match tell {
            None => recording::before_commit(self.seat, |record| record(change())),
            Some(tell) => {
                let times = (self.seat, location.db, self.now_ms);
                recording::before_told_commit(times, notes, tell, &|record| record(change()))
            }
        }
    }

    /// Finds and locks a bucket with room for what has none at home, as `Txn::put_in` does, and whether it is the stash's.
    fn find_room(&self, units: usize) -> Option<((Bucket, u64), bool)> {
        let live = |bucket: Bucket| Live { segment: self.seat.segment(), bucket };
        let [_, beside, one, other] = self.location.places();
        let held = self.hold(beside)?;
        if has_room(&live(held.0), units) {
            return Some((held, false));
        }
        let stashes = [self.hold(one)?, self.hold(other)?];
        let free = stashes.map(|(bucket, _)| bucket::matches(&live(bucket).tag_words(), FREE).count_ones());
        let held = stashes[(free[1] > free[0]) as usize];
        has_room(&live(held.0), units).then_some((held, true))
    }

    /// Bucket `index`, locked by this update, and the LOCK item that did it; `None` if another thread has it.
    fn hold(&self, index: u64) -> Option<(Bucket, u64)> {
        let (seat, bucket) = (self.seat, self.location.bucket(self.seat.segment(), index)?);
        let len = seat.journal_len();
        // The smallest extents name one bucket twice.
        if let Some(item) = (0..len)
            .find(|item| matches!(seat.item(*item), Some((Tag::Lock, offset, _)) if offset == bucket.line))
        {
            return Some((bucket, item));
        }
        if !matches!(seat.lock_now(bucket.line), Ok(Locked::Ours(_))) {
            // The slow path meets the same lock and counts it.
            seat.forget_collision();
            return None;
        }
        Some((bucket, len))
    }

    /// One entry in the place of another of as many units, which counts as the same in every tally: mostly.
    #[inline]
    fn replace(&self, covered: Covered, (old, new): (&Image, &Image), tell: Option<Tell<'_>>) -> Option<()> {
        if let Some(tell) = tell {
            return self.replace_told(covered, (old, new), tell);
        }
        let (seat, location) = (self.seat, self.location);
        let change = Changed {
            root: location.root,
            hash: &location.hash,
            key: self.key,
            before: Some(old),
            after: Some(new),
        };
        if !recording::before_commit(seat, |record| record(change)) {
            return None;
        }
        let record = old.is_reference().then(|| offset_of(entry::record_of(old.words[1])));
        if new.is_reference() {
            // Mostly in the place of another record.
            return seat.commit_words(covered, &[new.words[0], new.words[1]], |_| true, record).ok();
        }
        seat.commit_words(covered, new.words(), |number| new.words[number] != old.words[number], record).ok()
    }

    /// Counts a call that has changed something.
    #[inline(always)]
    fn count(&self) {
        self.seat.add(at::COUNTERS + 8 * Counter::Calls as u64, self.calls);
        self.seat.add(at::COUNTERS + 8 * Counter::Changes as u64, 1);
    }

    /// What the key's entry holds, if that is a packed value of the right kind that has not expired, nor is about to; what else it says goes into
    /// `extras`.
    #[inline]
    fn value_of<'i>(&self, image: &'i Image, now_ms: u64, extras: &mut Extras) -> Option<Old<'i>>
    where
        'e: 'i,
    {
        let Some(kind) = self.kind else { return self.value_of_any(image, now_ms, extras) };
        if image.meta() == kind as u8 {
            return Some(Old { kind, value: entry::inline_value(image)?, expiry_ms: None, flags: 0 });
        }
        if image.meta() != kind as u8 | entry::REFERENCE {
            return self.value_of_any(image, now_ms, extras);
        }
        let (NodeKind::Plain, payload) =
            raw::payload(self.seat.segment(), entry::record_of(image.words[1])).ok()?
        else {
            return self.value_of_any(image, now_ms, extras);
        };
        let (&length, rest) = payload.split_first()?;
        let (key, value) = rest.split_at_checked(length.into())?;
        (key == self.key).then_some(Old { kind, value, expiry_ms: None, flags: 0 })
    }

    /// The same of an entry that says more than key and value.
    #[inline(never)]
    fn value_of_any<'i>(&self, image: &'i Image, now_ms: u64, extras: &mut Extras) -> Option<Old<'i>>
    where
        'e: 'i,
    {
        let kind = Kind::from_stored(image.meta() & entry::KIND)?;
        if self.kind.is_some_and(|wanted| wanted != kind) {
            return None;
        }
        let value = if image.is_reference() {
            let (node, payload) = raw::payload(self.seat.segment(), entry::record_of(image.words[1])).ok()?;
            if node == NodeKind::RecordRefs {
                return None;
            }
            let Record {
                key,
                value,
                expiry_ms,
                inner_expiry_ms: None,
                flags,
                raw,
                text,
                extras: item_extras,
            } = record::read(node, payload).ok()?
            else {
                return None;
            };
            let (Key::Short(key), Value::Packed(value)) = (key, value) else { return None };
            if key != self.key {
                return None;
            }
            // The slow path knows what a change leaves of them.
            if !item_extras.is_empty() {
                return None;
            }
            *extras = Extras { expiry_ms, flags, raw, text };
            value
        } else {
            let Attributes { expiry_ms, flags } = entry::inline_attributes(image);
            *extras = Extras { expiry_ms, flags, raw: image.meta() & entry::RAW != 0, text: false };
            entry::inline_value(image)?
        };
        let expiry_ms = extras.expiry_ms;
        (!expires_soon(expiry_ms, now_ms)).then_some(Old { kind, value, expiry_ms, flags: extras.flags })
    }

    /// Makes the entry with the new value of `length` bytes: inline if it fits, else with a record.
    #[inline]
    fn make(
        &self,
        kind: Kind,
        length: usize,
        write: impl Fn(&mut [u8]),
        clock: u32,
        image: &mut Image,
    ) -> Option<()> {
        let (seat, key) = (self.seat, self.key);
        let first = entry::first_word(seat.next_version(), clock);
        if entry::inline_bytes(key.len(), length, false, false) <= entry::INLINE_MAX {
            let mut value = [0; entry::INLINE_MAX];
            write(&mut value[..length]);
            entry::fill_inline(
                image,
                first,
                &Inline { meta: kind as u8, expiry_ms: None, flags: 0, key, value: &value[..length] },
            );
            return Some(());
        }
        let node = self.make_record(NodeKind::Plain, &[u8::try_from(key.len()).ok()?], length, write)?;
        *image = entry::with_reference(first, kind as u8, (false, false), self.location.hash.extra, node);
        Some(())
    }

    /// The same with `extras`; returns the expiry.
    #[inline(never)]
    fn make_with(
        &self,
        kind: Kind,
        extras: &Extras,
        length: usize,
        write: &dyn Fn(&mut [u8]),
        clock: u32,
        image: &mut Image,
    ) -> Option<Option<u64>> {
        let (seat, key, Extras { expiry_ms, flags, raw, text }) = (self.seat, self.key, *extras);
        let first = entry::first_word(seat.next_version(), clock);
        if !text
            && entry::inline_bytes(key.len(), length, expiry_ms.is_some(), flags != 0) <= entry::INLINE_MAX
        {
            let mut value = [0; entry::INLINE_MAX];
            write(&mut value[..length]);
            let meta = kind as u8 | if raw { entry::RAW } else { 0 };
            entry::fill_inline(
                image,
                first,
                &Inline { meta, expiry_ms, flags, key, value: &value[..length] },
            );
            return Some(expiry_ms);
        }
        let head =
            record::Head::of(key, &New { expiry_ms, flags, raw, text, ..New::of(kind, Value::Packed(&[])) })?;
        let node = self.make_record(head.kind(), head.bytes(), length, write)?;
        *image = entry::with_reference(
            first,
            kind as u8,
            (expiry_ms.is_some(), false),
            self.location.hash.extra,
            node,
        );
        Some(expiry_ms)
    }

    /// The same of a value that lies in one piece: mostly where an entry like it is, that is `before`.
    #[inline]
    fn make_whole(
        &self,
        kind: Kind,
        extras: &Extras,
        before: &Image,
        value: &[u8],
        clock: u32,
        image: &mut Image,
    ) -> Option<Option<u64>> {
        let (seat, key, Extras { expiry_ms, flags, raw, text }) = (self.seat, self.key, *extras);
        let bytes = entry::inline_bytes(key.len(), value.len(), expiry_ms.is_some(), flags != 0);
        if text || bytes > entry::INLINE_MAX {
            return self.make_with(
                kind,
                extras,
                value.len(),
                &|place| place.copy_from_slice(value),
                clock,
                image,
            );
        }
        let first = entry::first_word(seat.next_version(), clock);
        let meta = kind as u8 | if raw { entry::RAW } else { 0 };
        let options =
            if expiry_ms.is_some() { entry::EXPIRY } else { 0 } | if flags != 0 { entry::FLAGS } else { 0 };
        if before.meta() == meta | options
            && (entry::INLINE_HEAD + bytes).div_ceil(UNIT_BYTES) == before.units
        {
            entry::refill_inline(image, before, first, Attributes { expiry_ms, flags }, value);
        } else {
            entry::fill_inline(image, first, &Inline { meta, expiry_ms, flags, key, value });
        }
        Some(expiry_ms)
    }

    #[inline]
    fn make_record(
        &self,
        kind: NodeKind,
        head: &[u8],
        length: usize,
        write: impl Fn(&mut [u8]),
    ) -> Option<Ref> {
        let (seat, key) = (self.seat, self.key);
        let value_at = head.len() + key.len();
        let node = seat.make(kind, value_at + length).ok()?;
        raw::fill_by(seat.segment(), node, value_at + length, |bytes| {
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..value_at].copy_from_slice(key);
            write(&mut bytes[value_at..]);
        });
        Some(node)
    }
}

/// What an entry says besides kind, key and value.
#[derive(Clone, Copy, Default)]
struct Extras {
    expiry_ms: Option<u64>,
    flags: u32,
    raw: bool,
    text: bool,
}

impl Extras {
    #[inline(always)]
    fn are_none(&self) -> bool {
        self.expiry_ms.is_none() && self.flags == 0 && !self.raw && !self.text
    }
}

/// Lowers the earliest expiry of extent and database, as `Txn::lower_bounds`; returns false if the number names another database by now.
pub(crate) fn lower_bounds(segment: &Segment, location: &Location, expiry_ms: u64) -> bool {
    segment.lower(location.extent() + directory::extent::EXPIRY_MIN, expiry_ms);
    let node = segment.observe(directory::map_at(location.db()));
    let is_its = segment.check(node, 64)
        && segment.load(node + database::DIRECTORY) == directory::directory_of(location.root);
    if is_its {
        segment.lower(node + database::EXPIRY_MIN, expiry_ms);
    }
    is_its
}

/// An entry at home, as it is and where it begins, and as it is going to be.
pub(crate) type Turn<'i> = (Option<(usize, &'i Image)>, Option<&'i Image>);

/// Whether an entry can become what it is going to be where it lies.
#[inline]
pub(crate) fn fits(live: &Live<'_>, before: Option<(usize, &Image)>, after: Option<&Image>) -> bool {
    let (old_units, new_units) =
        (before.map_or(0, |(_, image)| image.units), after.map_or(0, |image| image.units));
    new_units <= old_units || has_room(live, new_units - old_units)
}

/// Notes what becomes of an entry that lies at home, whose lock is the journal's first item, and commits. There is room for it ([`fits`]), and in the
/// journal ([`Seat::has_staging_room`]); `olds` items of it name what goes out of use.
///
/// # Errors
/// [`Fault::Full`], [`Fault::Damaged`]: nothing has happened then.
#[inline]
pub(crate) fn publish(
    seat: &Seat,
    location: &Location,
    key: &[u8],
    (before, after): Turn<'_>,
    olds: u64,
) -> Result<bool, Fault> {
    let live = Live { segment: seat.segment(), bucket: location.bucket };
    let mut notes = seat.stage();
    notes.cover(0, location.bucket.line);
    note_turn(&mut notes, &live, location.hash.tag, (before, after))?;
    note_tallies(&mut notes, seat, location, before.map(|(_, image)| image), after);
    let change = Changed {
        root: location.root,
        hash: &location.hash,
        key,
        before: before.map(|(_, image)| image),
        after,
    };
    if !recording::before_commit(seat, |record| record(change)) {
        return Ok(false);
    }
    notes.commit_with(olds).map(|()| true)
}

/// Notes what becomes of the numbers of keys, of keys with an expiry, and of keys with fields that have one.
#[inline(always)]
fn note_tallies(
    notes: &mut StagedJournal<'_>,
    seat: &Seat,
    location: &Location,
    before: Option<&Image>,
    after: Option<&Image>,
) {
    let may_expire = |image: Option<&Image>| image.is_some_and(Image::may_expire);
    if may_expire(before) || may_expire(after) {
        return note_all_tallies(notes, seat, location, before, after);
    }
    let by = i64::from(after.is_some()) - i64::from(before.is_some());
    if by != 0 {
        let tally = at::TALLIES + directory::tally_of(location.root) * at::TALLY_BYTES;
        notes.cover_own();
        notes.word(seat.segment().seat_at(seat.index()) + tally, seat.get(tally).wrapping_add_signed(by));
    }
}

#[inline(never)]
fn note_all_tallies(
    notes: &mut StagedJournal<'_>,
    seat: &Seat,
    location: &Location,
    before: Option<&Image>,
    after: Option<&Image>,
) {
    let count = |image: Option<&Image>, test: fn(&Image) -> bool| i64::from(image.is_some_and(test));
    let counts = [is_key, has_expiry, has_inner_expiry].map(|test| count(after, test) - count(before, test));
    let tally = at::TALLIES + directory::tally_of(location.root) * at::TALLY_BYTES;
    notes.cover_own();
    for (by, at) in counts.into_iter().zip((tally..).step_by(8)).filter(|(by, _)| *by != 0) {
        notes.word(seat.segment().seat_at(seat.index()) + at, seat.get(at).wrapping_add_signed(by));
    }
}

/// Notes the words of an entry's turn, and of its tags; their lock has been named.
#[inline]
pub(crate) fn note_turn(
    notes: &mut StagedJournal<'_>,
    live: &Live<'_>,
    tag: u8,
    (before, after): Turn<'_>,
) -> Result<(), Fault> {
    let gone = || before.map(|(unit, image)| tags_of(unit, image.units)).unwrap_or_default();
    match (before, after) {
        (Some((unit, old)), Some(image)) if old.units == image.units => note_words(notes, live, unit, image),
        (_, Some(image)) => {
            // Unless the tags do not say what the entry's own lengths do (S5).
            put(notes, live, tag, image, &gone()).ok_or(Fault::Damaged { what: "a bucket" })?;
        }
        (_, None) => {
            let gone = gone();
            for (number, old) in
                live.tag_words().into_iter().enumerate().filter(|(number, _)| gone[*number] != 0)
            {
                notes.word(live.bucket.word_at(1 + number), old & !gone[number]);
            }
        }
    }
    Ok(())
}
