//! What runs out (memory, seats, inboxes, descriptors, the file system) is told in words that say what to do, and comes back.
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polder_engine::{Caller, Error, Memory, Options};
use polder_shm::layout::SEATS_MAX;
use polder_testbase::{PATIENCE, until_quick};
use polder_testkit::answer::Answer;
use polder_testkit::process::{Server, free_port};
use polder_testkit::resp::Connection;

use crate::stage::{Segment, connect};

fn attach(segment: &Segment, ceiling: u64) -> Arc<Memory> {
    let options = Options { segment: segment.0.clone(), ceiling, ..Options::default() };
    Arc::new(Memory::attach(&options).expect("attached"))
}

/// Sets keys of 10 KB until that is refused: how many there are, and the words of the refusal.
fn fill(mut set: impl FnMut(&str, &str) -> Result<(), String>) -> (usize, String) {
    let value = "x".repeat(10_000);
    let refused = (0..1_000_000)
        .find_map(|number| set(&format!("key:{number}"), &value).err().map(|text| (number, text)));
    refused.expect("no memory is so large")
}

#[test]
fn a_full_segment_says_so_and_takes_more_when_something_has_gone() {
    let segment = Segment::new();
    let mut caller = Caller::new(&attach(&segment, 16 << 20));
    let (count, text) =
        fill(|key, value| caller.run(&["SET", key, value]).map(drop).map_err(|error| error.to_string()));
    assert!(count > 500 && text.contains("ceiling") && text.contains("larger"), "{count}: {text}");
    // What is there is read and removed, and then there is room for as much.
    assert_eq!(caller.show(&["STRLEN", "key:1"], |reply| reply.integer()), Ok(Some(10_000)));
    for _ in 0..3 {
        (0..200).for_each(|number| {
            assert_eq!(caller.show(&["DEL", &format!("key:{number}")], |reply| reply.integer()), Ok(Some(1)))
        });
        // What no pin covers any more is given back with the next changes.
        let mut tries = 0;
        for number in 0..200 {
            let value = "y".repeat(if number < 150 { 10_000 } else { 1 });
            while let Err(error) = caller.run(&["SET", &format!("key:{number}"), &value]) {
                tries += 1;
                assert!(tries < 10_000, "{number}: {error}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    segment.verify();
}

/// Fills a memory from several clients with values of `bytes` bytes until nothing more fits.
/// Returns how many there are.
fn fill_together(server: &Server, round: usize, bytes: usize) -> usize {
    let value = "x".repeat(bytes);
    let fill = |client: usize| {
        let mut connection = connect(server);
        let mut set = |number: &usize| {
            let key = format!("{round}:{client}:{number}");
            connection.call(&["SET", &key, &value]).is_ok_and(|answer| answer == Answer::Status("OK".into()))
        };
        (0..1_000_000).take_while(|number| set(number)).count()
    };
    std::thread::scope(|scope| {
        let fillers: Vec<_> = (0..4).map(|client| scope.spawn(move || fill(client))).collect();
        fillers.into_iter().map(|filler| filler.join().expect("an end")).sum()
    })
}

#[test]
fn what_flushall_has_emptied_is_room_for_the_next_set() {
    let segment = Segment::new();
    let server = Server::start_polder(
        env!("CARGO_BIN_EXE_polder").as_ref(),
        &segment.0,
        &["--threads", "2", "--segment-size", "24mb"],
    );
    let server = server.expect("a server");
    let memory = attach(&segment, 24 << 20);
    let (mut caller, mut client) = (Caller::new(&memory), connect(&server));
    // One more seat, which keeps what its caches hold.
    caller.run(&["SET", "idle", &"x".repeat(5000)]).expect("room");
    for (round, bytes) in [10_000, 100, 10_000, 1000, 200_000, 30].into_iter().enumerate() {
        let count = fill_together(&server, round, bytes);
        assert!(count * bytes.max(60) > 8 << 20, "{round}: {count} of {bytes} bytes");
        let flush: &[&str] = if round % 2 == 0 { &["FLUSHALL"] } else { &["FLUSHALL", "SYNC"] };
        assert_eq!(client.call(flush).expect("a reply"), Answer::Status("OK".into()));
        // At once, and as much as half of it, by the server and in this process.
        for number in 0..count / 4 {
            let (key, value) = (format!("again:{number}"), "y".repeat(bytes));
            assert_eq!(
                client.call(&["SET", &key, &value]).expect("a reply"),
                Answer::Status("OK".into()),
                "{round}: {number} of {count}"
            );
            caller
                .run(&["SET", &format!("{key}:own"), &value])
                .unwrap_or_else(|error| panic!("{round}: {number} of {count}: {error}"));
        }
        assert_eq!(client.call(&["FLUSHALL"]).expect("a reply"), Answer::Status("OK".into()));
    }
    segment.verify();
}

#[test]
fn what_flushall_has_emptied_counts_for_no_limit() {
    let segment = Segment::new();
    let mut caller = Caller::new(&attach(&segment, 256 << 20));
    caller.run(&["CONFIG", "SET", "maxmemory", "16mb"]).expect("set");
    for _ in 0..3 {
        let (count, text) =
            fill(|key, value| caller.run(&["SET", key, value]).map(drop).map_err(|error| error.to_string()));
        assert!(count > 500 && text.starts_with("OOM"), "{count}: {text}");
        caller.run(&["FLUSHALL"]).expect("flushed");
        // Without a server that sweeps, the writer does it itself.
        for number in 0..count / 2 {
            caller
                .run(&["SET", &format!("key:{number}"), &"y".repeat(10_000)])
                .unwrap_or_else(|error| panic!("{number} of {count}: {error}"));
        }
        caller.run(&["FLUSHALL"]).expect("flushed");
    }
    segment.verify();
}

/// Threads that write, as many as there are seats, of which some are refused; and what each waits for before it ends.
fn take_all_seats(memory: &Arc<Memory>) -> (Vec<mpsc::Sender<()>>, Vec<JoinHandle<()>>) {
    let (seated, seats) = mpsc::channel();
    let threads = (0..SEATS_MAX).map(|_| {
        let (memory, seated) = (memory.clone(), seated.clone());
        let (kept, is_kept) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            let answer = Caller::new(&memory).run(&["INCR", "seated"]).map(drop);
            seated.send(answer).expect("the test waits");
            // Until the test lets go.
            let _ = is_kept.recv();
        });
        (kept, thread.expect("a thread"))
    });
    let threads = threads.unzip();
    let answers: Vec<Result<(), Error>> =
        (0..SEATS_MAX).map(|_| seats.recv_timeout(PATIENCE).expect("an answer")).collect();
    let refused: Vec<String> =
        answers.iter().filter_map(|answer| answer.as_ref().err().map(ToString::to_string)).collect();
    assert!(!refused.is_empty(), "one seat was ours");
    for text in &refused {
        assert!(text.contains("seats of the segment are taken") && text.contains("end some"), "{text}");
    }
    threads
}

#[test]
fn when_all_seats_are_taken_the_next_thread_is_told_and_seats_come_back() {
    let segment = Segment::new();
    let memory = attach(&segment, 512 << 20);
    let mut caller = Caller::new(&memory);
    caller.run(&["SET", "k", "v"]).expect("a seat of our own");
    let (mut keep, mut threads) = take_all_seats(&memory);
    // A process with a seat goes on; a server says why it cannot begin.
    assert_eq!(caller.show(&["GET", "k"], |reply| reply.bytes() == Some(b"v")), Ok(true));
    let port = free_port().expect("a port").to_string();
    let args = ["20", env!("CARGO_BIN_EXE_polder"), "serve", "--port", &port, "--segment", &segment.0];
    let output = Command::new("timeout").args(args).output().expect("polder runs");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        !output.status.success() && text.contains("seats of the segment are taken"),
        "{:?}: {text}",
        output.status
    );
    // One or two are free: for a server's first thread, and for one at most of those that serve.
    keep.truncate(SEATS_MAX as usize - 2);
    threads.drain(keep.len()..).for_each(|thread| thread.join().expect("an end"));
    let server = Server::start_polder(env!("CARGO_BIN_EXE_polder").as_ref(), &segment.0, &["--threads", "4"])
        .expect("a server");
    // Reading takes no seat, writing does. They are spread over all threads.
    let mut clients: Vec<Connection> = (0..6).map(|_| connect(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["GET", "k"]).expect("a reply"), Answer::Bulk(b"v".to_vec()));
    }
    let said: Vec<Answer> =
        clients.iter_mut().map(|client| client.call(&["APPEND", "long", "x"]).expect("a reply")).collect();
    let is_told = |answer: &Answer| matches!(answer, Answer::Error(text) if text.contains("seats of the segment are taken"));
    assert!(said.iter().all(|answer| is_told(answer) || matches!(answer, Answer::Integer(_))), "{said:?}");
    assert!(said.iter().any(is_told), "{said:?}");
    // When there are seats again, the thread that began without one is woken by what comes for its clients, as any.
    drop(keep);
    threads.into_iter().for_each(|thread| thread.join().expect("an end"));
    std::thread::sleep(Duration::from_millis(500));
    for client in &mut clients {
        client.call(&["SUBSCRIBE", "news"]).expect("a seat for each thread");
    }
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..4 {
        // The threads sleep again.
        std::thread::sleep(Duration::from_millis(30));
        until_quick("messages to threads that are woken", Duration::from_millis(200), || {
            assert_eq!(caller.show(&["PUBLISH", "news", "x"], |reply| reply.integer()), Ok(Some(6)));
            clients.iter_mut().for_each(|client| drop(client.receive().expect("a message")));
        });
    }
    drop(server);
    // All seats are free, and a server serves its first client.
    let server = Server::start_polder(env!("CARGO_BIN_EXE_polder").as_ref(), &segment.0, &["--threads", "2"])
        .expect("a server");
    let answer = Connection::open(&server.address()).and_then(|mut client| client.call(&["GET", "k"]));
    assert_eq!(answer.map_err(|error| error.to_string()), Ok(Answer::Bulk(b"v".to_vec())));
}

