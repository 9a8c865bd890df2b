//! In-process clients of a memory; their replies are values of [`Answer`](crate::answer::Answer).
use polder_base::Protocol;
use polder_engine::Configuration;
use polder_engine::settings::file;
use polder_engine::{EmbeddedHost, Fault, Identity, Memory, Options, Session, embedder};

use crate::answer::Answer;
use crate::gather::Gather;

/// A process that has attached a memory: what all its clients share.
pub struct Embedder {
    pub memory: Memory,
    pub host: EmbeddedHost,
}

impl Embedder {
    /// Attaches a memory.
    ///
    /// # Errors
    /// Those of [`Memory::attach`].
    pub fn attach(options: &Options) -> Result<Embedder, Fault> {
        Ok(Embedder { memory: Memory::attach(options)?, host: host() })
    }
}

/// A process in which DEBUG is allowed, as redis-server is started for the same transcripts.
fn host() -> EmbeddedHost {
    let allowed = ["--enable-debug-command", "yes", "--enable-module-command", "yes"].map(String::from);
    let (_, flags) = file::flags(&allowed).expect("both are settings");
    embedder(Configuration::begin(None, &[], &flags).expect("both take a yes"))
}

/// One client's session.
pub struct Caller {
    session: Session,
}

impl Caller {
    /// A client with this id and protocol.
    pub fn new(id: u64, protocol: Protocol) -> Caller {
        Caller {
            session: Session {
                identity: Identity { id, ..Identity::default() },
                protocol,
                ..Session::default()
            },
        }
    }

    /// Runs one command.
    ///
    /// # Errors
    /// A text when the command did not write exactly one reply.
    pub fn call(&mut self, embedder: &Embedder, args: &[impl AsRef<[u8]>]) -> Result<Answer, String> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let mut reply = Gather::new(self.session.protocol);
        embedder.memory.execute(&mut self.session, &embedder.host, &args, &mut reply);
        let answer = reply.answer()?;
        // HELLO replies in the protocol it has just chosen, so this is asked after the call.
        Ok(if self.session.protocol == Protocol::Resp2 { answer.lowered() } else { answer })
    }
}

/// A client for measurements: it keeps the last value and nothing else, and takes no memory in the long run.
#[derive(Default)]
pub struct Quiet {
    session: Session,
    /// The last bulk that was answered; empty when the last reply was none.
    pub value: Vec<u8>,
    error: Option<String>,
}

impl Quiet {
    /// Runs one command.
    ///
    /// # Errors
    /// The error that was replied.
    pub fn call(&mut self, embedder: &Embedder, args: &[&[u8]]) -> Result<(), String> {
        let mut session = std::mem::take(&mut self.session);
        self.value.clear();
        embedder.memory.execute(&mut session, &embedder.host, args, self);
        self.session = session;
        self.error.take().map_or(Ok(()), Err)
    }
}

impl polder_base::Reply for Quiet {
    fn protocol(&self) -> Protocol {
        Protocol::Resp3
    }
    fn error(&mut self, text: &str) {
        self.error = Some(text.into());
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.value.clear();
        self.value.extend_from_slice(bytes);
    }
    fn begin_bulk(&mut self, _len: u64) {
        self.value.clear();
    }
    fn piece(&mut self, bytes: &[u8]) {
        self.value.extend_from_slice(bytes);
    }
    fn verbatim(&mut self, _format: &str, text: &[u8]) {
        self.bulk(text);
    }
    fn mark(&self) -> usize {
        0
    }
    fn rewind(&mut self, _mark: usize) {
        self.error = None;
    }
}
