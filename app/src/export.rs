//! `polder export`: the keys of a segment, or of a server (by SCAN and DUMP), into an RDB file.
use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::ProgressBar;
use polder_base::time::now_ms;
use polder_engine::Memory;
use polder_persist::opened;
use polder_persist::persistence::save::{Plan, Progress};
use polder_persist::saves::ITEM;
use polder_table::ItemExtras;
use polder_wire::rdb::{Form, Thresholds, Writer, open};
use polder_wire::resp::Value;

use crate::link::Link;
use crate::peer::{self, Opened, Peer, call};
use crate::text::reason;
use crate::text::{self, Failed};

/// The lowest version in which a file is written.
const VERSION_MIN: u32 = 10;
/// Keys asked of a server at once, and bytes handed to the file at once.
const BATCH: &str = "256";
const DRAIN_BYTES: usize = 256 << 10;

/// Writes the keys of a segment or a server to an RDB file that Redis and Valkey load. Servers may go on working meanwhile: the keys of a
/// segment are in the file as they were at one instant, each key of a server as it was at some moment.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// The RDB file; one that is there is replaced when the new one is whole.
    file: PathBuf,
    #[command(flatten)]
    peer: Peer,
    /// The file's version: lowest, 10 (Redis 7.0), 11 (Redis 7.2, Valkey 8), 12 (Redis 7.4), 13 (Redis 8.6), 14 (Redis 8.8), 80 (Valkey 9). A server's values are taken as
    /// they come.
    #[arg(long, value_name = "VERSION", default_value = "lowest")]
    rdb_version: String,
    /// Leave out expiries of fields where the version cannot hold them.
    #[arg(long)]
    drop_field_expiries: bool,
    /// Do not compress strings.
    #[arg(long)]
    no_compression: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    match export(arguments) {
        Ok(keys) => {
            println!("{} keys written to {}", text::count(keys), arguments.file.display());
            ExitCode::SUCCESS
        }
        Err(failed) => failed.tell(),
    }
}

fn export(arguments: &Arguments) -> Result<u64, Failed> {
    match arguments.peer.open(false)? {
        Opened::Segment(memory) => {
            opened::check_open(memory.table())?;
            Ok(from_segment(&memory, arguments)?)
        }
        Opened::Server(mut link) => Ok(from_link(&mut link, &arguments.file, false)?),
    }
}

fn from_segment(memory: &Memory, arguments: &Arguments) -> Result<u64, String> {
    let settings = peer::settings(&[
        ("rdb-version", Some(arguments.rdb_version.clone())),
        ("rdb-drop-field-expiries", arguments.drop_field_expiries.then(|| "yes".into())),
        ("rdbcompression", arguments.no_compression.then(|| "no".into())),
    ])?;
    let table = memory.table();
    settings.join(table).map_err(|stop| stop.to_string())?;
    let (plan, progress) = (Plan::of(&settings, arguments.file.clone()), Progress::default());
    let total = (0..polder_table::SYSTEM).map(|db| table.keys(db).0).sum();
    let bar = peer::bar(total, "keys");
    let saved = std::thread::scope(|scope| {
        let saving = scope.spawn(|| plan.save(table, &progress));
        while !saving.is_finished() {
            bar.set_position(progress.keys.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(20));
        }
        saving.join().unwrap_or_else(|_| Err("the save panicked".into()))
    });
    bar.finish_and_clear();
    saved
}

/// Keys that were written, by 128 bits of hash: a server may show a key twice.
#[derive(Default)]
struct Seen {
    states: [RandomState; 2],
    hashes: HashSet<(u64, u64)>,
}

impl Seen {
    fn add(&mut self, key: &[u8]) -> bool {
        let [one, two] = &self.states;
        self.hashes.insert((one.hash_one(key), two.hash_one(key)))
    }
}

