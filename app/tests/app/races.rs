//! Orders that come at any moment: SHUTDOWN beside scripts and pipelines, SCRIPT KILL beside the first write, CLIENT UNBLOCK beside what was waited for.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder_engine::{Caller, Error, Memory, Options};
use polder_testkit::answer::Answer;
use polder_testkit::random::Random;
use polder_testkit::resp::Connection;

use crate::stage::{Segment, connect};

const PATIENCE: Duration = Duration::from_secs(30);

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn ask(client: &mut Connection, line: &str) -> String {
    client.call(&words(line)).expect("a reply").shown()
}

/// Writes all of its keys, with pauses of some milliseconds between, and replies.
const WRITE_ALL: &str = "for i = 1, 20 do redis.call('SET', KEYS[1] .. i, ARGV[1]) for n = 1, 20000 do local x = n * n end end return 'OK'";
const ARE_ALIKE: &str = "local first = redis.call('GET', KEYS[1] .. 1) for i = 2, 20 do if redis.call('GET', KEYS[1] .. i) ~= first then return 'half' end end return first or 'none'";

/// Counts in pipelines until the server ends: how many calls were acknowledged.
fn count_in_pipelines(client: &mut Connection) -> i64 {
    let mut count = 0;
    loop {
        let sent = (0..50).all(|_| client.send(&["INCR", "pipelined"]).is_ok());
        for _ in 0..50 {
            match client.receive() {
                Ok(Answer::Integer(_)) => count += 1,
                // Beside a script that is slow.
                Ok(Answer::Error(text)) if text.starts_with("BUSY") => {}
                Ok(other) => panic!("{}", other.shown()),
                Err(_) => return count,
            }
        }
        if !sent {
            return count;
        }
    }
}

#[test]
fn a_server_that_is_shut_down_leaves_no_half_script_and_loses_nothing_that_it_has_answered() {
    let segment = Segment::new();
    let mut random = Random::new(11);
    for round in 0..6 {
        let server = segment.serve(&["--threads", "2", "--busy-reply-threshold", "2"]);
        let address = server.address();
        let acknowledged = std::thread::scope(|scope| {
            let scripts = (0..2).map(|worker| {
                let mut client = connect(&server);
                scope.spawn(move || {
                    let key = format!("{{all:{worker}}}");
                    (1..)
                        .take_while(|number: &i32| {
                            let value = format!("{round}:{number}");
                            matches!(
                                client.call(&["EVAL", WRITE_ALL, "1", &key, &value]),
                                Ok(Answer::Bulk(_) | Answer::Status(_) | Answer::Error(_))
                            )
                        })
                        .count()
                })
            });
            let scripts: Vec<_> = scripts.collect();
            let mut client = connect(&server);
            let pipeline = scope.spawn(move || count_in_pipelines(&mut client));
            std::thread::sleep(Duration::from_millis(100 + random.below(100) as u64));
            let begun = Instant::now();
            // Beside a script that has written it is refused.
            while Connection::open(&address)
                .is_ok_and(|mut client| client.call(&["SHUTDOWN", "NOSAVE"]).is_ok())
            {
                assert!(begun.elapsed() < PATIENCE, "it does not end");
            }
            while Connection::open(&address).is_ok() {
                assert!(begun.elapsed() < PATIENCE, "it does not end");
                std::thread::sleep(Duration::from_millis(5));
            }
            scripts.into_iter().for_each(|script| assert!(script.join().is_ok()));
            pipeline.join().expect("an end")
        });
        drop(server);
        let server = segment.serve(&[]);
        let mut client = connect(&server);
        for worker in 0..2 {
            let answer = client
                .call(&["EVAL", ARE_ALIKE, "1", &format!("{{all:{worker}}}")])
                .expect("a reply")
                .shown();
            assert_ne!(answer, "\"half\"", "round {round}");
        }
        let count: i64 = ask(&mut client, "GETDEL pipelined").trim_matches('"').parse().expect("a count");
        assert!(
            (acknowledged..=acknowledged + 50).contains(&count),
            "{count} were counted, {acknowledged} acknowledged"
        );
    }
    segment.verify();
}

