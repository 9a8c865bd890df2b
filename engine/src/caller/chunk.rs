//! Runs the calls of a batch chunk by chunk: successive calls that may share a transaction do.
use polder_base::Reply;
use polder_runtime::{Progress, TOGETHER_MAX};
use smallvec::SmallVec;

use super::Caller;
use crate::answer::Answer;
use crate::presence::Presence;
use crate::{BatchPlan, Memory};

/// Runs some calls of a batch.
pub(super) fn run_chunk(caller: &mut Caller, calls: &[&[&[u8]]], plan: &mut BatchPlan, answer: &mut Answer) {
    let db = caller.database();
    caller.memory().prefetch(calls.iter().map(|args| (db, *args)), plan);
    let mut at = 0;
    while at < calls.len() {
        let group = group(caller.memory(), plan, &calls[at..], at);
        caller.wait_for_pause(calls[at]);
        let (memory, session) = caller.parts();
        let host = &Presence::of(memory);
        let (done, progress) = match group.len() {
            0 | 1 => {
                let progress = memory.execute_foreseen(session, host, plan, at, calls[at], answer);
                (usize::from(progress == Progress::Answered), progress)
            }
            _ => memory.execute_together(session, host, &group, answer),
        };
        if progress == Progress::Busy {
            // As a single call does it, from the first that was not run on.
            caller.execute(calls[at + done], Some(answer));
            at += 1;
        }
        at += done;
        caller.after();
        if caller.is_closing() {
            // As a connection that was closed behind QUIT: the rest is not read.
            calls[at..]
                .iter()
                .for_each(|_| answer.error("ERR the caller was ended by CLIENT KILL or by QUIT"));
            return;
        }
    }
}

/// The first of the calls and those behind it that may share its transaction.
fn group<'c, 'a>(
    memory: &Memory,
    plan: &BatchPlan,
    calls: &'c [&'c [&'a [u8]]],
    number: usize,
) -> SmallVec<[&'c [&'a [u8]]; TOGETHER_MAX]> {
    let (mut together, mut common) = (SmallVec::new(), None);
    for (at, call) in calls.iter().take(TOGETHER_MAX).enumerate() {
        match memory.batch_key(plan, number + at, call) {
            Some(own) if *common.get_or_insert(own) == own => together.push(*call),
            _ => break,
        }
    }
    together
}
