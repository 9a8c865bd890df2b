//! EVAL, SCRIPT, FUNCTION, FCALL: programs that run inside one transaction.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
