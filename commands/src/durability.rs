//! WAIT and WAITAOF: until when replicas and the append-only file have what was written. There are no replicas, so a client that asks for one
//! waits until its timeout, as in Redis.
use polder_base::number;
use polder_table::Mode;
use polder_values::Kind;

use polder_calls::call::{Call, Outcome, integer};
use polder_calls::command::{BLOCKING, Command, neutral};
use polder_calls::settings::id;
use polder_calls::waiting::{self, Otherwise, Wait};

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

fn wait(call: &mut Call<'_>) -> Outcome {
    let replicas = integer(call.args[1])?;
    let timeout_ms = waiting::milliseconds(call.args[2])?;
    wait_or_answer(call, replicas > 0, timeout_ms, Otherwise::Zeros(1))
}

fn wait_for_log(call: &mut Call<'_>) -> Outcome {
    let local = integer(call.args[1])?;
    if !(0..=1).contains(&local) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    let replicas = number::integer(call.args[2])
        .filter(|count| *count >= 0)
        .ok_or("ERR value is out of range, must be positive")?;
    let timeout_ms = waiting::milliseconds(call.args[3])?;
    let words = call.table.segment().storage();
    let is_logged = words.owner().is_some() || call.settings.is_on(const { id("appendonly") });
    if local > 0 && !is_logged {
        return Err("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into());
    }
    let seen =
        call.memo().and_then(|memo| memo.try_into().ok()).map_or_else(|| words.seen(), u64::from_le_bytes);
    let is_durable = is_logged && words.is_promised() && words.is_durable(seen);
    let is_over = !call.may_wait() || call.caller.waiting.as_ref().is_some_and(|waiting| waiting.insists);
    if is_over || replicas == 0 && (local == 0 || is_durable) {
        call.reply.array(2);
        call.reply.integer(is_durable.into());
        call.reply.integer(0);
        return Ok(());
    }
    // It runs once more when its time is over, to tell what the disk has by then.
    let memo = seen.to_le_bytes().to_vec();
    call.wait(Wait {
        kind: Kind::List,
        keys: &[],
        timeout_ms,
        otherwise: Otherwise::Zeros(2),
        memo,
        yields: true,
    })
}

fn wait_or_answer(call: &mut Call<'_>, waits: bool, timeout_ms: u64, otherwise: Otherwise) -> Outcome {
    if waits {
        // No key ever brings what is waited for.
        return call.wait(Wait {
            kind: Kind::List,
            keys: &[],
            timeout_ms,
            otherwise,
            memo: Vec::new(),
            yields: false,
        });
    }
    otherwise.write(call.reply);
    Ok(())
}
