//! memcached over UDP: a header of 8 bytes stands in front of each datagram.
//!
//! ```text
//!   0 request id (2) | 2 number of this datagram (2) | 4 datagrams of the message (2) | 6 reserved, 0 (2) | 8 text or binary
//! ```
//!
//! All numbers are big-endian. A reply has the id of its request, and may be several datagrams. A request is one datagram, as
//! memcached has it: what claims to be a part of one is dropped. The source is `protocol.txt` of memcached, "UDP protocol".
//!
//! **Invariant:** a reply is never replied to. The sender of a datagram may be false and name another server's UDP port, and two
//! servers that reply to each other's replies would never end. A request begins with a small letter, or with the first byte of a
//! binary request. A reply begins with a capital letter, a digit, or the first byte of a binary reply. Only the lists of
//! `lru_crawler` begin otherwise (`key=`, `mg`), and what they get as a reply is one of the others.

use super::binary::REQUEST;

/// The length of the header, in bytes.
pub const HEADER_BYTES: usize = 8;
/// What one datagram holds of a reply, in bytes: with its header 1,400, as in memcached, so that it fits an Ethernet frame.
pub const PIECE_BYTES: usize = 1400 - HEADER_BYTES;

/// The request in a datagram: its id, and the bytes behind the header. `None` for a datagram that is no whole request, or that may be
/// a reply.
pub fn request(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (&[id_high, id_low, _, _, count_high, count_low, _, _], request) =
        datagram.split_first_chunk::<HEADER_BYTES>()?;
    ([count_high, count_low] == [0, 1] && begins_request(request))
        .then(|| (u16::from_be_bytes([id_high, id_low]), request))
}

fn begins_request(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| **byte != b' ');
    first.is_some_and(|first| first.is_ascii_lowercase() || *first == REQUEST)
}

/// How many datagrams a reply of this many bytes is.
pub fn pieces(bytes: usize) -> usize {
    bytes.div_ceil(PIECE_BYTES)
}

/// The datagram with this number of a reply: its header, and its part of the bytes.
pub fn piece(id: u16, number: usize, reply: &[u8]) -> ([u8; HEADER_BYTES], &[u8]) {
    let part = &reply[number * PIECE_BYTES..reply.len().min((number + 1) * PIECE_BYTES)];
    let ([id_high, id_low], [number_high, number_low]) = (id.to_be_bytes(), (number as u16).to_be_bytes());
    let [count_high, count_low] = (pieces(reply.len()) as u16).to_be_bytes();
    ([id_high, id_low, number_high, number_low, count_high, count_low, 0, 0], part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_datagram() {
        assert_eq!(request(b"\x12\x34\0\0\0\x01\0\0get a\r\n"), Some((0x1234, &b"get a\r\n"[..])));
        assert_eq!(request(b"\x12\x34\0\0\0\x02\0\0get a\r\n"), None);
        assert_eq!(request(b"\x12\x34\0\0\x01\x01\0\0get a\r\n"), None);
        assert_eq!(request(b"\x12\x34\0\0\0\x01\0\0"), None);
        (0..HEADER_BYTES).for_each(|length| assert_eq!(request(&[0; HEADER_BYTES][..length]), None));
    }

    #[test]
    fn a_reply_is_no_request() {
        let is_request = |bytes: &[u8]| request(&[b"\x12\x34\0\0\0\x01\0\0", bytes].concat()).is_some();
        for reply in [
            "ERROR",
            "ERROR: shutdown not enabled",
            "CLIENT_ERROR x",
            "SERVER_ERROR x",
            "STORED",
            "NOT_STORED",
            "EXISTS",
            "NOT_FOUND",
            "END",
            "VALUE a 0 1\r\n1\r\nEND",
            "DELETED",
            "TOUCHED",
            "OK",
            "RESET",
            "VERSION 1.6",
            "STAT pid 1",
            "HD",
            "VA 1",
            "EN",
            "NF",
            "NS",
            "EX",
            "MN",
            "ME a",
            "17",
            "BUSY",
            "\x7f",
        ] {
            assert!(!is_request(format!("{reply}\r\n").as_bytes()), "{reply}");
        }
        assert!(
            !is_request(b"\x81\0\0\0")
                && !is_request(b"\r\n")
                && !is_request(b"  ")
                && !is_request(b" ERROR\r\n")
        );
        for right in [&b"get a\r\n"[..], b" get a\r\n", b"mn\r\n", b"nonsense\r\n", b"\x80\0"] {
            assert!(is_request(right), "{right:?}");
        }
    }

    #[test]
    fn a_reply_is_cut_into_numbered_datagrams() {
        let reply: Vec<u8> = (0..3000).map(|at| at as u8).collect();
        assert_eq!(pieces(reply.len()), 3);
        let mut joined = Vec::new();
        for number in 0..3 {
            let (header, part) = piece(0xabcd, number, &reply);
            assert_eq!(header, [0xab, 0xcd, 0, number as u8, 0, 3, 0, 0]);
            joined.extend_from_slice(part);
        }
        assert_eq!(joined, reply);
        assert_eq!((pieces(PIECE_BYTES), pieces(PIECE_BYTES + 1), pieces(0)), (1, 2, 0));
    }
}
