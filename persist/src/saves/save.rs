//! Writing a file of all databases as they were at one instant ([`polder_table::Snapshot`]), while all other calls go on: an RDB file, or the
//! commands that make the data again.
//!
//! The file is written under a temporary name, synced, and renamed, so that there is a whole one at any time.
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_table::snapshot::Item;
use polder_table::{Db, Policy, SYSTEM, Snapshot, Stop, Table, clock};
use polder_wire::rebuild::ValueWriter;

use super::target::Target;
use polder_calls::settings::{Settings, id};
use polder_commands::dump::{Source, encode, writer};
use polder_commands::flush;
use polder_runtime::scripts::codes_at;

/// How long a save waits for transactions that were begun before it, and for another save of the same memory.
const PATIENCE: Duration = Duration::from_secs(60);
/// The niceness of a save in the background: threads that serve clients come first if there is no
/// core for all.
const NICENESS: i32 = 10;
/// Bytes that are handed to the file at once, and after how many they are synced on the way.
const DRAIN_BYTES: usize = 256 << 10;
const SYNC_BYTES: u64 = 32 << 20;

/// What a save is told; it works on while the settings change.
pub struct Plan {
    target: Target,
    pub path: PathBuf,
    drops_expiries: bool,
    checksums: bool,
    syncs: bool,
    key_delay: Duration,
    version: String,
    /// The place of the data in the change log, for a replica.
    stream: Option<StreamPlace>,
}

/// The place of a copy in the change log, which is known when the snapshot has been taken.
#[derive(Clone, Debug)]
pub struct StreamPlace {
    pub identity: String,
    cut: Arc<OnceLock<(u64, Option<Db>)>>,
}

impl StreamPlace {
    /// A place in this stream.
    pub fn of(identity: &str) -> StreamPlace {
        StreamPlace { identity: identity.to_owned(), cut: Arc::default() }
    }

    /// Names the offset of the cut, and the database that is selected there.
    pub fn set(&self, offset: u64, db: Option<Db>) {
        // A snapshot is taken once.
        let _ = self.cut.set((offset, db));
    }
}

/// How a save takes its snapshot; it gives up when the second argument says so.
pub type Begin<'b> =
    dyn for<'t> FnMut(&'t Table, &mut dyn FnMut() -> bool) -> Result<Snapshot<'t>, Fault> + 'b;

/// How far a save has come, and whether it is to stop.
#[derive(Default)]
pub struct Progress {
    pub keys: AtomicU64,
    pub total: AtomicU64,
    pub cancelled: AtomicBool,
}

/// The file that the settings name.
pub fn path(settings: &Settings) -> PathBuf {
    let text = |id| PathBuf::from(String::from_utf8_lossy(&settings.text(id)).into_owned());
    text(const { id("dir") }).join(text(const { id("dbfilename") }))
}

impl Plan {
    /// What the settings say now, for the file that they name or another one.
    pub fn of(settings: &Settings, path: PathBuf) -> Plan {
        let delay = settings.number(const { id("rdb-key-save-delay") });
        Plan {
            target: Target::Rdb(Box::new(writer(settings))),
            path,
            drops_expiries: settings.is_on(const { id("rdb-drop-field-expiries") }),
            checksums: settings.is_on(const { id("rdbchecksum") }),
            syncs: settings.is_on(const { id("rdb-save-incremental-fsync") }),
            key_delay: Duration::from_micros(delay.max(0) as u64),
            version: settings.string(const { id("redis-version") }),
            stream: None,
        }
    }

    /// A copy for a replica, which no file is renamed for: see [`Plan::write`].
    pub fn of_stream(settings: &Settings, path: PathBuf, version: Option<u32>, stream: StreamPlace) -> Plan {
        let plan = Plan::of(settings, path);
        Plan { target: Target::for_replica(settings, version), syncs: false, stream: Some(stream), ..plan }
    }

    /// The base of an append-only log at this path.
    pub fn of_base(settings: &Settings, path: PathBuf, is_rdb: bool) -> Plan {
        let plan = Plan::of(settings, path);
        match is_rdb {
            true => plan,
            false => Plan { target: Target::commands(settings), ..plan },
        }
    }

    /// As [`Plan::save`], in a thread of its own, which others come before.
    ///
    /// # Errors
    /// As there.
    pub fn save_gently(self, table: &Table, progress: &Progress) -> Result<u64, String> {
        // Linux knows this of each thread. Where it is not allowed, all are alike.
        let _ = rustix::process::nice(NICENESS);
        self.save(table, progress)
    }

    /// Writes the file. Returns how many keys it holds.
    ///
    /// # Errors
    /// What went wrong, in words; the file that was there before is still there then.
    pub fn save(self, table: &Table, progress: &Progress) -> Result<u64, String> {
        self.save_from(table, progress, &mut |table, goes_on| table.snapshot(goes_on))
    }

    /// As [`Plan::save`], of a snapshot that `begin` takes.
    ///
    /// # Errors
    /// As there; what `begin` says.
    pub fn save_from(self, table: &Table, progress: &Progress, begin: &mut Begin<'_>) -> Result<u64, String> {
        let folder = self
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
            .to_owned();
        let path = self.path.clone();
        let fresh = folder.join(format!("temp-{}-{}.rdb", std::process::id(), unique()));
        let told = |error: io::Error| format!("{}: {error}", path.display());
        let file = File::create(&fresh).map_err(told)?;
        let written = self.write(table, progress, &file, begin).and_then(|keys| {
            file.sync_all().map_err(told)?;
            std::fs::rename(&fresh, &path).map_err(told)?;
            // The name is safe only when the folder is on the disk.
            File::open(&folder).and_then(|folder| folder.sync_all()).map_err(told)?;
            Ok(keys)
        });
        if written.is_err() {
            // The reason matters more than a file that could not be removed either.
            let _ = std::fs::remove_file(&fresh);
        }
        written
    }

