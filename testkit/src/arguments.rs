//! A command line as redis-cli splits it: blanks between arguments, `"..."` with escapes, `'...'` without.
//!
//! One addition for big values: the unquoted argument `repeat:COUNT:TEXT` stands for TEXT, COUNT times over.

/// Splits a line into arguments.
///
/// # Errors
/// A text that names what is wrong: unbalanced quotes, or a quote that does not end its argument.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut rest = line.as_bytes();
    let mut arguments = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        let (argument, left) = match rest.first() {
            None => return Ok(arguments),
            Some(b'"') => double_quoted(&rest[1..])?,
            Some(b'\'') => single_quoted(&rest[1..])?,
            Some(_) => plain(rest)?,
        };
        if left.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return Err("a quote must be followed by a blank".into());
        }
        arguments.push(argument);
        rest = left;
    }
}

type Taken<'l> = Result<(Vec<u8>, &'l [u8]), String>;

fn plain(rest: &[u8]) -> Taken<'_> {
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    let (word, left) = rest.split_at(end);
    let Some(repeated) = word.strip_prefix(b"repeat:") else {
        return Ok((word.to_vec(), left));
    };
    let parts = repeated.iter().position(|&byte| byte == b':').map(|at| (&repeated[..at], &repeated[at + 1..]));
    let (count, text) = parts.ok_or("repeat:COUNT:TEXT has two colons")?;
    let count: usize = String::from_utf8_lossy(count).parse().map_err(|_| "repeat:COUNT:TEXT needs a number")?;
    Ok((text.repeat(count), left))
}

fn single_quoted(rest: &[u8]) -> Taken<'_> {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        match (rest.get(at), rest.get(at + 1)) {
            (None, _) => return Err("unbalanced quotes".into()),
            (Some(b'\''), _) => return Ok((bytes, &rest[at + 1..])),
            (Some(b'\\'), Some(b'\'')) => {
                bytes.push(b'\'');
                at += 2;
            }
            (Some(&byte), _) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
}

fn double_quoted(rest: &[u8]) -> Taken<'_> {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        match rest.get(at) {
            None => return Err("unbalanced quotes".into()),
            Some(b'"') => return Ok((bytes, &rest[at + 1..])),
            Some(b'\\') => {
                let (byte, length) = escape(&rest[at + 1..])?;
                bytes.push(byte);
                at += 1 + length;
            }
            Some(&byte) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
}

/// The byte that an escape stands for, and how many characters follow the backslash.
fn escape(rest: &[u8]) -> Result<(u8, usize), String> {
    let hex = |byte: Option<&u8>| byte.and_then(|&byte| (byte as char).to_digit(16));
    match rest.first() {
        None => Err("unbalanced quotes".into()),
        Some(b'x') => match (hex(rest.get(1)), hex(rest.get(2))) {
            (Some(high), Some(low)) => Ok(((high * 16 + low) as u8, 3)),
            _ => Ok((b'x', 1)),
        },
        Some(b'n') => Ok((b'\n', 1)),
        Some(b'r') => Ok((b'\r', 1)),
        Some(b't') => Ok((b'\t', 1)),
        Some(b'a') => Ok((7, 1)),
        Some(b'b') => Ok((8, 1)),
        Some(&byte) => Ok((byte, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_redis_cli_splits_them() {
        let cases: &[(&str, &[&[u8]])] = &[
            ("", &[]),
            ("SET a b", &[b"SET", b"a", b"b"]),
            (r#"SET "a b" """#, &[b"SET", b"a b", b""]),
            (r#"SET "\x00\xfF\n\\\"" 'a\x\'b'"#, &[b"SET", b"\x00\xff\n\\\"", b"a\\x'b"]),
            ("repeat:3:ab", &[b"ababab"]),
        ];
        for (line, arguments) in cases {
            assert_eq!(split(line).unwrap(), arguments.iter().map(|a| a.to_vec()).collect::<Vec<_>>(), "{line}");
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in ["\"a", "'a", "\"a\"b", "\"a\\", "repeat:x:y", "repeat:1"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
