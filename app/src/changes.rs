//! `polder changes`: what is committed to a segment, in order, for those who follow it.
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use polder_base::words::quote;
use polder_engine::{ChangeCommand, Changed, Changes, Memory, Position, Stop};

use crate::text::{self, Failed};

/// How often a follower looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Shows what is committed to a segment, a transaction a line, in the order of the commits.
///
/// The first call turns the change log of the segment on, which costs every write to it something until `--off`. Each line begins with the position
/// behind it; with `--from` another call goes on there. The exit status is 0, or 2 when the segment could not be looked at or a position is not
/// kept any more: then copy the data and follow from a new position.
#[derive(clap::Args)]
pub struct Arguments {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`.
    name: String,
    #[command(flatten)]
    whose: text::Whose,
    /// Position to begin at, as a line shows it, or `now`.
    #[arg(long, value_name = "POSITION", default_value = "now")]
    from: String,
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
    match text::attach(&arguments.name, &arguments.whose).and_then(|memory| arguments.show(&memory)) {
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
        let from = match self.from.as_str() {
            "now" => None,
            text => Some(Position::parse(text).ok_or_else(|| Failed {
                text: format!(
                    "{text} is no position: give one that a line began with, IDENTITY:OFFSET:DB, or now"
                ),
                status: Failed::UNATTACHED,
            })?),
        };
        let mut changes = memory.changes(from).map_err(|stop| failed(&stop))?;
        self.show_all(&mut changes)
    }

    fn show_all(&self, changes: &mut Changes<'_>) -> Result<(), Failed> {
        let mut out = std::io::stdout().lock();
        // A follower keeps it, before there is anything to follow.
        if self.from == "now" && !self.follow {
            let _ = writeln!(out, "{}", changes.position());
        }
        loop {
            while let Some(changed) = changes.next().map_err(|stop| failed(&stop))? {
                let line = if self.json { json_of(&changed) } else { line_of(&changed) };
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

fn line_of(changed: &Changed) -> String {
    let command = |command: &ChangeCommand| {
        let words: Vec<String> = command.words.iter().map(|word| quote(word)).collect();
        format!("[{}] {}", command.db, words.join(" "))
    };
    let commands: Vec<String> = changed.commands.iter().map(command).collect();
    format!("{} {}", changed.position, commands.join("; "))
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

fn json_of(changed: &Changed) -> String {
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
    let commands: Vec<String> = changed.commands.iter().map(command).collect();
    format!("{{\"position\":\"{}\",\"commands\":[{}]}}", changed.position, commands.join(","))
}
