//! Which web pages may use the HTTP port.
//!
//! A browser sends requests to any address for any page, and adds the page's credentials. Two rules keep foreign pages out:
//! - **Host.** A page of `evil.example` can let that name point to 127.0.0.1 (DNS rebinding). Then the browser takes the
//!   server for the page's own site. Such a request still says `Host: evil.example`, so only known names are taken. An IP
//!   address is no name that anyone could point elsewhere, so each is taken.
//! - **Origin.** For a page of another site the browser says so, in `Origin` or `Sec-Fetch-Site`, and a page cannot change
//!   that. Such requests are refused unless `http-cors` names the origin.
//!
//! Programs that are no browser may send what they like, but they gain nothing: they can connect in any case.
use std::net::IpAddr;

use polder_calls::settings::{Id, Settings, id};
use polder_wire::http::{Fields, Method};

const HOSTS: Id = id("http-hosts");
const CORS: Id = id("http-cors");
const DATABASE: Id = id("http-database");
const NATS: Id = id("nats-port");
const NATS_TLS: Id = id("nats-tls-port");

/// The rules, taken from the settings.
#[derive(Debug, Default)]
pub struct WebRules {
    /// Names of this server, beside those that are always taken.
    hosts: Names,
    /// Origins of pages that may use it.
    origins: Names,
    /// The database of requests that name none.
    pub database: u16,
    /// Clients of NATS may come by WebSocket.
    pub serves_nats: bool,
}

/// A list of names, or all.
#[derive(Debug, Default)]
struct Names {
    listed: Vec<Vec<u8>>,
    all: bool,
}

/// What the rules say of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It comes from no foreign page.
    Own,
    /// It comes from a page of another site, which may use this server.
    Guest,
    /// Why it is refused.
    Refused(&'static str),
}

impl Names {
    fn of(words: &str) -> Names {
        let listed: Vec<Vec<u8>> = words.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        Names { all: listed.iter().any(|word| word == b"*"), listed }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.all || self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(name))
    }
}

impl WebRules {
    /// The rules of now.
    pub fn of(settings: &Settings) -> WebRules {
        let mut hosts = Names::of(&settings.string(HOSTS));
        hosts.listed.push(rustix::system::uname().nodename().to_bytes().to_vec());
        let database = u16::try_from(settings.number(DATABASE)).unwrap_or(0);
        let serves_nats = [NATS, NATS_TLS].iter().any(|port| settings.number(*port) != 0);
        WebRules { hosts, origins: Names::of(&settings.string(CORS)), database, serves_nats }
    }

    /// Whether a request may be executed.
    pub fn judge(&self, method: Method, fields: &Fields<'_>) -> Verdict {
        // Each browser sends Host; a client of HTTP/1.0 need not.
        if fields.host.is_some_and(|host| !self.is_own_name(host)) {
            return Verdict::Refused(
                "the request is for another host name; http-hosts lists the names of this server",
            );
        }
        if let Some(origin) = fields.origin {
            if fields
                .host
                .is_some_and(|host| authority(origin).is_some_and(|page| page.eq_ignore_ascii_case(host)))
            {
                return Verdict::Own;
            }
            if self.origins.has(origin) {
                return Verdict::Guest;
            }
            return Verdict::Refused(
                "a page of another site sent the request; http-cors lists the sites that may",
            );
        }
        // Nothing is read across sites without `Origin`, but a form of another site would be sent.
        let only_reads = matches!(method, Method::Get | Method::Head | Method::Options);
        if !only_reads
            && fields.sec_fetch_site.is_some_and(|site| site.eq_ignore_ascii_case(b"cross-site"))
            && !self.origins.all
        {
            return Verdict::Refused(
                "a page of another site sent the request; http-cors lists the sites that may",
            );
        }
        Verdict::Own
    }

