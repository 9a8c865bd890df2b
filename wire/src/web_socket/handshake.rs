//! The request that opens a WebSocket (RFC 6455, section 4.2), and what client and server agree on.
use sha1::{Digest, Sha1};

use crate::http::{Head, Method, Refused, base64, refused};

/// What RFC 6455 appends to the key.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    accept: String,
    /// The sub-protocol; empty: none.
    pub protocol: &'static str,
    /// Whether messages may be compressed.
    pub deflates: bool,
}

impl Handshake {
    /// Reads a request. The first sub-protocol of the client that is one of `known` is taken; the empty one stands for none.
    ///
    /// # Errors
    /// A request that opens no WebSocket, or one of another version.
    pub fn read(head: &Head<'_>, known: &[&'static str]) -> Result<Handshake, Refused> {
        let fields = &head.fields;
        if head.method != Method::Get
            || head.is_old
            || head.length.is_some_and(|length| length > 0)
            || head.is_chunked
        {
            return refused(400, "a WebSocket is opened by GET of HTTP/1.1 without a body");
        }
        if !words(fields.upgrade.unwrap_or_default(), b',')
            .any(|word| word.eq_ignore_ascii_case(b"websocket"))
            || !fields.connection_upgrades
        {
            return refused(
                426,
                "this opens a WebSocket: it takes Upgrade: websocket and Connection: Upgrade",
            );
        }
        if fields.web_socket_version != Some(b"13") {
            return refused(426, "the server speaks version 13 of WebSocket");
        }
        let key = fields.web_socket_key.unwrap_or_default();
        if base64::decode(key).is_none_or(|bytes| bytes.len() != 16) {
            return refused(400, "Sec-WebSocket-Key is 16 bytes in base64");
        }
        let offered = fields.web_socket_protocol.unwrap_or_default();
        let chosen =
            words(offered, b',').find_map(|word| known.iter().find(|known| known.as_bytes() == word));
        let Some(protocol) = chosen else {
            return refused(400, "Sec-WebSocket-Protocol names none of resp, json and term");
        };
        let mut accept = String::new();
        base64::encode(&Sha1::new().chain_update(key).chain_update(MAGIC).finalize(), &mut accept);
        let deflates = words(fields.web_socket_extensions.unwrap_or_default(), b',').any(is_deflate);
        Ok(Handshake { accept, protocol, deflates })
    }

    /// The response.
    pub fn response(&self) -> String {
        let extension = if self.deflates {
            "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
        } else {
            ""
        };
        let protocol = match self.protocol {
            "" => String::new(),
            protocol => format!("Sec-WebSocket-Protocol: {protocol}\r\n"),
        };
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n{protocol}{extension}\r\n",
            self.accept
        )
    }
}

/// The words of a list.
fn words(list: &[u8], between: u8) -> impl Iterator<Item = &[u8]> {
    list.split(move |byte| *byte == between).map(<[u8]>::trim_ascii)
}

/// Whether an offer is of a compression that the server can take. It has no smaller window than the usual one, so it takes
/// no offer that limits its own (`server_max_window_bits`).
fn is_deflate(offer: &[u8]) -> bool {
    let mut parts = words(offer, b';');
    parts.next() == Some(b"permessage-deflate")
        && parts.all(|part| {
            let (name, value) = part.split_at(memchr::memchr(b'=', part).unwrap_or(part.len()));
            let value = value.strip_prefix(b"=").map(|value| unquoted(value.trim_ascii()));
            match name.trim_ascii() {
                b"server_no_context_takeover" | b"client_no_context_takeover" => value.is_none(),
                b"client_max_window_bits" => value.is_none_or(is_window),
                _ => false,
            }
        })
}

fn is_window(value: &[u8]) -> bool {
    matches!(value, [b'8' | b'9'] | [b'1', b'0'..=b'5'])
}

/// A value without the quotes that may stand around it.
fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> Result<Handshake, Refused> {
        let text = format!("GET /ws HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        Handshake::read(&Head::read(text.as_bytes()).expect("a head"), &["resp", "json"])
    }

    const USUAL: &str = "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    #[test]
    fn the_key_of_rfc_6455_is_accepted() {
        let taken =
            read(&format!("{USUAL}Sec-WebSocket-Protocol: mqtt, json, resp\r\n")).expect("a handshake");
        assert_eq!((taken.protocol, taken.deflates), ("json", false));
        assert!(taken.response().contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    #[test]
    fn requests_that_open_nothing_are_refused() {
        let protocol = "Sec-WebSocket-Protocol: resp\r\n";
        for (from, to, status) in [
            ("WebSocket", "h2c", 426),
            ("keep-alive, Upgrade", "keep-alive", 426),
            ("Version: 13", "Version: 8", 426),
            ("dGhlIHNhbXBsZSBub25jZQ==", "dGhl", 400),
            ("dGhlIHNhbXBsZSBub25jZQ==", "?", 400),
            ("GET", "GET", 0),
        ] {
            let answer = read(&(USUAL.replacen(from, to, 1) + protocol));
            assert_eq!(answer.err().map_or(0, |refused| refused.status), status, "{to}");
        }
        assert_eq!(read(USUAL).err().map(|refused| refused.status), Some(400));
        assert_eq!(
            read(&format!("{USUAL}Sec-WebSocket-Protocol: chat\r\n")).err().map(|refused| refused.status),
            Some(400)
        );
    }

    #[test]
    fn compression_is_agreed_on_as_far_as_it_can_be_had() {
        for (offer, taken) in [
            ("permessage-deflate", true),
            ("permessage-deflate; client_max_window_bits", true),
            (
                "permessage-deflate; server_max_window_bits=10; client_max_window_bits, permessage-deflate",
                true,
            ),
            ("permessage-deflate; server_max_window_bits=10", false),
            ("permessage-deflate; server_max_window_bits=15", false),
            ("permessage-deflate; client_max_window_bits=16", false),
            ("permessage-deflate; client_max_window_bits=\"9\"", true),
            ("permessage-deflate; what", false),
            ("x-webkit-deflate-frame", false),
        ] {
            let fields =
                format!("{USUAL}Sec-WebSocket-Protocol: resp\r\nSec-WebSocket-Extensions: {offer}\r\n");
            assert_eq!(read(&fields).expect("a handshake").deflates, taken, "{offer}");
        }
    }
}
