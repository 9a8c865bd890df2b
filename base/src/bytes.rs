//! A few bytes as a word, and bytes that are compared while a program is compiled.

/// Up to eight bytes as a word, the first of them lowest.
#[inline(always)]
pub fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => short_word(bytes),
    }
}

/// Fewer than eight bytes as a word: two loads that overlap, instead of a loop.
#[inline(always)]
pub fn short_word(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(low), Some(high)) => {
            u32::from_le_bytes(*low) as u64 | (u32::from_le_bytes(*high) as u64) << ((bytes.len() - 4) * 8)
        }
        _ if bytes.is_empty() => 0,
        _ => {
            let (middle, last) = (bytes.len() / 2, bytes.len() - 1);
            bytes[0] as u64 | (bytes[middle] as u64) << (middle * 8) | (bytes[last] as u64) << (last * 8)
        }
    }
}

/// Whether both are the same bytes, for constants: `==` of slices is not for these.
pub const fn same(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != two[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_word_is_what_its_bytes_say() {
        for length in 0..=8 {
            let bytes: Vec<u8> = (1..=length).collect();
            let expected = bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            assert_eq!(super::word(&bytes), expected);
        }
    }
}
