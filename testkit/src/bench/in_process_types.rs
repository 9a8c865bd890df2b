//! One thread in this process: commands on one small collection, through the API that a program uses.
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_engine::{Caller, Memory};

use super::{Figures, Scale, median};
use crate::scratch::Scratch;

/// Calls of each kind in a round, and elements of the small collections.
const CALLS: u64 = 400_000;
const SMALL: usize = 16;
/// What raids does in-process, in millions a second (see ANCHORS): on another machine, so the ratio tells an order of magnitude.
const RAIDS: [(&str, f64); 7] = [
    ("LPUSH", 12.2),
    ("LPOP", 12.2),
    ("SADD", 9.8),
    ("SPOP", 10.5),
    ("HSET", 7.2),
    ("LRANGE_100", 0.658),
    ("MSET of ten", 3.2),
];

/// Calls a second of commands on one small list, set and hash, of LRANGE of a hundred elements and of MSET of ten keys.
///
/// # Errors
/// When a call is refused.
pub fn types(scale: &Scale) -> Result<Figures, String> {
    let scratch = Scratch::new();
    let memory = Arc::new(Memory::attach(&scratch.options).map_err(|fault| fault.to_string())?);
    let mut caller = Caller::new(&memory);
    let mut call = |args: &[&[u8]]| {
        caller.show(args, |_| ()).map_err(|error| format!("{}: {error}", args[0].escape_ascii()))
    };
    let names: Vec<Vec<u8>> = (0..100).map(|number| format!("element:{number:04}").into_bytes()).collect();
    names.iter().try_for_each(|name| call(&[b"RPUSH", b"hundred", name]))?;
    let mut pairs: Vec<&[u8]> = vec![b"MSET"];
    names[..10].iter().for_each(|name| pairs.extend([name.as_slice(), b"0123456789abcdef"]));
    let rounds = scale.of(CALLS) / SMALL as u64;
    let mut rates = vec![Vec::new(); RAIDS.len()];
    for _ in 0..scale.rounds {
        let mut spent = [Duration::ZERO; RAIDS.len()];
        for _ in 0..rounds {
            let small = &names[..SMALL];
            timed(&mut spent[0], small, |name| call(&[b"LPUSH", b"list", name]))?;
            timed(&mut spent[1], small, |_| call(&[b"LPOP", b"list"]))?;
            timed(&mut spent[2], small, |name| call(&[b"SADD", b"set", name]))?;
            timed(&mut spent[3], small, |_| call(&[b"SPOP", b"set"]))?;
            timed(&mut spent[4], small, |name| call(&[b"HSET", b"hash", name, b"0123456789abcdef"]))?;
            timed(&mut spent[5], small, |_| call(&[b"LRANGE", b"hundred", b"0", b"99"]))?;
            timed(&mut spent[6], small, |_| call(&pairs))?;
        }
        for (rates, spent) in rates.iter_mut().zip(spent) {
            rates.push((rounds * SMALL as u64) as f64 / spent.as_secs_f64() / 1e6);
        }
    }
    let rates = rates.into_iter().map(median).zip(RAIDS);
    Ok(rates
        .flat_map(|(rate, (name, raids))| {
            [(format!("{name} M/s"), rate), (format!("{name} / raids"), rate / raids)]
        })
        .collect())
}

/// Adds the time of a call for each name.
fn timed(
    spent: &mut Duration,
    names: &[Vec<u8>],
    mut call: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let started = Instant::now();
    names.iter().try_for_each(|name| call(name))?;
    *spent += started.elapsed();
    Ok(())
}
