//! One connection without its socket: bytes out, bytes in, ticks of a clock; what comes of them are completed calls.
//!
//! ```text
//!   queue --gather--> batches in flight --output/wrote-----> socket
//!                            ^                                   |
//!   slots <--complete-- front call of the front batch <--filled-- socket
//! ```
//!
//! A batch stays, bytes and all, until its last reply has come: that is how a call that only reads can be sent again
//! when the connection breaks, without a copy for the calls for which nothing goes wrong.
//!
//! Invariants:
//! 1. **L1** Replies come in the order of requests: a reply belongs to the first call in flight that still lacks one.
//! 2. **L2** `db` is the database in which the server will run what is written next, `None` if that is uncertain.
//! 3. **L3** A batch of a database is written only after the server has once accepted the SELECT of that database on this
//!    connection. So a SELECT that is refused (out of range, forbidden by the ACL) never lets a call run elsewhere.
//! 4. **L4** Nothing but the handshake is written before the handshake has ended.

use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use polder_wire::resp::{Replies, Value};

use crate::args;
use crate::cache::{Cache, Tracking};
use crate::due::Due;
use crate::error::{Error, Stage, TimedOut};
use crate::options::{Endpoint, Options};
use crate::queue::{Batch, Guide, Queue, Queued, Stray, earlier};
use crate::rows;
use crate::stats::Traffic;
use crate::subscribe::Subscriptions;
use crate::target::Target;
use crate::traits::{Shape, Traits};
use crate::value::refused;

/// What a connection's input buffer begins with, and what it grows to where replies fill it.
const INPUT_BYTES_MIN: usize = 8 << 10;
const INPUT_BYTES: usize = 64 << 10;
/// Buffers of earlier batches that are kept for the next ones, and the largest of them.
const SPARE_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 1 << 20;
/// If this many deadlines pass while nothing is read, and nothing is read for [`SILENCE_UNTIL_DEAD`], the connection counts as dead.
const DEADLINES_UNTIL_DEAD: u32 = 4;
const SILENCE_UNTIL_DEAD: Duration = Duration::from_secs(1);
/// If nothing was read for this many intervals of PING, and one is in flight, the connection counts as dead. It is more than one, since
/// a server that runs a long script is silent, too.
const PINGS_UNTIL_DEAD: u32 = 4;

/// What is in flight: requests of callers, or one of the link's own.
enum Purpose {
    Calls,
    /// HELLO, which falls back to AUTH and SETNAME on servers that do not know it.
    Hello,
    Login,
    /// The first SELECT of a database on this connection.
    Prove(u32),
    Ping,
    /// READONLY, for a replica of a cluster.
    ReadOnly,
    /// CLIENT TRACKING, for the cache.
    Tracking,
}

struct Flight {
    purpose: Purpose,
    batch: Batch,
    /// Up to here the bytes are written; begins behind the prefix where that is not needed.
    written: usize,
    written_at: Option<Instant>,
    /// Where the bytes of the front call begin.
    start: usize,
    /// Replies to SELECTs that come next: to the prefix, and to the one that the front call begins with.
    selects_due: u8,
    /// Replies of the front call so far, if it gets several.
    got: Vec<Value>,
}

impl Flight {
    fn is_written(&self) -> bool {
        self.written == self.batch.bytes.len()
    }
}

const STRAY_REPLY: &str =
    "the server sent a reply that no call waits for; is something else using this connection?";

/// What a driver does for a link and its callers (see the module).
pub(crate) struct Link {
    options: Arc<Options>,
    flights: VecDeque<Flight>,
    /// The first flight that is not wholly written.
    writing: usize,
    replies: Replies,
    input: Vec<u8>,
    /// What of `input` has been read from the socket and not been parsed.
    held: std::ops::Range<usize>,
    /// How large `input` is where replies are small.
    input_bytes: usize,
    /// Whether the handshake has ended.
    ready: bool,
    db: Option<u32>,
    proven: BTreeSet<u32>,
    proving: BTreeSet<u32>,
    /// Databases whose SELECT was refused, until the queue's calls to them have been told.
    refused: Vec<(u32, Error)>,
    earliest: Option<Instant>,
    /// Whether the client was closed, and whether what is in flight is given up, as the queue said when it was last looked at.
    is_closing: bool,
    is_aborted: bool,
    last_read: Option<Instant>,
    opened: Instant,
    last_ping: Instant,
    /// Times at which a deadline of a written call passed since anything was read.
    deadlines_missed: u32,
    spare: Vec<(Vec<u8>, VecDeque<Queued>)>,
    /// Where messages go, on a connection that subscribes.
    subscriptions: Option<Arc<Subscriptions>>,
    cache: Option<Arc<Cache>>,
    guide: Option<Arc<dyn Guide>>,
    /// Whether it leads to a replica of a cluster.
    reads_only: bool,
    traffic: Traffic,
}

