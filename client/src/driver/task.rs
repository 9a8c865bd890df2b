//! The driver that runs as a task of a tokio runtime.
//!
//! A call costs it two system calls beside the wait for the socket: one write, one read. So the driver is told of calls by its
//! task's own waker, it reads by `poll_read`, which knows when the socket is empty, and it lets other tasks run without a look at
//! the sockets.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::time::Sleep;

use super::{
    Backoff, Broken, Channel, Secrets, Shared, Socket, abandon, is_over, lost, pump, tick, unreachable,
};
use crate::error::Error;
use crate::link::{Link, Listeners};
use crate::options::{Endpoint, Options};
use crate::queue::earlier;

/// Starts a connection's task in the runtime that the caller runs in.
///
/// # Errors
/// [`Error::Usage`] outside of a runtime.
pub(crate) fn start(
    options: Arc<Options>,
    secrets: Secrets,
    listeners: Listeners,
) -> Result<Arc<Shared>, Error> {
    let runtime = Handle::try_current().map_err(|_| {
        Error::usage(
            "Client::connect wants a tokio runtime; call it inside of one, or use Client::connect_in_thread",
        )
    })?;
    Ok(start_in(runtime, options, secrets, listeners))
}

/// Starts a connection's task in a runtime.
pub(crate) fn start_in(
    runtime: Handle,
    options: Arc<Options>,
    secrets: Secrets,
    listeners: Listeners,
) -> Arc<Shared> {
    let shared =
        Arc::new(Shared::new(options, secrets, super::Wakeup::Task(Wakeup::default(), runtime.clone())));
    runtime.spawn(run(Arc::clone(&shared), listeners));
    shared
}

/// Wakes the driver's task.
///
/// A call that is made before the task's waker is known is seen, too: the task tells its waker before it first takes the
/// queue's lock, and what a call has queued under that lock before is there.
#[derive(Default)]
pub(crate) struct Wakeup(OnceLock<Waker>);

impl Wakeup {
    pub(crate) fn wake(&self) {
        self.0.get().into_iter().for_each(Waker::wake_by_ref);
    }
}

enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

struct Stream {
    kind: Kind,
    /// Of the driver's task.
    waker: Waker,
}

