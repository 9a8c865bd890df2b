//! An entry: a key with its value inline, or with a reference to its record.
//!
//! ```text
//! unit = 16 bytes                     BYTES   inline entry (1 to 4 units)      entry with a reference (1 unit)
//!                                     0-2     access clock                     access clock
//!                                     3-7     version                          version
//!                                     8       kind | RAW FLAGS EXPIRY          kind | REFERENCE INNER EXPIRY
//!                                     9       key length                       extra hash bits (2)
//!                                     10      value length
//!                                     11 ..   expiry (6) flags (4) key value   reference (5)
//! ```
//!
//! The first word is clock and version, so that a reader can note its access by one CAS that fails when the entry is not the
//! one it read: versions are never used twice.

use polder_base::bytes::{self, short_word};
use polder_base::{Fault, Ref};
use polder_values::Kind;

use crate::api::{Attributes, Stop};

/// Bytes of a unit.
pub const UNIT_BYTES: usize = 16;
/// Units of a bucket.
pub const UNITS: usize = 54;
/// Words of the longest entry.
pub const WORDS_MAX: usize = 8;
/// Bytes of key, value and optional fields that fit inline.
pub const INLINE_MAX: usize = 64 - INLINE_HEAD;
/// Bytes before an inline entry's fields.
pub const INLINE_HEAD: usize = 11;
/// Bits of a version.
pub const VERSION_BITS: u32 = 40;

/// In the byte of the kind: the kind itself.
pub const KIND: u8 = 0x0f;
/// In the byte of the kind: the entry's value and key are in a record.
pub const REFERENCE: u8 = 0x10;
/// The entry has an expiry.
pub const EXPIRY: u8 = 0x20;
/// The entry has memcached flags (inline entries; records say it themselves).
pub const FLAGS: u8 = 0x40;
/// A part of the value has an expiry of its own (entries with a reference, which have no need of [`FLAGS`]).
pub const INNER: u8 = 0x40;
/// A short string that was edited (inline entries; records say it themselves).
pub const RAW: u8 = 0x80;
/// In the kind: the entry is a stub, whose value lies in a tier (`stub.rs`).
pub const COLD: u8 = 8;
/// The value has a copy in the tier with the entry's version (entries with a reference, which have no need of [`RAW`]). Each write makes another entry,
/// without this; what only moves a value keeps it.
pub const CLEAN: u8 = 0x80;
/// The kind of an entry that is no key. Older builds marked watched keys that were absent so, for an hour; such entries go when they expire.
pub const MARKER: u8 = 0;

/// An entry's words, and how many units they are.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    pub words: [u64; WORDS_MAX],
    pub units: usize,
}

impl Default for Image {
    fn default() -> Image {
        Image::EMPTY
    }
}

impl Image {
    /// To be filled in place. An image is written word by word; if it were moved right away, the processor would wait for these stores.
    pub const EMPTY: Image = Image { words: [0; WORDS_MAX], units: 0 };

    /// The words in use.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.units * 2]
    }
    /// The byte of kind and flags.
    pub fn meta(&self) -> u8 {
        self.words[1] as u8
    }
    /// Whether the entry has a record.
    pub fn is_reference(&self) -> bool {
        self.meta() & REFERENCE != 0
    }
    /// Whether the key, or a part of its value, expires some day.
    pub fn may_expire(&self) -> bool {
        self.meta() & EXPIRY != 0 || self.meta() & (REFERENCE | INNER) == REFERENCE | INNER
    }
    /// What its value is; `None` for a marker.
    ///
    /// # Errors
    /// [`Stop::Cold`] of a stub; an entry that this program cannot read.
    #[inline]
    pub fn kind(&self) -> Result<Option<Kind>, Stop> {
        match Kind::from_stored(self.meta() & KIND) {
            None if self.meta() & KIND != MARKER => Err(unreadable(self.meta())),
            kind => Ok(kind),
        }
    }
    /// The record's reference.
    ///
    /// # Errors
    /// As [`record_in`].
    #[inline]
    pub fn record(&self) -> Result<Ref, Stop> {
        record_in(self.words[1])
    }
    /// The version of the last change.
    pub fn version(&self) -> u64 {
        version_of(self.words[0])
    }
    /// The access clock.
    pub fn clock(&self) -> u32 {
        clock_of(self.words[0])
    }
    /// All bytes of the entry.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        const { assert!(cfg!(target_endian = "little"), "entries are stored in little-endian words") };
        bytemuck::cast_slice(&self.words)
    }
}

