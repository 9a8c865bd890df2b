//! Starting and stopping: listeners first, then one thread for each loop.
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::{Poll, Waker};
use polder_base::time::now_ms;
use polder_calls::settings::{Id, Settings, id};
use polder_engine::Memory;
use polder_persist::persistence::load::Loaded;
use polder_persist::storage_process::Lock;
use polder_runtime::configuration::Configuration;

use crate::failure::Failure;
use crate::host::{Mailbox, Process};
use crate::listener::{self, After};
use crate::listener_set::ListenerSet;
use crate::tier;
use crate::tls::Tls;
use crate::turn::{EventLoop, WAKER};

const THREADS: Id = id("threads");
const MEMCACHE_DATABASE: Id = id("memcache-database");
const MAXCLIENTS: Id = id("maxclients");

/// Descriptors that are not clients: listeners, polls, the segment, log files.
const OTHER_DESCRIPTORS: u64 = 32;

/// A running server.
pub struct Server {
    process: Arc<Process>,
    threads: Vec<JoinHandle<()>>,
    /// The doors that are open, and where.
    pub doors: Vec<(String, String)>,
}

impl Server {
    /// Binds everything and starts the threads; when it returns, clients are served. `loaded` is what was read from the RDB file before: the first
    /// client is told of it.
    ///
    /// # Errors
    /// A port in use, a missing permission, too many open files: see [`Failure`].
    pub fn start(
        memory: Arc<Memory>,
        settings: Arc<Configuration>,
        loaded: Loaded,
    ) -> Result<Server, Failure> {
        Server::begin(memory, settings, Some(loaded))
    }

    /// As [`Server::start`], before the data has been read: calls that need it are refused until [`Server::open`].
    ///
    /// # Errors
    /// As there.
    pub fn start_loading(memory: Arc<Memory>, settings: Arc<Configuration>) -> Result<Server, Failure> {
        Server::begin(memory, settings, None)
    }

    /// Serves the data, which has been read by now from a log whose folder is locked.
    pub fn open(&self, loaded: Loaded, lock: Lock) {
        self.process.storage.keep(lock);
        self.process.open(loaded);
    }

    /// `loaded`: what was read; `None`: it is being read.
    fn begin(
        memory: Arc<Memory>,
        settings: Arc<Configuration>,
        loaded: Option<Loaded>,
    ) -> Result<Server, Failure> {
        raise_descriptor_limit(&settings);
        tier::check(&settings).map_err(Failure::tier)?;
        let database = settings.number(MEMCACHE_DATABASE);
        if database >= settings.databases().into() {
            return Err(Failure::database(database, settings.databases()));
        }
        let tls = Tls::default();
        if let Some(config) = tls.build(&After { settings: &settings, changes: &[] }).map_err(Failure::tls)? {
            tls.replace(config);
            tls.renew_tickets(memory.table(), &settings, now_ms());
        }
        // A UDP port looks at them.
        settings.users().refresh(memory.table());
        let listeners = listener::bind_all(&settings)?;
        let count = usize::try_from(settings.number(THREADS)).unwrap_or(1);
        let failed = |error: io::Error| Failure::system("cannot start a thread", &error);
        let mut polls = Vec::with_capacity(count);
        let mut mailboxes = Vec::with_capacity(count);
        for _ in 0..count {
            let poll = Poll::new().map_err(failed)?;
            mailboxes.push(Mailbox::new(Waker::new(poll.registry(), WAKER).map_err(failed)?));
            polls.push(poll);
        }
        let process = Arc::new(Process::new(memory, settings, mailboxes, ListenerSet::of(listeners), tls));
        match loaded {
            Some(loaded) => process.open(loaded),
            None => process.begin_loading(),
        }
        process
            .listeners
            .guests(&process.clients, None)
            .into_iter()
            .for_each(|guests| process.hand_over(guests));
        let doors = process.listeners.doors();
        let mut server = Server { process, threads: Vec::new(), doors };
        for (number, poll) in polls.into_iter().enumerate() {
            let turns = EventLoop::new(number, poll, server.process.clone()).map_err(failed)?;
            let thread = std::thread::Builder::new()
                .name(format!("polder-{number}"))
                .spawn(move || turns.run())
                .map_err(failed)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Ends the server, having saved where save points are set.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + use<> {
        let process = self.process.clone();
        move || process.save_and_stop()
    }

    /// Has the server read its certificates and keys again.
    pub fn reloader(&self) -> impl Fn() + Send + Sync + use<> {
        let process = self.process.clone();
        move || process.reload_tls()
    }

    /// Calls `told` when the server begins to stop, for whatever reason.
    pub fn tell_on_stop(&self, told: impl Fn() + Send + Sync + 'static) {
        self.process.tell_on_stop(Box::new(told));
    }

    /// Waits until every thread has ended; returns whether no thread panicked and the memory is still there.
    pub fn wait(mut self) -> bool {
        let mut well = true;
        for thread in self.threads.drain(..) {
            well &= thread.join().is_ok();
        }
        self.process.primary_link.end();
        self.process.feeds.end();
        self.process.tier.end();
        well &= self.process.storage.end();
        self.process.listeners.close();
        well && !self.process.memory.table().segment().removed()
    }
}

impl Drop for Server {
    /// A server that failed to start, or that a test forgets, stops.
    fn drop(&mut self) {
        self.process.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the server panicked");
            }
        }
        // Where it has been waited for, this has been done.
        self.process.primary_link.end();
        self.process.tier.end();
        let _ = self.process.storage.end();
    }
}

/// Makes room for `maxclients` descriptors as Redis does; where the system gives fewer, fewer clients are served.
fn raise_descriptor_limit(settings: &Settings) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = settings.number(MAXCLIENTS).unsigned_abs() + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return;
    }
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    let raised = [
        Rlimit { current: Some(wanted), maximum: Some(maximum.max(wanted)) },
        Rlimit { current: Some(wanted.min(maximum)), ..limit },
    ]
    .into_iter()
    .find(|asked| setrlimit(Resource::Nofile, *asked).is_ok())
    .and_then(|granted| granted.current)
    .unwrap_or(current);
    if raised < wanted {
        let clients = raised.saturating_sub(OTHER_DESCRIPTORS).max(1) as i64;
        tracing::warn!(
            "the system allows {raised} open files: maxclients is lowered to {clients}; raise it with 'ulimit -n {wanted}' or LimitNOFILE="
        );
        let text = clients.to_string().into_bytes();
        settings.set(MAXCLIENTS, polder_calls::settings::value::Parsed { number: clients, text });
    }
}
