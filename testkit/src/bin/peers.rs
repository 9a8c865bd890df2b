//! Compares Polder with real servers on generated commands: `peers [--seed N] [--seconds N] [--sequences N] [--only NAME]...`
//!
//! The seed is printed; the same seed makes the same commands. A difference is shrunk and shown as a transcript case.
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use polder_base::Protocol;
use polder_calls::command::Run;
use polder_testkit::answer::Answer;
use polder_testkit::door::{Door, InProcess, Socket};
use polder_testkit::peers::differences::{Differences, Rule};
use polder_testkit::peers::generate::{KEYS, Template};
use polder_testkit::peers::{self, Line};
use polder_testkit::process::{Server, is_stock, more_peers, newer, on_path, valkey};
use polder_testkit::random::Random;
use polder_testkit::resp::Connection;

/// Commands in one sequence: enough to meet each other's values, few enough to shrink quickly.
const SEQUENCE: usize = 30;

/// After this many differences with one peer the rest is most likely more of the same.
const FAILURES_MAX: usize = 5;

struct Options {
    seed: u64,
    seconds: u64,
    /// At most this many for each peer: with a seed, the same ones on a machine of any speed.
    sequences: usize,
    only: Vec<String>,
}

struct Peer {
    name: String,
    /// The name by which docs/differences.md knows it.
    known: &'static str,
    program: PathBuf,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("seed {}", options.seed);
    give_up_after(Duration::from_secs(120 + 4 * options.seconds));
    let (mut passed, mut failed) = (0, 0);
    for peer in installed() {
        match run(&peer, &options) {
            Ok((equal, differences)) => {
                println!("{}: {equal} sequences equal, {} differ", peer.name, differences.len());
                for text in &differences {
                    println!("{} {text}\n", peer.name);
                }
                passed += equal;
                failed += differences.len();
            }
            Err(error) => {
                println!("{}: {error}", peer.name);
                failed += 1;
            }
        }
    }
    println!("peers: {passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends the process when it hangs: then one side does not answer, which is a failure.
fn give_up_after(patience: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(patience);
        println!("a command hangs\npeers: 0 passed, 1 failed");
        std::process::exit(1);
    });
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { seed: Random::seed_of_the_day(), seconds: 20, sequences: usize::MAX, only: vec![] };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{word} {value}: not a number"));
        match word.as_str() {
            "--seed" => options.seed = number()?,
            "--seconds" => options.seconds = number()?,
            "--sequences" => options.sequences = number()? as usize,
            "--only" => options.only.push(value.to_uppercase()),
            _ => return Err("peers [--seed N] [--seconds N] [--sequences N] [--only NAME]...".into()),
        }
    }
    Ok(options)
}

fn installed() -> Vec<Peer> {
    let found = [("redis", on_path("redis-server")), ("valkey", valkey())];
    let mut peers = Vec::new();
    for (name, program) in found {
        match program {
            Some(program) => peers.push(Peer { name: name.into(), known: name, program }),
            None => println!("{name}: not installed, left out"),
        }
    }
    // Those that have what the others lack: fields that expire, SET IFEQ.
    let newer = |known: &'static str| newer(known).map(|program| Peer { name: known.into(), known, program });
    peers.extend(["redis8", "valkey81"].into_iter().filter_map(newer));
    // Their differences are those of the newest that the page knows, and what is new in them: for a
    // person that looks, not for `make test`.
    if std::env::var_os("POLDER_PEERS").is_some() {
        let known = |name: &str| if name.starts_with("valkey") { "valkey81" } else { "redis8" };
        let compared = more_peers().into_iter().filter(is_stock);
        peers.extend(compared.map(|(name, program)| Peer { known: known(&name), name, program }));
    }
    peers
}

