//! `polder serve` as its users meet it: flags, a file, one clear line when it cannot start, and a clean end.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use polder_engine::Memory;
use polder_testkit::process::free_port;
use polder_testkit::scratch::fresh_name;

/// A running `polder serve`, killed with the test.
struct Serving {
    child: Child,
    port: u16,
    segment: String,
    /// The line that says that it is ready.
    ready: String,
    /// Held open: what follows that line has a reader.
    log: BufReader<ChildStdout>,
}

fn polder() -> Command {
    Command::new(env!("CARGO_BIN_EXE_polder"))
}

impl Serving {
    fn start(flags: &[&str], environment: &[(&str, &str)]) -> Serving {
        Serving::start_on(&fresh_name(), "64mb", flags, environment)
    }

    fn start_on(segment: &str, size: &str, flags: &[&str], environment: &[(&str, &str)]) -> Serving {
        let (port, segment) = (free_port().expect("a port"), segment.to_owned());
        let mut child = polder()
            .args(["serve", "--segment", &segment, "--segment-size", size, "--port", &port.to_string()])
            .args(flags)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("polder starts");
        let mut ready = String::new();
        let mut log = BufReader::new(child.stdout.take().expect("a pipe"));
        log.read_line(&mut ready).expect("a line");
        Serving { child, port, segment, ready, log }
    }

    fn ask(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream.write_all(format!("{line}\r\n").as_bytes()).expect("a request");
        let mut reply = [0; 512];
        let count = stream.read(&mut reply).expect("a reply");
        String::from_utf8_lossy(&reply[..count]).into_owned()
    }

    fn signal(&mut self, name: &str) -> Option<i32> {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("an end").code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail when the test has already ended the server, or it never came up: nothing is left then.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Memory::remove(&self.segment);
    }
}

/// What `polder serve` says when it does not start.
fn refusal(arguments: &[&str]) -> String {
    let output = polder().arg("serve").args(arguments).output().expect("polder runs");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn it_says_what_it_serves_and_ends_well_on_sigterm() {
    let mut serving = Serving::start(&["--threads", "2"], &[]);
    for part in [&format!("segment=\"{}\"", serving.segment), "segment_bytes_max=", "threads=2", "page_bytes=", "listening="] {
        assert!(serving.ready.contains(part), "{part} in {}", serving.ready);
    }
    assert_eq!(serving.ask("SET key value"), "+OK\r\n");
    assert_eq!(serving.signal("-TERM"), Some(0));
}

#[test]
fn a_new_memory_has_the_mode_and_the_pages_that_were_asked_for_or_says_why_not() {
    let mut serving = Serving::start(&["--segment-mode", "0660", "--segment-pages", "2mb"], &[]);
    let file = serving.segment.replace("shm:", "/dev/shm/");
    assert_eq!(std::fs::metadata(file).expect("the segment").permissions().mode() & 0o777, 0o660);
    assert!(serving.ask("CONFIG GET segment-mode").contains("\r\n660\r\n"));
    if !serving.ready.contains("page_bytes=2097152") {
        let mut line = String::new();
        serving.log.read_line(&mut line).expect("a line");
        assert!(line.contains("WARN") && line.contains("--segment-pages") && line.contains("2 MiB"), "{line}");
    }
    // Who comes later takes the memory as it is.
    let other = Serving::start(&["--segment", &serving.segment, "--segment-mode", "0600"], &[]);
    assert!(other.ready.contains(&format!("segment=\"{}\"", serving.segment)), "{}", other.ready);
}

#[test]
fn the_memory_outlives_the_server() {
    let mut first = Serving::start(&[], &[]);
    assert_eq!(first.ask("SET key value"), "+OK\r\n");
    assert_eq!(first.signal("-KILL"), None);
    let port = first.port.to_string();
    let mut second =
        polder().args(["serve", "--segment", &first.segment, "--port", &port]).stdout(Stdio::piped()).spawn().expect("a start");
    BufReader::new(second.stdout.take().expect("a pipe")).read_line(&mut String::new()).expect("a line");
    assert_eq!(first.ask("GET key"), "$5\r\nvalue\r\n");
    second.kill().expect("an end");
    second.wait().expect("an end");
}

#[test]
fn a_file_sets_and_flags_win() {
    let path = std::env::temp_dir().join(format!("polder-test-{}.conf", std::process::id()));
    std::fs::write(&path, "# a comment\nmaxclients 77\ntimeout 5\nrequirepass \"two words\"\n").expect("a file");
    let serving = Serving::start(&["--config", path.to_str().expect("text"), "--timeout", "9", "--log-format", "json"], &[]);
    assert!(serving.ready.starts_with('{') && serving.ready.contains("\"message\":\"ready to accept connections\""), "{}", serving.ready);
    assert_eq!(serving.ask("AUTH \"two words\"\r\nCONFIG GET maxclients\r\nCONFIG GET timeout").lines().nth(5), Some("77"));
    std::fs::remove_file(&path).expect("the file");
}

#[test]
fn what_prevents_a_start_is_one_clear_line() {
    let serving = Serving::start(&[], &[]);
    let port = serving.port.to_string();
    assert!(refusal(&["--segment", &serving.segment, "--port", &port]).contains("another server is there"));
    assert!(refusal(&["--no-such-setting", "1"]).contains("no-such-setting"));
    assert!(refusal(&["--port"]).contains("a value is missing"));
    assert_eq!(refusal(&["--port", "many"]), "polder: --port: argument couldn't be parsed into an integer\n");
    assert!(refusal(&["--appendonly", "yes"]).contains("appendonly"));
    assert!(refusal(&["--config", "/nowhere/polder.conf"]).contains("/nowhere/polder.conf"));
    assert!(refusal(&["--segment", &serving.segment, "--port", "0"]).contains("nothing to listen on"));
    assert!(refusal(&["--segment", &serving.segment, "--logfile", "/nowhere/log"]).contains("--logfile"));
    let unix = ["--segment", &serving.segment, "--port", "0", "--unixsocket", "/nowhere/socket"];
    assert!(refusal(&unix).contains("--unixsocket"));
}

#[test]
fn systemd_is_told_when_it_is_ready_and_when_it_stops() {
    let path = std::env::temp_dir().join(format!("polder-test-{}.notify", std::process::id()));
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let mut serving = Serving::start(&[], &[("NOTIFY_SOCKET", path.to_str().expect("text"))]);
    let mut told = [0; 256];
    let count = socket.recv(&mut told).expect("a message");
    assert!(told[..count].starts_with(b"READY=1"));
    assert_eq!(serving.signal("-INT"), Some(0));
    let count = socket.recv(&mut told).expect("a message");
    assert!(told[..count].starts_with(b"STOPPING=1"));
    std::fs::remove_file(&path).expect("the socket");
}

#[test]
fn a_start_that_fails_leaves_no_new_segment() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = holder.local_addr().expect("an address").port().to_string();
    let (fresh, kept) = (fresh_name(), fresh_name());
    let arguments = |segment: &str| ["--segment", segment, "--segment-size", "16mb", "--port", &port].map(String::from);
    let refused = |segment: &str| refusal(&arguments(segment).each_ref().map(String::as_str));
    assert!(refused(&fresh).contains("cannot listen"));
    let options =
        |segment: &str, create| polder_engine::Options { segment: segment.into(), ceiling: 16 << 20, create, ..Default::default() };
    assert!(Memory::attach(&options(&fresh, false)).is_err(), "nothing is left");
    // One that was there stays.
    drop(Memory::attach(&options(&kept, true)).expect("made"));
    assert!(refused(&kept).contains("cannot listen"));
    drop(Memory::attach(&options(&kept, false)).expect("it is there"));
    Memory::remove(&kept).expect("it is there");
}

