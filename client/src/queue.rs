//! Calls that are not written yet: one lane per database, those that jump apart from the others.
//!
//! ```text
//!   lane of database 3        bytes   [SELECT 3] [GET a] [SET b 1] [EVAL ...] [SELECT 3] [GET c]
//!                             calls      prefix      0        1         2                   3      each: where its bytes end, where its reply goes
//! ```
//!
//! A caller encodes straight into its lane's buffer under the queue's lock, which is held for that alone. The driver
//! takes whole lanes: buffer and calls change hands without a copy.
//!
//! Invariants:
//! 1. **Q1** Bytes and calls of a lane match: each byte behind the prefix belongs to just one call.
//! 2. **Q2** Each call runs in its lane's database. A lane's prefix selects it; behind a command that may leave the
//!    connection elsewhere (EVAL, EXEC, ...), the next call's own bytes begin with SELECT.
//! 3. **Q3** A group (transaction, pipeline) is one call with several replies, so nothing comes between its parts.
//! 4. **Q4** `count` and `bytes` are those of all lanes, prefixes not counted.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use crate::args;
use crate::due::Due;
use crate::error::Error;
use crate::options::Policy;
use crate::stats::{ClientStats, Traffic};
use crate::target::Target;
use crate::traits::Traits;

/// How a call is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub db: u32,
    pub jumps: bool,
    pub policy: Policy,
}

/// A call that waits to be written.
pub(crate) struct Queued {
    /// Where its bytes end in the lane's buffer; they begin where those of the call before it end.
    pub end: usize,
    pub target: Target,
    pub due: Option<Due>,
    pub traits: Traits,
    /// Whether its bytes begin with a SELECT of their own, whose reply comes first.
    pub selects: bool,
}

impl Queued {
    /// Takes those who wait for the call and whose deadline has passed, each with that deadline. Calls that share a flight by
    /// way of the cache have a deadline each. What is left in `due` is the next one.
    pub(crate) fn take_late(&mut self, now: Instant) -> impl Iterator<Item = (Target, Due)> + use<> {
        let mut late = Vec::new();
        if let Some(due) = self.due.filter(|due| due.at <= now) {
            self.due = None;
            match &mut self.target {
                Target::Withdrawn => {}
                Target::Cache(filling) => {
                    let (slots, next, are_left) = filling.take_late(now);
                    late.extend(slots.into_iter().map(|(slot, due)| (Target::Slot(slot), due)));
                    self.due = next;
                    if !are_left {
                        self.target = Target::Withdrawn;
                    }
                }
                target => late.push((std::mem::replace(target, Target::Withdrawn), due)),
            }
        }
        late.into_iter()
    }
}

/// A call that is to be sent to another server than the one whose queue it was in.
pub(crate) struct Stray {
    /// Its requests, framed, without a SELECT.
    pub request: Vec<u8>,
    pub db: u32,
    pub call: Queued,
}

/// What knows on which server of several a call belongs.
pub(crate) trait Guide: Send + Sync {
    /// A server refused a call because another one has its keys, or because it cannot run it now.
    fn redirect(&self, stray: Stray, refusal: &[u8]);
    /// A connection broke with calls that may be sent to another server.
    fn lost(&self, strays: Vec<Stray>);
    /// Host and port of servers that may be connected to, the best first.
    fn places(&self) -> Vec<(String, u16)>;
}

/// Names a call while it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    jumps: bool,
    db: u32,
    number: u64,
}

/// The calls of one database.
pub(crate) struct Lane {
    pub db: u32,
    /// The prefix (a SELECT of `db`), then the calls.
    pub bytes: Vec<u8>,
    pub prefix: usize,
    pub calls: VecDeque<Queued>,
    /// The lane holds no call with a lower number: the driver has taken those.
    first: u64,
    /// Whether the last of them leaves the connection's database uncertain.
    pub moved: bool,
    /// Whether calls may have been taken back: their bytes are cut out before the lane is written.
    withdrawn: bool,
}

