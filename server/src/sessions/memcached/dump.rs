//! `lru_crawler metadump` and `mgdump`: all keys that memcached could have.
use polder_engine::Memory;
use polder_runtime::{Host, Session};
use polder_wire::Output;
use polder_wire::memcached::KEY_BYTES_MAX;

use super::capture::Capture;
use super::sink::error_line;
use super::{Cursor, Own};

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

/// Lists a page of the keys, from this cursor on. Returns where the next page begins. A client that does not read gets no
/// more for now.
pub fn write_page(
    (dump, is_udp): (Dump, bool),
    from: Option<Cursor>,
    session: &mut Session,
    host: (&dyn Host, &Memory),
    output: &mut Output,
) -> Option<Cursor> {
    let from = from.unwrap_or_else(|| START.to_vec());
    // Over UDP nothing is sent before the end; a reply that is too long ends there.
    if !is_udp && output.waiting() > WAITING_BYTES_MAX {
        return Some(from);
    }
    let page = Capture::of(session, host, &[b"SCAN", &from, b"COUNT", PAGE, b"TYPE", b"string"]);
    if let Some(error) = page.error {
        output.raw(error_line(&error).as_bytes());
        output.raw(b"\r\n");
        return None;
    }
    let mut keys = page.bulks.into_iter();
    let next = keys.next().filter(|next| next != START && !output.is_overfull());
    for key in keys.filter(|key| is_reachable(key)) {
        write_key(dump, &key, session, host, output);
    }
    if next.is_none() {
        output.raw(if dump == Dump::Meta { b"END\r\n" } else { b"EN\r\n" });
    }
    next
}

/// Whether a client of memcached can name a key.
fn is_reachable(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
        && !key.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

fn write_key(dump: Dump, key: &[u8], session: &mut Session, host: (&dyn Host, &Memory), output: &mut Output) {
    if dump == Dump::Mg {
        output.raw(b"mg ");
        output.raw(key);
        return output.raw(b"\r\n");
    }
    let Some((_, cas, ttl_ms, bytes, idle_seconds)) =
        Capture::of(session, host, &[b"ITEM.GET", key, b"PEEK", b"HEAD"]).item
    else {
        return;
    };
    let now = polder_base::time::now_ms() / 1000;
    let expiry = ttl_ms.map_or(-1, |ttl_ms| (now + ttl_ms.div_ceil(1000)) as i64);
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
}
