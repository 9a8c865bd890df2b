//! Copies of the data for replicas, in memory: one for all replicas that ask while it is made.
//!
//! ```text
//!   feed A   holds the log at its end -> joins: begins the copy -------------------+-> sends it, follows from the cut
//!   feed B   holds the log at its end ------> joins the same; holds it at the cut -+-> sends it, follows from the cut
//!   the thread of the copy                    cut ............................ made
//! ```
//!
//! - **C1** A feed holds the log before it joins, and at the cut as soon as it knows the cut. As long as one feed waits that came before the cut, the log is
//!   kept from there on. A feed that finds it trimmed ends, and its replica asks again.
//! - **C2** A copy that no feed waits for is given up. A replica that goes ends the copy for no other one.
//! - **C3** A replica that has not said which RDB files it reads gets version 10, which all of them read. Where that cannot hold the data, since fields of
//!   hashes expire, it gets version 12.
//! - **C4** After a copy that the log did not reach any more, the next one is begun after a pause: 1, 2, 4 ... 60 s. Replicas that ask meanwhile wait, and
//!   share it. Once a replica has acknowledged something behind its copy, the next pause is the shortest again.
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use polder_calls::settings::Settings;
use polder_commands::dump::LOST_EXPIRIES;
use polder_runtime::locks::lock;
use polder_table::Table;

use crate::pause;
use polder_persist::saves::save::{Plan, Progress, StreamPlace};

/// The version of RDB files for a replica that has named none and whose copy needs a newer one than the lowest.
const NEWER_VERSION: u32 = 12;

/// The copies that are being made in a process.
#[derive(Default)]
pub struct Copies {
    making: Mutex<Vec<Arc<Copy>>>,
    pause: Mutex<Pause>,
}

/// The pause after copies that could not be followed (C4).
#[derive(Clone, Copy, Default)]
struct Pause {
    overruns: u32,
    until: Option<Instant>,
}

impl Pause {
    /// A copy that was begun at `begun` could not be followed. Replicas that shared it count once.
    fn overrun(&mut self, begun: Instant, now: Instant) {
        if self.until.is_none_or(|until| begun >= until) {
            self.until = Some(now + pause::after(self.overruns));
            self.overruns += 1;
        }
    }
}

/// A copy that was made.
pub struct Made {
    pub file: File,
    /// The place in the change log at which it was cut, and its offset as PSYNC counts.
    pub offset: u64,
    pub stream_offset: u64,
    pub keys: u64,
}

/// A copy that is being made.
struct Copy {
    version: Option<u32>,
    identity: String,
    /// The offset of its cut, plus one; 0: there is none yet.
    cut: AtomicU64,
    waiting: AtomicUsize,
    progress: Progress,
    made: Mutex<Option<Result<Arc<Made>, String>>>,
    is_made: Condvar,
}

/// A feed's part in a copy.
pub struct Ticket<'c> {
    copies: &'c Copies,
    copy: Arc<Copy>,
}

impl Copies {
    /// Returns true while no copy is to be begun (C4).
    pub fn pauses(&self) -> bool {
        lock(&self.pause).until.is_some_and(|until| Instant::now() < until)
    }

    /// A copy that was asked for at `begun` could not be followed: the log was trimmed beyond its cut (C4).
    pub fn overrun(&self, begun: Instant) {
        lock(&self.pause).overrun(begun, Instant::now());
    }

    /// A replica follows from a copy: there is no pause after the next overrun but the shortest.
    pub fn succeed(&self) {
        *lock(&self.pause) = Pause::default();
    }

    /// Joins a copy of this form that is being made, or begins one.
    ///
    /// # Errors
    /// Why none can be begun.
    pub fn join(
        &self,
        table: &Table,
        settings: &Settings,
        version: Option<u32>,
        identity: &str,
    ) -> Result<Ticket<'_>, String> {
        let mut making = lock(&self.making);
        making.retain(|copy| lock(&copy.made).is_none() && copy.waiting.load(Ordering::Relaxed) > 0);
        let known = making.iter().find(|copy| copy.version == version && copy.identity == identity);
        let copy = match known.cloned() {
            Some(copy) => copy,
            None => {
                let copy = begin(table, settings, version, identity)?;
                making.push(copy.clone());
                copy
            }
        };
        copy.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(Ticket { copies: self, copy })
    }
}

