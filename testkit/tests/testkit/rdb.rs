//! RDB files of real servers: every type and encoding, small and large, compressed or not, is read, written anew by us,
//! and loaded by the same server, which then holds the same.
//!
//! The same files are loaded by `polder serve`, compared, saved, and loaded by the real server; and each key goes both ways by DUMP and
//! RESTORE. A server that is not installed is left out, and the test says so.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polder_engine::Memory;
use polder_testkit::answer::Answer;
use polder_testkit::process::{Server, on_path, polder, valkey};
use polder_testkit::random::Random;
use polder_testkit::resp::Connection;
use polder_wire::rdb::{
    Form, Id, Item, Kind, ListPlan, Reader, StreamFacts, StreamNeeds, StreamPlan, Thresholds, Writer,
};

type Bytes = Vec<u8>;

/// What a key holds, as the file tells it.
#[derive(Default)]
struct Held {
    kind: Option<Kind>,
    key: Bytes,
    expiry_ms: Option<u64>,
    /// Elements, members, or a stream's entries with their pairs.
    texts: Vec<Bytes>,
    fields: Vec<(Bytes, Bytes, Option<u64>)>,
    scores: Vec<(Bytes, f64)>,
    entries: Vec<(Id, Vec<(Bytes, Bytes)>)>,
    facts: StreamFacts,
    groups: Vec<Group>,
}

#[derive(Default)]
struct Group {
    name: Bytes,
    last: Id,
    read: Option<u64>,
    pending: Vec<(Id, u64, u64)>,
    consumers: Vec<(Bytes, u64, Option<u64>, Vec<Id>)>,
}

impl Held {
    fn add(&mut self, item: &Item<'_>) {
        match *item {
            Item::Text(text) | Item::Element(text) | Item::Member(text) => self.texts.push(text.to_vec()),
            Item::Field { field, value, expiry_ms } => {
                self.fields.push((field.to_vec(), value.to_vec(), expiry_ms))
            }
            Item::Scored { member, score, .. } => self.scores.push((member.to_vec(), score)),
            Item::Entry { id, .. } => self.entries.push((id, Vec::new())),
            Item::Pair { field, value } => {
                self.entries.last_mut().unwrap().1.push((field.to_vec(), value.to_vec()))
            }
            Item::Stream(facts) => self.facts = facts,
            Item::Group { name, last, read } => {
                self.groups.push(Group { name: name.to_vec(), last, read, ..Group::default() })
            }
            Item::Pending { id, delivered_ms, deliveries } => {
                self.groups.last_mut().unwrap().pending.push((id, delivered_ms, deliveries));
            }
            Item::Consumer { name, seen_ms, active_ms } => {
                self.groups.last_mut().unwrap().consumers.push((
                    name.to_vec(),
                    seen_ms,
                    active_ms,
                    Vec::new(),
                ));
            }
            Item::Owned(id) => self.groups.last_mut().unwrap().consumers.last_mut().unwrap().3.push(id),
            ref other => panic!("{other:?} inside a value"),
        }
    }

    fn write(&mut self, writer: &mut Writer) {
        writer.key(&self.key, self.expiry_ms, None, None);
        match self.kind.unwrap() {
            Kind::String => writer.text(&self.texts[0]),
            Kind::List => {
                let mut plan = ListPlan::default();
                for element in &self.texts {
                    plan.add(element);
                }
                writer.begin_list(plan.nodes());
                self.texts.iter().for_each(|element| writer.element(element));
            }
            Kind::Set => {
                writer.begin_set(self.texts.len() as u64);
                self.texts.iter().for_each(|member| writer.member(member));
            }
            Kind::Hash => {
                writer.begin_hash(
                    self.fields.len() as u64,
                    self.fields.iter().filter_map(|field| field.2).min(),
                );
                self.fields.iter().for_each(|(field, value, expiry)| writer.field(field, value, *expiry));
            }
            Kind::SortedSet => {
                // Real servers write large ones from the end.
                self.scores
                    .sort_by(|one, two| one.1.partial_cmp(&two.1).unwrap().then_with(|| one.0.cmp(&two.0)));
                writer.begin_sorted_set(self.scores.len() as u64);
                self.scores.iter().for_each(|(member, score)| writer.scored(member, *score, None));
            }
            Kind::Stream => self.write_stream(writer),
            Kind::Array => unreachable!("the servers at hand know no arrays"),
        }
        writer.end();
    }

