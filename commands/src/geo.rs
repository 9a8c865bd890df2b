//! Geo: places as scores of a sorted set.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
