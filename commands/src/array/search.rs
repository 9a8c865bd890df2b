//! Commands that look at the values of a range: ARGREP, AROP.
use std::borrow::Cow;

use polder_base::glob;
use polder_base::number::{self, Number, NumberMode};
use polder_table::Stop;
use polder_values::array::Item;
use regex::bytes::{Regex, RegexBuilder};

use super::{Range, SYNTAX, index, is, limit, open, reply_pairs, reply_unsigned, wrong_arity};
use crate::string::number_mode;
use polder_calls::call::{Call, Outcome};

const PREDICATES_MAX: usize = 250;
const EXPRESSION_BYTES_MAX: usize = 2048;

/// A question to a value.
enum Predicate<'c> {
    Exact(&'c [u8]),
    Contains(&'c [u8]),
    Glob(&'c [u8]),
    Expression(Regex),
}

/// The options of ARGREP.
struct Wanted<'c> {
    words: Vec<(&'static str, &'c [u8])>,
    needs_all: bool,
    shows_values: bool,
    ignores_case: bool,
    most: usize,
}

impl<'c> Wanted<'c> {
    fn read(args: &[&'c [u8]]) -> Result<Wanted<'c>, Stop> {
        let mut wanted = Wanted {
            words: Vec::new(),
            needs_all: false,
            shows_values: false,
            ignores_case: false,
            most: usize::MAX,
        };
        let mut rest = args;
        while let Some((word, behind)) = rest.split_first() {
            rest = behind;
            if let Some(name) = ["EXACT", "MATCH", "GLOB", "RE"].into_iter().find(|name| is(word, name)) {
                let (text, behind) = rest.split_first().ok_or(SYNTAX)?;
                wanted.add(name, text)?;
                rest = behind;
                continue;
            }
            match () {
                () if is(word, "LIMIT") => {
                    let (most, behind) = rest.split_first().ok_or(SYNTAX)?;
                    (wanted.most, rest) = (limit(most)?, behind);
                }
                () if is(word, "WITHVALUES") => wanted.shows_values = true,
                () if is(word, "NOCASE") => wanted.ignores_case = true,
                () if is(word, "AND") => wanted.needs_all = true,
                () if is(word, "OR") => wanted.needs_all = false,
                () => return Err(SYNTAX.into()),
            }
        }
        if wanted.words.is_empty() { Err(SYNTAX.into()) } else { Ok(wanted) }
    }

    fn add(&mut self, name: &'static str, text: &'c [u8]) -> Result<(), Stop> {
        if self.words.len() == PREDICATES_MAX {
            return Err(format!("ERR too many predicates, maximum is {PREDICATES_MAX}").into());
        }
        if name == "RE" && text.len() > EXPRESSION_BYTES_MAX {
            let text = format!("ERR regular expression is too long, maximum is {EXPRESSION_BYTES_MAX} bytes");
            return Err(text.into());
        }
        self.words.push((name, text));
        Ok(())
    }

    /// The predicates: whether letters are told from each other by their case is known behind all words only.
    fn predicates(&self) -> Result<Vec<Predicate<'c>>, Stop> {
        let each = self.words.iter().map(|(name, text)| {
            Ok(match *name {
                "EXACT" => Predicate::Exact(text),
                "MATCH" => Predicate::Contains(text),
                "GLOB" => Predicate::Glob(text),
                _ => Predicate::Expression(expression(text, self.ignores_case)?),
            })
        });
        each.collect()
    }

    fn holds(&self, predicate: &Predicate<'_>, value: &[u8]) -> bool {
        match (predicate, self.ignores_case) {
            (Predicate::Exact(text), false) => value == *text,
            (Predicate::Exact(text), true) => value.eq_ignore_ascii_case(text),
            (Predicate::Contains(text), _) => contains(value, text, self.ignores_case),
            (Predicate::Glob(pattern), false) => glob::matches(pattern, value),
            (Predicate::Glob(pattern), true) => glob::matches_folded(pattern, value),
            (Predicate::Expression(expression), _) => expression.is_match(value),
        }
    }
}

/// Returns true if a text stands in a value.
fn contains(value: &[u8], text: &[u8], ignores_case: bool) -> bool {
    let is_it = |part: &[u8]| if ignores_case { part.eq_ignore_ascii_case(text) } else { part == text };
    text.is_empty() || value.windows(text.len()).any(is_it)
}

/// A regular expression over bytes. It takes time in proportion to the value and memory within bounds, whatever it is.
fn expression(text: &[u8], ignores_case: bool) -> Result<Regex, Stop> {
    if text.is_empty() {
        return Err("ERR regular expression is empty".into());
    }
    if refers_back(text) {
        return Err("ERR regular expression backreferences are not supported".into());
    }
    // Each byte that is no ASCII stands for itself.
    let mut pattern = String::with_capacity(text.len());
    for byte in text {
        match byte {
            0..0x80 => pattern.push(char::from(*byte)),
            _ => pattern.push_str(&format!("\\x{byte:02x}")),
        }
    }
    let mut builder = RegexBuilder::new(&pattern);
    builder.unicode(false).dot_matches_new_line(true).case_insensitive(ignores_case);
    builder.build().map_err(|error| {
        let why = match error {
            regex::Error::CompiledTooBig(_) => "it takes too much memory",
            _ => "Invalid regexp",
        };
        format!("ERR invalid regular expression: {why}").into()
    })
}

/// Returns true if an expression names one of its groups again.
fn refers_back(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' && bytes.next().is_some_and(|byte| matches!(byte, b'1'..=b'9')) {
            return true;
        }
    }
    false
}

