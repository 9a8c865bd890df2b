//! The families of commands: a file for each type of value, with a row and a function for each command.
//!
//! A function gets a [`Call`](polder_calls::Call). Rows are plain values in one table per family; arity, key positions, ACL categories,
//! COMMAND INFO and DOCS and the documentation are derived from them (see [`polder_calls::command`] and [`polder_calls::grammar`]).
//!
//! **Invariant**: a family knows calls, the table and values; it knows no session, no socket and nothing of what runs it. Commands that
//! concern a session live in `polder-runtime` and the crates above it; `polder-engine` registers all families.
#![forbid(unsafe_code)]

pub mod array;
pub mod bitmap;
mod collection;
pub mod database;
pub mod dump;
pub mod durability;
mod encode;
pub mod expiry;
pub mod flush;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod item;
mod item_effect;
pub mod key;
pub mod list;
pub mod object;
pub mod set;
pub mod sort;
pub mod sorted_set;
pub mod stream;
pub mod string;
pub mod types;
pub mod view;
