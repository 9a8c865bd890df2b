//! A transaction's look at a key whose place was prefetched: by the fast path, without marks.

use crate::access::locate::{Location, Reading, Search};
use crate::access::lookup::{Hit, Live};
use crate::api::Stop;
use crate::layout::bucket::{self, LINE_WORDS};
use crate::layout::entry::Image;
use crate::layout::record::{self, Key};
use crate::txn::Txn;
use crate::txn::held::Met;

impl Txn<'_> {
    /// Finds a key of any type by the fast path; the result was true at one moment of this transaction. `None`: take the slow path.
    pub(crate) fn find_located(
        &self,
        location: &Location,
        key: &[u8],
    ) -> Result<Option<Option<Met<'_>>>, Stop> {
        let segment = self.segment();
        let Some(home) = Reading::begin(segment, location.bucket) else { return Ok(None) };
        let (reading, unit) = match location.search(segment, key, home) {
            Some(Search::Here(reading, unit) | Search::Record(reading, unit)) => (reading, unit),
            Some(Search::Absent) => {
                return Ok((location.is_current(segment) && home.holds(segment)).then_some(None));
            }
            None => return Ok(None),
        };
        let mut image = Image::EMPTY;
        bucket::read_image(&Live { segment, bucket: reading.bucket }, unit, &mut image);
        // T3: as in `read_record`.
        if !self.seat.covers_now() || !location.is_current(segment) || !reading.holds(segment) {
            return Ok(None);
        }
        let found = if image.is_reference() {
            let record = self.record(image.record()?)?;
            // Another key of the same 24 bits, or a long one: rare.
            if !matches!(record.key, Key::Short(stored) if stored == key) {
                return Ok(None);
            }
            image.kind()?.map(|kind| record::found_in(&image, kind, &record))
        } else {
            self.found(&image)?
        };
        let hit = Hit { image, first_at: reading.bucket.word_at(LINE_WORDS + unit * 2) };
        Ok(Some(found.map(|found| (hit, found))))
    }
}
