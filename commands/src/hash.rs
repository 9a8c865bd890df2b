//! Hashes: fields with values under one key.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
