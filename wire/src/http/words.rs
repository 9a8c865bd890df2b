//! Commands in JSON: one array of words, or an array of such arrays.
//!
//! A word is a string, a number (which is taken as it is written), or `{"base64":"..."}` for bytes that are not UTF-8.
use super::base64;

/// A command: its words.
pub type Command = Vec<Vec<u8>>;

/// What a body in JSON asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commands {
    One(Command),
    List(Vec<Command>),
}

/// Words and calls of a body at most, together.
pub const WORDS_MAX: usize = 1 << 20;
const TOO_MANY: &str = "a body may have 1,048,576 words at most: send several";
const NOT_UTF8: &str = "the body is not UTF-8; bytes that are no text are {\"base64\":\"...\"}";
const NO_ARRAY: &str = "the body is a JSON array: [\"GET\",\"key\"], or a list of such arrays";
const NO_WORD: &str = "a word of a command is a string, a number, or {\"base64\":\"...\"}";
const NO_STRING: &str = "the body has a string that is not JSON";
const MORE: &str = "the body has more after its JSON array";

/// Reads a body.
///
/// # Errors
/// What is wrong with it.
pub fn read(body: &[u8]) -> Result<Commands, &'static str> {
    let text = std::str::from_utf8(body).map_err(|_| NOT_UTF8)?;
    let mut reader = Reader::of(text.as_bytes());
    reader.take(b'[').ok_or(NO_ARRAY)?;
    let commands = if reader.is_next(b'[') {
        Commands::List(reader.elements(Reader::command)?)
    } else {
        Commands::One(reader.elements(Reader::word)?)
    };
    reader.skip_blanks();
    if reader.rest.is_empty() { Ok(commands) } else { Err(MORE) }
}

/// What is left of a body.
pub(super) struct Reader<'b> {
    pub(super) rest: &'b [u8],
    /// How many more words and calls it may have.
    left: usize,
}

impl<'b> Reader<'b> {
    pub(super) fn of(text: &'b [u8]) -> Reader<'b> {
        Reader { rest: text, left: WORDS_MAX }
    }

    pub(super) fn skip_blanks(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn is_next(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        self.rest.first() == Some(&byte)
    }

    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        self.is_next(byte).then(|| self.rest = &self.rest[1..])
    }

    /// The elements of an array whose bracket has been taken.
    fn elements<T>(
        &mut self,
        element: fn(&mut Self) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, &'static str> {
        let mut elements = Vec::new();
        if self.take(b']').is_some() {
            return Ok(elements);
        }
        loop {
            self.left = self.left.checked_sub(1).ok_or(TOO_MANY)?;
            elements.push(element(self)?);
            if self.take(b']').is_some() {
                return Ok(elements);
            }
            self.take(b',').ok_or(NO_ARRAY)?;
        }
    }

    fn command(&mut self) -> Result<Command, &'static str> {
        self.take(b'[').ok_or(NO_ARRAY)?;
        self.elements(Reader::word)
    }

    fn word(&mut self) -> Result<Vec<u8>, &'static str> {
        self.skip_blanks();
        match self.rest.first() {
            Some(b'"') => self.string(),
            Some(b'{') => {
                self.take(b'{').ok_or(NO_WORD)?;
                self.skip_blanks();
                if self.string()? != b"base64" {
                    return Err(NO_WORD);
                }
                self.take(b':').ok_or(NO_WORD)?;
                self.skip_blanks();
                let text = self.string()?;
                self.take(b'}').ok_or(NO_WORD)?;
                base64::decode(&text).ok_or(NO_WORD)
            }
            Some(b'-' | b'0'..=b'9') => {
                let length = self
                    .rest
                    .iter()
                    .position(|byte| !matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
                let (number, rest) = self.rest.split_at(length.unwrap_or(self.rest.len()));
                self.rest = rest;
                let is_number = std::str::from_utf8(number).is_ok_and(|number| number.parse::<f64>().is_ok());
                if is_number { Ok(number.to_vec()) } else { Err(NO_WORD) }
            }
            _ => Err(NO_WORD),
        }
    }

