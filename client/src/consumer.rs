//! Reading a stream as one consumer of a group (XREADGROUP): each entry is given to one consumer, and is its own until it is
//! acknowledged.
//!
//! ```text
//!   begin:  own entries that were given before and not acknowledged   (the program ended in the middle of its work)
//!   then:   new entries, waited for on a side connection
//!   after an error, or a dropped future: own entries behind the last one that `next` returned, then new ones
//! ```
//!
//! A call that broke off, or whose future was dropped, may still wait in the server for as long as it was told to, and be given entries
//! whose reply goes nowhere. Until that time is over a call for new entries says only that there are some: what it was given is
//! dropped, and read as own entries, which come in the order of their ids, those of the lost call among them.
//!
//! Invariant: an entry that the server has given to this consumer is returned by [`Consumer::next`] at least once, whatever
//! breaks between.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::client::Db;
use crate::error::Error;

/// How long the server waits for entries before it is asked anew.
const WAIT: Duration = Duration::from_secs(5);
/// How long a call that was given up may be given entries: as long as it waits, and as long again for a server that is slow.
const ABANDONED: Duration = Duration::from_secs(10);
const COUNT: u32 = 100;

/// An entry of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub id: String,
    /// Fields and values, in order.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What the server gives for a stream: ids, each with fields and values in turn, or null for what was deleted meanwhile.
type Given = BTreeMap<Vec<u8>, Vec<(String, Option<Vec<Vec<u8>>>)>>;

/// One consumer of a stream's group, made by [`Db::consumer`].
pub struct Consumer {
    db: Db,
    key: Vec<u8>,
    group: Vec<u8>,
    name: Vec<u8>,
    count: u32,
    /// The last entry that was returned.
    last: String,
    /// Whether the consumer's own entries behind `last` are to be read before new ones.
    has_pending: bool,
    /// Until then a call that was given up may still be given entries.
    uncertain_until: Option<Instant>,
}

impl Db {
    /// A consumer of a stream's group. `name` tells it from the group's others; a program that begins anew takes the same name, and
    /// first gets what it had not acknowledged.
    pub fn consumer(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
    ) -> Consumer {
        let bytes = |text: &dyn AsRef<[u8]>| text.as_ref().to_vec();
        let (key, group, name) = (bytes(&key), bytes(&group), bytes(&name));
        Consumer {
            db: self.clone(),
            key,
            group,
            name,
            count: COUNT,
            last: "0-0".into(),
            has_pending: true,
            uncertain_until: None,
        }
    }
}

impl Consumer {
    /// The most entries to read at once; 100 by default.
    #[must_use]
    pub fn count(mut self, count: u32) -> Consumer {
        self.count = count.max(1);
        self
    }

    /// Makes the group, and the stream, where there is none. The group begins behind the entry `after`: `0` for all entries, `$`
    /// for those that are added from now on.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn create_group(&self, after: &str) -> Result<(), Error> {
        match self.db.xgroup_create::<()>(&self.key, &self.group, (after, "MKSTREAM")).await {
            Err(error) if error.code() == Some("BUSYGROUP") => Ok(()),
            other => other,
        }
    }

    /// The next entries, at least one; waits until there are some. No other call waits meanwhile.
    ///
    /// # Errors
    /// Those of any call, `NOGROUP` for one. After an error, and after the future was dropped, the next call loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        loop {
            // Until the reply is here, the server may have given entries that do not arrive: after an error, or when the future is
            // dropped, they are the consumer's own.
            let pending = std::mem::replace(&mut self.has_pending, true);
            let given = if pending {
                self.read_pending().await?
            } else {
                let before = self.uncertain_until.filter(|until| Instant::now() < *until);
                self.uncertain_until = Some(Instant::now() + ABANDONED);
                let given = self.read_new().await?;
                self.uncertain_until = before;
                if before.is_some() {
                    // They are the consumer's own now, and read as such.
                    continue;
                }
                given
            };
            let given = given.into_iter().flat_map(BTreeMap::into_values).flatten().collect::<Vec<_>>();
            self.has_pending = pending && !given.is_empty();
            if let Some((id, _)) = given.last() {
                self.last.clone_from(id);
            }
            // What was deleted meanwhile has no fields, and nothing can be done with it.
            let entries: Vec<Entry> = given
                .into_iter()
                .filter_map(|(id, fields)| Some(Entry { id, fields: pairs(fields?) }))
                .collect();
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
    }

    async fn read_pending(&self) -> Result<Option<Given>, Error> {
        let consumer = ("GROUP", &self.group, &self.name);
        self.db
            .call(("XREADGROUP", consumer, ("COUNT", self.count), ("STREAMS", &self.key, &self.last)))
            .await
    }

    async fn read_new(&self) -> Result<Option<Given>, Error> {
        let consumer = ("GROUP", &self.group, &self.name);
        let waits = ("COUNT", self.count, "BLOCK", WAIT.as_millis() as u64);
        self.db.call(("XREADGROUP", consumer, waits, ("STREAMS", &self.key, ">"))).await
    }

    /// Says that entries are done with; returns how many of them the group still waited for.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn acknowledge(&self, ids: impl Args) -> Result<u64, Error> {
        self.db.call(("XACK", &self.key, &self.group, ids)).await
    }
}

fn pairs(flat: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut flat = flat.into_iter();
    std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
}
