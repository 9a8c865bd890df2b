//! COMMANDLOG: the calls that took long, or whose requests or replies were large; SLOWLOG shows those that took long.
//!
//! ```text
//!   slow            microseconds      commandlog-execution-slower-than (slowlog-log-slower-than)
//!   large-request   bytes as RESP     commandlog-request-larger-than
//!   large-reply     bytes as written  commandlog-reply-larger-than
//! ```
//!
//! Each of the three is a ring in each process, newest first; all processes' rings are shown as one. What an EXEC or a script runs is noted by its own
//! size and time.

use polder_base::time;
use polder_table::Stop;

use crate::cross_process;
use crate::introspect::help;
use crate::locks::lock;
use crate::notes::Entry;
pub use crate::notes::Log;
use crate::recorder::Note;
use crate::row::{Row, SessionCall, container, session};
use crate::session::{Host, Session};
use polder_calls::call::{Outcome, is, wrong_arity};
use polder_calls::command::{ADMIN, Command, LOADING, ON_ALL_NODES, SKIP_SLOWLOG, STALE};
use polder_calls::settings::{Id, id};

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("COMMANDLOG")
        .since("8.1.0")
        .costs("Depends on subcommand.")
        .about("A container for command log commands."),
    session("COMMANDLOG|GET", "count type", get)
        .with(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .since("8.1.0")
        .costs("O(N) where N is the number of entries returned")
        .about("Returns the specified command log's entries: slow, large-request or large-reply."),
    session("COMMANDLOG|HELP", "", help)
        .with(LOADING | STALE)
        .since("8.1.0")
        .about("Show helpful text about the different subcommands"),
    session("COMMANDLOG|LEN", "type", length)
        .with(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .since("8.1.0")
        .about("Returns the number of entries in the specified type of command log."),
    session("COMMANDLOG|RESET", "type", reset)
        .with(ADMIN | LOADING | STALE)
        .tips(ON_ALL_NODES)
        .since("8.1.0")
        .costs("O(N) where N is the number of entries in the commandlog")
        .about("Clears all entries from the specified type of command log."),
    container("SLOWLOG")
        .since("2.2.12")
        .costs("Depends on subcommand.")
        .about("A container for slow log commands."),
    session("SLOWLOG|GET", "[count]", slow_get)
        .with(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .since("2.2.12")
        .costs("O(N) where N is the number of entries returned")
        .changed(&[("4.0.0", "Shows the client's address and name.")])
        .about("Returns the slow log's entries."),
    session("SLOWLOG|HELP", "", help)
        .with(LOADING | STALE)
        .since("6.2.0")
        .about("Show helpful text about the different subcommands"),
    session("SLOWLOG|LEN", "", slow_length)
        .with(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .since("2.2.12")
        .about("Returns the number of entries in the slow log."),
    session("SLOWLOG|RESET", "", slow_reset)
        .with(ADMIN | LOADING | STALE)
        .tips(ON_ALL_NODES)
        .since("2.2.12")
        .costs("O(N) where N is the number of entries in the slowlog")
        .about("Clears all entries from the slow log."),
];

/// Arguments that an entry keeps, and bytes of each.
const ARGUMENTS_MAX: usize = 32;
const BYTES_MAX: usize = 128;
/// What stands in place of a password.
const REDACTED: &[u8] = b"(redacted)";
/// How many entries SLOWLOG GET shows when no count is given.
const SHOWN: i64 = 10;

/// Why a call is noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trait {
    Slow = 0,
    LargeRequest = 1,
    LargeReply = 2,
}

/// What is to be known of a kind of log.
struct LogKind {
    name: &'static str,
    /// What a value must reach; negative: nothing is noted.
    threshold: Id,
    /// Entries kept.
    length_max: Id,
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
    fn named(word: &[u8]) -> Result<Trait, Stop> {
        let all = [Trait::Slow, Trait::LargeRequest, Trait::LargeReply];
        let named = all.into_iter().find(|one| is(word, one.row().name));
        named
            .ok_or_else(|| "ERR type should be one of the following: slow, large-request, large-reply".into())
    }

    fn row(self) -> &'static LogKind {
        &LOGS[self as usize]
    }
}

/// What a call has cost.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub nanoseconds: u64,
    pub reply_bytes: usize,
}

