//! Real input: every record of the machine's package catalogue (`apt-cache dumpavail`; key = package, value = stanza)
//! goes through stock `redis-cli --pipe` into two `polder serve` on one segment, which are killed and started again all
//! the time; then another process reads everything back, in-process and byte for byte.
//!
//! `real_input read SEGMENT` is that other process.
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use polder_base::Protocol;
use polder_engine::Options;
use polder_testkit::answer::Answer;
use polder_testkit::caller::{Caller, Embedder};
use polder_testkit::process::{Server, free_port, polder};
use polder_testkit::random::Random;
use polder_testkit::resp::framed;
use polder_testkit::scratch::Scratch;

/// Records in one `redis-cli --pipe`: what is sent again when a server dies under it.
const CHUNK: usize = 500;

/// A chunk that fails so often fails for another reason than a killed server.
const ATTEMPTS_MAX: u32 = 100;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["read", segment] => read_back(segment),
        _ => load_and_check(),
    };
    match done {
        Ok(told) => {
            println!("{told}\nreal input: 1 passed, 0 failed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}\nreal input: 0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

fn load_and_check() -> Result<String, String> {
    let records = catalogue()?;
    let scratch = Scratch::with_ceiling(1 << 30);
    let (ports, kills) = load(&records, &scratch.options.segment)?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let reader = Command::new(program)
        .args(["read", &scratch.options.segment])
        .output()
        .map_err(|error| error.to_string())?;
    let told =
        String::from_utf8_lossy(&reader.stdout).lines().next().unwrap_or("the reader died").to_string();
    match reader.status.success() {
        true => Ok(format!("{told}; {kills} servers killed under the load, on ports {ports:?}")),
        false => Err(told),
    }
}

/// The catalogue, one stanza a package; of a package with several versions the first.
fn catalogue() -> Result<Records, String> {
    let output =
        Command::new("apt-cache").arg("dumpavail").output().map_err(|error| format!("apt-cache: {error}"))?;
    let mut records = Records::new();
    for stanza in output.stdout.split(|&byte| byte == b'\n').collect::<Vec<_>>().split(|line| line.is_empty())
    {
        let package = stanza.iter().find_map(|line| line.strip_prefix(b"Package: "));
        if let Some(package) = package {
            records.entry(package.to_vec()).or_insert_with(|| stanza.join(&b'\n'));
        }
    }
    if records.len() < 1000 {
        Err(format!("apt-cache knows {} packages only: run apt-get update", records.len()))
    } else {
        Ok(records)
    }
}

/// Loads everything through two servers that are soon killed. Returns their ports and how many
/// died.
fn load(records: &Records, segment: &str) -> Result<([u16; 2], u32), String> {
    let failed = |error: std::io::Error| error.to_string();
    let ports = [free_port().map_err(failed)?, free_port().map_err(failed)?];
    let start = |port: u16| {
        Server::start_at(&polder(), &["serve", "--port", "{port}", "--segment", segment], port)
            .map_err(failed)
    };
    let servers = Mutex::new(vec![start(ports[0])?, start(ports[1])?]);
    let (over, kills) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| -> Result<(), String> {
            let mut random = Random::new(1);
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10 + random.below(60) as u64));
                let victim = random.below(2);
                let mut servers = servers.lock().map_err(|_| "a thread died")?;
                servers[victim].kill();
                kills.fetch_add(1, Ordering::Relaxed);
                servers[victim] = start(ports[victim])?;
            }
            Ok(())
        });
        let loaded = send_all(records, ports);
        over.store(true, Ordering::Relaxed);
        killer.join().map_err(|_| "the killer died")??;
        loaded
    })?;
    Ok((ports, kills.into_inner()))
}

fn send_all(records: &Records, ports: [u16; 2]) -> Result<(), String> {
    let records: Vec<_> = records.iter().collect();
    for (at, chunk) in records.chunks(CHUNK).enumerate() {
        let bytes: Vec<u8> = chunk
            .iter()
            .flat_map(|(key, value)| framed(&[b"SET", key.as_slice(), value.as_slice()]))
            .collect();
        let mut attempts = 0;
        while !pipe(&bytes, ports[(at + attempts as usize) % 2], chunk.len())? {
            attempts += 1;
            if attempts == ATTEMPTS_MAX {
                return Err(format!("records {} and on were refused {attempts} times", at * CHUNK));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// One `redis-cli --pipe`; whether every record was acknowledged.
fn pipe(bytes: &[u8], port: u16, count: usize) -> Result<bool, String> {
    let mut child = Command::new("redis-cli")
        .args(["-p", &port.to_string(), "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("redis-cli: {error}"))?;
    // It fails when redis-cli gives up because its server was killed.
    let sent = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(bytes).is_ok());
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stdout);
    Ok(sent && output.status.success() && told.contains(&format!("errors: 0, replies: {count}")))
}

/// Compares everything that is in the segment with the catalogue.
fn read_back(segment: &str) -> Result<String, String> {
    let records = catalogue()?;
    let options = Options { segment: segment.into(), create: false, ..Options::default() };
    let embedder = Embedder::attach(&options).map_err(|fault| fault.to_string())?;
    let mut caller = Caller::new(1, Protocol::Resp3);
    let wrong: Vec<String> = records
        .iter()
        .filter(|(key, value)| {
            caller.call(&embedder, &[b"GET", key.as_slice()]) != Ok(Answer::Bulk(value.to_vec()))
        })
        .map(|(key, _)| String::from_utf8_lossy(key).into_owned())
        .collect();
    let bytes: usize = records.values().map(Vec::len).sum();
    match wrong.len() {
        0 => Ok(format!(
            "{} records of {bytes} bytes read back by another process, all as they were sent",
            records.len()
        )),
        some => Err(format!(
            "{some} of {} records are not as they were sent: {:?}",
            records.len(),
            &wrong[..some.min(5)]
        )),
    }
}
