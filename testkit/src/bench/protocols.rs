//! The doors beside their own servers: memcached, nginx, webdis with redis-server behind it, and redis-server with TLS. What an operation costs the server in
//! CPU time, one thread against one thread, and the throughput beside it.
//!
//! ```text
//!   core 0: the server       core 1: this thread with 50 connections, wrk, redis-benchmark or openssl s_time
//! ```
//!
//! A request of the memcached workloads is `P` lines, whose replies have a known length, so nothing is parsed here.
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::network::{Run, Test, cpu_ns, load, start_pinned};
use super::{Figures, Scale, median};
use crate::process::{Server, free_port, on_path, polder};
use crate::scratch;

const CONNECTIONS: usize = 50;
const PIPELINE: usize = 16;
const KEYS: usize = 100_000;
const VALUE: &str = "0123456789abcdef";
/// What nginx and Polder serve: 42 bytes.
const PAGE: &str = "the answer to a request for a static file\n";
/// Datagrams that are under way.
const WINDOW: usize = 32;
/// A reply that takes longer fails the measurement.
const PATIENCE: Duration = Duration::from_secs(30);
/// A datagram that was lost is not waited for any longer.
const LOST: Duration = Duration::from_millis(200);

/// A server by name.
struct Rival {
    name: &'static str,
    start: Box<dyn Fn() -> io::Result<Place>>,
}

/// A running server, and where it takes what is measured.
struct Place {
    server: Server,
    udp: u16,
    /// A server that works for it.
    behind: Option<Server>,
}

impl Place {
    fn of(server: Server) -> Place {
        Place { server, udp: 0, behind: None }
    }

    /// CPU time that all of it has used, in nanoseconds.
    fn cpu_ns(&self) -> f64 {
        cpu_ns(self.server.pid()) + self.behind.as_ref().map_or(0.0, |server| cpu_ns(server.pid()))
    }
}

/// Runs a workload on a server.
type Drive = dyn Fn(&Place) -> Result<Run, String>;

/// One workload.
struct Workload {
    name: &'static str,
    run: Box<Drive>,
}

/// CPU time and throughput of each door and of the server that it is measured against, and their ratios.
///
/// # Errors
/// When a server or a load generator is missing or fails: `xtask/needs.sh test` and `xtask/needs.sh bench` install them.
pub fn protocols(scale: &Scale) -> Result<Figures, String> {
    let folder = Folder::new().map_err(|error| error.to_string())?;
    let mut figures = compare(scale, &memcached_rivals()?, &memcached_workloads(scale))?;
    figures.extend(compare(scale, &http_rivals(&folder)?, &[http(scale)])?);
    figures.extend(compare(scale, &json_rivals(&folder)?, &[json(scale, &folder)])?);
    figures.extend(compare(scale, &tls_rivals(&folder)?, &[tls(scale, &folder), handshake(scale)])?);
    Ok(figures)
}

/// Runs all workloads on each rival in turn, round after round, each round with fresh servers.
fn compare(scale: &Scale, rivals: &[Rival], workloads: &[Workload]) -> Result<Figures, String> {
    let mut runs: Vec<Vec<Vec<Run>>> = vec![vec![Vec::new(); rivals.len()]; workloads.len()];
    for _ in 0..scale.rounds {
        for (at, rival) in rivals.iter().enumerate() {
            let place = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
            for (workload, runs) in workloads.iter().zip(&mut runs) {
                let run = (workload.run)(&place)
                    .map_err(|error| format!("{}, {}: {error}", workload.name, rival.name))?;
                runs[at].push(run);
            }
        }
    }
    let mut figures = Figures::new();
    for (workload, runs) in workloads.iter().zip(runs) {
        let of = |what: fn(&Run) -> f64| {
            runs.iter().map(|runs| median(runs.iter().map(what).collect())).collect::<Vec<f64>>()
        };
        let (costs, rates) = (of(|run| run.cpu_ns), of(|run| run.per_second));
        for ((rival, cost), rate) in rivals.iter().zip(&costs).zip(&rates) {
            figures.push((format!("{} {} cpu ns", workload.name, rival.name), *cost));
            figures.push((format!("{} {} ops/s", workload.name, rival.name), *rate));
        }
        figures.push((format!("{} polder / {}", workload.name, rivals[1].name), costs[0] / costs[1]));
    }
    Ok(figures)
}

