//! `polder clone`: a memory copied into a new one beside writers of all kinds, whatever process is killed
//! meanwhile.
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polder_engine::{Memory, Options};
use polder_testkit::logs::{World, ask, same, settle, state, until, without_cas, work};
use polder_testkit::process::{Server, polder};
use polder_testkit::random::Random;
use polder_testkit::resp::Connection;
use polder_testkit::scratch::fresh_name;

/// The name of a new segment, which goes with the test.
struct New(String);

impl New {
    fn shm() -> New {
        New(fresh_name())
    }

    fn is_there(&self) -> bool {
        polder_shm::Segment::find(&self.0.parse().expect("a name")).is_some()
    }

    fn serve(&self) -> (Server, Connection) {
        let server = Server::start_polder(&polder(), &self.0, &["--save", ""]).expect("a server");
        let connection = Connection::open(&server.address()).expect("a connection");
        (server, connection)
    }

    fn attach(&self) -> Arc<Memory> {
        let options = Options { segment: self.0.clone(), create: false, ..Options::default() };
        Arc::new(Memory::attach(&options).expect("it is there"))
    }
}

impl Drop for New {
    fn drop(&mut self) {
        let _ = Memory::remove(&self.0);
    }
}

fn clone_command(from: &str, to: &str, more: &[&str]) -> Command {
    let mut command = Command::new(polder());
    command.args(["clone", from, to]).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn clone(from: &str, to: &str, more: &[&str]) -> Output {
    clone_command(from, to, more).output().expect("polder runs")
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn fails_with(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.iter().all(|word| text.contains(word)), "{text}");
}

fn verify(segment: &str) {
    let output = Command::new(polder()).args(["verify", segment]).output().expect("polder runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Calls whose replies tell what digests of values do not.
const ASIDES: &[&str] = &[
    "XINFO STREAM s FULL",
    "XPENDING s g",
    "FUNCTION LIST WITHCODE",
    "FCALL answer 0",
    "ITEM.GET item PEEK",
    "HPEXPIRETIME fields FIELDS 2 one two",
    "PEXPIRETIME i",
    "OBJECT ENCODING appended",
    "OBJECT ENCODING float",
    "STRLEN long",
    "ZRANGE large 0 -1 WITHSCORES",
    "ACL LIST",
    "CONFIG GET maxmemory-policy",
    "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
    "DBSIZE",
];

fn furnish(server: &mut Connection) {
    work(server, &mut Random::new(31), 3000);
    let lines = [
        "SELECT 0",
        "XADD s 1-1 a 1",
        "XADD s 2-1 b 2",
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
        "SET i v PXAT 9999999999999",
        "ITEM.SET item value FLAGS 7 TYPE text/css",
        "HSET fields one 1 two 2",
        "HPEXPIREAT fields 9999999999999 FIELDS 1 one",
        "APPEND appended x",
        "INCRBYFLOAT float 3.25",
        "SETRANGE long 300000 end",
        "ACL SETUSER ann on >secret ~a:* +get",
        "CONFIG SET maxmemory-policy allkeys-lru",
        "SELECT 9",
        "SET far away",
        "SELECT 0",
    ];
    for line in lines {
        let reply = ask(server, line);
        assert!(!reply.starts_with("(error)"), "{line}: {reply}");
    }
    server.call(&["SCRIPT", "LOAD", "return 1"]).expect("a reply");
    let library = "#!lua name=lib\nredis.register_function('answer', function() return 42 end)";
    assert_eq!(server.call(&["FUNCTION", "LOAD", library]).expect("a reply").shown().trim(), "\"lib\"");
    let long_key = "k".repeat(9000);
    server.call(&["SET", &long_key, "under a key that is a tree"]).expect("a reply");
    for number in 0..3000 {
        server.call(&["ZADD", "large", &number.to_string(), &format!("member:{number}")]).expect("a reply");
    }
    settle(server);
}

#[test]
fn a_clone_has_all_that_there_is_in_a_segment_of_any_kind_and_size() {
    let world = World::new("clone-all");
    let (_server, mut first) = world.serve(&[]);
    furnish(&mut first);
    let file = format!("file:{}/clone", world.dir());
    let kinds: [(New, &[&str]); 3] = [
        (New::shm(), &[]),
        (New(file), &["--size", "48mb", "--threads", "1"]),
        (New(fresh_name().replace("shm:", "sysv:")), &["--size", "64mb", "--pages", "4kb"]),
    ];
    for (to, flags) in &kinds {
        succeeds(&clone(&world.segment, &to.0, flags));
        verify(&to.0);
        let (_other, mut second) = to.serve();
        let of = |connection: &mut Connection| state(|words| connection.call(words).expect("a reply"));
        same(&of(&mut second), &of(&mut first));
        for db in ["0", "9"] {
            for server in [&mut first, &mut second] {
                assert_eq!(ask(server, &format!("SELECT {db}")), "OK");
            }
            assert_eq!(ask(&mut second, "DBSIZE"), ask(&mut first, "DBSIZE"));
        }
        assert_eq!(ask(&mut second, "GET far"), "\"away\"");
        for server in [&mut first, &mut second] {
            assert_eq!(ask(server, "SELECT 0"), "OK");
        }
        for call in ASIDES {
            let there = ask(&mut first, call);
            assert!(!there.starts_with("(error)"), "{call}: {there}");
            assert_eq!(without_cas(&ask(&mut second, call)), without_cas(&there), "{call}");
        }
        // It is another memory.
        assert_eq!(ask(&mut second, "SET own 1"), "OK");
        assert_eq!(ask(&mut first, "EXISTS own"), "(integer) 0");
        verify(&to.0);
    }
    verify(&world.segment);
}

const ACCOUNTS: usize = 400;
const EACH: i64 = 1000;

fn account(number: usize) -> String {
    format!("account:{number}")
}

/// Moves amounts between accounts until it is told to stop, with values of all sizes written between.
fn transfer(memory: &Arc<Memory>, seed: u64, stops: &AtomicBool) {
    let (db, mut random) = (memory.database(0), Random::new(seed));
    while !stops.load(Ordering::Relaxed) {
        let (from, to) = (account(random.below(ACCOUNTS)), account(random.below(ACCOUNTS)));
        let amount = random.below(50) as i64;
        if from != to {
            let moved = db.transaction(&[&from, &to], |keys| {
                keys.decrby(&from, amount)?;
                keys.incrby(&to, amount)
            });
            moved.expect("room");
        }
        let size = [3, 90, 2000, 40_000][random.below(4)];
        db.set(format!("noise:{}", random.below(200)), vec![b'n'; size]).expect("room");
    }
}

/// The sum of all accounts.
fn total(memory: &Memory) -> i64 {
    let db = memory.database(0);
    (0..ACCOUNTS)
        .map(|number| {
            let value = db.get(account(number)).expect("readable").expect("an account");
            String::from_utf8(value).expect("text").parse::<i64>().expect("a number")
        })
        .sum()
}

#[test]
fn a_clone_is_of_one_instant_while_programs_and_servers_write() {
    let world = World::new("clone-live");
    let (server, mut first) = world.serve(&[]);
    for number in 0..ACCOUNTS {
        ask(&mut first, &format!("SET {} {EACH}", account(number)));
    }
    ask(&mut first, "DEBUG POPULATE 20000 filler 200");
    let memory = Arc::new(world.attach().expect("the memory"));
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| transfer(&memory, 1, &stops));
        scope.spawn(|| {
            let mut client = Connection::open(&server.address()).expect("a connection");
            let mut random = Random::new(2);
            let script = "redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1])";
            while !stops.load(Ordering::Relaxed) {
                let keys = [account(random.below(ACCOUNTS)), account(random.below(ACCOUNTS))];
                client.call(&["EVAL", script, "2", &keys[0], &keys[1], "7"]).expect("a reply");
            }
        });
        for number in 0..6 {
            let to = New::shm();
            let output =
                clone(&world.segment, &to.0, &["--threads", if number % 2 == 0 { "1" } else { "3" }]);
            // Before the check: a failure must not leave the writers running.
            stops.store(!output.status.success() || number == 5, Ordering::Relaxed);
            succeeds(&output);
            let copy = to.attach();
            assert_eq!(total(&copy), ACCOUNTS as i64 * EACH);
            let report = copy.table().verify().expect("readable");
            assert!(report.is_clean(), "{report}");
        }
    });
    assert_eq!(total(&memory), ACCOUNTS as i64 * EACH);
    verify(&world.segment);
}

