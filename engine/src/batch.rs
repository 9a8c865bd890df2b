//! Many calls at once: collected first, then run with overlapping cache misses ([`Batch`]).
use smallvec::SmallVec;

/// How many calls are looked ahead for: enough to hide the memory's latency, few enough to stay in the first cache.
pub(crate) const CHUNK: usize = 64;

/// Calls for [`Caller::run_batch`](crate::Caller::run_batch) and [`Caller::run_atomically`](crate::Caller::run_atomically). A batch may be run again, or cleared and filled again.
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
        batch.each_chunk(|calls| {
            seen.extend(calls.iter().map(|args| args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>()))
        });
        assert_eq!(seen.len(), 200);
        for (number, args) in seen.iter().enumerate() {
            assert_eq!(*args, vec![number.to_string().into_bytes(); number % 4]);
        }
    }
}
