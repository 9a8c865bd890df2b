//! Reading an RDB file into the table: each key is a transaction of its own.
//!
//! A transaction that must be run again reads its key again: the file is rewound to where the key begins.
use std::io::{Read, Seek, SeekFrom};

use polder_base::{Fault, number};
use polder_table::{Db, ItemExtras, Mode, New, Replaces, STAGED, SYSTEM, Stop, Table, Txn};
use polder_wire::rdb::{Begin, Item, Malformed, Mark, Reader};

use super::{FLUSHES, ITEM};
use polder_calls::settings::{Settings, id};
use polder_commands::dump::checksums_rest;
use polder_commands::dump::{Builder, Problem, set_clock};
use polder_commands::flush;
use polder_runtime::retry::retry;
pub use polder_runtime::scripts::Present;
use polder_runtime::scripts::add_codes;

/// The name under which a primary tells the selected database.
const STREAM_DB: &[u8] = b"repl-stream-db";
/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// What a load came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub keys: u64,
    /// Keys that had expired.
    pub expired: u64,
    /// Keys that were there and stayed.
    pub kept: u64,
    /// Collections without elements.
    pub empty: u64,
    /// Keys that only a module understands, with its name: the first few.
    pub foreign: Vec<(Vec<u8>, String)>,
    pub foreign_count: u64,
    /// Something that was loaded has an expiry.
    pub expires: bool,
    /// The sources of the libraries of functions.
    pub functions: Vec<Vec<u8>>,
    /// The moments at which databases are to be emptied, where they were not taken over.
    pub flushes: Option<Vec<u8>>,
    /// The database that is selected where the stream of a primary goes on behind the file.
    pub stream_db: Option<Db>,
}

/// A load that came to no good end.
#[derive(Debug)]
pub struct Cut {
    pub why: String,
    /// What had been loaded before, which stays.
    pub loaded: Box<Loaded>,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.why)
    }
}

/// What becomes of keys and fields that have expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expired {
    LeftOut,
    /// They are loaded as they are: commands that follow may have met them before they had expired.
    Kept,
}

/// The rules for what a load reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    pub present: Present,
    pub expired: Expired,
    /// It goes into the staged databases, all of it: what belongs to no database is returned, and not put anywhere.
    pub staged: bool,
}

impl Rules {
    /// The rules of a file.
    pub fn of(present: Present, expired: Expired) -> Rules {
        Rules { present, expired, staged: false }
    }
}

/// How many foreign keys are named.
const FOREIGN_NAMED: usize = 10;

/// Reads a whole file. `progress` hears how many bytes have been taken.
///
/// # Errors
/// What went wrong and where, and how much was loaded before it: that stays.
pub fn load(
    table: &Table,
    settings: &Settings,
    input: &mut (impl Read + Seek),
    present: Present,
    progress: &mut dyn FnMut(u64),
) -> Result<Loaded, Cut> {
    load_with(table, settings, input, Rules::of(present, Expired::LeftOut), progress)
}

/// As [`load`], and says what becomes of what has expired.
///
/// # Errors
/// As there.
pub fn load_with(
    table: &Table,
    settings: &Settings,
    input: &mut (impl Read + Seek),
    rules: Rules,
    progress: &mut dyn FnMut(u64),
) -> Result<Loaded, Cut> {
    let databases = settings.number(const { id("databases") }).clamp(1, SYSTEM.into()) as u64;
    let mut loading = Loading {
        table,
        settings,
        rules,
        databases,
        db: if rules.staged { STAGED } else { 0 },
        txn: None,
        builder: None,
        key: Vec::new(),
        begin: None,
        item: Vec::new(),
        is_dropped: false,
        is_empty: true,
        loaded: Loaded::default(),
    };
    let read = read_all(&mut loading, settings, input, progress);
    let Loading { loaded, .. } = loading;
    let added = read.and_then(|()| match loaded.functions.as_slice() {
        [] => Ok(()),
        _ if rules.staged => Ok(()),
        functions => {
            add_functions(table, functions, rules.present).map_err(|stop| format!("functions: {stop}"))
        }
    });
    match added {
        Ok(()) => Ok(loaded),
        Err(why) => Err(Cut { why, loaded: Box::new(loaded) }),
    }
}

