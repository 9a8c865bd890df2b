//! Reading an entry without a lock.
//!
//! A reader loads a bucket's lock word, reads the entry, and checks that the word is still the same (a seqlock; Boehm, MSPC 2012). Each
//! release of a lock after a change adds one to the version in the word, so an equal word means that the reader has read one state.
//!
//! If the bucket is locked, the reader does not wait. The owner's status word says what holds:
//! - Before the owner's commit, the words in the bucket hold. The owner writes none of them before it commits.
//! - From the commit on, the owner's journal holds the new words. The reader lays them over a copy of the bucket. It does not matter
//!   how many of them the owner has written out already, since both are the same words.
//!
//! The status word also carries the transaction's number. The reader checks at the end that it is still the same. So the owner has not
//! committed meanwhile, and has not begun to use its journal for another transaction.
//!
//! At the end the directory's slot must still name the extent, too. An extent that has been replaced keeps its old entries, and a
//! writer may have written to the new one since. The words of the map are validated last, since the database may have been swapped or
//! emptied meanwhile.

use polder_base::{Fault, Ref};
use polder_shm::class::NODE_MAX;
use polder_shm::item::{self, Tag};
use polder_shm::layout::seat as at;
use polder_shm::sync::{self, Flaw};
use polder_shm::{Seat, Segment, lock};
use smallvec::SmallVec;

use crate::api::{Absence, Db, Stop};
use crate::layout::bucket::{self, BUCKET_BYTES, LINE_WORDS, UNITS, WORDS, Words};
use crate::layout::directory::{self, Bucket, Extent, MAP_LOCK};
use crate::layout::entry::{self, Image};
use crate::layout::hash::Hash;
use crate::layout::stub::{self, Name};

/// A word that a reader relies on, as it was.
#[derive(Clone, Copy, Debug)]
pub struct ReadWord {
    pub at: u64,
    pub word: u64,
}

/// The read set of one transaction: the words that it relies on. [`validate`] validates it.
pub type ReadSet = SmallVec<[ReadWord; 8]>;

/// An entry as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub image: Image,
    /// Where its first word lies, for the note of an access.
    pub first_at: u64,
}

/// A live bucket, read word by word.
pub struct Live<'s> {
    pub segment: &'s Segment,
    pub bucket: Bucket,
}

impl Words for Live<'_> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.segment.load(self.bucket.word_at(index))
    }

    #[inline(always)]
    fn unit_word(&self, index: usize) -> u64 {
        self.segment.load(self.bucket.units + index as u64 * 8)
    }

    #[inline(always)]
    fn tag_words(&self) -> [u64; 7] {
        let word = |number: u64| self.segment.load(self.bucket.line + number * 8);
        [word(1), word(2), word(3), word(4), word(5), word(6), word(7)]
    }
}

/// A private copy of a bucket with a committed journal's words laid over it.
struct Overlaid(Box<[u64; WORDS]>);

impl Words for Overlaid {
    fn word(&self, index: usize) -> u64 {
        self.0[index]
    }
}

/// The key that is looked for.
pub trait KeyTest {
    fn key(&self) -> &[u8];

    /// Whether a record's key is it.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the record makes no sense.
    fn is_key_of(&self, record: Ref) -> Result<bool, Fault>;

    /// Notes that a stub is met that may be this key's.
    fn meets(&self, name: Name);
}

/// How a look into one bucket ended.
enum Look {
    Hit(Hit),
    /// Not here; how many entries whose home this is lie in the next bucket and in the stash.
    Miss(u8, u8),
    /// The bucket changed meanwhile, or is dead.
    Changed,
}

/// The same from the marks that [`lookup`] has left of a key that it did not find: two of the map, one of the slot, then those of the
/// home. `None` if the database is empty. The owner of a lock that has committed adds a version when it releases it, so that counts here.
pub fn absence(marks: &[ReadWord]) -> Option<Absence> {
    let [_, _, slot, home, rest @ ..] = marks else { return None };
    let is_locked = lock::owner(home.word).is_some();
    let commits = is_locked && rest.first().is_some_and(|status| status.word & 3 == at::COMMITTED);
    Some(Absence::of(slot.word, home.word).after(commits as u32))
}

/// Attempts before a walk that leads nowhere, although nothing changes, counts as damage (S5).
const ATTEMPTS_MAX: u32 = 10_000;
/// Attempts before a walk is given up because other threads change what it meets each time. The transaction then runs again and, after a
/// few times, locks the key.
const OVERTAKEN_MAX: u32 = 20_000;
/// Attempts before the thread gives up its turn between them.
const HASTY_MAX: u32 = 100;

