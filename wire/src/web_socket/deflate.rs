//! permessage-deflate: one message at a time (W3).
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Failure, INVALID_TEXT, TOO_BIG, failed};

/// What a compressed message lacks at its end (RFC 7692, section 7.2.2).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// How much room is made at a time.
const STEP_BYTES: usize = 16 << 10;

/// Compresses messages.
pub struct Deflater(Compress);

impl Default for Deflater {
    fn default() -> Deflater {
        Deflater(Compress::new(Compression::fast(), false))
    }
}

impl Deflater {
    /// A message, compressed; `None` if that is no shorter.
    pub fn deflate(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.reset();
        let mut out = Vec::with_capacity(message.len() + 64);
        let mut taken = 0;
        while taken < message.len() || out.len() == out.capacity() {
            out.reserve(64);
            let before = self.0.total_in();
            self.0.compress_vec(&message[taken..], &mut out, FlushCompress::Sync).ok()?;
            taken += (self.0.total_in() - before) as usize;
            if out.len() >= message.len() {
                return None;
            }
        }
        out.truncate(out.len().checked_sub(TAIL.len()).filter(|at| out[*at..] == TAIL)?);
        Some(out)
    }
}

/// Decompresses one message.
pub struct Inflater(Decompress);

impl Inflater {
    pub fn new() -> Inflater {
        Inflater(Decompress::new(false))
    }

    /// Appends what some bytes of a message stand for, `most` bytes at most.
    pub fn inflate(&mut self, bytes: &[u8], plain: &mut Vec<u8>, most: usize) -> Result<(), Failure> {
        let (start, mut taken) = (plain.len(), 0);
        loop {
            plain.reserve(STEP_BYTES);
            let (before, length) = (self.0.total_in(), plain.len());
            let Ok(status) = self.0.decompress_vec(&bytes[taken..], plain, FlushDecompress::Sync) else {
                return failed(INVALID_TEXT, "a compressed message is damaged");
            };
            let read = (self.0.total_in() - before) as usize;
            taken += read;
            if plain.len() - start > most {
                return failed(TOO_BIG, "a message is too long once it is decompressed");
            }
            if status == Status::StreamEnd {
                // A last block is allowed, and what follows it begins anew.
                self.0.reset(false);
            } else if taken == bytes.len() && plain.len() < plain.capacity() {
                return Ok(());
            } else if read == 0 && plain.len() == length {
                return failed(INVALID_TEXT, "a compressed message is damaged");
            }
            if taken == bytes.len() && status == Status::StreamEnd {
                return Ok(());
            }
        }
    }

    /// The same for the end of the message.
    pub fn finish(&mut self, plain: &mut Vec<u8>, most: usize) -> Result<(), Failure> {
        self.inflate(&TAIL, plain, most)
    }
}
