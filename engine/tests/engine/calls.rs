//! Calls by their arguments: replies, waits, what is heard, and what a caller may not do.

use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use polder_base::time::now_us;
use polder_engine::{Answer, Batch, Caller, Error, Item, Listener, Memory, Options, Protocol};
use polder_testbase::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A memory of its own, removed at the end.
struct Scratch(Arc<Memory>, String);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let segment = format!("shm:polder-calls-{name}-{}", std::process::id());
        let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
        Scratch(Arc::new(Memory::attach(&options).expect("a segment")), segment)
    }

    fn caller(&self) -> Caller {
        Caller::new(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.1);
    }
}

fn words(item: Item<'_>) -> Vec<String> {
    let text = |item: Item<'_>| item.bytes().map(|text| String::from_utf8_lossy(text).into_owned());
    item.items().into_iter().flatten().map(|item| text(item).unwrap_or_else(|| format!("{item:?}"))).collect()
}

#[test]
fn replies_are_trees_in_the_callers_protocol() {
    let scratch = Scratch::new("trees");
    let mut caller = scratch.caller();
    caller.run(&["HSET", "h", "f", "1"]).expect("room");
    assert!(
        matches!(caller.run(&["HGETALL", "h"]).expect("a map").item(), Item::Map(pairs) if pairs.count() == 2)
    );
    let mut plain = Caller::speaking(&scratch.0, Protocol::Resp2);
    assert!(matches!(plain.run(&["HGETALL", "h"]).expect("an array").item(), Item::Array(_)));
    plain.run(&["HELLO", "3"]).expect("a map");
    assert!(matches!(plain.run(&["HGETALL", "h"]).expect("a map").item(), Item::Map(_)));
    assert_eq!(
        caller.run(&["NOSUCH"]).map(drop),
        Err(Error::Refused("ERR unknown command 'NOSUCH', with args beginning with: ".into()))
    );
    assert!(matches!(caller.run(&[] as &[&str]), Err(Error::Refused(_))));
    assert_ne!(caller.id(), plain.id());
}

#[test]
fn a_large_value_comes_in_pieces_of_the_memory_and_whole_in_an_answer() {
    let scratch = Scratch::new("large");
    let mut caller = scratch.caller();
    let value: Vec<u8> = (0..3_000_000u32).map(|at| at as u8).collect();
    caller.run(&[&b"SET"[..], b"k", &value]).expect("room");
    assert_eq!(caller.run(&["GET", "k"]).expect("readable").item(), Item::Bulk(&value));
    assert_eq!(caller.show(&["GET", "k"], |item| item.bytes().map(<[u8]>::len)), Ok(Some(value.len())));
    assert_eq!(caller.show(&["GET", "none"], |item| item == Item::Null), Ok(true));
}

#[test]
fn a_call_that_waits_is_woken_by_another_thread_or_by_time() {
    let scratch = Scratch::new("wait");
    let memory = scratch.0.clone();
    let waiter = thread::spawn(move || {
        words(Caller::new(&memory).run(&["BLPOP", "q", "10"]).expect("an element").item())
    });
    let mut other = scratch.caller();
    thread::sleep(Duration::from_millis(30));
    other.run(&["RPUSH", "q", "x"]).expect("room");
    assert_eq!(waiter.join().expect("no panic"), ["q", "x"]);
    let began = Instant::now();
    assert_eq!(other.show(&["BLPOP", "q", "0.05"], |item| item == Item::Null), Ok(true));
    assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
}

#[test]
fn no_wait_is_over_before_its_time() {
    let scratch = Scratch::new("early");
    let mut waiter = scratch.caller();
    for round in 0..50 {
        let began_us = now_us();
        assert_eq!(waiter.start(&["BLPOP", "q", "0.05"]), Ok(None));
        let until_ms = waiter.until_ms().expect("it waits");
        waiter.cancel().expect("an end");
        assert!(until_ms * 1000 >= began_us + 50_000, "round {round}");
    }
}

