//! Servers that write an append-only log: what is there after the server and the segment are gone, who goes on when the writer dies, what clients
//! are told meanwhile, and what they see of it.
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_engine::Caller;
use polder_persist::storage_note::Note;
use polder_persist::storage_process::{Elected, StorageProcess};
use polder_runtime::configuration::Configuration;
use polder_storage::check::check;
use polder_testkit::answer::Answer;
use polder_testkit::logs::{
    Place, World, ask, info, rewrite, same, settle, signal, state, synced, until, work,
};
use polder_testkit::process::{Server, on_path, polder};
use polder_testkit::random::Random;
use polder_testkit::resp::Connection;
use polder_testkit::scratch::Scratch;

#[test]
fn the_data_is_back_after_server_and_segment_are_gone() {
    let world = World::new("back");
    let (mut server, mut connection) = world.with_log();
    let mut random = Random::new(31);
    for round in 0..3 {
        work(&mut connection, &mut random, 400);
        if round == 1 {
            rewrite(&mut connection);
        }
        settle(&mut connection);
        let expected = state(|words| connection.call(words).expect("a reply"));
        synced(&mut connection);
        server.kill();
        world.lose_segment();
        (server, connection) = world.with_log();
        same(&state(|words| connection.call(words).expect("a reply")), &expected);
    }
    settle(&mut connection);
    let expected = state(|words| connection.call(words).expect("a reply"));
    synced(&mut connection);
    server.kill();
    assert_eq!(check(&world.place.folder()).expect("a log").flaw, None);
    let Some(program) = on_path("redis-server") else {
        return println!("left out: there is no redis-server");
    };
    let (redis, mut connection) = world.place.start(&program, &[]);
    until("it has loaded the log", || {
        !matches!(connection.call(&["DBSIZE"]).expect("a reply"), Answer::Error(_))
    });
    same(&state(|words| connection.call(words).expect("a reply")), &expected);
    // And back: what a Redis has written goes on here.
    work(&mut connection, &mut random, 200);
    settle(&mut connection);
    let expected = state(|words| connection.call(words).expect("a reply"));
    drop(redis);
    world.lose_segment();
    let (_server, mut connection) = world.with_log();
    same(&state(|words| connection.call(words).expect("a reply")), &expected);
}

#[test]
fn a_log_keeps_the_moment_at_which_a_database_is_emptied() {
    let world = World::new("flushes");
    let (mut server, mut connection) = world.with_log();
    let has_come = |moment_ms: u64| until("the moment", || now_ms() >= moment_ms);
    // It comes while no server is there. What was stored behind the command and before the moment goes, too.
    let moment_ms = now_ms() + 1500;
    for line in ["SET old 1", &format!("ITEM.FLUSH PXAT {moment_ms}"), "SET before 1"] {
        assert_eq!(ask(&mut connection, line), "OK");
    }
    synced(&mut connection);
    server.kill();
    world.lose_segment();
    has_come(moment_ms);
    (server, connection) = world.with_log();
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 0");
    // It comes while a server is there, and what is stored afterwards stays.
    for line in ["SET old 1", &format!("ITEM.FLUSH PXAT {}", now_ms() + 200)] {
        assert_eq!(ask(&mut connection, line), "OK");
    }
    until("the database is empty", || ask(&mut connection, "DBSIZE") == "(integer) 0");
    assert_eq!(ask(&mut connection, "SET after 1"), "OK");
    synced(&mut connection);
    server.kill();
    world.lose_segment();
    let (_server, mut connection) = world.with_log();
    assert_eq!(
        (ask(&mut connection, "GET after"), ask(&mut connection, "DBSIZE")),
        ("\"1\"".into(), "(integer) 1".into())
    );
}

