//! A transaction's look at a key whose place was prefetched: by the fast path, without marks.

use crate::access::locate::{Location, Reading, Search};
use crate::access::lookup::Hit;
use crate::access::read::{first_at, record_of};
use crate::api::Stop;
use crate::layout::entry::{Image, is_cold};
use crate::layout::record;
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
            Some(Search::Absent) => return Ok(location.is_absent(segment, &home).then_some(None)),
            None => return Ok(None),
        };
        let mut image = Image::EMPTY;
        if location.read_entry(segment, (&reading, unit), &mut image).is_none() || !self.seat.covers_now() {
            return Ok(None);
        }
        if is_cold(&image) {
            // It may be another key's.
            return Ok(None);
        }
        let found = match image.kind()? {
            Some(kind) if image.is_reference() => match record_of(segment, &image, key)? {
                Some(record) => Some(record::found_in(&image, kind, &record)),
                None => return Ok(None),
            },
            // It may be another key's.
            None if image.is_reference() => return Ok(None),
            _ => self.found(&image)?,
        };
        let hit = Hit { image, first_at: first_at((&reading, unit)) };
        Ok(Some(found.map(|found| (hit, found))))
    }
}
