//! One database of a memory: what its typed calls run on, and the fastest of them ([`Database`]).
//!
//! ```text
//!   Database<'m>            a call commits by itself        get, read, set: straight to the table
//!   Keys<'t>                inside of a transaction         all others: crate::typed, over the functions of the commands
//! ```
use std::time::Duration;

use polder_base::Reply;
use polder_calls::Command;
use polder_calls::call::{NO_MEMORY, WRONG_TYPE};
use polder_runtime::DirectCall;
use polder_runtime::retry::retry_on;

use crate::families::row_named;
use polder_table::Db;
use polder_table::{Attributes, Foreseen, Found, Location, Mode, Stop, Table, Txn};
use polder_values::{Kind, string};

use crate::Memory;
use crate::reply::Scalar;

/// Typed calls on one database of an attached memory.
///
/// ```
/// # let name = format!("shm:polder-doc-{}", std::process::id());
/// use polder_engine::{Memory, Options};
///
/// let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// db.set("greeting", "hello")?;
/// assert_eq!(db.get("greeting")?, Some(b"hello".to_vec()));
/// assert_eq!(db.incr("visits")?, 1);
/// db.hset("user:1", &[("name", "ann"), ("city", "Oslo")])?;
/// db.lpush("jobs", &["first", "second"])?;
///
/// // Several keys, all or nothing, also when the process is killed in the middle.
/// db.transaction(&["jobs", "done"], |keys| {
///     let Some(job) = keys.rpop("jobs")? else { return Ok(()) };
///     keys.hset("done", &[(job, "yes")]).map(drop)
/// })?;
/// assert_eq!(db.hget("done", "first")?, Some(b"yes".to_vec()));
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
///
/// # Names
/// A method has the name of the command that it runs, as in the asynchronous client, in Python and in C, so that Redis's documentation is its
/// documentation. What repeats is a slice (`&["a", "b"]`), keys and values are anything that is bytes, and what is optional is a builder
/// ([`SetOptions`](crate::SetOptions)) of a second method whose name says so (`set_with`). Commands that Redis calls deprecated have no method;
/// [`Caller`](crate::Caller) runs every command by its words.
///
/// # Errors
/// Every call fails with [`Stop::Refused`] and the error text of its command, whose first word is the code ([`Stop::code`]): `WRONGTYPE` for a
/// key of another type, `OOM`, `NOREPLICAS` and `MISCONF` where settings refuse writes, `ERR` for all else. It fails with [`Stop::Fault`] when the
/// memory, the system or another process has failed, and with [`Stop::Busy`] at the end of the patience of [`Database::impatient`]. A call
/// that failed has changed nothing.
///
/// # Inside a transaction
/// [`Database::transaction`] passes its work a [`Keys`], which has the same methods. Its calls see each other's changes, and these commit
/// together. There, pass on each error by `?`: some mean that the work must be run again.
///
/// # What is left out
/// Typed calls know no rights, and appear neither in `MONITOR` nor in the statistics of commands. Blocking calls and subscriptions belong to
/// a [`Caller`](crate::Caller).
#[derive(Clone, Copy)]
pub struct Database<'m, S = Alone> {
    memory: &'m Memory,
    number: Db,
    scope: S,
}

/// The keys inside of a [`Database::transaction`], with all typed calls.
pub type Keys<'t> = Database<'t, Inside<'t>>;

/// Where the calls of a [`Database`] run: each by itself ([`Alone`]), or together ([`Inside`] a transaction).
pub trait Scope: sealed::Sealed {
    #[doc(hidden)]
    fn run(
        &self,
        on: (&Memory, Db),
        command: &'static Command,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Result<(), Stop>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Alone {}
    impl Sealed for super::Inside<'_> {}
}

/// Each call is a transaction of its own.
#[derive(Clone, Copy)]
pub struct Alone {
    patience: Option<Duration>,
}

/// All calls belong to one transaction.
#[derive(Clone, Copy)]
pub struct Inside<'t> {
    txn: &'t Txn<'t>,
}

impl Scope for Alone {
    fn run(
        &self,
        (memory, db): (&Memory, Db),
        command: &'static Command,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Result<(), Stop> {
        self.begin(memory, command.tells.is_some())?;
        if command.is_write() {
            memory.permit_writes()?;
        }
        let call = DirectCall { table: memory.table(), host: memory.host(), db, command, args };
        asking_for_values(memory.table(), call.run(self.patience, reply))
    }
}

