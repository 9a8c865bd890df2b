//! Collections under redis-benchmark: its default tests, and single collections of a million members. What a call on a large one costs is the
//! server's CPU time: redis-benchmark cannot ask as fast as it is answered.
use super::network::{Test, load, measure, report, rivals};
use super::{Figures, Scale, median};
use crate::process::Server;
use crate::resp::Connection;

/// redis-benchmark's own tests of collections, at pipeline 128, in operations a second and as ratios; LRANGE at pipeline 16 in CPU time.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn defaults(scale: &Scale) -> Result<Figures, String> {
    let names = ["lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "zpopmin", "mset"];
    let shown = ["LPUSH", "RPUSH", "LPOP", "RPOP", "SADD", "HSET", "SPOP", "ZADD", "ZPOPMIN", "MSET"];
    let requests = |name: &str| scale.of(if name == "mset" { 500_000 } else { 2_000_000 });
    let test = |(name, shown): (&&str, &&'static str)| Test {
        name: shown,
        words: format!("-t {name} -P 128"),
        requests: requests(name),
        settings: &[],
    };
    let tests: Vec<Test> = names.iter().zip(&shown).map(test).collect();
    let mut figures = report(&measure(&rivals(scale)?, scale, &tests)?, "ops/s", |run| run.per_second);
    let ranges = [("LRANGE_100", "lrange_100", 100_000), ("LRANGE_600", "lrange_600", 30_000)];
    let tests = ranges.map(|(name, test, requests)| Test {
        name,
        words: format!("-t {test} -P 16"),
        requests: scale.of(requests),
        settings: &[],
    });
    figures.extend(report(&measure(&rivals(scale)?, scale, &tests)?, "cpu ns", |run| run.cpu_ns));
    Ok(figures)
}

/// What fills a collection, and what is then asked of it.
const LARGE: [(&str, &[&str], &str); 14] = [
    ("ZADD of 1 M members", &["ZADD", "zset", "__rand_int__", "member:__rand_int__"], "zset"),
    ("ZRANK", &["ZRANK", "zset", "member:__rand_int__"], ""),
    ("ZRANGE by rank", &["ZRANGE", "zset", "500000", "500009"], ""),
    ("ZRANGE by score", &["ZRANGEBYSCORE", "zset", "__rand_int__", "+inf", "LIMIT", "0", "10"], ""),
    ("ZSCORE", &["ZSCORE", "zset", "member:__rand_int__"], ""),
    ("HSET of 1 M fields", &["HSET", "hash", "field:__rand_int__", "0123456789abcdef"], "hash"),
    ("HGET", &["HGET", "hash", "field:__rand_int__"], ""),
    ("SADD of 1 M members", &["SADD", "set", "member:__rand_int__"], "set"),
    ("SISMEMBER", &["SISMEMBER", "set", "member:__rand_int__"], ""),
    ("RPUSH of 3 M", &["RPUSH", "list", "0123456789abcdef"], "list"),
    ("LINDEX in the middle", &["LINDEX", "list", "1500000"], ""),
    ("XADD of 3 M", &["XADD", "stream", "*", "field", "0123456789abcdef"], "stream"),
    ("EVAL of one line", &["EVAL", "return redis.call('get',KEYS[1])", "1", "key:__rand_int__"], ""),
    ("SET for comparison", &["SET", "key:__rand_int__", "0123456789abcdef"], ""),
];

/// One collection of each type with up to a million random members (three million requests fill it), at pipeline 128: nanoseconds of the
/// server's CPU time a call, bytes an element, and ratios of the former.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn large(scale: &Scale) -> Result<Figures, String> {
    let mut costs: Vec<Vec<Vec<f64>>> = Vec::new();
    let mut bytes: Vec<Vec<f64>> = Vec::new();
    let rivals = rivals(scale)?;
    for rival in &rivals {
        let mut rounds = vec![vec![]; LARGE.len()];
        let mut sizes = vec![f64::NAN; LARGE.len()];
        for _ in 0..scale.rounds {
            let server = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
            for (at, (name, words, filled)) in LARGE.iter().enumerate() {
                let before = used_memory(&server)?;
                let requests = scale.of(if filled.is_empty() {
                    if name.starts_with("LINDEX") { 100_000 } else { 500_000 }
                } else {
                    3_000_000
                });
                rounds[at].push(run(&server, name, words, requests, scale)?);
                if !filled.is_empty() {
                    sizes[at] = (used_memory(&server)? - before) / elements(&server, filled)?;
                }
            }
        }
        costs.push(rounds);
        bytes.push(sizes);
    }
    let mut figures = Figures::new();
    for (at, (test, ..)) in LARGE.iter().enumerate() {
        let cost = |rival: usize| median(costs[rival][at].clone());
        for (number, rival) in rivals.iter().enumerate() {
            figures.push((format!("{test} {} cpu ns", rival.name), cost(number)));
        }
        figures.extend(
            rivals
                .iter()
                .enumerate()
                .skip(1)
                .map(|(number, rival)| (format!("{test} polder / {}", rival.name), cost(0) / cost(number))),
        );
        for (number, rival) in rivals.iter().enumerate().filter(|(number, _)| bytes[*number][at].is_finite())
        {
            figures.push((format!("{test} {} bytes", rival.name), bytes[number][at]));
        }
    }
    Ok(figures)
}

/// What a call of a command with random words costs the server.
fn run(
    server: &Server,
    name: &'static str,
    words: &[&str],
    requests: u64,
    scale: &Scale,
) -> Result<f64, String> {
    let keys = scale.of(1_000_000);
    let words = std::iter::once(format!("-P 128 -r {keys}"))
        .chain(words.iter().map(|word| word.replace(' ', "\u{1}")))
        .collect::<Vec<_>>();
    match load(server, &Test { name, words: words.join(" "), requests, settings: &[] })?.cpu_ns {
        cost if cost > 0.0 => Ok(cost),
        _ => Err(format!("{name}: the server did nothing")),
    }
}

fn used_memory(server: &Server) -> Result<f64, String> {
    let text = said(server, &["INFO", "memory"])?;
    let figure = text
        .split("used_memory:")
        .nth(1)
        .and_then(|rest| rest.split("\\r").next())
        .and_then(|word| word.parse().ok());
    figure.ok_or_else(|| "INFO has no used_memory".into())
}

/// Elements of a collection.
fn elements(server: &Server, key: &str) -> Result<f64, String> {
    let command = match key {
        "zset" => "ZCARD",
        "hash" => "HLEN",
        "set" => "SCARD",
        "list" => "LLEN",
        _ => "XLEN",
    };
    let text = said(server, &[command, key])?;
    text.trim_matches(|letter: char| !letter.is_ascii_digit())
        .parse()
        .map_err(|_| format!("{command}: {text}"))
}

fn said(server: &Server, words: &[&str]) -> Result<String, String> {
    let mut connection = Connection::open(&server.address()).map_err(|error| error.to_string())?;
    Ok(connection.call(words).map_err(|error| error.to_string())?.shown())
}
