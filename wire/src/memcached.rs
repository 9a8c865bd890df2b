//! The protocols of memcached 1.6: text, with its meta commands, and binary.
//!
//! ```text
//!   a client sends                                a server replies
//!   set KEY FLAGS EXPTIME BYTES\r\n               STORED\r\n
//!   BYTES bytes\r\n
//!   get KEY KEY\r\n                               VALUE KEY FLAGS BYTES\r\n bytes \r\n ... END\r\n
//! ```
//!
//! | file | what |
//! |---|---|
//! | `text` | one line of the text protocol, taken apart; numbers as memcached reads them |
//! | `meta` | the flags of a meta command |
//! | `binary` | headers and opcodes of the binary protocol |
//! | `datagram` | the header in front of requests and replies over UDP |
//!
//! The source is `doc/protocol.txt` of memcached. Where it says nothing, memcached 1.6.18 decides.

pub mod binary;
pub mod datagram;
pub mod meta;
pub mod text;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// The longest time to live that is not a Unix time, in seconds.
pub const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;
