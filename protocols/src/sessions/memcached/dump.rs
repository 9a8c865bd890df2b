//! `lru_crawler metadump` and `mgdump`, and `stats cachedump`: all keys that memcached could have.
use polder_engine::Memory;
use polder_runtime::{Host, Session};
use polder_wire::Output;
use polder_wire::memcached::KEY_BYTES_MAX;

use super::Own;
use super::capture::Capture;
use super::sink::error_line;

/// How many keys are looked at in a turn.
const PAGE: &[u8] = b"1000";
/// The first cursor of SCAN, which is also what it returns at the end.
const START: &[u8] = b"0";
/// With more that waits to be sent, the next page waits, too.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// What of each key is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dump {
    /// The key with what is known of it.
    Meta,
    /// An `mg` for the key.
    Mg,
    /// Its size and expiry, of this many keys at most (`stats cachedump`).
    Cache(u64),
}

/// A list of keys under way.
#[derive(Debug)]
pub struct Cursor {
    /// Where SCAN goes on.
    scan: Vec<u8>,
    /// How many more keys may be listed.
    left: u64,
}

/// What the words behind `lru_crawler` ask for.
pub fn request(words: &[&[u8]]) -> Own {
    match words {
        [b"metadump", b"all" | b"hash"] => Own::Dump(Dump::Meta),
        [b"mgdump", b"all" | b"hash"] => Own::Dump(Dump::Mg),
        // Expired items are removed without being asked.
        [b"enable" | b"disable"] | [b"crawl" | b"sleep" | b"tocrawl", _] => Own::Text("OK"),
        _ => Own::Text("ERROR"),
    }
}

/// What the words behind `stats cachedump` ask for: a slab class, and how many keys, 0 for all. Every item is of class 1.
pub fn cache_request(words: &[&[u8]]) -> Own {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u32>().ok();
    let [class, limit, ..] = words else {
        return Own::Text("CLIENT_ERROR bad command line");
    };
    match (number(class), number(limit)) {
        (Some(1), Some(0)) => Own::Dump(Dump::Cache(u64::MAX)),
        (Some(1), Some(limit)) => Own::Dump(Dump::Cache(limit.into())),
        (Some(_), Some(_)) => Own::Text("END"),
        _ => Own::Text("CLIENT_ERROR bad command line format"),
    }
}

/// Lists a page of the keys, from this cursor on. Returns where the next page begins. A client that does not read gets no
/// more for now.
pub fn write_page(
    (dump, is_udp): (Dump, bool),
    from: Option<Cursor>,
    session: &mut Session,
    host: (&dyn Host, &Memory),
    output: &mut Output,
) -> Option<Cursor> {
    let limit = if let Dump::Cache(limit) = dump { limit } else { u64::MAX };
    let mut from = from.unwrap_or_else(|| Cursor { scan: START.to_vec(), left: limit });
    // Over UDP nothing is sent before the end; a reply that is too long ends there.
    if !is_udp && output.waiting() > WAITING_BYTES_MAX {
        return Some(from);
    }
    let page = Capture::of(session, host, &[b"SCAN", &from.scan, b"COUNT", PAGE, b"TYPE", b"string"]);
    if let Some(error) = page.error {
        output.raw(error_line(&error).as_bytes());
        output.raw(b"\r\n");
        return None;
    }
    let mut keys = page.bulks.into_iter();
    let next = keys.next().filter(|next| next != START && !output.is_overfull());
    for key in keys.filter(|key| is_reachable(key)) {
        if from.left > 0 && write_key(dump, &key, session, host, output) {
            from.left -= 1;
        }
    }
    let next = next.filter(|_| from.left > 0);
    if next.is_none() {
        output.raw(if dump == Dump::Mg { b"EN\r\n" } else { b"END\r\n" });
    }
    next.map(|scan| Cursor { scan, ..from })
}

/// Whether a client of memcached can name a key.
fn is_reachable(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
        && !key.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

/// Returns whether the key is still there.
fn write_key(
    dump: Dump,
    key: &[u8],
    session: &mut Session,
    host: (&dyn Host, &Memory),
    output: &mut Output,
) -> bool {
    if dump == Dump::Mg {
        output.raw(b"mg ");
        output.raw(key);
        output.raw(b"\r\n");
        return true;
    }
    let Some((_, cas, ttl_ms, bytes, idle_seconds)) =
        Capture::of(session, host, &[b"ITEM.GET", key, b"PEEK", b"HEAD"]).item
    else {
        return false;
    };
    let now = polder_base::time::now_ms() / 1000;
    let expires = ttl_ms.map(|ttl_ms| now + ttl_ms.div_ceil(1000));
    if matches!(dump, Dump::Cache(_)) {
        output.raw(b"ITEM ");
        output.raw(key);
        output.raw(format!(" [{bytes} b; {} s]\r\n", expires.unwrap_or(0)).as_bytes());
        return true;
    }
    let expiry = expires.map_or(-1, |expires| expires as i64);
    output.raw(b"key=");
    for byte in key {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => output.raw(&[*byte]),
            _ => output.raw(format!("%{byte:02X}").as_bytes()),
        }
    }
    let seen = now.saturating_sub(idle_seconds);
    let size = key.len() as u64 + bytes;
    output.raw(format!(" exp={expiry} la={seen} cas={cas} fetch=yes cls=1 size={size}\n").as_bytes());
    true
}
