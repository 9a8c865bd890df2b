//! Sets: members without order.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
