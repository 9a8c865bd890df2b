//! Where to connect, as whom, and what to do when the connection is down; read from a URL.
//!
//! ```text
//!   redis://[user[:password]@]host[:port][/database][?option=value&...]
//!   rediss://...            the same by TLS (feature `tls`)
//!   redis-sentinel://[user[:password]@]host[:port][,host[:port]...]/MASTER[/database]
//!   rediss-sentinel://...   the same, by TLS to the sentinels and to the master
//!   redis-cluster://[user[:password]@]host[:port][,host[:port]...]
//!   rediss-cluster://...    the same by TLS
//!   polder://shm:NAME[?db=N&create=yes]   the memory itself, without a server (feature `shm`)
//!   unix:/path/to/socket[?db=N&option=value&...]
//! ```

use std::path::PathBuf;
use std::time::Duration;

use crate::cache::{CacheOptions, Tracking};
use crate::error::Error;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
    /// Sentinels that are asked which server is the master of this name. User and password are those of the master;
    /// [`Options::sentinel_login`] has those of the sentinels.
    Sentinel {
        sentinels: Vec<(String, u16)>,
        master: String,
        /// Connects to a replica of the master that follows it; to the master where there is none.
        replica: bool,
    },
    /// A segment of shared memory on this machine: `shm:NAME`, `sysv:NAME` or `file:PATH`. A process that attaches one stands above
    /// passwords and access lists: only the permissions of the segment hold.
    Memory {
        segment: String,
        /// Whether to make the segment if there is none.
        create: bool,
    },
    /// Nodes of a cluster that are asked which node has which keys; the others are learned from them.
    Cluster {
        nodes: Vec<(String, u16)>,
    },
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
            Endpoint::Sentinel { master, replica: true, .. } => write!(f, "replica of '{master}'"),
            Endpoint::Sentinel { master, .. } => write!(f, "master '{master}'"),
            Endpoint::Memory { segment, .. } => f.write_str(segment),
            Endpoint::Cluster { nodes } => {
                let shown: Vec<String> = nodes.iter().map(|(host, port)| format!("{host}:{port}")).collect();
                write!(f, "cluster of {}", shown.join(", "))
            }
        }
    }
}

/// How a server that is reached by TLS is checked, and how the client shows who it is. All files are in PEM form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsOptions {
    /// The certificates to trust; `None` trusts those of the operating system.
    pub ca: Option<String>,
    /// The client's own certificate and its key, where the server asks for them.
    pub certificate: Option<String>,
    pub key: Option<String>,
}

/// What becomes of a call that cannot be written at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Fails with [`Error::NotSent`] while the connection is down or the queue is full.
    FailFast,
    /// Waits in the queue; fails with [`Error::NotSent`] when the queue is full.
    #[default]
    Queue,
    /// Waits in the queue; while that is full, the future (or thread) waits for room.
    Block,
}

/// How a client connects and what its calls begin with. `{:?}` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    pub endpoint: Endpoint,
    /// The ACL user; `None` with a password means the default user.
    pub user: Option<String>,
    pub password: Option<String>,
    /// The ACL user and the password of the sentinels, where they want one; `None` as user means the default user.
    pub sentinel_login: Option<(Option<String>, String)>,
    /// The database of [`Client::call`](crate::Client::call).
    pub database: u32,
    /// The name that CLIENT LIST shows.
    pub name: Option<String>,
    /// How long a connection may take to open and to log in.
    pub connect_timeout: Duration,
    /// The deadline of each call, from its making; `None` waits for ever. [`Db::within`](crate::Db::within) changes it for one call.
    pub timeout: Option<Duration>,
    pub policy: Policy,
    pub queue: QueueLimits,
    /// The first pause before a reconnect; it doubles up to [`Options::backoff_max`], and chance takes off up to half.
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// An idle connection sends a PING this often; a dead link is noticed after four of them, or by the deadlines of calls.
    pub ping_interval: Duration,
    /// Speaks TLS to the server; `None` does not. Needs the feature `tls`.
    pub tls: Option<TlsOptions>,
    /// Keeps replies for [`Db::cached`](crate::Db::cached); `None` keeps none.
    pub cache: Option<CacheOptions>,
    pub transport: Transport,
}

/// How much may wait to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    pub calls_max: usize,
    pub bytes_max: usize,
}

