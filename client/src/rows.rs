//! What the client must know of a command to send it on a shared connection: facts of the command table.

mod table;

use crate::error::Error;
use crate::queue::Traits;

/// Only reads: may be sent again after a reconnect.
const READS: u8 = 1;
/// May wait in the server, and would hold up everybody else's calls.
const BLOCKS: u8 = 2;
/// May leave the connection in another database.
const MOVES: u8 = 4;
/// Changes or asks for the state of the connection itself, which others use too.
const OWNS: u8 = 8;
/// Replies by what lies at the key of its first argument, and by nothing else.
const CACHES: u8 = 16;

/// The longest name in the table, `CONTAINER|SUBCOMMAND` included.
const NAME_BYTES_MAX: usize = 32;

/// What the client knows of a framed request.
///
/// # Errors
/// [`Error::Usage`] for commands that cannot go over a shared connection.
pub(crate) fn traits(request: &[u8]) -> Result<Traits, Error> {
    let mut words = Words { rest: request };
    let first = words.next().ok_or_else(|| Error::usage("a call without words cannot be sent; name a command"))?;
    let Some(facts) = facts(first, words.clone().next()) else {
        // Modules and newer servers have commands that no table knows.
        return Ok(Traits { moves: true, ..Traits::SINGLE });
    };
    if facts & OWNS != 0 {
        return Err(Error::usage(instead(first)));
    }
    let blocks = facts & BLOCKS != 0 && waits(first, words);
    Ok(Traits { reads: facts & READS != 0, moves: facts & MOVES != 0, blocks, caches: facts & CACHES != 0, ..Traits::SINGLE })
}

/// The first argument of a framed request: the key, where there is just one.
pub(crate) fn key(request: &[u8]) -> &[u8] {
    Words { rest: request }.nth(1).unwrap_or_default()
}

/// Whether any word of framed requests names a command that may change keys that it does not name: a script, or one that no
/// table knows.
pub(crate) fn moves(requests: &[u8]) -> bool {
    let mut rest = requests;
    while !rest.is_empty() {
        if traits(rest).is_ok_and(|traits| traits.moves) {
            return true;
        }
        rest = behind(rest);
    }
    false
}

/// What stands behind the first of framed requests.
fn behind(requests: &[u8]) -> &[u8] {
    let mut words = Words { rest: requests };
    let count = words.line().and_then(|line| std::str::from_utf8(&line[1..]).ok()?.parse::<usize>().ok());
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
    words(requests).any(|word| [&b"FLUSHALL"[..], b"FLUSHDB", b"SWAPDB"].iter().any(|name| word.eq_ignore_ascii_case(name)))
}

/// XREAD and XREADGROUP wait only with BLOCK; the others always may.
fn waits(name: &[u8], words: Words<'_>) -> bool {
    let streams = name.eq_ignore_ascii_case(b"XREAD") || name.eq_ignore_ascii_case(b"XREADGROUP");
    !streams || words.take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS")).any(|word| word.eq_ignore_ascii_case(b"BLOCK"))
}

/// Which way to take in place of a command that belongs to the connection.
fn instead(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).to_uppercase();
    let way = match name.as_str() {
        "SELECT" => "name the database by `client.db(number)`",
        "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" => "use `db.transaction()`",
        "AUTH" | "HELLO" => "name user and password in the URL",
        "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => "use `client.subscribe()`",
        _ => "it would change the connection that all calls share; open a connection of its own for it",
    };
    format!("{name} cannot be called on a shared connection: {way}")
}

fn facts(first: &[u8], second: Option<&[u8]>) -> Option<u8> {
    let mut name = [0; NAME_BYTES_MAX];
    let mut len = first.len();
    name.get_mut(..len)?.copy_from_slice(first);
    name[..len].make_ascii_uppercase();
    let alone = lookup(&name[..len]);
    if alone.is_some() {
        return alone;
    }
    let second = second?;
    *name.get_mut(len)? = b'|';
    name.get_mut(len + 1..len + 1 + second.len())?.copy_from_slice(second);
    len += 1 + second.len();
    name[..len].make_ascii_uppercase();
    lookup(&name[..len])
}

fn lookup(name: &[u8]) -> Option<u8> {
    let at = table::FACTS.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).ok()?;
    Some(table::FACTS[at].1)
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
            self.line()?;
        }
        let len = std::str::from_utf8(&self.line()?[1..]).ok()?.parse::<usize>().ok()?;
        let word = self.rest.get(..len)?;
        self.rest = self.rest.get(len + 2..)?;
        Some(word)
    }
}

impl<'r> Words<'r> {
    fn line(&mut self) -> Option<&'r [u8]> {
        let end = self.rest.iter().position(|byte| *byte == b'\r')?;
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..)?;
        Some(line)
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
    fn facts_are_those_of_the_command() {
        assert_eq!(of(("get", "k")), Ok((true, false)));
        assert_eq!(of(("SET", "k", "v")), Ok((false, false)));
        assert_eq!(of(("EVAL", "return 1", 0)), Ok((false, true)));
        assert_eq!(of(("OBJECT", "ENCODING", "k")), Ok((true, false)));
        assert_eq!(of(("SOME.MODULE", "k")), Ok((false, true)));
        assert_eq!(of(("XREAD", "STREAMS", "block", "0")), Ok((true, false)));
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