    fn is_own_name(&self, host: &[u8]) -> bool {
        let name = without_port(host);
        let name = name.strip_suffix(b".").unwrap_or(name);
        let is_local = name.eq_ignore_ascii_case(b"localhost")
            || name.len() > 10 && name[name.len() - 10..].eq_ignore_ascii_case(b".localhost");
        is_local || is_address(name) || self.hosts.has(name)
    }
}

/// A host without its port: `[::1]:8080` is `[::1]`.
fn without_port(host: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', host) {
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) && !host.ends_with(b"]") => &host[..at],
        _ => host,
    }
}

/// Whether a host is an IP address; one of IPv6 stands in brackets.
fn is_address(name: &[u8]) -> bool {
    let bracketed = name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]"));
    let address: Option<IpAddr> =
        std::str::from_utf8(bracketed.unwrap_or(name)).ok().and_then(|text| text.parse().ok());
    address.is_some_and(|address| address.is_ipv6() == bracketed.is_some())
}

/// The host and port of an origin; `None` for `null`.
fn authority(origin: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::find(origin, b"://")?;
    Some(&origin[at + 3..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(hosts: &str, origins: &str) -> WebRules {
        WebRules { hosts: Names::of(hosts), origins: Names::of(origins), database: 0, serves_nats: false }
    }

    fn fields<'f>(fill: impl FnOnce(&mut Fields<'f>)) -> Fields<'f> {
        let mut fields = Fields::default();
        fill(&mut fields);
        fields
    }

    #[test]
    fn a_name_that_another_site_could_point_here_is_refused() {
        let rules = rules("cache.example.com", "");
        let taken = |host: &str| {
            let fields = fields(|fields| fields.host = Some(host.as_bytes()));
            rules.judge(Method::Get, &fields) == Verdict::Own
        };
        let own = [
            "localhost",
            "LOCALHOST:8080",
            "app.localhost:1",
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:8080",
            "192.0.2.7:80",
        ];
        own.into_iter()
            .chain(["cache.example.com", "cache.example.com:8080", "cache.example.com."])
            .for_each(|host| assert!(taken(host), "{host}"));
        let foreign = [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evillocalhost",
            "::1",
            "",
        ];
        foreign
            .into_iter()
            .chain(["cache.example.com.evil", "[::1", "127.0.0.1:8080:80", "localhost:x"])
            .for_each(|host| assert!(!taken(host), "{host}"));
    }

    #[test]
    fn pages_of_other_sites_are_refused_unless_they_are_listed() {
        let judged = |rules: &WebRules, method, origin: Option<&str>, site: Option<&str>| {
            let fields = fields(|fields| {
                fields.host = Some(b"localhost:8080");
                fields.origin = origin.map(str::as_bytes);
                fields.sec_fetch_site = site.map(str::as_bytes);
            });
            rules.judge(method, &fields)
        };
        let (none, listed, all) = (rules("", ""), rules("", "https://app.example"), rules("", "*"));
        let is_refused = |verdict| matches!(verdict, Verdict::Refused(_));
        assert_eq!(judged(&none, Method::Put, Some("http://localhost:8080"), None), Verdict::Own);
        for origin in [
            "http://localhost:3000",
            "http://localhost",
            "https://app.example",
            "null",
            "http://localhost:8080.evil",
        ] {
            assert!(is_refused(judged(&none, Method::Post, Some(origin), None)), "{origin}");
            assert!(is_refused(judged(&none, Method::Get, Some(origin), None)), "{origin}");
            assert_eq!(judged(&all, Method::Post, Some(origin), None), Verdict::Guest);
        }
        assert_eq!(judged(&listed, Method::Post, Some("https://app.example"), None), Verdict::Guest);
        assert!(is_refused(judged(&listed, Method::Post, Some("http://app.example"), None)));
        assert!(is_refused(judged(&none, Method::Post, None, Some("cross-site"))));
        assert_eq!(judged(&none, Method::Get, None, Some("cross-site")), Verdict::Own);
        assert_eq!(judged(&none, Method::Post, None, Some("same-origin")), Verdict::Own);
    }
}
