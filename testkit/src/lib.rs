//! What the tests are built on: replies, doors, transcripts, peers, crashes. Never shipped.
//!
//! ```text
//!   tests/transcripts/*.transcript --> transcript --> runner --> door --+--> engine, in this process
//!                                                                       +--> `polder serve`, over a socket
//!                                                                       +--> redis-server, over a socket
//! ```
//! A door returns an [`Answer`] for each reply, in whatever protocol; all comparisons are of these.
#![forbid(unsafe_code)]

pub mod answer;
pub mod arguments;
pub mod bench;
pub mod c_header;
pub mod caller;
pub mod client_rows;
pub mod crash;
pub mod door;
pub mod fuzz;
pub mod gather;
pub mod held;
pub mod history;
pub mod logs;
pub mod nats;
pub mod peers;
pub mod power;
pub mod process;
pub mod python_stub;
pub mod random;
pub mod replicas;
pub mod resp;
pub mod runner;
pub mod scratch;
pub mod transcript;
pub mod versions;
pub mod way;

pub use answer::Answer;
pub use door::Door;
