//! One connection to a server with all that belongs to it: side connections, the cache, the connection that subscribes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::args::{self, Args};
use crate::cache::Cache;
use crate::driver::Shared;
use crate::error::Error;
use crate::link::Listeners;
use crate::options::{Endpoint, Options};
use crate::rows;
use crate::subscribe::Subscriptions;
use crate::traits::Traits;

/// The most idle side connections that are kept for the next calls that wait.
const SIDE_IDLE_MAX: usize = 8;

/// Closes the connection when the last client is dropped.
pub(crate) struct Connection {
    pub shared: Arc<Shared>,
    /// Side connections that no call uses.
    side: Mutex<Vec<Arc<Connection>>>,
    pub cache: Option<Arc<Cache>>,
    /// The memory that takes the place of the connection.
    #[cfg(feature = "shm")]
    pub memory: Option<Arc<crate::memory::Local>>,
    /// The connection that subscribes, once there is a subscription.
    pub subscribing: Mutex<Option<(Arc<Subscriptions>, Arc<Connection>)>>,
    /// The connection to a replica, once a call has been made to it.
    replica: Mutex<Option<Arc<Connection>>>,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, cache: Option<Arc<Cache>>) -> Arc<Connection> {
        Arc::new(Connection {
            shared,
            cache,
            #[cfg(feature = "shm")]
            memory: None,
            side: Mutex::default(),
            subscribing: Mutex::default(),
            replica: Mutex::default(),
        })
    }

    /// Shared memory in place of a connection.
    #[cfg(feature = "shm")]
    pub(crate) fn to_memory(shared: Arc<Shared>, memory: Arc<crate::memory::Local>) -> Arc<Connection> {
        let connection = Connection {
            shared,
            cache: None,
            memory: Some(memory),
            side: Mutex::default(),
            subscribing: Mutex::default(),
            replica: Mutex::default(),
        };
        Arc::new(connection)
    }

    fn side(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a call to what is sent; says what is known of it.
    pub(crate) fn encode(&self, args: &impl Args, bytes: &mut Vec<u8>) -> Result<Traits, Error> {
        let start = bytes.len();
        args::encode(args, bytes);
        let traits = rows::traits(&bytes[start..])?;
        self.writes(traits, &bytes[start..]);
        Ok(traits)
    }

    /// Requests are about to be sent: what they may change is not kept any longer.
    pub(crate) fn writes(&self, traits: Traits, requests: &[u8]) {
        if let Some(cache) = &self.cache
            && !traits.reads
        {
            // What a script, or a command that no table knows, changes is not known from its words.
            if traits.moves || rows::empties(requests) {
                cache.write_all();
            } else {
                cache.write(rows::words(requests));
            }
        }
    }

    /// A connection for one call alone: an idle one, or a new one.
    pub(crate) fn take_side(&self) -> Result<Arc<Connection>, Error> {
        if let Some(idle) = self.side().pop() {
            return Ok(idle);
        }
        let shared = self.shared.start_another(Listeners::default())?;
        shared.queue().is_side = true;
        Ok(Connection::new(shared, None))
    }

    /// The connection to a replica of this master; `None` where the URL names no sentinels, which would know one.
    ///
    /// # Errors
    /// [`Error::Usage`] when the operating system has no thread left for it.
    pub(crate) fn replica(&self) -> Result<Option<Arc<Connection>>, Error> {
        let options = &self.shared.options;
        let Endpoint::Sentinel { sentinels, master, .. } = &options.endpoint else { return Ok(None) };
        let mut known = self.replica.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(Some(Arc::clone(known)));
        }
        let endpoint =
            Endpoint::Sentinel { sentinels: sentinels.clone(), master: master.clone(), replica: true };
        let options = Options { endpoint, cache: None, ..Options::clone(options) };
        let shared = self.shared.start_at(Arc::new(options), Listeners::default())?;
        Ok(Some(Arc::clone(known.insert(Connection::new(shared, None)))))
    }

    /// Gives a side connection back whose call has ended.
    pub(crate) fn return_side(&self, connection: Arc<Connection>) {
        // One whose driver has ended would fail all its later calls.
        if connection.shared.queue().closed.is_some() {
            return;
        }
        let mut side = self.side();
        if side.len() < SIDE_IDLE_MAX {
            side.push(connection);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close();
    }
}
