//! The flags of replies to meta commands, written from the words of the request.
use polder_base::time::now_ms;
use polder_base::{Item, Recache};
use polder_wire::Output;
use polder_wire::memcached::RELATIVE_SECONDS_MAX;
use polder_wire::memcached::text::signed;

/// Writes the flags of a reply: those that the request asks for, in its order, as far as its command `shows` them.
pub fn write_flags(output: &mut Output, (request, shows): (&[u8], &[u8]), item: Option<&Item<'_>>) {
    let mut words = request.split(|byte| *byte == b' ');
    let key = words.next().unwrap_or_default();
    let is_base64 = words.clone().any(|word| word == b"b");
    let mut digits = itoa::Buffer::new();
    // A t shows the time to live that a T in front of it has set; of a new item also an N, and without either it has none yet.
    let is_new = item.is_some_and(|item| item.is_new);
    let mut touched = is_new.then_some(0);
    for word in words {
        let flag = word.first().copied().unwrap_or_default();
        if flag == b'T' || flag == b'N' && is_new {
            touched = signed(&word[1..]).map(|ttl| seconds_left(ttl.value));
        }
        if !shows.contains(&flag) {
            continue;
        }
        let figure = match (flag, item) {
            (b'k', _) => {
                output.raw(b" k");
                output.raw(key);
                output.raw(if is_base64 { b" b" } else { b"" });
                continue;
            }
            (b'O', _) => {
                output.raw(b" ");
                output.raw(word);
                continue;
            }
            (b't', Some(_)) if touched.is_some_and(|ttl| ttl > 0) => {
                touched.unwrap_or_default().unsigned_abs()
            }
            (b't', Some(item)) if touched == Some(0) || item.ttl_ms.is_none() => {
                output.raw(b" t-1");
                continue;
            }
            (b't', Some(item)) => item.ttl_ms.unwrap_or_default().div_ceil(1000),
            (b'c', Some(item)) => item.cas,
            (b'f', Some(item)) => item.flags.into(),
            (b'h', Some(item)) => item.fetched.into(),
            (b'l', Some(item)) => item.idle_seconds,
            (b's', Some(item)) => item.bytes,
            _ => continue,
        };
        output.raw(&[b' ', flag]);
        output.raw(digits.format(figure).as_bytes());
    }
    let Some(item) = item else { return };
    for (mark, is_set) in
        [(b'Z', item.recache == Recache::Taken), (b'X', item.stale), (b'W', item.recache == Recache::Won)]
    {
        if is_set && shows.contains(&mark) {
            output.raw(&[b' ', mark]);
        }
    }
}

/// The time to live that a T or an N means, which may be a Unix time.
fn seconds_left(ttl: i64) -> i64 {
    if ttl > RELATIVE_SECONDS_MAX { ttl - (now_ms() / 1000).cast_signed() } else { ttl }
}
