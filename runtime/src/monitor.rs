//! MONITOR: every call of every client, as a line.
//!
//! A call that is part of EXEC or a script leaves its line with that transaction, any other in one of its own, once it has been run.
use polder_hub::monitor as monitors;
use polder_shm::layout::interest;
use polder_table::{Table, Txn};

use crate::noting::redacted;
use crate::session::{Host, Session};
use polder_calls::command::{ADMIN, Command, MAY_WRITE, PUBSUB, READONLY, SKIP_MONITOR, WRITE};

/// Whether a client that monitors may make a call: one that touches no keys and posts no message.
pub fn may(command: &Command) -> bool {
    let posts = command.has(PUBSUB) && command.has(MAY_WRITE);
    !posts && !command.has(READONLY | WRITE)
}

/// Whether any client wants to see this call.
#[inline]
pub fn is_watched(table: &Table) -> bool {
    table.interest() & interest::MONITORS != 0
}

/// Shows a call that has been run to all clients that monitor.
#[cold]
pub fn show(table: &Table, session: &Session, host: &dyn Host, command: &Command, args: &[&[u8]]) {
    if !command.has(SKIP_MONITOR | ADMIN) {
        monitors::show_call(table, &line(session, host, command, args));
    }
}

/// As [`show`], with the commit of the transaction that the call is part of.
#[cold]
pub fn show_inside(txn: &Txn<'_>, session: &Session, host: &dyn Host, command: &Command, args: &[&[u8]]) {
    if !command.has(SKIP_MONITOR | ADMIN) {
        monitors::post_call(txn, &line(session, host, command, args));
    }
}

/// Shows a call that runs a program, before what the program calls.
#[cold]
pub fn show_program(txn: &Txn<'_>, session: &Session, host: &dyn Host, command: &Command, args: &[&[u8]]) {
    monitors::post_call(txn, &line(session, host, command, args));
}

/// As [`show_program`], where it was refused and its transaction with it.
#[cold]
pub fn show_refused_program(
    table: &Table,
    session: &Session,
    host: &dyn Host,
    command: &Command,
    args: &[&[u8]],
) {
    monitors::show_call(table, &line(session, host, command, args));
}

/// `1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`; a script's calls have `lua` for the address.
pub fn line(session: &Session, host: &dyn Host, command: &Command, args: &[&[u8]]) -> Vec<u8> {
    let now_us = polder_base::time::now_us();
    let address = if session.caller.scripted { "lua".into() } else { host.address(session) };
    let mut line =
        format!("{}.{:06} [{} {address}]", now_us / 1_000_000, now_us % 1_000_000, session.caller.db)
            .into_bytes();
    for arg in redacted(command, args) {
        line.push(b' ');
        quote(arg, &mut line);
    }
    line
}

/// Redis's form of a string in a log: always in quotes.
fn quote(bytes: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    for byte in bytes {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            other => line.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
    line.push(b'"');
}
