//! Binding addresses and paths, and admitting the clients that come in there.
//!
//! Every thread watches every listener. The thread that wakes first accepts, and gives the client to the thread with the
//! fewest clients. So fifty clients are shared evenly between two threads. (SO_REUSEPORT spreads them by hash, for example
//! 32 to 18, and loses the clients that wait in the queue of a thread that ends.)
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use polder_calls::settings::value::Parsed;
use polder_calls::settings::{Id, Settings, id};
use polder_engine::{Counter, Table};
use polder_runtime::configuration::Configuration;
use polder_runtime::session::NewSetting;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::clients::{Clients, Origin};
use crate::failure::Failure;
use polder_protocols::doors::{DOORS, Door, PlaceSettings, Refusal};
use polder_protocols::sessions::refusal;

const BACKLOG: Id = id("tcp-backlog");
pub const PROTECTED: Id = id("protected-mode");
const ALL: Id = id("all-protocols");
pub const SHARE: Id = id("share-port");

/// A bound socket of a door, and what to clean up when it closes.
#[derive(Debug)]
pub struct Listener {
    pub door: &'static Door,
    /// It is the door's encrypted port.
    pub tls: bool,
    pub socket: Socket,
    /// The path of a Unix socket, and which file it is by device and number: it is removed at the end if it is still ours.
    path: Option<(PathBuf, (u64, u64))>,
    pub name: String,
}

/// What decides whether a client may come in.
pub struct Admission<'p> {
    pub settings: &'p Configuration,
    pub table: &'p Table,
    pub clients: &'p Clients,
    pub clients_max: usize,
}

/// A client that was admitted and is not served yet.
pub struct Arrival {
    pub socket: Socket,
    pub origin: Origin,
}

/// The settings as they are once some changes hold.
#[derive(Clone, Copy)]
pub struct After<'s> {
    pub settings: &'s Settings,
    pub changes: &'s [NewSetting],
}

/// Where a door is to be open.
#[derive(Clone, PartialEq, Eq)]
pub struct Meant {
    pub door: &'static Door,
    pub tls: bool,
    port: u16,
    bind: String,
}

/// An address to listen at.
#[derive(Clone)]
pub struct Place {
    pub door: &'static Door,
    pub tls: bool,
    pub address: SocketAddr,
    /// This host need not have it.
    optional: bool,
}

/// Binds everything that the settings name.
///
/// # Errors
/// One line that says which address, why not, and what to do.
pub fn bind_all(settings: &Configuration) -> Result<Vec<Listener>, Failure> {
    let mut listeners = bind_ports(settings).map_err(|unmoved| unmoved.failure)?;
    for door in &DOORS {
        if let PlaceSettings::Unix { path, mode } = door.place {
            let path = settings.string(path);
            if !path.is_empty() {
                let bound = bind_unix(door, Path::new(&path), settings.number(mode) as u32, settings);
                listeners.push(bound.map_err(|error| Failure::listen(&path, door, false, &error))?);
            }
        }
    }
    if listeners.is_empty() {
        return Err(Failure::nowhere());
    }
    Ok(listeners)
}

fn bind_ports(settings: &Configuration) -> Result<Vec<Listener>, Unmoved> {
    let shares = settings.is_on(SHARE);
    let after = After { settings, changes: &[] };
    let mut wanted = Vec::new();
    for meant in DOORS.iter().flat_map(|door| after.meant(door)) {
        wanted.extend(meant.places()?);
    }
    none_overlap(&wanted, shares)?;
    // The last door first: a program that waits until the port of Redis accepts finds the others that are named open.
    wanted.reverse();
    let mut listeners = bind_places(&wanted, |_| shares, settings)?;
    listeners.reverse();
    if settings.is_on(ALL) {
        DOORS.iter().for_each(|door| listeners.extend(bind_usual(door, settings)));
    }
    Ok(listeners)
}

/// Opens a door at its usual port if file and flags say nothing about its port. One that cannot be opened is left out.
fn bind_usual(door: &'static Door, settings: &Configuration) -> Vec<Listener> {
    let PlaceSettings::Tcp { port, usual_port, .. } = door.place else { return Vec::new() };
    if settings.number(port) != 0 || settings.is_given(port) {
        return Vec::new();
    }
    let usual = (port, Parsed { number: usual_port.into(), text: usual_port.to_string().into_bytes() });
    let after = After { settings, changes: std::slice::from_ref(&usual) };
    let places = after.meant(door).find(|meant| !meant.tls).map_or(Ok(Vec::new()), |meant| meant.places());
    match places.and_then(|places| bind_places(&places, |_| settings.is_on(SHARE), settings)) {
        Ok(listeners) => {
            settings.set(port, usual.1);
            listeners
        }
        Err(Unmoved { failure, .. }) => {
            tracing::warn!("{} is left out: {failure}", door.name);
            Vec::new()
        }
    }
}

