//! The loop of one thread, and the order of things in a turn.
//!
//! ```text
//!   poll -> messages, arrivals -> read every ready socket once -> parse up to 64 requests, prefetch, execute; again,
//!   until all inputs are done -> one write per connection -> timers
//! ```
//!
//! Fairness: a connection gets one read per turn (16 KiB, more only for one long argument), and all whole requests in it
//! are executed. What is left in its socket waits for the next turn, behind the other connections.
//!
//! | file, from the lowest up | duty |
//! |---|---|
//! | `waiters`, `holding` | which connections wait for what, and when they are tried again; lists only |
//! | `connections` | serving, reading, writing and closing connections |
//! | `delivery` | messages to clients |
//! | `disk`, `disk_waits` | replies and calls that wait for the disk or for replicas |
//! | `waits` | connections that begin to wait and go on |
//! | `hearing`, `weighing` | the thread's inbox; the memory of clients |
//! | `poller` | what wakes the thread |
//! | `service` | poller and connections together, which go on while a script runs |
//! | `clocks`, `busy`, `away`, `frames`, `calls` | timers; slow scripts; calls that are turned away; grouping; batches and calls |
//!
//! **Invariant:** replies leave in the order of the requests: at the end of the turn, or earlier when a script of the turn has
//! become slow (`busy`).
//! **Invariant:** a connection that must wait is parked ([`Connection::park`](crate::connection::Connection::park)): its
//! requests stay unexecuted in its input, and other connections go on.
mod away;
mod busy;
mod calls;
mod clocks;
mod cold;
mod cold_waits;
mod connections;
mod delivery;
mod disk;
mod disk_waits;
mod frames;
mod hearing;
mod holding;
mod poller;
mod service;
mod waiters;
mod waits;
mod weighing;

use std::io;
use std::sync::Arc;

use mio::{Events, Poll};
use polder_base::time::{now_ms, now_us};
use polder_hub::queue::{flush_pending, has_pending};
use polder_runtime::Host;
use polder_runtime::switches;

use self::away::why_away;
use self::calls::Calls;
use self::clocks::{Clocks, SWEEP_MS};
use self::connections::Connections;
use self::poller::Poller;
use self::service::Service;
use crate::connection::Connection;
use crate::host::Process;

pub use self::poller::WAKER;

const EVENTS_MAX: usize = 1024;
/// How soon memory that another thread was reading is looked at again.
const RECLAIM_MS: u64 = 1;
/// How long a thread waits before it tries again to notify others.
const NOTIFY_MS: u64 = 2;
/// How long a stopping thread waits for other threads to stop listening, and for slow readers to take their replies.
const STOP_PATIENCE_MS: u64 = 2000;
/// How long a stopping thread waits for the first request of a client that has just come. So no client is refused when
/// another server takes over the port.
const NEWCOMER_GRACE_MS: u64 = 250;

/// The loop of one thread.
pub struct EventLoop {
    process: Arc<Process>,
    service: Service,
    calls: Calls,
    clocks: Clocks,
    /// The version of the users that all sessions have.
    users_version: u64,
    /// When the last turn ended.
    ended_us: u64,
}

impl EventLoop {
    /// A loop that watches the listeners of the process.
    ///
    /// # Errors
    /// When the poll takes no more descriptors.
    pub fn new(number: usize, poll: Poll, process: Arc<Process>) -> io::Result<EventLoop> {
        let poller = Poller::new(poll, &process)?;
        let connections = Connections::new(process.clone(), number, now_ms());
        Ok(EventLoop {
            process,
            service: Service { poller, connections },
            calls: Calls::default(),
            clocks: Clocks::default(),
            users_version: 0,
            ended_us: now_us(),
        })
    }

    /// Turns until the process stops, then replies to what has come and ends.
    pub fn run(mut self) {
        let _alarm = Alarm(self.process.clone());
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.process.is_stopping() {
            let number = self.service.connections.number;
            self.service.poller.register_wakeup(&self.process, number, self.ended_us / 1000);
            let patience_ms = self.patience_ms();
            self.turn(&mut events, patience_ms);
        }
        self.end(&mut events);
    }

