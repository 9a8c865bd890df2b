//! What an actor does with keys of all types, drawn by chance: values, groups, counters, ledgers, accounts, tokens, and ears.
use std::time::Duration;

use super::actor::{Actor, group_stamp, key_stamp, shown};
use super::journal::Deed;
use super::ledgers::{ENTRIES, LIST_ENTRIES, STREAM_ENTRIES, check_accounts, ledger_keys};
use super::value;
use super::{
    ACCOUNTS, COUNTERS, GROUP_KEYS, LEDGERS, OWNED_GROUPS, OWNED_KEYS, QUEUES, SHARED_GROUPS, counter_key,
};
use crate::answer::Answer;
use crate::way::Way;

/// Lengths that reach every layout: inline, packed in classes of all sizes, trees of chunks.
const LENGTHS: [usize; 9] = [0, 30, 60, 200, 1_000, 4_000, 9_000, 70_000, 300_000];

/// Writes a ledger as one script: KEYS are its parts, ARGV the sequence number and the entry it belongs to.
const LEDGER: &str = "redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('LTRIM', KEYS[1], -150, -1) \
     redis.call('HSET', KEYS[2], 'last', ARGV[1], 'f' .. ARGV[2], ARGV[1]) redis.call('HINCRBY', KEYS[2], 'count', 1) \
     redis.call('ZADD', KEYS[3], ARGV[1], 'm' .. ARGV[2]) redis.call('SADD', KEYS[4], 'm' .. ARGV[2]) \
     redis.call('XADD', KEYS[5], 'MAXLEN', 100, '*', 's', ARGV[1]) redis.call('SET', KEYS[6], ARGV[1]) return redis.call('INCR', KEYS[7])";

/// The library of [`Actor::count_by_function`].
const LIBRARY: &str = "#!lua name=torture\nredis.register_function('count', function(keys) return redis.call('INCR', keys[1]) end)";

/// Moves amounts between accounts of three types: KEYS are a text, the hash and the sorted set, ARGV the amount, a field, a member.
const TRANSFER: &str = "redis.call('DECRBY', KEYS[1], 3 * ARGV[1]) redis.call('HINCRBY', KEYS[2], ARGV[2], ARGV[1]) \
     return redis.call('ZINCRBY', KEYS[3], 2 * ARGV[1], ARGV[3])";

impl Actor {
    /// One deed or one look.
    ///
    /// # Errors
    /// What is wrong with the memory.
    pub fn step(&mut self) -> Result<(), String> {
        if !self.way.is_open() {
            // All servers are on their way.
            std::thread::sleep(Duration::from_millis(5));
            return Ok(());
        }
        match self.random.below(100) {
            0..=24 => self.set(),
            25..=28 => self.delete(),
            29..=38 => self.write_group(),
            39..=46 => self.write_shared(),
            47..=51 => self.count(),
            52..=54 => self.count_watched(),
            55..=56 => self.count_by_function(),
            57..=64 => self.write_ledger(),
            65..=71 => self.transfer(),
            72..=78 => self.look_at_shared(),
            79..=84 => self.look_at_others(),
            85..=89 => self.push(),
            90..=94 => self.pop(),
            95 => self.wake(),
            96 => self.talk(),
            97 => self.change(),
            _ => self.look_at_accounts(),
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
        let values: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| value::make(key, stamp, LENGTHS[self.random.below(LENGTHS.len() - 2)]))
            .collect();
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        keys.iter().zip(&values).for_each(|(key, value)| args.extend([key.as_bytes(), value.as_slice()]));
        self.deed(deed, target, &args).map(drop)
    }

    fn count(&mut self) -> Result<(), String> {
        let target = self.random.below(COUNTERS as usize) as u32;
        self.stamp();
        let key = super::counter_key(target);
        self.counted(target, &[b"INCR", key.as_bytes()])
    }

    /// Makes a call that adds 1 to a counter, and checks that the reply is a number.
    fn counted(&mut self, target: u32, args: &[&[u8]]) -> Result<(), String> {
        match self.deed(Deed::Count, target, args)? {
            None | Some(Answer::Integer(_)) => Ok(()),
            Some(other) => Err(format!("{}: {}", shown(args.first()), other.shown())),
        }
    }

