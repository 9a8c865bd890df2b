//! `polder import`: the keys of an RDB file into a segment, or into a server (whose keys are made by RESTORE, items by ITEM.SET); an append-only log into a
//! segment.
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use polder_base::time::now_ms;
use polder_persist::at_start;
use polder_persist::opened::{self, Claim, Source};
use polder_persist::persistence::load::{Cut, Loaded, Present, load};
use polder_persist::replay::{self, Files, TornEnd};
use polder_persist::saves::ITEM;
use polder_table::{ItemExtras, Stop, Table};
use polder_wire::rdb::{Begin, Item, Kind, Reader, seal};
use polder_wire::resp::Value;

use crate::link::Link;
use crate::log;
use crate::peer::{self, Opened, Peer};
use crate::text::reason;
use crate::text::{self, Failed};

/// Bytes read at once; RESTOREs that are on their way at once.
const CHUNK: usize = 1 << 20;
const WINDOW: usize = 64;
/// Databases that clients may have used.
const DATABASES: u16 = 256;

/// Reads an RDB file of Redis or Valkey into a segment, which is made if there is none, or into a server. Servers may go on working
/// meanwhile.
///
/// Keys that are there already stay, unless --replace is given. Keys that have expired are left out, and so are those that only
/// a module understands; they are named.
///
/// The folder of an append-only log of Redis 7 or later (appendonlydir), or the manifest in it, is read into an empty segment. What is
/// torn at its end does not count. The files stay as they are.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// The RDB file, or the folder or manifest of an append-only log.
    file: PathBuf,
    #[command(flatten)]
    peer: Peer,
    /// Keys that are there already are replaced.
    #[arg(long)]
    replace: bool,
    /// Read versions that are not known, as far as that goes.
    #[arg(long)]
    relaxed: bool,
    /// No matter what the checksum says.
    #[arg(long)]
    ignore_checksum: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.file.is_dir() || arguments.file.extension().is_some_and(|extension| extension == "manifest")
    {
        return match import_log(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failed) => failed.tell(),
        };
    }
    match import(arguments) {
        Ok(loaded) => {
            println!("{}", told(&loaded));
            tell_foreign(&loaded);
            ExitCode::SUCCESS
        }
        Err(failed) => failed.tell(),
    }
}

fn tell_foreign(loaded: &Loaded) {
    for (key, module) in &loaded.foreign {
        println!("left out: '{}' is of the module type {module}", key.escape_ascii());
    }
}

fn told(loaded: &Loaded) -> String {
    let mut parts = vec![format!("{} keys loaded", text::count(loaded.keys))];
    for (count, what) in [
        (loaded.expired, "had expired"),
        (loaded.kept, "were there and stayed"),
        (loaded.empty, "were empty"),
        (loaded.foreign_count, "are of modules"),
        (loaded.functions.len() as u64, "libraries of functions"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", text::count(count)));
        }
    }
    parts.join(", ")
}

fn import(arguments: &Arguments) -> Result<Loaded, Failed> {
    let named = |text: String| Failed::from(format!("{}: {text}", arguments.file.display()));
    // First: no segment is made for a file that cannot be read.
    let mut file = File::open(&arguments.file).map_err(|error| named(error.to_string()))?;
    let bytes = file.metadata().map_err(|error| named(error.to_string()))?.len();
    let peer = arguments.peer.open(true)?;
    let bar = peer::bar(bytes, "bytes");
    let loaded = match peer {
        Opened::Segment(memory) => {
            opened::check_open(memory.table())?;
            let word = |on: bool, word: &str| on.then(|| word.to_owned());
            let settings = peer::settings(&[
                ("rdb-version-check", word(arguments.relaxed, "relaxed")),
                ("rdbchecksum", word(arguments.ignore_checksum, "no")),
            ])?;
            settings.join(memory.table()).map_err(|stop| stop.to_string())?;
            let present = if arguments.replace { Present::Replaced } else { Present::Kept };
            let loaded =
                load(memory.table(), &settings, &mut file, present, &mut |taken| bar.set_position(taken));
            loaded.map_err(|Cut { why, loaded }| {
                let stays = if memory.abandon() { "the new segment has been removed" } else { "they stay" };
                cut(&why, &loaded, stays)
            })
        }
        Opened::Server(mut link) => {
            let has_items = peer::has_items(&mut link);
            let mut sender = Sender::new(&mut link, arguments, has_items);
            let sent = sender.send_all(file, arguments, &mut |taken| bar.set_position(taken));
            sent.map_err(|why| cut(&why, &sender.loaded, "they stay")).map(|()| sender.loaded)
        }
    };
    bar.finish_and_clear();
    loaded.map_err(named)
}

