//! The end of memory: what is refused there, and what never is.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::{Place, try_run_as};
use polder_base::Fault;
use polder_shm::layout::header;
use polder_table::{Mode, New, Replaces, Stop};
use polder_values::{Kind, Value};

/// Small keys of a full memory.
const SMALL: u32 = 4_000;

/// Fills a memory: with small keys, and then with everything down to where nothing of a few hundred bytes finds room.
fn fill_wholly(place: &Place) {
    (0..SMALL).for_each(|number| place.set(0, &number.to_le_bytes(), &[1; 100], None));
    for (bytes, name) in [(15_000, "huge"), (4_000, "large"), (1_000, "middle"), (300, "little")] {
        fill(place, bytes, |number| format!("{name}:{number}").into_bytes());
    }
}

/// Sets keys until there is no more memory: how many there are.
fn fill(place: &Place, bytes: usize, name: impl Fn(u32) -> Vec<u8>) -> u32 {
    let outcome = |number: &u32| try_to_set(place, &name(*number), &vec![1; bytes]);
    // Twice: what the first attempt retired, when the table grew, is free for the next.
    let failed = (0..u32::MAX)
        .find(|number| outcome(number).is_err() && outcome(number).is_err())
        .expect("no memory is so large");
    assert!(matches!(outcome(&failed), Err(Stop::Fault(Fault::Full(_)))));
    failed
}

fn try_to_set(place: &Place, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    try_run_as(&place.table, Mode::Write, |txn| {
        txn.write(0, key, &New::of(Kind::String, Value::Packed(value)), Replaces::Whole)
    })
}

/// Has `work` succeed while another thread holds the lock of every slab for a moment.
fn while_slabs_are_locked(place: &Place, work: impl Fn() -> Result<(), Stop>) {
    for _ in 0..20 {
        let begun = Instant::now();
        let answer =
            while_slabs_are_locked_until(|_| std::thread::sleep(Duration::from_millis(3)), place, &work);
        if answer.is_ok() {
            return;
        }
        // On a busy machine the other thread may hold the locks for longer than the wait lasts (10 ms); then no wait is begun for 500 ms.
        assert!(begun.elapsed() > Duration::from_millis(10), "{answer:?}");
        std::thread::sleep(Duration::from_millis(600));
    }
    panic!("it never succeeds");
}

/// Runs `work` while another thread holds the lock of every slab until `rest` ends, which is told when `work` is done.
fn while_slabs_are_locked_until<R>(
    rest: impl FnOnce(mpsc::Receiver<()>) + Send,
    place: &Place,
    work: impl FnOnce() -> R,
) -> R {
    let segment = place.table.segment();
    let locks: Vec<u64> =
        (0..segment.observe(header::SLABS_READY)).map(|slab| segment.slab_lock_at(slab)).collect();
    let ((held, is_held), (done, is_done)) = (mpsc::channel(), mpsc::channel());
    std::thread::scope(|scope| {
        let locks = &locks;
        scope.spawn(move || {
            let owner = place.table.seat().expect("a seat").index() + 1;
            locks.iter().for_each(|lock| segment.store(*lock, owner));
            held.send(()).expect("the test waits");
            rest(is_done);
            locks.iter().for_each(|lock| segment.store(*lock, segment.load(*lock) & !0xfff));
        });
        is_held.recv().expect("held");
        let answer = work();
        // The other thread may have ended already, and then does not receive it.
        let _ = done.send(());
        answer
    })
}

#[test]
fn a_thread_that_holds_slabs_delays_one_call_and_not_each() {
    let place = &Place::with_ceiling(4 << 20);
    fill(place, 2_000, |number| number.to_le_bytes().to_vec());
    place.table.seat().expect("a seat").empty_caches();
    let begun = Instant::now();
    while_slabs_are_locked_until(
        |done| assert_eq!(done.recv(), Ok(())),
        place,
        || {
            (0..100).for_each(|_| assert!(try_to_set(place, b"key", &[1; 300]).is_err()));
            // 10 ms, and not 100 times that.
            assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        },
    );
}

#[test]
fn a_full_memory_waits_for_slabs_that_others_hold_locked() {
    let place = &Place::with_ceiling(4 << 20);
    let count = fill(place, 2_000, |number| number.to_le_bytes().to_vec());
    (0..count / 2).for_each(|number| assert!(place.remove(0, &number.to_le_bytes())));
    (0..10).for_each(|_| assert!(place.table.run_maintenance(100_000) > 0));
    place.table.seat().expect("a seat").empty_caches();
    while_slabs_are_locked(place, || try_to_set(place, b"key", &[1; 2_000]));
}

/// Runs `work` while a reader elsewhere stands still, and holds back whatever goes out of use.
fn beside_a_stopped_reader(place: &Place, work: impl FnOnce()) {
    let (pinned, is_pinned) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let pin = place.table.pinned().expect("a seat");
            pinned.send(()).expect("the test waits");
            let _ = is_done.recv();
            drop(pin);
        });
        is_pinned.recv().expect("pinned");
        work();
        drop(done);
    });
}

