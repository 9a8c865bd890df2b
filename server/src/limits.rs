//! The limits that a turn needs, taken from the settings; read again only when a setting has changed.
use std::sync::Arc;

use polder_calls::settings::value::{OutputLimit, output_limits};
use polder_calls::settings::{Id, Settings, id};
use polder_runtime::Session;

use crate::doors::{DOORS, Door};
use crate::guest_rules::GuestRules;
use crate::web_rules::WebRules;

const MAXCLIENTS: Id = id("maxclients");
const TIMEOUT: Id = id("timeout");
const KEEPALIVE: Id = id("tcp-keepalive");
const BULK: Id = id("proto-max-bulk-len");
const MEMCACHE_SHUTDOWN: Id = id("memcache-shutdown");
const DATABASE: Id = id("memcache-database");
const GUEST_REPLY: Id = id("memcache-udp-reply-max");
const AMPLIFICATION: Id = id("memcache-udp-amplification");
const ITEM: Id = id("memcache-item-size-max");
const OUTPUT: Id = id("client-output-buffer-limit");
const TRACKED: Id = id("tracking-table-max-keys");
const CLIENTS: Id = id("maxmemory-clients");
const MEMORY: Id = id("maxmemory");
const HANDSHAKE: Id = id("tls-handshake-timeout");
const HANDSHAKES: Id = id("max-new-tls-connections-per-cycle");
const CERTIFICATE_USERS: Id = id("tls-auth-clients-user");
const HTTP_REQUEST: Id = id("http-request-timeout");
const HTTP_IDLE: Id = id("http-idle-timeout");
const HOLD: Id = id("hold-publishers");
const APPENDFSYNC: Id = id("appendfsync");
const COVERS_READS: Id = id("always-covers-reads");

/// What clients may do and for how long.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    version: u64,
    pub clients_max: usize,
    /// Seconds; 0 is for ever.
    pub timeout_seconds: u64,
    /// How long a handshake may take, in seconds; 0 is for ever.
    pub handshake_seconds: u64,
    /// How many clients with TLS a thread accepts in one turn.
    pub handshakes_max: usize,
    /// Whether certificates log clients in.
    pub logs_in_by_certificate: bool,
    /// Seconds; 0 asks for no probes.
    pub keepalive_seconds: u64,
    pub bulk_bytes_max: usize,
    /// The longest value that a memcached client may store.
    pub item_bytes_max: usize,
    /// Whether a memcached client may end the server.
    pub allows_shutdown: bool,
    /// The database of clients of memcached.
    pub memcached_database: u16,
    /// The limits of senders of datagrams.
    pub guests: GuestRules,
    /// By the number of the door.
    request_bytes_max: [usize; DOORS.len()],
    /// The memory that all clients together may take, in bytes; 0 for no limit.
    pub clients_bytes_max: usize,
    /// Whether publishers wait for the threads of subscribers.
    pub holds_publishers: bool,
    /// Whether replies wait for the disk, and those to reads, too.
    pub waits_for_disk: bool,
    pub reads_wait_for_disk: bool,
    /// Of normal clients, and of subscribers.
    output: OutputLimit,
    /// The hard limit of normal clients, by the number of the door.
    hard_output: [u64; DOORS.len()],
    output_of_subscribers: OutputLimit,
    /// Seconds for a request of HTTP to come, and for a connection to be idle; 0 is for ever.
    pub http_request_seconds: u64,
    pub http_idle_seconds: u64,
    /// Which web pages may use the HTTP port.
    pub web: Arc<WebRules>,
    /// The keys that the tracking clients of a thread may have read; 0 for no limit.
    pub tracked_keys_max: usize,
}

impl ServerLimits {
    /// The limits of now; `ceiling` is the length to which the segment may grow.
    pub fn of(settings: &Settings, ceiling: u64) -> ServerLimits {
        let size = |id: Id| usize::try_from(settings.number(id)).unwrap_or(0);
        let memory = if size(MEMORY) == 0 { ceiling as usize } else { size(MEMORY) };
        // A percentage is kept as a negative number.
        let clients_bytes_max = match settings.number(CLIENTS) {
            bytes @ 0.. => bytes as usize,
            percent => (memory as f64 * percent.unsigned_abs() as f64 / 100.0) as usize,
        };
        let output = output_limits(&settings.text(OUTPUT));
        let guests = GuestRules { reply_bytes_max: size(GUEST_REPLY), amplification: size(AMPLIFICATION), ..GuestRules::default() };
        let hard = |door: &Door| if door.takes_datagrams() { guests.reply_bytes_max as u64 } else { output[0].hard };
        ServerLimits {
            version: settings.version(),
            clients_max: size(MAXCLIENTS),
            timeout_seconds: size(TIMEOUT) as u64,
            handshake_seconds: size(HANDSHAKE) as u64,
            handshakes_max: size(HANDSHAKES),
            logs_in_by_certificate: settings.number(CERTIFICATE_USERS) != 0,
            keepalive_seconds: size(KEEPALIVE) as u64,
            bulk_bytes_max: size(BULK),
            item_bytes_max: size(ITEM),
            allows_shutdown: settings.is_on(MEMCACHE_SHUTDOWN),
            memcached_database: size(DATABASE) as u16,
            guests,
            request_bytes_max: std::array::from_fn(|door| size(DOORS[door].request_bytes_max)),
            clients_bytes_max,
            holds_publishers: settings.number(HOLD) != 0,
            waits_for_disk: settings.string(APPENDFSYNC) == "always",
            reads_wait_for_disk: settings.is_on(COVERS_READS),
            tracked_keys_max: size(TRACKED),
            http_request_seconds: size(HTTP_REQUEST) as u64,
            http_idle_seconds: size(HTTP_IDLE) as u64,
            web: Arc::new(WebRules::of(settings)),
            output: output[0],
            hard_output: std::array::from_fn(|door| hard(&DOORS[door])),
            output_of_subscribers: output[2],
        }
    }

    /// Whether the requests that a client has sent and the server has not executed are too long. Calls that wait for EXEC
    /// count, as in Redis 7.4.
    pub fn is_over_request_limit(&self, door: &Door, session: &Session, input_bytes: usize) -> bool {
        let queued = session.multi.as_deref().map_or(0, |multi| multi.queue.bytes());
        input_bytes + queued > self.request_bytes_of(door, session)
    }

    /// How long a request of a client may be.
    #[inline]
    pub fn request_bytes_of(&self, door: &Door, session: &Session) -> usize {
        let most = self.request_bytes_max[door.number];
        if session.identity.authenticated { most } else { most.min(door.before_login.request_bytes_max) }
    }

    /// How much may wait to be sent to a client.
    pub fn output_of(&self, door: &Door, session: &Session) -> OutputLimit {
        let limit = if session.listens() { self.output_of_subscribers } else { self.output };
        OutputLimit { hard: self.hard_output_of(door, session), ..limit }
    }

    /// The hard one of these limits alone, in bytes; 0 for none.
    #[inline]
    pub fn hard_output_of(&self, door: &Door, session: &Session) -> u64 {
        match session.identity.authenticated {
            false => door.before_login.output_bytes_max,
            true if session.listens() => self.output_of_subscribers.hard,
            true => self.hard_output[door.number],
        }
    }

    /// How much of what waits to be sent one response may be, in bytes; 0 for no limit.
    pub fn reply_bytes_max(&self) -> usize {
        self.output.hard as usize
    }

    /// Reads the settings again if any has changed.
    pub fn refresh(&mut self, settings: &Settings, ceiling: u64) {
        if settings.version() != self.version {
            *self = ServerLimits::of(settings, ceiling);
        }
    }
}
