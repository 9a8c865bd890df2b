//! Nodes that replicate from each other, of several kinds: two memories with two servers each, a Redis and a Valkey. A process is killed every now and then, and
//! the primary is lost with all that it has.
//!
//! ```text
//!   writers    SET key number at the primary, acknowledged by all replicas: by its own reply (`replies-await-replicas`), at a stock primary by WAIT
//!   driver     kill -9 of a server of a memory: it starts again on the same memory      kill -9 of a stock replica: it starts again, empty
//!              SIGSTOP of a stock replica for a while
//!              loss of the primary: processes and memory; the replica with the greatest offset becomes the primary, and the node begins anew as a replica
//!   judge      after each loss, and at the end
//! ```
//!
//! - **J1** The replica that becomes the primary has, of each key, the latest value that any living replica has.
//! - **J2** Where replies wait for all replicas, it has all that was acknowledged before the loss. Where they wait for fewer, no living replica has what is
//!   missing (J1), and it is counted.
//! - **J3** At the end all nodes have the same, and all that was acknowledged since.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polder_engine::Memory;
use polder_runtime::locks::lock;
use polder_testbase::until;

use crate::answer::Answer;
use crate::process::{Server, free_port, polder, stock_servers};
use crate::random::Random;
use crate::replicas::{catch_up, figure};
use crate::resp::Connection;

const WRITERS: u64 = 3;
/// Keys of a writer.
const KEYS: u64 = 20;
/// Servers of a memory.
const SERVERS: usize = 2;
/// The time between two losses of the primary, and the longest stop of a replica.
const LOSS_PERIOD: Duration = Duration::from_secs(5);
const STOP_MS_MAX: usize = 200;

/// The chosen run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub seconds: u64,
    pub pause_ms: u64,
    /// Replicas for which replies wait; `None`: all.
    pub awaits: Option<u64>,
}

/// The outcome.
#[derive(Debug, Default)]
pub struct Report {
    pub failures: Vec<String>,
    pub kills: u32,
    pub losses: u32,
    pub acknowledged: u64,
    /// Acknowledged writes that no living replica had when the primary was lost.
    pub missing: u64,
    /// The kinds of the primaries, in turn.
    pub primaries: Vec<String>,
}

/// Values by their keys. The values of a key grow.
type Values = BTreeMap<String, u64>;

enum Kind {
    Memory { segment: String },
    Stock { program: PathBuf },
}

struct Node {
    name: String,
    kind: Kind,
    port: u16,
    /// Settings of a memory.
    awaits: String,
    servers: Vec<Server>,
}

/// The primary, as writers see it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Primary {
    port: u16,
    is_memory: bool,
    /// Replicas for which a write at a stock primary waits.
    awaits: u64,
}

/// The state that writers and driver share.
#[derive(Default)]
struct Shared {
    /// `None` while there is none.
    primary: Mutex<Option<Primary>>,
    /// The last value of each key that was acknowledged.
    acknowledged: Mutex<Values>,
    count: AtomicU64,
    stops: AtomicBool,
}

impl Node {
    fn new(name: &str, kind: Kind, awaits: u64) -> Result<Node, String> {
        let port = free_port().map_err(|error| error.to_string())?;
        Ok(Node { name: name.into(), kind, port, awaits: awaits.to_string(), servers: Vec::new() })
    }

    fn is_memory(&self) -> bool {
        matches!(self.kind, Kind::Memory { .. })
    }

