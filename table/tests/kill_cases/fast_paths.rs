//! Write paths that take no transaction: what is there before, and the operation in which the process dies.
use std::panic::RefUnwindSafe;

use polder_base::score::Score;
use polder_table::{Attributes, Effect, Form, Mutation, New, Old, Replaces, Table};
use polder_values::list::{self, Limit};
use polder_values::sorted_set::{self, Scored};
use polder_values::{Kind, Value};

use super::{Case, LATER_MS, bystanders, case, displaced, displaced_in, fill, many, numbered, run, wide};
use crate::common::{Place, untold};

/// Every case.
pub fn cases() -> Vec<Case> {
    [entries(), strings(), attributes(), short(), displaced_updates(), several(), several_displaced()]
        .into_iter()
        .flatten()
        .collect()
}

/// Tells of a key by its state, as [`super::logged`] reads it.
fn tell_whole(effect: &mut Effect<'_>, key: &[u8], value: &[u8], expiry_ms: Option<u64>) {
    effect.call("RESTORE", &[key, expiry_ms.unwrap_or(0).to_string().as_bytes(), value]);
}

/// Those that append to the change log by themselves, in one block of the outbox: see [`super::logged`]. Others leave that to a transaction.
pub fn that_tell() -> Vec<Case> {
    let all = [entries(), strings(), attributes(), displaced_updates(), several(), several_displaced()];
    let cases = all.into_iter().flatten().filter(|case| !case.name.contains("many"));
    let with_outbox = |case: Case| {
        let operation = case.operation;
        Case {
            // A transaction makes the outbox of its seat.
            operation: Box::new(move |table| {
                run(table, |txn| {
                    assert!(txn.tells());
                    Ok(())
                });
                operation(table);
            }),
            ..case
        }
    };
    cases.map(with_outbox).collect()
}

/// The fast path of SET, which these cases must be able to take.
fn set_quickly(table: &Table, db: u16, key: &[u8], value: &[u8]) {
    let location = table.location(db, key).expect("the database has keys");
    table
        .quick_edit(
            &location,
            key,
            (polder_base::time::now_ms(), 0),
            |_| (Some(value), ()),
            |(), effect| tell_whole(effect, key, value, None),
        )
        .expect("nothing is in the way");
}

/// The shortest fast path of SET, which these cases must be able to take.
fn set_plainly(table: &Table, db: u16, key: &[u8], value: &[u8]) {
    assert!(table.write_plain(db, table.hash(key), key, value), "nothing is in the way");
}

/// The shortest fast path of INCR, which these cases must be able to take.
fn edit_plainly(table: &Table, key: &[u8], value: &[u8]) {
    let location = table.location(0, key).expect("the database has keys");
    table
        .edit_plain(
            &location,
            key,
            (polder_base::time::now_ms(), 1),
            |_| Some((value, ())),
            |effect| effect.call("SET", &[key, value]),
        )
        .expect("nothing is in the way");
}

/// The fast path of [`fill`].
fn fill_quickly(table: &Table, number: u32) {
    let (key, value) = wide(number);
    set_quickly(table, 0, &key, &value);
}

