//! Every write path of the table: what is there before, and the operation in which the process dies.

use std::panic::RefUnwindSafe;

use polder_shm::layout::header;
use polder_table::{CommitView, Counter, Limits, Mode, New, Policy, Replaces, Snapshot, Stop, Table, Txn};
use polder_values::string::{self, Draft};
use polder_values::{Kind, Value, hash};

use crate::common::{Place, run, run_alone, try_run_as};

mod fast_paths;
pub mod logged;
mod tiered;

/// What a death may leave.
#[derive(Clone, Copy, PartialEq)]
pub enum Whole {
    /// One transaction: everything old or everything new.
    All,
    /// Many transactions: each key old or new.
    Each,
    /// Many transactions that draw what they take away: each key old or gone.
    Gone,
}

/// One write path.
pub struct Case {
    pub name: &'static str,
    before: Box<dyn Fn(&Place) + RefUnwindSafe>,
    pub operation: Box<dyn Fn(&Table) + RefUnwindSafe>,
    pub whole: Whole,
    /// The operation includes taking a seat.
    pub attaches: bool,
    /// How long the letters are that the operation sends to the survivor together with [`TOLD`].
    pub letters: &'static [usize],
    /// The change log is on.
    pub is_logged: bool,
    /// Bytes of nodes that the segment may have.
    ceiling: u64,
}

/// In the year 2100.
const LATER_MS: u64 = 4_102_444_800_000;

/// The key that an operation writes in the transaction that sends letters.
pub const TOLD: &[u8] = b"told";

impl Case {
    /// A segment as it is before the operation. Its hash is always the same, so that each run takes the same steps.
    pub fn prepare(&self) -> Place {
        let place = Place::with_ceiling(self.ceiling);
        for word in 0..header::SECRET_BYTES as u64 / 8 {
            place.table.segment().store(
                header::SECRET + word * 8,
                0x9e37_79b9_7f4a_7c15u64.wrapping_mul(word + 3).rotate_left(29),
            );
        }
        (self.before)(&place);
        place
    }
}

fn case(
    name: &'static str,
    before: impl Fn(&Place) + RefUnwindSafe + 'static,
    operation: impl Fn(&Table) + RefUnwindSafe + 'static,
) -> Case {
    Case {
        name,
        before: Box::new(before),
        operation: Box::new(operation),
        whole: Whole::All,
        attaches: false,
        letters: &[],
        is_logged: false,
        ceiling: 1 << 30,
    }
}

fn many(
    name: &'static str,
    before: impl Fn(&Place) + RefUnwindSafe + 'static,
    operation: impl Fn(&Table) + RefUnwindSafe + 'static,
) -> Case {
    Case { whole: Whole::Each, ..case(name, before, operation) }
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = entries();
    cases.extend(records());
    cases.extend(trees());
    cases.extend(caches());
    cases.extend(alone());
    cases.extend(fast_paths::cases());
    cases.extend(growth());
    cases.extend(databases());
    cases.extend(maintenance());
    cases.extend(letters());
    cases.extend(snapshots());
    cases.extend(tiered::cases());
    cases.extend(logged::cases());
    cases
}

