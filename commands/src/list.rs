//! Lists: sequences with two open ends.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
