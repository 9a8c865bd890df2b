//! The rule about what one client can cost the others, tried with every command of the table.
//!
//! **The rule.** No client can make Polder hold memory that is not counted against it or bounded, and no single call costs more than in Redis by
//! an order of magnitude:
//! - what a client stores is counted by `maxmemory`, and takes a small multiple of the bytes that it sent;
//! - what the server keeps for a client (its queue, its subscriptions, what it watches, tracks and waits for, its buffers) is counted in
//!   CLIENT LIST's `tot-mem` and so by `maxmemory-clients`, and is gone when the client is;
//! - what the server keeps beyond the client (SLOWLOG, ACL LOG, scripts, latency) has a limit of its own;
//! - a call takes a time that is bounded by a multiple of its arguments and of what it is asked to reply.
//!
//! The attack is generated from the grammars of the rows, so that a new command is tried without a line written here: each command with very
//! many arguments, with large ones, and very often. Another client's keys fill a part of a small segment. None of them may be evicted, and when the
//! attacker is gone and what it stored is deleted, the segment uses what it used before, and the process has not grown. That is why these tests are
//! a program of their own: the server runs in it, and nothing else does.
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polder_calls::command::Run;
use polder_testkit::peers::generate::Template;
use polder_testkit::process::free_port;
use polder_wire::resp::command;

use door::{Door, Place};

#[allow(dead_code, reason = "the other tests of the server use all of it")]
#[path = "../server/door.rs"]
mod door;
mod idle;

/// Held by each test: what the process keeps is that of one attack only while no other one runs in it.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test runs.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys of the other client, of 1,000 bytes each.
const KEYS: usize = 15_000;
/// Arguments of a call with very many, bytes of a large one, calls in a row.
const MANY: usize = 10_000;
const LARGE_BYTES: usize = 256 << 10;
const OFTEN: usize = 500;
/// What may stay: slabs that are kept for the next value of a size, the table's own growth.
const LEFT_BYTES: u64 = 3 << 20;
/// What the process may keep outside the segment: buffers, what the allocator keeps of them, and what this test itself sends and reads.
const KEPT_BYTES: u64 = 96 << 20;
/// A call may take so long, and so long for each byte of the request.
const CALL: Duration = Duration::from_millis(500);
/// How long no byte comes from a client that gets no more replies.
const SILENCE: Duration = Duration::from_millis(300);
const BYTE: Duration = Duration::from_nanos(500);

/// The limit of `maxmemory`: without one nothing is evicted, whatever a client takes.
const MEMORY_MAX: &str = "48mb";

/// Commands that are not tried, and why.
const SPARED: &[(&str, &str)] = &[
    ("SHUTDOWN", "ends the server"),
    ("DEBUG", "stops, slows or damages the server on purpose"),
    ("FLUSHALL", "deletes the other client's keys"),
    ("FLUSHDB", "deletes the other client's keys"),
    ("ITEM.FLUSH", "deletes the other client's keys"),
    ("SWAPDB", "hides the other client's keys"),
    ("SAVE", "writes a file"),
    ("BGSAVE", "writes a file"),
    ("REPLICAOF", "waits for another server"),
    ("SLAVEOF", "waits for another server"),
    ("MIGRATE", "waits for another server"),
    ("CLIENT|PAUSE", "stops all clients"),
    ("CLIENT|KILL", "closes the clients of the test"),
    ("CONFIG|RESETSTAT", "resets the count of evicted keys"),
];

