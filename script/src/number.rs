//! Numbers as C prints and converts them.
use polder_base::number;

/// A double as C converts it to a 64-bit integer on the machines that Redis runs on.
pub fn whole(value: f64) -> i64 {
    if value.is_nan() || !(-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value) {
        i64::MIN
    } else {
        value as i64
    }
}

/// A double as C converts it to an unsigned 64-bit integer there.
pub fn unsigned(value: f64) -> u64 {
    const HALF: f64 = 9.223_372_036_854_776e18;
    // The machine converts signed numbers; what is not less than half of the range is brought there and back.
    if value >= HALF { whole(value - HALF) as u64 ^ 1 << 63 } else { whole(value) as u64 }
}

/// A double as C converts it to a 32-bit integer there.
pub fn short(value: f64) -> i32 {
    let fits = value > f64::from(i32::MIN) - 1.0 && value < f64::from(i32::MAX) + 1.0;
    if fits { value as i32 } else { i32::MIN }
}

/// A number as Lua shows it.
pub fn text(value: f64) -> String {
    general(value, 14)
}

/// `%.{precision}g`: that many significant digits, without trailing zeros.
pub fn general(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        return if value.is_sign_negative() { format!("-{text}") } else { text.into() };
    }
    let precision = precision.max(1);
    let scientific = format!("{value:.*e}", precision - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{value:.decimals$}"))
}

/// A number as an argument of a called command, as since Redis 7.2: the shortest text that reads back the same, whole numbers without
/// an exponent.
pub fn argument(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        _ if value.is_nan() => text(value),
        _ => number::double_text(value).as_str().into(),
    }
}

/// The number that a text begins with, as C's `strtod` reads it without white space in front, and how long it is.
pub fn prefix(text: &[u8]) -> Option<(f64, usize)> {
    let signed = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let rest = &text[signed..];
    let begins = |word: &[u8]| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word);
    if begins(b"inf") {
        return Some((sign * f64::INFINITY, signed + if begins(b"infinity") { 8 } else { 3 }));
    }
    if begins(b"nan") {
        return Some((f64::NAN.copysign(sign), signed + 3));
    }
    if begins(b"0x")
        && let Some((value, len)) = hexadecimal(&rest[2..])
    {
        return Some((sign * value, signed + 2 + len));
    }
    let digits =
        |from: usize| rest[from.min(rest.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    if rest.get(len) == Some(&b'.') {
        let fraction = digits(len + 1);
        if whole + fraction == 0 {
            return None;
        }
        len += 1 + fraction;
    }
    if len == 0 {
        return None;
    }
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(len + 1), Some(b'-' | b'+')));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    let value: f64 = std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
    Some((sign * value, signed + len))
}

/// Hexadecimal digits with a fraction and a power of two, what follows `0x`.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut value, mut scale, mut len, mut seen, mut point) = (0.0f64, 0i32, 0, false, false);
    while let Some(byte) = text.get(len) {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                scale -= if point { 4 } else { 0 };
                seen = true;
            }
            None if *byte == b'.' && !point => point = true,
            None => break,
        }
        len += 1;
    }
    if !seen {
        return None;
    }
    if matches!(text.get(len), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let digits =
            text[(len + 1 + sign).min(text.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            let exponent = std::str::from_utf8(&text[len + 1..len + 1 + sign + digits])
                .ok()?
                .parse::<i32>()
                .unwrap_or(i32::MAX / 2);
            scale = scale.saturating_add(exponent);
            len += 1 + sign + digits;
        }
    }
    // Nothing stays nothing, however far it is moved.
    Some((if value == 0.0 { value } else { value * 2.0f64.powi(scale) }, len))
}

/// The number that a whole text is, as Lua converts strings.
pub fn parse(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    prefix(text).filter(|(_, len)| *len == text.len()).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        let cases: &[(f64, usize, &str)] = &[
            (0.1, 17, "0.10000000000000001"),
            (1e20, 17, "1e+20"),
            (12.5, 17, "12.5"),
            (-0.0, 17, "-0"),
            (f64::INFINITY, 17, "inf"),
            (9007199254740992.0, 17, "9007199254740992"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e-5, 14, "1e-05"),
            (123456789012345678.0, 14, "1.2345678901235e+17"),
            (100.0, 14, "100"),
            (0.0001, 14, "0.0001"),
        ];
        for (value, precision, text) in cases {
            assert_eq!(&general(*value, *precision), text);
        }
        assert_eq!(argument(3.0), "3");
        let arguments = [
            (-0.0, "0"),
            (0.1, "0.1"),
            (1e17, "100000000000000000"),
            (1e300, "1e+300"),
            (f64::INFINITY, "inf"),
            (1e-7, "1e-7"),
        ];
        for (value, text) in arguments {
            assert_eq!(argument(value), text);
        }
    }

    #[test]
    fn what_is_no_integer_converts_as_on_amd64() {
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e19] {
            assert_eq!(whole(value), i64::MIN);
        }
        assert_eq!((whole(1.9), whole(-1.9)), (1, -1));
        for (value, converted) in [
            (f64::NAN, 1 << 63),
            (f64::INFINITY, 0),
            (1e20, 0),
            (-1.0, u64::MAX),
            (1.8e19, 18_000_000_000_000_000_000),
        ] {
            assert_eq!(unsigned(value), converted, "{value}");
        }
        for (value, converted) in
            [(f64::NAN, i32::MIN), (1e10, i32::MIN), (2_147_483_647.9, i32::MAX), (-1.9, -1)]
        {
            assert_eq!(short(value), converted, "{value}");
        }
    }
}
