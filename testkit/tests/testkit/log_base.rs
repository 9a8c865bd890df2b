//! Bases of the append-only log that are commands, and DEBUG LOADAOF, which reads the whole log back.
use polder_testkit::answer::Answer;
use polder_testkit::logs::{World, ask, info, rewrite, same, settle, state, synced, until, work};
use polder_testkit::process::on_path;
use polder_testkit::random::Random;
use polder_testkit::resp::Connection;

/// Values whose commands need care. `h`'s field expiries and `i`'s flags are beyond what redis-server 7.0 knows.
const CAREFUL: [&str; 24] = [
    "SELECT 0",
    "XADD empty 5-1 f v",
    "XDEL empty 5-1",
    "XGROUP CREATE never g $ MKSTREAM",
    "XGROUP CREATECONSUMER never g idle",
    "XADD groups 1-1 a 1",
    "XADD groups 1-2 a 2 b 3",
    "XADD groups 7-1 c 4",
    "XDEL groups 1-2",
    "XGROUP CREATE groups g 0",
    "XGROUP CREATE groups late 7-1 ENTRIESREAD 2",
    "XREADGROUP GROUP g one COUNT 1 STREAMS groups >",
    "XREADGROUP GROUP g two STREAMS groups >",
    "XCLAIM groups g two 0 1-1 RETRYCOUNT 9 TIME 1700000000000 JUSTID",
    "ZADD z:scores inf a -inf b 0.5 c 1e10 d -0 e 3 f",
    "SET number 17",
    "SET moment v PXAT 9999999999999",
    "PFADD sketch a b c",
    "SETBIT bits 1000 1",
    "GEOADD places 13.36 38.11 Palermo",
    "SELECT 9",
    "SET ninth v",
    "RPUSH ninths a b",
    "SELECT 0",
];

/// Calls that show the groups of streams, whose digests have no consumers.
const GROUPS: [&str; 4] =
    ["XINFO GROUPS groups", "XPENDING groups g", "XINFO GROUPS never", "XINFO CONSUMERS never g"];

fn fill(connection: &mut Connection) {
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    connection.call(&["FUNCTION", "LOAD", library]).expect("a reply");
    work(connection, &mut Random::new(5), 1500);
    for line in CAREFUL {
        assert!(!ask(connection, line).starts_with("(error)"), "{line}");
    }
    // Longer than what is written at once, and than one command of a base names.
    connection.call(&["SET", "long", &"0123456789".repeat(2 << 20)]).expect("a reply");
    let members: Vec<String> = (0..200).map(|number| format!("{number}-{}", "x".repeat(1000))).collect();
    for name in ["RPUSH", "SADD"] {
        let words: Vec<&str> = [name, name].into_iter().chain(members.iter().map(String::as_str)).collect();
        connection.call(&words).expect("a reply");
    }
    settle(connection);
}

/// Keys with values and expiries, groups of streams and functions.
fn whole(connection: &mut Connection) -> Vec<String> {
    let mut found = state(|words| connection.call(words).expect("a reply"));
    ask(connection, "SELECT 9");
    found.push(ask(connection, "LRANGE ninths 0 -1"));
    ask(connection, "SELECT 0");
    // Idle times go on.
    let untimed = |text: String| {
        let lines: Vec<&str> = text.lines().collect();
        let is_time =
            |at: usize| at > 0 && ["idle", "inactive"].iter().any(|word| lines[at - 1].contains(word));
        (0..lines.len()).filter(|at| !is_time(*at)).map(|at| lines[at]).collect::<Vec<_>>().join("\n")
    };
    found.extend(GROUPS.map(|line| untimed(ask(connection, line))));
    // Entry, consumer, idle time, deliveries.
    let pending = ask(connection, "XPENDING groups g - + 1 two");
    assert!(pending.contains("1-1") && pending.ends_with("4) (integer) 9"), "{pending}");
    found.push(ask(connection, "FUNCTION LIST"));
    found
}

