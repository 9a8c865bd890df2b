//! Typed calls on one database, for programs that share the memory without a server ([`Database`]).
use std::time::Duration;

use polder_base::number;
use polder_calls::call::{NOT_AN_INTEGER, WRONG_TYPE};
use polder_table::Db;
use polder_table::{Foreseen, Found, Mark, Mode, New, Replaces, Sight, Stop, Table, Txn};
use polder_values::{Kind, Value, string};

use crate::Memory;

/// Typed calls on one database of an attached memory: strings, counters, and transactions over several keys.
///
/// ```
/// # let name = format!("shm:polder-doc-{}", std::process::id());
/// use polder_engine::{Memory, Options};
///
/// let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let cache = memory.database(0);
/// cache.set(b"greeting", b"hello")?;
/// assert_eq!(cache.get(b"greeting")?, Some(b"hello".to_vec()));
/// assert_eq!(cache.add(b"visits", 1)?, 1);
///
/// // Several keys, all or nothing, also when the process is killed in the middle.
/// cache.transaction(&[b"from", b"to"], |keys| {
///     let from = keys.number(b"from")?;
///     keys.set(b"from", (from - 5).to_string().as_bytes())?;
///     keys.set(b"to", (keys.number(b"to")? + 5).to_string().as_bytes())
/// })?;
/// assert_eq!(cache.get(b"to")?, Some(b"5".to_vec()));
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
///
/// A call fails with the error text of the command that does the same ([`Stop::Refused`]) or with a fault of the medium ([`Stop::Fault`]).
#[derive(Clone, Copy)]
pub struct Database<'m> {
    memory: &'m Memory,
    table: &'m Table,
    number: Db,
    patience: Option<Duration>,
}

/// How many keys a batch brings near at once.
const BATCH: usize = 16;

impl<'m> Database<'m> {
    pub(crate) fn of(memory: &'m Memory, number: Db) -> Database<'m> {
        Database { memory, table: memory.table(), number, patience: None }
    }

    /// The same database, with calls that wait at most this long for locks that other threads hold, and not at all for the end of a CLIENT PAUSE.
    /// They fail with [`Stop::Busy`] then, and nothing has happened.
    pub fn impatient(self, patience: Duration) -> Database<'m> {
        Database { patience: Some(patience), ..self }
    }

    /// What comes before every call: waiting for the end of a pause and, now and then, a little
    /// maintenance.
    #[inline(always)]
    fn begin(&self, writes: bool) -> Result<(), Stop> {
        if self.memory.is_due() {
            self.memory.see_to(writes, self.patience.is_none())?;
        }
        if writes { self.memory.permit_writes() } else { Ok(()) }
    }

    /// A copy of the string in a key.
    ///
    /// # Errors
    /// WRONGTYPE, a fault.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.read(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Passes the string in a key to `read` without allocating: a short string is copied once, a string in a node not at all. `read` may be called
    /// more than once, when a writer changes the key at the same time.
    ///
    /// # Errors
    /// As [`Database::get`].
    #[inline]
    pub fn read<R>(&self, key: &[u8], mut read: impl FnMut(Option<&[u8]>) -> R) -> Result<R, Stop> {
        self.begin(false)?;
        let hash = self.table.hash(key);
        match self.table.read_plain(self.number, hash, key, |value| read(Some(value))) {
            Some(answer) => Ok(answer),
            None => self.read_elsewhere(key, &mut read),
        }
    }

    /// Reads what is not a plain string at home, or not there at all.
    #[inline(never)]
    fn read_elsewhere<R>(&self, key: &[u8], mut read: &mut dyn FnMut(Option<&[u8]>) -> R) -> Result<R, Stop> {
        self.read_at(self.table.sight(self.number, key).as_ref(), key, &mut read)
    }

    #[inline(always)]
    fn read_at<R>(&self, sight: Option<&Sight>, key: &[u8], read: &mut impl FnMut(Option<&[u8]>) -> R) -> Result<R, Stop> {
        match sight.and_then(|sight| self.table.quick_get(sight, key, polder_base::time::coarse_ms(), &mut *read)) {
            Some(answer) => Ok(answer),
            None => self.read_slowly(key, read),
        }
    }

    fn read_slowly<R>(&self, key: &[u8], read: &mut dyn FnMut(Option<&[u8]>) -> R) -> Result<R, Stop> {
        self.run(Mode::Read, &[key], |keys| {
            let found = keys.string(key)?;
            Ok(match found {
                None => read(None),
                Some(found) => read(Some(&string::contiguous(keys.txn, &found.value)?)),
            })
        })
    }

