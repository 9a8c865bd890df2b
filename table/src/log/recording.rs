//! What a commit looks at before it becomes true: the header's word RECORDING.
//!
//! ```text
//!  63 .. 3                           2          1           0
//!  number of the last snapshot       REFUSES    SNAPSHOT    LOG        (`layout::recording`)
//! ```
//!
//! This is the only place that reads the word for a commit. While no bit is set, that costs one load, one test and one branch.
//!
//! - **K1** A transaction that changes keys reads the word exactly once, with all its locks held and after the last read that it relies
//!   on, right before its commit. N1 of `snapshot.rs` and L5 of `shm/src/outbox.rs` rest on that: what a commit saves for a
//!   snapshot and what it logs must follow from one read of the word.
//! - **K2** A commit that changes no key does not read it: growth and compaction of buckets, maintenance, inboxes, records of the hub.
//!
//! - **K3** While REFUSES is set, and in a replica, whose log is always on, a commit that changes a client's keys fails with [`READ_ONLY`], whatever way the write came. A fast path leaves its
//!   commit to the slow path then, which is the only one that refuses ([`Txn::record_commit`](crate::Txn)). Not refused are transactions that hold
//!   keys of the hidden database only, and neutral ones: no client sees what they change. What has expired stays, since its removal would be a change.
//!
//! A fast path that records nothing leaves its commit to the slow path when any bit is set.
//!
//! A fast path that knows which command has the effect of its change ([`Tell`]) appends the record of it by itself while LOG is set: it writes the
//! record behind the tail of its seat's outbox, and adds the new tail to its journal. So its one store of COMMITTED delivers change and record
//! together, as that of a transaction does (`effect.rs`), and recovery undoes or redoes both. It draws its number with all its locks held (L3 of
//! `shm/src/outbox.rs`), and looks for LOG by the one read of K1, so that it need not have looked before (E1). What it cannot do it leaves to a
//! transaction, having changed nothing: make an outbox or another block of it, merge what has piled up, or tell of several commands.
use polder_shm::layout::{header, recording};
use polder_shm::node::NodeHeader;
use polder_shm::staged_journal::StagedJournal;
use polder_shm::{Seat, Segment};

use crate::api::{Attributes, Db, SYSTEM};
use crate::layout::directory::{self, database};
use crate::layout::entry::{Image, WORDS_MAX};
use crate::layout::extras::ItemExtras;
use crate::layout::hash::Hash;
use crate::log::aside::{self, Aside};
use crate::log::telling::{Command, QuickRecord};
use crate::table::Table;

/// What a commit is told that is refused (K3).
pub const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// Bits of a position that [`order`] leaves out: those of a tally take their place.
const TALLY_BITS: u32 = 10;
const _: () = assert!(polder_shm::layout::seat::TALLY_SLOTS < 1 << TALLY_BITS);
/// Bytes of a key that a record holds. What is longer is told apart by its length and 88 bits of its hash, too.
pub(crate) const KEY_KEPT: usize = 2048;

impl Table {
    /// Has commits that change keys fail with [`READ_ONLY`] (K3), or no longer. A commit that has looked before this may still come.
    pub fn refuse_writes(&self, refuses: bool) {
        self.segment().refuse_writes(refuses);
    }
}

/// What a record tells of: an entry that lies inline, one with a reference, none.
pub(crate) const INLINE: u64 = 1;
pub(crate) const REFERENCE: u64 = 2;
const NOTHING: u64 = 3;
/// Words before a record's key.
pub(crate) const HEAD_WORDS: usize = 4;

/// A key that a commit changes: where it belongs, its entry as it was (none: no such key), and as it is going to be (none: no such key).
pub(crate) struct Changed<'c> {
    pub root: u64,
    pub hash: &'c Hash,
    pub key: &'c [u8],
    pub before: Option<&'c Image>,
    pub after: Option<&'c Image>,
}

/// The place in which a fast path says which commands have the effect of its change.
pub struct Effect<'e> {
    seat: &'e Seat,
    recording: u64,
    db: Db,
    now_ms: u64,
    /// What becomes of the outbox's tail with the commit.
    tail: Option<u64>,
}

