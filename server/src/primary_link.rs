//! The thread that follows the primary of a memory that is a replica, or is about to become one by FAILOVER; or stands by while another process does.
//!
//! One of all servers of a memory has the link (`polder_shm::link`); the others look every [`STAND_BY`] whether it is alive, and one of them goes on where
//! it was.
use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polder_calls::settings::{Id, id};
use polder_engine::{Memory, Table};
use polder_replica::face::PrimaryFace;
use polder_replica::link::{End, Follower, show_all};
use polder_replica::primary::{self, Primary};
use polder_replica::{failover, pause};
use polder_runtime::configuration::Configuration;
use polder_runtime::locks::lock;
use polder_runtime::session::{Client, Session};
use polder_shm::Role;
use socket2::Socket;

use crate::filter::Filter;
use crate::listener::After;
use crate::replica_link::ReplicaLink;
use crate::standby::STAND_BY;
use crate::tls;

const REPLICAOF: Id = id("replicaof");
const REPL_TIMEOUT: Id = id("repl-timeout");
const TLS: Id = id("tls-replication");

/// The time from one attempt to the next. A link that has held for longer is tried again at once.
const RETRY: Duration = Duration::from_secs(1);
/// The longest time that an address is tried.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The thread, where there is one.
#[derive(Default)]
pub struct PrimaryLink {
    stops: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The setting `replicaof` has been looked at.
    is_begun: AtomicBool,
    /// The memory was a replica when it was last looked at.
    was_replica: AtomicBool,
    connection: Arc<Mutex<Option<Connected>>>,
}

/// The connection of the link: its face, and another handle of its socket.
struct Connected {
    face: Arc<PrimaryFace>,
    socket: Socket,
}

impl PrimaryLink {
    /// Starts the thread if the memory is a replica, or a failover runs, and no thread of this process follows. Returns true if it has become a replica since
    /// the last call.
    pub fn attend(&self, memory: &Arc<Memory>, settings: &Arc<Configuration>) -> bool {
        let table = memory.table();
        if self.stops.load(Ordering::Acquire) {
            return false;
        }
        if !self.is_begun.swap(true, Ordering::AcqRel) {
            follow_as_set(table, settings);
        }
        if let Err(fault) = table.settle_role() {
            tracing::warn!(%fault, "a change of the role is not at its end; it is tried again");
        }
        let is_replica = table.role().is_replica();
        let has_become = is_replica && !self.was_replica.swap(is_replica, Ordering::AcqRel);
        if is_replica || is_failing_over(table) {
            self.start(memory, settings);
        }
        if !is_replica {
            self.was_replica.store(false, Ordering::Release);
        }
        has_become
    }

    fn start(&self, memory: &Arc<Memory>, settings: &Arc<Configuration>) {
        let mut thread = lock(&self.thread);
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let candidate = Candidate {
            memory: memory.clone(),
            settings: settings.clone(),
            stops: self.stops.clone(),
            connection: self.connection.clone(),
        };
        match std::thread::Builder::new().name("polder-link".into()).spawn(move || candidate.run()) {
            Ok(begun) => *thread = Some(begun),
            Err(error) => {
                tracing::error!(%error, "no thread can be had that follows the primary; trying again")
            }
        }
    }

    /// The primary as a client of this process, if it follows one.
    pub fn client(&self) -> Option<Client> {
        lock(&self.connection).as_ref().and_then(|connected| connected.face.client())
    }

    /// Closes the connection to the primary; returns whether it has this number. The link goes on where it was.
    pub fn kill(&self, client: u64) -> bool {
        let connection = lock(&self.connection);
        let found = connection.as_ref().filter(|connected| connected.face.id() == client);
        found.is_some_and(|connected| connected.socket.shutdown(Shutdown::Both).is_ok())
    }

    /// Ends the thread. Another server of the memory goes on where it was.
    pub fn end(&self) {
        self.stops.store(true, Ordering::Release);
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that followed the primary has panicked");
        }
    }
}

/// Makes a memory a replica that has always been a primary, as the setting says. Later changes of its role are its own.
fn follow_as_set(table: &Table, settings: &Configuration) {
    let value = settings.string(REPLICAOF);
    let Some((host, port)) = value.rsplit_once(' ').filter(|_| table.role().is_first()) else { return };
    let Ok(port) = port.parse() else { return };
    if let Err(stop) = primary::follow(table, host, port) {
        tracing::error!(%stop, "the memory cannot follow {value}: give REPLICAOF when that has ended");
    }
}

fn is_failing_over(table: &Table) -> bool {
    // A record that cannot be read now is read again soon.
    failover::find(table).is_ok_and(|found| found.is_some())
}

/// The means of the thread.
struct Candidate {
    memory: Arc<Memory>,
    settings: Arc<Configuration>,
    stops: Arc<AtomicBool>,
    connection: Arc<Mutex<Option<Connected>>>,
}

impl Candidate {
    fn is_over(&self, role: Role) -> bool {
        let table = self.memory.table();
        self.stops.load(Ordering::Acquire) || table.segment().removed() || table.role() != role
    }

