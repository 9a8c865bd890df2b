//! What an inbox holds: messages, as bytes.
//!
//! ```text
//! message = mark (1) | fields; a field of variable length: length (4) | bytes; the last field goes to the end
//! ```

use polder_table::{Db, Table};
use polder_values::Kind;

use crate::listener::{Asker, Thread};

/// The most bytes that wait in an inbox, published while its thread does not run. A small segment
/// has less: a part of it.
const INBOX_BYTES: u64 = 64 << 20;
const INBOX_PART: u64 = 16;

/// A message from one seat to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'l> {
    /// Something was published.
    Published { shard: bool, channel: &'l [u8], payload: &'l [u8] },
    /// Something was published with more than a payload, or for some of the listeners only.
    Post(Post<'l>),
    /// A key has changed that a client of the receiving thread waits for.
    Wake { kind: Kind, db: Db, key: &'l [u8] },
    /// A whole database has changed (none: all of them).
    WakeAll { db: Option<Db> },
    /// A key has changed that clients of the receiving thread may have read; `origin` is the client
    /// that changed it.
    Changed { origin: u64, key: &'l [u8] },
    /// The same, for clients that want to hear of every change.
    Broadcast { origin: u64, key: &'l [u8] },
    /// All keys have changed.
    ChangedAll,
    /// A client has made a call: the line that MONITOR shows.
    Call { line: &'l [u8] },
    /// Keys have changed that client `reader` of another thread has read. It has its notices sent
    /// to `client` of the receiving thread.
    Redirected { reader: (Thread, u64), client: u64, all: bool, keys: &'l [u8] },
    /// The client that received the invalidations of `client` is gone.
    Unredirected { client: u64, redirect: u64 },
    /// Another process asks about the clients of the receiving process.
    Question { asker: Asker, words: &'l [u8] },
    /// The reply of a process with these threads to a question.
    Answer { number: u64, threads: &'l [u8], text: &'l [u8] },
    /// A thread wants values of the tier (`tier.rs`): it reads its inbox, or is only to be woken.
    Ask { asker: Thread, hears: bool, names: &'l [u8] },
    /// Values of the tier are back, or the reason why they are not.
    Fetched { failure: u8, names: &'l [u8] },
    /// Keys of copies in the tier, which stay there.
    Keys { keys: &'l [u8] },
    /// The value of a key is to leave for the tier.
    Evict { db: Db, key: &'l [u8] },
    /// Says only that something in the segment is worth a look.
    Rise,
}

/// A message with more than a payload, or for some of the receiving thread's listeners only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Post<'l> {
    pub subject: &'l [u8],
    /// The subject of replies; empty: none are wanted.
    pub reply: &'l [u8],
    /// Headers in the form of NATS; empty: none.
    pub headers: &'l [u8],
    /// The queues of which one member of the receiving thread gets it, packed.
    pub queues: &'l [u8],
    /// Bits of [`flag`].
    pub flags: u8,
    /// The client that published it.
    pub origin: u64,
    pub payload: &'l [u8],
}

/// The marks of a [`Post`].
pub mod flag {
    /// It is also for those that listen by themselves.
    pub const PLAIN: u8 = 1;
    /// It is for its origin alone.
    pub const ONLY_ORIGIN: u8 = 2;
    /// Its origin does not hear it.
    pub const NO_ECHO: u8 = 4;
    /// It has been passed on by a thread that had no member of the queue.
    pub const PASSED: u8 = 8;
}

impl Post<'_> {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

const MESSAGE: u8 = 1;
const SHARD_MESSAGE: u8 = 2;
const WAKE: u8 = 3;
const WAKE_ALL: u8 = 4;
const CHANGED: u8 = 5;
const BROADCAST: u8 = 6;
const CHANGED_ALL: u8 = 7;
const CALL: u8 = 8;
const REDIRECTED: u8 = 11;
const UNREDIRECTED: u8 = 12;
const QUESTION: u8 = 13;
const ANSWER: u8 = 14;
const RISE: u8 = 15;
// 16 is retired.
const POST: u8 = 17;
const ASK: u8 = 18;
const FETCHED: u8 = 19;
const EVICT: u8 = 20;
const KEYS: u8 = 21;

/// A database number that stands for all.
const EVERY: u16 = u16::MAX;

impl<'l> Message<'l> {
    /// Shows the message's bytes, in pieces, to `send`.
    pub fn write(&self, send: impl FnOnce(&[&[u8]])) {
        match self {
            Message::Published { shard, channel, payload } => {
                let mark = [if *shard { SHARD_MESSAGE } else { MESSAGE }];
                send(&[&mark, &(channel.len() as u32).to_le_bytes(), channel, payload]);
            }
            Message::Post(Post { subject, reply, headers, queues, flags, origin, payload }) => {
                let length = |part: &[u8]| (part.len() as u32).to_le_bytes();
                send(&[
                    // The second byte is kept for the format of the payload.
                    &[POST, *flags, 0],
                    &origin.to_le_bytes(),
                    &length(subject),
                    subject,
                    &length(reply),
                    reply,
                    &length(headers),
                    headers,
                    &length(queues),
                    queues,
                    payload,
                ]);
            }
            Message::Wake { kind, db, key } => send(&[&[WAKE, *kind as u8], &db.to_le_bytes(), key]),
            Message::WakeAll { db } => send(&[&[WAKE_ALL], &db.unwrap_or(EVERY).to_le_bytes()]),
            Message::Changed { origin, key } => send(&[&[CHANGED], &origin.to_le_bytes(), key]),
            Message::Broadcast { origin, key } => send(&[&[BROADCAST], &origin.to_le_bytes(), key]),
            Message::ChangedAll => send(&[&[CHANGED_ALL]]),
            Message::Call { line } => send(&[&[CALL], line]),
            Message::Redirected { reader: ((seat, life), reader), client, all, keys } => {
                send(&[&[REDIRECTED, (*all).into()], &words([*seat, *life, *reader, *client]), keys]);
            }
            Message::Unredirected { client, redirect } => {
                send(&[&[UNREDIRECTED], &words([*client, *redirect])])
            }
            Message::Question { asker: Asker { thread: (seat, life), number }, words: asked } => {
                send(&[&[QUESTION], &words([*seat, *life, *number]), asked]);
            }
            Message::Answer { number, threads, text } => {
                send(&[
                    &[ANSWER],
                    &number.to_le_bytes(),
                    &(threads.len() as u32).to_le_bytes(),
                    threads,
                    text,
                ]);
            }
            Message::Ask { asker: (seat, life), hears, names } => {
                send(&[&[ASK, (*hears).into()], &words([*seat, *life]), names]);
            }
            Message::Fetched { failure, names } => send(&[&[FETCHED, *failure], names]),
            Message::Keys { keys } => send(&[&[KEYS], keys]),
            Message::Evict { db, key } => send(&[&[EVICT], &db.to_le_bytes(), key]),
            Message::Rise => send(&[&[RISE]]),
        }
    }

    /// Takes a message apart. Returns none for bytes that no version of this program has written
    /// (S5).
    pub fn read(bytes: &'l [u8]) -> Option<Message<'l>> {
        let (mark, rest) = bytes.split_first()?;
        let word = |rest: &'l [u8]| {
            rest.split_first_chunk::<8>().map(|(word, rest)| (u64::from_le_bytes(*word), rest))
        };
        let piece = |rest: &'l [u8]| {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            rest.split_at_checked(u32::from_le_bytes(*length) as usize)
        };
        let short = |rest: &'l [u8]| {
            rest.split_first_chunk::<2>().map(|(word, rest)| (u16::from_le_bytes(*word), rest))
        };
        Some(match *mark {
            MESSAGE | SHARD_MESSAGE => {
                let (channel, payload) = piece(rest)?;
                Message::Published { shard: *mark == SHARD_MESSAGE, channel, payload }
            }
            POST => {
                let ([flags, _], rest) = rest.split_first_chunk::<2>()?;
                let (origin, rest) = word(rest)?;
                let (subject, rest) = piece(rest)?;
                let (reply, rest) = piece(rest)?;
                let (headers, rest) = piece(rest)?;
                let (queues, payload) = piece(rest)?;
                Message::Post(Post { subject, reply, headers, queues, flags: *flags, origin, payload })
            }
            WAKE => {
                let (kind, rest) = rest.split_first()?;
                let (db, key) = short(rest)?;
                Message::Wake { kind: Kind::from_stored(*kind)?, db, key }
            }
            WAKE_ALL => Message::WakeAll { db: Some(short(rest)?.0).filter(|db| *db != EVERY) },
            CHANGED => {
                let (origin, key) = word(rest)?;
                Message::Changed { origin, key }
            }
            BROADCAST => {
                let (origin, key) = word(rest)?;
                Message::Broadcast { origin, key }
            }
            CHANGED_ALL => Message::ChangedAll,
            CALL => Message::Call { line: rest },
            REDIRECTED => {
                let (all, rest) = rest.split_first()?;
                let ([seat, life, reader, client], keys) = read_words(rest)?;
                Message::Redirected { reader: ((seat, life), reader), client, all: *all != 0, keys }
            }
            UNREDIRECTED => {
                let ([client, redirect], _) = read_words(rest)?;
                Message::Unredirected { client, redirect }
            }
            QUESTION => {
                let ([seat, life, number], words) = read_words(rest)?;
                Message::Question { asker: Asker { thread: (seat, life), number }, words }
            }
            ANSWER => {
                let (number, rest) = word(rest)?;
                let (threads, text) = piece(rest)?;
                Message::Answer { number, threads, text }
            }
            RISE => Message::Rise,
            _ => return Message::read_of_tier(*mark, rest),
        })
    }

    /// Reads a message between a thread and the tier.
    fn read_of_tier(mark: u8, rest: &'l [u8]) -> Option<Message<'l>> {
        Some(match mark {
            ASK => {
                let (hears, rest) = rest.split_first()?;
                let ([seat, life], names) = read_words(rest)?;
                Message::Ask { asker: (seat, life), hears: *hears != 0, names }
            }
            FETCHED => {
                let (failure, names) = rest.split_first()?;
                Message::Fetched { failure: *failure, names }
            }
            KEYS => Message::Keys { keys: rest },
            EVICT => {
                let (db, key) = rest.split_first_chunk::<2>()?;
                Message::Evict { db: u16::from_le_bytes(*db), key }
            }
            _ => return None,
        })
    }
}

/// The most bytes that wait in an inbox of this segment.
pub(crate) fn inbox_bytes(table: &Table) -> u64 {
    let geometry = table.segment().geometry();
    INBOX_BYTES.min((geometry.ceiling - geometry.slabs_at) / INBOX_PART)
}

fn words<const COUNT: usize>(words: [u64; COUNT]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn read_words<const COUNT: usize>(mut bytes: &[u8]) -> Option<([u64; COUNT], &[u8])> {
    let mut words = [0; COUNT];
    for word in &mut words {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        (*word, bytes) = (u64::from_le_bytes(*first), rest);
    }
    Some((words, bytes))
}

/// Puts several byte strings together, so that [`unpack`] finds them again.
pub(crate) fn pack(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| [&(part.len() as u32).to_le_bytes()[..], part].concat()).collect()
}

/// The byte strings that [`pack`] has put together.
pub fn unpack(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let Some((part, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else { break };
        parts.push(part);
        bytes = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_read_as_they_are_written_and_cut_ones_do_not_panic() {
        let messages = [
            Message::Published { shard: false, channel: b"news", payload: b"hello" },
            Message::Published { shard: true, channel: b"", payload: b"" },
            Message::Post(Post {
                subject: b"a.b",
                reply: b"r",
                flags: flag::PLAIN,
                origin: 9,
                payload: b"hello",
                ..Post::default()
            }),
            Message::Post(Post { headers: b"NATS/1.0\r\n\r\n", queues: b"\x01\0\0\0q", ..Post::default() }),
            Message::Wake { kind: Kind::List, db: 3, key: b"key" },
            Message::WakeAll { db: None },
            Message::WakeAll { db: Some(0) },
            Message::Changed { origin: 7, key: b"key" },
            Message::Broadcast { origin: u64::MAX, key: b"" },
            Message::ChangedAll,
            Message::Call { line: b"1.2 [0 lua] \"get\"" },
            Message::Redirected { reader: ((3, 4), 5), client: 1, all: true, keys: b"" },
            Message::Unredirected { client: 9, redirect: u64::MAX },
            Message::Question { asker: Asker { thread: (1, 2), number: 3 }, words: b"LIST" },
            Message::Answer { number: 3, threads: &[7; 16], text: b"id=1\n" },
            Message::Ask { asker: (1, 2), hears: true, names: &[7; 24] },
            Message::Fetched { failure: 3, names: &[7; 12] },
            Message::Keys { keys: &[7; 30] },
            Message::Evict { db: 3, key: b"key" },
            Message::Rise,
        ];
        for message in messages {
            let mut bytes = Vec::new();
            message.write(|parts| bytes = parts.concat());
            assert_eq!(Message::read(&bytes), Some(message));
            for end in 0..bytes.len() {
                let _ = Message::read(&bytes[..end]);
            }
        }
        assert_eq!(Message::read(&[200, 1, 2]), None);
    }
}
