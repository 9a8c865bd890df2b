//! HELP of the containers whose family knows no session.
use polder_calls::command::{LOADING, STALE};
use polder_runtime::help::help;
use polder_runtime::row::{Row, session};

const ABOUT: &str = "Returns helpful text about the different subcommands.";

/// Of the family of OBJECT.
pub const OBJECT: &[Row] =
    &[session("OBJECT|HELP", "", help).with(LOADING | STALE).since("6.2.0").about("Prints this help.")];

/// Of the family of streams.
pub const STREAM: &[Row] = &[
    session("XGROUP|HELP", "", help).with(LOADING | STALE).since("5.0.0").about(ABOUT),
    session("XINFO|HELP", "", help).with(LOADING | STALE).since("5.0.0").about(ABOUT),
];
