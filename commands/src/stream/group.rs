//! XGROUP, and how far a group has read.
use polder_base::{Fault, number};
use polder_table::{Found, Stop};
use polder_values::stream::{Draft, Group, Id, Stream};

use super::{bad_subcommand, find_draft, id, no_such_group, publish};
use polder_calls::call::{Call, NOT_AN_INTEGER, Outcome, is};

const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
                      to create an empty stream automatically.";

/// What stands behind the id of CREATE and SETID.
#[derive(Default)]
struct Options {
    may_make: bool,
    read: Option<u64>,
}

fn options(call: &Call<'_>, creates: bool) -> Result<Options, Stop> {
    let mut options = Options::default();
    let mut rest = &call.args[5..];
    loop {
        rest = match rest {
            [] => return Ok(options),
            [word, rest @ ..] if creates && is(word, "MKSTREAM") => {
                options.may_make = true;
                rest
            }
            [word, count, rest @ ..] if is(word, "ENTRIESREAD") => {
                let read = number::integer(count).ok_or(NOT_AN_INTEGER)?;
                if read < -1 {
                    return Err("ERR value for ENTRIESREAD must be positive or -1".into());
                }
                options.read = u64::try_from(read).ok();
                rest
            }
            _ => return Err(bad_subcommand(call)),
        }
    }
}

/// The stream that XGROUP changes.
fn existing<'c>(call: &Call<'c>) -> Result<(Found<'c>, Draft<'c>), Stop> {
    find_draft(call, call.args[2])?.ok_or_else(|| NO_KEY.into())
}

/// The group that XGROUP changes.
fn existing_group(call: &Call<'_>, draft: &Draft<'_>) -> Result<Group<'static>, Stop> {
    let group = draft.view(call.txn).group(call.args[3])?.map(Group::owned);
    group.ok_or_else(|| no_such_group(call.args[2], call.args[3]))
}