#[test]
fn a_full_inbox_delays_no_publisher_and_its_owner_is_told() {
    let segment = Segment::new();
    let memory = attach(&segment, 256 << 20);
    let (mut listener, mut publisher) = (Caller::new(&memory), Caller::new(&memory));
    listener.run(&["SUBSCRIBE", "news"]).expect("subscribed");
    let memory = &memory;
    std::thread::scope(|scope| {
        // In a thread of its own: the listener's thread would hear while it publishes.
        let publishing = scope.spawn(move || {
            let mut caller = Caller::new(memory);
            let payload = "x".repeat(1000);
            let begun = Instant::now();
            for _ in 0..100_000 {
                assert_eq!(caller.show(&["PUBLISH", "news", &payload], |reply| reply.integer()), Ok(Some(1)));
            }
            begun.elapsed()
        });
        let took = publishing.join().expect("no error");
        assert!(took < PATIENCE, "{took:?} for 100,000 messages that nobody hears");
    });
    assert!(memory.table().usage().used < 64 << 20, "the inbox is bounded");
    let mut heard = 0;
    let lost = loop {
        match listener.hear(Duration::ZERO, |_| heard += 1) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(Error::Lost) => break true,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(lost && heard > 0, "{heard} were heard, and nothing was said of the others");
    publisher.run(&["PUBLISH", "news", "again"]).expect("published");
    assert_eq!(listener.hear(Duration::from_secs(10), |_| ()), Ok(1));
}

#[test]
fn without_descriptors_clients_are_turned_away_and_come_back() {
    let segment = Segment::new();
    let port = free_port().expect("a port");
    let line = format!(
        "ulimit -n 64; exec {} serve --threads 2 --segment {} --port {port}",
        env!("CARGO_BIN_EXE_polder"),
        segment.0
    );
    let server = Server::start_at("sh".as_ref(), &["-c", &line], port).expect("a server");
    let mut first = connect(&server);
    let mut clients: Vec<Connection> = Vec::new();
    let (mut served, mut refused) = (0, String::new());
    for _ in 0..100 {
        let mut client = connect(&server);
        match client.call(&["PING"]) {
            Ok(Answer::Status(pong)) if pong == "PONG" => served += 1,
            Ok(Answer::Error(text)) => refused = text,
            Ok(other) => panic!("{}", other.shown()),
            // Turned away before it could read why.
            Err(_) => {}
        }
        clients.push(client);
        if served >= 10 && !refused.is_empty() {
            break;
        }
    }
    assert!(served >= 10 && refused.contains("max number of clients reached"), "{served} served; {refused}");
    assert_eq!(first.call(&["SET", "k", "v"]).expect("a reply"), Answer::Status("OK".into()));
    drop(clients);
    let begun = Instant::now();
    while !connect(&server).call(&["PING"]).is_ok_and(|answer| answer == Answer::Status("PONG".into())) {
        assert!(begun.elapsed() < PATIENCE, "nobody is served any more");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A process that can open nothing says so and ends; one descriptor is enough to look at the segment.
    let run = |descriptors: u32| {
        let line =
            format!("ulimit -n {descriptors}; exec {} verify {}", env!("CARGO_BIN_EXE_polder"), segment.0);
        Command::new("timeout").args(["20", "sh", "-c", &line]).output().expect("sh runs")
    };
    assert!(run(4).status.success());
    let output = run(3);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        !output.status.success() && !text.contains("panicked") && !text.trim().is_empty(),
        "{:?}: {text}",
        output.status
    );
}

/// A small file system of our own, gone when the test ends.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where this process may not mount.
    fn new(name: &str, size: &str) -> Option<Mounted> {
        let place = std::env::temp_dir().join(format!("polder-{name}-{}", std::process::id()));
        std::fs::create_dir(&place).expect("a folder");
        let size = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&place).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Mounted(place));
        }
        std::fs::remove_dir(&place).expect("removed");
        println!("skipped: no permission to mount a tmpfs");
        None
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(
            Command::new("mount")
                .args(["-o", &options])
                .arg(&self.0)
                .status()
                .is_ok_and(|status| status.success())
        );
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a server may not be gone yet.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_full_file_system_is_an_error_that_says_so_and_ends_with_more_room() {
    let Some(mounted) = Mounted::new("resized", "24m") else { return };
    let segment = Segment(format!("file:{}", mounted.0.join("segment").display()));
    let server = segment.serve(&["--threads", "2"]);
    let mut client = connect(&server);
    let mut fill = || {
        fill(|key, value| match client.call(&["SET", key, value]).expect("the server lives") {
            Answer::Error(text) => Err(text),
            _ => Ok(()),
        })
    };
    let (count, text) = fill();
    assert!(count > 300 && text.contains("file system"), "{count}: {text}");
    mounted.resize("64m");
    let (more, _) = fill();
    assert!(more > count * 2, "{more} keys fit with more room, {count} before");
    assert_eq!(connect(&server).call(&["STRLEN", "key:0"]).expect("a reply"), Answer::Integer(10_000));
}

