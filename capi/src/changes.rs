//! What is committed to a memory, for those who follow it.
use ::polder_client::Value;
use polder_engine::{ChangeCommand, Changed, Follower, Memory, Position};

use crate::memory::{memory_of, polder_memory};
use crate::reply::{Kept, polder_reply};
use crate::status::polder_status;
use crate::status::{Done, absent, guarded, misuse};
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
    tell(reply, || {
        let memory = memory_of(memory)?;
        let told = match position.read()? {
            b"" => begin(&memory)?,
            text => follow(&memory, position_of(text)?, count)?,
        };
        Ok(Value::Array(told))
    })
}

/// Turns the change log of a memory off, for all followers.
#[unsafe(no_mangle)]
pub extern "C" fn polder_changes_stop(memory: polder_memory) -> polder_status {
    guarded(|| Ok(memory_of(memory)?.stop_changes()?))
}

/// Keeps a follower's position under a name, and the change log of the memory from there on: up to 256 MiB of it, or an eighth of a memory that is
/// smaller than 2 GiB. The name outlives the follower and its process, until `polder_follower_forget`. At most 63 followers have a name. A position that is
/// not kept any more is refused (POLDER_REFUSED).
#[unsafe(no_mangle)]
pub extern "C" fn polder_follower_keep(
    memory: polder_memory,
    name: polder_text,
    position: polder_text,
) -> polder_status {
    guarded(|| {
        let (memory, position) = (memory_of(memory)?, position_of(position.read()?)?);
        Ok(memory.keep_follower(name.read()?, &position)?)
    })
}

/// Tells the position that was kept last under a name: the reply, to be released, is its text. No such follower: POLDER_ABSENT.
#[unsafe(no_mangle)]
pub extern "C" fn polder_follower(
    memory: polder_memory,
    name: polder_text,
    reply: *mut *const polder_reply,
) -> polder_status {
    tell(reply, || match memory_of(memory)?.follower(name.read()?)? {
        Some(position) => Ok(text_of(&position)),
        None => absent(),
    })
}

/// Tells all followers that have a name. The reply, to be released, is an array: for each an array of its name, its position, and how many bytes of the
/// stream it has not followed yet (an integer; -1: its stream has ended, or is not kept so far back).
#[unsafe(no_mangle)]
pub extern "C" fn polder_followers(memory: polder_memory, reply: *mut *const polder_reply) -> polder_status {
    tell(reply, || {
        let told = |Follower { name, position, lag }: Follower| {
            let lag = lag.map_or(-1, |bytes| bytes as i64);
            Value::Array(vec![Value::Bulk(name), text_of(&position), Value::Integer(lag)])
        };
        Ok(Value::Array(memory_of(memory)?.followers()?.into_iter().map(told).collect()))
    })
}

/// Forgets a follower: nothing is kept for it any more. No such follower: POLDER_ABSENT.
#[unsafe(no_mangle)]
pub extern "C" fn polder_follower_forget(memory: polder_memory, name: polder_text) -> polder_status {
    guarded(|| match memory_of(memory)?.forget_follower(name.read()?)? {
        true => Ok(()),
        false => absent(),
    })
}

/// Writes a reply; NULL where there is none.
fn tell(reply: *mut *const polder_reply, told: impl FnOnce() -> Done<Value>) -> polder_status {
    guarded(|| {
        if reply.is_null() {
            return misuse("NULL where the reply should be written");
        }
        give(reply, std::ptr::null());
        give(reply, threads::keep(Kept::value(told()?))?);
        Ok(())
    })
}

fn text_of(position: &Position) -> Value {
    Value::Bulk(position.to_string().into_bytes())
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
    Value::Array(vec![text_of(&changed.position), Value::Array(commands)])
}
