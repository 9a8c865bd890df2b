//! Which thread copies the change log to the disk, and how others wait for it.
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Guard;
use polder_shm::{Segment, SegmentOptions};

fn segment(name: &str) -> (Guard, Arc<Segment>) {
    let guard = Guard::shm(name);
    let segment =
        Segment::create(&guard.0, &SegmentOptions { ceiling: 1 << 28, ..SegmentOptions::default() }).unwrap();
    (guard, segment)
}

#[test]
fn one_living_thread_has_the_words_and_a_dead_one_is_replaced() {
    let (_guard, segment) = segment("storage-claim");
    let own = segment.seat().unwrap();
    let words = segment.storage();
    std::thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let seat = segment.seat().unwrap();
            assert!(words.claim(seat.index(), seat.life()));
            assert!(words.claim(seat.index(), seat.life()), "it has them already");
            assert!(words.owner().is_some_and(|owner| owner.lives && owner.process == std::process::id()));
            assert!(!words.claim(seat.index() + 1, 1), "another lives");
        });
        theirs.join().unwrap();
    });
    assert!(words.owner().is_some_and(|owner| !owner.lives), "it has ended without giving the words back");
    assert!(words.claim(own.index(), own.life()));
    words.release(own.index(), own.life() + 1);
    assert!(words.owner().is_some(), "another life gives nothing back");
    words.release(own.index(), own.life());
    assert_eq!(words.owner(), None);
}

#[test]
fn the_disk_is_told_to_be_further_only_by_a_later_draw() {
    let (_guard, segment) = segment("storage-draw");
    let words = segment.storage();
    let seen = words.seen();
    assert_eq!(words.is_durable(seen), seen == 0);
    let drawn = words.draw();
    assert!(drawn >= seen, "what was seen before is covered");
    assert!(drawn < words.seen(), "what is seen afterwards is not");
    words.set_durable(drawn);
    assert!(words.is_durable(seen) && !words.is_durable(words.seen()));
    words.set_durable(0);
    assert!(words.is_durable(seen), "it does not go back");
}

#[test]
fn what_is_wanted_wakes_the_owner_and_the_disk_wakes_the_thread_that_waits() {
    let (_guard, segment) = segment("storage-wake");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            while !segment.storage().is_wanted() {
                segment.storage().sleep(Duration::from_secs(20));
            }
            let drawn = segment.storage().draw();
            segment.storage().set_durable(drawn);
        });
        let waiting = scope.spawn(|| {
            let seat = segment.seat().unwrap();
            segment.storage().draw();
            let seen = segment.storage().seen();
            std::thread::sleep(Duration::from_millis(20));
            segment.storage().want(seen);
            while !segment.storage().is_durable(seen) {
                segment.storage().await_more(seat.index());
                if !segment.storage().is_durable(seen) {
                    // It may have been woken between the look and the sleep.
                    seat.sleep(Some(Duration::from_millis(10)));
                }
            }
        });
        owner.join().unwrap();
        waiting.join().unwrap();
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "no wake-up was lost");
}
