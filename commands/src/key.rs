//! Keys, whatever they hold: DEL, EXISTS, TYPE, RENAME, COPY, MOVE and their kin.
//!
//! RENAME and MOVE carry the value's record to another name: the tree it names is neither copied nor freed. COPY makes a
//! tree of its own, node by node.
use polder_base::Reply;
use polder_table::{Db, Found, Mutation, New, Replaces, Stop};
use polder_values::Kind;
use polder_values::duplicate::duplicate;

use crate::types::effort;
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::command::{Command, FAST, FastCall, GROWS, read, write};
use polder_calls::facts::Tells::Verbatim;
use polder_calls::settings::{Settings, id};

const SUMMED: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

const NO_SUCH_KEY: &str = "ERR no such key";
const SAME_KEY: &str = "ERR source and destination objects are the same";
const NO_SUCH_DB: &str = "ERR DB index is out of range";

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("COPY", "source destination [DB destination-db] [REPLACE]", copy)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["RO access", "OW update"])
        .since("6.2.0")
        .costs("O(N) worst case for collections, where N is the number of nested items. O(1) for string values.")
        .about("Copies the value of a key to a new key."),
    write("DEL", "key [key ...]", del)
        .quick(del_quickly)
        .tells(Verbatim)
        .touches(&["RM delete"])
        .tips(SUMMED)
        .costs("O(N) where N is the number of keys that will be removed.")
        .about("Deletes one or more keys."),
    read("EXISTS", "key [key ...]", exists)
        .with(FAST)
        .touches(&["RO"])
        .tips(SUMMED)
        .costs("O(N) where N is the number of keys to check.")
        .changed(&[("3.0.3", "Several of `key` may be given.")])
        .about("Determines whether one or more keys exist."),
    write("MOVE", "key db", move_key).tells(Verbatim).with(FAST).about("Moves a key to another database."),
    write("RENAME", "key newkey", rename)
        .tells(Verbatim)
        .touches(&["RW access delete", "OW update"])
        .about("Renames a key and overwrites the destination."),
    write("RENAMENX", "key newkey", rename_if_absent)
        .tells(Verbatim)
        .with(FAST)
        .touches(&["RW access delete", "OW insert"])
        .changed(&[("3.2.0", "Both names may be the same.")])
        .about("Renames a key only when the target key name doesn't exist."),
    read("TOUCH", "key [key ...]", touch)
        .with(FAST)
        .touches(&["RO"])
        .tips(SUMMED)
        .since("3.2.1")
        .costs("O(N) where N is the number of keys that will be touched.")
        .about("Returns the number of existing keys out of those specified after updating the time they were last accessed."),
    read("TYPE", "key", kind).with(FAST).touches(&["RO"]).about("Determines the type of value stored at a key."),
    write("UNLINK", "key [key ...]", unlink)
        .quick(unlink_quickly)
        .shares_key()
        .tells(Verbatim)
        .with(FAST)
        .touches(&["RM delete"])
        .tips(SUMMED)
        .since("4.0.0")
        .costs("O(1) for each key removed; its memory is freed later.")
        .about("Asynchronously deletes one or more keys."),
];

/// The database that an argument names.
///
/// # Errors
/// Redis's texts for what is no number, and for a number too high.
pub fn database(settings: &Settings, arg: &[u8]) -> Result<Db, Stop> {
    match i32::try_from(integer(arg)?) {
        Ok(number) => database_of(settings, number),
        Err(_) => Err("ERR value is out of range, value must between -2147483648 and 2147483647".into()),
    }
}

/// The database of a number.
///
/// # Errors
/// Redis's text for a number too high.
pub(crate) fn database_of(settings: &Settings, number: i32) -> Result<Db, Stop> {
    Db::try_from(number).ok().filter(|db| *db < settings.databases()).ok_or_else(|| NO_SUCH_DB.into())
}

/// How many keys of a call `holds` for.
fn tally(call: &mut Call<'_>, mut holds: impl FnMut(&Call<'_>, &[u8]) -> Result<bool, Stop>) -> Outcome {
    let mut count = 0;
    for key in &call.args[1..] {
        count += i64::from(holds(call, key)?);
    }
    call.reply.integer(count);
    Ok(())
}

fn del(call: &mut Call<'_>) -> Outcome {
    let freely = call.settings.is_on(const { id("lazyfree-lazy-user-del") });
    delete(call, freely)
}

fn unlink(call: &mut Call<'_>) -> Outcome {
    delete(call, true)
}

/// The effort above which Redis lets another thread free a value.
const EFFORT_MIN: u64 = 64;
/// Takes keys away; `freely`: as if another thread gave their memory back.
fn delete(call: &mut Call<'_>, freely: bool) -> Outcome {
    tally(call, |call, key| {
        if freely {
            // A value that cannot be read is removed as well.
            let freed = match call.txn.peek(call.db(), key) {
                Ok(found) => {
                    found.is_some_and(|found| effort(call, &found).is_ok_and(|effort| effort > EFFORT_MIN))
                }
                Err(Stop::Fault(_)) => false,
                Err(stop) => return Err(stop),
            };
            call.txn.count_freed(freed.into());
        }
        let there = call.remove(key)?;
        if there {
            call.notify('g', "del", key);
        }
        Ok(there)
    })
}

