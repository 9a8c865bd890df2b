//! CLIENT: what is known of the clients, and what can be done to them.
//!
//! Everything about the caller is in its session; everything about the others is asked of the host, and of the other processes of the
//! segment ([`ask`]).
use std::collections::BTreeMap;

use polder_base::number;
use polder_hub::query::{self};
use polder_table::Stop;

use polder_calls::call::{Outcome, SYNTAX, integer, is};
use polder_calls::command::{ADMIN, Flags, LOADING, NOSCRIPT, ON_ALL_NODES, OWN_CONNECTION, STALE};
use polder_runtime::cross_process;
use polder_runtime::help::help;
use polder_runtime::row::{Row, SessionCall, container, session};
use polder_runtime::session::client::line;
use polder_runtime::session::{Client, Host, Replies, Session};
use polder_runtime::tracking;

use filter::Filter;

mod filter;

const QUIET: Flags = NOSCRIPT | LOADING | STALE | OWN_CONNECTION;
const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("CLIENT").with(OWN_CONNECTION).since("2.4.0").costs("Depends on subcommand.").about("A container for client connection commands."),
    session("CLIENT|CACHING", "<YES|NO>", tracking::caching)
        .with(QUIET)
        .since("6.0.0")
        .about("Instructs the server whether to track the keys in the next request."),
    session("CLIENT|CAPA", "capability [capability ...]", claim)
        .with(QUIET)
        .since("8.0.0")
        .about("Tells the server what the client can do."),
    session("CLIENT|GETNAME", "", get_name).with(QUIET).since("2.6.9").about("Returns the name of the connection."),
    session("CLIENT|GETREDIR", "", tracking::redirection)
        .with(QUIET)
        .since("6.0.0")
        .about("Returns the client ID to which the connection's tracking notifications are redirected."),
    session("CLIENT|HELP", "", help).with(LOADING | STALE | OWN_CONNECTION).since("5.0.0").about("Prints this help."),
    session("CLIENT|ID", "", get_id).with(QUIET).since("5.0.0").about("Returns the unique client ID of the connection."),
    session("CLIENT|IMPORT-SOURCE", "<ON|OFF>", import_source)
        .with(QUIET)
        .since("8.1.0")
        .about("Mark this client as an import source when server is in import mode."),
    session("CLIENT|INFO", "", info).with(QUIET).tips(NONDETERMINISTIC).since("6.2.0").about("Returns information about the connection."),
    session(
        "CLIENT|KILL",
        "<ip:port|filter> [ID client-id [client-id ...]] [TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] \
         [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] \
         [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] \
         [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] \
         [NOT-IP ip]",
        kill,
    )
    .with(QUIET | ADMIN)
    .since("2.4.0")
    .costs("O(N) where N is the number of client connections")
    .changed(&[("2.8.12", "Filters can be given in place of an address."), ("2.8.12", "Takes `ID`, and the `TYPE` of clients."), ("3.2.0", "Takes `MASTER` as a `TYPE`."), ("5.0.0", "Takes `REPLICA` as a `TYPE`, which was `SLAVE`."), ("6.2.0", "Takes `LADDR`."), ("7.4.0", "Takes `MAXAGE`."), ("9.0.0", "Takes `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA` and `IP`, and conditions with `NOT-`.")]).about("Terminates open connections."),
    session(
        "CLIENT|LIST",
        "[TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [ID client-id [client-id ...]] [USER username] [ADDR ip:port] [LADDR ip:port] \
         [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] \
         [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] \
         [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] \
         [NOT-IP ip]",
        list,
    )
    .with(QUIET | ADMIN)
    .tips(NONDETERMINISTIC)
    .since("2.4.0")
    .costs("O(N) where N is the number of client connections")
    .changed(&[("2.8.12", "Shows `id`."), ("5.0.0", "Takes `TYPE`."), ("6.0.0", "Shows `user`."), ("6.2.0", "Takes `ID`; shows `argv-mem`, `tot-mem`, `laddr` and `redir`."), ("7.0.0", "Shows `resp`, `multi-mem`, `rbs` and `rbp`."), ("7.0.3", "Shows `ssub`."), ("7.2.0", "Shows `lib-name` and `lib-ver`."), ("7.4.0", "Shows `watch`."), ("8.0.0", "Shows `io-thread`."), ("9.0.0", "Takes `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA` and `IP`, and conditions with `NOT-`.")]).about("Lists open connections."),
    session("CLIENT|NO-EVICT", "<ON|OFF>", no_evict)
        .with(QUIET | ADMIN)
        .since("7.0.0")
        .about("Sets the client eviction mode of the connection."),
    session("CLIENT|NO-TOUCH", "<ON|OFF>", no_touch)
        .with(QUIET)
        .since("7.2.0")
        .about("Controls whether commands sent by the client affect the LRU/LFU of accessed keys."),
    session("CLIENT|PAUSE", "timeout [WRITE|ALL]", pause).with(QUIET | ADMIN).since("3.0.0").changed(&[("6.2.0", "Takes `WRITE` and `ALL`.")]).about("Suspends commands processing."),
    session("CLIENT|REPLY", "<ON|OFF|SKIP>", replies)
        .with(QUIET)
        .since("3.2.0")
        .about("Instructs the server whether to reply to commands."),
    session("CLIENT|SETINFO", "<LIB-NAME libname|LIB-VER libver>", set_info)
        .with(QUIET)
        .tips(ON_ALL_NODES)
        .since("7.2.0")
        .about("Sets information specific to the client or connection."),
    session("CLIENT|SETNAME", "connection-name", set_name)
        .with(QUIET)
        .tips(ON_ALL_NODES)
        .since("2.6.9")
        .about("Sets the connection name."),
    session(
        "CLIENT|TRACKING",
        "<ON|OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        tracking::tracking,
    )
    .with(QUIET)
    .since("6.0.0")
    .costs("O(1). Some options may introduce additional complexity.")
    .about("Controls server-assisted client-side caching for the connection."),
    session("CLIENT|TRACKINGINFO", "", tracking::info)
        .with(QUIET)
        .since("6.2.0")
        .about("Returns information about server-assisted client-side caching for the connection."),
    session("CLIENT|UNBLOCK", "client-id [TIMEOUT|ERROR]", unblock)
        .with(QUIET | ADMIN)
        .since("5.0.0")
        .costs("O(log N) where N is the number of client connections")
        .about("Unblocks a client blocked by a blocking command from a different connection."),
    session("CLIENT|UNPAUSE", "", unpause)
        .with(QUIET | ADMIN)
        .since("6.2.0")
        .costs("O(N) Where N is the number of paused clients")
        .about("Resumes processing commands from paused clients."),
];

