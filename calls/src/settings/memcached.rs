//! The memcached door.
use super::{NO_ADDRESS, NO_PORT, Setting, Shape, Start, integer, memory, setting, special, switch, text};

const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;

pub(super) const SETTINGS: &[Setting] = &[
    integer("memcache-port", 0, 65535, 0).acted_on(NO_PORT).about("TCP port for clients of memcached, usually 11211; 0 listens on none."),
    integer("memcache-tls-port", 0, 65535, 0)
        .acted_on(NO_PORT)
        .about("TCP port for clients of memcached with TLS; 0 listens on none. Its certificates are those of `tls-port`."),
    special("memcache-bind", Shape::Words, "127.0.0.1 -::1")
        .acted_on(NO_ADDRESS)
        .about("Addresses to listen on for clients of memcached; an address with a leading `-` may be missing on this host."),
    text("memcache-unixsocket", "").at_start().about("Path of a Unix socket for clients of memcached; empty listens on none."),
    setting("memcache-unixsocketperm", Shape::Octal { max: 0o777 }, Start::Number(0))
        .at_start()
        .about("Permissions of the Unix socket for clients of memcached, in octal; 0 leaves them to the umask."),
    integer("memcache-udp-port", 0, 65535, 0).acted_on(NO_PORT).about(
        "UDP port for clients of memcached, at the addresses of `memcache-bind`; 0 listens on none. UDP has no log-in, and a datagram may \
         name a false sender: it is refused while the default user has a password, and on addresses that other hosts reach while \
         `protected-mode` is on.",
    ),
    memory("memcache-udp-reply-max", 512, 64 * MIB, 64 * KIB)
        .about("The longest reply to one datagram, in bytes; a longer one is replaced by an error."),
    integer("memcache-udp-amplification", 0, 65535, 3).about(
        "How many times as long as a datagram from another host its reply may be, so that no sender can flood a host whose name it uses; \
         clients may fill their requests with blanks. 0 sets no limit.",
    ),
    integer("memcache-database", 0, 16383, 0).at_start().about("The database of clients of memcached."),
    switch("memcache-shutdown", false).about("Whether a client of memcached may end the server by `shutdown`."),
    memory("memcache-item-size-max", 1024, 1024 * MIB, MIB)
        .about("The longest value that a client of memcached may store, in bytes. It may read longer ones."),
];
