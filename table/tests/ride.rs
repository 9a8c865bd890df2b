//! A memory that follows a primary: data and offset change together, and a copy takes the place of the data as a whole, whenever a process dies.
//!
//! A process is killed before each store of an operation. A survivor then reads in keys and log either all of it or nothing of it, finds the segment
//! sound, and goes on. One thread only: it forks.

mod common;

use common::Place;
use polder_shm::Role;
use polder_shm::change_log::Stream;
use polder_shm::crash::{self, Child, End};
use polder_table::{Mode, New, READ_ONLY, Replaces, STAGED, Stop, Table};
use polder_values::{Kind, string};

const PRIMARY: [u8; 40] = *b"0123456789012345678901234567890123456789";
const OFFSET: u64 = 5_000_000_000;

fn main() {
    writes_of_clients_are_refused();
    a_command_and_its_bytes_are_one_commit();
    bytes_that_change_nothing_are_a_commit();
    a_copy_is_installed_as_a_whole();
    a_memory_begins_to_follow();
    a_promotion_comes_to_its_end();
    a_new_role_ends_the_ride();
    a_link_that_is_stopped_over_a_promotion_ends_the_stream();
    println!("ride: 8 tests passed");
}

/// A replica whose log holds something, and its role.
fn replica() -> (Place, Role) {
    let place = Place::with_known_secret();
    place.table.dumps_by(|nodes, found, into| {
        into.extend_from_slice(&string::contiguous(nodes, &found.value)?);
        Ok(())
    });
    place.table.log().turn_on().expect("a log");
    (0..200u32).for_each(|number| place.set(0, format!("key:{number}").as_bytes(), &[1; 30], None));
    place.set_string(0, b"tree", &[1; 50_000]);
    let role = place.table.follow().expect("no process is stopped");
    (place, role)
}

fn set(table: &Table, db: u16, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    let txn = table.begin(Mode::Write)?;
    loop {
        let value = string::make(&txn, value)?;
        let done = txn
            .declare(&[(db, key)])
            .and_then(|()| txn.write(db, key, &New::of(Kind::String, value), Replaces::Whole))
            .and_then(|()| txn.commit());
        match done {
            Err(Stop::Retry | Stop::Busy) => txn.abort(),
            done => return done,
        }
    }
}

/// Has a child die before each store of an operation, and shows the survivor's table; returns how many stores there are.
fn kill_at_each_store(
    prepare: impl Fn() -> (Place, Role),
    operation: impl Fn(&Table, Role),
    look: impl Fn(&Place, bool),
) -> u64 {
    let mut n = 1;
    loop {
        let (place, role) = prepare();
        let end = Child::of(|| {
            place.table.seat().expect("a seat");
            crash::arm(n);
            operation(&place.table, role);
            crash::arm(0);
        })
        .wait();
        assert_ne!(end, End::Failed, "at store {n}");
        place.table.segment().recover_dead();
        while place.table.log().merge().expect("memory") {}
        look(&place, end == End::Done);
        let report = place.table.verify().expect("a seat");
        assert!(report.is_clean(), "dead at store {n}: {report}");
        if end == End::Done {
            return n;
        }
        n += 1;
    }
}

fn writes_of_clients_are_refused() {
    let (place, _) = replica();
    let end = place.table.log().range().1;
    assert_eq!(set(&place.table, 0, b"key:1", b"mine"), Err(READ_ONLY.into()));
    let txn = place.table.begin(Mode::Write).expect("a seat");
    // A message of a client stays here.
    txn.tell_news(0, &[b"PUBLISH", b"channel", b"text"]);
    txn.commit().expect("it changes no key");
    drop(txn);
    while place.table.log().merge().expect("memory") {}
    assert_eq!((place.get(0, b"key:1"), place.table.log().range().1), (Some(vec![1; 30]), end));
}