/// What a workload took: `operations` since the server had used so much CPU time, and since this moment.
fn run_since(place: &Place, before: f64, began: Instant, operations: u64) -> Run {
    let cpu_ns = (place.cpu_ns() - before) / operations as f64;
    Run { per_second: operations as f64 / began.elapsed().as_secs_f64(), cpu_ns }
}

fn start_polder(flags: &[&str]) -> io::Result<Server> {
    let segment = scratch::fresh_name();
    start_pinned(&polder(), &[&["serve", "--threads", "1", "--segment", &segment], flags].concat())
}

fn memcached_rivals() -> Result<Vec<Rival>, String> {
    let memcached = on_path("memcached").ok_or("memcached is not installed")?;
    let polder = || {
        let udp = free_port()?;
        let server = start_polder(&[
            "--port",
            "0",
            "--memcache-port",
            "{port}",
            "--memcache-udp-port",
            &udp.to_string(),
        ])?;
        fill(&server)?;
        Ok(Place { server, udp, behind: None })
    };
    let peer = move || {
        let udp = free_port()?;
        let udp_flag = udp.to_string();
        let flags =
            ["-u", "nobody", "-t", "1", "-m", "1024", "-l", "127.0.0.1", "-p", "{port}", "-U", &udp_flag];
        let server = start_pinned(&memcached, &flags)?;
        fill(&server)?;
        Ok(Place { server, udp, behind: None })
    };
    Ok(vec![
        Rival { name: "polder", start: Box::new(polder) },
        Rival { name: "memcached", start: Box::new(peer) },
    ])
}

/// Stores all keys.
fn fill(server: &Server) -> io::Result<()> {
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for number in 0..KEYS {
        stream.write_all(format!("set {} 0 0 16 noreply\r\n{VALUE}\r\n", key(number)).as_bytes())?;
    }
    stream.write_all(b"mn\r\n")?;
    stream.read_exact(&mut [0; 4])
}

/// The key with this number; all have the same length.
fn key(number: usize) -> String {
    format!("key:{:08}", number % KEYS)
}

fn memcached_workloads(scale: &Scale) -> Vec<Workload> {
    let stored = |_: usize| "STORED\r\n".to_owned();
    let piped = |name, requests: u64, request: fn(usize) -> String, reply: fn(usize) -> String| Workload {
        name,
        run: Box::new(move |place| lines(place, PIPELINE, requests, request, reply)),
    };
    let requests = scale.of(2_000_000);
    let many = scale.of(50_000);
    vec![
        piped("set, P16", requests, |number| format!("set {} 0 0 16\r\n{VALUE}\r\n", key(number)), stored),
        piped(
            "get, P16",
            requests,
            |number| format!("get {}\r\n", key(number)),
            |number| format!("{}END\r\n", shown(number)),
        ),
        piped(
            "mg v, P16",
            requests,
            |number| format!("mg {} v\r\n", key(number)),
            |_| format!("VA 16\r\n{VALUE}\r\n"),
        ),
        Workload {
            name: "get of 100 keys",
            run: Box::new(move |place| lines(place, 1, many, hundred, hundred_shown)),
        },
        Workload { name: "get over UDP", run: Box::new(move |place| datagrams(place, requests / 4)) },
        piped(
            "set with flags and exptime, P16",
            requests,
            |number| format!("set {} 5 3600 16\r\n{VALUE}\r\n", key(number)),
            stored,
        ),
    ]
}

fn shown(number: usize) -> String {
    format!("VALUE {} 0 16\r\n{VALUE}\r\n", key(number))
}

fn hundred(number: usize) -> String {
    format!("get {}\r\n", (0..100).map(|at| key(number * 100 + at)).collect::<Vec<_>>().join(" "))
}

fn hundred_shown(number: usize) -> String {
    format!("{}END\r\n", (0..100).map(|at| shown(number * 100 + at)).collect::<String>())
}

/// Runs `work` on core 1.
fn on_core_1<R>(work: impl FnOnce() -> io::Result<R>) -> Result<R, String> {
    let all = rustix::thread::sched_getaffinity(None).map_err(|error| error.to_string())?;
    let mut one = CpuSet::new();
    one.set(1);
    sched_setaffinity(None, &one).map_err(|error| format!("core 1: {error}"))?;
    let done = work();
    sched_setaffinity(None, &all).map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}

