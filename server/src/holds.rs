//! A connection whose replies are held until the disk or replicas have what they tell, and when they are free (`turn/disk.rs`, K1 to K5).
use polder_calls::waiting::Copies;
use polder_engine::Table;
use polder_shm::{Role, Segment};

/// The state of a connection in regard to the disk and replicas (`turn/disk.rs`).
#[derive(Default)]
pub struct DiskState {
    /// The reason why what waits to be sent is not sent.
    pub hold: Option<Hold>,
    /// Part of what waits may have been sent before.
    pub partly_sent: bool,
    /// The work of calls since the last time that something was sent.
    pub written: Written,
}

/// The work of calls on the data.
#[derive(Clone, Copy, Default)]
pub struct Written {
    /// They are of a kind that writes.
    pub perhaps: bool,
    /// They have written, or found what they were to write.
    pub surely: bool,
}

impl Written {
    /// The work of calls that may write, made since this thread's count of commits was `commits` ([`Table::own_commits`]).
    pub fn since(commits: u64, table: &Table) -> Written {
        Written { perhaps: true, surely: table.own_commits() != commits }
    }

    pub fn add(&mut self, more: Written) {
        self.perhaps |= more.perhaps;
        self.surely |= more.surely;
    }
}

/// A connection that is held: what waits to be sent on it stays.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// The commits before this number are waited for.
    pub csn: u64,
    pub in_file: bool,
    pub with_replicas: bool,
    /// The role in which the memory was (K4).
    pub role: Role,
    /// No part of what waits has been sent (K5).
    pub is_whole: bool,
    pub since_ms: u64,
}

impl Hold {
    /// Has the storage process and the feeds of replicas hurry.
    pub fn want(&self, segment: &Segment) {
        let replicas = u64::from(self.with_replicas);
        Copies { csn: self.csn, in_file: self.in_file, replicas, in_files: false }.want(segment);
    }
}

/// The places that the disk and the replicas have reached.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// The disk has the commits below this number.
    pub durable: u64,
    /// The wanted count of replicas has those below this one.
    pub acknowledged: u64,
    /// The role of the memory; `None` where no replicas are wanted.
    pub role: Option<Role>,
    /// The moment, in milliseconds since the epoch, such that replies that were held then or before are given up.
    pub given_up_ms: u64,
}

/// The fate of a connection that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Free,
    Waits,
    /// Its replies never leave.
    Late,
}

impl Reached {
    /// Judges a connection.
    pub fn verdict(&self, hold: &Hold) -> Verdict {
        let role = self.role.filter(|_| hold.with_replicas);
        let has_kept_role = role.is_none_or(|role| role == hold.role);
        let has_replicas = role.is_none() || has_kept_role && hold.csn <= self.acknowledged;
        match has_replicas && (!hold.in_file || hold.csn <= self.durable) {
            true => Verdict::Free,
            false if !has_kept_role || !has_replicas && hold.since_ms <= self.given_up_ms => Verdict::Late,
            false => Verdict::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another role.
    fn other() -> Role {
        Role::of(2)
    }

    fn hold(in_file: bool, with_replicas: bool) -> Hold {
        Hold { csn: 10, in_file, with_replicas, role: Role::default(), is_whole: true, since_ms: 100 }
    }

    fn reached(durable: u64, acknowledged: u64) -> Reached {
        Reached { durable, acknowledged, role: Some(Role::default()), given_up_ms: 99 }
    }

    #[test]
    fn a_reply_leaves_when_all_that_it_waits_for_is_there() {
        for (in_file, with_replicas, free_at) in
            [(true, true, [false, false, false, true]), (true, false, [false, true, false, true])]
        {
            let hold = hold(in_file, with_replicas);
            let at = [(9, 9), (10, 9), (9, 10), (10, 10)].map(|(durable, acknowledged)| {
                reached(durable, acknowledged).verdict(&hold) == Verdict::Free
            });
            assert_eq!(at, free_at, "{in_file} {with_replicas}");
        }
        assert_eq!(reached(0, 10).verdict(&hold(false, true)), Verdict::Free);
        let unwanted = Reached { role: None, ..reached(0, 0) };
        assert_eq!(unwanted.verdict(&hold(false, true)), Verdict::Free, "the setting is off");
    }

    #[test]
    fn only_replicas_have_a_time_limit() {
        let late = Reached { given_up_ms: 100, ..reached(9, 9) };
        assert_eq!(late.verdict(&hold(false, true)), Verdict::Late);
        assert_eq!(late.verdict(&hold(true, false)), Verdict::Waits);
        // The disk is late, and the replicas are not.
        assert_eq!(Reached { acknowledged: 10, ..late }.verdict(&hold(true, true)), Verdict::Waits);
        assert_eq!(reached(9, 9).verdict(&hold(false, true)), Verdict::Waits);
    }

    #[test]
    fn another_role_ends_what_waits_for_replicas() {
        let hold = Hold { role: other(), ..hold(true, true) };
        assert_eq!(reached(10, 10).verdict(&hold), Verdict::Late);
        assert_eq!(reached(10, 10).verdict(&Hold { with_replicas: false, ..hold }), Verdict::Free);
    }
}
