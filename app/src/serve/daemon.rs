//! `daemonize yes`: the server in the background.
//!
//! ```text
//!   polder serve ...                      the terminal's process: waits for one byte, then ends with status 0
//!      |  socket pair, as standard input
//!      +-- polder serve --detached ...    a session of its own; its errors still show in the terminal
//!             one byte: clients are served; from then on standard input, output and error are /dev/null
//! ```
//!
//! The server is started anew and not forked, so no lock of the allocator or of a library can be held in it. If it ends before it is ready, the
//! waiting process ends with its status: a start script sees why.
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{Mode, OFlags};

/// The first word of the process in the background; no setting has this name.
pub const DETACHED: &str = "--detached";

/// What systemd sets for a service that tells it when it is ready; such a service stays in the foreground.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Whether systemd waits for this very process.
pub fn is_supervised() -> bool {
    std::env::var_os(NOTIFY_SOCKET).is_some()
}

/// Starts the server in the background and waits until it serves clients or has failed. Returns the status for this process.
///
/// # Errors
/// One line: no process can be started.
pub fn start(words: &[String]) -> Result<ExitCode, String> {
    let failed = |error: std::io::Error| {
        format!("cannot go on in the background: {error}; start with '--daemonize no'")
    };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["serve", DETACHED]).args(words).stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut child = command.spawn().map_err(failed)?;
    // Our copy of the other end: what is read below ends when the child's does.
    drop(command);
    match (&ours).read(&mut [0]) {
        Ok(1) => Ok(ExitCode::SUCCESS),
        _ => {
            let status = child.wait().map_err(failed)?;
            Ok(ExitCode::from(
                status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1),
            ))
        }
    }
}

/// In the background: leaves the terminal's session, whose end would be told to all that belong to it.
///
/// # Errors
/// What the system says.
pub fn leave_session() -> Result<(), String> {
    rustix::process::setsid()
        .map(|_| ())
        .map_err(|error| format!("cannot leave the terminal's session: {error}"))
}

/// In the background: tells the waiting process that clients are served, and lets go of the terminal.
///
/// # Errors
/// What the system says.
pub fn settle() -> Result<(), String> {
    let failed = |error: rustix::io::Errno| format!("cannot let go of the terminal: {error}");
    // The waiting process may have been stopped: the server serves even so.
    let _ = rustix::io::write(rustix::stdio::stdin(), b"1");
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).map_err(failed)?;
    rustix::stdio::dup2_stdin(&nothing).map_err(failed)?;
    rustix::stdio::dup2_stdout(&nothing).map_err(failed)?;
    rustix::stdio::dup2_stderr(&nothing).map_err(failed)
}
