//! DEBUG RELOAD and DEBUG LOADAOF: the data is in files, is removed from the memory, and is read back.
//!
//! Both are for tests of what the files hold. Other clients see the memory empty and then filling, and what they write meanwhile
//! may be replaced.
use std::time::{Duration, Instant};

use polder_calls::call::{Outcome, is};
use polder_calls::settings::id;
use polder_storage::Folder;
use polder_table::{Mode, Stop, Table};

use crate::persistence::load_file;
use crate::replay::{self, Files, TornEnd};
use crate::retry::retry;
use crate::row::SessionCall;
use crate::run::begin;
use crate::saves::load::Present;
use crate::scripts::clear_codes;
use crate::storage_note::Note;

/// How long DEBUG LOADAOF waits for the disk, and between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Removes all keys and functions.
fn remove_all(call: &SessionCall<'_>) -> Result<(), Stop> {
    let txn = begin(call.table, call.session, Mode::Write)?;
    retry(&txn, || txn.flush(None).map(|()| txn.tell_flush()))?;
    drop(txn);
    let txn = begin(call.table, call.session, Mode::Write)?;
    retry(&txn, || {
        txn.tell(0, &[b"FUNCTION", b"FLUSH"]);
        clear_codes(&txn)
    })
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
        call.host
            .saves()
            .save(call.table, settings)
            .map_err(|why| format!("ERR the RDB file was not written: {why}"))?;
    }
    if flushes {
        remove_all(call)?;
    }
    match load_file(call.table, settings, present) {
        Ok(Some(_)) => call.reply.ok(),
        Ok(None) => return Err("ERR Error trying to load the RDB dump: there is no such file".into()),
        Err(why) => return Err(format!("ERR Error trying to load the RDB dump: {why}").into()),
    }
    Ok(())
}

/// DEBUG LOADAOF: waits until all changes are in the append-only log, empties all databases, makes the changes again. The log goes on
/// behind them, and is told of both.
pub(crate) fn load_log(call: &mut SessionCall<'_>) -> Outcome {
    let failed = |why: String| Stop::from(format!("ERR Error trying to load the AOF files: {why}"));
    let settings = call.host.settings();
    let scripting = call.host.scripting().ok_or_else(|| failed("this process runs no scripts".into()))?;
    let folder = settle(call.table, replay::folder(settings)).map_err(failed)?;
    let manifest = folder.load().map_err(|error| failed(error.to_string()))?;
    let manifest = manifest.ok_or_else(|| {
        failed(format!("{}: there is no log; set appendonly to yes", folder.path.display()))
    })?;
    let files = Files::open(&folder, manifest).map_err(failed)?;
    let loading = call.table.begin_loading()?;
    remove_all(call)?;
    let torn_end =
        if settings.is_on(const { id("aof-load-truncated") }) { TornEnd::Ignored } else { TornEnd::Refused };
    replay::replay(&loading, settings, scripting, files, torn_end, &mut |_| ()).map_err(failed)?;
    drop(loading);
    call.reply.ok();
    Ok(())
}

/// Waits until what was committed is in the files; returns where these lie. Without a process that writes them they are taken as they are.
fn settle(table: &Table, like: Folder) -> Result<Folder, String> {
    let words = table.segment().storage();
    if !words.owner().is_some_and(|owner| owner.lives) {
        return Ok(like);
    }
    let (seen, end) = (words.seen(), Instant::now() + PATIENCE);
    while !words.is_durable(seen) {
        words.want(seen);
        if Instant::now() >= end {
            return Err(format!(
                "the changes are not on the disk after {} s: see aof_last_write_status in INFO persistence",
                PATIENCE.as_secs()
            ));
        }
        std::thread::sleep(PAUSE);
    }
    let note = Note::load(table).map_err(|stop| stop.to_string())?;
    Ok(note.map_or(like.clone(), |note| note.folder(&like)))
}