/// Who dies has a snapshot, and is the one who saves for it.
fn snapshots() -> Vec<Case> {
    let furnish = |place: &Place| {
        bystanders(place);
        (0..400).for_each(|number| place.set(0, &numbered(number), &[5; 30], None));
        place.set_string(0, b"tree", &[1; 50_000]);
        (0..9).for_each(|number| place.set(1, &numbered(number), &vec![6; number as usize * 30], None));
    };
    let walk = |snapshot: &Snapshot<'_>| while snapshot.advance().expect("whole").is_some() {};
    vec![
        case("snapshot", furnish, move |table| {
            walk(&table.snapshot(&mut || true).expect("no other snapshot"))
        }),
        // More than a block of records.
        Case {
            whole: Whole::Each,
            ..case("save-for-a-snapshot", furnish, move |table| {
                let snapshot = table.snapshot(&mut || true).expect("no other snapshot");
                (0..300).for_each(|number| set(table, 0, &numbered(number), b"new"));
                run(table, |txn| txn.remove(0, b"tree", Replaces::Whole));
                run(table, |txn| txn.flush(Some(1)));
                walk(&snapshot);
                drop(snapshot);
                do_maintenance(table, 2);
            })
        },
        // Of what is retired the snapshot holds every sixth, which moves to the front of the list.
        many(
            "reclaim-beside-a-snapshot",
            |place| (0..60).for_each(|number| place.set(0, &numbered(number), &[5; 100], None)),
            |table| {
                let snapshot = table.snapshot(&mut || true).expect("no other snapshot");
                (0..360).for_each(|number| set(table, 0, &numbered(number % 60), &[6; 120]));
                drop(snapshot);
                (0..200).for_each(|number| set(table, 0, &numbered(number % 60), &[6; 120]));
            },
        ),
        many(
            "reclaim-trees-beside-a-snapshot",
            |place| (0..6).for_each(|number| place.set_string(0, &numbered(number), &vec![5; 400_000])),
            |table| {
                let snapshot = table.snapshot(&mut || true).expect("no other snapshot");
                (0..12).for_each(|number| set(table, 0, &numbered(number % 6), &vec![6; 900_000]));
                drop(snapshot);
                do_maintenance(table, 2);
            },
        ),
        case("save-many-at-once", furnish, |table| {
            let _snapshot = table.snapshot(&mut || true).expect("no other snapshot");
            run(table, |txn| {
                (0..20).try_for_each(|number| {
                    txn.write(
                        0,
                        &numbered(number * 31),
                        &New::of(Kind::String, Value::Packed(&[8; 90])),
                        Replaces::Whole,
                    )
                })
            });
        }),
    ]
}

/// Sends letters of these lengths to seat 0 with a transaction that writes a key.
fn tell(table: &Table, lengths: &[usize]) {
    run(table, |txn| {
        let life = txn.table().segment().inbox_life(0);
        txn.write(0, TOLD, &New::of(Kind::String, Value::Packed(b"yes")), Replaces::Whole)?;
        lengths
            .iter()
            .enumerate()
            .for_each(|(number, length)| txn.post(0, life, &[&[number as u8], &vec![7; *length]]));
        Ok(())
    });
}

/// Letters to a survivor, and the inbox of who dies.
fn letters() -> Vec<Case> {
    let open = |place: &Place| {
        bystanders(place);
        place.table.seat().expect("a seat").open_inbox(1 << 20).expect("room");
    };
    const SHORT: &[usize] = &[0, 5, 100];
    const LONG: &[usize] = &[10, 40_000, 20_000, 3];
    vec![
        Case { letters: SHORT, ..case("tell", open, |table| tell(table, SHORT)) },
        Case { letters: LONG, ..case("tell-at-length", open, |table| tell(table, LONG)) },
        case("inbox-of-the-dead", bystanders, |table| {
            let seat = table.seat().expect("a seat");
            seat.open_inbox(1 << 20).expect("room");
            for length in [5, 40_000] {
                let txn = table.begin(Mode::Read).expect("a seat");
                txn.post(seat.index(), seat.life(), &[&vec![1; length]]);
                txn.commit().expect("no other thread writes");
            }
            let mut letter = Vec::new();
            while seat.receive(&mut letter).expect("whole") {}
            seat.close_inbox();
        }),
    ]
}

fn set(table: &Table, db: u16, key: &[u8], value: &[u8]) {
    run(table, |txn| txn.write(db, key, &New::of(Kind::String, string::make(txn, value)?), Replaces::Whole));
}

fn set_expiring(table: &Table, db: u16, key: &[u8], value: &[u8], expiry_ms: u64) {
    run(table, |txn| {
        let new = New { expiry_ms: Some(expiry_ms), ..New::of(Kind::String, string::make(txn, value)?) };
        txn.write(db, key, &new, Replaces::Whole)
    });
}

