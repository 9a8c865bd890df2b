//! Threads that wait and listen, each with a seat of its own: which of them are woken, and what
//! happens after failures.

mod subjects;

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_hub::query::{Asker, Replies};
use polder_hub::queue::{self, Place};
use polder_hub::receivers;
use polder_hub::subject::{self, Subject};
use polder_hub::{
    Delivery, MessageSink, SINK, attend, hear, monitor, note_subscription, query, record, tick, track,
};
use polder_shm::layout::{interest, seat};
use polder_shm::{Locked, Seat, Segment, SegmentName, SegmentOptions};
use polder_table::{Change, ChangeSink, CommitView, Mode, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, Value};

/// A segment for one test.
struct Memory {
    name: SegmentName,
    table: Arc<Table>,
}

impl Memory {
    fn new() -> Memory {
        Memory::with(&SINK)
    }

    fn with(sink: &'static dyn ChangeSink) -> Memory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let text =
            format!("shm:polder-test-{}-hub-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let name: SegmentName = text.parse().expect("a name");
        let options = SegmentOptions { ceiling: 1 << 28, ..SegmentOptions::default() };
        let table = Arc::new(Table::over(Segment::create(&name, &options).expect("a segment")));
        table.listen(sink);
        Memory { name, table }
    }

    fn thread(&self) -> Thread {
        let (jobs, received) = channel::<Job>();
        let (tell, done) = channel();
        let table = self.table.clone();
        let handle = std::thread::spawn(move || {
            let mut heard = Heard::default();
            for job in received {
                job(&table, &mut heard);
                tell.send(()).expect("a thread waits");
            }
        });
        Thread { jobs: Some(jobs), done, handle: Some(handle) }
    }

    /// Two threads whose clients 1 and 2 wait for the list, in this order.
    fn two_waiting_clients(&self) -> (Thread, Thread) {
        let (one, other) = (self.thread(), self.thread());
        one.wait(1);
        other.wait(2);
        (one, other)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let report = self.table.verify().expect("a seat");
            assert!(report.is_clean(), "{report}");
        }
        let _ = Segment::remove(&self.name);
    }
}

type Job = Box<dyn FnOnce(&Table, &mut Heard) + Send>;

/// What a thread's clients have been told.
#[derive(Default)]
struct Heard {
    retried: Vec<u64>,
    messages: Vec<(Vec<u64>, Vec<u8>)>,
    missed: Vec<u64>,
    invalidated: Vec<Option<usize>>,
    asked: Vec<Asker>,
    posts: Vec<(Vec<u8>, Vec<u8>)>,
}

impl MessageSink for Heard {
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>) {
        if let Delivery::Message { payload, .. } = delivery {
            self.messages.push((clients.to_vec(), payload.to_vec()));
        }
        if let Delivery::Post { sid, payload, .. } = delivery {
            clients.iter().for_each(|_| self.posts.push((sid.to_vec(), payload.to_vec())));
        }
        if let Delivery::Invalidation { keys, .. } = delivery {
            self.invalidated.push(keys.map(<[_]>::len));
        }
    }

    fn retry(&mut self, client: u64) {
        self.retried.push(client);
    }

    fn knows(&self, _client: u64) -> bool {
        true
    }

    fn missed(&mut self, clients: &[u64]) {
        self.missed.extend_from_slice(clients);
    }

    fn asked(&mut self, asker: Asker, _words: &[&[u8]]) {
        self.asked.push(asker);
    }
}