#[test]
fn another_server_goes_on_within_moments_and_each_record_is_there_once() {
    let world = World::new("takeover");
    let (first, mut connection) = world.with_log();
    let mut servers = vec![first];
    let mut count = 0;
    for _ in 0..4 {
        let (next, mut other) = world.with_log();
        let mut dying = servers.pop().expect("a server");
        until("the first writes", || info(&mut other, &format!("aof_storage_pid:{}", dying.pid())));
        for _ in 0..300 {
            count += 1;
            ask(&mut connection, &format!("RPUSH l {count}"));
        }
        dying.kill();
        let killed = Instant::now();
        count += 1;
        ask(&mut other, &format!("RPUSH l {count}"));
        synced(&mut other);
        let took = killed.elapsed();
        assert!(info(&mut other, &format!("aof_storage_pid:{}", next.pid())));
        println!("what is written after the death is on the disk after {took:?}");
        assert!(took < Duration::from_secs(2), "{took:?}; 200 ms on a machine with nothing else to do");
        for _ in 0..300 {
            count += 1;
            ask(&mut other, &format!("RPUSH l {count}"));
        }
        synced(&mut other);
        (connection, servers) = (other, vec![next]);
    }
    servers.clear();
    world.lose_segment();
    let (_server, mut connection) = world.with_log();
    let Answer::Array(found) = connection.call(&["LRANGE", "l", "0", "-1"]).expect("a reply") else {
        panic!("a list")
    };
    let expected: Vec<Answer> =
        (1..=count).map(|number: u32| Answer::Bulk(number.to_string().into_bytes())).collect();
    assert!(found == expected, "{} of {count} records are there", found.len());
}

#[test]
fn a_log_is_turned_on_and_off() {
    let world = World::new("switch");
    let (server, mut connection) = world.serve(&[]);
    assert_eq!(
        ask(&mut connection, "WAITAOF 1 0 0"),
        "(error) ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
    );
    assert!(ask(&mut connection, "BGREWRITEAOF").contains("CONFIG SET appendonly yes"));
    ask(&mut connection, "SET before 1");
    assert_eq!(ask(&mut connection, "CONFIG SET appendonly yes"), "OK");
    assert!(info(&mut connection, "aof_enabled:1"));
    ask(&mut connection, "SET after 1");
    synced(&mut connection);
    rewrite(&mut connection);
    until("it is rewritten", || info(&mut connection, "aof_rewrites:2"));
    assert_eq!(ask(&mut connection, "CONFIG SET appendonly no"), "OK");
    until("it ends", || info(&mut connection, "aof_enabled:0"));
    ask(&mut connection, "SET off 1");
    assert_eq!(ask(&mut connection, "CONFIG SET appendonly yes"), "OK");
    ask(&mut connection, "SET on 1");
    synced(&mut connection);
    drop(server);
    world.lose_segment();
    let (server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "EXISTS before after off on"), "(integer) 4");
    drop(server);
    // Another memory's log is left alone.
    let other = World::new("switch-other");
    let (_server, mut connection) = other.serve(&[]);
    ask(&mut connection, "SET k 1");
    let folder = other.place.folder();
    std::fs::create_dir(&folder.path).expect("a folder");
    for entry in std::fs::read_dir(world.place.folder().path).expect("a folder").flatten() {
        std::fs::copy(entry.path(), folder.path.join(entry.file_name())).expect("copied");
    }
    assert!(
        ask(&mut connection, "CONFIG SET appendonly yes")
            .contains("Unable to turn on AOF. Check server logs.")
    );
    assert_eq!(ask(&mut connection, "CONFIG GET appendonly"), "1) \"appendonly\"\n2) \"no\"");
    let said = other.refused(&["--appendonly", "yes"]);
    assert!(said.contains("this is the log of another memory") && said.contains("--dir"), "{said}");
}

