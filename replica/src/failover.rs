//! A failover that a primary begins: it changes roles with one of its replicas, and no write is lost.
//!
//! ```text
//!   FAILOVER      a record in the hidden database; writers wait
//!   here          a replica has all -> the memory follows it, and takes no write any more -> it has all of that, too -> SENT -> PSYNC ID OFFSET FAILOVER
//!   the replica   becomes a primary, +CONTINUE with a name of its own -> the record goes, writers go on, and are refused
//! ```
//!
//! - **O1** While the record is there, a failover runs. The thread that has the link (W1 of `polder_shm::storage`) brings it on, also one that another thread has
//!   begun: each step may be done again.
//! - **O2** The replica is asked to become a primary after the role has changed here, after every transaction that may have looked at the role before, and after
//!   it has acknowledged the end that the log has then. So it has every write that was acknowledged here. Only FORCE gives that up, when the time is over.
//! - **O3** The pause of writers is renewed again and again. It ends by itself where every server dies.
//! - **O4** Before the request leaves, the record says that it may have: from then on this memory does not become a primary again by itself, since the replica may be
//!   one. Only a refusal by a replica that is none ends that, or a client.
//! - **O5** The record goes in the transaction that has looked at it. The thread that removes it ends the rest, too; if it dies before, the
//!   thread that has the link makes a memory a primary again that is to follow its replica without a record.
use std::time::Duration;

use polder_base::time::now_ms;
use polder_base::words::{quote, split};
use polder_calls::call::Outcome;
use polder_hub::query;
use polder_runtime::retry::retry;
use polder_table::{Mode, SYSTEM, Stop, Table, Txn};

use crate::primary::{self, Primary};
use crate::records::{self, Record, State};

const FAILOVER: &[u8] = b"replication:failover";
const AS_REPLICA: &str = "ERR FAILOVER is not valid when server is a replica.";
/// The time for which one renewal keeps writers waiting, in milliseconds.
const PAUSE_MS: u64 = 3_000;
/// The pause between two looks at what a replica has.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The period of asking replicas to acknowledge what they have.
const ASK_PERIOD_MS: u64 = 200;
/// The time that may pass from the change of the role here to the request, in milliseconds.
const PATIENCE_MS: u64 = 10_000;

/// The stage of a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No replica has all yet.
    Waits,
    /// This memory follows the target since this moment, in milliseconds since the epoch, or is about to.
    Follows(u64),
    /// The target may have been asked to become a primary (O4).
    Sent,
}

/// A failover that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The replica that is to become the primary; `None`: the first one that has all.
    pub target: Option<(String, u16)>,
    /// The target becomes the primary also where it lacks something when the time is over.
    pub is_forced: bool,
    /// The end of the time, in milliseconds since the epoch; 0: none.
    pub deadline_ms: u64,
    pub stage: Stage,
}

impl Failover {
    fn text(&self) -> String {
        let Failover { target, is_forced, deadline_ms, stage } = self;
        let stage = match stage {
            Stage::Waits => "waits 0".into(),
            Stage::Follows(since_ms) => format!("follows {since_ms}"),
            Stage::Sent => "sent 0".into(),
        };
        let target = target
            .as_ref()
            .map(|(host, port)| format!(" {} {port}", quote(host.as_bytes())))
            .unwrap_or_default();
        format!("{stage} {} {deadline_ms}{target}", u8::from(*is_forced))
    }

    fn parse(text: &[u8]) -> Option<Failover> {
        let words: Vec<String> =
            split(text)?.into_iter().map(String::from_utf8).collect::<Result<_, _>>().ok()?;
        let [stage, since_ms, is_forced, deadline_ms, target @ ..] = &words[..] else { return None };
        let stage = match stage.as_str() {
            "waits" => Stage::Waits,
            "follows" => Stage::Follows(since_ms.parse().ok()?),
            "sent" => Stage::Sent,
            _ => return None,
        };
        let target = match target {
            [] => None,
            [host, port] => Some((host.clone(), port.parse().ok()?)),
            _ => return None,
        };
        Some(Failover { target, is_forced: is_forced == "1", deadline_ms: deadline_ms.parse().ok()?, stage })
    }

    /// The state as INFO names it.
    pub fn state(&self) -> &'static str {
        if self.stage == Stage::Waits { "waiting-for-sync" } else { "failover-in-progress" }
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
        return Err(AS_REPLICA.into());
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
    let begun = change(table, |found| match found {
        Some(_) => Change::Nothing,
        None => Change::To(failover.clone()),
    })?;
    if begun.is_some() {
        return Err("ERR FAILOVER already in progress.".into());
    }
    // A client may have given the memory another role meanwhile, which has found no record.
    if table.role().is_replica() {
        change(table, |_| Change::End)?;
        return Err(AS_REPLICA.into());
    }
    hold_writers(table);
    tracing::info!(?failover, "a failover begins: writers wait");
    Ok(())
}

