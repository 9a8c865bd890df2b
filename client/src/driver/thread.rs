//! The driver that is a thread of its own: for programs without a runtime.
//!
//! An event loop may borrow the open connection: its own thread then writes and reads, without a change of threads for each call. The driver's
//! thread still connects, sees to deadlines, and serves the connection when another thread makes a call.
//!
//! Invariants:
//! 1. **B1** `place` is locked by the thread that serves the connection. The driver's thread gives it up only while it waits for an open socket;
//!    the event loop's thread never waits for it.
//! 2. **B2** A socket that is lent is watched by the event loop alone for what comes in, and by the driver's thread alone for room.
//! 3. **B3** A connection that breaks in the event loop's hands is given back with the reason, and its driver's thread is woken.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::{
    Backoff, Broken, Channel, Secrets, Shared, Socket, Wakeup, abandon, is_over, lost, pump, tick,
    unreachable,
};
use crate::error::Error;
use crate::link::{Link, Listeners};
use crate::options::{Endpoint, Options};
use crate::queue::earlier;

const WAKEUP: Token = Token(0);
const SOCKET: Token = Token(1);

/// Starts a connection's thread.
///
/// # Errors
/// [`Error::Usage`] when the operating system has no thread or descriptor left.
pub(crate) fn start(
    options: Arc<Options>,
    secrets: Secrets,
    listeners: Listeners,
) -> Result<Arc<Shared>, Error> {
    let unable = |error: io::Error| Error::usage(format!("the client's thread cannot be started: {error}"));
    let poll = Poll::new().map_err(unable)?;
    let waker = Waker::new(poll.registry(), WAKEUP).map_err(unable)?;
    let driver = Arc::new(Driver {
        waker,
        place: Mutex::default(),
        is_lent: AtomicBool::new(false),
        event_loop: OnceLock::new(),
    });
    let shared = Arc::new(Shared::new(options, secrets, Wakeup::Thread(Arc::clone(&driver))));
    let mut thread = Thread { shared: Arc::clone(&shared), driver, poll, events: Events::with_capacity(8) };
    std::thread::Builder::new()
        .name("polder-client".into())
        .spawn(move || thread.run(listeners))
        .map_err(unable)?;
    Ok(shared)
}

/// A driver's thread as the others see it.
pub(crate) struct Driver {
    waker: Waker,
    /// The connection, for as long as the thread runs.
    place: Mutex<Option<Place>>,
    is_lent: AtomicBool,
    /// What the event loop polls: an epoll descriptor.
    event_loop: OnceLock<Arc<OwnedFd>>,
}

/// A connection and its state.
struct Place {
    shared: Arc<Shared>,
    link: Link,
    /// While it is open.
    channel: Option<Channel<Stream>>,
    /// Why it is of no use any more, as the event loop's thread has found.
    broken: Option<Broken>,
    /// When the driver's thread looks again by itself.
    looks_at: Option<Instant>,
}