impl After<'_> {
    /// A setting's number.
    pub fn number(&self, wanted: Id) -> i64 {
        self.changed(wanted).map_or_else(|| self.settings.number(wanted), |parsed| parsed.number)
    }

    /// A setting's text.
    pub fn string(&self, wanted: Id) -> String {
        self.changed(wanted).map_or_else(
            || self.settings.string(wanted),
            |parsed| String::from_utf8_lossy(&parsed.text).into_owned(),
        )
    }

    fn changed(&self, wanted: Id) -> Option<&Parsed> {
        self.changes.iter().find(|(id, _)| *id == wanted).map(|(_, parsed)| parsed)
    }

    /// Where the ports of a door are to be open; none for a door that is no port.
    pub fn meant(&self, door: &'static Door) -> impl Iterator<Item = Meant> {
        let (ports, bind) = match door.place {
            PlaceSettings::Tcp { port, tls_port, bind, .. } => ([Some(port), tls_port], self.string(bind)),
            PlaceSettings::Udp { port, bind } => ([Some(port), None], self.string(bind)),
            PlaceSettings::Unix { .. } => ([None, None], String::new()),
        };
        let ports = ports.map(|port| port.map(|port| self.number(port) as u16));
        let meant = move |(port, tls): (Option<u16>, bool)| {
            Some(Meant { door, tls, port: port?, bind: bind.clone() })
        };
        ports.into_iter().zip([false, true]).filter_map(meant)
    }

    /// Where the ports are to be open that the changes move.
    pub fn moving(&self) -> Vec<Meant> {
        let before = After { changes: &[], ..*self };
        DOORS
            .iter()
            .flat_map(|door| self.meant(door).zip(before.meant(door)))
            .filter(|(meant, now)| meant != now)
            .map(|(meant, _)| meant)
            .collect()
    }
}

impl Meant {
    /// The addresses; none if the port is 0.
    ///
    /// # Errors
    /// A word that means none.
    pub fn places(&self) -> Result<Vec<Place>, Unmoved> {
        let Meant { door, tls, port, ref bind } = *self;
        let mut places = Vec::new();
        for word in bind.split_whitespace().filter(|_| port != 0) {
            let (optional, host) = word.strip_prefix('-').map_or((false, word), |host| (true, host));
            let found = resolve(host, port).map_err(|error| Unmoved::at(host, door, tls, &error))?;
            places.extend(found.into_iter().map(|address| Place { door, tls, address, optional }));
        }
        Ok(places)
    }
}

impl Place {
    /// Whether this is where the listener is, for clients of the same protocol.
    pub fn is_of(&self, listener: &Listener) -> bool {
        listener.door == self.door && listener.tls == self.tls && listener.name == self.address.to_string()
    }

    /// Whether this port is one that clients of another place would use.
    pub fn overlaps(&self, door: &Door, address: SocketAddr) -> bool {
        self.door.takes_datagrams() == door.takes_datagrams() && overlap(self.address, address)
    }
}

/// Whether two addresses want one port of one address. The families are apart: IPv6 sockets take IPv6 only.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port()
        && a.is_ipv4() == b.is_ipv4()
        && (a == b || a.is_unspecified() || b.is_unspecified())
}

/// Refuses addresses that overlap. Even where servers may share a port, two doors may not: the system would give a client
/// to either of them.
pub fn none_overlap(wanted: &[Place], shares: bool) -> Result<(), Unmoved> {
    for (number, place) in wanted.iter().enumerate() {
        let is_taken = |other: &&Place| {
            other.overlaps(place.door, place.address)
                && (!shares || (other.door, other.tls) != (place.door, place.tls))
        };
        if wanted[..number].iter().any(|other| is_taken(&other)) {
            return Err(Unmoved::of(place, &io::ErrorKind::AddrInUse.into()));
        }
    }
    Ok(())
}

/// Binds these addresses; where `shares` says so, beside other sockets that share the port, too.
///
/// # Errors
/// One line that says which address, why not, and what to do.
pub fn bind_places(
    places: &[Place],
    shares: impl Fn(&Place) -> bool,
    settings: &Configuration,
) -> Result<Vec<Listener>, Unmoved> {
    let mut listeners = Vec::new();
    for place @ Place { door, address, optional, .. } in places {
        let bound = if door.takes_datagrams() {
            check_datagrams(place, settings)?;
            bind_udp(place, shares(place))
        } else {
            bind_tcp(place, shares(place), settings)
        };
        match bound {
            Ok(listener) => listeners.push(listener),
            Err(error) if *optional && is_absent(&error) => {
                tracing::debug!(%address, "this address is not there")
            }
            Err(error) => return Err(Unmoved::of(place, &error)),
        }
    }
    Ok(listeners)
}