fn run(peer: &Peer, options: &Options) -> Result<(usize, Vec<String>), String> {
    let known = Differences::read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/peers/differences.md"),
        peer.known,
    )?;
    let server = Server::start_redis(&peer.program).map_err(|error| error.to_string())?;
    let mut templates = templates(&server, &known, &options.only)?;
    let mut random = Random::new(options.seed);
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let (mut equal, mut differences) = (0, Vec::new());
    while Instant::now() < until
        && equal < options.sequences
        && differences.len() < FAILURES_MAX
        && !templates.is_empty()
    {
        let protocol = *random.pick(&[Protocol::Resp2, Protocol::Resp3]);
        let mut ours = RedisMode(InProcess::new(protocol));
        let mut theirs = Socket::new(&server.address(), protocol, true);
        let lines = sequence(&templates, &known, &mut random);
        if peers::compare(&lines, &mut ours, &mut theirs, &known)?.is_none() {
            equal += 1;
            continue;
        }
        let (lines, mismatch) = peers::shrink(lines, &mut ours, &mut theirs, &known)?;
        // One difference of a command is enough: more of the same would hide the others.
        templates.retain(|template| template.words()[0] != lines[mismatch.at][0].to_ascii_uppercase());
        differences.push(peers::as_transcript(&lines, &mismatch, protocol));
    }
    Ok((equal, differences))
}

/// The commands that both sides have and that can be compared.
fn templates(server: &Server, known: &Differences, only: &[String]) -> Result<Vec<Template>, String> {
    let mut connection = Connection::open(&server.address()).map_err(|error| error.to_string())?;
    let mut templates = Vec::new();
    for (_, command) in polder_engine::COMMANDS.all() {
        let template = Template::new(command.name, command.grammar);
        let wanted = only.is_empty() || only.iter().any(|name| name == command.name);
        if !wanted
            || known.rule(&template.words()) == Some(Rule::Skip)
            || matches!(command.run, Run::Container)
        {
            continue;
        }
        let info = connection.call(&["COMMAND", "INFO", command.name]).map_err(|error| error.to_string())?;
        if matches!(&info, Answer::Array(items) if items.first() != Some(&Answer::Nil)) {
            templates.push(template);
        }
    }
    if templates.is_empty() { Err("no command to compare".into()) } else { Ok(templates) }
}

/// Lists of some size, if lists are compared: most are small, a few large.
fn lists(templates: &[Template], random: &mut Random) -> Vec<Line> {
    let pushes = templates.iter().any(|template| template.words()[0] == b"RPUSH");
    if !pushes || random.chance(60) {
        return Vec::new();
    }
    let mut left = *random.pick(&[10, 10, 50, 50, 200, 200, 1_000, 1_000, 5_000, 100_000]);
    let key = random.pick(&KEYS).as_bytes().to_vec();
    let mut lines = Vec::new();
    while left > 0 {
        let elements = left.min(5_000);
        let mut line = vec![b"RPUSH".to_vec(), key.clone()];
        line.extend((0..elements).map(|number| format!("{}", number % 700).into_bytes()));
        lines.push(line);
        left -= elements;
    }
    lines
}

/// What the sorted set that a sequence begins with allows: by lex only a set of one score means anything.
#[derive(Clone, Copy, PartialEq)]
enum Scores {
    /// There is no large one.
    Free,
    One,
    Many,
    /// Only among places are distances seldom equal, whose order is each server's own.
    Places,
}

impl Scores {
    fn allows(self, line: &Line) -> bool {
        let name = String::from_utf8_lossy(&line[0]).to_uppercase();
        let by_lex = name.contains("LEX") || line.iter().any(|word| word.eq_ignore_ascii_case(b"BYLEX"));
        let scores = ["ADD", "INCR", "STORE", "GEORADIUS", "COPY"].iter().any(|part| name.contains(part));
        match self {
            Scores::Free => true,
            Scores::One => !scores && !name.starts_with("GEO"),
            Scores::Many => !by_lex && !name.starts_with("GEO"),
            Scores::Places => !by_lex,
        }
    }
}

