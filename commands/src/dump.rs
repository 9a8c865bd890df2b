//! DUMP, RESTORE, MIGRATE: one value as a payload that Redis understands.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
