//! The settings as one process sees them, and how all processes of a segment come to agree.
//!
//! ```text
//!   file, flags --begin()--> numbers[id]  atomics, a load each: hot paths
//!                            texts[id]    canonical text, under a lock: CONFIG GET, start-up
//!                               ^
//!                               | refresh(): when the version of the mark has moved, all are read again
//!   segment, hidden database:   setting:maxmemory   setting:number-mode   ...   settings (the mark)
//! ```
//!
//! CONFIG SET writes the Segment-scope values and the mark in its own transaction. Every other
//! process notices at its next [`Settings::refresh`] (a server refreshes with each round of
//! maintenance, CONFIG GET and SET by themselves). If that transaction is dropped after all, the
//! mark's version differs from what was seen, and the next refresh corrects the cache.
//! Precedence at start: first value < file < segment < flag; a flag is also written to the segment.
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use polder_table::interest::{EVENT_CLASSES, set_events};
use polder_table::{Db, Limits, Mode, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, Value};

use super::file::{Assignment, Wrong};
use super::value::{self, Parsed};
use super::{Id, Scope, id};

/// The key that is written whenever a Segment-scope setting changes.
const MARK: &[u8] = b"settings";
/// How long a starting process waits for one that holds the settings, and may be stopped.
const START_PATIENCE: Duration = Duration::from_secs(2);
/// How long one that serves does: maintenance comes back.
const PATIENCE: Duration = Duration::from_micros(100);
/// What takes a command's short way is smaller than this, request and reply.
const SHORT_BYTES: u64 = 640 << 10;
/// The step of the clock that counts of calls are timed with; what is shorter needs the exact clock.
pub const COARSE_NS: u64 = 10_000_000;

/// What joins a segment together with the settings, in the same transaction: the users, which the
/// settings know nothing of.
pub trait Companion {
    /// Whether the configuration declares something that a segment without it is to be given.
    fn is_declared(&self, settings: &Settings) -> bool;

