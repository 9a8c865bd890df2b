//! A seeded, mutating fuzzer for everything that reads bytes from strangers: an error, never a crash or a hang.
//!
//! It needs no special compiler, so that a short run is part of every test run. An input that a target dies of is cut
//! down to a few bytes and printed; it then belongs into the unit tests of what it broke.
pub mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::answer::quoted;
use crate::random::Random;

pub use targets::TARGETS;

/// What is fuzzed: it takes any bytes, and panics when something is wrong.
pub struct Target {
    pub name: &'static str,
    /// Sensible inputs, from which the others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    pub try_input: fn(&[u8]),
    /// Whether the short run of every test includes it: not while it still finds faults faster than they are mended.
    pub smoke: bool,
}

/// How long one input may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(10);
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Tries inputs for a while. Returns how many.
///
/// # Errors
/// The shortest input found that the target dies of, and what it said.
pub fn run(target: &'static Target, seed: u64, duration: Duration) -> Result<u64, String> {
    let mut corpus = (target.seeds)();
    let mut random = Random::new(seed);
    let started = Instant::now();
    let (inputs, verdicts) = worker(target);
    let mut tried = 0;
    while started.elapsed() < duration {
        let mut input = random.pick(&corpus).clone();
        for _ in 0..1 + random.below(6) {
            mutate(&mut input, &corpus, &mut random);
        }
        if let Some(complaint) = ask(&inputs, &verdicts, input.clone()) {
            let (shortest, complaint) = shorten(input, complaint, &inputs, &verdicts);
            return Err(format!("{}: {complaint}\n  input {}", target.name, quoted(&shortest)));
        }
        tried += 1;
        if random.chance(1) && corpus.len() < 500 {
            corpus.push(input);
        }
    }
    Ok(tried)
}

/// Tries one input.
///
/// # Errors
/// What the target said when it died of it.
pub fn attempt(target: &'static Target, input: &[u8]) -> Result<u64, String> {
    let (inputs, verdicts) = worker(target);
    ask(&inputs, &verdicts, input.to_vec())
        .map_or(Ok(1), |complaint| Err(format!("{}: {complaint}", target.name)))
}

type Verdict = Option<String>;

/// Another thread tries the inputs, so that one that hangs can be told.
fn worker(target: &'static Target) -> (mpsc::Sender<Vec<u8>>, mpsc::Receiver<Verdict>) {
    let (inputs, to_try) = mpsc::channel::<Vec<u8>>();
    let (verdict, verdicts) = mpsc::channel();
    std::thread::spawn(move || {
        for input in to_try {
            let tried = catch_unwind(AssertUnwindSafe(|| (target.try_input)(&input)));
            if verdict.send(tried.err().map(|panic| said(panic.as_ref()))).is_err() {
                return;
            }
        }
    });
    (inputs, verdicts)
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_string()
}

fn ask(inputs: &mpsc::Sender<Vec<u8>>, verdicts: &mpsc::Receiver<Verdict>, input: Vec<u8>) -> Verdict {
    if inputs.send(input).is_err() {
        return Some("it died".into());
    }
    verdicts.recv_timeout(HANG).unwrap_or_else(|_| Some("it hangs".into()))
}

/// Leaves out pieces as long as the target still complains. What hangs is left as it is: its thread is lost.
fn shorten(
    mut input: Vec<u8>,
    mut complaint: String,
    inputs: &mpsc::Sender<Vec<u8>>,
    verdicts: &mpsc::Receiver<Verdict>,
) -> (Vec<u8>, String) {
    let mut step = input.len() / 2;
    while step > 0 && complaint != "it hangs" {
        let mut at = 0;
        while at < input.len() {
            let mut fewer = input.clone();
            fewer.drain(at..(at + step).min(input.len()));
            match ask(inputs, verdicts, fewer.clone()) {
                Some(still) => (input, complaint) = (fewer, still),
                None => at += step,
            }
        }
        step /= 2;
    }
    (input, complaint)
}

/// One small change of an input.
fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    const NUMBERS: [&[u8]; 10] = [
        b"0",
        b"-1",
        b"1",
        b"-2147483649",
        b"2147483648",
        b"9223372036854775807",
        b"9223372036854775808",
        b"1048577",
        b"",
        b"\r\n",
    ];
    let at = random.below(input.len() + 1);
    match random.below(8) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.bits() as u8,
        2 => input.insert(at, *random.pick(b"\r\n$*:+-\"\\~%>|#,(=_0193 \0\xff")),
        3 => {
            let end = (at + random.below(16)).min(input.len());
            input.drain(at..end);
        }
        4 => {
            let other = random.pick(corpus);
            let from = random.below(other.len() + 1);
            let piece = other[from..(from + random.below(64)).min(other.len())].to_vec();
            input.splice(at..at, piece);
        }
        5 => {
            let digits = input[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            input.splice(at..at + digits, random.pick(&NUMBERS).iter().copied());
        }
        6 => input.truncate(at),
        _ => {
            let piece = input[at..(at + random.below(32)).min(input.len())].to_vec();
            input.splice(at..at, piece.repeat(1 + random.below(4)));
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_kills_is_found_and_cut_down() {
        static FRAGILE: Target = Target {
            name: "fragile",
            seeds: || vec![b"hello world".to_vec()],
            try_input: |input| assert!(!input.contains(&b'$'), "a dollar"),
            smoke: false,
        };
        let complaint = run(&FRAGILE, 1, Duration::from_secs(10)).unwrap_err();
        assert!(complaint.contains("input \"$\""), "{complaint}");
    }
}
