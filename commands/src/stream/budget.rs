//! MAXCOUNT and MAXSIZE of XREAD and XREADGROUP: how much all streams of a call may reply together.
//!
//! Bytes are those of the reply in RESP. An entry that does not fit ends the reply, but the first one is there whatever its size.
use polder_base::number;
use polder_table::Stop;
use polder_values::stream::{Entry, Id, Range, Stream};

use polder_calls::call::Outcome;

/// Entries that are looked at before the next ones are read.
const CHUNK: u64 = 64;

/// The rest of the limits for the streams of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    entries: u64,
    bytes: Option<u64>,
    has_some: bool,
}

/// The limits that a call has named.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Wanted {
    pub entries: Option<u64>,
    pub bytes: Option<u64>,
}

impl Wanted {
    /// Reads the number behind an option.
    pub fn parse(text: &[u8], option: &str) -> Result<u64, Stop> {
        let number = number::integer(text).and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("ERR {option} must be a positive integer").into())
    }

    /// Checks that one stream may reply no more than all of them; `limit` is COUNT's.
    pub fn check(&self, limit: u64) -> Outcome {
        match self.entries {
            Some(entries) if limit != u64::MAX && entries < limit => {
                Err("ERR MAXCOUNT must be greater than or equal to COUNT".into())
            }
            _ => Ok(()),
        }
    }

    /// The budget, if there is a limit.
    pub fn budget(&self) -> Option<Budget> {
        let is_limited = self.entries.is_some() || self.bytes.is_some();
        let entries = self.entries.unwrap_or(u64::MAX);
        is_limited.then_some(Budget { entries, bytes: self.bytes, has_some: false })
    }
}

/// Bytes of a string of this length, with what stands around it.
fn bulk_bytes(len: usize) -> u64 {
    len as u64 + digits(len as u64) + 5
}

/// Bytes of what begins an array.
fn array_bytes(len: usize) -> u64 {
    digits(len as u64) + 3
}

fn digits(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

fn id_bytes(id: Id) -> u64 {
    bulk_bytes((digits(id.ms) + digits(id.seq) + 1) as usize)
}

impl Budget {
    /// Returns true if nothing more can be replied.
    pub fn is_spent(&self) -> bool {
        self.entries == 0 || self.has_some && self.bytes == Some(0)
    }

    /// Takes an entry of this size. Returns whether it fits.
    fn take(&mut self, bytes: u64) -> bool {
        let fits = self.entries > 0 && (!self.has_some || self.bytes.is_none_or(|left| bytes <= left));
        if fits {
            self.has_some = true;
            self.entries -= 1;
            self.bytes = self.bytes.map(|left| left.saturating_sub(bytes));
        } else {
            self.entries = 0;
        }
        fits
    }

    fn take_entry(&mut self, entry: &Entry<'_>) -> bool {
        let texts = entry.pairs().map(|(field, value)| bulk_bytes(field.len()) + bulk_bytes(value.len()));
        self.take(array_bytes(2) + id_bytes(entry.id) + array_bytes(entry.len() * 2) + texts.sum::<u64>())
    }

    /// Takes entries by their ids, the first ones that fit. Returns how many.
    pub fn take_ids(&mut self, stream: &Stream<'_>, ids: impl Iterator<Item = Id>) -> Result<u64, Stop> {
        let mut taken = 0;
        for id in ids {
            let mut fits = None;
            if self.bytes.is_some() {
                stream.get(id, &mut |entry| fits = Some(self.take_entry(entry)))?;
            }
            // One that is not there any more is told by its id.
            if !fits.unwrap_or_else(|| self.take(array_bytes(2) + id_bytes(id) + array_bytes(0))) {
                break;
            }
            taken += 1;
        }
        Ok(taken)
    }

    /// Takes the first entries of a range that fit. Returns how many.
    pub fn take_range(&mut self, stream: &Stream<'_>, range: &Range) -> Result<u64, Stop> {
        if self.bytes.is_none() {
            let taken = stream.count(&Range { limit: range.limit.min(self.entries), ..*range })?;
            self.entries -= taken;
            return Ok(taken);
        }
        let (mut taken, mut next) = (0, Some(range.start));
        while let Some(start) = next
            && taken < range.limit
            && !self.is_spent()
        {
            let (mut last, mut seen, mut fits) = (None, 0, true);
            let limit = CHUNK.min(range.limit - taken);
            stream.walk(&Range { start, limit, ..*range }, &mut |entry| {
                fits = fits && self.take_entry(entry);
                taken += u64::from(fits);
                (last, seen) = (Some(entry.id), seen + 1);
            })?;
            next = last.filter(|_| fits && seen == CHUNK).and_then(Id::next);
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_fits_and_one_that_does_not_ends_it() {
        let mut budget = Wanted { entries: Some(3), bytes: Some(100) }.budget().expect("a limit");
        assert!(budget.take(500) && budget.is_spent() && !budget.take(1));
        let mut budget = Wanted { entries: Some(3), bytes: Some(100) }.budget().expect("a limit");
        assert!(budget.take(60) && !budget.take(41) && !budget.take(1));
        let mut budget = Wanted { entries: Some(2), bytes: None }.budget().expect("a limit");
        assert!(budget.take(u64::MAX) && budget.take(u64::MAX) && budget.is_spent());
        assert!(Wanted::default().budget().is_none());
    }

    #[test]
    fn bytes_are_those_of_the_reply() {
        assert_eq!(bulk_bytes(12), "$12\r\n123456789012\r\n".len() as u64);
        assert_eq!(array_bytes(10), "*10\r\n".len() as u64);
        assert_eq!(id_bytes(Id { ms: 10, seq: 0 }), "$4\r\n10-0\r\n".len() as u64);
    }
}
