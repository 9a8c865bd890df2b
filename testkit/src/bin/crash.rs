//! The crash test: `crash [--seed N] [--kills N] [--actors N] [--pause MS] [--stall MS]` kills at random under load, `crash points [--log] [NAME ...]`
//! at every store of every write path, with `--log` beside a follower of the change log. See `polder_testkit::crash`. `crash --histories [--seed N] [--seconds N] [--players N] [--pause MS]` checks that
//! what killed processes leave is a history that one process could have made: see `polder_testkit::history`. `crash --seconds N [--seed N] [--processes N]
//! [--pause MS] [--stall MS]` is the torture run of all kinds of processes: see `polder_testkit::crash::mixed`.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use polder_testkit::crash::STALL_MAX;
use polder_testkit::crash::driver::{self, Plan};
use polder_testkit::crash::{mixed, points, replicas};
use polder_testkit::history;
use polder_testkit::process;
use polder_testkit::random::Random;

fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("points") => run_points(),
        Some("--histories") => run_histories(),
        Some("replicas") => run_replicas(),
        _ if std::env::args().any(|word| word == "--seconds") => run_mixed(),
        _ => plan().and_then(|plan| run(&plan)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}\ncrash: 0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

/// The options behind the first words, each with its number.
fn numbers(skipped: usize) -> Result<Vec<(String, u64)>, String> {
    let (mut words, mut found) = (std::env::args().skip(skipped), Vec::new());
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse().ok());
        found.push((word.clone(), value.ok_or_else(|| format!("{word} needs a number"))?));
    }
    Ok(found)
}

fn plan() -> Result<Plan, String> {
    let mut plan = Plan {
        seed: Random::seed_of_the_day(),
        actors: 6,
        kills: 1000,
        pause_ms_max: 20,
        stall_ms_max: STALL_MAX.as_millis() as u64,
    };
    for (word, value) in numbers(1)? {
        match word.as_str() {
            "--seed" => plan.seed = value,
            "--kills" => plan.kills = value as u32,
            "--actors" => plan.actors = value as u32,
            "--pause" => plan.pause_ms_max = value as usize,
            "--stall" => plan.stall_ms_max = value,
            _ => return Err("crash [--seed N] [--kills N] [--actors N] [--pause MS] [--stall MS]".into()),
        }
    }
    Ok(plan)
}

fn run(plan: &Plan) -> Result<bool, String> {
    println!("seed {}", plan.seed);
    let report = driver::run(plan, &actor()?)?;
    for failure in &report.failures {
        println!("{failure}");
    }
    println!("{} processes killed, {} writes acknowledged", report.kills, report.acknowledged);
    let whole = report.failures.is_empty();
    println!("crash: {} passed, {} failed", u32::from(whole), u32::from(!whole));
    Ok(whole)
}

/// The run of nodes that replicate from each other.
fn run_replicas() -> Result<bool, String> {
    let mut plan =
        replicas::Plan { seed: Random::seed_of_the_day(), seconds: 60, pause_ms: 100, awaits: None };
    for (word, value) in numbers(2)? {
        match word.as_str() {
            "--seed" => plan.seed = value,
            "--seconds" => plan.seconds = value,
            "--pause" => plan.pause_ms = value,
            "--awaits" => plan.awaits = Some(value),
            _ => return Err("crash replicas [--seed N] [--seconds N] [--pause MS] [--awaits N]".into()),
        }
    }
    println!("seed {}", plan.seed);
    let report = replicas::run(&plan)?;
    report.failures.iter().for_each(|failure| println!("{failure}"));
    println!(
        "{} processes killed, {} primaries lost ({}), {} writes acknowledged, {} of them missing",
        report.kills,
        report.losses,
        report.primaries.join(", "),
        report.acknowledged,
        report.missing
    );
    let whole = report.failures.is_empty();
    println!("crash replicas: {} passed, {} failed", u32::from(whole), u32::from(!whole));
    Ok(whole)
}

