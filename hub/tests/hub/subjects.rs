//! Subscriptions to patterns of tokens and to queues: what is left of them when they have ended, and messages
//! whose member has gone.

use polder_hub::receivers::Content;
use polder_hub::receivers::Receivers;
use polder_hub::subject::{self, Subject};
use polder_hub::token_listeners::note_begun;
use polder_hub::tokens::name_of;
use polder_hub::{attend, leave_subjects};
use polder_shm::Locked;
use polder_shm::layout::header;
use polder_table::{Counter, SYSTEM};

use crate::{Memory, Thread, run};

impl Thread {
    /// A client of the thread subscribes to a subject, under this number.
    fn hear_subject(&self, client: u64, sid: &'static [u8], pattern: &'static [u8], queue: &'static [u8]) {
        self.run(move |table, _| {
            attend(table).expect("room");
            let name = name_of(pattern, queue);
            run(table, |txn| subject::subscribe(txn, Subject::Token, &[&name], 1));
            note_begun(table, client, sid, &name);
        });
    }

    fn leave_subject(&self, client: u64, sid: &'static [u8], pattern: &'static [u8], queue: &'static [u8]) {
        self.run(move |table, _| {
            leave_subjects(table, client, vec![(sid.into(), name_of(pattern, queue).into())])
        });
    }

    /// Messages that its clients have heard on subjects: sid and payload.
    fn posts(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.hear(|heard| std::mem::take(&mut heard.posts))
    }
}

/// Publishes on a subject; returns how many it reaches.
fn post(memory: &Memory, subject: &[u8], payload: &[u8]) -> u64 {
    run(&memory.table, |txn| Ok(Receivers::of(txn, false, subject)?.tell_all(txn, &Content::plain(payload))))
}

fn has_shapes(memory: &Memory) -> bool {
    memory.table.segment().load(header::TOKENS) & 1 != 0
}

#[test]
fn publishers_look_for_no_pattern_once_all_have_ended() {
    let memory = Memory::new();
    let (one, other) = (memory.thread(), memory.thread());
    for round in 0_u64..3 {
        one.hear_subject(1, b"1", b"a.*", b"");
        other.hear_subject(2, b"2", b"*.b", b"");
        other.hear_subject(2, b"3", b"*.c", b"");
        assert!(has_shapes(&memory));
        assert_eq!(post(&memory, b"a.b", b"x"), 2, "round {round}");
        assert_eq!((one.posts().len(), other.posts().len()), (1, 1));
        one.leave_subject(1, b"1", b"a.*", b"");
        other.leave_subject(2, b"2", b"*.b", b"");
        one.tick();
        other.tick();
        assert!(has_shapes(&memory), "one thread has a pattern");
        assert_eq!((post(&memory, b"a.b", b"x"), post(&memory, b"a.c", b"x")), (0, 1));
        other.posts();
        other.leave_subject(2, b"3", b"*.c", b"");
        other.tick();
        assert!(!has_shapes(&memory), "no pattern is left");
    }
}

#[test]
fn the_word_stays_while_patterns_of_known_shapes_come_and_go() {
    let memory = Memory::new();
    let one = memory.thread();
    one.hear_subject(1, b"1", b"a.*", b"");
    let word = memory.table.segment().load(header::TOKENS);
    one.hear_subject(1, b"2", b"b.*", b"");
    one.leave_subject(1, b"2", b"b.*", b"");
    one.tick();
    one.hear_subject(1, b"3", b"c.*", b"");
    assert_eq!(memory.table.segment().load(header::TOKENS), word);
    assert_eq!((post(&memory, b"b.x", b"x"), post(&memory, b"c.x", b"x")), (0, 1));
    // The list is not needed, so another thread may have it locked: by its bucket, so that the record of the pattern
    // must lie in another one.
    const PATTERNS: [&[u8]; 8] = [b"d.*", b"e.*", b"f.*", b"g.*", b"h.*", b"i.*", b"j.*", b"k.*"];
    PATTERNS.iter().for_each(|pattern| one.hear_subject(1, b"4", pattern, b""));
    let bucket_of = |key: &[u8]| {
        let place = memory.table.inspect(SYSTEM, key).expect("readable").expect("there");
        (place.extent, place.bucket)
    };
    let is_elsewhere =
        |pattern: &&&[u8]| bucket_of(&[b"subj:n:l*:", &pattern[..1]].concat()) != bucket_of(b"subj:S");
    let pattern = *PATTERNS.iter().find(is_elsewhere).expect("one of eight lies elsewhere");
    let locker = memory.thread();
    let release = locker.hold(b"subj:S".to_vec());
    one.hear_subject(2, b"5", pattern, b"");
    assert_eq!(post(&memory, &[pattern[0], b'.', b'x'], b"x"), 2);
    release.send(()).expect("it waits");
    locker.done.recv().expect("it lives");
}