/// What calls go over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    #[default]
    Socket,
    /// The segment of the server, if it is a Polder of this machine whose segment may be attached (feature `shm`); else the socket.
    /// The server is asked for it while the client is made, for [`Options::connect_timeout`] at the most. As with
    /// [`Endpoint::Memory`], only the permissions of the segment hold, and no access list.
    Auto,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Options {
            endpoint, user, password, database, name, connect_timeout, timeout, policy, queue, ..
        } = self;
        let Options {
            sentinel_login, backoff_min, backoff_max, ping_interval, tls, cache, transport, ..
        } = self;
        out.debug_struct("Options")
            .field("endpoint", endpoint)
            .field("user", user)
            .field("password", &password.as_ref().map(|_| "***"))
            .field("sentinel_login", &sentinel_login.as_ref().map(|(user, _)| (user, "***")))
            .field("database", database)
            .field("name", name)
            .field("connect_timeout", connect_timeout)
            .field("timeout", timeout)
            .field("policy", policy)
            .field("queue", queue)
            .field("backoff_min", backoff_min)
            .field("backoff_max", backoff_max)
            .field("ping_interval", ping_interval)
            .field("tls", tls)
            .field("cache", cache)
            .field("transport", transport)
            .finish()
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port: PORT },
            user: None,
            password: None,
            sentinel_login: None,
            database: 0,
            name: None,
            connect_timeout: Duration::from_secs(5),
            timeout: Some(Duration::from_secs(5)),
            policy: Policy::Queue,
            queue: QueueLimits { calls_max: 1_000_000, bytes_max: 256 << 20 },
            backoff_min: Duration::from_millis(10),
            backoff_max: Duration::from_secs(2),
            ping_interval: Duration::from_secs(15),
            tls: None,
            cache: None,
            transport: Transport::Socket,
        }
    }
}

impl std::str::FromStr for Options {
    type Err = Error;

    fn from_str(url: &str) -> Result<Options, Error> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        // No part of it is shown: it may be the password's.
        if query.contains('@') {
            return Err(Error::usage(
                "the URL has an '@' behind its '?': write ? in a password as %3F, and @ in an option as %40",
            ));
        }
        let mut options = match address.split_once(':') {
            Some(("redis", rest)) => tcp(rest.strip_prefix("//").unwrap_or(rest))?,
            Some(("rediss", rest)) => {
                Options { tls: Some(TlsOptions::default()), ..tcp(rest.strip_prefix("//").unwrap_or(rest))? }
            }
            Some(("redis-sentinel", rest)) => sentinel(rest.strip_prefix("//").unwrap_or(rest))?,
            Some(("redis-cluster", rest)) => cluster(rest.strip_prefix("//").unwrap_or(rest))?,
            Some(("rediss-cluster", rest)) => Options {
                tls: Some(TlsOptions::default()),
                ..cluster(rest.strip_prefix("//").unwrap_or(rest))?
            },
            Some(("rediss-sentinel", rest)) => Options {
                tls: Some(TlsOptions::default()),
                ..sentinel(rest.strip_prefix("//").unwrap_or(rest))?
            },
            Some(("polder", segment)) => {
                let segment = unescape(segment.strip_prefix("//").unwrap_or(segment))?;
                Options { endpoint: Endpoint::Memory { segment, create: false }, ..Options::default() }
            }
            Some(("unix", path)) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                Options { endpoint: Endpoint::Unix(unescape(path)?.into()), ..Options::default() }
            }
            _ => {
                // The scheme alone: what follows it may hold a password.
                let scheme = address.split_once("://").map_or(String::new(), |(scheme, _)| {
                    format!("'{scheme}://' begins no URL that is known: ")
                });
                return Err(Error::usage(format!(
                    "{scheme}write redis://host:port/database, rediss:// for TLS, redis-sentinel:// for Sentinel, redis-cluster:// for a cluster, polder://shm:NAME for shared memory, or unix:/path"
                )));
            }
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            option(&mut options, name, &unescape(value)?)?;
        }
        Ok(options)
    }
}

/// What stands behind `redis://`.
fn tcp(rest: &str) -> Result<Options, Error> {
    let (mut options, rest) = login(rest)?;
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !database.is_empty() {
        options.database = number("database", database)?;
    }
    let (host, port) = place_of(place, PORT)?;
    options.endpoint = Endpoint::Tcp { host, port };
    Ok(options)
}

