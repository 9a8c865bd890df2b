//! TLS between a socket and the buffers of its connection.
//!
//! ```text
//!   socket --records--> [rustls] --plain--> input       Connection::receive
//!   socket <--records-- [rustls] <--plain-- output      Connection::send
//! ```
//!
//! - **F1** After each reading, rustls holds no plain bytes, only the part of a record. So a connection has something to
//!   read only when its socket has.
//! - **F2** rustls takes plain bytes only while it has no records to send, and at most its own limit (64 KiB). All others stay
//!   in the output, where the limits for slow readers count them.
//! - **F3** Until the handshake has ended, no plain bytes are taken, in either direction.
use std::io::{self, BufRead, IoSlice, Write};
use std::sync::{Arc, Mutex, PoisonError};

use polder_base::time::now_ms;
use polder_wire::Output;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use socket2::Socket;

use crate::transfer::{self, Flow, Pool};

/// Lines about failed handshakes that are written to the log in a minute. A peer that sends rubbish must not fill the disk.
const LINES_MAX: u64 = 10;
const MINUTE_MS: u64 = 60_000;

/// Pieces of an output that are given to rustls at a time.
const PIECES_MAX: usize = 64;

/// The state of TLS on one connection.
pub struct Secure {
    tls: Connection,
    /// The server has seen that the handshake has ended.
    greeted: bool,
    /// The peer has said that it sends nothing more.
    ended: bool,
}

impl Secure {
    /// # Errors
    /// Rustls has no memory or random bytes.
    pub fn new(config: Arc<ServerConfig>) -> Result<Secure, rustls::Error> {
        Ok(Secure::of(ServerConnection::new(config)?.into()))
    }

    /// The side that has connected, to a peer of this name.
    ///
    /// # Errors
    /// Rustls has no memory or random bytes.
    pub fn to(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Secure, rustls::Error> {
        Ok(Secure::of(ClientConnection::new(config, name)?.into()))
    }

    fn of(tls: Connection) -> Secure {
        Secure { tls, greeted: false, ended: false }
    }

    /// Whether the handshake has not ended.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// True once, after the handshake has ended.
    pub fn take_greeting(&mut self) -> bool {
        !self.tls.is_handshaking() && !std::mem::replace(&mut self.greeted, true)
    }

    /// The certificate of the client.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.tls.peer_certificates().and_then(|chain| chain.first()).map(|certificate| &**certificate)
    }

    /// Whether the peer has ended its side, which the socket need not know.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether there is something to send; `waits` says whether plain bytes are there.
    pub fn has_output(&self, waits: bool) -> bool {
        self.tls.wants_write() || waits && !self.tls.is_handshaking()
    }

    /// Reads once from the socket, and appends what that makes to the input. `Last(0)` and [`Secure::has_ended`] together
    /// say that the peer sends no more.
    ///
    /// # Errors
    /// The peer's offence. It has been told so by then, if its socket took that.
    pub fn receive(
        &mut self,
        socket: &Socket,
        pool: &mut Pool,
        input: &mut Vec<u8>,
    ) -> Result<Flow, rustls::Error> {
        if self.ended {
            return Ok(Flow::Last(0));
        }
        let mut records = pool.take();
        let flow = transfer::receive(socket, &mut records).unwrap_or_else(|| {
            self.ended = true;
            Flow::Last(0)
        });
        let taken = self.take_in(socket, &records, input);
        pool.give(records);
        taken.map(|()| flow)
    }

    /// Takes records in that have come.
    ///
    /// # Errors
    /// The errors of [`Secure::receive`].
    pub fn take_in(
        &mut self,
        socket: &Socket,
        records: &[u8],
        input: &mut Vec<u8>,
    ) -> Result<(), rustls::Error> {
        self.open(records, input).inspect_err(|_| drop(self.flush(socket)))
    }

    /// Takes records in and appends the plain bytes to the input (F1).
    fn open(&mut self, mut records: &[u8], input: &mut Vec<u8>) -> Result<(), rustls::Error> {
        while !records.is_empty() && !self.ended {
            // A record that is too long is found here.
            let taken =
                self.tls.read_tls(&mut records).map_err(|error| rustls::Error::General(error.to_string()))?;
            let state = self.tls.process_new_packets()?;
            let mut plain = self.tls.reader();
            while let Ok(bytes) = plain.fill_buf() {
                let count = bytes.len();
                if count == 0 {
                    break;
                }
                input.extend_from_slice(bytes);
                plain.consume(count);
            }
            self.ended |= state.peer_has_closed() || taken == 0;
        }
        Ok(())
    }

    /// Sends records that wait, or else those of the next bytes of the output (F2, F3).
    pub fn send(&mut self, socket: &Socket, output: &mut Output) -> Flow {
        if !self.tls.wants_write() && !self.tls.is_handshaking() {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = output.slices(&mut pieces);
            match self.tls.writer().write_vectored(&pieces[..count]) {
                Ok(taken) => output.consume(taken),
                Err(_) => return Flow::Gone,
            }
        }
        match self.flush(socket) {
            Ok(flow) => flow,
            Err(_) => Flow::Gone,
        }
    }

    /// Gives the socket the records that it takes.
    fn flush(&mut self, mut socket: &Socket) -> io::Result<Flow> {
        let mut written = 0;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut socket) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flow::Last(written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Flow::Some(written))
    }

    /// Tells the peer that nothing more comes, as far as the socket takes it.
    pub fn finish(&mut self, socket: &Socket) {
        self.tls.send_close_notify();
        if let Err(error) = self.flush(socket) {
            tracing::debug!(%error, "the end of a connection with TLS");
        }
    }
}

/// Says in the log why a handshake failed: each of the first ones of a minute, then how many more there were.
#[cold]
pub fn tell_failure(error: &rustls::Error, address: &str) {
    /// The minute, and the failures in it.
    static FAILED: Mutex<(u64, u64)> = Mutex::new((0, 0));
    let minute = now_ms() / MINUTE_MS;
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.0 != minute {
        if let Some(more) = failed.1.checked_sub(LINES_MAX).filter(|more| *more > 0) {
            tracing::warn!("{more} more TLS handshakes failed");
        }
        *failed = (minute, 0);
    }
    failed.1 += 1;
    if failed.1 <= LINES_MAX {
        tracing::warn!(%error, address, "a TLS handshake failed");
    }
}
