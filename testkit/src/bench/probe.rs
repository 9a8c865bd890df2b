//! What a measurement runs in a process of its own: `bench probe NAME ...` prints one number.
use std::time::{Duration, Instant};

use polder_engine::Options;

use super::messages;
use super::mix::{self, Mix};
use crate::caller::{Embedder, Quiet};
use crate::random::Random;

/// Runs a probe and returns its number.
///
/// # Errors
/// When the words are wrong or there is no memory.
pub fn run(words: &[&str]) -> Result<f64, String> {
    match words {
        ["attach", segment, key] => attach(segment, key),
        ["first", segment, key] => first(segment, &[b"GET", key.as_bytes()]),
        ["first-set", segment, key] => first(segment, &[b"SET", key.as_bytes(), b"0123456789abcdef"]),
        ["write", segment, prefix, seconds] => {
            write(segment, prefix, Duration::from_secs_f64(seconds.parse().map_err(|_| "probe write SEGMENT PREFIX SECONDS")?))
        }
        ["send", target, command, count, pause_us] => messages::send(target, command, whole(count)?, whole(pause_us)?),
        ["pour", segment, count, batch] => messages::pour(segment, whole(count)?, whole(batch)?),
        ["mix", segment, reads, skew, begin_ms, seed] => {
            let mix = Mix { reads_percent: whole(reads)?, skewed: *skew == "zipfian" };
            mix::worker(&open(segment)?.memory, mix, whole(begin_ms)?, whole(seed)?)
        }
        _ => {
            Err("probe attach|first|first-set SEGMENT KEY | write SEGMENT PREFIX SECONDS | send TARGET COMMAND COUNT PAUSE_US | pour SEGMENT COUNT BATCH \
                  | mix SEGMENT READS% uniform|zipfian BEGIN_MS SEED"
                .into())
        }
    }
}

fn whole(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no whole number"))
}

/// Milliseconds from nothing to the first value.
fn attach(segment: &str, key: &str) -> Result<f64, String> {
    let started = Instant::now();
    let embedder = open(segment)?;
    let mut quiet = Quiet::default();
    quiet.call(&embedder, &[b"GET", key.as_bytes()])?;
    let elapsed = started.elapsed();
    if quiet.value.is_empty() {
        return Err(format!("{key} is not there"));
    }
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// Microseconds of the first call that a process makes after it has attached.
fn first(segment: &str, args: &[&[u8]]) -> Result<f64, String> {
    let embedder = open(segment)?;
    let mut quiet = Quiet::default();
    let started = Instant::now();
    quiet.call(&embedder, args)?;
    Ok(started.elapsed().as_secs_f64() * 1e6)
}

/// SETs of random keys of its own, a second.
fn write(segment: &str, prefix: &str, duration: Duration) -> Result<f64, String> {
    let embedder = open(segment)?;
    let mut quiet = Quiet::default();
    let mut random = Random::new(1);
    let started = Instant::now();
    let mut done = 0u64;
    while started.elapsed() < duration {
        for _ in 0..256 {
            let key = format!("{prefix}{:07}", random.below(100_000));
            quiet.call(&embedder, &[b"SET", key.as_bytes(), b"0123456789abcdef"])?;
        }
        done += 256;
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

fn open(segment: &str) -> Result<Embedder, String> {
    let options = Options { segment: segment.into(), create: false, ..Options::default() };
    Embedder::attach(&options).map_err(|fault| fault.to_string())
}
