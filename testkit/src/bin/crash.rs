//! The crash test: `crash [--seed N] [--kills N] [--actors N] [--pause MS] [--stall MS]` kills at random under load, `crash points`
//! at every store of every write path. See `polder_testkit::crash`.
use std::path::PathBuf;
use std::process::ExitCode;

use polder_testkit::crash::STALL_MAX;
use polder_testkit::crash::driver::{self, Plan};
use polder_testkit::crash::points;
use polder_testkit::random::Random;

fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("points") => run_points(),
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

fn plan() -> Result<Plan, String> {
    let mut plan =
        Plan { seed: Random::seed_of_the_day(), actors: 6, kills: 1000, pause_ms_max: 20, stall_ms_max: STALL_MAX.as_millis() as u64 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value: u64 = words.next().and_then(|value| value.parse().ok()).ok_or_else(|| format!("{word} needs a number"))?;
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

/// Dies at every store of every write path.
fn run_points() -> Result<bool, String> {
    let (mut passed, mut failed) = (0, 0);
    for route in points::ROUTES {
        let report = points::run(route, &actor()?).unwrap_or_else(|error| points::Report { deaths: 0, failures: vec![error] });
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
