//! What is counted, as data.
//!
//! | in a call | is |
//! |---|---|
//! | `@` | the number of the call in its round: every round meets the same keys and elements |
//! | `%` | that number modulo 16: elements go into 16 small collections |
//! | `#` | a number that no call had before |
//! | `~` | a number that looks random |
//! | `{...}` | ten times what is inside, with 0 to 9 for each `&` |

use crate::{CALLS, Failure};

pub struct Operation {
    pub name: &'static str,
    /// What each round begins with, uncounted, once for each call of the round.
    prepare: &'static [&'static str],
    call: &'static str,
    pub way: Way,
    /// The suffixes of those of [`VARIANTS`] under which it is counted.
    pub variants: &'static [&'static str],
}

#[derive(Clone, Copy)]
pub enum Way {
    /// By its words, as C and Python programs do.
    Call,
    /// By the typed call of Rust that reads a string.
    Read,
    /// By the typed call of Rust that sets one.
    Write,
    /// As a transaction of this many calls.
    Exec(usize),
}

/// A suffix of names, and the settings.
type Variant = (&'static str, &'static [(&'static str, &'static str)]);

pub const PLAIN: &[(&str, &str)] =
    &[("maxmemory-policy", "noeviction"), ("maxmemory", "0"), ("notify-keyspace-events", "")];

/// The suffix of what is counted with the change log on.
pub const LOGGED: &str = ", log";

const LFU: &str = ", LFU";
const EVENTS: &str = ", events";

pub const VARIANTS: [Variant; 4] = [
    ("", PLAIN),
    (LFU, &[("maxmemory-policy", "allkeys-lfu"), ("maxmemory", "900mb")]),
    (EVENTS, &[("maxmemory-policy", "noeviction"), ("maxmemory", "0"), ("notify-keyspace-events", "KEA")]),
    (LOGGED, PLAIN),
];