    /// Whether the segment has none of it.
    ///
    /// # Errors
    /// [`Stop::Retry`], a fault.
    fn is_missing(&self, txn: &Txn<'_>) -> Result<bool, Stop>;

    /// Writes what is declared to a segment that has none.
    ///
    /// # Errors
    /// What is wrong with the declarations; what the memory says.
    fn begin(&self, txn: &Txn<'_>, settings: &Settings) -> Result<(), Stop>;

    /// Writes what follows from a setting that is written to the segment.
    ///
    /// # Errors
    /// What the memory says.
    fn follow(&self, txn: &Txn<'_>, id: Id, parsed: &Parsed) -> Result<(), Stop>;

    /// Reads the segment again; the transaction has been committed.
    fn refresh(&self, table: &Table);
}

/// One process's settings.
pub struct Settings {
    numbers: Box<[AtomicI64]>,
    texts: RwLock<Box<[Arc<[u8]>]>>,
    version: AtomicU64,
    /// Where requests or replies begin to be large; `u64::MAX` if they are not to be noted.
    large_bytes: AtomicU64,
    /// Each call is to be looked at by itself.
    every_call: AtomicBool,
    /// The cost of calls is to be known whatever the settings say.
    watched: AtomicBool,
    /// The mark's version at the last refresh.
    seen: AtomicU64,
    /// The segment's settings have been read once.
    joined: AtomicBool,
    /// What file and flags said about Segment-scope settings, until a segment is joined.
    pending: Mutex<Vec<Pending>>,
    /// Settings of the file that the segment holds with other values: the segment's count.
    overruled: Mutex<Vec<&'static str>>,
    file: Option<PathBuf>,
    /// What file or flags said something about.
    given: Vec<Id>,
}

struct Pending {
    id: Id,
    parsed: Parsed,
    /// Given by flag: wins over the segment.
    wins: bool,
}

impl Default for Settings {
    /// First values only: what an embedder starts from.
    fn default() -> Settings {
        let first: Vec<Parsed> = Id::all().map(|id| value::start(id.row())).collect();
        let settings = Settings {
            numbers: first.iter().map(|parsed| AtomicI64::new(parsed.number)).collect(),
            texts: RwLock::new(first.into_iter().map(|parsed| Arc::from(parsed.text)).collect()),
            version: AtomicU64::new(1),
            large_bytes: AtomicU64::new(u64::MAX),
            every_call: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            joined: AtomicBool::new(false),
            pending: Mutex::default(),
            overruled: Mutex::default(),
            file: None,
            given: Vec::new(),
        };
        let folder = std::env::current_dir().unwrap_or_default();
        settings.set(
            const { id("dir") },
            Parsed { number: 0, text: folder.into_os_string().into_encoded_bytes() },
        );
        settings
    }
}

impl Settings {
    /// What a file and then flags say, over the first values. `file` is where CONFIG REWRITE will write.
    ///
    /// # Errors
    /// The first line or flag whose value is wrong.
    pub fn begin(
        file: Option<PathBuf>,
        lines: &[Assignment],
        flags: &[Assignment],
    ) -> Result<Settings, Wrong> {
        let given = lines.iter().chain(flags).map(|assignment| assignment.id).collect();
        let settings = Settings { file, given, ..Settings::default() };
        let sources = lines.iter().map(|line| (line, false)).chain(flags.iter().map(|flag| (flag, true)));
        for (assignment, wins) in sources {
            let words: Vec<&[u8]> = assignment.words.iter().map(Vec::as_slice).collect();
            let row = assignment.id.row();
            let parsed = value::parse(row, &words, &settings.text(assignment.id))
                .map_err(|reason| assignment.wrong(&reason))?;
            settings.set(assignment.id, parsed.clone());
            if row.scope == Scope::Segment {
                // The last word counts, as with the settings of the process.
                settings.pending().retain(|earlier| earlier.id != assignment.id);
                settings.pending().push(Pending { id: assignment.id, parsed, wins });
            }
        }
        Ok(settings)
    }

    /// These settings as a log of commands is read with: nothing refuses a write that has been made before.
    pub fn for_replay(&self) -> Settings {
        let replay = Settings::default();
        let same = |id| Parsed { number: self.number(id), text: self.text(id).to_vec() };
        Id::all().for_each(|id| replay.set(id, same(id)));
        for (id, number) in
            [(const { id("min-replicas-to-write") }, 0), (const { id("proto-max-bulk-len") }, i64::MAX)]
        {
            replay.set(id, Parsed { number, text: number.to_string().into_bytes() });
        }
        replay
    }

    /// Whether file or flags said something about a setting.
    pub fn is_given(&self, id: Id) -> bool {
        self.given.contains(&id)
    }

    /// Joins a segment: flags are written to it, the file's values where it has none, the rest is
    /// read. Done again, it reads what others have changed since, or leaves that to the next time
    /// if another thread holds it. `companion` joins with them.
    ///
    /// # Errors
    /// [`Stop::Busy`] when another thread holds the settings for too long; what the memory says. It
    /// can be done again then.
    pub fn join_with(&self, table: &Table, companion: &dyn Companion) -> Result<(), Stop> {
        let joined = self.joined.load(Ordering::Acquire);
        let mut pending = self.pending();
        let writes = !pending.is_empty() || !joined && companion.is_declared(self);
        let txn = table.begin(if writes { Mode::Write } else { Mode::Read })?;
        txn.limit_patience(if joined { PATIENCE } else { START_PATIENCE });
        loop {
            match self.settle(table, &txn, &pending, joined, companion).and_then(|()| txn.commit()) {
                Err(Stop::Retry) => txn.abort(),
                Err(Stop::Busy) if joined => return Ok(()),
                Err(stop) => return Err(stop),
                Ok(()) => break,
            }
        }
        let overruled = pending
            .iter()
            .filter(|new| !new.wins && *self.text(new.id) != *new.parsed.text)
            .map(|new| new.id.row().name);
        self.overruled.lock().unwrap_or_else(PoisonError::into_inner).extend(overruled);
        pending.clear();
        drop(txn);
        companion.refresh(table);
        self.joined.store(true, Ordering::Release);
        Ok(())
    }

    /// Settings of the file without effect, since the segment has had other values before; told once.
    pub fn take_overruled(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.overruled.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn settle(
        &self,
        table: &Table,
        txn: &Txn<'_>,
        pending: &[Pending],
        joined: bool,
        companion: &dyn Companion,
    ) -> Result<(), Stop> {
        let begins = !joined && companion.is_missing(txn)?;
        for new in pending {
            if new.wins || txn.peek(SYSTEM, &key(new.id))?.is_none() {
                publish(txn, new.id, &new.parsed)?;
                companion.follow(txn, new.id, &new.parsed)?;
            }
        }
        if begins {
            companion.begin(txn, self)?;
        }
        self.refresh(table, txn)
    }

    /// Reads the segment's settings again if any has changed since the last time.
    ///
    /// # Errors
    /// What the memory says.
    pub fn refresh(&self, table: &Table, txn: &Txn<'_>) -> Result<(), Stop> {
        let version = txn.peek(SYSTEM, MARK)?.map_or(0, |mark| mark.version);
        if version == self.seen.load(Ordering::Acquire) {
            return Ok(());
        }
        for id in Id::all().filter(|id| id.row().scope == Scope::Segment) {
            let row = id.row();
            let parsed = match txn.peek(SYSTEM, &key(id))? {
                Some(found) => match found.value {
                    // What another version of Polder wrote and this one cannot read leaves our value as it is.
                    Value::Packed(text) => value::parse(row, &value::split(row, text), &self.text(id)).ok(),
                    Value::Tree(_) => None,
                },
                None => Some(value::start(row)),
            };
            if let Some(parsed) = parsed {
                self.set(id, parsed);
            }
        }
        self.apply_limits(table);
        self.seen.store(version, Ordering::Release);
        Ok(())
    }

    /// Hands the settings that limit memory to the table, which keeps them in the segment for every process.
    fn apply_limits(&self, table: &Table) {
        let now = table.limits();
        let limits = Limits {
            memory_max: self.number(const { id("maxmemory") }) as u64,
            policy: value::policy(self.number(const { id("maxmemory-policy") })),
            samples: self.number(const { id("maxmemory-samples") }) as u32,
            lfu_log_factor: self.number(const { id("lfu-log-factor") }) as u32,
            lfu_decay_minutes: self.number(const { id("lfu-decay-time") }) as u32,
            active_expiry: now.active_expiry,
            importing: self.is_on(const { id("import-mode") }),
        };
        if limits != now {
            table.set_limits(limits);
        }
        let events = self.number(const { id("notify-keyspace-events") }) as u64;
        let misses =
            EVENT_CLASSES.iter().position(|class| *class == b'm').is_some_and(|at| events >> at & 1 != 0);
        set_events(table.segment(), events, misses);
    }

    /// The setting's number: see [`value::Parsed`]. One load.
    #[inline]
    pub fn number(&self, id: Id) -> i64 {
        self.numbers[id.0].load(Ordering::Relaxed)
    }

    /// How many databases clients can select.
    pub fn databases(&self) -> Db {
        self.number(const { id("databases") }) as Db
    }

    /// Whether a switch is on.
    #[inline]
    pub fn is_on(&self, id: Id) -> bool {
        self.number(id) != 0
    }

    /// How large a request or reply must be to be noted; `u64::MAX` if none are to be noted.
    #[inline]
    pub fn large_bytes(&self) -> u64 {
        self.large_bytes.load(Ordering::Relaxed)
    }

    /// Whether each call is to be timed by itself: calls are to be noted that are shorter than the
    /// coarse clock shows, or smaller than what may take a fast path.
    #[inline]
    pub fn wants_every_call(&self) -> bool {
        self.every_call.load(Ordering::Relaxed)
    }

    /// Has each call timed by itself whatever the settings say, or no more.
    pub fn watch_every_call(&self, wanted: bool) {
        // Others derive under this lock, too.
        let _texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        if self.watched.swap(wanted, Ordering::Relaxed) != wanted {
            self.derive();
        }
    }

    /// Makes what hot paths ask of several settings at once.
    fn derive(&self) {
        let least = |threshold, length| {
            if self.number(length) == 0 {
                u64::MAX
            } else {
                u64::try_from(self.number(threshold)).unwrap_or(u64::MAX)
            }
        };
        let requests = least(
            const { id("commandlog-request-larger-than") },
            const { id("commandlog-large-request-max-len") },
        );
        let replies = least(
            const { id("commandlog-reply-larger-than") },
            const { id("commandlog-large-reply-max-len") },
        );
        let large = requests.min(replies);
        let slower_us = self.number(const { id("slowlog-log-slower-than") });
        let monitor_ms = self.number(const { id("latency-monitor-threshold") });
        let closely = (0..(COARSE_NS / 1000) as i64).contains(&slower_us)
            || (1..(COARSE_NS / 1_000_000) as i64).contains(&monitor_ms)
            || large < SHORT_BYTES;
        self.large_bytes.store(large, Ordering::Relaxed);
        self.every_call.store(closely || self.watched.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The setting's canonical text.
    pub fn text(&self, id: Id) -> Arc<[u8]> {
        self.texts.read().unwrap_or_else(PoisonError::into_inner)[id.0].clone()
    }

    /// As [`Settings::text`], for settings whose values are words.
    pub fn string(&self, id: Id) -> String {
        String::from_utf8_lossy(&self.text(id)).into_owned()
    }

    /// Moves whenever any value changes: what is derived from settings is derived anew only then.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Where the settings came from and CONFIG REWRITE writes them.
    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// Changes a value in this process only; [`publish`] tells the others.
    pub fn set(&self, id: Id, parsed: Parsed) {
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        self.numbers[id.0].store(parsed.number, Ordering::Relaxed);
        self.derive();
        if *texts[id.0] != *parsed.text {
            texts[id.0] = Arc::from(parsed.text);
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Vec<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(id: Id) -> Vec<u8> {
    [b"setting:", id.row().name.as_bytes()].concat()
}

/// Writes a Segment-scope value, and the mark by which the other processes notice.
///
/// # Errors
/// What the memory says.
pub fn publish(txn: &Txn<'_>, id: Id, parsed: &Parsed) -> Result<(), Stop> {
    txn.write(SYSTEM, &key(id), &New::of(Kind::String, Value::Packed(&parsed.text)), Replaces::Whole)?;
    txn.write(SYSTEM, MARK, &New::of(Kind::String, Value::Packed(id.row().name.as_bytes())), Replaces::Whole)
}
