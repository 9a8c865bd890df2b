//! Replication as Redis speaks of it: this memory as a primary, and as a replica.
//!
//! ```text
//!   replica: REPLCONF ..., PSYNC ID OFFSET  -->  the connection leaves its event loop (`feed.rs`)
//!   feed:    +FULLRESYNC ID OFFSET, an RDB file, the change log from OFFSET on   or   +CONTINUE ID, the change log
//!   link:    a memory that follows a primary: one server of it has the connection (`link.rs`); the address stands in the hidden database (`primary.rs`)
//!   records: each replica is a follower of the change log with a record in the hidden database (`records.rs`)
//! ```
#![forbid(unsafe_code)]

use polder_base::number;

pub mod copies;
pub mod face;
pub mod feed;
mod lag;
mod line;
pub mod link;
pub mod overview;
pub mod pause;
pub mod primary;
pub mod records;

use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{
    ADMIN, ALLOW_BUSY, DANGEROUS, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE,
};
use polder_runtime::row::{Row, SessionCall, TxnCall, neutral, session};
use polder_runtime::session::{NewRole, Replica, SyncRequest};
use polder_shm::LinkState;
use polder_table::{Mode, Table};
use polder_wire::rdb::VERSION_MAX;

/// Options that change nothing here: which form of RDB file it prefers, what it has acknowledged.
const KNOWN_OPTIONS: [&str; 8] = [
    "ack",
    "fack",
    "getack",
    "rdb-only",
    "rdb-filter-only",
    "rdb-channel",
    "rdb-no-compress",
    "main-ch-client-id",
];

/// The longest name of a replica's host, in bytes.
const ADDRESS_BYTES_MAX: usize = 255;

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
    session("REPLCONF", "[option value ...]", configure)
        .with(ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY)
        .since("3.0.0")
        .internal()
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
pub const ROLE: &[Row] = &[neutral("ROLE", "", Mode::Read, role)
    .with(NOSCRIPT | LOADING | STALE | FAST | DANGEROUS)
    .since("2.8.12")
    .about("Returns the replication role.")];

fn role(call: &mut TxnCall<'_>) -> Outcome {
    if call.table.role().is_replica() {
        return role_of_replica(call);
    }
    let replicas = records::within(call.table, call.txn)?;
    call.reply.array(3);
    call.reply.bulk(b"master");
    let log = call.table.log();
    call.reply.integer(log.offset_of(log.range().1) as i64);
    call.reply.array(replicas.len());
    for replica in replicas {
        call.reply.array(3);
        call.reply.bulk(replica.address.as_bytes());
        call.reply.bulk(replica.port.to_string().as_bytes());
        call.reply.bulk(log.offset_of(replica.acknowledged).to_string().as_bytes());
    }
    Ok(())
}

fn role_of_replica(call: &mut TxnCall<'_>) -> Outcome {
    let found = primary::within(call.txn)?;
    let (host, port) = found.map_or((String::new(), 0), |primary| (primary.host, primary.port));
    let (state, log) = (call.table.segment().link().figures().state, call.table.log());
    call.reply.array(5);
    call.reply.bulk(b"slave");
    call.reply.bulk(host.as_bytes());
    call.reply.integer(port.into());
    call.reply.bulk(match state {
        LinkState::Connect => b"connect",
        LinkState::Handshake => b"handshake",
        LinkState::Copies => b"sync",
        LinkState::Connected => b"connected",
    });
    call.reply.integer(if state == LinkState::Connected { log.offset_of(log.range().1) as i64 } else { -1 });
    Ok(())
}

fn replicate(call: &mut SessionCall<'_>) -> Outcome {
    let [host, port] = [call.args[1], call.args[2]];
    let primary = if is(host, "NO") && is(port, "ONE") {
        None
    } else {
        let port = number::integer(port)
            .and_then(|port| u16::try_from(port).ok())
            .ok_or("ERR Invalid master port")?;
        let host = std::str::from_utf8(host).map_err(|_| "ERR the host of the primary is no text")?;
        Some((host.to_owned(), port))
    };
    let role = NewRole { primary, give: give_role };
    if call.session.caller.atomic {
        call.session.replica.get_or_insert_default().new_role = Some(role);
    } else {
        role.give(call.table)?;
    }
    call.reply.ok();
    Ok(())
}

