//! A transaction that is run again until it commits.
use crate::cold;
use polder_table::{Db, Stop, Txn};

/// Runs `work` and commits, again and again while the transaction asks for it.
///
/// # Errors
/// Those of `work` and of a commit. [`Stop::Busy`] where the transaction does not wait; if it has met stubs, `polder_hub::tier::send` asks for their values.
pub fn retry<R>(txn: &Txn<'_>, work: impl FnMut() -> Result<R, Stop>) -> Result<R, Stop> {
    retry_on(txn, &[], work)
}

/// Does the work of [`retry`] for a transaction on these keys: if one of them has its value in a tier, it is asked for those of all of them together.
///
/// # Errors
/// Those of [`retry`].
pub fn retry_on<R>(
    txn: &Txn<'_>,
    keys: &[(Db, &[u8])],
    mut work: impl FnMut() -> Result<R, Stop>,
) -> Result<R, Stop> {
    loop {
        match work().and_then(|done| txn.commit().map(|()| done)) {
            Ok(done) => return Ok(done),
            Err(Stop::Cold) => {
                txn.abort();
                txn.looks().set([0; 2]);
                cold::await_values(txn, keys)?;
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
