//! One thread in this process: commands against a hash map with a fast hash, and the latency of growing.
use std::time::Instant;

use hashbrown::HashMap;
use hdrhistogram::Histogram;

use super::{Figures, Scale, median};
use crate::caller::Quiet;
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
/// When a command is refused.
pub fn single(scale: &Scale) -> Result<Figures, String> {
    let count = scale.of(1_000_000) as usize;
    let mut random = Random::new(7);
    let order: Vec<[u8; 16]> = (0..count).map(|_| key(random.below(count))).collect();
    let (mut ours, mut theirs) = (vec![vec![]; 4], vec![vec![]; 2]);
    let scratch = Scratch::with_ceiling(2 << 30);
    let mut map: HashMap<[u8; 16], [u8; 16]> = HashMap::new();
    let mut quiet = Quiet::default();
    for at in 0..count {
        map.insert(key(at), *VALUE);
        quiet.call(&scratch.embedder, &[b"SET", &key(at), VALUE])?;
    }
    for _ in 0..scale.rounds {
        theirs[0].push(timed(&order, |key| {
            std::hint::black_box(map.insert(*key, *VALUE));
        }));
        ours[0].push(timed_calls(&order, |key| quiet.call(&scratch.embedder, &[b"SET", key, VALUE]))?);
        theirs[1].push(timed(&order, |key| {
            std::hint::black_box(map.get(key).copied());
        }));
        ours[1].push(timed_calls(&order, |key| quiet.call(&scratch.embedder, &[b"GET", key]))?);
        let hot = vec![key(1); count];
        ours[2].push(timed_calls(&hot, |key| quiet.call(&scratch.embedder, &[b"SET", key, VALUE]))?);
        ours[3].push(timed_calls(&hot, |key| quiet.call(&scratch.embedder, &[b"GET", key]))?);
    }
    let [set, get, hot_set, hot_get] = [0, 1, 2, 3].map(|at| median(ours[at].clone()));
    let [map_set, map_get] = [0, 1].map(|at| median(theirs[at].clone()));
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

fn timed(keys: &[[u8; 16]], mut operation: impl FnMut(&[u8; 16])) -> f64 {
    let started = Instant::now();
    keys.iter().for_each(&mut operation);
    started.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn timed_calls(keys: &[[u8; 16]], mut operation: impl FnMut(&[u8; 16]) -> Result<(), String>) -> Result<f64, String> {
    let started = Instant::now();
    keys.iter().try_for_each(&mut operation)?;
    Ok(started.elapsed().as_nanos() as f64 / keys.len() as f64)
}

/// A minute: nothing that lasts longer is a latency.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Latency of SET from the first to the ten-millionth key, in microseconds.
///
/// # Errors
/// When a command is refused.
pub fn growth(scale: &Scale) -> Result<Figures, String> {
    let scratch = Scratch::with_ceiling(2 << 30);
    let mut quiet = Quiet::default();
    let mut latencies = Histogram::<u64>::new_with_bounds(1, LATENCY_NS_MAX, 3).map_err(|error| error.to_string())?;
    for at in 0..scale.of(10_000_000) as usize {
        let key = key(at);
        let started = Instant::now();
        quiet.call(&scratch.embedder, &[b"SET", &key, VALUE])?;
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