#[test]
fn a_server_closes_its_file_in_order() {
    let path = std::env::temp_dir().join(format!("polder-serve-closed-{}", std::process::id()));
    let segment = format!("file:{}", path.display());
    let clean = || std::fs::read(&path).expect("it is there")[polder_shm::layout::header::CLEAN as usize];
    let mut serving = Serving::start_on(&segment, "16mb", &[], &[]);
    assert!(serving.ask("SET k v").starts_with("+OK"));
    assert_eq!(clean(), 0);
    assert_eq!(serving.signal("-TERM"), Some(0));
    assert_eq!(clean(), 1);
}

#[test]
fn a_server_stops_when_its_segment_is_removed() {
    let mut serving = Serving::start(&[], &[]);
    Memory::remove(&serving.segment).expect("it is there");
    assert_eq!(serving.child.wait().expect("an end").code(), Some(1));
    let mut rest = String::new();
    serving.log.read_to_string(&mut rest).expect("text");
    assert!(rest.contains("has been removed") && rest.contains("the memory is gone"), "{rest}");
}

#[test]
fn what_has_no_effect_on_a_segment_that_exists_is_told() {
    let segment = fresh_name();
    drop(Memory::attach(&polder_engine::Options { segment: segment.clone(), ceiling: 16 << 20, ..Default::default() }).expect("made"));
    let set = polder().args(["cli", "--segment", &segment, "config", "set", "maxmemory", "5mb"]).output().expect("polder runs");
    assert!(set.status.success());
    let file = std::env::temp_dir().join(format!("polder-serve-effect-{}.conf", std::process::id()));
    std::fs::write(&file, "maxmemory 3mb\nmaxmemory-samples 5\n").expect("written");
    let path = file.to_str().expect("text");
    let mut serving = Serving::start_on(&segment, "32mb", &["--config", path], &[]);
    assert_eq!(serving.signal("-TERM"), Some(0));
    let mut told = serving.ready.clone();
    serving.log.read_to_string(&mut told).expect("text");
    assert!(told.contains("segment-size 32.00M has no effect") && told.contains("'maxmemory' of the configuration file"), "{told}");
    assert!(!told.contains("maxmemory-samples"), "{told}");
    std::fs::remove_file(file).expect("it is there");
}
