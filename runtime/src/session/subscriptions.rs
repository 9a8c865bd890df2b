//! What a client has subscribed to.
use std::collections::{BTreeMap, BTreeSet};

use polder_calls::facts::Named;
use polder_hub::subject::Subject;
use polder_hub::tokens::split_name;

pub(crate) const CHANNEL: usize = Subject::Channel as usize;
pub(crate) const PATTERN: usize = Subject::Pattern as usize;
pub(crate) const SHARD: usize = Subject::Shard as usize;

/// What a client has subscribed to.
#[derive(Clone, Default)]
pub struct Subscriptions {
    pub(crate) names: [BTreeSet<Vec<u8>>; 3],
    /// What has changed by a transaction that has not committed yet: subject, name, whether it began.
    pub(crate) news: Vec<(Subject, Vec<u8>, bool)>,
    /// Subscriptions to subjects, by the client's number for each (sid): pattern and queue. One that was to end after some messages may have ended.
    pub(crate) tokens: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// News of these, as `news` has them of channels.
    pub(crate) token_news: Vec<TokenNews>,
    /// The sids of those that have begun among these news.
    pub(crate) begun: BTreeSet<Box<[u8]>>,
    /// Bytes that the subscriptions take.
    bytes: usize,
}

/// A change of a subscription to subjects by a transaction that has not committed yet: its sid, and its name.
#[derive(Clone, Debug)]
pub(crate) enum TokenNews {
    Begun(Box<[u8]>, Box<[u8]>),
    Ended(Box<[u8]>, Box<[u8]>),
    /// It ends after this number of messages.
    Limited(Box<[u8]>, Box<[u8]>, u64),
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

    /// Returns true if a transaction that has not committed yet has changed something.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.token_news.is_empty()
    }

    /// What the replies tell: shard channels are counted by themselves.
    pub(crate) fn told(&self, subject: usize) -> i64 {
        let [channels, patterns, shards] = self.counts();
        if subject == SHARD { shards as i64 } else { (channels + patterns) as i64 }
    }

    /// Returns true if all of it is allowed: by name, and what that is.
    pub(crate) fn are_all(&self, allowed: impl Fn(&[u8], Named) -> bool) -> bool {
        let named = |subject| if subject == PATTERN { Named::Pattern } else { Named::Channel };
        self.names
            .iter()
            .enumerate()
            .all(|(subject, names)| names.iter().all(|name| allowed(name, named(subject))))
            && self.tokens.values().all(|name| allowed(split_name(name).0, Named::Subject))
    }

    /// Adds a subscription to subjects.
    pub(crate) fn insert_token(&mut self, sid: &[u8], name: &[u8]) {
        self.remove_token(sid);
        self.tokens.insert(sid.into(), name.into());
        self.bytes += bytes_of(name) + 2 * sid.len();
    }

    /// Removes one; returns its name.
    pub(crate) fn remove_token(&mut self, sid: &[u8]) -> Option<Box<[u8]>> {
        let name = self.tokens.remove(sid)?;
        self.bytes -= bytes_of(&name) + 2 * sid.len();
        Some(name)
    }

    /// Returns true if there are subscriptions to subjects alone, and no transaction is changing them.
    pub(crate) fn are_subjects(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty) && !self.has_news()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
            && self.news.is_empty()
            && self.tokens.is_empty()
            && self.token_news.is_empty()
    }
}
