//! How others see the callers of a process without a server: CLIENT LIST, KILL and UNBLOCK.
//!
//! ```text
//!   CLIENT LIST of a server  --question-->  every thread that rests in Polder at that moment: it waits, hears, or its descriptor is polled
//!                            <--reply-----  all callers of its process, by their cards
//!   Caller --- ClientRecord --- Callers of the memory         what a caller says of itself, and what others want of it
//! ```
//!
//! A process of which no thread rests is not asked, since it is not known when it would reply. Its
//! callers are not shown to others, which cannot wait for them. A caller finds out that it was
//! killed with its next call, or is woken.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

use polder_base::time::coarse_ms;
use polder_calls::Facts;
use polder_hub::post;
use polder_hub::query::Thread;
use polder_runtime::configuration::Configuration;
use polder_runtime::recorder::Recorder;
use polder_runtime::saves::{SaveControl, SaveSignals};
use polder_runtime::scripting::Scripting;
use polder_runtime::session::Client;
use polder_runtime::statistics::Statistics;
use polder_runtime::{Host, Session};
use polder_shm::fork::{self, Shelter};

use crate::{COMMANDS, EmbeddedHost, Memory};

/// What another client wants of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Order {
    None = 0,
    /// Its call is to end as by its timeout.
    Timeout = 1,
    /// Its call is to end with an error.
    Error = 2,
    /// It is to end, and with it its call.
    Kill = 3,
}

impl Order {
    fn of(stored: u8) -> Order {
        [Order::None, Order::Timeout, Order::Error, Order::Kill][usize::from(stored & 3)]
    }
}

/// Whether a caller's call waits, as other threads see it.
mod wait {
    pub const NONE: u8 = 0;
    pub const WAITING: u8 = 1;
    /// Its thread runs the call again: it may go on waiting afterwards.
    pub const CLAIMED: u8 = 2;
}

/// What others may know of a caller, and want of it.
pub(crate) struct ClientRecord {
    generation: u64,
    created_ms: u64,
    face: Shelter<Client>,
    /// Where it listens or waits.
    thread: Shelter<Option<Thread>>,
    active_ms: AtomicU64,
    /// The number of the last command.
    last: AtomicU16,
    /// Whether its call waits: one of [`wait`].
    wait: AtomicU8,
    order: AtomicU8,
}

impl ClientRecord {
    /// What is wanted.
    #[inline]
    pub fn order(&self) -> Order {
        Order::of(self.order.load(Ordering::SeqCst))
    }

    /// Forgets what is wanted of its call, which has ended. A caller that was killed stays so.
    pub fn end_wait(&self) {
        self.wait.store(wait::NONE, Ordering::SeqCst);
        self.forget_unblock();
    }

    /// Called before its call is run again: keeps others from ending the wait. Returns false if
    /// another thread has ended it, or is about to.
    pub fn claim_wait(&self) -> bool {
        self.wait.store(wait::CLAIMED, Ordering::SeqCst);
        let free = self.order() == Order::None;
        if !free {
            self.go_on_waiting();
        }
        free
    }

    /// The end of what [`ClientRecord::claim_wait`] began, where it goes on waiting.
    pub fn go_on_waiting(&self) {
        self.wait.store(wait::WAITING, Ordering::SeqCst);
    }

