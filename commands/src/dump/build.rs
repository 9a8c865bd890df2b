//! Values on their way in: nodes made of what an RDB reader tells.
use polder_base::Fault;
use polder_base::number::NumberMode;
use polder_base::score::Score;
use polder_table::{New, Txn};
use polder_values::stream::{Id, NO_CONSUMER, Pending};
use polder_values::{Kind, Nodes, Value, array, hash, list, set, sorted_set, stream, string};
use polder_wire::rdb::{self, Item, Malformed};

use crate::stream::group::Measure;
use polder_calls::settings::{Id as SettingId, Settings, id};

/// Why a value cannot be built.
#[derive(Debug)]
pub enum Problem {
    /// The input makes no such value.
    Malformed(Malformed),
    Fault(Fault),
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        Problem::Fault(fault)
    }
}

impl From<&'static str> for Problem {
    fn from(text: &'static str) -> Problem {
        Problem::Malformed(text.into())
    }
}

type Added = Result<(), Problem>;

const TWICE: &str = "an element comes twice";

/// A value in the making, of the elements between `Begin` and `End`.
pub enum Builder {
    Text(string::Draft),
    Hash(hash::Draft, u64),
    Set(Option<set::Draft>, u64, set::Thresholds),
    Scores(Box<Scores>),
    Stream(Box<Streaming>),
    List(Box<Listing>),
    Array(array::Draft),
}

/// A list in the making.
pub struct Listing {
    draft: list::Draft,
    limit: list::Limit,
    /// Elements that are not in the draft yet, with their bytes.
    fresh: Vec<Vec<u8>>,
    fresh_bytes: usize,
}

/// Bytes of elements that are put into a list together.
const TOGETHER: usize = 64 << 10;

/// A sorted set in the making.
pub struct Scores {
    draft: sorted_set::Draft,
    mode: NumberMode,
    entries_max: u64,
    member_max: u64,
    is_large: bool,
}

/// A stream in the making.
#[derive(Default)]
pub struct Streaming {
    draft: stream::Draft<'static>,
    /// The current entry: its id, and its fields and values in turn.
    id: Id,
    pairs: Vec<Vec<u8>>,
    /// Pairs that are still to come; none between entries.
    left: u64,
    length: Option<u64>,
    /// It was written before Redis 7, which began to count how many entries a group has read.
    is_old: bool,
    group: u32,
    /// What the group has pending, in the order of the ids, and whether a consumer owns it.
    pending: Vec<(Pending, bool)>,
    consumer: u32,
    /// Entries of the group that were given back, so far.
    released: u64,
    producer: Vec<u8>,
}

impl Builder {
    /// Of this kind, under thresholds of these settings.
    pub fn new(kind: rdb::Kind, count: Option<u64>, settings: &Settings, now_ms: u64) -> Builder {
        let number = |id: SettingId| settings.number(id).max(0) as u64;
        match kind {
            rdb::Kind::String => Builder::Text(string::Draft::empty()),
            rdb::Kind::Hash => {
                let entries = number(const { id("hash-max-listpack-entries") });
                let value = number(const { id("hash-max-listpack-value") });
                Builder::Hash(hash::Draft::empty(hash::Thresholds { entries, value }), now_ms)
            }
            rdb::Kind::Set => {
                let thresholds = set::Thresholds {
                    intset_entries: number(const { id("set-max-intset-entries") }),
                    entries: number(const { id("set-max-listpack-entries") }),
                    value: number(const { id("set-max-listpack-value") }),
                };
                // How many it says decides about a name only.
                Builder::Set(None, count.unwrap_or(0), thresholds)
            }
            rdb::Kind::SortedSet => Builder::Scores(Box::new(Scores {
                draft: sorted_set::Draft::empty(),
                mode: if settings.number(const { id("number-mode") }) == 0 {
                    NumberMode::Decimal
                } else {
                    NumberMode::Redis
                },
                entries_max: number(const { id("zset-max-listpack-entries") }),
                member_max: number(const { id("zset-max-listpack-value") }),
                is_large: false,
            })),
            rdb::Kind::Stream => Builder::Stream(Box::default()),
            rdb::Kind::Array => Builder::Array(array::Draft::empty()),
            rdb::Kind::List => {
                let limit = list::Limit::of(settings.number(const { id("list-max-listpack-size") }));
                Builder::List(Box::new(Listing {
                    draft: list::Draft::empty(),
                    limit,
                    fresh: Vec::new(),
                    fresh_bytes: 0,
                }))
            }
        }
    }

