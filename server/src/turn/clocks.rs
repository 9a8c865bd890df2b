//! What a thread does by the clock: idle clients, soft limits, and its part of the memory's maintenance.
use polder_base::time::now_ms;
use polder_calls::settings::{Id, id};
use polder_engine::Counter;
use polder_runtime::switches;
use polder_runtime::{Host, noting};

use super::service::Service;
use crate::host::Process;

/// How often idle clients and soft limits are looked at.
pub const SWEEP_MS: u64 = 1000;
/// How long the thread waits, when memory is beyond its limit, before it asks for maintenance or makes room again.
pub const CROWD_MS: u64 = 10;
/// How much maintenance is done at a time.
const MAINTENANCE_US: u64 = 500;
/// How often a thread frees some of what it has replaced, one after the other, at most: some milliseconds.
const RECLAIMS_MAX: usize = 16;
const HZ: Id = id("hz");

/// When things are due.
#[derive(Default)]
pub struct Clocks {
    sweep_due_ms: u64,
    /// When the memory's limit is looked at again.
    crowd_due_ms: u64,
    /// The thread's changes when it was last asked whether it rests.
    changes_seen: u64,
}

impl Clocks {
    /// Does what is due.
    #[inline]
    pub fn look(&mut self, process: &Process, service: &mut Service) {
        let Service { poller, connections } = service;
        let now_ms = connections.now_ms;
        let table = process.memory.table();
        if now_ms >= self.sweep_due_ms {
            self.sweep_due_ms = now_ms + SWEEP_MS;
            connections.sweep();
            connections.tick();
            if connections.number == 0 {
                process.listeners.look_at_neighbours(table, &process.settings);
            }
            process.tls.renew_tickets(table, &process.settings, now_ms);
            // A thread that has nothing to do must not keep what it replaced last, nor its spare memory.
            reclaim(process);
            table.rest(&mut self.changes_seen);
        }
        if table.is_relieving() {
            reclaim(process);
        }
        connections.end_waits();
        connections.send_told();
        poller.retry_accepting(connections);
        // At once, so that a client that has written hears what that has evicted before anything else. If it frees nothing, it
        // waits for the next time.
        if now_ms >= self.crowd_due_ms && table.is_crowded() {
            self.crowd_due_ms = now_ms + CROWD_MS;
            process.hurry_maintenance();
        }
        if !switches::maintenance_rests() && process.claim_maintenance(now_ms) {
            maintain(process, now_ms);
        }
    }
}

/// Frees what the thread has replaced, as far as no thread reads it any more.
fn reclaim(process: &Process) {
    (0..RECLAIMS_MAX).take_while(|_| process.memory.table().reclaim()).for_each(drop);
}

/// Does the memory's maintenance for a while.
fn maintain(process: &Process, now_ms_of_turn: u64) {
    let table = process.memory.table();
    let expiry_us = table.counter(Counter::ExpiryUs);
    let pause_ms =
        table.run_maintenance(MAINTENANCE_US).min(1000 / process.settings.number(HZ).clamp(1, 500) as u64);
    noting::note_event(
        process,
        "expire-cycle",
        table.counter(Counter::ExpiryUs).saturating_sub(expiry_us) / 1000,
    );
    // Another process may have changed the settings of the segment.
    if let Err(stop) = process.settings.join(table) {
        tracing::error!(?stop, "the settings of the segment cannot be read");
    }
    process.learn_flushes(now_ms_of_turn);
    process.recorder().sample(table, now_ms_of_turn);
    if !process.is_loading() {
        process.saves().attend(table, &process.settings);
        process.storage.attend(&process.memory, &process.settings);
        process.feeds.attend(table, now_ms_of_turn);
        process.attend_role();
        process.saves().watch_log(table, &process.settings);
    }
    process.stop_if_removed();
    process.maintenance_done(now_ms() + pause_ms);
}