/// Makes a key a hash of numbered fields that expire.
fn set_fields(table: &Table, db: u16, key: &[u8], fields: impl Iterator<Item = (u32, u64)>) {
    let fields: Vec<_> = fields.collect();
    run(table, |txn| {
        let mut draft = hash::Draft::empty(hash::Thresholds::NONE);
        for (field, expiry_ms) in &fields {
            let name = field.to_le_bytes();
            let spot = draft.find(txn, &name, || 0)?;
            draft.put(txn, &spot, &name, b"value", hash::Expiry::At(*expiry_ms))?;
        }
        let (value, inner_expiry_ms) = draft.finish(txn)?;
        txn.write(db, key, &New { inner_expiry_ms, ..New::of(Kind::Hash, value) }, Replaces::Whole)
    });
}

fn remove(table: &Table, db: u16, key: &[u8]) {
    run(table, |txn| txn.remove(db, key, Replaces::Whole));
}

/// Changes a string as APPEND and SETRANGE do.
fn edit(txn: &Txn<'_>, db: u16, key: &[u8], offset: u64, bytes: &[u8]) -> Result<(), Stop> {
    let Some(found) = txn.find(db, key)? else { return Ok(()) };
    let mut draft = Draft::of(&found.value);
    draft.write(txn, offset, bytes)?;
    txn.write(db, key, &New { value: draft.value(), ..New::from(found) }, Replaces::Edited)
}

/// Writes many keys in one transaction.
fn set_all(table: &Table, keys: impl Iterator<Item = (u16, Vec<u8>, Vec<u8>)>) {
    let keys: Vec<_> = keys.collect();
    let declared: Vec<(u16, &[u8])> = keys.iter().map(|(db, key, _)| (*db, &key[..])).collect();
    run(table, |txn| {
        txn.declare(&declared)?;
        keys.iter().try_for_each(|(db, key, value)| {
            txn.write(*db, key, &New::of(Kind::String, Value::Packed(value)), Replaces::Whole)
        })
    });
}

/// Rounds of maintenance.
pub fn do_maintenance(table: &Table, rounds: u32) {
    for _ in 0..rounds {
        table.run_maintenance(100_000);
    }
}

/// Compaction of a memory that is [`scatter`]ed.
fn move_some(table: &Table) {
    do_maintenance(table, 1);
    assert!(table.counter(Counter::Moved) > 100, "nothing has moved, so this shows nothing");
}

fn numbered(number: u32) -> Vec<u8> {
    format!("key:{number:06}").into_bytes()
}

/// Some keys beside those that an operation is about.
fn bystanders(place: &Place) {
    (0..20).for_each(|number| place.set(0, &numbered(number), &vec![1; number as usize * 7], None));
}

/// Leaves no room for a block of a journal or a retired list; small nodes of every size are still to be had.
fn fill_up(place: &Place) {
    make_room_for_later(place);
    (0..900).for_each(|number| place.set(0, &numbered(number), &[1; 100], None));
    let try_to_set = |key: &[u8]| {
        let new = New::of(Kind::String, Value::Packed(&[1; 15_000]));
        try_run_as(&place.table, Mode::Write, |txn| txn.write(0, key, &new, Replaces::Whole))
    };
    while try_to_set(&place.keys(0).to_le_bytes()).is_ok() {}
}

/// What the survivor is going to write, so that it finds room.
fn make_room_for_later(place: &Place) {
    (0..40u32).for_each(|number| {
        place.set(0, format!("later:{number}").as_bytes(), &vec![3; number as usize * 9], None)
    });
}

/// Fills the memory with records and large values, and leaves one in five: in every slab there is something, and in none much.
fn scatter(place: &Place) {
    make_room_for_later(place);
    let try_to_set = |number: u32| {
        let value = vec![number as u8; if number.is_multiple_of(50) { 20_000 } else { 1_000 }];
        try_run_as(&place.table, Mode::Write, |txn| {
            let value = string::make(txn, &value)?;
            txn.write(0, &numbered(number), &New::of(Kind::String, value), Replaces::Whole)
        })
    };
    let count = (0..).take_while(|number| try_to_set(*number).is_ok()).count() as u32;
    (0..count)
        .filter(|number| number % 5 != 0)
        .for_each(|number| assert!(place.remove(0, &numbered(number))));
    while place.table.reclaim() {}
}

