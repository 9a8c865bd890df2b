//! TLS: what all threads share of it. [`filter`](crate::filter) has the state of one connection.
//!
//! ```text
//!   settings, files --config::build--> ServerConfig --one per new connection--> Filter
//!   segment --keys--> Tickets ---------^
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `config` | settings and files to rustls's configuration |
//! | `outgoing` | the same for the link to a primary |
//! | `ciphers` | OpenSSL's names of ciphers and versions |
//! | `tickets` | session tickets that all servers of a segment can read |
//! | `subject` | the common name in a certificate |
//!
//! - **T1** A configuration that cannot be built changes nothing: CONFIG SET fails, SIGHUP is told in the log, and new
//!   connections get the configuration of before.
//! - **T2** Connections keep the configuration with which they began.
//! - **T3** A ticket is good only under the same certificates and rules for clients: see [`tickets`].
mod ciphers;
mod config;
mod outgoing;
mod subject;
mod tickets;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use polder_calls::settings::{Id, Settings, id};
use polder_engine::Table;
use rustls::ServerConfig;

pub use self::outgoing::filter_to;
pub use self::subject::common_name;
use self::tickets::Tickets;
use crate::filter::Filter;
use crate::listener::After;
use polder_protocols::doors::{DOORS, PlaceSettings};

/// The settings of which a configuration is made.
const SETTINGS: [Id; 13] = [
    id("tls-cert-file"),
    id("tls-key-file"),
    id("tls-ca-cert-file"),
    id("tls-ca-cert-dir"),
    id("tls-auth-clients"),
    id("tls-protocols"),
    id("tls-ciphers"),
    id("tls-ciphersuites"),
    id("tls-prefer-server-ciphers"),
    id("tls-session-caching"),
    id("tls-session-cache-size"),
    id("tls-session-cache-timeout"),
    id("tls-port"),
];

/// TLS of a process.
#[derive(Default)]
pub struct Tls {
    config: RwLock<Option<Arc<ServerConfig>>>,
    tickets: Arc<Tickets>,
    /// Held while a change is applied, so that the configuration is that of the settings.
    changing: Mutex<()>,
}

impl Tls {
    /// The configuration for a new connection; `None` while no port has TLS.
    fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// TLS for a new connection.
    ///
    /// # Errors
    /// When rustls has no random bytes.
    pub fn filter(&self) -> io::Result<Box<Filter>> {
        let config = self.config().ok_or(io::ErrorKind::NotConnected)?;
        Filter::secure(config).map(Box::new).map_err(io::Error::other)
    }

    /// Keeps other changes out.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration that these changes ask for; `None` if they do not concern TLS, or no port has it.
    ///
    /// # Errors
    /// The setting that is at fault, and one line that names the file and the reason (T1).
    pub fn prepare(&self, after: &After<'_>) -> Result<Option<Arc<ServerConfig>>, (Id, String)> {
        let concerned = |id: &Id| SETTINGS.contains(id) || ports().any(|port| port == *id);
        let Some((first, _)) = after.changes.iter().find(|(id, _)| concerned(id)) else { return Ok(None) };
        self.build(after).map_err(|why| (*first, why))
    }

    /// The configuration of these settings; `None` if no port has TLS.
    ///
    /// # Errors
    /// One line that names the file and the reason.
    pub fn build(&self, after: &After<'_>) -> Result<Option<Arc<ServerConfig>>, String> {
        if ports().all(|port| after.number(port) == 0) {
            return Ok(None);
        }
        config::build(after, &self.tickets).map(|config| Some(Arc::new(config)))
    }

    /// Gives new connections this configuration (T2).
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Some(config);
    }

    /// Takes the keys of tickets from the segment; called once a second.
    pub fn renew_tickets(&self, table: &Table, settings: &Settings, now_ms: u64) {
        if self.config.read().unwrap_or_else(PoisonError::into_inner).is_some() {
            self.tickets.renew(table, now_ms, config::ticket_lifetime_ms(settings));
        }
    }
}

/// The settings of ports with TLS.
fn ports() -> impl Iterator<Item = Id> {
    DOORS.iter().filter_map(|door| match door.place {
        PlaceSettings::Tcp { tls_port, .. } => tls_port,
        PlaceSettings::Udp { .. } | PlaceSettings::Unix { .. } => None,
    })
}
