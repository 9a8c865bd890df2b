//! The examples do what they say, in processes of their own, beside redis-server.

use std::path::Path;

use crate::servers::Server;

/// Runs an example of this package beside a server: what it prints; `None` without a server.
fn run(name: &str) -> Option<String> {
    let server = Server::start(Path::new("redis-server"), &["--save", ""])?;
    let mut command = polder_testbase::example("polder-client", env!("CARGO_MANIFEST_DIR"), name);
    let output = command.arg(server.url()).output().expect("it runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

fn says(name: &str, expected: &str) {
    if let Some(said) = run(name) {
        assert_eq!(said, expected, "{name}");
    }
}

#[test]
fn sessions_live_until_they_are_ended() {
    says("web_sessions", "ann: 26 requests, 25 without a session, logged out: true\n");
}

#[test]
fn a_limit_is_shared_by_tasks() {
    says("request_limits", "160 requests: 50 let in\n");
}

#[test]
fn a_job_that_was_not_finished_is_done_again() {
    says("work_queue", "30 jobs done, none of them twice: 30\n");
}

#[test]
fn prices_are_read_from_the_process_until_they_change() {
    says("cache_aside", "1000 reads: 10 queries, 980 from this process; the new price is seen\n");
}
