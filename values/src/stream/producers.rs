//! The producers of a stream, and the ids by which they know the entries that they have added: three sequences whose elements are
//!
//! ```text
//!   producers   number (4) | name                     sorted by name
//!   by iid      number (4) | id (16) | iid            sorted by number and iid
//!   by id       number (4) | id (16) | iid            sorted by number, id and iid
//! ```
//! with the high bytes first. An iid is what a producer calls an entry, an id is what the stream calls it. Producers have numbers that are
//! never given twice. How many entries are known of a producer is the distance of two ranks.
use std::borrow::Cow;
use std::cmp::Ordering;

use polder_base::{Fault, Ref};

use super::head::{Production, TREES};
use super::keys::{
    IDS, IID, IIDS, PRODUCER_NAME, PRODUCERS, RULES, half, id, id_key, iid_key, iid_word, name_word,
    ranks_of_group, rest, successor, tail,
};
use super::{Draft, Id, Stream};
use crate::Nodes;
use crate::sequence::{Place, Sequence, Tree};

const DAMAGED: Fault = Fault::Damaged { what: "the producers of a stream" };

/// A producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer<'a> {
    pub number: u32,
    pub name: Cow<'a, [u8]>,
}

/// An entry that a producer knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produced<'a> {
    pub id: Id,
    pub iid: Cow<'a, [u8]>,
}

fn seek_name<'a>(nodes: &'a dyn Nodes, trees: &[Tree], name: &[u8]) -> Result<Place<'a>, Fault> {
    Sequence::Tree(trees[PRODUCERS])
        .seek(nodes, &RULES[PRODUCERS], name_word(name), &mut |bytes| rest(bytes, PRODUCER_NAME).cmp(name))
}

fn seek_iid<'a>(nodes: &'a dyn Nodes, trees: &[Tree], number: u32, iid: &[u8]) -> Result<Place<'a>, Fault> {
    let key = (number, iid);
    Sequence::Tree(trees[IIDS])
        .seek(nodes, &RULES[IIDS], iid_word(number, iid), &mut |bytes| iid_key(bytes).cmp(&key))
}

/// The rank of the first element of a producer whose id is not less than this, or of what stands behind.
fn rank_of_id(nodes: &dyn Nodes, trees: &[Tree], number: u32, id: Id) -> Result<u64, Fault> {
    let key = id_key(number, id);
    let seek = &mut |bytes: &[u8]| match bytes[..bytes.len().min(key.len())].cmp(&key[..]) {
        Ordering::Less => Ordering::Less,
        _ => Ordering::Greater,
    };
    Ok(Sequence::Tree(trees[IDS]).seek(nodes, &RULES[IDS], (RULES[IDS].word)(&key), seek)?.rank)
}

/// The place of an element in the order of the entries' ids.
fn seek_element<'a>(nodes: &'a dyn Nodes, trees: &[Tree], element: &[u8]) -> Result<Place<'a>, Fault> {
    Sequence::Tree(trees[IDS])
        .seek(nodes, &RULES[IDS], (RULES[IDS].word)(element), &mut |bytes| bytes.cmp(element))
}

impl<'a> Stream<'a> {
    /// The treatment of producers, if the stream knows any.
    pub fn production(&self) -> Option<Production> {
        self.head.production
    }

    /// The number of producers.
    pub fn producers_len(&self) -> u64 {
        self.head.trees[PRODUCERS].count
    }

    /// Every producer, by name.
    pub fn producers(&self) -> impl Iterator<Item = Result<Producer<'a>, Fault>> + use<'a> {
        self.elements(PRODUCERS, (0, u64::MAX)).map(|bytes| {
            let bytes = bytes?;
            Ok(Producer { number: half(&bytes, 0), name: tail(bytes, PRODUCER_NAME) })
        })
    }

    /// The producer at a rank.
    ///
    /// # Errors
    /// [`Fault::Damaged`], also when there is none.
    pub fn producer_at(&self, rank: u64) -> Result<Producer<'a>, Fault> {
        let bytes = self.element(PRODUCERS, rank)?.bytes(self.nodes)?;
        Ok(Producer { number: half(&bytes, 0), name: tail(bytes, PRODUCER_NAME) })
    }

    /// The number of a producer, if it is known.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn producer(&self, name: &[u8]) -> Result<Option<u32>, Fault> {
        let place = seek_name(self.nodes, &self.head.trees, name)?;
        place.found.map(|element| Ok(half(&element.bytes(self.nodes)?, 0))).transpose()
    }

    /// The entries that a producer knows, from an id on.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn produced(
        &self,
        producer: u32,
        from: Id,
    ) -> Result<impl Iterator<Item = Result<Produced<'a>, Fault>> + use<'a>, Fault> {
        let ranks = self.ranks_produced(producer, from)?;
        Ok(self.elements(IDS, ranks).map(|bytes| {
            let bytes = bytes?;
            Ok(Produced { id: id(&bytes, 4), iid: tail(bytes, IID) })
        }))
    }

    /// The number of entries that a producer knows, from an id on.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn produced_len(&self, producer: u32, from: Id) -> Result<u64, Fault> {
        let (first, end) = self.ranks_produced(producer, from)?;
        Ok(end - first)
    }

    fn ranks_produced(&self, producer: u32, from: Id) -> Result<(u64, u64), Fault> {
        let (first, end) = ranks_of_group(self.nodes, &self.head.trees, IDS, producer)?;
        let from =
            if from == Id::MIN { first } else { rank_of_id(self.nodes, &self.head.trees, producer, from)? };
        Ok((from.clamp(first, end), end))
    }

    /// The entry that a producer knows by this id.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn find_produced(&self, producer: u32, iid: &[u8]) -> Result<Option<Id>, Fault> {
        let place = seek_iid(self.nodes, &self.head.trees, producer, iid)?;
        place.found.map(|element| Ok(id(&element.bytes(self.nodes)?, 4))).transpose()
    }
}