/// Waits until a clone has touched this much memory, that of the source included, or has ended.
fn await_part(child: &mut Child, bytes: u64) {
    let status = format!("/proc/{}/status", child.id());
    let resident = || -> Option<u64> {
        let text = std::fs::read_to_string(&status).ok()?;
        text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok())
    };
    until("a part is copied", || {
        child.try_wait().expect("a status").is_some() || resident().is_some_and(|kib| kib << 10 >= bytes)
    });
}

/// Lets a clone touch this much memory and kills it; returns true if it had ended by then.
fn killed(mut child: Child, bytes: u64) -> bool {
    await_part(&mut child, bytes);
    let has_ended = child.try_wait().expect("a status").is_some();
    child.kill().expect("it is ours");
    child.wait().expect("it has ended");
    has_ended
}

#[test]
fn a_clone_that_is_killed_leaves_no_segment_and_holds_nothing_of_the_other() {
    let world = World::new("clone-killed");
    let (_server, mut first) = world.serve(&[]);
    ask(&mut first, "DEBUG POPULATE 30000 key 1000");
    let file = New(format!("file:{}/clone", world.dir()));
    let mut kills = 0;
    for to in [New::shm(), file] {
        for round in 0.. {
            let child =
                clone_command(&world.segment, &to.0, &["--size", "128mb"]).spawn().expect("polder runs");
            if killed(child, round * (4 << 20)) {
                break;
            }
            kills += 1;
            // Also what has been overwritten since is given back, and others may take a snapshot at once.
            ask(&mut first, "DEBUG POPULATE 3000 key 1000");
            if to.is_there() {
                // Killed behind its last step: whole then.
                let report = to.attach().table().verify().expect("readable");
                assert!(report.is_clean(), "{report}");
                Memory::remove(&to.0).expect("removed");
            }
        }
        assert!(to.is_there());
        verify(&to.0);
    }
    assert!(kills > 4, "{kills}");
    let left = std::fs::read_dir(world.dir()).expect("a folder").filter_map(Result::ok);
    let drafts = left.filter(|entry| entry.file_name().to_string_lossy().contains("draft")).count();
    assert_eq!(drafts, 0);
    assert_eq!(ask(&mut first, "SAVE"), "OK");
    verify(&world.segment);
}

