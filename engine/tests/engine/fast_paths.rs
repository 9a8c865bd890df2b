//! The fast paths of commands that change one small value reply and leave behind what the slow paths do.
//!
//! Two memories get the same random calls: one from a caller whose calls may take the fast paths, one from a caller whose calls never do
//! (CLIENT NO-TOUCH). After each call both replies are the same, and so are value, encoding and expiry of the key.

use std::sync::Arc;

use polder_engine::{Caller, Memory, Options};

const CALLS: u64 = 40_000;
/// Two clocks are read, one after the other.
const APART_MS: i64 = 2_000;

struct Side {
    memory: Arc<Memory>,
    caller: Caller,
    segment: String,
}

impl Side {
    fn new(name: &str) -> Side {
        let segment = format!("shm:polder-fast-{name}-{}", std::process::id());
        let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
        let memory = Arc::new(Memory::attach(&options).expect("a segment"));
        Side { caller: Caller::new(&memory), memory, segment }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        match self.caller.run(words) {
            Ok(answer) => format!("{:?}", answer.item()),
            Err(error) => error.to_string(),
        }
    }

    fn count(&mut self, section: &str, name: &str) -> String {
        let text = self.ask(&["INFO", section]);
        text.split(name).nth(1).unwrap_or_default().split("\\r").next().unwrap_or_default().to_string()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.segment);
    }
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// `K`: a key of the family, `M`: a member, `N`: a number, `F`: a number that need not be whole, `V`: a value, `T`: a time from now on.
const TEMPLATES: &[&str] = &[
    "SET sK V",
    "SET sK N",
    "SET sK V EX T",
    "SETEX sK T V",
    "SET sK F",
    "GET sK",
    "APPEND sK V",
    "APPEND sK M",
    "GETDEL sK",
    "INCR sK",
    "INCRBYFLOAT sK F",
    "INCRBYFLOAT sK 0.5",
    "INCRBYFLOAT sK -0.5",
    "EXPIRE sK T",
    "PERSIST sK",
    "DEL sK",
    "UNLINK sK",
    "SETRANGE sK 3 M",
    "LPUSH lK M",
    "RPUSH lK V",
    "LPOP lK",
    "RPOP lK",
    "DEL lK",
    "SADD tK M",
    "SADD tK N",
    "SREM tK M",
    "SREM tK N",
    "SREM tK M M",
    "HSET hK M V",
    "HSET hK M N",
    "HDEL hK M",
    "HDEL hK M M",
    "HINCRBY hK M N",
    "HINCRBY hK M x",
    "HINCRBY hK M 9223372036854775807",
    "ZADD zK N M",
    "ZADD zK N M",
    "ZADD zK F M",
    "ZADD zK 1.10 M",
    "ZADD zK x M",
    "ZINCRBY zK N M",
    "ZINCRBY zK 0.10 M",
    "ZREM zK M",
    "ZADD zK CH N M",
    "EXPIRE aK T",
    "EXPIRE aK T NX",
    "EXPIRE aK T GT",
    "EXPIRE aK T XX",
    "EXPIRE aK x",
    "PEXPIRE aK 2000000",
    "EXPIRE aK -1",
    "EXPIREAT aK 4102444800",
    "PEXPIREAT aK 4102444800123 LT",
    "PERSIST aK",
    "UNLINK aK",
    "HPEXPIREAT hK 4102444800123 FIELDS 1 M",
    "HDEL aK M",
];

fn call(draw: &mut Draw, template: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (at, word) in template.split(' ').enumerate() {
        let number = draw.below(12);
        words.push(match word {
            _ if at == 0 => word.into(),
            "M" => ["", "a", "member", "a-longer-member-of-a-collection"][number as usize % 4]
                .repeat(1 + number as usize / 4),
            "N" => (draw.below(300) as i64 - 150).to_string(),
            "F" => draw.one(&["0.5", "-1.25", "3.10", "1e3", "-0", "17"]).into(),
            "V" => draw.one(&["v", "0123456789abcdef", "123"]).repeat([1, 2, 9, 60][draw.below(4) as usize]),
            "T" => (1_000 + 1_000 * draw.below(5)).to_string(),
            word => match word.strip_suffix('K') {
                Some("a") => format!("{}{}", draw.one(&["s", "l", "t", "h", "z"]), key(number)),
                Some(family) => format!("{family}{}", key(number)),
                None => word.into(),
            },
        });
    }
    words
}

/// Short keys, and one that lets no value lie inline.
fn key(number: u64) -> String {
    if number == 11 { "k".repeat(60) } else { number.to_string() }
}

#[test]
fn fast_paths_and_slow_paths_reply_and_leave_behind_the_same() {
    let (mut fast, mut slow, mut draw) = (Side::new("fast"), Side::new("slow"), Draw(88_172_645_463_325_252));
    slow.ask(&["CLIENT", "NO-TOUCH", "ON"]);
    for side in [&mut fast, &mut slow] {
        for (name, value) in [
            ("zset-max-listpack-entries", "5"),
            ("hash-max-listpack-value", "40"),
            ("set-max-listpack-entries", "6"),
        ] {
            side.ask(&["CONFIG", "SET", name, value]);
        }
    }
    for number in 0..CALLS {
        let template = draw.one(TEMPLATES);
        let words = call(&mut draw, template);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(fast.ask(&words), slow.ask(&words), "call {number}: {words:?}");
        let key = words[1];
        for look in [&["DUMP", key][..], &["OBJECT", "ENCODING", key]] {
            assert_eq!(fast.ask(look), slow.ask(look), "call {number}: {words:?}, then {look:?}");
        }
        let expiry = |side: &mut Side| {
            side.caller.show(&["PEXPIRETIME", key], |item| item.integer()).expect("a time").expect("a number")
        };
        let (one, other) = (expiry(&mut fast), expiry(&mut slow));
        assert!(
            (one - other).abs() < APART_MS && (one < 0) == (other < 0),
            "call {number}: {words:?}: {one} and {other}"
        );
    }
    for (section, name) in [
        ("stats", "keyspace_hits"),
        ("stats", "keyspace_misses"),
        ("persistence", "rdb_changes_since_last_save"),
    ] {
        assert_eq!(fast.count(section, name), slow.count(section, name), "{name}");
    }
    for side in [fast, slow] {
        let report = side.memory.table().verify().expect("a seat");
        assert!(report.is_clean(), "{report}");
    }
}
