//! A process is killed before its n-th store to the segment, for every n of every write path of the table, and so is
//! the one that recovers it. A surviving process
//! - reads every key at once: all keys of the transaction as they were, or all as they were to be;
//! - reads the same once the dead have been recovered, and finds the whole segment sound;
//! - writes every key within 50 ms, whatever was locked;
//! - reads in the change log, where it is on, what leads from what was there before to what is there.
//!
//! `cargo test -p polder-table --test kill [-- NAME]` strides over the stores of long paths; `cargo x crash stores [NAME]`
//! tries every single one, and many more deaths of recoverers. One thread only: it forks.

mod common;
mod kill_cases;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kill_cases::{Case, Whole};
use polder_shm::crash::{self, Child, Delays, End};
use polder_shm::layout::seat as at;
use polder_table::{Mode, Table};

/// The longest that a key may be unusable after a death.
const STALL_MAX: Duration = Duration::from_millis(50);
/// Deaths of one path beside every store of short ones.
const DEATHS_MAX: u64 = 60;
/// Deaths of recoverers for one path.
const SECOND_DEATHS_MAX: u64 = 24;

/// All keys of the first databases.
type Location = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let all = std::env::args().any(|word| word == "--all");
    let mut failures = Vec::new();
    for case in kill_cases::cases().into_iter().filter(|case| case.name.contains(&wanted)) {
        let began = Instant::now();
        let outcome =
            std::panic::catch_unwind(|| matrix(&case, all)).unwrap_or_else(|_| Err("panicked".into()));
        match outcome {
            Ok((stores, deaths, second)) => {
                println!(
                    "{:<28} {stores:>6} stores, {deaths:>5} deaths, {second:>5} of recoverers, {:?}",
                    case.name,
                    began.elapsed()
                );
            }
            Err(failure) => {
                println!("{:<28} FAILED: {failure}", case.name);
                failures.push(case.name);
            }
        }
    }
    if "damaged-records".contains(&wanted) {
        damaged_records();
    }
    assert!(failures.is_empty(), "not survived: {failures:?}");
}

/// Recovers seats whose records have been overwritten: whatever is lost, no process crashes and none waits for them.
fn damaged_records() {
    let case = &kill_cases::cases()[0];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut draw = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 9) % end
    };
    for round in 0..200u64 {
        let place = case.prepare();
        let segment = place.table.segment();
        let _ = Child::of(|| {
            place.table.seat().expect("a seat");
            crash::arm(1 + round % 33);
            (case.operation)(&place.table);
        })
        .wait();
        // The words that say how much there is and where, and what is cached; not the items of a journal, which say what to write.
        let control =
            [at::JOURNAL_LEN, at::JOURNAL_NEXT, at::RETIRE_BASE, at::PENDING, at::MEMORY_LOCK, at::LIFTED];
        let retired = [
            at::RETIRED_FIRST,
            at::RETIRED_HEAD,
            at::RETIRED_TAIL,
            at::EXPANDING,
            at::EXPANDED_TAIL,
            at::RECLAIMING,
            at::RETIRED_CURSOR,
        ];
        let words: Vec<u64> = control
            .into_iter()
            .chain(retired)
            .chain((at::CACHE_COUNTS..at::MEMORY_JOURNAL).step_by(8))
            .collect();
        let word = words[if round % 2 == 0 { draw(11) } else { draw(words.len() as u64) } as usize];
        let value = [draw(u64::MAX >> 9), draw(2_000), segment.slab_at(0) + draw(1 << 17) * 8, u64::MAX]
            [draw(4) as usize];
        segment.store(segment.seat_at(1) + word, value);
        let end = Child::of(|| {
            segment.recover_dead();
            place.table.verify().expect("a seat");
            let began = Instant::now();
            (0..20u8).for_each(|number| place.set(0, &[number], &[number; 100], None));
            assert!(began.elapsed() < Duration::from_secs(5), "nobody waits");
        })
        .wait();
        assert_eq!(end, End::Done, "round {round}: word {word} was {value:#x}");
        // What was lost is lost: this segment is not verified.
        place.abandon();
    }
    println!("damaged-records              200 seats recovered");
}

/// Ends what the dead were at, and frees what they had retired.
fn recover(table: &Table) {
    table.segment().recover_dead();
    table.segment().free_gone(Instant::now() + Duration::from_secs(1));
}

