//! A base that is being written by a thread of its own, while the storage process goes on copying.
//!
//! ```text
//!   base thread       snapshot ... cut made -> offset sent -> the log goes on | keys -> file -> synced, renamed
//!   storage process   end of the log read, offset sent?  no: copy up to that end     yes: another file begins behind the offset
//! ```
//!
//! - **B1** The base thread sends the cut's offset before it lets the log go beyond it. So a storage process that reads the end of the log first and
//!   then finds no offset may copy up to that end: it lies before the cut.
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use polder_calls::settings::id;
use polder_storage::{BaseForm, Entry};
use polder_table::{Db, Table};

use crate::saves::save::{Plan, Progress};
use polder_runtime::configuration::Configuration;

/// A base that is being written.
pub(super) struct Base {
    pub entry: Entry,
    pub began: Instant,
    thread: JoinHandle<Result<u64, String>>,
    progress: Arc<Progress>,
    cut: Receiver<(u64, Option<Db>)>,
}

/// Returns the form of bases that the settings want.
pub(super) fn form(settings: &Configuration) -> BaseForm {
    if settings.is_on(const { id("aof-use-rdb-preamble") }) { BaseForm::Rdb } else { BaseForm::Commands }
}

impl Base {
    /// Begins to write a base to a file.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn begin(
        table: &Table,
        settings: &Configuration,
        entry: Entry,
        path: PathBuf,
    ) -> Result<Base, String> {
        let plan = Plan::of_base(settings, path, entry.is_named_rdb());
        let progress = Arc::new(Progress::default());
        let (segment, own, (send, cut)) = (table.segment().clone(), progress.clone(), channel());
        let write = move || {
            plan.save_from(&Table::over(segment), &own, &mut |table, goes_on| {
                table.snapshot_in_log(goes_on, &mut |offset, db| {
                    // B1. A storage process that has stopped listening has cancelled this, too.
                    let _ = send.send((offset, db));
                })
            })
        };
        let thread = std::thread::Builder::new()
            .name("polder-base".into())
            .spawn(write)
            .map_err(|error| error.to_string())?;
        Ok(Base { entry, began: Instant::now(), thread, progress, cut })
    }

    /// The cut, once: its offset, and the database in which the log goes on behind it. Called after the end of the log was read (B1).
    pub fn take_cut(&self) -> Option<(u64, Option<Db>)> {
        self.cut.try_recv().ok()
    }

    /// Whether its thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the thread's end; returns how many keys the base holds.
    ///
    /// # Errors
    /// Why it was not written.
    pub fn join(self) -> Result<u64, String> {
        self.thread.join().unwrap_or_else(|_| Err("the thread that wrote the base has panicked".into()))
    }

    /// Stops it, and waits until its thread has ended.
    pub fn cancel(self) -> Entry {
        self.progress.cancelled.store(true, Ordering::Relaxed);
        let Base { entry, thread, .. } = self;
        // What it says does not matter any more.
        let _ = thread.join();
        entry
    }
}
