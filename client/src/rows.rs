//! What the client must know of a command to send it on a shared connection: facts of the command table.

mod table;

use crate::error::Error;
use crate::traits::Traits;

/// Only reads: may be sent again after a reconnect.
const READS: u8 = 1;
/// May wait in the server, and would hold up all other calls of the connection.
const BLOCKS: u8 = 2;
/// May leave the connection in another database.
const MOVES: u8 = 4;
/// Changes or asks for the state of the connection itself, which others use too.
const OWNS: u8 = 8;
/// Replies by what lies at the key of its first argument, and by nothing else.
const CACHES: u8 = 16;
/// Its first argument is its only key.
const KEYED: u8 = 32;

/// Where keys of a command stand: from where, and how they go on.
struct Place {
    begin: Begin,
    find: Find,
}

enum Begin {
    /// At this word; the command's name is word 0.
    At(usize),
    /// Behind the first word, from this one on, that is this one in any case.
    Behind(&'static str, usize),
}

enum Find {
    /// To `last` (relative to the first key, or to the end when negative), every `step`-th word; of what is left only the first
    /// 1/`limit` when `limit` is not 0.
    Range { last: isize, step: usize, limit: usize },
    /// The word is the number of keys, which follow it: every `step`-th word is one.
    Counted { step: usize },
}

/// The slots of every cluster.
pub(crate) const SLOTS: usize = 16_384;

/// The longest name in the table, `CONTAINER|SUBCOMMAND` included.
const NAME_BYTES_MAX: usize = 32;

/// What the client knows of a framed request.
///
/// # Errors
/// [`Error::Usage`] for commands that cannot go over a shared connection.
pub(crate) fn traits(request: &[u8]) -> Result<Traits, Error> {
    let mut words = Words { rest: request };
    let first =
        words.next().ok_or_else(|| Error::usage("a call without words cannot be sent; name a command"))?;
    let Some(facts) = facts(first, || words.clone().next()) else {
        // Modules and newer servers have commands that no table knows.
        return Ok(Traits { moves: true, ..Traits::SINGLE });
    };
    if facts & OWNS != 0 {
        return Err(Error::usage(instead(first)));
    }
    let blocks = facts & BLOCKS != 0 && waits(first, words);
    Ok(Traits {
        reads: facts & READS != 0,
        moves: facts & MOVES != 0,
        blocks,
        caches: facts & CACHES != 0,
        ..Traits::SINGLE
    })
}

/// The first argument of a framed request: the key, where there is just one.
pub(crate) fn key(request: &[u8]) -> &[u8] {
    Words { rest: request }.nth(1).unwrap_or_default()
}

/// Whether any word of framed requests names a command that may change keys that it does not name: a script, or one that no
/// table knows.
pub(crate) fn moves(requests: &[u8]) -> bool {
    self::requests(requests).any(|request| traits(request).is_ok_and(|traits| traits.moves))
}

/// Framed requests one by one.
pub(crate) fn requests(requests: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = requests;
    std::iter::from_fn(move || {
        let (request, behind) = rest.split_at(rest.len() - behind(rest).len());
        rest = behind;
        (!request.is_empty()).then_some(request)
    })
}

/// The slot of a cluster in which all keys of framed requests lie; `None` if they have no key.
///
/// # Errors
/// [`Error::Usage`] if the keys lie in several slots.
pub(crate) fn slot(requests: &[u8]) -> Result<Option<u16>, Error> {
    let mut found: Option<(u16, &[u8])> = None;
    for request in self::requests(requests) {
        let words: Vec<&[u8]> = Words { rest: request }.collect();
        let mut other = None;
        each_key(&words, |key| {
            let slot = slot_of(key);
            match found {
                Some((before, _)) if before != slot => other = other.or(Some((slot, key))),
                Some(_) => {}
                None => found = Some((slot, key)),
            }
        });
        if let (Some((slot, key)), Some((other, other_key))) = (found, other) {
            let name = |key: &[u8]| String::from_utf8_lossy(&key[..key.len().min(40)]).into_owned();
            return Err(Error::usage(format!(
                "the keys '{}' and '{}' lie in different slots of the cluster ({slot} and {other}): give keys that are used together a hash \
                 tag ('{{user7}}:name' and '{{user7}}:city'), or make a call for each",
                name(key),
                name(other_key)
            )));
        }
    }
    Ok(found.map(|(slot, _)| slot))
}

/// The slot of a key: of its hash tag (`{...}`), if it has one.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let inner = &key[open + 1..];
        let close = inner.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &inner[..close])
    });
    // CRC-16/XMODEM, as the cluster specification says.
    let crc = tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 },
        )
    });
    crc % SLOTS as u16
}

