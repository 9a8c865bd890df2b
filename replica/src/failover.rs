//! A failover that a primary begins: it changes roles with one of its replicas, and no write is lost.
//!
//! ```text
//!   FAILOVER      a record in the hidden database; writers wait
//!   here          a replica has all -> the memory follows it, and takes no write any more -> it has all of that, too -> PSYNC ID OFFSET FAILOVER
//!   the replica   becomes a primary, +CONTINUE with a name of its own -> the record goes, writers go on, and are refused
//! ```
//!
//! - **O1** While the record is there, a failover runs. The thread that has the link (W1 of `polder_shm::storage`) brings it on, also one that another thread has
//!   begun: each step may be done again.
//! - **O2** The replica is asked to become a primary after the role has changed here, and after it has acknowledged the end that the log has then. So it has every
//!   write that was acknowledged here. Only FORCE gives that up, when the time is over.
//! - **O3** The pause of writers is renewed again and again. It ends by itself where every server dies.
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_base::words::{quote, split};
use polder_calls::call::Outcome;
use polder_hub::query;
use polder_runtime::retry::retry;
use polder_table::{Mode, SYSTEM, Stop, Table, Txn};

use crate::primary::{self, Primary};
use crate::records::{self, Record, State};

const FAILOVER: &[u8] = b"replication:failover";
/// The time for which one renewal keeps writers waiting, in milliseconds.
const PAUSE_MS: u64 = 3_000;
/// The pause between two looks at what a replica has.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The time for which a replica that had all may take to acknowledge what came until the role changed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A failover that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The replica that is to become the primary; `None`: the first one that has all.
    pub target: Option<(String, u16)>,
    /// The target becomes the primary also where it lacks something when the time is over.
    pub is_forced: bool,
    /// The end of the time, in milliseconds since the epoch; 0: none.
    pub deadline_ms: u64,
    /// This memory follows the target already, or is about to.
    pub asks: bool,
}

impl Failover {
    fn text(&self) -> String {
        let Failover { target, is_forced, deadline_ms, asks } = self;
        let target = target
            .as_ref()
            .map(|(host, port)| format!(" {} {port}", quote(host.as_bytes())))
            .unwrap_or_default();
        format!("{} {} {deadline_ms}{target}", u8::from(*asks), u8::from(*is_forced))
    }

    fn parse(text: &[u8]) -> Option<Failover> {
        let words: Vec<String> =
            split(text)?.into_iter().map(String::from_utf8).collect::<Result<_, _>>().ok()?;
        let [asks, is_forced, deadline_ms, target @ ..] = &words[..] else { return None };
        let target = match target {
            [] => None,
            [host, port] => Some((host.clone(), port.parse().ok()?)),
            _ => return None,
        };
        Some(Failover {
            target,
            is_forced: is_forced == "1",
            deadline_ms: deadline_ms.parse().ok()?,
            asks: asks == "1",
        })
    }

    /// The state as INFO names it.
    pub fn state(&self) -> &'static str {
        if self.asks { "failover-in-progress" } else { "waiting-for-sync" }
    }

    fn is_late(&self) -> bool {
        self.deadline_ms != 0 && now_ms() >= self.deadline_ms
    }

    fn is_target(&self, replica: &Record) -> bool {
        self.target.as_ref().is_none_or(|(host, port)| (host, *port) == (&replica.address, replica.port))
    }
}

/// The failover that runs, as a part of a transaction.
///
/// # Errors
/// Faults of the memory.
pub fn within(txn: &Txn<'_>) -> Result<Option<Failover>, Stop> {
    Ok(primary::text_at(txn, FAILOVER)?.as_deref().and_then(Failover::parse))
}

/// The failover that runs.
///
/// # Errors
/// Faults of the memory.
pub fn find(table: &Table) -> Result<Option<Failover>, Stop> {
    primary::read(table, within)
}

/// Begins a failover: writers wait from now on.
///
/// # Errors
/// Redis's texts where it cannot be; faults of the memory.
pub fn begin(table: &Table, failover: &Failover) -> Outcome {
    if find(table)?.is_some() {
        return Err("ERR FAILOVER already in progress.".into());
    }
    if table.role().is_replica() {
        return Err("ERR FAILOVER is not valid when server is a replica.".into());
    }
    let replicas = primary::read(table, |txn| records::within(table, txn))?;
    if replicas.is_empty() {
        return Err("ERR FAILOVER requires connected replicas.".into());
    }
    if failover.is_forced && (failover.deadline_ms == 0 || failover.target.is_none()) {
        return Err("ERR FAILOVER with force option requires both a timeout and target HOST and IP.".into());
    }
    if failover.target.is_some() {
        let Some(target) = replicas.iter().find(|replica| failover.is_target(replica)) else {
            return Err("ERR FAILOVER target HOST and PORT is not a replica.".into());
        };
        if target.state != State::Online {
            return Err("ERR FAILOVER target replica is not online.".into());
        }
    }
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, FAILOVER)])?;
        if within(&txn)?.is_some() {
            return Err("ERR FAILOVER already in progress.".into());
        }
        primary::put(&txn, FAILOVER, Some(&failover.text()))
    })?;
    drop(txn);
    hold_writers(table);
    tracing::info!(?failover, "a failover begins: writers wait");
    Ok(())
}

