//! The change log against what it tells of: every transcript runs with the log on, and the stream of each case is executed elsewhere, by
//! us and by a real redis-server: the one that is installed, and those of newer versions that `xtask/needs.sh newer` and `newest` have put below target.
//! The contents must be equal, and no key may have been told as a whole for want of an effect.
use std::path::Path;

use polder_base::Protocol;
use polder_engine::Counter;
use polder_persist::effects::{self, Effect};
use polder_testkit::answer::Answer;
use polder_testkit::caller::Caller;
use polder_testkit::door::Door;
use polder_testkit::process::{Server, more_peers, newer, on_path};
use polder_testkit::resp::Connection;
use polder_testkit::runner;
use polder_testkit::scratch::Scratch;
use polder_testkit::transcript::{Place, Transcript};

/// A setting of the form in which HyperLogLogs are stored, which each memory has for itself: PFADD leads to the same count, not to the same bytes.
const OWN_FORM: &[u8] = b"hll-sparse-max-bytes";

/// Cases in which redis-server may have another digest, since it writes scores that are not whole otherwise than numbers of decimal digits.
const UNLIKE_MAX: u64 = 8;

/// A memory whose log is on.
struct Logged {
    scratch: Scratch,
    callers: std::collections::BTreeMap<String, Caller>,
    redis: Vec<Redis>,
    cases: u64,
    /// The case has changed a setting ([`OWN_FORM`]).
    has_own_form: bool,
    failures: Vec<String>,
}

/// A real server that executes the streams.
struct Redis {
    name: String,
    connection: Connection,
    /// Cases whose contents were compared, and those whose digests may differ.
    compared: u64,
    unlike: u64,
    server: Server,
}

impl Redis {
    fn start(name: &str, program: &Path) -> Redis {
        let server = Server::start_redis(program).expect("a redis-server");
        let connection = Connection::open(&server.address()).expect("a connection");
        Redis { name: name.into(), connection, compared: 0, unlike: 0, server }
    }

    /// All that are here.
    fn all() -> Vec<Redis> {
        let newest = more_peers().into_iter().filter(|(name, _)| name.starts_with("redis"));
        let known = [("redis-server", on_path("redis-server")), ("redis8", newer("redis8"))];
        let known = known.into_iter().filter_map(|(name, program)| Some((name.to_owned(), program?)));
        known.chain(newest).map(|(name, program)| Redis::start(&name, &program)).collect()
    }

    /// Executes a stream; `None`: it has what this version does not know. Else its errors, and the digest of what is there then.
    fn replay(&mut self, commands: &[Vec<Vec<u8>>], bytes: &[u8]) -> Option<(Vec<String>, String)> {
        let redis = &mut self.connection;
        redis.call(&["FLUSHALL"]).expect("a reply");
        redis.call(&["FUNCTION", "FLUSH"]).expect("a reply");
        redis.send_framed(bytes).expect("sent");
        let mut errors = Vec::new();
        for words in commands {
            if let Answer::Error(text) = redis.receive().expect("a reply") {
                errors.push(format!("{}: {text}", shown(words)));
            }
        }
        redis.call(&["SELECT", "0"]).expect("a reply");
        if errors.iter().any(|error| error.contains("unknown command") || error.contains("DB index")) {
            return None;
        }
        let digest = match redis.call(&["DEBUG", "DIGEST"]).expect("a reply") {
            Answer::Status(digest) => digest,
            other => other.shown(),
        };
        Some((errors, digest))
    }
}

fn logged() -> Scratch {
    let scratch = Scratch::new();
    let log = scratch.embedder.memory.table().log();
    log.keep(64 << 20, 0);
    log.turn_on().expect("a log");
    scratch
}

impl Logged {
    fn new(redis: Vec<Redis>) -> Logged {
        Logged {
            scratch: logged(),
            callers: Default::default(),
            redis,
            cases: 0,
            has_own_form: false,
            failures: Vec::new(),
        }
    }

    /// The commands of the stream, and the bytes.
    fn stream(&self) -> (Vec<Vec<Vec<u8>>>, Vec<u8>) {
        let log = self.scratch.embedder.memory.table().log();
        while log.merge().expect("room") {}
        let (mut bytes, from) = (Vec::new(), log.range().0);
        log.read(from, &mut bytes, usize::MAX).expect("nothing is trimmed");
        (commands(&bytes), bytes)
    }

    /// Looks at what the case before has left.
    fn settle(&mut self) {
        self.cases += 1;
        let (commands, bytes) = self.stream();
        let whole = self.scratch.embedder.memory.table().counter(Counter::Whole);
        if whole > 0 {
            let told: Vec<String> =
                commands.iter().filter(|words| words[0] == b"RESTORE").map(|words| shown(words)).collect();
            self.failures.push(format!("{whole} keys were told as a whole: {told:?}"));
        }
        let report = self.scratch.embedder.memory.table().verify().expect("readable");
        if !report.findings.is_empty() {
            self.failures.push(format!("{:?}", report.findings));
        }
        if !std::mem::take(&mut self.has_own_form) {
            self.replay(&commands);
            self.replay_in_redis(&commands, &bytes);
        }
    }