#[test]
fn messages_for_others_of_the_thread_are_kept_while_one_of_it_waits() {
    let scratch = Scratch::new("kept");
    let (mut listener, mut waiter) = (scratch.caller(), scratch.caller());
    listener.run(&["SUBSCRIBE", "c"]).expect("a place");
    let memory = scratch.0.clone();
    let other = thread::spawn(move || {
        let mut other = Caller::new(&memory);
        other.run(&["PUBLISH", "c", "one"]).expect("sent");
        thread::sleep(Duration::from_millis(50));
        other.run(&["RPUSH", "q", "x"]).expect("room");
    });
    assert_eq!(words(waiter.run(&["BLPOP", "q", "10"]).expect("an element").item()), ["q", "x"]);
    other.join().expect("no panic");
    let mut heard = Vec::new();
    assert_eq!(listener.hear(Duration::ZERO, |message| heard = words(message)), Ok(1));
    assert_eq!(heard, ["message", "c", "one"]);
    assert_eq!(listener.hear(Duration::ZERO, |_| {}), Ok(0));
    // It can do anything else besides.
    listener.run(&["SET", "k", "v"]).expect("room");
    listener.run(&["UNSUBSCRIBE"]).expect("an end");
    waiter.run(&["PUBLISH", "c", "two"]).expect("nobody");
    assert_eq!(listener.hear(Duration::ZERO, |_| {}), Ok(0));
}

fn is_readable(descriptor: &OwnedFd, patience: Duration) -> bool {
    let patience =
        Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&patience)).is_ok_and(|ready| ready > 0)
}

#[test]
fn an_event_loop_of_ones_own_hears_by_a_descriptor() {
    let scratch = Scratch::new("poll");
    let (mut listener, mut waiter) = (scratch.caller(), scratch.caller());
    let descriptor = listener.descriptor().expect("a descriptor");
    listener.run(&["SUBSCRIBE", "c"]).expect("a place");
    assert_eq!(waiter.start(&["BLPOP", "q", "0"]), Ok(None));
    assert_eq!(waiter.until_ms(), Some(u64::MAX));
    assert_eq!(waiter.run(&["PING"]).map(drop), Err(Error::Waiting));
    assert!(!is_readable(&descriptor, Duration::from_millis(20)));
    for round in 0..50 {
        let memory = scratch.0.clone();
        let publisher =
            thread::spawn(move || Caller::new(&memory).run(&["PUBLISH", "c", &round.to_string()]).map(drop));
        assert!(is_readable(&descriptor, PATIENCE), "round {round}");
        let mut heard = Vec::new();
        assert_eq!(listener.hear(Duration::ZERO, |message| heard = words(message)), Ok(1));
        assert_eq!(heard[2], round.to_string());
        assert!(!is_readable(&descriptor, Duration::ZERO));
        publisher.join().expect("no panic").expect("sent");
    }
    assert_eq!(waiter.resume(), Ok(None));
    let memory = scratch.0.clone();
    thread::spawn(move || Caller::new(&memory).run(&["RPUSH", "q", "x"]).map(drop))
        .join()
        .expect("no panic")
        .expect("room");
    assert!(is_readable(&descriptor, PATIENCE));
    // The caller that looks first takes the letter in; the descriptor stays readable for the caller
    // whose letter it is.
    assert_eq!(listener.hear(Duration::ZERO, |_| {}), Ok(0));
    assert!(is_readable(&descriptor, Duration::ZERO));
    assert_eq!(
        waiter.resume().expect("an element").map(|answer| words(answer.item())),
        Some(vec!["q".into(), "x".into()])
    );
    assert!(!is_readable(&descriptor, Duration::ZERO));
    // A call of the thread that waits in between leaves the wakeup armed.
    assert_eq!(waiter.show(&["BLPOP", "q", "0.01"], |item| item == Item::Null), Ok(true));
    waiter.run(&["PUBLISH", "c", "own"]).expect("sent");
    assert!(is_readable(&descriptor, PATIENCE));
}

#[test]
fn a_call_that_was_begun_ends_by_its_time_or_is_cancelled() {
    let scratch = Scratch::new("begun");
    let mut waiter = scratch.caller();
    assert!(matches!(waiter.resume(), Err(Error::Refused(_))));
    assert_eq!(waiter.start(&["BLPOP", "q", "0.02"]), Ok(None));
    thread::sleep(Duration::from_millis(40));
    assert_eq!(
        waiter.resume().map(|answer| answer.map(|answer| answer.item() == Item::Null)),
        Ok(Some(true))
    );
    assert_eq!(waiter.start(&["BLPOP", "q", "0"]), Ok(None));
    waiter.cancel().expect("it waits");
    // The cancelled call does not take the element.
    let mut other = scratch.caller();
    other.run(&["RPUSH", "q", "x"]).expect("room");
    assert_eq!(other.show(&["LLEN", "q"], |item| item.integer()), Ok(Some(1)));
    // What does not wait is answered at once.
    assert_eq!(
        waiter.start(&["LLEN", "q"]).expect("a number").map(|answer| answer.item().integer()),
        Some(Some(1))
    );
}