    fn run(&self) {
        let table = self.memory.table();
        let Ok(seat) = table.seat() else {
            return tracing::error!("no seat is free for the thread that follows the primary; trying again");
        };
        let scripting = polder_engine::scripting(&self.settings);
        let mut told = String::new();
        loop {
            let role = table.role();
            if self.is_over(role) || !role.is_replica() && !is_failing_over(table) {
                break;
            }
            if !table.segment().link().claim(&seat) {
                std::thread::sleep(STAND_BY);
                continue;
            }
            if !role.is_replica() {
                if let Err(stop) = failover::drive(table, &|| self.is_over(role)) {
                    tracing::warn!(%stop, "a failover cannot go on; it is tried again");
                    std::thread::sleep(RETRY);
                }
                continue;
            }
            let mut failures = 0;
            while !self.is_over(role) {
                let (before, began) = (table.log().range().1, Instant::now());
                let end = self.follow(role, &scripting);
                let is_unable = matches!(end, End::Unable(_));
                let (why, is_stuck) = match end {
                    End::Over => break,
                    End::Broken(why) | End::Unable(why) => (why, false),
                    End::Stuck(why) => (why, true),
                };
                if let Err(stop) = primary::tell_trouble(table, Some(&why)) {
                    tracing::warn!(%stop, "why the link is down cannot be told in the memory");
                }
                if told != why {
                    tracing::warn!(why, "the link to the primary is down; trying again");
                    told = why;
                }
                if !is_stuck || table.log().range().1 != before {
                    failures = 0;
                }
                if is_unable {
                    // While it rests, another server may take the link.
                    table.segment().link().release(&seat);
                }
                let retry = RETRY.saturating_sub(began.elapsed());
                self.rest(role, if is_stuck { pause::after(failures) } else { retry });
                if is_unable {
                    break;
                }
                failures += u32::from(is_stuck);
            }
        }
        table.segment().link().release(&seat);
    }

    /// Sleeps, unless the link is to end or to follow another primary.
    fn rest(&self, role: Role, pause: Duration) {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.is_over(role) {
            std::thread::sleep(STAND_BY);
        }
    }

    /// Follows the primary until the connection ends.
    fn follow(&self, role: Role, scripting: &polder_runtime::scripting::Scripting) -> End {
        let table = self.memory.table();
        // A link that has died may have committed something.
        table.segment().recover_dead();
        show_all(table);
        let found = match primary::find(table) {
            Ok(Some(primary)) => primary,
            Ok(None) => return "the memory has no address of a primary: give REPLICAOF again".into(),
            Err(stop) => return stop.into(),
        };
        let goes_on =
            if found.takes_over { failover::goes_on(table) } else { failover::forget(table).map(|()| true) };
        match goes_on {
            Ok(true) => {}
            Ok(false) => return "the failover has been given up".into(),
            Err(stop) => return stop.into(),
        }
        let filter = match self.filter(&found) {
            Ok(filter) => filter,
            Err(why) => return End::Unable(why),
        };
        let socket = match self.connect(&found) {
            Ok(socket) => socket,
            Err(error) => return format!("{}:{}: {error}", found.host, found.port).into(),
        };
        let face = match self.show(&socket) {
            Ok(face) => face,
            Err(error) => return error.into(),
        };
        let mut link = ReplicaLink::new(socket, filter);
        let follower = Follower {
            table,
            settings: &self.settings,
            scripting,
            stops: &self.stops,
            primary: &found,
            role,
            face: &face,
        };
        let end = follower.run(&mut link);
        *lock(&self.connection) = None;
        link.end();
        end
    }

    /// Has CLIENT LIST show the connection, and CLIENT KILL find it.
    fn show(&self, socket: &Socket) -> io::Result<Arc<PrimaryFace>> {
        let address = |found: io::Result<socket2::SockAddr>| {
            found.map(|found| found.as_socket().map_or(String::new(), |address| address.to_string()))
        };
        let face = Arc::new(PrimaryFace::of(Client {
            id: polder_hub::next_client(self.memory.table()),
            address: address(socket.peer_addr())?,
            local_address: address(socket.local_addr())?,
            descriptor: socket.as_raw_fd(),
            ..Client::of(&Session::default(), 0)
        }));
        *lock(&self.connection) = Some(Connected { face: face.clone(), socket: socket.try_clone()? });
        Ok(face)
    }

    /// TLS to the primary, if the settings want it.
    fn filter(&self, primary: &Primary) -> Result<Option<Box<Filter>>, String> {
        if !self.settings.is_on(TLS) {
            return Ok(None);
        }
        let after = After { settings: &self.settings, changes: &[] };
        tls::filter_to(&after, &primary.host).map(|filter| Some(Box::new(filter)))
    }

    fn connect(&self, primary: &Primary) -> io::Result<Socket> {
        let timeout = Duration::from_secs(self.settings.number(REPL_TIMEOUT).max(1) as u64).min(CONNECT_MAX);
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (primary.host.as_str(), primary.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    return Ok(stream.into());
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}
