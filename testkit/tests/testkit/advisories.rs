//! One small case for each security advisory of Redis and Valkey that a client's calls can show: `docs/advisories.md` has all of them.
use std::time::{Duration, Instant};

use polder_base::Protocol;
use polder_testkit::arguments;
use polder_testkit::caller::Caller;
use polder_testkit::scratch::Scratch;

/// The longest that one of these calls may take, in a build with checks on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// An advisory, the calls, and what each reply contains.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("CVE-2021-21309", &[("SETRANGE k 9223372036854775807 x", "exceeds maximum allowed size"), ("GETRANGE k 0 -1", "\"\"")]),
    ("CVE-2021-29477", &[("SET a repeat:1000:ab", "OK"), ("SET b repeat:1000:cd", "OK"), ("LCS a b LEN", "(integer) 0")]),
    ("CVE-2021-29478, CVE-2021-32687", &[("CONFIG SET set-max-intset-entries 4294967295", ""), ("SADD s 1 2 3 9223372036854775807", "(integer) 4"), ("SCARD s", "(integer) 4")]),
    ("CVE-2021-32625", &[("LCS absent other IDX MINMATCHLEN 9223372036854775807", "len")]),
    ("CVE-2021-32626", &[("EVAL \"local t = {} local inner = t for i = 1, 3000 do inner[1] = {} inner = inner[1] end return t\" 0", "reached lua stack limit")]),
    ("CVE-2021-32627, CVE-2021-32628, CVE-2021-32762", &[("HSET h f repeat:100000:x", "(integer) 1"), ("HSTRLEN h f", "(integer) 100000"), ("RESTORE z 0 \"\\x0d\\xff\\xff\\xff\\xff\\n\\x00\"", "error")]),
    ("CVE-2021-32672", &[("SCRIPT DEBUG YES", "error")]),
    ("CVE-2021-32761", &[("BITFIELD k SET u8 18446744073709551615 1", "bit offset is not an integer or out of range"), ("BITFIELD k GET i64 #18446744073709551615", "out of range")]),
    ("CVE-2022-0543", &[("EVAL \"return package.loadlib\" 0", "nonexistent global variable 'package'"), ("EVAL \"return io\" 0", "nonexistent global variable 'io'"), ("EVAL \"return os.execute == nil and 1\" 0", "(integer) 1")]),
    ("CVE-2022-24735", &[("EVAL \"redis.call = print\" 0", "error"), ("EVAL \"function string.rep() return 'mine' end\" 0", "Attempt to modify a readonly table"), ("EVAL \"return string.rep('a', 2)\" 0", "\"aa\"")]),
    ("CVE-2022-24736", &[("EVAL \"return loadstring('\\27Lua')\" 0", ""), ("EVAL \"rawset(_G, 'x', 1)\" 0", "Attempt to modify a readonly table"), ("EVAL \"setmetatable(_G, nil)\" 0", "Attempt to modify a readonly table")]),
    ("CVE-2022-31144, CVE-2022-35951", &[
        ("XADD s 1-1 f v", "1-1"), ("XGROUP CREATE s g 0", "OK"), ("XREADGROUP GROUP g c STREAMS s >", "1-1"), ("XDEL s 1-1", "(integer) 1"),
        ("XAUTOCLAIM s g d 0 0 COUNT 9223372036854775807", "error"), ("XAUTOCLAIM s g d 0 0", "0-0"),
    ]),
    ("CVE-2022-35977", &[("RPUSH l 3 1 2", "(integer) 3"), ("SORT l LIMIT 9223372036854775807 9223372036854775807", "empty"), ("SORT l LIMIT 1 9223372036854775807", "\"3\"")]),
    ("CVE-2022-36021, CVE-2024-31228", &[
        ("SET repeat:200:a v", "OK"), ("KEYS a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "empty"),
        ("KEYS repeat:100000:a*", ""), ("PUBSUB CHANNELS repeat:100000:*?", "empty"), ("ACL SETUSER u ~repeat:100000:*", ""),
    ]),
    ("CVE-2022-24834", &[("EVAL \"return #cjson.encode({string.rep('\\1', 3000000)})\" 0", "(integer) 3000004"), ("EVAL \"return #cmsgpack.pack(string.rep('x', 3000000))\" 0", "(integer) 3000005")]),
    ("CVE-2023-22458", &[("HSET h f v", "(integer) 1"), ("HRANDFIELD h -9223372036854775808 WITHVALUES", "out of range"), ("ZADD z 1 a", "(integer) 1"), ("ZRANDMEMBER z -9223372036854775808 WITHSCORES", "out of range")]),
    ("CVE-2023-25155", &[("SADD s a", "(integer) 1"), ("SRANDMEMBER s -9223372036854775808", "out of range")]),
    ("CVE-2023-28425", &[("MSETNX k 1 k 2", "(integer) 1"), ("GET k", "\"2\"")]),
    ("CVE-2023-28856", &[("HSET h f v", "(integer) 1"), ("HINCRBYFLOAT h n inf", "error"), ("HINCRBYFLOAT h n nan", "error"), ("HGETALL h", "\"f\"")]),
    ("CVE-2023-36824", &[("COMMAND GETKEYS EVAL x 9223372036854775807 k", ""), ("COMMAND GETKEYSANDFLAGS ZUNIONSTORE d 4294967297 k", "error"), ("COMMAND GETKEYS EVAL x -1 k", "")]),
    ("CVE-2024-31227, CVE-2024-51741", &[("ACL SETUSER u %~x", "error"), ("ACL SETUSER u (%)", "error"), ("ACL SETUSER u (%R)", ""), ("ACL SETUSER u %R", ""), ("ACL SETUSER u ()", ""), ("ACL GETUSER u", "commands")]),
    ("CVE-2024-31449", &[("EVAL \"return bit.tohex(65535, -2147483648)\" 0", "0000FFFF"), ("EVAL \"return bit.tohex(65535, 2147483647)\" 0", "0000ffff")]),
    ("CVE-2024-46981", &[("EVAL \"local p = newproxy\" 0", "nonexistent global variable 'newproxy'"), ("EVAL \"collectgarbage() collectgarbage('step', 1000) return 1\" 0", "(integer) 1")]),
    ("CVE-2025-32023", &[
        ("SET h \"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\\xff\\x7f\\xff\\x7f\\xff\\x7f\\xff\\xfe\"", "OK"),
        ("PFCOUNT h", "INVALIDOBJ"), ("PFMERGE to h", "INVALIDOBJ"), ("PFCOUNT h h", "INVALIDOBJ"), ("PFDEBUG GETREG h", "error"),
    ]),
    ("CVE-2025-46817", &[("EVAL \"return {unpack({}, 0, 2147483647)}\" 0", "too many results to unpack"), ("EVAL \"return redis.call('SET', unpack({}, -2147483648, 2147483647))\" 0", "too many results to unpack")]),
    ("CVE-2025-46818", &[("EVAL \"getmetatable('').__index = function() return 'mine' end\" 0", "Attempt to modify a readonly table"), ("EVAL \"return getmetatable(1) == nil and getmetatable(true) == nil and getmetatable(print) == nil\" 0", "")]),
    ("CVE-2025-46819", &[("EVAL \"return #[==[x]==]\" 0", "(integer) 1"), ("EVAL \"return [====\" 0", "invalid long string delimiter")]),
    ("CVE-2025-49844", &[("EVAL \"return load(function() collectgarbage() return nil end, string.rep('n', 100))\" 0", "(nil)")]),
    ("CVE-2025-62507", &[("XADD s 1-1 f v", "1-1"), ("XGROUP CREATE s g 0", "OK"), ("XACK s g 1-1 1-2 1-3 1-4 1-5 1-6 1-7 1-8 1-9 1-10 1-11 1-12", "(integer) 0"), ("XACKDEL s g IDS 12 1-1 1-2 1-3 1-4 1-5 1-6 1-7 1-8 1-9 1-10 1-11 1-12", "-1")]),
    ("CVE-2025-67733", &[("EVAL \"return redis.error_reply('x\\\\0\\\\r\\\\n+FAKE')\" 0", "(error) ERR x"), ("EVAL \"return {err = 'ERR a\\\\r\\\\n+FAKE'}\" 0", "ERR a  +FAKE"), ("EVAL \"return {ok = 'a\\\\r\\\\n+FAKE'}\" 0", "a  +FAKE")]),
    ("CVE-2026-25243", &[("RESTORE z 0 \"\\x09\\x0f\\x01\\xfe\\x03\\x00\\x00\\x00\\x66\\x6f\\x6f\\x03\\x00\\x62\\x61\\x72\\xff\\x0b\\x00\\x39\\x59\\xfd\\xf0\\x88\\xf6\\x6c\\xaf\"", "Bad data format"), ("EXISTS z", "(integer) 0")]),
];

#[test]
fn no_known_attack_on_redis_or_valkey_succeeds() {
    let mut wrong = Vec::new();
    for (id, calls) in CASES {
        let scratch = Scratch::new();
        let mut caller = Caller::new(1, Protocol::Resp3);
        for (line, expected) in calls.iter().chain([&("PING", "PONG")]) {
            let start = Instant::now();
            let words = arguments::split(line).unwrap_or_else(|why| panic!("{why}: {line}"));
            let shown = caller.call(&scratch.embedder, &words).expect("one reply").shown();
            let took = start.elapsed();
            if !shown.contains(expected) || took > PATIENCE {
                wrong.push(format!("{id}: {line:.120} took {took:?}: {shown:.200}, expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The page names each case, and the tests that it names exist.
#[test]
fn every_case_is_on_the_page_of_advisories() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let page = std::fs::read_to_string(format!("{root}/docs/advisories.md")).expect("the page");
    for id in CASES.iter().flat_map(|(ids, _)| ids.split(", ")) {
        assert!(page.contains(id), "docs/advisories.md does not name {id}");
    }
}