/// What hears of a connection's pushes, and of calls that belong to another server.
#[derive(Clone, Default)]
pub(crate) struct Listeners {
    pub subscriptions: Option<Arc<Subscriptions>>,
    pub cache: Option<Arc<Cache>>,
    pub guide: Option<Arc<dyn Guide>>,
    /// Whether the connection leads to a replica of a cluster, which is to be read from.
    pub reads_only: bool,
}

impl Link {
    pub(crate) fn new(options: Arc<Options>, listeners: Listeners, now: Instant) -> Link {
        let Listeners { subscriptions, cache, guide, reads_only } = listeners;
        Link {
            options,
            flights: VecDeque::new(),
            writing: 0,
            replies: Replies::default(),
            input: Vec::new(),
            held: 0..0,
            input_bytes: INPUT_BYTES_MIN,
            ready: false,
            db: None,
            proven: BTreeSet::new(),
            proving: BTreeSet::new(),
            refused: Vec::new(),
            earliest: None,
            is_closing: false,
            is_aborted: false,
            last_read: None,
            opened: now,
            last_ping: now,
            deadlines_missed: 0,
            spare: Vec::new(),
            subscriptions,
            cache,
            guide,
            reads_only,
            traffic: Traffic::default(),
        }
    }

    /// The socket is open: the handshake begins.
    pub(crate) fn connected(&mut self, now: Instant) {
        (self.replies, self.held, self.ready) = (Replies::default(), 0..0, false);
        (self.db, self.last_read, self.last_ping, self.deadlines_missed) = (Some(0), None, now, 0);
        self.opened = now;
        self.proven = BTreeSet::from([0]);
        self.proving.clear();
        let user = self.options.user.as_deref().unwrap_or("default");
        let login = self.options.password.as_deref().map(|password| ("AUTH", user, password));
        let name = self.options.name.as_deref().map(|name| ("SETNAME", name));
        let mut bytes = Vec::new();
        args::encode(&("HELLO", "3", login, name), &mut bytes);
        self.own(Purpose::Hello, bytes, 1);
    }

    /// Puts requests of the link's own into flight, behind the calls that are there.
    fn own(&mut self, purpose: Purpose, bytes: Vec<u8>, replies: u32) {
        let shape = if replies == 1 { Shape::Single } else { Shape::Group };
        let traits = Traits { replies, shape, ..Traits::SINGLE };
        let call = Queued { end: bytes.len(), target: Target::Nowhere, due: None, traits, selects: false };
        let batch = Batch { db: 0, bytes, prefix: 0, calls: VecDeque::from([call]), moved: false };
        self.fly(purpose, batch, 0, false);
    }

    fn fly(&mut self, purpose: Purpose, batch: Batch, written: usize, prefix_selects: bool) {
        let start = batch.prefix;
        let first_selects = batch.calls.front().is_some_and(|call| call.selects);
        let selects_due = u8::from(prefix_selects) + u8::from(first_selects);
        self.flights.push_back(Flight {
            purpose,
            batch,
            written,
            written_at: None,
            start,
            selects_due,
            got: Vec::new(),
        });
    }

    /// Takes over what the queue holds and the connection is ready for. Returns tasks that waited for room in the queue,
    /// and calls whose database was refused.
    pub(crate) fn gather(&mut self, queue: &mut Queue, now: Instant) -> (Vec<Waker>, Vec<(Target, Error)>) {
        self.note_deadlines(queue);
        queue.traffic = self.traffic;
        (self.is_closing, self.is_aborted) = (queue.closed.is_some(), queue.is_aborted);
        if self.ready && !queue.is_up {
            queue.logged_in();
        }
        let mut failed = Vec::new();
        for (refused, error) in std::mem::take(&mut self.refused) {
            queue.end(|db, call, _| {
                if db == refused {
                    failed.push((std::mem::replace(&mut call.target, Target::Withdrawn), error.clone()));
                }
            });
        }
        if self.ready && !queue.is_empty() {
            self.take_lanes(queue);
        }
        if self.ready {
            self.ask_for_subscriptions();
        }
        (queue.may_go_on(now), failed)
    }

