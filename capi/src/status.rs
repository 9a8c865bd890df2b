//! What a function returns, and the text to it.
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use polder_engine::{Error, Fault, Stop};

/// What a function returns. `polder_message` has the text to everything but `POLDER_OK`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum polder_status {
    POLDER_OK = 0,
    /// The command says no; the text begins with its code (`WRONGTYPE`, `ERR`, ...).
    POLDER_REFUSED = 1,
    /// The memory, the system or another process failed.
    POLDER_FAULT = 2,
    /// The call waits: `polder_resume` goes on with it.
    POLDER_WAITING = 3,
    /// The key is not there.
    POLDER_ABSENT = 4,
    /// NULL where something is needed, an impossible size, a reply that is not one, a caller that is in use by its own callback.
    POLDER_MISUSE = 5,
    /// The caller is another thread's.
    POLDER_WRONG_THREAD = 6,
    /// The handle has been closed, or the caller has been ended by CLIENT KILL or QUIT.
    POLDER_CLOSED = 7,
    /// The caller listened or waited when the process was forked: it is the parent's.
    POLDER_FORKED = 8,
    /// Messages came faster than they were heard, and some are lost.
    POLDER_LOST = 9,
    /// The room is too small; the length that is needed has been told.
    POLDER_TOO_SMALL = 10,
    /// A defect of Polder. The caller that was in use is closed.
    POLDER_PANIC = 11,
    /// The server has not seen the call: it may be made again (polder_client.h).
    POLDER_NOT_SENT = 12,
    /// The call was written, and the connection broke before its reply: the server may have run it (polder_client.h).
    POLDER_OUTCOME_UNKNOWN = 13,
    /// The deadline passed first; `polder_client_stage` says where the call was (polder_client.h).
    POLDER_TIMED_OUT = 14,
}

use polder_status::*;

/// Why a function does not do what it is for.
pub(crate) struct Failure(pub polder_status, pub String);

pub(crate) type Done<T = ()> = Result<T, Failure>;

/// What is asked for is not there.
pub(crate) fn absent<T>() -> Done<T> {
    Err(Failure(POLDER_ABSENT, String::new()))
}

pub(crate) fn misuse<T>(text: &str) -> Done<T> {
    Err(Failure(POLDER_MISUSE, format!("ERR {text}")))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match error {
            Error::Refused(_) => POLDER_REFUSED,
            // Busy cannot come here: C's callers set no limit for waiting.
            Error::Fault(_) | Error::Busy => POLDER_FAULT,
            Error::WrongThread => POLDER_WRONG_THREAD,
            Error::Forked => POLDER_FORKED,
            Error::Lost => POLDER_LOST,
            Error::Closed => POLDER_CLOSED,
            Error::Waiting => POLDER_WAITING,
        };
        Failure(status, error.to_string())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure(POLDER_FAULT, fault.to_string())
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Failure {
        match stop {
            Stop::Refused(text) => Failure(POLDER_REFUSED, text.into_owned()),
            other => Failure(POLDER_FAULT, other.to_string()),
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

/// Runs what a function does (C2), and keeps the text of what went wrong.
pub(crate) fn guarded(work: impl FnOnce() -> Done) -> polder_status {
    note(match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return POLDER_OK,
        Ok(Err(failure)) => failure,
        Err(_) => Failure(
            POLDER_PANIC,
            "ERR a defect of Polder: please report what was written to the error stream".into(),
        ),
    })
}

/// Keeps the text of what went wrong for `polder_message`.
pub(crate) fn note(failure: Failure) -> polder_status {
    let Failure(status, text) = failure;
    let text = match status {
        // Said too often for a text to be made each time.
        POLDER_ABSENT => Cow::Borrowed(c"ERR no such key"),
        _ => Cow::Owned(CString::new(text.replace('\0', " ")).unwrap_or_default()),
    };
    // While the thread ends, the message may be gone; nothing reads it any more.
    let _ = MESSAGE.try_with(|message| message.replace(text));
    status
}

/// The text to the last status of this thread that was not POLDER_OK. It stays until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn polder_message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
