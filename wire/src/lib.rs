//! Bytes to frames and back, for every protocol Polder speaks. No sockets, no memory but its own, no clock.
//!
//! Each protocol is a state machine over bytes that somebody else received (sans-I/O): a reader takes what it can from
//! the front of a slice and says "a frame", "not yet" or [`resp::Malformed`]; a writer appends to a buffer. So the same
//! code runs under a socket, under a test that splits the input at every byte, and under the fuzzer.
#![forbid(unsafe_code)]

pub mod rdb;
pub mod resp;