fn lock(place: &Mutex<Option<Place>>) -> MutexGuard<'_, Option<Place>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!("the client's thread cannot be woken: {error}");
        }
    }

    /// Lends the connection to the event loop that polls this descriptor, whenever it is open.
    pub(crate) fn lend(&self, event_loop: &Arc<OwnedFd>) {
        self.event_loop.get_or_init(|| Arc::clone(event_loop));
        if !self.is_lent.swap(true, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Takes the connection back: the driver's thread reads from it again.
    pub(crate) fn recall(&self) {
        if self.is_lent.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Serves a connection that is lent, in the event loop's thread: writes what is queued, and reads what has come if `reads`. Returns whether
    /// it did.
    pub(crate) fn serve_here(&self, reads: bool) -> bool {
        if !self.is_lent.load(Ordering::SeqCst) {
            return false;
        }
        let Ok(mut held) = self.place.try_lock() else { return false };
        let Some(Place { shared, link, channel: Some(channel), broken, looks_at }) = held.as_mut() else {
            return false;
        };
        if !channel.socket.is_lent || broken.is_some() {
            return false;
        }
        channel.socket.is_drained = !reads;
        // Until nothing more comes: a reply may let calls be written that waited for it.
        *broken = loop {
            match pump(shared, link, channel, Instant::now()) {
                Ok(true) => {}
                done => break done.err(),
            }
        };
        let is_due = link.next_tick().is_some_and(|next| looks_at.is_none_or(|looks| next < looks));
        if broken.is_some() || is_due {
            drop(held);
            self.wake();
        }
        true
    }
}

impl crate::held::Driver for Driver {
    fn go_on(&self) {
        if !self.serve_here(false) {
            self.wake();
        }
    }
}

/// Addresses to try, each with the name of its host.
type Addresses = Vec<(String, SocketAddr)>;

enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

struct Stream {
    kind: Kind,
    /// Whether a read would say that there is nothing: the last one took less than it had room for, and no event came since. It
    /// saves a system call for each reply.
    is_drained: bool,
    /// Whether the peer has closed its side: no event tells of that again.
    is_closed: bool,
    /// Whether an event loop watches it for what comes in (B2).
    is_lent: bool,
}

impl Socket for Stream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Tcp(stream) => stream.write_vectored(pieces),
            Kind::Unix(stream) => stream.write_vectored(pieces),
        }
    }
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.is_drained && !self.is_closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let done = match &mut self.kind {
            Kind::Tcp(stream) => stream.read(room),
            Kind::Unix(stream) => stream.read(room),
        };
        self.is_drained = match &done {
            Ok(count) => *count < room.len(),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        done
    }
}

impl Stream {
    fn new(kind: Kind) -> Stream {
        Stream { kind, is_drained: false, is_closed: false, is_lent: false }
    }

