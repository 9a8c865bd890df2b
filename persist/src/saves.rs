//! How the memory becomes a file that Redis understands, and a file the memory. The commands over it are in `persistence`.

pub mod handle;
pub mod load;
pub mod save;
mod target;

pub use handle::Saves;
pub use polder_runtime::saves::has_save_points;

/// The auxiliary field of an RDB file that stands in front of a string with flags or what else items have: the flags (4, little-endian), then the
/// bytes of `polder_table::ItemExtras`. Redis skips fields that it does not know.
pub const ITEM: &[u8] = b"polder-item";

/// The auxiliary field that says which databases are to be emptied, and when (`commands/src/flush.rs`).
pub const FLUSHES: &[u8] = b"polder-flushes";
