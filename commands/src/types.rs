//! What commands know of each type of value, a row a type. What values themselves know (name, size, check) stands in `polder_values::Kind`.
use polder_base::number;
use polder_table::{Found, Stop};
use polder_values::array::Array;
use polder_values::sequence::Sequence;
use polder_values::sorted_set::SortedSet;
use polder_values::{Kind, Value, hash, list, set};

use polder_calls::call::Call;

use crate::encode::{self, Encode};
use crate::stream;

/// The longest string that Redis keeps in one piece with its header, in bytes.
const EMBEDDED_MAX: usize = 44;
/// Elements of a list that Redis keeps in one node, about.
const LIST_NODE: u64 = 128;
/// The large layout of hashes and sets.
const HASHTABLE: &str = "hashtable";

/// A type of value.
pub struct Type {
    pub kind: Kind,
    /// Redis's number of it, which DEBUG DIGEST mixes in.
    pub number: u32,
    /// Redis's name for the layout of a value.
    pub encoding: fn(&Found<'_>) -> &'static str,
    /// How many pieces of memory Redis would have to free, about.
    effort: fn(&Call<'_>, &Found<'_>) -> Result<u64, Stop>,
    /// Tells an RDB writer a value.
    pub(crate) encode: Encode,
    /// The command that returns all of a value, and its arguments behind the key.
    pub(crate) whole: (&'static str, &'static [&'static [u8]]),
}

/// In the order of their stored numbers, which begin at 1.
const TYPES: [Type; 7] = [
    Type {
        kind: Kind::String,
        number: 0,
        encoding: of_string,
        effort: |_, _| Ok(1),
        encode: encode::encode_string,
        whole: ("ITEM.GET", &[]),
    },
    Type {
        kind: Kind::List,
        number: 1,
        encoding: |found| if list::is_large(&found.value) { "quicklist" } else { "listpack" },
        effort: |_, found| match list::is_large(&found.value) {
            true => Ok(Sequence::of(&found.value).count()?.div_ceil(LIST_NODE)),
            false => Ok(1),
        },
        encode: encode::encode_list,
        whole: ("LRANGE", &[b"0", b"-1"]),
    },
    Type {
        kind: Kind::Hash,
        number: 4,
        encoding: |found| match hash::encoding(&found.value) {
            hash::Encoding::Listpack => "listpack",
            hash::Encoding::ListpackEx => "listpackex",
            hash::Encoding::Hashtable => HASHTABLE,
        },
        effort: of_hashtable,
        encode: encode::encode_hash,
        whole: ("HGETALL", &[]),
    },
    Type {
        kind: Kind::Set,
        number: 2,
        encoding: |found| match set::encoding(&found.value) {
            set::Encoding::Intset => "intset",
            set::Encoding::Listpack => "listpack",
            set::Encoding::Hashtable => HASHTABLE,
        },
        effort: of_hashtable,
        encode: encode::encode_set,
        whole: ("SMEMBERS", &[]),
    },
    Type {
        kind: Kind::SortedSet,
        number: 3,
        encoding: |found| if SortedSet::of(&found.value).is_large() { "skiplist" } else { "listpack" },
        effort: |_, found| match SortedSet::of(&found.value) {
            members if members.is_large() => Ok(members.count()?),
            _ => Ok(1),
        },
        encode: encode::encode_sorted_set,
        whole: ("ZRANGE", &[b"0", b"-1", b"WITHSCORES"]),
    },
    Type {
        kind: Kind::Stream,
        number: 6,
        encoding: |_| "stream",
        effort: stream::info::effort,
        encode: encode::encode_stream,
        whole: ("XRANGE", &[b"-", b"+"]),
    },
    Type {
        kind: Kind::Array,
        number: 7,
        encoding: |_| "sliced-array",
        effort: |_, found| Ok(Array::of(&found.value).count()?),
        encode: encode::encode_array,
        // No command returns a whole one but by this range.
        whole: ("ARSCAN", &[b"0", b"18446744073709551614"]),
    },
];

const _: () = {
    let mut place = 0;
    while place < TYPES.len() {
        assert!(
            TYPES[place].kind as usize == place + 1,
            "a row for each type, in the order of their numbers"
        );
        place += 1;
    }
};

/// The row of a type.
pub fn of(kind: Kind) -> &'static Type {
    const ROWS: &[Type] = &TYPES;
    &ROWS[kind as usize - 1]
}

/// Redis's name for the layout of a value.
pub fn encoding(found: &Found<'_>) -> &'static str {
    (of(found.kind).encoding)(found)
}

/// How many pieces of memory Redis would have to free, about. They decide whether
/// `lazyfreed_objects` counts the value. Here no client waits for that.
pub(crate) fn effort(call: &Call<'_>, found: &Found<'_>) -> Result<u64, Stop> {
    (of(found.kind).effort)(call, found)
}

/// The integer that a string is, if Redis would keep it as one.
pub(crate) fn integer(found: &Found<'_>) -> Option<i64> {
    match found.value {
        Value::Packed(bytes) if found.kind == Kind::String && !found.raw && !found.text => {
            number::integer(bytes)
        }
        _ => None,
    }
}

fn of_string(found: &Found<'_>) -> &'static str {
    match found.value {
        Value::Packed(_) if integer(found).is_some() => "int",
        Value::Packed(bytes) if !found.raw && bytes.len() <= EMBEDDED_MAX => "embstr",
        _ => "raw",
    }
}

/// A hash or a set: each element is a piece of the large layout.
fn of_hashtable(_: &Call<'_>, found: &Found<'_>) -> Result<u64, Stop> {
    if encoding(found) == HASHTABLE { Ok(Sequence::of(&found.value).count()?) } else { Ok(1) }
}
