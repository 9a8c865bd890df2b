//! One reply as a value, whichever door it came through, and how redis-cli shows it on a terminal.
//!
//! The text form is what transcripts are written in, so it follows redis-cli's non-raw output: `(integer) 1`,
//! `"text"`, `(nil)`, `1) "a"`, `1# "key" => "value"`, `1~ "member"`. One deviation: verbatim text is quoted like
//! a bulk string, so that a transcript says the same for RESP2 and RESP3.
use std::fmt::Write;

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Boolean(bool),
    /// The text of the number, as it went over the wire.
    Double(String),
    BigNumber(String),
    Verbatim {
        format: String,
        text: Vec<u8>,
    },
    Array(Vec<Answer>),
    Set(Vec<Answer>),
    Push(Vec<Answer>),
    Map(Vec<(Answer, Answer)>),
}

impl Answer {
    /// The same reply as a RESP2 client gets it.
    pub fn lowered(self) -> Answer {
        match self {
            Answer::Boolean(value) => Answer::Integer(value.into()),
            Answer::Double(text) | Answer::BigNumber(text) => Answer::Bulk(text.into_bytes()),
            Answer::Verbatim { text, .. } => Answer::Bulk(text),
            Answer::Array(items) | Answer::Set(items) | Answer::Push(items) => {
                Answer::Array(items.into_iter().map(Answer::lowered).collect())
            }
            Answer::Map(pairs) => Answer::Array(
                pairs.into_iter().flat_map(|(key, value)| [key.lowered(), value.lowered()]).collect(),
            ),
            plain => plain,
        }
    }

    /// The same reply with its outermost elements in the order of their text: for replies whose order means nothing.
    pub fn sorted(self) -> Answer {
        let by_text = |mut items: Vec<Answer>| {
            items.sort_by_cached_key(Answer::shown);
            items
        };
        match self {
            Answer::Array(items) => Answer::Array(by_text(items)),
            Answer::Set(items) => Answer::Set(by_text(items)),
            Answer::Map(mut pairs) => {
                pairs.sort_by_cached_key(|(key, _)| key.shown());
                Answer::Map(pairs)
            }
            plain => plain,
        }
    }

    /// The text that redis-cli prints on a terminal, without the last line feed.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        self.show(&mut text, "");
        text
    }

    fn show(&self, text: &mut String, indent: &str) {
        match self {
            Answer::Status(status) => text.push_str(status),
            Answer::Error(error) => *text += &format!("(error) {error}"),
            Answer::Integer(value) => *text += &format!("(integer) {value}"),
            Answer::Double(value) => *text += &format!("(double) {value}"),
            Answer::BigNumber(value) => *text += &format!("(big number) {value}"),
            Answer::Boolean(value) => *text += if *value { "(true)" } else { "(false)" },
            Answer::Nil => text.push_str("(nil)"),
            Answer::Bulk(bytes) | Answer::Verbatim { text: bytes, .. } => text.push_str(&quoted(bytes)),
            Answer::Array(items) => show_items(text, items, indent, ')', "(empty array)"),
            Answer::Push(items) => show_items(text, items, indent, ')', "(empty push)"),
            Answer::Set(items) => show_items(text, items, indent, '~', "(empty set)"),
            Answer::Map(pairs) => show_pairs(text, pairs, indent),
        }
    }
}

fn show_items(text: &mut String, items: &[Answer], indent: &str, mark: char, empty: &str) {
    if items.is_empty() {
        return text.push_str(empty);
    }
    let width = items.len().to_string().len();
    let deeper = format!("{indent}{}", " ".repeat(width + 2));
    for (at, item) in items.iter().enumerate() {
        let lead = if at == 0 { String::new() } else { format!("\n{indent}") };
        let _ = write!(text, "{lead}{:>width$}{mark} ", at + 1);
        item.show(text, &deeper);
    }
}

fn show_pairs(text: &mut String, pairs: &[(Answer, Answer)], indent: &str) {
    if pairs.is_empty() {
        return text.push_str("(empty hash)");
    }
    let width = pairs.len().to_string().len();
    let deeper = format!("{indent}{}", " ".repeat(width + 2));
    for (at, (key, value)) in pairs.iter().enumerate() {
        let lead = if at == 0 { String::new() } else { format!("\n{indent}") };
        let _ = write!(text, "{lead}{:>width$}# ", at + 1);
        key.show(text, &deeper);
        // What takes more than one line begins on the next.
        let mut shown = String::new();
        value.show(&mut shown, &deeper);
        let _ = if shown.contains('\n') {
            write!(text, " =>\n{deeper}{shown}")
        } else {
            write!(text, " => {shown}")
        };
    }
}

/// Bytes as redis-cli quotes them: printable ASCII as it is, the rest as escapes.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte as char]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(byte as char),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Answer {
        Answer::Bulk(text.into())
    }

    #[test]
    fn answers_look_as_in_redis_cli() {
        let cases = [
            (Answer::Status("OK".into()), "OK"),
            (Answer::Error("ERR no".into()), "(error) ERR no"),
            (Answer::Integer(-7), "(integer) -7"),
            (Answer::Nil, "(nil)"),
            (Answer::Boolean(true), "(true)"),
            (Answer::Bulk(b"a\"\\\n\x00\xff".to_vec()), "\"a\\\"\\\\\\n\\x00\\xff\""),
            (Answer::Array(vec![]), "(empty array)"),
            (
                Answer::Array(vec![bulk("a"), Answer::Array(vec![bulk("b"), bulk("c")])]),
                "1) \"a\"\n2) 1) \"b\"\n   2) \"c\"",
            ),
            (Answer::Map(vec![(bulk("k"), Answer::Integer(1))]), "1# \"k\" => (integer) 1"),
            (Answer::Map(vec![(bulk("k"), Answer::Array(vec![bulk("m")]))]), "1# \"k\" => 1) \"m\""),
            (
                Answer::Map(vec![(bulk("k"), Answer::Array(vec![bulk("m"), bulk("n")]))]),
                "1# \"k\" =>\n   1) \"m\"\n   2) \"n\"",
            ),
            (Answer::Set(vec![bulk("m")]), "1~ \"m\""),
        ];
        for (answer, text) in cases {
            assert_eq!(answer.shown(), text);
        }
    }

    #[test]
    fn numbers_of_long_arrays_are_aligned() {
        let shown = Answer::Array(vec![Answer::Nil; 10]).shown();
        assert!(shown.starts_with(" 1) (nil)\n 2) (nil)") && shown.ends_with("\n10) (nil)"), "{shown}");
    }

    #[test]
    fn a_resp2_client_gets_a_map_as_a_flat_array() {
        let map = Answer::Map(vec![(bulk("k"), Answer::Double("1.5".into()))]);
        assert_eq!(map.lowered(), Answer::Array(vec![bulk("k"), bulk("1.5")]));
    }
}
