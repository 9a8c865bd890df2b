//! HyperLogLog: counting distinct things in 12 KiB.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
