//! A bucket: a header line of 64 bytes and 54 units of 16 bytes.
//!
//! ```text
//! piece (6528 bytes, a node)                           header line (64 bytes)
//! +--------+--------------------------+-----------+    OFFSET SIZE DESCRIPTION
//! | node 32| 7 x 54 units             | 7 lines   |    0      8    lock word (shm::lock)
//! +--------+--------------------------+-----------+    8      54   a tag per unit: 0 free, 1 continued, else an entry begins
//!          ^ 32                       ^ 6080           62     1    entries at home here that lie in the next bucket
//!                                                      63     1    entries at home here that lie in the stash
//! ```
//!
//! The lines of a piece stand together at its end, on cache-line boundaries, apart from the entries. 54 units are 18 entries of a
//! short key and a 16-byte value, or 54 entries with references.
//!
//! All functions here work on any [`Words`]: a live bucket, the private copy that a transaction edits, or one under construction.

pub use crate::layout::entry::UNITS;
use crate::layout::entry::{self, Image, UNIT_BYTES, WORDS_MAX};
use crate::layout::hash::{CONTINUED, FREE};
use crate::layout::raw;

/// Buckets of a piece.
pub const PIECE_BUCKETS: u64 = 7;
/// Where the units of a piece begin.
pub const UNITS_AT: u64 = 32;
/// Where the header lines of a piece begin.
pub const LINES_AT: u64 = UNITS_AT + PIECE_BUCKETS * BUCKET_BYTES;
/// Bytes of a bucket's units.
pub const BUCKET_BYTES: u64 = (UNITS * UNIT_BYTES) as u64;
/// Bytes of a piece.
pub const PIECE_BYTES: u64 = LINES_AT + PIECE_BUCKETS * 64;
/// Words of a header line.
pub const LINE_WORDS: usize = 8;
/// Words of line and units.
pub const WORDS: usize = LINE_WORDS + UNITS * 2;
const _: () = assert!(LINES_AT.is_multiple_of(64) && PIECE_BYTES == 6528 && WORDS <= 128);

/// A bucket's words: 0 to 7 are its line, the others its units.
pub trait Words {
    fn word(&self, index: usize) -> u64;

    /// Word `index` of the units.
    #[inline(always)]
    fn unit_word(&self, index: usize) -> u64 {
        self.word(LINE_WORDS + index)
    }

    /// The words of the line that hold tags.
    #[inline(always)]
    fn tag_words(&self) -> [u64; 7] {
        [self.word(1), self.word(2), self.word(3), self.word(4), self.word(5), self.word(6), self.word(7)]
    }
}

/// A bucket that can be changed.
pub trait WordsMut: Words {
    fn set_word(&mut self, index: usize, value: u64);
}

/// The tags of a line, one byte a unit.
pub type Tags = [u8; UNITS];

/// Reads all tags.
pub fn tags(bucket: &(impl Words + ?Sized)) -> Tags {
    let mut bytes = [0u8; 56];
    for word in 0..7 {
        bytes[word * 8..word * 8 + 8].copy_from_slice(&bucket.word(word + 1).to_le_bytes());
    }
    bytes[..UNITS].try_into().expect("54 of 56 bytes")
}

/// A bit for each unit whose tag is `tag`.
#[inline(always)]
pub fn matches(words: &[u64; 7], tag: u8) -> u64 {
    raw::same_bytes(words, tag) & ((1 << UNITS) - 1)
}

/// Entries at home in this bucket that lie in the next one, and in the stash.
pub fn displaced(last_word: u64) -> (u8, u8) {
    ((last_word >> 48) as u8, (last_word >> 56) as u8)
}

/// Changes how many entries at home here lie in the next bucket (`stash`: in the stash).
pub fn count_displaced(bucket: &mut impl WordsMut, stash: bool, by: i8) {
    bucket.set_word(7, with_displaced(bucket.word(7), stash, by));
}

/// The last word of a line with another count of displaced entries.
pub fn with_displaced(word: u64, stash: bool, by: i8) -> u64 {
    let shift = if stash { 56 } else { 48 };
    let count = (word >> shift) as u8;
    word & !(0xff << shift) | (count.wrapping_add_signed(by) as u64) << shift
}

fn set_tag(bucket: &mut impl WordsMut, unit: usize, tag: u8) {
    let (word, shift) = (1 + unit / 8, unit % 8 * 8);
    let value = bucket.word(word) & !(0xff << shift) | (tag as u64) << shift;
    bucket.set_word(word, value);
}

/// Whether an entry begins at `unit`.
pub fn begins_at(bucket: &(impl Words + ?Sized), unit: usize) -> bool {
    (bucket.word(1 + unit / 8) >> (unit % 8 * 8)) as u8 > CONTINUED
}

