//! Several writers: processes with keys of their own, threads on one key.
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Figures, Scale, median, memory};
use crate::caller::{Embedder, Quiet};
use crate::scratch::Scratch;

/// How long a writer writes in one round.
const ROUND: Duration = Duration::from_secs(2);

/// Writes a second of two processes on two cores, as a ratio to one process.
///
/// # Errors
/// When a process cannot be had.
pub fn scaling(scale: &Scale) -> Result<Figures, String> {
    let (scratch, other) = (Scratch::with_ceiling(1 << 30), Scratch::with_ceiling(1 << 30));
    let (one, two) = (scratch.options.segment.as_str(), other.options.segment.as_str());
    let (mut alone, mut together, mut apart) = (vec![], vec![], vec![]);
    for _ in 0..scale.rounds {
        alone.push(writers(&[one])?);
        together.push(writers(&[one, one])?);
        apart.push(writers(&[one, two])?);
    }
    let (alone, together, apart) = (median(alone), median(together), median(apart));
    Ok(vec![
        ("one process SET/s".into(), alone),
        ("two processes SET/s".into(), together),
        ("two / one".into(), together / alone),
        ("two processes, a segment each, SET/s".into(), apart),
        ("one segment / a segment each".into(), together / apart),
    ])
}

/// The writes a second of processes at once, each on a core of its own and on its segment.
fn writers(segments: &[&str]) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let seconds = ROUND.as_secs_f64().to_string();
    let mut children = Vec::new();
    for (core, segment) in segments.iter().enumerate() {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(&program);
        command.args(["probe", "write", segment, &format!("writer{core}:"), &seconds]);
        children.push(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| error.to_string())?,
        );
    }
    let mut sum = 0.0;
    for child in children {
        sum += memory::number(&child.wait_with_output().map_err(|error| error.to_string())?)?;
    }
    Ok(sum)
}

/// Threads that SET one key: the smallest share of the largest, and what is left of one thread's rate.
///
/// # Errors
/// When a command is refused.
pub fn fairness(scale: &Scale) -> Result<Figures, String> {
    let scratch = Scratch::new();
    let mut figures = Figures::new();
    let mut alone = 0.0;
    for threads in [1, 2, 4, 8] {
        let (mut rates, mut shares) = (vec![], vec![]);
        for _ in 0..scale.rounds {
            let counts = hammer(&scratch.embedder, threads)?;
            rates.push(counts.iter().sum::<u64>() as f64 / ROUND.as_secs_f64());
            let (least, most) =
                (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(1));
            shares.push(least as f64 / most as f64);
        }
        let rate = median(rates);
        if threads == 1 {
            alone = rate;
        }
        figures.push((format!("{threads} threads SET/s"), rate));
        figures.push((format!("{threads} threads, least / most"), median(shares)));
        figures.push((format!("{threads} threads / one"), rate / alone));
    }
    Ok(figures)
}

/// How often each thread could write the key.
fn hammer(embedder: &Embedder, threads: usize) -> Result<Vec<u64>, String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let write = || -> Result<u64, String> {
            let mut quiet = Quiet::default();
            let mut done = 0;
            while !over.load(Ordering::Relaxed) {
                quiet.call(embedder, &[b"SET", b"hot", b"0123456789abcdef"])?;
                done += 1;
            }
            Ok(done)
        };
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
        std::thread::sleep(ROUND);
        over.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .map(|writer| writer.join().map_err(|_| "a writer panicked".to_string())?)
            .collect()
    })
}