fn read_all(
    loading: &mut Loading<'_>,
    settings: &Settings,
    input: &mut (impl Read + Seek),
    progress: &mut dyn FnMut(u64),
) -> Result<(), String> {
    let checks = settings.is_on(const { id("rdbchecksum") }) && !checksums_rest();
    let relaxed = settings.number(const { id("rdb-version-check") }) == 1;
    let mut reader = Reader::file(checks, relaxed);
    let mut source =
        Source { input, buffer: Vec::new(), at: 0, base: 0, ended: false, seeks: !loading.rules.staged };
    let mut mark = None;
    let mut told = 0;
    loop {
        if let Some(between) = reader.mark() {
            mark = Some(between);
            if source.base + source.at as u64 - told >= CHUNK as u64 {
                told = source.base + source.at as u64;
                progress(told);
            }
        }
        let step =
            reader.read(&source.buffer, &mut source.at).map(|item| item.map(|item| loading.take(item)));
        match (step, &mark) {
            (Ok(Some(Ok(()))), _) => {}
            (Ok(Some(Err(Trouble::Again))), Some(mark)) => {
                source.rewind(mark.taken()).map_err(|error| told_at(&error.to_string(), mark.taken()))?;
                reader.rewind(mark);
            }
            (Ok(Some(Err(Trouble::Again))), None) => {
                return Err(told_at("a key outside of the file", reader.taken()));
            }
            (Ok(Some(Err(Trouble::Words(words)))), _) => return Err(told_at(&words, reader.taken())),
            (Ok(None), _) if reader.is_done() => break,
            (Ok(None), mark) => {
                let keep = mark.as_ref().map_or(0, Mark::taken);
                source.fill(keep).map_err(|error| told_at(&error.to_string(), reader.taken()))?;
            }
            (Err(Malformed(why)), _) => return Err(told_at(&why, reader.taken())),
        }
    }
    progress(reader.taken());
    Ok(())
}

fn add_functions(table: &Table, functions: &[Vec<u8>], present: Present) -> Result<(), Stop> {
    let txn = table.begin(Mode::Write)?;
    retry(&txn, || add_codes(&txn, functions, present))
}

fn told_at(why: &str, byte: u64) -> String {
    format!("at byte {byte}: {why}")
}

/// The file, a window of which is in memory.
struct Source<'i, I> {
    input: &'i mut I,
    buffer: Vec<u8>,
    /// How much of the buffer was taken, and where in the file it begins.
    at: usize,
    base: u64,
    ended: bool,
    /// The input can go back to what was forgotten.
    seeks: bool,
}

impl<I: Read + Seek> Source<'_, I> {
    /// Reads on, and forgets what lies before `keep` in the file, or before what was taken if that is far behind.
    fn fill(&mut self, keep: u64) -> std::io::Result<()> {
        if self.ended {
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the file ends too early"));
        }
        let keep = keep.saturating_sub(self.base).min(self.at as u64) as usize;
        let forget = if self.seeks && self.at - keep > CHUNK { self.at } else { keep };
        self.buffer.drain(..forget);
        (self.base, self.at) = (self.base + forget as u64, self.at - forget);
        // As much again as waits already: a long string takes few readings.
        let wanted = CHUNK.max(self.buffer.len() - self.at);
        let read = self.input.by_ref().take(wanted as u64).read_to_end(&mut self.buffer)?;
        self.ended = read < wanted;
        if read == 0 { self.fill(0) } else { Ok(()) }
    }

    fn rewind(&mut self, to: u64) -> std::io::Result<()> {
        if let Some(at) = to.checked_sub(self.base) {
            self.at = at as usize;
            return Ok(());
        }
        self.input.seek(SeekFrom::Start(to))?;
        (self.base, self.at, self.ended) = (to, 0, false);
        self.buffer.clear();
        Ok(())
    }
}

/// Why an item was not taken.
enum Trouble {
    /// The key must be read again from its beginning.
    Again,
    Words(String),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Trouble {
        match stop {
            Stop::Retry | Stop::Busy => Trouble::Again,
            stop => Trouble::Words(stop.to_string()),
        }
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Words(fault.to_string())
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        match problem {
            Problem::Malformed(why) => Trouble::Words(why.to_string()),
            Problem::Fault(fault) => fault.into(),
        }
    }
}

/// What has become of a value.
enum Stored {
    New,
    /// Another one was there and stays.
    Kept,
    /// All its fields had expired.
    Expired,
}

/// What is known on the way through a file.
struct Loading<'t> {
    table: &'t Table,
    settings: &'t Settings,
    rules: Rules,
    databases: u64,
    db: Db,
    txn: Option<Txn<'t>>,
    builder: Option<Builder>,
    key: Vec<u8>,
    begin: Option<Begin<'static>>,
    /// What the file says of the next key as an item ([`ITEM`]).
    item: Vec<u8>,
    /// The current key is not wanted.
    is_dropped: bool,
    is_empty: bool,
    loaded: Loaded,
}

