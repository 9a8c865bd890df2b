//! What every read and write of a connection works with, whether or not a filter stands between: buffers, and how it went.
use std::io::IoSlice;

use polder_wire::Output;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use socket2::Socket;

/// What one read asks for, at least.
pub const READ_BYTES: usize = 16 << 10;
/// Longer buffers are not kept.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// How many buffers are kept.
const KEPT_MAX: usize = 256;
/// The size of a buffer that is lent to each of very many clients.
const SMALL_BYTES: usize = 1 << 10;

/// Buffers that no connection uses at present.
#[derive(Default)]
pub struct Pool {
    kept: Vec<Vec<u8>>,
}

impl Pool {
    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        self.kept.pop().unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
    }

    /// An empty buffer for one of `many` connections that need one at the same time. If there are more of them than the pool
    /// keeps buffers, large buffers would be fresh memory each time, which the system clears first.
    pub fn take_one_of(&mut self, many: usize) -> Vec<u8> {
        if many > KEPT_MAX { Vec::with_capacity(SMALL_BYTES) } else { self.take() }
    }

    /// Takes a buffer back, unless its size is unusual or there are enough.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        if (READ_BYTES..=KEPT_BYTES_MAX).contains(&buffer.capacity()) && self.kept.len() < KEPT_MAX {
            buffer.clear();
            self.kept.push(buffer);
        }
    }
}

/// The result of a read or a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// This many bytes; there may be more.
    Some(usize),
    /// This many bytes, and no more for now.
    Last(usize),
    /// The peer is gone.
    Gone,
}

/// Pieces of one gathered write.
const PIECES_MAX: usize = 64;

/// Reads once behind what the buffer has, as much as it has room for; `None`: the peer sends nothing more.
#[inline]
pub fn receive(socket: &Socket, into: &mut Vec<u8>) -> Option<Flow> {
    let room = into.capacity() - into.len();
    Some(match rustix::io::read(socket, spare_capacity(into)) {
        Ok(0) => return None,
        Ok(count) if count < room => Flow::Last(count),
        Ok(count) => Flow::Some(count),
        Err(Errno::AGAIN) => Flow::Last(0),
        Err(Errno::INTR) => Flow::Some(0),
        Err(_) => Flow::Gone,
    })
}

/// Writes once, all that fits.
#[inline]
pub fn send(socket: &Socket, output: &mut Output) -> Flow {
    let (offered, written) = match output.single() {
        // Less work for the kernel than write(2), which also looks at the file of the socket.
        Some(bytes) => (
            bytes.len(),
            socket.send(bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        ),
        None => {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = output.slices(&mut pieces);
            let offered = pieces[..count].iter().map(|piece| piece.len()).sum();
            (offered, rustix::io::writev(socket, &pieces[..count]))
        }
    };
    match written {
        Ok(count) => {
            output.consume(count);
            // Only a socket that took less than it was offered is full, and only for a full socket the poll reports room.
            if count == offered { Flow::Some(count) } else { Flow::Last(count) }
        }
        Err(Errno::AGAIN) => Flow::Last(0),
        Err(Errno::INTR) => Flow::Some(0),
        Err(_) => Flow::Gone,
    }
}
