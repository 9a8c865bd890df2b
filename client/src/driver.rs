//! Drivers move bytes between a socket and a link, and tell the link what time it is.
//!
//! | driver | runs in | for |
//! |---|---|---|
//! | [`task`] | a tokio task (feature `tokio`) | programs with a runtime |
//! | [`thread`] | a thread of its own | programs without one |
//!
//! With `rediss://`, [`tls`] stands between the socket and the link of either.

use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::held::Held;
use crate::link::{Link, Listeners};
use crate::options::{Endpoint, Options};
use crate::queue::{Drained, Guide, Queue};
use crate::subscribe::Driven;
use crate::target::Target;

pub(crate) mod sentinel;
#[cfg(feature = "tokio")]
pub(crate) mod task;
pub(crate) mod thread;
#[cfg(feature = "tls")]
mod tls;

/// The most reads in a row.
const READS_MAX: usize = 16;
/// The most pieces of one gathered write.
const PIECES_MAX: usize = 16;

/// What the callers and the driver of one connection share.
pub(crate) struct Shared {
    pub options: Arc<Options>,
    queue: Mutex<Queue>,
    wakeup: Wakeup,
    secrets: Secrets,
}

/// What all connections of a client share beside its options: read once.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// What names the servers of a cluster.
    pub guide: Option<Arc<dyn Guide>>,
    /// Holds the drivers' wake-ups back, where a program with an event loop of its own releases them.
    held: Option<Arc<Held>>,
    #[cfg(feature = "tls")]
    tls: Option<tls::Config>,
}

impl Driven for Shared {
    fn look(&self) {
        self.tell(self.queue());
    }
}

impl Secrets {
    /// # Errors
    /// [`Error::Usage`] when a certificate cannot be used, or the crate was built without TLS.
    pub(crate) fn of(options: &Options) -> Result<Secrets, Error> {
        if options.tls.is_some() && matches!(options.endpoint, Endpoint::Unix(_) | Endpoint::Memory { .. }) {
            return Err(Error::usage(
                "TLS is for a server that is named by host and port; begin the URL with rediss://",
            ));
        }
        #[cfg(feature = "tls")]
        {
            if let (Some(_), Endpoint::Tcp { host, .. }) = (&options.tls, &options.endpoint) {
                tls::name(host)?;
            }
            Ok(Secrets { guide: None, held: None, tls: options.tls.as_ref().map(tls::config).transpose()? })
        }
        #[cfg(not(feature = "tls"))]
        {
            match options.tls {
                Some(_) => {
                    Err(Error::usage("this build has no TLS; build polder-client with the feature 'tls'"))
                }
                None => Ok(Secrets::default()),
            }
        }
    }
}

impl Secrets {
    /// The same for the connections of a cluster.
    pub(crate) fn with_guide(mut self, guide: Arc<dyn Guide>) -> Secrets {
        self.guide = Some(guide);
        self
    }

    /// The same for connections whose drivers are woken together.
    pub(crate) fn with_held(mut self, held: &Arc<Held>) -> Secrets {
        self.held = Some(Arc::clone(held));
        self
    }
}

/// A socket that waits, with TLS or without.
trait Conversation: io::Read + io::Write {}

impl<T: io::Read + io::Write> Conversation for T {}

impl Secrets {
    /// What is said to a server over a socket that waits, before the connection itself is made.
    fn wrap(&self, host: &str, socket: std::net::TcpStream) -> io::Result<Box<dyn Conversation>> {
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            return Ok(Box::new(tls::wrap(config, host, socket)?));
        }
        let _no_tls = host;
        Ok(Box::new(socket))
    }
}

/// How the driver is told that the queue has something for it.
pub(crate) enum Wakeup {
    #[cfg(feature = "tokio")]
    Task(task::Wakeup, tokio::runtime::Handle),
    Thread(Arc<thread::Driver>),
    /// There is no driver: calls run in the caller's thread.
    #[cfg(feature = "shm")]
    None,
}

