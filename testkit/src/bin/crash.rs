//! The crash test: `crash [--seed N] [--kills N] [--actors N] [--pause MS]`. See `polder_testkit::crash`.
use std::process::ExitCode;

use polder_testkit::crash::driver::{self, Plan};
use polder_testkit::random::Random;

fn main() -> ExitCode {
    match plan().and_then(|plan| run(&plan)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}\ncrash: 0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

fn plan() -> Result<Plan, String> {
    let mut plan = Plan { seed: Random::seed_of_the_day(), actors: 6, kills: 1000, pause_ms_max: 20 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value: u64 = words.next().and_then(|value| value.parse().ok()).ok_or_else(|| format!("{word} needs a number"))?;
        match word.as_str() {
            "--seed" => plan.seed = value,
            "--kills" => plan.kills = value as u32,
            "--actors" => plan.actors = value as u32,
            "--pause" => plan.pause_ms_max = value as usize,
            _ => return Err("crash [--seed N] [--kills N] [--actors N] [--pause MS]".into()),
        }
    }
    Ok(plan)
}

fn run(plan: &Plan) -> Result<bool, String> {
    println!("seed {}", plan.seed);
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("crash_actor");
    let report = driver::run(plan, &program)?;
    for failure in &report.failures {
        println!("{failure}");
    }
    println!("{} processes killed, {} writes acknowledged", report.kills, report.acknowledged);
    let whole = report.failures.is_empty();
    println!("crash: {} passed, {} failed", u32::from(whole), u32::from(!whole));
    Ok(whole)
}
