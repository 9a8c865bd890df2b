//! Values that prove themselves: each carries its key, its writer, its sequence number and a checksum.
//!
//! `KEY|WRITER|SEQUENCE|CHECKSUM|padding`, where the padding follows from the rest, so that every byte is checked.

/// The writer of a value, and its sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub writer: u32,
    pub sequence: u64,
}

/// The value of `key` with this stamp, padded to about `length` bytes.
pub fn make(key: &str, stamp: Stamp, length: usize) -> Vec<u8> {
    let head = format!("{key}|{}|{}|{length}", stamp.writer, stamp.sequence);
    let sum = checksum(head.as_bytes());
    let mut value = format!("{head}|{sum:016x}|").into_bytes();
    pad(&mut value, sum, length);
    value
}

/// The stamp of a value that is whole and belongs to `key`.
///
/// # Errors
/// What is wrong with it.
pub fn read(key: &str, value: &[u8]) -> Result<Stamp, String> {
    let shown = || String::from_utf8_lossy(&value[..value.len().min(80)]).into_owned();
    let mut parts = value.splitn(6, |&byte| byte == b'|');
    let mut next = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (Some(name), Some(writer), Some(sequence), Some(length)) = (next(), next(), next(), next()) else {
        return Err(format!("{key} holds {:?}", shown()));
    };
    if name != key {
        return Err(format!("{key} holds the value of {name}"));
    }
    let numbers = (writer.parse(), sequence.parse(), length.parse());
    let (Ok(writer), Ok(sequence), Ok(length)) = numbers else {
        return Err(format!("{key} holds {:?}", shown()));
    };
    let stamp = Stamp { writer, sequence };
    if make(key, stamp, length) == value { Ok(stamp) } else { Err(format!("{key} is torn: {:?}", shown())) }
}

fn pad(value: &mut Vec<u8>, mut state: u64, length: usize) {
    while value.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.push((state >> 56) as u8);
    }
}

/// FNV-1a, 64 bits.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_noticed_anywhere() {
        let stamp = Stamp { writer: 3, sequence: 77 };
        for length in [0, 40, 300] {
            let value = make("k", stamp, length);
            assert_eq!(read("k", &value), Ok(stamp));
            assert!(read("other", &value).is_err());
            for at in 0..value.len() {
                let mut torn = value.clone();
                torn[at] ^= 1;
                assert!(read("k", &torn).is_err(), "byte {at}");
            }
        }
    }
}
