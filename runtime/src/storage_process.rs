//! The storage process: it copies the change log of a memory into the files of an append-only log, and writes their bases.
//!
//! ```text
//!   commits --> change log in the segment --> follower (`polder_storage::Follower`) --> appendonlydir/*.incr.aof
//!                        |                                                                            ^ cut
//!                        `-- snapshot at an offset (`Table::snapshot_in_log`) --> *.base.rdb, written by a thread of its own
//! ```
//!
//! How far the log was copied stands in the hidden database ([`NOTE`]), so that a successor goes on exactly there. Should the stream have lost
//! a change, or have been off, the files are no whole log of what follows: another base is written.
//!
//! **Invariant**: one process copies. The folder is locked for as long as it lives.
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_storage::follower::Failure;
use polder_storage::{Entry, Folder, Follower, Fsync, Identity, Lock, Log, Noted, Position, Stream, Terms};
use polder_table::{Db, Mode, New, Replaces, SYSTEM, Table};
use polder_values::{Kind, Value, string};
use polder_wire::resp::command;

use crate::configuration::Configuration;
use crate::retry::retry;
use crate::saves::save::{Plan, Progress};
use polder_calls::settings::id;

/// The key under which it is noted how far the change log was copied: stream, sequence number of the file, its length, offset.
const NOTE: &[u8] = b"persistence:log";
/// The slot of the log that holds what has not been copied yet.
const SLOT: u64 = 0;
/// How long the process sleeps where there was something to copy, and where there was nothing.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_IDLE: Duration = Duration::from_millis(20);
/// How long after a base that failed another one is begun.
const RETRY: Duration = Duration::from_secs(5);

/// What copies the change log of a memory.
pub struct StorageProcess<'t> {
    table: &'t Table,
    settings: &'t Configuration,
    folder: Folder,
    follower: Follower,
    stream: String,
    base: Option<Base>,
    next_base: Instant,
    /// The last error that was told.
    told: String,
    _lock: Lock,
}

/// A base that is being written.
struct Base {
    entry: Entry,
    thread: JoinHandle<Result<u64, String>>,
    progress: std::sync::Arc<Progress>,
}

/// The change log as a stream that a follower copies.
struct Tail<'t> {
    table: &'t Table,
    stream: &'t str,
}

impl Stream for Tail<'_> {
    fn end(&self) -> u64 {
        self.table.log().range().1
    }

    fn read(&self, offset: u64, into: &mut Vec<u8>, bytes_max: usize) -> Result<u64, String> {
        self.table.log().read(offset, into, bytes_max).map_err(|error| error.to_string())
    }

    fn note(&self, Position { noted: Noted { sequence, length }, offset }: Position) -> Result<(), String> {
        let text = format!("{} {sequence} {length} {offset}", self.stream);
        let write = || {
            let txn = self.table.begin(Mode::Write)?;
            retry(&txn, || {
                txn.declare(&[(SYSTEM, NOTE)])?;
                txn.write(SYSTEM, NOTE, &New::of(Kind::String, Value::Packed(text.as_bytes())), Replaces::Whole)
            })
        };
        write().map_err(|stop: polder_table::Stop| stop.to_string())?;
        self.table.log().hold(SLOT, Some(offset));
        Ok(())
    }
}

/// What the process before has noted: the stream, and how far it was copied.
fn noted(table: &Table) -> Result<Option<(String, Position)>, String> {
    let read = || {
        let txn = table.begin(Mode::Read)?;
        let mut found = None;
        retry(&txn, || {
            let note = txn.peek(SYSTEM, NOTE)?;
            found = note.map(|note| string::contiguous(&txn, &note.value).map(|text| text.into_owned())).transpose()?;
            Ok(())
        })?;
        Ok(found)
    };
    let text = read().map_err(|stop: polder_table::Stop| stop.to_string())?;
    Ok(text.and_then(|text| parse(&String::from_utf8_lossy(&text))))
}

fn parse(text: &str) -> Option<(String, Position)> {
    let mut words = text.split(' ');
    let stream = words.next()?.to_owned();
    let mut number = || words.next()?.parse().ok();
    let noted = Noted { sequence: number()?, length: number()? };
    Some((stream, Position { noted, offset: number()? }))
}

/// What tells a memory from every other, as its log's manifest names it.
fn memory_id(table: &Table) -> String {
    format!("{:x}", table.segment().created_ms())
}

