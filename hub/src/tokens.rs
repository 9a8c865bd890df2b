//! Which seats hear patterns of the token dialect ([`token`](crate::token)), and queues.
//!
//! ```text
//!   subj:n:SHAPE:PLACE  what this pattern's clients hear as: queue by queue (the empty name: each by itself), as a group of patterns
//!   subj:N              the shapes that patterns may have, divided by blanks
//!   header::TOKENS      moves with each of these subscriptions that begins or ends
//! ```
//!
//! These names do not begin as those of the hub do: an older program that still lives would take them for records when it sweeps.
//!
//! A pattern without wildcards and without a queue lies with the channels (`hub:c:`), so it needs none of this.
//!
//! **Invariant N1:** a shape stands in `subj:N` before, or with, the commit of the first pattern of that shape, and is dropped only by a
//! transaction that holds `subj:N` while it looks for patterns of that shape. A subscription holds `subj:N`, too.
//! **Invariant N2:** the word moves after the commit and before the client's OK. A publisher reads it before it looks. So a publisher that
//! begins after the OK does not use shapes that it has read before the commit.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;

use polder_shm::Segment;
use polder_shm::layout::{features, header};
use polder_table::{CommitView, SYSTEM, Stop, Txn};

use crate::group::{count, entries, rewritten};
use crate::record::{self, Record, Records};
use crate::token::{EXACT, ShapeText, Tokens, is_subject, is_wild, pattern_at, place_of};

const SHAPES_KEY: &[u8] = b"subj:N";
pub(crate) const LEAD: &[u8] = b"subj:n:";
/// More shapes than this are not looked through by publishers.
const SHAPES_MAX: usize = 128;
/// The words of nats-server for a subscription that is one too many.
pub const TOO_MANY: &str = "ERR maximum subscriptions exceeded";

/// A subscription's name: pattern and queue. Neither has blanks.
pub fn name_of(pattern: &[u8], queue: &[u8]) -> Vec<u8> {
    if queue.is_empty() { pattern.to_vec() } else { [pattern, b" ", queue].concat() }
}

/// Pattern and queue of a subscription.
pub fn split_name(name: &[u8]) -> (&[u8], &[u8]) {
    let at = memchr::memchr(b' ', name).unwrap_or(name.len());
    (&name[..at], name.get(at + 1..).unwrap_or_default())
}

fn key_of(shape: &[u8], place: &[u8]) -> Vec<u8> {
    [LEAD, shape, b":", place].concat()
}

/// Does the work of [`crate::subject::subscribe`] for patterns of the token dialect.
pub(crate) fn subscribe(txn: &Txn<'_>, names: &[&[u8]], by: i64) -> Result<(), Stop> {
    if by > 0 && !names.is_empty() {
        txn.table().announce(features::SUBJECTS);
    }
    let places: Vec<_> = names
        .iter()
        .map(|name| split_name(name))
        .map(|(pattern, queue)| (place_of(pattern), queue))
        .collect();
    let keys: Vec<Vec<u8>> = places
        .iter()
        .map(|((shape, place), queue)| match &shape[..] {
            EXACT if queue.is_empty() => [b"hub:c:", &place[..]].concat(),
            shape => key_of(shape, place),
        })
        .collect();
    let needs_shapes = by > 0 && keys.iter().any(|key| key.starts_with(LEAD));
    if keys.len() > 1 || needs_shapes {
        let mut held: Vec<_> = keys.iter().map(|key| (SYSTEM, &key[..])).collect();
        held.extend(needs_shapes.then_some((SYSTEM, SHAPES_KEY)));
        held.sort_unstable();
        held.dedup();
        txn.declare(&held)?;
    }
    let own = Record::own(txn.seat(), 0);
    for (key, ((shape, _), queue)) in keys.iter().zip(&places) {
        if !key.starts_with(LEAD) {
            record::edit(txn, key, |records| {
                count(records, own, by);
                true
            })?;
            continue;
        }
        if by > 0 {
            add_shape(txn, shape)?;
        }
        let bytes = record::bytes(txn, txn.peek(SYSTEM, key)?)?.unwrap_or_default();
        record::put(txn, key, &rewritten(txn, &bytes, &[queue], by))?;
    }
    Ok(())
}

/// Notes that there may be patterns of this shape (N1).
fn add_shape(txn: &Txn<'_>, shape: &[u8]) -> Result<(), Stop> {
    let bytes = record::bytes(txn, txn.peek(SYSTEM, SHAPES_KEY)?)?.unwrap_or_default();
    let mut shapes: Vec<&[u8]> = shapes_in(&bytes).collect();
    if shapes.contains(&shape) {
        return Ok(());
    }
    if shapes.len() >= SHAPES_MAX {
        let used = used_shapes(txn)?;
        shapes.retain(|shape| used.iter().any(|used| used[..] == **shape));
        if shapes.len() >= SHAPES_MAX {
            return Err(TOO_MANY.into());
        }
    }
    shapes.push(shape);
    record::put(txn, SHAPES_KEY, &shapes.join(&b' '))
}

fn shapes_in(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b' ').filter(|shape| !shape.is_empty())
}

/// The shape and the place in a key of a pattern.
fn parts_of(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = key.strip_prefix(LEAD)?;
    let at = memchr::memchr(b':', rest)?;
    Some((&rest[..at], &rest[at + 1..]))
}