#[test]
fn what_is_pushed_as_a_call_begins_to_wait_rings() {
    let scratch = Scratch::new("begins");
    let mut waiter = scratch.caller();
    let descriptor = waiter.descriptor().expect("a descriptor");
    let (go, gone) = mpsc::channel::<()>();
    let memory = scratch.0.clone();
    let pusher = thread::spawn(move || {
        let mut pusher = Caller::new(&memory);
        gone.iter().for_each(|()| pusher.run(&["RPUSH", "q", "x"]).map(drop).expect("room"));
    });
    for round in 0..2_000 {
        go.send(()).expect("somebody pushes");
        if round % 3 == 0 {
            thread::yield_now();
        }
        let mut answer = waiter.start(&["BLPOP", "q", "0"]).expect("it may wait");
        let began = Instant::now();
        while answer.is_none() {
            assert!(is_readable(&descriptor, PATIENCE) && began.elapsed() < PATIENCE, "round {round}");
            answer = waiter.resume().expect("it waits");
        }
    }
    drop(go);
    pusher.join().expect("no panic");
}

#[test]
fn a_call_that_keeps_its_thread_does_not_wait_for_one_that_the_thread_has_begun() {
    let scratch = Scratch::new("keeps");
    let (mut begun, mut waiter) = (scratch.caller(), scratch.caller());
    assert_eq!(begun.start(&["BLPOP", "q", "0"]), Ok(None));
    let push = |after: Duration| {
        let memory = scratch.0.clone();
        thread::spawn(move || {
            thread::sleep(after);
            Caller::new(&memory).run(&["RPUSH", "q", "x"]).map(drop)
        })
    };
    push(Duration::ZERO).join().expect("no panic").expect("room");
    assert_eq!(waiter.show(&["BLPOP", "q", "5"], |item| item == Item::Null), Ok(false));
    let later = push(Duration::from_millis(50));
    assert_eq!(waiter.show(&["BLPOP", "q", "5"], |item| item == Item::Null), Ok(false));
    later.join().expect("no panic").expect("room");
    push(Duration::ZERO).join().expect("no panic").expect("room");
    assert!(begun.resume().expect("it waits").is_some());
}

#[test]
fn batches_answer_every_call_and_transactions_are_whole() {
    let scratch = Scratch::new("batch");
    let mut caller = scratch.caller();
    let mut batch = Batch::new();
    for number in 0..300 {
        batch.add(&["RPUSH", "list", &number.to_string()]).add(&["SET", &format!("k{number}"), "v"]);
    }
    batch.add(&["INCR", "list"]).add(&["LLEN", "list"]);
    let answer = caller.run_batch(&batch).expect("answers");
    assert_eq!(answer.items().count(), batch.len());
    assert_eq!(answer.items().last(), Some(Item::Integer(300)));
    assert!(matches!(answer.items().nth(600), Some(Item::Error(_))));
    batch.clear();
    batch.add(&["SET", "a", "1"]).add(&["INCR", "a"]);
    let answer = caller.run_atomically(&batch).expect("answers");
    assert_eq!(answer.item().items().map(|mut items| items.nth(1)), Some(Some(Item::Integer(2))));
    batch.add(&["NOSUCH"]);
    assert!(
        matches!(caller.run_atomically(&batch), Err(Error::Refused(text)) if text.starts_with("EXECABORT"))
    );
    caller.run(&["WATCH", "a"]).expect("watched");
    scratch.caller().run(&["SET", "a", "5"]).expect("room");
    batch.clear();
    batch.add(&["SET", "a", "1"]);
    assert_eq!(caller.run_atomically(&batch).map(|answer| answer.item() == Item::Null), Ok(true));
}

/// The line of INFO that begins with this, as a number.
fn figure(caller: &mut Caller, section: &str, name: &str) -> u64 {
    let text = caller
        .show(&["INFO", section], |item| String::from_utf8_lossy(item.bytes().expect("text")).into_owned())
        .expect("replies");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    line.split(',').next().unwrap_or_default().parse().expect("a number")
}

