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
use polder_base::time::now_ms;

mod attaching;
pub mod copies;
pub mod face;
pub mod failover;
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
use polder_table::{Mode, Stop, Table};
use polder_wire::rdb::VERSION_MAX;

use crate::failover::{Failover, Stage};

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
    let (link, log) = (call.table.segment().link(), call.table.log());
    let state = match link.figures().state {
        // The thread that had it has died.
        LinkState::Connected if !link.is_up() => LinkState::Connect,
        state => state,
    };
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
    if failover::find(table)?.is_some() {
        return Err("ERR REPLICAOF not allowed while failing over.".into());
    }
    match primary {
        Some((host, port)) => primary::follow(table, host, *port),
        None => primary::promote(table),
    }
}

/// REPLCONF: what a replica tells of itself, as far as it matters here; other options of Redis and Valkey are accepted.
fn configure(call: &mut SessionCall<'_>) -> Outcome {
    let (pairs, []) = call.args[1..].as_chunks::<2>() else { return Err(SYNTAX.into()) };
    let mut replica = call.session.replica.take().unwrap_or_default();
    let heard = pairs.iter().try_for_each(|[option, value]| hear(call.table, &mut replica, option, value));
    call.session.replica = Some(replica);
    heard?;
    call.reply.ok();
    Ok(())
}

/// The capability that a memory names which reads RDB files of the version 14. Stock servers pass over what they do not know.
pub(crate) const NEWEST_RDB: &[u8] = b"polder-rdb-14";

fn hear(table: &Table, replica: &mut Replica, option: &[u8], value: &[u8]) -> Outcome {
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
        () if is(option, attaching::OFFER) => {
            replica.attaches = value == attaching::boot_of(table).as_bytes()
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
    let (from, takes_over) = match call.args[1..] {
        [] => (None, false),
        [identity, offset] => (Some((identity, offset)), false),
        [identity, offset, word] if is(word, "FAILOVER") => (Some((identity, offset)), true),
        _ => return Err(SYNTAX.into()),
    };
    let order = match from {
        None => SyncRequest { from: None, is_sync: true },
        Some((identity, offset)) => {
            let offset = number::integer(offset).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
            let from = std::str::from_utf8(identity).ok().map(str::to_owned).zip(u64::try_from(offset).ok());
            SyncRequest { from, is_sync: false }
        }
    };
    if !call.host.feeds_replicas() {
        return Err("ERR replicas connect to a server: this program is none".into());
    }
    if takes_over {
        take_over(call.table, order.from.as_ref())?;
    } else if call.table.role().is_replica() && !call.table.segment().link().is_up() {
        return Err("NOMASTERLINK Can't SYNC while not connected with my master".into());
    }
    call.session.replica.get_or_insert_default().order = Some(order);
    call.session.closing = true;
    Ok(())
}

/// Becomes the primary in the place of the one whose request this is (O2 of `failover.rs`).
fn take_over(table: &Table, from: Option<&(String, u64)>) -> Outcome {
    if !table.role().is_replica() {
        return Err("ERR PSYNC FAILOVER can't be sent to a master.".into());
    }
    if from.is_none_or(|(identity, _)| *identity != table.log().identity()) {
        return Err("ERR PSYNC FAILOVER replid must match my replid.".into());
    }
    tracing::info!("the primary asks this memory to take its place");
    primary::promote(table).map_err(|stop| match table.role().is_replica() {
        true => stop,
        // It is on its way to be a primary: the other one must not become one again.
        false => format!("NOMASTERLINK {stop}").into(),
    })
}

fn failover(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.caller.atomic {
        return Err("ERR FAILOVER cannot be a part of a transaction: send it by itself".into());
    }
    match &call.args[1..] {
        [word] if is(word, "ABORT") => failover::abort(call.table, "FAILOVER ABORT")?,
        words => failover::begin(call.table, &asked_failover(words)?)?,
    }
    call.reply.ok();
    Ok(())
}

/// Reads the options of FAILOVER, each of which may stand once.
fn asked_failover(mut words: &[&[u8]]) -> Result<Failover, Stop> {
    let mut asked = Failover { target: None, is_forced: false, deadline_ms: 0, stage: Stage::Waits };
    while let [word, rest @ ..] = words {
        words = match rest {
            [time, rest @ ..] if is(word, "TIMEOUT") && asked.deadline_ms == 0 => {
                let time = number::integer(time).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
                let time = u64::try_from(time).ok().filter(|time| *time > 0);
                let time = time.ok_or("ERR FAILOVER timeout must be greater than 0")?;
                asked.deadline_ms = now_ms().saturating_add(time);
                rest
            }
            [host, port, rest @ ..] if is(word, "TO") && asked.target.is_none() => {
                let port = number::integer(port).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
                // A port that none can be is no replica's.
                let port = u16::try_from(port).unwrap_or(0);
                asked.target = Some((String::from_utf8_lossy(host).into_owned(), port));
                rest
            }
            rest if is(word, "FORCE") && !asked.is_forced => {
                asked.is_forced = true;
                rest
            }
            _ => return Err(SYNTAX.into()),
        };
    }
    Ok(asked)
}
