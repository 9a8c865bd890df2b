//! The tasks of the repository: `cargo x NAME`. Every rule that a tool can check is checked by `cargo x check`.
//!
//! This crate depends on none of ours, so it still builds when they do not; what needs them lives in testkit and is
//! started from here.
#![forbid(unsafe_code)]

mod attempt;
mod circles;
mod counts;
mod english;
mod flaky;
mod floors;
mod named_paths;
mod packages;
mod ratchet;
mod tally;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use attempt::Limit;
use flaky::Flaky;
use tally::{Beside, Clock, Tally};

const USAGE: &str = "\
cargo x rules                 formatting, tidy, plain English, floors and packages: a few seconds
cargo x check                 the same, clippy, documents, unit tests and transcripts
cargo x test [--long]         every layer, as `make test` runs it; or for as long as a release deserves
cargo x english [--write]     where comments and documents break the rules of plain English; or lowers xtask/english.txt
cargo x peers [--seed N] [--seconds N] [--sequences N] [--only NAME]
                              the same commands for Polder and the real servers
                              (after `xtask/needs.sh newer` against Redis 8.0 and Valkey 8.1, too)
cargo x memcached_peers [--seed N] [--sequences N] [--only N]
                              the same for a real memcached: sequences with CAS values, marks and expiries
                              (POLDER_PEERS names a folder with a newer one, such as memcached-1.6.45)
cargo x peers --transcripts   the transcripts against redis-server
cargo x payloads [--seed N] [--seconds N] [--only NAME]
                              damaged payloads for RESTORE of Polder and the real servers
cargo x crash points          kill -9 at every store of every write path, by commands
cargo x crash stores [NAME]   the same below commands, with deaths of recoverers; the whole memory verified after each
cargo x crash replicas [--seed N] [--seconds N] [--pause MS] [--awaits N]
                              nodes of several kinds that replicate: processes killed, primaries lost; nothing acknowledged is missing
cargo x crash torture [SEED [SECONDS]]
                              processes that do everything and die all the time
cargo x crash [--seed N] [--kills N] [--actors N] [--pause MS] [--stall MS]
                              kill -9 under load, against the journals of what was acknowledged
cargo x crash --seconds N [--seed N] [--processes N] [--pause MS] [--stall MS]
                              the torture run: servers, Rust, C and Python embedders, killed and stopped all the time
cargo x crash --histories [--seed N] [--seconds N] [--players N] [--pause MS]
                              recorded histories under kills and stops: linearizable, transactions strictly serialisable
cargo x fuzz smoke | NAME [--seed N] [--seconds N]
cargo x bench [NAME]          ratios against peers in one run, appended to bench/history.jsonl; more peers from the folder POLDER_PEERS
                              (`xtask/needs.sh newest`)
cargo x bench readme          what the README and the plots show, against the newest peers, in under ten minutes
cargo x bench plot            draws docs/plots and writes docs/benchmarks.md from bench/history.jsonl
cargo x bench counts [--write]
                              instructions of operations under callgrind, against bench/counts.json; or writes that file
cargo x docs                  writes docs/commands.md, docs/settings.md, the C headers and the Python stubs";

/// The longest time in which a test program may print nothing.
const SILENCE: Duration = Duration::from_secs(600);

/// The seed of the parts that `cargo x test` runs: the same changes give the same result.
const SEED: &str = "20260711";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut flaky = Flaky::new(&target());
    if let ["attempt", program, arguments @ ..] = words.as_slice() {
        let limit = Limit { silence: SILENCE, script: concat!(env!("CARGO_MANIFEST_DIR"), "/limit.sh") };
        return attempt::attempt(limit, program, arguments, &flaky);
    }
    if let ["check" | "test", ..] = words.as_slice() {
        flaky.clear();
    }
    let mut tally = Tally::default();
    match words.as_slice() {
        ["rules"] => rules(&mut tally),
        ["check"] => check(&mut tally),
        ["test"] => test(&mut tally, &SHORT, &flaky),
        ["test", "--long"] => test(&mut tally, &LONG, &flaky),
        ["docs"] => testkit(&mut tally, "documents", "docs", &[]),
        ["peers", "--transcripts"] => transcripts(&mut tally, "--redis-server"),
        ["crash", "stores", rest @ ..] => table(&mut tally, "kill", &[&["--all"], rest].concat()),
        ["crash", "torture", rest @ ..] => table(&mut tally, "torture", rest),
        ["crash", "replicas", ..] => testkit(&mut tally, "crash replicas", "crash", &words[1..]),
        ["crash", rest @ ..] if rest.contains(&"--seconds") && !rest.contains(&"--histories") => {
            torture(&mut tally, rest)
        }
        [name @ ("peers" | "memcached_peers" | "payloads" | "crash" | "fuzz"), rest @ ..] => {
            testkit(&mut tally, name, name, rest)
        }
        ["english"] => tally.rule("plain English", || english::list(&root())),
        ["english", "--write"] => tally.rule("plain English", || english::write(&root())),
        ["bench", "counts"] => tally.rule("instruction counts", || counts::check(&root(), false)),
        ["bench", "counts", "--write"] => tally.rule("instruction counts", || counts::check(&root(), true)),
        ["bench", rest @ ..] => bench(&mut tally, rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    }
    tally.close(&flaky)
}

