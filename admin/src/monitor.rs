//! MONITOR begins to show a client every call: `polder_runtime::monitor` does so as calls are run.
use polder_calls::call::Outcome;
use polder_calls::command::{ADMIN, LOADING, NOSCRIPT, STALE};
use polder_hub::monitor as monitors;
use polder_runtime::row::{Row, SessionCall, session};

/// The family's rows.
pub const COMMANDS: &[Row] = &[session("MONITOR", "", monitor)
    .with(ADMIN | NOSCRIPT | LOADING | STALE)
    .about("Listens for all requests received by the server in real-time.")];

fn monitor(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.caller.atomic {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    polder_hub::attend(call.table)?;
    if call.session.identity.id == 0 {
        call.session.identity.id = polder_hub::next_client(call.table);
    }
    call.session.listening.monitors = true;
    monitors::note_monitor(call.table, call.session.identity.id, true);
    call.reply.ok();
    Ok(())
}
