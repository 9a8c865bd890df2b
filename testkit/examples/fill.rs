//! Bytes a key while a memory grows: `cargo run --release -p polder-testkit --example fill [KEYS]`.
use polder_engine::{Memory, Options};

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3_000_000);
    let segment = format!("shm:polder-fill-{}", std::process::id());
    let memory =
        Memory::attach(&Options { segment: segment.clone(), ceiling: 8 << 30, ..Options::default() })
            .expect("a segment");
    let cache = memory.database(0);
    let mut next = 250_000;
    for number in 0..count {
        cache.set(format!("key:{number:07}").as_bytes(), [7; 16]).expect("room");
        if number + 1 == next {
            let usage = memory.table().usage();
            println!(
                "{next:>9} keys: {:5.1} bytes a key, of these table {:5.1}",
                usage.used as f64 / next as f64,
                usage.table as f64 / next as f64
            );
            next = (next as f64 * 1.06) as usize;
        }
    }
    Memory::remove(&segment).expect("removable");
}