/// Entries of four units each: a bucket is soon full.
fn wide(number: u32) -> (Vec<u8>, Vec<u8>) {
    (numbered(number), vec![number as u8; 41])
}

fn fill(table: &Table, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let (key, value) = wide(number);
        set(table, 0, &key, &value);
    }
}

/// The first number whose entry, added to all before it, makes `happens` true.
fn first_that(happens: impl Fn(&Table, u32) -> bool) -> u32 {
    let place = case("", |_| {}, |_| {}).prepare();
    for number in 0.. {
        fill(&place.table, number..number + 1);
        if happens(&place.table, number) {
            return number;
        }
    }
    unreachable!("some key does it")
}

fn displaced(to: &'static str) -> u32 {
    displaced_in(to, 1)
}

/// The same in an extent of at least this many pieces.
fn displaced_in(to: &'static str, pieces: u64) -> u32 {
    first_that(move |table, number| {
        let shown = table.inspect(0, &numbered(number)).expect("readable");
        shown.is_some_and(|shown| shown.displacement == to && shown.pieces >= pieces)
    })
}

/// The key that makes the first extent have this many pieces, or (0) split.
fn grown_to(pieces: u64) -> u32 {
    first_that(move |table, number| {
        let shown = table.inspect(0, &numbered(number)).expect("readable").expect("there");
        if pieces == 0 { shown.depth > 0 } else { shown.pieces == pieces }
    })
}

/// Writes a tree, a record and a record of a long key four times in one transaction.
fn replace_what_it_made(table: &Table) {
    run(table, |txn| {
        for (round, key) in
            (0..4u8).flat_map(|round| [(round, &b"tree"[..]), (round, b"record"), (round, &[7; 4_000])])
        {
            let value = vec![round; if key == b"tree" { 40_000 } else { 300 }];
            txn.write(0, key, &New::of(Kind::String, string::make(txn, &value)?), Replaces::Whole)?;
            txn.end_call()?;
        }
        Ok(())
    });
}

fn entries() -> Vec<Case> {
    let (next, stash) = (displaced("next bucket"), displaced("stash"));
    vec![
        case("insert-inline", bystanders, |table| set(table, 0, b"new", b"1")),
        case("overwrite-inline", bystanders, |table| set(table, 0, &numbered(1), b"seven 7")),
        case("overwrite-inline-longer", bystanders, |table| set(table, 0, &numbered(0), &[9; 30])),
        case("delete-inline", bystanders, |table| remove(table, 0, &numbered(2))),
        case(
            "insert-in-next-bucket",
            move |place| fill(&place.table, 0..next),
            move |table| fill(table, next..next + 1),
        ),
        case(
            "insert-in-stash",
            move |place| fill(&place.table, 0..stash),
            move |table| fill(table, stash..stash + 1),
        ),
        case(
            "delete-from-stash",
            move |place| fill(&place.table, 0..stash + 1),
            move |table| remove(table, 0, &numbered(stash)),
        ),
        case(
            "grow-in-stash",
            move |place| fill(&place.table, 0..stash + 1),
            move |table| set(table, 0, &numbered(stash), &[1; 200]),
        ),
        case("multi-set", bystanders, |table| {
            set_all(table, (10..40).map(|number| (0, numbered(number), vec![5; number as usize * 4])));
        }),
        case("multi-set-of-databases", bystanders, |table| {
            set_all(
                table,
                (0..9).map(|number| (number as u16 % 3, numbered(number), vec![5; number as usize * 30])),
            );
        }),
        case("chained-journal", bystanders, |table| {
            set_all(table, (0..220).map(|number| (0, numbered(number), vec![5; 80])))
        }),
        case("replace-what-it-made", bystanders, replace_what_it_made),
        case("watch-an-absent-key", bystanders, |table| run(table, |txn| txn.watch(0, b"absent").map(drop))),
        case(
            "set-a-watched-key",
            |place| place.run(|txn| txn.watch(0, b"absent").map(drop)),
            |table| set(table, 0, b"absent", b"1"),
        ),
        Case { attaches: true, ..case("take-a-seat", bystanders, |table| set(table, 0, b"new", &[1; 300])) },
        case("leave-a-seat", bystanders, |table| {
            std::thread::scope(|scope| scope.spawn(|| set(table, 0, b"new", &[1; 300])).join())
                .expect("done");
        }),
    ]
}

