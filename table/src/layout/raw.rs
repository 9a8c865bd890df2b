//! The one raw module of the table: slices of nodes that lie in the segment.
//!
//! Everything else in this crate is safe code over words. A slice of a published node is sound as long as no thread writes the node: S1
//! ensures that for as long as the seat's pin lasts. A mutable slice exists only of a node that the same transaction has made.

use std::mem::MaybeUninit;

use crate::layout::entry::{self, UNITS};
use polder_base::bytes::short_word;
use polder_base::{Fault, Ref};
use polder_shm::node::{HEADER_BYTES, NodeHeader, NodeKind};
use polder_shm::segment::ANY_NODE;
use polder_shm::{RawView, Segment, offset_of};

const DAMAGED: Fault = Fault::Damaged { what: "a node" };

/// A node's header, if the reference names what may be a node (S5: place, kind, length). Whether one of that size lies there, `verify` knows: the
/// slab's own words would be one more cache line for each node that is read.
#[inline]
pub fn header(segment: &Segment, node: Ref) -> Result<(NodeHeader, NodeKind), Fault> {
    // Mostly it is short enough that one comparison says of all of it that it lies there.
    if let Some(offset) = segment.raw_view().node(node) {
        let header = NodeHeader(segment.load(offset));
        if let Some(kind) = header.kind()
            && header.length() as u64 <= ANY_NODE - HEADER_BYTES
        {
            return Ok((header, kind));
        }
    }
    far_header(segment, node)
}

/// The same of a long one, or one that may lie at the segment's very end.
#[inline(never)]
fn far_header(segment: &Segment, node: Ref) -> Result<(NodeHeader, NodeKind), Fault> {
    let offset = offset_of(node);
    if !segment.has_node(offset, HEADER_BYTES) {
        return Err(DAMAGED);
    }
    let header = NodeHeader(segment.load(offset));
    let Some(kind) = header.kind() else { return Err(DAMAGED) };
    if !segment.has_node(offset, HEADER_BYTES + header.length() as u64) {
        return Err(DAMAGED);
    }
    Ok((header, kind))
}

/// A node's payload. The caller is pinned, and the borrow of `segment` stands for a pin that lasts as long.
///
/// # Errors
/// [`Fault::Damaged`] when the reference names no node.
#[inline]
pub fn payload(segment: &Segment, node: Ref) -> Result<(NodeKind, &[u8]), Fault> {
    let (header, kind) = header(segment, node)?;
    let address = segment.address(offset_of(node) + HEADER_BYTES);
    // SAFETY: S5, the node's place and length have been checked; S1, no thread writes a published node while this one is pinned, and
    // unpublished nodes are its own.
    Ok((kind, unsafe { std::slice::from_raw_parts(address, header.length()) }))
}

/// The references and the data of a value's node.
///
/// # Errors
/// As [`payload`].
#[inline]
pub fn parts(segment: &Segment, node: Ref) -> Result<(&[Ref], &[u8]), Fault> {
    let (kind, bytes) = payload(segment, node)?;
    if !kind.has_refs() {
        return Ok((&[], bytes));
    }
    let count = refs_in(bytes)?;
    // SAFETY: as in `payload`; Ref is a transparent u64, the node is aligned to 8 bytes, and `count` of them fit.
    Ok((unsafe { std::slice::from_raw_parts(bytes.as_ptr().add(8).cast(), count) }, &bytes[8 + count * 8..]))
}

/// How many references a payload with references begins with.
#[inline]
pub fn refs_in(payload: &[u8]) -> Result<usize, Fault> {
    let Some(count) = payload.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(DAMAGED);
    };
    if count > (payload.len() as u64 - 8) / 8 {
        return Err(DAMAGED);
    }
    Ok(count as usize)
}

/// The key of the inline entry at `entry`, of a bucket that this transaction has locked and that ends `room` bytes behind it; `None` if its
/// lengths lead outside (S5).
#[inline]
pub fn inline_key(segment: &Segment, entry: u64, room: usize) -> Option<&[u8]> {
    let (at, length) = entry::inline_key_place(segment.load(entry + 8));
    if at + length > room {
        return None;
    }
    // SAFETY: S2, only this thread writes the bucket's units, which it has locked; other threads may change an access clock, which is in
    // the entry's first word and not in its key. S5, the key lies in the bucket, which lies in the mapping.
    Some(unsafe { std::slice::from_raw_parts(segment.address(entry + at as u64), length) })
}

