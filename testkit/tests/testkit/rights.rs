//! A user that may use some keys only: whatever words a call has, no other key is read or written.
//!
//! Keys that stand behind a keyword are found twice, by the check of rights and by the command itself. Calls of random words, most of them
//! keywords, show where the two differ: a keyword that is repeated, that is a key, or that is another option's value.
use polder_base::Protocol;
use polder_testkit::caller::Caller;
use polder_testkit::random::Random;
use polder_testkit::scratch::Scratch;

/// What begins a call, and the words that may follow.
const CALLS: &[(&[&str], &[&str])] = &[
    (
        &["SORT", "ok:l"],
        &["STORE", "ok:a", "evil:l", "BY", "GET", "#", "LIMIT", "0", "1", "ALPHA", "DESC", "nosort"],
    ),
    (&["SORT_RO", "ok:l"], &["STORE", "ok:a", "evil:l", "BY", "GET", "#", "LIMIT", "0", "1", "ALPHA"]),
    (
        &["GEORADIUS", "ok:g", "1", "1", "1000", "km"],
        &["STORE", "STOREDIST", "ok:a", "evil:g", "COUNT", "1", "ASC", "ANY"],
    ),
    (
        &["GEORADIUSBYMEMBER", "ok:g", "m", "1000", "km"],
        &["STORE", "STOREDIST", "ok:a", "evil:g", "COUNT", "1", "ASC", "ANY"],
    ),
    (
        &["GEOSEARCHSTORE", "ok:a"],
        &["ok:g", "evil:g", "FROMMEMBER", "m", "BYRADIUS", "9", "km", "STOREDIST", "COUNT", "1"],
    ),
    (&["XREAD"], &["STREAMS", "ok:s", "evil:s", "0", "COUNT", "1"]),
    (&["XREADGROUP"], &["GROUP", "STREAMS", "ok:s", "evil:s", "ok:c", "0", ">", "COUNT", "1", "NOACK"]),
    (
        &["MIGRATE", "127.0.0.1", "1"],
        &["", "ok:l", "evil:l", "0", "10", "COPY", "REPLACE", "KEYS", "AUTH", "AUTH2", "ok:a"],
    ),
    (&["ZUNIONSTORE", "ok:a"], &["1", "2", "ok:z", "evil:z", "WEIGHTS", "AGGREGATE", "SUM"]),
    (&["ZINTER"], &["1", "2", "ok:z", "evil:z", "WEIGHTS", "AGGREGATE", "SUM", "WITHSCORES"]),
    (&["ZMPOP"], &["1", "2", "ok:z", "evil:z", "MIN", "MAX", "COUNT"]),
    (&["LMPOP"], &["1", "2", "ok:l", "evil:l", "LEFT", "RIGHT", "COUNT"]),
    (&["SINTERCARD"], &["1", "2", "ok:t", "evil:t", "LIMIT"]),
    (&["EVAL", "return redis.pcall('get', KEYS[1] or 'evil:k')"], &["0", "1", "2", "ok:k", "evil:k"]),
    (&["BITOP"], &["AND", "NOT", "ok:a", "ok:k", "evil:k"]),
    (&["COPY"], &["ok:k", "evil:k", "ok:a", "DB", "0", "REPLACE"]),
    (&["LMOVE"], &["ok:l", "evil:l", "LEFT", "RIGHT"]),
    (&["MSETEX"], &["1", "2", "ok:k", "evil:k", "NX", "XX", "EX", "10", "KEEPTTL"]),
    (&["SET"], &["ok:k", "evil:k", "GET", "NX", "XX", "EX", "10"]),
];

const FILL: &[&str] = &[
    "FLUSHALL",
    "RPUSH ok:l 2 1",
    "RPUSH evil:l 9 8 secret",
    "GEOADD ok:g 1 1 m",
    "GEOADD evil:g 1 1 m 1 1 secret",
    "XADD ok:s 1-1 f v",
    "XADD evil:s 1-1 f secret",
    "XGROUP CREATE ok:s ok:c 0",
    "XGROUP CREATE ok:s STREAMS 0",
    "XGROUP CREATE evil:s ok:c 0",
    "XGROUP CREATE evil:s STREAMS 0",
    "ZADD ok:z 1 a",
    "ZADD evil:z 1 a 2 secret",
    "SADD ok:t a",
    "SADD evil:t a secret",
    "SET ok:k value",
    "SET evil:k secret",
];

const LOOK: &[&str] = &[
    "LRANGE evil:l 0 -1",
    "ZRANGE evil:g 0 -1 WITHSCORES",
    "XINFO STREAM evil:s FULL",
    "ZRANGE evil:z 0 -1 WITHSCORES",
    "SMEMBERS evil:t",
    "GET evil:k",
];

#[test]
fn no_order_of_words_reaches_a_key_that_the_user_may_not_use() {
    let scratch = Scratch::new();
    let mut owner = Caller::new(1, Protocol::Resp3);
    let mut ask = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        owner.call(&scratch.embedder, &words).expect("one reply").shown()
    };
    ask("ACL SETUSER guest on nopass ~ok:* &* +@all -@admin");
    let mut guest = Caller::new(2, Protocol::Resp3);
    let logged_in = guest.call(&scratch.embedder, &["AUTH", "guest", "any"]).expect("one reply").shown();
    assert_eq!(logged_in, "OK");
    let mut random = Random::new(18);
    for (begin, words) in CALLS {
        FILL.iter().for_each(|line| drop(ask(line)));
        let before: Vec<String> = LOOK.iter().map(|line| ask(line)).collect();
        for _ in 0..1_000 {
            let count = 1 + random.below(9);
            let rest = (0..count).map(|_| *random.pick(words));
            let call: Vec<&str> = begin.iter().copied().chain(rest).collect();
            let reply = guest.call(&scratch.embedder, &call).expect("one reply").shown();
            assert!(!reply.contains("secret"), "{call:?}: {reply}");
            let after: Vec<String> = LOOK.iter().map(|line| ask(line)).collect();
            assert_eq!(before, after, "{call:?}: {reply}");
        }
    }
}

#[test]
fn a_group_named_as_a_keyword_hides_no_key() {
    let scratch = Scratch::new();
    let mut caller = Caller::new(1, Protocol::Resp3);
    let call =
        ["COMMAND", "GETKEYS", "XREADGROUP", "COUNT", "1", "GROUP", "STREAMS", "c", "STREAMS", "evil", ">"];
    assert_eq!(caller.call(&scratch.embedder, &call).expect("one reply").shown(), "1) \"evil\"");
}
