//! Clients that hear and wait in one thread, without a server: what they have been told can be asked for.
use polder_base::Protocol;
use polder_engine::Table;
use polder_hub::{Delivery, MessageSink, hear, tick};
use polder_runtime::{Progress, Session, give_up, resume};

use crate::answer::Answer;
use crate::arguments;
use crate::caller::Embedder;
use crate::gather::Gather;

/// How often the work that is due once a second is done while a client listens: it may take several
/// to find out that a waiter does not come.
const TICKS: u32 = 4;

/// One client, which may wait for a key; one in a thread.
#[derive(Default)]
pub struct Client {
    session: Session,
    /// The payloads of messages.
    pub heard: Vec<String>,
    /// What calls that have waited were answered.
    pub answers: Vec<Answer>,
}

impl Client {
    /// Makes a call. Returns none if it waits.
    ///
    /// # Errors
    /// The error that was replied.
    pub fn call(&mut self, embedder: &Embedder, line: &str) -> Result<Option<Answer>, String> {
        let args = arguments::split(line)?;
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.session.caller.parks = true;
        let mut reply = Gather::new(Protocol::Resp2);
        match embedder.memory.execute(&mut self.session, &embedder.host, &args, &mut reply) {
            Progress::Waiting => Ok(None),
            _ => match reply.answer()? {
                Answer::Error(error) => Err(format!("{line}: {error}")),
                answer => Ok(Some(answer)),
            },
        }
    }

    /// Whether its call waits.
    pub fn waits(&self) -> bool {
        self.session.caller.waiting.is_some()
    }

    /// Hears what has come.
    pub fn hear(&mut self, embedder: &Embedder) {
        let table = embedder.memory.table();
        let mut ear = Ear { client: self, embedder };
        while hear(table, &mut ear) {}
    }

    /// Does what is due now and then.
    pub fn tick(&mut self, embedder: &Embedder) {
        tick(embedder.memory.table(), &mut Ear { client: self, embedder });
    }

    /// Hears what has come, and does what is due, until nothing is left to find out.
    pub fn listen(&mut self, embedder: &Embedder) {
        for _ in 0..TICKS {
            self.hear(embedder);
            self.tick(embedder);
        }
        self.hear(embedder);
    }

    /// Waits no longer, and forgets what it was told.
    pub fn rest(&mut self, embedder: &Embedder) {
        give_up(
            embedder.memory.table(),
            &mut self.session,
            &embedder.host,
            None,
            &mut Gather::new(Protocol::Resp2),
        );
        self.heard.clear();
        self.answers.clear();
    }
}

struct Ear<'e> {
    client: &'e mut Client,
    embedder: &'e Embedder,
}

impl Ear<'_> {
    fn table(&self) -> &Table {
        self.embedder.memory.table()
    }
}

impl MessageSink for Ear<'_> {
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>) {
        if !clients.contains(&self.client.session.identity.id) {
            return;
        }
        if let Delivery::Message { payload, .. }
        | Delivery::PatternMessage { payload, .. }
        | Delivery::Post { payload, .. } = delivery
        {
            self.client.heard.push(String::from_utf8_lossy(payload).into_owned());
        }
    }

    fn retry(&mut self, client: u64) {
        if client != self.client.session.identity.id || !self.client.waits() {
            return;
        }
        let mut reply = Gather::new(Protocol::Resp2);
        let mut session = std::mem::take(&mut self.client.session);
        let progress = resume(self.table(), &mut session, &self.embedder.host, &mut reply);
        self.client.session = session;
        if progress == Progress::Answered {
            self.client.answers.extend(reply.answer().ok());
        }
    }

    fn knows(&self, client: u64) -> bool {
        client == self.client.session.identity.id
    }

    fn missed(&mut self, _clients: &[u64]) {
        self.client.heard.push("(missed some)".into());
    }
}
