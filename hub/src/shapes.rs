//! The shapes that patterns of the token dialect may have ([`token`](crate::token)): what a publisher looks
//! through.
//!
//! ```text
//!   subj:S          shape by shape, the seats that may have patterns of it, as a group; the number of a record is no count
//!   header::TOKENS  how often a seat has begun to have a shape (63 bits) | whether there is a shape (1 bit)
//! ```
//!
//! A seat enters a shape with its first pattern of it, and leaves it some time after the last one has ended.
//! So a subscription to another pattern of the shape touches neither the list nor the word. The records of a
//! dead seat are swept as others are.
//!
//! **Invariant SH1:** a seat has a record at a shape from before, or with, the commit of its first pattern of
//! that shape until after the commit that ends the last one.
//! **Invariant SH2:** after a commit that has added such a record, the word moves before the client's OK. A
//! publisher reads the word before it looks. So a publisher that begins after the OK does not use shapes that
//! were read before the commit.
//! **Invariant SH3:** the word says that there is no shape only by an exchange from the value that it had
//! before the transaction that has left the list empty. A record that this transaction has not seen is
//! committed later, and moves the word later: either the exchange fails, or the move follows it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use polder_shm::layout::header;
use polder_table::{CommitView, SYSTEM, Stop, Table, Txn};

use crate::group::{entries, rewritten};
use crate::per_thread::{self, PerThread};
use crate::token::ShapeText;
use crate::{post, record};

pub(crate) const KEY: &[u8] = b"subj:S";
/// More shapes than this are not looked through by publishers.
const SHAPES_MAX: usize = 128;
/// The words of nats-server for a subscription that is one too many.
pub const TOO_MANY: &str = "ERR maximum subscriptions exceeded";

/// The bit of the word that says that there is a shape, and what moves the word beside it.
const ANY: u64 = 1;
const STEP: u64 = 2;

thread_local! {
    /// The shapes at which the calling thread's seat has a record.
    static ENTERED: PerThread<HashMap<ShapeText, Users>> = const { PerThread::new() };
}

/// The users of a shape in the calling thread.
#[derive(Default)]
struct Users {
    /// Subscriptions of its clients.
    count: usize,
    /// A transaction that may be under way subscribes, and has found the record: it stays. One that was given up leaves this said until the next look
    /// at shapes that are not used.
    is_wanted: bool,
}

impl Users {
    fn is_unused(&self) -> bool {
        self.count == 0 && !self.is_wanted
    }
}

/// Returns true if the calling thread's seat has a record at this shape already. It stays while the transaction is under way that asks for it.
pub(crate) fn want(table: &Table, shape: &[u8]) -> bool {
    let wanted = |entered: &mut HashMap<ShapeText, Users>| {
        entered.get_mut(shape).map(|users| users.is_wanted = true).is_some()
    };
    per_thread::with(&ENTERED, table, wanted).unwrap_or(false)
}

/// Adds the seat's record at a shape as part of the transaction, which has declared [`KEY`] (SH1). If there
/// are too many, the shapes go that it has no pattern of any more.
///
/// # Errors
/// [`TOO_MANY`]; as [`Txn::write`].
pub(crate) fn enter(txn: &Txn<'_>, shape: &[u8]) -> Result<(), Stop> {
    let bytes = record::bytes(txn, txn.peek(SYSTEM, KEY)?)?.unwrap_or_default();
    let mut written = rewritten(txn, &bytes, &[shape], 1);
    if entries(&written).count() > SHAPES_MAX {
        let unused = unused(txn.table());
        let names: Vec<&[u8]> = unused.iter().map(|shape| &shape[..]).collect();
        written = rewritten(txn, &written, &names, i64::MIN);
        if entries(&written).count() > SHAPES_MAX {
            return Err(TOO_MANY.into());
        }
        // Without a commit the records stay, and count for nothing but their place.
        forget(txn.table(), &unused);
    }
    record::put(txn, KEY, &written)
}

/// Notes that a transaction has committed a subscription with this shape (SH2).
pub(crate) fn note_entered(table: &Table, shape: &[u8]) {
    let is_new = per_thread::with(&ENTERED, table, |entered| {
        let is_new = !entered.contains_key(shape);
        let users = entered.entry_ref(shape).or_default();
        *users = Users { count: users.count + 1, is_wanted: false };
        is_new
    });
    if is_new != Some(false) {
        // SYNC: tokens
        let moved = |word: u64| Some(word.wrapping_add(STEP) | ANY);
        let _ = table.segment().word(header::TOKENS).fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
    }
}

