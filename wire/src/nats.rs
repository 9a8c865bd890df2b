//! The protocol of NATS clients, of the server's side: operations in, messages out.
//!
//! ```text
//!   a client sends                                  a server sends
//!   CONNECT {"verbose":false,...}\r\n               INFO {"server_id":...}\r\n   (unasked, at first)
//!   PUB SUBJECT [REPLY] BYTES\r\n payload \r\n      MSG SUBJECT SID [REPLY] BYTES\r\n payload \r\n
//!   HPUB SUBJECT [REPLY] HEAD ALL\r\n               HMSG SUBJECT SID [REPLY] HEAD ALL\r\n
//!     headers payload \r\n                            headers payload \r\n
//!   SUB SUBJECT [QUEUE] SID\r\n                     +OK\r\n, -ERR 'text'\r\n
//!   UNSUB SID [MAX]\r\n   PING\r\n   PONG\r\n       PING\r\n   PONG\r\n
//! ```
//!
//! Words are divided by blanks or tabs, verbs have any case, and a line may end without CR. Where the protocol's description
//! says nothing, nats-server decides.
//!
//! | file | what |
//! |---|---|
//! | `request` | operations of a client |
//! | `connect` | the options of CONNECT |
//! | `response` | what a server sends |
mod connect;
mod request;
mod response;

pub use connect::Options;
pub use request::{Operation, Publish, Requests, Violation};
pub use response::{Info, error, info, message};

/// The longest line, in bytes behind its verb.
pub const LINE_BYTES_MAX: usize = 4096;
