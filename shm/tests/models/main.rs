//! Models of the protocols in shared memory: every order of their steps, with broken twins.
//!
//! A program of their own: the schedulers of these models catch the signals that tests of real memory expect.
#[path = "../common/mod.rs"]
mod common;
mod orderings;
mod queue;
mod shapes;
mod snapshot;
