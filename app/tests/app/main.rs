//! The `polder` command as users run it: servers, tools that share a segment, and their deaths.
mod clients;
mod exhaustion;
mod export;
mod hub;
mod notes;
mod processes;
mod races;
mod scripts;
mod serve;
#[path = "../stage/mod.rs"]
mod stage;