#[test]
fn where_the_file_system_is_full_tools_and_a_second_server_still_attach() {
    let Some(mounted) = Mounted::new("full", "24m") else { return };
    let segment = format!("file:{}/segment", mounted.0.display());
    let start = || {
        Server::start_polder(env!("CARGO_BIN_EXE_polder").as_ref(), &segment, &["--segment-size", "64mb"])
            .expect("a server")
    };
    let server = start();
    let mut client = connect(&server);
    let (count, text) = fill(|key, value| match client.call(&["SET", key, value]) {
        Ok(Answer::Error(text)) => Err(text),
        other => other.map(drop).map_err(|error| error.to_string()),
    });
    assert!(count > 500 && text.contains("OOM"), "{count}: {text}");
    // Not a byte is left for others either.
    let _ = std::fs::write(mounted.0.join("rest"), vec![1; 4 << 20]);
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_polder")).args(arguments).output().expect("polder runs");
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    };
    for _ in 0..3 {
        run(&["verify", &segment]);
        run(&["inspect", &segment, "key:1"]);
        assert!(run(&["cli", "--segment", &segment, "strlen", "key:1"]).contains("10000"));
        assert!(run(&["segment", "stat", &segment]).contains("keys"));
        assert!(run(&["top", &segment, "--lines", "-i", "0.1", "-r", "1"]).contains("keys"));
    }
    let second = start();
    let mut other = connect(&second);
    assert_eq!(other.call(&["STRLEN", "key:1"]).expect("a reply"), Answer::Integer(10_000));
    assert_eq!(other.call(&["FLUSHALL"]).expect("a reply"), Answer::Status("OK".into()));
    let end = Instant::now() + PATIENCE;
    while other.call(&["SET", "again", "1"]).expect("a reply") != Answer::Status("OK".into()) {
        assert!(Instant::now() < end, "there is room again");
    }
}

