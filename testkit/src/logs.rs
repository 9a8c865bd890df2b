//! What tests of append-only logs share: folders, work for a server, and what came of it.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_engine::{Memory, Options};
use polder_storage::{Disk, Folder};
pub use polder_testbase::until;

use crate::answer::Answer;
use crate::process::{Server, free_port, polder};
use crate::random::Random;
use crate::resp::Connection;

/// A folder of its own, which goes with it.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("polder-aof-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("appendonlydir")).expect("a folder");
        Place(path)
    }

    pub fn folder(&self) -> Folder {
        Folder { medium: Arc::new(Disk), path: self.0.join("appendonlydir"), name: "appendonly.aof".into() }
    }

    /// Writes files of a log by hand, the last one being that which may be torn.
    pub fn write(&self, files: &[(&str, char, &str)]) {
        let mut manifest = String::new();
        for (number, (name, role, text)) in files.iter().enumerate() {
            std::fs::write(self.folder().path.join(name), lines(text)).expect("a file");
            manifest.push_str(&format!("file {name} seq {} type {role}\n", number + 1));
        }
        std::fs::write(self.folder().manifest_path(), manifest).expect("a manifest");
    }

    pub fn start(&self, program: &Path, more: &[&str]) -> (Server, Connection) {
        let mut flags =
            vec!["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"];
        flags.extend([
            "--dir",
            self.0.to_str().expect("text"),
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ]);
        flags.extend(more);
        let server = Server::start(program, &flags).expect("a server");
        let connection = Connection::open(&server.address()).expect("a connection");
        (server, connection)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A segment and a folder for its log.
pub struct World {
    pub place: Place,
    pub segment: String,
    segment_bytes: &'static str,
}

impl World {
    pub fn new(name: &str) -> World {
        let place = Place::new(&format!("server-{name}"));
        std::fs::remove_dir(place.folder().path).expect("the server makes it");
        World {
            place,
            segment: format!("shm:polder-test-{}-log-{name}", std::process::id()),
            segment_bytes: "256mb",
        }
    }

    /// One whose segment is a file, small enough to be copied.
    pub fn in_file(name: &str) -> World {
        let mut world = World::new(name);
        (world.segment, world.segment_bytes) = (format!("file:{}/segment", world.dir()), "16mb");
        world
    }

    /// The file of such a segment.
    pub fn file(&self) -> PathBuf {
        self.place.0.join("segment")
    }

    pub fn dir(&self) -> &str {
        self.place.0.to_str().expect("text")
    }

    pub fn flags<'f>(&'f self, more: &[&'f str]) -> Vec<&'f str> {
        let mut flags = vec!["--segment-size", self.segment_bytes, "--save", "", "--dir", self.dir()];
        flags.extend(more);
        flags
    }

    pub fn serve(&self, more: &[&str]) -> (Server, Connection) {
        let server = Server::start_polder(&polder(), &self.segment, &self.flags(more)).expect("a server");
        let mut connection = Connection::open(&server.address()).expect("a connection");
        until("the data is there", || {
            !matches!(connection.call(&["DBSIZE"]).expect("a reply"), Answer::Error(_))
        });
        (server, connection)
    }

    pub fn with_log(&self) -> (Server, Connection) {
        self.serve(&["--appendonly", "yes"])
    }

    /// A server that does not start; what it says.
    pub fn refused(&self, more: &[&str]) -> String {
        let port = free_port().expect("a port").to_string();
        let mut flags = vec!["serve", "--port", &port, "--segment", &self.segment];
        flags.extend(self.flags(more));
        let mut child = Command::new(polder())
            .args(&flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("polder");
        let begun = Instant::now();
        while child.try_wait().expect("a status").is_none() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // It has ended, or never does.
        let _ = child.kill();
        let output = child.wait_with_output().expect("what it said");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// `polder storage` for this segment and folder. It ends with the thread that begins it: a test that fails leaves no process.
    pub fn storage_command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(polder()).args([
            "storage",
            "--segment",
            &self.segment,
            "--dir",
            self.dir(),
        ]);
        command
    }

    pub fn storage(&self, more: &[&str]) -> Child {
        let mut child =
            self.storage_command().args(more).stdout(Stdio::piped()).spawn().expect("polder storage");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains("the log has another base")), "it begins");
        std::thread::spawn(move || said.for_each(drop));
        child
    }

    /// Attaches the segment, which must be there.
    pub fn attach(&self) -> Result<Memory, String> {
        let options = Options { segment: self.segment.clone(), create: false, ..Options::default() };
        Memory::attach(&options).map_err(|fault| fault.to_string())
    }

    pub fn lose_segment(&self) {
        Memory::remove(&self.segment).expect("removed");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.segment);
    }
}