/// The first word of an entry.
pub fn first_word(version: u64, clock: u32) -> u64 {
    version << 24 | (clock & 0xff_ffff) as u64
}

/// The version in an entry's first word.
pub fn version_of(first: u64) -> u64 {
    first >> 24
}

/// The clock in an entry's first word.
pub fn clock_of(first: u64) -> u32 {
    (first & 0xff_ffff) as u32
}

/// The record that an entry's second word names, if the entry is of a kind that has one: for hints, and where the kind is known.
pub fn record_of(second: u64) -> Ref {
    Ref(second >> 24)
}

/// Returns true if an entry's second word names a record.
#[inline(always)]
pub fn names_record(second: u64) -> bool {
    second as u8 & (REFERENCE | COLD) == REFERENCE
}

/// The record that an entry's second word names.
///
/// # Errors
/// An entry that this program cannot read.
#[inline(always)]
pub fn record_in(second: u64) -> Result<Ref, Stop> {
    if second as u8 & COLD != 0 { Err(unreadable(second as u8)) } else { Ok(record_of(second)) }
}

/// Returns true if the second word of an entry is a stub's: it has both bits, and a kind that there is.
#[inline(always)]
pub(crate) fn is_stub(second: u64) -> bool {
    second as u8 & (COLD | REFERENCE) == COLD | REFERENCE
        && Kind::from_stored(second as u8 & KIND & !COLD).is_some()
}

/// Why an entry with this kind byte cannot be read.
#[cold]
#[inline(never)]
fn unreadable(meta: u8) -> Stop {
    if is_stub(meta.into()) {
        return Stop::Cold;
    }
    Fault::Damaged { what: "the kind of an entry" }.into()
}

/// The same entry with another record.
pub fn with_record(image: &Image, record: Ref) -> Image {
    let mut image = *image;
    image.words[1] = image.words[1] & 0xff_ffff | record.0 << 24;
    image
}

/// Says in an entry that its value has a copy.
pub fn clean(mut image: Image) -> Image {
    image.words[1] |= u64::from(CLEAN);
    image
}

/// The extra hash bits in the second word of an entry with a reference.
pub fn extra_of(second: u64) -> u16 {
    (second >> 8) as u16
}

/// An entry whose key and value are in `record`; whether it has an expiry, and whether parts of its value have some.
pub fn with_reference(
    first: u64,
    kind: u8,
    (expires, inside): (bool, bool),
    extra: u16,
    record: Ref,
) -> Image {
    let meta = kind | REFERENCE | if expires { EXPIRY } else { 0 } | if inside { INNER } else { 0 };
    let mut words = [0; WORDS_MAX];
    words[0] = first;
    words[1] = meta as u64 | (extra as u64) << 8 | record.0 << 24;
    Image { words, units: 1 }
}

/// The fields of an inline entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline<'a> {
    pub meta: u8,
    pub expiry_ms: Option<u64>,
    pub flags: u32,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Bytes that an inline entry with these fields takes behind its head.
pub const fn inline_bytes(key: usize, value: usize, expires: bool, flags: bool) -> usize {
    key + value + if expires { 6 } else { 0 } + if flags { 4 } else { 0 }
}

/// Units of an inline entry, from its second word.
#[inline(always)]
pub fn inline_units(second: u64) -> usize {
    let (at, key) = inline_key_place(second);
    (at + key + (second >> 16 & 0xff) as usize).div_ceil(UNIT_BYTES)
}

