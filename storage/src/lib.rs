//! The files of the append-only log, in the multi-part format of Redis 7.
//!
//! ```text
//!   appendonlydir/
//!     appendonly.aof.2.base.rdb     the data at one instant: an RDB file, or `.base.aof` with RESP commands
//!     appendonly.aof.3.incr.aof     the commands since then, as RESP; lines that begin with `#` are annotations
//!     appendonly.aof.manifest       which files count, in which order; the only file that is ever replaced
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`medium`] | what is asked of a file system, and the real one |
//! | [`manifest`] | the list of files as a value, read and written |
//! | [`folder`] | the protocol by which files come and go |
//! | [`incr`](mod@incr) | the file that grows |
//! | [`log`] | the files together: what is appended, and how a new base takes the place of old files |
//! | [`follower`] | a stream of bytes with offsets copied into the files, each byte once |
//! | [`resume`](mod@resume) | how a successor goes on with what a dead process has left |
//! | [`scan`](mod@scan) | a file read as records |
//! | [`check`](mod@check) | a whole folder looked at, and a torn end cut off |
//!
//! What is assumed of the medium, and no more:
//! - **D1** What was written before a `sync` of the file returned is there after a power cut. Of what was written later any prefix may be
//!   there, cut at any byte.
//! - **D2** A name that was made, changed or removed before a `sync_folder` returned is so after a power cut. Later changes may be lost, each
//!   by itself; a rename is never half done.
//! - **D3** After a failed `sync` nothing is known of the file any more: it is never written again. Of a sync whose end no process has seen, it is
//!   assumed that what is written afterwards, and synced by another sync that succeeds, is on the disk.
//!
//! **Invariant**: this crate knows no key and no command. It takes bytes in order, and what it has reported as synced is there after a power cut.
#![forbid(unsafe_code)]

pub mod check;
pub mod folder;
pub mod follower;
pub mod incr;
pub mod log;
pub mod manifest;
pub mod medium;
pub mod resume;
pub mod scan;

pub use check::{Flaw, Report, check};
pub use folder::Folder;
pub use follower::{Follower, Fsync, Position, Stream, Terms};
pub use incr::Incr;
pub use log::{Log, Noted};
pub use manifest::{BaseForm, Entry, Identity, Manifest};
pub use medium::{Disk, File, Lock, Medium};
pub use resume::{Left, reach, resume};
pub use scan::{Batch, End, ScanError, scan};