pub fn ask(connection: &mut Connection, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    connection.call(&words).expect("a reply").shown().trim_end().to_owned()
}

/// A reply of ITEM.GET without the number for CAS, which is each memory's own; other replies as they are.
pub fn without_cas(reply: &str) -> String {
    let mut lines: Vec<&str> = reply.lines().collect();
    if let Some(at) = lines.iter().position(|line| line.ends_with("\"cas\"")) {
        lines.drain(at..(at + 2).min(lines.len()));
    }
    lines.join("\n")
}

/// What a client of memcached is told, up to a number of lines.
pub fn memcached(port: &str, says: &str, lines: usize) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a connection");
    stream.write_all(says.as_bytes()).expect("sent");
    let mut heard = BufReader::new(stream).lines();
    (0..lines).map(|_| heard.next().expect("a line").expect("text") + "\r\n").collect()
}

pub fn signal(name: &str, process: u32) {
    assert!(
        Command::new("kill").args([name, &process.to_string()]).status().is_ok_and(|status| status.success())
    );
}

/// Waits until all that was written is on the disk.
pub fn synced(connection: &mut Connection) {
    assert_eq!(ask(connection, "WAITAOF 1 0 20000"), "1) (integer) 1\n2) (integer) 0");
}

/// Each line as a command; a line that begins with `#` or ends in `...` stands as it is, the latter without its dots.
pub fn lines(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(torn) = line.strip_suffix("...") {
            bytes.extend_from_slice(torn.replace("\\r\\n", "\r\n").as_bytes());
        } else if line.starts_with('#') {
            bytes.extend_from_slice(format!("{line}\r\n").as_bytes());
        } else {
            let words: Vec<&str> = line.split(' ').collect();
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            words.iter().for_each(|word| {
                bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes())
            });
        }
    }
    bytes
}

/// Commands of all types, in transactions, scripts and alone; what is random in them the server has to write as it came out.
pub fn work(server: &mut Connection, random: &mut Random, count: usize) {
    for _ in 0..count {
        let key = |name: &str, random: &mut Random| format!("{name}:{}", random.below(20));
        let number = random.below(1000).to_string();
        let (text, longer) = (format!("text-{number}"), format!("{number}-").repeat(random.below(60)));
        let call: Vec<String> = match random.below(26) {
            0 => vec!["SET".into(), key("s", random), longer],
            1 => vec!["SET".into(), key("s", random), text, "EX".into(), "100000".into()],
            2 => vec!["INCRBY".into(), key("n", random), number],
            3 => vec!["INCRBYFLOAT".into(), key("f", random), "0.1".into()],
            4 => vec!["APPEND".into(), key("s", random), text],
            5 => vec!["RPUSH".into(), key("l", random), text, longer],
            6 => vec!["LPOP".into(), key("l", random)],
            7 => vec!["LINSERT".into(), key("l", random), "BEFORE".into(), text, number],
            8 => vec!["HSET".into(), key("h", random), text, longer],
            9 => vec!["HINCRBY".into(), key("h", random), "count".into(), number],
            10 => vec!["SADD".into(), key("t", random), number, text],
            11 => vec!["SPOP".into(), key("t", random), "2".into()],
            12 => vec!["ZADD".into(), key("z", random), number, text],
            13 => vec!["ZINCRBY".into(), key("z", random), "2".into(), text],
            14 => vec!["ZPOPMIN".into(), key("z", random)],
            15 => vec![
                "XADD".into(),
                key("x", random),
                "MAXLEN".into(),
                "~".into(),
                "50".into(),
                "*".into(),
                "field".into(),
                longer,
            ],
            16 => vec!["XTRIM".into(), key("x", random), "MAXLEN".into(), "10".into()],
            17 => vec!["PFADD".into(), key("p", random), number, text],
            18 => vec!["SETRANGE".into(), key("s", random), "7".into(), text],
            19 => vec!["DEL".into(), key("s", random), key("h", random)],
            20 => vec!["EXPIRE".into(), key("h", random), "100000".into()],
            21 => vec!["SELECT".into(), random.below(3).to_string()],
            22 => vec!["SUNIONSTORE".into(), key("t", random), key("t", random), key("t", random)],
            23 => vec![
                "EVAL".into(),
                "redis.call('INCR', KEYS[1]) redis.call('RPUSH', KEYS[2], ARGV[1])".into(),
                "2".into(),
            ]
            .into_iter()
            .chain([key("n", random), key("l", random), text])
            .collect(),
            24 => vec!["PEXPIRE".into(), key("s", random), "1".into()],
            _ => vec!["RENAME".into(), key("s", random), key("s", random)],
        };
        let together = random.chance(10);
        if together {
            server.call(&["MULTI"]).expect("a reply");
            server.call(&["SADD", "several", &random.below(100).to_string()]).expect("a reply");
        }
        server.call(&call).expect("a reply");
        if together {
            server.call(&["EXEC"]).expect("a reply");
        }
    }
}

