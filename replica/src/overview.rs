//! The figures of INFO about replication, read in one transaction.
use polder_table::{Stop, Table, Txn};

use crate::failover::{self, Failover};
use crate::primary::{self, Primary};
use crate::records::{self, Record};

/// Both sides of a memory: its replicas, and the primary that it follows.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub replicas: Vec<Record>,
    pub primary: Option<Primary>,
    /// The reason for which the link to the primary is down.
    pub trouble: Option<String>,
    pub failover: Option<Failover>,
}

impl Overview {
    /// Reads it, as a part of a transaction.
    ///
    /// # Errors
    /// Faults of the memory.
    pub fn within(table: &Table, txn: &Txn<'_>) -> Result<Overview, Stop> {
        Ok(Overview {
            replicas: records::within(table, txn)?,
            primary: primary::within(txn)?,
            trouble: primary::trouble_within(txn)?,
            failover: failover::within(txn)?,
        })
    }
}
