//! The users: in the segment, so that all processes agree, and as one process sees them.
//!
//! ```text
//!   segment, hidden database:  users        the mark: a count of changes, 8 bytes
//!                              users:names  every name, behind its length, in their order
//!                              user:NAME    serial (8 bytes), rules (User::stored)
//!                                 |
//!   each process:  Users --- refresh() looks at the mark (some 30 ns, no lock, no transaction) and reads again what has changed
//!                    |
//!   each session:  Rights --- the user it came in as, and the version of Users of which that is
//! ```
//!
//! - **U1** A change writes the user, the names if they change, and the mark in one transaction: if
//!   its process is killed at any instruction, the change is whole or did not happen.
//! - **U2** A thread that acts for a client looks at the mark first (a server at the beginning of
//!   each turn). A session that is of another version than the process is renewed from the new one
//!   before its next call. So what one process forbids, no call that begins later in any process
//!   does.
//! - **U3** Without a mark there is only the user `default`, which may do everything.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use polder_table::{Mode, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, string};

pub use super::snapshot::{Snapshot, fresh_serial};
use super::user::User;
use super::{DEFAULT_USER, file};
use crate::locks::lock;
use crate::retry::retry;
use polder_calls::settings::file::Declaration;
use polder_calls::settings::{Id, Settings, id};

const MARK: &[u8] = b"users";
const NAMES: &[u8] = b"users:names";
const ACL_FILE: Id = id("aclfile");
const BOTH_DECLARED: &str = "users are declared in the configuration file, and aclfile names a file of users: polder takes one or the other";
/// How long a reader of the users waits for a writer of them; it tries again later.
const PATIENCE: Duration = Duration::from_micros(100);

/// Where the ACL file lies whose name is no whole path.
pub(crate) fn folder(settings: &Settings) -> PathBuf {
    settings.string(const { id("dir") }).into()
}

/// The users as this process sees them.
pub struct Users {
    /// Moves whenever this process learns of a change.
    version: AtomicU64,
    /// The mark of the snapshot.
    mark: AtomicU64,
    now: RwLock<Arc<Snapshot>>,
    /// Held while the users are read from the segment, so that no older state follows a newer one.
    reading: Mutex<()>,
    /// The `user` lines of the configuration file, for a segment without users.
    declared: Mutex<Vec<Declaration>>,
}

impl Default for Users {
    fn default() -> Users {
        let now = RwLock::new(Arc::new(Snapshot::first()));
        Users {
            version: AtomicU64::new(1),
            mark: AtomicU64::new(0),
            now,
            reading: Mutex::default(),
            declared: Mutex::default(),
        }
    }
}

impl Users {
    /// Takes the `user` lines of the configuration file.
    pub fn declare(&self, declared: Vec<Declaration>) {
        *lock(&self.declared) = declared;
    }

    /// Whether the configuration names users, in its lines or in an ACL file.
    pub(crate) fn are_declared(&self, settings: &Settings) -> bool {
        !lock(&self.declared).is_empty() || !settings.text(ACL_FILE).is_empty()
    }

    /// Gives a segment that has none the users of the configuration.
    ///
    /// # Errors
    /// What is wrong with the declarations, for people; what the memory says.
    pub(crate) fn begin_in(&self, txn: &Txn<'_>, settings: &Settings) -> Result<(), Stop> {
        let (declared, path) = (lock(&self.declared), settings.string(ACL_FILE));
        let all_channels = settings.number(const { id("acl-pubsub-default") }) == 0;
        match (declared.is_empty(), path.is_empty()) {
            (true, true) => Ok(()),
            (false, false) => Err(BOTH_DECLARED.into()),
            (false, true) => {
                let before = load(txn, None)?;
                publish(txn, &before, &file::declared(&declared, &before, all_channels)?, &[])
            }
            (true, false) => {
                let before = load(txn, None)?;
                replace(txn, &before, file::read(&folder(settings), &path, &before, all_channels)?)
            }
        }
    }

