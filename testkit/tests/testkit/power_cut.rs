//! What is left of a log after a power cut, a killed process and a broken disk: always a prefix of what was appended, whole up to what was
//! synced. Each case is a seed; POLDER_SEEDS says how many there are.
use std::path::PathBuf;
use std::sync::Arc;

use polder_storage::check::{check, fix};
use polder_storage::manifest::Identity;
use polder_storage::{BaseForm, Folder, Log, Manifest, scan};
use polder_testkit::power::{Failure, Power};
use polder_testkit::random::Random;

/// How many seeds each test runs.
fn seeds() -> u64 {
    std::env::var("POLDER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

fn folder(power: &Power) -> Folder {
    Folder {
        medium: Arc::new(power.clone()),
        path: PathBuf::from("/data/appendonlydir"),
        name: "appendonly.aof".into(),
    }
}

fn identity() -> Identity {
    Identity { memory: "m".into(), stream: "s".into(), log: "l".into() }
}

/// A writer of numbers: 1, 2, 3, ... A base says up to which number it holds all.
struct Writer {
    log: Log,
    /// The last number that was appended.
    last: u64,
    /// The last number that was reported as synced.
    synced: u64,
    /// The last number before the rewrite under way.
    cut: u64,
}

impl Writer {
    fn begin(power: &Power) -> std::io::Result<Writer> {
        let log = Log::begin(folder(power), identity())?;
        let mut writer = Writer { log, last: 0, synced: 0, cut: 0 };
        writer.finish_rewrite()?;
        Ok(writer)
    }

    /// Does one thing of those that a storage process does.
    fn step(&mut self, random: &mut Random) -> std::io::Result<()> {
        match random.below(10) {
            0..6 => self.append(1 + random.below(5) as u64)?,
            6 | 7 => {
                self.log.sync()?;
                // Before the first base nothing is promised.
                if self.log.is_whole() {
                    self.synced = self.last;
                }
            }
            8 if !self.log.is_rewriting() => {
                self.log.begin_rewrite()?;
                self.cut = self.last;
            }
            _ if self.log.is_rewriting() => self.finish_rewrite()?,
            _ => {}
        }
        Ok(())
    }

    fn append(&mut self, count: u64) -> std::io::Result<()> {
        let mut batch = Vec::new();
        for number in self.last + 1..=self.last + count {
            let text = number.to_string();
            batch.extend_from_slice(format!("*2\r\n$3\r\nADD\r\n${}\r\n{text}\r\n", text.len()).as_bytes());
        }
        polder_storage::incr::annotate_offset(&mut batch, self.last + count);
        self.log.append(&batch)?;
        self.last += count;
        Ok(())
    }

    fn finish_rewrite(&mut self) -> std::io::Result<()> {
        let base = self.log.next_base(BaseForm::Commands);
        let folder = self.log.folder().clone();
        let file = folder.medium.create(&folder.path_of(&base))?;
        let text = self.cut.to_string();
        file.write_at(format!("*2\r\n$4\r\nBASE\r\n${}\r\n{text}\r\n", text.len()).as_bytes(), 0)?;
        file.sync()?;
        folder.medium.sync_folder(&folder.path)?;
        self.log.install(base)
    }
}

/// The last number that a log on the disk holds, all before it included; 0 where there is no log.
fn held(power: &Power) -> u64 {
    let folder = folder(power);
    let Some(manifest) = folder.load().expect("a manifest that is whole or not there") else { return 0 };
    let report = check(&folder).expect("a log");
    if let Some(flaw) = &report.flaw {
        assert!(flaw.cut_at.is_some(), "only the end may be torn: {flaw:?}");
        fix(&folder, flaw).expect("cut off");
        assert_eq!(check(&folder).expect("a log").flaw, None);
    }
    numbers(&folder, &manifest)
}

fn numbers(folder: &Folder, manifest: &Manifest) -> u64 {
    assert_eq!(manifest.identity, Some(identity()));
    assert!(manifest.base.is_some(), "a log has a base");
    let mut last = None;
    for entry in manifest.live() {
        let file = folder.medium.read(&folder.path_of(entry)).expect("a file that the manifest names");
        let end = scan(&*file, 0, &mut |batch| {
            for (at, words) in batch.calls() {
                let number: u64 = String::from_utf8_lossy(words[1]).parse().expect("a number");
                let expected = last.map_or(number, |last| last + 1);
                assert_eq!(number, expected, "{}:{at}", String::from_utf8_lossy(&entry.name));
                last = Some(number);
            }
            Ok(())
        });
        end.expect("records");
    }
    last.unwrap_or(0)
}

#[test]
fn after_a_power_cut_a_prefix_is_left_that_holds_all_that_was_synced() {
    for seed in 0..seeds() {
        let (mut random, power) = (Random::new(seed), Power::default());
        let mut writer = Writer::begin(&power).expect("a log");
        for _ in 0..random.below(60) {
            writer.step(&mut random).expect("a step");
        }
        let held = held(&power.after_cut(&mut random));
        assert!(
            (writer.synced..=writer.last).contains(&held),
            "seed {seed}: {} synced, {held} held, {} written",
            writer.synced,
            writer.last
        );
    }
}

#[test]
fn a_power_cut_within_any_file_call_leaves_a_prefix() {
    for seed in 0..seeds() {
        let (mut random, power) = (Random::new(seed), Power::default());
        power.fail_at(random.below(120) as u64, Failure::Killed);
        let (mut synced, mut last) = (0, 0);
        if let Ok(mut writer) = Writer::begin(&power) {
            while writer.step(&mut random).is_ok() {
                (synced, last) = (writer.synced, writer.last);
            }
            // The batch under way when it ended may have been written.
            (synced, last) = (synced.max(writer.synced), last.max(writer.last) + 5);
        }
        let held = held(&power.after_cut(&mut random));
        assert!((synced..=last).contains(&held), "seed {seed}: {synced} synced, {held} held, {last} written");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_writing_goes_on_when_there_is_room() {
    for seed in 0..seeds() {
        let (mut random, power) = (Random::new(seed), Power::default());
        let mut writer = Writer::begin(&power).expect("a log");
        for _ in 0..5 {
            power.fail_at(random.below(40) as u64, Failure::Full);
            (0..60).for_each(|_| drop(writer.step(&mut random)));
            // A sync that fails spoils the file, whatever the reason was: the storage process writes a new base then.
            if writer.log.is_spoiled() {
                writer.log.begin_rewrite().expect("another file");
                writer.cut = writer.last;
                writer.finish_rewrite().expect("another base");
            }
        }
        let held = held(&power.after_cut(&mut random));
        assert!(
            (writer.synced..=writer.last).contains(&held),
            "seed {seed}: {} synced, {held} held",
            writer.synced
        );
    }
}

#[test]
fn after_a_failed_sync_nothing_is_promised_until_another_base_is_there() {
    for seed in 0..seeds() {
        let (mut random, power) = (Random::new(seed), Power::default());
        let mut writer = Writer::begin(&power).expect("a log");
        power.fail_at(random.below(60) as u64, Failure::Broken);
        for _ in 0..80 {
            let _ = writer.step(&mut random);
            if writer.log.is_spoiled() && (!writer.log.is_rewriting() || !writer.log.is_whole()) {
                writer.log.give_up_rewrite();
                writer.log.begin_rewrite().expect("another file");
                writer.cut = writer.last;
            }
        }
        let held = held(&power.after_cut(&mut random));
        assert!(
            (writer.synced..=writer.last).contains(&held),
            "seed {seed}: {} synced, {held} held",
            writer.synced
        );
    }
}
