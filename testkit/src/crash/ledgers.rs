//! What ledgers and accounts must hold, whatever has happened to the actors that wrote them.
use crate::answer::Answer;
use crate::way::Way;

use super::ACCOUNTS;

/// Entries that a ledger's collections keep: enough for trees.
pub(super) const ENTRIES: u64 = 200;
pub(super) const LIST_ENTRIES: u64 = 150;
pub(super) const STREAM_ENTRIES: u64 = 100;

/// The parts of a ledger: a key of each type, and a counter.
const PARTS: [&str; 7] = ["list", "hash", "scores", "set", "stream", "text", "count"];

pub(super) fn ledger_keys(actor: u32, ledger: u32) -> [String; 7] {
    PARTS.map(|part| format!("ledger:{actor}:{ledger}:{part}"))
}

/// The sequence number that all parts of a ledger agree on.
///
/// # Errors
/// When they do not.
pub fn ledger_sequence(way: &mut Way, actor: u32, ledger: u32) -> Result<Option<u64>, String> {
    let [list, hash, scores, set, stream, text, count] = &ledger_keys(actor, ledger);
    let questions = [
        format!("GET {text}"),
        format!("LINDEX {list} -1"),
        format!("HMGET {hash} last count"),
        format!("ZREVRANGE {scores} 0 0 WITHSCORES"),
        format!("XREVRANGE {stream} + - COUNT 1"),
        format!("GET {count}"),
        format!("LLEN {list}"),
        format!("XLEN {stream}"),
        format!("SCARD {set}"),
        format!("ZCARD {scores}"),
    ];
    let answer = way.ask_together(&questions.map(words))?;
    let mut found = Vec::new();
    leaves(&answer, &mut found);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let torn = || Err(format!("ledger {ledger} of actor {actor} is torn: {found:?}"));
    let number = |text: &str| text.parse().unwrap_or(u64::MAX);
    match found[..] {
        ["", "", "", "", "", "0", "0", "0", "0"] => Ok(None),
        [
            last,
            at_end,
            in_hash,
            counted,
            member,
            highest,
            _,
            "s",
            newest,
            count,
            listed,
            streamed,
            members,
            ranked,
        ] => {
            let agree = [at_end, in_hash, highest, newest].iter().all(|part| *part == last)
                && counted == count
                && members == ranked;
            let entry = format!("m{}", number(last) % ENTRIES);
            let count = number(count);
            let kept =
                number(listed) == count.min(LIST_ENTRIES) && number(streamed) == count.min(STREAM_ENTRIES);
            if agree && kept && member == entry { Ok(Some(number(last))) } else { torn() }
        }
        _ => torn(),
    }
}

/// Whether all accounts together hold nothing.
///
/// # Errors
/// When they do not.
pub fn check_accounts(way: &mut Way) -> Result<(), String> {
    let accounts: Vec<String> = (0..ACCOUNTS).map(|at| format!("account:{at}")).collect();
    let questions = [
        format!("MGET {}", accounts.join(" ")),
        "HVALS accounts".into(),
        "ZRANGE purses 0 -1 WITHSCORES".into(),
    ];
    let answer = way.ask_together(&questions.map(words))?;
    let mut found = Vec::new();
    leaves(&answer, &mut found);
    // Members of the sorted set and what is not there are no numbers.
    let sum: i64 = found.iter().filter_map(|text| text.parse::<i64>().ok()).sum();
    if sum == 0 { Ok(()) } else { Err(format!("the accounts hold {sum}: {found:?}")) }
}

/// All texts and numbers of an answer, in order; nothing is an empty text.
fn leaves(answer: &Answer, into: &mut Vec<String>) {
    match answer {
        Answer::Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Answer::Bulk(bytes) => into.push(String::from_utf8_lossy(bytes).into_owned()),
        Answer::Integer(value) => into.push(value.to_string()),
        Answer::Nil => into.push(String::new()),
        other => into.push(other.shown()),
    }
}

/// The words of a line.
pub(super) fn words(line: impl AsRef<str>) -> Vec<String> {
    line.as_ref().split(' ').map(String::from).collect()
}
