//! A connection that several calls in a row have for themselves.

use std::sync::Arc;
#[cfg(feature = "shm")]
use std::sync::PoisonError;

use super::Db;
use super::call::{Call, State};
use crate::connection::Connection;
use crate::error::Error;
use crate::options::Policy;
use crate::queue::{Pushed, Route};
use crate::rows;
use crate::slot::Slot;
use crate::target::Target;
use crate::traits::Traits;
use crate::value::FromValue;

/// A side connection for several calls in a row that depend on the connection's state (WATCH). Dropped before it is given
/// back, the connection is closed, and what it watched is forgotten with it.
pub(crate) struct Side {
    db: Db,
    connection: Option<Arc<Connection>>,
    #[cfg(feature = "shm")]
    caller: Option<std::sync::Mutex<polder_engine::Caller>>,
}

impl Side {
    pub(crate) fn take(db: &Db) -> Result<Side, Error> {
        #[cfg(feature = "shm")]
        if let Some(memory) = &db.client.connection.memory {
            return Ok(Side {
                db: db.clone(),
                connection: None,
                caller: Some(std::sync::Mutex::new(memory.caller())),
            });
        }
        let connection = db.client.connection.take_side()?;
        connection.shared.queue().ends_with_break = true;
        Ok(Side {
            db: db.clone(),
            connection: Some(connection),
            #[cfg(feature = "shm")]
            caller: None,
        })
    }

    /// Requests that may have changed keys have been sent: what the client keeps of those is dropped, since the invalidation
    /// comes over another connection, perhaps later than the reply.
    pub(crate) fn wrote(&self, requests: &[u8]) {
        self.db.client.connection.writes(Traits { moves: rows::moves(requests), ..Traits::SINGLE }, requests);
    }

    /// Makes a call on the side connection. The caller says what is known of it.
    pub(crate) fn call<T: FromValue>(&self, traits: Traits, encode: impl FnOnce(&mut Vec<u8>)) -> Call<T> {
        #[cfg(feature = "shm")]
        if let Some(caller) = &self.caller {
            let mut bytes = Vec::new();
            encode(&mut bytes);
            let mut caller = caller.lock().unwrap_or_else(PoisonError::into_inner);
            return self.db.done(crate::memory::run_with(&mut caller, self.db.route.db, &bytes, traits));
        }
        let slot = Arc::new(Slot::default());
        let mut target = Some(Target::Slot(Arc::clone(&slot)));
        let state = match &self.connection {
            Some(connection) => {
                let mut queue = connection.shared.queue();
                let route = Route { policy: Policy::Queue, ..self.db.route };
                let pushed = queue.push(route, &mut target, self.db.due(), |out| {
                    encode(out);
                    Ok(traits)
                });
                match pushed {
                    Ok(Pushed::Queued(ticket)) => {
                        connection.shared.tell(queue);
                        State::Queued(slot, ticket)
                    }
                    Ok(_) => State::Done(Err(Error::usage("a side connection holds another call"))),
                    Err(error) => State::Done(Err(error)),
                }
            }
            None => State::Done(Err(Error::usage("the side connection was given back"))),
        };
        Call::new(self.db.client.clone(), None, state)
    }

    /// Whether an error says that another node of the cluster has the keys, which is known now.
    pub(crate) fn is_moved(&self, error: &Error) -> bool {
        self.db.client.redirection(error).is_some_and(|redirection| !redirection.asks)
    }

    /// Keeps the connection for the next call that wants one.
    pub(crate) fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            let mut queue = connection.shared.queue();
            queue.ends_with_break = false;
            let is_over = queue.closed.is_some();
            drop(queue);
            if !is_over {
                self.db.client.connection.return_side(connection);
            }
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.shared.abort();
        }
    }
}
