//! While a script of this thread runs for longer than `busy-reply-threshold`: the thread's other clients are told so.
//!
//! ```text
//!   run_long: the connection is taken out of its slot -> the script runs, with a host that has the loop at hand
//!                 every so many instructions, once it is slow: Host::while_busy -> poll, accept, read, answer
//! ```
//!
//! Who calls something else than what can end the script is answered BUSY. Connections whose requests were taken up in the same turn as
//! the script leave that turn with what is left of their input; other threads and processes go on, and wait only for what it has locked.
use std::sync::{Mutex, PoisonError};

use polder_commands::metrics::{Recorder, Statistics};
use polder_commands::persistence::Keeper;
use polder_commands::scripting::{Kind, Running, Scripting};
use polder_commands::session::{Client, Shutdown};
use polder_commands::settings::Settings;
use polder_hub::ask::Thread;

use super::*;

/// How many events one look takes.
const BUSY_EVENTS: usize = 256;

/// The process, as a script of one thread sees it.
struct Stuck<'l> {
    process: &'l Process,
    turns: Mutex<&'l mut Loop>,
    turn: Turn<'l>,
}

impl Host for Stuck<'_> {
    fn settings(&self) -> &Settings {
        &self.process.settings
    }
    fn recorder(&self) -> &Recorder {
        self.process.recorder()
    }
    fn keeper(&self) -> &Keeper {
        self.process.keeper()
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
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).answer_others(running.kind, self.turn);
    }
    fn is_ending(&self) -> bool {
        self.process.is_ending()
    }
    fn listen(&self, port: Option<u16>, bind: Option<&str>, settle: &mut dyn FnMut()) -> bool {
        self.process.listen(port, bind, settle)
    }
    fn shutdown(&self, how: Shutdown) -> Result<(), String> {
        self.process.shutdown(how)
    }
}

impl Loop {
    /// Whether a request runs scripts: by itself, or by an EXEC of commands that do.
    pub(super) fn runs_scripts(&self, slot: usize, foresight: (&Outlook, usize)) -> bool {
        match foresight.0.command(foresight.1) {
            Some(command) if command.has(SCRIPTS) => true,
            Some(command) if command.name == "EXEC" => {
                let multi = self.slots[slot].as_ref().and_then(|connection| connection.session.multi.as_ref());
                multi.is_some_and(|multi| multi.queue.commands().any(|command| command.has(SCRIPTS)))
            }
            _ => false,
        }
    }

    /// Runs a request that may take long, and those behind it that share its transaction, with the connection out of its slot so that the loop
    /// is free for others. Answers how many are done with.
    pub(super) fn run_long(&mut self, slot: usize, note: u32, calls: &[&[&[u8]]], turn: Turn<'_>) -> (usize, Progress) {
        self.end_cast();
        let Some(mut connection) = self.slots[slot].take() else { return (1, Progress::Answered) };
        connection.output.lend(|| self.pool.take());
        connection.output.limit(self.limits.hard_output_of(connection.door, &connection.session) as usize);
        connection.session.turn_ms = self.now_ms;
        connection.session.patience_us = self.patience_us;
        connection.session.active_ms = self.now_ms;
        let process = self.process.clone();
        let stuck = Stuck { process: &process, turns: Mutex::new(self), turn };
        let Connection { session, output, protocol, .. } = &mut *connection;
        let outcome = protocol.reply(output, note, |reply| match calls {
            [args] => {
                let progress = process.memory.execute(session, &stuck, args, reply);
                ((progress == Progress::Answered).into(), progress)
            }
            _ => process.memory.execute_together(session, &stuck, calls, reply),
        });
        // An event that came meanwhile found no connection: look.
        connection.readable = true;
        self.slots[slot] = Some(connection);
        outcome
    }

