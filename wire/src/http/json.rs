//! JSON: what calls reply, and the calls that clients send.
//!
//! | a reply in RESP3 | in JSON |
//! |---|---|
//! | a string or status in UTF-8 | a string |
//! | other bytes | `{"base64":"..."}` |
//! | an integer, a double, a big number | a number; `inf` and `nan` are strings |
//! | null, a boolean | `null`, `true`, `false` |
//! | an array, a set, a push | an array |
//! | a map | an object; a key that is not UTF-8 is `"base64:..."`, as is a key that begins so |
//! | an error | `{"error":"..."}` |
//!
//! A command is an array of words. A word is a string, a number (as it is written), or `{"base64":"..."}`.

use super::base64;

/// Appends a string with its quotes.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends bytes as a string, or in base64.
pub fn value(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => string(out, text),
        Err(_) => {
            out.extend_from_slice(b"{\"base64\":");
            string(out, &encoded(bytes, ""));
            out.push(b'}');
        }
    }
}

/// Appends the key of an object.
fn key(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with("base64:") => string(out, text),
        _ => string(out, &encoded(bytes, "base64:")),
    }
}

fn encoded(bytes: &[u8], prefix: &str) -> String {
    let mut text = prefix.to_owned();
    base64::encode(bytes, &mut text);
    text
}

/// The JSON of one reply, which is whole and in RESP3.
pub fn of_resp(reply: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(reply.len() + reply.len() / 4);
    append_resp(&mut out, reply);
    out
}

/// An open container.
struct Open {
    /// Elements still to come; of a map, keys and values.
    left: usize,
    is_map: bool,
    is_first: bool,
}

/// Appends the JSON of one reply. Returns how many bytes the reply has.
pub fn append_resp(out: &mut Vec<u8>, reply: &[u8]) -> usize {
    let mut at = 0;
    let mut open: Vec<Open> = Vec::new();
    loop {
        while let Some(last) = open.last().filter(|last| last.left == 0) {
            out.push(if last.is_map { b'}' } else { b']' });
            open.pop();
        }
        if at > 0 && open.is_empty() {
            return at;
        }
        let Some((mark, line, after)) = line(&reply[at..]) else { return reply.len() };
        let is_key = match open.last_mut() {
            Some(last) => {
                let is_key = last.is_map && last.left % 2 == 0;
                if !last.is_first {
                    out.push(if last.is_map && !is_key { b':' } else { b',' });
                }
                last.is_first = false;
                last.left -= 1;
                is_key
            }
            None => false,
        };
        at += after;
        let length =
            || std::str::from_utf8(line).ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        match mark {
            b'$' | b'=' => {
                let whole = reply.get(at..at + length()).unwrap_or_default();
                at += whole.len() + 2;
                let text = if mark == b'=' { whole.get(4..).unwrap_or_default() } else { whole };
                if is_key { key(out, text) } else { value(out, text) }
            }
            b'+' if is_key => key(out, line),
            b'+' => value(out, line),
            b'-' => {
                out.extend_from_slice(b"{\"error\":");
                string(out, &String::from_utf8_lossy(line));
                out.push(b'}');
            }
            b'*' | b'~' | b'>' | b'%' => {
                let is_map = mark == b'%';
                out.push(if is_map { b'{' } else { b'[' });
                open.push(Open {
                    left: if is_map { length() * 2 } else { length() },
                    is_map,
                    is_first: true,
                });
            }
            b'_' => out.extend_from_slice(b"null"),
            b'#' => out.extend_from_slice(if line == b"t" { b"true" } else { b"false" }),
            _ if is_key => key(out, line),
            // JSON has no number for infinity.
            _ if is_number(line) => out.extend_from_slice(line),
            _ => value(out, line),
        }
    }
}

/// Whether JSON takes the text of a number as it stands.
fn is_number(text: &[u8]) -> bool {
    text.last().is_some_and(u8::is_ascii_digit)
        && text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte))
}

/// The mark of the line at the beginning, its text, and where the next line begins.
fn line(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let end = memchr::memmem::find(input, b"\r\n")?;
    Some((*input.first()?, input.get(1..end)?, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_has_its_json() {
        let cases: &[(&[u8], &str)] = &[
            (b"+OK\r\n", r#""OK""#),
            (b"$5\r\na\"\n\\b\r\n", r#""a\"\n\\b""#),
            (b"$1\r\n\x01\r\n", r#""\u0001""#),
            (b"$2\r\n\xff\xfe\r\n", r#"{"base64":"//4="}"#),
            (b"$0\r\n\r\n", r#""""#),
            (b":-42\r\n", "-42"),
            (b",3.25\r\n", "3.25"),
            (b",inf\r\n", r#""inf""#),
            (b",nan\r\n", r#""nan""#),
            (b"(123456789012345678901234567890\r\n", "123456789012345678901234567890"),
            (b"_\r\n", "null"),
            (b"#t\r\n", "true"),
            (b"=6\r\ntxt:hi\r\n", r#""hi""#),
            (b"-WRONGTYPE no\r\n", r#"{"error":"WRONGTYPE no"}"#),
            (b"*0\r\n", "[]"),
            (b"%0\r\n", "{}"),
            (b"*3\r\n:1\r\n*1\r\n~0\r\n$1\r\nx\r\n", r#"[1,[[]],"x"]"#),
            (b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n_\r\n#f\r\n", r#"{"a":1,"b":[null,false]}"#),
            (
                b"%2\r\n$1\r\n\xff\r\n:1\r\n$8\r\nbase64:x\r\n:2\r\n",
                r#"{"base64:/w==":1,"base64:YmFzZTY0Ong=":2}"#,
            ),
            (b"%1\r\n:7\r\n:1\r\n", r#"{"7":1}"#),
        ];
        for (reply, json) in cases {
            assert_eq!(String::from_utf8(of_resp(reply)).unwrap(), *json);
        }
    }
}