/// Reads an append-only log into a segment, and says what came of it.
fn import_log(arguments: &Arguments) -> Result<(), Failed> {
    let folder = log::folder(&arguments.file)?;
    // First: no segment is made for a log that cannot be read.
    let manifest = folder.load().map_err(|error| error.to_string())?;
    let manifest = manifest.ok_or_else(|| format!("{}: there is no manifest", arguments.file.display()))?;
    let bytes = manifest
        .live()
        .filter_map(|entry| folder.path_of(entry).metadata().ok())
        .map(|file| file.len())
        .sum();
    let Opened::Segment(memory) = arguments.peer.open(true)? else {
        return Err("a log is read into a segment, not into a server: name one with --segment, or load the log with a redis-server and \
                    import an RDB file that it has saved"
            .into());
    };
    let table = memory.table();
    let settings = peer::settings(&[("rdbchecksum", arguments.ignore_checksum.then(|| "no".to_owned()))])?;
    settings.join(table).map_err(|stop| stop.to_string())?;
    let was_open = begin_reading(table, folder.path.clone())?;
    let bar = peer::bar(bytes, "bytes");
    let scripting = polder_engine::scripting(&settings);
    let mut progress = |taken| bar.set_position(taken);
    let files = Files::open(&folder, manifest)?;
    let loading = table.begin_loading().map_err(|fault| fault.to_string())?;
    let replayed = replay::replay(&loading, &settings, &scripting, files, TornEnd::Ignored, &mut progress)
        .map_err(|why| {
            let left = match memory.abandon() {
                true => "the new segment has been removed".into(),
                false => match undo(table, was_open) {
                    Ok(()) => "the segment is empty again".into(),
                    Err(stop) => format!("a part stays in the segment, which must be removed: {stop}"),
                },
            };
            format!("{why}; {left}")
        })?;
    drop(loading);
    opened::confirm(table).map_err(|stop| stop.to_string())?;
    bar.finish_and_clear();
    let keys: u64 = (0..DATABASES).map(|db| table.keys(db).0).sum();
    println!("{} keys after {} commands", text::count(keys), text::count(replayed.commands));
    tell_foreign(&replayed.base);
    if let Some((path, valid)) = &replayed.torn {
        println!("{} ends inside a record: what stands behind byte {valid} does not count", path.display());
    }
    if let Some(first) = &replayed.first_refused {
        println!(
            "{} commands were refused, as they must have been before; the first: {first}",
            text::count(replayed.refused)
        );
    }
    Ok(())
}

const IS_LOGGED: &str = "a process writes the append-only log of this segment, into which no other log is read: \
     name another segment with --segment, or end that process first";

/// Says in the segment that a log is being read, so that half of it is never used. What a process has left that died while it read is removed. Returns
/// whether servers have opened the memory before.
fn begin_reading(table: &Table, path: PathBuf) -> Result<bool, Failed> {
    let source = Source::Log(path);
    match opened::claim(table, &source).map_err(|stop| stop.to_string())? {
        Claim::Ours if replay::is_empty(table) => Ok(false),
        Claim::Ours => Ok(at_start::empty(table).map(|()| false)?),
        Claim::Open if opened::is_logged(table) => Err(IS_LOGGED.into()),
        Claim::Open if replay::is_empty(table) => {
            opened::mark_reading(table, source).map_err(|stop| stop.to_string())?;
            // One may have begun meanwhile.
            if opened::is_logged(table) {
                opened::confirm(table).map_err(|stop| stop.to_string())?;
                return Err(IS_LOGGED.into());
            }
            Ok(true)
        }
        Claim::Open => {
            Err("the segment has keys already, and a log is read into an empty one only: name another one with --segment".into())
        }
        Claim::Refused(reader) => Err(reader.trouble(table).into()),
    }
}