/// Bytes of a call as a client sends it by RESP.
pub(crate) fn request_bytes(args: &[&[u8]]) -> usize {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    // A mark, the number and the end of the line; an argument ends with a line end as well.
    let each = args.iter().map(|arg| 1 + digits(arg.len()) + 2 + arg.len() + 2);
    1 + digits(args.len()) + 2 + each.sum::<usize>()
}

/// Whether a call is to be noted because of its request or its reply.
#[inline]
pub(crate) fn is_large(host: &dyn Host, args: &[&[u8]], reply_bytes: usize) -> bool {
    let least = host.settings().large_bytes();
    // No request takes more than this beside its arguments.
    const BESIDE: u64 = 32;
    reply_bytes as u64 >= least || args.iter().map(|arg| arg.len() as u64 + BESIDE).sum::<u64>() >= least
}

/// Enters a call into the logs whose thresholds it reaches.
#[cold]
pub(crate) fn note(host: &dyn Host, session: &Session, command: &Command, args: &[&[u8]], cost: Cost) {
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
pub(crate) fn redacted<'a>(command: &Command, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
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

/// The third argument as a count of entries.
fn count(call: &SessionCall<'_>) -> Result<i64, Stop> {
    polder_base::number::integer(call.args[2])
        .filter(|count| *count >= -1)
        .ok_or_else(|| "ERR count should be greater than or equal to -1".into())
}

fn get(call: &mut SessionCall<'_>) -> Outcome {
    let count = count(call)?;
    show(call, Trait::named(call.args[3])?, count)
}

fn length(call: &mut SessionCall<'_>) -> Outcome {
    show_length(call, Trait::named(call.args[2])?)
}

fn reset(call: &mut SessionCall<'_>) -> Outcome {
    forget(call, Trait::named(call.args[2])?)
}

fn slow_get(call: &mut SessionCall<'_>) -> Outcome {
    let count = match call.args.len() {
        2 => SHOWN,
        3 => count(call)?,
        _ => return Err(wrong_arity(call.command)),
    };
    show(call, Trait::Slow, count)
}

fn slow_length(call: &mut SessionCall<'_>) -> Outcome {
    show_length(call, Trait::Slow)
}

fn slow_reset(call: &mut SessionCall<'_>) -> Outcome {
    forget(call, Trait::Slow)
}

/// Shows the newest `count` entries; -1: all.
fn show(call: &mut SessionCall<'_>, about: Trait, count: i64) -> Outcome {
    let entries = entries(call, about)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(entries.len());
    call.reply.array(count);
    for entry in entries.iter().take(count) {
        call.reply.array(6);
        [entry.id, entry.time, entry.value].into_iter().for_each(|number| call.reply.integer(number as i64));
        call.reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| call.reply.bulk(arg));
        call.reply.bulk(&entry.address);
        call.reply.bulk(&entry.name);
    }
    Ok(())
}

fn show_length(call: &mut SessionCall<'_>, about: Trait) -> Outcome {
    let count = entries(call, about)?.len();
    call.reply.integer(count as i64);
    Ok(())
}

fn forget(call: &mut SessionCall<'_>, about: Trait) -> Outcome {
    cross_process::ask(
        call.table,
        call.session,
        call.host,
        &[b"COMMANDLOG", about.row().name.as_bytes(), b"RESET"],
    )?;
    lock(&call.host.recorder().logs[about as usize]).entries.clear();
    call.reply.ok();
    Ok(())
}

