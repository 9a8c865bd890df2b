//! The configuration of a process: its settings, and the users that join a segment with them.
//!
//! **Invariant**: settings and users of a new segment are written by one transaction ([`Configuration::join`]).
use std::ops::Deref;
use std::path::PathBuf;

use polder_table::{Stop, Table, Txn};

use crate::lookup;
use crate::users::{Users, kept as users};
use polder_calls::settings::file::{Assignment, Rename, Wrong};
use polder_calls::settings::value::Parsed;
use polder_calls::settings::{Companion, Id, Settings, id, store};

pub mod rewrite;

/// A process's settings, with its users.
#[derive(Default)]
pub struct Configuration {
    settings: Settings,
    users: Users,
}

impl Deref for Configuration {
    type Target = Settings;

    #[inline]
    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl Configuration {
    /// These settings as a log is read with: see [`Settings::for_replay`].
    pub fn for_replay(&self) -> Configuration {
        Configuration { settings: self.settings.for_replay(), users: Users::default() }
    }

    /// What a file and then flags say: see [`Settings::begin`].
    ///
    /// # Errors
    /// The first line or flag whose value is wrong.
    pub fn begin(
        file: Option<PathBuf>,
        lines: &[Assignment],
        flags: &[Assignment],
    ) -> Result<Configuration, Wrong> {
        Ok(Configuration { settings: Settings::begin(file, lines, flags)?, users: Users::default() })
    }

    /// The users and what each of them may do.
    #[inline]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Joins a segment, or reads what other processes have changed since: see [`Settings::join_with`].
    ///
    /// # Errors
    /// [`Stop::Busy`] when another thread holds the settings for long; what the memory says. It can be done again then.
    pub fn join(&self, table: &Table) -> Result<(), Stop> {
        self.settings.join_with(table, &self.users)
    }
}

impl Companion for Users {
    fn is_declared(&self, settings: &Settings) -> bool {
        self.are_declared(settings)
    }

    fn is_missing(&self, txn: &Txn<'_>) -> Result<bool, Stop> {
        Ok(!users::are_kept(txn)?)
    }

    fn begin(&self, txn: &Txn<'_>, settings: &Settings) -> Result<(), Stop> {
        self.begin_in(txn, settings)
    }

    fn follow(&self, txn: &Txn<'_>, id: Id, parsed: &Parsed) -> Result<(), Stop> {
        publish_users(txn, id, parsed)
    }

    fn refresh(&self, table: &Table) {
        Users::refresh(self, table);
    }
}

/// Writes a Segment-scope value, the mark by which the other processes notice, and what follows for the users.
///
/// # Errors
/// What the memory says.
pub fn publish(txn: &Txn<'_>, id: Id, parsed: &Parsed) -> Result<(), Stop> {
    publish_users(txn, id, parsed)?;
    store::publish(txn, id, parsed)
}

fn publish_users(txn: &Txn<'_>, id: Id, parsed: &Parsed) -> Result<(), Stop> {
    if id == const { self::id("requirepass") } {
        users::set_default_password(txn, &parsed.text)
    } else {
        Ok(())
    }
}

/// Renames the commands of this process as the lines of a file say, in their order.
///
/// # Errors
/// The first line that names no command, or a name that is taken.
pub fn rename(renames: &[Rename]) -> Result<(), Wrong> {
    if renames.is_empty() {
        return Ok(());
    }
    let pairs: Vec<(&[u8], &[u8])> =
        renames.iter().map(|rename| (&rename.old[..], &rename.new[..])).collect();
    lookup::rename(&pairs).map_err(|(at, reason)| Wrong {
        place: renames[at].place.clone(),
        reason: format!("rename-command: {reason}"),
    })
}