/// Gives the failover up: the memory is a primary as before.
///
/// # Errors
/// Redis's text where none runs; faults of the memory.
pub fn abort(table: &Table, why: &str) -> Outcome {
    let Some(failover) = find(table)? else { return Err("ERR No failover in progress.".into()) };
    tracing::warn!(why, "the failover is given up");
    if failover.asks {
        primary::promote(table)?;
    }
    primary::set(table, &[(FAILOVER, None)])?;
    let_writers_go_on(table);
    Ok(())
}

/// Ends a failover in which this memory follows its former replica now.
///
/// # Errors
/// Faults of the memory.
pub fn end(table: &Table, primary: &Primary) -> Outcome {
    let plain = Primary { takes_over: false, ..primary.clone() };
    primary::set(table, &[(FAILOVER, None), (primary::PRIMARY, Some(plain.text()))])?;
    let_writers_go_on(table);
    tracing::info!(
        host = primary.host,
        port = primary.port,
        "the failover is over: the memory is a replica now"
    );
    Ok(())
}

/// Has writers wait (O3).
fn hold_writers(table: &Table) {
    query::pause(table, now_ms() + PAUSE_MS, true);
}

/// Ends the pause, unless a client has asked for a longer one.
fn let_writers_go_on(table: &Table) {
    if query::paused(table).0 <= now_ms() + PAUSE_MS {
        query::unpause(table);
    }
}

/// Brings a failover on until this memory follows the target, or is not to: no failover runs any more, or `is_over` says so. Only for the thread that has
/// the link (O1).
///
/// # Errors
/// Faults of the memory.
pub fn drive(table: &Table, is_over: &dyn Fn() -> bool) -> Outcome {
    while let Some(failover) = find(table)?.filter(|_| !is_over() && !table.role().is_replica()) {
        if failover.asks {
            return abort(table, "the thread that changed the roles has died");
        }
        hold_writers(table);
        match replica_with_all(table, &failover)? {
            Some(replica) => return ask(table, &failover, (replica.address, replica.port)),
            None if failover.is_late() => match failover.target.clone() {
                Some(target) if failover.is_forced => return ask(table, &failover, target),
                _ => return abort(table, "no replica had all in time"),
            },
            None => {
                // Each may acknowledge at once, and not with the next second.
                table.segment().replicas().want(table.log().csn());
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }
    Ok(())
}

/// A replica that may become the primary and has acknowledged every commit before this call.
fn replica_with_all(table: &Table, failover: &Failover) -> Result<Option<Record>, Stop> {
    table.log().merge()?;
    let Some(end) = table.segment().replicas().settled_end() else { return Ok(None) };
    let replicas = primary::read(table, |txn| records::within(table, txn))?;
    let has_all = |replica: &Record| replica.state == State::Online && replica.acknowledged >= end;
    Ok(replicas.into_iter().find(|replica| failover.is_target(replica) && has_all(replica)))
}

/// Makes the memory a replica of the target.
fn ask(table: &Table, failover: &Failover, (host, port): (String, u16)) -> Outcome {
    let asks = Failover { target: Some((host.clone(), port)), asks: true, ..failover.clone() };
    let txn = table.begin(Mode::Write)?;
    let mut goes_on = true;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, FAILOVER), (SYSTEM, primary::PRIMARY)])?;
        // It may have been given up meanwhile.
        goes_on = within(&txn)?.is_some();
        if !goes_on {
            return Ok(());
        }
        let primary = Primary { host: host.clone(), port, accepts_empty: false, takes_over: true };
        primary::put(&txn, FAILOVER, Some(&asks.text()))?;
        primary::put(&txn, primary::PRIMARY, Some(&primary.text()))
    })?;
    drop(txn);
    if goes_on {
        tracing::info!(host, port, "the replica has all: the memory is about to follow it");
        table.follow()?;
    }
    Ok(())
}

/// Waits until the target has all that was committed before the role changed (O2). Returns false where the failover has been given up.
///
/// # Errors
/// Faults of the memory.
pub fn await_target(table: &Table, is_over: &dyn Fn() -> bool) -> Result<bool, Stop> {
    let end = Instant::now() + PATIENCE;
    while let Some(failover) = find(table)?.filter(|_| !is_over()) {
        hold_writers(table);
        if failover.is_forced && failover.is_late() || replica_with_all(table, &failover)?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= end {
            abort(table, "the replica has not acknowledged the last writes")?;
            return Ok(false);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_read_as_it_was_written() {
        for (target, deadline_ms) in [(None, 0), (Some(("a \"name\"".to_owned(), 6379)), 1 << 42)] {
            for asks in [false, true] {
                let failover = Failover { target: target.clone(), is_forced: !asks, deadline_ms, asks };
                assert_eq!(Failover::parse(failover.text().as_bytes()), Some(failover));
            }
        }
        assert_eq!(Failover::parse(b"1 0 x"), None);
    }
}
