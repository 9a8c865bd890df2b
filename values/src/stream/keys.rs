//! The trees of a stream's groups and producers: their numbers, and the keys by which their elements are sorted.
//!
//! `groups.rs` and `producers.rs` show the elements.
use std::borrow::Cow;
use std::cmp::Ordering;

use polder_base::Fault;

use super::Id;
use super::head::TREES;
use crate::Nodes;
use crate::sequence::{Rule, Sequence, Tree};

pub(super) const GROUPS: usize = 0;
pub(super) const CONSUMERS: usize = 1;
pub(super) const NAMES: usize = 2;
pub(super) const PENDING: usize = 3;
pub(super) const OWNED: usize = 4;
pub(super) const PRODUCERS: usize = 5;
pub(super) const IIDS: usize = 6;
pub(super) const IDS: usize = 7;

/// The beginning of the names of groups and of consumers.
pub(super) const GROUP_NAME: usize = 28;
pub(super) const CONSUMER_NAME: usize = 24;
/// Bytes of the whole key of each of the last three.
pub(super) const NAMES_KEY: usize = 8;
pub(super) const PENDING_KEY: usize = 20;
pub(super) const OWNED_KEY: usize = 20;
/// Bytes of an element of what is pending.
pub(super) const PENDING_LEN: usize = 40;
/// The beginning of the names of producers and their ids.
pub(super) const PRODUCER_NAME: usize = 4;
pub(super) const IID: usize = 20;

/// A group's number of entries read, a consumer's number, and the like.
pub(super) fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

pub(super) fn id(bytes: &[u8], at: usize) -> Id {
    Id { ms: word(bytes, at), seq: word(bytes, at + 8) }
}

/// The first bytes of a name as a word that sorts as the names do.
pub(super) fn name_word(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = name.len().min(8);
    bytes[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(bytes)
}

pub(super) fn rest(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// The order of a sequence whose elements begin with a key of `N` bytes.
pub(super) fn by_key<const N: usize>(one: &[u8], two: &[u8]) -> Ordering {
    one[..one.len().min(N)].cmp(&two[..two.len().min(N)])
}

pub(super) fn consumer_key(bytes: &[u8]) -> (u32, &[u8]) {
    (half(bytes, 0), rest(bytes, CONSUMER_NAME))
}

pub(super) fn consumer_word(group: u32, name: &[u8]) -> u64 {
    u64::from(group) << 32 | name_word(name) >> 32
}

/// The number of a group or a consumer and the id behind it, in as many bits as usually tell them apart: `NUMBER` for the one, 42 for
/// milliseconds (up to the year 2109), the rest for what comes in the same millisecond. What does not fit is as if it were the greatest that does.
pub(super) fn id_word<const NUMBER: u32>(bytes: &[u8]) -> u64 {
    const MS: u32 = 42;
    let seq_bits = u64::BITS - NUMBER - MS;
    let (number, ms, seq) = (u64::from(half(bytes, 0)), word(bytes, 4), word(bytes, 12));
    let id = if ms >> MS == 0 {
        ms << seq_bits | seq.min((1 << seq_bits) - 1)
    } else {
        (1 << (MS + seq_bits)) - 1
    };
    if number >> NUMBER == 0 { number << (MS + seq_bits) | id } else { u64::MAX }
}

pub(super) const GROUP_BITS: u32 = 8;
pub(super) const CONSUMER_BITS: u32 = 12;

pub(super) const RULES: [Rule; TREES] = [
    Rule {
        word: |bytes| name_word(rest(bytes, GROUP_NAME)),
        compare: |one, two| rest(one, GROUP_NAME).cmp(rest(two, GROUP_NAME)),
        packed_sorted: true,
    },
    Rule {
        word: |bytes| consumer_word(half(bytes, 0), rest(bytes, CONSUMER_NAME)),
        compare: |one, two| consumer_key(one).cmp(&consumer_key(two)),
        packed_sorted: true,
    },
    Rule { word: |bytes| word(bytes, 0), compare: by_key::<NAMES_KEY>, packed_sorted: true },
    Rule { word: id_word::<GROUP_BITS>, compare: by_key::<PENDING_KEY>, packed_sorted: true },
    Rule { word: id_word::<CONSUMER_BITS>, compare: by_key::<OWNED_KEY>, packed_sorted: true },
    Rule {
        word: |bytes| name_word(rest(bytes, PRODUCER_NAME)),
        compare: |one, two| rest(one, PRODUCER_NAME).cmp(rest(two, PRODUCER_NAME)),
        packed_sorted: true,
    },
    Rule {
        word: |bytes| iid_word(half(bytes, 0), rest(bytes, IID)),
        compare: |one, two| iid_key(one).cmp(&iid_key(two)),
        packed_sorted: true,
    },
    Rule { word: id_word::<CONSUMER_BITS>, compare: |one, two| one.cmp(two), packed_sorted: true },
];

pub(super) fn iid_word(number: u32, iid: &[u8]) -> u64 {
    u64::from(number) << 32 | name_word(iid) >> 32
}

pub(super) fn iid_key(bytes: &[u8]) -> (u32, &[u8]) {
    (half(bytes, 0), rest(bytes, IID))
}

/// The key of what is pending in a group, or owned by a consumer.
pub(super) fn id_key(number: u32, id: Id) -> [u8; PENDING_KEY] {
    let mut key = [0; PENDING_KEY];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key[4..].copy_from_slice(&id.bytes());
    key
}

pub(super) fn names_key(group: u32, number: u32) -> [u8; NAMES_KEY] {
    (u64::from(group) << 32 | u64::from(number)).to_be_bytes()
}

pub(super) fn tail(bytes: Cow<'_, [u8]>, at: usize) -> Cow<'_, [u8]> {
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(rest(bytes, at)),
        Cow::Owned(bytes) => Cow::Owned(rest(&bytes, at).to_vec()),
    }
}

/// The ranks, from the first up to (not including) the last, of what belongs to a group, or to a producer, in tree number `tree`.
pub(super) fn ranks_of_group(
    nodes: &dyn Nodes,
    trees: &[Tree],
    tree: usize,
    group: u32,
) -> Result<(u64, u64), Fault> {
    // No number is the greatest one, so that there is one behind each.
    let at = |group: u32| {
        let key = group.to_be_bytes();
        let word = match tree {
            PENDING => id_word::<GROUP_BITS>(&id_key(group, Id::MIN)),
            IDS => id_word::<CONSUMER_BITS>(&id_key(group, Id::MIN)),
            _ => u64::from(group) << 32,
        };
        let seek = &mut |bytes: &[u8]| match bytes[..bytes.len().min(4)].cmp(&key) {
            Ordering::Less => Ordering::Less,
            _ => Ordering::Greater,
        };
        Sequence::Tree(trees[tree]).seek(nodes, &RULES[tree], word, seek).map(|place| place.rank)
    };
    let (first, end) = (at(group)?, at(group.saturating_add(1))?);
    Ok((first, end.max(first)))
}

/// The number after this one.
pub(super) fn successor(number: u32) -> Result<u32, Fault> {
    // The greatest number stays free: it is the end of the range of the one before.
    number
        .checked_add(1)
        .filter(|next| *next < u32::MAX)
        .ok_or_else(|| Fault::TooLarge("the stream has had too many groups, consumers or producers".into()))
}
