//! Binding addresses and paths, and who may come in by them.
//!
//! Every thread watches every listener: the one that wakes first accepts and gives the client to the thread with the
//! fewest, so that fifty clients are shared evenly between two threads (SO_REUSEPORT spreads them by hash, 32 to 18 say,
//! and would lose whoever waits in the queue of a thread that ends).
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use polder_commands::settings::{Id, Settings, id};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::clients::Origin;
use crate::host::Process;
use crate::server::Failure;

pub const BIND: Id = id("bind");
pub const PORT: Id = id("port");
const BACKLOG: Id = id("tcp-backlog");
const UNIX_PATH: Id = id("unixsocket");
const UNIX_MODE: Id = id("unixsocketperm");
const PROTECTED: Id = id("protected-mode");
pub const SHARE: Id = id("share-port");

/// What a client from elsewhere is told in protected mode.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

/// What one too many is told.
const FULL: &str = "-ERR max number of clients reached\r\n";

/// A door: a bound socket and what to clean up when it closes.
#[derive(Debug)]
pub struct Listener {
    pub socket: Socket,
    /// The path of a Unix socket, and which file it is by device and number: it is removed at the end if it is still ours.
    path: Option<(PathBuf, (u64, u64))>,
    pub name: String,
}

/// A client that was let in and is not served yet.
pub struct Arrival {
    pub socket: Socket,
    pub origin: Origin,
}

/// Binds everything that the settings name.
///
/// # Errors
/// One line that says which address, why not, and what to do.
pub fn bind_all(settings: &Settings) -> Result<Vec<Listener>, Failure> {
    let shares = settings.is_on(SHARE);
    let mut listeners = bind_places(&places(settings.number(PORT) as u16, &settings.string(BIND))?, |_| shares, settings)?;
    let path = settings.string(UNIX_PATH);
    if !path.is_empty() {
        listeners.push(bind_unix(Path::new(&path), shares, settings).map_err(|error| Failure::listen(&path, &error))?);
    }
    if listeners.is_empty() {
        return Err(Failure::nowhere());
    }
    Ok(listeners)
}

/// An address to listen at.
#[derive(Clone)]
pub struct Place {
    pub address: SocketAddr,
    /// This host need not have it.
    optional: bool,
}

/// The addresses that `port` and `bind` mean together.
///
/// # Errors
/// A word that means none.
pub fn places(port: u16, bind: &str) -> Result<Vec<Place>, Failure> {
    let mut places = Vec::new();
    for word in bind.split_whitespace().filter(|_| port != 0) {
        let (optional, host) = word.strip_prefix('-').map_or((false, word), |host| (true, host));
        places.extend(resolve(host, port)?.into_iter().map(|address| Place { address, optional }));
    }
    Ok(places)
}

/// Binds these addresses; where `shares` says so, beside others that are willing to share as well.
///
/// # Errors
/// One line that says which address, why not, and what to do.
pub fn bind_places(places: &[Place], shares: impl Fn(&Place) -> bool, settings: &Settings) -> Result<Vec<Listener>, Failure> {
    let mut listeners = Vec::new();
    for place @ Place { address, optional } in places {
        match bind_tcp(*address, shares(place), settings) {
            Ok(listener) => listeners.push(listener),
            Err(error) if *optional && is_absent(&error) => tracing::debug!(%address, "this address is not there"),
            Err(error) => return Err(Failure::listen(&address.to_string(), &error)),
        }
    }
    Ok(listeners)
}

/// The addresses that a word of `bind` means; `*` is every IPv4 address and `::*` or `*` in brackets every IPv6 one.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let host = match host {
        "*" => "0.0.0.0",
        "::*" => "::",
        other => other,
    };
    let found = (host, port).to_socket_addrs().map_err(|error| Failure::listen(host, &error))?;
    Ok(found.collect())
}

/// Whether this host simply has no such address or family.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOPROTOOPT))
}

fn bind_tcp(address: SocketAddr, shares: bool, settings: &Settings) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(shares)?;
    socket.bind(&address.into())?;
    listen(&socket, settings)?;
    Ok(Listener { socket, path: None, name: address.to_string() })
}

/// Listens on a path. The socket gets its name when it has its permissions and listens, so no client finds it earlier; where the port may be
/// shared, it takes the name from the server that it follows, whose clients stay connected.
fn bind_unix(path: &Path, shares: bool, settings: &Settings) -> io::Result<Listener> {
    let address = SockAddr::unix(path)?;
    // A socket that a killed server left behind is replaced; one that answers is another server's, and what is no socket is not ours.
    if let Ok(found) = std::fs::symlink_metadata(path) {
        let answers = || Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|socket| socket.connect(&address)).is_ok();
        if !found.file_type().is_socket() || !shares && answers() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
    }
    let nameless = path.with_file_name(format!(".{}", std::process::id()));
    // One of a process that had this number.
    let _ = std::fs::remove_file(&nameless);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(&nameless)?)?;
    let named = name_socket(&socket, &nameless, path, settings);
    if named.is_err() {
        // The reason matters more than a file that could not be removed either.
        let _ = std::fs::remove_file(&nameless);
    }
    Ok(Listener { socket, path: Some((path.to_owned(), named?)), name: path.display().to_string() })
}

