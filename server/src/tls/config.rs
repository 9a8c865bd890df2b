//! Settings and files to rustls's configuration. Each error names the file, the setting and the reason.
use std::path::Path;
use std::sync::Arc;

use polder_calls::settings::{Id, Settings, id};
use ring::digest;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::ciphers;
use super::tickets::{Ticketer, Tickets};
use crate::listener::After;

pub const CERTIFICATE: Id = id("tls-cert-file");
pub const KEY: Id = id("tls-key-file");
const CA_FILE: Id = id("tls-ca-cert-file");
const CA_FOLDER: Id = id("tls-ca-cert-dir");
const CLIENTS: Id = id("tls-auth-clients");
pub const PROTOCOLS: Id = id("tls-protocols");
const CIPHERS: Id = id("tls-ciphers");
const SUITES: Id = id("tls-ciphersuites");
const OWN_ORDER: Id = id("tls-prefer-server-ciphers");
const CACHING: Id = id("tls-session-caching");
const CACHE_SIZE: Id = id("tls-session-cache-size");
const CACHE_TIMEOUT: Id = id("tls-session-cache-timeout");

/// The values of `tls-auth-clients`.
const NO_CLIENTS: i64 = 0;
const ALL_CLIENTS: i64 = 1;

/// How long a key of tickets is used, in milliseconds.
pub fn ticket_lifetime_ms(settings: &Settings) -> u64 {
    settings.number(CACHE_TIMEOUT).unsigned_abs() * 1000
}

/// The configuration of these settings.
///
/// # Errors
/// One line.
pub fn build(after: &After<'_>, tickets: &Arc<Tickets>) -> Result<ServerConfig, String> {
    let (chain, key) = (certificates(after, CERTIFICATE)?, private_key(after, KEY)?);
    let roots = roots_of_clients(after)?;
    // T3: a ticket of other rules is not taken.
    let mut rules = digest::Context::new(&digest::SHA256);
    rules.update(&after.number(CLIENTS).to_le_bytes());
    chain.iter().chain(&roots).for_each(|certificate| rules.update(certificate));
    let provider = provider(after)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&ciphers::versions(&after.string(PROTOCOLS))?)
        .map_err(misfit)?;
    let builder = match after.number(CLIENTS) {
        NO_CLIENTS => builder.with_no_client_auth(),
        mode => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store(roots)?), provider);
            let verifier = if mode == ALL_CLIENTS { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier
                .build()
                .map_err(|error| format!("the certificates of clients cannot be checked: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let (certificate, key) = (after.string(CERTIFICATE), after.string(KEY));
        format!("tls-cert-file {certificate} and tls-key-file {key} cannot be used together: {error}")
    })?;
    config.ignore_client_order = after.number(OWN_ORDER) != 0;
    let lifetime_seconds = u32::try_from(after.number(CACHE_TIMEOUT)).unwrap_or(u32::MAX);
    let size = usize::try_from(after.number(CACHE_SIZE)).unwrap_or(0);
    let caches = after.number(CACHING) != 0;
    if caches && size > 0 {
        config.session_storage = ServerSessionMemoryCache::new(size);
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    if caches && lifetime_seconds > 0 {
        let rules = rules.finish().as_ref().to_vec();
        config.ticketer = Arc::new(Ticketer { tickets: tickets.clone(), rules, lifetime_seconds });
    } else {
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

/// The ciphers that the settings allow.
///
/// # Errors
/// One line.
pub fn provider(after: &After<'_>) -> Result<Arc<CryptoProvider>, String> {
    Ok(Arc::new(CryptoProvider {
        cipher_suites: ciphers::suites(&after.string(SUITES), &after.string(CIPHERS))?,
        ..rustls::crypto::ring::default_provider()
    }))
}

/// Says that versions and ciphers leave nothing.
pub fn misfit(error: rustls::Error) -> String {
    format!("tls-protocols and the ciphers do not fit together: {error}")
}

/// The roots in rustls's form.
///
/// # Errors
/// One line.
pub fn store(roots: Vec<CertificateDer<'static>>) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root).map_err(|error| {
            format!("tls-ca-cert-file or tls-ca-cert-dir has a certificate that cannot be used: {error}")
        })?;
    }
    Ok(store)
}

/// The path that a setting has.
fn path(after: &After<'_>, setting: Id) -> Result<String, String> {
    let path = after.string(setting);
    if path.is_empty() {
        Err(format!("a port with TLS needs {}: set it to a file in PEM form", setting.row().name))
    } else {
        Ok(path)
    }
}

fn unusable(setting: Id, path: &str, why: &dyn std::fmt::Display) -> String {
    format!("{} {path} cannot be used: {why}", setting.row().name)
}

fn reason(error: &PemError) -> String {
    match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => "it has nothing of this kind in PEM form".into(),
        other => format!("it is not in PEM form ({other:?})"),
    }
}

/// The certificates of a file, at least one.
///
/// # Errors
/// One line.
pub fn certificates(after: &After<'_>, setting: Id) -> Result<Vec<CertificateDer<'static>>, String> {
    let path = path(after, setting)?;
    let read = || CertificateDer::pem_file_iter(&path)?.collect::<Result<Vec<_>, PemError>>();
    let found = read().map_err(|error| unusable(setting, &path, &reason(&error)))?;
    if found.is_empty() { Err(unusable(setting, &path, &reason(&PemError::NoItemsFound))) } else { Ok(found) }
}

/// The private key of a file.
///
/// # Errors
/// One line.
pub fn private_key(after: &After<'_>, setting: Id) -> Result<PrivateKeyDer<'static>, String> {
    let path = path(after, setting)?;
    let found = PrivateKeyDer::from_pem_file(&path);
    found.map_err(|error| {
        let locked = std::fs::read_to_string(&path).is_ok_and(|text| text.contains("ENCRYPTED"));
        let why = if locked {
            "it has a password; write one without with 'openssl pkey -in KEY -out FILE'".into()
        } else {
            reason(&error)
        };
        unusable(setting, &path, &why)
    })
}

/// The roots to which the certificates of clients must lead; none if clients show no certificates.
fn roots_of_clients(after: &After<'_>) -> Result<Vec<CertificateDer<'static>>, String> {
    if after.number(CLIENTS) == NO_CLIENTS {
        return Ok(Vec::new());
    }
    let roots = roots(after)?;
    if roots.is_empty() {
        return Err(
            "tls-auth-clients asks clients for certificates: set tls-ca-cert-file or tls-ca-cert-dir, or tls-auth-clients no".into()
        );
    }
    Ok(roots)
}

/// The roots that the settings name.
///
/// # Errors
/// One line.
pub fn roots(after: &After<'_>) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut roots = if after.string(CA_FILE).is_empty() { Vec::new() } else { certificates(after, CA_FILE)? };
    let folder = after.string(CA_FOLDER);
    if !folder.is_empty() {
        let read = |error: std::io::Error| unusable(CA_FOLDER, &folder, &error);
        let mut paths = Vec::new();
        for entry in Path::new(&folder).read_dir().map_err(read)? {
            paths.push(entry.map_err(read)?.path());
        }
        // The same order each time, because the rules of tickets are made of them.
        paths.sort_unstable();
        roots.extend(
            paths
                .iter()
                .filter_map(|path| CertificateDer::pem_file_iter(path).ok())
                .flatten()
                .filter_map(Result::ok),
        );
        if roots.is_empty() {
            return Err(unusable(CA_FOLDER, &folder, &"no file in it has a certificate in PEM form"));
        }
    }
    Ok(roots)
}
