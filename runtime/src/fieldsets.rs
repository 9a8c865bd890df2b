//! HIMPORT PREPARE, DISCARD and DISCARDALL: the fieldsets of the session, from which HIMPORT SET makes hashes.
use std::sync::Arc;

use crate::row::{Row, SessionCall, session};
use polder_calls::call::Outcome;
use polder_calls::command::GROWS;

const SHARDS: &[&str] = &["request_policy:all_shards"];

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    session("HIMPORT|DISCARD", "fieldset-name", discard)
        .tips(SHARDS)
        .since("8.10.0")
        .costs("O(N) where N is the number of fieldsets of the connection.")
        .about("Forgets a fieldset of the connection."),
    session("HIMPORT|DISCARDALL", "", discard_all)
        .tips(SHARDS)
        .since("8.10.0")
        .costs("O(N) where N is the number of fieldsets of the connection.")
        .about("Forgets all fieldsets of the connection."),
    session("HIMPORT|PREPARE", "fieldset-name field [field ...]", prepare)
        .with(GROWS)
        .tips(SHARDS)
        .since("8.10.0")
        .costs("O(N*log(N)) where N is the number of fields.")
        .about("Names the fields for which later calls of HIMPORT SET on the connection bring the values."),
];

fn prepare(call: &mut SessionCall<'_>) -> Outcome {
    let names = &call.args[3..];
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("ERR duplicate field name in fieldset".into());
    }
    let fieldsets = call.session.caller.fieldsets.get_or_insert_default();
    Arc::make_mut(fieldsets).set(call.args[2], names);
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut SessionCall<'_>) -> Outcome {
    let fieldsets = call.session.caller.fieldsets.as_mut();
    let was_there = fieldsets.is_some_and(|fieldsets| Arc::make_mut(fieldsets).remove(call.args[2]));
    call.reply.integer(was_there.into());
    Ok(())
}

fn discard_all(call: &mut SessionCall<'_>) -> Outcome {
    let fieldsets = call.session.caller.fieldsets.take();
    call.reply.integer(fieldsets.map_or(0, |fieldsets| fieldsets.len()) as i64);
    Ok(())
}
