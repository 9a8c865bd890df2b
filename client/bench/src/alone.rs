//! What only this client has a figure for: allocations of forgotten calls, memory, deadlines, and shared memory.

use std::process::Command;
use std::time::{Duration, Instant};

use polder_client::{Client, Error};

use crate::{CALLS, Failure, Figures, note};

const CONNECTIONS: usize = 64;
const IN_FLIGHT: u32 = 100_000;
const GETS: u32 = 200_000;
const DEADLINE: Duration = Duration::from_millis(50);

pub async fn measure(url: &str, figures: &mut Figures) -> Result<(), Failure> {
    // Later rounds use again what the allocator has kept: only the first one tells what memory is needed.
    let is_first = figures.is_empty();
    let client = Client::connect(url)?;
    if is_first {
        client.call::<()>("PING").await?;
        idle(url, figures).await?;
    }
    allocations(&client, figures).await?;
    let info: String = client.call(("INFO", "server")).await?;
    let server = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))
        .ok_or("the server tells no process id")?
        .trim();
    stopped(server, "-STOP")?;
    let seen = behind_a_stopped_server(url, &client, is_first, figures).await;
    stopped(server, "-CONT")?;
    seen?;
    shared_memory(figures).await
}

/// Allocations of the thread that makes calls and forgets them, once the buffers have their size.
async fn allocations(client: &Client, figures: &mut Figures) -> Result<(), Failure> {
    let db = client.db(0).fire();
    for _ in 0..3 {
        (0..CALLS).for_each(|_| db.call(("INCR", "n")));
        client.call::<()>("PING").await?;
    }
    let counted = allocation_counter::measure(|| (0..CALLS).for_each(|_| db.call(("INCR", "n"))));
    note(figures, "5,000 INCR forgotten, allocations: polder", counted.count_total as f64);
    client.call::<()>("PING").await?;
    Ok(())
}

/// Resident memory of this process, in KiB.
fn resident_kib() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("/proc/self/status has no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

async fn idle(url: &str, figures: &mut Figures) -> Result<(), Failure> {
    let before = resident_kib()?;
    let clients: Vec<Client> =
        (0..CONNECTIONS).map(|_| Client::connect(url)).collect::<Result<_, Error>>()?;
    for client in &clients {
        client.call::<()>("PING").await?;
    }
    note(
        figures,
        "memory of an idle connection, KiB: polder",
        (resident_kib()? - before) / CONNECTIONS as f64,
    );
    Ok(())
}

fn stopped(server: &str, signal: &str) -> Result<(), Failure> {
    let sent = Command::new("kill").args([signal, server]).status()?;
    if sent.success() { Ok(()) } else { Err(format!("kill {signal} {server}: {sent}").into()) }
}

async fn behind_a_stopped_server(
    url: &str,
    client: &Client,
    is_first: bool,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let late = client.db(0).within(DEADLINE).call::<Option<String>>(("GET", "k1")).await;
    let Err(Error::TimedOut(cause)) = &late else {
        return Err(format!("the server replies although it is stopped: {late:?}").into());
    };
    let after = begun.elapsed().saturating_sub(DEADLINE);
    note(figures, "server stopped: error after the deadline, ms: polder", after.as_secs_f64() * 1e3);
    assert_eq!(cause.stage, polder_client::Stage::Server, "{cause}");
    if !is_first {
        return Ok(());
    }
    // On a connection of its own, which is closed with its calls.
    let patient = Client::connect(&format!("{url}?timeout_ms=0"))?;
    let before = resident_kib()?;
    let calls: Vec<_> = (0..IN_FLIGHT).map(|n| patient.db(0).call::<Option<String>>(("GET", n))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    note(figures, "memory of 100,000 calls in flight, MiB: polder", (resident_kib()? - before) / 1024.0);
    drop(calls);
    Ok(())
}

async fn shared_memory(figures: &mut Figures) -> Result<(), Failure> {
    let name = format!("polder-client-bench-{}", std::process::id());
    let client = Client::connect(&format!("polder://shm:{name}?create=yes"))?;
    let db = client.db(0);
    db.set::<()>("k", "value", ()).await?;
    let begun = Instant::now();
    for _ in 0..GETS {
        db.get::<Vec<u8>>("k").await?;
    }
    note(
        figures,
        "shared memory, GET awaited, us: polder",
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(GETS),
    );
    drop(client);
    // The segment's name; what lies beside it are bells of this process.
    std::fs::remove_file(format!("/dev/shm/{name}"))?;
    Ok(())
}