/// How long the layers last that only repeat: seeds, seconds, kills.
struct Length {
    fuzz: [&'static str; 2],
    peers: [&'static str; 4],
    memcached: [&'static str; 2],
    payloads: [&'static str; 2],
    torture: [&'static str; 4],
    histories: [&'static str; 2],
    crash: [&'static str; 6],
    /// The kill cases and the torture of the table at their full length.
    table: bool,
}

const SHORT: Length = Length {
    fuzz: ["--seconds", "2"],
    peers: ["--seconds", "20", "--sequences", "4000"],
    memcached: ["--sequences", "10000"],
    payloads: ["--seconds", "20"],
    torture: ["--seconds", "15", "--processes", "10"],
    histories: ["--seconds", "8"],
    crash: ["--kills", "120", "--actors", "4", "--stall", "500"],
    table: false,
};

const LONG: Length = Length {
    fuzz: ["--seconds", "60"],
    peers: ["--seconds", "300", "--sequences", "100000"],
    memcached: ["--sequences", "100000"],
    payloads: ["--seconds", "300"],
    torture: ["--seconds", "300", "--processes", "10"],
    histories: ["--seconds", "180"],
    crash: ["--kills", "2000", "--actors", "4", "--stall", "500"],
    table: true,
};

/// What is looked at without a build.
fn rules(tally: &mut Tally) {
    tally.cargo("format", &["fmt", "--all", "--check"]);
    tally.rule("tidy", || tidy::check(&root()));
    tally.rule("named paths", || named_paths::check(&root()));
    tally.rule("plain English", || english::check(&root()));
    tally.rule("floors", || floors::check(&root()));
    tally.rule("packages", || packages::check(&root()));
}

/// Runs what every commit must pass.
fn check(tally: &mut Tally) {
    rules(tally);
    clippy(tally);
    if build_tests(tally) {
        documents(tally);
        unit_tests(tally);
    }
}

fn clippy(tally: &mut Tally) {
    tally.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
}

/// Builds at once what all layers run: another choice of packages would have other features, and build every crate again. Returns
/// whether it succeeded, without which nothing else can be run.
fn build_tests(tally: &mut Tally) -> bool {
    tally.build("build of all tests", &["test", "--workspace", "--no-run", "--quiet"])
}

fn documents(tally: &mut Tally) {
    tally.run("documents are fresh", program("docs", &["--check"]));
    // The crate that strangers read: a broken link fails, and so does an item without a text.
    let strict = "build.rustdocflags=['-Dwarnings']";
    tally.cargo(
        "documentation",
        &["doc", "--quiet", "--no-deps", "--package", "polder-engine", "--config", strict],
    );
}

fn unit_tests(tally: &mut Tally) {
    tally.tests("unit tests and transcripts", &["test", "--workspace", "--no-fail-fast"]);
}

/// All layers; those that repeat for as long as `length` says, with a fixed seed.
fn test(tally: &mut Tally, length: &Length, flaky: &Flaky) {
    rules(tally);
    if !build_tests(tally) {
        return;
    }
    let (count, counted) = std::sync::mpsc::channel();
    let beside = Beside::start(move |tally| {
        let clock = Clock::start();
        let first = counts::check(&root(), false);
        tally.took("instruction counts, beside the others", &clock);
        // The other end lives until these layers have ended.
        _ = count.send(first);
        clockless(tally);
    });
    unit_tests(tally);
    peers(tally, length);
    tally.join(beside);
    deaths(tally, length);
    let clock = Clock::start();
    tally.found("instruction counts, alone", counted_again(counted.recv(), flaky), &clock);
    if length.table {
        tally.run("client: simulation and chaos", client_long());
        table(tally, "kill", &["--all"]);
        table(tally, "torture", &[SEED, "300"]);
    }
}

/// Layers whose outcome does not depend on what else runs: compilers, documents, the real code whose schedule shuttle chooses (a
/// build of a few crates for each), and the doors, which are mostly built.
fn clockless(tally: &mut Tally) {
    for (layer, package) in
        [("schedules of the shared memory", "polder-shm"), ("schedules of the table", "polder-table")]
    {
        let scheduled =
            ["test", "--quiet", "--package", package, "--features", "schedules", "--test", "schedules"];
        tally.tests(layer, &scheduled);
    }
    clippy(tally);
    documents(tally);
    tally.run("C door", script("capi/test.sh"));
    // With what the C door has left.
    tally.run("Python door", script("python/test.sh"));
    tally.run("actors in C and Python", script("testkit/actors/build.sh"));
}

/// Layers that compare with other programs.
fn peers(tally: &mut Tally, length: &Length) {
    tally.run("fuzz", program("fuzz", &[&["smoke", "--seed", SEED], &length.fuzz[..]].concat()));
    tally.run("peers", program("peers", &[&["--seed", SEED], &length.peers[..]].concat()));
    tally.run(
        "memcached peers",
        program("memcached_peers", &[&["--seed", SEED], &length.memcached[..]].concat()),
    );
    tally.run("damaged payloads", program("payloads", &[&["--seed", SEED], &length.payloads[..]].concat()));
    tally.tests(
        "transcripts over a socket",
        &["test", "--quiet", "--workspace", "--test", "transcripts", "--", "--serve"],
    );
    tally.run("stock clients", program("stock_clients", &[]));
    tally.run("real input", program("real_input", &[]));
    tally.run("crash points", program("crash", &["points"]));
}

/// Layers that kill processes, those in C and Python among them, while nothing else runs.
fn deaths(tally: &mut Tally, length: &Length) {
    tally.run("torture", program("crash", &[&["--seed", SEED], &length.torture[..]].concat()));
    tally.run("crash replicas", program("crash", &["replicas", "--seed", SEED, "--seconds", "20"]));
    tally.run(
        "histories",
        program("crash", &[&["--histories", "--seed", SEED], &length.histories[..]].concat()),
    );
    tally.run("crash", program("crash", &[&["--seed", SEED], &length.crash[..]].concat()));
}

/// Counts instructions once more, while nothing else runs, if some were too high. What is too high in both counts is a finding: some
/// counts of a server depend on where its turns begin.
fn counted_again(
    first: Result<Result<Vec<String>, String>, std::sync::mpsc::RecvError>,
    flaky: &Flaky,
) -> Result<Vec<String>, String> {
    let first = first.map_err(|_| "the count panicked".to_string())??;
    if first.is_empty() {
        return Ok(first);
    }
    let both = in_both(&first, counts::check(&root(), false)?);
    if both.is_empty() {
        flaky.add("instruction counts", &first);
    }
    Ok(both)
}

/// The findings of the second count whose operations the first one has found, too.
fn in_both(first: &[String], mut second: Vec<String>) -> Vec<String> {
    let operation = |finding: &str| finding.split(": ").next().unwrap_or_default().to_owned();
    second.retain(|finding| first.iter().any(|other| operation(other) == operation(finding)));
    second
}

/// A program of ours that has been built for tests.
fn program(name: &str, words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg("2400").arg(target().join("debug").join(name)).args(words).current_dir(root());
    command
}

/// The client's simulation over ten thousand seeds, and its chaos for a minute.
fn client_long() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["test", "--quiet", "--package", "polder-client", "--lib", "--test", "client"])
        .current_dir(root());
    command.env("POLDER_SEEDS", "1..10001").env("POLDER_CHAOS_SECONDS", "60");
    command
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
    tally.build(
        "release build",
        &["build", "--release", "--quiet", "--package", "polder", "--package", "polder-testkit"],
    );
    let mut args = vec!["run", "--release", "--quiet", "--package", "polder-testkit", "--bin", "bench", "--"];
    args.extend(words);
    tally.cargo("bench", &args);
}

/// Builds and runs a program of testkit; all its programs are built, since one may start another.
fn testkit(tally: &mut Tally, layer: &str, name: &str, words: &[&str]) {
    if tally
        .build("build", &["build", "--quiet", "--package", "polder", "--package", "polder-testkit", "--bins"])
    {
        tally.run(layer, program(name, words));
    }
}

/// The folder of build results.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_count_that_is_too_high_once_is_no_finding() {
        let (first, second) = (
            ["GET: 3 instructions".to_owned(), "SET: 9 instructions".to_owned()],
            vec!["SET: 8 instructions".to_owned(), "INCR: 7 instructions".to_owned()],
        );
        assert_eq!(super::in_both(&first, second), ["SET: 8 instructions"]);
    }
}