pub fn info(server: &mut Connection, line: &str) -> bool {
    server.call(&["INFO", "persistence"]).expect("a reply").shown().contains(line)
}

pub fn rewrite(server: &mut Connection) {
    server.call(&["BGREWRITEAOF"]).expect("a reply");
    until("the rewrite ends", || {
        info(server, "aof_rewrite_in_progress:0") && info(server, "aof_rewrite_scheduled:0")
    });
}

/// What has a short expiry is gone, and has been written as gone.
pub fn settle(server: &mut Connection) {
    for db in ["0", "1", "2"] {
        server.call(&["SELECT", db]).expect("a reply");
        let Answer::Array(keys) = server.call(&["KEYS", "*"]).expect("a reply") else {
            panic!("KEYS replies an array")
        };
        for key in keys {
            let Answer::Bulk(key) = key else { panic!("a key is a string") };
            until("what expires soon is gone", || {
                !matches!(server.call(&[&b"PTTL"[..], &key]).expect("a reply"), Answer::Integer(0..=60_000))
            });
        }
    }
}

/// What each key holds, with its expiry.
pub fn state(mut call: impl FnMut(&[&str]) -> Answer) -> Vec<String> {
    let mut found = Vec::new();
    for db in ["0", "1", "2"] {
        call(&["SELECT", db]);
        let keys = match call(&["KEYS", "*"]) {
            Answer::Array(keys) => keys,
            other => panic!("KEYS replies {other:?}"),
        };
        let mut keys: Vec<String> =
            keys.iter().map(|key| key.shown().trim().trim_matches('"').to_owned()).collect();
        keys.sort();
        for key in keys {
            // Valkey 8 digests scores as it prints them.
            let value = if key.starts_with("z:") {
                call(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])
            } else {
                call(&["DEBUG", "DIGEST-VALUE", &key])
            };
            found.push(format!(
                "{db} {key} {} {}",
                call(&["PEXPIRETIME", &key]).shown().trim(),
                value.shown().trim()
            ));
        }
    }
    found
}

pub fn same(found: &[String], expected: &[String]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// Checks that the log of a memory, and a base that is written of its data, bring back what `make` makes and `show` shows:
/// with each form of base, by servers with these flags.
///
/// # Panics
/// If they do not.
pub fn log_and_base_hold<S: PartialEq + std::fmt::Debug>(
    name: &str,
    more: &[&str],
    make: impl Fn(&mut Connection),
    show: impl Fn(&mut Connection) -> S,
) {
    for preamble in ["yes", "no"] {
        let world = World::new(&format!("{name}-{preamble}"));
        let flags = [&["--appendonly", "yes", "--aof-use-rdb-preamble", preamble], more].concat();
        let started_anew = |server: Server| {
            signal("-TERM", server.pid());
            until("it has ended", || server.fate() != "it runs");
            world.lose_segment();
            world.serve(&flags)
        };
        let (server, mut first) = world.serve(&flags);
        make(&mut first);
        let there = show(&mut first);
        let (server, mut read) = started_anew(server);
        assert_eq!(show(&mut read), there, "the log, {preamble}");
        assert!(!ask(&mut read, "BGREWRITEAOF").starts_with("(error)"));
        until("the log is written", || {
            let text = ask(&mut read, "INFO persistence");
            text.contains("aof_rewrite_in_progress:0") && text.contains("aof_rewrite_scheduled:0")
        });
        let (_server, mut read) = started_anew(server);
        assert_eq!(show(&mut read), there, "the base, {preamble}");
    }
}