fn info(call: &mut SessionCall<'_>) -> Outcome {
    let client = call.host.client(call.session);
    call.reply.verbatim("txt", &line(&client));
    Ok(())
}

fn elsewhere(call: &mut SessionCall<'_>, words: &[&[u8]]) -> Result<Vec<Vec<u8>>, Stop> {
    cross_process::ask(call.table, call.session, call.host, words)
}

/// Replies to a question of another process about the clients of this one:
///
/// `LIST caller ...` and `KILL caller ...` as the commands, and `UNBLOCK id ...` with a number or [`UNDECIDED`], `HOME id` with
/// the client's thread.
pub fn answer(host: &dyn Host, words: &[&[u8]]) -> Vec<u8> {
    let (Some((question, rest)), blank) = (words.split_first(), Session::default()) else {
        return Vec::new();
    };
    match (*question, rest) {
        (b"LIST", [caller, options @ ..]) => {
            let caller = number::integer(caller).unwrap_or(0) as u64;
            let lines =
                Filter::to_list(options, host).map(|filter| lines(&filter, &host.clients(&blank), caller));
            lines.unwrap_or_default().into_values().flatten().collect()
        }
        (b"KILL", [caller, options @ ..]) => {
            let killed = Filter::to_kill(options, host)
                .map(|filter| kill_all(&filter, host, &blank, number::integer(caller).unwrap_or(0) as u64));
            killed.unwrap_or(0).to_string().into_bytes()
        }
        (b"UNBLOCK", [id, options @ ..]) => {
            let id = number::integer(id).and_then(|id| u64::try_from(id).ok());
            match id.map_or(Some(false), |id| host.unblock(id, !options.is_empty())) {
                Some(unblocked) => i64::from(unblocked).to_string().into_bytes(),
                None => UNDECIDED.into(),
            }
        }
        (b"HOME", [id]) => {
            let thread = number::integer(id).and_then(|id| host.home(id as u64));
            thread.map_or(Vec::new(), |(seat, life)| format!("{seat} {life}").into_bytes())
        }
        _ => Vec::new(),
    }
}

