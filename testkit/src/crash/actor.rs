//! One process of the crash test: writes, checks what it reads, and never expects to end in peace.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use polder_base::Protocol;
use polder_engine::Options;

use super::journal::{Deed, History, Intent, Journal};
use super::value::{self, Stamp};
use super::{COUNTERS, GROUP_KEYS, OWNED_GROUPS, OWNED_KEYS, SHARED_GROUPS};
use crate::answer::Answer;
use crate::caller::{Caller, Embedder};
use crate::random::Random;

/// Lengths that reach every layout: inline, packed in classes of all sizes, trees of chunks.
const LENGTHS: [usize; 9] = [0, 30, 60, 200, 1_000, 4_000, 9_000, 70_000, 300_000];

/// The process's state.
pub struct Actor {
    embedder: Embedder,
    caller: Caller,
    journal: Journal,
    delays: Delays,
    random: Random,
    id: u32,
    sequence: u64,
    stall_max: Duration,
}

impl Actor {
    /// Attaches the segment, takes over the journal of whoever had this id before, and checks what is said there.
    ///
    /// # Errors
    /// What was lost or torn, or why there is no memory.
    pub fn start(segment: &str, journal: &Path, id: u32, stall_max: Duration, seed: u64) -> Result<Actor, String> {
        let options = Options { segment: segment.into(), create: false, ..Options::default() };
        let embedder = Embedder::attach(&options).map_err(|fault| fault.to_string())?;
        let history = History::read(journal).map_err(|error| error.to_string())?;
        let mut caller = Caller::new(u64::from(id), Protocol::Resp3);
        check_history(&embedder, &mut caller, id, &history)?;
        Ok(Actor {
            embedder,
            caller,
            journal: Journal::succeed(journal, &history).map_err(|error| error.to_string())?,
            delays: Delays::open().map_err(|error| error.to_string())?,
            random: Random::new(seed),
            id,
            sequence: history.sequence,
            stall_max,
        })
    }

    /// One deed or one look.
    ///
    /// # Errors
    /// What is wrong with the memory.
    pub fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..=34 => self.set(),
            35..=39 => self.delete(),
            40..=54 => self.write_group(),
            55..=64 => self.write_shared(),
            65..=79 => self.count(),
            80..=89 => self.look_at_shared(),
            _ => self.look_at_others(),
        }
    }

    fn set(&mut self) -> Result<(), String> {
        let target = self.random.below(OWNED_KEYS as usize) as u32;
        let stamp = self.stamp();
        let key = super::owned_key(self.id, target);
        let length = *self.random.pick(&LENGTHS);
        let value = value::make(&key, stamp, length);
        self.deed(Deed::Set, target, &[b"SET", key.as_bytes(), &value]).map(drop)
    }

    fn delete(&mut self) -> Result<(), String> {
        let target = self.random.below(OWNED_KEYS as usize) as u32;
        self.stamp();
        let key = super::owned_key(self.id, target);
        self.deed(Deed::Delete, target, &[b"DEL", key.as_bytes()]).map(drop)
    }

    fn write_group(&mut self) -> Result<(), String> {
        let target = self.random.below(OWNED_GROUPS as usize) as u32;
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::group_key(self.id, target, at)).collect();
        self.write_keys(Deed::Group, target, &keys)
    }

    fn write_shared(&mut self) -> Result<(), String> {
        let target = self.random.below(SHARED_GROUPS as usize) as u32;
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::shared_key(target, at)).collect();
        self.write_keys(Deed::Shared, target, &keys)
    }

    fn write_keys(&mut self, deed: Deed, target: u32, keys: &[String]) -> Result<(), String> {
        let stamp = self.stamp();
        let values: Vec<Vec<u8>> = keys.iter().map(|key| value::make(key, stamp, LENGTHS[self.random.below(LENGTHS.len() - 2)])).collect();
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        keys.iter().zip(&values).for_each(|(key, value)| args.extend([key.as_bytes(), value.as_slice()]));
        self.deed(deed, target, &args).map(drop)
    }

    fn count(&mut self) -> Result<(), String> {
        let target = self.random.below(COUNTERS as usize) as u32;
        self.stamp();
        let key = super::counter_key(target);
        match self.deed(Deed::Count, target, &[b"INCR", key.as_bytes()])? {
            Answer::Integer(_) => Ok(()),
            other => Err(format!("INCR {key}: {}", other.shown())),
        }
    }

    fn look_at_shared(&mut self) -> Result<(), String> {
        let group = self.random.below(SHARED_GROUPS as usize) as u32;
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::shared_key(group, at)).collect();
        group_stamp(&keys, &self.look("MGET", &keys)?).map(drop)
    }

    /// Reads a key or a group of another actor: it must prove itself, whatever its writer is doing.
    fn look_at_others(&mut self) -> Result<(), String> {
        let other = self.random.below(16) as u32;
        if self.random.chance(50) {
            let key = super::owned_key(other, self.random.below(OWNED_KEYS as usize) as u32);
            let found = self.look("GET", std::slice::from_ref(&key))?;
            return key_stamp(&key, &found).map(drop);
        }
        let group = self.random.below(OWNED_GROUPS as usize) as u32;
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::group_key(other, group, at)).collect();
        group_stamp(&keys, &self.look("MGET", &keys)?).map(drop)
    }

    fn stamp(&mut self) -> Stamp {
        self.sequence += 1;
        Stamp { writer: self.id, sequence: self.sequence }
    }

    /// Intent, deed, acknowledgement.
    fn deed(&mut self, deed: Deed, target: u32, args: &[&[u8]]) -> Result<Answer, String> {
        let noted = |result: io::Result<()>| result.map_err(|error| error.to_string());
        noted(self.journal.intend(Intent { deed, target, sequence: self.sequence }))?;
        let answer = self.timed(args)?;
        if let Answer::Error(error) = &answer {
            return Err(format!("{}: {error}", String::from_utf8_lossy(args[0])));
        }
        noted(self.journal.acknowledge())?;
        Ok(answer)
    }

    fn look(&mut self, command: &str, keys: &[String]) -> Result<Answer, String> {
        let mut args = vec![command.as_bytes()];
        args.extend(keys.iter().map(String::as_bytes));
        self.timed(&args)
    }

    /// Runs a command and fails when it stood still for too long.
    fn timed(&mut self, args: &[&[u8]]) -> Result<Answer, String> {
        let (started, waited) = (Instant::now(), self.delays.waited());
        let answer = self.caller.call(&self.embedder, args)?;
        let stalled = started.elapsed().saturating_sub(self.delays.waited().saturating_sub(waited));
        if stalled > self.stall_max {
            let name = String::from_utf8_lossy(args[0]);
            let key = args.get(1).map(|key| String::from_utf8_lossy(key));
            return Err(format!("{name} {} stood still for {} ms", key.unwrap_or_default(), stalled.as_millis()));
        }
        Ok(answer)
    }
}

