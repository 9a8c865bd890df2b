//! SLOWLOG: the calls that took longer than `slowlog-log-slower-than`, newest first, in a ring of each process that are shown as one.
use std::collections::VecDeque;

use polder_base::time;

use crate::call::{Outcome, SessionCall, is};
use crate::command::{ADMIN, Command, LOADING, SKIP_SLOWLOG, STALE, container, session};
use crate::elsewhere;
use crate::introspect::help;
use crate::metrics::recorder::{Note, lock};
use crate::session::{Host, Session};
use crate::settings::id;

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    container("SLOWLOG").since("2.2.12").costs("Depends on subcommand.").about("A container for slow log commands."),
    session("SLOWLOG|GET", "[count]", get)
        .with(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .since("2.2.12")
        .costs("O(N) where N is the number of entries returned")
        .about("Returns the slow log's entries."),
    session("SLOWLOG|HELP", "", help).with(LOADING | STALE).since("6.2.0").about("Show helpful text about the different subcommands"),
    session("SLOWLOG|LEN", "", length)
        .with(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .since("2.2.12")
        .about("Returns the number of entries in the slow log."),
    session("SLOWLOG|RESET", "", reset)
        .with(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .since("2.2.12")
        .costs("O(N) where N is the number of entries in the slowlog")
        .about("Clears all entries from the slow log."),
];

/// Arguments that an entry keeps, and bytes of each.
const ARGUMENTS_MAX: usize = 32;
const BYTES_MAX: usize = 128;
/// What stands in place of a password.
const REDACTED: &[u8] = b"(redacted)";

/// One slow call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: u64,
    /// Seconds since the Unix epoch.
    time: u64,
    microseconds: u64,
    args: Vec<Vec<u8>>,
    address: Vec<u8>,
    name: Vec<u8>,
}

/// The ring, newest first.
#[derive(Default)]
pub struct SlowLog {
    entries: VecDeque<Entry>,
}

/// Enters a call into the slow log if it took long enough.
pub(crate) fn note(host: &dyn Host, session: &Session, command: &Command, args: &[&[u8]], nanoseconds: u64) {
    let settings = host.settings();
    let slower_us = settings.number(const { id("slowlog-log-slower-than") });
    if slower_us < 0 || nanoseconds / 1000 < slower_us as u64 || command.has(SKIP_SLOWLOG) {
        return;
    }
    let kept = settings.number(const { id("slowlog-max-len") }) as usize;
    if kept == 0 {
        return;
    }
    let args = shortened(&redacted(command, args));
    let address = host.client(session).address.into_bytes();
    let id = host.recorder().next_note(Note::SlowCall);
    let mut log = lock(&host.recorder().slow);
    let (time, microseconds) = (time::now_ms() / 1000, nanoseconds / 1000);
    log.entries.push_front(Entry { id, time, microseconds, args, address, name: session.name.clone() });
    log.entries.truncate(kept);
}

/// The arguments without passwords.
pub(crate) fn redacted<'a>(command: &Command, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = args.to_vec();
    match command.name {
        "CONFIG|SET" => {
            let secret = |name: &[u8]| crate::settings::find(name).is_some_and(|id| id.row().secret);
            for at in (2..args.len().saturating_sub(1)).step_by(2).filter(|at| secret(args[*at])) {
                shown[at + 1] = REDACTED;
            }
        }
        "AUTH" => shown.iter_mut().skip(1).for_each(|arg| *arg = REDACTED),
        "ACL|SETUSER" | "ACL|GETUSER" | "ACL|DELUSER" => shown.iter_mut().skip(2).for_each(|arg| *arg = REDACTED),
        "HELLO" => {
            if let Some(at) = args.iter().position(|arg| is(arg, "AUTH")) {
                shown.iter_mut().skip(at + 1).take(2).for_each(|arg| *arg = REDACTED);
            }
        }
        _ => {}
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

fn get(call: &mut SessionCall<'_>) -> Outcome {
    let count = match call.args {
        [_, _] => 10,
        [_, _, count] => polder_base::number::integer(count)
            .filter(|count| *count >= -1)
            .ok_or_else(|| crate::Stop::from("ERR count should be greater than or equal to -1"))?,
        _ => return Err(crate::execute::wrong_arity(call.command)),
    };
    let entries = entries(call)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(entries.len());
    call.reply.array(count);
    for entry in entries.iter().take(count) {
        call.reply.array(6);
        [entry.id, entry.time, entry.microseconds].into_iter().for_each(|number| call.reply.integer(number as i64));
        call.reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| call.reply.bulk(arg));
        call.reply.bulk(&entry.address);
        call.reply.bulk(&entry.name);
    }
    Ok(())
}

fn length(call: &mut SessionCall<'_>) -> Outcome {
    let count = entries(call)?.len();
    call.reply.integer(count as i64);
    Ok(())
}

fn reset(call: &mut SessionCall<'_>) -> Outcome {
    elsewhere::ask(call.table, call.session, call.host, &[b"SLOWLOG", b"RESET"])?;
    lock(&call.host.recorder().slow).entries.clear();
    call.reply.ok();
    Ok(())
}

/// The entries of all processes, newest first, no more than one of them may keep.
fn entries(call: &mut SessionCall<'_>) -> Result<Vec<Entry>, crate::Stop> {
    let answers = elsewhere::ask(call.table, call.session, call.host, &[b"SLOWLOG", b"GET"])?;
    let mut entries: Vec<Entry> = lock(&call.host.recorder().slow).entries.iter().cloned().collect();
    entries.extend(elsewhere::lines(&answers).filter_map(Entry::read));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.id));
    // Two threads of a process may have told of it.
    entries.dedup_by_key(|entry| entry.id);
    entries.truncate(call.host.settings().number(const { id("slowlog-max-len") }) as usize);
    Ok(entries)
}

