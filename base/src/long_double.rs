//! The 80-bit floating-point numbers in which Redis adds on x86, in software: the same text on every machine.
//!
//! A number is `mantissa * 2^exponent` with 64 bits of mantissa, rounded to the nearest, ties to even. Text is converted
//! exactly. What the setting `number-mode redis` shows is what C's `%.17Lf` prints, without its trailing zeros.
use crate::literal::Literal;
use crate::natural::Natural;

/// The power of two of the first bit of the largest number, and of the smallest one (subnormals included).
const ORDER_MAX: i32 = 16_383;
const ORDER_MIN: i32 = -16_445;

/// Decimals that are printed.
const DECIMALS: usize = 17;

/// An 80-bit number, never NaN.
#[derive(Clone, Copy, Debug)]
pub struct LongDouble {
    negative: bool,
    /// Its highest bit is set, but for zero.
    mantissa: u64,
    exponent: i32,
    infinite: bool,
}

impl LongDouble {
    pub(crate) const ZERO: LongDouble =
        LongDouble { negative: false, mantissa: 0, exponent: 0, infinite: false };

    /// The number that `text` is; what overflows, or is too small to be told from zero, is none.
    pub(crate) fn parse(text: &[u8]) -> Option<LongDouble> {
        let (negative, ratio) = match Literal::of(text)? {
            Literal::NotANumber => return None,
            Literal::Infinity { negative } => {
                return Some(LongDouble { negative, infinite: true, ..LongDouble::ZERO });
            }
            Literal::Hexadecimal { negative, whole, fraction, exponent } => {
                let ratio = Natural::from_digits(16, whole, fraction).rounded_ratio(&Natural::from(1), 64);
                (
                    negative,
                    ratio.map(|(mantissa, shift)| {
                        (mantissa, i64::from(shift) + exponent - 4 * fraction.len() as i64)
                    }),
                )
            }
            Literal::Decimal { negative, whole, fraction, exponent } => (
                negative,
                decimal_ratio(whole, fraction, exponent)?
                    .map(|(mantissa, exponent)| (mantissa, i64::from(exponent))),
            ),
        };
        let Some((mantissa, exponent)) = ratio else {
            return Some(LongDouble { negative, ..LongDouble::ZERO });
        };
        let in_range = (i64::from(ORDER_MIN)..=i64::from(ORDER_MAX)).contains(&(exponent + 63));
        in_range.then_some(LongDouble { negative, mantissa, exponent: exponent as i32, infinite: false })
    }

    /// The largest finite one.
    pub(crate) const MOST: LongDouble =
        LongDouble { negative: false, mantissa: u64::MAX, exponent: ORDER_MAX - 63, infinite: false };

    pub(crate) fn negated(self) -> LongDouble {
        LongDouble { negative: !self.negative, ..self }
    }

    pub(crate) fn is_infinite(self) -> bool {
        self.infinite
    }

    fn is_zero(self) -> bool {
        self.mantissa == 0 && !self.infinite
    }

    pub(crate) fn is_negative(self) -> bool {
        self.negative && !self.is_zero()
    }

    pub(crate) fn exceeds(self, other: LongDouble) -> bool {
        let size = |number: LongDouble| {
            let exponent = if number.is_zero() { i32::MIN } else { number.exponent };
            (number.infinite, exponent, number.mantissa)
        };
        match (self.is_negative(), other.is_negative()) {
            (false, false) => size(self) > size(other),
            (true, true) => size(self) < size(other),
            (negative, _) => !negative,
        }
    }

    /// The sum; none when it is not finite.
    pub(crate) fn finite_sum(self, other: LongDouble) -> Option<LongDouble> {
        if self.infinite || other.infinite {
            return None;
        }
        let sum = self.sum(other);
        (sum.mantissa == 0 || sum.exponent + 63 <= ORDER_MAX).then_some(sum)
    }

    fn sum(self, other: LongDouble) -> LongDouble {
        let (large, small) =
            if (self.exponent, self.mantissa) >= (other.exponent, other.mantissa) || other.mantissa == 0 {
                (self, other)
            } else {
                (other, self)
            };
        if small.mantissa == 0 || large.mantissa == 0 {
            return if large.mantissa == 0 { small } else { large };
        }
        // Two bits stay free above for the carry, 62 below for what rounding must see; what falls off is only remembered.
        let distance = (large.exponent - small.exponent) as u32;
        let (high, low) = (u128::from(large.mantissa) << 62, u128::from(small.mantissa) << 62);
        let kept = low.checked_shr(distance).unwrap_or(0);
        let lost = kept.checked_shl(distance).unwrap_or(0) != low;
        let exact =
            if large.negative == small.negative { high + kept } else { high - kept - u128::from(lost) };
        if exact == 0 {
            return LongDouble::ZERO;
        }
        let shift = 64 - exact.leading_zeros() as i32;
        let (mut mantissa, mut exponent) =
            ((exact << exact.leading_zeros()) >> 64, large.exponent - 62 + shift);
        let dropped = (exact << exact.leading_zeros()) as u64;
        let half = 1u64 << 63;
        if dropped > half || dropped == half && (lost || mantissa & 1 == 1) {
            mantissa += 1;
        }
        if mantissa >> 64 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
        LongDouble { negative: large.negative, mantissa: mantissa as u64, exponent, infinite: false }
    }

    /// The text of a finite one: plain, with at most 17 decimals.
    pub(crate) fn text(self) -> String {
        let mut scaled = Natural::from(self.mantissa);
        scaled.scale(DECIMALS as u32);
        let digits = format!("{:0>1$}", scaled.shifted(i64::from(self.exponent)).decimal(), DECIMALS + 1);
        let (whole, decimals) = digits.split_at(digits.len() - DECIMALS);
        let decimals = decimals.trim_end_matches('0');
        let sign = if self.negative && (whole != "0" || !decimals.is_empty()) { "-" } else { "" };
        let point = if decimals.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{decimals}")
    }
}

/// A decimal number rounded to 64 bits: none inside when it is zero, none outside when its exponent alone puts it out of
/// range (so that no call computes with a million digits).
fn decimal_ratio(whole: &[u8], fraction: &[u8], exponent: i64) -> Option<Option<(u64, i32)>> {
    let mut digits = Natural::from_digits(10, whole, fraction);
    let power = exponent - fraction.len() as i64;
    if digits.is_zero() {
        return Some(None);
    }
    if power.unsigned_abs() > 11_000 {
        return None;
    }
    let mut divisor = Natural::from(1);
    if power >= 0 {
        digits.scale(power as u32);
    } else {
        divisor.scale(power.unsigned_abs() as u32);
    }
    Some(digits.rounded_ratio(&divisor, 64))
}
