//! Paths, queries and their escapes.
use std::borrow::Cow;

/// A target in its two parts: the path, and the query without its question mark.
pub fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// The bytes that a part of a path stands for (`%2F` is a slash); `None` if an escape is not whole.
pub fn unescaped(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    match memchr::memchr(b'%', text) {
        None => Some(Cow::Borrowed(text)),
        Some(_) => decoded(text, false).map(Cow::Owned),
    }
}

/// The bytes that a value of a query stands for: a plus is a blank.
pub fn unescaped_value(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    match memchr::memchr2(b'%', b'+', text) {
        None => Some(Cow::Borrowed(text)),
        Some(_) => decoded(text, true).map(Cow::Owned),
    }
}

fn decoded(text: &[u8], plus_is_blank: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => (digit(*rest.next()?)? << 4) | digit(*rest.next()?)?,
            b'+' if plus_is_blank => b' ',
            other => *other,
        });
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The parameters of a query, `name=value` each, with their escapes. A name without `=` has an empty value.
pub fn parameters(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).map(|part| {
        match memchr::memchr(b'=', part) {
            Some(at) => (&part[..at], &part[at + 1..]),
            None => (part, &[][..]),
        }
    })
}

/// The words of a command in a query (`set+key+some%20value`); `None` if an escape is not whole.
pub fn words(command: &[u8]) -> Option<Vec<Vec<u8>>> {
    command.split(|byte| *byte == b'+').map(|word| unescaped(word).map(Cow::into_owned)).collect()
}
