//! The groups of a stream, their consumers, and what is pending: five sequences whose elements are
//!
//! ```text
//!   groups      last id (16) | entries read (8, all ones: not known) | number (4) | name          sorted by name
//!   consumers   group (4) | number (4) | seen (8) | active (8, all ones: never) | name            by group and name
//!   names       group (4) | number (4) | name                                                     by group and number
//!   pending     group (4) | id (16) | consumer (4) | delivered (8) | deliveries (8)               by group and id
//!   owned       consumer (4) | id (16)                                                            by consumer and id
//! ```
//! with the high bytes first, so that keys sort as bytes. Groups and consumers of a stream have numbers that are never given twice: no two
//! groups have a consumer of the same number. How much a group or a consumer has pending is the distance of two ranks.
use std::borrow::Cow;

use polder_base::Fault;

use super::head::Head;
use super::keys::{
    CONSUMER_NAME, CONSUMERS, GROUP_NAME, GROUPS, NAMES, NAMES_KEY, OWNED, OWNED_KEY, PENDING, PENDING_KEY,
    PENDING_LEN, RULES, consumer_key, consumer_word, half, id, id_key, name_word, names_key, ranks_of_group,
    rest, successor, tail, word,
};
use super::{Draft, Id, Stream};
use crate::Nodes;
use crate::sequence::{self, Element, Place, Sequence, Tree};

const UNKNOWN: u64 = u64::MAX;

/// The number that an entry has in the place of a consumer's that was given back: it is no one's.
pub const NO_CONSUMER: u32 = u32::MAX;

const DAMAGED: Fault = Fault::Damaged { what: "the groups of a stream" };

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    pub number: u32,
    /// The last id that was delivered to one of its consumers.
    pub last: Id,
    /// How many entries of the stream, from its very first one on, were delivered; not always known.
    pub read: Option<u64>,
    pub name: Cow<'a, [u8]>,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer<'a> {
    pub group: u32,
    pub number: u32,
    /// When it last tried to read, and when it last got something, in milliseconds since the Unix epoch.
    pub seen_ms: u64,
    pub active_ms: Option<u64>,
    pub name: Cow<'a, [u8]>,
}

/// An entry that was delivered and is not acknowledged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    pub id: Id,
    /// The number of the consumer that owns it, or [`NO_CONSUMER`].
    pub consumer: u32,
    /// The moment of its last delivery, or that at which it was given back.
    pub delivered_ms: u64,
    pub deliveries: u64,
}

impl Pending {
    /// The number of deliveries after the next one. The greatest number, which XNACK may have set, stays.
    pub fn next_deliveries(&self) -> u64 {
        if self.deliveries == i64::MAX as u64 { self.deliveries } else { self.deliveries.wrapping_add(1) }
    }

    /// The moment of its last delivery: none where it was given back, which is told as 0.
    pub fn last_ms(&self) -> u64 {
        if self.consumer == NO_CONSUMER { 0 } else { self.delivered_ms }
    }
}

impl Group<'_> {
    /// The same, by itself.
    pub fn owned(self) -> Group<'static> {
        Group { name: Cow::Owned(self.name.into_owned()), ..self }
    }
}

impl Consumer<'_> {
    /// The same, by itself.
    pub fn owned(self) -> Consumer<'static> {
        Consumer { name: Cow::Owned(self.name.into_owned()), ..self }
    }
}

