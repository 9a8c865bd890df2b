//! RDB files written and read by a server: by command, by save points, at its start and at its end.
use std::path::PathBuf;
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_engine::Memory;
use polder_testkit::answer::Answer;
use polder_testkit::process::{Server, polder};
use polder_testkit::resp::Connection;

/// A folder and a segment of its own, which go with it.
struct Place {
    folder: PathBuf,
    segment: String,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("polder-persistence-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Place { folder, segment: format!("shm:polder-test-{}-persistence-{name}", std::process::id()) }
    }

    fn start(&self, more: &[&str]) -> (Server, Connection) {
        let mut flags = vec!["--dir", self.folder.to_str().unwrap(), "--segment-size", "256mb"];
        flags.extend(more);
        let server = Server::start_polder(&polder(), &self.segment, &flags).unwrap();
        let connection = Connection::open(&server.address()).unwrap();
        (server, connection)
    }

    /// Removes the segment, as a reboot does.
    fn forget(&self) {
        Memory::remove(&self.segment).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.join("dump.rdb")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.segment);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ask(connection: &mut Connection, line: &str) -> String {
    connection.call(&line.split(' ').collect::<Vec<_>>()).unwrap().shown().trim_end().to_owned()
}

fn info(connection: &mut Connection, field: &str) -> String {
    let Answer::Bulk(text) = connection.call(&["INFO", "persistence"]).unwrap() else {
        panic!("INFO is text")
    };
    let text = String::from_utf8(text).unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")))
        .unwrap_or_else(|| panic!("no {field} in {text}"))
        .to_owned()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_saved_is_there_in_a_new_segment() {
    let place = Place::new("saved");
    let (mut server, mut connection) = place.start(&[]);
    for number in 0..3000 {
        ask(&mut connection, &format!("SET key:{number} value:{number}"));
    }
    ask(&mut connection, "SET expiring v PX 100000000");
    ask(&mut connection, "SET gone v PX 1");
    ask(&mut connection, &format!("SET long {}", "long text ".repeat(5000).replace(' ', "_")));
    ask(&mut connection, "SELECT 9");
    ask(&mut connection, "SET other db");
    ask(&mut connection, "SELECT 0");
    wait_for("the end of 'gone'", || ask(&mut connection, "GET gone") == "(nil)");
    let digest = ask(&mut connection, "DEBUG DIGEST");
    assert_ne!(info(&mut connection, "rdb_changes_since_last_save"), "0");
    assert_eq!(ask(&mut connection, "SAVE"), "OK");
    // What has expired may be collected after it.
    assert!(info(&mut connection, "rdb_changes_since_last_save").parse::<u32>().unwrap() < 2);
    assert_eq!(
        (info(&mut connection, "rdb_saves"), info(&mut connection, "rdb_last_bgsave_status")),
        ("1".into(), "ok".into())
    );
    server.kill();
    // The segment is there: the file is not read into it again.
    std::fs::copy(place.file(), place.folder.join("copy.rdb")).unwrap();
    let (mut server, mut connection) = place.start(&[]);
    assert_eq!(info(&mut connection, "rdb_last_load_keys_loaded"), "0");
    assert_eq!(ask(&mut connection, "DEBUG DIGEST"), digest);
    server.kill();
    place.forget();
    let (mut server, mut connection) = place.start(&[]);
    assert_eq!(info(&mut connection, "rdb_last_load_keys_loaded"), "3003");
    assert_eq!(ask(&mut connection, "DEBUG DIGEST"), digest);
    // An empty segment that is not new stays empty.
    ask(&mut connection, "FLUSHALL");
    server.kill();
    let (mut server, mut connection) = place.start(&[]);
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 0");
    ask(&mut connection, "SET key:1 mine");
    server.kill();
    // Told otherwise.
    let (_server, mut connection) = place.start(&["--load-rdb", "always"]);
    assert_eq!(
        (ask(&mut connection, "DBSIZE"), ask(&mut connection, "GET key:1")),
        ("(integer) 3002".into(), "\"mine\"".into())
    );
}

#[test]
fn a_file_keeps_the_moment_at_which_a_database_is_emptied() {
    let place = Place::new("flushes");
    let (mut server, mut connection) = place.start(&[]);
    ask(&mut connection, "SELECT 3");
    assert_eq!(ask(&mut connection, "SET other 1"), "OK");
    assert_eq!(ask(&mut connection, "SELECT 0"), "OK");
    assert_eq!(ask(&mut connection, "SET a 1"), "OK");
    let moment_ms = now_ms() + 1500;
    assert_eq!(ask(&mut connection, &format!("ITEM.FLUSH PXAT {moment_ms}")), "OK");
    assert_eq!(ask(&mut connection, "SAVE"), "OK");
    server.kill();
    place.forget();
    wait_for("the moment", || now_ms() >= moment_ms);
    let (_server, mut connection) = place.start(&[]);
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 0", "it came while no server was there");
    assert_eq!(ask(&mut connection, "SET a 2"), "OK");
    assert_eq!(ask(&mut connection, "SELECT 3"), "OK");
    assert_eq!(ask(&mut connection, "GET other"), "\"1\"");
    assert_eq!(ask(&mut connection, "DEBUG RELOAD"), "OK");
    assert_eq!(ask(&mut connection, "SELECT 0"), "OK");
    assert_eq!(ask(&mut connection, "GET a"), "\"2\"", "it has come once");
}

#[test]
fn a_damaged_file_is_reported_and_nothing_of_it_stays() {
    let place = Place::new("damaged");
    let (mut server, mut connection) = place.start(&[]);
    for number in 0..500 {
        ask(&mut connection, &format!("SET key:{number} value"));
    }
    assert_eq!(ask(&mut connection, "SAVE"), "OK");
    server.kill();
    place.forget();
    let whole = std::fs::read(place.file()).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    for bad in [&damaged[..], &whole[..whole.len() - 100], b"", b"REDIS0099"] {
        std::fs::write(place.file(), bad).unwrap();
        let flags =
            ["serve", "--port", "{port}", "--segment", &place.segment, "--segment-size", "256mb", "--dir"];
        let flags: Vec<&str> = flags.into_iter().chain([place.folder.to_str().unwrap()]).collect();
        assert!(Server::start(&polder(), &flags).is_err());
    }
    std::fs::write(place.file(), &whole).unwrap();
    let (_server, mut connection) = place.start(&[]);
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 500");
}

#[test]
fn a_save_in_the_background_can_be_watched_and_cancelled() {
    let place = Place::new("background");
    let (_server, mut connection) = place.start(&["--rdb-key-save-delay", "2000"]);
    for number in 0..2000 {
        ask(&mut connection, &format!("SET key:{number} value"));
    }
    assert_eq!(ask(&mut connection, "BGSAVE"), "Background saving started");
    assert_eq!(ask(&mut connection, "BGSAVE"), "(error) ERR Background save already in progress");
    assert_eq!(ask(&mut connection, "SAVE"), "(error) ERR Background save already in progress");
    assert_eq!(
        (info(&mut connection, "rdb_bgsave_in_progress"), info(&mut connection, "current_save_keys_total")),
        ("1".into(), "2000".into())
    );
    wait_for("progress", || info(&mut connection, "current_save_keys_processed") != "0");
    assert_eq!(ask(&mut connection, "SET meanwhile works"), "OK");
    assert_eq!(ask(&mut connection, "BGSAVE CANCEL"), "Background saving cancelled");
    wait_for("the end", || info(&mut connection, "rdb_bgsave_in_progress") == "0");
    assert_eq!(std::fs::read_dir(&place.folder).unwrap().count(), 0, "nothing is left of it");
    assert_eq!(info(&mut connection, "rdb_last_bgsave_status"), "ok");
    ask(&mut connection, "CONFIG SET rdb-key-save-delay 0");
    assert_eq!(ask(&mut connection, "BGSAVE"), "Background saving started");
    wait_for("the file", || info(&mut connection, "rdb_bgsave_in_progress") == "0");
    assert!(place.file().is_file());
    assert_eq!(info(&mut connection, "rdb_saves"), "1");
}

#[test]
fn save_points_save_and_the_end_saves() {
    let place = Place::new("points");
    let (mut server, mut connection) = place.start(&["--save", "1 10"]);
    for number in 0..20 {
        ask(&mut connection, &format!("SET key:{number} value"));
    }
    wait_for("the save point", || info(&mut connection, "rdb_saves") == "1");
    ask(&mut connection, "SET last one");
    connection.send(&["SHUTDOWN"]).unwrap();
    assert!(connection.receive().is_err());
    server.kill();
    place.forget();
    let (mut server, mut connection) = place.start(&["--save", "1000 1"]);
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 21");
    ask(&mut connection, "SET not saved");
    connection.send(&["SHUTDOWN", "NOSAVE"]).unwrap();
    assert!(connection.receive().is_err());
    server.kill();
    place.forget();
    let (_server, mut connection) = place.start(&[]);
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 21");
}

#[test]
fn after_a_save_that_failed_writes_stop_if_they_are_to() {
    let place = Place::new("failed");
    let (_server, mut connection) =
        place.start(&["--save", "1000000 1", "--enable-protected-configs", "yes"]);
    ask(&mut connection, "SET k v");
    assert_eq!(ask(&mut connection, "CONFIG SET dir /nonexistent"), "OK");
    assert_eq!(ask(&mut connection, "BGSAVE"), "Background saving started");
    wait_for("the end", || info(&mut connection, "rdb_last_bgsave_status") == "err");
    for write in ["SET k w", "APPEND k x", "DEL k", "PING"] {
        let answer = ask(&mut connection, write);
        assert!(
            answer.starts_with("(error) MISCONF Redis is configured to save RDB snapshots"),
            "{write}: {answer}"
        );
    }
    // Those of one key in a row, too, which share a transaction.
    for _ in 0..2 {
        connection.send(&["APPEND", "k", "x"]).unwrap();
    }
    assert!((0..2).all(|_| connection.receive().unwrap().shown().starts_with("(error) MISCONF")));
    assert_eq!(ask(&mut connection, "GET k"), "\"v\"");
    ask(&mut connection, "CONFIG SET stop-writes-on-bgsave-error no");
    assert_eq!(ask(&mut connection, "SET k w"), "OK");
    assert_eq!(ask(&mut connection, "SHUTDOWN"), "(error) ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(ask(&mut connection, &format!("CONFIG SET dir {}", place.folder.display())), "OK");
    ask(&mut connection, "CONFIG SET stop-writes-on-bgsave-error yes");
    assert!(ask(&mut connection, "SET k x").starts_with("(error) MISCONF"));
    assert_eq!(ask(&mut connection, "SAVE"), "OK");
    assert_eq!(ask(&mut connection, "SET k x"), "OK");
}

#[test]
fn debug_reload_brings_everything_back() {
    let place = Place::new("reload");
    let (_server, mut connection) = place.start(&[]);
    for number in 0..200 {
        ask(&mut connection, &format!("SET key:{number} value:{number}"));
    }
    let digest = ask(&mut connection, "DEBUG DIGEST");
    assert_eq!(ask(&mut connection, "DEBUG RELOAD"), "OK");
    assert_eq!(ask(&mut connection, "DEBUG DIGEST"), digest);
    ask(&mut connection, "SET key:1 changed");
    ask(&mut connection, "SET added later");
    assert!(ask(&mut connection, "DEBUG RELOAD NOSAVE NOFLUSH").contains("is there already"));
    assert_eq!(ask(&mut connection, "DEBUG RELOAD NOSAVE NOFLUSH MERGE"), "OK");
    assert_eq!(
        (ask(&mut connection, "GET key:1"), ask(&mut connection, "DBSIZE")),
        ("\"value:1\"".into(), "(integer) 201".into())
    );
    assert_eq!(ask(&mut connection, "DEBUG RELOAD NOSAVE"), "OK");
    assert_eq!(ask(&mut connection, "DEBUG DIGEST"), digest);
    assert!(ask(&mut connection, "DEBUG RELOAD NONSENSE").contains("only supports"));
}

#[test]
fn a_save_is_of_one_instant_while_all_clients_write() {
    let place = Place::new("instant");
    // Slow enough that nearly everything is overwritten while it is saved.
    let (mut server, mut connection) = place.start(&["--rdb-key-save-delay", "300"]);
    for number in 0..2000 {
        ask(&mut connection, &format!("SET account:{number} 100"));
        ask(&mut connection, &format!("RPUSH list:{number} a b"));
    }
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (address, ends) = (server.address(), &ends);
            scope.spawn(move || {
                let mut connection = Connection::open(&address).unwrap();
                let mut state = writer * 7919 + 1;
                let mut draw = |end: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) % end
                };
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    let (from, to, amount) = (draw(2000), draw(2000), draw(50));
                    ask(&mut connection, "MULTI");
                    ask(&mut connection, &format!("DECRBY account:{from} {amount}"));
                    ask(&mut connection, &format!("INCRBY account:{to} {amount}"));
                    ask(&mut connection, &format!("INCR writer:{writer}"));
                    ask(&mut connection, &format!("SET copy:{writer}:{} 1", draw(1 << 40)));
                    assert!(!ask(&mut connection, "EXEC").contains("ERR"));
                    ask(&mut connection, &format!("LMOVE list:{from} list:{to} LEFT RIGHT"));
                    ask(
                        &mut connection,
                        &format!("EVAL redis.call('INCRBY',KEYS[1],-3)redis.call('INCRBY',KEYS[2],3) 2 account:{to} account:{from}"),
                    );
                }
            });
        }
        assert_eq!(ask(&mut connection, "BGSAVE"), "Background saving started");
        std::thread::sleep(Duration::from_millis(300));
        // Gone from the memory, and not from the file.
        ask(&mut connection, "SELECT 1");
        ask(&mut connection, "SWAPDB 0 1");
        ask(&mut connection, "SWAPDB 0 1");
        wait_for("the file", || info(&mut connection, "rdb_bgsave_in_progress") == "0");
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(info(&mut connection, "rdb_last_bgsave_status"), "ok");
    server.kill();
    place.forget();
    let (_server, mut connection) = place.start(&[]);
    let sum = "local sum = 0 for n = 0, 1999 do sum = sum + redis.call(ARGV[1], ARGV[2] .. n) end return sum";
    let total = connection.call(&["EVAL", sum, "0", "GET", "account:"]).unwrap();
    assert_eq!(total.shown().trim_end(), "(integer) 200000");
    let elements = connection.call(&["EVAL", sum, "0", "LLEN", "list:"]).unwrap();
    assert_eq!(elements.shown().trim_end(), "(integer) 4000");
    for writer in 0..3 {
        let count = ask(&mut connection, &format!("GET writer:{writer}"));
        let Answer::Array(copies) = connection.call(&["KEYS", &format!("copy:{writer}:*")]).unwrap() else {
            panic!("KEYS is an array")
        };
        assert_eq!(
            count.trim_matches('"'),
            if copies.is_empty() { "(nil)".into() } else { copies.len().to_string() }
        );
    }
}

