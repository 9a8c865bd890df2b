//! Write paths while the change log is on: whenever a process dies, what the log tells, done over what was there before, is what is there.
use std::collections::BTreeMap;

use polder_table::{Found, Stop, Table};
use polder_values::{Nodes, string};

use super::Case;
use crate::common::Place;

/// Keys of the first databases, and their values.
type Location = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

/// Of each write path, the same with the log on. Nothing tells what the operations of transactions do, so that each key is told by its state, except
/// where the table tells it itself; fast paths tell of it in the same way.
pub fn cases() -> Vec<Case> {
    // What flushes and swaps databases is told by the calls. In a full memory the stream ends, and another one begins.
    let is_left_out = |case: &Case| ["flush", "swap", "full"].iter().any(|word| case.name.contains(word));
    let all = [super::entries(), super::records(), super::trees(), super::databases(), super::alone()];
    let mut cases: Vec<Case> = all.into_iter().flatten().filter(|case| !is_left_out(case)).collect();
    cases.extend(
        super::maintenance()
            .into_iter()
            .filter(|case| ["expiring-key", "collect-expired", "meet-expired", "evict"].contains(&case.name)),
    );
    cases.extend(super::fast_paths::that_tell());
    cases.push(move_out_of_slabs());
    cases.into_iter().map(with_log).collect()
}

/// What moves is not told. The log's blocks find room where other large nodes have been.
fn move_out_of_slabs() -> Case {
    let block = |number: u32| format!("block:{number}").into_bytes();
    let before = move |place: &Place| {
        (0..60).for_each(|number| place.set(0, &block(number), &[1; 15_000], None));
        super::scatter(place);
        (0..60).filter(|number| number % 3 != 0).for_each(|number| assert!(place.remove(0, &block(number))));
        while place.table.reclaim() {}
    };
    Case { ceiling: 4 << 20, ..super::case("move-out-of-slabs", before, super::move_some) }
}

fn with_log(case: Case) -> Case {
    let before = case.before;
    Case {
        name: format!("log-{}", case.name).leak(),
        is_logged: true,
        before: Box::new(move |place| {
            before(place);
            let log = place.table.log();
            place.table.dumps_by(dump);
            log.keep(256 << 20, 0);
            log.turn_on().expect("a log");
        }),
        ..case
    }
}

/// The bytes that `common::get` reads.
fn dump(nodes: &dyn Nodes, found: &Found<'_>, into: &mut Vec<u8>) -> Result<(), Stop> {
    into.extend_from_slice(&string::contiguous(nodes, &found.value)?);
    Ok(())
}

/// Whether the log leads from what was there before to what is there.
pub fn check(table: &Table, old: &Location, found: &Location) -> Result<(), String> {
    let log = table.log();
    while log.merge().map_err(|fault| fault.to_string())? {}
    let mut stream = Vec::new();
    log.read(log.range().0, &mut stream, usize::MAX).map_err(|error| error.to_string())?;
    let (mut there, mut db, mut rest) = (old.clone(), None, &stream[..]);
    while !rest.is_empty() {
        let (words, behind) = command(rest).ok_or("the stream ends inside a command")?;
        rest = behind;
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
        match &words[..] {
            [b"MULTI"] | [b"EXEC"] => {}
            [b"SELECT", number_of_db] => db = number(number_of_db).map(|number| number as u16),
            [name, rest @ ..] => {
                let db = db.ok_or("no database is selected")?;
                match (*name, rest) {
                    (b"DEL", keys) => keys.iter().for_each(|key| drop(there.remove(&(db, key.to_vec())))),
                    (b"RESTORE", [key, expiry_ms, value, ..]) => {
                        let expiry_ms = number(expiry_ms).ok_or("RESTORE has no time")?;
                        match expiry_ms != 0 && expiry_ms <= polder_base::time::now_ms() {
                            true => drop(there.remove(&(db, key.to_vec()))),
                            false => drop(there.insert((db, key.to_vec()), value.to_vec())),
                        }
                    }
                    (b"SET", [key, value]) => drop(there.insert((db, key.to_vec()), value.to_vec())),
                    (b"SET", [key, value, b"PXAT", _]) => {
                        there.insert((db, key.to_vec()), value.to_vec());
                    }
                    (b"MSET", pairs) => pairs.chunks(2).for_each(|pair| {
                        there.insert((db, pair[0].to_vec()), pair[1].to_vec());
                    }),
                    // Flags and expiry of an item are none of its bytes here.
                    (b"ECHO", _) => {}
                    _ => return Err(format!("the log tells {}", name.escape_ascii())),
                }
            }
            [] => return Err("a command without a name".into()),
        }
    }
    let keys = there.keys().chain(found.keys());
    match keys.into_iter().find(|key| there.get(*key) != found.get(*key)) {
        None => Ok(()),
        Some((db, key)) => Err(format!(
            "the log of {} bytes leads to another value of {db}:{}",
            stream.len(),
            key.escape_ascii()
        )),
    }
}

/// The words of a command as Redis writes it, and what is behind it.
fn command(bytes: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let line = |bytes: &'_ [u8]| {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[1..end]).ok()?.parse::<usize>().ok()?;
        Some((number, end + 2))
    };
    let (count, mut at) = line(bytes)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, behind) = line(&bytes[at..])?;
        at += behind;
        words.push(bytes.get(at..at + length)?);
        at += length + 2;
    }
    Some((words, bytes.get(at..)?))
}