fn read_group(bytes: Cow<'_, [u8]>) -> Group<'_> {
    let read = Some(word(&bytes, 16)).filter(|read| *read != UNKNOWN);
    Group { number: half(&bytes, 24), last: id(&bytes, 0), read, name: tail(bytes, GROUP_NAME) }
}

fn read_consumer(bytes: Cow<'_, [u8]>) -> Consumer<'_> {
    let active_ms = Some(word(&bytes, 16)).filter(|active| *active != UNKNOWN);
    Consumer {
        group: half(&bytes, 0),
        number: half(&bytes, 4),
        seen_ms: word(&bytes, 8),
        active_ms,
        name: tail(bytes, CONSUMER_NAME),
    }
}

fn read_pending(bytes: &[u8]) -> Result<Pending, Fault> {
    match bytes.len() {
        PENDING_LEN => Ok(Pending {
            id: id(bytes, 4),
            consumer: half(bytes, 20),
            delivered_ms: word(bytes, 24),
            deliveries: word(bytes, 32),
        }),
        _ => Err(DAMAGED),
    }
}

/// What a group has pending, as it is stored.
fn pending_bytes(group: u32, pending: &Pending) -> [u8; PENDING_LEN] {
    let mut bytes = [0; PENDING_LEN];
    bytes[..PENDING_KEY].copy_from_slice(&id_key(group, pending.id));
    bytes[20..24].copy_from_slice(&pending.consumer.to_be_bytes());
    bytes[24..32].copy_from_slice(&pending.delivered_ms.to_be_bytes());
    bytes[32..].copy_from_slice(&pending.deliveries.to_be_bytes());
    bytes
}

/// Where the element with this key is in tree number `tree`.
fn seek_key<'a>(nodes: &'a dyn Nodes, trees: &[Tree], tree: usize, key: &[u8]) -> Result<Place<'a>, Fault> {
    let rule = &RULES[tree];
    Sequence::Tree(trees[tree])
        .seek(nodes, rule, (rule.word)(key), &mut |bytes| bytes[..bytes.len().min(key.len())].cmp(key))
}

/// What is done with an element that was found: the number of its key, its rank, its bytes.
type Visit<'v> = &'v mut dyn FnMut(usize, u64, &[u8]) -> Result<(), Fault>;

/// Shows the elements that have these keys, which rise. Those that follow each other are found by one search.
fn seek_keys<'k, const N: usize>(
    nodes: &dyn Nodes,
    trees: &[Tree],
    tree: usize,
    keys: impl Iterator<Item = &'k [u8; N]>,
    visit: Visit<'_>,
) -> Result<(), Fault> {
    let mut behind: Option<(u64, sequence::Iter<'_>)> = None;
    for (at, key) in keys.enumerate() {
        if let Some((rank, elements)) = &mut behind
            && let Some(element) = elements.next()
        {
            let bytes = element?.bytes(nodes)?;
            if bytes.starts_with(key) {
                *rank += 1;
                visit(at, *rank, &bytes)?;
                continue;
            }
        }
        let place = seek_key(nodes, trees, tree, key)?;
        behind = None;
        if let Some(element) = place.found {
            visit(at, place.rank, &element.bytes(nodes)?)?;
            behind = Some((place.rank, Sequence::Tree(trees[tree]).iter(nodes, place.rank + 1)));
        }
    }
    Ok(())
}

fn seek_group<'a>(nodes: &'a dyn Nodes, trees: &[Tree], name: &[u8]) -> Result<Place<'a>, Fault> {
    Sequence::Tree(trees[GROUPS])
        .seek(nodes, &RULES[GROUPS], name_word(name), &mut |bytes| rest(bytes, GROUP_NAME).cmp(name))
}

fn seek_consumer<'a>(
    nodes: &'a dyn Nodes,
    trees: &[Tree],
    group: u32,
    name: &[u8],
) -> Result<Place<'a>, Fault> {
    let word = consumer_word(group, name);
    Sequence::Tree(trees[CONSUMERS])
        .seek(nodes, &RULES[CONSUMERS], word, &mut |bytes| consumer_key(bytes).cmp(&(group, name)))
}

impl Head<'_> {
    fn has_released(&self) -> bool {
        self.trees[PENDING].count != self.trees[OWNED].count
    }
}

