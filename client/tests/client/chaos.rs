//! Chaos, live: a server that is killed, stopped and replaced, a proxy that delays and cuts, and tasks that give up their calls.
//!
//! A thousand tasks over sixteen databases, each with a counter of its own. What must hold:
//! 1. A reply is that of its call: a counter's value lies between what its task knows to have been counted and what it has asked for.
//! 2. Every call ends.
//! 3. What the server counted beyond what was acknowledged is no more than the calls whose outcome was not known or not waited for.
//!
//! `POLDER_CHAOS_SECONDS=60` runs as long as a release deserves.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use polder_client::{Client, Db, Error};

const TASKS: u32 = 1000;
const DATABASES: u32 = 16;
/// How long a call may take before it counts as one that never ends: far beyond its deadline.
const HANG: Duration = Duration::from_secs(30);

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }
}

/// A server whose keys survive it: it appends each write to a file before it replies.
struct Server {
    child: Child,
    port: u16,
    folder: std::path::PathBuf,
}

impl Server {
    fn start() -> Option<Server> {
        let port = polder_testbase::free_port().ok()?;
        let folder = std::env::temp_dir().join(format!("polder-client-chaos-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let child = Server::spawn(port, &folder)?;
        Some(Server { child, port, folder })
    }

    fn spawn(port: u16, folder: &std::path::Path) -> Option<Child> {
        let words =
            ["--save", "", "--appendonly", "yes", "--appendfsync", "no", "--aof-load-truncated", "yes"];
        let spawned = Command::new("redis-server")
            .args(["--port", &port.to_string()])
            .args(words)
            .current_dir(folder)
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = spawned else {
            eprintln!("redis-server is not installed: not tested");
            return None;
        };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(child)
    }

    fn replace(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        self.child = Server::spawn(self.port, &self.folder).expect("starts again");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

/// A proxy in front of the server that delays pieces and, when told so, cuts all connections.
struct Proxy {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(to: u16, delays: Arc<AtomicBool>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = Arc::clone(&open);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let mut open = all.lock().expect("no panic");
                open.retain(|socket| socket.peer_addr().is_ok());
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let _small = from.set_nodelay(true);
                    let (from, to, delays) = (
                        from.try_clone().expect("a copy"),
                        to.try_clone().expect("a copy"),
                        Arc::clone(&delays),
                    );
                    open.push(from.try_clone().expect("a copy"));
                    std::thread::spawn(move || copy(from, to, &delays));
                }
            }
        });
        Proxy { port, open }
    }

    /// Cuts all connections, wherever in a reply they are.
    fn cut(&self) {
        for socket in self.open.lock().expect("no panic").drain(..) {
            let _cut = socket.shutdown(Shutdown::Both);
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, delays: &AtomicBool) {
    let mut chance = Chance(u64::from(from.peer_addr().map_or(1, |address| address.port())) + 1);
    let mut room = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut room) {
        let mut rest = &room[..count];
        while !rest.is_empty() {
            // Pieces end anywhere.
            let piece = if delays.load(Ordering::Relaxed) {
                1 + chance.below(rest.len() as u64) as usize
            } else {
                rest.len()
            };
            if delays.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(chance.below(3000)));
            }
            if to.write_all(&rest[..piece]).is_err() {
                break;
            }
            rest = &rest[piece..];
        }
    }
    let _ended = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// What all tasks have seen.
#[derive(Default)]
struct Seen {
    done: AtomicU64,
    unknown: AtomicU64,
    not_sent: AtomicU64,
    late: AtomicU64,
    given_up: AtomicU64,
}

/// A reply names its call.
async fn expect_echo(db: &Db, words: &str) {
    match tokio::time::timeout(HANG, db.call::<String>(("ECHO", words))).await.expect("a call hangs") {
        Ok(reply) => assert_eq!(reply, words, "a reply of another call"),
        Err(error) => assert!(!matches!(error, Error::Unexpected { .. } | Error::Usage(_)), "{error}"),
    }
}