impl<'t> StorageProcess<'t> {
    /// Takes the folder that the settings name, and turns the change log on.
    ///
    /// # Errors
    /// Why it cannot be: another process writes the log, the folder holds another memory's, the disk or the memory refuse.
    pub fn begin(table: &'t Table, settings: &'t Configuration) -> Result<StorageProcess<'t>, String> {
        let folder = crate::replay::folder(settings);
        let told = |error: std::io::Error| format!("{}: {error}", folder.path.display());
        folder.make().map_err(told)?;
        let lock = Lock::take(&folder.path).map_err(told)?;
        let lock = lock.ok_or_else(|| format!("{}: another process writes this log", folder.path.display()))?;
        let manifest = folder.load().map_err(|error| error.to_string())?;
        let is_ours =
            |manifest: &polder_storage::Manifest| manifest.identity.as_ref().is_some_and(|identity| identity.memory == memory_id(table));
        if manifest.as_ref().is_some_and(|manifest| !is_ours(manifest)) {
            return Err(foreign(&folder.path));
        }
        table.log().turn_on().map_err(|fault| fault.to_string())?;
        let stream = table.log().identity();
        let now = Instant::now();
        let resumed = match (manifest, noted(table)?) {
            (Some(manifest), Some((of, at))) if of == stream && table.log().range().0 <= at.offset => {
                Log::resume(folder.clone(), manifest, at.noted).map(|log| Follower::new(log, at.offset, now)).ok()
            }
            _ => None,
        };
        let follower = match resumed {
            Some(follower) => follower,
            None => begin_anew(table, &folder, &stream)?,
        };
        let told = String::new();
        Ok(StorageProcess { table, settings, folder, follower, stream, base: None, next_base: now, told, _lock: lock })
    }

    /// Copies until it is told to stop. Returns whether all that was committed before is on the disk.
    pub fn run(&mut self, stops: &AtomicBool) -> bool {
        loop {
            let is_last = stops.load(Ordering::Relaxed);
            let copied = self.turn();
            // Without its first base it is no log yet.
            if is_last && !(self.follower.needs_base() && self.base.is_some()) {
                break;
            }
            std::thread::sleep(if copied { PAUSE } else { PAUSE_IDLE });
        }
        if let Some(base) = self.base.take() {
            base.progress.cancelled.store(true, Ordering::Relaxed);
            let _ = base.thread.join();
        }
        let synced = self.follower.sync(Instant::now());
        if let Err(error) = &synced {
            tracing::error!(%error, "the end of the log may not be on the disk");
        }
        // What a successor needs is kept for a while without being held; else it writes another base.
        self.table.log().hold(SLOT, None);
        synced.is_ok() && self.durable().is_some()
    }

    /// Whether the files are a whole log, up to the offset of the stream that is returned.
    pub fn durable(&self) -> Option<u64> {
        (!self.follower.needs_base()).then(|| self.follower.durable())
    }

    /// Where the log lies.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Copies what there is, and attends to the base. Returns whether something was copied.
    pub fn turn(&mut self) -> bool {
        let done = self.try_turn();
        match &done {
            Ok(_) if !self.told.is_empty() && !self.follower.is_failing() => {
                tracing::info!("the log is written again");
                self.told.clear();
            }
            Err(why) if self.told != *why => {
                tracing::error!(why, "the log cannot be written");
                self.told.clone_from(why);
            }
            _ => {}
        }
        done.unwrap_or(false)
    }

    fn try_turn(&mut self) -> Result<bool, String> {
        let log = self.table.log();
        log.merge().map_err(|fault| fault.to_string())?;
        if !log.is_on() || log.identity() != self.stream {
            self.restart()?;
        }
        self.attend_base()?;
        let terms = Terms {
            fsync: match self.settings.string(const { id("appendfsync") }).as_str() {
                "no" => Fsync::Never,
                "always" => Fsync::Always,
                _ => Fsync::EverySecond,
            },
            tells_time: self.settings.is_on(const { id("aof-timestamp-enabled") }),
        };
        let tail = Tail { table: self.table, stream: &self.stream };
        match self.follower.turn(&tail, terms, Instant::now(), now_ms() / 1000) {
            Ok(copied) => Ok(copied),
            Err(Failure::Disk(error)) => Err(format!("{}: {error}", self.folder.path.display())),
            Err(Failure::Stream(why)) => {
                self.restart()?;
                Err(why)
            }
        }
    }

    /// The stream has lost something for us: the log begins anew, with another base. The files that are there count until it is written.
    fn restart(&mut self) -> Result<(), String> {
        self.table.log().turn_on().map_err(|fault| fault.to_string())?;
        self.drop_base();
        self.stream = self.table.log().identity();
        self.follower = begin_anew(self.table, &self.folder, &self.stream)?;
        self.next_base = Instant::now();
        Ok(())
    }

    fn drop_base(&mut self) {
        if let Some(base) = self.base.take() {
            base.progress.cancelled.store(true, Ordering::Relaxed);
            let _ = base.thread.join();
            let _ = self.folder.medium.remove(&self.folder.path_of(&base.entry));
        }
    }

    /// Begins a base where one is needed, and installs one that is written.
    fn attend_base(&mut self) -> Result<(), String> {
        match &self.base {
            None if (self.follower.needs_base() || self.has_grown()) && Instant::now() >= self.next_base => self.begin_base(),
            Some(base) if base.thread.is_finished() && !self.follower.awaits_cut() => self.end_base(),
            _ => Ok(()),
        }
    }

    /// Whether the log has grown as `auto-aof-rewrite-*` say.
    fn has_grown(&self) -> bool {
        let (all, base) = self.follower.log().bytes();
        let percentage = self.settings.number(const { id("auto-aof-rewrite-percentage") }) as u64;
        let least = self.settings.number(const { id("auto-aof-rewrite-min-size") }) as u64;
        percentage > 0 && all > least && all.saturating_mul(100) / base.max(1) >= percentage.saturating_add(100)
    }

    fn begin_base(&mut self) -> Result<(), String> {
        self.next_base = Instant::now() + RETRY;
        let entry = self.follower.next_base();
        let plan = Plan::of(self.settings, self.folder.path_of(&entry));
        let progress = std::sync::Arc::new(Progress::default());
        let (segment, own, (tell, told)) = (self.table.segment().clone(), progress.clone(), channel());
        let write = move || {
            plan.save_from(&Table::over(segment), &own, &mut |table, goes_on| {
                let (snapshot, offset, db) = table.snapshot_in_log(goes_on)?;
                // Who asked may have stopped; then it has cancelled this, too.
                let _ = tell.send((offset, db));
                Ok(snapshot)
            })
        };
        let thread = std::thread::Builder::new().name("polder-base".into()).spawn(write).map_err(|error| error.to_string())?;
        self.base = Some(Base { entry, thread, progress });
        self.await_cut(&told)
    }

    /// Waits for the cut: nothing behind it may be copied before the other file has begun.
    fn await_cut(&mut self, told: &Receiver<(u64, Option<Db>)>) -> Result<(), String> {
        match told.recv() {
            Ok((offset, db)) => {
                let mut select = Vec::new();
                if let Some(db) = db {
                    command(&["SELECT", &db.to_string()], &mut select);
                }
                self.follower.begin_rewrite(offset, select);
                Ok(())
            }
            // The thread has ended without a snapshot.
            Err(_) => self.end_base(),
        }
    }

    fn end_base(&mut self) -> Result<(), String> {
        let Some(Base { entry, thread, .. }) = self.base.take() else { return Ok(()) };
        let written = thread.join().unwrap_or_else(|_| Err("the thread that wrote the base has panicked".into()));
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let installed = written.and_then(|keys| self.follower.finish_rewrite(entry).map(|()| keys).map_err(|error| error.to_string()));
        match installed {
            Ok(keys) => {
                tracing::info!(keys, base = name, "the log has another base");
                Ok(())
            }
            Err(why) => {
                self.follower.give_up_rewrite();
                Err(format!("{name}: {why}"))
            }
        }
    }
}

fn begin_anew(table: &Table, folder: &Folder, stream: &str) -> Result<Follower, String> {
    let identity = Identity { memory: memory_id(table), stream: stream.to_owned() };
    let log = Log::begin(folder.clone(), identity).map_err(|error| format!("{}: {error}", folder.path.display()))?;
    let end = table.log().range().1;
    table.log().hold(SLOT, Some(end));
    Ok(Follower::new(log, end, Instant::now()))
}

fn foreign(path: &Path) -> String {
    format!(
        "{path}: this is the log of another memory: name another folder with --dir, or read it into an empty memory first ('polder import {path}') \
         and move it away",
        path = path.display()
    )
}
