//! A score of a sorted set: a double, and the decimal text it was given where that says more.
//!
//! Sorted sets are in the order of the doubles; two scores with equal doubles are equal, whatever their texts.
//!
//! | given | double | text kept | why |
//! |---|---|---|---|
//! | `3`, `0.5`, `1e3`, `0x10` | itself | none | the double's shortest text says the same |
//! | `1.10`, `2.0` | 1.1, 2 | `1.10`, `2.0` | decimals that were written down |
//! | `9007199254740993` | 9007199254740992 | `9007199254740993` | digits that a double has no room for |
//! | `+01.50` | 1.5 | `1.50` | sign and zeros in front mean nothing |
//! | `1.10e0`, `inf`, `Infinity` | 1.1, inf | none | exponents and infinities have one form only |
//!
//! A text is rounded to the 34 digits of a decimal128, and one longer than [`TEXT_MAX`] is not kept.
use std::borrow::Cow;

use crate::decimal::Decimal;
use crate::number::{self, NumberMode};

/// Bytes of the longest text that is kept.
pub const TEXT_MAX: usize = 63;

/// Whole numbers up to this one have a double each, so there is nothing more to say about them.
const WHOLE_MAX: i64 = (1 << 53) - 1;

/// See the head of this file. Never NaN.
#[derive(Clone, Debug)]
pub struct Score {
    value: f64,
    text: Option<Box<str>>,
}

impl Score {
    /// A double without a text of its own. It must not be NaN.
    pub fn of(value: f64) -> Score {
        debug_assert!(!value.is_nan(), "no score is NaN");
        Score { value, text: None }
    }

    /// A double with the text that it is kept with; an empty one is none.
    pub fn with_text(value: f64, text: &str) -> Score {
        Score { text: (!text.is_empty()).then(|| text.into()), ..Score::of(value) }
    }

    /// The score that an argument is: what [`number::double`] reads, but for NaN.
    pub fn parse(mode: NumberMode, argument: &[u8]) -> Option<Score> {
        if let Some(whole) = whole(argument) {
            return Some(Score::of(whole as f64));
        }
        let value = number::double(argument).filter(|value| !value.is_nan())?;
        if mode == NumberMode::Redis
            || !is_plain(argument)
            || number::double_text(value).as_bytes() == argument
        {
            return Some(Score::of(value));
        }
        let Some(decimal) = Decimal::parse(argument) else { return Some(Score::of(value)) };
        Some(Score::decimal(decimal, value))
    }

    /// `value` with the text of the decimal number that is next to it, if that says more.
    fn decimal(decimal: Decimal, value: f64) -> Score {
        let text = decimal.text();
        let shortest = Decimal::parse(number::double_text(value).as_bytes()).map(Decimal::text);
        if shortest.as_ref() == Some(&text) || text.len() > TEXT_MAX {
            return Score::of(value);
        }
        // The double is that of the kept digits, so that a client that parses them gets the same score.
        Score::with_text(text.parse().unwrap_or(value), &text)
    }

    /// The double.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The text that says more than the double, or nothing.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// The sum, in decimal unless `mode` says otherwise; none where it is no number (inf - inf).
    pub fn sum(&self, mode: NumberMode, other: &Score) -> Option<Score> {
        let value = self.value + other.value;
        if value.is_nan() {
            return None;
        }
        let whole = |score: &Score| {
            score.text.is_none()
                && score.value.trunc() == score.value
                && score.value.abs() <= WHOLE_MAX as f64
        };
        if mode == NumberMode::Redis
            || value.is_infinite()
            || whole(self) && whole(other) && whole(&Score::of(value))
        {
            return Some(Score::of(value));
        }
        let decimal = |score: &Score| Decimal::parse(score.shown().as_ref().as_bytes());
        let sum = decimal(self).zip(decimal(other)).and_then(|(one, two)| one.sum(two));
        let Some(sum) = sum else { return Some(Score::of(value)) };
        let value = number::double(sum.text().as_bytes()).unwrap_or(value);
        Some(Score::decimal(sum, value))
    }

    /// What is shown of it: its own text, or the double's shortest.
    pub fn shown(&self) -> Cow<'_, str> {
        match &self.text {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(number::double_text(self.value).as_str().to_owned()),
        }
    }
}

