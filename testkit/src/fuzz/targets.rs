//! What is fuzzed, as one table.
use std::os::unix::fs::FileExt;

use polder_base::Protocol;
use polder_wire::resp::{Limits, Malformed, Replies, Request, Requests, Value, command};

use super::Target;
use crate::answer::Answer;
use crate::arguments;
use crate::caller::{Caller, Embedder};
use crate::scratch::Scratch;

mod door;
mod http;
mod memcached;
mod nats;
mod rdb;
mod terminal;
mod values;
mod web_socket;

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "resp-requests",
        seeds: request_seeds,
        try_input: requests_are_read_alike_however_they_are_cut,
        smoke: true,
    },
    Target {
        name: "resp-replies",
        seeds: reply_seeds,
        try_input: replies_are_read_alike_however_they_are_cut,
        smoke: true,
    },
    Target {
        name: "memcached",
        seeds: memcached::seeds,
        try_input: memcached::any_bytes_are_read,
        smoke: true,
    },
    Target {
        name: "nats",
        seeds: nats::seeds,
        try_input: nats::operations_are_read_alike_however_they_are_cut,
        smoke: true,
    },
    Target {
        name: "http",
        seeds: http::seeds,
        try_input: http::requests_are_read_alike_however_they_are_cut,
        smoke: true,
    },
    Target {
        name: "web-socket",
        seeds: web_socket::seeds,
        try_input: web_socket::frames_are_read_alike_however_they_are_cut,
        smoke: true,
    },
    Target {
        name: "terminal",
        seeds: terminal::seeds,
        try_input: terminal::any_keys_leave_a_screen_that_shows_the_line,
        smoke: true,
    },
    Target {
        name: "rdb",
        seeds: rdb::seeds,
        try_input: rdb::it_is_read_alike_however_it_is_cut,
        smoke: true,
    },
    Target {
        name: "restore",
        seeds: rdb::payload_seeds,
        try_input: rdb::a_payload_is_restored_or_refused,
        smoke: true,
    },
    Target { name: "commands", seeds: request_seeds, try_input: commands_answer_once, smoke: true },
    Target { name: "door", seeds: door::seeds, try_input: door::callers_are_used_in_any_order, smoke: true },
    Target {
        name: "damaged-segment",
        seeds: damage_seeds,
        try_input: a_damaged_segment_gives_errors,
        smoke: true,
    },
    Target {
        name: "damaged-values",
        seeds: values::seeds,
        try_input: values::damaged_values_give_errors,
        smoke: true,
    },
];

fn request_seeds() -> Vec<Vec<u8>> {
    let lines: [&[&str]; 10] = [
        &["GET", "k"],
        &["SET", "k", "v", "EX", "100", "NX"],
        &["SETRANGE", "k", "10", "abc"],
        &["BITFIELD", "k", "SET", "u8", "#1", "255", "INCRBY", "i5", "100", "1"],
        &["MSET", "a", "1", "b", "2"],
        &["SCAN", "0", "MATCH", "k*", "COUNT", "10"],
        &["LCS", "a", "b", "IDX"],
        &["EXPIRE", "k", "10", "GT"],
        &["COPY", "a", "b", "REPLACE"],
        &["HELLO", "3", "AUTH", "a", "b"],
    ];
    let framed = |line: &[&str]| {
        let mut bytes = Vec::new();
        command(line, &mut bytes);
        bytes
    };
    let mut seeds: Vec<Vec<u8>> = lines.iter().map(|line| framed(line)).collect();
    seeds.push(b"GET \"a\\x00b\" 'c'\r\nPING\r\n*0\r\n\r\n*1\r\n$4\r\nPING\r\n".to_vec());
    seeds
}