/// Visits the keys among the words of a request.
fn each_key<'r>(words: &[&'r [u8]], mut visit: impl FnMut(&'r [u8])) {
    let [first, rest @ ..] = words else { return };
    let second = rest.first().copied();
    let is_keyed = facts(first, || second).is_some_and(|facts| facts & KEYED != 0);
    // The channel of a shard is no key, but lies in a slot as one does.
    if is_keyed || first.eq_ignore_ascii_case(b"SPUBLISH") {
        return second.into_iter().for_each(visit);
    }
    let places = named(
        first,
        || second,
        |name| {
            let at = table::KEYS.binary_search_by(|(known, _)| known.as_bytes().cmp(name.as_bytes())).ok()?;
            Some(table::KEYS[at].1)
        },
    );
    for place in places.unwrap_or_default() {
        if let Some((start, end, step)) = place.reach(words) {
            words[start..end].iter().step_by(step.max(1)).for_each(|key| visit(key));
        }
    }
}

impl Place {
    /// Start, end (past the last) and step of the keys, if there are any.
    fn reach(&self, words: &[&[u8]]) -> Option<(usize, usize, usize)> {
        let start = match self.begin {
            Begin::At(at) => at,
            Begin::Behind(word, from) => {
                from + words
                    .get(from..)?
                    .iter()
                    .position(|found| found.eq_ignore_ascii_case(word.as_bytes()))?
                    + 1
            }
        };
        let count = words.len();
        if start >= count {
            return None;
        }
        Some(match self.find {
            Find::Range { last, step, limit } if last < 0 => {
                let mut end = count.checked_add_signed(last + 1)?.max(start);
                if limit > 1 {
                    end = start + (end - start) / limit;
                }
                (start, end, step)
            }
            Find::Range { last, step, .. } => (start, start.checked_add_signed(last + 1)?.min(count), step),
            Find::Counted { step } => {
                let keys: usize = std::str::from_utf8(words[start]).ok()?.parse().ok()?;
                let span = keys.checked_mul(step)?.saturating_sub(step - 1);
                (start + 1, (start + 1).checked_add(span).filter(|end| *end <= count)?, step)
            }
        })
    }
}

/// What stands behind the first of framed requests.
fn behind(requests: &[u8]) -> &[u8] {
    let mut words = Words { rest: requests };
    let count = words.number();
    for _ in 0..count.unwrap_or(0) {
        words.next();
    }
    if words.rest.len() < requests.len() { words.rest } else { &[] }
}

/// All words of framed requests.
pub(crate) fn words(requests: &[u8]) -> impl Iterator<Item = &[u8]> {
    Words { rest: requests }
}

/// Whether a call changes keys that it does not name.
pub(crate) fn empties(requests: &[u8]) -> bool {
    words(requests).any(|word| {
        [&b"FLUSHALL"[..], b"FLUSHDB", b"SWAPDB", b"ITEM.FLUSH"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name))
    })
}

/// XREAD and XREADGROUP wait only with BLOCK; the others always may.
fn waits(name: &[u8], words: Words<'_>) -> bool {
    let streams = name.eq_ignore_ascii_case(b"XREAD") || name.eq_ignore_ascii_case(b"XREADGROUP");
    !streams
        || words
            .take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"))
            .any(|word| word.eq_ignore_ascii_case(b"BLOCK"))
}

/// Which way to take in place of a command that belongs to the connection.
fn instead(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).to_uppercase();
    let way = match name.as_str() {
        "SELECT" => "name the database by `client.db(number)`",
        "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" => "use `db.transaction()`",
        "AUTH" | "HELLO" => "name user and password in the URL",
        "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => {
            "use `client.subscribe()`"
        }
        _ => "it would change the connection that all calls share; open a connection of its own for it",
    };
    format!("{name} cannot be called on a shared connection: {way}")
}

fn facts<'r>(first: &[u8], second: impl FnOnce() -> Option<&'r [u8]>) -> Option<u8> {
    named(first, second, lookup)
}

/// Looks a command up by its first word, or by its first two.
#[inline]
fn named<'r, T>(
    first: &[u8],
    second: impl FnOnce() -> Option<&'r [u8]>,
    lookup: impl Fn(&Name) -> Option<T>,
) -> Option<T> {
    let mut name = Name::new(first)?;
    if let Some(alone) = lookup(&name) {
        return Some(alone);
    }
    name.add(b"|")?;
    name.add(second()?)?;
    lookup(&name)
}

