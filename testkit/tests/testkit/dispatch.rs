//! What the dispatcher promises beyond single replies: silence where it was asked for, refusal when memory is short, and
//! transactions that others see whole or not at all.
use polder_base::Protocol;
use polder_engine::{Clock, Limits, Policy, Progress, Session};
use polder_table::Mode;
use polder_testkit::answer::Answer;
use polder_testkit::caller::Caller;
use polder_testkit::gather::Gather;
use polder_testkit::scratch::Scratch;

/// Runs one command of words without blanks; no answer where there was no reply.
fn typed(scratch: &Scratch, caller: &mut Caller, line: &str) -> Option<Answer> {
    let args: Vec<&str> = line.split(' ').collect();
    caller.call(&scratch.embedder, &args).ok()
}

fn shown(scratch: &Scratch, caller: &mut Caller, line: &str) -> String {
    typed(scratch, caller, line).map_or("nothing".into(), |answer| answer.shown())
}

fn check(scratch: &Scratch, caller: &mut Caller, steps: &[(&str, &str)]) {
    for (line, expected) in steps {
        assert_eq!(shown(scratch, caller, line), *expected, "{line}");
    }
}

#[test]
fn a_client_that_does_not_touch_leaves_the_access_clock_alone_on_the_fast_path_too() {
    let scratch = Scratch::new();
    let mut session = Session {
        clock: Clock { turn_ms: polder_base::time::now_ms(), ..Clock::default() },
        ..Session::default()
    };
    let mut ask = |later_ms: u64, line: &str| {
        session.clock.turn_ms += later_ms;
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Gather::new(session.protocol);
        let progress =
            scratch.embedder.memory.execute(&mut session, &scratch.embedder.host, &args, &mut reply);
        assert_eq!(progress, Progress::Answered, "{line}");
        reply.answer().unwrap().shown()
    };
    ask(0, "SET key value");
    ask(0, "CLIENT NO-TOUCH ON");
    ask(100_000, "GET key");
    assert_eq!(ask(0, "OBJECT IDLETIME key"), "(integer) 100");
    ask(0, "CLIENT NO-TOUCH OFF");
    ask(0, "GET key");
    assert_eq!(ask(0, "OBJECT IDLETIME key"), "(integer) 0");
}

#[test]
fn client_reply_says_which_commands_are_answered() {
    let (scratch, mut caller) = (Scratch::new(), Caller::new(1, Protocol::Resp2));
    let steps = [
        ("CLIENT REPLY OFF", "nothing"),
        ("SET a 1", "nothing"),
        ("FOO", "nothing"),
        ("CLIENT REPLY SKIP", "nothing"),
        ("GET a", "nothing"),
        ("CLIENT REPLY ON", "OK"),
        ("GET a", "\"1\""),
        ("CLIENT REPLY SKIP", "nothing"),
        ("GET a", "nothing"),
        ("GET a", "\"1\""),
        ("CLIENT REPLY SKIP", "nothing"),
        ("CLIENT REPLY ON", "OK"),
        ("GET a", "\"1\""),
    ];
    check(&scratch, &mut caller, &steps);
}

#[test]
fn what_may_grow_is_refused_when_memory_is_short() {
    let (scratch, mut caller) = (Scratch::new(), Caller::new(1, Protocol::Resp2));
    const REFUSED: &str = "(error) OOM command not allowed when used memory > 'maxmemory'.";
    const ABORTED: &str = "(error) EXECABORT Transaction discarded because of previous errors.";
    check(&scratch, &mut caller, &[("SET a 1", "OK"), ("MULTI", "OK"), ("SET a 2", "QUEUED")]);
    let table = scratch.embedder.memory.table();
    table.set_limits(Limits { memory_max: 1, ..Limits::default() });
    let late = "(error) EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.";
    let steps = [
        ("EXEC", late),
        ("SET a 3", REFUSED),
        ("GET a", "\"1\""),
        ("MULTI", "OK"),
        ("APPEND a 3", REFUSED),
        ("EXEC", ABORTED),
        ("DEL a", "(integer) 1"),
    ];
    check(&scratch, &mut caller, &steps);
    table.set_limits(Limits { policy: Policy::VolatileLru, ..table.limits() });
    check(&scratch, &mut caller, &[("SET a 3", REFUSED)]);
    table.set_limits(Limits::default());
    check(&scratch, &mut caller, &[("SET a 3", "OK")]);
}

