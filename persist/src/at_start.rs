//! What a server reads into a memory before it serves clients.
//!
//! | the segment is | appendonly | there is | what happens |
//! |---|---|---|---|
//! | in use | | | nothing is read: the data is there |
//! | new | no | an RDB file | it is loaded |
//! | new | yes | a log | it is loaded, and the memory goes on with it |
//! | new | yes | an RDB file only | it is loaded; the log begins with a base |
//! | in use | yes | the log of another memory | refused |
//!
//! - **A1** A log is read into an empty memory only. A process that dies meanwhile leaves a mark (`opened.rs`): a server that reads a log begins again, from
//!   nothing; all others are refused.
//! - **A2** The change log is off while a log is read, and on before the memory is open. So what is committed afterwards follows in the files. A program
//!   that was attached before may write meanwhile: where there may be one, or anything was written by another thread, the files get a base of
//!   what is in the memory, as if the log began there. Until then they count, and nothing else is promised. Nothing expires before the log is on
//!   ([`polder_table::Loading`]): that would be told nowhere, and counts as no change.
//! - **A3** The folder is locked from before the first byte is read until the server's storage process has taken it over.
use std::path::PathBuf;
use std::time::Duration;

use polder_calls::settings::{Id, id};
use polder_storage::{Folder, Lock, Manifest};
use polder_table::Table;

use crate::opened::{self, Claim, Source};
use crate::persistence;
use crate::replay::{self, Files, Replayed, TornEnd};
use crate::saves::load::{Loaded, Present};
use crate::saves::save;
use crate::storage_process;
use polder_runtime::configuration::Configuration;
use polder_runtime::scripting::Scripting;

const LOAD: Id = id("load-rdb");
/// How often a server looks whether another process has read the data.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What is to be read.
pub enum Reading {
    /// Nothing, or it has been read.
    Done(Loaded),
    Log(Box<LogReading>),
}

/// A log that is to be read. The memory is not open until [`LogReading::read`] has returned.
pub struct LogReading {
    folder: Folder,
    manifest: Manifest,
    lock: Lock,
}

/// Decides what is to be read, and reads an RDB file. Waits while another server reads.
///
/// # Errors
/// Why the server must not start, and what to do.
pub fn begin(table: &Table, settings: &Configuration) -> Result<Reading, String> {
    let logs = settings.is_on(const { id("appendonly") });
    let source = source(settings, logs)?;
    let is_ours = claim(table, &source)?;
    match source {
        Source::Log(_) if is_ours => {
            let read = begin_log(table, settings).inspect_err(|_| give_up(table))?;
            return Ok(Reading::Log(Box::new(read)));
        }
        _ if logs && !is_ours => storage_process::check_folder(table, settings)?,
        _ => {}
    }
    let always = settings.string(LOAD) == "always";
    match is_ours || always {
        true => load_rdb(table, settings, is_ours).map(Reading::Done),
        false => Ok(Reading::Done(Loaded::default())),
    }
}