const fn call(name: &'static str, prepare: &'static [&'static str], call: &'static str) -> Operation {
    Operation { name, prepare, call, way: Way::Call, variants: &[""] }
}

impl Operation {
    const fn by(mut self, way: Way) -> Operation {
        self.way = way;
        self
    }

    const fn everywhere(mut self) -> Operation {
        self.variants = &["", LFU, EVENTS, LOGGED];
        self
    }

    const fn logged(mut self) -> Operation {
        self.variants = &["", LOGGED];
        self
    }
}

const FRESH: &[&str] = &["SET key:@ 0123456789abcdef"];
const LIST: &[&str] = &["RPUSH list:% element:@"];
const SET: &[&str] = &["SADD set:% member:@"];
/// Small collections that are there: each gets eight elements more.
const SHORT_LIST: &[&str] = &["DEL list:%", "RPUSH list:% earlier:@"];
const SHORT_SET: &[&str] = &["DEL set:%", "SADD set:% earlier:@"];
const SHORT_HASH: &[&str] = &["DEL hash:%", "HSET hash:% earlier:@ 0123456789abcdef"];
const SHORT_ZSET: &[&str] = &["DEL zset:%", "ZADD zset:% @ earlier:@"];
const HASH: &[&str] = &["HSET hash:% field:@ 0123456789abcdef"];
const NUMBERS: &[&str] = &["HSET numbers:% field:@ 10"];
const ZSET: &[&str] = &["ZADD zset:% @ member:@"];
const LASTING: &[&str] = &["SET lasting:@ 0123456789abcdef EX 10000"];

pub const OPERATIONS: &[Operation] = &[
    call("GET, typed", FRESH, "GET key:@").by(Way::Read).everywhere(),
    call("SET, typed", FRESH, "SET key:@ fedcba9876543210").by(Way::Write).everywhere(),
    call("GET", FRESH, "GET key:@").everywhere(),
    call("GET with TTL", LASTING, "GET lasting:@").everywhere(),
    call("GET of nothing", &[], "GET nothing:@"),
    call("SET", FRESH, "SET key:@ fedcba9876543210").everywhere(),
    call("SET new", &[], "SET new:# fedcba9876543210").everywhere(),
    call("SET EX", LASTING, "SET lasting:@ fedcba9876543210 EX 60").everywhere(),
    call("SET EX new", &[], "SET lasts:# fedcba9876543210 EX 60").everywhere(),
    call("SET over a TTL", LASTING, "SET lasting:@ fedcba9876543210").everywhere(),
    call("INCR", &["SET number:@ 10"], "INCR number:@").everywhere(),
    call("INCR new", &[], "INCR counter:#").everywhere(),
    call("INCRBYFLOAT", &["SET number:@ 10"], "INCRBYFLOAT number:@ 0.5"),
    call("APPEND", FRESH, "APPEND key:@ 0123"),
    call("DEL", FRESH, "DEL key:@").everywhere(),
    call("GETDEL", FRESH, "GETDEL key:@"),
    call("EXPIRE", FRESH, "EXPIRE key:@ 100").everywhere(),
    call("MSET of 10", FRESH, "MSET {key:@& 0123456789abcdef}").logged(),
    call("MSET of 10 new", &["DEL {key:@&}"], "MSET {key:@& 0123456789abcdef}").logged(),
    call("MGET of 10", FRESH, "MGET {key:@&}").logged(),
    call("EXEC of 10 SET", FRESH, "SET key:@ fedcba9876543210").by(Way::Exec(10)).logged(),
    call("EXEC of 10 INCR", &["SET number:@ 10"], "INCR number:@").by(Way::Exec(10)).logged(),
    call("LPUSH", SHORT_LIST, "LPUSH list:% element:@").everywhere(),
    call("LPUSH new", &["DEL alone:@"], "LPUSH alone:@ element:@"),
    call("LPOP", LIST, "LPOP list:%").everywhere(),
    call("LRANGE of 16", LIST, "LRANGE list:% 0 15"),
    call("SADD", SHORT_SET, "SADD set:% member:@").everywhere(),
    call("SPOP", SET, "SPOP set:%").logged(),
    call("SREM", SET, "SREM set:% member:@"),
    call("HSET", SHORT_HASH, "HSET hash:% field:@ 0123456789abcdef").everywhere(),
    call("HGET", HASH, "HGET hash:% field:@"),
    call("HDEL", HASH, "HDEL hash:% field:@"),
    call("HINCRBY", NUMBERS, "HINCRBY numbers:% field:@ 1"),
    call("ZADD", SHORT_ZSET, "ZADD zset:% ~ member:@").everywhere(),
    call("ZINCRBY", ZSET, "ZINCRBY zset:% 10 member:@"),
    call("ZADD, 1 M members", &[], "ZADD large ~ fresh:#"),
    call("ZADD again, 1 M members", &[], "ZADD large ~ member:~"),
    call("XADD", &[], "XADD stream * field 0123456789abcdef"),
    call("PUBLISH to nobody", &[], "PUBLISH channel 0123456789abcdef"),
];

/// Keys beside those that are worked on, and elements of the large collections.
const KEYS: usize = 50_000;
const LARGE: usize = 1_000_000;

/// Makes what stays from round to round.
pub fn fill(mut run: impl FnMut(&[Vec<u8>]) -> Result<(), Failure>) -> Result<(), Failure> {
    (0..KEYS).try_for_each(|number| run(&words("SET other:@ 0123456789abcdef", number, number)))?;
    // As random elements come: `~` is one of a million, and some come twice.
    (0..LARGE).try_for_each(|number| run(&words("ZADD large ~ member:@", number, number)))
}

/// Takes a third of the other keys away. Keys that are made in a table that has just been shrunk do not lie at home as often as keys of a table that
/// grows, so that operations on them would be counted by the longer ways of displaced entries.
pub fn thin_out(mut run: impl FnMut(&[Vec<u8>]) -> Result<(), Failure>) -> Result<(), Failure> {
    (0..KEYS).step_by(3).try_for_each(|number| run(&words("DEL other:@", number, number)))
}

impl Operation {
    /// What a round begins with.
    pub fn preparation(&self, round: usize) -> Vec<Vec<Vec<u8>>> {
        // All of one kind before the next: DEL of a collection would undo what was put in before.
        self.prepare
            .iter()
            .flat_map(|text| (0..CALLS).map(move |at| words(text, at, at + round * CALLS)))
            .collect()
    }

    /// The calls of a round.
    pub fn calls(&self) -> Vec<Vec<Vec<u8>>> {
        (0..CALLS).map(|at| words(self.call, at, next())).collect()
    }
}

/// A number that no call had before.
fn next() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The words of a call, see the module.
fn words(text: &str, at: usize, fresh: usize) -> Vec<Vec<u8>> {
    let mut text = text.to_string();
    if let Some((before, (inside, after))) =
        text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        let ten: Vec<String> = (0..10).map(|number| inside.replace('&', &number.to_string())).collect();
        text = format!("{before}{}{after}", ten.join(" "));
    }
    // A multiplicative hash of the number, cut to a million.
    let random = (fresh as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    let text = text.replace('@', &format!("{at:08}")).replace('%', &format!("{:02}", at % 16));
    let text =
        text.replace('#', &format!("{fresh:010}")).replace('~', &format!("{:08}", random % LARGE as u64));
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
