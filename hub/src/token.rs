//! The token dialect of subjects: `orders.eu.7` has three *tokens*, the parts between dots. In a pattern, `*` stands for one token and `>`
//! for one or more at the end.
//!
//! A pattern's *shape* has a letter for each token: `l` a literal one, `*`, `>`. The shape of a pattern without wildcards is `=`. What
//! matches a subject is found by one look per shape: the literal tokens of a pattern, joined by dots, are its place among those of its shape.
//!
//! ```text
//!   a.*.c   l*l   a.c           the subject a.b.c looks at      l*l a.c      l> a      = a.b.c
//!   a.>     l>    a
//!   a.b     =     a.b
//! ```

use smallvec::SmallVec;

/// Longer subjects are none of the token dialect, in bytes.
pub const SUBJECT_BYTES_MAX: usize = 4000;
/// Patterns with wildcards have at most this many tokens.
pub const TOKENS_MAX: usize = 32;
/// The shape of patterns without wildcards.
pub(crate) const EXACT: &[u8] = b"=";

/// Returns true for a channel that is a subject of the token dialect. Others cannot be told to its clients: blanks, line ends and empty or wild tokens
/// would break their framing or their matching.
pub fn is_subject(channel: &[u8]) -> bool {
    has_form(channel)
        && channel.split(is_dot).all(|token| !token.is_empty() && token != b"*" && token != b">")
}

/// Why a pattern is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    Invalid,
    TooManyTokens,
}

/// Looks at a pattern that is to be subscribed to.
///
/// # Errors
/// Why it cannot be.
pub fn check_pattern(pattern: &[u8]) -> Result<(), Refused> {
    let tokens = pattern.split(is_dot).count();
    let mut each = pattern.split(is_dot).enumerate();
    if !has_form(pattern) || !each.all(|(at, token)| !token.is_empty() && (token != b">" || at + 1 == tokens))
    {
        return Err(Refused::Invalid);
    }
    if is_wild(pattern) && tokens > TOKENS_MAX { Err(Refused::TooManyTokens) } else { Ok(()) }
}

/// Returns true if a pattern has wildcards.
pub fn is_wild(pattern: &[u8]) -> bool {
    pattern.split(is_dot).any(|token| token == b"*" || token == b">")
}

/// The literal beginning of all subjects that a pattern matches.
pub fn literal_beginning(pattern: &[u8]) -> &[u8] {
    let mut at = 0;
    for token in pattern.split(is_dot) {
        if token == b"*" || token == b">" {
            return &pattern[..at];
        }
        at += token.len() + 1;
    }
    pattern
}

/// Returns true if a pattern matches a subject of the dialect.
pub fn matches(pattern: &[u8], subject: &[u8]) -> bool {
    let (shape, literals) = place_of(pattern);
    let mut place = Vec::new();
    Tokens::of(subject).place_in(&shape, &mut place) && place == literals
}

fn is_dot(byte: &u8) -> bool {
    *byte == b'.'
}

/// Returns true if bytes can stand in a line of NATS: they have no blanks and no ends of lines, and are not too long.
pub fn has_form(bytes: &[u8]) -> bool {
    (1..=SUBJECT_BYTES_MAX).contains(&bytes.len())
        && !bytes.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0c))
}

/// The letters of a pattern's tokens.
pub(crate) type ShapeText = SmallVec<[u8; TOKENS_MAX]>;

/// The shape of a pattern, and its place among those of this shape.
pub(crate) fn place_of(pattern: &[u8]) -> (ShapeText, Vec<u8>) {
    if !is_wild(pattern) {
        return (EXACT.into(), pattern.to_vec());
    }
    let (mut shape, mut literals) = (ShapeText::new(), Vec::with_capacity(pattern.len()));
    for token in pattern.split(is_dot) {
        match token {
            b"*" | b">" => shape.push(token[0]),
            _ => {
                push_token(&mut literals, token);
                shape.push(b'l');
            }
        }
    }
    (shape, literals)
}

/// The pattern with this shape and place.
pub(crate) fn pattern_at(shape: &[u8], literals: &[u8]) -> Vec<u8> {
    if shape == EXACT {
        return literals.to_vec();
    }
    let (mut pattern, mut rest) = (Vec::new(), literals.split(is_dot));
    for letter in shape {
        let token =
            if *letter == b'l' { rest.next().unwrap_or_default() } else { std::slice::from_ref(letter) };
        push_token(&mut pattern, token);
    }
    pattern
}

