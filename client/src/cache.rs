//! Replies that are kept on the client's side while the server says that their keys are unchanged (CLIENT TRACKING).
//!
//! ```text
//!   cached().call ----> absent: one flight for all who ask ----> link ----> reply ----> Kept
//!                       flying: wait for the same reply                       |
//!                       kept: ready at once            invalidation push -----+----> absent; a flight's reply is given out, not kept
//! ```
//!
//! Invariants:
//! 1. **K1** A reply is kept, and a key is dropped, by the thread that reads the connection, in the order in which the server
//!    sent them. So a change that the server made after a read drops what that read has kept.
//! 2. **K2** A flight whose key is invalidated before its reply has come is *doomed*: its reply may be older than the change.
//! 3. **K3** Nothing is kept over a break of the connection: the server forgets what it tracked for it.
//! 4. **K4** At most `bytes_max` are kept; what was kept longest goes first.
//!
//! Redis's invalidations name a key without its database, so they drop it in all of them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use polder_wire::resp::Value;

use crate::due::Due;
use crate::slot::{Outcome, Slot};

/// Which keys the server tracks for this connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Tracking {
    /// All keys that calls of this connection read.
    #[default]
    Default,
    /// Only those that `cached()` reads: the server's table stays small where most reads are not cached.
    OptIn,
    /// Nothing is remembered for this connection: the server tells of all changes of keys with these prefixes, or of all
    /// changes if there are none.
    Broadcast(Vec<Vec<u8>>),
}

/// How much a client keeps, and how it learns of changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheOptions {
    pub bytes_max: usize,
    pub tracking: Tracking,
}

/// A call that waits for a flight, and its own deadline.
type Waiting = (Arc<Slot>, Option<Due>);

/// A call that has waited too long for a flight, and the deadline that passed.
type LateCall = (Arc<Slot>, Due);

/// A request in a database.
type Question = (u32, Box<[u8]>);

enum Entry {
    Flying { waiting: Vec<Waiting>, doomed: bool },
    Kept { value: Value, bytes: usize, number: u64 },
}

#[derive(Default)]
struct State {
    /// Whether the connection is up and tracks.
    is_on: bool,
    entries: HashMap<Question, Entry>,
    /// The questions that were asked of each key.
    by_key: HashMap<Box<[u8]>, HashSet<Question>>,
    /// What is kept, oldest first; a number that its entry no longer has is stale.
    age: VecDeque<(Question, Box<[u8]>, u64)>,
    bytes: usize,
    next: u64,
    hits: u64,
    misses: u64,
}

/// Figures of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    pub entries: usize,
    /// About how much memory the kept replies take.
    pub bytes: usize,
}

impl CacheStats {
    /// The sums of two caches' figures.
    pub(crate) fn and(self, other: CacheStats) -> CacheStats {
        CacheStats {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
        }
    }
}

pub(crate) struct Cache {
    pub options: CacheOptions,
    state: Mutex<State>,
}

/// What a question finds.
pub(crate) enum Found {
    /// The reply is kept.
    Kept(Value),
    /// The same question is on its way: the slot gets its reply.
    Waiting,
    /// The question was not asked before: the caller sends the call, and its reply goes to this target.
    Ask(Filling),
    /// The connection does not track: the call is sent as any other.
    Off,
}

/// Where the reply of the one flight of a question goes.
pub(crate) struct Filling {
    cache: Arc<Cache>,
    question: Question,
    key: Box<[u8]>,
}

