//! The form in which a save writes the data: an RDB file, or commands.
use polder_base::time::now_ms;
use polder_calls::settings::{Settings, id};
use polder_commands::{dump, flush};
use polder_table::{ASIDE_NAME, Aside, Db, Found, ItemExtras, Table};
use polder_wire::rdb::{Form, Writer};
use polder_wire::rebuild::{CommandWriter, ValueWriter};

use super::{FLUSHES, ITEM};

/// The taker of a save.
pub enum Target {
    Rdb(Box<Writer>),
    Commands(Box<Commands>),
}

/// The commands that make the data again.
#[derive(Default)]
pub struct Commands {
    writer: CommandWriter,
    tells_time: bool,
    /// The flags and marks of the current key, which are written behind the value.
    aside: Option<Vec<u8>>,
}

impl Target {
    /// Commands, as the settings want them.
    pub fn commands(settings: &Settings) -> Target {
        let tells_time = settings.is_on(const { id("aof-timestamp-enabled") });
        Target::Commands(Box::new(Commands { tells_time, ..Commands::default() }))
    }

    /// An RDB file for a replica, in the version that it is known to read, else in the lowest. Its first line cannot be mended at the end.
    pub fn for_replica(settings: &Settings, version: Option<u32>) -> Target {
        let form = match dump::form(settings) {
            Form::Lowest => Form::Fixed(version.unwrap_or(10)),
            form => form,
        };
        Target::Rdb(Box::new(dump::writer_of(settings, form)))
    }

    /// The place of the data in the change log.
    pub fn stream(&mut self, identity: &str, offset: u64, db: Option<Db>) {
        if let Target::Rdb(writer) = self {
            writer.aux(b"repl-stream-db", db.unwrap_or(0).to_string().as_bytes());
            writer.aux(b"repl-id", identity.as_bytes());
            writer.aux(b"repl-offset", offset.to_string().as_bytes());
        }
    }

    /// Begins the file. `version` is what clients are told.
    pub fn begin(&mut self, checksums: bool, version: &str, table: &Table) {
        match self {
            Target::Rdb(writer) => {
                writer.begin_file(checksums);
                writer.aux(b"redis-ver", version.as_bytes());
                writer.aux(b"redis-bits", b"64");
                writer.aux(b"ctime", (now_ms() / 1000).to_string().as_bytes());
                writer.aux(b"used-mem", table.usage().used.to_string().as_bytes());
                writer.aux(b"aof-base", b"0");
            }
            Target::Commands(commands) if commands.tells_time => {
                commands.writer.line(&format!("#TS:{}", now_ms() / 1000));
            }
            Target::Commands(_) => {}
        }
    }

    /// A library of functions.
    pub fn functions(&mut self, code: &[u8]) {
        match self {
            Target::Rdb(writer) => writer.functions(code),
            Target::Commands(commands) => commands.writer.command(&[b"FUNCTION", b"LOAD", code]),
        }
    }

    /// Which databases are to be emptied, and when, as [`flush::kept_at`] returns it.
    pub fn flushes(&mut self, kept: &[u8]) {
        match self {
            Target::Rdb(_) if kept.is_empty() => {}
            Target::Rdb(writer) => writer.aux(FLUSHES, kept),
            Target::Commands(commands) => {
                for (db, moment_ms) in flush::moments(kept) {
                    commands.select(db);
                    commands.writer.command(&[ASIDE_NAME, &Aside::Flush { moment_ms }.text()]);
                }
            }
        }
    }

    /// The database of the keys that follow.
    pub fn database(&mut self, db: Db, keys: u64, expires: u64) {
        match self {
            Target::Rdb(writer) => {
                writer.database(db.into());
                writer.sizes(keys, expires);
            }
            Target::Commands(commands) => commands.select(db),
        }
    }

    /// The key whose value comes next; `clock` is its idle time in seconds, or its access frequency.
    pub fn key(&mut self, key: &[u8], found: &Found<'_>, (idle, frequency): (Option<u64>, Option<u8>)) {
        match self {
            Target::Rdb(writer) => {
                if found.flags != 0 || !found.extras.is_empty() {
                    writer.aux(ITEM, &[&found.flags.to_le_bytes(), found.extras].concat());
                }
                writer.key(key, found.expiry_ms, idle, frequency);
            }
            Target::Commands(commands) => {
                let extras = ItemExtras::decode(found.extras).portable();
                let is_item = found.flags != 0 || extras != ItemExtras::default();
                commands.aside = is_item.then(|| Aside::Item { key, flags: found.flags, extras }.text());
                commands.writer.key(key, found.expiry_ms);
            }
        }
    }

    /// The writer of the current key's value.
    pub fn values(&mut self) -> &mut dyn ValueWriter {
        match self {
            Target::Rdb(writer) => &mut **writer,
            Target::Commands(commands) => &mut commands.writer,
        }
    }

    /// Ends a key, after its value.
    pub fn end_key(&mut self) {
        if let Target::Commands(commands) = self
            && let Some(aside) = commands.aside.take()
        {
            commands.writer.command(&[ASIDE_NAME, &aside]);
        }
    }

    /// Ends the file; returns the first line that it gets, if that is another than it has.
    pub fn end(&mut self) -> Option<[u8; 9]> {
        match self {
            Target::Rdb(writer) => writer.end_file(),
            Target::Commands(_) => None,
        }
    }
}

impl Commands {
    fn select(&mut self, db: Db) {
        self.writer.command(&[b"SELECT", db.to_string().as_bytes()]);
    }
}
