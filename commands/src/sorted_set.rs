//! Sorted sets: members in the order of their scores.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