    pub(super) fn string(&mut self) -> Result<Vec<u8>, &'static str> {
        self.rest = self.rest.strip_prefix(b"\"").ok_or(NO_WORD)?;
        let mut bytes = Vec::new();
        loop {
            let plain =
                self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).ok_or(NO_STRING)?;
            bytes.extend_from_slice(&self.rest[..plain]);
            let mark = self.rest[plain];
            self.rest = &self.rest[plain + 1..];
            match mark {
                b'"' => return Ok(bytes),
                b'\\' => self.escape(&mut bytes)?,
                _ => return Err(NO_STRING),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), &'static str> {
        let (mark, rest) = self.rest.split_first().ok_or(NO_STRING)?;
        self.rest = rest;
        bytes.push(match mark {
            b'"' | b'\\' | b'/' => *mark,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let first = self.unit()?;
                // A character beyond 16 bits is two units.
                let code = if (0xd800..0xdc00).contains(&first) {
                    self.rest = self.rest.strip_prefix(b"\\u").ok_or(NO_STRING)?;
                    let second =
                        self.unit()?.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or(NO_STRING)?;
                    0x10000 + ((first - 0xd800) << 10) + second
                } else {
                    first
                };
                let character = char::from_u32(code).ok_or(NO_STRING)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(NO_STRING),
        });
        Ok(())
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u32, &'static str> {
        let (digits, rest) = self.rest.split_first_chunk::<4>().ok_or(NO_STRING)?;
        self.rest = rest;
        digits
            .iter()
            .try_fold(0, |unit, digit| Ok(unit << 4 | char::from(*digit).to_digit(16).ok_or(NO_STRING)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_words() {
        let one = |words: &[&[u8]]| Ok(Commands::One(words.iter().map(|word| word.to_vec()).collect()));
        assert_eq!(
            read(br#"["SET", "k\u00e9\n\ud83d\ude00", 1.10, -2e5, {"base64":"/w=="}]"#),
            one(&[b"SET", "k\u{e9}\n\u{1f600}".as_bytes(), b"1.10", b"-2e5", b"\xff"])
        );
        assert_eq!(read(b" [ ] "), one(&[]));
        assert_eq!(
            read(br#"[["GET","a"], ["DEL", "b"]]"#),
            Ok(Commands::List(vec![vec![b"GET".into(), b"a".into()], vec![b"DEL".into(), b"b".into()]]))
        );
    }

    #[test]
    fn a_body_has_so_many_words_at_most() {
        let body = |words: usize| [b"[", "1,".repeat(words - 1).as_bytes(), b"1]"].concat();
        assert!(read(&body(WORDS_MAX)).is_ok());
        assert_eq!(read(&body(WORDS_MAX + 1)), Err(TOO_MANY));
        assert_eq!(read(format!("[{}[]]", "[],".repeat(WORDS_MAX)).as_bytes()), Err(TOO_MANY));
    }

    #[test]
    fn what_is_no_command_says_why() {
        let cases: &[(&[u8], &str)] = &[
            (b"", NO_ARRAY),
            (b"{}", NO_ARRAY),
            (b"\"GET\"", NO_ARRAY),
            (b"[\"a\"", NO_ARRAY),
            (b"[\"a\" \"b\"]", NO_ARRAY),
            (b"[[\"a\"], \"b\"]", NO_ARRAY),
            (b"[\"a\", [\"b\"]]", NO_WORD),
            (b"[null]", NO_WORD),
            (b"[true]", NO_WORD),
            (b"[\"a\",]", NO_WORD),
            (b"[--1]", NO_WORD),
            (b"[{\"base64\":\"!\"}]", NO_WORD),
            (b"[{\"hex\":\"00\"}]", NO_WORD),
            (b"[\"a", NO_STRING),
            (b"[\"\\x\"]", NO_STRING),
            (b"[\"\\ud800\"]", NO_STRING),
            (b"[\"\\udc00\"]", NO_STRING),
            (b"[\"\\u12\"]", NO_STRING),
            (b"[\"a\nb\"]", NO_STRING),
            (b"[\"a\"] x", MORE),
            (b"[\"\xff\"]", NOT_UTF8),
        ];
        for (body, why) in cases {
            assert_eq!(read(body), Err(*why), "{}", String::from_utf8_lossy(body));
        }
    }
}
