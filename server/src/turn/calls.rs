//! From the input of a turn to calls: batches are parsed, prefetched together, and executed one by one.
//!
//! **Invariant E1:** replies are written in the order of the requests of each connection.
//! **Invariant E2:** a message that was published before a call is written in front of that call's reply.
use std::time::Duration;

use polder_calls::command::{
    CONTAINER, Command, MAY_WRITE, OWN_CONNECTION, PUBSUB, RUNS_QUEUE, Run, SCRIPTS,
};
use polder_engine::BatchPlan;
use polder_hub::has_messages;
use polder_runtime::{Host, Progress};

use super::clocks::CROWD_MS;
use super::connections::{Connections, TurnInputs};
use super::frames::{calls_of, group, holds_back};
use super::service::Service;
use crate::connection::Connection;
use crate::holds::Written;
use polder_protocols::batch::{Batch, Content, Frame, Left, Odd, Spare};

/// How long room is made before a call of a client that tracks keys: as long as Redis evicts at once by default.
const ROOM: Duration = Duration::from_micros(500);

/// The memory of batches between turns.
#[derive(Default)]
pub struct Calls {
    spare: Spare,
    /// What the prefetch has found out about the calls of a batch.
    plan: BatchPlan,
    inputs: Vec<Vec<u8>>,
    /// When room is made again before a call of a client that tracks keys.
    room_due_ms: u64,
}

impl Calls {
    /// Executes all whole requests of the ready connections, in batches.
    #[inline]
    pub fn execute(&mut self, service: &mut Service, ready: &[usize]) {
        let mut inputs = std::mem::take(&mut self.inputs);
        let mut spare = std::mem::take(&mut self.spare);
        let connections = &mut service.connections;
        inputs.extend(ready.iter().map(|slot| {
            connections.slots[*slot].as_mut().map_or(Vec::new(), |found| std::mem::take(&mut found.input))
        }));
        connections
            .in_turn
            .taken
            .extend(ready.iter().zip(&inputs).filter(|(_, input)| !input.is_empty()).map(|(slot, _)| slot));
        let mut batch = Batch::new(&mut spare);
        for (place, slot) in ready.iter().enumerate().filter(|(place, _)| !inputs[*place].is_empty()) {
            let Some(mut at) = service.connections.slots[*slot].as_ref().map(|connection| connection.taken)
            else {
                continue;
            };
            while !service.connections.in_turn.released.contains(slot)
                && service.connections.parse(*slot, place as u32, &inputs[place], &mut at, &mut batch)
                    == Left::Perhaps
            {
                self.run_batch(service, (ready, &inputs), &mut batch);
            }
        }
        self.run_batch(service, (ready, &inputs), &mut batch);
        batch.end(&mut spare);
        let connections = &mut service.connections;
        for (slot, input) in ready.iter().zip(inputs.drain(..)) {
            // A connection that had sent nothing may have been read from meanwhile, beside a slow script.
            let taken_out = |connection: &&mut Box<Connection>| {
                connection.input.is_empty() && !connections.in_turn.released.contains(slot)
            };
            if let Some(connection) = connections.slots[*slot].as_mut().filter(taken_out) {
                connection.input = input;
            }
        }
        connections.in_turn.taken.clear();
        connections.in_turn.released.clear();
        self.inputs = inputs;
        self.spare = spare;
    }

    /// Prefetches what the batch will touch, then executes it.
    fn run_batch(&mut self, service: &mut Service, turn: TurnInputs<'_>, batch: &mut Batch<'_>) {
        let ready = turn.0;
        // One pin for all calls, which makes their own cost nothing. Without a seat the calls themselves fail with the reason.
        let _pinned = service.connections.process.memory.table().pinned();
        let Calls { plan, room_due_ms, .. } = self;
        let calls = batch.frames.iter().map(|frame| match frame.content {
            Content::Args { from, to } => {
                let connection = service.connections.slots[ready[frame.place as usize]].as_ref();
                (connection.map_or(0, |connection| connection.session.caller.db), &batch.args[from..to])
            }
            Content::Odd(_) => (0, &batch.args[..0]),
        });
        service.connections.process.memory.prefetch(calls, plan);
        let (mut last, mut number) = (None, 0);
        let seat = service.connections.process.memory.table().seat();
        // Messages that the thread itself has sent between batches are no client's.
        _ = seat.as_ref().map(|seat| seat.take_pressed());
        while let Some(frame) = batch.frames.get(number) {
            let slot = ready[frame.place as usize];
            make_room_for(room_due_ms, &service.connections, slot);
            // E2: messages that the last call has caused, and messages from other threads.
            if seat.as_ref().is_ok_and(|seat| seat.has_messages()) {
                service.connections.hear();
            }
            if last.is_some_and(|last| last != slot) {
                service.connections.show_session(last);
            }
            if service.connections.in_turn.released.contains(&slot) {
                number += 1;
                continue;
            }
            number += service.run_frame(slot, number, batch, plan, turn);
            if let Some(pressed) = seat.as_ref().ok().and_then(|seat| seat.take_pressed()) {
                service.connections.hold(slot, pressed);
            }
            last = Some(slot);
        }
        if has_messages(service.connections.process.memory.table()) {
            service.connections.hear();
        }
        service.connections.show_session(last);
        batch.clear();
    }
}

