//! What an actor does with keys of all types: ledgers, accounts, tokens, and ears.
use super::actor::Actor;
use super::journal::Deed;
use super::{ACCOUNTS, COUNTERS, LEDGERS, QUEUES, counter_key};
use crate::answer::Answer;
use crate::way::Way;

/// Entries that a ledger's collections keep: enough for trees.
const ENTRIES: u64 = 200;
const LIST_ENTRIES: u64 = 150;
const STREAM_ENTRIES: u64 = 100;

/// The parts of a ledger: a key of each type, and a counter.
const PARTS: [&str; 7] = ["list", "hash", "scores", "set", "stream", "text", "count"];

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
    /// One transaction, or one script, that writes a key of each type.
    pub(super) fn write_ledger(&mut self) -> Result<(), String> {
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
    pub(super) fn transfer(&mut self) -> Result<(), String> {
        let mut draw = || self.random.below(ACCOUNTS as usize);
        let (text, field, member) = (format!("account:{}", draw()), format!("f{}", draw()), format!("m{}", draw()));
        let amount = self.random.below(9) as i64 - 4;
        if self.random.chance(50) {
            let number = amount.to_string();
            return self.timed(&["EVAL", TRANSFER, "3", &text, "accounts", "purses", &number, &field, &member]).map(drop);
        }
        let lines = [
            format!("INCRBY {text} {}", -3 * amount),
            format!("HINCRBY accounts {field} {amount}"),
            format!("ZINCRBY purses {} {member}", 2 * amount),
        ];
        self.timed_together(&lines).map(drop)
    }

    pub(super) fn look_at_accounts(&mut self) -> Result<(), String> {
        check_accounts(&mut self.way)
    }

    /// Puts a token on a queue, or moves one between queues.
    pub(super) fn push(&mut self) -> Result<(), String> {
        let queue = format!("queue:{}", self.random.below(QUEUES as usize));
        let other = format!("queue:{}", self.random.below(QUEUES as usize));
        if self.random.chance(30) {
            let line = [["LMOVE", &queue, &other, "LEFT", "RIGHT"], ["LMOVE", &queue, &other, "RIGHT", "LEFT"]][self.random.below(2)];
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
    pub(super) fn pop(&mut self) -> Result<(), String> {
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
                Some(Answer::Bulk(token)) => self.note_token(&format!("= {}", String::from_utf8_lossy(token))),
                other => Err(format!("BLPOP: {other:?}")),
            },
            Some(Answer::Nil) => self.note_token("="),
            Some(other) => Err(format!("a pop of {queue} answers {}", other.shown())),
            None => Ok(()),
        }
    }

    /// Adds 1 to a counter as a client that has only WATCH: if the counter changed meanwhile,
    /// nothing has happened.
    pub(super) fn count_watched(&mut self) -> Result<(), String> {
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
    pub(super) fn count_by_function(&mut self) -> Result<(), String> {
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
    pub(super) fn change(&mut self) -> Result<(), String> {
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
    pub(super) fn wake(&mut self) -> Result<(), String> {
        let (key, token) = (format!("wake:{}:{}", self.id, self.nonce), self.token());
        let pushed = self.timed(&["RPUSH", &key, &token])?;
        let way = self.way.beside();
        let waiter = self.waiter.get_or_insert_with(|| super::ears::Ear::waiter(way, &key));
        if pushed.is_some() { waiter.expect(&token) } else { Ok(()) }
    }

    /// Publishes something to a listening client of its own, and sometimes on the channel of all.
    pub(super) fn talk(&mut self) -> Result<(), String> {
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

fn ledger_keys(actor: u32, ledger: u32) -> [String; 7] {
    PARTS.map(|part| format!("ledger:{actor}:{ledger}:{part}"))
}

/// The sequence number that all parts of a ledger agree on.
///
/// # Errors
/// When they do not.
pub fn ledger_sequence(way: &mut Way, actor: u32, ledger: u32) -> Result<Option<u64>, String> {
    let [list, hash, scores, set, stream, text, count] = &ledger_keys(actor, ledger);
    let questions = [
        format!("GET {text}"),
        format!("LINDEX {list} -1"),
        format!("HMGET {hash} last count"),
        format!("ZREVRANGE {scores} 0 0 WITHSCORES"),
        format!("XREVRANGE {stream} + - COUNT 1"),
        format!("GET {count}"),
        format!("LLEN {list}"),
        format!("XLEN {stream}"),
        format!("SCARD {set}"),
        format!("ZCARD {scores}"),
    ];
    let answer = way.ask_together(&questions.map(words))?;
    let mut found = Vec::new();
    leaves(&answer, &mut found);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let torn = || Err(format!("ledger {ledger} of actor {actor} is torn: {found:?}"));
    let number = |text: &str| text.parse().unwrap_or(u64::MAX);
    match found[..] {
        ["", "", "", "", "", "0", "0", "0", "0"] => Ok(None),
        [last, at_end, in_hash, counted, member, highest, _, "s", newest, count, listed, streamed, members, ranked] => {
            let agree = [at_end, in_hash, highest, newest].iter().all(|part| *part == last) && counted == count && members == ranked;
            let entry = format!("m{}", number(last) % ENTRIES);
            let count = number(count);
            let kept = number(listed) == count.min(LIST_ENTRIES) && number(streamed) == count.min(STREAM_ENTRIES);
            if agree && kept && member == entry { Ok(Some(number(last))) } else { torn() }
        }
        _ => torn(),
    }
}

/// Whether all accounts together hold nothing.
///
/// # Errors
/// When they do not.
pub fn check_accounts(way: &mut Way) -> Result<(), String> {
    let accounts: Vec<String> = (0..ACCOUNTS).map(|at| format!("account:{at}")).collect();
    let questions = [format!("MGET {}", accounts.join(" ")), "HVALS accounts".into(), "ZRANGE purses 0 -1 WITHSCORES".into()];
    let answer = way.ask_together(&questions.map(words))?;
    let mut found = Vec::new();
    leaves(&answer, &mut found);
    // Members of the sorted set and what is not there are no numbers.
    let sum: i64 = found.iter().filter_map(|text| text.parse::<i64>().ok()).sum();
    if sum == 0 { Ok(()) } else { Err(format!("the accounts hold {sum}: {found:?}")) }
}

/// All texts and numbers of an answer, in order; nothing is an empty text.
fn leaves(answer: &Answer, into: &mut Vec<String>) {
    match answer {
        Answer::Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Answer::Bulk(bytes) => into.push(String::from_utf8_lossy(bytes).into_owned()),
        Answer::Integer(value) => into.push(value.to_string()),
        Answer::Nil => into.push(String::new()),
        other => into.push(other.shown()),
    }
}

/// The words of a line.
pub(super) fn words(line: impl AsRef<str>) -> Vec<String> {
    line.as_ref().split(' ').map(String::from).collect()
}
