//! Verify finds what was damaged on purpose, and never crashes or hangs over it; inspect shows where keys lie.

use crate::common::Place;
use polder_shm::layout::{ROOTS_AT, header, seat as at};

/// A memory with a bit of everything.
fn furnished() -> Place {
    let place = Place::new();
    for number in 0..3_000u32 {
        place.set(
            number as u16 % 3,
            format!("key:{number}").as_bytes(),
            &vec![7; number as usize % 300],
            None,
        );
    }
    place.set_string(0, b"tree", &vec![5; 100_000]);
    place.set_string(1, &[b'k'; 5_000], b"a long key");
    place.set(2, b"expires", b"1", Some(polder_base::time::now_ms() + 100_000));
    place
}

#[test]
fn a_whole_memory_is_found_whole() {
    let place = furnished();
    let report = place.table.verify().expect("a seat");
    assert!(report.is_clean() && report.exact, "{report}");
    assert_eq!((report.databases, report.keys, report.expires), (3, 3_003, 1));
    assert!(report.records > 1_000 && report.nodes > 1_000 && report.passes == 1, "{report}");
}

#[test]
fn a_changed_word_is_found() {
    let place = furnished();
    let segment = place.table.segment();
    let inline = place.table.inspect(0, b"key:0").expect("readable").expect("there");
    let stored = |db, key: &[u8]| place.table.inspect(db, key).expect("readable").expect("there");
    let seat = segment.seat_at(place.table.seat().expect("a seat").index());
    assert_eq!(stored(0, b"tree").layout, "tree");
    let damages: [(&str, u64, u64); 7] = [
        ("the map of database", ROOTS_AT + 1024, 0),
        ("has no shape", inline.extent + 8, 0),
        ("keys are there", seat + at::TALLIES, 77),
        ("keys with fields that expire are there", seat + at::TALLIES + 16, 77),
        ("bytes out of the slabs", seat + at::NODE_BYTES, 77),
        ("expires at", segment.load(ROOTS_AT + 1024 + 32) + 48, u64::MAX - 1),
        ("is locked by seat 900", segment.slab_lock_at(0), 901),
    ];
    for (told, word, value) in damages {
        let before = segment.load(word);
        segment.store(word, value);
        let report = place.table.verify().expect("a seat");
        segment.store(word, before);
        assert!(report.findings.iter().any(|finding| finding.contains(told)), "{told}: {report}");
    }
    let report = place.table.verify().expect("a seat");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn no_damage_makes_verify_crash_or_hang() {
    let place = furnished();
    let segment = place.table.segment();
    let nodes = segment.slab_at(0)..segment.slab_at(segment.observe(header::SLABS_READY));
    let own = place.table.seat().expect("a seat").index();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut found = 0;
    for _ in 0..300 {
        // Anywhere among the nodes, the bitmaps or the roots; the verifier's own seat stays its own.
        let (begin, end) = match draw() % 4 {
            0 => (ROOTS_AT + 1024, ROOTS_AT + 1024 + 64),
            1 => (segment.slab_lock_at(0), segment.slab_lock_at(16)),
            2 => (segment.slab_bits_at(0), segment.slab_bits_at(16)),
            _ => (nodes.start, nodes.end),
        };
        let word = begin + draw() % ((end - begin) / 8) * 8;
        let before = segment.load(word);
        let value = match draw() % 4 {
            0 => draw(),
            1 => before ^ 1 << (draw() % 64),
            2 => segment.load(nodes.start + draw() % ((nodes.end - nodes.start) / 8) * 8),
            _ => 0,
        };
        // A lock of our own seat would be ours to give back.
        if value & 0xfff == own + 1 {
            continue;
        }
        segment.store(word, value);
        let report = place.table.verify().expect("a seat");
        let _ = place.table.inspect(0, b"tree");
        found += !report.is_clean() as u32;
        segment.store(word, before);
    }
    assert!(found > 100, "{found} of 300 damages found: values themselves carry no sums, but structure does");
    let report = place.table.verify().expect("a seat");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn verify_finds_nothing_wrong_with_a_memory_at_work() {
    let place = furnished();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2u8 {
            let (place, over) = (&place, &over);
            scope.spawn(move || {
                let mut number = 0u32;
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    number += 1;
                    place.set(
                        0,
                        format!("{writer}:{}", number % 500).as_bytes(),
                        &vec![writer; number as usize % 200],
                        None,
                    );
                    if number.is_multiple_of(7) {
                        place.remove(0, format!("{writer}:{}", number % 300).as_bytes());
                    }
                }
            });
        }
        for _ in 0..5 {
            let report = place.table.verify().expect("a seat");
            over.store(!report.is_clean(), std::sync::atomic::Ordering::Relaxed);
            assert!(report.is_clean(), "{report}");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn inspect_shows_where_a_key_lies() {
    let place = furnished();
    let shown = place.table.inspect(0, b"tree").expect("readable").expect("there");
    assert_eq!((shown.kind, shown.layout, shown.size, shown.key_bytes), ("string", "tree", 100_000, 4));
    assert!(shown.nodes > 6 && shown.node_bytes > 100_000, "{shown}");
    let long = place.table.inspect(1, &[b'k'; 5_000]).expect("readable").expect("there");
    assert_eq!((long.layout, long.key_bytes, long.nodes), ("record", 5_000, 2));
    let short = place.table.inspect(2, b"expires").expect("readable").expect("there");
    assert_eq!((short.layout, short.nodes, short.units, short.expiry_ms.is_some()), ("inline", 0, 2, true));
    assert_eq!(place.table.inspect(2, b"absent").expect("readable"), None);
    assert_eq!(place.table.inspect(200, b"absent").expect("readable"), None);
    assert!(short.json().contains("\"layout\":\"inline\"") && short.to_string().contains("displacement "));
}
