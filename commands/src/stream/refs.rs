//! What becomes of the references that groups keep to an entry that goes: XDELEX, XACKDEL, and the trimming of XADD and XTRIM.
//!
//! A group keeps a reference to an entry that was delivered and is not acknowledged, whether the entry is there or not. An
//! entry that a group has still to read counts as referenced, too, so ACKED never takes it away.
//!
//! **Invariant:** what is told consists of XDEL, XACK and XTRIM with MAXLEN, which older servers know, and leaves the same
//! stream behind.
use polder_base::number;
use polder_table::Stop;
use polder_values::stream::{Draft, Group, Id, Range, Stream};

use super::{find_draft, id, publish};
use polder_calls::call::{Call, Outcome, SYNTAX, is};

/// How many entries are looked at before the next ones are read.
const CHUNK: u64 = 512;

/// What is done about references to an entry that is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum References {
    /// KEEPREF: they stay.
    #[default]
    Keep,
    /// DELREF: they go with it.
    Delete,
    /// ACKED: an entry that has any stays.
    Acked,
}

/// What XDELEX and XACKDEL reply for each id.
const MISSING: i64 = -1;
const DELETED: i64 = 1;
const REFERENCED: i64 = 2;

impl References {
    /// What a word asks for.
    pub(super) fn parse(word: &[u8]) -> Option<References> {
        match word {
            word if is(word, "KEEPREF") => Some(References::Keep),
            word if is(word, "DELREF") => Some(References::Delete),
            word if is(word, "ACKED") => Some(References::Acked),
            _ => None,
        }
    }
}

/// Every group of a stream that is being changed.
fn groups_of(call: &Call<'_>, draft: &Draft<'_>) -> Result<Vec<Group<'static>>, Stop> {
    Ok(draft.view(call.txn).groups().map(|group| group.map(Group::owned)).collect::<Result<_, _>>()?)
}

