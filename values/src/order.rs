//! The words by which trees are sorted: 64 bits that say most of an order, so that inner nodes need no element.

use std::cmp::Ordering;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The seed of [`member_word`]. Stored trees are sorted by it: it never changes.
const SEED: u64 = 0x706f_6c64_6572_2031;

/// The word of a member or field: a hash, so that a scan in this order meets members in an order of its own, and a cursor
/// made of the word's top bits stays good whatever comes and goes meanwhile.
pub fn member_word(member: &[u8]) -> u64 {
    xxh3_64_with_seed(member, SEED)
}

/// How two members stand in the order of their words, and of their bytes where these tie.
pub fn compare_members(one: &[u8], two: &[u8]) -> Ordering {
    member_word(one).cmp(&member_word(two)).then_with(|| one.cmp(two))
}

/// The word of a score: unsigned words sort as the doubles do. The two zeros are one score; there is no NaN.
pub fn score_word(score: f64) -> u64 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The score of a word that [`score_word`] made.
pub fn word_score(word: u64) -> f64 {
    f64::from_bits(if word >> 63 == 1 { word & !(1 << 63) } else { !word })
}

/// Whether two members are the same. Those of one collection are often as long as each other, and mostly differ in their last byte.
#[inline]
pub fn is_same(one: &[u8], two: &[u8]) -> bool {
    one.len() == two.len() && one.last() == two.last() && one == two
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_scores_sort_as_the_scores() {
        let scores = [
            f64::NEG_INFINITY,
            -1e300,
            -2.5,
            -f64::MIN_POSITIVE,
            0.0,
            5e-324,
            1.0,
            1.5,
            1e300,
            f64::INFINITY,
        ];
        for pair in scores.windows(2) {
            assert!(score_word(pair[0]) < score_word(pair[1]), "{pair:?}");
        }
        for score in scores {
            assert_eq!(word_score(score_word(score)), score);
        }
        assert_eq!(score_word(-0.0), score_word(0.0));
    }

    #[test]
    fn the_word_of_a_member_never_changes() {
        assert_eq!(member_word(b"member"), xxh3_64_with_seed(b"member", 0x706f_6c64_6572_2031));
        assert_eq!(compare_members(b"a", b"a"), Ordering::Equal);
        assert_eq!(compare_members(b"a", b"b"), compare_members(b"b", b"a").reverse());
    }
}
