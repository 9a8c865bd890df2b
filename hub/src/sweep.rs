//! Removes what dead seats have left in the hidden database, and wakes the clients that waited
//! behind them.
//!
//! The records of dead seats already count for nothing. Only clients that wait behind a dead one
//! depend on how soon they are swept. Maintenance does it a little at a time; several threads may
//! do it at once.

use polder_table::interest::{deaf, forget_deaf, settle_interest};
use polder_table::{Mode, SYSTEM, Stop, Table};
use polder_values::Kind;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::per_thread::{self, PerThread};
use crate::record::{self, PREFIX};
use crate::tokens::LEAD;
use crate::{addresses, post, queue, shapes, subject};

/// How long one round lasts, about.
const ROUND: Duration = Duration::from_micros(500);
/// Keys between two looks at the clock.
const KEYS: usize = 64;

/// How far a thread's sweeping has come.
#[derive(Default)]
struct Sweep {
    /// The dead seats for which the sweep was begun; empty when none is under way.
    dead: Vec<(u64, u64)>,
    /// Where it goes on; `None` once it has seen all keys.
    cursor: Option<u64>,
    /// Keys that were locked. They are tried again until they are clean.
    held: VecDeque<Vec<u8>>,
}

thread_local! {
    static SWEEP: PerThread<Sweep> = const { PerThread::new() };
}

/// Sweeps for a while if a seat that listened has died: a part of maintenance.
pub fn some(table: &Table) {
    sweep(table, Instant::now() + ROUND);
}

/// Sweeps to the end.
pub(crate) fn at_once(table: &Table) {
    const PATIENCE: Duration = Duration::from_secs(1);
    sweep(table, Instant::now() + PATIENCE);
}

fn sweep(table: &Table, end: Instant) {
    let Some(mut sweep) = per_thread::with(&SWEEP, table, std::mem::take) else { return };
    if matches!(sweep.cursor, None | Some(0)) {
        let new =
            deaf(table.segment()).into_iter().filter(|dead| !sweep.dead.contains(dead)).collect::<Vec<_>>();
        if !new.is_empty() {
            (sweep.cursor, sweep.held) = (Some(0), VecDeque::new());
        }
        sweep.dead.extend(new);
    }
    while let Some(cursor) = sweep.cursor {
        match portion(table, cursor, &mut sweep.held) {
            Ok(next) => sweep.cursor = Some(next).filter(|next| *next != 0),
            Err(_) => break,
        }
        if Instant::now() > end {
            break;
        }
    }
    if sweep.cursor.is_none() && !sweep.dead.is_empty() {
        for _ in 0..sweep.held.len() {
            if Instant::now() > end {
                break;
            }
            let again = sweep.held.pop_front().filter(|key| clean(table, key).is_err());
            sweep.held.extend(again);
        }
        // The dead seats are forgotten by the words noted when the sweep began, and only if no key
        // is left: by now a new owner of a seat may have declared its own interest.
        if sweep.held.is_empty() {
            sweep.dead.iter().for_each(|dead| forget_deaf(table.segment(), *dead));
            settle_interest(table.segment());
            sweep = Sweep::default();
        }
    }
    per_thread::with(&SWEEP, table, |own| *own = sweep);
}

/// Cleans some keys. Returns where to go on, and adds the keys that were locked to `held`.
fn portion(table: &Table, cursor: u64, held: &mut VecDeque<Vec<u8>>) -> Result<u64, Stop> {
    let mut keys = VecDeque::new();
    let txn = table.begin(Mode::Read)?;
    let next = txn.scan(SYSTEM, cursor, KEYS, &mut |scanned| {
        let is_ours = scanned.key.starts_with(PREFIX)
            || scanned.key.starts_with(LEAD)
            || [shapes::KEY, addresses::KEY].contains(&scanned.key);
        if is_ours {
            keys.push_back(scanned.key.to_vec());
        }
    })?;
    drop(txn);
    keys.retain(|key| clean(table, key).is_err());
    held.append(&mut keys);
    Ok(next)
}

/// Takes the records of the dead out of one key.
fn clean(table: &Table, key: &[u8]) -> Result<(), Stop> {
    if key == shapes::KEY {
        return shapes::sweep(table);
    }
    if key.starts_with(LEAD) || key == addresses::KEY {
        return post::run(table, &mut |txn| subject::sweep_group(txn, key));
    }
    match key.get(PREFIX.len()) {
        Some(b'p') => post::run(table, &mut |txn| subject::sweep_group(txn, key)),
        Some(b'w') => clean_queue(table, key),
        _ => post::run(table, &mut |txn| record::edit(txn, key, |_| false)),
    }
}

/// As [`clean`], of a queue.
fn clean_queue(table: &Table, records_key: &[u8]) -> Result<(), Stop> {
    let Some(([kind, low, high], key)) =
        records_key.get(PREFIX.len() + 2..).and_then(|rest| rest.split_first_chunk::<3>())
    else {
        return post::run(table, &mut |txn| record::edit(txn, records_key, |_| false));
    };
    match Kind::from_stored(*kind) {
        Some(kind) => queue::reap(table, kind, u16::from_le_bytes([*low, *high]), key),
        None => post::run(table, &mut |txn| record::edit(txn, records_key, |_| false)),
    }
}
