//! TLS of the link to a primary: this side connects, and looks at the certificate of the other.
use std::net::IpAddr;
use std::sync::Arc;

use polder_calls::settings::{Id, id};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::{ciphers, config};
use crate::filter::Filter;
use crate::listener::After;

const CERTIFICATE: Id = id("tls-client-cert-file");
const KEY: Id = id("tls-client-key-file");

/// TLS to a primary at this host. Its certificate must lead to a root of `tls-ca-cert-file` or `tls-ca-cert-dir`, and have the name of the host where that is
/// a name: like Redis, an address is not looked for in it. This side shows the certificate of `tls-client-cert-file`, or that of `tls-cert-file`, if there is one.
///
/// # Errors
/// One line that names the setting.
pub fn filter_to(after: &After<'_>, host: &str) -> Result<Filter, String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("the name of the primary is none that a certificate can have: {host}"))?;
    let config = build(after, host.parse::<IpAddr>().is_ok())?;
    Filter::secure_to(Arc::new(config), name).map_err(|error| format!("TLS to the primary: {error}"))
}

fn build(after: &After<'_>, is_address: bool) -> Result<ClientConfig, String> {
    let roots = config::roots(after)?;
    if roots.is_empty() {
        return Err(
            "tls-replication needs the certificates that the primary's must lead to: set tls-ca-cert-file or tls-ca-cert-dir".into()
        );
    }
    let provider = config::provider(after)?;
    let chain =
        WebPkiServerVerifier::builder_with_provider(Arc::new(config::store(roots)?), provider.clone())
            .build()
            .map_err(|error| format!("the certificate of the primary cannot be checked: {error}"))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&ciphers::versions(&after.string(config::PROTOCOLS))?)
        .map_err(config::misfit)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { chain, is_address }));
    let own = [(CERTIFICATE, KEY), (config::CERTIFICATE, config::KEY)];
    let mut config = match own.into_iter().find(|(certificate, _)| !after.string(*certificate).is_empty()) {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                config::certificates(after, certificate)?,
                config::private_key(after, key)?,
            )
            .map_err(|error| {
                let [certificate, key] = [certificate, key].map(|id| id.row().name);
                format!("{certificate} and {key} cannot be used together: {error}")
            })?,
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Looks at the chain of a certificate, and at its name unless the primary is known by its address.
#[derive(Debug)]
struct Verifier {
    chain: Arc<WebPkiServerVerifier>,
    is_address: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.chain.verify_server_cert(certificate, others, name, ocsp, now) {
            // The name comes last: the chain has been found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.is_address => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
