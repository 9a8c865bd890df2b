//! The replicas of a memory: followers of the change log whose record says who feeds them, and how far they are.
//!
//! Any server of the memory reads the records. The feed writes its own each second. The record of a feed that has died holds the log
//! until its replica is back, or for [`RETURN_MS`]: then maintenance [clears](clear) it away.
use polder_base::time::now_ms;
use polder_base::words::{quote, split};
use polder_shm::layout::log::HOLD_SLOTS;
use polder_table::{Stop, Table, Txn};

use polder_persist::followers::{self, Place};

/// The time for which the log is held for a replica whose feed has died, in milliseconds since its last acknowledgement.
const RETURN_MS: u64 = 60_000;

/// The first word of a replica's record; records of other followers have another.
const MARK: &[u8] = b"replica";

/// The stage of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for the copy of the data, or takes it.
    Copies,
    /// It reads the change log.
    Online,
}

/// A replica and its feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Tells it from all others: the process of its feed, and the client.
    pub name: String,
    /// The seat of the feed.
    pub seat: u64,
    pub life: u64,
    /// The replica's own host and port.
    pub address: String,
    pub port: u16,
    pub state: State,
    /// The offset that it has acknowledged, and when, in milliseconds since the epoch; 0: not yet.
    pub acknowledged: u64,
    pub acknowledged_ms: u64,
}

impl Record {
    /// The follower's place that holds the record.
    pub fn place(&self, identity: &str, offset: u64) -> Place {
        let state = match self.state {
            State::Copies => "copies",
            State::Online => "online",
        };
        let address = quote(self.address.as_bytes());
        let Record { seat, life, port, acknowledged, acknowledged_ms, .. } = self;
        let rest = format!("replica {seat} {life} {port} {state} {acknowledged} {acknowledged_ms} {address}");
        Place { name: self.name.clone().into_bytes(), identity: identity.to_owned(), offset, rest }
    }

    fn read(place: &Place) -> Option<Record> {
        let words = split(place.rest.as_bytes())?;
        let [mark, seat, life, port, state, acknowledged, acknowledged_ms, address] = &words[..] else {
            return None;
        };
        let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
        let state = match &state[..] {
            b"copies" => State::Copies,
            b"online" => State::Online,
            _ => return None,
        };
        (mark == MARK).then_some(())?;
        Some(Record {
            name: String::from_utf8_lossy(&place.name).into_owned(),
            seat: number(seat)?,
            life: number(life)?,
            address: String::from_utf8(address.clone()).ok()?,
            port: number(port)?.try_into().ok()?,
            state,
            acknowledged: number(acknowledged)?,
            acknowledged_ms: number(acknowledged_ms)?,
        })
    }
}

/// The replicas whose feeds live.
///
/// # Errors
/// Faults of the memory.
pub fn within(table: &Table, txn: &Txn<'_>) -> Result<Vec<Record>, Stop> {
    let words = table.segment().replicas();
    let record_of = |(slot, place): (u64, Place)| {
        let mut record = Record::read(&place)?;
        // The record is written each second, the line with each acknowledgement.
        if let Some(read) =
            words.acknowledged(slot, record.seat, record.life).filter(|read| read.heard_ms != 0)
        {
            (record.acknowledged, record.acknowledged_ms) = (read.place, read.heard_ms);
        }
        table.segment().lives(record.seat, record.life).then_some(record)
    };
    Ok(followers::within(txn)?.into_iter().filter_map(record_of).collect())
}

/// Returns what a dead feed has left whose slot the feed of `record` takes. A replica that goes on at `continued` gets that of its own address and port which
/// has acknowledged the most up to there: so two replicas behind one address do not take each other's. One that wants a copy gets a slot of its own, or
/// that of the feed which has been dead for the longest time where none is free.
///
/// # Errors
/// Faults of the memory.
pub fn earlier(
    table: &Table,
    record: &Record,
    identity: &str,
    continued: Option<u64>,
) -> Result<Option<Place>, Stop> {
    let all = followers::all(table)?;
    let is_full = all.len() as u64 >= HOLD_SLOTS - 1;
    let dead = all.into_iter().filter_map(|place| {
        let other = Record::read(&place)?;
        (!table.segment().lives(other.seat, other.life)).then_some((other, place))
    });
    let found = match continued {
        Some(end) => dead
            .filter(|(other, place)| {
                let is_own = (&other.address, other.port) == (&record.address, record.port);
                is_own && place.identity == identity && other.acknowledged <= end
            })
            .max_by_key(|(other, _)| other.acknowledged),
        None => dead.filter(|_| is_full).min_by_key(|(other, _)| other.acknowledged_ms),
    };
    Ok(found.map(|(_, place)| place))
}

/// Forgets replicas whose feeds have died and that have not acknowledged anything for [`RETURN_MS`].
///
/// # Errors
/// Faults of the memory.
pub fn clear(table: &Table) -> Result<(), Stop> {
    table.segment().replicas().sweep(&*table.seat()?);
    let is_held = (1..HOLD_SLOTS).any(|slot| table.log().held(slot).is_some());
    if !is_held {
        return Ok(());
    }
    let now_ms = now_ms();
    for record in followers::all(table)?.iter().filter_map(Record::read) {
        let is_dead = !table.segment().lives(record.seat, record.life);
        if is_dead && now_ms.saturating_sub(record.acknowledged_ms) > RETURN_MS {
            followers::forget(table, record.name.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for (address, state) in
            [("127.0.0.1", State::Copies), ("", State::Online), ("a \"name\"", State::Online)]
        {
            let record = Record {
                name: "replica:1:2".into(),
                seat: 3,
                life: 4,
                address: address.into(),
                port: 6379,
                state,
                acknowledged: 1 << 40,
                acknowledged_ms: 5,
            };
            let place = record.place(&"0f".repeat(20), 9);
            assert_eq!(Record::read(&place), Some(record));
        }
        let other =
            Place { name: b"search".to_vec(), identity: "0f".repeat(20), offset: 7, rest: "3".into() };
        assert_eq!(Record::read(&other), None);
    }
}
