//! Many threads, and a stopped process, on one table: what each of them may rely on.
//!
//! The tests are short and say what must never be seen; they do not depend on who wins a race. Each ends with the
//! judgement of `Table::verify`, as [`Place`] is dropped.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Ends, Place, run_as};
use polder_shm::AttachOptions;
use polder_shm::Segment;
use polder_table::bucket::PIECE_BUCKETS;
use polder_table::directory::{Bucket, extent};
use polder_table::{Found, Mode, New, Replaces, Stop, Table, Txn};
use polder_values::{Kind, Value};

fn write(txn: &Txn<'_>, db: u16, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    txn.write(db, key, &New::of(Kind::String, Value::Packed(value)), Replaces::Whole)
}

fn bytes_of(txn: &Txn<'_>, db: u16, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
    match txn.find(db, key)? {
        None => Ok(None),
        Some(Found { value: Value::Packed(bytes), .. }) => Ok(Some(bytes.to_vec())),
        Some(_) => panic!("not packed"),
    }
}

fn number_of(txn: &Txn<'_>, key: &[u8]) -> Result<u64, Stop> {
    Ok(number_in(txn, 0, key)?.unwrap_or(0))
}

fn number_in(txn: &Txn<'_>, db: u16, key: &[u8]) -> Result<Option<u64>, Stop> {
    Ok(bytes_of(txn, db, key)?.map(|bytes| u64::from_le_bytes(bytes[..8].try_into().expect("a number"))))
}

/// A number as a value of one of several lengths, so that entries move between buckets and records.
fn padded(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + length, 7);
    bytes
}

/// Draws numbers from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }
}

#[test]
fn no_increment_is_lost() {
    const THREADS: u64 = 4;
    const EACH: u64 = 3_000;
    let place = &Place::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut draws = Draws(thread);
                for _ in 0..EACH {
                    let key = format!("counter:{}", draws.below(3));
                    place.run(|txn| {
                        txn.declare(&[(0, key.as_bytes())])?;
                        let now = number_of(txn, key.as_bytes())?;
                        write(txn, 0, key.as_bytes(), &padded(now + 1, now as usize % 60))
                    });
                }
            });
        }
    });
    let sum: u64 = (0..3)
        .map(|number| {
            run_as(&place.table, Mode::Read, |txn| number_of(txn, format!("counter:{number}").as_bytes()))
        })
        .sum();
    assert_eq!(sum, THREADS * EACH);
    assert_eq!(place.keys(0), 3);
}

#[test]
fn a_declaration_within_a_transaction_waits_for_no_lock_out_of_order() {
    let place = &Place::new();
    let held = &Barrier::new(2);
    for more in [&[][..], &[(2, &b"third"[..])]] {
        let outcomes = std::thread::scope(|scope| {
            // Of different databases: they share no bucket.
            let threads = [[0, 1], [1, 0]].map(|[mine, other]| {
                scope.spawn(move || {
                    let txn = place.table.begin(Mode::Write).expect("a seat");
                    txn.limit_patience(Duration::from_secs(2));
                    write(&txn, mine, b"key", b"never seen").expect("nobody else has it");
                    held.wait();
                    let keys = [&[(other, &b"key"[..])][..], more].concat();
                    txn.declare(&keys)
                })
            });
            threads.map(|thread| thread.join().expect("it has ended"))
        });
        assert!(
            !outcomes.iter().any(|outcome| matches!(outcome, Err(Stop::Busy))),
            "{outcomes:?}: they waited for one another"
        );
        assert!(outcomes.iter().any(|outcome| matches!(outcome, Err(Stop::Retry))), "{outcomes:?}");
    }
}

