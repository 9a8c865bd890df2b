//! What must never happen to an append-only log: that it is thrown away for a memory that has less, that half of it is served, that no client is told when
//! it is not written.
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_engine::{Caller, Memory};
use polder_persist::opened::{self, Claim, Source};
use polder_persist::storage_note::{Note, new_log_id};
use polder_persist::storage_process::{Elected, StorageProcess, Watch};
use polder_runtime::configuration::Configuration;
use polder_shm::layout::{header, log};
use polder_storage::reach;
use polder_testkit::logs::{Place, World, ask, lines, signal, synced, until};
use polder_testkit::process::polder;
use polder_testkit::random::Random;
use polder_testkit::scratch::Scratch;

/// The files of a log and what is in them.
fn files(place: &Place) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(place.folder().path).expect("a folder").flatten();
    entries
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

/// A server on the segment as it is does not start, says why, and leaves the log alone; without the segment the log is read.
fn refused_and_then_read(world: &World, why: &str, keys: &str) {
    let before = files(&world.place);
    let said = world.refused(&["--appendonly", "yes"]);
    assert!(said.contains("the log may hold more than the segment") && said.contains(why), "{said}");
    assert!(said.contains(&format!("polder segment remove {}", world.segment)), "{said}");
    // One that is told to write the log later does not begin another one either.
    let (server, mut connection) = world.serve(&["--appendonly", "no", "--appendfsync", "everysec"]);
    assert!(ask(&mut connection, "CONFIG SET appendonly yes").starts_with("(error)"));
    drop(server);
    let elected = Command::new(polder())
        .args(["storage", "--segment", &world.segment, "--dir", world.dir()])
        .output()
        .expect("polder");
    assert!(
        !elected.status.success()
            && String::from_utf8_lossy(&elected.stderr).contains("the log may hold more"),
        "{elected:?}"
    );
    assert!(files(&world.place) == before, "the log is as it was");
    world.lose_segment();
    let (server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "DBSIZE"), keys);
    drop(server);
}

/// A world with two keys in its log, and a copy of its segment as it was before the second.
fn with_older_copy(name: &str, rewrites: bool) -> World {
    let world = World::in_file(name);
    let flags = ["--appendonly", "yes", "--appendfsync", "always"];
    let (mut server, mut connection) = world.serve(&flags);
    ask(&mut connection, "SET first 1");
    synced(&mut connection);
    server.kill();
    std::fs::copy(world.file(), world.place.0.join("older")).expect("copied");
    let (mut server, mut connection) = world.serve(&flags);
    ask(&mut connection, "SET second 1");
    synced(&mut connection);
    if rewrites {
        polder_testkit::logs::rewrite(&mut connection);
    }
    server.kill();
    std::fs::rename(world.place.0.join("older"), world.file()).expect("put back");
    world
}

fn set_boot(world: &World) {
    let file = std::fs::OpenOptions::new().write(true).open(world.file()).expect("the segment");
    file.write_all_at(&[7; 16], header::BOOT_ID).expect("written");
}

#[test]
fn an_older_copy_of_a_segment_does_not_take_the_place_of_its_log() {
    let world = with_older_copy("older", false);
    refused_and_then_read(&world, "offset", "(integer) 2");
    // Not even where the last file holds nothing but where it begins.
    let world = with_older_copy("older-rewritten", true);
    refused_and_then_read(&world, "offset", "(integer) 2");
}

#[test]
fn an_older_copy_that_has_gone_on_by_itself_does_not_take_the_place_of_its_log() {
    let world = with_older_copy("fork", false);
    let memory = Arc::new(world.attach().expect("the memory"));
    let mut caller = Caller::new(&memory);
    (0..100).for_each(|number| drop(caller.run(&["SET", &format!("other:{number}"), "1"]).expect("set")));
    memory.table().log().merge().expect("merged");
    drop((caller, memory));
    refused_and_then_read(&world, "holds what the change log of the memory does not hold", "(integer) 2");
}

