//! A value as clients read it, in a form that two servers can be compared by.
use polder_wire::rdb;

use crate::answer::Answer;
use crate::door::Door;

use super::{KEY, ask};

/// What there is to read of a key: names and texts, in an order that does not depend on the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub kind: String,
    /// How many elements the server says there are.
    pub count: i64,
    pub elements: Vec<Vec<String>>,
    /// What a stream has besides its entries, by name.
    pub facts: Vec<(String, String)>,
}

/// The facts of XINFO STREAM FULL that every peer tells.
const FACTS: [&str; 4] = ["last-generated-id", "max-deleted-entry-id", "entries-added", "groups"];
/// Those of a group, and of a consumer.
const GROUP: [&str; 5] = ["name", "last-delivered-id", "entries-read", "pel", "consumers"];
const CONSUMER: [&str; 3] = ["name", "seen-time", "pel"];

impl Reading {
    /// Reads the key's value.
    ///
    /// # Errors
    /// Those of the door, and what it replies where a value was to come.
    pub fn of(door: &mut dyn Door) -> Result<Reading, String> {
        let kind = match ask(door, &[b"TYPE", KEY])? {
            Answer::Status(kind) => kind,
            other => return Err(format!("TYPE: {}", other.shown())),
        };
        let mut reading = Reading { count: 0, elements: Vec::new(), facts: Vec::new(), kind };
        let (read, count): (&[&[u8]], &[u8]) = match reading.kind.as_str() {
            "string" => (&[b"GET", KEY], b"STRLEN"),
            "list" => (&[b"LRANGE", KEY, b"0", b"-1"], b"LLEN"),
            "set" => (&[b"SMEMBERS", KEY], b"SCARD"),
            "hash" => (&[b"HGETALL", KEY], b"HLEN"),
            "zset" => (&[b"ZRANGE", KEY, b"0", b"-1", b"WITHSCORES"], b"ZCARD"),
            "stream" => (&[b"XRANGE", KEY, b"-", b"+"], b"XLEN"),
            _ => return Ok(reading),
        };
        reading.count = match ask(door, &[count, KEY])? {
            Answer::Integer(count) => count,
            other => return Err(other.shown()),
        };
        let parts = match reading.kind.as_str() {
            "hash" | "zset" => 2,
            _ => 1,
        };
        reading.elements = match ask(door, read)? {
            Answer::Bulk(text) => vec![vec![text.escape_ascii().to_string()]],
            Answer::Array(items) => items.chunks(parts).map(|part| part.iter().map(text).collect()).collect(),
            other => return Err(other.shown()),
        };
        match reading.kind.as_str() {
            "set" => reading.elements.sort(),
            "hash" => reading.read_expiries(door)?,
            "stream" => reading.read_facts(door)?,
            "zset" => reading.read_scores(),
            _ => {}
        }
        Ok(reading)
    }

    /// When each field expires, where the server has such a thing.
    fn read_expiries(&mut self, door: &mut dyn Door) -> Result<(), String> {
        let Answer::Array(fields) = ask(door, &[b"HKEYS", KEY])? else { return Ok(()) };
        if fields.is_empty() {
            return Ok(());
        }
        let count = fields.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"HPEXPIRETIME", KEY, b"FIELDS", count.as_bytes()];
        words.extend(fields.iter().filter_map(|field| match field {
            Answer::Bulk(field) => Some(field.as_slice()),
            _ => None,
        }));
        if let Answer::Array(times) = ask(door, &words)? {
            // Valkey keeps more bits of a moment than Polder, for which the last one is in the year 10889.
            let kept = |time| match time {
                Answer::Integer(time) => Answer::Integer(time.min(rdb::FIELD_EXPIRY_MAX_MS as i64)),
                other => other,
            };
            let elements = self.elements.iter_mut().zip(times.into_iter().map(kept));
            elements
                .filter(|(_, time)| *time != Answer::Integer(-1))
                .for_each(|(e, time)| e.push(text(&time)));
        }
        self.elements.sort();
        Ok(())
    }

    /// Scores as numbers, without the sign of zero, which Polder does not keep.
    fn read_scores(&mut self) {
        for element in &mut self.elements {
            if let Some(score) = element.get(1).and_then(|score| score.parse::<f64>().ok()) {
                element[1] = format!("{}", score + 0.0);
            }
        }
    }

    fn read_facts(&mut self, door: &mut dyn Door) -> Result<(), String> {
        let full = ask(door, &[b"XINFO", b"STREAM", KEY, b"FULL", b"COUNT", b"0"])?;
        for (name, value) in pairs(&full) {
            if name == "groups" {
                for group in items(value) {
                    self.facts.push(("group".to_owned(), told(group, &GROUP)));
                }
            } else if FACTS.contains(&name.as_str()) {
                self.facts.push((name, text(value)));
            }
        }
        Ok(())
    }
}