fn a_command_and_its_bytes_are_one_commit() {
    for (key, value) in [(&b"key:1"[..], vec![9; 20]), (b"new", vec![9; 300]), (b"tree", vec![9; 40_000])] {
        // More than a block of the outbox.
        let bytes = [&b"*3\r\n$3\r\nset\r\n$5\r\nkey:1\r\n$20000\r\n"[..], &[b'x'; 20_000], b"\r\n"].concat();
        let old_end = replica().0.table.log().range().1;
        let (operation, expected) = (
            |table: &Table, role: Role| {
                let rider = table.ride(role).expect("a seat");
                rider.carry(&bytes, Some(3));
                set(table, 0, key, &value).expect("the primary may");
                assert!(rider.is_taken());
            },
            |place: &Place, is_done: bool| {
                let (end, db) = place.table.log().end();
                let is_new = place.get(0, key) == Some(value.clone());
                assert_eq!(end, if is_new { old_end + bytes.len() as u64 } else { old_end });
                assert!(is_new || !is_done);
                if is_new {
                    let mut read = Vec::new();
                    place.table.log().read(old_end, &mut read, usize::MAX).expect("it is kept");
                    assert!(read == bytes && db == Some(3));
                }
            },
        );
        let stores = kill_at_each_store(replica, operation, expected);
        println!("command, {} bytes: {stores} stores", value.len());
    }
}

fn bytes_that_change_nothing_are_a_commit() {
    let old_end = replica().0.table.log().range().1;
    let stores = kill_at_each_store(
        replica,
        |table, role| {
            let rider = table.ride(role).expect("a seat");
            rider.carry(b"*1\r\n$4\r\nping\r\n", None);
            rider.send_alone().expect("there is room");
            assert!(rider.is_taken());
        },
        |place, is_done| {
            let end = place.table.log().range().1;
            assert!(end == old_end + 14 || !is_done && end == old_end);
        },
    );
    println!("bytes alone: {stores} stores");
}

fn a_copy_is_installed_as_a_whole() {
    let staged = || {
        let (place, role) = replica();
        let rider = place.table.ride(role).expect("a seat");
        for (db, key) in [(0, b"key:1"), (0, b"fresh"), (7, b"other")] {
            set(&place.table, STAGED + db, key, &[5; 400]).expect("a copy is loaded");
        }
        drop(rider);
        assert_eq!((place.keys(0), place.keys(7)), (201, 0), "clients see the old data");
        (place, role)
    };
    let install = |table: &Table, role: Role| {
        let rider = table.ride(role).expect("a seat");
        rider.begin_stream(Stream { identity: PRIMARY, offset: OFFSET, state: 8 });
        let txn = table.begin(Mode::Write).expect("a seat");
        loop {
            let done = [0, 7].into_iter().try_for_each(|db| {
                txn.swap(db, STAGED + db)?;
                txn.flush(Some(STAGED + db))
            });
            match done.and_then(|()| txn.commit()) {
                Err(Stop::Retry | Stop::Busy) => txn.abort(),
                done => break done.expect("there is memory"),
            }
        }
        assert!(rider.is_taken());
    };
    let stores = kill_at_each_store(staged, install, |place, is_done| {
        let (table, log) = (&place.table, place.table.log());
        let is_new = log.identity().as_bytes() == PRIMARY;
        assert!(is_new || !is_done);
        assert_eq!(place.get(0, b"key:1"), Some(if is_new { vec![5; 400] } else { vec![1; 30] }));
        assert_eq!((place.keys(0), place.keys(7)), if is_new { (2, 1) } else { (201, 0) });
        if is_new {
            assert_eq!((log.offset_of(log.range().1), log.end().1), (OFFSET, Some(7)));
            assert!(!table.is_database(STAGED) && !table.is_database(STAGED + 7));
        }
    });
    println!("install: {stores} stores");
}

fn a_memory_begins_to_follow() {
    let primary = || {
        let place = Place::with_known_secret();
        place.set(0, b"key:1", &[1; 30], None);
        let role = place.table.role();
        (place, role)
    };
    let stores = kill_at_each_store(
        primary,
        |table, _| assert!(table.follow().expect("no process is stopped").is_replica()),
        |place, is_done| {
            let table = &place.table;
            table.settle_role().expect("no process is stopped");
            let is_replica = table.role().is_replica();
            assert!(is_replica || !is_done);
            assert_eq!(is_replica, table.segment().refuses_writes());
            if is_replica {
                assert_eq!(set(table, 0, b"key:1", b"mine"), Err(READ_ONLY.into()));
                let rider = table.ride(table.role()).expect("a seat");
                rider.carry(b"*1\r\n$4\r\nping\r\n", None);
                rider.send_alone().expect("a link can go on");
                assert!(rider.is_taken());
            }
        },
    );
    println!("following: {stores} stores");
}

