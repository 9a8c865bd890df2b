//! What a process listens on. CONFIG SET may change it while clients come: all threads watch all doors, and look at
//! [`Doors::version`] once a turn to see whether theirs are still those of the process.
//!
//! - **D1** Who goes elsewhere holds the doors' lock from the look at the settings until they say the new place. So of two clients who change `port`
//!   and `bind` at the same time the second goes on from where the first has come to, and settings and doors are the same whenever nobody is at it.
//! - **D2** The new doors are open before an old one closes. Where one is in the way of another (all addresses of a port, and one of them) they share
//!   the port for a moment, after which Linux lets servers of the same user that ask for a shared port join them until all doors of that port have
//!   closed. So there is no way back that could fail: what cannot be bound has changed nothing.
//! - **D3** An old door closes when nobody waits at it, for all threads at once. Whoever comes between that look and the closing is turned away, as all
//!   are in Redis.
//! - **D4** Who ends does not move, and what has moved in his last turn is closed with the rest.
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polder_commands::session::is_listening_at;
use polder_commands::settings::{Id, Settings, id};

use crate::host::Process;
use crate::listener::{BIND, Listener, PORT, Place, SHARE, bind_places, places};
use crate::server::Failure;

const MAXCLIENTS: Id = id("maxclients");

/// The doors of a process; here also so that a Unix socket's path goes with the server.
#[derive(Default)]
pub struct Doors {
    listeners: Mutex<Vec<Listener>>,
    version: AtomicU64,
}

impl Doors {
    /// The doors that a process begins with.
    pub fn of(listeners: Vec<Listener>) -> Doors {
        Doors { listeners: Mutex::new(listeners), version: AtomicU64::new(1) }
    }

    /// Another number whenever the doors are others.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The doors for one more thread, and which version they are.
    ///
    /// # Errors
    /// Those of the system: too many open files.
    pub fn share(&self) -> io::Result<(u64, Vec<Listener>)> {
        let listeners = self.lock();
        let shared = listeners.iter().map(Listener::share).collect::<io::Result<Vec<_>>>()?;
        Ok((self.version(), shared))
    }

    /// Their addresses and paths.
    pub fn names(&self) -> Vec<String> {
        self.lock().iter().map(|listener| listener.name.clone()).collect()
    }

    /// Closes them all.
    pub fn close(&self) {
        self.lock().clear();
    }

    /// Listens at another port, or at other addresses (`None`: as the settings say), in place of those of now, and has `settle` say so in the settings.
    /// Unix sockets stay. Answers whether anything is different then.
    ///
    /// # Errors
    /// Where it cannot listen, or the process ends; then nothing has changed.
    pub fn move_to(&self, port: Option<u16>, bind: Option<&str>, process: &Process, settle: &mut dyn FnMut()) -> Result<bool, Failure> {
        let settings = &process.settings;
        // A name may take its time: what it means is asked before anybody can be kept up by that, and again only if another move has come first.
        let meant = || (port.unwrap_or_else(|| settings.number(PORT) as u16), bind.map_or_else(|| settings.string(BIND), str::to_owned));
        let asked = meant();
        let mut wanted = places(asked.0, &asked.1);
        // D1: from the settings of now to those that follow.
        let mut listeners = self.lock();
        if is_listening_at(settings, port, bind) {
            settle();
            return Ok(false);
        }
        let now = meant();
        if now != asked {
            wanted = places(now.0, &now.1);
        }
        let wanted = wanted?;
        // D4.
        if process.is_stopping() {
            return Err(Failure::ending());
        }
        if !settings.is_on(SHARE) {
            none_overlap(&wanted)?;
        }
        let stays = |listener: &Listener| listener.is_local() || wanted.iter().any(|place| place.address.to_string() == listener.name);
        let is_new = |place: &&Place| !listeners.iter().any(|listener| listener.name == place.address.to_string());
        let missing: Vec<Place> = wanted.iter().filter(is_new).cloned().collect();
        let left: Vec<&Listener> = listeners.iter().filter(|listener| !stays(listener)).collect();
        let new = bind_beside(&left, &missing, settings)?;
        // D3: whom a closing door wakes shall see that it was ours to close.
        self.version.fetch_add(1, Ordering::AcqRel);
        let (mut kept, left): (Vec<Listener>, Vec<Listener>) = listeners.drain(..).partition(stays);
        kept.extend(new);
        *listeners = kept;
        settle();
        left.iter().for_each(|listener| empty(listener, process));
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two addresses want one port of one address. The families are apart: IPv6 sockets take IPv6 only.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && a.is_ipv4() == b.is_ipv4() && (a == b || a.is_unspecified() || b.is_unspecified())
}

/// Refuses addresses of which one is in another's way, as a start with them would be.
fn none_overlap(wanted: &[Place]) -> Result<(), Failure> {
    for (number, place) in wanted.iter().enumerate() {
        if wanted[..number].iter().any(|other| overlap(other.address, place.address)) {
            return Err(Failure::listen(&place.address.to_string(), &io::ErrorKind::AddrInUse.into()));
        }
    }
    Ok(())
}

/// Binds addresses beside doors that are about to close (D2).
fn bind_beside(left: &[&Listener], missing: &[Place], settings: &Settings) -> Result<Vec<Listener>, Failure> {
    let shares = settings.is_on(SHARE);
    let addresses: Vec<SocketAddr> = left.iter().filter_map(|listener| listener.address()).collect();
    let is_in_the_way = |place: &Place| addresses.iter().any(|address| overlap(*address, place.address));
    if shares || !missing.iter().any(is_in_the_way) {
        return bind_places(missing, |_| shares, settings);
    }
    let left = || {
        left.iter().filter(|listener| listener.address().is_some_and(|address| missing.iter().any(|place| overlap(address, place.address))))
    };
    left().for_each(|listener| listener.share_port(true));
    let bound = bind_places(missing, is_in_the_way, settings);
    // For no longer than that: a server that is to have its port for itself would find it shared.
    left().copied().chain(bound.iter().flatten()).for_each(|listener| listener.share_port(false));
    bound
}

/// Lets in who waits at a door, and closes it for all threads (D3).
fn empty(listener: &Listener, process: &Process) {
    let mut arrived = Vec::new();
    let accepted = listener.accept_all(process, process.settings.number(MAXCLIENTS) as usize, &mut arrived);
    // A server that ends rests its doors itself.
    if let Err(error) = accepted.or_else(|error| if process.is_stopping() { Ok(()) } else { Err(error) }) {
        tracing::warn!(%error, listener = listener.name, "some clients who waited there are turned away");
    }
    listener.rest();
    arrived.into_iter().for_each(|arrival| process.hand_over(arrival));
}