impl Cache {
    pub(crate) fn new(options: CacheOptions) -> Cache {
        Cache { options, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a question up; `slot` waits for the reply, until its own deadline, if there is none yet and the caller `shares` a
    /// flight with others. Those who share have the same timeout, so a flight's deadlines pass in the order of asking.
    pub(crate) fn ask(
        self: &Arc<Self>,
        db: u32,
        request: &[u8],
        key: &[u8],
        slot: &Arc<Slot>,
        due: Option<Due>,
        shares: bool,
    ) -> Found {
        let mut state = self.lock();
        if !state.is_on {
            return Found::Off;
        }
        let question: Question = (db, request.into());
        match state.entries.get_mut(&question) {
            Some(Entry::Kept { value, .. }) => {
                let value = value.clone();
                state.hits += 1;
                return Found::Kept(value);
            }
            // A doomed flight may bring an old reply: who asks now, asks anew.
            Some(Entry::Flying { waiting, doomed: false }) if shares => {
                waiting.push((Arc::clone(slot), due));
                state.hits += 1;
                return Found::Waiting;
            }
            Some(Entry::Flying { .. }) => {
                state.misses += 1;
                return Found::Off;
            }
            None if !shares => {
                state.misses += 1;
                return Found::Off;
            }
            None => {}
        }
        state.misses += 1;
        state.entries.insert(
            question.clone(),
            Entry::Flying { waiting: vec![(Arc::clone(slot), due)], doomed: false },
        );
        state.by_key.entry(key.into()).or_default().insert(question.clone());
        Found::Ask(Filling { cache: Arc::clone(self), question, key: key.into() })
    }

    /// The connection has logged in and tracks.
    pub(crate) fn switch_on(&self) {
        self.lock().is_on = true;
    }

    /// The connection broke (K3).
    pub(crate) fn switch_off(&self) {
        let mut state = self.lock();
        state.is_on = false;
        state.drop_all();
    }

    /// An invalidation: of these keys, or of all.
    pub(crate) fn invalidate(&self, keys: Value) {
        let mut state = self.lock();
        match keys {
            Value::Array(keys) => {
                for key in keys {
                    if let Value::Bulk(key) = key {
                        state.drop_key(&key);
                    }
                }
            }
            _ => state.drop_all(),
        }
    }

    /// A call of this client is about to change keys, which may be any of its words. Some servers reply before they push the
    /// invalidation; a program that has its reply must not read what it has just replaced.
    pub(crate) fn write<'w>(&self, words: impl Iterator<Item = &'w [u8]>) {
        let mut state = self.lock();
        if !state.by_key.is_empty() {
            words.for_each(|word| state.drop_key(word));
        }
    }

    /// As [`Cache::write`], where the keys are not known.
    pub(crate) fn write_all(&self) {
        self.lock().drop_all();
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let state = self.lock();
        let entries = state.entries.values().filter(|entry| matches!(entry, Entry::Kept { .. })).count();
        CacheStats { hits: state.hits, misses: state.misses, entries, bytes: state.bytes }
    }
}

impl State {
    fn drop_key(&mut self, key: &[u8]) {
        let Some(questions) = self.by_key.get_mut(key) else { return };
        let (entries, bytes) = (&mut self.entries, &mut self.bytes);
        questions.retain(|question| match entries.get_mut(question) {
            Some(Entry::Flying { doomed, .. }) => {
                *doomed = true;
                true
            }
            Some(Entry::Kept { bytes: had, .. }) => {
                *bytes -= *had;
                entries.remove(question);
                false
            }
            None => false,
        });
        if questions.is_empty() {
            self.by_key.remove(key);
        }
    }

    fn drop_all(&mut self) {
        let keys: Vec<Box<[u8]>> = self.by_key.keys().cloned().collect();
        keys.iter().for_each(|key| self.drop_key(key));
        self.age.clear();
    }

    fn forget(&mut self, question: &Question, key: &[u8]) -> Option<Entry> {
        if let Some(questions) = self.by_key.get_mut(key) {
            questions.remove(question);
            if questions.is_empty() {
                self.by_key.remove(key);
            }
        }
        self.entries.remove(question)
    }

    /// Makes room for what is kept newest (K4), and takes stale places off the list of ages.
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max || self.age.len() > 2 * self.entries.len() + 64 {
            let Some((question, key, number)) = self.age.pop_front() else { return };
            match self.entries.get(&question) {
                Some(Entry::Kept { bytes, number: now, .. }) if *now == number => {
                    if self.bytes > bytes_max {
                        self.bytes -= *bytes;
                        self.forget(&question, &key);
                    } else {
                        self.age.push_back((question, key, number));
                    }
                }
                _ => {}
            }
        }
    }
}