    /// Starts one of its servers.
    fn start_one(&self, primary: Option<u16>) -> Result<Server, String> {
        let follows = primary.map(|port| format!("127.0.0.1 {port}"));
        let mut flags = match &self.kind {
            Kind::Memory { segment } => {
                let mut flags =
                    vec!["serve", "--port", "{port}", "--share-port", "yes", "--segment", segment];
                flags.extend(["--segment-size", "128mb", "--save", "", "--threads", "1"]);
                flags.extend(["--replies-await-replicas", &self.awaits, "--replies-await-timeout", "1000"]);
                flags
            }
            Kind::Stock { .. } => {
                let mut flags = vec!["--port", "{port}", "--bind", "127.0.0.1", "--save", ""];
                flags.extend(["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "16mb"]);
                flags
            }
        };
        let words: Vec<&str> = follows.as_deref().map_or(Vec::new(), |follows| match self.kind {
            Kind::Memory { .. } => vec![follows],
            Kind::Stock { .. } => follows.split(' ').collect(),
        });
        if !words.is_empty() {
            flags.push("--replicaof");
            flags.extend(words);
        }
        let program = match &self.kind {
            Kind::Memory { .. } => &polder(),
            Kind::Stock { program } => program,
        };
        Server::start_at(program, &flags, self.port).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Starts its servers, as a replica of a port.
    fn start(&mut self, primary: Option<u16>) -> Result<(), String> {
        let count = if self.is_memory() { SERVERS } else { 1 };
        for _ in 0..count {
            self.servers.push(self.start_one(primary)?);
        }
        Ok(())
    }

    /// Kills one of its servers, which starts again.
    fn restart_one(&mut self, number: usize, primary: Option<u16>) -> Result<(), String> {
        drop(self.servers.remove(number));
        // A memory keeps its role.
        let primary = primary.filter(|_| !self.is_memory());
        self.servers.push(self.start_one(primary)?);
        Ok(())
    }

    /// Takes all from it.
    fn lose(&mut self) -> Result<(), String> {
        self.servers.clear();
        match &self.kind {
            Kind::Memory { segment } => Memory::remove(segment).map_err(|fault| fault.to_string()),
            Kind::Stock { .. } => Ok(()),
        }
    }

    /// A connection to one of its servers, when one is there that replies.
    fn connect(&self) -> Connection {
        let mut found = None;
        until("a server replies", || {
            let mut connection = Connection::open(&format!("127.0.0.1:{}", self.port)).ok();
            let replies = connection.as_mut().and_then(|connection| connection.call(&["PING"]).ok());
            found = connection.filter(|_| replies.is_some_and(|reply| !matches!(reply, Answer::Error(_))));
            found.is_some()
        });
        found.expect("a connection")
    }

    /// Calls until there is a reply: the server may be killed meanwhile.
    fn call(&self, words: &[&str]) -> Answer {
        let mut reply = None;
        until("a server replies", || {
            reply = self.connect().call(words).ok();
            reply.is_some()
        });
        reply.expect("a reply")
    }

    /// The place in the stream of the primaries that the data is at.
    fn offset(&self) -> u64 {
        figure(&mut self.connect(), "replication", "slave_repl_offset").parse().unwrap_or(0)
    }

    /// Returns true if its link to its primary has ended: it has all that came by it.
    fn is_cut_off(&self) -> bool {
        figure(&mut self.connect(), "replication", "master_link_status") == "down"
    }

    fn values(&self) -> Values {
        let names: Vec<String> = (0..WRITERS * KEYS).map(name_of).collect();
        let words: Vec<&str> = ["MGET"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let mut items = Vec::new();
        // A node that refuses to tell has not lost what it holds.
        until("a node tells its values", || match self.call(&words) {
            Answer::Array(told) => {
                items = told;
                true
            }
            _ => false,
        });
        let value_of = |item| match item {
            Answer::Bulk(text) => Some(String::from_utf8_lossy(&text).parse().unwrap_or(0)),
            _ => None,
        };
        names.into_iter().zip(items).filter_map(|(name, item)| Some((name, value_of(item)?))).collect()
    }
}

fn name_of(key: u64) -> String {
    format!("key:{key}")
}

/// The keys in which `held` is behind `wanted`.
fn behind(held: &Values, wanted: &Values) -> Vec<String> {
    let late = wanted.iter().filter(|(key, value)| held.get(*key).is_none_or(|held| held < value));
    late.map(|(key, value)| format!("{key} is {:?} and not {value}", held.get(key))).collect()
}

/// Writes until it is told to stop.
fn write(shared: &Shared, writer: u64) {
    let mut number = 0;
    while !shared.stops.load(Ordering::Relaxed) {
        let mut reached = None;
        until("a primary can be reached", || {
            let primary = *lock(&shared.primary);
            reached = primary.and_then(|primary| {
                Some((primary, Connection::open(&format!("127.0.0.1:{}", primary.port)).ok()?))
            });
            reached.is_some() || shared.stops.load(Ordering::Relaxed)
        });
        let Some((primary, mut connection)) = reached else { continue };
        let Primary { is_memory, awaits, .. } = primary;
        while *lock(&shared.primary) == Some(primary) && !shared.stops.load(Ordering::Relaxed) {
            number += 1;
            let key = name_of(writer * KEYS + number % KEYS);
            let reply = connection.call(&["SET", &key, &number.to_string()]);
            if !reply.is_ok_and(|reply| reply == Answer::Status("OK".into())) {
                break;
            }
            if !is_memory && awaits > 0 {
                let count = connection.call(&["WAIT", &awaits.to_string(), "1000"]);
                if !count.is_ok_and(|count| matches!(count, Answer::Integer(count) if count >= awaits as i64))
                {
                    break;
                }
            }
            let mut acknowledged = lock(&shared.acknowledged);
            // The loss of this primary is not judged by what comes later.
            if *lock(&shared.primary) == Some(primary) {
                acknowledged.insert(key, number);
                shared.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The driver's view.
struct World<'s> {
    nodes: Vec<Node>,
    primary: usize,
    /// Replicas for which replies wait; `None`: all.
    awaits: Option<u64>,
    shared: &'s Shared,
    report: Report,
}

impl World<'_> {
    /// The port that a node follows. A Redis 7.0 reads no copy of a Valkey 8: it follows a memory that follows the Valkey.
    fn upstream(&self, number: usize) -> u16 {
        let primary = &self.nodes[self.primary];
        if !primary.name.starts_with("valkey") || !self.nodes[number].name.starts_with("redis") {
            return primary.port;
        }
        self.nodes.iter().find(|node| node.is_memory()).map_or(primary.port, |memory| memory.port)
    }

    /// The nodes that are no primary.
    fn replicas(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|number| *number != self.primary).collect()
    }

    /// Has writers go to the primary.
    fn tell_primary(&mut self) {
        let node = &self.nodes[self.primary];
        let direct = self.replicas().into_iter().filter(|number| self.upstream(*number) == node.port).count();
        let awaits = self.awaits.unwrap_or(u64::MAX).min(direct as u64);
        *lock(&self.shared.primary) = Some(Primary { port: node.port, is_memory: node.is_memory(), awaits });
        let kind = node.name.split(' ').next().unwrap_or_default();
        self.report.primaries.push(kind.to_owned());
    }

    /// Kills or stops a process.
    fn disturb(&mut self, random: &mut Random) -> Result<(), String> {
        let mut stock = self.replicas();
        stock.retain(|number| !self.nodes[*number].is_memory());
        let choice = random.below(20);
        if choice < 2 && !stock.is_empty() {
            let number = *random.pick(&stock);
            let upstream = self.upstream(number);
            let node = &mut self.nodes[number];
            if choice == 0 {
                node.restart_one(0, Some(upstream))?;
                self.report.kills += 1;
            } else {
                node.servers[0].stop();
                std::thread::sleep(Duration::from_millis(random.below(STOP_MS_MAX) as u64));
                node.servers[0].go_on();
            }
            return Ok(());
        }
        let memories: Vec<usize> =
            (0..self.nodes.len()).filter(|number| self.nodes[*number].is_memory()).collect();
        self.nodes[*random.pick(&memories)].restart_one(random.below(SERVERS), None)?;
        self.report.kills += 1;
        Ok(())
    }

    /// Takes the primary away, and judges what the next one has.
    fn lose_primary(&mut self, random: &mut Random) -> Result<(), String> {
        *lock(&self.shared.primary) = None;
        let acknowledged = lock(&self.shared.acknowledged).clone();
        self.report.kills += self.nodes[self.primary].servers.len() as u32;
        self.report.losses += 1;
        self.nodes[self.primary].lose()?;
        let left = self.replicas();
        // Bytes that were sent before the loss may still be on their way: to a replica, and through one to another.
        let lost_port = self.nodes[self.primary].port;
        let is_direct = |number: &usize| self.upstream(*number) == lost_port;
        let (direct, behind_others): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|number| is_direct(number));
        until("the links to the lost primary have ended", || {
            direct.iter().all(|number| self.nodes[*number].is_cut_off())
        });
        let upstream = self.nodes.iter().find(|node| node.is_memory());
        // One that has lost its link, too, gets no other: a replica without its primary refuses it (NOMASTERLINK).
        let has_all = |node: &Node| {
            node.is_cut_off() || upstream.is_none_or(|upstream| node.offset() == upstream.offset())
        };
        until("replicas of a replica have what it has", || {
            behind_others.iter().all(|number| has_all(&self.nodes[*number]))
        });
        let offsets: Vec<u64> = left.iter().map(|number| self.nodes[*number].offset()).collect();
        let best = (0..left.len()).max_by_key(|place| (offsets[*place], random.bits()));
        let best = best.ok_or("no node is left")?;
        let values: Vec<Values> = left.iter().map(|number| self.nodes[*number].values()).collect();
        let lost = self.primary;
        self.primary = left[best];
        for (place, number) in left.iter().enumerate() {
            // J1.
            for late in behind(&values[best], &values[place]) {
                let (new, other) = (&self.nodes[self.primary].name, &self.nodes[*number].name);
                self.report.failures.push(format!("{new} becomes the primary, {other} has more: {late}"));
            }
        }
        // J2.
        let missing = behind(&values[best], &acknowledged);
        self.report.missing += missing.len() as u64;
        if self.awaits.is_none() {
            let (old, new) = (&self.nodes[lost].name, &self.nodes[self.primary].name);
            let texts = missing.iter().map(|late| format!("lost with {old}, not in {new}: {late}"));
            self.report.failures.extend(texts);
        } else {
            // A lost value is not to be missed again.
            lock(&self.shared.acknowledged).clone_from(&values[best]);
        }
        self.nodes[self.primary].call(&["REPLICAOF", "NO", "ONE"]);
        let upstream = self.upstream(lost);
        self.nodes[lost].start(Some(upstream))?;
        for number in left.into_iter().filter(|number| *number != self.primary) {
            let port = self.upstream(number).to_string();
            self.nodes[number].call(&["REPLICAOF", "127.0.0.1", &port]);
        }
        self.tell_primary();
        Ok(())
    }

    /// J3.
    fn judge_end(&mut self) {
        let mut primary = self.nodes[self.primary].connect();
        for number in self.replicas() {
            catch_up(&mut self.nodes[number].connect(), &mut primary);
        }
        let (values, acknowledged) =
            (self.nodes[self.primary].values(), lock(&self.shared.acknowledged).clone());
        let lost = behind(&values, &acknowledged);
        self.report.failures.extend(lost.into_iter().map(|late| format!("lost at the end: {late}")));
        for node in &self.nodes {
            if node.values() != values {
                self.report.failures.push(format!("{} differs from the primary at the end", node.name));
            }
        }
    }
}

/// Runs until the time is over.
///
/// # Errors
/// Reasons why there is no run.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let found = stock_servers();
    let of = |kind: &str| found.iter().find(|(name, _)| name.starts_with(kind)).cloned();
    let stock: Vec<_> = ["redis", "valkey"].into_iter().filter_map(of).collect();
    if stock.is_empty() {
        return Err("neither redis-server nor valkey-server is there".into());
    }
    let awaits = plan.awaits.unwrap_or(1 + stock.len() as u64);
    let mut nodes = Vec::new();
    for name in ["polder one", "polder two"] {
        let segment = format!("shm:polder-chaos-{}-{}", std::process::id(), &name[7..]);
        nodes.push(Node::new(name, Kind::Memory { segment }, awaits)?);
    }
    for (name, program) in stock {
        nodes.push(Node::new(&name, Kind::Stock { program }, awaits)?);
    }
    let shared = Shared::default();
    let mut world =
        World { nodes, primary: 0, awaits: plan.awaits, shared: &shared, report: Report::default() };
    let outcome = drive(&mut world, plan);
    shared.stops.store(true, Ordering::Relaxed);
    for node in &mut world.nodes {
        // It may not have begun.
        let _ = node.lose();
    }
    outcome?;
    world.report.acknowledged = shared.count.load(Ordering::Relaxed);
    Ok(world.report)
}

fn drive(world: &mut World<'_>, plan: &Plan) -> Result<(), String> {
    world.nodes[0].start(None)?;
    for number in world.replicas() {
        let upstream = world.upstream(number);
        world.nodes[number].start(Some(upstream))?;
    }
    world.tell_primary();
    let (mut random, shared) = (Random::new(plan.seed), world.shared);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || write(shared, writer));
        }
        let begun = Instant::now();
        let mut lost = begun;
        let mut outcome = Ok(());
        while outcome.is_ok() && begun.elapsed() < Duration::from_secs(plan.seconds) {
            std::thread::sleep(Duration::from_millis(plan.pause_ms));
            outcome = if lost.elapsed() >= LOSS_PERIOD {
                let done = world.lose_primary(&mut random);
                lost = Instant::now();
                done
            } else {
                world.disturb(&mut random)
            };
        }
        shared.stops.store(true, Ordering::Relaxed);
        outcome
    })?;
    world.judge_end();
    Ok(())
}
