//! The chores of the house: `cargo x NAME`. Every rule that a tool can check is checked by `cargo x check`.
//!
//! This crate depends on none of ours, so it still builds when they do not; what needs them lives in testkit and is
//! started from here.
#![forbid(unsafe_code)]

mod counts;
mod floors;
mod tally;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use tally::Tally;

const USAGE: &str = "\
cargo x check                 formatting, clippy, tidy, floors, documents, unit tests and transcripts
cargo x test                  every layer, as `make test` runs it
cargo x peers [--seed N] [--seconds N] [--sequences N] [--only NAME]
                              the same commands for Polder and the real servers
                              (after `xtask/needs.sh newer` against Redis 8.0 and Valkey 8.1, too)
cargo x peers --transcripts   the transcripts against redis-server
cargo x crash points          kill -9 at every store of every write path, by commands
cargo x crash stores [NAME]   the same below commands, with deaths of recoverers; the whole memory verified after each
cargo x crash torture [SEED [SECONDS]]
                              processes that do everything and die all the time
cargo x crash [--seed N] [--kills N] [--actors N] [--pause MS] [--stall MS]
                              kill -9 under load, against the journals of what was acknowledged
cargo x crash --seconds N [--seed N] [--processes N] [--pause MS] [--stall MS]
                              the torture run: servers, Rust, C and Python embedders, killed and stopped all the time
cargo x crash --histories [--seed N] [--seconds N] [--players N] [--pause MS]
                              recorded histories under kills and stops: linearizable, transactions strictly serialisable
cargo x fuzz smoke | NAME [--seed N] [--seconds N]
cargo x bench [NAME]          ratios against peers in one run, appended to bench/history.jsonl
cargo x bench counts [--write]
                              instructions of operations under callgrind, against bench/counts.json; or writes that file
cargo x docs                  writes docs/commands.md, docs/settings.md and the C headers";

/// The seed of the parts that `cargo x test` runs: the same changes give the same result.
const SEED: &str = "20260711";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut tally = Tally::default();
    match words.as_slice() {
        ["check"] => check(&mut tally),
        ["test"] => test(&mut tally),
        ["docs"] => testkit(&mut tally, "documents", "docs", &[]),
        ["peers", "--transcripts"] => transcripts(&mut tally, "--redis-server"),
        ["crash", "stores", rest @ ..] => table(&mut tally, "kill", &[&["--all"], rest].concat()),
        ["crash", "torture", rest @ ..] => table(&mut tally, "torture", rest),
        ["crash", rest @ ..] if rest.contains(&"--seconds") && !rest.contains(&"--histories") => torture(&mut tally, rest),
        [name @ ("peers" | "crash" | "fuzz"), rest @ ..] => testkit(&mut tally, name, name, rest),
        ["bench", "counts"] => tally.rule("instruction counts", counts::check(&root(), false)),
        ["bench", "counts", "--write"] => tally.rule("instruction counts", counts::check(&root(), true)),
        ["bench", rest @ ..] => bench(&mut tally, rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    }
    tally.close()
}

/// What every commit must pass.
fn check(tally: &mut Tally) {
    tally.cargo("format", &["fmt", "--all", "--check"]);
    tally.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    tally.rule("tidy", tidy::check(&root()));
    tally.rule("floors", floors::check(&root()));
    testkit(tally, "documents are fresh", "docs", &["--check"]);
    tally.cargo("unit tests and transcripts", &["test", "--workspace", "--no-fail-fast"]);
}

/// All layers; the long ones for a short while, with a fixed seed.
fn test(tally: &mut Tally) {
    check(tally);
    tally.rule("instruction counts", counts::check(&root(), false));
    testkit(tally, "fuzz", "fuzz", &["smoke", "--seed", SEED]);
    testkit(tally, "peers", "peers", &["--seed", SEED, "--seconds", "30", "--sequences", "8000"]);
    transcripts(tally, "--serve");
    testkit(tally, "stock clients", "stock_clients", &[]);
    tally.run("C door", script("capi/test.sh"));
    tally.run("Python door", script("python/test.sh"));
    testkit(tally, "real input", "real_input", &[]);
    testkit(tally, "crash points", "crash", &["points"]);
    torture(tally, &["--seed", SEED, "--seconds", "20", "--processes", "10"]);
    testkit(tally, "histories", "crash", &["--histories", "--seed", SEED, "--seconds", "10"]);
    testkit(tally, "crash", "crash", &["--seed", SEED, "--kills", "200", "--actors", "4", "--stall", "500"]);
}

/// Processes of all kinds, those in C and Python among them.
fn torture(tally: &mut Tally, words: &[&str]) {
    tally.run("actors in C and Python", script("testkit/actors/build.sh"));
    testkit(tally, "torture", "crash", words);
}

/// A script of ours, which is stopped when it hangs.
fn script(path: &str) -> Command {
    let mut command = Command::new("timeout");
    command.arg("900").arg(root().join(path));
    command
}

/// Runs the transcripts against servers.
fn transcripts(tally: &mut Tally, against: &str) {
    let args = ["test", "--quiet", "--package", "polder-testkit", "--test", "transcripts", "--", against];
    tally.cargo("transcripts over a socket", &args);
}

/// Runs a test program of the table at its full length.
fn table(tally: &mut Tally, program: &str, words: &[&str]) {
    let mut args = vec!["test", "--quiet", "--package", "polder-table", "--test", program, "--"];
    args.extend(words);
    tally.cargo(program, &args);
}

/// Measures in release builds, server and load generator alike.
fn bench(tally: &mut Tally, words: &[&str]) {
    tally.cargo("release build", &["build", "--release", "--quiet", "--package", "polder", "--package", "polder-testkit"]);
    let mut args = vec!["run", "--release", "--quiet", "--package", "polder-testkit", "--bin", "bench", "--"];
    args.extend(words);
    tally.cargo("bench", &args);
}

/// Runs a program of testkit as one layer; all its programs are built, since one may start another.
fn testkit(tally: &mut Tally, layer: &str, program: &str, words: &[&str]) {
    if !tally.cargo_quietly(layer, &["build", "--quiet", "--package", "polder", "--package", "polder-testkit", "--bins"]) {
        return;
    }
    let mut args = vec!["run", "--quiet", "--package", "polder-testkit", "--bin", program, "--"];
    args.extend(words);
    tally.cargo(layer, &args);
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
