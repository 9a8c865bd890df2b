//! Bytes to frames and back, for every protocol that Polder speaks. No sockets, no memory but its own, no clock.
//!
//! Each protocol is a state machine over bytes that its caller has received (sans-I/O). A reader takes what it can from
//! the front of a slice and returns a frame, "not yet" or [`resp::Malformed`]. An encoder appends to an [`Output`], which
//! holds plain bytes. So the same code runs under a socket, under a test that splits the input at every byte, and under
//! the fuzzer.
#![forbid(unsafe_code)]

pub mod foreign;
pub mod http;
pub mod memcached;
pub mod nats;
mod output;
pub mod rdb;
pub mod rebuild;
pub mod resp;
pub mod terminal;
pub mod web_socket;

pub use output::Output;
