//! One process of the crash test: writes, checks what it reads, and never expects to end in peace.
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polder_shm::crash::Delays;

use super::GROUP_KEYS;
use super::ears::Ear;
use super::journal::{Deed, History, Intent, Journal};
use super::ledgers::{ledger_sequence, words};
use super::tokens::Tokens;
use super::value::{self, Stamp};
use crate::answer::Answer;
use crate::random::Random;
use crate::way::Way;

/// The process's state.
pub struct Actor {
    pub(super) way: Way,
    journal: Journal,
    pub(super) tokens: Tokens,
    delays: Delays,
    pub(super) random: Random,
    pub(super) id: u32,
    /// What makes names that no predecessor has used.
    pub(super) nonce: u64,
    pub(super) next_token: u64,
    pub(super) waiter: Option<Ear>,
    pub(super) listener: Option<Ear>,
    pub(super) reader: Option<Ear>,
    /// It has loaded the library, which no actor removes.
    pub(super) has_library: bool,
    sequence: u64,
    stall_max: Duration,
}

/// The journal of an actor and its predecessors.
pub fn journal_of(folder: &Path, id: u32) -> PathBuf {
    folder.join(format!("journal-{id}"))
}

/// The file of tokens of an actor and its predecessors.
pub fn tokens_of(folder: &Path, id: u32) -> PathBuf {
    folder.join(format!("tokens-{id}"))
}

impl Actor {
    /// Goes the way to `place` ([`Way::to`]), takes over the journal of the last actor with this
    /// id, and checks what it says.
    ///
    /// # Errors
    /// What was lost or torn, or why there is no memory.
    pub fn start(
        place: &str,
        folder: &Path,
        id: u32,
        stall_max: Duration,
        seed: u64,
    ) -> Result<Actor, String> {
        let mut way = Way::to(place)?;
        let said = |error: io::Error| error.to_string();
        let journal = journal_of(folder, id);
        let history = History::read(&journal).map_err(said)?;
        check_history(&mut way, id, &history)?;
        Ok(Actor {
            way,
            journal: Journal::succeed(&journal, &history).map_err(said)?,
            tokens: Tokens::open(&tokens_of(folder, id)).map_err(said)?,
            delays: Delays::open().map_err(said)?,
            random: Random::new(seed),
            id,
            nonce: seed % 1_000_000_000,
            next_token: 0,
            waiter: None,
            listener: None,
            reader: None,
            has_library: false,
            sequence: history.sequence,
            stall_max,
        })
    }

    pub(super) fn stamp(&mut self) -> Stamp {
        self.sequence += 1;
        Stamp { writer: self.id, sequence: self.sequence }
    }

    /// Intent, deed, acknowledgement. Without a reply the server has gone, and it is not known
    /// whether the deed happened.
    pub(super) fn deed(&mut self, deed: Deed, target: u32, args: &[&[u8]]) -> Result<Option<Answer>, String> {
        self.intend(deed, target)?;
        let answer = self.timed(args)?;
        self.acknowledge(answer)
    }

    /// As [`Actor::deed`], of several commands in one transaction.
    pub(super) fn deed_together(&mut self, deed: Deed, target: u32, lines: &[String]) -> Result<(), String> {
        self.intend(deed, target)?;
        let answer = self.timed_together(lines)?;
        self.acknowledge(answer).map(drop)
    }

    pub(super) fn intend(&mut self, deed: Deed, target: u32) -> Result<(), String> {
        self.journal
            .intend(Intent { deed, target, sequence: self.sequence })
            .map_err(|error| error.to_string())
    }

    pub(super) fn acknowledge(&mut self, answer: Option<Answer>) -> Result<Option<Answer>, String> {
        if answer.is_some() {
            self.journal.acknowledge().map_err(|error| error.to_string())?;
        }
        Ok(answer)
    }

    /// Runs a command, and fails if it stood still for too long or replied an error.
    pub(super) fn timed(&mut self, args: &[impl AsRef<[u8]>]) -> Result<Option<Answer>, String> {
        let name = || format!("{} {}", shown(args.first()), shown(args.get(1)));
        self.watched(|way| way.call(args), name)
    }

    /// As [`Actor::timed`], with several commands in one transaction.
    pub(super) fn timed_together(&mut self, lines: &[String]) -> Result<Option<Answer>, String> {
        let split: Vec<Vec<String>> = lines.iter().map(words).collect();
        self.watched(|way| way.call_together(&split), || lines.join("; "))
    }