/// Two scores are equal when their doubles are.
impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.value == other.value
    }
}

/// The whole number that digits are, with zeros in front or without; none where a double may be another, or has a sign and is 0.
fn whole(argument: &[u8]) -> Option<i64> {
    const DIGITS_MAX: usize = 15;
    let (negative, digits) = match argument {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let rest = &digits[zeros..];
    if digits.is_empty()
        || rest.len() > DIGITS_MAX
        || negative && rest.is_empty()
        || !rest.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    let number = rest.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    Some(if negative { -number } else { number })
}

/// Whether a number is written as digits with a point perhaps: without exponent, and in no other base.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Score {
        Score::parse(NumberMode::Decimal, text.as_bytes()).unwrap_or_else(|| panic!("{text} is a score"))
    }

    #[test]
    fn a_text_is_kept_where_it_says_more_than_the_double() {
        for (given, value, kept) in [
            ("3", 3.0, ""),
            ("-7", -7.0, ""),
            ("000000123456", 123456.0, ""),
            ("-0070", -70.0, ""),
            ("+0", 0.0, ""),
            ("0009007199254740993", 9007199254740992.0, "9007199254740993"),
            ("0.5", 0.5, ""),
            ("1e3", 1000.0, ""),
            ("0x10", 16.0, ""),
            ("1.10", 1.1, "1.10"),
            ("2.0", 2.0, "2.0"),
            ("+01.50", 1.5, "1.50"),
            (".5", 0.5, ""),
            ("5.", 5.0, ""),
            ("-.50", -0.5, "-0.50"),
            ("1.10e0", 1.1, ""),
            ("9007199254740993", 9007199254740992.0, "9007199254740993"),
            ("9007199254740992", 9007199254740992.0, ""),
            ("100000000000000000000", 1e20, ""),
            ("100000000000000000001", 1e20, "100000000000000000001"),
            ("0.0000000001", 1e-10, ""),
            ("0.00000000010", 1e-10, "0.00000000010"),
            ("3.14159265358979323846", std::f64::consts::PI, "3.14159265358979323846"),
            ("0.00", 0.0, ""),
            ("-0", 0.0, ""),
            ("inf", f64::INFINITY, ""),
            ("-Infinity", f64::NEG_INFINITY, ""),
        ] {
            let score = parsed(given);
            assert_eq!((score.value(), score.text()), (value, kept), "{given}");
            assert_eq!(Score::parse(NumberMode::Redis, given.as_bytes()).unwrap().text(), "");
        }
        for text in ["nan", "", " 1", "1 ", "x", "1e400", "1e-400"] {
            assert!(Score::parse(NumberMode::Decimal, text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn digits_past_a_decimal128_are_rounded_and_texts_past_the_room_are_dropped() {
        let score = parsed("0.12345678901234567890123456789012345678");
        assert_eq!(score.text(), "0.1234567890123456789012345678901235");
        let long = format!("0.{}10", "0".repeat(70));
        assert_eq!((parsed(&long).text(), parsed(&long).value()), ("", 1e-71));
    }

    #[test]
    fn sums_are_decimal_unless_the_mode_says_otherwise() {
        for (one, two, decimal, binary) in [
            ("1.10", "2.2", "3.30", "3.3000000000000003"),
            ("0.1", "0.2", "0.3", "0.30000000000000004"),
            ("1", "2", "3", "3"),
            ("1.5", "1.5", "3.0", "3"),
            ("9007199254740992", "1", "9007199254740993", "9007199254740992"),
            ("1e308", "1e308", "inf", "inf"),
            ("inf", "1.10", "inf", "inf"),
            ("1.10", "-1.10", "0", "0"),
        ] {
            let sum = |mode, one, two| {
                let (one, two) = (Score::parse(mode, one).unwrap(), Score::parse(mode, two).unwrap());
                one.sum(mode, &two).unwrap().shown().into_owned()
            };
            assert_eq!(sum(NumberMode::Decimal, one.as_bytes(), two.as_bytes()), decimal, "{one} + {two}");
            assert_eq!(sum(NumberMode::Redis, one.as_bytes(), two.as_bytes()), binary, "{one} + {two}");
        }
        assert!(parsed("inf").sum(NumberMode::Decimal, &parsed("-inf")).is_none());
    }
}