impl Scope for Inside<'_> {
    fn run(
        &self,
        (memory, db): (&Memory, Db),
        command: &'static Command,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Result<(), Stop> {
        DirectCall { table: memory.table(), host: memory.host(), db, command, args }
            .run_inside(self.txn, reply)
    }
}

impl Alone {
    /// What comes before every call: waiting for the end of a pause and, now and then, a little
    /// maintenance.
    #[inline(always)]
    fn begin(&self, memory: &Memory, writes: bool) -> Result<(), Stop> {
        if memory.is_due() { memory.see_to(writes, self.patience.is_none()) } else { Ok(()) }
    }
}

impl<S: Scope> Database<'_, S> {
    /// Runs a command's row.
    pub(crate) fn run_row(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Result<(), Stop> {
        self.scope.run((self.memory, self.number), command, args, reply)
    }
}

/// How many keys a batch brings near at once.
const BATCH: usize = 16;

impl<'m> Database<'m> {
    pub(crate) fn of(memory: &'m Memory, number: Db) -> Database<'m> {
        Database { memory, number, scope: Alone { patience: None } }
    }

    /// The same database, with calls that wait at most this long for locks that other threads hold, and not at all for the end of a CLIENT PAUSE.
    /// They fail with [`Stop::Busy`] then, and nothing has happened.
    pub fn impatient(self, patience: Duration) -> Database<'m> {
        Database { scope: Alone { patience: Some(patience) }, ..self }
    }

