//! The HTTP port: where it is, and which web pages may use it.
use super::{NO_ADDRESS, NO_PORT, Setting, Shape, integer, special};

pub(super) const SETTINGS: &[Setting] = &[
    integer("http-port", 0, 65535, 0).acted_on(NO_PORT).about("TCP port for HTTP, usually 8080; 0 listens on none."),
    integer("https-port", 0, 65535, 0)
        .acted_on(NO_PORT)
        .about("TCP port for HTTP with TLS, usually 8443; 0 listens on none. Its certificates are those of `tls-port`."),
    special("http-bind", Shape::Words, "127.0.0.1 -::1")
        .acted_on(NO_ADDRESS)
        .about("Addresses to listen on for HTTP; an address with a leading `-` may be missing on this host."),
    special("http-hosts", Shape::Words, "").about(
        "Names by which clients may call the HTTP port, beside localhost, the name of this machine, and IP addresses; `*` is any name. \
         A request for another name is refused, because a web page can let its own name point to this machine.",
    ),
    special("http-cors", Shape::Words, "").about(
        "Origins (`https://app.example.com`) of web pages that may read and write by HTTP; `*` is any page. Pages of other sites are refused.",
    ),
    integer("http-request-timeout", 0, i32::MAX as i64, 20).about(
        "Seconds that an HTTP request may take to come, and one more for each 500 bytes of it; a slower client is closed. 0 waits for ever.",
    ),
    integer("http-idle-timeout", 0, i32::MAX as i64, 75)
        .about("Seconds after which an HTTP connection without a request, or one that takes no bytes of its response, is closed; 0 closes none."),
    integer("http-database", 0, 16383, 0).about("The database of HTTP requests that name none with `?db=`."),
];
