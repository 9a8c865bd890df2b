//! WATCH: what counts as a change of a watched key, and what a watch costs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Draw, Place, run_as, untold};
use polder_table::{Mode, Watch};

fn watch(place: &Place, key: &[u8]) -> Watch {
    place.run(|txn| txn.watch(0, key))
}

/// Whether an EXEC that writes, and one that only reads, would find the key untouched.
fn is_unchanged(place: &Place, watch: &Watch) -> bool {
    let [writes, reads] =
        [Mode::Write, Mode::Read].map(|mode| run_as(&place.table, mode, |txn| txn.unchanged(watch)));
    assert_eq!(writes, reads, "an EXEC that writes and one that reads agree");
    writes
}

/// Keys whose home bucket is that of `key`.
fn neighbours(place: &Place, key: &[u8]) -> Vec<Vec<u8>> {
    let bucket_of = |key: &[u8]| {
        let text = format!("{:?}", place.table.location(0, key).expect("the database has keys"));
        text.split("bucket: ")
            .nth(1)
            .map(|rest| rest.split('}').next().unwrap_or(rest).to_string())
            .expect("a location has a bucket")
    };
    let home = bucket_of(key);
    (0..2_000u32)
        .map(|number| format!("n:{number}").into_bytes())
        .filter(|other| bucket_of(other) == home)
        .take(8)
        .collect()
}

#[test]
fn watching_absent_keys_takes_no_memory() {
    let place = Place::new();
    place.set(0, b"other", b"1", None);
    let before = place.table.usage().used;
    for number in 0..50_000u32 {
        watch(&place, format!("fresh:{number}").as_bytes());
    }
    watch(&place, &[b'k'; 300_000]);
    assert_eq!(place.table.usage().used, before);
    assert_eq!(place.table.shape(0).extents, 1);
}

#[test]
fn an_absent_key_that_stays_absent_is_unchanged() {
    let place = Place::new();
    let empty = watch(&place, b"absent");
    assert!(is_unchanged(&place, &empty));
    place.set(0, b"other", b"1", None);
    assert!(is_unchanged(&place, &empty), "one commit to another key, wherever it lies, proves nothing");
    let filled = watch(&place, b"absent");
    (0..100).for_each(|_| assert!(is_unchanged(&place, &filled)));
}

#[test]
fn a_key_that_comes_is_changed_and_so_is_one_that_comes_and_goes() {
    let place = Place::new();
    for key in [b"a", b"b", b"c"] {
        let watched = watch(&place, key);
        place.set(0, key, b"1", None);
        assert!(!is_unchanged(&place, &watched));
        place.remove(0, key);
        assert!(!is_unchanged(&place, &watched), "it was there in between");
        let expiring = watch(&place, key);
        place.set(0, key, b"1", Some(polder_base::time::now_ms() + 20));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!is_unchanged(&place, &expiring), "it has come and expired");
    }
}

#[test]
fn a_key_that_comes_and_goes_far_from_home_is_changed() {
    let place = Place::new();
    place.set(0, b"first", b"1", None);
    // Its home is full, so that it lies next door or in the stash.
    let near = neighbours(&place, b"absent");
    for number in 0..18u8 {
        let key = near[usize::from(number) % near.len()].repeat(1 + usize::from(number) / near.len());
        place.set(0, &key, &[number; 30], None);
    }
    for key in neighbours(&place, b"absent") {
        place.set(0, &key, &[7; 40], None);
    }
    let watched = watch(&place, b"absent");
    place.set(0, b"absent", &[1; 44], None);
    assert!(!is_unchanged(&place, &watched));
    place.remove(0, b"absent");
    assert!(!is_unchanged(&place, &watched));
}