    fn table(&self) -> &'m Table {
        self.memory.table()
    }

    #[inline(always)]
    fn begin(&self, writes: bool) -> Result<(), Stop> {
        self.scope.begin(self.memory, writes)?;
        if writes { self.memory.permit_writes() } else { Ok(()) }
    }

    /// `GET`: a copy of the string in a key.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.read(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Passes the string in a key to `read` without allocating: a short string is copied once, a string in a node not at all. `read` may be called
    /// more than once, when a writer changes the key at the same time.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    #[inline]
    pub fn read<R>(
        &self,
        key: impl AsRef<[u8]>,
        mut read: impl FnMut(Option<&[u8]>) -> R,
    ) -> Result<R, Stop> {
        let key = key.as_ref();
        self.begin(false)?;
        let hash = self.table().hash(key);
        match self.table().read_plain(self.number, hash, key, |value| read(Some(value))) {
            Some(shown) => Ok(shown),
            None => self.read_elsewhere(key, &mut read),
        }
    }

    /// Reads what is not a plain string at home, or not there at all.
    #[inline(never)]
    fn read_elsewhere<R>(&self, key: &[u8], mut read: &mut dyn FnMut(Option<&[u8]>) -> R) -> Result<R, Stop> {
        self.read_at(self.table().location(self.number, key).as_ref(), key, &mut read)
    }

    #[inline(always)]
    fn read_at<R>(
        &self,
        location: Option<&Location>,
        key: &[u8],
        read: &mut impl FnMut(Option<&[u8]>) -> R,
    ) -> Result<R, Stop> {
        match location.and_then(|location| {
            self.table().quick_get(location, key, polder_base::time::coarse_ms(), &mut *read)
        }) {
            Some(shown) => Ok(shown),
            None => self.read_slowly(key, read),
        }
    }

    fn read_slowly<R>(&self, key: &[u8], read: &mut dyn FnMut(Option<&[u8]>) -> R) -> Result<R, Stop> {
        self.run(Mode::Read, &[key], |keys| {
            let found = keys.string(key)?;
            Ok(match found {
                None => read(None),
                Some(found) => read(Some(&string::contiguous(keys.scope.txn, &found.value)?)),
            })
        })
    }

    /// `SET`: sets a key to a string, and removes its expiry.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    #[inline]
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Stop> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.begin(true)?;
        self.spare()?;
        let hash = self.table().hash(key);
        if self.table().write_plain(self.number, hash, key, value) {
            Ok(())
        } else {
            self.set_elsewhere(key, value)
        }
    }

    /// Sets a key that has no plain string of this size at home.
    #[inline(never)]
    fn set_elsewhere(&self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        let location = self.table().location(self.number, key);
        match location.and_then(|location| {
            self.table().quick_set_with(
                &location,
                key,
                value,
                Attributes::NONE,
                (polder_base::time::coarse_ms(), 0),
            )
        }) {
            Some(_) => Ok(()),
            None => self.run_row(const { row_named("SET") }, &[b"SET", key, value], &mut Scalar::default()),
        }
    }

    /// Passes the strings of many keys to `visit`, in order, and overlaps their cache misses. Each key is read by itself; use
    /// [`Database::transaction`] for one state of all of them.
    ///
    /// # Errors
    /// Those of [every call](Database#errors), at the first key that gives one.
    pub fn read_batch(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Stop> {
        self.begin(false)?;
        let mut foreseen = [Foreseen::NOTHING; BATCH];
        for (number, batch) in keys.chunks(BATCH).enumerate() {
            let mut near = [&b""[..]; BATCH];
            near.iter_mut().zip(batch).for_each(|(place, key)| *place = key.as_ref());
            let batch = &near[..batch.len()];
            self.table().foresee(self.number, batch, &mut foreseen);
            for (at, (key, Foreseen { hash, .. })) in batch.iter().zip(&foreseen).enumerate() {
                let mut visit = |value: Option<&[u8]>| visit(number * BATCH + at, value);
                if self.table().read_plain(self.number, *hash, key, |value| visit(Some(value))).is_none() {
                    self.read_elsewhere(key, &mut visit)?;
                }
            }
        }
        Ok(())
    }

    /// Sets many keys to a string each, and overlaps their cache misses. Each key is set by itself.
    ///
    /// # Errors
    /// Those of [every call](Database#errors), at the first key that gives one.
    pub fn set_batch(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<(), Stop> {
        self.begin(true)?;
        let mut foreseen = [Foreseen::NOTHING; BATCH];
        for batch in pairs.chunks(BATCH) {
            let mut keys = [&b""[..]; BATCH];
            keys.iter_mut().zip(batch).for_each(|(place, (key, _))| *place = key.as_ref());
            self.table().foresee(self.number, &keys[..batch.len()], &mut foreseen);
            for ((key, value), Foreseen { hash, .. }) in batch.iter().zip(&foreseen) {
                let (key, value) = (key.as_ref(), value.as_ref());
                self.spare()?;
                if !self.table().write_plain(self.number, *hash, key, value) {
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
    /// What `work` returns (nothing has happened then), and those of [every call](Database#errors).
    pub fn transaction<R>(
        &self,
        keys: &[impl AsRef<[u8]>],
        work: impl FnMut(&Keys<'_>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        // It may only read: what it writes is refused by itself.
        self.scope.begin(self.memory, true)?;
        self.spare()?;
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.run(Mode::Write, &keys, work)
    }

    /// Makes room where memory is short, before a call that may need some. A call that only takes away is never refused.
    #[inline]
    fn spare(&self) -> Result<(), Stop> {
        if self.table().make_room() || self.table().await_spills() { Ok(()) } else { Err(NO_MEMORY.into()) }
    }

    fn run<R>(
        &self,
        mode: Mode,
        keys: &[&[u8]],
        mut work: impl FnMut(&Keys<'_>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let txn = self.table().begin(mode)?;
        self.scope.patience.into_iter().for_each(|patience| txn.limit_patience(patience));
        let declared: Vec<(Db, &[u8])> = keys.iter().map(|key| (self.number, *key)).collect();
        let inside = Keys { memory: self.memory, number: self.number, scope: Inside { txn: &txn } };
        let outcome = retry_on(&txn, &declared, || {
            txn.declare(&declared)?;
            work(&inside)
        });
        asking_for_values(self.table(), outcome)
    }
}

/// Asks for the values of stubs at which a call may have stopped that did not wait: they are to be there when it is made
/// again.
#[inline]
fn asking_for_values<R>(table: &Table, outcome: Result<R, Stop>) -> Result<R, Stop> {
    if let Err(Stop::Busy) = outcome {
        polder_hub::tier::send(table, false);
    }
    outcome
}

impl<'t> Keys<'t> {
    fn string(&self, key: &[u8]) -> Result<Option<Found<'t>>, Stop> {
        match self.scope.txn.find(self.number, key)? {
            Some(found) if found.kind != Kind::String => Err(WRONG_TYPE.into()),
            found => Ok(found),
        }
    }
}