    /// Sets a key to a string, and removes its expiry.
    ///
    /// # Errors
    /// A fault, such as a segment that is full; NOREPLICAS, MISCONF or OOM where the settings refuse writes, as they do to SET.
    #[inline]
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.begin(true)?;
        self.spare()?;
        let hash = self.table.hash(key);
        if self.table.write_plain(self.number, hash, key, value) { Ok(()) } else { self.set_elsewhere(key, value) }
    }

    /// Sets a key that has no plain string of this size at home.
    #[inline(never)]
    fn set_elsewhere(&self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        let sight = self.table.sight(self.number, key);
        match sight.and_then(|sight| self.table.quick_set_until(&sight, key, value, None, (polder_base::time::coarse_ms(), 0))) {
            Some(()) => Ok(()),
            None => self.run(Mode::Write, &[key], |keys| keys.set(key, value)),
        }
    }

    /// As [`Database::set`], with an expiry in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// As [`Database::set`].
    pub fn set_until(&self, key: &[u8], value: &[u8], expiry_ms: u64) -> Result<(), Stop> {
        self.begin(true)?;
        self.spare()?;
        self.run(Mode::Write, &[key], |keys| keys.put(key, value, Some(expiry_ms)))
    }

    /// Adds to the integer in a key and returns the sum. An absent key counts as 0. The expiry stays.
    ///
    /// # Errors
    /// WRONGTYPE, not an integer, an overflow, a fault.
    pub fn add(&self, key: &[u8], by: i64) -> Result<i64, Stop> {
        self.begin(true)?;
        self.spare()?;
        self.run(Mode::Write, &[key], |keys| {
            let sum = keys.number(key)?.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
            let text = sum.to_string();
            let old = keys.txn.find(self.number, key)?;
            let value = Value::Packed(text.as_bytes());
            let new = old.map_or(New::of(Kind::String, value), |old| New { value, raw: false, text: false, ..New::from(old) });
            let mark = keys.txn.mark();
            keys.txn.write(self.number, key, &new, Replaces::Whole)?;
            keys.tell(mark, &[b"INCRBY", key, by.to_string().as_bytes()]);
            keys.txn.note_change('$', "incrby", self.number, key);
            Ok(sum)
        })
    }

    /// Deletes a key of any type and returns whether it existed.
    ///
    /// # Errors
    /// A fault.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Stop> {
        self.begin(true)?;
        self.run(Mode::Write, &[key], |keys| keys.remove(key))
    }

    /// Passes the strings of many keys to `visit`, in order, and overlaps their cache misses. Each key is read by itself; use
    /// [`Database::transaction`] for one state of all of them.
    ///
    /// # Errors
    /// As [`Database::get`], at the first key that gives one.
    pub fn read_batch(&self, keys: &[&[u8]], mut visit: impl FnMut(usize, Option<&[u8]>)) -> Result<(), Stop> {
        self.begin(false)?;
        let mut foreseen = [Foreseen::NOTHING; BATCH];
        for (number, batch) in keys.chunks(BATCH).enumerate() {
            self.table.foresee(self.number, batch, &mut foreseen);
            for (at, (key, Foreseen { hash, .. })) in batch.iter().zip(&foreseen).enumerate() {
                let mut visit = |value: Option<&[u8]>| visit(number * BATCH + at, value);
                if self.table.read_plain(self.number, *hash, key, |value| visit(Some(value))).is_none() {
                    self.read_elsewhere(key, &mut visit)?;
                }
            }
        }
        Ok(())
    }

    /// Sets many keys to a string each, and overlaps their cache misses. Each key is set by itself.
    ///
    /// # Errors
    /// As [`Database::set`], at the first key that gives one.
    pub fn set_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), Stop> {
        self.begin(true)?;
        let mut foreseen = [Foreseen::NOTHING; BATCH];
        for batch in pairs.chunks(BATCH) {
            let mut keys = [&b""[..]; BATCH];
            keys.iter_mut().zip(batch).for_each(|(place, (key, _))| *place = key);
            self.table.foresee(self.number, &keys[..batch.len()], &mut foreseen);
            for ((key, value), Foreseen { hash, .. }) in batch.iter().zip(&foreseen) {
                self.spare()?;
                if !self.table.write_plain(self.number, *hash, key, value) {
                    self.set_elsewhere(key, value)?;
                }
            }
        }
        Ok(())
    }

    /// Runs `work` as one transaction: all its changes become visible together or not at all, also when the process is killed in the middle.
    ///
    /// `work` may be run several times, so it should have no other side effects. It may use keys that are not in `keys`; if another thread has
    /// locked such a key, `work` is run again.
    ///
    /// # Errors
    /// What `work` returns (nothing has happened then), a fault.
    pub fn transaction<R>(&self, keys: &[&[u8]], work: impl FnMut(&Keys<'_>) -> Result<R, Stop>) -> Result<R, Stop> {
        // It may only read: what it writes is refused by itself.
        if self.memory.is_due() {
            self.memory.see_to(true, self.patience.is_none())?;
        }
        self.spare()?;
        self.run(Mode::Write, keys, work)
    }

    /// Makes room where memory is short, before a call that may need some. A call that only takes away is never refused.
    #[inline]
    fn spare(&self) -> Result<(), Stop> {
        if self.table.make_room() { Ok(()) } else { Err("OOM command not allowed when used memory > 'maxmemory'.".into()) }
    }

    fn run<R>(&self, mode: Mode, keys: &[&[u8]], mut work: impl FnMut(&Keys<'_>) -> Result<R, Stop>) -> Result<R, Stop> {
        let txn = self.table.begin(mode)?;
        self.patience.into_iter().for_each(|patience| txn.limit_patience(patience));
        let declared: Vec<(Db, &[u8])> = keys.iter().map(|key| (self.number, *key)).collect();
        loop {
            let outcome = txn.declare(&declared).and_then(|()| work(&Keys { memory: self.memory, txn: &txn, number: self.number }));
            match outcome.and_then(|answer| txn.commit().map(|()| answer)) {
                Err(Stop::Retry) => txn.abort(),
                Err(stop) => {
                    txn.abort();
                    txn.await_room(stop)?;
                }
                done => return done,
            }
        }
    }
}

/// The keys inside a [`Database::transaction`].
pub struct Keys<'t> {
    memory: &'t Memory,
    txn: &'t Txn<'t>,
    number: Db,
}

