//! The servers of NATS on one memory: what this process tells the others of itself, and what its clients are
//! told of all of them.
//!
//! One thread looks once a second. A list that has changed gets another number, and each connection that has
//! been told of an earlier one is told again.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polder_engine::Table;
use polder_hub::addresses;
use polder_runtime::session::Servers;

/// See the module.
#[derive(Default)]
pub struct Neighbours {
    /// Addresses of this process that the others have been told.
    own: Mutex<Arc<[String]>>,
    known: Mutex<Arc<[String]>>,
    version: AtomicU64,
}

impl Neighbours {
    /// The number of the list of servers.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The list of now; without those of this process if it ends.
    pub fn servers(&self, is_leaving: bool) -> Servers {
        let version = self.version();
        let mut addresses: Vec<String> = self.known.lock().unwrap_or_else(PoisonError::into_inner).to_vec();
        if is_leaving {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
            addresses.retain(|address| !own.contains(address));
        }
        Servers { version, addresses, is_leaving }
    }

    /// Tells what has changed here, and looks what has elsewhere. Clients of NATS reach this process at the
    /// addresses that `advertised` names, or at those on which it listens unless these are all of the host's.
    pub fn look(&self, table: &Table, advertised: &str, mut listening: Vec<String>) {
        if !advertised.is_empty() && !listening.is_empty() {
            listening = advertised.split_whitespace().map(str::to_owned).collect();
        }
        listening.retain(|address| !address.starts_with("0.0.0.0:") && !address.starts_with("[::]:"));
        let now: Arc<[String]> = listening.into();
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if now.is_empty() && own.is_empty() {
            return;
        }
        // After a failure it is tried again in a second.
        if *own != now && addresses::tell(table, &now).is_ok() {
            *own = now;
        }
        let Ok(all) = addresses::known(table) else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if **known != *all {
            *known = all.into();
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }
}