    fn replay(&mut self, commands: &[Vec<Vec<u8>>]) {
        let other = Scratch::new();
        let mut caller = Caller::new(1, Protocol::Resp2);
        // What has expired by now had not when the stream was written.
        for words in [&["CONFIG", "SET", "import-mode", "yes"][..], &["CLIENT", "IMPORT-SOURCE", "ON"]] {
            caller.call(&other.embedder, words).expect("a reply");
        }
        for words in commands {
            let words = match effects::read(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
                Ok(Effect::Instead(words)) => words,
                Ok(_) => words.clone(),
                Err(error) => return self.failures.push(error),
            };
            let answer = caller.call(&other.embedder, &words).expect("a reply");
            if let Answer::Error(text) = answer {
                self.failures.push(format!("{}: {text}", shown(&words)));
            }
        }
        caller.call(&other.embedder, &["CONFIG", "SET", "import-mode", "no"]).expect("a reply");
        // A key may expire between two looks.
        for _ in 0..3 {
            let mut own = Caller::new(1_000_000, Protocol::Resp2);
            let digests = (digest(&mut own, &self.scratch), digest(&mut caller, &other));
            if digests.0 == digests.1 {
                return;
            }
        }
        let told: Vec<String> = commands.iter().take(40).map(|words| shown(words)).collect();
        self.failures.push(format!("another digest after {}", told.join("\n    ")));
    }

    fn replay_in_redis(&mut self, commands: &[Vec<Vec<u8>>], bytes: &[u8]) {
        // Times that pass meanwhile.
        let is_timed = |words: &Vec<Vec<u8>>| {
            words
                .iter()
                .any(|word| [&b"PXAT"[..], b"PEXPIREAT", b"HPEXPIREAT", b"ABSTTL"].contains(&&word[..]))
        };
        // Stock servers have no arrays: what tells of one is a note to them.
        let is_array =
            |words: &Vec<Vec<u8>>| words[0] == b"ECHO" && words[1].windows(3).any(|part| part == b" AR");
        if commands.iter().any(|words| is_timed(words) || is_array(words)) || self.redis.is_empty() {
            return;
        }
        let ours = digest(&mut Caller::new(1_000_001, Protocol::Resp2), &self.scratch);
        for redis in &mut self.redis {
            let Some((errors, theirs)) = redis.replay(commands, bytes) else { continue };
            let name = &redis.name;
            self.failures.extend(errors.into_iter().map(|error| format!("{name}: {error}")));
            redis.compared += 1;
            if theirs == ours {
                continue;
            }
            if commands.iter().any(|words| words[0] == b"ZADD" || words[0] == b"GEOADD") {
                redis.unlike += 1;
                continue;
            }
            let told: Vec<String> = commands.iter().take(40).map(|words| shown(words)).collect();
            self.failures.push(format!("{name} has another digest after {}", told.join("\n    ")));
        }
    }
}

fn digest(caller: &mut Caller, scratch: &Scratch) -> String {
    match caller.call(&scratch.embedder, &["DEBUG", "DIGEST"]).expect("a reply") {
        Answer::Status(digest) => digest,
        other => other.shown(),
    }
}

fn shown(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

/// Takes a stream of commands apart.
fn commands(mut bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    fn number(bytes: &mut &[u8], mark: u8) -> usize {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a whole line");
        assert_eq!(bytes[0], mark);
        let number = std::str::from_utf8(&bytes[1..end]).expect("digits").parse().expect("a number");
        *bytes = &bytes[end + 2..];
        number
    }
    let mut commands = Vec::new();
    while !bytes.is_empty() {
        let words = number(&mut bytes, b'*');
        let words = (0..words).map(|_| {
            let length = number(&mut bytes, b'$');
            let word = bytes[..length].to_vec();
            bytes = &bytes[length + 2..];
            word
        });
        commands.push(words.collect());
    }
    commands
}

impl Door for Logged {
    fn name(&self) -> String {
        "in-process with a change log".into()
    }
    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }
    fn place(&self) -> Place {
        Place::InProcess
    }
    fn reset(&mut self) -> Result<(), String> {
        self.settle();
        self.callers.clear();
        self.scratch = logged();
        Ok(())
    }
    fn call(&mut self, client: &str, args: &[Vec<u8>]) -> Result<Answer, String> {
        self.has_own_form |= args.iter().any(|arg| arg == OWN_FORM);
        let next_id = self.callers.len() as u64 + 1;
        let caller =
            self.callers.entry(client.into()).or_insert_with(|| Caller::new(next_id, Protocol::Resp2));
        caller.call(&self.scratch.embedder, args)
    }
}

#[test]
fn the_stream_of_every_transcript_leads_to_the_same_contents_elsewhere() {
    let mut redis = Redis::all();
    if redis.is_empty() {
        println!("no redis-server: left out");
    }
    let chosen = std::env::var("POLDER_TRANSCRIPT").ok();
    let (mut failures, mut cases) = (Vec::new(), 0);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/transcripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in
        paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "transcript"))
    {
        let transcript = Transcript::read(path).expect("readable");
        let name = &transcript.name;
        if chosen.as_ref().is_some_and(|chosen| chosen != name) {
            continue;
        }
        let mut door = Logged::new(std::mem::take(&mut redis));
        let outcome = runner::run(&transcript, &mut door);
        door.settle();
        failures.extend(outcome.failures);
        failures.extend(door.failures.iter().map(|failure| format!("{name}: {failure}")));
        cases += door.cases;
        redis = door.redis;
    }
    println!("{cases} cases");
    for Redis { name, compared, unlike, server, .. } in &redis {
        println!(
            "{compared} of them in {name} of port {}, {unlike} of which with scores that it writes otherwise",
            server.port()
        );
        assert!(chosen.is_some() || *compared > 200, "{name}: {compared}");
        assert!(*unlike <= UNLIKE_MAX, "{name}: {unlike} cases with another digest");
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
