//! The hash of a key, with the segment's random secret, the same on every CPU: folded multiplication (as in wyhash and foldhash) for keys of up
//! to [`SHORT_MAX`] bytes, XXH3-128 for longer ones.
//!
//! ```text
//! the last sixteen bytes  two words (they overlap in keys of 8 to 15; shorter keys are one word, twice)
//! what is before          sixteen bytes at a time, each time multiplied and folded into the second word
//! first product           (one ^ secret) x (other ^ secret of this length)
//! second product          of the halves of the first, each ^ secret               position: its halves, folded; the rest: its middle
//! ```
//!
//! A miss of the cache costs as much as 500 instructions, and XXH3 takes 58 of those that overlap it; this takes 25 (see `plain.rs`).
//!
//! The *position* is what extents, buckets and SCAN cursors are in the order of. The other half gives the tag that
//! a bucket's header keeps and the sixteen bits that an entry keeps beside its reference, so that a stranger's node is hardly ever
//! looked at. The secret is drawn with the segment and never leaves it: a client that does not know it cannot choose keys that collide. Each length has
//! a secret of its own, or keys of different length whose words overlap alike would be related.

use polder_base::bytes::short_word;
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

/// The longest keys that are hashed by folded multiplication.
pub const SHORT_MAX: usize = 64;
/// Where in the secret the parts begin that are not a length's own.
const PARTS: usize = 96;
const _: () = assert!(SHORT_MAX + 8 <= PARTS && PARTS + 6 * 8 <= 192);

/// The hash of `key` under `secret`.
#[inline(always)]
pub fn hash(key: &[u8], secret: &[u8; 192]) -> Hash {
    let (position, low) = if key.len() <= SHORT_MAX { short(key, secret) } else { long(key, secret) };
    Hash { position, tag: ((low >> 24) as u8).max(FIRST_TAG), extra: low as u16 }
}

#[inline(never)]
fn long(key: &[u8], secret: &[u8; 192]) -> (u64, u64) {
    let hash = xxh3_128_with_secret(key, secret);
    ((hash >> 64) as u64, hash as u64)
}

#[inline(always)]
fn short(key: &[u8], secret: &[u8; 192]) -> (u64, u64) {
    let part = |number: usize| word_at(secret, PARTS + number * 8);
    let (one, mut other) = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) if key.len() <= 16 => {
            (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
        }
        (Some(_), Some(last)) => {
            let mut folded = 0;
            for sixteen in key[..key.len() - 1].as_chunks::<16>().0 {
                folded = fold(product(word_at(sixteen, 0) ^ part(0), word_at(sixteen, 8) ^ part(1) ^ folded));
            }
            (word_at(key, key.len() - 16), u64::from_le_bytes(*last) ^ folded)
        }
        _ => {
            let word = short_word(key);
            (word, word.rotate_left(32))
        }
    };
    other ^= word_at(secret, key.len());
    let first = product(one ^ part(2), other ^ part(3));
    let second = product(first as u64 ^ part(4), (first >> 64) as u64 ^ part(5));
    // The middle of a product is its best part; the position has its upper bits alone from there where it matters.
    (fold(second), (second >> 64) as u64)
}

#[inline(always)]
fn product(one: u64, other: u64) -> u128 {
    one as u128 * other as u128
}

#[inline(always)]
fn fold(product: u128) -> u64 {
    product as u64 ^ (product >> 64) as u64
}

/// Eight bytes of some, from `at` on.
#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
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
        let same = (0..1000u32)
            .filter(|n| hash(&n.to_le_bytes(), &secret()).position == hash(&n.to_le_bytes(), &other).position)
            .count();
        assert_eq!(same, 0);
    }

    #[test]
    fn each_bit_of_a_key_of_any_length_flips_each_bit_of_its_hash_half_of_the_time() {
        const KEYS: u32 = 400;
        let secret = secret();
        let mut random = 88_172_645_463_325_252u64;
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let halves = |key: &[u8]| short(key, &secret);
        for length in (3..=24).chain([31, 32, 33, 40, 48, 49, 63, 64]) {
            for bit in 0..length * 8 {
                let (mut flips, mut low_flips) = ([0u32; 64], [0u32; 64]);
                for _ in 0..KEYS {
                    // Digits, as most keys have them, where there are enough of them to make many keys.
                    let digit = |word: u64| if length < 6 { word as u8 } else { b'0' + (word % 10) as u8 };
                    let mut key: Vec<u8> = (0..length).map(|_| digit(draw() >> 20)).collect();
                    let (position, low) = halves(&key);
                    key[bit / 8] ^= 1 << (bit % 8);
                    let (other, other_low) = halves(&key);
                    for at in 0..64 {
                        flips[at] += ((position ^ other) >> at & 1) as u32;
                        low_flips[at] += ((low ^ other_low) >> at & 1) as u32;
                    }
                }
                // Six standard deviations; the position's own, and those bits of the other half that are used.
                let fair = |count: &u32| (140..=260).contains(count);
                assert!(flips.iter().all(fair), "length {length}, bit {bit}: {flips:?}");
                assert!(low_flips[..32].iter().all(fair), "length {length}, bit {bit}: {low_flips:?}");
            }
        }
    }

    #[test]
    fn named_keys_share_no_hash_and_tags_do_not_follow_positions() {
        let secret = secret();
        let mut seen = std::collections::HashSet::new();
        let mut tags = vec![0u32; 64 * 64];
        let names: [fn(u32) -> String; 5] = [
            |number| number.to_string(),
            |number| format!("key:{number:012}"),
            |number| format!("session:{number:x}:user-data"),
            |number| format!("{number:08}-cart-of-a-customer-with-quite-a-long-name"),
            |number| "x".repeat(number as usize % 64) + &number.to_string(),
        ];
        for name in names {
            tags.fill(0);
            for number in 0..64 * 64 * 25 {
                let hash = hash(name(number).as_bytes(), &secret);
                if seen.insert((hash.position, name(number))) {
                    tags[((hash.position >> 58) * 64 + hash.tag as u64 / 4) as usize] += 1;
                }
            }
            let worst = tags.iter().max().zip(tags.iter().min());
            assert!(worst.is_some_and(|(most, least)| *most < 75 && *least > 3), "{worst:?}");
        }
        let positions: std::collections::HashSet<u64> = seen.iter().map(|(position, _)| *position).collect();
        let keys: std::collections::HashSet<&String> = seen.iter().map(|(_, name)| name).collect();
        assert_eq!(positions.len(), keys.len(), "64 bits do not meet among half a million");
    }

    #[test]
    fn bytes_that_are_zero_or_repeated_tell_lengths_apart() {
        let secret = secret();
        for byte in [0u8, b'a', 0xff] {
            let hashes: std::collections::HashSet<(u64, u64)> =
                (0..=SHORT_MAX).map(|len| short(&vec![byte; len], &secret)).collect();
            assert_eq!(hashes.len(), SHORT_MAX + 1);
        }
    }
}
