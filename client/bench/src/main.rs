//! The client beside redis-rs (multiplexed) and fred, in one run, alternated: medians of the rounds.
//!
//! ```text
//!   cargo run --release -- redis://127.0.0.1:6379 [ROUNDS]     run.sh starts the servers for it
//! ```
//!
//! The server must run on this machine: it is stopped for a moment, to see when a deadline is told.
#![forbid(unsafe_code)]

mod alone;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fred::prelude::*;

const CALLS: u32 = 5_000;
const DATABASES: u32 = 5;
const TASKS: usize = 64;
const PER_TASK: usize = 2_000;
const ALONE: usize = 5_000;

/// The results by name: one figure a round.
type Figures = BTreeMap<&'static str, Vec<f64>>;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn note(figures: &mut Figures, name: &'static str, value: f64) {
    figures.entry(name).or_default().push(value);
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let url = words.next().unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let rounds: usize = words.next().map_or(Ok(5), |word| word.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut figures = Figures::new();
    for _ in 0..rounds {
        runtime
            .block_on(async { tokio::spawn(round(url.clone(), std::mem::take(&mut figures))).await })
            .map_err(Failure::from)
            .and_then(|result| result)
            .map(|kept| figures = kept)?;
    }
    println!("| measure | median | least | most |\n|---|---|---|---|");
    for (name, mut values) in figures {
        values.sort_by(f64::total_cmp);
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} |",
            values[values.len() / 2],
            values[0],
            values[values.len() - 1]
        );
    }
    Ok(())
}

async fn round(url: String, mut figures: Figures) -> Result<Figures, Failure> {
    alone::measure(&url, &mut figures).await?;
    polder(&url, &mut figures).await?;
    redis_rs(&url, &mut figures).await?;
    of_fred(&url, &mut figures).await?;
    Ok(figures)
}

async fn polder(url: &str, figures: &mut Figures) -> Result<(), Failure> {
    let client = polder_client::Client::connect(url)?;
    client.call::<()>(("FLUSHALL",)).await?;
    for db in 0..DATABASES {
        client.db(db).call::<()>(("PING",)).await?;
    }
    let begun = Instant::now();
    let calls: Vec<_> = (0..CALLS).map(|n| client.db(n % DATABASES).call::<i64>(("INCR", "n"))).collect();
    for call in calls {
        call.await?;
    }
    note(figures, "5,000 INCR over 5 databases, ms: polder", millis(begun));
    for db in 0..DATABASES {
        assert_eq!(client.db(db).call::<u32>(("GET", "n")).await?, CALLS / DATABASES);
    }
    let databases: Vec<_> = (0..DATABASES).map(|db| client.db(db).fire()).collect();
    let begun = Instant::now();
    for n in 0..CALLS {
        databases[(n % DATABASES) as usize].call(("INCR", "n"));
    }
    note(figures, "5,000 INCR forgotten, time to issue, ms: polder", millis(begun));
    for db in 0..DATABASES {
        assert_eq!(client.db(db).call::<u32>(("GET", "n")).await?, 2 * CALLS / DATABASES);
    }
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let db = client.db(0);
            tokio::spawn(async move {
                for n in 0..PER_TASK {
                    let key = format!("k{}", (task * 7919 + n) % 10_000);
                    match n % 10 {
                        0 => db.call::<()>(("SET", key, "value")).await?,
                        _ => db.call::<Option<String>>(("GET", key)).await.map(drop)?,
                    }
                }
                Ok::<(), polder_client::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    note(figures, "64 tasks, 90 % GET, k calls/s: polder", rate(begun));
    let db = client.db(0);
    let mut times = Vec::new();
    for _ in 0..ALONE {
        let begun = Instant::now();
        db.call::<Option<String>>(("GET", "k1")).await?;
        times.push(begun.elapsed());
    }
    note(figures, "one task alone, GET p50, us: polder", middle(times));
    Ok(())
}

async fn redis_rs(url: &str, figures: &mut Figures) -> Result<(), Failure> {
    let mut connections = Vec::new();
    for db in 0..DATABASES {
        connections
            .push(redis::Client::open(format!("{url}/{db}"))?.get_multiplexed_async_connection().await?);
    }
    redis::cmd("FLUSHALL").query_async::<()>(&mut connections[0]).await?;
    let begun = Instant::now();
    let tasks: Vec<_> = (0..CALLS)
        .map(|n| {
            let mut connection = connections[(n % DATABASES) as usize].clone();
            tokio::spawn(async move { redis::cmd("INCR").arg("n").query_async::<i64>(&mut connection).await })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    note(figures, "5,000 INCR over 5 databases, ms: redis-rs", millis(begun));
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let mut connection = connections[0].clone();
            tokio::spawn(async move {
                for n in 0..PER_TASK {
                    let key = format!("k{}", (task * 7919 + n) % 10_000);
                    match n % 10 {
                        0 => {
                            redis::cmd("SET").arg(key).arg("value").query_async::<()>(&mut connection).await?
                        }
                        _ => redis::cmd("GET")
                            .arg(key)
                            .query_async::<Option<String>>(&mut connection)
                            .await
                            .map(drop)?,
                    }
                }
                Ok::<(), redis::RedisError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    note(figures, "64 tasks, 90 % GET, k calls/s: redis-rs", rate(begun));
    let mut times = Vec::new();
    for _ in 0..ALONE {
        let begun = Instant::now();
        redis::cmd("GET").arg("k1").query_async::<Option<String>>(&mut connections[0]).await?;
        times.push(begun.elapsed());
    }
    note(figures, "one task alone, GET p50, us: redis-rs", middle(times));
    Ok(())
}

async fn of_fred(url: &str, figures: &mut Figures) -> Result<(), Failure> {
    let mut clients = Vec::new();
    for db in 0..DATABASES {
        let client = Builder::from_config(Config::from_url(&format!("{url}/{db}"))?).build()?;
        client.init().await?;
        clients.push(client);
    }
    clients[0].flushall::<()>(false).await?;
    let begun = Instant::now();
    let tasks: Vec<_> = (0..CALLS)
        .map(|n| {
            let client = clients[(n % DATABASES) as usize].clone();
            tokio::spawn(async move { client.incr::<i64, _>("n").await })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    note(figures, "5,000 INCR over 5 databases, ms: fred", millis(begun));
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = clients[0].clone();
            tokio::spawn(async move {
                for n in 0..PER_TASK {
                    let key = format!("k{}", (task * 7919 + n) % 10_000);
                    match n % 10 {
                        0 => client.set::<(), _, _>(key, "value", None, None, false).await?,
                        _ => client.get::<Option<String>, _>(key).await.map(drop)?,
                    }
                }
                Ok::<(), fred::error::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    note(figures, "64 tasks, 90 % GET, k calls/s: fred", rate(begun));
    let mut times = Vec::new();
    for _ in 0..ALONE {
        let begun = Instant::now();
        clients[0].get::<Option<String>, _>("k1").await?;
        times.push(begun.elapsed());
    }
    note(figures, "one task alone, GET p50, us: fred", middle(times));
    Ok(())
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

fn rate(begun: Instant) -> f64 {
    (TASKS * PER_TASK) as f64 / begun.elapsed().as_secs_f64() / 1e3
}

fn middle(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}