impl Lane {
    fn new(db: u32, first: u64) -> Lane {
        let mut lane = Lane {
            db,
            bytes: Vec::new(),
            prefix: 0,
            calls: VecDeque::new(),
            first,
            moved: false,
            withdrawn: false,
        };
        lane.begin();
        lane
    }

    fn begin(&mut self) {
        args::encode(&("SELECT", self.db), &mut self.bytes);
        self.prefix = self.bytes.len();
        self.moved = false;
    }

    /// Cuts out the bytes of calls whose slots were abandoned.
    fn purge(&mut self) {
        if !std::mem::take(&mut self.withdrawn) {
            return;
        }
        let (mut kept, mut start) = (self.prefix, self.prefix);
        let bytes = &mut self.bytes;
        // A call that was withdrawn behind an EVAL took its SELECT with it; the next one needs one.
        let mut owed: Option<std::ops::Range<usize>> = None;
        let mut calls = VecDeque::with_capacity(self.calls.len());
        for mut call in self.calls.drain(..) {
            let range = start..call.end;
            start = call.end;
            if !call.target.is_wanted() {
                if call.selects {
                    owed = Some(0..self.prefix);
                }
                continue;
            }
            if let Some(select) = owed.take()
                && !call.selects
            {
                // The withdrawn call's bytes were at least as long as the SELECT that it began with.
                bytes.copy_within(select.clone(), kept);
                kept += select.len();
                call.selects = true;
            }
            let len = range.len();
            bytes.copy_within(range, kept);
            kept += len;
            call.end = kept;
            calls.push_back(call);
        }
        bytes.truncate(kept);
        self.moved = calls.back().is_some_and(|last| last.traits.moves);
        self.calls = calls;
    }
}

/// Lanes without calls are kept for the next ones up to this number, and removed beyond it.
const LANES_KEPT: usize = 64;

/// The lanes of one connection.
pub(crate) struct Queue {
    /// Those that jump, and the others.
    jumping: Vec<Lane>,
    normal: Vec<Lane>,
    /// The number of the next call.
    next: u64,
    count: usize,
    bytes: usize,
    calls_max: usize,
    bytes_max: usize,
    /// Whether the connection is up: calls that would rather fail than wait ask for it.
    pub(crate) is_up: bool,
    /// Whether the connection broke, or could not be opened, and has not come up since.
    pub(crate) is_failing: bool,
    /// Why no call can be taken any more.
    pub(crate) closed: Option<Error>,
    /// How long a closed client goes on connecting for the calls that it was still given.
    pub(crate) lingers_until: Option<Instant>,
    /// Whether this connection is one call's own: the only kind that takes calls that wait in the server.
    pub(crate) is_side: bool,
    /// Whether the connection is to end at once, with what is in flight.
    pub(crate) is_aborted: bool,
    /// Whether the connection holds state that a new one would not have (watched keys), so that a break ends it.
    pub(crate) ends_with_break: bool,
    /// The earliest deadline since the last look, of calls queued since then.
    pub(crate) earliest: Option<Instant>,
    /// Tasks that wait for room, and until when.
    waiting: Vec<(Waker, Option<Due>)>,
    /// Whether the driver has been told that there is something to write.
    pub(crate) told: bool,
    /// Calls that were refused because the queue was full or the connection down, those that were fired among them.
    refused: u64,
    /// Calls whose deadline passed.
    pub(crate) timed_out: u64,
    /// How often a connection was made and logged in.
    pub(crate) connects: u64,
    /// What the connection has carried.
    pub(crate) traffic: Traffic,
}

/// What became of a call that was handed in.
pub(crate) enum Pushed {
    Queued(Ticket),
    /// The queue is full, and the call's policy is to wait for room.
    Full,
    /// The call waits in the server: it wants a side connection.
    Aside,
}