#[test]
fn readers_of_many_keys_see_one_moment() {
    const ACCOUNTS: usize = 300;
    const START: u64 = 1_000;
    let place = &Place::new();
    let names: Vec<Vec<u8>> = (0..ACCOUNTS).map(|number| format!("account:{number}").into_bytes()).collect();
    let keys: Vec<(u16, &[u8])> = names.iter().map(|name| (0, &name[..])).collect();
    place.run(|txn| {
        txn.declare(&keys)?;
        keys.iter().try_for_each(|(_, key)| write(txn, 0, key, &padded(START, 0)))
    });
    let (end, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (keys, end, moves) = (&keys, &end, &moves);
            scope.spawn(move || {
                let mut draws = Draws(100 + thread);
                while !end.load(Ordering::Relaxed) {
                    let (from, to) = (keys[draws.below(ACCOUNTS)], keys[draws.below(ACCOUNTS)]);
                    let length = draws.below(70);
                    if from == to {
                        continue;
                    }
                    place.run(|txn| {
                        txn.declare(&[from, to])?;
                        let (poorer, richer) = (number_of(txn, from.1)?, number_of(txn, to.1)?);
                        write(txn, 0, from.1, &padded(poorer.wrapping_sub(1), length))?;
                        write(txn, 0, to.1, &padded(richer.wrapping_add(1), length))
                    });
                    moves.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _ends = Ends(&end);
        let begun = Instant::now();
        let mut rounds = 0;
        while begun.elapsed() < Duration::from_millis(800) || rounds < 20 {
            let some = if rounds % 2 == 0 { &keys[..] } else { &keys[..2] };
            let sum = run_as(&place.table, Mode::Read, |txn| {
                txn.declare(some)?;
                some.iter()
                    .try_fold(0u64, |sum, (_, key)| Ok::<_, Stop>(sum.wrapping_add(number_of(txn, key)?)))
            });
            if some.len() == ACCOUNTS {
                assert_eq!(sum, ACCOUNTS as u64 * START, "after {} moves", moves.load(Ordering::Relaxed));
            }
            rounds += 1;
        }
    });
    assert!(moves.load(Ordering::Relaxed) > 0);
    assert_eq!(place.keys(0), ACCOUNTS as u64);
}

#[test]
fn keys_that_are_there_are_found_while_the_table_grows_and_values_change_size() {
    let place = &Place::new();
    let (known, end) = (AtomicU64::new(0), AtomicBool::new(false));
    let name = |number: u64| format!("key:{number}").into_bytes();
    std::thread::scope(|scope| {
        let (known, end) = (&known, &end);
        scope.spawn(move || {
            let _ends = Ends(end);
            for number in 0..12_000 {
                place.set(0, &name(number), &padded(number, 0), None);
                known.store(number + 1, Ordering::Release);
            }
        });
        // Entries that grow and shrink move between home, neighbour and stash.
        scope.spawn(move || {
            let mut draws = Draws(5);
            while !end.load(Ordering::Relaxed) {
                let there = known.load(Ordering::Acquire).max(1);
                let number = draws.below(there as usize) as u64;
                if number < known.load(Ordering::Acquire) {
                    place.set(0, &name(number), &padded(number, draws.below(34)), None);
                }
            }
        });
        let mut draws = Draws(6);
        while !end.load(Ordering::Relaxed) {
            let there = known.load(Ordering::Acquire);
            for _ in 0..50.min(there) {
                let number = draws.below(there as usize) as u64;
                let found = place
                    .get(0, &name(number))
                    .unwrap_or_else(|| panic!("key:{number} of {there} is not found"));
                assert_eq!(found[..8], number.to_le_bytes());
            }
        }
    });
    assert_eq!(place.keys(0), 12_000);
}

#[test]
fn a_record_that_is_read_the_short_way_is_whole_however_often_it_is_replaced() {
    const KEYS: u64 = 16;
    let place = &Place::new();
    let name = |number: u64| format!("key:{number}").into_bytes();
    (0..KEYS).for_each(|number| place.set(0, &name(number), &vec![7; 60 + number as usize * 9], None));
    let end = &AtomicBool::new(false);
    let quick: u64 = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ends = Ends(end);
            let mut draws = Draws(8);
            for round in 0..60_000 {
                let key = name(draws.below(KEYS as usize) as u64);
                match round % 50 {
                    0 => drop(place.remove(0, &key)),
                    1 => place.set(0, &key, &[round as u8; 20], None),
                    2 => place.set(0, &key, &[round as u8; 700], Some(1)),
                    _ => place.set(0, &key, &vec![round as u8; 60 + draws.below(500)], None),
                }
            }
        });
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                scope.spawn(move || {
                    let (mut draws, mut quick) = (Draws(seed), 0);
                    while !end.load(Ordering::Relaxed) {
                        let key = name(draws.below(KEYS as usize) as u64);
                        let Some(location) = place.table.location(0, &key) else { continue };
                        let now_ms = polder_base::time::now_ms();
                        let whole = place.table.quick_get(&location, &key, now_ms, |found| {
                            found.is_none_or(|value| {
                                value.len() >= 20
                                    && value.len() != 700
                                    && value.iter().all(|byte| *byte == value[0])
                            })
                        });
                        assert_ne!(whole, Some(false));
                        quick += u64::from(whole.is_some());
                    }
                    quick
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("no panic")).sum()
    });
    assert!(quick > 1000, "the short way was hardly ever taken: {quick}");
}

