//! The functions that the prelude builds on.
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};
use polder_base::Protocol;
use sha1::{Digest, Sha1};

use crate::args::{Args, as_number, function, functions, text};
use crate::complaint::Complaint;
use crate::drand::Drand;
use crate::lua_state::{LuaState, gate, gate_of_many, goes_on, may};
use crate::thrown::{complain, raise, translate, whereabouts};
use crate::{bits, json, msgpack, number, pack, pattern};

/// Forty hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text of an error as `redis.error_reply` makes it: a code and a message.
fn error_text(given: &[u8]) -> Vec<u8> {
    // As in C, a zero ends it.
    let given = given.split(|byte| *byte == 0).next().unwrap_or_default();
    let given = given.strip_prefix(b"-").unwrap_or(given);
    let (code, message) = match given.iter().position(|byte| *byte == b' ') {
        Some(at) => (&given[..at], &given[at + 1..]),
        None => (&b"ERR"[..], given),
    };
    let newline = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let begin = message.iter().position(|byte| !newline(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !newline(byte)).map_or(begin, |at| at + 1);
    [code, b" ", &message[begin..end]].concat()
}

fn log(args: &MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return raise("ERR redis.log() requires two arguments or more.", false);
    }
    let Some(level) = as_number(&args[0]) else {
        return raise("ERR First argument must be a number (log level).", false);
    };
    let line = args.iter().skip(1).map(|word| text(word).unwrap_or_default()).collect::<Vec<_>>().join(&b' ');
    let line = String::from_utf8_lossy(&line);
    match number::whole(level) {
        0 => tracing::trace!(target: "script", "{line}"),
        1 => tracing::debug!(target: "script", "{line}"),
        2 => tracing::info!(target: "script", "{line}"),
        3 => tracing::warn!(target: "script", "{line}"),
        _ => return raise("ERR Invalid debug level.", false),
    }
    Ok(())
}

/// A table of one field: the reply that a script asks to have made.
fn reply(lua: &Lua, args: &MultiValue, field: &str, make: fn(&[u8]) -> Vec<u8>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    match (args.len(), args.front()) {
        (1, Some(Value::String(given))) => {
            table.raw_set(field, lua.create_string(make(&given.as_bytes()))?)?
        }
        _ => table.raw_set("err", "ERR wrong number or type of arguments")?,
    }
    Ok(table)
}

/// What scripts find in `redis`, but for what concerns the world.
fn redis(lua: &Lua, lua_state: &Rc<LuaState>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("log", lua.create_function(|_, args: MultiValue| log(&args))?)?;
    table.set(
        "error_reply",
        lua.create_function(|lua, args: MultiValue| reply(lua, &args, "err", error_text))?,
    )?;
    table.set(
        "status_reply",
        lua.create_function(|lua, args: MultiValue| reply(lua, &args, "ok", <[u8]>::to_vec))?,
    )?;
    let sha = |_: &Lua, args: MultiValue| match args.len() {
        1 => Ok(hex(&Sha1::digest(text(&args[0]).unwrap_or_default()))),
        _ => raise("ERR wrong number of arguments", false),
    };
    table.set("sha1hex", lua.create_function(sha)?)?;
    let set_repl = |_: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return raise("ERR redis.set_repl() requires two arguments.", false);
        }
        match as_number(&args[0]).map_or(0, number::whole) {
            0..=3 => Ok(()),
            _ => raise(
                "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
                false,
            ),
        }
    };
    table.set("set_repl", lua.create_function(set_repl)?)?;
    let clerk = lua_state.clone();
    let setresp = move |_: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return raise("ERR redis.setresp() requires one argument.", false);
        }
        let wanted = as_number(&args[0]).map_or(0, number::whole);
        clerk.protocol.set(match wanted {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return raise("ERR RESP version must be 2 or 3.", false),
        });
        Ok(())
    };
    table.set("setresp", lua.create_function(setresp)?)?;
    Ok(table)
}

fn random(lua_state: &LuaState, args: &Args) -> Result<f64, Complaint> {
    let mut drand = lua_state.random.get().unwrap_or(Drand::seeded(0));
    let drawn = drand.draw();
    lua_state.random.set(Some(drand));
    let (low, high) = match args.count() {
        0 => return Ok(drawn),
        1 => (1, args.whole(1, "random")? as i32),
        2 => (args.whole(1, "random")? as i32, args.whole(2, "random")? as i32),
        _ => return Err("wrong number of arguments".into()),
    };
    if low > high {
        return Err(args.bad(args.count(), "random", "interval is empty"));
    }
    Ok((drawn * f64::from(high.wrapping_sub(low).wrapping_add(1))).floor() + f64::from(low))
}

/// All of them, by name.
pub fn table(lua: &Lua, lua_state: &Rc<LuaState>) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    let unwind = lua.create_table()?;
    natives.set("unwind", &unwind)?;
    natives.set("null", Value::NULL)?;
    natives.set("where", lua.create_function(|lua, ()| Ok(whereabouts(lua, 2).unzip()))?)?;
    natives
        .set("translate", lua.create_function(move |lua, value: Value| translate(lua, value, &unwind))?)?;
    natives.set("redis", redis(lua, lua_state)?)?;
    let clerk = lua_state.clone();
    natives.set(
        "random",
        lua.create_function(move |lua, args: MultiValue| {
            random(&clerk, &Args(args)).or_else(|why| complain(lua, why))
        })?,
    )?;
    let clerk = lua_state.clone();
    let seed = move |lua: &Lua, args: MultiValue| match Args(args).whole(1, "randomseed") {
        Ok(seed) => {
            clerk.random.set(Some(Drand::seeded(seed as u32)));
            Ok(())
        }
        Err(why) => complain(lua, why),
    };
    natives.set("randomseed", lua.create_function(seed)?)?;
    let clerk = lua_state.clone();
    let register = move |_: &Lua, args: MultiValue| {
        let mut registering = clerk.registering.borrow_mut();
        let Some(register) = registering.as_mut() else {
            return raise("ERR redis.register_function can only be called on FUNCTION LOAD command", false);
        };
        register.add(&args).or_else(|text| raise(text, false))
    };
    natives.set("register", lua.create_function(register)?)?;
    natives.set("call", gate(lua, lua_state)?)?;
    natives.set("call_many", gate_of_many(lua, lua_state)?)?;
    natives.set("may", lua.create_function(may)?)?;
    natives.set("cjson", json::library(lua, &lua_state.json)?)?;
    natives.set("new_cjson", lua.create_function(|lua, ()| json::library(lua, &Rc::default()))?)?;
    natives.set("bit", bits::library(lua)?)?;
    natives.set("cmsgpack", functions(lua, msgpack::FUNCTIONS)?)?;
    natives.set("struct", functions(lua, pack::FUNCTIONS)?)?;
    let patterns = lua.create_table()?;
    for (name, native) in pattern::FUNCTIONS {
        let clerk = lua_state.clone();
        let watch = move |lua: &Lua| goes_on(lua, &clerk).unwrap_or(false);
        patterns.set(*name, function(lua, move |args, results| native(args, results, &watch))?)?;
    }
    natives.set("pattern", patterns)?;
    Ok(natives)
}
