//! Replies as text: the five forms in which redis-cli prints them, to the letter.
//!
//! | form | for | `*2 :1 $1 b` |
//! |---|---|---|
//! | standard | people: types shown, bytes quoted, nesting indented | `1) (integer) 1`, `2) "b"` |
//! | raw | other programs: bytes as they are | `1`, `b` |
//! | csv | spreadsheets: one line a reply, nesting flattened | `1,"b"` |
//! | json | as JSON; text that is not UTF-8 passes as it is | `[1,"b"]` |
//! | quoted json | as JSON of quoted strings: plain ASCII | `[1,"b"]` |
use super::Value;
use crate::terminal::harmless;

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Standard,
    Raw,
    Csv,
    Json,
    QuotedJson,
}

/// How replies are printed.
#[derive(Clone, Debug)]
pub struct Format {
    pub form: Form,
    /// What stands between the elements of a raw reply.
    pub between: Vec<u8>,
    /// What stands after each raw reply.
    pub after: Vec<u8>,
}

impl Format {
    /// The whole text of a reply. `report` marks a text made for people (INFO and its like), shown as it is in any form.
    pub fn text(&self, value: &Value, report: bool) -> Vec<u8> {
        let mut out = Vec::new();
        if report {
            self.raw(value, &mut out);
            return out;
        }
        match self.form {
            Form::Standard => indented(value, "", Paint::Plain, &mut out),
            Form::Raw => {
                self.raw(value, &mut out);
                out.extend_from_slice(&self.after);
            }
            Form::Csv => {
                csv(value, &mut out);
                out.push(b'\n');
            }
            Form::Json | Form::QuotedJson => {
                json(value, self.form == Form::QuotedJson, &mut out);
                out.push(b'\n');
            }
        }
        out
    }

    fn raw(&self, value: &Value, out: &mut Vec<u8>) {
        let mut first = true;
        let mut part = |out: &mut Vec<u8>| {
            if !std::mem::take(&mut first) {
                out.extend_from_slice(&self.between);
            }
        };
        match value {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => {
                for item in items {
                    part(out);
                    self.raw(item, out);
                }
            }
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    part(out);
                    self.raw(key, out);
                    out.push(b' ');
                    self.raw(value, out);
                }
            }
            Value::Error(text) => {
                out.extend_from_slice(text);
                out.push(b'\n');
            }
            Value::Null => {}
            Value::Attributed { value, .. } => self.raw(value, out),
            Value::Boolean(value) => out.extend_from_slice(if *value { b"(true)" } else { b"(false)" }),
            scalar => out.extend_from_slice(&bare(scalar)),
        }
    }
}

/// The bytes of a scalar without any decoration.
fn bare(value: &Value) -> Vec<u8> {
    match value {
        Value::Status(text) | Value::Error(text) | Value::Bulk(text) => text.clone(),
        Value::Verbatim { text, .. } | Value::BigNumber(text) | Value::Double(text) => text.clone(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Boolean(value) => value.to_string().into_bytes(),
        _ => Vec::new(),
    }
}

/// The text for people of one reply, with a line end. `report` marks a text made for people (INFO and its like), shown as it is.
pub fn standard(value: &Value, report: bool) -> Vec<u8> {
    let format = Format { form: Form::Standard, between: Vec::new(), after: Vec::new() };
    format.text(value, report)
}

/// Colours it by ANSI sequences. Controls are spelt out, so that no reply can do more to a terminal than be read.
pub fn coloured(value: &Value, report: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if report && !matches!(value, Value::Error(_)) {
        harmless(&standard(value, true), &mut out);
    } else {
        indented(value, "", Paint::Colours, &mut out);
    }
    out
}

/// The form of scalars.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Paint {
    Plain,
    Colours,
}

const RED: &[u8] = b"\x1b[31m";
const GREEN: &[u8] = b"\x1b[32m";
const YELLOW: &[u8] = b"\x1b[33m";
const CYAN: &[u8] = b"\x1b[36m";
const GREY: &[u8] = b"\x1b[90m";
const NO_COLOUR: &[u8] = b"\x1b[0m";

/// The colour of a scalar's type.
fn colour(value: &Value) -> &'static [u8] {
    match value {
        Value::Error(_) => RED,
        Value::Status(_) => GREEN,
        Value::Integer(_) | Value::Double(_) | Value::BigNumber(_) | Value::Boolean(_) => YELLOW,
        Value::Null => GREY,
        _ => CYAN,
    }
}

/// Whether a command replies with a text made for people.
pub fn is_report(args: &[Vec<u8>]) -> bool {
    let word = |at: usize| args.get(at).map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    let second = word(1);
    match word(0).as_slice() {
        b"info" | b"lolwut" => true,
        b"debug" => second.starts_with(b"htstats"),
        b"memory" => matches!(second.as_slice(), b"malloc-stats" | b"doctor"),
        b"cluster" => matches!(second.as_slice(), b"nodes" | b"info"),
        b"client" => matches!(second.as_slice(), b"list" | b"info"),
        b"latency" => matches!(second.as_slice(), b"graph" | b"doctor"),
        _ => false,
    }
}

