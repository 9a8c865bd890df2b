//! The door in this process: several callers of a thread, used in any order, with any words.
use std::sync::Arc;
use std::time::Duration;

use polder_engine::{Answer, Batch, Caller, Error, Item, Memory, Protocol};

use crate::scratch::Scratch;

const CALLERS: usize = 4;

/// Words that commands know; anything else comes from the input itself.
const WORDS: &[&str] = &[
    "GET",
    "SET",
    "INCR",
    "APPEND",
    "DEL",
    "EXPIRE",
    "LPUSH",
    "RPUSH",
    "LPOP",
    "LRANGE",
    "LMOVE",
    "SADD",
    "SPOP",
    "ZADD",
    "ZPOPMIN",
    "HSET",
    "HGETALL",
    "XADD",
    "XREAD",
    "STREAMS",
    "XGROUP",
    "CREATE",
    "MKSTREAM",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "UNWATCH",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "PUBLISH",
    "SPUBLISH",
    "MONITOR",
    "HELLO",
    "RESET",
    "QUIT",
    "SELECT",
    "CLIENT",
    "LIST",
    "TRACKING",
    "ON",
    "OFF",
    "BCAST",
    "REPLY",
    "SKIP",
    "KILL",
    "ID",
    "UNBLOCK",
    "NO-TOUCH",
    "SETNAME",
    "EVAL",
    "return redis.call(KEYS[1])",
    "return {1, 'a', {err = 'no'}}",
    "MGET",
    "MSET",
    "SORT",
    "FLUSHDB",
    "ITEM.FLUSH",
    "SWAPDB",
    "MOVE",
    "COPY",
    "RENAME",
    "EX",
    "NX",
    "COUNT",
    "LEFT",
    "k",
    "l",
    "c",
    "*",
    "$",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "15",
    "9223372036854775807",
    "",
];

/// Calls that wait, for a moment.
const WAITS: &[&[&str]] = &[
    &["BLPOP", "l", "0.002"],
    &["BRPOP", "none", "l", "0.001"],
    &["BLMOVE", "l", "k", "LEFT", "RIGHT", "0.001"],
    &["BZPOPMIN", "z", "0.001"],
    &["XREAD", "BLOCK", "1", "STREAMS", "x", "$"],
    &["BLMPOP", "0.001", "1", "l", "LEFT"],
];

/// These wait for as long as they like, stop the process, save files, block all clients or change
/// all clients' users.
const LEFT_OUT: &[&str] = &[
    "BLPOP",
    "BRPOP",
    "BLMOVE",
    "BRPOPLPUSH",
    "BZPOPMIN",
    "BZPOPMAX",
    "BLMPOP",
    "BZMPOP",
    "XREADGROUP",
    "DEBUG",
    "SHUTDOWN",
    "FAILOVER",
    "SAVE",
    "BGSAVE",
    "MIGRATE",
    "WAIT",
    "WAITAOF",
    "ACL",
    "CONFIG",
    "REPLICAOF",
    "SLAVEOF",
];

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..24u8)
        .map(|seed| (0..160u32).map(|at| (at * 37 + u32::from(seed) * 101) as u8 ^ seed).collect())
        .collect();
    seeds.push(vec![]);
    seeds
}

/// Reads decisions out of an input.
struct Choices<'i>(&'i [u8]);

impl Choices<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn words(&mut self) -> Vec<Vec<u8>> {
        let count = self.next() % 6;
        let words: Vec<Vec<u8>> = (0..count).map(|_| self.word()).collect();
        let name = words.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default();
        // A read of a stream that waits does so by a word of its own; a pause blocks the calls
        // behind it.
        let waits = LEFT_OUT.contains(&name.as_str())
            || words
                .iter()
                .any(|word| word.eq_ignore_ascii_case(b"BLOCK") || word.eq_ignore_ascii_case(b"PAUSE"));
        if waits { Vec::new() } else { words }
    }

    fn word(&mut self) -> Vec<u8> {
        match self.next() {
            number @ 0..=199 => WORDS[number % WORDS.len()].as_bytes().to_vec(),
            number @ 200..=239 => vec![b'x'; (number - 199) * 97],
            number => self.0.iter().copied().take(number - 239).collect(),
        }
    }
}

std::thread_local! {
    static MEMORY: (Arc<Memory>, Scratch) = {
        let scratch = Scratch::new();
        let memory = Memory::attach(&scratch.options).unwrap_or_else(|fault| panic!("{fault}"));
        (Arc::new(memory), scratch)
    };
}

/// Every call gets a reply or an error; callers that come after them are served.
pub(super) fn callers_are_used_in_any_order(input: &[u8]) {
    MEMORY.with(|(memory, _)| {
        let mut choices = Choices(input);
        let mut callers: Vec<Caller> = (0..CALLERS).map(|_| Caller::new(memory)).collect();
        let mut batch = Batch::new();
        while !choices.0.is_empty() {
            let at = choices.next() % CALLERS;
            step(memory, &mut callers, at, &mut batch, &mut choices);
        }
        drop(callers);
        let mut fresh = Caller::new(memory);
        fresh.run(&["SET", "own", "value"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(fresh.show(&["GET", "own"], |item| item == Item::Bulk(b"value")), Ok(true));
        if input.len().is_multiple_of(16) {
            let report = memory.table().verify().unwrap_or_else(|fault| panic!("{fault}"));
            assert!(report.findings.is_empty(), "{report:?}");
        }
    });
}

fn step(
    memory: &Arc<Memory>,
    callers: &mut [Caller],
    at: usize,
    batch: &mut Batch,
    choices: &mut Choices<'_>,
) {
    let caller = &mut callers[at];
    let told = match choices.next() % 16 {
        0 => {
            callers[at] = Caller::speaking(
                memory,
                if choices.next().is_multiple_of(2) { Protocol::Resp2 } else { Protocol::Resp3 },
            );
            return;
        }
        1 => caller.start(&choices.words()).map(drop),
        2 => caller.start(WAITS[choices.next() % WAITS.len()]).map(drop),
        3 => caller.run(WAITS[choices.next() % WAITS.len()]).map(|answer| weigh(answer.item())),
        4 => caller.resume().map(drop),
        5 => caller.cancel(),
        6 => caller.hear(Duration::from_millis(choices.next() as u64 % 2), weigh).map(drop),
        7 => {
            batch.add(&choices.words());
            return;
        }
        8 => caller.run_batch(batch).map(|answer| answer.items().for_each(weigh)),
        9 => {
            let done = caller.run_atomically(batch).map(|answer| weigh(answer.item()));
            batch.clear();
            done
        }
        10 => caller.descriptor().map(drop),
        11 => caller.rest(Duration::from_millis(1)),
        12 => caller.write(&choices.words(), &mut Answer::new(Protocol::Resp2)),
        _ => caller.run(&choices.words()).map(|answer| weigh(answer.item())),
    };
    // One thread, no fork, and a mailbox is not filled by this little.
    assert!(!matches!(told, Err(Error::WrongThread | Error::Forked)), "{told:?}");
}

/// Walks through all of a reply.
fn weigh(item: Item<'_>) {
    match item.items() {
        Some(items) => items.for_each(weigh),
        None => drop(std::hint::black_box(item.bytes().map(<[u8]>::len))),
    }
}