impl Filling {
    /// The reply will come from another server, which tells this cache of no change: it is given out and not kept.
    pub(crate) fn doom(&self) {
        self.cache.lock().drop_key(&self.key);
    }

    /// The reply, in the order of the connection (K1).
    pub(crate) fn complete(self, outcome: &Outcome) -> Vec<Arc<Slot>> {
        let mut state = self.cache.lock();
        let Some(Entry::Flying { waiting, doomed }) = state.forget(&self.question, &self.key) else {
            return Vec::new();
        };
        if let Ok(value) = outcome
            && !doomed
            && state.is_on
        {
            let bytes = weight(value) + self.question.1.len() + 2 * self.key.len() + 200;
            if bytes <= self.cache.options.bytes_max / 8 {
                let number = state.next;
                state.next += 1;
                state.bytes += bytes;
                state
                    .entries
                    .insert(self.question.clone(), Entry::Kept { value: value.clone(), bytes, number });
                state.by_key.entry(self.key.clone()).or_default().insert(self.question.clone());
                state.age.push_back((self.question.clone(), self.key.clone(), number));
                let bytes_max = self.cache.options.bytes_max;
                state.shrink(bytes_max);
            }
        }
        waiting.into_iter().map(|(slot, _)| slot).collect()
    }

    /// Takes those whose deadline has passed, and returns the next deadline and whether any are left. If none are, the flight is
    /// forgotten: its reply is read and thrown away, and the question is asked anew.
    pub(crate) fn take_late(&self, now: Instant) -> (Vec<LateCall>, Option<Due>, bool) {
        let mut state = self.cache.lock();
        let Some(Entry::Flying { waiting, .. }) = state.entries.get_mut(&self.question) else {
            return (Vec::new(), None, false);
        };
        let (mut late, mut next) = (Vec::new(), None::<Due>);
        waiting.retain(|(slot, due)| match due {
            Some(due) if due.at <= now => {
                late.push((Arc::clone(slot), *due));
                false
            }
            Some(due) => {
                next = next.filter(|next| next.at <= due.at).or(Some(*due));
                true
            }
            None => true,
        });
        let are_left = !waiting.is_empty();
        if !are_left {
            state.forget(&self.question, &self.key);
        }
        (late, next, are_left)
    }
}

