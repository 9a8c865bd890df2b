//! The copy from a primary on this host (`attaching.rs`): a thread of its own makes it, while the thread of the link looks
//! after the connection.
use std::sync::atomic::{AtomicBool, Ordering};

use polder_calls::settings::id;
use polder_persist::copying::Copied;
use polder_persist::saves::load::Loaded;
use polder_persist::saves::save::Progress;
use polder_shm::LinkState;
use polder_shm::change_log::Stream;
use polder_table::Db;

use super::{End, Following, PAUSE, TELL_PERIOD, Transport, shown};
use crate::attaching::{ATTACHED, Attached, Ending, NoCopy, REFUSED};

impl Following<'_, '_> {
    pub(super) fn transport(&self) -> Transport {
        match self.follower.settings.number(const { id("repl-transport") }) {
            1 => Transport::Rdb,
            2 => Transport::Attach,
            _ => Transport::Auto,
        }
    }

    /// Copies the memory of the primary as its reply to PSYNC says; or has it send a file, where that cannot
    /// be.
    pub(super) fn take_attached(&mut self, order: &str) -> Result<(), End> {
        self.figures.copy_bytes = 0;
        self.figures.copy_read = 0;
        self.tell(LinkState::Copies);
        let (copied, stream) = match self.copy(order)? {
            Ok(copied) => copied,
            Err(NoCopy::Unattached(why)) => return self.decline(&why),
            Err(NoCopy::Failed(why)) => {
                self.clear_staged();
                return Err(End::from(format!("the memory of the primary cannot be copied: {why}")).stuck());
            }
        };
        let Copied { keys, functions, flushes } = copied;
        let stream_db = stream.state.checked_sub(1).map(|db| db as Db);
        let flushes = Some(flushes).filter(|flushes| !flushes.is_empty());
        let loaded = Loaded { keys, functions, flushes, stream_db, ..Loaded::default() };
        if let Err(end) = self.accept(&loaded, stream) {
            self.clear_staged();
            return Err(end.stuck());
        }
        self.request(&[b"REPLCONF", ATTACHED, stream.offset.to_string().as_bytes()])?;
        let reply = self.line()?;
        match reply.starts_with("+CONTINUE") {
            true => Ok(()),
            false => Err(format!("the primary replies to the end of a copy: {}", shown(&reply)).into()),
        }
    }

    /// Has the primary send a file.
    fn decline(&mut self, why: &str) -> Result<(), End> {
        if self.transport() == Transport::Attach {
            return Err(End::from(format!("repl-transport attach: {why}")).stuck());
        }
        tracing::info!(why, "the memory of the primary cannot be attached: a file comes over the connection");
        self.request(&[b"REPLCONF", ATTACHED, REFUSED])?;
        let reply = self.line()?;
        if !reply.starts_with("+FULLRESYNC ") {
            return Err(format!("the primary replies to PSYNC: {}", shown(&reply)).into());
        }
        self.take_place(&reply, "")
    }

    /// Copies in a thread of its own, whose seat in the memory of the primary goes with it. The primary hears
    /// a line feed each second.
    fn copy(&mut self, order: &str) -> Result<Result<(Copied, Stream), NoCopy>, End> {
        let (table, role) = (self.follower.table, self.follower.role);
        let (progress, is_over) = (Progress::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let ending = Ending { is_over: &is_over, waits: std::thread::current() };
            let progress = &progress;
            let thread = scope.spawn(move || {
                let _ending = ending;
                let attached = Attached::by(order).map_err(NoCopy::Unattached)?;
                tracing::info!("the memory of the primary is copied");
                attached.copy(table, role, progress).map_err(NoCopy::Failed)
            });
            let mut waited = Ok(());
            while !is_over.load(Ordering::Acquire) {
                std::thread::park_timeout(PAUSE);
                if waited.is_ok() {
                    waited = self.stay();
                    progress.cancelled.store(waited.is_err(), Ordering::Relaxed);
                }
            }
            let panicked = |_| Err(NoCopy::Failed("the thread that copied has panicked".into()));
            let copied = thread.join().unwrap_or_else(panicked);
            if waited.is_err() {
                self.clear_staged();
            }
            waited.map(|()| copied)
        })
    }

    /// Looks after the connection while a copy is made.
    fn stay(&mut self) -> Result<(), End> {
        if self.follower.is_over() {
            return Err(End::Over);
        }
        if self.told.elapsed() < TELL_PERIOD {
            return Ok(());
        }
        self.tell(LinkState::Copies);
        // T3: a primary that has died, with what it has sent, is seen when the copy is there.
        let _ = self.link.send(b"\n");
        self.hear();
        Ok(())
    }
}
