//! Addresses at which the processes of a memory serve clients of NATS: a client learns of its server's
//! neighbours, and goes to one of them when the server ends.
//!
//! ```text
//!   subj:A   address by address, the seats whose processes listen there, as a group
//! ```

use polder_table::{CommitView, Mode, SYSTEM, Stop, Table};

use crate::group::{entries, rewritten};
use crate::{post, record};

pub(crate) const KEY: &[u8] = b"subj:A";

/// Says that the process of the calling thread listens at these addresses, and at no others. One thread of a
/// process does so.
///
/// # Errors
/// Busy: another thread has the list. A fault.
pub fn tell(table: &Table, addresses: &[String]) -> Result<(), Stop> {
    let addresses: Vec<&[u8]> = addresses.iter().map(String::as_bytes).collect();
    post::run(table, &mut |txn| {
        let bytes = record::bytes(txn, txn.peek(SYSTEM, KEY)?)?.unwrap_or_default();
        let names: Vec<&[u8]> = entries(&bytes).map(|entry| entry.name).collect();
        // All that the seat has there.
        let others = rewritten(txn, &bytes, &names, i64::MIN);
        let written = rewritten(txn, &others, &addresses, 1);
        if written == *bytes { Ok(()) } else { record::put(txn, KEY, &written) }
    })
}

/// The addresses at which living processes listen, in order.
///
/// # Errors
/// A fault.
pub fn known(table: &Table) -> Result<Vec<String>, Stop> {
    let txn = table.begin(Mode::Read)?;
    let bytes = record::bytes(&txn, txn.glimpse(SYSTEM, KEY)?)?.unwrap_or_default();
    let living = entries(&bytes).filter(|entry| !record::living(txn.segment(), entry.records).is_empty());
    let mut addresses: Vec<String> =
        living.map(|entry| String::from_utf8_lossy(entry.name).into_owned()).collect();
    addresses.sort_unstable();
    Ok(addresses)
}
