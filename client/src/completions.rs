//! Calls in flight of a program that has an event loop of its own: a descriptor is readable when some have ended.
//!
//! ```text
//!   add(make, tag) --> calls in flight, by number          take() --> (tag, outcome) ...
//!                            ^                                  |
//!   driver's thread --wake--> numbers that may have ended <-----+     signal: readable while there are any
//! ```
//!
//! Invariants:
//! 1. **E1** Each call that was added comes out of `add` or of one `take`, once, unless it is taken back.
//! 2. **E2** The signal is readable while a number waits to be taken.
//! 3. **E3** No lock is held while the program's own code runs.
//!
//! [`Completions::connect_to_loop`] lends the connection to the event loop: its thread writes what it has released and reads the replies when
//! it takes, so that a call changes no thread. The descriptor is then an epoll of the signal and the socket.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::client::{Call, Client};
use crate::driver::thread::Driver;
use crate::error::Error;
use crate::held::Held;
use crate::locks::lock;
use crate::options::Options;
use crate::signal::Signal;
use crate::value::Value;

/// A call that is in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallNumber(u64);

/// For bindings, whose programs know a call by its number alone.
impl From<CallNumber> for u64 {
    fn from(number: CallNumber) -> u64 {
        number.0
    }
}

/// A number that no call has is that of a call that has ended.
impl From<u64> for CallNumber {
    fn from(number: u64) -> CallNumber {
        CallNumber(number)
    }
}

/// What has become of a call that was added.
pub enum Added<T> {
    /// It has ended already.
    Ended(T, Result<Value, Error>),
    /// [`Completions::take`] gives its outcome.
    InFlight(CallNumber),
}

/// Numbers of calls that may have ended.
struct Arrivals {
    numbers: Mutex<Vec<u64>>,
    signal: Arc<Signal>,
}

/// What a call's slot wakes.
struct Arrival {
    arrivals: Arc<Arrivals>,
    number: u64,
}

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        let mut numbers = lock(&self.arrivals.numbers);
        let is_first = numbers.is_empty();
        numbers.push(self.number);
        drop(numbers);
        if is_first && !TAKES.get() {
            self.arrivals.signal.raise();
        }
    }
}

