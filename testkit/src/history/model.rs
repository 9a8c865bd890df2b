//! What the commands of a history do, as simply as can be: a map of keys and a function.
//!
//! Replies are texts in one form for every door ([`shown`]): `nil`, `7`, `OK`, `"bytes"`, `[a b]`, `!an error`.
use std::collections::{BTreeMap, BTreeSet};

use crate::answer::Answer;

/// What a key holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    Text(String),
    List(Vec<String>),
    Hash(BTreeMap<String, String>),
    Scores(BTreeMap<String, i64>),
    Members(BTreeSet<String>),
}

/// What the keys of one group hold.
pub type State = BTreeMap<String, Value>;

/// The words of one command.
pub type Call = Vec<String>;

/// Moves an amount from one counter to another; a player runs it as this script.
pub const SHIFT: &str = "local left = redis.call('DECRBY', KEYS[1], ARGV[1]) return {left, redis.call('INCRBY', KEYS[2], ARGV[1])}";
/// Adds counters up.
pub const SUM: &str = "local sum = 0 for _, key in ipairs(KEYS) do sum = sum + tonumber(redis.call('GET', key) or 0) end return sum";

/// A reply in the form that all doors share.
pub fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Status(text) => text.clone(),
        Answer::Integer(value) => value.to_string(),
        Answer::Bulk(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        Answer::Nil => "nil".into(),
        Answer::Array(items) => listed(items.iter().map(shown)),
        Answer::Error(text) => format!("!{text}"),
        other => other.shown(),
    }
}

/// Runs what is done in one step: a command, or several as MULTI and EXEC do.
pub fn step(state: &mut State, calls: &[Call]) -> String {
    match calls {
        [call] => apply(state, call),
        calls => listed(calls.iter().map(|call| apply(state, call)).collect::<Vec<_>>()),
    }
}

/// Runs one command.
///
/// # Panics
/// When the model does not know it: histories are made of what it knows.
fn apply(state: &mut State, call: &[String]) -> String {
    let words: Vec<&str> = call.iter().map(String::as_str).collect();
    let answer = text(state, &words)
        .or_else(|| list(state, &words))
        .or_else(|| hash(state, &words))
        .or_else(|| scores(state, &words))
        .or_else(|| set(state, &words))
        .or_else(|| several(state, &words));
    // What has become empty is not there.
    state.retain(|_, value| match value {
        Value::Text(_) => true,
        Value::List(items) => !items.is_empty(),
        Value::Hash(fields) => !fields.is_empty(),
        Value::Scores(members) => !members.is_empty(),
        Value::Members(members) => !members.is_empty(),
    });
    answer.unwrap_or_else(|| panic!("the model does not know {words:?}"))
}

fn text(state: &mut State, words: &[&str]) -> Option<String> {
    let old = |state: &State, key: &str| match state.get(key) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let put = |state: &mut State, key: &str, text: &str| state.insert(key.into(), Value::Text(text.into()));
    Some(match *words {
        ["GET", key] => bulk(old(state, key)),
        ["STRLEN", key] => old(state, key).map_or(0, |text| text.len()).to_string(),
        ["SET", key, value] => {
            put(state, key, value);
            "OK".into()
        }
        ["GETSET", key, value] => {
            let answer = bulk(old(state, key));
            put(state, key, value);
            answer
        }
        // WATCH, GET, MULTI, SET, EXEC: what was read, and that it was written.
        ["SWAP", key, value] => {
            let answer = bulk(old(state, key));
            put(state, key, value);
            listed([answer, "OK".into()])
        }
        ["GETDEL", key] => {
            let answer = bulk(old(state, key));
            state.remove(key);
            answer
        }
        ["SETNX", key, value] => {
            let absent = !state.contains_key(key);
            if absent {
                put(state, key, value);
            }
            u8::from(absent).to_string()
        }
        ["APPEND", key, more] => {
            let text = old(state, key).unwrap_or_default() + more;
            put(state, key, &text);
            text.len().to_string()
        }
        ["INCR", key] => add(state, key, 1),
        ["INCRBY", key, amount] => add(state, key, number(amount)),
        _ => return None,
    })
}

