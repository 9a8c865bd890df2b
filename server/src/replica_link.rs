//! The connection of a replica, with or without TLS, which one thread uses.
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use polder_replica::feed::Link;
use polder_wire::Output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::Socket;

use crate::filter::Filter;
use crate::transfer::{Flow, Pool};

/// Bytes that the layer of TLS is given at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The socket, which does not wait by itself.
pub struct ReplicaLink {
    socket: Socket,
    secure: Option<Box<SecureLink>>,
}

/// The state of TLS beside the socket.
struct SecureLink {
    filter: Box<Filter>,
    pool: Pool,
    output: Output,
    /// Plain bytes that have not been taken yet.
    input: Vec<u8>,
}

impl ReplicaLink {
    pub fn new(socket: Socket, filter: Option<Box<Filter>>) -> ReplicaLink {
        let secure = filter.map(|filter| {
            Box::new(SecureLink {
                filter,
                pool: Pool::default(),
                output: Output::default(),
                input: Vec::new(),
            })
        });
        ReplicaLink { socket, secure }
    }

    /// Closes the connection.
    pub fn end(mut self) {
        if let Some(secure) = &mut self.secure {
            secure.filter.finish(&self.socket, false);
        }
        // The peer may have closed it.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl SecureLink {
    /// Sends what waits, as far as the socket takes it.
    fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        while self.filter.has_output(&self.output) {
            match self.filter.send(socket, &mut self.output) {
                Flow::Some(_) => {}
                Flow::Last(_) => break,
                Flow::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        Ok(())
    }
}

impl Link for ReplicaLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(secure) = &mut self.secure else { return (&self.socket).write(bytes) };
        secure.flush(&self.socket)?;
        if secure.filter.has_output(&secure.output) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        secure.output.raw(piece);
        secure.flush(&self.socket)?;
        Ok(piece.len())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(secure) = &mut self.secure else { return (&self.socket).read(bytes) };
        secure.flush(&self.socket)?;
        if secure.input.is_empty() {
            let SecureLink { filter, pool, input, .. } = &mut **secure;
            let flow = filter.receive(&self.socket, pool, input, usize::MAX).map_err(io::Error::other)?;
            match flow {
                Flow::Gone => return Ok(0),
                _ if input.is_empty() && filter.has_ended() => return Ok(0),
                _ if input.is_empty() => return Err(io::ErrorKind::WouldBlock.into()),
                _ => {}
            }
        }
        let count = secure.input.len().min(bytes.len());
        bytes[..count].copy_from_slice(&secure.input[..count]);
        secure.input.drain(..count);
        Ok(count)
    }

    fn wait(&mut self, sends: bool, wakeup: Option<BorrowedFd<'_>>, patience: Duration) -> io::Result<()> {
        let waits = self.secure.as_ref().is_some_and(|secure| secure.filter.has_output(&secure.output));
        let flags = if sends || waits { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut awaited = vec![PollFd::new(&self.socket, flags)];
        awaited.extend(wakeup.map(|wakeup| PollFd::from_borrowed_fd(wakeup, PollFlags::IN)));
        let (seconds, nanoseconds) = (patience.as_secs() as i64, i64::from(patience.subsec_nanos()));
        match poll(&mut awaited, Some(&Timespec { tv_sec: seconds, tv_nsec: nanoseconds })) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
