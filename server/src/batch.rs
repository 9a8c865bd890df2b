//! Parsed requests of many connections, to be prefetched together and then executed one by one.
use polder_wire::resp::Malformed;

/// How many requests are prefetched together: enough to hide the memory's latency, few enough to stay in the first cache.
pub const BATCH: usize = 64;

/// What a connection sent. A plain value, so that a frame is written where it is to stay: one that is put together first and then moved
/// makes the processor wait for its own stores (an eighth of the time of a GET).
#[derive(Clone, Copy)]
pub enum Content {
    /// Arguments, as a range of [`Batch::args`].
    Args { from: usize, to: usize },
    /// Something else, by its number in [`Batch::odds`].
    Odd(usize),
}

/// What is not a list of arguments.
pub enum Odd {
    /// Words of an inline request.
    Words(Vec<Vec<u8>>),
    /// Empty requests, which are not answered.
    Nothing,
    /// Nonsense: the connection ends here.
    Malformed(Malformed),
}

/// One request.
#[derive(Clone, Copy)]
pub struct Frame {
    /// Which of the turn's connections sent it.
    pub place: usize,
    pub content: Content,
    /// Where it ends in the connection's input.
    pub end: usize,
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
    pub fn new(spare: &mut Spare) -> Batch<'b> {
        let Spare { args, frames, odds } = std::mem::take(spare);
        Batch { args: recycle(args), frames, odds }
    }

    /// Gives the memory back.
    pub fn end(self, spare: &mut Spare) {
        *spare = Spare { args: recycle(self.args), frames: self.frames, odds: self.odds };
    }

    /// Forgets the requests.
    pub fn clear(&mut self) {
        self.args.clear();
        self.frames.clear();
        self.odds.clear();
    }

    /// Adds what is not a list of arguments.
    #[cold]
    pub fn push_odd(&mut self, place: usize, odd: Odd, end: usize) {
        self.frames.push(Frame { place, content: Content::Odd(self.odds.len()), end });
        self.odds.push(odd);
    }

    /// Whether it is time to execute.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= BATCH
    }
}

/// The same memory for slices of another lifetime; the library collects such an iterator in place.
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