#[test]
fn a_log_with_a_torn_end_is_read_if_the_settings_say_so() {
    let world = World::new("torn");
    std::fs::create_dir(world.place.folder().path).expect("a folder");
    world.place.write(&[
        ("appendonly.aof.1.base.aof", 'b', "SET k 1"),
        ("appendonly.aof.1.incr.aof", 'i', "SET k 2\nSET l 1\n*3\\r\\n$3\\r\\nSET..."),
    ]);
    let said = world.refused(&["--appendonly", "yes", "--aof-load-truncated", "no"]);
    assert!(
        said.contains("the file ends inside a record")
            && said.contains("'aof-load-truncated yes'")
            && said.contains("polder log check"),
        "{said}"
    );
    let (server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "MGET k l"), "1) \"2\"\n2) \"1\"");
    ask(&mut connection, "SET m 1");
    synced(&mut connection);
    drop(server);
    assert_eq!(check(&world.place.folder()).expect("a log").flaw, None);
    // Damage in the middle is no torn end.
    world.lose_segment();
    let file = world.place.folder().path.join("appendonly.aof.1.incr.aof");
    let mut bytes = std::fs::read(&file).expect("a file");
    bytes[0] = b'x';
    std::fs::write(&file, bytes).expect("written");
    let said = world.refused(&["--appendonly", "yes"]);
    assert!(said.contains("appendonly.aof.1.incr.aof: at byte 0"), "{said}");
    assert!(world.attach().is_err());
}

#[test]
fn clients_that_come_while_the_log_is_read_are_told_so() {
    let world = World::new("loading");
    std::fs::create_dir(world.place.folder().path).expect("a folder");
    let slow = "EVAL for\ti=1,2e7\tdo\tend\treturn\tredis.call('INCR',KEYS[1]) 1 n\n".repeat(10);
    world
        .place
        .write(&[("appendonly.aof.1.base.aof", 'b', "SET k 1"), ("appendonly.aof.1.incr.aof", 'i', &slow)]);
    let server = Server::start_polder(&polder(), &world.segment, &world.flags(&["--appendonly", "yes"]))
        .expect("a server");
    let mut connection = Connection::open(&server.address()).expect("a connection");
    assert_eq!(ask(&mut connection, "GET k"), "(error) LOADING Redis is loading the dataset in memory");
    assert_eq!(ask(&mut connection, "SET k 2"), "(error) LOADING Redis is loading the dataset in memory");
    assert!(info(&mut connection, "loading:1"));
    until("it is loaded", || !info(&mut connection, "loading:1"));
    assert_eq!(ask(&mut connection, "GET k"), "\"1\"");
    assert_eq!(ask(&mut connection, "GET n"), "\"10\"");
}

/// What has expired since is kept until all is read, whatever settings another server brings meanwhile.
#[test]
fn a_server_that_starts_while_the_log_is_read_lets_nothing_expire() {
    let world = World::new("second");
    std::fs::create_dir(world.place.folder().path).expect("a folder");
    let slow = "EVAL for\ti=1,2e7\tdo\tend\treturn\tredis.call('INCR',KEYS[1]) 1 n\n".repeat(10);
    world.place.write(&[
        ("appendonly.aof.1.base.aof", 'b', "SET k v PXAT 1000"),
        ("appendonly.aof.1.incr.aof", 'i', &format!("{slow}PERSIST k")),
    ]);
    let start = || {
        Server::start_polder(&polder(), &world.segment, &world.flags(&["--appendonly", "yes"]))
            .expect("a server")
    };
    let first = start();
    let mut connection = Connection::open(&first.address()).expect("a connection");
    assert!(info(&mut connection, "loading:1"));
    let second = start();
    until("it is loaded", || !info(&mut connection, "loading:1"));
    let mut other = Connection::open(&second.address()).expect("a connection");
    assert_eq!((ask(&mut other, "GET n"), ask(&mut other, "GET k")), ("\"10\"".into(), "\"v\"".into()));
}

