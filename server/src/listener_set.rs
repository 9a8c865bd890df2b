//! What a process listens on. CONFIG SET may change it while clients connect: all threads watch all listeners, and look at
//! [`ListenerSet::version`] once a turn to see whether theirs are still those of the process.
//!
//! - **D1** A move holds the lock of the set from its look at the settings until the settings name the new place. If two
//!   clients change `port` and `bind` at the same time, the second move starts from the result of the first. So settings
//!   and listeners agree whenever no move is under way.
//! - **D2** The new listeners are open before an old one closes. If a new address overlaps an old one (all addresses of a
//!   port, and one of them), both share the port for a moment. Linux then lets other servers of the same user that ask for
//!   a shared port join them, until all listeners of that port have closed. No step after the binding can fail, and a
//!   failed binding has changed nothing.
//!   Two doors never share a port: the system would give a client to either of them.
//! - **D3** An old listener closes when no client waits at it, for all threads at once. A client that arrives between that
//!   look and the closing is refused, as in Redis.
//!   What waits at a UDP port is read by the thread that serves it, which sees its end (`filter/datagrams.rs`).
//! - **D4** A process that ends does not move. Listeners that moved in its last turn are closed with the others.
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polder_calls::settings::{Id, id};
use polder_engine::Table;
use polder_protocols::doors::Spoken;
use polder_runtime::configuration::Configuration;
use polder_runtime::session::NewSetting;

use crate::clients::Clients;
use crate::failure::Failure;
use crate::listener::{
    Admission, After, Arrival, Listener, Meant, Place, SHARE, Unmoved, bind_places, none_overlap,
};
use crate::neighbours::Neighbours;

const ADVERTISED: Id = id("nats-advertise");

/// The listeners of a process. It also keeps the path of a Unix socket until the server ends.
#[derive(Default)]
pub struct ListenerSet {
    listeners: Mutex<Vec<Listener>>,
    version: AtomicU64,
    /// Servers of which clients of NATS are told.
    pub neighbours: Neighbours,
}

impl ListenerSet {
    /// The listeners that a process begins with.
    pub fn of(listeners: Vec<Listener>) -> ListenerSet {
        ListenerSet { listeners: Mutex::new(listeners), version: AtomicU64::new(1), ..ListenerSet::default() }
    }

    /// A number that changes whenever the listeners do.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The listeners at which clients connect, for one more thread, and their version.
    ///
    /// # Errors
    /// Those of the system: too many open files.
    pub fn share(&self) -> io::Result<(u64, Vec<Listener>)> {
        let listeners = self.lock();
        let connected = listeners.iter().filter(|listener| !listener.door.takes_datagrams());
        let shared = connected.map(Listener::share).collect::<io::Result<Vec<_>>>()?;
        Ok((self.version(), shared))
    }

    /// The clients that stand for all that send datagrams, one for each port; with a name, that of this listener alone.
    pub fn guests(&self, clients: &Clients, name: Option<&str>) -> Vec<Arrival> {
        let listeners = self.lock();
        let wanted = listeners.iter().filter(|listener| name.is_none_or(|name| listener.name == name));
        wanted.filter_map(|listener| guests_of(listener, clients)).collect()
    }

    /// Their addresses and paths.
    pub fn names(&self) -> Vec<String> {
        self.lock().iter().map(|listener| listener.name.clone()).collect()
    }

    /// Tells other processes where clients of NATS reach this one, and looks where they reach others.
    pub fn look_at_neighbours(&self, table: &Table, settings: &Configuration) {
        let listening = {
            let listeners = self.lock();
            let wanted =
                listeners.iter().filter(|listener| listener.door.protocol == Spoken::Nats && !listener.tls);
            wanted.filter_map(|listener| listener.address()).map(|address| address.to_string()).collect()
        };
        self.neighbours.look(table, &settings.string(ADVERTISED), listening);
    }

    /// The doors with their places, in the order of the table of doors.
    pub fn doors(&self) -> Vec<(String, String)> {
        let mut doors: Vec<(String, String)> = Vec::new();
        for listener in self.lock().iter() {
            let door = format!("{}{}", listener.door.name, if listener.tls { " with TLS" } else { "" });
            match doors.last_mut() {
                Some((last, places)) if *last == door => {
                    places.push(' ');
                    places.push_str(&listener.name);
                }
                _ => doors.push((door, listener.name.clone())),
            }
        }
        doors
    }

    /// Closes them all.
    pub fn close(&self) {
        self.lock().clear();
    }