fn reply_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "+OK\r\n-ERR no\r\n:42\r\n$5\r\nhello\r\n$-1\r\n*-1\r\n_\r\n",
        "*2\r\n*1\r\n:1\r\n$0\r\n\r\n%1\r\n+k\r\n~2\r\n:1\r\n:2\r\n",
        "|1\r\n+ttl\r\n:3\r\n,1.5\r\n#t\r\n(123456789012345678901234567890\r\n=7\r\ntxt:abc\r\n>2\r\n+message\r\n!5\r\nERR x\r\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Requests as values that do not borrow their input, and how the reading ended.
fn read_requests(input: &[u8], cuts: impl Iterator<Item = usize>) -> (Vec<Vec<Vec<u8>>>, Option<Malformed>) {
    let limits = Limits { bulk_bytes_max: 1 << 20, stranger: false };
    let (mut reader, mut requests, mut taken) = (Requests::default(), Vec::new(), 0);
    for end in cuts {
        let mut rest = &input[taken..end];
        loop {
            let mut args = Vec::new();
            match reader.read(&mut rest, &limits, &mut args) {
                Ok(Some(Request::Bulks(count))) => {
                    assert_eq!(count, args.len(), "it says how many arguments there are");
                    requests.push(args.iter().map(|arg| arg.to_vec()).collect());
                }
                Ok(Some(Request::Inline(words))) => requests.push(words),
                Ok(None) => break,
                Err(malformed) => return (requests, Some(malformed)),
            }
        }
        taken = end - rest.len();
    }
    (requests, None)
}

/// Ends of pieces, cut after the bytes whose value says so: the same for the same input.
fn cuts(input: &[u8]) -> impl Iterator<Item = usize> {
    let chosen = input
        .iter()
        .enumerate()
        .filter(|(at, byte)| (**byte as usize + at).is_multiple_of(3))
        .map(|(at, _)| at);
    chosen.chain(std::iter::once(input.len()))
}

fn requests_are_read_alike_however_they_are_cut(input: &[u8]) {
    let whole = read_requests(input, std::iter::once(input.len()));
    assert_eq!(whole, read_requests(input, cuts(input)));
}

fn read_replies(input: &[u8], cuts: impl Iterator<Item = usize>) -> (Vec<Value>, Option<Malformed>) {
    let (mut reader, mut replies, mut taken) = (Replies::default(), Vec::new(), 0);
    for end in cuts {
        let mut rest = &input[taken..end];
        loop {
            match reader.read(&mut rest) {
                Ok(Some(value)) => replies.push(value),
                Ok(None) => break,
                Err(malformed) => return (replies, Some(malformed)),
            }
        }
        taken = end - rest.len();
    }
    (replies, None)
}

fn replies_are_read_alike_however_they_are_cut(input: &[u8]) {
    let whole = read_replies(input, std::iter::once(input.len()));
    assert_eq!(whole, read_replies(input, cuts(input)));
}

std::thread_local! {
    /// One memory for all inputs of a thread: what one leaves behind, the next one meets.
    static MEMORY: Scratch = Scratch::new();
}

/// What a server does with a connection's bytes, without the socket: every request is answered by exactly one reply.
fn commands_answer_once(input: &[u8]) {
    MEMORY.with(|scratch| {
        let mut caller = Caller::new(1, Protocol::Resp3);
        for request in read_requests(input, std::iter::once(input.len())).0 {
            answer_once(&scratch.embedder, &mut caller, &request);
        }
    });
}

fn answer_once(embedder: &Embedder, caller: &mut Caller, request: &[Vec<u8>]) {
    // These wait, stop the process, or allocate what they are told to: on purpose.
    const LEFT_OUT: [&[u8]; 3] = [b"DEBUG", b"SHUTDOWN", b"FAILOVER"];
    if request.is_empty() || LEFT_OUT.iter().any(|name| request[0].eq_ignore_ascii_case(name)) {
        return;
    }
    if let Err(problem) = caller.call(embedder, request) {
        panic!("{:?}: {problem}", String::from_utf8_lossy(&request.concat()));
    }
}

