//! `polder serve` as its users meet it: flags, a file, one clear line when it cannot start, and a clean end.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
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
    /// What the log says before it is ready.
    opening: String,
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
        let mut log = BufReader::new(child.stdout.take().expect("a pipe"));
        let (opening, ready) = until(&mut log, "ready to accept connections");
        Serving { child, port, segment, opening, ready, log }
    }

    /// The next line of the log with this text.
    fn logged(&mut self, text: &str) -> String {
        until(&mut self.log, text).1
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
        let sent =
            Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("an end").code()
    }
}

/// Reads lines up to the first with this text: those before it, and that one.
fn until(log: &mut BufReader<ChildStdout>, text: &str) -> (String, String) {
    let mut before = String::new();
    loop {
        let mut line = String::new();
        let count = log.read_line(&mut line).expect("a line");
        assert!(count > 0, "the log ended without '{text}': {before}");
        if line.contains(text) {
            return (before, line);
        }
        before += &line;
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
    for part in [
        &format!("segment=\"{}\"", serving.segment),
        "segment_bytes_max=",
        "threads=2",
        "page_bytes=",
        "listening=",
    ] {
        assert!(serving.ready.contains(part), "{part} in {}", serving.ready);
    }
    assert_eq!(serving.ask("SET key value"), "+OK\r\n");
    assert_eq!(serving.signal("-TERM"), Some(0));
}

#[test]
fn a_new_memory_has_the_mode_and_the_pages_that_were_asked_for_or_says_why_not() {
    let serving = Serving::start(&["--segment-mode", "0660", "--segment-pages", "2mb"], &[]);
    let file = serving.segment.replace("shm:", "/dev/shm/");
    assert_eq!(std::fs::metadata(file).expect("the segment").permissions().mode() & 0o777, 0o660);
    assert!(serving.ask("CONFIG GET segment-mode").contains("\r\n660\r\n"));
    if !serving.ready.contains("page_bytes=2097152") {
        let line = serving.opening.lines().find(|line| line.contains("--segment-pages")).expect("a warning");
        assert!(line.contains("WARN") && line.contains("2 MiB"), "{line}");
    }
    // A server that comes later takes the memory as it is.
    let other = Serving::start(&["--segment", &serving.segment, "--segment-mode", "0600"], &[]);
    assert!(other.ready.contains(&format!("segment=\"{}\"", serving.segment)), "{}", other.ready);
}

#[test]
fn the_memory_outlives_the_server() {
    let mut first = Serving::start(&[], &[]);
    assert_eq!(first.ask("SET key value"), "+OK\r\n");
    assert_eq!(first.signal("-KILL"), None);
    let port = first.port.to_string();
    let mut second = polder()
        .args(["serve", "--segment", &first.segment, "--port", &port])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a start");
    let mut log = BufReader::new(second.stdout.take().expect("a pipe"));
    let (opening, _) = until(&mut log, "ready to accept connections");
    assert!(opening.contains("the segment was found") && opening.contains("keys=1"), "{opening}");
    assert_eq!(first.ask("GET key"), "$5\r\nvalue\r\n");
    second.kill().expect("an end");
    second.wait().expect("an end");
}

#[test]
fn a_file_sets_and_flags_win() {
    let path = std::env::temp_dir().join(format!("polder-test-{}.conf", std::process::id()));
    std::fs::write(&path, "# a comment\nmaxclients 77\ntimeout 5\nrequirepass \"two words\"\n")
        .expect("a file");
    let serving = Serving::start(
        &["--config", path.to_str().expect("text"), "--timeout", "9", "--log-format", "json"],
        &[],
    );
    assert!(
        serving.ready.starts_with('{')
            && serving.ready.contains("\"message\":\"ready to accept connections\""),
        "{}",
        serving.ready
    );
    assert_eq!(
        serving.ask("AUTH \"two words\"\r\nCONFIG GET maxclients\r\nCONFIG GET timeout").lines().nth(5),
        Some("77")
    );
    std::fs::remove_file(&path).expect("the file");
}

#[test]
fn what_prevents_a_start_is_one_clear_line() {
    let serving = Serving::start(&[], &[]);
    let port = serving.port.to_string();
    assert!(refusal(&["--segment", &serving.segment, "--port", &port]).contains("another server is there"));
    assert!(refusal(&["--no-such-setting", "1"]).contains("no-such-setting"));
    assert!(refusal(&["--port"]).contains("a value is missing"));
    assert_eq!(
        refusal(&["--port", "many"]),
        "polder: --port: many: argument couldn't be parsed into an integer\n"
    );
    assert!(refusal(&["--prot", "1"]).contains("did you mean '--port'?"));
    assert!(refusal(&["--port", "1", "--help"]).contains("polder serve --help"));
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
    let arguments =
        |segment: &str| ["--segment", segment, "--segment-size", "16mb", "--port", &port].map(String::from);
    let refused = |segment: &str| refusal(&arguments(segment).each_ref().map(String::as_str));
    assert!(refused(&fresh).contains("cannot listen"));
    let options = |segment: &str, create| polder_engine::Options {
        segment: segment.into(),
        ceiling: 16 << 20,
        create,
        ..Default::default()
    };
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
    drop(
        Memory::attach(&polder_engine::Options {
            segment: segment.clone(),
            ceiling: 16 << 20,
            ..Default::default()
        })
        .expect("made"),
    );
    let set = polder()
        .args(["cli", "--segment", &segment, "config", "set", "maxmemory", "5mb"])
        .output()
        .expect("polder runs");
    assert!(set.status.success());
    let file = std::env::temp_dir().join(format!("polder-serve-effect-{}.conf", std::process::id()));
    std::fs::write(&file, "maxmemory 3mb\nmaxmemory-samples 5\n").expect("written");
    let path = file.to_str().expect("text");
    let mut serving = Serving::start_on(&segment, "32mb", &["--config", path], &[]);
    assert_eq!(serving.signal("-TERM"), Some(0));
    let mut told = serving.opening.clone();
    serving.log.read_to_string(&mut told).expect("text");
    assert!(
        told.contains("segment-size 32.00M has no effect")
            && told.contains("'maxmemory' of the configuration file"),
        "{told}"
    );
    assert!(!told.contains("maxmemory-samples"), "{told}");
    std::fs::remove_file(file).expect("it is there");
}

#[test]
fn signals_that_redis_ignores_are_ignored_and_told() {
    let mut serving = Serving::start(&[], &[]);
    for name in ["HUP", "USR1", "USR2"] {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &serving.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        assert!(serving.logged(&format!("SIG{name}")).contains("is ignored"));
    }
    assert_eq!(serving.ask("PING"), "+PONG\r\n");
    assert_eq!(serving.signal("-TERM"), Some(0));
}

#[test]
fn a_second_sigterm_does_not_cut_a_stop_short() {
    let mut serving = Serving::start(&[], &[]);
    let pid = serving.child.id().to_string();
    // The second signal may come when the process has ended.
    Command::new("sh")
        .args(["-c", &format!("kill -TERM {pid}; kill -TERM {pid} 2>&-; true")])
        .status()
        .expect("sh runs");
    assert_eq!(serving.child.wait().expect("an end").code(), Some(0));
}

#[test]
fn each_open_door_is_named_at_start() {
    let (memcached, http) = (free_port().expect("a port"), free_port().expect("a port"));
    let mut serving =
        Serving::start(&["--memcache-port", &memcached.to_string(), "--http-port", &http.to_string()], &[]);
    for (door, port) in [("RESP over TCP", serving.port), ("memcached over TCP", memcached), ("HTTP", http)] {
        let line = serving
            .opening
            .lines()
            .find(|line| line.contains(&format!(" {door} ")))
            .unwrap_or_else(|| panic!("no {door}"));
        assert!(line.contains(&format!("127.0.0.1:{port}")), "{line}");
    }
    assert_eq!(serving.signal("-TERM"), Some(0));
}

#[test]
fn the_log_tells_what_happens_to_the_memory() {
    let folder = Folder::new("log");
    let mut serving =
        Serving::start(&["--loglevel", "debug", "--dir", folder.path(), "--requirepass", "secret"], &[]);
    assert!(serving.opening.contains("the segment was made"), "{}", serving.opening);
    assert!(serving.ask("AUTH wrong\r\n").starts_with("-WRONGPASS"));
    assert!(serving.logged("a client has connected").contains("address=\"127.0.0.1:"));
    let refused = serving.logged("a log-in was refused");
    assert!(
        refused.contains("WARN")
            && refused.contains("user=\"default\"")
            && refused.contains("address=\"127.0.0.1:"),
        "{refused}"
    );
    serving.logged("a client has gone");
    assert_eq!(serving.ask("AUTH secret\r\nSET key value\r\nSAVE\r\n").lines().next(), Some("+OK"));
    assert!(serving.logged("saving begins").contains("keys=1"));
    assert!(serving.logged("saved").contains("keys=1"));
    assert!(serving.ask("AUTH secret\r\nRESTORE hurt 0 nonsense\r\n").contains("-ERR DUMP payload version"));
    let refused = serving.logged("a payload for RESTORE was refused");
    assert!(
        refused.contains("key=\"hurt\"") && refused.contains("client=") && refused.contains("127.0.0.1:"),
        "{refused}"
    );
    serving.ask("AUTH secret\r\nCONFIG SET maxmemory 1\r\nCONFIG SET maxmemory-policy allkeys-lru\r\n");
    assert!(serving.logged("keys are evicted from now on").contains("WARN"));
    let sent =
        Command::new("kill").args(["-TERM", &serving.child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let (rest, _) = until(&mut serving.log, "bye");
    assert!(!rest.contains("mio"), "{rest}");
}

/// A folder that goes with the test.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("polder-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies among other temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server in the background, by a file; ended with the test.
struct Daemon {
    folder: Folder,
    port: u16,
    segment: String,
}

impl Daemon {
    /// Starts it with these lines of a file, in which `{folder}` is a folder of the test.
    fn start(name: &str, lines: &str) -> (Daemon, std::process::Output) {
        let daemon =
            Daemon { folder: Folder::new(name), port: free_port().expect("a port"), segment: fresh_name() };
        let file = daemon.folder.0.join("test.conf");
        let own = format!("port {}\nsegment {}\nsegment-size 64mb\n", daemon.port, daemon.segment);
        let text = lines.replace("{folder}", daemon.folder.path()) + "\n" + &own;
        std::fs::write(&file, text).expect("a file");
        let output = polder().arg("serve").arg(&file).stdin(Stdio::null()).output().expect("polder runs");
        (daemon, output)
    }

    fn ask(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).expect("a request");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        reply.strip_suffix("+OK\r\n").expect("the reply to QUIT").to_owned()
    }

    fn pid(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.0.join("pid")).ok().map(|text| text.trim().to_owned())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
        let _ = Memory::remove(&self.segment);
    }
}

#[test]
fn a_server_in_the_background_serves_when_its_start_returns() {
    let lines = "daemonize yes\npidfile {folder}/pid\nlogfile {folder}/log";
    let (daemon, output) = Daemon::start("daemon", lines);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(daemon.ask("PING"), "+PONG\r\n");
    let pid = daemon.pid().expect("a pidfile");
    // A session of its own: the end of the terminal's is not told to it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let session = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3));
    assert_eq!(session, Some(pid.as_str()));
    assert_eq!(
        std::fs::read_link(format!("/proc/{pid}/fd/2")).expect("a descriptor"),
        std::path::Path::new("/dev/null")
    );
    // A second one cannot listen there, and its start says so.
    let second = polder().arg("serve").arg(daemon.folder.0.join("test.conf")).output().expect("polder runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another server is there"), "{second:?}");
    assert!(Command::new("kill").arg(&pid).status().expect("kill runs").success());
    while daemon.pid().is_some() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let log = std::fs::read_to_string(daemon.folder.0.join("log")).expect("a log");
    assert!(log.contains("SIGTERM: stopping"), "{log}");
}

