//! Append-only logs of real servers, read into a segment; torn and damaged ones; what a log says of keys that have expired since.
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use polder_base::Protocol;
use polder_engine::{Memory, scripting};
use polder_persist::replay::{Files, Replayed, TornEnd, replay};
use polder_runtime::configuration::Configuration;
use polder_storage::{Folder, check::check};
use polder_testkit::answer::Answer;
use polder_testkit::caller::Caller;
use polder_testkit::logs::{Place, info, lines, rewrite, same, settle, state, until, work};
use polder_testkit::process::{Server, on_path, polder, valkey};
use polder_testkit::random::Random;
use polder_testkit::resp::Connection;
use polder_testkit::scratch::Scratch;

/// Reads a log into a memory.
fn read_with(
    scratch: &Scratch,
    settings: &Configuration,
    folder: &Folder,
    torn_end: TornEnd,
) -> Result<Replayed, String> {
    let manifest = folder.load().map_err(|error| error.to_string())?.ok_or("no manifest")?;
    let loading = scratch.embedder.memory.table().begin_loading().map_err(|fault| fault.to_string())?;
    replay(&loading, settings, &scripting(settings), Files::open(folder, manifest)?, torn_end, &mut |_| ())
}

/// A memory into which a log was read.
fn read(folder: &Folder, torn_end: TornEnd) -> Result<(Scratch, Replayed), String> {
    let scratch = Scratch::new();
    let replayed = read_with(&scratch, &Configuration::default(), folder, torn_end)?;
    assert!(!scratch.embedder.memory.table().limits().importing, "the limits are as before");
    Ok((scratch, replayed))
}

fn ask(scratch: &Scratch, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    Caller::new(1, Protocol::Resp2)
        .call(&scratch.embedder, &words)
        .expect("one reply")
        .shown()
        .trim_end()
        .to_owned()
}