/// Fills the payload of a node that this transaction has just made and that no other thread knows.
pub fn fill(segment: &Segment, node: Ref, parts: &[&[u8]]) {
    copy(segment, offset_of(node) + HEADER_BYTES, parts);
}

/// Writes two words into the payload of a node that this transaction has made, at an offset that is a multiple of eight and inside of it.
pub fn fill_words(segment: &Segment, node: Ref, at: u64, words: [u64; 2]) {
    let place = offset_of(node) + HEADER_BYTES + at;
    segment.store(place, words[0]);
    segment.store(place + 8, words[1]);
}

/// Lets `fill` write the data of a node without references that this transaction has just made for `length` bytes.
#[inline]
pub fn fill_by(segment: &Segment, node: Ref, length: usize, fill: impl FnOnce(&mut [u8])) {
    let address = segment.address(offset_of(node) + HEADER_BYTES);
    // SAFETY: S2, the node is unpublished and ours, there is no other slice of it, and it was made for `length` bytes.
    fill(unsafe { std::slice::from_raw_parts_mut(address, length) });
}

fn copy(segment: &Segment, mut at: u64, parts: &[&[u8]]) {
    for part in parts {
        // SAFETY: S2, the node is unpublished and ours; the caller made it long enough for all that goes in.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), segment.address(at), part.len()) };
        at += part.len() as u64;
    }
}

/// Fills a node that this transaction has just made with references and data.
pub fn fill_refs(segment: &Segment, node: Ref, refs: &[Ref], parts: &[&[u8]]) {
    let payload = offset_of(node) + HEADER_BYTES;
    segment.store(payload, refs.len() as u64);
    // SAFETY: S2, the node is unpublished and ours; the caller made it long enough. Ref is a transparent u64, and the node is aligned.
    unsafe { std::ptr::copy_nonoverlapping(refs.as_ptr(), segment.address(payload + 8).cast(), refs.len()) };
    copy(segment, payload + 8 + refs.len() as u64 * 8, parts);
}

/// Lets `change` write references and data of a node that this transaction made. No other slice of it may be alive.
pub fn edit(
    segment: &Segment,
    node: Ref,
    change: &mut dyn FnMut(&mut [Ref], &mut [u8]),
) -> Result<(), Fault> {
    let (header, kind) = header(segment, node)?;
    let address = segment.address(offset_of(node) + HEADER_BYTES);
    // SAFETY: S2, the node is unpublished and ours, and the caller has no other slice of it; S5, place and length were checked.
    let bytes = unsafe { std::slice::from_raw_parts_mut(address, header.length()) };
    if !kind.has_refs() {
        change(&mut [], bytes);
        return Ok(());
    }
    let count = refs_in(bytes)?;
    let (refs, data) = bytes[8..].split_at_mut(count * 8);
    // SAFETY: as above; Ref is a transparent u64 and the node is aligned to 8 bytes.
    let refs = unsafe { std::slice::from_raw_parts_mut(refs.as_mut_ptr().cast(), count) };
    change(refs, data);
    Ok(())
}

/// A bit for each byte of `words` that is `byte`, sixteen bytes at a time.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn same_bytes(words: &[u64; 7], byte: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let part = |low: u64, high: u64| {
        // SAFETY: every x86-64 CPU has SSE2, and these instructions touch registers only.
        unsafe {
            _mm_movemask_epi8(_mm_cmpeq_epi8(
                _mm_set_epi64x(high as i64, low as i64),
                _mm_set1_epi8(byte as i8),
            )) as u64
        }
    };
    part(words[0], words[1])
        | part(words[2], words[3]) << 16
        | part(words[4], words[5]) << 32
        | (part(words[6], 0) & 0xff) << 48
}

/// The same, on other CPUs.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn same_bytes(words: &[u64; 7], byte: u8) -> u64 {
    same_bytes_portable(words, byte)
}

/// The same on any CPU.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(crate) fn same_bytes_portable(words: &[u64; 7], byte: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const REST: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let pattern = LOW * byte as u64;
    let mut found = 0u64;
    for (at, word) in words.iter().enumerate() {
        let other = word ^ pattern;
        // The high bit of each byte that is zero in `other`, and of no other byte.
        let zeros = !(((other & REST) + REST) | other | REST);
        // Gathers the high bit of each byte into one byte.
        found |= ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (at * 8);
    }
    found
}