/// A command's name in upper case.
struct Name {
    /// Zeros behind it.
    bytes: [u8; NAME_BYTES_MAX],
    len: usize,
}

impl Name {
    #[inline]
    fn new(word: &[u8]) -> Option<Name> {
        let mut name = Name { bytes: [0; NAME_BYTES_MAX], len: 0 };
        name.add(word)?;
        Some(name)
    }

    #[inline]
    fn add(&mut self, word: &[u8]) -> Option<()> {
        self.bytes.get_mut(self.len..self.len + word.len())?.copy_from_slice(word);
        // All of them: the compiler does it in one step.
        self.bytes.make_ascii_uppercase();
        self.len += word.len();
        Some(())
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Where the search for it begins in [`INDEX`].
    const fn place(bytes: &[u8; NAME_BYTES_MAX]) -> usize {
        let (mut mixed, mut at) = (0u64, 0);
        while at < NAME_BYTES_MAX {
            let word = [
                bytes[at],
                bytes[at + 1],
                bytes[at + 2],
                bytes[at + 3],
                bytes[at + 4],
                bytes[at + 5],
                bytes[at + 6],
                bytes[at + 7],
            ];
            mixed = mixed.rotate_left(23) ^ u64::from_le_bytes(word);
            at += 8;
        }
        // Fibonacci hashing: the upper bits of the product.
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }
}

/// Places in [`INDEX`], as many as ten bits name.
const PLACES: usize = 1024;
const EMPTY: u16 = u16::MAX;

/// Where a name stands in [`table::FACTS`]: at its place, or at the next one that another name has not taken before.
static INDEX: [u16; PLACES] = {
    assert!(table::FACTS.len() <= PLACES / 2, "make PLACES larger, and the shift of Name::place smaller");
    let (mut index, mut number) = ([EMPTY; PLACES], 0);
    while number < table::FACTS.len() {
        let (text, mut bytes, mut at) = (table::FACTS[number].0.as_bytes(), [0; NAME_BYTES_MAX], 0);
        while at < text.len() {
            bytes[at] = text[at];
            at += 1;
        }
        let mut place = Name::place(&bytes);
        while index[place] != EMPTY {
            place = (place + 1) % PLACES;
        }
        index[place] = number as u16;
        number += 1;
    }
    index
};

fn lookup(name: &Name) -> Option<u8> {
    let mut place = Name::place(&name.bytes);
    loop {
        let (known, facts) = table::FACTS.get(usize::from(INDEX[place]))?;
        if known.as_bytes() == name.as_bytes() {
            return Some(*facts);
        }
        place = (place + 1) % PLACES;
    }
}

/// The words of a request that the client has framed itself.
#[derive(Clone)]
struct Words<'r> {
    rest: &'r [u8],
}

impl<'r> Iterator for Words<'r> {
    type Item = &'r [u8];

    fn next(&mut self) -> Option<&'r [u8]> {
        if self.rest.first() == Some(&b'*') {
            self.number()?;
        }
        let len = self.number()?;
        let word = self.rest.get(..len)?;
        self.rest = self.rest.get(len + 2..)?;
        Some(word)
    }
}

