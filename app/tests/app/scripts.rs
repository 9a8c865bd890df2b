//! Scripts across real processes, some of which are killed: what is atomic stays so, what was
//! loaded stays known, a busy server says so.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use polder_testkit::random::Random;
use polder_testkit::resp::Connection;

use crate::stage::{Segment, connect};

fn ask(client: &mut Connection, words: &[&str]) -> String {
    client.call(words).expect("a reply").shown()
}

const ACCOUNTS: usize = 20;
const MOVE: &str = "local from, to = 'account:' .. ARGV[1], 'account:' .. ARGV[2] \
                    local sum = tonumber(redis.call('GET', from)) \
                    redis.call('SET', from, sum - 1) redis.call('INCR', to) return sum";
const SET_TO: &str = "return redis.call('SET',KEYS[1],ARGV[1])";
const SUM: &str =
    "local sum = 0 for i = 0, 19 do sum = sum + redis.call('GET', 'account:' .. i) end return sum";

#[test]
fn scripts_that_reach_for_undeclared_keys_stay_atomic_among_many() {
    let segment = Segment::new();
    let servers = [segment.serve(&["--threads", "2"]), segment.serve(&[])];
    let mut client = connect(&servers[0]);
    for account in 0..ACCOUNTS {
        ask(&mut client, &["SET", &format!("account:{account}"), "100"]);
    }
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let server = &servers[worker % 2];
            scope.spawn(move || {
                let (mut client, mut random) = (connect(server), Random::new(worker as u64));
                for _ in 0..400 {
                    let [from, to] = [0; 2].map(|_| random.below(ACCOUNTS).to_string());
                    let answer = ask(&mut client, &["EVAL", MOVE, "0", &from, &to]);
                    assert!(answer.starts_with("(integer)"), "{answer}");
                }
            });
        }
        for _ in 0..50 {
            assert_eq!(ask(&mut client, &["EVAL", SUM, "0"]), format!("(integer) {}", 100 * ACCOUNTS));
        }
    });
    assert_eq!(ask(&mut client, &["EVAL", SUM, "0"]), format!("(integer) {}", 100 * ACCOUNTS));
    drop(servers);
    segment.verify();
}

