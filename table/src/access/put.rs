//! Shared by the fast paths that write: the pin around them, and the place of an entry in its bucket.

use polder_shm::staged_journal::StagedJournal;
use polder_shm::{Seat, sync};

use crate::access::lookup::Live;
use crate::api::{Db, bit_of};
use crate::layout::bucket::{self, LINE_WORDS, WORDS, Words, WordsMut};
use crate::layout::entry::Image;
use crate::layout::hash::{CONTINUED, FREE};

/// A seat that is pinned for a fast path. When it is dropped, also by a panic in a caller's function, what was not committed is rolled back.
pub(crate) struct PinGuard<'s> {
    pub(crate) seat: &'s Seat,
}

impl<'s> PinGuard<'s> {
    /// To write into `db`. `None` if the thread is in a transaction.
    #[inline(always)]
    pub(crate) fn begin(seat: &'s Seat, db: Db) -> Option<PinGuard<'s>> {
        seat.enter().then(|| {
            // Before the map is validated under the locks (`Location::is_current`), and until the end. A fast path may enter its commit this early, since it
            // never waits for a lock.
            seat.enter_commit_quickly(bit_of(db));
            seat.pin();
            PinGuard { seat }
        })
    }
}

impl Drop for PinGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if sync::is_dead() {
            return;
        }
        if self.seat.journal_len() > 0 {
            self.seat.rollback();
        }
        self.seat.leave_commit();
        self.seat.unpin();
        self.seat.leave();
    }
}

/// Returns true if this many units are free, in a row or not.
#[inline(always)]
pub(crate) fn has_room(live: &Live<'_>, units: usize) -> bool {
    bucket::matches(&live.tag_words(), FREE).count_ones() as usize >= units
}

/// A private copy of a bucket, to be rearranged.
struct Copied([u64; WORDS]);

impl Words for Copied {
    fn word(&self, index: usize) -> u64 {
        self.0[index]
    }
}

impl WordsMut for Copied {
    fn set_word(&mut self, index: usize, value: u64) {
        self.0[index] = value;
    }
}

/// Makes room where the free units do not lie in a row: the other entries move together. `tags` are the bucket's, without those that go.
#[inline(never)]
fn put_compacting(
    notes: &mut StagedJournal<'_>,
    live: &Live<'_>,
    tag: u8,
    image: &Image,
    tags: &[u64; 7],
) -> Option<()> {
    let mut copied = Copied(std::array::from_fn(|index| live.word(index)));
    copied.0[1..LINE_WORDS].copy_from_slice(tags);
    bucket::insert(&mut copied, tag, image)?;
    for index in 1..WORDS {
        if copied.0[index] != live.word(index) {
            notes.word(live.bucket.word_at(index), copied.0[index]);
        }
    }
    Some(())
}

/// Notes an entry's words, as far as they differ from what is there.
#[inline(always)]
pub(crate) fn note_words(notes: &mut StagedJournal<'_>, live: &Live<'_>, unit: usize, image: &Image) {
    for (number, word) in image.words[..image.units * 2].iter().enumerate() {
        let index = LINE_WORDS + unit * 2 + number;
        if live.word(index) != *word {
            notes.word(live.bucket.word_at(index), *word);
        }
    }
}

/// A mask with the bytes of the tags of this many units set.
#[inline]
pub(crate) fn tags_of(unit: usize, units: usize) -> [u64; 7] {
    let mut tags = [0; 7];
    for number in unit..unit + units {
        tags[number / 8] |= 0xff << (number % 8 * 8);
    }
    tags
}

/// Finds free units and notes the entry there, with its tags; the bytes of `gone` are set for tags that are to be free.
#[inline(always)]
pub(crate) fn put(
    notes: &mut StagedJournal<'_>,
    live: &Live<'_>,
    tag: u8,
    image: &Image,
    gone: &[u64; 7],
) -> Option<()> {
    let old = live.tag_words();
    let mut tags: [u64; 7] = std::array::from_fn(|word| old[word] & !gone[word]);
    let unit = match bucket::place_for(bucket::matches(&tags, FREE), image.units, tag) {
        Some(unit) => unit,
        None => match make_way(notes, live, &mut tags, (image.units, tag)) {
            Some(unit) => unit,
            None => return put_compacting(notes, live, tag, image, &tags),
        },
    };
    set_tags(&mut tags, unit, image.units, tag);
    for (word, value) in tags.iter().enumerate() {
        if old[word] != *value {
            notes.word(live.bucket.word_at(1 + word), *value);
        }
    }
    note_words(notes, live, unit, image);
    Some(())
}

/// Sets the tags of an entry's units, which are free.
#[inline(always)]
fn set_tags(tags: &mut [u64; 7], unit: usize, units: usize, tag: u8) {
    for number in unit..unit + units {
        tags[number / 8] |= (if number == unit { tag } else { CONTINUED } as u64) << (number % 8 * 8);
    }
}

/// For free units that do not lie in a row, but would if one other entry lay elsewhere in the bucket: notes that entry at its new place, and
/// returns where the row of free units begins then. That writes three or four of a bucket's fourteen cache lines; moving all entries together
/// would write all of them.
#[inline(never)]
fn make_way(
    notes: &mut StagedJournal<'_>,
    live: &Live<'_>,
    tags: &mut [u64; 7],
    (wanted, for_tag): (usize, u8),
) -> Option<usize> {
    let (free, continued) = (bucket::matches(tags, FREE), bucket::matches(tags, CONTINUED));
    let (mut begins, row) =
        (bucket::beginnings(tags), |unit: usize, units: usize| ((1u64 << units) - 1) << unit);
    while begins != 0 {
        let from = begins.trailing_zeros() as usize;
        begins &= begins - 1;
        let units = 1 + (continued >> 1 >> from).trailing_ones() as usize;
        let free = free | row(from, units);
        let tag = (tags[from / 8] >> (from % 8 * 8)) as u8;
        let Some(unit) = bucket::place_for(free, wanted, for_tag) else { continue };
        let Some(to) = bucket::place_for(free & !row(unit, wanted), units, tag) else { continue };
        for number in 0..units * 2 {
            let (word, index) = (live.unit_word(from * 2 + number), LINE_WORDS + to * 2 + number);
            if live.word(index) != word {
                notes.word(live.bucket.word_at(index), word);
            }
        }
        let gone = tags_of(from, units);
        tags.iter_mut().zip(gone).for_each(|(tags, gone)| *tags &= !gone);
        set_tags(tags, to, units, tag);
        return Some(unit);
    }
    None
}
