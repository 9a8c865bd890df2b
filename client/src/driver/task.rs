//! The driver that runs as a task of a tokio runtime.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::{Backoff, Broken, Channel, Secrets, Shared, Socket, Wakeup, abandon, is_over, lost, pump, tick, unreachable};
use crate::error::Error;
use crate::link::{Link, Listeners};
use crate::options::{Endpoint, Options};
use crate::queue::earlier;

/// Starts a connection's task in the runtime that the caller runs in.
///
/// # Errors
/// [`Error::Usage`] outside of a runtime.
pub(crate) fn start(options: Arc<Options>, secrets: Secrets, listeners: Listeners) -> Result<Arc<Shared>, Error> {
    let runtime = Handle::try_current()
        .map_err(|_| Error::usage("Client::connect wants a tokio runtime; call it inside of one, or use Client::connect_in_thread"))?;
    Ok(start_in(runtime, options, secrets, listeners))
}

/// Starts a connection's task in a runtime.
pub(crate) fn start_in(runtime: Handle, options: Arc<Options>, secrets: Secrets, listeners: Listeners) -> Arc<Shared> {
    let shared = Arc::new(Shared::new(options, secrets, Wakeup::Task(Notify::new(), runtime.clone())));
    runtime.spawn(run(Arc::clone(&shared), listeners));
    shared
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket for &Stream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_write_vectored(pieces),
            Stream::Unix(stream) => stream.try_write_vectored(pieces),
        }
    }
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_read(room),
            Stream::Unix(stream) => stream.try_read(room),
        }
    }
}

impl Stream {
    /// Opens a socket. Returns the host's name with it, where it has one.
    async fn open(shared: &Shared) -> io::Result<(Stream, Option<String>)> {
        let options = &shared.options;
        let (stream, host) = match &options.endpoint {
            Endpoint::Tcp { host, port } => (TcpStream::connect((host.as_str(), *port)).await?, host.clone()),
            Endpoint::Sentinel { .. } => {
                let (options, secrets) = (Arc::clone(options), shared.secrets.clone());
                let found = tokio::task::spawn_blocking(move || super::sentinel::find(&options, &secrets)).await;
                let (host, address) = found.map_err(io::Error::other)??;
                (TcpStream::connect(address).await?, host)
            }
            Endpoint::Cluster { .. } => Stream::open_any(shared).await?,
            Endpoint::Memory { .. } => return Err(io::ErrorKind::Unsupported.into()),
            Endpoint::Unix(path) => return Ok((Stream::Unix(UnixStream::connect(path).await?), None)),
        };
        stream.set_nodelay(true)?;
        super::keep_alive(socket2::SockRef::from(&stream), options)?;
        Ok((Stream::Tcp(stream), Some(host)))
    }

    /// Connects to the first server of a cluster that accepts.
    async fn open_any(shared: &Shared) -> io::Result<(TcpStream, String)> {
        let places = shared.places();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the cluster has no nodes");
        let until = Instant::now() + shared.options.connect_timeout;
        for (at, (host, port)) in places.iter().enumerate() {
            let share = until.saturating_duration_since(Instant::now()) / (places.len() - at) as u32;
            match tokio::time::timeout(share, TcpStream::connect((host.as_str(), *port))).await {
                Ok(Ok(stream)) => return Ok((stream, host.clone())),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }

    /// Until there is something to read, or room to write if `writes`.
    async fn ready(&self, writes: bool) -> io::Result<()> {
        let interest = if writes { tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE } else { tokio::io::Interest::READABLE };
        match self {
            Stream::Tcp(stream) => stream.ready(interest).await.map(drop),
            Stream::Unix(stream) => stream.ready(interest).await.map(drop),
        }
    }
}

/// A link that ends its calls with its driver, however that ends.
struct Driven {
    shared: Arc<Shared>,
    link: Link,
}

impl Drop for Driven {
    fn drop(&mut self) {
        abandon(&self.shared, &mut self.link);
    }
}

/// A connection for as long as its client lives.
async fn run(shared: Arc<Shared>, listeners: Listeners) {
    let link = Link::new(Arc::clone(&shared.options), listeners, Instant::now());
    let mut driven = Driven { shared: Arc::clone(&shared), link };
    let link = &mut driven.link;
    let mut backoff = Backoff::new(&shared.options);
    while !is_over(&shared, link) {
        let opened = {
            let opening = tokio::time::timeout(shared.options.connect_timeout, Stream::open(&shared));
            meanwhile(&shared, link, opening).await
        };
        let error = match opened {
            None => return,
            Some(Ok(Ok((stream, host)))) => {
                link.connected(Instant::now());
                let served = match Channel::new(&stream, &shared, host.as_deref()) {
                    Ok(channel) => serve(&shared, link, channel, &mut backoff).await,
                    Err(error) => Err(error.into()),
                };
                match served {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Some(Ok(Err(error))) => unreachable(&shared, &error),
            Some(Err(_)) => {
                let timeout = shared.options.connect_timeout;
                Error::not_sent(format!("{} did not accept within {timeout:?}", shared.options.endpoint)).into()
            }
        };
        lost(&shared, link, &error);
        if meanwhile(&shared, link, tokio::time::sleep(backoff.pause())).await.is_none() {
            return;
        }
    }
}

/// Until then; for ever without a time.
async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for `future` while the deadlines of calls go on passing; `None` when the client was closed meanwhile.
async fn meanwhile<F: Future>(shared: &Shared, link: &mut Link, future: F) -> Option<F::Output> {
    let Wakeup::Task(notify, _) = &shared.wakeup else { return None };
    let mut future = pin!(future);
    loop {
        if shared.gives_up() {
            return None;
        }
        link.note_deadlines(&mut shared.queue());
        let next = earlier(link.next_tick(), shared.lingers_until());
        tokio::select! {
            output = &mut future => return Some(output),
            () = notify.notified() => {}
            () = at(next) => {}
        }
        // Without a connection there is none to be found dead.
        let _unconnected = tick(shared, link);
    }
}

/// One open connection until it breaks, or (`Ok`) until the client was closed and its calls have ended.
async fn serve(shared: &Shared, link: &mut Link, mut stream: Channel<&Stream>, backoff: &mut Backoff) -> Result<(), Broken> {
    let Wakeup::Task(notify, _) = &shared.wakeup else { return Ok(()) };
    let login_until = Instant::now() + shared.options.connect_timeout;
    let mut timer = pin!(tokio::time::sleep_until(login_until.into()));
    loop {
        if pump(shared, link, &mut stream)? {
            tick(shared, link)?;
            if shared.queue().is_aborted {
                return Ok(());
            }
            // The tasks whose calls were completed run first: what they ask next goes out in one write.
            tokio::task::yield_now().await;
            if link.is_ready() && !shared.queue().is_up {
                shared.queue().logged_in();
                backoff.reset();
            }
            continue;
        }
        tick(shared, link)?;
        if is_over(shared, link) {
            return Ok(());
        }
        let mut next = link.next_tick();
        if !link.is_ready() {
            if Instant::now() >= login_until {
                let timeout = shared.options.connect_timeout;
                return Err(Error::not_sent(format!("the server did not finish the log-in within {timeout:?}")).into());
            }
            next = earlier(next, Some(login_until));
        }
        if let Some(next) = next
            && timer.deadline() != next.into()
        {
            timer.as_mut().reset(next.into());
        }
        tokio::select! {
            ready = stream.socket.ready(link.has_output() || stream.wants_write()) => ready.map_err(|error| super::broken(&error))?,
            () = notify.notified() => {}
            () = timer.as_mut(), if next.is_some() => {}
        }
    }
}
