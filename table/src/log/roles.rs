//! A memory becomes a replica, or a primary.
//!
//! ```text
//!   follow    log on -> ROLE odd  -> REFUSES -> wait for transactions -> all is in the log
//!   promote   ROLE even -> wait for transactions -> all is in the log, which gets another name (I3 of `polder_shm::link`) -> writes are taken again
//! ```
//!
//! ROLE says what the memory is: where the log is on, as in every replica, a commit looks at it ([K3](crate::log::recording)). REFUSES spares others that look, and
//! may lag behind for a moment. A thread that dies on the way leaves the rest, and [`Table::settle_role`], which each server calls now and then, does
//! it: every step may be done again.
use std::time::Duration;

use polder_base::Fault;
use polder_shm::change_log::Name;
use polder_shm::{Role, sync};

use crate::api::{Db, Mode, STAGED, SYSTEM, Stop};
use crate::table::Table;

/// The time for which a change of the role waits for transactions.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

impl Table {
    /// The role of the memory.
    #[inline]
    pub fn role(&self) -> Role {
        self.segment().role()
    }

    /// Makes the memory a replica, or one that follows anew: from now on only a [`Rider`](crate::Rider) of the role that this returns changes keys.
    ///
    /// # Errors
    /// A fault: a process that is stopped inside a transaction. The memory has the role nevertheless.
    pub fn follow(&self) -> Result<Role, Fault> {
        self.log().turn_on()?;
        let role = self.change_role(true);
        self.refuse_writes(true);
        self.await_others()?;
        self.log().merge()?;
        Ok(role)
    }

    /// Makes the memory a primary. Replicas that have no more than it goes on from go on with it.
    ///
    /// # Errors
    /// A fault: the memory refuses writes until [`Table::settle_role`] has come to the end.
    pub fn promote(&self) -> Result<(), Fault> {
        if self.role().is_replica() {
            self.change_role(false);
        }
        self.end_promotion()
    }

    fn change_role(&self, is_replica: bool) -> Role {
        loop {
            if let Some(role) = self.segment().link().change_role(self.role(), is_replica) {
                return role;
            }
        }
    }

    /// Does what a thread has left that died while it changed the role.
    ///
    /// # Errors
    /// Those of [`Table::promote`].
    pub fn settle_role(&self) -> Result<(), Fault> {
        match (self.role().is_replica(), self.segment().refuses_writes()) {
            (true, false) => {
                self.log().turn_on()?;
                self.refuse_writes(true);
                self.await_others()
            }
            (true, true) if !self.segment().logs() => self.log().turn_on(),
            (false, true) => self.end_promotion(),
            (false, false) if !self.role().is_first() => {
                let _ = self.clear_staged(self.role());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end_promotion(&self) -> Result<(), Fault> {
        let role = self.role();
        if role.is_replica() || !self.segment().refuses_writes() {
            return Ok(());
        }
        // A3. One that is stopped in a commit of the old role has told what it does, and only its keys wait for it.
        let _ = self.await_others();
        self.rename_stream(Name::OfRole(role))?;
        self.refuse_writes(false);
        // The rest of a copy: if it cannot be removed now, the next look at the role tries again.
        let _ = self.clear_staged(role);
        Ok(())
    }

    /// Empties the staged databases: what a link has loaded that has come to no end. Only in a replica, for the thread of its link; and while the role
    /// changes, when no link can commit.
    ///
    /// # Errors
    /// [`OTHER_ROLE`](crate::OTHER_ROLE); a fault.
    pub fn clear_staged(&self, role: Role) -> Result<(), Stop> {
        let filled: Vec<Db> = (STAGED..STAGED + SYSTEM).filter(|db| self.is_database(*db)).collect();
        if filled.is_empty() {
            return Ok(());
        }
        let _rider = self.ride(role)?;
        let txn = self.begin(Mode::Write)?;
        // The caller may be one that others wait for.
        txn.limit_patience(PATIENCE);
        loop {
            match filled.iter().try_for_each(|db| txn.flush(Some(*db))).and_then(|()| txn.commit()) {
                Err(Stop::Retry) => txn.abort(),
                done => return done,
            }
        }
    }

    /// Gives the stream the name that the primary has told: it has been promoted itself.
    ///
    /// # Errors
    /// A fault.
    pub fn rename_stream_of_primary(&self, identity: [u8; 40], role: Role) -> Result<(), Fault> {
        self.rename_stream(Name::OfPrimary(identity, role))
    }

    fn rename_stream(&self, name: Name) -> Result<(), Fault> {
        let (seat, end) = (self.seat()?, sync::now() + PATIENCE);
        while !(self.log().merge_before()? && seat.rename_stream(name)?) {
            if sync::now() >= end {
                return Err(Fault::System(
                    "the log of the memory is held by a process that is stopped: let it go on or end it"
                        .into(),
                ));
            }
            sync::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Waits for the end of transactions that may have seen the memory in another role.
    fn await_others(&self) -> Result<(), Fault> {
        let (end, seat) = (sync::now() + PATIENCE, self.seat()?);
        self.segment().recover_dead();
        self.segment().await_transactions(seat.index(), &mut || sync::now() < end).map_err(|_| {
            Fault::System(
                "a process is stopped inside a transaction: let it go on or end it, and try again".into(),
            )
        })
    }
}