/// Kills a case at its stores; returns how many there are, and how many deaths were tried.
fn matrix(case: &Case, all: bool) -> Result<(u64, u64, u64), String> {
    let (stores, old, new) = rehearse(case)?;
    let (mut deaths, mut second) = (0, 0);
    // The log adds stores to each path that is tried without it, too.
    let deaths_max = if case.is_logged { DEATHS_MAX / 3 } else { DEATHS_MAX };
    let step = if all { 1 } else { stores.div_ceil(deaths_max) };
    for n in (1..=stores).step_by(step as usize) {
        deaths += 1;
        trial(case, n, None, &old, &new)
            .map_err(|wrong| format!("dead at store {n} of {stores}: {wrong}"))?;
    }
    // The recoverer's deaths: at its first stores and at strided later ones, after strided deaths of the first.
    let (firsts, dense, stride) = match (all, case.is_logged) {
        (true, _) => (120, 300, 7),
        (false, false) => (SECOND_DEATHS_MAX / 4, 12, 5),
        (false, true) => (SECOND_DEATHS_MAX / 12, 4, 9),
    };
    for (phase, n) in (1..=stores).step_by(stores.div_ceil(firsts) as usize).enumerate() {
        let later = (dense + 1..dense * 8).filter(|m| (m + phase as u64).is_multiple_of(stride));
        for m in (1..=dense).chain(later) {
            second += 1;
            let ended = trial(case, n, Some(m), &old, &new).map_err(|wrong| {
                format!("dead at store {n} of {stores}, its recoverer at store {m}: {wrong}")
            })?;
            if ended == End::Done {
                break;
            }
        }
    }
    Ok((stores, deaths, second))
}

/// Runs a case in which no process dies: how many stores it makes, what was there before and what is there after.
fn rehearse(case: &Case) -> Result<(u64, Location, Location), String> {
    // A segment of its own: reading brings back what lies in a tier.
    let old = location(&case.prepare().table);
    let place = case.prepare();
    // In a child, whose caches are as empty as those of the children that are going to die.
    let stores = counted(|| {
        take_seat(case, &place.table);
        let before = crash::passed();
        (case.operation)(&place.table);
        crash::passed() - before
    })?;
    let new = location(&place.table);
    check(&place.table)?;
    Ok((stores, old, new))
}

/// One death, or two: of the operation at store `n` and of its recoverer at store `m`. Returns how the recoverer ended.
fn trial(case: &Case, n: u64, m: Option<u64>, old: &Location, new: &Location) -> Result<End, String> {
    let place = case.prepare();
    let table = &place.table;
    let die = || {
        forked(|| {
            take_seat(case, table);
            crash::arm(n);
            (case.operation)(table);
            crash::arm(0);
        })
    };
    let ended = match m {
        None => die().map(|_| End::Killed)?,
        Some(m) => forked(|| {
            // Attached before the other dies, so that it recovers a seat that is not its own.
            table.seat().expect("a seat");
            let _ = die();
            crash::arm(m);
            recover(table);
            crash::arm(0);
        })?,
    };
    let first = read(table, old.keys().chain(new.keys()));
    judge(case, &first, old, new)?;
    let keys: Vec<&(u16, Vec<u8>)> = old.keys().chain(new.keys()).collect();
    // Before any thread searches for dead seats: a thread that needs a locked key recovers its owner on the way.
    let mut expected = first.clone();
    let delays = Delays::open().map_err(|error| error.to_string())?;
    for (db, key) in keys.iter().step_by((keys.len() / 6).max(1)) {
        let began = (Instant::now(), delays.waited());
        place.set(*db, key, b"from a survivor", None);
        let stalled = began.0.elapsed().saturating_sub(delays.waited() - began.1);
        if stalled > STALL_MAX {
            return Err(format!("{:?} could not be written for {stalled:?}", String::from_utf8_lossy(key)));
        }
        expected.insert((*db, key.clone()), b"from a survivor".to_vec());
    }
    recover(table);
    check(table)?;
    let found = read(table, old.keys().chain(new.keys()));
    heard(case, table, first.contains_key(&(0, kill_cases::TOLD.to_vec())))?;
    if case.whole == Whole::All && found != expected {
        return Err(format!("recovery changed what was read before: {}", difference(&found, &expected)));
    }
    if case.is_logged {
        kill_cases::logged::check(table, old, &location(table))?;
    }
    // What came back is used again: a node that is in two places shows now.
    (0..40u32).for_each(|number| {
        place.set(0, format!("later:{number}").as_bytes(), &vec![3; number as usize * 9], None)
    });
    place.run(|txn| txn.flush(None));
    kill_cases::do_maintenance(table, 20);
    check(table)?;
    Ok(ended)
}