/// The file from a server, under a temporary name.
struct Export<'e> {
    link: &'e mut Link,
    writer: Writer,
    file: File,
    bar: ProgressBar,
    keys: u64,
    has_items: bool,
    /// The file's version, and the highest of what the server has dumped.
    version: u32,
    newest: u32,
}

/// Writes what is behind a connection to a file: keys and functions, or the functions alone. Returns how many keys.
///
/// # Errors
/// What went wrong, in words; a file that was there stays as it was then.
pub fn from_link(link: &mut Link, path: &Path, functions_only: bool) -> Result<u64, String> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let written = write_from_server(link, Path::new(&fresh), functions_only).and_then(|keys| {
        std::fs::rename(&fresh, path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(keys)
    });
    if written.is_err() {
        // The reason matters more than a file that could not be removed either.
        let _ = std::fs::remove_file(&fresh);
    }
    written
}

fn write_from_server(link: &mut Link, path: &Path, functions_only: bool) -> Result<u64, String> {
    // What the server dumps says which version the file must have. One that dumps each value in the lowest version that can hold it shows a higher
    // one only with the value that needs it: the file is begun again then.
    let mut version = probe_version(link)?.max(VERSION_MIN);
    loop {
        let (keys, newest) = write_as(link, path, version, functions_only)?;
        if newest <= version {
            return Ok(keys);
        }
        version = newest;
    }
}

/// Writes a file of a version, up to the first value that needs a higher one. Returns how many keys
/// it holds, and the version that it should have.
fn write_as(link: &mut Link, path: &Path, version: u32, functions_only: bool) -> Result<(u64, u32), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::create(path).map_err(told)?;
    let writer = Writer::new(Form::Fixed(version), true, Thresholds::default());
    let has_items = peer::has_items(link);
    let mut export = Export {
        has_items,
        link,
        writer,
        file,
        bar: peer::bar(0, "keys"),
        keys: 0,
        version,
        newest: version,
    };
    export.writer.begin_file(true);
    export.writer.aux(b"ctime", (now_ms() / 1000).to_string().as_bytes());
    if let Ok(Value::Bulk(functions)) = call(export.link, &["FUNCTION", "DUMP"]) {
        let functions = open(&functions, true).map_err(|why| why.to_string())?;
        export.writer.raw(functions.body);
    }
    let databases = if functions_only { Vec::new() } else { export.databases()? };
    for db in databases {
        export.database(db)?;
    }
    export.bar.finish_and_clear();
    if export.newest == version {
        export.writer.end_file();
        export.drain(true).map_err(told)?;
        export.file.sync_all().map_err(told)?;
    }
    Ok((export.keys, export.newest))
}

/// The version of what the server's FUNCTION DUMP or DUMP replies. If it has nothing to dump, that
/// of Redis 7.4, which holds whatever older ones do.
fn probe_version(link: &mut Link) -> Result<u32, String> {
    let of = |payload: &[u8]| {
        payload.len().checked_sub(10).map(|at| u32::from(u16::from_le_bytes([payload[at], payload[at + 1]])))
    };
    if let Ok(Value::Bulk(functions)) = call(link, &["FUNCTION", "DUMP"]) {
        return Ok(of(&functions).unwrap_or(12));
    }
    let Value::Bulk(key) = call(link, &["RANDOMKEY"])? else { return Ok(12) };
    match call(link, &[&b"DUMP"[..], &key])? {
        Value::Bulk(payload) => Ok(of(&payload).unwrap_or(12)),
        _ => Ok(12),
    }
}

/// What ITEM.GET says of a string beside its value and its expiry, as it stands in the file; `None` if it has nothing else. The marks of
/// memcached's meta commands and a CAS that a client has chosen are not kept.
fn item_of(reply: &Value) -> Option<Vec<u8>> {
    let Value::Array(words) = reply else { return None };
    let of = |name: &[u8]| {
        words
            .chunks_exact(2)
            .find_map(|pair| matches!(&pair[0], Value::Bulk(word) if word == name).then_some(&pair[1]))
    };
    let flags = if let Some(Value::Integer(flags)) = of(b"flags") { *flags as u32 } else { 0 };
    let content_type: &[u8] =
        if let Some(Value::Bulk(content_type)) = of(b"type") { content_type } else { b"" };
    let extras = ItemExtras { content_type, ..ItemExtras::default() }.encode();
    (flags != 0 || !content_type.is_empty()).then(|| [&flags.to_le_bytes()[..], &extras].concat())
}