/// Finds the entry of a key; what it relied on is added to `marks`. The seat is pinned.
///
/// # Errors
/// [`Fault::Damaged`]; [`Stop::Retry`] where the bucket, or the way to it, changes at each attempt.
pub fn lookup(
    seat: &Seat,
    db: Db,
    hash: &Hash,
    key: &impl KeyTest,
    marks: &mut ReadSet,
) -> Result<Option<Hit>, Stop> {
    let segment = seat.segment();
    let before = marks.len();
    let (mut overtaken, mut astray) = (0, 0);
    loop {
        marks.truncate(before);
        if overtaken + astray > HASTY_MAX {
            sync::yield_now();
        }
        if overtaken > OVERTAKEN_MAX {
            return Err(Stop::Retry);
        }
        if astray > ATTEMPTS_MAX {
            return Err(Fault::Damaged { what: "the directory" }.into());
        }
        let root = root_of(seat, db, marks);
        if root == 0 {
            return Ok(None);
        }
        let extent = directory::walk(segment, root, hash.position);
        if !seat.covers_now() {
            // A node on the way may be born after the pin's upper end. It could be freed and used again while this thread reads it.
            overtaken += 1;
            continue;
        }
        let Some(extent) = extent else {
            // While the map does not change there is always a way, also while other threads change the directory.
            *if validate(segment, &marks[before..]) { &mut astray } else { &mut overtaken } += 1;
            continue;
        };
        marks.push(ReadWord { at: extent.slot_at, word: extent.slot });
        // The two marks of the map are validated last: the database may have been swapped meanwhile, and the bucket written under its new
        // number.
        if let Some(outcome) = lookup_in(seat, &extent, hash, key, marks)?
            && extent.is_current(segment)
            && validate(segment, &marks[before..before + 2])
        {
            return Ok(outcome);
        }
        // A bucket that is dead although the slot still names its extent is damaged; any other reason shows in a mark.
        *if validate(segment, &marks[before..]) { &mut astray } else { &mut overtaken } += 1;
    }
}

/// Looks into home, neighbour and stash; `None` means that something changed.
fn lookup_in(
    seat: &Seat,
    extent: &Extent,
    hash: &Hash,
    key: &impl KeyTest,
    marks: &mut ReadSet,
) -> Result<Option<Option<Hit>>, Stop> {
    let segment = seat.segment();
    let before = marks.len();
    let home = extent.home_of(hash.position);
    let mut look_into = |index: u64| -> Result<Look, Stop> {
        match extent.bucket(segment, index) {
            Some(bucket) => look(seat, bucket, hash, key, marks),
            None => Ok(Look::Changed),
        }
    };
    let (next, stash) = match look_into(home)? {
        Look::Hit(hit) => return Ok(Some(Some(hit))),
        Look::Changed => return Ok(None),
        Look::Miss(next, stash) => (next, stash),
    };
    for (index, _) in directory::elsewhere(extent.places(home), (next, stash)) {
        match look_into(index)? {
            Look::Hit(hit) => return Ok(Some(Some(hit))),
            Look::Changed => return Ok(None),
            Look::Miss(..) => {}
        }
    }
    // An entry that grows or shrinks may move from the next bucket to its home between the two looks. Then neither look shows it, so a
    // miss in several buckets counts only if all of them are unchanged.
    let absent =
        next == 0 && stash == 0 || sync::has(Flaw::BelievesMiss) || validate(segment, &marks[before..]);
    Ok(absent.then_some(None))
}