fn items(answer: &Answer) -> &[Answer] {
    match answer {
        Answer::Array(items) => items,
        _ => &[],
    }
}

/// The names and values of a map in RESP2.
fn pairs(answer: &Answer) -> Vec<(String, &Answer)> {
    let pair = |pair: &'_ [Answer]| pair.first().map(text);
    items(answer).chunks(2).filter_map(|two| Some((pair(two)?, two.get(1)?))).collect()
}

fn told(map: &Answer, names: &[&str]) -> String {
    let mut told = String::new();
    for (name, value) in pairs(map) {
        match name.as_str() {
            "consumers" if names.contains(&"consumers") => {
                items(value).iter().for_each(|consumer| told += &told_consumer(consumer));
            }
            name if names.contains(&name) => told += &format!(" {name}={}", text(value)),
            _ => {}
        }
    }
    told
}

fn told_consumer(consumer: &Answer) -> String {
    format!(" [{}]", told(consumer, &CONSUMER))
}

fn text(answer: &Answer) -> String {
    match answer {
        Answer::Bulk(text) => text.escape_ascii().to_string(),
        Answer::Integer(number) => number.to_string(),
        Answer::Array(items) => format!("({})", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        other => other.shown(),
    }
}

fn id(text: &str) -> Option<(u64, u64)> {
    let (ms, sequence) = text.split_once('-')?;
    Some((ms.parse().ok()?, sequence.parse().ok()?))
}

/// The id of an entry, whose text is `(ID (field value ...))`.
fn id_of(entry: &str) -> Option<(u64, u64)> {
    id(entry.trim_start_matches('(').split(' ').next()?)
}

/// Why a value cannot be what its server says it is, if so.
pub fn contradiction(reading: &Reading) -> Option<&'static str> {
    match reading.kind.as_str() {
        "string" | "none" => return None,
        _ if reading.count as usize != reading.elements.len() => {
            return Some("the count is not that of the elements");
        }
        "zset" => {
            let scores: Option<Vec<f64>> =
                reading.elements.iter().map(|element| element.get(1)?.parse().ok()).collect();
            let scores = scores?;
            if scores.iter().any(|score| score.is_nan()) {
                return Some("a score is no number");
            }
            if !scores.is_sorted() {
                return Some("the scores are not in order");
            }
        }
        "stream" => {
            let ids: Option<Vec<(u64, u64)>> =
                reading.elements.iter().map(|entry| id_of(entry.first()?)).collect();
            let ids = ids?;
            if !ids.is_sorted_by(|one, two| one < two) {
                return Some("the entries are not in order");
            }
            let fact =
                |name: &str| reading.facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.as_str());
            let (last, added) = (fact("last-generated-id").and_then(id), fact("entries-added"));
            if last < ids.last().copied() {
                return Some("the last id is below an entry's");
            }
            if added.and_then(|added| added.parse::<i64>().ok()).is_some_and(|added| added < reading.count) {
                return Some("fewer entries were added than there are");
            }
        }
        _ => {}
    }
    let mut names: Vec<&String> = reading.elements.iter().filter_map(|element| element.first()).collect();
    names.sort();
    names.dedup();
    if reading.kind != "list" && names.len() != reading.elements.len() {
        return Some("an element is there twice");
    }
    None
}
