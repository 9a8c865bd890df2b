//! Walking over all keys: `--scan` lists them, `--bigkeys` and `--memkeys` look for the largest of each type, `--hotkeys` for those used most.
use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use polder_wire::resp::Value;

use super::arguments::Arguments;
use super::client::Client;
use crate::link::Link;
use crate::text::reason;
use polder_wire::resp::text::{Form, quote};

/// What counts as the size of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    Elements,
    Memory,
    /// Not a size: how much it is used, as an LFU policy counts.
    Use,
}

/// A type of values, with the command that tells its size and what it counts.
struct Type {
    name: &'static str,
    command: &'static str,
    unit: &'static str,
}

const TYPES: [Type; 7] = [
    Type { name: "string", command: "STRLEN", unit: "bytes" },
    Type { name: "list", command: "LLEN", unit: "items" },
    Type { name: "set", command: "SCARD", unit: "members" },
    Type { name: "hash", command: "HLEN", unit: "fields" },
    Type { name: "zset", command: "ZCARD", unit: "members" },
    Type { name: "stream", command: "XLEN", unit: "entries" },
    Type { name: "array", command: "ARCOUNT", unit: "values" },
];

/// Shared walk: calls `visit` with each batch of keys and how many percent were seen before it.
fn walk(
    link: &mut Link,
    arguments: &Arguments,
    mut visit: impl FnMut(&mut Link, Vec<Vec<u8>>) -> Result<(), String>,
) -> Result<(), String> {
    let pause = Duration::try_from_secs_f64(arguments.interval.unwrap_or(0.0)).unwrap_or_default();
    let glob = arguments.glob()?;
    let count = arguments.count.to_string();
    let mut cursor = b"0".to_vec();
    loop {
        let mut args: Vec<&[u8]> = vec![b"SCAN", &cursor];
        if let Some(glob) = &glob {
            args.extend([b"MATCH", glob.as_slice()]);
        }
        args.extend([b"COUNT", count.as_bytes()]);
        let (next, keys) = match link.call(&args).map_err(|error| reason(&error))? {
            Value::Array(mut parts) if parts.len() == 2 => (parts.remove(0), parts.remove(0)),
            Value::Error(text) => return Err(format!("ERROR: {}", String::from_utf8_lossy(&text))),
            _ => return Err("Non-standard reply to SCAN".into()),
        };
        let (Value::Bulk(next), Value::Array(keys)) = (next, keys) else {
            return Err("Non-standard reply to SCAN".into());
        };
        visit(link, keys.into_iter().filter_map(bytes).collect())?;
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
        std::thread::sleep(pause);
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Bulk(bytes) | Value::Status(bytes) => Some(bytes),
        _ => None,
    }
}

fn database_size(link: &mut Link) -> Result<u64, String> {
    match link.call(&["DBSIZE"]).map_err(|error| reason(&error))? {
        Value::Integer(size) => Ok(size.max(0).cast_unsigned()),
        Value::Error(text) => Err(format!("Couldn't determine DBSIZE: {}", String::from_utf8_lossy(&text))),
        _ => Err("Non INTEGER response from DBSIZE!".into()),
    }
}

/// Prints every key. A bar shows the way when the keys go to a file and a person looks.
///
/// # Errors
/// A line that says what failed.
pub fn list(mut client: Client, arguments: &Arguments) -> Result<(), String> {
    let quoted = client.format.form == Form::Standard;
    let link = client.connected()?;
    let bar = if io::stdout().is_terminal() || !io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} keys, {per_sec}, {eta} left");
        ProgressBar::new(database_size(link)?)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let walked = walk(link, arguments, |_, keys| {
        for key in &keys {
            let mut line = Vec::with_capacity(key.len() + 1);
            if quoted {
                quote(key, &mut line)
            } else {
                line.extend_from_slice(key)
            }
            line.push(b'\n');
            out.write_all(&line).map_err(|error| reason(&error))?;
        }
        bar.inc(keys.len() as u64);
        if quoted { out.flush().map_err(|error| reason(&error)) } else { Ok(()) }
    });
    bar.finish_and_clear();
    walked.and_then(|()| out.flush().map_err(|error| reason(&error)))
}

/// What is known of a type so far.
#[derive(Default)]
struct Found {
    keys: u64,
    size: u64,
    biggest: Option<(Vec<u8>, u64)>,
}

/// The sums of a walk.
#[derive(Default)]
struct Sample {
    keys: u64,
    key_bytes: u64,
    types: BTreeMap<String, Found>,
}

/// Prints the largest keys of each type as they are found, and a summary.
///
/// # Errors
/// A line that says what failed.
pub fn sample(mut client: Client, arguments: &Arguments, measure: Measure) -> Result<(), String> {
    if measure == Measure::Use {
        return hot(client, arguments);
    }
    let link = client.connected()?;
    let total = database_size(link)?;
    println!("\n# Scanning the entire keyspace to find biggest keys as well as");
    println!("# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec");
    println!("# per 100 SCAN commands (not usually needed).\n");
    let mut sample = Sample::default();
    walk(link, arguments, |link, keys| {
        let percent = 100.0 * sample.keys as f64 / total.max(1) as f64;
        keys.into_iter().try_for_each(|key| sample.look(link, key, measure, percent))
    })?;
    print!("{}", sample.summary(measure));
    Ok(())
}