/// Waits until the only base is one whose name ends so: a rewrite is told as done before the base before it has gone.
fn await_base(world: &World, ending: &str) {
    until("one base is left, of this form", || {
        let names = std::fs::read_dir(world.place.folder().path).expect("a folder");
        let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let found: Vec<String> = names.filter(|name| name.contains(".base.")).collect();
        found.len() == 1 && found[0].ends_with(ending)
    });
}

#[test]
fn a_base_of_commands_holds_the_data_here_and_in_redis() {
    let world = World::new("base");
    let flags = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--aof-timestamp-enabled", "yes"];
    let (mut server, mut connection) = world.serve(&flags);
    fill(&mut connection);
    rewrite(&mut connection);
    await_base(&world, ".base.aof");
    let expected = whole(&mut connection);
    synced(&mut connection);
    server.kill();
    world.lose_segment();
    if let Some(redis) = on_path("redis-server") {
        let (_server, mut connection) = world.place.start(&redis, &["--appendfsync", "no"]);
        until("it has loaded the log", || {
            !matches!(connection.call(&["DBSIZE"]).expect("a reply"), Answer::Error(_))
        });
        let keys = |found: &[String]| -> Vec<String> {
            found.iter().filter(|line| line.as_bytes().get(1) == Some(&b' ')).cloned().collect()
        };
        same(&keys(&whole(&mut connection)), &keys(&expected));
    }
    let (_server, mut connection) = world.serve(&flags);
    same(&whole(&mut connection), &expected);
    // What only Polder and later servers know, and back to an RDB file.
    for line in [
        "XADD gone 1-1 a b",
        "XGROUP CREATE gone g 0",
        "XREADGROUP GROUP g c STREAMS gone >",
        "XDEL gone 1-1",
        "HSET h a 1 b 2",
        "HPEXPIREAT h 9999999999999 FIELDS 1 a",
        "ITEM.SET i v FLAGS 5 NEWCAS 7 TYPE a/b",
    ] {
        assert!(!ask(&mut connection, line).starts_with("(error)"), "{line}");
    }
    let shown = |connection: &mut Connection| {
        ["XPENDING gone g", "HPEXPIRETIME h FIELDS 2 a b", "HGETALL h", "ITEM.GET i"]
            .map(|line| ask(connection, line))
    };
    let expected = shown(&mut connection);
    for (preamble, ending) in [("no", ".base.aof"), ("yes", ".base.rdb")] {
        assert_eq!(ask(&mut connection, &format!("CONFIG SET aof-use-rdb-preamble {preamble}")), "OK");
        rewrite(&mut connection);
        await_base(&world, ending);
        assert_eq!(ask(&mut connection, "DEBUG LOADAOF"), "OK");
        assert_eq!(shown(&mut connection), expected);
    }
}

#[test]
fn the_log_is_read_back_on_demand() {
    let world = World::new("loadaof");
    let (_server, mut connection) = world.with_log();
    fill(&mut connection);
    let expected = whole(&mut connection);
    for _ in 0..2 {
        assert_eq!(ask(&mut connection, "DEBUG LOADAOF"), "OK");
        same(&whole(&mut connection), &expected);
    }
    // A file's functions are told to the log as well.
    for line in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        assert_eq!(ask(&mut connection, line), "OK");
        same(&whole(&mut connection), &expected);
    }
    // What it has written is in the log, too.
    rewrite(&mut connection);
    assert_eq!(ask(&mut connection, "SET after v"), "OK");
    assert_eq!(ask(&mut connection, "DEBUG LOADAOF"), "OK");
    assert_eq!(ask(&mut connection, "GET after"), "\"v\"");
    assert_eq!(ask(&mut connection, "DEL after"), "(integer) 1");
    same(&whole(&mut connection), &expected);
    assert!(info(&mut connection, "aof_last_write_status:ok"));
}

#[test]
fn without_a_log_there_is_nothing_to_read_back_and_the_data_stays() {
    let world = World::new("no-log");
    let (_server, mut connection) = world.serve(&[]);
    assert_eq!(ask(&mut connection, "SET k v"), "OK");
    let refused = ask(&mut connection, "DEBUG LOADAOF");
    assert!(refused.contains("there is no log; set appendonly to yes"), "{refused}");
    assert_eq!(ask(&mut connection, "GET k"), "\"v\"");
}
