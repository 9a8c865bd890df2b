//! README.md keeps its word: its commands run in order in an empty folder, and its programs are quoted from examples that are run elsewhere.
use std::path::{Path, PathBuf};
use std::process::Command;

use polder_testkit::process;
use polder_testkit::scratch::fresh_name;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The blocks of README.md in a language.
fn blocks(language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let fence = format!("```{language}\n");
    let blocks =
        text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_string());
    let found: Vec<String> = blocks.collect();
    assert!(!found.is_empty(), "README.md has no block in {language}");
    found
}

/// A line of README.md as it is run here: a server that begins or ends is waited for, as a reader would.
fn runnable(line: &str) -> String {
    let port = line.split_once("--port ").map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default());
    match port {
        Some(port) if line.ends_with('&') => {
            format!(
                "{line}\nfor try in $(seq 200); do redis-cli -p {port} PING >pong 2>&1 && grep -q PONG pong && break; sleep 0.1; done\n"
            )
        }
        _ if line.ends_with(" SHUTDOWN") => format!("{line}\nwait\n"),
        _ => match line.strip_prefix("kill %") {
            Some(job) => format!("{line}\nwait %{job} || true\n"),
            None => format!("{line}\n"),
        },
    }
}

#[test]
fn the_commands_of_the_readme_run_in_order() {
    if let Some(missing) =
        ["redis-cli", "memccat", "curl"].into_iter().find(|tool| process::on_path(tool).is_none())
    {
        println!("{missing} is not here; the README's commands are not run");
        return;
    }
    // A build of the whole workspace has it; a build of its own would have other features, and make every crate again.
    if !process::polder().is_file() {
        let built =
            Command::new(env!("CARGO")).args(["build", "--quiet", "--package", "polder"]).status().unwrap();
        assert!(built.success());
    }
    let folder = std::env::temp_dir().join(format!("polder-readme-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut script = String::from("set -e\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n");
    for line in blocks("sh").iter().flat_map(|block| block.lines()) {
        match line.trim_start_matches("sudo ").strip_prefix("make ") {
            // What builds or installs for minutes is only looked at.
            Some(target) => {
                let planned = Command::new("make")
                    .args(["--dry-run", "--silent", target])
                    .current_dir(root())
                    .output()
                    .unwrap();
                assert!(planned.status.success(), "make {target}: {planned:?}");
            }
            None => script += &runnable(line),
        }
    }
    // Names and ports of this run alone.
    let segments = ["shm:tour", "shm:doors"].map(|name| (name, fresh_name()));
    script = script.replace("--all-protocols", "--memcache-port 11211 --http-port 8080");
    // In two steps: a new port may hold the digits of another old one.
    let ports = [("7000", "@a@"), ("7001", "@b@"), ("11211", "@c@"), ("8080", "@d@")];
    for (port, mark) in ports {
        script = script.replace(port, mark);
    }
    for (_, mark) in ports {
        script = script.replace(mark, &process::free_port().unwrap().to_string());
    }
    for (name, own) in &segments {
        script = script.replace(name, own);
    }
    let path =
        format!("{}:{}", process::polder().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let ran = Command::new("timeout")
        .args(["120", "bash", "-c", &script])
        .current_dir(&folder)
        .env("PATH", path)
        .output()
        .unwrap();
    for (_, segment) in &segments {
        let _ = polder_engine::Memory::remove(segment);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{script}\n{said}\n{errors}");
    assert_eq!(said.matches("hello").count(), 3, "of redis-cli, memccat and curl:\n{said}\n{errors}");
    for expected in ["ann", "polder_uptime_seconds"] {
        assert!(said.contains(expected), "{expected:?} is missing in:\n{said}\n{errors}");
    }
}

#[test]
fn the_programs_of_the_readme_are_quoted_from_examples_that_run() {
    let sources = [
        ("rust", "engine/examples/quick_start.rs"),
        ("c", "capi/examples/quick_start.c"),
        ("python", "python/examples/quick_start.py"),
    ];
    for (language, path) in sources {
        let source = std::fs::read_to_string(root().join(path)).unwrap();
        let mut lines = source.lines().map(str::trim);
        for quoted in blocks(language).iter().flat_map(|block| block.lines()).map(str::trim) {
            assert!(
                lines.any(|line| line == quoted),
                "{path} does not have this line of README.md, in its place: {quoted}"
            );
        }
    }
}
