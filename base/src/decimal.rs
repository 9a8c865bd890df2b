//! Sums in IEEE 754-2008 decimal128 (34 digits), as people write them down: 1.10 + 2.2 is 3.30.
//!
//! The standard's own rule keeps as many decimals in a sum as the term with the most has. Text is always plain, never with
//! an exponent, and zero is `0`.
use dec::{Context, Decimal128};

use crate::literal::Literal;

/// A decimal number, finite or infinite, never NaN.
#[derive(Clone, Copy, Debug)]
pub struct Decimal(Decimal128);

impl Decimal {
    pub(crate) const ZERO: Decimal = Decimal(Decimal128::ZERO);

    /// The number that `text` is, rounded to 34 digits; what overflows, or is too small to be told from zero, is none.
    pub(crate) fn parse(text: &[u8]) -> Option<Decimal> {
        let literal = Literal::of(text)?;
        let (whole, fraction) = match literal {
            Literal::Decimal { whole, fraction, .. } => (whole, fraction),
            Literal::Infinity { .. } => (text, text),
            Literal::NotANumber | Literal::Hexadecimal { .. } => return None,
        };
        let number = Context::<Decimal128>::default().parse(text).ok()?;
        let overflowed = number.is_infinite() && matches!(literal, Literal::Decimal { .. });
        let vanished = number.is_zero() && whole.iter().chain(fraction).any(|digit| *digit != b'0');
        (!overflowed && !vanished).then_some(Decimal(number))
    }

    /// The largest finite one.
    pub(crate) fn most() -> Decimal {
        Decimal::parse(b"9.999999999999999999999999999999999e6144").unwrap_or(Decimal::ZERO)
    }

    pub(crate) fn negated(self) -> Decimal {
        Decimal(-self.0)
    }

    pub(crate) fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }

    pub(crate) fn is_negative(self) -> bool {
        self.0.is_negative() && !self.0.is_zero()
    }

    pub(crate) fn exceeds(self, other: Decimal) -> bool {
        self.0 > other.0
    }

    /// The sum; none when it is not finite.
    pub(crate) fn sum(self, other: Decimal) -> Option<Decimal> {
        let sum = Context::<Decimal128>::default().add(self.0, other.0);
        sum.is_finite().then_some(Decimal(sum))
    }

    /// The text of a finite number.
    pub(crate) fn text(self) -> String {
        text(&self.0)
    }
}

fn text(number: &Decimal128) -> String {
    if number.is_zero() {
        return "0".to_owned();
    }
    let digits: String = number.coefficient_digits().iter().map(|digit| char::from(b'0' + digit)).collect();
    let digits = digits.trim_start_matches('0');
    let sign = if number.is_negative() { "-" } else { "" };
    match number.exponent() {
        exponent @ 0.. => format!("{sign}{digits}{}", "0".repeat(exponent as usize)),
        exponent => {
            let decimals = exponent.unsigned_abs() as usize;
            let padded = format!("{digits:0>width$}", width = decimals + 1);
            let (whole, fraction) = padded.split_at(padded.len() - decimals);
            format!("{sign}{whole}.{fraction}")
        }
    }
}
