//! The storage process: it copies the change log of a memory into the files of an append-only log, and writes their bases.
//!
//! ```text
//!   commits --> change log in the segment --> follower (`polder_storage::Follower`) --> appendonlydir/*.incr.aof
//!                        |                                                                            ^ cut
//!                        `-- snapshot at an offset (`Table::snapshot_in_log`) --> *.base.rdb, written by a thread of its own
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `storage_process.rs` | one turn of the work, the end |
//! | `storage_process/begin.rs` | election: where the log lies, and whether it can be continued |
//! | `storage_note.rs` | the note in the hidden database: which log, how far |
//! | `storage_process/base.rs` | the thread that writes a base |
//! | `storage_figures.rs` | what it tells in the segment, for INFO and for those that refuse writes |
//!
//! - **P1** One thread copies: the one that has the words of the segment (`polder_shm::storage`) and the lock of the folder. The words tell that the
//!   thread is alive, the lock that its process has no file open any more. A successor takes both.
//! - **P2** A note counts only for the log whose id it has, in the stream that it names, in the boot in which it was made. Else the files are no
//!   prefix of what the segment holds, and another base is written: the files that are there count until then. After a failed sync the note names
//!   no boot: the system tells of such a failure once, so a successor would take the file for whole. Where a process dies before it can note so, the
//!   figure IN_SYNC says that a sync was under way (`polder_storage::resume`, C3).
//! - **P3** All that was committed before a number was drawn from the counter of commits is on the disk when DURABLE has reached that number
//!   (`shm/src/storage.rs`, W3, W4): it is drawn before the merge, and DURABLE is moved after the sync of what was merged.
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_base::time::now_ms;
use polder_shm::StorageWords;
pub use polder_storage::Lock;
use polder_storage::follower::Failure;
use polder_storage::{Entry, Folder, Follower, Fsync, Position, Stream, Terms};
use polder_table::{Db, Stop, Table};
use polder_wire::resp::command;

use polder_calls::settings::id;
use polder_runtime::configuration::Configuration;

mod base;
mod begin;

use crate::storage_figures::{Figure, tell, told};
pub use crate::storage_figures::{LogPlaces, LogReport, PATIENCE_MS, Watch, holds_replies};
use crate::storage_note::Note;
use base::Base;
pub use begin::{adopt, check_folder};

/// The slot of the log that holds what has not been copied yet.
const SLOT: u64 = 0;
/// How long the process sleeps where there was something to copy, and where there was nothing.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_IDLE: Duration = Duration::from_millis(20);
/// How long after a base that failed another one is begun.
const RETRY: Duration = Duration::from_secs(5);
/// How long the end waits for the disk.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long another thread may keep this one from merging before that is told.
const HELD_UP_MAX: Duration = Duration::from_secs(1);
/// A sync that takes longer than this is counted.
const SLOW_SYNC: Duration = Duration::from_secs(2);
/// Numbers that wait for a sync, at most; beyond that, the earlier ones are forgotten.
const DRAWS_MAX: usize = 4096;

/// What copies the change log of a memory. It belongs to the thread that has begun it.
pub struct StorageProcess<'t> {
    table: &'t Table,
    settings: &'t Configuration,
    folder: Folder,
    follower: Follower,
    note: Note,
    draws: Draws,
    base: Option<Base>,
    next_base: Instant,
    /// An attempt at a base has failed since one was written.
    base_failed: bool,
    /// The last error that was told.
    told: String,
    seat: (u64, u64),
    _lock: Lock,
}

impl Drop for StorageProcess<'_> {
    fn drop(&mut self) {
        // Before the folder's lock is given up: a base that ends later could take the place of a successor's.
        if let Some(base) = self.base.take() {
            base.cancel();
        }
    }
}

/// Numbers drawn from the counter of commits (P3), each with the offset behind all that was merged afterwards.
#[derive(Default)]
struct Draws {
    waiting: VecDeque<(u64, u64)>,
    /// The last number that was drawn; all commits with numbers up to it were merged then.
    quiet_at: Option<u64>,
    /// Since when another thread keeps this one from merging.
    held_up_since: Option<Instant>,
}

/// What came of an election.
pub enum Elected<'t> {
    Ours(Box<StorageProcess<'t>>),
    /// Another process writes the log of the segment, or the files in the folder.
    Another(String),
}

