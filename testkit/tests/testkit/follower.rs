//! A stream copied into the files of a log, by processes that are killed, on disks that are full or broken and lose power: each byte is there
//! once, and what was reported as durable is there.
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_storage::check::{check, fix};
use polder_storage::follower::Failure as Stopped;
use polder_storage::manifest::Identity;
use polder_storage::resume::Broken;
use polder_storage::{Folder, Follower, Fsync, Left, Log, Position, Stream, Terms, reach, resume, scan};
use polder_testkit::power::{Failure, Power};
use polder_testkit::random::Random;

fn seeds() -> u64 {
    std::env::var("POLDER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

/// What lies in the segment: a stream of the numbers 1, 2, 3, ..., and the note of the storage process.
#[derive(Default)]
struct Memory {
    bytes: RefCell<Vec<u8>>,
    /// Where the stream ends behind each number.
    ends: RefCell<Vec<u64>>,
    left: Cell<Option<Left>>,
    in_sync: Cell<bool>,
    /// The next notes fail, or are forgotten without a word.
    refuses: Cell<u32>,
    forgets: Cell<u32>,
}

impl Memory {
    fn push(&self, count: usize) {
        for _ in 0..count {
            let text = (self.ends.borrow().len() + 1).to_string();
            self.bytes
                .borrow_mut()
                .extend_from_slice(format!("*2\r\n$3\r\nADD\r\n${}\r\n{text}\r\n", text.len()).as_bytes());
            self.ends.borrow_mut().push(self.bytes.borrow().len() as u64);
        }
    }

    /// The last number before an offset.
    fn number_at(&self, offset: u64) -> u64 {
        self.ends.borrow().partition_point(|end| *end <= offset) as u64
    }
}

impl Stream for Memory {
    fn end(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }

    fn read(&self, offset: u64, into: &mut Vec<u8>, bytes_max: usize) -> Result<u64, String> {
        let bytes = self.bytes.borrow();
        let rest = &bytes[offset as usize..];
        // Less than was asked for, as a log in blocks may give: a batch may end inside a record.
        let read = rest.len().min(bytes_max).min(100);
        into.extend_from_slice(&rest[..read]);
        Ok(offset + read as u64)
    }

    fn note(&self, position: Position, synced: Position) -> Result<(), String> {
        if self.refuses.get() > 0 {
            self.refuses.set(self.refuses.get() - 1);
            return Err("no memory".into());
        }
        if self.forgets.get() > 0 {
            self.forgets.set(self.forgets.get() - 1);
        } else {
            self.left.set(Some(Left { position, synced, in_sync: false }));
        }
        Ok(())
    }

    fn in_sync(&self, is_under_way: bool) {
        self.in_sync.set(is_under_way);
    }
}

/// A disk, a memory, the storage process of the day, and what it has promised.
struct World {
    power: Power,
    memory: Memory,
    follower: Option<Follower>,
    terms: Terms,
    now: Instant,
    second: u64,
    durable: u64,
    /// The cut of the rewrite under way.
    cut: u64,
    /// The stream's end at each time.
    ends: Vec<(Instant, u64)>,
}

fn folder(power: &Power) -> Folder {
    Folder {
        medium: Arc::new(power.clone()),
        path: PathBuf::from("/data/appendonlydir"),
        name: "appendonly.aof".into(),
    }
}

impl World {
    fn new(random: &mut Random) -> World {
        let terms = Terms {
            fsync: *random.pick(&[Fsync::Always, Fsync::EverySecond, Fsync::Never]),
            tells_time: random.chance(50),
        };
        let (power, memory, now) = (Power::default(), Memory::default(), Instant::now());
        World {
            power,
            memory,
            follower: None,
            terms,
            now,
            second: 1,
            durable: 0,
            cut: 0,
            ends: vec![(now, 0)],
        }
    }

    /// A storage process begins: it goes on where the one before was, or anew if it must.
    fn begin(&mut self) -> Result<(), Stopped> {
        let folder = folder(&self.power);
        let manifest = folder.load().expect("a manifest that is whole or not there");
        let resumed = match (&manifest, self.memory.left.get()) {
            (Some(manifest), Some(left)) => {
                let left = Left { in_sync: self.memory.in_sync.get(), ..left };
                resume(folder.clone(), manifest.clone(), &left, &self.memory)
                    .map(|(log, offset)| (log, offset, left.synced))
            }
            _ => Err(Broken::Lost("there is none".into())),
        };
        self.follower = Some(match resumed {
            Ok((log, offset, synced)) => Follower::new(log, offset, synced, self.now),
            Err(Broken::Lost(_)) => {
                if let Some(manifest) = manifest {
                    assert!(
                        reach(&folder, &manifest)?.is_none_or(|offset| offset <= self.memory.end()),
                        "the memory has all that the log has"
                    );
                }
                let log =
                    Log::begin(folder, Identity { memory: "m".into(), stream: "s".into(), log: "l".into() })?;
                self.cut = self.memory.end();
                Follower::new(log, self.cut, Position::default(), self.now)
            }
            Err(Broken::System(error)) => return Err(error.into()),
            Err(Broken::Ahead(why)) => panic!("the memory has all that the log has: {why}"),
        });
        Ok(())
    }

    fn step(&mut self, random: &mut Random) -> Result<(), Stopped> {
        self.memory.push(random.below(8));
        self.now += Duration::from_millis(random.below(700) as u64);
        self.second += u64::from(random.chance(30));
        if self.follower.is_none() {
            self.begin()?;
        }
        let follower = self.follower.as_mut().expect("begun");
        if follower.is_rewriting() {
            if random.chance(30) && !follower.awaits_cut() {
                let base = follower.next_base(polder_storage::BaseForm::Rdb);
                write_base(&self.power, &base, self.memory.number_at(self.cut))?;
                follower.finish_rewrite(base)?;
            } else if random.chance(5) && !follower.needs_base() {
                follower.give_up_rewrite();
            }
        } else if follower.needs_base() || random.chance(10) {
            self.cut = self.memory.end();
            follower.begin_rewrite(self.cut, b"#opening\r\n".to_vec());
        }
        let done = follower.turn(&self.memory, self.terms, self.now, self.second);
        self.durable = self.durable.max(follower.durable());
        self.ends.push((self.now, self.memory.end()));
        done.map(drop)
    }

    /// What must be on the disk now, by the terms.
    fn promised(&self) -> u64 {
        let late =
            self.ends.iter().rev().find(|(at, _)| self.now.duration_since(*at) >= Duration::from_secs(2));
        match self.terms.fsync {
            Fsync::Always => self.memory.end(),
            Fsync::EverySecond => late.map_or(0, |(_, end)| *end),
            Fsync::Never => 0,
        }
    }
}

fn write_base(power: &Power, base: &polder_storage::Entry, number: u64) -> std::io::Result<()> {
    let folder = folder(power);
    let file = folder.medium.create(&folder.path_of(base))?;
    let text = number.to_string();
    file.write_at(format!("*2\r\n$4\r\nBASE\r\n${}\r\n{text}\r\n", text.len()).as_bytes(), 0)?;
    file.sync()?;
    folder.medium.sync_folder(&folder.path)
}

/// The last number that the log on a disk holds: all before it are there, each once.
fn held(power: &Power) -> u64 {
    let folder = folder(power);
    let Some(manifest) = folder.load().expect("a manifest that is whole or not there") else { return 0 };
    if let Some(flaw) = check(&folder).expect("a log").flaw {
        assert!(flaw.cut_at.is_some(), "only the end may be torn: {flaw:?}");
        fix(&folder, &flaw).expect("cut off");
    }
    let mut last = None;
    for entry in manifest.live() {
        let file = folder.medium.read(&folder.path_of(entry)).expect("a file that the manifest names");
        let taken = scan(&*file, 0, &mut |batch| {
            for (at, words) in batch.calls() {
                let number: u64 = String::from_utf8_lossy(words[1]).parse().expect("a number");
                assert_eq!(
                    number,
                    last.map_or(number, |last| last + 1),
                    "{}:{at}",
                    String::from_utf8_lossy(&entry.name)
                );
                last = Some(number);
            }
            Ok(())
        });
        taken.expect("records");
    }
    last.unwrap_or(0)
}

#[test]
fn each_process_goes_on_where_a_killed_one_was_and_nothing_is_there_twice() {
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let mut world = World::new(&mut random);
        for _ in 0..3 {
            world.power.fail_at(random.below(120) as u64, Failure::Killed);
            while world.step(&mut random).is_ok() {}
            (world.power, world.follower) = (world.power.after_kill(), None);
        }
        // The last one is not killed: when its base is there, it has all.
        for _ in 0..200 {
            world.step(&mut random).expect("a disk without faults");
        }
        let all = world.memory.number_at(world.memory.end());
        assert_eq!(held(&world.power.after_kill()), all, "seed {seed}");
        assert!(world.durable >= world.promised(), "seed {seed}: {:?}", world.terms);
        let held = held(&world.power.after_cut(&mut random));
        assert!(
            (world.memory.number_at(world.durable)..=all).contains(&held),
            "seed {seed}: {held} of {all}"
        );
    }
}

#[test]
fn a_power_cut_takes_nothing_that_was_durable() {
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let mut world = World::new(&mut random);
        world.power.fail_at(random.below(150) as u64, Failure::Killed);
        while world.step(&mut random).is_ok() {}
        let (durable, all) =
            (world.memory.number_at(world.durable), world.memory.number_at(world.memory.end()));
        let held = held(&world.power.after_cut(&mut random));
        assert!((durable..=all).contains(&held), "seed {seed}: {durable} durable, {held} held, {all} in all");
    }
}

