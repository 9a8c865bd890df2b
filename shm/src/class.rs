//! Size classes of nodes.
//!
//! A slab is 64 KiB of nodes of one class. Up to 4 KiB the classes step by an eighth of their power of two
//! (by 8 bytes up to 128), so at most 12.5 % of a node is waste; past that they are what 15 to 4 nodes a slab
//! leave, rounded down to whole cache lines.
//!
//! ```text
//! class   0 .. 12        13 .. 20      21 .. 28     29 .. 36      37 .. 44       45 .. 52       53 .. 64
//! bytes  32, 40 .. 128   144 .. 256   288 .. 512   576 .. 1024   1152 .. 2048   2304 .. 4096   4352 .. 16384
//! ```

/// Bytes of a slab, its place in the segment a multiple of them.
pub const SLAB_BYTES: u64 = 64 * 1024;
/// How many size classes there are.
pub const CLASSES: usize = 65;
/// The largest node, header included.
pub const NODE_MAX: usize = 16 * 1024;
/// The smallest node: it fixes the size of a slab's bitmap.
pub const NODE_MIN: usize = 32;

const fn sizes() -> [u16; CLASSES] {
    let mut sizes = [0u16; CLASSES];
    let (mut at, mut size) = (0, 32);
    while size <= 4096 {
        sizes[at] = size;
        at += 1;
        size += match size {
            ..128 => 8,
            128..256 => 16,
            256..512 => 32,
            512..1024 => 64,
            1024..2048 => 128,
            _ => 256,
        };
    }
    let mut count = 15;
    while count >= 4 {
        sizes[at] = (SLAB_BYTES as u32 / count) as u16 & !63;
        at += 1;
        count -= 1;
    }
    assert!(at == CLASSES);
    sizes
}

/// Bytes of a node of each class.
pub const SIZES: [u16; CLASSES] = sizes();

const fn small_classes() -> [u8; 513] {
    let mut table = [0u8; 513];
    let (mut granules, mut class) = (0, 0);
    while granules <= 512 {
        while (SIZES[class] as usize) < granules * 8 {
            class += 1;
        }
        table[granules] = class as u8;
        granules += 1;
    }
    table
}

static SMALL: [u8; 513] = small_classes();

/// The class whose nodes hold `bytes`, header included.
///
/// # Panics
/// When `bytes` exceeds [`NODE_MAX`]: callers split values before they come here.
#[inline]
pub fn class_of(bytes: usize) -> usize {
    if bytes <= 4096 {
        return SMALL[bytes.div_ceil(8)] as usize;
    }
    assert!(bytes <= NODE_MAX, "a node of {bytes} bytes");
    (53..CLASSES).find(|&class| SIZES[class] as usize >= bytes).expect("the last class is NODE_MAX")
}

/// Bits of [`INVERSES`] behind the point: an inverse is too large by less than one of them, and a slab has 2^13 granules of eight bytes, so that
/// products of both are right in their whole part.
const POINT: u32 = 26;

const fn inverses() -> [u32; CLASSES] {
    let mut inverses = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        inverses[class] = (1u32 << POINT).div_ceil(SIZES[class] as u32 / 8);
        class += 1;
    }
    inverses
}

/// One divided by the size of each class, in granules.
static INVERSES: [u32; CLASSES] = inverses();

/// Whether a node of `class` begins `bytes` behind the beginning of a slab; `bytes` is a multiple of eight. It multiplies by an
/// inverse, since a division would take as long as all other checks of a node together.
#[inline]
pub fn begins_at(class: usize, bytes: u64) -> bool {
    let granules = bytes / 8;
    let number = (granules * u64::from(INVERSES[class])) >> POINT;
    number * u64::from(SIZES[class] / 8) == granules
}

/// Nodes in a slab of `class`.
pub const fn per_slab(class: usize) -> usize {
    SLAB_BYTES as usize / SIZES[class] as usize
}

/// How many free nodes of `class` the cache of a seat can hold. The nodes that a server's batch of 64 calls frees come back all at once
/// when its pin ends, and the next batch takes as many. Smaller caches would go through the slabs' bitmaps each time (a third of the time
/// of a SET of 100 bytes). Nodes from 257 bytes on are leaves and inner nodes of trees; a batch replaces some twenty of each class.
pub const fn cache_slots(class: usize) -> usize {
    match SIZES[class] {
        ..=256 => 160,
        257..=1024 => 80,
        1025..=2048 => 64,
        _ => 16,
    }
}

const fn cache_starts() -> [u16; CLASSES + 1] {
    let mut starts = [0u16; CLASSES + 1];
    let mut class = 0;
    while class < CLASSES {
        starts[class + 1] = starts[class] + cache_slots(class) as u16;
        class += 1;
    }
    starts
}

/// Where each class's slots begin among a seat's cache slots; the last is the number of all.
pub const CACHE_STARTS: [u16; CLASSES + 1] = cache_starts();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_finds_the_smallest_class_that_holds_it() {
        for bytes in 1..=NODE_MAX {
            let class = class_of(bytes);
            assert!(SIZES[class] as usize >= bytes);
            assert!(class == 0 || (SIZES[class - 1] as usize) < bytes);
        }
    }

    #[test]
    fn nodes_begin_at_multiples_of_their_size() {
        for (class, size) in SIZES.into_iter().enumerate() {
            for bytes in (0..SLAB_BYTES).step_by(8) {
                assert_eq!(
                    begins_at(class, bytes),
                    bytes % u64::from(size) == 0,
                    "class {class}, {bytes} bytes"
                );
            }
        }
    }

    #[test]
    fn small_classes_waste_an_eighth_at_most() {
        for class in 1..53 {
            let waste = SIZES[class] as usize - (SIZES[class - 1] as usize + 1);
            assert!(waste * 8 <= SIZES[class] as usize + 64, "class {class}");
        }
    }
}
