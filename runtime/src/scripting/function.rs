//! FUNCTION and FCALL: libraries of functions.
use polder_base::script::{FLAG_NAMES, Function, Input, Library, Trust};
use polder_base::{Reply, glob};
use polder_table::{Counter, Mode, Stop};

use super::script_context::ScriptContext;
use super::{Kind, Scripting, input, perform, scripting};
use crate::row::{SessionCall, TxnCall};
use crate::run::begin;
use crate::scripts::library::Policy;
use crate::scripts::{clear_codes, payload, shebang};
use polder_calls::call::{Outcome, is};

pub fn call(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let found = scripting.libraries.function(scripting.look(call.table, call.txn), call.args[1])?;
    let (library, number) = found.ok_or("ERR Function not found")?;
    let function = &library.functions[number];
    let (keys, args) = input(call.args, "ERR Bad number of keys provided")?;
    let run = |input: &Input<'_>, stage: &mut ScriptContext<'_, '_>, reply: &mut dyn Reply| {
        scripting.lua.call(&library, &function.name, input, stage, reply)
    };
    perform(call, scripting, Kind::Function, &function.name, Some(function.flags), keys, args, run)?.0
}

/// Too many arguments for a subcommand that looks at them itself.
fn too_many(call: &TxnCall<'_>) -> Stop {
    let name = String::from_utf8_lossy(call.args[1]);
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP.").into()
}

/// A library of this code, loaded once in this thread to learn its functions.
fn compile(scripting: &Scripting, code: &[u8]) -> Result<Library, Stop> {
    let (name, shebang) = shebang::of_library(code)?;
    let mut library = Library::new(name, code, shebang);
    library.functions = scripting.lua.load(&library, Trust::Unknown)?;
    Ok(library)
}

pub fn load(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let (code, options) = call.args[2..].split_last().ok_or_else(|| too_many(call))?;
    let mut replaces = false;
    for option in options {
        if !is(option, "REPLACE") {
            return Err(format!("ERR Unknown option given: {}", String::from_utf8_lossy(option)).into());
        }
        replaces = true;
    }
    let look = scripting.look(call.table, call.txn);
    let (name, _) = shebang::of_library(code)?;
    // Compiled before anything is locked, although the result may not be needed.
    let compiled = compile(scripting, code);
    if !replaces && scripting.libraries.has(look, &name)? {
        return Err(format!("ERR Library '{name}' already exists").into());
    }
    scripting.libraries.add(look, vec![compiled?], Policy::Replace)?;
    call.reply.bulk(name.as_bytes());
    Ok(())
}

pub fn delete(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let look = scripting.look(call.table, call.txn);
    let removed = match str::from_utf8(call.args[2]) {
        Ok(name) => scripting.libraries.remove(look, name)?,
        Err(_) => false,
    };
    if !removed {
        return Err("ERR Library not found".into());
    }
    call.reply.ok();
    Ok(())
}

pub fn flush(call: &mut TxnCall<'_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(too_many(call));
    }
    if call.args.get(2).is_some_and(|mode| !is(mode, "SYNC") && !is(mode, "ASYNC")) {
        return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
    }
    clear_codes(call.txn)?;
    scripting(call.host)?.libraries.forget();
    // Libraries are data, and worth a save.
    call.txn.count(Counter::Changes, 1);
    call.reply.ok();
    Ok(())
}

pub fn list(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let (mut pattern, mut with_code, mut rest) = (None, false, &call.args[2..]);
    while let [option, others @ ..] = rest {
        rest = others;
        if !with_code && is(option, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is(option, "LIBRARYNAME") {
            let [given, others @ ..] = others else {
                return Err("ERR library name argument was not given".into());
            };
            (pattern, rest) = (Some(given.to_ascii_lowercase()), others);
        } else {
            return Err(format!("ERR Unknown argument {}", String::from_utf8_lossy(option)).into());
        }
    }
    let fits = |name: &str| {
        pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, name.to_ascii_lowercase().as_bytes()))
    };
    let shown = scripting.libraries.all(scripting.look(call.table, call.txn), fits)?;
    call.reply.array(shown.len());
    for library in shown {
        call.reply.map(if with_code { 4 } else { 3 });
        call.reply.bulk(b"library_name");
        call.reply.bulk(library.name.as_bytes());
        call.reply.bulk(b"engine");
        call.reply.bulk(b"LUA");
        call.reply.bulk(b"functions");
        call.reply.array(library.functions.len());
        library.functions.iter().for_each(|function| show(function, call.reply));
        if with_code {
            call.reply.bulk(b"library_code");
            call.reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn show(function: &Function, reply: &mut dyn Reply) {
    reply.map(3);
    reply.bulk(b"name");
    reply.bulk(function.name.as_bytes());
    reply.bulk(b"description");
    match &function.description {
        Some(description) => reply.bulk(description),
        None => reply.null(),
    }
    reply.bulk(b"flags");
    let flags: Vec<&str> =
        FLAG_NAMES.iter().filter(|(flag, _)| function.flags & flag != 0).map(|(_, name)| *name).collect();
    reply.set(flags.len());
    flags.iter().for_each(|name| reply.status(name));
}

pub fn stats(call: &mut SessionCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    // While a function of this very thread is busy there is no second transaction: what was known must do.
    let now = || scripting.libraries.totals_now(call.table);
    let totals = match begin(call.table, call.session, Mode::Read) {
        Ok(txn) => scripting.libraries.totals(scripting.look(call.table, &txn)).unwrap_or_else(|_| now()),
        Err(_) => now(),
    };
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match scripting.board.all().iter().find(|running| running.kind == Kind::Function) {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.command.len());
            running.command.iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.integer(running.since.elapsed().as_millis() as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(totals.libraries as i64);
    reply.bulk(b"functions_count");
    reply.integer(totals.functions as i64);
    Ok(())
}

pub fn kill(call: &mut SessionCall<'_>) -> Outcome {
    scripting(call.host)?.board.kill(Kind::Function)?;
    call.reply.ok();
    Ok(())
}

pub fn dump(call: &mut TxnCall<'_>) -> Outcome {
    let codes = scripting(call.host)?.look(call.table, call.txn).view().codes()?;
    call.reply.bulk(&payload::write(codes.iter().map(Vec::as_slice)));
    Ok(())
}

pub fn restore(call: &mut TxnCall<'_>) -> Outcome {
    if call.args.len() > 4 {
        return Err(too_many(call));
    }
    let policies = [("FLUSH", Policy::Flush), ("APPEND", Policy::Append), ("REPLACE", Policy::Replace)];
    let policy = match call.args.get(3) {
        None => Policy::Append,
        Some(word) => match policies.iter().find(|(name, _)| is(word, name)) {
            Some((_, policy)) => *policy,
            None => {
                return Err(
                    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.".into(),
                );
            }
        },
    };
    let scripting = scripting(call.host)?;
    let codes = payload::read(call.args[2])?;
    let fresh = codes.iter().map(|code| compile(scripting, code)).collect::<Result<Vec<_>, _>>()?;
    scripting.libraries.add(scripting.look(call.table, call.txn), fresh, policy)?;
    call.reply.ok();
    Ok(())
}