/// How many of the keys that are used most are told at the end.
const HOT_KEYS: usize = 16;

/// Prints the keys that are used most as they are found, and the first of them at the end.
fn hot(mut client: Client, arguments: &Arguments) -> Result<(), String> {
    let link = client.connected()?;
    let total = database_size(link)?;
    println!("\n# Scanning the entire keyspace to find hot keys.  You can use -i 0.1");
    println!("# to sleep 0.1 sec per SCAN command (not usually needed).\n");
    let (mut hottest, mut seen): (Vec<(i64, String)>, u64) = (Vec::new(), 0);
    walk(link, arguments, |link, keys| {
        for key in keys {
            seen += 1;
            let counter =
                match link.call(&[b"OBJECT".as_slice(), b"FREQ", &key]).map_err(|error| reason(&error))? {
                    Value::Integer(counter) => counter,
                    Value::Error(text) => return Err(format!("Error: {}", String::from_utf8_lossy(&text))),
                    // Gone since SCAN showed it.
                    _ => continue,
                };
            let place = hottest.partition_point(|(other, _)| *other >= counter);
            if place >= HOT_KEYS {
                continue;
            }
            let mut name = Vec::new();
            quote(&key, &mut name);
            let name = String::from_utf8_lossy(&name).into_owned();
            let percent = 100.0 * seen as f64 / total.max(1) as f64;
            println!("[{percent:05.2}%] Hot key '{name}' found so far with counter {counter}");
            hottest.insert(place, (counter, name));
            hottest.truncate(HOT_KEYS);
        }
        Ok(())
    })?;
    println!("\n-------- summary -------\n\nSampled {seen} keys in the keyspace!");
    for (counter, name) in hottest {
        println!("hot key found with counter: {counter}\tkeyname: {name}");
    }
    Ok(())
}

impl Sample {
    /// Counts one key; says so when it is the largest of its type so far.
    fn look(&mut self, link: &mut Link, key: Vec<u8>, measure: Measure, percent: f64) -> Result<(), String> {
        let kind = match link.call(&[b"TYPE".as_slice(), &key]).map_err(|error| reason(&error))? {
            Value::Status(kind) => String::from_utf8_lossy(&kind).into_owned(),
            other => return Err(format!("Invalid reply to TYPE: {other:?}")),
        };
        if kind == "none" {
            return Ok(());
        }
        let known = TYPES.iter().find(|known| known.name == kind);
        let asked = match (measure, known) {
            (Measure::Memory, _) => link.call(&[b"MEMORY".as_slice(), b"USAGE", &key]),
            (Measure::Elements | Measure::Use, Some(known)) => {
                link.call(&[known.command.as_bytes(), key.as_slice()])
            }
            (Measure::Elements | Measure::Use, None) => Ok(Value::Integer(0)),
        };
        let mut name = Vec::new();
        quote(&key, &mut name);
        let name = String::from_utf8_lossy(&name).into_owned();
        let size = match asked.map_err(|error| reason(&error))? {
            Value::Integer(size) => size.max(0).cast_unsigned(),
            _ => {
                eprintln!("Warning:  the size of '{name}' is unknown (may have changed type)");
                0
            }
        };
        self.keys += 1;
        self.key_bytes += key.len() as u64;
        let found = self.types.entry(kind.clone()).or_default();
        found.keys += 1;
        found.size += size;
        if found.biggest.as_ref().is_none_or(|(_, biggest)| size > *biggest) {
            found.biggest = Some((key, size));
            println!(
                "[{percent:05.2}%] Biggest {kind:<6} found so far '{name}' with {size} {}",
                unit(&kind, measure)
            );
        }
        Ok(())
    }

    fn summary(&self, measure: Measure) -> String {
        let average = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
        let mut text = format!("\n-------- summary -------\n\nSampled {} keys in the keyspace!\n", self.keys);
        text += &format!(
            "Total key length in bytes is {} (avg len {:.2})\n\n",
            self.key_bytes,
            average(self.key_bytes, self.keys)
        );
        for (kind, found) in &self.types {
            if let Some((key, size)) = &found.biggest {
                let mut name = Vec::new();
                quote(key, &mut name);
                text += &format!(
                    "Biggest {kind:>6} found '{}' has {size} {}\n",
                    String::from_utf8_lossy(&name),
                    unit(kind, measure)
                );
            }
        }
        text.push('\n');
        let none = Found::default();
        let others = self
            .types
            .keys()
            .map(String::as_str)
            .filter(|kind| !TYPES.iter().any(|known| known.name == *kind));
        for kind in TYPES.iter().map(|known| known.name).chain(others) {
            let found = self.types.get(kind).unwrap_or(&none);
            text += &format!(
                "{} {kind}s with {} {} ({:05.2}% of keys, avg size {:.2})\n",
                found.keys,
                found.size,
                unit(kind, measure),
                100.0 * average(found.keys, self.keys),
                average(found.size, found.keys)
            );
        }
        text
    }
}

/// What the size of a type counts.
fn unit(kind: &str, measure: Measure) -> &'static str {
    match (measure, TYPES.iter().find(|known| known.name == kind)) {
        (Measure::Memory, _) => "bytes",
        (Measure::Elements | Measure::Use, Some(known)) => known.unit,
        (Measure::Elements | Measure::Use, None) => "?",
    }
}
