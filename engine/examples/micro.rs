//! In-process speed beside hashbrown with a fast hash: `cargo run --release -p polder-engine --example micro [KEYS]`.
//!
//! Keys and values have 16 bytes; keys are used in random order. Every figure is the mean of one pass over all keys.

use std::hint::black_box;
use std::time::Instant;

use polder_engine::{Database, Memory, Options};

type Key = [u8; 16];

fn timed(name: &str, count: usize, mut work: impl FnMut(usize)) {
    let begin = Instant::now();
    (0..count).for_each(&mut work);
    let each = begin.elapsed().as_nanos() as f64 / count as f64;
    println!("{name:<28} {each:8.1} ns {:8.2} M/s", 1e3 / each);
}

/// The numbers below `count` in an order that looks random and is always the same.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut word = 88_172_645_463_325_252u64;
    for at in (1..count).rev() {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        order.swap(at, (word % (at as u64 + 1)) as usize);
    }
    order
}

fn polder(memory: &Memory, cache: Database<'_>, keys: &[Key]) {
    let count = keys.len();
    let before = memory.table().usage().used;
    let mut longest = 0;
    timed("polder insert", count, |n| {
        let begin = Instant::now();
        cache.set(&keys[n], &[n as u8; 16]).expect("room");
        longest = longest.max(begin.elapsed().as_nanos());
    });
    let bytes = (memory.table().usage().used - before) as f64 / count as f64;
    println!("longest insert {longest} ns, {bytes:.1} bytes a key");
    let mut out = [0u8; 16];
    let mut copy = |value: Option<&[u8]>| out.copy_from_slice(value.expect("there"));
    timed("polder get", count, |n| cache.read(&keys[count - 1 - n], &mut copy).expect("readable"));
    timed("polder set", count, |n| cache.set(&keys[n], &[n as u8; 16]).expect("room"));
    timed("polder get, batches of 16", count / 16, |n| {
        let batch: [&[u8]; 16] = std::array::from_fn(|at| &keys[n * 16 + at][..]);
        cache.read_batch(&batch, |_, value| copy(value)).expect("readable");
    });
    timed("polder get, one key", 5_000_000, |_| cache.read(&keys[7], &mut copy).expect("readable"));
    timed("polder set, one key", 5_000_000, |n| cache.set(&keys[7], &[n as u8; 16]).expect("room"));
    black_box(out);
}

fn hashbrown(keys: &[Key]) {
    let count = keys.len();
    let mut map: hashbrown::HashMap<Key, Key, xxhash_rust::xxh3::Xxh3DefaultBuilder> = hashbrown::HashMap::default();
    timed("hashbrown insert", count, |n| _ = map.insert(keys[n], [n as u8; 16]));
    let mut out = [0u8; 16];
    timed("hashbrown get", count, |n| out = map[&keys[count - 1 - n]]);
    timed("hashbrown set", count, |n| _ = map.insert(keys[n], [n as u8; 16]));
    black_box(out);
}

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let segment = format!("shm:polder-micro-{}", std::process::id());
    let ceiling = (count as u64 * 200).max(64 << 20);
    let memory = Memory::attach(&Options { segment: segment.clone(), ceiling, ..Options::default() }).expect("a segment");
    let keys: Vec<Key> = shuffled(count).iter().map(|n| format!("key:{n:012}").into_bytes().try_into().expect("16 bytes")).collect();
    polder(&memory, memory.database(0), &keys);
    hashbrown(&keys);
    Memory::remove(&segment).expect("removable");
}
