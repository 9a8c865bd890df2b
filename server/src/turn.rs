//! The loop of one thread, and the order of things in a turn.
//!
//! ```text
//!   poll -> letters, arrivals -> read every ready socket once -> parse up to 64 requests, prefetch, execute; again,
//!   until all inputs are done -> one write per connection -> timers
//! ```
//!
//! Fairness: a connection gets one read per turn (16 KiB, more only for one long argument) and everything in it is
//! executed; what is left in its socket waits for the next turn, behind the others. The poll is edge-triggered, so the
//! loop itself remembers who may have more.
//!
//! **Invariant:** replies leave at the end of the turn, in the order of the requests.
//! **Invariant:** a connection that must wait is parked ([`Connection::park`]): its requests stay unexecuted in its input
//! and others go on. A pause parks; so does a lock that stays taken, whose holder may be stopped or slow: the request is tried
//! again every millisecond, and the more of them meet such locks, the less time each of them gets, so the others' turns stay short.
//! A client that publishes faster than a subscriber's thread reads is parked, too (`holding.rs`).
mod busy;
mod frames;
mod hearing;
mod holding;
mod weighing;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use polder_base::time::{now_ms, now_us};
use polder_commands::command::{ALLOW_BUSY, PUBSUB, Run, SCRIPTS};
use polder_commands::debug::inside;
use polder_commands::settings::{Id, id};
use polder_commands::{Host, Progress, Session, TOGETHER_MAX, acl, execute, latency};
use polder_engine::{Counter, Memory, Outlook};
use polder_hub::ears::{has_mail, owes, settle};
use polder_shm::inbox::Pressed;
use polder_wire::Output;
use smallvec::SmallVec;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::batch::{Batch, Content, Frame, Odd, Spare};
use crate::connection::{Connection, Flow, Pool};
use crate::host::{Letter, Pause, Process};
use crate::limits::ServerLimits;
use crate::listener::{Arrival, Listener, prepare};
use crate::sessions::{Left, Protocol};
use frames::{calls_of, company, holds_back};
use hearing::Cast;
use holding::Holding;

/// The connections of a turn, and what each of them has sent.
type Turn<'t> = (&'t [usize], &'t [Vec<u8>]);

/// The token of the waker.
pub const WAKER: Token = Token(0);
/// The token of the bell.
const BELL: Token = Token(FIRST_CONNECTION - 1);
/// Listeners have the tokens after the waker's, connections those from here on.
const FIRST_CONNECTION: usize = 1024;
const EVENTS_MAX: usize = 1024;
/// How often idle clients and soft limits are looked at.
const SWEEP_MS: u64 = 1000;
/// How long accepting rests after the system had no descriptor or memory for one more.
const ACCEPT_REST_MS: u64 = 100;
/// How long a thread without a bell waits before it tries again to get one.
const BELL_REST_MS: u64 = 100;
/// How long room is made before a call of who tracks keys: as long as Redis evicts at once by default.
const ROOM: Duration = Duration::from_micros(500);
/// How long chores that were hurried because memory is beyond its limit are not hurried again.
const CROWD_MS: u64 = 10;
/// How much of the memory's chores is done at a time.
const CHORES_US: u64 = 500;
/// How soon what was swept is looked at again that somebody was reading.
const RECLAIM_MS: u64 = 1;
/// How often a thread frees some of what it has replaced, one after the other, at most: some milliseconds.
const RECLAIMS_MAX: usize = 16;
const HZ: Id = id("hz");
/// How long a stopping thread waits for others to close their doors, and for slow readers to take their replies.
const STOP_PATIENCE_MS: u64 = 2000;
/// How long a stopping thread waits for the first request of a client that has just come, so that where another server
/// takes over the port no one is turned away.
const NEWCOMER_GRACE_MS: u64 = 250;
/// How long a call may wait for locks, and how long after another call of the same turn has waited in vain.
const LOCK_PATIENCE_US: u64 = 100;
const SPENT_PATIENCE_US: u64 = 1;
/// How long after the last time those who wait for locks are tried again, and how many of them at once.
const LOCK_RETRY_US: u64 = 1000;
const LOCK_RETRIES_MAX: usize = 64;
/// How long is waited before something is tried again that others wait for.
const OWED_MS: u64 = 2;
/// How long a connection that is to be closed may take to read its last replies.
const CLOSE_PATIENCE_MS: u64 = 10_000;