#[test]
fn two_commits_to_a_neighbour_of_an_absent_key_may_count_as_a_change() {
    let place = Place::new();
    place.set(0, b"first", b"1", None);
    let near = neighbours(&place, b"absent");
    let watched = watch(&place, b"absent");
    place.set(0, &near[0], b"1", None);
    assert!(is_unchanged(&place, &watched));
    place.set(0, &near[1], b"1", None);
    assert!(!is_unchanged(&place, &watched), "one of them may have made it, the other taken it away");
    assert!(is_unchanged(&place, &watch(&place, b"absent")), "the next attempt succeeds");
}

#[test]
fn growth_under_a_watched_absent_key_counts_as_a_change() {
    let place = Place::new();
    let watched = watch(&place, b"absent");
    (0..5_000u32).for_each(|number| place.set(0, &number.to_le_bytes(), &[1; 20], None));
    assert!(!is_unchanged(&place, &watched));
    let watched = watch(&place, b"absent");
    assert!(is_unchanged(&place, &watched));
    (0..5_000u32).for_each(|number| assert!(place.remove(0, &number.to_le_bytes())));
    for _ in 0..20 {
        place.table.run_maintenance(100_000);
    }
    assert!(!is_unchanged(&place, &watched));
}

#[test]
fn flushing_and_swapping_leave_absent_keys_unchanged() {
    let place = Place::new();
    place.set(0, b"other", b"1", None);
    let absent = watch(&place, b"absent");
    let present = watch(&place, b"other");
    place.run(|txn| txn.flush(None));
    assert!(is_unchanged(&place, &absent) && !is_unchanged(&place, &present));
    let absent = watch(&place, b"absent");
    place.run(|txn| txn.swap(0, 1));
    assert!(is_unchanged(&place, &absent), "it is absent from the other database, too");
    place.set(1, b"absent", b"1", None);
    place.run(|txn| txn.swap(0, 1));
    assert!(!is_unchanged(&place, &absent));
}

/// Watches an absent key again and again for a time, as a client whose calls take `between`, while `writes` goes on beside it.
/// Returns the share of false aborts, and writes per second.
fn false_aborts(place: &Place, between: Duration, write: impl Fn(&mut Draw) + Sync) -> (f64, f64) {
    const LASTS: Duration = Duration::from_millis(400);
    let (ends, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut draw = Draw(7);
            while !ends.load(Ordering::Relaxed) {
                write(&mut draw);
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (began, mut tries, mut aborts) = (Instant::now(), 0u32, 0u32);
        while began.elapsed() < LASTS {
            let key = format!("absent:{tries}");
            let watched = watch(place, key.as_bytes());
            std::thread::sleep(between);
            tries += 1;
            aborts += u32::from(!run_as(&place.table, Mode::Write, |txn| txn.unchanged(&watched)));
        }
        ends.store(true, Ordering::Relaxed);
        (
            f64::from(aborts) / f64::from(tries),
            written.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64(),
        )
    })
}

#[test]
fn false_aborts_are_rare_where_there_are_many_keys() {
    for (keys, pause) in [100u64, 1_000, 10_000, 100_000].into_iter().flat_map(|keys| [(keys, 0), (keys, 20)])
    {
        let place = Place::new();
        let name = |number: u64| format!("key:{number:07}").into_bytes();
        (0..keys).for_each(|number| place.set(0, &name(number), &[1; 16], None));
        let (share, rate) = false_aborts(&place, Duration::from_micros(200), |draw| {
            let (begun, key) = (Instant::now(), name(draw.below(keys)));
            if let Some(location) = place.table.location(0, &key)
                && place
                    .table
                    .quick_edit(
                        &location,
                        &key,
                        (polder_base::time::now_ms(), 0),
                        |_| (Some(&[2; 16]), ()),
                        untold,
                    )
                    .is_none()
            {
                place.set(0, &key, &[2; 16], None);
            }
            while begun.elapsed() < Duration::from_micros(pause) {}
        });
        println!(
            "{keys} keys, {rate:.0} writes a second beside it: {:.3} % of EXECs abort falsely",
            share * 100.0
        );
        assert!(keys < 100_000 || pause == 0 || share < 0.1, "{share} of {keys} keys");
    }
}