fn records() -> Vec<Case> {
    vec![
        case("insert-record", bystanders, |table| set(table, 0, b"new", &[2; 300])),
        case("overwrite-record", bystanders, |table| set(table, 0, &numbered(19), &[2; 400])),
        case("delete-record", bystanders, |table| remove(table, 0, &numbered(19))),
        case("record-to-inline", bystanders, |table| set(table, 0, &numbered(19), b"1")),
    ]
}

/// Values that are trees, and keys that are.
fn trees() -> Vec<Case> {
    vec![
        case("insert-tree", bystanders, |table| set(table, 0, b"new", &[2; 100_000])),
        case(
            "overwrite-tree",
            |place| place.set_string(0, b"t", &[1; 90_000]),
            |table| set(table, 0, b"t", &[2; 70_000]),
        ),
        case("delete-tree", |place| place.set_string(0, b"t", &[1; 90_000]), |table| remove(table, 0, b"t")),
        case(
            "append-to-tree",
            |place| place.set_string(0, b"t", &[1; 90_000]),
            |table| run(table, |txn| edit(txn, 0, b"t", 90_000, &[2; 40_000])),
        ),
        case(
            "write-into-tree",
            |place| place.set_string(0, b"t", &[1; 90_000]),
            |table| run(table, |txn| edit(txn, 0, b"t", 20_000, &[2; 20_000])),
        ),
        case("long-key", bystanders, |table| set(table, 0, &[b'k'; 40_000], &[2; 100])),
        case(
            "edit-under-long-key",
            |place| place.set_string(0, &[b'k'; 9_000], &[1; 40_000]),
            |table| {
                run(table, |txn| edit(txn, 0, &[b'k'; 9_000], 100, b"changed"));
            },
        ),
        case(
            "rename-tree",
            |place| place.set_string(0, b"t", &[1; 90_000]),
            |table| {
                run(table, |txn| {
                    let Some(found) = txn.find(0, b"t")? else { return Ok(()) };
                    txn.remove(0, b"t", Replaces::Edited)?;
                    txn.write(0, b"u", &New::from(found), Replaces::Whole)
                });
            },
        ),
        // More chunks than the journal's first block has items: its next block comes from the cache that the chunks come from.
        case("tree-of-many-chunks", bystanders, |table| set(table, 0, b"new", &vec![2; 9 << 20])),
        Case {
            ceiling: 4 << 20,
            ..case("delete-many-when-full", fill_up, |table| {
                run(table, |txn| {
                    (0..900)
                        .try_for_each(|number| txn.remove(0, &numbered(number), Replaces::Whole).map(drop))
                });
            })
        },
    ]
}

/// Nodes of many keys at once: through the caches of the seat, and back.
fn caches() -> Vec<Case> {
    vec![
        many("caches-are-filled", bystanders, |table| {
            (100..190u32)
                .for_each(|number| set(table, 0, &numbered(number), &vec![4; 300 + number as usize % 3]));
        }),
        many(
            "caches-are-emptied",
            |place| {
                (0..150u32).for_each(|number| {
                    place.set(0, &numbered(number), &vec![4; 300 + number as usize % 3], None)
                })
            },
            |table| {
                (0..150u32).for_each(|number| remove(table, 0, &numbered(number)));
                do_maintenance(table, 2);
            },
        ),
        many(
            "trees-retired-and-freed",
            |place| place.set_string(0, b"t", &[1; 1_000_000]),
            |table| {
                remove(table, 0, b"t");
                do_maintenance(table, 6);
            },
        ),
    ]
}

