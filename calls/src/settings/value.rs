//! From text to a setting's value and back: every [`Shape`]'s own grammar, with Redis's error texts.
//!
//! A value has two sides: the *text* in its canonical form, which CONFIG GET shows, and a *number* for those shapes that
//! have one (yes is 1, bytes, the index of a choice, the bits of flags), which hot paths read.
use std::borrow::Cow;

use super::memory::POLICY_NAMES;
use super::{Setting, Shape, Start};
use polder_base::number;
use polder_table::interest::EVENT_CLASSES;
use polder_table::{POLICIES, Policy};

/// A value in both its forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// 0 where the shape has no number.
    pub number: i64,
    pub text: Vec<u8>,
}

/// Why a value is refused; Redis's words where Redis has them.
pub type Refusal = Cow<'static, str>;

const NOT_INTEGER: &str = "argument couldn't be parsed into an integer";
const NOT_MEMORY: &str = "argument must be a memory value";
const NOT_LIMITS: &str = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
const WORD_COUNT: &str = "wrong number of arguments";

/// The value before it was ever set.
pub fn start(row: &Setting) -> Parsed {
    match row.start {
        Start::Number(number) => Parsed { number, text: format_number(row.shape, number).into_bytes() },
        Start::Text(text) => Parsed { number: 0, text: text.as_bytes().to_vec() },
    }
}

/// Reads a value. `current` is the text the setting has now, since output limits change only the classes that are named.
///
/// # Errors
/// The reason, as CONFIG SET gives it after its own words.
pub fn parse(row: &Setting, words: &[&[u8]], current: &[u8]) -> Result<Parsed, Refusal> {
    if !row.takes_words() && words.len() != 1 {
        return Err(WORD_COUNT.into());
    }
    let parsed = parse_shape(row.shape, words, current)?;
    if row.shape == Shape::BaseName && parsed.text.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
        let what = if row.name.ends_with("dirname") { "dirname" } else { "filename" };
        return Err(format!("{} can't be a path, just a {what}", row.name).into());
    }
    if !row.refusal.is_empty() && parsed != start(row) {
        return Err(row.refusal.into());
    }
    Ok(parsed)
}

/// Splits CONFIG SET's one argument into the words that [`parse`] takes.
pub fn split<'a>(row: &Setting, argument: &'a [u8]) -> Vec<&'a [u8]> {
    if row.takes_words() { argument.split(|byte| *byte == b' ').collect() } else { vec![argument] }
}

fn parse_shape(shape: Shape, words: &[&[u8]], current: &[u8]) -> Result<Parsed, Refusal> {
    let word = words.first().copied().unwrap_or_default();
    let number = match shape {
        Shape::Switch => match () {
            () if word.eq_ignore_ascii_case(b"yes") => 1,
            () if word.eq_ignore_ascii_case(b"no") => 0,
            () => return Err("argument must be 'yes' or 'no'".into()),
        },
        Shape::Integer { min, max } => within(min, max, number::integer(word).ok_or(NOT_INTEGER)?)?,
        Shape::Memory { min, max } => within(min, max, bytes(word).ok_or(NOT_MEMORY)?)?,
        Shape::MemoryOrPercent => memory_or_percent(word)?,
        Shape::Octal { max } => {
            let text = std::str::from_utf8(word).ok().filter(|text| !text.starts_with('+'));
            let number = text
                .and_then(|text| i64::from_str_radix(text, 8).ok())
                .ok_or("argument couldn't be parsed as an octal number")?;
            if !(0..=max).contains(&number) {
                return Err(format!("argument must be between 0 and {max:o} inclusive").into());
            }
            number
        }
        Shape::Choice(choices) => choices
            .iter()
            .position(|choice| word.eq_ignore_ascii_case(choice.as_bytes()))
            .map(|at| at as i64)
            .ok_or_else(|| not_among(choices))?,
        Shape::Flags(flags) => parse_flags(flags, words)?,
        Shape::Text | Shape::BaseName => return Ok(Parsed { number: 0, text: word.to_vec() }),
        Shape::Words => return Ok(Parsed { number: 0, text: words.join(&b' ') }),
        Shape::Save => return parse_save(words),
        Shape::OutputLimits => return parse_output_limits(words, current),
        Shape::EventClasses => return parse_event_classes(word),
        Shape::OomScores => return parse_oom_scores(words),
        Shape::Percentiles => return parse_percentiles(words),
        Shape::Primary => return parse_primary(words),
    };
    Ok(Parsed { number, text: format_number(shape, number).into_bytes() })
}

