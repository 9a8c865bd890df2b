//! A call is counted once, however often it had to be run.
use polder_base::Protocol;
use polder_engine::{Clock, Memory, Progress, Session};
use polder_shm::Locked;
use polder_shm::layout::ROOTS_AT;
use polder_table::{Counter, Mode};
use polder_testkit::answer::Answer;
use polder_testkit::arguments::split;
use polder_testkit::caller::{Caller, Embedder};
use polder_testkit::gather::Gather;
use polder_testkit::held::while_held;
use polder_testkit::scratch::Scratch;
use polder_wire::Output;

/// The lock of the map of databases, which a FLUSHDB takes at its end.
const MAP_LOCK: u64 = ROOTS_AT;

/// Runs a command of a client that waits a little for locks, and no longer.
fn call(embedder: &Embedder, session: &mut Session, line: &str) -> Progress {
    let words = split(line).unwrap();
    let args: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    embedder.memory.execute(session, &embedder.host, &args, &mut Gather::new(session.protocol))
}

/// Runs `work` while another thread holds the lock at `offset`.
fn while_locked(memory: &Memory, offset: u64, work: impl FnOnce()) {
    let hold = |wait: &dyn Fn()| {
        let seat = memory.table().seat().unwrap();
        assert!(matches!(seat.lock(offset, None), Ok(Locked::Ours(_))));
        wait();
        seat.rollback();
    };
    while_held(hold, work);
}

#[test]
fn the_commands_of_an_exec_that_had_to_wait_are_counted_once() {
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session { clock: Clock { patience_us: 100, ..Clock::default() }, ..Session::default() };
    for line in ["SET key text", "MULTI", "INCR key", "SET other 1", "FLUSHDB"] {
        assert_eq!(call(embedder, &mut session, line), Progress::Answered);
    }
    while_locked(&embedder.memory, MAP_LOCK, || {
        (0..3).for_each(|_| assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Busy));
    });
    assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Answered);
    let info =
        Caller::new(2, session.protocol).call(embedder, &split("INFO commandstats errorstats").unwrap());
    let Ok(Answer::Bulk(info)) = info else { panic!("{info:?}") };
    let info = String::from_utf8_lossy(&info).into_owned();
    for (name, calls, failed) in [("incr", 1, 1), ("set", 2, 0), ("flushdb", 1, 0), ("exec", 1, 0)] {
        let line =
            info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).unwrap_or_default();
        assert!(
            line.contains(&format!(":calls={calls},")) && line.ends_with(&format!("failed_calls={failed}")),
            "{line}"
        );
    }
    assert!(info.contains("errorstat_ERR:count=1\r\n"), "{info}");
}

/// Keys that were found, and keys that were not, so far.
fn looks(embedder: &Embedder) -> (u64, u64) {
    let table = embedder.memory.table();
    (table.counter(Counter::Hits), table.counter(Counter::Misses))
}

#[test]
fn what_is_read_in_an_exec_that_had_to_wait_is_found_once() {
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session { clock: Clock { patience_us: 100, ..Clock::default() }, ..Session::default() };
    for line in ["SET key text", "MULTI", "GET key", "GET none", "FLUSHDB"] {
        assert_eq!(call(embedder, &mut session, line), Progress::Answered);
    }
    let before = looks(embedder);
    while_locked(&embedder.memory, MAP_LOCK, || {
        (0..3).for_each(|_| assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Busy));
    });
    assert_eq!(looks(embedder), before);
    assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Answered);
    assert_eq!(looks(embedder), (before.0 + 1, before.1 + 1));
}

/// Runs `work` while another thread holds a key.
fn while_key_held(memory: &Memory, key: &[u8], work: impl FnOnce()) {
    let hold = |wait: &dyn Fn()| {
        let txn = memory.table().begin(Mode::Write).unwrap();
        txn.declare(&[(0, key)]).unwrap();
        wait();
    };
    while_held(hold, work);
}

