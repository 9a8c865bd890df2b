//! Instructions of operations, counted by callgrind and compared with bench/counts.json: `cargo x bench counts [--write]`.
//!
//! ```text
//!   build the program (profile `counts`) -> `fill` a segment -> callgrind runs `measure` -> one file a round -> least of the rounds
//!   -> against bench/counts.json: more than 3 % over, or over the operation's own threshold, is a finding
//! ```
//! A count does not depend on the hour or on what else the machine does, so it can be a test. It depends on the compiler: with another rustc or
//! target than the file names, the figures are shown and nothing fails. A change that is worth its instructions writes the file anew
//! (`--write`) and says why in its commit.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const FILE: &str = "bench/counts.json";
/// By how many percent an operation may exceed its figure where the file names no other threshold.
const PERCENT_MAX: f64 = 3.0;

/// What callgrind is told of the program's functions, see bench/counts/src/main.rs. A name must match one function and none that it calls: each match
/// turns the counting on or off.
const FUNCTIONS: [&str; 3] =
    ["--toggle-collect=*::toggled", "--toggle-collect=*turn::EventLoop::work", "--dump-after=*::dumped"];

/// Instructions by operation, in the order they were counted.
type Counts = Vec<(String, f64)>;

/// What the file says.
struct Expected {
    rustc: String,
    target: String,
    thresholds: BTreeMap<String, f64>,
    instructions: BTreeMap<String, f64>,
}

/// Counts, shows the figures and compares them, or writes the file.
///
/// # Errors
/// When the program cannot be built or run, or the file cannot be read.
pub fn check(root: &Path, writes: bool) -> Result<Vec<String>, String> {
    let (rustc, target) = compiler(root)?;
    let expected = Expected::read(root)?;
    let counts = count(root)?;
    let findings = compare(&expected, &counts);
    show(&expected, &counts);
    if writes {
        let text = expected.written(&rustc, &target, &counts);
        std::fs::write(root.join(FILE), text).map_err(|error| format!("{FILE}: {error}"))?;
        return Ok(Vec::new());
    }
    if (&rustc, &target) != (&expected.rustc, &expected.target) {
        println!(
            "{FILE} is of {} for {}, this is {rustc} for {target}: the figures are not compared",
            expected.rustc, expected.target
        );
        return Ok(Vec::new());
    }
    Ok(findings)
}

impl Expected {
    fn read(root: &Path) -> Result<Expected, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{FILE}: {error}");
        let text = match std::fs::read_to_string(root.join(FILE)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "{}".into(),
            text => text.map_err(|error| wrong(&error))?,
        };
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_string();
        let figures = |name: &str| {
            let entries = value[name].as_object().into_iter().flatten();
            entries.filter_map(|(name, figure)| Some((name.clone(), figure.as_f64()?))).collect()
        };
        Ok(Expected {
            rustc: text("rustc"),
            target: text("target"),
            thresholds: figures("percent_max"),
            instructions: figures("instructions"),
        })
    }

    /// The file with these figures: a line for each, so that a change shows what it changes.
    fn written(&self, rustc: &str, target: &str, counts: &Counts) -> String {
        let lines = |figures: Vec<(&String, f64)>| -> String {
            let lines: Vec<String> = figures
                .iter()
                .map(|(name, figure)| format!("    {}: {figure}", Value::from(name.as_str())))
                .collect();
            lines.join(",\n")
        };
        let thresholds = self.thresholds.iter().map(|(name, percent)| (name, *percent)).collect();
        let counts = counts.iter().map(|(name, count)| (name, *count)).collect();
        format!(
            "{{\n  \"rustc\": {},\n  \"target\": {},\n  \"percent_max\": {{\n{}\n  }},\n  \"instructions\": {{\n{}\n  }}\n}}\n",
            Value::from(rustc),
            Value::from(target),
            lines(thresholds),
            lines(counts)
        )
    }
}

/// What is over its threshold, and what only one side has.
fn compare(expected: &Expected, counts: &Counts) -> Vec<String> {
    let advice = "if that is worth it, run 'cargo x bench counts --write' and say why in the commit";
    let mut findings = Vec::new();
    for (name, count) in counts {
        let Some(before) = expected.instructions.get(name) else {
            findings.push(format!("{name} is not in {FILE}: run 'cargo x bench counts --write'"));
            continue;
        };
        let percent_max = expected.thresholds.get(name).copied().unwrap_or(PERCENT_MAX);
        if count * 100.0 > before * (100.0 + percent_max) {
            let percent = (count / before - 1.0) * 100.0;
            findings
                .push(format!("{name}: {count} instructions, {before} before: {percent:+.1} % and {percent_max} % is the most; {advice}"));
        }
    }
    let gone = expected.instructions.keys().filter(|name| counts.iter().all(|(counted, _)| counted != *name));
    findings.extend(
        gone.map(|name| {
            format!("{name} is in {FILE} and was not counted: run 'cargo x bench counts --write'")
        }),
    );
    findings
}

fn show(expected: &Expected, counts: &Counts) {
    let mut text = String::new();
    for (name, count) in counts {
        let change = expected
            .instructions
            .get(name)
            .map_or(String::new(), |before| format!("{:+7.1} %", (count / before - 1.0) * 100.0));
        text += &format!("  {name:<28} {count:>9.1} {change}\n");
    }
    print!("{text}");
}

