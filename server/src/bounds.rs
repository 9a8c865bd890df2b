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
const CLIENTS: Id = id("maxmemory-clients");
const MEMORY: Id = id("maxmemory");
const HOLD: Id = id("hold-publishers");

/// As in Redis, where they are no settings either.
const STRANGERS_OUTPUT_BYTES: u64 = 1024;
const STRANGERS_QUERY_BYTES: usize = 1 << 20;

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
    query_bytes_max: usize,
    /// What all clients together may take, in bytes; 0 for no limit.
    pub clients_bytes_max: usize,
    /// Whether publishers wait for subscribers' threads.
    pub holds_publishers: bool,
    /// Of normal clients, and of those who have subscribed.
    output: OutputLimit,
    output_of_listeners: OutputLimit,
    /// Keys that tracking clients of a thread have read; 0 for no limit.
    pub tracked_keys_max: usize,
}

impl Bounds {
    /// What the settings say now; `ceiling` is how long the segment may become.
    pub fn of(settings: &Settings, ceiling: u64) -> Bounds {
        let size = |id: Id| usize::try_from(settings.number(id)).unwrap_or(0);
        let memory = if size(MEMORY) == 0 { ceiling as usize } else { size(MEMORY) };
        // A percentage is kept as a negative number.
        let clients_bytes_max = match settings.number(CLIENTS) {
            bytes @ 0.. => bytes as usize,
            percent => (memory as f64 * percent.unsigned_abs() as f64 / 100.0) as usize,
        };
        Bounds {
            version: settings.version(),
            clients_max: size(MAXCLIENTS),
            timeout_seconds: size(TIMEOUT) as u64,
            keepalive_seconds: size(KEEPALIVE) as u64,
            bulk_bytes_max: size(BULK),
            query_bytes_max: size(QUERY),
            clients_bytes_max,
            holds_publishers: settings.number(HOLD) != 0,
            tracked_keys_max: size(TRACKED),
            output: output_limits(&settings.text(OUTPUT))[0],
            output_of_listeners: output_limits(&settings.text(OUTPUT))[2],
        }
    }

    /// Whether a client has sent more than it may that has not been executed: calls that wait for EXEC are counted, as in Redis 7.4.
    pub fn is_over_query_limit(&self, session: &Session, input_bytes: usize) -> bool {
        let queued = session.multi.as_deref().map_or(0, |multi| multi.queue.bytes());
        let most = if session.authenticated { self.query_bytes_max } else { self.query_bytes_max.min(STRANGERS_QUERY_BYTES) };
        input_bytes + queued > most
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
    pub fn refresh(&mut self, settings: &Settings, ceiling: u64) {
        if settings.version() != self.version {
            *self = Bounds::of(settings, ceiling);
        }
    }
}