    fn write_stream(&self, writer: &mut Writer) {
        let mut plan = StreamPlan::default();
        for (_, pairs) in &self.entries {
            plan.add(pairs.iter().map(|(field, value)| field.len() + value.len()).sum());
        }
        writer.begin_stream(plan.nodes(), StreamNeeds::default());
        for (id, pairs) in &self.entries {
            let pairs: Vec<(&[u8], &[u8])> =
                pairs.iter().map(|(field, value)| (&field[..], &value[..])).collect();
            writer.entry(*id, &pairs);
        }
        writer.facts(&self.facts, self.groups.len() as u64);
        for group in &self.groups {
            writer.group(&group.name, group.last, group.read, group.pending.len() as u64);
            group
                .pending
                .iter()
                .for_each(|(id, delivered_ms, deliveries)| writer.pending(*id, *delivered_ms, *deliveries));
            writer.consumers(group.consumers.len() as u64);
            for (name, seen_ms, active_ms, owned) in &group.consumers {
                writer.consumer(name, *seen_ms, *active_ms, owned.len() as u64);
                owned.iter().for_each(|id| writer.owned(*id));
            }
        }
    }
}

/// Reads a file and writes it anew. Returns how many keys of each kind there were.
fn rewrite(source: &Path, target: &Path, form: Form, compresses: bool) -> BTreeMap<String, usize> {
    let bytes = std::fs::read(source).unwrap();
    let (mut reader, mut taken, mut counts) = (Reader::file(true, false), 0, BTreeMap::new());
    let (mut writer, mut out) = (Writer::new(form, compresses, Thresholds::default()), Vec::new());
    let (mut held, mut ended) = (Held::default(), false);
    writer.begin_file(true);
    while let Some(item) = reader.read(&bytes, &mut taken).unwrap() {
        match item {
            Item::Aux { name, value } => writer.aux(name, value),
            Item::Database(number) => writer.database(number),
            Item::Sizes { keys, expiries } => writer.sizes(keys, expiries),
            Item::Functions(source) => writer.functions(source),
            Item::Begin(begin) => {
                *counts.entry(format!("{:?}", begin.kind)).or_default() += 1;
                let (key, kind, expiry_ms) = (begin.key.to_vec(), Some(begin.kind), begin.expiry_ms);
                held = Held { key, kind, expiry_ms, ..Held::default() };
            }
            Item::End => {
                held.write(&mut writer);
                out.extend_from_slice(writer.bytes());
                writer.taken();
            }
            Item::Eof => ended = true,
            other => held.add(&other),
        }
    }
    assert!(ended && taken == bytes.len(), "the file was read to its end");
    let line = writer.end_file();
    out.extend_from_slice(writer.bytes());
    if let Some(line) = line {
        out[..9].copy_from_slice(&line);
    }
    std::fs::write(target, out).unwrap();
    counts
}

/// A text as people have them: a number, a word, binary, long and dull, long and not.
fn text(random: &mut Random, long: usize) -> Bytes {
    match random.below(9) {
        0 => random.below(300).to_string().into_bytes(),
        1 => (-(random.below(1 << 40) as i64)).to_string().into_bytes(),
        2 => (0..random.below(long)).map(|_| random.below(256) as u8).collect(),
        3 => vec![b'a' + random.below(26) as u8; random.below(long)],
        4 => b"the quick brown fox ".repeat(random.below(1 + long / 20)),
        _ => format!("word-{:x}", random.below(1 << 30)).into_bytes(),
    }
}