#[test]
fn a_clone_ends_although_all_that_use_the_other_memory_are_killed() {
    let world = World::new("clone-orphan");
    for round in 0..4 {
        let (mut server, mut first) = world.serve(&[]);
        ask(&mut first, "DEBUG POPULATE 20000 key 1000");
        let to = New::shm();
        let writes = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let address = server.address();
            let writes = &writes;
            scope.spawn(move || {
                let mut client = Connection::open(&address).expect("a connection");
                let mut number = 0;
                while writes.load(Ordering::Relaxed)
                    && client.call(&["SET", &format!("key:{}", number % 20_000), &"w".repeat(900)]).is_ok()
                {
                    number += 1;
                }
            });
            let mut child = clone_command(&world.segment, &to.0, &[]).spawn().expect("polder runs");
            await_part(&mut child, (16 << 20) * (round + 1));
            server.kill();
            writes.store(false, Ordering::Relaxed);
            succeeds(&child.wait_with_output().expect("it ends"));
        });
        assert_eq!(to.attach().table().keys(0).0, 20_000);
        verify(&to.0);
        verify(&world.segment);
    }
}

#[test]
fn a_clone_that_cannot_be_made_says_why_and_what_to_do() {
    let world = World::new("clone-refused");
    let (server, mut first) = world.serve(&[]);
    ask(&mut first, "DEBUG POPULATE 20000 key 1000");
    let to = New::shm();
    fails_with(
        &clone("shm:polder-test-no-such", &to.0, &[]),
        &["there is no segment shm:polder-test-no-such"],
    );
    fails_with(&clone(&world.segment, &world.segment, &[]), &["already", "polder segment remove"]);
    fails_with(&clone(&world.segment, &to.0, &["--size", "8mb"]), &["too small", "--size"]);
    // Enough for what is in use, and nothing for what is kept free.
    let usage = world.attach().expect("the memory").table().usage();
    let size = (usage.used - usage.fixed - usage.retired).to_string();
    fails_with(&clone(&world.segment, &to.0, &["--size", &size]), &["nothing was made"]);
    assert!(!to.is_there());
    // A segment of another version.
    let old = New(format!("file:{}/old", world.dir()));
    drop(server);
    std::fs::write(format!("{}/old", world.dir()), {
        let mut head = vec![0u8; 8 << 20];
        head[..8].copy_from_slice(b"POLDER\r\n");
        head[8] = 7;
        head
    })
    .expect("a file");
    fails_with(&clone(&old.0, &to.0, &[]), &["layout 7"]);
    assert!(!to.is_there());
    verify(&world.segment);
}