/// The torture run of all kinds of processes.
fn run_mixed() -> Result<bool, String> {
    let mut plan = mixed::Plan {
        seed: Random::seed_of_the_day(),
        seconds: 600,
        processes: 16,
        pause_ms: 100,
        stall_ms_max: 15_000,
    };
    for (word, value) in numbers(1)? {
        match word.as_str() {
            "--seed" => plan.seed = value,
            "--seconds" => plan.seconds = value,
            "--processes" => plan.processes = value as usize,
            "--pause" => plan.pause_ms = value,
            "--stall" => plan.stall_ms_max = value,
            _ => return Err("crash --seconds N [--seed N] [--processes N] [--pause MS] [--stall MS]".into()),
        }
    }
    println!("seed {}", plan.seed);
    let actors = Path::new(env!("CARGO_MANIFEST_DIR")).join("actors");
    let target = process::target_folder();
    let programs = mixed::Programs {
        rust: actor()?,
        c: target.join("actors/actor"),
        python: target.join("python/venv/bin/python"),
        script: actors.join("actor.py"),
    };
    if let Some(missing) = [&programs.c, &programs.python].into_iter().find(|program| !program.exists()) {
        return Err(format!("there is no {}: testkit/actors/build.sh makes it", missing.display()));
    }
    let report = mixed::run(&plan, &programs)?;
    report.failures.iter().for_each(|failure| println!("{failure}"));
    println!(
        "{} processes killed, {} stopped, {} writes acknowledged",
        report.kills, report.stops, report.acknowledged
    );
    let whole = report.failures.is_empty();
    println!("torture: {} passed, {} failed", u32::from(whole), u32::from(!whole));
    Ok(whole)
}

/// Records histories and checks them.
fn run_histories() -> Result<bool, String> {
    let mut plan = history::run::Plan {
        seed: Random::seed_of_the_day(),
        seconds: 60,
        players: 3,
        servers: 2,
        pause_ms_max: 60,
    };
    for (word, value) in numbers(2)? {
        match word.as_str() {
            "--seed" => plan.seed = value,
            "--seconds" => plan.seconds = value,
            "--players" => plan.players = value as usize,
            "--pause" => plan.pause_ms_max = value as usize,
            _ => return Err("crash --histories [--seed N] [--seconds N] [--players N] [--pause MS]".into()),
        }
    }
    println!("seed {}", plan.seed);
    let report = history::run::run(&plan, &actor()?)?;
    report.failures.iter().for_each(|failure| println!("{failure}"));
    let history::run::Report { operations, open, groups, kills, stops, .. } = report;
    println!(
        "{operations} operations, {open} of them cut short, in {groups} groups; {kills} processes killed, {stops} stopped"
    );
    let whole = report.failures.is_empty();
    println!("histories: {} passed, {} failed", u32::from(whole), u32::from(!whole));
    Ok(whole)
}

/// Dies at every store of every write path, or of those that are named; with `--log` beside a follower of the change log.
fn run_points() -> Result<bool, String> {
    let (mut passed, mut failed) = (0, 0);
    let words: Vec<String> = std::env::args().skip(2).collect();
    let follows = words.iter().any(|word| word == "--log");
    let names: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let more = if follows { points::FOLLOWED } else { &[] };
    for route in points::ROUTES
        .iter()
        .chain(more)
        .filter(|route| names.is_empty() || names.iter().any(|name| *name == route.name))
    {
        let report = points::run(route, &actor()?, follows)
            .unwrap_or_else(|error| points::Report { deaths: 0, failures: vec![error] });
        println!("{}: {} deaths", route.name, report.deaths);
        for failure in &report.failures {
            println!("{failure}");
        }
        match report.failures.is_empty() && report.deaths > 0 {
            true => passed += 1,
            false => failed += 1,
        }
    }
    println!("crash points: {passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// The program that plays an actor lies beside this one.
fn actor() -> Result<PathBuf, String> {
    Ok(std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("crash_actor"))
}