/// Every type in sizes around the thresholds of packed forms.
fn fill(server: &mut Connection, seed: u64) {
    let mut random = Random::new(seed);
    let mut call = |args: &[&[u8]]| {
        let answer = server.call(args).unwrap();
        assert!(!matches!(answer, Answer::Error(_)), "{answer:?}");
    };
    for size in [0usize, 1, 11, 12, 20, 21, 63, 64, 4095, 4096, 16383, 16384, 3_000_000] {
        for (name, byte) in [("dull", 0), ("noise", 255)] {
            let value: Bytes = (0..size).map(|_| random.below(1 + byte) as u8).collect();
            call(&[b"SET", format!("string:{name}:{size}").as_bytes(), &value]);
        }
    }
    for number in [0i64, -1, 127, 128, -129, 40_000, 1 << 31, -(1 << 31), i64::MAX, i64::MIN] {
        call(&[
            b"SET",
            format!("number:{number}").as_bytes(),
            number.to_string().as_bytes(),
            b"PX",
            b"100000000",
        ]);
    }
    call(&[b"SET", b"", b"an empty key"]);
    call(&[b"SELECT", b"9"]);
    call(&[b"SET", &b"a long key that is well compressed ".repeat(40), b"v"]);
    call(&[b"SELECT", b"0"]);
    for (number, size) in [1, 2, 100, 127, 128, 129, 511, 512, 513, 3000].into_iter().enumerate() {
        for long in [10, 60, 70, 9000] {
            if long > 1000 && size > 600 {
                continue;
            }
            let key = |name: &str| format!("{name}:{size}:{long}").into_bytes();
            for _ in 0..size {
                let (one, two) = (text(&mut random, long), text(&mut random, long));
                call(&[b"RPUSH", &key("list"), &one]);
                call(&[b"HSET", &key("hash"), &one, &two]);
                call(&[b"SADD", &key("set"), &one]);
                let score = match random.below(6) {
                    0 => "inf".to_owned(),
                    1 => "-inf".to_owned(),
                    2 => format!("{}", random.below(1000)),
                    // Polder keeps no negative zero.
                    3 => "0".to_owned(),
                    _ => format!("{}", random.below(1 << 50) as f64 / 1e7),
                };
                call(&[b"ZADD", &key("zset"), score.as_bytes(), &one]);
                let width = [1 << 8, 1 << 20, 1 << 60][number % 3];
                call(&[b"SADD", &key("integers"), (random.below(width) as i64 - 100).to_string().as_bytes()]);
            }
        }
    }
    fill_streams(&mut call, &mut random);
}

fn fill_streams(call: &mut dyn FnMut(&[&[u8]]), random: &mut Random) {
    for size in [1, 99, 101, 1000] {
        let key = format!("stream:{size}");
        let key = key.as_bytes();
        for number in 1..=size {
            let id = format!("{}-{}", number / 3 * 7, number);
            let value = text(random, 200);
            if number % 10 == 3 {
                call(&[b"XADD", key, id.as_bytes(), b"other", &value, b"", b"y"]);
            } else {
                call(&[b"XADD", key, id.as_bytes(), b"field", &value, b"n", b"17"]);
            }
            if number % 4 == 1 {
                call(&[b"XDEL", key, id.as_bytes()]);
            }
        }
        call(&[b"XGROUP", b"CREATE", key, b"early", b"0"]);
        call(&[b"XGROUP", b"CREATE", key, b"late", b"$"]);
        call(&[b"XGROUP", b"CREATECONSUMER", key, b"early", b"idle"]);
        for consumer in [&b"a"[..], b"b"] {
            call(&[b"XREADGROUP", b"GROUP", b"early", consumer, b"COUNT", b"7", b"STREAMS", key, b">"]);
        }
        call(&[b"XCLAIM", key, b"early", b"b", b"0", b"2-2", b"4-1"]);
    }
    call(&[b"XGROUP", b"CREATE", b"stream:empty", b"g", b"$", b"MKSTREAM"]);
}