/// The latest expiry that can be stored, in 48 bits: in the year 10889.
pub const EXPIRY_MAX_MS: u64 = (1 << 48) - 1;

/// An expiry as it is stored: what lies behind [`EXPIRY_MAX_MS`] is moved there, never cut to something past.
pub fn expiry_bytes(expiry_ms: u64) -> [u8; 6] {
    let [low @ .., _, _] = expiry_ms.min(EXPIRY_MAX_MS).to_le_bytes();
    low
}

/// An inline entry. The caller has seen that it fits.
///
/// It is put together word by word: bytes that are stored one by one and then read as words wait for each other in the processor
/// (a failed store forwarding, 60 cycles for a SET).
#[inline(always)]
pub fn inline(first: u64, fields: &Inline<'_>) -> Image {
    let mut image = Image::EMPTY;
    fill_inline(&mut image, first, fields);
    image
}

/// Makes an empty image an inline entry, in place.
#[inline(always)]
pub fn fill_inline(image: &mut Image, first: u64, fields: &Inline<'_>) {
    let mut meta = fields.meta;
    let mut at = INLINE_HEAD;
    if let Some(expiry_ms) = fields.expiry_ms {
        meta |= EXPIRY;
        append(&mut image.words, &mut at, &expiry_bytes(expiry_ms));
    }
    if fields.flags != 0 {
        meta |= FLAGS;
        append(&mut image.words, &mut at, &fields.flags.to_le_bytes());
    }
    append(&mut image.words, &mut at, fields.key);
    append(&mut image.words, &mut at, fields.value);
    image.words[0] = first;
    image.words[1] |= meta as u64 | (fields.key.len() as u64) << 8 | (fields.value.len() as u64) << 16;
    image.units = at.div_ceil(UNIT_BYTES);
}

/// Makes an empty image the inline entry `old` with another value, of as many units, and with other attributes, of which it has the same; the key
/// stays.
#[inline]
pub fn refill_inline(image: &mut Image, old: &Image, first: u64, attributes: Attributes, value: &[u8]) {
    *image = *old;
    let words = &mut image.words;
    words[0] = first;
    words[1] = words[1] & !(0xff << 16) | (value.len() as u64) << 16;
    let (mut second, mut third) = (words[1], words[2]);
    put_attributes(second as u8, &mut second, &mut third, attributes);
    (words[1], words[2]) = (second, third);
    let (key_at, key_len) = inline_key_place(words[1]);
    let value_at = key_at + key_len;
    // Where an empty value ends the last unit there is none.
    let kept = words.get(value_at / 8).copied().unwrap_or(0);
    value_words(value, value_at, |_| kept, old.units * 2, |number, word| words[number] = word);
}

/// Puts attributes into the second and third word of an inline entry that has them, as its kind byte `meta` says.
#[inline(always)]
fn put_attributes(meta: u8, second: &mut u64, third: &mut u64, Attributes { expiry_ms, flags }: Attributes) {
    let has_expiry = meta & EXPIRY != 0;
    if let Some(expiry_ms) = expiry_ms.map(|expiry_ms| expiry_ms.min(EXPIRY_MAX_MS)).filter(|_| has_expiry) {
        *second = *second & 0xff_ffff | expiry_ms << 24;
        *third = *third & !0xff | expiry_ms >> 40;
    }
    match meta & FLAGS != 0 {
        true if has_expiry => *third = *third & !0xff_ffff_ff00 | u64::from(flags) << 8,
        true => *second = *second & !(0xffff_ffff << 24) | u64::from(flags) << 24,
        false => {}
    }
}

/// The flags of an inline entry that has some.
#[inline(always)]
fn inline_flags(image: &Image) -> u32 {
    if image.meta() & EXPIRY != 0 { (image.words[2] >> 8) as u32 } else { (image.words[1] >> 24) as u32 }
}