/// Removes what was read of a log that cannot be read to its end.
fn undo(table: &Table, was_open: bool) -> Result<(), Stop> {
    opened::disclaim(table)?;
    if was_open { opened::claim(table, &Source::Nothing).map(drop) } else { Ok(()) }
}

/// Why an import ended early, and how far it had come.
fn cut(why: &str, loaded: &Loaded, stays: &str) -> String {
    format!("{why}; {} before that: {stays}", told(loaded))
}

/// What an item means to a sender.
enum Heard {
    Key(Waiting),
    /// The value of an item.
    Text(Vec<u8>),
    Element,
    End,
    Nothing,
}

/// The way into a server.
struct Sender<'s> {
    link: &'s mut Link,
    file: &'s Path,
    replaces: bool,
    /// Calls whose replies have not come.
    sent: usize,
    /// The server knows items, and what the file says of the next key as one.
    has_items: bool,
    item: Vec<u8>,
    /// The present key is one.
    reads_item: bool,
    loaded: Loaded,
}

/// A key whose value is being read over.
struct Waiting {
    key: Vec<u8>,
    begin: Begin<'static>,
    /// The number of its type, and where in the file the rest of its value begins.
    value: (u8, u64),
    is_empty: bool,
    /// What the file says of it as an item, and then its value.
    item: Vec<u8>,
    text: Vec<u8>,
}

impl<'s> Sender<'s> {
    fn new(link: &'s mut Link, arguments: &'s Arguments, has_items: bool) -> Sender<'s> {
        let (file, replaces) = (&*arguments.file, arguments.replace);
        Sender {
            link,
            file,
            replaces,
            sent: 0,
            has_items,
            item: Vec::new(),
            reads_item: false,
            loaded: Loaded::default(),
        }
    }
}

