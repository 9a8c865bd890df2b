//! Values on their way out: what lies in nodes, told to a [`ValueWriter`].
use polder_values::array::{Array, INDEX_MAX};
use polder_values::hash::Hash;
use polder_values::sequence::Sequence;
use polder_values::sorted_set::SortedSet;
use polder_values::stream::{Group, NO_CONSUMER, Range, Stream};
use polder_values::{Nodes, Value, list, stream, string};
use polder_wire::rdb::{self, ListPlan, Production, StreamFacts, StreamNeeds, StreamPlan};
use polder_wire::rebuild::ValueWriter;

use polder_calls::call::Outcome;

/// What is said of a hash that the version asked for cannot hold.
/// The refusal of a hash whose fields expire.
pub const LOST_EXPIRIES: &str = "ERR rdb-version 10 and 11 cannot hold the expiries of a hash's fields: choose another, or set rdb-drop-field-expiries to yes";

/// The refusal of an array.
pub const LOST_ARRAY: &str = "ERR rdb-version 10 to 13 and 80 cannot hold arrays: choose 14 or lowest";

/// A string longer than this, in bytes, is written in pieces and not compressed.
const WHOLE_MAX: u64 = 16 << 20;

/// Tells the writer a value of one type, whose key it knows already.
pub(crate) type Encode = fn(&mut dyn ValueWriter, &Source<'_>, &Value<'_>, Drain<'_>) -> Outcome;

/// Called between elements, to empty the writer's buffer.
pub type Drain<'d> = &'d mut dyn FnMut(&mut dyn ValueWriter) -> Outcome;

/// Where a value's nodes are, and by which time parts of it have expired.
pub struct Source<'n> {
    pub nodes: &'n dyn Nodes,
    pub now_ms: u64,
    /// Expiries of fields are left out where the version cannot hold them.
    pub drops_expiries: bool,
}

pub(crate) fn encode_string(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    let nodes = source.nodes;
    let len = string::len(value);
    if len <= WHOLE_MAX {
        writer.text(&string::contiguous(nodes, value)?);
        return Ok(());
    }
    writer.begin_text(len);
    for piece in string::pieces(nodes, *value, 0, len) {
        writer.piece(piece?.bytes());
        drain(writer)?;
    }
    Ok(())
}

/// Fields that have expired are left out: their number is told first.
pub(crate) fn encode_hash(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    let Source { nodes, now_ms, drops_expiries } = *source;
    let hash = Hash::of(value);
    let mut least = None;
    if hash.first_expiry(nodes)?.is_some() {
        if !writer.holds_field_expiries() && !drops_expiries {
            return Err(LOST_EXPIRIES.into());
        }
        for field in hash.iter(nodes, 0) {
            let expiry_ms = field?.expiry_ms().filter(|expiry_ms| *expiry_ms > now_ms);
            least = least.into_iter().chain(expiry_ms).min();
        }
    }
    writer.begin_hash(hash.len(nodes, || now_ms)?, least.filter(|_| writer.holds_field_expiries()));
    for field in hash.iter(nodes, 0) {
        let field = field?;
        if field.lives(|| now_ms) {
            writer.field(&field.name().bytes(nodes)?, &field.value().bytes(nodes)?, field.expiry_ms());
            drain(writer)?;
        }
    }
    Ok(())
}

pub(crate) fn encode_list(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    let nodes = source.nodes;
    let (elements, mut plan) = (list::sequence(value), ListPlan::default());
    for element in elements.iter(nodes, 0) {
        plan.add(&element?.bytes(nodes)?);
    }
    writer.begin_list(plan.nodes());
    for element in elements.iter(nodes, 0) {
        writer.element(&element?.bytes(nodes)?);
        drain(writer)?;
    }
    Ok(())
}

pub(crate) fn encode_set(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    let nodes = source.nodes;
    let members = Sequence::of(value);
    writer.begin_set(members.count()?);
    for member in members.iter(nodes, 0) {
        writer.member(&member?.bytes(nodes)?);
        drain(writer)?;
    }
    Ok(())
}

pub(crate) fn encode_sorted_set(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    let nodes = source.nodes;
    let set = SortedSet::of(value);
    writer.begin_sorted_set(set.count()?);
    for entry in set.iter(nodes, 0) {
        let entry = entry?;
        let text = Some(entry.text()).filter(|text| !text.is_empty());
        writer.scored(entry.member(), entry.value(), text.map(str::as_bytes));
        drain(writer)?;
    }
    Ok(())
}