impl Draft<'_> {
    /// Sets how producers are treated; what they know is forgotten where that is another way.
    ///
    /// # Errors
    /// [`Fault::Full`], [`Fault::Damaged`].
    pub fn set_production(&mut self, nodes: &dyn Nodes, duration_s: u32, ids_max: u32) -> Result<(), Fault> {
        let old = self.head.production.unwrap_or_default();
        if (old.duration_s, old.ids_max) != (duration_s, ids_max) {
            for tree in PRODUCERS..TREES {
                let count = self.head.trees[tree].count;
                self.cut(nodes, tree, (0, count))?;
            }
        }
        self.head_mut().production = Some(Production { duration_s, ids_max, ..old });
        Ok(())
    }

    /// Sets how many entries were added by ids of producers, and how many were not since they were there.
    pub fn set_produced(&mut self, added: u64, duplicates: u64) {
        if let Some(production) = &mut self.head_mut().production {
            (production.added, production.duplicates) = (added, duplicates);
        }
    }

    /// Sets how producers are treated, of a stream in the making.
    pub fn put_production(&mut self, duration_s: u32, ids_max: u32, added: u64, duplicates: u64) {
        let production = self.head_mut().production.get_or_insert_default();
        *production = Production { duration_s, ids_max, added, duplicates, ..*production };
    }

    /// Notes by which id a producer knows an entry, instead of the one that it has known by it.
    ///
    /// # Errors
    /// See [`Draft::set_production`].
    pub fn note_produced(
        &mut self,
        nodes: &dyn Nodes,
        producer: &[u8],
        iid: &[u8],
        id: Id,
    ) -> Result<(), Fault> {
        let place = seek_name(nodes, &self.head.trees, producer)?;
        let number = match place.found {
            Some(element) => half(&element.bytes(nodes)?, 0),
            None => {
                let production = self.head_mut().production.get_or_insert_default();
                let number = production.next;
                production.next = successor(number)?;
                self.put(nodes, PRODUCERS, place.rank, false, &[&number.to_be_bytes(), producer])?;
                number
            }
        };
        let place = seek_iid(nodes, &self.head.trees, number, iid)?;
        let (rank, old) = (place.rank, place.found.map(|element| element.bytes(nodes)).transpose()?);
        let old = old.map(Cow::into_owned);
        let element = [&id_key(number, id)[..], iid].concat();
        self.put(nodes, IIDS, rank, old.is_some(), &[&element])?;
        if let Some(old) = old {
            let place = seek_element(nodes, &self.head.trees, &old)?;
            let rank = place.found.map(|_| place.rank).ok_or(DAMAGED)?;
            self.cut(nodes, IDS, (rank, rank + 1))?;
        }
        let rank = seek_element(nodes, &self.head.trees, &element)?.rank;
        self.put(nodes, IDS, rank, false, &[&element])
    }

    /// Forgets the first `count` entries that a producer knows, and the producer if it knows no other.
    ///
    /// # Errors
    /// See [`Draft::set_production`].
    pub fn forget_produced(&mut self, nodes: &dyn Nodes, producer: &[u8], count: u64) -> Result<(), Fault> {
        let place = seek_name(nodes, &self.head.trees, producer)?;
        let Some(element) = place.found else { return Ok(()) };
        let (number, rank) = (half(&element.bytes(nodes)?, 0), place.rank);
        let (first, end) = ranks_of_group(nodes, &self.head.trees, IDS, number)?;
        let behind = end.min(first.saturating_add(count));
        let gone = self.view(nodes).elements(IDS, (first, behind)).collect::<Result<Vec<_>, _>>()?;
        let gone: Vec<Vec<u8>> = gone.into_iter().map(Cow::into_owned).collect();
        for element in &gone {
            let place = seek_iid(nodes, &self.head.trees, number, rest(element, IID))?;
            if place.found.is_none() {
                return Err(DAMAGED);
            }
            let rank = place.rank;
            self.cut(nodes, IIDS, (rank, rank + 1))?;
        }
        self.cut(nodes, IDS, (first, behind))?;
        if behind == end {
            self.cut(nodes, PRODUCERS, (rank, rank + 1))?;
        }
        Ok(())
    }
}

/// Returns true if the producers are whole (X4).
pub(super) fn check(stream: &Stream<'_>) -> Result<(), Fault> {
    let (trees, mut known) = (&stream.head.trees, 0);
    let Some(production) = stream.head.production else {
        return if trees[PRODUCERS..].iter().all(|tree| tree.root == Ref::NONE) {
            Ok(())
        } else {
            Err(DAMAGED)
        };
    };
    for producer in stream.producers() {
        let producer = producer?;
        let before = known;
        for produced in stream.produced(producer.number, Id::MIN)? {
            let produced = produced?;
            if stream.find_produced(producer.number, &produced.iid)? != Some(produced.id) {
                return Err(DAMAGED);
            }
            known += 1;
        }
        if known == before || producer.number >= production.next {
            return Err(DAMAGED);
        }
    }
    if trees[IIDS].count == known && trees[IDS].count == known { Ok(()) } else { Err(DAMAGED) }
}