impl<'a> Stream<'a> {
    pub(super) fn element(&self, tree: usize, rank: u64) -> Result<Element<'a>, Fault> {
        Sequence::Tree(self.head.trees[tree]).at(self.nodes, rank)?.ok_or(DAMAGED)
    }

    /// The elements of a tree in a range of ranks.
    pub(super) fn elements(
        &self,
        tree: usize,
        ranks: (u64, u64),
    ) -> impl Iterator<Item = Result<Cow<'a, [u8]>, Fault>> + use<'a> {
        let nodes = self.nodes;
        let elements = Sequence::Tree(self.head.trees[tree]).iter(nodes, ranks.0);
        elements.take(ranks.1.saturating_sub(ranks.0) as usize).map(move |element| element?.bytes(nodes))
    }

    /// How many groups there are.
    pub fn groups_len(&self) -> u64 {
        self.head.trees[GROUPS].count
    }

    /// Every group, by name.
    pub fn groups(&self) -> impl Iterator<Item = Result<Group<'a>, Fault>> + use<'a> {
        self.elements(GROUPS, (0, u64::MAX)).map(|bytes| Ok(read_group(bytes?)))
    }

    /// The group of this name.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn group(&self, name: &[u8]) -> Result<Option<Group<'a>>, Fault> {
        let place = seek_group(self.nodes, &self.head.trees, name)?;
        place.found.map(|element| Ok(read_group(element.bytes(self.nodes)?))).transpose()
    }

    /// How many consumers a group has.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn consumers_len(&self, group: u32) -> Result<u64, Fault> {
        let (first, end) = ranks_of_group(self.nodes, &self.head.trees, NAMES, group)?;
        Ok(end - first)
    }

    /// The consumers of a group, by name.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn consumers(
        &self,
        group: u32,
    ) -> Result<impl Iterator<Item = Result<Consumer<'a>, Fault>> + use<'a>, Fault> {
        let ranks = ranks_of_group(self.nodes, &self.head.trees, CONSUMERS, group)?;
        Ok(self.elements(CONSUMERS, ranks).map(|bytes| Ok(read_consumer(bytes?))))
    }

    /// The consumer of this name.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn consumer(&self, group: u32, name: &[u8]) -> Result<Option<Consumer<'a>>, Fault> {
        let place = seek_consumer(self.nodes, &self.head.trees, group, name)?;
        place.found.map(|element| Ok(read_consumer(element.bytes(self.nodes)?))).transpose()
    }

    /// The name of the consumer with this number; none has none.
    ///
    /// # Errors
    /// [`Fault::Damaged`], also when there is none.
    pub fn consumer_name(&self, group: u32, number: u32) -> Result<Cow<'a, [u8]>, Fault> {
        if number == NO_CONSUMER {
            return Ok(Cow::Borrowed(b""));
        }
        let place = seek_key(self.nodes, &self.head.trees, NAMES, &names_key(group, number))?;
        Ok(tail(place.found.ok_or(DAMAGED)?.bytes(self.nodes)?, NAMES_KEY))
    }

    /// How much a group has pending.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn pending_len(&self, group: u32) -> Result<u64, Fault> {
        let (first, end) = ranks_of_group(self.nodes, &self.head.trees, PENDING, group)?;
        Ok(end - first)
    }

    /// What a group has pending, from an id on.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn pending(
        &self,
        group: u32,
        from: Id,
    ) -> Result<impl Iterator<Item = Result<Pending, Fault>> + use<'a>, Fault> {
        let first = seek_key(self.nodes, &self.head.trees, PENDING, &id_key(group, from))?.rank;
        let (_, end) = ranks_of_group(self.nodes, &self.head.trees, PENDING, group)?;
        Ok(self.elements(PENDING, (first, end)).map(|bytes| read_pending(&bytes?)))
    }

    /// The last that a group has pending.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn pending_last(&self, group: u32) -> Result<Option<Pending>, Fault> {
        let (first, end) = ranks_of_group(self.nodes, &self.head.trees, PENDING, group)?;
        if first == end {
            return Ok(None);
        }
        Ok(Some(read_pending(&self.element(PENDING, end - 1)?.bytes(self.nodes)?)?))
    }

    /// What is known of an entry that may be pending.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn find_pending(&self, group: u32, id: Id) -> Result<Option<Pending>, Fault> {
        let place = seek_key(self.nodes, &self.head.trees, PENDING, &id_key(group, id))?;
        place.found.map(|element| read_pending(&element.bytes(self.nodes)?)).transpose()
    }

    /// As [`Stream::find_pending`], of an entry that is pending.
    ///
    /// # Errors
    /// [`Fault::Damaged`], also when it is not.
    pub fn pending_of(&self, group: u32, id: Id) -> Result<Pending, Fault> {
        self.find_pending(group, id)?.ok_or(DAMAGED)
    }

    /// The ranks of what a consumer owns, from an id on.
    fn ranks_owned(&self, consumer: u32, from: Id) -> Result<(u64, u64), Fault> {
        let at = |key: [u8; OWNED_KEY]| {
            seek_key(self.nodes, &self.head.trees, OWNED, &key).map(|place| place.rank)
        };
        let (first, end) = (at(id_key(consumer, from))?, at(id_key(consumer.saturating_add(1), Id::MIN))?);
        Ok((first, end.max(first)))
    }

    /// How much a consumer has pending.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn owned_len(&self, consumer: u32) -> Result<u64, Fault> {
        let (first, end) = self.ranks_owned(consumer, Id::MIN)?;
        Ok(end - first)
    }

    /// The number of pending entries of a group that were given back.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn released_len(&self, group: u32) -> Result<u64, Fault> {
        let mut released = 0;
        if self.has_released() {
            for pending in self.pending(group, Id::MIN)? {
                released += u64::from(pending?.consumer == NO_CONSUMER);
            }
        }
        Ok(released)
    }

    /// Returns true if some group has pending entries that were given back.
    pub fn has_released(&self) -> bool {
        self.head.has_released()
    }

    /// The ids of what a consumer has pending, from one on.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn owned(
        &self,
        consumer: u32,
        from: Id,
    ) -> Result<impl Iterator<Item = Result<Id, Fault>> + use<'a>, Fault> {
        let ranks = self.ranks_owned(consumer, from)?;
        Ok(self.elements(OWNED, ranks).map(|bytes| Ok(id(&bytes?, 4))))
    }
}

