//! Finding a master by Sentinel: each sentinel is asked in turn, and what it names must say by ROLE that it is a master.
//!
//! This runs in a thread that may wait, before each connection is made: drivers go on with the deadlines of calls meanwhile.
//! A failover is noticed by the break of the connection (Sentinel closes the connections of a master that it demotes), by a
//! READONLY error, and by PING.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use polder_wire::resp::{Replies, Value};

use super::Secrets;
use crate::args;
use crate::options::{Endpoint, Options};

/// The master that the sentinels of the options name: its host, as TLS is to check it, and its address.
///
/// # Errors
/// Why the last sentinel that was asked could not name one. [`io::ErrorKind::InvalidData`] if each refused the log-in, so that the
/// next attempt would end the same way.
pub(crate) fn find(options: &Options, secrets: &Secrets) -> io::Result<(String, SocketAddr)> {
    let Endpoint::Sentinel { sentinels, master, replica } = &options.endpoint else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the endpoint names no sentinels"));
    };
    let until = Instant::now() + options.connect_timeout;
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no sentinel is named");
    let mut all_refuse = true;
    for (at, (host, port)) in sentinels.iter().enumerate() {
        // A sentinel that does not reply leaves time for the others.
        let share = until.saturating_duration_since(Instant::now()) / (sentinels.len() - at) as u32;
        let sentinel = (host.as_str(), *port);
        if *replica && let Ok(Some(found)) = replica_of(options, secrets, sentinel, master, share / 2) {
            return Ok(found);
        }
        match ask_one(options, secrets, sentinel, master, share) {
            Ok(found) => return Ok(found),
            Err(error) => {
                all_refuse &= error.kind() == io::ErrorKind::InvalidData;
                let kind = if all_refuse { io::ErrorKind::InvalidData } else { io::ErrorKind::Other };
                last = io::Error::new(kind, format!("sentinel {host}:{port}: {error}"));
            }
        }
    }
    Err(last)
}

fn ask_one(
    options: &Options,
    secrets: &Secrets,
    sentinel: (&str, u16),
    master: &str,
    timeout: Duration,
) -> io::Result<(String, SocketAddr)> {
    let (host, address) = match ask_sentinel(
        options,
        secrets,
        sentinel,
        &("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master),
        timeout,
    )? {
        Value::Array(words) => {
            named(&words).ok_or_else(|| unusable(format!("it named no address but {words:?}")))?
        }
        Value::Null => return Err(unusable(format!("it knows no master '{master}'"))),
        other => return Err(unusable(format!("it replied {other:?}"))),
    };
    match ask(options, secrets, (&host, address.port()), &"ROLE", timeout)? {
        Value::Array(words) if matches!(words.first(), Some(Value::Bulk(role)) if role == b"master") => {
            Ok((host, address))
        }
        // The user may not call ROLE, or cannot log in, which the connection itself will report. A replica is found out by its READONLY.
        Value::Error(_) => Ok((host, address)),
        _ => Err(unusable(format!("it named {address}, which is not a master; a failover is not finished"))),
    }
}

/// A replica that follows its master, if there is one: which one of several, chance says.
fn replica_of(
    options: &Options,
    secrets: &Secrets,
    sentinel: (&str, u16),
    master: &str,
    timeout: Duration,
) -> io::Result<Option<(String, SocketAddr)>> {
    let Value::Array(replicas) =
        ask_sentinel(options, secrets, sentinel, &("SENTINEL", "REPLICAS", master), timeout)?
    else {
        return Ok(None);
    };
    let first = RandomState::new().hash_one(0u8) as usize;
    for at in 0..replicas.len() {
        let Value::Array(fields) = &replicas[(first.wrapping_add(at)) % replicas.len()] else { continue };
        let Some((host, address)) = following(fields) else { continue };
        let role = ask(options, secrets, (&host, address.port()), &"ROLE", timeout)?;
        // As a replica tells it: its role, its master's host and port, and how it stands to that.
        if let Value::Array(words) = role
            && matches!(&words[..], [Value::Bulk(role), _, _, Value::Bulk(link), ..] if role == b"slave" && link == b"connected")
        {
            return Ok(Some((host, address)));
        }
    }
    Ok(None)
}

/// The host and the address of a replica that the sentinel takes for sound.
fn following(fields: &[Value]) -> Option<(String, SocketAddr)> {
    let field = |name: &[u8]| {
        fields
            .chunks_exact(2)
            .find(|pair| matches!(&pair[0], Value::Bulk(known) if known == name))
            .map(|pair| &pair[1])
    };
    let is_up = matches!(field(b"flags")?, Value::Bulk(flags) if flags == b"slave");
    let follows = matches!(field(b"master-link-status")?, Value::Bulk(status) if status == b"ok");
    if is_up && follows { named(&[field(b"ip")?.clone(), field(b"port")?.clone()]) } else { None }
}

/// Logs in to a server and asks it one thing.
pub(crate) fn ask(
    options: &Options,
    secrets: &Secrets,
    server: (&str, u16),
    question: &dyn args::Args,
    timeout: Duration,
) -> io::Result<Value> {
    let login = options.password.as_deref().map(|password| (options.user.as_deref(), password));
    Ok(ask_as(login, secrets, server, question, timeout)?.0)
}

/// Logs in to a sentinel and asks it one thing.
///
/// # Errors
/// When it refuses.
fn ask_sentinel(
    options: &Options,
    secrets: &Secrets,
    sentinel: (&str, u16),
    question: &dyn args::Args,
    timeout: Duration,
) -> io::Result<Value> {
    let login = options.sentinel_login.as_ref().map(|(user, password)| (user.as_deref(), &password[..]));
    match ask_as(login, secrets, sentinel, question, timeout)? {
        // A sentinel that wants no password refuses to be told one, and replies to the question.
        (Value::Error(text), logged_in) => {
            let why = if let Some(Value::Error(why)) = logged_in { why } else { text };
            let why = String::from_utf8_lossy(&why);
            let is_final = ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|code| why.starts_with(code));
            let kind = if is_final { io::ErrorKind::InvalidData } else { io::ErrorKind::Other };
            Err(io::Error::new(
                kind,
                format!("{why} (check the URL's options sentinel_user and sentinel_password)"),
            ))
        }
        (reply, _) => Ok(reply),
    }
}

