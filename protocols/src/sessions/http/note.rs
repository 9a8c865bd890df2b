//! What is remembered of a plain request until its call replies.

/// What a plain request does with its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Read,
    Store,
    Remove,
}

/// How the reply to a plain request becomes a response. It is kept in the note of the frame, so that requests which are read
/// ahead need no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    pub verb: Verb,
    pub is_head: bool,
    /// The number of the content type in [`MEDIA`](super::media::MEDIA), and whether the value is that in gzip.
    pub media: u8,
    pub is_gzip: bool,
}

const HEAD_BIT: u32 = 1 << 4;
const GZIP_BIT: u32 = 1 << 5;

impl Note {
    pub fn to_bits(self) -> u32 {
        let flag = |set, bit| if set { bit } else { 0 };
        self.verb as u32
            | flag(self.is_head, HEAD_BIT)
            | flag(self.is_gzip, GZIP_BIT)
            | u32::from(self.media) << 8
    }

    pub fn from_bits(bits: u32) -> Note {
        let verb = match bits & 0xf {
            0 => Verb::Read,
            1 => Verb::Store,
            _ => Verb::Remove,
        };
        Note { verb, is_head: bits & HEAD_BIT != 0, is_gzip: bits & GZIP_BIT != 0, media: (bits >> 8) as u8 }
    }
}