/// A change of the record.
enum Change {
    Nothing,
    To(Failover),
    End,
}

/// Changes the record as `how` says, which is shown it, in one transaction (O5). Returns the record as it was.
fn change(table: &Table, how: impl Fn(Option<&Failover>) -> Change) -> Result<Option<Failover>, Stop> {
    let (txn, mut before) = (table.begin(Mode::Write)?, None);
    retry(&txn, || {
        txn.declare(&[(SYSTEM, FAILOVER)])?;
        before = within(&txn)?;
        match how(before.as_ref()) {
            Change::Nothing => Ok(()),
            Change::To(failover) => primary::put(&txn, FAILOVER, Some(&failover.text())),
            Change::End => primary::put(&txn, FAILOVER, None),
        }
    })?;
    Ok(before)
}

/// Gives the failover up: the memory is a primary as before.
///
/// # Errors
/// Redis's text where none runs; faults of the memory.
pub fn abort(table: &Table, why: &str) -> Outcome {
    if give_up(table, why, |_| true)? { Ok(()) } else { Err("ERR No failover in progress.".into()) }
}

/// Gives the failover up, if one runs and `may` be given up. Returns true if it was.
fn give_up(table: &Table, why: &str, may: impl Fn(&Failover) -> bool) -> Result<bool, Stop> {
    let before = change(table, |found| match found {
        Some(failover) if may(failover) => Change::End,
        _ => Change::Nothing,
    })?;
    let Some(failover) = before.filter(&may) else { return Ok(false) };
    tracing::warn!(why, "the failover is given up");
    let promoted = if failover.stage == Stage::Waits { Ok(()) } else { primary::promote(table) };
    let_writers_go_on(table);
    promoted.map(|()| true)
}

/// Ends a failover in which this memory follows its former replica now.
///
/// # Errors
/// Faults of the memory.
pub fn end(table: &Table, primary: &Primary) -> Outcome {
    let plain = Primary { takes_over: false, ..primary.clone() };
    let txn = table.begin(Mode::Write)?;
    let mut is_its_own = false;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, FAILOVER), (SYSTEM, primary::PRIMARY)])?;
        is_its_own = within(&txn)?.is_some() && primary::within(&txn)?.as_ref() == Some(primary);
        if is_its_own {
            primary::put(&txn, FAILOVER, None)?;
            primary::put(&txn, primary::PRIMARY, Some(&plain.text()))?;
        }
        Ok(())
    })?;
    drop(txn);
    if !is_its_own {
        return Err("ERR the failover was given up".into());
    }
    let_writers_go_on(table);
    tracing::info!(
        host = primary.host,
        port = primary.port,
        "the failover is over: the memory is a replica now"
    );
    Ok(())
}

/// Has writers wait (O3). A client's pause of all calls is left alone: it would become endless.
fn hold_writers(table: &Table) {
    let (until_ms, writers_only) = query::paused(table);
    if until_ms <= now_ms() || writers_only {
        query::pause(table, now_ms() + PAUSE_MS, true);
    }
}

/// Ends the pause, unless a client has asked for a longer one, or one of all calls.
fn let_writers_go_on(table: &Table) {
    let (until_ms, writers_only) = query::paused(table);
    if writers_only && until_ms <= now_ms() + PAUSE_MS {
        query::unpause(table);
    }
}

/// Brings a failover on until this memory follows the target, or is not to: no failover runs any more, or `is_over` says so. Only for the thread that has
/// the link (O1).
///
/// # Errors
/// Faults of the memory.
pub fn drive(table: &Table, is_over: &dyn Fn() -> bool) -> Outcome {
    let mut asked_ms = 0;
    while let Some(failover) = find(table)?.filter(|_| !is_over() && !table.role().is_replica()) {
        if failover.stage != Stage::Waits {
            return abort(table, "the thread that changed the roles has died");
        }
        hold_writers(table);
        match replica_with_all(table, &failover)? {
            Some(replica) => return follow(table, (replica.address, replica.port)),
            None if failover.is_late() => match failover.target.clone() {
                Some(target) if failover.is_forced => return follow(table, target),
                _ => return abort(table, "no replica had all in time"),
            },
            None => ask_replicas(table, &mut asked_ms),
        }
    }
    Ok(())
}