/// Whether the letters that an operation sends have come with what they tell of, and else none.
fn heard(case: &Case, table: &Table, told: bool) -> Result<(), String> {
    let seat = table.seat().expect("a seat");
    let (mut letter, mut lengths) = (Vec::new(), Vec::new());
    while !case.letters.is_empty() && seat.receive(&mut letter).map_err(|fault| fault.to_string())? {
        let whole = letter[0] as usize == lengths.len() && letter[1..].iter().all(|byte| *byte == 7);
        if !whole {
            return Err(format!("letter {} of {} bytes is not what was sent", lengths.len(), letter.len()));
        }
        lengths.push(letter.len() - 1);
    }
    let expected: &[usize] = if told { case.letters } else { &[] };
    if lengths == expected {
        Ok(())
    } else {
        Err(format!("letters of {lengths:?} bytes came, not of {expected:?}"))
    }
}

/// The child's seat, unless taking it is what is tested.
fn take_seat(case: &Case, table: &Table) {
    if !case.attaches {
        table.seat().expect("a seat");
    }
}

fn check(table: &Table) -> Result<(), String> {
    let report = table.verify().map_err(|fault| fault.to_string())?;
    if report.is_clean() {
        Ok(())
    } else {
        Err(report.findings.iter().take(12).fold(String::new(), |text, finding| text + "\n    " + finding))
    }
}

/// Whether the keys are all old or all new; for operations of many transactions, each of them.
fn judge(case: &Case, found: &Location, old: &Location, new: &Location) -> Result<(), String> {
    let fits = match case.whole {
        Whole::All => found == old || found == new,
        Whole::Each => {
            let keys = old.keys().chain(new.keys());
            keys.clone().all(|key| [old.get(key), new.get(key)].contains(&found.get(key)))
        }
        Whole::Gone => found.iter().all(|(key, value)| old.get(key) == Some(value)),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("neither old ({}) nor new ({})", difference(found, old), difference(found, new)))
    }
}

fn difference(found: &Location, wanted: &Location) -> String {
    let keys: std::collections::BTreeSet<_> = found.keys().chain(wanted.keys()).collect();
    let shown =
        |value: Option<&Vec<u8>>| value.map_or("none".into(), |value| format!("{} bytes", value.len()));
    let different = keys.into_iter().filter(|key| found.get(key) != wanted.get(key));
    let all: Vec<String> = different
        .map(|key| {
            format!(
                "{}:{} {} not {}",
                key.0,
                String::from_utf8_lossy(&key.1),
                shown(found.get(key)),
                shown(wanted.get(key))
            )
        })
        .collect();
    format!("{} keys differ: {}", all.len(), all[..all.len().min(4)].join(", "))
}

/// All keys of the first databases and their values.
fn location(table: &Table) -> Location {
    let mut keys = Vec::new();
    for db in 0..3 {
        let mut cursor = 0;
        loop {
            let (next, found) = common::run_as(table, Mode::Read, |txn| {
                let mut found = Vec::new();
                let next =
                    txn.scan(db, cursor, 1000, &mut |scanned| found.push((db, scanned.key.to_vec())))?;
                Ok((next, found))
            });
            keys.extend(found);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    read(table, keys.iter())
}

fn read<'k>(table: &Table, keys: impl Iterator<Item = &'k (u16, Vec<u8>)>) -> Location {
    keys.filter_map(|(db, key)| Some(((*db, key.clone()), common::get(table, *db, key)?))).collect()
}

/// Runs `work` in a forked child and waits for its end.
fn forked(work: impl FnOnce()) -> Result<End, String> {
    match Child::of(work).wait() {
        End::Failed => Err("a child failed".into()),
        end => Ok(end),
    }
}

/// Runs `work` in a forked child and returns its number.
fn counted(work: impl FnOnce() -> u64) -> Result<u64, String> {
    use std::io::{Read, Write};
    let (mut reader, mut writer) = std::io::pipe().map_err(|error| error.to_string())?;
    forked(|| writer.write_all(&work().to_le_bytes()).expect("the parent reads"))?;
    let mut bytes = [0; 8];
    reader.read_exact(&mut bytes).map_err(|error| error.to_string())?;
    Ok(u64::from_le_bytes(bytes))
}
