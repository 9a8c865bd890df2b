//! Waits, ports, examples and a screen for tests, of every crate: this one uses none of ours.
//!
//! **Invariant**: no test fails because a machine is slow. A test waits for an event with one patience
//! ([`PATIENCE`]), and shows that something is quick by waiting for a run that was ([`until_quick`]).
#![forbid(unsafe_code)]

mod example;
mod patience;
mod ports;
mod screen;

pub use example::example;
pub use patience::{PATIENCE, until, until_quick};
pub use ports::free_port;
pub use screen::Screen;
