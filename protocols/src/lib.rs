//! The protocols of the server: bytes to frames, frames to calls, results to bytes. One file per protocol, and the table of doors through which
//! clients come to it.
//!
//! | file | what it is |
//! |---|---|
//! | `sessions` | the protocols; how one is added |
//! | `batch` | the frames of many connections, as a turn executes them |
//! | `doors` | the table of doors: the protocol, place and limits of each way in |
//! | `limits` | limits taken from the settings, read again only when a setting changed |
//! | `web_rules` | which web pages may use the HTTP port |
//! | `guest_rules` | what clients over UDP may do |
//!
//! **Invariant:** no socket, no thread and no clock is here: the server moves the bytes and says what time it is.
#![forbid(unsafe_code)]

pub mod batch;
pub mod doors;
pub mod guest_rules;
pub mod limits;
pub mod sessions;
pub mod web_rules;
