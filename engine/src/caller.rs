//! Commands by their arguments, in this process: [`Caller`].
mod chunk;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_base::time::{coarse_ms, now_ms};
use polder_base::{Fault, Protocol, Reply};
use polder_calls::command::{ADMIN, Run};
use polder_calls::settings::{Id, id};
use polder_hub::query;
use polder_hub::{Delivery, MessageSink, track};
use polder_runtime::session::{Clock, Identity};
use polder_runtime::{Host, Progress, Session, blocking, execute};
use polder_shm::fork;

use crate::answer::{Answer, Item};
use crate::batch::{Batch, CHUNK};
use crate::presence::{ClientRecord, Order, Presence};
use crate::thread_state::{self, Ear};
use crate::{BatchPlan, Memory, PAUSE_NAP};

/// How long to sleep before a lock that another thread holds is tried again.
const BUSY_REST: Duration = Duration::from_millis(1);
/// How long a call waits for locks where the caller hurries.
const HURRY: Duration = Duration::from_micros(100);
/// How soon a call looks again that has left an element to others, which may be stopped.
const YIELD_MS: u64 = 1_000;
const TRACKED_MAX: Id = id("tracking-table-max-keys");

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The command says no: the whole error text, its code first.
    #[error("{0}")]
    Refused(String),
    /// The medium, the memory or another process failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The caller listens or waits in another thread.
    #[error("ERR this caller listens or waits in another thread: use it there, or make one for each thread")]
    WrongThread,
    /// The caller listened or waited when the process was forked, and stays the parent's.
    #[error(
        "ERR this caller listened or waited when the process was forked: it is the parent's, make a new one"
    )]
    Forked,
    /// Messages were dropped because the inbox was full.
    #[error(
        "ERR messages came faster than they were heard, and some are lost: read again what they were about"
    )]
    Lost,
    /// The caller was ended by CLIENT KILL or QUIT.
    #[error("ERR the caller was ended by CLIENT KILL or by QUIT")]
    Closed,
    /// A blocking call of this caller has not ended yet.
    #[error("ERR a blocking call is pending on this caller; wait for it or cancel it")]
    Waiting,
    /// Another thread holds a lock that the call needs, and [`Caller::set_lock_timeout`] or [`Caller::limit_patience`] says not to wait. Nothing has happened.
    #[error("ERR another client holds a lock that the call needs, and this caller does not wait: call again")]
    Busy,
}

/// Runs any command by its arguments, in this process: a caller is to a memory what a connection is to a server.
///
/// It has its own database (SELECT), protocol (HELLO), MULTI, watched keys and subscriptions, and runs one call at a time.
///
/// ```
/// # let name = format!("shm:polder-doc-caller-{}", std::process::id());
/// use polder_engine::{Caller, Item, Memory, Options};
/// use std::sync::Arc;
///
/// let memory = Arc::new(Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?);
/// let mut caller = Caller::new(&memory);
/// caller.run(&["RPUSH", "colours", "red", "green"])?;
/// // A reply to keep ...
/// let answer = caller.run(&["LRANGE", "colours", "0", "-1"])?;
/// let colours: Vec<_> = answer.item().items().into_iter().flatten().filter_map(Item::bytes).collect();
/// assert_eq!(colours, [&b"red"[..], b"green"]);
/// // ... and one that is only looked at, for which no memory is taken.
/// let count = caller.show(&["LLEN", "colours"], |reply| reply.integer())?;
/// assert_eq!(count, Some(2));
/// // What a command says no to is an error.
/// let error = caller.run(&["INCR", "colours"]).unwrap_err();
/// assert!(error.to_string().starts_with("WRONGTYPE"));
/// // Calls that wait keep the thread, here for a tenth of a second.
/// assert_eq!(caller.show(&["BLPOP", "nothing", "0.1"], |reply| reply == Item::Null)?, true);
/// # Memory::remove(&name)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Messages of subscriptions and invalidations of tracked keys wait in the caller's thread until [`Caller::hear`] shows them.
///
/// ```
/// # let name = format!("shm:polder-doc-hear-{}", std::process::id());
/// # use polder_engine::{Caller, Item, Memory, Options};
/// # use std::{sync::Arc, time::Duration};
/// # let memory = Arc::new(Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?);
/// let (mut listener, mut publisher) = (Caller::new(&memory), Caller::new(&memory));
/// listener.run(&["SUBSCRIBE", "news"])?;
/// publisher.run(&["PUBLISH", "news", "hello"])?;
/// let mut heard = Vec::new();
/// listener.hear(Duration::from_secs(1), |message| {
///     heard.extend(message.items().into_iter().flatten().filter_map(Item::bytes).map(<[u8]>::to_vec));
/// })?;
/// assert_eq!(heard, [b"message".to_vec(), b"news".to_vec(), b"hello".to_vec()]);
/// # Memory::remove(&name)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Waiting without blocking the thread**: [`Caller::start`] begins a call that may wait, and [`Caller::resume`] continues it when
/// [`Caller::descriptor`] becomes readable, so a caller fits into any event loop.
///
/// **Threads**: a caller that neither listens nor waits may move between threads. One that listens or waits belongs to its thread;
/// another thread gets [`Error::WrongThread`].
///
/// **fork**: a child continues with a seat of its own. A caller that listened or waited stays its parent's ([`Error::Forked`]).
pub struct Caller {
    memory: Arc<Memory>,
    session: Session,
    /// What the last call answered; kept for its memory.
    answer: Answer,
    /// Where it listens or waits.
    thread: Option<u64>,
    generation: u64,
    card: Arc<ClientRecord>,
    /// How many more calls take the fast path before the caller checks whether other work is due.
    quick_left: u32,
}