#[test]
fn an_older_copy_that_has_gone_on_in_another_stream_does_not_take_the_place_of_its_log() {
    let world = with_older_copy("stream", false);
    let memory = Arc::new(world.attach().expect("the memory"));
    let mut caller = Caller::new(&memory);
    memory.table().log().turn_off().expect("off");
    memory.table().log().turn_on().expect("on");
    // Beyond the end of the log, by offsets that mean nothing there.
    (0..1000).for_each(|number| drop(caller.run(&["SET", &format!("other:{number}"), "1"]).expect("set")));
    memory.table().log().merge().expect("merged");
    drop((caller, memory));
    refused_and_then_read(&world, "has noted no more than", "(integer) 2");
    // One that has never written a log, or has forgotten which.
    let world = with_older_copy("no-note", false);
    let memory = Arc::new(world.attach().expect("the memory"));
    memory.table().log().turn_off().expect("off");
    memory.table().log().turn_on().expect("on");
    Note { log: new_log_id(), ..Note::load(memory.table()).expect("the memory").expect("a note") }
        .store(memory.table())
        .expect("stored");
    drop(memory);
    refused_and_then_read(&world, "the log may hold more than the segment", "(integer) 2");
}

#[test]
fn a_log_that_was_ended_for_good_is_begun_anew() {
    let world = World::new("ended");
    let (server, mut connection) = world.with_log();
    ask(&mut connection, "SET first 1");
    assert_eq!(ask(&mut connection, "CONFIG SET appendonly no"), "OK");
    ask(&mut connection, "SET second 1");
    drop(server);
    let (server, mut connection) = world.with_log();
    synced(&mut connection);
    drop(server);
    world.lose_segment();
    let (_server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 2");
}

#[test]
fn a_log_says_how_far_it_reaches_although_its_end_says_nothing() {
    let place = Place::new("reach");
    let reached = |files: &[(&str, char, &str)]| {
        place.write(files);
        let manifest = place.folder().load().expect("read").expect("a manifest");
        reach(&place.folder(), &manifest).expect("read")
    };
    let set = lines("SET k v").len() as u64;
    assert_eq!(reached(&[("1", 'i', "SELECT 0\n#POLDER:100")]), Some(100));
    assert_eq!(reached(&[("1", 'i', "#POLDER:100\nSET k v\n#TS:1\nSET k v")]), Some(100 + 2 * set));
    assert_eq!(reached(&[("1", 'i', "#POLDER:100\nSET k v\n*3\\r\\n$3...")]), Some(100 + set));
    assert_eq!(reached(&[("1", 'i', "#POLDER:100"), ("2", 'i', ""), ("3", 'i', "SELECT 0")]), Some(100));
    assert_eq!(reached(&[("1", 'i', "SET k v")]), None);
}

#[test]
fn what_a_program_writes_while_a_log_is_read_is_in_the_next_base() {
    let world = World::new("beside");
    let (server, mut connection) = world.with_log();
    ask(&mut connection, "SET logged 1");
    synced(&mut connection);
    drop(server);
    world.lose_segment();
    // It is there before the server, and has not written anything yet.
    let options = polder_engine::Options { segment: world.segment.clone(), ..Default::default() };
    let memory = Memory::attach(&options).expect("a new memory");
    assert!(memory.database(0).get("own").expect("read").is_none());
    let (server, mut connection) = world.with_log();
    assert_eq!(memory.database(0).set("own", "1"), Ok(()));
    synced(&mut connection);
    let bases = |place: &Place| {
        place.folder().load().expect("read").expect("a manifest").base.expect("a base").sequence
    };
    let first = bases(&world.place);
    assert!(first > 1, "a base follows what was read: {first}");
    drop(server);
    // Where nothing else is attached, what was read goes on as it is.
    drop(memory);
    world.lose_segment();
    let (_server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "MGET logged own"), "1) \"1\"\n2) \"1\"");
    synced(&mut connection);
    assert_eq!(bases(&world.place), first);
}

#[test]
fn nothing_counts_as_on_the_disk_that_was_committed_while_the_log_was_off() {
    let (scratch, place) = (Scratch::new(), Place::new("off"));
    let (table, settings) = (scratch.embedder.memory.table(), settings_in(&place));
    let mut process = elect(&scratch, &settings);
    let words = table.segment().storage();
    until("the log has a base, and the disk has all", || {
        process.turn();
        process.durable().is_some() && words.is_durable(words.seen())
    });
    drop(process);
    table.log().turn_off().expect("off");
    scratch.embedder.memory.database(0).set("k", "1").expect("set");
    let mut process = elect(&scratch, &settings);
    assert!(!words.is_durable(words.seen()), "it is in no file");
    until("it is in the next base", || {
        process.turn();
        process.durable().is_some() && words.is_durable(words.seen())
    });
    process.end().expect("all is in the log");
}

