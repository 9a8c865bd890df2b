//! The election: which folder the log lies in, whether it is this memory's, and whether it can be continued.
//!
//! ```text
//!   manifest of   another memory         this one before the machine went down       this memory
//!                     |                     while a process used it                       |
//!                 refused                 refused: the log may have more        reaches beyond the change log?  --yes--> refused: an older copy
//!                                                                                         | no
//!                                                  note, stream and boot fit?  --yes--> compared (`polder_storage::resume`), continued
//!                                                                              --no---> begun anew: another base
//! ```
//!
//! - **E1** No log is begun anew over one that holds more than the memory. A `file:` segment can be older than its log, after a power cut or where a
//!   copy was put back. Offsets of a memory's change log never go back, also from stream to stream. So a log that names a later offset than the memory
//!   has is the newer one.
//! - **E2** A log stays in its folder, also while it is begun anew and its note names a log that no manifest names yet.
use std::io;
use std::path::Path;
use std::time::Instant;

use polder_storage::resume::{Broken, compare};
use polder_storage::{Folder, Follower, Identity, Lock, Log, Manifest, Position, incr, reach, resume};
use polder_table::Table;

use super::{Draws, Elected, SLOT, StorageProcess, Tail};
use crate::storage_figures::{Figure, told};
use crate::storage_note::{Note, boot_id, new_log_id};
use polder_runtime::configuration::Configuration;

/// In the place of the boot, in the note of a log that lacks something of the memory.
const NOT_WHOLE: &str = "not-whole";

/// Takes over a log that was read into a new memory: turns the change log on, so that the log goes on with the next commit. Where the memory holds more
/// than that log (`is_whole`, which is asked once the change log is on), a base follows: the note names no boot, so the election begins anew (P2).
///
/// # Errors
/// What the memory or the system says.
pub fn adopt(
    table: &Table,
    folder: &Folder,
    manifest: Manifest,
    is_whole: impl FnOnce() -> bool,
) -> Result<(), String> {
    let has_turned_on = !table.log().is_on();
    table.log().turn_on().map_err(|fault| fault.to_string())?;
    let is_whole = is_whole();
    let (stream, (_, offset)) = (table.log().identity(), table.log().range());
    let identity = Identity { memory: table.segment().memory_id(), stream, log: new_log_id() };
    let mut opening = Vec::new();
    incr::annotate_offset(&mut opening, offset);
    let log = Log::adopt(folder.clone(), manifest, identity.clone(), &opening)
        .map_err(|error| failed(folder, &error))?;
    let position = Position { noted: log.noted(), offset };
    let mut note = note_of(folder, identity, position, has_turned_on)?;
    if !is_whole {
        note.boot = NOT_WHOLE.into();
    }
    note.store(table).map_err(|stop| stop.to_string())?;
    table.log().hold(SLOT, Some(offset));
    Ok(())
}

fn note_of(
    folder: &Folder,
    identity: Identity,
    position: Position,
    has_turned_on: bool,
) -> Result<Note, String> {
    let (path, name, Identity { stream, log, .. }) = (folder.path.clone(), folder.name.clone(), identity);
    Ok(Note { log, boot: boot_id()?, stream, position, synced: position, has_turned_on, path, name })
}

fn failed(folder: &Folder, error: &io::Error) -> String {
    format!("{}: {error}", folder.path.display())
}

/// The folder of the log: see [`StorageProcess::elect`], E2.
fn folder_of(
    table: &Table,
    settings: &Configuration,
    note: Option<&Note>,
    is_explicit: bool,
) -> Result<Folder, String> {
    let own = crate::replay::folder(settings);
    let Some(noted) = note
        .filter(|note| !note.has_ended() && (&note.path, &note.name) != (&own.path, &own.name))
        .map(|note| note.folder(&own))
    else {
        return Ok(own);
    };
    let holds_ours = |folder: &Folder| folder.load().ok().flatten().map(|manifest| is_ours(table, &manifest));
    match holds_ours(&noted) {
        Some(true) if is_explicit => Err(format!(
            "the log of this memory lies in {}: name that folder with --dir and --appenddirname, or move it to {}",
            noted.path.display(),
            own.path.display()
        )),
        Some(true) => Ok(noted),
        // It was begun there, and has no base yet. Where the folder was moved, it is there no more.
        None if !is_explicit && noted.path.is_dir() && holds_ours(&own) != Some(true) => Ok(noted),
        _ => Ok(own),
    }
}

