//! Replication as Redis speaks of it. This memory is always a primary; copies elsewhere are not made by Redis's protocol.
use polder_base::number;

use crate::row::{Row, SessionCall, session};
use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{ADMIN, DANGEROUS, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE};

/// Why a replica of another server, or one of this, is refused.
const NO_REPLICATION: &str = "ERR this version of polder has no replication";

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    session("FAILOVER", "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]", failover)
        .with(ADMIN | NOSCRIPT | STALE)
        .since("6.2.0")
        .about("Starts a coordinated failover from a server to one of its replicas."),
    session("PSYNC", "replicationid offset [arg ...]", synchronize)
        .with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI)
        .since("2.8.0")
        .about("An internal command used in replication."),
    session("REPLICAOF", "host port", replicate)
        .with(ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING)
        .since("5.0.0")
        .about("Configures a server as replica of another, or promotes it to a master."),
    session("SLAVEOF", "host port", replicate)
        .with(ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING)
        .since("1.0.0")
        .replaced("5.0.0", "`REPLICAOF`")
        .about("Sets a Redis server as a replica of another, or promotes it to being a master."),
    session("SYNC", "", synchronize)
        .with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI)
        .since("1.0.0")
        .about("An internal command used in replication."),
];

/// A row by itself: Redis has it in the category `@admin`, though it is not flagged so.
pub const ROLE: &[Row] = &[session("ROLE", "", role)
    .with(NOSCRIPT | LOADING | STALE | FAST | DANGEROUS)
    .since("2.8.12")
    .about("Returns the replication role.")];

fn role(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

fn replicate(call: &mut SessionCall<'_>) -> Outcome {
    let [host, port] = [call.args[1], call.args[2]];
    if is(host, "NO") && is(port, "ONE") {
        call.reply.ok();
        return Ok(());
    }
    if number::integer(port).is_none_or(|port| !(0..=65535).contains(&port)) {
        return Err("ERR Invalid master port".into());
    }
    Err(NO_REPLICATION.into())
}

fn synchronize(_call: &mut SessionCall<'_>) -> Outcome {
    Err(NO_REPLICATION.into())
}

fn failover(call: &mut SessionCall<'_>) -> Outcome {
    match &call.args[1..] {
        [word] if is(word, "ABORT") => Err("ERR No failover in progress.".into()),
        words => {
            check_failover(words)?;
            Err("ERR FAILOVER requires connected replicas.".into())
        }
    }
}

fn check_failover(words: &[&[u8]]) -> Outcome {
    match words {
        [] => Ok(()),
        [word, time, rest @ ..] if is(word, "TIMEOUT") => {
            let time = number::integer(time).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
            if time <= 0 {
                return Err("ERR FAILOVER timeout must be greater than 0".into());
            }
            check_failover(rest)
        }
        [word, _, port, rest @ ..] if is(word, "TO") => {
            number::integer(port).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
            check_failover(rest)
        }
        [word, rest @ ..] if is(word, "FORCE") => check_failover(rest),
        _ => Err(SYNTAX.into()),
    }
}
