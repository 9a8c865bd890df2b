//! Samples: what a database holds, for figures that need not be exact and must not cost a walk through everything.

use crate::access::lookup::view;
use crate::api::{Db, Expiries};
use crate::layout::bucket;
use crate::layout::directory::Extent;
use crate::layout::entry::has_expiry;
use crate::txn::Txn;

/// Keys with an expiry that one sample looks at, and buckets in which it looks for them, at most.
const KEYS_MAX: u64 = 200;
const BUCKETS_MAX: u64 = 2_000;

/// A sample that is being taken.
#[derive(Default)]
struct Taking {
    seen: Expiries,
    left_ms_sum: u64,
    buckets: u64,
}

impl Taking {
    fn is_full(&self) -> bool {
        self.seen.keys >= KEYS_MAX || self.buckets >= BUCKETS_MAX
    }

    fn add(&mut self, expiry_ms: u64, now_ms: u64) {
        self.seen.keys += 1;
        if expiry_ms <= now_ms {
            self.seen.expired += 1;
        } else {
            self.left_ms_sum = self.left_ms_sum.saturating_add(expiry_ms - now_ms);
        }
    }

    fn end(self) -> Expiries {
        let living = self.seen.keys - self.seen.expired;
        Expiries { left_ms: self.left_ms_sum.checked_div(living).unwrap_or(0), ..self.seen }
    }
}

impl Txn<'_> {
    /// Looks at some keys with an expiry, as they are committed now. It begins at a random place and passes over extents in which no
    /// key expires, so that a few such keys among millions are found, too.
    pub fn sample_expiries(&self, db: Db) -> Expiries {
        let mut extents: Vec<Extent> = Vec::new();
        let segment = self.segment();
        self.table.each_extent(self.physical(db), &mut |extent| {
            if extent.expiry_min(segment) != u64::MAX {
                extents.push(*extent);
            }
        });
        let first = self.table.draw() as usize % extents.len().max(1);
        let mut taking = Taking::default();
        for extent in
            extents[first..].iter().chain(&extents[..first]).filter(|extent| extent.is_current(segment))
        {
            self.sample_extent(extent, &mut taking);
            if taking.is_full() {
                break;
            }
        }
        taking.end()
    }

    fn sample_extent(&self, extent: &Extent, taking: &mut Taking) {
        let first = self.table.draw() as u64 % extent.buckets();
        for index in (first..extent.buckets()).chain(0..first) {
            if taking.is_full() {
                return;
            }
            taking.buckets += 1;
            let Some(bucket) = extent.bucket(self.segment(), index) else { continue };
            let images = view(&self.seat, bucket, |words| {
                let expiring = bucket::entries(words).map(|(unit, _)| bucket::image_at(words, unit));
                expiring.filter(has_expiry).collect::<Vec<_>>()
            });
            for image in images.filter(|_| self.seat.covers_now()).into_iter().flatten() {
                if let Ok(Some(expiry_ms)) = self.expiry_of(&image) {
                    taking.add(expiry_ms, self.now_ms());
                }
            }
        }
    }
}
