//! Reading replies and writing requests, as a client does.
//!
//! [`Replies`] consumes its input as it goes and keeps the containers that are still open on a stack, so that a reply of
//! any size is looked at once, however it is cut into packets, and nesting costs no call stack.

use polder_base::number::integer;

use super::Malformed;

/// How deep containers may nest.
const DEPTH_MAX: usize = 128;
/// The longest line of a simple reply.
const LINE_BYTES_MAX: usize = 1 << 20;

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Status(Vec<u8>),
    /// An error, its code first; `!` and `-` alike.
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    /// `_`, `$-1` and `*-1` alike.
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    /// Sent by the server unasked.
    Push(Vec<Value>),
    /// A double, as the text that came.
    Double(Vec<u8>),
    Boolean(bool),
    BigNumber(Vec<u8>),
    Verbatim {
        format: [u8; 3],
        text: Vec<u8>,
    },
    /// A reply and what the server says about it.
    Attributed {
        attributes: Vec<(Value, Value)>,
        value: Box<Value>,
    },
}

/// Appends a request to `out`.
pub fn command(args: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    let mut header = |mark: u8, count: usize, out: &mut Vec<u8>| {
        out.push(mark);
        out.extend_from_slice(digits.format(count).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    header(b'*', args.len(), out);
    for arg in args.iter().map(AsRef::as_ref) {
        header(b'$', arg.len(), out);
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// The reader of one connection's replies.
#[derive(Default, Debug)]
pub struct Replies {
    open: Vec<Open>,
    /// A bulk whose header has been read: its mark and how long it is.
    bulk: Option<(u8, usize)>,
}

/// A container that is not whole yet.
#[derive(Debug)]
struct Open {
    mark: u8,
    left: usize,
    items: Vec<Value>,
}

/// What one step of reading gave.
enum Step {
    Value(Value),
    /// A container of this many values begins.
    Begin(u8, usize),
    Incomplete,
}

impl Replies {
    /// Takes one reply from the front of `input`, or what there is of it; what was taken need not be given again.
    ///
    /// # Errors
    /// When this is not RESP.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        loop {
            let mut value = match self.step(input)? {
                Step::Incomplete => return Ok(None),
                Step::Value(value) => value,
                Step::Begin(mark, left) => {
                    if self.open.len() == DEPTH_MAX {
                        return Err("ERR Protocol error: reply nested too deeply".into());
                    }
                    self.open.push(Open { mark, left, items: Vec::new() });
                    match self.close() {
                        Some(value) => value,
                        None => continue,
                    }
                }
            };
            loop {
                let Some(top) = self.open.last_mut() else { return Ok(Some(value)) };
                top.items.push(value);
                top.left -= 1;
                match self.close() {
                    Some(closed) => value = closed,
                    None => break,
                }
            }
        }
    }

    /// Closes the innermost container if it is whole.
    fn close(&mut self) -> Option<Value> {
        let top = self.open.pop_if(|top| top.left == 0)?;
        Some(match top.mark {
            b'*' => Value::Array(top.items),
            b'~' => Value::Set(top.items),
            b'>' => Value::Push(top.items),
            b'%' => Value::Map(pairs(top.items)),
            _ => attributed(top.items),
        })
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<Step, Malformed> {
        if let Some((mark, length)) = self.bulk {
            return self.take_bulk(input, mark, length);
        }
        let Some((mark, text)) = line(input)? else { return Ok(Step::Incomplete) };
        let owned = || text.to_vec();
        let value = match mark {
            b'+' => Value::Status(owned()),
            b'-' => Value::Error(owned()),
            b':' => Value::Integer(
                integer(text.strip_prefix(b"+").unwrap_or(text)).ok_or("ERR Protocol error: bad integer")?,
            ),
            b',' => Value::Double(owned()),
            b'(' => Value::BigNumber(owned()),
            b'#' => Value::Boolean(match text {
                b"t" => true,
                b"f" => false,
                _ => return Err("ERR Protocol error: bad boolean".into()),
            }),
            b'_' => Value::Null,
            b'$' | b'!' | b'=' | b'*' | b'%' | b'~' | b'>' | b'|' => return self.sized(input, mark, text),
            _ => {
                return Err(Malformed(
                    format!("ERR Protocol error: unknown reply type '{}'", mark.escape_ascii()).into(),
                ));
            }
        };
        Ok(Step::Value(value))
    }

    /// A reply whose line is a length.
    fn sized(&mut self, input: &mut &[u8], mark: u8, text: &[u8]) -> Result<Step, Malformed> {
        let invalid = "ERR Protocol error: bad length";
        let length = integer(text).ok_or(invalid)?;
        if length == -1 && matches!(mark, b'$' | b'*') {
            return Ok(Step::Value(Value::Null));
        }
        let length = usize::try_from(length).map_err(|_| invalid)?;
        match mark {
            b'$' | b'!' | b'=' => self.take_bulk(input, mark, length),
            b'%' => Ok(Step::Begin(mark, length.checked_mul(2).ok_or(invalid)?)),
            // Attributes are followed by the reply that they are about.
            b'|' => Ok(Step::Begin(
                mark,
                length.checked_mul(2).and_then(|count| count.checked_add(1)).ok_or(invalid)?,
            )),
            _ => Ok(Step::Begin(mark, length)),
        }
    }

    fn take_bulk(&mut self, input: &mut &[u8], mark: u8, length: usize) -> Result<Step, Malformed> {
        let bytes = *input;
        let Some(rest) = length.checked_add(2).and_then(|end| bytes.get(end..)) else {
            self.bulk = Some((mark, length));
            return Ok(Step::Incomplete);
        };
        self.bulk = None;
        *input = rest;
        let text = &bytes[..length];
        Ok(Step::Value(match (mark, text) {
            (b'$', _) => Value::Bulk(text.to_vec()),
            (b'!', _) => Value::Error(text.to_vec()),
            (_, [a, b, c, b':', text @ ..]) => Value::Verbatim { format: [*a, *b, *c], text: text.to_vec() },
            _ => return Err("ERR Protocol error: bad verbatim text".into()),
        }))
    }
}

/// Takes a line: its mark and what follows it.
fn line<'b>(input: &mut &'b [u8]) -> Result<Option<(u8, &'b [u8])>, Malformed> {
    let bytes = *input;
    match memchr::memchr(b'\n', bytes) {
        Some(end) if end >= 2 && bytes[end - 1] == b'\r' => {
            *input = &bytes[end + 1..];
            Ok(Some((bytes[0], &bytes[1..end - 1])))
        }
        Some(_) => Err("ERR Protocol error: bad line".into()),
        None if bytes.len() > LINE_BYTES_MAX => Err("ERR Protocol error: line too long".into()),
        None => Ok(None),
    }
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

/// The last of `items` is the reply, those before it are its attributes.
fn attributed(mut items: Vec<Value>) -> Value {
    let value = Box::new(items.pop().unwrap_or(Value::Null));
    Value::Attributed { attributes: pairs(items), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Value>, Malformed> {
        Replies::default().read(&mut &*bytes)
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    fn all() -> Vec<(Vec<u8>, Value)> {
        vec![
            (b"+OK\r\n".into(), Value::Status("OK".into())),
            (b"-ERR no\r\n".into(), Value::Error("ERR no".into())),
            (b"!6\r\nERR no\r\n".into(), Value::Error("ERR no".into())),
            (b":-12\r\n".into(), Value::Integer(-12)),
            (b"$5\r\nhe\r\no\r\n".into(), bulk("he\r\no")),
            (b"$0\r\n\r\n".into(), bulk("")),
            (b"$-1\r\n".into(), Value::Null),
            (b"*-1\r\n".into(), Value::Null),
            (b"_\r\n".into(), Value::Null),
            (b"*0\r\n".into(), Value::Array(vec![])),
            (
                b"*2\r\n*1\r\n:1\r\n%1\r\n+k\r\n~1\r\n#t\r\n".into(),
                Value::Array(vec![
                    Value::Array(vec![Value::Integer(1)]),
                    Value::Map(vec![(Value::Status("k".into()), Value::Set(vec![Value::Boolean(true)]))]),
                ]),
            ),
            (
                b">2\r\n+message\r\n$1\r\nx\r\n".into(),
                Value::Push(vec![Value::Status("message".into()), bulk("x")]),
            ),
            (b",1.5\r\n".into(), Value::Double("1.5".into())),
            (b"(123456789012345678901\r\n".into(), Value::BigNumber("123456789012345678901".into())),
            (b"=6\r\ntxt:hi\r\n".into(), Value::Verbatim { format: *b"txt", text: "hi".into() }),
            (
                b"|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n".into(),
                Value::Attributed {
                    attributes: vec![(Value::Status("ttl".into()), Value::Integer(9))],
                    value: Box::new(bulk("v")),
                },
            ),
        ]
    }

    #[test]
    fn every_type_is_read() {
        for (bytes, value) in all() {
            assert_eq!(read(&bytes), Ok(Some(value)), "{:?}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn replies_split_anywhere_read_the_same() {
        let bytes: Vec<u8> = all().into_iter().flat_map(|(bytes, _)| bytes).collect();
        let expected: Vec<Value> = all().into_iter().map(|(_, value)| value).collect();
        for cut in 0..=bytes.len() {
            let (mut replies, mut got, mut held) = (Replies::default(), Vec::new(), Vec::new());
            for part in [&bytes[..cut], &bytes[cut..]] {
                held.extend_from_slice(part);
                let mut input = &held[..];
                while let Some(value) = replies.read(&mut input).expect("well formed") {
                    got.push(value);
                }
                held = input.to_vec();
            }
            assert_eq!(got, expected, "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let cases: &[&[u8]] = &[
            b"?\r\n",
            b":x\r\n",
            b"$-2\r\n",
            b"$x\r\n",
            b"#x\r\n",
            b"\n",
            b"%-1\r\n",
            b"=2\r\nab\r\n",
            b"*9223372036854775808\r\n",
        ];
        for bytes in cases {
            assert!(read(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(read(&b"*1\r\n".repeat(200)).is_err());
    }
}