/// The reply about a client whose thread is running its call again: whether it waits is not known
/// yet.
const UNDECIDED: &[u8] = b"?";

/// The sum of what several processes have counted.
fn sum(answers: &[Vec<u8>]) -> i64 {
    answers.iter().filter_map(|answer| number::integer(answer)).sum()
}

fn list(call: &mut SessionCall<'_>) -> Outcome {
    let args = call.args;
    let filter = Filter::to_list(&args[2..], call.host)?;
    let caller = call.session.identity.id;
    let answers = elsewhere(call, &[&[&b"LIST"[..], caller.to_string().as_bytes()], &args[2..]].concat())?;
    let mut lines = lines(&filter, &call.host.clients(call.session), caller);
    for line in answers.iter().flat_map(|answer| answer.split_inclusive(|byte| *byte == b'\n')) {
        let id = line
            .strip_prefix(b"id=")
            .and_then(|rest| rest.split(|byte| *byte == b' ').next())
            .and_then(number::integer);
        lines.extend(id.map(|id| (id as u64, line.to_vec())));
    }
    let text: Vec<u8> = match filter.ids() {
        Some(ids) => ids.iter().filter_map(|id| lines.get(id)).flatten().copied().collect(),
        None => lines.into_values().flatten().collect(),
    };
    call.reply.verbatim("txt", &text);
    Ok(())
}

/// The lines of the clients that a filter means, by their ids.
fn lines(filter: &Filter<'_>, clients: &[Client], caller: u64) -> BTreeMap<u64, Vec<u8>> {
    let meant = clients.iter().filter(|client| filter.means(client, caller));
    meant.map(|client| (client.id, line(client))).collect()
}

/// Kills the clients of this process that a filter means, except the caller, which needs its reply first. Returns how many.
fn kill_all(filter: &Filter<'_>, host: &dyn Host, session: &Session, caller: u64) -> i64 {
    let clients = host.clients(session);
    let killed = clients
        .iter()
        .filter(|client| filter.means(client, caller) && client.id != caller && host.kill(client.id));
    killed.count() as i64
}

fn kill(call: &mut SessionCall<'_>) -> Outcome {
    let args = call.args;
    let filter = Filter::to_kill(&args[2..], call.host)?;
    let caller = call.session.identity.id;
    let is_here =
        filter.ids().is_some_and(|ids| ids.iter().all(|id| *id == caller || call.host.home(*id).is_some()));
    let answers = if is_here {
        Vec::new()
    } else {
        elsewhere(call, &[&[&b"KILL"[..], caller.to_string().as_bytes()], &args[2..]].concat())?
    };
    let mut killed = sum(&answers) + kill_all(&filter, call.host, call.session, caller);
    if call
        .host
        .clients(call.session)
        .iter()
        .any(|client| client.id == caller && filter.means(client, caller))
    {
        call.session.closing = true;
        killed += 1;
    }
    match (args.len() == 3, killed) {
        (false, _) => call.reply.integer(killed),
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => call.reply.ok(),
    }
    Ok(())
}

fn get_id(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.integer(call.session.identity.id as i64);
    Ok(())
}

fn get_name(call: &mut SessionCall<'_>) -> Outcome {
    match &call.session.identity.name[..] {
        [] => call.reply.null(),
        name => call.reply.bulk(name),
    }
    Ok(())
}

fn set_name(call: &mut SessionCall<'_>) -> Outcome {
    call.session.rename(call.args[2])?;
    call.reply.ok();
    Ok(())
}

fn set_info(call: &mut SessionCall<'_>) -> Outcome {
    let (option, value) = (call.args[2], call.args[3]);
    let shown = String::from_utf8_lossy(option);
    let place = match option {
        word if is(word, "LIB-NAME") => &mut call.session.identity.library,
        word if is(word, "LIB-VER") => &mut call.session.identity.library_version,
        _ => return Err(format!("ERR Unrecognized option '{shown}'").into()),
    };
    if !value.iter().all(u8::is_ascii_graphic) {
        return Err(format!("ERR {shown} cannot contain spaces, newlines or special characters.").into());
    }
    *place = (*value).into();
    call.reply.ok();
    Ok(())
}