#[test]
fn a_script_that_the_system_has_no_memory_for_fails_and_the_server_goes_on() {
    let segment = Segment::new();
    let server = segment.serve(&[]);
    let mut client = connect(&server);
    assert_eq!(client.call(&["EVAL", "return 1", "0"]).unwrap(), Answer::Integer(1));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a status");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    // As `ulimit -v`: 160 MiB more than it has mapped.
    let limit = format!("--as={}", (kib << 10) + (160 << 20));
    assert!(
        Command::new("prlimit")
            .args(["--pid", &server.pid().to_string(), &limit])
            .status()
            .expect("prlimit runs")
            .success()
    );
    let hogs = [
        "local t = {} for i = 1, 1e8 do t[i] = {i} end",
        "local t = {} for i = 1, 1e8 do t[i] = string.rep('x', 1000) .. i end",
        "return #string.rep('x', 2e9)",
        "local s = 'x' while true do s = s .. s end",
        "local s, t = string.rep('x', 4e6), {} for i = 1, 100 do t[i] = s end return #cjson.encode(t)",
        "local s, t = string.rep('\\1', 4e6), {} for i = 1, 100 do t[i] = s end return #cjson.encode(t)",
        "local s, t = string.rep('x', 4e6), {} for i = 1, 100 do t[i] = s end return #cmsgpack.pack(t)",
        "local s = string.rep('x', 4e6) return #string.gsub(string.rep('y', 100), 'y', s)",
        "local s = string.rep('x', 4e6) return #string.gsub(s, '.+', string.rep('%0', 100))",
        "local s, t = string.rep('x', 4e6), {} for i = 1, 100 do t[i] = s end return #struct.pack(string.rep('c0', 100), unpack(t))",
    ];
    for hog in hogs {
        match client.call(&["EVAL", hog, "0"]).expect("the server lives") {
            Answer::Error(text) => assert!(text.contains("not enough memory"), "{hog}: {text}"),
            other => panic!("{hog}: {other:?}"),
        }
        assert_eq!(
            client
                .call(&["EVAL", "return redis.call('INCR', 'n')", "0"])
                .map(|_| ())
                .map_err(|error| error.to_string()),
            Ok(())
        );
    }
    assert_eq!(client.call(&["GET", "n"]).unwrap(), Answer::Bulk(hogs.len().to_string().into_bytes()));
}

#[test]
fn what_natives_write_counts_against_the_memory_limit_of_scripts() {
    let segment = Segment::new();
    let server = segment.serve(&["--lua-memory-limit", "32mb"]);
    let mut client = connect(&server);
    let hogs = [
        "local s, t = string.rep('x', 4e6), {} for i = 1, 100 do t[i] = s end return #cjson.encode(t)",
        "local s, t = string.rep('x', 4e6), {} for i = 1, 100 do t[i] = s end return #cmsgpack.pack(t)",
        "local s = string.rep('x', 4e6) return #string.gsub(string.rep('y', 100), 'y', s)",
        "local s, t = string.rep('x', 4e6), {} for i = 1, 100 do t[i] = s end return #struct.pack(string.rep('c0', 100), unpack(t))",
    ];
    for hog in hogs {
        match client.call(&["EVAL", hog, "0"]).expect("the server lives") {
            Answer::Error(text) => assert!(text.contains("not enough memory"), "{hog}: {text}"),
            other => panic!("{hog}: {other:?}"),
        }
    }
    assert_eq!(
        client.call(&["EVAL", "return #cjson.encode({string.rep('x', 4e6)})", "0"]).unwrap(),
        Answer::Integer(4_000_004)
    );
}
