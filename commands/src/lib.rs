//! Every command family: one row and one function per command.
//!
//! A function gets a [`Call`] and knows no protocol and no socket. Rows are plain values in one table per family;
//! arity, key positions, ACL categories, COMMAND INFO/DOCS and the documentation are derived from them.
#![forbid(unsafe_code)]

pub mod call;
pub mod command;
pub mod session;
pub mod string;

pub use call::{Call, Outcome};
pub use command::{Command, find};
pub use session::{Host, Session};

/// Every family, in the order of the documentation. Adding a command touches one family's file only.
pub const FAMILIES: &[&[Command]] = &[string::COMMANDS];

pub use polder_table::{Db, Stop};

/// Runs one call to its end and writes exactly one reply.
///
/// Looks the command up, checks arity, locks the declared keys, runs the function, commits, and runs it again while the
/// transaction asks for that. MULTI queues instead of running.
pub fn execute(table: &polder_table::Table, session: &mut Session, host: &dyn Host, args: &[&[u8]], reply: &mut dyn polder_base::Reply) {
    let Some(command) = args.first().and_then(|name| find(name)) else {
        return reply.error("ERR unknown command");
    };
    if !command.arity_fits(args.len()) {
        return reply.error(&format!("ERR wrong number of arguments for '{}' command", command.name.to_ascii_lowercase()));
    }
    let txn = table.begin(if command.is_write() { polder_table::Mode::Write } else { polder_table::Mode::Read });
    let keys: Vec<(Db, &[u8])> = command.keys(args).map(|at| (session.db, args[at])).collect();
    let mark = reply.mark();
    loop {
        let outcome = match txn.declare(&keys) {
            Ok(()) => {
                let mut call = Call { args, table, txn: &txn, reply: &mut *reply, session: &mut *session, host };
                (command.run)(&mut call)
            }
            Err(stop) => Err(stop),
        };
        match outcome.and_then(|()| txn.commit()) {
            Ok(()) => return,
            Err(stop) => {
                txn.abort();
                reply.rewind(mark);
                match stop {
                    Stop::Retry => continue,
                    Stop::Refused(text) => return reply.error(&text),
                    Stop::Fault(fault) => return reply.error(&fault.to_string()),
                }
            }
        }
    }
}