fn list(state: &mut State, words: &[&str]) -> Option<String> {
    let key = (*words.get(1)?).to_string();
    let length = |state: &State, key: &str| match state.get(key) {
        Some(Value::List(items)) => items.len(),
        _ => 0,
    };
    Some(match *words {
        ["LPUSH", _, item] => push(state, &key, "LEFT", item),
        ["RPUSH", _, item] => push(state, &key, "RIGHT", item),
        ["LPOP", _] => bulk(pop(state, &key, "LEFT")),
        ["RPOP", _] => bulk(pop(state, &key, "RIGHT")),
        ["BLPOP", _, _] => {
            pop(state, &key, "LEFT").map_or("nil".into(), |item| listed([quoted(&key), quoted(&item)]))
        }
        ["LLEN", _] => length(state, &key).to_string(),
        ["LRANGE", _, "0", "-1"] => match state.get(&key) {
            Some(Value::List(items)) => listed(items.iter().map(|item| quoted(item))),
            _ => "[]".into(),
        },
        ["LMOVE", _, target, from, to] | ["BLMOVE", _, target, from, to, _] => {
            let item = pop(state, &key, from);
            if let Some(item) = &item {
                push(state, target, to, item);
            }
            bulk(item)
        }
        _ => return None,
    })
}

fn hash(state: &mut State, words: &[&str]) -> Option<String> {
    let of = |state: &State, key: &str, field: &str| match state.get(key) {
        Some(Value::Hash(fields)) => fields.get(field).cloned(),
        _ => None,
    };
    let put = |state: &mut State, key: &str, field: &str, value: String| match state
        .entry(key.into())
        .or_insert(Value::Hash(BTreeMap::new()))
    {
        Value::Hash(fields) => fields.insert(field.into(), value).is_none(),
        _ => false,
    };
    Some(match *words {
        ["HSET", key, field, value] => u8::from(put(state, key, field, value.into())).to_string(),
        ["HGET", key, field] => bulk(of(state, key, field)),
        ["HMGET", key, ref fields @ ..] => listed(fields.iter().map(|field| bulk(of(state, key, field)))),
        ["HINCRBY", key, field, amount] => {
            let sum = of(state, key, field).map_or(0, |old| number(&old)) + number(amount);
            put(state, key, field, sum.to_string());
            sum.to_string()
        }
        ["HDEL", key, field] => match state.get_mut(key) {
            Some(Value::Hash(fields)) => u8::from(fields.remove(field).is_some()).to_string(),
            _ => "0".into(),
        },
        ["HLEN", key] => match state.get(key) {
            Some(Value::Hash(fields)) => fields.len().to_string(),
            _ => "0".into(),
        },
        _ => return None,
    })
}

fn scores(state: &mut State, words: &[&str]) -> Option<String> {
    let of = |state: &State, key: &str, member: &str| match state.get(key) {
        Some(Value::Scores(members)) => members.get(member).copied(),
        _ => None,
    };
    let put = |state: &mut State, key: &str, member: &str, score: i64| match state
        .entry(key.into())
        .or_insert(Value::Scores(BTreeMap::new()))
    {
        Value::Scores(members) => members.insert(member.into(), score).is_none(),
        _ => false,
    };
    Some(match *words {
        ["ZADD", key, score, member] => u8::from(put(state, key, member, number(score))).to_string(),
        ["ZSCORE", key, member] => bulk(of(state, key, member).map(|score| score.to_string())),
        ["ZINCRBY", key, amount, member] => {
            let sum = of(state, key, member).unwrap_or(0) + number(amount);
            put(state, key, member, sum);
            quoted(&sum.to_string())
        }
        ["ZREM", key, member] => match state.get_mut(key) {
            Some(Value::Scores(members)) => u8::from(members.remove(member).is_some()).to_string(),
            _ => "0".into(),
        },
        ["ZRANGE", key, "0", "-1", "WITHSCORES"] => {
            let mut ranked: Vec<(i64, String)> = match state.get(key) {
                Some(Value::Scores(members)) => {
                    members.iter().map(|(member, &score)| (score, member.clone())).collect()
                }
                _ => vec![],
            };
            ranked.sort();
            listed(ranked.iter().flat_map(|(score, member)| [quoted(member), quoted(&score.to_string())]))
        }
        _ => return None,
    })
}

