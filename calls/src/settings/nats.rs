//! The NATS port.
use super::{NO_ADDRESS, NO_PORT, Setting, Shape, integer, memory, special, text};

const MIB: i64 = 1 << 20;

pub(super) const SETTINGS: &[Setting] = &[
    integer("nats-port", 0, 65535, 0).acted_on(NO_PORT).about("TCP port for clients of NATS, usually 4222; 0 listens on none."),
    integer("nats-tls-port", 0, 65535, 0).acted_on(NO_PORT).about(
        "TCP port for clients of NATS that begin with TLS (`--tlsfirst`); 0 listens on none. Its certificates are those of `tls-port`.",
    ),
    special("nats-bind", Shape::Words, "127.0.0.1 -::1")
        .acted_on(NO_ADDRESS)
        .about("Addresses to listen on for clients of NATS; an address with a leading `-` may be missing on this host."),
    text("nats-advertise", "").about(
        "Addresses (`host:port`) that clients of NATS are told for this server, in the place of those on which it listens; those that stand for all of a host are never told.",
    ),
    memory("nats-max-payload", 1024, 64 * MIB, MIB)
        .about("The longest payload, with its headers, that a client of NATS may send, in bytes. Clients that are connected have been told the value of then."),
    integer("nats-max-subscriptions", 0, i32::MAX as i64, 0)
        .about("Subscriptions that one client may have by SUB of NATS and by SUBJ.SUB; 0 sets no limit."),
    memory("nats-max-pending", MIB, 4096 * MIB, 64 * MIB)
        .about("A client of NATS that does not read is closed when more bytes than this wait for it."),
];