    /// SUBSCRIBE and UNSUBSCRIBE get no replies but events.
    fn ask_for_subscriptions(&mut self) {
        let bytes =
            self.subscriptions.as_ref().map(|subscriptions| subscriptions.requests()).unwrap_or_default();
        if !bytes.is_empty() {
            let batch = Batch { db: 0, bytes, prefix: 0, calls: VecDeque::new(), moved: false };
            self.fly(Purpose::Calls, batch, 0, false);
        }
    }

    /// Takes note of the deadlines of calls that were queued since the last look.
    pub(crate) fn note_deadlines(&mut self, queue: &mut Queue) {
        queue.told = false;
        if let Some(earliest) = queue.earliest.take() {
            self.earliest = Some(self.earliest.map_or(earliest, |before| before.min(earliest)));
        }
    }

    fn take_lanes(&mut self, queue: &mut Queue) {
        queue.visit(|lane| {
            if !self.proven.contains(&lane.db) {
                self.prove(lane.db);
                return false;
            }
            let batch = Batch::of(lane, self.spare.pop());
            if batch.calls.is_empty() {
                self.recycle(batch);
                return true;
            }
            let selects = self.db != Some(batch.db);
            self.db = (!batch.moved).then_some(batch.db);
            let written = if selects { 0 } else { batch.prefix };
            self.fly(Purpose::Calls, batch, written, selects);
            true
        });
    }

    fn prove(&mut self, db: u32) {
        if self.proving.insert(db) {
            let mut bytes = Vec::new();
            args::encode(&("SELECT", db), &mut bytes);
            self.own(Purpose::Prove(db), bytes, 1);
            self.db = None;
        }
    }