/// Notes that a subscription with this shape has ended.
pub(crate) fn note_left(table: &Table, shape: &[u8]) {
    per_thread::with(&ENTERED, table, |entered| {
        if let Some(users) = entered.get_mut(shape) {
            users.count = users.count.saturating_sub(1);
        }
    });
}

fn unused(table: &Table) -> Vec<ShapeText> {
    per_thread::with(&ENTERED, table, |entered| {
        entered.iter().filter(|(_, users)| users.is_unused()).map(|(shape, _)| shape.clone()).collect()
    })
    .unwrap_or_default()
}

fn forget(table: &Table, shapes: &[ShapeText]) {
    per_thread::with(&ENTERED, table, |entered| entered.retain(|shape, _| !shapes.contains(shape)));
}

/// Leaves the shapes that no pattern of the calling thread has any more. If the list is locked, that is left
/// for the next time. Not inside a transaction.
pub(crate) fn leave_unused(table: &Table) {
    per_thread::with(&ENTERED, table, |entered| {
        entered.values_mut().for_each(|users| users.is_wanted = false);
    });
    let unused = unused(table);
    if !unused.is_empty() && rewrite(table, &unused).is_ok() {
        forget(table, &unused);
    }
}

/// Returns true if the calling thread's seat has no record at any shape.
pub(crate) fn has_left_all(table: &Table) -> bool {
    per_thread::with(&ENTERED, table, |entered| entered.is_empty()).unwrap_or(true)
}

/// Takes the records of the dead out of the list.
///
/// # Errors
/// As [`Txn::write`].
pub(crate) fn sweep(table: &Table) -> Result<(), Stop> {
    rewrite(table, &[])
}

/// Takes the records of the dead out of the list, and those of the calling thread's seat at some shapes.
fn rewrite(table: &Table, left: &[ShapeText]) -> Result<(), Stop> {
    let word = table.segment().word(header::TOKENS);
    // SYNC: tokens. Before the list is looked at (SH3).
    let seen = word.load(Ordering::SeqCst);
    let left: Vec<&[u8]> = left.iter().map(|shape| &shape[..]).collect();
    let mut is_empty = false;
    post::run(table, &mut |txn| {
        let bytes = record::bytes(txn, txn.peek(SYSTEM, KEY)?)?.unwrap_or_default();
        // All that the seat has there.
        let written = rewritten(txn, &bytes, &left, i64::MIN);
        is_empty = written.is_empty();
        if written == *bytes { Ok(()) } else { record::put(txn, KEY, &written) }
    })?;
    if is_empty && seen & ANY != 0 {
        let _ =
            word.compare_exchange(seen, seen.wrapping_add(STEP) & !ANY, Ordering::SeqCst, Ordering::SeqCst);
    }
    Ok(())
}

/// The shapes of a segment, as the calling thread has read them when the word had this value.
struct KnownShapes {
    segment: u64,
    word: u64,
    shapes: Rc<[ShapeText]>,
}

thread_local! {
    static KNOWN: RefCell<Vec<KnownShapes>> = const { RefCell::new(Vec::new()) };
}

/// The shapes that are in use; `None`: there is none, as mostly.
///
/// # Errors
/// A fault.
#[inline]
pub(crate) fn used(commit: &dyn CommitView) -> Result<Option<Rc<[ShapeText]>>, Stop> {
    // SYNC: tokens. Before the shapes are looked up (SH2).
    let word = commit.segment().observe(header::TOKENS);
    if word & ANY == 0 { Ok(None) } else { used_at(commit, word).map(Some) }
}

/// The shapes: those that the thread knows if it has read them under this word.
fn used_at(commit: &dyn CommitView, word: u64) -> Result<Rc<[ShapeText]>, Stop> {
    let segment = commit.segment().id();
    let known = KNOWN.with_borrow(|known| {
        let known = known.iter().find(|known| known.segment == segment && known.word == word);
        known.map(|known| known.shapes.clone())
    });
    if let Some(shapes) = known {
        return Ok(shapes);
    }
    let bytes = record::bytes(commit, commit.glimpse(SYSTEM, KEY)?)?.unwrap_or_default();
    let shapes: Rc<[ShapeText]> = entries(&bytes).map(|entry| ShapeText::from_slice(entry.name)).collect();
    KNOWN.with_borrow_mut(|known| {
        known.retain(|known| known.segment != segment);
        known.push(KnownShapes { segment, word, shapes: shapes.clone() });
    });
    Ok(shapes)
}
