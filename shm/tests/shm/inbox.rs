//! Inboxes: letters of all lengths come whole, and a damaged inbox costs its letters, not its owner.

use std::sync::Arc;

use crate::common::*;
use polder_shm::directory;
use polder_shm::layout::seat as at;
use polder_shm::{Locked, Seat, Segment, SegmentOptions};

const LIMIT: u64 = 1 << 20;
/// Bytes of one block.
const BLOCK: u64 = 16 * 1024 - 16;

fn segment(guard: &Guard) -> Arc<Segment> {
    Segment::create(&guard.0, &SegmentOptions { ceiling: 1 << 28, ..SegmentOptions::default() }).unwrap()
}

/// Sends messages from the calling thread's seat to itself, in one transaction; returns whether there was an inbox.
fn send(seat: &Seat, letters: &[&[u8]]) -> bool {
    seat.pin();
    let to = seat.index();
    let Ok(Locked::Ours(_)) = seat.lock(seat.segment().inbox_lock(to), None) else { panic!("a lock") };
    let there = match seat.posting(to, seat.life(), seat.journal_len() - 1) {
        Some(mut posting) => {
            letters.iter().for_each(|letter| posting.append(&[letter]).unwrap());
            let olds = posting.end().unwrap();
            seat.commit(olds).unwrap();
            true
        }
        None => {
            seat.rollback();
            false
        }
    };
    seat.unpin();
    there
}

fn receive_all(seat: &Seat) -> Vec<Vec<u8>> {
    let (mut letters, mut letter) = (Vec::new(), Vec::new());
    while seat.receive(&mut letter).unwrap() {
        letters.push(letter.clone());
    }
    letters
}

#[test]
fn letters_of_all_lengths_come_whole_and_in_order() {
    let guard = Guard::shm("inbox");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    seat.open_inbox(LIMIT).unwrap();
    let mut sent = Vec::new();
    for length in (0..40).chain(BLOCK as usize - 40..BLOCK as usize + 9).chain([
        0,
        3 * BLOCK as usize - 8,
        0,
        300_000,
        1,
    ]) {
        let letter = vec![length as u8; length];
        assert!(send(&seat, &[&letter, b"x"]));
        sent.extend([letter, b"x".to_vec()]);
        if sent.len() > 6 {
            assert!(receive_all(&seat) == std::mem::take(&mut sent), "at {length}");
        }
    }
    assert!(receive_all(&seat) == sent);
    assert_eq!(seat.lost_mail(), 0);
    // What was read has gone: one block is left.
    assert_eq!(
        segment.load(segment.seat_at(seat.index()) + at::INBOX_FIRST),
        segment.load(segment.seat_at(seat.index()) + at::INBOX_LAST)
    );
}

#[test]
fn a_full_inbox_counts_what_it_loses() {
    let guard = Guard::shm("inbox-full");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    seat.open_inbox(1000).unwrap();
    assert!(send(&seat, &[&[1; 900], &[2; 900], b"short"]));
    assert!(!seat.prepare_sleep(), "there are messages");
    assert!(seat.note_lost());
    assert!(!seat.note_lost());
    assert_eq!(receive_all(&seat), [vec![1; 900], b"short".to_vec()]);
    assert_eq!(seat.lost_mail(), 1);
    // One that never fits does not stop others.
    assert!(send(&seat, &[&[3; 2000], b"again"]));
    assert_eq!(receive_all(&seat), [b"again"]);
    assert_eq!(seat.lost_mail(), 2);
}

#[test]
fn unread_messages_leave_an_eighth_of_the_segment_free() {
    let guard = Guard::shm("inbox-space");
    let ceiling = 128 * MIB;
    let segment =
        Segment::create(&guard.0, &SegmentOptions { ceiling, ..SegmentOptions::default() }).unwrap();
    let seat = segment.seat().unwrap();
    seat.open_inbox(ceiling).unwrap();
    let mut letters = 0;
    while seat.lost_mail() == 0 {
        assert!(send(&seat, &[&[1; 100_000]]));
        letters += 1;
    }
    assert!(letters > 10, "a few are let in whatever happens");
    let taken = segment.sum_over_seats(at::NODE_BYTES);
    assert!(taken < ceiling / 8 * 7 + 2 * MIB, "{taken}");
    assert_eq!(receive_all(&seat).len(), letters - 1);
    assert!(send(&seat, &[b"room again"]));
    assert_eq!(receive_all(&seat), [b"room again"]);
}