/// Whether a group has an entry pending, or has still to read it.
fn is_referenced(stream: &Stream<'_>, groups: &[Group<'_>], id: Id) -> Result<bool, Stop> {
    for group in groups {
        if id > group.last || stream.find_pending(group.number, id)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes entries out of what every group has pending. Returns whether any was pending.
fn drop_references(
    call: &Call<'_>,
    draft: &mut Draft<'_>,
    groups: &[Group<'_>],
    ids: &[Id],
) -> Result<bool, Stop> {
    let mut any = false;
    for group in groups {
        let gone = draft.remove_all_pending(call.txn, group.number, ids)?;
        let gone: Vec<Id> = ids.iter().zip(gone).filter_map(|(id, gone)| gone.then_some(*id)).collect();
        any |= !gone.is_empty();
        tell_ids(call, &[b"XACK", call.args[1], &group.name], &gone);
    }
    Ok(any)
}

/// Says in the change log what happened to entries.
pub(super) fn tell_ids(call: &Call<'_>, head: &[&[u8]], ids: &[Id]) {
    if call.tells_itself() && !ids.is_empty() {
        let texts: Vec<String> = ids.iter().map(Id::to_string).collect();
        let words: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        call.tell_many(head, &words);
    }
}

/// Which entries are to go from the beginning of a stream.
#[derive(Clone, Copy)]
pub(super) struct Excess {
    /// All up to this one.
    pub end: Id,
    /// As many as are more than this.
    pub len_max: u64,
    /// No more than this, counted in whole nodes of Redis.
    pub most: u64,
    /// Entries that such a node has at most, 0 for no such limit.
    pub node: u64,
}

/// Takes out the first `count` entries, with the references to them.
pub(super) fn trim_with_references(call: &Call<'_>, draft: &mut Draft<'_>, mut count: u64) -> Outcome {
    let groups = groups_of(call, draft)?;
    while count > 0 {
        let now = if groups.is_empty() { count } else { count.min(CHUNK) };
        if !groups.is_empty() {
            let mut ids = Vec::new();
            let first = Range { limit: now, ..Range::ALL };
            draft.view(call.txn).walk(&first, &mut |entry| ids.push(entry.id))?;
            drop_references(call, draft, &groups, &ids)?;
        }
        draft.trim(call.txn, now)?;
        count -= now;
    }
    Ok(())
}

/// Takes out what is to go and has no references. Returns how many entries went, and which, unless they were the first ones.
pub(super) fn trim_acked(
    call: &Call<'_>,
    draft: &mut Draft<'_>,
    excess: &Excess,
) -> Result<(u64, Vec<Id>), Stop> {
    let groups = groups_of(call, draft)?;
    let (gone, first) = unreferenced(call, draft, &groups, excess)?;
    let (prefix, scattered) = gone.split_at(first);
    draft.trim(call.txn, prefix.len() as u64)?;
    for id in scattered {
        draft.remove(call.txn, *id)?;
    }
    let count = gone.len() as u64;
    match (scattered, gone.last()) {
        ([_, ..], Some(last)) => {
            draft.note_deleted(*last);
            Ok((count, gone))
        }
        _ => Ok((count, Vec::new())),
    }
}

/// The entries that are to go and have no references, and how many of them have no other before them.
fn unreferenced(
    call: &Call<'_>,
    draft: &Draft<'_>,
    groups: &[Group<'_>],
    excess: &Excess,
) -> Result<(Vec<Id>, usize), Stop> {
    let stream = draft.view(call.txn);
    let (len, before) = (stream.len(), stream.added().saturating_sub(stream.len()));
    // What stands behind this is still to be read by a group.
    let end = groups.iter().map(|group| group.last).fold(excess.end, Id::min);
    let (mut gone, mut first, mut rank, mut start) = (Vec::new(), 0, 0, Some(Id::MIN));
    while let Some(from) = start {
        let mut ids = Vec::new();
        let range = Range { start: from, end, limit: CHUNK, ..Range::ALL };
        stream.walk(&range, &mut |entry| ids.push(entry.id))?;
        for id in &ids {
            let is_enough = len - gone.len() as u64 <= excess.len_max;
            let begins = rank == 0 || excess.is_first(before + rank);
            if is_enough || begins && excess.is_beyond(before + rank, len - rank, gone.len()) {
                return Ok((gone, first));
            }
            if !is_referenced(&stream, groups, *id)? {
                first += usize::from(gone.len() as u64 == rank);
                gone.push(*id);
            }
            rank += 1;
        }
        start = ids.last().filter(|_| ids.len() as u64 == CHUNK).and_then(|last| last.next());
    }
    Ok((gone, first))
}

impl Excess {
    /// Whether the entry number `place`, counted from the first that was ever added, is the first one of its node.
    fn is_first(&self, place: u64) -> bool {
        place.checked_rem(self.node) == Some(0)
    }

    /// Whether the node of the next one of `left` entries would make too many with those that are `gone`: Redis takes
    /// or leaves a whole node.
    fn is_beyond(&self, place: u64, left: u64, gone: usize) -> bool {
        let node = place.checked_rem(self.node).map_or(left, |inside| left.min(self.node - inside));
        node.saturating_add(gone as u64) > self.most
    }
}

/// Words of a call.
type Words<'c> = &'c [&'c [u8]];

/// A number, as many words as it says, and the words behind them.
pub(super) fn numbered<'c>(count: &[u8], words: Words<'c>) -> Result<(Words<'c>, Words<'c>), Stop> {
    let count = number::integer(count).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or("ERR Number of IDs must be a positive integer")?;
    words
        .split_at_checked(count)
        .ok_or_else(|| "ERR The `numids` parameter must match the number of arguments".into())
}

/// The options of XDELEX and XACKDEL, which are `args`: what becomes of references, and the ids.
fn selection<'c>(args: &'c [&'c [u8]]) -> Result<(References, &'c [&'c [u8]]), Stop> {
    let (mut references, mut ids, mut rest) = (None, None, args);
    while let [word, later @ ..] = rest {
        if let Some(wanted) = References::parse(word).filter(|_| references.is_none()) {
            (references, rest) = (Some(wanted), later);
        } else if let [count, later @ ..] = later
            && is(word, "IDS")
        {
            let (now, later) = numbered(count, later)?;
            (ids, rest) = (Some(now), later);
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok((references.unwrap_or_default(), ids.ok_or(SYNTAX)?))
}

fn reply_all(call: &mut Call<'_>, results: &[i64]) {
    call.reply.array(results.len());
    results.iter().for_each(|result| call.reply.integer(*result));
}

/// A deletion of single entries.
struct Deletion<'d, 'v> {
    draft: &'d mut Draft<'v>,
    groups: Vec<Group<'static>>,
    references: References,
    /// What went.
    gone: Vec<Id>,
    /// Whether the stream has changed.
    changed: bool,
}

impl<'d, 'v> Deletion<'d, 'v> {
    fn new(call: &Call<'_>, draft: &'d mut Draft<'v>, references: References) -> Result<Self, Stop> {
        let groups = match references {
            References::Keep => Vec::new(),
            References::Delete | References::Acked => groups_of(call, draft)?,
        };
        Ok(Deletion { draft, groups, references, gone: Vec::new(), changed: false })
    }

    /// Deletes an entry, unless references to it forbid that.
    fn delete(&mut self, call: &Call<'_>, id: Id) -> Result<i64, Stop> {
        match self.references {
            References::Acked if is_referenced(&self.draft.view(call.txn), &self.groups, id)? => {
                return Ok(REFERENCED);
            }
            References::Delete => {
                self.changed |= drop_references(call, self.draft, &self.groups, &[id])?;
            }
            References::Acked | References::Keep => {}
        }
        if !self.draft.remove(call.txn, id)? {
            return Ok(MISSING);
        }
        self.draft.note_deleted(id);
        self.gone.push(id);
        self.changed = true;
        Ok(DELETED)
    }

    /// Tells and notifies of what went.
    fn announce(&self, call: &Call<'_>) {
        tell_ids(call, &[b"XDEL", call.args[1]], &self.gone);
        if !self.gone.is_empty() {
            call.notify('t', "xdel", call.args[1]);
        }
    }
}

pub(super) fn xdelex(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let held = find_draft(call, key)?;
    let (references, texts) = selection(&call.args[2..])?;
    let Some((found, mut draft)) = held else {
        reply_all(call, &vec![MISSING; texts.len()]);
        return Ok(());
    };
    let ids = texts.iter().map(|text| id::exact(text)).collect::<Result<Vec<_>, _>>()?;
    let mut deletion = Deletion::new(call, &mut draft, references)?;
    let results = ids.iter().map(|id| deletion.delete(call, *id)).collect::<Result<Vec<_>, _>>()?;
    deletion.announce(call);
    if deletion.changed {
        publish(call, key, Some(found), &mut draft)?;
    }
    reply_all(call, &results);
    Ok(())
}

pub(super) fn xackdel(call: &mut Call<'_>) -> Outcome {
    let (key, name) = (call.args[1], call.args[2]);
    let held = find_draft(call, key)?;
    let (references, texts) = selection(&call.args[3..])?;
    let group = match &held {
        Some((_, draft)) => draft.view(call.txn).group(name)?.map(Group::owned),
        None => None,
    };
    let (Some((found, mut draft)), Some(group)) = (held, group) else {
        reply_all(call, &vec![MISSING; texts.len()]);
        return Ok(());
    };
    let ids = texts.iter().map(|text| id::exact(text)).collect::<Result<Vec<_>, _>>()?;
    let acked = draft.remove_all_pending(call.txn, group.number, &ids)?;
    let mut deletion = Deletion::new(call, &mut draft, references)?;
    let mut results = vec![MISSING; ids.len()];
    let mut told = Vec::new();
    for ((id, _), result) in ids.iter().zip(&acked).zip(&mut results).filter(|((_, acked), _)| **acked) {
        told.push(*id);
        // An entry that was gone before counts as deleted.
        *result = deletion.delete(call, *id)?.max(DELETED);
    }
    tell_ids(call, &[b"XACK", key, name], &told);
    deletion.announce(call);
    if !told.is_empty() {
        publish(call, key, Some(found), &mut draft)?;
    }
    reply_all(call, &results);
    Ok(())
}
