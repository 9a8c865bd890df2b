//! Lines of words as Redis splits them: inline requests, configuration files and the command line share it.
//!
//! Words are parted by white space. `"..."` understands `\n \r \t \b \a \xHH` and `\` before anything else; `'...'`
//! understands `\'` only. A closing quote must be followed by white space or the end. A NUL byte ends the line.

/// Splits a line into words, unescaped; none when a quote is not closed, or something follows its end.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|byte| is_space(**byte)).count();
        if at == line.len() {
            return Some(words);
        }
        let (word, next) = word(line, at)?;
        words.push(word);
        at = next;
    }
}

/// Writes a word so that [`split`] reads it back: bare where that is safe, else in double quotes.
pub fn quote(word: &[u8]) -> String {
    let bare = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\#".contains(byte);
    if !word.is_empty() && word.iter().all(bare) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut text = String::from("\"");
    for byte in word {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x07 => text.push_str("\\a"),
            0x08 => text.push_str("\\b"),
            b'"' | b'\\' => text.extend(['\\', *byte as char]),
            b' '..=b'~' => text.push(*byte as char),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text.push('"');
    text
}

/// The word that starts at `at`, and where the next may start.
fn word(line: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    while let Some(&byte) = line.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return Some((word, at + 1)),
            b'"' | b'\'' => {
                let end = quoted(line, at + 1, byte, &mut word)?;
                let closed = line.get(end).is_none_or(|next| is_space(*next));
                return closed.then_some((word, end));
            }
            _ => word.push(byte),
        }
        at += 1;
    }
    Some((word, at))
}

/// Appends what stands between quotes to `word`; returns where the closing quote ends.
fn quoted(line: &[u8], mut at: usize, quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        let rest = line.get(at..)?;
        at += match (quote, rest) {
            (_, [first, ..]) if *first == quote => return Some(at + 1),
            (b'"', [b'\\', b'x', high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                4
            }
            (b'"', [b'\\', escaped, ..]) => {
                word.push(unescaped(*escaped));
                2
            }
            (b'\'', [b'\\', b'\'', ..]) => {
                word.push(b'\'');
                2
            }
            (_, [plain, ..]) => {
                word.push(*plain);
                1
            }
            (_, []) => return None,
        };
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).map_or(0, |value| value as u8)
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<String>> {
        Some(split(line)?.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect())
    }

    #[test]
    fn lines_split_as_redis_splits_them() {
        let cases: &[(&[u8], Option<&[&str]>)] = &[
            (b"", Some(&[])),
            (b"   ", Some(&[])),
            (b"get key", Some(&["get", "key"])),
            (b"\tget\x0b key ", Some(&["get\x0b", "key"])),
            (b"set k \"a b\"", Some(&["set", "k", "a b"])),
            (b"set k \"\\x41\\n\\q\\\"\"", Some(&["set", "k", "A\nq\""])),
            (b"set k \"\\xg1\"", Some(&["set", "k", "xg1"])),
            (b"set k 'it\\'s \\n'", Some(&["set", "k", "it's \\n"])),
            (b"set k \"\"", Some(&["set", "k", ""])),
            (b"pre\"fix\" x", Some(&["prefix", "x"])),
            (b"get\0key", Some(&["get"])),
            (b"set k \"a\"b", None),
            (b"set k \"open", None),
            (b"set k 'open", None),
            (b"set k \"open\\", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|list| list.iter().map(|word| word.to_string()).collect::<Vec<_>>());
            assert_eq!(words(line), expected, "{:?}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn quoted_words_read_back() {
        for word in
            [b"".as_slice(), b"plain", b"two words", b"\"'\\", b"\x00\x07\x08\t\r\n\xff", b"#no comment"]
        {
            assert_eq!(split(quote(word).as_bytes()), Some(vec![word.to_vec()]));
        }
    }
}