    /// One turn, which waits for events no longer than `patience_ms`.
    fn turn(&mut self, events: &mut Events, patience_ms: u64) {
        let EventLoop { process, service: Service { poller, connections }, .. } = self;
        let patience_ms = if patience_ms > 0 && !poller.prepare_sleep(process) { 0 } else { patience_ms };
        let patience_ms = match connections.disk.is_empty() || patience_ms == 0 {
            false if connections.has_durable() => 0,
            false => patience_ms.min(disk::LOOK_MS),
            true => patience_ms,
        };
        poller.poll(events, patience_ms);
        poller.after_sleep(process);
        let began_us = now_us();
        connections.now_ms = began_us / 1000;
        connections.limits.refresh(&process.settings, process.ceiling());
        connections.turns_away = why_away(process);
        connections.look_at_disk();
        connections.renew_users(&mut self.users_version);
        poller.refresh_listeners(process);
        if connections.now_ms >= process.flush_due_ms() {
            process.flush_due(connections.now_ms);
        }
        connections.waiters.pause = process.pause_at(connections.now_ms);
        connections.end_pause();
        for event in events.iter() {
            poller.notice(event, connections);
        }
        poller.read_letters(connections);
        flush_pending(process.memory.table());
        connections.hear();
        connections.retry_cold();
        connections.retry_postponed();
        connections.retry_locked(began_us);
        connections.release_held();
        connections.release_durable();
        process.recorder().begin_turn();
        let calls_before = self.process.memory.table().own_calls();
        self.work();
        self.service.connections.ask_for_values();
        self.process.recorder().end_turn();
        let calls = self.process.memory.table().own_calls().saturating_sub(calls_before);
        self.service.poller.hand_replicas_over(&mut self.service.connections);
        let worked_us = now_us();
        self.clocks.look(&self.process, &mut self.service);
        let connections = &mut self.service.connections;
        connections.weigh_all();
        self.ended_us = now_us();
        connections.waiters.end_turn(began_us, self.ended_us);
        let stats = &self.process.mailboxes[connections.number].stats;
        stats.turns.add(1);
        stats.turn_us.add(self.ended_us.saturating_sub(began_us));
        stats.chores_us.add(self.ended_us.saturating_sub(worked_us));
        stats.turn_us_max.raise(self.ended_us.saturating_sub(began_us));
        stats.turn_calls_max.raise(calls);
    }

    /// Reads, executes and writes for all connections that are ready. Never inlined: `bench/counts` counts its instructions by this name.
    #[inline(never)]
    fn work(&mut self) {
        let connections = &mut self.service.connections;
        let mut ready = std::mem::take(&mut connections.ready);
        ready.retain(|slot| connections.receive(*slot));
        // What has been read may have been sent after a pause that began since the turn did.
        connections.waiters.pause = self.process.pause_at(connections.now_ms);
        self.calls.execute(&mut self.service, &ready);
        let connections = &mut self.service.connections;
        for slot in ready.drain(..) {
            connections.send(slot);
        }
        connections.send_told();
        // A connection that has more to do is in the new list, behind those that came meanwhile.
        if connections.ready.is_empty() {
            connections.ready = ready;
        }
        connections.count_traffic();
    }

    /// How long the thread may sleep: until something is due, and not at all if a connection may have more.
    fn patience_ms(&self) -> u64 {
        let Service { poller, connections } = &self.service;
        if !connections.ready.is_empty() || connections.deliveries.more {
            return 0;
        }
        let now_ms = self.ended_us / 1000;
        let table = self.process.memory.table();
        let does_maintenance = connections.number == 0 && !switches::maintenance_rests();
        let pause = self.process.pause_at(now_ms).filter(|_| connections.waiters.awaits_pause());
        let due = [
            Some(now_ms + SWEEP_MS),
            does_maintenance.then(|| self.process.maintenance_due_ms().min(self.process.flush_due_ms())),
            poller.due_ms(),
            pause.map(|pause| pause.until_ms),
            connections.waiters.due_ms(now_ms),
            table.is_relieving().then_some(now_ms + RECLAIM_MS),
            has_pending(table).then_some(now_ms + NOTIFY_MS),
        ];
        due.into_iter().flatten().min().unwrap_or(0).saturating_sub(now_ms)
    }

    /// Accepts the clients that wait, stops listening, replies to everything that has come, and closes all connections.
    fn end(mut self, events: &mut Events) {
        let until_ms = now_ms() + STOP_PATIENCE_MS;
        self.service.poller.close_listeners(&mut self.service.connections);
        self.process.close_door();
        while !self.process.all_doors_closed() && now_ms() < until_ms {
            self.turn(events, 1);
        }
        self.process.ignore_pauses();
        let connections = &mut self.service.connections;
        for slot in 0..connections.slots.len() {
            connections.say_farewell(slot);
            if let Some(connection) =
                connections.slots[slot].as_mut().filter(|connection| !connection.turn.queued)
            {
                connection.ready.readable = true;
                connections.queue(slot);
            }
        }
        let grace_ms = now_ms() + NEWCOMER_GRACE_MS;
        while self.service.connections.now_ms < until_ms {
            self.turn(events, 1);
            let connections = &self.service.connections;
            let grace = connections.now_ms < grace_ms;
            let done = |connection: &Connection| {
                let parked = connection.turn.parked && !connection.waits();
                let is_new = connection.session.tally.calls == 0 && !connection.door.takes_datagrams();
                !(connection.has_output() || parked || grace && is_new)
            };
            if connections.ready.is_empty()
                && connections.slots.iter().flatten().all(|connection| done(connection))
            {
                break;
            }
        }
        let connections = &mut self.service.connections;
        for slot in 0..connections.slots.len() {
            if let Some(connection) = &mut connections.slots[slot] {
                connection.finish(true);
            }
            connections.close(slot);
        }
    }
}

/// Stops the process when a thread panics: its clients would wait for ever, while another server can take them.
struct Alarm(Arc<Process>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a thread panicked: the server stops");
            self.0.close_door();
            self.0.stop();
        }
    }
}
