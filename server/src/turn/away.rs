//! Reasons for which no call is run that needs the data: it is being read, or it is that of a primary that is gone.
use polder_calls::command::{Command, LOADING, RUNS_QUEUE, SCRIPTS, STALE};
use polder_calls::settings::id;
use polder_runtime::{Host, Session, execute};

use crate::host::Process;

/// Why calls are refused for a while, and which are not.
pub struct TurnAway {
    pub why: &'static str,
    pub allows: fn(&Session, &[&[u8]]) -> bool,
}

/// Calls that need data which is being read: Redis's text.
const LOADING_DATA: TurnAway =
    TurnAway { why: "LOADING Redis is loading the dataset in memory", allows: is_allowed_while_loading };

/// Calls to a replica that has lost its primary: Redis's text.
const STALE_DATA: TurnAway = TurnAway {
    why: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    allows: is_allowed_while_stale,
};

/// Why the process runs no call that needs the data, if it does not.
pub fn why_away(process: &Process) -> Option<&'static TurnAway> {
    let table = process.memory.table();
    if process.is_loading() {
        return Some(&LOADING_DATA);
    }
    let is_stale = table.role().is_replica()
        && !process.settings.is_on(const { id("replica-serve-stale-data") })
        && !table.segment().link().is_up();
    is_stale.then_some(&STALE_DATA)
}

/// Returns true if a request is executed while the data is being read.
fn is_allowed_while_loading(_session: &Session, args: &[&[u8]]) -> bool {
    execute::resolve(args).is_ok_and(|command| command.has(LOADING))
}

/// Returns true if a request is executed while the link to the primary is down: not a script, nor an EXEC of calls of which one is not. One that writes is: it is told
/// that this is a replica.
fn is_allowed_while_stale(session: &Session, args: &[&[u8]]) -> bool {
    let is_fit = |command: &Command| command.has(STALE) && !command.has(SCRIPTS) || command.is_write();
    let Ok(command) = execute::resolve(args) else { return false };
    let queued = session.multi.as_ref().filter(|_| command.has(RUNS_QUEUE));
    is_fit(command) && queued.is_none_or(|multi| multi.queue.commands().all(is_fit))
}