impl Words<'_> {
    /// The number of a line such as `$12`.
    fn number(&mut self) -> Option<usize> {
        let mut number = 0usize;
        for (at, byte) in self.rest.iter().enumerate().skip(1) {
            if *byte == b'\r' {
                self.rest = self.rest.get(at + 2..)?;
                return Some(number);
            }
            number = number.checked_mul(10)?.checked_add(usize::from(byte.wrapping_sub(b'0')))?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, encode};

    fn of(args: impl Args) -> Result<(bool, bool), String> {
        let mut bytes = Vec::new();
        encode(&args, &mut bytes);
        traits(&bytes).map(|traits| (traits.reads, traits.moves)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_table_is_sorted_and_its_names_fit() {
        assert!(table::FACTS.is_sorted_by(|one, other| one.0 < other.0));
        assert!(table::FACTS.iter().all(|(name, _)| name.len() <= NAME_BYTES_MAX));
    }

    #[test]
    fn each_command_of_the_table_is_found() {
        for (name, facts) in table::FACTS {
            let (first, second) = name
                .split_once('|')
                .map_or((*name, None), |(first, second)| (first, Some(second.as_bytes())));
            assert_eq!(super::facts(first.to_lowercase().as_bytes(), || second), Some(*facts), "{name}");
        }
        let longest = [b'X'; NAME_BYTES_MAX + 1];
        for unknown in [&b""[..], b"GE", b"GETS", &longest[1..], &longest] {
            assert_eq!(super::facts(unknown, || Some(b"HELP")), None, "{unknown:?}");
        }
    }

    #[test]
    fn facts_are_those_of_the_command() {
        assert_eq!(of(("get", "k")), Ok((true, false)));
        assert_eq!(of(("SET", "k", "v")), Ok((false, false)));
        assert_eq!(of(("EVAL", "return 1", 0)), Ok((false, true)));
        assert_eq!(of(("OBJECT", "ENCODING", "k")), Ok((true, false)));
        assert_eq!(of(("SOME.MODULE", "k")), Ok((false, true)));
        assert_eq!(of(("XREAD", "STREAMS", "block", "0")), Ok((true, false)));
    }

    #[test]
    fn keys_are_found_where_the_command_has_them() {
        let keys = |text: &str| {
            let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            let mut found = Vec::new();
            each_key(&words, |key| found.push(String::from_utf8_lossy(key).into_owned()));
            found.join(" ")
        };
        for (call, expected) in [
            ("get a", "a"),
            ("PING", ""),
            ("MSET a 1 b 2", "a b"),
            ("DEL a b c", "a b c"),
            ("BLPOP a b 0", "a b"),
            ("EVAL script 2 a b c", "a b"),
            ("EVAL script 0 a", ""),
            ("EVAL script 3 a", ""),
            ("ZUNIONSTORE t 2 a b WEIGHTS 1 2", "t a b"),
            ("MSETEX 2 a 1 b 2 NX", "a b"),
            ("XREAD COUNT 1 streams a b 0 0", "a b"),
            ("OBJECT ENCODING a", "a"),
            ("SORT a BY b STORE c", "a c"),
            ("SPUBLISH a m", "a"),
            ("SOME.MODULE a", ""),
        ] {
            assert_eq!(keys(call), expected, "{call}");
        }
    }

    #[test]
    fn keys_lie_in_the_slots_that_the_specification_says() {
        // The first is the specification's own example.
        for (key, slot) in
            [("123456789", 0x31c3), ("foo", 12182), ("{foo}bar", 12182), ("a{foo}{bar}", 12182), ("", 0)]
        {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_ne!(slot_of(b"{}foo"), slot_of(b""), "an empty tag is none");
        assert_eq!(slot_of(b"{{foo}}"), slot_of(b"{foo"));
    }

    #[test]
    fn keys_of_different_slots_are_refused_with_advice() {
        let slot = |calls: &[&[&str]]| {
            let mut bytes = Vec::new();
            calls.iter().for_each(|call| encode(call, &mut bytes));
            super::slot(&bytes).map_err(|error| error.to_string())
        };
        assert_eq!(slot(&[&["GET", "foo"]]), Ok(Some(12182)));
        assert_eq!(slot(&[&["PING"], &["MGET", "{foo}a", "b{foo}"], &["GET", "foo"]]), Ok(Some(12182)));
        let error = slot(&[&["MGET", "foo", "bar"]]).unwrap_err();
        assert!(error.contains("'foo' and 'bar'") && error.contains("hash tag"), "{error}");
        assert!(slot(&[&["GET", "foo"], &["GET", "bar"]]).is_err());
    }

    #[test]
    fn calls_that_wait_are_told_apart() {
        let blocks = |args: &dyn Args| {
            let mut bytes = Vec::new();
            encode(args, &mut bytes);
            traits(&bytes).is_ok_and(|traits| traits.blocks)
        };
        assert!(blocks(&("BLPOP", "k", 0)));
        assert!(blocks(&("xread", "COUNT", 1, "block", 0, "STREAMS", "k", "$")));
        assert!(!blocks(&("XREAD", "STREAMS", "block", "0")));
        assert!(!blocks(&("LPOP", "k")));
    }

    #[test]
    fn commands_of_the_connection_are_refused_with_advice() {
        for (words, advice) in [
            (vec!["select", "1"], "db(number)"),
            (vec!["MULTI"], "transaction()"),
            (vec!["CLIENT", "REPLY", "OFF"], "of its own"),
            (vec!["SUBSCRIBE", "c"], "client.subscribe()"),
        ] {
            let error = of(words.clone()).unwrap_err();
            assert!(error.contains(advice), "{words:?}: {error}");
        }
        assert!(of(Vec::<&str>::new()).unwrap_err().contains("name a command"));
    }
}
