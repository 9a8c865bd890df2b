//! Replies as Rust values.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

pub use polder_wire::resp::Value;

use crate::error::Error;

/// A type that a reply can be read as.
///
/// `Option<T>` reads a null as `None`; vectors read arrays and sets; maps read RESP3's maps and RESP2's arrays of keys
/// and values in turn; `()` takes any reply. An error inside a reply (of one call of an EXEC) is an error here.
pub trait FromValue: Sized {
    /// # Errors
    /// [`Error::Unexpected`] where the reply is of another kind, [`Error::Refused`] where it is an error.
    fn from_value(value: Value) -> Result<Self, Error>;
}

/// The error for a reply of another kind.
fn unexpected<T>(wanted: &'static str, value: &Value) -> Result<T, Error> {
    if let Value::Error(text) = value {
        return Err(refused(text));
    }
    let mut got = format!("{value:?}");
    if got.len() > 120 {
        let end = (0..=117).rev().find(|&at| got.is_char_boundary(at)).unwrap_or(0);
        got.truncate(end);
        got.push_str("...");
    }
    Err(Error::Unexpected { wanted, got })
}

/// A server's error as ours.
pub(crate) fn refused(text: &[u8]) -> Error {
    Error::Refused(String::from_utf8_lossy(text).into())
}

/// The bytes of anything that is text.
fn text(value: Value) -> Result<Vec<u8>, Value> {
    match value {
        Value::Bulk(bytes) | Value::Status(bytes) | Value::Double(bytes) | Value::BigNumber(bytes) => {
            Ok(bytes)
        }
        Value::Verbatim { text, .. } => Ok(text),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        other => Err(other),
    }
}

impl FromValue for Value {
    fn from_value(value: Value) -> Result<Self, Error> {
        Ok(value)
    }
}

impl FromValue for () {
    fn from_value(value: Value) -> Result<Self, Error> {
        match value {
            Value::Error(text) => Err(refused(&text)),
            _ => Ok(()),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: Value) -> Result<Self, Error> {
        text(value).or_else(|value| unexpected("text", &value))
    }
}

impl FromValue for String {
    fn from_value(value: Value) -> Result<Self, Error> {
        let bytes = text(value).or_else(|value| unexpected("text", &value))?;
        String::from_utf8(bytes).or_else(|error| unexpected("UTF-8 text", &Value::Bulk(error.into_bytes())))
    }
}

impl FromValue for bool {
    fn from_value(value: Value) -> Result<Self, Error> {
        match value {
            Value::Boolean(truth) => Ok(truth),
            Value::Integer(number @ (0 | 1)) => Ok(number == 1),
            Value::Status(text) if text == b"OK" => Ok(true),
            // SET with NX or XX that was not done.
            Value::Null => Ok(false),
            other => unexpected("a truth value", &other),
        }
    }
}

impl FromValue for f64 {
    fn from_value(value: Value) -> Result<Self, Error> {
        let parsed = match &value {
            Value::Integer(number) => Some(*number as f64),
            Value::Double(text) | Value::Bulk(text) | Value::Status(text) => {
                std::str::from_utf8(text).ok().and_then(|text| text.parse().ok())
            }
            _ => None,
        };
        parsed.map_or_else(|| unexpected("a number", &value), Ok)
    }
}

/// Whole numbers; text that is one counts.
macro_rules! whole {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, Error> {
                let parsed = match &value {
                    Value::Integer(number) => <$type>::try_from(*number).ok(),
                    Value::Boolean(truth) => Some(<$type>::from(*truth)),
                    Value::Bulk(text) | Value::Status(text) | Value::BigNumber(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
                    _ => None,
                };
                parsed.map_or_else(|| unexpected(concat!("a number of type ", stringify!($type)), &value), Ok)
            }
        }
    )*};
}

whole!(i64, u64, i32, u32, usize);

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Result<Self, Error> {
        match value {
            Value::Null => Ok(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Value) -> Result<Self, Error> {
        items(value).or_else(|value| unexpected("a list", &value))?.into_iter().map(T::from_value).collect()
    }
}

fn items(value: Value) -> Result<Vec<Value>, Value> {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => Ok(items),
        Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        other => Err(other),
    }
}

