//! Streams: entries in the order of their ids, and groups of consumers.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
