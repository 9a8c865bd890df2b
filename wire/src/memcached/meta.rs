//! The meta commands of memcached's text protocol: a line of flags, each a letter with or without a token.
//!
//! ```text
//!   mg KEY FLAGS*\r\n             ms KEY BYTES FLAGS*\r\n value \r\n       md, ma, me
//!   VA BYTES FLAGS*\r\n value    HD FLAGS*    EN    NF    NS    EX
//! ```
//!
//! The flags of a reply stand in the order of the request, so a reply is written from the words of its request.
use super::KEY_BYTES_MAX;
use super::text::{BAD_FORMAT, ERROR, Number, Words, short_unsigned, signed, unsigned};

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_KEY: &str = "CLIENT_ERROR error decoding key";
const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta value";
const BAD_INITIAL: &str = "CLIENT_ERROR invalid numeric initial value";
const DUPLICATE: &str = "CLIENT_ERROR duplicate flag";
const INVALID: &str = "CLIENT_ERROR invalid flag";
const WRONG_FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";
const LONG_MODE: &str = "CLIENT_ERROR incorrect length for M token";
/// The longest opaque token, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;

/// A meta command with what its flags say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meta<'b> {
    /// The key as it was given.
    pub key: &'b [u8],
    /// The key that a base64 text is.
    pub decoded: Option<Vec<u8>>,
    /// The flags as they were given.
    pub words: Words<'b>,
    /// `ms`: the length of the value.
    pub bytes: usize,
    pub quiet: bool,
    pub value: bool,
    /// T, N and R, in seconds.
    pub ttl: Option<Number<'b, i64>>,
    pub vivify: Option<Number<'b, i64>>,
    pub recache: Option<Number<'b, i64>>,
    /// T stands behind N, and so is the expiry of an item that is made, too.
    pub renews_made: bool,
    /// T stands in front of R, which then looks at the new expiry.
    pub renews_first: bool,
    pub cas: Option<u64>,
    pub new_cas: Option<u64>,
    pub flags: u32,
    pub delta: Option<u64>,
    pub initial: Option<u64>,
    /// The letter of M, in upper case; 0 for none.
    pub mode: u8,
    pub invalidate: bool,
    pub empty: bool,
    pub peek: bool,
}

/// Why a line is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong {
    pub reply: &'static str,
    /// A value of this many bytes stands behind the line and means nothing.
    pub skips: Option<usize>,
}

impl From<&'static str> for Wrong {
    fn from(reply: &'static str) -> Wrong {
        Wrong { reply, skips: None }
    }
}

/// The flags that there are. Each command knows all of them, and those of the others mean nothing to it; P and L are for proxies.
const FLAGS: &[u8] = b"bcfhklqstuvxCDEFIJLMNOPRT";