/// Has replicas acknowledge what they have, and not with the next second; sleeps. A question stands in the log, too: one is to be answered before the next.
fn ask_replicas(table: &Table, asked_ms: &mut u64) {
    if now_ms().abs_diff(*asked_ms) >= ASK_PERIOD_MS {
        *asked_ms = now_ms();
        table.segment().replicas().want(table.log().csn());
    }
    std::thread::sleep(LOOK_AGAIN);
}

/// A replica that may become the primary and has acknowledged every commit before this call. All that tell the same address have it.
fn replica_with_all(table: &Table, failover: &Failover) -> Result<Option<Record>, Stop> {
    table.log().merge()?;
    let Some(end) = table.segment().replicas().settled_end() else { return Ok(None) };
    let replicas = primary::read(table, |txn| records::within(table, txn))?;
    let has_all = |replica: &Record| replica.state == State::Online && replica.acknowledged >= end;
    let is_fit = |replica: &&Record| {
        let is_same = |other: &&Record| (&other.address, other.port) == (&replica.address, replica.port);
        replica.port != 0 && failover.is_target(replica) && replicas.iter().filter(is_same).all(has_all)
    };
    Ok(replicas.iter().find(is_fit).cloned())
}

/// Makes the memory a replica of the target.
fn follow(table: &Table, (host, port): (String, u16)) -> Outcome {
    let txn = table.begin(Mode::Write)?;
    let mut goes_on = true;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, FAILOVER), (SYSTEM, primary::PRIMARY)])?;
        // It may have been given up meanwhile.
        let Some(found) = within(&txn)? else {
            goes_on = false;
            return Ok(());
        };
        let follows =
            Failover { target: Some((host.clone(), port)), stage: Stage::Follows(now_ms()), ..found };
        let primary = Primary { host: host.clone(), port, accepts_empty: false, takes_over: true };
        primary::put(&txn, FAILOVER, Some(&follows.text()))?;
        primary::put(&txn, primary::PRIMARY, Some(&primary.text()))
    })?;
    drop(txn);
    if goes_on {
        tracing::info!(host, port, "the replica has all: the memory is about to follow it");
        table.follow()?;
    }
    Ok(())
}

/// Looks whether a memory that follows its former replica is to go on so: where the failover was given up, or has taken too long before the target was asked, it
/// becomes a primary again, and this returns false.
///
/// # Errors
/// Faults of the memory.
pub fn goes_on(table: &Table) -> Result<bool, Stop> {
    let Some(failover) = find(table)? else {
        // O5.
        primary::promote(table)?;
        let_writers_go_on(table);
        return Ok(false);
    };
    hold_writers(table);
    let Stage::Follows(since_ms) = failover.stage else { return Ok(true) };
    let is_late = failover.is_late() && !failover.is_forced || now_ms() > since_ms + PATIENCE_MS;
    // O4.
    let is_unsent = |failover: &Failover| failover.stage != Stage::Sent;
    Ok(!(is_late && give_up(table, "the replica could not be asked in time", is_unsent)?))
}

/// Removes what a failover has left in a memory that follows another primary: no thread brings it on there.
///
/// # Errors
/// Faults of the memory.
pub fn forget(table: &Table) -> Outcome {
    if find(table)?.is_some() {
        change(table, |_| Change::End)?;
        let_writers_go_on(table);
    }
    Ok(())
}

/// Waits until the target has all that the log has, and says that it is going to be asked (O2, O4). To be called after the last transaction that may have looked
/// at the role before. `check` ends the wait.
///
/// # Errors
/// That of `check`; the failover was given up; faults of the memory.
pub fn prepare<E: From<Stop>>(table: &Table, check: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
    loop {
        let Some(failover) = find(table)? else {
            return Err(Stop::from("ERR the failover was given up").into());
        };
        if failover.stage == Stage::Sent {
            return Ok(());
        }
        if failover.is_forced && failover.is_late() || replica_with_all(table, &failover)?.is_some() {
            let before = change(table, |found| match found {
                Some(found) => Change::To(Failover { stage: Stage::Sent, ..found.clone() }),
                None => Change::Nothing,
            })?;
            if before.is_some() {
                return Ok(());
            }
        } else if !goes_on(table)? {
            return Err(Stop::from("ERR the failover was given up").into());
        }
        check()?;
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_read_as_it_was_written() {
        for (target, deadline_ms) in [(None, 0), (Some(("a \"name\"".to_owned(), 6379)), 1 << 42)] {
            for stage in [Stage::Waits, Stage::Follows(1 << 41), Stage::Sent] {
                let is_forced = stage == Stage::Sent;
                let failover = Failover { target: target.clone(), is_forced, deadline_ms, stage };
                assert_eq!(Failover::parse(failover.text().as_bytes()), Some(failover));
            }
        }
        assert_eq!(Failover::parse(b"waits 0 x"), None);
    }
}