#[test]
fn keys_are_deleted_from_a_full_memory_though_a_stopped_reader_holds_them_back() {
    let place = &Place::with_ceiling(4 << 20);
    fill_wholly(place);
    beside_a_stopped_reader(place, || {
        let removed = (0..SMALL).take_while(|number| {
            try_run_as(&place.table, Mode::Write, |txn| txn.remove(0, &number.to_le_bytes(), Replaces::Whole))
                .is_ok()
        });
        assert_eq!(removed.count() as u32, SMALL);
    });
}

/// Removes keys in one transaction.
fn try_to_remove(place: &Place, numbers: &[u32]) -> Result<(), Stop> {
    let keys: Vec<[u8; 4]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
    let declared: Vec<(u16, &[u8])> = keys.iter().map(|key| (0, &key[..])).collect();
    try_run_as(&place.table, Mode::Write, |txn| {
        txn.declare(&declared)?;
        keys.iter().try_for_each(|key| txn.remove(0, key, Replaces::Whole).map(drop))
    })
}

#[test]
fn many_keys_are_deleted_from_a_full_memory_at_once() {
    let place = &Place::with_ceiling(4 << 20);
    fill_wholly(place);
    let before = place.keys(0);
    assert_eq!(try_to_remove(place, &(0..1_000).collect::<Vec<u32>>()), Ok(()));
    assert_eq!(place.keys(0), before - 1_000);
}

#[test]
fn a_deletion_waits_for_the_reserve_while_others_hold_it_locked() {
    let place = &Place::with_ceiling(4 << 20);
    fill_wholly(place);
    while_slabs_are_locked(place, || try_to_remove(place, &(0..1_000).collect::<Vec<u32>>()));
}

#[test]
fn threads_share_the_reserve_of_a_full_memory() {
    const THREADS: u32 = 4;
    let place = &Place::with_ceiling(4 << 20);
    fill_wholly(place);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let numbers: Vec<u32> = (0..SMALL).filter(|number| number % THREADS == thread).collect();
            scope.spawn(move || {
                numbers.chunks(200).for_each(|some| assert_eq!(try_to_remove(place, some), Ok(())));
            });
        }
    });
    assert!((0..SMALL).all(|number| place.get(0, &number.to_le_bytes()).is_none()));
}

#[test]
fn a_full_memory_is_flushed_and_swept() {
    let place = &Place::with_ceiling(4 << 20);
    fill_wholly(place);
    beside_a_stopped_reader(place, || {
        assert_eq!(try_run_as(&place.table, Mode::Write, |txn| txn.flush(None)), Ok(()));
        (0..100).for_each(|_| assert!(place.table.run_maintenance(100_000) > 0));
    });
    (0..100).for_each(|_| assert!(place.table.run_maintenance(100_000) > 0));
    assert_eq!(try_to_set(place, b"key", &[1; 2_000]), Ok(()));
}

#[test]
fn a_full_memory_names_the_ceiling_that_was_asked_for() {
    let place = &Place::with_ceiling(4 << 20);
    fill(place, 2_000, |number| number.to_le_bytes().to_vec());
    let Err(Stop::Fault(Fault::Full(text))) = try_to_set(place, b"key", &[1; 2_000]) else {
        panic!("it is full")
    };
    assert!(text.contains(" 4194304 bytes"), "{text}");
    assert_eq!(place.table.usage().ceiling, 4 << 20);
}

#[test]
fn nothing_waits_for_a_stopped_thread_that_holds_slabs() {
    let place = &Place::with_ceiling(64 << 20);
    let segment = place.table.segment();
    let names = || (0..3_000u32).map(u32::to_le_bytes);
    names().for_each(|name| place.set(0, &name, &[1; 100], None));
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            tell.send(place.table.seat().expect("a seat").index()).expect("the test waits");
            let _ = ended.recv();
        });
        let stopped = told.recv().expect("a seat");
        let slabs: Vec<u64> = (0..segment.slabs_ready()).map(|slab| segment.slab_lock_at(slab)).collect();
        slabs.iter().for_each(|lock| segment.store(*lock, stopped + 1));
        let begun = Instant::now();
        names().for_each(|name| assert!(place.remove(0, &name)));
        // Given up with many new nodes.
        for _ in 0..3 {
            let txn = place.table.begin(Mode::Write).expect("a seat");
            for name in names() {
                txn.write(0, &name, &New::of(Kind::String, Value::Packed(&[2; 100])), Replaces::Whole)
                    .expect("there is room");
            }
        }
        place.table.seat().expect("a seat").empty_caches();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        slabs.iter().for_each(|lock| segment.store(*lock, 0));
        drop(end);
    });
    names().for_each(|name| place.set(0, &name, &[3; 100], None));
    while place.table.reclaim() {}
}