    /// Adds what the reader says next.
    ///
    /// # Errors
    /// What the memory says; an element that was there already. The value must then be given up.
    pub fn add(&mut self, txn: &Txn<'_>, item: Item<'_>) -> Added {
        match (self, item) {
            (Builder::Text(draft), Item::Text(text)) => Ok(draft.write(txn, 0, text)?),
            (Builder::Hash(draft, now_ms), Item::Field { field, value, expiry_ms }) => {
                // One that has expired is left out; the reader of a file has no other use for it.
                if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= *now_ms) {
                    return Ok(());
                }
                let spot = draft.find(txn, field, || 0)?;
                if spot.lives {
                    return Err(TWICE.into());
                }
                Ok(draft.put(
                    txn,
                    &spot,
                    field,
                    value,
                    expiry_ms.map_or(hash::Expiry::None, hash::Expiry::At),
                )?)
            }
            (Builder::Set(draft, count, thresholds), Item::Member(member)) => {
                let draft = draft.get_or_insert_with(|| set::Draft::for_members(member, *count, *thresholds));
                if draft.add(txn, member)? { Ok(()) } else { Err(TWICE.into()) }
            }
            (Builder::List(list), Item::Element(element)) => {
                list.fresh.push(element.to_vec());
                list.fresh_bytes += element.len() + 16;
                if list.fresh_bytes >= TOGETHER { list.settle(txn) } else { Ok(()) }
            }
            (Builder::Scores(scores), Item::Scored { member, score, text }) => {
                scores.add(txn, member, score, text)
            }
            (Builder::Stream(stream), item) => stream.add(txn, item),
            (Builder::Array(draft), Item::Cursor(cursor)) => {
                draft.set_cursor(Some(inside(cursor)?));
                Ok(())
            }
            (Builder::Array(draft), Item::Indexed { index, value }) => {
                let before = draft.count()?;
                draft.set(txn, inside(index)?, value)?;
                if draft.count()? > before { Ok(()) } else { Err(TWICE.into()) }
            }
            _ => Err("an element of another kind of value".into()),
        }
    }

    /// The value; `None` when nothing is left of it, since all fields of a hash had expired.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn finish(&mut self, txn: &Txn<'_>) -> Result<Option<New<'_>>, Problem> {
        Ok(Some(match self {
            Builder::Text(draft) => New::of(Kind::String, draft.value()),
            Builder::Hash(draft, _) if draft.count()? == 0 => return Ok(None),
            Builder::Hash(draft, _) => {
                let (value, inner_expiry_ms) = draft.finish(txn)?;
                New { inner_expiry_ms, ..New::of(Kind::Hash, value) }
            }
            Builder::Set(None, ..) => return Ok(None),
            Builder::Set(Some(draft), ..) => New::of(Kind::Set, draft.value()),
            Builder::Scores(scores) => {
                if scores.is_large {
                    scores.draft.set_large();
                }
                New::of(Kind::SortedSet, scores.draft.value())
            }
            Builder::Stream(stream) => New::of(Kind::Stream, stream.finish(txn)?),
            Builder::Array(draft) if draft.count()? == 0 => return Ok(None),
            Builder::Array(draft) => {
                txn.announce_arrays();
                New::of(Kind::Array, draft.value(txn)?)
            }
            Builder::List(list) => {
                list.settle(txn)?;
                New::of(Kind::List, list.draft.value(txn)?)
            }
        }))
    }

    /// Gives back what was made, of a value that is given up in a transaction that is not.
    pub fn discard(&mut self, txn: &Txn<'_>) {
        let value = match self {
            Builder::Text(draft) => draft.value(),
            Builder::Hash(draft, _) => match draft.finish(txn) {
                Ok((value, _)) => value,
                Err(_) => return,
            },
            Builder::Set(Some(draft), ..) => draft.value(),
            Builder::Scores(scores) => scores.draft.value(),
            Builder::Stream(stream) => match stream.draft.value(txn) {
                Ok(value) => value,
                Err(_) => return,
            },
            Builder::List(list) => match list.draft.value(txn) {
                Ok(value) => value,
                Err(_) => return,
            },
            Builder::Array(draft) => match draft.value(txn) {
                Ok(value) => value,
                Err(_) => return,
            },
            Builder::Set(None, ..) => return,
        };
        if let Value::Tree(root) = value {
            root.refs.into_iter().filter(|node| !node.is_none()).for_each(|node| txn.release_tree(node));
        }
    }
}

