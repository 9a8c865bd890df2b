//! SAVE, BGSAVE and their kin: the memory in a file that Redis understands.
//!
//! The memory survives every process, so a file is for moving data, for backups, and for a power
//! cut. Nothing forks and nothing stops: a save reads the keys as they were at one instant while
//! all other calls go on.
use std::fs::File;

use polder_table::{Mode, Stop, Table};

use crate::saves::load::{Loaded, Present, load as read_file};
use crate::storage_figures::LogReport;
use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{ADMIN, DANGEROUS, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE};
use polder_calls::settings::Settings;
use polder_runtime::retry::retry;
use polder_runtime::row::{Row, SessionCall, session};
use polder_runtime::scripts::clear_codes;

pub use crate::saves::{Saves, handle, has_save_points, load, save};

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
    let saves = call.host.saves();
    if saves.is_saving() {
        return Err(IN_PROGRESS.into());
    }
    saves
        .save(call.table, call.host.settings())
        .map_err(|why| format!("ERR the RDB file was not written: {why}"))?;
    call.reply.ok();
    Ok(())
}

fn save_meanwhile(call: &mut SessionCall<'_>) -> Outcome {
    let saves = call.host.saves();
    match call.args[1..] {
        [] => {}
        [word] if is(word, "SCHEDULE") => {}
        [word] if is(word, "CANCEL") => {
            if !saves.cancel() {
                return Err("ERR Background saving is currently not in progress or scheduled".into());
            }
            call.reply.status("Background saving cancelled");
            return Ok(());
        }
        _ => return Err(SYNTAX.into()),
    }
    if call.session.caller.atomic && !saves.is_saving() {
        // What this transaction writes belongs to it, too.
        call.host.save_signals().schedule();
        call.reply.status("Background saving scheduled");
        return Ok(());
    }
    if !saves.save_meanwhile(call.table, call.host.settings()).map_err(|why| format!("ERR {why}"))? {
        return Err(IN_PROGRESS.into());
    }
    call.reply.status("Background saving started");
    Ok(())
}

fn last_save(call: &mut SessionCall<'_>) -> Outcome {
    let seconds = call.host.saves().last_save_seconds(call.host.recorder().started_ms() / 1000);
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
    let is_scheduled = call.session.caller.atomic || call.host.saves().is_saving() || report.process == 0;
    call.reply.status(if is_scheduled {
        "Background append only file rewriting scheduled"
    } else {
        "Background append only file rewriting started"
    });
    Ok(())
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
    read_file(table, settings, &mut file, present, &mut |_| ())
        .map(Some)
        .map_err(|cut| format!("{}: {cut}", path.display()))
}

/// Removes all keys and functions, and tells the log so.
///
/// # Errors
/// Faults of the memory.
pub fn remove_all(table: &Table) -> Result<(), Stop> {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || txn.flush(None).map(|()| txn.tell_flush()))?;
    drop(txn);
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || {
        txn.tell(0, &[b"FUNCTION", b"FLUSH"]);
        clear_codes(&txn)
    })
}

/// DEBUG RELOAD: saves, empties all databases, loads.
pub fn reload(call: &mut SessionCall<'_>) -> Outcome {
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
        call.host
            .saves()
            .save(call.table, settings)
            .map_err(|why| format!("ERR the RDB file was not written: {why}"))?;
    }
    if flushes {
        remove_all(call.table)?;
    }
    match load_file(call.table, settings, present) {
        Ok(Some(_)) => call.reply.ok(),
        Ok(None) => return Err("ERR Error trying to load the RDB dump: there is no such file".into()),
        Err(why) => return Err(format!("ERR Error trying to load the RDB dump: {why}").into()),
    }
    Ok(())
}
