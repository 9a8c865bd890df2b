//! `polder serve`: attaches the memory, starts the server, and stops it when it is told to.
//!
//! ```text
//!   serve.rs     flags and file, the segment, the server, the end       daemon.rs    daemonize: a process in the background
//!   opening.rs   what the log says of the memory and of this machine    signals.rs   what signals do
//! ```
mod daemon;
mod opening;
mod signals;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use polder_base::time::now_ms;
use polder_calls::settings::{Id, Settings, document, file, id};
use polder_engine::{Memory, Options, Origin, PageChoice};
use polder_persist::at_start::{self, Reading};
use polder_runtime::configuration::{self, Configuration};
use polder_server::{Server, log};

use self::signals::Attention;

use crate::text;

const SEGMENT: Id = id("segment");
const SIZE: Id = id("segment-size");
const PAGES: Id = id("segment-pages");
const MODE: Id = id("segment-mode");
const GROUP: Id = id("segment-group");
const OWNER: Id = id("segment-owner");
const THREADS: Id = id("threads");
const PID_FILE: Id = id("pidfile");
const DAEMONIZE: Id = id("daemonize");
const LOG_FILE: Id = id("logfile");

/// Serves a memory to Redis clients.
///
/// Settings are those of a redis.conf and Polder's own, as `--name value`: `--segment NAME`, `--port N`, `--threads N`,
/// `--bind ADDRESS...`, `--unixsocket PATH`, ... A configuration file comes first, or after `--config`. --help lists all
/// settings; polder.conf, which is installed with the program, has them with comments.
#[derive(clap::Args)]
#[command(after_long_help = overview())]
pub struct Arguments {
    /// A configuration file and settings.
    #[arg(value_name = "FILE | --SETTING VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[cfg(test)]
impl Arguments {
    /// The words without a configuration file's name.
    pub fn flags(&self) -> &[String] {
        let file = usize::from(self.words.first().is_some_and(|word| !word.starts_with("--")));
        &self.words[file..]
    }
}

/// All settings with their first values.
fn overview() -> String {
    format!("Settings and their first values:\n\n{}", document::overview())
}

/// Runs the server until it is stopped. What prevents it is one line on the standard error output.
pub fn run(arguments: &Arguments) -> ExitCode {
    match serve(arguments) {
        Ok(status) => status,
        Err(line) => {
            eprintln!("polder: {line}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<ExitCode, String> {
    let (is_detached, words) = match arguments.words.split_first() {
        Some((first, rest)) if first == daemon::DETACHED => (true, rest),
        _ => (false, arguments.words.as_slice()),
    };
    let settings = Arc::new(settings(words)?);
    let is_daemon = settings.is_on(DAEMONIZE) && !daemon::is_supervised();
    match (is_daemon, is_detached) {
        (true, false) => return daemon::start(words),
        (_, true) => daemon::leave_session()?,
        (false, false) => {}
    }
    let attention = Attention::begin()?;
    log::begin(&settings)?;
    tracing::info!(pid = std::process::id(), "polder {} starts", env!("CARGO_PKG_VERSION"));
    if settings.is_on(DAEMONIZE) && !is_daemon {
        tracing::info!("daemonize is set, and systemd started this process: it stays in the foreground");
    }
    if is_daemon && settings.string(LOG_FILE).is_empty() {
        tracing::warn!(
            "the log ends here: a server in the background has no terminal; set logfile to a path"
        );
    }
    let options = options(&settings)?;
    let began_ms = now_ms();
    let memory = Arc::new(Memory::attach_unread(&options).map_err(|fault| plain(&fault.to_string()))?);
    let (usage, pages) = (memory.table().usage(), memory.table().segment().mapping().pages().clone());
    // What does not start leaves no segment behind.
    let (server, pid_file) = start(&memory, &settings, &options, began_ms).inspect_err(|_| {
        memory.abandon();
    })?;
    // From the moment that clients are told that the server is ready, it ends in order.
    attention.stops(server.stopper());
    attention.reloads(server.reloader());
    for name in settings.take_overruled() {
        tracing::warn!(
            "'{name}' of the configuration file has no effect: the segment has another value; change it with CONFIG SET or a flag"
        );
    }
    for refusal in &pages.refusals {
        tracing::warn!("the memory has smaller pages than --segment-pages asked for: {refusal}");
    }
    announce(&settings, &server, usage.ceiling, usage.page_bytes);
    if is_detached {
        daemon::settle()?;
    }
    let well = wait(server, &memory);
    let well = attention.end() && well;
    drop(pid_file);
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts to serve a memory.
fn start(
    memory: &Arc<Memory>,
    settings: &Arc<Configuration>,
    options: &Options,
    began_ms: u64,
) -> Result<(Server, PidFile), String> {
    settings
        .join(memory.table())
        .map_err(|stop| format!("the settings of {} cannot be read: {stop}", options.segment))?;
    opening::describe(memory, &options.segment, began_ms);
    tell_origin(memory, options, memory.table().usage().ceiling);
    opening::warn(memory, settings, &options.segment);
    let server = match at_start::begin(memory.table(), settings)? {
        Reading::Done(loaded) => {
            Server::start(memory.clone(), settings.clone(), loaded).map_err(|failure| failure.to_string())?
        }
        Reading::Log(reading) => {
            // Clients that come meanwhile are told that the data is being read.
            let server = Server::start_loading(memory.clone(), settings.clone())
                .map_err(|failure| failure.to_string())?;
            tracing::info!(folder = %reading.folder().display(), "the append-only log is being read");
            let (lock, loaded) =
                reading.read(memory.table(), settings, polder_engine::scripting(settings))?;
            server.open(loaded, lock);
            server
        }
    };
    let pid_file = PidFile::write(&settings.string(PID_FILE))?;
    Ok((server, pid_file))
}

/// Says where the segment came from, and what of the settings for a new one has no effect on it.
fn tell_origin(memory: &Memory, options: &Options, ceiling: u64) {
    let Options { segment, ceiling: wanted, .. } = options;
    match memory.origin() {
        Origin::Made => {
            if let Some(doubt) = text::doubt_of_size(segment, *wanted) {
                tracing::warn!("{doubt}");
            }
            return;
        }
        Origin::Renewed { closed: true } => {
            tracing::info!(
                "{segment} is of an earlier boot of this machine, was closed in order, and is whole"
            )
        }
        Origin::Renewed { closed: false } => tracing::warn!(
            "{segment} is of an earlier boot of this machine and was in use when that ended; it is whole, but after a power cut the \
             last seconds of changes may be missing"
        ),
        Origin::Found => {}
    }
    if *wanted != 0 && wanted.next_multiple_of(4096) != ceiling {
        let (wanted, ceiling) = (text::bytes(*wanted), text::bytes(ceiling));
        tracing::warn!(
            "segment-size {wanted} has no effect: {segment} exists and may grow to {ceiling}; export it and import it into a new one"
        );
    }
}

/// The settings that a file and flags give.
pub fn settings(words: &[String]) -> Result<Configuration, String> {
    let mut words = words.to_vec();
    if let Some(late) = words.iter().find(|word| ["--help", "-h", "--version", "-V"].contains(&word.as_str()))
    {
        return Err(format!("{late} stands alone: 'polder serve --help', 'polder --version'"));
    }
    let mut path: Option<PathBuf> = None;
    if let Some(at) = words.iter().position(|word| word == "--config") {
        if at + 1 == words.len() {
            return Err("--config: a file is missing".into());
        }
        path = Some(words.drain(at..at + 2).nth(1).unwrap_or_default().into());
    }
    let (before, flags) = file::flags(&words).map_err(|wrong| wrong.to_string())?;
    match (before.as_slice(), &path) {
        ([], _) => {}
        ([first], None) => path = Some(first.into()),
        ([word, ..], _) => return Err(format!("'{word}' is neither a setting nor the configuration file")),
    }
    let path = path.map(|path| std::path::absolute(&path).unwrap_or(path));
    let content = path
        .as_deref()
        .map_or(Ok(file::Content::default()), file::read)
        .map_err(|wrong| wrong.to_string())?;
    let settings =
        Configuration::begin(path, &content.settings, &flags).map_err(|wrong| wrong.to_string())?;
    settings.users().declare(content.users);
    configuration::rename(&content.renames).map_err(|wrong| wrong.to_string())?;
    Ok(settings)
}

/// Which segment to attach, and how to make it when it is not there.
pub fn options(settings: &Settings) -> Result<Options, String> {
    let pages = match settings.string(PAGES).as_str() {
        "1gb" => PageChoice::Huge,
        "2mb" => PageChoice::Large,
        _ => PageChoice::Default,
    };
    let group = settings.string(GROUP);
    Ok(Options {
        segment: settings.string(SEGMENT),
        ceiling: settings.number(SIZE) as u64,
        create: true,
        pages,
        mode: settings.number(MODE) as u32,
        group: if group.is_empty() { None } else { Some(group_number(&group)?) },
        owner: settings.string(OWNER).parse().map_err(|error| format!("segment-owner: {error}"))?,
    })
}

/// The number of a group that is given by name or number.
fn group_number(group: &str) -> Result<u32, String> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups =
        std::fs::read_to_string("/etc/group").map_err(|error| format!("cannot read /etc/group: {error}"))?;
    let found =
        groups.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == group);
    found
        .and_then(|fields| fields.get(2)?.parse().ok())
        .ok_or_else(|| format!("there is no group '{group}': create it or choose another --segment-group"))
}

/// A fault's text without the code that protocols put first.
fn plain(text: &str) -> String {
    text.strip_prefix("ERR ").unwrap_or(text).into()
}

/// Says what is served where, with the defaults that were not named.
fn announce(settings: &Settings, server: &Server, ceiling: u64, page_bytes: u64) {
    // First: the signal to stop may follow at once.
    server.tell_on_stop(|| tell_systemd(sd_notify::NotifyState::Stopping));
    for (door, places) in &server.doors {
        tracing::info!("{door:24} {places}");
    }
    tracing::info!(
        segment = settings.string(SEGMENT),
        segment_bytes_max = ceiling,
        page_bytes,
        threads = settings.number(THREADS),
        listening = server.doors.iter().map(|(_, places)| places.as_str()).collect::<Vec<_>>().join(" "),
        pid = std::process::id(),
        "ready to accept connections"
    );
    tell_systemd(sd_notify::NotifyState::Ready);
}

/// Waits until the server ends, by SHUTDOWN or by a signal.
fn wait(server: Server, memory: &Memory) -> bool {
    let well = server.wait();
    match memory.table().segment().removed() {
        true => tracing::info!("bye: the memory is gone, as its segment was removed"),
        false => tracing::info!("bye: the memory stays"),
    }
    well
}

/// Tells systemd, if it started us.
fn tell_systemd(state: sd_notify::NotifyState) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        tracing::warn!(%error, "systemd was not told");
    }
}

/// A file with our process number, which goes when we go.
struct PidFile(Option<PathBuf>);

impl PidFile {
    fn write(path: &str) -> Result<PidFile, String> {
        if path.is_empty() {
            return Ok(PidFile(None));
        }
        let advice = "create its folder, allow writing to it, or choose another --pidfile";
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("cannot write {path}: {error}; {advice}"))?;
        Ok(PidFile(Some(Path::new(path).to_owned())))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.as_ref().map(std::fs::remove_file) {
            tracing::warn!(%error, "the pidfile cannot be removed");
        }
    }
}