fn logs_of(program: &Path, name: &str) {
    for (preamble, seed) in [("yes", 1), ("no", 2), ("yes", 3)] {
        let place = Place::new(&format!("{name}-{seed}"));
        let (server, mut connection) =
            place.start(program, &["--aof-use-rdb-preamble", preamble, "--aof-timestamp-enabled", "yes"]);
        let mut random = Random::new(seed);
        let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
        connection.call(&["FUNCTION", "LOAD", library]).expect("a reply");
        work(&mut connection, &mut random, 1500);
        rewrite(&mut connection);
        work(&mut connection, &mut random, 1500);
        settle(&mut connection);
        let expected = state(|words| connection.call(words).expect("a reply"));
        let functions = connection.call(&["FUNCTION", "LIST"]).expect("a reply").shown();
        drop(server);
        assert_eq!(check(&place.folder()).expect("a log").flaw, None);
        let (scratch, replayed) = read(&place.folder(), TornEnd::Refused).expect("a log");
        assert_eq!((replayed.refused, replayed.first_refused), (0, None));
        assert!(
            replayed.commands > 500 && (replayed.base.keys > 0) == (preamble == "yes"),
            "{replayed:?}",
            replayed = replayed.commands
        );
        let mut caller = Caller::new(1, Protocol::Resp2);
        let found = state(|words| caller.call(&scratch.embedder, words).expect("a reply"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{name}, seed {seed}");
        }
        assert_eq!(found.len(), expected.len());
        assert_eq!(ask(&scratch, "FUNCTION LIST"), functions.trim_end());
        torn_anywhere(&place, &mut random);
    }
}

#[test]
fn no_setting_refuses_what_a_log_says() {
    let place = Place::new("settings");
    let text = format!("SET k v\nSET long {}\nAPPEND long more", "x".repeat(2 << 20));
    place.write(&[("appendonly.aof.1.base.aof", 'b', "SET b 1"), ("appendonly.aof.1.incr.aof", 'i', &text)]);
    let flags = ["--min-replicas-to-write", "1", "--proto-max-bulk-len", "1mb"].map(String::from);
    let (_, flags) = polder_calls::settings::file::flags(&flags).expect("flags");
    let settings = Configuration::begin(None, &[], &flags).expect("settings");
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    let replayed = read_with(&scratch, &settings, &place.folder(), TornEnd::Refused).expect("a log");
    assert_eq!((replayed.refused, replayed.first_refused, table.keys(0).0), (0, None, 3));
}

#[test]
fn the_changes_of_a_log_of_redis_are_shown_whatever_letters_their_names_have() {
    let Some(program) = on_path("redis-server") else {
        return println!("left out: there is no redis-server");
    };
    let place = Place::new("letters");
    let (mut server, mut connection) = place.start(&program, &[]);
    let mut call = |line: &str| drop(connection.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply"));
    ["select 3", "set a 1", "multi", "incr a", "del b", "rpush l x", "exec", "publish c m"]
        .iter()
        .for_each(|line| call(line));
    server.kill();
    let folder = place.folder();
    let manifest = folder.load().expect("readable").expect("a manifest");
    let path = folder.path_of(manifest.increments.last().expect("an incremental file"));
    let mut log = std::fs::read(&path).expect("the log");
    assert!(log.windows(3).any(|bytes| bytes == b"set"), "{}", log.escape_ascii());
    // What a primary sends a replica, which has it in its log.
    log.extend_from_slice(&lines("ping\nREPLCONF GETACK *\npublish c m\nselect 0\nset z 1"));
    std::fs::write(&path, log).expect("written");
    let shown =
        Command::new(polder()).args(["changes", "--json"]).arg(&folder.path).output().expect("polder");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let found: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("\"commands\":").map(|(_, rest)| rest)).collect();
    let expected = [
        r#"[{"db":3,"command":["SET","a","1"]}]}"#,
        r#"[{"db":3,"command":["INCR","a"]},{"db":3,"command":["RPUSH","l","x"]}]}"#,
        r#"[{"db":0,"command":["SET","z","1"]}]}"#,
    ];
    assert_eq!(found, expected, "{text}{}", String::from_utf8_lossy(&shown.stderr));
}

#[test]
fn what_is_refused_inside_a_transaction_counts() {
    let place = Place::new("inside");
    let text = "SET s v\nMULTI\nGET s\nLPUSH s x\nSET t -v\nHSET s f v\nEXEC\nSET u v";
    place.write(&[("appendonly.aof.1.base.aof", 'b', "SET b 1"), ("appendonly.aof.1.incr.aof", 'i', text)]);
    let (scratch, replayed) = read(&place.folder(), TornEnd::Refused).expect("a log");
    assert_eq!((replayed.refused, ask(&scratch, "DBSIZE")), (2, "(integer) 4".to_owned()));
    assert!(
        replayed.first_refused.is_some_and(|first| first.starts_with("a call of a transaction: WRONGTYPE"))
    );
}

/// Wherever the last file ends, what is whole is read, and the rest can be cut off.
fn torn_anywhere(place: &Place, random: &mut Random) {
    let folder = place.folder();
    let manifest = folder.load().expect("readable").expect("a manifest");
    let path = folder.path_of(manifest.increments.last().expect("an incremental file"));
    let whole = std::fs::read(&path).expect("a file");
    let scratch = Scratch::new();
    for _ in 0..8 {
        std::fs::write(&path, &whole[..random.below(whole.len())]).expect("cut");
        ask(&scratch, "FLUSHALL");
        let load = |torn_end| {
            read_with(&scratch, &Configuration::default(), &folder, torn_end).map(|replayed| replayed.torn)
        };
        let torn = load(TornEnd::CutOff).expect("what is whole");
        ask(&scratch, "FLUSHALL");
        assert_eq!(load(TornEnd::Refused).expect("it was cut off"), None, "{torn:?}");
    }
}

#[test]
fn logs_of_redis_hold_here_what_they_held_there() {
    match on_path("redis-server") {
        Some(program) => logs_of(&program, "redis"),
        None => println!("left out: there is no redis-server"),
    }
}

#[test]
fn logs_of_valkey_hold_here_what_they_held_there() {
    match valkey() {
        Some(program) => logs_of(&program, "valkey"),
        None => println!("left out: there is no valkey-server"),
    }
}

#[test]
fn a_log_whose_rewrite_died_with_its_server_is_whole() {
    let Some(program) = on_path("redis-server") else {
        return println!("left out: there is no redis-server");
    };
    let place = Place::new("rewriting");
    let (mut server, mut connection) = place.start(&program, &["--rdb-key-save-delay", "20000"]);
    let mut random = Random::new(11);
    work(&mut connection, &mut random, 300);
    connection.call(&["BGREWRITEAOF"]).expect("a reply");
    until("the rewrite begins", || info(&mut connection, "aof_rewrite_in_progress:1"));
    work(&mut connection, &mut random, 100);
    settle(&mut connection);
    let expected = state(|words| connection.call(words).expect("a reply"));
    server.kill();
    let (scratch, replayed) = read(&place.folder(), TornEnd::Refused).expect("a log");
    assert_eq!(replayed.manifest.increments.len(), 2);
    let mut caller = Caller::new(1, Protocol::Resp2);
    assert_eq!(state(|words| caller.call(&scratch.embedder, words).expect("a reply")), expected);
}

#[test]
fn commands_meet_what_had_not_expired_when_they_were_made() {
    let place = Place::new("expired");
    let past = "1000000000000";
    let future = "99999999999999";
    let files = format!(
        "SELECT 0\nSET a 1\nPEXPIREAT a {past}\nSET b 1 PXAT {past}\nHSET h f 1\nSET c 1 PXAT {past}\nSET gone 1 PXAT {past}"
    );
    let later = format!(
        "SELECT 0\nAPPEND a 2\nPERSIST a\nMULTI\nINCRBY b 4\nPEXPIREAT b {future}\nEXEC\nRENAME c d\nPERSIST d"
    );
    place.write(&[("appendonly.aof.1.base.aof", 'b', &files), ("appendonly.aof.1.incr.aof", 'i', &later)]);
    let (scratch, replayed) = read(&place.folder(), TornEnd::Refused).expect("a log");
    assert_eq!((replayed.commands, replayed.refused), (16, 0));
    assert_eq!(ask(&scratch, "MGET a b d"), "1) \"12\"\n2) \"5\"\n3) \"1\"");
    assert_eq!(ask(&scratch, "PEXPIRETIME b"), format!("(integer) {future}"));
    assert_eq!(ask(&scratch, "EXISTS gone c"), "(integer) 0");
}

#[test]
fn only_what_counts_is_read_and_what_is_wrong_is_told_with_file_and_byte() {
    let place = Place::new("wrong");
    let base = ("appendonly.aof.1.base.aof", 'b', "SET k 1");
    let check = |text: &str, torn_end, expected: Result<&str, &str>| {
        place.write(&[base, ("appendonly.aof.1.incr.aof", 'i', text)]);
        match (read(&place.folder(), torn_end), expected) {
            (Ok((scratch, _)), Ok(expected)) => assert_eq!(ask(&scratch, "GET k"), expected, "{text}"),
            (Err(why), Err(part)) => {
                assert!(why.contains("1.incr.aof: ") && why.contains(part), "{text}: {why}")
            }
            (found, _) => panic!("{text}: {:?}", found.map(|(_, replayed)| replayed)),
        }
    };
    check("#TS:1\nSET k 2\n#POLDER:9 9", TornEnd::Refused, Ok("\"2\""));
    check("SET k 2\nMULTI\nSET k 3", TornEnd::Ignored, Ok("\"2\""));
    check(
        "SET k 2\nMULTI\nSET k 3",
        TornEnd::Refused,
        Err("at byte 27: the file ends inside a record or a transaction"),
    );
    check("SET k 2\n*3\\r\\n$3\\r\\nSET...", TornEnd::Ignored, Ok("\"2\""));
    check("SET k 2\n*3\\r\\n$3\\r\\nSET...", TornEnd::Refused, Err("'aof-load-truncated yes'"));
    check("LPUSH k 2\nSET k 2", TornEnd::Refused, Ok("\"2\""));
    check("SET k 2\nNOSUCH k\nSET k 3", TornEnd::Ignored, Err("at byte 27: NOSUCH: ERR unknown command"));
    check("SELECT 99\nSET k 2", TornEnd::Ignored, Err("at byte 0: SELECT: ERR DB index is out of range"));
    check(
        "SET k 2\nx...\nSET k 3",
        TornEnd::Ignored,
        Err("at byte 27: a record begins with '*' or '#', not with 'x'"),
    );
    place.write(&[
        base,
        ("appendonly.aof.1.incr.aof", 'i', "*3..."),
        ("appendonly.aof.2.incr.aof", 'i', "SET k 2"),
    ]);
    assert!(
        read(&place.folder(), TornEnd::CutOff)
            .map(drop)
            .expect_err("torn")
            .contains("Only the last file of a log may")
    );
    std::fs::remove_file(place.folder().path.join("appendonly.aof.1.incr.aof")).expect("removed");
    assert!(
        read(&place.folder(), TornEnd::CutOff)
            .map(drop)
            .expect_err("missing")
            .contains("1.incr.aof: No such file")
    );
}

#[test]
fn a_limit_of_memory_stops_no_load() {
    let place = Place::new("limit");
    let text: String = (0..200).map(|number| format!("LPUSH l{number} {}\n", "x".repeat(5000))).collect();
    place.write(&[("appendonly.aof.1.base.aof", 'b', "SET k 1"), ("appendonly.aof.1.incr.aof", 'i', &text)]);
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    table.set_limits(polder_engine::Limits { memory_max: 100_000, ..table.limits() });
    let replayed =
        read_with(&scratch, &Configuration::default(), &place.folder(), TornEnd::Refused).expect("a log");
    assert_eq!((replayed.refused, table.keys(0).0, table.limits().memory_max), (0, 201, 100_000));
}

fn run(args: &[&str]) -> (String, i32) {
    let output = Command::new(polder()).args(args).output().expect("polder");
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), output.status.code().unwrap_or(-1))
}

