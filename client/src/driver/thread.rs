//! The driver that is a thread of its own: for programs without a runtime.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;

use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::{Backoff, Shared, Socket, Wakeup, abandon, is_over, lost, pump, tick};
use crate::error::Error;
use crate::link::{Link, Listeners};
use crate::options::{Endpoint, Options};

const WAKEUP: Token = Token(0);
const SOCKET: Token = Token(1);

/// Starts a connection's thread.
///
/// # Errors
/// [`Error::Usage`] when the operating system has no thread or descriptor left.
pub(crate) fn start(options: Arc<Options>, listeners: Listeners) -> Result<Arc<Shared>, Error> {
    let unable = |error: io::Error| Error::usage(format!("the client's thread cannot be started: {error}"));
    let poll = Poll::new().map_err(unable)?;
    let waker = Waker::new(poll.registry(), WAKEUP).map_err(unable)?;
    let shared = Arc::new(Shared::new(options, Wakeup::Thread(waker)));
    let mut thread = Thread { shared: Arc::clone(&shared), poll, events: Events::with_capacity(8) };
    std::thread::Builder::new().name("polder-client".into()).spawn(move || thread.run(listeners)).map_err(unable)?;
    Ok(shared)
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket for Stream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(pieces),
            Stream::Unix(stream) => stream.write_vectored(pieces),
        }
    }
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(room),
            Stream::Unix(stream) => stream.read(room),
        }
    }
}

impl Stream {
    /// Opens a socket; with several addresses, the first that accepts.
    fn open(options: &Options) -> io::Result<Stream> {
        match &options.endpoint {
            Endpoint::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, format!("'{host}' has no address"));
                let addresses: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs()?.collect();
                for address in addresses {
                    match std::net::TcpStream::connect_timeout(&address, options.connect_timeout) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            socket2::SockRef::from(&stream).set_keepalive(true)?;
                            stream.set_nonblocking(true)?;
                            return Ok(Stream::Tcp(TcpStream::from_std(stream)));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        }
    }

    fn register(&mut self, poll: &Poll) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => poll.registry().register(stream, SOCKET, interest),
            Stream::Unix(stream) => poll.registry().register(stream, SOCKET, interest),
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
            let error = match Stream::open(&shared.options) {
                Ok(stream) => {
                    link.connected(Instant::now());
                    match self.serve(link, stream, &mut backoff) {
                        Ok(()) => return,
                        Err(error) => error,
                    }
                }
                Err(error) => Error::not_sent(format!("{} cannot be reached: {error}", shared.options.endpoint)),
            };
            lost(shared, link, &error);
            if !self.pause(link, Instant::now() + backoff.pause()) {
                return;
            }
        }
    }

    /// Waits until then while the deadlines of calls go on passing; returns whether the client is still open.
    fn pause(&mut self, link: &mut Link, until: Instant) -> bool {
        loop {
            // Without a connection there is none to be found dead.
            let _unconnected = tick(&self.shared, link);
            let mut queue = self.shared.queue();
            if let Some(error) = queue.closed.clone() {
                let targets = queue.drain();
                drop(queue);
                targets.into_iter().for_each(|target| target.complete(Err(error.clone())));
                return false;
            }
            link.note_deadlines(&mut queue);
            drop(queue);
            let now = Instant::now();
            if now >= until {
                return true;
            }
            self.wait(link.next_tick().min(until));
        }
    }

    fn wait(&mut self, until: Instant) {
        let patience = until.saturating_duration_since(Instant::now());
        if let Err(error) = self.poll.poll(&mut self.events, Some(patience))
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!("the client's thread cannot wait for its socket: {error}");
        }
    }

    /// One open connection until it breaks, or (`Ok`) until the client was closed and its calls have ended.
    fn serve(&mut self, link: &mut Link, mut stream: Stream, backoff: &mut Backoff) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        stream.register(&self.poll).map_err(|error| super::broken(&error))?;
        let login_until = Instant::now() + shared.options.connect_timeout;
        loop {
            if pump(&shared, link, &mut stream)? {
                tick(&shared, link)?;
                if shared.queue().is_aborted {
                    return Ok(());
                }
                if link.is_ready() && !shared.queue().is_up {
                    shared.queue().is_up = true;
                    backoff.reset();
                }
                continue;
            }
            tick(&shared, link)?;
            if is_over(&shared, link) {
                return Ok(());
            }
            let mut next = link.next_tick();
            if !link.is_ready() {
                if Instant::now() >= login_until {
                    return Err(Error::not_sent(format!(
                        "the server did not finish the log-in within {:?}",
                        shared.options.connect_timeout
                    )));
                }
                next = next.min(login_until);
            }
            self.wait(next);
        }
    }
}
