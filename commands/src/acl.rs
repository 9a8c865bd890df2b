//! ACL: who may run which commands on which keys and channels.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