fn is_ours(table: &Table, manifest: &Manifest) -> bool {
    manifest.identity.as_ref().is_some_and(|identity| identity.memory == table.segment().memory_id())
}

/// The manifest of a folder whose log is this memory's, or that has none.
fn own_manifest(table: &Table, folder: &Folder) -> Result<Option<Manifest>, String> {
    let manifest = folder.load().map_err(|error| error.to_string())?;
    match manifest {
        Some(manifest) if !is_ours(table, &manifest) => Err(foreign(table, &folder.path, &manifest)),
        manifest => Ok(manifest),
    }
}

/// Refuses a log that holds more than the memory (E1). In the stream in which the memory has noted that it wrote this log, offsets tell. Where the memory
/// has gone on in another stream, or names another log, that log holds no more than what was noted by then.
fn check_reach(
    table: &Table,
    folder: &Folder,
    manifest: &Manifest,
    note: Option<&Note>,
) -> Result<(), String> {
    let reached = reach(folder, manifest).map_err(|error| failed(folder, &error))?.unwrap_or_default();
    let end = table.log().range().1;
    let names = |note: &Note| manifest.identity.as_ref().is_some_and(|identity| identity.log == note.log);
    let known = match note {
        Some(note) if names(note) && note.stream == table.log().identity() => end,
        Some(note) => note.position.offset.min(end),
        None => 0,
    };
    if reached <= known {
        return Ok(());
    }
    let why = match reached > end {
        true => format!("and the segment up to {end}"),
        false => format!("and the segment has noted no more than {known} of that log"),
    };
    Err(newer(table, &folder.path, &format!("it reaches up to offset {reached} of the change log, {why}")))
}

fn foreign(table: &Table, path: &Path, manifest: &Manifest) -> String {
    let is_earlier =
        manifest.identity.as_ref().is_some_and(|identity| table.segment().was_memory(&identity.memory));
    if is_earlier {
        return newer(
            table,
            path,
            "the segment was in use when the machine went down, and may be older than the log, or torn",
        );
    }
    format!(
        "{path}: this is the log of another memory: name another folder with --dir, or read it into an empty memory first ('polder import {path}') \
         and move it away",
        path = path.display()
    )
}

fn newer(table: &Table, path: &Path, why: &str) -> String {
    format!(
        "{path}: the log may hold more than the segment: {why}. To go on with what the log holds, remove the segment ('polder segment remove {segment}') \
         and start again: the log is read then. To go on with what the segment holds, move the log away",
        path = path.display(),
        segment = table.segment().mapping().name()
    )
}

/// What a process that has been elected begins with.
pub(super) fn begin<'t>(
    table: &'t Table,
    settings: &'t Configuration,
    (lock, is_explicit): (Option<Lock>, bool),
    seat: (u64, u64),
) -> Result<Elected<'t>, String> {
    let before = Note::load(table).map_err(|stop| stop.to_string())?;
    let folder = folder_of(table, settings, before.as_ref(), is_explicit)?;
    folder.make().map_err(|error| failed(&folder, &error))?;
    let lock = lock.map_or_else(
        || Lock::take(&folder.path).map_err(|error| failed(&folder, &error)),
        |lock| Ok(Some(lock)),
    )?;
    let Some(lock) = lock else {
        return Ok(Elected::Another(format!("{}: another process writes this log", folder.path.display())));
    };
    let manifest = own_manifest(table, &folder)?;
    let was_on = table.log().is_on();
    table.log().turn_on().map_err(|fault| fault.to_string())?;
    let has_turned_on =
        !was_on || before.as_ref().is_some_and(|note| note.has_turned_on && !note.has_ended());
    let noted = before.clone();
    let resumed = match (&manifest, before) {
        (Some(manifest), Some(note)) => go_on(table, &folder, manifest, Note { has_turned_on, ..note })?,
        _ => None,
    };
    let (follower, note) = match (resumed, &manifest) {
        (Some(resumed), _) => resumed,
        (None, manifest) => {
            if let Some(manifest) = manifest {
                check_reach(table, &folder, manifest, noted.as_ref())?;
            }
            // What was committed while the change log was off has drawn no number: from now on nothing counts as on the disk before the base is.
            table.segment().storage().draw();
            begin_anew(table, &folder, has_turned_on)?
        }
    };
    Ok(Elected::Ours(Box::new(StorageProcess {
        table,
        settings,
        folder,
        follower,
        note,
        draws: Draws::default(),
        base: None,
        next_base: Instant::now(),
        base_failed: false,
        told: String::new(),
        seat,
        _lock: lock,
    })))
}

