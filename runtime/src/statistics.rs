//! The figures of INFO that the host keeps.

/// What only the host knows; an embedder has nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Clients that are connected now.
    pub clients: u64,
    /// Those whose next request waits: for the end of a pause, or for a lock.
    pub clients_blocked: u64,
    /// Keys that clients wait for, and those of them whose end ends the wait as well.
    pub keys_awaited: u64,
    pub keys_awaited_or_gone: u64,
    /// Sessions that watch keys, and how many keys all of them watch together.
    pub clients_watching: u64,
    pub keys_watched: u64,
    /// Sessions that have subscribed to something, and sessions that track keys.
    pub clients_listening: u64,
    pub clients_tracking: u64,
    /// Keys that they have read, how often each of them one, and prefixes that they hear of.
    pub tracked_keys: u64,
    pub tracked_items: u64,
    pub tracked_prefixes: u64,
    /// Bytes that clients' buffers take.
    pub client_bytes: u64,
    /// The longest query and reply buffer that a client has now, in bytes.
    pub query_bytes_max: u64,
    pub reply_bytes_max: u64,
    /// Times sockets were read and written.
    pub reads: u64,
    pub writes: u64,
    /// Clients that were closed because a buffer had passed its limit.
    pub query_limit_closed: u64,
    pub reply_limit_closed: u64,
    /// Clients that were closed because all of them together took more than `maxmemory-clients`.
    pub clients_evicted: u64,
    /// Turns of the event loops, and the time they took.
    pub turns: u64,
    pub turn_us: u64,
    /// The part of it for chores; the longest turn, and the most calls of one.
    pub chores_us: u64,
    pub turn_us_max: u64,
    pub turn_calls_max: u64,
}

impl Statistics {
    /// Every count with its name.
    pub fn parts(&mut self) -> [(&'static str, &mut u64); 24] {
        [
            ("clients", &mut self.clients),
            ("clients_blocked", &mut self.clients_blocked),
            ("keys_awaited", &mut self.keys_awaited),
            ("keys_awaited_or_gone", &mut self.keys_awaited_or_gone),
            ("clients_watching", &mut self.clients_watching),
            ("keys_watched", &mut self.keys_watched),
            ("clients_listening", &mut self.clients_listening),
            ("clients_tracking", &mut self.clients_tracking),
            ("tracked_keys", &mut self.tracked_keys),
            ("tracked_items", &mut self.tracked_items),
            ("tracked_prefixes", &mut self.tracked_prefixes),
            ("client_bytes", &mut self.client_bytes),
            ("query_bytes_max", &mut self.query_bytes_max),
            ("reply_bytes_max", &mut self.reply_bytes_max),
            ("reads", &mut self.reads),
            ("writes", &mut self.writes),
            ("query_limit_closed", &mut self.query_limit_closed),
            ("reply_limit_closed", &mut self.reply_limit_closed),
            ("clients_evicted", &mut self.clients_evicted),
            ("turns", &mut self.turns),
            ("turn_us", &mut self.turn_us),
            ("chores_us", &mut self.chores_us),
            ("turn_us_max", &mut self.turn_us_max),
            ("turn_calls_max", &mut self.turn_calls_max),
        ]
    }

    /// Adds what another process has counted; the largest of all stays the largest.
    pub fn add(&mut self, name: &str, count: u64) {
        if let Some((name, sum)) = self.parts().into_iter().find(|(known, _)| *known == name) {
            *sum = if name.ends_with("_max") { count.max(*sum) } else { *sum + count };
        }
    }
}