    fn register(&mut self, poll: &Poll) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match &mut self.kind {
            Kind::Tcp(stream) => poll.registry().register(stream, SOCKET, interest),
            Kind::Unix(stream) => poll.registry().register(stream, SOCKET, interest),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Tcp(stream) => stream.as_fd(),
            Kind::Unix(stream) => stream.as_fd(),
        }
    }

    /// Has the event loop watch the socket for what comes in, or the driver's thread (B2).
    fn hand_over(&mut self, is_lent: bool, event_loop: &OwnedFd, poll: &Poll) -> io::Result<()> {
        let interest = if is_lent { Interest::WRITABLE } else { Interest::READABLE | Interest::WRITABLE };
        if is_lent {
            epoll::add(
                event_loop,
                self.descriptor(),
                EventData::new_u64(0),
                EventFlags::IN | EventFlags::RDHUP,
            )?;
        } else {
            epoll::delete(event_loop, self.descriptor())?;
        }
        match &mut self.kind {
            Kind::Tcp(stream) => poll.registry().reregister(stream, SOCKET, interest)?,
            Kind::Unix(stream) => poll.registry().reregister(stream, SOCKET, interest)?,
        }
        (self.is_lent, self.is_drained) = (is_lent, false);
        Ok(())
    }

    /// What the operating system has told of it.
    fn note(&mut self, events: &Events) {
        for event in events.iter().filter(|event| event.token() == SOCKET) {
            self.is_drained &= !event.is_readable();
            self.is_closed |= event.is_read_closed() || event.is_error();
        }
    }

    /// Whether the connection has been made.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn is_open(&self) -> io::Result<bool> {
        let Kind::Tcp(stream) = &self.kind else { return Ok(true) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What the thread does next.
enum Next {
    Again,
    Wait(Option<Instant>),
    /// The client was closed, and its calls have ended.
    End,
}

struct Thread {
    shared: Arc<Shared>,
    driver: Arc<Driver>,
    poll: Poll,
    events: Events,
}

impl Thread {
    fn run(&mut self, listeners: Listeners) {
        let (shared, driver) = (Arc::clone(&self.shared), Arc::clone(&self.driver));
        let link = Link::new(Arc::clone(&shared.options), listeners, Instant::now());
        *lock(&driver.place) =
            Some(Place { shared: Arc::clone(&shared), link, channel: None, broken: None, looks_at: None });
        // A panic of a user's waker ends the thread: no call may wait for it then.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.keep_connected(&driver)));
        let place = lock(&driver.place).take();
        place.into_iter().for_each(|mut place| abandon(&shared, &mut place.link));
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    }

    fn keep_connected(&mut self, driver: &Driver) {
        let shared = Arc::clone(&self.shared);
        let mut backoff = Backoff::new(&shared.options);
        let mut held = lock(&driver.place);
        loop {
            let Some(place) = held.as_mut().filter(|place| !is_over(&shared, &place.link)) else { return };
            let error = match self.open(&mut place.link) {
                Ok(None) => return,
                Ok(Some((stream, host))) => {
                    place.link.connected(Instant::now());
                    match Channel::new(stream, &shared, host.as_deref()) {
                        Ok(channel) => {
                            place.channel = Some(channel);
                            let served;
                            (held, served) = self.serve(driver, held, &mut backoff);
                            match served {
                                Ok(()) => return,
                                Err(error) => error,
                            }
                        }
                        Err(error) => error.into(),
                    }
                }
                Err(error) => unreachable(&shared, &error),
            };
            let Some(place) = held.as_mut() else { return };
            place.channel = None;
            lost(&shared, &mut place.link, &error);
            let until = Instant::now() + backoff.pause();
            if self
                .meanwhile(&mut place.link, |_| (Instant::now() >= until).then_some(()), Some(until))
                .is_none()
            {
                return;
            }
        }
    }

    /// Opens a socket; with several addresses, the first that accepts. Returns the host's name with it, where it has one; `None`
    /// when the client was closed meanwhile.
    fn open(&mut self, link: &mut Link) -> io::Result<Option<(Stream, Option<String>)>> {
        let options = Arc::clone(&self.shared.options);
        let until = Instant::now() + options.connect_timeout;
        let late = || {
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it did not accept within {:?}", options.connect_timeout),
            )
        };
        if let Endpoint::Unix(path) = &options.endpoint {
            let mut stream = Stream::new(Kind::Unix(UnixStream::connect(path)?));
            stream.register(&self.poll)?;
            return Ok(Some((stream, None)));
        }
        let Some(addresses) = self.resolve(link, until) else { return Ok(None) };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for (host, address) in addresses.unwrap_or_else(|| Err(late()))? {
            let mut stream = match TcpStream::connect(address) {
                Ok(stream) => Stream::new(Kind::Tcp(stream)),
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            stream.register(&self.poll)?;
            let is_open = |_: &Thread| match stream.is_open() {
                Ok(false) => (Instant::now() >= until).then(|| Err(late())),
                other => Some(other.map(drop)),
            };
            match self.meanwhile(link, is_open, Some(until)) {
                None => return Ok(None),
                Some(Ok(())) => {
                    stream.note(&self.events);
                    if let Kind::Tcp(tcp) = &stream.kind {
                        tcp.set_nodelay(true)?;
                        super::keep_alive(socket2::SockRef::from(tcp), &options)?;
                    }
                    return Ok(Some((stream, Some(host))));
                }
                Some(Err(error)) => last = error,
            }
        }
        Err(last)
    }

    /// The addresses of the server. A name is looked up, and sentinels are asked, by a thread of its own, since the operating
    /// system's ways of doing so cannot be given up. The outer `None` says that the client was closed meanwhile, the inner one
    /// that the time passed.
    #[allow(clippy::option_option)]
    fn resolve(&mut self, link: &mut Link, until: Instant) -> Option<Option<io::Result<Addresses>>> {
        let options = Arc::clone(&self.shared.options);
        if let Endpoint::Tcp { host, port } = &options.endpoint
            && let Ok(address) = host.parse::<IpAddr>()
        {
            return Some(Some(Ok(vec![(host.clone(), SocketAddr::new(address, *port))])));
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let shared = Arc::clone(&self.shared);
        let look_up = move || {
            let addresses = match &options.endpoint {
                Endpoint::Tcp { host, port } => (host.as_str(), *port)
                    .to_socket_addrs()
                    .map(|addresses| addresses.map(|address| (host.clone(), address)).collect()),
                Endpoint::Cluster { .. } => {
                    let addresses = |(host, port): (String, u16)| {
                        let found = (host.as_str(), port).to_socket_addrs().into_iter().flatten();
                        found.map(|address| (host.clone(), address)).collect::<Vec<_>>()
                    };
                    Ok(shared.places().into_iter().flat_map(addresses).collect())
                }
                _ => super::sentinel::find(&options, &shared.secrets).map(|found| vec![found]),
            };
            // The driver may have given up: then there is no receiver.
            let _given_up = sender.send(addresses);
            shared.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("polder-resolve".into()).spawn(look_up) {
            return Some(Some(Err(error)));
        }
        let is_done = |_: &Thread| match receiver.try_recv() {
            Ok(addresses) => Some(Some(addresses)),
            Err(_) => (Instant::now() >= until).then_some(None),
        };
        self.meanwhile(link, is_done, Some(until))
    }

    /// Waits until something is done while the deadlines of calls go on passing; `None` when the client was closed and gives up.
    fn meanwhile<T>(
        &mut self,
        link: &mut Link,
        mut done: impl FnMut(&Thread) -> Option<T>,
        until: Option<Instant>,
    ) -> Option<T> {
        loop {
            if self.shared.gives_up() {
                return None;
            }
            // Without a connection there is none to be found dead.
            let _unconnected = tick(&self.shared, link, Instant::now());
            link.note_deadlines(&mut self.shared.queue());
            if let Some(output) = done(self) {
                return Some(output);
            }
            self.wait(earlier(earlier(link.next_tick(), until), self.shared.lingers_until()));
        }
    }

    fn wait(&mut self, until: Option<Instant>) {
        let patience = until.map(|until| until.saturating_duration_since(Instant::now()));
        if let Err(error) = self.poll.poll(&mut self.events, patience)
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!("the client's thread cannot wait for its socket: {error}");
        }
    }

    /// One open connection until it breaks, or (`Ok`) until the client was closed and its calls have ended. The lock is given up only while
    /// the thread waits (B1).
    fn serve<'d>(
        &mut self,
        driver: &'d Driver,
        mut held: MutexGuard<'d, Option<Place>>,
        backoff: &mut Backoff,
    ) -> (MutexGuard<'d, Option<Place>>, Result<(), Broken>) {
        let login_until = Instant::now() + self.shared.options.connect_timeout;
        loop {
            let next = match held.as_mut() {
                Some(place) => self.turn(driver, place, login_until, backoff),
                None => Ok(Next::End),
            };
            match next {
                Ok(Next::Again) => {}
                Ok(Next::Wait(until)) => {
                    drop(held);
                    self.wait(until);
                    held = lock(&driver.place);
                    let channel = held.as_mut().and_then(|place| place.channel.as_mut());
                    channel.into_iter().for_each(|channel| channel.socket.note(&self.events));
                }
                Ok(Next::End) => return (held, Ok(())),
                Err(error) => return (held, Err(error)),
            }
        }
    }

    fn turn(
        &self,
        driver: &Driver,
        place: &mut Place,
        login_until: Instant,
        backoff: &mut Backoff,
    ) -> Result<Next, Broken> {
        let Place { shared, link, channel: Some(channel), broken, looks_at } = place else {
            return Ok(Next::End);
        };
        if let Some(broken) = broken.take() {
            return Err(broken);
        }
        let is_lent = driver.is_lent.load(Ordering::SeqCst) && link.is_ready() && !link.is_closing();
        let stream = &mut channel.socket;
        if is_lent != stream.is_lent
            && let Some(event_loop) = driver.event_loop.get()
        {
            stream.hand_over(is_lent, event_loop, &self.poll).map_err(|error| super::broken(&error))?;
        }
        // No event tells this thread what comes in.
        stream.is_drained &= !is_lent;
        let now = Instant::now();
        let progress = pump(shared, link, channel, now)?;
        tick(shared, link, now)?;
        if link.is_aborted() || !progress && link.is_closing() && is_over(shared, link) {
            return Ok(Next::End);
        }
        if link.is_ready() {
            backoff.reset();
        }
        // A client that closes takes its socket back.
        if progress || channel.socket.is_lent && link.is_closing() {
            return Ok(Next::Again);
        }
        let mut next = link.next_tick();
        if !link.is_ready() {
            if now >= login_until {
                let timeout = shared.options.connect_timeout;
                return Err(Error::not_sent(format!(
                    "the server did not finish the log-in within {timeout:?}"
                ))
                .into());
            }
            next = earlier(next, Some(login_until));
        }
        *looks_at = next;
        Ok(Next::Wait(next))
    }
}
