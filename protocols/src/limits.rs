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
const NATS_PAYLOAD: Id = id("nats-max-payload");
const NATS_PENDING: Id = id("nats-max-pending");
const HTTP_REQUEST: Id = id("http-request-timeout");
const HTTP_IDLE: Id = id("http-idle-timeout");
const HOLD: Id = id("hold-publishers");
const APPENDFSYNC: Id = id("appendfsync");
const COVERS_READS: Id = id("always-covers-reads");
const AWAIT_REPLICAS: Id = id("replies-await-replicas");
const AWAIT_TIMEOUT: Id = id("replies-await-timeout");

/// The least that all clients together may take if there is a limit, as in Redis: a client can still lift the limit.
const CLIENTS_BYTES_LEAST: usize = 128 << 10;

/// The memory that all clients together may take (`maxmemory-clients`), in bytes; 0 for no limit.
pub fn clients_bytes_max(settings: &Settings, ceiling: u64) -> usize {
    // A percentage is kept as a negative number.
    let bytes = match (settings.number(CLIENTS), settings.number(MEMORY)) {
        (0, _) => return 0,
        (bytes @ 1.., _) => bytes as usize,
        (percent, memory) => {
            let memory = if memory == 0 { ceiling as f64 } else { memory as f64 };
            (memory * percent.unsigned_abs() as f64 / 100.0) as usize
        }
    };
    bytes.max(CLIENTS_BYTES_LEAST)
}

/// What clients may do and for how long.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    version: u64,
    pub clients_max: usize,
    /// Seconds; 0 is for ever.
    pub timeout_seconds: u64,
    /// Seconds; 0 asks for no probes.
    pub keepalive_seconds: u64,
    pub bulk_bytes_max: usize,
    /// By the number of the door.
    request_bytes_max: [usize; DOORS.len()],
    /// The memory that all clients together may take, in bytes; 0 for no limit.
    pub clients_bytes_max: usize,
    /// The keys that the tracking clients of a thread may have read; 0 for no limit.
    pub tracked_keys_max: usize,
    /// Whether publishers wait for the threads of subscribers.
    pub holds_publishers: bool,
    /// The limits of senders of datagrams.
    pub guests: GuestRules,
    output: OutputLimits,
    pub disk: DiskLimits,
    pub tls: TlsLimits,
    pub memcached: MemcachedLimits,
    pub http: HttpLimits,
    pub nats: NatsLimits,
}

/// How much may wait to be sent.
#[derive(Clone, Debug)]
struct OutputLimits {
    normal: OutputLimit,
    subscribers: OutputLimit,
    /// The hard limit of normal clients, by the number of the door.
    hard: [u64; DOORS.len()],
}

