//! What the storage process tells of itself in the segment, and what other processes make of it.
use polder_base::time::now_ms;
use polder_calls::settings::{Settings, id};
use polder_shm::Owner;
use polder_shm::StorageWords;
use polder_table::Table;

use crate::storage_note::Note;

/// The figures, by their number among [`StorageWords::figure`].
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Figure {
    /// When it was last at work, in milliseconds since the Unix epoch.
    Beat,
    /// 1: the files are a log. 0: a base is missing.
    Whole,
    /// Since when it cannot write, in milliseconds since the Unix epoch; 0: it can. And the system's error number, 0 where there is none.
    FailingSince,
    Error,
    Bytes,
    BaseBytes,
    /// When the base under way was begun, in milliseconds since the Unix epoch; 0: none is.
    RewriteBegan,
    /// Seconds that the last one took, plus one.
    RewriteTook,
    /// Whether the last one has failed.
    RewriteFailed,
    Rewrites,
    /// Bases that have failed since one was written.
    FailuresInRow,
    /// Requests for another base that have been met.
    RewritesServed,
    /// Up to where the change log was copied, and is on the disk.
    Copied,
    Durable,
    /// Syncs that have taken longer than two seconds.
    SlowSyncs,
    /// 1: a sync is under way, or the last one has failed. It outlasts the process, for its successor.
    InSync,
    /// The process that holds the change log up, which therefore cannot be copied; 0: none does.
    HeldBy,
}

/// The number of figures.
const FIGURES: u64 = Figure::HeldBy as u64 + 1;

/// How long the storage process may be silent, or unable to write, before writes are refused.
pub const PATIENCE_MS: u64 = 2000;

pub(crate) fn tell(words: StorageWords<'_>, figure: Figure, value: u64) {
    words.tell(figure as u64, value);
}

pub(crate) fn told(words: StorageWords<'_>, figure: Figure) -> u64 {
    words.figure(figure as u64)
}

/// Forgets what the process before has told; how often bases were asked for and made stays.
pub(crate) fn reset(words: StorageWords<'_>) {
    let stays = [
        Figure::InSync as u64,
        Figure::Rewrites as u64,
        Figure::RewritesServed as u64,
        Figure::RewriteTook as u64,
        Figure::RewriteFailed as u64,
    ];
    (0..FIGURES).filter(|number| !stays.contains(number)).for_each(|number| words.tell(number, 0));
    tell(words, Figure::Beat, now_ms());
}

/// Whether replies wait until the disk has what they tell (`appendfsync always`): the log is whole, or was.
pub fn holds_replies(table: &Table) -> bool {
    table.segment().storage().is_promised() && table.log().is_on()
}

/// What keeps the append-only log from being written, as a process has seen it.
#[derive(Default)]
pub struct Watch {
    /// Since when no living process writes it, in milliseconds since the Unix epoch; 0: one does.
    orphaned_since_ms: u64,
}

impl Watch {
    /// Why writes must be refused, as a whole error text; `None`: they need not.
    pub fn look(&mut self, table: &Table, settings: &Settings) -> Option<String> {
        let (words, now_ms) = (table.segment().storage(), now_ms());
        let owner = words.owner();
        let is_given_up = owner.is_none_or(|owner| !owner.lives && !table.log().is_on());
        if is_given_up && !settings.is_on(const { id("appendonly") }) {
            self.orphaned_since_ms = 0;
            return None;
        }
        let is_late = |since_ms: u64| since_ms != 0 && now_ms.saturating_sub(since_ms) > PATIENCE_MS;
        let Some(owner) = owner.filter(|owner| owner.lives) else {
            if self.orphaned_since_ms == 0 {
                self.orphaned_since_ms = now_ms;
            }
            return is_late(self.orphaned_since_ms).then(|| orphaned(owner));
        };
        self.orphaned_since_ms = 0;
        let process = owner.process;
        if is_late(told(words, Figure::Beat)) {
            return Some(format!(
                "MISCONF Errors writing to the AOF file: process {process}, which writes it, is stopped, or its disk is stuck: let the process go on, or end \
                 it so that another one can write"
            ));
        }
        is_late(told(words, Figure::FailingSince)).then(|| match told(words, Figure::HeldBy) {
            0 => failing(table, process, told(words, Figure::Error)),
            holder => format!(
                "MISCONF Errors writing to the AOF file: process {holder} holds the change log up, and may be stopped: let the process go on, or end it"
            ),
        })
    }
}

