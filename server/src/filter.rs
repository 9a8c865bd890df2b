//! The transport filter of a connection: what stands between its socket and its buffers.
//!
//! ```text
//!   socket --> [TLS: secure] --> [WebSocket: framed] --> input       Connection::receive
//!   socket <-- [TLS: secure] <-- [WebSocket: framed] <-- output      Connection::send
//! ```
//!
//! Or, at a UDP port, [`datagrams`] alone: it has requests of many peers in the input and sends each its reply.
//!
//! Each layer may be missing; a connection without any has no filter. A layer keeps what it needs to finish the piece that it
//! works on. All else waits in the output, where the limits for slow readers count it.
mod datagrams;
mod framed;
mod secure;

use std::sync::Arc;

use polder_wire::Output;
use polder_wire::web_socket::{GOING_AWAY, NORMAL};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use socket2::Socket;

pub use self::datagrams::Datagrams;
pub use self::framed::Framed;
use self::secure::Secure;
pub use self::secure::tell_failure;
use crate::transfer::{self, Flow, Pool};
use polder_protocols::sessions::Due;

/// The layers of one connection.
#[derive(Default)]
pub struct Filter {
    secure: Option<Secure>,
    framed: Option<Box<Framed>>,
    datagrams: Option<Box<Datagrams>>,
}

impl Filter {
    /// TLS.
    ///
    /// # Errors
    /// Rustls has no memory or random bytes.
    pub fn secure(config: Arc<ServerConfig>) -> Result<Filter, rustls::Error> {
        Ok(Filter { secure: Some(Secure::new(config)?), ..Filter::default() })
    }

    /// TLS of the side that connects, to a peer of this name.
    ///
    /// # Errors
    /// Rustls has no memory or random bytes.
    pub fn secure_to(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Filter, rustls::Error> {
        Ok(Filter { secure: Some(Secure::to(config, name)?), ..Filter::default() })
    }

    /// Datagrams.
    pub fn datagrams(datagrams: Datagrams) -> Filter {
        Filter { datagrams: Some(Box::new(datagrams)), ..Filter::default() }
    }

    /// The datagrams of a UDP port.
    #[inline]
    pub fn guests(&mut self) -> Option<&mut Datagrams> {
        self.datagrams.as_deref_mut()
    }

    /// Returns true if what waits in the output may be replaced: no part of it was framed.
    pub fn may_replace(&self) -> bool {
        self.datagrams.is_none() && self.framed.as_ref().is_none_or(|framed| framed.may_replace())
    }

    /// Whether there is room for more from the socket.
    pub fn may_receive(&self) -> bool {
        self.datagrams.as_ref().is_none_or(|datagrams| datagrams.may_receive())
    }

    /// Puts frames of a WebSocket above what there is.
    pub fn frame(&mut self, framed: Framed) {
        self.framed = Some(Box::new(framed));
    }

    /// Whether a WebSocket is open.
    pub fn is_framed(&self) -> bool {
        self.framed.is_some()
    }

    /// Whether the handshake of TLS has not ended.
    pub fn is_handshaking(&self) -> bool {
        self.secure.as_ref().is_some_and(Secure::is_handshaking)
    }

    /// True once, after the handshake of TLS has ended.
    pub fn take_greeting(&mut self) -> bool {
        self.secure.as_mut().is_some_and(Secure::take_greeting)
    }

    /// The certificate of the client.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.secure.as_ref()?.certificate()
    }

    /// Whether the peer has ended its side, which the socket need not know.
    pub fn has_ended(&self) -> bool {
        self.secure.as_ref().is_some_and(Secure::has_ended)
            || self.framed.as_ref().is_some_and(|framed| framed.has_ended())
    }

    /// Whether there is something to send, now that this waits in the output.
    pub fn has_output(&self, output: &Output) -> bool {
        if let Some(datagrams) = &self.datagrams {
            return datagrams.has_letters();
        }
        let waits = self.framed.as_ref().map_or(!output.is_empty(), |framed| framed.has_output(output));
        match &self.secure {
            None => waits,
            Some(secure) => secure.has_output(waits),
        }
    }

    /// Reads once from the socket, and appends what that makes to the input; a message may have `most` bytes. `Last(0)` and
    /// [`Filter::has_ended`] together say that the peer sends no more.
    ///
    /// # Errors
    /// What the peer has done wrong below HTTP. It has been told so by then, if its socket took that.
    pub fn receive(
        &mut self,
        socket: &Socket,
        pool: &mut Pool,
        input: &mut Vec<u8>,
        most: usize,
    ) -> Result<Flow, rustls::Error> {
        if let Some(datagrams) = &mut self.datagrams {
            return Ok(datagrams.receive(socket, input));
        }
        let Some(framed) = &mut self.framed else {
            return self.secure.as_mut().map_or(Ok(Flow::Gone), |secure| secure.receive(socket, pool, input));
        };
        if framed.has_ended() {
            return Ok(Flow::Last(0));
        }
        let mut frames = pool.take();
        let flow = match &mut self.secure {
            Some(secure) => secure.receive(socket, pool, &mut frames),
            None => Ok(read(socket, &mut frames, framed)),
        };
        framed.take(&frames, input, most);
        pool.give(frames);
        flow
    }

    /// Takes in what has come before TLS was begun.
    ///
    /// # Errors
    /// The peer's offence. It has been told so by then, if its socket took that.
    pub fn take_in(
        &mut self,
        socket: &Socket,
        records: &[u8],
        input: &mut Vec<u8>,
    ) -> Result<(), rustls::Error> {
        self.secure.as_mut().map_or(Ok(()), |secure| secure.take_in(socket, records, input))
    }

    /// Writes once.
    pub fn send(&mut self, socket: &Socket, output: &mut Output) -> Flow {
        if let Some(datagrams) = &mut self.datagrams {
            return datagrams.send(socket);
        }
        let output = match &mut self.framed {
            None => output,
            Some(framed) => {
                framed.fill(output);
                &mut framed.frames
            }
        };
        match &mut self.secure {
            None => transfer::send(socket, output),
            Some(secure) => secure.send(socket, output),
        }
    }

    /// What is due once a second on a connection that waits for nothing.
    pub fn tick(&mut self, now_ms: u64) -> Option<Due> {
        match self.framed.as_mut()?.tick(now_ms) {
            None => Some(Due::End(polder_protocols::batch::Rejection::Silence)),
            Some(asks) => asks.then_some(Due::Sent),
        }
    }

    /// Tells the peer that nothing more comes, as far as the socket takes it.
    pub fn finish(&mut self, socket: &Socket, is_stopping: bool) {
        if let Some(framed) = &mut self.framed {
            framed.finish(if is_stopping { GOING_AWAY } else { NORMAL });
            match &mut self.secure {
                None => transfer::send(socket, &mut framed.frames),
                Some(secure) => secure.send(socket, &mut framed.frames),
            };
        }
        if let Some(secure) = &mut self.secure {
            secure.finish(socket);
        }
    }
}

/// Reads frames that come without TLS.
fn read(socket: &Socket, frames: &mut Vec<u8>, framed: &mut Framed) -> Flow {
    transfer::receive(socket, frames).unwrap_or_else(|| {
        framed.end();
        Flow::Last(0)
    })
}
