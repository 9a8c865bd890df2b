//! `polder changes`: what is committed to a segment, in order, for those who follow it.
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use polder_base::words::quote;
use polder_engine::{ChangeCommand, Changes, Memory, Position, Stop};

use crate::text::{self, Failed};

mod files;

/// How often a follower looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Shows what is committed to a segment, or stands in the files of an append-only log, a transaction a line, in the order of the commits.
///
/// The first call turns the change log of the segment on, which costs every write to it something until `--off`. Each line begins with the position
/// behind it; with `--from` another call goes on there. The exit status is 0, or 2 when the segment could not be looked at or a position is not
/// kept any more: then copy the data and follow from a new position.
///
/// Of a log, its incremental files are shown, without the data of its base.
#[derive(clap::Args)]
pub struct Arguments {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`; or the folder of a log, or its manifest.
    #[arg(value_name = "NAME|DIR")]
    name: String,
    #[command(flatten)]
    whose: text::Whose,
    /// Position to begin at, as a line shows it, or `now`, which is the default for a segment; a log is shown from its beginning.
    #[arg(long, value_name = "POSITION")]
    from: Option<String>,
    /// Wait for more at the end.
    #[arg(long)]
    follow: bool,
    /// Print JSON, an object a line.
    #[arg(long)]
    json: bool,
    /// Turn the change log off, for all followers.
    #[arg(long, conflicts_with_all = ["from", "follow", "json"])]
    off: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let shown = match files::path_of(&arguments.name) {
        Some(path) => arguments.show_files(&path),
        None => text::attach(&arguments.name, &arguments.whose).and_then(|memory| arguments.show(&memory)),
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.tell(),
    }
}

fn failed(stop: &Stop) -> Failed {
    let text = stop.to_string();
    Failed { text: text.strip_prefix("ERR ").unwrap_or(&text).into(), status: Failed::UNATTACHED }
}

impl Arguments {
    fn show(&self, memory: &Memory) -> Result<(), Failed> {
        if self.off {
            return memory.stop_changes().map_err(|stop| failed(&stop));
        }
        let from = self.position()?;
        let mut changes = memory.changes(from).map_err(|stop| failed(&stop))?;
        self.show_all(&mut changes)
    }

    /// Where to begin; none: now, or at the beginning.
    fn position(&self) -> Result<Option<Position>, Failed> {
        let text = self.from.as_deref().filter(|text| *text != "now");
        let wrong = |text: &str| Failed {
            text: format!(
                "{text} is no position: give one that a line began with, IDENTITY:OFFSET:DB, or now"
            ),
            status: Failed::UNATTACHED,
        };
        text.map(|text| Position::parse(text).ok_or_else(|| wrong(text))).transpose()
    }

    fn show_files(&self, path: &Path) -> Result<(), Failed> {
        let unfit =
            ["--follow", "--off"].into_iter().zip([self.follow, self.off]).find(|(_, is_given)| *is_given);
        if let Some((option, _)) = unfit {
            let text = format!("{option} is for segments, and {} is a log: name the segment", path.display());
            return Err(Failed { text, status: Failed::UNATTACHED });
        }
        let (from, mut out) = (self.position()?, std::io::stdout().lock());
        files::show(path, from.as_ref(), &mut |place, commands| {
            let line = if self.json { json_of(place, commands) } else { line_of(place, commands) };
            // Else the reader has gone.
            writeln!(out, "{line}").is_ok()
        })
    }

    fn show_all(&self, changes: &mut Changes<'_>) -> Result<(), Failed> {
        let mut out = std::io::stdout().lock();
        // A follower keeps it, before there is anything to follow.
        if self.position()?.is_none() && !self.follow {
            let _ = writeln!(out, "{}", changes.position());
        }
        loop {
            while let Some(changed) = changes.next().map_err(|stop| failed(&stop))? {
                let (place, commands) = (changed.position.to_string(), &changed.commands);
                let line = if self.json { json_of(&place, commands) } else { line_of(&place, commands) };
                if writeln!(out, "{line}").is_err() {
                    // The reader has gone.
                    return Ok(());
                }
            }
            if !self.follow || out.flush().is_err() {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

fn line_of(place: &str, commands: &[ChangeCommand]) -> String {
    let command = |command: &ChangeCommand| {
        let words: Vec<String> = command.words.iter().map(|word| quote(word)).collect();
        format!("[{}] {}", command.db, words.join(" "))
    };
    let commands: Vec<String> = commands.iter().map(command).collect();
    format!("{place} {}", commands.join("; "))
}

/// A text as JSON.
fn json_text(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

fn json_of(place: &str, commands: &[ChangeCommand]) -> String {
    let text = |word: &Vec<u8>| match std::str::from_utf8(word) {
        Ok(text) => json_text(text),
        Err(_) => {
            format!("{{\"hex\":\"{}\"}}", word.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    };
    let command = |command: &ChangeCommand| {
        let words: Vec<String> = command.words.iter().map(text).collect();
        format!("{{\"db\":{},\"command\":[{}]}}", command.db, words.join(","))
    };
    let commands: Vec<String> = commands.iter().map(command).collect();
    format!("{{\"position\":{},\"commands\":[{}]}}", json_text(place), commands.join(","))
}