#[test]
fn plain_values_are_whole_on_every_path_that_writes_them() {
    const KEYS: usize = 40;
    let place = &Place::new();
    let name = |number: usize| format!("plain:{number:03}").into_bytes();
    (0..KEYS).for_each(|number| place.set(0, &name(number), &[0; 12], None));
    let end = &AtomicBool::new(false);
    let (read, written) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let seen = |key: &[u8]| {
        place.table.read_plain(0, place.table.hash(key), key, |value| {
            assert!(matches!(value.len(), 6..=20) && value.iter().all(|byte| *byte == value[0]), "{value:?}");
        })
    };
    std::thread::scope(|scope| {
        for seed in 0..2u64 {
            scope.spawn(move || {
                let mut draws = Draws(seed + 20);
                for round in 0..40_000usize {
                    let key = name(draws.below(KEYS));
                    let value = vec![round as u8; 6 + draws.below(15)];
                    if place.table.write_plain(0, place.table.hash(&key), &key, &value) {
                        written.fetch_add(1, Ordering::Relaxed);
                    } else if round % 7 == 0 {
                        place.set(0, &key, &value, None);
                    } else if round % 97 == 1 {
                        place.remove(0, &key);
                    }
                }
                end.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(move || {
            let mut draws = Draws(31);
            while !end.load(Ordering::Relaxed) {
                if seen(&name(draws.below(KEYS))).is_some() {
                    read.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    });
    let (read, written) = (read.load(Ordering::Relaxed), written.load(Ordering::Relaxed));
    assert!(
        read > 1_000 && written > 1_000,
        "the shortest way was hardly ever taken: {read} reads, {written} writes"
    );
}

/// Adds one to numbers by locations that are mostly out of date by then; returns how many times it was done.
fn count_by_old_locations(place: &Place, keys: &[Vec<u8>], seed: u64, end: &AtomicBool) -> u64 {
    let (mut draws, mut done) = (Draws(seed), 0);
    let location =
        |key: usize, db: usize| place.table.location(db as u16, &keys[key]).map(|location| (key, location));
    let mut locations: Vec<_> = (0..keys.len()).map(|key| location(key, 0)).collect();
    while !end.load(Ordering::Relaxed) {
        let at = draws.below(locations.len());
        if let Some((key, location)) = &locations[at] {
            let next = &mut [0; 64];
            let edited = place.table.edit_plain(
                location,
                &keys[*key],
                (polder_base::time::now_ms(), 1),
                move |old| {
                    // It may be shown what never was.
                    let (next, number) = (next.get_mut(..old.len())?, old.first_chunk()?);
                    next.copy_from_slice(old);
                    next[..8].copy_from_slice(&u64::from_le_bytes(*number).wrapping_add(1).to_le_bytes());
                    Some((&*next, ()))
                },
                |_| (),
            );
            done += u64::from(edited.is_some());
        }
        if draws.below(40) == 0 {
            locations[at] = location(draws.below(keys.len()), draws.below(2));
        }
    }
    done
}

#[test]
fn a_location_that_is_out_of_date_changes_nothing_but_its_key() {
    const ROUNDS: u64 = 25_000;
    let place = &Place::new();
    let keys: &Vec<Vec<u8>> = &(0..60).map(|number| format!("number:{number:02}").into_bytes()).collect();
    keys.iter().for_each(|key| place.set(0, key, &padded(0, 0), None));
    let end = &AtomicBool::new(false);
    let done: u64 = std::thread::scope(|scope| {
        let counters: Vec<_> = (0..2)
            .map(|seed| scope.spawn(move || count_by_old_locations(place, keys, seed + 50, end)))
            .collect();
        // What lies between them comes and goes, so that extents grow, split and shrink.
        scope.spawn(move || {
            let _ends = Ends(end);
            let filler = |number: u64| format!("filler:{}", number % 9_000).into_bytes();
            for number in 0..ROUNDS {
                place.set(0, &filler(number), &padded(number, number as usize % 30), None);
                if number > 6_000 {
                    place.remove(0, &filler(number - 6_000));
                }
                if number % 500 == 0 {
                    place.table.run_maintenance(500);
                }
                if number % 3_000 == 1_500 {
                    place.run(|txn| txn.swap(0, 1));
                }
            }
        });
        // They become longer and shorter, are displaced and come home, get a record, go away and come back, here or there.
        let mut draws = Draws(60);
        while !end.load(Ordering::Relaxed) {
            let (key, db, to) =
                (&keys[draws.below(keys.len())][..], draws.below(2) as u16, draws.below(2) as u16);
            let (length, way) = (draws.below(70), draws.below(4));
            let taken = place.run(|txn| {
                txn.declare(&[(db, key), (to, key)])?;
                let Some(number) = number_in(txn, db, key)? else { return Ok(None) };
                if way > 0 {
                    write(txn, db, key, &padded(number, length))?;
                    return Ok(None);
                }
                txn.remove(db, key, Replaces::Whole)?;
                Ok(Some(number))
            });
            if let Some(number) = taken {
                place.run(|txn| {
                    let there = number_in(txn, to, key)?.unwrap_or(0);
                    write(txn, to, key, &padded(there + number, length % 8))
                });
            }
        }
        counters.into_iter().map(|counter| counter.join().expect("no panic")).sum()
    });
    let sum_of = |db| {
        run_as(&place.table, Mode::Read, |txn| {
            keys.iter().try_fold(0, |sum, key| Ok(sum + number_in(txn, db, key)?.unwrap_or(0)))
        })
    };
    assert_eq!(sum_of(0) + sum_of(1), done);
    assert!(done > 1_000, "the short way was hardly ever taken: {done}");
}

#[test]
fn a_scan_shows_every_stable_key_while_the_table_grows() {
    const STABLE: usize = 2_000;
    let place = &Place::new();
    for number in 0..STABLE {
        place.set(0, format!("stable:{number}").as_bytes(), b"1", None);
    }
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = &end;
        scope.spawn(move || {
            let _ends = Ends(end);
            let mut draws = Draws(9);
            for number in 0..8_000 {
                place.set(0, format!("new:{number}").as_bytes(), b"1", None);
                place.set(
                    0,
                    format!("stable:{}", draws.below(STABLE)).as_bytes(),
                    &padded(1, draws.below(34)),
                    None,
                );
            }
        });
        let mut rounds = 0;
        while !end.load(Ordering::Relaxed) || rounds == 0 {
            let mut seen = std::collections::HashSet::new();
            let mut cursor = 0;
            loop {
                let txn = place.table.begin(Mode::Read).expect("a seat");
                let visit = &mut |scanned: polder_table::Scanned<'_>| {
                    seen.insert(scanned.key.to_vec());
                };
                cursor = txn.scan(0, cursor, 50, visit).expect("readable");
                if cursor == 0 {
                    break;
                }
            }
            let missing: Vec<usize> =
                (0..STABLE).filter(|number| !seen.contains(format!("stable:{number}").as_bytes())).collect();
            assert_eq!(missing, [0usize; 0], "in round {rounds}");
            rounds += 1;
        }
    });
}

#[test]
fn a_flush_takes_all_keys_of_a_transaction_or_none() {
    let place = &Place::new();
    let names: Vec<Vec<u8>> = (0..40).map(|number| format!("pair:{number}").into_bytes()).collect();
    let keys: Vec<(u16, &[u8])> = names.iter().map(|name| (0, &name[..])).collect();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (keys, end) = (&keys, &end);
        for _ in 0..2 {
            scope.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    place.run(|txn| {
                        txn.declare(keys)?;
                        keys.iter().try_for_each(|(db, key)| write(txn, *db, key, &[3; 90]))
                    });
                }
            });
        }
        scope.spawn(move || {
            while !end.load(Ordering::Relaxed) {
                place.run(|txn| txn.flush(Some(0)));
                place.table.run_maintenance(2_000);
                std::thread::yield_now();
            }
        });
        let _ends = Ends(end);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(700) {
            let there = run_as(&place.table, Mode::Read, |txn| {
                txn.declare(keys)?;
                keys.iter().try_fold(0, |there, (db, key)| {
                    Ok::<_, Stop>(there + txn.find(*db, key)?.is_some() as usize)
                })
            });
            assert!(there == 0 || there == keys.len(), "{there} of {} keys", keys.len());
        }
    });
    place.run(|txn| txn.flush(None));
    assert_eq!(place.keys(0), 0);
}

