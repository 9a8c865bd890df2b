//! The server: opens a memory to the network. One event loop per thread; the protocols are `polder-protocols`.
//!
//! ```text
//!        listener ----accept----> the thread with the fewest clients
//!                                        |
//!   one turn of a thread:  read all ready sockets -> parse -> prefetch the keys -> execute in order -> one write each
//!        |                       (connection)     (protocols)   (engine)            (engine)          (connection)
//!        +-- timers: idle clients, output limits, pauses, maintenance of the memory
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `turn` | the loop of a thread: the order of things in a turn, its connections, and those of them that wait |
//! | `connection` | a socket with its session and its buffers |
//! | `holds` | what the replies of a connection wait for |
//! | `filter`, `tls` | TLS on a connection; what all connections share of it: certificates, ciphers, session tickets |
//! | `transfer` | the buffers that reads and writes of connections share, and how one went |
//! | `listener`, `listener_set` | binding addresses and paths, admitting clients; what a process listens on |
//! | `clients` | the clients of this process, as CLIENT LIST and KILL see them |
//! | `host` | what commands may ask of this process |
//! | `feeds`, `replica_link` | the threads that feed replicas, and their connections |
//! | `primary_link` | the thread that follows a primary, or stands by |
//! | `storage` | the thread that writes the append-only log, or stands by |
//! | `tier` | the threads that have the tier, or stand by |
//! | `standby` | their pauses |
//! | `thread_stats` | the counts of each thread, for INFO |
//!
//! **Invariant:** no data lives here. A server may be killed at any moment; another one on the same memory goes on.
//! **Invariant:** a thread never waits except in its poll.
#![forbid(unsafe_code)]

mod clients;
mod connection;
mod failure;
mod feeds;
mod filter;
mod holds;
mod host;
mod listener;
mod listener_set;
pub mod log;
mod neighbours;
mod primary_link;
mod replica_link;
mod server;
mod standby;
mod storage;
mod thread_stats;
mod tier;
mod tls;
mod transfer;
mod turn;
mod watch;

pub use failure::Failure;
pub use server::Server;
