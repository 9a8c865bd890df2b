//! Requests of another protocol that arrive at a door of this one.
//!
//! A web page can make a browser send an HTTP request to any port of its host, and so can a server that fetches URLs for
//! others. The lines of its body would be commands. So a door whose protocol has lines closes a connection at the first line
//! that [`is_http`].

/// The methods of HTTP, and PRI, with which HTTP/2 begins. No command with such a name takes a version of HTTP as its last argument.
const METHODS: [&[u8]; 10] =
    [b"CONNECT", b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"PRI", b"PROPFIND", b"PUT", b"TRACE"];

/// Returns true if the words of a line are those of an HTTP request, or of its `Host` field.
///
/// `POST` and `Host:` are enough, in any case, as in Redis. Other methods need a version behind the target, as in memcached,
/// because GET is a command of its own in some protocols.
pub fn is_http<W: AsRef<[u8]>>(words: &[W]) -> bool {
    let Some(first) = words.first().map(AsRef::as_ref) else { return false };
    if first.eq_ignore_ascii_case(b"POST")
        || first.get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b"Host:"))
    {
        return true;
    }
    let [_, _, .., version] = words else { return false };
    METHODS.contains(&first) && version.as_ref().starts_with(b"HTTP/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_http_are_told_from_commands() {
        let is_foreign = |line: &str| is_http(&line.split(' ').collect::<Vec<_>>());
        for line in [
            "GET / HTTP/1.1",
            "PUT /key HTTP/1.0",
            "DELETE /?flushall HTTP/1.1",
            "HEAD / HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "CONNECT host:1 HTTP/1.1",
            "PRI * HTTP/2.0",
            "POST / HTTP/1.1",
            "post",
            "Host: localhost",
            "Host:localhost",
            "GET /a b HTTP/1.1",
            "host:",
        ] {
            assert!(is_foreign(line), "{line}");
        }
        for line in [
            "",
            "GET key",
            "SET page HTTP/1.1",
            "get a HTTP/1.1",
            "GET /",
            "PING",
            "set post 0 0 1",
            "GET a b",
        ] {
            assert!(!is_foreign(line), "{line}");
        }
    }
}