/// The change log as a stream that a follower copies, up to an end that was read before (`base.rs`, B1).
struct Tail<'p> {
    table: &'p Table,
    note: &'p Note,
    end: u64,
    /// Whether files are synced now and then, so that what is not can be held.
    syncs: bool,
}

impl Stream for Tail<'_> {
    fn end(&self) -> u64 {
        self.end
    }

    fn read(&self, offset: u64, into: &mut Vec<u8>, bytes_max: usize) -> Result<u64, String> {
        self.table.log().read(offset, into, bytes_max).map_err(|error| error.to_string())
    }

    fn note(&self, position: Position, synced: Position) -> Result<(), String> {
        match (Note { position, synced, ..self.note.clone() }).store(self.table) {
            // No memory for it, or a stopped thread has the lock. A process that goes on after our death with the note before finds these bytes in the
            // file, or begins anew where the memory does not have them any more.
            Ok(()) | Err(Stop::Busy | Stop::Fault(Fault::Full(_))) => {
                // A successor of a process that dies in a sync copies again what may not be on the disk. Without syncs that would be all since the last
                // base; it writes another base then.
                let synced = if self.syncs { synced.offset } else { position.offset };
                self.table.log().hold(SLOT, Some(position.offset.min(synced)))
            }
            Err(stop) => return Err(stop.to_string()),
        }
        Ok(())
    }

    fn in_sync(&self, is_under_way: bool) {
        tell(self.table.segment().storage(), Figure::InSync, is_under_way.into());
    }
}