/// A sorted set of some size, if they are compared: of places, of one score or of many.
fn sorted_sets(templates: &[Template], random: &mut Random) -> (Vec<Line>, Scores) {
    let adds = templates.iter().any(|template| template.words()[0] == b"ZADD");
    if !adds || random.chance(60) {
        return (Vec::new(), Scores::Free);
    }
    let size = *random.pick(&[20, 100, 130, 500, 500, 2_000, 2_000, 10_000, 100_000]);
    let key = random.pick(&KEYS).as_bytes().to_vec();
    let kind = random.below(3);
    let mut lines = Vec::new();
    for first in (0..size).step_by(5_000) {
        let mut line = vec![if kind == 2 { b"GEOADD".to_vec() } else { b"ZADD".to_vec() }, key.clone()];
        for number in first..size.min(first + 5_000) {
            match kind {
                0 => line.push(b"1".to_vec()),
                1 => line.push((number * 7 % 1_000).to_string().into_bytes()),
                _ => line.extend([number * 7 % 360, number * 11 % 170].iter().zip([180, 85]).map(
                    |(degrees, half)| {
                        format!("{}.{:04}", *degrees as i64 - half, number % 10_000).into_bytes()
                    },
                )),
            }
            line.push(format!("m{number}").into_bytes());
        }
        lines.push(line);
    }
    (lines, [Scores::One, Scores::Many, Scores::Places][kind])
}

/// Random commands, and then what they left behind.
fn sequence(templates: &[Template], known: &Differences, random: &mut Random) -> Vec<Line> {
    let mut lines = lists(templates, random);
    let (sorted, scores) = sorted_sets(templates, random);
    lines.extend(sorted);
    let upto = lines.len() + SEQUENCE;
    let mut in_multi = false;
    while lines.len() < upto {
        let line = random.pick(templates).line(random);
        let rule = known.rule(&line);
        // EXEC replies for everything that was queued: what may differ has no place in between.
        if rule == Some(Rule::Skip) || (in_multi && rule.is_some()) || !scores.allows(&line) {
            continue;
        }
        match line[0].as_slice() {
            b"MULTI" => in_multi = true,
            b"EXEC" | b"DISCARD" => in_multi = false,
            _ => {}
        }
        lines.push(line);
    }
    if in_multi {
        lines.push(vec![b"EXEC".to_vec()]);
    }
    for command in ["GET", "PTTL", "HGETALL", "SMEMBERS"]
        .into_iter()
        .filter(|name| polder_engine::COMMANDS.find(name.as_bytes()).is_some())
    {
        lines.extend(KEYS.iter().map(|key| vec![command.as_bytes().to_vec(), key.as_bytes().to_vec()]));
    }
    let sorted =
        |key: &&str| ["ZRANGE", key, "0", "-1", "WITHSCORES"].map(|word| word.as_bytes().to_vec()).to_vec();
    lines.extend(KEYS.iter().map(sorted));
    lines.extend(
        KEYS.iter().map(|key| ["LRANGE", key, "0", "-1"].map(|word| word.as_bytes().to_vec()).to_vec()),
    );
    for (command, rest) in [("XRANGE", &["-", "+"][..]), ("XPENDING", &["g", "-", "+", "1000"])] {
        let line =
            |key: &&str| [command, key].iter().chain(rest).map(|word| word.as_bytes().to_vec()).collect();
        lines.extend(KEYS.iter().map(line));
    }
    lines
}

/// Polder as the peers are: numbers as they print them.
struct RedisMode(InProcess);

impl Door for RedisMode {
    fn name(&self) -> String {
        self.0.name()
    }
    fn protocol(&self) -> Protocol {
        self.0.protocol()
    }
    fn place(&self) -> polder_testkit::transcript::Place {
        self.0.place()
    }
    fn reset(&mut self) -> Result<(), String> {
        self.0.reset()?;
        let setting = ["CONFIG", "SET", "number-mode", "redis"].map(|word| word.as_bytes().to_vec());
        self.0.call("settings", &setting).map(drop)
    }
    fn call(&mut self, client: &str, args: &[Vec<u8>]) -> Result<Answer, String> {
        self.0.call(client, args)
    }
}
