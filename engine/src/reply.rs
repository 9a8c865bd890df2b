//! Replies of typed calls as Rust values, without a protocol's text in between.
//!
//! | the reply is | it is written to | and read by |
//! |---|---|---|
//! | one thing: a number, bytes, nothing | [`Scalar`]; only bytes take memory | [`FromScalar`] |
//! | several things | an [`Answer`] that the thread keeps for its memory | [`FromItem`] |
use std::cell::Cell;

use polder_base::{Protocol, Reply, number};
use polder_table::Stop;

use crate::answer::{Answer, Item, Items};

/// Runs a call, perhaps more than once, into a reply.
pub(crate) type Run<'r> = &'r mut dyn FnMut(&mut dyn Reply) -> Result<(), Stop>;

/// A reply that is one thing.
#[derive(Default, Debug)]
pub(crate) enum Scalar {
    #[default]
    Null,
    /// A status, such as OK.
    Done,
    Integer(i64),
    Double(f64),
    Bytes(Vec<u8>),
}

/// Says that a reply has a shape that its method does not know, which the tests of all methods rule out.
#[cold]
fn misshapen() -> Stop {
    "ERR the reply of the command has another shape than its typed call expects: please report this".into()
}

/// Runs a call whose reply is one thing.
pub(crate) fn one<T: FromScalar>(run: Run<'_>) -> Result<T, Stop> {
    let mut reply = Scalar::default();
    run(&mut reply)?;
    T::from_scalar(reply).ok_or_else(misshapen)
}

thread_local! {
    /// The memory of the last reply that was several things.
    static SPARE: Cell<Option<Box<Answer>>> = const { Cell::new(None) };
}

/// Runs a call whose reply is several things.
pub(crate) fn several<T: FromItem>(run: Run<'_>) -> Result<T, Stop> {
    let mut reply = SPARE.take().unwrap_or_else(|| Box::new(Answer::new(Protocol::Resp3)));
    let done = run(&mut *reply);
    reply.seal();
    let read = done.and_then(|()| T::from_item(reply.item()).ok_or_else(misshapen));
    reply.clear();
    SPARE.set(Some(reply));
    read
}

/// What one thing is read as.
pub(crate) trait FromScalar: Sized {
    fn from_scalar(scalar: Scalar) -> Option<Self>;
}

impl FromScalar for () {
    fn from_scalar(_: Scalar) -> Option<()> {
        Some(())
    }
}

impl FromScalar for i64 {
    fn from_scalar(scalar: Scalar) -> Option<i64> {
        if let Scalar::Integer(value) = scalar { Some(value) } else { None }
    }
}

impl FromScalar for u64 {
    fn from_scalar(scalar: Scalar) -> Option<u64> {
        i64::from_scalar(scalar).and_then(|value| value.try_into().ok())
    }
}

/// 1 and OK are true, 0 and nothing are false.
impl FromScalar for bool {
    fn from_scalar(scalar: Scalar) -> Option<bool> {
        match scalar {
            Scalar::Null => Some(false),
            Scalar::Done => Some(true),
            Scalar::Integer(value) => Some(value != 0),
            Scalar::Double(_) | Scalar::Bytes(_) => None,
        }
    }
}

impl FromScalar for f64 {
    fn from_scalar(scalar: Scalar) -> Option<f64> {
        match scalar {
            Scalar::Double(value) => Some(value),
            Scalar::Bytes(text) => number::double(&text),
            _ => None,
        }
    }
}

impl FromScalar for Vec<u8> {
    fn from_scalar(scalar: Scalar) -> Option<Vec<u8>> {
        if let Scalar::Bytes(bytes) = scalar { Some(bytes) } else { None }
    }
}

impl<T: FromScalar> FromScalar for Option<T> {
    fn from_scalar(scalar: Scalar) -> Option<Option<T>> {
        match scalar {
            Scalar::Null => Some(None),
            scalar => T::from_scalar(scalar).map(Some),
        }
    }
}