fn look(
    seat: &Seat,
    bucket: Bucket,
    hash: &Hash,
    key: &impl KeyTest,
    marks: &mut ReadSet,
) -> Result<Look, Stop> {
    let segment = seat.segment();
    let word = segment.observe(bucket.line);
    if word & lock::DEAD != 0 {
        return Ok(Look::Changed);
    }
    let owner = lock::owner(word).filter(|owner| *owner != seat.index());
    let Some(owner) = owner else {
        let steady = || {
            segment.acquire_fence();
            segment.load(bucket.line) == word
        };
        let look = look_at(seat, &Live { segment, bucket }, bucket, hash, key, &steady)?;
        marks.push(ReadWord { at: bucket.line, word });
        return Ok(if steady() { look } else { Look::Changed });
    };
    let status_at = segment.seat_at(owner) + at::STATUS;
    let status = segment.observe(status_at);
    let steady = || {
        segment.acquire_fence();
        segment.load(bucket.line) == word && segment.load(status_at) == status
    };
    let look = if status & 3 == at::COMMITTED {
        let overlaid = overlay(segment, owner, bucket);
        look_at(seat, &overlaid, bucket, hash, key, &steady)?
    } else {
        look_at(seat, &Live { segment, bucket }, bucket, hash, key, &steady)?
    };
    marks.push(ReadWord { at: bucket.line, word });
    // For a transaction of several reads: at its end the owner must not have committed meanwhile, nor begun another transaction.
    if !sync::has(Flaw::ReadsNoStatus) {
        marks.push(ReadWord { at: status_at, word: status });
    }
    Ok(if steady() { look } else { Look::Changed })
}

/// The root word of a database: from the map or, if a thread that has committed has the map locked, from that thread's journal.
#[inline]
pub fn root_of(seat: &Seat, db: Db, marks: &mut ReadSet) -> u64 {
    let segment = seat.segment();
    loop {
        let before = marks.len();
        let word = segment.observe(MAP_LOCK);
        let at = directory::map_at(db) + 8;
        let mut root = segment.observe(at);
        marks.push(ReadWord { at: MAP_LOCK, word });
        if let Some(owner) = lock::owner(word).filter(|owner| *owner != seat.index()) {
            let status_at = segment.seat_at(owner) + at::STATUS;
            let status = segment.observe(status_at);
            if status & 3 == at::COMMITTED {
                each_word(segment, owner, &mut |offset, value| {
                    if offset == at {
                        root = value;
                    }
                });
            }
            marks.push(ReadWord { at: status_at, word: status });
        } else {
            marks.push(ReadWord { at, word: root });
        }
        if validate(segment, &marks[before..]) {
            return root;
        }
        marks.truncate(before);
    }
}

/// Both words of a database in the map, as one change made them: its node and its root. As [`root_of`] it does not wait.
pub fn map_words(seat: &Seat, db: Db) -> (u64, u64) {
    let segment = seat.segment();
    loop {
        let mut marks = ReadSet::new();
        let word = segment.observe(MAP_LOCK);
        let at = directory::map_at(db);
        let (mut node, mut root) = (segment.observe(at), segment.observe(at + 8));
        marks.push(ReadWord { at: MAP_LOCK, word });
        match lock::owner(word).filter(|owner| *owner != seat.index()) {
            Some(owner) => {
                let status_at = segment.seat_at(owner) + at::STATUS;
                let status = segment.observe(status_at);
                marks.push(ReadWord { at: status_at, word: status });
                if status & 3 == at::COMMITTED {
                    each_word(segment, owner, &mut |offset, value| match offset {
                        offset if offset == at => node = value,
                        offset if offset == at + 8 => root = value,
                        _ => {}
                    });
                }
            }
            None => marks.extend([ReadWord { at, word: node }, ReadWord { at: at + 8, word: root }]),
        }
        if validate(segment, &marks) {
            return (node, root);
        }
    }
}

/// Whether a thread has committed a change of the map and not written it out yet. If it lives, it is about to; if it is dead, its seat is
/// recovered here.
#[inline]
pub fn map_is_changing(seat: &Seat) -> bool {
    let segment = seat.segment();
    match lock::owner(segment.observe(MAP_LOCK)).filter(|owner| *owner != seat.index()) {
        Some(owner) if segment.observe(segment.seat_at(owner) + at::STATUS) & 3 == at::COMMITTED => {
            segment.probe(MAP_LOCK);
            true
        }
        _ => false,
    }
}

/// Notes what says whether a bucket has changed: its word and, if it is locked, its owner's status.
pub fn mark(seat: &Seat, bucket: Bucket, marks: &mut ReadSet) {
    let segment = seat.segment();
    let word = segment.observe(bucket.line);
    marks.push(ReadWord { at: bucket.line, word });
    if let Some(owner) = lock::owner(word) {
        let status_at = segment.seat_at(owner) + at::STATUS;
        marks.push(ReadWord { at: status_at, word: segment.observe(status_at) });
    }
}

