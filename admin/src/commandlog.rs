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

use polder_table::Stop;

use polder_calls::call::{Outcome, is, wrong_arity};
use polder_calls::command::{ADMIN, LOADING, ON_ALL_NODES, STALE};
use polder_runtime::Host;
use polder_runtime::cross_process;
use polder_runtime::help::help;
use polder_runtime::locks::lock;
use polder_runtime::notes::Entry;
use polder_runtime::noting::Trait;
use polder_runtime::row::{Row, SessionCall, container, session};

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

/// How many entries SLOWLOG GET shows when no count is given.
const SHOWN: i64 = 10;

/// The log of this name.
fn named(word: &[u8]) -> Result<Trait, Stop> {
    let all = [Trait::Slow, Trait::LargeRequest, Trait::LargeReply];
    let named = all.into_iter().find(|one| is(word, one.row().name));
    named.ok_or_else(|| "ERR type should be one of the following: slow, large-request, large-reply".into())
}

/// The third argument as a count of entries.
fn count(call: &SessionCall<'_>) -> Result<i64, Stop> {
    polder_base::number::integer(call.args[2])
        .filter(|count| *count >= -1)
        .ok_or_else(|| "ERR count should be greater than or equal to -1".into())
}

fn get(call: &mut SessionCall<'_>) -> Outcome {
    let count = count(call)?;
    show(call, named(call.args[3])?, count)
}

fn length(call: &mut SessionCall<'_>) -> Outcome {
    show_length(call, named(call.args[2])?)
}

fn reset(call: &mut SessionCall<'_>) -> Outcome {
    forget(call, named(call.args[2])?)
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
    entries.extend(cross_process::lines(&answers).filter_map(read));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.id));
    // Two threads of a process may have told of it.
    entries.dedup_by_key(|entry| entry.id);
    entries.truncate(most);
    Ok(entries)
}

/// The reply to another process: a line for each entry, or nothing.
pub fn answer(host: &dyn Host, words: &[&[u8]]) -> String {
    let Some((Ok(about), words)) = words.split_first().map(|(name, words)| (named(name), words)) else {
        return String::new();
    };
    cross_process::answer_entries(&mut lock(&host.recorder().logs[about as usize]).entries, words, line)
}

/// An entry as a line for other processes.
fn line(entry: &Entry) -> String {
    let texts = [&entry.address, &entry.name].into_iter().chain(&entry.args);
    let words: Vec<String> = texts.map(|text| cross_process::word(text)).collect();
    format!("{} {} {} {}\n", entry.id, entry.time, entry.value, words.join(" "))
}

/// Reads what [`line()`] wrote.
fn read(words: Vec<Vec<u8>>) -> Option<Entry> {
    let mut words = words.into_iter();
    let mut next = || words.next();
    let [id, time, value] = [next()?, next()?, next()?].map(|word| cross_process::number(&word));
    let (address, name) = (next()?, next()?);
    Some(Entry { id, time, value, address, name, args: words.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_runtime::noting::redacted;

    #[test]
    fn an_entry_survives_as_a_line() {
        let args = vec![b"set".to_vec(), Vec::new(), b"a b\n".to_vec()];
        let entry =
            Entry { id: 3, time: 7, value: 9, args, address: b"127.0.0.1:1".to_vec(), name: Vec::new() };
        let lines = cross_process::lines(&[line(&entry).into_bytes()]).filter_map(read).collect::<Vec<_>>();
        assert_eq!(lines, [entry]);
    }

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        let hidden = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            polder_engine::register();
            let shown = redacted(polder_runtime::find(words[0]).expect("a command"), &words);
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
        let set = polder_runtime::find(b"CONFIG|SET").expect("a command");
        let args: [&[u8]; 6] = [b"config", b"set", b"requirepass", b"x", b"timeout", b"3"];
        assert_eq!(redacted(set, &args)[3..], [&b"(redacted)"[..], b"timeout", b"3"]);
    }
}