#[test]
fn an_rdb_file_that_cannot_be_read_leaves_a_new_memory_new() {
    let world = World::new("bad-rdb");
    let file = world.place.0.join("dump.rdb");
    std::fs::write(&file, b"REDIS0011 and nothing").expect("a file");
    // It is there before the server, and stays.
    let options = polder_engine::Options { segment: world.segment.clone(), ..Default::default() };
    let _memory = Memory::attach(&options).expect("a new memory");
    let said = world.refused(&["--load-rdb", "always"]);
    assert!(said.contains("put it right or move it away"), "{said}");
    std::fs::remove_file(&file).expect("moved away");
    let (_server, mut connection) = world.serve(&[]);
    assert_eq!(ask(&mut connection, "SET k 1"), "OK");
}

#[test]
fn a_file_that_was_in_use_when_the_machine_went_down_does_not_take_the_place_of_its_log() {
    let world = World::in_file("boot");
    let (mut server, mut connection) = world.serve(&["--appendonly", "yes", "--appendfsync", "always"]);
    ask(&mut connection, "SET first 1");
    synced(&mut connection);
    server.kill();
    set_boot(&world);
    // A program comes first, and the log is another memory's from then on.
    drop(world.attach().expect("the memory").database(0).set("own", "1"));
    refused_and_then_read(&world, "in use when the machine went down", "(integer) 1");
    // What was closed in order goes on, and what it holds by then is in the log.
    let (server, mut connection) = world.with_log();
    ask(&mut connection, "SET second 1");
    connection.send(&["SHUTDOWN"]).expect("sent");
    until("it has ended in order", || server.fate().contains("has ended"));
    drop(server);
    set_boot(&world);
    let (mut server, mut connection) = world.with_log();
    ask(&mut connection, "SET third 1");
    synced(&mut connection);
    server.kill();
    world.lose_segment();
    let (_server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 3");
}

/// Leaves half of a log in a segment, as a process that dies while it reads.
fn half_read(world: &World) {
    let memory = Memory::attach(&polder_engine::Options {
        segment: world.segment.clone(),
        ceiling: 64 << 20,
        ..Default::default()
    });
    let memory = memory.expect("a segment");
    let reading = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let claimed =
                opened::claim(memory.table(), &Source::Log(world.place.folder().path)).expect("a claim");
            memory.database(0).set("half", "1").expect("set");
            // While it reads.
            let why = world.attach().err().expect("it is being read");
            assert!(why.contains("LOADING") && why.contains(world.dir()), "{why}");
            claimed
        });
        reading.join().expect("it ends")
    });
    assert_eq!(reading, Claim::Ours);
}

#[test]
fn half_of_a_log_is_never_served_nor_built_upon() {
    let world = World::new("half");
    std::fs::create_dir(world.place.folder().path).expect("a folder");
    world.place.write(&[
        ("appendonly.aof.1.base.aof", 'b', "SET k 1"),
        ("appendonly.aof.1.incr.aof", 'i', "SET k 2\nSET l 1"),
    ]);
    half_read(&world);
    let is_told = |said: &str| {
        said.contains("holds a part of the data only")
            && said.contains(world.dir())
            && said.contains("segment remove")
    };
    let why = world.attach().err().expect("half of it is there");
    assert!(is_told(&why), "{why}");
    for flags in [
        &["--load-rdb", "no"][..],
        &["--load-rdb", "always"],
        &[],
        &["--appendonly", "yes", "--appenddirname", "other"],
    ] {
        let said = world.refused(flags);
        assert!(is_told(&said), "{flags:?}: {said}");
    }
    let (dir, rdb) = (world.dir(), world.place.0.join("half.rdb"));
    let rdb = rdb.to_str().expect("text");
    for words in [
        vec!["storage", "--segment", &world.segment, "--dir", dir, "--appenddirname", "third"],
        vec!["export", rdb, "--segment", &world.segment],
    ] {
        let output = Command::new(polder()).args(&words).output().expect("polder");
        assert!(
            !output.status.success() && is_told(&String::from_utf8_lossy(&output.stderr)),
            "{words:?}: {output:?}"
        );
    }
    // An import of a log, and a server with the log, begin again from nothing.
    let folder = world.place.folder().path;
    let words = ["import", folder.to_str().expect("text"), "--segment", &world.segment];
    let imported = Command::new(polder()).args(words).output().expect("polder");
    assert!(imported.status.success(), "{imported:?}");
    let memory = world.attach().expect("it is open");
    assert_eq!((memory.database(0).get("half").expect("read"), memory.table().keys(0).0), (None, 2));
    drop(memory);
    world.lose_segment();
    half_read(&world);
    let (_server, mut connection) = world.with_log();
    assert_eq!(ask(&mut connection, "MGET k l half"), "1) \"2\"\n2) \"1\"\n3) (nil)");
}