/// One entry that lies in its bucket, in the next one, or in the stash.
fn entries() -> Vec<Case> {
    let (next, stash, far) = (displaced("next bucket"), displaced("stash"), displaced_in("stash", 4));
    let filled = |end: u32| move |place: &Place| fill(&place.table, 0..end);
    vec![
        case("insert-quickly", bystanders, |table| set_quickly(table, 0, b"new", &[0xff; 24])),
        case("overwrite-quickly", bystanders, |table| set_quickly(table, 0, &numbered(1), b"seven 7")),
        case("overwrite-plainly", bystanders, |table| set_plainly(table, 0, &numbered(1), b"seven 7")),
        case("overwrite-longer-plainly", bystanders, |table| {
            set_plainly(table, 0, &numbered(1), b"eleven byte")
        }),
        case("resize-quickly", bystanders, |table| set_quickly(table, 0, &numbered(1), &[7; 30])),
        case("next-door-quickly", filled(next), move |table| fill_quickly(table, next)),
        case("stash-quickly", filled(stash), move |table| fill_quickly(table, stash)),
        case("large-stash-quickly", filled(far), move |table| fill_quickly(table, far)),
        case("overwrite-next-door-quickly", filled(next + 1), move |table| {
            set_quickly(table, 0, &numbered(next), &[0xff; 41])
        }),
        case("overwrite-in-stash-quickly", filled(far + 1), move |table| {
            set_quickly(table, 0, &numbered(far), &[0xff; 41])
        }),
        case("overwrite-next-door-plainly", filled(next + 1), move |table| {
            set_plainly(table, 0, &numbered(next), &[0xff; 41])
        }),
        case("overwrite-in-stash-plainly", filled(far + 1), move |table| {
            set_plainly(table, 0, &numbered(far), &[0xff; 41])
        }),
        case("edit-plainly", bystanders, |table| edit_plainly(table, &numbered(1), b"eleven byte")),
        case("edit-in-stash-plainly", filled(far + 1), move |table| {
            edit_plainly(table, &numbered(far), &[0xff; 41])
        }),
        case("resize-in-stash-quickly", filled(far + 1), move |table| {
            set_quickly(table, 0, &numbered(far), b"short")
        }),
    ]
}

/// A change of a value that no log is told of, by the fast path, which these cases must be able to take.
fn change_quickly<'n>(
    table: &Table,
    key: &[u8],
    kind: Kind,
    change: impl for<'v> FnOnce(Option<Old<'v>>) -> Option<Mutation<'v, 'n>>,
) {
    let (location, now_ms) =
        (table.location(0, key).expect("the database has keys"), polder_base::time::now_ms());
    let done = table.update(&location, key, kind, now_ms, |old| Some((change(old)?, ())), untold);
    done.expect("nothing is in the way");
}

/// The fast path of a push to a list.
fn push_quickly(table: &Table, key: &[u8], element: &[u8]) {
    let element = [element];
    change_quickly(table, key, Kind::List, |old| {
        let (edit, _) = list::pushed(old.map(|old| old.value), &element, true, Limit::of(-2))?;
        Some(Mutation::Edited(edit))
    });
}

/// That of a pop.
fn pop_quickly(table: &Table, key: &[u8]) {
    change_quickly(table, key, Kind::List, |old| {
        let (_, rest) = list::popped(old?.value, false)?;
        Some(rest.map_or(Mutation::Gone, Mutation::Edited))
    });
}

/// The fast path of a SET whose string may take a record.
fn set_record_quickly(table: &Table, key: &[u8], length: usize) {
    let location = table.location(0, key).expect("the database has keys");
    table
        .quick_set(&location, key, &vec![7; length], polder_base::time::now_ms(), 1)
        .expect("nothing is in the way");
}

/// The fast path of a SET with an expiry, which these cases must be able to take.
fn set_until_quickly(table: &Table, key: &[u8], length: usize, expiry_ms: Option<u64>) {
    set_with_quickly(table, key, length, Attributes::expiring(expiry_ms));
}

/// The same with flags.
fn set_with_quickly(table: &Table, key: &[u8], length: usize, attributes: Attributes) {
    let (location, now_ms) =
        (table.location(0, key).expect("the database has keys"), polder_base::time::now_ms());
    table
        .quick_set_with(&location, key, &vec![7; length], attributes, (now_ms, 1))
        .expect("nothing is in the way");
}

