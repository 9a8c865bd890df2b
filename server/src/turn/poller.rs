//! What wakes a thread: sockets, listeners, other threads, and other processes.
//!
//! The poll is edge-triggered, so a connection itself remembers whether its socket may have more to read.
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use polder_engine::Fault;
use polder_hub::{attend, query};

use super::connections::{Connections, FIRST_TOKEN};
use crate::host::{Process, ThreadMessage};
use crate::listener::Listener;

/// The token of the waker, by which other threads of the process wake this one.
pub const WAKER: Token = Token(0);
/// The token of the pipe by which other processes wake this thread.
const WAKEUP: Token = Token(FIRST_TOKEN - 1);
/// How long accepting rests after the system had no descriptor or memory for one more client.
const ACCEPT_REST_MS: u64 = 100;
/// How long a thread that other processes cannot wake waits before it tries again to register.
const WAKEUP_REST_MS: u64 = 100;

/// The poll of a thread, and what it watches beside connections. Listeners have the tokens after the waker's.
pub struct Poller {
    poll: Poll,
    listeners: Vec<Listener>,
    /// The version of the process's listeners that these are.
    listeners_version: u64,
    /// When a listener that could not accept is tried again; 0 when none rests.
    accept_due_ms: u64,
    /// Becomes readable when the thread's inbox gets a message while the thread sleeps.
    wakeup: Option<OwnedFd>,
    /// When registering it is tried again.
    wakeup_due_ms: u64,
}

impl Poller {
    /// A poller that watches the listeners of the process.
    ///
    /// # Errors
    /// When the poll takes no more descriptors.
    pub fn new(poll: Poll, process: &Process) -> io::Result<Poller> {
        let mut poller = Poller {
            poll,
            listeners: Vec::new(),
            listeners_version: 0,
            accept_due_ms: 0,
            wakeup: None,
            wakeup_due_ms: 0,
        };
        poller.watch_listeners(process)?;
        Ok(poller)
    }

    /// Watches the listeners that the process has now.
    fn watch_listeners(&mut self, process: &Process) -> io::Result<()> {
        let (version, listeners) = process.listeners.share()?;
        for listener in self.listeners.drain(..) {
            // Other threads share its socket, so closing it here would not end the watching.
            self.poll.registry().deregister(&mut SourceFd(&listener.socket.as_raw_fd()))?;
        }
        for (at, listener) in listeners.iter().enumerate() {
            self.poll.registry().register(
                &mut SourceFd(&listener.socket.as_raw_fd()),
                Token(at + 1),
                Interest::READABLE,
            )?;
        }
        (self.listeners, self.listeners_version) = (listeners, version);
        Ok(())
    }

    /// Ends to watch the connections of replicas, which get threads of their own.
    pub fn hand_replicas_over(&self, connections: &mut Connections) {
        connections.hand_replicas_over(self.poll.registry());
    }

    /// Watches other listeners if the process listens elsewhere by now.
    #[inline]
    pub fn refresh_listeners(&mut self, process: &Process) {
        if self.listeners_version != process.listeners.version()
            && let Err(error) = self.watch_listeners(process)
        {
            tracing::error!(%error, "a thread cannot watch where clients come in; trying again");
        }
    }

