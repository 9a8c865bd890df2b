//! What a process listens on. CONFIG SET may change it while clients come: all threads watch all doors, and look at
//! [`Doors::version`] once a turn to see whether theirs are still those of the process.
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polder_commands::settings::Settings;

use crate::listener::{Listener, Place, bind_places, places};
use crate::server::Failure;

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

    /// Listens at these addresses in place of those of now; Unix sockets stay. Whoever waits at a door that closes is turned away, as in Redis.
    ///
    /// # Errors
    /// Where it cannot listen; then the doors are those of before.
    pub fn move_to(&self, port: u16, bind: &str, settings: &Settings) -> Result<(), Failure> {
        let wanted = places(port, bind)?;
        let mut listeners = self.lock();
        // Whom a closing door wakes shall see that it was ours to close.
        self.version.fetch_add(1, Ordering::AcqRel);
        let stays = |listener: &Listener| listener.is_local() || wanted.iter().any(|place| place.address.to_string() == listener.name);
        let (mut kept, left): (Vec<Listener>, Vec<Listener>) = listeners.drain(..).partition(stays);
        // First, since one of them may be in the way: a socket of all addresses is in that of each.
        left.iter().for_each(Listener::rest);
        let is_new = |place: &Place| !kept.iter().any(|listener| listener.name == place.address.to_string());
        let missing: Vec<Place> = wanted.into_iter().filter(is_new).collect();
        let bound = bind_places(&missing, settings);
        match bound {
            Ok(new) => kept.extend(new),
            Err(failure) => {
                left.iter().for_each(|listener| listener.go_on(settings));
                kept.extend(left);
                *listeners = kept;
                return Err(failure);
            }
        }
        *listeners = kept;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