/// The fast path of a change that keeps the rest of a string, which these cases must be able to take.
fn mutate_quickly(
    table: &Table,
    key: &[u8],
    mutation: impl for<'v> FnOnce(Old<'v>) -> Mutation<'v, 'static>,
) {
    let (location, now_ms) =
        (table.location(0, key).expect("the database has keys"), polder_base::time::now_ms());
    table
        .update(
            &location,
            key,
            None,
            now_ms,
            |old| {
                let old = old?;
                let mutation = mutation(old);
                let (value, expiry_ms) = match &mutation {
                    Mutation::Gone => (None, None),
                    Mutation::Expiring(expiry_ms) => (Some(old.value.to_vec()), *expiry_ms),
                    Mutation::Text { kept, added, .. } => (Some([*kept, *added].concat()), old.expiry_ms),
                    _ => return None,
                };
                Some((mutation, (value, expiry_ms)))
            },
            |(value, expiry_ms), effect| match value {
                None => effect.call("DEL", &[key]),
                Some(value) => tell_whole(effect, key, value, *expiry_ms),
            },
        )
        .expect("nothing is in the way");
}

fn expire_quickly(table: &Table, key: &[u8], expiry_ms: Option<u64>) {
    mutate_quickly(table, key, |_| Mutation::Expiring(expiry_ms));
}

fn append_quickly(table: &Table, key: &[u8], form: Form) {
    mutate_quickly(table, key, |old| Mutation::Text { kept: old.value, added: b" and more", form });
}

fn delete_quickly(table: &Table, key: &[u8]) {
    mutate_quickly(table, key, |_| Mutation::Gone);
}

/// The fast path of ZADD.
fn score_quickly(table: &Table, member: &[u8], score: f64) {
    let scored = Scored::of(&Score::of(score));
    let parts = scored.parts(member);
    change_quickly(table, b"zset", Kind::SortedSet, |old| {
        let place = sorted_set::Place::of(old.map(|old| old.value), member)?;
        Some(Mutation::Edited(place.put(score, &parts, |_| false)?))
    });
}

/// The fast path of MSET; returns whether it was taken.
fn set_several(table: &Table, pairs: &[(u32, usize)]) -> bool {
    let pairs: Vec<_> = pairs.iter().map(|(number, length)| (numbered(*number), vec![7; *length])).collect();
    let location = table.location(0, &pairs[0].0).expect("the database has keys");
    let words: Vec<&[u8]> = pairs.iter().flat_map(|(key, value)| [&key[..], value]).collect();
    table.quick_set_all(&location, &words, polder_base::time::now_ms())
}

/// Lists and sorted sets.
fn short() -> Vec<Case> {
    let listed = |elements: usize| {
        move |place: &Place| {
            bystanders(place);
            (0..elements).for_each(|_| push_quickly(&place.table, b"list", b"an element"));
        }
    };
    let scored = |place: &Place| {
        bystanders(place);
        (0..9).for_each(|number| {
            score_quickly(&place.table, format!("member {number}").as_bytes(), f64::from(number))
        });
    };
    vec![
        case("push-new-quickly", bystanders, |table| push_quickly(table, b"list", b"an element")),
        case("push-inline-quickly", listed(1), |table| push_quickly(table, b"list", b"another one")),
        case("push-into-record-quickly", listed(3), |table| push_quickly(table, b"list", b"another one")),
        case("push-onto-record-quickly", listed(9), |table| push_quickly(table, b"list", b"another one")),
        case("pop-last-quickly", listed(1), |table| pop_quickly(table, b"list")),
        case("pop-inline-quickly", listed(4), |table| pop_quickly(table, b"list")),
        case("pop-from-record-quickly", listed(9), |table| pop_quickly(table, b"list")),
        many(
            "push-to-many-quickly",
            |place| {
                place.set(0, b"other", b"1", None);
                (0..30).for_each(|number| {
                    (0..9).for_each(|_| push_quickly(&place.table, &numbered(number), b"an element"))
                });
            },
            |table| (0..30).for_each(|number| push_quickly(table, &numbered(number), b"another one")),
        ),
        case("score-new-quickly", bystanders, |table| score_quickly(table, b"member", 1.0)),
        case("score-moved-quickly", scored, |table| score_quickly(table, b"member 3", 2_000.0)),
    ]
}

