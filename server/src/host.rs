//! The process that serves: what its threads share, and what commands may ask of it.
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mio::Waker;
use polder_admin::metrics::history;
use polder_base::time::now_ms;
use polder_calls::settings::{Id, id};
use polder_engine::{Memory, Table};
use polder_hub::query::{self, Asker, Thread};
use polder_persist::flushes::run_due;
use polder_persist::persistence::load::Loaded;
use polder_persist::persistence::{Saves, has_save_points};
use polder_persist::reload;
use polder_persist::storage_process::check_folder;
use polder_runtime::configuration::Configuration;
use polder_runtime::execute::{NEW_ROLE, UNBLOCKED};
use polder_runtime::recorder::Recorder;
use polder_runtime::saves::{SaveControl, SaveSignals};
use polder_runtime::scripting::Scripting;
use polder_runtime::session::{Client, NewSetting, Servers, Shutdown, Traffic};
use polder_runtime::statistics::Statistics;
use polder_runtime::{Host, Session};

use crate::clients::{Clients, Record};
use crate::feeds::Feeds;
use crate::listener::{Admission, After, Arrival, Unmoved};
use crate::listener_set::{ListenerSet, Move};
use crate::primary_link::PrimaryLink;
use crate::storage::Storage;
use crate::thread_stats::{Count, NatsStats, ThreadStats};
use crate::tier::Tier;
use crate::tls::Tls;
use crate::watch::Watch;
use polder_protocols::limits::clients_bytes_max;

const MAXCLIENTS: Id = id("maxclients");
/// After this many milliseconds a database that could not be emptied is tried again.
const FLUSH_AGAIN_MS: u64 = 100;
const APPENDONLY: Id = id("appendonly");

/// A message from one thread of the process to another.
pub enum ThreadMessage {
    /// Serve this client.
    Adopt(Arrival),
    /// Close the connection of the client with this number, which is marked already.
    Close(u64),
    /// End the wait of the client with this number, as its timeout does or with an error.
    Unblock(u64, Option<&'static str>),
}

/// Where a thread gets its messages, and what other threads see of it.
pub struct Mailbox {
    messages: Mutex<Vec<ThreadMessage>>,
    waker: Waker,
    /// Clients that the thread serves or has been given.
    load: AtomicUsize,
    pub stats: ThreadStats,
    /// The thread's seat, once it takes questions of other processes.
    pub thread: OnceLock<Thread>,
}

impl Mailbox {
    /// A mailbox whose thread sleeps where `waker` wakes it.
    pub fn new(waker: Waker) -> Mailbox {
        Mailbox {
            messages: Mutex::default(),
            waker,
            load: AtomicUsize::new(0),
            stats: ThreadStats::default(),
            thread: OnceLock::new(),
        }
    }

    /// Leaves a message and wakes the thread.
    pub fn post(&self, message: ThreadMessage) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.wake();
    }