/// Answers another process: a line for each entry, or nothing.
pub(crate) fn answer(host: &dyn Host, words: &[&[u8]]) -> String {
    elsewhere::answer_entries(&mut lock(&host.recorder().slow).entries, words, Entry::line)
}

impl Entry {
    fn line(&self) -> String {
        let texts = [&self.address, &self.name].into_iter().chain(&self.args);
        let words: Vec<String> = texts.map(|text| elsewhere::word(text)).collect();
        format!("{} {} {} {}\n", self.id, self.time, self.microseconds, words.join(" "))
    }

    fn read(words: Vec<Vec<u8>>) -> Option<Entry> {
        let mut words = words.into_iter();
        let mut next = || words.next();
        let [id, time, microseconds] = [next()?, next()?, next()?].map(|word| elsewhere::number(&word));
        let (address, name) = (next()?, next()?);
        Some(Entry { id, time, microseconds, address, name, args: words.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_as_a_line() {
        let args = vec![b"set".to_vec(), Vec::new(), b"a b\n".to_vec()];
        let entry = Entry { id: 3, time: 7, microseconds: 9, args, address: b"127.0.0.1:1".to_vec(), name: Vec::new() };
        let lines = elsewhere::lines(&[entry.line().into_bytes()]).filter_map(Entry::read).collect::<Vec<_>>();
        assert_eq!(lines, [entry]);
    }

    #[test]
    fn long_calls_are_shortened_and_passwords_hidden() {
        let many = vec![b"x".as_slice(); 40];
        let shown = shortened(&many);
        assert_eq!((shown.len(), shown[31].as_slice()), (32, b"... (9 more arguments)".as_slice()));
        assert_eq!(shortened(&many[..32]).len(), 32);
        assert_eq!(shortened_argument(&[b'a'; 130]), [[b'a'; 128].as_slice(), b"... (2 more bytes)"].concat());
        let set = crate::lookup::find(b"CONFIG|SET").unwrap();
        let args: [&[u8]; 6] = [b"config", b"set", b"requirepass", b"x", b"timeout", b"3"];
        assert_eq!(redacted(set, &args)[3..], [REDACTED, b"timeout", b"3"]);
    }
}
