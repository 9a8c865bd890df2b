//! Updates of one key while the change log is on: the commit appends the record of its effect by itself (`recording.rs`).
//!
//! They take the same steps as others (`update.rs`), from the look to the new entry, but are compiled once for all callers: what these want to change and to tell
//! comes behind a pointer. Where nothing is logged, an update costs one look at a guess for them.
use std::cell::RefCell;

use polder_shm::Seat;
use polder_shm::staged_journal::Covered;
use polder_values::Kind;

use super::{KeyUpdate, Turn, note_turn};
use crate::access::locate::Location;
use crate::access::lookup::Live;
use crate::access::mutation::{Mutation, Old};
use crate::access::put::PinGuard;
use crate::layout::entry::{self, Image};
use crate::log::recording::{Effect, Tell};
use crate::table::Table;

impl Table {
    /// As [`Table::update`], while the change log is on.
    #[cold]
    #[inline(never)]
    pub(super) fn update_logged<'n, R>(
        &self,
        location: &Location,
        key: &[u8],
        kind: Option<Kind>,
        times: (u64, u64),
        change: impl for<'v> FnOnce(Option<Old<'v>>) -> Option<(Mutation<'v, 'n>, R)>,
        tell: impl Fn(&R, &mut Effect<'_>),
    ) -> Option<R> {
        let (mut change, answer) = (Some(change), RefCell::new(None));
        let tell = |effect: &mut Effect<'_>| {
            if let Some(result) = &*answer.borrow() {
                tell(result, effect);
            }
        };
        self.update_told(
            location,
            key,
            kind,
            times,
            &mut |old| {
                let (mutation, result) = change.take()?(old)?;
                answer.replace(Some(result));
                Some(mutation)
            },
            &tell,
        )?;
        answer.into_inner()
    }

    /// The same, once for all callers.
    #[inline(never)]
    fn update_told<'n>(
        &self,
        location: &Location,
        key: &[u8],
        kind: Option<Kind>,
        (now_ms, calls): (u64, u64),
        mutate: &mut dyn for<'v> FnMut(Option<Old<'v>>) -> Option<Mutation<'v, 'n>>,
        tell: Tell<'_>,
    ) -> Option<()> {
        let work = |seat: &Seat| {
            let guard = PinGuard::begin(seat, location.db)?;
            KeyUpdate { table: self, seat: guard.seat, location, key, kind, calls, now_ms }
                .run(|old| Some((mutate(old)?, ())), Some(tell))
        };
        self.settle_guess();
        self.segment().with_seat(work).ok()?
    }
}

impl KeyUpdate<'_> {
    /// As [`publish`], and the change log is told.
    #[inline(never)]
    pub(super) fn publish_told(&self, turn: Turn<'_>, olds: u64, tell: Tell<'_>) -> Option<()> {
        let (seat, location) = (self.seat, self.location);
        let live = Live { segment: seat.segment(), bucket: location.bucket };
        let mut notes = seat.stage();
        notes.cover(0, location.bucket.line);
        note_turn(&mut notes, &live, location.hash.tag, turn).ok()?;
        self.publish_notes(notes, (turn.0.map(|(_, image)| image), turn.1), olds, Some(tell))
    }

    /// As [`KeyUpdate::replace`], and the change log is told.
    pub(super) fn replace_told(
        &self,
        covered: Covered,
        (old, new): (&Image, &Image),
        tell: Tell<'_>,
    ) -> Option<()> {
        let seat = self.seat;
        let olds = u64::from(old.is_reference());
        if old.is_reference() {
            seat.note_old(entry::record_of(old.words[1]), false).ok()?;
        }
        let mut notes = seat.stage();
        notes.cover(covered.item, covered.line);
        for (number, word) in new.words().iter().enumerate() {
            // A record in the place of another one has the same words but these.
            if *word != old.words[number] {
                notes.word(covered.at + number as u64 * 8, *word);
            }
        }
        self.is_recorded(&mut notes, Some(old), Some(new), Some(tell)).then_some(())?;
        notes.commit_with(olds).ok()
    }
}