/// Why a listener does not move, and whose it is.
pub struct Unmoved {
    pub failure: Failure,
    pub door: &'static Door,
    pub tls: bool,
}

impl Unmoved {
    pub fn of(place: &Place, error: &io::Error) -> Unmoved {
        Unmoved::at(&place.address.to_string(), place.door, place.tls, error)
    }

    fn at(place: &str, door: &'static Door, tls: bool, error: &io::Error) -> Unmoved {
        Unmoved { failure: Failure::listen(place, door, tls, error), door, tls }
    }
}

/// The addresses that a word of `bind` means; `*` is every IPv4 address and `::*` or `*` in brackets every IPv6 one.
fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let host = match host {
        "*" => "0.0.0.0",
        "::*" => "::",
        other => other,
    };
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// Whether this host simply has no such address or family.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || matches!(
            error.raw_os_error(),
            Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOPROTOOPT)
        )
}

/// Refuses a UDP port that strangers could use: datagrams bring no password and may name a false sender.
fn check_datagrams(place: &Place, settings: &Configuration) -> Result<(), Unmoved> {
    let Place { door, tls, address, .. } = *place;
    let why = if !settings.users().now().is_open() {
        "the default user is off or has a password, and UDP has no log-in; let it in without one"
    } else if settings.is_on(PROTECTED) && is_foreign(address) {
        "protected-mode is on, and other hosts reach this address; name loopback addresses in --memcache-bind, set --protected-mode no"
    } else {
        return Ok(());
    };
    Err(Unmoved { failure: Failure::datagrams(address, door, why), door, tls })
}

/// Two UDP sockets with SO_REUSEADDR could take each other's datagrams, so this one has none.
fn bind_udp(place: &Place, shares: bool) -> io::Result<Listener> {
    let Place { door, tls, address, .. } = *place;
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(shares)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(Listener { door, tls, socket, path: None, name: address.to_string() })
}

fn bind_tcp(place: &Place, shares: bool, settings: &Settings) -> io::Result<Listener> {
    let Place { door, tls, address, .. } = *place;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(shares)?;
    socket.bind(&address.into())?;
    listen(&socket, settings)?;
    Ok(Listener { door, tls, socket, path: None, name: address.to_string() })
}

/// Listens on a path. The socket gets its name when it has its permissions and listens, so no client finds it earlier. If
/// ports may be shared, it takes the name from the server that it replaces, whose clients stay connected.
fn bind_unix(door: &'static Door, path: &Path, mode: u32, settings: &Settings) -> io::Result<Listener> {
    let shares = settings.is_on(SHARE);
    let address = SockAddr::unix(path)?;
    // A socket that a killed server left behind is replaced. A socket that accepts is another server's, and any other file is not ours.
    if let Ok(found) = std::fs::symlink_metadata(path) {
        let accepts = || {
            Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|socket| socket.connect(&address)).is_ok()
        };
        if !found.file_type().is_socket() || !shares && accepts() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
    }
    let nameless = path.with_file_name(format!(".{}", std::process::id()));
    // A file of an earlier process with this number.
    let _ = std::fs::remove_file(&nameless);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(&nameless)?)?;
    let named = name_socket(&socket, &nameless, path, mode, settings);
    if named.is_err() {
        // The reason matters more than a file that could not be removed either.
        let _ = std::fs::remove_file(&nameless);
    }
    Ok(Listener {
        door,
        tls: false,
        socket,
        path: Some((path.to_owned(), named?)),
        name: path.display().to_string(),
    })
}