impl Queue {
    pub(crate) fn new(calls_max: usize, bytes_max: usize) -> Queue {
        Queue {
            jumping: Vec::new(),
            normal: Vec::new(),
            next: 0,
            count: 0,
            bytes: 0,
            calls_max,
            bytes_max,
            is_up: false,
            is_failing: false,
            closed: None,
            lingers_until: None,
            is_side: false,
            is_aborted: false,
            ends_with_break: false,
            earliest: None,
            waiting: Vec::new(),
            told: false,
            refused: 0,
            timed_out: 0,
            connects: 0,
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a call that `encode` writes; `target` is taken if the call is queued.
    ///
    /// # Errors
    /// [`Error::NotSent`] by the call's policy; the error that closed the client; that of `encode`.
    pub(crate) fn push(
        &mut self,
        route: Route,
        target: &mut Option<Target>,
        due: Option<Due>,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<Traits, Error>,
    ) -> Result<Pushed, Error> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        if !self.is_up && route.policy == Policy::FailFast {
            self.refused += 1;
            return Err(Error::not_sent(
                "the connection is down; the policy of this call is to fail at once",
            ));
        }
        if self.is_full() {
            self.purge();
        }
        let is_full = self.is_full();
        let lane =
            lane_of(if route.jumps { &mut self.jumping } else { &mut self.normal }, route.db, self.next);
        let before = lane.bytes.len();
        let selects = lane.moved;
        if selects {
            lane.bytes.extend_from_within(..lane.prefix);
        }
        let traits = match encode(&mut lane.bytes) {
            Ok(traits) => traits,
            Err(error) => {
                lane.bytes.truncate(before);
                return Err(error);
            }
        };
        if traits.blocks && !self.is_side {
            lane.bytes.truncate(before);
            if target.is_none() {
                // Nothing waits for a reply, and a call that waits in the server for it is no call to forget.
                self.refused += 1;
                return Err(Error::usage(
                    "a call that waits in the server cannot be made and forgotten: call it, and keep its future",
                ));
            }
            return Ok(Pushed::Aside);
        }
        // Only now: a call that waits in the server needs no room here.
        if is_full {
            lane.bytes.truncate(before);
            if route.policy == Policy::Block {
                return Ok(Pushed::Full);
            }
            self.refused += 1;
            return Err(Error::not_sent(format!(
                "the queue is full ({} calls, {} bytes); wait, or raise queue_calls_max or queue_bytes_max",
                self.count, self.bytes
            )));
        }
        lane.moved = traits.moves;
        self.count += 1;
        self.bytes += lane.bytes.len() - before;
        let number = self.next;
        self.next += 1;
        let target = target.take().unwrap_or(Target::Nowhere);
        lane.calls.push_back(Queued { end: lane.bytes.len(), target, due, traits, selects });
        self.note_deadline(due);
        Ok(Pushed::Queued(Ticket { jumps: route.jumps, db: route.db, number }))
    }

    /// Takes back a call if it has not been taken by the driver; its slot is abandoned already.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        let lanes = if ticket.jumps { &mut self.jumping } else { &mut self.normal };
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.db == ticket.db)
            && ticket.number >= lane.first
        {
            lane.withdrawn = true;
        }
        if ticket.jumps {
            // After a break it may wait among the others.
            self.normal.iter_mut().for_each(|lane| lane.withdrawn = true);
        }
    }

    /// Wakes `waker` when there is room again, or when the call's deadline passes.
    pub(crate) fn wait_for_room(&mut self, waker: &Waker, due: Option<Due>) {
        // One task may wait with several calls: it is woken for the earliest of their deadlines.
        match self.waiting.iter_mut().find(|(waiting, _)| waiting.will_wake(waker)) {
            Some((_, earliest))
                if earliest.is_none_or(|earliest| due.is_some_and(|due| due.at < earliest.at)) =>
            {
                *earliest = due
            }
            Some(_) => {}
            None => self.waiting.push((waker.clone(), due)),
        }
        self.note_deadline(due);
    }

    fn note_deadline(&mut self, due: Option<Due>) {
        self.earliest = earlier(self.earliest, due.map(|due| due.at));
    }

    /// The tasks that waited for room, if there is some, and those whose deadline has passed.
    pub(crate) fn may_go_on(&mut self, now: Instant) -> Vec<Waker> {
        let room = !self.is_full();
        let due = |due: Option<Due>| due.is_some_and(|due| due.at <= now);
        let (go, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, at)| room || due(*at));
        for (_, due) in &stay {
            self.note_deadline(*due);
        }
        self.waiting = stay;
        go.into_iter().map(|(waker, _)| waker).collect()
    }

    fn is_full(&self) -> bool {
        self.count >= self.calls_max || self.bytes >= self.bytes_max
    }

    /// Forgets calls that were taken back.
    fn purge(&mut self) {
        let lanes = self.jumping.iter_mut().chain(&mut self.normal);
        (self.count, self.bytes) = lanes.fold((0, 0), |(count, bytes), lane| {
            lane.purge();
            (count + lane.calls.len(), bytes + lane.bytes.len() - lane.prefix)
        });
    }

    /// Visits the lanes that hold calls, those that jump first; `take` returns whether it took a lane's calls ([`Batch::of`]).
    pub(crate) fn visit(&mut self, mut take: impl FnMut(&mut Lane) -> bool) {
        let next = self.next;
        for lane in self.jumping.iter_mut().chain(&mut self.normal) {
            let (calls, bytes) = (lane.calls.len(), lane.bytes.len() - lane.prefix);
            if calls > 0 && take(lane) {
                self.count -= calls;
                self.bytes -= bytes;
                lane.first = next;
            }
        }
        for lanes in [&mut self.jumping, &mut self.normal] {
            if lanes.len() > LANES_KEPT {
                lanes.retain(|lane| !lane.calls.is_empty());
            }
        }
    }

    /// Puts calls back in front of a lane: their connection broke, and they may be sent again.
    pub(crate) fn put_back(&mut self, db: u32, again: Vec<(Vec<u8>, Queued)>) {
        let lane = lane_of(&mut self.normal, db, self.next);
        let old = std::mem::take(&mut lane.bytes);
        let prefix = lane.prefix;
        let mut start = prefix;
        let mut waiting: Vec<(Vec<u8>, Queued)> = Vec::with_capacity(lane.calls.len());
        for call in lane.calls.drain(..) {
            let skip = if call.selects { prefix } else { 0 };
            waiting.push((old[start + skip..call.end].to_vec(), call));
            start = waiting.last().map_or(start, |(_, call)| call.end);
        }
        // Each request again, with a SELECT in front where Q2 wants one.
        lane.begin();
        for (request, mut call) in again.into_iter().chain(waiting) {
            call.selects = lane.moved;
            if call.selects {
                lane.bytes.extend_from_within(..prefix);
            }
            lane.bytes.extend_from_slice(&request);
            call.end = lane.bytes.len();
            lane.moved = call.traits.moves;
            if let Some(due) = call.due {
                self.earliest = Some(self.earliest.map_or(due.at, |earliest| earliest.min(due.at)));
            }
            lane.calls.push_back(call);
        }
        // The numbers of calls that were put back are below those of the lane's others, so a withdrawal is noted for every
        // number, and the purge looks at the slots.
        lane.first = 0;
        lane.withdrawn = true;
        self.purge();
    }

    /// Takes all calls out, to be sent elsewhere.
    pub(crate) fn take_all(&mut self) -> Vec<Stray> {
        self.purge();
        let mut strays = Vec::new();
        for lane in self.jumping.iter_mut().chain(&mut self.normal) {
            let mut start = lane.prefix;
            for call in lane.calls.drain(..) {
                let skip = if call.selects { lane.prefix } else { 0 };
                let request = lane.bytes[start + skip..call.end].to_vec();
                start = call.end;
                strays.push(Stray { request, db: lane.db, call: Queued { selects: false, ..call } });
            }
            lane.first = self.next;
            lane.bytes.truncate(lane.prefix);
            lane.moved = false;
        }
        (self.count, self.bytes) = (0, 0);
        strays
    }

    /// Appends a call that another queue has accepted: there is room for it in any case.
    ///
    /// # Errors
    /// Why no call can be taken any more.
    pub(crate) fn append(&mut self, stray: Stray) -> Result<(), (Target, Error)> {
        let Stray { request, db, mut call } = stray;
        if let Some(error) = &self.closed {
            return Err((call.target, error.clone()));
        }
        let lane = lane_of(&mut self.normal, db, self.next);
        let before = lane.bytes.len();
        call.selects = lane.moved;
        if call.selects {
            lane.bytes.extend_from_within(..lane.prefix);
        }
        lane.bytes.extend_from_slice(&request);
        lane.moved = call.traits.moves;
        // Its ticket names a call of another queue: whether it is still wanted is looked at before it is written.
        lane.withdrawn = true;
        call.end = lane.bytes.len();
        self.bytes += lane.bytes.len() - before;
        let due = call.due;
        lane.calls.push_back(call);
        self.count += 1;
        self.next += 1;
        self.note_deadline(due);
        Ok(())
    }

    /// Visits all calls; `ends` is told the database, the call, and how many calls go before it. Calls whose targets it has
    /// withdrawn are taken out.
    pub(crate) fn end(&mut self, mut ends: impl FnMut(u32, &mut Queued, usize)) {
        let (mut ahead, mut withdrawn) = (0, false);
        for lane in self.jumping.iter_mut().chain(&mut self.normal) {
            for call in &mut lane.calls {
                ends(lane.db, call, ahead);
                ahead += 1;
                lane.withdrawn |= matches!(call.target, Target::Withdrawn);
            }
            withdrawn |= lane.withdrawn;
        }
        if withdrawn {
            self.purge();
        }
    }

    /// Takes all calls away, to be ended when the queue's lock has been given back.
    pub(crate) fn drain(&mut self) -> Drained {
        let mut targets = Vec::new();
        for lane in self.jumping.iter_mut().chain(&mut self.normal) {
            lane.first = self.next;
            targets.extend(lane.calls.drain(..).map(|call| call.target));
            lane.bytes.truncate(lane.prefix);
            lane.moved = false;
            lane.withdrawn = false;
        }
        (self.count, self.bytes) = (0, 0);
        Drained {
            targets,
            wakers: std::mem::take(&mut self.waiting).into_iter().map(|(waker, _)| waker).collect(),
        }
    }

    /// Whether a closed client is to give up the calls that it could not send.
    pub(crate) fn gives_up(&self, now: Instant) -> bool {
        let lingers = self.count > 0 && self.lingers_until.is_some_and(|until| now < until);
        self.closed.is_some() && (self.is_aborted || !lingers)
    }

    /// The connection is up.
    pub(crate) fn logged_in(&mut self) {
        (self.is_up, self.is_failing) = (true, false);
        self.connects += 1;
    }

    pub(crate) fn stats(&self) -> ClientStats {
        ClientStats {
            is_up: self.is_up,
            calls: self.next,
            calls_refused: self.refused,
            calls_timed_out: self.timed_out,
            queued_calls: self.count,
            queued_bytes: self.bytes,
            connects: self.connects,
            traffic: self.traffic,
        }
    }

    pub(crate) fn len(&self) -> (usize, usize) {
        (self.count, self.bytes)
    }
}