    fn look_at_shared(&mut self) -> Result<(), String> {
        let group = self.random.below(SHARED_GROUPS as usize) as u32;
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::shared_key(group, at)).collect();
        self.look("MGET", &keys)?.map_or(Ok(()), |found| group_stamp(&keys, &found).map(drop))
    }

    /// Reads a key or a group of another actor: it must prove itself, whatever its writer is doing.
    fn look_at_others(&mut self) -> Result<(), String> {
        let other = self.random.below(16) as u32;
        if self.random.chance(50) {
            let key = super::owned_key(other, self.random.below(OWNED_KEYS as usize) as u32);
            let found = self.look("GET", std::slice::from_ref(&key))?;
            return found.map_or(Ok(()), |found| key_stamp(&key, &found).map(drop));
        }
        let group = self.random.below(OWNED_GROUPS as usize) as u32;
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| super::group_key(other, group, at)).collect();
        self.look("MGET", &keys)?.map_or(Ok(()), |found| group_stamp(&keys, &found).map(drop))
    }

    fn look(&mut self, command: &str, keys: &[String]) -> Result<Option<Answer>, String> {
        let mut args = vec![command.as_bytes()];
        args.extend(keys.iter().map(String::as_bytes));
        self.timed(&args)
    }

    /// One transaction, or one script, that writes a key of each type.
    fn write_ledger(&mut self) -> Result<(), String> {
        let target = self.random.below(LEDGERS as usize) as u32;
        let sequence = self.stamp().sequence;
        let keys = ledger_keys(self.id, target);
        let (text, entry) = (sequence.to_string(), (sequence % ENTRIES).to_string());
        if self.random.chance(50) {
            let mut args: Vec<&[u8]> = vec![b"EVAL", LEDGER.as_bytes(), b"7"];
            args.extend(keys.iter().map(String::as_bytes));
            args.extend([text.as_bytes(), entry.as_bytes()]);
            return self.deed(Deed::Ledger, target, &args).map(drop);
        }
        let [list, hash, scores, set, stream, last, count] = &keys;
        let (field, member) = (format!("f{entry}"), format!("m{entry}"));
        let lines = [
            format!("RPUSH {list} {text}"),
            format!("LTRIM {list} -{LIST_ENTRIES} -1"),
            format!("HSET {hash} last {text} {field} {text}"),
            format!("HINCRBY {hash} count 1"),
            format!("ZADD {scores} {text} {member}"),
            format!("SADD {set} {member}"),
            format!("XADD {stream} MAXLEN {STREAM_ENTRIES} * s {text}"),
            format!("SET {last} {text}"),
            format!("INCR {count}"),
        ];
        self.deed_together(Deed::Ledger, target, &lines)
    }

    /// Moves an amount between accounts.
    fn transfer(&mut self) -> Result<(), String> {
        let mut draw = || self.random.below(ACCOUNTS as usize);
        let (text, field, member) =
            (format!("account:{}", draw()), format!("f{}", draw()), format!("m{}", draw()));
        let amount = self.random.below(9) as i64 - 4;
        if self.random.chance(50) {
            let number = amount.to_string();
            return self
                .timed(&["EVAL", TRANSFER, "3", &text, "accounts", "purses", &number, &field, &member])
                .map(drop);
        }
        let lines = [
            format!("INCRBY {text} {}", -3 * amount),
            format!("HINCRBY accounts {field} {amount}"),
            format!("ZINCRBY purses {} {member}", 2 * amount),
        ];
        self.timed_together(&lines).map(drop)
    }

    fn look_at_accounts(&mut self) -> Result<(), String> {
        check_accounts(&mut self.way)
    }

    /// Puts a token on a queue, or moves one between queues.
    fn push(&mut self) -> Result<(), String> {
        let queue = format!("queue:{}", self.random.below(QUEUES as usize));
        let other = format!("queue:{}", self.random.below(QUEUES as usize));
        if self.random.chance(30) {
            let line =
                [["LMOVE", &queue, &other, "LEFT", "RIGHT"], ["LMOVE", &queue, &other, "RIGHT", "LEFT"]]
                    [self.random.below(2)];
            return self.timed(&line).map(drop);
        }
        let token = self.token();
        self.note_token(&format!("+ {token}"))?;
        let done = match self.random.below(3) {
            0 => self.timed_together(&[format!("RPUSH {queue} {token}"), format!("LLEN {other}")])?,
            1 => self.timed(&["RPUSH", &queue, &token])?,
            _ => self.timed(&["LPUSH", &queue, &token])?,
        };
        if done.is_some() { self.note_token("A") } else { Ok(()) }
    }

    /// Takes a token from a queue; sometimes waits for one.
    fn pop(&mut self) -> Result<(), String> {
        let queue = format!("queue:{}", self.random.below(QUEUES as usize));
        self.note_token("-")?;
        let answer = match self.random.below(4) {
            0 => self.way.call(&["BLPOP", &queue, "queue:0", "0.05"])?,
            1 => self.timed(&["RPOP", &queue])?,
            _ => self.timed(&["LPOP", &queue])?,
        };
        match answer {
            Some(Answer::Bulk(token)) => self.note_token(&format!("= {}", String::from_utf8_lossy(&token))),
            Some(Answer::Array(items)) => match items.last() {
                Some(Answer::Bulk(token)) => {
                    self.note_token(&format!("= {}", String::from_utf8_lossy(token)))
                }
                other => Err(format!("BLPOP: {other:?}")),
            },
            Some(Answer::Nil) => self.note_token("="),
            Some(other) => Err(format!("a pop of {queue} answers {}", other.shown())),
            None => Ok(()),
        }
    }

    /// Adds 1 to a counter as a client that has only WATCH: if the counter changed meanwhile,
    /// nothing has happened.
    fn count_watched(&mut self) -> Result<(), String> {
        let target = self.random.below(COUNTERS as usize) as u32;
        self.stamp();
        let key = counter_key(target);
        self.intend(Deed::Count, target)?;
        if self.timed(&["WATCH", &key])?.is_none() {
            return Ok(());
        }
        let value = match self.timed(&["GET", &key])? {
            Some(Answer::Bulk(text)) => String::from_utf8_lossy(&text).parse().unwrap_or(0u64),
            Some(_) => 0,
            None => return Ok(()),
        };
        match self.timed_together(&[format!("SET {key} {}", value + 1)])? {
            Some(Answer::Nil) | None => Ok(()),
            done => self.acknowledge(done).map(drop),
        }
    }

    /// Adds 1 to a counter by a function of a library that others replace meanwhile.
    fn count_by_function(&mut self) -> Result<(), String> {
        if self.random.chance(10) || !self.has_library {
            let loaded = self.timed(&["FUNCTION", "LOAD", "REPLACE", LIBRARY])?;
            self.has_library |= loaded.is_some();
            return Ok(());
        }
        let target = self.random.below(COUNTERS as usize) as u32;
        self.stamp();
        self.counted(target, &[b"FCALL", b"count", b"1", counter_key(target).as_bytes()])
    }

    /// Changes a key that a client of its own has read, and is told of.
    fn change(&mut self) -> Result<(), String> {
        let (key, token) = (format!("read:{}:{}", self.id, self.nonce), self.token());
        let way = self.way.beside();
        let reader = self.reader.get_or_insert_with(|| super::ears::Ear::reader(way, &key));
        if !reader.is_ready()? {
            return Ok(());
        }
        let written = self.timed(&["SET", &key, &token])?;
        match (written, self.reader.as_mut()) {
            (Some(_), Some(reader)) => reader.expect(&key),
            _ => Ok(()),
        }
    }

    /// Wakes a client of its own that waits for a key.
    fn wake(&mut self) -> Result<(), String> {
        let (key, token) = (format!("wake:{}:{}", self.id, self.nonce), self.token());
        let pushed = self.timed(&["RPUSH", &key, &token])?;
        let way = self.way.beside();
        let waiter = self.waiter.get_or_insert_with(|| super::ears::Ear::waiter(way, &key));
        if pushed.is_some() { waiter.expect(&token) } else { Ok(()) }
    }

    /// Publishes something to a listening client of its own, and sometimes on the channel of all.
    fn talk(&mut self) -> Result<(), String> {
        let (subject, token) = (format!("talk:{}:{}", self.id, self.nonce), self.token());
        let way = self.way.beside();
        let listener = self.listener.get_or_insert_with(|| super::ears::Ear::listener(way, &subject, "talk"));
        if !listener.is_ready()? {
            return Ok(());
        }
        let told = self.timed(&["PUBLISH", &subject, &token])?;
        let chatter = "x".repeat(self.random.below(3000));
        self.timed(&["PUBLISH", "talk", &chatter])?;
        match (told, &self.way, self.listener.as_mut()) {
            // Ours is in this very process: it lives.
            (Some(Answer::Integer(0)), Way::Inside(_), _) => Err(format!("PUBLISH {subject} finds nobody")),
            (Some(_), _, Some(listener)) => listener.expect(&token),
            _ => Ok(()),
        }
    }

    /// A name that nothing else has had.
    fn token(&mut self) -> String {
        self.next_token += 1;
        format!("{}.{}.{}", self.id, self.nonce, self.next_token)
    }

    fn note_token(&mut self, line: &str) -> Result<(), String> {
        self.tokens.note(line).map_err(|error| error.to_string())
    }
}
