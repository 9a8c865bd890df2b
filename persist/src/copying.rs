//! The data of a memory, copied into another one of this machine: no file, no bytes of a protocol, and no
//! work of the processes that use the first memory.
//!
//! ```text
//!   walker    the thread of the snapshot: finds the keys, in batches --+--> copier --> keys of the other memory (`polder_table`'s `upkeep/copying.rs`)
//!                                                                      +--> copier
//! ```
//!
//! - **D1** A copy that fails, or whose process dies, leaves some of the keys. The caller has given it a
//!   place where no process takes these for all.
//! - **D2** What belongs to no database (functions, moments of flushes) is returned, as by a load. Of the
//!   hidden database only what the caller wants is copied: most of it tells of seats, clients and followers,
//!   which are those of the first memory.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use polder_calls::call::Outcome;
use polder_commands::flush;
use polder_runtime::locks::lock;
use polder_runtime::retry::retry;
use polder_runtime::scripts::{Present, add_codes, codes_at};
use polder_shm::Role;
use polder_table::snapshot::{Item, View};
use polder_table::{Db, Mode, STAGED, SYSTEM, Snapshot, Table};

use crate::saves::save::Progress;

/// Batches that wait for each copier, at most.
const BATCHES_MAX: usize = 4;

/// The place and the rules of a copy.
pub struct Plan<'p> {
    pub to: &'p Table,
    /// In this role, into the staged databases; else into the databases themselves.
    pub staged_for: Option<Role>,
    /// The keys of the hidden database that are copied, too.
    pub system: fn(&[u8]) -> bool,
    pub copiers: usize,
    pub progress: &'p Progress,
}

/// The result of a copy.
#[derive(Debug, Default)]
pub struct Copied {
    pub keys: u64,
    /// The sources of the libraries of functions.
    pub functions: Vec<Vec<u8>>,
    /// The moments at which databases are to be emptied, as [`flush::restore`] takes them.
    pub flushes: Vec<u8>,
}

/// Adds to a memory what belongs to no database.
///
/// # Errors
/// Faults of the memory.
pub fn add_rest(to: &Table, copied: &Copied) -> Outcome {
    let txn = to.begin(Mode::Write)?;
    retry(&txn, || {
        if !copied.functions.is_empty() {
            add_codes(&txn, &copied.functions, Present::Replaced)?;
        }
        flush::restore(&txn, &copied.flushes, SYSTEM.into(), true)
    })
}

/// Keys of one database.
struct Batch {
    db: Db,
    items: Vec<Item>,
}

/// Copies all that a snapshot shows, which has not begun to walk. The calling thread is the snapshot's.
///
/// # Errors
/// The reason, in words (D1).
pub fn copy(snapshot: &Snapshot<'_>, plan: &Plan<'_>) -> Result<Copied, String> {
    let functions = codes_at(snapshot).map_err(|stop| stop.to_string())?;
    let flushes = flush::kept_at(snapshot).map_err(|stop| stop.to_string())?;
    let copiers = plan.copiers.max(1);
    let (sender, receiver) = sync_channel(copiers * BATCHES_MAX);
    let (receiver, fails, view) = (Arc::new(Mutex::new(receiver)), AtomicBool::new(false), snapshot.view());
    let fails = &fails;
    let copied = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..copiers)
            .map(|_| {
                let batches = receiver.clone();
                scope.spawn(move || copy_batches(view, plan, &batches, fails))
            })
            .collect();
        // The copiers alone have it: if all of them panic, the walker sends into nothing and ends.
        drop(receiver);
        let walked = walk(snapshot, plan, sender, fails);
        let all = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread that copied has panicked".into())));
        let keys = all.collect::<Vec<_>>().into_iter().sum::<Result<u64, String>>();
        walked.and(keys)
    });
    Ok(Copied { keys: copied?, functions, flushes })
}

/// Hands out all keys.
fn walk(
    snapshot: &Snapshot<'_>,
    plan: &Plan<'_>,
    sender: SyncSender<Batch>,
    fails: &AtomicBool,
) -> Result<(), String> {
    while let Some((number, items)) = snapshot.advance().map_err(|stop| {
        // Batches that are under way are of no use.
        fails.store(true, Ordering::Relaxed);
        stop.to_string()
    })? {
        if plan.progress.cancelled.load(Ordering::Relaxed) {
            fails.store(true, Ordering::Relaxed);
            return Err("it was cancelled".into());
        }
        if fails.load(Ordering::Relaxed) {
            break;
        }
        let db = snapshot.databases()[number].db;
        let items = match db {
            SYSTEM => items.into_iter().filter(|item| (plan.system)(&item.key)).collect(),
            _ => items,
        };
        if !items.is_empty() && sender.send(Batch { db, items }).is_err() {
            break;
        }
    }
    Ok(())
}

/// Copies what is handed out, until there is no more. Returns how many keys that were, those of the hidden
/// database left out.
fn copy_batches(
    view: View<'_>,
    plan: &Plan<'_>,
    batches: &Mutex<Receiver<Batch>>,
    fails: &AtomicBool,
) -> Result<u64, String> {
    let rider = plan.staged_for.map(|role| plan.to.ride(role)).transpose();
    let mut done = rider.as_ref().map(|_| 0).map_err(ToString::to_string);
    loop {
        // After a failure batches are taken and left: the walker must not wait for a thread that takes none.
        if done.is_err() {
            fails.store(true, Ordering::Relaxed);
        }
        let batch = lock(batches).recv();
        let Ok(batch) = batch else { return done };
        if !fails.load(Ordering::Relaxed) {
            done = done.and_then(|keys| copy_batch(view, plan, &batch).map(|more| keys + more));
        }
    }
}

fn copy_batch(view: View<'_>, plan: &Plan<'_>, batch: &Batch) -> Result<u64, String> {
    let db = if plan.staged_for.is_some() { batch.db + STAGED } else { batch.db };
    let mut keys = 0;
    for item in &batch.items {
        let is_copied = plan
            .to
            .copy_key(view, item, db)
            .map_err(|stop| format!("the key '{}': {stop}", item.key.escape_ascii()))?;
        keys += u64::from(is_copied && batch.db != SYSTEM);
    }
    plan.progress.keys.fetch_add(keys, Ordering::Relaxed);
    Ok(keys)
}