/// Evicts before a call of a client that tracks keys what must go, so that the client hears of it before the reply. Redis
/// makes room before each call, too. This takes no longer than Redis takes at once; after an attempt that frees too little
/// it waits for the maintenance.
#[inline]
fn make_room_for(room_due_ms: &mut u64, connections: &Connections, slot: usize) {
    let tracks = connections.slots[slot]
        .as_ref()
        .is_some_and(|connection| connection.session.listening.tracking.is_some());
    let table = connections.process.memory.table();
    if tracks && connections.now_ms >= *room_due_ms && table.is_crowded() {
        let hopeless = !table.make_room_within(ROOM);
        if hopeless || table.is_crowded() {
            *room_due_ms = connections.now_ms + CROWD_MS;
        }
    }
}

/// Whether a call may change something.
fn may_write(command: &Command) -> bool {
    // The rows of subcommands are not known here.
    command.is_write() || command.has(SCRIPTS | RUNS_QUEUE | MAY_WRITE | CONTAINER)
}

impl Service {
    /// Runs the request `number` of the batch, and those behind it that share its transaction; returns how many are done.
    #[inline(always)]
    fn run_frame(
        &mut self,
        slot: usize,
        number: usize,
        batch: &Batch<'_>,
        plan: &BatchPlan,
        turn: TurnInputs<'_>,
    ) -> usize {
        let Batch { args, frames, odds } = batch;
        let (frames, hint) = (&frames[number..], (plan, number));
        let frame = &frames[0];
        if !self.connections.may_run(slot, frame, batch) {
            return 1;
        }
        let work = self.connections.work_of(slot);
        // During a pause each request is looked at by itself.
        let candidates = if self.connections.waiters.pause.is_some() { &frames[..1] } else { frames };
        if let Some(done) = self.run_scripts(slot, candidates, batch, hint, turn) {
            return done;
        }
        let connections = &mut self.connections;
        let Some(connection) = &mut connections.slots[slot] else { return 1 };
        let Connection { session, output, door, protocol, .. } = &mut **connection;
        output.lend(|| connections.pool.take());
        output.limit(connections.limits.hard_output_of(door, protocol.is_nats(), session) as usize);
        session.clock.begin_call(connections.now_ms, connections.waiters.patience_us);
        if plan.command(number).is_some_and(|command| command.has(OWN_CONNECTION)) {
            let last = frames.iter().take_while(|other| other.place == frame.place).last().unwrap_or(frame);
            connection.show_call(last.end - connection.taken);
        }
        let Connection { session, output, protocol, .. } = &mut **connection;
        let host: &dyn Host = &*connections.process;
        let memory = &connections.process.memory;
        let answered = |progress| ((progress == Progress::Answered).into(), progress);
        let (done, progress) = match frame.content {
            Content::Args { from, to } => {
                let groups = protocol.groups_replies();
                protocol.reply(output, frame.note, |reply| {
                    match group(candidates, args, (&*session, host, memory), hint) {
                        many @ 2.. if groups => {
                            memory.execute_together(session, host, &calls_of(&frames[..many], args), reply)
                        }
                        _ => answered(memory.execute_foreseen(
                            session,
                            host,
                            plan,
                            number,
                            &args[from..to],
                            reply,
                        )),
                    }
                })
            }
            Content::Odd(number) => answered(connection.run_odd(&odds[number], frame.note, (host, memory))),
        };
        connection.protocol.note_done(&frames[..done], args);
        let perhaps = connections.disk.is_on()
            && (0..done.max(1)).any(|at| plan.command(number + at).is_none_or(may_write));
        let written = match perhaps && connections.disk.replicas > 0 {
            true => connections.written(
                slot,
                work,
                progress,
                (0..done.max(1)).map(|at| plan.command(number + at)),
            ),
            false => Written { perhaps, surely: false },
        };
        connections.after_frame(slot, frames, (done, written), progress, (args, hint))
    }

    /// Runs the first of `frames` if it runs scripts, which may take long, and those behind it that share its transaction; returns
    /// how many are done.
    #[inline(always)]
    fn run_scripts(
        &mut self,
        slot: usize,
        frames: &[Frame],
        batch: &Batch<'_>,
        hint: (&BatchPlan, usize),
        turn: TurnInputs<'_>,
    ) -> Option<usize> {
        let Batch { args, odds, .. } = batch;
        let frame = &frames[0];
        if matches!(frame.content, Content::Args { .. }) && self.runs_scripts(slot, hint) {
            let process = &self.connections.process;
            let (host, memory): (&dyn Host, _) = (&**process, &process.memory);
            let connection = self.connections.slots[slot]
                .as_ref()
                .filter(|connection| connection.protocol.groups_replies());
            let many = connection
                .map_or(1, |connection| group(frames, args, (&connection.session, host, memory), hint));
            let work = self.connections.work_of(slot);
            let (done, progress) =
                self.run_long(slot, frame.note, &calls_of(&frames[..many.max(1)], args), turn);
            let written = self.connections.written(slot, work, progress, std::iter::empty());
            return Some(self.connections.after_frame(slot, frames, (done, written), progress, (args, hint)));
        }
        if let Content::Odd(odd) = frame.content
            && let Odd::Words(words) = &odds[odd]
            && self.words_run_scripts(slot, words)
        {
            let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let work = self.connections.work_of(slot);
            let (done, progress) = self.run_long(slot, frame.note, &[&args], turn);
            let written = self.connections.written(slot, work, progress, std::iter::empty());
            return Some(self.connections.after_frame(
                slot,
                frames,
                (done, written),
                progress,
                (&batch.args, hint),
            ));
        }
        None
    }
}