#[test]
fn a_process_that_is_killed_in_a_sync_that_fails_loses_nothing_that_its_successor_calls_durable() {
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let mut world = World::new(&mut random);
        for _ in 0..3 {
            world.power.fail_at(random.below(80) as u64, Failure::Lost);
            while world.step(&mut random).is_ok() {}
            (world.power, world.follower) = (world.power.after_kill(), None);
            world.power.fail_at(u64::MAX / 2, Failure::Full);
            for _ in 0..random.below(20) {
                world.step(&mut random).expect("a disk without faults");
            }
            let durable = world.memory.number_at(world.durable);
            let held = held(&world.power.after_cut(&mut random));
            assert!(held >= durable, "seed {seed}: {durable} durable, {held} held: {:?}", world.terms);
        }
    }
}

/// With everysec the disk has all but some megabytes, however short the time is.
#[test]
fn many_bytes_are_synced_before_the_second_is_over() {
    const BYTES: u64 = 4 << 20;
    let mut random = Random::new(11);
    let mut world = World::new(&mut random);
    world.terms.fsync = Fsync::EverySecond;
    let is_whole = |follower: &Follower| !follower.needs_base() && !follower.is_rewriting();
    while !world.follower.as_ref().is_some_and(is_whole) {
        world.step(&mut random).expect("a disk without faults");
    }
    let (memory, terms, second) = (&world.memory, world.terms, world.second);
    let mut follower = world.follower.take().expect("begun");
    let mut copy = |now| {
        while follower.turn(memory, terms, now, second).expect("a disk without faults") {}
        (memory.end(), follower.durable())
    };
    let now = world.now + Duration::from_secs(2);
    memory.push(1);
    let (end, durable) = copy(now);
    assert_eq!(durable, end, "two seconds are over");
    memory.push(1);
    assert_eq!(copy(now).1, durable, "it is too little and too soon");
    memory.push(BYTES as usize / 20);
    let (end, later) = copy(now);
    assert!(end > durable + BYTES && later > end - BYTES, "{later} of {end}");
}

