//! EVAL, SCRIPT, FUNCTION, FCALL: programs that run inside one transaction.
//!
//! ```text
//!   EVAL body      -> script_cache.rs: this process's programs by their SHA1; those of SCRIPT LOAD also lie in the segment
//!   FCALL function -> library.rs: what this process knows of the libraries -> library_store.rs: where they lie in the segment
//!        both      -> script_context.rs: what the program may do, and how its calls are run in the transaction
//!                  -> base::script::Scripts, implemented by the crate `script`
//! ```
//!
//! A script is one transaction, as an EXEC is: the keys that it names are locked first, others when it reaches for them. Should the table
//! ask for another run, nothing had been published: it runs again with the clock and the random numbers of the first time. Its replies
//! wait for the commit. A script that fails keeps what it had written before, as Redis has it; one whose process dies, nothing.
//!
//! **Invariant:** a program sees no more of the clock than one moment.
use std::sync::Arc;

use polder_base::script::{Ended, Habit, Input, NO_WRITES, Program};
use polder_table::{Mode, Stop, Table};

use crate::help::help;
use crate::row::{Row, TxnCall, container, neutral, session, write};
use crate::run::{Keys, begin};
use crate::session::{Host, Session};
use polder_calls::call::{NOT_AN_INTEGER, Outcome};
use polder_calls::command::{
    ALLOW_BUSY, BatchKey, Command, Flags, GROWS, MAY_WRITE, NO_MANDATORY_KEYS, NOSCRIPT, ON_ALL_NODES,
    READONLY, SCRIPTS, SKIP_MONITOR, STALE,
};
use polder_calls::facts::Tells::{Own, Verbatim};
use polder_calls::settings::id;

mod function;
mod script;
mod script_context;

use crate::scripts::shebang;
pub use crate::scripts::{Figures, Kind, Memo, Running, Scripting};
pub use polder_base::script::Scripts;

/// Scripts begin as readers; [`run_program`] makes writers of them.
fn at_first(_: &[&[u8]]) -> bool {
    true
}

/// What calls of EVAL have in common that share a transaction.
fn by_body<'a>(args: &[&'a [u8]]) -> Option<BatchKey<'a>> {
    shared(args, false)
}

fn by_sha<'a>(args: &[&'a [u8]]) -> Option<BatchKey<'a>> {
    shared(args, true)
}

fn shared<'a>(args: &[&'a [u8]], by_sha: bool) -> Option<BatchKey<'a>> {
    match *args {
        [_, program, b"0", ..] => Some(BatchKey::Program { by_sha, program, key: None }),
        [_, program, b"1", key, ..] => Some(BatchKey::Program { by_sha, program, key: Some(key) }),
        _ => None,
    }
}

const SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const KILLERS: &[&str] = &["request_policy:all_shards", "response_policy:one_succeeded"];
const RUNS: Flags = NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | SCRIPTS;
const DEPENDS: &str = "Depends on the script that is executed.";
const DEPENDS_ON_FUNCTION: &str = "Depends on the function that is executed.";

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    neutral("EVAL", "script numkeys [key ...] [arg ...]", Mode::Write, eval)
        .tells(Own("what its calls are told as"))
        .reads_where(at_first)
        .shares(by_body)
        .with(RUNS | MAY_WRITE)
        .touches(&["RW access update"])
        .since("2.6.0")
        .costs(DEPENDS)
        .about("Executes a server-side Lua script."),
    neutral("EVAL_RO", "script numkeys [key ...] [arg ...]", Mode::Write, eval)
        .reads_where(at_first)
        .shares(by_body)
        .with(RUNS | READONLY)
        .since("7.0.0")
        .costs(DEPENDS)
        .about("Executes a read-only server-side Lua script."),
    neutral("EVALSHA", "sha1 numkeys [key ...] [arg ...]", Mode::Write, eval_sha)
        .tells(Own("what its calls are told as"))
        .reads_where(at_first)
        .shares(by_sha)
        .with(RUNS | MAY_WRITE)
        .touches(&["RW access update"])
        .since("2.6.0")
        .costs(DEPENDS)
        .about("Executes a server-side Lua script by SHA1 digest."),
    neutral("EVALSHA_RO", "sha1 numkeys [key ...] [arg ...]", Mode::Write, eval_sha)
        .reads_where(at_first)
        .shares(by_sha)
        .with(RUNS | READONLY)
        .since("7.0.0")
        .costs(DEPENDS)
        .about("Executes a read-only server-side Lua script by SHA1 digest."),
    container("SCRIPT").since("2.6.0").costs("Depends on subcommand.").about("A container for Lua scripts management commands."),
    session("SCRIPT|DEBUG", "<YES|SYNC|NO>", script::debug)
        .with(NOSCRIPT)
        .since("3.2.0")
        .about("Sets the debug mode of server-side Lua scripts."),
    neutral("SCRIPT|EXISTS", "sha1 [sha1 ...]", Mode::Read, script::exists)
        .with(NOSCRIPT)
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
        .since("2.6.0")
        .costs("O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).")
        .about("Determines whether server-side Lua scripts exist in the script cache."),
    neutral("SCRIPT|FLUSH", "[ASYNC|SYNC]", Mode::Write, script::flush)
        .with(NOSCRIPT)
        .tips(ON_ALL_NODES)
        .since("2.6.0")
        .costs("O(N) with N being the number of scripts in cache")
        .changed(&[("6.2.0", "Takes `ASYNC` and `SYNC`.")])
        .about("Removes all server-side Lua scripts from the script cache."),
    session("SCRIPT|HELP", "", help).with(polder_calls::command::LOADING | STALE).since("5.0.0").about("Prints this help."),
    session("SCRIPT|KILL", "", script::kill)
        .with(NOSCRIPT | ALLOW_BUSY)
        .tips(KILLERS)
        .since("2.6.0")
        .about("Terminates a server-side Lua script during execution."),
    neutral("SCRIPT|LOAD", "script", Mode::Write, script::load)
        .with(NOSCRIPT | STALE)
        .tips(ON_ALL_NODES)
        .since("2.6.0")
        .costs("O(N) with N being the length in bytes of the script body.")
        .about("Loads a server-side Lua script to the script cache."),
    neutral("SCRIPT|SHOW", "sha1", Mode::Read, script::show)
        .with(NOSCRIPT)
        .since("8.0.0")
        .about("Shows a server-side Lua script of the script cache."),
    neutral("FCALL", "function numkeys [key ...] [arg ...]", Mode::Write, function::call)
        .tells(Own("what its calls are told as"))
        .with(RUNS | MAY_WRITE)
        .touches(&["RW access update"])
        .since("7.0.0")
        .costs(DEPENDS_ON_FUNCTION)
        .about("Invokes a function."),
    neutral("FCALL_RO", "function numkeys [key ...] [arg ...]", Mode::Write, function::call)
        .with(RUNS | READONLY)
        .since("7.0.0")
        .costs(DEPENDS_ON_FUNCTION)
        .about("Invokes a read-only function."),
    container("FUNCTION").since("7.0.0").costs("Depends on subcommand.").about("A container for function commands."),
    write("FUNCTION|DELETE", "library-name", function::delete)
        .tells(Verbatim)
        .with(NOSCRIPT)
        .tips(SHARDS)
        .since("7.0.0")
        .about("Deletes a library and its functions."),
    neutral("FUNCTION|DUMP", "", Mode::Read, function::dump)
        .with(NOSCRIPT)
        .since("7.0.0")
        .costs("O(N) where N is the number of functions")
        .about("Dumps all libraries into a serialized binary payload."),
    write("FUNCTION|FLUSH", "[ASYNC|SYNC]", function::flush)
        .tells(Verbatim)
        .with(NOSCRIPT)
        .tips(SHARDS)
        .since("7.0.0")
        .costs("O(N) where N is the number of functions deleted")
        .about("Deletes all libraries and functions."),
    session("FUNCTION|HELP", "", help).with(polder_calls::command::LOADING | STALE).since("7.0.0").about("Prints this help."),
    session("FUNCTION|KILL", "", function::kill)
        .with(NOSCRIPT | ALLOW_BUSY)
        .tips(KILLERS)
        .since("7.0.0")
        .about("Terminates a function during execution."),
    neutral("FUNCTION|LIST", "[LIBRARYNAME library-name-pattern] [WITHCODE]", Mode::Read, function::list)
        .with(NOSCRIPT)
        .tips(&["nondeterministic_output_order"])
        .since("7.0.0")
        .costs("O(N) where N is the number of functions")
        .about("Returns information about all libraries."),
    write("FUNCTION|LOAD", "[REPLACE] function-code", function::load)
        .tells(Verbatim)
        .with(NOSCRIPT | GROWS)
        .tips(SHARDS)
        .since("7.0.0")
        .costs("O(1) (considering compilation time is redundant)")
        .about("Creates a library."),
    write("FUNCTION|RESTORE", "serialized-value [FLUSH|APPEND|REPLACE]", function::restore)
        .tells(Verbatim)
        .with(NOSCRIPT | GROWS)
        .tips(SHARDS)
        .since("7.0.0")
        .costs("O(N) where N is the number of functions on the payload")
        .about("Restores all libraries from a payload."),
    session("FUNCTION|STATS", "", function::stats)
        .with(NOSCRIPT | ALLOW_BUSY)
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .since("7.0.0")
        .about("Returns information about a function during execution."),
];

/// Whether the program that a call runs declares that it writes nothing.
pub(crate) fn only_reads(
    table: &Table,
    session: &Session,
    host: &dyn Host,
    command: &Command,
    args: &[&[u8]],
) -> bool {
    let (Some(scripting), Some(name)) = (host.scripting(), args.get(1)) else { return false };
    let flags = match (command.name, begin(table, session, Mode::Read)) {
        ("EVAL", _) => shebang::of_script(name).ok().and_then(|(flags, _)| flags),
        ("EVALSHA", Ok(txn)) => {
            scripting.script_cache.find(table, &txn, name).ok().flatten().and_then(|program| program.flags)
        }
        (_, Ok(txn)) => {
            let found = scripting.libraries.function(scripting.look(table, &txn), name).ok().flatten();
            found.map(|(library, number)| library.functions[number].flags)
        }
        (_, Err(_)) => None,
    };
    flags.is_some_and(|flags| flags & NO_WRITES != 0)
}

