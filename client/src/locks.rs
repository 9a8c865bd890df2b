//! Locks within a process.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, a poisoned one as well: what these guard is whole at every moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
