//! Hashes and sets through the engine: fair picks, complete walks, long elements, and fields that
//! expire in large hashes.
use std::collections::{BTreeMap, BTreeSet};

use polder_base::Protocol;
use polder_testkit::answer::Answer;
use polder_testkit::arguments::split;
use polder_testkit::door::{Door, InProcess};

/// One engine with an empty memory.
fn memory() -> InProcess {
    let mut memory = InProcess::new(Protocol::Resp2);
    memory.reset().expect("an empty memory");
    memory
}

fn call(memory: &mut InProcess, line: &str) -> Answer {
    memory.call("a", &split(line).expect("a command")).expect("an answer")
}

/// The texts of an answer, one or many.
fn texts(answer: Answer) -> Vec<String> {
    match answer {
        Answer::Bulk(bytes) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        Answer::Array(items) | Answer::Set(items) => items.into_iter().flat_map(texts).collect(),
        other => panic!("no text: {}", other.shown()),
    }
}

/// How far counts that should be equal are from that: Pearson's chi-square in standard deviations of its distribution.
fn unfairness(counts: &BTreeMap<String, u64>, of: usize) -> f64 {
    let expected = counts.values().sum::<u64>() as f64 / of as f64;
    let seen: f64 = counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let square = seen + (of - counts.len()) as f64 * expected;
    let freedom = of as f64 - 1.0;
    (square - freedom) / (2.0 * freedom).sqrt()
}

/// Picks until there are some 40 for each of `of` elements. `after` is given what was picked.
fn assert_fair(memory: &mut InProcess, of: usize, line: &str, after: impl Fn(&mut InProcess, &str)) {
    let (mut counts, mut picks) = (BTreeMap::new(), 0);
    while picks < of * 40 {
        for picked in texts(call(memory, line)) {
            after(memory, &picked);
            *counts.entry(picked).or_insert(0) += 1;
            picks += 1;
        }
    }
    let unfairness = unfairness(&counts, of);
    assert!(unfairness < 6.0, "{line} of {of}: {unfairness} standard deviations");
}

#[test]
fn random_picks_are_fair_in_small_and_large_collections() {
    for of in [10, 700] {
        let mut memory = memory();
        let names: Vec<String> = (0..of).map(|number| format!("member:{number}")).collect();
        call(&mut memory, &format!("SADD s {}", names.join(" ")));
        call(&mut memory, &format!("HSET h {}", names.join(" 1 ") + " 1"));
        for line in [
            "SRANDMEMBER s",
            "SRANDMEMBER s 3",
            "SRANDMEMBER s -3",
            "HRANDFIELD h",
            "HRANDFIELD h 3",
            "HRANDFIELD h -3",
        ] {
            assert_fair(&mut memory, of, line, |_, _| {});
        }
        // As many as there are but one, so that each is asked in turn.
        assert_fair(&mut memory, of, &format!("SRANDMEMBER s {}", of / 2), |_, _| {});
        for line in ["SPOP s", "SPOP s 2"] {
            assert_fair(&mut memory, of, line, |memory, member| {
                assert_eq!(call(memory, &format!("SADD s {member}")), Answer::Integer(1))
            });
        }
    }
}

/// Walks through a key; `meanwhile` is called between the steps.
fn walk(
    memory: &mut InProcess,
    command: &str,
    mut meanwhile: impl FnMut(&mut InProcess, u32),
) -> Vec<String> {
    let (mut cursor, mut seen, mut steps) = ("0".to_string(), Vec::new(), 0);
    loop {
        let Answer::Array(mut parts) = call(memory, &command.replace("CURSOR", &cursor)) else {
            panic!("no step of a walk")
        };
        seen.extend(texts(parts.pop().expect("elements")));
        cursor = texts(parts.pop().expect("a cursor")).remove(0);
        steps += 1;
        if cursor == "0" {
            assert!(steps > 10, "a large collection comes in steps");
            return seen;
        }
        meanwhile(memory, steps);
    }
}