/// The attributes of an inline entry.
#[inline(always)]
pub fn inline_attributes(image: &Image) -> Attributes {
    let meta = image.meta();
    Attributes {
        expiry_ms: if meta & EXPIRY != 0 { Some(inline_expiry(image)) } else { None },
        flags: if meta & FLAGS != 0 { inline_flags(image) } else { 0 },
    }
}

/// Puts bytes behind the `at` that there are.
#[inline(always)]
fn append(words: &mut [u64; WORDS_MAX], at: &mut usize, bytes: &[u8]) {
    for chunk in bytes.chunks(8) {
        let (word, number, shift) = (bytes::word(chunk), *at / 8, *at % 8 * 8);
        words[number] |= word << shift;
        if shift / 8 + chunk.len() > 8 {
            words[number + 1] |= word >> (64 - shift);
        }
        *at += chunk.len();
    }
}

/// The words of an inline entry from the one in which its value begins, at byte `at`, to its end, with another value that fits; `old`
/// is asked for the first of them, whose bytes before `at` stay.
#[inline(always)]
pub fn value_words(
    value: &[u8],
    at: usize,
    old: impl FnOnce(usize) -> u64,
    words: usize,
    mut each: impl FnMut(usize, u64),
) {
    let (mut number, shift) = (at / 8, at % 8 * 8);
    let mut carried = old(number) & !(u64::MAX << shift);
    let mut left = value;
    while number < words {
        let bytes = match left.split_first_chunk::<8>() {
            Some((chunk, rest)) => {
                left = rest;
                u64::from_le_bytes(*chunk)
            }
            None => short_word(std::mem::take(&mut left)),
        };
        each(number, bytes << shift | carried);
        carried = bytes >> 1 >> (63 - shift);
        number += 1;
    }
}

/// Whether an inline entry's key is `key`. Works on words, so that nothing is copied. `word` is asked for words of the entry and for
/// one behind it, whose bytes do not matter.
#[inline(always)]
pub fn inline_key_is(word: impl Fn(usize) -> u64, second: u64, key: &[u8]) -> bool {
    let (at, length) = inline_key_place(second);
    if length != key.len() {
        return false;
    }
    const { assert!(no_head_is_aligned(), "each word of a key lies in two") };
    let (mut number, shift) = (at / 8, at % 8 * 8);
    let mut low = word(number);
    let mut next = || {
        number += 1;
        let high = word(number);
        let stored = low >> shift | high << (64 - shift);
        low = high;
        stored
    };
    let (chunks, rest) = key.as_chunks::<8>();
    chunks.iter().all(|chunk| next() == u64::from_le_bytes(*chunk))
        && (rest.is_empty() || (next() ^ short_word(rest)) & (u64::MAX >> (64 - rest.len() * 8)) == 0)
}

/// Bytes before the key of an inline entry: as it is, with [`EXPIRY`], with [`FLAGS`], with both.
const HEADS: [u8; 4] = {
    assert!(FLAGS == EXPIRY << 1);
    [
        INLINE_HEAD as u8,
        (INLINE_HEAD + inline_bytes(0, 0, true, false)) as u8,
        (INLINE_HEAD + inline_bytes(0, 0, false, true)) as u8,
        (INLINE_HEAD + inline_bytes(0, 0, true, true)) as u8,
    ]
};

const fn no_head_is_aligned() -> bool {
    let mut number = 0;
    while number < HEADS.len() {
        if HEADS[number].is_multiple_of(8) {
            return false;
        }
        number += 1;
    }
    true
}

/// Where in an inline entry its key begins, and the key's length, from the second word.
#[inline(always)]
pub fn inline_key_place(second: u64) -> (usize, usize) {
    (HEADS[(second as u8 >> EXPIRY.trailing_zeros() & 3) as usize] as usize, (second >> 8 & 0xff) as usize)
}