impl Listing {
    /// Puts what waits into the list.
    fn settle(&mut self, txn: &Txn<'_>) -> Added {
        let elements = self.fresh.iter().map(Vec::as_slice);
        let bytes =
            elements.clone().map(|element| list::listpack_bytes(element.len() as u64, Some(element))).sum();
        self.draft.expect(txn, self.limit, elements.len() as u64, bytes)?;
        self.draft.extend(txn, elements)?;
        self.fresh.clear();
        self.fresh_bytes = 0;
        Ok(())
    }
}

impl Scores {
    fn add(&mut self, txn: &Txn<'_>, member: &[u8], score: f64, text: Option<&[u8]>) -> Added {
        let spot = self.draft.spot(txn, member)?;
        if spot.score.is_some() {
            return Err(TWICE.into());
        }
        // Seventeen digits are how Redis writes a double, and not a text that a client gave.
        let text = text.filter(|text| digits(text) < 17);
        let score = text.and_then(|text| Score::parse(self.mode, text)).unwrap_or_else(|| Score::of(score));
        self.draft.put(txn, spot, &score, member)?;
        if !self.is_large {
            self.is_large =
                member.len() as u64 > self.member_max || self.draft.set().count()? > self.entries_max;
        }
        Ok(())
    }
}

/// Significant digits of a number's text.
fn digits(text: &[u8]) -> usize {
    let mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    mantissa.filter(|byte| byte.is_ascii_digit()).skip_while(|byte| **byte == b'0').count()
}

/// An index of an array, which ends before the last number of 64 bits.
fn inside(index: u64) -> Result<u64, Problem> {
    if index <= array::INDEX_MAX { Ok(index) } else { Err("an index of an array is out of range".into()) }
}

fn id_of(id: rdb::Id) -> Id {
    Id { ms: id.ms, seq: id.sequence }
}

impl Streaming {
    fn add(&mut self, txn: &Txn<'_>, item: Item<'_>) -> Added {
        match item {
            Item::Entry { id, pairs } => {
                (self.id, self.left) = (id_of(id), pairs);
                match pairs {
                    0 => Err("an entry of a stream without fields".into()),
                    _ if self.id == Id::MIN => Err("an entry of a stream with the id 0-0".into()),
                    _ => Ok(()),
                }
            }
            Item::Pair { field, value } => self.add_pair(txn, field, value),
            Item::Stream(facts) => {
                let last = self.draft.last_given(txn)?;
                if facts.length != self.draft.len() || id_of(facts.last) < last || facts.added < facts.length
                {
                    return Err("a stream that contradicts itself".into());
                }
                self.draft.set_last_given(id_of(facts.last));
                self.draft.set_max_deleted(id_of(facts.deleted));
                self.draft.set_added(facts.added);
                self.length = Some(facts.length);
                self.is_old = facts.first.is_none();
                Ok(())
            }
            item => self.add_of_groups(txn, item),
        }
    }