/// Literal tokens are never empty, so an empty list has no first dot.
fn push_token(list: &mut Vec<u8>, token: &[u8]) {
    if !list.is_empty() {
        list.push(b'.');
    }
    list.extend_from_slice(token);
}

/// A subject with the places of its tokens.
pub(crate) struct Tokens<'s> {
    subject: &'s [u8],
    /// The end of each token; further ones are not told apart, since no shape has that many letters.
    ends: SmallVec<[u32; 16]>,
}

impl<'s> Tokens<'s> {
    pub fn of(subject: &'s [u8]) -> Tokens<'s> {
        let dots = memchr::memchr_iter(b'.', subject).chain([subject.len()]);
        Tokens { subject, ends: dots.take(TOKENS_MAX + 1).map(|end| end as u32).collect() }
    }

    /// Writes the place at which patterns of a shape lie that match the subject. Returns false if none of this shape can.
    pub fn place_in(&self, shape: &[u8], place: &mut Vec<u8>) -> bool {
        place.clear();
        if shape == EXACT {
            place.extend_from_slice(self.subject);
            return true;
        }
        let count = self.ends.len();
        let fits = if shape.last() == Some(&b'>') { count >= shape.len() } else { count == shape.len() };
        if !fits {
            return false;
        }
        let mut begin = 0;
        for (letter, end) in shape.iter().zip(&self.ends) {
            let end = *end as usize;
            if *letter == b'l' {
                push_token(place, &self.subject[begin..end]);
            }
            begin = end + 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_patterns_have_a_form() {
        for good in ["a", "a.b", "a.b*", "*a.>b", "\0.\u{e9}", "$SYS.x"] {
            assert!(is_subject(good.as_bytes()) && check_pattern(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\r", "a\n", "a\x0cb"] {
            assert!(!is_subject(bad.as_bytes()), "{bad:?}");
            assert_eq!(check_pattern(bad.as_bytes()), Err(Refused::Invalid), "{bad:?}");
        }
        for wild in ["*", ">", "a.*", "a.>", "*.a.>"] {
            assert!(!is_subject(wild.as_bytes()) && check_pattern(wild.as_bytes()).is_ok(), "{wild}");
        }
        assert_eq!(check_pattern(b"a.>.b"), Err(Refused::Invalid));
        let tokens = |count: usize| vec!["a"; count - 1].join(".") + ".*";
        assert!(check_pattern(tokens(TOKENS_MAX).as_bytes()).is_ok());
        assert_eq!(check_pattern(tokens(TOKENS_MAX + 1).as_bytes()), Err(Refused::TooManyTokens));
        assert!(!is_subject(&[b'x'; SUBJECT_BYTES_MAX + 1]) && is_subject(&[b'x'; SUBJECT_BYTES_MAX]));
    }

    #[test]
    fn patterns_match_token_by_token() {
        let cases = [
            ("a", "a", true),
            ("a", "a.b", false),
            ("*", "a", true),
            ("*", "a.b", false),
            (">", "a.b.c", true),
            ("a.>", "a", false),
            ("a.>", "a.b", true),
            ("a.>", "a.b.c", true),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.b.d", false),
            ("*.*", "a.b", true),
            ("a.b*", "a.bc", false),
            ("*.b.>", "a.b", false),
            ("*.b.>", "a.b.c.d", true),
            ("*.a.b", "x.a.b", true),
        ];
        for (pattern, subject, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), subject.as_bytes()), expected, "{pattern} {subject}");
        }
        let long = vec!["a"; 100].join(".");
        assert!(matches(b"a.>", long.as_bytes()) && matches(long.as_bytes(), long.as_bytes()));
        assert!(!matches(vec!["*"; 32].join(".").as_bytes(), long.as_bytes()));
    }

    #[test]
    fn a_pattern_comes_back_from_its_place() {
        for pattern in ["a", "a.b", "*", ">", "a.*.c", "*.b.>", "a.b*.*"] {
            let (shape, literals) = place_of(pattern.as_bytes());
            assert_eq!(pattern_at(&shape, &literals), pattern.as_bytes());
        }
        assert_eq!(literal_beginning(b"a.b.*"), b"a.b.");
        assert_eq!(literal_beginning(b">"), b"");
        assert_eq!(literal_beginning(b"a.b"), b"a.b");
    }
}
