//! The chores of the house: `cargo x NAME`. Every rule that a tool can check is checked by `cargo x check`.
//!
//! This crate depends on none of ours, so it still builds when they do not; what needs them lives in testkit and is
//! started from here.
#![forbid(unsafe_code)]

mod floors;
mod tally;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tally::Tally;

const USAGE: &str = "\
cargo x check              formatting, clippy, tidy, floors, unit tests and transcripts
cargo x test               every layer, as `make test` runs it";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut tally = Tally::default();
    match words.as_slice() {
        ["check"] => check(&mut tally),
        ["test"] => test(&mut tally),
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
    tally.cargo("unit tests and transcripts", &["test", "--workspace", "--no-fail-fast"]);
}

/// All layers.
fn test(tally: &mut Tally) {
    check(tally);
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
