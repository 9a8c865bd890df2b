//! SCRIPT: the programs that EVALSHA finds.
use polder_table::Stop;

use super::{Kind, scripting};
use crate::row::{SessionCall, TxnCall};
use polder_calls::call::{Outcome, is};

/// The reply of EVALSHA for an unknown script.
pub const ABSENT: &str = "NOSCRIPT No matching script. Please use EVAL.";

pub fn load(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let program = scripting.script_cache.load(call.table, call.txn, &*scripting.lua, call.args[2])?;
    call.reply.bulk(program.sha.as_bytes());
    Ok(())
}

pub fn exists(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let known = call.args[2..]
        .iter()
        .map(|sha| Ok(scripting.script_cache.find(call.table, call.txn, sha)?.is_some()));
    let known = known.collect::<Result<Vec<bool>, Stop>>()?;
    call.reply.array(known.len());
    known.iter().for_each(|known| call.reply.integer((*known).into()));
    Ok(())
}

pub fn show(call: &mut TxnCall<'_>) -> Outcome {
    let scripting = scripting(call.host)?;
    let program = scripting
        .script_cache
        .find(call.table, call.txn, call.args[2])?
        .ok_or("NOSCRIPT No matching script.")?;
    call.reply.bulk(&program.body);
    Ok(())
}

pub fn flush(call: &mut TxnCall<'_>) -> Outcome {
    if call.args.len() > 3 || call.args.get(2).is_some_and(|mode| !is(mode, "SYNC") && !is(mode, "ASYNC")) {
        return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
    }
    scripting(call.host)?.script_cache.flush(call.txn)?;
    call.reply.ok();
    Ok(())
}

pub fn kill(call: &mut SessionCall<'_>) -> Outcome {
    scripting(call.host)?.board.kill(Kind::Script)?;
    call.reply.ok();
    Ok(())
}

/// There is no debugger: only NO is obeyed.
pub fn debug(call: &mut SessionCall<'_>) -> Outcome {
    let mode = call.args[2];
    if is(mode, "NO") {
        call.reply.ok();
        return Ok(());
    }
    if is(mode, "YES") || is(mode, "SYNC") {
        return Err(
            "ERR this server has no debugger for scripts: run them against redis-server to debug them".into(),
        );
    }
    Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into())
}