/// About how much memory a reply takes.
fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::Status(text)
        | Value::Error(text)
        | Value::Bulk(text)
        | Value::Double(text)
        | Value::BigNumber(text) => text.len(),
        Value::Verbatim { text, .. } => text.len(),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => items.iter().map(weight).sum(),
        Value::Map(pairs) => pairs.iter().map(|(key, value)| weight(key) + weight(value)).sum(),
        Value::Attributed { value, .. } => weight(value),
        Value::Integer(_) | Value::Null | Value::Boolean(_) => 0,
    };
    size_of::<Value>() + inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(bytes_max: usize) -> Arc<Cache> {
        let cache = Arc::new(Cache::new(CacheOptions { bytes_max, tracking: Tracking::Default }));
        cache.switch_on();
        cache
    }

    fn ask(cache: &Arc<Cache>, key: &str) -> Found {
        cache.ask(0, key.as_bytes(), key.as_bytes(), &Arc::default(), None, true)
    }

    fn fill(cache: &Arc<Cache>, key: &str) -> usize {
        let Found::Ask(filling) = ask(cache, key) else { panic!("{key} is there") };
        filling.complete(&Ok(Value::Bulk(key.into()))).len()
    }

    fn is_kept(cache: &Arc<Cache>, key: &str) -> bool {
        matches!(ask(cache, key), Found::Kept(value) if value == Value::Bulk(key.into()))
    }

    #[test]
    fn a_reply_is_kept_until_its_key_is_invalidated() {
        let cache = cache(1 << 20);
        assert_eq!(fill(&cache, "a"), 1);
        assert_eq!(fill(&cache, "b"), 1);
        assert!(is_kept(&cache, "a") && is_kept(&cache, "b"));
        cache.invalidate(Value::Array(vec![Value::Bulk("a".into())]));
        assert!(matches!(ask(&cache, "a"), Found::Ask(_)) && is_kept(&cache, "b"));
        cache.invalidate(Value::Null);
        assert!(matches!(ask(&cache, "b"), Found::Ask(_)));
    }

    #[test]
    fn calls_made_meanwhile_share_one_flight() {
        let cache = cache(1 << 20);
        let Found::Ask(filling) = ask(&cache, "a") else { panic!("asked for the first time") };
        assert!(matches!(ask(&cache, "a"), Found::Waiting));
        assert_eq!(filling.complete(&Ok(Value::Integer(1))).len(), 2);
    }

    #[test]
    fn a_reply_that_may_be_older_than_a_change_is_not_kept() {
        let cache = cache(1 << 20);
        let Found::Ask(filling) = ask(&cache, "a") else { panic!("asked for the first time") };
        cache.invalidate(Value::Array(vec![Value::Bulk("a".into())]));
        assert!(matches!(ask(&cache, "a"), Found::Off), "no call joins a doomed flight");
        assert_eq!(filling.complete(&Ok(Value::Integer(1))).len(), 1);
        assert!(matches!(ask(&cache, "a"), Found::Ask(_)));
    }

    #[test]
    fn nothing_is_kept_over_a_break() {
        let cache = cache(1 << 20);
        fill(&cache, "a");
        let Found::Ask(filling) = ask(&cache, "b") else { panic!("asked for the first time") };
        cache.switch_off();
        assert!(matches!(ask(&cache, "a"), Found::Off));
        cache.switch_on();
        filling.complete(&Ok(Value::Integer(1)));
        assert!(matches!(ask(&cache, "a"), Found::Ask(_)));
        assert!(matches!(ask(&cache, "b"), Found::Ask(_)));
    }

    #[test]
    fn calls_that_share_a_flight_keep_their_own_deadlines() {
        let cache = cache(1 << 20);
        let made = Instant::now();
        let due = |millis| Some(Due { made, at: made + std::time::Duration::from_millis(millis) });
        let (first, second) = (Arc::<Slot>::default(), Arc::<Slot>::default());
        let Found::Ask(filling) = cache.ask(0, b"a", b"a", &first, due(50), true) else {
            panic!("asked for the first time")
        };
        assert!(matches!(cache.ask(0, b"a", b"a", &second, due(90), true), Found::Waiting));
        let traits = crate::traits::Traits::SINGLE;
        let mut call = crate::queue::Queued {
            end: 0,
            target: crate::target::Target::Cache(Box::new(filling)),
            due: due(50),
            traits,
            selects: false,
        };
        let late = |call: &mut crate::queue::Queued, millis| {
            let late = call.take_late(made + std::time::Duration::from_millis(millis));
            late.map(|(_, due)| due.at.duration_since(made).as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(late(&mut call, 60), [50], "only the first is late");
        assert!(call.target.is_wanted(), "the flight goes on for the second");
        assert_eq!(late(&mut call, 100), [90]);
        assert!(!call.target.is_wanted());
        assert!(matches!(ask(&cache, "a"), Found::Ask(_)), "the question is asked anew");
    }

    #[test]
    fn what_was_kept_longest_makes_room() {
        let cache = cache(4096);
        for n in 0..100 {
            fill(&cache, &format!("key:{n}"));
        }
        let stats = cache.stats();
        assert!(stats.bytes <= 4096 && stats.entries > 8, "{stats:?}");
        assert!(is_kept(&cache, "key:99") && !is_kept(&cache, "key:0"));
        let state = cache.lock();
        assert!(state.age.len() <= 2 * state.entries.len() + 64);
    }
}
