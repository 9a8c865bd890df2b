//! CRC-64/REDIS (Jones's polynomial, reflected, starting from 0), and the checksum of a file whose first line is not settled yet.
use crc_fast::{CrcAlgorithm, Digest, checksum, checksum_combine};

/// The CRC-64 of some bytes.
pub(super) fn crc64(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Redis, bytes)
}

/// The CRC-64 of bytes that come in pieces.
#[derive(Clone)]
pub struct Checksum(Digest);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(Digest::new(CrcAlgorithm::Crc64Redis))
    }
}

impl Checksum {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn value(&self) -> u64 {
        self.0.finalize()
    }

    /// The CRC-64 of a first line, and of these bytes behind it.
    pub fn behind(&self, line: &[u8]) -> u64 {
        checksum_combine(CrcAlgorithm::Crc64Redis, crc64(line), self.value(), self.0.get_amount())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_checksum_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut pieces = Checksum::default();
        pieces.update(b"1234");
        pieces.update(b"");
        pieces.update(b"56789");
        assert_eq!(pieces.value(), crc64(b"123456789"));
        let mut rest = Checksum::default();
        assert_eq!(rest.behind(b"1234"), crc64(b"1234"));
        rest.update(b"56789");
        assert_eq!(rest.behind(b"1234"), crc64(b"123456789"));
    }
}
