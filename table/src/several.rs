//! The short way of several keys that get short strings, all at once: each is as in `quick.rs`, and one commit makes them all true.
//!
//! ```text
//!  where each key belongs -> pin, slots -> each home locked, by try -> each entry -> the words of all -> commit (`shm::brief`)
//! ```
//!
//! T2: no lock is waited for, so that their order does not matter. Whatever is more than that answers false, having done nothing: somebody in the
//! way, an entry that lies elsewhere or is no plain string, two keys of one bucket of which one changes what lies where.

use polder_shm::layout::{interest, seat as at};
use polder_shm::{Locked, Seat};
use polder_values::Kind;
use smallvec::SmallVec;

use crate::api::Counter;
use crate::bucket;
use crate::change::interest_of;
use crate::clock;
use crate::directory;
use crate::entry::{self, Image, Inline};
use crate::lookup::Live;
use crate::quick::{Glance, Stint, glance};
use crate::sight::Sight;
use crate::small::{fits, note_turn};
use crate::table::Table;

/// So many keys at most: their words fit into a brief journal, unless buckets are rearranged.
const SEVERAL_MAX: usize = 20;

/// A bucket that is locked, by the journal's item of the same number.
struct Home {
    line: u64,
    /// The units that have got new words, and whether tags have, too.
    written: u64,
    moved: bool,
}

impl Table {
    /// Gives several keys short strings: `pairs` are keys and values in turn, at most [`SEVERAL_MAX`] of each, and `first` says where the first key
    /// belongs. Answers false, having done nothing, where that takes the long way.
    pub fn quick_set_all(&self, first: &Sight, pairs: &[&[u8]], now_ms: u64) -> bool {
        let (pairs, []) = pairs.as_chunks::<2>() else { return false };
        if pairs.len() > SEVERAL_MAX || self.counts_frequency() {
            return false;
        }
        let segment = &**self.segment();
        let mut sights: SmallVec<[Sight; SEVERAL_MAX]> = SmallVec::new();
        for (number, [key, _]) in pairs.iter().enumerate() {
            let Some(sight) = (if number == 0 { Some(*first) } else { Sight::of(segment, first.db(), key) }) else { return false };
            segment.prefetch_to_write(sight.bucket.line);
            sights.push(sight);
        }
        // Before anything is locked for nothing: of many keys of a table that is nearly full, one often lies elsewhere.
        let lies_here = |(sight, [key, _]): (&Sight, &[&[u8]; 2])| {
            matches!(glance(&Live { segment, bucket: sight.bucket }, &sight.hash, key), Glance::Here(_) | Glance::Miss(0, 0))
        };
        if !sights.iter().zip(pairs).all(lies_here) {
            return false;
        }
        let done = self.segment().with_seat(|seat| {
            let stint = Stint::begin(seat)?;
            set_all(stint.seat, &sights, pairs, now_ms)
        });
        matches!(done, Ok(Some(())))
    }
}

/// Does it, with the seat pinned.
fn set_all(seat: &Seat, sights: &[Sight], pairs: &[[&[u8]; 2]], now_ms: u64) -> Option<()> {
    let segment = &**seat.segment();
    // T3: the sights are older than this, and each bucket is there when it is locked.
    if !seat.covers_now() || seat.journal_len() != 0 {
        return None;
    }
    let (mut homes, mut numbers) = (SmallVec::<[Home; SEVERAL_MAX]>::new(), SmallVec::<[usize; SEVERAL_MAX]>::new());
    for sight in sights {
        let line = sight.bucket.line;
        let known = homes.iter().position(|home| home.line == line);
        if known.is_none() {
            if !sight.is_current(segment) {
                return None;
            }
            if !matches!(seat.lock_now(line), Ok(Locked::Ours(_))) {
                // The long way meets the same lock, and counts it.
                seat.forget_collision();
                return None;
            }
            homes.push(Home { line, written: 0, moved: false });
        }
        numbers.push(known.unwrap_or(homes.len() - 1));
    }
    // With all locks held: nothing has grown, been flushed or swapped, nobody listens (see `Table::interest`), no snapshot wants what was before.
    let is_watched = interest_of(segment) & (interest::CHANGES & !interest::WAITERS) != 0 || segment.snapshot() != 0;
    if is_watched || !sights.iter().all(|sight| sight.is_current(segment)) {
        return None;
    }
    let (mut notes, mut added) = (seat.brief(), 0);
    for ((sight, [key, value]), number) in sights.iter().zip(pairs).zip(numbers) {
        let live = Live { segment, bucket: sight.bucket };
        let (mut before, mut after, kind) = (Image::EMPTY, Image::EMPTY, Kind::String as u8);
        let unit = match glance(&live, &sight.hash, key) {
            Glance::Here(unit) => {
                bucket::read_image(&live, unit, &mut before);
                Some(unit).filter(|_| before.meta() == kind)
            }
            Glance::Miss(0, 0) => None,
            _ => return None,
        };
        if unit.is_none() && before.units > 0 || entry::inline_bytes(key.len(), value.len(), false, false) > entry::INLINE_MAX {
            return None;
        }
        let first = entry::first_word(seat.next_version(), clock::lru(now_ms));
        entry::fill_inline(&mut after, first, &Inline { meta: kind, expiry_ms: None, flags: 0, key, value });
        let (home, moves) = (&mut homes[number], before.units != after.units);
        let written = unit.map_or(0, |unit| 1 << unit);
        if home.moved || moves && home.written != 0 || home.written & written != 0 {
            return None;
        }
        (home.written, home.moved) = (home.written | written, moves);
        let old = unit.map(|unit| (unit, &before));
        if !fits(&live, old, Some(&after)) || !notes.has_room() {
            return None;
        }
        notes.cover(number as u64, home.line);
        note_turn(&mut notes, &live, sight.hash.tag, (old, Some(&after))).ok()?;
        added += u64::from(unit.is_none());
    }
    if added > 0 {
        let tally = at::TALLIES + directory::tally_of(sights[0].root) * at::TALLY_BYTES;
        notes.cover_own();
        notes.word(segment.seat_at(seat.index()) + tally, seat.get(tally).wrapping_add(added));
    }
    notes.commit();
    seat.add(at::COUNTERS + 8 * Counter::Calls as u64, 1);
    seat.add(at::COUNTERS + 8 * Counter::Changes as u64, pairs.len() as u64);
    Some(())
}
