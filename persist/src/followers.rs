//! Followers of the change log that have a name: the hidden database keeps their places, and the log is kept for them.
//!
//! Each has a record of its own, `changes:follower:SLOT`, and the slot of the log with the same number ([`polder_table::Log::hold`]). The first slot is the
//! storage process's.
//!
//! **Why the log is there when a follower comes back.** A record is one transaction, and moves on before its slot does. So a death between the two leaves a
//! slot that names an earlier offset and keeps more than is needed. Where the record is new or moves back, or is to be forgotten, the slot may keep less
//! than the record names after a death, and also where two programs use one name at the same time. The next call that reads or moves the record sets the
//! slot. What was trimmed meanwhile is told by an error and never passed over, since the reader asks for an offset that is not kept.
use polder_base::words::{quote, split};
use polder_shm::layout::log::HOLD_SLOTS;
use polder_table::{Mode, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, string};

use polder_runtime::retry::retry;

/// The slots of named followers.
const SLOTS: std::ops::Range<u64> = 1..HOLD_SLOTS;

/// A named follower's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The follower's name, any bytes.
    pub name: Vec<u8>,
    /// The identity of the stream, and the bytes of it that are behind the follower.
    pub identity: String,
    pub offset: u64,
    /// What else the follower needs to go on, a word.
    pub rest: String,
}

impl Place {
    fn text(&self) -> String {
        format!("{} {} {} {}", quote(&self.name), self.identity, self.offset, quote(self.rest.as_bytes()))
    }

    fn parse(text: &[u8]) -> Option<Place> {
        let [name, identity, offset, rest] = <[Vec<u8>; 4]>::try_from(split(text)?).ok()?;
        let text = |word| String::from_utf8(word).ok();
        let (identity, offset, rest) = (text(identity)?, text(offset)?.parse().ok()?, text(rest)?);
        Some(Place { name, identity, offset, rest })
    }
}

fn key_of(slot: u64) -> Vec<u8> {
    format!("changes:follower:{slot}").into_bytes()
}

fn read(txn: &Txn<'_>, slot: u64) -> Result<Option<Place>, Stop> {
    let Some(found) = txn.peek(SYSTEM, &key_of(slot))? else { return Ok(None) };
    Ok(Place::parse(&string::contiguous(txn, &found.value)?))
}