#[test]
fn a_damaged_inbox_loses_its_letters_and_goes_on() {
    let guard = Guard::shm("inbox-damage");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    seat.open_inbox(LIMIT).unwrap();
    let base = segment.seat_at(seat.index());
    let values = |word: u64| {
        let now = segment.load(word);
        let block = segment.load(base + at::INBOX_FIRST);
        let moved = [1, 8, 8u64.wrapping_neg(), 1 << 40].map(|by| now.wrapping_add(by));
        [moved, [0, 1, 8, block], [u64::MAX, u64::MAX - 7, u64::MAX / 2, block + 8]].concat()
    };
    for word in
        [at::INBOX_TAIL, at::INBOX_LAST, at::INBOX_LIMIT, at::INBOX_LOST, at::INBOX_HEAD, at::INBOX_FIRST]
    {
        for case in 0..values(base + word).len() {
            let value = values(base + word)[case];
            survive(&seat, &format!("word {word} was {value:#x}"), || segment.store(base + word, value));
        }
    }
    // Words of the block: where the next one is, and how long the first letter is.
    for word in [8, 16] {
        for case in 0..values(base).len() {
            let place = segment.load(base + at::INBOX_FIRST) + word;
            let value = values(place)[case];
            survive(&seat, &format!("word {word} of the block was {value:#x}"), || {
                segment.store(place, value)
            });
        }
    }
}

/// Has three blocks of letters in the inbox, damages it, and looks at what comes of that.
fn survive(seat: &Seat, what: &str, damage: impl FnOnce()) {
    // From its beginning, so that the first letter is at the beginning of a block.
    seat.close_inbox();
    seat.open_inbox(LIMIT).unwrap();
    send(seat, &[&[7; 10_000], &[8; 20_000], &[9; 10]]);
    damage();
    // One more, by a sender that does not know.
    send(seat, &[b"later"]);
    let mut letter = Vec::new();
    for _ in 0..20 {
        let _ = seat.receive(&mut letter);
        assert!(letter.len() as u64 <= LIMIT, "{what}: a letter of {} bytes", letter.len());
    }
    seat.mend_inbox();
    seat.note_lost();
    send(seat, &[b"after"]);
    let mut last = Vec::new();
    while seat.receive(&mut letter).unwrap_or(true) {
        last = letter.clone();
    }
    assert!(last == b"after", "{what}: letters do not come any more");
}

/// Where the FIFO of a seat lies, which has been made.
fn fifo_of(guard: &Guard, seat: &Seat) -> std::path::PathBuf {
    let polder_shm::SegmentName::Shm(name) = &guard.0 else { unreachable!("a shared one") };
    let (begin, end) = (format!(".polder-bell-{name}-"), format!("-{}", seat.index()));
    let is_it = |file: &str| file.starts_with(&begin) && file.ends_with(&end);
    let mut files = std::fs::read_dir("/dev/shm").unwrap().map(|file| file.unwrap());
    files.find(|file| is_it(&file.file_name().to_string_lossy())).expect("a fifo").path()
}

#[test]
fn a_file_that_takes_the_place_of_a_fifo_is_not_written_to() {
    let guard = Guard::shm("fifo-file");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    seat.open_inbox(LIMIT).unwrap();
    drop(seat.wakeup_fifo().unwrap());
    let (fifo, victim) = (fifo_of(&guard, &seat), directory::door_of(&Guard::shm("fifo-victim").0));
    std::fs::remove_file(&fifo).unwrap();
    std::fs::write(&victim, "whole").unwrap();
    std::fs::hard_link(&victim, &fifo).unwrap();
    assert!(seat.prepare_sleep());
    segment.wake(seat.index());
    assert_eq!(std::fs::read(&victim).unwrap(), b"whole");
    // Its owner clears the name and makes a FIFO that wakes.
    let made = seat.wakeup_fifo().unwrap();
    assert!(seat.prepare_sleep());
    segment.wake(seat.index());
    assert_eq!(rustix::io::read(&made, &mut [0; 8]), Ok(1));
    assert_eq!(std::fs::read(&victim).unwrap(), b"whole");
    std::fs::remove_file(&victim).unwrap();
}

#[test]
fn a_fifo_that_another_user_has_made_is_replaced() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make another user's FIFO");
        return;
    }
    let guard = Guard::shm("fifo-stranger");
    let segment = segment(&guard);
    let seat = segment.seat().unwrap();
    drop(seat.wakeup_fifo().unwrap());
    let fifo = fifo_of(&guard, &seat);
    std::os::unix::fs::chown(&fifo, Some(65_534), None).unwrap();
    drop(seat.wakeup_fifo().unwrap());
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&fifo).unwrap()), 0);
}