    /// Waits for events, no longer than `patience_ms`.
    #[inline]
    pub fn poll(&mut self, events: &mut Events, patience_ms: u64) {
        if let Err(error) = self.poll.poll(events, Some(Duration::from_millis(patience_ms)))
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "the poll of a thread fails");
        }
    }

    /// Passes an event on to the connection or listener that it is about.
    #[inline]
    pub fn notice(&mut self, event: &Event, connections: &mut Connections) {
        match event.token() {
            WAKEUP => self.empty_wakeup(),
            Token(token) if token >= FIRST_TOKEN => connections.notice(token - FIRST_TOKEN, event),
            Token(token) if (1..=self.listeners.len()).contains(&token) => {
                self.accept(token - 1, connections)
            }
            _ => {}
        }
    }

    fn accept(&mut self, listener: usize, connections: &mut Connections) {
        let process = connections.process.clone();
        let mut arrived = Vec::new();
        let admission = process.admission(connections.limits.clients_max);
        let has_tls = self.listeners[listener].tls && !process.is_stopping();
        let most = if has_tls { connections.limits.tls.handshakes_max } else { usize::MAX };
        match self.listeners[listener].accept(&admission, most, &mut arrived) {
            Ok(false) => {}
            // The others go on in the next turn.
            Ok(true) => self.accept_due_ms = connections.now_ms,
            // A thread that stops, or listens elsewhere, closes the listeners of all.
            Err(error) if !process.is_stopping() && self.listeners_version == process.listeners.version() => {
                tracing::error!(%error, "a client cannot be accepted; trying again");
                self.accept_due_ms = connections.now_ms + ACCEPT_REST_MS;
            }
            Err(_) => {}
        }
        for arrival in arrived {
            let thread = process.least_loaded();
            process.mailboxes[thread].burden();
            if thread == connections.number || process.is_stopping() {
                connections.adopt(arrival, thread, self.poll.registry());
            } else {
                process.mailboxes[thread].post(ThreadMessage::Adopt(arrival));
            }
        }
    }

    /// Tries again to accept, if it is time.
    pub fn retry_accepting(&mut self, connections: &mut Connections) {
        if self.accept_due_ms != 0 && connections.now_ms >= self.accept_due_ms {
            self.accept_due_ms = 0;
            (0..self.listeners.len()).for_each(|listener| self.accept(listener, connections));
        }
    }

    /// Accepts the clients that wait, and ends the listening of all threads at once. Another server on the port gets the
    /// clients that come then.
    pub fn close_listeners(&mut self, connections: &mut Connections) {
        // The listeners may have moved in this turn.
        self.refresh_listeners(&connections.process);
        for listener in 0..self.listeners.len() {
            self.accept(listener, connections);
            self.listeners[listener].rest();
        }
    }

    /// Does what other threads of the process have asked for.
    #[inline]
    pub fn read_letters(&mut self, connections: &mut Connections) {
        let (process, number) = (connections.process.clone(), connections.number);
        for message in process.mailboxes[number].open() {
            match message {
                ThreadMessage::Adopt(arrival) => connections.adopt(arrival, number, self.poll.registry()),
                ThreadMessage::Close(id) => {
                    if let Some(slot) = connections.slot_of(id) {
                        connections.close(slot);
                    }
                }
                ThreadMessage::Unblock(id, why) => connections.give_up(id, why),
            }
        }
    }

    /// Lets other processes wake this thread, if they cannot yet. Without a seat or a descriptor the thread looks into its
    /// inbox each time it wakes, and tries again.
    pub fn register_wakeup(&mut self, process: &Process, number: usize, now_ms: u64) {
        if self.wakeup.is_some() || now_ms < self.wakeup_due_ms {
            return;
        }
        let table = process.memory.table();
        let wakeup = attend(table).and_then(|()| table.seat()).and_then(|seat| seat.wakeup_fifo());
        let registered = wakeup.and_then(|wakeup| {
            let registered =
                self.poll.registry().register(&mut SourceFd(&wakeup.as_raw_fd()), WAKEUP, Interest::READABLE);
            registered.map_err(|error| Fault::System(error.to_string()))?;
            Ok(wakeup)
        });
        match registered {
            Ok(wakeup) => {
                self.wakeup = Some(wakeup);
                if let Ok(seat) = table.seat() {
                    // Set once: a thread has one seat.
                    let _ = process.mailboxes[number].thread.set((seat.index(), seat.life()));
                }
                query::serve(table);
            }
            Err(fault) => {
                if std::mem::replace(&mut self.wakeup_due_ms, now_ms + WAKEUP_REST_MS) == 0 {
                    tracing::warn!(%fault, "this thread cannot be woken by other processes yet: their messages wait until it wakes");
                }
            }
        }
    }

    /// Notes in the seat that the thread is about to sleep; returns false if there is a message to read first.
    #[inline]
    pub fn prepare_sleep(&self, process: &Process) -> bool {
        match process.memory.table().seat() {
            Ok(seat) if self.wakeup.is_some() => seat.prepare_sleep(),
            _ => true,
        }
    }

    /// Takes back [`Poller::prepare_sleep`].
    #[inline]
    pub fn after_sleep(&self, process: &Process) {
        if let Ok(seat) = process.memory.table().seat() {
            seat.after_sleep();
        }
    }

    /// Reads what woke the thread out of the pipe.
    fn empty_wakeup(&self) {
        let Some(wakeup) = &self.wakeup else { return };
        let mut bytes = [0; 256];
        while rustix::io::read(wakeup, &mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }

    /// When something is tried again here.
    pub fn due_ms(&self) -> Option<u64> {
        let accept = (self.accept_due_ms != 0).then_some(self.accept_due_ms);
        let wakeup = self.wakeup.is_none().then_some(self.wakeup_due_ms);
        [accept, wakeup].into_iter().flatten().min()
    }
}