/// The canonical text of a shape that has a number.
pub fn format_number(shape: Shape, number: i64) -> String {
    match shape {
        Shape::Switch => if number == 0 { "no" } else { "yes" }.to_owned(),
        Shape::MemoryOrPercent if number < 0 => format!("{}%", -number),
        Shape::Octal { .. } => format!("{number:o}"),
        Shape::Choice(choices) => choices[number as usize].to_owned(),
        Shape::Flags(flags) if number == 0 => flags[0].to_owned(),
        Shape::Flags(flags) => {
            let set = flags[1..].iter().enumerate().filter(|(at, _)| number & (1 << at) != 0);
            set.map(|(_, flag)| *flag).collect::<Vec<_>>().join(" ")
        }
        _ => number.to_string(),
    }
}

/// A number of bytes as a configuration file writes it: in the largest unit that divides it.
pub fn format_bytes(bytes: i64) -> String {
    for (unit, name) in [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")] {
        if bytes != 0 && bytes % unit == 0 {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

fn within(min: i64, max: i64, number: i64) -> Result<i64, Refusal> {
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(format!("argument must be between {min} and {max} inclusive").into())
    }
}

fn not_among(choices: &[&str]) -> Refusal {
    format!("argument(s) must be one of the following: {}", choices.join(", ")).into()
}

/// A number of bytes with an optional unit.
pub fn bytes(word: &[u8]) -> Option<i64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit: i64 = match word[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    // Redis reads an empty text as zero.
    let text = if digits == 0 { "0" } else { std::str::from_utf8(&word[..digits]).ok()? };
    text.parse::<i64>().ok()?.checked_mul(unit)
}

fn memory_or_percent(word: &[u8]) -> Result<i64, Refusal> {
    const NEITHER: &str = "argument must be a memory or percent value";
    match word.strip_suffix(b"%") {
        Some(percent) => match number::integer(percent).filter(|percent| *percent >= 0) {
            Some(percent) if percent > 100 => Err("percentage argument must be less or equal to 100".into()),
            Some(percent) => Ok(-percent),
            None => Err(NEITHER.into()),
        },
        None => bytes(word).ok_or(NEITHER.into()),
    }
}

fn parse_flags(flags: &[&str], words: &[&[u8]]) -> Result<i64, Refusal> {
    let mut bits = 0;
    for word in words {
        match flags.iter().position(|flag| word.eq_ignore_ascii_case(flag.as_bytes())) {
            Some(0) => (),
            Some(at) => bits |= 1 << (at - 1),
            None => return Err(not_among(flags)),
        }
    }
    // The only flags there are belong to signals; the first two exclude each other.
    if bits & 0b11 == 0b11 {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    Ok(bits)
}

/// Pairs of seconds and changes; one empty word stands for none.
fn parse_save(words: &[&[u8]]) -> Result<Parsed, Refusal> {
    let words = if words == [b"".as_slice()] { &[] } else { words };
    let mut numbers = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
        numbers.push(
            number.filter(|number| *number >= i64::from(at % 2 == 0)).ok_or("Invalid save parameters")?,
        );
    }
    if numbers.len() % 2 == 1 {
        return Err("Invalid save parameters".into());
    }
    Ok(Parsed { number: 0, text: join(&numbers).into_bytes() })
}

/// One class of clients' output limits: bytes, bytes, seconds; 0 is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutputLimit {
    pub hard: u64,
    pub soft: u64,
    pub soft_seconds: u64,
}

/// The classes as CONFIG GET names them, in its order.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// The limits of normal clients, replicas and subscribers, out of the setting's text.
pub fn output_limits(text: &[u8]) -> [OutputLimit; 3] {
    let mut limits = [OutputLimit::default(); 3];
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    // The text is canonical, so every word reads well.
    for (class, group) in words.chunks_exact(4).enumerate().take(3) {
        let number = |at: usize| bytes(group[at]).map_or(0, |number| number as u64);
        limits[class] = OutputLimit { hard: number(1), soft: number(2), soft_seconds: number(3) };
    }
    limits
}

fn parse_output_limits(words: &[&[u8]], current: &[u8]) -> Result<Parsed, Refusal> {
    let words = if words == [b"".as_slice()] { &[] } else { words };
    if words.len() % 4 != 0 {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits = output_limits(current);
    for group in words.chunks_exact(4) {
        let name = if group[0].eq_ignore_ascii_case(b"replica") { b"slave" } else { group[0] };
        let class = CLASSES.iter().position(|class| name.eq_ignore_ascii_case(class.as_bytes()));
        let class = class.ok_or("Invalid client class specified in buffer limit configuration.")?;
        let seconds = std::str::from_utf8(group[3]).ok().and_then(|text| text.parse::<u64>().ok());
        limits[class] = OutputLimit {
            hard: bytes(group[1]).ok_or(NOT_LIMITS)? as u64,
            soft: bytes(group[2]).ok_or(NOT_LIMITS)? as u64,
            soft_seconds: seconds.ok_or(NOT_LIMITS)?,
        };
    }
    let texts = CLASSES
        .iter()
        .zip(limits)
        .map(|(class, limit)| format!("{class} {} {} {}", limit.hard, limit.soft, limit.soft_seconds));
    Ok(Parsed { number: 0, text: texts.collect::<Vec<_>>().join(" ").into_bytes() })
}

/// Classes of keyspace events that together are `A`: the first ten, and those of arrays.
const ALL_CLASSES: i64 = ((1 << 10) - 1) | (1 << 14);

fn parse_event_classes(word: &[u8]) -> Result<Parsed, Refusal> {
    let mut bits = 0i64;
    for byte in word {
        match EVENT_CLASSES.iter().position(|class| class == byte) {
            Some(at) => bits |= 1 << at,
            None if *byte == b'A' => bits |= ALL_CLASSES,
            None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdnaSTIVoc'.".into()),
        }
    }
    let mut text = Vec::new();
    let mut rest = bits;
    if bits & ALL_CLASSES == ALL_CLASSES {
        text.push(b'A');
        rest &= !ALL_CLASSES;
    }
    text.extend(
        EVENT_CLASSES.iter().enumerate().filter(|(at, _)| rest & (1 << at) != 0).map(|(_, class)| *class),
    );
    Ok(Parsed { number: bits, text })
}

fn parse_oom_scores(words: &[&[u8]]) -> Result<Parsed, Refusal> {
    if words.len() != 3 {
        return Err(WORD_COUNT.into());
    }
    let mut scores = Vec::new();
    for word in words {
        let score = number::integer(word).filter(|score| (-2000..=2000).contains(score));
        scores.push(score.ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?);
    }
    Ok(Parsed { number: 0, text: join(&scores).into_bytes() })
}

fn parse_percentiles(words: &[&[u8]]) -> Result<Parsed, Refusal> {
    let words = if words == [b"".as_slice()] { &[] } else { words };
    let mut texts = Vec::new();
    for word in words {
        let percentile = std::str::from_utf8(word)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|number| !number.is_nan());
        let percentile = percentile.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        texts.push(format_percentile(percentile));
    }
    Ok(Parsed { number: 0, text: texts.join(" ").into_bytes() })
}

/// Six decimals at most, without trailing zeros.
pub fn format_percentile(percentile: f64) -> String {
    format!("{percentile:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The percentiles out of the setting's text.
pub fn percentiles(text: &[u8]) -> Vec<f64> {
    String::from_utf8_lossy(text).split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn parse_primary(words: &[&[u8]]) -> Result<Parsed, Refusal> {
    match words {
        [b""] => Ok(Parsed { number: 0, text: Vec::new() }),
        [host, port] if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") => {
            Ok(Parsed { number: 0, text: Vec::new() })
        }
        [_, port] if number::integer(port).is_none_or(|port| !(0..=65535).contains(&port)) => {
            Err("Invalid master port".into())
        }
        [_, _] => Ok(Parsed { number: 0, text: words.join(&b' ') }),
        _ => Err(WORD_COUNT.into()),
    }
}

/// The policy whose index `maxmemory-policy` holds.
pub fn policy(number: i64) -> Policy {
    let name = POLICY_NAMES.get(number as usize).copied().unwrap_or_default();
    POLICIES.iter().find(|(_, own)| *own == name).map_or(Policy::NoEviction, |(policy, _)| *policy)
}

fn join(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::{TABLE, find};
    use super::*;

    fn check(name: &str, argument: &str, expect: &str) {
        let row = find(name.as_bytes()).unwrap().row();
        let current = start(row).text;
        let shown = match parse_shape(row.shape, &split(row, argument.as_bytes()), &current) {
            Ok(parsed) => String::from_utf8(parsed.text).unwrap(),
            Err(refusal) => format!("! {refusal}"),
        };
        assert_eq!(shown, expect, "{name} {argument}");
    }

    #[test]
    fn every_first_value_reads_back_as_itself() {
        for row in &TABLE {
            let first = start(row);
            assert_eq!(
                parse(row, &split(row, &first.text), &first.text).as_ref(),
                Ok(&first),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn values_are_shown_as_redis_shows_them() {
        check("appendonly", "YES", "yes");
        check("maxmemory", "10k", "10000");
        check("maxmemory", "1GB", "1073741824");
        check("maxmemory", "", "0");
        check("unixsocketperm", "0700", "700");
        check("maxmemory-clients", "10%", "10%");
        check("shutdown-on-sigint", "now save force", "save now force");
        check("shutdown-on-sigint", "default now", "now");
        check(
            "client-output-buffer-limit",
            "replica 1mb 2 3 normal 5 5 5",
            "normal 5 5 5 slave 1048576 2 3 pubsub 33554432 8388608 60",
        );
        check("latency-tracking-info-percentiles", "50.0 0.00001 99.999999", "50 0.00001 99.999999");
        check("notify-keyspace-events", "KEAxg", "AKE");
        check("notify-keyspace-events", "g$Et", "g$tE");
        check("save", "60 01", "60 1");
        check("save", "", "");
        check("replicaof", "no one", "");
        check("maxmemory-policy", "ALLKEYS-LRU", "allkeys-lru");
    }

    #[test]
    fn wrong_values_get_the_words_of_redis() {
        check("appendonly", "1", "! argument must be 'yes' or 'no'");
        check("timeout", "007", "! argument couldn't be parsed into an integer");
        check("timeout", "-1", "! argument must be between 0 and 2147483647 inclusive");
        check("maxmemory", "1.5gb", "! argument must be a memory value");
        check("maxmemory", "-1", "! argument must be a memory value");
        check("unixsocketperm", "9", "! argument couldn't be parsed as an octal number");
        check("maxmemory-clients", "200%", "! percentage argument must be less or equal to 100");
        check("maxmemory-clients", "-5", "! argument must be a memory or percent value");
        check(
            "shutdown-on-sigint",
            "save nosave",
            "! shutdown options SAVE and NOSAVE can't be used simultaneously",
        );
        check(
            "loglevel",
            "x",
            "! argument(s) must be one of the following: debug, verbose, notice, warning, nothing",
        );
        check(
            "client-output-buffer-limit",
            "normal 1mb 2",
            "! Wrong number of arguments in buffer limit configuration.",
        );
        check(
            "client-output-buffer-limit",
            "master 0 0 0",
            "! Invalid client class specified in buffer limit configuration.",
        );
        check("client-output-buffer-limit", "normal 1mb 2 a", &format!("! {NOT_LIMITS}"));
        check("save", " 60 1", "! Invalid save parameters");
        check(
            "oom-score-adj-values",
            "1 2 3000",
            "! Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
        );
        check(
            "latency-tracking-info-percentiles",
            "50  60",
            "! Invalid latency-tracking-info-percentiles parameters",
        );
        check(
            "notify-keyspace-events",
            "Q",
            "! Invalid event class character. Use 'Ag$lshzxeKEtmdnaSTIVoc'.",
        );
        check("notify-keyspace-events", "cKoA", "AKoc");
    }

    #[test]
    fn the_name_of_a_file_is_no_path() {
        let set = |name: &str, value: &str| {
            parse(find(name.as_bytes()).unwrap().row(), &[value.as_bytes()], b"").map(|parsed| parsed.text)
        };
        let refused = |name: &str, what: &str| Err(format!("{name} can't be a path, just a {what}").into());
        for (name, what) in
            [("dbfilename", "filename"), ("appendfilename", "filename"), ("appenddirname", "dirname")]
        {
            for path in ["/tmp/a", "../a", "a/", "a\\b"] {
                assert_eq!(set(name, path), refused(name, what), "{path}");
            }
            assert_eq!(set(name, "a.rdb"), Ok(b"a.rdb".to_vec()));
        }
    }

    #[test]
    fn what_is_not_there_is_refused_with_the_reason() {
        let row = find(b"activedefrag").unwrap().row();
        assert_eq!(parse(row, &[b"yes"], b"no"), Err(row.refusal.into()));
        assert!(parse(row, &[b"no"], b"no").is_ok());
    }

    #[test]
    fn every_policy_has_a_name_and_every_name_a_policy() {
        let policies: Vec<&str> = (0..POLICY_NAMES.len() as i64)
            .map(|number| POLICIES.iter().find(|(own, _)| *own == policy(number)).unwrap().1)
            .collect();
        assert_eq!(policies, POLICY_NAMES);
    }
}