/// One damage: eight bytes of a place (a word of the part of the segment that is in use), eight bytes to write there.
const DAMAGE_BYTES: usize = 16;
/// In a place: count only the words that are not zero, which most are and which say little.
const FILLED: u64 = 1 << 63;
/// In a place: write what another filled word says, so that what is well-formed stands where it does not belong.
const COPIED: u64 = 1 << 62;

fn damage_seeds() -> Vec<Vec<u8>> {
    let damage = |place: u64, value: u64| [place.to_le_bytes(), value.to_le_bytes()].concat();
    let mut seeds =
        vec![damage(4096, u64::MAX), damage(1, 0), [damage(1 << 20, 1 << 40), damage(1 << 16, 7)].concat()];
    seeds.extend([0, 1, 1 << 32, u64::MAX].map(|value| damage(FILLED | 77, value)));
    seeds.extend((0..8u64).map(|number| damage((FILLED | COPIED) + number * 999, number * 555)));
    seeds
}

/// A segment in which words were overwritten while no process was attached. A process that attaches
/// gets errors or odd values, but goes on and ends.
fn a_damaged_segment_gives_errors(input: &[u8]) {
    let scratch = Scratch::with_ceiling(DAMAGED_CEILING);
    let used = std::thread::scope(|scope| {
        // A thread keeps its seat as long as it lives.
        let filler = scope.spawn(|| fill(&scratch.embedder));
        filler.join().unwrap_or_else(|_| panic!("a whole segment can be filled"))
    });
    damage(&scratch, used, input);
    let Ok(embedder) = Embedder::attach(&scratch.options) else {
        return;
    };
    let mut caller = Caller::new(1, Protocol::Resp3);
    for line in [
        "GET k1",
        "GET k2",
        "GET k3",
        "MGET a b c",
        "SCAN 0 COUNT 100",
        "DBSIZE",
        "SET k1 other",
        "DEL k3",
        "APPEND c x",
        "FLUSHALL",
    ] {
        // Which error it is depends on the damage.
        let _ = typed(&embedder, &mut caller, line);
    }
    let _ = embedder.memory.table().verify();
}

/// Enough for a few keys of every layout.
const DAMAGED_CEILING: u64 = 48 << 20;

/// Puts a few keys of every layout into the memory. Returns how many bytes of the segment there are
/// to be damaged.
fn fill(embedder: &Embedder) -> u64 {
    let mut caller = Caller::new(1, Protocol::Resp3);
    for line in [
        "SET k1 short",
        "SET k2 repeat:300:a EX 1000",
        "SET k3 repeat:100000:b",
        "MSET a 1 b 2 c repeat:5000:c",
        "SET d 4 PX 1",
    ] {
        let answer = typed(embedder, &mut caller, line);
        assert!(answer.is_ok(), "{line}: {answer:?}");
    }
    embedder.memory.table().usage().committed
}

fn typed(embedder: &Embedder, caller: &mut Caller, line: &str) -> Result<Answer, String> {
    caller.call(embedder, &arguments::split(line)?)
}

fn damage(scratch: &Scratch, bytes: u64, input: &[u8]) {
    let path = format!("/dev/shm/{}", scratch.options.segment.trim_start_matches("shm:"));
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut bytes = vec![0; bytes as usize / 8 * 8];
    file.read_exact_at(&mut bytes, 0).unwrap_or_else(|error| panic!("{path}: {error}"));
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
    let filled: Vec<usize> = (0..words.len()).filter(|index| words[*index] != 0).collect();
    for damage in input.chunks_exact(DAMAGE_BYTES) {
        let [place, value] = [&damage[..8], &damage[8..]]
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        let any = (place & !(FILLED | COPIED)) as usize;
        let index = if place & FILLED == 0 { any % words.len() } else { filled[any % filled.len()] };
        let value = if place & COPIED == 0 { value } else { words[filled[value as usize % filled.len()]] };
        file.write_all_at(&value.to_le_bytes(), index as u64 * 8)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
