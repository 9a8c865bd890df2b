//! What a client is, whatever protocol it speaks, and what the process around it offers.
use polder_base::Protocol;
use polder_table::Db;

/// One client's state.
#[derive(Default)]
pub struct Session {
    pub id: u64,
    pub db: Db,
    pub protocol: Protocol,
    pub name: Vec<u8>,
    pub authenticated: bool,
    /// Set by QUIT and by CLIENT KILL of oneself: the connection is closed once the reply is out.
    pub closing: bool,
}

/// What a command may ask of the process that runs it; in-process callers have few of these things.
pub trait Host: Send + Sync {}

/// A process without clients or listeners, such as an embedder.
pub struct Bare;

impl Host for Bare {}
