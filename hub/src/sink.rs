//! Which threads are told of a change: those with subscribers of keyspace events, clients that wait
//! for the key, and clients that have read it.

use hashbrown::HashSet;
use polder_shm::layout::{header, interest};
use polder_table::interest::{EVENT_CLASSES, interest_of};
use polder_table::{Change, ChangeSink, CommitView, Stop};
use polder_values::Kind;

use crate::message::Message;
use crate::post::to_all;
use crate::{queue, receivers, record};

/// The hub as the table knows it.
pub static SINK: Sink = Sink;

/// See [`SINK`].
pub struct Sink;

impl ChangeSink for Sink {
    fn tell(&self, commit: &dyn CommitView, changes: &[Change<'_>]) -> Result<(), Stop> {
        let listeners = interest_of(commit.segment());
        // What several events say of the same key is said once.
        let (mut seen, mut told) = (HashSet::new(), HashSet::new());
        let alone = changes.len() == 1;
        for change in changes {
            if listeners & (interest::EVENTS | interest::MISSES) != 0 {
                publish(commit, change)?;
            }
            // Of whole databases each event says something else.
            let event = if change.key.is_none() { change.event } else { "" };
            if !alone && !seen.insert((change.db, change.class, change.key, event)) {
                continue;
            }
            if listeners & interest::WAITERS != 0 {
                wake(commit, change)?;
            }
            if listeners & (interest::TRACKERS | interest::BROADCAST) != 0
                && is_change(change)
                && (alone || told.insert((change.key, event)))
            {
                invalidate(commit, change, listeners)?;
            }
        }
        Ok(())
    }
}

/// Whether the event says that a key is not what it was.
fn is_change(change: &Change<'_>) -> bool {
    !matches!(change.class, 'm' | 'n')
}

fn class_bit(class: char) -> u64 {
    EVENT_CLASSES.iter().position(|letter| *letter as char == class).map_or(0, |at| 1 << at)
}

/// Publishes a keyspace event on both channels, as far as that was asked for.
fn publish(commit: &dyn CommitView, change: &Change<'_>) -> Result<(), Stop> {
    let Some(key) = change.key else { return Ok(()) };
    let wanted = commit.segment().load(header::EVENTS);
    if wanted & class_bit(change.class) == 0 {
        return Ok(());
    }
    let channel = |lead: &str, name: &[u8]| [format!("{lead}@{}__:", change.db).as_bytes(), name].concat();
    if wanted & class_bit('K') != 0 {
        receivers::publish(commit, false, &channel("__keyspace", key), change.event.as_bytes())?;
    }
    if wanted & class_bit('E') != 0 {
        receivers::publish(commit, false, &channel("__keyevent", change.event.as_bytes()), key)?;
    }
    if change.parts.is_empty() { Ok(()) } else { publish_parts(commit, change, key, wanted) }
}

/// Publishes what happened to fields of a hash, on those of the four channels of Redis 8.8 that were asked for.
///
/// ```text
///   S   __subkeyspace@db__:key               event|length:field,...
///   T   __subkeyevent@db__:event             length:key|length:field,...
///   I   __subkeyspaceitem@db__:key\nfield    event                          no key with a line feed
///   V   __subkeyspaceevent@db__:event|key    length:field,...
/// ```
fn publish_parts(commit: &dyn CommitView, change: &Change<'_>, key: &[u8], wanted: u64) -> Result<(), Stop> {
    let (event, db) = (change.event.as_bytes(), change.db);
    let channel =
        |lead: &str, name: &[&[u8]]| [format!("{lead}@{db}__:").as_bytes(), &name.concat()].concat();
    let post = |letter: char, channel: &[u8], text: &[&[u8]]| {
        if wanted & class_bit(letter) == 0 {
            return Ok(());
        }
        receivers::publish(commit, false, channel, &text.concat()).map(drop)
    };
    post('S', &channel("__subkeyspace", &[key]), &[event, b"|", change.parts])?;
    let length = key.len().to_string();
    let named = [length.as_bytes(), b":", key, b"|", change.parts];
    post('T', &channel("__subkeyevent", &[event]), &named)?;
    if !key.contains(&b'\n') {
        for part in change.each_part() {
            post('I', &channel("__subkeyspaceitem", &[key, b"\n", part]), &[event])?;
        }
    }
    post('V', &channel("__subkeyspaceevent", &[event, b"|", key]), &[change.parts])
}

fn wake(commit: &dyn CommitView, change: &Change<'_>) -> Result<(), Stop> {
    let Some(key) = change.key else {
        let db = Some(change.db).filter(|_| change.event != "flushall");
        to_all(commit, interest::WAITERS, &Message::WakeAll { db });
        return Ok(());
    };
    let kinds: &[Kind] = match change.class {
        // A client that waits until a list is long enough stands with the readers.
        'l' => &[Kind::Stream, Kind::List],
        'z' => &[Kind::SortedSet],
        'g' => &[Kind::List, Kind::SortedSet, Kind::Stream],
        'm' | 'n' => return Ok(()),
        // A client that reads a stream as a member of a group is told when the stream is gone.
        _ => &[Kind::Stream],
    };
    queue::wake(commit, kinds, change.db, key)
}

fn invalidate(commit: &dyn CommitView, change: &Change<'_>, listeners: u64) -> Result<(), Stop> {
    let Some(key) = change.key else {
        // As in Redis, SWAPDB invalidates nothing.
        if change.event != "swapdb" {
            to_all(commit, interest::TRACKERS | interest::BROADCAST, &Message::ChangedAll);
        }
        return Ok(());
    };
    let origin = commit.origin();
    if listeners & interest::TRACKERS != 0 {
        for record in record::glimpse(commit, &record::readers_key(key))? {
            Message::Changed { origin, key }
                .write(|parts| commit.post(record.seat.into(), record.life, parts));
        }
    }
    if listeners & interest::BROADCAST != 0 {
        to_all(commit, interest::BROADCAST, &Message::Broadcast { origin, key });
    }
    Ok(())
}