/// Gives a bound socket its permissions and its name. Returns which file it is, by device and number.
fn name_socket(
    socket: &Socket,
    nameless: &Path,
    path: &Path,
    mode: u32,
    settings: &Settings,
) -> io::Result<(u64, u64)> {
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
    /// The same listener for another thread, which cleans nothing up.
    ///
    /// # Errors
    /// Those of the system: too many open files.
    pub fn share(&self) -> io::Result<Listener> {
        Ok(Listener {
            door: self.door,
            tls: self.tls,
            socket: self.socket.try_clone()?,
            path: None,
            name: self.name.clone(),
        })
    }

    /// Stops accepting, for all threads. A thread that reads datagrams there sees their end, and sends the last replies.
    pub fn rest(&self) {
        let how =
            if self.door.takes_datagrams() { std::net::Shutdown::Read } else { std::net::Shutdown::Both };
        if let Err(error) = self.socket.shutdown(how) {
            tracing::debug!(%error, listener = self.name, "closed already");
        }
    }

    /// The client that stands for all that send datagrams there; it is counted among the clients. None where clients connect.
    ///
    /// # Errors
    /// Those of the system: too many open files.
    pub fn guests(&self, clients: &Clients) -> io::Result<Option<Arrival>> {
        if !self.door.takes_datagrams() {
            return Ok(None);
        }
        let socket = self.socket.try_clone()?;
        let port = self.address().map_or(0, |address| address.port());
        clients.count(self.door);
        let descriptor = socket.as_raw_fd();
        let origin = Origin {
            door: self.door,
            address: format!("udp:{port}"),
            local_address: self.name.clone(),
            descriptor,
            tls: false,
        };
        Ok(Some(Arrival { socket, origin }))
    }

    /// Its address, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Sets whether sockets of the same owner may be bound beside it, if they allow it, too.
    pub fn share_port(&self, shares: bool) {
        if let Err(error) = self.socket.set_reuse_port(shares) {
            tracing::error!(%error, listener = self.name, "its port cannot be shared, or is shared still");
        }
    }

    /// Accepts the clients that wait, no more than `most`; returns whether there may be more. A client that is not admitted
    /// is told why, and its connection is closed.
    ///
    /// # Errors
    /// Those of the system, except that no client waits.
    pub fn accept(
        &self,
        admission: &Admission<'_>,
        most: usize,
        arrived: &mut Vec<Arrival>,
    ) -> io::Result<bool> {
        let Admission { settings, table, clients, clients_max } = *admission;
        for _ in 0..most {
            let (socket, peer) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // The peer gave up while it waited.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR)) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            socket.set_nonblocking(true)?;
            let guarded = settings.is_on(PROTECTED) && settings.users().now().default_user().open;
            if guarded && peer.as_socket().is_some_and(is_foreign) {
                self.refuse(&socket, Refusal::Protected);
            } else if !clients.admit(self.door, clients_max) {
                table.count(Counter::Refusals, 1);
                self.refuse(&socket, Refusal::Full);
            } else {
                let origin = self.origin(&socket, &peer);
                arrived.push(Arrival { socket, origin });
            }
        }
        Ok(true)
    }

    /// Tells a client why it is not served. If its socket takes no bytes, there is nothing more to do.
    fn refuse(&self, socket: &Socket, why: Refusal) {
        // Before a handshake it could not read the words, as in Redis.
        if self.tls {
            return;
        }
        if let Err(error) = socket.send(refusal(self.door.protocol, why)) {
            tracing::debug!(%error, door = self.door.name, "a refused client was not told why");
        }
    }

    /// Where a client comes from. The socket itself does not know the path, which it got after it was bound.
    fn origin(&self, socket: &Socket, peer: &SockAddr) -> Origin {
        let (door, tls, descriptor) = (self.door, self.tls, socket.as_raw_fd());
        let local = socket.local_addr().ok();
        match peer.as_socket() {
            Some(address) => {
                let local_address = local
                    .and_then(|local| local.as_socket())
                    .map_or(String::new(), |local| local.to_string());
                Origin { door, address: address.to_string(), local_address, descriptor, tls }
            }
            None => {
                let path = format!("{}:0", self.name);
                Origin { door, address: path.clone(), local_address: path, descriptor, tls }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A socket that another server has put in its place stays.
        let is_ours = |(path, file): &&(PathBuf, (u64, u64))| {
            std::fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == *file)
        };
        if let Some((path, _)) = self.path.as_ref().filter(is_ours)
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(%error, path = %path.display(), "the socket cannot be removed");
        }
    }
}

/// Whether an address is that of another host, or one where other hosts come in. An IPv4 address may be mapped to IPv6.
pub fn is_foreign(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
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
            &TcpKeepalive::new()
                .with_time(Duration::from_secs(keepalive_seconds))
                .with_interval(third)
                .with_retries(3),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_hosts_are_foreign() {
        let foreign = |address: &str| is_foreign(address.parse().expect("an address"));
        assert!(
            !foreign("127.0.0.1:1")
                && !foreign("127.9.9.9:1")
                && !foreign("[::1]:1")
                && !foreign("[::ffff:127.0.0.1]:1")
        );
        assert!(foreign("192.0.2.1:1") && foreign("[2001:db8::1]:1") && foreign("[::ffff:192.0.2.1]:1"));
        assert!(foreign("0.0.0.0:1") && foreign("[::]:1"));
    }
}
