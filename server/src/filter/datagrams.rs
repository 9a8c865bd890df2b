//! Requests that come as datagrams, and their replies: the layer below memcached over UDP.
//!
//! ```text
//!   socket --recvmmsg--> input:   [request][request][request]      one for each datagram, without its header
//!                        guests:   who sent it, and how many bytes of the input stand behind it
//!   socket <--sendmmsg-- replies: [to whom, bytes]                 taken from the output at the end of each request
//! ```
//!
//! One connection stands for all that send datagrams to a port: CLIENT LIST shows one client, which a pause holds back and
//! which rules refuse. Killed, it makes room for a new one.
//!
//! - **U1** Datagrams are read when no guest and no reply is left. So the distance of a request from the end of the input
//!   does not change, whatever is taken from its front.
//! - **U2** The bytes of the output belong to the first guest. They are taken when its request has been executed
//!   ([`Datagrams::end_guest`]), so a connection may be parked in between.
//! - **U3** Nothing that one datagram says is remembered for the next one: a request that has not come whole is dropped.
//! - **U4** A reply is no longer than `memcache-udp-reply-max`, and to another host no longer than its request times
//!   `memcache-udp-amplification`. Senders of datagrams may lie about who they are, so no sender can have a third host flooded.
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use mio::Registry;
use mio::unix::SourceFd;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use polder_wire::Output;
use polder_wire::memcached::datagram::{HEADER_BYTES, piece, pieces, request};
use socket2::Socket;

use crate::listener::is_foreign;
use crate::transfer::Flow;
use polder_protocols::guest_rules::GuestRules;

/// How many datagrams are read or sent by one call of the system.
const BATCH: usize = 32;
/// The room for each, in bytes: none is longer.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Short, so that U4 lets it pass for the shortest request.
const TOO_LONG: &[u8] = b"SERVER_ERROR too long for UDP\r\n";

/// One request.
#[derive(Debug)]
struct Guest {
    peer: SocketAddr,
    id: u16,
    /// The length of its datagram.
    bytes: usize,
    /// How many bytes of the input stand behind it (U1).
    behind: usize,
}

/// A reply of which some datagrams have been sent.
struct Unsent {
    peer: SocketAddr,
    id: u16,
    bytes: Vec<u8>,
    sent: usize,
}

/// The datagrams of one port.
pub struct Datagrams {
    guests: VecDeque<Guest>,
    unsent: VecDeque<Unsent>,
    pub rules: GuestRules,
    /// Where the socket is watched. Its listener has it, too, so closing it here would not end the watching.
    registry: Registry,
}