/// Several strings at once.
fn several() -> Vec<Case> {
    // Another one of another bucket.
    let is_apart =
        |other: &u32| set_several(&case("", bystanders, |_| {}).prepare().table, &[(1, 30), (*other, 40)]);
    let apart = (2..6).find(is_apart).expect("one of them is");
    vec![
        case("several-quickly", bystanders, |table| {
            assert!(set_several(table, &[(1, 7), (200, 9), (2, 14), (201, 30)]))
        }),
        case("several-plainly", bystanders, |table| {
            assert!(set_several(table, &[(1, 7), (2, 14), (3, 22), (4, 30)]))
        }),
        case("several-resized-quickly", bystanders, move |table| {
            assert!(set_several(table, &[(1, 30), (apart, 40)]))
        }),
    ]
}

/// Strings that take a record.
fn strings() -> Vec<Case> {
    vec![
        case("set-new-record-quickly", bystanders, |table| set_record_quickly(table, b"new", 300)),
        case("set-record-quickly", bystanders, |table| set_record_quickly(table, &numbered(19), 400)),
        case("set-inline-to-record-quickly", bystanders, |table| {
            set_record_quickly(table, &numbered(1), 8_000)
        }),
        many(
            "set-many-records-quickly",
            |place| (0..30).for_each(|number| place.set_string(0, &numbered(number), &[3; 200])),
            |table| (0..30).for_each(|number| set_record_quickly(table, &numbered(number), 500)),
        ),
    ]
}

/// A key that has an expiry, beside others.
fn expiring(length: usize) -> impl Fn(&Place) + Copy + RefUnwindSafe + 'static {
    move |place: &Place| {
        bystanders(place);
        place.set(0, b"expiring", &vec![4; length], Some(LATER_MS));
    }
}

/// Updates that give a string an expiry and flags, or keep or take them.
fn attributes() -> Vec<Case> {
    let flagged = |expiry_ms: Option<u64>| {
        move |place: &Place| {
            bystanders(place);
            run(&place.table, |txn| {
                let new = New { expiry_ms, flags: 5, ..New::of(Kind::String, Value::Packed(&[4; 5])) };
                txn.write(0, b"flagged", &new, Replaces::Whole)
            });
        }
    };
    vec![
        case("set-new-with-expiry-quickly", bystanders, |table| {
            set_until_quickly(table, b"new", 5, Some(LATER_MS))
        }),
        case("set-new-record-with-expiry-quickly", bystanders, |table| {
            set_until_quickly(table, b"new", 300, Some(LATER_MS))
        }),
        case("set-expiry-quickly", bystanders, |table| {
            set_until_quickly(table, &numbered(1), 5, Some(LATER_MS))
        }),
        case("set-expiry-of-record-quickly", bystanders, |table| {
            set_until_quickly(table, &numbered(19), 400, Some(LATER_MS))
        }),
        case("set-over-expiry-quickly", expiring(5), |table| set_until_quickly(table, b"expiring", 9, None)),
        case("set-expiry-again-quickly", expiring(5), |table| {
            set_until_quickly(table, b"expiring", 5, Some(LATER_MS - 1))
        }),
        case("set-flags-quickly", expiring(5), |table| {
            set_with_quickly(table, b"expiring", 5, Attributes { expiry_ms: Some(LATER_MS), flags: 7 });
        }),
        case("set-flags-again-quickly", flagged(None), |table| {
            set_with_quickly(table, b"flagged", 5, Attributes { expiry_ms: None, flags: 7 });
        }),
        case("set-flags-and-expiry-again-quickly", flagged(Some(LATER_MS)), |table| {
            set_with_quickly(table, b"flagged", 5, Attributes { expiry_ms: Some(1 << 45), flags: u32::MAX });
        }),
        case("set-record-with-flags-quickly", flagged(Some(LATER_MS)), |table| {
            set_with_quickly(table, b"flagged", 300, Attributes { expiry_ms: Some(LATER_MS), flags: 7 });
        }),
        case("set-over-record-with-expiry-quickly", expiring(300), |table| {
            set_until_quickly(table, b"expiring", 9, None)
        }),
        case("expire-inline-quickly", bystanders, |table| {
            expire_quickly(table, &numbered(1), Some(LATER_MS))
        }),
        case("expire-record-quickly", bystanders, |table| {
            expire_quickly(table, &numbered(19), Some(LATER_MS))
        }),
        case("expire-again-quickly", expiring(300), |table| {
            expire_quickly(table, b"expiring", Some(LATER_MS - 1))
        }),
        case("persist-inline-quickly", expiring(5), |table| expire_quickly(table, b"expiring", None)),
        case("persist-record-quickly", expiring(300), |table| expire_quickly(table, b"expiring", None)),
        case("append-inline-quickly", expiring(5), |table| append_quickly(table, b"expiring", Form::Raw)),
        case("append-record-quickly", expiring(300), |table| append_quickly(table, b"expiring", Form::Raw)),
        case("inline-to-text-quickly", bystanders, |table| append_quickly(table, &numbered(1), Form::Text)),
        case("delete-inline-quickly", bystanders, |table| delete_quickly(table, &numbered(1))),
        case("delete-record-with-expiry-quickly", expiring(300), |table| delete_quickly(table, b"expiring")),
    ]
}

