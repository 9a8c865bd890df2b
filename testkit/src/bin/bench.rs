//! `bench [readme|NAME...] [--scale N] [--rounds N] [--newest]`: measures all or some, at full size or an N-th of it, and appends the figures
//! to bench/history.jsonl (`--dry`: does not). `--newest` leaves out all rivals but the newest. `bench readme` measures what the README shows,
//! `bench plot` draws it. `bench probe ...` is what it starts in processes of their own.
use std::path::Path;
use std::process::ExitCode;

use polder_testkit::bench::{BENCHES, README, Scale, plot, probe, record};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["probe", rest @ ..] = words.as_slice() {
        return match probe::run(rest) {
            Ok(number) => {
                println!("{number}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let done = match words.as_slice() {
        ["plot"] => plot::plot(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")),
        _ => measure(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(words: &[&str]) -> Result<(), String> {
    let mut scale = Scale { divisor: 1, rounds: 3, newest: false, dry: false };
    let (mut names, mut readme) = (Vec::new(), false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok()).filter(|number| *number > 0);
        match *word {
            "--scale" => scale.divisor = number().ok_or("--scale N")?,
            "--newest" => scale.newest = true,
            "--dry" => scale.dry = true,
            "readme" => readme = true,
            "--rounds" => scale.rounds = number().ok_or("--rounds N")? as usize,
            name if BENCHES.iter().any(|bench| bench.name == name) => names.push(name),
            _ => {
                let known: Vec<String> =
                    BENCHES.iter().map(|bench| format!("  {:<10} {}", bench.name, bench.about)).collect();
                return Err(format!(
                    "bench [readme|NAME...] [--scale N] [--rounds N] [--newest]\n{}",
                    known.join("\n")
                ));
            }
        }
    }
    if readme {
        names.extend(README.iter().map(|(name, _)| *name));
        scale.newest = true;
    }
    let mut failures = Vec::new();
    for bench in BENCHES.iter().filter(|bench| names.is_empty() || names.contains(&bench.name)) {
        println!("{}: {}", bench.name, bench.about);
        let share =
            README.iter().find(|(name, _)| readme && *name == bench.name).map_or(1, |(_, share)| *share);
        let scale = Scale { divisor: scale.divisor * share, ..scale };
        match (bench.run)(&scale) {
            Ok(figures) => record(bench.name, &scale, &figures).map_err(|error| error.to_string())?,
            Err(error) => failures.push(format!("{}: {error}", bench.name)),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