#[test]
fn a_server_that_is_killed_while_it_saves_leaves_nothing_behind_in_the_memory() {
    let place = Place::new("killed");
    let (mut dying, mut connection) = place.start(&["--rdb-key-save-delay", "1000"]);
    for number in 0..3000 {
        ask(&mut connection, &format!("SET key:{number} {}", "x".repeat(number % 200)));
    }
    let (_server, mut other) = place.start(&[]);
    assert_eq!(ask(&mut connection, "BGSAVE"), "Background saving started");
    wait_for("progress", || info(&mut connection, "current_save_keys_processed") != "0");
    for number in 0..1500 {
        assert_eq!(ask(&mut other, &format!("SET key:{number} overwritten")), "OK");
    }
    dying.kill();
    let began = Instant::now();
    for number in 1500..3000 {
        assert_eq!(ask(&mut other, &format!("SET key:{number} overwritten")), "OK");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "nobody waits for the dead");
    // The next one begins as soon as the dead one is found.
    ask(&mut other, "CONFIG SET rdb-key-save-delay 0");
    assert_eq!(ask(&mut other, "BGSAVE"), "Background saving started");
    wait_for("the file", || info(&mut other, "rdb_bgsave_in_progress") == "0");
    assert_eq!((info(&mut other, "rdb_last_bgsave_status"), place.file().is_file()), ("ok".into(), true));
    tool(&["verify", &place.segment]);
}

