//! Runs `tests/transcripts/*.transcript` through every door, and sees to it that every command has a case.
//!
//! `cargo test -p polder-testkit --test transcripts -- [NAME...] [--redis HOST:PORT] [--polder HOST:PORT] [--serve]
//! [--redis-server]`: names choose files; an address runs them against that server in place of the engine in this process;
//! `--serve` starts a `polder serve` (which must have been built) and `--redis-server` a redis-server for each file.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use polder_base::Protocol;
use polder_testkit::door::{Door, InProcess, Socket};
use polder_testkit::process::{Server, polder};
use polder_testkit::runner::{self, Outcome};
use polder_testkit::scratch::Scratch;
use polder_testkit::transcript::Transcript;

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

/// Commands that have no transcript yet, one name a line. Entries only ever leave this list.
const MISSING: &str = "missing.txt";

#[derive(Default)]
struct Choice {
    names: Vec<String>,
    servers: Vec<(String, bool)>,
    serve: bool,
    redis: bool,
}

fn main() -> ExitCode {
    let choice = match chosen() {
        Ok(choice) => choice,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failures) = (0, Vec::new());
    let (transcripts, unreadable) = read_all();
    failures.extend(unreadable);
    for transcript in transcripts.iter().filter(|t| choice.names.is_empty() || choice.names.contains(&t.name))
    {
        match run_through_all(transcript, &choice) {
            Ok(outcome) => {
                passed += outcome.passed;
                failures.extend(outcome.failures);
            }
            Err(error) => failures.push(error),
        }
    }
    if choice.names.is_empty() && choice.servers.is_empty() && !choice.serve && !choice.redis {
        match every_command_has_a_case(&transcripts) {
            Ok(()) => passed += 1,
            Err(text) => failures.push(text),
        }
    }
    for failure in &failures {
        println!("{failure}");
    }
    println!("transcripts: {passed} passed, {} failed", failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn chosen() -> Result<Choice, String> {
    let mut choice = Choice::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--redis" | "--polder" => {
                let address = words.next().ok_or(format!("{word} HOST:PORT"))?;
                choice.servers.push((address, word == "--redis"));
            }
            "--serve" => choice.serve = true,
            "--redis-server" => choice.redis = true,
            // cargo hands these to every test binary.
            _ if word.starts_with('-') => {}
            _ => choice.names.push(word),
        }
    }
    Ok(choice)
}

/// Runs one file through every door of the choice. A server of ours is started for it alone: settings outlive cases.
fn run_through_all(transcript: &Transcript, choice: &Choice) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut servers = choice.servers.clone();
    let scratch = choice.serve.then(Scratch::new);
    let served = scratch
        .as_ref()
        .map(|scratch| Server::start_polder(&polder(), &scratch.options.segment, &[]))
        .transpose();
    let served = served.map_err(|error| error.to_string())?;
    servers.extend(served.as_ref().map(|server| (server.address(), false)));
    let redis = choice
        .redis
        .then(|| Server::start_redis(Path::new("redis-server")))
        .transpose()
        .map_err(|error| error.to_string())?;
    servers.extend(redis.as_ref().map(|server| (server.address(), true)));
    for mut door in doors(&servers) {
        let more = runner::run(transcript, door.as_mut());
        outcome.passed += more.passed;
        outcome.failures.extend(more.failures);
    }
    Ok(outcome)
}

fn doors(servers: &[(String, bool)]) -> Vec<Box<dyn Door>> {
    if servers.is_empty() {
        return PROTOCOLS
            .iter()
            .map(|&protocol| Box::new(InProcess::new(protocol)) as Box<dyn Door>)
            .collect();
    }
    let sockets = servers
        .iter()
        .flat_map(|(address, is_redis)| PROTOCOLS.map(|protocol| Socket::new(address, protocol, *is_redis)));
    sockets.map(|socket| Box::new(socket) as Box<dyn Door>).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/transcripts")
}

/// All transcripts in the order of their names, and what was wrong with the others.
fn read_all() -> (Vec<Transcript>, Vec<String>) {
    let entries = match std::fs::read_dir(folder()) {
        Ok(entries) => entries,
        Err(error) => return (vec![], vec![format!("tests/transcripts: {error}")]),
    };
    let paths: BTreeSet<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "transcript"))
        .collect();
    let mut read = (vec![], vec![]);
    for path in paths {
        match Transcript::read(&path) {
            Ok(transcript) => read.0.push(transcript),
            Err(error) => read.1.push(error),
        }
    }
    read
}

/// Whether every row of the command table has a case, or stands in the list of those that still lack one.
fn every_command_has_a_case(transcripts: &[Transcript]) -> Result<(), String> {
    let tried: BTreeSet<String> = transcripts.iter().flat_map(Transcript::commands).collect();
    let missing = std::fs::read_to_string(folder().join(MISSING)).unwrap_or_default();
    let missing: BTreeSet<&str> =
        missing.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let names: BTreeSet<&str> = polder_engine::COMMANDS.all().map(|(_, command)| command.name).collect();
    let lacking: Vec<&&str> =
        names.iter().filter(|name| !tried.contains(**name) && !missing.contains(**name)).collect();
    let stale: Vec<&&str> =
        missing.iter().filter(|name| tried.contains(**name) || !names.contains(**name)).collect();
    match (lacking.is_empty(), stale.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("tests/transcripts: no case for {lacking:?}")),
        (true, false) => Err(format!(
            "tests/transcripts/{MISSING}: take out {stale:?}, they have cases or are no commands"
        )),
    }
}