/// Each batch is synced before the next one is made. What was durable must be there whatever happens while a successor begins.
#[test]
fn what_was_synced_without_a_note_is_not_cut_off_by_a_successor() {
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let mut world = World::new(&mut random);
        world.terms.fsync = Fsync::Always;
        for _ in 0..60 {
            world.step(&mut random).expect("a disk without faults");
        }
        world.memory.forgets.set(u32::MAX);
        for _ in 0..10 {
            world.step(&mut random).expect("a disk without faults");
        }
        let durable = world.memory.number_at(world.durable);
        (world.power, world.follower) = (world.power.after_kill(), None);
        world.memory.in_sync.set(random.chance(30));
        world.memory.forgets.set(0);
        // The power is cut at each call of the next process.
        world.power.fail_at(random.below(12) as u64, Failure::Killed);
        while world.power.calls() < 20 && world.step(&mut random).is_ok() {}
        let held = held(&world.power.after_cut(&mut random));
        assert!(held >= durable, "seed {seed}: {durable} durable, {held} held");
    }
}

#[test]
fn a_log_that_holds_more_than_the_memory_is_not_continued() {
    let mut random = Random::new(7);
    let mut world = World::new(&mut random);
    world.terms.fsync = Fsync::Always;
    let run = |world: &mut World, random: &mut Random| {
        (0..40).for_each(|_| world.step(random).expect("a disk without faults"))
    };
    run(&mut world, &mut random);
    while world.follower.as_ref().is_some_and(Follower::needs_base) {
        world.step(&mut random).expect("a disk without faults");
    }
    // A copy of the memory, before it goes on.
    let (bytes, ends, left) =
        (world.memory.bytes.borrow().clone(), world.memory.ends.borrow().clone(), world.memory.left.get());
    let copy = Memory {
        bytes: RefCell::new(bytes),
        ends: RefCell::new(ends),
        left: Cell::new(left),
        ..Memory::default()
    };
    run(&mut world, &mut random);
    let folder = folder(&world.power);
    let manifest = folder.load().expect("a manifest").expect("a manifest");
    let reached = reach(&folder, &manifest).expect("a file").expect("an offset");
    assert!(reached > copy.end(), "it says that it holds more");
    let went_on = |copy: &Memory| {
        resume(folder.clone(), manifest.clone(), &left.expect("a note"), copy).map(|(_, offset)| offset)
    };
    let refused = |copy: &Memory| went_on(copy).expect_err("the log has more");
    assert!(matches!(refused(&copy), Broken::Ahead(_) | Broken::Lost(_)), "{:?}", refused(&copy));
    // The copy goes on by itself, beyond the end of the log.
    copy.push(5000);
    copy.bytes.borrow_mut()[left.expect("a note").position.offset as usize + 9] ^= 1;
    assert!(matches!(refused(&copy), Broken::Ahead(_) | Broken::Lost(_)), "{:?}", refused(&copy));
    assert_eq!(folder.load().expect("a manifest"), Some(manifest.clone()), "nothing was changed");
}

#[test]
fn full_and_broken_disks_and_notes_without_room_lose_nothing_that_was_durable() {
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let mut world = World::new(&mut random);
        let mut refused = 0;
        for _ in 0..3 {
            world.power.fail_at(random.below(40) as u64, *random.pick(&[Failure::Full, Failure::Broken]));
            world.memory.refuses.set(random.below(3) as u32);
            refused += (0..40).filter(|_| world.step(&mut random).is_err()).count();
        }
        let held_in_cut = held(&world.power.after_cut(&mut random));
        let durable = world.memory.number_at(world.durable);
        assert!(
            held_in_cut >= durable,
            "seed {seed}: {durable} durable, {held_in_cut} held after {refused} errors"
        );
        world.power.fail_at(u64::MAX / 2, Failure::Full);
        world.memory.refuses.set(0);
        // Errors end, and then all is copied: nothing was lost on the way, and nothing is there twice.
        for _ in 0..200 {
            world.step(&mut random).expect("a disk without faults");
        }
        assert_eq!(
            held(&world.power.after_kill()),
            world.memory.number_at(world.memory.end()),
            "seed {seed}"
        );
    }
}