#[test]
fn a_server_that_is_killed_while_it_loads_is_made_good_by_the_next_one() {
    let place = Place::new("loading");
    let (mut server, mut connection) = place.start(&[]);
    assert_eq!(ask(&mut connection, "DEBUG POPULATE 60000"), "OK");
    assert_eq!(ask(&mut connection, "DBSIZE"), "(integer) 60000");
    assert_eq!(ask(&mut connection, "SAVE"), "OK");
    let digest = ask(&mut connection, "DEBUG DIGEST");
    server.kill();
    for wait_ms in [5, 20, 40, 60, 80, 110, 150, 200] {
        place.forget();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port()
            .to_string();
        let flags =
            ["serve", "--port", &port, "--segment", &place.segment, "--segment-size", "256mb", "--dir"];
        let mut dying = std::process::Command::new(polder())
            .args(flags)
            .arg(&place.folder)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        dying.kill().unwrap();
        dying.wait().unwrap();
        let (mut server, mut connection) = place.start(&[]);
        assert_eq!(ask(&mut connection, "DEBUG DIGEST"), digest, "killed after {wait_ms} ms");
        server.kill();
    }
}

#[test]
fn a_save_that_is_asked_for_in_a_transaction_begins_after_it() {
    let place = Place::new("scheduled");
    let (mut server, mut connection) = place.start(&[]);
    ask(&mut connection, "MULTI");
    ask(&mut connection, "BGSAVE");
    ask(&mut connection, "SET key value");
    assert_eq!(ask(&mut connection, "EXEC"), "1) Background saving scheduled\n2) OK");
    wait_for("the file", || info(&mut connection, "rdb_saves") == "1");
    server.kill();
    place.forget();
    let (_server, mut connection) = place.start(&[]);
    assert_eq!(ask(&mut connection, "GET key"), "\"value\"");
}

