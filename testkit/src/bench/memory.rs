//! Bytes per key, with everything counted, and the time to attach.
use std::process::Command;

use super::{Figures, Scale, spread};
use crate::caller::{Embedder, Quiet};
use crate::process::{Server, on_path};
use crate::resp::Connection;
use crate::scratch::Scratch;

const SIZES: [u64; 4] = [1_000_000, 1_500_000, 3_000_000, 10_000_000];

/// Bytes per key of `key:0000001` with 16- and 100-byte values and with an expiry, and redis-server's beside it.
///
/// # Errors
/// When a command is refused or redis-server cannot be had.
pub fn per_key(scale: &Scale) -> Result<Figures, String> {
    let mut figures = Figures::new();
    for size in SIZES {
        figures.push((format!("16-byte values, {size} keys"), bytes_per_key(scale.of(size), 16, &[])?));
    }
    figures.push((
        "16-byte values, mean".into(),
        figures.iter().map(|(_, bytes)| bytes).sum::<f64>() / SIZES.len() as f64,
    ));
    let million = scale.of(1_000_000);
    figures.push(("100-byte values, 1000000 keys".into(), bytes_per_key(million, 100, &[])?));
    figures.push((
        "16-byte values with expiry, 1000000 keys".into(),
        bytes_per_key(million, 16, &[b"EX", b"100000"])?,
    ));
    figures.push(("redis, 16-byte values, 1000000 keys".into(), redis_bytes_per_key(million)?));
    Ok(figures)
}

fn bytes_per_key(count: u64, length: usize, options: &[&[u8]]) -> Result<f64, String> {
    let scratch = Scratch::with_ceiling(8 << 30);
    let before = scratch.embedder.memory.table().usage().used;
    fill(&scratch.embedder, count, length, options)?;
    Ok((scratch.embedder.memory.table().usage().used - before) as f64 / count as f64)
}

fn fill(embedder: &Embedder, count: u64, length: usize, options: &[&[u8]]) -> Result<(), String> {
    let mut quiet = Quiet::default();
    let value = vec![b'x'; length];
    for at in 0..count {
        let key = format!("key:{at:07}");
        let mut args: Vec<&[u8]> = vec![b"SET", key.as_bytes(), &value];
        args.extend(options);
        quiet.call(embedder, &args)?;
    }
    Ok(())
}

fn redis_bytes_per_key(count: u64) -> Result<f64, String> {
    let program = on_path("redis-server").ok_or("redis-server is not installed")?;
    let server = Server::start_redis(&program).map_err(|error| error.to_string())?;
    let mut connection = Connection::open(&server.address()).map_err(|error| error.to_string())?;
    let before = used_memory(&mut connection)?;
    for first in (0..count).step_by(1000) {
        let batch = first..(first + 1000).min(count);
        for at in batch.clone() {
            connection
                .send(&["SET", &format!("key:{at:07}"), "xxxxxxxxxxxxxxxx"])
                .map_err(|error| error.to_string())?;
        }
        for _ in batch {
            connection.receive().map_err(|error| error.to_string())?;
        }
    }
    Ok((used_memory(&mut connection)? - before) / count as f64)
}

fn used_memory(connection: &mut Connection) -> Result<f64, String> {
    let text = connection.call(&["INFO", "memory"]).map_err(|error| error.to_string())?.shown();
    let figure = text
        .split("used_memory:")
        .nth(1)
        .and_then(|rest| rest.split("\\r").next())
        .and_then(|word| word.parse().ok());
    figure.ok_or_else(|| "INFO has no used_memory".into())
}

/// Milliseconds in which a process attaches 10 M keys and reads one of them, and microseconds of the first call after the attach alone.
///
/// # Errors
/// When a process cannot be had.
pub fn attach(scale: &Scale) -> Result<Figures, String> {
    let count = scale.of(10_000_000);
    let scratch = Scratch::with_ceiling(4 << 30);
    fill(&scratch.embedder, count, 16, &[])?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let last = format!("key:{:07}", count - 1);
    let probe = |name: &str| -> Result<Vec<f64>, String> {
        let one = |_| {
            let output =
                Command::new(&program).args(["probe", name, &scratch.options.segment, &last]).output();
            number(&output.map_err(|error| error.to_string())?)
        };
        (0..scale.rounds.max(5)).map(one).collect()
    };
    let mut figures = spread("attach and GET ms", probe("attach")?);
    figures.extend(spread("first GET after attach us", probe("first")?));
    figures.extend(spread("first SET after attach us", probe("first-set")?));
    Ok(figures)
}

/// The number that a probe printed.
///
/// # Errors
/// What it printed instead.
pub fn number(output: &std::process::Output) -> Result<f64, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}