#[test]
fn no_log_is_read_into_a_memory_whose_own_log_is_written() {
    let world = World::new("logged");
    let (_server, mut connection) = world.with_log();
    let other = Place::new("logged-other");
    other.write(&[
        ("appendonly.aof.1.base.aof", 'b', "SET k 1"),
        ("appendonly.aof.1.incr.aof", 'i', "SET l 1"),
    ]);
    let folder = other.folder().path;
    let words = ["import", folder.to_str().expect("text"), "--segment", &world.segment];
    let output = Command::new(polder()).args(words).output().expect("polder");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("a process writes the append-only log of this segment"),
        "{said}"
    );
    // Not even where a process has left the mark of a reader that died: what is there since must not be emptied.
    let memory = world.attach().expect("the memory");
    std::thread::scope(|scope| {
        scope
            .spawn(|| opened::mark_reading(memory.table(), Source::Log(folder.clone())).expect("marked"))
            .join()
            .expect("it ends");
    });
    ask(&mut connection, "SET own 1");
    for dir in [world.dir(), other.0.to_str().expect("text")] {
        let said = world.refused(&["--appendonly", "yes", "--dir", dir]);
        assert!(said.contains("holds a part of the data only"), "{said}");
    }
    assert_eq!(ask(&mut connection, "MGET own k l"), "1) \"1\"\n2) (nil)\n3) (nil)");
}

#[test]
fn writes_are_refused_where_no_base_can_be_written() {
    let world = World::new("no-base");
    let (_server, mut connection) = world.serve(&[]);
    let mut random = Random::new(3);
    for number in 0..200 {
        let text: String = (0..1000).map(|_| char::from(33 + random.below(90) as u8)).collect();
        connection.call(&["SET", &format!("k:{number}"), &text]).expect("a reply");
    }
    let mut storage = Command::new("prlimit")
        .args(["--fsize=60000:unlimited", "setpriv", "--pdeathsig", "KILL"])
        .arg(polder())
        .args(["storage", "--segment", &world.segment, "--dir", world.dir()])
        .spawn()
        .expect("polder storage");
    let begun = Instant::now();
    until("writes are refused", || ask(&mut connection, "SET k 1").starts_with("(error) MISCONF"));
    println!("refused after {:?}", begun.elapsed());
    let said = ask(&mut connection, "SET k 1");
    assert!(said.contains(world.dir()) && said.contains(&format!("process {}", storage.id())), "{said}");
    // Also while another attempt is made.
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        assert!(ask(&mut connection, "SET k 1").starts_with("(error) MISCONF"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = storage.id().to_string();
    assert!(
        Command::new("prlimit")
            .args(["--pid", &pid, "--fsize=unlimited:unlimited"])
            .status()
            .is_ok_and(|status| status.success())
    );
    until("writes are accepted", || ask(&mut connection, "SET k 1") == "OK");
    signal("-TERM", storage.id());
    assert!(storage.wait().expect("an end").success());
}

/// Elects a storage process over a folder. A program that another test starts has this process's files, and the lock of
/// a folder with them, until it runs.
fn elect<'t>(scratch: &'t Scratch, settings: &'t Configuration) -> Box<StorageProcess<'t>> {
    let mut ours = None;
    until("the folder is free", || {
        let elected = StorageProcess::elect(scratch.embedder.memory.table(), settings, None, false);
        if let Elected::Ours(process) = elected.expect("a folder") {
            ours = Some(process);
        }
        ours.is_some()
    });
    ours.expect("it was waited for")
}

fn settings_in(place: &Place) -> Configuration {
    let settings = Configuration::default();
    let text = place.0.as_os_str().as_encoded_bytes().to_vec();
    settings
        .set(polder_calls::settings::id("dir"), polder_calls::settings::value::Parsed { number: 0, text });
    settings
}

#[test]
fn writes_are_refused_while_a_stopped_thread_holds_the_change_log_up() {
    let (scratch, place) = (Scratch::new(), Place::new("held"));
    let (table, settings) = (scratch.embedder.memory.table(), settings_in(&place));
    let mut process = elect(&scratch, &settings);
    until("the log has a base", || {
        process.turn();
        process.durable().is_some()
    });
    let segment = table.segment();
    let mut watch = Watch::default();
    let mut look = |process: &mut StorageProcess<'_>| {
        process.turn();
        watch.look(table, &settings)
    };
    std::thread::scope(|scope| {
        let (send, seat) = std::sync::mpsc::channel();
        let (go, stopped) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            send.send(table.seat().expect("a seat").index()).expect("the test waits");
            // It lives, and does nothing.
            stopped.recv().expect("a word");
        });
        let held = seat.recv().expect("a seat") + 1;
        let free = |word: u64| word & !0xffff;
        until("the lock is free", || {
            let word = free(segment.load(log::MERGE_LOCK));
            segment.exchange(log::MERGE_LOCK, word, word | held).is_ok()
        });
        let begun = Instant::now();
        let mut said = None;
        until("writes are refused", || {
            said = look(&mut process);
            said.is_some()
        });
        assert!(begun.elapsed() > Duration::from_millis(1900), "{:?}", begun.elapsed());
        let said = said.expect("an error");
        assert!(
            said.contains(&format!(
                "MISCONF Errors writing to the AOF file: process {} holds the change log up",
                std::process::id()
            )),
            "{said}"
        );
        let word = segment.load(log::MERGE_LOCK);
        segment.exchange(log::MERGE_LOCK, word, free(word)).expect("no other thread changes it");
        go.send(()).expect("it waits");
    });
    until("writes are accepted", || look(&mut process).is_none());
    process.end().expect("all is in the log");
}