pub(super) fn create(call: &mut Call<'_>) -> Outcome {
    let options = options(call, true)?;
    let (key, name) = (call.args[2], call.args[3]);
    let (found, mut draft) = match find_draft(call, key)? {
        Some((found, draft)) => (Some(found), draft),
        None if options.may_make => (None, Draft::default()),
        None => return Err(NO_KEY.into()),
    };
    if call.args.len() > 8 {
        return Err(bad_subcommand(call));
    }
    let last = match call.args[4] {
        b"$" => draft.last_given(call.txn)?,
        text => id::exact(text)?,
    };
    if draft.view(call.txn).group(name)?.is_some() {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    draft.create_group(call.txn, name, last, options.read)?;
    if call.tells_itself() {
        call.tell(
            &[&[b"XGROUP", b"CREATE", key, name, last.to_string().as_bytes()], &call.args[5..]].concat(),
        );
    }
    publish(call, key, found, &mut draft)?;
    call.notify('t', "xgroup-create", key);
    call.reply.ok();
    Ok(())
}

pub(super) fn set_id(call: &mut Call<'_>) -> Outcome {
    let options = options(call, false)?;
    let (found, mut draft) = existing(call)?;
    let mut group = existing_group(call, &draft)?;
    if call.args.len() > 7 {
        return Err(bad_subcommand(call));
    }
    group.last = match call.args[4] {
        b"$" => draft.last_given(call.txn)?,
        text => id::any(text)?,
    };
    group.read = options.read;
    draft.put_group(call.txn, &group)?;
    tell_group(call, call.args[2], &group);
    publish(call, call.args[2], Some(found), &mut draft)?;
    call.notify('t', "xgroup-setid", call.args[2]);
    call.reply.ok();
    Ok(())
}

/// Says in the change log how far a group has read.
pub(super) fn tell_group(call: &Call<'_>, key: &[u8], group: &Group<'_>) {
    if !call.tells_itself() {
        return;
    }
    let (last, read) =
        (group.last.to_string(), group.read.map_or_else(|| "-1".to_owned(), |read| read.to_string()));
    call.tell(&[b"XGROUP", b"SETID", key, &group.name, last.as_bytes(), b"ENTRIESREAD", read.as_bytes()]);
}

pub(super) fn destroy(call: &mut Call<'_>) -> Outcome {
    let (found, mut draft) = existing(call)?;
    let group = draft.view(call.txn).group(call.args[3])?.map(Group::owned);
    if let Some(group) = &group {
        draft.destroy_group(call.txn, group)?;
        publish(call, call.args[2], Some(found), &mut draft)?;
        // A client that waits to read by this group learns that it is gone.
        call.notify('t', "xgroup-destroy", call.args[2]);
    }
    call.reply.integer(group.is_some().into());
    Ok(())
}

pub(super) fn create_consumer(call: &mut Call<'_>) -> Outcome {
    let (found, mut draft) = existing(call)?;
    let group = existing_group(call, &draft)?;
    let is_new = draft.view(call.txn).consumer(group.number, call.args[4])?.is_none();
    if is_new {
        draft.create_consumer(call.txn, group.number, call.args[4], call.txn.now_ms())?;
        publish(call, call.args[2], Some(found), &mut draft)?;
        call.notify('t', "xgroup-createconsumer", call.args[2]);
    }
    call.reply.integer(is_new.into());
    Ok(())
}

pub(super) fn delete_consumer(call: &mut Call<'_>) -> Outcome {
    let (found, mut draft) = existing(call)?;
    let group = existing_group(call, &draft)?;
    let consumer =
        draft.view(call.txn).consumer(group.number, call.args[4])?.map(|consumer| consumer.owned());
    let mut pending = 0;
    if let Some(consumer) = consumer {
        pending = draft.delete_consumer(call.txn, &consumer)?;
        publish(call, call.args[2], Some(found), &mut draft)?;
        call.notify('t', "xgroup-delconsumer", call.args[2]);
    }
    call.reply.integer(pending as i64);
    Ok(())
}

/// What the reading of groups is measured by.
pub(crate) struct Measure {
    len: u64,
    added: u64,
    /// 0-0 without entries.
    first: Id,
    last: Id,
    max_deleted: Id,
}

impl Measure {
    pub fn of(stream: &Stream<'_>) -> Result<Measure, Fault> {
        Ok(Measure {
            len: stream.len(),
            added: stream.added(),
            first: stream.first()?.unwrap_or(Id::MIN),
            last: stream.last_given()?,
            max_deleted: stream.max_deleted(),
        })
    }

    /// Whether an entry was deleted by itself from `start` on.
    fn has_holes_from(&self, start: Id) -> bool {
        self.len > 0 && self.max_deleted != Id::MIN && start <= self.max_deleted
    }

    /// How many entries, from the very first one on, lie up to an id, where that can be told.
    pub fn distance(&self, id: Id) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last {
            return Some(self.added);
        }
        if id != Id::MIN && id < self.max_deleted || id > self.last {
            return None;
        }
        if id == self.last {
            return Some(self.added);
        }
        if self.max_deleted != Id::MIN && self.max_deleted >= self.first || id > self.first {
            return None;
        }
        let gone = self.added.wrapping_sub(self.len);
        Some(if id < self.first { gone } else { gone.wrapping_add(1) })
    }

    /// How many entries a group has not read yet, where that can be told.
    pub fn lag(&self, group: &Group<'_>) -> Option<i64> {
        if self.added == 0 || self.len == 0 {
            return Some(0);
        }
        if group.last < self.first && self.max_deleted < self.first {
            return Some(self.len as i64);
        }
        let read = match group.read {
            Some(read) if !self.has_holes_from(group.last) => read,
            _ => self.distance(group.last)?,
        };
        Some(self.added.wrapping_sub(read) as i64)
    }

    /// Notes that an entry was delivered to a group.
    pub fn advance(&self, group: &mut Group<'_>, id: Id) {
        if id <= group.last {
            return;
        }
        group.read = match group.read {
            Some(read) if group.last >= self.first && !self.has_holes_from(group.last) => {
                Some(read.wrapping_add(1))
            }
            read if self.added == 0 => read,
            _ => self.distance(id),
        };
        group.last = id;
    }
}