#[test]
fn a_sum_keeps_the_flags_of_an_item() {
    let world = World::new("flags");
    let (mut server, mut connection) = world.with_log();
    for line in ["ITEM.SET k 1 FLAGS 5", "INCRBYFLOAT k 0.5", "INCRBYFLOAT k 0.25", "INCRBYFLOAT plain 1.5"] {
        assert!(!ask(&mut connection, line).starts_with("(error)"), "{line}");
    }
    // All but the CAS, which is drawn anew.
    let item = |connection: &mut Connection| {
        let shown = ask(connection, "ITEM.GET k");
        shown
            .lines()
            .enumerate()
            .filter(|(at, _)| *at != 3)
            .map(|(_, line)| line.to_owned())
            .collect::<Vec<_>>()
    };
    let expected = item(&mut connection);
    assert!(expected[1].ends_with("(integer) 5") && expected.concat().contains("1.75"), "{expected:?}");
    synced(&mut connection);
    server.kill();
    world.lose_segment();
    let (_server, mut connection) = world.with_log();
    assert_eq!(item(&mut connection), expected);
    assert_eq!(ask(&mut connection, "GET plain"), "\"1.5\"");
}

#[test]
fn without_syncs_the_memory_keeps_no_more_of_the_log() {
    let world = World::new("unsynced");
    let (_server, mut connection) = world.serve(&["--appendonly", "yes", "--appendfsync", "no"]);
    settle(&mut connection);
    let memory = world.attach().expect("a segment");
    let log = memory.table().log();
    for number in 0..20 {
        ask(&mut connection, &format!("SETRANGE k {number} {}", "x".repeat(100_000)));
        let end = log.range().1;
        until("the storage process holds no more", || log.held(0).is_some_and(|held| held >= end));
    }
}

#[test]
fn replies_wait_for_the_disk_while_calls_are_executed() {
    let world = World::new("always");
    let (server, mut connection) = world.serve(&["--appendfsync", "always"]);
    let storage = world.storage(&[]);
    ask(&mut connection, "SET k 1");
    signal("-STOP", storage.id());
    let mut other = Connection::open(&server.address()).expect("a connection");
    connection.send(&["INCR", "k"]).expect("sent");
    let memory = world.attach().expect("the memory");
    until("the call is executed", || {
        memory.database(0).get(b"k").expect("a value").as_deref() == Some(&b"2"[..])
    });
    // The reply to it is held back, and so is one that would tell of it.
    other.send(&["GET", "k"]).expect("sent");
    let begun = Instant::now();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        signal("-CONT", storage.id());
        storage
    });
    assert_eq!(connection.receive().expect("a reply"), Answer::Integer(2));
    assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
    assert_eq!(other.receive().expect("a reply"), Answer::Bulk(b"2".to_vec()));
    // Reads need not wait.
    assert_eq!(ask(&mut connection, "CONFIG SET always-covers-reads no"), "OK");
    assert_eq!(ask(&mut other, "GET k"), "\"2\"");
    // Many at once share syncs, in order.
    let mut pipelined = Connection::open(&server.address()).expect("a connection");
    for _ in 0..2000 {
        pipelined.send(&["INCR", "n"]).expect("sent");
    }
    for number in 1..=2000 {
        assert_eq!(pipelined.receive().expect("a reply"), Answer::Integer(number));
    }
}

#[test]
fn a_program_without_a_server_waits_for_the_disk_when_it_asks() {
    let world = World::new("asked");
    drop(world.serve(&["--appendfsync", "always"]));
    let storage = world.storage(&[]);
    let memory = Arc::new(world.attach().expect("the memory"));
    let mut caller = Caller::new(&memory);
    let mut wait = |ms: &str| {
        caller.run(&["WAITAOF", "1", "0", ms]).map(|answer| format!("{answer:?}")).expect("a reply")
    };
    memory.database(0).set("k", "1").expect("set");
    assert_eq!(wait("20000"), "[Array([Integer(1), Integer(0)])]");
    signal("-STOP", storage.id());
    memory.database(0).set("k", "2").expect("set");
    let begun = Instant::now();
    assert_eq!(wait("300"), "[Array([Integer(0), Integer(0)])]");
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    signal("-CONT", storage.id());
    assert_eq!(wait("20000"), "[Array([Integer(1), Integer(0)])]");
    let mut storage = storage;
    storage.kill().and_then(|()| storage.wait()).expect("killed");
}