impl Export<'_> {
    /// The databases that have keys.
    fn databases(&mut self) -> Result<Vec<u32>, String> {
        let info = match call(self.link, &["INFO", "keyspace"])? {
            Value::Bulk(text) | Value::Verbatim { text, .. } => String::from_utf8_lossy(&text).into_owned(),
            _ => return Err("INFO is answered by something that is no text".into()),
        };
        let line = |line: &str| {
            let (db, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
            let keys: u64 = rest.split(',').next()?.parse().ok()?;
            self.bar.inc_length(keys);
            db.parse().ok()
        };
        Ok(info.lines().filter_map(line).collect())
    }

    fn database(&mut self, db: u32) -> Result<(), String> {
        call(self.link, &["SELECT", &db.to_string()])?;
        self.writer.database(db.into());
        let (mut cursor, mut seen) = (b"0".to_vec(), Seen::default());
        loop {
            let shown = call(self.link, &[&b"SCAN"[..], &cursor, b"COUNT", BATCH.as_bytes()])?;
            let Value::Array(parts) = shown else {
                return Err("SCAN is answered by something that is no array".into());
            };
            let (Some(Value::Bulk(next)), Some(Value::Array(keys))) = (parts.first(), parts.get(1)) else {
                return Err("SCAN is answered by something that is no cursor and keys".into());
            };
            let keys =
                keys.iter().filter_map(|key| if let Value::Bulk(key) = key { Some(&key[..]) } else { None });
            let keys: Vec<&[u8]> = keys.filter(|key| seen.add(key)).collect();
            self.batch(&keys)?;
            if next == b"0" || self.newest > self.version {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }

    fn batch(&mut self, keys: &[&[u8]]) -> Result<(), String> {
        let failed = |error: std::io::Error| reason(&error);
        for key in keys {
            self.link.send(&[b"PTTL", *key]).map_err(failed)?;
            self.link.send(&[b"DUMP", *key]).map_err(failed)?;
            if self.has_items {
                self.link.send(&[b"ITEM.GET", *key, b"PEEK", b"HEAD"]).map_err(failed)?;
            }
        }
        for key in keys {
            let left = self.link.receive().map_err(failed)?;
            let payload = self.link.receive().map_err(failed)?;
            let item = if self.has_items { item_of(&self.link.receive().map_err(failed)?) } else { None };
            let payload = match payload {
                Value::Bulk(payload) => payload,
                Value::Error(text) => {
                    return Err(format!("DUMP '{}': {}", key.escape_ascii(), String::from_utf8_lossy(&text)));
                }
                // Gone since SCAN showed it.
                _ => continue,
            };
            let expiry_ms =
                if let Value::Integer(left @ 0..) = left { Some(now_ms() + left as u64) } else { None };
            let payload =
                open(&payload, true).map_err(|why| format!("DUMP '{}': {why}", key.escape_ascii()))?;
            self.newest = self.newest.max(payload.version);
            if let Some(item) = item {
                self.writer.aux(ITEM, &item);
            }
            self.writer.key(key, expiry_ms, None, None);
            self.writer.payload(payload.body);
            self.keys += 1;
            self.drain(false).map_err(failed)?;
        }
        self.bar.inc(keys.len() as u64);
        Ok(())
    }

    fn drain(&mut self, all: bool) -> std::io::Result<()> {
        if self.writer.bytes().len() >= DRAIN_BYTES || all {
            self.file.write_all(self.writer.bytes())?;
            self.writer.taken();
        }
        Ok(())
    }
}
