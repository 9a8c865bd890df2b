//! Listeners, connections and their limits.
use super::{
    NO_ADDRESS, NO_PORT, Setting, Shape, Start, choice, integer, memory, setting, special, switch, text,
};

const INT_MAX: i64 = i32::MAX as i64;
const MIB: i64 = 1 << 20;

pub(super) const SETTINGS: &[Setting] = &[
    special("bind", Shape::Words, "127.0.0.1 -::1").acted_on(NO_ADDRESS).about("Addresses to listen on; an address with a leading `-` may be missing on this host."),
    text("bind-source-addr", "").inert(),
    integer("port", 0, 65535, 6379).acted_on(NO_PORT).about("TCP port; 0 listens on none."),
    text("unixsocket", "").at_start().about("Path of a Unix socket to listen on; empty listens on none."),
    setting("unixsocketperm", Shape::Octal { max: 0o777 }, Start::Number(0))
        .at_start()
        .about("Permissions of the Unix socket, in octal; 0 leaves them to the umask."),
    text("unixsocketgroup", "")
        .at_start()
        .refuses("the socket belongs to the group of the process; start it in another one"),
    switch("mptcp", false).at_start().refuses("clients are served over plain TCP"),
    switch("protected-mode", true).about("Refuses clients from other hosts while there is no password."),
    text("requirepass", "").segment().secret().about("Sets the password of the default user; empty asks for none. ACL SETUSER does not change it back."),
    integer("tcp-backlog", 0, INT_MAX, 511).at_start().about("Connections that may wait to be accepted."),
    integer("tcp-keepalive", 0, INT_MAX, 300).about("Seconds between probes of a silent peer; 0 sends none."),
    integer("timeout", 0, INT_MAX, 0).about("Seconds after which an idle client is closed; 0 closes none."),
    integer("maxclients", 1, u32::MAX as i64, 10000).about("Clients that this server serves at a time."),
    memory("proto-max-bulk-len", MIB, i64::MAX, 512 * MIB).about("The longest argument that a client may send, in bytes."),
    memory("client-query-buffer-limit", MIB, i64::MAX, 1024 * MIB).about("The most that one client may have sent and not yet had executed, in bytes."),
    special("client-output-buffer-limit", Shape::OutputLimits, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60")
        .about("When a client that does not read is closed, per class: at once above the hard limit, and above the soft limit after the given seconds."),
    setting("maxmemory-clients", Shape::MemoryOrPercent, Start::Number(0))
        .about("The most that the clients of this server may take together, in bytes or as a part of `maxmemory` (or of the segment's size, where \
                that is 0); beyond it those are closed that take the most. 0 sets no limit."),
    switch("hold-publishers", true)
        .about("Whether a client that publishes faster than a subscriber's thread reads is slowed down, by at most a tenth of a second at a time."),
    integer("max-new-connections-per-cycle", 1, 1000, 10).inert(),
    integer("max-new-tls-connections-per-cycle", 1, 1000, 1)
        .about("Clients with TLS that a thread accepts before it serves the others again; handshakes take time."),
    integer("socket-mark-id", 0, u32::MAX as i64, 0).at_start().inert(),
    text("aclfile", "")
        .at_start()
        .about("The file of ACL LOAD and ACL SAVE. It is read at start when the segment has no users yet; it excludes `user` lines."),
    integer("acllog-max-len", 0, i64::MAX, 128).about("Entries that ACL LOG keeps, in this process."),
    choice("acl-pubsub-default", &["allchannels", "resetchannels"], 1).about("Which channels a new user may use: all, or none."),
    integer("tracking-table-max-keys", 0, i64::MAX, 1_000_000)
        .about("Keys that a thread remembers for tracking clients; beyond that it also reports keys that have not changed."),
    integer("io-threads", 1, 128, 1).at_start().inert().about("Polder executes commands on every one of its `threads`."),
    switch("io-threads-do-reads", false).at_start_here().inert().about("Redis 8 has it no more."),
];
