//! In-process speed beside hashbrown: `cargo run --release -p polder-table --example micro [KEYS]`.
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use polder_shm::{Segment, SegmentName, SegmentOptions};
use polder_table::{Mode, New, Replaces, Stop, Table};
use polder_values::{Kind, Value};

fn set(table: &Table, key: &[u8], value: &[u8]) {
    let txn = table.begin(Mode::Write).expect("a seat");
    let new = New::of(Kind::String, Value::Packed(value));
    loop {
        match txn.declare(&[(0, key)]).and_then(|()| txn.write(0, key, &new, Replaces::Whole)).and_then(|()| txn.commit()) {
            Ok(()) => return,
            Err(Stop::Retry) => txn.abort(),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn get(table: &Table, key: &[u8], out: &mut [u8; 16]) -> bool {
    let txn = table.begin(Mode::Read).expect("a seat");
    match txn.find(0, key).expect("readable") {
        Some(found) => {
            if let Value::Packed(bytes) = found.value {
                out.copy_from_slice(&bytes[..16]);
            }
            true
        }
        None => false,
    }
}

fn timed(name: &str, count: usize, mut work: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    for number in 0..count {
        work(number);
    }
    let each = begin.elapsed().as_nanos() as f64 / count as f64;
    println!("{name:<28} {each:8.1} ns   {:8.2} M/s", 1e3 / each);
    each
}

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let name: SegmentName = format!("shm:polder-micro-{}", std::process::id()).parse().expect("a name");
    let table = Table::over(
        Segment::create(&name, &SegmentOptions { ceiling: (count as u64 * 1000).max(256 << 20), ..SegmentOptions::default() })
            .expect("made"),
    );
    let keys: Vec<[u8; 16]> = (0..count).map(|number| format!("key:{number:012}").into_bytes().try_into().expect("16")).collect();
    let mut order: Vec<usize> = (0..count).collect();
    let mut word = 88172645463325252u64;
    for at in (1..count).rev() {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        order.swap(at, (word % (at as u64 + 1)) as usize);
    }
    let base = table.usage().used;
    let mut longest = 0;
    timed("polder insert", count, |n| {
        let begin = Instant::now();
        set(&table, &keys[order[n]], &[n as u8; 16]);
        longest = longest.max(begin.elapsed().as_nanos());
    });
    println!("longest insert {longest} ns, bytes a key {:.1}", (table.usage().used - base) as f64 / count as f64);
    println!("{:?}", table.usage());
    let mut out = [0; 16];
    timed("polder get", count, |n| assert!(get(&table, &keys[order[n]], &mut out)));
    timed("polder get again", count, |n| assert!(get(&table, &keys[order[count - 1 - n]], &mut out)));
    timed("polder set", count, |n| set(&table, &keys[order[n]], &[n as u8; 16]));
    timed("polder set again", count, |n| set(&table, &keys[order[count - 1 - n]], &[n as u8; 16]));
    let hot = std::env::var("HOT").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000_000);
    if let Ok(phase) = std::env::var("PHASE") {
        for _ in 0..4 {
            match &phase[..] {
                "begin" => timed("hot begin", hot, |_| drop(table.begin(Mode::Read))),
                "seat" => timed("hot seat", hot, |_| drop(table.seat())),
                "hash" => {
                    timed("hot hash", hot, |n| _ = black_box(polder_table::hash::hash(black_box(&keys[n & 7]), table.segment().secret())))
                }
                "get" => timed("hot get", hot, |_| assert!(get(&table, &keys[7], &mut out))),
                _ => timed("hot set", hot, |n| set(&table, &keys[7], &[n as u8; 16])),
            };
        }
        let _ = Segment::remove(&name);
        return;
    }
    timed("polder get one key", 5_000_000, |_| assert!(get(&table, &keys[7], &mut out)));
    timed("polder set one key", 5_000_000, |n| set(&table, &keys[7], &[n as u8; 16]));
    black_box(out);
    let mut map: HashMap<[u8; 16], [u8; 16], xxhash_rust::xxh3::Xxh3DefaultBuilder> = HashMap::default();
    timed("hashbrown insert", count, |n| _ = map.insert(keys[order[n]], [n as u8; 16]));
    timed("hashbrown get", count, |n| out = map[&keys[order[n]]]);
    timed("hashbrown get again", count, |n| out = map[&keys[order[count - 1 - n]]]);
    timed("hashbrown set", count, |n| _ = map.insert(keys[order[n]], [n as u8; 16]));
    black_box(out);
    let _ = Segment::remove(&name);
}