/// The value of an inline entry; `None` if its lengths lead outside (S5).
#[inline(always)]
pub fn inline_value(image: &Image) -> Option<&[u8]> {
    let (at, key) = inline_key_place(image.words[1]);
    image.bytes().get(at + key..at + key + (image.words[1] >> 16 & 0xff) as usize)
}

/// The expiry of an inline entry that has one, in milliseconds since the Unix epoch.
#[inline(always)]
pub fn inline_expiry(image: &Image) -> u64 {
    (image.words[1] >> 24 | image.words[2] << 40) & ((1 << 48) - 1)
}

/// Takes an inline entry's bytes apart; `None` if its lengths lead outside (S5).
pub fn inline_fields(bytes: &[u8]) -> Option<Inline<'_>> {
    let (meta, key_len, value_len) = (*bytes.get(8)?, *bytes.get(9)? as usize, *bytes.get(10)? as usize);
    let mut at = INLINE_HEAD;
    let mut expiry_ms = None;
    if meta & EXPIRY != 0 {
        let mut stored = [0; 8];
        stored[..6].copy_from_slice(bytes.get(at..at + 6)?);
        expiry_ms = Some(u64::from_le_bytes(stored));
        at += 6;
    }
    let mut flags = 0;
    if meta & FLAGS != 0 {
        flags = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        at += 4;
    }
    let key = bytes.get(at..at + key_len)?;
    let value = bytes.get(at + key_len..at + key_len + value_len)?;
    Some(Inline { meta, expiry_ms, flags, key, value })
}

/// Whether an entry is a key that users see.
pub(crate) fn is_key(image: &Image) -> bool {
    image.meta() & KIND != MARKER
}

/// Returns true if an entry is a stub.
pub(crate) fn is_cold(image: &Image) -> bool {
    is_stub(image.words[1])
}

/// Whether an entry is a key's that expires.
pub(crate) fn has_expiry(image: &Image) -> bool {
    is_key(image) && image.meta() & EXPIRY != 0
}

