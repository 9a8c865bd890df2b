//! Growth over stubs whose granules are cut: with 12 bits of a position they are cut all the time.

mod common;

use common::{Draw, Place, tier};
use polder_table::{Replaces, shorten_positions};

fn numbered(number: u64) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn value(number: u64, round: u8) -> Vec<u8> {
    let mut value = vec![round; 60 + (number % 50) as usize];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

#[test]
fn no_key_is_lost_where_extents_grow_shrink_and_split_over_cut_granules() {
    shorten_positions(12);
    for seed in 1..=3 {
        let place = Place::with_known_secret();
        let (mut draw, mut rounds) = (Draw(seed * 0x9e37_79b9), vec![0u8; 12_000]);
        let (mut spilled, mut stayed) = (0, 0);
        for number in 0..12_000u64 {
            place.set(0, &numbered(number), &value(number, 1), None);
            rounds[number as usize] = 1;
            for _ in 0..2 {
                let other = draw.below(number + 1);
                if tier::spill(&place.table, 0, &numbered(other)) { spilled += 1 } else { stayed += 1 }
            }
            if draw.below(20) == 0 {
                let other = draw.below(number + 1);
                rounds[other as usize] += 1;
                place.set(0, &numbered(other), &value(other, rounds[other as usize]), None);
            }
        }
        assert!(spilled > 1_000 && stayed > 100, "{spilled} were spilled, {stayed} stayed");
        let report = place.table.verify().expect("a seat");
        assert!(report.is_clean(), "{report}");
        // Shrinking leaves what it would cut.
        for number in (0..12_000u64).filter(|number| !number.is_multiple_of(4)) {
            assert!(place.run(|txn| txn.remove(0, &numbered(number), Replaces::Whole)), "{number}");
        }
        (0..200).for_each(|_| _ = place.table.run_maintenance(20_000));
        for number in 0..12_000u64 {
            let expected = number.is_multiple_of(4).then(|| value(number, rounds[number as usize]));
            assert_eq!(place.get(0, &numbered(number)), expected, "{number}");
        }
    }
}
