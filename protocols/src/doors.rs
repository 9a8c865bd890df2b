//! The table of doors: where clients come in, which protocol they speak there, and what they may take.
//!
//! A door is one protocol at one place. Its row names the settings that say where that place is. All doors but that of RESP
//! are closed by default (port 0); `all-protocols` opens the usual ports. Each door but that of RESP has addresses of its own,
//! which are those of this host alone by default. A port with TLS takes clients of the same protocol, through a
//! [`filter`](crate::filter).
//!
//! CONFIG SET moves a door's listener when it changes one of the settings in [`PlaceSettings::Tcp`]; these have a reply for a
//! failed move in the table of settings.
use polder_calls::settings::{Id, id};

/// One row.
#[derive(Debug)]
pub struct Door {
    /// Its index in [`DOORS`].
    pub number: usize,
    pub name: &'static str,
    pub protocol: Spoken,
    pub place: PlaceSettings,
    /// The setting that limits the bytes of a client's requests which have not been executed.
    pub request_bytes_max: Id,
    pub before_login: LoginLimits,
    /// The share of `maxclients` that may come in here, in percent. A flood at one door must not lock out the clients of
    /// the others; RESP may have all, as in Redis.
    pub clients_percent: usize,
}

/// The protocol of a door; `sessions` has its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spoken {
    Resp,
    Memcached,
    Http,
    Nats,
}

impl Spoken {
    /// The number of protocols.
    pub const COUNT: usize = Spoken::Nats as usize + 1;

    /// As CLIENT LIST shows it.
    pub fn name(self) -> &'static str {
        match self {
            Spoken::Resp => "resp",
            Spoken::Memcached => "memcached",
            Spoken::Http => "http",
            Spoken::Nats => "nats",
        }
    }
}

/// Why a client is refused before its connection is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It comes from another host, and `protected-mode` is on.
    Protected,
    /// The door's share of `maxclients` is connected.
    Full,
}

/// The settings of a place.
#[derive(Debug)]
pub enum PlaceSettings {
    /// A TCP port at these addresses, and one with TLS; port 0 is no door. `usual_port` is the port of this protocol's servers.
    Tcp { port: Id, tls_port: Option<Id>, bind: Id, usual_port: u16 },
    /// A UDP port at these addresses; port 0 is no door. One client stands for all that send datagrams there.
    Udp { port: Id, bind: Id },
    /// A Unix socket with these permissions; an empty path is no door.
    Unix { path: Id, mode: Id },
}

/// What a client may take before it has logged in.
#[derive(Debug)]
pub struct LoginLimits {
    pub request_bytes_max: usize,
    pub output_bytes_max: u64,
}

/// As in Redis, where they are no settings either.
const RESP_BEFORE_LOGIN: LoginLimits = LoginLimits { request_bytes_max: 1 << 20, output_bytes_max: 1024 };

/// Enough for the head of a request with its credentials, and for the text of an error.
const HTTP_BEFORE_LOGIN: LoginLimits =
    LoginLimits { request_bytes_max: 64 << 10, output_bytes_max: 64 << 10 };

/// As in memcached, and enough for a log-in.
const MEMCACHED_BEFORE_LOGIN: LoginLimits =
    LoginLimits { request_bytes_max: 8 << 10, output_bytes_max: 1024 };

/// Enough for a CONNECT, and for INFO.
const NATS_BEFORE_LOGIN: LoginLimits =
    LoginLimits { request_bytes_max: 16 << 10, output_bytes_max: 16 << 10 };

