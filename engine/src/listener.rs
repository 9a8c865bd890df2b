//! Subscriptions with a callback, on a thread of their own ([`Listener`]).
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use polder_base::Fault;
use polder_runtime::Host;
use polder_shm::fork;

use crate::Memory;
use crate::answer::Item;
use crate::caller::{Caller, Error};
use crate::presence::Presence;

/// A thread that receives the messages of a subscription and passes them to a callback. It ends when the listener is dropped, after a running
/// callback has returned.
///
/// ```
/// # let name = format!("shm:polder-doc-listener-{}", std::process::id());
/// # use polder_engine::{Caller, Item, Listener, Memory, Options};
/// # use std::sync::{Arc, mpsc};
/// # let memory = Arc::new(Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?);
/// let (sender, receiver) = mpsc::channel();
/// let listener = Listener::start(&memory, &["PSUBSCRIBE", "news.*"], move |message| {
///     let words: Vec<Vec<u8>> = message.items().into_iter().flatten().filter_map(Item::bytes).map(<[u8]>::to_vec).collect();
///     let _ = sender.send(words);
/// })?;
/// Caller::new(&memory).run(&["PUBLISH", "news.sport", "1:0"])?;
/// assert_eq!(receiver.recv()?, [&b"pmessage"[..], b"news.*", b"news.sport", b"1:0"]);
/// listener.stop();
/// # Memory::remove(&name)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Listener {
    memory: Arc<Memory>,
    client: u64,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    generation: u64,
}

impl Listener {
    /// Subscribes by a command (SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE, MONITOR, ...) and shows `heard` all that comes from then on, one at a time.
    /// When this returns, the subscription stands.
    ///
    /// # Errors
    /// What the command says; [`Error::Fault`] where there is no seat or thread left.
    pub fn start(
        memory: &Arc<Memory>,
        args: &[impl AsRef<[u8]>],
        mut heard: impl FnMut(Item<'_>) + Send + 'static,
    ) -> Result<Listener, Error> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_ref().to_vec()).collect();
        let stopping = Arc::new(AtomicBool::new(false));
        let (told, begun) = mpsc::sync_channel(1);
        let (own, stop) = (memory.clone(), stopping.clone());
        let listen = move || {
            let mut caller = Caller::new(&own);
            let subscribed = caller.run(&args).map(|_| caller.id());
            let goes_on = subscribed.is_ok();
            if told.send(subscribed).is_err() || !goes_on {
                return;
            }
            while !stop.load(Ordering::Acquire) {
                // Lost messages cannot be had again, and a caller that was killed hears nothing more.
                if let Err(Error::Closed) = caller.hear(Duration::from_secs(1), &mut heard) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("polder-listener".into()).spawn(listen);
        let thread =
            thread.map_err(|error| Fault::System(format!("no thread can be made to listen: {error}")))?;
        let client =
            begun.recv().map_err(|_| Fault::System("the thread that listens has ended".into()))??;
        Ok(Listener {
            memory: memory.clone(),
            client,
            stopping,
            thread: Some(thread),
            generation: fork::generation(),
        })
    }

    /// Ends it, as dropping it does. From within the callback it only says so, and the thread ends by itself.
    pub fn stop(self) {}
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A forked child has no such thread.
        if self.generation != fork::generation() {
            std::mem::forget(self.thread.take());
            return;
        }
        self.stopping.store(true, Ordering::Release);
        // It is woken, and told to end.
        Presence::of(&self.memory).kill(self.client);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A callback that has panicked has been reported by its own thread.
            let _ = thread.join();
        }
    }
}