/// One thread's loop.
pub struct Loop {
    number: usize,
    poll: Poll,
    process: Arc<Process>,
    listeners: Vec<Listener>,
    /// Which of the process's doors they are.
    doors_version: u64,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Connections that the next turn looks at.
    ready: Vec<usize>,
    /// Who waits for the end of a pause.
    parked: Vec<usize>,
    /// Who waits for a lock, when they are tried again, and how long the calls of this turn may wait.
    barred: VecDeque<usize>,
    retry_due_us: u64,
    patience_us: u64,
    /// Connections that publish faster than others read.
    holding: Holding,
    /// Whether it is counted what the clients take.
    weighs: bool,
    /// The clients of this thread, by their numbers.
    slots_by_client: HashMap<u64, usize>,
    /// Who waits for a key, by the end of his patience; and who has had his call run again behind a pause.
    deadlines: BTreeSet<(u64, u64)>,
    postponed: Vec<u64>,
    /// Who has something to be sent that is no answer to what he sent in this turn, and who waits no longer.
    told: Vec<usize>,
    cast: Cast,
    revived: Vec<usize>,
    /// Rings when the thread's inbox gets something while it sleeps.
    bell: Option<OwnedFd>,
    /// When it is tried again to hang it.
    bell_due_ms: u64,
    /// There are more letters than one turn reads.
    more_mail: bool,
    pool: Pool,
    spare: Spare,
    /// What is known of the calls of a batch; kept for its memory.
    outlook: Outlook,
    inputs: Vec<Vec<u8>>,
    /// Whose requests this turn has taken up.
    turning: Vec<usize>,
    /// Those of them whose part in the turn is over, because a script has become slow: their input is their own again.
    released: Vec<usize>,
    limits: ServerLimits,
    /// The version of the users that all sessions are of.
    users_version: u64,
    /// The clock of this turn, and when the last one ended.
    now_ms: u64,
    ended_us: u64,
    pause: Option<Pause>,
    sweep_due_ms: u64,
    /// When a listener that could not accept is tried again; 0 when none rests.
    accept_due_ms: u64,
    /// When it is looked again whether memory is beyond its limit.
    crowd_due_ms: u64,
    /// When room is made again before a call of who tracks keys.
    room_due_ms: u64,
    /// What the thread had changed when it was asked last whether it rests.
    changes_seen: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Loop {
    /// A loop that watches the doors of the process.
    ///
    /// # Errors
    /// When the poll takes no more descriptors.
    pub fn new(number: usize, poll: Poll, process: Arc<Process>) -> io::Result<Loop> {
        let limits = ServerLimits::of(&process.settings, process.ceiling());
        let mut turns = Loop {
            slots_by_client: HashMap::new(),
            deadlines: BTreeSet::new(),
            postponed: Vec::new(),
            told: Vec::new(),
            cast: Cast::default(),
            revived: Vec::new(),
            bell: None,
            bell_due_ms: 0,
            more_mail: false,
            number,
            poll,
            process,
            listeners: Vec::new(),
            doors_version: 0,
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            parked: Vec::new(),
            barred: VecDeque::new(),
            retry_due_us: 0,
            patience_us: LOCK_PATIENCE_US,
            holding: Holding::default(),
            weighs: false,
            pool: Pool::default(),
            spare: Spare::default(),
            outlook: Outlook::default(),
            inputs: Vec::new(),
            turning: Vec::new(),
            released: Vec::new(),
            limits,
            users_version: 0,
            now_ms: now_ms(),
            ended_us: now_us(),
            pause: None,
            sweep_due_ms: 0,
            accept_due_ms: 0,
            crowd_due_ms: 0,
            room_due_ms: 0,
            changes_seen: 0,
            bytes_in: 0,
            bytes_out: 0,
        };
        turns.watch_doors()?;
        Ok(turns)
    }

    /// Watches the doors that the process has now.
    fn watch_doors(&mut self) -> io::Result<()> {
        let (version, listeners) = self.process.listeners.share()?;
        for listener in self.listeners.drain(..) {
            // Its socket is that of other threads, too: to close it here would not end the watching.
            self.poll.registry().deregister(&mut SourceFd(&listener.socket.as_raw_fd()))?;
        }
        for (at, listener) in listeners.iter().enumerate() {
            self.poll.registry().register(&mut SourceFd(&listener.socket.as_raw_fd()), Token(at + 1), Interest::READABLE)?;
        }
        (self.listeners, self.doors_version) = (listeners, version);
        Ok(())
    }

    /// Learns whether the process listens elsewhere by now.
    fn look_at_doors(&mut self) {
        if self.doors_version != self.process.listeners.version()
            && let Err(error) = self.watch_doors()
        {
            tracing::error!(%error, "a thread cannot watch where clients come in; trying again");
        }
    }

    /// Turns until the process stops, then answers what has come and ends.
    pub fn run(mut self) {
        let _alarm = Alarm(self.process.clone());
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.process.is_stopping() {
            self.hang_bell();
            let patience = self.patience_ms();
            self.turn(&mut events, patience);
        }
        self.end(&mut events);
    }

    /// One turn, which waits for events no longer than `patience_ms`.
    fn turn(&mut self, events: &mut Events, patience_ms: u64) {
        let patience_ms = if patience_ms > 0 && !self.doze() { 0 } else { patience_ms };
        let polled = self.poll.poll(events, Some(Duration::from_millis(patience_ms)));
        self.rise();
        if let Err(error) = polled
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "the poll of a thread fails");
        }
        let began_us = now_us();
        self.now_ms = began_us / 1000;
        self.limits.refresh(&self.process.settings, self.process.ceiling());
        self.look_at_users();
        self.look_at_doors();
        self.pause = self.process.pause_at(self.now_ms);
        self.unpark();
        for event in events.iter() {
            self.notice(event);
        }
        self.read_letters();
        settle(self.process.memory.table());
        self.hear();
        self.retry_postponed();
        self.retry_barred(began_us);
        self.let_go();
        self.process.recorder().begin_turn();
        self.work();
        self.process.recorder().end_turn();
        self.look_at_clocks();
        self.weigh_all();
        self.ended_us = now_us();
        self.patience_us = LOCK_PATIENCE_US;
        // Newcomers who wait do not put the others' next time off.
        if !self.barred.is_empty() && self.retry_due_us <= began_us {
            self.retry_due_us = self.ended_us + LOCK_RETRY_US;
        }
        let stats = &self.process.mailboxes[self.number].stats;
        stats.turns.add(1);
        stats.turn_us.add(self.ended_us.saturating_sub(began_us));
    }

    /// Learns what has become of users, and closes the connections of those who are no more.
    fn look_at_users(&mut self) {
        let process = self.process.clone();
        let users = process.settings.users();
        users.refresh(process.memory.table());
        if self.users_version == users.version() {
            return;
        }
        self.users_version = users.version();
        for slot in 0..self.slots.len() {
            let Some(connection) = &mut self.slots[slot] else { continue };
            if acl::renew(&mut connection.session, users) == acl::Standing::Gone {
                self.close(slot);
            }
        }
    }

    /// What the loop may sleep: until something is due, not at all when a connection may have more.
    fn patience_ms(&self) -> u64 {
        if !self.ready.is_empty() || self.more_mail {
            return 0;
        }
        let now_ms = self.ended_us / 1000;
        let mut due_ms = now_ms + SWEEP_MS;
        if self.number == 0 && !inside::chores_rest() {
            due_ms = due_ms.min(self.process.chores_due_ms());
        }
        if self.accept_due_ms != 0 {
            due_ms = due_ms.min(self.accept_due_ms);
        }
        if let Some(pause) = self.process.pause_at(now_ms).filter(|_| !self.parked.is_empty() || !self.postponed.is_empty()) {
            due_ms = due_ms.min(pause.until_ms);
        }
        if !self.barred.is_empty() {
            due_ms = due_ms.min(self.retry_due_us.div_ceil(1000));
        }
        if let Some(look_ms) = self.holding.due_ms(now_ms) {
            due_ms = due_ms.min(look_ms);
        }
        if self.process.memory.table().is_relieving() {
            due_ms = due_ms.min(now_ms + RECLAIM_MS);
        }
        if owes(self.process.memory.table()) {
            due_ms = due_ms.min(now_ms + OWED_MS);
        }
        if self.bell.is_none() {
            due_ms = due_ms.min(self.bell_due_ms);
        }
        if let Some((until_ms, _)) = self.deadlines.first() {
            due_ms = due_ms.min(*until_ms);
        }
        due_ms.saturating_sub(now_ms)
    }

    fn notice(&mut self, event: &Event) {
        let Token(token) = event.token();
        if token < FIRST_CONNECTION {
            if Token(token) == BELL {
                return self.silence_bell();
            }
            if (1..=self.listeners.len()).contains(&token) {
                self.accept(token - 1);
            }
            return;
        }
        let slot = token - FIRST_CONNECTION;
        let Some(connection) = &mut self.slots[slot] else { return };
        if event.is_readable() || event.is_error() {
            connection.readable = true;
        }
        connection.half_closed |= event.is_read_closed();
        if connection.half_closed && connection.waits() {
            return self.close(slot);
        }
        if event.is_writable() {
            connection.blocked = false;
        }
        // The first event of a socket says that it takes bytes, which is no news.
        if (connection.readable || !connection.output.is_empty()) && !connection.queued {
            connection.queued = true;
            self.ready.push(slot);
        }
    }

    fn accept(&mut self, listener: usize) {
        let mut arrived = Vec::new();
        let most = self.limits.clients_max;
        if let Err(error) = self.listeners[listener].accept_all(&self.process.admission(most), &mut arrived) {
            // A thread that stops, or listens elsewhere, closes the listeners of all.
            if !self.process.is_stopping() && self.doors_version == self.process.listeners.version() {
                tracing::error!(%error, "a client cannot be accepted; trying again");
                self.accept_due_ms = self.now_ms + ACCEPT_REST_MS;
            }
        }
        for arrival in arrived {
            let thread = self.process.least_loaded();
            self.process.mailboxes[thread].burden();
            if thread == self.number || self.process.is_stopping() {
                self.adopt(arrival, thread);
            } else {
                self.process.mailboxes[thread].post(Letter::Adopt(arrival));
            }
        }
    }

    /// Begins to serve a client; `burdened` is the thread that counts it.
    fn adopt(&mut self, arrival: Arrival, burdened: usize) {
        // While a script runs, clients come and go in the midst of a turn: who was killed leaves requests behind that name his slot.
        let free = self.free.iter().rposition(|slot| !self.turning.contains(slot)).map(|at| self.free.swap_remove(at));
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let Arrival { socket, origin } = arrival;
        let prepared = if origin.door.is_local() { Ok(()) } else { prepare(&socket, self.limits.keepalive_seconds) };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(slot + FIRST_CONNECTION);
        let registered = prepared.and_then(|()| self.poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), token, interest));
        if let Err(error) = registered {
            tracing::debug!(%error, "a client went before it was served");
            self.free.push(slot);
            self.process.mailboxes[burdened].relieve();
            return self.process.clients.dismiss(origin.door);
        }
        let id = polder_hub::next_client(self.process.memory.table());
        let mut session = Session::connected(id, &*self.process, self.now_ms);
        session.parks = true;
        let door = origin.door;
        let record = self.process.clients.enter(id, burdened, origin, self.now_ms);
        record.show(&session);
        self.process.memory.table().count(Counter::Connections, 1);
        let connection = Connection {
            socket,
            session,
            door,
            protocol: Protocol::begin(door.protocol),
            input: Vec::new(),
            taken: 0,
            output: Output::default(),
            record,
            readable: true,
            half_closed: false,
            blocked: false,
            queued: true,
            told: false,
            parked: false,
            held_up: false,
            barred: false,
            waiting_note: 0,
            over_soft_since_ms: None,
        };
        connection.beat(0);
        self.slots_by_client.insert(id, slot);
        self.slots[slot] = Some(Box::new(connection));
        self.ready.push(slot);
    }

    fn read_letters(&mut self) {
        for letter in self.process.clone().mailboxes[self.number].open() {
            match letter {
                Letter::Adopt(arrival) => self.adopt(arrival, self.number),
                Letter::Close(id) => {
                    if let Some(slot) = self.slots_by_client.get(&id) {
                        self.close(*slot);
                    }
                }
                Letter::Unblock(id, with_error) => self.give_up(id, with_error),
            }
        }
    }

    /// Lets the parked go on if nothing holds them any more.
    fn unpark(&mut self) {
        if self.parked.is_empty() || self.pause.is_some() {
            return;
        }
        for slot in std::mem::take(&mut self.parked) {
            self.set_free(slot);
        }
    }

    /// Runs the calls again that a pause has kept from that.
    fn retry_postponed(&mut self) {
        if self.pause.is_none() {
            std::mem::take(&mut self.postponed).into_iter().for_each(|client| self.retry_waiting(client));
        }
    }

    /// Lets those who wait for locks try again, if it is time. Each time another one is the first, who has the most patience.
    fn retry_barred(&mut self, now_us: u64) {
        if self.barred.is_empty() || now_us < self.retry_due_us {
            return;
        }
        self.barred.rotate_left(1);
        let count = self.barred.len().min(LOCK_RETRIES_MAX);
        for slot in self.barred.drain(..count).collect::<Vec<_>>() {
            match &self.slots[slot] {
                Some(connection) if connection.waits() => self.retry_waiting(connection.session.id),
                _ => self.set_free(slot),
            }
        }
    }

    fn set_free(&mut self, slot: usize) {
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.parked = false;
        // Its call may ask who waits, and it does not.
        connection.beat(connection.output.waiting());
        if !connection.queued {
            connection.queued = true;
            self.ready.push(slot);
        }
    }

    /// Reads, executes and writes for everyone who is ready.
    fn work(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|slot| self.receive(*slot));
        // What has been read may have been sent after a pause that began since the turn did.
        self.pause = self.process.pause_at(self.now_ms);
        self.execute(&ready);
        for slot in ready.drain(..) {
            self.send(slot);
        }
        self.send_told();
        // Whoever has more to do was put into the new list, behind those who came meanwhile.
        if self.ready.is_empty() {
            self.ready = ready;
        }
        let table = self.process.memory.table();
        table.count(Counter::BytesIn, std::mem::take(&mut self.bytes_in));
        table.count(Counter::BytesOut, std::mem::take(&mut self.bytes_out));
    }

    /// Reads from a connection; answers whether it is still there.
    fn receive(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        connection.queued = false;
        if !connection.readable || connection.is_halted() || connection.is_backed_up() {
            return true;
        }
        let stats = &self.process.mailboxes[self.number].stats;
        stats.reads.add(1);
        match connection.receive(&mut self.pool) {
            Flow::Gone => {
                self.close(slot);
                return false;
            }
            Flow::Last(count) => {
                connection.readable = connection.half_closed;
                self.bytes_in += count as u64;
            }
            Flow::Some(count) => self.bytes_in += count as u64,
        }
        if self.limits.is_over_request_limit(connection.door, &connection.session, connection.input.len()) {
            tracing::warn!(client = connection.session.id, "closed: it reached client-query-buffer-limit");
            stats.query_limit_closed.add(1);
            self.close(slot);
            return false;
        }
        true
    }

    /// Executes all whole requests of the ready connections, in batches.
    fn execute(&mut self, ready: &[usize]) {
        let mut inputs = std::mem::take(&mut self.inputs);
        let mut spare = std::mem::take(&mut self.spare);
        inputs.extend(ready.iter().map(|slot| self.slots[*slot].as_mut().map_or(Vec::new(), |found| std::mem::take(&mut found.input))));
        self.turning.extend(ready.iter().zip(&inputs).filter(|(_, input)| !input.is_empty()).map(|(slot, _)| slot));
        let mut batch = Batch::new(&mut spare);
        for (place, slot) in ready.iter().enumerate().filter(|(place, _)| !inputs[*place].is_empty()) {
            let Some(mut at) = self.slots[*slot].as_ref().map(|connection| connection.taken) else { continue };
            while !self.released.contains(slot) && self.parse(*slot, place as u32, &inputs[place], &mut at, &mut batch) == Left::Perhaps {
                self.run_batch((ready, &inputs), &mut batch);
            }
        }
        self.run_batch((ready, &inputs), &mut batch);
        batch.end(&mut spare);
        for (slot, input) in ready.iter().zip(inputs.drain(..)) {
            // Who had sent nothing may have been read from meanwhile, beside a slow script.
            let taken_out = |connection: &&mut Box<Connection>| connection.input.is_empty() && !self.released.contains(slot);
            if let Some(connection) = self.slots[*slot].as_mut().filter(taken_out) {
                connection.input = input;
            }
        }
        self.turning.clear();
        self.released.clear();
        self.inputs = inputs;
        self.spare = spare;
    }

    fn parse<'b>(&mut self, slot: usize, place: u32, input: &'b [u8], at: &mut usize, batch: &mut Batch<'b>) -> Left {
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else {
            return Left::Nothing;
        };
        let Connection { protocol, session, .. } = &mut **connection;
        protocol.read(&self.limits, session, input, at, place, batch)
    }

    /// Prefetches what the batch will touch, then executes it. `turn`: the ready connections and their inputs.
    fn run_batch(&mut self, turn: Turn<'_>, batch: &mut Batch<'_>) {
        let ready = turn.0;
        let Batch { args, frames, odds } = &*batch;
        // One pin for all: those of the calls cost nothing then. Without a seat the calls say why themselves.
        let _pinned = self.process.memory.table().pinned();
        let mut outlook = std::mem::take(&mut self.outlook);
        let calls = frames.iter().map(|frame| match frame.content {
            Content::Args { from, to } => {
                let db = self.slots[ready[frame.place as usize]].as_ref().map_or(0, |connection| connection.session.db);
                (db, &args[from..to])
            }
            Content::Odd(_) => (0, &args[..0]),
        });
        self.process.memory.prefetch(calls, &mut outlook);
        let (mut last, mut number) = (None, 0);
        let seat = self.process.memory.table().seat();
        // What the thread has told others by itself is no client's.
        _ = seat.as_ref().map(|seat| seat.take_pressed());
        while let Some(frame) = frames.get(number) {
            let slot = ready[frame.place as usize];
            self.make_room_for(slot);
            // What has been said before a call comes before it: what the last one has caused, and what others had been answered already.
            if seat.as_ref().is_ok_and(|seat| seat.has_mail()) {
                self.hear();
            }
            if last.is_some_and(|last| last != slot) {
                self.after_calls(last);
            }
            if self.released.contains(&slot) {
                number += 1;
                continue;
            }
            number += self.run_frame(slot, &frames[number..], args, odds, (&outlook, number), turn);
            if let Some(pressed) = seat.as_ref().ok().and_then(|seat| seat.take_pressed()) {
                self.hold(slot, pressed);
            }
            last = Some(slot);
        }
        if has_mail(self.process.memory.table()) {
            self.hear();
        }
        self.after_calls(last);
        self.outlook = outlook;
        batch.clear();
    }

    /// Evicts what has to go before a call of who tracks keys, who is to hear of it before the reply: as in Redis, where each call makes room first.
    /// For no longer than Redis does it at once; what helps nothing waits, as with the chores.
    fn make_room_for(&mut self, slot: usize) {
        let tracks = self.slots[slot].as_ref().is_some_and(|connection| connection.session.tracking.is_some());
        let table = self.process.memory.table();
        if tracks && self.now_ms >= self.room_due_ms && table.is_crowded() {
            let hopeless = !table.make_room_within(ROOM);
            if hopeless || table.is_crowded() {
                self.room_due_ms = self.now_ms + CROWD_MS;
            }
        }
    }

    /// Runs the first of the requests in `frames`, and those behind it that share its transaction; answers how many are done with.
    /// `foresight` is what is known of the batch, and the first request's number in it.
    fn run_frame(
        &mut self,
        slot: usize,
        frames: &[Frame],
        args: &[&[u8]],
        odds: &[Odd],
        foresight: (&Outlook, usize),
        turn: Turn<'_>,
    ) -> usize {
        let frame = &frames[0];
        // What a listener was told before its call comes before the reply.
        if self.slots[slot].as_ref().is_some_and(|connection| connection.session.listens()) {
            self.end_cast();
        }
        let Some(connection) = &mut self.slots[slot] else { return 1 };
        if connection.is_halted() {
            return 1;
        }
        if self.pause.is_some_and(|pause| holds_back(pause, &connection.session, &self.process, frame.content, args, odds)) {
            connection.park();
            connection.record.postpone();
            self.parked.push(slot);
            return 1;
        }
        // While others are held back, each request is looked at by itself.
        let candidates = if self.pause.is_some() { &frames[..1] } else { frames };
        if matches!(frame.content, Content::Args { .. }) && self.runs_scripts(slot, foresight) {
            let host: &dyn Host = &*self.process;
            let session = self.slots[slot].as_ref().map(|connection| &connection.session);
            let many = session.map_or(1, |session| company(candidates, args, (session, host, &self.process.memory), foresight));
            let (done, progress) = self.run_long(slot, frame.note, &calls_of(&frames[..many.max(1)], args), turn);
            return self.after_frame(slot, frames, done, progress);
        }
        let Some(connection) = &mut self.slots[slot] else { return 1 };
        let Connection { session, output, door, .. } = &mut **connection;
        output.lend(|| self.pool.take());
        output.limit(self.limits.hard_output_of(door, session) as usize);
        session.turn_ms = self.now_ms;
        session.patience_us = self.patience_us;
        session.active_ms = self.now_ms;
        if foresight.0.command(foresight.1).is_some_and(|command| command.name == "CLIENT") {
            let last = frames.iter().take_while(|other| other.place == frame.place).last().unwrap_or(frame);
            connection.show_call(last.end - connection.taken);
        }
        let Connection { session, output, protocol, .. } = &mut **connection;
        let host: &dyn Host = &*self.process;
        let memory = &self.process.memory;
        let answered = |progress| ((progress == Progress::Answered).into(), progress);
        let (done, progress) = match frame.content {
            Content::Args { from, to } => {
                let groups = protocol.groups_replies();
                protocol.reply(output, frame.note, |reply| match company(candidates, args, (&*session, host, memory), foresight) {
                    many @ 2.. if groups => memory.execute_together(session, host, &calls_of(&frames[..many], args), reply),
                    _ => answered(memory.execute_foreseen(session, host, foresight.0, foresight.1, &args[from..to], reply)),
                })
            }
            Content::Odd(number) => match &odds[number] {
                Odd::Words(words) => {
                    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    protocol.reply(output, frame.note, |reply| answered(memory.execute(session, host, &args, reply)))
                }
                Odd::Nothing => (1, Progress::Answered),
                Odd::Rejected(rejection) => {
                    protocol.reject(rejection, session, host, output);
                    (1, Progress::Answered)
                }
            },
        };
        self.after_frame(slot, frames, done, progress)
    }

    /// What follows from how the first of `frames`, or so many of them, came out; answers how many are done with.
    fn after_frame(&mut self, slot: usize, frames: &[Frame], done: usize, progress: Progress) -> usize {
        let Some(connection) = &mut self.slots[slot] else { return 1 };
        let Connection { session, output, taken, barred, door, .. } = &mut **connection;
        if let Some(last) = frames[..done].last() {
            *taken = last.end;
        }
        // A call may have begun a pause or ended it, for those who come after it in the same pipeline, too.
        self.pause = self.process.pause_at(self.now_ms);
        if progress == Progress::Busy {
            polder_hub::ask::send(self.process.memory.table());
            self.patience_us = SPENT_PATIENCE_US;
            connection.barred = true;
            connection.park();
            self.barred.push_back(slot);
            return done.max(1);
        }
        *barred = false;
        if progress == Progress::Waiting {
            *taken = frames[0].end;
            self.begin_wait(slot, frames[0].note);
            return done.max(1);
        }
        let hard = self.limits.hard_output_of(door, session);
        // It is closed at the end of the turn; what it asked for beyond that would only take memory.
        if hard != 0 && output.waiting() as u64 > hard {
            session.closing = true;
        }
        if !session.unsure.is_empty() {
            let unsure = std::mem::take(&mut session.unsure);
            self.tell_unsure(slot, &unsure);
        }
        self.weigh_replies(slot);
        done
    }

    /// Renews what others see of a connection whose calls of a batch have been executed.
    fn after_calls(&mut self, slot: Option<usize>) {
        let Some(connection) = slot.and_then(|slot| self.slots[slot].as_mut()) else { return };
        let session = &connection.session;
        if session.multi.is_some() || session.last.is_some_and(|command| command.has(PUBSUB) || matches!(command.run, Run::Session(_))) {
            connection.record.show(session);
        }
    }

    /// Writes what waits, closes what is to be closed, and queues what has more to do.
    fn send(&mut self, slot: usize) {
        if self.is_over_output_limit(slot) {
            return self.close(slot);
        }
        let Some(connection) = &mut self.slots[slot] else { return };
        if connection.record.is_doomed() {
            return self.close(slot);
        }
        // Who reads the reply may ask at once, so it is shown as sent before it is. Who only listens has done nothing that would be news.
        if !connection.output.is_shared() {
            connection.beat(0);
        }
        let stats = &self.process.mailboxes[self.number].stats;
        while !connection.output.is_empty() && !connection.blocked {
            stats.writes.add(1);
            match connection.send() {
                Flow::Gone => return self.close(slot),
                Flow::Some(count) => self.bytes_out += count as u64,
                Flow::Last(count) => {
                    self.bytes_out += count as u64;
                    connection.blocked = true;
                }
            }
        }
        // A listener whose socket had been full is shown once more when all has gone.
        if !connection.output.is_empty() || connection.session.listens() && connection.record.activity().reply_bytes != 0 {
            connection.beat(connection.output.waiting());
        }
        self.weigh(slot);
        let Some(connection) = &mut self.slots[slot] else { return };
        connection.settle(&mut self.pool);
        if connection.output.is_empty() {
            connection.over_soft_since_ms = None;
            if connection.session.closing {
                connection.finish();
                return self.close(slot);
            }
        }
        if connection.readable && !connection.is_halted() && !connection.queued {
            connection.queued = true;
            self.ready.push(slot);
        }
    }

    /// Whether more waits to be sent to a connection than `client-output-buffer-limit` allows.
    fn is_over_output_limit(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        let limit = self.limits.output_of(connection.door, &connection.session);
        let waiting = connection.output.waiting() as u64;
        if limit.soft == 0 || waiting <= limit.soft {
            connection.over_soft_since_ms = None;
        } else if connection.over_soft_since_ms.is_none() {
            connection.over_soft_since_ms = Some(self.now_ms);
        }
        let over_soft = connection.over_soft_since_ms.is_some_and(|since_ms| self.now_ms - since_ms > limit.soft_seconds * 1000);
        let over = over_soft || limit.hard != 0 && waiting > limit.hard;
        if over {
            tracing::warn!(client = connection.session.id, bytes = waiting, "closed: it reached client-output-buffer-limit");
            self.process.mailboxes[self.number].stats.reply_limit_closed.add(1);
        }
        over
    }

    fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.slots[slot].take() else { return };
        connection.taken = connection.input.len();
        connection.settle(&mut self.pool);
        self.slots_by_client.remove(&connection.session.id);
        self.forget_ears(&mut connection.session);
        self.process.clients.leave(&connection.record);
        self.process.mailboxes[connection.record.thread].relieve();
        self.told.retain(|told| *told != slot);
        self.revived.retain(|revived| *revived != slot);
        if connection.parked {
            self.parked.retain(|parked| *parked != slot);
            self.barred.retain(|barred| *barred != slot);
            self.holding.forget(slot);
        }
        if connection.queued {
            self.ready.retain(|ready| *ready != slot);
        }
        self.free.push(slot);
    }

    /// Does what is due by the clock.
    fn look_at_clocks(&mut self) {
        if self.now_ms >= self.sweep_due_ms {
            self.sweep_due_ms = self.now_ms + SWEEP_MS;
            self.sweep();
            self.tick();
            // Or what it has replaced last would stay as long as it has nothing to do, and what it keeps at hand would be nobody's.
            self.reclaim();
            self.process.memory.table().rest(&mut self.changes_seen);
        }
        if self.process.memory.table().is_relieving() {
            self.reclaim();
        }
        self.end_waits();
        if self.accept_due_ms != 0 && self.now_ms >= self.accept_due_ms {
            self.accept_due_ms = 0;
            (0..self.listeners.len()).for_each(|listener| self.accept(listener));
        }
        // At once, so that who has written hears what that has evicted before anything else; but what helps nothing waits for the others.
        if self.now_ms >= self.crowd_due_ms && self.process.memory.table().is_crowded() {
            self.crowd_due_ms = self.now_ms + CROWD_MS;
            self.process.hurry_chores();
        }
        if !inside::chores_rest() && self.process.claim_chores(self.now_ms) {
            let process = &*self.process;
            let table = process.memory.table();
            let expiry_us = table.counter(Counter::ExpiryUs);
            let pause_ms = table.chores(CHORES_US).min(1000 / process.settings.number(HZ).clamp(1, 500) as u64);
            latency::note_event(process, "expire-cycle", table.counter(Counter::ExpiryUs).saturating_sub(expiry_us) / 1000);
            // Another process may have changed what all share.
            if let Err(stop) = process.settings.join(table) {
                tracing::error!(?stop, "the settings of the segment cannot be read");
            }
            process.recorder().sample(table, self.now_ms);
            process.keeper().attend(table, &process.settings);
            process.stop_if_removed();
            process.chores_done(now_ms() + pause_ms);
        }
    }

    /// Frees what the thread has replaced, as far as nobody reads it any more.
    fn reclaim(&self) {
        (0..RECLAIMS_MAX).take_while(|_| self.process.memory.table().reclaim()).for_each(drop);
    }

    /// Closes who has been idle, or has read too little, for too long.
    fn sweep(&mut self) {
        let timeout_ms = self.limits.timeout_seconds * 1000;
        for slot in 0..self.slots.len() {
            let Some(connection) = &self.slots[slot] else { continue };
            let idle_ms = self.now_ms.saturating_sub(connection.session.active_ms);
            let idle = timeout_ms != 0 && idle_ms > timeout_ms && !connection.parked;
            let stuck = connection.session.closing && idle_ms > CLOSE_PATIENCE_MS;
            if idle || stuck || self.is_over_output_limit(slot) {
                self.close(slot);
            }
        }
    }

    /// Accepts who waits, and ends the listening of all threads at once, so that another server on the port gets whoever comes then.
    fn close_doors(&mut self) {
        // This very turn may have gone elsewhere.
        self.look_at_doors();
        for listener in 0..self.listeners.len() {
            self.accept(listener);
            self.listeners[listener].rest();
        }
    }

    /// Accepts who waits, closes the doors, answers everything that has come, and closes all connections.
    fn end(mut self, events: &mut Events) {
        let patience_ms = now_ms() + STOP_PATIENCE_MS;
        self.close_doors();
        self.process.close_door();
        while !self.process.all_doors_closed() && now_ms() < patience_ms {
            self.turn(events, 1);
        }
        self.process.ignore_pauses();
        for slot in 0..self.slots.len() {
            if let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.queued) {
                connection.readable = true;
                connection.queued = true;
                self.ready.push(slot);
            }
        }
        let grace_ms = now_ms() + NEWCOMER_GRACE_MS;
        while self.now_ms < patience_ms {
            self.turn(events, 1);
            let grace = self.now_ms < grace_ms;
            let done = |connection: &Connection| {
                let parked = connection.parked && !connection.waits();
                connection.output.is_empty() && !parked && (connection.session.calls > 0 || !grace)
            };
            if self.ready.is_empty() && self.slots.iter().flatten().all(|connection| done(connection)) {
                break;
            }
        }
        for slot in 0..self.slots.len() {
            if let Some(connection) = &self.slots[slot] {
                connection.finish();
            }
            self.close(slot);
        }
    }
}

/// Stops the process when a thread panics: its clients would wait for ever, while another server can take them.
struct Alarm(Arc<Process>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a thread panicked: the server stops");
            self.0.close_door();
            self.0.stop();
        }
    }
}
