//! SAVE, BGSAVE, LASTSAVE and their kin: the memory as a file.
use crate::command::Command;

/// The family's rows.
pub const COMMANDS: &[Command] = &[];