/// Calls that the grammar alone does not make.
fn special(times: usize, size: usize) -> Vec<Vec<Vec<u8>>> {
    let word = |number: usize| format!("attack:{number}:{}", "x".repeat(size)).into_bytes();
    let call = |lead: &[&str], each: &[&str], tail: &[&str]| {
        let mut line: Vec<Vec<u8>> = lead.iter().map(|word| word.as_bytes().to_vec()).collect();
        for number in 0..times {
            line.extend(each.iter().map(|word| word.as_bytes().to_vec()));
            line.push(word(number));
        }
        line.extend(tail.iter().map(|word| word.as_bytes().to_vec()));
        line
    };
    let one = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let rules = |sign: &str| {
        let rules = (0..times).map(|number| [sign.as_bytes(), &word(number)].concat());
        [&b"ACL"[..], b"SETUSER", b"attacker"].iter().map(|word| word.to_vec()).chain(rules).collect()
    };
    let text = word(0);
    let library =
        [b"#!lua name=attack\nredis.register_function('f', function() return '", &text[..], b"' end)"]
            .concat();
    vec![
        call(&["CLIENT", "TRACKING", "ON", "BCAST"], &["PREFIX"], &[]),
        call(&["XREAD", "BLOCK", "0", "STREAMS"], &[], &[]),
        call(&["BLPOP"], &[], &["0"]),
        call(&["BRPOP"], &[], &["0"]),
        call(&["BZPOPMIN"], &[], &["0"]),
        call(&["EVAL", "return 1", "0"], &[], &[]),
        one(&[b"SCRIPT", b"LOAD", &[b"return '", &text[..], b"'"].concat()]),
        one(&[b"FUNCTION", b"LOAD", b"REPLACE", &library]),
        one(&[b"CLIENT", b"SETNAME", &text]),
        one(&[b"CLIENT", b"SETINFO", b"LIB-NAME", &text]),
        one(&[b"AUTH", b"nobody", &text]),
        one(&[b"XGROUP", b"CREATE", b"attack:stream", b"group", b"$", b"MKSTREAM"]),
        one(&[b"XREADGROUP", b"GROUP", b"group", &text, b"COUNT", b"1", b"STREAMS", b"attack:stream", b">"]),
        rules("~"),
        rules("&"),
        rules(">"),
        rules("+get|"),
        one(&[b"MULTI"]),
        call(&["MSET"], &["attack:value"], &[]),
        one(&[&text]),
    ]
}

struct Attack {
    door: Door,
    baseline: u64,
    /// The anonymous memory of this process, which is the server's too, at the start.
    resident: u64,
}

impl Attack {
    fn new() -> Attack {
        let door = Door::on(
            Place::of(96 << 20),
            free_port().expect("a free port"),
            &format!("--maxmemory {MEMORY_MAX} --maxmemory-policy allkeys-lru --threads 2"),
        );
        let mut other = door.client();
        let value = "x".repeat(1000);
        for keys in (0..KEYS).collect::<Vec<_>>().chunks(500) {
            let mut bytes = Vec::new();
            keys.iter().for_each(|number| command(&["SET", &format!("key:{number}"), &value], &mut bytes));
            other.write(&bytes);
            keys.iter().for_each(|_| assert_eq!(other.reply(), "+OK"));
        }
        let mut attack = Attack { door, baseline: 0, resident: 0 };
        // What is made once, whatever comes.
        attack.run(&[vec![b"PING".to_vec()]], false);
        attack.baseline = attack.settled(0, Duration::from_secs(3));
        attack.resident = resident();
        attack
    }

    /// What the process has kept outside the segment, after all that was tried.
    fn kept(&self) -> Option<String> {
        let kept = resident().saturating_sub(self.resident);
        println!("the process keeps {kept} bytes more");
        (kept > KEPT_BYTES).then(|| format!("the process keeps {kept} bytes outside the segment"))
    }

