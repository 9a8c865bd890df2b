//! The short way of small collections and of strings that take a record: one key, whose value is packed, whose entry lies at home, and nobody in the
//! way.
//!
//! As the edit of a string in `quick.rs`, for a value that is made of what was there: the old one is looked at where it lies, and the new one is
//! written once, where it is going to lie (`values::sequence::Edit`). A transaction takes three times the steps. Whatever is not that (a tree, an
//! expiry, an entry that lies elsewhere, somebody who listens or waits, no room) answers `None`: nothing has happened then, and the caller takes
//! a longer way.
//!
//! ```text
//!  pin, word of home's line -> entry -> slot and root, word again -> its record -> lock by a CAS of that word (as in `plain.rs`)
//!  -> slot and root -> the change -> NEW record, OLD record -> words -> commit (`shm::brief`)
//! ```

use polder_base::{Fault, Ref};
use polder_shm::brief::Brief;
use polder_shm::layout::{interest, seat as at};
use polder_shm::node::NodeKind;
use polder_shm::{Seat, offset_of};
use polder_values::sequence::Edit;
use polder_values::{Kind, PACKED_MAX};

use crate::api::Counter;
use crate::bucket::{self, LINE_WORDS, Words};
use crate::change::interest_of;
use crate::directory;
use crate::entry::{self, Image, Inline};
use crate::lookup::Live;
use crate::plain::BUSY;
use crate::quick::{Glance, Stint, glance, has_room, note_words, put, tags_of};
use crate::sight::Sight;
use crate::snapshot;
use crate::table::Table;
use crate::{clock, raw};

/// What a value is to become.
pub enum Becomes<'v, 'n> {
    Same,
    Edited(Edit<'v, 'n>),
    /// A string of at most `PACKED_MAX` bytes, whatever there was.
    String(&'n [u8]),
    /// The key goes.
    Gone,
}

impl Table {
    /// Gives a key a string, as [`Table::quick_edit`] does, one that may take a record, too. `calls` is added to the count of calls.
    #[inline(always)]
    pub fn quick_set(&self, sight: &Sight, key: &[u8], value: &[u8], now_ms: u64, calls: u64) -> Option<()> {
        let is_short = entry::inline_bytes(key.len(), value.len(), false, false) <= entry::INLINE_MAX;
        let edited = if is_short { self.edit_plain(sight, key, now_ms, calls, |_| Some((value, ()))) } else { None };
        edited.or_else(|| self.quick_set_other(sight, key, value, now_ms, calls))
    }

    /// The same where there is no plain string that becomes another: [`Table::edit_plain`] or [`Table::write_plain`] have been tried.
    #[inline(always)]
    pub fn quick_set_other(&self, sight: &Sight, key: &[u8], value: &[u8], now_ms: u64, calls: u64) -> Option<()> {
        let is_short = entry::inline_bytes(key.len(), value.len(), false, false) <= entry::INLINE_MAX;
        let set = if is_short { self.quick_edit(sight, key, now_ms, calls, |_| (Some(value), ())) } else { None };
        // What there is may have a record, too.
        set.or_else(|| self.quick_set_long(sight, key, value, now_ms, calls))
    }

    #[inline(never)]
    fn quick_set_long(&self, sight: &Sight, key: &[u8], value: &[u8], now_ms: u64, calls: u64) -> Option<()> {
        // Who listens: only not to lock in vain.
        if value.len() > PACKED_MAX || interest_of(self.segment()) & who_listens(Kind::String) != 0 {
            return None;
        }
        self.change_counted(sight, key, Kind::String, (now_ms, calls), |_| Some((Becomes::String(value), ())))
    }

    /// Changes a packed value of `kind`: `change` gets it (nothing if there is no such key) and answers what it is to become, and what the caller is
    /// to be told. `None`: take the long way; `change` may have been called.
    #[inline]
    pub fn quick_change<'n, R>(
        &self,
        sight: &Sight,
        key: &[u8],
        kind: Kind,
        now_ms: u64,
        change: impl for<'v> FnOnce(Option<&'v [u8]>) -> Option<(Becomes<'v, 'n>, R)>,
    ) -> Option<R> {
        self.change_counted(sight, key, kind, (now_ms, 1), change)
    }

    #[inline]
    fn change_counted<'n, R>(
        &self,
        sight: &Sight,
        key: &[u8],
        kind: Kind,
        (now_ms, calls): (u64, u64),
        change: impl for<'v> FnOnce(Option<&'v [u8]>) -> Option<(Becomes<'v, 'n>, R)>,
    ) -> Option<R> {
        let work = |seat: &Seat| {
            let stint = if self.counts_frequency() { None } else { Stint::begin(seat, sight.db) }?;
            Small { seat: stint.seat, sight, key, kind, calls }.run(now_ms, change)
        };
        self.segment().with_seat(work).ok()?
    }
}

/// Who is told of a change of such a value, by the long way. Nobody waits for a string.
#[inline(always)]
fn who_listens(kind: Kind) -> u64 {
    let all = interest::CHANGES | interest::MISSES;
    if kind == Kind::String { all & !interest::WAITERS } else { all }
}

