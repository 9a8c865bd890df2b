//! SAVE, BGSAVE and their kin: the memory in a file that Redis understands.
//!
//! The memory survives every process, so a file is for moving data, for backups, and for a power
//! cut. Nothing forks and nothing stops: a save reads the keys as they were at one instant while
//! all other calls go on.
use std::fs::File;

use polder_table::{Mode, New, Replaces, SYSTEM, Stop, Table};
use polder_values::{Kind, Value, string};

use crate::retry::retry;
use crate::row::{Row, SessionCall, session};
use crate::run::begin;
use crate::saves::load::{Loaded, Present, load as read_file};
use crate::scripts::clear_codes;
use crate::storage_figures::LogReport;
use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{ADMIN, DANGEROUS, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE};
use polder_calls::settings::Settings;

pub use crate::saves::{Keeper, has_save_points, keeper, load, save};

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    session("SAVE", "", save_now)
        .with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI)
        .costs("O(N) where N is the total number of keys in all databases")
        .about("Writes the databases to the RDB file and waits until that is done. All keys are in it as they were at one instant."),
    session("BGSAVE", "[SCHEDULE|CANCEL]", save_meanwhile)
        .with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING)
        .costs("O(1)")
        .changed(&[("3.2.2", "Takes `SCHEDULE`.")])
        .about("Writes the databases to the RDB file in the background. All keys are in it as they were at one instant."),
    session("BGREWRITEAOF", "", rewrite_log)
        .with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING)
        .costs("O(1)")
        .about("Has another base of the append-only log written in the background, by the process that writes the log."),
];

/// The rows that are in the administrators' category without being commands of theirs.
pub const LAST: &[Row] = &[session("LASTSAVE", "", last_save)
    .with(LOADING | STALE | FAST | DANGEROUS)
    .tips(&["nondeterministic_output"])
    .about("Returns the Unix timestamp of the last successful save to disk.")];

const IN_PROGRESS: &str = "ERR Background save already in progress";

fn save_now(call: &mut SessionCall<'_>) -> Outcome {
    let keeper = call.host.keeper();
    if keeper.is_saving() {
        return Err(IN_PROGRESS.into());
    }
    keeper.save(call.table, call.host.settings()).map_err(|why| format!("ERR the RDB file was not written: {why}"))?;
    call.reply.ok();
    Ok(())
}

fn save_meanwhile(call: &mut SessionCall<'_>) -> Outcome {
    let keeper = call.host.keeper();
    match call.args[1..] {
        [] => {}
        [word] if is(word, "SCHEDULE") => {}
        [word] if is(word, "CANCEL") => {
            if !keeper.cancel() {
                return Err("ERR Background saving is currently not in progress or scheduled".into());
            }
            call.reply.status("Background saving cancelled");
            return Ok(());
        }
        _ => return Err(SYNTAX.into()),
    }
    if call.session.caller.atomic && !keeper.is_saving() {
        // What this transaction writes belongs to it, too.
        keeper.schedule();
        call.reply.status("Background saving scheduled");
        return Ok(());
    }
    if !keeper.save_meanwhile(call.table, call.host.settings()).map_err(|why| format!("ERR {why}"))? {
        return Err(IN_PROGRESS.into());
    }
    call.reply.status("Background saving started");
    Ok(())
}

fn last_save(call: &mut SessionCall<'_>) -> Outcome {
    let seconds = call.host.keeper().last_save_seconds(call.host.recorder().started_ms() / 1000);
    call.reply.integer(seconds as i64);
    Ok(())
}

fn rewrite_log(call: &mut SessionCall<'_>) -> Outcome {
    let report = LogReport::of(call.table, call.host.settings());
    if !report.is_enabled {
        return Err("ERR no append-only log is written: turn it on with CONFIG SET appendonly yes, or save an RDB file with BGSAVE".into());
    }
    if report.is_rewriting || report.rewrite_is_scheduled {
        return Err("ERR Background append only file rewriting already in progress".into());
    }
    call.table.segment().storage().ask_rewrite();
    // A transaction that asks for it is not in it before it has committed; a save comes first.
    let is_scheduled = call.session.caller.atomic || call.host.keeper().is_saving() || report.process == 0;
    call.reply.status(if is_scheduled {
        "Background append only file rewriting scheduled"
    } else {
        "Background append only file rewriting started"
    });
    Ok(())
}

/// The key that says whether a server has opened this segment before: [`OPEN`], or the seat and
/// life that are loading a file into it.
const OPENED: &[u8] = b"persistence:opened";
const OPEN: &[u8] = b"1";

