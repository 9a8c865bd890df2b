//! TLS: the server's encrypted ports. Names and meanings are those of Redis; what rustls cannot do is refused with the reason.
use super::{NO_PORT, Setting, choice, integer, switch, text};

const INT_MAX: i64 = i32::MAX as i64;

const NO_PASSWORDS: &str =
    "keys with a password cannot be read: write one without with 'openssl pkey -in KEY -out FILE'";
const UNABLE: &str = "Unable to update TLS configuration. Check server logs.";

pub(super) const SETTINGS: &[Setting] = &[
    integer("tls-port", 0, 65535, 0).acted_on(NO_PORT).about("TCP port for clients with TLS; 0 listens on none."),
    text("tls-cert-file", "")
        .acted_on(UNABLE)
        .about("The server's certificate and those that lead from it to a root, in PEM form. SIGHUP reads all files again."),
    text("tls-key-file", "").acted_on(UNABLE).about("The private key of the server's certificate, in PEM form."),
    text("tls-key-file-pass", "")
        .secret()
        .refuses(NO_PASSWORDS),
    text("tls-client-cert-file", "").about("The certificate that the link to a primary shows, in PEM form; without one, that of `tls-cert-file`."),
    text("tls-client-key-file", "").about("The private key of `tls-client-cert-file`, in PEM form."),
    text("tls-client-key-file-pass", "").secret().refuses(NO_PASSWORDS),
    text("tls-dh-params-file", "").refuses("key exchange is by elliptic curves only, which need no such file"),
    text("tls-ca-cert-file", "").acted_on(UNABLE).about("The certificates that those of clients and of a primary must lead to, in PEM form."),
    text("tls-ca-cert-dir", "").acted_on(UNABLE).about("A folder of such files; files without a certificate in PEM form are skipped."),
    choice("tls-auth-clients", &["no", "yes", "optional"], 1)
        .acted_on(UNABLE)
        .about("Whether clients must show a certificate: `optional` takes clients without one, and checks those that are shown."),
    choice("tls-auth-clients-user", &["off", "cn"], 0)
        .about("Whether the common name (`cn`) of a client's certificate logs it in as the user of that name, if there is one that is on."),
    integer("tls-auto-reload-interval", 0, INT_MAX, 0)
        .refuses("files are read again at SIGHUP, or when CONFIG SET names them"),
    switch("tls-replication", false).segment().about("Whether the link to a primary is encrypted; its certificate must lead to `tls-ca-cert-file` or `tls-ca-cert-dir`. Read with each connection."),
    switch("tls-cluster", false).refuses("polder has no cluster bus that could be encrypted"),
    text("tls-protocols", "").acted_on(UNABLE).about("The versions that are spoken, of `TLSv1.2` and `TLSv1.3`; empty for both."),
    text("tls-ciphers", "")
        .acted_on(UNABLE)
        .about("The ciphers of TLS 1.2, OpenSSL's names with colons between them, in the order of preference; empty or `DEFAULT` for all."),
    text("tls-ciphersuites", "").acted_on(UNABLE).about("The ciphers of TLS 1.3, with colons between them; empty for all."),
    switch("tls-prefer-server-ciphers", false)
        .acted_on(UNABLE)
        .about("Whether the server's order of ciphers counts, and not the client's."),
    switch("tls-session-caching", true)
        .acted_on(UNABLE)
        .about("Whether clients get tickets that make their next handshake cheap, also with another server on the same segment."),
    integer("tls-session-cache-size", 0, INT_MAX, 20480)
        .acted_on(UNABLE)
        .about("Sessions that each server keeps for clients of TLS 1.2 that take no tickets; 0 keeps none."),
    integer("tls-session-cache-timeout", 0, INT_MAX, 300)
        .acted_on(UNABLE)
        .about("Seconds after which the key of tickets is replaced; tickets are taken for twice as long. 0 gives none."),
    integer("tls-handshake-timeout", 0, INT_MAX, 10)
        .about("Seconds after which a client is closed whose handshake has not ended; 0 waits for ever."),
];
