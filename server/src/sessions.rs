//! One file per protocol: its bytes to frames, its frames to calls.
pub mod resp;