    /// Answers whoever has something to say while the thread's script runs.
    fn answer_others(&mut self, kind: Kind, turn: Turn<'_>) {
        self.release(turn);
        let mut events = Events::with_capacity(BUSY_EVENTS);
        if let Err(error) = self.poll.poll(&mut events, Some(Duration::ZERO))
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "the poll of a thread fails");
        }
        self.now_ms = now_ms();
        self.look_at_doors();
        for event in events.iter() {
            self.notice(event);
        }
        self.read_letters();
        for slot in std::mem::take(&mut self.ready) {
            if self.receive(slot) {
                self.answer_busy(slot, kind);
            }
        }
    }

    /// Ends the turn for all but the script's own connection, which is not in its slot: each gets back what it has sent and what was not
    /// executed, and what was executed is answered now.
    fn release(&mut self, (ready, inputs): Turn<'_>) {
        if !self.released.is_empty() {
            return;
        }
        for (slot, input) in ready.iter().zip(inputs).filter(|(_, input)| !input.is_empty()) {
            let Some(connection) = self.slots[*slot].as_mut() else { continue };
            connection.input = self.pool.take();
            connection.input.extend_from_slice(&input[connection.taken..]);
            connection.taken = 0;
            connection.protocol.forget_progress();
            self.released.push(*slot);
            if !connection.queued {
                connection.queued = true;
                self.ready.push(*slot);
            }
        }
    }

    fn answer_busy(&mut self, slot: usize, kind: Kind) {
        let Some(connection) = &mut self.slots[slot] else { return };
        let (input, mut at) = (std::mem::take(&mut connection.input), connection.taken);
        let mut spare = Spare::default();
        let mut batch = Batch::new(&mut spare);
        loop {
            let left = self.parse(slot, 0, &input, &mut at, &mut batch);
            for frame in &batch.frames {
                self.answer_frame(slot, frame, &batch, kind);
            }
            batch.clear();
            if left == Left::Nothing {
                break;
            }
        }
        if let Some(connection) = &mut self.slots[slot] {
            connection.input = input;
        }
        // Whoever has ended the server, and sees his connection end, finds nobody to listen any more.
        if self.process.is_stopping() {
            self.close_doors();
        }
        self.send(slot);
    }

    fn answer_frame(&mut self, slot: usize, frame: &Frame, batch: &Batch<'_>, kind: Kind) {
        let Some(connection) = self.slots[slot].as_mut().filter(|connection| !connection.is_halted()) else { return };
        let Connection { session, output, protocol, taken, .. } = &mut **connection;
        output.lend(|| self.pool.take());
        session.turn_ms = self.now_ms;
        session.active_ms = self.now_ms;
        let words: Vec<&[u8]> = match frame.content {
            Content::Args { from, to } => batch.args[from..to].to_vec(),
            Content::Odd(number) => match &batch.odds[number] {
                Odd::Words(words) => words.iter().map(Vec::as_slice).collect(),
                Odd::Nothing => Vec::new(),
                Odd::Rejected(rejection) => {
                    protocol.reject(rejection, session, &*self.process, output);
                    Vec::new()
                }
            },
        };
        *taken = frame.end;
        if words.is_empty() {
            return;
        }
        protocol.reply(output, frame.note, |reply| {
            if is_allowed(&words) {
                let progress = self.process.memory.execute(session, &*self.process, &words, reply);
                tracing::debug!(?progress, "a request was obeyed while a script runs");
            } else {
                execute::turn_away(session, &*self.process, &words, kind.busy_text(), reply);
            }
        });
    }
}

/// Whether a request is obeyed while a script runs. WATCH would need a transaction beside the script's.
fn is_allowed(args: &[&[u8]]) -> bool {
    execute::resolve(args).is_ok_and(|command| match command.name {
        "SHUTDOWN" => args.iter().any(|arg| arg.eq_ignore_ascii_case(b"NOSAVE")),
        name => command.has(ALLOW_BUSY) && name != "WATCH",
    })
}