#[test]
fn writes_are_refused_while_the_writer_of_the_log_is_stopped_or_dead() {
    let world = World::new("stopped");
    let (_server, mut connection) = world.serve(&[]);
    let mut storage = world.storage(&[]);
    assert_eq!(ask(&mut connection, "SET k 1"), "OK");
    signal("-STOP", storage.id());
    let stopped = Instant::now();
    until("writes are refused", || ask(&mut connection, "SET k 2").starts_with("(error) MISCONF"));
    assert!(stopped.elapsed() > Duration::from_millis(1500), "{:?}", stopped.elapsed());
    let said = ask(&mut connection, "SET k 2");
    assert!(said.contains(&format!("process {}, which writes it, is stopped", storage.id())), "{said}");
    assert!(ask(&mut connection, "PING").contains("MISCONF"));
    assert_ne!(ask(&mut connection, "GET k"), "(nil)");
    signal("-CONT", storage.id());
    until("writes are accepted", || ask(&mut connection, "SET k 3") == "OK");
    storage.kill().expect("killed");
    storage.wait().expect("an end");
    until("writes are refused", || ask(&mut connection, "SET k 4").contains("has died"));
    let mut storage = world.storage_command().spawn().expect("polder storage");
    until("writes are accepted", || ask(&mut connection, "SET k 5") == "OK");
    signal("-TERM", storage.id());
    assert!(storage.wait().expect("an end").success());
    assert_eq!(ask(&mut connection, "SET k 6"), "OK", "a log that has ended in order is missed by no write");
}

#[test]
fn with_always_a_stopped_writer_keeps_back_only_what_was_written_before() {
    let world = World::new("always-stopped");
    let (server, mut writer) = world.serve(&[]);
    // Reads that do not wait tell when the server has begun to refuse writes.
    assert_eq!(ask(&mut writer, "CONFIG SET appendfsync always always-covers-reads no"), "OK");
    let mut storage = world.storage(&[]);
    assert_eq!(ask(&mut writer, "SET k 1"), "OK");
    signal("-STOP", storage.id());
    let waiting = std::thread::spawn(move || ask(&mut writer, "SET k 2"));
    // Until writes are refused, every call of a server waits; one in-process does not.
    let memory = world.attach().expect("the memory");
    until("writes are refused", || memory.database(0).set(b"probe", b"1").is_err());
    // The server looks by itself, and what it executes before waits.
    let mut other = Connection::open(&server.address()).expect("a connection");
    until("the server refuses writes", || ask(&mut other, "PING").contains("MISCONF"));
    assert_eq!(ask(&mut other, "CONFIG SET always-covers-reads yes"), "OK");
    assert!(ask(&mut other, "SET k 3").starts_with("(error) MISCONF"));
    assert_ne!(ask(&mut other, "GET k"), "(nil)", "reads go on");
    assert!(!waiting.is_finished(), "what was written before is not on the disk");
    signal("-CONT", storage.id());
    assert_eq!(waiting.join().expect("a reply"), "OK");
    until("writes are accepted", || ask(&mut other, "SET k 4") == "OK");
    signal("-TERM", storage.id());
    assert!(storage.wait().expect("an end").success());
}

#[test]
fn a_disk_that_refuses_is_told_and_nothing_is_lost() {
    let world = World::new("disk");
    let (_server, mut connection) = world.serve(&[]);
    let mut storage = world.storage(&[]);
    let limit = |bytes: &str| {
        let pid = storage.id().to_string();
        assert!(
            Command::new("prlimit")
                .args(["--pid", &pid, &format!("--fsize={bytes}")])
                .status()
                .is_ok_and(|status| status.success())
        );
    };
    limit("60000:unlimited");
    let long = "x".repeat(1000);
    for number in 0..100 {
        connection.call(&["SET", &format!("k:{number}"), &long]).expect("a reply");
    }
    until("writes are refused", || ask(&mut connection, "SET k 2").starts_with("(error) MISCONF"));
    let said = ask(&mut connection, "SET k 2");
    assert!(said.contains("File too large") && said.contains(world.dir()), "{said}");
    assert!(info(&mut connection, "aof_last_write_status:err"));
    // What was not written is not claimed to be.
    signal("-TERM", storage.id());
    let status = storage.wait().expect("an end");
    assert!(!status.success(), "it says that something is missing");
    let mut storage = world.storage_command().spawn().expect("polder storage");
    // Nothing keeps writes back between the two, which the log of the second one has as well.
    until("it goes on with the log", || info(&mut connection, &format!("aof_storage_pid:{}", storage.id())));
    until("writes are accepted", || ask(&mut connection, "SET last 1") == "OK");
    synced(&mut connection);
    let expected = state(|words| connection.call(words).expect("a reply"));
    storage.kill().expect("killed");
    storage.wait().expect("an end");
    world.lose_segment();
    drop(connection);
    let (_server, mut connection) = world.with_log();
    same(&state(|words| connection.call(words).expect("a reply")), &expected);
}