#[test]
fn swaps_beside_writers_of_both_databases_lose_nothing_and_end() {
    const EACH: u64 = 400;
    let place = &Place::new();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = &end;
        scope.spawn(move || {
            while !end.load(Ordering::Relaxed) {
                place.run(|txn| txn.swap(0, 1));
                std::thread::yield_now();
            }
        });
        let _ends = Ends(end);
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                scope.spawn(move || {
                    for number in 0..EACH {
                        // Both databases in one transaction: a swap between two locks changes what the numbers mean.
                        let key = format!("{thread}:{number}").into_bytes();
                        place.run(|txn| {
                            txn.declare(&[(0, &key), (1, &key)])?;
                            write(txn, 0, &key, b"1")?;
                            write(txn, 1, &key, b"1")
                        });
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    });
    assert_eq!([place.keys(0), place.keys(1)], [2 * EACH; 2]);
}

/// The process that is stopped while it holds a lock: this very test again, with the segment's name in its environment.
const HOLDER: &str = "POLDER_STRESS_HOLDER";

fn hold_and_wait(name: &str) -> ! {
    let segment =
        Segment::attach(&name.parse().expect("a name"), &AttachOptions::default(), &mut |_, _| Ok(()))
            .expect("the parent's segment");
    let table = Table::over(segment);
    let txn = table.begin(Mode::Write).expect("a seat");
    txn.declare(&[(0, b"held")])
        .and_then(|()| write(&txn, 0, b"held", b"never seen"))
        .expect("the only writer");
    println!("holds");
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_stopped_holder_of_a_lock_stops_no_reader_and_no_writer_elsewhere_and_dies_without_harm() {
    if let Ok(name) = std::env::var(HOLDER) {
        hold_and_wait(&name);
    }
    let place = &Place::new();
    place.set(0, b"held", b"before", None);
    let name = |number: u32| format!("key:{number}").into_bytes();
    (0..5_000).for_each(|number| place.set(0, &name(number), b"1", None));
    let this = std::thread::current().name().expect("tests have names").to_owned();
    let mut holder = Command::new(std::env::current_exe().expect("this test"))
        .args([&this, "--exact", "--nocapture"])
        .env(HOLDER, place.name.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(holder.stdout.take().expect("piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("holds")), "the holder died early");
    let signal = |number: &str| {
        Command::new("kill").args([number, &holder.id().to_string()]).status().expect("kill").success()
    };
    assert!(signal("-STOP"));
    // Another extent: a neighbour of the held bucket may need it for what does not fit at home.
    let extent = |key: &[u8]| place.table.inspect(0, key).expect("readable").expect("there").extent;
    let held = extent(b"held");
    let free: Vec<u32> = (0..5_000).filter(|number| extent(&name(*number)) != held).collect();
    assert!(!free.is_empty());
    for number in free.iter().copied().step_by(20) {
        place.set(0, &name(number), b"2", None);
        assert_eq!(place.get(0, b"held").as_deref(), Some(&b"before"[..]));
    }
    assert!(signal("-KILL"));
    place.set(0, b"held", b"after", None);
    assert_eq!(place.get(0, b"held").as_deref(), Some(&b"after"[..]));
    assert_eq!(place.keys(0), 5_001);
    holder.wait().expect("killed");
}

#[test]
fn the_home_tells_what_moves_within_the_stash() {
    // How often something moves depends on the hash's secret.
    let moves: u32 = (0..12).map(|_| moves_within_the_stash()).sum();
    assert!(moves > 10, "{moves} moves");
}

fn moves_within_the_stash() -> u32 {
    let place = &Place::new();
    let name = |number: usize| format!("key:{number:06}").into_bytes();
    let shown = |key: &[u8]| place.table.inspect(0, key).expect("readable").expect("there");
    // Entries that fill an extent until several that have the same two buckets of the stash to choose from lie there.
    let mut number = 0;
    let stashed: Vec<Vec<u8>> = loop {
        place.set(0, &name(number), &[1; 41], None);
        number += 1;
        let last = shown(&name(number - 1));
        if last.displacement != "stash" || last.pieces < 3 {
            continue;
        }
        let stashes = last.pieces * 7 - last.homes;
        let likes = |key: &Vec<u8>| {
            shown(key).displacement == "stash" && shown(key).home % stashes == last.home % stashes
        };
        let keys: Vec<Vec<u8>> = (0..number).rev().map(name).filter(likes).collect();
        if keys.len() > 3 {
            break keys;
        }
    };
    let key = &stashed[0];
    let first = shown(key);
    let segment = place.table.segment();
    let piece = segment.load(first.extent + extent::PIECES + first.home / PIECE_BUCKETS * 8) << 3;
    let line = Bucket::of(piece, first.home % PIECE_BUCKETS).line;
    let (mut draws, mut moves) = (Draws(1), 0);
    for _ in 0..2_000 {
        let (which, length) = (draws.below(stashed.len()), [41, 25][draws.below(2)]);
        let (before, word) = (shown(key).bucket, segment.load(line));
        place.set(0, key, &vec![2; length], None);
        if shown(key).bucket != before {
            moves += 1;
            // A scan that looks into both buckets, into each when the entry is in the other, knows by this.
            assert_ne!(segment.load(line), word, "the entry has moved, and its home is as it was");
        }
        // The others come and go, so that now the one and now the other bucket is the emptier.
        match draws.below(2) {
            0 if which > 0 => drop(place.remove(0, &stashed[which])),
            _ => place.set(0, &stashed[which], &vec![3; length], None),
        }
    }
    moves
}