#[test]
fn a_log_stays_in_its_folder_while_it_is_begun_anew() {
    let (scratch, place, other) = (Scratch::new(), Place::new("stays"), Place::new("stays-other"));
    let (settings, others) = (settings_in(&place), settings_in(&other));
    let table = scratch.embedder.memory.table();
    let path = |process: &StorageProcess<'_>| process.folder().to_owned();
    // Before the first base.
    drop(elect(&scratch, &settings));
    let mut process = elect(&scratch, &others);
    assert_eq!(path(&process), place.folder().path);
    until("the log has a base", || {
        process.turn();
        process.durable().is_some()
    });
    process.end().expect("all is in the log");
    // While another log is begun, which no manifest names yet.
    let note = Note::load(table).expect("the memory").expect("a note");
    Note { log: new_log_id(), ..note }.store(table).expect("stored");
    let process = elect(&scratch, &others);
    assert_eq!(path(&process), place.folder().path);
    drop(process);
    // It was moved.
    std::fs::rename(place.folder().path, other.0.join("moved")).expect("moved");
    std::fs::remove_dir(other.folder().path).expect("it is empty");
    std::fs::rename(other.0.join("moved"), other.folder().path).expect("moved");
    assert_eq!(path(&elect(&scratch, &others)), other.folder().path);
}

#[test]
fn programs_are_refused_writes_while_the_writer_of_the_log_is_stopped() {
    let world = World::new("typed");
    let (_server, mut connection) = world.serve(&[]);
    let mut storage = world.storage(&[]);
    let memory = Arc::new(world.attach().expect("the memory"));
    let (database, mut caller) = (memory.database(0), Caller::new(&memory));
    assert_eq!(database.set("k", "1"), Ok(()));
    signal("-STOP", storage.id());
    let is_refused =
        |error: &dyn std::fmt::Display| error.to_string().contains("MISCONF Errors writing to the AOF file");
    until("typed calls are refused", || database.set("k", "2").is_err_and(|stop| is_refused(&stop)));
    until("commands are refused", || caller.run(&["SET", "k", "2"]).is_err_and(|error| is_refused(&error)));
    assert!(database.get("k").is_ok());
    signal("-CONT", storage.id());
    until("they are accepted", || database.set("k", "3") == Ok(()) && caller.run(&["SET", "k", "4"]).is_ok());
    assert_eq!(ask(&mut connection, "GET k"), "\"4\"");
    signal("-TERM", storage.id());
    assert!(storage.wait().expect("an end").success());
}

#[test]
fn no_two_memories_have_the_same_id() {
    let ids: std::collections::BTreeSet<String> = (0..20)
        .map(|_| Scratch::with_ceiling(16 << 20).embedder.memory.table().segment().memory_id())
        .collect();
    assert_eq!(ids.len(), 20);
    assert!(ids.iter().all(|id| id.len() == 32), "{ids:?}");
}
