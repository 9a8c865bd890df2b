//! Strings and bitmaps beyond what transcripts show: long values against a plain model, and keys of another kind.
use polder_base::Protocol;
use polder_table::{Mode, New, Replaces};
use polder_testkit::answer::Answer;
use polder_testkit::caller::Caller;
use polder_testkit::random::Random;
use polder_testkit::scratch::Scratch;
use polder_values::string::CHUNK;
use polder_values::{Kind, Value};

const SEED: u64 = 20_261_121;

struct Memory {
    scratch: Scratch,
    caller: Caller,
}

impl Memory {
    fn new() -> Memory {
        Memory { scratch: Scratch::new(), caller: Caller::new(1, Protocol::Resp3) }
    }

    fn call(&mut self, args: &[&[u8]]) -> Answer {
        self.caller.call(&self.scratch.embedder, args).expect("one reply to each command")
    }

    /// The same of words without blanks.
    fn typed(&mut self, line: &str) -> Answer {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&args)
    }
}

#[test]
fn a_key_of_another_kind_is_no_string() {
    let mut memory = Memory::new();
    let table = memory.scratch.embedder.memory.table();
    let txn = table.begin(Mode::Write).expect("a seat");
    txn.declare(&[(0, b"list")]).expect("a free bucket");
    txn.write(0, b"list", &New::of(Kind::List, Value::Packed(b"")), Replaces::Whole).expect("memory enough");
    txn.commit().expect("nobody else is here");
    drop(txn);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for line in [
        "GET list",
        "GETDEL list",
        "GETEX list EX 10",
        "GETEX list PERSIST",
        "GETSET list 1",
        "SET list 1 GET",
        "SET list 1 NX GET",
        "SET list 1 IFEQ 1",
        "APPEND list 1",
        "STRLEN list",
        "GETRANGE list 0 1",
        "SUBSTR list 0 1",
        "SETRANGE list 0 1",
        "INCR list",
        "DECRBY list 1",
        "INCRBYFLOAT list 1",
        "SETBIT list 0 1",
        "GETBIT list 0",
        "BITCOUNT list",
        "BITCOUNT list 0 -1 BIT",
        "BITPOS list 1",
        "BITOP AND target other list",
        "BITOP NOT target list",
        "BITFIELD list GET u8 0",
        "BITFIELD list SET u8 0 1",
        "BITFIELD_RO list GET u8 0",
    ] {
        assert_eq!(memory.typed(line), Answer::Error(wrong.into()), "{line}");
    }
    let lcs = Answer::Error("ERR The specified keys must contain string values".into());
    assert_eq!(memory.typed("LCS list other"), lcs);
    assert_eq!(memory.typed("LCS other list NONSENSE"), lcs);
    assert_eq!(memory.typed("MGET list"), Answer::Array(vec![Answer::Nil]));
    assert_eq!(memory.typed("SETNX list 1"), Answer::Integer(0));
    assert_eq!(memory.typed("MSETNX other 1 list 1"), Answer::Integer(0));
    assert_eq!(memory.typed("SET list 1 NX"), Answer::Nil);
    assert_eq!(memory.typed("TYPE list"), Answer::Status("list".into()));
    assert_eq!(memory.typed("BITOP OR list other"), Answer::Integer(0));
    assert_eq!(memory.typed("EXISTS list"), Answer::Integer(0));
}

/// Long bytes with holes, borders of chunks in them, and bits set here and there.
fn long_bytes(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; random.below(4 * CHUNK)];
    for _ in 0..random.below(6) {
        if bytes.is_empty() {
            break;
        }
        let start = random.below(bytes.len());
        let len = random.below((bytes.len() - start).min(CHUNK * 3 / 2) + 1);
        let byte = *random.pick(&[0xff, 0x00, 0x01, 0x80, 0x5a]);
        bytes[start..start + len].fill(byte);
    }
    bytes
}

/// A place near something where mistakes are made.
fn place(random: &mut Random, len: usize) -> i64 {
    let near = *random.pick(&[0, 0, CHUNK, 2 * CHUNK, len, len / 2, random.clone().below(len + 1)]) as i64;
    let near = near + random.below(9) as i64 - 4;
    if random.chance(30) { near - len as i64 } else { near }
}

/// The range that Redis means, as half open.
fn resolved(start: i64, end: i64, len: usize) -> std::ops::Range<usize> {
    let len = len as i64;
    let at = |place: i64| if place < 0 { (len + place).max(0) } else { place };
    let (from, upto) = (at(start), at(end).min(len - 1));
    if (start < 0 && end < 0 && start > end) || from > upto { 0..0 } else { from as usize..upto as usize + 1 }
}

fn bit(bytes: &[u8], at: usize) -> bool {
    bytes[at / 8] << (at % 8) & 0x80 != 0
}