#[test]
fn others_see_a_transaction_whole_or_not_at_all() {
    const KEYS: usize = 60;
    const ROUNDS: usize = 300;
    let scratch = Scratch::new();
    let (scratch, names) = (&scratch, (0..KEYS).map(|key| format!("k{key}")).collect::<Vec<_>>());
    let exec = |caller: &mut Caller, verb: &str| {
        typed(scratch, caller, "MULTI");
        names.iter().for_each(|name| drop(typed(scratch, caller, &format!("{verb} {name}"))));
        match typed(scratch, caller, "EXEC") {
            Some(Answer::Array(replies)) => replies,
            other => panic!("{other:?}"),
        }
    };
    std::thread::scope(|scope| {
        for id in 1..=2 {
            scope.spawn(move || {
                let mut caller = Caller::new(id, Protocol::Resp2);
                (0..ROUNDS).for_each(|_| drop(exec(&mut caller, "INCR")));
            });
        }
        scope.spawn(|| {
            let mut caller = Caller::new(3, Protocol::Resp2);
            for _ in 0..ROUNDS {
                let seen = exec(&mut caller, "GET");
                assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
            }
        });
    });
    assert_eq!(
        shown(scratch, &mut Caller::new(4, Protocol::Resp2), "GET k59"),
        format!("\"{}\"", 2 * ROUNDS)
    );
}

#[test]
fn counting_under_watch_loses_nothing() {
    const ROUNDS: u64 = 300;
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for id in 1..=3 {
            let scratch = &scratch;
            scope.spawn(move || {
                let mut caller = Caller::new(id, Protocol::Resp2);
                let mut done = 0;
                while done < ROUNDS {
                    typed(scratch, &mut caller, "WATCH n");
                    let now: u64 = match typed(scratch, &mut caller, "GET n") {
                        Some(Answer::Bulk(text)) => String::from_utf8_lossy(&text).parse().expect("a number"),
                        _ => 0,
                    };
                    typed(scratch, &mut caller, "MULTI");
                    typed(scratch, &mut caller, &format!("SET n {}", now + 1));
                    done += u64::from(matches!(typed(scratch, &mut caller, "EXEC"), Some(Answer::Array(_))));
                }
            });
        }
    });
    assert_eq!(shown(&scratch, &mut Caller::new(9, Protocol::Resp2), "GET n"), format!("\"{}\"", 3 * ROUNDS));
}

#[test]
fn a_script_that_only_reads_waits_for_no_lock_however_often_it_has_run() {
    const READS: &str = "for i = 1, 100 do end return redis.call('GET', KEYS[1])";
    let (scratch, mut caller) = (Scratch::new(), Caller::new(1, Protocol::Resp2));
    let read = |caller: &mut Caller| {
        caller.call(&scratch.embedder, &["EVAL", READS, "1", "k"]).map(|answer| answer.shown())
    };
    check(&scratch, &mut caller, &[("SET k 1", "OK")]);
    // The interpreter looks up from its work at each 100,000th instruction of all of them.
    (0..5000).for_each(|_| assert_eq!(read(&mut caller).as_deref(), Ok("\"1\"")));
    let writer = scratch.embedder.memory.table().begin(Mode::Write).expect("a transaction");
    writer.declare(&[(0, b"k")]).expect("the lock");
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let read = &read;
        scope.spawn(move || tell.send(read(&mut Caller::new(2, Protocol::Resp2))));
        let answer = told.recv_timeout(std::time::Duration::from_secs(5));
        drop(writer);
        assert_eq!(answer.expect("it is a reader"), Ok("\"1\"".into()));
    });
}

#[test]
fn a_scan_shows_every_key_that_stays() {
    let (scratch, mut caller) = (Scratch::new(), Caller::new(1, Protocol::Resp2));
    let stays: std::collections::BTreeSet<String> = (0..2_000).map(|key| format!("stays:{key}")).collect();
    stays.iter().for_each(|key| drop(typed(&scratch, &mut caller, &format!("SET {key} x"))));
    let (mut seen, mut cursor, mut turn) = (std::collections::BTreeSet::new(), "0".to_string(), 0);
    loop {
        let Some(Answer::Array(reply)) =
            typed(&scratch, &mut caller, &format!("SCAN {cursor} COUNT 50 MATCH stays:*"))
        else {
            panic!("SCAN answers two things");
        };
        let [Answer::Bulk(next), Answer::Array(keys)] = &reply[..] else { panic!("{reply:?}") };
        seen.extend(keys.iter().map(|key| key.shown().trim_matches('"').to_string()));
        cursor = String::from_utf8_lossy(next).into_owned();
        // The table grows while it is walked.
        (0..200).for_each(|key| drop(typed(&scratch, &mut caller, &format!("SET comes:{turn}:{key} x"))));
        turn += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, stays);
}