    /// Wakes the thread, so that it looks at what all threads share.
    pub fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "a thread cannot be woken");
        }
    }

    /// Takes the messages out.
    pub fn open(&self) -> Vec<ThreadMessage> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a client that the thread is given.
    pub fn burden(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a client that has gone.
    pub fn relieve(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the threads of a process share.
pub struct Process {
    pub memory: Arc<Memory>,
    pub settings: Arc<Configuration>,
    recorder: Recorder,
    saves: Saves,
    watch: Watch,
    scripting: Scripting,
    pub clients: Clients,
    pub mailboxes: Vec<Mailbox>,
    pub listeners: ListenerSet,
    pub tls: Tls,
    /// The last question of each thread of another process that was answered, by its seat. Each thread of this process is asked,
    /// in the same order.
    answered: Mutex<HashMap<u64, Asker>>,
    lifecycle: Lifecycle,
    pub storage: Storage,
    pub tier: Tier,
    pub feeds: Feeds,
    pub primary_link: PrimaryLink,
    due: Due,
}

/// How far the process has come: it reads its data, serves, ends.
struct Lifecycle {
    /// Pauses (`CLIENT PAUSE`) hold no client back any more.
    heedless: AtomicBool,
    stopping: AtomicBool,
    /// The data is being read: calls that need it are refused.
    loading: AtomicBool,
    /// Threads that have stopped accepting, because the process ends.
    closed_doors: AtomicUsize,
    on_stop: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// When the work is due that one of the threads does for all.
struct Due {
    /// When a database is to be emptied, as far as this process knows; `u64::MAX` for never, and while a thread does it.
    flush_ms: AtomicU64,
    /// When the memory's maintenance is due; `u64::MAX` while a thread does it.
    maintenance_ms: AtomicU64,
}

/// Which requests must wait at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    pub until_ms: u64,
    pub writers_only: bool,
}

impl Process {
    /// A process with one mailbox for each of its threads, and its listeners.
    pub fn new(
        memory: Arc<Memory>,
        settings: Arc<Configuration>,
        mailboxes: Vec<Mailbox>,
        listeners: ListenerSet,
        tls: Tls,
    ) -> Process {
        // A pause outlives the server that began it, but not all servers, because then nothing could end it.
        if query::others(memory.table(), &[]).is_empty() {
            query::unpause(memory.table());
        }
        let recorder = Recorder::default();
        recorder.belong(memory.table());
        Process {
            memory,
            scripting: polder_engine::scripting(&settings),
            settings,
            recorder,
            saves: Saves::default(),
            watch: Watch::default(),
            clients: Clients::default(),
            mailboxes,
            listeners,
            tls,
            answered: Mutex::default(),
            storage: Storage::default(),
            tier: Tier::default(),
            feeds: Feeds::default(),
            primary_link: PrimaryLink::default(),
            lifecycle: Lifecycle {
                heedless: AtomicBool::new(false),
                stopping: AtomicBool::new(false),
                loading: AtomicBool::new(false),
                closed_doors: AtomicUsize::new(0),
                on_stop: OnceLock::new(),
            },
            due: Due { flush_ms: AtomicU64::new(0), maintenance_ms: AtomicU64::new(0) },
        }
    }

    /// Its saves.
    pub fn saves(&self) -> &Saves {
        &self.saves
    }

    /// The thread with the fewest clients.
    pub fn least_loaded(&self) -> usize {
        let loads = self.mailboxes.iter().map(|mailbox| mailbox.load.load(Ordering::Relaxed));
        loads.enumerate().min_by_key(|(_, load)| *load).map_or(0, |(thread, _)| thread)
    }

    /// Gives an admitted client to the thread with the fewest clients.
    pub fn hand_over(&self, arrival: Arrival) {
        let thread = self.least_loaded();
        self.mailboxes[thread].burden();
        self.mailboxes[thread].post(ThreadMessage::Adopt(arrival));
    }

    /// What decides whether one more client may come in.
    pub fn admission(&self, clients_max: usize) -> Admission<'_> {
        Admission {
            settings: &self.settings,
            table: self.memory.table(),
            clients: &self.clients,
            clients_max,
        }
    }

    /// The length to which the segment may grow, in bytes.
    pub fn ceiling(&self) -> u64 {
        self.memory.table().segment().geometry().ceiling
    }

    /// Has clients closed until the others together take less than `maxmemory-clients`, those that take the most first.
    /// `caller`, whose call is running, gets no message; returns whether it is among them.
    pub fn evict_clients(&self, caller: Option<u64>) -> bool {
        let bytes_max = clients_bytes_max(&self.settings, self.ceiling());
        let mut with_caller = false;
        if bytes_max != 0 {
            self.clients.evict(bytes_max, |record| match caller == Some(record.id) {
                true => with_caller = true,
                false => self.mailboxes[record.thread].post(ThreadMessage::Close(record.id)),
            });
        }
        with_caller
    }

    /// The pause that holds at `now_ms`. A process that ends does not wait for its end.
    pub fn pause_at(&self, now_ms: u64) -> Option<Pause> {
        let (until_ms, writers_only) = query::paused(self.memory.table());
        (until_ms > now_ms && !self.lifecycle.heedless.load(Ordering::Relaxed))
            .then_some(Pause { until_ms, writers_only })
    }

    /// Lets all clients go on that wait for the end of a pause.
    pub fn ignore_pauses(&self) {
        self.lifecycle.heedless.store(true, Ordering::Relaxed);
    }

    /// Whether no thread of this process has answered this question of another process yet; the caller does it then.
    pub fn claim(&self, asker: Asker) -> bool {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let last = answered.get(&asker.thread.0).filter(|last| last.thread == asker.thread);
        let new = last.is_none_or(|last| last.number < asker.number);
        if new {
            answered.insert(asker.thread.0, asker);
        }
        new
    }

    /// Saves, if save points are set, and stops, as a signal asks.
    pub fn save_and_stop(&self) {
        if has_save_points(&self.settings)
            && !self.is_stopping()
            && let Err(why) = self.saves.save_at_end(self.memory.table(), &self.settings)
        {
            tracing::error!(why, "the RDB file was not written");
        }
        self.stop();
    }

    /// Reads the files of TLS again, as a signal asks. If they cannot be used, new connections get what was read before.
    pub fn reload_tls(&self) {
        let _one_at_a_time = self.tls.lock();
        match self.tls.build(&After { settings: &self.settings, changes: &[] }) {
            Ok(None) => tracing::info!(
                "SIGHUP is ignored: no port has TLS, so there are no certificates to read again"
            ),
            Ok(Some(config)) => {
                self.tls.replace(config);
                tracing::info!("SIGHUP: certificates and keys were read again");
            }
            Err(why) => tracing::error!("SIGHUP: new clients still get the certificates of before: {why}"),
        }
    }

    /// Asks all threads to reply to what they have read and to end.
    pub fn stop(&self) {
        if !self.lifecycle.stopping.swap(true, Ordering::AcqRel) {
            // Before the threads end: the process ends with them.
            if let Some(told) = self.lifecycle.on_stop.get() {
                told();
            }
            self.wake_all();
        }
    }

    /// Stops if the segment has been removed, because no other process would find what clients write from then on.
    pub fn stop_if_removed(&self) {
        let segment = self.memory.table().segment();
        if segment.removed() && !self.is_stopping() {
            let name = segment.mapping().name();
            tracing::error!(
                "{name} has been removed, and its data with it: the server stops; start it again to make a new segment"
            );
            self.stop();
        }
    }

    /// Ends the wait of a client; returns whether it was waiting, if that is known.
    fn end_wait(&self, record: &Record, why: Option<&'static str>) -> Option<bool> {
        let unblocked = record.unblock(|| self.pause_at(now_ms()).is_some());
        if unblocked == Some(true) {
            self.mailboxes[record.thread].post(ThreadMessage::Unblock(record.id, why));
        }
        unblocked
    }

    /// Looks after the role of the memory. Calls that wait end when it becomes a replica: what they wait for would not be theirs.
    pub fn attend_role(&self) {
        if self.primary_link.attend(&self.memory, &self.settings) {
            for record in self.clients.all() {
                self.end_wait(&record, Some(NEW_ROLE));
            }
        }
    }

    /// Whether [`Process::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.lifecycle.stopping.load(Ordering::Acquire)
    }

    /// The data is being read: calls that need it are refused until [`Process::open`].
    pub fn begin_loading(&self) {
        self.lifecycle.loading.store(true, Ordering::Release);
    }

    /// The data is there.
    pub fn open(&self, loaded: Loaded) {
        self.saves.loaded(loaded);
        self.tier.begin(&self.memory, &self.settings);
        self.storage.attend(&self.memory, &self.settings);
        // What was read may name a moment.
        self.learn_flushes(now_ms());
        self.lifecycle.loading.store(false, Ordering::Release);
    }

    /// Sets what is called when the process begins to end; it is called once.
    pub fn tell_on_stop(&self, told: Box<dyn Fn() + Send + Sync>) {
        // A second call would be a mistake in this crate; the first function stays.
        let _ = self.lifecycle.on_stop.set(told);
    }

    /// Notes that one more thread accepts no client any more.
    pub fn close_door(&self) {
        self.lifecycle.closed_doors.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether no thread accepts any more, so that no messages come.
    pub fn all_doors_closed(&self) -> bool {
        self.lifecycle.closed_doors.load(Ordering::Acquire) >= self.mailboxes.len()
    }

    /// When a database is to be emptied (`commands/src/flush.rs`), in milliseconds since the epoch; `u64::MAX` for never.
    #[inline]
    pub fn flush_due_ms(&self) -> u64 {
        self.due.flush_ms.load(Ordering::Relaxed)
    }

    /// Empties the databases whose moment has come, and learns when the next one comes.
    #[cold]
    pub fn flush_due(&self, now_ms: u64) {
        // Each thread whose turn begins behind the moment does so: what its clients store in this turn must not be emptied by another one (F1).
        self.learn_flushes(now_ms);
    }

    /// As [`Process::flush_due`], in any case: another process may have named a moment.
    pub fn learn_flushes(&self, now_ms: u64) {
        match run_due(self.memory.table(), now_ms) {
            Ok(next) => self.due.flush_ms.store(next.unwrap_or(u64::MAX), Ordering::Release),
            Err(stop) => {
                self.due.flush_ms.store(now_ms + FLUSH_AGAIN_MS, Ordering::Release);
                tracing::warn!(%stop, "a database that is to be emptied now cannot be; it is tried again");
            }
        }
    }

    /// When the memory's maintenance is due, in milliseconds since the epoch.
    pub fn maintenance_due_ms(&self) -> u64 {
        self.due.maintenance_ms.load(Ordering::Relaxed)
    }

    /// Whether the calling thread does the memory's maintenance now. It calls [`Process::maintenance_done`] at the end.
    pub fn claim_maintenance(&self, now_ms: u64) -> bool {
        let due_ms = self.maintenance_due_ms();
        due_ms <= now_ms
            && self
                .due
                .maintenance_ms
                .compare_exchange(due_ms, u64::MAX, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Makes the memory's maintenance due, unless a thread does it.
    pub fn hurry_maintenance(&self) {
        // A thread that has changed the time meanwhile does the maintenance, or has done it.
        let due_ms = self.maintenance_due_ms();
        if due_ms != u64::MAX {
            let _ = self.due.maintenance_ms.compare_exchange(due_ms, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Ends what [`Process::claim_maintenance`] began.
    pub fn maintenance_done(&self, due_ms: u64) {
        self.watch.look(self.memory.table(), due_ms);
        history::note(self, self.memory.table(), now_ms());
        self.due.maintenance_ms.store(due_ms, Ordering::Release);
    }

    /// Whether the log can lie where the settings say. In a thread of its own, since the caller is inside a transaction.
    fn check_folder_apart(&self) -> Result<(), String> {
        let check = || check_folder(self.memory.table(), &self.settings);
        std::thread::scope(|scope| scope.spawn(check).join())
            .unwrap_or_else(|_| Err("the check has panicked".into()))
    }

    fn wake_all(&self) {
        self.mailboxes.iter().for_each(Mailbox::wake);
    }
}

impl Host for Process {
    fn settings(&self) -> &Configuration {
        &self.settings
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn save_signals(&self) -> &SaveSignals {
        self.saves.signals()
    }

    fn saves(&self) -> &dyn SaveControl {
        &self.saves
    }

    fn nats_servers(&self) -> Servers {
        self.listeners.neighbours.servers(self.is_stopping())
    }

    fn nats_traffic(&self) -> (Traffic, u64) {
        let total = |count: fn(&NatsStats) -> &Count| -> u64 {
            self.mailboxes.iter().map(|mailbox| count(&mailbox.stats.nats).get()).sum()
        };
        let traffic = Traffic {
            messages_in: total(|stats| &stats.messages_in),
            bytes_in: total(|stats| &stats.bytes_in),
            messages_out: total(|stats| &stats.messages_out),
            bytes_out: total(|stats| &stats.bytes_out),
        };
        (traffic, total(|stats| &stats.slow_closed))
    }

    fn statistics(&self) -> Statistics {
        let total = |count: fn(&ThreadStats) -> &Count| {
            self.mailboxes.iter().map(|mailbox| count(&mailbox.stats).get()).sum()
        };
        let most = |count: fn(&ThreadStats) -> &Count| {
            self.mailboxes.iter().map(|mailbox| count(&mailbox.stats).get()).max().unwrap_or(0)
        };
        let mut statistics = Statistics {
            reads: total(|stats| &stats.reads),
            writes: total(|stats| &stats.writes),
            query_limit_closed: total(|stats| &stats.query_limit_closed),
            reply_limit_closed: total(|stats| &stats.reply_limit_closed)
                + self.feeds.limited.load(Ordering::Relaxed),
            clients_evicted: self.clients.evicted(),
            turns: total(|stats| &stats.turns),
            turn_us: total(|stats| &stats.turn_us),
            chores_us: total(|stats| &stats.chores_us),
            turn_us_max: most(|stats| &stats.turn_us_max),
            turn_calls_max: most(|stats| &stats.turn_calls_max),
            tracked_keys: total(|stats| &stats.tracked_keys),
            tracked_items: total(|stats| &stats.tracked_items),
            tracked_prefixes: total(|stats| &stats.tracked_prefixes),
            ..Statistics::default()
        };
        let (mut awaited, mut awaited_or_gone) = (HashSet::new(), HashSet::new());
        for record in self.clients.all() {
            for (db, key, or_its_end) in record.awaits() {
                if or_its_end {
                    awaited_or_gone.insert((db, key.clone()));
                }
                awaited.insert((db, key));
            }
            let activity = record.activity();
            let watches = record.watches() as u64;
            statistics.clients += 1;
            statistics.clients_blocked += u64::from(activity.waiting);
            statistics.clients_watching += u64::from(watches > 0);
            let (listens, tracks) = record.hears();
            statistics.clients_listening += u64::from(listens);
            statistics.clients_tracking += u64::from(tracks);
            statistics.keys_watched += watches;
            statistics.client_bytes += record.memory() as u64;
            statistics.query_bytes_max =
                statistics.query_bytes_max.max((activity.query_bytes + activity.query_room) as u64);
            statistics.reply_bytes_max = statistics.reply_bytes_max.max(activity.reply_room as u64);
        }
        // Redis counts it, and not the replicas.
        statistics.clients += u64::from(self.primary_link.client().is_some());
        (statistics.keys_awaited, statistics.keys_awaited_or_gone) =
            (awaited.len() as u64, awaited_or_gone.len() as u64);
        statistics
    }

    fn clients(&self, caller: &Session) -> Vec<Client> {
        let (now_ms, own) = (now_ms(), caller.identity.id);
        // In this order, so that one that leaves for a feed meanwhile is seen.
        let all = self.clients.all();
        let is_left = |client: &Client| all.iter().all(|record| record.id != client.id);
        let fed = self.feeds.clients().into_iter().filter(is_left);
        all.iter()
            .map(|record| if record.id == own { record.caller(caller) } else { record.client(now_ms) })
            .chain(fed)
            .chain(self.primary_link.client())
            .collect()
    }

    fn client(&self, caller: &Session) -> Client {
        match self.clients.find(caller.identity.id) {
            Some(record) => record.caller(caller),
            None => Client::of(caller, caller.clock.active_ms),
        }
    }

    fn kill(&self, id: u64) -> bool {
        let Some(record) = self.clients.find(id) else {
            return self.feeds.kill(id) || self.primary_link.kill(id);
        };
        let first = record.doom();
        if first {
            self.mailboxes[record.thread].post(ThreadMessage::Close(id));
            // Its connection may leave its event loop for a feed just now.
            self.feeds.kill(id);
        }
        first
    }

    fn hold_limits(&self, caller: &mut Session) {
        if clients_bytes_max(&self.settings, self.ceiling()) != 0 {
            let own = caller.identity.id;
            for record in self.clients.all() {
                let bytes = if record.id == own { record.caller(caller).memory } else { record.memory() };
                self.clients.weigh(&record, bytes);
            }
            caller.closing |= self.evict_clients(Some(own));
        }
        self.wake_all();
    }

    fn rouse(&self) {
        self.wake_all();
    }

    fn home(&self, id: u64) -> Option<Thread> {
        let record = self.clients.find(id).filter(|record| !record.is_doomed())?;
        self.mailboxes[record.thread].thread.get().copied()
    }

    fn threads(&self) -> Vec<Thread> {
        self.mailboxes.iter().filter_map(|mailbox| mailbox.thread.get().copied()).collect()
    }

    fn load_log(&self, table: &Table) -> Result<(), String> {
        reload::load_log(table, &self.settings, &self.scripting)
    }

    fn feeds_replicas(&self) -> bool {
        true
    }

    fn address(&self, caller: &Session) -> String {
        self.clients.find(caller.identity.id).map_or(String::new(), |record| record.address().to_owned())
    }

    fn unblock(&self, id: u64, with_error: bool) -> Option<bool> {
        let found = self.clients.find(id).filter(|record| !record.is_doomed());
        let Some(record) = found else { return Some(false) };
        self.end_wait(&record, with_error.then_some(UNBLOCKED))
    }

    fn end_postponement(&self, caller: &Session) {
        if let Some(record) = self.clients.find(caller.identity.id) {
            record.end_postponement();
        }
    }

    fn scripting(&self) -> Option<&Scripting> {
        Some(&self.scripting)
    }

    fn is_ending(&self) -> bool {
        self.is_stopping()
    }

    fn is_loading(&self) -> bool {
        self.lifecycle.loading.load(Ordering::Acquire)
    }

    fn apply(&self, changes: &[NewSetting], settle: &mut dyn FnMut()) -> Result<(), Id> {
        let turns_on = |(id, parsed): &NewSetting| {
            *id == APPENDONLY && parsed.number != 0 && !self.settings.is_on(APPENDONLY)
        };
        if changes.iter().any(turns_on)
            && let Err(why) = self.check_folder_apart()
        {
            tracing::warn!("appendonly stays off: {why}");
            return Err(APPENDONLY);
        }
        let _one_at_a_time = self.tls.lock();
        let config =
            self.tls.prepare(&After { settings: &self.settings, changes }).map_err(|(id, why)| {
                tracing::warn!("{why}");
                id
            })?;
        let mut settle = || {
            settle();
            config.iter().for_each(|config| self.tls.replace(config.clone()));
        };
        let clients_max = self.settings.number(MAXCLIENTS) as usize;
        let moved =
            self.listeners.move_to(changes, &self.admission(clients_max), || self.is_stopping(), &mut settle);
        self.wake_all();
        match moved {
            Ok(Move { moved, arrived }) => {
                arrived.into_iter().for_each(|arrival| self.hand_over(arrival));
                if moved {
                    tracing::info!("listening on {} now", self.listeners.names().join(", "));
                }
                Ok(())
            }
            Err(Unmoved { failure, door, tls }) => {
                tracing::warn!("{failure}");
                let at_fault = changes.iter().find(|(id, _)| door.place.settings(tls).contains(id));
                Err(at_fault.unwrap_or(&changes[0]).0)
            }
        }
    }

    fn shutdown(&self, how: Shutdown) -> Result<(), String> {
        if how.abort {
            return Err("ERR No shutdown in progress.".into());
        }
        tracing::info!("SHUTDOWN was called: stopping");
        self.stop();
        Ok(())
    }
}