/// The units an entry that begins at `unit` takes, by its tags.
pub fn units_at(tags: &Tags, unit: usize) -> usize {
    1 + tags[unit + 1..].iter().take(WORDS_MAX / 2 - 1).take_while(|&&tag| tag == CONTINUED).count()
}

/// The entry that begins at `unit`.
#[inline]
pub fn image_at(bucket: &(impl Words + ?Sized), unit: usize) -> Image {
    let mut image = Image::EMPTY;
    read_image(bucket, unit, &mut image);
    image
}

/// Reads the entry that begins at `unit` into an empty image.
#[inline(always)]
pub fn read_image(bucket: &(impl Words + ?Sized), unit: usize, image: &mut Image) {
    let at = unit * 2;
    image.words[0] = bucket.unit_word(at);
    image.words[1] = bucket.unit_word(at + 1);
    image.units = 1;
    if image.words[1] as u8 & entry::REFERENCE != 0 {
        return;
    }
    image.units = units_of(image.words[1], unit);
    let mut pair = |number: usize| {
        if image.units > number {
            image.words[number * 2] = bucket.unit_word(at + number * 2);
            image.words[number * 2 + 1] = bucket.unit_word(at + number * 2 + 1);
        }
    };
    const { assert!(WORDS_MAX == 8, "four units") };
    pair(1);
    pair(2);
    pair(3);
}

/// Units of the inline entry at `unit` that has this second word: no more than there can be (S5).
#[inline(always)]
pub fn units_of(second: u64, unit: usize) -> usize {
    let (units, max) = (entry::inline_units(second), (UNITS - unit).min(WORDS_MAX / 2));
    if units > max { max } else { units }
}

/// Writes an entry's words over those at `unit`, where exactly its units are reserved.
pub fn overwrite(bucket: &mut impl WordsMut, unit: usize, image: &Image) {
    for (number, &word) in image.words().iter().enumerate() {
        let at = LINE_WORDS + unit * 2 + number;
        if bucket.word(at) != word {
            bucket.set_word(at, word);
        }
    }
}

/// Frees the units of the entry that begins at `unit`.
pub fn erase(bucket: &mut impl WordsMut, unit: usize, units: usize) {
    for number in unit..unit + units {
        set_tag(bucket, number, FREE);
    }
}

/// Puts an entry into free units, and moves others together if necessary. Returns its first unit, or `None` when the bucket is full.
pub fn insert(bucket: &mut impl WordsMut, tag: u8, image: &Image) -> Option<usize> {
    let free = matches(&bucket.tag_words(), FREE);
    if (free.count_ones() as usize) < image.units {
        return None;
    }
    let unit = match place_for(free, image.units, tag) {
        Some(unit) => unit,
        None => {
            compact(bucket);
            UNITS - free.count_ones() as usize
        }
    };
    set_tag(bucket, unit, tag);
    for number in 1..image.units {
        set_tag(bucket, unit + number, CONTINUED);
    }
    overwrite(bucket, unit, image);
    Some(unit)
}

/// The unit at which, or not far behind which, an entry of this tag is put if there is room. So a lookup can fetch that cache line together with
/// the header line, instead of after it. In a bucket that is 92 % full, 61 % of the entries lie completely in that line and the next (simulated).
/// It is a hint: nothing relies on it.
#[inline(always)]
pub const fn preferred_unit(tag: u8) -> u64 {
    (tag as u64 * UNITS as u64) >> 8
}

/// A place of `units` free units in a row for an entry of this tag, as near to the preferred one as there is.
#[inline(always)]
pub fn place_for(free: u64, units: usize, tag: u8) -> Option<usize> {
    /// Every unit, every second, third and fourth: entries of one size leave no gaps between them that none of them fits into.
    const MULTIPLES: [u64; 4] =
        [u64::MAX, 0x5555_5555_5555_5555, 0x9249_2492_4924_9249, 0x1111_1111_1111_1111];
    let runs = (1..units).fold(free, |runs, shift| runs & free >> shift);
    let even = runs & MULTIPLES[(units - 1) & 3];
    let runs = if even != 0 { even } else { runs };
    let behind = runs & u64::MAX << preferred_unit(tag);
    let runs = if behind != 0 { behind } else { runs };
    (runs != 0).then(|| runs.trailing_zeros() as usize)
}

/// Moves all entries together to the front.
pub fn compact(bucket: &mut impl WordsMut) {
    let old = tags(bucket);
    let mut target = 0;
    for (unit, &tag) in old.iter().enumerate() {
        if tag == FREE {
            continue;
        }
        if target != unit {
            for half in 0..2 {
                let word = bucket.word(LINE_WORDS + unit * 2 + half);
                bucket.set_word(LINE_WORDS + target * 2 + half, word);
            }
        }
        set_tag(bucket, target, tag);
        target += 1;
    }
    for unit in target..UNITS {
        set_tag(bucket, unit, FREE);
    }
}

