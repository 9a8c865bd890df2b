//! Many calls at once: collected first, then run with overlapping cache misses ([`Batch`]).
use polder_base::Reply;
use polder_runtime::{Progress, TOGETHER_MAX};
use smallvec::SmallVec;

use crate::answer::Answer;
use crate::caller::Caller;
use crate::presence::Presence;
use crate::{Memory, Outlook};

/// How many calls are looked ahead for: enough to hide the memory's latency, few enough to stay in the first cache.
const CHUNK: usize = 64;

/// Calls for [`Caller::run_batch`] and [`Caller::run_atomically`]. A batch may be run again, or cleared and filled again.
///
/// ```
/// # let name = format!("shm:polder-doc-batch-{}", std::process::id());
/// # use polder_engine::{Batch, Caller, Item, Memory, Options};
/// # use std::sync::Arc;
/// # let memory = Arc::new(Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?);
/// let mut caller = Caller::new(&memory);
/// let mut batch = Batch::new();
/// batch.add(&["SET", "a", "1"]).add(&["INCR", "a"]).add(&["LPUSH", "a", "x"]);
/// let answer = caller.run_batch(&batch)?;
/// let replies: Vec<Item> = answer.items().collect();
/// assert_eq!(replies[..2], [Item::Status(b"OK"), Item::Integer(2)]);
/// assert!(matches!(replies[2], Item::Error(text) if text.starts_with(b"WRONGTYPE")));
/// # Memory::remove(&name)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each argument ends among the bytes.
    ends: Vec<usize>,
    /// Where each call ends among the arguments.
    calls: Vec<usize>,
}

impl Batch {
    /// A batch without calls.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Appends a call.
    pub fn add(&mut self, args: &[impl AsRef<[u8]>]) -> &mut Batch {
        for arg in args {
            self.bytes.extend_from_slice(arg.as_ref());
            self.ends.push(self.bytes.len());
        }
        self.calls.push(self.ends.len());
        self
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Removes the calls, and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.calls.clear();
    }

    /// Passes the calls to `show` in chunks of calls that are run together.
    pub(crate) fn each_chunk(&self, mut show: impl FnMut(&[&[&[u8]]])) {
        let (mut call, mut first) = (0, 0);
        while call < self.calls.len() {
            let upto = self.calls.len().min(call + CHUNK);
            let last = self.calls[upto - 1];
            let begin = |arg: usize| if arg == 0 { 0 } else { self.ends[arg - 1] };
            let args: Vec<&[u8]> = (first..last).map(|arg| &self.bytes[begin(arg)..self.ends[arg]]).collect();
            let mut from = first;
            let calls: SmallVec<[&[&[u8]]; CHUNK]> = self.calls[call..upto]
                .iter()
                .map(|&end| {
                    let own = &args[from - first..end - first];
                    from = end;
                    own
                })
                .collect();
            show(&calls);
            (call, first) = (upto, last);
        }
    }
}

/// Runs some calls of a batch.
pub(crate) fn run_chunk(caller: &mut Caller, calls: &[&[&[u8]]], outlook: &mut Outlook, answer: &mut Answer) {
    let db = caller.database();
    caller.memory().prefetch(calls.iter().map(|args| (db, *args)), outlook);
    let mut at = 0;
    while at < calls.len() {
        let company = company(caller.memory(), outlook, &calls[at..], at);
        caller.sit_out(calls[at]);
        let (memory, session) = caller.parts();
        let host = &Presence::of(memory);
        let (done, progress) = match company.len() {
            0 | 1 => {
                let progress = memory.execute_foreseen(session, host, outlook, at, calls[at], answer);
                (usize::from(progress == Progress::Answered), progress)
            }
            _ => memory.execute_together(session, host, &company, answer),
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
            calls[at..].iter().for_each(|_| answer.error("ERR the caller was ended by CLIENT KILL or by QUIT"));
            return;
        }
    }
}

/// The first of the calls and those behind it that may share its transaction.
fn company<'c, 'a>(
    memory: &Memory,
    outlook: &Outlook,
    calls: &'c [&'c [&'a [u8]]],
    number: usize,
) -> SmallVec<[&'c [&'a [u8]]; TOGETHER_MAX]> {
    let (mut together, mut common) = (SmallVec::new(), None);
    for (at, call) in calls.iter().take(TOGETHER_MAX).enumerate() {
        match memory.common(outlook, number + at, call) {
            Some(own) if *common.get_or_insert(own) == own => together.push(*call),
            _ => break,
        }
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_all_calls_in_order() {
        let mut batch = Batch::new();
        for number in 0..200 {
            batch.add(&vec![number.to_string(); number % 4]);
        }
        let mut seen = Vec::new();
        batch.each_chunk(|calls| seen.extend(calls.iter().map(|args| args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>())));
        assert_eq!(seen.len(), 200);
        for (number, args) in seen.iter().enumerate() {
            assert_eq!(*args, vec![number.to_string().into_bytes(); number % 4]);
        }
    }
}