/// Runs `work` over all slots, in one transaction.
fn with_slots<R>(
    table: &Table,
    mode: Mode,
    mut work: impl FnMut(&Txn<'_>, &[(u64, Option<Place>)]) -> Result<R, Stop>,
) -> Result<R, Stop> {
    let txn = table.begin(mode)?;
    let mut done = None;
    retry(&txn, || {
        if mode == Mode::Write {
            let keys: Vec<Vec<u8>> = SLOTS.map(key_of).collect();
            let keys: Vec<(_, &[u8])> = keys.iter().map(|key| (SYSTEM, &key[..])).collect();
            txn.declare(&keys)?;
        }
        let slots: Result<Vec<_>, Stop> = SLOTS.map(|slot| Ok((slot, read(&txn, slot)?))).collect();
        done = Some(work(&txn, &slots?)?);
        Ok(())
    })?;
    Ok(done.expect("the transaction was run"))
}

/// All named followers.
///
/// # Errors
/// Faults of the memory.
pub fn all(table: &Table) -> Result<Vec<Place>, Stop> {
    with_slots(table, Mode::Read, |_, slots| {
        Ok(slots.iter().filter_map(|(_, place)| place.clone()).collect())
    })
}

/// Returns them with their slots, as a part of a transaction.
///
/// # Errors
/// Faults of the memory.
pub fn within(txn: &Txn<'_>) -> Result<Vec<(u64, Place)>, Stop> {
    let found = SLOTS.map(|slot| Ok(read(txn, slot)?.map(|place| (slot, place))));
    found.filter_map(Result::transpose).collect()
}

/// The place of a follower, for which the log is kept from here on; `None`: there is none of this name.
///
/// # Errors
/// Faults of the memory.
pub fn find(table: &Table, name: &[u8]) -> Result<Option<Place>, Stop> {
    let found = with_slots(table, Mode::Read, |_, slots| Ok(of(slots, name)))?;
    if let Some((slot, place)) = &found {
        hold(table, *slot, place);
    }
    Ok(found.map(|(_, place)| place))
}

/// Notes where a follower is, and has the log kept from there on. One that is not known yet becomes known. Returns its slot.
///
/// # Errors
/// [`Stop::Refused`] where there are too many followers, or the log is not kept from there on; what the memory says.
pub fn keep(table: &Table, place: &Place) -> Result<u64, Stop> {
    keep_instead(table, place, None)
}

/// Like [`keep`], and takes the slot of `earlier`, if that is noted still: the log stays held from there on until it is held for the new place.
///
/// # Errors
/// Those of [`keep`].
pub fn keep_instead(table: &Table, place: &Place, earlier: Option<&Place>) -> Result<u64, Stop> {
    check(table, place)?;
    let slot = with_slots(table, Mode::Write, |txn, slots| {
        let free = || slots.iter().find(|(_, place)| place.is_none()).map(|(slot, _)| *slot);
        let of_earlier = || {
            let earlier = earlier?;
            slots.iter().find(|(_, other)| other.as_ref() == Some(earlier)).map(|(slot, _)| *slot)
        };
        let own = of(slots, &place.name).map(|(slot, _)| slot);
        let Some(slot) = own.or_else(of_earlier).or_else(free) else {
            let text =
                format!("ERR there are {} followers with a name, and no more: forget one", slots.len());
            return Err(text.into());
        };
        let text = place.text();
        let value = string::make(txn, text.as_bytes())?;
        txn.write(SYSTEM, &key_of(slot), &New::of(Kind::String, value), Replaces::Whole)?;
        Ok(slot)
    })?;
    hold(table, slot, place);
    // It may have been trimmed before the slot said so.
    check(table, place).map(|()| slot)
}

/// Whether the log can be read from a place on.
pub fn check(table: &Table, place: &Place) -> Result<(), Stop> {
    let (log, (first, end)) = (table.log(), table.log().range());
    let why = match () {
        () if !log.is_on() => "off".into(),
        () if log.identity() != place.identity => format!("the one of {}", log.identity()),
        () if !(first..=end).contains(&place.offset) => format!("kept from offset {first} to {end}"),
        () => return Ok(()),
    };
    let (identity, offset) = (&place.identity, place.offset);
    Err(format!("ERR the change log is {why}, and {identity}:{offset} is not in it: copy the data, and keep a new position").into())
}

/// Forgets a follower; returns whether it was known.
///
/// # Errors
/// Faults of the memory.
pub fn forget(table: &Table, name: &[u8]) -> Result<bool, Stop> {
    with_slots(table, Mode::Write, |txn, slots| {
        let Some((slot, _)) = of(slots, name) else { return Ok(false) };
        table.log().hold(slot, None);
        txn.remove(SYSTEM, &key_of(slot), Replaces::Whole)?;
        Ok(true)
    })
}

/// Has nothing kept for named followers any more: the stream has ended that they follow.
pub fn release(table: &Table) {
    SLOTS.for_each(|slot| table.log().hold(slot, None));
}

fn of(slots: &[(u64, Option<Place>)], name: &[u8]) -> Option<(u64, Place)> {
    let places = slots.iter().filter_map(|(slot, place)| Some((*slot, place.as_ref()?)));
    places.into_iter().find(|(_, place)| place.name == name).map(|(slot, place)| (slot, place.clone()))
}

/// Keeps the log for a place, if it is one of the present stream.
fn hold(table: &Table, slot: u64, place: &Place) {
    let is_present = table.log().is_on() && table.log().identity() == place.identity;
    table.log().hold(slot, is_present.then_some(place.offset));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = |name: &[u8], rest: &str| Place {
            name: name.to_vec(),
            identity: "0f".repeat(20),
            offset: 7,
            rest: rest.into(),
        };
        for place in [place(b"search", "3"), place(b"", ""), place(b"two words\n\"\x00\xff", "-")] {
            assert_eq!(Place::parse(place.text().as_bytes()), Some(place));
        }
        assert_eq!(Place::parse(b"search"), None);
    }
}