#[test]
fn scripts_that_share_a_transaction_and_had_to_wait_are_counted_once() {
    const SCRIPTS: usize = 6;
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session { clock: Clock { patience_us: 100, ..Clock::default() }, ..Session::default() };
    assert_eq!(call(embedder, &mut session, "SET text words"), Progress::Answered);
    let script: &[u8] =
        b"redis.call('INCR', KEYS[1]) redis.pcall('INCR', 'text') return redis.call('INCR', 'other')";
    let words: [&[u8]; 4] = [b"EVAL", script, b"1", b"key"];
    let calls = [&words[..]; SCRIPTS];
    let mut output = Output::new(Protocol::Resp2);
    while_key_held(&embedder.memory, b"other", || {
        for _ in 0..3 {
            assert_eq!(
                embedder.memory.execute_together(&mut session, &embedder.host, &calls, &mut output),
                (0, Progress::Busy)
            );
            assert!(output.is_empty());
        }
    });
    let mut done = 0;
    while done < SCRIPTS {
        let (more, progress) =
            embedder.memory.execute_together(&mut session, &embedder.host, &calls[done..], &mut output);
        assert!(more > 0 && progress == Progress::Answered);
        done += more;
    }
    let info =
        Caller::new(2, session.protocol).call(embedder, &split("INFO commandstats errorstats").unwrap());
    let Ok(Answer::Bulk(info)) = info else { panic!("{info:?}") };
    let info = String::from_utf8_lossy(&info).into_owned();
    for (name, calls, failed) in [("eval", SCRIPTS, 0), ("incr", 3 * SCRIPTS, SCRIPTS)] {
        let line =
            info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).unwrap_or_default();
        assert!(
            line.contains(&format!(":calls={calls},")) && line.ends_with(&format!("failed_calls={failed}")),
            "{line}"
        );
    }
    assert!(info.contains(&format!("errorstat_ERR:count={SCRIPTS}\r\n")), "{info}");
}

/// What INFO says of calls.
fn command_statistics(embedder: &Embedder) -> String {
    let info = Caller::new(2, Protocol::Resp2).call(embedder, &split("INFO commandstats").unwrap());
    let Ok(Answer::Bulk(info)) = info else { panic!("{info:?}") };
    String::from_utf8_lossy(&info).into_owned()
}

/// How often a command has been called.
fn calls_of(embedder: &Embedder, name: &str) -> usize {
    let info = command_statistics(embedder);
    let calls = info.split(&format!("cmdstat_{name}:calls=")).nth(1).and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
}

/// Checks how often commands have been called, and have failed.
#[track_caller]
fn check_calls(embedder: &Embedder, wanted: &[(&str, usize, usize)]) {
    let info = command_statistics(embedder);
    for (name, calls, failed) in wanted {
        let line =
            info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).unwrap_or_default();
        assert!(
            line.contains(&format!(":calls={calls},")) && line.ends_with(&format!("failed_calls={failed}")),
            "{name}: {line}"
        );
    }
}

#[test]
fn what_a_script_calls_that_had_to_wait_is_counted_once() {
    const SCRIPT: &str = r#"EVAL "redis.call('INCR', 'mine') redis.pcall('INCR', 'text') return redis.call('INCR', 'other')" 0"#;
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session { clock: Clock { patience_us: 100, ..Clock::default() }, ..Session::default() };
    assert_eq!(call(embedder, &mut session, "SET text words"), Progress::Answered);
    while_key_held(&embedder.memory, b"other", || {
        (0..3).for_each(|_| assert_eq!(call(embedder, &mut session, SCRIPT), Progress::Busy));
    });
    assert_eq!(call(embedder, &mut session, SCRIPT), Progress::Answered);
    check_calls(embedder, &[("eval", 1, 0), ("incr", 3, 1)]);
    for line in ["MULTI", "INCR key", SCRIPT, SCRIPT] {
        assert_eq!(call(embedder, &mut session, line), Progress::Answered);
    }
    while_key_held(&embedder.memory, b"other", || {
        (0..3).for_each(|_| assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Busy));
    });
    assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Answered);
    check_calls(embedder, &[("eval", 3, 0), ("incr", 10, 3), ("exec", 1, 0)]);
}

