//! Links as CLIENT LIST shows them: the connection of a replica belongs to a feed, which tells how far it is, and the one to the primary to the link.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polder_base::time::now_ms;
use polder_calls::command::Command;
use polder_runtime::session::Client;
use polder_table::Db;

/// A replica's connection.
pub struct Face {
    /// The client, from the time when the feed began.
    client: Client,
    created_ms: u64,
    /// The time when the replica was last heard, in milliseconds since the epoch; 0: not yet.
    heard_ms: AtomicU64,
    /// Bytes of the log that wait for it.
    waiting_bytes: AtomicU64,
}

impl Face {
    /// The face of a client that becomes a replica now.
    pub fn of(client: Client) -> Face {
        let created_ms = now_ms().saturating_sub(client.age_seconds * 1000);
        Face { client, created_ms, heard_ms: AtomicU64::new(0), waiting_bytes: AtomicU64::new(0) }
    }

    /// The number of the client.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// The replica has acknowledged something.
    pub fn hear(&self) {
        self.heard_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// This many bytes of the log wait for it.
    pub fn fall_behind(&self, bytes: u64) {
        self.waiting_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The replica as a client.
    pub fn client(&self) -> Client {
        let (now_ms, heard_ms) = (now_ms(), self.heard_ms.load(Ordering::Relaxed));
        let mut client = self.client.clone();
        client.age_seconds = now_ms.saturating_sub(self.created_ms) / 1000;
        client.flags = format!("S{}", client.flags.replace('N', ""));
        client.reply_bytes = self.waiting_bytes.load(Ordering::Relaxed) as usize;
        if heard_ms != 0 {
            client.idle_seconds = now_ms.saturating_sub(heard_ms) / 1000;
            client.command = "replconf".into();
        }
        client
    }
}

/// The connection to the primary. It is a client from the moment on in which the stream begins, as in Redis.
pub struct PrimaryFace {
    /// The client, without what changes.
    client: Client,
    created_ms: u64,
    stream: Mutex<Option<StreamFace>>,
}

/// The place of the link in the stream of its primary.
#[derive(Clone, Copy)]
pub struct StreamFace {
    pub heard_ms: u64,
    pub db: Db,
    /// The last command that was made here.
    pub last: Option<&'static Command>,
    /// Bytes of a command that has not come whole, and the room for them.
    pub waiting_bytes: usize,
    pub room_bytes: usize,
}

impl PrimaryFace {
    /// The face of a connection that has just been made. `client` has its number and addresses.
    pub fn of(client: Client) -> PrimaryFace {
        let client =
            Client { flags: "M".into(), user: b"(superuser)".into(), protocol: "resp", resp: 2, ..client };
        PrimaryFace { client, created_ms: now_ms(), stream: Mutex::default() }
    }

    /// The number of the client.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// The link follows the stream, and is here.
    pub fn show(&self, stream: StreamFace) {
        *self.stream() = Some(stream);
    }

    /// The primary as a client; `None` before the stream begins.
    pub fn client(&self) -> Option<Client> {
        let stream = (*self.stream())?;
        let now_ms = now_ms();
        Some(Client {
            age_seconds: now_ms.saturating_sub(self.created_ms) / 1000,
            idle_seconds: now_ms.saturating_sub(stream.heard_ms) / 1000,
            db: stream.db,
            command: stream.last.map_or("NULL".into(), |command| command.label()),
            query_bytes: stream.waiting_bytes,
            query_room: stream.room_bytes,
            memory: size_of::<PrimaryFace>() + stream.waiting_bytes + stream.room_bytes,
            ..self.client.clone()
        })
    }

    fn stream(&self) -> MutexGuard<'_, Option<StreamFace>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
