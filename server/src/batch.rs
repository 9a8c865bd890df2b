//! Parsed requests of many connections, to be prefetched together and then executed one by one.
use polder_wire::resp::Malformed;

/// How many requests are prefetched together: enough to hide the memory's latency, few enough to stay in the first cache.
pub const BATCH: usize = 64;

/// What a connection sent.
pub enum Content {
    /// Arguments, as a range of [`Batch::args`].
    Args { from: usize, to: usize },
    /// Words of an inline request.
    Words(Vec<Vec<u8>>),
    /// Empty requests, which are not answered.
    Nothing,
    /// Nonsense: the connection ends here.
    Malformed(Malformed),
}

/// One request.
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
}

/// The memory of a batch between two turns.
#[derive(Default)]
pub struct Spare {
    args: Vec<&'static [u8]>,
    frames: Vec<Frame>,
}

impl<'b> Batch<'b> {
    /// An empty batch in old memory.
    pub fn new(spare: &mut Spare) -> Batch<'b> {
        Batch { args: recycle(std::mem::take(&mut spare.args)), frames: std::mem::take(&mut spare.frames) }
    }

    /// Gives the memory back.
    pub fn end(self, spare: &mut Spare) {
        *spare = Spare { args: recycle(self.args), frames: self.frames };
    }

    /// Forgets the requests.
    pub fn clear(&mut self) {
        self.args.clear();
        self.frames.clear();
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
