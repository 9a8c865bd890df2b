//! `fuzz smoke | NAME [--seed N] [--seconds N] [--input QUOTED]`: tries one target, or every one for a short while; or one input, as a
//! complaint has shown it.
use std::process::ExitCode;
use std::time::Duration;

use polder_testkit::arguments;
use polder_testkit::fuzz::{TARGETS, attempt, run};
use polder_testkit::random::Random;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str, or: u64| {
        let at = words.iter().position(|word| word == flag);
        at.and_then(|at| words.get(at + 1)).and_then(|word| word.parse().ok()).unwrap_or(or)
    };
    let name = words.first().map_or("smoke", String::as_str);
    let (seed, smoke) = (number("--seed", Random::seed_of_the_day()), name == "smoke");
    let seconds = number("--seconds", if smoke { 3 } else { 60 });
    println!("seed {seed}");
    // The panics of targets are told below, once and shortened.
    if std::env::var_os("FUZZ_LOUD").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let input = words.iter().position(|word| word == "--input").and_then(|at| words.get(at + 1));
    let input = input.map(|quoted| arguments::split(quoted).expect("one quoted word").concat());
    let (mut passed, mut failed) = (0, 0);
    for target in TARGETS.iter().filter(|target| (smoke && target.smoke) || target.name == name) {
        let tried = match &input {
            Some(input) => attempt(target, input),
            None => run(target, seed, Duration::from_secs(seconds)),
        };
        match tried {
            Ok(tried) => {
                println!("{}: {tried} inputs", target.name);
                passed += 1;
            }
            Err(complaint) => {
                println!("{complaint}");
                failed += 1;
            }
        }
    }
    if passed + failed == 0 {
        println!(
            "no target {name}; there are: {}",
            TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(" ")
        );
    }
    println!("fuzz: {passed} passed, {failed} failed");
    if passed > 0 && failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
