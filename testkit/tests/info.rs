//! INFO's figures that are estimated or gathered from several places.
use polder_base::Protocol;
use polder_engine::Limits;
use polder_testkit::answer::Answer;
use polder_testkit::caller::Caller;
use polder_testkit::scratch::Scratch;

fn run(scratch: &Scratch, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match Caller::new(1, Protocol::Resp2).call(&scratch.embedder, &words) {
        Ok(Answer::Bulk(text)) => String::from_utf8(text).unwrap(),
        other => format!("{other:?}"),
    }
}

/// The number behind `name` in INFO.
fn figure(scratch: &Scratch, name: &str) -> f64 {
    let info = run(scratch, "INFO");
    let found = info
        .split(['\r', '\n', ','])
        .find_map(|part| part.strip_prefix(name))
        .unwrap_or_else(|| panic!("no {name} in {info}"));
    found.parse().unwrap()
}

/// Keeps expired keys where they are.
fn without_collecting(scratch: &Scratch) {
    scratch.embedder.memory.table().set_limits(Limits { active_expiry: false, ..Limits::default() });
}

#[test]
fn the_average_time_to_live_is_that_of_the_keys_that_expire() {
    let scratch = Scratch::new();
    (0..5_000).for_each(|number| drop(run(&scratch, &format!("SET lasting:{number} 1"))));
    assert_eq!(figure(&scratch, "avg_ttl="), 0.0);
    run(&scratch, "SET passing 1 EX 300");
    assert!((290_000.0..=300_000.0).contains(&figure(&scratch, "avg_ttl=")), "one among many is found");
    (0..2_000).for_each(|number| {
        drop(run(&scratch, &format!("SET passing:{number} {} EX 100", "x".repeat(number % 90))))
    });
    assert!((95_000.0..=105_000.0).contains(&figure(&scratch, "avg_ttl=")));
    assert_eq!(figure(&scratch, "expires="), 2_001.0);
}

#[test]
fn a_watched_key_that_is_absent_is_no_key_that_expires() {
    let scratch = Scratch::new();
    run(&scratch, "SET key 1");
    run(&scratch, "WATCH absent");
    assert_eq!((figure(&scratch, "expires="), figure(&scratch, "avg_ttl=")), (0.0, 0.0));
}

#[test]
fn the_share_of_expired_keys_that_are_still_there_is_told() {
    let scratch = Scratch::new();
    without_collecting(&scratch);
    (0..60).for_each(|number| drop(run(&scratch, &format!("SET living:{number} 1 EX 1000"))));
    assert_eq!(figure(&scratch, "expired_stale_perc:"), 0.0);
    (0..20).for_each(|number| drop(run(&scratch, &format!("SET dying:{number} 1 PX 1"))));
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(figure(&scratch, "expired_stale_perc:"), 25.0);
}

#[test]
fn refused_passwords_are_counted() {
    let scratch = Scratch::new();
    run(&scratch, "AUTH nobody wrong");
    assert_eq!(figure(&scratch, "acl_access_denied_auth:"), 1.0);
    assert!(run(&scratch, "INFO errorstats").contains("errorstat_WRONGPASS:count=1"));
}
