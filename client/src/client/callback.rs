//! A call whose end is told to a function, for programs that do not await.
//!
//! The waker of the call's slot is the function's keeper: woken, it looks whether the call has ended, and if so runs the function.
//!
//! Invariants:
//! 1. **B1** The function runs once: one thread at a time looks (the one that raised `wakes` from 0), and it takes the function out.
//! 2. **B2** No wake-up is lost: a thread that comes while another looks only raises `wakes`, and the other looks again.
//! 3. **B3** No lock of the client is held while the function runs. Wakers are woken without one anyway, since any program's may come.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

use super::call::Call;
use crate::error::Error;
use crate::value::FromValue;

struct Callback<T, F> {
    /// What is left once the function has run: nothing.
    waiting: Mutex<Option<(Call<T>, F)>>,
    /// Wake-ups since the last look; not 0 while a thread looks.
    wakes: AtomicUsize,
}

impl<T, F> Callback<T, F>
where
    T: FromValue + Send + 'static,
    F: FnOnce(Result<T, Error>) + Send + 'static,
{
    fn look(self: Arc<Self>) {
        // SYNC: the thread that raises it from 0 has the call for itself until it is 0 again; Release and Acquire hand the call on.
        if self.wakes.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let waker = Waker::from(Arc::clone(&self));
        loop {
            let seen = self.wakes.load(Ordering::Acquire);
            let Some((mut call, function)) =
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
            else {
                return;
            };
            if let Poll::Ready(outcome) = call.poll_value(&waker) {
                drop(call);
                let outcome = outcome.and_then(T::from_value);
                // The thread is the connection's: other calls' replies must not end with this function.
                if catch_unwind(AssertUnwindSafe(move || function(outcome))).is_err() {
                    tracing::error!("the callback of a call panicked");
                }
                // From here on `wakes` stays above 0: no thread looks again.
                return;
            }
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some((call, function));
            if self.wakes.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
        }
    }
}

impl<T, F> Wake for Callback<T, F>
where
    T: FromValue + Send + 'static,
    F: FnOnce(Result<T, Error>) + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl<T: FromValue + Send + 'static> Call<T> {
    /// Has `function` told how the call ended, once: in the thread or task that reads the connection's replies, or before this returns where the
    /// call has ended by then (shared memory, a kept reply). It may make calls, but must not wait for any, or for anything else: the replies of
    /// all other calls come behind it. The connection stays open until it has run.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polder_client::Error> {
    /// let client = polder_client::Client::connect_in_thread("redis://127.0.0.1:6379")?;
    /// client.db(0).incr::<i64>("visits").callback(|visits| println!("{visits:?}"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn callback(self, function: impl FnOnce(Result<T, Error>) + Send + 'static) {
        Arc::new(Callback { waiting: Mutex::new(Some((self, function))), wakes: AtomicUsize::new(0) }).look();
    }
}
