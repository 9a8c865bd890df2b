//! Bytes that wait to be sent to one client, whatever protocol they are in.
//!
//! ```text
//!   shared: [bytes of many clients]   sealed: [segment][segment][big bulk]   tail: [being written ......]
//!            ^ sent                                                           appended to, sealed when it is full
//! ```
//!
//! An encoder appends to the tail. A full segment is sealed and a new one is begun, so a reply of any length is never
//! moved once it is written. A socket takes all segments in one gathered write. Bytes for very many clients are written
//! once and shared: they come before all segments ([`Output::share`]), and a client for which there is nothing else
//! needs no buffer.
//!
//! The encoder of a protocol stands beside its reader. RESP's encoder is `impl Reply for Output` (`resp/encoder.rs`),
//! without an object between a call and the tail; the encoders of other protocols hold `&mut Output`.
//!
//! **Invariant O1:** [`Output::rewind`] removes what was written since a mark. None of it can have been sent, because a
//! server sends between calls only.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use polder_base::Protocol;

/// A segment is sealed before it grows beyond this.
const SEGMENT_BYTES: usize = 64 << 10;

/// Bytes that wait to be sent to one client.
#[derive(Default, Debug)]
pub struct Output {
    /// The version that RESP's encoder writes; HELLO changes it. It stands here so that the encoder needs no object of
    /// its own. Other encoders do not read it.
    pub(crate) resp_version: Protocol,
    /// Bytes that other clients get as well; they come before the segments.
    shared: Option<Arc<[u8]>>,
    sealed: VecDeque<Vec<u8>>,
    /// The bytes that are shared, and those of the sealed segments.
    sealed_bytes: usize,
    tail: Vec<u8>,
    /// How much of the first piece has been sent.
    sent: usize,
    /// More than this closes the connection, so that nothing beyond it is kept; 0 for no limit.
    bytes_max: usize,
    overfull: bool,
}

impl Output {
    /// An output to which RESP of this version is written.
    pub fn new(resp_version: Protocol) -> Output {
        Output { resp_version, ..Output::default() }
    }

    /// Sets how many bytes may wait; bytes beyond that, and all that follow, are discarded.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.sealed_bytes + self.tail.len() - self.sent
    }

    /// The memory that the output holds for them, in bytes.
    pub fn capacity(&self) -> usize {
        self.tail.capacity() + self.sealed.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Gives the output an empty buffer to write to if it has none.
    pub fn lend(&mut self, buffer: impl FnOnce() -> Vec<u8>) {
        if self.tail.capacity() == 0 {
            self.tail = buffer();
        }
    }

    /// Takes the buffer back if everything has been sent.
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        (self.is_empty() && self.tail.capacity() > 0).then(|| std::mem::take(&mut self.tail))
    }

    /// The waiting bytes in pieces, for one gathered write; returns the number of pieces.
    pub fn slices<'o>(&'o self, into: &mut [IoSlice<'o>]) -> usize {
        let mut sent = self.sent;
        let mut count = 0;
        let pieces = self.pieces();
        for (slot, piece) in into.iter_mut().zip(pieces) {
            *slot = IoSlice::new(&piece[std::mem::take(&mut sent)..]);
            count += 1;
        }
        count
    }

    /// The waiting bytes if they are all in one piece.
    pub fn single(&self) -> Option<&[u8]> {
        match &self.shared {
            None => self.sealed.is_empty().then(|| &self.tail[self.sent..]),
            Some(shared) => (self.sealed.is_empty() && self.tail.is_empty()).then(|| &shared[self.sent..]),
        }
    }

    /// A copy of the waiting bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.waiting());
        let mut sent = self.sent;
        for piece in self.pieces() {
            bytes.extend_from_slice(&piece[std::mem::take(&mut sent)..]);
        }
        bytes
    }

    /// Whether all waiting bytes are shared with other clients.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some() && self.sealed.is_empty() && self.tail.is_empty()
    }

    /// All pieces in their order; a part of the first may have been sent.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.shared
            .as_deref()
            .into_iter()
            .chain(self.sealed.iter().map(Vec::as_slice))
            .chain(std::iter::once(&*self.tail))
    }

    /// Removes the first `count` bytes: they have been sent.
    pub fn consume(&mut self, count: usize) {
        self.sent += count;
        if let Some(shared) = &self.shared {
            if self.sent < shared.len() {
                return;
            }
            self.sent -= shared.len();
            self.sealed_bytes -= shared.len();
            self.shared = None;
        }
        while let Some(first) = self.sealed.front() {
            if self.sent < first.len() {
                return;
            }
            self.sent -= first.len();
            self.sealed_bytes -= first.len();
            self.sealed.pop_front();
        }
        if self.sent == self.tail.len() {
            self.tail.clear();
            self.sent = 0;
        }
    }

    /// Appends bytes that are in the client's protocol already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.room(bytes.len());
        self.tail.extend_from_slice(bytes);
    }

    /// Appends the bytes that wait in another output.
    pub fn copy(&mut self, other: &Output) {
        let mut sent = other.sent;
        for piece in other.pieces() {
            self.raw(&piece[std::mem::take(&mut sent)..]);
        }
    }

    /// Takes bytes that other clients get as well, without copying them. Returns false, and takes nothing, if bytes wait already.
    pub fn share(&mut self, bytes: &Arc<[u8]>) -> bool {
        let free = self.is_empty() && !self.overfull && !bytes.is_empty();
        if free {
            self.sealed_bytes = bytes.len();
            self.shared = Some(bytes.clone());
        }
        free
    }

    /// The tail, to which an encoder appends; [`Output::room`] first, or a segment may be moved.
    #[inline(always)]
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Makes room for `bytes` in the tail.
    #[inline(always)]
    pub(crate) fn room(&mut self, bytes: usize) {
        if self.tail.capacity() - self.tail.len() < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        if self.tail.len() + bytes > SEGMENT_BYTES && !self.tail.is_empty() {
            if self.overfull {
                self.tail.clear();
            } else {
                self.sealed_bytes += self.tail.len();
                self.sealed.push_back(std::mem::take(&mut self.tail));
                self.overfull = self.bytes_max != 0 && self.waiting() > self.bytes_max;
            }
        }
        // A doubling Vec, until it is a segment; a long bulk gets a segment of its own size.
        let wanted = self.tail.len() + bytes;
        let capacity = wanted.max(wanted.next_power_of_two().min(SEGMENT_BYTES));
        self.tail.reserve_exact(capacity - self.tail.len());
    }

    /// The place up to which has been written, for [`Output::rewind`].
    pub fn mark(&self) -> usize {
        self.sealed_bytes + self.tail.len()
    }

    /// The bytes that were written since a mark.
    pub fn bytes_since(&self, mark: usize) -> usize {
        self.mark().saturating_sub(mark)
    }

    /// Whether more was written than [`Output::limit`] allows: the connection must be closed.
    pub fn is_overfull(&self) -> bool {
        self.overfull
    }

    /// Removes what was written since a mark (O1).
    pub fn rewind(&mut self, mark: usize) {
        // The connection will be closed, and the place of the mark is lost.
        if self.overfull {
            return;
        }
        while mark < self.sealed_bytes {
            let Some(last) = self.sealed.pop_back() else { break };
            self.sealed_bytes -= last.len();
            self.tail = last;
        }
        self.tail.truncate(mark - self.sealed_bytes);
    }
}

