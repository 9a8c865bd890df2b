//! The log: one line per happening, as text for people or as JSON for machines, with Redis's levels.
use std::fs::OpenOptions;
use std::sync::Mutex;

use polder_commands::settings::{Id, Settings, id};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt;

const LEVEL: Id = id("loglevel");
const FILE: Id = id("logfile");
const FORMAT: Id = id("log-format");

/// What `loglevel`'s words mean, in the setting's order: debug, verbose, notice, warning, nothing.
const LEVELS: [LevelFilter; 5] = [LevelFilter::TRACE, LevelFilter::DEBUG, LevelFilter::INFO, LevelFilter::WARN, LevelFilter::OFF];

/// Begins to log as the settings say.
///
/// # Errors
/// One line: the file cannot be opened, or this process logs already.
pub fn begin(settings: &Settings) -> Result<(), String> {
    let level = LEVELS[settings.number(LEVEL) as usize % LEVELS.len()];
    let json = settings.string(FORMAT) == "json";
    let path = settings.string(FILE);
    let writer = if path.is_empty() {
        fmt::writer::BoxMakeWriter::new(std::io::stdout)
    } else {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let advice = "create its folder, allow writing to it, or choose another --logfile";
        fmt::writer::BoxMakeWriter::new(Mutex::new(file.map_err(|error| format!("cannot write the log to {path}: {error}; {advice}"))?))
    };
    let builder = fmt().with_max_level(level).with_target(false).with_ansi(false).with_writer(writer);
    let begun = if json { builder.json().flatten_event(true).finish().try_init() } else { builder.finish().try_init() };
    begun.map_err(|error| format!("cannot begin the log: {error}"))
}