impl<'t> StorageProcess<'t> {
    /// Becomes the storage process of the memory, if no other thread is, and turns the change log on. The log lies in the folder that
    /// the process before has noted, else in that of the settings. A program that was told a folder (`is_explicit`) takes no other.
    /// `lock` is the folder's, where the caller has it already.
    ///
    /// # Errors
    /// Why it cannot be: the folder holds another memory's log, the disk or the memory refuse.
    pub fn elect(
        table: &'t Table,
        settings: &'t Configuration,
        lock: Option<Lock>,
        is_explicit: bool,
    ) -> Result<Elected<'t>, String> {
        let seat = table.seat().map_err(|fault| fault.to_string())?;
        let seat = (seat.index(), seat.life());
        let words = table.segment().storage();
        if !words.claim(seat.0, seat.1) {
            let process = words.owner().map_or(0, |owner| owner.process);
            return Ok(Elected::Another(format!("process {process} writes the log of this memory")));
        }
        // Half of a log must not become a base. The claim comes first (O3).
        let begun = crate::opened::check_open(table).and_then(|()| {
            crate::storage_figures::reset(words);
            begin::begin(table, settings, (lock, is_explicit), seat)
        });
        if !matches!(begun, Ok(Elected::Ours(_))) {
            words.release(seat.0, seat.1);
        }
        begun
    }

    fn words(&self) -> StorageWords<'t> {
        self.table.segment().storage()
    }

    /// Copies until it is told to stop. Returns why what was committed before may not be on the disk.
    ///
    /// # Errors
    /// See [`StorageProcess::end`].
    pub fn run(mut self, stops: &mut dyn FnMut() -> bool) -> Result<(), String> {
        while !stops() {
            self.work();
        }
        self.end()
    }

    /// One turn, and a pause.
    pub fn work(&mut self) {
        let before = self.words().durable();
        let copied = self.turn();
        let pause = if copied { PAUSE } else { PAUSE_IDLE };
        // What is wanted ends the pause, unless this turn could not do anything for it.
        let is_stuck = self.words().is_wanted() && self.words().durable() == before;
        match self.fsync() {
            Fsync::Always if !is_stuck => self.words().sleep(pause),
            Fsync::Always => std::thread::sleep(PAUSE),
            _ => std::thread::sleep(pause),
        }
    }

    /// Ends it, when all that was committed before is on the disk. A successor can go on at once.
    ///
    /// # Errors
    /// Why something of it may not be on the disk; the segment keeps it for a successor.
    pub fn end(mut self) -> Result<(), String> {
        let drained = self.drain();
        self.drop_base();
        if !self.settings.is_on(const { id("appendonly") }) {
            // What a successor needs is kept for a while without being held; else it writes another base.
            self.table.log().hold(SLOT, None);
            self.words().promise(false);
        }
        self.words().release(self.seat.0, self.seat.1);
        drained
    }

    /// Ends it for good: no successor goes on with this log.
    ///
    /// # Errors
    /// As [`StorageProcess::end`]; what the memory says.
    pub fn end_for_good(mut self) -> Result<(), String> {
        let drained = self.drain();
        self.drop_base();
        let forgotten = self.forget();
        self.words().promise(false);
        // Last: a process that is elected from here on has a log of its own.
        self.words().release(self.seat.0, self.seat.1);
        forgotten.and(drained)
    }

    /// Leaves nothing that a successor could go on with, and turns the change log off if no other process follows it.
    fn forget(&self) -> Result<(), String> {
        let ended = self.note.clone().ended(self.table.log().range().1);
        ended.store(self.table).map_err(|stop| stop.to_string())?;
        self.table.log().hold(SLOT, None);
        let is_followed =
            (0..polder_shm::layout::log::HOLD_SLOTS).any(|slot| self.table.log().held(slot).is_some());
        if self.note.has_turned_on && !is_followed {
            self.table.log().turn_off().map_err(|fault| fault.to_string())?;
        }
        Ok(())
    }

    /// Copies and syncs until all that was committed before this call is on the disk.
    fn drain(&mut self) -> Result<(), String> {
        let (seen, end) = (self.words().seen(), Instant::now() + END_PATIENCE);
        self.draws.quiet_at = None;
        loop {
            self.turn();
            let tail = Tail { table: self.table, note: &self.note, end: 0, syncs: true };
            let synced = self.follower.sync(&tail, Instant::now());
            self.publish_durable();
            let awaits_base = self.follower.needs_base() && self.base.is_some();
            // What an earlier log has on the disk is not in this one before its first base.
            if self.words().is_durable(seen) && !self.follower.needs_base() {
                return Ok(());
            }
            if Instant::now() >= end && !awaits_base {
                let why = match (synced, self.told.is_empty()) {
                    (_, false) => self.told.clone(),
                    (Err(error), _) => error.to_string(),
                    (Ok(()), true) => "another process holds the change log up, and may be stopped".into(),
                };
                let (copied, at) = (self.follower.durable(), self.table.log().range().1);
                return Err(format!(
                    "what was committed last may not be on the disk ({why}): the files are whole up to offset {copied}, and the change log ends \
                     at {at} or later. The memory keeps the rest: start another storage process on it"
                ));
            }
            std::thread::sleep(PAUSE);
        }
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
        tell(self.words(), Figure::Beat, now_ms());
        let done = self.try_turn().and_then(|copied| self.held_up().map_or(Ok(copied), Err));
        let lacks_base = self.base_failed && self.follower.needs_base();
        match &done {
            Ok(_) if !self.told.is_empty() && !self.follower.is_failing() && !lacks_base => {
                tracing::info!("the log is written again");
                self.told.clear();
                tell(self.words(), Figure::FailingSince, 0);
            }
            Err(failed) => self.tell_failed(failed),
            _ => {}
        }
        self.tell_figures();
        done.unwrap_or(false)
    }

    fn tell_failed(&mut self, failed: &Failed) {
        if self.told != failed.why {
            tracing::error!(failed.why, "the log cannot be written");
            self.told.clone_from(&failed.why);
        }
        tell(self.words(), Figure::Error, failed.number);
        tell(self.words(), Figure::HeldBy, failed.holder.into());
        if told(self.words(), Figure::FailingSince) == 0 {
            tell(self.words(), Figure::FailingSince, failed.since_ms);
        }
    }

    /// Whether another thread has kept this one from merging for too long: it may be stopped.
    fn held_up(&self) -> Option<Failed> {
        let since = self.draws.held_up_since.filter(|since| since.elapsed() >= HELD_UP_MAX)?;
        let holder = self.table.segment().log_holder();
        let since_ms = now_ms().saturating_sub(since.elapsed().as_millis() as u64);
        let why = format!("process {holder} holds the change log up, and may be stopped");
        (holder != 0).then_some(Failed { holder, since_ms, ..Failed::from(why) })
    }

    fn tell_figures(&self) {
        let (words, (bytes, base_bytes)) = (self.words(), self.follower.log().bytes());
        tell(words, Figure::Whole, (!self.follower.needs_base()).into());
        if !self.follower.needs_base() {
            words.promise(true);
        }
        tell(words, Figure::Bytes, bytes);
        tell(words, Figure::BaseBytes, base_bytes);
        tell(words, Figure::Copied, self.follower.offset());
        tell(words, Figure::Durable, self.follower.durable());
    }

    fn fsync(&self) -> Fsync {
        match self.settings.string(const { id("appendfsync") }).as_str() {
            "no" => Fsync::Never,
            "always" => Fsync::Always,
            _ => Fsync::EverySecond,
        }
    }

    fn try_turn(&mut self) -> Result<bool, Failed> {
        let log = self.table.log();
        self.draws.draw(self.table, self.seat.0)?;
        if !log.is_on() || log.identity() != self.note.stream {
            self.restart()?;
        }
        self.attend_base()?;
        // B1: the end first, then the cut.
        let end = log.range().1;
        if let Some((offset, db)) = self.base.as_ref().and_then(Base::take_cut) {
            self.follower.begin_rewrite(offset, opening(db));
        }
        let terms = Terms {
            fsync: self.fsync(),
            tells_time: self.settings.is_on(const { id("aof-timestamp-enabled") }),
        };
        let tail = Tail { table: self.table, note: &self.note, end, syncs: terms.fsync != Fsync::Never };
        let began = Instant::now();
        let turned = self.follower.turn(&tail, terms, began, now_ms() / 1000);
        if began.elapsed() >= SLOW_SYNC {
            tell(self.words(), Figure::SlowSyncs, told(self.words(), Figure::SlowSyncs) + 1);
        }
        self.publish_durable();
        match turned {
            Ok(copied) => Ok(copied),
            Err(Failure::Disk(error)) => {
                if self.follower.log().is_spoiled() {
                    // P2. The next file's note names the boot again.
                    let _ = Note { boot: "spoiled".into(), ..self.note.clone() }.store(self.table);
                }
                let number = error.raw_os_error().map_or(0, |number| number as u64);
                Err(Failed { number, ..Failed::from(format!("{}: {error}", self.folder.path.display())) })
            }
            Err(Failure::Stream(why)) => {
                self.restart()?;
                Err(why.into())
            }
        }
    }

    /// Says how far the disk is, where a sync has moved that (P3).
    fn publish_durable(&mut self) {
        if let Some(csn) = self.durable().and_then(|durable| self.draws.take(durable)) {
            self.words().set_durable(csn);
        }
    }

    /// The stream has lost something for us: the log begins anew, with another base. The files that are there count until it is written.
    fn restart(&mut self) -> Result<(), String> {
        self.table.log().turn_on().map_err(|fault| fault.to_string())?;
        // Commits while the log was off drew no number: from now on nothing counts as on the disk before the base is.
        self.words().draw();
        self.drop_base();
        self.draws = Draws::default();
        (self.follower, self.note) = begin::begin_anew(self.table, &self.folder, self.note.has_turned_on)?;
        self.next_base = Instant::now();
        Ok(())
    }

    fn drop_base(&mut self) {
        if let Some(base) = self.base.take() {
            let entry = base.cancel();
            // It is removed by the next process else.
            let _ = self.folder.medium.remove(&self.folder.path_of(&entry));
            self.follower.give_up_rewrite();
            tell(self.words(), Figure::RewriteBegan, 0);
        }
    }

    /// Begins a base where one is needed, and installs one that is written.
    fn attend_base(&mut self) -> Result<(), String> {
        match &self.base {
            None if self.wants_base() && Instant::now() >= self.next_base => self.begin_base(),
            Some(base) if base.is_finished() => {
                if let Some((offset, db)) = base.take_cut() {
                    self.follower.begin_rewrite(offset, opening(db));
                }
                if self.follower.awaits_cut() { Ok(()) } else { self.end_base() }
            }
            _ => Ok(()),
        }
    }

    fn wants_base(&self) -> bool {
        let is_asked = self.words().rewrites_asked() > told(self.words(), Figure::RewritesServed);
        self.follower.needs_base() || is_asked || self.has_grown()
    }

    /// Whether the log has grown as `auto-aof-rewrite-*` say.
    fn has_grown(&self) -> bool {
        let (all, base) = self.follower.log().bytes();
        let percentage = self.settings.number(const { id("auto-aof-rewrite-percentage") }) as u64;
        let least = self.settings.number(const { id("auto-aof-rewrite-min-size") }) as u64;
        percentage > 0
            && all > least
            && all.saturating_mul(100) / base.max(1) >= percentage.saturating_add(100)
    }

    fn begin_base(&mut self) -> Result<(), String> {
        tell(self.words(), Figure::RewritesServed, self.words().rewrites_asked());
        let entry = self.follower.next_base(base::form(self.settings));
        let path = self.folder.path_of(&entry);
        let base = Base::begin(self.table, self.settings, entry, path);
        self.base_failed |= base.is_err();
        self.base = Some(base?);
        tell(self.words(), Figure::RewriteBegan, now_ms().max(1));
        Ok(())
    }

    fn end_base(&mut self) -> Result<(), String> {
        let Some(base) = self.base.take() else { return Ok(()) };
        let (entry, took) = (base.entry.clone(), base.began.elapsed().as_secs());
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let installed = base.join().and_then(|keys| self.install(entry).map(|()| keys));
        let words = self.words();
        tell(words, Figure::RewriteBegan, 0);
        tell(words, Figure::RewriteTook, took + 1);
        tell(words, Figure::RewriteFailed, installed.is_err().into());
        match installed {
            Ok(keys) => {
                // A reader of the line may rely on the log from now on.
                self.base_failed = false;
                self.tell_figures();
                tracing::info!(keys, base = name, "the log has another base");
                tell(words, Figure::Rewrites, told(words, Figure::Rewrites) + 1);
                tell(words, Figure::FailuresInRow, 0);
                Ok(())
            }
            Err(why) => {
                tell(words, Figure::FailuresInRow, told(words, Figure::FailuresInRow) + 1);
                self.follower.give_up_rewrite();
                (self.base_failed, self.next_base) = (true, Instant::now() + RETRY);
                Err(format!("{name}: {why}"))
            }
        }
    }

    fn install(&mut self, entry: Entry) -> Result<(), String> {
        self.follower.finish_rewrite(entry).map_err(|error| error.to_string())
    }
}