fn del_quickly(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    delete_quickly(call, call.settings.is_on(const { id("lazyfree-lazy-user-del") }), reply)
}

fn unlink_quickly(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    delete_quickly(call, true, reply)
}

/// As [`delete`], of one key that holds a packed value (`table::update`) of which nothing needs to be counted.
fn delete_quickly(call: &FastCall<'_>, freely: bool, reply: &mut dyn Reply) -> bool {
    let &[_, _] = call.args else { return false };
    let there = call.update(None, |old| match old {
        Some(old) if freely && old.kind != Kind::String => None,
        Some(_) => Some((Mutation::Gone, true)),
        None => Some((Mutation::Same, false)),
    });
    there.map(|there| reply.integer(there.into())).is_some()
}

fn exists(call: &mut Call<'_>) -> Outcome {
    tally(call, |call, key| Ok(call.peek(key)?.is_some()))
}

/// Touches even for a client in NO-TOUCH mode: it is what was asked for.
fn touch(call: &mut Call<'_>) -> Outcome {
    tally(call, |call, key| {
        let found = call.txn.find(call.db(), key)?.is_some();
        call.count_look(key, found);
        Ok(found)
    })
}

fn kind(call: &mut Call<'_>) -> Outcome {
    let found = call.peek(call.args[1])?;
    call.reply.status(found.map_or("none", |found| found.kind.name()));
    Ok(())
}

/// Carries what was found at `source` to another name or database, which must be free or may be overwritten.
fn carry(call: &Call<'_>, found: Found<'_>, source: (Db, &[u8]), target: (Db, &[u8])) -> Outcome {
    call.txn.remove(source.0, source.1, Replaces::Edited)?;
    call.txn.write(target.0, target.1, &New::from(found), Replaces::Whole)?;
    call.txn.set_clock(target.0, target.1, found.clock)
}

/// Renames the key. Returns whether it did; it does not if `if_absent` and the new name is taken.
fn renamed(call: &Call<'_>, if_absent: bool) -> Result<bool, Stop> {
    let (db, from, to) = (call.db(), call.args[1], call.args[2]);
    let found = call.find(from)?.ok_or(NO_SUCH_KEY)?;
    if from == to {
        return Ok(!if_absent);
    }
    if if_absent && call.txn.peek(db, to)?.is_some() {
        return Ok(false);
    }
    let (old, new) = (call.old_kind(db, to)?, found.kind);
    carry(call, found, (db, from), (db, to))?;
    call.notify('g', "rename_from", from);
    call.notify('g', "rename_to", to);
    call.notify_replaced(db, to, old, new);
    Ok(true)
}

fn rename(call: &mut Call<'_>) -> Outcome {
    renamed(call, false)?;
    call.reply.ok();
    Ok(())
}

fn rename_if_absent(call: &mut Call<'_>) -> Outcome {
    let done = renamed(call, true)?;
    call.reply.integer(done.into());
    Ok(())
}

fn move_key(call: &mut Call<'_>) -> Outcome {
    let (source, key) = (call.db(), call.args[1]);
    let target = database(call.settings, call.args[2])?;
    if source == target {
        return Err(SAME_KEY.into());
    }
    let found = call.find(key)?;
    let free = call.txn.peek(target, key)?.is_none();
    let moved = match found {
        Some(found) if free => {
            carry(call, found, (source, key), (target, key))?;
            call.notify('g', "move_from", key);
            call.notify_in(target, 'g', "move_to", key);
            true
        }
        _ => false,
    };
    call.reply.integer(moved.into());
    Ok(())
}

fn copy(call: &mut Call<'_>) -> Outcome {
    let (source, target) = (call.args[1], call.args[2]);
    let (mut db, mut replace) = (call.db(), false);
    let mut options = call.args[3..].iter();
    while let Some(option) = options.next() {
        if is(option, "REPLACE") {
            replace = true;
        } else if is(option, "DB") {
            db = database(call.settings, options.next().ok_or(SYNTAX)?)?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if db == call.db() && source == target {
        return Err(SAME_KEY.into());
    }
    let found = call.find(source)?;
    let free = replace || call.txn.peek(db, target)?.is_none();
    let copied = match found {
        Some(found) if free => {
            let (old, new) = (call.old_kind(db, target)?, found.kind);
            let value = duplicate(call.txn, call.txn, &found.value)?;
            call.txn.write(db, target, &New { value, ..New::from(found) }, Replaces::Whole)?;
            call.notify_in(db, 'g', "copy_to", target);
            call.notify_replaced(db, target, old, new);
            true
        }
        _ => false,
    };
    call.reply.integer(copied.into());
    Ok(())
}
