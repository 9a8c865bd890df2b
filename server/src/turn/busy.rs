//! While a script of this thread runs for longer than `busy-reply-threshold`, the thread's other clients are served.
//!
//! ```text
//!   run_long: the connection is taken out of its slot -> the script runs, with a host that holds the service
//!                 once it is slow, every so often: Host::while_busy -> poll, accept, read, reply
//! ```
//!
//! A call gets BUSY as its reply, unless it can end the script or is harmless beside it. Connections whose requests were
//! taken in the same turn as the script leave that turn with the rest of their input. Other threads and processes go on,
//! and wait only for the locks of the script.
use std::sync::{Mutex, PoisonError};

use mio::Events;
use polder_base::time::now_ms;
use polder_calls::command::{RUNS_QUEUE, SCRIPTS};
use polder_calls::settings::Id;
use polder_engine::BatchPlan;
use polder_hub::query::Thread;
use polder_runtime::configuration::Configuration;
use polder_runtime::recorder::Recorder;
use polder_runtime::saves::{SaveControl, SaveSignals};
use polder_runtime::scripting::{Kind, Running, Scripting};
use polder_runtime::session::{Client, NewSetting, Shutdown, Traffic};
use polder_runtime::statistics::Statistics;
use polder_runtime::{Host, Progress, Session, execute};

use super::away::TurnAway;
use super::connections::{Connections, TurnInputs};
use super::service::Service;
use crate::connection::Connection;
use crate::holds::Written;
use crate::host::Process;
use polder_protocols::batch::{Batch, Content, Frame, Left, Odd, Spare};

/// How many events one look takes.
const BUSY_EVENTS: usize = 256;

/// The process, as a script of one thread sees it.
struct ScriptHost<'l> {
    process: &'l Process,
    service: Mutex<&'l mut Service>,
    turn: TurnInputs<'l>,
}

impl Host for ScriptHost<'_> {
    fn settings(&self) -> &Configuration {
        &self.process.settings
    }
    fn recorder(&self) -> &Recorder {
        self.process.recorder()
    }
    fn save_signals(&self) -> &SaveSignals {
        self.process.save_signals()
    }

    fn saves(&self) -> &dyn SaveControl {
        self.process.saves()
    }
    fn nats_traffic(&self) -> (Traffic, u64) {
        self.process.nats_traffic()
    }
    fn statistics(&self) -> Statistics {
        self.process.statistics()
    }
    fn clients(&self, caller: &Session) -> Vec<Client> {
        self.process.clients(caller)
    }
    fn client(&self, caller: &Session) -> Client {
        self.process.client(caller)
    }
    fn home(&self, id: u64) -> Option<Thread> {
        self.process.home(id)
    }
    fn threads(&self) -> Vec<Thread> {
        self.process.threads()
    }
    fn address(&self, caller: &Session) -> String {
        self.process.address(caller)
    }
    fn kill(&self, id: u64) -> bool {
        self.process.kill(id)
    }
    fn unblock(&self, id: u64, with_error: bool) -> Option<bool> {
        self.process.unblock(id, with_error)
    }
    fn end_postponement(&self, caller: &Session) {
        self.process.end_postponement(caller);
    }
    fn hold_limits(&self, caller: &mut Session) {
        self.process.hold_limits(caller);
    }
    fn rouse(&self) {
        self.process.rouse();
    }
    fn databases(&self) -> u16 {
        self.process.databases()
    }
    fn version(&self) -> String {
        self.process.version()
    }
    fn scripting(&self) -> Option<&Scripting> {
        self.process.scripting()
    }
    fn while_busy(&self, running: &Running) {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).serve_others(running.kind, self.turn);
    }
    fn is_ending(&self) -> bool {
        self.process.is_ending()
    }
    fn is_loading(&self) -> bool {
        self.process.is_loading()
    }
    fn apply(&self, changes: &[NewSetting], settle: &mut dyn FnMut()) -> Result<(), Id> {
        self.process.apply(changes, settle)
    }
    fn shutdown(&self, how: Shutdown) -> Result<(), String> {
        self.process.shutdown(how)
    }
}