/// Gives a bound socket its permissions and its name. Returns which file it is, by device and number.
fn name_socket(socket: &Socket, nameless: &Path, path: &Path, settings: &Settings) -> io::Result<(u64, u64)> {
    let mode = settings.number(UNIX_MODE) as u32;
    if mode != 0 {
        std::fs::set_permissions(nameless, std::fs::Permissions::from_mode(mode))?;
    }
    listen(socket, settings)?;
    let found = std::fs::symlink_metadata(nameless)?;
    std::fs::rename(nameless, path)?;
    Ok((found.dev(), found.ino()))
}

fn listen(socket: &Socket, settings: &Settings) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.listen(i32::try_from(settings.number(BACKLOG)).unwrap_or(i32::MAX))
}

impl Listener {
    /// The same door for another thread, which cleans nothing up.
    ///
    /// # Errors
    /// Those of the system: too many open files.
    pub fn share(&self) -> io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, path: None, name: self.name.clone() })
    }

    /// Whether it is a Unix socket.
    pub fn is_local(&self) -> bool {
        self.path.is_some()
    }

    /// Lets nobody in any more, by the hand of no thread.
    pub fn rest(&self) {
        if let Err(error) = self.socket.shutdown(std::net::Shutdown::Both) {
            tracing::debug!(%error, listener = self.name, "closed already");
        }
    }

    /// Its address, where it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Whether sockets of the same owner may be bound beside it from now on, if they say the same.
    pub fn share_port(&self, shares: bool) {
        if let Err(error) = self.socket.set_reuse_port(shares) {
            tracing::error!(%error, listener = self.name, "its port cannot be shared, or is shared still");
        }
    }

    /// Lets everyone in who waits, up to the limits; what may not come in is told why and closed.
    ///
    /// # Errors
    /// What the system says, but for nobody waiting.
    pub fn accept_all(&self, process: &Process, clients_max: usize, arrived: &mut Vec<Arrival>) -> io::Result<()> {
        loop {
            let (socket, peer) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The peer gave up while it waited.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR)) => continue,
                Err(error) => return Err(error),
            };
            socket.set_nonblocking(true)?;
            let guarded = process.settings.is_on(PROTECTED) && process.settings.users().now().default_user().open;
            if guarded && is_foreign(&peer) {
                turn_away(&socket, DENIED);
            } else if !process.clients.admit(clients_max) {
                process.memory.table().count(polder_engine::Counter::Refusals, 1);
                turn_away(&socket, FULL);
            } else {
                let origin = origin(&socket, &peer, &self.name);
                arrived.push(Arrival { socket, origin });
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // One that another server has put in its place is left there.
        let is_ours =
            |(path, file): &&(PathBuf, (u64, u64))| std::fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == *file);
        if let Some((path, _)) = self.path.as_ref().filter(is_ours)
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(%error, path = %path.display(), "the socket cannot be removed");
        }
    }
}

/// Whether a peer is on another host, as far as its address says; an IPv4 address may come in IPv6 dress.
fn is_foreign(peer: &SockAddr) -> bool {
    peer.as_socket().is_some_and(|address| !address.ip().to_canonical().is_loopback())
}

/// Tells a peer why it is not served; if its socket takes no text, there is nothing more to do.
fn turn_away(socket: &Socket, text: &str) {
    if let Err(error) = socket.send(text.as_bytes()) {
        tracing::debug!(%error, "a refused client was not told why");
    }
}

/// Where a client comes from; `name` is that of the listener, whose Unix socket has got its path after it was bound.
fn origin(socket: &Socket, peer: &SockAddr, name: &str) -> Origin {
    let descriptor = socket.as_raw_fd();
    let local = socket.local_addr().ok();
    match peer.as_socket() {
        Some(address) => {
            let local_address = local.and_then(|local| local.as_socket()).map_or(String::new(), |local| local.to_string());
            Origin { address: address.to_string(), local_address, descriptor, by_unix: false }
        }
        None => {
            let path = format!("{name}:0");
            Origin { address: path.clone(), local_address: path, descriptor, by_unix: true }
        }
    }
}

/// Sets what Redis sets on a client's TCP socket.
///
/// # Errors
/// Those of the system.
pub fn prepare(socket: &Socket, keepalive_seconds: u64) -> io::Result<()> {
    socket.set_nodelay(true)?;
    if keepalive_seconds > 0 {
        let third = Duration::from_secs((keepalive_seconds / 3).max(1));
        socket.set_tcp_keepalive(
            &TcpKeepalive::new().with_time(Duration::from_secs(keepalive_seconds)).with_interval(third).with_retries(3),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_hosts_are_foreign() {
        let foreign = |address: &str| is_foreign(&SockAddr::from(address.parse::<SocketAddr>().expect("an address")));
        assert!(!foreign("127.0.0.1:1") && !foreign("127.9.9.9:1") && !foreign("[::1]:1") && !foreign("[::ffff:127.0.0.1]:1"));
        assert!(foreign("192.0.2.1:1") && foreign("[2001:db8::1]:1") && foreign("[::ffff:192.0.2.1]:1"));
        assert!(!is_foreign(&SockAddr::unix("/tmp/socket").expect("a path")));
    }
}
