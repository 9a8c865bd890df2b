//! Messages of two senders, of which one may die, to a thread that sleeps until it is woken. Each message fills a block, so that each but the
//! first needs a link.

use polder_shm::layout::seat as at;
use polder_shm::node::NodeKind;
use polder_shm::scenario::{BROKEN, explore, find};
use polder_shm::schedules::{self, Sleeps, draw, quietly};
use polder_shm::sync::{self, Flaw};
use polder_shm::{Locked, Seat, Segment, offset_of};
use shuttle::thread;

use crate::Memory;

/// Bytes of a message that fills a block.
const LETTER: usize = 16 * 1024 - 16 - 8;
const LIMIT: u64 = 1 << 20;
const LETTERS: u8 = 2;
/// Stores of a sender, about.
const STORES: u32 = 110;
/// How long the dead may lie, in looks of other threads.
const LINGERS: u32 = 100;
/// The message after which no other comes.
const END: u8 = 255;
/// What a node says that the receiver has made of freed memory.
const MARK: u64 = 0x5151_5151;

/// How the receiver sleeps.
#[derive(Clone, Copy)]
enum Bed {
    Futex,
    Fifo,
}

/// Sends one message, filled with `says`, to seat 0.
fn send(seat: &Seat, says: u8, pins: bool) {
    let segment = seat.segment();
    if pins {
        seat.pin();
    }
    let lock = segment.inbox_lock(0);
    assert!(matches!(seat.lock(lock, None), Ok(Locked::Ours(_))), "a lock");
    let mut posting = seat.posting(0, segment.inbox_life(0), seat.journal_len() - 1).expect("an inbox");
    posting.append(&[&[says; LETTER]]).expect("room");
    let olds = posting.end().expect("room");
    seat.commit(olds).expect("room");
    if pins {
        seat.unpin();
    }
}

/// Reads until the end comes. Between two messages it frees what it has read, and uses that memory for a moment.
fn receive(segment: &Segment, seat: &Seat, on: Bed) -> Vec<u8> {
    let (mut got, mut letter) = (Vec::new(), Vec::new());
    while got.last() != Some(&END) {
        if !seat.receive(&mut letter).expect("a sound inbox") {
            match on {
                Bed::Futex => seat.sleep(None),
                Bed::Fifo if seat.prepare_sleep() => {
                    schedules::poll_fifo(seat.index());
                    seat.after_sleep();
                }
                Bed::Fifo => {}
            }
            continue;
        }
        assert!(
            letter.len() == LETTER && letter.iter().all(|byte| *byte == letter[0]),
            "{BROKEN}a torn message"
        );
        got.push(letter[0]);
        seat.reclaim_until(sync::now());
        let node = offset_of(seat.make(NodeKind::Data, 16 * 1024 - 8).expect("memory"));
        segment.store(node + 8, MARK);
        (0..8).for_each(|_| assert_eq!(segment.load(node + 8), MARK, "{BROKEN}wrote into a freed block"));
        seat.rollback();
    }
    got.pop();
    got
}

fn sending_to(on: Bed, pins: bool) {
    let memory = Memory::renewed();
    let segment = &memory.segment;
    let (opened, is_open) = shuttle::sync::mpsc::channel();
    let receiver = {
        let segment = segment.clone();
        thread::spawn(move || {
            segment.live(None, |seat| {
                assert_eq!(seat.index(), 0);
                quietly(|| seat.open_inbox(LIMIT).expect("room"));
                opened.send(()).expect("the test waits");
                receive(&segment, seat, on)
            })
        })
    };
    is_open.recv().expect("the receiver lives");
    let senders: Vec<_> = (0..2_u8)
        .map(|sender| {
            let segment = segment.clone();
            thread::spawn(move || {
                // The other one dies, mostly near its end.
                let stores = (sender == 0).then(|| draw(2) * STORES / 2 + draw(STORES / 2));
                segment.live(stores, |seat| {
                    (0..LETTERS).for_each(|number| send(seat, sender * 10 + number, pins))
                })
            })
        })
        .collect();
    let died: Vec<bool> =
        senders.into_iter().map(|sender| sender.join().expect("no panic").is_none()).collect();
    (0..draw(LINGERS)).for_each(|_| sync::yield_now());
    segment.recover_dead();
    segment.live(None, |seat| send(seat, END, true)).expect("it lives");
    let got = receiver.join().expect("no panic").expect("the receiver lives");
    for (sender, died) in died.into_iter().enumerate() {
        let theirs: Vec<u8> =
            got.iter().filter(|says| usize::from(**says / 10) == sender).map(|says| says % 10).collect();
        let all: Vec<u8> = (0..LETTERS).collect();
        assert!(
            if died { all.starts_with(&theirs) } else { all == theirs },
            "{BROKEN}of sender {sender}, died: {died}, came {got:?}"
        );
    }
    assert_eq!(segment.load(segment.seat_at(0) + at::INBOX_LOST), 0, "{BROKEN}a message is lost");
    memory.check(&[]);
}

fn to_a_futex() {
    sending_to(Bed::Futex, true);
}

fn to_a_fifo() {
    sending_to(Bed::Fifo, true);
}

fn without_pins() {
    sending_to(Bed::Futex, false);
}

#[test]
fn messages_come_once_in_order_and_wake_at_any_death() {
    explore(Sleeps::ByThemselves, to_a_futex);
    explore(Sleeps::ByThemselves, to_a_fifo);
}

#[test]
fn a_sender_that_does_not_pin_is_caught() {
    find(Sleeps::ByThemselves, None, without_pins);
}

#[test]
fn a_sender_that_clears_the_word_first_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::ClearsBeforeWake), to_a_fifo);
}

#[test]
fn a_sender_that_wakes_before_it_has_marked_the_word_is_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::WakesUnmarked), to_a_futex);
}

#[test]
fn sleeps_that_look_alike_are_caught() {
    find(Sleeps::ByThemselves, Some(Flaw::SleepsAlike), to_a_fifo);
}