impl Draft<'_> {
    /// See [`Stream::has_released`].
    pub(super) fn has_released(&self) -> bool {
        self.head.has_released()
    }

    /// Changes tree number `tree`.
    pub(super) fn edit(
        &mut self,
        tree: usize,
        change: impl FnOnce(&mut sequence::Draft) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let trees = &mut self.head_mut().trees;
        let mut draft = sequence::Draft::index(trees[tree]);
        change(&mut draft)?;
        trees[tree] = draft.tree().unwrap_or_default();
        Ok(())
    }

    /// Puts an element at a place: instead of what was found there, or before it.
    pub(super) fn put(
        &mut self,
        nodes: &dyn Nodes,
        tree: usize,
        rank: u64,
        replaces: bool,
        parts: &[&[u8]],
    ) -> Result<(), Fault> {
        self.edit(tree, |draft| match replaces {
            true => draft.replace(nodes, &RULES[tree], rank, parts),
            false => draft.insert(nodes, &RULES[tree], rank, parts),
        })
    }

    pub(super) fn cut(
        &mut self,
        nodes: &dyn Nodes,
        tree: usize,
        (first, end): (u64, u64),
    ) -> Result<(), Fault> {
        if first == end {
            return Ok(());
        }
        self.edit(tree, |draft| draft.remove(nodes, &RULES[tree], first, end - first))
    }

    /// Makes a group. Its name must be new.
    ///
    /// # Errors
    /// [`Fault::Full`], [`Fault::Damaged`].
    pub fn create_group(
        &mut self,
        nodes: &dyn Nodes,
        name: &[u8],
        last: Id,
        read: Option<u64>,
    ) -> Result<Group<'static>, Fault> {
        let number = self.head.next_group;
        self.head_mut().next_group = successor(number)?;
        let group = Group { number, last, read, name: Cow::Owned(name.to_vec()) };
        self.put_group(nodes, &group)?;
        Ok(group)
    }

    /// Writes a group's state.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn put_group(&mut self, nodes: &dyn Nodes, group: &Group<'_>) -> Result<(), Fault> {
        let place = seek_group(nodes, &self.head.trees, &group.name)?;
        let (rank, replaces) = (place.rank, place.found.is_some());
        let read = group.read.unwrap_or(UNKNOWN).to_be_bytes();
        self.put(
            nodes,
            GROUPS,
            rank,
            replaces,
            &[&group.last.bytes(), &read, &group.number.to_be_bytes(), &group.name],
        )
    }

    /// Takes a group away, with its consumers and all that it has pending.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn destroy_group(&mut self, nodes: &dyn Nodes, group: &Group<'_>) -> Result<(), Fault> {
        let consumers = self
            .view(nodes)
            .consumers(group.number)?
            .map(|consumer| Ok(consumer?.number))
            .collect::<Result<Vec<_>, Fault>>()?;
        for consumer in consumers {
            let ranks = self.view(nodes).ranks_owned(consumer, Id::MIN)?;
            self.cut(nodes, OWNED, ranks)?;
        }
        for tree in [CONSUMERS, NAMES, PENDING] {
            let ranks = ranks_of_group(nodes, &self.head.trees, tree, group.number)?;
            self.cut(nodes, tree, ranks)?;
        }
        let rank = seek_group(nodes, &self.head.trees, &group.name)?.rank;
        self.cut(nodes, GROUPS, (rank, rank + 1))
    }

    /// Makes a consumer. Its name must be new in the group.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn create_consumer(
        &mut self,
        nodes: &dyn Nodes,
        group: u32,
        name: &[u8],
        seen_ms: u64,
    ) -> Result<Consumer<'static>, Fault> {
        let number = self.head.next_consumer;
        self.head_mut().next_consumer = successor(number)?;
        let consumer = Consumer { group, number, seen_ms, active_ms: None, name: Cow::Owned(name.to_vec()) };
        self.put_consumer(nodes, &consumer)?;
        let key = names_key(group, number);
        let rank = seek_key(nodes, &self.head.trees, NAMES, &key)?.rank;
        self.put(nodes, NAMES, rank, false, &[&key, name])?;
        Ok(consumer)
    }

    /// Writes a consumer's state.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn put_consumer(&mut self, nodes: &dyn Nodes, consumer: &Consumer<'_>) -> Result<(), Fault> {
        let place = seek_consumer(nodes, &self.head.trees, consumer.group, &consumer.name)?;
        let (rank, replaces) = (place.rank, place.found.is_some());
        let (key, active) =
            (names_key(consumer.group, consumer.number), consumer.active_ms.unwrap_or(UNKNOWN));
        let parts: [&[u8]; 4] =
            [&key, &consumer.seen_ms.to_be_bytes(), &active.to_be_bytes(), &consumer.name];
        self.put(nodes, CONSUMERS, rank, replaces, &parts)
    }

    /// Removes a consumer, with all that it has pending. Returns how much that was.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn delete_consumer(&mut self, nodes: &dyn Nodes, consumer: &Consumer<'_>) -> Result<u64, Fault> {
        let (group, number) = (consumer.group, consumer.number);
        let ranks = self.view(nodes).ranks_owned(number, Id::MIN)?;
        let ids = self.view(nodes).owned(number, Id::MIN)?.collect::<Result<Vec<_>, _>>()?;
        for id in ids {
            let rank = seek_key(nodes, &self.head.trees, PENDING, &id_key(group, id))?.rank;
            self.cut(nodes, PENDING, (rank, rank + 1))?;
        }
        self.cut(nodes, OWNED, ranks)?;
        let rank = seek_key(nodes, &self.head.trees, NAMES, &names_key(group, number))?.rank;
        self.cut(nodes, NAMES, (rank, rank + 1))?;
        let rank = seek_consumer(nodes, &self.head.trees, group, &consumer.name)?.rank;
        self.cut(nodes, CONSUMERS, (rank, rank + 1))?;
        Ok(ranks.1 - ranks.0)
    }

    /// Notes that an entry is pending, or that it is so in another way.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn put_pending(&mut self, nodes: &dyn Nodes, group: u32, pending: &Pending) -> Result<(), Fault> {
        let key = id_key(group, pending.id);
        let place = seek_key(nodes, &self.head.trees, PENDING, &key)?;
        let rank = place.rank;
        let old = place.found.map(|element| read_pending(&element.bytes(nodes)?)).transpose()?;
        self.put(nodes, PENDING, rank, old.is_some(), &[&pending_bytes(group, pending)])?;
        if old.is_some_and(|old| old.consumer == pending.consumer) {
            return Ok(());
        }
        if let Some(old) = old {
            self.disown(nodes, &old)?;
        }
        if pending.consumer == NO_CONSUMER {
            return Ok(());
        }
        let key = id_key(pending.consumer, pending.id);
        let rank = seek_key(nodes, &self.head.trees, OWNED, &key)?.rank;
        self.put(nodes, OWNED, rank, false, &[&key])
    }

    /// Notes that entries are pending that were delivered to one consumer of a group, by rising ids.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn put_delivered(
        &mut self,
        nodes: &dyn Nodes,
        group: u32,
        delivered: &[Pending],
    ) -> Result<(), Fault> {
        let [first, .., last] = delivered else {
            return delivered.iter().try_for_each(|pending| self.put_pending(nodes, group, pending));
        };
        let rank = seek_key(nodes, &self.head.trees, PENDING, &id_key(group, first.id))?.rank;
        let next = Sequence::Tree(self.head.trees[PENDING])
            .at(nodes, rank)?
            .map(|element| element.bytes(nodes))
            .transpose()?;
        if next.is_some_and(|next| next[..next.len().min(PENDING_KEY)] <= id_key(group, last.id)[..]) {
            // Some of them are pending already: XGROUP SETID has put the group back.
            return delivered.iter().try_for_each(|pending| self.put_pending(nodes, group, pending));
        }
        let elements: Vec<[u8; PENDING_LEN]> =
            delivered.iter().map(|pending| pending_bytes(group, pending)).collect();
        self.put_row(nodes, PENDING, rank, &mut elements.iter().map(|bytes| &bytes[..]))?;
        let keys: Vec<[u8; OWNED_KEY]> =
            delivered.iter().map(|pending| id_key(pending.consumer, pending.id)).collect();
        let rank = seek_key(nodes, &self.head.trees, OWNED, &keys[0])?.rank;
        self.put_row(nodes, OWNED, rank, &mut keys.iter().map(|bytes| &bytes[..]))
    }

    /// Puts elements that follow each other before the one at `rank`.
    fn put_row(
        &mut self,
        nodes: &dyn Nodes,
        tree: usize,
        rank: u64,
        elements: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<(), Fault> {
        let at_end = rank == self.head.trees[tree].count;
        self.edit(tree, |draft| match at_end {
            true => draft.extend(nodes, &RULES[tree], elements),
            false => elements
                .zip(rank..)
                .try_for_each(|(bytes, rank)| draft.insert(nodes, &RULES[tree], rank, &[bytes])),
        })
    }

    /// Notes that entries are no longer pending. Returns for each whether it was. One that is named
    /// twice counts once.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn remove_all_pending(
        &mut self,
        nodes: &dyn Nodes,
        group: u32,
        ids: &[Id],
    ) -> Result<Vec<bool>, Fault> {
        let mut keys: Vec<([u8; PENDING_KEY], usize)> =
            ids.iter().enumerate().map(|(at, id)| (id_key(group, *id), at)).collect();
        keys.sort_unstable();
        keys.dedup_by_key(|(key, _)| *key);
        let (mut gone, mut ranks, mut owned) = (vec![false; ids.len()], Vec::new(), Vec::new());
        seek_keys(
            nodes,
            &self.head.trees,
            PENDING,
            keys.iter().map(|(key, _)| key),
            &mut |at, rank, bytes| {
                let pending = read_pending(bytes)?;
                gone[keys[at].1] = true;
                ranks.push(rank);
                if pending.consumer != NO_CONSUMER {
                    owned.push(id_key(pending.consumer, pending.id));
                }
                Ok(())
            },
        )?;
        self.cut_ranks(nodes, PENDING, &ranks)?;
        owned.sort_unstable();
        ranks.clear();
        seek_keys(nodes, &self.head.trees, OWNED, owned.iter(), &mut |_, rank, _| {
            ranks.push(rank);
            Ok(())
        })?;
        if ranks.len() != owned.len() {
            return Err(DAMAGED);
        }
        self.cut_ranks(nodes, OWNED, &ranks)?;
        Ok(gone)
    }

    /// Takes out the elements at these ranks, which rise; those side by side at once.
    fn cut_ranks(&mut self, nodes: &dyn Nodes, tree: usize, ranks: &[u64]) -> Result<(), Fault> {
        ranks
            .chunk_by(|one, two| one + 1 == *two)
            .rev()
            .try_for_each(|row| self.cut(nodes, tree, (row[0], row[0] + row.len() as u64)))
    }

    /// Notes that an entry is no longer pending. Returns whether it was.
    ///
    /// # Errors
    /// As [`Draft::create_group`].
    pub fn remove_pending(&mut self, nodes: &dyn Nodes, group: u32, id: Id) -> Result<bool, Fault> {
        let place = seek_key(nodes, &self.head.trees, PENDING, &id_key(group, id))?;
        let Some(element) = place.found else { return Ok(false) };
        let (old, rank) = (read_pending(&element.bytes(nodes)?)?, place.rank);
        self.cut(nodes, PENDING, (rank, rank + 1))?;
        self.disown(nodes, &old)?;
        Ok(true)
    }

    fn disown(&mut self, nodes: &dyn Nodes, old: &Pending) -> Result<(), Fault> {
        if old.consumer == NO_CONSUMER {
            return Ok(());
        }
        let place = seek_key(nodes, &self.head.trees, OWNED, &id_key(old.consumer, old.id))?;
        if place.found.is_none() {
            return Err(DAMAGED);
        }
        let rank = place.rank;
        self.cut(nodes, OWNED, (rank, rank + 1))
    }
}
