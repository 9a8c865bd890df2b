//! The tools that work on a segment without any server: make, fill, look, list, remove.
use std::os::unix::fs::FileExt;

use crate::canned::{Output, run_polder};

/// A segment of this test alone; removed even when the test fails.
pub struct Scratch(String);

impl Scratch {
    pub fn new(what: &str) -> Scratch {
        let name = format!("shm:polder-tools-{what}-{}", std::process::id());
        let made = run_polder(&["segment", "create", &name, "--size", "64mb"], b"");
        assert_eq!(made.status, Some(0), "{made:?}");
        Scratch(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    fn cli(&self, args: &[&str], stdin: &[u8]) -> Output {
        run_polder(&[&["cli", "--segment", &self.0], args].concat(), stdin)
    }

    fn stat(&self) -> serde_json::Value {
        let output = run_polder(&["segment", "stat", &self.0, "--json"], b"");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may have been removed by the test itself.
        run_polder(&["segment", "remove", "--force", &self.0], b"");
    }
}

fn text(output: &Output) -> (String, String) {
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn what_one_process_writes_the_next_one_reads() {
    let segment = Scratch::new("words");
    assert_eq!(segment.cli(&["set", "k", "one two"], b"").stdout, b"OK\n");
    assert_eq!(segment.cli(&["--no-raw", "get", "k"], b"").stdout, b"\"one two\"\n");
    let lines = segment.cli(&["--no-raw"], b"multi\nset n 41\nincr n\nexec\nselect 3\nget n\n");
    assert_eq!(text(&lines).0, "OK\nQUEUED\nQUEUED\n1) OK\n2) (integer) 42\nOK\n(nil)\n");
    let refused = segment.cli(&["-e", "incr", "k"], b"");
    assert_eq!(
        (refused.status, text(&refused).1.as_str()),
        (Some(1), "ERR value is not an integer or out of range\n")
    );
}

#[test]
fn a_save_in_the_background_is_written_before_the_command_line_ends() {
    let segment = Scratch::new("bgsave");
    let folder = std::env::temp_dir().join(format!("polder-bgsave-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    // Where the command line runs is where it saves.
    let cli = |lines: &str| {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_polder"))
            .args(["cli", "--segment", segment.name()])
            .current_dir(&folder)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let file = folder.join("dump.rdb");
    let saved = format!("Saved to {}\n", file.display());
    assert_eq!(cli("set key value\nbgsave\n"), (Some(0), saved.clone()));
    assert!(std::fs::read(&file).unwrap().starts_with(b"REDIS"));
    // In a transaction it begins behind that.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(cli("multi\nbgsave\nexec\n"), (Some(0), saved));
    std::fs::remove_file(&file).unwrap();
    // Where the file cannot be written, that is told and is a status.
    std::fs::create_dir(&file).unwrap();
    let (status, told) = cli("bgsave\n");
    assert!(status == Some(1) && told.starts_with("The save to "), "{status:?} {told}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn messages_come_from_a_segment_too() {
    let segment = Scratch::new("hear");
    for (args, sent, expected) in [
        (vec!["subscribe", "news"], vec!["publish", "news", "hello"], "message\nnews\nhello\n"),
        (vec!["psubscribe", "n*"], vec!["publish", "news", "again"], "pmessage\nn*\nnews\nagain\n"),
        (vec!["monitor"], vec!["set", "key", "watched"], "\"set\" \"key\" \"watched\""),
    ] {
        let mut listener = std::process::Command::new(env!("CARGO_BIN_EXE_polder"))
            .args(["cli", "--segment", segment.name()])
            .args(&args)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(listener.stdout.take().unwrap());
        let (mut heard, mut line) = (String::new(), String::new());
        while !heard.contains(expected) {
            line.clear();
            // The first line says that it listens.
            let count = std::io::BufRead::read_line(&mut output, &mut line).unwrap();
            assert!(count > 0, "{args:?}: {heard}");
            if heard.is_empty() {
                segment.cli(&sent, b"");
            }
            heard += &line;
        }
        listener.kill().unwrap();
        listener.wait().unwrap();
    }
}

#[test]
fn a_pipe_loads_a_segment_whole_requests_only() {
    let segment = Scratch::new("pipe");
    let requests: String = (0..5000)
        .map(|number| format!("*3\r\n$3\r\nSET\r\n$8\r\nkey:{number:04}\r\n$4\r\n{number:04}\r\n"))
        .collect();
    let loaded = segment.cli(&["--pipe"], requests.as_bytes());
    assert!(text(&loaded).0.ends_with("errors: 0, replies: 5000\n"), "{loaded:?}");
    assert_eq!(segment.stat()["databases"][0]["keys"], 5000);
    assert_eq!(segment.cli(&["get", "key:4999"], b"").stdout, b"4999\n");
    let cut = segment.cli(&["--pipe"], b"SET whole 1\r\n*3\r\n$3\r\nSET\r\n$3\r\ncut\r\n$4\r\n12");
    assert_eq!(
        (cut.status, text(&cut).1.as_str()),
        (Some(1), "The last request is not whole: it was not executed\n")
    );
    assert_eq!(segment.cli(&["exists", "whole", "cut"], b"").stdout, b"1\n");
    let keys = segment.cli(&["--scan", "--pattern", "key:000*"], b"");
    assert_eq!(text(&keys).0.lines().count(), 10);
}

#[test]
fn segments_are_listed_until_they_are_removed() {
    let segment = Scratch::new("list");
    let listed = || text(&run_polder(&["segment", "list"], b"")).0.contains(&segment.0);
    assert!(listed());
    let again = run_polder(&["segment", "create", &segment.0], b"");
    assert_eq!(
        (again.status, text(&again).1),
        (Some(1), format!("there is a segment {} already\n", segment.0))
    );
    assert_eq!(run_polder(&["segment", "remove", &segment.0], b"").status, Some(0));
    assert!(!listed());
    for command in [&["segment", "stat"][..], &["segment", "remove"], &["top"]] {
        let output = run_polder(&[command, &[&segment.0]].concat(), b"");
        assert!(output.status != Some(0) && text(&output).1.contains("there is no segment"), "{output:?}");
    }
}

#[test]
fn top_counts_what_others_do() {
    let segment = Scratch::new("top");
    let name = segment.0.clone();
    let busy = std::thread::spawn(move || {
        run_polder(&["bench", "--segment", &name, "-t", "set", "--seconds", "3", "--keys", "1000"], b"")
    });
    let start = std::time::Instant::now();
    while segment.stat()["counters"]["calls"].as_u64() < Some(1000) {
        assert!(start.elapsed().as_secs() < 20, "the benchmark does not begin");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let seen = run_polder(&["top", &segment.0, "--lines", "-r", "4", "-i", "0.2"], b"");
    assert_eq!(busy.join().unwrap().status, Some(0));
    let lines: Vec<String> = text(&seen).0.lines().map(String::from).collect();
    assert_eq!(lines.len(), 4);
    let field = |line: &str, name: &str| {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name} in {line}"))
    };
    assert!(
        lines.iter().any(|line| field(line, "calls_per_s") > 0 && field(line, "seats") >= 1),
        "{lines:#?}"
    );
    assert!(lines.iter().all(|line| field(line, "used") <= field(line, "committed")), "{lines:#?}");
}

#[test]
fn processes_and_threads_measure_the_same_segment() {
    let segment = Scratch::new("bench");
    let args = [
        "bench",
        "--segment",
        &segment.0,
        "--json",
        "-t",
        "set,get,incr,mixed",
        "-n",
        "4000",
        "--keys",
        "100",
    ];
    for how in [
        &["--threads", "2"][..],
        &["--processes", "2", "--batch", "16"],
        &["--processes", "2", "--each"],
        &["--batch", "7"],
        &["--each", "--zipf", "0.9", "--fill"],
    ] {
        let output = run_polder(&[&args, how].concat(), b"");
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let results = report["results"].as_array().unwrap();
        assert_eq!(results.len(), 4);
        assert!(
            results.iter().all(|line| line["calls"].as_u64() >= Some(4000) && line["errors"] == 0),
            "{how:?}: {report}"
        );
    }
    assert_eq!(segment.stat()["databases"][0]["keys"], 200, "keys and counters");
}

#[test]
fn verify_tells_whole_from_damaged_from_unknown() {
    let segment = Scratch::new("verify");
    let requests: String =
        (0..3000).map(|number| format!("SET key:{number} {}\r\n", "v".repeat(100))).collect();
    assert_eq!(segment.cli(&["--pipe"], requests.as_bytes()).status, Some(0));
    let whole = run_polder(&["verify", segment.name()], b"");
    assert_eq!((whole.status, text(&whole).0.trim_end().ends_with("whole")), (Some(0), true), "{whole:?}");
    let report = run_polder(&["verify", segment.name(), "--json"], b"");
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(
        (json["clean"].as_bool(), json["keys"].as_u64(), json["damages"].as_u64()),
        (Some(true), Some(3000), Some(0))
    );

    let path = format!("/dev/shm/{}", segment.name().trim_start_matches("shm:"));
    let bytes = std::fs::read(&path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let values =
        bytes.windows(4).enumerate().filter(|(_, window)| *window == b"vvvv").map(|(at, _)| at as u64);
    values.step_by(1000).for_each(|at| file.write_all_at(&[0xa5; 64], at & !63).unwrap());
    let damaged = run_polder(&["verify", segment.name()], b"");
    assert_eq!((damaged.status, text(&damaged).0.contains("DAMAGE")), (Some(1), true), "{damaged:?}");
    let unknown = run_polder(&["verify", "shm:polder-no-such-segment"], b"");
    assert_eq!(
        (unknown.status, text(&unknown).1.contains("there is no segment")),
        (Some(2), true),
        "{unknown:?}"
    );
}

#[test]
fn inspect_shows_a_key_and_how_it_lies() {
    let segment = Scratch::new("inspect");
    segment.cli(&["set", "short", "v"], b"");
    segment.cli(&["-x", "--quoted-input", "set", "\"\\x00long\""], &b"x".repeat(300_000));
    let inspect = |args: &[&str]| run_polder(&[&["inspect", segment.name()], args].concat(), b"");
    let json = |args: &[&str]| {
        let output = inspect(&[args, &["--json"]].concat());
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let short = json(&["short"]);
    assert_eq!(
        (short["layout"].as_str(), short["size"].as_u64(), short["nodes"].as_u64()),
        (Some("inline"), Some(1), Some(0)),
        "{short}"
    );
    let long = json(&["--quoted", "\"\\x00long\""]);
    assert_eq!((long["layout"].as_str(), long["size"].as_u64()), (Some("tree"), Some(300_000)), "{long}");
    assert!(long["nodes"].as_u64() > Some(1) && long["node_bytes"].as_u64() >= Some(300_000), "{long}");
    let shown = inspect(&["short"]);
    assert!(shown.status == Some(0) && text(&shown).0.contains("inline"), "{shown:?}");
    for absent in [&["nothing"][..], &["-n", "3", "short"]] {
        assert_eq!(inspect(absent).status, Some(1));
    }
}

#[test]
fn every_tool_ends_with_2_where_there_is_no_segment() {
    let absent = format!("shm:polder-tools-absent-{}", std::process::id());
    let file = std::env::temp_dir().join(format!("polder-tools-absent-{}.rdb", std::process::id()));
    let file = file.to_str().expect("text");
    for command in [
        &["segment", "stat", &absent][..],
        &["top", &absent],
        &["verify", &absent],
        &["inspect", &absent, "key"],
        &["cli", "--segment", &absent, "ping"],
        &["cli", "--segment", &absent],
        &["cli", "--segment", &absent, "--pipe"],
        &["export", file, "--segment", &absent],
    ] {
        let output = run_polder(command, b"");
        assert!(
            output.status == Some(2) && text(&output).1.contains("there is no segment"),
            "{command:?}: {output:?}"
        );
    }
}

#[test]
fn import_and_bench_make_the_segment_that_they_fill() {
    let filled = Scratch::new("filled");
    assert_eq!(filled.cli(&["set", "k", "v"], b"").status, Some(0));
    let file = std::env::temp_dir().join(format!("polder-tools-fill-{}.rdb", std::process::id()));
    let path = file.to_str().expect("text");
    assert_eq!(run_polder(&["export", path, "--segment", filled.name()], b"").status, Some(0));
    let fresh = Scratch(format!("shm:polder-tools-fresh-{}", std::process::id()));
    let import = || run_polder(&["import", path, "--segment", fresh.name()], b"");
    // Of a file that is cut nothing is left, and it is told how much was read.
    let whole = std::fs::read(&file).expect("a file");
    std::fs::write(&file, &whole[..whole.len() - 9]).expect("written");
    let cut = import();
    assert_eq!(cut.status, Some(1), "{cut:?}");
    assert!(text(&cut).1.contains("1 keys loaded before that: the new segment has been removed"), "{cut:?}");
    assert_eq!(run_polder(&["segment", "stat", fresh.name()], b"").status, Some(2));
    std::fs::write(&file, &whole).expect("written");
    assert_eq!(import().status, Some(0));
    assert_eq!(fresh.cli(&["get", "k"], b"").stdout, b"v\n");
    std::fs::remove_file(&file).expect("it is there");
}

#[test]
fn verify_counts_the_keys_of_users_only() {
    let segment = Scratch::new("counts");
    // The setting is a key of Polder's own.
    assert_eq!(
        segment.cli(&[], b"config set maxmemory-samples 7\nset k v\nselect 3\nset k v ex 1000\n").status,
        Some(0)
    );
    let report = run_polder(&["verify", "--json", segment.name()], b"");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(
        (&report["databases"], &report["keys"], &report["expires"]),
        (&2.into(), &2.into(), &1.into()),
        "{report}"
    );
}

#[test]
fn a_segment_in_use_is_removed_only_by_force() {
    let segment = Scratch::new("used");
    let memory = polder_engine::Memory::attach(&polder_engine::Options {
        segment: segment.0.clone(),
        create: false,
        ..Default::default()
    });
    let memory = memory.expect("attached");
    let mapped = run_polder(&["segment", "remove", segment.name()], b"");
    assert!(mapped.status == Some(1) && text(&mapped).1.contains("has it mapped"), "{mapped:?}");
    memory.database(0).set(b"k", b"v").expect("room");
    let used = run_polder(&["segment", "remove", segment.name()], b"");
    let process = format!("process {}", std::process::id());
    assert!(
        used.status == Some(1) && text(&used).1.contains(&process) && text(&used).1.contains("--force"),
        "{used:?}"
    );
    assert!(text(&run_polder(&["segment", "list"], b"")).0.contains(segment.name()));
    assert_eq!(run_polder(&["segment", "remove", "--force", segment.name()], b"").status, Some(0));
    // The same process gets new memory by the same name.
    let options =
        polder_engine::Options { segment: segment.0.clone(), ceiling: 16 << 20, ..Default::default() };
    let fresh = polder_engine::Memory::attach(&options).expect("made");
    assert!(fresh.database(0).read(b"k", |value| value.is_none()).expect("readable"));
    assert!(memory.table().segment().removed() && !fresh.table().segment().removed());
}

#[test]
fn list_and_stat_tell_the_same() {
    let segment = Scratch::new("told");
    assert_eq!(segment.cli(&["set", "k", "v"], b"").status, Some(0));
    let listed = run_polder(&["segment", "list", "--json"], b"");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let listed = listed
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["name"] == segment.name())
        .expect("it is listed")
        .clone();
    let stat = segment.stat();
    for figure in ["committed_bytes", "ceiling_bytes", "created_ms"] {
        assert_eq!(listed[figure], stat[figure], "{figure}");
    }
    assert!(listed["used_bytes"].as_u64() > Some(100_000), "{listed}");
}
