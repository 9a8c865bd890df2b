//! What a call takes from the heap while nothing listens: a change log that is off costs no text and no list of words.
use polder_engine::{Progress, Session};
use polder_testkit::arguments::split;
use polder_testkit::caller::Quiet;
use polder_testkit::scratch::Scratch;

/// Allocations of the cheapest of many calls.
fn least(scratch: &Scratch, line: &str) -> u64 {
    let words = split(line).expect("words");
    let args: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    let mut session = Session::default();
    let mut reply = Quiet::default();
    let once = |session: &mut Session, reply: &mut Quiet| {
        let mut progress = None;
        let taken = allocation_counter::measure(|| {
            progress = Some(scratch.embedder.memory.execute(session, &scratch.embedder.host, &args, reply))
        });
        assert_eq!(progress, Some(Progress::Answered));
        taken.count_total
    };
    (0..20).map(|_| once(&mut session, &mut reply)).min().expect("some")
}

#[test]
fn a_log_that_is_off_takes_nothing_from_the_heap() {
    let scratch = Scratch::new();
    for line in [
        "SET k v",
        "ZADD z 1 a 2 b 3 c",
        "EVAL \"for i=1,99 do redis.call('ZADD','q',i,i) redis.call('RPUSH','l',i) end\" 0",
        "SET s 1",
    ] {
        least(&scratch, line);
    }
    // What is left at ZPOPMIN is its reply's.
    let calls = [
        ("EXPIRE k 100000", 0),
        ("ZADD z 1 a", 0),
        ("ZINCRBY z 1 a", 0),
        ("ZPOPMIN q 2", 1),
        ("LPOP l 2", 0),
    ];
    let taken = calls.map(|(line, most)| (line, least(&scratch, line), most));
    assert!(
        taken.iter().all(|(_, taken, most)| taken <= most),
        "call, allocations, how many there may be: {taken:?}"
    );
}
