//! What a client has subscribed to.
use std::collections::BTreeSet;

use polder_hub::subject::Subject;

pub(crate) const CHANNEL: usize = Subject::Channel as usize;
pub(crate) const PATTERN: usize = Subject::Pattern as usize;
pub(crate) const SHARD: usize = Subject::Shard as usize;

/// What a client has subscribed to.
#[derive(Clone, Default)]
pub struct Subscriptions {
    pub(crate) names: [BTreeSet<Vec<u8>>; 3],
    /// What has changed by a transaction that has not committed yet: subject, name, whether it began.
    pub(crate) news: Vec<(Subject, Vec<u8>, bool)>,
    /// Bytes that the subscriptions take.
    bytes: usize,
}

/// What a subscription takes beside its name, which stands here, in the thread's list and in the segment.
const SUBSCRIPTION_BYTES: usize = 256;

fn bytes_of(name: &[u8]) -> usize {
    SUBSCRIPTION_BYTES + 3 * name.len()
}

impl Subscriptions {
    /// How many channels, patterns and shard channels.
    pub fn counts(&self) -> [usize; 3] {
        [CHANNEL, PATTERN, SHARD].map(|subject| self.names[subject].len())
    }

    /// Bytes that the subscriptions take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a name. Returns whether it is new.
    pub(crate) fn insert(&mut self, subject: usize, name: &[u8]) -> bool {
        let is_new = !self.names[subject].contains(name) && self.names[subject].insert(name.to_vec());
        self.bytes += if is_new { bytes_of(name) } else { 0 };
        is_new
    }

    /// Removes a name. Returns whether it was there.
    pub(crate) fn remove(&mut self, subject: usize, name: &[u8]) -> bool {
        let was_there = self.names[subject].remove(name);
        self.bytes -= if was_there { bytes_of(name) } else { 0 };
        was_there
    }

    /// What the replies tell: shard channels are counted by themselves.
    pub(crate) fn told(&self, subject: usize) -> i64 {
        let [channels, patterns, shards] = self.counts();
        if subject == SHARD { shards as i64 } else { (channels + patterns) as i64 }
    }

    /// Whether all of it is allowed: by name, and whether that is a pattern.
    pub(crate) fn are_all(&self, allowed: impl Fn(&[u8], bool) -> bool) -> bool {
        self.names
            .iter()
            .enumerate()
            .all(|(subject, names)| names.iter().all(|name| allowed(name, subject == PATTERN)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty) && self.news.is_empty()
    }
}
