//! Drivers that are woken together: a program with an event loop of its own makes the calls of one turn first.
//!
//! Only what the program's own thread tells within [`Held::during`] is held: what drivers tell each other is never.
//!
//! Without this, the first call of a turn wakes the driver's thread, which writes it alone; the server then replies to it alone.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    /// Whether this thread makes calls whose drivers are woken later.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// A driver that has something to do.
pub(crate) trait Driver: Send + Sync {
    /// Does it here, or tells the driver's thread.
    fn go_on(&self);
}

/// The drivers of one client that have something to do and have not been told.
#[derive(Default)]
pub(crate) struct Held {
    drivers: Mutex<Vec<Arc<dyn Driver>>>,
}

impl Held {
    /// Makes calls whose drivers are woken by the next [`Held::release`].
    pub(crate) fn during<R>(make: impl FnOnce() -> R) -> R {
        struct Holding;
        impl Drop for Holding {
            fn drop(&mut self) {
                HOLDS.set(false);
            }
        }
        HOLDS.set(true);
        let _holding = Holding;
        make()
    }

    /// Keeps a driver's wake-up, if this thread holds them; returns whether it does.
    pub(crate) fn holds(&self, driver: impl FnOnce() -> Arc<dyn Driver>) -> bool {
        if HOLDS.get() {
            self.drivers.lock().unwrap_or_else(PoisonError::into_inner).push(driver());
        }
        HOLDS.get()
    }

    /// Lets all drivers go on that have something to do.
    pub(crate) fn release(&self) {
        let drivers = std::mem::take(&mut *self.drivers.lock().unwrap_or_else(PoisonError::into_inner));
        drivers.iter().for_each(|driver| driver.go_on());
    }
}