#[test]
fn the_configuration_of_debians_redis_is_taken_as_it_is() {
    let Ok(file) = std::fs::read_to_string("/etc/redis/redis.conf") else { return };
    let moved = [
        ("/run/redis/redis-server.pid", "{folder}/pid"),
        ("/var/log/redis/redis-server.log", "{folder}/log"),
        ("/var/lib/redis", "{folder}"),
    ];
    let lines = moved.iter().fold(file, |text, (from, to)| text.replace(from, to));
    let (daemon, output) = Daemon::start("debian", &lines);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(daemon.ask("CONFIG GET daemonize"), "*2\r\n$9\r\ndaemonize\r\n$3\r\nyes\r\n");
}

#[test]
fn commands_are_renamed_and_taken_away_as_in_redis() {
    let lines = "daemonize yes\npidfile {folder}/pid\nlogfile {folder}/log\nrename-command FLUSHALL \"\"\nrename-command GET fetch\n\
        rename-command CONFIG hidden-config\nrename-command HINCRBYFLOAT addfloat\nrename-command fetch fetch2";
    let (daemon, output) = Daemon::start("rename", lines);
    assert!(output.status.success(), "{output:?}");
    let replies = [
        ("FLUSHALL", "-ERR unknown command 'FLUSHALL'"),
        ("GET key", "-ERR unknown command 'GET'"),
        ("fetch key", "-ERR unknown command 'fetch'"),
        ("CONFIG GET port", "-ERR unknown command 'CONFIG'"),
        ("HINCRBYFLOAT h f 1", "-ERR unknown command 'HINCRBYFLOAT'"),
        ("SET key value", "+OK"),
        ("FETCH2 key", "$5\r\nvalue"),
        ("addfloat h f 1.5", "$3\r\n1.5"),
        ("hidden-config GET threads", "*2\r\n$7\r\nthreads"),
        ("EVAL \"return redis.call('fetch2','key')\" 0", "$5\r\nvalue"),
        ("EVAL \"return redis.call('get','key')\" 0", "-ERR Unknown Redis command called from script"),
        ("COMMAND GETKEYS fetch2 key", "*1\r\n$3\r\nkey"),
        ("COMMAND INFO get", "*1\r\n$-1"),
        ("COMMAND LIST FILTERBY PATTERN flushall", "*0"),
        // Rules of users have the old names.
        ("ACL SETUSER reader on nopass ~* +get", "+OK"),
        ("ACL SETUSER other +fetch2", "-ERR Error in ACL SETUSER modifier '+fetch2'"),
    ];
    for (line, reply) in replies {
        let got = daemon.ask(line);
        assert!(got.starts_with(reply), "{line}: {got}");
    }
    assert!(
        daemon.ask("AUTH reader any\r\nFETCH2 key\r\nSET key 1").starts_with("+OK\r\n$5\r\nvalue\r\n-NOPERM")
    );
    for (line, why) in [
        ("rename-command nothing x", "there is no command 'nothing'"),
        ("rename-command GET SET", "there is a command 'SET' already"),
    ] {
        let (_, output) = Daemon::start("rename-wrong", &format!("rename-command DEL drop\n{line}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why) && said.contains("line 2"), "{said}");
    }
}

#[test]
fn a_server_that_shares_the_port_takes_over_the_socket_as_well() {
    let folder = Folder::new("socket");
    let path = folder.0.join("polder.sock");
    let flags =
        ["--share-port", "yes", "--unixsocket", path.to_str().expect("text"), "--unixsocketperm", "700"];
    let mut first = Serving::start(&flags, &[]);
    let held = std::os::unix::net::UnixStream::connect(&path).expect("a connection");
    let second = Serving::start(
        &[&flags[..], &["--segment", &first.segment, "--port", &first.port.to_string()]].concat(),
        &[],
    );
    let ask = |mut stream: &std::os::unix::net::UnixStream| {
        stream.write_all(b"PING\r\n").expect("a request");
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+PONG\r\n");
    };
    ask(&held);
    assert_eq!(first.signal("-TERM"), Some(0));
    ask(&std::os::unix::net::UnixStream::connect(&path).expect("the second server"));
    assert_eq!(std::fs::metadata(&path).expect("a socket").permissions().mode() & 0o777, 0o700);
    // Without that flag the path is taken.
    assert!(
        refusal(&["--segment", &second.segment, "--port", "0", "--unixsocket", path.to_str().expect("text")])
            .contains("another server")
    );
    drop(second);
    assert_eq!(
        std::fs::read_dir(&folder.0).expect("a folder").count(),
        1,
        "a killed server leaves its socket, and nothing else"
    );
}

/// A root, and a key with a certificate of it for `localhost` whose owner is `alice`.
fn make_certificates(folder: &Path) {
    let openssl = |words: &str| {
        let made = Command::new("openssl")
            .args(words.split(' '))
            .current_dir(folder)
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&made.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost").expect("a file");
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=polder-test-ca"));
    openssl(&format!("req {key} -keyout key.pem -out cert.csr -subj /CN=alice"));
    openssl(
        "x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile names",
    );
}

/// What the command line says, on both outputs, of an input.
fn said_by_cli(port: &str, flags: &str, input: &str) -> String {
    let mut command = polder();
    command.args(["cli", "-p", port]).args(flags.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("polder starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("an input");
    let output = child.wait_with_output().expect("an end");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn the_command_line_speaks_tls_and_a_signal_renews_certificates() {
    let folder = Folder::new("tls");
    make_certificates(&folder.0);
    let port = free_port().expect("a port").to_string();
    let file = |name: &str| folder.0.join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("cert.pem"), file("key.pem"));
    let flags = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
    ];
    let mut serving = Serving::start(&[&flags[..], &["optional"]].concat(), &[]);
    let cli = |flags: &str, input: &str| {
        said_by_cli(&port, &flags.replace("ROOT", &ca).replace("CERT", &cert).replace("KEY", &key), input)
    };
    assert_eq!(cli("-h localhost --tls --cacert ROOT SET k v", ""), "OK\n");
    assert_eq!(
        cli("-h 127.0.0.1 --tls --cacert ROOT --sni localhost --cert CERT --key KEY GET k", ""),
        "v\n"
    );
    assert_eq!(cli("-u rediss://localhost --cacert ROOT GET k", ""), "v\n");
    assert_eq!(cli("-h 127.0.0.1 --tls --insecure GET k", ""), "v\n");
    // Pipes read in a thread of their own.
    let piped = cli("-h localhost --tls --cacert ROOT --pipe", &"INCR n\r\n".repeat(20_000));
    assert!(piped.contains("errors: 0, replies: 20000"), "{piped}");
    for (flags, why) in [
        ("-h 127.0.0.1 --tls --cacert ROOT PING", "not valid for name"),
        ("-h localhost --tls --cacert /none.pem PING", "--cacert /none.pem cannot be used"),
        ("-h localhost --tls --cacert ROOT --cert CERT --key CERT PING", "cannot be used"),
    ] {
        let output = cli(flags, "");
        assert!(
            output.starts_with("Could not connect to") && output.contains(why) && output.lines().count() == 1,
            "{output}"
        );
    }
    let hup = |serving: &Serving| {
        let sent =
            Command::new("kill").args(["-HUP", &serving.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    };
    std::fs::copy(&ca, file("old.pem")).expect("a copy");
    make_certificates(&folder.0);
    hup(&serving);
    assert!(serving.logged("SIGHUP").contains("read again"));
    assert_eq!(cli("-h localhost --tls --cacert ROOT GET k", ""), "v\n");
    assert!(
        cli(&format!("-h localhost --tls --cacert {} GET k", file("old.pem")), "")
            .starts_with("Could not connect")
    );
    std::fs::write(&key, "nonsense").expect("a file");
    hup(&serving);
    assert!(serving.logged("SIGHUP").contains(&key));
    assert_eq!(cli("-h localhost --tls --cacert ROOT GET k", ""), "v\n");
    assert_eq!(serving.signal("-TERM"), Some(0));
}
