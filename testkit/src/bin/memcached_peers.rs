//! Compares Polder with a real memcached on generated sequences:
//! `memcached_peers [--seed N] [--sequences N] [--only N]`
//!
//! The seed is printed. `--only` runs one sequence again, by the number that a failure shows.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use polder_testkit::peers::memcached::connections::Connections;
use polder_testkit::peers::memcached::generate::{Features, GROUP};
use polder_testkit::peers::memcached::rules::Rules;
use polder_testkit::peers::memcached::run::{Failure, Sides};
use polder_testkit::peers::memcached::shown;
use polder_testkit::process::{Server, free_port, more_peers, on_path, polder};
use polder_testkit::random::Random;
use polder_testkit::scratch::Scratch;

/// After this many differences the rest is most likely more of the same.
const FAILURES_MAX: usize = 5;

struct Options {
    seed: u64,
    sequences: usize,
    only: Option<usize>,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("seed {}", options.seed);
    let (mut passed, mut failed) = (0, 0);
    for (name, program, features) in installed() {
        match run(&program, features, &options) {
            Ok((equal, failures)) => {
                println!("{name}: {equal} sequences equal, {} differ", failures.len());
                for failure in &failures {
                    show(failure, options.seed);
                }
                (passed, failed) = (passed + equal, failed + failures.len());
            }
            Err(error) => {
                println!("{name}: {error}");
                failed += 1;
            }
        }
    }
    println!("memcached peers: {passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Result<Options, String> {
    let mut options = Options { seed: Random::seed_of_the_day(), sequences: 10_000, only: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{word} {value}: not a number"))?;
        match word.as_str() {
            "--seed" => options.seed = number,
            "--sequences" => options.sequences = number as usize,
            "--only" => options.only = Some(number as usize),
            _ => return Err("memcached_peers [--seed N] [--sequences N] [--only N]".into()),
        }
    }
    Ok(options)
}

/// The memcached of the PATH, and for a person that looks a newer one in the folder that `POLDER_PEERS` names.
fn installed() -> Vec<(String, PathBuf, Features)> {
    let mut peers = Vec::new();
    match on_path("memcached") {
        Some(program) => peers.push(("memcached".into(), program, Features { is_new: false })),
        None => println!("memcached: not installed, left out"),
    }
    if std::env::var_os("POLDER_PEERS").is_some() {
        let newer = more_peers().into_iter().filter(|(name, _)| name.starts_with("memcached"));
        peers.extend(newer.map(|(name, program)| (name, program, Features { is_new: true })));
    }
    peers
}

fn run(program: &Path, features: Features, options: &Options) -> Result<(usize, Vec<Failure>), String> {
    let scratch = Scratch::new();
    let (_servers, connections) =
        start(program, &scratch.options.segment).map_err(|error| error.to_string())?;
    let [ours, theirs] = connections;
    let rules = Rules::read()?;
    let mut sides = Sides { ours, theirs, rules, features, seed: options.seed, runs: 0 };
    let (first, end) = options.only.map_or((0, options.sequences), |only| (only, only + 1));
    let (mut equal, mut failures) = (0, Vec::new());
    let mut from = first;
    while from < end && failures.len() < FAILURES_MAX {
        let upto = end.min((from / GROUP + 1) * GROUP);
        let found = sides.run(from..upto)?;
        equal += upto - from - found.len();
        for failure in found.into_iter().take(FAILURES_MAX) {
            failures.push(sides.shrink(failure)?);
        }
        from = upto;
    }
    Ok((equal, failures))
}

/// Starts both servers, ours on a segment, and connects to them.
fn start(program: &Path, segment: &str) -> std::io::Result<([Server; 2], [Connections; 2])> {
    let (port, udp, their_udp) = (free_port()?, free_port()?, free_port()?);
    let [port_text, udp_text, their_udp_text] = [port, udp, their_udp].map(|port| port.to_string());
    // memcached does not run as root; its first flag is ignored for others. A second thread may still hold an item whose reply has come, and then
    // a counter loses its marks.
    let flags =
        ["-u", "nobody", "-U", &their_udp_text, "-l", "127.0.0.1", "-p", "{port}", "-m", "256", "-t", "1"];
    let theirs = Server::start(program, &flags)?;
    let flags = ["--memcache-port", &port_text, "--memcache-udp-port", &udp_text];
    let ours = Server::start_polder(&polder(), segment, &flags)?;
    let connections = [Connections::open(port, udp)?, Connections::open(theirs.port(), their_udp)?];
    Ok(([ours, theirs], connections))
}

fn show(failure: &Failure, seed: u64) {
    println!("differs: --seed {seed} --only {}", failure.number);
    for step in &failure.steps {
        println!("  {}", shown(step));
    }
    println!("{}\n", failure.how);
}