/// What stands behind `redis-sentinel://`.
fn sentinel(rest: &str) -> Result<Options, Error> {
    let (mut options, rest) = login(rest)?;
    let (places, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    if master.is_empty() {
        return Err(Error::usage(
            "the URL names no master: write redis-sentinel://host:port,host:port/MASTER",
        ));
    }
    if !database.is_empty() {
        options.database = number("database", database)?;
    }
    let sentinels =
        places.split(',').map(|place| place_of(place, SENTINEL_PORT)).collect::<Result<_, _>>()?;
    options.endpoint = Endpoint::Sentinel { sentinels, master: unescape(master)?, replica: false };
    Ok(options)
}

/// What stands behind `redis-cluster://`.
fn cluster(rest: &str) -> Result<Options, Error> {
    let (mut options, rest) = login(rest)?;
    let (places, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !database.is_empty() {
        options.database = number("database", database)?;
    }
    let nodes = places.split(',').map(|place| place_of(place, PORT)).collect::<Result<_, _>>()?;
    options.endpoint = Endpoint::Cluster { nodes };
    Ok(options)
}

/// User and password before `@`, and what follows them.
fn login(rest: &str) -> Result<(Options, &str), Error> {
    let mut options = Options::default();
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    if let Some(login) = login {
        // As redis-cli reads it: one word is the user, `:word` the password of the default user.
        let (user, password) =
            login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        options.user = Some(unescape(user)?).filter(|user| !user.is_empty());
        options.password = password.map(unescape).transpose()?.filter(|password| !password.is_empty());
    }
    Ok((options, rest))
}

/// A host and its port.
fn place_of(place: &str, default: u16) -> Result<(String, u16), Error> {
    let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let host = if host.is_empty() { "127.0.0.1".to_owned() } else { unescape(host)? };
    let port = port.filter(|port| !port.is_empty()).map_or(Ok(default), |port| number("port", port))?;
    Ok((host, port))
}

fn option(options: &mut Options, name: &str, value: &str) -> Result<(), Error> {
    let millis = |value| number(name, value).map(Duration::from_millis);
    match name {
        "db" => options.database = number(name, value)?,
        "name" => options.name = Some(value.to_owned()),
        "timeout_ms" => options.timeout = Some(millis(value)?).filter(|timeout| !timeout.is_zero()),
        "connect_timeout_ms" => options.connect_timeout = millis(value)?,
        "ping_interval_ms" => options.ping_interval = millis(value)?,
        "queue_calls_max" => options.queue.calls_max = number(name, value)?,
        "queue_bytes_max" => options.queue.bytes_max = number(name, value)?,
        "cache_bytes_max" => {
            options.cache =
                Some(CacheOptions { bytes_max: number(name, value)?, tracking: Tracking::Default })
        }
        "sentinel_user" => sentinel_login(options, name)?.0 = Some(value.to_owned()),
        "sentinel_password" => sentinel_login(options, name)?.1 = value.to_owned(),
        "tls_ca" => tls(options, name)?.ca = Some(value.to_owned()),
        "tls_cert" => tls(options, name)?.certificate = Some(value.to_owned()),
        "tls_key" => tls(options, name)?.key = Some(value.to_owned()),
        "create" => match &mut options.endpoint {
            Endpoint::Memory { create, .. } if matches!(value, "yes" | "no") => *create = value == "yes",
            Endpoint::Memory { .. } => return Err(Error::usage(format!("create={value}: write yes or no"))),
            _ => {
                return Err(Error::usage(
                    "the URL's option 'create' is for shared memory: begin the URL with polder://shm:",
                ));
            }
        },
        "policy" => {
            options.policy = match value {
                "fail-fast" => Policy::FailFast,
                "queue" => Policy::Queue,
                "block" => Policy::Block,
                _ => return Err(Error::usage(format!("policy={value}: write fail-fast, queue or block"))),
            }
        }
        "transport" => {
            options.transport = match (value, &options.endpoint) {
                ("socket", _) => Transport::Socket,
                ("auto", Endpoint::Tcp { .. }) => Transport::Auto,
                ("auto", _) => {
                    return Err(Error::usage(
                        "transport=auto is for redis://host:port; polder://shm:NAME names the memory itself",
                    ));
                }
                _ => return Err(Error::usage(format!("transport={value}: write socket or auto"))),
            }
        }
        _ => {
            let known = "db, name, timeout_ms, connect_timeout_ms, ping_interval_ms, queue_calls_max, queue_bytes_max, cache_bytes_max, policy, transport, create, sentinel_user, sentinel_password, tls_ca, tls_cert, tls_key";
            return Err(Error::usage(format!("the URL's option '{name}' is unknown; there are {known}")));
        }
    }
    Ok(())
}

fn sentinel_login<'o>(
    options: &'o mut Options,
    name: &str,
) -> Result<&'o mut (Option<String>, String), Error> {
    match options.endpoint {
        Endpoint::Sentinel { .. } => Ok(options.sentinel_login.get_or_insert_default()),
        _ => Err(Error::usage(format!(
            "the URL's option '{name}' is for sentinels: begin the URL with redis-sentinel://"
        ))),
    }
}

