//! What has been running for so long that others are told so, and may be killed.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use polder_table::Stop;

use crate::locks::lock;

/// What runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Script,
    Function,
}

impl Kind {
    /// What others are told while it runs.
    pub fn busy_text(self) -> &'static str {
        match self {
            Kind::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
            Kind::Function => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
        }
    }
}

/// A slow script or function.
#[derive(Debug)]
pub struct Running {
    pub kind: Kind,
    pub name: String,
    /// The whole call.
    pub command: Vec<Vec<u8>>,
    pub since: Instant,
    pub(crate) wrote: AtomicBool,
    pub(crate) killed: AtomicBool,
}

/// All of them, of one process.
#[derive(Default)]
pub struct Board(Mutex<Vec<Arc<Running>>>);

impl Board {
    /// Lists one.
    pub fn enter(&self, running: Arc<Running>) {
        lock(&self.0).push(running);
    }

    /// Takes one off the list.
    pub fn leave(&self, running: &Arc<Running>) {
        lock(&self.0).retain(|other| !Arc::ptr_eq(other, running));
    }

    /// Everyone, the longest first.
    pub fn all(&self) -> Vec<Arc<Running>> {
        lock(&self.0).clone()
    }

    /// Ends whatever of this kind has not written yet.
    ///
    /// # Errors
    /// Redis's texts: nothing runs, all of it has written, or only the other kind runs.
    pub fn kill(&self, kind: Kind) -> Result<(), Stop> {
        let all = self.all();
        let Some(first) = all.first() else {
            return Err("NOTBUSY No scripts in execution right now.".into());
        };
        let (mine, others): (Vec<_>, Vec<_>) = all.iter().partition(|running| running.kind == kind);
        let mut clean = mine.iter().filter(|running| !running.wrote.load(Ordering::Acquire)).peekable();
        if clean.peek().is_some() {
            clean.for_each(|running| running.killed.store(true, Ordering::Release));
            return Ok(());
        }
        if mine.is_empty() && others.iter().any(|running| !running.wrote.load(Ordering::Acquire)) {
            return Err(first.kind.busy_text().into());
        }
        Err("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script \
             termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
            .into())
    }
}