/// Notes what a client can do. Words that are not known mean something to other servers.
fn claim(call: &mut SessionCall<'_>) -> Outcome {
    call.session.identity.takes_redirects |= call.args[2..].iter().any(|word| is(word, "REDIRECT"));
    call.reply.ok();
    Ok(())
}

/// The third argument as ON or OFF.
fn switch(call: &SessionCall<'_>) -> Result<bool, Stop> {
    match call.args[2] {
        word if is(word, "ON") => Ok(true),
        word if is(word, "OFF") => Ok(false),
        _ => Err(SYNTAX.into()),
    }
}

fn no_evict(call: &mut SessionCall<'_>) -> Outcome {
    call.session.no_evict = switch(call)?;
    call.reply.ok();
    Ok(())
}

fn no_touch(call: &mut SessionCall<'_>) -> Outcome {
    call.session.caller.no_touch = switch(call)?;
    call.reply.ok();
    Ok(())
}

fn import_source(call: &mut SessionCall<'_>) -> Outcome {
    // Of the segment, whatever process has set it.
    if !call.table.imports() && !is(call.args[2], "OFF") {
        return Err("ERR Server is not in import mode".into());
    }
    call.session.imports = switch(call)?;
    call.reply.ok();
    Ok(())
}

fn replies(call: &mut SessionCall<'_>) -> Outcome {
    call.session.replies = match (call.args[2], call.session.replies) {
        (word, _) if is(word, "ON") => Replies::On,
        (word, _) if is(word, "OFF") => Replies::Off,
        (word, Replies::Off) if is(word, "SKIP") => Replies::Off,
        (word, _) if is(word, "SKIP") => Replies::SkipNext,
        _ => return Err(SYNTAX.into()),
    };
    call.reply.ok();
    Ok(())
}

fn pause(call: &mut SessionCall<'_>) -> Outcome {
    let writers_only = match call.args[3..] {
        [] => false,
        [word] if is(word, "ALL") => false,
        [word] if is(word, "WRITE") => true,
        _ => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
    };
    let timeout_ms = number::integer(call.args[2]).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| "ERR timeout is negative")?;
    // Rounded up, and not the turn's, which may have begun a while ago: no pause is shorter than was asked for.
    let until_ms = polder_base::time::now_us()
        .div_ceil(1000)
        .checked_add(timeout_ms)
        .filter(|until| i64::try_from(*until).is_ok());
    query::pause(call.table, until_ms.ok_or("ERR timeout is out of range")?, writers_only);
    call.reply.ok();
    Ok(())
}

fn unpause(call: &mut SessionCall<'_>) -> Outcome {
    query::unpause(call.table);
    call.host.rouse();
    call.reply.ok();
    Ok(())
}

fn unblock(call: &mut SessionCall<'_>) -> Outcome {
    let with_error = match call.args[3..] {
        [] => false,
        [word] if is(word, "TIMEOUT") => false,
        [word] if is(word, "ERROR") => true,
        _ => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
    };
    let id = integer(call.args[2])?;
    // Two clients that unblock each other, or one that unblocks itself, right after a pause must not wait for each other's calls.
    call.host.end_postponement(call.session);
    let here = u64::try_from(id).ok().filter(|id| call.host.home(*id).is_some());
    let unblocked = match here {
        Some(id) => call.host.unblock(id, with_error),
        None => {
            let (id, reason): (_, &[&[u8]]) = (id.to_string(), if with_error { &[b"ERROR"] } else { &[] });
            let answers = elsewhere(call, &[&[&b"UNBLOCK"[..], id.as_bytes()], reason].concat())?;
            let undecided = answers.iter().any(|answer| answer == UNDECIDED);
            (!undecided).then(|| sum(&answers) > 0)
        }
    };
    match unblocked {
        Some(unblocked) => call.reply.integer(unblocked.into()),
        // Asked again in a moment. A transaction is not: what its earlier calls have unblocked stays so.
        None if call.session.caller.atomic => call.reply.integer(0),
        None => return Err(Stop::Busy),
    }
    Ok(())
}
