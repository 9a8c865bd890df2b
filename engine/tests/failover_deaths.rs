//! FAILOVER: a process is killed before each store of a change of the roles, of its end, and of giving it up. The next thread that looks finds one of the states that
//! it knows, and the memory becomes a primary again that takes writes: never one that is read-only for ever.
//!
//! Its own program, since only a process of one thread forks here.
use polder_engine::{Caller, Memory, Options};
use polder_replica::failover;
use polder_replica::primary::{self, Primary};
use polder_shm::crash::{self, Child, End};
use polder_table::{Mode, New, Replaces, SYSTEM, Stop};
use polder_values::{Kind, Value};
use std::sync::Arc;

const RECORD: &[u8] = b"replication:failover";
/// A failover by force whose time is over: it needs no replica.
const WAITS: &[u8] = b"waits 0 1 1 127.0.0.1 9";

struct Place {
    options: Options,
    memory: Arc<Memory>,
}

impl Place {
    fn new(number: u64) -> Place {
        let segment = format!("shm:polder-test-{}-failover-{number}", std::process::id());
        let options = Options { segment, ceiling: 32 << 20, ..Options::default() };
        let memory = Arc::new(Memory::attach(&options).unwrap_or_else(|fault| panic!("{fault}")));
        Caller::new(&memory).run(&["SET", "k", "v"]).expect("room");
        let place = Place { options, memory };
        place.note(WAITS);
        place
    }

    fn note(&self, text: &[u8]) {
        let txn = self.memory.table().begin(Mode::Write).expect("a seat");
        loop {
            let new = New::of(Kind::String, Value::Packed(text));
            let done = txn
                .declare(&[(SYSTEM, RECORD)])
                .and_then(|()| txn.write(SYSTEM, RECORD, &new, Replaces::Whole))
                .and_then(|()| txn.commit());
            match done {
                Err(Stop::Retry | Stop::Busy) => txn.abort(),
                done => return done.expect("room"),
            }
        }
    }

    /// The memory follows the target by now.
    fn following(number: u64) -> Place {
        let place = Place::new(number);
        place.drive();
        assert!(place.memory.table().role().is_replica());
        assert!(failover::find(place.memory.table()).expect("readable").is_some());
        place
    }

    fn drive(&self) {
        failover::drive(self.memory.table(), &|| false).expect("no process is stopped");
    }

    /// Does as the thread that has the link, and a client that gives the failover up, until none runs.
    fn settle(&self) {
        let table = self.memory.table();
        table.segment().recover_dead();
        table.settle_role().expect("no process is stopped");
        loop {
            let is_running = failover::find(table).expect("readable").is_some();
            let takes_over =
                primary::find(table).expect("readable").is_some_and(|primary| primary.takes_over);
            match (table.role().is_replica(), is_running) {
                (false, false) => return,
                (false, true) => self.drive(),
                (true, true) => failover::abort(table, "the test").expect("no process is stopped"),
                (true, false) if takes_over => {
                    assert!(!failover::goes_on(table).expect("no process is stopped"));
                }
                // The failover was over: it is a replica like others.
                (true, false) => primary::promote(table).expect("no process is stopped"),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.options.segment);
    }
}

fn kill_at_each_store(what: &str, prepare: impl Fn(u64) -> Place, operation: impl Fn(&Place)) {
    for n in 1.. {
        let place = prepare(n);
        let end = Child::of(|| {
            place.memory.table().seat().expect("a seat");
            crash::arm(n);
            operation(&place);
            crash::arm(0);
        })
        .wait();
        assert_ne!(end, End::Failed, "{what}, store {n}");
        place.settle();
        let mut caller = Caller::new(&place.memory);
        // A pause that the dead has left ends by itself within seconds: that is waited for now and then.
        if n % 32 != 0 {
            caller.run(&["CLIENT", "UNPAUSE"]).expect("it pauses no client");
        }
        caller.run(&["SET", "k", "after"]).unwrap_or_else(|error| panic!("{what}, store {n}: {error}"));
        let report = place.memory.table().verify().expect("a seat");
        assert!(report.is_clean(), "{what}, dead at store {n}: {report}");
        if end == End::Done {
            return println!("{what}: {n} stores");
        }
    }
}

fn main() {
    kill_at_each_store("change of the roles", Place::new, Place::drive);
    kill_at_each_store("giving up", Place::following, |place| {
        failover::abort(place.memory.table(), "the test").expect("no process is stopped");
    });
    let target = Primary { host: "127.0.0.1".into(), port: 9, accepts_empty: false, takes_over: true };
    kill_at_each_store("end", Place::following, |place| {
        failover::end(place.memory.table(), &target).expect("it is its own");
    });
    println!("failover_deaths: 3 tests passed");
}
