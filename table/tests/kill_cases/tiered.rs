//! Values that leave for a tier and come back: what is there before, and the operation in which the process dies.

use polder_table::Table;

use super::{Case, bystanders, case, many, numbered, set};
use crate::common::{Place, tier};

/// Every case. The copies are those of the process that survives: a store keeps what it has taken.
pub fn cases() -> Vec<Case> {
    vec![
        case("spill", with_copy, |table| assert!(spill(table, b"cold"))),
        case("fetch", spilled, |table| assert!(is_there(table, b"cold"))),
        case("spill-clean", fetched, |table| {
            let clean = table.victim_of(0, b"cold").expect("readable").expect("there");
            assert!(clean.parcel.is_none() && table.spill(&clean).expect("free"));
        }),
        many("set-over-stub", spilled, |table| set(table, 0, b"cold", &[9; 200])),
        many("grow-over-stubs", crowded, |table| {
            (900..980).for_each(|number| set(table, 0, &numbered(number), &[4; 100]));
        }),
    ]
}

fn with_copy(place: &Place) {
    bystanders(place);
    place.set(0, b"cold", &[7; 300], Some(super::LATER_MS));
    tier::victim(&place.table, 0, b"cold").expect("it has a record");
}

fn spilled(place: &Place) {
    with_copy(place);
    assert!(spill(&place.table, b"cold"));
}

fn fetched(place: &Place) {
    spilled(place);
    assert!(is_there(&place.table, b"cold"));
}

fn crowded(place: &Place) {
    for number in 0..900 {
        place.set(0, &numbered(number), &[3; 100], None);
        if !number.is_multiple_of(3) {
            assert!(tier::spill(&place.table, 0, &numbered(number)));
        }
    }
}

fn spill(table: &Table, key: &[u8]) -> bool {
    tier::spill(table, 0, key)
}

fn is_there(table: &Table, key: &[u8]) -> bool {
    crate::common::get(table, 0, key).is_some()
}