impl Caller {
    /// A caller whose replies have the types of RESP3: maps, sets, doubles and pushes.
    pub fn new(memory: &Arc<Memory>) -> Caller {
        Caller::speaking(memory, Protocol::Resp3)
    }

    /// A caller whose replies have the types of the given protocol.
    pub fn speaking(memory: &Arc<Memory>, protocol: Protocol) -> Caller {
        let now_ms = now_ms();
        let id = polder_hub::next_client(memory.table());
        let session = Session {
            identity: Identity { id, ..Identity::default() },
            protocol,
            clock: Clock::since(now_ms),
            ..Session::default()
        };
        let card = memory.callers().enter(&session);
        Caller {
            memory: memory.clone(),
            session,
            answer: Answer::new(protocol),
            thread: None,
            generation: fork::generation(),
            card,
            quick_left: 0,
        }
    }

    /// The memory that this caller works on.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The caller's CLIENT ID, which is never used twice in a segment.
    pub fn id(&self) -> u64 {
        self.session.identity.id
    }

    /// The number of the database that is selected.
    pub fn database(&self) -> u16 {
        self.session.caller.db
    }

    /// Runs a command and returns its reply. A command that waits (BLPOP, ...) blocks the thread.
    ///
    /// # Errors
    /// [`Error::Refused`] with the command's error reply; the other variants of [`Error`] as they say.
    pub fn run(&mut self, args: &[impl AsRef<[u8]>]) -> Result<Answer, Error> {
        self.run_here(args)?;
        self.outcome()?;
        let fresh = Answer::new(self.session.protocol);
        Ok(std::mem::replace(&mut self.answer, fresh))
    }