impl Shared {
    pub(crate) fn new(options: Arc<Options>, secrets: Secrets, wakeup: Wakeup) -> Shared {
        let queue = Mutex::new(Queue::new(options.queue.calls_max, options.queue.bytes_max));
        Shared { options, queue, wakeup, secrets }
    }

    /// What a client of shared memory has in place of a connection.
    #[cfg(feature = "shm")]
    pub(crate) fn without_driver(options: Options) -> Arc<Shared> {
        let shared = Shared::new(Arc::new(options), Secrets::default(), Wakeup::None);
        shared.queue().is_up = true;
        Arc::new(shared)
    }

    /// The servers of a cluster that may be connected to, the best first.
    fn places(&self) -> Vec<(String, u16)> {
        self.secrets.guide.as_ref().map(|guide| guide.places()).unwrap_or_default()
    }

    /// Another connection to the same server, driven the same way.
    ///
    /// # Errors
    /// [`Error::Usage`] when the operating system has no thread left for it.
    pub(crate) fn start_another(&self, listeners: Listeners) -> Result<Arc<Shared>, Error> {
        self.start_at(Arc::clone(&self.options), listeners)
    }

    /// A connection to a server of other options, driven the same way.
    ///
    /// # Errors
    /// As [`Shared::start_another`].
    pub(crate) fn start_at(&self, options: Arc<Options>, listeners: Listeners) -> Result<Arc<Shared>, Error> {
        match &self.wakeup {
            #[cfg(feature = "tokio")]
            Wakeup::Task(_, runtime) => {
                Ok(task::start_in(runtime.clone(), options, self.secrets.clone(), listeners))
            }
            Wakeup::Thread(_) => thread::start(options, self.secrets.clone(), listeners),
            #[cfg(feature = "shm")]
            Wakeup::None => Err(Error::usage("shared memory has no connections")),
        }
    }

    /// The queue. No code of a user runs while it is held, so that a panic elsewhere leaves it whole.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the driver that the queue has something, unless it has been told already.
    pub(crate) fn tell(&self, mut queue: MutexGuard<'_, Queue>) {
        if !std::mem::replace(&mut queue.told, true) {
            drop(queue);
            match (&self.secrets.held, &self.wakeup) {
                (Some(held), Wakeup::Thread(driver)) if held.holds(|| Arc::clone(driver) as _) => {}
                _ => self.wake(),
            }
        }
    }

    fn wake(&self) {
        match &self.wakeup {
            #[cfg(feature = "tokio")]
            Wakeup::Task(task, _) => task.wake(),
            #[cfg(feature = "shm")]
            Wakeup::None => {}
            Wakeup::Thread(driver) => driver.wake(),
        }
    }

    /// The driver that may lend its connection to an event loop.
    pub(crate) fn lender(&self) -> Option<Arc<thread::Driver>> {
        match &self.wakeup {
            Wakeup::Thread(driver) => Some(Arc::clone(driver)),
            #[cfg(any(feature = "tokio", feature = "shm"))]
            _ => None,
        }
    }

    /// Lets the driver end once the calls that were made have ended.
    ///
    /// Calls that were made and forgotten have no future that keeps the client open. They are still sent: a connection that is
    /// not open yet, or broken, has the time of [`Options::connect_timeout`] for it.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        queue.closed = Some(Error::not_sent("the client was closed"));
        queue.lingers_until = Some(Instant::now() + self.options.connect_timeout);
        drop(queue);
        self.wake();
    }

    /// Whether a client that was closed gives up: nothing is left to send, or it has taken too long. Its calls have then ended.
    pub(crate) fn gives_up(&self) -> bool {
        let mut queue = self.queue();
        let Some(error) = queue.closed.clone().filter(|_| queue.gives_up(Instant::now())) else {
            return false;
        };
        let drained = queue.drain();
        drop(queue);
        drained.end(&error);
        true
    }

    /// When a closed client gives up at the latest.
    pub(crate) fn lingers_until(&self) -> Option<Instant> {
        self.queue().lingers_until
    }
}

