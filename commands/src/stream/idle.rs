//! XREADGROUP with CLAIM: entries that have been pending for long enough are claimed before new ones are read.
//!
//! The entry that was delivered the longest time ago comes first; of those delivered in the same millisecond, the one with
//! the least id. What was given back (XNACK) comes before all others, in the order in which that was done. An entry that is not in the stream any more stays pending and is passed over.
//!
//! They are looked for among all that a group has pending, in time that grows with its number: only two trees, by id and by
//! consumer, say what is pending (X3), so that a delivery and XACK change no third one.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use polder_base::Reply;
use polder_table::Stop;
use polder_values::stream::{Consumer, Draft, Entry, Group, Id, NO_CONSUMER, Pending, Range, Stream};

use super::pending::tell_pending;
use super::{reply_id, reply_pairs};
use polder_calls::call::{Call, Outcome};

/// Pending entries of a group that a call may claim.
#[derive(Default)]
pub(super) struct Idle {
    /// In the order in which they are claimed.
    pub claimed: Vec<Pending>,
    /// The moment at which another entry will have been pending for long enough.
    pub next_ms: Option<u64>,
}

impl Idle {
    /// Finds what has been pending for at least `idle_ms`, as many as `limit` of them.
    pub fn find(
        call: &Call<'_>,
        stream: &Stream<'_>,
        group: u32,
        idle_ms: u64,
        limit: u64,
    ) -> Result<Idle, Stop> {
        let now_ms = call.txn.now_ms();
        let (mut due, mut next_ms) = (Vec::new(), None);
        for pending in stream.pending(group, Id::MIN)? {
            let pending = pending?;
            match pending.delivered_ms.saturating_add(idle_ms) {
                _ if pending.consumer == NO_CONSUMER => {
                    due.push(Reverse((false, pending.delivered_ms, pending.id)));
                }
                then if then <= now_ms => due.push(Reverse((true, pending.delivered_ms, pending.id))),
                then => next_ms = next_ms.into_iter().chain([then]).min(),
            }
        }
        let (mut due, mut claimed) = (BinaryHeap::from(due), Vec::new());
        while (claimed.len() as u64) < limit
            && let Some(Reverse((.., id))) = due.pop()
        {
            if stream.get(id, &mut |_| {})? {
                claimed.push(stream.pending_of(group, id)?);
            }
        }
        Ok(Idle { claimed, next_ms })
    }

    /// Makes them the consumer's own.
    pub fn take(
        &self,
        call: &Call<'_>,
        key: &[u8],
        draft: &mut Draft<'_>,
        group: &Group<'_>,
        consumer: &Consumer<'_>,
    ) -> Outcome {
        for old in &self.claimed {
            let pending = Pending {
                consumer: consumer.number,
                delivered_ms: call.txn.now_ms(),
                deliveries: old.next_deliveries(),
                ..*old
            };
            tell_pending(call, key, group, consumer, &pending);
            draft.put_pending(call.txn, group.number, &pending)?;
        }
        Ok(())
    }

    /// Replies with each of them: for how long it had been pending, and how often it had been delivered.
    pub fn reply(&self, call: &mut Call<'_>, stream: &Stream<'_>) -> Outcome {
        let now_ms = call.txn.now_ms() as i64;
        for old in &self.claimed {
            let idle_ms = now_ms.saturating_sub(old.last_ms() as i64).max(0);
            // It was there a moment ago.
            stream.get(old.id, &mut |entry| {
                reply_delivered(call.reply, entry, (idle_ms, old.deliveries as i64));
            })?;
        }
        Ok(())
    }
}

/// Replies with an entry, and with how it was delivered before: how long ago, and how often.
fn reply_delivered(reply: &mut dyn Reply, entry: &Entry<'_>, (idle_ms, deliveries): (i64, i64)) {
    reply.array(4);
    reply_id(reply, entry.id);
    reply_pairs(reply, entry);
    reply.integer(idle_ms);
    reply.integer(deliveries);
}

/// Replies with an entry that was never delivered, beside those that were.
pub(super) fn reply_fresh(reply: &mut dyn Reply, entry: &Entry<'_>) {
    reply_delivered(reply, entry, (0, 0));
}

/// The rest of each stream of a call, where one may be named more than once.
#[derive(Default)]
pub(super) struct Left<'c> {
    streams: HashMap<&'c [u8], (Id, u64)>,
}

/// A call's way through each of its streams.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub limit: u64,
    pub claim_ms: Option<u64>,
    pub no_ack: bool,
}

impl<'c> Left<'c> {
    /// The rest of a stream: the last id that its group has read, and how many entries may be claimed.
    pub fn of(&self, key: &[u8]) -> Option<(Id, u64)> {
        self.streams.get(key).copied()
    }

    /// Notes that a stream is served, of which that much is left.
    pub fn serve(
        &mut self,
        key: &'c [u8],
        stream: &Stream<'_>,
        (last, claimable): (Id, u64),
        reading: Reading,
    ) -> Outcome {
        let claimed = claimable.min(reading.limit);
        let (reached, fresh) = reach(stream, last, reading.limit - claimed)?;
        let claimable = match reading.claim_ms {
            // They may be claimed again at once.
            Some(0) if reading.no_ack => claimable,
            Some(0) => claimable + fresh,
            _ => claimable - claimed,
        };
        self.streams.insert(key, (reached, claimable));
        Ok(())
    }
}

/// The last id that a delivery of `limit` entries reaches, and how many there are.
fn reach(stream: &Stream<'_>, last: Id, limit: u64) -> Result<(Id, u64), Stop> {
    let (mut reached, mut count) = (last, 0);
    match last.next() {
        Some(start) if limit == u64::MAX => {
            count = stream.count(&Range { start, ..Range::ALL })?;
            reached = stream.last()?.unwrap_or(last);
        }
        Some(start) => stream.walk(&Range { start, limit, ..Range::ALL }, &mut |entry| {
            (reached, count) = (entry.id, count + 1);
        })?,
        None => {}
    }
    Ok((reached, count))
}