/// A change of one key, with the seat pinned.
struct Small<'e> {
    seat: &'e Seat,
    sight: &'e Sight,
    key: &'e [u8],
    kind: Kind,
    /// What is added to the count of calls.
    calls: u64,
}

impl<'e> Small<'e> {
    #[inline]
    fn run<'n, R>(&self, now_ms: u64, change: impl for<'v> FnOnce(Option<&'v [u8]>) -> Option<(Becomes<'v, 'n>, R)>) -> Option<R> {
        let (seat, sight) = (self.seat, self.sight);
        let segment = &**seat.segment();
        let mut before = Image::EMPTY;
        let (word, unit) = self.look(&mut before)?;
        let old = if unit.is_some() { Some(self.value_of(&before)?) } else { None };
        // Before the lock: it may reclaim.
        seat.reserve_retired(1).ok()?;
        // As in `plain.rs`: whatever has been published since fails it.
        if !seat.lock_as_seen(0, sight.bucket.line, word) {
            // The long way meets the same lock, and counts it.
            seat.forget_collision();
            return None;
        }
        // Under the lock: see `Table::interest`.
        if !sight.is_current(segment) || interest_of(segment) & who_listens(self.kind) != 0 {
            return None;
        }
        let (becomes, answer) = change(old)?;
        let mut after = Image::EMPTY;
        let after = match becomes {
            Becomes::Same => {
                if let Some(unit) = unit {
                    self.note_access(&before, unit, now_ms);
                }
                seat.rollback();
                seat.add(at::COUNTERS + 8 * Counter::Calls as u64, self.calls);
                return Some(answer);
            }
            Becomes::Edited(edit) => {
                self.make(edit.bytes(), |place| edit.write(place), now_ms, &mut after)?;
                Some(&after)
            }
            Becomes::String(bytes) => {
                self.make(bytes.len(), |place| place.copy_from_slice(bytes), now_ms, &mut after)?;
                Some(&after)
            }
            Becomes::Gone => None,
        };
        let before = unit.map(|unit| (unit, &before));
        if let (Some((unit, old)), Some(new)) = (before, after)
            && old.is_reference()
            && new.is_reference()
        {
            self.swap(unit, old, new)?;
            self.count();
            return Some(answer);
        }
        if !fits(&Live { segment, bucket: sight.bucket }, before, after) {
            return None;
        }
        let mut olds = 0;
        if let Some((_, image)) = before.filter(|(_, image)| image.is_reference()) {
            seat.note_old(image.record(), false).ok()?;
            olds = 1;
        }
        publish(seat, sight, self.key, (before, after), olds).ok()?;
        self.count();
        Some(answer)
    }

    /// Looks for the key's entry without a lock; answers the bucket's word before that, and where the entry begins.
    #[inline(always)]
    fn look(&self, before: &mut Image) -> Option<(u64, Option<usize>)> {
        let (seat, sight) = (self.seat, self.sight);
        let segment = &**seat.segment();
        segment.prefetch_to_write(sight.bucket.line);
        let word = segment.observe(sight.bucket.line);
        if word & BUSY != 0 {
            return None;
        }
        let live = Live { segment, bucket: sight.bucket };
        let unit = match glance(&live, &sight.hash, self.key) {
            Glance::Here(unit) | Glance::Record(unit) => Some(unit),
            Glance::Miss(0, 0) => None,
            Glance::Miss(..) => return None,
        };
        if let Some(unit) = unit {
            bucket::read_image(&live, unit, before);
        }
        // T3: as in `quick.rs`, the pin reaches to the bucket before it is locked, and to the record.
        segment.acquire_fence();
        if !seat.covers_now() || segment.load(sight.bucket.line) != word || !sight.is_current(segment) {
            return None;
        }
        Some((word, unit))
    }

    /// One record in the place of another: mostly.
    #[inline]
    fn swap(&self, unit: usize, old: &Image, new: &Image) -> Option<()> {
        let (seat, sight) = (self.seat, self.sight);
        let snapshot = seat.segment().snapshot();
        if snapshot != 0 {
            snapshot::save(seat, snapshot, sight.root, &sight.hash, self.key, Some(old), Some(new));
        }
        let at = sight.bucket.word_at(LINE_WORDS + unit * 2);
        seat.commit_swap(sight.bucket.line, at, [new.words[0], new.words[1]], offset_of(old.record())).ok()
    }

    /// Counts a call that has changed something.
    #[inline(always)]
    fn count(&self) {
        self.seat.add(at::COUNTERS + 8 * Counter::Calls as u64, self.calls);
        self.seat.add(at::COUNTERS + 8 * Counter::Changes as u64, 1);
    }