    /// Changes when anything about users has changed; one load.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The users as they were at the last look.
    pub fn now(&self) -> Arc<Snapshot> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// If the users have changed, reads them (U2). Cheap if they have not. Returns whether they had
    /// changed.
    ///
    /// Not for a thread that has a transaction: it sees no change.
    pub fn refresh(&self, table: &Table) -> bool {
        if self.is_current(table) {
            return false;
        }
        let Ok(txn) = table.begin(Mode::Read) else { return false };
        txn.limit_patience(PATIENCE);
        let _reading = lock(&self.reading);
        let mut read = None;
        let outcome = retry(&txn, || {
            read = None;
            let now = self.now();
            if mark_of(&txn)? != now.mark {
                read = Some(load(&txn, Some(&now))?);
            }
            Ok(())
        });
        let (Ok(()), Some(snapshot)) = (outcome, read) else { return false };
        self.mark.store(snapshot.mark, Ordering::Release);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        self.version.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Whether the mark is the one of the last look, as far as can be said without a transaction.
    #[inline]
    fn is_current(&self, table: &Table) -> bool {
        let seen = self.mark.load(Ordering::Acquire);
        let Some(location) = table.location(SYSTEM, MARK) else { return seen == 0 };
        // A clock that stands still is written once and never again.
        table.quick_get(&location, MARK, 0, |bytes| number(bytes.unwrap_or_default()) == seen) == Some(true)
    }

    /// The users as a transaction sees them, its own changes included.
    ///
    /// # Errors
    /// [`Stop::Retry`], a fault.
    pub fn within(&self, txn: &Txn<'_>) -> Result<Arc<Snapshot>, Stop> {
        let now = self.now();
        if mark_of(txn)? == now.mark { Ok(now) } else { Ok(Arc::new(load(txn, None)?)) }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn mark_of(txn: &Txn<'_>) -> Result<u64, Stop> {
    Ok(number(&read(txn, MARK)?.map_or(Vec::new(), |(_, bytes)| bytes)))
}

/// A key's version and its bytes.
fn read(txn: &Txn<'_>, key: &[u8]) -> Result<Option<(u64, Vec<u8>)>, Stop> {
    let Some(found) = txn.peek(SYSTEM, key)? else { return Ok(None) };
    Ok(Some((found.version, string::contiguous(txn, &found.value)?.into_owned())))
}

fn key_of(name: &[u8]) -> Vec<u8> {
    [b"user:", name].concat()
}

/// Reads all users; those of `known` whose keys have not changed are taken from there.
fn load(txn: &Txn<'_>, known: Option<&Snapshot>) -> Result<Snapshot, Stop> {
    let mark = mark_of(txn)?;
    if mark == 0 {
        return Ok(Snapshot::first());
    }
    let names = read(txn, NAMES)?.map_or(Vec::new(), |(_, bytes)| bytes);
    let mut users = BTreeMap::new();
    for name in split_names(&names) {
        let Some(found) = txn.peek(SYSTEM, &key_of(name))? else { continue };
        let user = match known.and_then(|known| known.users.get(name)) {
            Some((version, user)) if *version == found.version => user.clone(),
            _ => {
                let bytes = string::contiguous(txn, &found.value)?;
                let (serial, stored) = bytes.split_at(bytes.len().min(8));
                Arc::new(User::read(name, number(serial), stored))
            }
        };
        users.insert(name.to_vec(), (found.version, user));
    }
    let default =
        users.entry(DEFAULT_USER.to_vec()).or_insert_with(|| (0, Arc::new(User::first()))).1.clone();
    Ok(Snapshot { mark, default, users })
}

/// Writes users (whole, in place of those of the same names) and takes others away, in the caller's transaction (U1). `before` is what
/// that transaction sees.
///
/// # Errors
/// What the memory says.
pub fn publish(txn: &Txn<'_>, before: &Snapshot, put: &[User], gone: &[&[u8]]) -> Result<(), Stop> {
    for user in put {
        let bytes = [&user.serial.to_le_bytes(), &user.stored()[..]].concat();
        write(txn, &key_of(&user.name), &bytes)?;
    }
    for name in gone {
        txn.remove(SYSTEM, &key_of(name), Replaces::Whole)?;
    }
    let new = |user: &&User| before.find(&user.name).is_none();
    if before.mark == 0 || !gone.is_empty() || put.iter().any(|user| new(&user)) {
        let gone: BTreeSet<&[u8]> = gone.iter().copied().collect();
        let stay = before.users.keys().map(Vec::as_slice).filter(|name| !gone.contains(name));
        let mut names: Vec<&[u8]> = stay.chain(put.iter().filter(new).map(|user| &user.name[..])).collect();
        names.sort_unstable();
        names.dedup();
        write(txn, NAMES, &join_names(&names))?;
    }
    write(txn, MARK, &(before.mark + 1).to_le_bytes())
}

fn write(txn: &Txn<'_>, key: &[u8], bytes: &[u8]) -> Result<(), Stop> {
    let value = string::make(txn, bytes)?;
    txn.write(SYSTEM, key, &New::of(Kind::String, value), Replaces::Whole)
}

fn join_names(names: &[&[u8]]) -> Vec<u8> {
    names.iter().flat_map(|name| [&(name.len() as u32).to_le_bytes(), *name].concat()).collect()
}

/// The names; what is damaged at the end is left out.
fn split_names(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some(name)
    })
}

/// Writes these users in place of all others, and the first default user if there is none among them.
///
/// # Errors
/// What the memory says.
pub fn replace(txn: &Txn<'_>, before: &Snapshot, mut users: Vec<User>) -> Result<(), Stop> {
    if users.iter().all(|user| user.name != DEFAULT_USER) {
        users.push(User::first());
    }
    let stay: BTreeSet<&[u8]> = users.iter().map(|user| &user.name[..]).collect();
    let gone: Vec<&[u8]> =
        before.users.keys().map(Vec::as_slice).filter(|name| !stay.contains(name)).collect();
    publish(txn, before, &users, &gone)
}

/// Whether the segment has users at all (U3).
///
/// # Errors
/// [`Stop::Retry`], a fault.
pub fn are_kept(txn: &Txn<'_>) -> Result<bool, Stop> {
    Ok(mark_of(txn)? != 0)
}

/// Sets the default user's password as `requirepass` does; an empty one asks for none.
///
/// # Errors
/// What the memory says.
pub fn set_default_password(txn: &Txn<'_>, password: &[u8]) -> Result<(), Stop> {
    let before = load(txn, None)?;
    let mut user = User::clone(before.default_user());
    let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() };
    for rule in [&b"resetpass"[..], &rule] {
        user.apply(rule, false).map_err(|wrong| Stop::from(wrong.text()))?;
    }
    if user != **before.default_user() { publish(txn, &before, &[user], &[]) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_and_split() {
        let names: [&[u8]; 3] = [b"", b"a\0b", b"default"];
        assert_eq!(split_names(&join_names(&names)).collect::<Vec<_>>(), names);
        assert_eq!(split_names(b"\x01\0\0\0a\x09\0\0\0b").collect::<Vec<_>>(), [b"a"]);
    }
}