/// A thread that does what it is told, one thing after the other.
struct Thread {
    jobs: Option<Sender<Job>>,
    done: Receiver<()>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    fn run<R: Send + 'static>(&self, work: impl FnOnce(&Table, &mut Heard) -> R + Send + 'static) -> R {
        let (tell, told) = channel();
        let job: Job = Box::new(move |table, heard| tell.send(work(table, heard)).expect("a thread waits"));
        self.jobs.as_ref().expect("it has not ended").send(job).expect("it lives");
        self.done.recv().expect("it has not panicked");
        told.recv().expect("it has answered")
    }

    /// A client of the thread waits for the list.
    fn wait(&self, client: u64) -> u64 {
        self.wait_for(client, b"list")
    }

    /// A client of the thread waits for what will be a list.
    fn wait_for(&self, client: u64, key: &[u8]) -> u64 {
        let key = key.to_vec();
        self.run(move |table, _| {
            attend(table).expect("room");
            let place =
                Place { ticket: queue::draw_ticket(table), kind: Kind::List, db: 0, keys: vec![key.clone()] };
            let ticket = place.ticket;
            run(table, |txn| {
                txn.find(0, &key)?;
                queue::enlist(txn, &place)
            });
            queue::join(table, client, place);
            ticket
        })
    }

    /// A client of the thread subscribes to the news.
    fn subscribe(&self, client: u64) {
        self.run(move |table, _| {
            attend(table).expect("room");
            run(table, |txn| subject::subscribe(txn, Subject::Channel, &[b"news"], 1));
            note_subscription(table, client, Subject::Channel, b"news", true);
        });
    }

    /// Reads all messages, and returns something of what its clients were told.
    fn hear<R: Send + 'static>(&self, take: impl FnOnce(&mut Heard) -> R + Send + 'static) -> R {
        self.run(|table, heard| {
            while hear(table, heard) {}
            take(heard)
        })
    }

    /// Which clients were woken by what has come.
    fn retried(&self) -> Vec<u64> {
        self.hear(|heard| std::mem::take(&mut heard.retried))
    }

    /// Locks a key of the hidden database until it is told to end that; then `done` says so.
    fn hold(&self, key: Vec<u8>) -> Sender<()> {
        let (locked, is_locked) = channel();
        let (release, released) = channel::<()>();
        let job: Job = Box::new(move |table, _| {
            let txn = table.begin(Mode::Write).expect("a seat");
            txn.peek(SYSTEM, &key).expect("nobody is in the way");
            locked.send(()).expect("a thread waits");
            released.recv().expect("an end");
        });
        self.jobs.as_ref().expect("it lives").send(job).expect("it lives");
        is_locked.recv().expect("locked");
        release
    }

    fn tick(&self) -> Vec<u64> {
        self.run(|table, heard| {
            tick(table, heard);
            std::mem::take(&mut heard.retried)
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

fn run<R>(table: &Table, work: impl Fn(&Txn<'_>) -> Result<R, Stop>) -> R {
    let txn = table.begin(Mode::Write).expect("a seat");
    loop {
        match work(&txn).and_then(|done| txn.commit().map(|()| done)) {
            Ok(done) => return done,
            Err(Stop::Retry) => txn.abort(),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn write_list(table: &Table, db: u16) {
    run(table, |txn| {
        txn.write(db, b"list", &New::of(Kind::List, Value::Packed(b"\0")), Replaces::Whole)?;
        txn.note_change('l', "lpush", db, b"list");
        Ok(())
    });
}

/// Publishes news; returns to how many clients.
fn publish(memory: &Memory, payload: &[u8]) -> u64 {
    run(&memory.table, |txn| receivers::publish(txn, false, b"news", payload))
}

fn remove_list(table: &Table) {
    run(table, |txn| txn.remove(0, b"list", Replaces::Whole));
}

#[test]
fn clients_are_served_in_turn_while_elements_come_and_go() {
    let memory = Memory::new();
    let (one, other) = (memory.thread(), memory.thread());
    one.wait(1);
    one.wait(2);
    other.wait(3);
    // The list holds something at each of the other's looks, but another client is first each time.
    write_list(&memory.table, 0);
    assert!(other.tick().is_empty());
    assert_eq!(one.retried(), [1]);
    one.run(|table, _| queue::leave(table, 1));
    assert!(other.tick().is_empty(), "the first one was served: nobody is stopped");
    assert_eq!(one.retried(), [2], "who left has woken the next");
    assert!(other.tick().is_empty());
    assert_eq!(other.retried(), [3], "the second one does not come");
    end(&memory, &[(&one, 2), (&other, 3)]);
}

#[test]
fn a_late_client_is_late_until_its_call_is_run_again_whatever_else_its_thread_does() {
    let memory = Memory::new();
    let (one, other) = memory.two_waiting_clients();
    write_list(&memory.table, 0);
    assert!(other.tick().is_empty());
    other.tick();
    assert_eq!(other.retried(), [2], "the first one does not come");
    // The marked client's thread looks after its records and gets the message, but does not run the
    // call again.
    (0..3).for_each(|_| assert!(one.tick().contains(&1)));
    remove_list(&memory.table);
    write_list(&memory.table, 0);
    assert_eq!(other.retried(), [2], "nobody waits for him again");
    one.run(|table, _| queue::came(table, 1));
    remove_list(&memory.table);
    one.retried();
    write_list(&memory.table, 0);
    assert_eq!((one.retried(), other.retried()), (vec![1], vec![]), "he is there again, and was the first");
    end(&memory, &[(&one, 1), (&other, 2)]);
}

#[test]
fn a_client_that_cannot_be_told_is_passed_over_and_told_later() {
    let memory = Memory::new();
    let (one, other) = memory.two_waiting_clients();
    write_list(&memory.table, 0);
    assert_eq!(one.retried(), [1]);
    assert!(other.tick().is_empty());
    let first = one.run(|table, _| table.seat().expect("a seat").index());
    // A thread that is about to tell the marked client stands still while it holds the inbox's
    // lock.
    let seat = memory.table.seat().expect("a seat");
    assert!(matches!(seat.lock(memory.table.segment().inbox_lock(first), None), Ok(Locked::Ours(_))));
    other.tick();
    assert_eq!(other.retried(), [2], "nobody waits for that");
    other.tick();
    seat.rollback();
    assert!(one.retried().is_empty());
    other.tick();
    assert_eq!(one.retried(), [1], "he is told as soon as that is possible");
    one.run(|table, _| queue::came(table, 1));
    assert_eq!(numbers(&memory), [1, 2]);
    end(&memory, &[(&one, 1), (&other, 2)]);
}

/// Three threads wait; the last passes over the first. While the returned seat stands still,
/// neither the first nor the next one can be told.
fn passed_over_untold(memory: &Memory) -> ([Thread; 3], Rc<Seat>) {
    let ((one, other), last) = (memory.two_waiting_clients(), memory.thread());
    last.wait(3);
    write_list(&memory.table, 0);
    assert_eq!(one.retried(), [1]);
    assert!(last.tick().is_empty());
    let seat = memory.table.seat().expect("a seat");
    for thread in [&one, &other] {
        let index = thread.run(|table, _| table.seat().expect("a seat").index());
        assert!(matches!(seat.lock(memory.table.segment().inbox_lock(index), None), Ok(Locked::Ours(_))));
    }
    last.tick();
    assert_eq!(numbers(memory), [2, 3, 1 | LATE], "he is marked all the same");
    ([one, other, last], seat)
}

#[test]
fn no_thread_waits_for_the_inbox_of_the_next_client_which_is_told_later() {
    let memory = Memory::new();
    let ([one, other, last], seat) = passed_over_untold(&memory);
    seat.rollback();
    assert!(other.retried().is_empty());
    last.tick();
    assert_eq!(other.retried(), [2], "something lies there for him");
    assert_eq!(one.retried(), [1]);
    end(&memory, &[(&one, 1), (&other, 2), (&last, 3)]);
}

#[test]
fn a_client_that_stopped_waiting_still_has_pending_notifications() {
    let memory = Memory::new();
    let ([one, other, last], seat) = passed_over_untold(&memory);
    last.run(|table, _| queue::leave(table, 3));
    let has_pending = || last.run(|table, _| queue::has_pending(table));
    assert!(has_pending(), "it is tried again soon, without a tick");
    seat.rollback();
    let begun = Instant::now();
    while has_pending() {
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody is told");
        last.run(|table, _| queue::flush_pending(table));
    }
    assert!(other.retried().contains(&2));
    assert_eq!(one.retried(), [1]);
    end(&memory, &[(&one, 1), (&other, 2)]);
}

#[test]
fn a_client_marked_by_mistake_takes_its_place_again_when_told_of_it() {
    let memory = Memory::new();
    let (one, other) = (memory.thread(), memory.thread());
    one.wait(1);
    one.wait(2);
    other.wait(3);
    write_list(&memory.table, 0);
    assert_eq!(one.retried(), [1]);
    // The marked client's thread reads the message, and runs the call only after another client has
    // taken the element.
    (0..2).for_each(|_| drop(other.tick()));
    assert_eq!(other.retried(), [3]);
    remove_list(&memory.table);
    assert_eq!(one.retried(), [1], "he is told, although nothing is left");
    // Another client of the thread has come back, and the marked one has not yet.
    one.run(|table, _| queue::came(table, 2));
    write_list(&memory.table, 0);
    assert_eq!(one.retried(), [1, 2], "who is late is told again, and it is the other one's turn");
    remove_list(&memory.table);
    one.run(|table, _| queue::came(table, 1));
    assert_eq!(numbers(&memory), [1, 3]);
    write_list(&memory.table, 0);
    assert_eq!((one.retried(), other.retried()), (vec![1], vec![]));
    end(&memory, &[(&one, 1), (&one, 2), (&other, 3)]);
}

#[test]
fn a_new_waiting_client_takes_no_mark_off_another_of_its_thread() {
    let memory = Memory::new();
    let (one, other) = memory.two_waiting_clients();
    write_list(&memory.table, 0);
    assert_eq!(one.retried(), [1]);
    (0..2).for_each(|_| drop(other.tick()));
    remove_list(&memory.table);
    one.wait(3);
    assert_eq!(numbers(&memory), [2, 3]);
    assert_eq!(one.retried(), [1]);
    assert_eq!(one.tick(), [1]);
    assert_eq!(numbers(&memory), [2, 3]);
    one.run(|table, _| queue::leave(table, 3));
    assert_eq!(numbers(&memory), [2, 1 | LATE]);
    one.run(|table, _| queue::came(table, 1));
    assert_eq!(numbers(&memory), [1, 2]);
}

#[test]
fn a_returning_client_takes_its_place_although_a_lock_was_held() {
    let memory = Memory::new();
    let ((one, other), holder) = (memory.two_waiting_clients(), memory.thread());
    write_list(&memory.table, 0);
    (0..2).for_each(|_| drop(other.tick()));
    remove_list(&memory.table);
    assert!(one.retried().contains(&1));
    let release = holder.hold(queue_key());
    one.run(|table, _| queue::came(table, 1));
    let has_pending = || one.run(|table, _| queue::has_pending(table));
    assert!(has_pending(), "it is tried again soon");
    release.send(()).expect("it waits");
    holder.done.recv().expect("it lives");
    one.run(|table, _| queue::flush_pending(table));
    assert!(!has_pending());
    assert_eq!(numbers(&memory), [1, 2]);
}

#[test]
fn a_client_suspected_before_a_pause_has_its_time_again_after_it() {
    let memory = Memory::new();
    let (one, other) = memory.two_waiting_clients();
    write_list(&memory.table, 0);
    assert!(other.tick().is_empty());
    let ends_ms = now_ms() + 500;
    query::pause(&memory.table, ends_ms, false);
    assert!(other.tick().is_empty());
    while now_ms() <= ends_ms + 1_000 {
        std::thread::sleep(Duration::from_millis(20));
    }
    other.tick();
    assert!(other.retried().is_empty(), "the pause is no time in which he could have come");
    other.tick();
    assert_eq!(other.retried(), [2]);
    end(&memory, &[(&one, 1), (&other, 2)]);
}

#[test]
fn a_pause_does_not_count_as_time_to_come_even_if_it_is_forgotten() {
    let memory = Memory::new();
    let (one, other) = memory.two_waiting_clients();
    write_list(&memory.table, 0);
    for ends_by_itself in [true, false] {
        assert!(other.tick().is_empty());
        let ends_ms = now_ms() + if ends_by_itself { 20 } else { 60_000 };
        query::pause(&memory.table, ends_ms, false);
        while ends_by_itself && now_ms() <= ends_ms {
            std::thread::sleep(Duration::from_millis(5));
        }
        if ends_by_itself {
            query::forget_pause(&memory.table)
        } else {
            query::unpause(&memory.table)
        }
        assert_eq!(query::paused(&memory.table).0, 0);
        other.tick();
        assert!(other.retried().is_empty(), "nobody had the time to come");
        std::thread::sleep(Duration::from_millis(1_050));
    }
    (0..2).for_each(|_| drop(other.tick()));
    assert_eq!(other.retried(), [2]);
    end(&memory, &[(&one, 1), (&other, 2)]);
}

#[test]
fn the_longest_waiting_client_is_served_first_when_databases_are_swapped() {
    let memory = Memory::new();
    let (one, other) = memory.two_waiting_clients();
    write_list(&memory.table, 1);
    run(&memory.table, |txn| txn.swap(0, 1));
    assert!(other.retried().is_empty(), "another one was there before");
    assert_eq!(one.retried().first(), Some(&1));
    one.run(|table, _| queue::leave(table, 1));
    assert_eq!(other.retried(), [2]);
    end(&memory, &[(&other, 2)]);
}

#[test]
fn many_waiters_for_many_keys_are_all_looked_after() {
    let memory = Memory::new();
    let (stopped, other) = (memory.thread(), memory.thread());
    stopped.wait_for(1, &7u32.to_le_bytes());
    for key in 0..700u32 {
        other.wait_for(10 + u64::from(key), &key.to_le_bytes());
    }
    run(&memory.table, |txn| {
        txn.write(0, &7u32.to_le_bytes(), &New::of(Kind::List, Value::Packed(b"\0")), Replaces::Whole)?;
        txn.note_change('l', "lpush", 0, &7u32.to_le_bytes());
        Ok(())
    });
    // The woken client does not take it. However many clients wait, one of them finds out.
    assert!((0..6).any(|_| {
        other.tick();
        other.retried().contains(&17)
    }));
    run(&memory.table, |txn| txn.remove(0, &7u32.to_le_bytes(), Replaces::Whole));
}

#[test]
fn what_a_dead_thread_left_is_swept_although_a_lock_was_held_and_its_seat_is_used_again() {
    let memory = Memory::new();
    let holder = memory.thread();
    holder.run(|table, _| drop(table.seat().expect("a seat")));
    let records = queue_key();
    let first = memory.thread();
    first.wait(1);
    let seat = first.run(|table, _| table.seat().expect("a seat").index());
    // Its thread ends without a word.
    drop(first);
    let release = holder.hold(records.clone());
    let second = memory.thread();
    second.run(move |table, _| {
        assert_eq!(table.seat().expect("a seat").index(), seat, "the seat is used again");
        attend(table).expect("room");
        let channel = subscribe_beside(table);
        note_subscription(table, 9, Subject::Channel, &channel, true);
    });
    release.send(()).expect("it waits");
    holder.done.recv().expect("it lives");
    let there = || {
        memory.table.begin(Mode::Read).expect("a seat").glimpse(SYSTEM, &records).expect("readable").is_some()
    };
    assert!(there());
    (0..5).for_each(|_| drop(second.tick()));
    assert!(!there(), "the dead one still waits");
}

#[test]
fn a_locked_key_does_not_keep_the_sweep_from_those_behind_it() {
    const KEYS: u32 = 50;
    let memory = Memory::new();
    let (first, other, holder) = (memory.thread(), memory.thread(), memory.thread());
    other.run(|table, _| attend(table).expect("room"));
    for key in 0..KEYS {
        first.wait_for(1 + u64::from(key), &key.to_le_bytes());
    }
    let left = || {
        let mut keys = Vec::new();
        let txn = memory.table.begin(Mode::Read).expect("a seat");
        let mut cursor = 0;
        loop {
            let note = &mut |scanned: polder_table::Scanned<'_>| {
                keys.extend(scanned.key.starts_with(record::PREFIX).then(|| scanned.key.to_vec()))
            };
            cursor = txn.scan(SYSTEM, cursor, 64, note).expect("readable");
            if cursor == 0 {
                return keys;
            }
        }
    };
    let release = holder.hold(left()[0].clone());
    // Its thread ends without a word.
    drop(first);
    (0..5).for_each(|_| drop(other.tick()));
    let held_up = left().len();
    release.send(()).expect("it waits");
    holder.done.recv().expect("it lives");
    assert!(held_up < KEYS as usize / 2, "{held_up} of {KEYS} are left, of which one bucket is held");
    (0..5).for_each(|_| drop(other.tick()));
    assert_eq!(left().len(), 0, "the dead one still waits");
}

/// Subscribes to a channel whose record lies in none of the locked buckets, and returns its name.
fn subscribe_beside(table: &Table) -> Vec<u8> {
    let subscribe = |channel: &[u8]| {
        let txn = table.begin(Mode::Write).expect("a seat");
        txn.limit_patience(Duration::from_millis(5));
        loop {
            match subject::subscribe(&txn, Subject::Channel, &[channel], 1).and_then(|()| txn.commit()) {
                Ok(()) => return true,
                Err(Stop::Retry) => txn.abort(),
                Err(Stop::Busy) => return false,
                Err(stop) => panic!("{stop:?}"),
            }
        }
    };
    (0..200)
        .map(|number| format!("news {number}").into_bytes())
        .find(|channel| subscribe(channel))
        .expect("a channel elsewhere")
}

fn queue_key() -> Vec<u8> {
    record::waiters_key(Kind::List, 0, b"list")
}

/// The numbers of the list's waiters, the first one first.
fn numbers(memory: &Memory) -> Vec<u64> {
    let txn = memory.table.begin(Mode::Read).expect("a seat");
    let mut numbers: Vec<u64> =
        record::glimpse(&txn, &queue_key()).expect("readable").iter().map(|record| record.number).collect();
    numbers.sort_unstable();
    numbers
}

/// The mark of a client that did not come when it was its turn.
const LATE: u64 = 1 << 63;

/// Ends a test: the list is empty, and no client waits for it.
fn end(memory: &Memory, waiting: &[(&Thread, u64)]) {
    remove_list(&memory.table);
    waiting.iter().for_each(|&(thread, client)| thread.run(move |table, _| queue::leave(table, client)));
}

/// A thread, as questions name it.
fn myself(table: &Table) -> query::Thread {
    table.seat().map(|seat| (seat.index(), seat.life())).expect("a seat")
}

/// Asks all threads that serve clients, until they have replied or are no longer waited for;
/// `meanwhile` runs all the time.
fn ask_all(asker: &Thread, meanwhile: impl Fn()) -> (Replies, Duration) {
    let began = Instant::now();
    loop {
        meanwhile();
        let answers = asker.run(|table, heard| {
            attend(table).expect("room");
            while hear(table, heard) {}
            let answers = query::ask(table, (1, 0), &[b"INFO"], &[myself(table)]);
            query::send(table);
            answers
        });
        if let Some(answers) = answers {
            asker.run(|table, _| query::forget(table, 1));
            return (answers, began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_process_that_missed_a_question_is_not_waited_for_until_it_replies_again() {
    const LONG: Duration = Duration::from_millis(400);
    let memory = Memory::new();
    let (asker, silent) = (memory.thread(), memory.thread());
    silent.run(|table, _| {
        attend(table).expect("room");
        query::serve(table);
        // As in another PID namespace.
        let seat_at = table.segment().seat_at(myself(table).0);
        table.segment().word(seat_at + seat::OWNER).store(u64::MAX >> 1, Ordering::Relaxed);
    });
    let answer = || {
        silent.run(|table, heard| {
            while hear(table, heard) {}
            heard.asked.drain(..).for_each(|asker| query::answer(table, asker, &[myself(table)], b"here"));
        });
    };
    let ask_in_vain = || {
        let (answers, waited) = ask_all(&asker, || ());
        assert_eq!((answers.told.len(), answers.silent.len()), (0, 1));
        waited
    };
    for _ in 0..2 {
        answer();
        assert!(ask_in_vain() > LONG);
        // The machine may keep this thread from running now and then.
        assert!((0..10).any(|_| ask_in_vain() < LONG), "he is waited for each time");
        answer();
        // It has come back, and is slow.
        let began = Instant::now();
        let (answers, waited) = ask_all(&asker, || {
            if began.elapsed() > Duration::from_millis(100) {
                answer();
            }
        });
        assert!(answers.told.len() == 1 || waited > LONG, "he has not had his time");
    }
}

#[test]
fn a_client_that_may_have_missed_a_message_is_told_so() {
    let memory = Memory::new();
    let listener = memory.thread();
    listener.subscribe(5);
    listener.run(|table, _| monitor::note_monitor(table, 6, true));
    assert_eq!(publish(&memory, b"short"), 1);
    publish(&memory, &vec![1; 40 << 20]);
    assert_eq!(publish(&memory, b"last"), 1);
    let (messages, missed) =
        listener.hear(|heard| (std::mem::take(&mut heard.messages), std::mem::take(&mut heard.missed)));
    assert_eq!(messages, [(vec![5], b"short".to_vec()), (vec![5], b"last".to_vec())]);
    assert_eq!(missed, [5, 6]);
}

#[test]
fn what_was_sent_before_a_subscription_is_not_for_it_although_it_is_read_afterwards() {
    let memory = Memory::new();
    let listener = memory.thread();
    listener.subscribe(1);
    assert_eq!(publish(&memory, b"one"), 1);
    listener.subscribe(2);
    assert_eq!(publish(&memory, b"two"), 2);
    let messages = listener.hear(|heard| std::mem::take(&mut heard.messages));
    assert_eq!(messages, [(vec![1], b"one".to_vec()), (vec![1, 2], b"two".to_vec())]);
}

#[test]
fn a_flush_is_told_whatever_else_happens_to_databases_in_its_transaction() {
    let memory = Memory::new();
    let reader = memory.thread();
    reader.run(|table, _| {
        attend(table).expect("room");
        track::note_terms(table, 1, Some(track::Terms::default()));
        assert!(track::note_reads(table, 1, &[(0, b"key")]).is_empty());
    });
    write_list(&memory.table, 0);
    run(&memory.table, |txn| {
        txn.swap(0, 1)?;
        txn.flush(None)
    });
    let invalidated = reader.hear(|heard| std::mem::take(&mut heard.invalidated));
    assert_eq!(invalidated, [None]);
}

#[test]
fn a_subscription_that_is_not_withdrawn_yet_is_still_known() {
    let memory = Memory::new();
    let listener = memory.thread();
    listener.subscribe(5);
    let (segment, key) = (memory.table.segment(), b"hub:c:news");
    let known = || memory.table.interest() & interest::SUBSCRIBERS != 0;
    let txn = memory.table.begin(Mode::Write).expect("a seat");
    txn.peek(SYSTEM, key).expect("nobody is in the way");
    listener.run(|table, _| subject::unsubscribe(table, 5, Subject::Channel, vec![b"news".to_vec()]));
    listener.tick();
    assert!(known(), "the record is there, so its owner must be found when he dies");
    drop(txn);
    listener.tick();
    listener.tick();
    assert!(!known());
    assert!(segment.seats_high() > 0);
}

#[test]
fn a_change_of_many_keys_is_told_in_time() {
    let memory = Memory::new();
    let waiter = memory.thread();
    waiter.wait(1);
    let begun = Instant::now();
    run(&memory.table, |txn| {
        (0..100_000u32).for_each(|number| txn.note_change('g', "del", 0, &number.to_le_bytes()));
        txn.note_change('l', "lpush", 0, b"list");
        Ok(())
    });
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    waiter.run(|table, _| queue::leave(table, 1));
}

/// Says that it has told of a change, and waits before that is committed, once.
struct Slow(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Slow {
    /// The next change is told to the first end, and committed when the second says so.
    fn stop_next(&self) -> (Receiver<()>, Sender<()>) {
        let ((told, is_told), (go, goes)) = (channel(), channel());
        *self.0.lock().expect("sound") = Some((told, goes));
        (is_told, go)
    }
}

impl ChangeSink for Slow {
    fn tell(&self, commit: &dyn CommitView, changes: &[Change<'_>]) -> Result<(), Stop> {
        SINK.tell(commit, changes)?;
        let gate = self.0.lock().expect("sound").take();
        if let Some((told, go)) = gate {
            told.send(()).expect("a thread waits");
            go.recv().expect("the test lets it go on");
        }
        Ok(())
    }
}

#[test]
fn a_client_that_begins_to_wait_during_a_swap_finds_what_came() {
    static SLOW: Slow = Slow(Mutex::new(None));
    let memory = Memory::with(&SLOW);
    let (swapper, waiter) = (memory.thread(), memory.thread());
    write_list(&memory.table, 1);
    let (is_told, go) = SLOW.stop_next();
    let swap: Job = Box::new(|table, _| run(table, |txn| txn.swap(0, 1)));
    swapper.jobs.as_ref().expect("it lives").send(swap).expect("it lives");
    is_told.recv().expect("told");
    let letting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        go.send(()).expect("it waits");
    });
    let found = waiter.run(|table, _| {
        attend(table).expect("room");
        let place = Place {
            ticket: queue::draw_ticket(table),
            kind: Kind::List,
            db: 0,
            keys: vec![b"list".to_vec()],
        };
        run(table, |txn| match txn.find(0, b"list")? {
            Some(_) => Ok(true),
            None => queue::enlist(txn, &place).map(|()| false),
        })
    });
    letting.join().expect("done");
    swapper.done.recv().expect("it lives");
    assert!(found, "it waits for what is there, and nobody tells it");
    remove_list(&memory.table);
}

/// A writer that has looked for readers tells no later one. Such a reader must not keep what it reads before the writer has committed.
#[test]
fn a_client_that_reads_while_a_writer_commits_keeps_nothing() {
    static SLOW: Slow = Slow(Mutex::new(None));
    let memory = Memory::with(&SLOW);
    let (writer, reader) = (memory.thread(), memory.thread());
    reader.run(|table, _| {
        attend(table).expect("room");
        track::note_terms(table, 1, Some(track::Terms::default()));
    });
    let (is_told, go) = SLOW.stop_next();
    writer
        .jobs
        .as_ref()
        .expect("it lives")
        .send(Box::new(|table, _| write_list(table, 0)))
        .expect("it lives");
    is_told.recv().expect("told");
    let note = |table: &Table, _: &mut Heard| track::note_reads(table, 1, &[(0, b"list")]);
    assert_eq!(reader.run(note), [b"list"], "the writer has the key");
    go.send(()).expect("it waits");
    writer.done.recv().expect("it lives");
    assert!(reader.run(note).is_empty());
    // The same key of another database is noted by itself.
    let (is_told, go) = SLOW.stop_next();
    writer
        .jobs
        .as_ref()
        .expect("it lives")
        .send(Box::new(|table, _| write_list(table, 1)))
        .expect("it lives");
    is_told.recv().expect("told");
    assert_eq!(reader.run(|table, _| track::note_reads(table, 1, &[(1, b"list")])), [b"list"]);
    go.send(()).expect("it waits");
    writer.done.recv().expect("it lives");
    assert_eq!(reader.hear(|heard| std::mem::take(&mut heard.invalidated)), [Some(1)]);
    remove_list(&memory.table);
}
