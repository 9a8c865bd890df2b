//! Bytes in base64 (RFC 4648), with padding.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The bytes that a text stands for; `None` if it is not base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Appends the text that stands for some bytes.
pub fn encode(bytes: &[u8], text: &mut String) {
    STANDARD.encode_string(bytes, text);
}