fn tls<'o>(options: &'o mut Options, name: &str) -> Result<&'o mut TlsOptions, Error> {
    options.tls.as_mut().ok_or_else(|| {
        Error::usage(format!("the URL's option '{name}' is for TLS: begin the URL with rediss://"))
    })
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Error> {
    text.parse()
        .map_err(|_| Error::usage(format!("the URL's {what} is '{text}', which is not a number in range")))
}

/// Replaces `%41` by `A`. An error does not show the text, which may be a password.
fn unescape(text: &str) -> Result<String, Error> {
    let invalid = || {
        Error::usage(
            "the URL has a '%' without two hexadecimal digits that make UTF-8 text; a plain '%' is written %25",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (digits, tail) = rest.split_at_checked(2).ok_or_else(invalid)?;
            let digits = std::str::from_utf8(digits).map_err(|_| invalid())?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
            rest = tail;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Options {
        url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn no_text_shows_a_password() {
        let options = read("redis://user:s3cret@example");
        assert!(!format!("{options:?}").contains("s3cret"));
        let options = read("redis-sentinel://a/main?sentinel_password=s3cret");
        assert!(!format!("{options:?}").contains("s3cret"));
        let wrong = [
            "valkey://:s3cret@host",
            "redis://user:%s3cret@host",
            "redis://user:s3?cret@host",
            "redis://user:s3?cr=et&s3@host",
            "s3cret@host",
        ];
        for url in wrong {
            let Err(error) = url.parse::<Options>() else { panic!("{url} is taken") };
            assert!(!["s3", "cret"].iter().any(|part| error.to_string().contains(part)), "{url}: {error}");
        }
    }

    #[test]
    fn urls_name_place_login_and_database() {
        let tcp = |host: &str, port| Endpoint::Tcp { host: host.into(), port };
        assert_eq!(read("redis://").endpoint, tcp("127.0.0.1", 6379));
        assert_eq!(read("redis://[::1]:7000/3").endpoint, tcp("::1", 7000));
        let full = read("redis://al%40ice:p%3Aw@example:7000/3?timeout_ms=250&policy=block&name=web");
        assert_eq!((full.endpoint, full.database), (tcp("example", 7000), 3));
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("al@ice"), Some("p:w")));
        assert_eq!(
            (full.timeout, full.policy, full.name.as_deref()),
            (Some(Duration::from_millis(250)), Policy::Block, Some("web"))
        );
        assert_eq!(read("redis://:secret@h").user, None);
        assert_eq!(read("unix:/run/polder.sock?db=2").endpoint, Endpoint::Unix("/run/polder.sock".into()));
        assert_eq!(read("redis://h?timeout_ms=0").timeout, None);
        let found = read("redis-sentinel://al:pw@a,[::1]:7000/main/3");
        let sentinels = vec![("a".to_owned(), 26379), ("::1".to_owned(), 7000)];
        assert_eq!(
            (found.endpoint, found.database),
            (Endpoint::Sentinel { sentinels, master: "main".into(), replica: false }, 3)
        );
        assert_eq!(found.password.as_deref(), Some("pw"));
        assert_eq!(found.sentinel_login, None);
        let login = |url| read(url).sentinel_login;
        assert_eq!(login("redis-sentinel://a/main?sentinel_password=p%26w"), Some((None, "p&w".into())));
        assert_eq!(
            login("redis-sentinel://a/main?sentinel_user=al&sentinel_password=pw"),
            Some((Some("al".into()), "pw".into()))
        );
        let tls = TlsOptions { ca: Some("/ca.pem".into()), ..TlsOptions::default() };
        assert_eq!(read("rediss://h:7000?tls_ca=/ca.pem").tls, Some(tls));
        assert_eq!(read("redis://h").tls, None);
    }

    #[test]
    fn a_bad_url_says_what_is_wrong() {
        for (url, word) in [
            ("http://h", "redis://"),
            ("redis://h:x", "port"),
            ("redis://h/x", "database"),
            ("redis://h?tls=1", "unknown"),
            ("redis-sentinel://h", "MASTER"),
            ("rediss-sentinel://h", "MASTER"),
            ("redis://h?tls_ca=/ca.pem", "rediss://"),
            ("redis://h?sentinel_password=x", "redis-sentinel://"),
            ("redis://h?name=%4", "%25"),
        ] {
            let error = url.parse::<Options>().unwrap_err().to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
    }
}
