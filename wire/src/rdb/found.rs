//! Items whose bytes are still named by where they are: in the input, in what was decompressed, or in text that was written.
use super::cursor::Piece;
use super::packed::Entry;
use super::{Id, Item, Kind};

/// An item whose bytes are still named by where they are.
pub(super) enum Found {
    Aux(Piece, Piece),
    Functions(Piece),
    Begin {
        key: Piece,
        kind: Kind,
        count: Option<u64>,
    },
    Text(Piece),
    Element(Piece),
    Member(Piece),
    Scored(Piece, f64, Option<Piece>),
    Field(Piece, Piece, Option<u64>),
    Pair(Piece, Piece),
    Group(Piece, Id, Option<u64>),
    Consumer(Piece, u64, Option<u64>),
    Producer(Piece),
    Produced(Piece, Id),
    Indexed(u64, Piece),
    Foreign(Piece, [u8; 9]),
    /// One without any.
    Plain(Item<'static>),
    /// Nothing to tell; go on.
    Nothing,
}

/// Where an entry's bytes are; an integer's are written to `text`, which is number `slot`.
pub(super) fn piece(entry: Entry, text: &mut Vec<u8>, slot: usize) -> Piece {
    match entry {
        Entry::Bytes(range) => Piece::Blob(range),
        Entry::Integer(number) => {
            text.clear();
            text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            Piece::Text(slot)
        }
    }
}