impl Ticket<'_> {
    /// The offset of the cut, once it is made. One that fails may be followed by another, later one.
    pub fn cut(&self) -> Option<u64> {
        self.copy.cut.load(Ordering::Acquire).checked_sub(1)
    }

    /// Waits until the copy is made, no longer than `patience`; `None`: it is not.
    ///
    /// # Errors
    /// Why it was not made.
    pub fn wait(&self, patience: Duration) -> Result<Option<Arc<Made>>, String> {
        let made = lock(&self.copy.made);
        let (made, _) = self
            .copy
            .is_made
            .wait_timeout_while(made, patience, |made| made.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        made.clone().transpose().map_err(|why| format!("the copy was not made: {why}"))
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // Under the lock: no other feed joins a copy that is given up (C2).
        let mut making = lock(&self.copies.making);
        if self.copy.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.copy.progress.cancelled.store(true, Ordering::Relaxed);
            // A copy that was made is kept by the feeds that send it.
            making.retain(|copy| !Arc::ptr_eq(copy, &self.copy));
        }
    }
}

fn begin(
    table: &Table,
    settings: &Settings,
    version: Option<u32>,
    identity: &str,
) -> Result<Arc<Copy>, String> {
    let copy = Arc::new(Copy {
        version,
        identity: identity.to_owned(),
        cut: AtomicU64::new(0),
        // The caller's own follows.
        waiting: AtomicUsize::new(0),
        progress: Progress { cancelled: AtomicBool::new(false), ..Progress::default() },
        made: Mutex::default(),
        is_made: Condvar::new(),
    });
    // C3.
    let versions = if version.is_some() { vec![version] } else { vec![None, Some(NEWER_VERSION)] };
    let plans: Vec<(Plan, StreamPlace)> = versions
        .into_iter()
        .map(|version| {
            let (path, stream) = (PathBuf::from("the copy for a replica"), StreamPlace::of(identity));
            (Plan::of_stream(settings, path, version, stream.clone()), stream)
        })
        .collect();
    let (own, segment) = (copy.clone(), table.segment().clone());
    let work = move || {
        // Told also where this thread panics.
        let ending = Ending(&own);
        let made = own.make(&Table::over(segment), plans);
        ending.0.tell(made);
    };
    std::thread::Builder::new().name("polder-copy".into()).spawn(work).map_err(|error| error.to_string())?;
    Ok(copy)
}

impl Copy {
    fn make(&self, table: &Table, plans: Vec<(Plan, StreamPlace)>) -> Result<Arc<Made>, String> {
        let mut failed = Err("it has no form".into());
        for (plan, stream) in plans {
            failed = self.make_as(table, plan, &stream);
            if !failed.as_ref().is_err_and(|why| why.contains(LOST_EXPIRIES)) {
                break;
            }
        }
        failed
    }

    fn make_as(&self, table: &Table, plan: Plan, stream: &StreamPlace) -> Result<Arc<Made>, String> {
        let file = rustix::fs::memfd_create("polder-copy", rustix::fs::MemfdFlags::CLOEXEC);
        let file = File::from(file.map_err(|error| format!("no memory for a copy: {error}"))?);
        let (mut cut, mut stream_offset) = (0, 0);
        let keys = plan.write(table, &self.progress, &file, &mut |table, goes_on| {
            table.snapshot_in_log(goes_on, &mut |offset, db| {
                stream_offset = table.log().offset_of(offset);
                stream.set(stream_offset, db);
                cut = offset;
                self.cut.store(offset + 1, Ordering::Release);
            })
        })?;
        Ok(Arc::new(Made { file, offset: cut, stream_offset, keys }))
    }

    /// Says what has come of it, once.
    fn tell(&self, made: Result<Arc<Made>, String>) {
        lock(&self.made).get_or_insert(made);
        self.is_made.notify_all();
    }
}

/// Tells the feeds that a copy is not made, unless they have been told of it.
struct Ending<'c>(&'c Copy);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.tell(Err("the thread that made it has panicked".into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_each_copy_that_cannot_be_followed() {
        let mut pause = Pause::default();
        let mut now = Instant::now();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            pause.overrun(now, now);
            // Another replica that had the same copy.
            pause.overrun(now, now);
            let until = pause.until.expect("a pause");
            assert_eq!(until - now, Duration::from_secs(seconds));
            now = until;
        }
    }
}
