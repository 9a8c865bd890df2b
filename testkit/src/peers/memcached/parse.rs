//! Replies of memcached's protocols, taken apart into what is compared alike.
use super::{KEYS, name};

/// One part of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// It is equal on both sides.
    Word(Vec<u8>),
    /// The CAS of a key.
    Cas(usize, u64),
    /// A time to live in seconds, of a key; -1 for none.
    Ttl(usize, i64),
    /// The form in which `me` shows it.
    Expiry(usize, i64),
    /// Seconds since the last access.
    Idle(u64),
    /// The item has been fetched before.
    Fetched(Vec<u8>),
    /// A key as a meta command shows it.
    Key(Vec<u8>),
    /// The length of a value, of a key.
    Length(usize, u64),
    /// A value, of a key.
    Value(usize, Vec<u8>),
    /// A mark of a key: won (W), stale (X), or another client has won (Z).
    Mark(usize, u8),
    /// The memory, as `me` shows it.
    Memory(Vec<u8>),
}

/// Takes the reply to a step of the text protocol apart. Lines that make no sense are words.
pub fn text(reply: &[u8], sequence: &str, key: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = reply;
    while !rest.is_empty() {
        let end = memchr::memmem::find(rest, b"\r\n").map_or(rest.len(), |at| at + 2);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        let words: Vec<&[u8]> = line.trim_ascii_end().split(|byte| *byte == b' ').collect();
        let value = match words[..] {
            [b"VALUE", found, _, length, ..] => {
                let found = (0..KEYS).find(|key| found == name(sequence, *key).as_bytes()).unwrap_or(key);
                value_line(&words, found, &mut parts);
                Some((found, length))
            }
            [b"VA", length, ..] => {
                parts.push(Part::Length(key, number(length)));
                flags(&words[2..], key, &mut parts);
                Some((key, length))
            }
            [b"HD" | b"EN" | b"NF" | b"NS" | b"EX", ..] => {
                parts.push(Part::Word(words[0].to_vec()));
                flags(&words[1..], key, &mut parts);
                None
            }
            [b"ME", ..] => {
                debug_line(&words, key, &mut parts);
                None
            }
            _ => {
                parts.push(Part::Word(line.to_vec()));
                None
            }
        };
        if let Some((key, length)) = value {
            let length = (number(length) as usize).min(rest.len());
            parts.push(Part::Value(key, rest[..length].to_vec()));
            rest = &rest[length..];
            rest = rest.strip_prefix(b"\r\n").unwrap_or(rest);
        }
    }
    parts
}

fn number(digits: &[u8]) -> u64 {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX)
}

fn signed(digits: &[u8]) -> i64 {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(i64::MIN)
}

fn value_line(words: &[&[u8]], key: usize, parts: &mut Vec<Part>) {
    parts.push(Part::Word(words[..3].join(&b' ')));
    parts.push(Part::Length(key, number(words[3])));
    if let Some(cas) = words.get(4) {
        parts.push(Part::Cas(key, number(cas)));
    }
}

fn flags(words: &[&[u8]], key: usize, parts: &mut Vec<Part>) {
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some((flag, token)) = word.split_first() else { continue };
        parts.push(match flag {
            b'c' => Part::Cas(key, number(token)),
            b't' if *token == *b"-1" => Part::Ttl(key, -1),
            b't' => Part::Ttl(key, number(token) as i64),
            b'l' => Part::Idle(number(token)),
            b's' => Part::Length(key, number(token)),
            b'W' | b'X' | b'Z' => Part::Mark(key, *flag),
            b'h' => Part::Fetched(token.to_vec()),
            b'k' => {
                let is_base64 = words.next_if(|next| **next == b"b").is_some();
                Part::Key(if is_base64 { [token, b" b"].concat() } else { token.to_vec() })
            }
            _ => Part::Word(word.to_vec()),
        });
    }
}

fn debug_line(words: &[&[u8]], key: usize, parts: &mut Vec<Part>) {
    parts.push(Part::Word(b"ME".to_vec()));
    for word in &words[1..] {
        let mut split = word.splitn(2, |byte| *byte == b'=');
        let (name, value) = (split.next().unwrap_or_default(), split.next().unwrap_or_default());
        parts.push(match name {
            b"exp" => Part::Expiry(key, signed(value)),
            b"la" => Part::Idle(number(value)),
            b"cas" => Part::Cas(key, number(value)),
            b"fetch" => Part::Fetched(value.to_vec()),
            b"cls" | b"size" => Part::Memory(value.to_vec()),
            _ => Part::Key(word.to_vec()),
        });
    }
}

/// Takes the replies of the binary protocol to one step apart.
pub fn binary(mut reply: &[u8], key: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    while let Some((header, rest)) = reply.split_first_chunk::<24>() {
        let (key_bytes, extras_bytes) =
            (usize::from(header[3]) + usize::from(header[2]) * 256, header[4] as usize);
        let body_bytes = body_bytes(header).min(rest.len());
        let (body, behind) = rest.split_at(body_bytes);
        reply = behind;
        let front = (extras_bytes + key_bytes).min(body.len());
        // Magic, opcode, status and opaque, and the extras with the key.
        parts.push(Part::Word([&header[..8], &header[12..16], &body[..front]].concat()));
        let cas = u64::from_be_bytes(*header.last_chunk().unwrap_or(&[0; 8]));
        parts.push(Part::Cas(key, cas));
        parts.push(Part::Value(key, body[front..].to_vec()));
    }
    parts
}

/// The length of what follows a header.
pub fn body_bytes(header: &[u8; 24]) -> usize {
    u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_no_line_of_a_reply() {
        let parts = text(b"VA 4 c7 t-1 kxa b W\r\nHD\r\n\r\nEN\r\n", "x", 1);
        assert_eq!(
            parts,
            [
                Part::Length(1, 4),
                Part::Cas(1, 7),
                Part::Ttl(1, -1),
                Part::Key(b"xa b".to_vec()),
                Part::Mark(1, b'W'),
                Part::Value(1, b"HD\r\n".to_vec()),
                Part::Word(b"EN".to_vec()),
            ]
        );
        let parts = text(b"VALUE xb 5 1 9\r\n1\r\nEND\r\n", "x", 0);
        assert_eq!(parts[2..4], [Part::Cas(1, 9), Part::Value(1, b"1".to_vec())]);
    }
}
