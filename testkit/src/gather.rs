//! A reply sink that keeps what a command says, to be read as one [`Answer`].
use polder_base::{Protocol, Reply};

use crate::answer::Answer;

/// The sink. It keeps a flat list, so that forgetting what came after a mark is a truncation.
pub struct Gather {
    protocol: Protocol,
    said: Vec<Said>,
    piecewise: Vec<u8>,
}

enum Said {
    Leaf(Answer),
    Open(Container, usize),
}

#[derive(Clone, Copy)]
enum Container {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

impl Gather {
    /// A sink for a client that speaks `protocol`.
    pub fn new(protocol: Protocol) -> Gather {
        Gather { protocol, said: Vec::new(), piecewise: Vec::new() }
    }

    /// The one reply that was written, in its RESP3 form.
    ///
    /// # Errors
    /// A text when it was none, more than one, or a container was announced longer than it became.
    pub fn answer(self) -> Result<Answer, String> {
        let mut said = self.said.into_iter();
        let answer = take(&mut said)?;
        match said.count() {
            0 => Ok(answer),
            more => Err(format!("{} and then {more} more", answer.shown())),
        }
    }
}

fn take(said: &mut impl Iterator<Item = Said>) -> Result<Answer, String> {
    match said.next().ok_or("the reply is not whole")? {
        Said::Leaf(answer) => Ok(answer),
        Said::Open(Container::Array, len) => Ok(Answer::Array(take_many(said, len)?)),
        Said::Open(Container::Set, len) => Ok(Answer::Set(take_many(said, len)?)),
        Said::Open(Container::Push, len) => Ok(Answer::Push(take_many(said, len)?)),
        Said::Open(Container::Map, pairs) => Ok(Answer::Map(take_pairs(said, pairs)?)),
        Said::Open(Container::Attribute, pairs) => {
            take_pairs(said, pairs)?;
            take(said)
        }
    }
}

fn take_many(said: &mut impl Iterator<Item = Said>, len: usize) -> Result<Vec<Answer>, String> {
    (0..len).map(|_| take(&mut *said)).collect()
}

fn take_pairs(said: &mut impl Iterator<Item = Said>, pairs: usize) -> Result<Vec<(Answer, Answer)>, String> {
    (0..pairs).map(|_| Ok((take(&mut *said)?, take(&mut *said)?))).collect()
}

impl Gather {
    fn leaf(&mut self, answer: Answer) {
        self.said.push(Said::Leaf(answer));
    }
}

impl Reply for Gather {
    fn protocol(&self) -> Protocol {
        self.protocol
    }
    fn status(&mut self, text: &str) {
        self.leaf(Answer::Status(text.into()));
    }
    fn error(&mut self, text: &str) {
        self.leaf(Answer::Error(text.replace(['\r', '\n'], " ")));
    }
    fn integer(&mut self, value: i64) {
        self.leaf(Answer::Integer(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.leaf(Answer::Bulk(bytes.to_vec()));
    }
    fn begin_bulk(&mut self, _len: u64) {
        self.piecewise.clear();
    }
    fn piece(&mut self, bytes: &[u8]) {
        self.piecewise.extend_from_slice(bytes);
    }
    fn end_bulk(&mut self) {
        let bytes = std::mem::take(&mut self.piecewise);
        self.leaf(Answer::Bulk(bytes));
    }
    fn null(&mut self) {
        self.leaf(Answer::Nil);
    }
    fn null_array(&mut self) {
        self.leaf(Answer::Nil);
    }
    fn array(&mut self, len: usize) {
        self.said.push(Said::Open(Container::Array, len));
    }
    fn map(&mut self, pairs: usize) {
        self.said.push(Said::Open(Container::Map, pairs));
    }
    fn set(&mut self, len: usize) {
        self.said.push(Said::Open(Container::Set, len));
    }
    fn push(&mut self, len: usize) {
        self.said.push(Said::Open(Container::Push, len));
    }
    fn attribute(&mut self, pairs: usize) {
        self.said.push(Said::Open(Container::Attribute, pairs));
    }
    fn double(&mut self, value: f64) {
        self.leaf(Answer::Double(polder_base::number::double_text(value).as_str().into()));
    }
    fn double_text(&mut self, text: &str) {
        self.leaf(Answer::Double(text.into()));
    }
    fn boolean(&mut self, value: bool) {
        self.leaf(Answer::Boolean(value));
    }
    fn big_number(&mut self, text: &str) {
        self.leaf(Answer::BigNumber(text.into()));
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        self.leaf(Answer::Verbatim { format: format.into(), text: text.to_vec() });
    }
    fn mark(&self) -> usize {
        self.said.len()
    }
    fn rewind(&mut self, mark: usize) {
        self.said.truncate(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_a_mark_can_be_forgotten() {
        let mut reply = Gather::new(Protocol::Resp3);
        let mark = reply.mark();
        reply.array(2);
        reply.integer(1);
        reply.rewind(mark);
        reply.ok();
        assert_eq!(reply.answer(), Ok(Answer::Status("OK".into())));
    }

    #[test]
    fn unfinished_and_double_replies_are_told() {
        let mut short = Gather::new(Protocol::Resp3);
        short.array(1);
        assert!(short.answer().is_err());
        let mut long = Gather::new(Protocol::Resp3);
        long.ok();
        long.ok();
        assert!(long.answer().is_err());
    }
}
