//! How long one call takes, one after another: in this process, by the C library, and over a Unix socket to Polder and the others. Python has a
//! measurement of its own (`python`).
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::doors::c_latency;
use super::network::rivals_with;
use super::{Figures, Scale, spread};
use crate::resp::framed;
use crate::scratch::Scratch;

/// Few enough to stay in the cache, as in the measurement of Python.
const KEYS: usize = 10_000;
const VALUE: &[u8; 16] = b"0123456789abcdef";
/// A call in this process is too short for a clock: this many are timed together.
const TOGETHER: usize = 100;

/// The median of the time of a GET and a SET, in nanoseconds, of each round.
///
/// # Errors
/// When a server cannot be started or refuses a call.
pub fn latency(scale: &Scale) -> Result<Figures, String> {
    let count = scale.of(100_000) as usize;
    let mut figures = in_process(scale, count)?;
    let path = std::env::temp_dir().join(format!("polder-latency-{}.sock", std::process::id()));
    let rivals = rivals_with(scale, &["--unixsocket", &path.to_string_lossy()])?;
    let mut runs = vec![[Vec::new(), Vec::new()]; rivals.len()];
    for _ in 0..scale.rounds {
        for (rival, [sets, gets]) in rivals.iter().zip(&mut runs) {
            let named = |error: std::io::Error| format!("{}: {error}", rival.name);
            // Whatever is left of the server before.
            let _ = std::fs::remove_file(&path);
            let server = (rival.start)().map_err(named)?;
            let mut socket = UnixStream::connect(&path).map_err(named)?;
            // The first round makes the keys.
            asked(&mut socket, KEYS, &|key| framed(&[&b"SET"[..], key, VALUE]), b"+OK\r\n").map_err(named)?;
            sets.push(
                asked(&mut socket, count, &|key| framed(&[&b"SET"[..], key, VALUE]), b"+OK\r\n")
                    .map_err(named)?,
            );
            let reply = [b"$16\r\n", &VALUE[..], b"\r\n"].concat();
            gets.push(asked(&mut socket, count, &|key| framed(&[&b"GET"[..], key]), &reply).map_err(named)?);
            drop(server);
        }
    }
    let _ = std::fs::remove_file(&path);
    for (rival, [sets, gets]) in rivals.iter().zip(runs) {
        figures.extend(spread(&format!("GET {}, Unix socket ns", rival.name), gets));
        figures.extend(spread(&format!("SET {}, Unix socket ns", rival.name), sets));
    }
    Ok(figures)
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{:012}", number % KEYS).into_bytes()
}

fn in_process(scale: &Scale, count: usize) -> Result<Figures, String> {
    let scratch = Scratch::new();
    let db = scratch.embedder.memory.database(0);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let set = |key: &[u8]| db.set(key, VALUE).map_err(|stop| stop.to_string());
    let get = |key: &[u8]| {
        let copied = |value: Option<&[u8]>| {
            std::hint::black_box(value.and_then(|value| <[u8; 16]>::try_from(value).ok()))
        };
        db.read(key, copied).map(drop).map_err(|stop| stop.to_string())
    };
    let (mut sets, mut gets) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        called(&keys, KEYS, &set)?;
        sets.push(called(&keys, count, &set)?);
        gets.push(called(&keys, count, &get)?);
    }
    let c = c_latency(scale, &scratch.options.segment, KEYS)?;
    Ok([spread("GET in this process ns", gets), spread("SET in this process ns", sets), c].concat())
}

/// The median of what a call takes, of groups of them.
fn called(keys: &[Vec<u8>], count: usize, call: &dyn Fn(&[u8]) -> Result<(), String>) -> Result<f64, String> {
    let mut times = Vec::new();
    for group in 0..count.div_ceil(TOGETHER) {
        let began = Instant::now();
        for at in 0..TOGETHER {
            call(&keys[(group * TOGETHER + at) % keys.len()])?;
        }
        times.push(began.elapsed().as_nanos() as f64 / TOGETHER as f64);
    }
    Ok(super::median(times))
}

/// The median of what a request takes until its reply is there.
fn asked(
    socket: &mut UnixStream,
    count: usize,
    request: &dyn Fn(&[u8]) -> Vec<u8>,
    expected: &[u8],
) -> std::io::Result<f64> {
    let mut reply = vec![0; expected.len()];
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let bytes = request(&key(number));
        let began = Instant::now();
        socket.write_all(&bytes)?;
        socket.read_exact(&mut reply)?;
        times.push(began.elapsed().as_nanos() as f64);
        if reply != expected {
            return Err(std::io::Error::other(format!("the reply is {}", reply.escape_ascii())));
        }
    }
    Ok(super::median(times))
}