#[test]
fn logs_are_checked_and_imported_by_the_command_line() {
    let place = Place::new("tools");
    let (path, segment) =
        (place.folder().path.display().to_string(), format!("shm:polder-test-{}-aof", std::process::id()));
    place.write(&[
        ("appendonly.aof.1.base.aof", 'b', "SET k 1"),
        ("appendonly.aof.1.incr.aof", 'i', "SET k 2\n*3\\r\\n$3\\r\\nSET..."),
    ]);
    let manifest = place.folder().manifest_path().display().to_string();
    let (said, status) = run(&["log", "check", &path]);
    assert!(
        status == 1
            && said.contains("1.incr.aof: at byte 27: the file ends inside a record")
            && said.contains("--fix"),
        "{said}"
    );
    let (said, status) = run(&["import", &path, "--segment", &segment]);
    assert!(
        status == 0 && said.contains("1 keys after 2 commands") && said.contains("ends inside a record"),
        "{said}"
    );
    let (said, status) = run(&["import", &manifest, "--segment", &segment]);
    assert!(status == 1 && said.contains("the segment has keys already"), "{said}");
    let (said, status) = run(&["log", "check", &manifest, "--fix", "--yes"]);
    assert!(status == 0 && said.contains("cut off; the log is whole"), "{said}");
    assert_eq!(run(&["log", "check", &path]).1, 0);
    place.write(&[
        ("appendonly.aof.1.base.aof", 'b', "SET k 1\nx..."),
        ("appendonly.aof.1.incr.aof", 'i', "SET k 2"),
    ]);
    let (said, status) = run(&["log", "check", &path, "--fix", "--yes"]);
    assert!(status == 1 && said.contains("cannot be put right"), "{said}");
    let (said, status) = run(&["log", "check", place.0.to_str().expect("text")]);
    assert!(status == 2 && said.contains("this is not the folder of a log"), "{said}");
    Memory::remove(&segment).expect("removed");
}

