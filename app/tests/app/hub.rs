//! The hub across real processes, some of which are killed: what others hear, which clients are
//! served, and what is left behind.
use std::process::Command;
use std::time::{Duration, Instant};

use polder_testkit::resp::Connection;

use crate::stage::{Segment, connect};

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn ask(client: &mut Connection, line: &str) -> String {
    client.call(&words(line)).expect("a reply").shown()
}

fn hear(client: &mut Connection) -> String {
    client.receive().expect("a message").shown()
}

/// Asks until the reply is this one.
fn until(client: &mut Connection, line: &str, wanted: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    loop {
        let answer = ask(client, line);
        if wanted(&answer) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{line}: {answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until this many clients wait; the section Clients counts those of all servers.
fn blocked(client: &mut Connection, count: usize) {
    let server = ask(client, "INFO server");
    let run = server
        .split("\\nrun_id:")
        .nth(1)
        .and_then(|rest| rest.split("\\r").next())
        .expect("a run")
        .to_owned();
    until(client, "INFO processes", |info| {
        let line = info.split("\\n").find(|line| line.contains(&run)).expect("its line");
        line.contains(&format!(",blocked_clients={count},"))
    });
}

#[test]
fn a_killed_subscriber_is_not_counted_and_leaves_nothing() {
    let segment = Segment::new();
    let one = segment.serve(&["--threads", "2"]);
    let mut publisher = connect(&one);
    for _ in 0..5 {
        let mut other = segment.serve(&[]);
        let (mut hearer, mut slow) = (connect(&other), connect(&other));
        ask(&mut hearer, "SUBSCRIBE news");
        ask(&mut slow, "PSUBSCRIBE n*");
        assert_eq!(ask(&mut publisher, "PUBLISH news hello"), "(integer) 2");
        assert_eq!(hear(&mut hearer), "1) \"message\"\n2) \"news\"\n3) \"hello\"");
        // Letters that are never read.
        let payload = "x".repeat(3000);
        other.stop();
        (0..200)
            .for_each(|_| assert_eq!(ask(&mut publisher, &format!("PUBLISH news {payload}")), "(integer) 2"));
        other.kill();
        until(&mut publisher, "PUBLISH news gone", |count| count == "(integer) 0");
        assert_eq!(ask(&mut publisher, "PUBSUB NUMPAT"), "(integer) 0");
    }
    // What they had said is swept away by and by.
    std::thread::sleep(Duration::from_millis(2500));
    segment.verify();
}

#[test]
fn a_publisher_may_be_killed_at_any_moment() {
    const LEAD: i64 = 20;
    let segment = Segment::new();
    let one = segment.serve(&[]);
    let mut hearer = connect(&one);
    ask(&mut hearer, "SUBSCRIBE news");
    for round in 0..8 {
        let mut other = segment.serve(&[]);
        let mut publisher = connect(&other);
        let pid = other.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20 + 7 * round));
            Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill runs");
        });
        // Numbers in order and none twice; the last one that was acknowledged is among those that arrive.
        let (mut acknowledged, mut last) = (-1, -1);
        let mut hear_up_to = |acknowledged: i64| {
            while last < acknowledged {
                let heard = hear(&mut hearer);
                let number = heard
                    .rsplit_once('"')
                    .and_then(|(text, _)| text.rsplit_once('"'))
                    .map(|(_, text)| text.trim_end_matches('y'));
                let number: i64 = number.expect("a payload").parse().expect("a number");
                assert_eq!(number, last + 1, "round {round}");
                last = number;
            }
        };
        for number in 0.. {
            let payload = format!("{number}{}", "y".repeat(number as usize % 20_000));
            match publisher.call(&["PUBLISH", "news", &payload]) {
                Ok(_) => acknowledged = number,
                Err(_) => break,
            }
            // The most that waits: a subscriber that falls far behind, because the machine does not
            // let it run, is rightly disconnected.
            if number % LEAD == 0 {
                hear_up_to(acknowledged - LEAD);
            }
        }
        killer.join().expect("a thread");
        other.kill();
        hear_up_to(acknowledged);
        // A message that was not acknowledged may have been sent even so.
        let mut marker = connect(&one);
        assert_eq!(ask(&mut marker, "PUBLISH news end"), "(integer) 1");
        while !hear(&mut hearer).contains("\"end\"") {}
    }
    segment.verify();
}

