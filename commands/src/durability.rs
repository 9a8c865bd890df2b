//! WAIT and WAITAOF: until when replicas and append-only files have what was written. They cover all commits up to the call, not only the client's own
//! (`polder_shm::replicas`, R4).
use polder_base::number;
use polder_table::Mode;
use polder_values::Kind;

use polder_calls::call::{Call, Outcome, integer};
use polder_calls::command::{BLOCKING, Command, neutral};
use polder_calls::settings::id;
use polder_calls::waiting::{self, Copies, Otherwise, Wait};

const COUNTS: &[&str] = &["request_policy:all_shards", "response_policy:agg_min"];

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    neutral("WAIT", "numreplicas timeout", Mode::Write, wait)
        .with(BLOCKING)
        .tips(COUNTS)
        .since("3.0.0")
        .about("Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed."),
    neutral("WAITAOF", "numlocal numreplicas timeout", Mode::Write, wait_for_log).with(BLOCKING).tips(COUNTS).since("7.2.0").about(
        "Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the master \
             and/or replicas.",
    ),
];

/// Refuses a call in a replica: what it has was written elsewhere.
fn check_primary(call: &Call<'_>, name: &str) -> Outcome {
    if !call.table.role().is_replica() {
        return Ok(());
    }
    Err(format!(
        "ERR {name} cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated."
    )
    .into())
}

fn wait(call: &mut Call<'_>) -> Outcome {
    check_primary(call, "WAIT")?;
    let replicas = integer(call.args[1])?;
    let timeout_ms = waiting::milliseconds(call.args[2])?;
    let replicas = u64::try_from(replicas).unwrap_or(0);
    let mut copies = awaited(call, Copies { csn: 0, in_file: false, replicas, in_files: false });
    // All replicas that have acknowledged something have what was written before the log began.
    copies.csn = copies.csn.max(1);
    let count = call.table.segment().replicas().count(copies.csn, false);
    if is_over(call) || count >= replicas {
        call.reply.integer(count as i64);
        return Ok(());
    }
    wait_for(call, copies, timeout_ms, Otherwise::Zeros(1))
}

fn wait_for_log(call: &mut Call<'_>) -> Outcome {
    check_primary(call, "WAITAOF")?;
    let local = integer(call.args[1])?;
    if !(0..=1).contains(&local) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    let replicas = number::integer(call.args[2])
        .and_then(|count| u64::try_from(count).ok())
        .ok_or("ERR value is out of range, must be positive")?;
    let timeout_ms = waiting::milliseconds(call.args[3])?;
    let words = call.table.segment().storage();
    let is_logged = words.owner().is_some() || call.settings.is_on(const { id("appendonly") });
    if local > 0 && !is_logged {
        return Err("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into());
    }
    let copies = awaited(call, Copies { csn: 0, in_file: local > 0, replicas, in_files: true });
    let is_durable = is_logged && words.is_promised() && words.is_durable(copies.csn);
    let count = call.table.segment().replicas().count(copies.csn, true);
    if is_over(call) || (is_durable || local == 0) && count >= replicas {
        call.reply.array(2);
        call.reply.integer(is_durable.into());
        call.reply.integer(count as i64);
        return Ok(());
    }
    wait_for(call, copies, timeout_ms, Otherwise::Zeros(2))
}

/// The copies that a call waits for: of what was committed before its first run.
fn awaited(call: &Call<'_>, copies: Copies) -> Copies {
    let first = call.memo().and_then(Copies::read);
    first.unwrap_or_else(|| Copies { csn: call.table.segment().storage().seen(), ..copies })
}

/// Returns true if a call may wait no longer. It runs once more when its time is over, to tell what there is by then.
fn is_over(call: &Call<'_>) -> bool {
    !call.may_wait() || call.caller.waiting.as_ref().is_some_and(|waiting| waiting.insists)
}

fn wait_for(call: &mut Call<'_>, copies: Copies, timeout_ms: u64, otherwise: Otherwise) -> Outcome {
    call.wait(Wait { memo: copies.memo(), yields: true, ..Wait::of(Kind::List, &[], timeout_ms, otherwise) })
}
