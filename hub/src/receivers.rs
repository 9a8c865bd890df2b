//! Publishing: which seats hear a channel, and what they are told with the commit of the transaction.

use hashbrown::HashMap;
use polder_base::glob;
use polder_shm::layout::interest;
use polder_table::interest::interest_of;
use polder_table::{CommitView, Stop, Table};
use smallvec::SmallVec;

use crate::message::{Message, Post, flag, pack};
use crate::record::{self, Record, Records, channel_key};
use crate::subject::each_group;
use crate::subscriptions::Subject;
use crate::{token_listeners, tokens};

/// The seats that hear what a transaction publishes on a channel, over all processes.
pub struct Receivers<'c> {
    shard: bool,
    channel: &'c [u8],
    /// One of each seat with listeners that hear each message.
    records: Records,
    subscribers: u64,
    /// Queues by their names: one member of each gets each message, whichever of the matching patterns it
    /// has. A record is one of each seat; its number is that of the members.
    queues: HashMap<Vec<u8>, Records>,
}

/// A seat, and the queues that it serves this time.
type Drawn<'q> = (Record, SmallVec<[&'q [u8]; 2]>);

/// The parts of a message. Reply and headers are empty where there are none.
#[derive(Clone, Copy, Debug)]
pub struct Content<'p> {
    pub payload: &'p [u8],
    pub reply: &'p [u8],
    pub headers: &'p [u8],
    /// The client that publishes hears its own messages.
    pub echoes: bool,
}