pub(crate) fn encode_stream(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    let nodes = source.nodes;
    let stream = Stream::of(nodes, value)?;
    let mut plan = StreamPlan::default();
    stream.walk(&Range::ALL, &mut |entry| {
        plan.add(entry.pairs().map(|(field, value)| field.len() + value.len()).sum());
    })?;
    let production = stream.production();
    let needs = StreamNeeds { production: production.is_some(), released: stream.has_released() };
    writer.begin_stream(plan.nodes(), needs);
    let mut drained = Ok(());
    stream.walk(&Range::ALL, &mut |entry| {
        if drained.is_ok() {
            let pairs: Vec<(&[u8], &[u8])> = entry.pairs().collect();
            writer.entry(id(entry.id), &pairs);
            drained = drain(writer);
        }
    })?;
    drained?;
    let facts = StreamFacts {
        length: stream.len(),
        last: id(stream.last_given()?),
        first: Some(stream.first()?.map(id).unwrap_or_default()),
        deleted: id(stream.max_deleted()),
        added: stream.added(),
    };
    writer.facts(&facts, stream.groups_len());
    for group in stream.groups() {
        encode_group(writer, &stream, &group?, drain)?;
    }
    encode_producers(writer, &stream, drain)
}

fn encode_group(
    writer: &mut dyn ValueWriter,
    stream: &Stream<'_>,
    group: &Group<'_>,
    drain: Drain<'_>,
) -> Outcome {
    let mut released = Vec::new();
    writer.group(&group.name, id(group.last), group.read, stream.pending_len(group.number)?);
    for pending in stream.pending(group.number, stream::Id::MIN)? {
        let pending = pending?;
        if pending.consumer == NO_CONSUMER {
            released.push((pending.delivered_ms, pending.id));
        }
        writer.pending(id(pending.id), pending.last_ms(), pending.deliveries);
        drain(writer)?;
    }
    // In the order in which they were given back.
    released.sort_unstable();
    let count = released.len() as u64;
    let (mut lacks_owner, consumers) =
        (!writer.holds_released() && count > 0, stream.consumers_len(group.number)?);
    let adds_owner = lacks_owner && stream.consumer(group.number, b"")?.is_none();
    writer.consumers(consumers + u64::from(adds_owner));
    if adds_owner {
        writer.consumer(b"", 0, None, count);
        released.iter().for_each(|(_, own)| writer.owned(id(*own)));
        lacks_owner = false;
    }
    for consumer in stream.consumers(group.number)? {
        let consumer = consumer?;
        let more = lacks_owner && consumer.name.is_empty();
        let owned = stream.owned_len(consumer.number)? + if more { count } else { 0 };
        writer.consumer(&consumer.name, consumer.seen_ms, consumer.active_ms, owned);
        for own in stream.owned(consumer.number, stream::Id::MIN)? {
            writer.owned(id(own?));
            drain(writer)?;
        }
        if more {
            released.iter().for_each(|(_, own)| writer.owned(id(*own)));
        }
    }
    if writer.holds_released() {
        writer.released(count);
        released.iter().for_each(|(_, own)| writer.owned(id(*own)));
    }
    drain(writer)
}

pub(crate) fn encode_array(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    if !writer.holds_arrays() {
        return Err(LOST_ARRAY.into());
    }
    let (nodes, array) = (source.nodes, Array::of(value));
    writer.begin_array(array.count()?, array.cursor(nodes)?);
    for item in array.items(nodes, 0, INDEX_MAX)? {
        let item = item?;
        writer.indexed(item.index, &item.value.bytes(nodes)?);
        drain(writer)?;
    }
    Ok(())
}

/// Entries whose producers' ids are over are told as well: only the clock says that they are.
fn encode_producers(writer: &mut dyn ValueWriter, stream: &Stream<'_>, drain: Drain<'_>) -> Outcome {
    let told = match stream.production() {
        Some(production) => Production {
            duration_s: production.duration_s.into(),
            ids_max: production.ids_max.into(),
            added: production.added,
            duplicates: production.duplicates,
        },
        // The form that holds entries that were given back says something of producers as well.
        None if stream.has_released() => Production::USUAL,
        None => return Ok(()),
    };
    writer.production(&told, stream.producers_len());
    for producer in stream.producers() {
        let producer = producer?;
        writer.producer(&producer.name, stream.produced_len(producer.number, stream::Id::MIN)?);
        for produced in stream.produced(producer.number, stream::Id::MIN)? {
            let produced = produced?;
            writer.produced(&produced.iid, id(produced.id));
            drain(writer)?;
        }
    }
    writer.end_production(&told);
    Ok(())
}

fn id(id: stream::Id) -> rdb::Id {
    rdb::Id { ms: id.ms, sequence: id.seq }
}