#[test]
fn a_transaction_of_nothing_but_sets_counts_and_replies_as_any_other() {
    const FIGURES: [(&str, &str); 5] = [
        ("stats", "total_commands_processed:"),
        ("persistence", "rdb_changes_since_last_save:"),
        ("commandstats", "cmdstat_multi:calls="),
        ("commandstats", "cmdstat_exec:calls="),
        ("commandstats", "cmdstat_set:calls="),
    ];
    let scratch = Scratch::new("sets");
    let mut caller = scratch.caller();
    caller.run(&["SET", "k0", "old"]).expect("room");
    let mut counted = Vec::new();
    // The second value takes a record, which the fast path leaves to the slow one.
    for value in ["short", &"long".repeat(40)] {
        let before = FIGURES.map(|(section, name)| figure(&mut caller, section, name));
        let mut batch = Batch::new();
        (0..5).for_each(|number| _ = batch.add(&["SET", &format!("k{number}"), value]));
        let answer = caller.run_atomically(&batch).expect("replies");
        let replies: Vec<Item> = answer.item().items().expect("an array").collect();
        assert_eq!(replies, vec![Item::Status(b"OK"); 5]);
        for number in 0..5 {
            let there =
                caller.show(&["GET", &format!("k{number}")], |item| item == Item::Bulk(value.as_bytes()));
            assert_eq!(there, Ok(true));
        }
        let after = FIGURES.map(|(section, name)| figure(&mut caller, section, name));
        counted.push(std::array::from_fn::<u64, 5, _>(|at| after[at] - before[at]));
    }
    assert_eq!(counted[0], counted[1]);
    assert_eq!(counted[0][1..], [5, 1, 1, 5]);
    // MULTI and EXEC with one key again and again: the last value counts.
    caller.run(&["MULTI"]).expect("open");
    (0..3).for_each(|number| _ = caller.run(&["SET", "k1", &number.to_string()]).expect("queued"));
    assert_eq!(caller.run(&["EXEC"]).expect("done").item().items().map(Iterator::count), Some(3));
    assert_eq!(caller.show(&["GET", "k1"], |item| item == Item::Bulk(b"2")), Ok(true));
    assert!(caller.run_atomically(&Batch::new()).expect("replies").item().items().is_some());
}

#[test]
fn a_caller_that_listens_belongs_to_its_thread_and_others_may_move() {
    let scratch = Scratch::new("threads");
    let mut caller = scratch.caller();
    caller.run(&["MULTI"]).expect("open");
    let mut caller = thread::spawn(move || {
        caller.run(&["SET", "k", "v"]).expect("queued");
        caller
    })
    .join()
    .expect("no panic");
    caller.run(&["EXEC"]).expect("done");
    caller.run(&["SUBSCRIBE", "c"]).expect("a place");
    let (outcome, mut caller) =
        thread::spawn(move || (caller.run(&["GET", "k"]).map(drop), caller)).join().expect("no panic");
    assert_eq!(outcome, Err(Error::WrongThread));
    caller.run(&["UNSUBSCRIBE", "c"]).expect("an end");
    assert!(thread::spawn(move || caller.run(&["GET", "k"]).is_ok()).join().expect("no panic"));
}

#[test]
fn a_dropped_caller_hears_nothing_and_a_killed_one_is_told() {
    let scratch = Scratch::new("ends");
    let (mut one, mut two) = (scratch.caller(), scratch.caller());
    one.run(&["SUBSCRIBE", "c"]).expect("a place");
    two.run(&["PSUBSCRIBE", "c*"]).expect("a place");
    let mut other = scratch.caller();
    assert_eq!(other.show(&["PUBLISH", "c", "m"], |item| item.integer()), Ok(Some(2)));
    drop(one);
    assert_eq!(other.show(&["PUBLISH", "c", "m"], |item| item.integer()), Ok(Some(1)));
    assert_eq!(two.hear(PATIENCE, |_| {}), Ok(2));
    // Dropped by another thread, it is buried when its own comes by.
    let mut three = scratch.caller();
    three.run(&["SUBSCRIBE", "c"]).expect("a place");
    thread::spawn(move || drop(three)).join().expect("no panic");
    assert_eq!(two.hear(Duration::ZERO, |_| {}), Ok(0));
    assert_eq!(other.show(&["PUBLISH", "c", "m"], |item| item.integer()), Ok(Some(1)));
    two.run(&["QUIT"]).expect("OK");
    assert_eq!(two.run(&["PING"]).map(drop), Err(Error::Closed));
}

#[test]
fn tracked_keys_are_told_of_by_pushes() {
    let scratch = Scratch::new("tracking");
    let mut reader = scratch.caller();
    reader.run(&["CLIENT", "TRACKING", "ON"]).expect("OK");
    reader.run(&["GET", "k"]).expect("nothing");
    let memory = scratch.0.clone();
    thread::spawn(move || Caller::new(&memory).run(&["SET", "k", "v"]).map(drop))
        .join()
        .expect("no panic")
        .expect("room");
    let mut heard = Vec::new();
    assert_eq!(reader.hear(PATIENCE, |message| heard = words(message)), Ok(1));
    assert_eq!(heard[0], "invalidate");
}