/// What a key holds: a digest, or a sorted set's members with their scores, which Valkey 8 digests as it prints them.
fn value(server: &mut Connection, key: &[u8]) -> String {
    if !key.starts_with(b"zset") {
        return server.call(&[&b"DEBUG"[..], b"DIGEST-VALUE", key]).unwrap().shown();
    }
    let Answer::Array(parts) = server.call(&[&b"ZRANGE"[..], key, b"0", b"-1", b"WITHSCORES"]).unwrap()
    else {
        panic!("ZRANGE answers an array")
    };
    let score = |answer: &Answer| match answer {
        Answer::Bulk(text) => String::from_utf8_lossy(text).parse::<f64>().unwrap().to_bits().to_string(),
        other => panic!("{other:?} is no score"),
    };
    parts
        .chunks(2)
        .map(|pair| format!("{} {}", pair[0].shown(), score(&pair[1])))
        .collect::<Vec<_>>()
        .join("; ")
}

/// What the server holds: each key's value, and what the digest leaves out of streams.
fn state(server: &mut Connection) -> Vec<String> {
    let mut found = vec![server.call(&["FUNCTION", "LIST", "WITHCODE"]).unwrap().shown()];
    for db in ["9", "0"] {
        server.call(&["SELECT", db]).unwrap();
        let Answer::Array(mut keys) = server.call(&["KEYS", "*"]).unwrap() else {
            panic!("KEYS answers an array")
        };
        keys.sort_by_key(Answer::shown);
        for key in &keys {
            let Answer::Bulk(name) = key else { panic!("a key is a string") };
            found.push(format!("{db} {} {}", key.shown(), value(server, name)));
        }
    }
    let mut ask = |args: &[&str]| server.call(args).unwrap();
    for stream in ["stream:1", "stream:99", "stream:101", "stream:1000", "stream:empty"] {
        let shown = ask(&["XINFO", "STREAM", stream, "FULL", "COUNT", "0"]).shown();
        // How entries lie in nodes is the writer's business, and version 10 does not say when a consumer was last given one.
        let lines: Vec<&str> = shown
            .lines()
            .map(|line| line.trim_start_matches(|sign: char| " )".contains(sign) || sign.is_ascii_digit()))
            .collect();
        let is_left_out = |at: usize| {
            ["radix-tree", "active-time", "idmp-", "pids-", "iids-"]
                .iter()
                .any(|name| lines[at].contains(name))
        };
        let is_kept = |at: &usize| !is_left_out(*at) && (*at == 0 || !is_left_out(*at - 1));
        let kept = (0..lines.len()).filter(is_kept);
        found.push(kept.map(|at| lines[at]).collect::<Vec<_>>().join("\n"));
    }
    for key in ["number:127", "number:-1"] {
        found.push(ask(&["PEXPIRETIME", key]).shown());
    }
    found
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("polder-rdb-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn server(&self, program: &Path, file: &str, more: &[&str]) -> Server {
        let mut flags =
            vec!["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"];
        flags.extend(["--dir", self.0.to_str().unwrap(), "--dbfilename", file]);
        flags.extend(more);
        Server::start(program, &flags).unwrap()
    }

    /// A server that has loaded a file.
    fn loaded(&self, program: &Path, file: &str) -> (Server, Connection) {
        let server = self.server(program, file, &["--sanitize-dump-payload", "yes"]);
        let mut connection = Connection::open(&server.address()).unwrap();
        while matches!(connection.call(&["PING"]).unwrap(), Answer::Error(_)) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        (server, connection)
    }
}

