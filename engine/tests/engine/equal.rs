//! Every typed call replies and leaves behind what its command does, by itself and inside of a transaction.
//!
//! ```text
//!   row: words of a command => typed call
//!   database 1: the words        database 0: the typed call        database 2: the typed call in a transaction
//!   after each row the three replies (or error texts) are the same, and so are all keys of the three databases
//! ```
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use polder_calls::command::{BLOCKING, INTERNAL};
use polder_engine::{Caller, Database, FieldExpiry, Item, Keys, Lifetime, Memory, Options, Step, Stop};

/// A typed reply, or the error text.
type Shown = Result<String, Stop>;

struct Row {
    words: &'static str,
    alone: fn(&Database<'_>) -> Shown,
    inside: fn(&Keys<'_>) -> Shown,
}

/// Rows `"WORDS OF THE CALL" => db.call(...);`: the same typed call on both kinds of a database.
macro_rules! rows {
    ($db:ident; $($words:literal => $call:expr;)*) => {
        &[$(crate::equal::Row {
            words: $words,
            alone: |$db| $call.map(|reply| crate::equal::Show::shown(&reply)),
            inside: |$db| $call.map(|reply| crate::equal::Show::shown(&reply)),
        }),*]
    };
}

mod collections;
mod keys;
mod sets;
mod streams;

const TABLES: &[&[Row]] =
    &[keys::ROWS, collections::LISTS, collections::HASHES, sets::SETS, sets::SORTED_SETS, streams::STREAMS];

/// Commands of the groups below without a typed call, and why.
const WITHOUT: &[(&str, &str)] = &[
    // ITEM.* are calls of the Memcached protocols.
    ("EXPIRE", "PEXPIRE is more precise"),
    ("EXPIREAT", "PEXPIREAT"),
    ("EXPIRETIME", "PEXPIRETIME"),
    ("TTL", "PTTL"),
    ("HEXPIRE", "HPEXPIRE"),
    ("HEXPIREAT", "HPEXPIREAT"),
    ("HEXPIRETIME", "HPEXPIRETIME"),
    ("HTTL", "HPTTL"),
    ("XINFO", "what it shows differs between versions"),
    ("XSETID", "it serves replication"),
    ("DELEX", "newer than Redis 7.4: PLAN.md"),
    ("DELIFEQ", "newer than Redis 7.4: PLAN.md"),
    ("DIGEST", "newer than Redis 7.4: PLAN.md"),
    ("HIMPORT", "newer than Redis 7.4: PLAN.md"),
    ("INCREX", "newer than Redis 7.4: PLAN.md"),
    ("LMOVEM", "newer than Redis 7.4: PLAN.md"),
    ("MSETEX", "newer than Redis 7.4: PLAN.md"),
    ("SDIFFCARD", "newer than Redis 7.4: PLAN.md"),
    ("SUNIONCARD", "newer than Redis 7.4: PLAN.md"),
    ("XACKDEL", "newer than Redis 7.4: PLAN.md"),
    ("XCFGSET", "newer than Redis 7.4: PLAN.md"),
    ("XDELEX", "newer than Redis 7.4: PLAN.md"),
    ("XIDMPRECORD", "newer than Redis 7.4: PLAN.md"),
    ("XNACK", "newer than Redis 7.4: PLAN.md"),
];

/// What a typed reply is as text: its leaves, as those of the reply by words.
trait Show {
    fn shown(&self) -> String;
}

impl Show for () {
    fn shown(&self) -> String {
        "OK".into()
    }
}

impl Show for bool {
    fn shown(&self) -> String {
        u8::from(*self).to_string()
    }
}

macro_rules! show_as_text {
    ($($type:ty),*) => {$(
        impl Show for $type {
            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
show_as_text!(i64, u64, f64, String, &str);

impl Show for Vec<u8> {
    fn shown(&self) -> String {
        String::from_utf8_lossy(self).into_owned()
    }
}

impl<T: Show> Show for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or("nil".into(), Show::shown)
    }
}

impl<T: Show> Show for Vec<T> {
    fn shown(&self) -> String {
        self.iter().map(Show::shown).collect::<Vec<_>>().join(" ")
    }
}

impl<A: Show, B: Show> Show for (A, B) {
    fn shown(&self) -> String {
        format!("{} {}", self.0.shown(), self.1.shown())
    }
}

impl<T: Show> Show for Step<T> {
    fn shown(&self) -> String {
        format!("{} {}", self.cursor, self.found.shown())
    }
}

impl Show for Lifetime<SystemTime> {
    fn shown(&self) -> String {
        let since = |time: &SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).expect("a time of today").as_millis()
        };
        match self {
            Lifetime::Absent => "-2".into(),
            Lifetime::Endless => "-1".into(),
            Lifetime::Ends(time) => since(time).to_string(),
        }
    }
}

/// Of a time that is left only the minutes: the calls are made one after another.
impl Show for Lifetime<Duration> {
    fn shown(&self) -> String {
        match self {
            Lifetime::Absent => "-2".into(),
            Lifetime::Endless => "-1".into(),
            Lifetime::Ends(left) => format!("{} minutes", left.as_secs().div_ceil(60)),
        }
    }
}

impl Show for FieldExpiry {
    fn shown(&self) -> String {
        let said = match self {
            FieldExpiry::Absent => -2,
            FieldExpiry::Endless => -1,
            FieldExpiry::Unmet => 0,
            FieldExpiry::Done => 1,
            FieldExpiry::Deleted => 2,
        };
        said.to_string()
    }
}

/// The leaves of a reply by words.
fn leaves(item: Item<'_>) -> String {
    match item {
        Item::Null => "nil".into(),
        Item::Integer(value) => value.to_string(),
        Item::Double(value) => value.to_string(),
        Item::Boolean(value) => u8::from(value).to_string(),
        Item::Array(items) | Item::Map(items) | Item::Set(items) | Item::Push(items) => {
            items.map(leaves).collect::<Vec<_>>().join(" ")
        }
        other => String::from_utf8_lossy(other.bytes().unwrap_or_default()).into_owned(),
    }
}

struct Scratch {
    memory: Arc<Memory>,
    caller: Caller,
    segment: String,
}

impl Scratch {
    fn new(name: &str) -> Scratch {
        let segment = format!("shm:polder-equal-{name}-{}", std::process::id());
        let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
        let memory = Arc::new(Memory::attach(&options).expect("a segment"));
        Scratch { caller: Caller::new(&memory), memory, segment }
    }

    /// The reply in a database, or the error text.
    fn say(&mut self, database: u8, words: &[impl AsRef<[u8]>]) -> String {
        self.caller.run(&["SELECT", &database.to_string()]).expect("a database");
        self.caller.run(words).map_or_else(|error| error.to_string(), |answer| leaves(answer.item()))
    }

    /// All keys of a database with a digest of each, and when they expire.
    fn contents(&mut self, database: u8) -> (BTreeSet<(String, String)>, Vec<i64>) {
        let names: BTreeSet<String> =
            self.say(database, &["KEYS", "*"]).split(' ').map(String::from).collect();
        let expiries = names
            .iter()
            .map(|name| self.say(database, &["PEXPIRETIME", name]).parse().expect("a time"))
            .collect();
        let mut digest = |name: String| {
            let value = self.say(database, &["DEBUG", "DIGEST-VALUE", &name]);
            (name, value)
        };
        (names.into_iter().map(&mut digest).collect(), expiries)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.segment);
    }
}

fn text(shown: Shown) -> String {
    shown.unwrap_or_else(|stop| stop.to_string())
}

/// Where MOVE moves keys to.
const MOVED: u8 = 9;

/// Runs the rows of a table one after another.
fn check(rows: &[Row]) {
    let mut scratch = Scratch::new(rows[0].words.split(' ').next().expect("a name"));
    for Row { words, alone, inside } in rows {
        let said = scratch.say(1, &words.split(' ').collect::<Vec<_>>());
        scratch.say(MOVED, &["FLUSHDB"]);
        // A list that is none is empty in Rust.
        let said = |typed: &str| if said == "nil" && typed.is_empty() { String::new() } else { said.clone() };
        let typed = text(alone(&scratch.memory.database(0)));
        assert_eq!(typed, minutes(words, said(&typed)), "{words}");
        scratch.say(MOVED, &["FLUSHDB"]);
        let typed = text(scratch.memory.database(2).transaction(&[] as &[&str], inside));
        assert_eq!(typed, minutes(words, said(&typed)), "{words}, in a transaction");
        let (contents, expiries) = scratch.contents(1);
        for database in [0, 2] {
            let (same, near) = scratch.contents(database);
            assert_eq!(same, contents, "{words}, database {database}");
            // What expires after a time does so a little later in the next database.
            let is_near = |(one, other): (&i64, &i64)| (one - other).abs() < 60_000;
            assert!(
                near.iter().zip(&expiries).all(is_near),
                "{words}, database {database}: {near:?} {expiries:?}"
            );
        }
    }
}

/// Of times that are left only the minutes.
fn minutes(words: &str, said: String) -> String {
    let name = words.split(' ').next().unwrap_or_default();
    let left = |left: &str| match left.parse::<u64>() {
        Ok(left_ms) => format!("{} minutes", left_ms.div_ceil(60_000)),
        Err(_) => left.into(),
    };
    if matches!(name, "PTTL" | "HPTTL") {
        said.split(' ').map(left).collect::<Vec<_>>().join(" ")
    } else {
        said
    }
}

#[test]
fn keys_and_strings_are_what_their_commands_make_of_them() {
    check(keys::ROWS);
}

#[test]
fn lists_are_what_their_commands_make_of_them() {
    check(collections::LISTS);
}

#[test]
fn hashes_are_what_their_commands_make_of_them() {
    check(collections::HASHES);
}

#[test]
fn sets_are_what_their_commands_make_of_them() {
    check(sets::SETS);
}

#[test]
fn sorted_sets_are_what_their_commands_make_of_them() {
    check(sets::SORTED_SETS);
}

#[test]
fn streams_are_what_their_commands_make_of_them() {
    check(streams::STREAMS);
}

/// The groups whose commands have typed calls.
const GROUPS: &[&str] = &["string", "list", "hash", "set", "sorted-set", "stream", "hyperloglog"];

#[test]
fn every_command_that_is_not_deprecated_has_a_typed_call() {
    let named: BTreeSet<&str> =
        TABLES.iter().copied().flatten().map(|row| row.words.split(' ').next().unwrap_or_default()).collect();
    let excused = |command: &polder_calls::Command| {
        command.replaced.is_some()
            || command.has(BLOCKING | INTERNAL)
            || command.name.starts_with("ITEM.")
            || WITHOUT.iter().any(|(name, _)| *name == command.container())
    };
    let missing: Vec<&str> = polder_engine::COMMANDS
        .all()
        .filter(|(family, command)| {
            GROUPS.contains(&family.group) && !excused(command) && !named.contains(command.container())
        })
        .map(|(_, command)| command.name)
        .collect();
    assert_eq!(missing, [""; 0], "give these typed calls, or say in WITHOUT why not");
}

#[test]
fn keys_fields_and_elements_may_hold_every_byte() {
    let scratch = Scratch::new("bytes");
    let db = scratch.memory.database(0);
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [&b""[..], b"\0", b"\r\n", &all] {
        db.set(bytes, bytes).expect("room");
        assert_eq!(db.get(bytes).expect("readable").as_deref(), Some(bytes));
        assert_eq!(db.del(&[bytes]), Ok(1));
        db.hset(bytes, &[(bytes, bytes)]).expect("room");
        assert_eq!(db.hgetall(bytes).expect("readable"), [(bytes.to_vec(), bytes.to_vec())]);
        assert_eq!(db.del(&[bytes]), Ok(1));
        db.rpush(bytes, &[bytes, bytes]).expect("room");
        assert_eq!(db.lrange(bytes, 0, -1).expect("readable"), [bytes, bytes]);
        assert_eq!(db.del(&[bytes]), Ok(1));
    }
}

#[test]
fn a_refused_call_tells_its_code_and_changes_nothing() {
    let scratch = Scratch::new("codes");
    let db = scratch.memory.database(0);
    db.set("text", "words").expect("room");
    assert_eq!(db.lpush("text", &["a"]).expect_err("a string").code(), "WRONGTYPE");
    assert_eq!(db.incr("text").expect_err("no number").code(), "ERR");
    // Inside of a transaction, a refused call may be passed over.
    let done = db.transaction(&["text", "list"], |keys| {
        let refused = keys.hset("text", &[("f", "v")]);
        assert!(matches!(refused, Err(Stop::Refused(_))));
        keys.rpush("list", &["a"])
    });
    assert_eq!((done, db.llen("list")), (Ok(1), Ok(1)));
}