impl<'p> Content<'p> {
    /// A payload alone.
    pub fn plain(payload: &'p [u8]) -> Content<'p> {
        Content { payload, reply: b"", headers: b"", echoes: true }
    }

    fn is_plain(&self) -> bool {
        self.echoes && self.reply.is_empty() && self.headers.is_empty()
    }
}

impl<'c> Receivers<'c> {
    /// Those of this moment.
    ///
    /// # Errors
    /// A fault.
    pub fn of(commit: &dyn CommitView, shard: bool, channel: &'c [u8]) -> Result<Receivers<'c>, Stop> {
        let mut receivers =
            Receivers { shard, channel, records: Records::new(), subscribers: 0, queues: HashMap::new() };
        if interest_of(commit.segment()) & interest::SUBSCRIBERS == 0 {
            return Ok(receivers);
        }
        let subject = if shard { Subject::Shard } else { Subject::Channel };
        receivers.add(record::glimpse(commit, &channel_key(subject, channel))?);
        if !shard {
            each_group(commit, channel, &mut |group| {
                for entry in group.filter(|entry| glob::matches(entry.name, channel)) {
                    receivers.add(record::living(commit.segment(), entry.records));
                }
            })?;
            tokens::find(commit, channel, &mut |queue, records| match queue {
                b"" => receivers.add(records),
                queue => receivers.add_members(queue, &records),
            })?;
        }
        Ok(receivers)
    }

    fn add(&mut self, records: Records) {
        for record in records {
            self.subscribers = self.subscribers.saturating_add(record.number);
            if !self.records.iter().any(|earlier| earlier.same_owner(&record)) {
                self.records.push(record);
            }
        }
    }

    fn add_members(&mut self, name: &[u8], records: &[Record]) {
        if records.is_empty() {
            return;
        }
        let seats = self.queues.entry_ref(name).or_default();
        for record in records {
            match seats.iter_mut().find(|seat| seat.same_owner(record)) {
                Some(seat) => seat.number = seat.number.saturating_add(record.number),
                None => seats.push(*record),
            }
        }
    }

    /// Leaves the client out for which the transaction runs: it does not hear its own messages.
    pub fn leave_origin_out(&mut self, table: &Table, commit: &dyn CommitView) {
        let Ok(seat) = table.seat() else { return };
        let own = Record::own(&seat, 0);
        for (queue, count) in token_listeners::own_interest(table, commit.origin(), self.channel) {
            if queue.is_empty() {
                self.subscribers = self.subscribers.saturating_sub(count);
                if self.subscribers == 0 {
                    self.records.clear();
                }
                continue;
            }
            let Some(seats) = self.queues.get_mut(&queue[..]) else { continue };
            seats
                .iter_mut()
                .filter(|seat| seat.same_owner(&own))
                .for_each(|seat| seat.number = seat.number.saturating_sub(count));
            seats.retain(|seat| seat.number > 0);
        }
        self.queues.retain(|_, seats| !seats.is_empty());
    }

    /// Publishes a message with the transaction. Returns how many subscribers it will reach.
    pub fn tell(&self, commit: &dyn CommitView, payload: &[u8]) -> u64 {
        if !self.queues.is_empty() {
            return self.tell_all(commit, &Content::plain(payload));
        }
        let message = Message::Published { shard: self.shard, channel: self.channel, payload };
        for record in &self.records {
            message.write(|parts| commit.post(record.seat.into(), record.life, parts));
        }
        self.subscribers
    }

    /// Does the work of [`Receivers::tell`] for a message with all parts.
    pub fn tell_all(&self, commit: &dyn CommitView, content: &Content<'_>) -> u64 {
        let Content { payload, reply, headers, echoes } = *content;
        let flags = if echoes { 0 } else { flag::NO_ECHO };
        let post = Post {
            subject: self.channel,
            reply,
            headers,
            flags,
            origin: commit.origin(),
            payload,
            ..Post::default()
        };
        let message = match content.is_plain() {
            true => Message::Published { shard: self.shard, channel: self.channel, payload },
            false => Message::Post(Post { flags: flags | flag::PLAIN, ..post }),
        };
        let drawn = self.draw(commit);
        let is_drawn = |record: &Record| drawn.iter().any(|(seat, _)| seat.same_owner(record));
        for record in self.records.iter().filter(|record| !is_drawn(record)) {
            message.write(|parts| commit.post(record.seat.into(), record.life, parts));
        }
        for (seat, queues) in &drawn {
            let is_plain = self.records.iter().any(|record| record.same_owner(seat));
            let flags = if is_plain { flags | flag::PLAIN } else { flags };
            let message = Message::Post(Post { flags, queues: &pack(queues), ..post });
            message.write(|parts| commit.post(seat.seat.into(), seat.life, parts));
        }
        self.subscribers.saturating_add(self.queues.len() as u64)
    }

    /// Draws a seat for each queue, by the number of its members.
    fn draw(&self, commit: &dyn CommitView) -> SmallVec<[Drawn<'_>; 2]> {
        let mut drawn: SmallVec<[Drawn<'_>; 2]> = SmallVec::new();
        for (name, seats) in &self.queues {
            let seat = draw_from(commit, seats);
            match drawn.iter_mut().find(|(earlier, _)| earlier.same_owner(&seat)) {
                Some((_, queues)) => queues.push(name),
                None => drawn.push((seat, SmallVec::from_slice(&[&name[..]]))),
            }
        }
        drawn
    }
}

fn draw_from(commit: &dyn CommitView, seats: &[Record]) -> Record {
    let members = seats.iter().map(|seat| seat.number).sum();
    let mut number = commit.draw_below(members);
    for seat in seats {
        if number < seat.number {
            return *seat;
        }
        number -= seat.number;
    }
    seats[0]
}

/// Publishes one message with the transaction. Returns how many subscribers it will reach.
///
/// # Errors
/// A fault.
pub fn publish(commit: &dyn CommitView, shard: bool, channel: &[u8], payload: &[u8]) -> Result<u64, Stop> {
    Ok(Receivers::of(commit, shard, channel)?.tell(commit, payload))
}

/// Passes a message on whose queue has no member at the calling thread any more: to another seat's, once.
/// Returns false if there is none.
///
/// # Errors
/// A fault.
pub(crate) fn pass_on(
    commit: &dyn CommitView,
    own: &Record,
    post: &Post<'_>,
    queue: &[u8],
) -> Result<bool, Stop> {
    let mut receivers = Receivers::of(commit, false, post.subject)?;
    let Some(seats) = receivers.queues.get_mut(queue) else { return Ok(false) };
    seats.retain(|seat| !seat.same_owner(own));
    if seats.is_empty() {
        return Ok(false);
    }
    let seat = draw_from(commit, seats);
    let flags = post.flags & !flag::PLAIN | flag::PASSED;
    let message = Message::Post(Post { flags, queues: &pack(&[queue]), ..*post });
    message.write(|parts| commit.post(seat.seat.into(), seat.life, parts));
    Ok(true)
}

/// The headers that say that no client hears a subject.
const ABSENCE: &[u8] = b"NATS/1.0 503\r\n";

/// Tells the client for which the transaction runs that its request on a subject has no listener: at the subject on which it awaits replies.
pub fn tell_absence(table: &Table, commit: &dyn CommitView, subject: &[u8], reply: &[u8]) {
    let Ok(seat) = table.seat() else { return };
    if token_listeners::count_of(table, commit.origin()) == 0 {
        return;
    }
    let headers = [ABSENCE, b"Nats-Subject: ", subject, b"\r\n\r\n"].concat();
    let post = Post {
        subject: reply,
        headers: &headers,
        flags: flag::ONLY_ORIGIN,
        origin: commit.origin(),
        ..Post::default()
    };
    Message::Post(post).write(|parts| commit.post(seat.index(), seat.life(), parts));
}