/// Before a call that may run scripts: makes room, or notes that there is none.
pub(crate) fn prepare(session: &mut Session, table: &Table) {
    session.script = Memo { short_of_memory: !table.make_room(), ..Memo::default() };
}

/// Before the `number`th of several runs of one program that share a transaction.
pub(crate) fn prepare_next(session: &mut Session, number: usize) {
    let program = if number == 0 { None } else { session.script.program.take() };
    session.script = Memo { number: number as u64 + 1, program, ..Memo::default() };
}

/// The process's scripts, with the limits that are set now.
fn scripting(host: &dyn Host) -> Result<&Scripting, Stop> {
    let scripting =
        host.scripting().ok_or("ERR this process runs no scripts: it was built or started without them")?;
    scripting.lua.limit_memory(host.settings().number(const { id("lua-memory-limit") }) as u64);
    Ok(scripting)
}

/// A stretch of a call's arguments.
type Words<'a> = &'a [&'a [u8]];

/// The keys and arguments behind `numkeys`, which stands at 2.
fn input<'a>(args: &'a [&'a [u8]], not_a_number: &'static str) -> Result<(Words<'a>, Words<'a>), Stop> {
    let count = polder_base::number::integer(args[2]).ok_or(not_a_number)?;
    let rest = &args[3..];
    if count > rest.len() as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    Ok(rest.split_at(count))
}

fn eval(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let (keys, args) = input(call.args, NOT_AN_INTEGER)?;
    let program = match call.session.script.program.take() {
        Some(program) => program,
        None => scripting.script_cache.get(call.table, call.txn, &*scripting.lua, call.args[1])?,
    };
    run_program(call, scripting, program, keys, args)
}

fn eval_sha(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let (keys, args) = input(call.args, NOT_AN_INTEGER)?;
    let program = match call.session.script.program.take() {
        Some(program) => program,
        None => scripting.script_cache.find(call.table, call.txn, call.args[1])?.ok_or(script::ABSENT)?,
    };
    run_program(call, scripting, program, keys, args)
}

fn run_program(
    call: &mut TxnCall<'_>,
    scripting: &Scripting,
    program: Arc<Program>,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Outcome {
    let reads = program.habit() == Habit::Reads && call.session.listening.tracking.is_none();
    if !reads && call.txn.mode() == Mode::Read {
        let keys: Keys<'_> = keys.iter().map(|key| (call.session.caller.db, *key)).collect();
        call.txn.become_writer();
        call.txn.declare(&keys)?;
    }
    let run =
        |input: &Input<'_>,
         stage: &mut script_context::ScriptContext<'_, '_>,
         reply: &mut dyn polder_base::Reply| { scripting.lua.run(&program, input, stage, reply) };
    let (outcome, only_read) =
        perform(call, scripting, Kind::Script, &program.sha, program.flags, keys, args, run)?;
    program.note_run(only_read);
    if call.session.script.number != 0 {
        call.session.script.program = Some(program);
    }
    outcome
}

/// Runs a compiled program, with what its flags let it do. Returns how it came out, and whether it
/// has only read, and not for long.
///
/// # Errors
/// It may not run at all.
#[allow(clippy::too_many_arguments, reason = "what the two kinds of programs have in batch_key")]
fn perform(
    call: &mut TxnCall<'_>,
    scripting: &Scripting,
    kind: Kind,
    name: &str,
    flags: Option<polder_base::script::Flags>,
    keys: &[&[u8]],
    args: &[&[u8]],
    run: impl FnOnce(&Input<'_>, &mut script_context::ScriptContext<'_, '_>, &mut dyn polder_base::Reply) -> Ended,
) -> Result<(Outcome, bool), Stop> {
    // That of an attempt which came to nothing.
    call.session.script.failure = None;
    let limits = script_context::Limits::of(call, flags)?;
    let now_us = call.txn.now_us();
    // Runs that share a transaction, and so the clock, do not draw the same random numbers.
    let input = Input { keys, args, seed: now_us.wrapping_add(call.session.script.number << 8) };
    let TxnCall { table, txn, session, host, args: command, .. } = call;
    let actors = script_context::Actors { table, txn, session, host: *host, scripting, command };
    let mut stage = script_context::ScriptContext::new(actors, kind, name, limits, now_us);
    let ended = run(&input, &mut stage, &mut *call.reply);
    let (stop, only_read) = stage.leave();
    let outcome = match ended {
        Ended::Answered => Ok(()),
        Ended::Failed { text, counted } => {
            call.reply.error(&text);
            call.session.script.failure = Some((text, counted));
            Ok(())
        }
        Ended::Unwound => Err(stop.unwrap_or(Stop::Retry)),
    };
    Ok((outcome, only_read))
}