#[test]
fn keys_of_modules_in_a_base_are_told() {
    let place = Place::new("modules");
    let base = "appendonly.aof.1.base.rdb";
    place.write(&[(base, 'b', "")]);
    // A value of the module type "abcdefghi", version 1, of one number; then the string v.
    let module = ((0..9).fold(0_u64, |sum, at| sum << 6 | (26 + at)) << 10 | 1).to_be_bytes();
    let parts =
        [b"REDIS0011\xfe\x00\x07\x01k\x81", &module[..], b"\x02\x01\x00\x00\x01s\x01v\xff\0\0\0\0\0\0\0\0"];
    std::fs::write(place.folder().path.join(base), parts.concat()).expect("a file");
    let segment = format!("shm:polder-test-{}-modules", std::process::id());
    let (said, status) = run(&["import", &place.folder().path.display().to_string(), "--segment", &segment]);
    let expected = "1 keys after 0 commands\nleft out: 'k' is of the module type abcdefghi\n";
    assert!(status == 0 && said.contains(expected), "{said}");
    Memory::remove(&segment).expect("removed");
}

/// A memory with a server, and a process that writes its log.
struct Written {
    place: Place,
    segment: String,
    _server: Server,
    connection: Connection,
}

impl Written {
    fn new(name: &str) -> Written {
        let place = Place::new(name);
        std::fs::remove_dir_all(place.folder().path).expect("the process makes it");
        let segment = format!("shm:polder-test-{}-aof-{name}", std::process::id());
        let server = Server::start_polder(&polder(), &segment, &["--segment-size", "256mb", "--save", ""])
            .expect("a server");
        let connection = Connection::open(&server.address()).expect("a connection");
        Written { place, segment, _server: server, connection }
    }

