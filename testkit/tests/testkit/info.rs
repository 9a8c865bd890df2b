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

#[test]
fn sizes_of_values_are_counted_as_redis_8_6_shows_them() {
    let scratch = Scratch::new();
    assert_eq!(run(&scratch, "INFO keysizes"), "# Keysizes\r\n");
    for length in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 1023, 1024, 1025, 100_000] {
        let bytes = "a".repeat(length);
        Caller::new(1, Protocol::Resp2)
            .call(&scratch.embedder, &["SET", &format!("s{length}"), &bytes])
            .expect("a reply");
    }
    (0..9).for_each(|_| drop(run(&scratch, "RPUSH l x")));
    for line in ["SADD set a b c d", "ZADD z 1 a", "HSET h a 1", "XADD x 1 a b"] {
        run(&scratch, line);
    }
    // Taken down from redis-server 8.6.3.
    let lines = [
        "db0_distrib_strings_sizes:0=1,1=1,2=2,4=3,8=3,16=2,512=1,1K=2,64K=1",
        "db0_distrib_lists_items:8=1",
        "db0_distrib_sets_items:4=1",
        "db0_distrib_zsets_items:1=1",
        "db0_distrib_hashes_items:1=1",
    ];
    assert_eq!(run(&scratch, "INFO keysizes"), format!("# Keysizes\r\n{}\r\n", lines.join("\r\n")));
    assert!(!run(&scratch, "INFO").contains("Keysizes"));
}

#[test]
fn sizes_of_many_values_take_several_calls() {
    const KEYS: usize = 25_000;
    let scratch = Scratch::new();
    (0..KEYS).for_each(|number| drop(run(&scratch, &format!("SET key:{number} 1"))));
    let counted = || {
        let info = run(&scratch, "INFO keysizes");
        let (_, count) = info.split_once("strings_sizes:1=").expect("a line of strings");
        count.trim_end().parse::<usize>().expect("a count")
    };
    let first = counted();
    assert!((20_000..KEYS).contains(&first), "{first}");
    assert_eq!(counted(), KEYS);
    // The next pass has begun, and the last whole one is shown.
    run(&scratch, "SET other 1");
    assert_eq!((counted(), counted()), (KEYS, KEYS + 1));
}
