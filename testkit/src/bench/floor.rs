//! What a lookup costs here at least: two memory accesses of which the second needs the first (a bucket's line, then the entry), and
//! instructions. A processor overlaps the accesses of lookups that follow each other as far as its window of instructions reaches, so
//! the time of one is that of its accesses times the share of the window that its instructions fill. No protocol, no shared memory.
//!
//! On a Xeon of 2023 (window 512, a dependent load 188 ns, hashbrown's GET 30 ns): 16 ns with nothing beside, 68 with 100 instructions,
//! 107 with 200, and from 256 on, when two lookups do not fit into the window, 330 and more.
use std::hint::black_box;
use std::time::Instant;

use super::{Figures, Scale, median};
use crate::random::Random;

/// Cache lines of a million keys' bucket headers (4 MB), and of their entries (64 MB).
const HEADERS: usize = 1 << 16;
const ENTRIES: usize = 1 << 20;
const LOOKUPS: u64 = 1_000_000;

/// A cache line; its first word names another.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// Nanoseconds of a load that needs the one before, of one that does not, and of lookups with more
/// and more instructions beside their two loads.
///
/// # Errors
/// Never.
pub fn floor(scale: &Scale) -> Result<Figures, String> {
    let mut random = Random::new(11);
    let headers: Vec<Line> = (0..HEADERS).map(|_| Line([random.below(ENTRIES) as u64; 8])).collect();
    let entries = ring(&mut random);
    let order: Vec<u32> = (0..scale.of(LOOKUPS)).map(|_| random.below(ENTRIES) as u32).collect();
    let mut runs: [Vec<f64>; 7] = Default::default();
    for _ in 0..scale.rounds {
        let mut at = 0;
        runs[0].push(timed(&order, |_| {
            at = entries[at as usize].0[0];
            at
        }));
        runs[1].push(timed(&order, |key| entries[key as usize].0[0]));
        runs[2].push(timed(&order, |key| look(&headers, &entries, key)));
        runs[3].push(timed(&order, |key| look(&headers, &entries, key) ^ work(key as u64, 4)));
        runs[4].push(timed(&order, |key| look(&headers, &entries, key) ^ work(key as u64, 8)));
        runs[5].push(timed(&order, |key| look(&headers, &entries, key) ^ work(key as u64, 16)));
        runs[6].push(timed(&order, |key| look(&headers, &entries, key) ^ work(key as u64, 24)));
    }
    let names = [
        "dependent load ns",
        "independent load ns",
        "lookup ns",
        "lookup and 100 instructions ns",
        "lookup and 200 instructions ns",
        "lookup and 400 instructions ns",
        "lookup and 600 instructions ns",
    ];
    Ok(names.iter().map(|name| name.to_string()).zip(runs.map(median)).collect())
}

/// Lines that name each other in one ring, in any order.
fn ring(random: &mut Random) -> Vec<Line> {
    let mut order: Vec<usize> = (0..ENTRIES).collect();
    (1..ENTRIES).rev().for_each(|last| order.swap(last, random.below(last + 1)));
    let mut lines = vec![Line([0; 8]); ENTRIES];
    (0..ENTRIES).for_each(|at| lines[order[at]].0[0] = order[(at + 1) % ENTRIES] as u64);
    lines
}

/// An entry that is found by its header.
#[inline(always)]
fn look(headers: &[Line], entries: &[Line], key: u32) -> u64 {
    let found = headers[(key >> 4) as usize % HEADERS].0[key as usize % 8];
    entries[((found ^ key as u64) % ENTRIES as u64) as usize].0[1]
}

/// Steps of 25 instructions that need no memory, in three chains that a processor works on at once.
#[inline(always)]
fn work(seed: u64, steps: u32) -> u64 {
    let (mut one, mut two, mut three) = (seed | 1, seed | 2, seed | 4);
    for _ in 0..steps {
        one ^= one << 13;
        two ^= two << 25;
        three ^= three << 21;
        one ^= one >> 7;
        two ^= two >> 27;
        three ^= three >> 35;
        one ^= one << 17;
        two ^= two << 12;
        three ^= three << 4;
    }
    one ^ two ^ three
}

/// Nanoseconds of one of these.
fn timed(order: &[u32], mut each: impl FnMut(u32) -> u64) -> f64 {
    let started = Instant::now();
    for &key in order {
        black_box(each(key));
    }
    started.elapsed().as_nanos() as f64 / order.len() as f64
}