fn used_shapes(txn: &Txn<'_>) -> Result<Vec<ShapeText>, Stop> {
    let mut used: Vec<ShapeText> = Vec::new();
    for key in keys(txn)? {
        if let Some((shape, _)) = parts_of(&key)
            && !used.iter().any(|used| used[..] == *shape)
        {
            used.push(shape.into());
        }
    }
    Ok(used)
}

fn keys(txn: &Txn<'_>) -> Result<Vec<Vec<u8>>, Stop> {
    let (mut keys, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = txn.scan(SYSTEM, cursor, 100, &mut |scanned| {
            if scanned.key.starts_with(LEAD) {
                keys.push(scanned.key.to_vec());
            }
        })?;
        if cursor == 0 {
            keys.sort_unstable();
            keys.dedup();
            return Ok(keys);
        }
    }
}

/// A pattern, a queue (empty: none), and how many subscribe so.
pub type Listed = (Vec<u8>, Vec<u8>, u64);

/// The patterns with subscribers in living processes, except those that lie with the channels: pattern, queue, how many.
///
/// # Errors
/// A fault.
pub fn listed(txn: &Txn<'_>) -> Result<Vec<Listed>, Stop> {
    let mut listed = Vec::new();
    for key in keys(txn)? {
        let Some((shape, place)) = parts_of(&key) else { continue };
        let bytes = record::bytes(txn, txn.glimpse(SYSTEM, &key)?)?.unwrap_or_default();
        for entry in entries(&bytes) {
            let number = living(txn.segment(), entry.records).iter().map(|record| record.number).sum();
            if number > 0 {
                listed.push((pattern_at(shape, place), entry.pattern.to_vec(), number));
            }
        }
    }
    listed.sort();
    Ok(listed)
}

fn living(segment: &Segment, bytes: &[u8]) -> Records {
    let mut records = record::read(bytes);
    records.retain(|record| record.number > 0 && record.lives(segment));
    records
}

/// Says that a subscription of this name has begun or ended (N2). One that lies with the channels is found without the word.
pub(crate) fn move_word(segment: &Segment, name: &[u8]) {
    let (pattern, queue) = split_name(name);
    if !queue.is_empty() || is_wild(pattern) {
        // SYNC: tokens
        segment.word(header::TOKENS).fetch_add(1, Ordering::SeqCst);
    }
}

/// The shapes of a segment, as the calling thread has read them when the word had this value.
struct KnownShapes {
    segment: u64,
    word: u64,
    /// None while a look goes on.
    shapes: Option<Vec<ShapeText>>,
}

thread_local! {
    static KNOWN: RefCell<Vec<KnownShapes>> = const { RefCell::new(Vec::new()) };
}

/// Shows the seats that hear a channel by a pattern of the token dialect, queue by queue.
pub(crate) fn find(
    commit: &dyn CommitView,
    channel: &[u8],
    visit: &mut dyn FnMut(&[u8], Records),
) -> Result<(), Stop> {
    let segment = commit.segment();
    // SYNC: tokens. Before the shapes are looked up (N2).
    let word = segment.load(header::TOKENS);
    if word == 0 || !is_subject(channel) {
        return Ok(());
    }
    let shapes = shapes_at(commit, word)?;
    let tokens = Tokens::of(channel);
    let (mut place, mut key) = (Vec::new(), Vec::new());
    for shape in &shapes {
        if !tokens.place_in(shape, &mut place) {
            continue;
        }
        key.clear();
        [LEAD, shape, b":", &place].into_iter().for_each(|part| key.extend_from_slice(part));
        if let Some(bytes) = record::bytes(commit, commit.glimpse(SYSTEM, &key)?)? {
            for entry in entries(&bytes) {
                visit(entry.pattern, living(segment, entry.records));
            }
        }
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(known) = known.iter_mut().find(|known| known.segment == segment.id()) {
            known.shapes = Some(shapes);
        }
    });
    Ok(())
}

/// The shapes, taken out of what the thread knows where that is not older than `word`.
fn shapes_at(commit: &dyn CommitView, word: u64) -> Result<Vec<ShapeText>, Stop> {
    let id = commit.segment().id();
    let known = KNOWN.with_borrow_mut(|known| {
        known.iter_mut().find(|known| known.segment == id && known.word == word)?.shapes.take()
    });
    if let Some(shapes) = known {
        return Ok(shapes);
    }
    let bytes = record::bytes(commit, commit.glimpse(SYSTEM, SHAPES_KEY)?)?.unwrap_or_default();
    let shapes: Vec<ShapeText> = shapes_in(&bytes).map(ShapeText::from_slice).collect();
    KNOWN.with_borrow_mut(|known| match known.iter_mut().find(|known| known.segment == id) {
        Some(found) => (found.word, found.shapes) = (word, None),
        None => known.push(KnownShapes { segment: id, word, shapes: None }),
    });
    Ok(shapes)
}

/// A number below `end`, drawn by the calling thread: which seat serves a queue's next message.
pub(crate) fn draw(end: u64) -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(std::collections::hash_map::RandomState::new().build_hasher().finish() | 1);
    }
    // xorshift64
    let mut word = STATE.get();
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    STATE.set(word);
    ((u128::from(word) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_are_taken_apart() {
        assert_eq!(split_name(&name_of(b"a.*", b"q")), (&b"a.*"[..], &b"q"[..]));
        assert_eq!(split_name(&name_of(b"a.*", b"")), (&b"a.*"[..], &b""[..]));
        assert_eq!(parts_of(&key_of(b"l*", b"a:b")), Some((&b"l*"[..], &b"a:b"[..])));
    }

    #[test]
    fn draws_reach_each_number_below_their_end() {
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[draw(5) as usize] += 1);
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}