    /// As [`Caller::run`], but passes the reply to `show` instead of returning it. A small reply takes no memory.
    ///
    /// # Errors
    /// As [`Caller::run`].
    pub fn show<R>(
        &mut self,
        args: &[impl AsRef<[u8]>],
        show: impl FnOnce(Item<'_>) -> R,
    ) -> Result<R, Error> {
        self.run_here(args)?;
        match self.answer.item() {
            Item::Error(_) => Err(self.outcome().expect_err("an error is one")),
            item => Ok(show(item)),
        }
    }

    /// As [`Caller::run`], but writes the reply to `reply`, errors included. Large values are written in pieces, as slices of the memory itself.
    /// When another process changes what is being read, the reply is rewound ([`Reply::rewind`]) and written again.
    ///
    /// # Errors
    /// Those of [`Error`] that are about the caller.
    pub fn write(&mut self, args: &[impl AsRef<[u8]>], reply: &mut dyn Reply) -> Result<(), Error> {
        self.call(args, Some(reply))
    }

    /// Runs a call, into the caller's own reply if no other sink is named.
    #[inline]
    fn call(&mut self, args: &[impl AsRef<[u8]>], reply: Option<&mut dyn Reply>) -> Result<(), Error> {
        self.admit()?;
        if self.session.caller.waiting.is_some() {
            return Err(Error::Waiting);
        }
        let done = match args {
            // The most common ones, which need not be counted out one by one.
            [name, key] => self.execute(&[name.as_ref(), key.as_ref()], reply),
            [name, key, one] => self.execute(&[name.as_ref(), key.as_ref(), one.as_ref()], reply),
            [name, key, one, two] => {
                self.execute(&[name.as_ref(), key.as_ref(), one.as_ref(), two.as_ref()], reply)
            }
            [name, key, one, two, three] => self
                .execute(&[name.as_ref(), key.as_ref(), one.as_ref(), two.as_ref(), three.as_ref()], reply),
            _ => self
                .execute(&args.iter().map(AsRef::as_ref).collect::<smallvec::SmallVec<[&[u8]; 32]>>(), reply),
        };
        if done { Ok(()) } else { Err(Error::Busy) }
    }

    /// Makes calls fail with [`Error::Busy`] instead of waiting for a lock that another thread
    /// holds, or for the end of a CLIENT PAUSE. Nothing has happened then. For programs that hold a
    /// lock of their own during a call, such as Python's GIL. Batches still wait.
    pub fn set_lock_timeout(&mut self, hurries: bool) {
        self.limit_patience(hurries.then_some(HURRY));
    }

    /// Has the scripts of this caller ask `look` now and then, on the thread that runs them. When it returns true, the script ends with an error, and
    /// nothing of it has happened. For Ctrl-C in a program whose signal handlers only set a flag.
    pub fn interrupt_when(&mut self, look: fn() -> bool) {
        self.session.interrupt = Some(look);
    }

    /// As [`Caller::set_lock_timeout`], but waits this long first; `None` waits without a limit.
    pub fn limit_patience(&mut self, patience: Option<Duration>) {
        self.session.clock.patience_us = patience.map_or(0, |patience| patience.as_micros().max(1) as u64);
    }

    /// How much is left of the patience that began at a time.
    fn patience_left(&self, began: Instant) -> Duration {
        match self.session.clock.patience_us {
            0 => Duration::MAX,
            patience_us => Duration::from_micros(patience_us).saturating_sub(began.elapsed()),
        }
    }

    /// Runs the calls of a batch one after another, as a pipeline, and overlaps their cache misses. Returns all replies, errors included.
    ///
    /// # Errors
    /// Those of [`Error`] that are about the caller.
    pub fn run_batch(&mut self, batch: &Batch) -> Result<Answer, Error> {
        self.admit()?;
        if self.session.caller.waiting.is_some() {
            return Err(Error::Waiting);
        }
        let mut answer = Answer::new(self.session.protocol);
        let mut plan = BatchPlan::default();
        let patience_us = std::mem::take(&mut self.session.clock.patience_us);
        batch.each_chunk(|calls| chunk::run_chunk(self, calls, &mut plan, &mut answer));
        self.session.clock.patience_us = patience_us;
        answer.seal();
        Ok(answer)
    }

    /// Runs the calls of a batch as one transaction (MULTI and EXEC): all of them or none, and no other client sees a state between them. Returns an
    /// array of their replies, or null when a watched key has changed.
    ///
    /// # Errors
    /// As [`Caller::run`]; EXECABORT when one of the calls cannot be made at all.
    pub fn run_atomically(&mut self, batch: &Batch) -> Result<Answer, Error> {
        if let Some(answer) = self.run_group(batch)? {
            return Ok(answer);
        }
        self.run(&["MULTI"])?;
        let queued = self.run_batch(batch);
        let done = self.run(&["EXEC"]);
        queued.and(done)
    }

    /// Runs the calls of a batch as one transaction by the fast path of their command, if they are all of one. `None`: nothing has happened.
    fn run_group(&mut self, batch: &Batch) -> Result<Option<Answer>, Error> {
        self.admit()?;
        if batch.is_empty() || batch.len() > CHUNK || self.session.caller.waiting.is_some() {
            return Ok(None);
        }
        let (mut answer, mut done) = (Answer::new(self.session.protocol), false);
        batch.each_chunk(|calls| {
            if self.wait_for_pause(calls[0]) {
                let (memory, session) = self.parts();
                done = memory.execute_group(session, &Presence::of(memory), calls, &mut answer);
            }
        });
        if !done {
            return Ok(None);
        }
        self.after();
        answer.seal();
        Ok(Some(answer))
    }

    /// Shows the string in a key, as `Database::read` does, where there is nothing to it: a short one that is found at once, by a caller that is free, and
    /// nothing is due. `None`: nothing has happened, and another way will see.
    #[inline]
    pub fn read_quickly<R>(&mut self, key: &[u8], read: impl FnMut(&[u8]) -> R) -> Option<R> {
        if !self.is_at_ease() {
            return None;
        }
        let table = self.memory.table();
        table.read_plain(self.session.caller.db, table.hash(key), key, read)
    }

    /// Gives a key a string, as `Database::set` does, where there is nothing to it. `false`: nothing has happened, and another way will see.
    #[inline]
    pub fn set_quickly(&mut self, key: &[u8], value: &[u8]) -> bool {
        if !self.is_at_ease() {
            return false;
        }
        let table = self.memory.table();
        // Making room is more than a moment's work.
        table.is_unlimited()
            && !self.memory.writes_restricted()
            && table.write_plain(self.session.caller.db, table.hash(key), key, value)
    }

    /// Whether a call may be made with nothing before it: no end of the caller, no pause, nothing that is due.
    #[inline(always)]
    fn is_at_ease(&mut self) -> bool {
        const CALLS: u32 = 64;
        let Some(left) = self.quick_left.checked_sub(1) else {
            self.quick_left = CALLS;
            Memory::make_due();
            return false;
        };
        self.quick_left = left;
        let free = self.thread.is_none() && !self.session.closing && self.generation == fork::generation();
        free && self.card.order() == Order::None && !self.memory.may_be_paused()
    }

    /// Begins a call without keeping the thread: `None` says that it waits. [`Caller::resume`] goes on with it, best when
    /// [`Caller::descriptor`] has become readable or [`Caller::until_ms`] is over.
    ///
    /// # Errors
    /// As [`Caller::run`].
    pub fn start(&mut self, args: &[impl AsRef<[u8]>]) -> Result<Option<Answer>, Error> {
        self.session.caller.parks = true;
        let done = self.run_here(args);
        self.session.caller.parks = false;
        done?;
        if self.session.caller.waiting.is_some() { Ok(None) } else { self.take_answer() }
    }

    /// Looks whether a call that was begun has come to its end: `None` says that it still waits.
    ///
    /// # Errors
    /// As [`Caller::run`]; [`Error::Refused`] where no call waits.
    pub fn resume(&mut self) -> Result<Option<Answer>, Error> {
        self.admit()?;
        let Some(waiting) = &mut self.session.caller.waiting else {
            return Err(Error::Refused("ERR no call of this caller waits".into()));
        };
        let (until_ms, looks) = (waiting.until_ms, waiting.take_look(now_ms()));
        let memory = self.memory.clone();
        let (table, host) = (memory.table(), &Presence::of(&memory));
        thread_state::look(&memory);
        let woken =
            thread_state::with(table, |home| home.take_woken(self.session.identity.id)).unwrap_or_default();
        let mut progress = Progress::Waiting;
        if woken || looks {
            self.session.caller.parks = true;
            progress = crate::waiting::try_again(
                &memory,
                &mut self.session,
                host,
                Some(&self.card),
                &mut self.answer,
            );
            self.session.caller.parks = false;
        }
        if progress == Progress::Busy {
            let paused = !crate::waiting::paused_for(&memory, &self.session).is_zero();
            thread_state::with(table, |home| home.wake_again(self.session.identity.id, paused));
        }
        if progress != Progress::Answered && self.card.order() == Order::None && until_ms <= now_ms() {
            progress = crate::waiting::end_in_time(
                table,
                &mut self.session,
                host,
                Some(&self.card),
                &mut self.answer,
            );
        }
        let order = self.card.order();
        if progress != Progress::Answered && order != Order::None {
            crate::waiting::obey(table, &mut self.session, host, order, &mut self.answer);
            progress = Progress::Answered;
        }
        if progress == Progress::Answered {
            thread_state::with(table, |home| home.end_wait(self.session.identity.id));
            self.card.end_wait();
            self.after();
        }
        thread_state::arm(&memory);
        if progress == Progress::Answered { self.take_answer() } else { Ok(None) }
    }

    /// When a started call that waits is to be looked at again at the latest, in milliseconds since
    /// the Unix epoch. Its time is over then, or a CLIENT PAUSE that holds it back may be, or a
    /// client to which it has left an element may have been stopped. `u64::MAX`: never; `None`: no
    /// call waits.
    pub fn until_ms(&self) -> Option<u64> {
        let waiting = self.session.caller.waiting.as_ref()?;
        let postponed =
            thread_state::with(self.memory.table(), |home| home.is_postponed(self.session.identity.id))
                == Some(true);
        let look_ms = match (postponed, waiting.yields()) {
            (true, _) => PAUSE_NAP.as_millis() as u64,
            (false, true) => YIELD_MS,
            (false, false) => return Some(waiting.due_ms()),
        };
        Some(waiting.due_ms().min(now_ms() + look_ms))
    }

    /// Ends a call that waits as its timeout would.
    ///
    /// # Errors
    /// Those of [`Error`] that are about the caller.
    pub fn cancel(&mut self) -> Result<(), Error> {
        self.admit()?;
        let memory = self.memory.clone();
        blocking::leave(memory.table(), &mut self.session);
        thread_state::with(memory.table(), |home| home.end_wait(self.session.identity.id));
        self.card.end_wait();
        self.after();
        Ok(())
    }

    /// A file descriptor that is readable when this caller, or another one of the thread, has something to hear or to go on with: for an event
    /// loop of one's own. It is a copy to be closed when it is not needed any more, stands for the thread and the memory, is level-triggered, and must
    /// not be read. When it is readable,
    /// look at all callers of the thread that listen ([`Caller::hear`] with no patience) or wait ([`Caller::resume`]).
    ///
    /// # Errors
    /// [`Error::Fault`] where no FIFO can be made beside the segment's name.
    pub fn descriptor(&mut self) -> Result<OwnedFd, Error> {
        self.admit()?;
        Ok(thread_state::descriptor(&self.memory)?)
    }

    /// Sleeps until something has come for a caller of this thread, at most half a second and `patience`; it may wake for nothing. For loops that
    /// have something else to look after, around [`Caller::resume`] and [`Caller::hear`] without patience.
    ///
    /// # Errors
    /// Those of [`Error`] that are about the caller.
    pub fn rest(&mut self, patience: Duration) -> Result<(), Error> {
        self.admit()?;
        let table = self.memory.table();
        thread_state::look(&self.memory);
        if !thread_state::has_news(table) {
            thread_state::nap(table, patience);
        }
        thread_state::arm(&self.memory);
        Ok(())
    }

    /// Shows what has come for this caller, and waits at most `patience` for something to come.
    /// Returns how many messages that were. Each is an [`Item::Push`] (in RESP2 an array) as a
    /// client of a server gets it. `show` may use other callers, and this memory.
    ///
    /// # Errors
    /// [`Error::Lost`], once, behind what was not lost; [`Error::Closed`].
    pub fn hear(&mut self, patience: Duration, mut show: impl FnMut(Item<'_>)) -> Result<usize, Error> {
        self.belong()?;
        if self.session.closing {
            return Err(Error::Closed);
        }
        let memory = self.memory.clone();
        let table = memory.table();
        let began = Instant::now();
        loop {
            thread_state::look(&memory);
            let heard = self.show_messages(&mut show);
            thread_state::arm(&memory);
            let left = patience.saturating_sub(began.elapsed());
            match heard {
                Ok(0) if !left.is_zero() => thread_state::nap(table, left),
                heard => return heard,
            }
            memory.maintain();
        }
    }

    fn show_messages(&mut self, show: &mut impl FnMut(Item<'_>)) -> Result<usize, Error> {
        let table = self.memory.table();
        let taken = thread_state::with(table, |home| {
            let mailbox = home.mailbox(self.session.identity.id)?;
            let fresh = Answer::new(mailbox.protocol);
            let messages = std::mem::replace(&mut mailbox.messages, fresh);
            Some((messages, std::mem::take(&mut mailbox.lost)))
        });
        let killed = self.card.order() == Order::Kill;
        let Some((messages, lost)) = taken.flatten() else { return Ok(0) };
        let mut count = 0;
        for message in messages.items() {
            show(message);
            count += 1;
        }
        thread_state::with(table, |home| {
            if let Some(mailbox) = home.mailbox(self.session.identity.id) {
                mailbox.messages.take_memory_of(messages);
                // What was not lost has been shown; the loss is told next time.
                mailbox.lost |= lost && count > 0;
            }
        });
        match count {
            0 if lost => Err(Error::Lost),
            0 if killed => {
                self.session.closing = true;
                // It has been told; the other callers of the thread may rest.
                thread_state::with(table, |home| home.forget_order(self.session.identity.id));
                Err(Error::Closed)
            }
            count => Ok(count),
        }
    }

    /// Drops it where its thread is ending: what it heard and waited for ends with the thread's seat.
    pub fn abandon(mut self) {
        self.thread = None;
    }

    /// Whether calls may be made now: not by a child of its owner, nor elsewhere than where it listens or waits, nor after its end. Every call looks by
    /// itself.
    ///
    /// # Errors
    /// Those of [`Error`] that are about the caller.
    #[inline]
    pub fn admit(&mut self) -> Result<(), Error> {
        self.belong()?;
        // A caller whose call waits is told by how that call ends.
        if self.card.order() == Order::Kill && self.session.caller.waiting.is_none() {
            self.session.closing = true;
        }
        if self.session.closing { Err(Error::Closed) } else { Ok(()) }
    }

    /// Whether it may be used here.
    fn belong(&mut self) -> Result<(), Error> {
        let generation = fork::generation();
        if generation != self.generation {
            if self.thread.is_some() {
                return Err(Error::Forked);
            }
            self.generation = generation;
            self.session.identity.id = polder_hub::next_client(self.memory.table());
            self.card = self.memory.callers().enter(&self.session);
        }
        match self.thread {
            Some(thread) if thread != thread_state::thread_number() => Err(Error::WrongThread),
            _ => Ok(()),
        }
    }

    /// Runs a call into the caller's own answer.
    fn run_here(&mut self, args: &[impl AsRef<[u8]>]) -> Result<(), Error> {
        self.answer.clear();
        let done = self.call(args, None);
        self.answer.seal();
        done
    }

    /// Runs a call, into the caller's own reply if no other sink is named. Returns false if it was
    /// not made, since it would have waited and the caller does not want to.
    pub(crate) fn execute(&mut self, args: &[&[u8]], mut reply: Option<&mut dyn Reply>) -> bool {
        if !self.wait_for_pause(args) {
            return false;
        }
        // The memory is borrowed, not counted: a count that many threads change would be the slowest part of a call.
        let Caller { memory, session, answer, .. } = self;
        let out: &mut dyn Reply = match &mut reply {
            Some(reply) => &mut **reply,
            None => answer,
        };
        if memory.execute(session, &Presence::of(memory), args, out) == Progress::Busy
            && !self.retry_until(args, reply)
        {
            return false;
        }
        self.after();
        true
    }

    /// Makes a call again and again that meets a lock, or that waits for replies of other
    /// processes. Returns false at the end of the caller's patience.
    #[cold]
    fn retry_until(&mut self, args: &[&[u8]], mut reply: Option<&mut dyn Reply>) -> bool {
        let began = Instant::now();
        loop {
            // Its questions to other processes leave now, and replies are taken in.
            query::send(self.memory.table());
            if self.patience_left(began) <= BUSY_REST {
                return false;
            }
            std::thread::sleep(BUSY_REST);
            let Caller { memory, session, answer, .. } = self;
            thread_state::take_in(memory.table(), &mut Ear { memory });
            let out: &mut dyn Reply = match &mut reply {
                Some(reply) => &mut **reply,
                None => answer,
            };
            if memory.execute(session, &Presence::of(memory), args, out) != Progress::Busy {
                return true;
            }
        }
    }

    /// What comes before a call: waiting for the end of a pause, and an inbox for the replies if
    /// other processes may be asked. Returns whether the call may be made: not in a pause by a
    /// caller that does not wait.
    #[inline]
    pub(crate) fn wait_for_pause(&mut self, args: &[&[u8]]) -> bool {
        if args.first().is_some_and(|name| name.eq_ignore_ascii_case(b"CLIENT")) {
            // Without an inbox no process is asked.
            let _ = polder_hub::attend(self.memory.table());
        }
        self.memory.paused_for(true).is_zero() || self.rest_paused(args)
    }

    /// Waits for the end of a pause, if that holds a call back and the caller does not set_lock_timeout.
    #[cold]
    fn rest_paused(&mut self, args: &[&[u8]]) -> bool {
        let table = self.memory.table();
        let writes = execute::may_write(table, &self.session, &Presence::of(&self.memory), args);
        let began = Instant::now();
        loop {
            let (left, patience) = (self.memory.paused_for(writes), self.patience_left(began));
            if left.is_zero() || patience <= HURRY {
                return left.is_zero();
            }
            std::thread::sleep(left.min(PAUSE_NAP).min(patience));
            thread_state::take_in(table, &mut Ear { memory: &self.memory });
        }
    }

    pub(crate) fn parts(&mut self) -> (&Memory, &mut Session) {
        (&self.memory, &mut self.session)
    }

    /// What follows from a call: where the caller belongs now, what it is to be told, what is due in the memory.
    #[inline]
    pub(crate) fn after(&mut self) {
        if self.thread.is_some() || self.is_bound() {
            self.settle_down();
        }
        if self.session.tally.last.is_some_and(|command| matches!(command.run, Run::Session)) {
            self.card.show(&self.session);
        }
        // What has been set is true of the next short call.
        if self
            .session
            .tally
            .last
            .is_some_and(|command| command.has(ADMIN) || matches!(command.run, Run::Session))
        {
            self.memory.look_at_writes();
        }
        let now_ms = match std::mem::take(&mut self.session.clock.clocked_ms) {
            0 => coarse_ms(),
            now_ms => now_ms,
        };
        self.memory.tend_at(now_ms);
        self.card.beat(self.session.tally.last.map(|command| &command.facts), now_ms);
    }

    /// Whether it has been ended, so that nothing more is run.
    pub(crate) fn is_closing(&self) -> bool {
        self.session.closing
    }

    /// Whether messages or invalidations may come to it without a call: what [`Caller::hear`] shows.
    pub fn is_listening(&self) -> bool {
        self.session.listens() || self.session.listening.tracking.is_some() || self.session.listening.monitors
    }

    /// Whether it has something that is known to its thread only.
    fn is_bound(&self) -> bool {
        self.is_listening() || self.session.caller.waiting.is_some()
    }

    fn settle_down(&mut self) {
        let memory = self.memory.clone();
        let table = memory.table();
        let (id, protocol) = (self.session.identity.id, self.session.protocol);
        if !self.is_bound() {
            self.thread = None;
            self.card.settle(None);
            thread_state::with(table, |home| home.leave(id));
            return;
        }
        self.thread = Some(thread_state::thread_number());
        let unsure = std::mem::take(&mut self.session.listening.unsure);
        self.card.settle(table.seat().ok().map(|seat| (seat.index(), seat.life())));
        self.card.show(&self.session);
        thread_state::with(table, |home| home.enter(id, protocol, self.session.listens(), &self.card));
        if self.session.caller.waiting.is_some() {
            // Before letters are taken in: one that wakes it may have come already.
            thread_state::with(table, |home| home.begin_wait(id));
            self.card.begin_wait(&self.session);
        }
        for key in &unsure {
            let keys: &[&[u8]] = &[key];
            Ear { memory: &memory }
                .deliver(&[id], Delivery::Invalidation { keys: Some(keys), redirected: false });
        }
        let most = memory.host().settings().number(TRACKED_MAX);
        if self.session.listening.tracking.is_some() && most > 0 {
            track::limit(table, &mut Ear { memory: &memory }, most as usize);
        }
        thread_state::arm(&memory);
    }

    fn take_answer(&mut self) -> Result<Option<Answer>, Error> {
        self.answer.seal();
        self.outcome()?;
        let fresh = Answer::new(self.session.protocol);
        Ok(Some(std::mem::replace(&mut self.answer, fresh)))
    }

    /// The error that the last call has answered.
    fn outcome(&self) -> Result<(), Error> {
        match self.answer.item() {
            // The error is how the call ended that waited when the caller was killed.
            Item::Error(_) if self.session.closing => Err(Error::Closed),
            Item::Error(text) => Err(Error::Refused(String::from_utf8_lossy(text).into_owned())),
            _ => Ok(()),
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.memory.callers().leave(self.session.identity.id);
        if self.thread.is_none() || self.generation != fork::generation() {
            return;
        }
        let memory = self.memory.clone();
        let mut session = std::mem::take(&mut self.session);
        match self.thread {
            Some(thread) if thread != thread_state::thread_number() => {
                thread_state::detach(memory.table(), thread, session)
            }
            _ => thread_state::reap(memory.table(), &mut session),
        }
    }
}
