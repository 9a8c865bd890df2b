//! SORT and SORT_RO.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