    fn storage(&self, more: &[&str]) -> Child {
        let dir = self.place.0.to_str().expect("text");
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(polder())
            .args(["storage", "--segment", &self.segment, "--dir", dir])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("polder storage");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains("the log is written")), "it begins");
        std::thread::spawn(move || said.for_each(|line| println!("{line}")));
        child
    }

    /// Redis, and Polder's own reader, find in the files what the memory holds.
    fn is_read_by_all(&mut self) {
        settle(&mut self.connection);
        let expected = state(|words| self.connection.call(words).expect("a reply"));
        assert_eq!(check(&self.place.folder()).expect("a log").flaw, None);
        let (scratch, replayed) = read(&self.place.folder(), TornEnd::Refused).expect("a log");
        assert_eq!((replayed.refused, replayed.first_refused), (0, None));
        let mut caller = Caller::new(1, Protocol::Resp2);
        same(&state(|words| caller.call(&scratch.embedder, words).expect("a reply")), &expected);
        let Some(program) = on_path("redis-server") else {
            return println!("left out: there is no redis-server");
        };
        let (_redis, mut redis) = self.place.start(&program, &[]);
        until("it has loaded the log", || {
            !matches!(redis.call(&["DBSIZE"]).expect("a reply"), Answer::Error(_))
        });
        same(&state(|words| redis.call(words).expect("a reply")), &expected);
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.segment);
    }
}

fn end(mut child: Child) {
    assert!(
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .is_ok_and(|status| status.success())
    );
    assert!(child.wait().expect("an end").success(), "all is in the log");
}

#[test]
fn a_log_that_polder_writes_is_read_by_redis() {
    let mut written = Written::new("written");
    let mut random = Random::new(21);
    work(&mut written.connection, &mut random, 500);
    let storage = written.storage(&["--aof-timestamp-enabled", "yes"]);
    work(&mut written.connection, &mut random, 1500);
    end(storage);
    written.is_read_by_all();
}

#[test]
fn rewrites_under_load_and_killed_writers_of_the_log_lose_nothing() {
    let mut written = Written::new("killed");
    let mut random = Random::new(22);
    let small = ["--auto-aof-rewrite-min-size", "30000", "--auto-aof-rewrite-percentage", "10"];
    for _ in 0..6 {
        let mut storage = written.storage(&small);
        let count = 100 + random.below(600);
        work(&mut written.connection, &mut random, count);
        storage.kill().expect("killed");
        storage.wait().expect("an end");
        work(&mut written.connection, &mut random, 50);
    }
    let storage = written.storage(&small);
    let folder = written.place.folder();
    until("the log is rewritten twice", || {
        work(&mut written.connection, &mut random, 50);
        let manifest = folder.load().expect("readable");
        manifest.and_then(|manifest| manifest.base).is_some_and(|base| base.sequence > 2)
    });
    end(storage);
    written.is_read_by_all();
}