fn give_role(table: &Table, primary: Option<&(String, u16)>) -> Outcome {
    match primary {
        Some((host, port)) => primary::follow(table, host, *port),
        None => primary::promote(table),
    }
}

/// REPLCONF: what a replica tells of itself, as far as it matters here; other options of Redis and Valkey are accepted.
fn configure(call: &mut SessionCall<'_>) -> Outcome {
    let (pairs, []) = call.args[1..].as_chunks::<2>() else { return Err(SYNTAX.into()) };
    let mut replica = call.session.replica.take().unwrap_or_default();
    let heard = pairs.iter().try_for_each(|[option, value]| hear(&mut replica, option, value));
    call.session.replica = Some(replica);
    heard?;
    call.reply.ok();
    Ok(())
}

/// What a memory says, as a capability, that reads RDB files of the version 14. Stock servers pass over what they do not know.
pub(crate) const NEWEST_RDB: &[u8] = b"polder-rdb-14";

fn hear(replica: &mut Replica, option: &[u8], value: &[u8]) -> Result<(), polder_table::Stop> {
    match () {
        () if is(option, "listening-port") => {
            let port = number::integer(value).and_then(|port| u16::try_from(port).ok());
            replica.port = port.ok_or(polder_calls::call::NOT_AN_INTEGER)?;
        }
        () if is(option, "ip-address") => {
            let address = std::str::from_utf8(value).ok().filter(|text| text.len() <= ADDRESS_BYTES_MAX);
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_%[]".contains(&byte);
            let text = address.filter(|text| text.bytes().all(is_of_name));
            let text = text
                .ok_or("ERR REPLCONF ip-address: a host name or address of at most 255 letters is wanted")?;
            replica.address = Some(text.to_owned());
        }
        () if is(option, "capa") && is(value, "psync2") => replica.knows_identities = true,
        // Redis 8 says so.
        () if is(option, "capa") && is(value, "rdb-channel-repl") => replica.rdb_version = Some(12),
        () if is(option, "capa") && value == NEWEST_RDB => replica.rdb_version = Some(VERSION_MAX),
        () if is(option, "capa") => {}
        // Valkey says so from 8.1 on.
        () if is(option, "version") => {
            let major = value.split(|byte| *byte == b'.').next().and_then(number::unsigned);
            replica.rdb_version = major.filter(|major| *major >= 9).map(|_| 80).or(replica.rdb_version);
        }
        () if KNOWN_OPTIONS.iter().any(|known| is(option, known)) => {}
        () => {
            let option = option.escape_ascii();
            return Err(format!("ERR Unrecognized REPLCONF option: {option}").into());
        }
    }
    Ok(())
}

/// PSYNC and SYNC: the connection becomes that of a replica. Nothing is replied here: the feed replies.
fn synchronize(call: &mut SessionCall<'_>) -> Outcome {
    let order = match call.args[1..] {
        [] => SyncRequest { from: None, is_sync: true },
        [identity, offset] => {
            let offset = number::integer(offset).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
            let from = std::str::from_utf8(identity).ok().map(str::to_owned).zip(u64::try_from(offset).ok());
            SyncRequest { from, is_sync: false }
        }
        _ => return Err("ERR PSYNC with FAILOVER is not supported: use REPLICAOF on both sides".into()),
    };
    if call.table.role().is_replica() && call.table.segment().link().figures().state != LinkState::Connected {
        return Err("NOMASTERLINK Can't SYNC while not connected with my master".into());
    }
    if !call.host.feeds_replicas() {
        return Err("ERR replicas connect to a server: this program is none".into());
    }
    call.session.replica.get_or_insert_default().order = Some(order);
    call.session.closing = true;
    Ok(())
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
