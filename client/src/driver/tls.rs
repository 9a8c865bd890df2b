//! TLS between a driver's socket and its link (feature `tls`): a socket around a socket.
//!
//! ```text
//!   link --write--> [rustls] --records--> socket          plain text goes in, records come out
//!   link <--read--- [rustls] <--records-- socket
//! ```
//!
//! The handshake is no phase of its own: what is written before it has ended waits in rustls, and goes out behind it.
//!
//! Invariant: what rustls holds back is never forgotten. While it has records that the socket did not take, [`Socket::wants_write`]
//! says so, and the driver waits for room.

use std::fs;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::Socket;
use crate::error::Error;
use crate::options::TlsOptions;

/// What is read from a connection's certificates, once for all of a client's connections.
pub(crate) type Config = Arc<ClientConfig>;

/// Reads the files that the options name.
///
/// # Errors
/// [`Error::Usage`] that names the file which cannot be used.
pub(crate) fn config(options: &TlsOptions) -> Result<Config, Error> {
    let mut roots = RootCertStore::empty();
    match &options.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, &error))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                return Err(Error::usage(
                    "the operating system has no certificates to trust; name a file by the URL's option 'tls_ca'",
                ));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::usage(format!("TLS cannot be used: {error}")))?
        .with_root_certificates(roots);
    let config = match (&options.certificate, &options.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let private =
                PrivateKeyDer::from_pem_slice(&file(key)?).map_err(|error| unusable(key, &error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|error| unusable(certificate, &error))?
        }
        _ => return Err(Error::usage("a client certificate needs both 'tls_cert' and 'tls_key'")),
    };
    Ok(Arc::new(config))
}

fn file(path: &str) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| unusable(path, &error))
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file(path)?).collect();
    let found = found.map_err(|error| unusable(path, &error))?;
    if found.is_empty() {
        return Err(Error::usage(format!("'{path}' holds no certificate in PEM form")));
    }
    Ok(found)
}

fn unusable(path: &str, error: &dyn std::fmt::Display) -> Error {
    Error::usage(format!("'{path}' cannot be used for TLS: {error}"))
}

/// A host as a name that a certificate may have.
///
/// # Errors
/// [`Error::Usage`] when it is none.
pub(crate) fn name(host: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        Error::usage(format!(
            "'{host}' is no name that a certificate could have; write the server's host name or address"
        ))
    })
}

/// TLS on a socket that waits, for what is asked before the connection is made.
pub(crate) fn wrap(config: &Config, host: &str, socket: TcpStream) -> io::Result<impl Read + Write + use<>> {
    let name = name(host).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    let connection =
        ClientConnection::new(Arc::clone(config), name).map_err(|error| refusal(&error, true))?;
    Ok(Waiting(rustls::StreamOwned::new(connection, socket)))
}

struct Waiting(rustls::StreamOwned<ClientConnection, TcpStream>);

impl Waiting {
    /// What went wrong in rustls, told as a driver tells it.
    fn explain<T>(&self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(inner) => refusal(inner, self.0.conn.is_handshaking()),
            None => error,
        })
    }
}

impl Read for Waiting {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let done = self.0.read(room);
        self.explain(done)
    }
}

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.0.write(bytes);
        self.explain(done)
    }
    fn flush(&mut self) -> io::Result<()> {
        let done = self.0.flush();
        self.explain(done)
    }
}

/// What went wrong, with what to do. [`io::ErrorKind::InvalidData`] if the next attempt would end the same way.
fn refusal(error: &rustls::Error, is_handshaking: bool) -> io::Error {
    let (is_final, text) = match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature) => {
            (true, "certificate refused: it was not issued by an authority that is trusted; name the certificates to trust by the URL's option 'tls_ca'".to_owned())
        }
        rustls::Error::InvalidCertificate(reason) => (true, format!("certificate refused: {reason}")),
        rustls::Error::AlertReceived(alert) => {
            (true, format!("the server refused TLS: {alert:?}; if it wants a certificate, name it by 'tls_cert' and 'tls_key'"))
        }
        rustls::Error::InvalidMessage(_) if is_handshaking => {
            (true, "the server does not speak TLS at this port; begin the URL with redis:// or name its TLS port".to_owned())
        }
        other => (is_handshaking, format!("TLS failed: {other}")),
    };
    io::Error::new(if is_final { io::ErrorKind::InvalidData } else { io::ErrorKind::Other }, text)
}

/// The state of TLS on one connection.
pub(crate) struct Tls {
    connection: ClientConnection,
}

impl Tls {
    /// # Errors
    /// When the host is no name that a certificate could have.
    pub(crate) fn new(config: &Config, host: &str) -> Result<Tls, Error> {
        let unusable = |error| Error::usage(format!("TLS cannot be used: {error}"));
        let connection = ClientConnection::new(Arc::clone(config), name(host)?).map_err(unusable)?;
        Ok(Tls { connection })
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Gives the socket what it takes.
    pub(crate) fn flush(&mut self, socket: &mut impl Socket) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Plain(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, socket: &mut impl Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(socket)?;
        let count = self.connection.writer().write_vectored(pieces)?;
        self.flush(socket)?;
        // Its buffer is full: the socket wants to wait.
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    pub(crate) fn read(&mut self, socket: &mut impl Socket, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.connection.read_tls(&mut Plain(socket))? == 0 {
                return Ok(0);
            }
            let is_handshaking = self.connection.is_handshaking();
            let processed = self.connection.process_new_packets();
            // An alert says what was wrong: it is sent even if the connection is of no use any more.
            let flushed = self.flush(socket);
            processed.map_err(|error| refusal(&error, is_handshaking))?;
            flushed?;
        }
    }
}

/// A socket as the standard library sees one.
struct Plain<'s, S>(&'s mut S);

impl<S: Socket> Read for Plain<'_, S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.read(room)
    }
}

impl<S: Socket> Write for Plain<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&[IoSlice::new(bytes)])
    }
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write(pieces)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