fn set(state: &mut State, words: &[&str]) -> Option<String> {
    let has = |state: &State, key: &str, member: &str| matches!(state.get(key), Some(Value::Members(members)) if members.contains(member));
    let put = |state: &mut State, key: &str, member: &str| match state
        .entry(key.into())
        .or_insert(Value::Members(BTreeSet::new()))
    {
        Value::Members(members) => members.insert(member.into()),
        _ => false,
    };
    let take = |state: &mut State, key: &str, member: &str| match state.get_mut(key) {
        Some(Value::Members(members)) => members.remove(member),
        _ => false,
    };
    let yes = |is: bool| u8::from(is).to_string();
    Some(match *words {
        ["SADD", key, member] => yes(put(state, key, member)),
        ["SREM", key, member] => yes(take(state, key, member)),
        ["SISMEMBER", key, member] => yes(has(state, key, member)),
        ["SCARD", key] => match state.get(key) {
            Some(Value::Members(members)) => members.len().to_string(),
            _ => "0".into(),
        },
        ["SMOVE", source, target, member] => {
            let moved = take(state, source, member);
            if moved {
                put(state, target, member);
            }
            yes(moved)
        }
        _ => return None,
    })
}

/// What is about several strings, or keys of any type.
fn several(state: &mut State, words: &[&str]) -> Option<String> {
    let put_all = |state: &mut State, pairs: &[&str]| {
        for pair in pairs.chunks_exact(2) {
            state.insert(pair[0].into(), Value::Text(pair[1].into()));
        }
    };
    Some(match *words {
        ["DEL", ref keys @ ..] => keys.iter().filter(|key| state.remove(**key).is_some()).count().to_string(),
        ["MGET", ref keys @ ..] => {
            let values: Vec<String> = keys.iter().filter_map(|key| text(state, &["GET", key])).collect();
            listed(values)
        }
        ["MSET", ref pairs @ ..] => {
            put_all(state, pairs);
            "OK".into()
        }
        ["MSETNX", ref pairs @ ..] => {
            let free = !pairs.iter().step_by(2).any(|key| state.contains_key(*key));
            if free {
                put_all(state, pairs);
            }
            u8::from(free).to_string()
        }
        ["RENAME", source, target] => match state.remove(source) {
            Some(value) => {
                state.insert(target.into(), value);
                "OK".into()
            }
            None => "!ERR no such key".into(),
        },
        ["SHIFT", source, target, amount] => {
            let left = add(state, source, -number(amount));
            listed([left, add(state, target, number(amount))])
        }
        ["SUM", ref keys @ ..] => {
            let value = |key: &&str| match state.get(*key) {
                Some(Value::Text(text)) => number(text),
                _ => 0,
            };
            keys.iter().map(value).sum::<i64>().to_string()
        }
        _ => return None,
    })
}

fn add(state: &mut State, key: &str, amount: i64) -> String {
    let old = match state.get(key) {
        Some(Value::Text(text)) => number(text),
        _ => 0,
    };
    let sum = (old + amount).to_string();
    state.insert(key.into(), Value::Text(sum.clone()));
    sum
}

fn push(state: &mut State, key: &str, end: &str, item: &str) -> String {
    match state.entry(key.into()).or_insert(Value::List(vec![])) {
        Value::List(items) => {
            let at = if end == "LEFT" { 0 } else { items.len() };
            items.insert(at, item.into());
            items.len().to_string()
        }
        _ => "!WRONGTYPE".into(),
    }
}

fn pop(state: &mut State, key: &str, end: &str) -> Option<String> {
    match state.get_mut(key) {
        Some(Value::List(items)) if items.is_empty() => None,
        Some(Value::List(items)) if end == "LEFT" => Some(items.remove(0)),
        Some(Value::List(items)) => items.pop(),
        _ => None,
    }
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or(0)
}

fn bulk(text: Option<String>) -> String {
    text.map_or("nil".into(), |text| quoted(&text))
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn listed(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(" "))
}