impl Reply for Scalar {
    fn protocol(&self) -> Protocol {
        Protocol::Resp3
    }
    fn status(&mut self, _: &str) {
        *self = Scalar::Done;
    }
    fn error(&mut self, text: &str) {
        // A call that fails says so by its outcome; an error as a part of a reply is no scalar.
        *self = Scalar::Bytes(text.as_bytes().to_vec());
    }
    fn integer(&mut self, value: i64) {
        *self = Scalar::Integer(value);
    }
    fn bulk(&mut self, bytes: &[u8]) {
        *self = Scalar::Bytes(bytes.to_vec());
    }
    fn begin_bulk(&mut self, _: u64) {
        // The length is the writer's word; the memory comes with the pieces.
        *self = Scalar::Bytes(Vec::new());
    }
    fn piece(&mut self, bytes: &[u8]) {
        if let Scalar::Bytes(whole) = self {
            whole.extend_from_slice(bytes);
        }
    }
    fn null(&mut self) {
        *self = Scalar::Null;
    }
    fn null_array(&mut self) {
        *self = Scalar::Null;
    }
    // A container says nothing: each part inside of it overwrites the last one, which is what is read.
    fn double(&mut self, value: f64) {
        *self = Scalar::Double(value);
    }
    fn double_text(&mut self, text: &str) {
        match number::double(text.as_bytes()) {
            Some(value) => self.double(value),
            None => self.bulk(text.as_bytes()),
        }
    }
    fn boolean(&mut self, value: bool) {
        self.integer(value.into());
    }
    fn big_number(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }
    fn verbatim(&mut self, _: &str, text: &[u8]) {
        self.bulk(text);
    }
    fn mark(&self) -> usize {
        0
    }
    fn rewind(&mut self, _: usize) {
        *self = Scalar::Null;
    }
}

/// What an item of a reply is read as.
pub(crate) trait FromItem: Sized {
    fn from_item(item: Item<'_>) -> Option<Self>;
}

impl FromItem for i64 {
    fn from_item(item: Item<'_>) -> Option<i64> {
        item.integer()
    }
}

impl FromItem for u64 {
    fn from_item(item: Item<'_>) -> Option<u64> {
        item.integer().and_then(|value| value.try_into().ok())
    }
}

impl FromItem for bool {
    fn from_item(item: Item<'_>) -> Option<bool> {
        item.integer().map(|value| value != 0)
    }
}

impl FromItem for f64 {
    fn from_item(item: Item<'_>) -> Option<f64> {
        item.double()
    }
}

impl FromItem for Vec<u8> {
    fn from_item(item: Item<'_>) -> Option<Vec<u8>> {
        item.bytes().map(<[u8]>::to_vec)
    }
}

impl FromItem for String {
    fn from_item(item: Item<'_>) -> Option<String> {
        item.bytes().map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

impl<T: FromItem> FromItem for Option<T> {
    fn from_item(item: Item<'_>) -> Option<Option<T>> {
        if item == Item::Null { Some(None) } else { T::from_item(item).map(Some) }
    }
}

/// Nothing is read as no items: LPOP with a count of an absent key.
impl<T: FromItem> FromItem for Vec<T> {
    fn from_item(item: Item<'_>) -> Option<Vec<T>> {
        match item {
            Item::Null => Some(Vec::new()),
            item => item.items()?.map(T::from_item).collect(),
        }
    }
}

impl<A: FromItem, B: FromItem> FromItem for (A, B) {
    fn from_item(item: Item<'_>) -> Option<(A, B)> {
        let mut items = item.items()?;
        Some((A::from_item(items.next()?)?, B::from_item(items.next()?)?))
    }
}

/// Keys and values that follow each other: a map, or a list that is one.
#[derive(Debug)]
pub(crate) struct Pairs<A, B>(pub Vec<(A, B)>);

impl<A: FromItem, B: FromItem> FromItem for Pairs<A, B> {
    fn from_item(item: Item<'_>) -> Option<Pairs<A, B>> {
        let mut items: Items<'_> = match item {
            Item::Null => return Some(Pairs(Vec::new())),
            item => item.items()?,
        };
        let mut pairs = Vec::new();
        while let Some(first) = items.next() {
            pairs.push((A::from_item(first)?, B::from_item(items.next()?)?));
        }
        Some(Pairs(pairs))
    }
}
