//! The threads that feed replicas: each has a connection that has left its event loop.
use std::io::Write;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polder_engine::{Memory, Table};
use polder_replica::copies::Copies;
use polder_replica::face::Face;
use polder_replica::feed::Feed;
use polder_replica::records;
use polder_runtime::configuration::Configuration;
use polder_runtime::locks::lock;
use polder_runtime::session::{Client, Replica};
use socket2::Socket;

use crate::filter::Filter;
use crate::replica_link::ReplicaLink;

/// Feeds of a process, at most: the change log has as many slots for followers.
const FEEDS_MAX: usize = 63;
/// The patience of a process that ends with its feeds, and the pause between two looks.
const END_PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);
/// The period of looking for replicas that are gone.
const CLEAR_PERIOD_MS: u64 = 1_000;

/// The feeds of a process.
#[derive(Default)]
pub struct Feeds {
    /// Replicas that were closed because they were too far behind.
    pub limited: Arc<AtomicU64>,
    copies: Arc<Copies>,
    stops: Arc<AtomicBool>,
    running: Mutex<Vec<Running>>,
    /// Clients whose connections are about to come from their event loops, and whether they are to be closed.
    coming: Mutex<Vec<(Client, bool)>>,
    /// The next moment at which records of replicas that are gone are looked for, in milliseconds since the epoch.
    clears_ms: AtomicU64,
}

/// A connection with what its client has asked for.
pub struct Handover {
    pub socket: Socket,
    /// The layer of TLS, if there is one.
    pub filter: Option<Box<Filter>>,
    pub replica: Box<Replica>,
    pub face: Client,
    pub peer: String,
    /// Its user, and what it has sent behind its request.
    pub user: Vec<u8>,
    pub rest: Vec<u8>,
}

/// A feed that has begun: another handle of its socket, and its thread.
struct Running {
    face: Arc<Face>,
    socket: Socket,
    thread: JoinHandle<()>,
}

impl Feeds {
    /// A client's connection is about to come. From here on it is closed by [`Feeds::kill`], until [`Feeds::begin`] or [`Feeds::miss`].
    pub fn expect(&self, client: Client) {
        lock(&self.coming).push((client, false));
    }

    /// A connection that was expected does not come; returns whether it was to be closed.
    pub fn miss(&self, client: u64) -> bool {
        let mut coming = lock(&self.coming);
        let place = coming.iter().position(|(other, _)| other.id == client);
        place.is_some_and(|place| coming.swap_remove(place).1)
    }

    /// Begins to feed a replica that was expected.
    pub fn begin(&self, memory: &Arc<Memory>, settings: &Arc<Configuration>, handover: Handover) {
        let mut running = lock(&self.running);
        running.retain(|feed| !feed.thread.is_finished());
        let client = handover.face.id;
        let face = Arc::new(Face::of(handover.face.clone()));
        if running.len() >= FEEDS_MAX {
            // It is told why, if its socket takes that at once.
            let _ = (&handover.socket).write(
                b"-ERR this server feeds too many replicas: let some of them follow another replica\r\n",
            );
            return tracing::warn!(client, most = FEEDS_MAX, "closed: this server feeds too many replicas");
        }
        let (memory, settings) = (memory.clone(), settings.clone());
        let (limited, copies, stops) = (self.limited.clone(), self.copies.clone(), self.stops.clone());
        let begun = handover.socket.try_clone().and_then(|socket| {
            let shown = face.clone();
            let work = move || {
                let Handover { socket, filter, replica, peer, user, rest, .. } = handover;
                let (table, face) = (memory.table(), &*shown);
                let (settings, limited, copies, stops) = (&settings, &limited, &copies, &stops);
                let feed = Feed { table, settings, limited, copies, stops, face, peer, user, rest };
                run(&feed, &replica, ReplicaLink::new(socket, filter));
            };
            let thread = std::thread::Builder::new().name("polder-feed".into()).spawn(work)?;
            Ok(Running { face, socket, thread })
        });
        match begun {
            Ok(begun) => {
                // `kill` looks at those that are coming first: it has found this one there, or finds it here.
                if self.miss(client) {
                    let _ = begun.socket.shutdown(Shutdown::Both);
                }
                running.push(begun);
            }
            Err(error) => {
                tracing::error!(%error, client, "closed: no thread can be had that feeds the replica")
            }
        }
    }

