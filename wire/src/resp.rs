//! RESP, the Redis serialisation protocol, versions 2 and 3, from both ends.
//!
//! ```text
//!   a client sends                         a server replies
//!   *2\r\n                                 +OK\r\n            status
//!   $3\r\nGET\r\n                          -ERR no\r\n        error
//!   $5\r\nhello\r\n                        :42\r\n            integer
//!                                          $5\r\nhello\r\n    bulk, `$-1\r\n` is null
//!   or, typed by hand ("inline"):          *2\r\n...          array, `*-1\r\n` is a null array
//!   GET "hello"\r\n                        and in RESP3: % map, ~ set, > push, | attribute, , double, # boolean,
//!                                          ( big number, = verbatim text, ! bulk error, _ null
//! ```
//!
//! | end | reads | writes |
//! |---|---|---|
//! | server | [`Requests`]: arguments are slices of the input, nothing is copied | `polder_base::Reply` for [`Output`](crate::Output) |
//! | client | [`Replies`]: owned [`Value`]s | [`command`] |
//!
//! Leniency and error texts are those of Redis 7.4. It does not look at the byte after a `\r`, and
//! neither does this code: a client that works with Redis must work here.

mod encoder;
mod request;
pub mod text;
mod value;

use std::borrow::Cow;

pub use request::{Limits, Request, Requests};
pub use value::{Replies, Value, command};

/// The peer sent nonsense: what to tell it (error code first) before the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub Cow<'static, str>);

impl From<&'static str> for Malformed {
    fn from(text: &'static str) -> Malformed {
        Malformed(Cow::Borrowed(text))
    }
}
