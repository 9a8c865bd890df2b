//! One thread in this process: commands against a hash map with a fast hash, and the latency of growing.
use std::time::Instant;

use hashbrown::HashMap;
use hdrhistogram::Histogram;

use super::{Figures, Scale, median};
use crate::random::Random;
use crate::scratch::Scratch;

const VALUE: &[u8; 16] = b"0123456789abcdef";

/// A key of 16 bytes.
fn key(number: usize) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let digits = format!("{number:012}");
    key[4..].copy_from_slice(digits.as_bytes());
    key
}

/// Nanoseconds of a GET and a SET of random keys, here and in hashbrown, and of one hot key.
///
/// # Errors
/// When a call is refused.
pub fn single(scale: &Scale) -> Result<Figures, String> {
    let count = scale.of(1_000_000) as usize;
    let order = random_keys(count, count);
    let scratch = Scratch::with_ceiling(2 << 30);
    let db = scratch.embedder.memory.database(0);
    let mut map: HashMap<[u8; 16], [u8; 16]> = HashMap::new();
    for at in 0..count {
        map.insert(key(at), *VALUE);
        db.set(key(at), VALUE).map_err(said)?;
    }
    let hot = vec![key(1); count];
    let mut runs: [Vec<f64>; 6] = Default::default();
    for _ in 0..scale.rounds {
        let set = |key: &[u8; 16]| db.set(key, VALUE).map_err(said);
        let get = |key: &[u8; 16]| {
            db.read(key, |value| std::hint::black_box(copied(value))).map(drop).map_err(said)
        };
        runs[0].push(timed(&order, set)?);
        runs[1].push(timed(&order, |key| {
            std::hint::black_box(map.insert(*key, *VALUE));
            Ok(())
        })?);
        runs[2].push(timed(&order, get)?);
        runs[3].push(timed(&order, |key| {
            std::hint::black_box(map.get(key).copied());
            Ok(())
        })?);
        runs[4].push(timed(&hot, set)?);
        runs[5].push(timed(&hot, get)?);
    }
    let [set, map_set, get, map_get, hot_set, hot_get] = runs.map(median);
    Ok(vec![
        ("SET ns".into(), set),
        ("SET hashbrown ns".into(), map_set),
        ("SET / hashbrown".into(), set / map_set),
        ("GET ns".into(), get),
        ("GET hashbrown ns".into(), map_get),
        ("GET / hashbrown".into(), get / map_get),
        ("hot key SET M/s".into(), 1e3 / hot_set),
        ("hot key GET M/s".into(), 1e3 / hot_get),
    ])
}

/// Nanoseconds of a GET alone and among 16 that are asked for together.
///
/// # Errors
/// When a call is refused.
pub fn batch(scale: &Scale) -> Result<Figures, String> {
    let mut figures = Figures::new();
    for size in [1_000_000, 10_000_000] {
        let count = scale.of(size) as usize;
        let scratch = Scratch::with_ceiling(4 << 30);
        let db = scratch.embedder.memory.database(0);
        (0..count).try_for_each(|at| db.set(key(at), VALUE).map_err(said))?;
        let order = random_keys(scale.of(1_000_000) as usize, count);
        let (mut alone, mut together) = (vec![], vec![]);
        for _ in 0..scale.rounds {
            alone.push(timed(&order, |key| {
                db.read(key, |value| std::hint::black_box(copied(value))).map(drop).map_err(said)
            })?);
            let started = Instant::now();
            for sixteen in order.chunks(16) {
                let keys: Vec<&[u8]> = sixteen.iter().map(<[u8; 16]>::as_slice).collect();
                db.read_batch(&keys, |_, value| {
                    std::hint::black_box(copied(value));
                })
                .map_err(said)?;
            }
            together.push(started.elapsed().as_nanos() as f64 / order.len() as f64);
        }
        let (alone, together) = (median(alone), median(together));
        figures.push((format!("{size} keys, alone ns"), alone));
        figures.push((format!("{size} keys, among 16 ns"), together));
        figures.push((format!("{size} keys, rate among 16 / alone"), alone / together));
    }
    Ok(figures)
}

/// `count` of `keys` different keys, in any order.
fn random_keys(count: usize, keys: usize) -> Vec<[u8; 16]> {
    let mut random = Random::new(7);
    (0..count).map(|_| key(random.below(keys))).collect()
}

fn copied(value: Option<&[u8]>) -> Option<[u8; 16]> {
    value.and_then(|value| value.try_into().ok())
}

fn said(stop: impl std::fmt::Display) -> String {
    stop.to_string()
}

/// Nanoseconds of an operation, over all keys.
fn timed(
    keys: &[[u8; 16]],
    mut operation: impl FnMut(&[u8; 16]) -> Result<(), String>,
) -> Result<f64, String> {
    let started = Instant::now();
    keys.iter().try_for_each(&mut operation)?;
    Ok(started.elapsed().as_nanos() as f64 / keys.len() as f64)
}

/// A minute: nothing that lasts longer is a latency.
pub(super) const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Latency of SET from the first to the ten-millionth key, in microseconds.
///
/// # Errors
/// When a command is refused.
pub fn growth(scale: &Scale) -> Result<Figures, String> {
    let scratch = Scratch::with_ceiling(2 << 30);
    let db = scratch.embedder.memory.database(0);
    let mut latencies =
        Histogram::<u64>::new_with_bounds(1, LATENCY_NS_MAX, 3).map_err(|error| error.to_string())?;
    for at in 0..scale.of(10_000_000) as usize {
        let key = key(at);
        let started = Instant::now();
        db.set(key, VALUE).map_err(said)?;
        latencies.saturating_record(started.elapsed().as_nanos() as u64);
    }
    let us = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1e3;
    Ok(vec![
        ("SET p50 us".into(), us(0.5)),
        ("SET p99 us".into(), us(0.99)),
        ("SET p99.99 us".into(), us(0.9999)),
        ("SET max us".into(), latencies.max() as f64 / 1e3),
    ])
}
