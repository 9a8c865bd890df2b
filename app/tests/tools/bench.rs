//! `polder bench` against a server of prepared replies, and what it says when it cannot measure.
use crate::canned::{Canned, run_polder};

fn results(args: &[&str]) -> Vec<serde_json::Value> {
    let output = run_polder(&[&["bench", "--json"], args].concat(), b"");
    assert_eq!(output.status, Some(0), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["results"].as_array().unwrap().clone()
}

#[test]
fn every_request_of_every_connection_is_counted() {
    let server = Canned::start([].into_iter());
    let lines = results(&[
        "-p",
        &server.port(),
        "-t",
        "set,mset",
        "-n",
        "4000",
        "-c",
        "8",
        "--threads",
        "2",
        "-P",
        "10",
    ]);
    assert_eq!(lines.len(), 2);
    for (line, op) in lines.iter().zip(["set", "mset"]) {
        assert_eq!((line["op"].as_str(), line["errors"].as_u64()), (Some(op), Some(0)));
        assert!(line["calls"].as_u64().unwrap() >= 4000, "{line}");
        let latency = &line["latency_ns"];
        assert!(
            latency["p50"].as_u64() > Some(0) && latency["p50"].as_u64() <= latency["max"].as_u64(),
            "{line}"
        );
    }
}

#[test]
fn errors_are_counted_and_the_first_is_shown() {
    let server = Canned::start([b"-ERR no\r\n".as_slice()].into_iter());
    let output = run_polder(&["bench", "-p", &server.port(), "-n", "100", "-c", "2", "reply", "0"], b"");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("100 of them were answered with errors"), "{stdout}");
    assert_eq!(stderr, "The first error: ERR no\n");
}

#[test]
fn a_benchmark_may_last_a_time_in_place_of_a_count() {
    let server = Canned::start([].into_iter());
    let lines = results(&["-p", &server.port(), "-t", "ping", "--seconds", "0.2", "-c", "2"]);
    let seconds = lines[0]["seconds"].as_f64().unwrap();
    assert!((0.2..20.0).contains(&seconds), "{seconds}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    for (args, text) in [
        (&["bench", "-p", "1"][..], "Could not connect to 127.0.0.1:1: Connection refused"),
        (&["bench", "-t", "nonsense"], "'nonsense' is none of "),
        (&["bench", "--segment", "shm:x", "-t", "lpush"], "in-process operations are get, set, incr, mixed"),
    ] {
        let output = run_polder(args, b"");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status == Some(1) && stderr.contains(text), "{stderr}");
    }
}