/// Goes on with the log where the process before was, if what it has noted counts (P2).
fn go_on(
    table: &Table,
    folder: &Folder,
    manifest: &Manifest,
    note: Note,
) -> Result<Option<(Follower, Note)>, String> {
    let left = note.left(told(table.segment().storage(), Figure::InSync) != 0);
    let end = table.log().range().1;
    if !counts(table, manifest, &note, left.begin().offset)? {
        return Ok(None);
    }
    match resume(folder.clone(), manifest.clone(), &left, &Tail { table, note: &note, end, syncs: true }) {
        Ok((log, offset)) => {
            // Orphans do no harm if they cannot be removed now.
            let _ = folder.remove_orphans(log.manifest());
            let note = Note { path: folder.path.clone(), name: folder.name.clone(), ..note };
            Ok(Some((Follower::new(log, offset, left.synced, Instant::now()), note)))
        }
        // What a sync has lost that failed may differ, too: then the offsets tell.
        Err(Broken::Ahead(why)) if !left.in_sync => Err(newer(table, &folder.path, &why)),
        Err(error) => {
            tracing::warn!(%error, "the log cannot be continued: another base is written");
            Ok(None)
        }
    }
}

/// Whether a note counts for the log that a manifest names (P2), and the change log is kept from an offset on.
fn counts(table: &Table, manifest: &Manifest, note: &Note, offset: u64) -> Result<bool, String> {
    let is_noted = manifest.identity.as_ref().is_some_and(|identity| identity.log == note.log);
    let is_of_now = (&note.stream, &note.boot) == (&table.log().identity(), &boot_id()?);
    Ok(is_noted && is_of_now && table.log().range().0 <= offset)
}

/// Begins a log over what is in the folder, which counts until the first base is written. The caller knows that it holds nothing more (E1).
pub(super) fn begin_anew(
    table: &Table,
    folder: &Folder,
    has_turned_on: bool,
) -> Result<(Follower, Note), String> {
    if let Some(manifest) = folder.load().map_err(|error| error.to_string())? {
        // They do no harm if they cannot be removed now.
        let _ = folder.remove_orphans(&manifest);
    }
    let identity =
        Identity { memory: table.segment().memory_id(), stream: table.log().identity(), log: new_log_id() };
    let log = Log::begin(folder.clone(), identity.clone()).map_err(|error| failed(folder, &error))?;
    let offset = table.log().range().1;
    table.log().hold(SLOT, Some(offset));
    let position = Position { noted: log.noted(), offset };
    let note = note_of(folder, identity, position, has_turned_on)?;
    // E2. Where it cannot be stored, the one before says where the log lies, or the first batch's does.
    let _ = note.store(table);
    Ok((Follower::new(log, offset, position, Instant::now()), note))
}

/// Whether the folder that the settings name could take the log of this memory.
///
/// # Errors
/// Why not.
pub fn check_folder(table: &Table, settings: &Configuration) -> Result<(), String> {
    let note = Note::load(table).map_err(|stop| stop.to_string())?;
    let folder = folder_of(table, settings, note.as_ref(), false)?;
    folder.make().map_err(|error| failed(&folder, &error))?;
    let Some(manifest) = own_manifest(table, &folder)? else { return Ok(()) };
    match table.segment().storage().owner() {
        // It has looked, and its files grow.
        Some(owner) if owner.lives => return Ok(()),
        _ => check_reach(table, &folder, &manifest, note.as_ref())?,
    }
    let Some(note) = note else { return Ok(()) };
    let left = note.left(told(table.segment().storage(), Figure::InSync) != 0);
    if left.in_sync || !counts(table, &manifest, &note, left.position.offset)? {
        return Ok(());
    }
    let end = table.log().range().1;
    let tail = Tail { table, note: &note, end, syncs: true };
    // Another process may have taken over meanwhile, and what it has copied is not in `tail`.
    let goes_on =
        || table.log().range().1 != end || table.segment().storage().owner().is_some_and(|owner| owner.lives);
    match compare(&folder, &manifest, &left, &tail) {
        Err(Broken::Ahead(_)) if goes_on() => Ok(()),
        Err(Broken::Ahead(why)) => Err(newer(table, &folder.path, &why)),
        // Another base makes good what else there is.
        _ => Ok(()),
    }
}
