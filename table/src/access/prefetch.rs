//! Prefetching for calls of many keys: the cache misses of all of them at once.

use polder_shm::{Segment, offset_of};
use smallvec::SmallVec;

use crate::access::locate::Location;
use crate::api::Db;
use crate::layout::bucket::{self, LINE_WORDS};
use crate::layout::hash::FREE;
use crate::layout::{directory, entry, raw};
use crate::table::Table;

/// Keys whose misses are taken at once.
pub(crate) const PREFETCH_KEYS: usize = 64;

impl Table {
    /// Brings near what a call for each of these keys will look at, all keys' misses at once: first the header lines, then the
    /// entries whose tags match, then the records that these name. A hint: nothing is locked, nothing is believed. Adds to `locations`,
    /// for each key, where it belongs.
    pub fn prefetch<'k>(
        &self,
        keys: impl IntoIterator<Item = (Db, &'k [u8])>,
        locations: &mut Vec<Option<Location>>,
    ) {
        let segment = &**self.segment();
        let first = locations.len();
        locations.extend(keys.into_iter().map(|(db, key)| {
            let location = Location::of(segment, db, key);
            if let Some(location) = &location {
                segment.prefetch(location.bucket.line);
            }
            location
        }));
        let locations = &locations[first..];
        if locations.len() < 2 {
            return;
        }
        for locations in locations.chunks(PREFETCH_KEYS) {
            let mut entries: SmallVec<[u64; PREFETCH_KEYS]> = SmallVec::new();
            for location @ Location { bucket, hash, .. } in locations.iter().flatten() {
                let found = raw::units_tagged(segment.raw_view(), bucket.line, hash.tag);
                if found != 0 {
                    let entry = bucket.word_at(LINE_WORDS + found.trailing_zeros() as usize * 2);
                    segment.prefetch(entry);
                    segment.prefetch(entry + 32);
                    entries.push(entry);
                } else {
                    prefetch_elsewhere(segment, location);
                }
            }
            for entry in entries {
                let second = segment.load(entry + 8);
                if entry::names_record(second) {
                    segment.prefetch(offset_of(entry::record_of(second)));
                    segment.prefetch(offset_of(entry::record_of(second)) + 64);
                }
            }
        }
    }
}

/// Brings near what a key that does not lie at home may need: the units where a new entry would go, the lines of the other buckets where
/// an old one may lie or a new one must go.
fn prefetch_elsewhere(segment: &Segment, location: &Location) {
    let free = raw::units_tagged(segment.raw_view(), location.bucket.line, FREE);
    if free != 0 {
        let place = location.bucket.word_at(LINE_WORDS + free.trailing_zeros() as usize * 2);
        segment.prefetch(place);
        segment.prefetch(place + 32);
    }
    let counts = match free {
        0 => (1, 1),
        _ => bucket::displaced(segment.load(location.bucket.word_at(7))),
    };
    for (index, _) in directory::elsewhere(location.places(), counts) {
        segment.prefetch(location.bucket(segment, index).map_or(0, |bucket| bucket.line));
    }
}
