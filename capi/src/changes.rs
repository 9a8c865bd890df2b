//! What is committed to a memory, for those who follow it.
use ::polder_client::Value;
use polder_engine::{ChangeCommand, Changed, Memory, Position};

use crate::memory::{memory_of, polder_memory};
use crate::reply::{Kept, polder_reply};
use crate::status::polder_status;
use crate::status::{Done, guarded, misuse};
use crate::text::{give, polder_text};
use crate::threads;

/// Tells what is committed to a memory behind a position, at most `count` transactions (0: all that there are), in the order of the commits. The reply,
/// to be released, is an array of transactions: each an array of the position behind it (a text, to be kept and given to the next call) and of an array
/// of its commands; a command is an array of its database (an integer), its name and its arguments. Nothing left: the array is empty.
///
/// With an empty position it begins now: the change log of the memory is turned on, which costs every write something until
/// `polder_changes_stop`, and the reply is one transaction without commands, which tells the position. A position that is not kept any more is
/// refused (POLDER_REFUSED): copy the data, and begin anew.
#[unsafe(no_mangle)]
pub extern "C" fn polder_changes(
    memory: polder_memory,
    position: polder_text,
    count: usize,
    reply: *mut *const polder_reply,
) -> polder_status {
    guarded(|| {
        if reply.is_null() {
            return misuse("NULL where the reply should be written");
        }
        give(reply, std::ptr::null());
        let memory = memory_of(memory)?;
        let told = match position.read()? {
            b"" => begin(&memory)?,
            text => follow(&memory, position_of(text)?, count)?,
        };
        give(reply, threads::keep(Kept::value(Value::Array(told)))?);
        Ok(())
    })
}

/// Turns the change log of a memory off, for all followers.
#[unsafe(no_mangle)]
pub extern "C" fn polder_changes_stop(memory: polder_memory) -> polder_status {
    guarded(|| Ok(memory_of(memory)?.stop_changes()?))
}

fn position_of(text: &[u8]) -> Done<Position> {
    let text = String::from_utf8_lossy(text);
    match Position::parse(&text) {
        Some(position) => Ok(position),
        None => misuse(&format!("{text} is no position: give one that polder_changes has told")),
    }
}

fn begin(memory: &Memory) -> Done<Vec<Value>> {
    let position = memory.changes(None)?.position().clone();
    Ok(vec![transaction(Changed { commands: Vec::new(), position })])
}

fn follow(memory: &Memory, from: Position, count: usize) -> Done<Vec<Value>> {
    let (mut changes, mut told) = (memory.changes(Some(from))?, Vec::new());
    while count == 0 || told.len() < count {
        let Some(changed) = changes.next()? else { break };
        told.push(transaction(changed));
    }
    Ok(told)
}

fn transaction(changed: Changed) -> Value {
    let command = |ChangeCommand { db, words }: ChangeCommand| {
        let words = words.into_iter().map(Value::Bulk);
        Value::Array(std::iter::once(Value::Integer(db.into())).chain(words).collect())
    };
    let commands = changed.commands.into_iter().map(command).collect();
    Value::Array(vec![Value::Bulk(changed.position.to_string().into_bytes()), Value::Array(commands)])
}
