//! Streams: nodes of entries, then facts, groups, what is pending, consumers.
//!
//! ```text
//!   node      its first id, 16 bytes as a string;  a listpack:
//!             live  deleted  fields n  field ... 0          the master: what entries are told against
//!             flags  ms-after  sequence-after  value ... x  an entry with the master's fields (flags & 2)
//!             flags  ms-after  sequence-after  n  field value ... x          another; flags & 1: deleted; x: entries of its own
//!   facts     entries, last id      2: first id, greatest deleted id, entries ever added
//!   groups    n, each: name, last id, 2: entries read
//!             pending n, each: id, 16 bytes; time, 8; deliveries
//!             consumers n, each: name; seen, 8; 3: active, 8; pending n, each: id, 16 bytes
//!             5: given back n, each: id, 16 bytes
//!   4: producers   seconds, ids at most; n, each: name; n, each: the producer's id of an entry, the entry's; added, duplicates
//! ```
//! 2 to 5 are the versions from which on there is such a thing.
use super::cursor::{Cursor, Piece, Step};
use super::found::{Found, piece};
use super::packed::{Entry, Form, Walk};
use super::{Id, Item, Malformed, Production, StreamFacts};

const BAD_NODE: &str = "a node of a stream is damaged";

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Where the reading of a stream has come to.
#[derive(Clone, Debug)]
pub(super) struct StreamWalk {
    version: u8,
    place: Place,
    nodes: u64,
    node: Option<Node>,
    last: Option<Id>,
    groups: u64,
    pending: u64,
    consumers: u64,
    owned: u64,
    producers: u64,
    produced: u64,
    production: Production,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Nodes,
    Facts,
    Groups,
    Pending,
    Consumers,
    Owned,
    Released,
    Production,
    Producers,
    Produced,
    End,
}

/// The current node.
#[derive(Clone, Debug)]
struct Node {
    walk: Walk,
    first: Id,
    /// Entries that are still to come.
    live: u64,
    deleted: u64,
    fields: u64,
    /// At the first of the master's fields, and at the next one.
    master: Walk,
    field: Walk,
    /// Pairs of the entry that are still to come.
    pairs: u64,
    same: bool,
    /// Elements of the listpack that the current entry takes; none between entries.
    elements: u64,
}

impl StreamWalk {
    pub fn new(version: u8, nodes: u64) -> StreamWalk {
        StreamWalk {
            version,
            place: Place::Nodes,
            nodes,
            node: None,
            last: None,
            groups: 0,
            pending: 0,
            consumers: 0,
            owned: 0,
            producers: 0,
            produced: 0,
            production: Production::default(),
        }
    }

    /// The next thing that the stream says, or none at its end.
    pub fn step(
        &mut self,
        cursor: &mut Cursor<'_>,
        blob: &mut Vec<u8>,
        texts: &mut [Vec<u8>; 2],
    ) -> Step<Option<Found>> {
        match self.place {
            Place::Nodes => self.entries(cursor, blob, texts).map(Some),
            Place::Facts => self.facts(cursor).map(Some),
            Place::Groups if self.groups == 0 && self.version >= 4 => {
                self.place = Place::Production;
                Ok(Some(Found::Nothing))
            }
            Place::Groups if self.groups == 0 => Ok(None),
            Place::Groups => {
                let (name, last) = (cursor.string(&mut texts[0], 0)?, cursor.id()?);
                let read = match if self.version >= 2 { cursor.count()? as i64 } else { -1 } {
                    -1 => None,
                    read => {
                        Some(u64::try_from(read).map_err(|_| "a group has read fewer entries than none")?)
                    }
                };
                let pending = cursor.count()?;
                (self.groups, self.pending, self.place) = (self.groups - 1, pending, Place::Pending);
                Ok(Some(Found::Group(name, last, read)))
            }
            Place::Pending if self.pending == 0 => {
                (self.consumers, self.place) = (cursor.count()?, Place::Consumers);
                Ok(Some(Found::Nothing))
            }
            Place::Pending => {
                let (id, delivered_ms, deliveries) = (cursor.raw_id()?, cursor.moment_ms()?, cursor.count()?);
                self.pending -= 1;
                Ok(Some(Found::Plain(Item::Pending { id, delivered_ms, deliveries })))
            }
            Place::Consumers | Place::Owned | Place::Released => self.consumers(cursor, texts).map(Some),
            Place::Production | Place::Producers | Place::Produced => self.producers(cursor, texts).map(Some),
            Place::End => Ok(None),
        }
    }

