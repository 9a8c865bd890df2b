//! Numbers as text: what Redis reads as a number, and how it prints one.
//!
//! Keys hold text, so the same few rules decide everywhere whether `" 1"`, `+5`, `1e3` or `0x10` is a number:
//!
//! | function | accepts | as |
//! |---|---|---|
//! | [`integer`] | canonical decimal only: no space, no `+`, no leading zero | Redis's `string2ll` |
//! | [`unsigned`] | digits only | a flag, CAS or delta of memcached |
//! | [`double`] | what C's `strtod` accepts, all of it, without leading space | Redis's `string2d` |
//! | [`Number::parse`] | the same, for sums that must not lose decimals | `INCRBYFLOAT` |
//!
//! This file never rounds silently: what is out of range is no number.
use crate::decimal;
use crate::literal::Literal;
use crate::long_double::LongDouble;
use crate::natural::Natural;

/// The integer that `text` is, if it is one in its only canonical form: `0`, or digits without a leading zero,
/// after a `-` perhaps.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude: u64 = 0;
    for digit in digits {
        // Nineteen digits stay below 10^19, which a u64 holds: the multiplication cannot overflow.
        magnitude = magnitude * 10 + digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// The number that `text` is, if it is digits only; leading zeros are allowed, as memcached allows them.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// The double that `text` is: decimal or hexadecimal, `inf` or `nan` in any case. What overflows, or is too small to be
/// told from zero, is none.
pub fn double(text: &[u8]) -> Option<f64> {
    if let Some(value) = integer(text) {
        return Some(value as f64);
    }
    let signed = |negative: bool, value: f64| if negative { -value } else { value };
    let value = match Literal::of(text)? {
        Literal::NotANumber => return Some(f64::NAN),
        Literal::Infinity { negative } => return Some(signed(negative, f64::INFINITY)),
        Literal::Decimal { .. } => std::str::from_utf8(text).ok()?.parse::<f64>().ok()?,
        Literal::Hexadecimal { negative, whole, fraction, exponent } => {
            let bits = Natural::from_digits(16, whole, fraction);
            match bits.rounded_ratio(&Natural::from(1), 53) {
                None => return Some(signed(negative, 0.0)),
                Some((mantissa, shift)) => signed(
                    negative,
                    scaled(mantissa as f64, i64::from(shift) + exponent - 4 * fraction.len() as i64),
                ),
            }
        }
    };
    let lost = value == 0.0
        && text.iter().take_while(|c| !matches!(c, b'e' | b'E')).any(|c| matches!(c, b'1'..=b'9'));
    (value.is_finite() && !lost).then_some(value)
}

/// The double that the bound of a range is, as C's `strtod` alone reads it: behind white space, up to a NUL byte, the empty
/// text as zero, what overflows as infinite and what is too small as zero. NaN is none.
pub fn bound(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let text = &text[text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count()..];
    match double(text) {
        Some(value) => (!value.is_nan()).then_some(value),
        None => match Literal::of(text)? {
            Literal::Decimal { .. } => std::str::from_utf8(text).ok()?.parse().ok(),
            Literal::Hexadecimal { negative, exponent, .. } => {
                let value = if exponent > 0 { f64::INFINITY } else { 0.0 };
                Some(if negative { -value } else { value })
            }
            Literal::NotANumber | Literal::Infinity { .. } => None,
        },
    }
}

/// `value` times two to the power of `exponent`.
fn scaled(value: f64, exponent: i64) -> f64 {
    // In three steps, since 2^1074 is no double; a step too far gives infinity or zero, which the caller refuses.
    let exponent = exponent.clamp(-3000, 3000) as i32;
    (0..3).fold(value, |value, step| value * 2f64.powi((exponent + step).div_euclid(3)))
}

/// The text of one number, without allocation.
#[derive(Clone, Copy)]
pub struct NumberText {
    bytes: [u8; NumberText::LEN_MAX],
    len: u8,
}

impl NumberText {
    /// A sign, 17 digits, at most 7 zeros and a point (or an exponent of five characters) fit easily.
    const LEN_MAX: usize = 32;

    fn new() -> NumberText {
        NumberText { bytes: [0; NumberText::LEN_MAX], len: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let len = usize::from(self.len);
        self.bytes[len..len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    fn push_zeros(&mut self, count: usize) {
        self.push(&[b'0'; NumberText::LEN_MAX][..count]);
    }

    /// The text's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The text, which is ASCII.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// An integer in decimal.
pub fn integer_text(value: i64) -> NumberText {
    let mut text = NumberText::new();
    text.push(itoa::Buffer::new().format(value).as_bytes());
    text
}

/// The shortest text that reads back as `value`, laid out as Redis 7.2 and later do: `3`, `0.1`, `1e+20`, `inf`, `nan`.
pub fn double_text(value: f64) -> NumberText {
    let mut text = NumberText::new();
    if value.is_nan() {
        text.push(b"nan");
    } else if value.is_infinite() {
        text.push(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value == 0.0 {
        text.push(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if value.abs() < (i64::MAX / 2) as f64 && value == value.trunc() {
        text.push(itoa::Buffer::new().format(value as i64).as_bytes());
    } else {
        push_shortest(&mut text, value);
    }
    text
}

/// As [`double_text`], but with an exponent for whole numbers, too, wherever that is shorter: what Redis digests.
pub fn shortest_text(value: f64) -> NumberText {
    if !value.is_finite() || value == 0.0 {
        return double_text(value);
    }
    let mut text = NumberText::new();
    push_shortest(&mut text, value);
    text
}

/// Lays the shortest digits of a finite `value` out: plain where few zeros are needed, else with an exponent.
fn push_shortest(text: &mut NumberText, value: f64) {
    let mut digits = [0u8; 20];
    let (count, scale) = shortest_digits(value.abs(), &mut digits);
    let digits = &digits[..count];
    // value = digits x 10^scale; `order` is the power of ten of its first digit.
    let order = scale + count as i32 - 1;
    if value < 0.0 {
        text.push(b"-");
    }
    if scale >= 0 && order < count as i32 + 7 {
        text.push(digits);
        text.push_zeros(scale as usize);
    } else if scale < 0 && (scale > -7 || order.abs() < 4) {
        let whole = count as i32 + scale;
        if whole <= 0 {
            text.push(b"0.");
            text.push_zeros(-whole as usize);
            text.push(digits);
        } else {
            text.push(&digits[..whole as usize]);
            text.push(b".");
            text.push(&digits[whole as usize..]);
        }
    } else {
        text.push(&digits[..1]);
        if count > 1 {
            text.push(b".");
            text.push(&digits[1..]);
        }
        text.push(if order < 0 { b"e-" } else { b"e+" });
        text.push(itoa::Buffer::new().format(order.abs()).as_bytes());
    }
}

/// The shortest digits (without zeros at either end) and the power of ten that they are multiplied by.
fn shortest_digits(value: f64, digits: &mut [u8; 20]) -> (usize, i32) {
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value);
    let (significand, exponent) = match text.split_once('e') {
        Some((significand, exponent)) => (significand, exponent.parse().unwrap_or(0)),
        None => (text, 0),
    };
    let decimals = significand.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let mut scale: i32 = exponent - decimals as i32;
    let mut count = 0;
    for digit in significand.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0') {
        digits[count] = digit;
        count += 1;
    }
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
        scale += 1;
    }
    (count, scale)
}

/// How sums of non-integers are computed and printed: the setting `number-mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NumberMode {
    /// IEEE 754-2008 decimal128: 1.10 + 2.2 is 3.30.
    #[default]
    Decimal,
    /// The 80-bit binary numbers and 17 decimals of Redis on x86: 1.10 + 2.2 is 3.3.
    Redis,
}

/// A number that `INCRBYFLOAT` and its like add to.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Decimal(decimal::Decimal),
    Binary(LongDouble),
}

impl Number {
    /// Zero, which an absent key counts as.
    pub fn zero(mode: NumberMode) -> Number {
        match mode {
            NumberMode::Decimal => Number::Decimal(decimal::Decimal::ZERO),
            NumberMode::Redis => Number::Binary(LongDouble::ZERO),
        }
    }

    /// The number that `text` is, if it is one that `mode` can hold. Infinity is one, NaN is not.
    pub fn parse(mode: NumberMode, text: &[u8]) -> Option<Number> {
        Some(match mode {
            NumberMode::Decimal => Number::Decimal(decimal::Decimal::parse(text)?),
            NumberMode::Redis => Number::Binary(LongDouble::parse(text)?),
        })
    }

    /// The largest finite number that `mode` can hold, or its negative.
    pub fn most(mode: NumberMode, negative: bool) -> Number {
        let most = match mode {
            NumberMode::Decimal => Number::Decimal(decimal::Decimal::most()),
            NumberMode::Redis => Number::Binary(LongDouble::MOST),
        };
        if negative { most.negated() } else { most }
    }

    /// The number with the other sign.
    pub fn negated(self) -> Number {
        match self {
            Number::Decimal(number) => Number::Decimal(number.negated()),
            Number::Binary(number) => Number::Binary(number.negated()),
        }
    }

    /// Returns true if it is below zero.
    pub fn is_negative(self) -> bool {
        match self {
            Number::Decimal(number) => number.is_negative(),
            Number::Binary(number) => number.is_negative(),
        }
    }

    pub fn is_infinite(self) -> bool {
        match self {
            Number::Decimal(number) => number.is_infinite(),
            Number::Binary(number) => number.is_infinite(),
        }
    }

    /// Returns true if it is greater than another number of the same mode.
    pub fn exceeds(self, other: Number) -> bool {
        match (self, other) {
            (Number::Decimal(left), Number::Decimal(right)) => left.exceeds(right),
            (Number::Binary(left), Number::Binary(right)) => left.exceeds(right),
            _ => false,
        }
    }

    /// The sum, unless it is not finite. Both numbers must be of one mode.
    pub fn sum(self, other: Number) -> Option<Number> {
        match (self, other) {
            (Number::Decimal(left), Number::Decimal(right)) => left.sum(right).map(Number::Decimal),
            (Number::Binary(left), Number::Binary(right)) => left.finite_sum(right).map(Number::Binary),
            _ => None,
        }
    }

    /// The text of a finite number in plain notation.
    pub fn text(self) -> String {
        match self {
            Number::Decimal(number) => number.text(),
            Number::Binary(number) => number.text(),
        }
    }

    /// The sum's text in plain notation, unless the sum is not finite. Both numbers must be of one mode.
    pub fn sum_text(self, other: Number) -> Option<String> {
        self.sum(other).map(Number::text)
    }
}

#[cfg(test)]
mod tests;
