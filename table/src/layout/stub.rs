//! A stub: the entry of a key whose value lies in a tier. And the name of a value there, its *copy*.
//!
//! ```text
//! BYTES  0-2    minute of the earliest expiry since the beginning of 2020, where EXPIRY or INNER is set; else 0
//!        3-7    version, as the entry had it that the stub is in the place of
//!        8      kind | COLD | REFERENCE | EXPIRY | INNER
//!        9-10   extra hash bits
//!        11-15  the upper 40 bits of the key's position
//! ```
//!
//! - **U1** A stub has no record, no access clock and no key: what reads one of these stops with [`Stop::Cold`](crate::Stop) first, since
//!   [`Image::kind`] and [`Image::record`] fail so. Whatever is not taught about stubs goes on stopping.
//! - **U2** A copy depends on its name alone, the upper bits of the position and the version, and is never overwritten. Versions are never used twice, so
//!   a name means one content of one key for good.
//! - **U3** All positions with the same upper bits are a *granule*. A stub does not say where in its granule the key belongs, so no granule with a stub is
//!   cut by a boundary between two homes: such a key is not spilled, and growth that would cut it takes another shape.

use std::sync::atomic::{AtomicU32, Ordering};

use polder_values::Kind;

use crate::api::Db;
use crate::layout::entry::{self, COLD, EXPIRY, INNER, Image, KIND, REFERENCE, WORDS_MAX};
use crate::layout::hash::Hash;

/// Bits of a position that a stub has.
const POSITION_BITS: u32 = 40;
/// Bits of them that are used: fewer in tests only, which need granules that are cut often.
static USED_BITS: AtomicU32 = AtomicU32::new(POSITION_BITS);

/// The beginning of 2020, in milliseconds since the Unix epoch.
const EPOCH_MS: u64 = 1_577_836_800_000;
const MINUTE_MS: u64 = 60_000;
/// The last minute that a stub can name: of what expires later it says this one.
const MINUTE_MAX: u64 = (1 << 24) - 1;

/// Has stubs keep so few bits of positions. For tests of cut granules, before the first stub.
#[doc(hidden)]
pub fn shorten_positions(bits: u32) {
    USED_BITS.store(bits.min(POSITION_BITS), Ordering::Relaxed);
}

/// Bits of a position that a stub leaves out.
fn granule_bits() -> u32 {
    64 - USED_BITS.load(Ordering::Relaxed)
}

/// The name of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The upper 40 bits of the key's position.
    pub position: u64,
    pub version: u64,
}

impl Name {
    /// The name of a key's copy with this version.
    pub fn of(hash: &Hash, version: u64) -> Name {
        let first = hash.position & !(u64::MAX >> (64 - granule_bits()));
        Name { position: first >> (64 - POSITION_BITS), version }
    }

    /// The name as a store keeps it: names in the order of positions are in the order of these bytes.
    pub fn bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..5].copy_from_slice(&self.position.to_be_bytes()[3..]);
        bytes[5..].copy_from_slice(&self.version.to_be_bytes()[3..]);
        bytes
    }

    /// The name that these bytes are.
    pub fn from_bytes(bytes: &[u8; 10]) -> Name {
        let number = |part: &[u8]| part.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Name { position: number(&bytes[..5]), version: number(&bytes[5..]) }
    }

    /// The positions at one of which the key belongs.
    pub(crate) fn granule(&self) -> Granule {
        let first = self.position << (64 - POSITION_BITS);
        Granule { first, last: first | u64::MAX >> (64 - granule_bits()) }
    }
}

/// The part of a copy that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Part {
    /// Its value, which comes back into the memory.
    Value = 0,
    /// Its key alone: the value stays where it is.
    Key = 1,
}

/// A copy that is wanted, and the database in which its stub is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cold {
    pub db: Db,
    pub name: Name,
    pub part: Part,
}

impl Cold {
    /// A value that is wanted.
    pub fn value(db: Db, name: Name) -> Cold {
        Cold { db, name, part: Part::Value }
    }

    /// A key that is wanted.
    pub fn key(db: Db, name: Name) -> Cold {
        Cold { db, name, part: Part::Key }
    }
}

/// The positions that share the bits that a stub keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granule {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Image {
    /// The name of the copy that holds the value, if the entry is a stub.
    #[inline]
    pub fn stub(&self) -> Option<Name> {
        entry::is_stub(self.words[1]).then(|| name_of(self.words[0], self.words[1]))
    }

    /// The kind of the value, wherever that lies; `None` for a marker and what cannot be read.
    pub fn stored_kind(&self) -> Option<Kind> {
        Kind::from_stored(self.meta() & KIND & !if self.stub().is_some() { COLD } else { 0 })
    }
}

