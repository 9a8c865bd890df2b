//! A shadow: the private, changed copy of a bucket that a transaction has locked.
//!
//! Words are read through to the bucket until they are written here; a bit per word says which. So a SET touches the few words
//! it changes, and compacting a bucket needs no other code.

use polder_shm::Segment;

use crate::layout::bucket::{WORDS, Words, WordsMut};
use crate::layout::directory::Bucket;

/// See the module.
pub struct Shadow {
    pub bucket: Bucket,
    /// The LOCK item in the seat's journal.
    pub lock_item: u64,
    /// Which words are written here.
    pub written: u128,
    /// An entry at home here moves from one bucket to another, even if no word here tells.
    pub moved: bool,
    words: Box<[u64; WORDS]>,
}

impl Shadow {
    /// The shadow of a bucket that was locked by journal item `lock_item`.
    pub fn new(bucket: Bucket, lock_item: u64) -> Shadow {
        Shadow { bucket, lock_item, written: 0, moved: false, words: Box::new([0; WORDS]) }
    }

    /// The same allocation for another bucket.
    pub fn reuse(&mut self, bucket: Bucket, lock_item: u64) {
        (self.bucket, self.lock_item, self.written, self.moved) = (bucket, lock_item, 0, false);
    }

    /// What was written and differs from the bucket: offset and value.
    pub fn changes<'s>(&'s self, segment: &'s Segment) -> impl Iterator<Item = (u64, u64)> + 's {
        let mut left = self.written;
        std::iter::from_fn(move || {
            while left != 0 {
                let index = left.trailing_zeros() as usize;
                left &= left - 1;
                let at = self.bucket.word_at(index);
                if segment.load(at) != self.words[index] {
                    return Some((at, self.words[index]));
                }
            }
            None
        })
    }
}

/// A shadow with the segment behind it.
pub struct Editing<'a> {
    pub shadow: &'a mut Shadow,
    pub segment: &'a Segment,
}

impl Words for Editing<'_> {
    #[inline]
    fn word(&self, index: usize) -> u64 {
        if self.shadow.written >> index & 1 != 0 {
            self.shadow.words[index]
        } else {
            self.segment.load(self.shadow.bucket.word_at(index))
        }
    }
}

impl WordsMut for Editing<'_> {
    #[inline]
    fn set_word(&mut self, index: usize, value: u64) {
        self.shadow.written |= 1 << index;
        self.shadow.words[index] = value;
    }
}