    /// The next bytes to write, in pieces; returns how many pieces there are.
    pub(crate) fn output<'a>(&'a self, pieces: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (piece, flight) in
            pieces.iter_mut().zip(self.flights.range(self.writing.min(self.flights.len())..))
        {
            *piece = IoSlice::new(&flight.batch.bytes[flight.written..]);
            count += 1;
        }
        count
    }

    /// The socket took `count` bytes of [`Link::output`].
    pub(crate) fn wrote(&mut self, mut count: usize, now: Instant) {
        self.traffic.bytes_sent += count as u64;
        while let Some(flight) = self.flights.get_mut(self.writing) {
            let taken = count.min(flight.batch.bytes.len() - flight.written);
            flight.written += taken;
            count -= taken;
            if !flight.is_written() {
                break;
            }
            flight.written_at = Some(now);
            self.writing += 1;
        }
        self.land();
    }

    /// Where the socket's bytes go.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.held.is_empty() {
            self.held = 0..0;
            if self.input.len() > 16 * INPUT_BYTES {
                self.input = Vec::new();
            }
        }
        if self.input.len() < self.input_bytes || self.input.len() - self.held.end < self.input_bytes / 2 {
            self.input.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
            let wanted = (2 * self.held.len()).max(self.input_bytes);
            self.input.resize(wanted.max(self.input.len()), 0);
        }
        &mut self.input[self.held.end..]
    }

    /// The socket gave `count` bytes into [`Link::room`]: completes the calls whose replies are whole.
    ///
    /// # Errors
    /// When the connection is of no use any more; the text says why.
    pub(crate) fn filled(&mut self, count: usize, now: Instant) -> Result<(), Error> {
        self.held.end += count;
        if self.held.end == self.input.len() {
            self.input_bytes = (2 * self.input_bytes).min(INPUT_BYTES);
        }
        self.traffic.bytes_received += count as u64;
        self.last_read = Some(now);
        self.deadlines_missed = 0;
        let input = std::mem::take(&mut self.input);
        let mut left = &input[self.held.clone()];
        let result = loop {
            match self.replies.read(&mut left) {
                Ok(Some(value)) => {
                    if let Err(error) = self.reply(value) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(malformed) => {
                    break Err(Error::not_sent(format!("the server does not speak RESP: {malformed}")));
                }
            }
        };
        self.held.start = self.held.end - left.len();
        self.input = input;
        result
    }

    /// One reply of the server (L1).
    fn reply(&mut self, value: Value) -> Result<(), Error> {
        let value = match value {
            Value::Push(items) => {
                self.push(items);
                return Ok(());
            }
            Value::Array(items) if self.subscriptions.is_some() && Subscriptions::is_event(&items) => {
                return self.reply(Value::Push(items));
            }
            Value::Attributed { value, .. } => *value,
            value => value,
        };
        // SUBSCRIBE gets no reply but events: an error is its refusal.
        if let (Some(subscriptions), Value::Error(text), true) = (&self.subscriptions, &value, self.ready)
            && subscriptions.refuse(text)
        {
            return Ok(());
        }
        let Some(flight) = self.flights.front_mut() else { return Err(Error::not_sent(STRAY_REPLY)) };
        if flight.selects_due > 0 {
            flight.selects_due -= 1;
            return selected(&value);
        }
        let Some(call) = flight.batch.calls.front() else { return Err(Error::not_sent(STRAY_REPLY)) };
        let value = if call.traits.shape == Shape::Single {
            value
        } else {
            flight.got.push(value);
            if flight.got.len() < call.traits.replies as usize {
                return Ok(());
            }
            call.traits.shape.join(std::mem::take(&mut flight.got))
        };
        let range = flight.start..call.end;
        flight.start = range.end;
        let call = flight.batch.calls.pop_front();
        if let (Some(read), Some(written), Purpose::Calls) =
            (self.last_read, flight.written_at, &flight.purpose)
        {
            self.traffic.note(read.saturating_duration_since(written));
        }
        flight.selects_due = flight.batch.calls.front().is_some_and(|next| next.selects).into();
        if !matches!(flight.purpose, Purpose::Calls) {
            return self.own_reply(value);
        }
        if let (Some(guide), Some(_), Value::Error(text)) = (&self.guide, &call, &value)
            && (is_redirection(text) || self.reads_only && is_behind(text))
        {
            let stray = call.and_then(|call| stray(&flight.batch, range, call));
            stray.into_iter().for_each(|stray| guide.redirect(stray, text));
            self.land();
            return Ok(());
        }
        let demoted = is_readonly(&value);
        if let Some(call) = call {
            call.target.complete(match value {
                Value::Error(text) => Err(refused(&text)),
                value => Ok(value),
            });
        }
        self.land();
        if demoted && matches!(self.options.endpoint, Endpoint::Sentinel { .. }) {
            return Err(Error::not_sent(
                "the server is a replica now; the sentinels are asked for the new master",
            ));
        }
        Ok(())
    }

    /// Takes the calls out of the queue of a connection that broke, if another server may run them.
    pub(crate) fn lose(&self, queue: &mut Queue) -> impl FnOnce() + use<> {
        let strays = self.guide.clone().map(|guide| (guide, queue.take_all()));
        // The guide takes other queues' locks: it is told without this one.
        move || strays.into_iter().for_each(|(guide, strays)| guide.lost(strays))
    }

    /// What the server sent without being asked.
    fn push(&self, mut items: Vec<Value>) {
        let is_invalidation =
            matches!(items.first(), Some(Value::Bulk(word) | Value::Status(word)) if word == b"invalidate");
        if let Some(cache) = &self.cache
            && is_invalidation
        {
            return cache.invalidate(items.pop().unwrap_or(Value::Null));
        }
        if let Some(subscriptions) = &self.subscriptions {
            subscriptions.deliver(items);
        }
    }

    /// Forgets the flights at the front that wait for no reply.
    fn land(&mut self) {
        while self.flights.front().is_some_and(|flight| flight.batch.calls.is_empty() && flight.is_written())
            && let Some(flight) = self.flights.pop_front()
        {
            self.writing = self.writing.saturating_sub(1);
            self.recycle(flight.batch);
        }
    }

    fn recycle(&mut self, batch: Batch) {
        if self.spare.len() < SPARE_MAX && batch.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare.push((batch.bytes, batch.calls));
        }
    }

    /// The reply to a request of the link's own.
    fn own_reply(&mut self, value: Value) -> Result<(), Error> {
        let Some(Flight { purpose, .. }) = self.flights.pop_front() else {
            return Ok(());
        };
        self.writing = self.writing.saturating_sub(1);
        self.land();
        match purpose {
            Purpose::Calls | Purpose::Ping => Ok(()),
            Purpose::Prove(db) => {
                self.proving.remove(&db);
                match value {
                    Value::Error(text) => self.refused.push((db, database_refused(db, &text))),
                    _ => drop(self.proven.insert(db)),
                }
                Ok(())
            }
            Purpose::Hello => match value {
                // Servers before Redis 6 know no HELLO, some proxies no version 3.
                Value::Error(text)
                    if text.starts_with(b"NOPROTO") || text.starts_with(b"ERR unknown command") =>
                {
                    self.login_without_hello();
                    Ok(())
                }
                Value::Error(text) => Err(login_refused(&text)),
                _ => {
                    match self.cache.clone() {
                        Some(cache) => self.track(&cache),
                        None => self.greeted(),
                    }
                    Ok(())
                }
            },
            Purpose::ReadOnly => {
                // A node that refuses it sends the calls on to the master.
                self.logged_in();
                Ok(())
            }
            Purpose::Tracking => {
                match (&self.cache, value) {
                    (_, Value::Error(text)) => {
                        let why = String::from_utf8_lossy(&text).into_owned();
                        tracing::warn!(server = %self.options.endpoint, "nothing is cached: the server refused CLIENT TRACKING: {why}");
                    }
                    (Some(cache), _) => cache.switch_on(),
                    (None, _) => {}
                }
                self.greeted();
                Ok(())
            }
            Purpose::Login => {
                let replies = if let Value::Array(replies) = value { replies } else { vec![value] };
                if let Some(text) = replies
                    .into_iter()
                    .find_map(|reply| if let Value::Error(text) = reply { Some(text) } else { None })
                {
                    return Err(login_refused(&text));
                }
                self.greeted();
                Ok(())
            }
        }
    }

    /// Has the server tell of changes, which wants RESP3.
    fn track(&mut self, cache: &Cache) {
        let mut bytes = Vec::new();
        match &cache.options.tracking {
            Tracking::Default => args::encode(&("CLIENT", "TRACKING", "ON"), &mut bytes),
            Tracking::OptIn => args::encode(&("CLIENT", "TRACKING", "ON", "OPTIN"), &mut bytes),
            Tracking::Broadcast(prefixes) => {
                let prefixes: Vec<(&str, &Vec<u8>)> =
                    prefixes.iter().map(|prefix| ("PREFIX", prefix)).collect();
                args::encode(&("CLIENT", "TRACKING", "ON", "BCAST", prefixes), &mut bytes);
            }
        }
        self.own(Purpose::Tracking, bytes, 1);
    }

    /// The server knows who the client is.
    fn greeted(&mut self) {
        if !self.reads_only {
            return self.logged_in();
        }
        let mut bytes = Vec::new();
        args::encode(&"READONLY", &mut bytes);
        self.own(Purpose::ReadOnly, bytes, 1);
    }

    fn logged_in(&mut self) {
        self.ready = true;
        self.subscriptions.iter().for_each(|subscriptions| subscriptions.connected());
    }

    /// AUTH and CLIENT SETNAME one by one, in RESP2.
    fn login_without_hello(&mut self) {
        let (mut bytes, mut replies) = (Vec::new(), 0);
        if let Some(password) = self.options.password.as_deref() {
            args::encode(&("AUTH", self.options.user.as_deref(), password), &mut bytes);
            replies += 1;
        }
        if let Some(name) = self.options.name.as_deref() {
            args::encode(&("CLIENT", "SETNAME", name), &mut bytes);
            replies += 1;
        }
        match replies {
            0 => self.greeted(),
            _ => self.own(Purpose::Login, bytes, replies),
        }
    }

    /// Whether the handshake has ended and calls are taken.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the client was closed, and whether it gives up what is in flight: as of the last [`Link::gather`].
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Whether a deadline may have passed.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.earliest.is_some_and(|earliest| earliest <= now)
    }

    /// Whether no call is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }

    /// Whether bytes wait for the socket.
    pub(crate) fn has_output(&self) -> bool {
        self.writing < self.flights.len()
    }

    /// When [`Link::take_late`] and [`Link::check`] want to be called next.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        // Without a connection there is none to be kept alive.
        let ping = self.ready.then(|| self.quiet_since() + self.options.ping_interval);
        earlier(self.earliest, ping)
    }

    /// When this connection was last used, as far as PING is concerned.
    fn quiet_since(&self) -> Instant {
        self.last_ping.max(self.last_read.unwrap_or(self.last_ping))
    }

    /// Takes out the calls whose deadline has passed, to be failed by the caller.
    pub(crate) fn take_late(&mut self, queue: &mut Queue, now: Instant) -> Vec<(Target, Error)> {
        if self.is_due(now) { self.expire(queue, now) } else { Vec::new() }
    }

    /// Sends a PING on a quiet connection, behind the calls in flight. Not behind one that waits in the server: the server
    /// would not look at it, and the operating system's keepalive watches such a connection.
    ///
    /// # Errors
    /// When the connection is dead: nothing is read although it should be.
    pub(crate) fn check(&mut self, now: Instant) -> Result<(), Error> {
        let silence = now.saturating_duration_since(self.last_read.unwrap_or(self.opened));
        if self.deadlines_missed >= DEADLINES_UNTIL_DEAD && silence >= SILENCE_UNTIL_DEAD {
            return Err(Error::not_sent(format!(
                "{} deadlines passed and the server sent nothing",
                self.deadlines_missed
            )));
        }
        if !self.ready || now.saturating_duration_since(self.quiet_since()) < self.options.ping_interval {
            return Ok(());
        }
        self.last_ping = now;
        if self.flights.iter().any(|flight| matches!(flight.purpose, Purpose::Ping)) {
            if silence >= PINGS_UNTIL_DEAD * self.options.ping_interval {
                return Err(Error::not_sent(format!(
                    "the server has sent nothing for {silence:?}, and no reply to a PING"
                )));
            }
        } else if !self.flights.iter().any(|flight| flight.batch.calls.iter().any(|call| call.traits.blocks))
        {
            let mut bytes = Vec::new();
            args::encode(&"PING", &mut bytes);
            self.own(Purpose::Ping, bytes, 1);
            // It stands behind what was written before, so it says nothing of the database (L2).
        }
        Ok(())
    }

    /// Finds the calls whose deadline has passed, and the earliest deadline of the others.
    ///
    /// Deadlines are not kept in order: all calls are looked at, but only when one is due that was outstanding at the last look.
    fn expire(&mut self, queue: &mut Queue, now: Instant) -> Vec<(Target, Error)> {
        let mut earliest: Option<Instant> = None;
        let (unwritten, last_read) = (self.unwritten(), self.last_read);
        let timed_out = |due: Due, stage: &dyn Fn() -> Stage, calls_ahead: usize| -> Error {
            let driver_lag = now.duration_since(due.at);
            let limit = due.at.duration_since(due.made);
            let late = driver_lag > Duration::from_millis(20).max(limit / 2);
            let since_read = last_read.map(|read| now.saturating_duration_since(read));
            let stage = if late { Stage::Runtime } else { stage() };
            Error::TimedOut(Arc::new(TimedOut {
                stage,
                limit,
                calls_ahead,
                bytes_unwritten: unwritten,
                since_read,
                driver_lag,
            }))
        };
        let (mut failed, mut ahead) = (Vec::new(), 0);
        let mut missed = false;
        for flight in &mut self.flights {
            let (written, written_at) = (flight.written, flight.written_at);
            for call in &mut flight.batch.calls {
                let end = call.end;
                let stage = || match written_at {
                    _ if end > written => Stage::Write,
                    Some(at) if last_read.is_some_and(|read| read > at) && ahead > 0 => Stage::Reader,
                    _ => Stage::Server,
                };
                for (target, due) in call.take_late(now) {
                    missed = true;
                    failed.push((target, timed_out(due, &stage, ahead)));
                }
                earliest = earlier(earliest, call.due.map(|due| due.at));
                ahead += 1;
            }
        }
        self.deadlines_missed += u32::from(missed);
        queue.end(|_, call, before| {
            failed.extend(
                call.take_late(now)
                    .map(|(target, due)| (target, timed_out(due, &|| Stage::Queue, ahead + before))),
            );
            earliest = earlier(earliest, call.due.map(|due| due.at));
        });
        self.earliest = earlier(earliest, queue.earliest.take());
        queue.timed_out += failed.len() as u64;
        failed
    }

    fn unwritten(&self) -> usize {
        self.flights
            .range(self.writing.min(self.flights.len())..)
            .map(|flight| flight.batch.bytes.len() - flight.written)
            .sum()
    }

    /// The connection broke: calls that were not written, and those that only read, go back into the queue. Returns the
    /// others, whose outcome is not known.
    pub(crate) fn disconnected(&mut self, queue: &mut Queue, why: &str) -> Vec<(Target, Error)> {
        let unknown = Error::OutcomeUnknown(why.into());
        let mut failed = Vec::new();
        let mut again: Vec<Again> = Vec::new();
        for flight in std::mem::take(&mut self.flights) {
            if !matches!(flight.purpose, Purpose::Calls) {
                continue;
            }
            let (mut start, prefix) = (flight.start, flight.batch.prefix);
            for call in flight.batch.calls {
                let mut range = start..call.end;
                start = call.end;
                let unsent = range.start >= flight.written;
                if !call.target.is_wanted() {
                    continue;
                }
                if !unsent && !call.traits.reads {
                    failed.push((call.target, unknown.clone()));
                    continue;
                }
                if call.selects {
                    range.start += prefix;
                }
                let request = flight.batch.bytes[range].to_vec();
                match again.iter_mut().find(|(db, _)| *db == flight.batch.db) {
                    Some((_, calls)) => calls.push((request, call)),
                    None => again.push((flight.batch.db, vec![(request, call)])),
                }
            }
        }
        for (db, calls) in again {
            queue.put_back(db, calls);
        }
        (self.writing, self.ready, self.held) = (0, false, 0..0);
        self.cache.iter().for_each(|cache| cache.switch_off());
        self.subscriptions.iter().for_each(|subscriptions| subscriptions.disconnected());
        (queue.is_up, queue.is_failing) = (false, true);
        failed
    }
}