/// The name in a stub's two words.
pub(crate) fn name_of(first: u64, second: u64) -> Name {
    Name { position: second >> 24, version: entry::version_of(first) }
}

/// Returns true if a stub with this second word may be the key's of this hash, as far as it tells.
pub(crate) fn may_be(second: u64, hash: &Hash) -> bool {
    entry::extra_of(second) == hash.extra && second >> 24 == Name::of(hash, 0).position
}

/// The stub of an entry that has a record: of a key with this hash, of which something expires at `bound_ms`.
pub(crate) fn stub_of(image: &Image, hash: &Hash, bound_ms: Option<u64>) -> Image {
    let kept = image.meta() & (KIND | EXPIRY | INNER);
    let minute = bound_ms.map_or(0, |bound_ms| bound_ms.saturating_sub(EPOCH_MS) / MINUTE_MS);
    let minute = minute.min(MINUTE_MAX);
    // A reader that notes its access expects version and clock of the entry as it was: a minute that looks like that clock would become another one. The
    // minute before it is a bound, too.
    let minute = minute - u64::from(minute != 0 && minute == u64::from(image.clock()));
    let mut words = [0; WORDS_MAX];
    words[0] = entry::first_word(image.version(), minute as u32);
    let meta = kept | COLD | REFERENCE;
    words[1] = u64::from(meta) | u64::from(hash.extra) << 8 | Name::of(hash, 0).position << 24;
    Image { words, units: 1 }
}

/// A time before which nothing of a stub's key expires; `None` where nothing does.
pub(crate) fn bound_of(image: &Image) -> Option<u64> {
    let minute = u64::from(entry::clock_of(image.words[0]));
    let bound_ms = if minute == 0 { 0 } else { EPOCH_MS + minute * MINUTE_MS };
    (image.meta() & (EXPIRY | INNER) != 0).then_some(bound_ms)
}

/// Returns true if the key of a stub has expired for certain.
pub(crate) fn is_due(image: &Image, now_ms: u64) -> bool {
    let expires = image.stub().is_some() && image.meta() & (EXPIRY | INNER) == EXPIRY;
    expires && bound_of(image).is_some_and(|bound_ms| now_ms >= bound_ms + 2 * MINUTE_MS)
}

#[cfg(test)]
mod tests {
    use polder_base::Ref;

    use super::*;

    #[test]
    fn a_stub_says_what_its_entry_said() {
        let hash = Hash { position: 0x1234_5678_9abc_def0, tag: 7, extra: 0xbeef };
        for (expires, bound_ms) in [(false, None), (true, Some(1_800_000_000_123)), (true, Some(5))] {
            let first = entry::first_word(0xab_cdef_0123, 99);
            let image = entry::with_reference(first, 1, (expires, false), hash.extra, Ref(77));
            let stub = stub_of(&image, &hash, bound_ms);
            let name = stub.stub().expect("a stub");
            assert_eq!(name, Name::of(&hash, 0xab_cdef_0123));
            assert_eq!(Name::from_bytes(&name.bytes()), name);
            assert!(may_be(stub.words[1], &hash) && image.stub().is_none());
            assert!(!may_be(stub.words[1], &Hash { position: hash.position ^ 1 << 24, ..hash }));
            let Granule { first, last } = name.granule();
            assert!(first <= hash.position && hash.position <= last && last - first == (1 << 24) - 1);
            match (bound_of(&stub), bound_ms) {
                (Some(bound), Some(bound_ms)) => assert!(bound <= bound_ms && bound_ms < bound + 60_000),
                (None, None) => {}
                differs => panic!("{differs:?}"),
            }
            let at_ms = bound_ms.unwrap_or(0);
            assert!(!is_due(&stub, at_ms) && !is_due(&image, u64::MAX));
            assert_eq!(is_due(&stub, at_ms.max(EPOCH_MS) + 2 * MINUTE_MS), expires);
            assert!(stub.kind().is_err() && stub.record().is_err());
        }
    }

    #[test]
    fn names_are_in_the_order_of_positions() {
        let name = |position, version| Name { position, version };
        let names = [name(0, 5), name(1, 0), name(1, 7), name(256, 1), name((1 << 40) - 1, 3)];
        assert!(names.is_sorted() && names.map(|name| name.bytes()).is_sorted());
    }
}
