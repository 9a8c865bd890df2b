//! The change log: what is committed can be followed, in order, without a gap.

use polder_engine::{Changed, Keys, Memory, Options, Position};

/// A memory of its own, removed at the end.
struct Scratch(Memory, String);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let segment = format!("shm:polder-changes-{name}-{}", std::process::id());
        let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
        let memory = Memory::attach(&options).expect("a segment");
        memory.table().log().turn_on().expect("a log");
        Scratch(memory, segment)
    }

    /// All that the log holds, with a bar for each end of a line.
    fn stream(&self) -> String {
        let log = self.0.table().log();
        log.merge().expect("room");
        let mut bytes = Vec::new();
        log.read(log.range().0, &mut bytes, usize::MAX).expect("nothing is trimmed");
        String::from_utf8_lossy(&bytes).replace("\r\n", "|")
    }

    fn is_whole(&self) {
        assert!(
            self.0.table().verify().expect("readable").findings.is_empty(),
            "{:?}",
            self.0.table().verify()
        );
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.1);
    }
}

#[test]
fn typed_calls_are_told_as_commands() {
    let scratch = Scratch::new("typed");
    let cache = scratch.0.database(3);
    cache.set(b"a", b"1").expect("room");
    assert_eq!(cache.incrby(b"a", 4).expect("a number"), 5);
    cache.del(&[b"a"]).expect("removable");
    cache.del(&[b"a"]).expect("removable");
    let expect = "*2|$6|SELECT|$1|3|*3|$3|SET|$1|a|$1|1|*3|$6|INCRBY|$1|a|$1|4|*2|$3|DEL|$1|a|";
    assert_eq!(scratch.stream(), expect);
    scratch.is_whole();
}

#[test]
fn several_keys_of_one_transaction_stand_between_multi_and_exec() {
    let scratch = Scratch::new("multi");
    let both = |number| {
        let keys: [&[u8]; 2] = [b"a", b"b"];
        scratch
            .0
            .database(number)
            .transaction(&keys, |keys| keys.set(b"a", b"1").and_then(|()| keys.set(b"b", b"2")))
            .expect("room");
    };
    both(0);
    both(0);
    let once = "*1|$5|MULTI|*3|$3|SET|$1|a|$1|1|*3|$3|SET|$1|b|$1|2|*1|$4|EXEC|";
    assert_eq!(scratch.stream(), format!("*2|$6|SELECT|$1|0|{once}{once}"));
}

#[test]
fn a_reader_that_comes_too_late_is_told_so() {
    let scratch = Scratch::new("late");
    let (cache, log) = (scratch.0.database(0), scratch.0.table().log());
    let identity = log.identity();
    let value = vec![b'x'; 5_000];
    for _ in 0..1_000 {
        cache.set(b"key", &value).expect("room");
        log.merge().expect("room");
    }
    let (first, end) = log.range();
    assert!(first > 0 && end - first < 1_200_000, "{first} {end}");
    assert!(log.read(0, &mut Vec::new(), 1).is_err());
    assert!(log.read(end + 1, &mut Vec::new(), 1).is_err());
    assert_eq!(log.read(end, &mut Vec::new(), 1).expect("the end"), end);
    assert_eq!(log.identity(), identity);
    scratch.is_whole();
    log.turn_off().expect("nobody is stopped");
    assert!(log.read(end, &mut Vec::new(), 1).is_err());
    assert_ne!(log.identity(), identity);
    cache.set(b"key", b"unheard").expect("room");
    log.turn_on().expect("a log");
    cache.set(b"key", b"heard").expect("room");
    assert_eq!(scratch.stream(), "*2|$6|SELECT|$1|0|*3|$3|SET|$3|key|$5|heard|");
    scratch.is_whole();
}

#[test]
fn what_threads_write_at_once_comes_in_the_order_of_each_key() {
    let scratch = Scratch::new("order");
    let (memory, log) = (&scratch.0, scratch.0.table().log());
    log.keep(64 << 20, 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let work =
                        |keys: &Keys<'_>| keys.set(b"n", (keys.number(b"n")? + 1).to_string().as_bytes());
                    memory.database(0).transaction(&[b"n"], work).expect("room");
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..500 {
                log.merge().expect("room");
            }
        });
    });
    let stream = scratch.stream();
    let numbers: Vec<u64> = stream
        .split("|$1|n|")
        .skip(1)
        .map(|rest| rest.split('|').nth(1).expect("a value").parse().expect("a number"))
        .collect();
    assert_eq!(numbers, Vec::from_iter(1..=8_000));
    scratch.is_whole();
}