    /// Adds what stands behind the entries.
    fn add_of_groups(&mut self, txn: &Txn<'_>, item: Item<'_>) -> Added {
        match item {
            Item::Group { name, last, read } => {
                self.check_owners()?;
                if self.draft.view(txn).group(name)?.is_some() {
                    return Err(TWICE.into());
                }
                let read = if self.is_old {
                    Measure::of(&self.draft.view(txn))?.distance(id_of(last))
                } else {
                    read
                };
                (self.group, self.released) =
                    (self.draft.create_group(txn, name, id_of(last), read)?.number, 0);
                Ok(())
            }
            Item::Pending { id, delivered_ms, deliveries } => {
                let pending = Pending { id: id_of(id), consumer: 0, delivered_ms, deliveries };
                if self.pending.last().is_some_and(|(last, _)| last.id >= pending.id) {
                    return Err("what is pending is not in order".into());
                }
                self.pending.push((pending, false));
                Ok(())
            }
            Item::Consumer { name, seen_ms, active_ms } => {
                if self.draft.view(txn).consumer(self.group, name)?.is_some() {
                    return Err(TWICE.into());
                }
                let mut consumer = self.draft.create_consumer(txn, self.group, name, seen_ms)?;
                consumer.active_ms = active_ms;
                self.draft.put_consumer(txn, &consumer)?;
                self.consumer = consumer.number;
                Ok(())
            }
            Item::Owned(id) => self.add_owned(txn, id, self.consumer, None),
            Item::Released(id) => {
                self.released += 1;
                // They are claimed in this order.
                self.add_owned(txn, id, NO_CONSUMER, Some(self.released))
            }
            Item::Producer(name) => {
                if self.draft.view(txn).producer(name)?.is_some() {
                    return Err(TWICE.into());
                }
                self.producer = name.to_vec();
                Ok(())
            }
            Item::Produced { iid, id } => {
                let stream = self.draft.view(txn);
                if let Some(number) = stream.producer(&self.producer)?
                    && stream.find_produced(number, iid)?.is_some()
                {
                    return Err(TWICE.into());
                }
                Ok(self.draft.note_produced(txn, &self.producer, iid, id_of(id))?)
            }
            Item::Production(production) => self.set_production(txn, production),
            _ => Err("an element of another kind of value".into()),
        }
    }

    /// Notes which consumer owns what is pending.
    fn add_owned(&mut self, txn: &Txn<'_>, id: rdb::Id, consumer: u32, moment: Option<u64>) -> Added {
        let at = self.pending.binary_search_by_key(&id_of(id), |(pending, _)| pending.id);
        let (pending, is_owned) =
            at.ok().map(|at| &mut self.pending[at]).ok_or("a consumer owns what is not pending")?;
        if std::mem::replace(is_owned, true) {
            return Err(TWICE.into());
        }
        pending.consumer = consumer;
        pending.delivered_ms = moment.unwrap_or(pending.delivered_ms);
        Ok(self.draft.put_pending(txn, self.group, pending)?)
    }

    fn set_production(&mut self, txn: &Txn<'_>, production: rdb::Production) -> Added {
        let rdb::Production { duration_s, ids_max, added, duplicates } = production;
        let stream = self.draft.view(txn);
        if production == rdb::Production::USUAL && stream.producers_len() == 0 {
            return Ok(());
        }
        let (Ok(duration_s), Ok(ids_max)) = (u32::try_from(duration_s), u32::try_from(ids_max)) else {
            return Err("how a stream treats producers is out of range".into());
        };
        if duration_s == 0 || ids_max == 0 {
            return Err("a stream that keeps no ids of its producers".into());
        }
        self.draft.put_production(duration_s, ids_max, added, duplicates);
        Ok(())
    }

    fn add_pair(&mut self, txn: &Txn<'_>, field: &[u8], value: &[u8]) -> Added {
        self.pairs.extend([field.to_vec(), value.to_vec()]);
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return Ok(());
        }
        let pairs: Vec<&[u8]> = self.pairs.iter().map(Vec::as_slice).collect();
        self.draft.append(txn, self.id, &pairs)?;
        self.pairs.clear();
        Ok(())
    }

    /// Checks that a consumer owns each pending entry of the group.
    fn check_owners(&mut self) -> Added {
        let all = self.pending.iter().all(|(_, is_owned)| *is_owned);
        self.pending.clear();
        if all { Ok(()) } else { Err("something is pending that nobody owns".into()) }
    }

    fn finish(&mut self, txn: &Txn<'_>) -> Result<Value<'static>, Problem> {
        self.check_owners()?;
        if self.length.is_none() || self.left > 0 {
            return Err("a stream that ends too early".into());
        }
        if self.draft.is_of_redis_8_6() {
            txn.announce_stream_producers();
        }
        Ok(self.draft.value(txn)?)
    }
}