/// A bit for each unit of the bucket whose line this is whose tag is `tag`. Others may write the line meanwhile.
#[inline(always)]
pub fn units_tagged(lens: RawView<'_>, line: u64, tag: u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx2") {
            wide::units_tagged(lens, line, tag)
        } else {
            narrow::units_tagged(lens, line, tag)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        same_bytes(&std::array::from_fn(|number| lens.load(line + 8 + number as u64 * 8)), tag)
            & ((1 << UNITS) - 1)
    }
}

/// With AVX2: half of the instructions.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::*;

    #[inline(always)]
    pub fn units_tagged(lens: RawView<'_>, line: u64, tag: u8) -> u64 {
        const { assert!(UNITS == 54, "the last 32 tags begin at 30") };
        let (low, high): (u64, u64);
        // SAFETY: S5, the line lies in the mapping, and this CPU has AVX2. The loads are the machine's, not the language's: what they say of
        // a line that is being written is judged by its word. What VZEROUPPER leaves of the registers is given as lost.
        unsafe {
            std::arch::asm!(
                "vmovd xmm0, {tag:e}", "vpbroadcastb ymm0, xmm0",
                "vpcmpeqb ymm1, ymm0, [{at} + 8]", "vpcmpeqb ymm0, ymm0, [{at} + 30]",
                "vpmovmskb {low:e}, ymm1", "vpmovmskb {high:e}, ymm0", "vzeroupper",
                at = in(reg) lens.racy_address(line), tag = in(reg) tag as u32, low = out(reg) low, high = lateout(reg) high,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, preserves_flags, readonly)
            );
        }
        // They overlap, and agree.
        low | high << 22
    }
}

/// With what every x86-64 CPU has.
#[cfg(target_arch = "x86_64")]
mod narrow {
    use super::*;
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};

    #[inline(always)]
    pub fn units_tagged(lens: RawView<'_>, line: u64, tag: u8) -> u64 {
        const { assert!(UNITS == 54, "the last sixteen tags begin at 46") };
        let (one, two, three, four): (__m128i, __m128i, __m128i, __m128i);
        // SAFETY: S5, the line lies in the mapping. The loads are as above.
        unsafe {
            std::arch::asm!(
                "movdqu {one}, [{at} + 8]", "movdqu {two}, [{at} + 24]", "movdqu {three}, [{at} + 40]", "movdqu {four}, [{at} + 46]",
                at = in(reg) lens.racy_address(line), one = out(xmm_reg) one, two = out(xmm_reg) two, three = out(xmm_reg) three,
                four = out(xmm_reg) four, options(nostack, preserves_flags, readonly)
            );
        }
        // SAFETY: every x86-64 CPU has SSE2, and these instructions touch registers only.
        let part = |bytes| unsafe {
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(tag as i8))) as u32 as u64
        };
        // The last two overlap, and agree.
        part(one) | part(two) << 16 | part(three) << 32 | part(four) << 38
    }
}

/// Eight bytes of the mapping, `BEHIND` behind `at`. Others may write them meanwhile.
#[inline(always)]
fn eight<const BEHIND: usize>(lens: RawView<'_>, at: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let word: u64;
        // SAFETY: as in `wide`.
        unsafe {
            std::arch::asm!(
                "mov {word}, [{at} + {behind}]", at = in(reg) lens.racy_address(at), behind = const BEHIND, word = out(reg) word,
                options(nostack, preserves_flags, readonly)
            );
        }
        word
    }
    #[cfg(not(target_arch = "x86_64"))]
    eight_portable(lens, at + BEHIND as u64)
}

/// The same on any CPU, for a place that is not the mapping's last word.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn eight_portable(lens: RawView<'_>, at: u64) -> u64 {
    let (low, shift) = (lens.load(at & !7), at % 8 * 8);
    if shift == 0 { low } else { low >> shift | lens.load((at & !7) + 8) << (64 - shift) }
}

/// Whether these bytes are `BEHIND` behind `at`, with 64 more behind them. Others may write there meanwhile.
#[inline(always)]
pub fn bytes_are<const BEHIND: usize>(lens: RawView<'_>, at: u64, bytes: &[u8]) -> bool {
    let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
        let mask = !(u64::MAX << (bytes.len() * 8));
        return (eight::<BEHIND>(lens, at) ^ short_word(bytes)) & mask == 0;
    };
    let mut differ = eight::<BEHIND>(lens, at) ^ u64::from_le_bytes(*first);
    differ |= eight::<BEHIND>(lens, at + bytes.len() as u64 - 8) ^ u64::from_le_bytes(*last);
    if bytes.len() > 16 {
        for (number, chunk) in bytes.as_chunks::<8>().0.iter().enumerate().skip(1) {
            differ |= eight::<BEHIND>(lens, at + number as u64 * 8) ^ u64::from_le_bytes(*chunk);
        }
    }
    differ == 0
}