/// Whether an entry is a key's, parts of whose value expire.
pub(crate) fn has_inner_expiry(image: &Image) -> bool {
    is_key(image) && image.meta() & (REFERENCE | INNER) == REFERENCE | INNER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_entries_come_back_as_they_went_in() {
        for key in [0usize, 1, 11, 16, 40] {
            for value in [0usize, 3, 13] {
                for expiry_ms in [None, Some(1 << 41)] {
                    for flags in [0, 77] {
                        let (key, value) = (vec![b'k'; key], vec![b'v'; value]);
                        let fields = Inline { meta: 1, expiry_ms, flags, key: &key, value: &value };
                        if inline_bytes(key.len(), value.len(), expiry_ms.is_some(), flags != 0) > INLINE_MAX
                        {
                            continue;
                        }
                        let image = inline(first_word(9, 3), &fields);
                        assert_eq!(inline_units(image.words[1]), image.units);
                        let read = inline_fields(image.bytes()).expect("whole");
                        assert_eq!(
                            (read.expiry_ms, read.flags, read.key, read.value),
                            (expiry_ms, flags, &key[..], &value[..])
                        );
                        assert_eq!((image.version(), image.clock()), (9, 3));
                    }
                }
            }
        }
    }

    #[test]
    fn a_refilled_entry_is_the_one_that_would_be_made() {
        for (key_len, old_len, new_len) in (0..=INLINE_MAX)
            .flat_map(|key| (0..=50).flat_map(move |old| (0..=50).map(move |new| (key, old, new))))
        {
            for (expiry_ms, flags) in [(None, 0), (Some(1 << 41), 0), (None, 77), (Some(9), 77)] {
                if inline_bytes(key_len, old_len.max(new_len), expiry_ms.is_some(), flags != 0) > INLINE_MAX {
                    continue;
                }
                let key: Vec<u8> = (1..=key_len as u8).collect();
                let made = |first, len: usize, byte, expiry_ms, flags| {
                    inline(first, &Inline { meta: 1, expiry_ms, flags, key: &key, value: &vec![byte; len] })
                };
                let other_flags = if flags == 0 { 0 } else { u32::MAX };
                let old = made(9, old_len, 0xaa, expiry_ms.map(|_| EXPIRY_MAX_MS), other_flags);
                let new = made(10, new_len, 0xbb, expiry_ms, flags);
                if old.units != new.units {
                    continue;
                }
                let mut image = Image::EMPTY;
                refill_inline(&mut image, &old, 10, Attributes { expiry_ms, flags }, &vec![0xbb; new_len]);
                assert_eq!(inline_attributes(&image), Attributes { expiry_ms, flags });
                assert_eq!(
                    (image.words, image.units),
                    (new.words, new.units),
                    "key {key_len}, from {old_len} to {new_len}"
                );
            }
        }
    }

    #[test]
    fn an_expiry_too_far_away_to_store_stays_far_away() {
        for (given, stored) in [
            (1 << 41, 1 << 41),
            ((1 << 48) - 1, (1 << 48) - 1),
            (1 << 48, (1 << 48) - 1),
            (u64::MAX, (1 << 48) - 1),
        ] {
            let fields = Inline { meta: 1, expiry_ms: Some(given), flags: 0, key: b"k", value: b"" };
            assert_eq!(
                inline_fields(inline(0, &fields).bytes()).and_then(|read| read.expiry_ms),
                Some(stored)
            );
        }
    }

    #[test]
    fn an_inline_key_equals_itself_alone() {
        for len in 0..=INLINE_MAX {
            for (expiry_ms, flags) in [(None, 0), (Some(9), 0), (None, 5), (Some(9), 5)] {
                let key: Vec<u8> = (0..len as u8).collect();
                let value = &b"vv"[..if len % 2 == 0 { 2 } else { 0 }];
                if inline_bytes(len, value.len(), expiry_ms.is_some(), flags != 0) > INLINE_MAX {
                    continue;
                }
                let image = inline(0, &Inline { meta: 1, expiry_ms, flags, key: &key, value });
                let is = |key: &[u8]| {
                    inline_key_is(|number| image.words[number.min(WORDS_MAX - 1)], image.words[1], key)
                };
                assert!(is(&key));
                assert!(!is(&[&key[..], b"x"].concat()));
                for at in 0..len {
                    let mut other = key.clone();
                    other[at] ^= 0x80;
                    assert!(!is(&other), "length {len}, byte {at}");
                }
            }
        }
    }

    #[test]
    fn another_value_of_as_many_units_makes_the_words_of_a_new_entry() {
        for key_len in 0..INLINE_MAX {
            for (old_len, new_len) in (0..=INLINE_MAX - key_len)
                .flat_map(|old| (0..=INLINE_MAX - key_len).map(move |new| (old, new)))
            {
                let key: Vec<u8> = (1..=key_len as u8).collect();
                let image = |len: usize, byte: u8| {
                    inline(
                        first_word(9, 3),
                        &Inline { meta: 1, expiry_ms: None, flags: 0, key: &key, value: &vec![byte; len] },
                    )
                };
                let (mut old, new) = (image(old_len, 0xaa), image(new_len, 0xbb));
                if old.units != new.units {
                    continue;
                }
                let first = old.words;
                value_words(
                    &vec![0xbb; new_len],
                    INLINE_HEAD + key_len,
                    |at| first[at],
                    old.units * 2,
                    |at, word| old.words[at] = word,
                );
                old.words[1] = old.words[1] & !(0xff << 16) | (new_len as u64) << 16;
                assert_eq!(old.words, new.words, "key {key_len}, from {old_len} to {new_len}");
            }
        }
    }

    #[test]
    fn a_short_key_with_sixteen_bytes_takes_three_units() {
        let fields =
            Inline { meta: 1, expiry_ms: Some(1 << 41), flags: 0, key: b"key:1234567", value: &[7; 16] };
        assert_eq!(inline(0, &fields).units, 3);
    }
}