    fn forget_unblock(&self) {
        for order in [Order::Timeout, Order::Error] {
            let _ = self.order.compare_exchange(
                order as u8,
                Order::None as u8,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
    }

    /// Whether its call waits.
    fn is_blocked(&self) -> bool {
        self.wait.load(Ordering::Relaxed) != wait::NONE
    }

    /// Says that its call waits.
    pub fn begin_wait(&self, session: &Session) {
        self.beat(session.caller.waiting.as_deref().map(|waiting| waiting.command), coarse_ms());
        // What came too late for the wait before is not for this one.
        self.forget_unblock();
        self.wait.store(wait::WAITING, Ordering::SeqCst);
    }

    /// Renews what a call may have changed that is about the session.
    pub fn show(&self, session: &Session) {
        *self.face.lock() = Client::of(session, session.clock.active_ms);
    }

    /// Says where it listens or waits.
    pub fn settle(&self, thread: Option<Thread>) {
        *self.thread.lock() = thread;
    }

    /// Says that it has made a call.
    #[inline]
    pub fn beat(&self, last: Option<&Facts>, now_ms: u64) {
        self.active_ms.store(now_ms, Ordering::Relaxed);
        self.last.store(last.map_or(u16::MAX, Facts::number), Ordering::Relaxed);
    }

    fn kill(&self) -> bool {
        self.order.swap(Order::Kill as u8, Ordering::Relaxed) != Order::Kill as u8
    }

    fn unblock(&self, order: Order) -> Option<bool> {
        let wait = || self.wait.load(Ordering::SeqCst);
        match wait() {
            wait::WAITING => {}
            wait::CLAIMED => return None,
            _ => return Some(false),
        }
        if self
            .order
            .compare_exchange(Order::None as u8, order as u8, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            return Some(false);
        }
        // The wait may have ended in between: either its end sees the order, or this sees the end.
        let after = wait();
        if after == wait::WAITING {
            return Some(true);
        }
        self.forget_unblock();
        if after == wait::CLAIMED { None } else { Some(false) }
    }
}

/// The callers that a process has on a memory.
#[derive(Default)]
pub(crate) struct Callers(Shelter<BTreeMap<u64, Arc<ClientRecord>>>);

impl Callers {
    pub fn enter(&self, session: &Session) -> Arc<ClientRecord> {
        let card = Arc::new(ClientRecord {
            generation: fork::generation(),
            created_ms: session.clock.created_ms,
            face: Shelter::new(Client::of(session, session.clock.active_ms)),
            thread: Shelter::new(None),
            active_ms: AtomicU64::new(session.clock.active_ms),
            last: AtomicU16::new(u16::MAX),
            wait: AtomicU8::new(wait::NONE),
            order: AtomicU8::new(Order::None as u8),
        });
        self.0.lock().insert(session.identity.id, card.clone());
        card
    }

    pub fn leave(&self, id: u64) {
        // What the card held is dropped outside of the lock.
        let card = self.0.lock().remove(&id);
        drop(card);
    }

    /// Those of this process: a child's have begun anew.
    fn all(&self) -> Vec<(u64, Arc<ClientRecord>)> {
        let all: Vec<_> = self.0.lock().iter().map(|(id, card)| (*id, card.clone())).collect();
        let generation = fork::generation();
        all.into_iter().filter(|(_, card)| card.generation == generation).collect()
    }

    pub fn find(&self, id: u64) -> Option<Arc<ClientRecord>> {
        let card = self.0.lock().get(&id).cloned();
        card.filter(|card| card.generation == fork::generation())
    }
}

/// The process around its callers, as commands see it.
pub(crate) struct Presence<'m> {
    memory: &'m Memory,
    host: &'m EmbeddedHost,
}

impl<'m> Presence<'m> {
    /// The process as it is now: for one call, in which it does not become another one.
    #[inline]
    pub fn of(memory: &'m Memory) -> Presence<'m> {
        Presence { memory, host: memory.host() }
    }

    /// Where a connection has addresses, a caller has its process and the memory.
    fn placed(&self, face: Client) -> Client {
        let address = format!("pid:{}/{}", std::process::id(), face.id);
        let local_address = self.memory.table().segment().mapping().name().to_string();
        Client { address, local_address, descriptor: -1, ..face }
    }

    fn rouse_thread(&self, card: &ClientRecord) {
        let thread = *card.thread.lock();
        if let Some(thread) = thread {
            // One that cannot be told looks by itself within half a second.
            let _ = post::rouse(self.memory.table(), thread);
        }
    }
}

impl Host for Presence<'_> {
    fn settings(&self) -> &Configuration {
        self.host.settings()
    }

    fn recorder(&self) -> &Recorder {
        self.host.recorder()
    }

    fn save_signals(&self) -> &SaveSignals {
        self.host.save_signals()
    }

    fn saves(&self) -> &dyn SaveControl {
        self.host.saves()
    }

    fn statistics(&self) -> Statistics {
        let all = self.memory.callers().all();
        let blocked = all.iter().filter(|(_, card)| card.is_blocked()).count();
        Statistics { clients: all.len() as u64, clients_blocked: blocked as u64, ..self.host.statistics() }
    }

    fn scripting(&self) -> Option<&Scripting> {
        self.host.scripting()
    }

    fn clients(&self, caller: &Session) -> Vec<Client> {
        let now_ms = coarse_ms();
        let alive = self
            .memory
            .callers()
            .all()
            .into_iter()
            .filter(|(id, card)| *id == caller.identity.id || card.order() != Order::Kill);
        let shown = alive.map(|(id, card)| {
            if id == caller.identity.id {
                return self.client(caller);
            }
            let mut face = card.face.lock().clone();
            face.age_seconds = now_ms.saturating_sub(card.created_ms) / 1000;
            face.idle_seconds = now_ms.saturating_sub(card.active_ms.load(Ordering::Relaxed)) / 1000;
            let last = COMMANDS.all().nth(card.last.load(Ordering::Relaxed).into());
            face.command = last.map_or("NULL".into(), |(_, command)| command.label());
            if card.is_blocked() {
                face.flags = face.flags.replace('N', "") + "b";
            }
            self.placed(face)
        });
        shown.collect()
    }

    fn client(&self, caller: &Session) -> Client {
        self.placed(Client::of(caller, coarse_ms()))
    }

    fn home(&self, id: u64) -> Option<Thread> {
        let card = self.memory.callers().find(id)?;
        let thread = *card.thread.lock();
        thread.or_else(|| self.memory.table().seat().ok().map(|seat| (seat.index(), seat.life())))
    }

    fn threads(&self) -> Vec<Thread> {
        // The asking thread gets the replies as letters.
        let own = self.memory.table().seat().ok().map(|seat| (seat.index(), seat.life()));
        own.filter(|(index, life)| self.memory.table().segment().inbox_life(*index) == *life)
            .into_iter()
            .collect()
    }

    fn kill(&self, id: u64) -> bool {
        let Some(card) = self.memory.callers().find(id) else { return false };
        let first = card.kill();
        self.rouse_thread(&card);
        first
    }

    fn unblock(&self, id: u64, with_error: bool) -> Option<bool> {
        let Some(card) = self.memory.callers().find(id) else { return Some(false) };
        let waited = card.unblock(if with_error { Order::Error } else { Order::Timeout });
        if waited == Some(true) {
            self.rouse_thread(&card);
        }
        waited
    }
}
