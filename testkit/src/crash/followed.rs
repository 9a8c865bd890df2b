//! A follower of the change log beside a crash test: whatever dies when, what the stream has told leads to what is there.
use polder_base::Protocol;
use polder_engine::Position;

use crate::answer::Answer;
use crate::caller::{Caller, Embedder};
use crate::scratch::Scratch;

/// Another memory, into which the stream is executed.
pub struct Follower {
    other: Scratch,
    caller: Caller,
    position: Position,
}

impl Follower {
    /// Turns the log of an empty memory on, and follows it.
    ///
    /// # Errors
    /// What the memory says.
    pub fn new(embedder: &Embedder) -> Result<Follower, String> {
        let position = embedder.memory.changes(None).map_err(|stop| stop.to_string())?.position().clone();
        Ok(Follower { other: Scratch::new(), caller: Caller::new(3, Protocol::Resp2), position })
    }

    /// Executes what has been committed since the last look; returns what is wrong with the outcome, if anything.
    ///
    /// # Errors
    /// The stream has ended, or cannot be executed.
    pub fn check(&mut self, embedder: &Embedder) -> Result<Option<String>, String> {
        let mut changes =
            embedder.memory.changes(Some(self.position.clone())).map_err(|stop| stop.to_string())?;
        let mut told = Vec::new();
        while let Some(changed) = changes.next().map_err(|stop| stop.to_string())? {
            for command in &changed.commands {
                self.caller.call(&self.other.embedder, &["SELECT", &command.db.to_string()])?;
                told.push(
                    String::from_utf8_lossy(&command.words.join(&b' ')).chars().take(80).collect::<String>(),
                );
                if let Answer::Error(text) = self.caller.call(&self.other.embedder, &command.words)? {
                    return Err(format!("{}: {text}", told[told.len() - 1]));
                }
            }
            self.position = changed.position;
        }
        let digest = |caller: &mut Caller, embedder: &Embedder| {
            caller.call(embedder, &["DEBUG", "DIGEST"]).map(|answer| answer.shown())
        };
        let here = digest(&mut Caller::new(4, Protocol::Resp2), embedder)?;
        let there = digest(&mut self.caller, &self.other.embedder)?;
        Ok((here != there).then(|| format!("what the stream tells leads elsewhere: {}", told.join("; "))))
    }
}