/// The entries of all processes, newest first, no more than one of them may keep.
fn entries(call: &mut SessionCall<'_>, about: Trait) -> Result<Vec<Entry>, Stop> {
    let answers = cross_process::ask(
        call.table,
        call.session,
        call.host,
        &[b"COMMANDLOG", about.row().name.as_bytes(), b"GET"],
    )?;
    let mut entries: Vec<Entry> =
        lock(&call.host.recorder().logs[about as usize]).entries.iter().cloned().collect();
    let most = cross_process::entries_max(call.host, about.row().length_max, entries.len());
    entries.extend(cross_process::lines(&answers).filter_map(Entry::read));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.id));
    // Two threads of a process may have told of it.
    entries.dedup_by_key(|entry| entry.id);
    entries.truncate(most);
    Ok(entries)
}

/// The reply to another process: a line for each entry, or nothing.
pub(crate) fn answer(host: &dyn Host, words: &[&[u8]]) -> String {
    let Some((Ok(about), words)) = words.split_first().map(|(name, words)| (Trait::named(name), words))
    else {
        return String::new();
    };
    cross_process::answer_entries(
        &mut lock(&host.recorder().logs[about as usize]).entries,
        words,
        Entry::line,
    )
}

impl Entry {
    fn line(&self) -> String {
        let texts = [&self.address, &self.name].into_iter().chain(&self.args);
        let words: Vec<String> = texts.map(|text| cross_process::word(text)).collect();
        format!("{} {} {} {}\n", self.id, self.time, self.value, words.join(" "))
    }

    fn read(words: Vec<Vec<u8>>) -> Option<Entry> {
        let mut words = words.into_iter();
        let mut next = || words.next();
        let [id, time, value] = [next()?, next()?, next()?].map(|word| cross_process::number(&word));
        let (address, name) = (next()?, next()?);
        Some(Entry { id, time, value, address, name, args: words.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_as_a_line() {
        let args = vec![b"set".to_vec(), Vec::new(), b"a b\n".to_vec()];
        let entry =
            Entry { id: 3, time: 7, value: 9, args, address: b"127.0.0.1:1".to_vec(), name: Vec::new() };
        let lines =
            cross_process::lines(&[entry.line().into_bytes()]).filter_map(Entry::read).collect::<Vec<_>>();
        assert_eq!(lines, [entry]);
    }

    #[test]
    fn a_request_is_as_long_as_what_resp_makes_of_it() {
        assert_eq!(request_bytes(&[b"PING"]), b"*1\r\n$4\r\nPING\r\n".len());
        assert_eq!(
            request_bytes(&[b"ECHO", b"", b"0123456789"]),
            b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$10\r\n0123456789\r\n".len()
        );
    }

    #[test]
    fn long_calls_are_shortened_and_passwords_hidden() {
        let many = vec![b"x".as_slice(); 40];
        let shown = shortened(&many);
        assert_eq!((shown.len(), shown[31].as_slice()), (32, b"... (9 more arguments)".as_slice()));
        assert_eq!(shortened(&many[..32]).len(), 32);
        assert_eq!(
            shortened_argument(&[b'a'; 130]),
            [[b'a'; 128].as_slice(), b"... (2 more bytes)"].concat()
        );
        let set = crate::lookup::find(b"CONFIG|SET").unwrap();
        let args: [&[u8]; 6] = [b"config", b"set", b"requirepass", b"x", b"timeout", b"3"];
        assert_eq!(redacted(set, &args)[3..], [REDACTED, b"timeout", b"3"]);
    }

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        let hidden = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let shown = redacted(crate::lookup::find(words[0]).expect("a command"), &words);
            shown
                .into_iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            hidden("HELLO 3 SETNAME auth AUTH me secret"),
            "HELLO 3 SETNAME auth AUTH (redacted) (redacted)"
        );
        assert_eq!(
            hidden("MIGRATE h 1 key 0 10 COPY AUTH secret REPLACE"),
            "MIGRATE h 1 key 0 10 COPY AUTH (redacted) REPLACE"
        );
        assert_eq!(
            hidden("MIGRATE h 1  0 10 AUTH2 me secret KEYS AUTH b"),
            "MIGRATE h 1  0 10 AUTH2 (redacted) (redacted) KEYS AUTH b"
        );
        assert_eq!(hidden("AUTH me secret"), "AUTH (redacted) (redacted)");
    }
}