impl Service {
    /// Whether a request runs scripts: by itself, or by an EXEC of commands that do.
    pub fn runs_scripts(&self, slot: usize, hint: (&BatchPlan, usize)) -> bool {
        match hint.0.command(hint.1) {
            Some(command) if command.has(SCRIPTS) => true,
            Some(command) if command.has(RUNS_QUEUE) => self.has_queued_scripts(slot),
            _ => false,
        }
    }

    /// As [`Service::runs_scripts`], for a request that has not been looked at ahead.
    #[cold]
    pub fn words_run_scripts(&self, slot: usize, words: &[Vec<u8>]) -> bool {
        let args: Vec<&[u8]> = words.iter().take(2).map(Vec::as_slice).collect();
        execute::resolve(&args).is_ok_and(|command| {
            command.has(SCRIPTS) || command.has(RUNS_QUEUE) && self.has_queued_scripts(slot)
        })
    }

    /// Whether calls that wait for EXEC run scripts.
    fn has_queued_scripts(&self, slot: usize) -> bool {
        let multi =
            self.connections.slots[slot].as_ref().and_then(|connection| connection.session.multi.as_ref());
        multi.is_some_and(|multi| multi.queue.commands().any(|command| command.has(SCRIPTS)))
    }

    /// Runs a request that may take long, and those behind it that share its transaction. The connection is out of its slot
    /// meanwhile, so that the service is free for others. Returns how many requests are done.
    pub fn run_long(
        &mut self,
        slot: usize,
        note: u32,
        calls: &[&[&[u8]]],
        turn: TurnInputs<'_>,
    ) -> (usize, Progress) {
        let connections = &mut self.connections;
        connections.end_broadcast();
        let Some(mut connection) = connections.slots[slot].take() else { return (1, Progress::Answered) };
        connection.output.lend(|| connections.pool.take());
        let Connection { session, output, door, protocol, .. } = &mut *connection;
        output.limit(connections.limits.hard_output_of(door, protocol.is_nats(), session) as usize);
        connection.session.clock.turn_ms = connections.now_ms;
        connection.session.clock.patience_us = connections.waiters.patience_us;
        connection.session.clock.active_ms = connections.now_ms;
        let process = connections.process.clone();
        let host = ScriptHost { process: &process, service: Mutex::new(self), turn };
        let Connection { session, output, protocol, .. } = &mut *connection;
        let outcome = protocol.reply(output, note, |reply| match calls {
            [args] => {
                let progress = process.memory.execute(session, &host, args, reply);
                ((progress == Progress::Answered).into(), progress)
            }
            _ => process.memory.execute_together(session, &host, calls, reply),
        });
        // An event that came meanwhile found no connection, so the socket is looked at.
        connection.ready.readable = true;
        self.connections.slots[slot] = Some(connection);
        outcome
    }

    /// Serves the other clients while the thread's script runs.
    fn serve_others(&mut self, kind: Kind, turn: TurnInputs<'_>) {
        self.release(turn);
        let Service { poller, connections } = self;
        let mut events = Events::with_capacity(BUSY_EVENTS);
        poller.poll(&mut events, 0);
        connections.now_ms = now_ms();
        poller.refresh_listeners(&connections.process);
        for event in events.iter() {
            poller.notice(event, connections);
        }
        poller.read_letters(connections);
        for slot in std::mem::take(&mut connections.ready) {
            if self.connections.receive(slot) {
                self.reply_busy(slot, kind);
            }
        }
    }