/// Sends `requests` lines over 50 connections, `pipeline` at a time on each, and waits for as many bytes as the replies have.
fn lines(
    place: &Place,
    pipeline: usize,
    requests: u64,
    request: fn(usize) -> String,
    reply: fn(usize) -> String,
) -> Result<Run, String> {
    /// Different batches, so that all keys are used.
    const BATCHES: usize = 2_000;
    let batches: Vec<(Vec<u8>, usize)> = (0..BATCHES.min(requests as usize))
        .map(|batch| {
            // Neighbours in a batch are no neighbours in memory.
            let numbers = (0..pipeline).map(|at| (batch * pipeline + at) * 7919);
            let bytes = numbers.clone().map(request).collect::<String>().into_bytes();
            (bytes, numbers.map(|number| reply(number).len()).sum())
        })
        .collect();
    on_core_1(|| {
        let mut streams = (0..CONNECTIONS)
            .map(|_| TcpStream::connect(place.server.address()))
            .collect::<io::Result<Vec<_>>>()?;
        streams.iter().try_for_each(|stream| stream.set_read_timeout(Some(PATIENCE)))?;
        let mut room = vec![0; 64 << 10];
        let rounds = (requests as usize).div_ceil(CONNECTIONS * pipeline);
        let (before, began) = (place.cpu_ns(), Instant::now());
        for round in 0..rounds {
            let batch = |number: usize| &batches[(round * CONNECTIONS + number) % batches.len()];
            for (number, stream) in streams.iter_mut().enumerate() {
                stream.write_all(&batch(number).0)?;
            }
            for (number, stream) in streams.iter_mut().enumerate() {
                let mut missing = batch(number).1;
                while missing > 0 {
                    let most = missing.min(room.len());
                    let count = stream.read(&mut room[..most])?;
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    missing -= count;
                }
            }
        }
        Ok(run_since(place, before, began, (rounds * CONNECTIONS * pipeline) as u64))
    })
}

/// The same by datagrams, of which 32 are under way.
fn datagrams(place: &Place, requests: u64) -> Result<Run, String> {
    let header = [0, 1, 0, 0, 0, 1, 0, 0];
    let wanted: Vec<Vec<u8>> = (0..KEYS.min(10_000))
        .map(|number| [&header[..], format!("get {}\r\n", key(number * 7919)).as_bytes()].concat())
        .collect();
    on_core_1(|| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(("127.0.0.1", place.udp))?;
        socket.set_read_timeout(Some(LOST))?;
        let mut room = [0; 2048];
        let mut done = 0;
        let (before, began) = (place.cpu_ns(), Instant::now());
        while done < requests {
            for at in 0..WINDOW {
                socket.send(&wanted[(done as usize + at) % wanted.len()])?;
            }
            let replies = (0..WINDOW).take_while(|_| socket.recv(&mut room).is_ok()).count();
            if replies == 0 {
                return Err(io::Error::other("no datagram comes back"));
            }
            done += replies as u64;
        }
        Ok(run_since(place, before, began, done))
    })
}

