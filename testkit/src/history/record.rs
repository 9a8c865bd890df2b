//! The file in which a player notes what it does: one `write` per line, so that SIGKILL cannot take back what was noted.
//!
//! ```text
//! > 1234 r7:money SHIFT a b 3                 begins at 1234 ns, in the group r7:money
//! < 1260 [-3 3]                               ends with this reply
//! > 1300 r7:pair SET a 1|SET b 1              MULTI, two commands, EXEC
//! x                                           it is not known whether that has happened (the server died)
//! ```
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::model::Call;

/// One operation of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    pub group: String,
    /// One command, or those between MULTI and EXEC.
    pub calls: Vec<Call>,
    pub begun_ns: u64,
    /// When it ended and with which reply; `None`: it may have happened at any time after its beginning, or never.
    pub ended: Option<(u64, String)>,
}

/// CLOCK_MONOTONIC, which all processes of the machine share.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A file being written.
pub struct Recorder {
    file: File,
}

impl Recorder {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn new(path: &Path) -> io::Result<Recorder> {
        Ok(Recorder { file: OpenOptions::new().create_new(true).append(true).open(path)? })
    }

    /// Notes that an operation begins.
    ///
    /// # Errors
    /// Those of the file.
    pub fn begin(&mut self, group: &str, calls: &[Call]) -> io::Result<()> {
        let calls: Vec<String> = calls.iter().map(|call| call.join(" ")).collect();
        // The time is taken as late as can be, and in `end` as early: an interval that is too long hides violations.
        self.file.write_all(format!("> {} {group} {}\n", now_ns(), calls.join("|")).as_bytes())
    }

    /// Notes the reply to what has begun; `None` when there is none.
    ///
    /// # Errors
    /// Those of the file.
    pub fn end(&mut self, ended_ns: u64, reply: Option<&str>) -> io::Result<()> {
        let line = reply.map_or("x\n".into(), |reply| format!("< {ended_ns} {reply}\n"));
        self.file.write_all(line.as_bytes())
    }
}

/// The operations that a player has noted. A last line without its end was never written.
pub fn read(text: &str) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let mut parts = line.splitn(4, ' ');
        let (mark, time) = (parts.next(), parts.next().and_then(|time| time.parse().ok()));
        match (mark, time) {
            (Some(">"), Some(begun_ns)) => {
                let (Some(group), Some(calls)) = (parts.next(), parts.next()) else { continue };
                let calls =
                    calls.split('|').map(|call| call.split(' ').map(String::from).collect()).collect();
                operations.push(Operation { group: group.into(), calls, begun_ns, ended: None });
            }
            (Some("<"), Some(ended_ns)) => {
                let reply = line.splitn(3, ' ').nth(2).unwrap_or_default();
                operations
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|last| last.ended = Some((ended_ns, reply.into())));
            }
            _ => {}
        }
    }
    // A WATCH whose EXEC failed has done nothing.
    operations.retain(|done| {
        !(done.calls[0][0] == "SWAP" && done.ended.as_ref().is_some_and(|(_, reply)| reply == "nil"))
    });
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_again() {
        let text = "> 5 g SET a 1|GET b\n< 7 [OK nil]\n> 8 g GET a\nx\n> 9 g SWAP a 2\n< 10 nil\n> 11 g LRANGE l 0 -1\n< 12 [\"a\" \"b\"]\n> 13 g G";
        let found = read(text);
        let told: Vec<(u64, Option<&str>)> = found
            .iter()
            .map(|done| (done.begun_ns, done.ended.as_ref().map(|(_, reply)| reply.as_str())))
            .collect();
        assert_eq!(told, [(5, Some("[OK nil]")), (8, None), (11, Some("[\"a\" \"b\"]"))]);
        assert_eq!(found[0].calls, [vec!["SET", "a", "1"], vec!["GET", "b"]]);
    }
}
