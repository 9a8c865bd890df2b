//! `file:` segments in another boot of the machine: put in order by the first process that attaches, whatever the last boot left, and
//! wherever that process dies.
//!
//! Its own program, since only a process of one thread forks here. Another boot is a segment whose header names one, and whose
//! liveness locks seem to be held by threads that live: what is in a file after a power cut.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use polder_engine::{Caller, Memory, Options, Origin};
use polder_shm::crash::{self, Child, End};
use polder_shm::layout::{self, Geometry, header};

const OLD_BOOT: [u8; 16] = [7; 16];
/// Keys that stay as they are.
const STEADY: u32 = 200;

struct Stage {
    path: PathBuf,
    options: Options,
}

impl Stage {
    fn new(what: &str) -> Stage {
        let path = std::env::temp_dir().join(format!("polder-reboot-{what}-{}", std::process::id()));
        let options =
            Options { segment: format!("file:{}", path.display()), ceiling: 32 << 20, ..Options::default() };
        let stage = Stage { path, options };
        stage.living(|| {
            let mut caller = stage.caller();
            (0..STEADY).for_each(|number| {
                drop(caller.run(&["SET", &format!("steady:{number}"), &"x".repeat(number as usize * 20)]))
            });
            caller.run(&["RPUSH", "list", "a", "b", "c"]).expect("room");
            caller.run(&["SET", "value", "0"]).expect("room");
        });
        stage
    }

    /// Runs `work` in a process that ends without a word, as by a crash.
    fn living(&self, work: impl FnOnce()) {
        assert_eq!(Child::of(work).wait(), End::Done);
    }