/// Whether this thread is to read the data. Waits while another one reads.
fn claim(table: &Table, source: &Source) -> Result<bool, String> {
    let mut told = false;
    loop {
        match opened::claim(table, source).map_err(|stop| format!("the segment cannot be read: {stop}"))? {
            Claim::Ours => return Ok(true),
            Claim::Open => return Ok(false),
            Claim::Refused(reader) if !reader.lives(table) => return Err(reader.trouble(table)),
            Claim::Refused(_) => {}
        }
        if !std::mem::replace(&mut told, true) {
            tracing::info!("another process reads the data of this segment: waiting for its end");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What a new memory is to hold.
fn source(settings: &Configuration, logs: bool) -> Result<Source, String> {
    let folder = replay::folder(settings);
    let rdb = save::path(settings);
    Ok(match () {
        () if logs && folder.load().map_err(|error| error.to_string())?.is_some() => Source::Log(folder.path),
        () if settings.string(LOAD) != "no" && rdb.exists() => Source::Rdb(rdb),
        () => Source::Nothing,
    })
}

/// The segment is new again. Where that fails, the mark of this thread stays, and the next server begins anew.
fn give_up(table: &Table) {
    if let Err(stop) = opened::disclaim(table) {
        tracing::error!(%stop, "what was read stays in the segment: remove it before the next start");
    }
}

fn load_rdb(table: &Table, settings: &Configuration, is_ours: bool) -> Result<Loaded, String> {
    let loaded = persistence::load_file(table, settings, Present::Kept).map_err(|why| {
        // A damaged file must not leave half a segment that the next start takes for a whole one.
        let undone = !is_ours || opened::disclaim(table).is_ok();
        let advice =
            if undone { "put it right or move it away" } else { "remove the segment before the next start" };
        format!("the RDB file cannot be read: {why}; {advice}, or start with '--load-rdb no'")
    })?;
    opened::confirm(table).map_err(|stop| format!("the segment cannot be written: {stop}"))?;
    if let Some(loaded) = &loaded {
        let Loaded { keys, expired, kept, .. } = loaded;
        tracing::info!(keys, expired, kept, "the RDB file was read");
        tell_foreign(loaded);
    }
    Ok(loaded.unwrap_or_default())
}

/// The log in the folder that the settings name.
fn begin_log(table: &Table, settings: &Configuration) -> Result<LogReading, String> {
    let folder = replay::folder(settings);
    let told = |error: std::io::Error| format!("{}: {error}", folder.path.display());
    let lock = Lock::take(&folder.path).map_err(told)?;
    let lock = lock.ok_or_else(|| {
        format!(
            "{}: another process writes this log: choose another --dir, or end that process",
            folder.path.display()
        )
    })?;
    let manifest = folder.load().map_err(|error| error.to_string())?;
    let manifest =
        manifest.ok_or_else(|| format!("{}: the log that was here is gone", folder.path.display()))?;
    // A1.
    empty(table)?;
    Ok(LogReading { folder, manifest, lock })
}

/// Removes what a process has read that died before it was done, and turns the change log off that it may have turned on.
///
/// # Errors
/// What the memory says.
pub fn empty(table: &Table) -> Result<(), String> {
    if table.log().is_on() {
        table.log().turn_off().map_err(|fault| fault.to_string())?;
    }
    if replay::is_empty(table) {
        Ok(())
    } else {
        persistence::remove_all(table).map_err(|stop| stop.to_string())
    }
}

impl LogReading {
    /// Where the log lies.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder.path
    }

    /// Reads the log, takes it over, and opens the memory. Returns the folder's lock for the storage process.
    ///
    /// # Errors
    /// What went wrong, with file and byte, and what to do. The segment is new again then.
    pub fn read(
        self,
        table: &Table,
        settings: &Configuration,
        scripting: Scripting,
    ) -> Result<(Lock, Loaded), String> {
        let LogReading { folder, manifest, lock } = self;
        let opened = read_and_open(table, settings, scripting, (&folder, manifest));
        match opened {
            Ok(loaded) => Ok((lock, loaded)),
            Err(why) => {
                // A2: what is emptied is not told.
                let _ = table.log().turn_off();
                give_up(table);
                Err(format!(
                    "the append-only log cannot be read: {why}; put it right ('polder log check --fix {path}'), or move {path} away",
                    path = folder.path.display()
                ))
            }
        }
    }
}

fn read_and_open(
    table: &Table,
    settings: &Configuration,
    scripting: Scripting,
    (folder, manifest): (&Folder, Manifest),
) -> Result<Loaded, String> {
    let torn_end =
        if settings.is_on(const { id("aof-load-truncated") }) { TornEnd::CutOff } else { TornEnd::Refused };
    let others_changed = || table.changes_of_others().map_err(|fault| fault.to_string());
    let files = Files::open(folder, manifest.clone())?;
    let (was_empty, before) = (replay::is_empty(table), others_changed()?);
    // Until the change log is on: what expires in between would be told nowhere.
    let loading = table.begin_loading().map_err(|fault| fault.to_string())?;
    let replayed = replay::replay(&loading, settings, &scripting, files, torn_end, &mut |_| ())?;
    // A2. A writer that has not seen the change log on is attached still, or what it has changed is counted.
    let is_whole = || was_empty && table.segment().is_alone_here() && others_changed() == Ok(before);
    storage_process::adopt(table, folder, manifest, is_whole)?;
    drop(loading);
    opened::confirm(table).map_err(|stop| format!("the segment cannot be written: {stop}"))?;
    tell(&replayed);
    let keys = (0..polder_table::SYSTEM).map(|db| table.keys(db).0).sum();
    Ok(Loaded { keys, ..replayed.base })
}

fn tell_foreign(Loaded { foreign_count, foreign, .. }: &Loaded) {
    if *foreign_count > 0 {
        tracing::warn!(keys = foreign_count, first = ?foreign, "keys of modules were left out");
    }
}

fn tell(replayed: &Replayed) {
    let Replayed { commands, refused, first_refused, torn, base, .. } = replayed;
    tracing::info!(keys = base.keys, commands, "the append-only log was read");
    tell_foreign(base);
    if let Some((path, valid)) = torn as &Option<(PathBuf, u64)> {
        tracing::warn!(file = %path.display(), "the log ended inside a record: what stood behind byte {valid} was cut off");
    }
    if let Some(first) = first_refused {
        tracing::warn!(refused, first, "commands of the log were refused, as they must have been before");
    }
}
