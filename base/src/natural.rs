//! Natural numbers of any size: just what exact conversion between decimal text and binary floats needs.
//!
//! Limbs of 32 bits, the lowest first, none of the highest zero. The largest that text of 5 KiB can name has some 17,000
//! bits, so plain school arithmetic does.
use std::cmp::Ordering;

/// A natural number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Natural {
    limbs: Vec<u32>,
}

impl From<u64> for Natural {
    fn from(value: u64) -> Natural {
        let mut number = Natural { limbs: vec![value as u32, (value >> 32) as u32] };
        number.trim();
        number
    }
}

impl Natural {
    /// The number whose digits in `radix` (at most 16) are those of `whole` and then of `fraction`, without the point.
    pub(crate) fn from_digits(radix: u32, whole: &[u8], fraction: &[u8]) -> Natural {
        let mut number = Natural { limbs: Vec::new() };
        for digit in whole.iter().chain(fraction) {
            number.multiply_add(radix, char::from(*digit).to_digit(radix).unwrap_or(0));
        }
        number
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// Multiplies by a power of ten.
    pub(crate) fn scale(&mut self, mut power: u32) {
        while power > 0 {
            let step = power.min(9);
            self.multiply_add(10u32.pow(step), 0);
            power -= step;
        }
    }

    /// The number times 2^`bits`; for negative `bits` rounded to the nearest, ties to even.
    pub(crate) fn shifted(&self, bits: i64) -> Natural {
        if bits >= 0 {
            return self.shifted_left(bits as usize);
        }
        let bits = bits.unsigned_abs() as usize;
        if bits > self.bits() {
            return Natural { limbs: Vec::new() };
        }
        let (limbs, rest) = (bits / 32, bits % 32);
        let mut result = Natural { limbs: Vec::with_capacity(self.limbs.len() - limbs) };
        for at in limbs..self.limbs.len() {
            let high = u64::from(self.limbs.get(at + 1).copied().unwrap_or(0));
            result.limbs.push(((high << 32 | u64::from(self.limbs[at])) >> rest) as u32);
        }
        result.trim();
        let odd = result.limbs.first().is_some_and(|limb| limb & 1 == 1);
        let below_half = !self.bit(bits - 1);
        let exactly_half = (0..bits - 1).all(|bit| !self.bit(bit));
        if !below_half && (odd || !exactly_half) {
            result.multiply_add(1, 1);
        }
        result
    }

    /// `self / denominator` as `mantissa * 2^exponent`, the mantissa of exactly `precision` bits (at most 64) rounded to
    /// the nearest, ties to even; none when it is zero.
    pub(crate) fn rounded_ratio(&self, denominator: &Natural, precision: u32) -> Option<(u64, i32)> {
        if self.is_zero() {
            return None;
        }
        // Aligned so that 1 <= remainder / divisor < 2: each step then yields one bit, the first of them a one.
        let mut exponent = self.bits() as i32 - denominator.bits() as i32;
        let (mut remainder, mut divisor) = (self.clone(), denominator.clone());
        if exponent >= 0 {
            divisor = divisor.shifted_left(exponent as usize);
        } else {
            remainder = remainder.shifted_left(exponent.unsigned_abs() as usize);
        }
        if remainder.compare(&divisor) == Ordering::Less {
            remainder = remainder.shifted_left(1);
            exponent -= 1;
        }
        let mut quotient: u128 = 0;
        for _ in 0..=precision {
            quotient <<= 1;
            if remainder.compare(&divisor) != Ordering::Less {
                remainder.subtract(&divisor);
                quotient |= 1;
            }
            remainder = remainder.shifted_left(1);
        }
        exponent -= precision as i32 - 1;
        let half = quotient & 1 == 1;
        let mut mantissa = quotient >> 1;
        if half && (mantissa & 1 == 1 || !remainder.is_zero()) {
            mantissa += 1;
        }
        if mantissa >> precision != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
        Some((mantissa as u64, exponent))
    }

    /// The number in decimal.
    pub(crate) fn decimal(mut self) -> String {
        let mut groups = Vec::new();
        while !self.is_zero() {
            groups.push(self.divide(1_000_000_000));
        }
        let first = groups.pop().unwrap_or(0);
        groups.iter().rev().fold(first.to_string(), |text, group| format!("{text}{group:09}"))
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    /// How many bits the number has.
    fn bits(&self) -> usize {
        self.limbs.last().map_or(0, |top| self.limbs.len() * 32 - top.leading_zeros() as usize)
    }

    fn bit(&self, at: usize) -> bool {
        self.limbs.get(at / 32).is_some_and(|limb| limb >> (at % 32) & 1 == 1)
    }

    fn multiply_add(&mut self, factor: u32, add: u32) {
        let mut carry = u64::from(add);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    /// Divides by `divisor` in place; returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest: u64 = 0;
        for limb in self.limbs.iter_mut().rev() {
            rest = rest << 32 | u64::from(*limb);
            *limb = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    fn shifted_left(&self, bits: usize) -> Natural {
        let rest = bits % 32;
        let mut limbs = vec![0; bits / 32];
        let mut carry: u64 = 0;
        for limb in &self.limbs {
            carry |= u64::from(*limb) << rest;
            limbs.push(carry as u32);
            carry >>= 32;
        }
        limbs.push(carry as u32);
        let mut result = Natural { limbs };
        result.trim();
        result
    }

    fn compare(&self, other: &Natural) -> Ordering {
        self.limbs
            .len()
            .cmp(&other.limbs.len())
            .then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }

    /// Takes `other`, which is not larger, away.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow: i64 = 0;
        for at in 0..self.limbs.len() {
            let sum =
                i64::from(self.limbs[at]) - i64::from(other.limbs.get(at).copied().unwrap_or(0)) + borrow;
            self.limbs[at] = sum as u32;
            borrow = sum >> 32;
        }
        debug_assert_eq!(borrow, 0, "the subtrahend was larger");
        self.trim();
    }
}