#[test]
fn a_note_of_another_boot_does_not_count() {
    let scratch = Scratch::new();
    let place = Place::new("boot");
    let table = scratch.embedder.memory.table();
    let settings = Configuration::default();
    let dir = polder_calls::settings::id("dir");
    settings.set(
        dir,
        polder_calls::settings::value::Parsed {
            number: 0,
            text: place.0.as_os_str().as_encoded_bytes().to_vec(),
        },
    );
    let elect = || match StorageProcess::elect(table, &settings, None, true).expect("a folder") {
        Elected::Ours(process) => process,
        Elected::Another(why) => panic!("{why}"),
    };
    let turn_until_durable = |mut process: Box<StorageProcess<'_>>| {
        while process.durable().is_none() {
            process.turn();
        }
        process.end().expect("all is in the log");
    };
    scratch.embedder.memory.database(0).set(b"k", b"1").expect("set");
    turn_until_durable(elect());
    let note = Note::load(table).expect("the memory").expect("a note");
    let process = elect();
    assert!(process.durable().is_some(), "it goes on where the last one was");
    process.end().expect("all is in the log");
    Note { boot: "0".repeat(32), ..note }.store(table).expect("stored");
    let process = elect();
    assert_eq!(process.durable(), None, "the disk may have less than was noted: another base is needed");
    turn_until_durable(process);
    assert_ne!(Note::load(table).expect("the memory").expect("a note").boot, "0".repeat(32));
}

#[test]
fn top_shows_how_far_the_log_is_behind() {
    let world = World::new("top");
    let (_server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "SET k v"), "OK");
    synced(&mut connection);
    let top = || {
        let output = Command::new(polder())
            .args(["top", &world.segment, "--lines", "-i", "0.05", "-r", "1"])
            .output()
            .expect("polder top");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let figure = |line: &str, name: &str| {
        let word = line
            .split([' ', '\n'])
            .find_map(|word| word.strip_prefix(&format!("{name}=")))
            .unwrap_or_else(|| panic!("{name} in {line}"));
        word.parse::<u64>().expect("a number")
    };
    until("all is on the disk", || {
        let line = top();
        let merged = figure(&line, "log_merged");
        merged > 0
            && figure(&line, "log_unmerged") == 0
            && [figure(&line, "log_written"), figure(&line, "log_durable")] == [merged; 2]
    });
    assert_ne!(figure(&top(), "log_process"), 0);
    assert_eq!(ask(&mut connection, "CONFIG SET appendonly no"), "OK");
    until("the log is off", || !top().contains("log_"));
}

/// What `polder changes` prints.
fn changes(words: &[&str]) -> (Vec<String>, String) {
    let output = Command::new(polder()).arg("changes").args(words).output().expect("polder");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout).lines().map(str::to_owned).collect(), text(&output.stderr))
}