impl Sender<'_> {
    fn send_all(
        &mut self,
        mut file: File,
        arguments: &Arguments,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), String> {
        let again = File::open(self.file).map_err(|error| error.to_string())?;
        let mut reader = Reader::file(!arguments.ignore_checksum, arguments.relaxed);
        let (mut buffer, mut at, mut waiting) = (Vec::new(), 0, None);
        loop {
            let item = reader.read(&buffer, &mut at).map_err(|why| why.to_string())?;
            match (item.map(|item| self.hear(item)).transpose()?, &mut waiting) {
                (Some(Heard::Key(key)), waiting) => {
                    *waiting = Some(Waiting { value: reader.value_place(), ..key })
                }
                (Some(Heard::Element), Some(waiting)) => waiting.is_empty = false,
                (Some(Heard::Text(text)), Some(waiting)) => waiting.text = text,
                (Some(Heard::End), waiting) => {
                    if let Some(waiting) = waiting.take() {
                        self.restore(&again, &waiting, reader.taken(), reader.version())?;
                    }
                }
                (Some(_), _) => {}
                (None, _) if reader.is_done() => return self.settle(),
                (None, _) => {
                    buffer.drain(..std::mem::take(&mut at));
                    let wanted = CHUNK.max(buffer.len());
                    let read = file
                        .by_ref()
                        .take(wanted as u64)
                        .read_to_end(&mut buffer)
                        .map_err(|error| error.to_string())?;
                    if read == 0 {
                        return Err(format!("at byte {}: the file ends too early", reader.taken()));
                    }
                    progress(reader.taken());
                }
            }
        }
    }

    fn hear(&mut self, item: Item<'_>) -> Result<Heard, String> {
        match item {
            Item::Begin(begin) => {
                let is_empty = !matches!(begin.kind, Kind::String | Kind::Stream);
                let item = std::mem::take(&mut self.item);
                self.reads_item = !item.is_empty();
                let (key, begin) = (begin.key.to_vec(), Begin { key: b"", ..begin });
                return Ok(Heard::Key(Waiting {
                    key,
                    begin,
                    value: (0, 0),
                    is_empty,
                    item,
                    text: Vec::new(),
                }));
            }
            Item::End => return Ok(Heard::End),
            Item::Database(number) => {
                self.settle()?;
                peer::call(self.link, &["SELECT", &number.to_string()])?;
            }
            Item::Functions(source) => {
                self.settle()?;
                let words: &[&[u8]] =
                    if self.replaces { &[b"FUNCTION", b"LOAD", b"REPLACE"] } else { &[b"FUNCTION", b"LOAD"] };
                peer::call(self.link, &[words, &[source]].concat())?;
                self.loaded.functions.push(source.to_vec());
            }
            Item::Foreign { key, module } => {
                self.loaded.foreign_count += 1;
                self.loaded.foreign.push((key.to_vec(), String::from_utf8_lossy(&module).into_owned()));
            }
            Item::Aux { name, value } if name == ITEM && self.has_items => self.item = value.to_vec(),
            Item::Aux { .. } | Item::Sizes { .. } | Item::Eof => {}
            Item::Text(text) if self.reads_item => return Ok(Heard::Text(text.to_vec())),
            _ => return Ok(Heard::Element),
        }
        Ok(Heard::Nothing)
    }

    /// Sends a value as it stands in the file.
    fn restore(&mut self, file: &File, waiting: &Waiting, end: u64, version: u32) -> Result<(), String> {
        let Waiting { key, begin, value: (number, start), is_empty, .. } = waiting;
        if *is_empty {
            self.loaded.empty += 1;
            return Ok(());
        }
        if begin.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms()) {
            self.loaded.expired += 1;
            return Ok(());
        }
        if let Some(words) = self.item_words(waiting) {
            return self.send(&words);
        }
        let mut payload = vec![*number];
        payload.resize(1 + (end - start) as usize, 0);
        file.read_exact_at(&mut payload[1..], *start).map_err(|error| error.to_string())?;
        seal(version, &mut payload);
        let expiry = begin.expiry_ms.unwrap_or(0).to_string();
        let mut words: Vec<Vec<u8>> =
            vec![b"RESTORE".to_vec(), key.clone(), expiry.into_bytes(), payload, b"ABSTTL".to_vec()];
        if self.replaces {
            words.push(b"REPLACE".to_vec());
        }
        match (begin.idle_seconds, begin.frequency) {
            (Some(idle), _) => words.extend([b"IDLETIME".to_vec(), idle.to_string().into_bytes()]),
            (None, Some(frequency)) => words.extend([b"FREQ".to_vec(), frequency.to_string().into_bytes()]),
            (None, None) => {}
        }
        self.send(&words)
    }

    /// The call that makes an item.
    fn item_words(&self, waiting: &Waiting) -> Option<Vec<Vec<u8>>> {
        let (flags, extras) = waiting.item.split_first_chunk()?;
        let ItemExtras { content_type, cas, .. } = ItemExtras::decode(extras);
        let mut words: Vec<Vec<u8>> = vec![b"ITEM.SET".to_vec(), waiting.key.clone(), waiting.text.clone()];
        if !self.replaces {
            words.push(b"ADD".to_vec());
        }
        let mut option = |name: &str, value: Vec<u8>| words.extend([name.as_bytes().to_vec(), value]);
        option("FLAGS", u32::from_le_bytes(*flags).to_string().into_bytes());
        if !content_type.is_empty() {
            option("TYPE", content_type.to_vec());
        }
        if let Some(cas) = cas {
            option("NEWCAS", cas.to_string().into_bytes());
        }
        if let Some(expiry_ms) = waiting.begin.expiry_ms {
            option("PXAT", expiry_ms.to_string().into_bytes());
        }
        Some(words)
    }

    fn send(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        self.link.send(words).map_err(|error| reason(&error))?;
        self.sent += 1;
        if self.sent == WINDOW { self.settle() } else { Ok(()) }
    }

    /// Waits for all that was sent.
    fn settle(&mut self) -> Result<(), String> {
        while self.sent > 0 {
            self.sent -= 1;
            match self.link.receive().map_err(|error| reason(&error))? {
                Value::Error(text) if text.starts_with(b"BUSYKEY") => self.loaded.kept += 1,
                Value::Status(text) if text == b"NOT_STORED" => self.loaded.kept += 1,
                Value::Error(text) => {
                    return Err(format!("the server says: {}", String::from_utf8_lossy(&text)));
                }
                _ => self.loaded.keys += 1,
            }
        }
        Ok(())
    }
}