/// Updates of an entry that lies elsewhere than at home, or is going to.
fn displaced_updates() -> Vec<Case> {
    let (next, far) = (displaced("next bucket"), displaced_in("stash", 4));
    vec![
        case(
            "record-in-stash-quickly",
            move |place| fill(&place.table, 0..far + 1),
            move |table| set_record_quickly(table, &numbered(far), 300),
        ),
        case(
            "record-again-in-stash-quickly",
            move |place| {
                fill(&place.table, 0..far + 1);
                set_record_quickly(&place.table, &numbered(far), 300);
            },
            move |table| set_record_quickly(table, &numbered(far), 400),
        ),
        case(
            "expire-in-stash-quickly",
            move |place| fill(&place.table, 0..far + 1),
            move |table| set_until_quickly(table, &numbered(far), 5, Some(LATER_MS)),
        ),
        case(
            "set-next-door-quickly",
            move |place| fill(&place.table, 0..next),
            move |table| {
                set_until_quickly(table, &numbered(next), 41, None);
            },
        ),
        case(
            "delete-next-door-quickly",
            move |place| fill(&place.table, 0..next + 1),
            move |table| delete_quickly(table, &numbered(next)),
        ),
        case(
            "delete-in-stash-quickly",
            move |place| fill(&place.table, 0..far + 1),
            move |table| delete_quickly(table, &numbered(far)),
        ),
    ]
}

/// The fast path of MSET where an entry lies elsewhere than at home, or is going to.
fn several_displaced() -> Vec<Case> {
    let (next, stash) = (displaced("next bucket"), displaced_in("stash", 4));
    // Other keys whose buckets are not in the way.
    let apart = |until: u32, first: (u32, usize)| {
        let is_apart = |other: &u32| {
            set_several(
                &case("", move |place| fill(&place.table, 0..until), |_| {}).prepare().table,
                &[first, (*other, 41)],
            )
        };
        (0..until - 1).find(is_apart).expect("one of them is")
    };
    let (beside, behind) = (apart(next, (next, 41)), apart(stash, (stash, 41)));
    let (beside_next, beside_stash) = (apart(next + 1, (next, 5)), apart(stash + 1, (stash, 5)));
    let several = |name, end, pairs: [(u32, usize); 2]| {
        case(name, move |place| fill(&place.table, 0..end), move |table| assert!(set_several(table, &pairs)))
    };
    vec![
        several("several-next-door-quickly", next, [(next, 41), (beside, 41)]),
        several("several-stash-quickly", stash, [(behind, 41), (stash, 41)]),
        several("several-resized-next-door-quickly", next + 1, [(beside_next, 41), (next, 5)]),
        several("several-resized-in-stash-quickly", stash + 1, [(stash, 5), (beside_stash, 41)]),
    ]
}