pub static DOORS: [Door; 7] = [
    Door {
        number: 0,
        name: "RESP over TCP",
        protocol: Spoken::Resp,
        place: PlaceSettings::Tcp {
            port: id("port"),
            tls_port: Some(id("tls-port")),
            bind: id("bind"),
            usual_port: 6379,
        },
        request_bytes_max: id("client-query-buffer-limit"),
        before_login: RESP_BEFORE_LOGIN,
        clients_percent: 100,
    },
    Door {
        number: 1,
        name: "RESP over a Unix socket",
        protocol: Spoken::Resp,
        place: PlaceSettings::Unix { path: id("unixsocket"), mode: id("unixsocketperm") },
        request_bytes_max: id("client-query-buffer-limit"),
        before_login: RESP_BEFORE_LOGIN,
        clients_percent: 100,
    },
    Door {
        number: 2,
        name: "memcached over TCP",
        protocol: Spoken::Memcached,
        place: PlaceSettings::Tcp {
            port: id("memcache-port"),
            tls_port: Some(id("memcache-tls-port")),
            bind: id("memcache-bind"),
            usual_port: 11211,
        },
        request_bytes_max: id("client-query-buffer-limit"),
        before_login: MEMCACHED_BEFORE_LOGIN,
        clients_percent: 90,
    },
    Door {
        number: 3,
        name: "HTTP",
        protocol: Spoken::Http,
        place: PlaceSettings::Tcp {
            port: id("http-port"),
            tls_port: Some(id("https-port")),
            bind: id("http-bind"),
            usual_port: 8080,
        },
        request_bytes_max: id("client-query-buffer-limit"),
        before_login: HTTP_BEFORE_LOGIN,
        clients_percent: 90,
    },
    Door {
        number: 4,
        name: "memcached over a Unix socket",
        protocol: Spoken::Memcached,
        place: PlaceSettings::Unix { path: id("memcache-unixsocket"), mode: id("memcache-unixsocketperm") },
        request_bytes_max: id("client-query-buffer-limit"),
        before_login: MEMCACHED_BEFORE_LOGIN,
        clients_percent: 90,
    },
    Door {
        number: 5,
        name: "memcached over UDP",
        protocol: Spoken::Memcached,
        place: PlaceSettings::Udp { port: id("memcache-udp-port"), bind: id("memcache-bind") },
        request_bytes_max: id("client-query-buffer-limit"),
        before_login: MEMCACHED_BEFORE_LOGIN,
        clients_percent: 90,
    },
    Door {
        number: 6,
        name: "NATS",
        protocol: Spoken::Nats,
        place: PlaceSettings::Tcp {
            port: id("nats-port"),
            tls_port: Some(id("nats-tls-port")),
            bind: id("nats-bind"),
            usual_port: 4222,
        },
        request_bytes_max: id("client-query-buffer-limit"),
        before_login: NATS_BEFORE_LOGIN,
        clients_percent: 90,
    },
];

impl PlaceSettings {
    /// The settings that say where the place is: a port or path, and how. With `tls`, the port is the encrypted one.
    pub fn settings(&self, tls: bool) -> [Id; 2] {
        match *self {
            PlaceSettings::Tcp { port, tls_port, bind, .. } => {
                [tls_port.filter(|_| tls).unwrap_or(port), bind]
            }
            PlaceSettings::Udp { port, bind } => [port, bind],
            PlaceSettings::Unix { path, mode } => [path, mode],
        }
    }
}

impl Door {
    /// Whether its clients come from this host by a path.
    #[inline]
    pub fn is_local(&self) -> bool {
        matches!(self.place, PlaceSettings::Unix { .. })
    }

    /// Whether it takes datagrams, and no connections.
    #[inline]
    pub fn takes_datagrams(&self) -> bool {
        matches!(self.place, PlaceSettings::Udp { .. })
    }

    /// Whether its clients connect by TCP.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        matches!(self.place, PlaceSettings::Tcp { .. })
    }

    /// How many of `clients_max` clients may be connected here; at least one.
    pub fn clients_max(&self, clients_max: usize) -> usize {
        if self.clients_percent == 100 {
            clients_max
        } else {
            (clients_max * self.clients_percent / 100).max(1)
        }
    }
}

impl PartialEq for Door {
    #[inline]
    fn eq(&self, other: &Door) -> bool {
        self.number == other.number
    }
}

impl Eq for Door {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_door_knows_its_row() {
        for (number, door) in DOORS.iter().enumerate() {
            assert_eq!(door.number, number, "{}", door.name);
            assert!((1..=100).contains(&door.clients_percent), "{}", door.name);
        }
    }

    #[test]
    fn config_set_can_move_each_port() {
        for door in &DOORS {
            let (port, tls_port, bind) = match door.place {
                PlaceSettings::Tcp { port, tls_port, bind, usual_port } => {
                    assert_ne!(usual_port, 0, "{}", door.name);
                    (port, tls_port, bind)
                }
                PlaceSettings::Udp { port, bind } => (port, None, bind),
                PlaceSettings::Unix { .. } => continue,
            };
            assert!(
                [Some(port), tls_port, Some(bind)].iter().flatten().all(|id| !id.row().unable.is_empty()),
                "{}",
                door.name
            );
            let open = matches!(port.row().start, polder_calls::settings::Start::Number(port) if port != 0);
            assert_eq!(open, door.protocol == Spoken::Resp, "{} is closed by default", door.name);
        }
    }

    #[test]
    fn redis_clients_may_take_all_places() {
        assert_eq!(DOORS[0].clients_max(1), 1);
        assert_eq!(DOORS[0].clients_max(10_000), 10_000);
    }
}