/// Replies that wait for the disk or for replicas.
#[derive(Clone, Copy, Debug)]
pub struct DiskLimits {
    /// Replies to writes do.
    pub replies_wait: bool,
    /// Replies to reads do, too.
    pub reads_wait: bool,
    /// Replicas for which replies to writes wait, and how long, in milliseconds; 0 is for ever.
    pub replicas: u64,
    pub replicas_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct TlsLimits {
    /// How long a handshake may take, in seconds; 0 is for ever.
    pub handshake_seconds: u64,
    /// How many clients a thread accepts in one turn.
    pub handshakes_max: usize,
    /// Whether certificates log clients in.
    pub logs_in_by_certificate: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct MemcachedLimits {
    /// The database of its clients.
    pub database: u16,
    /// The longest value that a client may store.
    pub item_bytes_max: usize,
    /// Whether a client may end the server.
    pub allows_shutdown: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct NatsLimits {
    /// The longest payload with its headers.
    pub payload_bytes_max: usize,
    /// The most that may wait to be sent to a client.
    pub pending_bytes_max: u64,
}

#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Seconds for a request to come; 0 is for ever.
    pub request_seconds: u64,
    /// Seconds for a connection to be idle; 0 is for ever.
    pub idle_seconds: u64,
    /// Which web pages may use the port.
    pub web: Arc<WebRules>,
}

impl ServerLimits {
    /// The limits of now; `ceiling` is the length to which the segment may grow.
    pub fn of(settings: &Settings, ceiling: u64) -> ServerLimits {
        let size = |id: Id| usize::try_from(settings.number(id)).unwrap_or(0);
        let output = output_limits(&settings.text(OUTPUT));
        let guests = GuestRules {
            reply_bytes_max: size(GUEST_REPLY),
            amplification: size(AMPLIFICATION),
            ..GuestRules::default()
        };
        let hard =
            |door: &Door| if door.takes_datagrams() { guests.reply_bytes_max as u64 } else { output[0].hard };
        ServerLimits {
            version: settings.version(),
            clients_max: size(MAXCLIENTS),
            timeout_seconds: size(TIMEOUT) as u64,
            keepalive_seconds: size(KEEPALIVE) as u64,
            bulk_bytes_max: size(BULK),
            request_bytes_max: std::array::from_fn(|door| size(DOORS[door].request_bytes_max)),
            clients_bytes_max: clients_bytes_max(settings, ceiling),
            tracked_keys_max: size(TRACKED),
            holds_publishers: settings.number(HOLD) != 0,
            guests,
            output: OutputLimits {
                normal: output[0],
                subscribers: output[2],
                hard: std::array::from_fn(|door| hard(&DOORS[door])),
            },
            disk: DiskLimits {
                replies_wait: settings.string(APPENDFSYNC) == "always",
                reads_wait: settings.is_on(COVERS_READS),
                replicas: size(AWAIT_REPLICAS) as u64,
                replicas_ms: size(AWAIT_TIMEOUT) as u64,
            },
            tls: TlsLimits {
                handshake_seconds: size(HANDSHAKE) as u64,
                handshakes_max: size(HANDSHAKES),
                logs_in_by_certificate: settings.number(CERTIFICATE_USERS) != 0,
            },
            memcached: MemcachedLimits {
                database: size(DATABASE) as u16,
                item_bytes_max: size(ITEM),
                allows_shutdown: settings.is_on(MEMCACHE_SHUTDOWN),
            },
            nats: NatsLimits {
                payload_bytes_max: size(NATS_PAYLOAD),
                pending_bytes_max: size(NATS_PENDING) as u64,
            },
            http: HttpLimits {
                request_seconds: size(HTTP_REQUEST) as u64,
                idle_seconds: size(HTTP_IDLE) as u64,
                web: Arc::new(WebRules::of(settings)),
            },
        }
    }

    /// Whether the requests that a client has sent and the server has not executed are too long. Calls that wait for EXEC
    /// count, as in Redis 7.4.
    #[inline]
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

    /// The most that may wait to be sent to a client. One of NATS has limits of its own by whatever door it
    /// came.
    #[inline]
    pub fn output_of(&self, door: &Door, is_nats: bool, session: &Session) -> OutputLimit {
        let hard = self.hard_output_of(door, is_nats, session);
        if is_nats {
            return OutputLimit { hard, ..OutputLimit::default() };
        }
        let limit = if session.listens() { self.output.subscribers } else { self.output.normal };
        OutputLimit { hard, ..limit }
    }

    /// The hard one of these limits alone, in bytes; 0 for none.
    #[inline]
    pub fn hard_output_of(&self, door: &Door, is_nats: bool, session: &Session) -> u64 {
        match session.identity.authenticated {
            false => door.before_login.output_bytes_max,
            true if is_nats => self.nats.pending_bytes_max,
            true if session.listens() => self.output.subscribers.hard,
            true => self.output.hard[door.number],
        }
    }

    /// How much of what waits to be sent one response may be, in bytes; 0 for no limit.
    #[inline]
    pub fn reply_bytes_max(&self) -> usize {
        self.output.normal.hard as usize
    }

    /// Reads the settings again if any has changed.
    pub fn refresh(&mut self, settings: &Settings, ceiling: u64) {
        if settings.version() != self.version {
            *self = ServerLimits::of(settings, ceiling);
        }
    }
}
