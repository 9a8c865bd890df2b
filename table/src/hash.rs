//! The hash of a key: XXH3-128 with the segment's random secret, the same on every CPU.
//!
//! The high half is the key's *position*: extents, buckets and SCAN cursors are in its order. The low half gives the tag that
//! a bucket's header keeps and the sixteen bits that an entry keeps beside its reference, so that a stranger's node is hardly ever
//! looked at. The secret is drawn with the segment and never leaves it: who does not know it cannot choose keys that collide.

use xxhash_rust::xxh3::xxh3_128_with_secret;

/// A key's hash, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash {
    /// Where the key belongs: a fraction of the whole hash space, times 2^64.
    pub position: u64,
    /// One byte of at least [`FIRST_TAG`].
    pub tag: u8,
    /// Sixteen more bits for entries that hold a reference.
    pub extra: u16,
}

/// The tag of a unit that nothing occupies.
pub const FREE: u8 = 0;
/// The tag of a unit that continues the entry before it.
pub const CONTINUED: u8 = 1;
/// The lowest tag that a hash gives.
pub const FIRST_TAG: u8 = 2;

/// The hash of `key` under `secret`.
#[inline]
pub fn hash(key: &[u8], secret: &[u8; 192]) -> Hash {
    let hash = xxh3_128_with_secret(key, secret);
    let low = hash as u64;
    Hash { position: (hash >> 64) as u64, tag: FIRST_TAG + (((low & 0xff) * 254) >> 8) as u8, extra: (low >> 16) as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> [u8; 192] {
        std::array::from_fn(|at| (at as u8).wrapping_mul(167).wrapping_add(13) ^ (at as u8).rotate_left(3))
    }

    #[test]
    fn named_keys_spread_evenly_over_positions_and_tags() {
        let secret = secret();
        let (mut buckets, mut tags) = ([0u32; 256], [0u32; 256]);
        for number in 0..256 * 400 {
            let hash = hash(format!("user:{number}:profile").as_bytes(), &secret);
            buckets[(hash.position >> 56) as usize] += 1;
            tags[hash.tag as usize] += 1;
        }
        let chi: f64 = buckets.iter().map(|&count| (count as f64 - 400.0).powi(2) / 400.0).sum();
        assert!(chi < 360.0, "chi-square {chi} of 255 degrees of freedom");
        assert_eq!(tags[0] + tags[1], 0);
        assert!(tags[2..].iter().all(|&count| count > 200));
    }

    #[test]
    fn one_flipped_bit_flips_half_of_the_position() {
        let secret = secret();
        let mut flipped = 0;
        for number in 0..2_000u64 {
            let key = number.to_le_bytes();
            let mut other = key;
            other[(number % 8) as usize] ^= 1 << (number % 7);
            flipped += (hash(&key, &secret).position ^ hash(&other, &secret).position).count_ones();
        }
        let share = flipped as f64 / (2_000.0 * 64.0);
        assert!((0.49..0.51).contains(&share), "{share}");
    }

    #[test]
    fn another_secret_is_another_hash() {
        // Each length of key uses other bytes of the secret, so all of them differ.
        let other = secret().map(|byte| byte.wrapping_mul(29).wrapping_add(101));
        let same = (0..1000u32).filter(|n| hash(&n.to_le_bytes(), &secret()).position == hash(&n.to_le_bytes(), &other).position).count();
        assert_eq!(same, 0);
    }
}