    /// Ends the turn for all but the script's own connection, which is not in its slot. Each gets back the input that was not
    /// executed, and the replies to what was executed are sent now.
    fn release(&mut self, (ready, inputs): TurnInputs<'_>) {
        let connections = &mut self.connections;
        if !connections.in_turn.released.is_empty() {
            return;
        }
        for (slot, input) in ready.iter().zip(inputs).filter(|(_, input)| !input.is_empty()) {
            let Some(connection) = connections.slots[*slot].as_mut() else { continue };
            connection.input = connections.pool.take();
            connection.input.extend_from_slice(&input[connection.taken..]);
            connection.taken = 0;
            connection.protocol.forget_progress();
            connections.in_turn.released.push(*slot);
            connections.queue(*slot);
        }
    }

    fn reply_busy(&mut self, slot: usize, kind: Kind) {
        let Service { poller, connections } = self;
        let Some(connection) = &mut connections.slots[slot] else { return };
        let (input, mut at) = (std::mem::take(&mut connection.input), connection.taken);
        let mut spare = Spare::default();
        let mut batch = Batch::new(&mut spare);
        loop {
            let left = connections.parse(slot, 0, &input, &mut at, &mut batch);
            for frame in &batch.frames {
                connections.reject(
                    slot,
                    frame,
                    &batch,
                    &TurnAway { why: kind.busy_text(), allows: is_allowed },
                );
            }
            batch.clear();
            if left == Left::Nothing {
                break;
            }
        }
        if let Some(connection) = &mut connections.slots[slot] {
            connection.input = input;
        }
        // A client that has ended the server, and sees its connection end, must find no listener.
        if connections.process.is_stopping() {
            poller.close_listeners(connections);
        }
        connections.send(slot);
    }
}

impl Connections {
    /// Executes a request if it is allowed now, and else replies why it is not.
    pub fn reject(&mut self, slot: usize, frame: &Frame, batch: &Batch<'_>, reject: &TurnAway) {
        let commits = self.process.memory.table().own_commits();
        self.run_or_reject(slot, frame, batch, reject);
        let written = Written::since(commits, self.process.memory.table());
        if let Some(connection) = self.slots[slot].as_mut().filter(|_| written.surely) {
            connection.disk.written.add(written);
        }
    }

    fn run_or_reject(&mut self, slot: usize, frame: &Frame, batch: &Batch<'_>, reject: &TurnAway) {
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else {
            return;
        };
        let Connection { session, output, protocol, taken, .. } = &mut **connection;
        let process = &*self.process;
        output.lend(|| self.pool.take());
        session.clock.turn_ms = self.now_ms;
        session.clock.active_ms = self.now_ms;
        let words: Vec<&[u8]> = match frame.content {
            Content::Args { from, to } => batch.args[from..to].to_vec(),
            Content::Odd(number) => match &batch.odds[number] {
                Odd::Words(words) => words.iter().map(Vec::as_slice).collect(),
                Odd::Nothing => Vec::new(),
                Odd::Own => {
                    let progress = protocol.own(frame.note, session, (process, &process.memory), output);
                    tracing::debug!(?progress, "a request was executed while a script runs");
                    Vec::new()
                }
                Odd::Wrong(text) => {
                    protocol.reply(output, frame.note, |reply| reply.error(text));
                    Vec::new()
                }
                Odd::Rejected(rejection) => {
                    protocol.reject(rejection, session, process, output);
                    Vec::new()
                }
            },
        };
        *taken = frame.end;
        if words.is_empty() {
            return;
        }
        protocol.reply(output, frame.note, |reply| {
            if (reject.allows)(session, &words) {
                // A call that would wait for a script's locks is turned away, as others are.
                if process.memory.execute(session, process, &words, reply) != Progress::Answered {
                    session.caller.waiting = None;
                    execute::reject_call(session, process, &words, reject.why, reply);
                }
            } else {
                execute::reject_call(session, process, &words, reject.why, reply);
            }
        });
    }
}

/// Whether a request is executed while a script runs.
fn is_allowed(_session: &Session, args: &[&[u8]]) -> bool {
    execute::resolve(args).is_ok_and(|command| command.runs_while_busy(args))
}
