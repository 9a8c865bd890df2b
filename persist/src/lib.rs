//! The memory as files, and files as the memory: RDB files, the append-only log, the process that writes it, and what a start reads.
//!
//! | file | what it is |
//! |---|---|
//! | `saves`, `persistence` | RDB files: the saves of a process, and SAVE, BGSAVE and their kin |
//! | `storage_process`, `storage_note`, `storage_figures` | the one process that writes the append-only log, and what it tells in the segment |
//! | `replay`, `apply`, `effects` | the log read back; the records of the change log |
//! | `copying` | the data copied into another memory of this machine |
//! | `followers`, `opened` | places in the change log that readers hold; logs that are open |
//! | `tier_process`, `tier_compaction` | the threads that have the tier of the memory, and when its store drops copies |
//! | `at_start`, `reload`, `flushes` | what a start reads; DEBUG LOADAOF; databases that are emptied at a moment |
//!
//! **Invariant:** what a call must know before it writes stands in `polder_runtime::saves`: this crate sets it, and no call waits for it, but for values of a tier.
#![forbid(unsafe_code)]

pub mod apply;
pub mod at_start;
pub mod copying;
pub mod effects;
pub mod flushes;
pub mod followers;
pub mod opened;
pub mod persistence;
pub mod reload;
pub mod replay;
pub mod saves;
pub mod storage_figures;
pub mod storage_note;
pub mod storage_process;
pub mod tier_compaction;
pub mod tier_process;