/// Runs `polder` with these words. Returns what it prints.
fn tool(words: &[&str]) -> String {
    let run = std::process::Command::new(polder()).args(words).output().unwrap();
    assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn files_go_out_of_segments_and_servers_and_into_them() {
    let place = Place::new("tools");
    let (server, mut connection) = place.start(&[]);
    for line in [
        "SET text value",
        "SET soon v PX 10000000",
        "RPUSH list a b c",
        "HSET hash f 1 g 2",
        "SADD set a 1 b",
        "ZADD zset 1.50 a 2 b",
    ] {
        assert!(!ask(&mut connection, line).starts_with("(error)"), "{line}");
    }
    ask(&mut connection, "XADD stream 1-1 f v");
    ask(&mut connection, "SELECT 3");
    ask(&mut connection, "SET other db");
    let digest = ask(&mut connection, "DEBUG DIGEST");
    let (one, two) = (place.folder.join("one.rdb"), place.folder.join("two.rdb"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    assert!(tool(&["export", one, "--segment", &place.segment]).starts_with("8 keys written"));
    let port = server.port().to_string();
    assert!(tool(&["export", two, "-p", &port]).starts_with("8 keys written"));
    for file in [one, two] {
        let other = Place::new("tools-other");
        let (_server, mut connection) = other.start(&[]);
        ask(&mut connection, "SET text mine");
        assert_eq!(
            tool(&["import", file, "--segment", &other.segment]),
            "7 keys loaded, 1 were there and stayed\n"
        );
        assert_eq!(ask(&mut connection, "GET text"), "\"mine\"");
        assert_eq!(tool(&["import", file, "--segment", &other.segment, "--replace"]), "8 keys loaded\n");
        assert_eq!(ask(&mut connection, "DEBUG DIGEST"), digest);
    }
    if let Some(program) = polder_testkit::process::on_path("redis-server") {
        let redis = Server::start_redis(&program).unwrap();
        let mut connection = Connection::open(&redis.address()).unwrap();
        let port = redis.port().to_string();
        for file in [one, two] {
            assert_eq!(tool(&["import", file, "-p", &port, "--replace"]), "8 keys loaded\n");
            assert_eq!(ask(&mut connection, "DEBUG DIGEST"), digest);
        }
        assert_eq!(tool(&["import", one, "-p", &port]), "0 keys loaded, 8 were there and stayed\n");
    }
}