#[test]
fn listeners_call_back_until_they_are_stopped() {
    let scratch = Scratch::new("listener");
    let (sender, receiver) = mpsc::channel();
    let listener = Listener::start(&scratch.0, &["SUBSCRIBE", "c"], move |message| {
        let _ = sender.send(words(message));
    });
    let listener = listener.expect("a thread");
    let mut other = scratch.caller();
    for number in 0..1000 {
        other.run(&["PUBLISH", "c", &number.to_string()]).expect("sent");
    }
    for number in 0..1000 {
        assert_eq!(receiver.recv_timeout(PATIENCE).expect("in time")[2], number.to_string());
    }
    listener.stop();
    assert_eq!(other.show(&["PUBLISH", "c", "m"], |item| item.integer()), Ok(Some(0)));
    assert!(matches!(Listener::start(&scratch.0, &["SUBSCRIBE"], |_| {}), Err(Error::Refused(_))));
}

#[test]
fn what_has_expired_is_collected_without_a_server() {
    let scratch = Scratch::new("maintenance");
    let mut caller = scratch.caller();
    for number in 0..100 {
        caller.run(&["SET", &format!("k{number}"), "v", "PX", "20"]).expect("room");
    }
    let began = Instant::now();
    loop {
        caller.run(&["PING"]).expect("PONG");
        if caller.show(&["DBSIZE"], |item| item.integer()) == Ok(Some(0)) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "expired keys are still there");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_answer_outlives_its_caller() {
    let scratch = Scratch::new("outlives");
    let answer: Answer = {
        let mut caller = scratch.caller();
        caller.run(&["ECHO", "kept"]).expect("an echo")
    };
    assert_eq!(answer.item(), Item::Bulk(b"kept"));
}

#[test]
fn a_thread_that_only_polls_the_descriptor_is_woken_at_the_end_of_a_pause() {
    const PAUSE_MS: u64 = 300;
    let scratch = Scratch::new("rung");
    let (mut waiter, mut pusher) = (scratch.caller(), scratch.caller());
    let descriptor = waiter.descriptor().expect("a descriptor");
    let rings = |patience: Duration| {
        let patience =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).expect("a poll") == 1
    };
    for round in 0..3 {
        assert!(waiter.start(&["BLPOP", "q", "0"]).expect("begun").is_none());
        thread::scope(|scope| {
            scope
                .spawn(|| Caller::new(&scratch.0).run(&["RPUSH", "q", "a"]).map(drop))
                .join()
                .expect("an end")
                .expect("pushed");
        });
        assert!(rings(PATIENCE), "round {round}");
        pusher.run(&["CLIENT", "PAUSE", &PAUSE_MS.to_string(), "WRITE"]).expect("paused");
        let begun = Instant::now();
        assert!(waiter.resume().expect("it waits").is_none(), "a pause holds it back");
        assert!(!rings(Duration::from_millis(PAUSE_MS / 3)), "nothing to do in the pause");
        assert!(rings(PATIENCE), "round {round}: nobody says that the pause is over");
        assert!(begun.elapsed() >= Duration::from_millis(PAUSE_MS - 20), "{:?}", begun.elapsed());
        assert!(waiter.resume().expect("it waits").is_some(), "round {round}");
        assert!(!rings(Duration::ZERO), "nothing is left");
    }
}

#[test]
fn a_script_that_sets_one_large_key_again_and_again_evicts_nothing() {
    let scratch = Scratch::new("again");
    let mut caller = scratch.caller();
    caller.run(&["CONFIG", "SET", "maxmemory", "24mb", "maxmemory-policy", "allkeys-lru"]).expect("settings");
    for number in 0..20_000 {
        caller.run(&["SET", &format!("other:{number}"), "value"]).expect("room");
    }
    let evicted = |caller: &mut Caller| {
        let info = caller.run(&["INFO", "stats"]).expect("text");
        let text = String::from_utf8_lossy(info.item().bytes().expect("bytes")).into_owned();
        text.lines()
            .find_map(|line| line.strip_prefix("evicted_keys:").and_then(|count| count.parse::<u64>().ok()))
    };
    let script = "local v = string.rep('x', 100000) for i = 1, 4000 do redis.call('SET', 'k', v) end return redis.call('DBSIZE')";
    assert!(matches!(caller.run(&["EVAL", script, "0"]).expect("room").item(), Item::Integer(20_001)));
    assert_eq!(evicted(&mut caller), Some(0));
    let script = "local v = string.rep('x', 1048576) for i = 1, 300 do redis.call('SET', 'k', v) end return redis.call('STRLEN', 'k')";
    assert!(matches!(caller.run(&["EVAL", script, "0"]).expect("room").item(), Item::Integer(1_048_576)));
}