#[test]
fn a_follower_goes_on_where_it_stopped() {
    let segment = format!("shm:polder-changes-follower-{}", std::process::id());
    let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
    let scratch = Scratch(Memory::attach(&options).expect("a segment"), segment);
    let memory = &scratch.0;
    memory.database(2).set(b"before", b"unheard").expect("room");
    let mut changes = memory.changes(None).expect("a log");
    memory.database(2).set(b"a", b"1").expect("room");
    let both: [&[u8]; 2] = [b"a", b"b"];
    memory
        .database(2)
        .transaction(&both, |keys| keys.set(b"a", b"2").and_then(|()| keys.set(b"b", b"3")))
        .expect("room");
    let shown = |changed: &Changed| {
        let text = |command: &polder_engine::ChangeCommand| {
            format!("{} {}", command.db, String::from_utf8_lossy(&command.words.join(&b' ')))
        };
        changed.commands.iter().map(text).collect::<Vec<_>>().join("; ")
    };
    let first = changes.next().expect("kept").expect("a change");
    assert_eq!(shown(&first), "2 SET a 1");
    assert_eq!(shown(&changes.next().expect("kept").expect("a change")), "2 SET a 2; 2 SET b 3");
    assert_eq!(changes.next().expect("kept"), None);
    let position = Position::parse(&first.position.to_string()).expect("its own text");
    assert_eq!(position, first.position);
    let mut again = memory.changes(Some(position.clone())).expect("the same stream");
    assert_eq!(shown(&again.next().expect("kept").expect("a change")), "2 SET a 2; 2 SET b 3");
    memory.stop_changes().expect("nobody is stopped");
    assert!(again.next().is_err(), "the stream has ended");
    assert!(memory.changes(Some(position)).is_err());
}

/// In a full memory, where nothing more can be merged, a follower reads what has been.
#[test]
fn a_follower_in_a_full_memory_reads_what_is_there() {
    let scratch = Scratch::new("full");
    let mut changes = scratch.0.changes(None).expect("a log");
    let (cache, log) = (scratch.0.database(0), scratch.0.table().log());
    cache.set(b"first", b"1").expect("room");
    log.merge().expect("room");
    cache.set(b"second", [b'x'; 40_000]).expect("room");
    let seat = scratch.0.table().seat().expect("a seat");
    let mut filler = Vec::new();
    for _ in 0..3 {
        while let Ok(node) = seat.make(polder_shm::node::NodeKind::Data, 16_000) {
            filler.push(node);
        }
        seat.commit(0).expect("nothing goes out of use");
    }
    let first = changes.next().expect("it is merged").expect("a change");
    assert_eq!(first.commands[0].words[1], b"first");
    assert!(changes.next().expect_err("no room for the second").to_string().contains("OOM"), "{filler:?}");
    for nodes in filler.chunks(100) {
        nodes.iter().try_for_each(|node| seat.note_old(*node, false)).expect("room in the journal");
        seat.commit(nodes.len() as u64).expect("room again");
    }
    let second = changes.next().expect("room").expect("a change");
    assert_eq!(second.commands[0].words[1], b"second");
    scratch.is_whole();
}

/// A follower holds up no writer: one that is too slow for what is kept is told so, with the place that it has lost.
#[test]
fn a_follower_that_is_too_slow_is_told_that_it_has_lost_its_place() {
    let scratch = Scratch::new("slow");
    let mut changes = scratch.0.changes(None).expect("a log");
    let (cache, log, value) = (scratch.0.database(0), scratch.0.table().log(), vec![b'x'; 5_000]);
    cache.set(b"key", b"first").expect("room");
    changes.next().expect("kept").expect("a change");
    let place = changes.position().offset;
    for _ in 0..500 {
        cache.set(b"key", &value).expect("room");
        log.merge().expect("room");
    }
    let told = changes.next().expect_err("its place is trimmed").to_string();
    assert!(
        told.contains(&format!("not kept from offset {place} on")) && told.contains("begin with a copy"),
        "{told}"
    );
    assert_eq!(changes.position().offset, place);
}

/// Writes more to a memory than a log keeps without a follower that needs it.
fn flood(scratch: &Scratch) {
    let value = vec![b'x'; 5_000];
    for _ in 0..500 {
        scratch.0.database(0).set(b"key", &value).expect("room");
        scratch.0.table().log().merge().expect("room");
    }
}