/// Whether a server says that it is a replica; a pipeline's replies come as one array.
fn is_readonly(value: &Value) -> bool {
    match value {
        Value::Error(text) => text.starts_with(b"READONLY"),
        Value::Array(replies) => {
            replies.iter().any(|reply| matches!(reply, Value::Error(text) if text.starts_with(b"READONLY")))
        }
        _ => false,
    }
}

/// Whether a node of a cluster says that another one has the keys, or that it cannot say what they are now.
fn is_redirection(text: &[u8]) -> bool {
    [&b"MOVED "[..], b"ASK ", b"TRYAGAIN", b"CLUSTERDOWN"].iter().any(|code| text.starts_with(code))
}

/// Whether a replica says that it has no data of its master at present: the master has.
fn is_behind(text: &[u8]) -> bool {
    text.starts_with(b"MASTERDOWN") || text.starts_with(b"LOADING")
}

/// A call that was refused, as it may be sent to another server; `None` if no reply is wanted.
fn stray(batch: &Batch, mut range: std::ops::Range<usize>, mut call: Queued) -> Option<Stray> {
    if !call.target.is_wanted() {
        return None;
    }
    if call.selects {
        range.start += batch.prefix;
    }
    let mut request = &batch.bytes[range];
    if let Target::Cache(filling) = &call.target {
        filling.doom();
        // CLIENT CACHING, where there is one, was for the connection that keeps the reply.
        request = rows::requests(request).last()?;
        call.traits = Traits { replies: 1, shape: Shape::Single, asks: false, ..call.traits };
    } else if call.traits.asks {
        request = &request[rows::requests(request).next()?.len()..];
        call.traits = call.traits.not_asking();
    }
    call.selects = false;
    Some(Stray { request: request.to_vec(), db: batch.db, call })
}

/// A database and its calls that are sent again, each with its bytes.
type Again = (u32, Vec<(Vec<u8>, Queued)>);

fn database_refused(db: u32, text: &[u8]) -> Error {
    Error::Refused(format!("{} (SELECT {db})", String::from_utf8_lossy(text)).into())
}

fn login_refused(text: &[u8]) -> Error {
    Error::Refused(
        format!("{} (at log-in; check the user and password of the URL)", String::from_utf8_lossy(text))
            .into(),
    )
}

/// Whether a SELECT in front of a call went well.
fn selected(reply: &Value) -> Result<(), Error> {
    match reply {
        Value::Error(text) => {
            let why = format!(
                "the server refused a SELECT that it had accepted before: {}",
                String::from_utf8_lossy(text)
            );
            Err(Error::not_sent(why))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod simulation;