    /// Moves the doors whose place the changes name, and lets `settle` change the settings. The listeners of other doors stay.
    ///
    /// # Errors
    /// When a new place cannot be bound, or the process ends. Then nothing has changed.
    pub fn move_to(
        &self,
        changes: &[NewSetting],
        admission: &Admission<'_>,
        is_ending: impl Fn() -> bool,
        settle: &mut dyn FnMut(),
    ) -> Result<Move, Unmoved> {
        let settings = admission.settings;
        let after = After { settings, changes };
        // Looking up a name may take time, so it is done before the lock is taken, and again only if another move came first.
        let asked = after.moving();
        let mut wanted = places(&asked);
        // D1: from the settings of now to those that follow.
        let mut listeners = self.lock();
        let moving = after.moving();
        let Some(first) = moving.first() else {
            settle();
            return Ok(Move::default());
        };
        if moving != asked {
            wanted = places(&moving);
        }
        let wanted = wanted?;
        // D4.
        if is_ending() {
            return Err(Unmoved { failure: Failure::ending(), door: first.door, tls: first.tls });
        }
        let moves = |listener: &Listener| {
            moving.iter().any(|meant| (meant.door, meant.tls) == (listener.door, listener.tls))
        };
        let stays =
            |listener: &Listener| !moves(listener) || wanted.iter().any(|place| place.is_of(listener));
        none_overlap(&wanted, settings.is_on(SHARE))?;
        none_taken(&wanted, listeners.iter().filter(|listener| !moves(listener)))?;
        let missing: Vec<Place> = wanted
            .iter()
            .filter(|place| !listeners.iter().any(|listener| place.is_of(listener)))
            .cloned()
            .collect();
        let left: Vec<&Listener> = listeners.iter().filter(|listener| !stays(listener)).collect();
        let new = bind_beside(&left, &missing, settings)?;
        // D3: a thread that a closing listener wakes must see that this process closed it.
        self.version.fetch_add(1, Ordering::AcqRel);
        let (mut kept, left): (Vec<Listener>, Vec<Listener>) = listeners.drain(..).partition(stays);
        let mut arrived: Vec<Arrival> =
            new.iter().filter_map(|listener| guests_of(listener, admission.clients)).collect();
        kept.extend(new);
        *listeners = kept;
        settle();
        left.iter().for_each(|listener| drain(listener, admission, &is_ending, &mut arrived));
        Ok(Move { moved: true, arrived })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of [`ListenerSet::move_to`].
#[derive(Default)]
pub struct Move {
    /// Whether the process listens elsewhere now.
    pub moved: bool,
    /// The clients that waited at closed listeners, to be served.
    pub arrived: Vec<Arrival>,
}

/// The addresses of several doors.
fn places(doors: &[Meant]) -> Result<Vec<Place>, Unmoved> {
    doors.iter().map(Meant::places).collect::<Result<Vec<_>, _>>().map(|places| places.concat())
}

/// Refuses addresses that overlap those of a door that stays.
fn none_taken<'l>(wanted: &[Place], mut staying: impl Iterator<Item = &'l Listener>) -> Result<(), Unmoved> {
    let taken = |listener: &Listener| {
        let address = listener.address()?;
        wanted.iter().find(|place| place.overlaps(listener.door, address))
    };
    staying.find_map(taken).map_or(Ok(()), |place| Err(Unmoved::of(place, &io::ErrorKind::AddrInUse.into())))
}

fn guests_of(listener: &Listener, clients: &Clients) -> Option<Arrival> {
    listener.guests(clients).unwrap_or_else(|error| {
        tracing::error!(%error, listener = listener.name, "datagrams that come there are not read");
        None
    })
}

/// Binds addresses beside listeners that are about to close (D2).
fn bind_beside(
    left: &[&Listener],
    missing: &[Place],
    settings: &Configuration,
) -> Result<Vec<Listener>, Unmoved> {
    let shares = settings.is_on(SHARE);
    let meets = |listener: &Listener, place: &Place| {
        listener.address().is_some_and(|address| place.overlaps(listener.door, address))
    };
    let overlaps = |place: &Place| left.iter().any(|listener| meets(listener, place));
    if shares || !missing.iter().any(overlaps) {
        return bind_places(missing, |_| shares, settings);
    }
    let left = || left.iter().filter(|listener| missing.iter().any(|place| meets(listener, place)));
    left().for_each(|listener| listener.share_port(true));
    let bound = bind_places(missing, overlaps, settings);
    // Sharing ends at once: a server that shall have its port for itself would find it shared.
    left().copied().chain(bound.iter().flatten()).for_each(|listener| listener.share_port(false));
    bound
}

/// Accepts the clients that wait at a listener, and closes it for all threads (D3).
fn drain(
    listener: &Listener,
    admission: &Admission<'_>,
    is_ending: impl Fn() -> bool,
    arrived: &mut Vec<Arrival>,
) {
    let accepted = match listener.door.takes_datagrams() {
        true => Ok(()),
        false => listener.accept(admission, usize::MAX, arrived).map(drop),
    };
    // A server that ends closes its listeners itself.
    if let Err(error) = accepted.or_else(|error| if is_ending() { Ok(()) } else { Err(error) }) {
        tracing::warn!(%error, listener = listener.name, "some clients that waited there are refused");
    }
    listener.rest();
}