impl<'t> Keys<'t> {
    fn string(&self, key: &[u8]) -> Result<Option<Found<'t>>, Stop> {
        match self.txn.find(self.number, key)? {
            Some(found) if found.kind != Kind::String => Err(WRONG_TYPE.into()),
            found => Ok(found),
        }
    }

    /// Says in the change log what has been done since `mark`.
    fn tell(&self, mark: Mark, words: &[&[u8]]) {
        if self.txn.tells() {
            self.txn.tell(self.number, words);
            self.txn.account(mark);
        }
    }

    /// A copy of the string in a key, with the changes of this transaction.
    ///
    /// # Errors
    /// WRONGTYPE, a fault, or that the transaction must be run again. Return each of them from `work`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        match self.string(key)? {
            Some(found) => Ok(Some(string::contiguous(self.txn, &found.value)?.into_owned())),
            None => Ok(None),
        }
    }

    /// The integer in a key; an absent one counts as 0.
    ///
    /// # Errors
    /// As [`Keys::get`]; not an integer.
    pub fn number(&self, key: &[u8]) -> Result<i64, Stop> {
        match self.get(key)? {
            Some(text) => number::integer(&text).ok_or(Stop::from(NOT_AN_INTEGER)),
            None => Ok(0),
        }
    }

    /// Sets a key to a string, without an expiry.
    ///
    /// # Errors
    /// As [`Keys::get`].
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.put(key, value, None)
    }

    /// Sets a key to a string, with an expiry in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// As [`Keys::get`].
    pub fn put(&self, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> Result<(), Stop> {
        self.memory.permit_writes()?;
        let (made, mark) = (string::make(self.txn, value)?, self.txn.mark());
        self.txn.write(self.number, key, &New { expiry_ms, ..New::of(Kind::String, made) }, Replaces::Whole)?;
        match expiry_ms {
            None => self.tell(mark, &[b"SET", key, value]),
            Some(expiry_ms) => self.tell(mark, &[b"SET", key, value, b"PXAT", expiry_ms.to_string().as_bytes()]),
        }
        self.txn.note_change('$', "set", self.number, key);
        if expiry_ms.is_some() {
            self.txn.note_change('g', "expire", self.number, key);
        }
        Ok(())
    }

    /// Deletes a key and returns whether it existed.
    ///
    /// # Errors
    /// As [`Keys::get`].
    pub fn remove(&self, key: &[u8]) -> Result<bool, Stop> {
        self.memory.permit_writes()?;
        let mark = self.txn.mark();
        let there = self.txn.remove(self.number, key, Replaces::Whole)?;
        if there {
            self.tell(mark, &[b"DEL", key]);
            self.txn.note_change('g', "del", self.number, key);
        }
        Ok(there)
    }
}
