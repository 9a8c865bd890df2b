//! One process that makes history: it draws operations on the groups of the hour, runs them, and notes them.
use std::path::Path;

use super::model::{self, Call};
use super::record::{Recorder, now_ns};
use crate::answer::Answer;
use crate::random::Random;
use crate::way::Way;

/// How long the same groups are used, by the clock that all processes share. Short: the more
/// operations, the more time a check takes for each.
const ROUND_NS: u64 = 200_000_000;

/// The groups of a round: what they are called and which keys they have.
const GROUPS: [(&str, &[&str]); 9] = [
    ("text", &["k"]),
    ("count", &["k"]),
    ("list", &["k"]),
    ("hash", &["k"]),
    ("scores", &["k"]),
    ("texts", &["a", "b", "c"]),
    ("money", &["a", "b", "c", "d"]),
    ("lists", &["a", "b"]),
    ("mixed", &["text", "list", "hash", "scores", "set", "set2"]),
];

/// See the module.
pub struct Player {
    way: Way,
    recorder: Recorder,
    random: Random,
    id: u64,
    next: u64,
}

impl Player {
    /// A player that takes the way to `place` ([`Way::to`]).
    ///
    /// # Errors
    /// When there is no such memory, or no file.
    pub fn new(place: &str, file: &Path, seed: u64) -> Result<Player, String> {
        let recorder = Recorder::new(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Player {
            way: Way::to(place)?,
            recorder,
            random: Random::new(seed),
            id: seed % 1_000_000,
            next: 0,
        })
    }

    /// One operation.
    ///
    /// # Errors
    /// A reply that no command gives, or an error of the file.
    pub fn step(&mut self) -> Result<(), String> {
        let (name, keys) = *self.random.pick(&GROUPS);
        let round = now_ns() / ROUND_NS;
        let group = format!("{round}:{name}");
        let calls = self.draw(name, &keys.iter().map(|key| format!("{group}:{key}")).collect::<Vec<_>>());
        // A server that is not there is not a part of the history.
        if !self.way.is_open() {
            std::thread::sleep(std::time::Duration::from_millis(5));
            return Ok(());
        }
        let noted = |result: std::io::Result<()>| result.map_err(|error| error.to_string());
        noted(self.recorder.begin(&group, &calls))?;
        let answer = self.run(&calls)?;
        let ended_ns = now_ns();
        let reply = answer.as_ref().map(model::shown);
        noted(self.recorder.end(ended_ns, reply.as_deref()))?;
        match reply {
            Some(reply) if reply.contains('!') && !reply.contains("no such key") => {
                Err(format!("{calls:?}: {reply}"))
            }
            _ => Ok(()),
        }
    }

    /// The reply to an operation; `None` when the server has gone before it came.
    fn run(&mut self, calls: &[Call]) -> Result<Option<Answer>, String> {
        let lines = lines(calls);
        let mut answer = None;
        for line in &lines {
            let Some(one) = self.way.call(line)? else { return Ok(None) };
            answer = Some(match calls[0][0].as_str() {
                "SWAP" => swapped(answer, one, line),
                _ => one,
            });
        }
        Ok(answer)
    }

    /// A value that no other player writes.
    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("{}.{}", self.id, self.next)
    }

    fn draw(&mut self, group: &str, keys: &[String]) -> Vec<Call> {
        let key = self.random.pick(keys).clone();
        let other = self.random.pick(keys).clone();
        let (value, small) = (self.fresh(), (1 + self.random.below(5)).to_string());
        let all: Vec<&str> = keys.iter().map(String::as_str).collect();
        let drawn = Drawn {
            group,
            number: self.random.below(8),
            key: &key,
            other: &other,
            all: &all,
            value: &value,
            small: &small,
            field: ["f", "g", "h"][self.random.below(3)],
        };
        let lines = if keys.len() == 1 { drawn.on_one_key() } else { drawn.on_several() };
        lines.into_iter().map(|line| line.into_iter().map(String::from).collect()).collect()
    }
}

/// What an operation is made of.
struct Drawn<'d> {
    group: &'d str,
    /// Below 8.
    number: usize,
    /// Two of the group's keys, perhaps the same, and all of them.
    key: &'d str,
    other: &'d str,
    all: &'d [&'d str],
    /// No other operation writes it.
    value: &'d str,
    /// A number from 1 to 5.
    small: &'d str,
    field: &'d str,
}