fn orphaned(owner: Option<Owner>) -> String {
    let who = owner.map_or_else(String::new, |owner| {
        format!("process {}, which wrote it, has died, and ", owner.process)
    });
    format!(
        "MISCONF Errors writing to the AOF file: {who}no process writes it now: see the log of a server with 'appendonly yes' for the reason, or start \
         'polder storage'; 'polder changes NAME --off' gives the log up"
    )
}

fn failing(table: &Table, process: u32, error: u64) -> String {
    let folder = Note::load(table)
        .ok()
        .flatten()
        .map_or_else(String::new, |note| format!(" in {}", note.path.display()));
    match i32::try_from(error) {
        Ok(number @ 1..) => {
            let error = std::io::Error::from_raw_os_error(number);
            format!(
                "MISCONF Errors writing to the AOF file: {error}{folder}: make room or put it right, and writes are accepted again"
            )
        }
        _ => format!(
            "MISCONF Errors writing to the AOF file{folder}: see the log of process {process}, which writes it"
        ),
    }
}

/// How far what was committed has come on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlaces {
    /// Bytes of records that no thread has merged into the change log yet.
    pub unmerged_bytes: u64,
    /// The offset behind all that was merged.
    pub merged: u64,
    /// Where the files and the disk are, and the process that writes them; `None`: none does.
    pub files: Option<FilePlaces>,
}

/// The part of [`LogPlaces`] that the storage process tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlaces {
    pub process: u32,
    pub written: u64,
    pub durable: u64,
}

impl LogPlaces {
    /// What the segment tells now; `None`: the change log is off.
    pub fn of(table: &Table) -> Option<LogPlaces> {
        let (log, words) = (table.log(), table.segment().storage());
        let places_of = |owner: Owner| FilePlaces {
            process: owner.process,
            written: told(words, Figure::Copied),
            durable: told(words, Figure::Durable),
        };
        log.is_on().then(|| LogPlaces {
            unmerged_bytes: table.segment().outbox_bytes(),
            merged: log.range().1,
            files: words.owner().filter(|owner| owner.lives).map(places_of),
        })
    }
}

/// What INFO tells of the append-only log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// The log is written, or is to be.
    pub is_enabled: bool,
    /// The process that writes it; 0: none does at present.
    pub process: u32,
    pub is_failing: bool,
    pub bytes: u64,
    pub base_bytes: u64,
    pub is_rewriting: bool,
    pub rewrite_is_scheduled: bool,
    pub last_rewrite_seconds: Option<u64>,
    pub current_rewrite_seconds: Option<u64>,
    pub last_rewrite_failed: bool,
    pub rewrites: u64,
    pub failures_in_row: u64,
    /// Bytes of the change log that are not copied yet, and offsets of what is.
    pub lag_bytes: u64,
    pub durable_offset: u64,
    pub slow_syncs: u64,
}

impl LogReport {
    /// What the segment tells now.
    pub fn of(table: &Table, settings: &Settings) -> LogReport {
        let words = table.segment().storage();
        let owner = words.owner();
        let is_enabled = owner.is_some() || settings.is_on(const { id("appendonly") });
        let figure = |figure| told(words, figure);
        let living = owner.filter(|owner| owner.lives);
        let began_ms = figure(Figure::RewriteBegan);
        let end = table.log().range().1;
        LogReport {
            is_enabled,
            process: living.map_or(0, |owner| owner.process),
            is_failing: figure(Figure::FailingSince) != 0 && owner.is_some(),
            bytes: figure(Figure::Bytes),
            base_bytes: figure(Figure::BaseBytes),
            is_rewriting: living.is_some() && began_ms != 0,
            rewrite_is_scheduled: living.is_some() && words.rewrites_asked() > figure(Figure::RewritesServed),
            last_rewrite_seconds: figure(Figure::RewriteTook).checked_sub(1),
            current_rewrite_seconds: (living.is_some() && began_ms != 0)
                .then(|| now_ms().saturating_sub(began_ms) / 1000),
            last_rewrite_failed: figure(Figure::RewriteFailed) != 0,
            rewrites: figure(Figure::Rewrites),
            failures_in_row: figure(Figure::FailuresInRow),
            lag_bytes: if owner.is_some() { end.saturating_sub(figure(Figure::Copied)) } else { 0 },
            durable_offset: figure(Figure::Durable),
            slow_syncs: figure(Figure::SlowSyncs),
        }
    }
}
