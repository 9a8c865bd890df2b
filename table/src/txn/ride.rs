//! Transactions of the thread that follows a primary: they are committed although writes are refused, and the log gets the primary's own bytes.
//!
//! ```text
//!   a client's transaction   changes, told as commands         -> record: commands       REFUSES: no commit
//!   Staged                   a key of the copy                 -> no record              before the install no client sees it
//!   Stream                   the install of the copy           -> the log begins anew    databases, identity and offsets in one commit
//!   Bytes                    a command of the primary          -> record: its own bytes  data and offset in one commit
//! ```
//!
//! - **A1** A change that comes from the primary and the bytes that tell of it are one commit. So the end of the log, once all outboxes are merged, is the
//!   offset of exactly what has been done here, whatever dies when: a link that takes over asks for the next byte.
//! - **A2** Bytes that change nothing (PING, SELECT, commands that meet nothing) are kept by the link and travel with the next ones, or alone
//!   ([`Rider::send_alone`]). They are never left out and never doubled, since replicas of this memory count the same bytes.
//! - **A3** A ride belongs to a role. Each commit of it looks at ROLE with its locks held, and fails where the memory has another role by now. A change of role
//!   waits for the transactions that may have looked before; a promotion does not wait for ever. So the record says the role, and one that was made
//!   before the stream got its present name ends that stream (`Resp::record` in `log.rs`): a link that was stopped in its commit changes a key of the promoted memory, and
//!   followers of it begin with a copy that has the change.
//! - **A4** The bytes go through the outbox of the seat, like other records. So a cut (L8), WAIT, the append-only file and this memory's own replicas
//!   work as in a primary.
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use polder_base::Fault;
use polder_shm::change_log::Stream;
use polder_shm::layout::{log, recording};
use polder_shm::{Role, Seat, sync};

use crate::api::{Db, Mode, STAGED, Stop};
use crate::log::telling::Verbatim;
use crate::table::Table;
use crate::txn::Txn;

/// A commit that finds the memory in another role.
pub const OTHER_ROLE: &str = "ERR the memory follows another primary by now, or none";
/// The pause before another attempt where another thread works on the log.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
const NO_ROOM: &str = "the change log has no room for what the primary sends: give the segment more memory";

thread_local! {
    static RIDE: RefCell<Option<Rc<Ride>>> = const { RefCell::new(None) };
}

/// The origin of the changes of a thread.
pub(crate) struct Ride {
    role: Role,
    carried: RefCell<Carried>,
}

/// The record that a commit is to make.
enum Carried {
    Staged,
    Stream(Stream),
    /// Bytes of the primary, the state behind them, and where the seat's outbox ended before: it ends elsewhere when a commit has taken them.
    Bytes {
        bytes: Vec<u8>,
        state: u64,
        outbox_end: u64,
    },
}

impl Ride {
    /// Returns true if its commit needs an outbox.
    pub(crate) fn tells(&self) -> bool {
        matches!(*self.carried.borrow(), Carried::Bytes { .. })
    }
}

/// The ride of the calling thread.
pub(crate) fn now() -> Option<Rc<Ride>> {
    RIDE.with_borrow(Clone::clone)
}

/// The calling thread makes changes of a primary, until this is dropped.
pub struct Rider<'t> {
    table: &'t Table,
    seat: Rc<Seat>,
    ride: Rc<Ride>,
    /// Its thread's.
    _local: PhantomData<*const ()>,
}

impl Table {
    /// Has the calling thread's transactions change a replica, as long as it has this role: first the staged databases.
    ///
    /// # Errors
    /// [`Fault::System`] where all seats are taken.
    pub fn ride(&self, role: Role) -> Result<Rider<'_>, Fault> {
        let (seat, ride) = (self.seat()?, Rc::new(Ride { role, carried: RefCell::new(Carried::Staged) }));
        seat.ride(true);
        RIDE.set(Some(ride.clone()));
        Ok(Rider { table: self, seat, ride, _local: PhantomData })
    }
}

