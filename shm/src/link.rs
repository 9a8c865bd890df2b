//! The words of a memory that follows another one: its role, and the thread that copies from the primary.
//!
//! ```text
//!   ROLE   0, 2, 4 ...   a primary
//!          1, 3, 5 ...   a replica                 each change of the role adds to it, so no value comes again
//!   OWNER  the thread that runs the link, as `owner_word.rs` says (W1)
//! ```
//!
//! - **I1** An offset of PSYNC is a place in the log plus SHIFT, modulo 2^64. SHIFT changes only with BEGAN, in one commit: between two such commits both
//!   count the same bytes. Files, holds, slots and `polder changes` use places; PSYNC, REPLCONF ACK, ROLE and INFO use offsets.
//! - **I2** A follower that has a stream up to some place goes on in this log if that stream is IDENTITY, or if it is IDENTITY2 and the place lies before
//!   SECOND ([`Segment::log_continues`]).
//! - **I3** A log that is turned on or has lost something begins with another IDENTITY, and no IDENTITY2. A promotion keeps the old one as IDENTITY2. A copy
//!   that is installed takes the primary's.
//! - **I4** The owner alone writes STATE and what follows it, and STATE says Connect when it takes the link. Only refusals rest on them (NOMASTERLINK, MASTERDOWN): no data does.
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Segment;
use crate::layout::{features, header, link as at};
use crate::owner_word::{Claim, Owner};
use crate::seat::Seat;

/// The stage of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u64)]
pub enum LinkState {
    /// It is about to connect, or waits before it tries again.
    #[default]
    Connect = 0,
    /// It has a connection, and asks for the stream.
    Handshake = 1,
    /// It reads a copy.
    Copies = 2,
    /// It follows the stream.
    Connected = 3,
}

/// The figures of the owner of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkFigures {
    pub state: LinkState,
    /// The time at which it last heard the primary, in milliseconds since the epoch; 0: never.
    pub heard_ms: u64,
    /// Since when it has no connection; 0: it has one, or never had.
    pub down_ms: u64,
    /// Bytes of the copy that have been read, and in all (0: not known).
    pub copy_read: u64,
    pub copy_bytes: u64,
    /// Commands of the primary that were refused here for what they met.
    pub refused: u64,
}

/// The role of a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Role {
    word: u64,
}

impl Role {
    /// The role of a word of a segment.
    pub fn of(word: u64) -> Role {
        Role { word }
    }

    pub fn is_replica(self) -> bool {
        self.word & 1 != 0
    }

    /// Returns true if it has never changed.
    pub fn is_first(self) -> bool {
        self.word == 0
    }

    /// A number that grows with each change of the role.
    pub fn word(self) -> u64 {
        self.word
    }
}

/// The words of the link of a segment.
#[derive(Clone, Copy)]
pub struct LinkWords<'s> {
    segment: &'s Arc<Segment>,
}

impl Segment {
    /// The words of the link.
    pub fn link(self: &Arc<Self>) -> LinkWords<'_> {
        LinkWords { segment: self }
    }

    /// The role.
    #[inline]
    pub fn role(&self) -> Role {
        Role::of(self.observe(at::ROLE))
    }

    /// Returns true if what this memory commits makes the stream: not in a replica, nor during a promotion, when the stream has its primary's name still.
    #[inline]
    pub fn tells_itself(&self) -> bool {
        self.named_in() == self.observe(at::ROLE)
    }

    /// The word of the role in which the memory last gave the stream a name of its own. Changes under the lock of the log.
    pub fn named_in(&self) -> u64 {
        self.observe(at::NAMED)
    }

    /// Returns true if a follower that has the stream `identity` up to a place may go on from there (I2). Whether the log is still kept is another question.
    pub fn log_continues(&self, identity: &[u8], place: u64) -> bool {
        identity == self.log_identity()
            || self.log_before().is_some_and(|(before, end)| identity == before && place <= end)
    }
}

impl LinkWords<'_> {
    /// Changes the role, if it is `from`; returns the new one.
    pub fn change_role(&self, from: Role, is_replica: bool) -> Option<Role> {
        self.segment.word(header::LAYOUT).fetch_or(features::FOLLOWS, Ordering::SeqCst);
        let step = 1 + u64::from(from.is_replica() == is_replica);
        let role = Role { word: from.word + step };
        self.segment.exchange(at::ROLE, from.word, role.word).is_ok().then_some(role)
    }

    /// Takes the link for the thread of a seat. Returns false while another living thread has it (W1).
    pub fn claim(&self, seat: &Seat) -> bool {
        match self.segment.claim_word(at::OWNER, seat.index(), seat.life()) {
            Claim::Held => return true,
            Claim::Refused => return false,
            Claim::Taken => {}
        }
        self.segment.publish(at::PID, std::process::id().into());
        // The connection of the thread that had it is gone with it.
        self.segment.publish(at::STATE, LinkState::Connect as u64);
        if self.segment.observe(at::DOWN_MS) == 0 {
            self.segment.publish(at::DOWN_MS, crate::now_ms());
        }
        true
    }

    /// Gives the link back.
    pub fn release(&self, seat: &Seat) {
        self.segment.release_word(at::OWNER, seat.index(), seat.life());
    }

    /// The thread that has the link, or died with it; `None`: no thread has.
    pub fn owner(&self) -> Option<Owner> {
        self.segment.owner_in(at::OWNER, at::PID)
    }

    /// Returns true while a living thread follows the primary.
    pub fn is_up(&self) -> bool {
        self.figures().state == LinkState::Connected && self.owner().is_some_and(|owner| owner.lives)
    }

    /// The figures of the owner, or of the last one.
    pub fn figures(&self) -> LinkFigures {
        let read = |word| self.segment.observe(word);
        LinkFigures {
            state: match read(at::STATE) {
                1 => LinkState::Handshake,
                2 => LinkState::Copies,
                3 => LinkState::Connected,
                _ => LinkState::Connect,
            },
            heard_ms: read(at::HEARD_MS),
            down_ms: read(at::DOWN_MS),
            copy_read: read(at::COPY_READ),
            copy_bytes: read(at::COPY_BYTES),
            refused: read(at::REFUSED),
        }
    }

    /// Tells figures; only for the owner (I4).
    pub fn tell(&self, figures: &LinkFigures) {
        let words = [
            (at::STATE, figures.state as u64),
            (at::HEARD_MS, figures.heard_ms),
            (at::DOWN_MS, figures.down_ms),
            (at::COPY_READ, figures.copy_read),
            (at::COPY_BYTES, figures.copy_bytes),
            (at::REFUSED, figures.refused),
        ];
        for (word, value) in words {
            self.segment.publish(word, value);
        }
    }
}