thread_local! {
    /// Whether this thread reads replies whose numbers it takes at once.
    static TAKES: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, numbers that this thread adds are about to be taken.
struct Taking;

impl Taking {
    fn begin() -> Taking {
        TAKES.set(true);
        Taking
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        TAKES.set(false);
    }
}

/// What ends with one outcome.
enum Work {
    Call(Call<Value>),
    /// Several calls, each made when the one before has ended.
    Steps(Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>),
}

impl Work {
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Value, Error>> {
        match self {
            Work::Call(call) => call.poll_outcome(waker),
            Work::Steps(steps) => steps.as_mut().poll(&mut Context::from_waker(waker)),
        }
    }
}

struct InFlight<T> {
    work: Work,
    waker: Waker,
    tag: T,
}

/// An event loop that the connection is lent to.
struct EventLoop {
    /// Readable when the signal or the socket is.
    epoll: Arc<OwnedFd>,
    lender: Arc<Driver>,
}

/// Calls in flight, each with a tag of the program's: a future of its event loop, a callback, a row of a table.
pub struct Completions<T> {
    arrivals: Arc<Arrivals>,
    held: Arc<Held>,
    event_loop: Option<EventLoop>,
    /// By number, and the number that comes next.
    calls: Mutex<(HashMap<u64, InFlight<T>>, u64)>,
}

impl<T> Completions<T> {
    /// A client whose connection runs in a thread of its own and whose calls are written when [`Completions::release`] is
    /// called: an event loop makes the calls of one turn, and releases them together.
    ///
    /// # Errors
    /// [`Error::Usage`] for options that cannot be used, or when the process has no descriptor left.
    pub fn connect(options: Options) -> Result<(Client, Completions<T>), Error> {
        let unable = |error: io::Error| {
            Error::usage(format!("the client cannot make the descriptor for an event loop: {error}"))
        };
        let arrivals =
            Arrivals { numbers: Mutex::default(), signal: Arc::new(Signal::new().map_err(unable)?) };
        let held = Arc::new(Held::default());
        let client = Client::connect_held(options, &held)?;
        let completions = Completions {
            arrivals: Arc::new(arrivals),
            held,
            event_loop: None,
            calls: Mutex::new((HashMap::new(), 0)),
        };
        Ok((client, completions))
    }

    /// As [`Completions::connect`], for one event loop alone, which serves the connection itself between [`Completions::lend`] and
    /// [`Completions::recall`]: meanwhile replies are read only when it takes, or when a deadline passes.
    ///
    /// # Errors
    /// As [`Completions::connect`].
    pub fn connect_to_loop(options: Options) -> Result<(Client, Completions<T>), Error> {
        let unable = |error: rustix::io::Errno| {
            Error::usage(format!("the client cannot make the descriptor for an event loop: {error}"))
        };
        let (client, mut completions) = Completions::connect(options)?;
        if let Some(lender) = client.connection.shared.lender() {
            let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(unable)?;
            let signal = completions.arrivals.signal.as_fd();
            epoll::add(&epoll, signal, EventData::new_u64(0), EventFlags::IN).map_err(unable)?;
            completions.event_loop = Some(EventLoop { epoll: Arc::new(epoll), lender });
        }
        Ok((client, completions))
    }

    /// The event loop that polls the descriptor runs.
    pub fn lend(&self) {
        self.event_loop.iter().for_each(|event_loop| event_loop.lender.lend(&event_loop.epoll));
    }

    /// The event loop does not poll any more, or its thread waits for a call: the connection's own thread reads the replies.
    pub fn recall(&self) {
        self.event_loop.iter().for_each(|event_loop| event_loop.lender.recall());
    }

    /// Wakes the connections that calls were made for since the last time.
    pub fn release(&self) {
        self.held.release();
    }

    /// Makes a call and looks after it until it has ended. It is written at the next [`Completions::release`].
    pub fn add(&self, make: impl FnOnce() -> Call<Value>, tag: T) -> Added<T> {
        self.look_after(Work::Call(Held::during(make)), tag)
    }

    /// As [`Completions::add`], for a future that makes several calls one after the other (a transaction with conditions). Its first
    /// calls are written at the next [`Completions::release`].
    pub fn add_steps(
        &self,
        steps: impl Future<Output = Result<Value, Error>> + Send + 'static,
        tag: T,
    ) -> Added<T> {
        Held::during(|| self.look_after(Work::Steps(Box::pin(steps)), tag))
    }

    fn look_after(&self, mut work: Work, tag: T) -> Added<T> {
        let mut calls = lock(&self.calls);
        let (number, waker) = self.next(&mut calls.1);
        match work.poll(&waker) {
            Poll::Ready(outcome) => Added::Ended(tag, outcome),
            Poll::Pending => {
                calls.0.insert(number, InFlight { work, waker, tag });
                Added::InFlight(CallNumber(number))
            }
        }
    }

    /// As [`Completions::add`]; a call that has ended already comes out of [`Completions::take`] as well.
    pub fn submit(&self, make: impl FnOnce() -> Call<Value>, tag: T) -> CallNumber {
        let mut call = Held::during(make);
        let mut calls = lock(&self.calls);
        let (number, waker) = self.next(&mut calls.1);
        let has_ended = call.poll_outcome(&waker).map(|outcome| call.end(outcome)).is_ready();
        calls.0.insert(number, InFlight { work: Work::Call(call), waker: waker.clone(), tag });
        drop(calls);
        if has_ended {
            waker.wake();
        }
        CallNumber(number)
    }

    /// The number of a new call, and what tells that the call may have ended.
    fn next(&self, next: &mut u64) -> (u64, Waker) {
        let number = *next;
        *next += 1;
        (number, Waker::from(Arc::new(Arrival { arrivals: Arc::clone(&self.arrivals), number })))
    }

    /// Takes a call back, as if its future were dropped; `None` if it has ended before.
    pub fn cancel(&self, number: CallNumber) -> Option<T> {
        let taken = lock(&self.calls).0.remove(&number.0);
        taken.map(|in_flight| in_flight.tag)
    }

    /// Takes all calls back, as if their futures were dropped; their tags, in the order in which they were added.
    pub fn cancel_all(&self) -> Vec<T> {
        let taken = std::mem::take(&mut lock(&self.calls).0);
        let mut taken: Vec<_> = taken.into_iter().collect();
        taken.sort_unstable_by_key(|(number, _)| *number);
        taken.into_iter().map(|(_, in_flight)| in_flight.tag).collect()
    }

    /// Gives out the calls that have ended, and makes the descriptor unreadable. What is not taken until the iterator is dropped
    /// comes out of the next one.
    pub fn take(&self) -> Taken<'_, T> {
        self.arrivals.signal.clear();
        if let Some(event_loop) = &self.event_loop {
            let _taking = Taking::begin();
            event_loop.lender.serve_here(true);
        }
        Taken { completions: self, numbers: std::mem::take(&mut *lock(&self.arrivals.numbers)).into_iter() }
    }

    fn ended(&self, number: u64) -> Option<(T, Result<Value, Error>)> {
        let mut calls = lock(&self.calls);
        let in_flight = calls.0.get_mut(&number)?;
        // A call that waited for room, or goes to another node of a cluster, is woken before its end.
        let Poll::Ready(outcome) = in_flight.work.poll(&in_flight.waker) else { return None };
        let ended = calls.0.remove(&number);
        drop(calls);
        ended.map(|ended| (ended.tag, outcome))
    }

    /// What makes the descriptor readable, for things beside calls that the program looks at with [`Completions::take`]: a
    /// subscription, for instance.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.arrivals.signal))
    }

    /// How many calls are in flight.
    pub fn len(&self) -> usize {
        lock(&self.calls).0.len()
    }

    /// Whether no call is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Calls that have ended, each with its tag.
pub struct Taken<'c, T> {
    completions: &'c Completions<T>,
    numbers: std::vec::IntoIter<u64>,
}

impl<T> Iterator for Taken<'_, T> {
    type Item = (T, Result<Value, Error>);

    fn next(&mut self) -> Option<Self::Item> {
        let Taken { completions, numbers } = self;
        numbers.find_map(|number| completions.ended(number))
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        if !self.numbers.as_slice().is_empty() {
            lock(&self.completions.arrivals.numbers).extend_from_slice(self.numbers.as_slice());
            self.completions.arrivals.signal.raise();
        }
    }
}

/// The descriptor that is readable when [`Completions::take`] has something to give.
impl<T> AsFd for Completions<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event_loop.as_ref().map_or(self.arrivals.signal.as_fd(), |event_loop| event_loop.epoll.as_fd())
    }
}
