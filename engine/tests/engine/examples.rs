//! The examples do what they say, in processes of their own.
use polder_engine::Memory;

/// Runs an example: what it prints.
fn example(name: &str, words: &[&str]) -> String {
    let mut command = polder_testbase::example("polder-engine", env!("CARGO_MANIFEST_DIR"), name);
    let output = command.args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_calls_do_what_they_say() {
    assert_eq!(example("quick_start", &[]), "Some([104, 101, 108, 108, 111])\n");
}

#[test]
fn a_leaderboard_is_kept_by_several_processes() {
    let segment = format!("shm:polder-examples-{}", std::process::id());
    assert_eq!(example("leaderboard", &[&segment, "add", "ann", "7"]), "ann: 7 points, place 1\n");
    assert_eq!(example("leaderboard", &[&segment, "add", "bob", "3.5"]), "bob: 3.5 points, place 2\n");
    assert_eq!(example("leaderboard", &[&segment, "add", "bob", "4"]), "bob: 7.5 points, place 1\n");
    assert_eq!(example("leaderboard", &[&segment, "top", "10"]), "1. bob 7.5\n2. ann 7\n");
    Memory::remove(&segment).unwrap();
}

#[test]
fn a_rate_limit_is_shared_by_several_processes() {
    assert_eq!(example("rate_limiter", &[]), "160 requests of 4 processes: 50 let in\n");
}

#[test]
fn a_job_of_a_dead_worker_goes_to_another_one() {
    let said = example("job_queue", &[]);
    assert!(said.contains("job Bulk([49, 49]) is put back"), "{said}");
    assert!(said.ends_with("100 jobs are done, none of them twice\n"), "{said}");
}

#[test]
fn a_slow_result_is_computed_once_for_all_processes() {
    assert_eq!(example("shared_cache", &[]), "3 results for 4 processes: 3 computations\n");
}

#[test]
fn an_index_follows_what_is_committed() {
    assert_eq!(example("search_index", &[]), "fox: one three\nfox: three\nthe: one\n");
}
