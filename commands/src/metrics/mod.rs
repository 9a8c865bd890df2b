//! What the process and the memory report about themselves.
pub mod histogram;
pub mod recorder;

pub use recorder::Recorder;