    /// Writes to a file that stays under its name. Returns how many keys it holds.
    ///
    /// # Errors
    /// As [`Plan::save`].
    pub fn write(
        self,
        table: &Table,
        progress: &Progress,
        file: &File,
        begin: &mut Begin<'_>,
    ) -> Result<u64, String> {
        let mut out = Out { file, path: self.path, syncs: self.syncs, unsynced: 0 };
        let mut target = self.target;
        target.begin(self.checksums, &self.version, table);
        let end = Instant::now() + PATIENCE;
        let mut goes_on = || Instant::now() < end && !progress.cancelled.load(Ordering::Relaxed);
        let snapshot = begin(table, &mut goes_on).map_err(|fault| fault.to_string())?;
        if let Some((stream, (offset, db))) = self.stream.as_ref().and_then(|at| Some((at, at.cut.get()?))) {
            target.stream(&stream.identity, *offset, *db);
        }
        codes_at(&snapshot).map_err(|stop| stop.to_string())?.iter().for_each(|code| target.functions(code));
        let flushes = flush::kept_at(&snapshot).map_err(|stop| stop.to_string())?;
        target.flushes(&flushes);
        let mut walk = Walk {
            table,
            progress,
            out: &mut out,
            drops_expiries: self.drops_expiries,
            key_delay: self.key_delay,
            keys: 0,
        };
        let mut current = None;
        while let Some((number, items)) = snapshot.advance().map_err(|stop| stop.to_string())? {
            let captured = snapshot.databases()[number];
            if captured.db == SYSTEM || items.is_empty() {
                continue;
            }
            if current.replace(number) != Some(number) {
                target.database(captured.db, captured.keys, captured.expires);
            }
            items.iter().try_for_each(|item| walk.key(&mut target, &snapshot, item))?;
        }
        let keys = walk.keys;
        drop(snapshot);
        let line = target.end();
        out.drain(target.values(), true)?;
        if let Some(line) = line {
            std::os::unix::fs::FileExt::write_all_at(file, &line, 0).map_err(|error| out.told(&error))?;
        }
        Ok(keys)
    }
}

/// A number that this process has not given yet: two saves of it must not write the same temporary file.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The file that grows.
struct Out<'f> {
    file: &'f File,
    path: PathBuf,
    syncs: bool,
    unsynced: u64,
}

impl Out<'_> {
    fn told(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// Takes what the writer has, if it is much or all of it is asked for.
    fn drain(&mut self, writer: &mut dyn ValueWriter, all: bool) -> Result<(), String> {
        let bytes = writer.bytes();
        if bytes.len() < DRAIN_BYTES && !all {
            return Ok(());
        }
        self.file.write_all(bytes).map_err(|error| self.told(&error))?;
        self.unsynced += bytes.len() as u64;
        writer.taken();
        if self.syncs && self.unsynced >= SYNC_BYTES {
            // A little at a time, so that the last sync has not everything to do at once.
            self.file.sync_data().map_err(|error| self.told(&error))?;
            self.unsynced = 0;
        }
        Ok(())
    }
}

/// The way through the keys.
struct Walk<'w, 'f> {
    table: &'w Table,
    progress: &'w Progress,
    out: &'w mut Out<'f>,
    drops_expiries: bool,
    key_delay: Duration,
    keys: u64,
}

impl Walk<'_, '_> {
    fn key(&mut self, target: &mut Target, snapshot: &Snapshot<'_>, item: &Item) -> Result<(), String> {
        if self.progress.cancelled.load(Ordering::Relaxed) {
            return Err("it was cancelled".into());
        }
        if !self.key_delay.is_zero() {
            std::thread::sleep(self.key_delay);
        }
        // Expired by then, else.
        let Some(found) = snapshot.found(item).map_err(|fault| fault.to_string())? else { return Ok(()) };
        target.key(&item.key, &found, self.clock(snapshot.now_ms(), found.clock));
        let mut drain = |writer: &mut dyn ValueWriter| self.out.drain(writer, false).map_err(Stop::from);
        // A field that has expired must not live for ever.
        let now_ms = if self.drops_expiries { snapshot.now_ms() } else { snapshot.judged_ms() };
        let source = Source { nodes: &snapshot.view(), now_ms, drops_expiries: self.drops_expiries };
        encode(target.values(), &source, found.kind, &found.value, &mut drain)
            .map_err(|stop| format!("the key '{}': {stop}", item.key.escape_ascii()))?;
        target.end_key();
        self.keys += 1;
        self.progress.keys.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// What the policy of eviction knows of a key's accesses, where it knows anything.
    fn clock(&self, now_ms: u64, word: u32) -> (Option<u64>, Option<u8>) {
        let limits = self.table.limits();
        match limits.policy {
            policy if policy.goes_by_time() => (Some(clock::idle_seconds(word, now_ms)), None),
            Policy::AllkeysLfu | Policy::VolatileLfu => {
                (None, Some(clock::frequency(word, now_ms, limits.lfu_decay_minutes)))
            }
            _ => (None, None),
        }
    }
}
