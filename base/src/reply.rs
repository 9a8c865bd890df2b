//! Where a command writes its answer, whatever protocol carries it.
//!
//! A command function knows nothing of RESP: it says "an array of three, a bulk, an integer", and the
//! sink writes RESP2, RESP3, JSON or native values. Containers are announced with their length first
//! and closed by their last element, as in RESP.

/// Which RESP a client speaks. Doors that are not RESP answer as [`Protocol::Resp3`], the richer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// A sink for one reply. All text is bytes: Redis replies are binary-safe.
pub trait Reply {
    /// The richest form this client understands; a few commands answer in another shape in RESP3.
    fn protocol(&self) -> Protocol;
    /// What follows is written in this form (HELLO); sinks that know one form only stay with it.
    fn speak(&mut self, _protocol: Protocol) {}
    /// A simple string such as `OK`, without CR or LF.
    fn status(&mut self, text: &str);
    /// An error, its code first: `ERR syntax error`, `WRONGTYPE Operation ...`. CR and LF become spaces.
    fn error(&mut self, text: &str);
    fn integer(&mut self, value: i64);
    fn bulk(&mut self, bytes: &[u8]);
    /// Bulk strings that lie side by side in `bytes`, each up to where `ends` says; the last ends with the bytes.
    fn bulks(&mut self, bytes: &[u8], ends: &[u16]) {
        let mut start = 0;
        for end in ends {
            self.bulk(&bytes[start..usize::from(*end)]);
            start = usize::from(*end);
        }
    }
    /// A bulk string in pieces whose lengths add up to `len`: `begin_bulk`, any number of `piece`, `end_bulk`.
    fn begin_bulk(&mut self, len: u64);
    fn piece(&mut self, bytes: &[u8]);
    fn end_bulk(&mut self);
    /// Nothing: `$-1` in RESP2, `_` in RESP3.
    fn null(&mut self);
    /// No array: `*-1` in RESP2, `_` in RESP3.
    fn null_array(&mut self);
    fn array(&mut self, len: usize);
    /// A map of `pairs` keys and values; in RESP2 an array of twice as many elements.
    fn map(&mut self, pairs: usize);
    /// A set; in RESP2 an array.
    fn set(&mut self, len: usize);
    /// An out-of-band push; in RESP2 an array.
    fn push(&mut self, len: usize);
    /// Attributes that precede a reply (RESP3 only; the caller checks the protocol).
    fn attribute(&mut self, pairs: usize);
    /// A double: shortest text that reads back the same; in RESP2 a bulk string.
    fn double(&mut self, value: f64);
    /// A number in text form that the caller has already formatted (RESP3 double, RESP2 bulk).
    fn double_text(&mut self, text: &str);
    /// A boolean: `#t`/`#f` in RESP3, `:1`/`:0` in RESP2.
    fn boolean(&mut self, value: bool);
    /// A big number in decimal text; in RESP2 a bulk string.
    fn big_number(&mut self, text: &str);
    /// Text with a three-letter format (`txt`, `mkd`); in RESP2 a bulk string.
    fn verbatim(&mut self, format: &str, text: &[u8]);
    /// Bytes already in the client's own protocol (DEBUG PROTOCOL and the like need none; replays do).
    fn mark(&self) -> usize;
    /// Bytes written since `mark`, if they are to leave the process.
    fn bytes_since(&self, _mark: usize) -> usize {
        0
    }
    /// Forgets everything written since `mark`: the call is run again or fails.
    fn rewind(&mut self, mark: usize);

    /// Whether so much waits that nothing of it will be sent: who writes without end may stop.
    fn is_overfull(&self) -> bool {
        false
    }

    /// `OK`, the commonest answer.
    fn ok(&mut self) {
        self.status("OK");
    }
}