    fn watched(
        &mut self,
        call: impl FnOnce(&mut Way) -> Result<Option<Answer>, String>,
        name: impl Fn() -> String,
    ) -> Result<Option<Answer>, String> {
        let (started, waited, ticks) = (Instant::now(), self.delays.waited(), ticks());
        let answer = call(&mut self.way)?;
        let stalled = started
            .elapsed()
            .saturating_sub(self.delays.waited().saturating_sub(waited))
            .min(TICK * (self::ticks() - ticks + 1));
        if stalled > self.stall_max {
            return Err(format!("{} stood still for {} ms", name(), stalled.as_millis()));
        }
        let is_error = |answer: &Answer| match answer {
            Answer::Error(_) => true,
            Answer::Array(items) => items.iter().any(|item| matches!(item, Answer::Error(_))),
            _ => false,
        };
        match answer {
            Some(answer) if is_error(&answer) => Err(format!("{}: {}", name(), answer.shown())),
            answer => Ok(answer),
        }
    }
}

pub(super) fn shown(word: Option<&impl AsRef<[u8]>>) -> String {
    word.map_or(String::new(), |word| String::from_utf8_lossy(word.as_ref()).into_owned())
}

/// How often time is looked at, and how many of these looks there were: none while the whole process is stopped.
const TICK: Duration = Duration::from_millis(5);

fn ticks() -> u32 {
    static TICKS: OnceLock<&'static AtomicU64> = OnceLock::new();
    let ticks = TICKS.get_or_init(|| {
        let ticks: &'static AtomicU64 = Box::leak(Box::default());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(TICK);
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        });
        ticks
    });
    ticks.load(Ordering::Relaxed) as u32
}

/// Checks an actor's keys and groups against its journal.
///
/// # Errors
/// What was lost, torn or never written.
pub fn check_history(way: &mut Way, id: u32, history: &History) -> Result<(), String> {
    for (&target, expected) in &history.keys {
        let key = super::owned_key(id, target);
        let found = key_stamp(&key, &way.ask(&["GET", &key])?)?.map(|stamp| stamp.sequence);
        if !expected.allows(found) {
            return Err(format!("{key} holds {found:?}, and {expected:?} is expected"));
        }
    }
    for (&target, expected) in &history.groups {
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::group_key(id, target, at)).collect();
        let found = group_of(way, &keys)?.map(|stamp| stamp.sequence);
        if !expected.allows(found) {
            return Err(format!("group {} holds {found:?}, and {expected:?} is expected", keys[0]));
        }
    }
    for (&target, expected) in &history.ledgers {
        let found = ledger_sequence(way, id, target)?;
        if !expected.allows(found) {
            return Err(format!(
                "ledger {target} of actor {id} holds {found:?}, and {expected:?} is expected"
            ));
        }
    }
    Ok(())
}

/// The one stamp of all keys of a group, which is asked for.
///
/// # Errors
/// As [`group_stamp`].
pub fn group_of(way: &mut Way, keys: &[String]) -> Result<Option<Stamp>, String> {
    let mut args = vec!["MGET"];
    args.extend(keys.iter().map(String::as_str));
    group_stamp(keys, &way.ask(&args)?)
}

/// The stamp of a key, if it is there.
///
/// # Errors
/// When its value does not prove itself.
pub(super) fn key_stamp(key: &str, answer: &Answer) -> Result<Option<Stamp>, String> {
    match answer {
        Answer::Nil => Ok(None),
        Answer::Bulk(bytes) => value::read(key, bytes).map(Some),
        other => Err(format!("GET {key}: {}", other.shown())),
    }
}

/// The one stamp of all keys of a group.
///
/// # Errors
/// When they have not been written by the same transaction.
pub fn group_stamp(keys: &[String], answer: &Answer) -> Result<Option<Stamp>, String> {
    let Answer::Array(items) = answer else {
        return Err(format!("MGET {}: {}", keys[0], answer.shown()));
    };
    let stamps =
        keys.iter().zip(items).map(|(key, item)| key_stamp(key, item)).collect::<Result<Vec<_>, _>>()?;
    match stamps.iter().all(|stamp| *stamp == stamps[0]) {
        true => Ok(stamps[0]),
        false => Err(format!("a transaction is half visible in {}: {stamps:?}", keys[0])),
    }
}