impl Shared {
    /// Ends the connection at once: what is in flight is given up.
    pub(crate) fn abort(&self) {
        let mut queue = self.queue();
        queue.closed = Some(Error::not_sent("the client was closed"));
        queue.is_aborted = true;
        drop(queue);
        self.wake();
    }
}

/// A socket that does not wait.
pub(crate) trait Socket {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize>;
    /// Gives on what a layer above the socket holds back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Whether such a layer still holds something, and waits for room. A thread is told of all room anyway.
    #[cfg(feature = "tokio")]
    fn wants_write(&self) -> bool {
        false
    }
}

/// A socket, and TLS on it where the URL asks for that.
pub(crate) struct Channel<S> {
    pub socket: S,
    #[cfg(feature = "tls")]
    tls: Option<Box<tls::Tls>>,
}

impl<S> Channel<S> {
    /// `host` is the name that the server's certificate must have; `None` for a socket of this machine, which has none.
    ///
    /// # Errors
    /// When the server's name is none that a certificate could have.
    pub(crate) fn new(socket: S, shared: &Shared, host: Option<&str>) -> Result<Channel<S>, Error> {
        #[cfg(feature = "tls")]
        {
            let tls = match (&shared.secrets.tls, host) {
                (Some(config), Some(host)) => Some(Box::new(tls::Tls::new(config, host)?)),
                _ => None,
            };
            Ok(Channel { socket, tls })
        }
        #[cfg(not(feature = "tls"))]
        {
            let _no_tls = (shared, host);
            Ok(Channel { socket })
        }
    }
}

impl<S: Socket> Socket for Channel<S> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.write(&mut self.socket, pieces);
        }
        self.socket.write(pieces)
    }
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.read(&mut self.socket, room);
        }
        self.socket.read(room)
    }
    fn flush(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return tls.flush(&mut self.socket);
        }
        Ok(())
    }
    #[cfg(feature = "tokio")]
    fn wants_write(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.wants_write();
        }
        false
    }
}

/// Gathers, writes and reads until the socket wants to wait. Returns whether any call may have been completed.
///
/// # Errors
/// When the connection is of no use any more.
pub(crate) fn pump(
    shared: &Shared,
    link: &mut Link,
    socket: &mut impl Socket,
    now: Instant,
) -> Result<bool, Broken> {
    let (wakers, failed) = link.gather(&mut shared.queue(), now);
    wakers.into_iter().for_each(std::task::Waker::wake);
    fail(failed);
    socket.flush().map_err(|error| broken(&error))?;
    write(link, socket, now)?;
    let mut progress = false;
    // Deadlines are looked at between portions, however much comes in.
    for _ in 0..READS_MAX {
        let room = link.room();
        let most = room.len();
        match socket.read(room) {
            Ok(0) => return Err(Error::not_sent("the server closed the connection").into()),
            Ok(count) => {
                progress = true;
                link.filled(count, now)?;
                if count < most {
                    return Ok(progress);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(progress),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(&error)),
        }
    }
    Ok(progress)
}

fn write(link: &mut Link, socket: &mut impl Socket, now: Instant) -> Result<(), Broken> {
    while link.has_output() {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let count = link.output(&mut pieces);
        match socket.write(&pieces[..count]) {
            Ok(written) => link.wrote(written, now),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(&error)),
        }
    }
    Ok(())
}

/// Has the operating system notice a peer that is gone, behind calls that wait in the server too, which no PING can overtake.
pub(crate) fn keep_alive(socket: socket2::SockRef<'_>, options: &Options) -> io::Result<()> {
    let second = Duration::from_secs(1);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(options.ping_interval.max(second))
        .with_interval((options.ping_interval / 3).max(second))
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)
}