    /// The words behind a group's pending entries.
    fn consumers(&mut self, cursor: &mut Cursor<'_>, texts: &mut [Vec<u8>; 2]) -> Step<Found> {
        match self.place {
            Place::Consumers if self.consumers == 0 && self.version >= 5 => {
                (self.owned, self.place) = (cursor.count()?, Place::Released);
                Ok(Found::Nothing)
            }
            Place::Consumers if self.consumers == 0 => {
                self.place = Place::Groups;
                Ok(Found::Nothing)
            }
            Place::Consumers => {
                let (name, seen_ms) = (cursor.string(&mut texts[0], 0)?, cursor.moment_ms()?);
                // Minus one, for one that never was, is a time before 1970.
                let active = if self.version >= 3 { Some(i64::from_le_bytes(cursor.array()?)) } else { None };
                let owned = cursor.count()?;
                (self.consumers, self.owned, self.place) = (self.consumers - 1, owned, Place::Owned);
                let active_ms = if self.version >= 3 {
                    active.and_then(|active| u64::try_from(active).ok())
                } else {
                    Some(seen_ms)
                };
                Ok(Found::Consumer(name, seen_ms, active_ms))
            }
            Place::Owned if self.owned == 0 => {
                self.place = Place::Consumers;
                Ok(Found::Nothing)
            }
            Place::Owned => {
                let id = cursor.raw_id()?;
                self.owned -= 1;
                Ok(Found::Plain(Item::Owned(id)))
            }
            Place::Released if self.owned == 0 => {
                self.place = Place::Groups;
                Ok(Found::Nothing)
            }
            _ => {
                let id = cursor.raw_id()?;
                self.owned -= 1;
                Ok(Found::Plain(Item::Released(id)))
            }
        }
    }

    /// The words behind the groups.
    fn producers(&mut self, cursor: &mut Cursor<'_>, texts: &mut [Vec<u8>; 2]) -> Step<Found> {
        match self.place {
            Place::Production => {
                let (duration_s, ids_max) = (cursor.count()?, cursor.count()?);
                self.producers = cursor.count()?;
                self.production = Production { duration_s, ids_max, ..Production::default() };
                self.place = Place::Producers;
                Ok(Found::Nothing)
            }
            Place::Producers if self.producers == 0 => {
                let (added, duplicates) = (cursor.count()?, cursor.count()?);
                self.place = Place::End;
                Ok(Found::Plain(Item::Production(Production { added, duplicates, ..self.production })))
            }
            Place::Producers => {
                let name = cursor.string(&mut texts[0], 0)?;
                self.produced = cursor.count()?;
                (self.producers, self.place) = (self.producers - 1, Place::Produced);
                Ok(Found::Producer(name))
            }
            _ if self.produced == 0 => {
                self.place = Place::Producers;
                Ok(Found::Nothing)
            }
            _ => {
                let (iid, id) = (cursor.string(&mut texts[0], 0)?, cursor.id()?);
                self.produced -= 1;
                Ok(Found::Produced(iid, id))
            }
        }
    }

    fn facts(&mut self, cursor: &mut Cursor<'_>) -> Step<Found> {
        let (length, last) = (cursor.count()?, cursor.id()?);
        let mut facts = StreamFacts { length, last, first: None, deleted: Id::default(), added: length };
        if self.version >= 2 {
            facts = StreamFacts {
                first: Some(cursor.id()?),
                deleted: cursor.id()?,
                added: cursor.count()?,
                ..facts
            };
        }
        (self.groups, self.place) = (cursor.count()?, Place::Groups);
        Ok(Found::Plain(Item::Stream(facts)))
    }

    fn entries(
        &mut self,
        cursor: &mut Cursor<'_>,
        blob: &mut Vec<u8>,
        texts: &mut [Vec<u8>; 2],
    ) -> Step<Found> {
        if let Some(node) = &mut self.node {
            let found = if node.elements > 0 { node.pair(blob, texts)? } else { node.entry(blob)? };
            return Ok(match found {
                Some(found) => {
                    if let Found::Plain(Item::Entry { id, .. }) = &found
                        && self.last.replace(*id).is_some_and(|last| last >= *id)
                    {
                        return Err("the entries of a stream are not in order".into());
                    }
                    found
                }
                None => {
                    self.node = None;
                    Found::Nothing
                }
            });
        }
        if self.nodes == 0 {
            self.place = Place::Facts;
            return Ok(Found::Nothing);
        }
        let [one, two] = texts;
        let first = match cursor.string(one, 0)? {
            Piece::Input(range) if range.len() == 16 => Cursor::new(&cursor.bytes[range]).raw_id()?,
            Piece::Text(_) if one.len() == 16 => Cursor::new(one).raw_id()?,
            _ => return Err(BAD_NODE.into()),
        };
        match cursor.string(two, 1)? {
            Piece::Input(range) => {
                blob.clear();
                blob.extend_from_slice(&cursor.bytes[range]);
            }
            _ => std::mem::swap(blob, two),
        }
        self.node = Some(Node::open(first, blob)?);
        self.nodes -= 1;
        Ok(Found::Nothing)
    }
}