impl<'d> Drawn<'d> {
    fn on_one_key(&self) -> Vec<Vec<&'d str>> {
        let (k, v, n, field) = (self.key, self.value, self.small, self.field);
        match (self.group, self.number) {
            ("text", 0 | 1) => vec![vec!["GET", k]],
            ("text", 2) => vec![vec!["SET", k, v]],
            ("text", 3) => vec![vec!["GETSET", k, v]],
            ("text", 4) => vec![vec!["GETDEL", k]],
            ("text", 5) => vec![vec!["SETNX", k, v]],
            ("text", 6) => vec![vec!["SWAP", k, v]],
            ("text", _) => vec![vec!["APPEND", k, v]],
            ("count", 0..=3) => vec![vec!["INCR", k]],
            ("count", 4) => vec![vec!["INCRBY", k, n]],
            ("count", 5) => vec![vec!["GETSET", k, n]],
            ("count", _) => vec![vec!["GET", k]],
            ("list", 0) => vec![vec!["LPUSH", k, v]],
            ("list", 1) => vec![vec!["RPUSH", k, v]],
            ("list", 2 | 3) => vec![vec!["LPOP", k]],
            ("list", 4) => vec![vec!["RPOP", k]],
            ("list", 5) => vec![vec!["BLPOP", k, "0.02"]],
            ("list", 6) => vec![vec!["LLEN", k]],
            ("list", _) => vec![vec!["LRANGE", k, "0", "-1"]],
            ("hash", 0..=2) => vec![vec!["HINCRBY", k, field, n]],
            ("hash", 3) => vec![vec!["HSET", k, field, n]],
            ("hash", 4) => vec![vec!["HDEL", k, field]],
            ("hash", 5) => vec![vec!["HGET", k, field]],
            ("hash", 6) => vec![vec!["HLEN", k]],
            ("hash", _) => vec![vec!["HMGET", k, "f", "g", "h"]],
            ("scores", 0) => vec![vec!["ZADD", k, n, field]],
            ("scores", 1..=3) => vec![vec!["ZINCRBY", k, n, field]],
            ("scores", 4) => vec![vec!["ZREM", k, field]],
            ("scores", 5) => vec![vec!["ZSCORE", k, field]],
            (_, _) => vec![vec!["ZRANGE", k, "0", "-1", "WITHSCORES"]],
        }
    }

    fn on_several(&self) -> Vec<Vec<&'d str>> {
        let (k, o, v, n, field, all) = (self.key, self.other, self.value, self.small, self.field, self.all);
        let with = |name: &'static str| vec![[&[name], all].concat()];
        match (self.group, self.number) {
            ("texts", 0 | 1) => with("MGET"),
            ("texts", 2) => vec![vec!["MSET", all[0], v, all[1], v, all[2], v]],
            ("texts", 3) => vec![vec!["MSETNX", all[0], v, all[1], v]],
            ("texts", 4) => vec![vec!["SET", k, v]],
            ("texts", 5) => vec![vec!["RENAME", k, o]],
            ("texts", 6) => vec![vec!["DEL", k, o]],
            ("texts", _) => vec![vec!["GET", k], vec!["SET", o, v], vec!["MGET", all[0], all[1]]],
            ("money", 0..=2) => vec![vec!["SHIFT", k, o, n]],
            ("money", 3) => with("MGET"),
            ("money", 4) => with("SUM"),
            ("money", 5) => vec![vec!["INCRBY", k, n]],
            ("money", _) => vec![vec!["INCRBY", k, n], vec!["INCRBY", o, "-7"], vec!["GET", k]],
            ("lists", 0) => vec![vec!["LPUSH", k, v]],
            ("lists", 1) => vec![vec!["RPUSH", k, v]],
            ("lists", 2) => vec![vec!["LMOVE", all[0], all[1], "LEFT", "RIGHT"]],
            ("lists", 3) => vec![vec!["BLMOVE", all[1], all[0], "RIGHT", "LEFT", "0.02"]],
            ("lists", 4) => vec![vec!["LPOP", k]],
            ("lists", 5) => vec![vec!["LPOP", all[0]], vec!["RPUSH", all[1], v], vec!["LLEN", all[0]]],
            ("lists", 6) => vec![vec!["LRANGE", all[0], "0", "-1"], vec!["LRANGE", all[1], "0", "-1"]],
            ("lists", _) => vec![vec!["BLPOP", k, "0.02"]],
            (_, 0) => vec![
                vec!["SET", all[0], v],
                vec!["RPUSH", all[1], v],
                vec!["HSET", all[2], "f", v],
                vec!["ZADD", all[3], n, v],
            ],
            (_, 1) => vec![
                vec!["GET", all[0]],
                vec!["LRANGE", all[1], "0", "-1"],
                vec!["HGET", all[2], "f"],
                vec!["SCARD", all[4]],
            ],
            (_, 2) => vec![vec!["LPOP", all[1]], vec!["SADD", all[4], field]],
            (_, 3) => vec![vec!["SMOVE", all[4], all[5], field]],
            (_, 4) => vec![vec!["SADD", all[4], field]],
            (_, 5) => {
                vec![vec!["SISMEMBER", all[5], field], vec!["SREM", all[5], field], vec!["SCARD", all[4]]]
            }
            (_, 6) => vec![vec!["HINCRBY", all[2], "n", n], vec!["DEL", all[3]]],
            _ => vec![vec!["HGET", all[2], "n"], vec!["ZRANGE", all[3], "0", "-1", "WITHSCORES"]],
        }
    }
}

/// The commands that an operation consists of: scripts and MULTI spelled out.
fn lines(calls: &[Call]) -> Vec<Call> {
    let line = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Call>();
    match calls {
        [call] => {
            let words: Vec<&str> = call.iter().map(String::as_str).collect();
            match words[..] {
                ["SHIFT", source, target, amount] => {
                    vec![line(&["EVAL", model::SHIFT, "2", source, target, amount])]
                }
                ["SUM", ref keys @ ..] => {
                    vec![line(&[&["EVAL", model::SUM, &keys.len().to_string()], keys].concat())]
                }
                ["SWAP", key, value] => {
                    vec![
                        line(&["WATCH", key]),
                        line(&["GET", key]),
                        line(&["MULTI"]),
                        line(&["SET", key, value]),
                        line(&["EXEC"]),
                    ]
                }
                _ => vec![call.clone()],
            }
        }
        calls => [&[line(&["MULTI"])], calls, &[line(&["EXEC"])]].concat(),
    }
}

/// What a WATCH comes to, by the replies to its lines: what GET read and what EXEC did, or nil when EXEC did nothing.
fn swapped(so_far: Option<Answer>, one: Answer, line: &[String]) -> Answer {
    match (line[0].as_str(), so_far, one) {
        ("GET", _, read) => read,
        ("EXEC", Some(read), Answer::Array(done)) => Answer::Array([vec![read], done].concat()),
        ("EXEC", _, nothing) => nothing,
        (_, Some(read), _) => read,
        (_, None, one) => one,
    }
}