impl<'b> Meta<'b> {
    /// Takes the words behind a meta command apart; `letter` is the second one of its name.
    ///
    /// # Errors
    /// The reply to a wrong line.
    pub fn read(letter: u8, words: &Words<'b>) -> Result<Meta<'b>, Wrong> {
        let Some((&key, mut flags)) = words.split_first() else {
            return Err(if letter == b'e' { BAD_FORMAT } else { ERROR }.into());
        };
        if key.len() > KEY_BYTES_MAX {
            return Err(BAD_FORMAT.into());
        }
        let mut meta = Meta { key, ..Meta::default() };
        if letter == b's' {
            let bytes = flags
                .first()
                .and_then(|word| signed(word))
                .and_then(|bytes| usize::try_from(bytes.value).ok());
            meta.bytes = bytes.filter(|bytes| *bytes <= i32::MAX as usize - 2).ok_or(BAD_FORMAT)?;
            flags = &flags[1..];
        }
        if letter == b'e' {
            // It looks for this flag alone.
            flags = if flags.first() == Some(&&b"b"[..]) { &flags[..1] } else { &[] };
        }
        let skips = (letter == b's').then_some(meta.bytes);
        meta.words = flags.into();
        meta.take_all(flags).map_err(|reply| match letter {
            b'a' | b'd' if reply != LONG_OPAQUE => WRONG_FLAG.into(),
            b'e' => BAD_FORMAT.into(),
            _ => Wrong { reply, skips },
        })?;
        meta.mode = mode(letter, meta.mode).map_err(|reply| Wrong { reply, skips })?;
        Ok(meta)
    }

    fn take_all(&mut self, flags: &[&'b [u8]]) -> Result<(), &'static str> {
        let mut seen = 0u128;
        for flag in flags.iter().map(|word| word[0]) {
            let bit = 1u128 << (flag & 127);
            if seen & bit != 0 {
                return Err(DUPLICATE);
            }
            if !FLAGS.contains(&flag) {
                return Err(INVALID);
            }
            seen |= bit;
        }
        flags.iter().try_for_each(|word| self.take(word))
    }

    fn take(&mut self, word: &'b [u8]) -> Result<(), &'static str> {
        let token = &word[1..];
        match word[0] {
            b'b' => {
                let key = decode(self.key).filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
                self.decoded = Some(key.ok_or(BAD_KEY)?);
            }
            b'O' if word.len() > OPAQUE_BYTES_MAX => return Err(LONG_OPAQUE),
            b'q' => self.quiet = true,
            b'v' => self.value = true,
            b'u' => self.peek = true,
            b'I' => self.invalidate = true,
            b'x' => self.empty = true,
            b'T' => {
                self.ttl = Some(signed(token).ok_or(BAD_TOKEN)?);
                self.renews_made = self.vivify.is_some();
            }
            b'N' => self.vivify = Some(signed(token).ok_or(BAD_TOKEN)?),
            b'R' => {
                self.recache = Some(signed(token).ok_or(BAD_TOKEN)?);
                self.renews_first = self.ttl.is_some();
            }
            b'C' => self.cas = Some(unsigned(token).ok_or(BAD_TOKEN)?.value),
            b'E' => self.new_cas = Some(unsigned(token).ok_or(BAD_TOKEN)?.value),
            b'D' => self.delta = Some(unsigned(token).ok_or(BAD_DELTA)?.value),
            b'J' => self.initial = Some(unsigned(token).ok_or(BAD_INITIAL)?.value),
            b'F' => self.flags = short_unsigned(token).ok_or(BAD_FORMAT)?.value,
            b'M' => {
                let &[mode] = token else { return Err(LONG_MODE) };
                self.mode = mode;
            }
            _ => {}
        }
        Ok(())
    }

    /// The key that is meant.
    pub fn meant(&self) -> &[u8] {
        self.decoded.as_deref().unwrap_or(self.key)
    }
}

/// The mode that a command takes for this token of M; other commands have none.
fn mode(letter: u8, token: u8) -> Result<u8, &'static str> {
    match (letter, token) {
        (b's', 0 | b'S' | b'A' | b'P' | b'E' | b'R') | (b'a', 0 | b'I' | b'D') => Ok(token),
        (b's', _) => Err("CLIENT_ERROR invalid mode for ms M token"),
        (b'a', b'+') => Ok(b'I'),
        (b'a', b'-') => Ok(b'D'),
        (b'a', _) => Err("CLIENT_ERROR invalid mode for ma M token"),
        _ => Ok(0),
    }
}

/// The bytes that a base64 text with padding is.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (number, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && number + 1 < groups.len() {
            return None;
        }
        let mut sum = 0u32;
        for byte in &group[..4 - padding] {
            sum = sum << 6 | u32::from(sextet(*byte)?);
        }
        sum <<= 6 * padding;
        bytes.extend_from_slice(&sum.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::text::Line;
    use super::*;

    fn read(line: &str) -> Result<(u8, String), Wrong> {
        let Line::Meta(letter, words) = Line::read(line.as_bytes()) else {
            panic!("{line} is no meta command")
        };
        Meta::read(letter, &words).map(|meta| (letter, String::from_utf8_lossy(meta.meant()).into_owned()))
    }

    #[test]
    fn wrong_meta_commands_have_the_replies_of_memcached() {
        for (line, reply, skips) in [
            ("mg", ERROR, None),
            ("ms", ERROR, None),
            ("ms k", BAD_FORMAT, None),
            ("ms k x", BAD_FORMAT, None),
            ("ms k -1", BAD_FORMAT, None),
            ("ms k S2", BAD_FORMAT, None),
            ("ms k 2 F1 F2", DUPLICATE, Some(2)),
            ("ms k 2 z", INVALID, Some(2)),
            ("ms k 2 Tx", BAD_TOKEN, Some(2)),
            ("ms k 2 MX", "CLIENT_ERROR invalid mode for ms M token", Some(2)),
            ("ms k 2 Mset", LONG_MODE, Some(2)),
            ("ms abc 2 b", BAD_KEY, Some(2)),
            ("mg k zz", INVALID, None),
            ("mg k v v", DUPLICATE, None),
            ("mg k O12345678901234567890123456789012", LONG_OPAQUE, None),
            ("ma k Dx", WRONG_FLAG, None),
            ("ma k Mx", "CLIENT_ERROR invalid mode for ma M token", None),
            ("md k z", WRONG_FLAG, None),
            ("md k b", WRONG_FLAG, None),
            ("me k b", BAD_FORMAT, None),
            ("mg k Dx", BAD_DELTA, None),
            ("mg k Jx", BAD_INITIAL, None),
            ("ms k 2 Fx", BAD_FORMAT, Some(2)),
            ("ms k 2 Ma", "CLIENT_ERROR invalid mode for ms M token", Some(2)),
            ("mg k MSET", LONG_MODE, None),
            ("md k O12345678901234567890123456789012", LONG_OPAQUE, None),
        ] {
            assert_eq!(read(line), Err(Wrong { reply, skips }), "{line}");
        }
    }

    #[test]
    fn a_flag_of_another_command_means_nothing() {
        for line in ["md k v t F5 J1 MX", "ms k 2 v u D5 N3", "ma k s F1 I", "mg k C1 I MX P1 L2", "me k z"] {
            assert!(read(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn base64_keys_are_decoded() {
        assert_eq!(read("mg YWJj b v"), Ok((b'g', "abc".into())));
        for (text, bytes) in [
            ("", Some(&b""[..])),
            ("YQ==", Some(b"a")),
            ("YWI=", Some(b"ab")),
            ("YQ=", None),
            ("Y===", None),
            ("YQ==YQ==", None),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), bytes, "{text}");
        }
    }
}
