//! Connections whose calls wait for values of the tier.
//!
//! ```text
//!   a call stops at stubs   -> the connection is parked, the request stays in its input; what the requests behind it want is noted, too
//!   end of the turn         -> what all calls of the turn want is asked for, in one message to each thread of the tier
//!   all of that is there    -> the request is run again from its beginning, and those behind it
//! ```
use polder_engine::BatchPlan;
use polder_hub::tier;

use super::connections::Connections;
use polder_protocols::batch::{Content, Frame};

/// Keys of requests behind one that has stopped, whose values are asked for with those of that one.
const KEYS_AHEAD: usize = 128;

impl Connections {
    /// Parks a connection in front of a request that has stopped at stubs: the first of `frames`, from number `first` of the plan on. Returns false if it
    /// has not.
    pub fn wait_for_values(
        &mut self,
        slot: usize,
        frames: &[Frame],
        args: &[&[u8]],
        (plan, first): (&BatchPlan, usize),
    ) -> bool {
        let process = self.process.clone();
        let table = process.memory.table();
        let Some(stop) = tier::take_stop(table) else { return false };
        let Some(connection) = &mut self.slots[slot] else { return true };
        let (mut keys, db) = (Vec::new(), connection.session.caller.db);
        for (number, frame) in frames.iter().enumerate().skip(1) {
            let Content::Args { from, to } = frame.content else { continue };
            let args = &args[from..to];
            if let Some(command) = plan.command(first + number)
                && frame.place == frames[0].place
                && command.arity_fits(args.len())
            {
                command.each_key(args, |at, _| keys.push((db, args[at])));
            }
        }
        keys.truncate(KEYS_AHEAD);
        tier::want_ahead(table, stop, &table.stubs_of(&keys));
        connection.park();
        self.waiters.cold.add(stop, slot, self.now_ms);
        self.waiters.cold.owes = true;
        true
    }

    /// Notes that a blocked call has stopped at stubs. It looks again by itself.
    pub fn note_cold(&mut self) {
        self.waiters.cold.owes |= tier::take_stop(self.process.memory.table()).is_some();
    }

    /// Asks for what the calls of this turn want.
    #[inline]
    pub fn ask_for_values(&mut self) {
        if std::mem::take(&mut self.waiters.cold.owes) {
            tier::send(self.process.memory.table(), true);
        }
    }

    /// Has the connections go on that wait for nothing more, or for too long.
    #[inline]
    pub fn retry_cold(&mut self) {
        if self.waiters.cold.due_ms().is_none() {
            return;
        }
        let process = self.process.clone();
        let table = process.memory.table();
        for stop in tier::take_ready(table) {
            self.waiters.cold.take(stop).into_iter().for_each(|slot| self.unpark(slot));
        }
        let late = self.waiters.cold.take_late(self.now_ms, || tier::is_silent(table));
        late.into_iter().for_each(|slot| self.unpark(slot));
    }
}
