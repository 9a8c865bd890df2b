//! Calls that took long, or whose requests or replies were large, are noted as they end; and so are spikes of latency. COMMANDLOG and LATENCY
//! (`polder-admin`) show what was noted.
use polder_base::time;

use crate::locks::lock;
use crate::notes::Entry;
use crate::recorder::Note;
use crate::session::{Host, Session};
use polder_calls::command::{Command, FAST, SKIP_SLOWLOG};
use polder_calls::settings::{Id, id};

/// Arguments that an entry keeps, and bytes of each.
const ARGUMENTS_MAX: usize = 32;
const BYTES_MAX: usize = 128;
/// What stands in place of a password.
const REDACTED: &[u8] = b"(redacted)";

/// Why a call is noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trait {
    Slow = 0,
    LargeRequest = 1,
    LargeReply = 2,
}

/// What is to be known of a kind of log.
pub struct LogKind {
    pub name: &'static str,
    /// What a value must reach; negative: nothing is noted.
    threshold: Id,
    /// Entries kept.
    pub length_max: Id,
    numbered: Note,
}

/// In the order of [`Trait`].
const LOGS: [LogKind; 3] = [
    LogKind {
        name: "slow",
        threshold: id("slowlog-log-slower-than"),
        length_max: id("slowlog-max-len"),
        numbered: Note::SlowCall,
    },
    LogKind {
        name: "large-request",
        threshold: id("commandlog-request-larger-than"),
        length_max: id("commandlog-large-request-max-len"),
        numbered: Note::LargeRequest,
    },
    LogKind {
        name: "large-reply",
        threshold: id("commandlog-reply-larger-than"),
        length_max: id("commandlog-large-reply-max-len"),
        numbered: Note::LargeReply,
    },
];

impl Trait {
    /// Its row.
    pub fn row(self) -> &'static LogKind {
        &LOGS[self as usize]
    }
}

/// What a call has cost.
#[derive(Clone, Copy)]
pub struct Cost {
    pub nanoseconds: u64,
    pub reply_bytes: usize,
}

/// Bytes of a call as a client sends it by RESP.
pub fn request_bytes(args: &[&[u8]]) -> usize {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    // A mark, the number and the end of the line; an argument ends with a line end as well.
    let each = args.iter().map(|arg| 1 + digits(arg.len()) + 2 + arg.len() + 2);
    1 + digits(args.len()) + 2 + each.sum::<usize>()
}

/// Whether a call is to be noted because of its request or its reply.
#[inline]
pub fn is_large(host: &dyn Host, args: &[&[u8]], reply_bytes: usize) -> bool {
    let least = host.settings().large_bytes();
    // No request takes more than this beside its arguments.
    const BESIDE: u64 = 32;
    reply_bytes as u64 >= least || args.iter().map(|arg| arg.len() as u64 + BESIDE).sum::<u64>() >= least
}

/// Enters a call into the logs whose thresholds it reaches.
#[cold]
pub fn note_call(host: &dyn Host, session: &Session, command: &Command, args: &[&[u8]], cost: Cost) {
    if command.has(SKIP_SLOWLOG) {
        return;
    }
    let values = [cost.nanoseconds / 1000, request_bytes(args) as u64, cost.reply_bytes as u64];
    for (number, (row, value)) in LOGS.iter().zip(values).enumerate() {
        let least = host.settings().number(row.threshold);
        let kept = host.settings().number(row.length_max) as usize;
        if least < 0 || value < least as u64 || kept == 0 {
            continue;
        }
        let (args, address) =
            (shortened(&redacted(command, args)), host.client(session).address.into_bytes());
        let (id, time) = (host.recorder().next_note(row.numbered), time::now_ms() / 1000);
        let mut log = lock(&host.recorder().logs[number]);
        log.entries.push_front(Entry {
            id,
            time,
            value,
            args,
            address,
            name: shortened_argument(&session.identity.name),
        });
        log.entries.truncate(kept);
    }
}

/// The arguments without passwords.
pub fn redacted<'a>(command: &Command, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = args.to_vec();
    if let Some(secrets) = command.secrets {
        secrets(args, &mut |at| shown[at] = REDACTED);
    }
    shown
}

fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { args.len() };
    let mut shown: Vec<Vec<u8>> = args[..kept].iter().map(|arg| shortened_argument(arg)).collect();
    if kept < args.len() {
        shown.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    shown
}

fn shortened_argument(arg: &[u8]) -> Vec<u8> {
    match arg.len().checked_sub(BYTES_MAX) {
        None | Some(0) => arg.to_vec(),
        Some(more) => [&arg[..BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    }
}

/// Samples something that is no call, if it took long enough.
pub fn note_event(host: &dyn Host, event: &'static str, milliseconds: u64) {
    let threshold = host.settings().number(const { id("latency-monitor-threshold") }) as u64;
    if threshold != 0 && milliseconds >= threshold {
        lock(&host.recorder().monitor)
            .events
            .entry(event.to_owned())
            .or_default()
            .add(time::now_ms() / 1000, milliseconds);
    }
}

/// Samples a call if it took long enough.
pub fn note_spike(host: &dyn Host, command: &Command, nanoseconds: u64) {
    note_event(host, if command.has(FAST) { "fast-command" } else { "command" }, nanoseconds / 1_000_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_what_resp_makes_of_it() {
        assert_eq!(request_bytes(&[b"PING"]), b"*1\r\n$4\r\nPING\r\n".len());
        assert_eq!(
            request_bytes(&[b"ECHO", b"", b"0123456789"]),
            b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$10\r\n0123456789\r\n".len()
        );
    }

    #[test]
    fn long_calls_are_shortened() {
        let many = vec![b"x".as_slice(); 40];
        let shown = shortened(&many);
        assert_eq!((shown.len(), shown[31].as_slice()), (32, b"... (9 more arguments)".as_slice()));
        assert_eq!(shortened(&many[..32]).len(), 32);
        assert_eq!(
            shortened_argument(&[b'a'; 130]),
            [[b'a'; 128].as_slice(), b"... (2 more bytes)"].concat()
        );
    }
}
