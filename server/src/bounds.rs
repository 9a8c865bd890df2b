//! The limits that a turn needs, out of the settings; read again only when a setting has changed.
use polder_commands::Session;
use polder_commands::settings::value::{OutputLimit, output_limits};
use polder_commands::settings::{Id, Settings, id};

const MAXCLIENTS: Id = id("maxclients");
const TIMEOUT: Id = id("timeout");
const KEEPALIVE: Id = id("tcp-keepalive");
const BULK: Id = id("proto-max-bulk-len");
const QUERY: Id = id("client-query-buffer-limit");
const OUTPUT: Id = id("client-output-buffer-limit");
const TRACKED: Id = id("tracking-table-max-keys");

/// As in Redis, where it is no setting either.
const STRANGERS_OUTPUT_BYTES: u64 = 1024;

/// What clients may do and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    version: u64,
    pub clients_max: usize,
    /// Seconds; 0 is for ever.
    pub timeout_seconds: u64,
    /// Seconds; 0 asks for no probes.
    pub keepalive_seconds: u64,
    pub bulk_bytes_max: usize,
    pub query_bytes_max: usize,
    /// Of normal clients, and of those who have subscribed.
    output: OutputLimit,
    output_of_listeners: OutputLimit,
    /// Keys that tracking clients of a thread have read; 0 for no limit.
    pub tracked_keys_max: usize,
}

impl Bounds {
    /// What the settings say now.
    pub fn of(settings: &Settings) -> Bounds {
        let size = |id: Id| usize::try_from(settings.number(id)).unwrap_or(0);
        Bounds {
            version: settings.version(),
            clients_max: size(MAXCLIENTS),
            timeout_seconds: size(TIMEOUT) as u64,
            keepalive_seconds: size(KEEPALIVE) as u64,
            bulk_bytes_max: size(BULK),
            query_bytes_max: size(QUERY),
            tracked_keys_max: size(TRACKED),
            output: output_limits(&settings.text(OUTPUT))[0],
            output_of_listeners: output_limits(&settings.text(OUTPUT))[2],
        }
    }

    /// How much may wait to be sent to a client; nobody who has not said who it is makes us keep much.
    pub fn output_of(&self, session: &Session) -> OutputLimit {
        let limit = if session.listens() { self.output_of_listeners } else { self.output };
        OutputLimit { hard: self.hard_output_of(session), ..limit }
    }

    /// The hard one of these limits alone, in bytes; 0 for none.
    #[inline]
    pub fn hard_output_of(&self, session: &Session) -> u64 {
        match session.authenticated {
            false => STRANGERS_OUTPUT_BYTES,
            true if session.listens() => self.output_of_listeners.hard,
            true => self.output.hard,
        }
    }

    /// Reads the settings again if any has changed.
    pub fn refresh(&mut self, settings: &Settings) {
        if settings.version() != self.version {
            *self = Bounds::of(settings);
        }
    }
}
