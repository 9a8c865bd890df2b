//! The memcached door.
use super::{NO_ADDRESS, NO_PORT, Setting, Shape, integer, memory, special, switch};

const MIB: i64 = 1 << 20;

pub(super) const SETTINGS: &[Setting] = &[
    integer("memcache-port", 0, 65535, 0).acted_on(NO_PORT).about("TCP port for clients of memcached, usually 11211; 0 listens on none."),
    integer("memcache-tls-port", 0, 65535, 0)
        .acted_on(NO_PORT)
        .about("TCP port for clients of memcached with TLS; 0 listens on none. Its certificates are those of `tls-port`."),
    special("memcache-bind", Shape::Words, "127.0.0.1 -::1")
        .acted_on(NO_ADDRESS)
        .about("Addresses to listen on for clients of memcached; a leading `-` forgives one that is not there."),
    switch("memcache-shutdown", false).about("Whether a client of memcached may end the server by `shutdown`."),
    memory("memcache-item-size-max", 1024, 1024 * MIB, MIB)
        .about("The longest value that a client of memcached may store, in bytes. It may read longer ones."),
];