    /// The value of the key's entry, if it is a packed one of the right kind and the entry says no more than that.
    #[inline]
    fn value_of<'i>(&self, image: &'i Image) -> Option<&'i [u8]>
    where
        'e: 'i,
    {
        let kind = self.kind as u8;
        if !image.is_reference() {
            return if image.meta() == kind { entry::inline_value(image) } else { None };
        }
        if image.meta() != kind | entry::REFERENCE {
            return None;
        }
        let (NodeKind::Plain, payload) = raw::payload(self.seat.segment(), image.record()).ok()? else { return None };
        let (&length, rest) = payload.split_first()?;
        let (key, value) = rest.split_at_checked(length.into())?;
        (key == self.key).then_some(value)
    }

    /// Makes the entry with the new value of so many bytes: inline if it fits, else with a record.
    #[inline]
    fn make(&self, length: usize, write: impl Fn(&mut [u8]), now_ms: u64, image: &mut Image) -> Option<()> {
        let (seat, key) = (self.seat, self.key);
        let first = entry::first_word(seat.next_version(), clock::lru(now_ms));
        if entry::inline_bytes(key.len(), length, false, false) <= entry::INLINE_MAX {
            let mut value = [0; entry::INLINE_MAX];
            write(&mut value[..length]);
            entry::fill_inline(image, first, &Inline { meta: self.kind as u8, expiry_ms: None, flags: 0, key, value: &value[..length] });
            return Some(());
        }
        let node = self.make_record(length, write)?;
        *image = entry::with_reference(first, self.kind as u8, (false, false), self.sight.hash.extra, node);
        Some(())
    }

    #[inline]
    fn make_record(&self, length: usize, write: impl Fn(&mut [u8])) -> Option<Ref> {
        let (seat, key) = (self.seat, self.key);
        let head = [u8::try_from(key.len()).ok()?];
        let value_at = 1 + key.len();
        let node = seat.make(NodeKind::Plain, value_at + length).ok()?;
        raw::fill_by(seat.segment(), node, value_at + length, |bytes| {
            bytes[..1].copy_from_slice(&head);
            bytes[1..value_at].copy_from_slice(key);
            write(&mut bytes[value_at..]);
        });
        Some(node)
    }

    /// As `Txn::note_access`.
    fn note_access(&self, image: &Image, unit: usize, now_ms: u64) {
        let clock = clock::lru(now_ms);
        if clock != image.clock() {
            let first_at = self.sight.bucket.word_at(LINE_WORDS + unit * 2);
            let _ = self.seat.segment().exchange(first_at, image.words[0], entry::first_word(image.version(), clock));
        }
    }
}

/// An entry at home, as it is and where it begins, and as it is going to be.
pub(crate) type Turn<'i> = (Option<(usize, &'i Image)>, Option<&'i Image>);

/// Whether an entry can become what it is going to be where it lies.
#[inline]
pub(crate) fn fits(live: &Live<'_>, before: Option<(usize, &Image)>, after: Option<&Image>) -> bool {
    let (old_units, new_units) = (before.map_or(0, |(_, image)| image.units), after.map_or(0, |image| image.units));
    new_units <= old_units || has_room(live, new_units - old_units)
}

/// Notes what becomes of an entry that lies at home, whose lock is the journal's first item, and commits. There is room for it ([`fits`]), and in the
/// journal ([`Seat::has_brief_room`]); `olds` items of it name what goes out of use.
///
/// # Errors
/// [`Fault::Full`], [`Fault::Damaged`]: nothing has happened then.
#[inline]
pub(crate) fn publish(seat: &Seat, sight: &Sight, key: &[u8], (before, after): Turn<'_>, olds: u64) -> Result<(), Fault> {
    let live = Live { segment: seat.segment(), bucket: sight.bucket };
    let mut notes = seat.brief();
    notes.cover(0, sight.bucket.line);
    note_turn(&mut notes, &live, sight.hash.tag, (before, after))?;
    let by = i64::from(after.is_some()) - i64::from(before.is_some());
    if by != 0 {
        let tally = at::TALLIES + directory::tally_of(sight.root) * at::TALLY_BYTES;
        notes.cover_own();
        notes.word(live.segment.seat_at(seat.index()) + tally, seat.get(tally).wrapping_add_signed(by));
    }
    let snapshot = live.segment.snapshot();
    if snapshot != 0 {
        snapshot::save(seat, snapshot, sight.root, &sight.hash, key, before.map(|(_, image)| image), after);
    }
    notes.commit_with(olds)
}

/// Notes the words of an entry's turn, and of its tags; their lock has been named.
#[inline]
pub(crate) fn note_turn(notes: &mut Brief<'_>, live: &Live<'_>, tag: u8, (before, after): Turn<'_>) -> Result<(), Fault> {
    let gone = || before.map(|(unit, image)| tags_of(unit, image.units)).unwrap_or_default();
    match (before, after) {
        (Some((unit, old)), Some(image)) if old.units == image.units => note_words(notes, live, unit, image),
        (_, Some(image)) => {
            // Unless the tags do not say what the entry's own lengths do (S5).
            put(notes, live, tag, image, &gone()).ok_or(Fault::Damaged { what: "a bucket" })?;
        }
        (_, None) => {
            let gone = gone();
            for (number, old) in live.tag_words().into_iter().enumerate().filter(|(number, _)| gone[*number] != 0) {
                notes.word(live.bucket.word_at(1 + number), old & !gone[number]);
            }
        }
    }
    Ok(())
}