#[test]
fn the_files_of_a_log_are_followed_as_the_memory_is() {
    let world = World::new("files");
    let (_server, mut connection) = world.with_log();
    synced(&mut connection);
    let folder = world.place.folder().path;
    let folder = folder.to_str().expect("text");
    let begin = changes(&[&world.segment]).0.remove(0);
    for line in ["SET a 1", "SELECT 3", "MULTI", "RPUSH l x y", "INCR n", "EXEC", "SET b \"", "SELECT 0"] {
        ask(&mut connection, line);
    }
    synced(&mut connection);
    polder_testkit::logs::rewrite(&mut connection);
    ask(&mut connection, "DEL a");
    synced(&mut connection);
    for form in [&["--from", &begin][..], &["--json", "--from", &begin]] {
        let (of_segment, said) = changes(&[&[&world.segment[..]], form].concat());
        assert_eq!((of_segment.len(), said.as_str()), (4, ""), "{of_segment:?}");
        // The rewrite has begun another file, and the changes before are in its base.
        let (of_files, said) = changes(&[&[folder], form].concat());
        assert!(of_files.is_empty() && said.contains("this log begins at offset"), "{said}");
        let third =
            changes(&[&world.segment, "--from", &begin]).0[2].split(' ').next().expect("a place").to_owned();
        let form = [&form[..form.len() - 1], &[third.as_str()]].concat();
        assert_eq!(changes(&[&[folder], &form[..]].concat()), (of_segment[3..].to_vec(), String::new()));
    }
    let all = changes(&[folder]).0;
    assert!(all.len() == 1 && all[0].ends_with("[0] DEL a"), "{all:?}");
    let other = format!("{}:0", "0".repeat(40));
    let (lines, said) = changes(&[folder, "--from", &other]);
    assert!(lines.is_empty() && said.contains("not of the stream 000"), "{said}");
    let (lines, said) = changes(&[folder, "--follow"]);
    assert!(lines.is_empty() && said.contains("--follow is for segments"), "{said}");
    // Files of Redis name no offsets.
    let place = Place::new("redis-files");
    place.write(&[
        ("1.base", 'b', "SET k 1"),
        ("1.incr", 'i', "select 2\nset k 2\nmulti\nincr k\nincr k\nexec\n*3\\r\\n$3..."),
    ]);
    let path = place.folder().path;
    let (lines, said) = changes(&[path.to_str().expect("text")]);
    assert_eq!(lines, ["1.incr@23 [2] SET k 2", "1.incr@107 [2] INCR k; [2] INCR k"]);
    assert!(said.contains("ends inside a record"), "{said}");
}

#[test]
fn a_follower_with_a_name_goes_on_where_its_last_call_ended() {
    let world = World::new("named");
    let (_server, mut connection) = world.with_log();
    let search = || changes(&[&world.segment, "--follower", "search"]);
    let begin = search();
    assert_eq!((begin.0.len(), begin.1.as_str()), (1, ""), "the place of a new follower: {begin:?}");
    for line in ["SET a 1", "SELECT 3", "SET b 2"] {
        ask(&mut connection, line);
    }
    let (lines, said) = search();
    assert!(lines.len() == 2 && lines[1].ends_with("[3] SET b 2"), "{lines:?} {said}");
    assert_eq!(search(), (Vec::new(), String::new()));
    ask(&mut connection, "SET c 3");
    let list = || changes(&[&world.segment, "--followers"]).0;
    // The storage process may be merging the last change.
    until("the last change counts", || !list().concat().contains("  0 bytes"));
    let list = list();
    let place = lines[1].split(' ').next().expect("a place");
    assert!(list.len() == 1 && list[0].starts_with(&format!("search  {place}  ")), "{list:?}");
    assert!(list[0].ends_with(" bytes behind"), "{list:?}");
    // From another place, which is kept, too.
    assert_eq!(changes(&[&world.segment, "--follower", "search", "--from", &begin.0[0]]).0.len(), 3);
    assert_eq!(search().0, Vec::<String>::new());
    assert_eq!(changes(&[&world.segment, "--forget", "search"]), (Vec::new(), String::new()));
    let (_, said) = changes(&[&world.segment, "--forget", "search"]);
    assert!(said.contains("there is no follower search: --followers lists them"), "{said}");
    assert_eq!(changes(&[&world.segment, "--followers"]).0, Vec::<String>::new());
}
