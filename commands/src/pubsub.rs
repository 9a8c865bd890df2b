//! Publish and subscribe.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
