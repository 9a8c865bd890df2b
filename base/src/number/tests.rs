//! What Redis reads as a number and how it prints one, case by case. The sums of `number-mode redis` were taken down from
//! redis-server 7.0.15.
use super::*;

#[test]
fn integers_have_one_form() {
    for value in [0, 1, -1, 10, 42, i64::MAX, i64::MIN, i64::MIN + 1] {
        assert_eq!(integer(value.to_string().as_bytes()), Some(value));
    }
    for text in [
        "",
        "-",
        "-0",
        "+1",
        "01",
        " 1",
        "1 ",
        "1.0",
        "1e3",
        "0x10",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
    ] {
        assert_eq!(integer(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn doubles_are_read_as_strtod_reads_them() {
    for (text, value) in [
        ("3", 3.0),
        ("+3", 3.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1e-2", -0.01),
        ("0x10", 16.0),
        ("0x1.8p1", 3.0),
        ("0X.8P-1", 0.25),
        ("inf", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        ("1e308", 1e308),
        ("5e-324", 5e-324),
        ("0e9999999", 0.0),
        ("0x1p-1074", 5e-324),
    ] {
        assert_eq!(double(text.as_bytes()), Some(value), "{text:?}");
    }
    assert!(double(b"nan").is_some_and(f64::is_nan));
    for text in [
        "", " 1", "1 ", ".", "e5", "1e", "1e+", "1e400", "1e-400", "0x", "0x1p5000", "infin", "1,5", "--1",
        "1e5x",
    ] {
        assert_eq!(double(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn bounds_are_read_as_strtod_alone_reads_them() {
    for (text, value) in [
        ("", 0.0),
        (" \t1", 1.0),
        ("1\0x", 1.0),
        ("1e400", f64::INFINITY),
        ("-1e400", f64::NEG_INFINITY),
        ("1e-400", 0.0),
        ("0x1p5000", f64::INFINITY),
        ("-inf", f64::NEG_INFINITY),
        ("2.5", 2.5),
    ] {
        assert_eq!(bound(text.as_bytes()), Some(value), "{text:?}");
    }
    for text in [" ", "1 ", "nan", "x", "(1", "1x"] {
        assert_eq!(bound(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn whole_numbers_have_exponents_where_redis_digests_them() {
    for (value, text) in [
        (0.0, "0"),
        (3.0, "3"),
        (1e7, "10000000"),
        (1e9, "1e+9"),
        (0.1, "0.1"),
        (1.5e300, "1.5e+300"),
        (f64::INFINITY, "inf"),
    ] {
        assert_eq!(shortest_text(value).as_str(), text);
    }
}

#[test]
fn doubles_are_printed_as_short_as_they_read_back() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (3.0, "3"),
        (-17.0, "-17"),
        (0.1, "0.1"),
        (3.3000000000000003, "3.3000000000000003"),
        (1e18, "1000000000000000000"),
        (1e20, "1e+20"),
        (-1e20, "-1e+20"),
        (1.5e300, "1.5e+300"),
        (1e-7, "1e-7"),
        (1.25e-7, "1.25e-7"),
        (0.000123, "0.000123"),
        (0.00001, "0.00001"),
        (123456789012345680000.0, "123456789012345680000"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ] {
        assert_eq!(double_text(value).as_str(), text);
    }
    for bits in (0..20_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        let value = f64::from_bits(bits);
        if value.is_finite() {
            assert_eq!(double(double_text(value).as_bytes()), Some(value));
        }
    }
}

fn sum(mode: NumberMode, left: &str, right: &str) -> Option<String> {
    Number::parse(mode, left.as_bytes())?.sum_text(Number::parse(mode, right.as_bytes())?)
}

#[test]
fn decimal_sums_keep_the_decimals_they_were_given() {
    for (left, right, text) in [
        ("1.10", "2.2", "3.30"),
        ("0.1", "0.2", "0.3"),
        ("1.5", "0.5", "2.0"),
        ("1.10", "-1.10", "0"),
        ("-0", "-0", "0"),
        ("5.0e3", "2.0e2", "5200"),
        ("1e20", "1", "100000000000000000001"),
        ("1e20", "0", "100000000000000000000"),
        ("3", "-3.5", "-0.5"),
        ("0.001", "0", "0.001"),
        ("1.", ".5", "1.5"),
        ("9999999999999999999999999999999999", "1", "10000000000000000000000000000000000"),
    ] {
        assert_eq!(sum(NumberMode::Decimal, left, right).as_deref(), Some(text), "{left} + {right}");
    }
    for (left, right) in [
        ("inf", "1"),
        ("1e7000", "1"),
        ("nan", "1"),
        ("0x10", "1"),
        ("", "1"),
        ("1 ", "1"),
        ("9e6144", "9e6144"),
        ("1e-7000", "1"),
    ] {
        assert_eq!(sum(NumberMode::Decimal, left, right), None, "{left} + {right}");
    }
}

#[test]
fn redis_sums_are_those_of_the_80_bit_unit() {
    for (left, right, text) in [
        ("1.10", "2.2", "3.3"),
        ("3.3", "1e20", "100000000000000000000"),
        ("123456789012345678901234567890", "0.1", "123456789012345678899921813504"),
        ("1", "0x10", "17"),
        ("0", "1e-4940", "0"),
        ("0", "-0", "0"),
        ("0", "1e-17", "0.00000000000000001"),
        ("0.00000000000000001", "4e-18", "0.00000000000000001"),
        ("0.00000000000000001", "5e-18", "0.00000000000000002"),
        ("-1", "1", "0"),
        ("5.0e3", "2.0e2", "5200"),
        ("0.1", "0.2", "0.3"),
        ("10.50", "-0.5", "10"),
        ("-0.25", "-0.5", "-0.75"),
    ] {
        assert_eq!(sum(NumberMode::Redis, left, right).as_deref(), Some(text), "{left} + {right}");
    }
    let large = sum(NumberMode::Redis, "0", "1e308").unwrap_or_default();
    assert!(
        large.starts_with("99999999999999999996685879655845645660560099847415567207797")
            && large.len() == 308
    );
    for (left, right) in [
        ("1", "inf"),
        ("nan", "1"),
        ("1e-5000", "0"),
        ("1e5000", "0"),
        ("", "1"),
        (" 1", "1"),
        ("1.1e4932", "1.1e4932"),
    ] {
        assert_eq!(sum(NumberMode::Redis, left, right), None, "{left} + {right}");
    }
}