#[test]
fn the_shapes_of_dead_threads_are_swept() {
    let memory = Memory::new();
    let (one, other) = (memory.thread(), memory.thread());
    one.hear_subject(1, b"1", b"a.*", b"q");
    other.hear_subject(2, b"2", b"*", b"");
    assert_eq!(post(&memory, b"a.b", b"x"), 1);
    drop(one);
    other.tick();
    assert_eq!(post(&memory, b"a.b", b"x"), 0);
    other.leave_subject(2, b"2", b"*", b"");
    polder_testbase::until("the dead are swept", || {
        other.tick();
        !has_shapes(&memory)
    });
}

/// A transaction that subscribes twice, where all shapes are in use: the second needs the place of one that no client has any more, and the first has such
/// a shape.
#[test]
fn a_transaction_keeps_the_shapes_that_it_has_found() {
    let memory = Memory::new();
    let one = memory.thread();
    let pattern = |number: usize| -> &'static [u8] {
        let tokens: Vec<&str> = (0..7).map(|bit| if number >> bit & 1 == 0 { "a" } else { "*" }).collect();
        Box::leak(format!("{}.*", tokens.join(".")).into_bytes().into_boxed_slice())
    };
    (0..128).for_each(|number| one.hear_subject(1, b"1", pattern(number), b""));
    [0, 1].iter().for_each(|number| one.leave_subject(1, b"1", pattern(*number), b""));
    one.run(move |table, _| {
        let names = [name_of(pattern(0), b""), name_of(b"x.*", b"")];
        run(table, |txn| {
            names.iter().try_for_each(|name| subject::subscribe(txn, Subject::Token, &[name], 1))
        });
        names.iter().for_each(|name| note_begun(table, 1, b"2", name));
    });
    assert_eq!((post(&memory, b"x.y", b"x"), post(&memory, b"a.a.a.a.a.a.a.b", b"x")), (1, 127));
    let heard = one.posts();
    let own: Vec<_> = heard.iter().filter(|(sid, _)| sid == b"2").collect();
    assert_eq!(own.len(), 2, "{heard:?}");
}

#[test]
fn members_of_a_queue_take_turns_over_all_their_patterns() {
    let memory = Memory::new();
    let one = memory.thread();
    for (sid, pattern) in [(&b"1"[..], &b"a.b"[..]), (b"2", b"a.*"), (b"3", b">"), (b"4", b"x")] {
        one.hear_subject(1, sid, pattern, b"q");
    }
    (0..9).for_each(|_| assert_eq!(post(&memory, b"a.b", b"x"), 1));
    let heard = one.posts();
    assert_eq!(heard.len(), 9);
    for sid in [b"1", b"2", b"3"] {
        assert_eq!(heard.iter().filter(|(heard, _)| heard == sid).count(), 3, "{sid:?}");
    }
}

#[test]
fn a_message_whose_member_has_left_is_passed_on_even_if_a_lock_is_held_then() {
    let memory = Memory::new();
    let (one, other) = (memory.thread(), memory.thread());
    one.hear_subject(1, b"1", b"jobs.*", b"q");
    assert_eq!(post(&memory, b"jobs.a", b"1"), 1);
    assert_eq!(post(&memory, b"jobs.a", b"2"), 1);
    other.hear_subject(2, b"2", b"jobs.*", b"q");
    one.leave_subject(1, b"1", b"jobs.*", b"q");
    let last = other.run(|table, _| table.seat().expect("a seat").index());
    let seat = memory.table.seat().expect("a seat");
    assert!(matches!(seat.lock(memory.table.segment().inbox_lock(last), None), Ok(Locked::Ours(_))));
    assert!(one.posts().is_empty() && other.posts().is_empty());
    seat.rollback();
    one.tick();
    let payloads: Vec<Vec<u8>> = other.posts().into_iter().map(|(_, payload)| payload).collect();
    assert_eq!(payloads, [b"1", b"2"]);
    assert_eq!(memory.table.counter(Counter::QueuedLost), 0);
}

#[test]
fn a_message_to_a_queue_that_has_no_member_any_more_is_counted() {
    let memory = Memory::new();
    let (one, other) = (memory.thread(), memory.thread());
    one.hear_subject(1, b"1", b"jobs", b"q");
    assert_eq!(post(&memory, b"jobs", b"1"), 1);
    one.leave_subject(1, b"1", b"jobs", b"q");
    assert!(one.posts().is_empty());
    assert_eq!(memory.table.counter(Counter::QueuedLost), 1);
    // It has one try: the second thread has lost its member, too.
    one.hear_subject(1, b"1", b"jobs", b"q");
    assert_eq!(post(&memory, b"jobs", b"2"), 1);
    other.hear_subject(2, b"2", b"jobs", b"q");
    one.leave_subject(1, b"1", b"jobs", b"q");
    assert!(one.posts().is_empty());
    other.leave_subject(2, b"2", b"jobs", b"q");
    assert!(other.posts().is_empty());
    assert_eq!(memory.table.counter(Counter::QueuedLost), 2);
}
