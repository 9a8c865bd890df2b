//! The server: opens a memory to the network. One event loop per thread, one session file per protocol.
//!
//! ```text
//!        listener ----accept----> the thread with the fewest clients
//!                                        |
//!   one turn of a thread:  read all ready sockets -> parse -> prefetch the keys -> execute in order -> one write each
//!        |                       (connection)     (sessions)    (engine)            (engine)          (connection)
//!        +-- timers: idle clients, output limits, pauses, chores of the memory
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `turn` | the loop of a thread and the order of things in a turn |
//! | `connection` | a socket with its session and its buffers |
//! | `sessions/resp` | requests of one connection to frames, frames to calls |
//! | `listener` | binding addresses and paths; who may come in |
//! | `doors` | what a process listens on, which CONFIG SET may change |
//! | `clients` | everyone who is connected to this process, as CLIENT LIST and KILL see them |
//! | `host` | what commands may ask of this process |
//! | `tally` | what each thread counts, for INFO |
//! | `bounds` | limits out of the settings, read again only when a setting changed |
//!
//! **Invariant:** no data lives here. A server may be killed at any moment; another one on the same memory goes on.
//! **Invariant:** a thread never waits but in its poll.
#![forbid(unsafe_code)]

mod batch;
mod bounds;
mod clients;
mod connection;
mod doors;
mod host;
mod listener;
pub mod log;
mod server;
mod sessions;
mod tally;
mod turn;
mod watch;

pub use server::{Failure, Server};