/// Why a turn has not done its work.
struct Failed {
    why: String,
    /// The system's number for it; 0: none.
    number: u64,
    /// The process that keeps this one from merging; 0: none does.
    holder: u32,
    since_ms: u64,
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed { why, number: 0, holder: 0, since_ms: now_ms() }
    }
}

impl Draws {
    /// Merges what was committed, and draws a number before, unless nothing can have been committed since the last one (P3).
    fn draw(&mut self, table: &Table, own: u64) -> Result<(), String> {
        let words = table.segment().storage();
        let is_idle = self.quiet_at.is_some_and(|quiet_at| table.log().csn() == quiet_at);
        let drawn = (!is_idle).then(|| {
            let drawn = words.draw();
            // W4.
            let is_quiet = words.is_quiet(own);
            self.quiet_at = is_quiet.then_some(drawn + 1);
            drawn + u64::from(is_quiet)
        });
        let merged = match table.log().merge_before() {
            // What is copied now is not needed in the memory any more: the next merge frees it.
            Err(Fault::Full(_)) => None,
            merged => Some(merged.map_err(|fault| fault.to_string())?),
        };
        let is_held_up = merged == Some(false);
        self.held_up_since = is_held_up.then(|| self.held_up_since.unwrap_or_else(Instant::now));
        match drawn {
            Some(csn) if merged == Some(true) => {
                if self.waiting.len() >= DRAWS_MAX {
                    self.waiting.clear();
                }
                self.waiting.push_back((table.log().range().1, csn));
            }
            Some(_) => self.quiet_at = None,
            None => {}
        }
        Ok(())
    }

    /// The highest number whose offset is on the disk.
    fn take(&mut self, durable: u64) -> Option<u64> {
        let mut found = None;
        while self.waiting.front().is_some_and(|(offset, _)| *offset <= durable) {
            found = self.waiting.pop_front().map(|(_, csn)| csn);
        }
        found
    }
}

/// What makes the stream readable from a cut on.
fn opening(db: Option<Db>) -> Vec<u8> {
    let mut select = Vec::new();
    if let Some(db) = db {
        command(&["SELECT", &db.to_string()], &mut select);
    }
    select
}