/// Transactions that know of one key only, in their short form, and where they leave it.
fn alone() -> Vec<Case> {
    let write = |table: &Table, key: &[u8], length: usize| {
        run_alone(table, 0, key, |txn| {
            let old = txn.find(0, key)?.is_some();
            txn.write(0, key, &New::of(Kind::String, string::make(txn, &vec![7; length])?), Replaces::Whole)
                .map(|()| old)
        });
    };
    let drop_key = |table: &Table, key: &[u8]| {
        run_alone(table, 0, key, |txn| txn.remove(0, key, Replaces::Whole));
    };
    let tree = |place: &Place| place.set_string(0, b"t", &[1; 90_000]);
    vec![
        case("alone-insert-inline", bystanders, move |table| write(table, b"new", 5)),
        case("alone-insert-record", bystanders, move |table| write(table, b"new", 300)),
        case("alone-insert-tree", bystanders, move |table| write(table, b"new", 100_000)),
        case("alone-overwrite-record", bystanders, move |table| write(table, &numbered(19), 400)),
        case("alone-record-to-inline", bystanders, move |table| write(table, &numbered(19), 40)),
        case("alone-overwrite-tree", tree, move |table| write(table, b"t", 70_000)),
        case("alone-delete-record", bystanders, move |table| drop_key(table, &numbered(19))),
        case("alone-delete-tree", tree, move |table| drop_key(table, b"t")),
        case("alone-write-into-tree", tree, |table| {
            run_alone(table, 0, b"t", |txn| edit(txn, 0, b"t", 20_000, &[2; 20_000]));
        }),
        case("alone-twice", bystanders, |table| {
            run_alone(table, 0, b"new", |txn| {
                txn.write(0, b"new", &New::of(Kind::String, Value::Packed(&[1; 200])), Replaces::Whole)?;
                txn.write(0, b"new", &New::of(Kind::String, Value::Packed(&[2; 300])), Replaces::Whole)
            });
        }),
        case("alone-with-another", bystanders, |table| {
            run_alone(table, 0, &numbered(19), |txn| {
                txn.remove(0, &numbered(19), Replaces::Whole)?;
                txn.write(0, b"new", &New::of(Kind::String, Value::Packed(&[2; 300])), Replaces::Whole)
            });
        }),
        case(
            "alone-delete-with-expiry",
            |place| place.set(0, b"expiring", &[4; 30], Some(LATER_MS)),
            move |table| drop_key(table, b"expiring"),
        ),
        case(
            "alone-over-expiry",
            |place| place.set(0, b"expiring", &[4; 300], Some(LATER_MS)),
            move |table| write(table, b"expiring", 400),
        ),
        case("alone-with-expiry", bystanders, |table| {
            run_alone(table, 0, &numbered(19), |txn| {
                let expiry_ms = Some(txn.now_ms() + 1_000_000);
                txn.write(
                    0,
                    &numbered(19),
                    &New { expiry_ms, ..New::of(Kind::String, Value::Packed(b"short")) },
                    Replaces::Whole,
                )
            });
        }),
    ]
}

fn growth() -> Vec<Case> {
    let (two, five, split) = (grown_to(2), grown_to(5), grown_to(0));
    vec![
        case(
            "grow-to-two-pieces",
            move |place| fill(&place.table, 0..two),
            move |table| fill(table, two..two + 1),
        ),
        case(
            "grow-by-one-piece",
            move |place| fill(&place.table, 0..five),
            move |table| fill(table, five..five + 1),
        ),
        case("split", move |place| fill(&place.table, 0..split), move |table| fill(table, split..split + 1)),
    ]
}

