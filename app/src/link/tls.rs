//! `polder cli --tls`: TLS on the connection to a server.
//!
//! One thread may read while another writes, so the state is behind a lock, which no thread holds while it waits for the
//! server to send something.
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// How a connection is encrypted; redis-cli's names.
#[derive(Args, Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsArguments {
    /// Speak TLS; a URI that begins with `rediss://` does so, too.
    #[arg(long, conflicts_with_all = ["socket", "segment"])]
    pub tls: bool,
    /// Host name that the server's certificate must have, and that it is told [default: the host].
    #[arg(long, value_name = "HOST")]
    pub sni: Option<String>,
    /// File of the certificates to trust, in PEM form [default: those of the system].
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<String>,
    /// Folder of such files.
    #[arg(long, value_name = "FOLDER", conflicts_with = "cacert")]
    pub cacertdir: Option<String>,
    /// Take any certificate of the server. The connection is not safe from others on the way.
    #[arg(long)]
    pub insecure: bool,
    /// File of the certificate to show to the server.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<String>,
    /// File of its private key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<String>,
}

/// A connection with TLS.
pub struct Secure {
    socket: TcpStream,
    tls: Arc<Mutex<ClientConnection>>,
    /// Records that were received and not yet given to rustls.
    records: Vec<u8>,
}

impl Secure {
    /// Begins TLS and waits for the end of the handshake.
    ///
    /// # Errors
    /// A file that cannot be used, or a server that is not trusted: one line.
    pub fn connect(mut socket: TcpStream, host: &str, arguments: &TlsArguments) -> io::Result<Secure> {
        let host = arguments.sni.as_deref().unwrap_or(host);
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| {
            io::Error::new(ErrorKind::InvalidInput, format!("'{host}' is not a name that TLS can check"))
        })?;
        let config = config(arguments).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Secure { socket, tls: Arc::new(Mutex::new(tls)), records: Vec::new() })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The same connection for a thread that reads, while this one writes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn share(&self) -> io::Result<Secure> {
        Ok(Secure { socket: self.socket.try_clone()?, tls: self.tls.clone(), records: self.records.clone() })
    }

    fn state(&self) -> MutexGuard<'_, ClientConnection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Secure {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut chunk = [0; 16 << 10];
        loop {
            {
                let mut tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    match tls.reader().read(room) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                        read => return read,
                    }
                    if self.records.is_empty() {
                        break;
                    }
                    let taken = tls.read_tls(&mut self.records.as_slice())?;
                    self.records.drain(..taken);
                    let state = tls.process_new_packets();
                    flush(&mut tls, &self.socket)?;
                    state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                }
            }
            match self.socket.read(&mut chunk)? {
                0 => return Ok(0),
                count => self.records.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

impl Write for Secure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut tls = self.state();
        let count = tls.writer().write(bytes)?;
        flush(&mut tls, &self.socket)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        flush(&mut self.state(), &self.socket)
    }
}

fn flush(tls: &mut ClientConnection, mut socket: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut socket)?;
    }
    Ok(())
}

fn config(arguments: &TlsArguments) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = match arguments.insecure {
        true => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
        false => builder.with_root_certificates(roots(arguments)?),
    };
    match (&arguments.cert, &arguments.key) {
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("key", key, &error))?;
            let config = builder.with_client_auth_cert(certificates("cert", certificate)?, private);
            config.map_err(|error| {
                format!("--cert {certificate} and --key {key} cannot be used together: {error}")
            })
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn roots(arguments: &TlsArguments) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match (&arguments.cacert, &arguments.cacertdir) {
        (Some(file), _) => {
            for root in certificates("cacert", file)? {
                roots.add(root).map_err(|error| unusable("cacert", file, &error))?;
            }
        }
        (None, Some(folder)) => {
            let found = rustls_native_certs::load_certs_from_paths(None, Some(Path::new(folder)));
            if roots.add_parsable_certificates(found.certs).0 == 0 {
                return Err(unusable(
                    "cacertdir",
                    folder,
                    &"no file in it has a certificate in PEM form, under a name of 'openssl rehash'",
                ));
            }
        }
        (None, None) => {
            let found = rustls_native_certs::load_native_certs();
            if roots.add_parsable_certificates(found.certs).0 == 0 {
                return Err("the system has no certificates to trust: name a file with --cacert".into());
            }
        }
    }
    Ok(roots)
}

fn certificates(flag: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => Err(unusable(flag, path, &"it has no certificate in PEM form")),
        found => found.map_err(|error| unusable(flag, path, &error)),
    }
}

fn unusable(flag: &str, path: &str, why: &dyn std::fmt::Display) -> String {
    format!("--{flag} {path} cannot be used: {why}")
}

/// Takes any certificate. The server must still show that it has the certificate's key.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