#[cfg(test)]
mod tests {
    use polder_base::Reply;

    use super::*;

    fn gathered(output: &Output) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 64];
        let count = output.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn long_replies_come_out_whole_however_little_is_sent_at_a_time() {
        let mut output = Output::default();
        let mut expected = Vec::new();
        for length in [10usize, 70_000, 3, 65_536, 0, 200_000, 1] {
            let bulk: Vec<u8> = (0..length).map(|at| at as u8).collect();
            output.bulk(&bulk);
            expected.extend_from_slice(format!("${length}\r\n").as_bytes());
            expected.extend_from_slice(&bulk);
            expected.extend_from_slice(b"\r\n");
        }
        assert!(output.sealed.len() > 2);
        assert_eq!(gathered(&output), expected);
        let mut sent = Vec::new();
        for step in (1..).map(|at| at * 997 % 7919 + 1) {
            assert_eq!(output.waiting(), expected.len() - sent.len());
            let rest = gathered(&output);
            if rest.is_empty() {
                break;
            }
            let count = step.min(rest.len());
            sent.extend_from_slice(&rest[..count]);
            output.consume(count);
        }
        assert!(sent == expected);
        assert!(output.reclaim().is_some());
    }

    #[test]
    fn what_is_shared_comes_first_however_little_is_sent_at_a_time() {
        let shared: Arc<[u8]> = Arc::from(&b"+to all\r\n"[..]);
        let mut output = Output::default();
        assert!(output.share(&shared) && output.is_shared());
        assert!(!output.share(&shared), "something waits");
        assert_eq!(output.single(), Some(&shared[..]));
        output.consume(shared.len());
        assert!(output.is_empty() && output.share(&shared));
        let mark = output.mark();
        output.bulk(&[b'x'; 70_000]);
        output.rewind(mark);
        output.integer(1);
        assert!(!output.is_shared() && output.single().is_none());
        let mut sent = Vec::new();
        while !output.is_empty() {
            let rest = gathered(&output);
            assert_eq!(rest.len(), output.waiting());
            sent.extend_from_slice(&rest[..1]);
            output.consume(1);
        }
        assert_eq!(sent, b"+to all\r\n:1\r\n");
        assert!(output.reclaim().is_some() && Arc::strong_count(&shared) == 1);
    }

    #[test]
    fn what_is_beyond_the_limit_is_not_kept() {
        let mut output = Output::default();
        output.limit(200_000);
        for number in 0.. {
            output.bulk(&[0; 50_000]);
            assert!(number < 8);
            if output.is_overfull() {
                break;
            }
        }
        let held = output.waiting();
        (0..100).for_each(|_| output.bulk(&[0; 50_000]));
        assert!(
            (200_001..400_000).contains(&held)
                && output.waiting() < held + 100_000
                && output.waiting() > 200_000
        );
        output.rewind(0);
        assert!(output.waiting() > 200_000);
    }

    #[test]
    fn rewinding_forgets_segments_too() {
        let mut output = Output::default();
        output.bulk(b"kept");
        let mark = output.mark();
        for _ in 0..5 {
            output.bulk(&[0; 50_000]);
        }
        output.rewind(mark);
        output.integer(1);
        assert_eq!(gathered(&output), b"$4\r\nkept\r\n:1\r\n");
    }
}
