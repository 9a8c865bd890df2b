//! Whether a stream is whole.
use polder_base::{Fault, Ref};

use super::block::BLOCK_MAX;
use super::keys::{CONSUMERS, NAMES, OWNED, PENDING, RULES};
use super::{BLOCKS, Entries, HEAD, Id, NO_CONSUMER, Schemas, Stream, block, producers};
use crate::sequence::{self, Sequence};
use crate::{Nodes, Root, Value};

fn damaged<T>(what: &'static str) -> Result<T, Fault> {
    Err(Fault::Damaged { what })
}

/// Looks at every node of a stream and shows each to `visit`: all rules at the head of `stream.rs` must hold.
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(nodes: &dyn Nodes, root: &Root, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    visit(root.refs[1]);
    let stream = Stream::of(nodes, &Value::Tree(*root))?;
    sequence::check(nodes, &stream.blocks, &BLOCKS, true, visit)?;
    for (tree, rule) in stream.head.trees.iter().zip(&RULES) {
        sequence::check(nodes, tree, rule, true, visit)?;
    }
    check_entries(&stream)?;
    check_groups(&stream)?;
    producers::check(&stream)
}

fn check_entries(stream: &Stream<'_>) -> Result<(), Fault> {
    let (schemas, mut last, mut len) = (Schemas::read(&stream.head.schemas)?, Id::MIN, 0);
    for element in Sequence::Tree(stream.blocks).iter(stream.nodes, 0) {
        let bytes = element?.bytes(stream.nodes)?;
        if bytes.len() > BLOCK_MAX && block::count(&bytes)? > 1 || bytes.len() <= HEAD {
            return damaged("a block of a stream that is too long");
        }
        for entry in Entries::of(&bytes, &schemas)? {
            let entry = entry?;
            if entry.id <= last || entry.is_empty() || entry.pairs().count() != entry.len() {
                return damaged("the order of a stream");
            }
            (last, len) = (entry.id, len + 1);
        }
    }
    if len != stream.len { damaged("the count of a stream") } else { Ok(()) }
}

fn check_groups(stream: &Stream<'_>) -> Result<(), Fault> {
    let trees = &stream.head.trees;
    let (mut consumers, mut pending, mut released) = (0, 0, 0);
    for group in stream.groups() {
        let group = group?;
        if group.number >= stream.head.next_group {
            return damaged("the number of a group");
        }
        for pending in stream.pending(group.number, Id::MIN)? {
            released += u64::from(pending?.consumer == NO_CONSUMER);
        }
        for consumer in stream.consumers(group.number)? {
            let consumer = consumer?;
            if stream.consumer_name(group.number, consumer.number)? != consumer.name
                || consumer.number >= stream.head.next_consumer
            {
                return damaged("the name of a consumer");
            }
            consumers += 1;
            for id in stream.owned(consumer.number, Id::MIN)? {
                if stream
                    .find_pending(group.number, id?)?
                    .is_none_or(|pending| pending.consumer != consumer.number)
                {
                    return damaged("what a consumer has pending");
                }
                pending += 1;
            }
        }
    }
    let told = [trees[CONSUMERS].count, trees[NAMES].count, trees[PENDING].count, trees[OWNED].count];
    if told != [consumers, consumers, pending + released, pending] {
        damaged("what the groups of a stream have")
    } else {
        Ok(())
    }
}