#[test]
fn bits_of_long_strings_are_counted_and_found() {
    let mut random = Random::new(SEED);
    let mut memory = Memory::new();
    for _ in 0..40 {
        let bytes = long_bytes(&mut random);
        memory.call(&[b"SET", b"k", &bytes]);
        for _ in 0..10 {
            let (unit, len) = *random.pick(&[("BYTE", bytes.len()), ("BIT", bytes.len() * 8)]);
            let start = place(&mut random, len);
            // Short ranges show what is done with the bits around them.
            let end =
                if random.chance(50) { start + random.below(24) as i64 } else { place(&mut random, len) };
            let size = if unit == "BIT" { 1 } else { 8 };
            let range = resolved(start, end, len);
            let mut bits = range.start * size..range.end * size;
            let count = bits.clone().filter(|at| bit(&bytes, *at)).count() as i64;
            assert_eq!(
                memory.typed(&format!("BITCOUNT k {start} {end} {unit}")),
                Answer::Integer(count),
                "{start} {end} {unit} of {len}"
            );
            // BITPOS turns negative places round one by one: `-1 -5` is the last thing up to the fifth before it.
            if range.is_empty() {
                continue;
            }
            for wanted in [false, true] {
                let found = bits.find(|at| bit(&bytes, *at) == wanted).map_or(-1, |at| at as i64);
                bits = range.start * size..range.end * size;
                let line = format!("BITPOS k {} {start} {end} {unit}", u8::from(wanted));
                assert_eq!(memory.typed(&line), Answer::Integer(found), "{line} of {len}");
            }
        }
    }
}

#[test]
fn long_strings_are_combined_bit_by_bit() {
    let mut random = Random::new(SEED);
    let mut memory = Memory::new();
    for _ in 0..40 {
        let sources = [long_bytes(&mut random), long_bytes(&mut random), long_bytes(&mut random)];
        for (key, bytes) in [b"a", b"b", b"c"].iter().zip(&sources) {
            memory.call(&[b"SET", *key, bytes]);
        }
        let len = sources.iter().map(Vec::len).max().unwrap_or(0);
        let byte = |source: usize, at: usize| sources[source].get(at).copied().unwrap_or(0);
        for (name, combine) in [
            ("AND", (|a, b, c| a & b & c) as fn(u8, u8, u8) -> u8),
            ("OR", |a, b, c| a | b | c),
            ("XOR", |a, b, c| a ^ b ^ c),
        ] {
            memory.typed(&format!("BITOP {name} d a b c"));
            let expected: Vec<u8> =
                (0..len).map(|at| combine(byte(0, at), byte(1, at), byte(2, at))).collect();
            assert!(
                memory.typed("GET d") == Answer::Bulk(expected),
                "{name} of {:?}",
                sources.each_ref().map(Vec::len)
            );
        }
        memory.typed("BITOP NOT a a");
        if !sources[0].is_empty() {
            assert!(memory.typed("GET a") == Answer::Bulk(sources[0].iter().map(|byte| !byte).collect()));
        }
    }
}

#[test]
fn long_strings_are_edited_anywhere() {
    let mut random = Random::new(SEED);
    let mut memory = Memory::new();
    let mut model = Vec::new();
    for step in 0..600 {
        let at = place(&mut random, model.len()).unsigned_abs() as usize;
        let longest = if random.chance(10) { 2 * CHUNK } else { 40 };
        let bytes = vec![random.bits() as u8; 1 + random.below(longest)];
        match random.below(4) {
            0 => {
                memory.call(&[b"APPEND", b"k", &bytes]);
                model.extend_from_slice(&bytes);
            }
            1 => {
                memory.call(&[b"SETRANGE", b"k", at.to_string().as_bytes(), &bytes]);
                model.resize(model.len().max(at + bytes.len()), 0);
                model[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            2 => {
                let offset = at * 8 + random.below(8);
                model.resize(model.len().max(at + 1), 0);
                let was = i64::from(bit(&model, offset));
                assert_eq!(memory.typed(&format!("SETBIT k {offset} 1")), Answer::Integer(was));
                model[at] |= 0x80 >> (offset % 8);
            }
            _ => {
                let offset = at * 8 + random.below(8);
                let value = random.bits() as u16;
                memory.typed(&format!("BITFIELD k SET u16 {offset} {value}"));
                model.resize(model.len().max((offset + 16).div_ceil(8)), 0);
                for at in 0..16 {
                    let (byte, mask) = ((offset + at) / 8, 0x80 >> ((offset + at) % 8));
                    model[byte] =
                        if value << at & 0x8000 != 0 { model[byte] | mask } else { model[byte] & !mask };
                }
            }
        }
        assert_eq!(memory.typed("STRLEN k"), Answer::Integer(model.len() as i64), "step {step}");
        if step % 20 == 0 || model.len() > 6 * CHUNK {
            assert!(memory.typed("GET k") == Answer::Bulk(model.clone()), "step {step}");
        }
        if model.len() > 6 * CHUNK {
            memory.typed("DEL k");
            model.clear();
        }
    }
}

#[test]
fn edits_of_long_strings_give_their_memory_back() {
    let mut random = Random::new(SEED);
    let mut memory = Memory::new();
    let mut used = Vec::new();
    for _ in 0..6 {
        for _ in 0..200 {
            let at = random.below(20 * CHUNK);
            let bytes = vec![7; 1 + random.below(CHUNK)];
            memory.call(&[b"SETRANGE", b"a", at.to_string().as_bytes(), &bytes]);
            memory.call(&[b"APPEND", b"b", &bytes]);
            memory.typed(&format!("SETBIT c {} 1", at * 8));
            memory.typed("BITOP XOR d a c");
            memory.typed(&format!("BITFIELD a INCRBY i64 {at} 1"));
            if matches!(memory.typed("STRLEN b"), Answer::Integer(len) if len >= 40 * CHUNK as i64) {
                memory.typed("GETDEL b");
            }
        }
        memory.typed("DEL a b c d");
        let table = memory.scratch.embedder.memory.table();
        for _ in 0..20 {
            table.run_maintenance(1000);
        }
        used.push(table.usage().used);
    }
    // What a seat keeps in its caches varies a little; one node lost by each round of edits would
    // be megabytes.
    assert!(used[5] <= used[1] + 512 * 1024, "{used:?}");
}