    /// Closes the connection of a replica; returns whether there is one with this number.
    pub fn kill(&self, client: u64) -> bool {
        if let Some((_, closes)) = lock(&self.coming).iter_mut().find(|(other, _)| other.id == client) {
            *closes = true;
            return true;
        }
        let running = lock(&self.running);
        let feed = running.iter().find(|feed| feed.face.id() == client && !feed.thread.is_finished());
        feed.is_some_and(|feed| feed.socket.shutdown(Shutdown::Both).is_ok())
    }

    /// The replicas that are fed, or are about to be, as clients.
    pub fn clients(&self) -> Vec<Client> {
        // In this order, so that one that moves on meanwhile is seen.
        let mut clients: Vec<Client> = lock(&self.coming).iter().map(|(client, _)| client.clone()).collect();
        let running = lock(&self.running);
        let fed = running.iter().filter(|feed| !feed.thread.is_finished()).map(|feed| feed.face.client());
        for client in fed {
            clients.retain(|other| other.id != client.id);
            clients.push(client);
        }
        clients
    }

    /// Gives up what feeds that have ended have left: handles here, and records that hold the log. It does so once a second.
    pub fn attend(&self, table: &Table, now_ms: u64) {
        if now_ms < self.clears_ms.load(Ordering::Relaxed) {
            return;
        }
        self.clears_ms.store(now_ms + CLEAR_PERIOD_MS, Ordering::Relaxed);
        lock(&self.running).retain(|feed| !feed.thread.is_finished());
        if let Err(stop) = records::clear(table) {
            tracing::warn!(%stop, "replicas that are gone cannot be forgotten now; it is tried again");
        }
    }

    /// Ends all feeds, when they have sent what was committed before, or after [`END_PATIENCE`].
    pub fn end(&self) {
        self.stops.store(true, Ordering::Release);
        let running = std::mem::take(&mut *lock(&self.running));
        let end = Instant::now() + END_PATIENCE;
        while Instant::now() < end && !running.iter().all(|feed| feed.thread.is_finished()) {
            std::thread::sleep(PAUSE);
        }
        for feed in &running {
            // One that is gone already needs none.
            let _ = feed.socket.shutdown(Shutdown::Both);
        }
        for feed in running {
            if feed.thread.join().is_err() {
                tracing::error!("a thread that fed a replica has panicked");
            }
        }
    }
}

fn run(feed: &Feed<'_>, replica: &Replica, mut link: ReplicaLink) {
    let client = feed.face.id();
    tracing::info!(client, peer = feed.peer, port = replica.port, "a replica asks for the data");
    match feed.run(replica, &mut link) {
        Ok(()) => tracing::info!(client, "the feed of a replica ends with the server"),
        Err(why) => tracing::warn!(client, why, "the feed of a replica has ended"),
    }
    link.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_killed_on_its_way_to_a_feed_is_closed_there() {
        let feeds = Feeds::default();
        assert!(!feeds.kill(7), "it is not on its way yet");
        for id in [7, 8] {
            feeds.expect(Client { id, ..Client::default() });
        }
        assert_eq!(feeds.clients().iter().map(|client| client.id).collect::<Vec<_>>(), [7, 8]);
        assert!(feeds.kill(7));
        assert!(feeds.miss(7) && !feeds.miss(8));
        assert!(!feeds.kill(7) && !feeds.miss(7), "it was told once");
    }
}
