//! Parsed requests of many connections, which are prefetched together and then executed one by one.
use std::borrow::Cow;

use polder_wire::http::Refused;
use polder_wire::resp::Malformed;

/// How many requests are prefetched together: enough to hide the latency of memory, few enough to stay in the first cache.
pub const BATCH: usize = 64;

/// The content of a request. It is a plain value, so that a frame is written in its final place. A frame that is built
/// first and then moved makes the processor wait for its own stores, which costs an eighth of the time of a GET.
#[derive(Clone, Copy)]
pub enum Content {
    /// Arguments, as a range of [`Batch::args`].
    Args { from: usize, to: usize },
    /// Anything else, by its number in [`Batch::odds`].
    Odd(usize),
}

/// A request that is not a list of slices of the input.
pub enum Odd {
    /// Arguments that had to be unescaped, as those of RESP's inline requests.
    Words(Vec<Vec<u8>>),
    /// Empty requests, which have no reply.
    Nothing,
    /// A request, or a part of one, that is no call: the protocol itself executes it (`Protocol::own`).
    Own,
    /// A request that is no call of any command: the reply is this error.
    Wrong(Cow<'static, str>),
    /// A request that ends the connection.
    Rejected(Rejection),
}

/// Why a request ends its connection.
pub enum Rejection {
    /// The bytes are not of the protocol.
    Malformed(Malformed),
    /// The bytes are not of HTTP, or ask for more than it gives.
    Refused(Refused),
    /// Nothing more is said to it.
    Silence,
    /// A browser sent an HTTP request, most likely for a page of another site.
    CrossSite,
}

/// One request.
#[derive(Clone, Copy)]
pub struct Frame {
    /// The place in the turn of the connection that sent it.
    pub place: u32,
    /// What the protocol's reader tells its encoder; RESP has nothing to tell.
    pub note: u32,
    pub content: Content,
    /// Where it ends in the connection's input.
    pub end: usize,
}

/// What is left to read of a connection's input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// No whole request.
    Nothing,
    /// Perhaps more, once the batch has been executed.
    Perhaps,
}

/// Requests whose arguments lie in the inputs of this turn.
pub struct Batch<'b> {
    pub args: Vec<&'b [u8]>,
    pub frames: Vec<Frame>,
    pub odds: Vec<Odd>,
}

/// The memory of a batch between two turns.
#[derive(Default)]
pub struct Spare {
    args: Vec<&'static [u8]>,
    frames: Vec<Frame>,
    odds: Vec<Odd>,
}

impl<'b> Batch<'b> {
    /// An empty batch in old memory.
    #[inline]
    pub fn new(spare: &mut Spare) -> Batch<'b> {
        let Spare { args, frames, odds } = std::mem::take(spare);
        Batch { args: recycle(args), frames, odds }
    }

    /// Returns the memory.
    #[inline]
    pub fn end(self, spare: &mut Spare) {
        *spare = Spare { args: recycle(self.args), frames: self.frames, odds: self.odds };
    }

    /// Removes all requests.
    #[inline]
    pub fn clear(&mut self) {
        self.args.clear();
        self.frames.clear();
        self.odds.clear();
    }

    /// Adds a request that is not a list of slices.
    #[cold]
    pub fn push_odd(&mut self, place: u32, odd: Odd, end: usize) {
        self.push_noted(place, 0, odd, end);
    }

    /// The same with a note to the encoder.
    #[cold]
    pub fn push_noted(&mut self, place: u32, note: u32, odd: Odd, end: usize) {
        self.frames.push(Frame { place, note, content: Content::Odd(self.odds.len()), end });
        self.odds.push(odd);
    }

    /// Whether it is time to execute.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.frames.len() >= BATCH
    }
}

/// The same memory for slices of another lifetime. The standard library collects such an iterator in place.
#[inline]
fn recycle<'b>(mut args: Vec<&[u8]>) -> Vec<&'b [u8]> {
    args.clear();
    args.into_iter().map(|_| -> &'b [u8] { &[] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_batch_is_used_again() {
        let mut spare = Spare::default();
        let mut batch = Batch::new(&mut spare);
        batch.args.resize(100, b"x");
        let place = batch.args.as_ptr() as usize;
        batch.end(&mut spare);
        let batch = Batch::new(&mut spare);
        assert_eq!((batch.args.len(), batch.args.as_ptr() as usize), (0, place));
    }
}
