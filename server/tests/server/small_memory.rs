//! Small `maxmemory`: no write fails while something can be evicted, and no more is evicted than in Redis.
//!
//! A walk raises the limit in steps of 50 KiB from an empty memory, under each policy, and writes far more than fits: strings, hashes
//! and lists of 10 bytes to 10 KB, single and pipelined. The same writes go to a redis-server.
use std::net::SocketAddr;

use polder_testkit::process::{Server, on_path};
use polder_testkit::random::Random;

use crate::client_memory::{Conn, connect};
use crate::door::Door;
use crate::limits::request;

const POLICIES: [&str; 10] = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lrm",
    "volatile-lrm",
];
const STEP_BYTES: u64 = 50 << 10;
const STEPS: u64 = 4;
/// Bytes that a walk writes at each step: several times what fits.
const WRITTEN_BYTES: usize = 2 << 20;
/// Every how many pipelines the walk asks how much is used.
const PIPELINES_PER_LOOK: usize = 8;
/// The most by which the memory may lie above its limit: a part that makes evictions cheap (a twentieth), what the last write added, and the step in
/// which the table grows.
const SLACK_BYTES: u64 = 40 << 10;

/// A number of INFO's text, 0 if it is not there.
fn named(info: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// A number of INFO now.
fn figure(asker: &mut Conn, name: &str) -> u64 {
    named(&asker.ask("INFO"), name)
}

/// Bytes that count for `maxmemory`.
fn counted(asker: &mut Conn) -> u64 {
    let info = asker.ask("INFO memory");
    named(&info, "used_memory") - named(&info, "mem_not_counted_for_evict")
}

/// Keys of database 0, and those of them that expire.
fn keys(asker: &mut Conn) -> (u64, u64) {
    let info = asker.ask("INFO keyspace");
    let Some(line) = info.lines().find_map(|line| line.strip_prefix("db0:")) else { return (0, 0) };
    let of = |name: &str| {
        let mut fields = line.trim().split(',');
        fields.find_map(|field| field.strip_prefix(name)?.parse().ok()).expect("a count")
    };
    (of("keys="), of("expires="))
}

/// One drawn write of a new key: its commands, and about how many bytes it adds.
fn write(random: &mut Random, number: usize) -> (Vec<Vec<String>>, usize) {
    let key = format!("key:{number}");
    let bytes = (10usize << random.below(11)).min(10_000);
    let expires = random.chance(70);
    let mut words = match random.below(4) {
        0 => {
            let fields = (0..10).flat_map(|field| [format!("field:{field}"), "x".repeat(bytes.div_ceil(10))]);
            ["HSET".to_owned(), key.clone()].into_iter().chain(fields).collect()
        }
        1 => {
            let elements = (0..10).map(|_| "x".repeat(bytes.div_ceil(10)));
            ["RPUSH".to_owned(), key.clone()].into_iter().chain(elements).collect()
        }
        _ => vec!["SET".to_owned(), key.clone(), "x".repeat(bytes)],
    };
    if words[0] == "SET" && expires {
        words.extend(["EX".to_owned(), "1000".to_owned()]);
        return (vec![words], bytes);
    }
    let expiry = expires.then(|| vec!["EXPIRE".to_owned(), key, "1000".to_owned()]);
    ([Some(words), expiry].into_iter().flatten().collect(), bytes)
}

/// The outcome of one step of a walk.
struct Stand {
    keys: u64,
    expiring: u64,
    refused: u64,
    evicted: u64,
}

/// Writes more than fits into an empty memory with this limit above it. `check` is called with the number of refused writes of each pipeline.
fn fill(
    address: SocketAddr,
    policy: &str,
    above: u64,
    seed: u64,
    mut check: impl FnMut(&mut Conn, u64),
) -> Stand {
    let mut asker = connect(address);
    asker.ask("CONFIG SET maxmemory 0");
    asker.ask("FLUSHALL SYNC");
    let base = figure(&mut asker, "used_memory");
    asker.ask(&format!("CONFIG SET maxmemory-policy {policy}"));
    assert_eq!(asker.ask(&format!("CONFIG SET maxmemory {}", base + above)), "+OK");
    let evicted = figure(&mut asker, "evicted_keys");
    let mut random = Random::new(seed);
    let (mut number, mut bytes, mut refused) = (0, 0, 0);
    while bytes < WRITTEN_BYTES {
        let mut pipeline = Vec::new();
        for _ in 0..*random.pick(&[1, 1, 4, 16]) {
            let (commands, adds) = write(&mut random, number);
            number += 1;
            bytes += adds + 50;
            pipeline.extend(commands);
        }
        let sent: Vec<u8> = pipeline
            .iter()
            .flat_map(|words| request(&words.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect();
        asker.write(&sent);
        let mut failed = 0;
        for words in &pipeline {
            let reply = asker.reply();
            assert!(!reply.starts_with('-') || reply.starts_with("-OOM"), "{words:?}: {reply}");
            failed += u64::from(reply.starts_with('-'));
        }
        refused += failed;
        check(&mut asker, failed);
    }
    let (keys, expiring) = keys(&mut asker);
    Stand { keys, expiring, refused, evicted: figure(&mut asker, "evicted_keys") - evicted }
}

#[test]
fn a_small_limit_evicts_before_it_refuses_and_no_more_than_redis() {
    let redis = on_path("redis-server").map(|program| Server::start_redis(&program).expect("a server"));
    if redis.is_none() {
        println!("not compared: there is no redis-server on the PATH");
    }
    for (at, policy) in POLICIES.iter().enumerate() {
        for step in 1..=STEPS {
            let door = Door::open("--threads 2");
            let above = step * STEP_BYTES;
            let seed = 100 * at as u64 + step;
            let mut pipelines = 0;
            let own = fill(door.address, policy, above, seed, |asker, failed| {
                pipelines += 1;
                if failed == 0 && pipelines % PIPELINES_PER_LOOK != 0 {
                    return;
                }
                let (keys, expiring) = keys(asker);
                let evictable = match *policy {
                    "noeviction" => 0,
                    policy if policy.starts_with("volatile") => expiring,
                    _ => keys,
                };
                assert!(
                    failed == 0 || evictable == 0,
                    "{policy}, {above}: {failed} refused beside {evictable} keys"
                );
                let (limit, bytes) = (figure(asker, "maxmemory"), counted(asker));
                assert!(
                    *policy == "noeviction" || evictable == 0 || bytes <= limit + limit / 20 + SLACK_BYTES,
                    "{policy}, {above}: {bytes} of {limit} bytes"
                );
            });
            assert!(own.refused == 0 || own.expiring == 0 || *policy == "noeviction", "{policy}, {above}");
            assert!(*policy == "noeviction" || own.evicted > 0, "{policy}, {above}: nothing was evicted");
            let Some(redis) = &redis else { continue };
            // Redis 7.0 has no policy by the last change, and here it is the last use as well.
            let policy = &policy.replace("lrm", "lru");
            let theirs =
                fill(SocketAddr::from(([127, 0, 0, 1], redis.port())), policy, above, seed, |_, _| {});
            assert!(
                own.keys >= theirs.keys && own.refused <= theirs.refused,
                "{policy}, {above}: {} keys and {} refused, redis-server {} and {}",
                own.keys,
                own.refused,
                theirs.keys,
                theirs.refused
            );
        }
    }
}