/// The next entry, which must be an integer.
fn integer(walk: &mut Walk, blob: &[u8]) -> Result<i64, Malformed> {
    match walk.next(blob)? {
        Some(Entry::Integer(number)) => Ok(number),
        _ => Err(BAD_NODE.into()),
    }
}

/// The next entry, which must be a number of things.
fn many(walk: &mut Walk, blob: &[u8]) -> Result<u64, Malformed> {
    u64::try_from(integer(walk, blob)?).map_err(|_| BAD_NODE.into())
}

fn entry(walk: &mut Walk, blob: &[u8]) -> Result<Entry, Malformed> {
    walk.next(blob)?.ok_or(BAD_NODE.into())
}

impl Node {
    fn open(first: Id, blob: &[u8]) -> Result<Node, Malformed> {
        let mut walk = Walk::new(Form::Listpack, blob)?;
        let (live, deleted, fields) =
            (many(&mut walk, blob)?, many(&mut walk, blob)?, many(&mut walk, blob)?);
        let master = walk.clone();
        for _ in 0..fields {
            entry(&mut walk, blob)?;
        }
        if integer(&mut walk, blob)? != 0 {
            return Err(BAD_NODE.into());
        }
        let field = master.clone();
        Ok(Node { walk, first, live, deleted, fields, master, field, pairs: 0, same: false, elements: 0 })
    }

    /// Begins the next entry that was not deleted.
    fn entry(&mut self, blob: &[u8]) -> Result<Option<Found>, Malformed> {
        loop {
            let flags = match self.walk.next(blob)? {
                Some(Entry::Integer(flags)) => flags,
                Some(_) => return Err(BAD_NODE.into()),
                None if self.live == 0 && self.deleted == 0 => return Ok(None),
                None => return Err(BAD_NODE.into()),
            };
            let (ms, sequence) = (integer(&mut self.walk, blob)?, integer(&mut self.walk, blob)?);
            let id = Id {
                ms: self.first.ms.wrapping_add(ms as u64),
                sequence: self.first.sequence.wrapping_add(sequence as u64),
            };
            self.same = flags & SAME_FIELDS != 0;
            self.pairs = match self.same {
                true => self.fields,
                false => many(&mut self.walk, blob)?,
            };
            let texts = if self.same { self.pairs } else { self.pairs.saturating_mul(2).saturating_add(1) };
            let elements = texts.saturating_add(3);
            if flags & DELETED == 0 {
                self.live = self.live.checked_sub(1).ok_or(BAD_NODE)?;
                self.field = self.master.clone();
                self.elements = elements;
                return Ok(Some(Found::Plain(Item::Entry { id, pairs: self.pairs })));
            }
            self.deleted = self.deleted.checked_sub(1).ok_or(BAD_NODE)?;
            // Each takes a byte at least, so that no number makes this long (R2).
            let skipped = if self.same { self.pairs } else { self.pairs.saturating_mul(2) };
            for _ in 0..skipped {
                entry(&mut self.walk, blob)?;
            }
            self.close(blob, elements)?;
        }
    }

    /// Takes what stands behind an entry for programs that read backwards: how many elements it was.
    fn close(&mut self, blob: &[u8], elements: u64) -> Result<(), Malformed> {
        if many(&mut self.walk, blob)? == elements { Ok(()) } else { Err(BAD_NODE.into()) }
    }

    fn pair(&mut self, blob: &[u8], texts: &mut [Vec<u8>; 2]) -> Result<Option<Found>, Malformed> {
        if self.pairs == 0 {
            let elements = std::mem::take(&mut self.elements);
            self.close(blob, elements)?;
            return Ok(Some(Found::Nothing));
        }
        self.pairs -= 1;
        let [one, two] = texts;
        let field = if self.same { entry(&mut self.field, blob)? } else { entry(&mut self.walk, blob)? };
        let value = entry(&mut self.walk, blob)?;
        Ok(Some(Found::Pair(piece(field, one, 0), piece(value, two, 1))))
    }
}