#[test]
fn a_script_that_is_killed_as_it_begins_to_write_writes_all_or_nothing() {
    const WAITS_THEN_WRITES: &str = "for n = 1, ARGV[1] do local x = n * n end \
        for i = 1, 20 do redis.call('SET', KEYS[1] .. i, ARGV[2]) for n = 1, 2000 do local x = n * n end end return 'OK'";
    let segment = Segment::new();
    let server = segment.serve(&["--threads", "2", "--busy-reply-threshold", "1"]);
    let (mut runner, mut killer) = (connect(&server), connect(&server));
    let mut random = Random::new(5);
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let killing = scope.spawn(move || {
            let mut killed = 0;
            while !over.load(Ordering::Relaxed) {
                match killer.call(&["SCRIPT", "KILL"]).expect("a reply") {
                    Answer::Status(_) => killed += 1,
                    Answer::Error(text) => {
                        assert!(text.starts_with("NOTBUSY") || text.starts_with("UNKILLABLE"), "{text}")
                    }
                    other => panic!("{}", other.shown()),
                }
            }
            killed
        });
        let (mut ended, mut stopped) = (0, 0);
        for number in 0..150 {
            let (steps, value) = ((20_000 + random.below(60_000)).to_string(), number.to_string());
            let before = ask(&mut runner, "GET {k}1");
            match runner.call(&["EVAL", WAITS_THEN_WRITES, "1", "{k}", &steps, &value]).expect("a reply") {
                Answer::Error(text) => {
                    assert!(text.contains("Script killed by user"), "{text}");
                    stopped += 1;
                    assert_eq!(ask(&mut runner, "GET {k}1"), before);
                }
                _ => {
                    ended += 1;
                    assert_eq!(ask(&mut runner, "GET {k}1"), format!("\"{value}\""));
                }
            }
            let alike = runner.call(&["EVAL_RO", ARE_ALIKE, "1", "{k}"]).expect("a reply").shown();
            assert_ne!(alike, "\"half\"", "after {number}");
        }
        over.store(true, Ordering::Relaxed);
        let killed: usize = killing.join().expect("an end");
        // A SCRIPT KILL may be acknowledged for a script that had just begun to write, which then
        // goes on.
        assert!(
            killed >= stopped && ended + stopped == 150,
            "{killed} orders, {stopped} stopped, {ended} ended"
        );
    });
    drop(server);
    segment.verify();
}

#[test]
fn a_client_unblocked_while_an_element_comes_gets_one_or_the_other() {
    const ROUNDS: usize = 300;
    let segment = Segment::new();
    let servers = [segment.serve(&["--threads", "2"]), segment.serve(&[])];
    let memory = Arc::new(
        Memory::attach(&Options { segment: segment.0.clone(), ..Options::default() }).expect("attached"),
    );
    let over = &AtomicBool::new(false);
    let (mut pusher, mut orders) = (connect(&servers[0]), [connect(&servers[0]), connect(&servers[1])]);
    std::thread::scope(|scope| {
        let (said, ids) = std::sync::mpsc::channel();
        let here = said.clone();
        let in_process = scope.spawn(move || {
            let mut caller = Caller::new(&memory);
            here.send(caller.id()).expect("the test waits");
            let (mut got, mut errors) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                match caller.show(&["BLPOP", "list", "0"], |reply| reply.items().is_some()) {
                    Ok(found) => got += usize::from(found),
                    Err(Error::Refused(text)) if text.starts_with("UNBLOCKED") => errors += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (got, errors)
        });
        let mut client = connect(&servers[1]);
        let by_server = scope.spawn(move || {
            let Ok(Answer::Integer(id)) = client.call(&["CLIENT", "ID"]) else { panic!("no number") };
            said.send(id as u64).expect("the test waits");
            let (mut got, mut errors) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                match client.call(&["BLPOP", "list", "0"]).expect("a reply") {
                    Answer::Array(_) => got += 1,
                    Answer::Nil => {}
                    Answer::Error(text) if text.starts_with("UNBLOCKED") => errors += 1,
                    other => panic!("{}", other.shown()),
                }
            }
            (got, errors)
        });
        let ids: Vec<u64> = ids.iter().take(2).collect();
        let (mut unblocked, mut random) = (0, Random::new(3));
        for round in 0..ROUNDS {
            assert!(ask(&mut pusher, "RPUSH list x").starts_with("(integer)"));
            let (order, id) = (&mut orders[round % 2], ids[random.below(2)]);
            let line = format!("CLIENT UNBLOCK {id} {}", if round % 4 == 0 { "TIMEOUT" } else { "ERROR" });
            unblocked += usize::from(ask(order, &line) == "(integer) 1" && round % 4 != 0);
        }
        over.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        while !(in_process.is_finished() && by_server.is_finished()) {
            assert!(begun.elapsed() < PATIENCE, "a thread waits for ever");
            ids.iter().for_each(|id| drop(ask(&mut orders[0], &format!("CLIENT UNBLOCK {id}"))));
            std::thread::sleep(Duration::from_millis(5));
        }
        let (here, there) = (in_process.join().expect("an end"), by_server.join().expect("an end"));
        let left: usize =
            ask(&mut pusher, "LLEN list").trim_start_matches("(integer) ").parse().expect("a count");
        assert_eq!(here.0 + there.0 + left, ROUNDS, "elements: {here:?}, {there:?}, {left} left");
        // A client for which CLIENT UNBLOCK replied 1 was unblocked.
        assert_eq!(here.1 + there.1, unblocked, "{here:?} {there:?}");
    });
    drop(servers);
    segment.verify();
}
