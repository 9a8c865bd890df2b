//! What a process knows of its saves: the current one, the last one, and when the next is due.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_table::Table;

use super::load::Loaded;
use super::save::{Plan, Progress, path};
use crate::storage_figures::Watch;
use polder_calls::settings::{Settings, id};
use polder_runtime::saves::{Report, SaveControl, SaveSignals};

/// How long after a save that failed the save points wait, in milliseconds.
const RETRY_MS: u64 = 5000;

/// How long FLUSHALL waits for its save, which goes on then.
const ANEW_PATIENCE: Duration = Duration::from_millis(50);

/// A process's saves. Other processes on the segment have their own.
#[derive(Default)]
pub struct Saves(Arc<Shared>);

struct Shared {
    /// When the process began, in seconds: before its first save, save points count from there.
    started_seconds: u64,
    state: Mutex<State>,
    /// Signals of it for calls.
    signals: SaveSignals,
    log: Mutex<Watch>,
    /// Saves that went well.
    saves: AtomicU64,
    /// No save is ever begun.
    rests: bool,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            started_seconds: now_ms() / 1000,
            state: Mutex::default(),
            signals: SaveSignals::default(),
            log: Mutex::default(),
            saves: AtomicU64::new(0),
            rests: false,
        }
    }
}

#[derive(Default)]
struct State {
    /// The current save.
    current: Option<Current>,
    /// When the last one that went well ended, in seconds; 0: there was none.
    last_save_seconds: u64,
    /// Saves that have failed since the last one that went well.
    failures_in_row: u64,
    /// How long the last one took, in seconds, if there was one.
    last_took: Option<u64>,
    last_try_ms: u64,
    /// Changes that there had been when the last one that went well began.
    changes: Option<u64>,
    loaded: Loaded,
}

struct Current {
    progress: Arc<Progress>,
    began: Instant,
    in_background: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a save, unless one is running.
    fn begin(&self, table: &Table, in_background: bool) -> Option<(Arc<Progress>, u64)> {
        let mut state = self.state();
        if state.current.is_some() {
            return None;
        }
        let progress = Arc::new(Progress::default());
        let keys = (0..polder_table::SYSTEM).map(|db| table.keys(db).0).sum();
        progress.total.store(keys, Ordering::Relaxed);
        tracing::info!(keys, in_background, "saving begins");
        state.current = Some(Current { progress: progress.clone(), began: Instant::now(), in_background });
        state.last_try_ms = now_ms();
        Some((progress, table.changes()))
    }