#[test]
fn a_follower_with_a_name_finds_all_that_came_while_it_was_away() {
    let scratch = Scratch::new("named");
    let begin = scratch.0.changes(None).expect("a log").position().clone();
    assert_eq!(scratch.0.follower("search").expect("readable"), None);
    scratch.0.keep_follower("search", &begin).expect("kept");
    flood(&scratch);
    let options = Options { segment: scratch.1.clone(), ceiling: 64 << 20, ..Options::default() };
    let again = Memory::attach(&options).expect("the same memory");
    assert_eq!(again.follower("search").expect("readable"), Some(begin.clone()));
    let mut changes = again.changes(Some(begin.clone())).expect("kept for it");
    let mut count = 0;
    while changes.next().expect("kept for it").is_some() {
        count += 1;
    }
    assert_eq!(count, 500);
    let lag = |memory: &Memory| memory.followers().expect("readable")[0].lag;
    assert!(lag(&again).expect("kept") > 2_000_000);
    again.keep_follower("search", changes.position()).expect("kept");
    assert_eq!(lag(&again), Some(0));
    // What is behind it is not kept any longer.
    flood(&scratch);
    assert!(again.changes(Some(begin.clone())).and_then(|mut changes| changes.next()).is_err());
    assert!(again.keep_follower("search", &begin).is_err());
    let (first, end) = scratch.0.table().log().range();
    assert!(end - first < 4_000_000, "{first} {end}");
    scratch.is_whole();
}

#[test]
fn nothing_is_kept_for_a_follower_that_is_forgotten() {
    let scratch = Scratch::new("forgotten");
    let begin = scratch.0.changes(None).expect("a log").position().clone();
    for number in 0..63 {
        scratch.0.keep_follower(format!("follower {number}"), &begin).expect("a slot");
    }
    let refused = scratch.0.keep_follower("one more", &begin).expect_err("no slot");
    assert!(refused.to_string().contains("63 followers"), "{refused}");
    assert_eq!(scratch.0.followers().expect("readable").len(), 63);
    for number in 0..63 {
        assert!(scratch.0.forget_follower(format!("follower {number}")).expect("room"));
    }
    assert!(!scratch.0.forget_follower("follower 7").expect("room"));
    assert_eq!(scratch.0.followers().expect("readable"), []);
    flood(&scratch);
    assert!(scratch.0.changes(Some(begin)).and_then(|mut changes| changes.next()).is_err());
    scratch.is_whole();
}

#[test]
fn a_follower_with_a_name_learns_that_its_stream_has_ended() {
    let scratch = Scratch::new("ended");
    let begin = scratch.0.changes(None).expect("a log").position().clone();
    scratch.0.keep_follower("search", &begin).expect("kept");
    scratch.0.stop_changes().expect("no thread is stopped");
    let followers = scratch.0.followers().expect("readable");
    assert_eq!((&followers[0].position, followers[0].lag), (&begin, None));
    let now = scratch.0.changes(None).expect("another stream").position().clone();
    assert_eq!(scratch.0.follower("search").expect("readable"), Some(begin.clone()));
    assert!(scratch.0.changes(Some(begin.clone())).is_err());
    assert!(
        scratch
            .0
            .keep_follower("search", &begin)
            .expect_err("the stream has ended")
            .to_string()
            .contains("copy")
    );
    assert!((0..64).all(|slot| scratch.0.table().log().held(slot).is_none()));
    scratch.0.keep_follower("search", &now).expect("kept");
    assert_eq!(scratch.0.followers().expect("readable")[0].lag, Some(0));
    scratch.is_whole();
}

/// A commit that had no room for its record has ended the stream. A follower that begins in the next one waits for its end: it is in neither the
/// stream nor, before that, in the data.
#[test]
fn a_follower_waits_for_a_commit_that_is_in_no_stream() {
    let scratch = Scratch::new("unheard");
    scratch.0.changes(None).expect("a follower");
    let (locked, go_on) = (std::sync::Barrier::new(2), std::time::Duration::from_millis(300));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let table = scratch.0.table();
            let txn = table.begin(polder_table::Mode::Write).expect("a transaction");
            txn.remove(0, b"k", polder_table::Replaces::Whole).expect("its lock");
            table.seat().expect("a seat").break_log();
            locked.wait();
            std::thread::sleep(go_on);
        });
        locked.wait();
        let begun = std::time::Instant::now();
        scratch.0.changes(None).expect("a follower");
        assert!(begun.elapsed() >= go_on / 2, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_popped_member_is_told_by_name_and_the_last_one_as_the_end_of_its_set() {
    let scratch = Scratch::new("popped");
    let mut caller = polder_engine::Caller::new(&std::sync::Arc::new(
        Memory::attach(&Options { segment: scratch.1.clone(), ceiling: 64 << 20, ..Options::default() })
            .expect("a segment"),
    ));
    let mut ask = |words: &[&str]| format!("{:?}", caller.run(words).expect("a reply").item());
    ask(&["SADD", "set", "a", "b"]);
    let popped = ask(&["SPOP", "set"]);
    let left = ask(&["SPOP", "set"]);
    let member = if popped == "Bulk([97])" { "a" } else { "b" };
    assert_ne!(popped, left);
    let expect = format!(
        "*2|$6|SELECT|$1|0|*4|$4|SADD|$3|set|$1|a|$1|b|*3|$4|SREM|$3|set|$1|{member}|*2|$3|DEL|$3|set|"
    );
    assert_eq!(scratch.stream(), expect);
    scratch.is_whole();
}