/// Whether a file is being loaded into the segment by a living thread, after [`claim_new`] has told it to.
///
/// # Errors
/// What the memory says.
pub fn is_being_loaded(table: &Table) -> Result<bool, Stop> {
    let txn = table.begin(Mode::Read)?;
    let mut is_loading = false;
    retry(&txn, || {
        let opened =
            txn.peek(SYSTEM, OPENED)?.map(|found| string::contiguous(&txn, &found.value).map(|text| text.into_owned())).transpose()?;
        is_loading = opened.is_some_and(|opened| opened != OPEN && !is_abandoned(table, &opened));
        Ok(())
    })?;
    Ok(is_loading)
}

/// Whether this thread is to load the RDB file into the segment. It is if no server has asked
/// before and there are no keys, or if the thread that was told so died before [`confirm_loaded`].
/// Of several that ask at once, one is told so.
///
/// # Errors
/// What the memory says.
pub fn claim_new(table: &Table) -> Result<bool, Stop> {
    let seat = table.seat()?;
    let mine = format!("{} {}", seat.index(), seat.life());
    let txn = table.begin(Mode::Write)?;
    let mut is_ours = false;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        let before =
            txn.peek(SYSTEM, OPENED)?.map(|found| string::contiguous(&txn, &found.value).map(|text| text.into_owned())).transpose()?;
        is_ours = match &before {
            None => (0..SYSTEM).all(|db| table.keys(db).0 == 0),
            Some(before) => is_abandoned(table, before),
        };
        if is_ours || before.is_none() {
            let value = Value::Packed(if is_ours { mine.as_bytes() } else { OPEN });
            txn.write(SYSTEM, OPENED, &New::of(Kind::String, value), Replaces::Whole)?;
        }
        Ok(())
    })?;
    Ok(is_ours)
}

/// Whether a file was being loaded by a thread that is dead. The keys that it loaded stay as they
/// are by now: the rest is added.
fn is_abandoned(table: &Table, opened: &[u8]) -> bool {
    let text = String::from_utf8_lossy(opened);
    let who = text.split_once(' ').and_then(|(seat, life)| Some((seat.parse().ok()?, life.parse().ok()?)));
    who.is_some_and(|(seat, life)| !table.segment().lives(seat, life))
}

/// The segment has what it was to have.
///
/// # Errors
/// What the memory says.
pub fn confirm_loaded(table: &Table) -> Outcome {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        txn.write(SYSTEM, OPENED, &New::of(Kind::String, Value::Packed(OPEN)), Replaces::Whole)
    })
}

/// The new segment is new again: what was to be read into it could not be.
///
/// # Errors
/// What the memory says.
pub fn disclaim_new(table: &Table) -> Outcome {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.declare(&[(SYSTEM, OPENED)])?;
        txn.flush(None)?;
        txn.tell_flush();
        txn.remove(SYSTEM, OPENED, Replaces::Whole).map(|_| ())
    })
}

/// Reads the file that the settings name into the table; `None` where there is no such file.
///
/// # Errors
/// What went wrong, in words. What was read before stays.
pub fn load_file(table: &Table, settings: &Settings, present: Present) -> Result<Option<Loaded>, String> {
    let path = save::path(settings);
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    read_file(table, settings, &mut file, present, &mut |_| ()).map(Some).map_err(|cut| format!("{}: {cut}", path.display()))
}

/// DEBUG RELOAD: saves, empties all databases, loads.
pub(crate) fn reload(call: &mut SessionCall<'_>) -> Outcome {
    let (mut saves, mut flushes, mut present) = (true, true, Present::Refused);
    for word in &call.args[2..] {
        match () {
            () if is(word, "NOSAVE") => saves = false,
            () if is(word, "NOFLUSH") => flushes = false,
            () if is(word, "MERGE") => present = Present::Replaced,
            () => return Err("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.".into()),
        }
    }
    let settings = call.host.settings();
    if saves {
        call.host.keeper().save(call.table, settings).map_err(|why| format!("ERR the RDB file was not written: {why}"))?;
    }
    if flushes {
        let txn = begin(call.table, call.session, Mode::Write)?;
        retry(&txn, || txn.flush(None).map(|()| txn.tell_flush()))?;
        drop(txn);
        let txn = begin(call.table, call.session, Mode::Write)?;
        retry(&txn, || clear_codes(&txn))?;
    }
    match load_file(call.table, settings, present) {
        Ok(Some(_)) => call.reply.ok(),
        Ok(None) => return Err("ERR Error trying to load the RDB dump: there is no such file".into()),
        Err(why) => return Err(format!("ERR Error trying to load the RDB dump: {why}").into()),
    }
    Ok(())
}