    fn figure(&self, name: &str) -> u64 {
        let info = self.door.client().ask("INFO everything");
        let line = info.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name}")).parse().expect("a number")
    }

    /// What the segment uses once that is no more than `enough`, or after `patience`.
    fn settled(&self, enough: u64, patience: Duration) -> u64 {
        let begun = Instant::now();
        loop {
            let used = self.figure("used_memory");
            if used <= enough || begun.elapsed() > patience {
                return used;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes calls as one client, in one pipeline, and ends it; returns how long it took. If the last call waits, it waits for nothing that comes.
    fn run(&mut self, lines: &[Vec<Vec<u8>>], waits: bool) -> Duration {
        let mut client = self.door.client();
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| command(line, &mut bytes));
        let begun = Instant::now();
        let sent = client.stream.write_all(&bytes).is_ok();
        if waits {
            std::thread::sleep(Duration::from_millis(20));
        } else if sent && client.stream.write_all(b"*2\r\n$4\r\nPING\r\n$14\r\nthe-end-of-it!\r\n").is_ok() {
            client.stream.set_read_timeout(Some(SILENCE)).expect("a timeout");
            let (mut part, mut tail) = (vec![0; 1 << 20], Vec::new());
            // A client that is closed, or whose PING is queued, gets no such reply.
            while let Ok(count @ 1..) = client.stream.read(&mut part) {
                tail.extend_from_slice(&part[..count]);
                if tail.windows(14).rev().take(64).any(|bytes| bytes == b"the-end-of-it!") {
                    break;
                }
                tail.drain(..tail.len().saturating_sub(64));
            }
        }
        begun.elapsed()
    }

    /// Deletes what the attack has stored.
    fn clean(&mut self) {
        let mut client = self.door.client();
        client.ask("FUNCTION FLUSH");
        client.ask("SCRIPT FLUSH");
        client.write(b"ACL USERS\r\n");
        let Some(polder_wire::resp::Value::Array(users)) = client.value() else { panic!("no users") };
        for user in users {
            if let polder_wire::resp::Value::Bulk(user) = user
                && user.starts_with(b"attack")
            {
                client.ask_words(&[&b"ACL"[..], b"DELUSER", &user[..]]);
            }
        }
        let left: usize = client.ask("DBSIZE")[1..].parse().expect("a number");
        if left == KEYS {
            return;
        }
        client.write(b"KEYS *\r\n");
        let Some(polder_wire::resp::Value::Array(keys)) = client.value() else { panic!("no keys") };
        for key in keys {
            if let polder_wire::resp::Value::Bulk(key) = key
                && !key.starts_with(b"key:")
            {
                client.ask_words(&[b"UNLINK", &key[..]]);
            }
        }
    }

    /// What one kind of attack by one command has come to: a text where it broke the rule.
    fn attempt(&mut self, name: &str, lines: &[Vec<Vec<u8>>]) -> Option<String> {
        let size: usize = lines.iter().flatten().map(Vec::len).sum();
        let waits = lines.iter().any(|line| {
            line[0].starts_with(b"B") && line[0] != b"BITOP" || line.iter().any(|word| word == b"BLOCK")
        });
        let (evicted, begun) = (self.figure("evicted_keys"), Instant::now());
        let took = self.run(lines, waits);
        let mut faults = Vec::new();
        let most = CALL + BYTE * size as u32 + SILENCE;
        if took > most {
            faults.push(format!("it took {took:?} for {size} bytes"));
        }
        if self.figure("evicted_keys") > evicted {
            faults.push(format!(
                "it evicted {} keys of others with {size} bytes",
                self.figure("evicted_keys") - evicted
            ));
        }
        self.clean();
        let left = self.settled(self.baseline + LEFT_BYTES, Duration::from_secs(3));
        if left > self.baseline + LEFT_BYTES {
            faults.push(format!("it left {} bytes behind", left - self.baseline));
            self.baseline = left;
        }
        let pings = Instant::now();
        assert_eq!(self.door.client().ask("PING"), "+PONG", "{name}");
        if pings.elapsed() > Duration::from_secs(1) {
            faults.push(format!("others waited {:?}", pings.elapsed()));
        }
        if begun.elapsed() > Duration::from_secs(2) {
            println!("{name}: {:?}", begun.elapsed());
        }
        (!faults.is_empty()).then(|| {
            format!("{name} ({} calls, {} words): {}", lines.len(), lines[0].len(), faults.join(", "))
        })
    }
}

/// Bytes of this process's anonymous memory: its heap, its stacks, nothing of the segment (`RssAnon`, proc(5)).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// What stands for a placeholder: keys of the attacker, small numbers, or a word of this size.
fn fill(size: usize, number: &mut usize) -> impl FnMut(&str) -> Vec<u8> {
    move |name| {
        *number += 1;
        match name {
            "db" | "index" | "destination-db" | "cursor" | "timeout" | "offset" | "start" | "seconds"
            | "milliseconds" => b"0".to_vec(),
            "count" | "increment" | "decrement" | "score" | "stop" | "end" | "limit" | "longitude"
            | "latitude" | "bit" => b"1".to_vec(),
            "protover" => b"3".to_vec(),
            "pattern" => format!("*attack:{number}:{}", "x".repeat(size)).into_bytes(),
            _ => format!("attack:{number}:{}", "x".repeat(size)).into_bytes(),
        }
    }
}

#[test]
fn no_command_lets_one_client_take_what_is_others() {
    let _alone = alone();
    let mut attack = Attack::new();
    let mut faults = Vec::new();
    let mut number = 0;
    let mut tried = BTreeMap::new();
    for (_, row) in polder_engine::COMMANDS.all() {
        let container = row.name.split('|').next().unwrap_or(row.name);
        if SPARED.iter().any(|(name, _)| *name == row.name || *name == container)
            || matches!(row.run, Run::Container)
        {
            continue;
        }
        let template = Template::new(row.name, row.grammar);
        let many = vec![template.repeated(MANY, &mut fill(0, &mut number))];
        let large = vec![template.repeated(3, &mut fill(LARGE_BYTES, &mut number))];
        let often: Vec<_> = (0..OFTEN).map(|_| template.repeated(1, &mut fill(20, &mut number))).collect();
        for (how, lines) in [("many", many), ("large", large), ("often", often)] {
            *tried.entry(how).or_insert(0) += 1;
            faults.extend(attack.attempt(&format!("{} {how}", row.name), &lines));
        }
    }
    println!("{tried:?}");
    faults.extend(attack.kept());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_special_call_lets_one_client_take_what_is_others() {
    let _alone = alone();
    let mut attack = Attack::new();
    let mut faults = Vec::new();
    for (how, times, size, calls) in
        [("many", MANY, 4, 1), ("large", 2, LARGE_BYTES, 1), ("often", 2, 20, OFTEN)]
    {
        for line in special(times, size) {
            let name = format!("{} {how}", String::from_utf8_lossy(&line[0][..line[0].len().min(20)]));
            faults.extend(attack.attempt(&name, &vec![line; calls]));
        }
    }
    // A queue of many calls that write one value again and again, and its end without an EXEC.
    let queue = |last: &str| {
        let mut lines = vec![vec![b"MULTI".to_vec()]];
        lines.extend((0..2_000).map(|number| {
            vec![
                b"SET".to_vec(),
                b"attack:one".to_vec(),
                format!("{number}{}", "x".repeat(2000)).into_bytes(),
            ]
        }));
        lines.push(vec![last.as_bytes().to_vec()]);
        lines
    };
    faults.extend(attack.attempt("MULTI without EXEC", &queue("PING")));
    faults.extend(attack.attempt("MULTI with DISCARD", &queue("DISCARD")));
    let patterns = |name: &str| {
        (0..3_000)
            .map(|number| vec![name.as_bytes().to_vec(), format!("*attack:{number}:*").into_bytes()])
            .collect::<Vec<_>>()
    };
    let inside =
        [vec![vec![b"MULTI".to_vec()]], patterns("PSUBSCRIBE"), vec![vec![b"EXEC".to_vec()]]].concat();
    faults.extend(attack.attempt("PSUBSCRIBE one by one", &patterns("PSUBSCRIBE")));
    faults.extend(attack.attempt("PSUBSCRIBE in an EXEC", &inside));
    faults.extend(attack.kept());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