#[test]
fn a_killed_process_leaves_no_half_of_a_script() {
    const ALL: &str =
        "for i = 0, 29 do redis.call('SET', 'half:' .. i, ARGV[1] .. ('x'):rep(100)) end return 'OK'";
    const SAME: &str = "local first = redis.call('GET', 'half:0') \
                        for i = 1, 29 do if redis.call('GET', 'half:' .. i) ~= first then return 'half' end end return 'whole'";
    let segment = Segment::new();
    let mut random = Random::new(7);
    for round in 0..8 {
        let mut server = segment.serve(&[]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in 0..2 {
                let (server, stop) = (server.address(), &stop);
                scope.spawn(move || {
                    let Ok(mut client) = Connection::open(&server) else { return };
                    for number in 0.. {
                        let value = format!("{round}-{worker}-{number}-");
                        if stop.load(Ordering::Relaxed) || client.call(&["EVAL", ALL, "0", &value]).is_err() {
                            return;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(30 + random.below(60) as u64));
            server.kill();
            stop.store(true, Ordering::Relaxed);
        });
        let server = segment.serve(&[]);
        assert_eq!(ask(&mut connect(&server), &["EVAL", SAME, "0"]), "\"whole\"", "round {round}");
    }
    segment.verify();
}

#[test]
fn what_one_process_has_loaded_others_run_and_find_again() {
    const LIBRARY: &str =
        "#!lua name=lib\nredis.register_function('version', function() return 'NUMBER' end)";
    let segment = Segment::new();
    let (mut one, two) = (segment.serve(&[]), segment.serve(&[]));
    let (mut first, mut second) = (connect(&one), connect(&two));
    let sha = ask(&mut first, &["SCRIPT", "LOAD", "return 'loaded'"]);
    let sha = sha.trim_matches('"').to_owned();
    assert_eq!(ask(&mut second, &["EVALSHA", &sha, "0"]), "\"loaded\"");
    assert_eq!(ask(&mut first, &["SCRIPT", "FLUSH"]), "OK");
    assert!(ask(&mut second, &["EVALSHA", &sha, "0"]).contains("NOSCRIPT"));
    ask(&mut second, &["SCRIPT", "LOAD", "return 'loaded'"]);
    for number in ["one", "two"] {
        let code = LIBRARY.replace("NUMBER", number);
        assert_eq!(ask(&mut first, &["FUNCTION", "LOAD", "REPLACE", &code]), "\"lib\"");
        assert_eq!(ask(&mut second, &["FCALL", "version", "0"]), format!("\"{number}\""));
        assert_eq!(ask(&mut first, &["FCALL", "version", "0"]), format!("\"{number}\""));
    }
    one.kill();
    drop(two);
    let third = segment.serve(&[]);
    let mut client = connect(&third);
    assert_eq!(ask(&mut client, &["FCALL", "version", "0"]), "\"two\"");
    assert_eq!(ask(&mut client, &["EVALSHA", &sha, "0"]), "\"loaded\"");
    assert_eq!(ask(&mut client, &["FUNCTION", "FLUSH"]), "OK");
    assert!(ask(&mut client, &["FCALL", "version", "0"]).contains("Function not found"));
    segment.verify();
}

#[test]
fn a_process_killed_while_it_loads_libraries_leaves_whole_ones() {
    let code = |number: usize, round: usize| {
        let more = format!("redis.register_function('twin{number}', function() return {round} end)");
        format!(
            "#!lua name=lib{number}\nredis.register_function('f{number}', function() return {round} end)\n{more}"
        )
    };
    let segment = Segment::new();
    let mut random = Random::new(11);
    for round in 0..8 {
        let mut server = segment.serve(&[]);
        // A reply tells what is there, and so when to kill: somewhere inside what follows.
        let (last, most) = (AtomicUsize::new(0), 20 + random.below(60));
        std::thread::scope(|scope| {
            let (address, last) = (server.address(), &last);
            let loader = scope.spawn(move || {
                let Ok(mut client) = Connection::open(&address) else { return };
                for number in 1.. {
                    if client.call(&["FUNCTION", "LOAD", "REPLACE", &code(number % 100, round)]).is_err() {
                        return;
                    }
                    last.store(number, Ordering::Release);
                }
            });
            while last.load(Ordering::Acquire) < most && !loader.is_finished() {
                std::thread::yield_now();
            }
            server.kill();
        });
        let server = segment.serve(&[]);
        let mut client = connect(&server);
        for number in (1..=last.into_inner()).rev().take(100).map(|number| number % 100) {
            for name in [format!("f{number}"), format!("twin{number}")] {
                assert_eq!(ask(&mut client, &["FCALL", &name, "0"]), format!("(integer) {round}"), "{name}");
            }
        }
        let counted = ask(&mut client, &["FUNCTION", "STATS"]);
        let listed = ask(&mut client, &["FUNCTION", "LIST"]).matches("library_name").count();
        assert!(
            counted.contains(&format!("(integer) {listed}"))
                && counted.contains(&format!("(integer) {}", 2 * listed)),
            "{counted}"
        );
    }
    segment.verify();
}

/// Asks until the reply is a wanted one.
fn until(client: &mut Connection, words: &[&str], wanted: &str) {
    let begun = Instant::now();
    loop {
        let answer = ask(client, words);
        if answer.contains(wanted) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{words:?}: {answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_slow_script_is_reported_and_can_be_killed_on_its_own_thread() {
    let segment = Segment::new();
    let server = segment.serve(&["--threads", "1", "--busy-reply-threshold", "50"]);
    let mut other = connect(&server);
    let mut slow = connect(&server);
    let mut queuer = connect(&server);
    for words in [&["MULTI"][..], &["SET", "x", "1"]] {
        ask(&mut queuer, words);
    }
    slow.send(&["EVAL", "while true do pcall(function() while true do end end) end", "0"])
        .expect("it is sent");
    // A client whose request arrives in the very turn of the loop that runs the script gets its
    // reply as well.
    for client in &mut [connect(&server), connect(&server)] {
        client.send(&["INCR", "y"]).expect("it is sent");
        client.send(&["INCR", "y"]).expect("it is sent");
        for _ in 0..2 {
            let answer = client.receive().expect("a reply").shown();
            assert!(answer.starts_with("(integer)") || answer.contains("BUSY"), "{answer}");
        }
    }
    until(&mut other, &["GET", "x"], "BUSY Redis is busy running a script. You can only call SCRIPT KILL");
    // A transaction that cannot be made now is over.
    assert!(ask(&mut queuer, &["EXEC"]).contains("EXECABORT Transaction discarded because of: BUSY"));
    assert!(ask(&mut other, &["FUNCTION", "KILL"]).contains("BUSY"));
    assert!(ask(&mut connect(&server), &["PING"]).contains("BUSY"));
    assert_eq!(ask(&mut other, &["SCRIPT", "KILL"]), "OK");
    assert!(slow.receive().expect("a reply").shown().contains("Script killed by user with SCRIPT KILL"));
    assert_eq!(ask(&mut queuer, &["PING"]), "PONG");
    assert_eq!(ask(&mut other, &["EXISTS", "x"]), "(integer) 0");
    drop(server);
    segment.verify();
}

#[test]
fn monitoring_clients_see_a_script_and_what_it_calls() {
    let segment = Segment::new();
    let server = segment.serve(&[]);
    let (mut monitor, mut actor) = (connect(&server), connect(&server));
    assert_eq!(ask(&mut monitor, &["MONITOR"]), "OK");
    let script = "redis.call('GET','a') return redis.call('NONSENSE')";
    for words in [
        &["EVAL", script, "0"][..],
        &["EVALSHA", "nonsense", "0"],
        &["MULTI"],
        &["EVAL", "return redis.call('GET','b')", "0"],
        &["EXEC"],
    ] {
        ask(&mut actor, words);
    }
    let shown = [
        format!(r#""EVAL" "{script}" "0""#),
        r#" lua] "GET" "a""#.into(),
        r#""EVALSHA" "nonsense" "0""#.into(),
        r#""MULTI""#.into(),
        r#""EVAL" "return redis.call('GET','b')" "0""#.into(),
        r#" lua] "GET" "b""#.into(),
        r#""EXEC""#.into(),
    ];
    for expected in shown {
        let line = monitor.receive().expect("a line").shown();
        assert!(line.ends_with(&expected), "{line}, not {expected}");
    }
}

#[test]
fn what_a_script_reads_is_tracked_and_what_it_writes_is_not() {
    let segment = Segment::new();
    let (one, other) = (segment.serve(&[]), segment.serve(&[]));
    let (mut reader, mut writer) = (connect(&one), connect(&other));
    ask(&mut reader, &["HELLO", "3"]);
    ask(&mut reader, &["CLIENT", "TRACKING", "ON"]);
    let script = "redis.call('SET','written',1) redis.call('GET','read') return redis.call('STRLEN',KEYS[1])";
    assert_eq!(ask(&mut reader, &["EVAL", script, "2", "named", "unread"]), "(integer) 0");
    let figures = ask(&mut reader, &["INFO", "stats"]);
    assert!(
        figures.contains("tracking_total_keys:2") && figures.contains("tracking_total_items:2"),
        "{figures}"
    );
    // A script that only reads, and one that is part of a whole.
    let get = "return redis.call('GET',ARGV[1])";
    for words in [&["EVAL_RO", get, "1", "unread", "a"][..], &["MULTI"], &["EVAL", get, "0", "b"], &["EXEC"]]
    {
        ask(&mut reader, words);
    }
    for key in ["written", "unread", "read", "named", "a", "b"] {
        ask(&mut writer, &["SET", key, "2"]);
    }
    for key in ["read", "named", "a", "b"] {
        let told = reader.receive().expect("a message").shown();
        assert!(told.contains("invalidate") && told.contains(&format!("\"{key}\"")), "{told}, not {key}");
    }
}

#[test]
fn what_a_whole_reads_is_tracked_unless_it_changes_it_itself() {
    let segment = Segment::new();
    let server = segment.serve(&[]);
    let (mut reader, mut writer) = (connect(&server), connect(&server));
    ask(&mut reader, &["HELLO", "3"]);
    ask(&mut reader, &["CLIENT", "TRACKING", "ON"]);
    for words in [
        &["MULTI"][..],
        &["SET", "before", "1"],
        &["GET", "before"],
        &["GET", "after"],
        &["SET", "after", "1"],
        &["EXEC"],
    ] {
        ask(&mut reader, words);
    }
    // What was read and then changed is told at once, what was changed and then read when it changes again.
    assert!(reader.receive().expect("a message").shown().contains("\"after\""));
    assert_eq!(ask(&mut reader, &["PING"]), "PONG");
    ask(&mut writer, &["SET", "after", "2"]);
    ask(&mut writer, &["SET", "before", "2"]);
    assert!(reader.receive().expect("a message").shown().contains("\"before\""));
    assert_eq!(ask(&mut reader, &["PING"]), "PONG");
}

#[test]
fn pipelined_scripts_make_room_in_a_full_cache_as_single_ones_do() {
    let segment = Segment::new();
    let server = segment.serve(&["--maxmemory", "12mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = connect(&server);
    let (value, calls) = ("x".repeat(1000), 64);
    for number in 0..16_000 {
        assert_eq!(ask(&mut client, &["SET", &format!("key:{number}"), &value]), "OK");
    }
    let calls_of = |number: usize| {
        polder_testkit::resp::framed(&["EVAL", SET_TO, "1", "key", &format!("{number}{value}")])
    };
    for _ in 0..4 {
        client.send_framed(&(0..calls).flat_map(calls_of).collect::<Vec<u8>>()).expect("sent");
        for _ in 0..calls {
            assert_eq!(client.receive().expect("a reply").shown(), "OK");
        }
        let transaction = ["MULTI", "SET a 1", "SET b 2", "EXEC"]
            .map(|line| polder_testkit::resp::framed(&line.split(' ').collect::<Vec<_>>()));
        client.send_framed(&transaction.concat().repeat(8)).expect("sent");
        let replies: Vec<String> = (0..32).map(|_| client.receive().expect("a reply").shown()).collect();
        assert!(replies.iter().all(|reply| !reply.contains("OOM")), "{replies:?}");
    }
    segment.verify();
}
