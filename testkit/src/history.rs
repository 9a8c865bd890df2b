//! Are the histories of many processes what one process could have done alone? Recorded under kills and stops, then checked.
//!
//! ```text
//!  run --spawns--> servers, players in-process (Rust), players over sockets     kill -9, SIGSTOP and SIGCONT all the time
//!                     |  each player's own file: "> TIME GROUP calls" before, "< TIME reply" after (record)
//!                     v
//!  per group of keys: is there an order of the operations that keeps real time and gives these replies (check, model)?
//! ```
//! - A group of one key must be **linearizable** (Herlihy, Wing: Linearizability, TOPLAS 1990); a group of several, whose operations are MSET, LMOVE,
//!   EXEC and scripts as well, is one register that is read and written whole: that is **strict serialisability** of its transactions.
//! - Both are local, so that groups are checked one by one; a new round of groups every fraction of a second keeps each check short.
//! - What a process was doing when it was killed, or its server was, may have happened at any later time, or not at all.
//! - Times are CLOCK_MONOTONIC, which all processes of a machine share.
pub mod check;
pub mod model;
pub mod play;
pub mod record;
pub mod run;