impl<'t> Loading<'t> {
    fn take(&mut self, item: Item<'_>) -> Result<(), Trouble> {
        match item {
            Item::Database(number) if number < self.databases => {
                self.db = number as Db + if self.rules.staged { STAGED } else { 0 };
            }
            Item::Database(number) => {
                return Err(Trouble::Words(format!(
                    "database {number}: there are {} (setting 'databases')",
                    self.databases
                )));
            }
            Item::Functions(source) => self.loaded.functions.push(source.to_vec()),
            Item::Foreign { key, module } => {
                self.loaded.foreign_count += 1;
                if self.loaded.foreign.len() < FOREIGN_NAMED {
                    self.loaded.foreign.push((key.to_vec(), String::from_utf8_lossy(&module).into_owned()));
                }
            }
            Item::Begin(begin) => self.begin(begin)?,
            Item::End => return self.end(),
            Item::Aux { name, value } if name == ITEM => self.item = value.to_vec(),
            Item::Aux { name, value } if name == STREAM_DB => {
                self.loaded.stream_db = number::unsigned(value).and_then(|db| Db::try_from(db).ok())
            }
            Item::Aux { name, value } if name == FLUSHES && self.rules.staged => {
                self.loaded.flushes = Some(value.to_vec())
            }
            Item::Aux { name, value } if name == FLUSHES => self.restore_flushes(value)?,
            Item::Aux { .. } | Item::Sizes { .. } | Item::Eof => {}
            _ if self.is_dropped => {}
            item => {
                self.is_empty &= matches!(item, Item::Cursor(_));
                self.loaded.expires |= matches!(item, Item::Field { expiry_ms: Some(_), .. });
                let (Some(builder), Some(txn)) = (&mut self.builder, &self.txn) else { return Ok(()) };
                let added = builder.add(txn, item);
                self.named(added)?;
            }
        }
        Ok(())
    }

    /// Takes the moments at which databases are to be emptied.
    fn restore_flushes(&self, kept: &[u8]) -> Result<(), Stop> {
        let txn = self.table.begin(Mode::Write)?;
        retry(&txn, || flush::restore(&txn, kept, self.databases, self.rules.present == Present::Replaced))
    }

    /// Names the key in what went wrong with it.
    fn named(&self, done: Result<(), Problem>) -> Result<(), Trouble> {
        done.map_err(|problem| match Trouble::from(problem) {
            Trouble::Words(words) => {
                Trouble::Words(format!("the key '{}': {words}", self.key.escape_ascii()))
            }
            again => again,
        })
    }

    fn begin(&mut self, begin: Begin<'_>) -> Result<(), Trouble> {
        // One transaction lives on when its key is read again: it knows what was missing.
        let txn = match self.txn.take() {
            Some(txn) => txn,
            None => self.table.begin(Mode::Write)?,
        };
        self.key.clear();
        self.key.extend_from_slice(begin.key);
        self.is_empty =
            !matches!(begin.kind, polder_wire::rdb::Kind::String | polder_wire::rdb::Kind::Stream);
        // The time by which keys and fields have expired.
        let now_ms = if self.rules.expired == Expired::Kept { 0 } else { txn.now_ms() };
        self.is_dropped = begin.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms);
        self.loaded.expires |= begin.expiry_ms.is_some();
        if self.is_dropped {
            self.loaded.expired += 1;
        }
        self.builder =
            (!self.is_dropped).then(|| Builder::new(begin.kind, begin.count, self.settings, now_ms));
        self.begin = Some(Begin { key: b"", ..begin });
        self.txn = Some(txn);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Trouble> {
        let (Some(txn), Some(begin)) = (self.txn.take(), self.begin.take()) else { return Ok(()) };
        let builder = self.builder.take().filter(|_| !self.is_dropped);
        let Some(mut builder) = builder else {
            self.item.clear();
            return Ok(());
        };
        if self.is_empty {
            self.loaded.empty += 1;
            self.item.clear();
            return Ok(());
        }
        let stored = self.store(&txn, &begin, &mut builder);
        match stored {
            Ok(Stored::New) => self.loaded.keys += 1,
            Ok(Stored::Kept) => self.loaded.kept += 1,
            Ok(Stored::Expired) => self.loaded.expired += 1,
            Err(Trouble::Again) => {
                txn.abort();
                self.txn = Some(txn);
                return Err(Trouble::Again);
            }
            Err(trouble) => return Err(trouble),
        }
        self.item.clear();
        Ok(())
    }

    /// Puts the finished value under its key.
    fn store(&self, txn: &Txn<'t>, begin: &Begin<'_>, builder: &mut Builder) -> Result<Stored, Trouble> {
        txn.declare(&[(self.db, &self.key[..])])?;
        let is_there = self.rules.present != Present::Replaced && txn.peek(self.db, &self.key)?.is_some();
        if is_there && self.rules.present == Present::Refused {
            return Err(Trouble::Words(format!("the key '{}' is there already", self.key.escape_ascii())));
        }
        if is_there {
            // What was built is given back with the transaction.
            return Ok(Stored::Kept);
        }
        // All fields of a hash had expired.
        let Some(new) = builder.finish(txn)? else { return Ok(Stored::Expired) };
        let mut new = New { expiry_ms: begin.expiry_ms, ..new };
        let extras;
        if new.kind == polder_values::Kind::String
            && let Some((flags, rest)) = self.item.split_first_chunk::<4>()
        {
            extras = ItemExtras::decode(rest).portable().encode();
            (new.flags, new.extras) = (u32::from_le_bytes(*flags), &extras);
        }
        txn.write(self.db, &self.key, &new, Replaces::Whole)?;
        txn.tell_as_whole();
        set_clock(self.table, txn, self.db, &self.key, begin.idle_seconds, begin.frequency)?;
        txn.commit()?;
        Ok(Stored::New)
    }
}
