//! A transaction that is run again until it commits.
use polder_calls::call::Outcome;

use crate::cold;
use polder_table::{Stop, Txn};

/// Runs `work` and commits, again and again while the transaction asks for it.
pub fn retry(txn: &Txn<'_>, mut work: impl FnMut() -> Outcome) -> Outcome {
    loop {
        match work().and_then(|()| txn.commit()) {
            Ok(()) => return Ok(()),
            Err(Stop::Cold) => {
                txn.abort();
                txn.looks().set([0; 2]);
                cold::await_values(txn)?;
            }
            Err(stop) => {
                txn.abort();
                let stop = if stop == Stop::Retry { None } else { txn.await_room(stop).err() };
                if matches!(stop, None | Some(Stop::Busy | Stop::Wait)) {
                    txn.looks().set([0; 2]);
                }
                if let Some(stop) = stop {
                    return Err(stop);
                }
            }
        }
    }
}