    fn attach(&self) -> Memory {
        Memory::attach(&self.options).unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn caller(&self) -> Caller {
        Caller::new(&Arc::new(self.attach()))
    }

    fn file(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.path).expect("it is there")
    }

    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.file().read_exact_at(&mut word, at).expect("a header");
        u64::from_le_bytes(word)
    }

    /// Puts the file into the state after a boot.
    fn reboot(&self) {
        let file = self.file();
        file.write_all_at(&OLD_BOOT, header::BOOT_ID).expect("written");
        for seat in 0..self.word(header::SEATS_HIGH) {
            file.write_all_at(
                &std::process::id().to_le_bytes(),
                layout::LIVENESS_AT + seat * layout::LIVENESS_BYTES,
            )
            .expect("written");
        }
    }

    /// Attaches in a process of its own and looks whether all is there and whole; `value` is what it may be.
    fn examine(&self, values: &[&str], origins: &[Origin]) {
        self.living(|| {
            let memory = Arc::new(self.attach());
            assert!(origins.contains(&memory.origin()), "{:?}", memory.origin());
            let report = memory.table().verify().expect("walked");
            assert!(report.is_clean(), "{report}");
            let mut caller = Caller::new(&memory);
            for number in 0..STEADY {
                let length = caller.show(&["STRLEN", &format!("steady:{number}")], |reply| reply.integer());
                assert_eq!(length, Ok(Some(i64::from(number) * 20)));
            }
            let value = caller.show(&["GET", "value"], |reply| {
                String::from_utf8_lossy(reply.bytes().expect("a string")).into_owned()
            });
            assert!(values.contains(&value.as_ref().expect("readable").as_str()), "{value:?}");
            // It can be written to.
            caller.run(&["SET", "after", "1"]).expect("room");
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

const UNCLOSED: Origin = Origin::Renewed { closed: false };
const CLOSED: Origin = Origin::Renewed { closed: true };

fn a_file_of_an_earlier_boot_is_put_in_order() {
    let stage = Stage::new("order");
    stage.examine(&["0"], &[Origin::Found]);
    let mut incarnation = 0;
    for _ in 0..3 {
        assert_eq!(stage.word(header::INCARNATION), incarnation);
        let drawn = stage.word(header::VERSIONS);
        stage.reboot();
        stage.examine(&["0"], &[UNCLOSED]);
        // A client may keep versions that were drawn after the file was written. The threads of before draw a block of 1,024 at most.
        assert!(stage.word(header::VERSIONS) > drawn + (1 << 12), "versions go on at a distance");
        stage.examine(&["0"], &[Origin::Found]);
        // It may be older than what was copied from it: another memory.
        assert_ne!(
            stage.word(header::INCARNATION),
            std::mem::replace(&mut incarnation, stage.word(header::INCARNATION))
        );
    }
}

/// Runs `work` in a thread and waits for its end, which gives back its seats.
fn in_a_thread(work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"));
}

fn the_last_process_closes_in_order() {
    let stage = Stage::new("closed");
    let ends_in_order = |work: &(dyn Fn() + Sync)| stage.living(|| in_a_thread(work));
    let write = || drop(stage.caller().run(&["SET", "value", "1"]).expect("room"));
    ends_in_order(&write);
    assert_eq!(stage.word(header::CLEAN), 1);
    stage.reboot();
    stage.examine(&["1"], &[CLOSED]);
    assert_eq!(stage.word(header::INCARNATION), 0, "it is the same memory");
    // That one ended without a word.
    assert_eq!(stage.word(header::CLEAN), 0);
    // Not the last one: not closed.
    stage.living(|| {
        let _other = stage.caller();
        in_a_thread(&write);
        assert_eq!(stage.word(header::CLEAN), 0);
    });
    ends_in_order(&write);
    assert_eq!(stage.word(header::CLEAN), 1);
}

/// A process is killed before its n-th store, for many n, and then the machine goes down.
fn a_death_in_a_commit_before_the_boot_leaves_the_old_or_the_new_value() {
    let stage = Stage::new("commit");
    let new = "n".repeat(3000);
    for n in (1..).step_by(5) {
        stage.living(|| drop(stage.caller().run(&["SET", "value", "0"]).expect("room")));
        let dying = Child::of(|| {
            let mut caller = stage.caller();
            caller.run(&["PING"]).expect("a seat");
            crash::arm(n);
            caller.run(&["SET", "value", &new]).expect("room");
            caller.run(&["RPUSH", "list", &new]).expect("room");
            crash::arm(0);
        });
        let end = dying.wait();
        stage.reboot();
        stage.examine(&["0", &new], &[UNCLOSED]);
        if end == End::Done {
            assert!(n > 20, "{n}");
            return;
        }
    }
}

/// A process is killed at each step of the renewal; the next one begins again.
fn a_death_while_a_boot_is_begun_is_made_good_by_the_next_process() {
    let stage = Stage::new("renewal");
    let new = "n".repeat(3000);
    let mut n = 1;
    loop {
        // Something to settle.
        let dying = Child::of(|| {
            let mut caller = stage.caller();
            caller.run(&["PING"]).expect("a seat");
            crash::arm(10 + n % 40);
            caller.run(&["SET", "value", &new]).expect("room");
        });
        dying.wait();
        stage.reboot();
        let renewing = Child::of(|| {
            crash::arm(n);
            drop(stage.attach());
            crash::arm(0);
        });
        let end = renewing.wait();
        let origin = if end == End::Done { Origin::Found } else { UNCLOSED };
        stage.examine(&["0", &new], &[origin]);
        if end == End::Done {
            assert!(n > layout::SEATS_MAX, "{n}");
            return;
        }
        // All liveness locks are made alike.
        n += if n < layout::SEATS_MAX - 100 { 97 } else { 1 };
    }
}

/// The same of a file that was closed in order: it stays the memory that it is, however often the renewal begins.
fn a_file_that_was_closed_stays_the_same_memory_wherever_the_renewal_dies() {
    let stage = Stage::new("identity");
    let mut others = 0;
    for n in 1.. {
        stage.living(|| in_a_thread(&|| drop(stage.caller().run(&["SET", "value", "1"]).expect("room"))));
        assert_eq!(stage.word(header::CLEAN), 1);
        // All liveness locks are made alike.
        if (20..layout::SEATS_MAX).contains(&n) {
            continue;
        }
        stage.reboot();
        let end = Child::of(|| {
            crash::arm(n);
            drop(stage.attach());
            crash::arm(0);
        })
        .wait();
        stage.examine(&["1"], &[CLOSED, UNCLOSED, Origin::Found]);
        if stage.word(header::INCARNATION) != 0 {
            stage.file().write_all_at(&[0; 8], header::INCARNATION).expect("written");
            others += 1;
        }
        if end == End::Done {
            assert!(n > layout::SEATS_MAX, "{n}");
            break;
        }
    }
    assert!(
        others <= 2,
        "{others} deaths made it another memory; there are two stores after CLEAN is cleared"
    );
}

fn of_several_that_attach_at_once_one_puts_it_in_order() {
    let stage = Stage::new("race");
    stage.living(|| drop(stage.caller().run(&["SET", "renewed", "0"]).expect("room")));
    for round in 1..=10 {
        stage.reboot();
        let racers: Vec<Child> = (0..4)
            .map(|_| {
                Child::of(|| {
                    let memory = Arc::new(stage.attach());
                    if memory.origin() != Origin::Found {
                        Caller::new(&memory).run(&["INCR", "renewed"]).expect("room");
                    }
                    // The others come while it is attached.
                    std::thread::sleep(std::time::Duration::from_millis(50));
                })
            })
            .collect();
        racers.into_iter().for_each(|racer| assert_eq!(racer.wait(), End::Done));
        stage.living(|| {
            assert_eq!(stage.caller().show(&["GET", "renewed"], |reply| reply.integer()), Ok(Some(round)));
        });
    }
}

fn a_damaged_file_is_refused_with_advice_and_can_be_verified() {
    let stage = Stage::new("damaged");
    let geometry = Geometry::of(stage.word(header::CEILING));
    stage.reboot();
    // As a page of bitmaps that never reached the disk.
    stage.file().write_all_at(&[0; 4096], geometry.slab_bits_at).expect("written");
    stage.living(|| {
        for _ in 0..2 {
            let Err(fault) = Memory::attach(&stage.options) else { panic!("it was attached") };
            let text = fault.to_string();
            assert!(
                text.contains("damaged") && text.contains("polder verify") && text.contains("import"),
                "{text}"
            );
            assert!(!Memory::verify(&stage.options).expect("walked").is_clean());
        }
        Memory::remove(&stage.options.segment).expect("it can be removed");
        drop(stage.attach());
    });
}

fn a_file_that_another_machine_has_attached_is_refused() {
    let stage = Stage::new("shared");
    stage.living(|| {
        let _there = stage.caller();
        stage.file().write_all_at(&OLD_BOOT, header::BOOT_ID).expect("written");
        let Err(fault) = Memory::attach(&stage.options) else { panic!("it was attached") };
        assert!(fault.to_string().contains("another boot"), "{fault}");
    });
}

fn main() {
    let tests: [(&str, fn()); 8] = [
        ("a_file_of_an_earlier_boot_is_put_in_order", a_file_of_an_earlier_boot_is_put_in_order),
        ("the_last_process_closes_in_order", the_last_process_closes_in_order),
        (
            "a_death_in_a_commit_before_the_boot_leaves_the_old_or_the_new_value",
            a_death_in_a_commit_before_the_boot_leaves_the_old_or_the_new_value,
        ),
        (
            "a_death_while_a_boot_is_begun_is_made_good_by_the_next_process",
            a_death_while_a_boot_is_begun_is_made_good_by_the_next_process,
        ),
        (
            "a_file_that_was_closed_stays_the_same_memory_wherever_the_renewal_dies",
            a_file_that_was_closed_stays_the_same_memory_wherever_the_renewal_dies,
        ),
        (
            "of_several_that_attach_at_once_one_puts_it_in_order",
            of_several_that_attach_at_once_one_puts_it_in_order,
        ),
        (
            "a_damaged_file_is_refused_with_advice_and_can_be_verified",
            a_damaged_file_is_refused_with_advice_and_can_be_verified,
        ),
        (
            "a_file_that_another_machine_has_attached_is_refused",
            a_file_that_another_machine_has_attached_is_refused,
        ),
    ];
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&wanted)) {
        test();
        println!("{name}: ok");
    }
}