/// Why a connection is of no use any more.
pub(crate) struct Broken {
    pub error: Error,
    /// Whether the next attempt would end the same way (a log-in or a certificate that is refused), so that calls need not wait
    /// for their deadlines to learn it.
    pub is_final: bool,
}

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        Broken { is_final: matches!(error, Error::Refused(_)), error }
    }
}

fn broken(error: &io::Error) -> Broken {
    Broken { error: Error::not_sent(format!("the connection broke: {error}")), is_final: is_final(error) }
}

/// What becomes of an attempt to connect.
pub(crate) fn unreachable(shared: &Shared, error: &io::Error) -> Broken {
    Broken {
        error: Error::not_sent(format!("{} cannot be reached: {error}", shared.options.endpoint)),
        is_final: is_final(error),
    }
}

/// Whether the server cannot be used although it can be reached: TLS says so by this kind.
fn is_final(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

/// Completes calls with errors.
pub(crate) fn fail(failed: Vec<(Target, Error)>) {
    for (target, error) in failed {
        target.complete(Err(error));
    }
}

/// The pauses between attempts to connect: each twice as long as the one before, less what chance takes off.
pub(crate) struct Backoff {
    next: Duration,
    min: Duration,
    max: Duration,
    random: u64,
}

impl Backoff {
    pub(crate) fn new(options: &Options) -> Backoff {
        // Only clients that start together must differ; the address of a local and the clock do.
        let random =
            std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0u8) | 1;
        Backoff { next: options.backoff_min, min: options.backoff_min, max: options.backoff_max, random }
    }

    /// The next pause: between half of its length and all of it.
    pub(crate) fn pause(&mut self) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause - pause.mul_f64((self.random % 1000) as f64 / 2000.0)
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }
}

/// What becomes of the calls when a connection broke, or could not be opened.
pub(crate) fn lost(shared: &Shared, link: &mut Link, broken: &Broken) {
    let Broken { error, is_final } = broken;
    tracing::debug!(server = %shared.options.endpoint, "connection lost: {error}");
    let mut queue = shared.queue();
    let failed = link.disconnected(&mut queue, &error.to_string());
    let mut ended = if *is_final { queue.drain() } else { Drained::default() };
    if queue.ends_with_break {
        queue.closed = Some(error.clone());
        queue.is_aborted = true;
        ended = queue.drain();
    }
    let strays = link.lose(&mut queue);
    drop(queue);
    fail(failed);
    ended.end(error);
    strays();
}

/// The driver ends, by a panic or with its runtime: the calls that are left would have no end.
pub(crate) fn abandon(shared: &Shared, link: &mut Link) {
    let error = Error::not_sent(
        "the client's driver has ended: its runtime was shut down, or it panicked; make a new client",
    );
    let mut queue = shared.queue();
    let unknown = link.disconnected(&mut queue, "the client's driver has ended");
    queue.closed.get_or_insert_with(|| error.clone());
    let drained = queue.drain();
    drop(queue);
    fail(unknown);
    drained.end(&error);
}

/// Ends calls whose deadline has passed.
///
/// # Errors
/// When the connection is dead.
pub(crate) fn tick(shared: &Shared, link: &mut Link, now: Instant) -> Result<(), Error> {
    if link.is_due(now) {
        let mut queue = shared.queue();
        let late = link.take_late(&mut queue, now);
        let wakers = queue.may_go_on(now);
        drop(queue);
        wakers.into_iter().for_each(std::task::Waker::wake);
        fail(late);
    }
    link.check(now)
}

/// Whether the client was closed and nothing is left to do.
pub(crate) fn is_over(shared: &Shared, link: &Link) -> bool {
    let queue = shared.queue();
    queue.is_aborted || queue.closed.is_some() && queue.is_empty() && link.is_idle()
}
