//! A copy between two memories of one host: the replica attaches the segment of its primary and reads it, and
//! no byte of it goes over the connection.
//!
//! ```text
//!   link                                              feed
//!   REPLCONF polder-attach BOOT                -->    the same start of the same machine? noted, else passed over
//!   PSYNC ID OFFSET                            -->    no place to go on from: the log is held from its end on (F1)
//!   attaches NAME, finds WORD in it            <--    +ATTACH NAME WORD
//!   snapshot at a cut of the log, copied, installed   hears line feeds meanwhile (F3)
//!   REPLCONF attached OFFSET                   -->    +CONTINUE ID, the log from OFFSET on (F2)
//!   REPLCONF attached no                       -->    +FULLRESYNC and an RDB file, as to any other replica
//! ```
//!
//! - **T1** The link reads the memory of its primary and no other: WORD is random, and stands in the hidden
//!   database of that memory alone. A name may lead to another segment, in another container or behind a file
//!   that was moved.
//! - **T2** The seat of the link there owns the snapshot, and holds locks for moments only: that of the map
//!   while the roots are read, and that of the log while it merges. It is that of a thread which ends with
//!   the copy. If its process dies, any thread of the primary recovers the seat: the snapshot ends, and the
//!   feed, whose connection is closed, gives the log back. A process that is stopped keeps both until it goes
//!   on or ends: the nodes that it reads must not go meanwhile.
//! - **T3** If all processes of the primary die, the copy is read to its end and installed: the segment is
//!   there. What follows it comes when a server is back.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder_base::words::{quote, split};
use polder_persist::copying::{Copied, Plan, copy};
use polder_persist::saves::save::Progress;
use polder_persist::{followers, opened};
use polder_shm::change_log::Stream;
use polder_shm::layout::header;
use polder_shm::{AttachOptions, Role, Segment, SegmentName};
use polder_table::{STAGED, SYSTEM, Table};

/// The option of REPLCONF by which a link says that it can attach, and the one by which it says what has come
/// of it.
pub(crate) const OFFER: &str = "polder-attach";
pub(crate) const ATTACHED: &[u8] = b"attached";
/// The value of the latter where the link cannot.
pub(crate) const REFUSED: &[u8] = b"no";
/// The beginning of the reply to PSYNC.
pub(crate) const ORDER: &str = "+ATTACH";

/// The time for which a cut waits for another snapshot of the primary and for transactions that have begun
/// there.
const PATIENCE: Duration = Duration::from_secs(60);
/// Threads that copy, at most.
const COPIERS_MAX: usize = 4;

/// The start of this machine since which the memory is in use.
pub(crate) fn boot_of(table: &Table) -> String {
    let word = |number: u64| table.segment().load(header::BOOT_ID + number * 8);
    format!("{:016x}{:016x}", word(0), word(1))
}

/// The line by which a feed has a link attach the memory, where the record with this name stands.
pub(crate) fn order(table: &Table, word: &str) -> String {
    let name = match table.segment().mapping().name() {
        SegmentName::File(path) => {
            SegmentName::File(std::path::absolute(path).unwrap_or_else(|_| path.clone())).to_string()
        }
        name => name.to_string(),
    };
    format!("{ORDER} {} {}\r\n", quote(name.as_bytes()), quote(word.as_bytes()))
}

/// The memory of a primary, attached.
pub(crate) struct Attached(Table);

impl Attached {
    /// Attaches the memory that an [`order`] names.
    ///
    /// # Errors
    /// The reason for which it cannot be read, in words.
    pub(crate) fn by(order: &str) -> Result<Attached, String> {
        let words = order.strip_prefix(ORDER).and_then(|words| split(words.as_bytes()));
        let words = words.ok_or("the primary names no segment")?;
        let [name, word] = <[Vec<u8>; 2]>::try_from(words).map_err(|_| "the primary names no segment")?;
        let name: SegmentName = String::from_utf8_lossy(&name)
            .parse()
            .map_err(|error| format!("the segment of the primary: {error}"))?;
        // One that must be put in order first is no memory that a server has.
        let segment = Segment::attach(&name, &AttachOptions::default(), &mut |_, _| {
            Err(polder_base::Fault::System("it is a file of an earlier start of this machine".into()))
        });
        let table = Table::over(segment.map_err(|error| error.to_string())?);
        // T1.
        let found = followers::all(&table).map_err(|stop| stop.to_string())?;
        if !found.iter().any(|place| place.name == word) {
            return Err(format!("{name} is another memory here than at the primary"));
        }
        opened::check_open(&table)?;
        if table.is_tiered() {
            return Err(format!("values of {name} may lie in a tier"));
        }
        Ok(Attached(table))
    }

    /// Copies the memory into the staged databases of another one, in a role of that. Returns what belongs to
    /// no database, and where the stream goes on.
    ///
    /// # Errors
    /// The reason, in words.
    pub(crate) fn copy(
        &self,
        to: &Table,
        role: Role,
        progress: &Progress,
    ) -> Result<(Copied, Stream), String> {
        let (source, end) = (&self.0, Instant::now() + PATIENCE);
        let mut goes_on = || Instant::now() < end && !progress.cancelled.load(Ordering::Relaxed);
        let (mut stream, begun) = (None, source.segment().log_identity());
        let snapshot = source
            .snapshot_in_log(&mut goes_on, &mut |place, db| {
                let state = db.map_or(0, |db| u64::from(db) + 1);
                let identity = source.segment().log_identity();
                stream = Some(Stream { identity, offset: source.log().offset_of(place), state });
            })
            .map_err(|fault| fault.to_string())?;
        let stream = stream.ok_or("the snapshot has no place in the change log")?;
        // A log that has begun anew lacks what was held back for the snapshot, which lacks it as well.
        if [stream.identity, source.segment().log_identity()] != [begun; 2] {
            return Err("the primary's change log has begun anew".into());
        }
        to.prepare_for(source);
        for captured in snapshot.databases().iter().filter(|captured| captured.db != SYSTEM) {
            let extents = source.shape(captured.db).extents;
            to.make_database(captured.db + STAGED, extents).map_err(|stop| stop.to_string())?;
        }
        let copiers = std::thread::available_parallelism().map_or(1, usize::from).min(COPIERS_MAX);
        let plan = Plan { to, staged_for: Some(role), system: |_| false, copiers, progress };
        let copied = copy(&snapshot, &plan)?;
        Ok((copied, stream))
    }
}

/// The reason for which there is no copy.
pub(crate) enum NoCopy {
    /// The memory cannot be attached: a file can be sent.
    Unattached(String),
    Failed(String),
}

/// Says that a thread is over, however it ends.
pub(crate) struct Ending<'e> {
    pub(crate) is_over: &'e AtomicBool,
    pub(crate) waits: std::thread::Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.waits.unpark();
    }
}
