//! The driver that is a thread of its own: for programs without a runtime.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;

use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::{Backoff, Broken, Channel, Secrets, Shared, Socket, Wakeup, abandon, is_over, lost, pump, tick, unreachable};
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
pub(crate) fn start(options: Arc<Options>, secrets: Secrets, listeners: Listeners) -> Result<Arc<Shared>, Error> {
    let unable = |error: io::Error| Error::usage(format!("the client's thread cannot be started: {error}"));
    let poll = Poll::new().map_err(unable)?;
    let waker = Waker::new(poll.registry(), WAKEUP).map_err(unable)?;
    let shared = Arc::new(Shared::new(options, secrets, Wakeup::Thread(Arc::new(waker))));
    let mut thread = Thread { shared: Arc::clone(&shared), poll, events: Events::with_capacity(8) };
    std::thread::Builder::new().name("polder-client".into()).spawn(move || thread.run(listeners)).map_err(unable)?;
    Ok(shared)
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
        Stream { kind, is_drained: false, is_closed: false }
    }

    fn register(&mut self, poll: &Poll) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match &mut self.kind {
            Kind::Tcp(stream) => poll.registry().register(stream, SOCKET, interest),
            Kind::Unix(stream) => poll.registry().register(stream, SOCKET, interest),
        }
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

struct Thread {
    shared: Arc<Shared>,
    poll: Poll,
    events: Events,
}

impl Thread {
    fn run(&mut self, listeners: Listeners) {
        let shared = Arc::clone(&self.shared);
        let mut link = Link::new(Arc::clone(&shared.options), listeners, Instant::now());
        // A panic of a user's waker ends the thread: no call may wait for it then.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.keep_connected(&shared, &mut link)));
        abandon(&shared, &mut link);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    }

    fn keep_connected(&mut self, shared: &Shared, link: &mut Link) {
        let mut backoff = Backoff::new(&shared.options);
        while !is_over(shared, link) {
            let error = match self.open(link) {
                Ok(None) => return,
                Ok(Some((stream, host))) => {
                    link.connected(Instant::now());
                    let channel = Channel::new(stream, shared, host.as_deref()).map_err(Broken::from);
                    match channel.and_then(|channel| self.serve(link, channel, &mut backoff)) {
                        Ok(()) => return,
                        Err(error) => error,
                    }
                }
                Err(error) => unreachable(shared, &error),
            };
            lost(shared, link, &error);
            let until = Instant::now() + backoff.pause();
            if self.meanwhile(link, |_| (Instant::now() >= until).then_some(()), Some(until)).is_none() {
                return;
            }
        }
    }

    /// Opens a socket; with several addresses, the first that accepts. Returns the host's name with it, where it has one; `None`
    /// when the client was closed meanwhile.
    fn open(&mut self, link: &mut Link) -> io::Result<Option<(Stream, Option<String>)>> {
        let options = Arc::clone(&self.shared.options);
        let until = Instant::now() + options.connect_timeout;
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("it did not accept within {:?}", options.connect_timeout));
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
                Endpoint::Tcp { host, port } => {
                    (host.as_str(), *port).to_socket_addrs().map(|addresses| addresses.map(|address| (host.clone(), address)).collect())
                }
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
    fn meanwhile<T>(&mut self, link: &mut Link, mut done: impl FnMut(&Thread) -> Option<T>, until: Option<Instant>) -> Option<T> {
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

    /// One open connection until it breaks, or (`Ok`) until the client was closed and its calls have ended.
    fn serve(&mut self, link: &mut Link, mut stream: Channel<Stream>, backoff: &mut Backoff) -> Result<(), Broken> {
        let shared = Arc::clone(&self.shared);
        let login_until = Instant::now() + shared.options.connect_timeout;
        loop {
            let now = Instant::now();
            let progress = pump(&shared, link, &mut stream, now)?;
            tick(&shared, link, now)?;
            if link.is_aborted() || !progress && link.is_closing() && is_over(&shared, link) {
                return Ok(());
            }
            if link.is_ready() {
                backoff.reset();
            }
            if progress {
                continue;
            }
            let mut next = link.next_tick();
            if !link.is_ready() {
                if now >= login_until {
                    let timeout = shared.options.connect_timeout;
                    return Err(Error::not_sent(format!("the server did not finish the log-in within {timeout:?}")).into());
                }
                next = earlier(next, Some(login_until));
            }
            self.wait(next);
            stream.socket.note(&self.events);
        }
    }
}
