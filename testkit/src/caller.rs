//! In-process clients of a memory, whose replies are answers.
use polder_base::Protocol;
use polder_engine::{Bare, Fault, Memory, Options, Session};

use crate::answer::Answer;
use crate::gather::Gather;

/// A process that has attached a memory: what all its clients share.
pub struct Embedder {
    pub memory: Memory,
    pub host: Bare,
}

impl Embedder {
    /// Attaches a memory.
    ///
    /// # Errors
    /// Those of [`Memory::attach`].
    pub fn attach(options: &Options) -> Result<Embedder, Fault> {
        Ok(Embedder { memory: Memory::attach(options)?, host: Bare::default() })
    }
}

/// One client's session.
pub struct Caller {
    session: Session,
}

impl Caller {
    /// A client of this id who speaks `protocol`.
    pub fn new(id: u64, protocol: Protocol) -> Caller {
        Caller { session: Session { id, protocol, ..Session::default() } }
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
        // HELLO answers in the protocol it has just chosen, so this is asked after the call.
        Ok(if self.session.protocol == Protocol::Resp2 { answer.lowered() } else { answer })
    }
}
