//! Locks within a process.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a poisoned lock guards is a count: still good enough to show.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