#[test]
fn what_was_counted_of_a_call_that_is_never_made_again_is_not_taken_off_the_next() {
    const OTHER: &str = r#"EVAL "redis.call('INCR', 'mine') return redis.call('INCR', 'mine')" 0"#;
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session { clock: Clock { patience_us: 100, ..Clock::default() }, ..Session::default() };
    while_key_held(&embedder.memory, b"other", || {
        // One of them shares no bucket with what is held, and gets as far as that.
        for key in 0..8 {
            let script = format!(
                r#"EVAL "redis.call('INCR', 'mine{key}') redis.call('INCR', 'mine{key}') return redis.call('INCR', 'other')" 0"#
            );
            (0..3).for_each(|_| assert_eq!(call(embedder, &mut session, &script), Progress::Busy));
        }
    });
    let before = calls_of(embedder, "incr");
    assert!(before > 0);
    assert_eq!(call(embedder, &mut session, OTHER), Progress::Answered);
    check_calls(embedder, &[("eval", 1, 0), ("incr", before + 2, 0)]);
    // What was counted of the calls of several EXECs, of which one is not made.
    session.tally.counted_queued = 2;
    for line in ["MULTI", "NOSUCH", "EXEC", "MULTI", "INCR key", "EXEC"] {
        assert_eq!(call(embedder, &mut session, line), Progress::Answered);
    }
    check_calls(embedder, &[("incr", before + 3, 0), ("exec", 2, 1)]);
}

#[test]
fn hits_and_misses_are_counted_as_in_redis() {
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session::default();
    for (line, hits, misses) in [
        ("GET s", 1, 0),
        ("MGET s none", 1, 1),
        ("GETSET s v", 1, 0),
        ("GETSET none v", 0, 1),
        ("GETDEL none", 0, 1),
        ("GETEX s", 1, 0),
        ("SET s v GET", 1, 0),
        ("SET none v GET", 0, 1),
        ("SET l v GET", 1, 0),
        ("SET s v", 0, 0),
        ("SET s v XX", 0, 0),
        ("APPEND s v", 0, 0),
        ("COPY s t", 1, 0),
        ("SORT l ALPHA", 1, 0),
        ("SINTERSTORE t st none", 1, 1),
        ("ZUNIONSTORE t 2 z none", 1, 1),
        ("ZRANGESTORE t none 0 -1", 0, 1),
        ("BITOP AND t s none", 1, 1),
        ("TOUCH s none", 1, 1),
        ("BITFIELD s GET u8 0", 1, 0),
        ("BITFIELD s SET u8 0 65", 0, 0),
        ("XACK x g 1-1", 1, 0),
        ("LPOP none", 0, 0),
    ] {
        for setup in [
            "FLUSHALL",
            "SET s v",
            "RPUSH l b a",
            "SADD st 1",
            "ZADD z 1 a",
            "XADD x 1-1 f v",
            "XGROUP CREATE x g 0",
        ] {
            call(embedder, &mut session, setup);
        }
        let before = looks(embedder);
        call(embedder, &mut session, line);
        assert_eq!(looks(embedder), (before.0 + hits, before.1 + misses), "{line}");
    }
}

#[test]
fn keys_with_fields_that_expire_are_counted() {
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session::default();
    for (line, count) in [
        ("HSET h f v g v", 0),
        ("HEXPIRE h 1000 FIELDS 1 f", 1),
        ("HEXPIRE h 1000 FIELDS 1 g", 1),
        ("HSET i f v", 1),
        ("HPEXPIRE i 100000 FIELDS 1 f", 2),
        ("RENAME i j", 2),
        ("COPY j k", 3),
        ("EXPIRE k 1000", 3),
        ("HPERSIST h FIELDS 1 f", 3),
        ("HPERSIST h FIELDS 1 g", 2),
        ("HDEL j f", 1),
        ("SET k text", 0),
        ("HSETEX m EX 1000 FIELDS 1 f v", 1),
        ("HPEXPIRE m 0 FIELDS 1 f", 0),
        ("HSETEX m EX 1000 FIELDS 1 f v", 1),
        ("FLUSHDB", 0),
    ] {
        call(embedder, &mut session, line);
        assert_eq!(embedder.memory.table().keys_with_field_expiry(0), count, "{line}");
    }
}
