//! LZF, as `liblzf` writes it: runs of literal bytes, and copies of what came before.
//!
//! ```text
//!   000lllll  bytes         l + 1 literal bytes
//!   lllooooo  o             l + 2 bytes from (o + 1) bytes before, l = 1 ..= 6
//!   111ooooo  l  o          l + 9 bytes from (o + 1) bytes before
//! ```
use super::Malformed;

const LITERALS_MAX: usize = 32;
const COPY_MAX: usize = 264;
const OFFSET_MAX: usize = 1 << 13;

/// Places of the table of what was seen where.
const PLACES: usize = 1 << 13;

/// Makes of `input` the `len` bytes that it stands for. The buffer grows with what comes out, 88 bytes per byte of input at most.
pub(super) fn decompress(input: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    const BAD: Malformed = Malformed(std::borrow::Cow::Borrowed("a compressed string is damaged"));
    out.clear();
    out.reserve(len.min(input.len().saturating_mul(4)));
    let mut rest = input.iter();
    let mut byte = || rest.next().map(|byte| *byte as usize);
    while let Some(control) = byte() {
        if control < LITERALS_MAX {
            for _ in 0..=control {
                out.push(byte().ok_or(BAD)? as u8);
            }
        } else {
            let mut count = (control >> 5) + 2;
            if count == 9 {
                count += byte().ok_or(BAD)?;
            }
            let offset = ((control & 0x1f) << 8 | byte().ok_or(BAD)?) + 1;
            let mut from = out.len().checked_sub(offset).ok_or(BAD)?;
            if offset >= count {
                out.extend_from_within(from..from + count);
            } else {
                for _ in 0..count {
                    out.push(out[from]);
                    from += 1;
                }
            }
        }
        if out.len() > len {
            return Err(BAD);
        }
    }
    if out.len() == len { Ok(()) } else { Err(BAD) }
}

/// A compressor; it keeps its table, whose old contents do no harm: every place is looked at before it is used.
#[derive(Default)]
pub(super) struct Compressor {
    places: Vec<u32>,
    out: Vec<u8>,
}

impl Compressor {
    /// The compressed form of `input`, if it takes less than `input.len() - 4` bytes.
    pub fn compress(&mut self, input: &[u8]) -> Option<&[u8]> {
        let room = input.len().checked_sub(4)?;
        if input.len() > u32::MAX as usize {
            return None;
        }
        self.places.resize(PLACES, 0);
        self.out.clear();
        let (mut at, mut literal) = (0, 0);
        while at + 2 < input.len() {
            let slot = slot(input, at);
            let before = self.places[slot] as usize;
            self.places[slot] = at as u32;
            if before >= at || at - before > OFFSET_MAX || input[before..before + 3] != input[at..at + 3] {
                at += 1;
                continue;
            }
            let limit = COPY_MAX.min(input.len() - at);
            let count = (3..limit).find(|more| input[before + more] != input[at + more]).unwrap_or(limit);
            self.literals(&input[literal..at]);
            self.copy(at - before - 1, count - 2);
            if self.out.len() > room {
                return None;
            }
            let end = at + count;
            for skipped in [end - 2, end - 1] {
                if skipped > at && skipped + 2 < input.len() {
                    let slot = self::slot(input, skipped);
                    self.places[slot] = skipped as u32;
                }
            }
            (at, literal) = (end, end);
        }
        self.literals(&input[literal..]);
        (self.out.len() < room).then_some(&self.out)
    }

    fn literals(&mut self, bytes: &[u8]) {
        for run in bytes.chunks(LITERALS_MAX) {
            self.out.push(run.len() as u8 - 1);
            self.out.extend_from_slice(run);
        }
    }

    fn copy(&mut self, offset: usize, len: usize) {
        let high = (offset >> 8) as u8;
        if len < 7 {
            self.out.push((len as u8) << 5 | high);
        } else {
            self.out.extend_from_slice(&[7 << 5 | high, (len - 7) as u8]);
        }
        self.out.push(offset as u8);
    }
}

fn slot(input: &[u8], at: usize) -> usize {
    let three = u32::from_le_bytes([input[at], input[at + 1], input[at + 2], 0]);
    three.wrapping_mul(0x9e37_79b1) as usize >> (32 - PLACES.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(input: &[u8], compressor: &mut Compressor) -> Option<usize> {
        let small = compressor.compress(input)?.to_vec();
        let mut back = Vec::new();
        decompress(&small, input.len(), &mut back).unwrap();
        assert_eq!(back, input);
        Some(small.len())
    }

    #[test]
    fn what_repeats_becomes_small() {
        let mut compressor = Compressor::default();
        assert!(check(&[b'a'; 1000], &mut compressor).unwrap() < 30);
        assert!(check(b"hello hello hello hello hello hello", &mut compressor).unwrap() < 20);
        assert!(check(&b"0123456789abcdef".repeat(5000), &mut compressor).unwrap() < 1200);
        assert_eq!(check(b"abcdefghijklmnopqrstuvwxyz", &mut compressor), None);
        assert_eq!(check(b"", &mut compressor), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut out = Vec::new();
        for (input, len) in
            [(&b"\x05ab"[..], 6), (b"\x20\x00", 3), (b"\x00a\xe0", 9), (b"\x00a", 2), (b"\x01ab", 1)]
        {
            assert!(decompress(input, len, &mut out).is_err(), "{input:?}");
        }
        // A length of its own says nothing about the memory that is taken.
        assert!(decompress(b"\x00a", usize::MAX, &mut out).is_err() && out.capacity() < 1000);
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(words in proptest::collection::vec("[ab]{0,9}|[a-z]{0,40}", 0..60), noise: Vec<u8>) {
            let mut compressor = Compressor::default();
            check(words.concat().as_bytes(), &mut compressor);
            check(&noise, &mut compressor);
            check(&[words.concat().as_bytes(), &noise, words.concat().as_bytes()].concat(), &mut compressor);
        }
    }
}