/// A bit for each unit at which an entry begins.
#[inline]
pub fn beginnings(words: &[u64; 7]) -> u64 {
    !(matches(words, FREE) | matches(words, CONTINUED)) & ((1 << UNITS) - 1)
}

/// The first units of all entries.
pub fn entries<W: Words + ?Sized>(bucket: &W) -> impl Iterator<Item = (usize, u8)> + use<W> {
    let words = bucket.tag_words();
    bits(beginnings(&words)).map(move |unit| (unit, (words[unit / 8] >> (unit % 8 * 8)) as u8))
}

/// The units that these are the bits of, upwards.
#[inline(always)]
pub fn bits(mut left: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let unit = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (unit < UNITS).then_some(unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::entry::{Inline, inline};

    struct Plain([u64; WORDS]);

    impl Words for Plain {
        fn word(&self, index: usize) -> u64 {
            self.0[index]
        }
    }

    impl WordsMut for Plain {
        fn set_word(&mut self, index: usize, value: u64) {
            self.0[index] = value;
        }
    }

    fn image(key: &[u8], value: &[u8]) -> Image {
        inline(1 << 24, &Inline { meta: 1, expiry_ms: None, flags: 0, key, value })
    }

    #[test]
    fn a_bucket_holds_eighteen_short_entries() {
        let mut bucket = Plain([0; WORDS]);
        let mut put = |number: usize| {
            insert(&mut bucket, 9, &image(format!("key:{number:07}").as_bytes(), &[number as u8; 16]))
        };
        let mut units: Vec<usize> = (0..18).filter_map(&mut put).collect();
        units.sort_unstable();
        assert!(units.iter().copied().eq((0..UNITS).step_by(3)), "{units:?}");
        assert_eq!(insert(&mut bucket, 9, &image(b"k", b"v")), None);
        assert_eq!(matches(&bucket.tag_words(), 9).count_ones(), 18);
    }

    #[test]
    fn an_entry_lies_where_its_tag_says_or_not_far_behind_if_there_is_room() {
        for tag in crate::layout::hash::FIRST_TAG..=u8::MAX {
            let preferred = preferred_unit(tag) as usize;
            for units in 1..=4 {
                let unit = place_for((1 << UNITS) - 1, units, tag).expect("all is free");
                let fits_behind = preferred.next_multiple_of(units) + units <= UNITS;
                assert_eq!(unit, if fits_behind { preferred.next_multiple_of(units) } else { 0 });
            }
        }
        assert_eq!(place_for(0b1011_0110, 3, 200), None);
        assert_eq!(place_for(0b1011_0110, 2, 200), Some(4), "even places before others");
        assert_eq!(place_for(0b1011_0110, 2, 2), Some(4));
        assert_eq!(place_for(0b0110, 2, 2), Some(1), "any rather than none");
    }

    #[test]
    fn scattered_room_is_moved_together() {
        let mut bucket = Plain([0; WORDS]);
        for number in 0..UNITS as u8 {
            assert!(insert(&mut bucket, 2 + number, &image(&[number], b"v")).is_some());
        }
        for unit in (0..UNITS).step_by(10) {
            erase(&mut bucket, unit, 1);
        }
        let wide = image(&[7; 20], &[8; 30]);
        assert_eq!(wide.units, 4);
        let unit = insert(&mut bucket, 200, &wide).expect("six units are free");
        assert_eq!(image_at(&bucket, unit).bytes(), wide.bytes());
        let left: Vec<u8> = entries(&bucket).map(|(_, tag)| tag).collect();
        assert_eq!(left.len(), UNITS - 6 + 1);
        for (unit, tag) in entries(&bucket).filter(|(_, tag)| *tag != 200) {
            assert_eq!(
                image_at(&bucket, unit).bytes()[11],
                tag - 2,
                "the entry at unit {unit} moved with its tag"
            );
        }
    }

    #[test]
    fn bytes_compare_alike_on_every_cpu() {
        let mut word = 88_172_645_463_325_252u64;
        for _ in 0..2_000 {
            let words: [u64; 7] = std::array::from_fn(|_| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word & 0x0301_0003_0100_0201
            });
            for byte in 0..4 {
                assert_eq!(raw::same_bytes(&words, byte), raw::same_bytes_portable(&words, byte));
            }
        }
    }

    #[test]
    fn every_matching_tag_is_found() {
        for unit in 0..UNITS {
            let mut bucket = Plain([0; WORDS]);
            set_tag(&mut bucket, unit, 77);
            assert_eq!(matches(&bucket.tag_words(), 77), 1 << unit);
        }
    }
}
