//! The threads that feed replicas: each has a connection that has left its event loop.
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use polder_calls::settings::id;
use polder_engine::Memory;
use polder_runtime::configuration::Configuration;
use polder_runtime::replication::feed::{Feed, Link};
use polder_runtime::replication::{Replica, SyncCounts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

/// The feeds of a process.
#[derive(Default)]
pub struct Feeds {
    pub counts: Arc<SyncCounts>,
    stops: Arc<AtomicBool>,
    threads: Mutex<Vec<(Socket, JoinHandle<()>)>>,
}

/// A connection with what its client has asked for.
pub struct Handover {
    pub socket: Socket,
    pub replica: Box<Replica>,
    pub client: u64,
    pub peer: String,
}

/// The socket of a replica, which does not wait by itself, and how long it is waited for where it takes nothing.
struct ReplicaSocket {
    socket: Socket,
    patience: Timespec,
}

impl Write for ReplicaSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&self.socket).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let mut awaited = [PollFd::new(&self.socket, PollFlags::OUT)];
            if poll(&mut awaited, Some(&self.patience))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Link for ReplicaSocket {
    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(bytes)
    }
}

impl Feeds {
    /// Begins to feed a replica.
    pub fn begin(&self, memory: &Arc<Memory>, settings: &Arc<Configuration>, handover: Handover) {
        let (memory, settings) = (memory.clone(), settings.clone());
        let (counts, stops) = (self.counts.clone(), self.stops.clone());
        let client = handover.client;
        let begun = handover.socket.try_clone().and_then(|other| {
            let work = move || run(&memory, &settings, &counts, &stops, handover);
            Ok((other, std::thread::Builder::new().name("polder-feed".into()).spawn(work)?))
        });
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|(_, thread)| !thread.is_finished());
        match begun {
            Ok(begun) => threads.push(begun),
            Err(error) => {
                tracing::error!(%error, client, "closed: no thread can be had that feeds the replica")
            }
        }
    }

    /// Ends all feeds, when they have sent what was committed before, or after a moment.
    pub fn end(&self) {
        self.stops.store(true, Ordering::Release);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for (socket, thread) in threads {
            // A feed looks at least each second; one that waits for its replica to take something does not.
            if !settles(&thread) {
                let _ = socket.shutdown(Shutdown::Both);
            }
            if thread.join().is_err() {
                tracing::error!("a thread that fed a replica has panicked");
            }
        }
    }
}

/// Waits a moment for a thread's end.
fn settles(thread: &JoinHandle<()>) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        thread.is_finished()
    })
}

fn run(
    memory: &Memory,
    settings: &Configuration,
    counts: &SyncCounts,
    stops: &AtomicBool,
    handover: Handover,
) {
    let Handover { socket, replica, client, peer } = handover;
    tracing::info!(client, peer, port = replica.port, "a replica asks for the data");
    let feed = Feed { table: memory.table(), settings, counts, stops, client, peer };
    let seconds = settings.number(const { id("repl-timeout") }).max(1);
    let mut link = ReplicaSocket { socket, patience: Timespec { tv_sec: seconds, tv_nsec: 0 } };
    match feed.run(&replica, &mut link) {
        Ok(()) => tracing::info!(client, "the feed of a replica ends with the server"),
        Err(why) => tracing::warn!(client, why, "the feed of a replica has ended"),
    }
    let _ = link.socket.shutdown(Shutdown::Both);
}