fn a_promotion_comes_to_its_end() {
    let before = replica().0;
    let end = before.table.log().range().1;
    drop(before);
    let stores = kill_at_each_store(
        replica,
        |table, _| table.promote().expect("no process is stopped"),
        |place, is_done| {
            let table = &place.table;
            if table.role().is_replica() {
                assert!(!is_done && table.segment().refuses_writes());
                return;
            }
            table.settle_role().expect("no process is stopped");
            let (was, second) = table.log().before().expect("it goes on from another stream");
            assert!(was != table.log().identity() && second == end);
            assert!(table.segment().log_continues(was.as_bytes(), end));
            assert!(!table.segment().log_continues(was.as_bytes(), end + 1));
            set(table, 0, b"key:1", b"of a primary").expect("it is a primary");
            while table.log().merge().expect("memory") {}
            let mut told = Vec::new();
            table.log().read(end, &mut told, usize::MAX).expect("it is kept");
            assert!(told.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"), "{}", told.escape_ascii());
            table.settle_role().expect("there is nothing to do");
            assert_eq!(table.log().before(), Some((was, second)));
        },
    );
    println!("promotion: {stores} stores");
}

fn a_new_role_ends_the_ride() {
    let (place, role) = replica();
    let rider = place.table.ride(role).expect("a seat");
    rider.carry(b"*1\r\n$4\r\nping\r\n", None);
    let is_over =
        |done: Result<(), Stop>| done.is_err_and(|stop| stop.to_string().contains("another primary"));
    let later = place.table.follow().expect("no process is stopped");
    assert_ne!(later, role);
    assert!(is_over(set(&place.table, 0, b"key:1", b"late")) && is_over(rider.send_alone()));
    place.table.promote().expect("no process is stopped");
    assert!(is_over(set(&place.table, 0, b"key:1", b"late")), "also where writes are taken again");
    assert_eq!(place.get(0, b"key:1"), Some(vec![1; 30]));
    drop(rider);
    set(&place.table, 0, b"key:1", b"its own").expect("it is a primary");
    assert_eq!(place.get(0, b"key:1"), Some(b"its own".to_vec()));
}

/// Stops a link before a store of a command, promotes its memory, and lets it go on. Looks for a store between the look at the role and the commit: before
/// an earlier one the command is refused, before a later one it is in the log that the promotion renames.
fn a_link_that_is_stopped_over_a_promotion_ends_the_stream() {
    let bytes = b"*3\r\n$3\r\nset\r\n$5\r\nkey:1\r\n$4\r\nlate\r\n";
    let command = |table: &Table, role: Role| {
        let rider = table.ride(role).expect("a seat");
        rider.carry(bytes, Some(3));
        set(table, 0, b"key:1", b"late")
    };
    let operation = |table: &Table, role: Role| command(table, role).expect("the primary may");
    let mut between = 1..kill_at_each_store(replica, operation, |_, _| ());
    loop {
        assert!(!between.is_empty(), "no store lies between the look at the role and the commit");
        let n = between.start.midpoint(between.end);
        let (place, role) = replica();
        let child = Child::of(|| {
            place.table.seat().expect("a seat");
            crash::arm_stop(n);
            // It may come too late.
            let _ = command(&place.table, role);
        });
        assert_eq!(child.stopped(), None, "before store {n}");
        place.table.promote().expect("a promotion waits for no stopped process for ever");
        let named = place.table.log().identity();
        child.go_on();
        assert_eq!(child.wait(), End::Done);
        while place.table.log().merge().expect("memory") {}
        let is_made = place.get(0, b"key:1") == Some(b"late".to_vec());
        let has_new_name = place.table.log().identity() != named;
        set(&place.table, 0, b"key:1", b"its own").expect("it is a primary");
        while place.table.log().merge().expect("memory") {}
        let report = place.table.verify().expect("a seat");
        assert!(report.is_clean(), "stopped before store {n}: {report}");
        match (is_made, has_new_name) {
            (false, false) => between.start = n + 1,
            (true, false) => between.end = n,
            (_, true) => {
                assert!(is_made, "a refused command has no record");
                let (mut told, (begin, _)) = (Vec::new(), place.table.log().range());
                place.table.log().read(begin, &mut told, usize::MAX).expect("it is kept");
                let told = told.escape_ascii().to_string();
                let is_own =
                    told.starts_with(r"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*6\r\n$7\r\nRESTORE\r\n$5\r\nkey:1");
                assert!(is_own && told.contains("its own") && !told.contains("late"), "{told}");
                return println!("stopped link: before store {n}");
            }
        }
    }
}
