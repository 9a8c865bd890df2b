//! The log: one line per event, as text for people or as JSON for machines, with the levels of Redis.
//!
//! The log file may be moved away at any time (logrotate). The next line creates it again, without a signal.
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use polder_calls::settings::{Id, id};
use polder_runtime::configuration::Configuration;
use tracing_subscriber::filter::{LevelFilter, dynamic_filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

const LEVEL: Id = id("loglevel");
const FILE: Id = id("logfile");
const FORMAT: Id = id("log-format");

/// The levels of `loglevel`, in the order of its words: debug, verbose, notice, warning, nothing.
const LEVELS: [LevelFilter; 5] =
    [LevelFilter::TRACE, LevelFilter::DEBUG, LevelFilter::INFO, LevelFilter::WARN, LevelFilter::OFF];

/// The beginning of the names of our crates. Lines of libraries are not written to this log.
const OURS: &str = "polder";

/// Begins to log as the settings say; the level follows them when they change.
///
/// # Errors
/// One line: the file cannot be opened, or this process logs already.
pub fn begin(settings: &Arc<Configuration>) -> Result<(), String> {
    let json = settings.string(FORMAT) == "json";
    let path = settings.string(FILE);
    let writer = if path.is_empty() {
        BoxMakeWriter::new(std::io::stdout)
    } else {
        let file = LogFile::open(std::path::absolute(&path).unwrap_or_else(|_| path.clone().into()));
        let advice = "create its folder, allow writing to it, or choose another --logfile";
        BoxMakeWriter::new(Mutex::new(
            file.map_err(|error| format!("cannot write the log to {path}: {error}; {advice}"))?,
        ))
    };
    let lines = fmt::layer().with_target(false).with_ansi(false).with_writer(writer);
    let lines = if json { lines.json().flatten_event(true).boxed() } else { lines.boxed() };
    let settings = settings.clone();
    let level = dynamic_filter_fn(move |line, _| {
        line.target().starts_with(OURS)
            && *line.level() <= LEVELS[settings.number(LEVEL) as usize % LEVELS.len()]
    });
    tracing_subscriber::registry()
        .with(lines.with_filter(level))
        .try_init()
        .map_err(|error| format!("cannot begin the log: {error}"))
}

/// A file that is created again when its path no longer leads to it.
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: PathBuf) -> io::Result<LogFile> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(LogFile { path, file })
    }

    fn is_current(&self) -> bool {
        let place = |found: std::fs::Metadata| (found.dev(), found.ino());
        let (named, open) = (std::fs::metadata(&self.path).map(place), self.file.metadata().map(place));
        matches!((named, open), (Ok(named), Ok(open)) if named == open)
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if !self.is_current()
            && let Ok(anew) = LogFile::open(self.path.clone())
        {
            *self = anew;
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_that_was_moved_away_is_made_anew() {
        let path = std::env::temp_dir().join(format!("polder-log-{}", std::process::id()));
        let moved = path.with_extension("1");
        let mut log = LogFile::open(path.clone()).unwrap();
        log.write_all(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        log.write_all(b"two\n").unwrap();
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&moved).as_str(), read(&path).as_str()), ("one\n", "two\n"));
        [path, moved].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
