//! The primary that a memory follows: its address stands in the hidden database, where each server of the memory finds it.
use polder_base::words::{quote, split};
use polder_calls::call::Outcome;
use polder_table::{Mode, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, Value, string};

use polder_runtime::retry::retry;

pub(crate) const PRIMARY: &[u8] = b"replication:primary";
/// The reason for which the link is down, in words.
const TROUBLE: &[u8] = b"replication:trouble";

/// The address of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    pub host: String,
    pub port: u16,
    /// A copy without keys may take the place of data: REPLICAOF was given again after such a copy was refused.
    pub accepts_empty: bool,
    /// It is to become a primary by this memory's request ([`failover`](crate::failover)).
    pub takes_over: bool,
}

impl Primary {
    pub(crate) fn text(&self) -> String {
        let accepts = if self.accepts_empty { " empty" } else { "" };
        let takes_over = if self.takes_over { " failover" } else { "" };
        format!("{} {}{accepts}{takes_over}", quote(self.host.as_bytes()), self.port)
    }

    fn parse(text: &[u8]) -> Option<Primary> {
        let words = split(text)?;
        let [host, port, rest @ ..] = &words[..] else { return None };
        Some(Primary {
            host: String::from_utf8(host.clone()).ok()?,
            port: std::str::from_utf8(port).ok()?.parse().ok()?,
            accepts_empty: rest.iter().any(|word| word == b"empty"),
            takes_over: rest.iter().any(|word| word == b"failover"),
        })
    }
}

pub(crate) fn text_at(txn: &Txn<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
    let Some(found) = txn.peek(SYSTEM, key)? else { return Ok(None) };
    Ok(Some(string::contiguous(txn, &found.value)?.into_owned()))
}

/// The primary that this memory is to follow, as a part of a transaction.
///
/// # Errors
/// Faults of the memory.
pub fn within(txn: &Txn<'_>) -> Result<Option<Primary>, Stop> {
    Ok(text_at(txn, PRIMARY)?.as_deref().and_then(Primary::parse))
}

/// The reason for which the link is down, as a part of a transaction.
///
/// # Errors
/// Faults of the memory.
pub fn trouble_within(txn: &Txn<'_>) -> Result<Option<String>, Stop> {
    Ok(text_at(txn, TROUBLE)?.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

pub(crate) fn read<R>(table: &Table, work: impl Fn(&Txn<'_>) -> Result<R, Stop>) -> Result<R, Stop> {
    let txn = table.begin(Mode::Read)?;
    let mut read = None;
    retry(&txn, || {
        read = Some(work(&txn)?);
        Ok(())
    })?;
    Ok(read.expect("the transaction was run"))
}

/// The primary that this memory is to follow.
///
/// # Errors
/// Faults of the memory.
pub fn find(table: &Table) -> Result<Option<Primary>, Stop> {
    read(table, within)
}

/// The reason for which the link is down.
///
/// # Errors
/// Faults of the memory.
pub fn trouble(table: &Table) -> Result<Option<String>, Stop> {
    read(table, trouble_within)
}

/// Writes or removes a text, as a part of a transaction that has declared its key.
pub(crate) fn put(txn: &Txn<'_>, key: &[u8], text: Option<&str>) -> Outcome {
    let Some(text) = text else { return txn.remove(SYSTEM, key, Replaces::Whole).map(drop) };
    let value =
        if text.len() < 100 { Value::Packed(text.as_bytes()) } else { string::make(txn, text.as_bytes())? };
    txn.write(SYSTEM, key, &New::of(Kind::String, value), Replaces::Whole)
}

/// Writes or removes texts, in one transaction.
pub(crate) fn set(table: &Table, texts: &[(&[u8], Option<String>)]) -> Outcome {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&texts.iter().map(|(key, _)| (SYSTEM, *key)).collect::<Vec<_>>())?;
        texts.iter().try_for_each(|(key, text)| put(&txn, key, text.as_deref()))
    })
}

/// Tells why the link is down; `None`: it is up.
///
/// # Errors
/// Faults of the memory.
pub fn tell_trouble(table: &Table, why: Option<&str>) -> Outcome {
    if trouble(table)?.as_deref() == why {
        return Ok(());
    }
    set(table, &[(TROUBLE, why.map(str::to_owned))])
}

/// Makes the memory a replica of a primary. Where it follows that one already, nothing changes, unless the link has refused an empty copy.
///
/// # Errors
/// Faults of the memory; a process that is stopped inside a transaction.
pub fn follow(table: &Table, host: &str, port: u16) -> Outcome {
    let (before, trouble) = (find(table)?, trouble(table)?);
    let is_same = before.is_some_and(|before| before.host == host && before.port == port);
    let is_replica = table.role().is_replica();
    let is_refused = is_replica && trouble.is_some_and(|trouble| trouble.starts_with(&empty(host, port)));
    if is_same && is_replica && !is_refused {
        return Ok(());
    }
    let primary =
        Primary { host: host.to_owned(), port, accepts_empty: is_same && is_refused, takes_over: false };
    set(table, &[(PRIMARY, Some(primary.text())), (TROUBLE, None)])?;
    table.follow()?;
    tracing::info!(host, port, "the memory is a replica now");
    Ok(())
}

/// Makes the memory a primary.
///
/// # Errors
/// Faults of the memory.
pub fn promote(table: &Table) -> Outcome {
    if !table.role().is_replica() && !table.segment().refuses_writes() {
        return Ok(());
    }
    table.promote()?;
    tracing::info!(offset = table.log().offset_of(table.log().range().1), "the memory is a primary now");
    set(table, &[(PRIMARY, None), (TROUBLE, None)])
}

/// The beginning of the trouble of a link whose primary has nothing.
pub fn empty(host: &str, port: u16) -> String {
    format!("the primary is empty ({host}:{port})")
}

/// Notes that an empty copy was accepted: the next one is not. As a part of the transaction that installs it.
///
/// # Errors
/// Faults of the memory.
pub fn accept(txn: &Txn<'_>) -> Result<(), Stop> {
    let Some(primary) = within(txn)?.filter(|primary| primary.accepts_empty) else { return Ok(()) };
    put(txn, PRIMARY, Some(&Primary { accepts_empty: false, ..primary }.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for (host, accepts_empty) in [("127.0.0.1", false), ("::1", true), ("a \"name\"", false)] {
            let primary =
                Primary { host: host.into(), port: 6379, accepts_empty, takes_over: !accepts_empty };
            assert_eq!(Primary::parse(primary.text().as_bytes()), Some(primary));
        }
        assert_eq!(Primary::parse(b"host"), None);
    }
}