impl Rider<'_> {
    /// The next transaction that changes something begins the stream of the primary.
    pub fn begin_stream(&self, stream: Stream) {
        *self.ride.carried.borrow_mut() = Carried::Stream(stream);
    }

    /// The next transaction that changes something records these bytes, behind which this database is selected.
    pub fn carry(&self, bytes: &[u8], db: Option<Db>) {
        let state = db.map_or(0, |db| u64::from(db) + 1);
        let outbox_end = self.seat.outbox_end();
        let mut carried = self.ride.carried.borrow_mut();
        match &mut *carried {
            Carried::Bytes { bytes: old, state: old_state, outbox_end: old_end } => {
                old.clear();
                old.extend_from_slice(bytes);
                (*old_state, *old_end) = (state, outbox_end);
            }
            carried => *carried = Carried::Bytes { bytes: bytes.to_vec(), state, outbox_end },
        }
    }

    /// Returns true if a commit has recorded what was carried.
    pub fn is_taken(&self) -> bool {
        match &*self.ride.carried.borrow() {
            Carried::Bytes { outbox_end, .. } => self.seat.outbox_end() != *outbox_end,
            Carried::Stream(stream) => self.table.segment().log_identity() == stream.identity,
            Carried::Staged => false,
        }
    }

    /// Records what is carried, which changes nothing here.
    ///
    /// # Errors
    /// [`OTHER_ROLE`]; a fault.
    pub fn send_alone(&self) -> Result<(), Stop> {
        let txn = self.table.begin(Mode::Read)?;
        loop {
            // Any words: the record is what is carried.
            txn.tell_news(0, &[b"PING"]);
            match txn.commit() {
                Err(Stop::Retry | Stop::Busy) => txn.abort(),
                done => return done,
            }
        }
    }
}

impl Drop for Rider<'_> {
    fn drop(&mut self) {
        self.seat.ride(false);
        RIDE.set(None);
    }
}

impl Txn<'_> {
    /// A3.
    pub(crate) fn check_ride(&self, ride: &Ride, word: u64) -> Result<(), Stop> {
        let is_its_own = word & recording::LOG != 0 && self.segment().role() == ride.role;
        if is_its_own { Ok(()) } else { Err(OTHER_ROLE.into()) }
    }

    /// Records what the ride carries, for the commit that has read `recording`; returns how many more nodes go out of use with it.
    pub(crate) fn record_ride(&self, ride: &Ride, recording: u64) -> Result<u64, Stop> {
        match &*ride.carried.borrow() {
            Carried::Staged => {
                let is_staged =
                    self.buffers.held.borrow().iter().all(|held| held.retires.is_none() || held.db >= STAGED)
                        && self.buffers.map.flushes.borrow().iter().all(|db| *db >= STAGED);
                assert!(is_staged, "a copy is loaded into staged databases");
                Ok(0)
            }
            Carried::Stream(stream) => {
                // L8: a snapshot that makes its cut would get the old data with the new stream's offset. The map's lock, which both take, keeps it from
                // beginning one before the commit.
                let is_cutting = self.segment().observe(log::CUT) != 0;
                if let (false, Some(olds)) = (is_cutting, self.seat.note_stream_of(stream)?) {
                    return Ok(olds);
                }
                sync::sleep(LOOK_AGAIN);
                Err(Stop::Retry)
            }
            Carried::Bytes { outbox_end, .. } if self.seat.outbox_end() != *outbox_end => {
                // A command of several transactions: the first has recorded it.
                Ok(0)
            }
            Carried::Bytes { bytes, state, .. } => {
                let mut record =
                    Verbatim { bytes: &[], state: *state, role: ride.role.word() }.head().to_vec();
                record.extend_from_slice(bytes);
                match self.append(recording, &record)? {
                    Ok(()) => Ok(0),
                    // The link tries again. A log that lacks this would be another one.
                    Err(_) => Err(Fault::Full(NO_ROOM.into()).into()),
                }
            }
        }
    }
}