    fn end(&self, written: &Result<u64, String>, changes: u64) {
        let mut state = self.state();
        let Some(current) = state.current.take() else { return };
        state.last_took = Some(current.began.elapsed().as_secs());
        // A save that was cancelled says nothing about the disk.
        let took_ms = current.began.elapsed().as_millis() as u64;
        if current.progress.cancelled.load(Ordering::Relaxed) {
            tracing::info!(took_ms, "saving was stopped");
            return;
        }
        match written {
            Ok(keys) => tracing::info!(keys, took_ms, "saved"),
            Err(why) => tracing::error!(why, took_ms, "saving failed: the file before it is untouched"),
        }
        state.failures_in_row = if written.is_err() { state.failures_in_row + 1 } else { 0 };
        self.signals.fail(written.is_err());
        if written.is_ok() {
            state.last_save_seconds = now_ms() / 1000;
            state.changes = Some(changes);
            self.saves.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Saves {
    /// Signals of the saves for calls.
    #[inline]
    pub fn signals(&self) -> &SaveSignals {
        &self.0.signals
    }

    /// One that begins no save by itself: what is being loaded is on the disk already.
    pub fn resting() -> Saves {
        Saves(Arc::new(Shared { rests: true, ..Shared::default() }))
    }

    /// Looks whether the append-only log is written. To be called every now and then.
    pub fn watch_log(&self, table: &Table, settings: &Settings) {
        let mut log = self.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = log.look(table, settings);
        let before = self.0.signals.log_trouble();
        match (&before, &trouble) {
            (None, Some(why)) => tracing::error!("writes are refused: {why}"),
            (Some(_), None) => tracing::info!("the append-only log is written again: writes are accepted"),
            _ => {}
        }
        self.0.signals.note_log(trouble);
    }

    /// Ends the current save and begins another one. Waits a little for the end of the first, since
    /// an empty memory is soon saved.
    #[cold]
    fn begin_anew(&self, table: &Table, settings: &Settings) {
        if let Some(current) = self.0.state().current.as_ref().filter(|current| current.in_background) {
            current.progress.cancelled.store(true, Ordering::Relaxed);
        }
        let end = Instant::now() + ANEW_PATIENCE;
        while (self.0.signals.is_scheduled() || self.is_saving()) && Instant::now() < end {
            self.begin_scheduled(table, settings);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Begins a save if one was scheduled or one of the save points says so. To be called every now and then.
    pub fn attend(&self, table: &Table, settings: &Settings) {
        self.begin_scheduled(table, settings);
        let text = settings.text(const { id("save") });
        if text.is_empty() {
            return;
        }
        let is_due = {
            let mut state = self.0.state();
            let (now_ms, changes) = (now_ms(), table.changes());
            // What was done before we came was another process's to save.
            let changed = changes.saturating_sub(*state.changes.get_or_insert(changes));
            let began = state.last_save_seconds.max(self.0.started_seconds);
            let waited = (now_ms / 1000).saturating_sub(began);
            let may_try = state.failures_in_row == 0 || now_ms.saturating_sub(state.last_try_ms) > RETRY_MS;
            let points: Vec<u64> =
                String::from_utf8_lossy(&text).split(' ').filter_map(|word| word.parse().ok()).collect();
            state.current.is_none()
                && may_try
                && points.chunks_exact(2).any(|point| waited > point[0] && changed >= point[1])
        };
        if is_due {
            // Should no thread be had, the next attempt comes soon enough.
            let _ = self.save_meanwhile(table, settings);
        }
    }

    /// Notes what was loaded at start.
    pub fn loaded(&self, loaded: Loaded) {
        self.0.state().loaded = loaded;
    }
}

impl SaveControl for Saves {
    fn is_saving(&self) -> bool {
        self.0.state().current.is_some()
    }

    fn save(&self, table: &Table, settings: &Settings) -> Result<u64, String> {
        let (progress, changes) = self.0.begin(table, false).ok_or("another save is in progress")?;
        let written = Plan::of(settings, path(settings)).save(table, &progress);
        self.0.end(&written, changes);
        written
    }

    fn save_at_end(&self, table: &Table, settings: &Settings) -> Result<u64, String> {
        self.cancel();
        while self.is_saving() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.save(table, settings)
    }

    fn save_meanwhile(&self, table: &Table, settings: &Settings) -> Result<bool, String> {
        let Some((progress, changes)) = self.0.begin(table, true) else { return Ok(false) };
        let plan = Plan::of(settings, path(settings));
        let (shared, segment) = (self.0.clone(), table.segment().clone());
        let thread = std::thread::Builder::new().name("polder-save".into()).spawn(move || {
            let written = plan.save_gently(&Table::over(segment), &progress);
            shared.end(&written, changes);
        });
        match thread {
            Ok(_) => Ok(true),
            Err(error) => {
                let failed = Err(error.to_string());
                self.0.end(&failed, changes);
                failed.map(|_: u64| true)
            }
        }
    }

    fn cancel(&self) -> bool {
        if self.0.signals.take_scheduled() {
            return true;
        }
        let state = self.0.state();
        let current = state.current.as_ref().filter(|current| current.in_background);
        current.is_some_and(|current| !current.progress.cancelled.swap(true, Ordering::Relaxed))
    }

    fn begin_scheduled(&self, table: &Table, settings: &Settings) {
        if !self.0.signals.is_scheduled() || self.0.rests {
            return;
        }
        if self.0.signals.take_anew() {
            self.begin_anew(table, settings);
        } else if !self.is_saving() {
            self.0.signals.take_scheduled();
            // Should no thread be had, INFO tells of a save that failed.
            let _ = self.save_meanwhile(table, settings);
        }
    }

    fn last_save_seconds(&self, before: u64) -> u64 {
        let last = self.0.state().last_save_seconds;
        if last == 0 { before } else { last }
    }

    fn report(&self, table: &Table) -> Report {
        let state = self.0.state();
        let changes = table.changes();
        let current = state.current.as_ref();
        let count = |count: fn(&Progress) -> &AtomicU64| {
            current.map_or(0, |current| count(&current.progress).load(Ordering::Relaxed))
        };
        Report {
            changes: changes.saturating_sub(state.changes.unwrap_or(0)),
            in_background: current.is_some_and(|current| current.in_background),
            keys: count(|progress| &progress.keys),
            total: count(|progress| &progress.total),
            last_save_seconds: state.last_save_seconds,
            failures_in_row: state.failures_in_row,
            last_took: state.last_took,
            current_took: current.map(|current| current.began.elapsed().as_secs()),
            saves: self.0.saves.load(Ordering::Relaxed),
            loaded_keys: state.loaded.keys,
            loaded_expired: state.loaded.expired,
        }
    }
}
