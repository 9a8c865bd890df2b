//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^a]`, `\` before a character that means itself.
//!
//! A star remembers only the last place it tried: when what follows it does not match, the *last* star takes one byte more.
//! Earlier stars never need another try (whatever an earlier star could take, the last one can take too), so a match costs at
//! most length of pattern times length of text, however many stars there are. In Redis a pattern with more than a thousand stars matches
//! nothing, since its recursion is limited. Clients can see that, so it is the same here.

/// Whether `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    search(pattern, text, |byte| byte)
}

/// Whether `text` matches `pattern` when the case of letters does not count.
pub fn matches_folded(pattern: &[u8], text: &[u8]) -> bool {
    search(pattern, text, |byte| byte.to_ascii_lowercase())
}

/// Whether a pattern matches only the text that it is: it has no special byte.
pub fn is_literal(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// Whether a walk over names that asks for a pattern shows this one: a lone star means all of them, as in Redis.
pub fn selects(pattern: &[u8], name: &[u8]) -> bool {
    pattern == b"*" || matches(pattern, name)
}

/// Stars, those that follow each other counted once and one at the end not, beyond which a pattern fits nothing, as in Redis.
const STARS_MAX: usize = 1000;

fn search(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8) -> bool {
    // As in Redis: no pattern but the empty one matches the empty text, not even a star.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // The pattern behind the last star, and the text from which that part was tried last.
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += pattern[p..].iter().take_while(|byte| **byte == b'*').count();
            star = Some((p, t));
            stars += usize::from(p < pattern.len());
            if stars > STARS_MAX {
                return false;
            }
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match one(&pattern[p..], fold(text[t]), &fold) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => match star {
                Some((behind, tried)) => {
                    (p, t) = (behind, tried + 1);
                    star = Some((behind, t));
                }
                None => return false,
            },
        }
    }
}

/// How many bytes of the pattern the one element took that matches `byte`; `None` when it does not match.
fn one(pattern: &[u8], byte: u8, fold: &impl Fn(u8) -> u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', inside @ ..] => class(inside, byte, fold).map(|used| used + 1),
        [b'\\', literal, ..] => (fold(*literal) == byte).then_some(2),
        [literal, ..] => (fold(*literal) == byte).then_some(1),
    }
}

/// A class, its `[` already taken. A class that is not closed ends with the pattern, as in Redis.
fn class(inside: &[u8], byte: u8, fold: &impl Fn(u8) -> u8) -> Option<usize> {
    let negated = inside.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &inside[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= fold(*literal) == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*low.max(high)));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("", "a", false),
            ("*", "", false),
            ("**", "", false),
            ("a*", "a", true),
            ("**", "abc", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b*", "abc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[ab]c", "bc", true),
            ("[ab]c", "cc", false),
            ("[^ab]c", "cc", true),
            ("[a-c]", "b", true),
            ("[c-a]", "b", true),
            ("[a-]", "-", false),
            ("[a", "a", true),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("a\\", "a\\", true),
            ("h*llo*w?rld", "hello my world", true),
            ("*a*b", "aXbXa", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), *expected, "{pattern} {text}");
        }
    }

    #[test]
    fn case_counts_unless_it_is_folded() {
        assert!(
            !matches(b"GET*", b"getex")
                && matches_folded(b"GET*", b"getex")
                && matches_folded(b"[A-Z]", b"q")
        );
    }

    #[test]
    fn more_than_a_thousand_stars_fit_nothing() {
        let text = "a".repeat(5_000);
        let fits = |stars: usize, end: &str| matches(("*?".repeat(stars) + end).as_bytes(), text.as_bytes());
        assert!(fits(1_000, "") && fits(1_000, "*") && !fits(1_001, "") && !fits(2_500, ""));
        assert!(
            matches("*".repeat(3_000).as_bytes(), text.as_bytes()),
            "stars that follow each other are one"
        );
    }

    #[test]
    fn many_stars_cost_no_more_than_pattern_times_text() {
        let (pattern, text) = ("a*".repeat(2_000) + "b", "a".repeat(20_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