impl Effect<'_> {
    /// The change has the effect of this command: its name in upper case, and its other words. To be called once.
    pub fn call(&mut self, name: &str, words: &[&[u8]]) {
        self.append(&[(name.as_bytes(), words)]);
    }

    /// The change has the effect of these commands, as one transaction; in the place of [`Effect::call`].
    pub(crate) fn calls(&mut self, commands: &[Command<'_>]) {
        self.append(commands);
    }

    /// The change gives a key this string with all that it has; in the place of [`Effect::call`].
    pub fn set(&mut self, key: &[u8], value: &[u8], Attributes { expiry_ms, flags }: Attributes) {
        let expiry = expiry_ms.map(|expiry_ms| expiry_ms.to_string());
        let words = [key, value, b"PXAT", expiry.as_deref().unwrap_or_default().as_bytes()];
        let words = if expiry.is_some() { &words[..] } else { &words[..2] };
        if flags == 0 {
            return self.append(&[(b"SET", words)]);
        }
        let item = Aside::Item { key, flags, extras: ItemExtras::default() }.text();
        self.append(&[(b"SET", words), (aside::NAME, &[&item])]);
    }

    #[inline(always)]
    fn append(&mut self, commands: &[Command<'_>]) {
        let record = QuickRecord { db: self.db, commands, now_ms: self.now_ms };
        let appended = record
            .bytes()
            .filter(|_| self.db != SYSTEM)
            .and_then(|bytes| self.seat.append_in_place(self.recording, bytes, |place| record.write(place)));
        self.tail = appended;
    }
}

/// Returns true if a commit that has read this word may change no client's keys (K3).
#[inline(always)]
pub(crate) fn refuses(segment: &Segment, word: u64) -> bool {
    word & recording::REFUSES != 0 || word & recording::LOG != 0 && !segment.tells_itself()
}

/// Says the effect of a change, or nothing: then the slow path makes the change.
pub(crate) type Tell<'t> = &'t dyn Fn(&mut Effect<'_>);

/// Shows every key that a commit changes.
pub(crate) type ShowChanges<'s> = &'s dyn Fn(&mut dyn FnMut(Changed<'_>));

/// Like [`before_commit`], for a fast path that says its effect by itself.
#[inline(never)]
#[must_use]
pub(crate) fn before_told_commit(
    (seat, db, now_ms): (&Seat, Db, u64),
    notes: &mut StagedJournal<'_>,
    tell: Tell<'_>,
    changes: ShowChanges<'_>,
) -> bool {
    let word = seat.segment().recording();
    if refuses(seat.segment(), word) {
        return false;
    }
    if word & recording::LOG != 0 {
        // First: it may fail.
        let mut effect = Effect { seat, recording: word, db, now_ms, tail: None };
        tell(&mut effect);
        let Some(tail) = effect.tail else { return false };
        notes.tail(tail);
    }
    let number = recording::snapshot(word);
    if number != 0 {
        changes(&mut |key| save(seat, number, &key));
    }
    true
}

/// Reads the word (K1) for a fast path and records what it asks for; returns false where it must leave its commit to the slow path, having
/// recorded nothing. `changes` shows every key that the commit changes, and is called only while a snapshot is on.
#[inline(always)]
#[must_use]
pub(crate) fn before_commit(seat: &Seat, changes: impl FnOnce(&mut dyn FnMut(Changed<'_>))) -> bool {
    let word = seat.segment().recording();
    word & recording::ON == 0 || record(seat, word, changes)
}

/// The same for a fast path that records nothing: whether it must leave its commit to the slow path.
#[inline(always)]
pub(crate) fn is_on(segment: &Segment) -> bool {
    segment.recording() & recording::ON != 0
}

#[cold]
#[inline(never)]
fn record(seat: &Seat, word: u64, changes: impl FnOnce(&mut dyn FnMut(Changed<'_>))) -> bool {
    if word & (recording::LOG | recording::REFUSES) != 0 {
        return false;
    }
    let number = recording::snapshot(word);
    if number != 0 {
        changes(&mut |key| save(seat, number, &key));
    }
    true
}

/// Where a key comes in a walk: by the tally of its database, which no two of a snapshot's share, and by its hash.
pub(crate) fn order(root: u64, position: u64) -> u64 {
    directory::tally_of(root) << (64 - TALLY_BITS) | position >> TALLY_BITS
}

/// Saves the state that a key has, for the snapshot `number` that the transaction has looked at.
#[cold]
#[inline(never)]
pub(crate) fn save(seat: &Seat, number: u64, changed: &Changed<'_>) {
    let &Changed { root, hash, key, before, after } = changed;
    let segment = seat.segment();
    let watermark = segment.observe(header::SNAPSHOT_WATERMARK);
    let says_all = |image: &Image| image.version() > watermark;
    // N3. Both: versions of one key need not rise, since each seat draws its own.
    let known = before.is_none_or(says_all) && after.is_none_or(says_all);
    if known || order(root, hash.position) < segment.observe(header::SNAPSHOT_PASSED) {
        return;
    }
    let mut record = [0u64; HEAD_WORDS + 1 + KEY_KEPT / 8 + WORDS_MAX];
    let mut len = HEAD_WORDS;
    if before.is_none_or(Image::is_reference) {
        let kept = &key[..key.len().min(KEY_KEPT)];
        record[len] = key.len() as u64;
        len += 1;
        for chunk in kept.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            record[len] = u64::from_le_bytes(bytes);
            len += 1;
        }
    }
    let what = match before {
        None => NOTHING,
        Some(image) if image.is_reference() => REFERENCE,
        Some(_) => INLINE,
    };
    let words = before.map_or(&[][..], Image::words);
    record[len..len + words.len()].copy_from_slice(words);
    len += words.len();
    record[1] = root;
    record[2] = hash.position;
    record[3] = len as u64 | what << 16 | (hash.tag as u64) << 24 | (hash.extra as u64) << 32;
    if seat.save(number, &mut record[..len]).is_err() {
        // The writer goes on. The snapshot fails, and can be tried again when there is more memory.
        segment.break_snapshot(number);
    }
}

/// Whether a snapshot has not come by a flushed database yet, whose node is `node`.
pub(crate) fn is_wanted(segment: &Segment, node: u64) -> bool {
    let number = segment.snapshot();
    if number == 0 || segment.is_broken(number) || !segment.check(node, 64) {
        return false;
    }
    let tally = segment.load(node + database::TALLY);
    let end = tally << (64 - TALLY_BITS) | u64::MAX >> TALLY_BITS;
    NodeHeader(segment.load(node)).birth() <= segment.observe(header::SNAPSHOT_UPPER)
        && end >= segment.observe(header::SNAPSHOT_PASSED)
}
