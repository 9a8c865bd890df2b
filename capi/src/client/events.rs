//! Channels that a client hears, by callbacks.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Poll, Waker};

use ::polder_client::{Client, Event, Subscription, Value};

use super::{HANDLES, failure, polder_client, remote_of};
use crate::reply::{Kept, polder_reply};
use crate::status::polder_status::{self, POLDER_CLOSED};
use crate::status::{Done, Failure, guarded, misuse};
use crate::text::{give, polder_text, words};

/// Names are channels.
pub const POLDER_CHANNELS: u32 = 0;
/// Names are patterns of channels (`news.*`).
pub const POLDER_PATTERNS: u32 = 1;
/// Names are shard channels (SPUBLISH).
pub const POLDER_SHARDS: u32 = 2;

/// Names that a client hears.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_subscription {
    pub handle: u64,
}

/// What a subscription hears.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum polder_event {
    /// The server has confirmed all names: what is published from now on is heard.
    POLDER_READY = 0,
    /// A message: `reply` is an array of its channel, the pattern that matched (or null), and its payload.
    POLDER_MESSAGE = 1,
    /// Messages may have been lost before this: read again what they are about.
    POLDER_MISSED = 2,
    /// The server refused to subscribe: `reply` is its error.
    POLDER_UNHEARD = 3,
}

/// Is told what was heard; `reply` is NULL where the event has none, and lives until this returns.
pub type polder_event_heard =
    Option<unsafe extern "C" fn(context: *mut c_void, event: polder_event, reply: *const polder_reply)>;

/// A subscription, and what is told of it.
struct Feed {
    /// Held while its callback runs. It is only tried for, so that the callback may process (K2).
    subscription: Mutex<Subscription>,
    heard: unsafe extern "C" fn(*mut c_void, polder_event, *const polder_reply),
    context: *mut c_void,
    is_over: AtomicBool,
}
// SAFETY: C1, the header says that the callback runs in the thread that processes, and that the context must bear it.
unsafe impl Send for Feed {}
// SAFETY: the same; one thread at a time holds `subscription`, and only that one runs the callback.
unsafe impl Sync for Feed {}

impl Feed {
    /// Tells all that was heard; returns how much, or `None` in the child of a callback that forks.
    fn process(&self, waker: &Waker, is_parents: impl Fn() -> bool) -> Option<usize> {
        let mut subscription = match self.subscription.try_lock() {
            Ok(subscription) => subscription,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The thread that holds it goes on until nothing is left.
            Err(TryLockError::WouldBlock) => return Some(0),
        };
        let mut count = 0;
        while !self.is_over.load(Ordering::SeqCst)
            && let Poll::Ready(event) = subscription.poll_event(waker)
        {
            count += 1;
            self.tell(event);
            if is_parents() {
                return None;
            }
        }
        Some(count)
    }

    fn tell(&self, event: Event) {
        let (event, value) = match event {
            Event::Ready => (polder_event::POLDER_READY, None),
            Event::Missed => (polder_event::POLDER_MISSED, None),
            Event::Refused(text) => (polder_event::POLDER_UNHEARD, Some(Value::Error(text.into_bytes()))),
            Event::Message { channel, pattern, payload } => {
                let pattern = pattern.map_or(Value::Null, Value::Bulk);
                (
                    polder_event::POLDER_MESSAGE,
                    Some(Value::Array(vec![Value::Bulk(channel), pattern, Value::Bulk(payload)])),
                )
            }
        };
        let kept = value.map(Kept::value);
        let reply = kept.as_ref().map_or(std::ptr::null(), Kept::root);
        // SAFETY: C1, a function that takes these.
        unsafe { (self.heard)(self.context, event, reply) };
    }
}

/// The subscriptions of a client, by their handles.
#[derive(Default)]
pub(super) struct Feeds(Mutex<BTreeMap<u64, Arc<Feed>>>);

impl Feeds {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Feed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Tells what all of them have heard; returns how much, or `None` in the child of a callback that forks.
    pub(super) fn process(&self, waker: &Waker, is_parents: impl Fn() -> bool) -> Option<usize> {
        let feeds: Vec<Arc<Feed>> = self.lock().values().cloned().collect();
        let count = feeds.iter().map(|feed| feed.process(waker, &is_parents)).sum();
        if is_parents() {
            // The callback may have ended the subscription, which would be dropped here (K3).
            std::mem::forget(feeds);
        }
        count
    }

    fn end(&self, handle: u64) -> bool {
        let ended = self.lock().remove(&handle);
        ended.map(|feed| feed.is_over.store(true, Ordering::SeqCst)).is_some()
    }

    pub(super) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.lock());
        ended.values().for_each(|feed| feed.is_over.store(true, Ordering::SeqCst));
    }
}

fn subscribed(client: &Client, kind: u32, names: &[&[u8]]) -> Done<Subscription> {
    let subscription = match kind {
        POLDER_CHANNELS => client.subscribe(names),
        POLDER_PATTERNS => client.subscribe_patterns(names),
        POLDER_SHARDS => client.subscribe_shards(names),
        other => return misuse(&format!("there is no kind of subscription {other}")),
    };
    subscription.map_err(failure)
}

/// Hears channels, patterns or shard channels (`kind`), over a connection of their own that is made anew when it breaks.
/// `heard` runs in the thread that calls `polder_client_process` or `polder_client_wait`: first of all with POLDER_READY.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_subscribe(
    client: polder_client,
    kind: u32,
    count: usize,
    names: *const polder_text,
    heard: polder_event_heard,
    context: *mut c_void,
    subscription: *mut polder_subscription,
) -> polder_status {
    guarded(|| {
        let Some(heard) = heard else { return misuse("NULL where the callback should be") };
        if subscription.is_null() {
            return misuse("NULL where the subscription's handle should be written");
        }
        let remote = remote_of(client)?;
        let made = Mutex::new(subscribed(&remote.client, kind, &words(names, count)?)?);
        let handle = HANDLES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let feed = Feed { subscription: made, heard, context, is_over: AtomicBool::new(false) };
        remote.feeds.lock().insert(handle, Arc::new(feed));
        // What has come since is looked at by the next process, which makes later events wake the descriptor.
        remote.completions.waker().wake();
        give(subscription, polder_subscription { handle });
        Ok(())
    })
}

/// Ends a subscription. When this returns its callback runs no more, unless another thread is in it, or the callback calls.
#[unsafe(no_mangle)]
pub extern "C" fn polder_client_unsubscribe(
    client: polder_client,
    subscription: polder_subscription,
) -> polder_status {
    guarded(|| {
        let remote = remote_of(client)?;
        if !remote.feeds.end(subscription.handle) {
            return Err(Failure(POLDER_CLOSED, "ERR there is no such subscription: it has ended".into()));
        }
        remote.wake_waiting();
        Ok(())
    })
}