/// A bound of ARGREP: an index, or an end of the array.
fn bound(arg: &[u8], len: u64) -> Result<u64, Stop> {
    match arg {
        b"-" => Ok(0),
        b"+" => Ok(len.saturating_sub(1)),
        arg => index(arg),
    }
}

pub(super) fn argrep(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.args[2], call.args[3]);
    bound(start, 0)?;
    bound(end, 0)?;
    let wanted = Wanted::read(&call.args[4..])?;
    let predicates = wanted.predicates()?;
    let mut found: Vec<Item<'_>> = Vec::new();
    if let Some(array) = open(call)? {
        let len = array.len(call.txn)?;
        for item in Range::of(bound(start, len)?, bound(end, len)?).items(call, &array)? {
            let item = item?;
            let value = item.value.bytes(call.txn)?;
            let mut holds = predicates.iter().map(|predicate| wanted.holds(predicate, &value));
            let is_found = if wanted.needs_all { holds.all(|holds| holds) } else { holds.any(|holds| holds) };
            if is_found {
                found.push(item);
                if found.len() == wanted.most {
                    break;
                }
            }
        }
    }
    if wanted.shows_values {
        return reply_pairs(call, &found);
    }
    call.reply.array(found.len());
    found.iter().for_each(|item| reply_unsigned(call.reply, item.index));
    Ok(())
}

/// The operation by which AROP combines values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Sum,
    Least,
    Greatest,
    And,
    Or,
    Xor,
    Equal,
    Used,
}

impl Operation {
    fn of(word: &[u8]) -> Result<Operation, Stop> {
        Ok(match word {
            _ if is(word, "SUM") => Operation::Sum,
            _ if is(word, "MIN") => Operation::Least,
            _ if is(word, "MAX") => Operation::Greatest,
            _ if is(word, "AND") => Operation::And,
            _ if is(word, "OR") => Operation::Or,
            _ if is(word, "XOR") => Operation::Xor,
            _ if is(word, "MATCH") => Operation::Equal,
            _ if is(word, "USED") => Operation::Used,
            _ => return Err("ERR unknown operation".into()),
        })
    }

    fn of_bits(self, one: i64, two: i64) -> i64 {
        match self {
            Operation::And => one & two,
            Operation::Or => one | two,
            _ => one ^ two,
        }
    }