/// Files for a measurement, which go with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        let folder = std::env::temp_dir().join(format!("polder-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.0.join(name), text).map_err(|error| format!("{name}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left lies in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Polder with the page as a key, and nginx with the page as a file.
fn http_rivals(folder: &Folder) -> Result<Vec<Rival>, String> {
    let nginx =
        on_path("nginx").or_else(|| Some(PathBuf::from("/usr/sbin/nginx")).filter(|path| path.exists()));
    let nginx = nginx.ok_or("nginx is not installed: xtask/needs.sh bench")?;
    folder.write("page.txt", PAGE)?;
    let polder = || {
        let server = start_polder(&["--port", "0", "--http-port", "{port}"])?;
        let put = format!(
            "PUT /page.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{PAGE}",
            PAGE.len()
        );
        let mut stream = TcpStream::connect(server.address())?;
        stream.write_all(put.as_bytes())?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        if status != *b"HTTP/1.1 201" {
            return Err(io::Error::other(String::from_utf8_lossy(&status).into_owned()));
        }
        Ok(Place::of(server))
    };
    let root = folder.0.display().to_string();
    let peer = move || {
        let port = free_port()?;
        // As Debian configures it, without its log: Polder writes none for requests either.
        let text = format!(
            "daemon off; master_process off; worker_processes 1; pid {root}/nginx.pid; error_log {root}/error.log;\n\
             events {{ worker_connections 768; }}\n\
             http {{ sendfile on; tcp_nopush on; access_log off; keepalive_requests 1000000000; open_file_cache max=100;\n\
             types {{ text/plain txt; }} server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
        );
        std::fs::write(format!("{root}/nginx.conf"), text)?;
        let configuration = format!("{root}/nginx.conf");
        let server = start_at(&nginx, &["-p", &root, "-c", &configuration], port)?;
        Ok(Place::of(server))
    };
    Ok(vec![
        Rival { name: "polder", start: Box::new(polder) },
        Rival { name: "nginx", start: Box::new(peer) },
    ])
}

/// Starts a server on core 0 whose port is known.
fn start_at(program: &Path, flags: &[&str], port: u16) -> io::Result<Server> {
    let program = program.to_string_lossy();
    Server::start_at(Path::new("taskset"), &[&["-c", "0", &*program], flags].concat(), port)
}

fn http(scale: &Scale) -> Workload {
    with_wrk("HTTP GET of 42 bytes", scale, &[], "/page.txt")
}

/// Polder, and webdis with one thread before a redis-server on the same core. Both have the key `answer`.
fn json_rivals(folder: &Folder) -> Result<Vec<Rival>, String> {
    let missing = |name| format!("{name} is not installed: xtask/needs.sh bench");
    let webdis = on_path("webdis").ok_or_else(|| missing("webdis"))?;
    let redis = on_path("redis-server").ok_or_else(|| missing("redis-server"))?;
    let root = folder.0.display().to_string();
    let polder = || {
        let server = start_polder(&["--port", "0", "--http-port", "{port}"])?;
        post(&server, "/js", r#"["SET","answer","42"]"#)?;
        Ok(Place::of(server))
    };
    let peer = move || {
        let behind = start_pinned(&redis, &["--port", "{port}", "--save", "", "--appendonly", "no"])?;
        let (port, redis_port) = (free_port()?, behind.port());
        let text = format!(
            r#"{{"redis_host": "127.0.0.1", "redis_port": {redis_port}, "http_host": "127.0.0.1", "http_port": {port}, "threads": 1,
            "pool_size": 20, "daemonize": false, "database": 0, "verbosity": 0, "logfile": "{root}/webdis.log"}}"#
        );
        let configuration = format!("{root}/webdis.json");
        std::fs::write(&configuration, text)?;
        let server = start_at(&webdis, &[&configuration], port)?;
        post(&server, "/", "SET/answer/42")?;
        Ok(Place { server, udp: 0, behind: Some(behind) })
    };
    Ok(vec![
        Rival { name: "polder", start: Box::new(polder) },
        Rival { name: "webdis", start: Box::new(peer) },
    ])
}

/// Sends a body, whose reply must be a success.
fn post(server: &Server, path: &str, body: &str) -> io::Result<()> {
    let request =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(server.address())?;
    stream.write_all(request.as_bytes())?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    if status == *b"HTTP/1.1 200" {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&status).into_owned()))
    }
}

/// GET as a command in a body: JSON for Polder, a path for webdis, which the server's name tells.
fn json(scale: &Scale, folder: &Folder) -> Workload {
    let script = "wrk.method = 'POST'\nfunction init(args)\n  wrk.path = '/js'\n  wrk.body = '[\"GET\",\"answer\"]'\n\
                  if args[1] == 'webdis' then wrk.path = '/' wrk.body = 'GET/answer' end\nend\n";
    let (path, written) = (folder.path("post.lua"), folder.write("post.lua", script));
    let of_polder = with_wrk("", scale, &["-s", &path], "/ ");
    let of_webdis = with_wrk("", scale, &["-s", &path], "/ webdis");
    let run = move |place: &Place| {
        written.clone()?;
        if place.behind.is_some() { (of_webdis.run)(place) } else { (of_polder.run)(place) }
    };
    Workload { name: "HTTP POST of a GET", run: Box::new(run) }
}

