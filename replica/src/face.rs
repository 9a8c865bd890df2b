//! A replica as CLIENT LIST shows it: its connection belongs to a feed, which tells how far it is.
use std::sync::atomic::{AtomicU64, Ordering};

use polder_base::time::now_ms;

use polder_runtime::session::Client;

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