thread_local! {
    /// The room for datagrams: one for all ports of a thread, made when the first one is read.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Datagrams {
    pub fn new(registry: Registry) -> Datagrams {
        Datagrams { guests: VecDeque::new(), unsent: VecDeque::new(), rules: GuestRules::default(), registry }
    }

    /// Whether datagrams may be read (U1).
    pub fn may_receive(&self) -> bool {
        self.guests.is_empty() && self.unsent.is_empty()
    }

    /// Whether a reply waits to be sent.
    pub fn has_letters(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Where the requests that have not been executed end in an input of this length.
    pub fn ends(&self, input_bytes: usize) -> impl Iterator<Item = usize> {
        self.guests.iter().map(move |guest| input_bytes - guest.behind)
    }

    /// Reads the datagrams that wait, up to 32, and appends their requests to the input, which is empty.
    pub fn receive(&mut self, socket: &Socket, input: &mut Vec<u8>) -> Flow {
        ROOM.with_borrow_mut(|room| {
            room.resize(BATCH * DATAGRAM_BYTES_MAX, 0);
            let mut slices: Vec<[IoSliceMut<'_>; 1]> =
                room.chunks_mut(DATAGRAM_BYTES_MAX).map(|chunk| [IoSliceMut::new(chunk)]).collect();
            let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
            let received = match recvmmsg(
                socket.as_raw_fd(),
                &mut headers,
                slices.iter_mut(),
                MsgFlags::MSG_DONTWAIT,
                None,
            ) {
                Ok(received) => received,
                Err(Errno::EINTR) => return Flow::Some(0),
                Err(error) => {
                    if error != Errno::EAGAIN {
                        tracing::debug!(%error, "datagrams cannot be read");
                    }
                    return Flow::Last(0);
                }
            };
            let (mut count, mut bytes) = (0, 0);
            for message in received {
                (count, bytes) = (count + 1, bytes + message.bytes);
                let datagram = message.iovs().next().unwrap_or_default();
                if let Some(peer) = message.address.and_then(address) {
                    self.take(peer, datagram, input);
                }
            }
            let whole = input.len();
            self.guests.iter_mut().for_each(|guest| guest.behind = whole - guest.behind);
            if count < BATCH { Flow::Last(bytes) } else { Flow::Some(bytes) }
        })
    }

    /// Takes the request of a datagram, if its sender is served. `behind` is where it ends in the input, until all are there.
    fn take(&mut self, peer: SocketAddr, datagram: &[u8], input: &mut Vec<u8>) {
        let Some((id, request)) = request(datagram) else { return };
        if self.rules.is_open && !(self.rules.is_protected && is_foreign(peer)) {
            input.extend_from_slice(request);
            self.guests.push_back(Guest { peer, id, bytes: datagram.len(), behind: input.len() });
        }
    }

    /// The request of the first guest has been executed: its reply is what the output has (U2).
    pub fn end_guest(&mut self, output: &mut Output) {
        let Some(guest) = self.guests.pop_front() else { return };
        let bytes_max = match self.rules.amplification {
            times @ 1.. if is_foreign(guest.peer) => self.rules.reply_bytes_max.min(guest.bytes * times),
            _ => self.rules.reply_bytes_max,
        };
        let fits = |reply: usize| reply + pieces(reply) * HEADER_BYTES <= bytes_max;
        let bytes = match fits(output.waiting()) && !output.is_overfull() {
            true => output.bytes(),
            false => TOO_LONG.to_vec(),
        };
        if output.is_overfull() {
            *output = Output::default();
        }
        output.consume(output.waiting());
        if !bytes.is_empty() && fits(bytes.len()) {
            self.unsent.push_back(Unsent { peer: guest.peer, id: guest.id, bytes, sent: 0 });
        }
    }

    /// Sends once, up to 32 datagrams. A peer that cannot be reached loses its reply.
    pub fn send(&mut self, socket: &Socket) -> Flow {
        let unsent = self.unsent.iter().flat_map(|reply| {
            let pieces =
                (reply.sent..pieces(reply.bytes.len())).map(|number| piece(reply.id, number, &reply.bytes));
            pieces.map(|piece| (SockaddrStorage::from(reply.peer), piece))
        });
        let (addresses, parts): (Vec<_>, Vec<_>) =
            unsent.take(BATCH).map(|(peer, piece)| (Some(peer), piece)).unzip();
        let slices: Vec<[IoSlice<'_>; 2]> =
            parts.iter().map(|(header, part)| [IoSlice::new(header), IoSlice::new(part)]).collect();
        let mut headers = MultiHeaders::preallocate(BATCH, None);
        let none: [ControlMessage<'_>; 0] = [];
        let sent = sendmmsg(
            socket.as_raw_fd(),
            &mut headers,
            slices.iter(),
            &addresses,
            none,
            MsgFlags::MSG_DONTWAIT,
        );
        let (count, bytes) = match sent {
            Ok(sent) => sent.fold((0, 0), |(count, bytes), message| (count + 1, bytes + message.bytes)),
            Err(Errno::EAGAIN) => return Flow::Last(0),
            Err(Errno::EINTR) => return Flow::Some(0),
            Err(error) => {
                tracing::debug!(%error, "a reply is lost: its datagram cannot be sent");
                self.unsent.pop_front();
                return Flow::Some(0);
            }
        };
        self.note_sent(count);
        Flow::Some(bytes)
    }

    fn note_sent(&mut self, mut count: usize) {
        while let Some(reply) = self.unsent.front_mut() {
            let left = pieces(reply.bytes.len()) - reply.sent;
            if count < left {
                reply.sent += count;
                return;
            }
            count -= left;
            self.unsent.pop_front();
        }
    }

    /// Ends the watching of the socket.
    pub fn leave(&self, socket: &Socket) {
        if let Err(error) = self.registry.deregister(&mut SourceFd(&socket.as_raw_fd())) {
            tracing::error!(%error, "the socket of a UDP port is still watched");
        }
    }
}

/// The address that the system names.
fn address(peer: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = peer.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    v4.or_else(|| peer.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;

    fn datagrams(rules: GuestRules) -> Datagrams {
        let registry = Poll::new().and_then(|poll| poll.registry().try_clone()).expect("a registry");
        Datagrams { rules, ..Datagrams::new(registry) }
    }

    const OPEN: GuestRules =
        GuestRules { is_open: true, is_protected: false, reply_bytes_max: 4096, amplification: 3 };
    const NEAR: &str = "127.0.0.1:9";
    const FAR: &str = "192.0.2.1:9";

    fn answered(datagrams: &mut Datagrams, peer: &str, reply_bytes: usize) -> Option<Vec<u8>> {
        let mut input = Vec::new();
        datagrams.take(peer.parse().expect("an address"), b"\0\x07\0\0\0\x01\0\0get a\r\n", &mut input);
        if datagrams.guests.is_empty() {
            return None;
        }
        let mut output = Output::default();
        output.limit(datagrams.rules.reply_bytes_max);
        (0..reply_bytes).for_each(|_| output.raw(b"x"));
        datagrams.end_guest(&mut output);
        assert!(output.is_empty() && !output.is_overfull());
        datagrams.unsent.pop_front().map(|reply| reply.bytes)
    }

    #[test]
    fn a_reply_to_another_host_is_not_much_longer_than_its_request() {
        let mut datagrams = datagrams(OPEN);
        assert_eq!(answered(&mut datagrams, FAR, 37).map(|reply| reply.len()), Some(37));
        assert_eq!(answered(&mut datagrams, FAR, 38).as_deref(), Some(TOO_LONG));
        assert_eq!(answered(&mut datagrams, NEAR, 38).map(|reply| reply.len()), Some(38));
        datagrams.rules.amplification = 0;
        assert_eq!(answered(&mut datagrams, FAR, 4000).map(|reply| reply.len()), Some(4000));
    }

    #[test]
    fn no_reply_is_longer_than_the_limit() {
        let mut datagrams = datagrams(OPEN);
        assert_eq!(answered(&mut datagrams, NEAR, 4072).map(|reply| reply.len()), Some(4072));
        assert_eq!(answered(&mut datagrams, NEAR, 4073).as_deref(), Some(TOO_LONG));
        assert_eq!(answered(&mut datagrams, NEAR, 1 << 20).as_deref(), Some(TOO_LONG));
        assert_eq!(answered(&mut datagrams, NEAR, 0), None);
    }

    #[test]
    fn strangers_are_not_served() {
        for (rules, near, far) in [
            (GuestRules { is_open: false, ..OPEN }, false, false),
            (GuestRules { is_protected: true, ..OPEN }, true, false),
            (OPEN, true, true),
        ] {
            let mut datagrams = datagrams(rules);
            assert_eq!(answered(&mut datagrams, NEAR, 1).is_some(), near);
            assert_eq!(answered(&mut datagrams, FAR, 1).is_some(), far);
        }
    }

    #[test]
    fn what_was_sent_is_not_sent_again() {
        let mut datagrams = datagrams(OPEN);
        let reply = |bytes: usize| Unsent {
            peer: NEAR.parse().expect("an address"),
            id: 1,
            bytes: vec![b'x'; bytes],
            sent: 0,
        };
        datagrams.unsent.extend([reply(3000), reply(1), reply(1400)]);
        datagrams.note_sent(2);
        assert_eq!((datagrams.unsent.len(), datagrams.unsent[0].sent), (3, 2));
        datagrams.note_sent(3);
        assert_eq!((datagrams.unsent.len(), datagrams.unsent[0].sent), (1, 1));
        datagrams.note_sent(1);
        assert!(!datagrams.has_letters());
    }
}