#[test]
fn walks_meet_what_stays_exactly_once_whatever_comes_and_goes() {
    let mut memory = memory();
    let names: Vec<String> = (0..3000).map(|number| format!("member:{number}")).collect();
    for names in names.chunks(500) {
        call(&mut memory, &format!("SADD s {}", names.join(" ")));
        call(&mut memory, &format!("HSET h {}", names.join(" v ") + " v"));
    }
    let all: BTreeSet<String> = names.into_iter().collect();
    for command in ["SSCAN s CURSOR COUNT 50", "HSCAN h CURSOR COUNT 50 NOVALUES"] {
        let seen = walk(&mut memory, command, |memory, step| {
            for number in 0..40 {
                let other = step * 40 + number;
                call(memory, &format!("SADD s other:{other}"));
                call(memory, &format!("HSET h other:{other} v"));
                call(memory, &format!("SREM s other:{}", other / 2));
                call(memory, &format!("HDEL h other:{}", other / 2));
            }
        });
        let stayed: Vec<String> = seen.into_iter().filter(|name| name.starts_with("member")).collect();
        assert_eq!(stayed.len(), all.len(), "{command}");
        assert_eq!(stayed.into_iter().collect::<BTreeSet<_>>(), all, "{command}");
    }
    let one = walk(&mut memory, "SSCAN s CURSOR MATCH member:17", |_, _| {});
    assert_eq!(one, ["member:17"]);
}

#[test]
fn long_fields_values_and_members_are_kept_whole() {
    let mut memory = memory();
    let long = |byte: char, len: usize| byte.to_string().repeat(len);
    let (field, value) = (long('f', 70_000), long('v', 3_000_000));
    call(&mut memory, "HSET h short 1");
    assert_eq!(call(&mut memory, &format!("HSET h {field} {value}")), Answer::Integer(1));
    assert_eq!(call(&mut memory, &format!("HSTRLEN h {field}")), Answer::Integer(3_000_000));
    assert_eq!(texts(call(&mut memory, &format!("HGET h {field}"))), std::slice::from_ref(&value));
    assert_eq!(
        call(&mut memory, &format!("HEXPIRE h 1000 FIELDS 1 {field}")),
        Answer::Array(vec![Answer::Integer(1)])
    );
    assert_eq!(call(&mut memory, "COPY h g"), Answer::Integer(1));
    assert_eq!(call(&mut memory, "DEL h"), Answer::Integer(1));
    assert_eq!(texts(call(&mut memory, &format!("HGET g {field}"))), std::slice::from_ref(&value));
    assert_eq!(call(&mut memory, &format!("HDEL g {field} short")), Answer::Integer(2));
    assert_eq!(call(&mut memory, &format!("SADD s {value} {field} a")), Answer::Integer(3));
    assert_eq!(call(&mut memory, &format!("SADD t {value} b")), Answer::Integer(2));
    assert_eq!(texts(call(&mut memory, "SINTER s t")), [value]);
    assert_eq!(call(&mut memory, "SUNIONSTORE u s t"), Answer::Integer(4));
    assert_eq!(call(&mut memory, "SDIFFSTORE u s t"), Answer::Integer(2));
    assert_eq!(
        call(&mut memory, &format!("SMISMEMBER u {field} b")),
        Answer::Array(vec![Answer::Integer(1), Answer::Integer(0)])
    );
}

#[test]
fn expired_fields_of_a_large_hash_are_there_for_no_command() {
    let mut memory = memory();
    // Nothing collects them, so what is seen depends on their expiry alone.
    call(&mut memory, "DEBUG SET-ACTIVE-EXPIRE 0");
    let names: Vec<String> = (0..2000).map(|number| format!("f{number}")).collect();
    call(&mut memory, &format!("HSET h {}", names.join(" 1 ") + " 1"));
    let odd: Vec<&str> = names.iter().skip(1).step_by(2).map(String::as_str).collect();
    call(&mut memory, &format!("HPEXPIRE h 30 FIELDS {} {}", odd.len(), odd.join(" ")));
    call(&mut memory, "HEXPIRE h 1000 FIELDS 1 f0");
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(call(&mut memory, "HLEN h"), Answer::Integer(1000));
    assert_eq!(texts(call(&mut memory, "HKEYS h")).len(), 1000);
    assert_eq!(texts(call(&mut memory, "HRANDFIELD h 5000")).len(), 1000);
    assert!(texts(call(&mut memory, "HRANDFIELD h -500")).iter().all(|name| !odd.contains(&name.as_str())));
    assert_eq!(call(&mut memory, "HEXISTS h f1"), Answer::Integer(0));
    assert_eq!(call(&mut memory, "HDEL h f1 f3 f5"), Answer::Integer(0));
    assert_eq!(call(&mut memory, "HSETNX h f1 2"), Answer::Integer(1));
    assert_eq!(call(&mut memory, "HLEN h"), Answer::Integer(1001));
    assert_eq!(
        call(&mut memory, "HGETDEL h FIELDS 2 f7 f8"),
        Answer::Array(vec![Answer::Nil, Answer::Bulk(b"1".into())])
    );
    assert_eq!(call(&mut memory, "HLEN h"), Answer::Integer(1000));
}
