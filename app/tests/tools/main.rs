//! The built binary's tools, as people and scripts run them.
//!
//! One program for all of them: what they share is compiled and linked once.
mod bench;
mod canned;
mod cli;
mod formats;
mod manual;
mod segment;
mod terminal;