impl Connections {
    /// Whether a request may run now. Else it has been answered or is not answered any more, or its connection waits for the end of a pause.
    #[inline]
    fn may_run(&mut self, slot: usize, frame: &Frame, batch: &Batch<'_>) -> bool {
        // E2: a subscriber is told what came before its call.
        if self.slots[slot].as_ref().is_some_and(|connection| connection.session.listens()) {
            self.end_broadcast();
        }
        let Some(connection) = &self.slots[slot] else { return false };
        if connection.is_halted() {
            return false;
        }
        if let Some(reject) = self.turns_away {
            self.reject(slot, frame, batch, reject);
            return false;
        }
        let pause = self.waiters.pause;
        if pause.is_some_and(|pause| {
            holds_back(pause, &connection.session, &self.process, frame.content, &batch.args, &batch.odds)
        }) {
            self.wait_for_pause(slot);
            return false;
        }
        true
    }

    /// Returns what calls have written: `before` is what [`Connections::work_of`] has returned when they began. One that found what it was to write, and has
    /// changed nothing, tells of an earlier write, so its reply waits as well; that of a refused one does not.
    #[cold]
    fn written<'c>(
        &self,
        slot: usize,
        before: (u64, u64),
        progress: Progress,
        commands: impl Iterator<Item = Option<&'c Command>>,
    ) -> Written {
        let (commits, refused) = self.work_of(slot);
        let session = self.slots[slot].as_ref().map(|connection| &connection.session);
        // The plan knows neither subcommands nor calls that do not come as plain words.
        let last = session.and_then(|session| session.tally.last);
        let (mut writes, mut calls) = (false, 0);
        for command in commands {
            let command = command.filter(|command| !command.has(CONTAINER)).or(last);
            writes |= command.is_some_and(|command| command.is_write());
            calls += 1;
        }
        let is_refused = refused.wrapping_sub(before.1) >= calls;
        let is_queued = session.is_some_and(|session| session.multi.is_some());
        let has_found = writes && progress == Progress::Answered && !is_refused && !is_queued;
        Written { perhaps: true, surely: commits != before.0 || has_found }
    }

    /// What follows from the progress of the first `done` of `frames`; returns how many of them are done.
    #[inline(always)]
    fn after_frame(
        &mut self,
        slot: usize,
        frames: &[Frame],
        (done, written): (usize, Written),
        progress: Progress,
        (args, hint): (&[&[u8]], (&BatchPlan, usize)),
    ) -> usize {
        let Some(connection) = &mut self.slots[slot] else { return 1 };
        if written.perhaps {
            connection.disk.written.add(written);
        }
        let Connection { session, output, taken, turn, door, protocol, .. } = &mut **connection;
        if let Some(last) = frames[..done].last() {
            *taken = last.end;
        }
        // A call may have begun or ended a pause, also for the requests behind it in the same pipeline.
        self.waiters.pause = self.process.pause_at(self.now_ms);
        if progress == Progress::Busy {
            polder_hub::query::send(self.process.memory.table());
            let (plan, number) = hint;
            if !self.wait_for_values(slot, &frames[done..], args, (plan, number + done)) {
                self.wait_for_lock(slot);
            }
            return done.max(1);
        }
        turn.barred = false;
        if progress == Progress::Waiting {
            *taken = frames[0].end;
            self.begin_wait(slot, frames[0].note);
            return done.max(1);
        }
        let hard = self.limits.hard_output_of(door, protocol.is_nats(), session);
        // The connection is closed at the end of the turn. More replies would only take memory.
        if hard != 0 && output.waiting() as u64 > hard && !door.takes_datagrams() {
            session.closing = true;
        }
        if !session.listening.unsure.is_empty() {
            let unsure = std::mem::take(&mut session.listening.unsure);
            self.tell_unsure(slot, &unsure);
        }
        self.weigh_replies(slot);
        done
    }

    /// Renews what other threads see of a connection whose calls of a batch have been executed.
    #[inline]
    fn show_session(&mut self, slot: Option<usize>) {
        let Some(connection) = slot.and_then(|slot| self.slots[slot].as_mut()) else { return };
        let session = &connection.session;
        let queues = session.multi.is_some();
        if queues
            || connection.turn.shows_queue
            || session
                .tally
                .last
                .is_some_and(|command| command.has(PUBSUB) || matches!(command.run, Run::Session))
        {
            connection.turn.shows_queue = queues;
            connection.record.show(session);
        }
    }
}
