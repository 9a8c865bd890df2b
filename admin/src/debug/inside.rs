//! What DEBUG tells of the inside of the table and of values, and the switches with which test suites hold a server still.
//!
//! Redis's switches of its own inside that has no counterpart here (how its dictionaries grow, where its replies wait, when an element gets a
//! node to itself) are read, checked, and mean nothing.
use std::fmt::Write;

use polder_base::number;
use polder_table::{Db, Found, Mode, Stop};
use polder_values::sequence::Sequence;
use polder_values::{Kind, Value};

use polder_calls::call::{NOT_AN_INTEGER, Outcome, is};
use polder_calls::settings::value;
use polder_commands::dump;
use polder_commands::types::encoding;
use polder_runtime::retry::retry;
use polder_runtime::row::SessionCall;
use polder_runtime::run::begin;
use polder_runtime::switches;

/// As C's `atoi`: what is no number is none.
fn is_set(call: &SessionCall<'_>) -> bool {
    number::integer(call.args[2]).unwrap_or(0) != 0
}

pub(super) fn pause_maintenance(call: &mut SessionCall<'_>) -> Outcome {
    switches::let_maintenance_rest(is_set(call));
    call.reply.ok();
    Ok(())
}

pub(super) fn skip_checksums(call: &mut SessionCall<'_>) -> Outcome {
    dump::skip_checksums(is_set(call));
    call.reply.ok();
    Ok(())
}

pub(super) fn allow_scripts(call: &mut SessionCall<'_>) -> Outcome {
    switches::let_scripts_call_all(is_set(call));
    call.reply.ok();
    Ok(())
}

/// DICT-RESIZING and CLIENT-ENFORCE-REPLY-LIST.
pub(super) fn accept(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.ok();
    Ok(())
}

pub(super) fn packed_threshold(call: &mut SessionCall<'_>) -> Outcome {
    const GIB: i64 = 1 << 30;
    const WRONG: &str = "ERR argument must be a memory value bigger than 1 and smaller than 4gb";
    value::bytes(call.args[2]).filter(|bytes| (0..=4 * GIB - (1 << 20)).contains(bytes)).ok_or(WRONG)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn reply_buffer(call: &mut SessionCall<'_>) -> Outcome {
    let (what, how) = (call.args[2], call.args[3]);
    if is(what, "PEAK-RESET-TIME") {
        if !is(how, "NEVER") && !is(how, "RESET") {
            number::integer(how).ok_or(NOT_AN_INTEGER)?;
        }
    } else if !is(what, "RESIZING") {
        return Err(super::unfit(call));
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn table(call: &mut SessionCall<'_>) -> Outcome {
    let db = number::integer(call.args[2]).ok_or(NOT_AN_INTEGER)?;
    let db =
        Db::try_from(db).ok().filter(|db| *db < call.host.databases()).ok_or("ERR Out of range database")?;
    let (keys, expiring) = call.table.keys(db);
    let shape = call.table.shape(db);
    let mut text = String::from("[Dictionary HT]\nHash table 0 stats (main hash table):\n");
    if keys == 0 {
        text.push_str("No stats available for empty dictionaries\n");
    } else {
        let lines = [
            format!(" table size: {}", shape.places),
            format!(" number of elements: {keys}"),
            format!(" number of buckets: {}", shape.buckets),
            format!(" number of extents: {}", shape.extents),
            format!(" bytes: {}", shape.bytes),
        ];
        text.push_str(&(lines.join("\n") + "\n"));
    }
    text.push_str("[Expires HT]\nHash table 0 stats (main hash table):\n");
    // Expiries stand beside their keys: there is no table of them, but a number.
    if expiring == 0 {
        text.push_str("No stats available for empty dictionaries\n");
    } else {
        let _ = writeln!(text, " number of elements: {expiring}");
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Does `work` with a key's state.
fn with_key<T>(
    call: &SessionCall<'_>,
    key: &[u8],
    mut work: impl FnMut(&polder_table::Txn<'_>, &Found<'_>) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let txn = begin(call.table, call.session, Mode::Read)?;
    let mut done = None;
    retry(&txn, || {
        done = None;
        if let Some(found) = txn.peek(call.session.caller.db, key)? {
            done = Some(work(&txn, &found)?);
        }
        Ok(())
    })?;
    done.ok_or_else(|| "ERR no such key".into())
}

pub(super) fn tables_of_key(call: &mut SessionCall<'_>) -> Outcome {
    const NO_TABLE: &str = "ERR The value stored at the specified key is not represented using an hash table";
    let text = with_key(call, call.args[2], |_, found| {
        if !matches!(encoding(found), "hashtable" | "skiplist") {
            return Err(NO_TABLE.into());
        }
        let (layout, height, count) = match (found.value, Sequence::of(&found.value)) {
            (Value::Tree(_), Sequence::Tree(tree)) => ("tree", tree.height, tree.count),
            (_, sequence) => ("packed", 0, sequence.count()?),
        };
        Ok(format!(
            "[Value HT]\nHash table 0 stats (main hash table):\n number of elements: {count}\n layout: {layout}\n height: {height}\n"
        ))
    })?;
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn listpack(call: &mut SessionCall<'_>) -> Outcome {
    let text = with_key(call, call.args[2], |txn, found| {
        if found.kind == Kind::String || !encoding(found).starts_with("listpack") {
            return Err("ERR Not a listpack encoded object.".into());
        }
        let sequence = Sequence::of(&found.value);
        let mut text = format!("{{num entries {}}}\n", sequence.count()?);
        for (number, element) in sequence.iter(txn, 0).enumerate() {
            let element = element?;
            let bytes = element.bytes(txn)?;
            let _ = writeln!(text, "{{index {number}, bytes {}}} {}", bytes.len(), bytes.escape_ascii());
        }
        Ok(text)
    })?;
    print!("{text}");
    call.reply.status("Listpack structure printed on stdout");
    Ok(())
}