/// Reads a bucket as one state, also while it is locked; `None` when it is dead or has changed meanwhile.
pub fn view<R>(seat: &Seat, bucket: Bucket, read: impl Fn(&dyn Words) -> R) -> Option<R> {
    let segment = seat.segment();
    let word = segment.observe(bucket.line);
    if word & lock::DEAD != 0 {
        return None;
    }
    let owner = lock::owner(word).filter(|owner| *owner != seat.index());
    let status_at = owner.map(|owner| segment.seat_at(owner) + at::STATUS);
    let status = status_at.map_or(0, |status_at| segment.observe(status_at));
    let seen = match owner {
        Some(owner) if status & 3 == at::COMMITTED => read(&overlay(segment, owner, bucket)),
        _ => read(&Live { segment, bucket }),
    };
    segment.acquire_fence();
    let steady = segment.load(bucket.line) == word
        && status_at.is_none_or(|status_at| segment.load(status_at) == status);
    steady.then_some(seen)
}

#[inline]
fn look_at(
    seat: &Seat,
    words: &impl Words,
    bucket: Bucket,
    hash: &Hash,
    key: &impl KeyTest,
    steady: &impl Fn() -> bool,
) -> Result<Look, Stop> {
    let tags = words.tag_words();
    let mut candidates = bucket::matches(&tags, hash.tag);
    while candidates != 0 {
        let unit = candidates.trailing_zeros() as usize;
        candidates &= candidates - 1;
        let second = words.word(LINE_WORDS + unit * 2 + 1);
        let same = if second as u8 & entry::REFERENCE == 0 {
            entry::inline_key_is(
                |number| words.word(LINE_WORDS + (unit * 2 + number).min(UNITS * 2 - 1)),
                second,
                key.key(),
            )
        } else if entry::extra_of(second) == hash.extra {
            // The reference is followed only if the bucket held it (the word is steady), and only if the pin covers the present epoch.
            if !steady() || !seat.covers_now() {
                return Ok(Look::Changed);
            }
            if entry::is_stub(second) {
                let first = words.word(LINE_WORDS + unit * 2);
                let may_be = stub::may_be(second, hash);
                if may_be && steady() {
                    key.meets(stub::name_of(first, second));
                    return Err(Stop::Cold);
                } else if may_be {
                    return Ok(Look::Changed);
                }
                false
            } else {
                key.is_key_of(entry::record_in(second)?)?
            }
        } else {
            false
        };
        if same {
            return Ok(Look::Hit(Hit {
                image: bucket::image_at(words, unit),
                first_at: bucket.word_at(LINE_WORDS + unit * 2),
            }));
        }
    }
    let (next, stash) = bucket::displaced(tags[6]);
    Ok(Look::Miss(next, stash))
}

/// The bucket as `owner`'s committed journal makes it.
fn overlay(segment: &Segment, owner: u64, bucket: Bucket) -> Overlaid {
    let live = Live { segment, bucket };
    let mut copy = Box::new(std::array::from_fn(|index| live.word(index)));
    each_word(segment, owner, &mut |offset, value| {
        if (bucket.line + 8..bucket.line + 64).contains(&offset) {
            copy[((offset - bucket.line) / 8) as usize] = value;
        } else if (bucket.units..bucket.units + BUCKET_BYTES).contains(&offset) {
            copy[LINE_WORDS + ((offset - bucket.units) / 8) as usize] = value;
        }
    });
    Overlaid(copy)
}

/// Shows the WORD items of a seat's journal. A caller that relies on them checks the seat's status again afterwards.
fn each_word(segment: &Segment, owner: u64, visit: &mut dyn FnMut(u64, u64)) {
    let seat = segment.seat_at(owner);
    let len = segment.observe(seat + at::JOURNAL_LEN);
    let mut block = seat + at::JOURNAL;
    let mut block_end = at::JOURNAL_PAIRS;
    let mut next_at = seat + at::JOURNAL_NEXT;
    for index in 0..len {
        if index == block_end {
            let next = segment.observe(next_at);
            if !segment.check(next, NODE_MAX as u64) {
                return;
            }
            (block, next_at) = ((next + 16).wrapping_sub(index * 16), next + 8);
            block_end += item::BLOCK_PAIRS;
        }
        let place = block.wrapping_add(index * 16);
        if let Some((Tag::Word, offset)) = item::item_of(segment.load(place)) {
            visit(offset, segment.load(place + 8));
        }
    }
}

/// Validates a read set: whether all its words are still as they were.
pub fn validate(segment: &Segment, marks: &[ReadWord]) -> bool {
    segment.acquire_fence();
    marks.iter().all(|mark| segment.load(mark.at) == mark.word)
}