#[test]
fn one_process_writes_a_log_and_none_into_anothers() {
    let written = Written::new("foreign");
    let storage = written.storage(&[]);
    let dir = written.place.0.to_str().expect("text");
    let other = Place::new("other");
    let elsewhere = other.0.to_str().expect("text");
    for dir in [dir, elsewhere] {
        let (said, status) = run(&["storage", "--segment", &written.segment, "--dir", dir]);
        assert!(
            status == 1 && said.contains(&format!("process {} writes the log of this memory", storage.id())),
            "{said}"
        );
    }
    until("it has a base", || written.place.folder().load().expect("readable").is_some());
    let (said, status) =
        run(&["log", "check", "--fix", "--yes", &written.place.folder().path.display().to_string()]);
    assert!(status == 2 && said.contains("a process writes this log: stop it first"), "{said}");
    end(storage);
    other.write(&[("appendonly.aof.1.base.aof", 'b', "SET k 1")]);
    let second = Written::new("foreign-2");
    let (said, status) = run(&["storage", "--segment", &second.segment, "--dir", elsewhere]);
    assert!(
        status == 1 && said.contains("the log of another memory") && said.contains("polder import"),
        "{said}"
    );
}

#[test]
fn a_second_folder_takes_nothing_from_the_first() {
    let mut written = Written::new("moved");
    let mut random = Random::new(23);
    let second = Place::new("moved-to");
    let elsewhere = second.0.to_str().expect("text").to_owned();
    end(written.storage(&[]));
    work(&mut written.connection, &mut random, 300);
    end(written.storage(&[]));
    let (said, status) = run(&["storage", "--segment", &written.segment, "--dir", &elsewhere]);
    assert!(
        status == 1 && said.contains("the log of this memory lies in") && said.contains("--dir"),
        "{said}"
    );
    // The folder itself may be moved, and another log may be begun where the first cannot be found. The first is not cut off by the second's note.
    let (first, away) = (written.place.folder().path, written.place.0.join("away"));
    std::fs::rename(&first, &away).expect("moved");
    let begin = |dir: &str| {
        let mut child = Command::new(polder())
            .args(["storage", "--segment", &written.segment, "--dir", dir])
            .stdout(Stdio::piped())
            .spawn()
            .expect("polder storage");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(
            said.any(|line| line.contains("the log has another base") || line.contains("the log is written")),
            "it begins"
        );
        end(child);
    };
    begin(&elsewhere);
    std::fs::remove_dir_all(second.folder().path).expect("removed");
    std::fs::rename(&away, &first).expect("moved back");
    let bytes = |folder: &Folder| {
        let manifest = folder.load().expect("readable").expect("a manifest");
        manifest
            .live()
            .map(|entry| std::fs::metadata(folder.path_of(entry)).expect("a file").len())
            .sum::<u64>()
    };
    let before = bytes(&written.place.folder());
    assert!(before > 1000, "{before}");
    let sequence = |folder: &Folder| {
        folder.load().expect("readable").expect("a manifest").base.expect("a base").sequence
    };
    let base = sequence(&written.place.folder());
    end(written.storage(&[]));
    assert!(sequence(&written.place.folder()) > base, "the log was begun anew, with another base");
    written.is_read_by_all();
}

#[test]
fn logs_with_empty_and_missing_files_are_read_as_redis_reads_them_or_refused() {
    let place = Place::new("edges");
    let read = |files: &[(&str, char, &str)]| {
        place.write(files);
        let flaw = check(&place.folder()).expect("a log").flaw;
        (
            read(&place.folder(), TornEnd::Refused).map(|(scratch, _)| ask(&scratch, "DBSIZE")),
            flaw.map(|flaw| flaw.why),
        )
    };
    // An empty file of commands is no end inside a record, wherever it stands.
    let files = [
        ("a.1.base.aof", 'b', ""),
        ("a.1.incr.aof", 'i', ""),
        ("a.2.incr.aof", 'i', "SET k 1"),
        ("a.3.incr.aof", 'i', ""),
    ];
    assert_eq!(read(&files), (Ok("(integer) 1".into()), None));
    // Without a base the log begins with an empty memory.
    assert_eq!(
        read(&[("a.1.incr.aof", 'i', "SET k 1"), ("a.2.incr.aof", 'i', "SET l 1")]),
        (Ok("(integer) 2".into()), None)
    );
    // A base that should be an RDB file and is empty has lost what was in it.
    let (read_in, checked) = read(&[("a.1.base.rdb", 'b', ""), ("a.1.incr.aof", 'i', "SET k 1")]);
    assert!(
        read_in.expect_err("no base").contains("a.1.base.rdb: the file is named as an RDB file and is empty")
    );
    assert!(checked.expect("a flaw").contains("has lost what it held"));
}