/// The earlier of two times.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The lane of a database, made if there is none.
fn lane_of(lanes: &mut Vec<Lane>, db: u32, first: u64) -> &mut Lane {
    let at = lanes.iter().position(|lane| lane.db == db).unwrap_or_else(|| {
        lanes.push(Lane::new(db, first));
        lanes.len() - 1
    });
    &mut lanes[at]
}

/// Calls that are given up, and tasks that waited for room. Waking a task may run code of the program, which may make the next
/// call: never under the queue's lock.
#[must_use = "calls that are never ended would be waited for without end"]
#[derive(Default)]
pub(crate) struct Drained {
    targets: Vec<Target>,
    wakers: Vec<Waker>,
}

impl Drained {
    /// Ends the calls with an error and wakes the tasks.
    pub(crate) fn end(self, error: &Error) {
        self.targets.into_iter().for_each(|target| target.complete(Err(error.clone())));
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

/// A lane's calls on their way to the server.
pub(crate) struct Batch {
    pub db: u32,
    pub bytes: Vec<u8>,
    pub prefix: usize,
    pub calls: VecDeque<Queued>,
    pub moved: bool,
}

impl Batch {
    /// Takes over what a lane holds; the lane goes on with the memory of an earlier batch.
    pub(crate) fn of(lane: &mut Lane, spare: Option<(Vec<u8>, VecDeque<Queued>)>) -> Batch {
        lane.purge();
        let (mut bytes, mut calls) = spare.unwrap_or_default();
        bytes.clear();
        calls.clear();
        std::mem::swap(&mut bytes, &mut lane.bytes);
        std::mem::swap(&mut calls, &mut lane.calls);
        let (prefix, moved) = (lane.prefix, lane.moved);
        lane.begin();
        Batch { db: lane.db, bytes, prefix, calls, moved }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::slot::Slot;

    fn route(db: u32, policy: Policy) -> Route {
        Route { db, jumps: false, policy }
    }

    fn push(queue: &mut Queue, db: u32) -> (Arc<Slot>, Ticket) {
        let slot = Arc::new(Slot::default());
        let mut target = Some(Target::Slot(Arc::clone(&slot)));
        let pushed = queue.push(route(db, Policy::Queue), &mut target, None, |bytes| {
            args::encode(&("INCR", "n"), bytes);
            Ok(Traits::SINGLE)
        });
        let Ok(Pushed::Queued(ticket)) = pushed else { panic!("the call is queued") };
        (slot, ticket)
    }

    #[test]
    fn lanes_of_databases_that_are_not_used_are_removed() {
        let mut queue = Queue::new(10_000, 1 << 20);
        for db in 0..1000 {
            push(&mut queue, db);
            queue.visit(|lane| !Batch::of(lane, None).calls.is_empty());
            assert!(queue.normal.len() <= LANES_KEPT + 1, "database {db}: {} lanes", queue.normal.len());
        }
        assert_eq!(queue.len(), (0, 0));
    }

    #[test]
    fn a_call_can_be_taken_back_after_its_lane_was_removed_and_made_again() {
        let mut queue = Queue::new(10_000, 1 << 20);
        let (_, taken) = push(&mut queue, 5000);
        for db in 0..1000 {
            push(&mut queue, db);
        }
        queue.visit(|lane| !Batch::of(lane, None).calls.is_empty());
        let (slot, ticket) = push(&mut queue, 5000);
        queue.withdraw(taken);
        assert!(!queue.normal.iter().any(|lane| lane.withdrawn));
        slot.abandon();
        queue.withdraw(ticket);
        queue.purge();
        assert_eq!(queue.len(), (0, 0));
    }

    /// Counts its wake-ups.
    struct Counting(AtomicUsize);

    impl std::task::Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_that_waits_for_room_with_two_calls_is_woken_for_the_earlier_deadline() {
        let mut queue = Queue::new(1, 1 << 20);
        push(&mut queue, 0);
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&counting));
        let made = Instant::now();
        let due = |millis| Some(Due { made, at: made + Duration::from_millis(millis) });
        queue.wait_for_room(&waker, None);
        queue.wait_for_room(&waker, due(50));
        queue.wait_for_room(&waker, due(80));
        assert_eq!(queue.earliest, due(50).map(|due| due.at));
        let go = queue.may_go_on(made + Duration::from_millis(60));
        assert_eq!(go.len(), 1, "its second call is late");
    }

    #[test]
    fn tasks_that_wait_for_room_are_not_woken_under_the_lock() {
        let mut queue = Queue::new(1, 1 << 20);
        push(&mut queue, 0);
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        queue.wait_for_room(&Waker::from(Arc::clone(&counting)), None);
        let drained = queue.drain();
        assert_eq!(counting.0.load(Ordering::Relaxed), 0, "the caller still holds the lock");
        drained.end(&Error::not_sent("the client was closed"));
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
    }
}
