//! TLS: names are kept, and a port that would have to speak it is refused.
use super::{Setting, choice, integer, switch, text};

const INT_MAX: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[Setting] = &[
    integer("tls-port", 0, 65535, 0).refuses("this version of polder speaks no TLS"),
    text("tls-cert-file", "").inert(),
    text("tls-key-file", "").inert(),
    text("tls-key-file-pass", "").secret().inert(),
    text("tls-client-cert-file", "").inert(),
    text("tls-client-key-file", "").inert(),
    text("tls-client-key-file-pass", "").secret().inert(),
    text("tls-dh-params-file", "").inert(),
    text("tls-ca-cert-file", "").inert(),
    text("tls-ca-cert-dir", "").inert(),
    choice("tls-auth-clients", &["no", "yes", "optional"], 1).inert(),
    switch("tls-replication", false).refuses("this version of polder speaks no TLS"),
    switch("tls-cluster", false).refuses("this version of polder speaks no TLS"),
    text("tls-protocols", "").inert(),
    text("tls-ciphers", "").inert(),
    text("tls-ciphersuites", "").inert(),
    switch("tls-prefer-server-ciphers", false).inert(),
    switch("tls-session-caching", true).inert(),
    integer("tls-session-cache-size", 0, INT_MAX, 20480).inert(),
    integer("tls-session-cache-timeout", 0, INT_MAX, 300).inert(),
];
