//! DEBUG LOADAOF: the data is in the files of the append-only log, is removed from the memory, and is read back.
//!
//! It is for tests of what the files hold. Other clients see the memory empty and then filling, and what they write meanwhile may be
//! replaced.
use std::time::{Duration, Instant};

use polder_calls::settings::id;
use polder_storage::Folder;
use polder_table::Table;

use crate::persistence::remove_all;
use crate::replay::{self, Files, TornEnd};
use crate::storage_note::Note;
use polder_runtime::configuration::Configuration;
use polder_runtime::scripting::Scripting;

/// The patience with the disk, and the pause between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until all changes are in the log, empties all databases, and makes the changes again. The log goes on behind them, and is told
/// of both.
///
/// # Errors
/// The fault, in words. If a file is damaged, the memory holds what was read before that.
pub fn load_log(table: &Table, settings: &Configuration, scripting: &Scripting) -> Result<(), String> {
    let folder = settle(table, settings)?;
    let manifest = folder.load().map_err(|error| error.to_string())?;
    let manifest = manifest
        .ok_or_else(|| format!("{}: there is no log; set appendonly to yes", folder.path.display()))?;
    let files = Files::open(&folder, manifest)?;
    let loading = table.begin_loading().map_err(|fault| fault.to_string())?;
    remove_all(table).map_err(|stop| stop.to_string())?;
    let torn_end = match settings.is_on(const { id("aof-load-truncated") }) {
        true => TornEnd::Ignored,
        false => TornEnd::Refused,
    };
    replay::replay(&loading, settings, scripting, files, torn_end, &mut |_| ()).map(drop)
}

/// Waits until what was committed is in the files; returns where these lie. Where no log is to be written, they are taken as they are.
fn settle(table: &Table, settings: &Configuration) -> Result<Folder, String> {
    let like = replay::folder(settings);
    let words = table.segment().storage();
    if !words.owner().is_some_and(|owner| owner.lives) {
        // Files of a writer that is gone may be older than the memory.
        return match settings.is_on(const { id("appendonly") }) {
            true => Err("no process writes the log at present: try again when one does".into()),
            false => Ok(like),
        };
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