/// Keys and values: of a map, of an array in turn, or of an array of pairs.
fn pairs(value: Value) -> Result<Vec<(Value, Value)>, Error> {
    let items = match value {
        Value::Map(pairs) => return Ok(pairs),
        other => items(other).or_else(|value| unexpected("a map", &value))?,
    };
    let nested =
        !items.is_empty() && items.iter().all(|item| matches!(item, Value::Array(pair) if pair.len() == 2));
    let flat: Vec<Value> = if nested {
        items.into_iter().flat_map(|pair| self::items(pair).unwrap_or_default()).collect()
    } else {
        items
    };
    if flat.len() % 2 == 1 {
        return unexpected("a map", &Value::Array(flat));
    }
    let mut flat = flat.into_iter();
    Ok(std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect())
}

impl<K: FromValue + Eq + Hash, V: FromValue> FromValue for HashMap<K, V> {
    fn from_value(value: Value) -> Result<Self, Error> {
        pairs(value)?
            .into_iter()
            .map(|(key, value)| Ok((K::from_value(key)?, V::from_value(value)?)))
            .collect()
    }
}

impl<K: FromValue + Ord, V: FromValue> FromValue for BTreeMap<K, V> {
    fn from_value(value: Value) -> Result<Self, Error> {
        pairs(value)?
            .into_iter()
            .map(|(key, value)| Ok((K::from_value(key)?, V::from_value(value)?)))
            .collect()
    }
}

/// Tuples: a list of exactly as many items.
macro_rules! tuples {
    ($($count:literal: $($name:ident),*;)*) => {$(
        impl<$($name: FromValue),*> FromValue for ($($name,)*) {
            fn from_value(value: Value) -> Result<Self, Error> {
                let items = items(value).or_else(|value| unexpected(concat!("a list of ", $count), &value))?;
                if items.len() != $count {
                    return unexpected(concat!("a list of ", $count), &Value::Array(items));
                }
                let mut items = items.into_iter();
                Ok(($($name::from_value(items.next().unwrap_or(Value::Null))?,)*))
            }
        }
    )*};
}

tuples! {
    1: A;
    2: A, B;
    3: A, B, C;
    4: A, B, C, D;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn replies_are_read_as_what_is_asked_for() {
        assert_eq!(i64::from_value(bulk("-7")).ok(), Some(-7));
        assert_eq!(u32::from_value(Value::Integer(-1)).ok(), None);
        assert_eq!(Option::<String>::from_value(Value::Null).ok(), Some(None));
        assert_eq!(
            Vec::<Option<String>>::from_value(Value::Array(vec![bulk("a"), Value::Null])).ok(),
            Some(vec![Some("a".into()), None])
        );
        assert_eq!(f64::from_value(bulk("inf")).ok(), Some(f64::INFINITY));
        let flat = Value::Array(vec![bulk("a"), Value::Integer(1), bulk("b"), Value::Integer(2)]);
        let nested = Value::Array(vec![
            Value::Array(vec![bulk("a"), Value::Integer(1)]),
            Value::Array(vec![bulk("b"), Value::Integer(2)]),
        ]);
        let expected = BTreeMap::from([("a".to_owned(), 1i64), ("b".to_owned(), 2)]);
        assert_eq!(BTreeMap::from_value(flat).ok(), Some(expected.clone()));
        assert_eq!(BTreeMap::from_value(nested).ok(), Some(expected));
        assert_eq!(
            <(String, i64)>::from_value(Value::Array(vec![bulk("a"), Value::Integer(3)])).ok(),
            Some(("a".to_owned(), 3))
        );
    }

    #[test]
    fn an_error_inside_a_reply_is_an_error() {
        let reply = Value::Array(vec![Value::Integer(1), Value::Error("WRONGTYPE no".into())]);
        assert_eq!(Vec::<i64>::from_value(reply).unwrap_err().code(), Some("WRONGTYPE"));
    }

    #[test]
    fn a_reply_of_another_kind_says_so() {
        let error = String::from_value(Value::Array(vec![])).unwrap_err();
        assert!(error.to_string().contains("is not text"), "{error}");
    }
}