/// Counts by one counter; returns how often that was acknowledged, and how often it was tried without one.
async fn count(client: Client, number: u32, stop: Arc<AtomicBool>, seen: Arc<Seen>) -> (i64, i64) {
    let mut chance = Chance(u64::from(number) * 7919 + 1);
    let db = client.db(number % DATABASES);
    let key = format!("counter:{number}");
    let (mut acknowledged, mut uncertain) = (0, 0);
    let mut round = 0u64;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let timeout = Duration::from_millis(20 + chance.below(2000));
        let add = |seen: &AtomicU64| seen.fetch_add(1, Ordering::Relaxed);
        if chance.below(4) == 0 {
            expect_echo(&db.within(timeout), &format!("echo:{number}:{round}")).await;
            continue;
        }
        let call = db.within(timeout).incr::<i64>(&key);
        if chance.below(4) == 0 {
            uncertain += 1;
            // Given up at some time; a call that was not written is taken back.
            let patience = Duration::from_micros(chance.below(3000));
            match tokio::time::timeout(patience, call).await {
                Ok(Ok(value)) => {
                    assert!(
                        value > acknowledged && value <= acknowledged + uncertain,
                        "{key}: {value}, {acknowledged}, {uncertain}"
                    );
                    uncertain -= 1;
                    acknowledged += 1;
                }
                Ok(Err(error)) if error.may_retry() => uncertain -= 1,
                Ok(Err(_)) => {}
                Err(_) => drop(add(&seen.given_up)),
            }
            continue;
        }
        match tokio::time::timeout(HANG, call).await.expect("a call hangs") {
            Ok(value) => {
                add(&seen.done);
                acknowledged += 1;
                assert!(
                    value >= acknowledged && value <= acknowledged + uncertain,
                    "{key}: {value}, {acknowledged}, {uncertain}"
                );
            }
            Err(Error::OutcomeUnknown(_)) => {
                add(&seen.unknown);
                uncertain += 1;
            }
            Err(Error::NotSent(_)) => drop(add(&seen.not_sent)),
            Err(Error::TimedOut(cause)) => {
                add(&seen.late);
                uncertain += i64::from(cause.stage.is_sent());
            }
            Err(Error::Refused(text)) if text.starts_with("LOADING") => {
                tokio::time::sleep(Duration::from_millis(5)).await
            }
            Err(error) => panic!("{key}: {error}"),
        }
    }
    (acknowledged, uncertain)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reply_goes_astray_and_no_call_hangs_whatever_breaks() {
    let seconds = std::env::var("POLDER_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let Some(mut server) = Server::start() else { return };
    let delays = Arc::new(AtomicBool::new(false));
    let proxy = Proxy::start(server.port, Arc::clone(&delays));
    let url = format!("redis://127.0.0.1:{}?ping_interval_ms=200", proxy.port);
    let clients =
        [Client::connect(&url).expect("connects"), Client::connect_in_thread(&url).expect("starts")];
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            tokio::spawn(count(
                clients[number as usize % 2].clone(),
                number,
                Arc::clone(&stop),
                Arc::clone(&seen),
            ))
        })
        .collect();
    let mut chance =
        Chance(std::env::var("POLDER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_711));
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100 + chance.below(400))).await;
        match chance.below(5) {
            0 => tokio::task::block_in_place(|| server.replace()),
            1 => {
                server.signal("-STOP");
                tokio::time::sleep(Duration::from_millis(chance.below(1500))).await;
                server.signal("-CONT");
            }
            2 => delays.store(chance.below(2) == 0, Ordering::Relaxed),
            _ => proxy.cut(),
        }
    }
    delays.store(false, Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    let direct = Client::connect(&format!("redis://127.0.0.1:{}", server.port)).expect("connects");
    let (mut total, mut lost) = (0, 0);
    for (number, task) in (0..TASKS).zip(tasks) {
        let (acknowledged, uncertain) =
            tokio::time::timeout(2 * HANG, task).await.expect("a task hangs").expect("no task panics");
        let value = loop {
            match direct.db(number % DATABASES).get::<Option<i64>>(format!("counter:{number}")).await {
                Err(error) if error.code() == Some("LOADING") => {
                    tokio::time::sleep(Duration::from_millis(10)).await
                }
                read => break read.expect("reads").unwrap_or(0),
            }
        };
        assert!(
            value >= acknowledged && value <= acknowledged + uncertain,
            "counter {number}: {value}, {acknowledged}, {uncertain}"
        );
        total += acknowledged;
        lost += value - acknowledged;
    }
    eprintln!(
        "{seconds} s: {total} acknowledged, {} of unknown outcome, {} not sent, {} late, {} given up; {lost} ran without a reply",
        seen.unknown.load(Ordering::Relaxed),
        seen.not_sent.load(Ordering::Relaxed),
        seen.late.load(Ordering::Relaxed),
        seen.given_up.load(Ordering::Relaxed)
    );
    assert!(total > 1000, "{total}");
}
