//! What can go wrong with a call, told apart by what the caller may do about it.

use std::sync::Arc;
use std::time::Duration;

/// Why a call has no reply that could be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server has not seen the call: making it again cannot do it twice.
    #[error("not sent: {0}")]
    NotSent(Arc<str>),
    /// The call was written, at least in part, and no reply came: the server may have run it.
    #[error("outcome unknown: {0}; read back what the call would have changed before it is made again")]
    OutcomeUnknown(Arc<str>),
    /// The server replied with an error; its code is the first word (`ERR`, `WRONGTYPE`, `NOAUTH`, ...).
    #[error("{0}")]
    Refused(Arc<str>),
    /// The deadline passed first.
    #[error("{0}")]
    TimedOut(Arc<TimedOut>),
    /// The reply came and cannot be read as the type that was asked for.
    #[error("the reply is {got}, which is not {wanted}; ask for `Value` to see it as it came")]
    Unexpected { wanted: &'static str, got: String },
    /// The call cannot be made this way; the text says which way to take.
    #[error("{0}")]
    Usage(Arc<str>),
}

impl Error {
    /// The error code of a refusal: its first word.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Refused(text) => text.split(' ').next(),
            _ => None,
        }
    }

    /// Whether the same call may be made again without the danger that it is done twice.
    pub fn may_retry(&self) -> bool {
        match self {
            Error::NotSent(_) => true,
            Error::TimedOut(cause) => !cause.stage.is_sent(),
            _ => false,
        }
    }

    pub(crate) fn not_sent(why: impl Into<Arc<str>>) -> Error {
        Error::NotSent(why.into())
    }

    pub(crate) fn usage(why: impl Into<Arc<str>>) -> Error {
        Error::Usage(why.into())
    }
}

/// How far a call had come when its deadline passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Waiting to be written: the connection is down, or others go first.
    Queue,
    /// Being written: the network or the server does not take the bytes.
    Write,
    /// Written, and the server has sent nothing since: the server (or the network) is the cause.
    Server,
    /// Written, and replies to earlier calls are coming in: the reply stands behind them.
    Reader,
    /// The driver itself was not run in time: the program's own runtime is overloaded.
    Runtime,
}

impl Stage {
    /// Whether the server may have seen the call.
    pub fn is_sent(self) -> bool {
        self != Stage::Queue
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::Queue => "queue",
            Stage::Write => "write",
            Stage::Server => "server",
            Stage::Reader => "reader",
            Stage::Runtime => "runtime",
        })
    }
}

/// A deadline that passed, with the figures that show why.
#[derive(Clone, Debug)]
pub struct TimedOut {
    pub stage: Stage,
    /// From the making of the call to its deadline.
    pub limit: Duration,
    /// Calls that were to be answered, or written, before this one.
    pub calls_ahead: usize,
    /// Bytes of this connection that the operating system has not taken yet.
    pub bytes_unwritten: usize,
    /// Since anything was last read from the server; `None` if nothing ever was.
    pub since_read: Option<Duration>,
    /// How late the driver looked at the deadline.
    pub driver_lag: Duration,
}

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cause = match self.stage {
            Stage::Queue => "it waited to be written; the server has not seen it",
            Stage::Write => "it was being written, and the server took no more bytes",
            Stage::Server => "it was written, and the server sent nothing since",
            Stage::Reader => "it was written, and replies to earlier calls were still coming in",
            Stage::Runtime => "the program's runtime did not run the driver in time",
        };
        write!(
            f,
            "timed out after {:?} at stage {}: {cause} (calls ahead {}, bytes unwritten {}",
            self.limit, self.stage, self.calls_ahead, self.bytes_unwritten
        )?;
        match self.since_read {
            Some(since) => write!(f, ", last read {since:?} ago")?,
            None => write!(f, ", nothing read yet")?,
        }
        write!(f, ", driver late by {:?})", self.driver_lag)
    }
}