fn same(found: &[String], expected: &[String], what: &str) {
    for (one, two) in found.iter().zip(expected) {
        assert_eq!(one, two, "{what}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// The file of a real server is loaded by ours, and ours by the real one; then each key goes both ways.
fn through_polder(
    folder: &Folder,
    program: &Path,
    file: &str,
    compresses: &str,
    theirs: &mut Connection,
    expected: &[String],
) {
    let segment = format!(
        "shm:polder-test-{}-rdb-{}",
        std::process::id(),
        folder.0.file_name().unwrap().to_string_lossy()
    );
    let flags = [
        "--dir",
        folder.0.to_str().unwrap(),
        "--dbfilename",
        file,
        "--segment-size",
        "512mb",
        "--rdbcompression",
        compresses,
    ];
    {
        let flags = [&flags[..], &["--enable-protected-configs", "yes"]].concat();
        let server = Server::start_polder(&polder(), &segment, &flags).unwrap();
        let mut ours = Connection::open(&server.address()).unwrap();
        same(&state(&mut ours), expected, "polder has loaded it");
        assert_eq!(
            ours.call(&["CONFIG", "SET", "dbfilename", "polder.rdb"]).unwrap(),
            Answer::Status("OK".into())
        );
        assert_eq!(ours.call(&["SAVE"]).unwrap(), Answer::Status("OK".into()));
        let (_new, mut connection) = folder.loaded(program, "polder.rdb");
        same(&state(&mut connection), expected, "what polder saved was loaded");
        assert_eq!(ours.call(&["DEBUG", "RELOAD"]).unwrap(), Answer::Status("OK".into()));
        same(&state(&mut ours), expected, "polder has loaded what it saved");
        exchange(theirs, &mut ours);
        migrate(folder, program, &mut ours);
    }
    Memory::remove(&segment).unwrap();
}

/// Keys go to a real server by MIGRATE.
fn migrate(folder: &Folder, program: &Path, ours: &mut Connection) {
    let (server, mut theirs) = folder.loaded(program, "nothing.rdb");
    let port = server.port().to_string();
    let mut ask = |line: &str| {
        let words: Vec<String> =
            line.replace("PORT", &port).split(' ').map(|word| word.replace("EMPTY", "")).collect();
        ours.call(&words).unwrap().shown().trim_end().to_owned()
    };
    ask("SELECT 5");
    ask("SET one 1 PX 1000000");
    ask("RPUSH two a b c");
    ask("SET three 3");
    assert_eq!(ask("MIGRATE 127.0.0.1 PORT one 3 1000 COPY"), "OK");
    assert_eq!(ask("EXISTS one"), "(integer) 1");
    assert_eq!(
        ask("MIGRATE 127.0.0.1 PORT one 3 1000"),
        "(error) ERR Target instance replied with error: BUSYKEY Target key name already exists."
    );
    assert_eq!(ask("MIGRATE 127.0.0.1 PORT EMPTY 3 1000 REPLACE KEYS one two nope"), "OK");
    assert_eq!(ask("EXISTS one two"), "(integer) 0");
    assert_eq!(
        ask("MIGRATE 127.0.0.1 PORT three 99 1000"),
        "(error) ERR Target instance replied with error: ERR DB index is out of range"
    );
    assert_eq!(
        ask("MIGRATE 127.0.0.1 PORT three 3 1000 AUTH wrong").split(" error: ").next(),
        Some("(error) ERR Target instance replied with")
    );
    assert_eq!(ask("GET three"), "\"3\"");
    theirs.call(&["SELECT", "3"]).unwrap();
    assert_eq!(theirs.call(&["LRANGE", "two", "0", "-1"]).unwrap().shown(), "1) \"a\"\n2) \"b\"\n3) \"c\"");
    assert!(matches!(theirs.call(&["PTTL", "one"]).unwrap(), Answer::Integer(900_000..=1_000_000)));
    // The transfer waits for a server that does not answer; the event loop goes on meanwhile.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = deaf.local_addr().unwrap().port().to_string();
    ours.send(&["MIGRATE", "127.0.0.1", &port, "three", "0", "300"]).unwrap();
    assert_eq!(
        ours.receive().unwrap().shown().trim_end(),
        "(error) IOERR error or timeout reading to target instance"
    );
    ours.call(&["SELECT", "0"]).unwrap();
}

/// Each key by DUMP and RESTORE, from one to the other and back.
fn exchange(theirs: &mut Connection, ours: &mut Connection) {
    let Answer::Array(keys) = theirs.call(&["KEYS", "*"]).unwrap() else { panic!("KEYS answers an array") };
    for key in keys {
        let Answer::Bulk(key) = key else { panic!("a key is a string") };
        let expected = value(theirs, &key);
        let carried: &[u8] = if key.starts_with(b"zset") { b"zset carried" } else { b"carried" };
        let carry = |from: &mut Connection, to: &mut Connection| {
            let Answer::Bulk(payload) = from.call(&[&b"DUMP"[..], &key]).unwrap() else {
                panic!("DUMP answers a string")
            };
            let answer = to.call(&[&b"RESTORE"[..], carried, b"0", &payload, b"REPLACE"]).unwrap();
            assert_eq!(answer, Answer::Status("OK".into()), "{}", key.escape_ascii());
            to.call(&[&b"PEXPIRE"[..], carried, b"1000000"]).unwrap();
            from.call(&[&b"PTTL"[..], &key]).unwrap()
        };
        let expires = carry(theirs, ours) != Answer::Integer(-1);
        if !expires {
            ours.call(&[&b"PERSIST"[..], carried]).unwrap();
        }
        assert_eq!(value(ours, carried), expected, "RESTORE of {}", key.escape_ascii());
        carry(ours, theirs);
        if !expires {
            theirs.call(&[&b"PERSIST"[..], carried]).unwrap();
        }
        assert_eq!(value(theirs, carried), expected, "DUMP of {}", key.escape_ascii());
    }
    theirs.call(&["DEL", "carried", "zset carried"]).unwrap();
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check(program: &Path, name: &str, forms: &[Form]) {
    let folder = Folder::new(name);
    for (number, compresses) in ["yes", "no"].into_iter().enumerate() {
        let file = format!("{compresses}.rdb");
        let old =
            folder.server(program, &file, &["--rdbcompression", compresses, "--list-compress-depth", "1"]);
        let mut old_connection = Connection::open(&old.address()).unwrap();
        fill(&mut old_connection, number as u64 + 1);
        let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
        old_connection.call(&["FUNCTION", "LOAD", library]).unwrap();
        assert_eq!(old_connection.call(&["SAVE"]).unwrap(), Answer::Status("OK".into()));
        let expected = state(&mut old_connection);
        for form in forms {
            let target = format!("{compresses}-{form:?}.rdb");
            let counts = rewrite(&folder.0.join(&file), &folder.0.join(&target), *form, compresses == "yes");
            println!(
                "{name}: {counts:?} of version {form:?}, {} bytes",
                std::fs::metadata(folder.0.join(&target)).unwrap().len()
            );
            let (_new, mut connection) = folder.loaded(program, &target);
            same(&state(&mut connection), &expected, &format!("{name} {compresses} {form:?}"));
        }
        through_polder(&folder, program, &file, compresses, &mut old_connection, &expected);
    }
}

#[test]
fn a_file_of_redis_is_read_written_and_loaded_by_redis() {
    match on_path("redis-server") {
        Some(program) => check(&program, "redis", &[Form::Lowest, Form::Fixed(10)]),
        None => println!("left out: there is no redis-server"),
    }
}

#[test]
fn a_file_of_valkey_is_read_written_and_loaded_by_valkey() {
    match valkey() {
        Some(program) => check(&program, "valkey", &[Form::Lowest, Form::Fixed(11)]),
        None => println!("left out: there is no valkey-server"),
    }
}
