//! The shape of what lies in the segment: hashes, directories, buckets, entries, records.
//!
//! Words are read and written here, and nothing is decided: no lock is taken and no key is looked up.

pub(crate) mod attempts;
pub mod bucket;
pub mod clock;
pub mod directory;
pub mod entry;
pub(crate) mod expired;
pub(crate) mod extras;
pub mod hash;
pub mod interest;
pub(crate) mod parcel;
pub(crate) mod raw;
pub(crate) mod record;
pub(crate) mod stub;
