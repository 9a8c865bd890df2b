//! The process: ending it, and the modules it does not load.
use crate::config::is_allowed;
use crate::debug::not_allowed;
use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{ADMIN, ALLOW_BUSY, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, STALE};
use polder_calls::settings::{Id, id};
use polder_persist::persistence::has_save_points;
use polder_runtime::help::help;
use polder_runtime::row::{Row, SessionCall, container, session};
use polder_runtime::session::Shutdown;

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("MODULE").since("4.0.0").costs("Depends on subcommand.").about("A container for module commands."),
    session("MODULE|HELP", "", help).with(LOADING | STALE).since("5.0.0").about("Returns helpful text about the different subcommands."),
    session("MODULE|LIST", "", list)
        .with(ADMIN | NOSCRIPT)
        .tips(&["nondeterministic_output_order"])
        .since("4.0.0")
        .about("Returns all loaded modules."),
    session("MODULE|LOAD", "path [arg ...]", load).with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING).since("4.0.0").about("Loads a module."),
    session("MODULE|LOADEX", "path [CONFIG name value [name value ...]] [ARGS arg [arg ...]]", load)
        .with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING)
        .since("7.0.0")
        .about("Loads a module using extended parameters."),
    session("MODULE|UNLOAD", "name", unload).with(ADMIN | NOSCRIPT | NO_ASYNC_LOADING).since("4.0.0").about("Unloads a module."),
    session("SHUTDOWN", "[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]", shutdown)
        .with(ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY)
        .busy_where(|args| args.iter().any(|arg| is(arg, "NOSAVE")))
        .since("1.0.0")
        .costs("O(N) when saving, where N is the total number of keys in all databases, otherwise O(1)")
        .changed(&[("7.0.0", "Takes `NOW`, `FORCE` and `ABORT`.")])
        .about("Shuts the server down, after saving where that is asked for or save points are set; the segment stays."),
];

/// Of the family of databases.
pub const TIME: &[Row] = &[session("TIME", "", now)
    .with(LOADING | STALE | FAST)
    .tips(&["nondeterministic_output"])
    .since("2.6.0")
    .about("Returns the server time.")];

const MODULES: Id = id("enable-module-command");

fn list(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.array(0);
    Ok(())
}

fn load(call: &mut SessionCall<'_>) -> Outcome {
    guard(call)?;
    Err("ERR Error loading the extension. Please check the server logs.".into())
}

fn unload(call: &mut SessionCall<'_>) -> Outcome {
    guard(call)?;
    Err("ERR Error unloading module: no such module with that name".into())
}

fn guard(call: &SessionCall<'_>) -> Outcome {
    if is_allowed(call.host, call.session, MODULES) { Ok(()) } else { Err(not_allowed("MODULE", MODULES)) }
}

/// There is no reply when the process ends: its connections close.
fn shutdown(call: &mut SessionCall<'_>) -> Outcome {
    let how = read_options(&call.args[1..])?;
    let (settings, saves) = (call.host.settings(), call.host.saves());
    let is_wanted = how.save.unwrap_or_else(|| has_save_points(settings)) && !how.abort;
    if is_wanted && saves.save_at_end(call.table, settings).is_err() && !how.force {
        return Err("ERR Errors trying to SHUTDOWN. Check logs.".into());
    }
    call.host.shutdown(how)?;
    call.session.closing = true;
    Ok(())
}

fn read_options(words: &[&[u8]]) -> Result<Shutdown, polder_table::Stop> {
    let mut how = Shutdown::default();
    for word in words {
        match () {
            () if is(word, "SAVE") && how.save != Some(false) => how.save = Some(true),
            () if is(word, "NOSAVE") && how.save != Some(true) => how.save = Some(false),
            () if is(word, "NOW") => how.now = true,
            () if is(word, "FORCE") => how.force = true,
            () if is(word, "ABORT") => how.abort = true,
            () => return Err(SYNTAX.into()),
        }
    }
    let alone = Shutdown { abort: true, ..Shutdown::default() };
    if how.abort && how != alone { Err(SYNTAX.into()) } else { Ok(how) }
}

fn now(call: &mut SessionCall<'_>) -> Outcome {
    // A script sees one moment only.
    let us = if call.session.script.now_us != 0 {
        call.session.script.now_us
    } else {
        polder_base::time::now_us()
    };
    call.reply.array(2);
    call.reply.bulk((us / 1_000_000).to_string().as_bytes());
    call.reply.bulk((us % 1_000_000).to_string().as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_each_other_are_a_syntax_error() {
        let read =
            |text: &str| read_options(&text.split_ascii_whitespace().map(str::as_bytes).collect::<Vec<_>>());
        assert_eq!(
            read("nosave now force"),
            Ok(Shutdown { save: Some(false), now: true, force: true, abort: false })
        );
        assert_eq!(read("abort"), Ok(Shutdown { abort: true, ..Shutdown::default() }));
        for wrong in ["save nosave", "nosave save", "abort now", "what"] {
            assert_eq!(read(wrong), Err(SYNTAX.into()), "{wrong}");
        }
    }
}
