//! What goes on while a script of the thread runs: the poll and the connections, without the batch that is being executed.
use super::connections::Connections;
use super::poller::Poller;

/// The part of a thread that serves its clients.
pub struct Service {
    pub poller: Poller,
    pub connections: Connections,
}
