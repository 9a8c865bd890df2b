//! Signals of the saves of a process for its calls, and what calls ask of them: the part below `polder-persist`, which does the saving.
//!
//! ```text
//!   each write       SaveSignals: may it write?      plain words, behind one call of the host
//!   FLUSHALL, EXEC   SaveSignals: a save is scheduled;  SaveControl begins it once the transaction is over
//!   SAVE, INFO, ...  SaveControl
//! ```
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use polder_calls::settings::{Settings, id};
use polder_table::Table;

/// Whether save points are set, so that the process saves when it ends, too.
pub fn has_save_points(settings: &Settings) -> bool {
    !settings.text(const { id("save") }).is_empty()
}

/// Signals of a process for its calls, about its saves and its append-only log.
#[derive(Default)]
pub struct SaveSignals {
    /// Save points are set, and the last save failed.
    failing: AtomicBool,
    /// The append-only log is not written; and why.
    log_fails: AtomicBool,
    log_trouble: Mutex<Option<String>>,
    /// A save was asked for by a call inside a transaction.
    scheduled: AtomicBool,
    /// The current save is to be replaced by a new one.
    anew: AtomicBool,
}

impl SaveSignals {
    /// Whether the last save failed, so that `stop-writes-on-bgsave-error` may have something to stop.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Notes whether the last save failed.
    pub fn fail(&self, failed: bool) {
        self.failing.store(failed, Ordering::Relaxed);
    }

    /// Whether the append-only log is not written, so that writes are refused.
    #[inline]
    pub fn lacks_log(&self) -> bool {
        self.log_fails.load(Ordering::Relaxed)
    }

    /// Why the append-only log is not written, as a whole error text.
    pub fn log_trouble(&self) -> Option<String> {
        if self.lacks_log() {
            self.log_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
        } else {
            None
        }
    }

    /// Notes why the append-only log is not written, or that it is. Returns what was noted before.
    pub fn note_log(&self, trouble: Option<String>) -> Option<String> {
        let mut noted = self.log_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        self.log_fails.store(trouble.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut *noted, trouble)
    }

    /// Returns true if a save is to begin.
    #[inline]
    pub fn is_scheduled(&self) -> bool {
        self.scheduled.load(Ordering::Relaxed)
    }

    /// Has a save begin when the current transaction is over.
    pub fn schedule(&self) {
        self.scheduled.store(true, Ordering::Relaxed);
    }

    /// Like [`SaveSignals::schedule`], in the place of a save that is under way and would bring back what is gone.
    pub fn schedule_anew(&self) {
        self.anew.store(true, Ordering::Relaxed);
        self.schedule();
    }

    /// Forgets the save that was to begin. Returns whether there was one.
    pub fn take_scheduled(&self) -> bool {
        self.scheduled.swap(false, Ordering::Relaxed)
    }

    /// Forgets that the current save is to be replaced. Returns whether it was.
    pub fn take_anew(&self) -> bool {
        self.anew.swap(false, Ordering::Relaxed)
    }
}

/// Orders of commands to the saves of their process.
pub trait SaveControl: Send + Sync {
    /// Begins the save that was scheduled, if one was.
    fn begin_scheduled(&self, table: &Table, settings: &Settings);

    /// Whether a save is running.
    fn is_saving(&self) -> bool;

    /// Saves at once, in this thread, to the file that the settings name.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn save(&self, table: &Table, settings: &Settings) -> Result<u64, String>;

    /// Saves before the process ends. A save in the background is cancelled first.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn save_at_end(&self, table: &Table, settings: &Settings) -> Result<u64, String>;

    /// Begins a save in a thread of its own. Returns false if one is running already.
    ///
    /// # Errors
    /// When no thread can be started.
    fn save_meanwhile(&self, table: &Table, settings: &Settings) -> Result<bool, String>;

    /// Stops a save in the background, or one that is to begin. Returns false if there is none.
    fn cancel(&self) -> bool;

    /// When the last save ended that went well, or `before` any.
    fn last_save_seconds(&self, before: u64) -> u64;

    /// What INFO tells.
    fn report(&self, table: &Table) -> Report;
}

/// What INFO tells of the saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub changes: u64,
    pub in_background: bool,
    pub keys: u64,
    pub total: u64,
    pub last_save_seconds: u64,
    /// Saves that have failed since the last one that went well.
    pub failures_in_row: u64,
    pub last_took: Option<u64>,
    pub current_took: Option<u64>,
    pub saves: u64,
    pub loaded_keys: u64,
    pub loaded_expired: u64,
}