fn databases() -> Vec<Case> {
    let furnish = |place: &Place| {
        bystanders(place);
        place.set_string(0, b"tree", &[1; 50_000]);
        (0..9).for_each(|number| place.set(1, &numbered(number), &vec![6; number as usize * 30], None));
    };
    vec![
        case("first-key-of-a-database", bystanders, |table| set(table, 2, b"new", b"1")),
        case("database-of-many-extents", bystanders, |table| {
            table.make_database(2, 9).expect("room");
            set(table, 2, b"new", b"1");
        }),
        case("flush", furnish, |table| run(table, |txn| txn.flush(Some(0)))),
        case("flush-all", furnish, |table| run(table, |txn| txn.flush(None))),
        case("flush-and-write", furnish, |table| {
            run(table, |txn| {
                txn.write(0, b"before", &New::of(Kind::String, Value::Packed(&[1; 200])), Replaces::Whole)?;
                txn.flush(Some(0))?;
                (0..30).try_for_each(|number| {
                    txn.write(
                        0,
                        &numbered(number),
                        &New::of(Kind::String, Value::Packed(&[8; 90])),
                        Replaces::Whole,
                    )
                })
            });
        }),
        case("edit-and-flush", furnish, |table| {
            run(table, |txn| {
                edit(txn, 0, b"tree", 20_000, &[2; 20_000])?;
                txn.flush(Some(0))?;
                txn.write(0, b"tree", &New::of(Kind::String, Value::Packed(b"after")), Replaces::Whole)
            });
        }),
        case("swap", furnish, |table| run(table, |txn| txn.swap(0, 1))),
        case("swap-with-an-empty-one", furnish, |table| run(table, |txn| txn.swap(1, 2))),
        many(
            "sweep",
            move |place| {
                furnish(place);
                place.run(|txn| txn.flush(Some(0)));
            },
            |table| do_maintenance(table, 3),
        ),
    ]
}

/// Hashes of which some fields have expired, of one all of them.
fn expired_fields(place: &Place) {
    // Times that are the same in every run: they are part of the value.
    let (past, future) = (1_000, 1 << 45);
    for number in 0..6u32 {
        let expiry = |field: u32| if field.is_multiple_of(2) || number == 3 { past } else { future };
        set_fields(
            &place.table,
            0,
            &numbered(number),
            (0..number * 4 + 1).map(|field| (field, expiry(field))),
        );
    }
}

fn maintenance() -> Vec<Case> {
    let expired = |place: &Place| {
        let now = polder_base::time::now_ms();
        for number in 0..12u32 {
            set_expiring(&place.table, 0, &numbered(number), &vec![1; number as usize * 20], now - 1_000);
            set_expiring(&place.table, 1, &numbered(number), b"later", now + 1_000_000 + number as u64);
        }
    };
    vec![
        case("expiring-key", bystanders, |table| set_expiring(table, 0, b"new", b"1", u64::MAX >> 20)),
        many("collect-expired", expired, |table| do_maintenance(table, 1)),
        many("collect-fields", expired_fields, |table| do_maintenance(table, 1)),
        many("meet-expired", expired, |table| set(table, 0, &numbered(3), b"again")),
        case(
            "thin",
            |place| {
                (0..1_000).for_each(|number| place.set(0, &numbered(number), &[1; 30], None));
                (100..1_000).for_each(|number| assert!(place.remove(0, &numbered(number))));
            },
            |table| do_maintenance(table, 1),
        ),
        Case { ceiling: 4 << 20, ..case("move-out-of-slabs", scatter, move_some) },
        Case {
            whole: Whole::Gone,
            ..case(
                "evict",
                |place| {
                    (0..200).for_each(|number| place.set(0, &numbered(number), &[1; 900], None));
                    let memory_max = place.table.claimed() - 20_000;
                    place.table.set_limits(Limits {
                        memory_max,
                        policy: Policy::AllkeysRandom,
                        ..Limits::default()
                    });
                },
                |table| assert!(table.make_room(), "something can go"),
            )
        },
        Case {
            whole: Whole::Gone,
            ..case(
                "evict-short-strings",
                |place| {
                    // Most of the extent is free: to become smaller is all that gives memory back.
                    (0..1_000).for_each(|number| place.set(0, &numbered(number), &[1; 30], None));
                    (100..1_000).for_each(|number| assert!(place.remove(0, &numbered(number))));
                    let memory_max = place.table.claimed() - 40_000;
                    place.table.set_limits(Limits {
                        memory_max,
                        policy: Policy::AllkeysRandom,
                        ..Limits::default()
                    });
                },
                |table| assert!(table.make_room(), "something can go"),
            )
        },
    ]
}
