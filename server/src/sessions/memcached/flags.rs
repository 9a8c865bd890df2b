//! The flags of replies to meta commands, written from the words of the request.
use polder_base::{Item, Recache};
use polder_wire::Output;
use polder_wire::memcached::RELATIVE_SECONDS_MAX;
use polder_wire::memcached::text::signed;

/// Figures that a reply shows.
#[derive(Clone, Copy)]
pub enum Shown<'i> {
    Item(&'i Item<'i>),
    /// No item was stored: of its figures, the CAS is 0.
    NotStored,
    /// There is no item.
    Nothing,
}

/// Writes the flags of a reply: those that the request asks for, in its order.
pub fn write_flags(output: &mut Output, request: &[u8], shown: Shown<'_>) {
    let item = if let Shown::Item(item) = shown { Some(item) } else { None };
    let mut words = request.split(|byte| *byte == b' ');
    let key = words.next().unwrap_or_default();
    let is_base64 = words.clone().any(|word| word == b"b");
    let mut digits = itoa::Buffer::new();
    // A T in front of a t shows the time to live that it has set.
    let mut touched = None;
    for word in words {
        let flag = word.first().copied().unwrap_or_default();
        if flag == b'T' {
            touched = signed(&word[1..]).map(|ttl| ttl.value).filter(|ttl| *ttl <= RELATIVE_SECONDS_MAX);
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
            (b'c', None) if matches!(shown, Shown::NotStored) => 0,
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
    output.raw(if item.recache == Recache::Taken { b" Z" } else { b"" });
    output.raw(if item.stale { b" X" } else { b"" });
    output.raw(if item.recache == Recache::Won { b" W" } else { b"" });
}
