//! A call is counted once, however often it had to be run.
use std::sync::mpsc;

use polder_engine::{Memory, Progress, Session};
use polder_shm::Locked;
use polder_shm::layout::ROOTS_AT;
use polder_testkit::answer::Answer;
use polder_testkit::arguments::split;
use polder_testkit::caller::{Caller, Embedder};
use polder_testkit::gather::Gather;
use polder_testkit::scratch::Scratch;

/// The lock of the map of databases, which a FLUSHDB takes at its end.
const MAP_LOCK: u64 = ROOTS_AT;

/// Runs a command of a client who waits a little for locks, and no longer.
fn call(embedder: &Embedder, session: &mut Session, line: &str) -> Progress {
    let words = split(line).unwrap();
    let args: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    embedder.memory.execute(session, &embedder.host, &args, &mut Gather::new(session.protocol))
}

/// Runs `work` while another thread holds the lock at `offset`.
fn while_locked(memory: &Memory, offset: u64, work: impl FnOnce()) {
    let (held, is_held) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let seat = memory.table().seat().unwrap();
            assert!(matches!(seat.lock(offset, None), Ok(Locked::Ours(_))));
            held.send(()).unwrap();
            let _ = is_done.recv();
            seat.rollback();
        });
        is_held.recv().unwrap();
        work();
        drop(done);
    });
}

#[test]
fn the_commands_of_an_exec_that_had_to_wait_are_counted_once() {
    let scratch = Scratch::new();
    let embedder = &scratch.embedder;
    let mut session = Session { patience_us: 100, ..Session::default() };
    for line in ["SET key text", "MULTI", "INCR key", "SET other 1", "FLUSHDB"] {
        assert_eq!(call(embedder, &mut session, line), Progress::Answered);
    }
    while_locked(&embedder.memory, MAP_LOCK, || {
        (0..3).for_each(|_| assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Busy));
    });
    assert_eq!(call(embedder, &mut session, "EXEC"), Progress::Answered);
    let info = Caller::new(2, session.protocol).call(embedder, &split("INFO commandstats errorstats").unwrap());
    let Ok(Answer::Bulk(info)) = info else { panic!("{info:?}") };
    let info = String::from_utf8_lossy(&info).into_owned();
    for (name, calls, failed) in [("incr", 1, 1), ("set", 2, 0), ("flushdb", 1, 0), ("exec", 1, 0)] {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).unwrap_or_default();
        assert!(line.contains(&format!(":calls={calls},")) && line.ends_with(&format!("failed_calls={failed}")), "{line}");
    }
    assert!(info.contains("errorstat_ERR:count=1\r\n"), "{info}");
}