/// For people. Every reply ends in a newline; lines after the first begin with `prefix`.
fn indented(value: &Value, prefix: &str, paint: Paint, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            numbered(items.iter().map(|item| (item, None)), b')', "(empty array)", prefix, paint, out)
        }
        Value::Push(items) => {
            numbered(items.iter().map(|item| (item, None)), b')', "(empty push)", prefix, paint, out)
        }
        Value::Attributed { attributes, value } => {
            numbered(
                attributes.iter().map(|(key, value)| (key, Some(value))),
                b'|',
                "(empty attributes)",
                prefix,
                paint,
                out,
            );
            out.extend_from_slice(prefix.as_bytes());
            indented(value, prefix, paint, out);
        }
        Value::Set(items) => {
            numbered(items.iter().map(|item| (item, None)), b'~', "(empty set)", prefix, paint, out)
        }
        Value::Map(pairs) => numbered(
            pairs.iter().map(|(key, value)| (key, Some(value))),
            b'#',
            "(empty hash)",
            prefix,
            paint,
            out,
        ),
        scalar => {
            painted(scalar, paint, out);
            out.push(b'\n');
        }
    }
}

/// A scalar with its type, in its colour.
fn painted(value: &Value, paint: Paint, out: &mut Vec<u8>) {
    if paint == Paint::Plain {
        return line(value, out);
    }
    let mut text = Vec::new();
    line(value, &mut text);
    out.extend_from_slice(colour(value));
    harmless(&text, out);
    out.extend_from_slice(NO_COLOUR);
}

/// A scalar with its type.
fn line(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bulk(bytes) => return quote(bytes, out),
        Value::Null => out.extend_from_slice(b"(nil)"),
        Value::Error(_) => out.extend_from_slice(b"(error) "),
        Value::Integer(_) => out.extend_from_slice(b"(integer) "),
        Value::Double(_) => out.extend_from_slice(b"(double) "),
        Value::Boolean(value) => return out.extend_from_slice(if *value { b"(true)" } else { b"(false)" }),
        _ => {}
    }
    out.extend_from_slice(&bare(value));
}

/// The elements of a container, one a line, with their numbers in a column.
fn numbered<'v>(
    elements: impl ExactSizeIterator<Item = (&'v Value, Option<&'v Value>)>,
    mark: u8,
    empty: &str,
    prefix: &str,
    paint: Paint,
    out: &mut Vec<u8>,
) {
    if elements.len() == 0 {
        out.extend_from_slice(empty.as_bytes());
        out.push(b'\n');
        return;
    }
    let width = elements.len().to_string().len();
    let deeper = format!("{prefix}{}", " ".repeat(width + 2));
    for (at, (first, second)) in elements.enumerate() {
        // The caller has already put the first line's prefix there.
        let indent = if at == 0 { "" } else { prefix };
        out.extend_from_slice(format!("{indent}{:>width$}{} ", at + 1, char::from(mark)).as_bytes());
        indented(first, &deeper, paint, out);
        let Some(second) = second else { continue };
        out.pop();
        out.extend_from_slice(b" => ");
        let mut text = Vec::new();
        indented(second, &deeper, paint, &mut text);
        // A container of several lines begins on one of its own, so that its numbers stand below each other.
        if is_container(second) && text.iter().filter(|byte| **byte == b'\n').count() > 1 {
            out.extend_from_slice(format!("\n{deeper}").as_bytes());
        }
        out.extend_from_slice(&text);
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Set(_) | Value::Push(_) | Value::Map(_))
}

fn csv(value: &Value, out: &mut Vec<u8>) {
    let mut separate = false;
    let mut each = |item: &Value, out: &mut Vec<u8>| {
        if std::mem::replace(&mut separate, true) {
            out.push(b',');
        }
        csv(item, out);
    };
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter().for_each(|item| each(item, out))
        }
        Value::Map(pairs) => {
            for (key, value) in pairs {
                each(key, out);
                each(value, out);
            }
        }
        Value::Attributed { value, .. } => csv(value, out),
        Value::Error(text) => {
            out.extend_from_slice(b"ERROR,");
            quote(text, out);
        }
        Value::Null => out.extend_from_slice(b"NULL"),
        Value::Status(_) | Value::Bulk(_) | Value::Verbatim { .. } => quote(&bare(value), out),
        scalar => out.extend_from_slice(&bare(scalar)),
    }
}

fn json(value: &Value, quoted: bool, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json(item, quoted, out);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (at, (key, value)) in pairs.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json_key(key, quoted, out);
                out.push(b':');
                json(value, quoted, out);
            }
            out.push(b'}');
        }
        Value::Attributed { value, .. } => json(value, quoted, out),
        Value::Error(text) => {
            out.extend_from_slice(b"error:");
            json_string(text, quoted, out);
        }
        Value::Null => out.extend_from_slice(b"null"),
        Value::Status(_) | Value::Bulk(_) | Value::Verbatim { .. } => json_string(&bare(value), quoted, out),
        scalar => out.extend_from_slice(&bare(scalar)),
    }
}

/// JSON knows only strings as keys: what is none is written as JSON, and that text becomes the string.
fn json_key(key: &Value, quoted: bool, out: &mut Vec<u8>) {
    match key {
        Value::Error(_) | Value::Status(_) | Value::Bulk(_) | Value::Verbatim { .. } => {
            json(key, quoted, out)
        }
        other => {
            let mut text = Vec::new();
            json(other, quoted, &mut text);
            json_string(&text, false, out);
        }
    }
}

/// A JSON string. Bytes past ASCII pass as they are, so that UTF-8 stays readable, unless `quoted` asks for plain ASCII.
fn json_string(bytes: &[u8], quoted: bool, out: &mut Vec<u8>) {
    if quoted {
        let mut text = Vec::new();
        quote(bytes, &mut text);
        // The quotes around are JSON's own. One inside takes three backslashes (redis-cli's two end the string there).
        return json_string(&text[1..text.len() - 1], false, out);
    }
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// Bytes between quotes, in plain ASCII, as Redis's own tools write and read them.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}