#[test]
fn a_client_behind_a_killed_one_is_served() {
    let segment = Segment::new();
    let one = segment.serve(&["--threads", "2"]);
    let (mut actor, mut second) = (connect(&one), connect(&one));
    for round in 0..5 {
        let mut other = segment.serve(&[]);
        let (mut first, mut asker) = (connect(&other), connect(&other));
        first.send(&words("BZPOPMIN z 0")).expect("sent");
        blocked(&mut asker, 1);
        second.send(&words("BZPOPMIN z 0")).expect("sent");
        blocked(&mut actor, 1);
        // Stopped, it is woken and does not serve its client; killed, it never will.
        other.stop();
        assert_eq!(ask(&mut actor, &format!("ZADD z {round} m")), "(integer) 1");
        other.kill();
        assert_eq!(hear(&mut second), format!("1) \"z\"\n2) \"m\"\n3) \"{round}\""));
    }
    std::thread::sleep(Duration::from_millis(1500));
    segment.verify();
}

#[test]
fn ten_thousand_clients_of_one_process_are_served_by_another() {
    const COUNT: usize = 10_000;
    let segment = Segment::new();
    let (one, other) = (segment.serve(&["--threads", "2", "--maxclients", "15000"]), segment.serve(&[]));
    let (mut asker, mut actor) = (connect(&one), connect(&other));
    let begun = Instant::now();
    let Ok(mut waiters) = (0..COUNT).map(|_| Connection::open(&one.address())).collect::<Result<Vec<_>, _>>()
    else {
        return eprintln!("skipped: this machine allows too few open files");
    };
    waiters.iter_mut().for_each(|waiter| waiter.send(&words("BZPOPMIN z 0")).expect("sent"));
    blocked(&mut asker, COUNT);
    let waiting = begun.elapsed();
    let begun = Instant::now();
    for number in 0..COUNT {
        actor.send(&words(&format!("ZADD z {number} m{number}"))).expect("sent");
        if number % 100 == 99 {
            (0..100).for_each(|_| assert_eq!(hear(&mut actor), "(integer) 1"));
        }
    }
    let mut got: Vec<String> = waiters.iter_mut().map(hear).collect();
    eprintln!(
        "{COUNT} clients wait after {waiting:?}, and are served by another process within {:?}",
        begun.elapsed()
    );
    got.sort();
    got.dedup();
    assert_eq!(got.len(), COUNT);
    blocked(&mut asker, 0);
    assert_eq!(ask(&mut actor, "EXISTS z"), "(integer) 0");
    segment.verify();
}

#[test]
fn a_client_behind_a_stopped_one_is_served_after_a_while() {
    let segment = Segment::new();
    let (one, other) = (segment.serve(&[]), segment.serve(&[]));
    let (mut first, mut asker, mut second, mut actor) =
        (connect(&other), connect(&other), connect(&one), connect(&one));
    first.send(&words("BZPOPMIN z 0")).expect("sent");
    blocked(&mut asker, 1);
    second.send(&words("BZPOPMIN z 0")).expect("sent");
    blocked(&mut actor, 1);
    other.stop();
    assert_eq!(ask(&mut actor, "ZADD z 1 m"), "(integer) 1");
    assert_eq!(hear(&mut second), "1) \"z\"\n2) \"m\"\n3) \"1\"");
    other.go_on();
    assert_eq!(ask(&mut actor, "ZADD z 2 n"), "(integer) 1");
    assert_eq!(hear(&mut first), "1) \"z\"\n2) \"n\"\n3) \"2\"");
}