    /// One number of two; a sum that is not finite is none.
    fn of_numbers(self, one: Number, two: Number) -> Option<Number> {
        Some(match self {
            Operation::Sum => return one.sum(two),
            Operation::Least => {
                if one.exceeds(two) {
                    two
                } else {
                    one
                }
            }
            _ => {
                if two.exceeds(one) {
                    two
                } else {
                    one
                }
            }
        })
    }
}

pub(super) fn arop(call: &mut Call<'_>) -> Outcome {
    let range = Range::read(call.args[2], call.args[3])?;
    let operation = Operation::of(call.args[4])?;
    let text = match (operation, &call.args[5..]) {
        (Operation::Equal, [text]) => *text,
        (Operation::Equal, _) => return Err("ERR MATCH requires a value argument".into()),
        (_, []) => &b""[..],
        _ => return Err(wrong_arity(call.command)),
    };
    let array = open(call)?;
    let values = array.as_ref().map(|array| range.items(call, array)).transpose()?.into_iter().flatten();
    let nodes = call.txn;
    let values = values.map(|item| item?.value.bytes(nodes));
    match operation {
        Operation::Used | Operation::Equal => {
            let mut count = 0;
            for value in values {
                count += i64::from(operation == Operation::Used || *value? == *text);
            }
            call.reply.integer(count);
        }
        Operation::And | Operation::Or | Operation::Xor => {
            let mut all = None;
            for value in values {
                if let Some(bits) = bits(&value?) {
                    all = Some(all.map_or(bits, |all| operation.of_bits(all, bits)));
                }
            }
            match all {
                Some(all) => call.reply.integer(all),
                None => call.reply.null(),
            }
        }
        Operation::Sum | Operation::Least | Operation::Greatest => {
            let all = combined(operation, number_mode(call.settings), values)?;
            match all {
                Some(all) => call.reply.bulk(all.text().as_bytes()),
                None => call.reply.null(),
            }
        }
    }
    Ok(())
}

/// The sum, the least or the greatest of the values that are numbers; none where none is.
fn combined<'v>(
    operation: Operation,
    mode: NumberMode,
    values: impl Iterator<Item = Result<Cow<'v, [u8]>, polder_base::Fault>>,
) -> Result<Option<Number>, Stop> {
    let mut all: Option<Number> = None;
    for value in values {
        let Some(number) = Number::parse(mode, &value?).filter(|number| !number.is_infinite()) else {
            continue;
        };
        all = Some(match all {
            None => number,
            Some(all) => {
                operation.of_numbers(all, number).ok_or("ERR the sum would produce NaN or Infinity")?
            }
        });
    }
    Ok(all)
}

/// The integer that a value is, what stands behind its point left out.
fn bits(value: &[u8]) -> Option<i64> {
    if let Some(integer) = number::integer(value) {
        return Some(integer);
    }
    let number = number::double(value).filter(|number| !number.is_nan())?.trunc();
    (number >= i64::MIN as f64 && number < i64::MAX as f64).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_over_bytes() {
        let matches = |pattern: &[u8], value: &[u8]| expression(pattern, false).unwrap().is_match(value);
        assert!(matches(b"^.*[0-9]{3}$", b"foo123"));
        assert!(matches(b"a.c", b"a\nc"));
        assert!(matches(b"^\xff$", b"\xff"));
        assert!(!matches(b"^a$", b"a\n"));
        assert!(expression(b"FOO", true).unwrap().is_match(b"foo"));
    }

    #[test]
    fn an_expression_names_no_group_again() {
        assert!(refers_back(b"(a)\\1"));
        assert!(!refers_back(b"(a)\\\\1"));
        assert!(expression(b"(a)\\1", false).is_err());
    }

    #[test]
    fn bits_leave_out_what_stands_behind_the_point() {
        assert_eq!((bits(b"7.9"), bits(b"-1.8"), bits(b"x"), bits(b"1e30")), (Some(7), Some(-1), None, None));
    }
}
