//! A number as C's `strtod` reads it: its parts, without its value.

/// The longest text that is read as a number, in bytes (Redis's `MAX_LONG_DOUBLE_CHARS`).
const TEXT_MAX: usize = 5 * 1024 - 1;

/// A number's text, taken apart as C's `strtod` reads it. All of the text belongs to it.
pub(crate) enum Literal<'t> {
    NotANumber,
    Infinity { negative: bool },
    Decimal { negative: bool, whole: &'t [u8], fraction: &'t [u8], exponent: i64 },
    Hexadecimal { negative: bool, whole: &'t [u8], fraction: &'t [u8], exponent: i64 },
}

impl<'t> Literal<'t> {
    pub(crate) fn of(text: &'t [u8]) -> Option<Literal<'t>> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Literal::Infinity { negative });
        }
        if rest.eq_ignore_ascii_case(b"nan") {
            return Some(Literal::NotANumber);
        }
        if let [b'0', b'x' | b'X', rest @ ..] = rest {
            let (whole, fraction, exponent) = split(rest, u8::is_ascii_hexdigit, b'p')?;
            return Some(Literal::Hexadecimal { negative, whole, fraction, exponent });
        }
        let (whole, fraction, exponent) = split(rest, u8::is_ascii_digit, b'e')?;
        Some(Literal::Decimal { negative, whole, fraction, exponent })
    }
}

/// Takes `digits . digits e exponent` apart; at least one digit must be there.
fn split<'t>(text: &'t [u8], is_digit: fn(&u8) -> bool, mark: u8) -> Option<(&'t [u8], &'t [u8], i64)> {
    let digits = |text: &'t [u8]| text.split_at(text.iter().take_while(|c| is_digit(c)).count());
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => digits(rest),
        rest => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [letter, sign @ (b'+' | b'-'), digits @ ..] if letter.eq_ignore_ascii_case(&mark) => {
            if *sign == b'-' { -exponent(digits)? } else { exponent(digits)? }
        }
        [letter, digits @ ..] if letter.eq_ignore_ascii_case(&mark) => exponent(digits)?,
        _ => return None,
    };
    Some((whole, fraction, exponent))
}

/// An exponent's digits; what is beyond every format's range is cut to something that is still beyond it.
fn exponent(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(1_000_000)))
}