/// 50 connections of wrk, with these flags, to this path of the server; words behind a blank are for the script.
fn with_wrk(name: &'static str, scale: &Scale, flags: &[&str], path: &'static str) -> Workload {
    let seconds = scale.of(10);
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let run = move |place: &Place| {
        let mut words = path.split_whitespace();
        let url = format!("http://{}{}", place.server.address(), words.next().unwrap_or_default());
        let duration = format!("{seconds}s");
        let mut all = vec!["-t", "1", "-c", "50", "-d", &duration];
        all.extend(flags.iter().map(String::as_str));
        all.push(&url);
        all.extend(words);
        let (before, began) = (place.cpu_ns(), Instant::now());
        let said = on_core("wrk", &all)?;
        let refused = said.contains("Non-2xx") || said.contains("Socket errors");
        let count = said
            .lines()
            .find_map(|line| line.trim().split_once(" requests in "))
            .and_then(|(count, _)| count.parse().ok());
        let count = count.filter(|_| !refused).ok_or_else(|| format!("wrk: {said}"))?;
        Ok(run_since(place, before, began, count))
    };
    Workload { name, run: Box::new(run) }
}

/// Runs a load generator on core 1 to its end: what it has said.
fn on_core(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new("taskset")
        .args(["-c", "1", program])
        .args(words)
        .output()
        .map_err(|error| format!("taskset: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{program} {}: {said}", words.join(" "))) }
}

/// Polder and redis-server with the same certificate, and nothing but TLS.
fn tls_rivals(folder: &Folder) -> Result<Vec<Rival>, String> {
    let redis = on_path("redis-server").ok_or("redis-server is not installed")?;
    let (key, certificate) = (folder.path("server.key"), folder.path("server.pem"));
    let words = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ];
    on_core(
        "openssl",
        &[&words[..], &["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", &key, "-out", &certificate]]
            .concat(),
    )?;
    let flags: Vec<String> =
        ["--port", "0", "--tls-port", "{port}", "--tls-auth-clients", "no"].map(String::from).into();
    let files =
        [("--tls-cert-file", &certificate), ("--tls-key-file", &key), ("--tls-ca-cert-file", &certificate)];
    let flags: Vec<String> = flags
        .into_iter()
        .chain(files.into_iter().flat_map(|(flag, file)| [flag.to_owned(), file.clone()]))
        .collect();
    let own = flags.clone();
    let polder = move || {
        let server = start_polder(&own.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(Place::of(server))
    };
    let peer = move || {
        let flags: Vec<&str> = ["--save", ""].into_iter().chain(flags.iter().map(String::as_str)).collect();
        Ok(Place::of(start_pinned(&redis, &flags)?))
    };
    Ok(vec![
        Rival { name: "polder", start: Box::new(polder) },
        Rival { name: "redis", start: Box::new(peer) },
    ])
}

fn tls(scale: &Scale, folder: &Folder) -> Workload {
    let (requests, certificate) = (scale.of(1_000_000), folder.path("server.pem"));
    let run = move |place: &Place| {
        let words = |test| format!("--tls --cacert {certificate} -t {test} -P {PIPELINE} -r {KEYS} -d 16");
        let test = |name, kind| Test { name, words: words(kind), requests, settings: &[] };
        load(&place.server, &test("SET", "set"))?;
        load(&place.server, &test("GET", "get"))
    };
    Workload { name: "TLS GET, P16", run: Box::new(run) }
}

fn handshake(scale: &Scale) -> Workload {
    let seconds = scale.of(5).to_string();
    let run = move |place: &Place| {
        let (before, began) = (place.cpu_ns(), Instant::now());
        let said =
            on_core("openssl", &["s_time", "-connect", &place.server.address(), "-new", "-time", &seconds])?;
        let count = said
            .lines()
            .find_map(|line| line.split_once(" connections in "))
            .and_then(|(count, _)| count.trim().parse().ok());
        Ok(run_since(
            place,
            before,
            began,
            count.filter(|count| *count > 0).ok_or_else(|| format!("openssl s_time: {said}"))?,
        ))
    };
    Workload { name: "TLS handshake", run: Box::new(run) }
}
