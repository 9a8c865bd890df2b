//! The log: one line per happening, as text for people or as JSON for machines, with Redis's levels.
use std::fs::OpenOptions;
use std::sync::{Arc, Mutex};

use polder_commands::settings::{Id, Settings, id};
use tracing_subscriber::filter::{LevelFilter, dynamic_filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

const LEVEL: Id = id("loglevel");
const FILE: Id = id("logfile");
const FORMAT: Id = id("log-format");

/// What `loglevel`'s words mean, in the setting's order: debug, verbose, notice, warning, nothing.
const LEVELS: [LevelFilter; 5] = [LevelFilter::TRACE, LevelFilter::DEBUG, LevelFilter::INFO, LevelFilter::WARN, LevelFilter::OFF];

/// Begins to log as the settings say; the level follows them when they change.
///
/// # Errors
/// One line: the file cannot be opened, or this process logs already.
pub fn begin(settings: &Arc<Settings>) -> Result<(), String> {
    let json = settings.string(FORMAT) == "json";
    let path = settings.string(FILE);
    let writer = if path.is_empty() {
        BoxMakeWriter::new(std::io::stdout)
    } else {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let advice = "create its folder, allow writing to it, or choose another --logfile";
        BoxMakeWriter::new(Mutex::new(file.map_err(|error| format!("cannot write the log to {path}: {error}; {advice}"))?))
    };
    let lines = fmt::layer().with_target(false).with_ansi(false).with_writer(writer);
    let lines = if json { lines.json().flatten_event(true).boxed() } else { lines.boxed() };
    let settings = settings.clone();
    let level = dynamic_filter_fn(move |line, _| *line.level() <= LEVELS[settings.number(LEVEL) as usize % LEVELS.len()]);
    tracing_subscriber::registry().with(lines.with_filter(level)).try_init().map_err(|error| format!("cannot begin the log: {error}"))
}