impl Socket for Stream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.kind {
            Kind::Tcp(stream) => stream.try_write_vectored(pieces),
            Kind::Unix(stream) => stream.try_write_vectored(pieces),
        }
    }
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut room = ReadBuf::new(room);
        let context = &mut Context::from_waker(&self.waker);
        let done = match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(context, &mut room),
            Kind::Unix(stream) => Pin::new(stream).poll_read(context, &mut room),
        };
        match done {
            Poll::Ready(done) => done.map(|()| room.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Stream {
    /// Opens a socket. Returns the host's name with it, where it has one.
    async fn open(shared: &Shared) -> io::Result<(Kind, Option<String>)> {
        let options = &shared.options;
        let (stream, host) = match &options.endpoint {
            Endpoint::Tcp { host, port } => (TcpStream::connect((host.as_str(), *port)).await?, host.clone()),
            Endpoint::Sentinel { .. } => {
                let (options, secrets) = (Arc::clone(options), shared.secrets.clone());
                let found =
                    tokio::task::spawn_blocking(move || super::sentinel::find(&options, &secrets)).await;
                let (host, address) = found.map_err(io::Error::other)??;
                (TcpStream::connect(address).await?, host)
            }
            Endpoint::Cluster { .. } => Stream::open_any(shared).await?,
            Endpoint::Memory { .. } => return Err(io::ErrorKind::Unsupported.into()),
            Endpoint::Unix(path) => return Ok((Kind::Unix(UnixStream::connect(path).await?), None)),
        };
        stream.set_nodelay(true)?;
        super::keep_alive(socket2::SockRef::from(&stream), options)?;
        Ok((Kind::Tcp(stream), Some(host)))
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

    /// Whether there is something to read, or room to write; if not, the task is woken when there is.
    fn poll_ready(&self, context: &mut Context<'_>, writes: bool) -> Poll<io::Result<()>> {
        let (reads, writes) = match &self.kind {
            Kind::Tcp(stream) => {
                (stream.poll_read_ready(context), writes.then(|| stream.poll_write_ready(context)))
            }
            Kind::Unix(stream) => {
                (stream.poll_read_ready(context), writes.then(|| stream.poll_write_ready(context)))
            }
        };
        match (reads, writes) {
            (Poll::Pending, Some(writes)) => writes,
            (reads, _) => reads,
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
    let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    if let super::Wakeup::Task(wakeup, _) = &shared.wakeup {
        let _is_first = wakeup.0.set(waker.clone());
    }
    while !is_over(&shared, link) {
        let opened = {
            let opening = tokio::time::timeout(shared.options.connect_timeout, Stream::open(&shared));
            meanwhile(&shared, link, opening).await
        };
        let error = match opened {
            None => return,
            Some(Ok(Ok((kind, host)))) => {
                link.connected(Instant::now());
                let stream = Stream { kind, waker: waker.clone() };
                let served = match Channel::new(stream, &shared, host.as_deref()) {
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
                Error::not_sent(format!("{} did not accept within {timeout:?}", shared.options.endpoint))
                    .into()
            }
        };
        lost(&shared, link, &error);
        if meanwhile(&shared, link, tokio::time::sleep(backoff.pause())).await.is_none() {
            return;
        }
    }
}

/// Waits once: until the task is woken, or something is ready already.
async fn rest(mut is_ready: impl FnMut(&mut Context<'_>) -> bool) {
    let mut has_rested = false;
    poll_fn(|context| {
        let goes_on = std::mem::replace(&mut has_rested, true) || is_ready(context);
        if goes_on { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Lets the tasks run that have been woken. Tokio's own `yield_now` looks at the sockets first, by a system call.
async fn give_way() {
    rest(|context| {
        context.waker().wake_by_ref();
        false
    })
    .await;
}

/// Sets the timer, unless it ends before and is set again then.
fn set(timer: Pin<&mut Sleep>, next: Option<Instant>) {
    if let Some(next) = next
        && (timer.is_elapsed() || timer.deadline() > next.into())
    {
        timer.reset(next.into());
    }
}

/// Waits for `future` while the deadlines of calls go on passing; `None` when the client was closed meanwhile.
async fn meanwhile<F: Future>(shared: &Shared, link: &mut Link, future: F) -> Option<F::Output> {
    let (mut future, mut timer) = (pin!(future), pin!(tokio::time::sleep_until(Instant::now().into())));
    loop {
        if shared.gives_up() {
            return None;
        }
        link.note_deadlines(&mut shared.queue());
        let next = earlier(link.next_tick(), shared.lingers_until());
        set(timer.as_mut(), next);
        let mut output = None;
        rest(|context| {
            if let Poll::Ready(done) = future.as_mut().poll(context) {
                output = Some(done);
            }
            output.is_some() || next.is_some() && timer.as_mut().poll(context).is_ready()
        })
        .await;
        if output.is_some() {
            return output;
        }
        // Without a connection there is none to be found dead.
        let _unconnected = tick(shared, link, Instant::now());
    }
}

/// One open connection until it breaks, or (`Ok`) until the client was closed and its calls have ended.
async fn serve(
    shared: &Shared,
    link: &mut Link,
    mut stream: Channel<Stream>,
    backoff: &mut Backoff,
) -> Result<(), Broken> {
    let login_until = Instant::now() + shared.options.connect_timeout;
    let mut timer = pin!(tokio::time::sleep_until(login_until.into()));
    loop {
        let now = Instant::now();
        let progress = pump(shared, link, &mut stream, now)?;
        tick(shared, link, now)?;
        if link.is_aborted() || !progress && link.is_closing() && is_over(shared, link) {
            return Ok(());
        }
        if link.is_ready() {
            backoff.reset();
        }
        if progress {
            // The tasks whose calls were completed run first: what they ask next goes out in one write.
            give_way().await;
            continue;
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
        set(timer.as_mut(), next);
        let writes = link.has_output() || stream.wants_write();
        let mut failed = Ok(());
        rest(|context| {
            let ready = match stream.socket.poll_ready(context, writes) {
                Poll::Ready(done) => {
                    failed = done;
                    true
                }
                Poll::Pending => false,
            };
            ready || next.is_some() && timer.as_mut().poll(context).is_ready()
        })
        .await;
        failed.map_err(|error| super::broken(&error))?;
    }
}