#[test]
fn a_stopped_process_is_waited_for_once_however_many_of_its_threads_wait() {
    const THREADS: usize = 6;
    let segment = Segment::new();
    let (one, other) = (segment.serve(&[]), segment.serve(&["--threads", &THREADS.to_string()]));
    let (mut asker, mut second, mut actor) = (connect(&other), connect(&one), connect(&one));
    // Each goes to the thread with the fewest.
    let mut first: Vec<Connection> = (0..3 * THREADS).map(|_| connect(&other)).collect();
    first.iter_mut().for_each(|waiter| waiter.send(&words("BZPOPMIN z 0")).expect("sent"));
    blocked(&mut asker, 3 * THREADS);
    second.send(&words("BZPOPMIN z 0")).expect("sent");
    blocked(&mut actor, 1);
    other.stop();
    let begun = Instant::now();
    assert_eq!(ask(&mut actor, "ZADD z 1 m"), "(integer) 1");
    assert_eq!(hear(&mut second), "1) \"z\"\n2) \"m\"\n3) \"1\"");
    // One to two seconds; one thread after the other takes two for each.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // They are there again, each thread at its own place.
    second.send(&words("BZPOPMIN z 0")).expect("sent");
    other.go_on();
    for number in 0..=3 * THREADS {
        assert_eq!(ask(&mut actor, &format!("ZADD z {number} m{number}")), "(integer) 1");
    }
    let mut served: Vec<String> = first.iter_mut().chain([&mut second]).map(hear).collect();
    served.sort();
    served.dedup();
    assert_eq!(served.len(), 1 + 3 * THREADS);
    segment.verify();
}

#[test]
fn a_client_that_missed_a_message_is_disconnected() {
    let segment = Segment::new();
    let one = segment.serve(&[]);
    let (mut hearer, mut publisher) = (connect(&one), connect(&one));
    ask(&mut hearer, "SUBSCRIBE news");
    // More than a sixteenth of the segment: no inbox takes that.
    let payload = "x".repeat(20 << 20);
    assert_eq!(publisher.call(&["PUBLISH", "news", &payload]).expect("a reply").shown(), "(integer) 1");
    assert!(hearer.receive().is_err(), "a message that was lost is not passed over in silence");
    let mut again = connect(&one);
    ask(&mut again, "SUBSCRIBE news");
    assert_eq!(ask(&mut publisher, "PUBLISH news short"), "(integer) 1");
    assert_eq!(hear(&mut again), "1) \"message\"\n2) \"news\"\n3) \"short\"");
    segment.verify();
}

/// Publishes `times` times, and returns how often a publisher of the segment was held back meanwhile.
fn publish(client: &mut Connection, times: usize, payload: &str) -> u64 {
    let before = held(client);
    (0..times).for_each(|_| drop(ask(client, &format!("PUBLISH news {payload}"))));
    held(client) - before
}

/// Returns the times that publishers were held back for a slow subscriber.
fn held(client: &mut Connection) -> u64 {
    let info = ask(client, "INFO polder");
    let figure = info.split("\\npublishers_held:").nth(1).and_then(|rest| rest.split("\\r").next());
    figure.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("publishers_held in {info}"))
}

#[test]
fn a_stopped_subscriber_holds_up_publishers_once_and_a_dead_one_not_at_all() {
    let segment = Segment::new();
    let (one, mut other) = (segment.serve(&[]), segment.serve(&[]));
    let (mut publisher, mut second, mut bystander) = (connect(&one), connect(&one), connect(&one));
    let mut hearer = connect(&other);
    ask(&mut hearer, "SUBSCRIBE news");
    let payload = "x".repeat(100_000);
    other.stop();
    // Four times what the inbox takes. It may have been half full before it was stuck at its place.
    let times = publish(&mut publisher, 640, &payload);
    assert!((1..=3).contains(&times), "{times} calls were held back");
    let times = publish(&mut second, 100, &payload);
    assert!(times <= 1, "{times} calls of another were held back");
    // Other calls wait for no subscriber.
    let before = held(&mut bystander);
    (0..100).for_each(|_| assert_eq!(ask(&mut bystander, "SET key value"), "OK"));
    assert_eq!(held(&mut bystander), before);
    // It has lost messages: it is closed when its server goes on, and the next one hears everything.
    other.go_on();
    while hearer.receive().is_ok() {}
    let mut hearer = connect(&other);
    ask(&mut hearer, "SUBSCRIBE news");
    (0..300).for_each(|_| assert_eq!(ask(&mut publisher, &format!("PUBLISH news {payload}")), "(integer) 1"));
    (0..300).for_each(|_| assert!(hear(&mut hearer).ends_with("xxx\"")));
    // Killed while publishers wait for it.
    other.stop();
    let times = publish(&mut publisher, 90, &payload);
    assert!(times <= 1, "{times} calls were held back");
    other.kill();
    let times = publish(&mut publisher, 300, &payload);
    assert!(times <= 1, "{times} calls were held back by a dead one");
    until(&mut publisher, "PUBLISH news gone", |count| count == "(integer) 0");
    std::thread::sleep(Duration::from_millis(1500));
    segment.verify();
}