/// Checks an actor's keys and groups against its journal.
///
/// # Errors
/// What was lost, torn or never written.
pub fn check_history(embedder: &Embedder, caller: &mut Caller, id: u32, history: &History) -> Result<(), String> {
    for (&target, expected) in &history.keys {
        let key = super::owned_key(id, target);
        let found = key_stamp(&key, &caller.call(embedder, &["GET", &key])?)?.map(|stamp| stamp.sequence);
        if !expected.allows(found) {
            return Err(format!("{key} holds {found:?}, and {expected:?} is expected"));
        }
    }
    for (&target, expected) in &history.groups {
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::group_key(id, target, at)).collect();
        let mut args = vec!["MGET"];
        args.extend(keys.iter().map(String::as_str));
        let found = group_stamp(&keys, &caller.call(embedder, &args)?)?.map(|stamp| stamp.sequence);
        if !expected.allows(found) {
            return Err(format!("group {} holds {found:?}, and {expected:?} is expected", keys[0]));
        }
    }
    Ok(())
}

fn key_stamp(key: &str, answer: &Answer) -> Result<Option<Stamp>, String> {
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
    let stamps = keys.iter().zip(items).map(|(key, item)| key_stamp(key, item)).collect::<Result<Vec<_>, _>>()?;
    match stamps.iter().all(|stamp| *stamp == stamps[0]) {
        true => Ok(stamps[0]),
        false => Err(format!("a transaction is half visible in {}: {stamps:?}", keys[0])),
    }
}

/// How long this thread has waited for a CPU: a busy machine's doing, not ours.
pub(super) struct Delays {
    file: File,
}

impl Delays {
    pub(super) fn open() -> io::Result<Delays> {
        Ok(Delays { file: File::open("/proc/thread-self/schedstat")? })
    }

    /// The second number of schedstat: nanoseconds spent runnable without running.
    pub(super) fn waited(&self) -> Duration {
        let mut text = [0; 64];
        let length = self.file.read_at(&mut text, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..length]);
        let waited_ns = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Duration::from_nanos(waited_ns)
    }
}
