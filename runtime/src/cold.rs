//! Calls that need values of a tier: what they want is asked for, and they are run again.
use polder_calls::call::Outcome;
use polder_hub::tier::{self, Failure, Trouble};
use polder_hub::tier_wait;
use polder_table::{Db, Stop, Txn};

/// The error of a call that needs a value of a tier that no process has.
pub const NO_PROCESS: &str =
    "TRYAGAIN the tier of this memory has no process: start a server with swap-mode disk";

/// Keys of one call whose values are asked for together, at most.
const AHEAD_MAX: usize = 4096;

/// Has the values come that an aborted transaction wants, and those of `keys`, which it has named before. Returns if it may run again.
///
/// # Errors
/// [`Stop::Busy`] where the transaction does not wait: what it wants is to be sent by [`tier::send`], and the call to be made again once it is there. The
/// reason why the values do not come.
#[cold]
pub(crate) fn await_values(txn: &Txn<'_>, keys: &[(Db, &[u8])]) -> Outcome {
    if keys.len() > 1 {
        txn.meet_all(&keys[..keys.len().min(AHEAD_MAX)]);
    }
    let (table, wanted) = (txn.table(), txn.take_cold());
    if wanted.is_empty() {
        return Err(NO_PROCESS.into());
    }
    tier::want(table, &wanted).map_err(text_of)?;
    if txn.is_impatient() {
        return Err(Stop::Busy);
    }
    // V7: with no lock, no pin and no transaction.
    txn.suspended(|| tier_wait::wait(table, &wanted));
    Ok(())
}

/// The error that a client is told.
fn text_of(trouble: Trouble) -> Stop {
    match trouble {
        Trouble::NoProcess => NO_PROCESS.into(),
        Trouble::Stopped(process) => format!(
            "TRYAGAIN process {process} has the tier of this memory and does not respond; continue it (kill -CONT {process}) or end it"
        )
        .into(),
        Trouble::Late(cold) => format!(
            "TRYAGAIN the tier does not bring this value (database {}, position {:#x}): the log of its server says why",
            cold.db, cold.name.position
        )
        .into(),
        Trouble::Failed(failure, cold) => {
            let why = match failure {
                Failure::Missing => "ERR the tier has no copy of this value",
                Failure::Damaged => "ERR the tier cannot read this value",
                Failure::Full => "OOM there is no memory for a value of the tier",
            };
            format!("{why} (database {}, position {:#x}): the server's log says more", cold.db, cold.name.position).into()
        }
    }
}
