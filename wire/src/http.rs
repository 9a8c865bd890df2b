//! HTTP/1.1, as a server reads and writes it (RFC 9110, RFC 9112).
//!
//! ```text
//!   PUT /k/foo?ttl=60 HTTP/1.1\r\n     request line   -+
//!   Host: localhost:8080\r\n           fields          | the head: at most HEAD_BYTES_MAX bytes
//!   Content-Length: 3\r\n                              |
//!   \r\n                                              -+
//!   bar                                body: by its length, or in chunks (`Transfer-Encoding: chunked`)
//! ```
//!
//! | file | duty |
//! |---|---|
//! | `head` | the head, and which of its fields count |
//! | `request` | where a request ends: [`Requests`] |
//! | `target` | paths, queries and their escapes |
//! | `response` | status lines and fields |
//! | `json`, `words`, `base64` | bodies: replies, and commands |
//!
//! A proxy in front of the server must find the same ends of requests as the server does. Otherwise a client could hide
//! one request in the body of another (request smuggling). So each form that two programs might read differently ends
//! the connection with 400: two lengths, a length beside chunks, a line that ends without CR, a folded field, blanks in
//! front of a colon, an encoding other than `chunked`.

pub mod base64;
mod head;
pub mod json;
pub(crate) mod object;
mod request;
pub mod response;
pub mod target;
pub mod words;

pub use head::{Fields, Head, Method};
pub use request::{Limits, Read, Requests};

/// A request that ends its connection: the status of the response, and a text for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {text}")]
pub struct Refused {
    pub status: u16,
    pub text: &'static str,
}

pub(crate) const fn refused<T>(status: u16, text: &'static str) -> Result<T, Refused> {
    Err(Refused { status, text })
}