/// The reply to a question, and that to the log-in before it.
fn ask_as(
    login: Option<(Option<&str>, &str)>,
    secrets: &Secrets,
    server: (&str, u16),
    question: &dyn args::Args,
    timeout: Duration,
) -> io::Result<(Value, Option<Value>)> {
    let mut requests = Vec::new();
    if let Some((user, password)) = login {
        args::encode(&("AUTH", user, password), &mut requests);
    }
    args::encode(&question, &mut requests);
    let mut replies = converse(secrets, server, &requests, 1 + usize::from(login.is_some()), timeout)?;
    let reply = replies.pop().ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((reply, replies.pop()))
}

fn unusable(text: String) -> io::Error {
    io::Error::other(text)
}

fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    if addresses.is_empty() { Err(unusable(format!("'{host}' has no address"))) } else { Ok(addresses) }
}

/// Connects to the first of these addresses that takes a connection.
fn connect(addresses: &[SocketAddr], until: Instant) -> io::Result<(SocketAddr, TcpStream)> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for (at, address) in addresses.iter().enumerate() {
        let share = until.saturating_duration_since(Instant::now()) / (addresses.len() - at) as u32;
        match TcpStream::connect_timeout(address, share.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok((*address, stream)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Host and port of a reply, and its address.
fn named(words: &[Value]) -> Option<(String, SocketAddr)> {
    let [Value::Bulk(host), Value::Bulk(port)] = words else { return None };
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    let host = std::str::from_utf8(host).ok()?;
    Some((host.to_owned(), *resolve(host, port).ok()?.first()?))
}

/// Sends requests to the first address of a server that can be reached and waits for their replies.
fn converse(
    secrets: &Secrets,
    (host, port): (&str, u16),
    requests: &[u8],
    count: usize,
    timeout: Duration,
) -> io::Result<Vec<Value>> {
    let timeout = timeout.max(Duration::from_millis(1));
    let until = Instant::now() + timeout;
    let (address, socket) = connect(&resolve(host, port)?, until)?;
    socket.set_write_timeout(Some(timeout))?;
    socket.set_read_timeout(Some(timeout))?;
    let mut stream = secrets.wrap(host, socket.try_clone()?)?;
    stream.write_all(requests)?;
    stream.flush()?;
    let (mut parser, mut held, mut replies) = (Replies::default(), Vec::new(), Vec::new());
    loop {
        let mut left = &held[..];
        while let Some(value) = parser
            .read(&mut left)
            .map_err(|malformed| unusable(format!("{address} does not speak RESP: {malformed}")))?
        {
            replies.push(value);
        }
        if replies.len() >= count {
            return Ok(replies);
        }
        let used = held.len() - left.len();
        held.drain(..used);
        let patience = until.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(patience))?;
        let mut room = [0; 4096];
        match stream.read(&mut room)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => held.extend_from_slice(&room[..more]),
        }
    }
}
