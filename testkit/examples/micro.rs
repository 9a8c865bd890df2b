//! One operation in a loop, for a profiler: `micro get|set|batch hot|random [SECONDS]`.
use std::time::{Duration, Instant};

use polder_engine::{Database, Memory, Options, Stop};

const KEYS: usize = 1_000_000;

fn key(number: usize) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    key[4..].copy_from_slice(format!("{number:012}").as_bytes());
    key
}

fn round(db: &Database<'_>, what: &str, order: &[[u8; 16]]) -> Result<(), Stop> {
    let value = b"0123456789abcdef";
    let copied =
        |value: Option<&[u8]>| std::hint::black_box(value.and_then(|value| <[u8; 16]>::try_from(value).ok()));
    match what {
        "get" => order.iter().try_for_each(|key| db.read(key, copied).map(drop)),
        "set" => order.iter().try_for_each(|key| db.set(key, value)),
        _ => order.chunks(16).try_for_each(|keys| {
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
            db.read_batch(&keys, |_, value| _ = copied(value))
        }),
    }
}

fn main() -> Result<(), Stop> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let seconds: f64 = word(2).parse().unwrap_or(3.0);
    let name = format!("shm:polder-micro-{}", std::process::id());
    let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 2 << 30, ..Options::default() })?;
    let db = memory.database(0);
    (0..KEYS).try_for_each(|number| db.set(key(number), b"0123456789abcdef"))?;
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % KEYS
    };
    let order: Vec<[u8; 16]> = (0..KEYS).map(|_| key(if word(1) == "hot" { 1 } else { next() })).collect();
    eprintln!("filled; go");
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        round(&db, word(0), &order)?;
        done += order.len();
    }
    println!("{} {}: {:.1} ns", word(0), word(1), began.elapsed().as_nanos() as f64 / done as f64);
    Memory::remove(&name)?;
    Ok(())
}