/// The compiler and the machine it compiles for, as `rustc -vV` says.
fn compiler(root: &Path) -> Result<(String, String), String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = said(Command::new(rustc).arg("-vV").current_dir(root))?;
    let line =
        |start: &str| said.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default().to_string();
    Ok((format!("rustc {}", line("rustc ")), line("host: ")))
}

/// Builds and runs the program.
fn count(root: &Path) -> Result<Counts, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    said(
        Command::new(cargo)
            .args(["build", "--quiet", "--profile", "counts", "--package", "polder-counts"])
            .current_dir(root),
    )?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("counts/polder-counts");
    let folder = std::env::temp_dir().join(format!("polder-counts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let segment = format!("shm:polder-counts-{}", std::process::id());
    let counts = run(&program, &segment, &folder.join("out"));
    // What is left behind is not worth a failure.
    let _ = said(Command::new(&program).args(["remove", &segment]));
    let _ = std::fs::remove_dir_all(&folder);
    counts
}

fn run(program: &Path, segment: &str, out: &Path) -> Result<Counts, String> {
    said(Command::new(program).args(["fill", segment]))?;
    let mut callgrind = Command::new("valgrind");
    callgrind.args(["--quiet", "--tool=callgrind", "--fair-sched=yes"]).args(FUNCTIONS);
    callgrind.arg(format!("--callgrind-out-file={}", out.display())).arg(program).args(["measure", segment]);
    let mut rounds: Vec<(String, Vec<f64>)> = Vec::new();
    for (at, line) in said(&mut callgrind)?.lines().enumerate() {
        let (name, calls) = line.split_once('\t').ok_or_else(|| format!("counts says {line}"))?;
        if name.is_empty() {
            continue;
        }
        let count = total(&out.with_extension((at + 1).to_string()))?
            / calls.parse::<f64>().map_err(|_| format!("counts says {line}"))?;
        if count == 0.0 {
            return Err(format!(
                "nothing was counted of {name}: callgrind does not find the functions {FUNCTIONS:?}"
            ));
        }
        match rounds.last_mut().filter(|(last, _)| last == name) {
            Some((_, counts)) => counts.push(count),
            None => rounds.push((name.into(), vec![count])),
        }
    }
    if rounds.is_empty() {
        Err("counts counted nothing".into())
    } else {
        Ok(rounds.into_iter().map(least).collect())
    }
}

/// The least of all rounds: what is done by the clock, every 100 ms, comes on top of it in some of them.
fn least((name, counts): (String, Vec<f64>)) -> (String, f64) {
    (name, (counts.into_iter().fold(f64::INFINITY, f64::min) * 10.0).round() / 10.0)
}

/// The sum that a file of callgrind's ends with.
fn total(path: &Path) -> Result<f64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    total
        .and_then(|total| total.trim().parse().ok())
        .ok_or_else(|| format!("{} has no total", path.display()))
}

/// What a command says, if it succeeds.
fn said(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_os_string();
    let output = command.output().map_err(|error| {
        format!("{}: {error}; 'xtask/needs.sh test' installs what is missing", program.display())
    })?;
    if !output.status.success() {
        return Err(format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(instructions: &[(&str, f64)], thresholds: &[(&str, f64)]) -> Expected {
        let map = |figures: &[(&str, f64)]| {
            figures.iter().map(|(name, figure)| (name.to_string(), *figure)).collect()
        };
        Expected {
            rustc: "rustc 1".into(),
            target: "a".into(),
            thresholds: map(thresholds),
            instructions: map(instructions),
        }
    }

    fn counts(figures: &[(&str, f64)]) -> Counts {
        figures.iter().map(|(name, figure)| (name.to_string(), *figure)).collect()
    }

    #[test]
    fn an_operation_fails_beyond_its_threshold() {
        let before = expected(&[("GET", 200.0), ("SET", 500.0)], &[("SET", 0.5)]);
        assert_eq!(compare(&before, &counts(&[("GET", 206.0), ("SET", 502.0)])), Vec::<String>::new());
        assert_eq!(compare(&before, &counts(&[("GET", 206.5), ("SET", 502.0)])).len(), 1);
        assert_eq!(compare(&before, &counts(&[("GET", 100.0), ("SET", 504.0)])).len(), 1);
    }

    #[test]
    fn an_operation_that_only_one_side_knows_is_a_finding() {
        let before = expected(&[("GET", 200.0)], &[]);
        assert_eq!(compare(&before, &counts(&[("SET", 500.0)])).len(), 2);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let root = std::env::temp_dir().join(format!("polder-xtask-{}", std::process::id()));
        std::fs::create_dir_all(root.join("bench")).unwrap();
        let text = expected(&[], &[("SET", 0.5)]).written(
            "rustc 2",
            "b",
            &counts(&[("SET \"x\"", 1.5), ("GET", 200.0)]),
        );
        std::fs::write(root.join(FILE), text).unwrap();
        let read = Expected::read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((read.rustc.as_str(), read.target.as_str()), ("rustc 2", "b"));
        assert_eq!(read.thresholds, BTreeMap::from([("SET".into(), 0.5)]));
        assert_eq!(read.instructions, BTreeMap::from([("SET \"x\"".into(), 1.5), ("GET".into(), 200.0)]));
    }
}