/// Room for a copy of a short value.
#[repr(align(16))]
pub struct Short([MaybeUninit<u8>; SHORT_MAX]);

/// The most that a [`Short`] holds.
const SHORT_MAX: usize = 64;

#[cfg(target_arch = "x86_64")]
type Sixteen = std::arch::x86_64::__m128i;
#[cfg(not(target_arch = "x86_64"))]
type Sixteen = [u64; 2];

impl Short {
    pub const EMPTY: Short = Short([MaybeUninit::uninit(); SHORT_MAX]);

    /// Copies `len` bytes from `at`, which has 64 more behind it. Others may write there meanwhile.
    #[inline(always)]
    pub fn take(&mut self, lens: RawView<'_>, at: u64, len: usize) -> &[u8] {
        assert!(len <= SHORT_MAX);
        // Sixteen at a time: a load right after this must find its bytes in one store, or the processor waits until they are written.
        self.take_sixteen::<0>(lens, at);
        if len > 16 {
            self.take_sixteen::<16>(lens, at);
            if len > 32 {
                self.take_sixteen::<32>(lens, at);
                self.take_sixteen::<48>(lens, at);
            }
        }
        // SAFETY: the first `len` bytes have been written.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }

    #[inline(always)]
    fn take_sixteen<const BEHIND: usize>(&mut self, lens: RawView<'_>, at: u64) {
        #[cfg(target_arch = "x86_64")]
        let bytes: Sixteen = {
            let bytes;
            // SAFETY: as in `wide`.
            unsafe {
                std::arch::asm!(
                    "movdqu {bytes}, [{at} + {behind}]", at = in(reg) lens.racy_address(at), behind = const BEHIND,
                    bytes = out(xmm_reg) bytes, options(nostack, preserves_flags, readonly)
                );
            }
            bytes
        };
        #[cfg(not(target_arch = "x86_64"))]
        let bytes: Sixteen = [eight::<BEHIND>(lens, at), eight::<BEHIND>(lens, at + 8)];
        const { assert!(BEHIND + 16 <= SHORT_MAX) };
        // SAFETY: it is inside, and any bytes may be written there.
        unsafe { self.0.as_mut_ptr().add(BEHIND).cast::<Sixteen>().write_unaligned(bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::bucket;
    use polder_shm::{SegmentName, SegmentOptions};

    #[test]
    fn what_is_read_in_one_piece_is_what_words_say() {
        let name: SegmentName =
            format!("shm:polder-test-raw-{}", std::process::id()).parse().expect("a name");
        let segment =
            Segment::create(&name, &SegmentOptions { ceiling: 64 << 20, ..SegmentOptions::default() })
                .expect("a segment");
        let mut word = 88_172_645_463_325_252u64;
        let lens = segment.raw_view();
        let begin = polder_shm::layout::header::LIMITS;
        for _ in 0..500 {
            for number in 0..16 {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                segment.store(begin + number * 8, word & 0x0301_0003_0100_0201);
            }
            let bytes: Vec<u8> =
                (0..16).flat_map(|number| segment.load(begin + number * 8).to_le_bytes()).collect();
            let line = std::array::from_fn(|number| segment.load(begin + 8 + number as u64 * 8));
            for tag in 0..4 {
                assert_eq!(units_tagged(lens, begin, tag), bucket::matches(&line, tag));
                #[cfg(target_arch = "x86_64")]
                assert_eq!(narrow::units_tagged(lens, begin, tag), bucket::matches(&line, tag));
            }
            for at in 0..24 {
                assert_eq!(eight::<0>(lens, begin + at), eight_portable(lens, begin + at));
                for len in 0..=53 {
                    let there = &bytes[at as usize..at as usize + len];
                    let mut copy = Short::EMPTY;
                    assert_eq!(copy.take(lens, begin + at, len), there);
                    assert!(bytes_are::<0>(lens, begin + at, there));
                    assert!(bytes_are::<8>(lens, begin + at - 8, there));
                    for other in 0..len {
                        let mut changed = there.to_vec();
                        changed[other] ^= 0x10;
                        assert!(!bytes_are::<0>(lens, begin + at, &changed), "byte {other} of {len}");
                    }
                }
            }
        }
        Segment::remove(&name).expect("it is there");
    }
}
